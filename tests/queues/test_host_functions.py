import functools
import gc
import sys
import threading
import weakref

import pytest

import forebay as fb


@pytest.mark.executes
def test_they_run_in_order_and_in_one_thread(queue):
    seen = []
    for number in range(2000):
        queue.host(lambda number=number: seen.append((number, threading.get_ident())))
    queue.finish()
    assert [number for number, _ in seen] == list(range(2000))
    assert len({thread for _, thread in seen}) == 1
    assert seen[0][1] != threading.get_ident()
    assert queue.stats.host_functions == 2000


@pytest.mark.executes
def test_it_may_not_wait(device, queue, works):
    event = device.null_queue.record()
    with queue.gate():
        mine = queue.record()
    errors = []

    def attempt():
        for wait in (queue.finish, lambda: queue.finish(timeout=1), device.finish, mine.wait):
            try:
                wait()
            except fb.Error as error:
                errors.append(str(error))

    queue.host(attempt)
    queue.finish()
    assert len(errors) == 4
    assert all("inside a host function" in error for error in errors)
    assert event.query()
    works(queue)


@pytest.mark.executes
@pytest.mark.parametrize("how", ["close", "with"])
def test_it_may_not_close_a_device(device, how):
    other = fb.Device(device.name, private=True)
    queue, busy, captured = other.queue(blocking=False), other.queue(blocking=False), other.queue(blocking=False)
    captured.begin_capture(mode="relaxed")
    errors = []

    def attempt():
        try:
            with other:
                if how == "close":
                    other.close()
        except fb.Error as error:
            errors.append(str(error))

    with busy.gate():
        queue.host(attempt)
        queue.finish()
        assert len(errors) == 1
        assert "Device.close() inside a host function" in errors[0]
        assert not other.closed
        assert not queue.closed
        assert not busy.query()
        captured.end_capture()
        busy.fill(other.empty(10, "i4"), 1)
    other.close()
    assert other.closed
    assert busy.empty


# What it raises


def raising(error):
    def function():
        raise error

    return function


@pytest.fixture
def unraisable():
    """What `sys.unraisablehook` was given: exceptions, each with the text of its object."""
    given, before = [], sys.unraisablehook

    def hook(what):
        given.append((what.exc_value, str(what.object)))
        if str(what.exc_value).startswith("fail:"):
            raise RuntimeError("the hook's")

    sys.unraisablehook = hook
    yield given
    sys.unraisablehook = before


@pytest.mark.executes
@pytest.mark.parametrize(
    "error", [ZeroDivisionError("mine"), fb.Error("mine"), SystemExit("mine"), KeyboardInterrupt("mine")]
)
@pytest.mark.parametrize(
    "how",
    ["finish", "finish with a timeout", "the event's wait", "the device's finish", "the null queue's finish", "get"],
)
def test_what_it_raises_is_raised_by_the_next_synchronize(device, queue, works, error, how):
    queue.host(raising(error))
    event = queue.record()
    synchronize = {
        "finish": queue.finish,
        "finish with a timeout": lambda: queue.finish(timeout=60),
        "the event's wait": event.wait,
        "the device's finish": device.finish,
        "the null queue's finish": device.null_queue.finish,
        "get": lambda: device.zeros(1).get(queue=queue),
    }[how]
    with pytest.raises(type(error), match="mine") as caught:
        synchronize()
    assert caught.value is error
    queue.finish()
    device.finish()
    works(queue)


@pytest.mark.executes
def test_only_the_synchronize_of_its_own_queue_raises_it(device, make_queue, works):
    guilty, other = make_queue(blocking=False), make_queue(blocking=False)
    guilty.host(raising(ZeroDivisionError("mine")))
    guilty.record()
    while not guilty.query():
        pass
    other.finish()
    device.null_queue.finish()
    other.record().wait()
    with pytest.raises(ZeroDivisionError):
        guilty.finish()
    works(guilty)


@pytest.mark.executes
def test_each_is_raised_once_the_oldest_first(device, queue):
    for number in range(3):
        queue.host(raising(ValueError(f"number {number}")))
    for number in range(3):
        with pytest.raises(ValueError, match=f"number {number}"):
            queue.finish()
    queue.finish()


@pytest.mark.executes
def test_closing_a_device_hands_on_what_it_does_not_raise(device, unraisable):
    other = fb.Device(device.name, private=True)
    queue, null, errors = other.queue(), other.null_queue, [ValueError(f"number {number}") for number in range(4)]
    function = raising(errors[2])
    for name, error in zip((queue, null, null), (errors[0], errors[1], errors[3]), strict=True):
        name.host(raising(error))
    queue.host(functools.partial(function))
    with pytest.raises(ValueError, match="number 0"):
        queue.finish()
    assert unraisable == []
    with pytest.raises(ValueError, match="number 1"):
        other.close()
    other.close()
    assert [error for error, _ in unraisable] == [errors[3], errors[2]]
    assert unraisable[0][1] == f"host function raising.<locals>.function of {null!r}"
    assert unraisable[1][1] == f"host function partial of {queue!r}"
    assert errors[2].__traceback__.tb_next.tb_frame.f_code is function.__code__
    del other, queue, null, name
    gc.collect()
    assert len(unraisable) == 2


@pytest.mark.executes
@pytest.mark.parametrize("told", [False, True])
def test_dropping_a_device_hands_on_what_nobody_was_told(device, unraisable, told):
    other, error = fb.Device(device.name, private=True), ZeroDivisionError("mine")
    alive = weakref.ref(other)
    queue = other.queue()
    queue.host(raising(error))
    event = queue.record()
    while not event.query():
        pass
    if told:
        with pytest.raises(ZeroDivisionError):
            queue.finish()
    assert unraisable == []
    error.__traceback__ = None  # this frame, which has the device
    del other, queue, event
    gc.collect()
    assert alive() is None
    assert [given for given, _ in unraisable] == ([] if told else [error])


@pytest.mark.executes
def test_a_hook_that_fails_itself_hides_nothing_else(device, unraisable, capfd):
    other = fb.Device(device.name, private=True)
    for number in range(3):
        other.null_queue.host(raising(ValueError(f"fail: {number}")))
    with pytest.raises(ValueError, match="fail: 0"):
        other.close()
    assert [str(error) for error, _ in unraisable] == ["fail: 1", "fail: 2"]
    assert other.closed
    assert capfd.readouterr().err.count("RuntimeError: the hook's") == 2


# Life


@pytest.mark.parametrize("thing", [None, 5, "print", [print]])
def test_what_cannot_be_called_is_refused(queue, refuses, thing):
    with refuses(fb.ArgumentTypeError, TypeError, "call", type(thing).__name__):
        queue.host(thing)
