"""The floor: the driver's calls made over and over by compiled C, on the streams that forebay uses.

A text is a call, or several with ``;`` between them: ``[result =] function argument …``. An argument is a number, or a
name: of memory, whose address is passed; of a cell, an array or an integer. ``*name`` is what lies at an address when
the call is made. Besides what `Texts` has there are ``slot``, the address of an event's handle; ``kernel``; ``waits``
and ``size``, an array of events; and `CELLS`. Each driver's module has its texts, and what else is its own.
"""

from __future__ import annotations

import copy
import ctypes
import importlib
import os
import shlex
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import platformdirs

from ..layers import ARRAYS, ELEMENTS, AbsentError, Ground, Handle, Layer, Run, Subject

LOOPS = {"opencl": "OpenCLLoop", "level_zero": "LevelZeroLoop", "cuda": "CudaLoop"}
SLOTS = 100
"""Of pinned memory for bytes by value: as many launches as a sample has."""
CELLS = ("address", "buffer", "answer", "error")
"""Names of words that are new for each text."""


class NoCompilerError(AbsentError):
    """There is no C compiler, so there is no floor to compare with."""


class Call(ctypes.Structure):
    """A step in C, one driver call: ``struct call`` of calls.c, which says what the fields are."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("arguments", ctypes.c_uint64 * 12),
        ("arity", ctypes.c_uint32),
        ("loaded", ctypes.c_uint32),
        ("result", ctypes.c_void_p),
    )
    kept: object = None  # what the addresses in it belong to
    note: str = ""  # why it is not like for like with what others do, if it is not


def compile_c(source: Path) -> Path:
    """Compile a C file into the user's cache, unless that was done before; raises `NoCompilerError` if that fails."""
    digest = sha256(source.read_bytes()).hexdigest()[:16]
    root = os.environ.get("FOREBAY_CACHE") or platformdirs.user_cache_dir("forebay", appauthor=False)
    target = Path(root).absolute() / "bench" / f"{source.stem}-{digest}.so"
    if not target.exists():
        named = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "")
        known = [words for words in (named, ["cc"], ["gcc"], ["clang"]) if words and shutil.which(words[0])]
        if not known:
            raise NoCompilerError("no C compiler (Debian, Ubuntu: apt install gcc)")
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_suffix(f".{os.getpid()}")
        command = [*known[0], "-O2", "-shared", "-fPIC", str(source), "-o", str(draft)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NoCompilerError(f"{shlex.join(known[0])} does not compile {source.name}:\n{done.stderr[-500:]}")
        draft.rename(target)  # another process may be at the same
    return target


@cache
def loops() -> ctypes.CDLL:
    """The library that makes the calls."""
    made = ctypes.CDLL(str(compile_c(Path(__file__).with_name("calls.c"))))
    made.run.argtypes, made.run.restype = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t), ctypes.c_double
    return made


