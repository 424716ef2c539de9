"""The layers: ways to make a device do the same thing. Each has the operations of `Layer` that it knows."""

from __future__ import annotations

import os
import timeit
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import forebay as fb

from .. import kernels
from ..processes import NULL_LEVELZERO

Run = Callable[[int], float]
"""Does an operation n times, and returns the seconds that took."""


class AbsentError(Exception):
    """A layer cannot do something, or is not there. The text says why."""


@dataclass(frozen=True)
class Subject:
    """One operation of one layer, to be measured.

    Attributes
    ----------
    run : callable
    around : callable
        A context manager for each sample, which is not timed: it leaves the queues as the next one needs them.
    note : str
        Why the row is not like for like with the others, if it is not.
    """

    run: Run
    around: Callable[[], AbstractContextManager[object]]
    note: str = ""


class Ground:
    """What all layers stand on: forebay's device, its kernels and two buffers.

    Attributes
    ----------
    device : forebay.Device
    program : forebay.Program
    buffers : list of forebay.Buffer
    executes : bool
        Whether the device executes anything. Null hardware does not, so nothing has to be held there.
    holds : bool
        Whether queues are held while they are filled. Over CUDA they are not, because nothing holds the streams of the
        other layers.
    native : Driver of microbench.raw
        The driver's own calls; None where there is no C compiler or no list of calls, `no_native` then says why.
    """

    def __init__(self, device: fb.Device):
        from .. import raw

        self.device = device
        self.executes: bool = NULL_LEVELZERO not in os.environ
        self.holds: bool = self.executes and device.info.backend != "cuda"
        self.program: fb.Program = device.program(kernels.opencl())
        self.buffers: list[fb.Buffer] = [device.zeros(1024) for _ in range(2)]
        self.native: Any = None
        self.no_native: str = ""
        try:
            raw.loops()
            calls: Any
            if device.info.backend == "opencl":
                from ..raw import opencl as calls
            elif device.info.backend == "level_zero":
                from ..raw import levelzero as calls
            else:
                raise AbsentError(f"no list of calls for {device.info.backend}")
            self.native = calls.Driver(device)
        except (raw.NoCompilerError, AbsentError) as error:
            self.no_native = str(error)

    def settle(self, queue: fb.Queue) -> None:
        """Wait for all that a queue was given, by forebay or not."""
        if self.native is not None:
            self.native.settle(queue)
        queue.finish()

    @contextmanager
    def free(self, *queues: fb.Queue) -> Iterator[None]:
        """Let queues run while they are filled."""
        for queue in queues:
            self.settle(queue)
        yield
        for queue in queues:
            self.settle(queue)

    @contextmanager
    def held(self, *queues: fb.Queue) -> Iterator[None]:
        """Hold queues while they are filled, so that a device that is this CPU does not compete for its cores."""
        with self.free(*queues), ExitStack() as gates:
            for queue in queues if self.holds else ():
                gates.enter_context(queue.gate())
            yield


def timed(statement: str, setup: str = "pass", operations: int = 1, **names: object) -> Run:
    """A sample of a Python statement that does so many operations. It includes the loop itself, some 10 ns a turn."""
    timer = timeit.Timer(statement, setup, globals=names)
    if operations == 1:
        return timer.timeit

    def run(n: int) -> float:
        turns = max(n // operations, 1)
        return timer.timeit(turns) * n / (turns * operations)

    return run


class Layer:
    """What a layer can do. Each method returns a `Subject`, or raises `AbsentError`; so do all that are not there.

    Attributes
    ----------
    name : str
        What `all.LAYERS` calls it.
    about : str
        What it is, in one line.
    """

    about: ClassVar[str]
    name: str
    ours: bool = False
    """Whether an error of it is one of forebay, which ends the run."""

    def __init__(self, ground: Ground):
        self.ground = ground

    def idle(self, count: int) -> AbstractContextManager[object]:
        """Have so many more idle streams, where those of forebay's device are not this layer's, too."""
        return ExitStack()

    def _absent(self, *args: Any, **kwargs: Any) -> Subject:
        raise AbsentError("has nothing like it")

    launch = _absent
    """``launch(change, arguments)``: change is "", "scalar" or "pointer"."""
    launch_tuple = _absent
    """``launch_tuple(arguments)``: a launch whose arguments the program has in a tuple."""
    launch_numpy = _absent
    """``launch_numpy(arguments)``: a launch whose numbers are NumPy's."""
    launch_on = _absent
    """``launch_on(kind)``: on the null, a blocking, a non-blocking, or the per-thread stream."""
    launch_finish = _absent
    """A launch, and the wait for its stream."""
    record = _absent
    """``record(new)``: an event, after a launch or with nothing new since the last one."""
    wait = _absent
    """A launch, an event after it, and a launch on another stream that waits for it."""
    query = _absent
    """``query(what)``: an event or a stream that are done."""
    chain = _absent
    """``chain(length)``: launches on so many streams, each after that on the stream before."""
    fan_out = _absent
    """``fan_out(count)``: a launch, and one after it on each of so many streams."""
    fan_in = _absent
    """``fan_in(count)``: a launch on each of so many streams, and one after all of them."""
    alternate = _absent
    """A launch on a blocking stream and one on the null stream, which the null rule orders in turn."""
    finish_all = _absent
    """``finish_all(count)``: a launch on each of so many streams, and the wait for the device."""
    turnover = _absent
    """``turnover(gone)``: a stream made, used and dropped, and the wait for the device, after so many such streams."""
    by_value = _absent
    """``by_value(nbytes, change)``: a launch with so many bytes by value, the same or new ones."""
    scratch = _absent
    """``scratch(reductions)``: a launch whose scratch is sized by data that has not changed."""
    replay = _absent
    """``replay(length, changed)``: so many launches, recorded before, of which some get another argument."""
    step = _absent
    """``step(length, change)``: so many launches, in a step if there are any; see `cases.step`."""
    copy = _absent
    """``copy(direction, nbytes)``: "up", "down" or "across", and the wait for it."""
    alloc = _absent
    """``alloc(nbytes)``: memory taken and given back in the order of a stream."""
    host = _absent
    """A host function, and the wait for it."""
    threads = _absent
    """``threads(count)``: launches from so many threads, each on a stream of its own."""
    first = _absent
    """``first(count)``: the first launch of a kernel on each of so many streams."""
    reproducer = _absent
    """``reproducer(streams, whole)``: turns of that case's program beside idle streams, or only their launches."""
