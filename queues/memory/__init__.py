"""Buffers, what moves bytes in and out of them, and the pool of stream-ordered memory."""
