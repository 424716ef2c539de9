"""Any thread may use any object: what a launch was decided from is looked at again when it is submitted.

What an argument's own code closes in the middle of a command is in `test_code_in_between`.
"""

import contextlib
import itertools
import threading

import numpy as np
import pytest

import forebay as fb
from tests.helpers.kernels import taking
from tests.helpers.threads import together

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


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("what", ["kernel", "buffer"])
def test_an_argument_that_closes_what_is_launched(device, what, debug):
    with fb.Device(device.name, private=True, debug=debug) as own:
        kernel, buffer = own.program(taking("int"))["take"], own.zeros(10, "i4")
        with pytest.raises(fb.ClosedError):
            own.queue().launch(kernel, 1, 1, buffer, Closes(kernel if what == "kernel" else buffer))


USES = {
    "fill": lambda queue, kernel, buffer: queue.fill(buffer, 1),
    "copy": lambda queue, kernel, buffer: queue.copy(buffer, np.ones(1024, "i8")),
    "copy from": lambda queue, kernel, buffer: queue.copy(queue.device.empty(1024, "i8"), buffer),
    "launch": lambda queue, kernel, buffer: queue.launch(kernel, 1, 1, buffer, np.int64(3)),
    "copy of a part": lambda queue, kernel, buffer: buffer.reshape(32, 32)[:, 1].copy(),
    "views": lambda queue, kernel, buffer: buffer.reshape(32, 32).view("u1")[3:],
}


@pytest.mark.threads
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_close_in_the_middle_of_a_call(device, queue, use):
    kernel = device.program(taking("long"))["take"]
    for turn in range(200):
        buffer, start = device.empty(1024, "i8") if turn % 2 else queue.alloc(1024, "i8"), threading.Barrier(2)

        def call(buffer=buffer, start=start):
            start.wait()
            with contextlib.suppress(fb.ClosedError):
                for _ in range(20):
                    use(queue, kernel, buffer)

        together(call, lambda buffer=buffer, start=start: (start.wait(), buffer.close()))
    device.finish()


@pytest.mark.threads
@pytest.mark.executes
def test_a_size_holds_when_the_launch_is_submitted(device):
    """One thread copies what a size is read from, another launches on the same queue."""
    with fb.Device(device.name, debug=True, private=True) as debugging:
        queue, stop = debugging.queue(), threading.Event()
        kernel = debugging.program(SCRATCH)["use"]
        kernel.scratch("stack", fb.MaxOver("counts") * 4 + 4)
        out, counts = debugging.zeros(1, "u4"), debugging.zeros(1, "u4")

        def write():
            for value in itertools.cycle([1, 500, 2, 900]):
                queue.copy(counts, np.array([value], "u4"))
                # A launch measures again if somebody has written meanwhile: without a pause, for as long as they do.
                if stop.wait(2e-4):
                    break

        def launch():
            try:
                for _ in range(100):
                    queue.launch(kernel, 1, 1, out, counts)  # raises when the kernel wrote behind its scratch
            finally:
                stop.set()

        together(write, launch)
