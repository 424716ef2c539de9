"""What the environment asks for: messages, and ranges for profilers."""

import importlib.util
import logging
from pathlib import Path

import pytest

import forebay as fb
from microbench.raw import compile_c
from tests.conftest import DEVICES
from tests.helpers.processes import python

PROGRAM = """
import forebay as fb
with fb.Device() as device:
    queue = device.queue()
    queue.launch(device.program("kernel void one() { }")["one"], 1, 1)
    queue.finish()
"""


def run(**environment):
    return python("-c", PROGRAM, FOREBAY_DEVICE=DEVICES[0], PYTHONUNBUFFERED=1, **environment)


# Messages


def test_devices_and_programs_are_logged_under_forebay(device, caplog):
    caplog.set_level(logging.DEBUG, "forebay")
    device.program("kernel void logged() { }")
    with fb.Device(device.name, private=True):
        pass
    messages = [record.getMessage() for record in caplog.records if record.name.startswith("forebay.")]
    assert any(message.startswith("built a program (logged) for") for message in messages)
    assert any(message.startswith(f"opening {device.name}") for message in messages)
    assert f"closed {device.name}" in messages


@pytest.mark.needs("no validation layer")
class TestEnvironment:
    @pytest.mark.parametrize(("level", "built", "closed"), [(None, 0, 0), ("info", 1, 0), ("DEBUG", 1, 1)])
    def test_a_level(self, level, built, closed):
        done = run(FOREBAY_LOG=level)
        assert done.returncode == 0
        assert done.stderr.count("forebay.queues.device: built a program (one)") == built
        assert done.stderr.count(f"closed {DEVICES[0]}") == closed
        assert level or done.stderr == ""

    @pytest.mark.parametrize(
        ("name", "value", "words"),
        [
            ("FOREBAY_LOG", "loud", "the levels are debug"),
            ("FOREBAY_RANGES", "perf", "the libraries are nvtx, ittapi"),
            ("FOREBAY_RANGES", "nvtx", "pip install nvtx"),
            ("FOREBAY_RANGES", "ittapi", "pip install ittapi"),
        ],
    )
    def test_what_there_is_not(self, name, value, words):
        if importlib.util.find_spec(value):
            pytest.skip(f"{value} is installed")
        done = run(**{name: value})
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr
        assert "Traceback" not in done.stderr

    def test_a_profiler_sees_the_calls(self):
        pytest.importorskip("nvtx")
        done = run(
            FOREBAY_RANGES="nvtx", NVTX_INJECTION64_PATH=compile_c(Path(__file__).with_name("profiler.c")).as_posix()
        )
        assert (done.returncode, done.stderr) == (0, "")
        ranges = done.stdout.splitlines()
        assert ranges.count("pop") * 2 == len(ranges)
        place = ranges.index("push Queue.finish")
        assert ranges[place + 1] == "pop"
        assert ranges.index("push Device.program") < place

    def test_ranges_without_a_profiler(self):
        """ITT's own interface for profilers is not driven here: Intel's OpenCL runtime has an ITT of its own in it."""
        pytest.importorskip("ittapi")
        done = run(FOREBAY_RANGES="ittapi")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
