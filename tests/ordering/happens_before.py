"""What was submitted, against what HIP's rules require.

`Rules` says, from the program alone, which operations must come before which. `Recorded` says, from the driver calls
alone, which do: commands of one queue run in order, and a command runs after the events it waits for. Neither looks
into forebay. `check` compares the two after each operation of a program that one thread runs.

Sets of operations are integers with one bit for each.
"""

from __future__ import annotations

from dataclasses import dataclass, field


class OrderError(AssertionError):
    """What was submitted is not what the rules ask for."""


def operations_in(mask):
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


@dataclass
class RuleQueue:
    """The operations that the next one of this queue must come after, or may."""

    handle: int
    null: bool = False
    blocking: bool = True
    must: int = 0
    may: int = 0


class Rules:
    """HIP's rules.

    `must` is what they require. `may` adds what forebay is allowed to add: a wait that it drops, because its work
    is done or ordered already, need not act as a command of its queue, and a query or finish of the null queue may.
    """

    def __init__(self):
        self.queues = {}
        self.null = None

    def add(self, handle, null=False, blocking=True):
        queue = RuleQueue(handle, null, blocking)
        self.queues[handle] = queue
        if null:
            self.null = queue
        return queue

    def come_after_implicitly(self, queue, required=True):
        """The null-queue rule, for a command of this queue."""
        if queue.null:
            before = [other for other in self.queues.values() if other.blocking and other is not queue]
        else:
            before = [self.null] if queue.blocking and self.null else []
        for other in before:
            queue.may |= other.may
            if required:
                queue.must |= other.must

    def command(self, queue, operation):
        """Returns what it must and what it may come after."""
        self.come_after_implicitly(queue)
        before = queue.must, queue.may
        self.add_command(queue, operation)
        return before

    def record(self, queue, operation):
        """What the recorded point stands for: (must, may). `operation` when it was a command of its own, else None."""
        self.come_after_implicitly(queue)
        self.add_command(queue, operation)
        return queue.must, queue.may

    def wait(self, queue, point, operation):
        """`operation` is None when the wait was dropped."""
        self.come_after_implicitly(queue, required=operation is not None)
        must, may = point
        queue.must |= must
        queue.may |= may
        self.add_command(queue, operation)

    def speaks_for(self, queue):
        """What is done when this queue says that it is."""
        if not queue.null:
            return queue.must
        must = queue.must
        for other in self.queues.values():
            if other.blocking:
                must |= other.must
        self.come_after_implicitly(queue, required=False)
        return must

    def add_command(self, queue, operation, required=True):
        if operation is not None:
            queue.may |= 1 << operation
            if required:
                queue.must |= 1 << operation


@dataclass
class SubmittedQueue:
    before: int = 0  # operations that its next command comes after
    gone: bool = False  # so it gets a marker at some point, to notice by when it is done
    ends_in_marker: bool = False  # and nothing came after that
    for_host: bool = False  # and that marker is one the host can ask
    gate_markers: int = 0  # the next markers belong to the gate that its last command waits for
    pending: int = 0  # waits that no command has carried yet: they are operations too
    done_when_waiting: int = 0  # what was known done at the first of them


