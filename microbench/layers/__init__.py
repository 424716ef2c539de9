"""The layers: ways to make a device do the same thing.

A layer says in its own terms what a launch, a signal, a wait or a copy is: as *steps*, which are calls of a driver or
statements of Python. `Layer` composes the operations that are measured from these, the same way for every layer.
"""

from __future__ import annotations

import os
import threading
import time
import timeit
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from itertools import count
from typing import Any, ClassVar, NamedTuple

import forebay as fb

from .. import kernels
from ..processes import NULL_LEVELZERO

Run = Callable[[int], float]
"""Does an operation n times, and returns the seconds that took."""
ARRAYS, ELEMENTS = 100, 100
"""Of the program of the case "reproducer"."""
SHAPES: dict[str, Callable[[int], list[range]]] = {
    "chain of {}": lambda size: [range(max(index - 1, 0), index) for index in range(size)],
    "1 before {}": lambda size: [range(0), *[range(1)] * size],
    "{} before 1": lambda size: [*[range(0)] * size, range(size)],
}
"""For each launch, the launches that it waits for."""


class AbsentError(Exception):
    """A layer cannot do something, or is not there. The text says why."""


@dataclass(frozen=True)
class Subject:
    """One operation of one layer, to be measured."""

    run: Run
    # The surroundings of each sample, which are not timed: they leave the queues as the next one needs them
    around: Callable[[], AbstractContextManager[object]]
    note: str = ""  # why the row is not like for like with the others, if it is not


class Ground:
    """What all layers stand on: forebay's device, its kernels and two buffers; and the layers that were asked for."""

    def __init__(self, device: fb.Device):
        from ..raw import loop_of

        self.device = device
        self.driver: Any = device.driver
        # Null hardware executes nothing, so nothing has to be held there. Over CUDA queues are not held while they are
        # filled, because nothing holds the streams of the other layers.
        self.executes: bool = NULL_LEVELZERO not in os.environ
        self.holds: bool = self.executes and device.info.backend != "cuda"
        self.program: fb.Program = device.program(kernels.opencl())
        self.buffers: list[fb.Buffer] = [device.zeros(1024) for _ in range(2)]
        self.native: Any = None  # the C loop of the driver in use, if there is one
        self.no_native: str = ""  # why there is none
        self.layer: Callable[[str], Layer] = cache(partial(open_layer, ground=self))
        try:
            self.native = loop_of(self)
        except AbsentError as error:
            self.no_native = str(error)

    def settle(self, queue: fb.Queue) -> None:
        """Wait for all that a queue was given, by forebay or not."""
        if self.native is not None:
            self.native.settle(queue)
        queue.finish()

    @contextmanager
    def around(
        self, queues: Sequence[fb.Queue], hold: bool, settle: Callable[[fb.Queue], None] | None = None
    ) -> Iterator[None]:
        """Settle queues before and after they are filled.

        With `hold` they are held meanwhile, so that a device that is this CPU does not compete for its cores.
        """
        for queue in queues:
            (settle or self.settle)(queue)
        with ExitStack() as gates:
            for queue in queues if hold and self.holds else ():
                gates.enter_context(queue.gate())
            yield
        for queue in queues:
            (settle or self.settle)(queue)


class Handle(NamedTuple):
    """A stream or an event of a layer, with a number for its name in statements."""

    number: int
    it: Any


class Texts(NamedTuple):
    """How a layer says things, as statements of Python or calls of a driver; empty if it needs none.

    In Python a name that ends in ``{0}`` is the stream's, in ``{1}`` the event's. A launch has ``k`` for what
    `Layer.function` returns and ``given`` for its arguments. C has ``queue``, ``event``, and what `raw` says. A
    copy has ``to``, ``source`` and ``n``, an allocation ``n``.
    """

    launch: str = ""
    signal: str = ""
    wait: str = ""
    elsewhere: str = "{}"  # a launch on a stream that waits for another
    release: str = ""
    event: str = ""  # the question whether one is done, as the next
    stream: str = ""
    finish: str = ""
    all: str = ""  # waits for all streams
    copy: tuple[str, ...] = ("", "", "")  # up, down and across, with pinned memory of the host
    copy_note: str = ""  # why copies to and from the host are not like for like, if they are not
    alloc: str = ""
    alloc_note: str = ""
    host: str = ""


