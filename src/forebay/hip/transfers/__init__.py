"""Copies, memsets and the variables of modules."""
