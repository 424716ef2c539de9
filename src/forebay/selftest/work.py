"""Runs the tests on a device, and tells how far it is. Nothing here may be trusted to return: see `supervisor`."""

from __future__ import annotations

import dataclasses
import faulthandler
import os
import random
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import forebay as fb
from forebay.selftest import kernels, machine
from forebay.selftest.kernels import WIDTH
from forebay.selftest.litmus import LITMUS, RACES, Litmus
from forebay.selftest.scene import Bench, WrongError

CONTROLS = 8  # times that each program without a wait runs
SLOWER = (1, 4, 16)  # how many times as slow a slow kernel becomes where a machine is busy, so that races are seen
ENOUGH = 0.8  # of the races
OPENING, MEASURING, CONTROLLING = "opening the device", "measuring latencies", "looking whether a race is seen"
EXECUTES_NOTHING = "a kernel was launched and finished without an error, and has written nothing"


# -- what this process tells the one that shows it


@dataclass(frozen=True)
class Request:
    """What to run."""

    device: str | None  # filter words
    rounds: int  # how often each test runs, in another order each time
    seconds: float  # after which no other round begins
    patience: float  # seconds that one test may take
    calls_only: bool = False  # whether memory is not to be compared
    first_round: int = 0  # where to go on
    run: frozenset[str] = frozenset()  # the tests that were run in that round already
    left_out: frozenset[str] = frozenset()  # tests not to run any more, because they ended the process or hung


@dataclass(frozen=True)
class Opened:
    """The device is open, and its kernels are built."""

    facts: dict[str, Any]  # of the device and its driver, for the file
    executes: bool  # whether memory is compared
    slow: float  # seconds that a slow kernel takes


@dataclass(frozen=True)
class Begun:
    """A test, or something else that may hang, begins."""

    what: str
    number: int = 0  # of the round


@dataclass(frozen=True)
class Ran:
    """A test has run."""

    what: str
    number: int
    problem: str = ""  # what went wrong
    absent: str = ""  # why the device cannot run it


@dataclass(frozen=True)
class Controlled:
    """How many programs that lack a wait went wrong, as they should, of how many."""

    seen: int
    of: int
    slower: int = 1  # how many times as slow as before a slow kernel is now, so that they are seen


@dataclass(frozen=True)
class Ended:
    """Everything was run, or time was over, or it cannot go on."""

    rounds: int  # that were completed
    problem: str = ""  # why it cannot go on
    found: bool = True  # whether there is such a device
    stats: dict[str, int] = field(default_factory=dict)  # the counters of the device that are not 0


@dataclass(frozen=True)
class Latency:
    """What a call takes: microseconds of one, over rounds of `CALLS`."""

    name: str
    minimum: float
    median: float


Message = Opened | Begun | Ran | Controlled | Latency | Ended


# -- the work


def work(request: Request) -> Iterator[Message]:
    """Run what is asked for. The device is closed at the end.

    What begins is reported first, so that it is known if this process ends in the middle.
    """
    yield _begun(OPENING, 2 * request.patience)  # compilers take their time
    try:
        try:
            device = fb.Device(request.device, private=True)
        except (fb.DeviceNotFoundError, fb.InvalidArgumentError) as error:
            yield Ended(0, str(error), found=False)
            return
        except (fb.Error, ImportError, OSError) as error:
            yield Ended(0, said(error))
            return
        with device:
            try:
                program, language = kernels.build(device)
                bench, slow = _bench(device, program, request.calls_only)
            except (fb.Error, WrongError) as error:
                yield Opened(_facts(device), True, 0)
                yield Ended(0, said(error))
                return
            facts = _facts(device) | {"kernels built from": language, "steps of a slow kernel": bench.steps}
            yield Opened(facts, bench.executes, slow)
            yield from _run(request, bench)
    finally:
        faulthandler.cancel_dump_traceback_later()


def _begun(what: str, patience: float, number: int = 0) -> Begun:
    """Begin something that may hang: then the process ends, and has said where."""
    faulthandler.dump_traceback_later(patience, exit=True)
    return Begun(what, number)


def _run(request: Request, bench: Bench) -> Iterator[Message]:
    began, rounds = time.perf_counter(), request.first_round
    tests = [test for test in LITMUS if str(test) not in request.left_out]
    if bench.executes and CONTROLLING not in request.left_out:
        yield _begun(CONTROLLING, request.patience)
        yield _control(bench)
    for number in range(request.first_round, request.rounds):
        random.Random(number).shuffle(tests)
        for test in tests:
            if number == request.first_round and str(test) in request.run:
                continue
            yield _begun(str(test), request.patience, number)
            yield _ran(test, number, bench)
            if number and time.perf_counter() - began > request.seconds:
                break
        else:
            rounds = number + 1
            continue
        break
    if MEASURING not in request.left_out:
        yield _begun(MEASURING, request.patience)
        yield from latencies(bench.device, bench.program)
    stats = {name: count for name, count in dataclasses.asdict(bench.device.stats).items() if count}
    yield Ended(rounds, stats=stats)


