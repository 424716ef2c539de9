"""SPIR-V modules: what reads them, and what changes them. `opcodes` is the one table of numbers."""
