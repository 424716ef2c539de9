"""Devices, queues, kernels, buffers and the path of a launch."""
