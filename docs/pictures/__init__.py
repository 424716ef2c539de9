"""Draws the pictures of the documentation: ``python -m docs.pictures`` in a checkout."""
