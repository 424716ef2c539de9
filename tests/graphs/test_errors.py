"""What cannot be captured raises HIP's error, and the queues are usable afterwards."""

import gc
import weakref

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data
from tests.helpers.refusals import refused
from tests.inside import capture_of

MODES = ["global", "thread_local", "relaxed"]
CAPTURE_ERRORS = [getattr(fb, name) for name in fb.__all__ if name.startswith("Capture")]


@pytest.fixture
def begin():
    """``begin(queue)``: a capture that is ended at last when the test is over."""
    begun = []

    def begin(queue, mode="global"):
        queue.begin_capture(mode)
        begun.append(capture_of(queue))
        return begun[-1]

    yield begin
    for capture in begun:
        capture.abandon()


@pytest.fixture
def invalid(device, works):
    """``invalid(queue)``: whatever comes is refused, ending included, and after that all is well."""
    buffer = device.empty(4)

    def invalid(queue):
        with refused(fb.CaptureInvalidatedError, RuntimeError, "invalidated"):
            queue.fill(buffer, 0)
        with refused(fb.CaptureInvalidatedError, RuntimeError, "invalidated"):
            queue.end_capture()
        assert not queue.capturing
        works(queue)

    return invalid


def test_each_error_has_hips_name():
    assert len({error.hip_name for error in CAPTURE_ERRORS}) == len(CAPTURE_ERRORS)
    assert all(error.hip_name.startswith("hipError") for error in CAPTURE_ERRORS)


def test_no_time_passes_in_a_capture(make_queue, begin, invalid):
    queue = make_queue(timing=True)
    start = queue.record(timing=True)
    begin(queue)
    end = queue.record(timing=True)
    with refused(fb.CapturedEventError, RuntimeError, "recorded in a capture"):
        end - start
    invalid(queue)


@pytest.mark.parametrize("what", ["launch", "fill", "copy", "host", "record", "finish", "query", "graph"])
@pytest.mark.parametrize("mode", MODES)
def test_the_null_queue_while_a_blocking_queue_is_captured(device, queue, begin, program, invalid, works, what, mode):
    buffer, null = device.empty(100, "i4"), device.null_queue
    graph = device.graph()
    graph.add_fill(buffer, 1)
    executable = graph.instantiate()
    works(null)
    before = null.epoch, null.stats
    begin(queue, mode)
    do = {
        "launch": lambda: null.launch(program["fill"], 10, 10, buffer, 1),
        "fill": lambda: null.fill(buffer, 1),
        "copy": lambda: null.copy(buffer, np.zeros(100, "i4")),
        "host": lambda: null.host(lambda: None),
        "record": null.record,
        "finish": null.finish,
        "query": null.query,
        "graph": lambda: executable.launch(null),
    }[what]
    with refused(fb.CaptureImplicitError, RuntimeError, "null queue"):
        do()
    assert (null.epoch, null.stats) == before
    invalid(queue)
    if what != "host":  # which null hardware never calls
        do()
    works(null)