class Loop:
    """A list of calls, which has the given number of operations. ``loop(n)`` makes n operations."""

    def __init__(self, calls: Sequence[Call], operations: int = 1):
        self._kept = calls
        self._array = (Call * len(calls))(*calls)
        self._operations = operations

    def __call__(self, n: int) -> float:
        """Seconds that n operations take. Raises RuntimeError when a call fails."""
        passes = max(n // self._operations, 1)
        seconds: float = loops().run(self._array, len(self._array), passes)
        if seconds < 0:
            raise RuntimeError("a driver call of the C loop failed")
        return seconds * n / (passes * self._operations)


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

    `set_number` and `set_pointer` are the texts that set the first integer and the pointer of a kernel.
    """

    about = "the driver's calls in a compiled C loop: the floor"
    operations = (
        "launch launch_tuple launch_numpy launch_on launch_finish record wait query ordered alternate finish_all "
        "by_value replay step copy alloc threads reproducer"
    )
    lacks = "no driver call is needed"
    null_note = "the C loop orders it after nothing"
    library: Any
    set_number: str
    set_pointer: str

    def __init__(self, ground: Ground):
        super().__init__(ground)
        loops()

    # -- what each driver has of its own

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

    def do(self, text: str, **names: Any) -> None:
        """Make calls once, about no stream and no event."""
        self.run(self.steps(text, (), {**self.names, **names}, ""))(1)

    def made(self, text: str, **names: Any) -> int:
        """Make calls that put a handle or an address into ``made``; return that."""
        made = ctypes.c_uint64()
        self.do(text, made=made, **names)
        return made.value

    def settle(self, queue: Any) -> None:
        """Wait for what a queue was given without forebay."""
        self.do(self.texts.finish, queue=self.queue_of(queue))

    def memory(self, nbytes: int) -> Any:
        """Memory of the kind that forebay uses."""
        return self.ground.driver.allocate(nbytes)

    def names_of(self, handle: Any) -> dict[str, Any]:
        """A stream's queue; an event, and its slot."""
        if isinstance(handle, Slot):
            return {"slot": handle.address, "event": handle.it, "waits": handle.address, "array": handle.array}
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
            address = names.get(function) or ctypes.cast(getattr(self.library, function), ctypes.c_void_p).value or 0
            given = (ctypes.c_uint64 * 12)(*(word & (1 << 64) - 1 for word in words))
            made = Call(address, given, len(words), loaded, word_of(names[result[0].strip()]) if result else 0)
            made.kept, made.note = names, note
            calls.append(made)
        return calls

    def run(self, steps: list[Any], operations: int = 1) -> Run:
        """A loop over all calls."""
        return Loop(steps, operations)

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
        settings = [
            self.say(self.set_pointer, kernel=made, cell=c, memory=m) for c, m in zip(cells, memories, strict=True)
        ]
        return [Kernel(made, tuple(setting), memories) for setting in settings]

    def kernels(self, change: str = "", arguments: int = 2) -> list[Any]:
        """A kernel object, and the calls that change it."""
        memories = [self.memory(4096) for _ in range(2 if change == "pointer" else 1)]
        if change == "pointer":
            return self.over(memories, arguments)
        made = self.make_kernel(arguments, memories[0])
        cells = [ctypes.c_int32(value) for value in range(2)] if change else []
        settings = [tuple(self.say(self.set_number, kernel=made, cell=cell)) for cell in cells] or [()]
        return [Kernel(made, setting, memories) for setting in settings]

    def enqueue(self, stream: Handle, kernel: Kernel, events: Any = ()) -> list[Any]:
        """The calls that change the kernel, and a launch of one work-item."""
        names = {"kernel": kernel.made, "memory": kernel.memory, "size": len(events), "waits": 0}
        names |= self.names_of(events[0]) if events else {}
        return [*kernel.settings, *self.say(self.texts.launch, stream, **names)]

    # -- the operations that are others in C

    def launch_tuple(self, arguments: int) -> Subject:
        """One launch: C has no tuples, and no numbers of NumPy's."""
        return self.launch("", arguments)

    launch_numpy = launch_tuple

    def record(self, new: bool) -> Subject:
        """A launch and a marker."""
        if not new:
            raise AbsentError(self.lacks)
        return super().record(new)

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
        return launches, [*self.transfer(null, "down", 4 * ELEMENTS), *self.say(self.texts.finish, null)]

    def replay_recording(self, length: int, changed: int) -> Subject:
        """A replay of the driver's own recording."""
        if changed:
            raise AbsentError("its recording is not changed")
        return self.subject(self.recording(self.main, length), hold=length <= 100)


def loop_of(ground: Ground) -> CLoop:
    """The calls that forebay has to make on this device. Raises `AbsentError` without a C compiler or such calls."""
    backend = ground.device.info.backend
    if backend not in LOOPS:
        raise AbsentError(f"no list of calls for {backend}")
    module = importlib.import_module("." + backend.replace("_", ""), __package__)
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


def recorded(ground: Ground) -> CLoop:
    """The driver's own recording, replayed from C."""
    loop = floor_again(ground)
    if loop.own_streams:
        raise AbsentError("the C loop's replays are those of CUDA's graphs")
    about = "the driver's own recording of launches, replayed in a compiled C loop"
    vars(loop).update(about=about, operations="replay", replay=loop.replay_recording)
    return loop
