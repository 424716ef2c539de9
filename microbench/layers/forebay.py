"""forebay: what its queues do, launches bound beforehand, and its HIP."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import forebay as fb

from .. import kernels
from . import AbsentError, Ground, Layer, Run, Subject, timed

ARRAYS, ELEMENTS = 100, 100
REST = "\nfor i in rest: launch(kernel, 1, 1, a, 100)"
CHANGES = {
    "nothing": ("for i in some: launch(kernel, 1, 1, a, 100)", 0),
    "1 scalar": ("launch(kernel, 1, 1, a, next(numbers))" + REST, 1),
    "10 scalars": ("n = next(numbers)\nfor i in some: launch(kernel, 1, 1, a, n)" + REST, 10),
    "all scalars": ("n = next(numbers)\nfor i in some: launch(kernel, 1, 1, a, n)", 0),
    "all pointers": ("for each in arrays[next(numbers) & 1]: launch(kernel, 1, 1, each, 100)", 0),
    "all group counts": ("n = groups[next(numbers) & 1]\nfor i in some: launch(kernel, n, 1, a, 100)", 0),
}
"""Statements of a stretch of launches, and how many of them change; 0 stands for none or for all."""


def run_threads(launches: Sequence[Run], n: int) -> float:
    """Seconds from the first thread's begin to the last one's end, each with its own launches."""
    start = threading.Barrier(len(launches))
    times: list[tuple[float, float]] = []

    def work(launch: Run) -> None:
        start.wait()
        begun = time.perf_counter()
        launch(n)
        times.append((begun, time.perf_counter()))

    threads = [threading.Thread(target=work, args=(launch,)) for launch in launches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return max(done for _, done in times) - min(begun for begun, _ in times)


def turns(launches: Run, rest: Run, whole: bool) -> Run:
    """Turns of a program, of which only the launches count unless the whole does."""

    def run(n: int) -> float:
        taken = 0.0
        for _ in range(n):
            launching, waiting = launches(1), rest(1)
            taken += launching + waiting if whole else launching
        return taken

    return run


class OfQueues(Layer):
    """What the layers share that use queues of the device all stand on."""

    def __init__(self, ground: Ground):
        super().__init__(ground)
        self.device: fb.Device = ground.device
        self._queues: list[fb.Queue] = []

    def queues(self, count: int) -> list[fb.Queue]:
        """So many blocking queues."""
        self._queues += [self.device.queue() for _ in range(count - len(self._queues))]
        return self._queues[:count]

    def queue(self, kind: str) -> fb.Queue:
        """A queue of a kind; a new one where there can be several."""
        if kind == "null":
            return self.device.null_queue
        if kind == "per-thread":
            return self.device.per_thread_queue
        return self.device.queue(blocking=kind == "blocking")

    def subject(self, run: Run, *queues: fb.Queue, note: str = "", hold: bool = True) -> Subject:
        """A sample, and the queues to hold while it runs."""
        around = self.ground.held if hold else self.ground.free
        return Subject(run, lambda: around(*queues), note)

    def take(self, arguments: int = 2) -> fb.Kernel:
        """The kernel with so many arguments."""
        return self.ground.program[kernels.name_of(arguments)]

    def _stretch(self, length: int, change: str, indent: str) -> Subject:
        (queue,) = self.queues(1)
        body, some = CHANGES[change]
        names: dict[str, Any] = {
            "launch": queue.launch,
            "kernel": self.take(),
            "a": self.ground.buffers[0],
            "numbers": itertools.count(1000),
            "groups": (1, 2),
            "some": range(some or length),
            "rest": range(length - some),
            "step": queue.step() if indent else None,
        }
        if change == "all pointers":
            names["arrays"] = [[self.device.zeros(ELEMENTS) for _ in range(length)] for _ in range(2)]
        statement = "\n".join(indent + line for line in body.splitlines())
        return self.subject(timed(f"with step:\n{statement}" if indent else statement, **names), queue)


class Queues(OfQueues):
    """`forebay.Queue` and what comes with it."""

    about = "forebay's queues: Queue.launch, record, wait, copy, …"

    # -- launches

    def launch(self, change: str = "", arguments: int = 2) -> Subject:
        """`Queue.launch`."""
        (queue,) = self.queues(1)
        first, second = self.ground.buffers
        given = kernels.values(arguments)
        names: dict[str, Any] = {"launch": queue.launch, "kernel": self.take(arguments), "a": first, "b": second}
        rest = "".join(f", {value}" for value in given)
        if not change:
            return self.subject(timed(f"launch(kernel, 1, 1, a{rest})", **names), queue)
        if change == "pointer":
            other = f"launch(kernel, 1, 1, b{rest})"
        else:
            other = f"launch(kernel, 1, 1, a{''.join(f', {value}' for value in (1, *given[1:]))})"
        return self.subject(timed(f"launch(kernel, 1, 1, a{rest}); {other}", operations=2, **names), queue)

    def launch_tuple(self, arguments: int) -> Subject:
        """``kernel[grid, block, queue](*args)``, which CPython passes as they are."""
        (queue,) = self.queues(1)
        given = (self.ground.buffers[0], *kernels.values(arguments))
        return self.subject(timed("launch(*given)", launch=self.take(arguments)[1, 1, queue], given=given), queue)

    def launch_numpy(self, arguments: int) -> Subject:
        """`Queue.launch` with numbers of NumPy."""
        (queue,) = self.queues(1)
        numbers: dict[str, Any] = {f"n{value}": np.int32(value) for value in kernels.values(arguments)}
        names = {**numbers, "launch": queue.launch, "kernel": self.take(arguments), "a": self.ground.buffers[0]}
        return self.subject(timed(f"launch(kernel, 1, 1, a, {', '.join(numbers)})", **names), queue)

    def _launches(self, queue: fb.Queue) -> Run:
        return timed("launch(kernel, 1, 1, a, 100)", launch=queue.launch, kernel=self.take(), a=self.ground.buffers[0])

    def launch_on(self, kind: str) -> Subject:
        """`Queue.launch` on a queue of a kind."""
        queue = self.queue(kind)
        return self.subject(self._launches(queue), queue)

    def launch_finish(self) -> Subject:
        """`Queue.launch` and `Queue.finish`."""
        (queue,) = self.queues(1)
        names: dict[str, Any] = {
            "launch": queue.launch,
            "kernel": self.take(),
            "a": self.ground.buffers[0],
            "finish": queue.finish,
        }
        return self.subject(timed("launch(kernel, 1, 1, a, 100); finish()", **names), queue, hold=False)

    def by_value(self, nbytes: int, change: str) -> Subject:
        """A launch with bytes by value, which are the same or new ones. Only bytes that are const may stay the same."""
        (queue,) = self.queues(1)
        kernel = self.device.program("kernel void read(global const float *a, int n) { }")["read"]
        first, second = (fb.by_value(bytes([value]) * nbytes) for value in range(2))
        names: dict[str, Any] = {"launch": queue.launch, "kernel": kernel, "a": first, "b": second}
        if not change:
            return self.subject(timed("launch(kernel, 1, 1, a, 100)", **names), queue)
        both = "launch(kernel, 1, 1, a, 100); launch(kernel, 1, 1, b, 100)"
        return self.subject(timed(both, operations=2, **names), queue)

    def scratch(self, reductions: int) -> Subject:
        """A launch whose scratch follows from so many reductions over three buffers that nothing has written to."""
        (queue,) = self.queues(1)
        source = (
            "kernel void many(global const int *a, global const int *b, global const int *c, global uchar *room) "
            "{ room[0] = 1; }"
        )
        kernel = self.device.program(source)["many"]
        inputs = dict(zip("abc", [self.device.array(np.arange(1, 1001, dtype="i4")) for _ in range(3)], strict=True))
        names: dict[str, Any] = {"launch": queue.launch, "kernel": kernel, **inputs}
        if not reductions:
            room = self.device.empty(1 << 20, "u1")
            run = timed("launch(kernel, 1, 1, a, b, c, room)", room=room, **names)
            return self.subject(run, queue, note="a buffer instead of scratch")
        size: Any = fb.SumOver("a") * 0 + 64
        for i in range(reductions - 1):
            size = size + (fb.MaxOver, fb.MinOver, fb.SumOver)[i % 3]("abc"[i // 3 % 3]) // (i + 1)
        kernel.scratch("room", size)
        run = timed("launch(kernel, 1, 1, a, b, c)", **names)
        run(1)  # measures
        return self.subject(run, queue)

    def first(self, count: int) -> Subject:
        """The first launch of a kernel on a queue, for each of so many queues."""
        kernel, buffer = self.take(), self.ground.buffers[0]
        queues: list[fb.Queue] = []

        def run(n: int) -> float:
            launches = [queue.launch for queue in queues[:n]]
            begun = time.perf_counter()
            for launch in launches:
                launch(kernel, 1, 1, buffer, 100)
            return (time.perf_counter() - begun) * n / len(launches)

        @contextmanager
        def around() -> Iterator[None]:
            queues[:] = [self.device.queue() for _ in range(count)]
            yield
            for queue in queues:
                queue.finish()
            queues.clear()

        return Subject(run, around)

    # -- events

    def record(self, new: bool) -> Subject:
        """`Queue.record`, with new work or without."""
        (queue,) = self.queues(1)
        names: dict[str, Any] = {
            "launch": queue.launch,
            "record": queue.record,
            "kernel": self.take(),
            "a": self.ground.buffers[0],
        }
        return self.subject(timed("launch(kernel, 1, 1, a, 100); record()" if new else "record()", **names), queue)

    def wait(self) -> Subject:
        """`Queue.wait` for another queue."""
        return self.chain(2)

    def query(self, what: str) -> Subject:
        """`Event.query` and `Queue.query`."""
        (queue,) = self.queues(1)
        queue.launch(self.take(), 1, 1, self.ground.buffers[0], 100)
        asked = queue.record() if what == "event" else queue
        queue.finish()
        return self.subject(timed("query()", query=asked.query), queue, hold=False)

    # -- order

    def _names(self, queues: list[fb.Queue]) -> dict[str, Any]:
        names: dict[str, Any] = {"kernel": self.take(), "a": self.ground.buffers[0]}
        for index, queue in enumerate(queues):
            names |= {f"q{index}": queue, f"launch{index}": queue.launch, f"wait{index}": queue.wait}
        return names

    def chain(self, length: int) -> Subject:
        """Launches, each on a queue that waits for the one before."""
        queues = self.queues(length)
        lines = ["launch0(kernel, 1, 1, a, 100)"]
        for index in range(1, length):
            lines.append(f"wait{index}(q{index - 1}); launch{index}(kernel, 1, 1, a, 100)")
        return self.subject(timed("\n".join(lines), **self._names(queues)), *queues, hold=False)

    def fan_out(self, count: int) -> Subject:
        """A launch, and queues that wait for it."""
        queues = self.queues(count + 1)
        lines = ["launch0(kernel, 1, 1, a, 100)"]
        for index in range(1, count + 1):
            lines.append(f"wait{index}(q0); launch{index}(kernel, 1, 1, a, 100)")
        return self.subject(timed("\n".join(lines), **self._names(queues)), *queues, hold=False)

    def fan_in(self, count: int) -> Subject:
        """Queues, and one that waits for them all."""
        queues = self.queues(count + 1)
        lines = []
        for index in range(1, count + 1):
            lines.append(f"launch{index}(kernel, 1, 1, a, 100); wait0(q{index})")
        lines.append("launch0(kernel, 1, 1, a, 100)")
        return self.subject(timed("\n".join(lines), **self._names(queues)), *queues, hold=False)

    def alternate(self) -> Subject:
        """The rule of the null queue, both ways."""
        (queue,) = self.queues(1)
        null = self.device.null_queue
        names: dict[str, Any] = {
            "launch": null.launch,
            "other": queue.launch,
            "kernel": self.take(),
            "a": self.ground.buffers[0],
        }
        return self.subject(timed("other(kernel, 1, 1, a, 100); launch(kernel, 1, 1, a, 100)", **names), null, queue)

    def finish_all(self, count: int) -> Subject:
        """`Device.finish`."""
        queues = self.queues(count)
        lines = [f"launch{index}(kernel, 1, 1, a, 100)" for index in range(count)]
        names = self._names(queues) | {"finish": self.device.finish}
        return self.subject(timed("\n".join([*lines, "finish()"]), **names), *queues, hold=False)

    def turnover(self, gone: int) -> Subject:
        """`Device.queue`, a launch, the end of the queue, and `Device.finish`, after so many queues at once."""
        (queue,) = self.queues(1)
        kernel, buffer = self.take(), self.ground.buffers[0]
        once = [self.device.queue(blocking=False) for _ in range(gone)]
        while once:
            once.pop().launch(kernel, 1, 1, buffer, 100)
        self.device.finish()
        names: dict[str, Any] = {"make": self.device.queue, "finish": self.device.finish, "kernel": kernel, "a": buffer}
        return self.subject(timed("make(False).launch(kernel, 1, 1, a, 100); finish()", **names), queue, hold=False)

    # -- graphs

    def replay(self, length: int, changed: int) -> Subject:
        """`ExecutableGraph.launch`, after `set_kernel` for what changed."""
        (queue,) = self.queues(1)
        kernel, buffer = self.take(), self.ground.buffers[0]
        with queue.capture() as graph:
            for _ in range(length):
                queue.launch(kernel, 1, 1, buffer, 100)
        executable, numbers = graph.instantiate(), iter(range(1 << 30))
        names: dict[str, Any] = {
            "launch": executable.launch,
            "queue": queue,
            "set_kernel": executable.set_kernel,
            "kernel": kernel,
        }
        names |= {"a": buffer, "nodes": graph.nodes[:changed], "numbers": numbers}
        statement = "launch(queue)"
        if changed:
            statement = "n = next(numbers)\nfor node in nodes: set_kernel(node, kernel, 1, 1, a, n)\nlaunch(queue)"
        return self.subject(timed(statement, **names), queue, hold=length <= 100)

    def step(self, length: int, change: str) -> Subject:
        """The launches as they are, without a step."""
        return self._stretch(length, change, "")

    # -- memory

    def copy(self, direction: str, nbytes: int) -> Subject:
        """`Queue.copy` and `Queue.finish`, with pinned memory of the host."""
        (queue,) = self.queues(1)
        host = fb.host_empty(nbytes, "u1", device=self.device)
        here, there = (self.device.empty(nbytes, "u1") for _ in range(2))
        to, source = {"up": (here, host), "down": (host, here), "across": (there, here)}[direction]
        names: dict[str, Any] = {"copy": queue.copy, "to": to, "source": source, "finish": queue.finish}
        return self.subject(timed("copy(to, source); finish()", **names), queue, hold=False)

    def alloc(self, nbytes: int) -> Subject:
        """`Queue.alloc` and `Queue.free`."""
        (queue,) = self.queues(1)
        names: dict[str, Any] = {"alloc": queue.alloc, "free": queue.free, "nbytes": nbytes}
        return self.subject(timed("free(alloc(nbytes, 'u1'))", **names), queue, hold=False)

    # -- the host

    def host(self) -> Subject:
        """`Queue.host` and `Queue.finish`."""
        if not self.ground.executes:
            raise AbsentError("null hardware calls no host functions")
        (queue,) = self.queues(1)
        names: dict[str, Any] = {"host": queue.host, "nothing": lambda: None, "finish": queue.finish}
        return self.subject(timed("host(nothing); finish()", **names), queue, hold=False)

    def threads(self, count: int) -> Subject:
        """`Queue.launch` from threads."""
        queues = self.queues(count)
        launches = [self._launches(queue) for queue in queues]
        return self.subject(lambda n: run_threads(launches, n), *queues)

    def reproducer(self, streams: int, whole: bool) -> Subject:
        """A kernel for each of 100 arrays on the null queue, a copy to the host, and the wait for the device."""
        null, kernel = self.device.null_queue, self.take()
        arrays = [self.device.zeros(ELEMENTS) for _ in range(ARRAYS)]
        host = np.empty(ELEMENTS, np.float32)
        names: dict[str, Any] = {
            "launch": null.launch,
            "kernel": kernel,
            "arrays": arrays,
            "copy": null.copy,
            "host": host,
            "finish": self.device.finish,
        }
        launches = timed("for array in arrays: launch(kernel, 1, 1, array, 100)", **names)
        rest = timed("copy(host, arrays[0]); finish()", **names)

        @contextmanager
        def around() -> Iterator[None]:
            idle = [self.device.queue() for _ in range(streams)]
            self.device.finish()
            yield
            del idle

        return Subject(turns(launches, rest, whole), around)


class Bound(OfQueues):
    """`forebay.BoundLaunch`."""

    about = "a launch bound beforehand: Kernel.bind"

    def _bound(self, queue: fb.Queue, arguments: int = 2) -> Run:
        go = self.take(arguments).bind(queue, 1, 1, self.ground.buffers[0], *kernels.values(arguments))
        return timed("go()", go=go)

    def launch(self, change: str = "", arguments: int = 2) -> Subject:
        """A call of the bound launch."""
        if change:
            raise AbsentError("its arguments are fixed")
        (queue,) = self.queues(1)
        return self.subject(self._bound(queue, arguments), queue)

    def launch_on(self, kind: str) -> Subject:
        """A call of a launch bound to a queue of a kind."""
        queue = self.queue(kind)
        return self.subject(self._bound(queue), queue)

    def threads(self, count: int) -> Subject:
        """Bound launches from threads."""
        queues = self.queues(count)
        launches = [self._bound(queue) for queue in queues]
        return self.subject(lambda n: run_threads(launches, n), *queues)


class Steps(OfQueues):
    """Stretches of launches in `Queue.step`."""

    about = "forebay's queues, with launches in steps"

    def step(self, length: int, change: str) -> Subject:
        """``with step:`` around the launches."""
        return self._stretch(length, change, " ")

    def threads(self, count: int) -> Subject:
        """Launches from threads, in steps of 100, which are submitted without the GIL."""
        queues, length = self.queues(count), 100
        steps = [self._steps(queue, length) for queue in queues]

        def run(n: int) -> float:
            whole = -(-n // length)
            return run_threads(steps, whole) * n / (whole * length)

        return self.subject(run, *queues, note=f"steps of {length}")

    def _steps(self, queue: fb.Queue, length: int) -> Run:
        names: dict[str, Any] = {
            "launch": queue.launch,
            "kernel": self.take(),
            "a": self.ground.buffers[0],
            "some": range(length),
            "step": queue.step(),
        }
        return timed("with step:\n for i in some: launch(kernel, 1, 1, a, 100)", **names)
