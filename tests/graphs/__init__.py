"""Capture and graphs."""
