"""The random programs of `mixed`, with calls of the driver that fail at random places.

Every call may fail but those that release something or open a gate: opening is all that can let a queue go on. What a
program may see is forebay's own errors. A process does not end, and nothing is left over when the devices are closed.
Memory is compared that no failed operation may have written to, and what comes after a program must be right in any
case. On devices that check for races, no program has one, and one that is planted after it is found.
"""

import contextlib
import gc
import logging
import random
from collections import Counter

import forebay as fb
from forebay.queues.selection import select
from tests.helpers.observer import EXECUTES, observer_of
from tests.observers import recordings

from .mixed import Bench, MixedPlayer, WrongError, compared, drawn, drawn_for_threads, recording, run
from .mixed_program import MixedProgram

ONE_IN = (5, 15, 50, 200)  # calls of a function, of which one fails
# Of drivers whose observer counts only events: what makes an object, and what ends it.
LIVES = {
    "cuda": (
        (("cuMemAllocFromPoolAsync",), ("cuMemFreeAsync",)), (("cuStreamCreateWithPriority",), ("cuStreamDestroy_v2",)),
        (("cuGraphCreate",), ("cuGraphDestroy",)), (("cuGraphInstantiateWithFlags",), ("cuGraphExecDestroy",)),
    ),
    "opencl": (
        (("clSVMAlloc",), ("clSVMFree",)),
        (("clCreateBuffer", "clCreateSubBuffer", "clRetainMemObject"), ("clReleaseMemObject",)),
        (("clRetainCommandQueue",), ("clReleaseCommandQueue",)),
        (("clCreateKernel", "clCloneKernel"), ("clReleaseKernel",)),
        (("clRetainContext",), ("clReleaseContext",)),
    ),
    "sycl": (
        (("DPCTLmalloc_device", "DPCTLmalloc_shared", "DPCTLmalloc_host"), ("DPCTLfree_with_context",)),
        (("DPCTLQueue_Copy",), ("DPCTLQueue_Delete",)),
        (("DPCTLKernel_Copy", "DPCTLKernelBundle_GetKernel"), ("DPCTLKernel_Delete",)),
        (
            ("DPCTLKernelBundle_CreateFromOCLSource", "DPCTLKernelBundle_CreateFromSpirv"),
            ("DPCTLKernelBundle_Delete",),
        ),
    ),
}  # fmt: skip
COPIES = {"opencl": "clCreateKernel", "sycl": "DPCTLKernel_Copy"}


class LeakError(AssertionError):
    """Something is left after all devices were closed."""


class FailingProgram(MixedProgram):
    """What it knows of the order is not true once something has failed, so it opens all gates before what may wait."""

    def __init__(self, device, built, follows=False):
        super().__init__(device, built, careful=True, follows=follows)
        self.errors = []
        self.failed = None  # the Action that failed last

    def perform(self, queue, action):
        if action.measures:
            self.open()
        self.failed = action
        super().perform(queue, action)
        self.failed = None
        if not all(memory.known for memory in action.reads):
            forget(action.writes)

    def totalling(self, memory, k, results):
        return super().totalling(memory, k, results if memory.known else [])


def forget(memories):
    """What these hold is not known any more."""
    for memory in memories:
        memory.known = False


class FailingPlayer(MixedPlayer):
    """Goes on after an operation that failed."""

    def __init__(self, program, alone):
        self.over = False
        self.lost = []  # memory that a command may still write to
        super().__init__(program, alone)

    def play_one(self, *operation):
        if self.over:
            return
        self.program.failed = None
        try:
            super().play_one(*operation)
        except fb.RaceError:
            raise
        except fb.Error as error:
            self.program.errors.append(error)
            for queue in self.queues:  # one may be forgotten, and no other be made in its place
                self.program.adopt(queue)
            self.go_on()

    def go_on(self):
        """Forget what the failed operation may have written to."""
        written = self.program.failed.writes if self.program.failed and not self.program.in_steps else None
        if written and len(self.memories) > 3 and set(written) <= set(self.memories[3:]):
            for memory in written:
                self.lost.append(memory)
                self.lose(memory)
        else:
            forget(written or [*self.memories, *self.rows, *self.hosts])
            self.over = not self.settle()

    def settle(self):
        """Wait for all: of what failed a part may run, and the program would race with it. Returns whether it
        succeeded.
        """
        self.program.open()
        for _ in range(50):
            with contextlib.suppress(fb.Error):
                self.program.device.finish()
                return True
        return False


