"""Clocks against dictionaries: a clock names what it was told, and may forget only what is done."""

from hypothesis import example, given
from hypothesis import strategies as st

from tests.observers.clocks import Clocks

QUEUES, CLOCKS = 100, 5  # more queues than a clock has recent entries, in several chunks

queues = st.one_of(st.integers(0, 11), st.integers(0, QUEUES - 1))
clocks = st.integers(0, CLOCKS - 1)
epochs = st.integers(1, 9)
steps = st.one_of(
    st.tuples(st.just("put"), clocks, queues, epochs),
    st.tuples(st.just("put many"), clocks, queues, st.integers(1, 70), epochs),
    st.tuples(st.just("share"), clocks, clocks),
    st.tuples(st.just("merge"), clocks, clocks),
    st.tuples(st.just("reach"), queues, epochs, st.none() | clocks),
    st.tuples(st.just("reach many"), queues, st.integers(1, 70), epochs),
)


class Model:
    def __init__(self):
        self.clocks = [{} for _ in range(CLOCKS)]
        self.completed = [0] * QUEUES

    def put(self, clock, queue, epoch):
        known = self.clocks[clock] = dict(self.clocks[clock])
        known[queue] = max(epoch, known.get(queue, 0))

    def share(self, clock, other):
        self.clocks[clock] = self.clocks[other]

    def merge(self, clock, other):
        for queue, epoch in self.clocks[other].items():
            self.put(clock, queue, epoch)

    def reach(self, queue, epoch, clock=None):
        for each, its in [(queue, epoch), *(self.clocks[clock].items() if clock is not None else ())]:
            self.completed[each] = max(self.completed[each], its)

    def open(self, clock):
        return {queue: epoch for queue, epoch in self.clocks[clock].items() if epoch > self.completed[queue]}


def play(model, real, name, *arguments):
    if name.endswith(" many"):
        *before, queue, count, epoch = arguments
        for each in range(queue, min(queue + count, QUEUES)):
            play(model, real, name.split()[0], *before, each, epoch)
        return
    getattr(model, name)(*arguments)
    getattr(real, name)(*arguments)


def agree(model, real):
    assert [real.completed(queue) for queue in range(QUEUES)] == model.completed
    for clock in range(CLOCKS):
        expected = model.open(clock)
        listed = real.listed(clock)
        assert {queue: epoch for queue, epoch in listed.items() if epoch > model.completed[queue]} == expected
        assert all(epoch <= model.clocks[clock].get(queue, 0) for queue, epoch in listed.items())
        assert real.done(clock) == (not expected)
        assert {queue: real.epoch(clock, queue) for queue in expected} == expected
        for other in range(CLOCKS):
            needed = model.open(other)
            covered = all(model.clocks[clock].get(queue, 0) >= epoch for queue, epoch in needed.items())
            assert real.covers(clock, other) == covered


FEW = [("put many", 0, 0, 20, 5), ("share", 1, 0)]  # of the first chunk; then what each example is about


@example([*FEW, ("put many", 2, 64, 20, 5), ("merge", 1, 2), ("merge", 2, 0)])  # no chunk is in both
@example([*FEW, ("put many", 2, 0, 20, 9), ("merge", 0, 2)])  # one is, whose entries the other has with later epochs
@example([*FEW, ("put many", 2, 10, 10, 5), ("put", 0, 3, 9)])  # recent entries are covered, a chunk is not
@given(st.lists(steps, max_size=40))
def test_clocks_name_what_they_were_told(program):
    model, real = Model(), Clocks(QUEUES, CLOCKS)
    for step in program:
        play(model, real, *step)
        agree(model, real)


def test_what_is_done_is_forgotten():
    """Once most of it is done, however much it was: while a clock changes, and nobody asks it for anything else."""
    real = Clocks(QUEUES, 2)
    for queue in range(QUEUES):
        real.put(0, queue, 1)
    real.share(1, 0)
    for queue in range(1, QUEUES):
        real.reach(queue, 1)
    for epoch in range(2, 8):
        real.put(0, 1, epoch)
    assert len(real.listed(0)) < QUEUES // 2
    assert len(real.listed(1)) == QUEUES  # it did not change
    real.reach(0, 1)
    real.reach(1, 9)
    for _ in range(4):
        real.put(0, 2, 1)
    assert real.empty(0)
