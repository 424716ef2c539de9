"""What of HIP's functions is compiled, because programs call it most: launches, and memory in the order of streams."""
