"""Order that goes through several queues."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from forebay.selftest.litmus.chapter import Chapter
from forebay.selftest.scene import Scene

chapter: Chapter = Chapter("chains")


@chapter
def long(scene: Scene) -> None:
    """Sixteen queues in a row, and the first one's memory at the end."""
    queues = scene.queues(16)
    x, y = scene.cells(2)
    scene.slow(queues[0], x)
    for before, queue in pairwise(queues):
        queue.wait(before)
    scene.quick(queues[-1], y, x)


@chapter
def with_work(scene: Scene) -> None:
    """Eight queues in a row, each of which changes the same memory."""
    queues = scene.queues(8)
    (x,) = scene.cells(1)
    for number, queue in enumerate(queues):
        if number:
            queue.wait(queues[number - 1].record())
        (scene.slow if number % 3 == 0 else scene.quick)(queue, x)


@chapter
def ring(scene: Scene) -> None:
    """Four queues hand memory round, three times."""
    queues = scene.queues(4)
    (x,) = scene.cells(1)
    for turn in range(3):
        for number, queue in enumerate(queues):
            if turn or number:
                queue.wait(queues[number - 1])
            (scene.slow if number == 0 else scene.quick)(queue, x)


@chapter
def diamond(scene: Scene) -> None:
    """A queue forks to two others, and joins them."""
    a, b, c = scene.queues(3)
    x, y, z = scene.cells(3)
    scene.slow(a, x)
    event = a.record()
    for queue, cell in ((b, y), (c, z)):
        queue.wait(event)
        scene.slow(queue, cell, x)
        a.wait(queue)
    scene.quick(a, x, y)
    scene.quick(a, x, z)


@chapter
def ordered_already(scene: Scene) -> None:
    """A wait that another one implies, and then one that is new."""
    a, b, c = scene.queues(3)
    x, y, z = scene.cells(3)
    scene.slow(a, x)
    b.wait(a)
    scene.slow(b, y, x)
    c.wait(b)
    c.wait(a)  # implied
    scene.quick(c, z, x)
    scene.quick(c, x)
    a.wait(c)
    scene.slow(a, x)
    c.wait(a)  # not implied any more
    scene.quick(c, z, x)


@chapter
def crossing(scene: Scene) -> None:
    """Two queues wait for each other in turn."""
    a, b = scene.queues(2)
    x, y = scene.cells(2)
    for _ in range(4):
        scene.slow(a, x, y)
        b.wait(a)
        scene.quick(b, y, x)
        a.wait(b)


@chapter
def null_among_many(scene: Scene) -> None:
    """The null queue comes after eight blocking queues, and they come after it."""
    queues = scene.queues(8, "blocking")
    x, *cells = scene.cells(9)
    null = scene.queue("null")
    for queue, cell in zip(queues, cells, strict=True):
        scene.slow(queue, cell)
    for cell in cells:
        scene.quick(null, x, cell)
    scene.slow(null, x)
    for queue, cell in zip(queues, cells, strict=True):
        scene.quick(queue, cell, x)


@chapter
def through_null(scene: Scene) -> None:
    """Two blocking queues are ordered by a command of the null queue between theirs."""
    a, b = scene.queues(2, "blocking")
    x, y, z = scene.cells(3)
    scene.slow(a, x)
    scene.quick(scene.queue("null"), z)
    scene.quick(b, y, x)


@chapter
def through_a_null_record(scene: Scene) -> None:
    """The same by a record: it is a command of the null queue, too."""
    a, b, c = scene.queue("blocking"), scene.queue("blocking"), scene.queue()
    x, y, z = scene.cells(3)
    scene.slow(a, x)
    event = scene.queue("null").record()
    scene.quick(b, y, x)
    c.wait(event)
    scene.quick(c, z, x)


@chapter
def null_waits(scene: Scene) -> None:
    """The null queue waits for a non-blocking queue, and so does what comes after it."""
    a, b = scene.queue(), scene.queue("blocking")
    x, y = scene.cells(2)
    null = scene.queue("null")
    scene.slow(a, x)
    null.wait(a)
    scene.quick(b, y, x)


@chapter
def behind_many_commands(scene: Scene) -> None:
    """A wait for a queue with six hundred commands between two slow ones."""
    a, b = scene.queues(2)
    x, y = scene.cells(2)
    scene.slow(a, x)
    for _ in range(600):
        scene.quick(a, x)
    scene.slow(a, x)
    b.wait(a)
    scene.quick(b, y, x)


@chapter
def priorities(scene: Scene) -> None:
    """An urgent queue waits for one that is not, and the other way round."""
    urgent, patient = scene.queue(priority=-1), scene.queue(priority=1)
    x, y = scene.cells(2)
    scene.slow(patient, x)
    urgent.wait(patient)
    scene.slow(urgent, y, x)
    patient.wait(urgent)
    scene.quick(patient, x, y)


@chapter
def bound_launches(scene: Scene) -> None:
    """Bound launches on two queues, in turn."""
    a, b = scene.queues(2)
    x, y = scene.cells(2)
    calls: list[Callable[[], None]] = [scene.bound(a, x, y, slow=True), scene.bound(b, y, x, slow=False)]
    for _ in range(4):
        calls[0]()
        b.wait(a)
        calls[1]()
        a.wait(b)


TESTS = chapter.tests
