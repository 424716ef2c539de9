"""Kernels that write behind a buffer are found out on a debugging device."""

import threading

import numpy as np
import pytest

import forebay as fb
from tests.helpers.observer import observe
from tests.helpers.refusals import refused

pytestmark = pytest.mark.executes(run=False)  # null hardware does not fill the guards

SOURCE = """
kernel void put(global int *values, int at, int value) { values[at] = value; }
kernel void both(global const int *from, global int *first, global int *second, int at) { second[at] = from[0]; }
kernel void use(global int *values, int at, global int *room) { room[0] = 1; values[at] = room[0]; }
"""


@pytest.fixture
def debugging(device):
    with fb.Device(device.name, debug=True, private=True) as debugging:
        yield debugging


@pytest.fixture
def kernels(debugging):
    return debugging.program(SOURCE)


@pytest.mark.parametrize("usm_type", ["device", "shared"])
@pytest.mark.parametrize("at", [100, 101, 1000])
def test_the_kernel_and_the_buffer_are_named(debugging, kernels, usm_type, at):
    try:
        buffer = debugging.zeros(100, "i4", usm_type)
    except fb.NotSupportedError:
        pytest.skip("there is no such memory")
    queue = debugging.queue()
    queue.launch(kernels["put"], 1, 1, buffer, 99, 7)
    words = "'put'", "out of bounds", "argument 0", "int* values", "(100,) and int32", "400 bytes", f"byte {4 * at}"
    with refused(fb.OutOfBoundsError, RuntimeError, *words):
        queue.launch(kernels["put"], 1, 1, buffer, at, 7)
    queue.launch(kernels["put"], 1, 1, buffer, 98, 8)
    assert buffer.get(queue=queue)[97:].tolist() == [0, 8, 7]


def test_the_right_one_of_several(debugging, kernels):
    queue = debugging.queue()
    source, first, second = (debugging.zeros(count, "i4") for count in (4, 5, 6))
    queue.launch(kernels["both"], 1, 1, source, first, second, 5)
    with refused(fb.OutOfBoundsError, RuntimeError, "argument 2", "int* second", "24 bytes"):
        queue.launch(kernels["both"], 1, 1, source, first, second, 6)
    with refused(fb.OutOfBoundsError, RuntimeError, "argument 1", "int* first"):  # the memory of both
        queue.launch(kernels["both"], 1, 1, source, second, second[1:], 5)


def test_behind_the_memory_of_a_part(debugging, kernels):
    """A part's own end is within the memory, where forebay does not look."""
    queue, buffer = debugging.queue(), debugging.zeros(100, "i4")
    queue.launch(kernels["put"], 1, 1, buffer[:50], 60, 1)
    with refused(fb.OutOfBoundsError, RuntimeError, "(50,)", "byte 400"):
        queue.launch(kernels["put"], 1, 1, buffer[50:], 50, 1)


def test_kernels_with_scratch(debugging, kernels):
    kernels["use"].scratch("room", 4)
    queue, buffer = debugging.queue(), debugging.zeros(10, "i4")
    queue.launch(kernels["use"], 1, 1, buffer, 9)
    with refused(fb.OutOfBoundsError, RuntimeError, "'use'", "argument 0"):
        queue.launch(kernels["use"], 1, 1, buffer, 10)


def test_arrays_results_and_memory_from_alloc_work(debugging, kernels):
    queue, host = debugging.queue(), np.zeros(10, "i4")
    queue.launch(kernels["put"], 1, 1, host, 9, 5)
    assert host[9] == 5
    memory = queue.alloc(10, "i4")
    queue.launch(kernels["put"], 1, 1, memory, 9, 6)
    assert memory.get(queue=queue)[9] == 6
    kernel = debugging.program("kernel void one(int n, global int *to) { *to = n; }")["one"]
    assert queue.launch(kernel, 1, 1, 3, result="i4").get() == 3


def test_captures_and_steps_and_bound_launches_work(debugging, kernels):
    queue, buffer = debugging.queue(), debugging.zeros(10, "i4")
    debugging.finish()
    with queue.capture() as graph:
        queue.launch(kernels["put"], 1, 1, buffer, 1, 5)
    graph.launch(queue)
    step = queue.step()
    for value in range(3):
        with step:
            queue.launch(kernels["put"], 1, 1, buffer, 2, value)
            queue.launch(kernels["put"], 1, 1, buffer, 3, value)
    kernels["put"].bind(queue, 1, 1, buffer, 4, 9)()
    assert buffer.get(queue=queue)[:5].tolist() == [0, 5, 2, 2, 9]


