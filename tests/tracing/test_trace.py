import ctypes
import gc
import threading
import weakref
from functools import partial

import numpy as np
import pytest

import forebay as fb
from forebay.core.errors import Error
from forebay.tracing import calls, watching
from tests.helpers.observer import observe
from tests.helpers.refusals import refused
from tests.helpers.threads import beside, together

from .reading import Trace, check_one_after_the_other


@pytest.fixture(params=[False, True], ids=["", "device times"])
def device_times(request):
    return request.param


@pytest.fixture
def own(make_queue):
    """``own()``: a queue that the null queue adds nothing to."""
    return lambda: make_queue(blocking=False)


def name_of(queue):
    kind = "null queue" if queue.is_null else "queue" if queue.blocking else "non-blocking queue"
    return f"{kind} {queue.id}"


# What is in it


def test_each_launch_is_there_on_its_queue_under_its_kernels_name(path, own, program, buffer):
    first, second = own(), own()
    with fb.trace(path):
        for value in range(7):
            first.launch(program["add"], 10, 10, buffer, value)
        second.launch(program["fill"], (5, 2), (1, 10), buffer, 1)
        bound = program["add"].bind(first, 10, 10, buffer, 3)
        bound()
        first.finish()
        second.finish()
    trace = Trace(path)
    for queue, names in ((first, ["add"] * 8), (second, ["fill"])):
        track = trace.queues[name_of(queue)]
        assert [each["name"] for each in track if each["cat"] == "launch"] == names
        check_one_after_the_other(track)
    assert trace.launches() == first.stats.launches + second.stats.launches
    assert [each["args"]["grid"] for each in trace.of_kind("launch") if each["name"] == "fill"] == [[5, 2, 1]]


def test_copies_and_fills_are_there_with_their_bytes(path, device, own, buffer):
    queue = own()
    host = np.ones(100, "i4")
    with fb.trace(path), device.empty(100, "i4") as other:
        queue.copy(buffer, host)
        queue.copy(other, buffer)
        queue.fill(buffer[:50], 3)
        queue.copy(host, other)
        queue.finish()
        stats = queue.stats
    trace = Trace(path)
    track = trace.queues[name_of(queue)]
    assert [each["args"]["bytes"] for each in track if each["cat"] == "fill"] == [200]
    assert len([each for each in track if each["cat"] == "copy"]) == stats.copies == 3
    assert {each["args"]["bytes"] for each in track if each["cat"] == "copy"} == {400}


def test_as_many_arrows_and_markers_as_the_counters_say(path, own, program, buffer):
    queues = [own() for _ in range(4)]
    before = [queue.stats for queue in queues]
    with fb.trace(path):
        for turn in range(5):
            for producer, waiter in zip(queues, queues[1:] + queues[:1], strict=True):
                producer.launch(program["add"], 10, 10, buffer, turn)
                waiter.wait(producer.record())
                waiter.wait(producer)  # it is ordered after that already
                waiter.launch(program["add"], 10, 10, buffer, turn)
        changes = [queue.stats - earlier for queue, earlier in zip(queues, before, strict=True)]
    trace = Trace(path)
    assert len(trace.waits) == sum(change.waits_made for change in changes) > 0
    for queue, change in zip(queues, changes, strict=True):
        markers = [each for each in trace.queues[name_of(queue)] if each["cat"] == "marker"]
        assert len(markers) == change.markers_made
    assert trace.launches("add") == 40
    assert {producer["cat"] for producer, _ in trace.waits} == {"marker"}


def test_an_arrow_leads_from_each_producer_to_the_waiter(path, device, make_queue, program, buffer, hold):
    producers, waiter = [make_queue() for _ in range(3)], device.null_queue
    for queue in producers:
        hold(queue)
    waiter.launch(program["add"], 10, 10, buffer, 1)
    with fb.trace(path):
        for queue in producers:
            queue.launch(program["add"], 10, 10, buffer, 1)
        before = waiter.stats
        waiter.launch(program["fill"], 10, 10, buffer, 1)
        made = waiter.stats.waits_made - before.waits_made
    trace = Trace(path)
    into = [(source, target) for source, target in trace.waits if target in trace.queues[name_of(waiter)]]
    assert len(into) == made == 3
    assert all(any(source in trace.queues[name_of(queue)] for source, _ in into) for queue in producers)
    assert {(target["name"], target["args"]["waits"]) for _, target in into} == {("fill", 3)}