@pytest.mark.parametrize("mode", MODES)
def test_what_the_host_cannot_do_in_a_capture_says_how_else(device, queue, make_queue, kernels, begin, invalid, mode):
    """Nothing is submitted, and no wait for another queue's past is captured."""
    buffer, other = device.empty(4), make_queue()
    unsupported, implicit, event = fb.CaptureUnsupportedError, fb.CaptureImplicitError, fb.CapturedEventError
    isolated, advance = fb.CaptureIsolationError, kernels["advance"]
    for do, kind, words in (
        (lambda: buffer.get(queue=queue), unsupported, ("get() waits", "queue.copy(array, buffer)")),
        (lambda: buffer[::2].get(queue=queue), unsupported, ("strided memory to the host",)),
        (buffer.get, implicit, ("null queue", "get() waits", "queue.copy(array, buffer)")),
        (lambda: np.asarray(buffer), implicit, ("null queue", "queue.copy(array, buffer)")),
        (queue.finish, unsupported, ("captured", repr(queue), "finish", "after the end of a capture")),
        (lambda: queue.finish(timeout=1), unsupported, ("captured", repr(queue))),
        (queue.query, unsupported, ("captured", repr(queue))),
        (lambda: queue.launch(advance, 1, 1, 3, result="u4"), unsupported, (repr(queue),)),
        (device.finish, unsupported, ("captured", repr(queue), "Device.finish()", "after the end of a capture")),
        (lambda: queue.record().wait(), event, ("recorded in a capture",)),
        (lambda: queue.record().query(), event, ("recorded in a capture",)),
        (lambda: queue.wait(other), isolated, ("not",)),
        (lambda: queue.wait(other.record()), isolated, ("not",)),
        *[(lambda: device.empty(4), unsupported, ("allocation", "queue.alloc"))] * (mode != "relaxed"),
    ):
        begin(queue, mode)
        before = queue.stats
        with refused(kind, RuntimeError, *words):
            do()
        assert queue.stats == before
        invalid(queue)
    device.finish()
    begin(queue, mode)
    with refused(unsupported, RuntimeError):
        queue.gate()


def test_the_null_queue_while_a_non_blocking_queue_is_captured(device, make_queue, works):
    queue, buffer = make_queue(blocking=False), device.zeros(100, "i4")
    with queue.capture("relaxed") as graph:
        queue.fill(buffer, 1)
        device.null_queue.fill(buffer, 2)
        works(device.null_queue)
    graph.launch(queue)
    device.finish()
    assert device_data(buffer.get()[0]) == 1


def test_a_blocking_queue_that_joins_bars_the_null_queue_too(device, make_queue, begin, works):
    origin, other = make_queue(blocking=False), make_queue()
    begin(origin)
    other.wait(origin)
    with refused(fb.CaptureImplicitError, RuntimeError):
        device.null_queue.record()
    with refused(fb.CaptureInvalidatedError, RuntimeError):
        origin.end_capture()
    works(device.null_queue)


def test_the_null_queue_is_never_captured(device, make_queue, begin, works):
    with refused(fb.CaptureUnsupportedError, RuntimeError, "null queue"):
        device.null_queue.begin_capture()
    origin = make_queue(blocking=False)
    begin(origin)
    with refused(fb.CaptureImplicitError, RuntimeError, "null queue"):
        device.null_queue.wait(origin.record())
    with refused(fb.CaptureInvalidatedError, RuntimeError):
        origin.end_capture()
    works(device.null_queue)


def test_two_captures_do_not_merge(make_queue, begin, invalid):
    one, two = make_queue(), make_queue()
    begin(one)
    begin(two)
    event = one.record()
    with refused(fb.CaptureMergeError, RuntimeError, "captured"):
        two.wait(event)
    capture_of(one).abandon()
    invalid(two)


def test_a_fork_that_is_not_joined(make_queue, step, x, works):
    origin, other = make_queue(), make_queue()
    with refused(fb.CaptureUnjoinedError, RuntimeError, repr(other)), origin.capture() as graph:
        step(origin, x, 1)
        other.wait(origin)
        step(other, x, 2)
    assert graph.closed
    assert not origin.capturing
    assert not other.capturing
    works(origin)
    works(other)


def test_joined_before_its_last_command(make_queue, step, x, works):
    origin, other = make_queue(), make_queue()
    with refused(fb.CaptureUnjoinedError, RuntimeError, repr(other)), origin.capture():
        other.wait(origin)
        step(other, x, 2)
        origin.wait(other)
        step(other, x, 3)
    works(other)


def test_ending_on_another_queue(make_queue, begin, works):
    origin, other = make_queue(), make_queue()
    begin(origin)
    other.wait(origin)
    with refused(fb.CaptureUnmatchedError, RuntimeError, repr(origin)):
        other.end_capture()
    origin.end_capture()
    works(other)


def test_ending_what_did_not_begin(queue, works):
    with refused(fb.CaptureError, RuntimeError, "not captured"):
        queue.end_capture()
    works(queue)


