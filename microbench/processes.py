"""Starts Python processes that see the same drivers as this one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping

NULL_LEVELZERO = "FOREBAY_NULL_LEVELZERO"  # set where tools.null_levelzero has started this process


def run_python(*arguments: str, prefix: tuple[str, ...] = (), **environment: str | None) -> tuple[float, str]:
    """Run a Python process, by a command that is its prefix; return its seconds and what it printed.

    Variables of the environment are set, or taken away where they are None. Raises RuntimeError when it fails.
    """
    command, base = [sys.executable, *arguments], dict(os.environ)
    if NULL_LEVELZERO in os.environ:
        from tools import null_levelzero

        command, base = null_levelzero.child_command("python", *arguments)
    changed: Mapping[str, str | None] = {**base, **environment}
    variables = {name: value for name, value in changed.items() if value is not None}
    begun = time.perf_counter()
    done = subprocess.run([*prefix, *command], env=variables, capture_output=True, text=True, check=False)
    taken = time.perf_counter() - begun
    if done.returncode:
        raise RuntimeError(f"{' '.join([*prefix, *command])} failed:\n{done.stderr[-2000:]}")
    return taken, done.stdout
