"""What `forebay stats` advises: programs, each with the findings that it must have, and no others.

A program of a table calls the methods of `Programs` below; one in a loop is one turn of it.
"""

import itertools
import os
import sys
from unittest import mock

import numpy as np
import pytest

import forebay as fb
from forebay.races.checker import watch_uses
from forebay.tracing import findings, habits, watching
from forebay.tracing.findings import OFTEN
from forebay.tracing.host_waits import FEW, IN_A_LOOP, NEEDLESS, ONE_BY_ONE
from forebay.tracing.queue_waits import APART, HELD, SERIALIZED
from forebay.tracing.repetitions import ALLOCATED, ARRAYS, COMPILED_AGAIN, DOWNLOADED, SETS_KERNELS, UNCHANGED, UNLIKE
from tests.conftest import DEVICES
from tests.helpers.device_data import device_data
from tests.helpers.processes import command, python
from tests.helpers.threads import together

TURNS = OFTEN + 2  # the first turn of a loop has no wait before it
MANY = 3 * OFTEN
RUNS = pytest.mark.executes


class Programs:
    """What the programs below use: a device, queues that the null queue adds nothing to, and memory."""

    def __init__(self, device, program, make_queue, hold):
        self.device, self.program, self.make_queue, self.hold = device, program, make_queue, hold
        self.add, self.numbers = program["add"], itertools.count()
        self.own, self.one, self.two = (self.queue() for _ in range(3))
        self.timed = self.queue(timing=True)
        self.buffer, self.other = device.zeros(100, "i4"), device.zeros(100, "i4")
        device.finish()

    def queue(self, **options):
        return self.make_queue(blocking=False, **options)

    def launch(self, value=1, queue=None, memory=None):
        (queue or self.own).launch(self.add, 10, 10, self.buffer if memory is None else memory, value)

    def upload(self, pinned=False):
        host = fb.host_empty(100, "i4", self.device) if pinned else np.empty(100, "i4")
        host[:] = next(self.numbers)
        self.own.copy(self.buffer, host)

    def chain(self, length):
        graph, nodes = self.device.graph(), []
        for _ in range(length):
            nodes.append(graph.add_kernel(self.add, 10, 10, self.buffer, 1, after=nodes[-1:]))
        return graph.instantiate(), nodes


@pytest.fixture
def use(device, program, make_queue, hold):
    return Programs(device, program, make_queue, hold)


@pytest.fixture
def find():
    """``find(function)``: the findings that it has, as {what: times}. `find.all` and `find.stats` are all of it."""

    def find(function):
        watcher = habits.Habits()
        watcher.begin()
        try:
            function()
        finally:
            find.stats, find.all = watcher.end()
        assert watching.listeners == ()
        times = {}
        for habit in find.all:
            assert habit.line.rpartition(":")[0] == __file__
            times[habit.what] = times.get(habit.what, 0) + habit.times
        return times

    return find


TABLE = []


def shows(found, turns=None, marks=()):
    """Add a program to the table. One in a loop is called with the number of the turn."""

    def add(function):
        TABLE.append(pytest.param(function, turns, found, id=function.__name__, marks=marks))
        return function

    return add


@pytest.mark.parametrize(("function", "turns", "found"), TABLE)
def test_a_program(find, use, function, turns, found):
    def run():
        if turns is None:
            function(use)
        for turn in range(turns or 0):
            function(use, turn)

    assert find(run) == found


# -- waits of the host


@shows({}, turns=5)
def a_good_program(use, turn):
    use.launch(turn)
    use.own.copy(use.buffer, np.full(100, turn, "i4"))
    use.own.finish()
    use.launch()
    use.own.record().wait()
    use.buffer.get(queue=use.own)  # which finishes the queue itself
    use.launch()
    use.device.finish()


@shows({NEEDLESS: 6})
def waits_for_what_is_done(use):
    use.own.finish()
    use.launch()
    event = use.own.record()
    use.own.finish()
    for _ in range(3):
        use.own.finish()
    use.device.finish()
    event.wait()


