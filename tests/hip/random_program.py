"""HIP's functions in the place of forebay's queues and memory, for the random programs of `tests.ordering.mixed`.

The operations, their model and what has to be ordered are those. Here is how HIP submits them: by addresses, also in
the middle of an allocation, by copies of each kind, of lines and of parts of tables, and by sets of bytes and words.
"""

import contextlib
import ctypes
import itertools
import random
import threading

import numpy as np

from forebay import hip
from tests.ordering import mixed
from tests.ordering.mixed_program import SOURCE, MixedProgram
from tests.ordering.program import SIZE

from .conftest import ok
from .helpers import E, K

FOREBAYS = {  # operations that HIP has no functions for
    "by value", "take", "bound", "array", "rows", "rewrite rows", "result", "change graph", "step",
    "finish within", "drop",
}  # fmt: skip
WEIGHTS = {"read": 1, **{what: weight for what, weight in mixed.WEIGHTS.items() if what not in FOREBAYS}}
KERNELS = ("advance", "combine", "follow")
exclusive = threading.RLock()  # HIP refuses calls that wait while another thread captures


class HipMemory:
    """Words of memory of the device: from `first` on, each `step`-th."""

    def __init__(self, device, pointer, size, first=0, step=1):
        self.device, self.pointer, self.size, self.first, self.step = device, pointer, size, first, step
        self.nbytes, self.address = 4 * size, int(pointer) + 4 * first

    def __len__(self):
        return self.size

    def __getitem__(self, part):
        start, stop, step = part.indices(self.size)
        return HipMemory(self.device, self.pointer, len(range(start, stop, step)), self.first + start, step)

    def get(self):
        got = np.empty(self.size, "u4")
        self.device.wait_for(lambda: hip.hipMemcpy(got, self.address, self.nbytes, K.hipMemcpyDeviceToHost))
        return got

    def close(self):
        self.device.wait_for(lambda: hip.hipFree(self.device.forget(self.pointer)))


class HipEvent:
    def __init__(self, device, timing):
        self.device, self.timing = device, timing
        flags = 0 if timing else hip.hipEventDisableTiming
        self.handle = device.made(ok(hip.hipEventCreateWithFlags(flags)), hip.hipEventDestroy)

    def wait(self):
        self.device.wait_for(lambda: hip.hipEventSynchronize(self.handle))

    def query(self):
        return is_done(hip.hipEventQuery(self.handle))


class HipGraph:
    """A graph that a stream captures: with an executable of its own, and more on demand."""

    nodes = (None,)

    def __init__(self, device):
        self.device = device

    def end(self, stream):
        self.graph = self.device.made(ok(hip.hipStreamEndCapture(stream)), hip.hipGraphDestroy)
        self.own = self.instantiate()

    def instantiate(self):
        return HipExecutable(self.device, ok(hip.hipGraphInstantiate(self.graph, 0))[0])

    def launch(self, queue):
        self.own.launch(queue)

    def close(self):
        self.own.close()
        ok(hip.hipGraphDestroy(self.device.forget(self.graph)))


class HipExecutable:
    def __init__(self, device, handle):
        self.device, self.handle = device, device.made(handle, hip.hipGraphExecDestroy)

    def launch(self, queue):
        ok(hip.hipGraphLaunch(self.handle, queue.stream))

    def close(self):
        ok(hip.hipGraphExecDestroy(self.device.forget(self.handle)))


