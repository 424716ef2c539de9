"""What a queue has used is given back when that use is done, whatever else the device is busy with."""

import time
import tracemalloc

import numpy as np
import pytest

import forebay as fb
from tests.helpers.limits import most_held
from tests.helpers.observer import EXECUTES

from .program import launch

MIB = 1 << 20


@pytest.fixture
def queue(device):
    return device.queue(blocking=False)


def memory_alive(calls, first=0):
    """How many more pieces of memory the driver has than it had then."""
    names = [name.lower() for name in calls.names(first)]
    return sum("alloc" in name for name in names) - sum("free" in name for name in names)


def test_memory_comes_back_while_another_queue_is_held(device, calls, queue, hold):
    hold(device.queue(blocking=False))
    first = len(calls)
    for _ in range(200):
        buffer = device.empty(MIB // 16)
        queue.fill(buffer, 1)
        queue.finish()
        buffer.close()
    assert memory_alive(calls, first) <= 4


def test_memory_comes_back_while_gates_are_never_all_open(device, calls, queue, hold):
    """Host functions of two queues that take turns have this effect."""
    queues = [device.queue(blocking=False) for _ in range(2)]
    first, gates = len(calls), [hold(queues[0])]
    for turn in range(200):
        gates.append(hold(queues[(turn + 1) % 2]))
        gates.pop(0).open()
        buffer = device.empty(MIB // 16)
        queue.fill(buffer, 1)
        queue.finish()
        del buffer
    assert memory_alive(calls, first) <= 4


@pytest.mark.executes  # null hardware reaches no event by itself
def test_memory_comes_back_though_its_queue_is_held_by_then(device, calls, queue, hold):
    """It is asked about its own use. OpenCL gives it to another buffer, others to the driver."""
    buffer, kept = device.empty(MIB // 16), []
    queue.fill(buffer, 1)
    hold(queue)
    buffer.close()
    for _ in range(500):
        first = len(calls)
        kept.append(device.empty(MIB // 16))
        if memory_alive(calls, first) <= 0:
            break
        time.sleep(0.002)
    assert memory_alive(calls, first) <= 0


def test_a_buffer_used_behind_a_gate_comes_back_after_it(device, calls, kernels, queue, hold):
    """It waits for its own use, and those dropped later do not wait for it."""
    other = device.queue(blocking=False)
    gate, first = hold(queue), len(calls)
    buffers = [device.empty(64, "u4") for _ in range(10)]
    for buffer in buffers:
        launch(queue, kernels, buffer)
    handles = {buffer.address for buffer in buffers}
    del buffer, buffers
    for _ in range(50):
        buffer = device.empty(64, "u4")
        assert buffer.address not in handles
        launch(other, kernels, buffer)
        other.finish()
        del buffer
    assert memory_alive(calls, first) <= 10 + 4
    gate.open()
    device.finish()
    assert memory_alive(calls) <= 0


@pytest.mark.needs("OpenCL")
def test_a_marker_that_has_failed_says_nothing_of_its_queue(device, calls, kernels, queue, hold):
    """As one does while its queue works, when something that the queue waits for has failed."""
    hold(queue)
    launch(queue, kernels, device.empty(64, "u4"))
    device.queue(blocking=False).close()  # begins with a collection, which marks the queue
    first = len(calls)
    calls.fail(calls.driver.QUERY, 14)  # CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
    device.queue(blocking=False).close()
    assert calls.kinds(first)["marker"] == 1  # of its own work
    assert not queue.empty


@pytest.mark.parametrize("last", [0, 4, 8, 11])
def test_a_buffer_used_on_many_queues_goes_with_the_last(device, calls, hold, last):
    """Whichever that is: as many fills as there are queues are remembered until they are done."""
    queues = [device.queue(blocking=False) for _ in range(12)]
    buffer = device.empty(64, "u4")
    address = buffer.address
    gates = [hold(queue) for queue in queues]
    for queue in queues:
        queue.fill(buffer, 3)
    first = len(calls)
    del buffer
    for i, queue in enumerate(queues):
        if i != last:
            gates[i].open()
            queue.finish()
    assert all(device.empty(64, "u4").address != address for _ in range(3))
    assert memory_alive(calls, first) >= 0
    gates[last].open()
    queues[last].finish()


def test_an_argument_that_changed_is_still_in_use(device, calls, kernels, queue, hold):
    """The plan has another buffer as its argument when the first one is dropped."""
    buffers = [device.empty(64, "u4") for _ in range(2)]
    address = buffers[0].address
    gate = hold(queue)
    for buffer in buffers:
        launch(queue, kernels, buffer)
    del buffers[0]
    assert all(device.empty(64, "u4").address != address for _ in range(3))
    gate.open()
    queue.finish()


def busy_queues(device, kernels, hold, count):
    """Held queues, at each of which memory waits to be given back."""
    queues = [device.queue(blocking=False) for _ in range(count)]
    for queue in queues:
        hold(queue)
        launch(queue, kernels, device.empty(64, "u4"))
    return queues


def test_a_collection_asks_two_busy_queues_and_the_next_one_others(device, calls, kernels, hold):
    count, kept = min(256, most_held(device)), []
    queues = busy_queues(device, kernels, hold, count)

    def collect(turns):
        """Each queue that is made begins with a collection."""
        first = len(calls)
        kept.extend(device.queue(blocking=False) for _ in range(turns))
        return [call.event for call in calls.since(first) if calls.kind(call) == "query"]

    collect(count)  # until each has the marker that shows how far it is
    for _ in range(3):
        asked = collect(count // 2)
        assert len(asked) == count
        assert len(set(asked)) == count
    assert not any(queue.empty for queue in queues)


def test_a_close_asks_another_devices_queue_once_however_much_waits_for_it(device, calls, hold):
    """The Devices of one context give back together what is done."""
    mine, other = (fb.Device(device.name) for _ in range(2))
    with mine, other:
        queue, buffer = mine.queue(blocking=False), mine.empty(64, "u4")
        fill = mine.program("kernel void fill(global uint *x) { x[get_global_id(0)] = 1; }")["fill"]
        gate = hold(queue)
        bound = [fill.bind(queue, 4, 16, buffer) for _ in range(300)]
        for launch_again in bound:
            launch_again()
        del bound, launch_again
        first = len(calls)
        other.close()
        asked = [call.event for call in calls.since(first) if calls.kind(call) == "query"]
        gate.open()
    assert 1 <= len(asked) < 8  # in some collections, in each once


def test_what_is_done_is_found_behind_busy_queues(device, calls, kernels, queue, hold):
    """Only collections find it, which look at few queues each and begin where the last one ended."""
    count = min(40, most_held(device))
    _queues = busy_queues(device, kernels, hold, count)
    first = len(calls)
    for _ in range(2000):
        gate, buffer = queue.gate(), device.empty(64, "u4")
        queue.fill(buffer, 1)
        done = queue.record()
        del buffer
        gate.open()
        done.wait()
    assert memory_alive(calls, first) <= count


@pytest.mark.parametrize("whole", [False, True], ids=["queue", "device"])
def test_staging_memory_is_given_back_after_a_finish(device, queue, hold, whole):
    kernel = device.program("kernel void first(global uint* out, constant uint* many) { out[0] = many[0]; }")["first"]
    out, many = device.empty(1, "u4"), np.zeros(16 << 10, "u4")
    queue.launch(kernel, 1, 1, out, fb.by_value(many))
    device.finish()
    tracemalloc.start()
    try:
        gate = hold(queue)
        for k in range(100):
            many[0] = k
            queue.launch(kernel, 1, 1, out, fb.by_value(many))
        held, _ = tracemalloc.get_traced_memory()
        gate.open()
        (device if whole else queue).finish()
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    most = 2 * (1 << 20) + 2 * many.nbytes  # two pieces of staging memory, and what else there is
    assert left <= most
    assert held > left or not device.driver.has_addresses or not EXECUTES or held < most


@pytest.mark.parametrize("refused", [False, True])
def test_memory_that_runs_out_is_waited_for_and_no_gate_is(device, calls, kernels, queue, hold, refused):
    """What is held up does not keep the host waiting; what comes free by itself does. A refused command is no hold."""
    held = device.queue(blocking=False)
    behind, beside = device.empty(64, "u4"), device.empty(MIB, "u4")
    if refused:
        graph, other = device.graph(), device.empty(64, "u4")
        graph.add_host(int, after=graph.add_kernel(kernels["advance"], 4, 16, other, 1))
        executable = graph.instantiate()
        submits = calls.driver.REPLAY if device.info.backend == "cuda" else calls.driver.LAUNCH
        calls.fail(submits, calls.driver.FAILURE[0])
        with pytest.raises(fb.Error, match=submits):
            executable.launch(queue)
    hold(held)
    launch(held, kernels, behind)
    queue.launch(kernels["advance"], MIB // 256, 256, beside, 1)
    del behind, beside
    name = next(call.name for call in calls.log if calls.kind(call) == "allocate")
    # CUDA's pool is asked again when it has let go what it keeps, and OpenCL in any case.
    for _ in range(1 + (device.info.backend == "cuda" or name == "clSVMAlloc")):
        calls.fail(name, calls.driver.OUT_OF_MEMORY)
    device.empty(1 << 10)
    assert queue.empty
    assert not held.empty


@pytest.mark.executes  # null hardware reaches no event by itself
def test_a_wait_for_another_device_releases_what_earlier_ones_kept(device, calls, kernels, queue):
    """Of a queue that forebay is never asked to finish. How soon its driver tells that it is done differs."""
    with fb.Device(device.name, private=True) as other:
        waiting, here, there = other.queue(blocking=False), device.empty(64, "u4"), other.empty(64, "u4")
        native, made = waiting.native, set()
        finish = getattr(native, "finish", getattr(native, "wait", lambda: None))  # of pyopencl, of dpctl
        for turn in range(1, 2001):
            launch(queue, kernels, here)
            waiting.wait(queue)
            waiting.fill(there, 1)
            queue.finish()
            finish()
            if turn % 100 == 0:
                made = {call.event for call in calls.markers_of([queue])}
                kept = made.intersection(calls.events_alive())
                if len(kept) < turn // 2:
                    break
        assert len(kept) < turn // 2
