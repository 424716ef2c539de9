"""pyopencl's queues, contexts and memory, used by forebay and by pyopencl in turn."""

import gc
import threading
import time
import weakref

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest

import forebay as fb
from tests.helpers.growth import resident
from tests.helpers.observer import EXECUTES, observe
from tests.helpers.refusals import refused
from tests.helpers.threads import together
from tests.ordering.happens_before import Relation

pytestmark = [
    pytest.mark.needs("OpenCL"),
    pytest.mark.filterwarnings("ignore::pyopencl.CompilerWarning"),
]

COUNT = 1 << 12
SOURCE = "kernel void advance(global uint *x, uint n) { for (uint i = 0; i < n; i++) x[get_global_id(0)] += i % 2; }"
VALUES = np.arange(COUNT, dtype="u4")


@pytest.fixture
def context(device):
    return cl.Context([device.info.native])


@pytest.fixture
def native(context):
    return cl.CommandQueue(context)


@pytest.fixture
def own(context):
    """The Device of pyopencl's context."""
    with fb.Device.adopt(context) as own:
        yield own


@pytest.fixture
def queue(native, own):
    with_it = fb.Device.adopt_queue(native)
    yield with_it
    with_it.close()


@pytest.fixture
def step(own):
    return own.program(SOURCE)["advance"]


@pytest.fixture
def theirs(context):
    return cl.Program(context, SOURCE).build().advance


def cl_buffer(context, values=VALUES):
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    return cl.Buffer(context, flags, hostbuf=values)


def read(native, memory):
    out = np.zeros(COUNT, "u4")
    cl.enqueue_copy(native, out, memory)
    return out


# -- devices


def test_a_context_has_one_device(context, own):
    assert fb.Device.adopt(context) is own
    assert own.null_queue.native.context == context
    assert fb.Device.adopt_queue(cl.CommandQueue(context)).device is own


def test_two_threads_get_one_device(context):
    first, second = together(*[lambda: fb.Device.adopt(context)] * 2)
    assert first is second


def test_a_closed_device_is_made_anew(context):
    first = fb.Device.adopt(context)
    first.close()
    with fb.Device.adopt(context) as second:
        assert second is not first
        assert second.array(VALUES).get()[5] == 5


def test_a_pyopencl_device_is_the_one_of_that_name(device):
    with fb.Device.adopt(device.info.native) as same:
        assert same.name == device.name
        assert same.array(VALUES).get()[5] == 5


def test_a_part_of_a_device(device):
    if device.info.kind != "cpu" or device.info.compute_units < 2:
        pytest.skip("it has no parts")
    (part, *_) = device.info.native.create_sub_devices([cl.device_partition_property.EQUALLY, 1])
    with fb.Device.adopt(part) as own:
        assert own.info.compute_units == 1
        assert own.array(VALUES).get()[5] == 5
    with fb.Device.adopt(cl.Context([part])) as own:
        assert own.array(VALUES).get()[5] == 5


def test_private_devices_are_not_found(device):
    assert fb.Device.adopt_queue(cl.CommandQueue(device.null_queue.native.context)).device is not device


def test_contexts_of_several_devices(device):
    if device.info.kind != "cpu" or device.info.compute_units < 2:
        pytest.skip("it has no parts")
    parts = device.info.native.create_sub_devices([cl.device_partition_property.EQUALLY, 1])[:2]
    if len(cl.Context(parts).devices) != 2:
        pytest.skip("the driver counts the parts as one")
    with refused(fb.InvalidArgumentError, ValueError, "2 devices", "pyopencl.Context([device])"):
        fb.Device.adopt(cl.Context(parts))


# -- queues


