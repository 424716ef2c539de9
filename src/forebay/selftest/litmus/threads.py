"""Several threads of the host at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import forebay as fb
from forebay.selftest.litmus.chapter import Chapter
from forebay.selftest.scene import Cell, Scene

chapter: Chapter = Chapter("threads")

THREADS = 4


@chapter
def queues_of_their_own(scene: Scene) -> None:
    """Four threads with a queue each, and a queue that waits for them."""
    queues = scene.queues(THREADS)
    total, *cells = scene.cells(1 + THREADS)

    def run(queue: fb.Queue, cell: Cell) -> None:
        scene.slow(queue, cell)
        for _ in range(20):
            scene.quick(queue, cell)

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(run, queues, cells))
    last = scene.queue()
    for queue, cell in zip(queues, cells, strict=True):
        last.wait(queue)
        scene.quick(last, total, cell)


@chapter
def one_queue(scene: Scene) -> None:
    """Four threads on one queue add to the same memory."""
    a, b = scene.queues(2)
    x, y = scene.cells(2)

    def run(number: int) -> None:
        for _ in range(20):
            scene.increase(a, x, number)

    scene.slow(a, x)
    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(run, range(1, 1 + THREADS)))
    scene.slow(a, x)
    b.wait(a)
    scene.quick(b, y, x)


@chapter
def handed_from_thread_to_thread(scene: Scene) -> None:
    """A thread waits for an event that another thread has recorded."""
    (x,) = scene.cells(1)
    queues = scene.queues(THREADS)
    event = scene.device.event()
    for queue in queues:

        def run(queue: fb.Queue = queue) -> None:
            queue.wait(event)
            scene.quick(queue, x)
            scene.slow(queue, x)
            queue.record(event)

        scene.elsewhere().submit(run).result()


@chapter
def per_thread_queues(scene: Scene) -> None:
    """Four threads with their default queues, and the null queue after them."""
    total, *cells = scene.cells(1 + THREADS)

    def run(cell: Cell) -> None:
        scene.slow(scene.device.per_thread_queue, cell)

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(run, cells))
    null = scene.queue("null")
    for cell in cells:
        scene.quick(null, total, cell)


TESTS = chapter.tests
