"""Kernels made from expressions: each element of a result by itself, or all elements combined to one."""
