"""Checks of the repository. Each module has `findings()`, which yields what is wrong, one line each."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
