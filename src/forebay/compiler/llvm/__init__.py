"""Reads and changes the modules of LLVM that clang makes, as text."""
