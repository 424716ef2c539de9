"""What `fb.elementwise` and `fb.reduction` have in common: when they compile, graphs, threads, mistakes."""

import logging
import pickle
import threading
from functools import partial
from unittest import mock

import numpy as np
import pytest

import forebay as fb
from forebay.expressions import arguments
from tests.helpers.device_data import device_data
from tests.helpers.refusals import refused
from tests.helpers.threads import together

from .test_elementwise import AXPY, SCALED
from .test_reduction import LARGEST, SUM

DOT = fb.reduction("T x, T y", "T z", "x * y", "a + b", 0)


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


@pytest.mark.needs("OpenCL")
def test_another_process_would_find_it_on_disk(device, own_cache):
    def files():
        return sorted(path.name for path in (own_cache / "programs").iterdir())

    with fb.Device(device.name, private=True) as other:
        fb.elementwise("T x", "T y", "y = x + 41", name="kept")(other.empty(5, "f4"))
        before = files()
        assert before
        fb.elementwise("T x", "T y", "y = x + 41", name="kept")(other.empty(7, "f4"))
        assert files() == before


def test_another_process_can_be_sent_one(device):
    x = device.array(np.arange(3, dtype="f4"))
    AXPY(x, 1)
    sent = pickle.loads(pickle.dumps(AXPY))
    assert repr(sent) == repr(AXPY)
    assert repr(AXPY) == "<forebay.elementwise axpy(float32 x, float32 y) -> float32 z: 'z = 2 * x + y'>"
    assert [str(each) for each in SCALED.in_params] == ["T x", "U y"]
    assert device_data(sent(x, 1).get().tolist()) == [1, 3, 5]


def test_it_may_be_called_as_a_function_of_the_language(device):
    x = device.empty(5, "f4")
    fb.elementwise("T x", "T y", "y = max(x, (T)0)", name="max")(x)
    fb.reduction("T x", "T y", "x", "max(a, b)", 0, name="max")(x)


@pytest.mark.threads
def test_threads_call_one_at_the_same_time(device, caplog):
    add, start = fb.elementwise("T x, T a", "T y", "y = x + a", name="add"), threading.Barrier(3)
    x = device.array(np.arange(100000, dtype="i4"))
    device.finish()

    def work(own):
        with device.queue(blocking=False) as queue:
            start.wait()
            for i in range(20):
                y = add(x, own + i, queue=queue)
                assert device_data(y.get(queue=queue)[-1]) == 99999 + own + i
                assert device_data(SUM(y[:100], queue=queue, result="i4").get()) == 4950 + 100 * (own + i)

    with caplog.at_level(logging.INFO):
        together(*[partial(work, 100 * i) for i in range(3)])
    assert len([each for each in caplog.messages if "(add" in each]) == 1


def test_in_a_capture_it_is_part_of_the_graph(device):
    queue = device.queue()
    x, y, z = device.array(np.ones(100000, "f4")), device.empty((), "f4"), device.empty(100000, "f4")
    device.finish()
    with queue, queue.capture() as graph:
        doubled = AXPY(x, 0)
        AXPY(doubled, x, result=z)
        total = SUM(doubled)
        SUM(total, result=y)
        queue.free(doubled)
        queue.free(total)
    for k in (1, 3):
        queue.fill(x, k)
        graph.launch(queue)
        assert (device_data(z.get(queue=queue)) == 5 * k).all()
        assert device_data(y.get(queue=queue)) == 200000 * k


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
    "no elements": (lambda d: LARGEST(d.x[:0]), *VALUE, ["largest: no elements, and no start"]),
    "one of two axes": (lambda d: SUM(d.x.reshape(2, -1), axis=1), fb.NotSupportedError, NotImplementedError,
        ["axis=1 of 2", "all axes"]),
    "no axis": (lambda d: SUM(d.x, axis=1), *VALUE, ["axis=1 is no axis of 1"]),
    "more than one result": (lambda d: SUM(d.x, result=d.x), *VALUE, ["one element, not (8,)"]),
    "a result of another type": (lambda d: SUM(d.x, result=d.ints[:1].reshape(())), *TYPE,
        ["total has elements of int32, x has float32"]),
    "another dtype for the host": (lambda d: SUM(d.x, result="f8"), *TYPE, ["result=float64: the result is float32"]),
    "the result twice": (lambda d: SUM(d.x, d.x[:1], result="f4"), *TYPE, ["given twice"]),
    "two shapes reduced": (lambda d: DOT(d.x, d.x[1:]), *VALUE, ["y has the shape (7,)", "x has (8,)"]),
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
                AXPY(*before), SUM(things.x), LARGEST(things.x)
            with refuses(kind, builtin, *words):
                call(things)


