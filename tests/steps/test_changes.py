"""What changes from one time of a step to the next: arguments, grids, kernels, their number, and memory."""

import numpy as np
import pytest

import forebay as fb
from tests.helpers import processes

from .conftest import SIZE, TIMES, run

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


@pytest.mark.parametrize("what", list(CHANGES))
def test_what_changes(device, kernels, what):
    def body(queue, kernels, x, y, i):
        queue.launch(kernels["advance"], 4, 16, x, 5)
        CHANGES[what](queue, kernels, x, y, i)
        queue.launch(kernels["combine"], 4, 16, y, x, 1)
        CHANGES[what](queue, kernels, y, x, i)

    assert run(device, kernels, body, True) == run(device, kernels, body, False)


@pytest.mark.parametrize("stops", [0, 1, 2])
def test_the_number_changes(device, kernels, stops):
    def body(queue, kernels, x, y, i):
        for k in range(3 + (i if i > stops else 0)):
            queue.launch(kernels["advance"], 4, 16, x, k)

    assert run(device, kernels, body, True) == run(device, kernels, body, False)


def test_now_in_one_piece_and_now_in_two(device, kernels):
    """A launch is in two recordings then, of which each misses what the other was changed to."""

    def body(queue, kernels, x, y, i):
        for k in range(6):
            if k == 3 and i // 2 % 2:
                queue.fill(y, i)
            queue.launch(kernels["combine"], 4, 16, (x, y)[(i + k) % 2], (y, x)[i // 3 % 2], i // (k + 1))

    assert run(device, kernels, body, True, 4 * TIMES) == run(device, kernels, body, False, 4 * TIMES)


def test_more_parameters_than_are_noted_one_by_one(device):
    """Each parameter beyond the 62nd changes without the others, and with them."""
    count = 70
    names = [f"a{i}" for i in range(count)]
    program = device.program(
        f"kernel void many(global uint *a, {', '.join(f'uint {name}' for name in names)})"
        f" {{ a[get_global_id(0)] = a[get_global_id(0)] * 3 + {' + '.join(f'{i + 1} * a{i}' for i in range(count))}; }}"
    )
    numbers = [0] * count

    def body(queue, kernels, x, y, i):
        mine = list(numbers)
        for at in range(60, 60 + i):
            mine[at % count] = i
        mine[(58 + i) % count] += 1
        for _ in range(2):
            queue.launch(kernels["many"], 4, 16, x, *mine)

    assert run(device, program, body, True, 14) == run(device, program, body, False, 14)


def test_only_what_changed_is_changed(device, queue, kernels, recordings, x, y):
    """Each time of 8 launches, none or one of which differs from the last time: in one thing."""
    if "clones" not in recordings:
        pytest.skip("only clones tell what they are changed to")
    from tests.observers.recordings import counts

    step = queue.step()
    usual = {"buffer": x, "k": 1, "groups": 4}
    last = [usual] * 8
    for at, other in [
        (0, {}), (0, {}), (0, {}), (3, {"k": 5}), (3, {"k": 5}), (3, {}), (3, {"buffer": y}), (3, {}),
        (7, {"buffer": y}), (7, {}), (5, {"groups": 3}), (5, {"groups": 3}), (5, {}), (5, {}),
    ]:  # fmt: skip
        launches = [{**usual, **other} if k == at else usual for k in range(8)]
        changes = counts()[2]
        with step:
            for launch in launches:
                queue.launch(kernels["advance"], launch["groups"], 16, launch["buffer"], launch["k"])
        queue.finish()
        if queue.stats.steps > 3:
            assert counts()[2] - changes == sum(
                launch[name] is not before[name]
                for launch, before in zip(launches, last, strict=True)
                for name in usual
            )
        last = launches
    assert queue.stats.steps_recorded == 1


@pytest.mark.needs("recordings that change")
def test_another_size_of_local_memory_is_recorded_again(queue, kernels, collects, x):
    if not collects:
        pytest.skip("nothing is recorded")
    step, recorded = queue.step(), []
    for nbytes in (64, 64, 64, 128, 128, 64):
        with step:
            for _ in range(2):
                queue.launch(kernels["inside"], 4, 16, x, fb.local(nbytes))
        recorded.append(queue.stats.steps_recorded)
    assert recorded == [1, 1, 1, 2, 2, 3]


REUSED = """
import sys
import forebay as fb
from tests.helpers.observer import observe, watch
from tests.ordering.program import SOURCE
with watch("level_zero") as driver, fb.Device() as device:
    kernels, queue, seen, times = device.program(SOURCE), device.queue(blocking=False), set(), 0
    step = queue.step()
    def turn(*buffers):
        with step:
            for buffer in buffers:
                queue.launch(kernels["advance"], 1, 64, buffer, 1)
    with observe(device) as calls:
        for i in range(160):
            x, y = device.empty(64, "u4"), device.empty(64, "u4")
            if i // 10 % 2:  # a C library gives out first what came back last
                x, y = y, x
            if i == 3:  # copies of the recording are made while the others may run; later they take turns
                with queue.gate():
                    for pair in [(x, y), (y, x), (x, y)][:int(sys.argv[1]) - 1]:
                        turn(*pair)
            turn(x, y)
            queue.finish()
            times += {x.address, y.address} <= seen
            seen |= {x.address, y.address}
            for each in (x, y) if i // 20 % 2 else (y, x):
                each.close()
            del x, y, each
        assert calls.count("zeMemFree") == 320
        assert calls.count("zeCommandListUpdateMutableCommandsExp") > 140
    assert times > 100
    assert not driver.violations(), driver.violations()
"""


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_memory_that_takes_the_place_of_closed_memory(device, recordings, copies):
    """It may have the address, and all that forebay knows of it may lie where that of the other was. In a process of
    its own, because after some other tests the driver takes another address each time.
    """
    if device.info.backend != "level_zero":
        pytest.skip("only the driver's own recordings tell whether a pointer was set")
    done = processes.python("-c", REUSED, copies, FOREBAY_DEVICE="level_zero", timeout=60)
    assert done.returncode == 0, done.stderr
