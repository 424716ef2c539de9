"""Compares the stubs with the compiled modules: names, parameters, defaults; also where a signature is written by hand.

It looks at build/view, which `python setup.py view` makes.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

VIEW = Path(__file__).resolve().parent.parent / "build" / "view"
# Slots of types, whose own signature has any arguments; what has a default only for the message of an
# error.
ALLOWED = """
forebay.queues.launch.launch.BoundLaunch.__call__
forebay.races.checker.CheckedFunction.__call__
forebay.queues.queue.Queue.wait
"""

modules = [
    ".".join(stub.relative_to(VIEW).with_suffix("").parts)
    for stub in VIEW.rglob("*.pyi")
    if "sycl" not in stub.parts and "hip" not in stub.parts  # the first needs dpctl
]
modules.append("forebay.hip")  # which has a stub itself, and with it all that is in the package
if "forebay.queues.queue" not in modules:
    sys.exit(f"there are no stubs in {VIEW}: run python setup.py view first")
with tempfile.TemporaryDirectory() as folder:
    allowed = Path(folder, "allowed")
    allowed.write_text(ALLOWED)
    options = ["--mypy-config-file", "pyproject.toml", "--allowlist", str(allowed)]
    options += ["--concise", "--ignore-missing-stub", "--ignore-disjoint-bases"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", *options, *modules], env={**os.environ, "MYPYPATH": str(VIEW)}
    )
sys.exit(done.returncode)
