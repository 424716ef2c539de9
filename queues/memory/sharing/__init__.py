"""Memory that other packages own, and memory that is handed to them."""
