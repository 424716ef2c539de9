"""The floor: the driver's calls made over and over by compiled C, on the streams that forebay uses.

A text is a call, or several with ``;`` between them: ``[result =] function argument …``. An argument is a number, or a
name: of memory, whose address is passed; of a cell, an array or an integer. ``*name`` is what lies at an address when
the call is made. Besides what `Texts` has there are ``slot``, the address of an event's handle; ``kernel``; ``waits``
and ``size``, an array of events; and `CELLS`.
"""

from __future__ import annotations

import copy
import ctypes
import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..raw import Call, Loop, NoCompilerError, loops
from . import ARRAYS, ELEMENTS, AbsentError, Ground, Handle, Layer, Run, Subject

LOOPS = {"opencl": "OpenCLLoop", "level_zero": "LevelZeroLoop", "cuda": "CudaLoop"}
"""The classes of the folder `raw`."""
SLOTS = 100
"""Of pinned memory for bytes by value: as many launches as a sample has."""
CELLS = ("address", "buffer", "answer", "error")
"""Names of words that are new for each text."""


class Kernel(NamedTuple):
    """A kernel object, the calls that set an argument before it is launched, and its memory."""

    made: Any
    settings: tuple[Call, ...] = ()
    memory: Any = None


class Slot(NamedTuple):
    """An event, the address of its handle, and the array that has it."""

    it: int | None
    address: int
    array: ctypes.Array[ctypes.c_void_p]


def word_of(value: Any) -> int:
    """What is passed for a value: a number, or an address."""
    if isinstance(value, int):
        return value
    if hasattr(value, "ctypes"):  # NumPy's
        return int(value.ctypes.data)
    if hasattr(value, "int_ptr"):  # pyopencl's
        return int(value.int_ptr)
    return int(value.handle or value.address) if hasattr(value, "address") else ctypes.addressof(value)


