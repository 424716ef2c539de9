"""Random programs: run directly, and captured and replayed, they leave the same bytes."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import forebay as fb
from tests.helpers.observer import EXECUTES

from .conftest import SIZE

QUEUES, BUFFERS = 3, 3
NEEDS_HOST = {"upload", "download", "host"}  # functions of which null hardware never calls any
OPERATIONS = [
    "advance", "advance", "combine", "gather", "gather", "take", "bound", "fill", "copy", "upload", "download", "host",
]  # fmt: skip
operations = st.tuples(
    st.sampled_from([each for each in OPERATIONS if EXECUTES or each not in NEEDS_HOST]),
    st.integers(0, QUEUES - 1),
    st.integers(0, BUFFERS - 1),
    st.integers(0, 9),
)


class Play:
    """The same commands each time, on queues that are ordered wherever they touch the same memory."""

    def __init__(self, device, kernels, queues):
        self.kernels = kernels
        self.queues = queues
        self.buffers = [device.array(np.full(SIZE, i + 1, "u4")) for i in range(BUFFERS)]
        self.host = np.full(SIZE, 11, "u4")
        self.bound = [kernels["advance"].bind(queues[0], 4, 16, buffer, 1) for buffer in self.buffers]
        self.block = np.zeros(300, "u4")  # one array for all launches that take its bytes
        device.finish()

    def one(self, what, queue, at, k):
        kernels, a, b = self.kernels, self.buffers[at], self.buffers[(at + 1) % BUFFERS]
        if what == "advance":
            queue.launch(kernels["advance"], 4, 16, a, k)
        elif what == "combine":
            queue.launch(kernels["combine"], 4, 16, a, b, k)
        elif what == "gather":
            self.block[:] = k
            queue.launch(kernels["gather"], 4, 16, a, fb.by_value(self.block), 300)
        elif what == "take":
            queue.launch(kernels["take"], 4, 16, a, np.array([k, k + 1], "u4").tobytes())
        elif what == "bound":
            self.bound[at]()
        elif what == "fill":
            queue.fill(a, k)
        elif what == "copy":
            queue.copy(a, b)
        elif what == "upload":
            queue.copy(a, self.host)
        elif what == "download":
            queue.copy(self.host, a)
        else:
            queue.host(lambda: np.multiply(self.host, 3, out=self.host))

    def all(self, program):
        """Each command comes after the one before, by a wait if that was on another queue; the first queue joins."""
        origin = last = self.queues[0]
        for what, q, at, k in program:
            queue = origin if what == "bound" else self.queues[q]
            if queue is not last:
                queue.wait(last)
            self.one(what, queue, at, k)
            last = queue
        if last is not origin:
            origin.wait(last)

    def state(self):
        return [buffer.get().tolist() for buffer in self.buffers] + [self.host.tolist()]


@settings(max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(operations, min_size=1, max_size=12), st.integers(1, 3), st.booleans())
def test_captured_and_replayed_is_the_same(device, kernels, program, times, blocking):
    # An upload on a queue reads host memory at once, one in a graph when it runs, as in HIP: the direct run finishes
    # before each command, so that this makes no difference.
    queues = [device.queue(blocking=blocking) for _ in range(QUEUES)]
    direct, captured = (Play(device, kernels, queues) for _ in range(2))
    for _ in range(times):
        for step in program:
            device.finish()
            direct.all([step])
        device.finish()
    with queues[0].capture() as graph:
        captured.all(program)
    assert captured.host.tolist() == [11] * SIZE
    captured.block[:] = 99
    gate = queues[0].gate()
    for _ in range(times):
        graph.launch(queues[0])
    gate.open()
    device.finish()
    if EXECUTES:
        assert captured.state() == direct.state()
    for queue in queues:
        queue.close()
