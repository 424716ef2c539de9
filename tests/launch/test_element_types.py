"""Memory of one type for a pointer to another: refused before the driver sees anything."""

import gc
import sys
from functools import partial

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data
from tests.helpers.observer import observe
from tests.helpers.refusals import refused
from tests.helpers.threads import together

SOURCE = """
typedef struct { int a; float b; } Pair;
typedef float Real;
kernel void of_float(global float *x) { x[get_global_id(0)] = 1.5f; }
kernel void of_float4(global float4 *x) { x[get_global_id(0)] = (float4)(1.5f); }
kernel void of_int(global int *x) { x[get_global_id(0)] = 3; }
kernel void of_uint(global uint *x) { x[get_global_id(0)] = 3; }
kernel void of_ulong2(global ulong2 *x) { x[get_global_id(0)] = (ulong2)(3); }
kernel void of_short(global const unsigned short *x) { }
kernel void of_half(global half *x) { vstore_half(1.5f, 0, x); }
kernel void of_uchar(global uchar *x) { x[get_global_id(0)] = 3; }
kernel void of_void(global void *x) { }
kernel void of_pair(global Pair *x) { x->a = 3; }
kernel void of_real(global Real *x) { *x = 1; }
kernel void three(global int *first, global int *second, constant int *third) { first[0] = second[0] + third[0]; }
kernel void half_of(float x, global float *result) { *result = x / 2; }
kernel void scratched(global const int *sizes, global int *room, global int *out) { out[0] = room[0] = sizes[0]; }
"""
SINGLES = [("of_float", "f8"), ("of_float", "i4"), ("of_float", "c16"), ("of_float", "f2"), ("of_float4", "f8"),
           ("of_int", "f4"), ("of_int", "i8"), ("of_uint", "u2"), ("of_ulong2", "f8"), ("of_ulong2", "u4"),
           ("of_short", "f2"), ("of_short", "i4"), ("of_half", "u2"), ("of_half", "f4")]  # fmt: skip


@pytest.fixture
def ints(device):
    return device.zeros(64, "i4")


@pytest.fixture
def floats(device):
    return device.zeros(64, "f4")


@pytest.fixture
def unchanged(queue):
    """``with unchanged:`` neither the queue nor its driver may see anything of the block."""

    class Unchanged:
        def __enter__(self):
            queue.finish()
            self.before = queue.epoch, queue.stats, queue.device.stats
            self.observing = observe(queue.device)
            self.calls = self.observing.__enter__()

        def __exit__(self, *exc_info):
            self.observing.__exit__(*exc_info)
            assert self.calls.names() == []
            assert (queue.epoch, queue.stats, queue.device.stats) == self.before

    return Unchanged()


def elements(*words):
    return refused(fb.ArgumentTypeError, TypeError, ".view(", *words)


def test_what_a_pointer_points_to(kernels):
    assert {name: kernels[name].parameters[0].dtype for name in kernels if name.startswith("of_")} == {
        "of_float": "f4", "of_float4": "f4", "of_int": "i4", "of_uint": "u4", "of_ulong2": "u8", "of_short": "u2",
        "of_half": "f2", "of_uchar": "u1", "of_void": None, "of_pair": None, "of_real": None,
    }  # fmt: skip


@pytest.mark.parametrize(("name", "dtype"), SINGLES)
def test_another_size_or_kind_is_refused_and_a_view_taken(device, queue, kernels, unchanged, name, dtype):
    buffer, array, kernel, graph = device.empty(64, dtype), np.zeros(64, dtype), kernels[name], device.graph()
    parameter = kernel.parameters[0]
    wanted, expected = parameter.dtype, (f"'{name}'", "argument 0", f"{parameter.type_name} x", str(parameter.dtype))
    with unchanged:
        for attempt in (
            *[lambda: queue.launch(kernel, 1, 1, buffer)] * 3,
            lambda: kernel[1, 1, queue](buffer),
            lambda: kernel.bind(queue, 1, 1, buffer),
            lambda: graph.add_kernel(kernel, 1, 1, buffer),
            lambda: queue.launch(kernel, 1, 1, array),
            lambda: queue.launch(kernel, 1, 1, fb.by_value(array)),
        ):
            with elements(*expected):
                attempt()
    assert graph.nodes == ()
    for given in (buffer.view(wanted), buffer.view("u1"), array.view(wanted), fb.by_value(array.view("i1"))):
        queue.launch(kernel, 1, 1, given)
    kernel.bind(queue, 1, 1, buffer.view(wanted))()
    queue.finish()


ALIKE = {
    "of_float": ["f4", "c8", "u1", "i1", "?", "S4", "V8", "f4,i4"],
    "of_float4": ["f4", "c8", "u1"],
    "of_int": ["i4", "u4", "u1"],
    "of_uint": ["i4", "u4"],
    "of_ulong2": ["i8", "u8"],
    "of_short": ["i2", "u2"],
    "of_half": ["f2", "u1"],
    **{name: ["f8", "i2", "u8", "f4,i4", "u1"] for name in ("of_uchar", "of_void", "of_pair", "of_real")},
}


@pytest.mark.parametrize("name", ALIKE)
def test_what_goes(device, queue, kernels, name):
    for dtype in ALIKE[name]:
        for given in (device.empty(64, dtype), np.zeros(64, dtype), fb.by_value(np.zeros(64, dtype)), bytes(64)):
            queue.launch(kernels[name], 1, 1, given)
    queue.finish()


