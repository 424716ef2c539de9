"""What a launch costs: penstock and pyopencl next to the C loop, and beside idle and busy queues."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass

import pyopencl as cl

import penstock as ps
from microbench.interleaved import Measured, Sample, measure, ratio_interval
from microbench.raw import RawLoop

SOURCE = "kernel void fill(global float *a, int n) { if (get_global_id(0) < n) a[get_global_id(0)] = n; }"
FLOOR = "C loop"
AGAIN = "C loop again (A/A)"


@dataclass(frozen=True)
class Row:
    """One line of a table: microseconds per launch, and the ratios to the C loop of the same run."""

    name: str
    minimum: float
    median: float
    ratio_of_minimums: float
    ratio_of_medians: float
    interval: tuple[float, float]


def rows(measured: dict[str, Measured], floor: str = FLOOR) -> list[Row]:
    """Every measurement against the floor."""
    below = measured[floor]
    return [
        Row(
            name,
            above.minimum,
            above.median,
            above.minimum / below.minimum,
            above.median / below.median,
            ratio_interval(above, below),
        )
        for name, above in measured.items()
    ]


def timed(call) -> Sample:
    """A sample of a Python call; the loop's own cost, some 10 ns a turn, is in it."""

    def sample(n: int) -> float:
        turns = range(n)
        start = time.perf_counter()
        for _ in turns:
            call()
        return time.perf_counter() - start

    return sample


class Subject:
    """One kernel and one buffer, launched in every way there is, each on a queue of its own state."""

    def __init__(self, device: ps.Device):
        self.device = device
        self.buffer = device.zeros(1024)
        self.kernel = device.program(SOURCE)["fill"]
        self.context = device.driver.context

    def raw_kernel(self) -> cl.Kernel:
        """A kernel object of its own with the same arguments set."""
        program = cl.Program(self.context, SOURCE).build(cache_dir=False)
        kernel = cl.Kernel(program, "fill")
        self._set_arguments(kernel)
        return kernel

    def _set_arguments(self, kernel: cl.Kernel) -> None:
        import numpy as np

        native = self.device.driver.allocate(4096)
        self._kept = getattr(self, "_kept", [])
        self._kept.append(native)
        if native.handle:
            kernel.set_arg(0, cl.MemoryObject.from_int_ptr(native.handle, retain=True))
        else:
            kernel.set_arg(0, cl.SVMPointer(_Address(native.address, native.nbytes)))
        kernel.set_arg(1, np.int32(100))


class _Address(cl.SVMPointer):
    """pyopencl's way to name an SVM address."""

    def __init__(self, address: int, nbytes: int):
        self._address, self._nbytes = address, nbytes

    svm_ptr = property(lambda self: self._address)
    size = property(lambda self: self._nbytes)


def per_launch(subject: Subject, queue: ps.Queue, calls: int, rounds: int, gated: bool) -> dict[str, Measured]:
    """Every way to launch, on one queue."""
    import numpy as np

    kernel, buffer = subject.kernel, subject.buffer
    raw_kernel, other_kernel = subject.raw_kernel(), subject.raw_kernel()
    raw = RawLoop(queue.native, raw_kernel)
    bound = kernel.bind(queue, 1, 1, buffer, 100)
    launch = queue.launch
    counter = iter(range(1 << 62))
    native, one, number = queue.native, (1,), np.int32(100)
    samples: dict[str, Sample] = {
        FLOOR: raw,
        AGAIN: raw,
        "penstock queue.launch": timed(lambda: launch(kernel, 1, 1, buffer, 100)),
        "penstock bound launch": timed(bound),
        "C loop, one int set each time": lambda n: raw.changing(n, 1),
        "penstock queue.launch, one int changed": timed(lambda: launch(kernel, 1, 1, buffer, next(counter) & 0xFFFF)),
        "penstock kernel[grid, block, queue]": timed(lambda: kernel[1, 1, queue](buffer, 100)),
    }
    del number
    return _with_pyopencl(samples, subject, native, other_kernel, one, queue, calls, rounds, gated)


def _with_pyopencl(samples, subject, native, other_kernel, one, queue, calls, rounds, gated):
    import numpy as np

    enqueue = cl.enqueue_nd_range_kernel
    samples["pyopencl enqueue_nd_range_kernel"] = timed(lambda: enqueue(native, other_kernel, one, one))
    pointer = subject._kept[-1]
    if pointer.handle:
        memory = cl.MemoryObject.from_int_ptr(pointer.handle, retain=True)
        samples["pyopencl kernel(queue, …)"] = timed(lambda: other_kernel(native, one, one, memory, np.int32(100)))
    return measure(samples, calls, rounds, settle=lambda: (native.finish(), queue.finish()))


def beside_idle(subject: Subject, counts: list[int], calls: int, rounds: int) -> dict[str, dict[str, Measured]]:
    """Launches on the null queue and on a non-blocking one, beside idle blocking queues; the counts in turn."""
    device = subject.device
    results: dict[str, dict[str, Measured]] = {}
    for kind, queue in (("null queue", device.null_queue), ("non-blocking queue", device.queue(blocking=False))):
        idle: list[ps.Queue] = []
        merged: dict[str, list] = {}
        raw = RawLoop(queue.native, subject.raw_kernel())
        launch, kernel, buffer = queue.launch, subject.kernel, subject.buffer
        sample = timed(lambda: launch(kernel, 1, 1, buffer, 100))  # noqa: B023 - used within this turn of the loop
        settle = lambda: (queue.native.finish(), queue.finish())  # noqa: E731, B023
        # Up and down again, several times: an order that only rises would confuse the number of queues with time.
        for sweep in range(4):
            for count in counts if sweep % 2 == 0 else reversed(counts):
                while len(idle) < count:
                    idle.append(device.queue())
                while len(idle) > count:
                    idle.pop().close()
                part = measure({FLOOR: raw, AGAIN: raw, "launch": sample}, calls, max(rounds // 4, 5), settle)
                for name, value in part.items():
                    merged.setdefault(f"{name}|{count}", []).append(value.microseconds)
        for closing in idle:
            closing.close()
        import numpy as np

        results[kind] = {name: Measured(np.concatenate(values)) for name, values in merged.items()}
    return results


def beside_busy(subject: Subject, count: int, calls: int, rounds: int) -> dict[str, Measured]:
    """Null-queue launches beside blocking queues held at gates, which got no new work since the last one.

    The null queue is ordered after them, so it is held too: the C loop runs in the same state.
    """
    import numpy as np

    device = subject.device
    queue = device.null_queue
    raw = RawLoop(queue.native, subject.raw_kernel())
    launch, kernel, buffer = queue.launch, subject.kernel, subject.buffer
    call = timed(lambda: launch(kernel, 1, 1, buffer, 100))
    merged: dict[str, list[float]] = {}
    for _ in range(rounds):
        for number in (0, count):
            for name, sample in ((FLOOR, raw), ("launch", call), (AGAIN, raw)):
                with ExitStack() as stack:
                    busy = [device.queue() for _ in range(number)]
                    for other in busy:
                        stack.enter_context(other._gate())
                        other.launch(kernel, 1, 1, buffer, 100)
                    # beside none, the null queue is held by a gate of its own: it is full of work in both cases
                    if not number:
                        stack.enter_context(queue._gate())
                    launch(kernel, 1, 1, buffer, 100)
                    merged.setdefault(f"{name}|{number}", []).append(sample(calls) / calls * 1e6)
                device.finish()
                for other in busy:
                    other.close()
    return {name: Measured(np.array(values)) for name, values in merged.items()}
