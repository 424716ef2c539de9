"""Graphs: captured, with branches, launched again and changed."""

from __future__ import annotations

import forebay as fb
from forebay.selftest.kernels import WIDTH
from forebay.selftest.litmus.chapter import Chapter
from forebay.selftest.scene import Cell, Change, Scene

chapter: Chapter = Chapter("graphs")


def _forked(scene: Scene, cells: list[Cell]) -> tuple[fb.Graph, list[Change]]:
    """A graph that forks to another queue and joins it."""
    a, b = scene.queues(2)
    x, y, z = cells
    with scene.recording() as changes, a.capture() as graph:
        scene.slow(a, x)
        b.wait(a)
        scene.slow(b, y, x)
        scene.quick(a, z, x)
        a.wait(b)
        scene.quick(a, x, y)
    return graph, changes


@chapter
def around_it(scene: Scene) -> None:
    """A graph comes after what its queue has waited for, and a queue comes after the graph."""
    a, b, c = scene.queues(3)
    x, y, z, w = scene.cells(4)
    graph, changes = _forked(scene, [x, y, z])
    scene.slow(a, x)
    b.wait(a)
    graph.launch(b)
    scene.replayed(changes)
    c.wait(b)
    scene.quick(c, w, x)
    scene.quick(c, y)


@chapter
def again(scene: Scene) -> None:
    """A graph is launched four times, while it runs, on two queues."""
    a, b = scene.queues(2)
    x, y, z = scene.cells(3)
    graph, changes = _forked(scene, [x, y, z])
    for queue in (a, a, b, b):
        if queue is b:
            b.wait(a)
        graph.launch(queue)
        scene.replayed(changes)


@chapter
def two(scene: Scene) -> None:
    """Two graphs on two queues, the second after the first."""
    a, b = scene.queues(2)
    x, y, z = scene.cells(3)
    first, changes = _forked(scene, [x, y, z])
    second, more = _forked(scene, [z, x, y])
    first.launch(a)
    scene.replayed(changes)
    b.wait(a)
    second.launch(b)
    scene.replayed(more)


@chapter
def on_the_null_queue(scene: Scene) -> None:
    """A graph on the null queue comes between the commands of blocking queues."""
    a, b = scene.queues(2, "blocking")
    x, y, z = scene.cells(3)
    graph, changes = _forked(scene, [x, y, z])
    scene.slow(a, x)
    graph.launch(scene.queue("null"))
    scene.replayed(changes)
    scene.quick(b, y, x)


@chapter
def copies_and_fills(scene: Scene) -> None:
    """A graph of launches, fills and copies in a row."""
    a, b = scene.queues(2)
    x, y, z = scene.cells(3)
    with scene.recording() as changes, a.capture() as graph:
        scene.slow(a, x)
        scene.copy(a, y, x)
        scene.fill(a, x)
        scene.slow(a, y, x)
        scene.copy(a, z, y)
    for _ in range(2):
        graph.launch(b)
        scene.replayed(changes)


@chapter
def changed(scene: Scene) -> None:
    """A launch of a graph keeps its arguments when they are changed while it runs."""
    a = scene.queue()
    x, y = scene.cells(2)
    graph = scene.device.graph()
    kernel = scene.kernel("combine")
    arguments, change = scene.mixing(x, y)
    node = graph.add_kernel(kernel, 1, WIDTH, *arguments)
    with graph.instantiate() as executable:
        for _ in range(3):
            executable.launch(a)
            change()
            arguments, change = scene.mixing(x, y)
            executable.set_kernel(node, kernel, 1, WIDTH, *arguments)
        executable.launch(a)
        change()
        a.finish()


@chapter
def branches(scene: Scene) -> None:
    """A graph with four branches side by side, and a node after all of them."""
    a = scene.queue()
    x, *cells = scene.cells(5)
    graph, kernel = scene.device.graph(), scene.kernel("combine")
    changes, before = [], []
    for cell in cells:
        arguments, change = scene.mixing(cell, x)
        before.append(graph.add_kernel(kernel, 1, WIDTH, *arguments))
        changes.append(change)
    for cell in cells:
        arguments, change = scene.mixing(x, cell, steps=0)
        before = [graph.add_kernel(kernel, 1, WIDTH, *arguments, after=before)]
        changes.append(change)
    for _ in range(2):
        graph.launch(a)
        scene.replayed(changes)


@chapter.needs_execution
def host_function(scene: Scene) -> None:
    """A host function in a graph, between two copies."""
    a, b = scene.queues(2)
    x, y = scene.cells(2)
    pinned = scene.on_host(pinned=True)
    with scene.recording() as changes, a.capture() as graph:
        scene.slow(a, x)
        scene.copy(a, pinned, x)
        scene.host(a, pinned)
        scene.copy(a, y, pinned)
    for _ in range(2):
        graph.launch(b)
        scene.replayed(changes)


TESTS = chapter.tests
