"""`fb.elementwise`: the results are NumPy's, whatever goes in; a kernel is compiled once; mistakes submit nothing."""

import gc
import logging
import pickle
import threading
import weakref

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import forebay as fb
from forebay.expressions import arguments

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


@pytest.mark.executes
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
        assert all(map(np.array_equal, (z.get(), more.get()), expected(x, y)))


@pytest.mark.executes
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
        assert np.array_equal(result.get(queue=queue), 2 * x + 1)
    host = np.zeros(5, "f4")
    assert AXPY(other, 3, host, queue=queue) is host
    assert np.array_equal(host, [5] * 5)


@pytest.mark.executes
def test_an_output_begins_with_what_its_memory_has(device):
    add = fb.elementwise("int32 x", "int32 total", "if (x > 1) total += x")
    total = device.array(np.full(4, 10, "i4"))
    add(device.array(np.arange(4, dtype="i4")), total)
    assert total.get().tolist() == [10, 10, 12, 13]


@pytest.mark.executes
def test_raw_arrays_are_indexed_by_the_statements(device, queue):
    reverse = fb.elementwise("T x, raw T t", "T y", "y = x + t[n - 1 - i]")
    x = np.arange(6, dtype="i4").reshape(2, 3)
    y = reverse(device.array(x), device.array(np.arange(6, dtype="i4")))
    assert np.array_equal(y.get(), x + np.arange(6)[::-1].reshape(2, 3))
    pairs = fb.elementwise("raw float32 x", "float32 y, raw float32 z", "y = x[2 * i]; z[n - 1 - i] = x[2 * i + 1]")
    z = device.empty(2, "f4")
    y, _ = pairs(device.array(np.arange(4, dtype="f4")), result=(device.empty(2, "f4"), z))
    assert (y.get().tolist(), z.get().tolist()) == ([0, 2], [3, 1])
    count = fb.elementwise("int32 first", "int32 y", "y = first + i")
    assert count(3, queue=queue, size=(2, 2)).get(queue=queue).tolist() == [[3, 4], [5, 6]]


def test_the_preamble_knows_the_types_and_options_are_passed(device, really):
    clip = fb.elementwise(
        "T x", "T y", "y = clipped(x, LEAST)", name="clip", options="-DLEAST=2",
        preamble="T clipped(T x, T least) { return x < least ? least : x; }",
    )  # fmt: skip
    y = clip(device.array(np.arange(4, dtype="i2")))
    assert y.dtype == "i2"
    if really:
        assert y.get().tolist() == [2, 2, 2, 3]


def built(caplog):
    return len([record for record in caplog.records if record.msg.startswith("built a program")])


def test_a_kernel_is_compiled_once_for_each_kind_of_arguments(device, caplog):
    twice = fb.elementwise("T x, T a", "T y", "y = a * x", name="twice")
    x, y = device.empty(5, "f4"), device.empty(5, "i4")
    with caplog.at_level(logging.INFO):
        twice(x, 2)
        for _ in range(3):
            twice(x, 3.5)
            twice(x[1:], np.float64(2), result=x[1:])
        assert built(caplog) == 1
        twice(y, 2)
        twice(x, x)
        twice(x, x[0])
        assert built(caplog) == 4
        for _ in range(2):
            for arguments in ((x, 2), (y, 2), (x, x), (x, x[0])):
                twice(*arguments)
        assert built(caplog) == 4


def test_a_call_is_not_taken_for_the_one_before_it_when_other_arguments_decided(device):
    convert = fb.elementwise("float32 x, U a", "T y", "y = x * a")
    x = device.empty(5, "f4")
    convert(x, np.float64(2), result=device.empty(5, "i2"))
    with pytest.raises(fb.ArgumentTypeError, match="no argument decides T, the type of y"):
        convert(x, np.float64(2))
    with pytest.raises(fb.ArgumentTypeError, match="no argument decides U, the type of a"):
        convert(x, 2.0, result=device.empty(5, "i2"))


@pytest.mark.needs("OpenCL")
def test_another_process_would_find_it_on_disk(device, tmp_path, monkeypatch):
    monkeypatch.setenv("FOREBAY_CACHE", str(tmp_path))
    monkeypatch.delenv("FOREBAY_NO_CACHE", raising=False)

    def files():
        return sorted(path.name for path in (tmp_path / "programs").iterdir())

    with fb.Device(device.name, private=True) as other:
        fb.elementwise("T x", "T y", "y = x + 41", name="kept")(other.empty(5, "f4"))
        before = files()
        assert before
        fb.elementwise("T x", "T y", "y = x + 41", name="kept")(other.empty(7, "f4"))
        assert files() == before