class FailingBench:
    """A `Bench` whose driver is observed from before there is anything on it. Use it in a with statement."""

    def __init__(self, name=None, check=None):
        self.backend = select(name).backend
        self.name, self.check = name, check
        self.driver = observer_of(self.backend)
        self.counts = Counter()
        self.failed = self.errors = 0

    def __enter__(self):
        gc.collect()
        self.end_what_waits()
        self.driver.watch(emulate=not EXECUTES)
        self.copied = self.copies()
        self.before = self.driver.alive() if self.backend == "level_zero" else {}
        self.driver.start()
        self.bench = Bench(self.name, check=self.check)
        return self

    def __exit__(self, kind, error, traceback):
        """Close the devices. A LeakError if something is left, an AssertionError if the driver was used wrongly."""
        events = []
        try:
            self.driver.forgive()
            self.bench.__exit__(kind, error, traceback)
            del self.bench
            gc.collect()
            self.end_what_waits()
            if self.backend != "level_zero":
                events = self.driver.events_alive(None)
            self.count()
            violations = self.driver.violations()
            now = self.driver.alive() if self.backend == "level_zero" else {}
        finally:
            self.driver.stop()
            self.driver.unwatch()
        if error is not None:
            return
        left = {what: now[what] - self.before[what] for what in now if now[what] != self.before[what]}
        if self.backend in COPIES:
            self.counts[COPIES[self.backend]] += self.copies() - self.copied
        for makers, enders in LIVES.get(self.backend, ()):
            made, ended = (sum(self.counts[name] for name in names) for names in (makers, enders))
            if made != ended:
                left[makers[0]] = made - ended
        if events:
            left["events"] = len(events)
        if left:
            raise LeakError(f"left after closing: {left}")
        assert not violations, "\n".join(violations)

    def copies(self):
        """How many kernels were copied by calls that no record shows."""
        if self.backend == "sycl":
            return self.driver.copies_in_launches()
        return recordings.clones() if self.backend == "opencl" else 0

    def end_what_waits(self):
        """Let what is left end before the count begins, or ends. CUDA destroys executables that were closed beside a
        closed gate when the next one of the context is made.
        """
        self.wait_for_host_thread()
        with fb.Device(self.name, private=True) as device:
            graph = device.graph()
            graph.add_fill(device.empty(16, "u4"), 0)
            graph.launch(device.null_queue)
            device.finish()

    def wait_for_host_thread(self):
        """Let it give back what it had last: it may have dropped a device, and calls one function after the other."""
        if EXECUTES or self.backend == "cuda":  # what stands in for CUDA's driver calls host functions, too
            with fb.Device(self.name, private=True) as device:
                device.null_queue.host(gc.collect)
                device.finish()

    def count(self):
        """Count what was called so far, and drop the record of it."""
        for name, *_, status, injected, _thread in self.driver.take():
            self.failed += injected
            self.counts[name] += status == 0 and not injected

    def run(self, seed):
        """Run the program of this seed while calls fail, and then one while none does.

        Returns the number of bytes that were compared. A WrongError if a result is not the model's; other errors of the
        first program than forebay's are raised, and all of the second one's.
        """
        draw = random.Random(seed)
        kind = draw.choices(range(3), [7, 1 if EXECUTES else 0, 2])[0]
        device, built = self.bench.devices[kind], self.bench.built[kind]
        operations = drawn_for_threads(draw, 2 if draw.random() < 0.15 else 1)
        after = [drawn(draw) for _ in range(12)]
        with recording(device, seed % 2 == 1):
            self.driver.fail_at_random(seed, draw.choice(ONE_IN))
            try:
                players, errors = run(
                    lambda: FailingPlayer(FailingProgram(device, built, seed % 5 == 4), len(operations) == 1),
                    operations, fb.Error,
                )  # fmt: skip
            finally:
                self.driver.forgive()
            for _ in range(2):  # an error may come late, once
                with contextlib.suppress(fb.Error):
                    device.finish()
            device.finish()
            count = len(errors) + sum(len(each.program.errors) for each in players)
            self.errors += count
            nbytes = sum(compared(player) for player in players if not player.over)
            players, errors = run(lambda: MixedPlayer(MixedProgram(device, built, careful=True), True), [after])
            device.finish()
            nbytes += sum(map(compared, players))
            del players
            if self.check:
                self.plant_race(device)
        self.count()
        return nbytes

    def plant_race(self, device):
        """The checker finds a race, whatever was refused before."""
        logging.getLogger("forebay.races").setLevel(logging.CRITICAL)  # it is meant
        queues, memory = [device.queue(blocking=False) for _ in range(2)], device.empty(64, "u4")
        queues[0].fill(memory, 1)
        try:
            queues[1].fill(memory, 2)
        except fb.RaceError:
            device.finish()
        else:
            raise WrongError("no race was found")
        finally:
            logging.getLogger("forebay.races").setLevel(logging.NOTSET)
