"""Events: recorded again, shared, late, and never."""

from __future__ import annotations

from forebay.selftest.litmus.chapter import Chapter
from forebay.selftest.scene import Scene

chapter: Chapter = Chapter("events")


@chapter
def recorded_again(scene: Scene) -> None:
    """A wait is for the record of then, and the next wait for the record of now."""
    a, b, c = scene.queues(3)
    x, y, z, w = scene.cells(4)
    scene.slow(a, x)
    event = a.record()
    b.wait(event)
    scene.slow(a, y)
    a.record(event)
    c.wait(event)
    scene.quick(b, z, x)
    scene.quick(c, w, y)
    scene.quick(c, y)


@chapter
def recorded_on_another_queue(scene: Scene) -> None:
    """An event that is recorded on another queue means that one."""
    a, b, c = scene.queues(3)
    x, y, z = scene.cells(3)
    event = scene.device.event()
    scene.slow(a, x)
    a.record(event)
    scene.slow(b, y)
    b.record(event)
    c.wait(event)
    scene.quick(c, z, y)


@chapter
def shared(scene: Scene) -> None:
    """Six queues wait for one event."""
    a, *others = scene.queues(7)
    x, *cells = scene.cells(7)
    scene.slow(a, x)
    event = a.record()
    for queue, cell in zip(others, cells, strict=True):
        queue.wait(event)
        scene.quick(queue, cell, x)


@chapter
def many(scene: Scene) -> None:
    """A queue waits for six events at once."""
    a, *others = scene.queues(7)
    x, *cells = scene.cells(7)
    for queue, cell in zip(others, cells, strict=True):
        scene.slow(queue, cell)
        a.wait(queue.record())
    for cell in cells:
        scene.quick(a, x, cell)


@chapter
def earlier_than_the_last_command(scene: Scene) -> None:
    """A wait is for what came before the record, and the next is for the rest."""
    a, b = scene.queues(2)
    x, y, z = scene.cells(3)
    scene.slow(a, x)
    event = a.record()
    scene.slow(a, y)
    b.wait(event)
    scene.quick(b, z, x)
    b.wait(a)
    scene.quick(b, z, y)


@chapter
def waited_for_twice(scene: Scene) -> None:
    """A second wait for the same event orders as the first did."""
    a, b = scene.queues(2)
    x, y = scene.cells(2)
    scene.slow(a, x)
    event = a.record()
    b.wait(event)
    b.wait(event)
    scene.quick(b, y, x)
    b.wait(event)
    scene.quick(b, x)


@chapter
def never_recorded(scene: Scene) -> None:
    """A wait for an event that was never recorded, and one for the queue."""
    a, b = scene.queues(2)
    x, y = scene.cells(2)
    scene.slow(a, x)
    b.wait(scene.device.event())
    b.wait(a)
    scene.quick(b, y, x)


@chapter
def waited_for_without_a_command(scene: Scene) -> None:
    """A queue that only waits is waited for."""
    a, b, c = scene.queues(3)
    x, y = scene.cells(2)
    scene.slow(a, x)
    b.wait(a)
    c.wait(b)
    scene.quick(c, y, x)


@chapter
def timed(scene: Scene) -> None:
    """A timed record orders like any other, and its times do not go back."""
    a = scene.queue(timing=True)
    b = scene.queue()
    x, y = scene.cells(2)
    start = a.record(timing=True)
    scene.slow(a, x)
    end = a.record(timing=True)
    b.wait(end)
    scene.quick(b, y, x)
    end.wait()
    if scene.executes:
        scene.expect_that(end.elapsed(start) > 0, f"a slow kernel took {end.elapsed(start)} ms by its timed events")


TESTS = chapter.tests
