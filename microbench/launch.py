"""Measures the cost of a launch: forebay and others next to the C loop, and beside idle and busy queues.

A round runs every subject once, in a newly shuffled order. The queue is finished before each subject. In the *held*
state a gate then holds the queue while it is filled, so that on a CPU device the kernels do not compete with the
launches for the cores. When the gate opens they run, untimed.
"""

from __future__ import annotations

import timeit
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np

import forebay as ps
from microbench.interleaved import Measured, Sample, measure
from microbench.raw import open_raw

SOURCE = "kernel void fill(global float *a, int n) { if ((int)get_global_id(0) < n) a[get_global_id(0)] = n; }"
FLOOR = "C loop"
AGAIN = "C loop again (A/A)"
LAUNCH = "queue.launch"
GRAPH = "graph.launch"
RECORDED = "the driver's own recording, from C"
UPLOADING_FLOOR = "C loop, bytes written each time, with an event"


def timed(statement: str, setup: str = "pass", **names: object) -> Sample:
    """A sample of a Python statement. It includes the loop itself, some 10 ns per turn."""
    return timeit.Timer(statement, setup, globals=names).timeit


class Subject:
    """One kernel and its arguments, launched as one group of one work-item."""

    def __init__(self, device: ps.Device):
        self.device = device
        self.buffer = device.zeros(1024)
        self.kernel = device.program(SOURCE)["fill"]
        self.raw = open_raw(device, SOURCE)

    def launches(self, queue: ps.Queue) -> Sample:
        """`Queue.launch` with the same arguments each time."""
        return timed("launch(kernel, 1, 1, buffer, 100)", launch=queue.launch, kernel=self.kernel, buffer=self.buffer)


@contextmanager
def state_of(subject: Subject, queue: ps.Queue, held: bool) -> Iterator[None]:
    """Finish the queue, hold it if asked to, and finish it again after the sample."""
    subject.raw.settle(queue)  # forebay does not know the C loop's launches
    queue.finish()
    gate = queue._gate() if held else None
    yield
    if gate is not None:
        gate.open()
    subject.raw.settle(queue)
    queue.finish()


def ways_to_launch(subject: Subject, calls: int, rounds: int, held: bool) -> dict[str, Measured]:
    """The same launch in every possible way, on one blocking queue."""
    queue = subject.device.queue()
    kernel, buffer = subject.kernel, subject.buffer
    raw = subject.raw.loop(queue)
    samples: dict[str, Sample] = {
        FLOOR: raw,
        AGAIN: raw,
        LAUNCH: subject.launches(queue),
        "bound launch": timed("go()", go=kernel.bind(queue, 1, 1, buffer, 100)),
        "kernel[grid, block, queue](…)": timed(
            "kernel[1, 1, queue](buffer, 100)", kernel=kernel, queue=queue, buffer=buffer
        ),
        "C loop, one int set each time": lambda n: raw.changing(n, 1),
        "queue.launch, one int changed": timed(
            "launch(kernel, 1, 1, buffer, next(numbers))",
            "import itertools; numbers = itertools.count()",
            launch=queue.launch,
            kernel=kernel,
            buffer=buffer,
        ),
        **subject.raw.others(queue),
    }
    measured = measure(samples, calls, rounds, lambda: state_of(subject, queue, held))
    queue.close()
    return measured


def by_value(subject: Subject, nbytes: int, calls: int, rounds: int) -> dict[str, Measured]:
    """Launches with `nbytes` bytes by value, unchanged and new each time, next to launches with a buffer."""
    queue = subject.device.queue()
    same, new = bytes(nbytes), np.zeros(nbytes, np.uint8)
    names = {"launch": queue.launch, "kernel": subject.kernel}
    samples: dict[str, Sample] = {
        UPLOADING_FLOOR: subject.raw.uploading_loop(queue, nbytes),
        UPLOADING_FLOOR + " again (A/A)": subject.raw.uploading_loop(queue, nbytes),
        LAUNCH: subject.launches(queue),
        "by value, the same bytes": timed("launch(kernel, 1, 1, mark, 100)", mark=ps.by_value(same), **names),
        "by value, new bytes each time": timed(
            "fill(next(numbers)); launch(kernel, 1, 1, mark, 100)",
            "import itertools; numbers = itertools.cycle(range(256))",
            fill=new[::64].fill,
            mark=ps.by_value(new),
            **names,
        ),
        "only filling the bytes": timed(
            "fill(next(numbers))", "import itertools; numbers = itertools.cycle(range(256))", fill=new[::64].fill
        ),
    }
    measured = measure(samples, calls, rounds, lambda: state_of(subject, queue, True))
    queue.close()
    return measured