def test_waits_of_the_host_have_durations_and_lines(path, device, own, program, buffer, really):
    queue = own()
    before = device.stats
    with fb.trace(path):
        queue.launch(program["add"], 10, 10, buffer, 1)
        queue.finish()
        queue.launch(program["add"], 10, 10, buffer, 1)
        queue.record().wait()
        buffer.get(queue=queue)
        queue.finish()  # known to be done: makes no call of the driver
        made = device.stats.host_syncs - before.host_syncs
    trace = Trace(path)
    named = [each for each in trace.host if each["cat"] == "call"]
    names = "Queue.finish Event.wait Buffer.get Queue.copy Queue.finish Queue.finish"
    assert [each["name"] for each in named] == names.split()
    assert all(each["args"]["line"].rpartition(":")[0].endswith("test_trace.py") for each in named)
    lines = [int(each["args"]["line"].rpartition(":")[2]) for each in named]
    assert lines[1] - lines[0] == 2
    assert lines[5] - lines[4] == 1
    waits = [each for each in trace.host if each["name"] == "wait in the driver"]
    asks = [each for each in trace.host if each["name"] == "ask"]  # or that is the wait
    polled = 1  # on CPUs the event of a small copy is polled first, which is not traced
    assert len(waits) <= made <= len(waits) + len(asks) + polled or not really
    assert 0 < made <= 3


@pytest.mark.executes
def test_host_functions_run_on_their_thread(path, queue):
    def here():
        raise KeyError("mine")

    with fb.trace(path):
        queue.host(here)
        with pytest.raises(KeyError, match="mine"):
            queue.finish()
    trace = Trace(path)
    (ran,) = [each for each in trace.host if each["name"].startswith("host function")]
    assert ran["name"].endswith("here")
    assert ran in trace.slices[next(key for key in trace.slices if key[1] == "forebay host functions")]
    assert [each["cat"] for each in trace.queues[name_of(queue)]].count("host function") == 1


def test_commands_in_flight_go_up_with_each_and_down_when_they_are_known_done(path, own, program, buffer, hold):
    first, second = own(), own()
    gates = hold(first)
    with fb.trace(path):
        for _ in range(5):
            first.launch(program["add"], 10, 10, buffer, 1)
        second.wait(first)
        second.launch(program["add"], 10, 10, buffer, 1)
        gates.open()
        second.finish()
        assert first.empty  # known by the wait
    trace = Trace(path)
    assert [count for _, count in trace.counters[f"in flight, {name_of(first)}"]] == [1, 2, 3, 4, 5, 0]
    assert [count for _, count in trace.counters[f"in flight, {name_of(second)}"]] == [1, 0]


def test_handles_that_are_used_again_belong_to_several_queues_and_kernels(path, device, buffer):
    tracks = []
    with fb.trace(path):
        for number in range(5):
            queue = device.queue()
            program = device.program(f"kernel void named{number}(global int *a) {{ a[0] = {number}; }}")
            queue.launch(program[f"named{number}"], 1, 1, buffer)
            queue.finish()
            tracks.append(name_of(queue))
            queue.close()
            del queue, program
            gc.collect()
    trace = Trace(path)
    found = [[each["name"] for each in trace.queues[track] if each["cat"] == "launch"] for track in tracks]
    assert found == [[f"named{number}"] for number in range(5)]


def test_waits_for_markers_of_before_have_no_arrow(path, own, program, buffer, hold):
    first, second = own(), own()
    hold(first)
    first.launch(program["add"], 10, 10, buffer, 1)
    event = first.record()
    with fb.trace(path):
        second.wait(event)
        second.launch(program["add"], 10, 10, buffer, 1)
    trace = Trace(path)
    if second.stats.waits_made:  # null hardware knows that it is done
        assert trace.about["waits for markers of before"] == 1
    assert trace.waits == []


