"""A device that is lost: every call says so, and what failed first; closing gives everything back; a new one works."""

import gc
import threading
import weakref

import numpy as np
import pytest

import forebay as fb
from forebay.queues.selection import select
from tests.helpers.observer import EXECUTES, LOST, observe
from tests.helpers.threads import beside
from tests.inside import context_of, without_shared_contexts
from tests.observers.internals import locked

from .program import SOURCE


def lossy():
    """A Device that can be lost, with a context of its own."""
    if select().backend not in LOST:
        pytest.skip("no code says that this device is lost")
    return fb.Device(private=True)


@pytest.fixture
def device(watched):
    with lossy() as device:
        yield device


@pytest.fixture
def kernels(device):
    return device.program(SOURCE)


@pytest.fixture
def calls(device, kernels):
    device.finish()
    with observe(device) as calls:
        yield calls


@pytest.fixture
def lose(device, calls):
    """``lose(name, command)``: the driver's call of this name says that the device is lost. Returns the error."""
    code, word = LOST[device.info.backend]

    def lose(name, command):
        calls.fail(name, code)
        with pytest.raises(fb.DeviceLostError, match=word) as caught:
            command()
        calls.forgive()
        assert (abs(caught.value.code), caught.value.name) == (abs(code), word)  # negative if a command failed
        return caught.value

    return lose


def test_each_later_call_says_what_failed_first(device, kernels, calls, lose):
    queue, other, null = device.queue(), device.queue(blocking=False), device.null_queue
    buffer, advance = device.zeros(64, "u4"), kernels["advance"]
    out = np.zeros(64, "u4")
    event, timed = queue.record(), null.record(timing=True)
    bound = advance.bind(other, 4, 16, buffer, 1)
    graph = device.graph()
    graph.add_kernel(advance, 4, 16, buffer, 1)
    executable = graph.instantiate()
    device.finish()
    error = lose(calls.driver.LAUNCH, lambda: queue.launch(advance, 4, 16, buffer, 1))
    assert calls.driver.LAUNCH in str(error)
    first = len(calls)
    for call in (
        lambda: queue.launch(advance, 4, 16, buffer, 1), lambda: other.launch(advance, 4, 16, buffer, 1),
        lambda: null.launch(advance, 4, 16, buffer, 1), bound, lambda: executable.launch(other),
        lambda: queue.copy(out, buffer), lambda: queue.fill(buffer, 1), lambda: queue.host(int), queue.gate,
        queue.record, lambda: queue.wait(other), lambda: queue.wait(event), queue.query, queue.finish, null.finish,
        event.query, event.wait, lambda: timed.elapsed(timed), device.finish, device.queue,
        lambda: device.empty(64, "u4"), lambda: queue.alloc(64, "u4"), lambda: device.program(SOURCE),
        lambda: buffer.get(queue=queue),
    ):  # fmt: skip
        with pytest.raises(fb.DeviceLostError, match="is lost") as caught:
            call()
        assert str(error) in str(caught.value)
    assert not [call for call in calls.since(first) if calls.kind(call) == "command"]


def test_closing_it_gives_everything_back(watched):
    device = lossy()
    advance, buffer = device.program(SOURCE)["advance"], device.zeros(64, "u4")
    device.finish()
    with observe(device) as calls:
        ran, queue = [], device.queue(blocking=False)
        gate = queue.gate()
        queue.host(lambda: ran.append(1))
        calls.fail(calls.driver.LAUNCH, LOST[device.info.backend][0])
        with pytest.raises(fb.DeviceLostError):
            queue.launch(advance, 4, 16, buffer, 1)
        gate.open()
        device.close()  # whoever closes it knows already
        device.close()
        assert device.closed
        with pytest.raises(fb.ClosedError):
            buffer.get()
        assert ran == [1]  # this driver still works
    alive = weakref.ref(device), weakref.ref(queue)
    del device, queue, buffer, gate, advance, calls
    gc.collect()
    assert [each() for each in alive] == [None, None]


