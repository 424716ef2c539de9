"""Textures and surfaces. Kernels read and write them in software: an object is a descriptor in memory of the device."""
