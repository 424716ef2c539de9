"""What `forebay stats` advises: programs, each with the findings that it must have, and no others."""

import functools
import itertools
import os
import sys
from unittest import mock

import numpy as np
import pytest

import forebay as fb
from forebay import hip
from forebay.tracing import findings, watching
from tests.conftest import DEVICES
from tests.helpers.kernels import SOURCE
from tests.helpers.processes import command, python
from tests.helpers.threads import together
from tests.hip.conftest import ok
from tests.hip.helpers import compiled

OFTEN = findings.OFTEN
MANY = 3 * OFTEN
RUNS = pytest.mark.executes
LEVEL_ZERO = pytest.mark.needs("Level Zero")


class Programs:
    """What the programs below use: a device, queues that the null queue adds nothing to, and memory."""

    def __init__(self, device, program, make_queue, hold):
        self.device, self.program, self.make_queue, self.hold = device, program, make_queue, hold
        self.add, self.copy, self.numbers = program["add"], program["copy"], itertools.count()
        self.last = device.program("kernel void last(global int *to) { to[0] = 3; }")["last"]
        self.own, self.one, self.two = (self.queue() for _ in range(3))
        self.timed = self.queue(timing=True)
        self.buffer, self.other = device.zeros(100, "i4"), device.zeros(100, "i4")
        self.host, self.out = np.arange(100, dtype="i4"), np.zeros(100, "i4")
        device.finish()

    @functools.cached_property
    def shared(self):
        return self.device.zeros(100, "i4", usm_type="shared")

    def queue(self, **options):
        return self.make_queue(blocking=False, **options)

    def launch(self, value=1, queue=None, memory=None):
        (queue or self.own).launch(self.add, 10, 10, self.buffer if memory is None else memory, value)

    def upload(self, pinned=False):
        host = fb.host_empty(100, "i4", self.device) if pinned else np.empty(100, "i4")
        host[:] = next(self.numbers)
        self.own.copy(self.buffer, host)

    def download(self, queue=None):
        (queue or self.own).copy(np.empty(100, "i4"), self.buffer)

    def chain(self, length, **options):
        graph, nodes = self.device.graph(), []
        for _ in range(length):
            nodes.append(graph.add_kernel(self.add, 10, 10, self.buffer, 1, after=nodes[-1:]))
        return graph.instantiate(**options), nodes


@pytest.fixture
def use(device, program, make_queue, hold):
    return Programs(device, program, make_queue, hold)


@pytest.fixture
def find():
    """``find(function)``: the findings that it has, as {what: times}. `find.all` and `find.stats` are all of it."""

    def find(function):
        watcher = findings.Findings()
        watcher.begin()
        try:
            function()
        finally:
            find.stats, find.all = watcher.end()
        assert watching.listeners == ()
        times = {}
        for finding in find.all:
            assert finding.line.rpartition(":")[0] == __file__
            times[finding.what] = times.get(finding.what, 0) + finding.times
        return times

    return find


TABLE = []


def shows(found, turns=None, marks=(), nbytes=None):
    """Add a program to the table. One in a loop is called with the number of the turn."""

    def add(function):
        TABLE.append(pytest.param(function, turns, found, nbytes, id=function.__name__, marks=marks))
        return function

    return add


@pytest.mark.parametrize(("function", "turns", "found", "nbytes"), TABLE)
def test_a_program(find, use, function, turns, found, nbytes):
    def run():
        if turns is None:
            function(use)
        for turn in range(turns or 0):
            function(use, turn)

    assert find(run) == found
    assert nbytes in (None, sum(finding.nbytes for finding in find.all))


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


@shows({findings.NEEDLESS: 6})
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


@shows({findings.ONE_BY_ONE: 2 * 3})
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
    use.chain(1, auto_free=True)[0].launch(queue=use.own)
    use.own.finish()


def waits_for_a_graph_that_downloads(use):
    with use.own.capture() as graph:
        use.launch()
        use.download()
    graph.launch(use.own)
    use.own.finish()


def waits_for_times(use):
    begin = use.timed.record(timing=True)
    use.launch(queue=use.timed)
    end = use.timed.record(timing=True)
    end.wait()
    end.elapsed(begin)


def gets_a_result(use):
    result = use.own.launch(use.last, 1, 1, result="i4")
    use.own.finish()
    result.get()


