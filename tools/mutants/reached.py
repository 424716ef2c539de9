"""Which mutants a test comes by: a plugin for pytest. Imported as ``forebay.mutant``: the switch for Python's files."""

import json
import mmap
import os
import time
from pathlib import Path

import pytest

MARKS = 4096  # bytes, one a mutant, in the file that FOREBAY_MUTANTS_REACHED names; children of a test inherit it

if __name__ != "forebay.mutant":  # a process of pytest
    WORKER = Path(os.environ["FOREBAY_MUTANTS_FOLDER"]) / os.environ.get("PYTEST_XDIST_WORKER", "main")
    WORKER.write_bytes(bytes(MARKS))
    os.environ["FOREBAY_MUTANTS_REACHED"] = str(WORKER)
PATH = os.environ.get("FOREBAY_MUTANTS_REACHED")
reached = None
if PATH:
    with open(PATH, "r+b") as file:
        reached = mmap.mmap(file.fileno(), MARKS)
chosen = int(os.environ.get("FOREBAY_MUTANT", 0))
failed = set()


def mutant(number):
    """Whether this mutant is chosen; notes that it was asked."""
    if reached is not None:
        reached[number] = 1
    return number == chosen


def pytest_runtest_logreport(report):
    if report.failed:
        failed.add(report.nodeid)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    """Note what a test, with its fixtures, comes by."""
    reached[:] = bytes(MARKS)
    began = time.monotonic()
    result = yield
    seen = [number for number, mark in enumerate(reached[:]) if mark]
    line = {
        "test": item.nodeid, "seconds": time.monotonic() - began, "reached": seen, "passed": item.nodeid not in failed,
    }  # fmt: skip
    with WORKER.with_suffix(".jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    return result
