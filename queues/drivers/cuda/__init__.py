"""The CUDA driver: NVIDIA's GPUs by their own driver library. Only this package deals with `CUstream` and the like."""
