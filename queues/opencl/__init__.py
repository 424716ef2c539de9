"""The OpenCL driver. Only this package deals with `cl_command_queue` and the like."""