@shows({}, marks=RUNS)
def a_wait_that_is_needed_however_little_was_submitted(use):
    gate = use.hold(use.two)
    use.launch(queue=use.one)
    event = use.two.record()
    use.one.finish()
    gate.open()
    event.wait()


@shows({ONE_BY_ONE: 2 * 3})
def queues_finished_one_after_another(use):
    queues = [use.queue() for _ in range(4)]
    for _ in range(2):
        for queue in queues:
            use.launch(queue=queue)
        for queue in queues:
            queue.finish()
    for queue in queues:
        use.launch(queue=queue)
        queue.finish()


def waits_for_a_graph(use):
    executable, _ = use.chain(1)
    executable.launch(queue=use.own)
    use.own.finish()


def waits_for_a_graph_that_copies_to_the_host(use):
    with use.own.capture() as graph:
        use.launch()
        use.own.copy(np.empty(100, "i4"), use.buffer)
    graph.launch(use.own)
    use.own.finish()


def waits_for_times(use):
    begin = use.timed.record(timing=True)
    use.launch(queue=use.timed)
    end = use.timed.record(timing=True)
    end.wait()
    end.elapsed(begin)


NEEDLESS_TURNS = {
    "for a queue": lambda use: (use.launch(), use.own.finish()),
    "for a device": lambda use: (use.launch(), use.device.finish()),
    "for an event": lambda use: (use.launch(), use.own.record().wait()),
    "for uploads and fills": lambda use: (use.upload(), use.own.fill(use.buffer, 1), use.launch(), use.own.finish()),
    "for a graph": waits_for_a_graph,
}
NEEDED_TURNS = {
    "with a timeout": lambda use: (use.launch(), use.own.finish(timeout=60)),
    "for a download": lambda use: (use.launch(), use.own.copy(np.empty(100, "i4"), use.buffer), use.own.finish()),
    "before a read": lambda use: (use.launch(), use.own.finish(), use.buffer.get(queue=use.own)),
    "for an upload from pinned memory": lambda use: (use.upload(pinned=True), use.launch(), use.own.finish()),
    "for uploads alone": lambda use: (use.upload(), use.own.finish()),
    "for a host function": lambda use: (use.launch(), use.own.host(lambda: None), use.own.finish()),
    "so that not too much is queued": lambda use: ([use.launch() for _ in range(FEW + 1)], use.own.finish()),
    "for a graph that copies to the host": waits_for_a_graph_that_copies_to_the_host,
    "for times": waits_for_times,
}


@pytest.mark.parametrize("turn", NEEDLESS_TURNS.values(), ids=NEEDLESS_TURNS)
def test_a_wait_in_a_loop(find, use, turn):
    assert find(lambda: [turn(use) for _ in range(TURNS)]) == {IN_A_LOOP: TURNS - 1}
    assert find(lambda: [turn(use) for _ in range(OFTEN)]) == {}


@pytest.mark.executes
@pytest.mark.parametrize("turn", NEEDED_TURNS.values(), ids=NEEDED_TURNS)
def test_a_wait_in_a_loop_with_a_reason(find, use, turn):
    assert find(lambda: [turn(use) for _ in range(TURNS)]) == {}


def gets_a_result(use):
    with use.device.program("kernel void last(global int *to) { to[0] = 3; }") as program:
        result = use.own.launch(program["last"], 1, 1, result="i4")
        use.own.finish()
        result.get()


def another_thread_downloads(use):
    use.launch()
    together(lambda: use.two.copy(np.empty(100, "i4"), use.buffer))
    use.own.finish()


@pytest.mark.threads
@pytest.mark.parametrize("function", [gets_a_result, another_thread_downloads])
def test_a_wait_that_may_be_for_what_is_read(find, use, function):
    assert IN_A_LOOP not in find(lambda: [function(use) for _ in range(TURNS)])


