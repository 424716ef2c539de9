"""The commands of the random programs of `mixed`: what each submits, and what it does to the model."""

import contextlib
import functools

import numpy as np

import forebay as fb

from . import program as simple
from .happens_before import operations_in
from .program import SIZE, Action, Memory, Point, Program

ROWS, MOST = 8, 300  # elements that a size is read from, and the most elements of scratch
PASSES = 40  # over the scratch by every fourth launch, so that launches side by side really overlap
BLOCKS = 12, 60, 1100  # elements of arrays passed by value
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
kernel void follow(global const ulong *table, uint k)
{{
    global uint *a = (global uint *) table[0];
    global const volatile uint *b = (global const volatile uint *) table[1];
    uint spoilt = 0;
    for (uint i = 0; i < {SIZE * PASSES}; i++) spoilt += b[i % {SIZE}] != b[i % {SIZE}];
    for (uint i = 0; i < {SIZE}; i++) a[i] = a[i] * 7 + b[i] + k + spoilt;
}}
kernel void gather(global uint *a, global const uint *block, uint n)
{{
    uint sum = 0;
    for (uint i = 0; i < n; i++) sum = sum * 3 + block[i];
    a[get_global_id(0)] = a[get_global_id(0)] * 3 + sum;
}}
typedef struct {{ uint a; uint b; }} Pair;
kernel void take(global uint *a, Pair pair) {{ a[get_global_id(0)] = a[get_global_id(0)] * 3 + pair.a * 10 + pair.b; }}
kernel void total(global const uint *a, uint k, global uint *result)
{{
    uint sum = k;
    for (uint i = 0; i < {SIZE}; i++) sum = sum * 7 + a[i];
    *result = sum;
}}
kernel void rewrite(global uint *rows, uint k) {{ rows[get_global_id(0)] = k + get_global_id(0); }}
"""


class HostMemory(Memory):
    """An array of the host that copies and host functions write to."""

    def __init__(self, array):
        super().__init__(array, 0)
        array[:] = 0


class Graph:
    """A captured graph, and what a launch of it does."""

    def __init__(self, graph, actions, nodes):
        self.graph = graph
        self.launched = [graph]  # itself, or executables of it
        self.actions = [actions]  # of each of them
        self.nodes = nodes  # (node, number of its action), of launches that can be changed
        self.writes = list({memory: None for action in actions for memory in action.writes})
        self.reads = list({memory: None for action in actions for memory in action.reads})
        self.measures = list({memory: None for action in actions for memory in action.measures})

    def instantiate(self, count):
        self.launched = [self.graph.instantiate() for _ in range(count)]
        self.actions *= count

    def launching(self, number):
        at = number % len(self.launched)
        actions = self.actions[at]

        def effect():
            for action in actions:
                action.effect()

        return Action(self.launched[at].launch, effect, self.writes, self.reads, measures=self.measures)

    def change(self, program, number, which, k):
        """Set a kernel node of an executable to a launch with another number."""
        at = number % len(self.launched)
        if self.launched[at] is self.graph or not self.nodes:
            return
        node, action = self.nodes[which % len(self.nodes)]
        (memory,) = self.actions[at][action].writes
        self.launched[at].set_kernel(node, program.kernels["advance"], SIZE // 16, 16, memory.buffer, k)
        self.actions[at] = list(self.actions[at])
        self.actions[at][action] = program.advancing(memory, k)

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
    """A program with more kinds of commands. Its calls are not checked one by one, but all of its order by `watch`."""

    def __init__(self, device, built, careful, watch=None, follows=False):
        super().__init__(device, built)
        # Whether kernels follow pointers, and none has scratch: they might write what that is measured from.
        self.follows = follows
        self.watch = watch  # a `watched.Watch`; None when nobody observes the driver
        self.watched = {}  # its operations, by number
        self.in_steps = 0  # that are open
        self.made = 0  # queues
        self.careful = careful  # more may hold it than HIP's rules say, so the host opens all gates before it waits
        # A driver may have little room for host functions behind a gate (CUDA: 27 of all streams of a channel, where
        # graphs are launched between), and then a call waits for the gate: so the host opens all gates before.
        self.most_hosts = 10 if device.driver.most_held is not None else None
        self.hosts = device.stats.host_functions  # when no gate was closed last
        self.ends = {}  # by handle, of queues that are closed or gone: a point at which all was submitted

    def host_arrays(self):
        """Memory of the host, pageable and pinned."""
        # A copy to pageable memory waits for the queue on some drivers, and a gate may hold that.
        pageable = (
            np.empty if self.device.driver.takes_pageable else functools.partial(fb.host_empty, device=self.device)
        )
        return pageable(SIZE, "u4"), fb.host_empty(SIZE, "u4", device=self.device)

    def queue(self, blocking=True):
        """Of another priority each time, and every other one with timing."""
        self.made += 1
        return self.adopt(self.device.queue(blocking=blocking, priority=self.made % 3 - 1, timing=self.made % 2 == 0))

    # -- what commands do

    def tallying(self, memory, rows, k):
        return self.launching(
            "tally", memory, rows, k, becomes=lambda: tallied(memory.model, rows.model, k), reads=[rows], grid=(1, 1),
            measures=[rows],
        )  # fmt: skip

    def following(self, memory, other, k):
        """Launch a kernel that finds both in a table of addresses, which the same operation copies there."""
        if not self.device.driver.has_addresses:
            return self.combining(memory, other, k)
        table, addresses = self.device.empty(2, "u8"), np.array([memory.buffer.address, other.buffer.address], "u8")

        def submit(queue):
            queue.copy(table, addresses)
            queue.launch(self.kernels["follow"], 1, 1, table, k)

        def effect():
            memory.model[:] = memory.model * np.uint32(7) + other.model + np.uint32(k)

        return Action(submit, effect, [memory], [other])

    def gathering(self, memory, k):
        size, total = BLOCKS[k % len(BLOCKS)], 0
        block = np.arange(k, k + size, dtype="u4")
        for each in range(k, k + size):
            total = (total * 3 + each) % (1 << 32)

        def becomes():
            return memory.model * np.uint32(3) + np.uint32(total)

        action = self.launching("gather", memory, fb.by_value(block), size, becomes=becomes)

        def submit(queue):
            block[:] = np.arange(k, k + size)
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

    def adding_array(self, memory, k):
        """Combine with an array of the host, which the launch copies to memory of its own and gives back."""
        host = np.arange(k, k + SIZE, dtype="u4")

        def becomes():
            return memory.model * np.uint32(5) + np.arange(k, k + SIZE, dtype="u4") + np.uint32(k)

        return self.launching("combine", memory, host, k, becomes=becomes)

    def copying_columns(self, to, source, k):
        """Copy elements that do not lie together."""
        step = 2 + k % 3
        count = SIZE // step
        there, here = slice(k % 2, k % 2 + count * step - step + 1, step), slice(0, count * step - step + 1, step)

        def effect():
            to.model[there] = source.model[here]

        return Action(
            lambda queue: queue.copy(to.buffer[there], source.buffer[here]), effect, [to], [source], True
        )  # a launch, which a step may collect

    def totalling(self, memory, k, results):
        """Launch for a result, which goes to the list `results` with the value that it has in the model."""
        launched = []

        def submit(queue):
            launched.append(queue.launch(self.kernels["total"], 1, 1, memory.buffer, k, result="u4"))

        def effect():
            total = k
            for each in memory.model.tolist():
                total = (total * 7 + each) % (1 << 32)
            results.append((launched.pop(), total))

        return Action(submit, effect, [], [memory], True)

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

    @contextlib.contextmanager
    def command(self, queue, writes=(), reads=(), needs_marker=False, launches=False):
        with super().command(queue, writes, reads, needs_marker, launches) as operation:
            if self.watch is None:
                yield operation
                return
            must, memories = self.before(queue)[0], dict.fromkeys((*writes, *reads))
            after = [self.watched[each] for each in operations_in(must)]
            what = f"operation {operation}"
            with self.watch.operation(queue, after, memories, what, launches and self.in_steps) as watched:
                yield operation
            self.watched[operation] = watched

    @contextlib.contextmanager
    def in_step(self, step):
        self.in_steps += 1
        try:
            with super().in_step(step):
                yield
        finally:
            self.in_steps -= 1

    def perform(self, queue, action):
        if any(self.device.debug or rows.measured != rows.writers for rows in action.measures):
            self.open()  # it waits for whoever wrote what is measured
        if self.most_hosts is not None:
            hosts = self.device.stats.host_functions
            if hosts - self.hosts > self.most_hosts:
                self.open()
            if not self.gates:
                self.hosts = hosts
        super().perform(queue, action)
        for rows in action.measures:
            rows.measured = rows.writers

    def capture(self, queues, steps):
        """Capture (number of the queue, Action, whether it can be changed)s. Queues wait where memory asks for it."""
        origin, done, own, last, nodes = queues[0], {queues[0]: 0}, {}, {}, []

        def wait(queue, other):
            queue.wait(other)
            done[queue] = done.get(queue, 0) | done[other]

        with origin.capture("relaxed") as graph:
            for number, (at, action, changes) in enumerate(steps):
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
                if changes:
                    nodes.append((graph.nodes[-1], number))
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
        return Graph(graph, [action for _, action, _ in steps], nodes)

    def record(self, queue, point=None):
        """Every third one is timed, where the queue can."""
        if point is not None and point.event.timing and not queue.timing:
            point = None
        if point is None and queue.timing and self.operations % 3 == 0:
            point = Point(self.device.event(timing=True))
        return super().record(queue, point)

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