def test_kernels_of_both_in_turn(native, queue, context, step, theirs):
    memory = cl_buffer(context)
    buffer = queue.device.as_buffer(memory).view("u4")
    bound = step.bind(queue, COUNT // 64, 64, buffer, 4)
    for _ in range(50):
        theirs(native, (COUNT,), (64,), memory, np.uint32(6))
        bound()
        queue.launch(step, COUNT // 64, 64, buffer, 2)
    assert np.array_equal(read(native, memory), VALUES + 50 * (3 + 2 + 1))


def test_another_queue_waits_for_what_only_pyopencl_submitted(native, queue, context, step):
    memory = cl_buffer(context)
    buffer, out = queue.device.as_buffer(memory).view("u4"), queue.device.zeros(COUNT, "u4")
    queue.device.finish()
    gate, other = cl.UserEvent(context), queue.device.queue(blocking=False)
    source = cl_buffer(context, VALUES[::-1].copy())
    cl.enqueue_copy(native, memory, source, wait_for=[gate])
    other.wait(queue)
    if not queue.device.driver.has_memory_objects:
        with refused(fb.NotSupportedError, RuntimeError, "another package", "NumPy"):
            other.copy(out, buffer)
        gate.set_status(cl.command_execution_status.COMPLETE)
        return
    other.copy(out, buffer)
    native.flush()
    assert not other.query()
    gate.set_status(cl.command_execution_status.COMPLETE)
    assert np.array_equal(out.get(queue=other), VALUES[::-1])


def test_the_null_queue_waits_for_what_only_pyopencl_submitted(native, queue, context):
    memory, null, out = cl_buffer(context), queue.device.null_queue, np.zeros(COUNT, "u4")
    buffer = queue.device.as_buffer(memory).view("u4")
    for values in (VALUES[::-1].copy(), VALUES + 1):  # after it has gathered the queue once, too
        source, gate = cl_buffer(context, values), cl.UserEvent(context)
        for _ in range(3):
            cl.enqueue_copy(native, memory, source, wait_for=[gate])
        null.copy(out, buffer)
        assert not null.query()
        gate.set_status(cl.command_execution_status.COMPLETE)
        null.finish()
        assert np.array_equal(out, values)


def test_pyopencl_comes_after_what_forebay_submitted(native, queue, context, step, theirs):
    memory = cl_buffer(context)
    buffer = queue.device.as_buffer(memory).view("u4")
    gate = queue.gate()
    queue.launch(step, COUNT // 64, 64, buffer, 4)
    done = theirs(native, (COUNT,), (64,), memory, np.uint32(2))
    native.flush()
    assert done.command_execution_status != cl.command_execution_status.COMPLETE
    gate.open()
    assert np.array_equal(read(native, memory), VALUES + 3)


def test_host_functions_hold_pyopencls_commands(native, queue, context, theirs):
    memory, may_return, seen = cl_buffer(context), threading.Event(), []

    def function():
        may_return.wait(20)
        seen.append(done.command_execution_status)

    queue.host(function)
    done = theirs(native, (COUNT,), (64,), memory, np.uint32(2))
    may_return.set()
    queue.finish()
    assert seen[0] != cl.command_execution_status.COMPLETE
    assert np.array_equal(read(native, memory), VALUES + 1)


def test_it_is_never_empty_and_makes_a_marker_each_time(native, queue):
    other, before = queue.device.queue(), queue.stats
    for _ in range(3):
        other.wait(queue)
    other.finish()
    assert (queue.stats - before).markers_made == 3
    assert not queue.empty
    assert queue.adopted
    assert queue.native is native


def test_closing_does_not_close_pyopencls(native, queue, context):
    queue.close()
    queue.close()
    memory = cl_buffer(context)
    assert np.array_equal(read(native, memory), VALUES)
    with refused(fb.ClosedError, RuntimeError, "closed"):
        queue.finish()


def test_timing_is_that_of_the_queue(context, own):
    timed = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    queue = fb.Device.adopt_queue(timed)
    start, end = queue.record(timing=True), queue.record(timing=True)
    end.wait()
    assert end - start >= 0
    assert not fb.Device.adopt_queue(cl.CommandQueue(context)).timing


# -- memory of pyopencl


def test_an_array_of_pyopencl(native, queue, step):
    array = cl_array.to_device(native, VALUES.reshape(64, 64))
    queue.launch(step, COUNT // 64, 64, array, 2)
    assert np.array_equal((array + 1).get(), VALUES.reshape(64, 64) + 2)
    buffer = queue.device.as_buffer(array)
    assert (buffer.shape, buffer.dtype) == ((64, 64), np.dtype("u4"))
    assert np.array_equal(buffer.get(queue=queue), VALUES.reshape(64, 64) + 1)


def test_part_of_an_array_of_pyopencl(native, queue, step):
    array = cl_array.to_device(native, VALUES)
    half = array[COUNT // 2 :]
    assert half.offset
    queue.launch(step, COUNT // 128, 64, half, 2)
    assert np.array_equal(array.get()[COUNT // 2 :], VALUES[COUNT // 2 :] + 1)
    assert np.array_equal(array.get()[: COUNT // 2], VALUES[: COUNT // 2])


def test_a_part_of_memory_that_kernels_only_read(native, queue, context):
    memory = cl.Buffer(context, cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR, hostbuf=VALUES)
    part = queue.device.as_buffer(memory).view("u4")[COUNT // 2 :]
    assert np.array_equal(part.get(queue=queue), VALUES[COUNT // 2 :])


def test_memory_outlives_what_others_gave_a_queue_that_is_closed(context, own):
    if not own.driver.takes_host:
        pytest.skip("the device does not reach memory of the host")
    native, gate, values = cl.CommandQueue(context), cl.UserEvent(context), np.zeros(COUNT, "u4")
    queue, buffer, known = fb.Device.adopt_queue(native), own.as_buffer(values), weakref.ref(values)
    try:
        cl.enqueue_marker(native, wait_for=[gate])  # as a kernel that uses the memory
        queue.close()
        del buffer, values
        own.queue().finish()  # which collects
        assert known() is not None
    finally:
        gate.set_status(cl.command_execution_status.COMPLETE)
    native.finish()
    while known() is not None:
        own.queue().finish()


def test_svm_of_pyopencl(native, queue, context, step):
    if not queue.device.driver.has_addresses:
        pytest.skip("the device has no SVM")
    memory = cl.SVMAllocation(context, 4 * COUNT, 0, cl.svm_mem_flags.READ_WRITE)
    cl.enqueue_copy(native, memory, VALUES)
    buffer = queue.device.as_buffer(memory).view("u4")
    queue.launch(step, COUNT // 64, 64, buffer, 2)
    queue.launch(step, COUNT // 128, 64, buffer[COUNT // 2 :], 2)
    queue.launch(step, COUNT // 64, 64, memory, 2)
    expected = VALUES + 2 + (VALUES >= COUNT // 2)
    assert np.array_equal(buffer.get(queue=queue), expected)
    other = queue.device.as_buffer(cl_buffer(context)).view("u4")
    if queue.device.info.kind != "cpu":
        for pair in ((other, buffer), (buffer, other)):
            with refused(fb.NotSupportedError, NotImplementedError, "another package", "NumPy"):
                queue.copy(*pair)
        return
    queue.copy(other, buffer)  # from memory with an address to memory without
    queue.fill(buffer, 1)
    queue.copy(buffer[: COUNT // 2], other[COUNT // 2 :])
    assert np.array_equal(other.get(queue=queue), expected)
    assert np.array_equal(buffer.get(queue=queue)[: COUNT // 2], expected[COUNT // 2 :])


def test_a_dropped_buffer_of_pyopencl_lives_until_the_work_is_done(native, queue, context, step):
    """The array that the work writes to is read by pyopencl's own view of a part of the same memory."""
    memory = cl_buffer(context)
    whole = memory.get_sub_region(0, 4 * COUNT)
    gate = queue.gate()
    queue.launch(step, COUNT // 64, 64, memory, 2)
    del memory
    gc.collect()
    gate.open()
    assert np.array_equal(read(native, whole), VALUES + 1)


def test_captured_launches_keep_the_memory(native, own, context, step):
    memory, queue = cl_buffer(context), own.queue()
    with queue.capture() as graph:
        queue.launch(step, COUNT // 64, 64, memory, 2)
    for _ in range(3):
        graph.launch(queue)
    queue.finish()
    assert np.array_equal(read(native, memory), VALUES + 3)


# -- memory of forebay


def memory_objects(own):
    if not own.driver.has_memory_objects:
        pytest.skip("forebay's memory is addresses alone")


def test_pyopencl_uses_memory_of_forebay(native, queue, own, step, theirs):
    memory_objects(own)
    buffer = own.array(VALUES.reshape(64, 64))
    own.finish()
    array = buffer.to_pyopencl(queue)
    assert (array.shape, array.dtype) == ((64, 64), np.dtype("u4"))
    theirs(native, (COUNT,), (64,), array.data, np.uint32(2))
    queue.launch(step, COUNT // 64, 64, buffer, 2)
    array += 1
    assert np.array_equal(buffer.get(queue=queue), VALUES.reshape(64, 64) + 3)
    assert np.array_equal(array.get(), VALUES.reshape(64, 64) + 3)


def test_a_part_of_memory_of_forebay(native, queue, own):
    memory_objects(own)
    buffer = own.array(VALUES)
    own.finish()
    array = buffer[100:200].to_pyopencl(native)
    array.fill(7)
    queue.finish()
    expected = VALUES.copy()
    expected[100:200] = 7
    assert np.array_equal(buffer.get(queue=queue), expected)


@pytest.mark.parametrize("how", ["closed", "dropped"])
def test_the_memory_lives_as_long_as_pyopencls_array(native, own, how):
    """Memory that is done is handed out again for as many bytes, if nobody else has it."""
    memory_objects(own)
    buffer = own.array(VALUES)
    own.finish()
    array = buffer.to_pyopencl(native)
    part = array.data  # knows nothing of forebay
    if how == "closed":
        buffer.close()
    del buffer, array
    gc.collect()
    own.finish()
    others = [own.zeros(COUNT, "u4") for _ in range(8)]
    own.finish()
    assert np.array_equal(read(native, part), VALUES)
    cl.enqueue_copy(native, part, VALUES[::-1].copy()).wait()
    assert not any(other.get().any() for other in others)


def test_the_memory_below_goes_with_the_last_memory_object(native, own):
    memory_objects(own)
    buffer = own.array(VALUES)
    own.finish()
    part = buffer.to_pyopencl(native).data
    gc.collect()  # what other tests have left gives its memory back, too, and the observer sees all of it
    with observe(own) as calls:
        buffer.close()
        del buffer
        own.finish()
        names = [call.name for call in calls.log]
        assert "clReleaseMemObject" in names  # forebay's own reference
        assert "clSVMFree" not in names
        part.release()
        end = time.monotonic() + 20
        while "clSVMFree" not in [call.name for call in calls.log] and time.monotonic() < end:
            own.finish()  # the driver may call back from a thread of its own
        assert [call.name for call in calls.log].count("clSVMFree") == 1


def test_the_memory_outlives_the_device(context, native):
    own = fb.Device.adopt(context)
    memory_objects(own)
    array = own.array(VALUES).to_pyopencl(native)
    own.close()
    del own
    gc.collect()
    assert np.array_equal(array.get(), VALUES)


@pytest.mark.skipif(not EXECUTES, reason="memory that nothing writes to has no pages")
def test_the_memory_below_goes_after_device_and_context(device):
    def lent():
        """Return a memory object that is the last of its device and context."""
        context = cl.Context([device.info.native])
        with fb.Device.adopt(context) as own:
            buffer = own.array(np.ones(16 << 20, "u1"))
            own.finish()
            return buffer.to_pyopencl(cl.CommandQueue(context)).data

    before = []
    for _ in range(20):
        data = lent()
        gc.collect()
        del data
        before.append(resident())
    assert before[-1] - before[4] < 5 * (16 << 20), before


def test_memory_goes_round(queue, own):
    memory_objects(own)
    buffer = own.array(VALUES)
    own.finish()
    again = own.as_buffer(buffer.to_pyopencl(queue))
    queue.fill(again, 3)
    assert (buffer.get(queue=queue) == 3).all()
    assert buffer.to_pyopencl(queue).base_data == buffer.to_pyopencl(queue).base_data


def test_empty_memory(native, own):
    assert own.empty((0, 3), "f4").to_pyopencl(native).shape == (0, 3)


@pytest.mark.parametrize("full", [False, True])
def test_memory_from_the_pool_is_ordered_for_pyopencls_next_command(native, queue, own, step, full):
    """That command carries no wait, so none is left for it to carry."""
    other = own.queue(blocking=False)
    if full:
        own.pool.growth_limit = 0  # it rather has a queue wait
    with observe(own) as calls, other.gate():
        buffer = other.alloc(COUNT, "u4")
        other.launch(step, 1, 64, buffer, 1)
        address = buffer.address
        other.free(buffer)
        queue.wait(other)
        again = queue.alloc(COUNT, "u4")
        relation = Relation(calls.log, calls.kind)
        last = relation.commands(calls.handle_of(other))[-1]
        carried = relation.queues.get(calls.handle_of(queue), 0) >> last & 1
        assert carried or (again.address != address and not full)


# -- what is refused

TYPE, VALUE = (fb.ArgumentTypeError, TypeError), (fb.InvalidArgumentError, ValueError)
REFUSED = [
    ("fb.Device.adopt(3)", TYPE, "adopt needs", "pyopencl.Context", "int"),
    ("fb.Device.adopt('opencl:cpu')", TYPE, "adopt needs", "pyopencl.Context", "str"),
    ("fb.Device.adopt_queue(3)", TYPE, "pyopencl.CommandQueue", "int"),
    ("fb.Device.adopt_queue(native, 'yes')", TYPE, "blocking", "str"),
    ("fb.Device.adopt_queue(out_of_order())", VALUE, "out of order", "OUT_OF_ORDER_EXEC_MODE_ENABLE"),
    ("own.as_buffer(array[1:])", (fb.NotSupportedError, NotImplementedError), "byte 4", "multiples"),
    ("own.as_buffer(array[::2])", VALUE, "C-contiguous", "copy()"),
    ("own.as_buffer(foreign)", VALUE, "another pyopencl.Context", "Device.adopt"),
    ("own.as_buffer(image())", VALUE, "image"),
    ("queue.launch(step, 1, 1, foreign, 2)", VALUE, "argument 0", "uint* x", "another pyopencl.Context"),
    ("step.bind(queue, 1, 1, array.data, 2)", TYPE, "as_buffer"),
    ("own.graph().add_kernel(step, 1, 1, array.data, 2)", TYPE, "as_buffer"),
    ("queue.wait(cl.enqueue_marker(native))", TYPE, "pyopencl.Event", "Device.adopt_queue"),
    ("device.null_queue.wait(cl.enqueue_marker(native))", TYPE, "pyopencl.Event", "Device.adopt_queue"),
    ("buffer.to_pyopencl(own.queue())", VALUE, "to_pyopencl", "would not see"),
    ("buffer.to_pyopencl(None)", TYPE, "pyopencl.CommandQueue", "NoneType"),
    ("device.zeros(4).to_pyopencl(native)", VALUE, "another pyopencl.Context"),
    ("own.queue().alloc(4096, 'u4').to_pyopencl(native)", VALUE, "Queue.alloc"),
    ("closed.to_pyopencl(native)", (fb.ClosedError, RuntimeError), "closed"),
]


@pytest.mark.parametrize(("written", "kinds", "words"), [(row[0], row[1], row[2:]) for row in REFUSED])
def test_what_is_refused(native, queue, own, step, context, device, written, kinds, words):
    def made(make, *arguments, **options):
        try:
            return make(context, *arguments, **options)
        except cl.Error:
            pytest.skip("the device has none")

    if "to_pyopencl" in written:
        memory_objects(own)
    closed, elsewhere = own.zeros(4), cl.Context([device.info.native])  # no memory object keeps it on Intel's runtime
    closed.close()
    pixels = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.UNSIGNED_INT8)
    names = {
        "fb": fb, "cl": cl, "native": native, "queue": queue, "own": own, "step": step, "device": device,
        "array": cl_array.to_device(native, VALUES), "foreign": cl_buffer(elsewhere), "buffer": own.array(VALUES),
        "closed": closed, "image": lambda: made(cl.create_image, cl.mem_flags.READ_WRITE, pixels, shape=(8, 8)),
        "out_of_order": lambda: made(
            cl.CommandQueue, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
        ),
    }  # fmt: skip
    before = queue.epoch, device.null_queue.epoch
    with refused(*kinds, *words):
        eval(written, names)
    assert written.startswith("device.zeros") or (queue.epoch, device.null_queue.epoch) == before