@pytest.mark.parametrize(("make", "written", "kind", "words"), [
    (fb.elementwise, ("flaot32 x", "T y", "y = x"), VALUE, "'flaot32' is no type"),
    (fb.elementwise, ("float x", "T y", "y = x"), VALUE, "float32 (C's) or float64 (NumPy's)"),
    (fb.elementwise, ("object x", "T y", "y = x"), VALUE, "not a type of numbers"),
    (fb.elementwise, ("x", "T y", "y = x"), VALUE, "'x' is no parameter"),
    (fb.elementwise, ("const T x", "T y", "y = x"), VALUE, "'const T x' is no parameter"),
    (fb.elementwise, ("T 2x", "T y", "y = x"), VALUE, "'2x' cannot be a name"),
    (fb.elementwise, ("T _x", "T y", "y = x"), VALUE, "'_x' cannot be a name"),
    (fb.elementwise, ("T i", "T y", "y = x"), VALUE, "'i' has a meaning here"),
    (fb.elementwise, ("T x", "T x", "x = 1"), VALUE, "two parameters are called 'x'"),
    (fb.elementwise, ("T x", "", "x = 1"), VALUE, "nothing comes out"),
    (fb.elementwise, ("T x", "T y", "if (x > 1) return; y = x"), VALUE, "return"),
    (fb.elementwise, (["T x"], "T y", "y = x"), TYPE, "a str, not list"),
    (fb.elementwise, ("T x", "T y", None), TYPE, "operation is code"),
    (fb.reduction, ("T x", "T y, T z", "x", "a + b"), VALUE, "one result"),
    (fb.reduction, ("T x", "raw T y", "x", "a + b"), VALUE, "not raw"),
    (fb.reduction, ("T a", "T y", "a", "a + b"), VALUE, "'a' has a meaning here"),
    (fb.reduction, ("T x", "T y", "x", np.add), TYPE, "combine is code"),
    (fb.reduction, ("T x", "T y", "x", "a + b", [0]), TYPE, "start is code"),
])  # fmt: skip
@pytest.mark.needs("no chosen device")
def test_what_cannot_be_read_is_refused_at_once(make, written, kind, words):
    with refused(*kind, words):
        make(*written, name="mistaken")


def test_a_mistake_in_the_code_shows_the_compilers_log(device):
    wrong = fb.elementwise("T x", "T y", "y = x * (q)", name="wrong")
    for _ in range(2):  # nothing is kept of it
        with pytest.raises(fb.BuildError, match=r"wrong, 'y = x \* \(q\)'") as caught:
            wrong(device.empty(5))
        assert "q" in caught.value.log
    with pytest.raises(fb.BuildError, match=r"wrong, map 'x', combine 'a \+ c'"):
        fb.reduction("T x", "T y", "x", "a + c", 0, name="wrong")(device.empty(5))


@pytest.mark.needs("a compiler of its own")
def test_doubles_are_refused_where_there_are_none(device):
    """A device that refuses what it compiles, and does not take a double, stands for one that has none."""
    wrong = fb.elementwise("T x", "T y", "y = x * (q)", name="wrong")
    source = "kernel void doubles(global quadruple *x) { x[0] *= 2.0; }"
    no_doubles = pytest.raises(fb.NotSupportedError, match=f"wrong: {device.name} has no float64")
    with mock.patch.object(arguments, "DOUBLES", source), no_doubles:
        wrong(device.empty(5, "f8"))
    with pytest.raises(fb.BuildError):
        wrong(device.empty(5, "f4"))
