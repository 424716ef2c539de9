"""CUDA's driver. Only this package deals with `CUstream` and the like."""