def test_a_graph_and_a_step(path, device, program, buffer, device_times, really):
    with fb.trace(path, device_times=device_times):
        queue = device.queue(blocking=False)
        with queue.capture() as graph:
            for _ in range(3):
                queue.launch(program["add"], 10, 10, buffer, 1)
        for _ in range(2):
            graph.launch(queue)
        queue.finish()
        step = queue.step()
        for turn in range(4):
            with step:
                for _ in range(5):
                    queue.launch(program["add"], 10, 10, buffer, turn)
        queue.finish()
        step.close()
        stats = queue.stats
    trace = Trace(path)
    assert stats.launches == 20
    assert trace.launches("add") == stats.launches + 3 * 2
    assert len([each for each in trace.host if each["name"] == "Graph.launch"]) == stats.graph_launches == 2
    check_device_times(trace, len(trace.of_kind("launch")) + len(trace.of_kind("recording")), device_times, really)
    assert queue.timing == (device_times or device.timing)


def check_device_times(trace, commands, device_times, really):
    if not device_times:
        assert "device times" not in trace.about
        assert trace.of_kind("ran") == []
        return
    about = trace.about["device times"]
    assert about["commands"] + about["commands without"] == commands
    assert about["commands without"] == 0 or not really


@pytest.mark.threads
def test_threads_on_queues_of_their_own_and_on_one(path, program, device, device_times, really):
    buffers = [device.zeros(100, "i4") for _ in range(4)]
    device.finish()

    def run(queue, buffer):
        for value in range(100):
            queue.launch(program["add"], 10, 10, buffer, value)
            shared.launch(program["add"], 10, 10, buffer, value)
            if value % 10 == 0:
                shared.wait(queue)
                queue.finish()

    with fb.trace(path, device_times=device_times):
        shared, *queues = [device.queue(blocking=False) for _ in range(5)]
        together(*[partial(run, *each) for each in zip(queues, buffers, strict=True)])
        device.finish()
        made = shared.stats.waits_made
    trace = Trace(path)
    assert trace.launches("add") == 800
    assert len([each for each in trace.queues[name_of(shared)] if each["cat"] == "launch"]) == 400
    assert len(trace.waits) <= made  # waits that are done when the next is added are dropped
    assert len([track for process, track in trace.slices if process.startswith("host:")]) >= 4
    check_one_after_the_other(trace.queues[name_of(shared)])
    check_device_times(trace, 800, device_times, really)
    for buffer in buffers:
        buffer.close()


def test_a_device_that_is_opened_closed_and_dropped_inside(path, device, device_times):
    with fb.trace(path, device_times=device_times):
        another = fb.Device(device.name, private=True)
        queue = another.queue()
        queue.launch(another.program("kernel void mine() { }")["mine"], 1, 1)
        queue.finish()
        gone = weakref.ref(another)
        another.close()
        del another, queue
        gc.collect()
        assert gone() is None or not device_times
    trace = Trace(path)
    assert trace.launches("mine") == 1
    assert (device.name, 1) in [(each["device"], each["launches"]) for each in trace.about["stats"]]


# Beginning and ending


def test_nothing_is_left_when_it_has_ended(path, device, queue, works, device_times):
    methods = {(owner, name): vars(owner)[name] for owner, names in watching.WATCHED.items() for name in names}
    methods[fb.Device, "queue"] = vars(fb.Device)["queue"]
    table = bytes_of_table(device)
    for _ in range(3):
        with fb.trace(path, device_times=device_times):
            assert bytes_of_table(device) != table
            assert vars(fb.Queue)["finish"] is not methods[fb.Queue, "finish"]
            works(queue)
            works(device.queue(timing=False))
        assert bytes_of_table(device) == table
        assert {key: vars(key[0])[key[1]] for key in methods} == methods
        works(queue)
    assert watching.listeners == ()
    for thread in threading.enumerate():
        if thread.name == "forebay device times":
            thread.join()  # it ends by itself


def bytes_of_table(device):
    return ctypes.string_at(device.driver.table, 8 * 25)