class HipQueue:
    """A stream."""

    ids = itertools.count(1)
    epoch, closed = 0, False

    def __init__(self, device, stream, blocking=True, timing=False):
        self.device, self.stream, self.blocking, self.timing = device, stream, blocking, timing
        self.id, self.is_null = next(self.ids), stream is None

    def launch(self, function, groups, block, *arguments):
        arguments = tuple(ctypes.c_uint(each) if isinstance(each, int) else each.address for each in arguments)
        ok(hip.hipModuleLaunchKernel(function, groups, 1, 1, block, 1, 1, 0, self.stream, None, arguments))

    def copy(self, to, source):
        device, stream, nbytes = self.device, self.stream, 4 * len(to)
        if isinstance(to, np.ndarray):
            if id(to) not in device.pinned:
                device.before_waiting()
            to = device.pinned.get(id(to), to)
            ok(hip.hipMemcpyAsync(to, source.address, nbytes, K.hipMemcpyDeviceToHost, stream))
        elif isinstance(source, np.ndarray):
            device.kept.append(source)
            ok(hip.hipMemcpyHtoDAsync(to.address, device.pinned.get(id(source), source), nbytes, stream))
        elif to.step > 1:
            there, here, kind = (to.address, 4 * to.step), (source.address, 4 * source.step), K.hipMemcpyDeviceToDevice
            ok(hip.hipMemcpy2DAsync(*there, *here, 4, len(to), kind, stream))
        elif next(device.turns) % 2:
            ok(hip.hipMemcpyDtoDAsync(to.address, source.address, nbytes, stream))
        else:
            ok(hip.hipMemcpyAsync(to.address, source.address, nbytes, K.hipMemcpyDeviceToDevice, stream))

    def fill(self, memory, value):
        if value % 0x1010101:
            ok(hip.hipMemsetD32Async(memory.address, value, len(memory), self.stream))
        else:
            ok(hip.hipMemsetAsync(memory.address, value // 0x1010101, memory.nbytes, self.stream))

    def host(self, function):
        ok(hip.hipLaunchHostFunc(self.stream, lambda data: function(), None))

    def gate(self):
        return hip.streams.queue_of(self.stream).gate()

    def record(self, event=None):
        event = event or HipEvent(self.device, False)
        ok(hip.hipEventRecord(event.handle, self.stream))
        return event

    def wait(self, what):
        """For an event, or for another stream by an event that is destroyed at once."""
        event = what if isinstance(what, HipEvent) else what.record()
        ok(hip.hipStreamWaitEvent(self.stream, event.handle, 0))
        if event is not what:
            ok(hip.hipEventDestroy(self.device.forget(event.handle)))

    def query(self):
        return is_done(hip.hipStreamQuery(self.stream))

    def finish(self):
        with exclusive:
            ok(hip.hipStreamSynchronize(self.stream))

    def alloc(self, size, dtype):
        pointer = ok(hip.hipMallocAsync(4 * size, self.stream))
        return HipMemory(self.device, self.device.made(pointer, hip.hipFree), size)

    def free(self, memory):
        ok(hip.hipFreeAsync(self.device.forget(memory.pointer), self.stream))

    @contextlib.contextmanager
    def capture(self, mode):
        ok(hip.hipStreamBeginCapture(self.stream, hip.hipStreamCaptureMode.hipStreamCaptureModeRelaxed))
        graph = HipGraph(self.device)
        yield graph
        graph.end(self.stream)

    def close(self):
        ok(hip.hipStreamDestroy(self.device.forget(self.stream)))


class HipDevice:
    """The current device of HIP, for one thread's program. It destroys at the end what the program has made."""

    def __init__(self, device):
        self.device = device
        self.pinned, self.kept, self.turns, self.left = {}, [], itertools.count(), {}
        self.before_waiting = lambda: None
        self.null_queue = HipQueue(self, None)

    def __getattr__(self, name):
        return getattr(self.device, name)

    def made(self, handle, destroy):
        """Return the handle, which `destroy` ends at the latest with the program."""
        self.left[id(handle)] = handle, destroy
        return handle

    def forget(self, handle):
        del self.left[id(handle)]
        return handle

    def wait_for(self, call):
        self.before_waiting()
        with exclusive:
            ok(call())

    @property
    def per_thread_queue(self):
        return HipQueue(self, hip.hipStreamPerThread)

    def queue(self, blocking=True, priority=0, timing=False):
        stream = ok(hip.hipStreamCreateWithPriority(0 if blocking else hip.hipStreamNonBlocking, priority))
        return HipQueue(self, self.made(stream, hip.hipStreamDestroy), blocking, timing)

    def event(self, timing=False):
        return HipEvent(self, timing)

    def empty(self, size, dtype):
        size *= np.dtype(dtype).itemsize // 4
        return HipMemory(self, self.made(ok(hip.hipMalloc(4 * size)), hip.hipFree), size)

    def pinned_array(self):
        pointer = self.made(ok(hip.hipHostMalloc(4 * SIZE)), hip.hipHostFree)
        array = np.frombuffer((ctypes.c_uint * SIZE).from_address(int(pointer)), "u4")
        self.pinned[id(array)] = pointer
        return array

    def finish(self):
        self.wait_for(hip.hipDeviceSynchronize)

    def close(self):
        self.finish()
        while self.left:
            handle, destroy = self.left.popitem()[1]
            ok(destroy(handle))


class HipProgram(MixedProgram):
    def __init__(self, device, functions, careful):
        super().__init__(HipDevice(device), functions, careful, follows=True)
        self.device.before_waiting = self.open

    def host_arrays(self):
        return np.zeros(SIZE, "u4"), self.device.pinned_array()

    def filling(self, memory, value, first=0):
        """With words that differ in their bytes, and with bytes."""
        return super().filling(memory, value if value % 2 else value * 0x1010101, first)


class HipPlayer(mixed.MixedPlayer):
    IN_GRAPHS = tuple(what for what in mixed.IN_GRAPHS if what not in {"graph", *FOREBAYS})

    def capture(self, slot, numbers):
        self.program.open()  # a thread that captures waits for those that wait
        with exclusive:
            super().capture(slot, numbers)

    def play_one(self, what, slot, i, j, k, insist):
        if what != "read":
            super().play_one(what, slot, i, j, k, insist)
            return
        memory = self.memories[i % len(self.memories)]
        if not self.program.racing(self.queues[0], reads=[memory]):
            mixed.compare("memory read in the middle", memory.buffer.get(), memory.model)


def is_done(result):
    assert result[0] in (E.hipSuccess, E.hipErrorNotReady)
    return result[0] == E.hipSuccess


class HipBench:
    """The current device of HIP, to run programs on: as `mixed.Bench`, but odd seeds are programs of two threads."""

    pairs = 0

    def __init__(self):
        self.devices = [hip.current_device()]
        self.number = ok(hip.hipGetDevice())
        self.module = ok(hip.hipModuleLoadData(SOURCE.encode()))
        self.functions = {name: ok(hip.hipModuleGetFunction(self.module, name.encode())) for name in KERNELS}
        if self.devices[0].driver.has_addresses:
            self.functions["follow"].kernel.follow_pointers()

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        ok(hip.hipModuleUnload(self.module))

    def run(self, seed):
        """Run the program of this seed. Raises what `mixed.Bench` raises."""
        draw, count = random.Random(seed), 1 + seed % 2
        operations = mixed.drawn_for_threads(draw, count, WEIGHTS)

        def make():
            ok(hip.hipSetDevice(self.number))  # a thread begins with the first
            return HipPlayer(HipProgram(self.devices[0], self.functions, count > 1), count == 1)

        players, _ = mixed.run(make, operations)
        ok(hip.hipDeviceSynchronize())
        nbytes = sum(map(mixed.compared, players))
        for player in players:
            player.program.device.close()
        return nbytes