@pytest.mark.executes(reads="wrong")
@pytest.mark.threads
def test_threads_call_one_at_the_same_time(device, caplog):
    add = fb.elementwise("T x, T a", "T y", "y = x + a", name="add")
    x = device.array(np.arange(1000, dtype="i4"))
    device.finish()
    wrong, start = [], threading.Barrier(3)

    def work(own):
        with device.queue(blocking=False) as queue:
            start.wait()
            for i in range(30):
                y = add(x, own + i)
                if y.get(queue=queue)[-1] != 999 + own + i:
                    wrong.append((own, i))

    threads = [threading.Thread(target=work, args=(100 * i,)) for i in range(3)]
    with caplog.at_level(logging.INFO):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert built(caplog) == 1


@pytest.mark.executes
def test_in_a_capture_it_is_part_of_the_graph(device):
    queue = device.queue()
    x, z = device.array(np.arange(4, dtype="f4")), device.empty(4, "f4")
    device.finish()
    with queue, queue.capture() as graph:
        doubled = AXPY(x, 0)
        AXPY(doubled, x, result=z)
        queue.free(doubled)
    for k in (1, 3):
        queue.copy(x, np.arange(4, dtype="f4") * k)
        graph.launch(queue)
        assert np.array_equal(z.get(queue=queue), np.arange(4) * 5 * k)


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


@pytest.mark.executes
def test_on_a_device_that_looks_after_each_launch(device):
    with fb.Device(device.name, private=True, debug=True) as careful:
        for _ in range(2):
            assert AXPY(careful.array(np.arange(3, dtype="f4")), 1).get().tolist() == [1, 3, 5]


def test_closed_devices_are_forgotten(device):
    one = fb.elementwise("T x", "T y", "y = x + 1", name="one")
    with fb.Device(device.name, private=True) as other:
        one(other.empty(5))
    gone = weakref.ref(other)
    del other
    one(device.empty(5))
    one(device.empty(5, "i4"))
    gc.collect()
    assert gone() is None


TYPE, VALUE = (fb.ArgumentTypeError, TypeError), (fb.InvalidArgumentError, ValueError)
MISTAKES = {
    "elements of another type": (lambda d: AXPY(d.x, d.ints), *TYPE,
        ["axpy: y needs elements of float32, not int32", "'T y'", ".view('f4')"]),
    "two types for one letter": (lambda d: d.both(d.x, d.ints), *TYPE,
        ["b has elements of int32, a has float32", "T is one type"]),
    "two shapes": (lambda d: AXPY(d.x, d.three), *VALUE,
        ["y has the shape (3,)", "x has (8,)"]),
    "an output of another shape": (lambda d: AXPY(d.x, 1, result=d.three), *VALUE,
        ["x has the shape (8,)", "z has (3,)"]),
    "an output of another type": (lambda d: AXPY(d.x, 1, result=d.ints), *TYPE,
        ["z needs elements of float32, not int32"]),
    "a dtype as the output": (lambda d: AXPY(d.x, 1, result=np.float32), *TYPE,
        ["float32 z is a Buffer", "not type"]),
    "the output twice": (lambda d: AXPY(d.x, 1, d.x, result=d.x), *TYPE, ["given twice"]),
    "too few": (lambda d: AXPY(d.x), *TYPE,
        ["1 arguments given", "axpy(float32 x, float32 y) -> float32 z"]),
    "strides": (lambda d: AXPY(d.x[::2], 1), *VALUE, ["x: ", "strides (8,)", ".copy()"]),
    "what is no number": (lambda d: AXPY(d.x, "1"), *TYPE, ["y", "not str"]),
    "None": (lambda d: AXPY(d.x, None), *TYPE, ["y", "not NoneType"]),
    "a number that does not fit": (lambda d: d.both(d.ints, 2.5), *TYPE, ["integer", "float"]),
    "a complex number": (lambda d: AXPY(d.x, 1j), *TYPE, ["y", "complex"]),
    "a closed Buffer": (lambda d: AXPY(d.x, d.closed), fb.ClosedError, fb.Error, ["axpy: y", "closed"]),
    "a closed output": (lambda d: AXPY(d.x, 1, result=d.closed), fb.ClosedError, fb.Error, ["axpy: z", "closed"]),
    "memory that overlaps": (lambda d: AXPY(d.x[1:], 1, result=d.x[:-1]), *VALUE,
        ["z overlaps x"]),
    "a read-only array": (lambda d: AXPY(d.x, 1, result=d.frozen), *TYPE, ["read-only"]),
    "nothing that says the device": (lambda d: AXPY(1, 2), *TYPE, ["give queue="]),
    "nothing that says the size": (lambda d: AXPY(1, 2, queue=d.queue), *TYPE, ["give size="]),
    "a size beside arrays": (lambda d: AXPY(d.x, 2, size=3), *TYPE, ["size= is for"]),
    "no queue": (lambda d: AXPY(d.x, 2, queue="null"), *TYPE, ["queue", "str"]),
    "a type that nothing decides": (lambda d: fb.elementwise("T x", "U y", "y = x")(d.x), *TYPE,
        ["no argument decides U, the type of y"]),
    "a type that a number leaves open": (lambda d: d.both(1, 2, queue=d.queue, size=3), *TYPE,
        ["no argument decides T", "numpy.float32(2)"]),
    "complex numbers": (lambda d: fb.elementwise("complex64 x", "complex64 y", "y = x")(d.x.view("c8")),
        fb.NotSupportedError, NotImplementedError, ["OpenCL C has no complex64", "cupy_style"]),
    "a raw number": (lambda d: fb.elementwise("T x, raw T t", "T y", "y = x")(d.x, 1), *TYPE,
        ["t is raw"]),
    "a raw output that is not there": (lambda d: fb.elementwise("T x", "raw T y", "y[i] = x")(d.x), *TYPE,
        ["raw must be passed"]),
}  # fmt: skip


