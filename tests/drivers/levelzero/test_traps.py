"""forebay avoids the mistakes that null hardware hides: scopes, list lifetime, locking, pageable memory, reused events.

In every test here the observer looks for these mistakes and fails the test: see `emulated`. Each test runs with events
made in each of the three possible ways.
"""

import gc
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import forebay as fb
from forebay.events.event import wait_for_all
from tests.helpers.threads import beside
from tests.inside import device_that_calls_before_it_waits_for_openings
from tests.ordering.program import SOURCE, launch, program_on
from tests.ordering.test_programs import OPERATIONS, QUEUES, Player

pytestmark = pytest.mark.needs("null hardware")

NOT_READY = 1
TWICE = "kernel void twice(global uint *a) { a[get_global_id(0)] *= 2; }"


def test_events_are_bounded_by_the_queues(device, kernels, buffer, calls):
    queues = [device.queue(blocking=k % 2 == 0) for k in range(20)]
    made = 0
    for k in range(10_000):
        launch(queues[k % 20], kernels, buffer, k % 3)
        if k % 10 == 0:
            queues[k * 7 % 19].wait(queues[k % 20])
        if k % 500 == 499:
            device.finish()
        if k == 2000:
            made = calls.driver.alive()["events"]
    device.finish()
    assert sum(queue.stats.waits_made for queue in queues) >= 500
    assert len(calls.events_alive()) <= 2 * len(queues)
    alive = calls.driver.alive()
    assert alive["lists"] <= len(queues) + 2  # and the null queue's, and the join's
    assert alive["events"] <= max(made, 20 * len(queues))


def begun(calls, first, queues):
    """Block until a host wait since call number `first` has submitted to a private list; return that list."""
    users = {calls.handle_of(queue) for queue in queues}
    while True:
        for call in calls.since(first):
            if calls.kind(call) == "marker" and call.object not in users:
                return call.object


@pytest.mark.threads
def test_a_wait_does_not_queue_up_behind_another_threads(device, kernels, buffer, calls, hold):
    """A thread waits for a closed gate meanwhile; the device may be waiting for what this thread does next."""
    held, free, null = device.queue(blocking=False), device.queue(blocking=False), device.null_queue
    gate = hold(held)
    launch(held, kernels, buffer)
    launch(free, kernels, buffer)  # a device with work on one queue is finished without a list of its own
    first = len(calls)
    with beside(device.finish):
        joined = begun(calls, first, (held, free, null))
        second = hold(free)
        launch(free, kernels, buffer)
        events = [free.record()]
        launch(free, kernels, buffer)
        events.append(free.record())
        first = len(calls)
        with beside(lambda: wait_for_all(events)):
            assert begun(calls, first, (held, free, null)) != joined
            second.open()  # if the thread waits for the other gate too, the observer gives that up, and reports it
        assert all(event.query() for event in events)
        assert not held.query()
        gate.open()
    assert held.empty


@pytest.mark.threads
def test_host_waits_share_lists_when_they_do_not_overlap(device, kernels, buffer, calls, emulated, hold):
    queues = [device.queue(blocking=False) for _ in range(3)]
    for turn in range(3):
        for _ in range(20):
            for queue in queues:
                launch(queue, kernels, buffer)
            device.finish()
        if turn == 0:
            before = emulated.alive()["lists"]
        gate = hold(queues[0])
        for queue in queues:
            launch(queue, kernels, buffer)
        first = len(calls)
        with ThreadPoolExecutor(4) as pool:
            for _ in range(4):
                pool.submit(device.finish)
            while calls.kinds(first)["barrier"] < 4:
                pass
            assert len({call.object for call in calls.since(first) if calls.kind(call) == "barrier"}) == 4
            gate.open()
    assert emulated.alive()["lists"] == before + 3


def test_events_that_are_done_need_no_list(device, kernels, buffer, calls):
    queues = [device.queue(blocking=False) for _ in range(3)]
    events = []
    for queue in queues:
        launch(queue, kernels, buffer)
        events.append(queue.record())
    gate = queues[0].gate()
    launch(queues[0], kernels, buffer)
    first = len(calls)
    wait_for_all(events)
    assert calls.counts(first) == {calls.driver.QUERY: 3}
    gate.open()


@pytest.mark.parametrize("name", ["zeEventHostSynchronize", "zeCommandListAppendSignalEvent"])
def test_after_a_wait_that_failed_its_list_waits_for_nothing(device, kernels, buffer, calls, name):
    queues = [device.queue(blocking=False) for _ in range(2)]
    events = []
    for queue in queues:
        launch(queue, kernels, buffer)
        events.append(queue.record())
    for _ in queues:  # so that there is something to wait for
        calls.fail(calls.driver.QUERY, NOT_READY)
    calls.fail(name, calls.driver.FAILURE[0])
    first = len(calls)
    with pytest.raises(fb.DriverError, match=name):
        wait_for_all(events)
    (barrier,) = (call.object for call in calls.since(first) if calls.kind(call) == "barrier")
    assert [call.object for call in calls.since(first) if calls.kind(call) == "finish"] == [barrier]
    wait_for_all(events)
    device.finish()


# -- scopes


def test_a_marker_for_devices_is_made_again_once_when_the_host_asks(device, kernels, buffer, calls):
    queue, other = device.queue(blocking=False), device.queue(blocking=False)
    gate = queue.gate()
    launch(queue, kernels, buffer)
    first = len(calls)
    other.wait(queue)
    launch(other, kernels, buffer)
    event = queue.record()
    assert not event.query()
    assert not queue.record().query()
    markers = calls.markers_of([queue], first)
    assert [call.detail for call in markers] in ([0, 1], [1])  # for the device, then for the host; or one for both
    gate.open()
    event.wait()
    assert event.query()
    assert queue.empty


