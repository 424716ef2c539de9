"""Queues, threads and memory that are gone while their work is not done."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from forebay.selftest.litmus.chapter import Chapter
from forebay.selftest.scene import Cell, Scene

chapter: Chapter = Chapter("closing")


@chapter
def closed_queue(scene: Scene) -> None:
    """An event of a queue that was closed is waited for."""
    a, b = scene.queues(2)
    x, y = scene.cells(2)
    scene.slow(a, x)
    event = a.record()
    a.close()
    b.wait(event)
    scene.quick(b, y, x)


@chapter
def closed_blocking_queue(scene: Scene) -> None:
    """The null queue comes after a blocking queue that was closed."""
    x, y = scene.cells(2)
    a = scene.queue("blocking")
    scene.slow(a, x)
    a.close()
    scene.quick(scene.queue("null"), y, x)


@chapter
def dropped_blocking_queue(scene: Scene) -> None:
    """The null queue comes after a blocking queue that nobody has any more."""
    x, y = scene.cells(2)
    scene.slow(scene.device.queue(), x)
    scene.quick(scene.queue("null"), y, x)


@chapter
def thread_that_ended(scene: Scene) -> None:
    """The null queue comes after the per-thread queues of threads that have ended, one after the other."""
    total, *cells = scene.cells(4)
    for cell in cells:

        def run(cell: Cell = cell) -> None:
            scene.slow(scene.device.per_thread_queue, cell)

        with ThreadPoolExecutor(1) as other:
            other.submit(run).result()
    for cell in cells:
        scene.quick(scene.queue("null"), total, cell)


@chapter
def queues_made_anew(scene: Scene) -> None:
    """Queues are closed behind slow work, and new ones, which may get what was theirs, are ordered by events alone."""
    x, y = scene.cells(2)
    last = None
    for _ in range(5):
        queue = scene.queue()
        if last is not None:
            queue.wait(last)
        scene.slow(queue, x, y)
        last = queue.record()
        queue.close()
    queue = scene.queue()
    if last is not None:
        queue.wait(last)
    scene.quick(queue, y, x)


@chapter
def closed_memory(scene: Scene) -> None:
    """Memory that is closed while a kernel reads it is there until that is done."""
    a = scene.queue()
    (x,) = scene.cells(1)
    gone_later = [scene.to_close() for _ in range(3)]
    scene.device.finish()
    for gone in gone_later:
        scene.slow(a, x, gone)
        gone.place.close()


TESTS = chapter.tests