def reads_in_place(use):
    use.launch(memory=use.shared)
    use.own.finish()
    use.shared.host.sum()


NEEDLESS_TURNS = {
    "a queue": lambda use: (use.launch(), use.own.finish()),
    "a device": lambda use: (use.launch(), use.device.finish()),
    "an event": lambda use: (use.launch(), use.own.record().wait()),
    "uploads and fills": lambda use: (use.upload(), use.own.fill(use.buffer, 1), use.launch(), use.own.finish()),
    "a graph": waits_for_a_graph,
}
NEEDED_TURNS = {
    "with a timeout": lambda use: (use.launch(), use.own.finish(timeout=60)),
    "a download": lambda use: (use.launch(), use.download(), use.own.finish()),
    "a read that follows": lambda use: (use.launch(), use.own.finish(), use.buffer.get(queue=use.own)),
    "an upload from pinned memory": lambda use: (use.upload(pinned=True), use.launch(), use.own.finish()),
    "uploads alone": lambda use: (use.upload(), use.own.finish()),
    "a host function": lambda use: (use.launch(), use.own.host(lambda: None), use.own.finish()),
    "much that is queued": lambda use: ([use.launch() for _ in range(findings.FEW + 1)], use.own.finish()),
    "a download of a thread": lambda use: (use.launch(), together(lambda: use.download(use.two)), use.own.finish()),
    "a graph that downloads": waits_for_a_graph_that_downloads,
    "times": waits_for_times,
    "a result": gets_a_result,
    "memory read in place": reads_in_place,
}


@pytest.mark.executes
@pytest.mark.parametrize("reason", [*NEEDLESS_TURNS, *NEEDED_TURNS])
def test_a_wait_in_a_loop(find, use, reason):
    turn, turns = (NEEDLESS_TURNS | NEEDED_TURNS)[reason], OFTEN + 2  # the first turn has no wait before it
    found = find(lambda: [turn(use) for _ in range(turns)])
    assert found.get(findings.IN_A_LOOP, 0) == (turns - 1 if reason in NEEDLESS_TURNS else 0)
    assert findings.IN_A_LOOP not in find(lambda: [turn(use) for _ in range(OFTEN)])


# -- repetitions


@shows({})
def other_programs_with_nothing_to_find(use):
    """A value is read twice, little memory is made or all of it is kept, a graph downloads, and queues are ordered."""
    value = use.own.launch(use.last, 1, 1, result="i4")
    assert value.get() == value.get()
    with use.own.capture():
        for _ in range(3):
            use.download()
    for turn in range(MANY):
        use.device.empty(100 + turn).close()
        use.own.free(use.own.alloc(100))
    kept = [use.device.empty(100) for _ in range(MANY)]
    use.one.gate()
    use.launch(queue=use.one)
    use.two.wait(use.one)
    use.launch(queue=use.two, memory=kept[0].view("i4"))
    use.two.finish()
    for turn in range(MANY):
        temporary = use.own.alloc(100, "i4")  # at the same place each time
        use.launch(turn, memory=temporary)
        temporary.get(queue=use.own)
        use.own.free(temporary)


@shows({findings.COMPILED_AGAIN: 2})
def builds_again(use):
    source = "kernel void again(global int *a) { a[0] = 1; }"
    for _ in range(3):
        use.device.program(source)
    use.device.program(source, "-DOTHER")
    use.device.program(source + " ")
    for _ in range(2):
        with pytest.raises(fb.BuildError):
            use.device.program("no kernel")


@shows({findings.UNLIKE: mock.ANY}, marks=LEVEL_ZERO)
def steps_that_do_not_repeat(use):
    """The other's launches are collected, though its uses of memory are noted after a wait."""
    use.one.wait(use.two)
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
    assert (use.one.stats.steps, use.one.stats.steps_recorded) == (8, 1)


@shows({findings.ARRAYS: OFTEN}, OFTEN + 1, (), OFTEN * 800)
def arrays_that_have_not_changed(use, turn):
    use.own.launch(use.copy, 10, 10, use.out, use.host)


@shows({}, OFTEN)
def arrays_that_the_host_changes(use, turn):
    array = np.full(100, turn, "i4")
    for _ in range(2):
        array[0] += 1
        use.own.launch(use.add, 10, 10, array, 1)
    with use.own.capture():
        use.own.launch(use.copy, 10, 10, use.out, use.host)