class Things:
    def __init__(self, device, queue):
        self.queue = queue
        self.x, self.three, self.ints = device.empty(8, "f4"), device.empty(3, "f4"), device.empty(8, "i4")
        self.closed = device.empty(8, "f4")
        self.closed.close()
        self.frozen = np.zeros(8, "f4")
        self.frozen.flags.writeable = False
        self.both = fb.elementwise("T a, T b", "T c", "c = a + b")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_submit_nothing(device, queue, refuses, mistake):
    things = Things(device, queue)
    call, kind, builtin, words = MISTAKES[mistake]
    with queue:
        for before in ((), (things.x, things.x), (things.x, 1)):  # none, or one that is much like it
            if before:
                AXPY(*before)
            with refuses(kind, builtin, *words):
                call(things)


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        (("flaot32 x", "T y", "y = x"), fb.InvalidArgumentError, "'flaot32' is no type"),
        (("float x", "T y", "y = x"), fb.InvalidArgumentError, "float32 .C's. or float64 .NumPy's."),
        (("object x", "T y", "y = x"), fb.InvalidArgumentError, "not a type of numbers"),
        (("x", "T y", "y = x"), fb.InvalidArgumentError, "'x' is no parameter"),
        (("const T x", "T y", "y = x"), fb.InvalidArgumentError, "'const T x' is no parameter"),
        (("T 2x", "T y", "y = x"), fb.InvalidArgumentError, "'2x' cannot be a name"),
        (("T _x", "T y", "y = x"), fb.InvalidArgumentError, "'_x' cannot be a name"),
        (("T i", "T y", "y = x"), fb.InvalidArgumentError, "'i' has a meaning here"),
        (("T x", "T x", "x = 1"), fb.InvalidArgumentError, "two parameters are called 'x'"),
        (("T x", "", "x = 1"), fb.InvalidArgumentError, "nothing comes out"),
        (("T x", "T y", "if (x > 1) return; y = x"), fb.InvalidArgumentError, "return"),
        ((["T x"], "T y", "y = x"), fb.ArgumentTypeError, "a str, not list"),
        (("T x", "T y", None), fb.ArgumentTypeError, "operation is code"),
    ],
)
@pytest.mark.needs("no chosen device")
def test_what_cannot_be_read_is_refused_at_once(arguments, kind, words):
    with pytest.raises(kind, match=words):
        fb.elementwise(*arguments, name="mistaken")


def test_a_mistake_in_the_statements_shows_the_compilers_log(device):
    wrong = fb.elementwise("T x", "T y", "y = x * (q)", name="wrong")
    for _ in range(2):  # nothing is kept of it
        with pytest.raises(fb.BuildError, match=r"wrong, 'y = x \* \(q\)'") as caught:
            wrong(device.empty(5))
    assert "q" in caught.value.log


@pytest.mark.needs("a compiler of its own")
def test_doubles_are_refused_where_there_are_none(device, monkeypatch):
    """A device that refuses what it compiles, and does not take a double, stands for one that has none."""
    wrong = fb.elementwise("T x", "T y", "y = x * (q)", name="wrong")
    monkeypatch.setattr(arguments, "DOUBLES", "kernel void doubles(global quadruple *x) { x[0] *= 2.0; }")
    with pytest.raises(fb.NotSupportedError, match=f"wrong: {device.name} has no float64"):
        wrong(device.empty(5, "f8"))
    with pytest.raises(fb.BuildError):
        wrong(device.empty(5, "f4"))


def test_what_it_is_called(device):
    assert repr(AXPY) == "<forebay.elementwise axpy(float32 x, float32 y) -> float32 z: 'z = 2 * x + y'>"
    assert [str(each) for each in SCALED.in_params] == ["T x", "U y"]


@pytest.mark.executes
def test_another_process_can_be_sent_one(device):
    x = device.array(np.arange(3, dtype="f4"))
    AXPY(x, 1)
    sent = pickle.loads(pickle.dumps(AXPY))
    assert (repr(sent), sent.in_params) == (repr(AXPY), AXPY.in_params)
    assert sent(x, 1).get().tolist() == [1, 3, 5]


def test_it_may_be_called_as_a_function_of_the_language(device):
    x = device.empty(5, "f4")
    fb.elementwise("T x", "T y", "y = max(x, (T)0)", name="max")(x)
    fb.reduction("T x", "T y", "x", "max(a, b)", 0, name="max")(x)
