"""What a captured queue is given becomes nodes of a graph."""
