"""Random programs with everything in the mix, compared whole with their model.

Launches with scratch and by-value arguments, memory of the pool, copies, fills, events, waits, the null queue, graphs
with branches and with graphs in them, steps, host functions, gates, closings in the middle, and several threads. A seed
is a program: the same operations each time, whatever the device's timing.
"""

import contextlib
import functools
import itertools
import random
import threading

import numpy as np

import forebay as ps
from tests.helpers.observer import EXECUTES

from . import program as simple
from .program import SIZE, Action, Memory, Program
from .test_programs import QUEUES, Player

ROWS, MOST = 8, 300  # elements that a size is read from, and the most elements of scratch
PASSES = 40  # over the scratch by every fourth launch, so that launches side by side really overlap
BLOCK = 60  # elements of an array passed by value
SOURCE = f"""{simple.SOURCE}
kernel void tally(global uint *a, global const uint *rows, global volatile uint *room, uint k)
{{
    uint n = rows[0];
    uint spoilt = 0, passes = k % 4 ? 1 : {PASSES};
    for (uint i = 1; i < {ROWS}; i++) n = max(n, rows[i]);
    for (uint pass = passes; pass-- > 0;) {{
        for (uint i = 0; i < n; i++) room[i] = a[i % {SIZE}] * 3 + i + k + pass;
        for (uint i = 0; i < n; i++) spoilt += room[i] != a[i % {SIZE}] * 3 + i + k + pass;
    }}
    for (uint i = 0; i < n; i++) a[i % {SIZE}] = a[i % {SIZE}] * 5 + room[n - 1 - i] + spoilt;
}}
kernel void gather(global uint *a, global const uint *block)
{{
    uint sum = 0;
    for (uint i = 0; i < {BLOCK}; i++) sum = sum * 7 + block[i];
    a[get_global_id(0)] = a[get_global_id(0)] * 3 + sum;
}}
typedef struct {{ uint a; uint b; }} Pair;
kernel void take(global uint *a, Pair pair) {{ a[get_global_id(0)] = a[get_global_id(0)] * 3 + pair.a * 10 + pair.b; }}
kernel void rewrite(global uint *rows, uint k) {{ rows[get_global_id(0)] = k + get_global_id(0); }}
"""

WEIGHTS = {
    "advance": 8, "combine": 4, "scratch": 6, "by value": 3, "take": 2, "bound": 2, "copy": 3, "fill": 2, "part": 1,
    "upload": 2, "download": 3, "compute": 2, "rows": 2, "rewrite rows": 1, "alloc": 4, "free": 3, "make": 1,
    "close memory": 1, "capture": 3, "graph": 8, "close graph": 1, "step": 2, "record": 2, "wait": 3, "wait queue": 2,
    "gate": 2, "open": 2, "query": 1, "query point": 1, "finish": 1, "finish point": 1, "finish within": 1,
    "finish device": 1, "close": 1, "drop": 1,
}  # fmt: skip
ACTIONS = list(WEIGHTS)[: list(WEIGHTS).index("alloc")]
IN_GRAPHS = [each for each in ACTIONS if not each.endswith("rows")] + ["scratch", "scratch", "advance", "graph"]
COLLECTED = ["advance", "advance", "combine", "take"]
NOT_IN_STEPS = {"capture", "step"}


class WrongError(AssertionError):
    """A result that is not the model's."""


class HostMemory(Memory):
    """An array of the host that copies and host functions write to."""

    def __init__(self, array):
        super().__init__(array, 0)
        array[:] = 0


class Graph:
    """A captured graph, and what a launch of it does."""

    def __init__(self, graph, actions):
        self.graph = graph
        self.launched = [graph]  # itself, or executables of it
        self.actions = actions
        self.writes = list({memory: None for action in actions for memory in action.writes})
        self.reads = list({memory: None for action in actions for memory in action.reads})
        self.measures = list({memory: None for action in actions for memory in action.measures})

    def launching(self, number):
        def effect():
            for action in self.actions:
                action.effect()

        launched = self.launched[number % len(self.launched)]
        return Action(launched.launch, effect, self.writes, self.reads, measures=self.measures)

    def close(self):
        for each in {*self.launched, self.graph}:
            each.close()


