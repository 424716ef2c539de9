"""`fb.elementwise`: the results are NumPy's, whatever goes in; a kernel is compiled once; mistakes submit nothing."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import forebay as fb
from tests.helpers.device_data import device_data

AXPY = fb.elementwise("float32 x, float32 y", "float32 z", "z = 2 * x + y", name="axpy")
SCALED = fb.elementwise("T x, U y", "T z, bool more", "z = x * 2 + (T)y; more = z > 7", name="scaled")
TYPES = [("f4", "i4"), ("f2", "f4"), ("i8", "u1"), ("u2", "?"), ("?", "i1")]


def numbers(dtype, shape, seed):
    return np.random.default_rng(seed).integers(0, 2 if dtype == "?" else 40, shape).astype(dtype)


def expected(x, y):
    with np.errstate(over="ignore"):
        wide = x.astype("f8" if x.dtype.kind == "f" else "i8")
        z = (wide * 2 + np.asarray(y).astype(x.dtype)).astype(x.dtype)
    return z, z.astype("f8") > 7


@pytest.mark.needs("doubles")
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    types=st.sampled_from(TYPES),
    shape=st.sampled_from([(), (1,), (7,), (0,), (255,), (256,), (257,), (3, 1, 5), (2, 300)]),
    other=st.sampled_from(["array", "array", "one", "number"]),
    seed=st.integers(0, 99),
)
def test_results_are_numpys(device, types, shape, other, seed):
    x, y = numbers(types[0], shape, seed), numbers(types[1], shape if other == "array" else (), seed + 1)
    there = y[()] if other == "number" else device.array(y)
    for _ in range(2):  # the second call is like the one before
        z, more = SCALED(device.array(x), there)
        assert z.shape == more.shape == shape
        assert all(map(np.array_equal, (device_data(z.get()), device_data(more.get())), expected(x, y)))


def test_outputs_are_new_or_given_in_every_form(device, queue):
    x, y = np.arange(5, dtype="f4"), np.ones(5, "f4")
    there, other, z = device.array(x), device.array(y), device.empty(5, "f4")
    device.finish()
    for result in (
        AXPY(there, other, queue=queue),
        AXPY(there, other, z, queue=queue),
        AXPY(there, other, queue=queue, result=z),
        AXPY(there, other, queue=queue, result=(z,)),
        AXPY(x, other, queue=queue, result=z),
        AXPY(x, y, queue=queue),
        AXPY(there, other, queue=queue, result=there[:]),  # the memory that is read
    ):
        assert np.array_equal(device_data(result.get(queue=queue)), 2 * x + 1)
    host = np.zeros(5, "f4")
    assert AXPY(other, 3, host, queue=queue) is host
    assert np.array_equal(device_data(host), [5] * 5)


def test_an_output_begins_with_what_its_memory_has(device):
    add = fb.elementwise("int32 x", "int32 total", "if (x > 1) total += x")
    total = device.array(np.full(4, 10, "i4"))
    add(device.array(np.arange(4, dtype="i4")), total)
    assert device_data(total.get().tolist()) == [10, 10, 12, 13]


def test_raw_arrays_are_indexed_by_the_statements(device, queue):
    reverse = fb.elementwise("T x, raw T t", "T y", "y = x + t[n - 1 - i]")
    x = np.arange(6, dtype="i4").reshape(2, 3)
    y = reverse(device.array(x), device.array(np.arange(6, dtype="i4")))
    assert np.array_equal(device_data(y.get()), x + np.arange(6)[::-1].reshape(2, 3))
    pairs = fb.elementwise("raw float32 x", "float32 y, raw float32 z", "y = x[2 * i]; z[n - 1 - i] = x[2 * i + 1]")
    z = device.empty(2, "f4")
    y, _ = pairs(device.array(np.arange(4, dtype="f4")), result=(device.empty(2, "f4"), z))
    assert (device_data(y.get().tolist()), device_data(z.get().tolist())) == ([0, 2], [3, 1])
    count = fb.elementwise("int32 first", "int32 y", "y = first + i")
    assert device_data(count(3, queue=queue, size=(2, 2)).get(queue=queue).tolist()) == [[3, 4], [5, 6]]


def test_the_preamble_knows_the_types_and_options_are_passed(device, really):
    clip = fb.elementwise(
        "T x", "T y", "y = clipped(x, LEAST)", name="clip", options="-DLEAST=2",
        preamble="T clipped(T x, T least) { return x < least ? least : x; }",
    )  # fmt: skip
    y = clip(device.array(np.arange(4, dtype="i2")))
    assert y.dtype == "i2"
    if really:
        assert device_data(y.get().tolist()) == [2, 2, 2, 3]


def test_a_call_is_not_taken_for_the_one_before_it_when_other_arguments_decided(device):
    convert = fb.elementwise("float32 x, U a", "T y", "y = x * a")
    x = device.empty(5, "f4")
    convert(x, np.float64(2), result=device.empty(5, "i2"))
    with pytest.raises(fb.ArgumentTypeError, match="no argument decides T, the type of y"):
        convert(x, np.float64(2))
    with pytest.raises(fb.ArgumentTypeError, match="no argument decides U, the type of a"):
        convert(x, 2.0, result=device.empty(5, "i2"))


def test_a_call_that_is_refused_leaves_a_capture_as_it_was(device, queue):
    add = fb.elementwise("T x, T a", "T y", "y = x + a", name="add")
    x, z = device.empty(4, "i4"), device.empty(4, "i4")
    device.finish()
    with queue.capture() as graph:
        add(x, 1, queue=queue, result=z)  # compiled in the capture
        with pytest.raises(fb.ArgumentTypeError, match="needs an integer"):
            add(x, 2.5, queue=queue)
        add(z, 1, queue=queue, result=z)
    for _ in range(2):  # which would be refused if memory of the graph were not freed
        graph.launch(queue)
    queue.finish()


def test_it_goes_to_the_queue_that_is_given_or_current(device, make_queue):
    x, z = device.empty(5, "f4"), device.empty(5, "f4")
    first, second = make_queue(), make_queue()
    for _ in range(2):
        AXPY(x, x, z, queue=first)
        with second:
            AXPY(x, x, z)
            AXPY(x, x, z, queue=first)
    assert (first.stats.launches, second.stats.launches) == (4, 2)


def test_no_elements_are_no_launch(device, queue):
    before = queue.epoch
    assert AXPY(device.empty((0, 3)), 1, queue=queue).shape == (0, 3)
    assert queue.stats.launches == 0
    assert queue.epoch == before


def test_on_a_device_that_looks_after_each_launch(device):
    with fb.Device(device.name, private=True, debug=True) as careful:
        for _ in range(2):
            assert device_data(AXPY(careful.array(np.arange(3, dtype="f4")), 1).get().tolist()) == [1, 3, 5]
