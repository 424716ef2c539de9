"""Texture references, which HIP has from before objects."""
from __future__ import annotations
__all__: list[str] = []
