"""Random programs of HIP's functions, run on the device and, one operation after the other, on a model.

Streams of all kinds, memory of the device, of the pool and of the host, copies of lines and of parts of tables, sets,
kernels that take pointers and kernels that find them in memory, events, waits, host functions, captured graphs with
forks, and frees, destroys and gates in the middle. A program orders what its memory asks for, by HIP's rules for the
null stream or by an event, and nothing else. A seed is a program.
"""

import ctypes
import random
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from forebay import hip

from .conftest import ok
from .helpers import E, K

N, ROW = 64, 8
SOURCE = f"""
kernel void advance(global uint *a, uint k) {{ a[get_global_id(0)] = a[get_global_id(0)] * 3 + k; }}
kernel void combine(global uint *a, global const uint *b, uint k)
{{
    a[get_global_id(0)] = a[get_global_id(0)] * 5 + b[get_global_id(0)] + k;
}}
kernel void slowly(global volatile uint *a, uint k)
{{
    for (uint pass = 0; pass < 20000; pass++) a[get_global_id(0)] = a[get_global_id(0)] * 3 + k;
}}
kernel void follow(global const ulong *table, uint k)
{{
    global uint *a = (global uint *) table[0];
    global const uint *b = (global const uint *) table[1];
    for (uint i = 0; i < {N}; i++) a[i] = a[i] * 7 + b[i] + k;
}}
"""
KERNELS = ("advance", "combine", "slowly", "follow")
KINDS = ("null", "blocking", "blocking", "non-blocking", "non-blocking", "per-thread")
WEIGHTS = {
    "advance": 8, "combine": 5, "slowly": 3, "follow": 3, "copy": 3, "table": 2, "set": 3, "upload": 2, "download": 3,
    "compute": 2, "graph": 5, "malloc": 2, "malloc async": 4, "free": 1, "free async": 4, "read": 1, "capture": 3,
    "destroy graph": 1, "record": 2, "wait": 3, "query": 2, "destroy event": 1, "gate": 2, "open": 2,
    "synchronize": 1, "synchronize event": 1, "synchronize device": 1, "destroy stream": 1,
}  # fmt: skip
exclusive = threading.RLock()  # HIP refuses calls that wait while another thread captures
SUBMITTED = list(WEIGHTS)[: list(WEIGHTS).index("malloc")]


class WrongError(AssertionError):
    """A result that is not the model's."""


class Memory:
    """Memory of the device or of the host, its model, and the last operations on it: (stream, number)."""

    def __init__(self, pointer: Any, host: Any = None, pinned: bool = False) -> None:
        self.pointer, self.host, self.pinned = pointer, host, pinned
        self.model = np.zeros(N, "u4")
        self.writers: set[tuple[int, int]] = set()
        self.readers: set[tuple[int, int]] = set()


class Operation(NamedTuple):
    submit: Callable[[Any], None]
    effect: Callable[[], None]
    writes: Sequence[Memory]
    reads: Sequence[Memory] = ()


class Graph(NamedTuple):
    executable: Any
    operations: list[Operation]


class Stream:
    """A stream; `known` says, for each stream's id, how many of its operations come before the next one here."""

    def __init__(self, number: int, kind: str) -> None:
        self.number, self.kind = number, kind
        self.count = 0
        self.known: dict[int, int] = {}
        if kind in ("blocking", "non-blocking"):
            self.handle = ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking if kind[0] == "n" else 0))
        else:
            self.handle = {"null": None, "per-thread": hip.hipStreamPerThread}[kind]

    @property
    def blocking(self) -> bool:
        return self.kind in ("blocking", "per-thread")

    def learn(self, known: dict[int, int]) -> None:
        for number, count in known.items():
            self.known[number] = max(self.known.get(number, 0), count)

    def told(self) -> dict[int, int]:
        """What is before a point that comes now."""
        return {**self.known, self.number: self.count}


