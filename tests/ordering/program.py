"""Programs that check themselves: each operation runs on the device, on a sequential model, and against the rules.

The model executes in the order of submission. A program is free of races when each operation that touches memory is
ordered, by the rules, after all earlier ones that conflict with it; its memory at the end must then equal the model's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from tests.helpers.observer import EXECUTES, observe

from .happens_before import OrderError, Recorded, Rules, check, operations_in

SIZE = 64
# No names of OpenCL functions: PoCL renames kernels that have one.
SOURCE = """
kernel void advance(global uint *a, uint k) { a[get_global_id(0)] = a[get_global_id(0)] * 3 + k; }
kernel void combine(global uint *a, global const uint *b, uint k)
{
    a[get_global_id(0)] = a[get_global_id(0)] * 5 + b[get_global_id(0)] + k;
}
"""


def holds(buffer, expected, queue=None):
    """Whether the buffer has this value, or these. It is read, but nothing is compared where memory does not change."""
    got = buffer.get(queue=queue)
    return not EXECUTES or bool(np.all(got == expected))


def launch(queue, kernels, buffer, k=1):
    queue.launch(kernels["advance"], 4, 16, buffer, k)


class Memory:
    """A buffer, its model, and which operations touched it."""

    def __init__(self, buffer, initial):
        self.buffer = buffer
        self.model = np.full(len(buffer), initial, "u4")
        self.known = True  # whether the buffer holds what the model does
        self.writers = 0
        self.readers = 0


class Point:
    """An event of the program: what it stands for."""

    def __init__(self, event):
        self.event = event
        self.stands_for = (0, 0)


class Collected(NamedTuple):
    """A launch that an open step has collected: it is submitted with a later operation, of whatever queue."""

    operation: int
    must: int
    may: int


class Action(NamedTuple):
    """What a command does: to a queue, which may be captured, and to the model whenever it runs."""

    submit: Callable
    effect: Callable
    writes: Sequence[Memory] = ()
    reads: Sequence[Memory] = ()
    launches: bool = False
    measures: Sequence[Memory] = ()  # what sizes of scratch are read from


class Unobserved(Recorded):
    """Stands for the calls of a program and for what they say, where nobody observes the driver."""

    def __init__(self):
        super().__init__(None)

    def __len__(self):
        return 0

    def take(self, first):
        return [], first

    def handle_of(self, queue):
        return queue.id

    def wait(self, handle, operation):
        pass

    def read(self, calls, handle, operation=None, may=None, needs_marker=False):
        return 0, 0


class Program:
    """Runs operations one after the other, from one thread, and checks each. Use it by `program_on`.

    Without `calls` nothing is observed: only the results are checked, and that no gate is forgotten.
    """

    RULES = Rules

    def __init__(self, device, built, calls=None, strict=True):
        self.device = device
        self.kernels = built
        self.observed = calls is not None
        self.calls = calls if self.observed else Unobserved()
        self.strict = strict and self.observed
        self.rules = self.RULES()
        self.recorded = Recorded(calls.kind, calls.driver.GATE_MARKERS) if self.observed else self.calls
        self.operations = 0
        self.owners = {}  # operation -> handle of its queue
        self.gates = {}  # operation -> Gate, those that are closed
        self.told = 0  # what the program knows to be done, because it waited
        self.hosts = []
        self.collected = {}  # by handle, of the queues in an open step: what was not submitted yet
        self.memories = []
        self.read = len(self.calls)
        self.of = {}
        self.aside = None
        self.null = self.adopt(device.null_queue)

    # -- objects

    def adopt(self, queue):
        handle = self.calls.handle_of(queue)
        if handle not in self.of:
            # Making a queue may have found a dropped one done and freed it, and the new one may have its handle: what
            # was called so far was about the old one.
            self.recorded.read(self.submitted(), 0)
            self.recorded.queues.pop(handle, None)
            self.of[handle] = (queue, self.rules.add(handle, queue.is_null, queue.blocking))
        return queue

    def forget(self, queue):
        """Hold no reference to the queue; its work stays what it is. No more operations may be asked of it."""
        handle = self.calls.handle_of(queue)
        del self.of[handle]
        self.recorded.queue(handle).gone = True
        self.rules.queues[f"gone {self.operations} {handle}"] = self.rules.queues.pop(handle)

    def queue(self, blocking=True):
        return self.adopt(self.device.queue(blocking=blocking))

    def rule(self, queue):
        return self.of[self.calls.handle_of(queue)][1]

    def memory(self, initial=1):
        """Filled and finished on a queue of its own, whatever is held."""
        memory = Memory(self.device.empty(SIZE, "u4"), initial)
        if self.aside is None:
            self.aside = self.queue(blocking=False)
        self.fill(self.aside, memory, initial)
        self.finish(self.aside)
        self.memories.append(memory)
        return memory

    # -- what each operation has in common

    def submitted(self):
        """The calls since the last time, less those that submit what steps have collected: these are checked here."""
        calls, self.read = self.calls.take(self.read)
        while (end := self.end_of_collected(calls)) is not None:
            calls = self.take_collected(calls, *end)
        return calls

    def end_of_collected(self, calls):
        """(handle, index of the last call) of the first that submit what was collected; None when there are none."""
        left = {handle: len(waiting) for handle, waiting in self.collected.items() if waiting}
        for i, call in enumerate(calls):
            if call.status == 0 and left.get(call.object):
                if call.name == self.calls.driver.REPLAY:
                    return call.object, i
                if call.name == self.calls.driver.LAUNCH:
                    left[call.object] -= 1
                    if left[call.object] == 0:
                        return call.object, i
        return None

    def take_collected(self, calls, handle, last):
        run, self.collected[handle] = self.collected[handle], []
        may = 0
        for each in run:
            may |= each.may
        own = [call for call in calls[: last + 1] if call.object == handle]
        main, known = self.recorded.read(own, handle, run[-1].operation, may, True)
        later = 0
        for each in reversed(run):
            later |= 1 << each.operation
            if self.strict:
                check(each.operation, main & ~later, each.must, each.may, known)
        return [call for call in calls[: last + 1] if call.object != handle] + calls[last + 1 :]

    @contextmanager
    def command(self, queue, writes=(), reads=(), needs_marker=False, launches=False):
        rule = self.rule(queue)
        operation = self.operations
        must, may = self.before(queue)
        for memory in writes:
            self.refuse_race(memory.writers | memory.readers, must, "write")
        for memory in reads:
            self.refuse_race(memory.writers, must, "read")
        yield operation
        self.operations += 1
        self.owners[operation] = rule.handle
        self.rules.command(rule, operation)
        calls = self.submitted()
        if launches and rule.handle in self.collected and not self.is_launched(calls, rule.handle):
            self.recorded.read(calls, 0)
            self.recorded.wait(rule.handle, operation)
            self.collected[rule.handle].append(Collected(operation, must, may))
        else:
            main, known = self.recorded.read(calls, rule.handle, operation, may, needs_marker)
            if self.strict:
                check(operation, main, must, may, known)
        for memory in writes:
            memory.writers, memory.readers = 1 << operation, 0
        for memory in reads:
            memory.readers |= 1 << operation

    def is_launched(self, calls, handle):
        return any(call.object == handle and call.name == self.calls.driver.LAUNCH for call in calls)

    def before(self, queue):
        """What the next command of the queue must, and may, come after; changes nothing."""
        rule = self.rule(queue)
        must, may = rule.must, rule.may
        others = self.rules.queues.values() if rule.null else [self.rules.null] if rule.blocking else []
        for other in others:
            if other.blocking:
                must, may = must | other.must, may | other.may
        return must, may

    def refuse_race(self, earlier, must, what):
        racing = earlier & ~must & ~self.told
        if racing:
            raise ValueError(f"this would {what} memory that operations {operations_in(racing)} may still use")

    def racing(self, queue, writes=(), reads=()):
        """The operations that a command of this queue touching this memory would race with."""
        must, _ = self.before(queue)
        conflicts = 0
        for memory in writes:
            conflicts |= memory.writers | memory.readers
        for memory in reads:
            conflicts |= memory.writers
        return operations_in(conflicts & ~must & ~self.told)

    def order_after(self, queue, operations):
        """Wait for the queues of these operations; False when one of them is gone or closed."""
        handles = dict.fromkeys(self.owners[operation] for operation in operations)
        if any(handle not in self.of or self.of[handle][0].closed for handle in handles):
            return False
        for handle in handles:
            self.wait(queue, self.of[handle][0])
        return True

    # -- what commands do

    def launching(self, name, memory, *arguments, becomes, reads=(), grid=(SIZE // 16, 16), measures=()):
        """Launch a kernel whose first argument is changed. `becomes()` is its new value in the model."""
        arguments = [each.buffer if isinstance(each, Memory) else each for each in (memory, *arguments)]

        def effect():
            memory.model[:] = becomes()

        return Action(
            lambda queue: queue.launch(self.kernels[name], *grid, *arguments), effect, [memory], reads, True, measures
        )

    def advancing(self, memory, k):
        return self.launching("advance", memory, k, becomes=lambda: memory.model * np.uint32(3) + np.uint32(k))

    def combining(self, memory, other, k):
        def becomes():
            return memory.model * np.uint32(5) + other.model + np.uint32(k)

        return self.launching("combine", memory, other, k, becomes=becomes, reads=[other])

    def copying(self, to, source):
        def effect():
            to.model[:] = source.model

        return Action(lambda queue: queue.copy(to.buffer, source.buffer), effect, [to], [source])

    def uploading(self, to, value, late=False):
        """`late`: the host's memory is read when the command runs, as in a graph, and not when it is submitted."""
        host = np.full(len(to.model), value, "u4")

        def submit(queue):
            queue.copy(to.buffer, host)
            if not late:
                host[:] = 0  # it was staged

        def effect():
            to.model[:] = value

        return Action(submit, effect, [to])

    def filling(self, memory, value, first=0):
        def effect():
            memory.model[first:] = value

        return Action(lambda queue: queue.fill(memory.buffer[first:], value), effect, [memory])

    # -- operations

    def perform(self, queue, action):
        with self.command(queue, action.writes, action.reads, launches=action.launches):
            action.submit(queue)
        action.effect()

    def step(self, queue, memory, k):
        self.perform(queue, self.advancing(memory, k))

    def mix(self, queue, memory, other, k):
        self.perform(queue, self.combining(memory, other, k))

    def fill(self, queue, memory, value):
        self.perform(queue, self.filling(memory, value))

    def host(self, queue):
        """A host function that notes its number."""
        ran = self.hosts
        with self.command(queue, needs_marker=True) as operation:
            queue.host(lambda: ran.append(operation))
        return operation

    def gate(self, queue):
        with self.command(queue) as operation:
            self.gates[operation] = queue.gate()  # before the check, which may raise: `program_on` must open it then
        return operation

    @contextmanager
    def in_step(self, step):
        """What is launched in the block, on the step's queue and on those that join it, may be collected."""
        self.collected = {handle: [] for handle in self.of} if self.observed else {}
        with step:
            yield
        self.recorded.read(self.submitted(), 0)
        assert not any(self.collected.values()), "a step was left, and not all that it has collected was submitted"
        self.collected = {}

    def open(self, operation=None):
        """Open one gate, or all of them."""
        for each in [operation] if operation is not None else list(self.gates):
            self.gates.pop(each).open()
        self.recorded.read(self.submitted(), 0)

    def record(self, queue, point=None):
        epoch = queue.epoch
        event = queue.record() if point is None else queue.record(point.event)
        point = point or Point(event)
        point.stands_for = self.follow(queue, epoch, self.rules.record)
        return point

    def wait(self, queue, what):
        """For a Point, or for another queue."""
        rule = self.rule(queue)
        must_before = rule.must
        epoch = queue.epoch
        if isinstance(what, Point):
            queue.wait(what.event)
            stands_for = what.stands_for
            self.recorded.read(self.submitted(), rule.handle)
        else:
            producer = what.epoch
            queue.wait(what)
            stands_for = (0, 0) if what is queue else self.follow(what, producer, self.rules.record)
        operation = self.new_operation(queue, epoch)
        self.rules.wait(rule, stands_for, operation)
        if operation is not None:
            self.recorded.wait(rule.handle, operation)
        else:
            # Besides what the rules say it comes after: a query of the null queue may have ordered it after more.
            ordered = must_before | self.recorded.queue(rule.handle).before
            left = stands_for[0] & ~ordered & ~self.recorded.done
            if left and self.strict:
                raise OrderError(f"a wait for operations {operations_in(left)} was dropped")
        return operation is None

    def finish(self, queue):
        rule = self.rule(queue)
        self.open_what_holds(queue)
        must, epoch = self.rules.speaks_for(rule), queue.epoch
        queue.finish()
        self.follow(queue, epoch, self.spoke)
        self.now_done(must)

    def finish_device(self):
        self.open()
        self.device.finish()
        self.recorded.read(self.submitted(), 0)
        everything = 0
        for rule in self.rules.queues.values():
            everything |= rule.must
        self.now_done(everything)

    def finish_point(self, point):
        """The host waits for the event."""
        self.open()
        point.event.wait()
        self.recorded.read(self.submitted(), 0)
        self.now_done(point.stands_for[0])

    def query(self, queue):
        must, epoch = self.rules.speaks_for(self.rule(queue)), queue.epoch
        done = queue.query()
        self.follow(queue, epoch, self.spoke)
        if done:
            self.now_done(must)
        return done

    def query_point(self, point):
        done = point.event.query()
        self.recorded.read(self.submitted(), 0)
        if done:
            self.now_done(point.stands_for[0])
        return done

    def close(self, queue):
        queue.close()
        self.recorded.read(self.submitted(), self.rule(queue).handle)

    def new_operation(self, queue, epoch):
        """The number of what was a command of the queue though it need not have been one; None when it was none."""
        if queue.epoch == epoch:
            return None
        self.operations += 1
        return self.operations - 1

    def follow(self, queue, epoch, rule):
        """What the rule says, after a record, query or finish of the queue."""
        operation = self.new_operation(queue, epoch)
        result = rule(self.rule(queue), operation)
        self.recorded.read(self.submitted(), self.rule(queue).handle, operation, self.before(queue)[1], True)
        return result

    def spoke(self, rule, operation):
        self.rules.add_command(rule, operation, required=False)

    def now_done(self, must):
        """The host was told that all of `must` is done."""
        missing = must & ~self.recorded.done
        if missing and self.strict:
            raise OrderError(f"operations {operations_in(missing)} were said to be done, and nobody asked the driver")
        closed = [operation for operation in self.gates if must >> operation & 1]
        if closed:
            raise OrderError(f"operations {closed} were said to be done while their gates are closed")
        self.told |= must

    def open_what_holds(self, queue):
        """Finishing a queue behind a closed gate would not return."""
        rule = self.rule(queue)
        rules = [rule, *(other for other in self.rules.queues.values() if rule.null and other.blocking)]
        waits_for = 0
        for each in rules:
            waits_for |= each.must | self.recorded.queue(each.handle).before
        for operation in list(self.gates):
            if waits_for >> operation & 1:
                self.open(operation)

    # -- the end

    def compare(self):
        """Finish all, and compare memory with the model, where memory changes at all."""
        self.finish_device()
        for i, memory in enumerate(self.memories if EXECUTES else ()):
            got = memory.buffer.get()
            assert np.array_equal(got, memory.model), f"memory {i} is {got[:4]}…, not {memory.model[:4]}…"
        self.read = len(self.calls)


@contextmanager
def program_on(device, built, strict=True):
    """A `Program`, observed; compares memory with the model at the end, and opens its gates if that fails."""
    device.finish()
    with observe(device) as calls:
        program = Program(device, built, calls, strict)
        try:
            yield program
            program.compare()
        finally:
            for gate in program.gates.values():
                gate.open()
            device.finish()
