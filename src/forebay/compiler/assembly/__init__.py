"""Statements of assembly for GPUs in a program, as C++."""

from forebay.compiler.assembly.statements import without_assembly

__all__ = ["without_assembly"]
