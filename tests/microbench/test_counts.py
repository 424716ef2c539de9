"""What an operation takes of the driver does not rise, nor do forebay's own instructions.

microbench/counts.json has the table. After a change that is meant, `python -m microbench counts --write` under
tools.null_levelzero writes it anew.
"""

import json

import pytest

from microbench import counts, instructions
from microbench.processes import run_python

WRITE = "if that is meant: FOREBAY_DEVICE=level_zero python -m tools.null_levelzero python -m microbench counts"

TURNOVER = "queue made, used and dropped + finish of the device", "the same after 300 queues at once"

# the table is that of null hardware, where nothing depends on how far the device is
pytestmark = pytest.mark.needs("null hardware", "Level Zero", "no validation layer")


def test_no_operation_takes_more_of_the_driver():
    _, text = run_python("-m", "microbench", "counts", "--json")  # a process that has seen all its objects made
    different = counts.differences(counts.read()["level_zero"], json.loads(text))
    assert not different, "\n".join([*different, f"{WRITE} --write"])


def test_no_operation_takes_more_instructions():
    if reason := instructions.why_not():
        pytest.skip(reason)
    expected = counts.read().get(instructions.part())
    if expected is None:
        pytest.skip(f"{counts.TABLE.name} has no {instructions.part()}")
    found = instructions.instructions(instructions.COMPARED)
    different = [
        f"{name}: {expected[name]['forebay']:,} -> {numbers['forebay']:,}"
        for name, numbers in found.items()
        if abs(numbers["forebay"] / expected[name]["forebay"] - 1) > 0.01
    ]
    assert not different, "\n".join([*different, f"{WRITE} --instructions --write"])


def test_a_rise_is_named_and_a_fall_too():
    before = {"launch": {"zeCommandListAppendLaunchKernel": 1, "events": 1}}
    now = {"launch": {"zeCommandListAppendLaunchKernel": 2}}
    assert counts.differences(before, now) == [
        "launch: zeCommandListAppendLaunchKernel 1 -> 2",
        "launch: events 1 -> 0",
    ]
    assert counts.differences(before, before) == []


def test_queues_that_are_gone_cost_nothing():
    """A driver's queue that waits to be used again is not looked at by what does not take one."""
    if reason := instructions.why_not():
        pytest.skip(reason)
    fresh, after = instructions.instructions(TURNOVER).values()
    assert after["forebay"] < 1.02 * fresh["forebay"], f"{fresh} -> {after}"
