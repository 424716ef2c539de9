"""The commonest mistakes of newcomers. Each error names the thing that is wrong and the way out."""

import copy
import os
import pickle
import pydoc
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import forebay as fb
from forebay import hip
from forebay.queues.interop.names import INSTEAD, OtherName

SOURCE = """
kernel void fill(global int *values, int value) { values[get_global_id(0)] = value; }
kernel void one(global int *value) { value[0] = 1; }
kernel void scale(global float *values, float by) { values[get_global_id(0)] *= by; }
"""


def use_without_import(module):
    found = vars(fb).pop(module)  # other tests have imported it
    try:
        return getattr(fb, module)
    finally:
        setattr(fb, module, found)


# By exception: what is done, and behind it what the message must have: the thing, and the way out.
MISTAKES = {
    fb.ArgumentTypeError: """
        queue.launch(fill, ints, 3)  # 'fill' | 2 arguments after grid and block | int* values, int value
        queue.launch(kernel=fill, grid=1, block=1, args=(ints, 3))  # by name | kernel, grid, block, args
        fill(ints, 3)  # grid and block | fill[grid, block](...)
        queue.wait()  # wait() | an Event or a Queue | finish()
        queue.wait(1.5)  # wait() | float | finish(timeout=seconds)
        queue.wait([untimed, untimed])  # wait() | list | one call for each
        device.program(Path("fill.cl"))  # the path 'fill.cl' | read_text()
        fb.by_value(5)  # by_value | int | numbers and Buffers are passed as they are
        device.event(timing="yes")  # event: timing | bool | str
        fb.Device(device.name, debug="yes")  # Device: debug | bool | str
        queue.launch(fill, (1,), (1,), (ints, 3))  # 'fill' | takes 2 | a tuple, pass *args
        queue.launch(scale, 1, 1, np.zeros(8), 2.0)  # argument 0 | float* values | float32 | .view
        ints.copy(floats)  # Queue | queue.copy(dst, src)
        queue.copy([0.0] * 8, floats)  # list | NumPy array
        queue.copy(np.zeros(4), np.zeros(4))  # Buffer | ndarray
        queue.copy(np.zeros((8, 16), "i4")[:, ::2], ints)  # not C-contiguous | get(out=array)
        fb.Queue(device)  # Queue | Device.queue
        queue.launch(fill, 1, 1, 0x7F00, 3)  # 'fill' | argument 0 | int | Kernel.follow_pointers
        queue.launch(fill, 1, 1, ints, ints[0, 0])  # argument 1 | Buffer | x.item()
        queue.launch(fill, np.array([1, 1]), 64, ints, 3)  # grid | ndarray | tuple(
        queue.launch(fill, 1, 1, ints, 3, stream=queue)  # stream | keyword result | whose launch is called
        queue.launch(scale, 1, 1, floats, np.zeros((300, 300)))  # argument 1 | number | shape=(300, 300)
        device.zeros(4, 4)  # dtype | '4' | (4, 4)
        device.zeros(8 / 2)  # shape | 4.0 | tuple of ints
        device.queue(non_blocking=True)  # non_blocking | blocking=False
        device.queue(properties=2)  # properties | timing=True
        device.queue(colour="red")  # colour | blocking, priority and timing
        fb.Device(0)  # int | '0' | forebay.devices()
        floats[[1, 2]]  # list | ints, slices | .get()
        floats[np.ones(8, bool)]  # ndarray | ints, slices | .get()
        np.sum(floats)  # np.sum | Buffer | x.get() | fb.reduction
        np.zeros(8) + floats  # np.add | Buffer | x.get()
        np.concatenate([floats, floats])  # np.concatenate | x.get()
        np.zeros_like(floats)  # np.zeros_like | device.zeros(x.shape, x.dtype)
        "on" if ints[0, 0] else "off"  # Buffer | neither true nor false | x.item() | is not None
        3 in floats  # 3 in Buffer | np.isin(3, x.get()).any()
    """,
    AttributeError: """
        program.fill  # Program | 'fill' | program['fill']
        program.fil  # Program | 'fil'
        fb.zeros(8)  # 'zeros' | Device().array(host)
        use_without_import("hip")  # 'hip' | from forebay import hip
        hip.hipMemcpyHostToDevice  # hip.hipMemcpyKind.hipMemcpyHostToDevice
        hip.hipLaunchKernelGGL  # hipModuleLaunchKernel
        fb.add(floats, floats)  # 'add' | fb.elementwise
        device.zeros(8, fb.float32)  # 'float32' | numpy.float32
    """,
    fb.InvalidArgumentError: """
        device.array(None)  # dtype('O') | Python objects
        queue.launch(fill, 1, 1, np.zeros((8, 8), "i4")[:, 0], 3)  # argument 0 | not C-contiguous | ascontiguousarray
        queue.launch(fill, 1, 1, np.zeros(0, "i4"), 3)  # argument 0 | empty (shape (0,))
        queue.launch(fill, 1, 1, ints[:, 0], 3)  # argument 0 | one after another | .copy()
        untimed - untimed  # without timing | record(timing=True)
        device.program("void f(global int *x) { x[0] = 1; }")["f"]  # 'f' | it has none | kernel void
        device.program("kernels/fill.cl")  # 'kernels/fill.cl' | name of a file | read_text()
        queue.copy(ints, np.zeros(64))  # (64,) float64, 512 bytes | (8, 8) int32, 256 bytes | slice
        fb.Device("vulkan")  # 'vulkan' | level_zero, cuda, opencl, sycl
        queue.launch(fill, 1 << 20, 1 << 20, ints, 3)  # block | 1048576 | grid counts groups
        queue.launch(fill, 63 // 64, 64, ints, 3)  # grid of 0 | at least 1 | grid counts groups
        floats.reshape(tuple(range(1000)))  # 64 axes | (0, 1, 2, 3, 4, 5, ...)
        floats.set(np.zeros(9))  # (9,) | (8,) | slice
    """,
    fb.ClosedError: """
        (ints.close(), queue.fill(ints, 1))  # buf is closed | (8, 8) int32 | Device(debug=True)
        (floats.close(), floats.get())  # this Buffer is closed | (8,) float32 | Device(debug=True)
        (ints.close(), queue.launch(fill, 1, 1, ints, 3))  # argument 0 | this Buffer is closed | (8, 8) int32
        (freed := queue.alloc(8), queue.free(freed), queue.free(freed))  # free | freed or closed before | (8,) float32
    """,
    fb.Error: """
        device.as_buffer([1, 2, 3])  # as_buffer | Device.array
    """,
    fb.DeviceNotFoundError: """
        fb.Device("accelerator:7")  # 'accelerator:7' | can be used | what there is:
    """,
}
LINES = [(kind, *line.strip().split("  # ")) for kind, text in MISTAKES.items() for line in text.strip().splitlines()]


