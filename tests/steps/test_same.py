"""A step does what the same calls do without it, whatever is launched, what changes, and what comes between."""

import numpy as np
import pytest

import forebay as fb

from .conftest import SIZE, TIMES, run

MANY = 70  # parameters: more than are noted one by one

CHANGES = {
    "nothing": lambda queue, kernels, x, y, i: queue.launch(kernels["advance"], 4, 16, x, 3),
    "a scalar": lambda queue, kernels, x, y, i: queue.launch(kernels["advance"], 4, 16, x, i),
    "a pointer": lambda queue, kernels, x, y, i: queue.launch(kernels["advance"], 4, 16, (x, y)[i % 2], 3),
    "the groups": lambda queue, kernels, x, y, i: queue.launch(kernels["count"], i % 4 + 1, 16, x),
    "the block": lambda queue, kernels, x, y, i: queue.launch(kernels["count"], 2, (16, 32)[i % 2], x),
    "the kernel": lambda queue, kernels, x, y, i: queue.launch(
        *((kernels["advance"], 4, 16, x, 3) if i % 2 else (kernels["count"], 4, 16, x))
    ),
    "local memory": lambda queue, kernels, x, y, i: queue.launch(kernels["inside"], 4, 16, x, fb.local(64 + 64 * i)),
    "bytes by value": lambda queue, kernels, x, y, i: queue.launch(
        kernels["combine"], 4, 16, x, fb.by_value(np.full(SIZE, i, "u4")), 1
    ),
    "a structure": lambda queue, kernels, x, y, i: queue.launch(
        kernels["take"], 4, 16, x, np.array([i, 2 * i], "u4").tobytes()
    ),
    "an array": lambda queue, kernels, x, y, i: queue.launch(
        kernels["combine"], 4, 16, x, np.full(SIZE, i, "u4"), 1
    ),
    "a NumPy scalar": lambda queue, kernels, x, y, i: queue.launch(kernels["advance"], 4, 16, x, np.uint32(i)),
}  # fmt: skip

BETWEEN = {
    "a copy": lambda device, queue, x, y: queue.copy(y, x),
    "an upload": lambda device, queue, x, y: queue.copy(y, np.arange(SIZE, dtype="u4")),
    "a download": lambda device, queue, x, y: queue.copy(np.empty(SIZE, "u4"), x),
    "a fill": lambda device, queue, x, y: queue.fill(y, 3),
    "a record": lambda device, queue, x, y: queue.record(),
    "a record that is waited for": lambda device, queue, x, y: queue.record().wait(),
    "finish": lambda device, queue, x, y: queue.finish(),
    "finish with a timeout": lambda device, queue, x, y: queue.finish(timeout=30),
    "finish of the device": lambda device, queue, x, y: device.finish(),
    "query": lambda device, queue, x, y: queue.query(),
    "get": lambda device, queue, x, y: x.get(),
    "a host function": lambda device, queue, x, y: queue.host(lambda: None),
    "a null-queue command": lambda device, queue, x, y: device.null_queue.fill(y, 3),
    "a null-queue query": lambda device, queue, x, y: device.null_queue.query(),
    "a wait for the null queue": lambda device, queue, x, y: queue.wait(device.null_queue),
    "a buffer that comes and goes": lambda device, queue, x, y: device.zeros(SIZE, "u4"),
    "memory of the pool": lambda device, queue, x, y: queue.free(queue.alloc(SIZE, "u4")),
    "another queue's wait": lambda device, queue, x, y: device.queue().wait(queue),
    "stats": lambda device, queue, x, y: (queue.stats, queue.empty, queue.epoch),
    "nothing": lambda device, queue, x, y: None,
}


def changing(what):
    def body(device, queue, kernels, x, y, i):
        queue.launch(kernels["advance"], 4, 16, x, 5)
        CHANGES[what](queue, kernels, x, y, i)
        queue.launch(kernels["combine"], 4, 16, y, x, 1)
        CHANGES[what](queue, kernels, y, x, i)

    return body


def interrupted(what, every):
    def body(device, queue, kernels, x, y, i):
        queue.launch(kernels["advance"], 4, 16, x, i)
        queue.launch(kernels["combine"], 4, 16, y, x, 2)
        if i % every == 0:
            BETWEEN[what](device, queue, x, y)
        queue.launch(kernels["combine"], 4, 16, x, y, 1)
        queue.launch(kernels["advance"], 4, 16, x, 2)

    return body


def growing(stops):
    def body(device, queue, kernels, x, y, i):
        for k in range(3 + (i if i > stops else 0)):
            queue.launch(kernels["advance"], 4, 16, x, k)

    return body


def now_in_one_piece_and_now_in_two(device, queue, kernels, x, y, i):
    """A launch is in two recordings then, of which each misses what the other was changed to."""
    for k in range(6):
        if k == 3 and i // 2 % 2:
            queue.fill(y, i)
        queue.launch(kernels["combine"], 4, 16, (x, y)[(i + k) % 2], (y, x)[i // 3 % 2], i // (k + 1))


def many_parameters(device, queue, kernels, x, y, i):
    """Each parameter beyond the 62nd changes without the others, and with them."""
    numbers = [0] * MANY
    for at in range(60, 60 + i):
        numbers[at % MANY] = i
    numbers[(58 + i) % MANY] += 1
    for _ in range(2):
        queue.launch(kernels["many"], 4, 16, x, *numbers)


def bound(device, queue, kernels, x, y, i):
    go = kernels["advance"].bind(queue, 4, 16, x, 2)
    for _ in range(3):
        go()
    queue.launch(kernels["advance"], 4, 16, x, i)


def graph(device, queue, kernels, x, y, i):
    graph = device.graph()
    graph.add_kernel(kernels["combine"], 4, 16, x, y, 1)
    queue.launch(kernels["advance"], 4, 16, x, i)
    graph.launch(queue)
    queue.launch(kernels["advance"], 4, 16, x, i)


def scratch(device, queue, kernels, x, y, i):
    queue.launch(kernels["pass"], 4, 16, y, x, i)
    queue.launch(kernels["pass"], 4, 16, y, x, 1)


OWN = f"""
kernel void many(global uint *a, {", ".join(f"uint a{i}" for i in range(MANY))})
{{ a[get_global_id(0)] = a[get_global_id(0)] * 3 + {" + ".join(f"{i + 1} * a{i}" for i in range(MANY))}; }}
kernel void pass(global const uint *rows, global uchar *s, global uint *a, uint k)
{{ s[0] = 1; a[get_global_id(0)] = a[get_global_id(0)] * 3 + rows[0] + k; }}
"""
BODIES = {
    **{f"{what} changes": changing(what) for what in CHANGES},
    **{f"{what} between, each {every} times": interrupted(what, every) for what in BETWEEN for every in (1, 3)},
    **{f"more launches from {stops}": growing(stops) for stops in range(3)},
    **{each.__name__: each for each in (now_in_one_piece_and_now_in_two, many_parameters, bound, graph, scratch)},
}
OFTEN = {"now_in_one_piece_and_now_in_two": 4 * TIMES, "many_parameters": 14}


@pytest.mark.threads  # of host functions
@pytest.mark.parametrize("what", BODIES)
def test_the_same_as_without_it(device, kernels, what):
    if what in ("many_parameters", "scratch"):
        kernels = device.program(OWN)
        kernels["pass"].scratch("s", fb.MaxOver("rows") + 1)

    def body(*arguments):
        BODIES[what](device, *arguments)

    times = OFTEN.get(what, TIMES)
    assert run(device, kernels, body, True, times) == run(device, kernels, body, False, times)
