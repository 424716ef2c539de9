"""Copies and fills: between buffers, from and to the host, large ones, and methods of buffers without a queue."""

from __future__ import annotations

from forebay.selftest.kernels import WIDTH
from forebay.selftest.litmus.chapter import Chapter
from forebay.selftest.scene import Scene

chapter: Chapter = Chapter("copies")

LARGE = 1 << 20  # elements of 4 bytes: a copy takes a while


@chapter
def after_a_launch(scene: Scene) -> None:
    """A copy on another queue, which waits for a kernel, and a kernel that waits for the copy."""
    a, b = scene.queues(2)
    x, y, z = scene.cells(3)
    scene.slow(a, x)
    b.wait(a)
    scene.copy(b, y, x)
    a.wait(b)
    scene.quick(a, z, y)
    scene.quick(a, x)


@chapter
def fill_after_a_launch(scene: Scene) -> None:
    """A fill on another queue, which waits for a kernel, and a kernel that waits for the fill."""
    a, b = scene.queues(2)
    x, y = scene.cells(2)
    scene.slow(a, y, x)
    b.wait(a)
    scene.fill(b, x)
    a.wait(b)
    scene.quick(a, y, x)


@chapter
def large(scene: Scene) -> None:
    """A large copy, and a queue that waits for it before it reads the end and writes to the source."""
    a, b = scene.queues(2)
    x, y = scene.cells(2, LARGE)
    (z,) = scene.cells(1)
    end = slice(LARGE - WIDTH, LARGE)
    scene.slow(a, x.part(end))
    scene.copy(a, y, x)
    b.wait(a)
    scene.quick(b, z, y.part(end))
    scene.fill(b, x)


@chapter
def large_fill(scene: Scene) -> None:
    """A large fill, and a queue that waits for it before it reads the end."""
    a, b = scene.queues(2)
    (x,) = scene.cells(1, LARGE)
    (z,) = scene.cells(1)
    scene.fill(a, x)
    b.wait(a)
    scene.quick(b, z, x.part(slice(LARGE - WIDTH, LARGE)))


@chapter
def from_host(scene: Scene) -> None:
    """Bytes of the host that are written over at once, behind a slow kernel."""
    a, b = scene.queues(2)
    x, y = scene.cells(2)
    scene.slow(a, y, x)
    for _ in range(3):
        scene.upload(a, x)
        scene.quick(a, y, x)
    b.wait(a)
    scene.upload(b, x)


@chapter
def to_host(scene: Scene) -> None:
    """A copy to memory of the host, after a wait for another queue."""
    a, b = scene.queues(2)
    (x,) = scene.cells(1)
    host = scene.on_host()
    scene.slow(a, x)
    b.wait(a)
    scene.copy(b, host, x)
    a.wait(b)
    scene.quick(a, x)


@chapter
def pinned(scene: Scene) -> None:
    """Copies to pinned memory and back, on three queues."""
    a, b, c = scene.queues(3)
    x, y = scene.cells(2)
    host = scene.on_host(pinned=True)
    scene.slow(a, x)
    b.wait(a)
    scene.copy(b, host, x)
    c.wait(b)
    scene.copy(c, y, host)
    scene.slow(c, y)


@chapter
def strided(scene: Scene) -> None:
    """Copies of every other element, behind slow kernels."""
    a, b = scene.queues(2)
    x, y = scene.cells(2)
    scene.slow(a, x)
    b.wait(a)
    scene.copy(b, y.part(slice(0, WIDTH, 2)), x.part(slice(1, WIDTH, 2)))
    a.wait(b)
    scene.quick(a, x, y)


@chapter
def get(scene: Scene) -> None:
    """``get()`` without a queue comes after what has written to the memory."""
    (x,) = scene.cells(1)
    for kind in ("non-blocking", "blocking", "null"):
        scene.slow(scene.queue(kind), x)
        scene.expect(x, x.place.get())


@chapter
def set_(scene: Scene) -> None:
    """``set()`` without a queue comes after what uses the memory."""
    a = scene.queue()
    x, y = scene.cells(2)
    scene.slow(a, y, x)
    x.model[:] = 42
    x.place.set(x.model)


@chapter
def null_queue(scene: Scene) -> None:
    """Copies on the null queue come between kernels of blocking queues."""
    a, b = scene.queues(2, "blocking")
    x, y = scene.cells(2)
    null = scene.queue("null")
    scene.slow(a, x)
    scene.copy(null, y, x)
    scene.slow(b, y)
    scene.upload(null, y)
    scene.quick(a, x, y)


TESTS = chapter.tests
