"""Kinds of commands as descriptors: how a program makes each, submits it, and what it leaves.

The suites of `tests.themes` run for each of `FEATURES`, so that a new kind of command gets all of them by one entry.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

import forebay as fb

SIZE = 64
GRID = 4, 16
SOURCE = f"""
kernel void advance(global uint *x, uint k) {{ x[get_global_id(0)] = x[get_global_id(0)] * 3 + k; }}
kernel void combine(global uint *x, global const uint *y, uint k)
{{
    x[get_global_id(0)] = x[get_global_id(0)] * 5 + y[get_global_id(0)] + k;
}}
kernel void gather(global uint *x, global const uint *block, uint n)
{{
    uint sum = 0;
    for (uint i = 0; i < n; i++) sum += block[i];
    x[get_global_id(0)] = x[get_global_id(0)] * 3 + sum;
}}
kernel void pass(global const uint *rows, global uint *x, global uint *room, uint k)
{{
    if (get_global_id(0)) return;
    for (uint i = 0; i < {SIZE}; i++) room[i] = x[i] * 3 + k;
    for (uint i = 0; i < {SIZE}; i++) x[i] = room[i];
}}
kernel void note(global uint *x, uint k, global uint *result)
{{
    x[get_global_id(0)] = x[get_global_id(0)] * 3 + k;
    if (get_global_id(0) == 0) *result = x[0];
}}
"""
BLOCK = 300  # elements by value: their copy is a command of its own
AXPY = fb.elementwise("uint32 x, uint32 k", "uint32 y", "y = x * 3 + k", name="advanced")
PLUS = fb.elementwise("uint32 x, uint32 y", "uint32 z", "z = x * 3 + y", name="increased")
LARGEST = fb.reduction("uint32 x", "uint32 y", "x", "a > b ? a : b", 0, name="largest")


def program_of(device):
    """Return the kernels of all features."""
    program = device.program(SOURCE)
    program["pass"].scratch("room", 4 * fb.MaxOver("rows"))
    return program


class Scene:
    """What the commands of one thread use: `x`, whose elements are all equal, and a program."""

    def __init__(self, device, program=None, value=1):
        self.device = device
        self.program = program or program_of(device)
        self.x = self.filled(value)

    def filled(self, value):
        """Return new memory with this value, which is there."""
        buffer = self.device.array(np.full(SIZE, value, "u4"))
        self.device.null_queue.finish()
        return buffer


class Command:
    """Submitted by ``command(queue, k)``. ``command.effect(value, k)`` is what it makes of each element of `x`."""

    def __init__(self, submit, effect, *uses):
        self.submit, self.effect, self.uses = submit, effect, uses

    def __call__(self, queue, k):
        self.submit(queue, k)

    def close(self):
        """Close all that the command uses."""
        for each in self.uses:
            getattr(each, "close", int)()

    def after(self, ks, value=1):
        """Return what the elements are after a command for each of these numbers."""
        for k in ks:
            value = self.effect(value, k) % (1 << 32)
        return value


class Function:
    """A host function that does nothing."""

    def __call__(self):
        pass


def advanced(value, k):
    return value * 3 + k


def unchanged(value, k):
    return value


def launch(scene):
    kernel, x = scene.program["advance"], scene.x
    return Command(lambda queue, k: queue.launch(kernel, *GRID, x, k), advanced, kernel, scene.program)


def bound(scene):
    kernel, x, launches = scene.program["advance"], scene.x, {}

    def submit(queue, k):
        if queue.id not in launches:
            launches[queue.id] = kernel.bind(queue, *GRID, x, 7)
        launches[queue.id]()

    return Command(submit, lambda value, k: advanced(value, 7))


def launcher(scene):
    kernel, x = scene.program["advance"], scene.x
    return Command(lambda queue, k: kernel[(*GRID, queue)](*(x, np.uint32(k))), advanced, kernel)


def by_value(scene):
    kernel, x = scene.program["gather"], scene.x

    def submit(queue, k):
        block = np.full(BLOCK, k, "u4")
        queue.launch(kernel, *GRID, x, fb.by_value(block), BLOCK)
        block[:] = 99  # it was taken

    return Command(submit, lambda value, k: advanced(value, BLOCK * k), kernel)


def array(scene):
    kernel, x = scene.program["combine"], scene.x
    return Command(
        lambda queue, k: queue.launch(kernel, *GRID, x, np.full(SIZE, k, "u4"), 1),
        lambda value, k: value * 5 + k + 1,
        kernel,
    )


def scratch(scene):
    kernel, rows, x = scene.program["pass"], scene.filled(SIZE), scene.x
    return Command(lambda queue, k: queue.launch(kernel, *GRID, rows, x, k), advanced, kernel, rows)


def result(scene):
    kernel, x = scene.program["note"], scene.x
    return Command(lambda queue, k: queue.launch(kernel, *GRID, x, k, result="u4"), advanced, kernel)


def expression(scene):
    x = scene.x
    return Command(lambda queue, k: AXPY(x, k, result=x, queue=queue), advanced)


def reduction(scene):
    x = scene.x
    return Command(lambda queue, k: PLUS(x, LARGEST(x, queue=queue), result=x, queue=queue), lambda value, k: value * 4)


def fill(scene):
    x = scene.x
    return Command(lambda queue, k: queue.fill(x, k), lambda value, k: k)


def upload(scene):
    x = scene.x
    return Command(lambda queue, k: queue.copy(x, np.full(SIZE, k, "u4")), lambda value, k: k)


def pinned_upload(scene):
    x, host = scene.x, fb.host_empty(SIZE, "u4", device=scene.device)
    host[:] = 13
    return Command(lambda queue, k: queue.copy(x, host), lambda value, k: 13)


def download(scene):
    x, host = scene.x, fb.host_empty(SIZE, "u4", device=scene.device)
    return Command(lambda queue, k: queue.copy(host, x), unchanged)


def copy(scene):
    x, other = scene.x, scene.filled(11)
    return Command(lambda queue, k: queue.copy(x, other), lambda value, k: 11, other)


def strided_copy(scene):
    to, other = scene.x.reshape(8, 8), scene.filled(12).reshape(8, 8)

    def submit(queue, k):
        for columns in (slice(0, 8, 2), slice(1, 8, 2)):
            queue.copy(to[:, columns], other[:, columns])

    return Command(submit, lambda value, k: 12, other)


def pool(scene):
    kernel, x = scene.program["combine"], scene.x

    def submit(queue, k):
        memory = queue.alloc(SIZE, "u4")
        queue.copy(memory, x)
        queue.launch(kernel, *GRID, x, memory, k)
        queue.free(memory)

    return Command(submit, lambda value, k: value * 6 + k, kernel)


def host_function(scene):
    x, host = scene.x, fb.host_empty(SIZE, "u4", device=scene.device)

    def submit(queue, k):
        queue.copy(host, x)
        queue.host(lambda: host.__setitem__(slice(None), host * np.uint32(3) + np.uint32(k)))
        queue.copy(x, host)

    return Command(submit, advanced)


def fork(scene):
    kernel, x, other = scene.program["advance"], scene.x, scene.device.queue(blocking=False)
    event = scene.device.event()

    def submit(queue, k):
        other.wait(queue.record(event))
        other.launch(kernel, *GRID, x, k)
        queue.wait(other)

    return Command(submit, advanced, kernel, other)


def graph(scene):
    kernel, x, graph, nodes = scene.program["advance"], scene.x, scene.device.graph(), []
    for k in (1, 2):
        nodes.append(graph.add_kernel(kernel, *GRID, x, k, after=nodes[-1:]))
    executable = graph.instantiate()
    return Command(
        lambda queue, k: executable.launch(queue),
        lambda value, k: advanced(advanced(value, 1), 2),
        executable, graph, kernel, scene.program,
    )  # fmt: skip


def changed_graph(scene):
    kernel, x, graph = scene.program["advance"], scene.x, scene.device.graph()
    first = graph.add_kernel(kernel, *GRID, x, 0)
    graph.add_kernel(kernel, *GRID, x, 2, after=first)
    executable = graph.instantiate()

    def submit(queue, k):
        executable.set_kernel(first, kernel, *GRID, x, k)
        executable.launch(queue)

    return Command(submit, lambda value, k: advanced(advanced(value, k), 2), executable, graph)


def branches(scene):
    program, x, y, z, graph = scene.program, scene.x, scene.filled(0), scene.filled(0), scene.device.graph()
    first = graph.add_kernel(program["advance"], *GRID, x, 1)
    sides = [graph.add_copy(y, x, after=first), graph.add_fill(z, 5, after=first)]
    joined = graph.add_kernel(program["combine"], *GRID, x, y, 1, after=sides)
    graph.add_kernel(program["combine"], *GRID, x, z, 1, after=joined)
    executable = graph.instantiate()
    return Command(
        lambda queue, k: executable.launch(queue),
        lambda value, k: (advanced(value, 1) * 6 + 1) * 5 + 6,
        executable, graph, y, z,
    )  # fmt: skip


def graph_with_host(scene):
    kernel, x, graph, function = scene.program["advance"], scene.x, scene.device.graph(), Function()
    first = graph.add_kernel(kernel, *GRID, x, 1)
    graph.add_kernel(kernel, *GRID, x, 2, after=graph.add_host(function, after=first))
    executable = graph.instantiate()
    return Command(
        lambda queue, k: executable.launch(queue),
        lambda value, k: advanced(advanced(value, 1), 2),
        executable, graph, function,
    )  # fmt: skip


def graph_with_memory(scene):
    x, queue = scene.x, scene.device.queue(blocking=False)
    with queue.capture() as graph:
        memory = queue.alloc(SIZE, "u4")
        queue.copy(memory, x)
        queue.launch(scene.program["combine"], *GRID, x, memory, 1)
        queue.free(memory)
    executable = graph.instantiate()
    return Command(lambda queue, k: executable.launch(queue), lambda value, k: value * 6 + 1, executable, graph)


def graph_with_pinned_memory(scene):
    x, host, graph = scene.x, fb.host_empty(SIZE, "u4", device=scene.device), scene.device.graph()
    host[:] = 13
    graph.add_copy(x, host)
    executable = graph.instantiate()
    return Command(lambda queue, k: executable.launch(queue), lambda value, k: 13, executable, graph)


def step(scene):
    kernel, x, steps = scene.program["advance"], scene.x, {}

    def submit(queue, k):
        if queue.id not in steps:
            steps[queue.id] = queue.step()
        with steps[queue.id]:
            for each in (k, 1, k):
                queue.launch(kernel, *GRID, x, each)

    return Command(submit, lambda value, k: advanced(advanced(advanced(value, k), 1), k), kernel, scene.program)


def record(scene):
    return Command(lambda queue, k: queue.record(), unchanged)


def gate(scene):
    return Command(lambda queue, k: queue.gate().open(), unchanged)


class Feature(NamedTuple):
    """A kind of command: `make(scene)` returns the Command."""

    make: Callable
    single: bool = False  # one kernel or copy of the device, so that `x` is seen before or after it
    alone: bool = False  # one at a time on a queue
    changes: bool = False  # each submission changes what it submits, so only one thread may do it
    counts: bool = False  # several calls, of which the first ones may count as a command when another one fails
    several: bool = False  # on several queues, of which nothing orders one when a wait is refused
    recordings: bool = False  # with the recordings of the tests, on a driver that has none
    keeps_queues: bool = False  # whose commands it has submitted
    untouched: bool = False  # it does not use `x`
    hosts: int = 0  # host functions, for which a driver may have little room
    marks: tuple = ()


HOST = {"hosts": 1, "marks": (pytest.mark.threads,)}
RECORDED = {"recordings": True, "marks": (pytest.mark.needs("OpenCL"),)}
STEP = {"alone": True, "changes": True, "counts": True}
FEATURES = {
    "launch": Feature(launch, single=True),
    "bound launch": Feature(bound, single=True, keeps_queues=True),
    "launcher": Feature(launcher, single=True),
    "bytes by value": Feature(by_value, single=True),
    "array as an argument": Feature(array, hosts=1),
    "scratch": Feature(scratch, single=True),
    "result": Feature(result, single=True),
    "expression": Feature(expression, single=True),
    "reduction": Feature(reduction),
    "fill": Feature(fill, single=True),
    "upload": Feature(upload, hosts=1),
    "pinned upload": Feature(pinned_upload),
    "download": Feature(download),
    "copy": Feature(copy),
    "strided copy": Feature(strided_copy),
    "pool": Feature(pool),
    "host function": Feature(host_function, **HOST),
    "fork": Feature(fork, single=True, counts=True, several=True),
    "graph": Feature(graph),
    "changed graph": Feature(changed_graph, changes=True),
    "recorded graph": Feature(changed_graph, changes=True, **RECORDED),
    "branches": Feature(branches),
    "graph with a host function": Feature(graph_with_host, **HOST),
    "graph with memory": Feature(graph_with_memory),
    "graph with pinned memory": Feature(graph_with_pinned_memory),
    "step": Feature(step, **STEP),
    "recorded step": Feature(step, **STEP, **RECORDED),
    "record": Feature(record, counts=True, untouched=True),
    "gate": Feature(gate, counts=True, untouched=True),
}


def each_feature(choose=lambda feature: True):
    """Return the parameters of a test for each of these features."""
    return [pytest.param(each, id=name, marks=each.marks) for name, each in FEATURES.items() if choose(each)]