def _ran(test: Litmus, number: int, bench: Bench) -> Ran:
    problem = absent = ""
    if test.needs_execution and not bench.executes:
        absent = "this device executes nothing, and would never come to the end"
    else:
        try:
            bench.run(test)
        except fb.NotSupportedError as error:
            absent = said(error)
        except Exception as error:
            problem = said(error)
    return Ran(str(test), number, problem, absent)


def _control(bench: Bench) -> Controlled:
    """Run programs that lack a wait, and make slow kernels as slow as it takes to see that."""
    tried: list[Controlled] = []
    steps = bench.steps
    for times in SLOWER:
        bench.steps = times * steps
        seen = 0
        for _ in range(CONTROLS):
            for race in RACES:
                try:
                    bench.run(race)
                except WrongError:
                    seen += 1
        tried.append(Controlled(seen, CONTROLS * len(RACES), times))
        if seen >= ENOUGH * tried[-1].of:
            break
    best = max(tried, key=lambda each: each.seen)  # the first of these
    bench.steps = best.slower * steps
    return best


def _bench(device: fb.Device, program: fb.Program, calls_only: bool) -> tuple[Bench, float]:
    """Find out whether the device executes, and how many steps are slow."""
    with device.queue(blocking=False) as queue, device.zeros(WIDTH, "u4") as x, device.zeros(WIDTH, "u4") as zeros:
        device.finish()

        def launch_and_finish(steps: int) -> None:
            queue.launch(program["combine"], 1, WIDTH, x, zeros, steps, 1)
            queue.finish()

        launch_and_finish(0)
        executes = device.driver.executes and not calls_only
        if executes and not np.array_equal(x.get(), np.ones(WIDTH, "u4")):
            raise WrongError(EXECUTES_NOTHING if not x.get().any() else f"a first kernel has written {x.get()}")
        steps, slow = kernels.calibrate(launch_and_finish) if executes else (1, 0.0)
    return Bench(device, program, steps, executes), slow


def said(error: BaseException) -> str:
    """An error in words, and where forebay was then. No path of this machine is in it."""
    frames = traceback.extract_tb(error.__traceback__)
    parts = [frame.filename.replace(os.sep, "/").rpartition("forebay/") for frame in frames]
    places = [f"{part[2]}:{frame.lineno}" for part, frame in zip(parts, frames, strict=True) if part[1]]
    kind = "" if isinstance(error, WrongError) else f"{type(error).__name__}: "
    return f"{kind}{error}" + (f" ({' < '.join(places[::-1][:4])})" if places and kind else "")


def _facts(device: fb.Device) -> dict[str, object]:
    info = dataclasses.asdict(dataclasses.replace(device.info, native=None))
    driver = device.driver
    return {name: info[name] for name in info if name not in ("native", "usable", "reason", "advice", "index")} | {
        "languages": [str(language) for language in device.languages],
        "priorities": list(driver.priorities),
        "timing is free": driver.timing_is_free,
        "limits": dataclasses.asdict(driver.limits),
        "libraries": machine.libraries(),
    }


# -- how long the main calls take here, in microseconds of the host's clock

ROUNDS = 40
CALLS = 50  # of a round; a queue of any driver takes as many without waiting
NODES = 20


def latencies(device: fb.Device, program: fb.Program) -> Iterator[Latency]:
    """Measure the rows one after the other: kernels that do nothing, copies of 4 bytes. Blocks for about a second.

    A wait elsewhere is one of another queue for the event that was recorded, and a launch there. What a round leaves
    the device to do is waited for after its time was taken.
    """
    kernel = program["nothing"]
    with ExitStack() as closing:
        a = closing.enter_context(device.queue(blocking=False))
        b = closing.enter_context(device.queue(blocking=False))
        buffer = closing.enter_context(device.zeros(1, "u4"))
        pinned: Any = fb.host_empty(1, "u4", device)
        pinned[:] = np.uint32(1)

        def launch() -> None:
            a.launch(kernel, 1, 1)

        with a.capture() as graph:
            for _ in range(NODES):
                a.launch(kernel, 1, 1)
        closing.enter_context(graph)
        step = a.step()

        def in_step() -> None:
            with step:
                for _ in range(NODES):
                    a.launch(kernel, 1, 1)

        rows: dict[str, tuple[Callable[[], object], ...]] = {
            "launch": (launch,),
            "launch + record": (launch, a.record),
            "launch + record + wait elsewhere": (launch, lambda: b.wait(a.record()), lambda: b.launch(kernel, 1, 1)),
            "copy to the device": (lambda: a.copy(buffer, pinned),),
            "copy to the host + finish": (lambda: a.copy(pinned, buffer), a.finish),
            f"graph of {NODES} launches": (lambda: graph.launch(a),),
            f"step of {NODES} launches": (in_step,),
            "launch + finish": (launch, a.finish),
        }
        for name, calls in rows.items():
            yield _measured(device, name, calls)
        step.close()


def _measured(device: fb.Device, name: str, calls: tuple[Callable[[], object], ...]) -> Latency:
    times = max(1, CALLS // NODES) if str(NODES) in name else CALLS
    taken = []
    for number in range(-2, ROUNDS):  # the first ones warm up
        began = time.perf_counter()
        for call in calls * times:
            call()
        ended = time.perf_counter()
        device.finish()
        if number >= 0:
            taken.append((ended - began) / times * 1e6)
    return Latency(name, min(taken), float(np.median(taken)))
