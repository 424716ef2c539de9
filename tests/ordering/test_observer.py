"""The observer of driver calls itself."""

import threading

import pytest

import forebay as fb
from tests.helpers.observer import observe


def launch(queue, kernels, buffer, k=1):
    queue.launch(kernels["advance"], 4, 16, buffer, k)


def test_it_sees_calls_only_while_it_is_on(device, kernels):
    buffer = device.zeros(64, "u4")
    queue = device.queue()
    with observe(device) as calls:
        launch(queue, kernels, buffer)
        seen = len(calls)
    launch(queue, kernels, buffer, 2)
    queue.finish()
    assert len(calls) == seen > 0
    with observe(device) as again:
        assert again.log == []


def test_it_is_not_nested_and_ends_with_its_block(device, kernels):
    with observe(device) as calls, pytest.raises(RuntimeError, match="observed already"), observe(device):
        pass
    with pytest.raises(ZeroDivisionError), observe(device):
        raise ZeroDivisionError
    with observe(device):
        pass
    assert calls.log is not None


def test_a_device_opened_meanwhile_is_observed_too(device):
    with observe(device) as calls, fb.Device(private=True) as other:
        fill = calls.name_of("FILL")
        seen = calls.count(fill)
        other.null_queue.fill(other.empty(4, "u4"), 1)
        assert calls.count(fill) == seen + 1


@pytest.mark.needs("OpenCL")
def test_which_call_a_device_takes_is_found_out(device, monkeypatch):
    """OpenCL has one for memory objects and one for SVM."""
    if not device.driver.has_addresses:
        pytest.skip("the device has no shared virtual memory")
    with observe(device) as calls:
        monkeypatch.setattr(device.driver, "has_memory_objects", False)
        assert calls.name_of("UPLOAD") == calls.name_of("DOWNLOAD") == "clEnqueueSVMMemcpy"
        # where memory is an address alone, a kernel fills it
        assert calls.name_of("FILL") == ("clEnqueueSVMMemFill" if device.info.kind == "cpu" else calls.driver.LAUNCH)
        if device.info.kind == "cpu":  # others do not bear memory objects beside
            monkeypatch.setattr(device.driver, "has_memory_objects", True)
            assert calls.name_of("UPLOAD") == "clEnqueueWriteBuffer"
        assert calls.name_of("LAUNCH") == calls.driver.LAUNCH


def test_what_it_notes_of_a_call(device, kernels, hold):
    buffer = device.zeros(64, "u4")
    device.finish()
    with observe(device) as calls:
        first, second = device.queue(blocking=False), device.queue(blocking=False)
        gate = hold(first)
        event = first.record()
        second.wait(event)
        launch(second, kernels, buffer)
        assert not event.done
        gate.open()
        event.wait()
        device.finish()
    created = next(call for call in calls.log if calls.kind(call) == "gate")
    held = next(call for call in calls.log if call.name == calls.driver.HOLD)
    marker = calls.markers_of([first])[-1]
    launched = next(call for call in calls.log if call.name == calls.driver.LAUNCH)
    asked = next(call for call in calls.log if call.name == calls.driver.QUERY and call.event == marker.event)
    opened = next(call for call in calls.log if call.name == calls.driver.OPEN)
    waited = next(call for call in calls.log if call.name == calls.driver.WAIT)
    assert held.waits == (created.event,)
    assert held.object == marker.object == calls.handle_of(first)
    assert marker.event not in (0, created.event)
    assert launched.waits == waited.waits == (marker.event,)
    assert launched.object == calls.handle_of(second)
    assert launched.kernel
    assert launched.event == 0
    assert (asked.event, asked.detail > 0) == (marker.event, True)
    assert (opened.event, opened.detail, opened.status) == (created.event, 0, 0)