def test_a_second_one_is_refused_and_the_first_goes_on(path, tmp_path, queue, program, buffer):
    other = tmp_path / "other.json"
    with fb.trace(path) as running:
        with pytest.raises(Error, match="running already"), fb.trace(other):
            pass
        with pytest.raises(Error, match="running already"), running:
            pass
        queue.launch(program["fill"], 10, 10, buffer, 1)
    assert not other.exists()
    assert Trace(path).launches("fill") == 1


def test_a_trace_can_be_run_again_and_replaces_the_file(path, queue, program, buffer):
    trace = fb.trace(path)
    for count in (3, 1):
        with trace:
            for _ in range(count):
                queue.launch(program["fill"], 10, 10, buffer, 1)
        assert Trace(path).launches() == count


def test_a_file_that_cannot_be_written_is_an_error_before_the_block(tmp_path, device):
    table, ran = bytes_of_table(device), False
    with pytest.raises(OSError, match="missing"), fb.trace(tmp_path / "missing" / "trace.json"):
        ran = True
    assert not ran
    assert bytes_of_table(device) == table
    with fb.trace(tmp_path / "trace.json"):
        pass


@pytest.mark.parametrize(
    ("arguments", "word"), [((3,), "trace"), ((None,), "trace"), ((b"bytes",), "trace"), (("a", 1), "device_times")]
)
def test_arguments_of_the_wrong_type(arguments, word):
    with refused(fb.ArgumentTypeError, TypeError, word, type(arguments[-1]).__name__):
        fb.trace(arguments[0], **dict(zip(["device_times"], arguments[1:], strict=False)))


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, ValueError])
def test_an_exception_leaves_a_file(path, queue, program, buffer, kind):
    def fail():
        queue.launch(program["fill"], 10, 10, buffer, 1)
        raise kind

    with pytest.raises(kind), fb.trace(path):
        fail()
    assert Trace(path).launches() == 1


def test_a_call_that_is_under_way_when_it_ends_is_left_out(path, device, own, program, buffer, hold, really):
    queue = own()
    gate = hold(queue)
    queue.launch(program["fill"], 10, 10, buffer, 1)
    before = device.stats.host_syncs
    trace = fb.trace(path)
    trace.__enter__()
    with beside(queue.finish):
        while really and device.stats.host_syncs == before:
            pass  # it is counted before it blocks
        trace.__exit__()
        gate.open()
    waits = [each for each in Trace(path).host if each["name"] in ("Queue.finish", "wait in the driver")]
    assert waits == [] or not really
    queue.launch(program["fill"], 10, 10, buffer, 1)
    queue.finish()


def test_refused_launches_are_not_in_it(path, device, queue, program, buffer):
    queue.launch(program["fill"], 10, 10, buffer, 1)
    queue.finish()
    with observe(device) as driver_calls, fb.trace(path):
        with pytest.raises(fb.Error):
            queue.launch(program["fill"], 1, 1 << 30, buffer, 1)
        with pytest.raises(fb.Error):
            queue.launch(program["fill"], 10, 10, buffer)
        driver_calls.fail(driver_calls.driver.LAUNCH, driver_calls.driver.FAILURE[0])
        with pytest.raises(fb.DriverError):
            queue.launch(program["fill"], 10, 10, buffer, 1)
        queue.launch(program["fill"], 10, 10, buffer, 1)
    assert Trace(path).launches() == 1


# Much of it


@pytest.mark.needs("no validation layer", "the default device")
@pytest.mark.long
def test_the_newest_calls_are_kept_when_there_are_more_than_fit(device, queue, program, buffer):
    capacity, more = 1 << 20, 1000
    go = program["fill"].bind(queue, 1, 1, buffer, 1)
    first = calls.begin()
    calls.watch(device.driver.table)
    for number in range(capacity + more):
        go()
        if number % 1000 == 0:
            queue.finish()
    calls.unwatch()
    found, lost = calls.entries(first)
    assert len(found) == capacity
    assert lost >= more
    assert (np.diff(found["number"].astype("i8")) == 1).all()
    assert (found["end"] >= found["begin"]).all()