# -- a driver that says "not ready"


def waiting_of(calls, first):
    """How often each call was made that a wait of the host consists of. Making an event is not one of these."""
    return {kind: n for kind, n in calls.kinds(first).items() if kind in ("finish", "marker", "barrier", "wait")}


def test_a_finish_is_two_calls_where_the_last_one_found_the_queue_busy(device, kernels, buffer, calls):
    queue = device.queue(blocking=False)
    found = []
    for busy in (False, True, True, True):
        launch(queue, kernels, buffer)
        if busy:
            calls.fail(calls.driver.FINISH, NOT_READY)
        first = len(calls)
        queue.finish()
        assert queue.empty
        found.append(waiting_of(calls, first))
        calls.forgive()
    asked, waited = {"finish": 1}, {"marker": 1, "wait": 1}
    assert found == [asked, asked | waited, waited, waited]
    launch(queue, kernels, buffer)
    assert queue.query()
    launch(queue, kernels, buffer)
    first = len(calls)
    queue.finish()
    assert waiting_of(calls, first) == asked


@pytest.mark.parametrize("busy", [0, 1, 2, 10])
def test_finishing_a_device_joins_queues_on_a_list_of_its_own_where_several_have_work(
    device, kernels, buffer, calls, busy
):
    queues = [device.queue(blocking=False) for _ in range(12)]
    for queue in queues[:busy]:
        launch(queue, kernels, buffer)
    first = len(calls)
    device.finish()
    several = {"marker": busy + 1, "barrier": 1, "wait": 1}
    assert waiting_of(calls, first) == {0: {}, 1: {"finish": 1}}.get(busy, several)
    assert all(queue.empty for queue in queues)
    users = {calls.handle_of(queue) for queue in (*queues, device.null_queue)}
    barriers = [call for call in calls.since(first) if calls.kind(call) == "barrier"]
    assert [(len(call.waits), call.object in users) for call in barriers] == [(busy, False)] * (busy > 1)


@pytest.mark.threads
def test_the_time_of_an_event_that_is_recorded_again_meanwhile(device, calls, emulated, hold):
    queue = device.queue(timing=True)
    event, end = queue.record(timing=True), queue.record(timing=True)
    emulated.pause(calls.driver.QUERY)
    times = []
    with beside(lambda: times.append(event.elapsed(end))):
        emulated.wait_until_paused()  # it has asked for one, and not for the other
        hold(queue)
        queue.record(event)
        emulated.go_on()
    assert [type(time) for time in times] == [float]


@pytest.mark.threads
def test_a_device_closed_while_a_gate_still_counts_is_gone(left, opened, emulated):
    """What a graph used is kept for the gate; nobody else would look for it after that."""
    watched, ended = device_that_calls_before_it_waits_for_openings(emulated.go_on), threading.Event()
    device = watched(private=True)
    queue, graph = device.queue(), device.graph()
    graph.add_kernel(device.program(SOURCE)["advance"], 4, 16, device.zeros(64, "u4"), 1)
    executable = graph.instantiate()
    executable.launch(queue)
    queue.host(ended.wait)
    del graph, executable
    emulated.pause(emulated.OPEN)
    ended.set()
    emulated.wait_until_paused()
    device.close()
    del device, queue
    assert left() == {}


@pytest.mark.threads  # of host functions
@pytest.mark.parametrize("seed", range(20))
def test_programs_without_aim(device, kernels, seed):
    """The programs of `tests.ordering.test_programs`, with each kind of events."""
    draw = random.Random(seed)
    with program_on(device, kernels, strict=True) as program:
        player = Player(program)
        for _ in range(150):
            player.play(draw.choice(OPERATIONS), draw.randrange(len(QUEUES)), draw.randrange(6), draw.random() < 0.5)
        program.finish_device()
        assert all(queue.empty for queue in player.queues)


# -- lists that end: what waits for an event reads the counter of the list that signals it

KEPT = 64  # lists that are kept for new queues
MANY = 100


def ended(device, kernels, buffer, waiter):
    """Let many queues end that the waiter waits for, in the driver, too."""
    queues = [device.queue(blocking=False) for _ in range(MANY)]
    for queue in queues:
        launch(queue, kernels, buffer)
        waiter.wait(queue)
    waiter.record()  # gives the driver the waits
    for queue in queues:
        queue.finish()
        queue.close()
    del queue, queues
    gc.collect()


def test_a_list_ends_when_nobody_waits_for_it_any_more(device, kernels, buffer, hold, emulated):
    """Not before, though it has nothing to do; the observer would tell. Then few are kept."""
    waiter = device.queue(blocking=False)
    gate = hold(waiter)
    ended(device, kernels, buffer, waiter)
    assert emulated.alive()["lists"] >= MANY
    gate.open()
    device.finish()
    device.queue().close()
    gc.collect()
    alive = emulated.alive()
    assert max(alive["kernels"], alive["lists"]) <= KEPT + 10  # each list has a kernel


def test_a_device_that_closes_leaves_lists_that_others_wait_for(left, opened):
    """They end with those of others, when nothing waits for them any more."""

    def work():
        device, other = opened(), opened()
        waiter = device.queue(blocking=False)
        gate = waiter.gate()
        ended(other, other.program(SOURCE), other.zeros(64, "u4"), waiter)
        other.close()
        gate.open()
        waiter.finish()
        opened.close_all()

    work()
    assert left() == {}
