"""What CUDA's driver loads for a program: NVRTC, NVIDIA's OpenCL compiler, and what is read from PTX and cubins."""
