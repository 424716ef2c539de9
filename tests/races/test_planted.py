"""Races that are planted: each kind of access with each other one, ordered wrongly in each way that programs do it.

Each is found for certain, with both lines; and the line that the report gives, put where it says, makes it silent.
"""

import threading

import numpy as np
import pytest

from tests.helpers.observer import EXECUTES

SIZE = 64
GRID = SIZE // 16, 16


class Accesses:
    """What commands do with the memory that all of them share."""

    def __init__(self, device, kernels):
        self.kernels = kernels
        self.x, self.other, self.into = (device.empty(SIZE) for _ in range(3))
        self.rows, self.packed = self.x.reshape(8, 8), device.empty((8, 4))
        self.host = np.ones(SIZE, "f4")

    # what each command writes beside the memory it writes for no other, so that only the memory is raced for

    def launch(self, queue):
        queue.launch(self.kernels["scale"], *GRID, self.x, 2.0)

    def bound(self, queue):
        self.kernels["scale"].bind(queue, *GRID, self.x, 2.0)()

    def subscript(self, queue):
        self.kernels["scale"][(*GRID, queue)](self.x, 2.0)

    def step(self, queue):
        step = queue.step()
        for _ in range(2):
            with step:
                queue.launch(self.kernels["scale"], *GRID, self.x, 2.0)

    def graph(self, queue):
        captured = queue.device.queue(blocking=False)
        with captured.capture() as graph:
            captured.launch(self.kernels["scale"], *GRID, self.x, 2.0)
        graph.launch(queue)

    def fill(self, queue):
        queue.fill(self.x, 3)

    def upload(self, queue):
        queue.copy(self.x, self.host)

    def copy_to(self, queue):
        queue.copy(self.x, self.other)

    def strided_to(self, queue):
        queue.copy(self.rows[:, :4], self.packed)

    def set_item(self, queue):
        self.x[:8].set(5, queue)

    def read(self, queue):
        queue.launch(self.kernels["take"], *GRID, self.x, queue.device.empty(SIZE))

    def bound_read(self, queue):
        self.kernels["take"].bind(queue, *GRID, self.x, queue.device.empty(SIZE))()

    def graph_read(self, queue):
        graph = queue.device.graph()
        graph.add_copy(queue.device.empty(SIZE), self.x)
        graph.launch(queue)

    def download(self, queue):
        queue.copy(np.empty(SIZE, "f4"), self.x)

    def get(self, queue):
        self.x.get(queue=queue)

    def copy_from(self, queue):
        queue.copy(queue.device.empty(SIZE), self.x)

    def strided_from(self, queue):
        queue.copy(queue.device.empty((8, 4)), self.rows[:, 2:6])


WRITES = ["launch", "bound", "subscript", "step", "graph", "fill", "upload", "copy_to", "strided_to", "set_item"]
READS = ["read", "bound_read", "graph_read", "download", "get", "copy_from", "strided_from"]


# Each way submits `first` and then `second`, which nothing orders; `repair` stands before the second.


def unordered(a, b, c, null, first, second, repair):
    first(a)
    repair(locals())
    second(b)


def recorded_too_early(a, b, c, null, first, second, repair):
    event = a.record()
    first(a)
    b.wait(event)
    repair(locals())
    second(b)


def waited_the_wrong_way(a, b, c, null, first, second, repair):
    first(a)
    a.wait(b)
    repair(locals())
    second(b)


def waited_for_another(a, b, c, null, first, second, repair):
    first(a)
    b.wait(c)
    c.wait(a)
    repair(locals())
    second(b)


def waited_by_another(a, b, c, null, first, second, repair):
    first(a)
    c.wait(a)
    repair(locals())
    second(b)


def recorded_again_elsewhere(a, b, c, null, first, second, repair):
    first(a)
    event = a.record()
    c.record(event)
    b.wait(event)
    repair(locals())
    second(b)


def finished_another(a, b, c, null, first, second, repair):
    first(a)
    c.finish()
    c.record().wait()
    repair(locals())
    second(b)


def null_and_non_blocking(a, b, c, null, first, second, repair):
    first(null)
    repair(locals())
    second(b)


def non_blocking_and_null(a, b, c, null, first, second, repair):
    first(a)
    repair(locals())
    second(null)


def null_between_others(a, b, c, null, first, second, repair):
    first(a)
    null.record()
    repair(locals())
    second(b)


def by_another_thread(a, b, c, null, first, second, repair):
    thread = threading.Thread(target=first, args=(a,))
    thread.start()
    thread.join()
    repair(locals())
    second(b)


