"""Asks pyright how many of forebay's public names have a type that every type checker knows. Fails below LEAST.

It looks at build/view, which `python setup.py view` makes: the modules and stubs of a wheel.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

LEAST = 0.98
VIEW = Path(__file__).resolve().parent.parent / "build" / "view"

ask = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", "--ignoreexternal"]
asked = subprocess.run(
    [*ask, "--verifytypes", "forebay"], env={**os.environ, "PYTHONPATH": str(VIEW)}, stdout=subprocess.PIPE, text=True
)
try:
    answer = json.loads(asked.stdout)["typeCompleteness"]
    score = answer["completenessScore"]
    root = Path(answer["moduleRootDirectory"])
except (ValueError, KeyError):
    sys.exit(f"pyright has no answer:\n{asked.stdout}")
if root != VIEW / "forebay":  # another forebay would always pass, and an empty one has nothing to complain of
    sys.exit(f"pyright looked at {root}, not at {VIEW}: run python setup.py view first")
lacking = [
    (symbol["name"], message["message"])
    for symbol in answer["symbols"]
    if symbol["isExported"] and not (symbol["isTypeKnown"] and not symbol["isTypeAmbiguous"])
    for message in symbol["diagnostics"]
]
print(f"types: pyright knows {score:.1%} of the public names; {LEAST:.0%} is the least")
if score < LEAST:
    for name, message in lacking:
        print(f"{name}: {message}")
    sys.exit(1)
