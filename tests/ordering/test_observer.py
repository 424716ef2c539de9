"""The observer of driver calls itself: what other tests rely on, on any driver."""

import pytest

import forebay as fb
from tests.helpers.observer import observe


def launch(queue, kernels, buffer, k=1):
    queue.launch(kernels["advance"], 4, 16, buffer, k)


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
        seen = len(calls)
    launch(second, kernels, buffer)
    device.finish()
    assert len(calls) == seen
    driver, marker = calls.driver, calls.markers_of([first])[-1]
    created = next(call for call in calls.log if calls.kind(call) == "gate")
    held, launched, opened, waited = (
        next(call for call in calls.log if call.name == name)
        for name in (driver.HOLD, driver.LAUNCH, driver.OPEN, driver.WAIT)
    )
    asked = next(call for call in calls.log if call.name == driver.QUERY and call.event == marker.event)
    assert held.waits == (created.event,)
    assert held.object == marker.object == calls.handle_of(first)
    assert marker.event not in (0, created.event)
    assert launched.waits == waited.waits == (marker.event,)
    assert (launched.object, launched.event) == (calls.handle_of(second), 0)
    assert launched.kernel
    assert asked.detail > 0
    assert (opened.event, opened.detail, opened.status) == (created.event, 0, 0)


def test_serials_are_not_used_again_and_calls_fail_as_planned(device, kernels):
    buffer, queue, failed = device.empty(64, "u4"), device.queue(blocking=False), []
    with observe(device) as calls:
        code, name = calls.driver.FAILURE
        launch(queue, kernels, buffer)
        calls.fail(calls.driver.LAUNCH, code, after=2)
        for k in range(50):
            try:
                launch(queue, kernels, buffer, k)
            except fb.Error as error:
                failed.append((k, error.code, error.call, error.name))
            queue.record().wait()
        made = [call.event for call in calls.log if call.name == calls.driver.MARKER]
        assert len(set(made)) == len(made) >= 49
        assert calls.events_alive() == [made[-1]]
        assert failed == [(2, code, calls.driver.LAUNCH, name)]
        assert [call.status for call in calls.log if call.injected] == [code]
        with pytest.raises(ValueError, match="no call is named 'nothing'"):
            calls.fail("nothing", code)
        calls.fail(calls.driver.LAUNCH, code)
    launch(queue, kernels, buffer)  # what was planned ends with it
    queue.finish()
