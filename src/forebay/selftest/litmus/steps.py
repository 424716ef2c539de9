"""Steps: stretches that repeat, alone and with other queues."""

from __future__ import annotations

from forebay.selftest.litmus.chapter import Chapter
from forebay.selftest.scene import Scene

chapter: Chapter = Chapter("steps")


@chapter
def alone(scene: Scene) -> None:
    """A step of twenty launches with other numbers each time."""
    a = scene.queue()
    x, y = scene.cells(2)
    with_step = a.step()
    for _ in range(5):
        with with_step:
            scene.slow(a, x)
            for _ in range(10):
                scene.quick(a, y, x)
                scene.quick(a, x, y)
    with_step.close()


@chapter
def around_it(scene: Scene) -> None:
    """A step comes after what its queue has waited for, and a queue comes after the step."""
    a, b, c = scene.queues(3)
    x, y, z = scene.cells(3)
    with b.step() as step:
        scene.quick(b, y, x)
    a.wait(b)
    for _ in range(4):
        scene.slow(a, x)
        b.wait(a)
        with step:
            scene.slow(b, y, x)
        c.wait(b)
        scene.quick(c, z, y)
        a.wait(c)
    step.close()


@chapter
def two_queues_in_it(scene: Scene) -> None:
    """A second queue takes part in a step, and the first one waits for it."""
    a, b = scene.queues(2)
    x, y = scene.cells(2)
    step = a.step()
    for _ in range(5):
        with step:
            scene.slow(a, x, y)
            b.wait(a)
            scene.slow(b, y, x)
            a.wait(b)
            scene.quick(a, x, y)
        b.wait(a)
    step.close()


@chapter
def that_changes(scene: Scene) -> None:
    """A step that is not the same each time."""
    a, b = scene.queues(2)
    x, y, z = scene.cells(3)
    step = a.step()
    for turn in range(6):
        with step:
            scene.slow(a, x, y)
            for _ in range(turn % 3):
                scene.quick(a, x)
            if turn % 2:
                scene.copy(a, y, x)
        b.wait(a)
        scene.quick(b, z, x)
        a.wait(b)
    step.close()


@chapter
def on_a_blocking_queue(scene: Scene) -> None:
    """The null queue comes after a step of a blocking queue, and the next time the step after it."""
    a = scene.queue("blocking")
    x, y = scene.cells(2)
    null, step = scene.queue("null"), a.step()
    for _ in range(4):
        with step:
            scene.quick(a, x, y)
            scene.slow(a, x)
        scene.quick(null, y, x)
        scene.slow(null, y)
    step.close()


TESTS = chapter.tests
