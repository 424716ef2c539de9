"""What functions are like, other ways to launch them, and what no device here can do."""
