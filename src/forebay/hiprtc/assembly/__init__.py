"""Statements of assembly for GPUs in a program, as C++."""

from forebay.hiprtc.assembly.statements import without_assembly

__all__ = ["without_assembly"]