class HipProgram:
    """One thread's program. `hold` and `functions` are those of the device."""

    def __init__(self, draw: random.Random, functions: dict[str, Any], hold: Callable[[Any], Any], alone: bool) -> None:
        self.draw, self.functions, self.hold, self.alone = draw, functions, hold, alone
        self.made = 0
        self.streams = [self.stream(kind) for kind in KINDS]
        self.ended: dict[int, tuple[Any, dict[int, int]]] = {}  # by number, of destroyed streams: an event at their end
        self.host: dict[int, int] = {}  # what the host knows to be done
        self.gates: list[Any] = []
        self.events: list[tuple[Any, dict[int, int]]] = []
        self.graphs: list[Graph] = []
        self.memories = [self.device_memory() for _ in range(3)]
        array = np.zeros(N, "u4")
        self.hosts = [pinned_memory(), Memory(array, array)]
        self.tables: list[Any] = []  # memory of the device with addresses in it
        self.kept: list[Any] = []  # memory of the host that graphs may read to the end

    def stream(self, kind: str) -> Stream:
        self.made += 1
        return Stream(self.made, kind)

    def device_memory(self) -> Memory:
        memory = Memory(ok(hip.hipMalloc(4 * N)))
        with exclusive:
            ok(hip.hipMemset(memory.pointer, 0, 4 * N))
            ok(hip.hipDeviceSynchronize())
        return memory

    # -- order

    def begin(self, stream: Stream) -> None:
        """What comes before an operation on this stream by HIP's rules."""
        stream.learn(self.host)
        for other in self.streams:
            if (stream.kind == "null" and other.blocking) or (stream.blocking and other.kind == "null"):
                stream.learn(other.told())

    def order(self, stream: Stream, writes: Sequence[Memory], reads: Sequence[Memory]) -> None:
        self.begin(stream)
        before = {each for memory in (*writes, *reads) for each in memory.writers}
        before |= {each for memory in writes for each in memory.readers}
        for number, count in sorted(before):
            if number == stream.number or stream.known.get(number, 0) >= count:
                continue
            other = next((each for each in self.streams if each.number == number), None)
            if other is None:
                event, told = self.ended[number]
                ok(hip.hipStreamWaitEvent(stream.handle, event, 0))
                stream.learn(told)
            else:
                event, told = self.record(other)
                ok(hip.hipStreamWaitEvent(stream.handle, event, 0))
                ok(hip.hipEventDestroy(event))
                stream.learn(told)

    def record(self, stream: Stream) -> tuple[Any, dict[int, int]]:
        self.begin(stream)
        event = ok(hip.hipEventCreateWithFlags(self.draw.choice([0, hip.hipEventDisableTiming])))
        ok(hip.hipEventRecord(event, stream.handle))
        return event, stream.told()

    def perform(self, stream: Stream, operation: Operation) -> None:
        self.order(stream, operation.writes, operation.reads)
        operation.submit(stream.handle)
        stream.count += 1
        mine = (stream.number, stream.count)
        for memory in operation.reads:
            memory.readers.add(mine)
        for memory in operation.writes:
            memory.writers, memory.readers = {mine}, set()
        operation.effect()

    def wait_on_host(self, wait: Callable[[], Any], told: dict[int, int]) -> None:
        self.open()
        with exclusive:
            ok(wait())
        for number, count in told.items():
            self.host[number] = max(self.host.get(number, 0), count)

    def free(self, memory: Memory) -> None:
        self.open()
        with exclusive:
            ok(hip.hipFree(memory.pointer))

    def open(self) -> None:
        for gate in self.gates:
            gate.open()
        self.gates.clear()

    # -- operations that a graph may have

    def launching(self, name: str, memory: Memory, *more: Any, becomes: Any, reads: Any = ()) -> Operation:
        groups = (1, 1) if name == "follow" else (N // 16, 16)
        args = tuple(ctypes.c_uint(each) if isinstance(each, int) else each for each in more)
        args = args if name == "follow" else (memory.pointer, *args)

        def submit(stream):
            ok(hip.hipModuleLaunchKernel(self.functions[name], groups[0], 1, 1, groups[1], 1, 1, 0, stream, None, args))

        return Operation(submit, assigning(memory, becomes), [memory], reads)

    def operation(self, what: str, late: bool = False) -> Operation:
        """`late`: what is read of the host's memory is read when the command runs, as in a graph."""
        draw = self.draw
        a, b = draw.sample(self.memories, 2)
        host, k, of = draw.choice(self.hosts), draw.randrange(99), np.uint32
        first = draw.choice([0, 0, 16, 40])
        part, nbytes = slice(first, N), 4 * (N - first)
        if what == "advance":
            return self.launching(what, a, k, becomes=lambda: a.model * of(3) + of(k))
        if what == "combine":
            return self.launching(what, a, b.pointer, k, becomes=lambda: a.model * of(5) + b.model + of(k), reads=[b])
        if what == "slowly":
            return self.launching(what, a, k, becomes=lambda: slowly(a.model, k))
        if what == "follow":
            if "follow" not in self.functions:
                return self.operation("combine")
            table = ok(hip.hipMalloc(16))
            addresses = np.array([int(a.pointer), int(b.pointer)], "u8")
            self.wait_on_host(lambda: hip.hipMemcpy(table, addresses, 16, K.hipMemcpyHostToDevice), {})
            self.tables.append(table)
            return self.launching(what, a, table, k, becomes=lambda: a.model * of(7) + b.model + of(k), reads=[b])
        if what == "copy":
            call = draw.choice([hip.hipMemcpyDtoDAsync, copy_of_kind])
            return Operation(
                lambda stream: ok(call(int(a.pointer) + 4 * first, int(b.pointer) + 4 * first, nbytes, stream)),
                assigning(a, lambda: b.model[part], part), [a], [b],
            )  # fmt: skip
        if what == "table":
            rows, columns = draw.randint(1, N // ROW), draw.randint(1, ROW)
            return Operation(
                lambda stream: ok(hip.hipMemcpy2DAsync(
                    a.pointer, 4 * ROW, b.pointer, 4 * ROW, 4 * columns, rows, K.hipMemcpyDeviceToDevice, stream
                )),
                lambda: as_table(a)[:rows].__setitem__(np.s_[:, :columns], as_table(b)[:rows, :columns]), [a], [b],
            )  # fmt: skip
        if what == "set":
            call, count, value = draw.choice([
                (hip.hipMemsetAsync, nbytes, 0x1010101 * k), (hip.hipMemsetD32Async, N - first, k)
            ])  # fmt: skip
            return Operation(
                lambda stream: ok(call(int(a.pointer) + 4 * first, k, count, stream)),
                assigning(a, lambda: value, part), [a],
            )  # fmt: skip
        if what == "upload":
            if draw.random() < 0.5 and not self.busy(host):
                return Operation(
                    lambda stream: ok(hip.hipMemcpyHtoDAsync(a.pointer, host.pointer, 4 * N, stream)),
                    assigning(a, lambda: host.model), [a], [host] if host.pinned or late else [],
                )  # fmt: skip
            given = np.full(N, k, "u4")
            self.kept.append(given)

            def submit(stream):
                ok(hip.hipMemcpyAsync(a.pointer, given, given.nbytes, K.hipMemcpyHostToDevice, stream))
                if not late:
                    given[:] = 0  # pageable memory is staged

            return Operation(submit, assigning(a, lambda: k), [a])
        if what == "download":
            at_once = not late and not host.pinned

            def download(stream):
                if at_once:
                    self.open()
                ok(hip.hipMemcpyAsync(host.pointer, b.pointer, 4 * N, K.hipMemcpyDeviceToHost, stream))
                if at_once:
                    compare("pageable memory", host.host, b.model)

            return Operation(download, assigning(host, lambda: b.model), [host], [b])
        return Operation(
            lambda stream: ok(hip.hipLaunchHostFunc(stream, lambda host: compute(host, k), host)),
            assigning(host, lambda: host.model * of(3) + of(k)), [host],
        )  # fmt: skip

    def busy(self, memory: Memory) -> bool:
        """Whether the host does not know all writes to the memory to be done."""
        return any(self.host.get(number, 0) < count for number, count in memory.writers)

    # -- operations

    def capture(self) -> None:
        draw = self.draw
        origin, other = (self.stream("non-blocking") for _ in range(2))
        operations = [self.operation(draw.choice(SUBMITTED[:-1]), late=True) for _ in range(draw.randint(1, 6))]
        fork = ok(hip.hipEventCreate())
        ok(hip.hipStreamBeginCapture(origin.handle, hip.hipStreamCaptureMode.hipStreamCaptureModeRelaxed))
        ok(hip.hipEventRecord(fork, origin.handle))
        ok(hip.hipStreamWaitEvent(other.handle, fork, 0))
        kept = self.streams, self.host
        used = {memory for each in operations for memory in (*each.writes, *each.reads)}
        before = {memory: (memory.model.copy(), memory.writers, memory.readers) for memory in used}
        self.streams, self.host = [origin, other], {}
        try:
            for memory in used:
                memory.writers, memory.readers = set(), set()
            for each in operations:
                self.perform(draw.choice(self.streams), each)
            event, _ = self.record(other)
            ok(hip.hipStreamWaitEvent(origin.handle, event, 0))
        finally:
            self.streams, self.host = kept
            for memory, (model, writers, readers) in before.items():
                memory.model[:] = model
                memory.writers, memory.readers = writers, readers
        graph = ok(hip.hipStreamEndCapture(origin.handle))
        executable = ok(hip.hipGraphInstantiate(graph, 0))[0]
        ok(hip.hipGraphDestroy(graph))
        for each in (event, fork):
            ok(hip.hipEventDestroy(each))
        for stream in (origin, other):
            ok(hip.hipStreamDestroy(stream.handle))
        self.graphs = [*self.graphs[-2:], Graph(executable, operations)]

    def launching_graph(self) -> Operation:
        graph = self.draw.choice(self.graphs)

        def effect():
            for each in graph.operations:
                each.effect()

        writes = list(dict.fromkeys(memory for each in graph.operations for memory in each.writes))
        reads = list(dict.fromkeys(memory for each in graph.operations for memory in each.reads))
        return Operation(lambda stream: ok(hip.hipGraphLaunch(graph.executable, stream)), effect, writes, reads)

    def lose(self, memory: Memory) -> None:
        self.memories.remove(memory)
        lost = [
            graph for graph in self.graphs if any(memory in (*each.writes, *each.reads) for each in graph.operations)
        ]
        for graph in lost:
            ok(hip.hipGraphExecDestroy(graph.executable))
            self.graphs.remove(graph)

    def play(self, what: str) -> None:
        draw = self.draw
        at = draw.randrange(len(self.streams))
        stream = self.streams[at]
        if what in SUBMITTED:
            if what != "graph" or self.graphs:
                self.perform(stream, self.launching_graph() if what == "graph" else self.operation(what))
        elif what == "malloc":
            if len(self.memories) < 7:
                self.open()
                self.memories.append(self.device_memory())
        elif what == "malloc async":
            if len(self.memories) < 7:
                memory = Memory(ok(hip.hipMallocAsync(4 * N, stream.handle)))
                if draw.random() < 0.3:  # nobody uses it
                    if draw.random() < 0.5:
                        ok(hip.hipFreeAsync(memory.pointer, stream.handle))
                    else:
                        self.free(memory)
                    return
                becomes, made = assigning(memory, lambda: 5), memory.pointer
                self.perform(stream, Operation(lambda on: ok(hip.hipMemsetD32Async(made, 5, N, on)), becomes, [memory]))
                self.memories.append(memory)
        elif what in ("free", "free async"):
            if len(self.memories) > 3:
                memory = draw.choice(self.memories)
                if what == "free":
                    self.free(memory)
                else:
                    known = dict(stream.known)
                    self.order(stream, [memory], [])
                    ok(hip.hipFreeAsync(memory.pointer, stream.handle))
                    stream.known = known  # a free is nothing that other streams are ordered after
                self.lose(memory)
        elif what == "read":
            memory, got = draw.choice(self.memories), np.zeros(N, "u4")
            null = self.streams[0]
            self.order(null, [], [memory])
            self.wait_on_host(
                lambda: hip.hipMemcpy(got, memory.pointer, got.nbytes, K.hipMemcpyDeviceToHost), null.told()
            )
            compare("memory read in the middle", got, memory.model)
        elif what == "capture":
            self.open()  # who captures waits for those who wait
            with exclusive:
                self.capture()
        elif what == "destroy graph":
            if self.graphs:
                ok(hip.hipGraphExecDestroy(self.graphs.pop().executable))
        elif what == "record":
            self.events.append(self.record(stream))
        elif what == "wait":
            if self.events:
                event, told = draw.choice(self.events)
                ok(hip.hipStreamWaitEvent(stream.handle, event, 0))
                stream.learn(told)
        elif what == "query":
            assert hip.hipStreamQuery(stream.handle)[0] in (E.hipSuccess, E.hipErrorNotReady)
        elif what == "destroy event":
            if self.events:
                ok(hip.hipEventDestroy(self.events.pop(0)[0]))
        elif what == "gate" and (self.alone or stream.kind == "non-blocking"):
            self.begin(stream)
            self.gates.append(self.hold(stream.handle))
            stream.count += 1
        elif what == "open":
            self.open()
        elif what == "synchronize":
            if stream.kind == "null":
                self.begin(stream)  # the others wait for their own commands only
            self.wait_on_host(lambda: hip.hipStreamSynchronize(stream.handle), stream.told())
        elif what == "synchronize event":
            if self.events:
                event, told = draw.choice(self.events)
                self.wait_on_host(lambda: hip.hipEventSynchronize(event), told)
        elif what == "synchronize device":
            told = {number: count for each in self.streams for number, count in each.told().items()}
            told.update({each.number: each.count for each in self.streams})
            self.wait_on_host(hip.hipDeviceSynchronize, told)
        elif what == "destroy stream" and stream.kind in ("blocking", "non-blocking"):
            self.ended[stream.number] = self.record(stream)
            ok(hip.hipStreamDestroy(stream.handle))
            self.streams[at] = self.stream(stream.kind)

    def run(self, count: int) -> int:
        """Play so many operations and compare all memory. Returns the bytes that were compared."""
        try:
            for what in self.draw.choices(list(WEIGHTS), WEIGHTS.values(), k=count):
                self.play(what)
        finally:
            self.open()
        with exclusive:
            ok(hip.hipDeviceSynchronize())
            for i, memory in enumerate(self.memories):
                got = np.zeros(N, "u4")
                ok(hip.hipMemcpy(got, memory.pointer, got.nbytes, K.hipMemcpyDeviceToHost))
                compare(f"memory {i}", got, memory.model)
            for i, memory in enumerate(self.hosts):
                compare(f"host memory {i}", memory.host, memory.model)
            self.give_back()
        return 4 * N * (len(self.memories) + len(self.hosts))

    def give_back(self) -> None:
        for graph in self.graphs:
            ok(hip.hipGraphExecDestroy(graph.executable))
        for event, _ in (*self.events, *self.ended.values()):
            ok(hip.hipEventDestroy(event))
        for stream in self.streams:
            if stream.kind in ("blocking", "non-blocking"):
                ok(hip.hipStreamDestroy(stream.handle))
        for memory in self.memories:
            ok(hip.hipFree(memory.pointer))
        for table in self.tables:
            ok(hip.hipFree(table))
        for memory in self.hosts:
            if memory.pinned:
                memory.host = None
                ok(hip.hipHostFree(memory.pointer))


def pinned_memory() -> Memory:
    pinned = ok(hip.hipHostMalloc(4 * N))
    array = np.frombuffer((ctypes.c_uint * N).from_address(int(pinned)), "u4")
    array[:] = 0
    return Memory(pinned, array, pinned=True)


def assigning(memory: Memory, value: Callable[[], Any], part: slice = slice(None)) -> Callable[[], None]:
    def effect():
        memory.model[part] = value()

    return effect


def as_table(memory: Memory) -> Any:
    return memory.model.reshape(-1, ROW)


def copy_of_kind(to: int, source: int, nbytes: int, stream: Any) -> Any:
    return hip.hipMemcpyAsync(to, source, nbytes, K.hipMemcpyDeviceToDevice, stream)


def compute(host: Memory, k: int) -> None:
    host.host[:] = host.host * np.uint32(3) + np.uint32(k)


def slowly(values: Any, k: int) -> Any:
    """What 20,000 passes of ``x * 3 + k`` make of it, by squaring."""
    factor, added, (power, sum) = 1, 0, (3, k)
    passes = 20000
    while passes:
        if passes & 1:
            factor, added = factor * power % 2**32, (added * power + sum) % 2**32
        power, sum = power * power % 2**32, (sum * power + sum) % 2**32
        passes >>= 1
    return values * np.uint32(factor) + np.uint32(added)


def compare(what: str, got: Any, model: Any) -> None:
    if not np.array_equal(got, model):
        wrong = np.flatnonzero(got != model)
        raise WrongError(
            f"{what}: {len(wrong)} of {N} wrong, at {wrong[0]} first: {got[wrong[0]]}, not {model[wrong[0]]}"
        )