def test_after_a_refusal_the_earlier_arguments_are_still_known(device, queue, kernels, ints, unchanged):
    other, wrong = device.zeros(64, "i4"), device.zeros(64, "f4")
    seven = device.array(np.full(4, 7, "i4"))
    device.finish()
    queue.launch(kernels["three"], 1, 1, ints, seven, seven)
    with unchanged:
        for arguments in ((wrong, seven, seven), (other, wrong, seven), (other, other, wrong)):
            with elements("'three'", "int32"):
                queue.launch(kernels["three"], 1, 1, *arguments)
    before = queue.stats
    queue.launch(kernels["three"], 1, 1, ints, seven, seven)
    assert (queue.stats - before).arg_bytes_set == 0
    queue.launch(kernels["three"], 1, 1, other, seven, seven)
    assert (queue.stats - before).arg_bytes_set == 8
    assert (device_data(ints.get(queue=queue)[0]), device_data(other.get(queue=queue)[0])) == (14, 14)


def test_nothing_goes_before_a_refusal(device, queue, make_queue, kernels, ints, floats, unchanged, hold):
    """Not a wait's marker, not a copy of an array, no bytes by value and no measuring."""
    array, scratched = np.zeros(64, "i4"), device.program(SOURCE)["scratched"]
    scratched.scratch("room", fb.MaxOver("sizes") + 4)
    producer = make_queue()
    queue.launch(kernels["three"], 1, 1, ints, ints, b"abcd")
    device.finish()
    with hold(producer):
        producer.launch(kernels["of_int"], 1, 1, ints)
        event = producer.record()
        queue.wait(event)
        before, calls = (queue.epoch, queue.stats), observe(device)
        with calls as calls:
            for arguments in (
                (ints, floats, b"efgh"), (array, floats, ints), (floats, array, ints),
                (ints, ints, fb.by_value(np.zeros(4, "f4"))), (fb.by_value(array), ints, np.zeros(4, "f4")),
            ):  # fmt: skip
                with elements("'three'", "int32"):
                    queue.launch(kernels["three"], 1, 1, *arguments)
            for arguments in ((ints, floats), (array, floats)):
                with elements("'scratched'", "argument 2"):
                    queue.launch(scratched, 1, 1, *arguments)
        assert calls.names() == []
        assert (queue.epoch, queue.stats) == before
    queue.launch(kernels["three"], 1, 1, ints, ints, b"efgh")
    queue.finish()
    assert not array.any()


def test_in_graphs_and_by_turns(device, queue, kernels, ints, floats):
    """The type is part of what is compared, in a launch whose memory stays the same, too."""
    with queue.capture() as graph:
        for wrong in (floats, np.zeros(4, "f8")):
            with elements("'of_int'"):
                queue.launch(kernels["of_int"], 1, 1, wrong)
        queue.launch(kernels["of_int"], 1, 1, ints)
    (node,) = graph.nodes
    executable = graph.instantiate()
    with elements("'of_int'"):
        executable.set_kernel(node, kernels["of_int"], 1, 1, floats)
    executable.launch(queue)
    for _ in range(100):
        queue.launch(kernels["of_int"], 1, 1, ints)
        with elements("'of_int'"):
            queue.launch(kernels["of_int"], 1, 1, ints.view("f4"))
    queue.finish()


def test_types_of_results(queue, kernels, unchanged, really):
    half_of = kernels["half_of"]
    for result in ("f8", "i4", ("f8", 3), "c16"):
        with unchanged, refused(fb.ArgumentTypeError, TypeError, "result=", "float* result", "float32"):
            queue.launch(half_of, 1, 1, 3.0, result=result)
    for result in ("f4", [("value", "f4")], "V4"):
        assert (
            queue.launch(half_of, 1, 1, 3.0, result=result).get().tobytes() == np.float32(1.5).tobytes() or not really
        )


def test_refusals_keep_nothing(device, queue, kernels, ints, floats):
    """Nor do views of bytes by value, which the launch holds while it looks at the other arguments."""
    scratched = device.program(SOURCE)["scratched"]
    scratched.scratch("room", 4)
    number = np.zeros(1, "i4,f4")[0]
    given = number, floats, ints, np.zeros(64, "f4")
    graph = device.graph()
    ways = [
        lambda: queue.launch(kernels["three"], 1, 1, number, floats, ints),
        lambda: queue.launch(kernels["three"], 1, 1, number, given[3], ints),
        lambda: kernels["three"].bind(queue, 1, 1, number, floats, ints),
        lambda: graph.add_kernel(kernels["three"], 1, 1, number, floats, ints),
        lambda: queue.launch(scratched, 1, 1, number, floats),
    ]
    for _ in range(2):
        before = [sys.getrefcount(each) for each in given], device.stats
        for way in ways:
            for _ in range(100):
                with pytest.raises(fb.ArgumentTypeError):
                    way()
        gc.collect()
    assert ([sys.getrefcount(each) for each in given], device.stats) == before


@pytest.mark.threads
def test_refusals_beside_launches_of_other_threads(device, queue, kernels):
    """Each plan has one kernel object, whose arguments a refused launch must not touch."""
    turns, buffers = 300, [device.zeros(1, "i4") for _ in range(4)]
    one, wrong = device.array(np.ones(1, "i4")), device.zeros(1, "f4")
    device.finish()

    def work(buffer):
        for _ in range(turns):
            queue.launch(kernels["three"], 1, 1, buffer, buffer, one)
            with pytest.raises(fb.ArgumentTypeError):
                queue.launch(kernels["three"], 1, 1, buffer, buffer, wrong)

    together(*[partial(work, buffer) for buffer in buffers])
    assert [device_data(buffer.get(queue=queue)[0]) for buffer in buffers] == [turns] * 4