class Statement(NamedTuple):
    """A step in Python: a statement, what its names stand for, and why it is not like for like, if it is not."""

    text: str
    names: dict[str, Any]
    note: str = ""


def timed(statement: str, operations: int = 1, **names: object) -> Run:
    """A sample of a statement of the given number of operations, with the loop itself, some 10 ns a turn."""
    timer = timeit.Timer(statement, globals=names)
    if operations == 1:
        return timer.timeit

    def run(n: int) -> float:
        turns = max(n // operations, 1)
        return timer.timeit(turns) * n / (turns * operations)

    return run


def run_threads(launches: Sequence[Run], n: int) -> float:
    """Seconds from the first thread's begin to the last one's end, each with its own launches."""
    start = threading.Barrier(len(launches))

    def work(launch: Run) -> tuple[float, float]:
        start.wait()
        begun = time.perf_counter()
        launch(n)
        return begun, time.perf_counter()

    with ThreadPoolExecutor(len(launches)) as threads:
        begun, ended = zip(*threads.map(work, launches), strict=True)
    return float(max(ended) - min(begun))


class Layer:
    """The operations that can be measured, composed of what a layer says; here the steps are statements of Python."""

    name: str  # of `LAYERS`
    about: str  # what it is, in one line
    operations: ClassVar[str]  # their names, separated by blanks
    texts: Texts = Texts()
    own_streams: ClassVar[bool] = False  # whether its streams are others than the queues of forebay's device
    lacks: ClassVar[str] = "has nothing like it"  # why it cannot be asked what it has no text for
    null_note: ClassVar[str] = ""  # what a launch on its null stream is noted with
    note: str = ""  # what every row of it is noted with
    ours: bool = False  # whether an error of it is one of forebay, which ends the run
    number: ClassVar[Any]  # what a kernel's integer is given as
    make_event: Callable[[bool], Any]  # an event without timing, which the host may wait for if it is given True
    memory: Callable[[int], Any]  # the given number of bytes of memory of the device
    function: Callable[[int], Any]  # the kernel with the given number of arguments
    end_stream: Callable[[Any], object] = staticmethod(lambda stream: None)  # destroys one, if dropping it does not

    def __init__(self, ground: Ground):
        self.ground = ground
        self.numbers: Iterator[int] = count()
        self.names: dict[str, Any] = {}  # what names in its texts stand for
        self.memories: list[Any] = []  # two of what a kernel's pointer is given as
        self._streams: list[Handle] = []  # used again, or each operation would leave some behind

    # -- what a layer may have of its own

    def make_stream(self, kind: str = "blocking") -> Any:
        """A stream of a kind; a new one where there can be several."""
        device = self.ground.device
        if kind == "null":
            return device.null_queue
        if kind == "per-thread":
            return device.per_thread_queue
        return device.queue(blocking=kind == "blocking")

    def pinned(self, nbytes: int) -> Any:
        """Pinned memory of the host."""
        return fb.host_empty(nbytes, "u1", device=self.ground.device)

    def around(self, streams: Sequence[Handle], hold: bool) -> AbstractContextManager[object]:
        """The surroundings of a sample on these streams; with `hold` they do not run meanwhile, where that can be."""
        return self.ground.around([stream.it for stream in streams], hold)

    def turn(self, null: Handle) -> tuple[list[Any], list[Any]]:
        """A launch for each of `ARRAYS` arrays, and a copy to the host and a synchronize."""
        raise NotImplementedError

    # -- texts and steps

    def names_of(self, handle: Any) -> dict[str, Any]:
        """What the names of a stream or an event stand for: an ``h`` with the number."""
        return {f"h{handle.number}": handle.it}

    def steps(self, text: str, handles: Sequence[Any], names: dict[str, Any], note: str) -> list[Any]:
        """A text as steps: one statement, with the numbers of the handles."""
        return [Statement(text.format(*(handle.number for handle in handles)), names, note)]

    def run(self, steps: list[Any], operations: int = 1) -> Run:
        """A sample of steps that make up the given number of operations."""
        names = {name: value for step in steps for name, value in step.names.items()}
        return timed("\n".join(step.text for step in steps), operations, **names)

    def kernels(self, change: str = "", arguments: int = 2) -> list[Any]:
        """A kernel ready for `enqueue`; two for a change, "scalar" or "pointer", which are launched in turn."""
        same = (self.memories[0], *map(self.number, kernels.values(arguments)))
        others = {"scalar": [(same[0], self.number(1), *same[2:])], "pointer": [(self.memories[1], *same[1:])]}
        function, made = self.function(arguments), []
        for index, given in enumerate([same, *others.get(change, [])]):
            name = f"given{index}"
            names = {"k": function, name: given}
            made.append(Statement(self.texts.launch.replace("given", name), names))
        return made

    def enqueue(self, stream: Handle, kernel: Any, events: Any = ()) -> list[Any]:
        """A launch, which carries the waits for events if the layer's launches can."""
        text = self.texts.elsewhere.format(kernel.text) if events else kernel.text
        return self.say(text, stream, note=kernel.note, **kernel.names)

    def say(self, text: str, *handles: Any, note: str = "", **names: Any) -> list[Any]:
        """A text as steps, about a stream and an event, with what other names stand for; without these about `main`."""
        handles = handles or (self.main,)
        given = {name: value for handle in handles for name, value in self.names_of(handle).items()}
        return self.steps(text, handles, {**self.names, **given, **names}, note) if text else []

    def events(self, size: int, for_host: bool = False) -> Any:
        """The given number of events, which the host may wait for if it says so."""
        return [Handle(next(self.numbers), self.make_event(for_host)) for _ in range(size)]

    def signal(self, stream: Handle, events: Any, index: int = 0) -> list[Any]:
        """An event of these after all that a stream was given."""
        return self.say(self.texts.signal, stream, events[index])

    def wait_for(self, stream: Handle, events: Any, index: int = 0) -> list[Any]:
        """A wait of a stream for an event, if launches carry none."""
        return self.say(self.texts.wait, stream, events[index])

    def release(self, events: Any) -> list[Any]:
        """The end of these events, if they cannot be used again as they are."""
        return [step for event in events for step in self.say(self.texts.release, event)] if self.texts.release else []

    def ask(self, what: str, stream: Handle, events: Any) -> list[Any]:
        """A question whether the first of these events, or a stream, is done."""
        text = self.texts.event if what == "event" else self.texts.stream
        if not text:
            raise AbsentError(self.lacks)
        return self.say(text, stream, events[0])

    def wait_for_all(self, events: Any) -> list[Any]:
        """A wait of the host for these events, or for the device."""
        return self.say(self.texts.all)

    def transfer(self, stream: Handle, direction: str, nbytes: int) -> list[Any]:
        """A copy "up", "down" or "across"."""
        here, there, host = self.memory(nbytes), self.memory(nbytes), self.pinned(nbytes)
        ends = {"up": (here, host), "down": (host, here), "across": (there, here)}
        (to, source), text = ends[direction], self.texts.copy[list(ends).index(direction)]
        note = self.texts.copy_note if direction != "across" else ""
        return self.say(text, stream, note=note, to=to, source=source, n=nbytes)

    # -- what they all share

    def stream(self, kind: str = "blocking") -> Handle:
        """A stream of a kind; a new one where there can be several."""
        return Handle(next(self.numbers), self.make_stream(kind))

    def streams(self, size: int) -> list[Handle]:
        """The given number of blocking streams."""
        self._streams += [self.stream() for _ in range(size - len(self._streams))]
        return self._streams[:size]

    @property
    def main(self) -> Handle:
        """The stream of most operations."""
        return self.streams(1)[0]

    def others(self, size: int) -> AbstractContextManager[object]:
        """Further blocking streams, for as long as it is entered."""
        stack = ExitStack()
        for _ in range(size):
            stack.callback(self.end_stream, self.make_stream())
        return stack

    def idle(self, size: int) -> AbstractContextManager[object]:
        """The same where those of forebay's device are not this layer's, too."""
        return self.others(size) if self.own_streams else nullcontext()

    def kernel(self) -> Any:
        """The kernel that most operations launch."""
        return self.kernels()[0]

    def subject(
        self, steps: list[Any], *streams: Handle, operations: int = 1, note: str = "", hold: bool = True
    ) -> Subject:
        """Steps on these streams, or on `main`, as a subject, noted with what the steps have to say."""
        note = note or ", ".join(dict.fromkeys(step.note for step in steps if step.note)) or self.note
        return Subject(self.run(steps, operations), partial(self.around, streams or (self.main,), hold), note)

    # -- the operations

    def launch(self, change: str = "", arguments: int = 2) -> Subject:
        """One launch; `change` is "", "scalar" or "pointer"."""
        kernels = self.kernels(change, arguments)
        steps = [step for kernel in kernels for step in self.enqueue(self.main, kernel)]
        return self.subject(steps, operations=len(kernels))

    def launch_on(self, kind: str) -> Subject:
        """A launch on the null, a blocking, a non-blocking, or the per-thread stream."""
        stream = self.stream(kind)
        note = self.null_note if kind == "null" else ""
        return self.subject(self.enqueue(stream, self.kernel()), stream, note=note)

    def launch_finish(self) -> Subject:
        """A launch, and the wait for its stream."""
        return self.subject([*self.enqueue(self.main, self.kernel()), *self.say(self.texts.finish)], hold=False)

    def record(self, new: bool) -> Subject:
        """An event, after a launch or with nothing new since the last one."""
        steps, events = self.enqueue(self.main, self.kernel()) if new else [], self.events(1)
        return self.subject([*steps, *self.signal(self.main, events), *self.release(events)])

    def wait(self) -> Subject:
        """A launch, an event after it, and a launch on another stream that waits for it."""
        return self.ordered("chain of {}", 2)

    def query(self, what: str) -> Subject:
        """The question whether an event, or a stream, is done, which it is."""
        events = self.events(1, for_host=True)
        self.run([*self.signal(self.main, events), *self.say(self.texts.finish)])(1)
        return self.subject(self.ask(what, self.main, events), hold=False)

    def ordered(self, shape: str, size: int) -> Subject:
        """Launches on a stream each, some of which wait for others: one of `SHAPES`."""
        ranges = SHAPES[shape](size)
        signals = max(before.stop for before in ranges)
        streams, events, steps = self.streams(len(ranges)), self.events(signals), []
        for index, (stream, before) in enumerate(zip(streams, ranges, strict=True)):
            steps += [step for each in before for step in self.wait_for(stream, events, each)]
            steps += self.enqueue(stream, self.kernel(), events[before.start : before.stop])
            steps += self.signal(stream, events, index) if index < signals else []
        return self.subject([*steps, *self.release(events)], *streams, hold=False)

    def alternate(self) -> Subject:
        """A launch on a blocking stream and one on the null stream, which the null rule orders in turn."""
        null, (other,) = self.stream("null"), self.streams(1)
        return self.subject([*self.enqueue(other, self.kernel()), *self.enqueue(null, self.kernel())], null, other)

    def finish_all(self, size: int) -> Subject:
        """A launch on each of the given number of streams, and the wait for the device."""
        streams, events, steps = self.streams(size), self.events(size, for_host=True), []
        for index, stream in enumerate(streams):
            steps += [*self.enqueue(stream, self.kernel()), *self.signal(stream, events, index)]
        steps += [*self.wait_for_all(events), *self.release(events)]
        return self.subject(steps, *streams, hold=False)

    def copy(self, direction: str, nbytes: int) -> Subject:
        """A copy "up", "down" or "across", and the wait for it."""
        return self.subject([*self.transfer(self.main, direction, nbytes), *self.say(self.texts.finish)], hold=False)

    def alloc(self, nbytes: int) -> Subject:
        """Memory taken and given back in the order of a stream."""
        return self.subject(self.say(self.texts.alloc, note=self.texts.alloc_note, n=nbytes), hold=False)

    def host(self) -> Subject:
        """A host function, and the wait for it."""
        if not self.ground.executes:
            raise AbsentError("null hardware calls no host functions")
        return self.subject([*self.say(self.texts.host), *self.say(self.texts.finish)], hold=False)

    def own_kernel(self) -> Any:
        """The kernel for one of several threads; with memory of its own, as in the C loop, in forebay's layers."""
        return self.kernel()

    def threads(self, size: int) -> Subject:
        """Launches from the given number of threads, each on a stream of its own."""
        streams = self.streams(size)
        launches = [self.in_thread(self.run(self.enqueue(stream, self.own_kernel()))) for stream in streams]
        return Subject(partial(run_threads, launches), partial(self.around, streams, True), self.note)

    def in_thread(self, launch: Run) -> Run:
        """The launches of a thread that is new, where it has to do something before them."""
        return launch

    def reproducer(self, streams: int, whole: bool) -> Subject:
        """Turns of that case's program beside idle streams; only their launches count unless the whole does."""
        null = self.stream("null")
        launches, rest = map(self.run, self.turn(null))

        def run(n: int) -> float:
            taken = 0.0
            for _ in range(n):
                launching, waiting = launches(1), rest(1)
                taken += launching + waiting if whole else launching
            return taken

        @contextmanager
        def around() -> Iterator[None]:
            with self.others(streams), self.around([null], False):
                yield

        return Subject(run, around, self.note)


class Apart(Layer):
    """A layer of another package with streams of its own, which nothing holds.

    `_settle` waits for the device, and `_current` makes a stream the current one, where there is such a thing.
    """

    _settle: Callable[[], object]
    _current: Callable[[Any], AbstractContextManager[object]] = staticmethod(lambda stream: nullcontext())

    @contextmanager
    def around(self, streams: Sequence[Handle], hold: bool) -> Iterator[None]:
        """A device without work before and after, and the first stream as the current one."""
        self._settle()
        with self._current(streams[0].it):
            yield
        self._settle()


# -- which there are

FLOOR, AGAIN = "C", "C again"
LAYERS = {
    FLOOR: ".raw:floor",
    AGAIN: ".raw:floor_again",
    "C recording": ".raw:recorded",
    "forebay bound": ".layers.forebay:Bound",
    "forebay": ".layers.forebay:Queues",
    "forebay step": ".layers.forebay:Steps",
    "forebay.hip": ".layers.hip:Hip",
    "pyopencl": ".layers.pyopencl:PyOpenCL",
    "pyopencl call": ".layers.pyopencl:PyOpenCLCall",
    "CUDA C": ".raw.cuda:CudaLoop",
    "CuPy": ".layers.cupy:CuPy",
    "cuda.core": ".layers.cuda_core:CudaCore",
    "PyTorch": ".layers.pytorch:PyTorch",
}
"""By name, where what makes a layer is, seen from `microbench`. It may need a package that is not installed."""
OURS = tuple(LAYERS)[: list(LAYERS).index("pyopencl")]
"""Those whose errors are errors of forebay."""


def open_layer(name: str, ground: Ground) -> Layer:
    """Make a layer. Raises `AbsentError` when it is not there."""
    module, maker = LAYERS[name].split(":")
    try:
        made: Layer = getattr(import_module(module, __package__.rpartition(".")[0]), maker)(ground)
    except AbsentError:
        raise
    except ImportError as error:
        raise AbsentError(f"not installed ({error})") from error
    except Exception as error:
        if name in OURS:
            raise
        raise AbsentError(f"{type(error).__name__}: {error}") from error
    made.name, made.ours = name, name in OURS
    return made
