"""The Level Zero driver: one in-order immediate command list per queue."""