@dataclass
class Recorded:
    """The relation of the recorded calls. Gates, which are events of no queue, order nothing."""

    kind: object  # of a call: "command", "marker", "barrier", "finish", "wait", "query", …
    gate_markers: int = 0  # how many follow the command that waits for a gate
    queues: dict = field(default_factory=dict)
    events: dict = field(default_factory=dict)  # what is done once the event is
    gates: set = field(default_factory=set)
    done: int = 0  # what the host has been told is done

    def queue(self, handle):
        return self.queues.setdefault(handle, SubmittedQueue())

    def wait(self, handle, operation):
        """A wait that the next command of the queue carries."""
        queue = self.queue(handle)
        if not queue.pending:
            queue.done_when_waiting = self.done
        queue.pending |= 1 << operation

    def read(self, calls, handle, operation=None, may=None, needs_marker=False):
        """Follow the calls of one operation; `handle` is the queue it is an operation of.

        Returns what it comes after, and what was known to be done when it was submitted.

        A wait for what it `may` not come after is refused, and so is one for what the queue was ordered after before
        this operation, or what was known to be done.
        """
        commands = ("command", "marker", "barrier")
        done_before = self.done
        asked = {call.event for call in calls if self.kind(call) == "query"}  # also those that were not done yet
        calls = [call for call in calls if call.status == 0]
        own = [i for i, call in enumerate(calls) if self.kind(call) in commands and call.object == handle]
        if operation is not None and not own:
            raise OrderError(f"operation {operation} submitted nothing to its queue: {[call.name for call in calls]}")
        markers = {}
        awaited = set()
        main = done_at_main = 0
        for i, call in enumerate(calls):
            kind = self.kind(call)
            if kind in commands:
                awaited.update(call.waits)
                queue = self.queue(call.object)
                is_main = operation is not None and i == own[-1]
                before = queue.before
                early = kind == "marker" and queue.pending and not call.waits  # of the point before the pending waits
                pending = queue.pending
                if early:
                    queue.pending = 0
                after = self.come_after(queue, call, before, done_before, may if call.object == handle else None)
                of_gate = kind == "marker" and queue.gate_markers > 0  # which tells only the driver's folder something
                if kind == "marker" and not of_gate:
                    # One for the device may be followed by one for the host, on drivers where these differ.
                    superfluous = queue.ends_in_marker and (queue.for_host or not call.detail)
                    if superfluous and not call.waits and not needs_marker:
                        raise OrderError(f"a second marker was made where the queue had one: {call}")
                    if not queue.gone:
                        markers[call.event] = call
                queue.ends_in_marker = kind == "marker" and not of_gate
                queue.for_host = bool(call.detail)
                if of_gate:
                    queue.gate_markers -= 1
                else:
                    queue.gate_markers = 0 if self.gates.isdisjoint(call.waits) else self.gate_markers
                queue.pending = pending if early else 0
                if is_main:
                    main, done_at_main = after, self.done
                    after |= 1 << operation
                queue.before = after
                if call.event and not of_gate:
                    self.events[call.event] = after
            elif kind == "gate":
                self.gates.add(call.event)
            elif kind == "finish":
                self.done |= self.queue(call.object).before
            elif kind == "wait":
                awaited.update(call.waits)
                for event in call.waits:
                    self.done |= self.events.get(event, 0)
            elif kind == "query":
                awaited.add(call.event)  # also by a collection, to see whether what was retired is done
                if call.detail == 0:
                    self.done |= self.events.get(call.event, 0)
        if operation is not None and not needs_marker:
            unused = set(markers) - awaited - asked
            if self.gates:  # the point before what can be held up is marked
                unused = {event for event in unused if markers[event].object != handle}
            if unused:
                raise OrderError(f"no command waits for the markers {[markers[event] for event in unused]}")
        return main, done_at_main

    def come_after(self, queue, call, before, done, may):
        if queue.pending:
            done = queue.done_when_waiting
        after = before | queue.pending
        for event in call.waits:
            if event in self.gates:
                continue
            if event not in self.events:
                raise OrderError(f"event {event} was never signalled by a command: {call}")
            adds = self.events[event] & ~before & ~done
            if not adds:
                raise OrderError(f"the wait for event {event} adds nothing: {call}")
            if may is not None and not adds & may:
                raise OrderError(
                    f"no rule asks for the wait for event {event}, operations {operations_in(adds)}: {call}"
                )
            after |= self.events[event]
        return after


def check(operation, main, must, may, done):
    """`main` is what the operation's command comes after; what was done when it was submitted needs no edge."""
    missing = must & ~main & ~done
    if missing:
        raise OrderError(f"operation {operation} is not ordered after {operations_in(missing)}")
    extra = main & ~may
    if extra:
        raise OrderError(f"operation {operation} is ordered after {operations_in(extra)}, which no rule asks for")


class Relation:
    """Which calls of a log come after which, whatever they are for: each as the set of the calls before it.

    Commands of one queue run in order, a command runs after the events it waits for, and what is submitted once the
    host was told that something is done comes after that.
    """

    def __init__(self, log, kind):
        self.log, self.kind = [], kind
        self.after = []
        self.done = 0  # what the host was told is done, in the end
        self.queues = {}  # what the next command of each comes after
        self.events = {}
        for call in log:
            self.follow(call)

    def follow(self, call):
        """Add the next call."""
        kind, before = self.kind(call), 0
        if call.status != 0:
            pass
        elif kind in ("command", "marker", "barrier"):
            before = self.queues.get(call.object, 0) | self.done
            for event in call.waits:
                before |= self.events.get(event, 0)
            until = before | 1 << len(self.after)
            self.queues[call.object] = until
            if call.event:
                self.events[call.event] = until
        elif kind == "finish":
            self.done |= self.queues.get(call.object, 0)
        elif kind == "wait":
            for event in call.waits or (call.event,):
                self.done |= self.events.get(event, 0)
        elif kind == "query" and call.detail == 0:
            self.done |= self.events.get(call.event, 0)
        self.log.append(call)
        self.after.append(before)

    def commands(self, handle):
        """The calls that submitted launches, copies, fills or graphs to this queue, as numbers, in order."""
        return [
            i
            for i, call in enumerate(self.log)
            if call.object == handle and call.status == 0 and self.kind(call) == "command"
        ]

    def comes_after(self, later, earlier):
        return bool(self.after[later] >> earlier & 1)
