"""Memory that kernels find by pointers: it is there as long as a launch may go there, and no launch names it later."""

import threading
from functools import partial

import numpy as np
import pytest

import forebay as fb
from forebay.queues.selection import select
from tests.helpers.device_data import device_data
from tests.helpers.observer import EXECUTES, observe
from tests.helpers.threads import beside, together

SOURCE = """
kernel void follow(global const ulong *table, uint k)
{
    global uint *a = (global uint *) table[0];
    if (a) a[0] = a[0] * 3 + k;
}
kernel void use(global uint *a, global const uint *rows, global uint *room) { a[0] += rows[0]; room[0] = 1; }
kernel void take(global uint *a, global const uint *given) { a[0] += given[0]; }
"""
SIZE = 1 << 20  # bytes of each piece of memory


@pytest.fixture
def device(watched):
    with fb.Device(private=True) as device:
        if not device.driver.has_addresses:
            pytest.skip("no addresses")
        yield device


@pytest.fixture
def program(device):
    program = device.program(SOURCE)
    program["follow"].follow_pointers()
    return program


@pytest.fixture
def calls(device, program):
    with observe(device) as calls:
        yield calls
    device.finish()


def given(calls, first):
    """How many pieces of memory the driver was asked for, and how many it got back, since then."""
    names = [name.lower() for name in calls.names(first)]
    return sum("alloc" in name for name in names), sum("free" in name for name in names)


def empty(device, program, queue):
    buffer = device.empty(SIZE, "u1")
    queue.fill(buffer, 1)
    return buffer.close


def pool(device, program, queue):
    buffer = queue.alloc(SIZE, "u1")
    queue.fill(buffer, 1)

    def drop():
        queue.free(buffer)
        queue.finish()
        device.pool.trim()

    return drop


def scratch(device, program, queue):
    own = device.program(SOURCE)
    kernel = own["use"]
    kernel.scratch("room", SIZE)
    queue.launch(kernel, 1, 1, device.empty(1, "u4"), device.empty(1, "u4"))

    def drop():
        kernel.close()
        own.close()

    return drop