@shows({findings.UNCHANGED: 5}, nbytes=4 * 400 + 200)
def uploads_of_bytes_that_are_there_already(use):
    host, buffer, own = use.host, use.buffer, use.own
    for _ in range(4):
        own.copy(buffer, host)  # 3
    own.launch(use.copy, 10, 10, use.other, buffer)  # only reads
    buffer.set(host, queue=own)  # 1
    host[0] += 1
    own.copy(buffer, host)
    use.launch()
    own.copy(buffer, host)
    own.copy(buffer[:50], host[:50])
    own.copy(buffer[:50], host[:50])  # 1


@shows({findings.DOWNLOADED: 4}, nbytes=3 * 400 + 200)
def downloads_of_bytes_that_the_host_has(use):
    for _ in range(3):
        use.buffer.get(queue=use.own)  # 2
    use.launch()
    use.buffer.get(queue=use.own)
    use.download()  # 1
    use.own.fill(use.buffer, 3)
    use.download()
    use.buffer[:50].get(queue=use.own)
    use.buffer[:50].get(queue=use.own)  # 1


@shows({})
def memory_that_the_host_may_write_to_has_other_bytes(use):
    view = use.shared.host
    for turn in range(3):
        view[:] = turn
        use.own.copy(np.empty(100, "i4"), use.shared)
        use.own.finish()
        use.own.copy(use.shared, np.zeros(100, "i4"))
        use.own.finish()


@shows({findings.ALLOCATED: mock.ANY})
def memory_that_is_made_again_and_again(use):
    for _ in range(OFTEN + 3):
        use.device.empty(100).close()


@pytest.mark.parametrize(("launches", "changes", "found"), [
    (OFTEN, lambda turn, nodes: [(node, 10) for node in nodes[:2]], {findings.SETS_KERNELS: 2 * OFTEN}),
    (OFTEN - 1, lambda turn, nodes: [(node, 10) for node in nodes], {}),
    (MANY, lambda turn, nodes: [(nodes[0], 10)], {}),
    (MANY, lambda turn, nodes: [(node, 10) for node in nodes if turn % 3 == 0], {}),
    (MANY, lambda turn, nodes: [(node, 10 - turn % 2) for node in nodes], {}),
], ids=["every time", "a few times", "one of many", "now and then", "other blocks"])  # fmt: skip
def test_kernels_of_a_graph_that_are_set_before_its_launches(find, use, launches, changes, found):
    def run():
        executable, nodes = use.chain(4)
        for turn in range(launches):
            for node, block in changes(turn, nodes):
                executable.set_kernel(node, use.add, 10, block, use.buffer, turn)
            executable.launch(use.own)

    assert find(run) == found


# -- waits of queues


@shows({}, OFTEN)
def waits_in_one_direction(use, turn):
    use.launch(turn, use.one)
    use.launch(turn, use.two, use.other)
    use.one.wait(use.two)
    if turn < OFTEN - 1:
        use.two.wait(use.one)


@shows({}, OFTEN)
def memory_that_the_other_queue_frees(use, turn):
    use.launch(turn, use.two, use.other)
    memory = use.one.alloc(100, "i4")
    use.launch(turn, use.one, memory)
    use.two.wait(event_or_queue=use.one)
    use.two.free(memory)
    use.one.wait(event_or_queue=use.two)


@shows({findings.SERIALIZED: 2 * OFTEN + 1})
def the_null_queue_and_a_blocking_queue_that_wait_for_each_other(use):
    queue, null = use.make_queue(), use.device.null_queue
    use.hold(queue)
    for _ in range(OFTEN + 1):
        use.launch(1, queue)
        use.launch(1, null)


def launch_in_a_graph(use):
    graph = use.device.graph()
    graph.add_kernel(use.add, 10, 10, use.other, 1)
    graph.launch(use.two)


ORDERED_FOR = {
    "nothing": lambda use: None,
    "a launch": lambda use: use.launch(queue=use.two),
    "a bound launch": lambda use: use.add.bind(use.two, 10, 10, use.buffer, 1)(),
    "a view": lambda use: use.two.launch(use.add, 5, 10, use.buffer[50:], 1),
    "a fill": lambda use: use.two.fill(use.buffer, 1),
    "a copy": lambda use: use.two.copy(use.device.empty(100, "i4"), use.buffer),
    "a download": lambda use: use.download(use.two),
    "a graph": launch_in_a_graph,
    "a host function": lambda use: use.two.host(lambda: None),
    "the host": lambda use: use.two.finish(),
}
"""What two queues are ordered for: the second one uses memory of the first, or memory that is not seen."""