def test_many_launches_and_two_threads(debugging, kernels):
    buffer = debugging.zeros(64, "i4")
    debugging.finish()
    failed = []

    def run(start):
        queue = debugging.queue()
        try:
            for i in range(100):
                queue.launch(kernels["put"], 1, 1, buffer, start + i % 32, i)
        except fb.Error as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(start,)) for start in (0, 32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert buffer.get()[32:].tolist() == buffer.get()[:32].tolist()


def test_a_buffer_that_a_value_closes(debugging, kernels):
    buffer = debugging.zeros(10, "i4")

    class Closing:
        def __index__(self):
            buffer.close()
            return 1

    with refused(fb.ClosedError, RuntimeError, "closed"):
        debugging.queue().launch(kernels["put"], 1, 1, buffer, Closing(), 1)


def test_a_launch_is_not_waited_for_while_a_host_function_or_a_gate_holds_the_device(debugging, kernels):
    """This thread is the one that ends what it would wait for."""
    held, free, buffer = debugging.queue(blocking=False), debugging.queue(blocking=False), debugging.zeros(10, "i4")
    debugging.finish()
    may_return = threading.Event()
    held.host(may_return.wait)
    held.launch(kernels["put"], 1, 1, buffer, 1, 1)
    assert not held.query()
    free.launch(kernels["put"], 1, 1, buffer, 2, 2)
    may_return.set()
    held.finish()
    gate = held.gate()
    held.launch(kernels["put"], 1, 1, buffer, 3, 3)
    gate.open()
    debugging.finish()
    assert buffer.get(queue=held).tolist()[:4] == [0, 1, 2, 3]
    with pytest.raises(fb.OutOfBoundsError):  # and now launches are checked again
        held.launch(kernels["put"], 1, 1, buffer, 10, 1)


@pytest.mark.needs("OpenCL")
def test_a_launch_is_checked_while_a_gate_that_was_opened_still_counts(device):
    """The thread that opens the gate stays between the driver's call and the count until the launch waits for it."""

    class Watched(fb.Device):
        def _wait_for_openings(self):
            calls.driver.go_on()
            super()._wait_for_openings()

    with Watched(device.name, debug=True, private=True) as debugging, observe(debugging) as calls:
        kernels, buffer = debugging.program(SOURCE), debugging.empty(10, "i4")
        held, free = debugging.queue(blocking=False), debugging.queue(blocking=False)
        gate = held.gate()
        calls.driver.pause("clSetUserEventStatus")
        opener = threading.Thread(target=gate.open)
        opener.start()
        try:
            calls.driver.wait_until_paused()
            with pytest.raises(fb.OutOfBoundsError):
                free.launch(kernels["put"], 1, 1, buffer, 10, 1)
        finally:
            calls.driver.go_on()
            opener.join()


def test_a_host_function_launches(debugging, kernels):
    queue, buffer = debugging.queue(blocking=False), debugging.zeros(10, "i4")
    other = debugging.queue(blocking=False)
    debugging.finish()
    queue.host(lambda: other.launch(kernels["put"], 1, 1, buffer, 1, 7))
    queue.finish()
    assert buffer.get(queue=other).tolist()[:2] == [0, 7]


def test_other_devices_have_no_guards(device, program):
    buffer, queue = device.zeros(10, "i4"), device.queue()
    before = queue.stats
    queue.launch(program["fill"], 1, 1, buffer, 1)
    assert (queue.stats - before).fills == 0
    assert (queue.stats - before).host_syncs == 0


WIDE = "kernel void each(global int *x, int n) { if (get_global_id(0) < n) x[get_global_id(0)] = 1; }"


@pytest.mark.parametrize("scratch", [False, True])
def test_a_grid_in_work_items_is_told_before_it_runs(debugging, caplog, scratch):
    source = WIDE.replace("int n)", "int n, global int *room)") if scratch else WIDE
    kernel, queue, x = debugging.program(source)["each"], debugging.queue(), debugging.zeros(1024, "i4")
    if scratch:
        kernel.scratch("room", 1024)
    caplog.clear()
    for _ in range(2):
        queue.launch(kernel, 1024, 64, x, 1024)
    (record,) = caplog.records
    assert record.name == "forebay.launch"
    for words in ("'each'", "1024 groups of 64", "65536 in all", "1024 elements", "16 are enough"):
        assert words in record.getMessage()
    caplog.clear()
    queue.launch(kernel, 16, 64, x, 1024)  # as many as there are elements
    queue.launch(kernel, 17, 60, x, 1024)  # the last block is not full
    queue.launch(kernel, 1025, 1, x, 1024)
    assert caplog.records == []


def test_a_block_for_each_element_runs(debugging, caplog):
    source = "kernel void each(global int *x) { if (get_local_id(0) == 0) x[get_group_id(0)] = get_group_id(0); }"
    x = debugging.zeros(64, "i4")
    caplog.clear()
    debugging.queue().launch(debugging.program(source)["each"], 64, 32, x)
    assert len(caplog.records) == 1
    assert x.get().tolist() == list(range(64))


def test_what_forebay_launches_itself_is_no_matter(debugging, caplog):
    x = debugging.array(np.arange(12, dtype="i4").reshape(3, 4))
    caplog.clear()
    y = debugging.zeros((4, 3), "i4")
    debugging.null_queue.copy(y[:3, 0], x[2, :3])
    assert y.get()[:3, 0].tolist() == [8, 9, 10]
    assert caplog.records == []


def test_it_says_that_order_cannot_show(device, caplog):
    with fb.Device(device.name, debug=True, private=True):
        assert "faults of order cannot show" in caplog.records[-1].getMessage()
    caplog.clear()
    with fb.Device(device.name, debug=True, private=True, check="races"), fb.Device(device.name, private=True):
        assert caplog.records == []
