"""What methods of a buffer do without a queue: they come after all that may use the memory, on whichever queue."""

import numpy as np
import pytest

import forebay as fb
from tests.drivers.levelzero import validation
from tests.helpers.device_data import device_data
from tests.helpers.refusals import refused
from tests.inside import clock_of

SOURCE = """
kernel void late(global int *x, int turns) {
    for (int i = 0; i < turns; i++) x[i & 63] = x[i + 1 & 63] * 3 + i;
    for (int i = 0; i < 64; i++) x[i] = 7;
}
kernel void chase(global const ulong *links, int turns) {
    global int *x = (global int *)links[0];
    for (int i = 0; i < turns; i++) x[i & 63] = x[i + 1 & 63] * 3 + i;
    for (int i = 0; i < 64; i++) x[i] = 7;
}
kernel void read(global const int *x, global int *to) { for (int i = 0; i < 64; i++) to[i] = x[i]; }
"""
TURNS = 1 << 23  # so that who does not wait is certainly too early


@pytest.fixture(scope=validation.scope("module"))
def kernels(device):
    with device.program(SOURCE) as program:
        program["chase"].follow_pointers()
        yield program


@pytest.fixture
def x(device):
    buffer = device.zeros(64, "i4")
    device.finish()
    return buffer


@pytest.fixture
def free(make_queue):
    """A queue that nothing orders against the null queue."""
    return make_queue(blocking=False)


READS = {
    "get": lambda x: x.get()[0],
    "get into an array": lambda x: x.get(out=np.empty(64, "i4"))[0],
    "get into strides": lambda x: x.get(out=np.empty((64, 2), "i4")[:, 0])[0],
    "get of a part": lambda x: x[5:7].get()[0],
    "item": lambda x: x.item(9),
    "item of one": lambda x: x[3:4].item(),
    "asarray": lambda x: np.asarray(x)[0],
    "asarray, converted": lambda x: np.asarray(x, "f4")[0],
    "in place": lambda x: np.asarray(x, copy=False)[0] if in_place(x) else x.get()[0],
    "dlpack": lambda x: np.from_dlpack(x, device="cpu")[0],
    "dlpack, a copy": lambda x: np.from_dlpack(x, copy=True, device="cpu")[0],
    "get with strides": lambda x: x[::2].get()[0],
    "item with strides": lambda x: x[::2].item(3),
    "asarray with strides": lambda x: np.asarray(x[::2])[0],
    "dlpack with strides": lambda x: np.from_dlpack(x[::2], copy=True, device="cpu")[0],
}


def in_place(x):
    return x.__dlpack_device__() == (1, 0)


def write(queue, kernels, x):
    queue.launch(kernels["late"], 1, 1, x, TURNS)


def write_bound(queue, kernels, x):
    kernels["late"].bind(queue, 1, 1, x, TURNS)()


def write_by_pointers(queue, kernels, x):
    try:
        links = queue.device.array(np.array([x.address], "u8"))
    except fb.NotSupportedError as error:
        pytest.skip(str(error))
    queue.device.finish()
    queue.launch(kernels["chase"], 1, 1, links, TURNS)