@pytest.fixture
def names(device, queue):
    """What a mistake is made with, by the names in the table."""
    program, untimed = device.program(SOURCE), device.event()
    queue.record(untimed)
    return {
        "fb": fb, "hip": hip, "np": np, "Path": Path, "use_without_import": use_without_import,
        "device": device, "queue": queue, "program": program, "fill": program["fill"], "scale": program["scale"],
        "ints": device.zeros((8, 8), "i4"), "floats": device.zeros(8, "f4"), "untimed": untimed,
        "result": lambda: queue.launch(program["one"], 1, 1, result="i4"),
    }  # fmt: skip


@pytest.mark.needs("no validation layer")  # NumPy (2.4) leaks what it was refused a reduction of
@pytest.mark.parametrize(("kind", "mistake", "words"), LINES, ids=[mistake for _, mistake, _ in LINES])
def test_the_message_names_the_thing_and_the_way_out(names, kind, mistake, words):
    before = names["queue"].epoch
    with pytest.raises(kind) as caught:
        eval(mistake, names)
    for word in words.split(" | "):
        assert word in str(caught.value), str(caught.value)
    if not any(submits in mistake for submits in ("record(", "result(", "alloc(")):
        assert names["queue"].epoch == before


@pytest.mark.parametrize(("source", "line", "caret"), [
    ("kernel void f(global int *x) { x[0] = y; }", "kernel void f(global int *x) { x[0] = y; }", 38),
    ("kernel void f(global int *x)\n{\n\tx[0] = missing + 1;\n}", "\tx[0] = missing + 1;", 8),
])  # fmt: skip
def test_what_does_not_build_shows_the_line_and_a_caret_below(device, source, line, caret):
    """No number of the compiler stands before line and column, and no line of its own around the messages."""
    with pytest.raises(fb.BuildError) as caught:
        device.program(source)
    first, *log = str(caught.value).splitlines()
    assert device.name in first
    row = source.splitlines().index(line) + 1
    assert log[0].startswith(f"{row}:{caret + 1}: error: "), log
    assert log[1].endswith(f" | {line}") or log[1].endswith(line.strip()), log
    if "\t" not in line:
        assert log[2].index("^") - log[1].index(line) == caret, log
    assert "Compilation" not in caught.value.log
    assert caught.value.log == "\n".join(log)


