"""Random programs with everything in the mix, compared whole with their model.

Launches with scratch, by-value arguments, arrays of the host and results, memory of the pool, copies, also with
strides, fills, events, waits, the null queue, graphs with branches and with graphs in them, steps, host functions,
gates, closings in the middle, and several threads. A seed is a program: the same operations each time, whatever the
device's timing.
"""

import contextlib
import itertools
import random
import threading

import numpy as np

import forebay as fb
from tests import inside
from tests.helpers.observer import EXECUTES, observe
from tests.helpers.recordings import recordings_installed

from .mixed_program import MOST, ROWS, SOURCE, HostMemory, MixedProgram
from .program import SIZE, Action, Memory
from .test_programs import QUEUES, Player
from .watched import Watch

WEIGHTS = {
    "advance": 8, "combine": 4, "scratch": 6, "by value": 3, "take": 2, "bound": 2, "array": 1, "copy": 3,
    "columns": 2, "fill": 2, "part": 1, "upload": 2, "send": 1, "download": 3, "compute": 2, "rows": 2,
    "rewrite rows": 1, "alloc": 4, "free": 3, "make": 1, "close memory": 1, "result": 2, "capture": 3, "graph": 8,
    "change graph": 3, "close graph": 1, "step": 2,
    "record": 2, "wait": 3, "wait queue": 2, "gate": 2, "open": 2, "query": 1, "query point": 1, "finish": 1,
    "finish point": 1, "finish within": 1, "finish device": 1, "close": 1, "drop": 1,
}  # fmt: skip
ACTIONS = list(WEIGHTS)[: list(WEIGHTS).index("alloc")]
IN_GRAPHS = [each for each in ACTIONS if not each.endswith("rows")] + ["scratch", "scratch", "advance", "graph"]
COLLECTED = ["advance", "advance", "combine", "take"]
NOT_IN_STEPS = {"capture", "step"}


class WrongError(AssertionError):
    """A result that is not the model's."""