def test_a_wait_for_memory_that_is_read_in_place_counts_as_needed_from_the_first_view_on(find, use):
    with use.device.zeros(100, "i4", usm_type="shared") as shared:
        use.device.finish()

        def run(looks):
            for turn in range(TURNS):
                use.launch(turn, memory=shared)
                use.own.finish()
                if looks:
                    shared.host.sum()

        assert find(lambda: run(False)) == {IN_A_LOOP: TURNS - 1}
        assert find(lambda: run(True)) == {}


# -- repetitions


@shows({})
def other_programs_with_nothing_to_find(use):
    """A value is read twice, a graph downloads, few memory is made, the program itself orders queues, a gate goes."""
    program = use.device.program("kernel void last(global int *to) { to[0] = 3; }")
    value = use.own.launch(program["last"], 1, 1, result="i4")
    value.get()
    value.get()
    with use.own.capture():
        for _ in range(3):
            use.own.copy(np.empty(100, "i4"), use.buffer)
    for turn in range(MANY):
        use.device.empty(100 + turn).close()
    for _ in range(OFTEN):
        use.device.empty(100).close()
    use.one.gate()
    use.launch(queue=use.one)
    use.two.wait(use.one)
    use.launch(queue=use.two)
    use.two.finish()


@shows({COMPILED_AGAIN: 2})
def builds_again(use):
    source = "kernel void again(global int *a) { a[0] = 1; }"
    for _ in range(3):
        use.device.program(source)
    use.device.program(source, "-DOTHER")
    use.device.program(source + " ")
    for _ in range(2):
        with pytest.raises(fb.BuildError):
            use.device.program("no kernel")


@shows({UNLIKE: mock.ANY}, marks=pytest.mark.needs("Level Zero"))
def steps_that_do_not_repeat(use):
    repeats, differs = use.one.step(), use.two.step()
    for turn in range(8):
        with repeats:
            for _ in range(4):
                use.launch(turn, use.one)
        with differs:
            for _ in range(turn + 1):
                use.launch(turn, use.two)
    repeats.close()
    differs.close()


@shows({}, 20)
def other_memory_at_the_same_place(use, turn):
    temporary = use.own.alloc(100, "i4")
    use.launch(turn, memory=temporary)
    temporary.get(queue=use.own)
    use.own.free(temporary)


@shows({}, OFTEN)
def arrays_that_the_host_changes(use, turn):
    array = np.full(100, turn, "i4")
    for _ in range(2):
        array[0] += 1
        use.own.launch(use.add, 10, 10, array, 1)
    use.own.launch(use.add, 10, 10, np.full(100, 3, "i4"), 1)


@shows({})
def arrays_of_a_few_launches_and_of_a_capture(use):
    given, to = np.arange(100, dtype="i4"), np.zeros(100, "i4")
    for _ in range(OFTEN):
        use.own.launch(use.program["copy"], 10, 10, to, given)
    with use.own.capture():
        for _ in range(2 * OFTEN):
            use.own.launch(use.program["copy"], 10, 10, to, given)


@shows({})
def memory_that_is_kept_and_memory_of_the_pool(use):
    kept = [use.device.empty(100) for _ in range(MANY)]
    views = [use.device.empty(100).reshape(10, 10) for _ in range(MANY)]
    for _ in range(MANY):
        use.own.free(use.own.alloc(100))
    assert len(kept) == len(views)


def set_kernels(use, launches, changes):
    """Launch a graph, before each launch with the changes of (node, block, value)."""
    executable, nodes = use.chain(4)
    for turn in range(launches):
        for node, block in changes(turn, nodes):
            executable.set_kernel(node, use.add, 10, block, use.buffer, turn)
        executable.launch(use.own)


