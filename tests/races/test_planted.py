"""Races that are planted: each kind of access with each other one, ordered wrongly in each way that programs do it.

Each is found for certain, with both lines; and the line that the report gives, put where it says, makes it silent.
"""

from functools import partial

import numpy as np
import pytest

from tests.helpers.observer import EXECUTES
from tests.helpers.threads import in_thread
from tests.inside import forget_races

SIZE = 64
GRID = SIZE // 16, 16


class Memory:
    """What all commands share: what each writes besides, it writes for no other, so that only this is raced for."""

    def __init__(self, device, kernels):
        self.scale, self.take = kernels["scale"], kernels["take"]
        self.x, self.other = device.empty(SIZE), device.empty(SIZE)
        self.rows, self.packed = self.x.reshape(8, 8), device.empty((8, 4))
        self.host = np.ones(SIZE, "f4")


def step(memory, queue):
    step = queue.step()
    for _ in range(2):
        with step:
            queue.launch(memory.scale, *GRID, memory.x, 2.0)


def graph(memory, queue):
    captured = queue.device.queue(blocking=False)
    with captured.capture() as graph:
        captured.launch(memory.scale, *GRID, memory.x, 2.0)
    graph.launch(queue)


def graph_read(memory, queue):
    graph = queue.device.graph()
    graph.add_copy(queue.device.empty(SIZE), memory.x)
    graph.launch(queue)


ACCESSES = {
    "launch": lambda memory, queue: queue.launch(memory.scale, *GRID, memory.x, 2.0),
    "bound": lambda memory, queue: memory.scale.bind(queue, *GRID, memory.x, 2.0)(),
    "subscript": lambda memory, queue: memory.scale[(*GRID, queue)](memory.x, 2.0),
    "step": step,
    "graph": graph,
    "fill": lambda memory, queue: queue.fill(memory.x, 3),
    "upload": lambda memory, queue: queue.copy(memory.x, memory.host),
    "copy_to": lambda memory, queue: queue.copy(memory.x, memory.other),
    "strided_to": lambda memory, queue: queue.copy(memory.rows[:, :4], memory.packed),
    "set_item": lambda memory, queue: memory.x[:8].set(5, queue),
    "read": lambda memory, queue: queue.launch(memory.take, *GRID, memory.x, queue.device.empty(SIZE)),
    "bound_read": lambda memory, queue: memory.take.bind(queue, *GRID, memory.x, queue.device.empty(SIZE))(),
    "graph_read": graph_read,
    "download": lambda memory, queue: queue.copy(np.empty(SIZE, "f4"), memory.x),
    "get": lambda memory, queue: memory.x.get(queue=queue),
    "copy_from": lambda memory, queue: queue.copy(queue.device.empty(SIZE), memory.x),
    "strided_from": lambda memory, queue: queue.copy(queue.device.empty((8, 4)), memory.rows[:, 2:6]),
}
WRITES, READS = list(ACCESSES)[:10], list(ACCESSES)[10:]


# Each way submits `first` and then `second`, which nothing orders; HERE the line is inserted that repairs it.
WAYS = {
    "unordered": "first(a); HERE; second(b)",
    "recorded too early": "event = a.record(); first(a); b.wait(event); HERE; second(b)",
    "waited the wrong way": "first(a); a.wait(b); HERE; second(b)",
    "waited for another": "first(a); b.wait(c); c.wait(a); HERE; second(b)",
    "waited by another": "first(a); c.wait(a); HERE; second(b)",
    "recorded again elsewhere": "first(a); event = a.record(); c.record(event); b.wait(event); HERE; second(b)",
    "finished another": "first(a); c.finish(); c.record().wait(); HERE; second(b)",
    "null and non-blocking": "first(null); HERE; second(b)",
    "non-blocking and null": "first(a); HERE; second(null)",
    "null between others": "first(a); null.record(); HERE; second(b)",
    "by another thread": "in_thread(first, a); HERE; second(b)",
    "host function elsewhere": "c.host(int); first(a); c.wait(a); HERE; second(b)",
    "waited before more": "b.wait(a); first(a); HERE; second(b)",
}
SILENT = {
    "by queue": "first(a); b.wait(a); second(b)",
    "by event": "first(a); b.wait(a.record()); second(b)",
    "by others": "first(a); c.wait(a); b.wait(c.record()); second(b)",
    "by the host": "first(a); a.finish(); second(b)",
    "by the host elsewhere": "first(a); in_thread(a.record().wait); second(b)",
    "by the device": "first(a); null.device.finish(); second(b)",
    "by a later queue finished": "first(a); c.wait(a); c.finish(); second(b)",
    "by the null queue": "first(null.device.queue()); second(null)",
    "after the null queue": "first(null); second(null.device.queue())",
    "through the null queue": "first(null.device.queue()); null.record(); second(null.device.queue())",
    "by one queue": "first(a); second(a)",
    "by polling": "first(a); until(a.query); second(b)",
    "by polling an event": "first(a); until(a.record().query); second(b)",
}
PAIRS = [
    *((first, second) for first in WRITES for second in (*READS, "launch", "fill", "upload", "strided_to")),
    *((first, second) for first in READS if first != "get" for second in WRITES),  # a get has waited
]


