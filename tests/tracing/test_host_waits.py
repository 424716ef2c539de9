"""`forebay stats` finds waits of the host in a loop, and not those that somebody needs."""

import threading

import numpy as np
import pytest

import forebay as fb
from forebay.tracing.findings import OFTEN
from forebay.tracing.host_waits import FEW, IN_A_LOOP, NEEDLESS

TURNS = OFTEN + 2  # the first has no wait before it


@pytest.fixture
def add(program):
    return program["add"]


WAITS = {
    "a queue": lambda queue: queue.finish(),
    "its device": lambda queue: queue.device.finish(),
    "an event": lambda queue: queue.record().wait(),
}


@pytest.mark.executes
@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_wait_in_a_loop(find, own, add, buffer, wait):
    def run():
        for turn in range(TURNS):
            own.launch(add, 10, 10, buffer, turn)
            wait(own)

    assert find(run) == {IN_A_LOOP: TURNS - 1}


@pytest.mark.executes
def test_copies_to_the_device_and_graphs_that_stay_there_are_no_reason(find, device, own, add, buffer):
    graph = device.graph()
    graph.add_kernel(add, 10, 10, buffer, 1)

    def run():
        executable = graph.instantiate()
        for turn in range(TURNS):
            own.copy(buffer, np.full(100, turn, "i4"))
            own.fill(buffer, turn)
            graph.launch(own)
            executable.launch(queue=own)
            own.finish()

    assert find(run) == {IN_A_LOOP: TURNS - 1}


def downloads(queue, turn, add, buffer):
    queue.launch(add, 10, 10, buffer, turn)
    queue.copy(np.empty(100, "i4"), buffer)
    queue.finish()


def reads(queue, turn, add, buffer):
    queue.launch(add, 10, 10, buffer, turn)
    queue.finish()
    buffer.get(queue=queue)


def uploads_from_pinned_memory(queue, turn, add, buffer):
    pinned = fb.host_empty(100, "i4", queue.device)
    pinned[:] = turn
    queue.copy(buffer, pinned)
    queue.launch(add, 10, 10, buffer, turn)
    queue.finish()


def calls_the_host(queue, turn, add, buffer):
    queue.launch(add, 10, 10, buffer, turn)
    queue.host(lambda: None)
    queue.finish()


def waits_so_that_there_are_not_too_many(queue, turn, add, buffer):
    for _ in range(FEW + 1):
        queue.launch(add, 10, 10, buffer, turn)
    queue.finish()


def only_uploads(queue, turn, add, buffer):
    queue.copy(buffer, np.full(100, turn, "i4"))
    queue.finish()


def sees_the_memory_itself(queue, turn, add, buffer):
    with queue.device.empty(100, "i4", usm_type="shared") as shared:
        queue.launch(add, 10, 10, shared, turn)
        queue.finish()
        shared.host.sum()


def gets_a_result(queue, turn, add, buffer):
    with queue.device.program("kernel void last(global int *to) { to[0] = 3; }") as program:
        result = queue.launch(program["last"], 1, 1, result="i4")
        queue.finish()
        result.get()


REASONS = (
    downloads, reads, uploads_from_pinned_memory, calls_the_host, waits_so_that_there_are_not_too_many, only_uploads,
)  # fmt: skip


@pytest.mark.executes(run=False)
@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: reason.__name__)
def test_a_wait_with_a_reason(find, own, add, buffer, reason):
    def run():
        for turn in range(TURNS):
            reason(own, turn, add, buffer)

    assert find(run) == {}


@pytest.mark.executes
@pytest.mark.parametrize("reason", [sees_the_memory_itself, gets_a_result])
def test_a_wait_for_what_forebay_does_not_see_being_read(find, own, add, buffer, reason):
    def run():
        for turn in range(TURNS):
            reason(own, turn, add, buffer)

    assert IN_A_LOOP not in find(run)


@pytest.mark.executes
def test_a_wait_for_memory_that_is_read_in_place_counts_as_needed_from_the_first_view_on(find, device, own, add):
    with device.zeros(100, "i4", usm_type="shared") as shared:
        device.finish()

        def run(looks):
            for turn in range(TURNS):
                own.launch(add, 10, 10, shared, turn)
                own.finish()
                if looks:
                    shared.host.sum()

        assert find(lambda: run(False)) == {IN_A_LOOP: TURNS - 1}
        assert find(lambda: run(True)) == {}


@pytest.mark.executes(run=False)
def test_a_wait_for_times(find, make_queue, add, buffer):
    queue = make_queue(blocking=False, timing=True)

    def run():
        for turn in range(TURNS):
            begin = queue.record(timing=True)
            queue.launch(add, 10, 10, buffer, turn)
            end = queue.record(timing=True)
            end.wait()
            end.elapsed(begin)

    assert find(run) == {}


@pytest.mark.executes(run=False)
def test_a_graph_that_copies_to_the_host_is_a_reason(find, device, own, add, buffer):
    host = np.empty(100, "i4")
    with own.capture() as graph:
        own.launch(add, 10, 10, buffer, 1)
        own.copy(host, buffer)

    def run():
        executable = graph.instantiate()
        for _ in range(TURNS):
            executable.launch(own)
            own.finish()

    assert find(run) == {}


@pytest.mark.executes(run=False)
def test_a_few_waits_are_no_loop_and_those_with_a_timeout_ask_again_and_again(find, own, add, buffer):
    def run():
        for turn in range(OFTEN):
            own.launch(add, 10, 10, buffer, turn)
            own.finish()
        for turn in range(TURNS):
            own.launch(add, 10, 10, buffer, turn)
            own.finish(timeout=60)

    assert find(run) == {}


@pytest.mark.executes
@pytest.mark.threads
def test_what_another_thread_downloads_is_a_reason(find, device, own, make_queue, add, buffer):
    other = make_queue(blocking=False)

    def run():
        for turn in range(TURNS):
            own.launch(add, 10, 10, buffer, turn)
            thread = threading.Thread(target=other.copy, args=(np.empty(100, "i4"), buffer))
            thread.start()
            thread.join()
            own.finish()
        other.finish()

    assert IN_A_LOOP not in find(run)


@pytest.mark.executes
def test_what_is_known_to_be_done_is_told_as_that(find, own, add, buffer):
    def run():
        own.launch(add, 10, 10, buffer, 1)
        own.finish()
        for _ in range(TURNS):
            own.finish()

    assert find(run) == {NEEDLESS: TURNS}