def graphs(subject: Subject, length: int, calls: int, rounds: int, held: bool) -> dict[str, Measured]:
    """A captured chain of launches, replayed, next to as many launches from C; a call is the whole chain."""
    queue = subject.device.queue()
    kernel, buffer = subject.kernel, subject.buffer
    with queue.capture() as graph:
        for _ in range(length):
            queue.launch(kernel, 1, 1, buffer, 100)
    executable = graph.instantiate()
    raw = subject.raw.loop(queue)
    recorded = subject.raw.recorded(queue, length)
    samples: dict[str, Sample] = {
        FLOOR: lambda n: raw(n * length),
        AGAIN: lambda n: raw(n * length),
        GRAPH: timed("replay(queue)", replay=executable.launch, queue=queue),
        **({RECORDED: recorded} if recorded else {}),
    }
    measured = measure(samples, calls, rounds, lambda: state_of(subject, queue, held))
    queue.close()
    return measured


def with_scratch(device: ps.Device, calls: int, rounds: int, sizes: int = 600) -> tuple[dict[str, Measured], ps.Stats]:
    """A launch whose scratch follows from so many reductions over three buffers, none written to, next to one that is
    given a buffer instead; and what was counted meanwhile.
    """
    queue = device.queue()
    source = (
        "kernel void many(global const int *a, global const int *b, global const int *c, global uchar *stack) "
        "{ stack[0] = 1; }"
    )
    inputs = [device.array(np.arange(1, 1001, dtype="i4")) for _ in range(3)]
    plain, kernel = (device.program(source)["many"] for _ in range(2))
    size = ps.SumOver("a") * 0 + 64
    for i in range(sizes - 1):
        size = size + (ps.MaxOver, ps.MinOver, ps.SumOver)[i % 3]("abc"[i // 3 % 3]) // (i + 1)
    kernel.scratch("stack", size)
    names = dict(zip("abc", inputs, strict=True), launch=queue.launch)
    samples: dict[str, Sample] = {
        LAUNCH: timed("launch(kernel, 1, 1, a, b, c, room)", kernel=plain, room=device.empty(1 << 20, "u1"), **names),
        f"with {sizes} reductions over 3 buffers": timed("launch(kernel, 1, 1, a, b, c)", kernel=kernel, **names),
        f"{LAUNCH} again (A/A)": timed(
            "launch(kernel, 1, 1, a, b, c, room)", kernel=plain, room=device.empty(1 << 20, "u1"), **names
        ),
    }
    for sample in samples.values():
        sample(1)
    device.finish()
    before = device.stats

    @contextmanager
    def held() -> Iterator[None]:
        queue.finish()
        gate = queue._gate()
        yield
        gate.open()
        queue.finish()

    measured = measure(samples, calls, rounds, held)
    return measured, device.stats - before


def beside_idle(
    subject: Subject, blocking: bool, counts: list[int], calls: int, rounds: int
) -> dict[int, dict[str, Measured]]:
    """Launches on the null queue, or on a non-blocking one, beside idle blocking queues.

    The counts are taken up and down in turn, or time would be confused with the number of queues.
    """
    device = subject.device
    queue = device.null_queue if blocking else device.queue(blocking=False)
    raw = subject.raw.loop(queue)
    samples: dict[str, Sample] = {FLOOR: raw, AGAIN: raw, LAUNCH: subject.launches(queue)}
    sweeps = 4
    found: dict[int, list[dict[str, Measured]]] = {count: [] for count in counts}
    for sweep in range(sweeps):
        idle: list[ps.Queue] = []
        for count in sorted(counts, reverse=sweep % 2 == 1):
            idle.extend(device.queue() for _ in range(count - len(idle)))
            del idle[count:]
            device.finish()  # those that were dropped are gone now
            found[count].append(
                measure(samples, calls, max(rounds // sweeps, 2), lambda: state_of(subject, queue, True))
            )
    return {
        count: {name: Measured.joined(part[name] for part in parts) for name in samples}
        for count, parts in found.items()
    }


def beside_busy(subject: Subject, count: int, calls: int, rounds: int) -> dict[str, Measured]:
    """Null-queue launches beside blocking queues held at gates, without new work since the last null-queue launch."""
    device, queue = subject.device, subject.device.null_queue
    raw = subject.raw.loop(queue)
    samples: dict[str, Sample] = {FLOOR: raw, AGAIN: raw, LAUNCH: subject.launches(queue)}

    @contextmanager
    def busy() -> Iterator[None]:
        with ExitStack() as gates:
            others = [device.queue() for _ in range(max(count, 1))]
            # Beside none, the null queue is held by a non-blocking queue it waits for: full of work in both cases.
            holder = device.queue(blocking=False)
            if not count:
                others = []
                gates.enter_context(holder._gate())
                queue.wait(holder)
            for other in others:
                gates.enter_context(other._gate())
                other.launch(subject.kernel, 1, 1, subject.buffer, 100)
            queue.launch(subject.kernel, 1, 1, subject.buffer, 100)  # orders the null queue after all of them
            yield
        device.finish()
        subject.raw.settle(queue)

    return measure(samples, calls, rounds, busy)