def places_of(access):
    code = ACCESSES[access].__code__
    return {f"{code.co_filename}:{line}" for _, _, line in code.co_lines()}


def until(done):
    while not done():
        pass


def play(device, kernels, way, pair, line="pass"):
    memory = Memory(device, kernels)
    a, b, c = (device.queue(blocking=False) for _ in range(3))
    device.finish()
    names = {"a": a, "b": b, "c": c, "null": device.null_queue, "in_thread": in_thread, "until": until}
    names |= {name: partial(ACCESSES[access], memory) for name, access in zip(("first", "second"), pair, strict=True)}
    exec(way.replace("HERE", line), names)
    device.finish()


MARKS = {
    "by another thread": [pytest.mark.threads],
    "host function elsewhere": [pytest.mark.threads, pytest.mark.executes],
}


@pytest.mark.parametrize("way", [pytest.param(way, marks=MARKS.get(way, [])) for way in WAYS])
@pytest.mark.long
def test_each_pair_is_found_and_its_line_repairs_it(device, kernels, found, way):
    for pair in PAIRS:
        play(device, kernels, WAYS[way], pair)
        races = found()
        assert races, f"{way}: {pair} was not found"
        race = races[0]
        if way != "by another thread":
            assert race.first.place in places_of(pair[0]), race
        assert race.second.place in places_of(pair[1]), race
        play(device, kernels, WAYS[way], pair, race.missing)
        assert found() == (), f"{way}: {pair} is reported although {race.missing} is there"


@pytest.mark.long
@pytest.mark.parametrize("way", SILENT)
def test_what_orders_is_silent(device, kernels, found, way):
    if "polling" in way and not EXECUTES:
        pytest.skip("there nothing is ever done, when it is asked")
    for pair in PAIRS:
        play(device, kernels, SILENT[way], pair)
        assert found() == (), pair


# Nodes of graphs among each other


ADD = {
    "kernel": lambda graph, kernels, x: graph.add_kernel(kernels["scale"], *GRID, x, 2.0),
    "fill": lambda graph, kernels, x: graph.add_fill(x, 2),
    "copy to": lambda graph, kernels, x: graph.add_copy(x, graph.device.empty(SIZE)),
    "copy from": lambda graph, kernels, x: graph.add_copy(graph.device.empty(SIZE), x),
    "read": lambda graph, kernels, x: graph.add_kernel(kernels["take"], *GRID, x, graph.device.empty(SIZE)),
}
READS = {"copy from", "read"}


@pytest.mark.parametrize("second", ADD)
@pytest.mark.parametrize("first", ADD)
def test_nodes_that_do_not_depend_on_each_other(device, kernels, found, first, second):
    x = device.empty(SIZE)
    graph = device.graph()
    one = ADD[first](graph, kernels, x)
    other = ADD[second](graph, kernels, x)
    graph.add_empty()
    graph.instantiate()
    races = found()
    assert len(races) == (not READS.issuperset({first, second}))
    for race in races:
        made_at = [f"{__file__}:{ADD[name].__code__.co_firstlineno}" for name in (first, second)]
        assert [race.first.node, race.second.node] == made_at
        assert race.missing == "graph.add_dependency(one, other)"
        exec(race.missing)
        assert other.dependencies == (one,)
        forget_races(device)
        graph.instantiate()
        assert device.races == ()