def write_in_step(queue, kernels, x):
    step = queue.step()
    for _ in range(2):
        with step:
            queue.launch(kernels["late"], 1, 1, x, TURNS // 2)


def write_in_graph(queue, kernels, x):
    graph = queue.device.graph()
    graph.add_kernel(kernels["late"], 1, 1, x, TURNS)
    graph.instantiate().launch(queue)


def write_by_copy(queue, kernels, x):
    other = queue.device.zeros(64, "i4")
    queue.device.finish()
    write(queue, kernels, other)
    queue.copy(x, other)


WRITES = [write, write_bound, write_by_pointers, write_in_step, write_in_graph, write_by_copy]


@pytest.mark.parametrize("read", READS)
def test_a_read_comes_after_work_of_other_queues(free, kernels, x, read):
    write(free, kernels, x)
    assert device_data(READS[read](x)) == 7


@pytest.mark.parametrize("how", WRITES)
@pytest.mark.parametrize("current", ["null queue", "blocking", "non-blocking"])
@pytest.mark.parametrize("writer", ["blocking", "non-blocking"])
def test_however_it_was_written(make_queue, kernels, x, how, current, writer):
    how(make_queue(blocking=writer == "blocking"), kernels, x)
    if current == "null queue":
        assert device_data(x.get()[0]) == 7
    else:
        with make_queue(blocking=current == "blocking"):
            assert device_data(x.get()[0]) == 7


@pytest.mark.parametrize("writer", ["nobody", "null queue", "blocking", "non-blocking", "told to wait", "current"])
def test_the_host_waits_only_for_what_the_copy_does_not_come_after(device, make_queue, kernels, x, free, writer):
    """One host synchronize is the copy's. Reads are no writes."""
    queue = {"null queue": device.null_queue, "blocking": make_queue(), "nobody": free}.get(writer, free)
    null = device.null_queue
    queue.launch(kernels["read"], 1, 1, x, device.empty(64, "i4"))
    queue.finish()
    if writer != "nobody":
        queue.launch(kernels["late"], 1, 1, x, 1)
    else:
        queue.launch(kernels["read"], 1, 1, x, device.empty(64, "i4"))
    if writer == "told to wait":
        null.wait(queue)
    made, syncs, waits = [], device.stats.host_syncs, null.stats.waits_made
    if writer == "current":
        with queue:
            made.append(x.get())
    else:
        made.append(x.get())
    assert device.stats.host_syncs - syncs <= 1 + (writer == "non-blocking")
    assert null.stats.waits_made - waits <= (writer == "blocking")
    assert writer == "told to wait" or queue.id not in clock_of(null) or writer == "blocking"


@pytest.mark.parametrize("read", ["get", "get with strides"])
def test_a_queue_that_is_named_keeps_its_own_order(make_queue, hold, kernels, x, free, really, read):
    """So who must still open the writer's gate can read."""
    other = make_queue(blocking=False)
    hold(free)
    write(free, kernels, x)
    found = x.get(queue=other) if read == "get" else x[::2].get(queue=other)
    assert not really or found[0] == 0
    assert not free.empty


def test_a_copy_of_the_memory_comes_after_writes_and_does_not_block(device, hold, kernels, x, free):
    gate, to = hold(free), device.zeros(64, "i4")
    write(free, kernels, x)
    whole, strided = x.copy(), x[::2].copy()
    to.set(x)
    assert device_data(not device.null_queue.query())
    gate.open()
    assert (device_data(whole.get()[0]), device_data(strided.get()[0]), device_data(to.get()[0])) == (7, 7, 7)


OVERWRITES = {
    "fill": lambda x, other: x.fill(9),
    "fill with strides": lambda x, other: (x[::2].fill(9), x[1::2].fill(9)),
    "set": lambda x, other: x.set(np.full(64, 9, "i4")),
    "set with strides": lambda x, other: x[::2].set(9),
    "set from a buffer": lambda x, other: x.set(other),
    "set from strides": lambda x, other: x.set(other.reshape(32, 2)[:, ::-1].copy().reshape(64)),
    "setitem": lambda x, other: x.__setitem__(slice(0, 64), 9),
}


@pytest.mark.parametrize("how", OVERWRITES)
def test_an_overwrite_comes_after_reads_and_writes_and_does_not_block(device, hold, kernels, x, free, how):
    to, other = device.zeros(64, "i4"), device.zeros(64, "i4")
    other.fill(9)
    device.finish()
    gate = hold(free)
    free.launch(kernels["late"], 1, 1, x, 1)
    free.launch(kernels["read"], 1, 1, x, to)
    OVERWRITES[how](x, other)
    gate.open()
    assert device_data(x.get()[0]) == 9
    assert device_data(to.get()[0]) == 7


# -- where nobody may wait


def test_captured_methods_have_the_order_of_the_graph(device, make_queue, hold, kernels, x, free):
    """What is under way outside is no matter of the graph's."""
    queue = make_queue(blocking=False)
    hold(free)
    free.launch(kernels["late"], 1, 1, x, 1)
    with queue.capture(mode="relaxed") as graph, queue:
        x.fill(3)
    assert len(graph.nodes) == 1


def test_a_read_is_refused_while_a_capture_is_under_way(make_queue, hold, kernels, x, free):
    """Before it waits: no other thread would open the gate."""
    queue = make_queue(blocking=False)
    hold(free)
    free.launch(kernels["late"], 1, 1, x, 1)
    invalid = pytest.raises(fb.CaptureInvalidatedError)
    with invalid, queue.capture(), refused(fb.CaptureUnsupportedError, RuntimeError, "captured"):
        x.get()
    with invalid, queue.capture(), queue, refused(fb.CaptureUnsupportedError, RuntimeError, "finish"):
        x.get()
    with invalid, make_queue().capture(), pytest.raises(fb.CaptureImplicitError):  # the null queue's
        x.get()


@pytest.mark.executes
def test_a_host_function_may_not_wait(make_queue, hold, kernels, x, free):
    hold(free)
    free.launch(kernels["late"], 1, 1, x, 1)
    queue = make_queue(blocking=False)
    queue.host(x.get)
    with pytest.raises(fb.Error, match="host function"):
        queue.finish()