class CLoop(Layer):
    """What the others are compared with. It makes the calls that forebay has to make, and knows what they will be.

    The folder `raw` has the calls of each driver. `number` and `pointer` are the texts that set the first integer and
    the pointer of a kernel.
    """

    about = "the driver's calls in a compiled C loop: the floor"
    operations = (
        "launch launch_tuple launch_numpy launch_on launch_finish record wait query chain fan_out fan_in alternate "
        "finish_all by_value replay step copy alloc threads reproducer"
    )
    null_note = "the C loop orders it after nothing"
    library: Any
    number: str
    pointer: str

    def __init__(self, ground: Ground):
        super().__init__(ground)
        try:
            loops()
        except NoCompilerError as error:
            raise AbsentError(str(error)) from error

    # -- what each driver has of its own

    def settle(self, queue: Any) -> None:
        """Wait for what a queue was given without forebay."""

    def queue_of(self, stream: Any) -> int:
        """The driver's queue."""
        raise NotImplementedError

    def make_kernel(self, arguments: int, memory: Any) -> Any:
        """A kernel object of its own with its arguments set."""
        raise NotImplementedError

    def recording(self, stream: Handle, length: int) -> list[Call]:
        """The call that replays a recording of the given number of launches, if the driver has one."""
        raise AbsentError("the driver records nothing")

    # -- texts and steps

    def memory(self, nbytes: int) -> Any:
        """Memory of the kind that forebay uses."""
        return self.ground.driver.allocate(nbytes)

    def names_of(self, handle: Any) -> dict[str, Any]:
        """A stream's queue; an event, and its slot."""
        if isinstance(handle, Slot):
            return {"slot": handle.address, "event": handle.it, "waits": handle.array}
        return {"queue": self.queue_of(handle.it)}

    def steps(self, text: str, handles: Sequence[Any], names: dict[str, Any], note: str) -> list[Any]:
        """The calls of a text."""
        names = {**{name: ctypes.c_uint64() for name in CELLS}, **names}
        calls = []
        for line in text.split(";"):
            *result, call = line.split("=")
            function, *arguments = call.split()
            bare = [argument.removeprefix("*") for argument in arguments]
            words = [word_of(names[name]) if name.isidentifier() else int(name, 0) for name in bare]
            loaded = sum(1 << index for index, argument in enumerate(arguments) if argument.startswith("*"))
            address = ctypes.cast(getattr(self.library, function), ctypes.c_void_p).value or 0
            made = Call(address, words, loaded, word_of(names[result[0].strip()]) if result else 0)
            made.kept, made.note = names, note
            calls.append(made)
        return calls

    def run(self, steps: list[Any], operations: int = 1) -> Run:
        """A loop over all calls."""
        return Loop(steps, operations=operations)

    def run_together(self, lists: list[list[Any]]) -> Run:
        """Threads of C."""
        return Loop(*lists, threads=True)

    def events(self, size: int, for_host: bool = False) -> Any:
        """An array; OpenCL's markers put their events into it, others have theirs there."""
        made = [self.make_event(for_host) for _ in range(size)]
        array = (ctypes.c_void_p * size)(*made)
        return [Slot(event, ctypes.addressof(array) + 8 * index, array) for index, event in enumerate(made)]

    def wait_for_all(self, events: Any) -> list[Any]:
        """A wait of the host for all of these events."""
        return self.say(self.texts.all, events[0], size=len(events))

    def over(self, memories: list[Any], arguments: int = 2) -> list[Kernel]:
        """A kernel that gets each of these memories in turn."""
        made = self.make_kernel(arguments, memories[0])
        cells = [ctypes.c_uint64(word_of(memory)) for memory in memories]
        settings = [self.say(self.pointer, kernel=made, cell=c, memory=m) for c, m in zip(cells, memories, strict=True)]
        return [Kernel(made, tuple(setting), memories) for setting in settings]

    def kernels(self, change: str = "", arguments: int = 2) -> list[Any]:
        """A kernel object, and the calls that change it."""
        memories = [self.memory(4096) for _ in range(2 if change == "pointer" else 1)]
        if change == "pointer":
            return self.over(memories, arguments)
        made = self.make_kernel(arguments, memories[0])
        cells = [ctypes.c_int32(value) for value in range(2)] if change else []
        settings = [tuple(self.say(self.number, kernel=made, cell=cell)) for cell in cells] or [()]
        return [Kernel(made, setting, memories) for setting in settings]

    def enqueue(self, stream: Handle, kernel: Kernel, events: Any = ()) -> list[Any]:
        """The calls that change the kernel, and a launch of one work-item."""
        waits = events[0].array if events else 0
        names = {"kernel": kernel.made, "memory": kernel.memory, "waits": waits, "size": len(events)}
        return [*kernel.settings, *self.say(self.texts.launch, stream, **names)]

    # -- the operations that are others in C

    def launch_tuple(self, arguments: int) -> Subject:
        """One launch: C has no tuples, and no numbers of NumPy's."""
        return self.launch("", arguments)

    launch_numpy = launch_tuple

    def record(self, new: bool) -> Subject:
        """A launch and a marker."""
        if not new:
            raise AbsentError("no driver call is needed")
        return super().record(new)

    def query(self, what: str) -> Subject:
        """The status of an event."""
        if what != "event":
            raise AbsentError("no driver call is needed")
        return super().query(what)

    def alternate(self) -> Subject:
        """What the null rule makes of a launch on another stream and one on the null stream."""
        null, (other,) = self.stream("null"), self.streams(1)
        steps = []
        for first, second in ((null, other), (other, null)):
            events = self.events(1)
            steps += [*self.signal(first, events), *self.enqueue(second, self.kernel(), events), *self.release(events)]
        return self.subject(steps, null, other)

    def by_value(self, nbytes: int, change: str) -> Subject:
        """A launch; new bytes are put into pinned memory and copied from there.

        Each of the launches that wait together has a slot of its own: nothing has read it before the last is submitted.
        """
        if not change:
            return self.launch()
        memory, pinned = self.memory(nbytes), self.pinned(SLOTS * nbytes)
        kernel = Kernel(self.make_kernel(2, memory), memory=memory)
        names = {"bytes": ctypes.create_string_buffer(nbytes), "pinned": pinned, "to": memory, "n": nbytes}
        steps: list[Any] = []
        for index in range(SLOTS):
            names["source"] = word_of(pinned) + index * nbytes
            steps += self.say(f"answer = memcpy source bytes n; {self.texts.copy[0]}", **names)
            steps += self.enqueue(self.main, kernel)
        return self.subject(steps, operations=SLOTS)

    def replay(self, length: int, changed: int) -> Subject:
        """The same launches one after the other: what a replay saves."""
        kernel = self.kernels("scalar")[1]
        launched = self.enqueue(self.main, kernel._replace(settings=()))
        steps = [*self.enqueue(self.main, kernel) * changed, *launched * (length - changed)]
        return self.subject(steps, note="launched one by one", hold=length <= 100)

    def step(self, length: int, change: str) -> Subject:
        """The launches one after the other, with nothing changed."""
        steps = self.enqueue(self.main, self.kernel()) * length
        return self.subject(steps, note="nothing changed", hold=length <= 100)

    def turn(self, null: Handle) -> tuple[list[Any], list[Any]]:
        """The program's calls."""
        kernels = self.over([self.memory(4 * ELEMENTS) for _ in range(ARRAYS)])
        launches = [step for kernel in kernels for step in self.enqueue(null, kernel)]
        return launches, [*self.transfer(null, "down", 4 * ELEMENTS), *self.synchronize(null)]


class Recorded(Layer):
    """The driver's own recording, replayed from C."""

    about = "the driver's own recording of launches, replayed in a compiled C loop"
    operations = "replay"

    def __init__(self, ground: Ground):
        super().__init__(ground)
        self._loop = floor_again(ground)
        if self._loop.own_streams:
            raise AbsentError("the C loop's replays are those of CUDA's graphs")

    def replay(self, length: int, changed: int) -> Subject:
        """A replay of the recording."""
        if changed:
            raise AbsentError("its recording is not changed")
        return self._loop.subject(self._loop.recording(self._loop.main, length), hold=length <= 100)


def loop_of(ground: Ground) -> CLoop:
    """The calls that forebay has to make on this device.

    Raises
    ------
    AbsentError
        When there is no C compiler, or no list of calls.
    """
    backend = ground.device.info.backend
    if backend not in LOOPS:
        raise AbsentError(f"no list of calls for {backend}")
    module = importlib.import_module("..raw." + backend.replace("_", ""), __package__)
    loop: CLoop = getattr(module, LOOPS[backend])(ground)
    return loop


def floor(ground: Ground) -> CLoop:
    """The floor that all are compared with."""
    if ground.native is None:
        raise AbsentError(ground.no_native)
    found: CLoop = ground.native
    return found


def floor_again(ground: Ground) -> CLoop:
    """The A/A comparison: how far apart two runs of the same thing are. It has streams of its own."""
    again = copy.copy(floor(ground))
    again.about = "the same once more: what the machine's noise is"
    again._streams = []
    return again
