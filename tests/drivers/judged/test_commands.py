"""What each mock driver shows: it accepts commands, and what waits for a gate is not done."""

import numpy as np
import pytest

import forebay as fb

from .conftest import JUDGED, in_a_thread

pytestmark = JUDGED
NAMES = {"nothing": "nothing:custom:0", "cuda": "cuda:gpu:0"}


def test_it_is_listed_and_selected(device, backend):
    info = next(info for info in fb.devices() if info.backend == backend)
    assert info.usable
    assert info.name == device.name == fb.Device(info.name).name == NAMES[backend]
    with pytest.raises(fb.ArgumentTypeError):
        device.adopt_queue(object())


def test_it_accepts_commands_and_memory_does_not_change(device, kernels):
    queue, buffer = device.queue(blocking=False), device.empty(64, "u4", usm_type="shared")
    queue.fill(buffer, 7)
    queue.launch(kernels["advance"], 4, 16, buffer, 1)
    queue.finish()
    assert queue.empty
    assert not np.from_dlpack(buffer).any()


def test_nothing_is_done_behind_a_closed_gate(device, kernels):
    first, second, free = (device.queue(blocking=False) for _ in range(3))
    buffer, ran = device.empty(64, "u4"), []
    gate = first.gate()
    first.launch(kernels["advance"], 4, 16, buffer, 1)
    event = first.record()
    second.wait(event)
    second.host(lambda: ran.append("host"))
    free.launch(kernels["advance"], 4, 16, buffer, 1)
    free.finish()
    assert not event.done
    assert not first.query()
    assert not second.query()
    with pytest.raises(fb.TimeoutError):
        second.finish(timeout=0)
    assert not ran
    ended = in_a_thread(gate.open)
    second.finish()
    assert ended()
    assert event.done
    assert ran == ["host"]
    assert first.query()


def test_the_null_queue_comes_after_blocking_ones_and_before(device, kernels):
    before, after, buffer = device.queue(), device.queue(), device.empty(64, "u4")
    gate = before.gate()
    device.null_queue.launch(kernels["advance"], 4, 16, buffer, 1)
    after.launch(kernels["advance"], 4, 16, buffer, 1)
    assert not device.null_queue.query()
    assert not after.query()
    gate.open()
    after.finish()
    assert device.null_queue.query()


def test_time_goes_on_from_one_event_to_the_next(device):
    queue = device.queue(timing=True)
    first, second = queue.record(timing=True), queue.record(timing=True)
    queue.finish()
    assert second - first >= 0


def test_another_device_waits_for_an_event(device):
    with fb.Device(device.name, private=True) as other:
        first, second = device.queue(blocking=False), other.queue(blocking=False)
        gate = first.gate()
        second.wait(first.record())
        second.fill(other.empty(4, "u4"), 1)
        assert not second.query()
        gate.open()
        second.finish()


@pytest.mark.parametrize("source", ["kernel int f() {}", "kernel void f(int *a) {}", "kernel void f(Unknown a) {}"])
def test_what_it_cannot_read_does_not_build(device, source):
    with pytest.raises(fb.BuildError):
        device.program(source)
