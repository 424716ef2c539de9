"""forebay submits to queues of dpctl, too: real results, and no host sync in between."""

import ctypes
import gc
from functools import partial

import dpctl
import numpy as np
import pytest

import forebay as fb
from tests.helpers.observer import observe
from tests.helpers.processes import output_of, python
from tests.helpers.refusals import refused
from tests.helpers.threads import beside, together

from .conftest import COUNT, LONG, SOURCE, VALUES, contents, steps, usm

REVERSED = VALUES[::-1].copy()


@pytest.fixture
def buffer(device, memory):
    """The same memory, as forebay's."""
    return device.as_buffer(memory).view("u4")


def test_dpctl_then_forebay_then_dpctl(sycl_queue, queue, device, step):
    first, second = usm(sycl_queue), usm(sycl_queue)
    buffer = device.as_buffer(first).view("u4")
    out = np.zeros(COUNT, np.uint32)
    sycl_queue.memcpy_async(first, VALUES.view("u1"), 4 * COUNT)
    queue.launch(step, COUNT // 64, 64, buffer, LONG)
    sycl_queue.memcpy_async(second, first, 4 * COUNT)
    sycl_queue.memcpy_async(first, second, 4 * COUNT)
    queue.launch(step, COUNT // 64, 64, buffer, 7)
    sycl_queue.memcpy_async(out.view("u1"), first, 4 * COUNT)
    sycl_queue.wait()
    assert np.array_equal(out, steps(VALUES, LONG + 7))


def test_kernels_of_dpctl_and_of_forebay_in_turn(sycl_queue, queue, step, memory, buffer):
    from dpctl import program

    build = getattr(program, "create_kernel_bundle_from_source", None) or program.create_program_from_source
    theirs = build(sycl_queue, SOURCE).get_sycl_kernel("step")
    bound = step.bind(queue, COUNT // 64, 64, buffer, 3)
    for _ in range(20):
        sycl_queue.submit_async(theirs, [memory, ctypes.c_uint32(5)], [COUNT], [64])
        bound()
        queue.launch(step, COUNT // 64, 64, buffer, 2)
    queue.finish()
    assert np.array_equal(contents(memory), steps(VALUES, 200))


def test_copies_and_fills_of_forebay_come_after_dpctls_work(sycl_queue, queue, device):
    memory, other = usm(sycl_queue), usm(sycl_queue, VALUES)
    buffer = device.as_buffer(memory).view("u4")
    queue.fill(buffer, 5)
    sycl_queue.memcpy_async(memory, other, 4 * COUNT - 4)
    queue.copy(buffer[:1], np.array([77], np.uint32))
    got = buffer.get(queue=queue)
    assert got[0] == 77
    assert np.array_equal(got[1:-1], VALUES[1:-1])
    assert got[-1] == 5


def test_another_queue_waits_for_what_only_dpctl_submitted(sycl_queue, queue, device, step, memory, buffer):
    source, out = usm(sycl_queue, VALUES), device.empty(COUNT, "u4")
    own = device.queue(blocking=False)
    queue.launch(step, COUNT // 64, 64, buffer, LONG)
    queue.finish()
    for _ in range(50):
        sycl_queue.memcpy_async(memory, source, 4 * COUNT)
    own.wait(queue)
    own.copy(out, buffer)
    assert np.array_equal(out.get(queue=own), VALUES)


def test_the_null_queue_waits_for_what_only_dpctl_submitted(sycl_queue, queue, device, step, memory, buffer):
    host = np.zeros(COUNT, np.uint32)
    with observe(device) as calls:
        sycl_queue.memcpy_async(memory, REVERSED.view("u1"), 4 * COUNT)
        device.null_queue.copy(host, buffer)
        device.null_queue.finish()
        assert [len(call.waits) for call in calls.log if call.name.startswith("DPCTLQueue_Memcpy")] == [1]
    assert np.array_equal(host, REVERSED)


def test_each_null_command_waits_for_it_anew_and_markers_are_never_shared(queue, device, step):
    buffer = device.array(VALUES)
    device.finish()
    before = device.stats
    for _ in range(5):
        device.null_queue.launch(step, COUNT // 64, 64, buffer, 1)
    made = device.stats - before
    assert made.markers_made == 5
    assert made.markers_shared == 0
    assert made.waits_made == 5


def test_it_comes_after_null_work(sycl_queue, queue, device, step, memory, buffer):
    device.null_queue.launch(step, COUNT // 64, 64, buffer, LONG)
    queue.launch(step, COUNT // 64, 64, buffer, 1)
    sycl_queue.wait()  # dpctl knows nothing of forebay
    assert np.array_equal(contents(memory), steps(VALUES, LONG + 1))


@pytest.mark.parametrize("held", [False, True])
def test_null_work_and_dpctls_work_in_turn_under_load(sycl_queue, queue, device, step, held):
    """Only the null queue's rule orders each half, while other queues keep the device busy."""
    memory, source = usm(sycl_queue), usm(sycl_queue, VALUES)
    buffer = device.as_buffer(memory).view("u4")
    others = [device.queue(blocking=False) for _ in range(3)]
    loads = [device.zeros(COUNT, "u4") for _ in others]
    device.finish()
    total = np.zeros(COUNT, np.uint32)
    sum_of = device.zeros(COUNT, "u4")
    add = device.program("kernel void add(global uint *a, global const uint *b) "
                         "{ a[get_global_id(0)] += b[get_global_id(0)]; }")["add"]  # fmt: skip
    device.finish()
    for k in range(60):
        for other, load in zip(others, loads, strict=True):
            gate = other.gate() if held else None
            other.launch(step, COUNT // 64, 64, load, 50)
            if gate:
                gate.open()
        sycl_queue.memcpy_async(memory, source, 4 * COUNT)
        device.null_queue.launch(step, COUNT // 64, 64, buffer, 1 + k % 3)  # after dpctl's copy
        queue.launch(step, COUNT // 64, 64, buffer, 1)  # after the null queue's
        sycl_queue.memcpy_async(source, memory, 4 * COUNT)
        device.null_queue.launch(add, COUNT // 64, 64, sum_of, device.as_buffer(source).view("u4"))
        queue.wait(device.null_queue)  # the next copy of dpctl's overwrites nothing that is still read
    device.finish()
    sycl_queue.wait()
    values = VALUES
    for k in range(60):
        values = steps(values, 2 + k % 3)
        total += values
    assert np.array_equal(contents(source), values)
    assert np.array_equal(sum_of.get(), total)


def test_memory_is_not_freed_under_the_work_of_a_queue_that_is_held(queue, device, step):
    """On held and on adopted, busy queues: buffers dropped after a launch, and others that could get their memory."""
    own = device.queue(blocking=False)
    for each in (own, queue):
        for _ in range(20):
            gate = own.gate() if each is own else None
            buffer, kept = device.empty(COUNT, "u4"), device.empty(COUNT, "u4")
            each.copy(buffer, VALUES)  # nothing orders a queue that does not block after the null queue
            each.launch(step, COUNT // 64, 64, buffer, 300)
            each.copy(kept, buffer)
            del buffer
            gc.collect()
            others = [device.array(REVERSED) for _ in range(3)]  # on the null queue
            if gate:
                gate.open()
            assert np.array_equal(kept.get(queue=each), steps(VALUES, 300))
            assert all(np.array_equal(other.get(queue=device.null_queue), REVERSED) for other in others)


def test_a_queue_that_does_not_block_takes_no_part(sycl_queue, native):
    queue = fb.Device.adopt_queue(sycl_queue, blocking=False)
    with queue.device as device:
        buffer = device.array(VALUES)
        device.finish()
        before = device.stats.waits_made
        queue.fill(buffer, 1)
        device.null_queue.fill(buffer[:1], 2)
        assert device.stats.waits_made == before
        assert not queue.blocking


def test_only_the_driver_says_that_it_is_done(queue, device, step, buffer):
    assert not queue.empty
    assert queue.query()
    queue.launch(step, COUNT // 64, 64, buffer, LONG)
    queue.finish()
    assert not queue.empty
    with observe(device) as calls:
        queue.finish()
        device.finish()
        assert calls.kinds()["finish"] + calls.kinds()["wait"] == 2


def test_closing_it_does_not_end_the_ordering_of_what_it_got(sycl_queue, queue, device, step, memory, buffer):
    queue.launch(step, COUNT // 64, 64, buffer, LONG)
    queue.finish()
    sycl_queue.memcpy_async(memory, VALUES.view("u1"), 4 * COUNT)
    queue.close()
    before = device.stats.waits_made
    host = np.zeros(COUNT, np.uint32)
    device.null_queue.copy(host, buffer)
    device.null_queue.finish()
    assert np.array_equal(host, VALUES)
    assert device.stats.waits_made - before <= 1  # none if it was done by then
    with refused(fb.ClosedError, RuntimeError, "closed"):
        queue.launch(step, 1, 1, buffer, 1)
    sycl_queue.memcpy(memory, REVERSED.view("u1"), 4 * COUNT)  # dpctl's queue is not closed
    assert np.array_equal(contents(memory), REVERSED)


def test_losing_it_leaves_dpctls_queue_and_lets_go_of_forebays(sycl_queue, queue, device, step):
    other = fb.Device.adopt_queue(dpctl.SyclQueue(sycl_queue.sycl_context, sycl_queue.sycl_device, property="in_order"))
    before = device.stats.fills  # the device may be one that was open already
    other.fill(device.empty(COUNT, "u4"), 1)
    del other
    gc.collect()
    for _ in range(3):
        device.finish()
    assert device.stats.fills == before + 1  # counted, so not lost
    sycl_queue.wait()


FINDING = """
import dpctl
import forebay as fb

with fb.Device("sycl") as device:
    queue = dpctl.SyclQueue(device.driver.context, device.driver.native, property="in_order")
    assert fb.Device.adopt_queue(queue).device is device
with fb.Device.adopt_queue(queue).device as other:
    assert other is not device
"""


def test_two_queues_of_one_context_share_a_device(sycl_queue, queue, native):
    again = fb.Device.adopt_queue(sycl_queue)
    other = fb.Device.adopt_queue(dpctl.SyclQueue(sycl_queue.sycl_context, native, property="in_order"))
    assert again.device is queue.device
    assert other.device is queue.device
    assert again != queue
    assert queue.native is sycl_queue


def test_a_device_made_before_is_found_and_a_closed_one_is_not():
    """In a process of its own: of several Devices on one context the oldest is found."""
    output_of("-c", FINDING)


def test_threads_that_adopt_at_once_get_one_device(native):
    context = dpctl.SyclQueue(native).sycl_context
    theirs = [dpctl.SyclQueue(context, native, property="in_order") for _ in range(6)]
    queues = together(*[partial(fb.Device.adopt_queue, each) for each in theirs])
    assert len({queue.device for queue in queues}) == 1
    queues[0].device.close()


def test_two_threads_submit_to_it(sycl_queue, queue, device):
    """dpctl submits from one thread, forebay from another: without order, but nothing is lost and nothing hangs."""
    add = device.program("kernel void add(global uint *a) { a[get_global_id(0)] += 1; }")["add"]
    memory, other = usm(sycl_queue, np.zeros(COUNT, np.uint32)), usm(sycl_queue)
    buffer = device.as_buffer(memory).view("u4")

    def copy():
        for _ in range(300):
            sycl_queue.memcpy_async(other, memory, 4 * COUNT)

    with beside(copy):
        for _ in range(300):
            queue.launch(add, COUNT // 64, 64, buffer)
    queue.finish()
    assert np.array_equal(contents(memory), np.full(COUNT, 300, np.uint32))


def test_a_timed_queue_gives_times(native):
    theirs = dpctl.SyclQueue(native, property=("in_order", "enable_profiling"))
    queue = fb.Device.adopt_queue(theirs)
    with queue.device as device:
        assert queue.timing
        begin = queue.record(timing=True)
        queue.fill(device.empty(1 << 20, "u4"), 1)
        end = queue.record(timing=True)
        queue.finish()
        assert end - begin > 0


# What cannot be


def test_host_functions_are_refused(queue):
    with refused(fb.NotSupportedError, NotImplementedError, "cannot be held"):
        queue.host(lambda: None)
    queue.finish()


def test_it_cannot_wait_for_what_is_held(queue, device):
    own, buffer = device.queue(), device.empty(COUNT, "u4")
    gate = own.gate()
    own.fill(buffer, 3)
    queue.wait(own)
    with refused(fb.NotSupportedError, NotImplementedError, "behind a gate"):
        queue.fill(buffer, 4)
    gate.open()
    queue.fill(buffer[1:], 4)
    assert buffer.get(queue=queue).tolist() == [3] + [4] * (COUNT - 1)


def test_what_is_no_queue_in_order_is_refused(native, sycl_queue):
    for wrong in (None, 3, "sycl:cpu", native):
        with refused(fb.Error, TypeError, "dpctl.SyclQueue", type(wrong).__name__):
            fb.Device.adopt_queue(wrong)
    with refused(fb.InvalidArgumentError, ValueError, "out of order", "property='in_order'"):
        fb.Device.adopt_queue(dpctl.SyclQueue(native))
    with refused(fb.Error, TypeError, "blocking is a bool"):
        fb.Device.adopt_queue(sycl_queue, blocking="yes")


def test_without_dpctl_it_says_what_to_install_and_the_other_drivers_work():
    done = python("-c", """
import sys; sys.modules["dpctl"] = None
import forebay as fb
print([device.backend for device in fb.devices()])
fb.Device("sycl:cpu")""")  # fmt: skip
    assert done.returncode
    assert "pip install 'forebay[sycl]'" in done.stderr
    assert "sycl" not in done.stdout