@pytest.mark.parametrize(
    ("reason", "check"),
    [
        *(pytest.param(reason, "", marks=RUNS if "host" in reason else ()) for reason in ORDERED_FOR),
        *(("nothing", "races"), ("a copy", "races")),
    ],
)
def test_queues_that_wait_for_each_other(find, device, hold, reason, check):
    """A device that is checked for races gives the same advice."""
    with fb.Device(device.name, private=True, check=check) as private:
        use = Programs(private, private.program(SOURCE), private.queue, hold)

        def run():
            for turn in range(OFTEN):
                use.launch(turn, use.one)
                use.launch(turn, use.two, use.other)
                use.two.wait(use.one)
                ORDERED_FOR[reason](use)
                use.one.wait(use.two.record() if turn % 2 else use.two)
            use.two.finish()

        assert find(run).get(findings.APART, 0) == (2 * OFTEN if reason == "nothing" else 0)
        assert private.races == ()


# -- held queues


@pytest.mark.parametrize("held", ["gates", "behind a gate", pytest.param("open gates", marks=RUNS)])
def test_too_many_queues_that_are_held(find, use, device, held):
    most = device.driver.most_held or 3

    def run():
        queues = [use.queue() for _ in range(most + 2)]
        gates = [queue.gate() for queue in (queues[:1] if held == "behind a gate" else queues)]
        for before, queue in itertools.pairwise(queues):
            if held == "behind a gate":
                queue.wait(before)
                use.launch(queue=queue)
        for gate in gates:
            gate.open()

    def open_gates():
        for queue in [use.queue() for _ in range(most + 2)]:
            queue.gate().open()
            queue.host(lambda: None)
            queue.finish()

    advice = findings.HELD.format(held=most + 2, most=most)
    with mock.patch.object(device.driver, "most_held", most):
        assert find(open_gates if held == "open gates" else run).get(advice, 0) == (held != "open gates")


# -- what it leaves as it is


def test_wrong_arguments_are_the_same_errors(find, device, use):
    def run():
        for call in (
            lambda: use.own.copy(use.buffer, np.zeros(3, "i4")),
            lambda: use.own.copy(use.buffer),
            lambda: use.own.copy(dst=use.buffer, src=np.zeros(3, "i4")),
            lambda: device.program(3),
            lambda: use.own.finish("soon"),
            lambda: use.own.wait(3),
            lambda: use.own.host(),
        ):
            with pytest.raises((TypeError, ValueError)):
                call()

    assert find(run) == {}


def test_the_counters_of_devices_that_are_gone_count(find, device):
    def run():
        for _ in range(2):
            with fb.Device(device.name, private=True) as another:
                another.queue().launch(another.program("kernel void mine() { }")["mine"], 1, 1)

    assert set(find(run)) == {findings.COMPILED_AGAIN}
    assert [name for name, stats in find.stats if stats.launches == 1] == [device.name] * 2


def test_code_that_hiprtc_has_tried_is_not_built_again(find):
    try:
        assert find(lambda: ok(hip.hipModuleLoadData(compiled(b"kernel void tried_before() { }")))) == {}
    finally:
        ok(hip.hipDeviceReset())


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


@pytest.mark.parametrize("at_once", [1, 1000])
def test_findings_do_not_depend_on_how_many_records_are_judged_at_once(find, use, monkeypatch, at_once):
    monkeypatch.setattr(findings, "MOST_RECORDS", at_once)

    def run():
        uploads_of_bytes_that_are_there_already(use)
        queues_finished_one_after_another(use)

    assert find(run) == {findings.UNCHANGED: 5, findings.ONE_BY_ONE: 2 * 3}


def test_the_report_has_the_line_and_the_cost():
    stats = fb.Stats(launches=1234567, waits_made=1, waits_elided_ordered=3)
    found = [
        findings.Finding(findings.UNCHANGED, "app.py:12", 3, 2_000_000, 4096),
        findings.Finding(findings.SERIALIZED, "", 5, waits=7),
    ]
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
    for words in ("1 launches", "<string>:7: 1 ×", findings.NEEDLESS):
        assert words in done.stderr
    assert (tmp_path / "t.json").stat().st_size > 1000
