"""What of HIP's functions is compiled, because programs call it most."""
