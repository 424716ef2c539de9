"""Run the checks of these names, or all: ``python -m tools.checks layers pages``. Exits with 1 on any finding."""

import importlib
import sys

NAMES = ("commands", "docstrings", "environment", "layers", "locks", "owners", "packages", "pages", "pictures", "site")

found = [
    f"{name}: {finding}"
    for name in sys.argv[1:] or NAMES
    for finding in importlib.import_module(f"tools.checks.{name}").findings()
]
print(*found, sep="\n", end="\n" * bool(found))
sys.exit(bool(found))
