"""Microbenchmarks: what a call costs next to the same driver calls in a compiled C loop, in one process and run."""
