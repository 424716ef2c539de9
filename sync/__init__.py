"""Epochs, clocks and waits between queues, the null-queue rules, finish."""
