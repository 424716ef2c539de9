"""Graphs: what is captured or made node by node, and how it is replayed."""
