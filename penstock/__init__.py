"""HIP-style streams on in-order queues of OpenCL, Level Zero and SYCL devices."""
