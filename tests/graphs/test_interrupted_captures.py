"""Ctrl-C while a capture begins or ends: afterwards the queue is not captured, and can be captured again."""

import _weakrefset
import linecache
import sys

import pytest

from forebay.core.errors import CaptureUnjoinedError
from forebay.queues import capture_rules
from forebay.queues.graphs import graph

# Captures are compiled: Python looks for signals only in what they call.
OWN = (capture_rules.__file__, graph.__file__, _weakrefset.__file__)


class Interrupter:
    """Raises KeyboardInterrupt before the nth line of Python that begins and ends captures."""

    def __init__(self, turn):
        self.left = turn
        self.locked = set()

    def __call__(self, frame, event, argument):
        if frame.f_code.co_filename not in OWN or frame.f_code.co_name in ("__del__", "_remove"):
            return None  # what is raised there comes nowhere
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        if event in ("call", "line") and not self.leaves_lock(frame, line):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self

    def leaves_lock(self, frame, line):
        """At the end of a `with` its line comes again. Python looks for signals only after the lock was given back."""
        is_lock = line.strip().startswith("with lock")
        known = (id(frame), frame.f_lineno) in self.locked
        if is_lock:
            self.locked.add((id(frame), frame.f_lineno))
        return is_lock and known


def interrupted(turn, function):
    """Run with an interruption at a line; return whether there was one."""
    interrupter = Interrupter(turn)
    before = sys.gettrace()
    sys.settrace(interrupter)
    try:
        function()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    assert interrupter.left > 0
    return False


def with_block(queue, other, buffer):
    with queue.capture():
        queue.fill(buffer, 1)
        other.wait(queue)
        other.fill(buffer, 2)
        queue.wait(other)


def with_unjoined_block(queue, other, buffer):
    with pytest.raises(CaptureUnjoinedError), queue.capture():  # noqa: PT012
        other.wait(queue)
        other.fill(buffer, 2)


def with_error(queue, other, buffer):
    with pytest.raises(ZeroDivisionError), queue.capture():  # noqa: PT012
        other.wait(queue)
        1 / 0  # noqa: B018


def begin(queue, other, buffer):
    queue.begin_capture()
    sys.settrace(None)
    queue.end_capture()


@pytest.mark.parametrize("run", [with_block, with_unjoined_block, with_error, begin], ids=lambda run: run.__name__)
def test_a_queue_is_not_captured_after_an_interruption_at_any_line(device, make_queue, works, run):
    queue, other, buffer = make_queue(), make_queue(), device.zeros(4, "i4")
    open_before = len(capture_rules.active)
    turn = 0
    while interrupted(turn := turn + 1, lambda: run(queue, other, buffer)):
        assert not queue.capturing, turn
        assert not other.capturing, turn
        assert len(capture_rules.active) == open_before
        with queue.capture() as graph:
            queue.fill(buffer, 3)
        assert len(graph) == 1
        graph.close()
    assert turn > 10
    works(queue)
    works(other)


def test_an_end_that_was_interrupted_has_ended_the_capture_or_can_be_tried_again(device, make_queue, works):
    queue, other, buffer = make_queue(), make_queue(), device.zeros(4, "i4")
    for turn in range(1, 1000):
        queue.begin_capture()
        other.wait(queue)
        other.fill(buffer, 2)
        queue.wait(other)
        if not interrupted(turn, queue.end_capture):
            break
        if queue.capturing:
            assert len(queue.end_capture()) == 1
        assert not other.capturing
        works(queue)
        works(other)
    assert turn > 2
