"""forebay: what its queues do, launches bound beforehand, and steps."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

import forebay as fb

from .. import kernels
from . import ARRAYS, ELEMENTS, AbsentError, Ground, Handle, Layer, Statement, Subject, Texts, run_threads, timed

METHODS = ("launch", "wait", "finish", "record", "copy", "alloc", "free", "host")
LAUNCH = "launch(kernel, 1, 1, a, 100)"
REST = f"\nfor i in rest: {LAUNCH}"
CHANGES = {
    "nothing": (f"for i in some: {LAUNCH}", 0),
    "1 scalar": ("launch(kernel, 1, 1, a, next(numbers))" + REST, 1),
    "10 scalars": ("n = next(numbers)\nfor i in some: launch(kernel, 1, 1, a, n)" + REST, 10),
    "all scalars": ("n = next(numbers)\nfor i in some: launch(kernel, 1, 1, a, n)", 0),
    "all pointers": ("for each in arrays[next(numbers) & 1]: launch(kernel, 1, 1, each, 100)", 0),
    "all group counts": ("n = groups[next(numbers) & 1]\nfor i in some: launch(kernel, n, 1, a, 100)", 0),
}
"""Statements of a stretch of launches, and how many of them change; 0 stands for none or for all."""


class Queues(Layer):
    """`forebay.Queue` and what comes with it."""

    about = "forebay's queues: Queue.launch, record, wait, copy, …"
    operations = (
        "launch launch_tuple launch_numpy launch_on launch_finish record wait query ordered alternate finish_all "
        "turnover by_value replay step copy alloc host threads first reproducer"
    )
    texts: Texts = Texts(
        launch="launch{0}(kernel, 1, 1, given)",
        wait="wait{0}(q{1})",
        finish="finish{0}()",
        all="finish()",
        copy=("copy{0}(to, source)",) * 3,
        alloc="free{0}(alloc{0}(n, 'u1'))",
        host="host{0}(nothing)",
    )

    def __init__(self, ground: Ground):
        super().__init__(ground)
        self.device: fb.Device = ground.device
        self.names.update({"kernel": self.take(), "finish": self.device.finish, "nothing": lambda: None})
        self.names.update({"a": ground.buffers[0], "b": ground.buffers[1]})

    def take(self, arguments: int = 2) -> fb.Kernel:
        """The kernel with the given number of arguments."""
        return self.ground.program[kernels.name_of(arguments)]

    # -- in its own terms

    def names_of(self, handle: Handle) -> dict[str, Any]:
        """A queue, and its methods."""
        number, queue = handle
        return {f"q{number}": queue, **{f"{name}{number}": getattr(queue, name) for name in METHODS}}

    def kernels(self, change: str = "", arguments: int = 2) -> list[Any]:
        """The arguments of `Queue.launch`, written out."""
        values = kernels.values(arguments)
        given = [("a", *values)]
        if change:
            given.append(("b", *values) if change == "pointer" else ("a", 1, *values[1:]))
        names = {"kernel": self.take(arguments)}
        return [Statement(self.texts.launch.replace("given", ", ".join(map(str, each))), names) for each in given]

    def own_kernel(self) -> Any:
        """The kernel, with a buffer for one thread."""
        names = {"kernel": self.take(), "own": self.device.zeros(ELEMENTS)}
        return Statement(self.texts.launch.replace("given", "own, 100"), names)

    def events(self, size: int, for_host: bool = False) -> Any:
        """Places for queues: a wait takes a queue, and records it."""
        return [None] * size

    def signal(self, stream: Handle, events: Any, index: int = 0) -> list[Any]:
        """Nothing but to say which queue is waited for."""
        events[index] = stream
        return []

    def memory(self, nbytes: int) -> Any:
        """A buffer."""
        return self.device.empty(nbytes, "u1")

    def turn(self, null: Handle) -> tuple[list[Any], list[Any]]:
        """Arrays of the device, and one of the host."""
        arrays, host = [self.device.zeros(ELEMENTS) for _ in range(ARRAYS)], np.empty(ELEMENTS, np.float32)
        names: dict[str, Any] = {"arrays": arrays, "host": host}
        launches = self.say("for array in arrays: launch{0}(kernel, 1, 1, array, 100)", null, **names)
        return launches, self.say("copy{0}(host, arrays[0]); finish()", null, **names)

    # -- launches of other kinds

    def launch_tuple(self, arguments: int) -> Subject:
        """``kernel[grid, block, queue](*args)``, which CPython passes as they are."""
        given = (self.ground.buffers[0], *kernels.values(arguments))
        return self.subject(self.say("launch(*given)", launch=self.take(arguments)[1, 1, self.main.it], given=given))

    def launch_numpy(self, arguments: int) -> Subject:
        """`Queue.launch` with numbers of NumPy."""
        numbers: dict[str, Any] = {f"n{value}": np.int32(value) for value in kernels.values(arguments)}
        text = f"launch{{0}}(kernel, 1, 1, a, {', '.join(numbers)})"
        return self.subject(self.say(text, kernel=self.take(arguments), **numbers))

    def by_value(self, nbytes: int, change: str) -> Subject:
        """A launch with bytes by value, which are the same or new ones. Only bytes that are const may stay the same."""
        kernel = self.device.program("kernel void read(global const float *a, int n) { }")["read"]
        first, second = (fb.by_value(bytes([value]) * nbytes) for value in range(2))
        launches = [f"launch{{0}}(kernel, 1, 1, {name}, 100)" for name in ("a", *("b" if change else ""))]
        steps = self.say("; ".join(launches), kernel=kernel, a=first, b=second)
        return self.subject(steps, operations=len(launches))

    def scratch(self, reductions: int) -> Subject:
        """A launch whose scratch size is computed by that many reductions over three unwritten buffers."""
        source = (
            "kernel void many(global const int *a, global const int *b, global const int *c, global uchar *room) "
            "{ room[0] = 1; }"
        )
        kernel = self.device.program(source)["many"]
        inputs: dict[str, Any] = {name: self.device.array(np.arange(1, 1001, dtype="i4")) for name in "abc"}
        size: Any = fb.SumOver("a") * 0 + 64
        for i in range(reductions - 1):
            size = size + (fb.MaxOver, fb.MinOver, fb.SumOver)[i % 3]("abc"[i // 3 % 3]) // (i + 1)
        kernel.scratch("room", size)
        steps = self.say("launch{0}(kernel, 1, 1, a, b, c)", **inputs, kernel=kernel)
        self.run(steps)(1)  # measures
        return self.subject(steps)

    def first(self, size: int) -> Subject:
        """The first launch of a kernel on a queue, for each of the given number of queues."""
        launches: list[Any] = []

        @contextmanager
        def around() -> Iterator[None]:
            queues = [self.device.queue() for _ in range(size)]
            launches[:] = [queue.launch for queue in queues]
            yield
            launches.clear()
            for queue in queues:
                queue.finish()

        return Subject(self.run(self.say(f"for launch in launches: {LAUNCH}", launches=launches), size), around)

    # -- events and ends

    def record(self, new: bool) -> Subject:
        """`Queue.record`, with new work or without."""
        steps = self.enqueue(self.main, self.kernel()) if new else []
        return self.subject([*steps, *self.say("record{0}()")])

    def query(self, what: str) -> Subject:
        """`Event.query` and `Queue.query`."""
        queue = self.main.it
        self.run(self.enqueue(self.main, self.kernel()))(1)
        asked = queue.record() if what == "event" else queue
        queue.finish()
        return self.subject(self.say("query()", query=asked.query), hold=False)

    def turnover(self, gone: int) -> Subject:
        """A queue made, used and dropped, and the wait for the device, after a number of such queues at once."""
        kernel, buffer = self.take(), self.ground.buffers[0]
        once = [self.device.queue(blocking=False) for _ in range(gone)]
        while once:
            once.pop().launch(kernel, 1, 1, buffer, 100)
        self.device.finish()
        return self.subject(self.say(f"make(False).{LAUNCH}; finish()", make=self.device.queue), hold=False)

    # -- many launches

    def replay(self, length: int, changed: int) -> Subject:
        """`ExecutableGraph.launch`, after `set_kernel` for what changed."""
        queue = self.main.it
        with queue.capture() as graph:
            for _ in range(length):
                queue.launch(self.take(), 1, 1, self.ground.buffers[0], 100)
        executable = graph.instantiate()
        names: dict[str, Any] = {"launch": executable.launch, "set_kernel": executable.set_kernel, "queue": queue}
        names |= {"nodes": graph.nodes[:changed], "numbers": iter(range(1 << 30))}
        setting = "n = next(numbers)\nfor node in nodes: set_kernel(node, kernel, 1, 1, a, n)\n" if changed else ""
        return self.subject(self.say(f"{setting}launch(queue)", **names), hold=length <= 100)

    def step(self, length: int, change: str) -> Subject:
        """The launches as they are, without a step; `CHANGES` has what may change."""
        return self.stretch(length, change)

    def stretch(self, length: int, change: str, head: str = "") -> Subject:
        """The given number of launches below a head."""
        queue, (body, some) = self.main.it, CHANGES[change]
        names: dict[str, Any] = {
            "launch": queue.launch,
            "numbers": itertools.count(1000),
            "groups": (1, 2),
            "some": range(some or length),
            "rest": range(length - some),
            "step": queue.step() if head else None,
        }
        if change == "all pointers":
            names["arrays"] = [[self.device.zeros(ELEMENTS) for _ in range(length)] for _ in range(2)]
        return self.subject(self.say(head + body.replace("\n", "\n " if head else "\n"), **names))


class Bound(Queues):
    """`forebay.BoundLaunch`."""

    about = "a launch bound beforehand: Kernel.bind"
    operations = "launch launch_on threads"

    def kernels(self, change: str = "", arguments: int = 2) -> list[Any]:
        """The number of arguments, and the buffer."""
        if change:
            raise AbsentError("its arguments are fixed")
        return [(arguments, self.ground.buffers[0])]

    def own_kernel(self) -> Any:
        """The same for one thread."""
        return 2, self.device.zeros(ELEMENTS)

    def enqueue(self, stream: Handle, kernel: Any, events: Any = ()) -> list[Any]:
        """A call of the bound launch."""
        arguments, buffer = kernel
        return self.say("go()", go=self.take(arguments).bind(stream.it, 1, 1, buffer, *kernels.values(arguments)))


class Steps(Queues):
    """Stretches of launches in `Queue.step`."""

    about = "forebay's queues, with launches in steps"
    operations = "step threads"

    def step(self, length: int, change: str) -> Subject:
        """``with step:`` around the launches."""
        return self.stretch(length, change, "with step:\n ")

    def threads(self, size: int) -> Subject:
        """Launches from threads, in steps of 100, which are submitted without the GIL."""
        queues, length, text = self.streams(size), 100, f"with step:\n for i in some: {LAUNCH}"
        names = [{"launch": each.it.launch, "some": range(length), "step": each.it.step()} for each in queues]
        steps = [timed(text, **{**self.names, **each, "a": self.device.zeros(ELEMENTS)}) for each in names]

        def run(n: int) -> float:
            whole = -(-n // length)
            return run_threads(steps, whole) * n / (whole * length)

        return Subject(run, partial(self.around, queues, True), f"steps of {length}")
