import pytest

from forebay.tracing import habits as h
from forebay.tracing import watching


@pytest.fixture
def find():
    """``find(function)``: the habits that it shows, as {what: times}, and all that `Habits.end` returns."""

    def find(function):
        habits = h.Habits()
        habits.begin()
        try:
            function()
        finally:
            stats, found = habits.end()
        find.stats, find.all = stats, found
        assert watching.listeners == ()
        assert watching._originals == {}
        times = {}
        for habit in found:
            assert habit.line.rpartition(":")[0] == function.__code__.co_filename
            times[habit.what] = times.get(habit.what, 0) + habit.times
        return times

    return find


@pytest.fixture
def own(make_queue):
    return make_queue(blocking=False)


@pytest.fixture
def buffer(device):
    with device.zeros(100, "i4") as buffer:
        device.finish()
        yield buffer