def host_function_elsewhere(a, b, c, null, first, second, repair):
    c.host(lambda: None)
    first(a)
    c.wait(a)
    repair(locals())
    second(b)


def waited_before_more(a, b, c, null, first, second, repair):
    b.wait(a)
    first(a)
    repair(locals())
    second(b)


WAYS = [
    unordered, recorded_too_early, waited_the_wrong_way, waited_for_another, waited_by_another,
    recorded_again_elsewhere, finished_another, null_and_non_blocking, non_blocking_and_null, null_between_others,
    by_another_thread, host_function_elsewhere, waited_before_more,
]  # fmt: skip
PAIRS = [
    *((first, second) for first in WRITES for second in (*READS, "launch", "fill", "upload", "strided_to")),
    *((first, second) for first in READS if first != "get" for second in WRITES),  # a get has waited
]


def place_of(test, name):
    code = getattr(test, name).__code__
    return {f"{code.co_filename}:{line}" for _, _, line in code.co_lines()}


def play(device, kernels, way, pair, repair):
    accesses = Accesses(device, kernels)
    a, b, c = (device.queue(blocking=False) for _ in range(3))
    device.finish()
    way(a, b, c, device.null_queue, *(getattr(accesses, name) for name in pair), repair)
    device.finish()
    return accesses


MARKS = {
    by_another_thread: [pytest.mark.threads],
    host_function_elsewhere: [pytest.mark.threads, pytest.mark.executes(run=False)],
}


@pytest.mark.parametrize("way", [pytest.param(way, marks=MARKS.get(way, []), id=way.__name__) for way in WAYS])
@pytest.mark.long
def test_each_pair_is_found_and_its_line_repairs_it(device, kernels, found, way):
    for pair in PAIRS:
        accesses = play(device, kernels, way, pair, lambda names: None)
        races = found()
        assert races, f"{way.__name__}: {pair} was not found"
        race = races[0]
        if way is not by_another_thread:
            assert race.first.place in place_of(accesses, pair[0]), race
        assert race.second.place in place_of(accesses, pair[1]), race

        inserted = []

        def insert(names, missing=race.missing, inserted=inserted):
            inserted.append(missing)
            exec(missing, {}, dict(names))

        play(device, kernels, way, pair, insert)
        assert inserted == [race.missing]
        assert found() == (), f"{way.__name__}: {pair} is told although {race.missing} is there"


def test_each_race_is_told_once_for_each_pair_of_lines(device, kernels, found):
    for _ in range(3):
        play(device, kernels, unordered, ("launch", "read"), lambda names: None)
    assert len(found()) <= 1


@pytest.mark.long
def test_what_orders_is_silent(device, kernels, found):
    def by_queue(a, b, c, null, first, second, repair):
        first(a)
        b.wait(a)
        second(b)

    def by_event(a, b, c, null, first, second, repair):
        first(a)
        b.wait(a.record())
        second(b)

    def by_others(a, b, c, null, first, second, repair):
        first(a)
        c.wait(a)
        b.wait(c.record())
        second(b)

    def by_the_host(a, b, c, null, first, second, repair):
        first(a)
        a.finish()
        second(b)

    def by_the_host_elsewhere(a, b, c, null, first, second, repair):
        first(a)
        thread = threading.Thread(target=a.record().wait)
        thread.start()
        thread.join()
        second(b)

    def by_the_device(a, b, c, null, first, second, repair):
        first(a)
        null.device.finish()
        second(b)

    def by_a_later_queue_finished(a, b, c, null, first, second, repair):
        first(a)
        c.wait(a)
        c.finish()
        second(b)

    def by_the_null_queue(a, b, c, null, first, second, repair):
        first(null.device.queue())
        second(null)

    def after_the_null_queue(a, b, c, null, first, second, repair):
        first(null)
        second(null.device.queue())

    def through_the_null_queue(a, b, c, null, first, second, repair):
        first(null.device.queue())
        null.record()
        second(null.device.queue())

    def by_one_queue(a, b, c, null, first, second, repair):
        first(a)
        second(a)

    def by_polling(a, b, c, null, first, second, repair):
        first(a)
        while not a.query():
            pass
        second(b)

    def by_polling_an_event(a, b, c, null, first, second, repair):
        first(a)
        event = a.record()
        while not event.done:
            pass
        second(b)

    ways = [value for value in locals().values() if callable(value) and value is not found]
    assert len(ways) == 13
    if not EXECUTES:  # there nothing is ever done, when it is asked
        ways.remove(by_polling)
        ways.remove(by_polling_an_event)
    for way in ways:
        for pair in PAIRS:
            play(device, kernels, way, pair, None)
            assert found() == (), f"{way.__name__}: {pair}"