@pytest.mark.needs("OpenCL")
def test_warnings_are_kept_also_when_the_program_comes_from_the_cache(device, tmp_path):
    source = "#warning look here\nkernel void f(global int *x) { x[0] = 1; }"
    with mock.patch.dict(os.environ, FOREBAY_CACHE=str(tmp_path)):
        for _ in range(2):
            log = device.program(source).log
            assert "1:2: warning: " in log
            assert "look here" in log


def test_other_names_are_not_listed_and_not_there(names):
    queue = names["queue"]
    for thing in (queue, names["device"], names["ints"], queue.record(), names["fill"], names["program"]):
        kind = type(thing)
        assert "synchronize" not in dir(thing)
        assert "synchronize" not in dir(kind)
        assert not hasattr(thing, "synchronize")
        assert not hasattr(thing, "no_such_name")
        assert "__class__" in dir(thing)
        told = {name: advice for advice, listed in INSTEAD[kind].items() for name in listed.split()}
        for name, advice in {**told, "no_such_name": kind.__name__}.items():
            with pytest.raises(AttributeError, match=rf"{kind.__name__}.*{name}") as caught:
                getattr(thing, name)
            assert advice in str(caught.value)
        assert kind.__getattribute__ is object.__getattribute__
        assert "OtherName" not in pydoc.plaintext.document(kind)


def test_no_name_of_ours_is_hidden(queue):
    """A name in the table must not be one that forebay has."""
    for kind, advice in INSTEAD.items():
        for name in " ".join(advice.values()).split():
            assert name not in dir(kind)
            own, *others = [base for base in kind.__mro__ if name in base.__dict__]
            assert isinstance(own.__dict__[name], OtherName), (kind, name)
            assert set(others) <= {object}
    assert queue.native is not None


def test_nothing_of_a_process_is_pickled_or_copied_by_accident(device, queue, program):
    buffer = device.zeros((4, 4), "i4")
    device.finish()
    with queue.capture() as graph:
        queue.launch(program["fill"], 1, 1, buffer, 1)
    things = [device, queue, queue.record(), buffer, buffer[:, 1], program, program["fill"], graph,
              graph.instantiate(), queue.step(), device.pool,
              program["fill"].bind(queue, 1, 1, buffer, 1)]  # fmt: skip
    for thing in things:
        for how in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(fb.ArgumentTypeError, match=f"forebay.{type(thing).__name__} .*not pickled"):
                how(thing)
    pickle.loads(pickle.dumps((queue.stats, fb.ClosedError("x"))))