def test_a_wait_that_finds_it_lost(device, kernels, calls, lose):
    queue, buffer = device.queue(), device.zeros(64, "u4")
    queue.launch(kernels["advance"], 4, 16, buffer, 1)
    event = queue.record()
    error = lose(calls.driver.FINISH, queue.finish)
    with pytest.raises(fb.DeviceLostError) as caught:
        event.query()
    assert str(error) in str(caught.value)


def test_a_query_that_finds_it_lost_waits_for_no_queue(device, kernels, calls, lose, hold):
    """Not even for one that another thread is busy with, which is told by the driver."""
    queue, busy, buffer = device.queue(blocking=False), device.queue(blocking=False), device.zeros(64, "u4")
    device.finish()
    hold(queue)
    event = queue.record()
    with locked(busy):
        error = lose(calls.driver.QUERY, event.query)
    with pytest.raises(fb.DeviceLostError) as caught:
        queue.launch(kernels["advance"], 4, 16, buffer, 1)
    assert str(error) in str(caught.value)
    error = lose(calls.driver.LAUNCH, lambda: busy.launch(kernels["advance"], 4, 16, buffer, 1))
    assert calls.driver.QUERY in str(error) or "a command failed" in str(error)  # what failed first


@pytest.mark.needs("no validation layer")  # which refuses to destroy what nobody has seen done
def test_closing_is_the_first_to_find_it_lost(watched):
    device = lossy()
    code, word = LOST[device.info.backend]
    program, queue, buffer = device.program(SOURCE), device.queue(), device.zeros(64, "u4")
    queue.launch(program["advance"], 4, 16, buffer, 1)
    queue.finish()
    with observe(device) as calls:
        queue.launch(program["advance"], 4, 16, buffer, 1)
        if device.info.backend == "opencl":
            queue.native.finish()  # or it would still run, because this device is not really lost
        for name in (calls.driver.MARKER, calls.driver.FINISH, calls.driver.WAIT):
            for _ in range(20):
                calls.fail(name, code)
        with pytest.raises(fb.DeviceLostError, match=word):
            device.close()
        calls.forgive()
        assert device.closed
        device.close()
        watched.violations()  # it does not know that nothing runs
    del device, program, queue, buffer, calls
    gc.collect()
    watched.violations()  # of what has gone with the device


def test_others_go_on_and_a_new_one_has_its_own_context(watched):
    if select().backend not in LOST:
        pytest.skip("no code says that this device is lost")
    with without_shared_contexts(), fb.Device() as other:
        code, word = LOST[other.info.backend]
        with fb.Device(other.name) as device, fb.Device(other.name, private=True) as apart:
            assert context_of(device) is context_of(other)
            advance, queue, buffer = device.program(SOURCE)["advance"], device.queue(), device.zeros(64, "u4")
            device.finish()
            with observe(device) as calls:
                calls.fail(calls.driver.LAUNCH, code)
                with pytest.raises(fb.DeviceLostError, match=word):
                    queue.launch(advance, 4, 16, buffer, 1)
            for lost in (device, other):
                with pytest.raises(fb.DeviceLostError, match="is lost"):
                    lost.finish()
            with fb.Device(other.name) as fresh:
                assert context_of(fresh) is not context_of(device)
                for each in (apart, fresh):
                    mine = each.zeros(64, "u4")
                    each.null_queue.launch(each.program(SOURCE)["advance"], 4, 16, mine, 7)
                    assert not EXECUTES or mine.get().tolist() == [7] * 64


@pytest.mark.threads
def test_threads_that_work_when_it_is_lost_all_hear_of_it(device, kernels, calls):
    code, _ = LOST[device.info.backend]
    told, began = [], threading.Barrier(4)

    def work():
        queue, buffer = device.queue(), device.zeros(64, "u4")
        began.wait()
        try:
            while True:
                queue.launch(kernels["advance"], 4, 16, buffer, 1)
                queue.record().query()
                queue.finish()
        except fb.DeviceLostError as error:
            told.append(str(error))

    with beside(*[work] * 3):
        began.wait()
        calls.fail(calls.driver.LAUNCH, code, 50)
    first = min(told, key=len)
    assert len(told) == 3
    assert all(first in each for each in told)