def test_beginning_twice(queue, works):
    with queue.capture() as graph:
        with refused(fb.CaptureError, RuntimeError, "already"):
            queue.begin_capture()
        queue.host(lambda: None)
    assert len(graph) == 1
    works(queue)


@pytest.mark.parametrize("mode", ["Global", 0, None, "x"])
def test_modes(queue, mode, works):
    with refused(fb.InvalidArgumentError, ValueError, "thread_local", repr(mode)):
        queue.capture(mode)
    works(queue)


def test_binding_bytes_by_value_would_upload_them(device, queue, kernels, x, begin, works):
    begin(queue, "relaxed")
    with refused(fb.CaptureUnsupportedError, RuntimeError, "gather"):
        kernels["gather"].bind(queue, 4, 16, x, b"1234", 1)
    queue.end_capture()
    works(queue)


@pytest.mark.parametrize("which", ["origin", "joined"])
def test_closing_a_captured_queue(make_queue, works, which):
    origin, other = make_queue(), make_queue()
    origin.begin_capture()
    other.wait(origin)
    (origin if which == "origin" else other).close()
    if which == "origin":
        with refused(fb.ClosedError, RuntimeError):
            origin.end_capture()
        assert not other.capturing
        works(other)
    else:
        with refused(fb.CaptureInvalidatedError, RuntimeError, "closed"):
            origin.end_capture()
        works(origin)


def test_bad_arguments_are_found_at_once_and_leave_the_capture_as_it_was(device, queue, kernels, x, step):
    big = device.empty(4, "u4")
    with queue.capture() as graph:
        step(queue, x, 1)
        for kind, builtin, do in (
            (fb.ArgumentTypeError, TypeError, lambda: queue.launch(kernels["advance"], 4, 16, x, "one")),
            (fb.ArgumentTypeError, TypeError, lambda: queue.launch(kernels["advance"], 4, 16, x)),
            (fb.InvalidArgumentError, ValueError, lambda: queue.launch(kernels["advance"], 0, 16, x, 1)),
            (fb.InvalidArgumentError, ValueError, lambda: queue.copy(x, big)),
            (fb.ArgumentTypeError, TypeError, lambda: queue.copy(1, 2)),
            (fb.InvalidArgumentError, ValueError, lambda: queue.fill(x, -1)),
            (fb.ArgumentTypeError, TypeError, lambda: queue.host(3)),
            (fb.ArgumentTypeError, TypeError, lambda: queue.wait(3)),
        ):
            with refused(kind, builtin):
                do()
        step(queue, x, 2)
    assert len(graph) == 2


def test_other_devices(another, queue, x, begin):
    elsewhere, buffer = another.queue(), another.empty(x.shape, x.dtype)
    begin(queue, "relaxed")
    with refused(fb.NotSupportedError, NotImplementedError, "one device"):
        elsewhere.wait(queue)
    with refused(fb.NotSupportedError, NotImplementedError, another.name):
        queue.copy(x, buffer)
    queue.end_capture()


def test_closing_the_device():
    with fb.Device(private=True) as device:
        queue = device.queue()
        queue.begin_capture()
        graph = capture_of(queue).graph
    assert not queue.capturing
    assert graph.closed
    with refused(fb.ClosedError, RuntimeError):
        queue.end_capture()


def test_a_capture_that_is_lost_bars_nothing(device, works):
    queue = device.queue()
    queue.begin_capture()
    capture = weakref.ref(capture_of(queue))
    del queue
    gc.collect()
    assert capture() is None
    works(device.null_queue)
    device.finish()


def test_while_it_is_captured_a_graph_is_of_no_use(queue, step, x):
    with queue.capture() as graph:
        step(queue, x, 1)
        for do in (lambda: graph.launch(queue), graph.instantiate, lambda: graph.add_host(print)):
            with refused(fb.CaptureError, RuntimeError, "still being captured"):
                do()
    graph.launch(queue)
    queue.finish()
