"""The OpenCL driver: everything that knows what a `cl_command_queue` is."""