def tallied(a, rows, k):
    n = int(rows.max())
    i = np.arange(n, dtype="u4")
    room = a[i % SIZE] * np.uint32(3) + i + np.uint32(k)
    found = a.copy()
    for first in range(0, n, SIZE):
        count = min(SIZE, n - first)
        found[:count] = found[:count] * np.uint32(5) + room[n - 1 - first - np.arange(count)]
    return found


class MixedProgram(Program):
    """A program that nobody observes, with more kinds of commands."""

    def __init__(self, device, built, careful):
        super().__init__(device, built)
        self.careful = careful  # more may hold it than HIP's rules say, so the host opens all gates before it waits
        self.ends = {}  # by handle, of queues that are closed or gone: a point at which all was submitted

    # -- what commands do

    def tallying(self, memory, rows, k):
        return self.launching(
            "tally", memory, rows, k, becomes=lambda: tallied(memory.model, rows.model, k), reads=[rows], grid=(1, 1),
            measures=[rows],
        )  # fmt: skip

    def gathering(self, memory, k):
        block = np.arange(k, k + BLOCK, dtype="u4")
        total = int(np.polyval(block.astype(object), 7)) % (1 << 32)

        def becomes():
            return memory.model * np.uint32(3) + np.uint32(total)

        action = self.launching("gather", memory, ps.by_value(block), becomes=becomes)

        def submit(queue):
            block[:] = np.arange(k, k + BLOCK)
            action.submit(queue)
            block[:] = 0  # it was taken

        return action._replace(submit=submit)

    def taking(self, memory, k):
        def becomes():
            return memory.model * np.uint32(3) + np.uint32(11 * k + 1)

        return self.launching("take", memory, np.array([k, k + 1], "u4").tobytes(), becomes=becomes)

    def binding(self, memory, k):
        def submit(queue):
            self.kernels["advance"].bind(queue, SIZE // 16, 16, memory.buffer, k)()

        return self.advancing(memory, k)._replace(submit=submit)

    def computing(self, host, k):
        """A host function."""

        def compute():
            host.buffer[:] = host.buffer * np.uint32(3) + np.uint32(k)

        def effect():
            host.model[:] = host.model * np.uint32(3) + np.uint32(k)

        return Action(lambda queue: queue.host(compute), effect, [host])

    def rewriting(self, rows, k):
        def becomes():
            return k + np.arange(ROWS, dtype="u4")

        return self.launching("rewrite", rows, k, becomes=becomes, grid=(1, ROWS))

    # -- operations

    def perform(self, queue, action):
        if any(self.device.debug or rows.measured != rows.writers for rows in action.measures):
            self.open()  # it waits for whoever wrote what is measured
        super().perform(queue, action)
        for rows in action.measures:
            rows.measured = rows.writers

    def capture(self, queues, steps):
        """Capture (number of the queue, Action)s. A queue waits for another where memory asks for it."""
        origin, done, own, last = queues[0], {queues[0]: 0}, {}, {}

        def wait(queue, other):
            queue.wait(other)
            done[queue] = done.get(queue, 0) | done[other]

        with origin.capture("relaxed") as graph:
            for number, (at, action) in enumerate(steps):
                queue = queues[at % min(3, len(queues))]
                if queue not in done:
                    wait(queue, origin)
                before = 0
                for memory in (*action.writes, *action.reads):
                    writers, readers = last.get(memory, (0, 0))
                    before |= writers | (readers if memory in action.writes else 0)
                for other in list(done):
                    if own.get(other, 0) & before & ~done[queue]:
                        wait(queue, other)
                action.submit(queue)
                own[queue] = own.get(queue, 0) | 1 << number
                done[queue] |= 1 << number
                for memory in action.reads:
                    writers, readers = last.get(memory, (0, 0))
                    last[memory] = writers, readers | 1 << number
                for memory in action.writes:
                    last[memory] = 1 << number, 0
            for other in done:
                if other is not origin:
                    wait(origin, other)
        return Graph(graph, [action for _, action in steps])

    def order_after(self, queue, operations):
        for handle in dict.fromkeys(self.owners[operation] for operation in operations):
            self.wait(queue, self.ends.get(handle) or self.of[handle][0])
        return True

    def close(self, queue):
        handle = self.calls.handle_of(queue)
        if handle not in self.ends:
            self.ends[handle] = self.record(queue)
        super().close(queue)

    def forget(self, queue):
        if not queue.closed:
            self.ends[self.calls.handle_of(queue)] = self.record(queue)
        super().forget(queue)

    # What the program does next must not depend on the device's timing: on what a query finds done, nor on whether a
    # wait was dropped.

    def new_operation(self, queue, epoch):
        return None

    def query(self, queue):
        told = self.told
        super().query(queue)
        self.told = told

    def query_point(self, point):
        told = self.told
        super().query_point(point)
        self.told = told

    def open_what_holds(self, queue):
        rule = self.rule(queue)
        others = self.rules.queues.values() if rule.null else ()
        waits_for = rule.may
        for other in others:
            waits_for |= other.may if other.blocking else 0
        for operation in list(self.gates):
            if self.careful or waits_for >> operation & 1:
                self.open(operation)


class MixedPlayer(Player):
    """Plays operations (what, queue, three numbers, whether it insists) as far as they are allowed at that point."""

    def __init__(self, program, alone):
        self.program, self.alone = program, alone
        self.queues = [self.make(kind) for kind in QUEUES]
        self.points = [None] * 3
        self.memories, self.pooled, self.graphs = [], set(), []
        device = program.device
        # A copy to pageable memory waits for the queue on some drivers, and a gate may hold that.
        pageable = np.empty if device.driver.takes_pageable else functools.partial(ps.host_empty, device=device)
        self.hosts = [HostMemory(pageable(SIZE, "u4")), HostMemory(ps.host_empty(SIZE, "u4", device=device))]
        self.rows = [self.made(Memory(device.empty(ROWS, "u4"), 0), 40 * i + 3, i) for i in range(2)]
        for i in range(3):
            self.memories.append(self.made(Memory(device.empty(SIZE, "u4"), 0), i, i))
        for rows in self.rows:
            rows.measured = 0

    def made(self, memory, value, slot):
        self.program.perform(self.queues[slot], self.program.filling(memory, value))
        return memory

    def attempt(self, queue, action, insist):
        program = self.program
        racing = program.racing(queue, action.writes, action.reads)
        if racing and insist:
            program.order_after(queue, racing)
            racing = program.racing(queue, action.writes, action.reads)
        if not racing:
            program.perform(queue, action)
        return not racing

    def action(self, what, i, j, k, late=False):
        """The Action of this name; None when there is nothing for it."""
        program = self.program
        a = self.memories[i % len(self.memories)]
        b = self.memories[(i + 1 + j % (len(self.memories) - 1)) % len(self.memories)]
        rows, host = self.rows[j % 2], self.hosts[j % 2]
        return {
            "advance": lambda: program.advancing(a, k),
            "combine": lambda: program.combining(a, b, k),
            "scratch": lambda: program.tallying(a, rows, k),
            "by value": lambda: program.gathering(a, k),
            "take": lambda: program.taking(a, k),
            "bound": lambda: program.binding(a, k),
            "copy": lambda: program.copying(a, b),
            "fill": lambda: program.filling(a, k),
            "part": lambda: program.filling(a, k, first=SIZE // 4 * (j % 4)),
            "upload": lambda: program.uploading(a, k, late),
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
        beside = draw.random() < 0.3  # long launches with scratch, side by side
        for number in range(draw.randint(1, 8)):
            what, i, j, k = draw.choice(IN_GRAPHS), draw.randrange(99), draw.randrange(99), draw.randrange(99)
            if beside:
                what, i, k = "scratch", number, 4 * k
            action = self.action(what, i, j, k, late=True)
            if action is not None:
                steps.append((number if beside else draw.randrange(3), action))
        if not steps:
            return
        made = self.program.capture(queues, steps)
        if draw.random() < 0.5:
            made.launched = [made.graph.instantiate() for _ in range(draw.choice([1, 1, 2]))]
        self.graphs = [*self.graphs[-3:], made]

    def lose(self, memory):
        """It is closed or freed: nothing uses it any more."""
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
        elif what == "capture":
            self.capture(slot, i * 10000 + j * 100 + k)
        elif what == "close graph":
            if self.graphs:
                self.graphs.pop(i % len(self.graphs)).close()
        elif what == "step":
            self.repeat(slot, i * 10000 + j * 100 + k)
        elif what == "finish within":
            with contextlib.suppress(ps.TimeoutError):
                queue.finish(timeout=0)
        elif what != "finish device" or self.alone:
            self.play(what, slot, i, insist)


def drawn(draw, without=()):
    """A random operation."""
    while True:
        (what,) = draw.choices(list(WEIGHTS), WEIGHTS.values())
        if what not in without:
            numbers = (draw.randrange(99) for _ in range(3))
            return (what, draw.randrange(len(QUEUES)), *numbers, draw.random() < 0.85)


class Bench:
    """Devices of one name to run programs on: as they are, one that debugs, and one whose pool rather waits.

    On OpenCL the steps of every other program collect launches, into the recordings of the tests.
    """

    def __init__(self, name=None):
        # Private: an observer that answers for null hardware knows nothing of gates from before its watch.
        self.devices = [ps.Device(name, debug=debug, private=True) for debug in (False, True, False)]
        self.devices[2].pool.growth_limit = 0
        self.built = []
        for device in self.devices:
            program = device.program(SOURCE)
            program["tally"].scratch("room", 4 * ps.MaxOver("rows"))
            self.built.append(program)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        for device in self.devices:
            device.close()

    def run(self, seed):
        """Run the program of this seed. Returns the number of bytes that were compared.

        Raises
        ------
        WrongError
            When a result is not the model's.
        Exception
            Whatever an operation raised that must not raise.
        """
        draw = random.Random(seed)
        (kind,) = draw.choices(range(3), [7, 1 if EXECUTES else 0, 2])  # what debugs must see what was executed
        count = 2 if draw.random() < 0.15 else 1
        operations = [[drawn(draw) for _ in range(draw.randint(1, 60))] for _ in range(count)]
        with recording(self.devices[kind], seed % 2 == 1):
            return run(self.devices[kind], self.built[kind], operations, careful=count > 1 or kind != 0)


@contextlib.contextmanager
def recording(device, wanted):
    """Give steps of OpenCL recordings until the block ends, which must not misuse them."""
    if device.info.backend != "opencl" or not wanted:
        yield
        return
    from forebay.queues.opencl import operations
    from tests.observers import recordings

    misused = recordings.counts()[0]
    recordings.install(operations.table_address(), False)
    try:
        yield
    finally:
        recordings.uninstall()
    if recordings.counts()[0] != misused:
        raise WrongError("a recording of a step was used as it must not be")


def run(device, built, operations, careful):
    """Run these operations, those of each thread. Returns the number of bytes that were compared."""
    players, failed = [], []

    def work(own):
        program = MixedProgram(device, built, careful)
        try:
            player = MixedPlayer(program, alone=len(operations) == 1)
            players.append(player)
            for each in own:
                player.play_one(*each)
        except BaseException as error:
            failed.append(error)
        finally:
            program.open()

    threads = [threading.Thread(target=work, args=(own,)) for own in operations[1:]]
    [thread.start() for thread in threads]
    work(operations[0])
    [thread.join() for thread in threads]
    device.finish()
    if failed:
        raise failed[0]
    return sum(map(compared, players))


def compared(player):
    """Compare all memory of a program with its model; return the number of bytes."""
    nbytes = 0
    device = [(f"memory {i}", memory.buffer.get(), memory) for i, memory in enumerate(player.memories)]
    rows = [(f"rows {i}", memory.buffer.get(), memory) for i, memory in enumerate(player.rows)]
    hosts = [(f"host memory {i}", memory.buffer, memory) for i, memory in enumerate(player.hosts)]
    for what, got, memory in itertools.chain(device, rows, hosts):
        nbytes += got.nbytes
        if EXECUTES and not np.array_equal(got, memory.model):
            wrong = np.flatnonzero(got != memory.model)
            first = wrong[0]
            raise WrongError(
                f"{what}: {len(wrong)} of {len(got)} wrong, at {first} first: {got[first]}, not {memory.model[first]}"
            )
    return nbytes
