"""Kernels that write behind a buffer are found out on a debugging device."""

import threading
from functools import partial

import numpy as np
import pytest

import forebay as fb
from tests.helpers.observer import observe
from tests.helpers.refusals import refused
from tests.helpers.threads import beside, together
from tests.inside import device_that_calls_before_it_waits_for_openings

pytestmark = pytest.mark.executes  # null hardware does not fill the guards

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


OUT_OF_BOUNDS = {
    "the second argument": ("both", lambda source, x, y: (source, x, y, 6), ["argument 2", "int* second", "24 bytes"]),
    "the memory of both": ("both", lambda source, x, y: (source, y, y[1:], 5), ["argument 1", "int* first"]),
    "behind a part": ("put", lambda source, x, y: (y[3:], 3, 1), ["(3,)", "byte 24"]),
    "beside scratch": ("use", lambda source, x, y: (y, 6), ["'use'", "argument 0"]),
}


@pytest.mark.parametrize("what", OUT_OF_BOUNDS)
def test_which_memory_is_named(debugging, kernels, what):
    name, arguments, words = OUT_OF_BOUNDS[what]
    queue, memory = debugging.queue(), [debugging.zeros(count, "i4") for count in (4, 5, 6)]
    kernels["use"].scratch("room", 4)
    queue.launch(kernels["both"], 1, 1, *memory, 5)
    queue.launch(kernels["put"], 1, 1, memory[2][:3], 5, 1)  # a part's own end is within the memory
    queue.launch(kernels["use"], 1, 1, memory[2], 5)
    with refused(fb.OutOfBoundsError, RuntimeError, *words):
        queue.launch(kernels[name], 1, 1, *arguments(*memory))


def test_other_forms_of_launches_and_memory_work(debugging, kernels):
    queue, other, host = debugging.queue(blocking=False), debugging.queue(blocking=False), np.zeros(10, "i4")
    put, buffer, memory = kernels["put"], debugging.zeros(10, "i4"), queue.alloc(10, "i4")
    debugging.finish()
    queue.launch(put, 1, 1, host, 9, 5)
    queue.launch(put, 1, 1, memory, 9, 6)
    assert (host[9], memory.get(queue=queue)[9]) == (5, 6)
    kernel = debugging.program("kernel void one(int n, global int *to) { *to = n; }")["one"]
    assert queue.launch(kernel, 1, 1, 3, result="i4").get() == 3
    with queue.capture() as graph:
        queue.launch(put, 1, 1, buffer, 1, 5)
    graph.launch(queue)
    step = queue.step()
    for value in range(3):
        with step:
            queue.launch(put, 1, 1, buffer, 2, value)
            queue.launch(put, 1, 1, buffer, 3, value)
    put.bind(queue, 1, 1, buffer, 4, 9)()
    queue.host(lambda: other.launch(put, 1, 1, buffer, 5, 7))
    queue.finish()
    assert buffer.get(queue=other)[:6].tolist() == [0, 5, 2, 2, 9, 7]


def test_many_launches_and_two_threads(debugging, kernels):
    buffer = debugging.zeros(64, "i4")
    debugging.finish()

    def run(start):
        queue = debugging.queue()
        for i in range(100):
            queue.launch(kernels["put"], 1, 1, buffer, start + i % 32, i)

    together(partial(run, 0), partial(run, 32))
    assert buffer.get()[32:].tolist() == buffer.get()[:32].tolist()


@pytest.mark.needs("OpenCL")
def test_a_launch_is_checked_while_a_gate_that_was_opened_still_counts(device):
    """The thread that opens the gate stays between the driver's call and the count until the launch waits for it."""
    watched = device_that_calls_before_it_waits_for_openings(lambda: calls.driver.go_on())
    with watched(device.name, debug=True, private=True) as debugging, observe(debugging) as calls:
        kernels, buffer = debugging.program(SOURCE), debugging.empty(10, "i4")
        held, free = debugging.queue(blocking=False), debugging.queue(blocking=False)
        gate = held.gate()
        calls.driver.pause("clSetUserEventStatus")
        with beside(gate.open):
            try:
                calls.driver.wait_until_paused()
                with pytest.raises(fb.OutOfBoundsError):
                    free.launch(kernels["put"], 1, 1, buffer, 10, 1)
            finally:
                calls.driver.go_on()


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


def test_other_devices_have_no_guards(device, queue, program):
    buffer, before = device.zeros(10, "i4"), queue.stats
    queue.launch(program["fill"], 1, 1, buffer, 1)
    assert ((queue.stats - before).fills, (queue.stats - before).host_syncs) == (0, 0)


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
    each = "kernel void each(global int *x) { if (get_local_id(0) == 0) x[get_group_id(0)] = get_group_id(0); }"
    queue.launch(debugging.program(each)["each"], 64, 32, x[:64])  # which may be meant
    assert len(caplog.records) == 1
    assert x[:64].get().tolist() == list(range(64))


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
