"""The OpenCL driver."""
