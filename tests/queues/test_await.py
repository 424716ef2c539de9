"""``await`` for events, results and queues."""

import asyncio
import threading

import numpy as np
import pytest

import forebay as fb

pytestmark = pytest.mark.executes  # on null hardware no event is ever reached by itself


def test_other_tasks_run_meanwhile(device, queue, hold):
    """The gate is opened by a task that only runs if the wait lets it."""
    gate, order = hold(queue), []

    async def wait():
        await queue.record()
        order.append("waited")

    async def let_go():
        order.append("opened")
        gate.open()

    async def main():
        await asyncio.gather(wait(), let_go())

    asyncio.run(main())
    assert order == ["opened", "waited"]


def test_a_result(device, queue):
    kernel = device.program("kernel void last(global const int *x, int n, global int *to) { *to = x[n - 1]; }")["last"]

    async def main():
        found = [queue.launch(kernel, 1, 1, np.arange(n, dtype="i4"), n, result="i4") for n in (3, 5, 9)]
        return await asyncio.gather(*found), await found[0]

    assert asyncio.run(main()) == ([2, 4, 8], 2)


def test_a_queue_is_finished_up_to_there(device, make_queue, hold):
    """What is submitted later may be held."""
    queue = make_queue()

    async def main():
        queue.fill(device.empty(4), 1)
        waiting = asyncio.ensure_future(queue.finished())
        await asyncio.sleep(0)
        hold(queue)
        queue.fill(device.empty(4), 2)
        await waiting
        return queue.query()

    assert asyncio.run(main()) is False


def test_many_waits_take_no_thread(device, queue, hold):
    async def main():
        gate = hold(queue)
        waits = [asyncio.ensure_future(queue.finished()) for _ in range(300)]
        await asyncio.sleep(0)
        threads = threading.active_count()
        gate.open()
        await asyncio.gather(*waits)
        return threads

    before = threading.active_count()
    assert asyncio.run(main()) <= before + 1  # the gate has forebay's host thread


def test_a_cancelled_wait_leaves_everything_as_it_is(device, queue, hold, works):
    async def main():
        gate, event = hold(queue), queue.record()
        waiting = asyncio.ensure_future(queue.finished())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        gate.open()
        await event

    asyncio.run(main())
    works(queue)


def test_what_a_host_function_raised(device, queue):
    def fail():
        raise KeyError("from the host")

    async def main():
        queue.host(fail)
        await queue.finished()

    with pytest.raises(KeyError, match="from the host"):
        asyncio.run(main())


def test_closed_queues_and_captures(device, make_queue):
    queue = make_queue()

    async def captured():
        with queue.capture():
            await queue.record()

    with pytest.raises(fb.CaptureError):
        asyncio.run(captured())
    queue.close()
    with pytest.raises(fb.ClosedError, match="closed"):
        asyncio.run(queue.finished())
