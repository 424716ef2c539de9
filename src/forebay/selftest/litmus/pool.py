"""Memory of the pool: handed on in the order of queues, and no sooner."""

from __future__ import annotations

from forebay.selftest.litmus.chapter import Chapter
from forebay.selftest.scene import Scene

chapter: Chapter = Chapter("memory pool")


@chapter
def on_one_queue(scene: Scene) -> None:
    """Memory that a queue has freed is used by its next commands."""
    a = scene.queue()
    (x,) = scene.cells(1)
    for _ in range(4):
        lent = scene.of_pool(a)
        scene.fill(a, lent)
        scene.slow(a, x, lent)
        a.free(lent.place)


@chapter
def after_a_wait(scene: Scene) -> None:
    """Memory that a queue has freed is used by another, which waits."""
    a, b = scene.queues(2)
    x, y = scene.cells(2)
    for first, second in ((a, b), (b, a)):
        lent = scene.of_pool(first)
        scene.fill(first, lent)
        scene.slow(first, x, lent)
        first.free(lent.place)
        second.wait(first)
        lent = scene.of_pool(second)
        scene.fill(second, lent)
        scene.quick(second, y, lent)
        second.free(lent.place)


@chapter
def without_a_wait(scene: Scene) -> None:
    """Another queue that does not wait gets no memory that may still be read."""
    a, b = scene.queues(2)
    x, y = scene.cells(2)
    lent = scene.of_pool(a)
    scene.fill(a, lent)
    scene.slow(a, x, lent)
    a.free(lent.place)
    for _ in range(3):
        lent = scene.of_pool(b)
        scene.fill(b, lent)
        scene.quick(b, y, lent)
        b.free(lent.place)


@chapter
def dropped(scene: Scene) -> None:
    """Memory that is closed while a kernel uses it goes to nobody before that is done."""
    a, b = scene.queues(2)
    x, y = scene.cells(2)
    lent = scene.of_pool(a)
    scene.fill(a, lent)
    scene.slow(a, x, lent)
    lent.place.close()
    other = scene.of_pool(b)
    scene.fill(b, other)
    scene.quick(b, y, other)
    b.free(other.place)


@chapter
def used_elsewhere(scene: Scene) -> None:
    """Memory is used by a second queue, and freed by the first once that has waited."""
    a, b = scene.queues(2)
    x, y = scene.cells(2)
    lent = scene.of_pool(a)
    scene.fill(a, lent)
    b.wait(a)
    scene.slow(b, x, lent)
    a.wait(b)
    a.free(lent.place)
    again = scene.of_pool(a)
    scene.fill(a, again)
    scene.quick(a, y, again)
    a.free(again.place)


TESTS = chapter.tests