def test_serials_are_not_used_again_though_handles_are(device, kernels):
    buffer = device.empty(64, "u4")
    queue = device.queue(blocking=False)
    with observe(device) as calls:
        for k in range(200):
            launch(queue, kernels, buffer, k)
            queue.record().wait()
        made = [call.event for call in calls.log if call.name == calls.driver.MARKER]
        assert len(made) == len(set(made)) == 200
        assert calls.events_alive() == [made[-1]]


def test_it_fails_the_call_it_was_told_to(device, kernels):
    buffer = device.empty(64, "u4")
    queue = device.queue(blocking=False)
    with observe(device) as calls:
        launch(queue, kernels, buffer)
        code, name = calls.driver.FAILURE
        calls.fail(calls.driver.LAUNCH, code, after=2)
        failed = []
        for k in range(5):
            try:
                launch(queue, kernels, buffer)
            except fb.Error as error:
                failed.append((k, error.code, error.call, error.name))
        assert failed == [(2, code, calls.driver.LAUNCH, name)]
        assert [call.status for call in calls.log if call.injected] == [code]
        with pytest.raises(ValueError, match="no call is named 'nothing'"):
            calls.fail("nothing", code)
        calls.fail(calls.driver.LAUNCH, code)
    launch(queue, kernels, buffer)  # what was planned ends with it
    assert queue.epoch == 1 + 4 + 1
    queue.finish()


def test_it_fails_allocations(device):
    with observe(device) as calls:
        device.zeros(4)
        for name in {call.name for call in calls.log if calls.kind(call) == "allocate"}:
            for _ in range(8):  # it is tried again when pools were trimmed, and when what was closed was waited for
                calls.fail(name, calls.driver.OUT_OF_MEMORY)
            with pytest.raises(fb.OutOfMemoryError, match=name):
                device.empty(4)
            calls.forgive()


@pytest.mark.threads
def test_it_loses_nothing_under_contention(device, kernels):
    buffer = device.zeros(64, "u4")
    queues = [device.queue(blocking=False) for _ in range(4)]
    device.finish()
    with observe(device) as calls:
        threads = [
            threading.Thread(target=lambda queue=queue: [launch(queue, kernels, buffer) for _ in range(500)])
            for queue in queues
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        device.finish()
    assert calls.count(calls.driver.LAUNCH) == 2000


# Waits that are lost on purpose


@pytest.mark.needs("waits that can be lost")
def test_as_many_waits_are_lost_as_it_is_told_to(device, calls):
    calls.driver.drop_waits(3)
    a, b = device.queue(blocking=False), device.queue(blocking=False)
    with device.empty(16, "u4") as x:
        for _ in range(9):
            with a.gate() as gate:  # so that the wait is for what is not done
                b.wait(a)
                b.fill(x, 2)
                gate.open()
            b.finish()
        assert calls.driver.waits_dropped() in (3, 6)  # a gate is a wait, too, on some
        calls.forgive()


@pytest.mark.needs("waits that can be lost")
@pytest.mark.parametrize("lost", [False, True])
def test_a_wait_that_is_lost_holds_nobody(device, calls, lost):
    if device.info.backend == "sycl":
        pytest.skip("forebay itself keeps back there what is behind a gate")
    a, b = device.queue(blocking=False), device.queue(blocking=False)
    with device.empty(16, "u4") as x:
        with a.gate() as gate:
            calls.driver.drop_waits(int(lost))
            b.wait(a)
            b.fill(x, 1)
            if lost:
                b.finish(timeout=60)
            assert b.query() == lost
            gate.open()
        a.finish()
        calls.forgive()


def test_dependencies_of_a_graph_are_lost_where_the_driver_has_them(device, calls):
    """Elsewhere the two are in order by the queue that runs them."""
    with device.empty(16, "u4") as x, device.graph() as graph:
        calls.driver.drop_waits(1)
        graph.add_fill(x, 2, after=graph.add_fill(x, 1))
        graph.launch(device.null_queue)
        device.finish()
        assert calls.driver.waits_dropped() == (device.info.backend == "cuda")
        calls.forgive()