@pytest.mark.parametrize(
    ("launches", "changes", "found"),
    [
        (OFTEN, lambda turn, nodes: [(node, 10) for node in nodes[:2]], {SETS_KERNELS: 2 * OFTEN}),
        (OFTEN - 1, lambda turn, nodes: [(node, 10) for node in nodes], {}),
        (MANY, lambda turn, nodes: [(nodes[0], 10)], {}),
        (MANY, lambda turn, nodes: [(node, 10) for node in nodes if turn % 3 == 0], {}),
        (MANY, lambda turn, nodes: [(node, 10 - turn % 2) for node in nodes], {}),
        (MANY, lambda turn, nodes: [(node, 10) for node in nodes if turn < OFTEN - 1], {}),
    ],
    ids=["every time", "a few times", "one of many", "now and then", "other blocks", "a few of many times"],
)
def test_kernels_of_a_graph_that_are_set_before_its_launches(find, use, launches, changes, found):
    assert find(lambda: set_kernels(use, launches, changes)) == found
    assert all(habit.ticks > 0 for habit in find.all)


def test_uploads_of_bytes_that_are_there_already(find, use):
    host, buffer, own = np.arange(100, dtype="i4"), use.buffer, use.own

    def run():
        for _ in range(4):
            own.copy(buffer, host)  # 3
        own.launch(use.program["copy"], 10, 10, use.other, buffer)  # only reads
        buffer.set(host, queue=own)  # 1
        host[0] += 1
        own.copy(buffer, host)
        use.launch()
        own.copy(buffer, host)
        own.copy(buffer[:50], host[:50])
        own.copy(buffer[:50], host[:50])  # 1

    assert find(run) == {UNCHANGED: 5}
    assert sum(habit.nbytes for habit in find.all) == 4 * 400 + 200


def test_downloads_of_bytes_that_the_host_has(find, use):
    buffer, own = use.buffer, use.own

    def run():
        for _ in range(3):
            buffer.get(queue=own)  # 2
        use.launch()
        buffer.get(queue=own)
        own.copy(np.empty(100, "i4"), buffer)  # 1
        own.fill(buffer, 3)
        own.copy(np.empty(100, "i4"), buffer)
        buffer[:50].get(queue=own)
        buffer[:50].get(queue=own)  # 1

    assert find(run) == {DOWNLOADED: 4}
    assert sum(habit.nbytes for habit in find.all) == 3 * 400 + 200


def test_memory_that_others_may_write_to_has_other_bytes(find, device, use):
    with device.empty(100, "i4", usm_type="shared") as shared:
        view = shared.host

        def run():
            for turn in range(3):
                view[:] = turn
                use.own.copy(np.empty(100, "i4"), shared)
                use.own.finish()
                use.own.copy(shared, np.zeros(100, "i4"))
                use.own.finish()

        assert find(run) == {}


def test_arrays_that_have_not_changed(find, use):
    given, to = np.arange(100, dtype="i4"), np.zeros(100, "i4")

    def run():
        for _ in range(OFTEN + 1):
            use.own.launch(use.program["copy"], 10, 10, to, given)

    assert find(run) == {ARRAYS: OFTEN}
    assert sum(habit.nbytes for habit in find.all) == OFTEN * 800
    assert (device_data(to) == given).all()