class MixedPlayer(Player):
    """Plays operations (what, queue, three numbers, whether it insists) as far as they are allowed at that point."""

    IN_GRAPHS = IN_GRAPHS

    def __init__(self, program, alone):
        self.program, self.alone = program, alone
        self.queues = [self.make(kind) for kind in QUEUES]
        self.points = [None] * 3
        self.memories, self.pooled, self.graphs, self.results = [], set(), [], []
        self.hosts, device = [HostMemory(array) for array in program.host_arrays()], program.device
        self.rows = [self.made(Memory(device.empty(ROWS, "u4"), 0), 40 * i + 3, i) for i in range(2)]
        for i in range(3):
            self.memories.append(self.made(Memory(device.empty(SIZE, "u4"), 0), i, i))
        for rows in self.rows:
            rows.measured = 0

    def made(self, memory, value, slot):
        if self.program.watch is not None:
            self.program.watch.made(memory)
        self.program.perform(self.queues[slot], self.program.filling(memory, value))
        return memory

    def action(self, what, i, j, k, late=False):
        """The Action of this name; None when there is nothing for it."""
        program = self.program
        a = self.memories[i % len(self.memories)]
        b = self.memories[(i + 1 + j % (len(self.memories) - 1)) % len(self.memories)]
        rows, host = self.rows[j % 2], self.hosts[j % 2]
        return {
            "advance": lambda: program.advancing(a, k),
            "combine": lambda: program.combining(a, b, k),
            "scratch": lambda: program.following(a, b, k) if program.follows else program.tallying(a, rows, k),
            "by value": lambda: program.gathering(a, k),
            "take": lambda: program.taking(a, k),
            "bound": lambda: program.binding(a, k),
            "array": lambda: program.adding_array(a, k),
            "copy": lambda: program.copying(a, b),
            "columns": lambda: program.copying_columns(a, b, k),
            "fill": lambda: program.filling(a, k),
            "part": lambda: program.filling(a, k, first=SIZE // 4 * (j % 4)),
            "upload": lambda: program.uploading(a, k, late),
            "send": lambda: program.copying(a, self.hosts[1]),
            "download": lambda: program.copying(host, a),
            "compute": lambda: program.computing(host, k),
            "rows": lambda: program.filling(rows, 1 + k * 7 % MOST, first=j % 3),
            "rewrite rows": lambda: program.rewriting(rows, 1 + k * 5 % MOST),
            "graph": lambda: self.graphs[i % len(self.graphs)].launching(j) if self.graphs else None,
        }[what]()

    def capture(self, slot, numbers):
        kinds = ("blocking", "non-blocking", "per-thread") if self.alone else ("non-blocking",)
        queues = [queue for queue, kind in zip(self.queues, QUEUES, strict=True) if kind in kinds]
        queues = queues[slot % len(queues) :] + queues[: slot % len(queues)]
        draw, steps = random.Random(numbers), []
        beside = draw.random() < 0.3  # long launches, side by side
        for number in range(draw.randint(1, 8)):
            what, i, j, k = draw.choice(self.IN_GRAPHS), draw.randrange(99), draw.randrange(99), draw.randrange(99)
            if beside:
                what, i, k = "scratch", number, 4 * k
            action = self.action(what, i, j, k, late=True)
            if action is not None:
                steps.append((number if beside else draw.randrange(3), action, what == "advance"))
        if not steps:
            return
        made = self.program.capture(queues, steps)
        if draw.random() < 0.5:
            made.instantiate(draw.choice([1, 1, 2]))
        self.graphs = [*self.graphs[-3:], made]

    def lose(self, memory):
        """It is closed or freed: nothing uses it any more."""
        if self.program.watch is not None:
            self.program.watch.lost(memory)
        self.memories.remove(memory)
        self.pooled.discard(memory)
        self.graphs = [each for each in self.graphs if memory not in (*each.writes, *each.reads)]

    def repeat(self, slot, numbers):
        """The same operations several times, each time in the same step."""
        draw, queue = random.Random(numbers), self.queues[slot]
        if queue.is_null and not self.alone:
            return  # another thread may have a step on it
        body, step = [], queue.step()
        for _ in range(draw.randint(1, 8)):
            what, at, *rest = drawn(draw, NOT_IN_STEPS)
            if draw.random() < 0.8:  # else there is no run of launches to be collected
                what, at = draw.choice(COLLECTED), slot
            body.append((what, at, *rest))
        for turn in range(draw.randint(2, 6)):
            if queue.closed or self.queues[slot] is not queue:
                break
            with self.program.in_step(step):
                for what, at, i, j, k, insist in body:
                    self.play_one(what, at, i, j, k + turn // 2, insist)  # every other time with other numbers

    def play_one(self, what, slot, i, j, k, insist):
        program, queue = self.program, self.queues[slot]
        if what in ACTIONS or what == "graph":
            action = self.action(what, i, j, k)
            if action is not None:
                self.attempt(queue, action, insist)
        elif what in ("alloc", "make"):
            if len(self.memories) < 8:
                buffer = (queue.alloc if what == "alloc" else program.device.empty)(SIZE, "u4")
                self.memories.append(self.made(Memory(buffer, 0), k, slot))
                if what == "alloc":
                    self.pooled.add(self.memories[-1])
        elif what == "free":
            memory = next((each for each in self.memories if each in self.pooled), None)
            if memory and len(self.memories) > 3:
                if k % 2:
                    self.attempt(queue, program.copying(self.hosts[j % 2], memory), True)
                freed = Action(lambda queue: queue.free(memory.buffer), lambda: None, [memory])
                if self.attempt(queue, freed, True):
                    self.lose(memory)
                    if k % 3 == 0:
                        queue.alloc(SIZE, "u4").close()  # handed out and not used, it is the queue's still
        elif what == "close memory":
            if len(self.memories) > 3:
                memory = self.memories[i % len(self.memories)]
                if k % 2:
                    self.attempt(queue, program.copying(self.hosts[j % 2], memory), True)
                memory.buffer.close()
                self.lose(memory)
        elif what == "result":
            memory = self.memories[i % len(self.memories)]
            self.attempt(queue, program.totalling(memory, k, self.results), insist)
            if k % 5 == 0:
                del self.results[:1]  # nobody reads it
        elif what == "capture":
            self.capture(slot, i * 10000 + j * 100 + k)
        elif what == "change graph":
            if self.graphs:
                self.graphs[i % len(self.graphs)].change(program, j, slot, k)
        elif what == "close graph":
            if self.graphs:
                self.graphs.pop(i % len(self.graphs)).close()
        elif what == "step":
            self.repeat(slot, i * 10000 + j * 100 + k)
        elif what == "finish within":
            with contextlib.suppress(fb.TimeoutError):
                queue.finish(timeout=0)
        elif what != "finish device" or self.alone:
            self.play(what, slot, i, insist)


def drawn(draw, without=(), weights=WEIGHTS):
    """A random operation."""
    while True:
        (what,) = draw.choices(list(weights), weights.values())
        if what not in without:
            numbers = (draw.randrange(99) for _ in range(3))
            return (what, draw.randrange(len(QUEUES)), *numbers, draw.random() < 0.85)


def drawn_for_threads(draw, count, weights=WEIGHTS):
    """Draw random operations for `count` threads, a list for each."""
    return [[drawn(draw, weights=weights) for _ in range(draw.randint(1, 60))] for _ in range(count)]


class Bench:
    """Devices of one name to run programs on: as they are, one that debugs, and one whose pool rather waits.

    On OpenCL the steps of every other program collect launches, into the recordings of the tests, which are the whole
    process's: a bench that is not `alone` in it has those that are there.
    """

    def __init__(self, name=None, watched=False, check=None, alone=True):
        self.watched, self.pairs = watched, 0  # whether the driver's calls are, and the pairs that were judged
        self.alone = alone
        # Private: an observer that answers for null hardware knows nothing of gates from before its watch.
        self.devices = [fb.Device(name, debug=debug, check=check, private=True) for debug in (False, True, False)]
        self.devices[2].pool.growth_limit = 0
        self.built = []
        for device in self.devices:
            program = device.program(SOURCE)
            program["tally"].scratch("room", 4 * fb.MaxOver("rows"))
            if device.driver.has_addresses:
                program["follow"].follow_pointers()
            self.built.append(program)
            inside.build_copies_by_kernel(device)  # before a gate is closed: CUDA builds nothing while one is

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        for device in self.devices:
            device.close()

    def run(self, seed):
        """Run the program of this seed. Returns how many bytes were compared; a WrongError if one is wrong."""
        draw = random.Random(seed)
        (kind,) = draw.choices(range(3), [7, 1 if EXECUTES else 0, 2])  # what debugs must see what was executed
        count = 2 if draw.random() < 0.15 else 1
        operations = drawn_for_threads(draw, count)
        # Gates of other programs may hold its queues, too: streams of CUDA share the hardware's connections.
        device, built, careful = self.devices[kind], self.built[kind], count > 1 or kind != 0 or not self.alone
        with recording(device, self.alone and seed % 2 == 1, seed % 4 == 1), watching(device, self.watched) as watch:
            players, _ = run(
                lambda: MixedPlayer(MixedProgram(device, built, careful, watch, seed % 5 == 4), count == 1), operations
            )
            device.finish()
            if watch:
                watch.end()
                self.pairs += watch.pairs
            return sum(map(compared, players))


def recording(device, wanted, branches=False):
    """The context in which programs of OpenCL have recordings, if they are wanted."""
    wanted = wanted and device.info.backend == "opencl"
    return recordings_installed(branches, branches) if wanted else contextlib.nullcontext()


@contextlib.contextmanager
def watching(device, wanted):
    """Observe the driver until the block ends: a `Watch`, if it is wanted."""
    if not wanted:
        yield None
        return
    device.finish()
    with observe(device) as calls:
        yield Watch(calls)


def run(make, operations, allowed=()):
    """Run these operations, those of each thread, by a player that ``make()`` returns. Returns the players, and errors
    of the allowed kind that making one raised.
    """
    players, failed = [], []

    def work(own):
        try:
            with contextlib.ExitStack() as last:
                player = make()
                players.append(player)
                last.callback(player.program.open)  # which may find a mistake, too
                for each in own:
                    player.play_one(*each)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(own,)) for own in operations[1:]]
    [thread.start() for thread in threads]
    work(operations[0])
    [thread.join() for thread in threads]
    for error in failed:
        if not isinstance(error, allowed):
            raise error
    return players, failed


def compare(what, got, model):
    if EXECUTES and not np.array_equal(got, model):
        wrong = np.flatnonzero(got != model)
        first = wrong[0]
        raise WrongError(
            f"{what}: {len(wrong)} of {len(got)} wrong, at {first} first: {got[first]}, not {model[first]}"
        )


def compared(player):
    """Compare all memory of a program with its model; return the number of bytes."""
    nbytes = 0
    device = [(f"memory {i}", memory.buffer.get(), memory) for i, memory in enumerate(player.memories)]
    rows = [(f"rows {i}", memory.buffer.get(), memory) for i, memory in enumerate(player.rows)]
    hosts = [(f"host memory {i}", memory.buffer, memory) for i, memory in enumerate(player.hosts)]
    for what, got, memory in itertools.chain(device, rows, hosts):
        nbytes += got.nbytes
        if memory.known:
            compare(what, got, memory.model)
    for number, (result, expected) in enumerate(player.results):
        value = result.get()
        nbytes += value.nbytes
        compare(f"result {number}", np.atleast_1d(value), np.atleast_1d(expected))
    return nbytes
