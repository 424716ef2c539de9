"""Any thread may use any object: what a launch was decided from is looked at again when it is submitted."""

import itertools
import threading

import numpy as np
import pytest

import forebay as fb
from tests.helpers.processes import output_of

SCRATCH = """
kernel void use(global uint* out, global const uint* counts, global uint* stack) {
    for (uint i = 0; i < counts[0]; i++)
        stack[i] = i;
    out[0] = counts[0];
}
"""


class Closes:
    """A number that closes something when it is read."""

    def __init__(self, thing):
        self.thing = thing

    def __index__(self):
        self.thing.close()
        return 3

    def __array__(self, dtype=None, copy=None):
        return np.array(int(self.__index__()), dtype)


def test_an_argument_that_closes_a_buffer(device, queue, program):
    buffer = device.zeros(10, "i4")
    queue.finish()
    epoch = queue.epoch
    with pytest.raises(fb.ClosedError, match="argument 0"):
        queue.launch(program["fill"], 1, 10, buffer, Closes(buffer))
    assert queue.epoch == epoch


def test_an_argument_that_closes_a_buffer_is_not_bound(device, queue, program):
    buffer = device.zeros(10, "i4")
    with pytest.raises(fb.ClosedError, match="argument 0"):
        program["fill"].bind(queue, 1, 10, buffer, Closes(buffer))


def test_a_value_that_closes_the_buffer_it_fills(device, queue):
    buffer = device.zeros(10, "i4")
    queue.finish()
    epoch = queue.epoch
    with pytest.raises(fb.ClosedError):
        queue.fill(buffer, Closes(buffer))
    assert queue.epoch == epoch


def test_a_value_that_closes_the_queue(device, make_queue, program):
    queue, buffer = make_queue(), device.zeros(10, "i4")
    with pytest.raises(fb.ClosedError):
        queue.launch(program["fill"], 1, 10, buffer, Closes(queue))


def test_an_argument_that_closes_the_kernel(device, queue):
    program = device.program("kernel void put(global int* to, int value) { to[0] = value; }")
    buffer = device.zeros(10, "i4")
    queue.finish()
    with pytest.raises(fb.ClosedError):
        queue.launch(program["put"], 1, 1, buffer, Closes(program["put"]))


RACE = """
import sys, threading
import numpy as np
import forebay as fb

what = sys.argv[1]
done = 0
with fb.Device() as device:
    queue = device.queue()
    kernel = device.program("kernel void put(global int* to, long value) { to[0] = value; }")["put"]
    host = np.ones(1024, "i4")
    other = device.zeros(1024, "i4")
    calls = {
        "fill": lambda buffer: queue.fill(buffer, 1),
        "copy": lambda buffer: queue.copy(buffer, host),
        "copy from": lambda buffer: queue.copy(other, buffer),
        "launch": lambda buffer: queue.launch(kernel, 1, 1, buffer, np.int64(3)),
    }
    for turn in range(200):
        buffer = device.empty(1024, "i4") if turn % 2 else queue.alloc(1024, "i4")
        begun = threading.Event()
        def close():
            begun.wait()
            buffer.close()
        thread = threading.Thread(target=close)
        thread.start()
        begun.set()
        try:
            for _ in range(20):
                calls[what](buffer)
                done += 1
        except fb.ClosedError:
            pass
        thread.join()
    device.finish()
print("done")
"""


@pytest.mark.threads
@pytest.mark.parametrize("what", ["fill", "copy", "copy from", "launch"])
def test_a_close_in_the_middle_of_a_call(what, request):
    assert output_of("-c", RACE, what).split() == ["done"]


@pytest.mark.threads
@pytest.mark.executes(run=False)
def test_a_size_holds_when_the_launch_is_submitted(device):
    """One thread copies what a size is read from, another launches on the same queue."""
    with fb.Device(device.name, debug=True, private=True) as debugging:
        queue = debugging.queue()
        kernel = debugging.program(SCRATCH)["use"]
        kernel.scratch("stack", fb.MaxOver("counts") * 4 + 4)
        out, counts = debugging.zeros(1, "u4"), debugging.zeros(1, "u4")
        values = [np.array([value], "u4") for value in (1, 500, 2, 900)]
        stop = threading.Event()

        def write():
            for value in itertools.cycle(values):
                queue.copy(counts, value)
                # A launch measures again if somebody has written meanwhile: without a pause, for as long as they do.
                if stop.wait(2e-4):
                    break

        thread = threading.Thread(target=write)
        thread.start()
        try:
            for _ in range(100):
                queue.launch(kernel, 1, 1, out, counts)  # raises when the kernel wrote behind its scratch
        finally:
            stop.set()
            thread.join()