@pytest.mark.parametrize("closes", [True, False])
@pytest.mark.parametrize("make", ["empty", "zeros", "array"])
def test_memory_that_is_made_again_and_again(find, device, make, closes):
    def run():
        for _ in range(OFTEN + 3):
            temporary = getattr(device, make)(np.ones(100, "f4") if make == "array" else 100)
            if closes:
                temporary.close()
            device.finish()

    found = find(run)
    assert OFTEN <= found.pop(ALLOCATED) <= OFTEN + 2
    assert {habit.nbytes // habit.times for habit in find.all if habit.what == ALLOCATED} == {400}


# -- waits of queues


@shows({}, OFTEN)
def waits_in_one_direction(use, turn):
    use.launch(turn, use.one)
    use.launch(turn, use.two, use.other)
    use.one.wait(use.two)
    if turn < OFTEN - 1:
        use.two.wait(use.one)


@shows({}, OFTEN)
def waits_in_a_capture(use, turn):
    use.launch(turn, use.one)
    use.launch(turn, use.two, use.other)
    use.two.wait(use.one)  # in one direction only
    with use.one.capture():
        use.two.wait(use.one)
        use.launch(turn, use.one)
        use.launch(turn, use.two, use.other)
        use.one.wait(use.two)
        use.two.wait(use.one)
        use.one.wait(use.two)


@shows({}, OFTEN)
def memory_that_the_other_queue_frees(use, turn):
    use.launch(turn, use.two, use.other)
    memory = use.one.alloc(100, "i4")
    use.launch(turn, use.one, memory)
    use.two.wait(event_or_queue=use.one)
    use.two.free(memory)
    use.one.wait(event_or_queue=use.two)


def test_the_null_queue_and_blocking_queues_that_wait_for_each_other(find, device, use, queue, hold):
    hold(queue)

    def run(turns):
        for _ in range(turns):
            queue.launch(use.add, 10, 10, use.buffer, 1)
            device.null_queue.launch(use.add, 10, 10, use.buffer, 1)

    before = device.stats.waits_made
    assert find(lambda: run(OFTEN + 1)) == {SERIALIZED: 2 * OFTEN + 1}
    assert sorted(habit.times for habit in find.all) == [OFTEN, OFTEN + 1]
    assert sum(habit.waits for habit in find.all) == device.stats.waits_made - before == 2 * OFTEN + 1
    assert find(lambda: run(OFTEN - 2)) == {}  # to be joined by the null queue now and then is no loop


@pytest.mark.parametrize("by_event", [False, True])
def test_queues_that_wait_for_each_other_and_share_nothing(find, use, by_event):
    first, second = use.one, use.two

    def run():
        use.hold(first), use.hold(second)
        for turn in range(OFTEN):
            use.launch(turn, first)
            use.launch(turn, second, use.other)
            first.wait(second.record() if by_event else second)
            second.wait(first.record() if by_event else first)

    assert find(run) == {APART: 2 * OFTEN}
    assert sum(habit.waits for habit in find.all) == 2 * OFTEN


def launch_in_a_graph(use):
    graph = use.device.graph()
    graph.add_kernel(use.add, 10, 10, use.other, 1)
    graph.launch(use.two)


def launch_in_a_step(use):
    with use.two.step():
        use.launch(queue=use.two)


NEEDED = {
    "a launch": lambda use: use.launch(queue=use.two),
    "a bound launch": lambda use: use.add.bind(use.two, 10, 10, use.buffer, 1)(),
    "a launch with a view": lambda use: use.two.launch(use.add, 5, 10, use.buffer[50:], 1),
    "a launch in a step": launch_in_a_step,
    "a fill": lambda use: use.two.fill(use.buffer, 1),
    "a copy to it": lambda use: use.two.copy(use.buffer, use.device.empty(100, "i4")),
    "a copy from it": lambda use: use.two.copy(use.device.empty(100, "i4"), use.buffer),
    "an upload": lambda use: use.two.copy(use.buffer, np.zeros(100, "i4")),
    "a download": lambda use: use.two.copy(np.zeros(100, "i4"), use.buffer),
    "a graph": launch_in_a_graph,
}
"""What makes two queues' order needed: the second one uses memory of the first, or memory that is not seen."""


@pytest.mark.parametrize("reason", NEEDED.values(), ids=NEEDED)
def test_an_order_with_a_reason(find, use, reason):
    def run():
        for turn in range(OFTEN):
            use.launch(turn, use.one)
            use.launch(turn, use.two, use.other)
            reason(use)
            use.one.wait(use.two)
            use.two.wait(use.one)
        use.two.finish()

    assert APART not in find(run)


@pytest.mark.executes
@pytest.mark.parametrize("host_function", [False, True])
def test_an_order_for_the_host(find, use, host_function):
    def run():
        for turn in range(OFTEN):
            use.launch(turn, use.one)
            use.launch(turn, use.two, use.other)
            if host_function:
                use.two.host(lambda: None)
            use.one.wait(use.two)
            use.two.wait(use.one)
            if not host_function:
                use.one.finish()
        use.two.finish()

    assert APART not in find(run)


def test_the_null_queue_comes_after_blocking_queues_and_may_need_their_order(find, device, use, make_queue):
    def run(uses_null):
        first, second = make_queue(), make_queue()
        for turn in range(OFTEN):
            use.launch(turn, first)
            use.launch(turn, second, use.other)
            first.wait(second)
            second.wait(first)
            if uses_null:
                device.null_queue.fill(use.other, 1)

    assert find(lambda: run(False)) == {APART: 2 * OFTEN}
    assert APART not in find(lambda: run(True))


@pytest.mark.parametrize("check", ["", "races"])
def test_a_device_that_is_checked_for_races_gives_the_same_advice(find, device, check):
    def run():
        with fb.Device(device.name, private=True, check=check) as private:
            first, second = private.queue(blocking=False), private.queue(blocking=False)
            add = private.program("kernel void add(global int *to) { to[get_global_id(0)] += 1; }")["add"]
            memory, other = private.empty(100, "i4"), private.empty(100, "i4")
            for _ in range(OFTEN):
                first.launch(add, 10, 10, memory)
                second.launch(add, 10, 10, other)
                first.wait(second)
                second.wait(first)
            assert second.checked == bool(check)
            found = len(private.races)
            second.launch(add, 10, 10, other)
            first.launch(add, 10, 10, other)
            assert (found, len(private.races)) == (0, int(bool(check)))

    assert find(run) == {}  # both have used `other` in the end


def test_an_order_of_two_others(find, device, use):
    """A queue after one of the two uses memory of one that the other came after. Nothing needs the way back."""
    first, second = use.one, use.two

    def run():
        for turn in range(OFTEN):
            before, after, shared = use.queue(), use.queue(), device.empty(100, "i4")
            use.launch(turn, before, shared)
            second.wait(before)
            use.launch(turn, first)
            use.launch(turn, second, use.other)
            first.wait(second)
            after.wait(first)
            use.launch(turn, after, shared)
            second.wait(first)
        device.finish()

    assert find(run) == {APART: OFTEN}
    assert int(find.all[0].line.rpartition(":")[2]) == run.__code__.co_firstlineno + 10


def test_no_use_of_memory_is_noted_afterwards(find, use):
    told = []

    def run():
        use.one.wait(use.two)
        watch_uses(lambda queue, uses: told.append(uses))
        use.launch(queue=use.one)
        assert len(told) == 1

    find(run)
    watch_uses(lambda queue, uses: told.append(uses))
    try:
        use.launch(queue=use.one)
    finally:
        watch_uses(None)
    assert len(told) == 1


@pytest.mark.needs("Level Zero")
def test_launches_of_a_watched_queue_are_collected_by_its_step(find, use):
    def run():
        use.one.wait(use.two)  # from here on uses are noted
        step = use.one.step()
        for turn in range(4):
            with step:
                for _ in range(5):
                    use.launch(turn, use.one)
        step.close()

    find(run)
    assert (use.one.stats.steps, use.one.stats.steps_recorded) == (4, 1)


# -- held queues


@pytest.fixture
def most(device):
    """How many queues may be held: the driver's number, or some where it has none."""
    number = device.driver.most_held or 3
    with mock.patch.object(device.driver, "most_held", number):
        yield number


def test_too_many_queues_that_are_held(find, use, most):
    def run(count):
        gates = [queue.gate() for queue in [use.queue() for _ in range(count)]]
        for gate in gates:
            gate.open()

    assert find(lambda: run(most)) == {}
    assert find(lambda: run(most + 2)) == {HELD.format(held=most + 2, most=most): 1}


def test_queues_that_wait_behind_a_held_one_count(find, use, most):
    def run():
        before, *others = [use.queue() for _ in range(most + 1)]
        gate = before.gate()
        for queue in others:  # each behind the one before
            queue.wait(before)
            use.launch(queue=queue)
            before = queue
        gate.open()

    assert find(run) == {HELD.format(held=most + 1, most=most): 1}


@pytest.mark.executes
def test_gates_that_are_open_and_functions_that_returned_hold_no_queue(find, use, most):
    def run():
        for queue in [use.queue() for _ in range(most + 2)]:
            queue.gate().open()
            queue.host(lambda: None)
            queue.finish()

    assert HELD.format(held=most + 2, most=most) not in find(run)


@pytest.mark.executes
def test_host_functions_hold_their_queues_and_raise_as_ever(find, use, most):
    def broken():
        raise ValueError("broken")

    def run():
        first, *queues = [use.queue() for _ in range(most + 2)]
        gate = first.gate()
        for queue in queues:
            queue.wait(first)
            queue.host(broken)
        gate.open()
        for queue in queues:
            with pytest.raises(ValueError, match="broken"):
                queue.finish()

    assert list(find(run)) == [HELD.format(held=most + 2, most=most)]


# -- what it leaves as it is


def test_wrong_arguments_are_the_same_errors(find, device, use):
    def run():
        for call in (
            lambda: use.own.copy(use.buffer, np.zeros(3, "i4")),
            lambda: use.own.copy(use.buffer, object()),
            lambda: use.own.copy(use.buffer),
            lambda: use.own.copy(dst=use.buffer, src=np.zeros(3, "i4")),
            lambda: device.program(3),
            lambda: use.own.finish("soon"),
            lambda: use.own.wait(3),
            lambda: use.own.host(),
            lambda: use.own.host(3),
        ):
            with pytest.raises((TypeError, ValueError)):
                call()

    assert find(run) == {}


def test_the_counters_of_devices_that_are_gone_count(find, device):
    def run():
        for _ in range(2):
            with fb.Device(device.name, private=True) as another:
                another.queue().launch(another.program("kernel void mine() { }")["mine"], 1, 1)

    assert set(find(run)) == {COMPILED_AGAIN}
    assert [name for name, stats in find.stats if stats.launches == 1] == [device.name] * 2


@pytest.mark.threads
def test_threads(find, use, device):
    def work():
        queue = use.queue()
        with device.empty(100, "i4") as mine:
            for value in range(20):
                use.launch(value, queue, mine)
                queue.finish()

    find(lambda: together(*[work] * 4))
    assert sum(stats.launches for _, stats in find.stats) >= 80


def test_the_report_has_the_line_and_the_cost():
    stats = fb.Stats(launches=1234567, waits_made=1, waits_elided_ordered=3)
    found = [findings.Habit(UNCHANGED, "app.py:12", 3, 2_000_000, 4096), findings.Habit(SERIALIZED, "", 5, waits=7)]
    text = findings.report([("opencl:cpu:0", stats)], found, 0.5)
    for words in ("1,234,567 launches", "3 of 4 waits", "app.py:12: 3 ×, 1.000 ms, 4,096 bytes", "line: 5 ×, 7 waits"):
        assert words in text


# -- the command


@pytest.mark.needs("no validation layer", "the default device")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_program_ends_with_one_report_its_exit_status_and_its_trace(tmp_path):
    source = """
import os, sys
import forebay as fb
device = fb.Device()
queue = device.queue()
queue.launch(device.program("kernel void one() { }")["one"], 1, 1)
queue.finish(); queue.finish()
child = os.fork()
if child == 0: sys.exit(0)
os.waitpid(child, 0)
sys.exit(3)
"""
    environment = {"FOREBAY_DEVICE": DEVICES[0], "FOREBAY_TRACE": tmp_path / "t.json"}
    if command()[0][0] != sys.executable:  # null hardware
        done = python("-c", source, FOREBAY_STATS=1, **environment)
    else:
        done = python("-m", "forebay", "stats", "--", sys.executable, "-c", source, **environment)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("what process") == 1
    for words in ("1 launches", "<string>:7: 1 ×", NEEDLESS):
        assert words in done.stderr
    assert (tmp_path / "t.json").stat().st_size > 1000
