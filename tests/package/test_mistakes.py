"""The commonest mistakes of newcomers. Each error names the thing that is wrong and the way out."""

import copy
import pickle

import numpy as np
import pytest

import forebay as fb
from forebay import hip

SOURCE = """
kernel void fill(global int *values, int value) { values[get_global_id(0)] = value; }
kernel void one(global int *value) { value[0] = 1; }
kernel void scale(global float *values, float by) { values[get_global_id(0)] *= by; }
"""


class Setting:
    """What a mistake is made with."""

    def __init__(self, device, queue, program):
        self.device, self.queue = device, queue
        self.fill, self.scale, self.program = program["fill"], program["scale"], program
        self.ints, self.floats = device.zeros((8, 8), "i4"), device.zeros(8, "f4")
        self.untimed, self.result = device.event(), lambda: queue.launch(program["one"], 1, 1, result="i4")
        queue.record(self.untimed)


# What is done; the exception and the built-in that it derives from; what the message must have: the thing, and the way
# out.
def use_without_import(module):
    found = vars(fb).pop(module)  # other tests have imported it
    try:
        return getattr(fb, module)
    finally:
        setattr(fb, module, found)


MISTAKES = {
    "a launch of the kernel alone": (
        lambda s: s.queue.launch(s.fill),
        fb.ArgumentTypeError, TypeError, ("1 given", "queue.launch(program['fill'], grid, block, values, value)")),
    "a launch without grid and block": (
        lambda s: s.queue.launch(s.fill, s.ints, 3),
        fb.ArgumentTypeError, TypeError, ("'fill'", "2 arguments after grid and block", "int* values, int value")),
    "the arguments of a launch by name": (
        lambda s: s.queue.launch(kernel=s.fill, grid=1, block=1, args=(s.ints, 3)),
        fb.ArgumentTypeError, TypeError, ("by name", "kernel, grid, block, args", "queue.launch(kernel, grid, block")),
    "a kernel called as a function": (
        lambda s: s.fill(s.ints, 3),
        fb.ArgumentTypeError, TypeError, ("grid and block", "fill[grid, block](...)")),
    "a kernel's name instead of the kernel": (
        lambda s: s.queue.launch("fill", 1, 1, s.ints, 3),
        fb.ArgumentTypeError, TypeError, ("str", "program['name']")),
    "a wait for nothing, as in SYCL": (
        lambda s: s.queue.wait(),
        fb.ArgumentTypeError, TypeError, ("wait()", "an Event or a Queue", "finish()")),
    "a wait with a timeout": (
        lambda s: s.queue.wait(1.5),
        fb.ArgumentTypeError, TypeError, ("wait()", "float", "finish(timeout=seconds)")),
    "a wait for several events": (
        lambda s: s.queue.wait([s.untimed, s.untimed]),
        fb.ArgumentTypeError, TypeError, ("wait()", "list", "one call for each")),
    "a launch on the device": (
        lambda s: s.device.launch(s.fill, 1, 1, s.ints, 3),
        AttributeError, AttributeError, ("Device", "'launch'", "queue().launch(kernel, grid, block, *args)")),
    "a copy on the device": (
        lambda s: s.device.copy(s.ints, s.ints),
        AttributeError, AttributeError, ("Device", "'copy'", "queue().copy(dst, src)")),
    "get of the queue": (
        lambda s: s.queue.get(s.ints),
        AttributeError, AttributeError, ("Queue", "'get'", "buffer.get(queue=queue)")),
    "a number by value": (
        lambda s: fb.by_value(5),
        fb.ArgumentTypeError, TypeError, ("by_value", "int", "numbers and Buffers are passed as they are")),
    "an array of nothing": (
        lambda s: s.device.array(None),
        fb.InvalidArgumentError, ValueError, ("dtype('O')", "Python objects")),
    "timing that is a word": (
        lambda s: s.device.event(timing="yes"),
        fb.ArgumentTypeError, TypeError, ("event: timing", "bool", "str")),
    "a debug that is a word": (
        lambda s: fb.Device(s.device.name, debug="yes"),
        fb.ArgumentTypeError, TypeError, ("Device: debug", "bool", "str")),
    "a grid that is a float": (
        lambda s: s.queue.launch(s.fill, 64 / 8, 8, s.ints, 3),
        fb.ArgumentTypeError, TypeError, ("'fill'", "grid", "float", "tuple of 1 to 3 ints", "//")),
    "a block that is too large": (
        lambda s: s.queue.launch(s.fill, 1, 1 << 30, s.ints, 3),
        fb.InvalidArgumentError, ValueError, ("'fill'", "block", str(1 << 30), "allows")),
    "arguments in a tuple, as in CuPy": (
        lambda s: s.queue.launch(s.fill, (1,), (1,), (s.ints, 3)),
        fb.ArgumentTypeError, TypeError, ("'fill'", "takes 2", "a tuple, pass *args")),
    "too few arguments": (
        lambda s: s.queue.launch(s.fill, 1, 1, s.ints),
        fb.ArgumentTypeError, TypeError, ("'fill'", "takes 2", "1 given", "int* values, int value")),
    "a float for an integer": (
        lambda s: s.queue.launch(s.fill, 1, 1, s.ints, 1.5),
        fb.ArgumentTypeError, TypeError, ("argument 1", "int value", "integer", "float")),
    "float64 for float32": (
        lambda s: s.queue.launch(s.scale, 1, 1, np.zeros(8), 2.0),
        fb.ArgumentTypeError, TypeError, ("argument 0", "float* values", "float32", ".view")),
    "a list instead of an array": (
        lambda s: s.queue.launch(s.fill, 1, 1, [1, 2, 3], 3),
        fb.ArgumentTypeError, TypeError, ("argument 0", "list", "Buffer", "array")),
    "a strided array": (
        lambda s: s.queue.launch(s.fill, 1, 1, np.zeros((8, 8), "i4")[:, 0], 3),
        fb.InvalidArgumentError, ValueError, ("argument 0", "not C-contiguous", "np.ascontiguousarray")),
    "an empty array": (
        lambda s: s.queue.launch(s.fill, 1, 1, np.zeros(0, "i4"), 3),
        fb.InvalidArgumentError, ValueError, ("argument 0", "empty (shape (0,))")),
    "an array of Python objects": (
        lambda s: s.queue.launch(s.fill, 1, 1, np.array([1, None]), 3),
        fb.InvalidArgumentError, ValueError, ("argument 0", "Python objects")),
    "a strided part of a buffer": (
        lambda s: s.queue.launch(s.fill, 1, 1, s.ints[:, 0], 3),
        fb.InvalidArgumentError, ValueError, ("argument 0", "one after another", ".copy()")),
    "synchronize, as in CUDA": (
        lambda s: s.queue.synchronize(),
        AttributeError, AttributeError, ("Queue", "'synchronize'", "finish()")),
    "to_device, as in Numba": (
        lambda s: s.device.to_device([1.0]),
        AttributeError, AttributeError, ("Device", "'to_device'", "array(host)")),
    "astype, as in NumPy": (
        lambda s: s.ints.astype("f4"),
        AttributeError, AttributeError, ("Buffer", "'astype'", "get().astype(dtype)")),
    "elapsed_time, as in CUDA": (
        lambda s: s.queue.record().elapsed_time(s.queue.record()),
        AttributeError, AttributeError, ("Event", "'elapsed_time'", "end - start")),
    "get_function, as in PyCUDA": (
        lambda s: s.program.get_function("fill"),
        AttributeError, AttributeError, ("Program", "'get_function'", "program['name']")),
    "a kernel as an attribute, as in pyopencl": (
        lambda s: s.program.fill,
        AttributeError, AttributeError, ("Program", "'fill'", "program['fill']")),
    "an attribute that no Program has": (
        lambda s: s.program.fil,
        AttributeError, AttributeError, ("Program", "'fil'")),
    "zeros of the module, as in NumPy": (
        lambda s: fb.zeros(8),
        AttributeError, AttributeError, ("'zeros'", "Device().array(host)")),
    "a Stream of the module, as in CuPy": (
        lambda s: fb.Stream(),
        AttributeError, AttributeError, ("'Stream'", "Device().queue()")),
    "a context, as in pyopencl": (
        lambda s: fb.create_some_context(),
        AttributeError, AttributeError, ("'create_some_context'", "forebay.Device(words)")),
    "hip without its import": (
        lambda s: use_without_import("hip"),
        AttributeError, AttributeError, ("'hip'", "from forebay import hip")),
    "a copy to another buffer, as if copy were set": (
        lambda s: s.ints.copy(s.floats),
        fb.ArgumentTypeError, TypeError, ("Queue", "queue.copy(dst, src)")),
    "HIP's constants without their enumeration, as in C": (
        lambda s: hip.hipMemcpyHostToDevice,
        AttributeError, AttributeError, ("hip.hipMemcpyKind.hipMemcpyHostToDevice",)),
    "HIP's macro for launches": (
        lambda s: hip.hipLaunchKernelGGL,
        AttributeError, AttributeError, ("hipModuleLaunchKernel",)),
    "a graph of a queue": (
        lambda s: s.queue.graph(),
        AttributeError, AttributeError, ("Queue", "'graph'", "with queue.capture() as graph:")),
    "a copy to a list": (
        lambda s: s.queue.copy([0.0] * 8, s.floats),
        fb.ArgumentTypeError, TypeError, ("list", "NumPy array")),
    "the time between records without timing": (
        lambda s: s.untimed - s.untimed,
        fb.InvalidArgumentError, ValueError, ("without timing", "record(timing=True)")),
    "no kernels at all": (
        lambda s: s.device.program("void f(global int *x) { x[0] = 1; }")["f"],
        fb.InvalidArgumentError, ValueError, ("'f'", "it has none", "kernel void")),
    "a kernel that is not there": (
        lambda s: s.program["fil"],
        fb.InvalidArgumentError, ValueError, ("'fil'", "'fill', 'one', 'scale'")),
    "the name of a file as the source": (
        lambda s: s.device.program("kernels/fill.cl"),
        fb.InvalidArgumentError, ValueError, ("'kernels/fill.cl'", "name of a file", "read_text()")),
    "a copy of another size": (
        lambda s: s.queue.copy(s.ints, np.zeros(64)),
        fb.InvalidArgumentError, ValueError, ("(64,) float64, 512 bytes", "(8, 8) int32, 256 bytes", "slice")),
    "a copy from host to host": (
        lambda s: s.queue.copy(np.zeros(4), np.zeros(4)),
        fb.ArgumentTypeError, TypeError, ("Buffer", "ndarray")),
    "a copy to a strided array": (
        lambda s: s.queue.copy(np.zeros((8, 16), "i4")[:, ::2], s.ints),
        fb.ArgumentTypeError, TypeError, ("not C-contiguous", "get(out=array)")),
    "a buffer that is closed": (
        lambda s: (s.ints.close(), s.queue.fill(s.ints, 1)),
        fb.ClosedError, RuntimeError, ("buf is closed", "(8, 8) int32", "Device(debug=True)")),
    "a buffer in a pickle": (
        lambda s: pickle.dumps(s.ints),
        fb.ArgumentTypeError, TypeError, ("forebay.Buffer", "not pickled", "get()", "Device.array")),
    "a queue in a pickle, as a process pool makes it": (
        lambda s: pickle.dumps([s.queue]),
        fb.ArgumentTypeError, TypeError, ("forebay.Queue", "not pickled", "Device.queue", "other process")),
    "a device in a pickle": (
        lambda s: pickle.dumps(s.device),
        fb.ArgumentTypeError, TypeError, ("forebay.Device", "not pickled", "Device(name)")),
    "memory of nobody": (
        lambda s: s.device.as_buffer([1, 2, 3]),
        fb.Error, Exception, ("as_buffer", "Device.array")),
    "a class called": (
        lambda s: fb.Queue(s.device),
        fb.ArgumentTypeError, TypeError, ("Queue", "Device.queue")),
    "a backend that is not there": (
        lambda s: fb.Device("vulkan"),
        fb.InvalidArgumentError, ValueError, ("'vulkan'", "level_zero, cuda, opencl, sycl")),
    "a null pointer, as None": (
        lambda s: s.queue.launch(s.fill, 1, 1, None, 3),
        fb.ArgumentTypeError, TypeError, ("'fill'", "argument 0", "NoneType", "forebay.NULL")),
    "a null pointer, as 0": (
        lambda s: s.fill[1, 1, s.queue](0, 3),
        fb.ArgumentTypeError, TypeError, ("'fill'", "argument 0", "int", "forebay.NULL")),
    "an address": (
        lambda s: s.queue.launch(s.fill, 1, 1, 0x7F00, 3),
        fb.ArgumentTypeError, TypeError, ("'fill'", "argument 0", "int", "Kernel.follow_pointers")),
    "a Buffer where its value is meant": (
        lambda s: s.queue.launch(s.fill, 1, 1, s.ints, s.ints[0, 0]),
        fb.ArgumentTypeError, TypeError, ("argument 1", "Buffer", "x.item()")),
    "a grid in work-items, with a block beyond the device": (
        lambda s: s.queue.launch(s.fill, 1 << 20, 1 << 20, s.ints, 3),
        fb.InvalidArgumentError, ValueError, ("block", str(1 << 20), "grid counts groups")),
    "a grid beyond HIP's": (
        lambda s: s.queue.launch(s.fill, 1 << 40, 64, s.ints, 3),
        fb.InvalidArgumentError, ValueError, ("grid", str(1 << 40), "grid counts groups")),
    "a grid of nothing": (
        lambda s: s.queue.launch(s.fill, 63 // 64, 64, s.ints, 3),
        fb.InvalidArgumentError, ValueError, ("grid of 0", "at least 1", "grid counts groups")),
    "a grid in a list": (
        lambda s: s.queue.launch(s.fill, [1, 1], 64, s.ints, 3),
        fb.ArgumentTypeError, TypeError, ("grid", "list", "tuple(")),
    "a grid in an array": (
        lambda s: s.queue.launch(s.fill, np.array([1, 1]), 64, s.ints, 3),
        fb.ArgumentTypeError, TypeError, ("grid", "ndarray", "tuple(")),
    "a stream as a keyword of a launch": (
        lambda s: s.queue.launch(s.fill, 1, 1, s.ints, 3, stream=s.queue),
        fb.ArgumentTypeError, TypeError, ("stream", "keyword result", "whose launch is called")),
    "an integer of a thousand digits": (
        lambda s: s.queue.launch(s.fill, 1, 1, s.ints, 10**999),
        fb.InvalidArgumentError, ValueError, ("argument 1", "1000", "...", "out of its range")),
    "a shape of a thousand extents": (
        lambda s: s.floats.reshape(tuple(range(1000))),
        fb.InvalidArgumentError, ValueError, ("64 axes", "(0, 1, 2, 3, 4, 5, ...)")),
    "a large array for a number": (
        lambda s: s.queue.launch(s.scale, 1, 1, s.floats, np.zeros((300, 300))),
        fb.ArgumentTypeError, TypeError, ("argument 1", "number", "shape=(300, 300)")),
    "extents as arguments of their own": (
        lambda s: s.device.zeros(4, 4),
        fb.ArgumentTypeError, TypeError, ("dtype", "'4'", "(4, 4)")),
    "a shape that is a float": (
        lambda s: s.device.zeros(8 / 2),
        fb.ArgumentTypeError, TypeError, ("shape", "4.0", "tuple of ints")),
    "set from another shape": (
        lambda s: s.floats.set(np.zeros(9)),
        fb.InvalidArgumentError, ValueError, ("(9,)", "(8,)", "slice")),
    "get to another shape": (
        lambda s: s.floats.get(out=np.zeros(9, "f4")),
        fb.InvalidArgumentError, ValueError, ("(9,)", "(8,)")),
    "a copy between Buffers of two sizes": (
        lambda s: s.queue.copy(s.floats, s.ints),
        fb.InvalidArgumentError, ValueError, ("(8, 8) int32, 256 bytes", "(8,) float32, 32 bytes", "slice")),
    "a non-blocking queue, in HIP's words": (
        lambda s: s.device.queue(non_blocking=True),
        fb.ArgumentTypeError, TypeError, ("non_blocking", "blocking=False")),
    "a queue with profiling, in OpenCL's words": (
        lambda s: s.device.queue(properties=2),
        fb.ArgumentTypeError, TypeError, ("properties", "timing=True")),
    "a queue with a word of nobody's": (
        lambda s: s.device.queue(colour="red"),
        fb.ArgumentTypeError, TypeError, ("colour", "blocking, priority and timing")),
    "a number for a device": (
        lambda s: fb.Device(0),
        fb.ArgumentTypeError, TypeError, ("int", "'0'", "forebay.devices()")),
    "AMD's word for a device": (
        lambda s: fb.Device("rocm"),
        fb.InvalidArgumentError, ValueError, ("'rocm'", "'opencl:gpu'")),
    "Intel's word for a device": (
        lambda s: fb.Device("oneapi"),
        fb.InvalidArgumentError, ValueError, ("'oneapi'", "'level_zero'")),
    "a device that is not there": (
        lambda s: fb.Device("accelerator:7"),
        fb.DeviceNotFoundError, LookupError, ("'accelerator:7'", "can be used", "what there is:")),
    "get of a closed Buffer": (
        lambda s: (s.floats.close(), s.floats.get()),
        fb.ClosedError, RuntimeError, ("this Buffer is closed", "(8,) float32", "Device(debug=True)")),
    "a launch of a closed Buffer": (
        lambda s: (s.ints.close(), s.queue.launch(s.fill, 1, 1, s.ints, 3)),
        fb.ClosedError, RuntimeError, ("argument 0", "this Buffer is closed", "(8, 8) int32")),
    "a copy of a closed Buffer": (
        lambda s: (s.floats.close(), s.queue.copy(np.zeros(8, "f4"), s.floats)),
        fb.ClosedError, RuntimeError, ("src is closed", "(8,) float32")),
    "free, twice": (
        lambda s: (freed := s.queue.alloc(8), s.queue.free(freed), s.queue.free(freed)),
        fb.ClosedError, RuntimeError, ("free", "freed or closed before", "(8,) float32")),
    "a kernel's grid in parentheses": (
        lambda s: s.fill(1, 1, s.ints, 3),
        fb.ArgumentTypeError, TypeError, ("grid and block", "fill[grid, block](...)")),
    "a Buffer as the queue of a launch": (
        lambda s: s.fill[1, 1, s.ints](s.ints, 3),
        fb.ArgumentTypeError, TypeError, ("Queue", "Buffer")),
    "indices in a list": (
        lambda s: s.floats[[1, 2]],
        fb.ArgumentTypeError, TypeError, ("list", "ints, slices", ".get()")),
    "a mask": (
        lambda s: s.floats[np.ones(8, bool)],
        fb.ArgumentTypeError, TypeError, ("ndarray", "ints, slices", ".get()")),
    "a sum, as NumPy's function": (
        lambda s: np.sum(s.floats),
        fb.ArgumentTypeError, TypeError, ("np.sum", "Buffer", "x.get()", "fb.reduction")),
    "a sum by a method": (
        lambda s: s.floats.sum(),
        AttributeError, AttributeError, ("'sum'", "fb.reduction", "get()")),
    "a function of arrays of the module": (
        lambda s: fb.add(s.floats, s.floats),
        AttributeError, AttributeError, ("'add'", "fb.elementwise")),
    "a type of the module": (
        lambda s: s.device.zeros(8, fb.float32),
        AttributeError, AttributeError, ("'float32'", "numpy.float32")),
    "a sum, as Python's function": (
        lambda s: sum(s.floats),
        fb.ArgumentTypeError, TypeError, ("0 + Buffer", "x.item()")),
    "the largest, as Python's function": (
        lambda s: max(s.floats),
        fb.ArgumentTypeError, TypeError, ("Buffer > Buffer", "x.item() > y.item()")),
    "a function of elements, as NumPy's": (
        lambda s: np.sqrt(s.floats),
        fb.ArgumentTypeError, TypeError, ("np.sqrt", "Buffer", "x.get()", "kernel")),
    "a reduction of a ufunc": (
        lambda s: np.add.reduce(s.floats),
        fb.ArgumentTypeError, TypeError, ("np.add.reduce", "x.get()")),
    "Buffers put together, as NumPy does": (
        lambda s: np.concatenate([s.floats, s.floats]),
        fb.ArgumentTypeError, TypeError, ("np.concatenate", "x.get()")),
    "a comparison, as NumPy's": (
        lambda s: np.array_equal(np.zeros(8), s.floats),
        fb.ArgumentTypeError, TypeError, ("np.array_equal", "x.get()")),
    "zeros like a Buffer, as NumPy's": (
        lambda s: np.zeros_like(s.floats),
        fb.ArgumentTypeError, TypeError, ("np.zeros_like", "device.zeros(x.shape, x.dtype)")),
    "an array plus a Buffer": (
        lambda s: np.zeros(8) + s.floats,
        fb.ArgumentTypeError, TypeError, ("np.add", "Buffer", "x.get()")),
    "a number of NumPy's times a Buffer": (
        lambda s: np.float32(2) * s.floats,
        fb.ArgumentTypeError, TypeError, ("np.multiply", "Buffer", "x.get()")),
    "one element, as a float": (
        lambda s: float(s.floats[0]),
        fb.ArgumentTypeError, TypeError, ("Buffer is no float", "x.item()")),
    "one element, as an int": (
        lambda s: int(s.ints[0, 0]),
        fb.ArgumentTypeError, TypeError, ("Buffer is no int", "x.item()")),
    "all elements, as a float": (
        lambda s: float(s.floats),
        fb.ArgumentTypeError, TypeError, ("Buffer is no float", "x.item(i)")),
    "one element, as an index": (
        lambda s: range(s.ints[0, 0]),
        fb.ArgumentTypeError, TypeError, ("Buffer is no int", "x.item()")),
    "one element, formatted": (
        lambda s: f"{s.floats[0]:.2f}",
        fb.ArgumentTypeError, TypeError, ("Buffer", "'.2f'", "x.item()")),
    "one element, rounded": (
        lambda s: round(s.floats[0]),
        AttributeError, AttributeError, ("Buffer", "'__round__'", "item()")),
    "bytes of a Buffer": (
        lambda s: bytes(s.floats),
        AttributeError, AttributeError, ("Buffer", "'__bytes__'", "get().tobytes()")),
    "a flag, as a condition": (
        lambda s: "on" if s.ints[0, 0] else "off",
        fb.ArgumentTypeError, TypeError, ("Buffer", "neither true nor false", "x.item()", "is not None")),
    "a Buffer, as a condition": (
        lambda s: s.floats or None,
        fb.ArgumentTypeError, TypeError, ("Buffer", "neither true nor false", "x.get()", "is not None")),
    "a number in a Buffer": (
        lambda s: 3 in s.floats,
        fb.ArgumentTypeError, TypeError, ("3 in Buffer", "np.isin(3, x.get()).any()")),
    "equal to a Buffer": (
        lambda s: s.floats == s.ints,
        fb.ArgumentTypeError, TypeError, ("Buffer == Buffer", "np.array_equal(x.get(), y.get())", "x is y")),
    "not equal to a Buffer": (
        lambda s: s.floats != s.ints,
        fb.ArgumentTypeError, TypeError, ("Buffer != Buffer", "not np.array_equal(x.get(), y.get())", "x is not y")),
    "equal to a number": (
        lambda s: s.floats == 3,
        fb.ArgumentTypeError, TypeError, ("Buffer == 3", "x.get() == 3")),
    "equal to an array": (
        lambda s: s.floats == np.zeros(8),
        fb.ArgumentTypeError, TypeError, ("Buffer == ndarray", "np.array_equal(x.get(), y)")),
    "an array equal to a Buffer": (
        lambda s: np.zeros(8) == s.floats,
        fb.ArgumentTypeError, TypeError, ("np.equal", "x.get()")),
    "equal to a view": (
        lambda s: s.ints[:, 0] == s.ints[:, 0],
        fb.ArgumentTypeError, TypeError, ("StridedView == StridedView", "np.array_equal(x.get(), y.get())")),
    "a result of a launch, as a number": (
        lambda s: s.result() + 1,
        fb.ArgumentTypeError, TypeError, ("Result + 1", "x.get() + 1")),
    "a result of a launch, as a float": (
        lambda s: float(s.result()),
        fb.ArgumentTypeError, TypeError, ("Result is no float", "x.get()")),
}  # fmt: skip


@pytest.fixture
def setting(device, queue):
    return Setting(device, queue, device.program(SOURCE))


@pytest.mark.needs("no validation layer")  # NumPy (2.4) leaks what it was refused a reduction of
@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_message_names_the_thing_and_the_way_out(setting, mistake):
    do, kind, builtin, words = MISTAKES[mistake]
    before = setting.queue.epoch
    with pytest.raises(kind) as caught:
        do(setting)
    assert isinstance(caught.value, builtin)
    for word in words:
        assert word in str(caught.value), str(caught.value)
    if not any(word in mistake for word in ("record", "elapsed", "result", "free")):
        assert setting.queue.epoch == before


def test_there_are_many():
    assert len(MISTAKES) >= 100


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
def test_warnings_are_kept_also_when_the_program_comes_from_the_cache(device, tmp_path, monkeypatch):
    monkeypatch.setenv("FOREBAY_CACHE", str(tmp_path))
    source = "#warning look here\nkernel void f(global int *x) { x[0] = 1; }"
    for _ in range(2):
        log = device.program(source).log
        assert "1:2: warning: " in log
        assert "look here" in log
    assert device.program("kernel void g(global int *x) { x[0] = 1; }").log == ""


def test_paths_are_not_sources(device, tmp_path):
    path = tmp_path / "fill"
    path.write_text(SOURCE)
    with pytest.raises(fb.ArgumentTypeError, match=r"read_text\(\)"):
        device.program(path)
    with pytest.raises(fb.InvalidArgumentError, match="name of a file"):
        device.program(str(path))
    assert list(device.program(path.read_text())) == ["fill", "one", "scale"]


def test_other_names_are_not_listed_and_not_there(setting):
    for thing in (setting.queue, setting.device, setting.ints, setting.queue.record(), setting.fill, setting.program):
        kind = type(thing)
        assert "synchronize" not in dir(thing)
        assert "synchronize" not in dir(kind)
        assert not hasattr(thing, "synchronize")
        assert not hasattr(thing, "no_such_name")
        assert "__class__" in dir(thing)
        with pytest.raises(AttributeError, match="no_such_name"):
            thing.no_such_name  # noqa: B018
        assert kind.__getattribute__ is object.__getattribute__


def test_no_name_of_ours_is_hidden(setting):
    """A name in the table must not be one that forebay has."""
    from forebay.queues.interop.names import INSTEAD, OtherName

    assert not [
        name for kind, advice in INSTEAD.items() for name in " ".join(advice.values()).split() if name in dir(kind)
    ]
    for kind, advice in INSTEAD.items():
        for name in " ".join(advice.values()).split():
            own, *others = [base for base in kind.__mro__ if name in base.__dict__]
            assert isinstance(own.__dict__[name], OtherName), (kind, name)
            assert set(others) <= {object}
    assert setting.queue.native is not None


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
