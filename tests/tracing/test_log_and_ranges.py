"""What the environment asks for: messages, and ranges for profilers."""

import logging
import os
import sys
from types import SimpleNamespace
from unittest import mock

import pytest

import forebay as fb
from forebay.tracing import watching
from forebay.tracing.environment import DOMAIN, Ranges
from tests.conftest import DEVICES
from tests.helpers.processes import python

PROGRAM = """
import forebay as fb
with fb.Device() as device:
    queue = device.queue()
    queue.launch(device.program("kernel void one() { }")["one"], 1, 1)
    queue.finish()
"""


def test_devices_and_programs_are_logged_under_forebay(device, caplog):
    caplog.set_level(logging.DEBUG, "forebay")
    device.program("kernel void logged() { }")
    with fb.Device(device.name, private=True):
        pass
    messages = [record.getMessage() for record in caplog.records if record.name.startswith("forebay.")]
    assert any(message.startswith("built a program (logged) for") for message in messages)
    assert any(message.startswith(f"opening {device.name}") for message in messages)
    assert f"closed {device.name}" in messages


BUILT = "forebay.queues.device: built a program (one)"


@pytest.mark.needs("no validation layer")
@pytest.mark.parametrize(("name", "value", "status", "words", "missing"), [
    ("FOREBAY_LOG", "info", 0, [BUILT], "closed"),
    ("FOREBAY_LOG", "DEBUG", 0, [BUILT, f"closed {DEVICES[0]}"], "Traceback"),
    ("FOREBAY_LOG", "loud", 2, ["the levels are debug"], "Traceback"),
    ("FOREBAY_RANGES", "perf", 2, ["the libraries are nvtx, ittapi"], "Traceback"),
    ("FOREBAY_RANGES", "nvtx", 2, ["pip install nvtx"], "Traceback"),
])  # fmt: skip
def test_the_environment(tmp_path, name, value, status, words, missing):
    (tmp_path / "nvtx.py").write_text("raise ImportError('it is not installed')")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = python("-c", PROGRAM, FOREBAY_DEVICE=DEVICES[0], PYTHONPATH=path, **{name: value})
    assert (done.returncode, done.stdout) == (status, "")
    assert [done.stderr.count(word) for word in words] == [1] * len(words)
    assert missing not in done.stderr


@pytest.mark.parametrize("library", ["nvtx", "ittapi"])
def test_a_profiler_sees_the_public_calls(device, queue, library):
    seen = []
    made = {
        "nvtx": SimpleNamespace(
            push_range=lambda name, domain: seen.append((domain, name)), pop_range=lambda domain: seen.append(domain)
        ),
        "ittapi": SimpleNamespace(
            domain=str, string_handle=str, task_begin=lambda *given: seen.append(given), task_end=seen.append
        ),
    }
    with mock.patch.dict(sys.modules, made):
        ranges = Ranges(library)
    watching.add(ranges)
    device.program("kernel void seen() { }")
    queue.finish()
    watching.remove(ranges)
    queue.finish()
    names = [each[1] for each in seen if each != DOMAIN]
    assert (names[0], names[-1], seen.count(DOMAIN)) == ("Device.program", "Queue.finish", len(names))
    assert seen[-2:] == [(DOMAIN, "Queue.finish"), DOMAIN]
