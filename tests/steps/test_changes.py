"""What changes from one time of a step to the next: arguments, grids, kernels, their number, and memory."""

import pytest

import forebay as fb
from tests.helpers import processes


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
    processes.output_of("-c", REUSED, copies, FOREBAY_DEVICE="level_zero", timeout=60)
