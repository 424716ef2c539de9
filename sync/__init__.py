"""Epochs, clocks and the waits between queues."""