def by_value(device, program, queue):
    own = device.program(SOURCE)
    queue.launch(own["take"], 1, 1, device.empty(1, "u4"), np.zeros(SIZE // 4, "u4").tobytes())

    def drop():
        own["take"].close()
        own.close()

    return drop


def graph_scratch(device, program, queue):
    kernel = device.program(SOURCE)["use"]
    kernel.scratch("room", SIZE)
    a, rows = device.empty(1, "u4"), device.empty(1, "u4")
    with queue.capture() as graph:
        queue.launch(kernel, 1, 1, a, rows)
    executable = graph.instantiate()
    executable.launch(queue)
    return executable.close


SOURCES = {"empty": empty, "pool": pool, "scratch": scratch, "bytes by value": by_value, "graph": graph_scratch}


def forms(device, program, queue, table, k=1):
    """Ways to launch what follows the pointer in the table, made before what it points to."""
    queue.wait(device.null_queue)
    arguments, captured = (program["follow"], 1, 1, table, k), device.queue(blocking=False)
    with captured.capture() as graph:
        captured.launch(*arguments)
        captured.launch(*arguments)
    return {
        "launch": partial(queue.launch, *arguments),
        "bound": program["follow"].bind(queue, *arguments[1:]),
        "graph": partial(graph.instantiate().launch, queue),
    }


@pytest.mark.parametrize("how", ["launch", "bound", "graph"])
@pytest.mark.parametrize("what", list(SOURCES))
def test_memory_stays_while_a_launch_may_follow_a_pointer_to_it(device, program, calls, hold, what, how):
    queue, other = device.queue(blocking=False), device.queue(blocking=False)
    drop = SOURCES[what](device, program, other)
    device.finish()
    launch = forms(device, program, queue, device.zeros(1, "u8"))[how]
    device.finish()
    gate = hold(queue)
    launch()
    first = len(calls)
    drop()
    other.finish()
    kept = [device.empty(SIZE, "u1") for _ in range(4)]
    # what OpenCL must not release while a gate is closed would be handed out again
    assert given(calls, first) == (4, 0)
    gate.open()
    device.finish()
    device.empty(1).close()
    del kept
    device.finish()
    assert given(calls, first)[1] >= 1


@pytest.mark.threads
@pytest.mark.needs("OpenCL")  # whose observer can stop a call
def test_memory_that_is_closed_while_a_launch_is_submitted_comes_back(device, program, calls):
    queue, table, gone = device.queue(blocking=False), device.zeros(1, "u8"), device.empty(SIZE, "u1")
    device.finish()
    launch = forms(device, program, queue, table)["graph"]
    calls.driver.pause(calls.driver.LAUNCH)
    with beside(launch):
        calls.driver.wait_until_paused()
        first = len(calls)
        gone.close()
        device.empty(1).close()
        kept = given(calls, first)
        calls.driver.go_on()
    queue.finish()
    device.empty(1).close()
    assert kept == (1, 0)
    assert given(calls, first)[1] >= 2


@pytest.mark.parametrize("how", ["launch", "bound", "graph"])
def test_a_refused_launch_keeps_no_memory(device, program, calls, how):
    queue, table, gone = device.queue(blocking=False), device.zeros(1, "u8"), device.empty(SIZE, "u1")
    device.finish()
    launch = forms(device, program, queue, table)[how]
    name = (how == "graph" and calls.driver.REPLAY) or calls.driver.LAUNCH
    calls.fail(name, calls.driver.FAILURE[0])
    with pytest.raises(fb.Error, match=name):
        launch()
    first = len(calls)
    gone.close()
    device.empty(1).close()
    assert given(calls, first)[1] >= 1


@pytest.mark.parametrize("how", ["launch", "bound", "graph"])
def test_each_launch_has_the_list_of_its_moment(device, program, calls, how):
    """Also one whose kernel object was made before. On drivers without lists nothing is to be told."""
    if not any(name.endswith("SetKernelExecInfo") for name in calls.driver.NAMES):
        pytest.skip("the driver knows by itself where pointers lead")
    queue, table, gone = device.queue(blocking=False), device.zeros(1, "u8"), device.empty(SIZE, "u1")
    device.finish()
    launch = forms(device, program, queue, table)[how]

    def told():
        """Launch, and return the list of it; None if none was told."""
        first = len(calls)
        launch()
        lists = [call.waits for call in calls.since(first) if call.name == "clSetKernelExecInfo"]
        return set(lists[-1]) if lists else None

    told()
    assert told() is None  # nothing has changed
    address, new = gone.address, device.empty(SIZE, "u1")
    assert {table.address, address, new.address} <= told()
    gone.close()
    found = told()
    assert {table.address, new.address} <= found
    assert address not in found
    queue.finish()


@pytest.mark.parametrize("how", ["launch", "bound", "graph"])
def test_new_memory_is_reached(device, program, how):
    queue, table = device.queue(blocking=False), device.zeros(1, "u8")
    device.finish()
    launch = forms(device, program, queue, table, 5)[how]
    for _ in range(20):
        new = device.zeros(1, "u4")
        table.set(np.array([new.address], "u8"))
        device.finish()
        launch()
        assert device_data(new.get(queue=queue)[0]) == (5 if how != "graph" else 20)  # launched twice
        new.close()


@pytest.mark.parametrize("how", ["launch", "bound", "graph"])
def test_new_memory_is_reached_from_behind_a_gate(device, program, calls, hold, how):
    """Each launch has its own list. The observer knows the kernel objects that must not get another one."""
    queue, table = device.queue(blocking=False), device.zeros(1, "u8")
    device.finish()
    launch, made = forms(device, program, queue, table, 5)[how], []
    for _ in range(3):
        gate = hold(queue)
        for _ in range(4):
            made.append(device.empty(1, "u4"))
            queue.fill(made[-1], 0)
            queue.copy(table, np.array([made[-1].address], "u8"))
            launch()
        gate.open()
    found = [device_data(new.get(queue=queue)[0]) for new in made]
    assert found == [5 if how != "graph" else 20] * 12


@pytest.mark.needs("OpenCL")  # which has lists
@pytest.mark.parametrize("name", ["clCloneKernel", "clSetKernelExecInfo"])
@pytest.mark.parametrize("how", ["launch", "bound", "graph"])
def test_a_list_that_is_refused_behind_a_gate(device, program, calls, hold, how, name):
    queue, table = device.queue(blocking=False), device.zeros(1, "u8")
    device.finish()
    launch, new = forms(device, program, queue, table, 5)[how], device.zeros(1, "u4")
    device.finish()
    gate = hold(queue)
    queue.copy(table, np.array([new.address], "u8"))
    launch()
    _more = device.empty(1)
    calls.fail(name, -5)
    with pytest.raises(fb.Error, match=name):
        launch()
    launch()
    gate.open()
    once = 5 if how != "graph" else 20
    assert device_data(new.get(queue=queue)[0]) == once * (4 if how != "graph" else 10)
    made = [call.name for call in calls.log if call.name in ("clCloneKernel", "clReleaseKernel")]
    assert "clCloneKernel" in made


@pytest.mark.needs("OpenCL")
@pytest.mark.parametrize("how", ["launch", "bound", "graph"])
def test_a_kernel_object_is_replaced_only_while_it_may_be_in_use(device, program, calls, how):
    queue, table = device.queue(blocking=False), device.zeros(1, "u8")
    device.finish()
    launch = forms(device, program, queue, table)[how]
    for _ in range(3):
        _more = device.empty(1)
        launch()
        queue.finish()
    assert "clCloneKernel" not in calls.names(0)


@pytest.mark.needs("OpenCL")
@pytest.mark.parametrize("how", ["launch", "bound", "graph"])
def test_a_replaced_kernel_object_stays_until_its_launch_is_done(device, how):
    """Without a gate of forebay's, which would keep it longer: the queue waits for a user event of pyopencl's."""
    if not device.driver.has_addresses:
        pytest.skip("no addresses")
    import pyopencl as cl

    context = cl.Context([device.info.native])
    native, event = cl.CommandQueue(context), cl.UserEvent(context)
    with fb.Device.adopt(context) as own:
        program, queue, table = own.program(SOURCE), fb.Device.adopt_queue(native), own.zeros(1, "u8")
        program["follow"].follow_pointers()
        launch = forms(own, program, queue, table)[how]
        own.finish()
        with observe(own) as calls:
            cl.enqueue_barrier(native, wait_for=[event])
            for _ in range(3):
                launch()
                _more = own.empty(1)
                own.empty(1).close()  # collects
            before = calls.names(0)
            event.set_status(cl.command_execution_status.COMPLETE)
            assert "clCloneKernel" in before
            assert "clReleaseKernel" not in before
            queue.finish()
            own.empty(1).close()
            assert "clReleaseKernel" in calls.names(0)
        queue.close()


def test_one_address_that_is_taken_over_twice(device, program, calls):
    if select().backend != "opencl":
        pytest.skip("memory that is taken over by its address")
    import pyopencl as cl

    context = device.driver.context
    memory = cl.SVMAllocation(context, 64, 16, cl.svm_mem_flags.READ_WRITE) if hasattr(cl, "SVMAllocation") else None
    if memory is None:
        pytest.skip("this pyopencl has no allocations of SVM")
    queue, table = device.queue(blocking=False), device.zeros(1, "u8")
    device.finish()  # or the queue, which waits for nobody, reads what was there before the zeros
    both = [device.as_buffer(memory) for _ in range(2)]
    address = both[0].address

    def told():
        first = len(calls)
        device.empty(1)  # the list changes
        queue.launch(program["follow"], 1, 1, table, 1)
        queue.finish()
        (found,) = [call.waits for call in calls.since(first) if call.name == "clSetKernelExecInfo"]
        return found.count(address)

    assert told() == 1
    both.pop().close()
    assert told() == 1
    both.pop().close()
    assert told() == 0


@pytest.mark.threads
@pytest.mark.parametrize("how", ["launch", "bound", "graph"])
def test_another_thread_makes_and_closes_memory(device, program, calls, how):
    """The observer compares each list with what is there before and after the driver's call."""
    queue, table, ended = device.queue(blocking=False), device.zeros(1, "u8"), threading.Event()
    device.finish()
    launch = forms(device, program, queue, table)[how]

    def make():
        while not ended.is_set():
            device.empty(4096, "u1").close()
            device.zeros(16, "u4").close()

    def work():
        try:
            for turn in range(400 if EXECUTES else 50):
                launch()
                if turn % 16 == 0:
                    queue.finish()
        finally:
            ended.set()

    together(make, work)
    device.finish()
