"""Launches with ``result=``: the download is asynchronous, and a host synchronize happens when a value is asked for."""

import gc

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data
from tests.helpers.observer import observe
from tests.helpers.refusals import refused
from tests.inside import lend
from tests.ordering.happens_before import Relation

SOURCE = """
kernel void sum(global const int *values, int n, global int *result) {
    int sum = 0;
    for (int i = 0; i < n; i++) sum += values[i];
    *result = sum;
}
typedef struct { int a; float b; } Pair;
kernel void pair(int a, global Pair *result) { result->a = a; result->b = a / 2.0f; }
kernel void three(int a, global float *result) { for (int i = 0; i < 3; i++) result[i] = a + i; }
kernel void with_scratch(global const int *values, global int *room, int n, global int *result) {
    room[n - 1] = values[0];
    *result = room[n - 1];
}
kernel void reads(global const int *values) { }
kernel void scalar(global int *values, int n) { }
"""


@pytest.fixture
def values(device, queue):
    buffer = device.empty(10, "i4")
    queue.copy(buffer, np.arange(10, dtype="i4"))
    queue.finish()  # tests read it on other queues, which nothing orders after this one
    return buffer


def test_values_of_scalars_structures_and_arrays(queue, kernels, values):
    total = queue.launch(kernels["sum"], 1, 1, values, 10, result="i4")
    pair = queue.launch(kernels["pair"], 1, 1, 7, result=[("a", "i4"), ("b", "f4")])
    three = queue.launch(kernels["three"], 1, 1, 5, result=np.dtype(("f4", 3)))
    assert (device_data(total.get()), device_data(total.get()), total.dtype) == (45, 45, np.dtype("i4"))
    assert device_data(pair.get().tolist()) == (7, 3.5)
    assert device_data(three.get().tolist()) == [5, 6, 7]
    assert device_data(kernels["sum"][1, 1, queue](values, 3, result="i4").get()) == 3
    futures = [queue.launch(kernels["sum"], 1, 1, values, n, result="i4") for n in range(11)]
    assert device_data(fb.results(*futures)) == [n * (n - 1) // 2 for n in range(11)]


def test_one_synchronize_when_asked_for_and_none_when_not(device, queue, make_queue, kernels, values):
    device.finish()
    before = device.stats.host_syncs

    def syncs():
        return device.stats.host_syncs - before

    futures = [queue.launch(kernels["sum"], 1, 1, values, 10, result="i4") for _ in range(5)]
    assert syncs() == 0
    futures[-1].get()
    assert syncs() <= 1
    for future in futures:
        future.get()
    assert syncs() <= 1
    before = device.stats.host_syncs
    futures = [make_queue().launch(kernels["sum"], 1, 1, values, 10, result="i4") for _ in range(5)]
    fb.results(*futures)
    assert syncs() <= 1
    before = device.stats.host_syncs
    futures = [queue.launch(kernels["sum"], 1, 1, values, 10, result="i4") for _ in range(100)]
    del futures
    gc.collect()
    assert syncs() == 0


def test_results_of_several_queues_are_all_waited_for(device, make_queue, kernels, values):
    queues = [make_queue(blocking=False) for _ in range(3)]
    device.finish()
    with observe(device) as calls:
        futures = [queue.launch(kernels["sum"], 1, 1, values, 10, result="i4") for queue in queues]
        fb.results(*futures)
        relation = Relation(calls.log, calls.kind)
        submitted = [relation.commands(calls.handle_of(queue)) for queue in queues]
    assert all(len(each) >= 2 for each in submitted)
    assert all(relation.done >> each & 1 for own in submitted for each in own)


def test_it_does_not_wait_for_the_kernel(device, queue, hold, kernels, values, really):
    gate = hold(queue)
    future = queue.launch(kernels["sum"], 1, 1, values, 10, result="i4")
    assert not really or not future.query()
    assert "sum" not in repr(future)
    gate.open()
    assert future.get() == 45 or not really
    assert future.query()


def test_a_result_outlives_its_queue_and_memory_pressure(device, make_queue, hold, kernels, values):
    queue = make_queue()
    gate = hold(queue)
    future = queue.launch(kernels["sum"], 1, 1, values, 10, result="i4")
    queue.close()
    del queue
    rubbish = [np.full(64, 7, "u1") for _ in range(10000)]
    others = [make_queue().launch(kernels["sum"], 1, 1, values, 3, result="i4") for _ in range(20)]
    del rubbish
    gc.collect()
    gate.open()
    assert device_data(future.get()) == 45
    assert device_data(fb.results(*others)) == [3] * 20


def test_scratch_in_a_steady_state_that_allocates_nothing(device, queue, values, really):
    with device.program(SOURCE) as own:
        kernel = own["with_scratch"]
        kernel.scratch("room", 4 * fb.Argument("n"))
        queue.fill(values, 12)
        for turn in range(100):
            if turn == 3:
                before = device.stats.allocations
            assert queue.launch(kernel, 1, 1, values, 1000, result="i4").get() == 12 or not really
        assert device.stats.allocations == before


def test_what_is_refused(device, queue, hold, kernels, values):
    hold(device.null_queue)  # a blocking queue is ordered after it, also when it frees memory
    for name, arguments, result, kinds, word in (
        ("reads", (), "i4", (fb.InvalidArgumentError, ValueError), "last parameter"),
        ("scalar", (fb.NULL,), "i4", (fb.InvalidArgumentError, ValueError), "last parameter"),
        ("sum", (fb.NULL, 3), object, (fb.InvalidArgumentError, ValueError), "elements"),
        ("sum", (fb.NULL, 3), "no type", (fb.ArgumentTypeError, TypeError), "no type"),
        ("sum", (fb.NULL, 3, fb.NULL), "i4", (fb.ArgumentTypeError, TypeError), "3 arguments"),
        ("sum", (fb.NULL, "x"), "i4", (fb.ArgumentTypeError, TypeError), "argument 1"),
    ):
        before = queue.epoch
        with refused(*kinds, word):
            queue.launch(kernels[name], 1, 1, *arguments, result=result)
        assert queue.epoch == before
        assert lend(queue, 1, "i4").nbytes == 4
    for attempt, word in (
        (lambda: queue.launch(kernels["sum"], 1, 1, fb.NULL, 3, results="i4"), "results"),
        (fb.Result, "Queue.launch"),
        (lambda: fb.results(3), "int"),
    ):
        with refused(fb.ArgumentTypeError, TypeError, word):
            attempt()
    assert queue.launch(kernels["reads"], 1, 1, values, result=None) is None
    assert kernels["reads"][1, 1, queue](values, result=None) is None
