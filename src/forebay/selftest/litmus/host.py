"""The host: functions that it runs in a queue's order, and its waits."""

from __future__ import annotations

from forebay.selftest.litmus.chapter import Chapter
from forebay.selftest.scene import Scene

chapter: Chapter = Chapter("host")


@chapter.needs_execution
def function_between_copies(scene: Scene) -> None:
    """A host function finds what was copied before it, and what it leaves is copied after it."""
    a = scene.queue()
    x, y = scene.cells(2)
    pinned = scene.on_host(pinned=True)
    scene.slow(a, x)
    scene.copy(a, pinned, x)
    scene.host(a, pinned)
    scene.copy(a, y, pinned)


@chapter.needs_execution
def function_then_another_queue(scene: Scene) -> None:
    """A queue that waits for one with a host function comes after the function."""
    a, b = scene.queues(2)
    x, y = scene.cells(2)
    pinned = scene.on_host(pinned=True)
    scene.slow(a, x)
    scene.host(a, pinned)
    b.wait(a)
    scene.copy(b, y, pinned)
    scene.quick(b, x)


@chapter.needs_execution
def functions_of_two_queues(scene: Scene) -> None:
    """Host functions of two queues that wait for each other."""
    a, b = scene.queues(2)
    (x,) = scene.cells(1)
    pinned = scene.on_host(pinned=True)
    for _ in range(3):
        scene.slow(a, x)
        scene.host(a, pinned)
        b.wait(a)
        scene.host(b, pinned)
        a.wait(b)


@chapter.needs_execution
def null_after_a_function(scene: Scene) -> None:
    """The null queue comes after a host function of a blocking queue."""
    a = scene.queue("blocking")
    x, y = scene.cells(2)
    pinned = scene.on_host(pinned=True)
    scene.slow(a, x)
    scene.host(a, pinned)
    scene.copy(scene.queue("null"), y, pinned)


@chapter.needs_execution
def function_of_null(scene: Scene) -> None:
    """A blocking queue comes after a host function of the null queue."""
    a = scene.queue("blocking")
    x, y = scene.cells(2)
    pinned = scene.on_host(pinned=True)
    null = scene.queue("null")
    scene.slow(a, x)
    scene.copy(null, pinned, x)
    scene.host(null, pinned)
    scene.copy(a, y, pinned)


@chapter.needs_execution
def function_that_launches(scene: Scene) -> None:
    """What a host function launches comes before what waits for it."""
    a, b = scene.queues(2)
    x, y = scene.cells(2)
    scene.slow(a, x)
    a.host(lambda: scene.slow(b, y))
    a.finish()
    a.wait(b)
    scene.quick(a, x, y)


@chapter
def finish(scene: Scene) -> None:
    """After a finish another queue needs no wait."""
    a, b = scene.queues(2)
    x, y = scene.cells(2)
    scene.slow(a, x)
    a.finish()
    scene.expect_that(a.empty and a.query(), "a queue that was finished has work left")
    scene.quick(b, y, x)


@chapter
def finish_of_a_chain(scene: Scene) -> None:
    """A finish is also for what the queue has waited for."""
    a, b, c = scene.queues(3)
    x, y = scene.cells(2)
    scene.slow(a, x)
    b.wait(a)
    b.finish()
    scene.expect_that(a.empty, "a queue that another one waited for has work left when that one is finished")
    scene.quick(c, y, x)


@chapter
def finish_of_null(scene: Scene) -> None:
    """A finish of the null queue speaks for the blocking queues."""
    a, b = scene.queue("blocking"), scene.queue()
    x, y = scene.cells(2)
    scene.slow(a, x)
    scene.queue("null").finish()
    scene.quick(b, y, x)


@chapter
def finish_of_the_device(scene: Scene) -> None:
    """A finish of the device is for all queues."""
    queues = scene.queues(6)
    x, *cells = scene.cells(7)
    for queue, cell in zip(queues, cells, strict=True):
        scene.slow(queue, cell)
    scene.device.finish()
    scene.expect_that(all(queue.empty for queue in queues), "a queue has work left when its device is finished")
    other = scene.queue()
    for cell in cells:
        scene.quick(other, x, cell)


@chapter.needs_execution
def finish_with_a_limit(scene: Scene) -> None:
    """A finish that may take only so long is for the same."""
    a, b = scene.queues(2)
    x, y = scene.cells(2)
    scene.slow(a, x)
    a.finish(timeout=60)
    scene.quick(b, y, x)


@chapter
def event_wait(scene: Scene) -> None:
    """The host waits for an event; what comes later on its queue goes on."""
    a, b = scene.queues(2)
    x, y, z = scene.cells(3)
    scene.slow(a, x)
    event = a.record()
    scene.slow(a, z)
    event.wait()
    scene.expect_that(event.done, "an event is not done when the host has waited for it")
    scene.quick(b, y, x)


@chapter.needs_execution
def event_query(scene: Scene) -> None:
    """The host asks for an event until it is done."""
    a, b = scene.queues(2)
    x, y = scene.cells(2)
    scene.slow(a, x)
    event = a.record()
    while not event.query():
        pass
    scene.quick(b, y, x)


@chapter.needs_execution
def query(scene: Scene) -> None:
    """The host asks for a queue until it is done."""
    a, b = scene.queues(2)
    x, y = scene.cells(2)
    scene.slow(a, x)
    while not a.query():
        pass
    scene.quick(b, y, x)


TESTS = chapter.tests
