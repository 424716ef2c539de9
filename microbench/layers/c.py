"""The floor: the driver's calls made over and over by compiled C, on the streams that forebay uses."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from ..raw import Call, Sequence, Threads
from . import AbsentError, Ground, Layer, Subject
from .forebay import ARRAYS, ELEMENTS, turns

SLOTS = 100
"""Of pinned memory for bytes by value: as many launches as a sample has."""


class CLoop(Layer):
    """What the others are compared with. It makes the calls that forebay has to make, and knows what they will be."""

    about = "the driver's calls in a compiled C loop: the floor"

    def __init__(self, ground: Ground):
        super().__init__(ground)
        if ground.native is None:
            raise AbsentError(ground.no_native)
        self.native: Any = ground.native
        self._streams: list[Any] = []  # used again, or each operation would leave some behind

    # -- streams

    def stream(self, kind: str = "blocking") -> Any:
        """A stream of a kind; a new one where there can be several."""
        device = self.ground.device
        if kind == "null":
            return device.null_queue
        if kind == "per-thread":
            return device.per_thread_queue
        return device.queue(blocking=kind == "blocking")

    def streams(self, count: int) -> list[Any]:
        """So many blocking streams."""
        self._streams += [self.stream() for _ in range(count - len(self._streams))]
        return self._streams[:count]

    def held(self, *streams: Any) -> AbstractContextManager[object]:
        """Hold streams while they are filled."""
        return self.ground.held(*streams)

    def free(self, *streams: Any) -> AbstractContextManager[object]:
        """Let streams run while they are filled."""
        return self.ground.free(*streams)

    def subject(
        self,
        streams: list[Any],
        calls: list[Call],
        kept: object,
        operations: int = 1,
        note: str = "",
        hold: bool = True,
    ) -> Subject:
        """The calls as a subject."""
        around = self.held if hold else self.free
        return Subject(Sequence(calls, kept, operations), lambda: around(*streams), note)

    # -- launches

    def launch(self, change: str = "", arguments: int = 2) -> Subject:
        """One launch; what changes has one of two values in turn."""
        native, stream = self.native, self.streams(1)[0]
        memories = [native.memory(4096) for _ in range(2)]
        kernel = native.kernel(arguments, memories[0])
        launched = native.launch(stream, kernel)
        if not change:
            return self.subject([stream], launched, (kernel, memories))
        if change == "scalar":
            cells: list[Any] = [ctypes.c_int32(value) for value in range(2)]
            settings = [native.set_number(kernel, 1, cell) for cell in cells]
        else:
            cells = [ctypes.c_uint64() for _ in range(2)]
            settings = [native.set_pointer(kernel, memory, cell) for memory, cell in zip(memories, cells, strict=True)]
        calls = [call for setting in settings for call in (setting, *launched)]
        return self.subject([stream], calls, (kernel, memories, cells), operations=2)

    def launch_tuple(self, arguments: int) -> Subject:
        """One launch: C has no tuples."""
        return self.launch("", arguments)

    launch_numpy = launch_tuple

    def _kernel(self) -> tuple[Any, Any]:
        memory = self.native.memory(4096)
        return self.native.kernel(2, memory), memory

    def launch_on(self, kind: str) -> Subject:
        """One launch on a stream of a kind."""
        stream, (kernel, memory) = self.stream(kind), self._kernel()
        note = "the C loop orders it after nothing" if kind == "null" else ""
        return self.subject([stream], self.native.launch(stream, kernel), (kernel, memory), note=note)

    def launch_finish(self) -> Subject:
        """A launch and a host synchronize."""
        stream, (kernel, memory) = self.streams(1)[0], self._kernel()
        calls = [*self.native.launch(stream, kernel), *self.native.finish(stream)]
        return self.subject([stream], calls, (kernel, memory), hold=False)

    # -- events

    def record(self, new: bool) -> Subject:
        """A launch and a marker; without new work there is nothing to do, and nothing to compare with."""
        if not new:
            raise AbsentError("no driver call is needed")
        native, stream, (kernel, memory) = self.native, self.streams(1)[0], self._kernel()
        events = native.events(1)
        calls = [*native.launch(stream, kernel), *native.marker(stream, events), *native.release(events)]
        return self.subject([stream], calls, (kernel, memory, events))

    def wait(self) -> Subject:
        """A launch, a marker, and a launch elsewhere that carries the wait."""
        return self.chain(2)

    def query(self, what: str) -> Subject:
        """The status of an event that is done."""
        if what != "event":
            raise AbsentError("no driver call is needed")
        native, stream = self.native, self.streams(1)[0]
        events, answer = native.events(1, for_host=True), ctypes.c_int32()
        made = Sequence([*native.marker(stream, events), *native.finish(stream)], events)
        made(1)  # its event is never given back: one for each subject
        return self.subject([stream], native.query(events, answer), (events, answer), hold=False)

    # -- order

    def chain(self, length: int) -> Subject:
        """Launches, each with a wait for the marker after the one before."""
        native, streams = self.native, self.streams(length)
        kept, calls, events = [], [], None
        for index, stream in enumerate(streams):
            kernel, memory = self._kernel()
            calls += native.launch(stream, kernel, events)
            if events is not None:
                calls += native.release(events)
            events = native.events(1)
            if index < length - 1:
                calls += native.marker(stream, events)
            kept.append((kernel, memory, events))
        return self.subject(streams, calls, kept, hold=False)

    def fan_out(self, count: int) -> Subject:
        """A launch, a marker, and launches that wait for it."""
        native, (source, *others) = self.native, self.streams(count + 1)
        kernels = [self._kernel() for _ in range(count + 1)]
        events = native.events(1)
        calls = [
            *native.launch(source, kernels[0][0]),
            *native.marker(source, events),
        ]
        for other, (kernel, _) in zip(others, kernels[1:], strict=True):
            calls += native.launch(other, kernel, events)
        calls += native.release(events)
        return self.subject([source, *others], calls, (kernels, events), hold=False)

    def fan_in(self, count: int) -> Subject:
        """Launches and markers, and a launch that waits for all."""
        native, (target, *others) = self.native, self.streams(count + 1)
        kernels = [self._kernel() for _ in range(count + 1)]
        events = native.events(count)
        calls = []
        for index, (other, (kernel, _)) in enumerate(zip(others, kernels[1:], strict=True)):
            calls += [*native.launch(other, kernel), *native.marker(other, events, index)]
        calls += [*native.launch(target, kernels[0][0], events), *native.release(events)]
        return self.subject([target, *others], calls, (kernels, events), hold=False)

    def alternate(self) -> Subject:
        """What the null rule makes of a launch on another stream and one on the null stream, in turn."""
        native, null, other = self.native, self.stream("null"), self.streams(1)[0]
        (kernel, memory), (another, more) = self._kernel(), self._kernel()
        before, after = native.events(1), native.events(1)
        calls = [
            *native.marker(null, before),
            *native.launch(other, kernel, before),
            *native.release(before),
            *native.marker(other, after),
            *native.launch(null, another, after),
            *native.release(after),
        ]
        return self.subject([null, other], calls, (kernel, memory, another, more, before, after))

    def by_value(self, nbytes: int, change: str) -> Subject:
        """A launch; new bytes are put into pinned memory and copied from there.

        Each of the launches that wait together has a slot of its own: nobody has read it before the last is submitted.
        """
        if not change:
            return self.launch()
        native, stream = self.native, self.streams(1)[0]
        memory = native.memory(nbytes)
        kernel = native.kernel(2, memory)
        first, pinned = native.pinned(SLOTS * nbytes)
        given, returned = ctypes.create_string_buffer(nbytes), ctypes.c_uint64()
        put = ctypes.cast(ctypes.CDLL(None).memcpy, ctypes.c_void_p).value or 0
        calls: list[Call] = []
        for slot in range(first, first + SLOTS * nbytes, nbytes):
            calls.append(Call(put, (slot, ctypes.addressof(given), nbytes), result=ctypes.addressof(returned)))
            calls += [native.upload(stream, memory, slot, nbytes), *native.launch(stream, kernel)]
        return self.subject([stream], calls, (kernel, memory, pinned, given, returned), operations=SLOTS)

    def finish_all(self, count: int) -> Subject:
        """Launches and markers, and one host wait for all markers."""
        native, streams = self.native, self.streams(count)
        kernels = [self._kernel() for _ in streams]
        events = native.events(count, for_host=True)
        calls = []
        for index, (stream, (kernel, _)) in enumerate(zip(streams, kernels, strict=True)):
            calls += [*native.launch(stream, kernel), *native.marker(stream, events, index)]
        calls += [*native.wait_for(events), *native.release(events)]
        return self.subject(streams, calls, (kernels, events), hold=False)

    # -- memory

    def copy(self, direction: str, nbytes: int) -> Subject:
        """A copy and a host synchronize."""
        stream = self.streams(1)[0]
        calls, kept = self.native.copy(stream, direction, nbytes)
        return self.subject([stream], [*calls, *self.native.finish(stream)], kept, hold=False)

    def alloc(self, nbytes: int) -> Subject:
        """Memory of the driver."""
        stream = self.streams(1)[0]
        calls, kept, note = self.native.alloc(stream, nbytes)
        return self.subject([stream], calls, kept, note=note, hold=False)

    # -- many at once

    def replay(self, length: int, changed: int) -> Subject:
        """The same launches one after the other: what a replay saves."""
        native, stream = self.native, self.streams(1)[0]
        kernel, memory = self._kernel()
        launched, cell = native.launch(stream, kernel), ctypes.c_int32(1)
        setting = native.set_number(kernel, 1, cell)
        calls = [*[setting, *launched] * changed, *launched * (length - changed)]
        return self.subject([stream], calls, (kernel, memory, cell), note="launched one by one", hold=length <= 100)

    def step(self, length: int, change: str) -> Subject:
        """The launches one after the other, with nothing changed."""
        stream = self.streams(1)[0]
        kernel, memory = self._kernel()
        calls = [*self.native.launch(stream, kernel)] * length
        return self.subject([stream], calls, (kernel, memory), note="nothing changed", hold=length <= 100)

    def _launches_on_null(self, memories: list[Any]) -> tuple[list[Call], object]:
        native, null = self.native, self.stream("null")
        kernel, cells = native.kernel(2, memories[0]), [ctypes.c_uint64() for _ in memories]
        calls: list[Call] = []
        for memory, cell in zip(memories, cells, strict=True):
            calls += [native.set_pointer(kernel, memory, cell), *native.launch(null, kernel)]
        return calls, (kernel, memories, cells)

    def reproducer(self, streams: int, whole: bool) -> Subject:
        """The program's calls."""
        null = self.stream("null")
        launches = Sequence(*self._launches_on_null([self.native.memory(4 * ELEMENTS) for _ in range(ARRAYS)]))
        copied, kept = self.native.copy(null, "down", 4 * ELEMENTS)
        rest = Sequence([*copied, *self.native.finish(null)], kept)

        @contextmanager
        def around() -> Iterator[None]:
            with self.others(streams), self.free(null):
                yield

        return Subject(turns(launches, rest, whole), around)

    def others(self, count: int) -> AbstractContextManager[object]:
        """So many more blocking streams."""
        stack = ExitStack()
        stack.callback(list.clear, [self.stream() for _ in range(count)])
        return stack

    def threads(self, count: int) -> Subject:
        """Threads of C, each with a stream of its own."""
        native, streams = self.native, self.streams(count)
        kernels = [self._kernel() for _ in streams]
        lists = [native.launch(s, kernel) for s, (kernel, _) in zip(streams, kernels, strict=True)]
        return Subject(Threads(lists, kernels), lambda: self.held(*streams))


class CLoopAgain(CLoop):
    """The A/A comparison: how far apart two runs of the same thing are."""

    about = "the same once more: what the machine's noise is"


class Recorded(Layer):
    """The driver's own recording, replayed from C."""

    about = "the driver's own recording of launches, replayed in a compiled C loop"

    def __init__(self, ground: Ground):
        super().__init__(ground)
        self._loop = CLoop(ground)

    def replay(self, length: int, changed: int) -> Subject:
        """A replay of the recording."""
        if changed:
            raise AbsentError("its recording is not changed")
        stream = self._loop.streams(1)[0]
        recorded = self._loop.native.recording(stream, length)
        if recorded is None:
            raise AbsentError("the driver records nothing")
        calls, kept = recorded
        return self._loop.subject([stream], calls, kept, hold=length <= 100)
