"""`fb.reduction`: any number of elements, in at most two launches, with the same result each time."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import forebay as fb
from tests.helpers.device_data import device_data

SUM = fb.reduction("T x", "T total", "x", "a + b", 0, name="sum_of")
LARGEST = fb.reduction("T x", "T largest", "x", "a > b ? a : b", name="largest")
SIZES = [0, 1, 2, 15, 16, 17, 255, 256, 257, 4096, 4097, 16384, 16385, 70000, 1 << 20]


def numbers(dtype, size, seed):
    """Below zero where the type has that, so that what is no element is not the largest; floats add them exactly."""
    first = 1 if dtype == "u1" else -10
    return np.random.default_rng(seed).integers(first, first + 9, size).astype(dtype)


@pytest.mark.needs("doubles")
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(dtype=st.sampled_from(["f4", "f8", "u1"]), size=st.sampled_from(SIZES) | st.integers(0, 40000),
       seed=st.integers(0, 99))  # fmt: skip
def test_results_are_numpys(device, really, dtype, size, seed):
    x = numbers(dtype, size, seed)
    there = device.array(x)
    for _ in range(2):  # the second call is like the one before
        total = SUM(there)
        assert (total.shape, total.dtype) == ((), np.dtype(dtype))
        largest = LARGEST(there).get() if size else None
        # Where nothing runs memory has values by chance, and others when Hypothesis tries again.
        assert (total.get(), largest) == (x.sum(dtype=dtype), x.max() if size else None) or not really


def test_the_result_is_new_or_given_or_on_its_way_to_the_host(device, queue):
    for size in (100, 100000):
        x = device.array(np.ones(size, "i4").reshape(10, -1))
        device.finish()
        one = device.empty((1, 1), "i4")
        assert device_data(SUM(x, queue=queue).get(queue=queue)) == size
        assert SUM(x, one, queue=queue) is one
        assert device_data(one.get(queue=queue).tolist()) == [[size]]
        assert SUM(x, queue=queue, result=one, axis=(0, -1)) is one
        assert device_data(SUM(np.ones(size, "i4"), queue=queue, result="i4").get()) == size
        assert device_data(SUM(np.ones(0, "i4"), queue=queue, result="i4").get()) == 0
        future = SUM(x, queue=queue, result="i4")
        assert (future.dtype, device_data(future.get())) == (np.dtype("i4"), size)


@pytest.mark.needs("doubles")
@pytest.mark.long
def test_map_start_post_and_what_is_accumulated(device, queue):
    x = np.linspace(0, 2, 50000, dtype="f4")
    there = device.array(x)
    norm = fb.reduction("T x", "T y", "x * x", "a + b", 0, "y = sqrt(a)", accumulate="f8", name="norm")
    assert device_data(norm(there).get()) == np.float32(math.sqrt((x.astype("f8") ** 2).sum()))
    dot = fb.reduction("T x, T y, T factor", "float64 z", "x * y * factor", "a + b", 100, name="dot")
    assert np.isclose(device_data(dot(there, there, 2).get()), 100 + 2 * (x.astype("f8") ** 2).sum(), rtol=1e-6)  # once
    assert device_data(dot(there[:0], there[:0], 2).get()) == 100
    mean = fb.reduction("T x", "T y", "x", "a + b", 0, "y = a / n", name="mean_of")
    assert np.isclose(device_data(mean(there).get()), 1)
    first = fb.reduction("T x, raw T limits", "int64 y", "x > limits[0] ? i : n", "a < b ? a : b", None, name="first")
    assert device_data(first(there, device.array(np.array([1.5], "f4"))).get()) == np.argmax(x > 1.5)
    every = fb.reduction("bool x", "bool y", "x", "a && b", True, name="every")
    assert device_data(every(device.array(np.ones(70000, "?"))).get())
    assert ~device_data(every(device.array(np.arange(70000) > 0)).get())
    least = fb.reduction("float16 x", "float16 y", "x", "a < b ? a : b", np.inf, name="least")
    assert device_data(least(device.array(np.arange(3, 20000).astype("f2"))).get()) == 3
    assert device_data(least(device.empty(0, "f2")).get()) == np.inf
    count = fb.reduction("raw T x", "int32 y", "x[i] > 0", "a + b", 0, name="count")
    assert device_data(count(there, size=10).get()) == 9


def test_two_runs_give_the_same_bits(device):
    x = device.array(np.random.default_rng(1).random(300000, "f4"))
    assert device_data(len({SUM(x).item() for _ in range(5)})) == 1


@pytest.mark.parametrize(("size", "launches"), [(0, 1), (1000, 1), (1000000, 2)])
def test_it_takes_one_launch_or_two_and_waits_for_nothing(device, queue, size, launches):
    x, y = device.empty(size, "f4"), device.empty((), "f4")
    SUM(x, queue=queue, result=y)
    device.finish()
    before = queue.stats.launches, device.stats.host_syncs
    SUM(x, queue=queue, result=y)
    SUM(x, queue=queue)
    assert queue.stats.launches == before[0] + 2 * launches
    assert device.stats.host_syncs == before[1]


def test_a_result_for_the_host_is_refused_in_a_capture(device, queue):
    x = device.empty(100000, "i4")
    device.finish()
    queue.begin_capture()
    with pytest.raises(fb.CaptureUnsupportedError, match="sum_of with result= for the host"):
        SUM(x, queue=queue, result="i4")
    with pytest.raises(fb.CaptureInvalidatedError):
        queue.end_capture()
