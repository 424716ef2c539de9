"""What only Intel's runtime for CPUs needs of kernels. The folders of OpenCL and SYCL use it, which both reach it."""
