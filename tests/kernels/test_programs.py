import secrets
import warnings
from unittest import mock

import numpy as np
import pytest

import forebay as fb
from forebay.compiler.cache import BinaryCache
from forebay.core.driver import Language
from forebay.queues.kernels.program import language_of
from tests.helpers import spirv
from tests.helpers.device_data import device_data
from tests.helpers.refusals import refused

ONE_TWO = "kernel void one(global int *a) { a[0] = N; } kernel void two(void) { mem_fence(CLK_GLOBAL_MEM_FENCE); }"


def test_a_program_is_a_mapping_of_names_to_kernels(device):
    program = device.program(ONE_TWO, "-DN=1")
    assert sorted(program) == sorted(program.kernel_names) == ["one", "two"]
    assert len(program) == 2
    assert "one" in program
    assert "three" not in program
    assert program["one"] is program["one"]
    assert program.device is device
    assert "one" in repr(program)
    assert device.name in repr(program)


@pytest.mark.parametrize("options", ["-DN=7 -cl-fast-relaxed-math", ["-DN=7"], ("-DN=7", "-cl-mad-enable")])
def test_options_reach_the_compiler(device, queue, options):
    buffer = device.zeros(1, "i4")
    queue.launch(device.program(ONE_TWO, options)["one"], 1, 1, buffer)
    assert device_data(buffer.get(queue=queue).tolist()) == [7]


def test_what_is_refused(device, queue, program, refuses):
    for name, kind, builtin, words in (
        ("fil", fb.InvalidArgumentError, ValueError, ("'fil'", "'fill'")),
        (0, fb.ArgumentTypeError, TypeError, ("int",)),
    ):
        with refuses(kind, builtin, *words):
            program[name]
    for source in (None, 5, ["kernel"], ONE_TWO.encode):
        with refuses(fb.ArgumentTypeError, TypeError, "source", type(source).__name__):
            device.program(source)
    for options in (5, None, [5], [b"-DN=1"], {"N": 1}.items()):
        with refuses(fb.ArgumentTypeError, TypeError, "options"):
            device.program(ONE_TWO, options)
    with refuses(fb.BuildError, RuntimeError, device.name):
        device.program(ONE_TWO, "-DN=1 --no-such-option")
    for source in ("", "int helper(int a) { return a; }"):
        for _ in range(2):  # the second is from the cache
            with device.program(source) as empty, refuses(fb.InvalidArgumentError, ValueError, "'one'", "none"):
                assert len(empty) == 0
                empty["one"]
    with refused(fb.ArgumentTypeError, TypeError, "Device.program"):
        fb.Program()


@pytest.mark.parametrize(
    "source",
    [
        "kernel void one(int n) { no_such_name; }", "kernel void one() { no_such_name; }", "kernel void one(int n, {",
        "garbage", "kernel int one(int n) { return 1; }",
    ],
)  # fmt: skip
def test_a_program_that_does_not_build_says_what_the_compiler_said(device, refuses, source):
    with refuses(fb.BuildError, RuntimeError, device.name) as _:
        device.program(source)
    with pytest.raises(fb.BuildError) as caught:
        device.program(source)
    assert caught.value.log  # compilers agree on no word, but each names what it does not know
    assert caught.value.log in str(caught.value)
    if "no_such_name" in source:
        assert "no_such_name" in caught.value.log


@pytest.mark.needs("images")
@pytest.mark.parametrize("type_name", ["read_only image2d_t", "sampler_t"])
def test_images_and_samplers_are_refused_when_the_kernel_is_made(device, refuses, type_name):
    with refuses(fb.NotSupportedError, NotImplementedError, "'look'", "images, samplers"):
        device.program(f"kernel void look({type_name} thing) {{ }}")["look"]


# Closing


def test_a_closed_program(device, queue, refuses):
    program = device.program(ONE_TWO, "-DN=1")
    kernel = program["one"]
    program.close()
    program.close()
    for attempt in (lambda: program["one"], lambda: program["two"], program.__enter__):
        with refuses(fb.ClosedError, RuntimeError, "Program", "closed"):
            attempt()
    with refuses(fb.ClosedError, RuntimeError, "'one'", "closed"):
        queue.launch(kernel, 1, 1, None)


# SPIR-V


@pytest.mark.needs("SPIR-V")
@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("name", ["fill", "a_longer_name"])
def test_spirv_runs(device, queue, wrap, name):
    program = device.program(wrap(spirv.fill_module(name)))
    assert list(program) == [name]
    buffer = device.zeros(100, "i4")
    queue.launch(program[name], 10, 10, buffer, -7)
    assert device_data(buffer.get(queue=queue).tolist()) == [-7] * 100


@pytest.mark.needs("SPIR-V")
def test_what_is_refused_of_spirv(device, queue, refuses):
    module = spirv.fill_module()
    kernel = device.program(module)["fill"]
    assert kernel.signature == "fill(int* values, int value)"
    for arguments, kind, builtin, words in (
        ((None,), fb.ArgumentTypeError, TypeError, ("2 arguments",)),
        ((fb.NULL, 1 << 31), fb.InvalidArgumentError, ValueError, ("argument 1", "range")),
        ((5, 1), fb.ArgumentTypeError, TypeError, ("argument 0", "Buffer")),
    ):
        with refuses(kind, builtin, *words):
            queue.launch(kernel, 1, 1, *arguments)
    # Intel's CPU runtime ends the process when it meets one that was cut off, so it must not see it.
    for length in (4, 16, 20, 60, 62, len(module) - 8, len(module) - 4, len(module) - 1):
        with refuses(fb.InvalidArgumentError, ValueError, "SPIR-V"):
            device.program(module[:length])


def test_a_build_leaves_the_filters_of_warnings_alone(device):
    """What Python has shown once it does not show again, and nothing is shown of what a compiler says."""
    source = f"kernel void one(global int *a) {{ int unused; a[0] = {secrets.randbits(30)}; }}"
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        for _ in range(3):  # once for the compiler, and once for the cache
            warnings.warn("mine", stacklevel=1)
            device.program(source)
    assert [str(each.message) for each in shown] == ["mine"]


# Out of the disk cache

CACHED = """
typedef struct { float weight; int offset; long large; } Part;
kernel void first(global int *restrict out, const global int *in, constant float *table, local int *shared,
                  int count, float3 scale, Part part, uchar small)
{ out[get_global_id(0)] = count + (int)part.large + small + (int)scale.y; }
kernel void sized(global const int *rows, global uchar *stack, int n) { stack[n - 1] = rows[0]; }
"""


def seen_of_cached(name, really):
    """What a Device of its own shows of the program: ids, parameters, messages, counters and results."""
    with fb.Device(name, private=True) as device:
        queue, out = device.queue(), device.zeros(64, "i4")
        program = device.program(CACHED, "-cl-mad-enable")
        first, sized = program["first"], program["sized"]
        sized.scratch("stack", fb.MaxOver("rows") + 3)
        given = out, out, out.view("f4"), fb.local(64), 5, np.array([0, 10000, 0], "f4")
        part = np.array((0.5, 1, 1000), "f4,i4,i8")[()]
        said = []
        for grid, arguments in ((1, ()), (1, (part, 256)), (1, (b"short", 2)), (1 << 30, (part, 2))):
            with pytest.raises(fb.Error) as caught:
                queue.launch(first, grid, grid, *given, *arguments)
            said.append(str(caught.value))
        queue.launch(first, 1, 64, *given, part, 2)
        queue.launch(sized, 1, 1, device.array(np.arange(100, dtype="i4")), 5)
        shown = [(each.content_id, str(each.parameters), each.max_block_size) for each in (first, sized)]
        counted = queue.stats.arg_bytes_set, queue.stats.reductions
        return shown, sized.scratch_id("stack"), said, counted, really and out.get(queue=queue)[7]


def test_a_program_out_of_the_cache_is_like_one_that_was_compiled(device, own_cache, really):
    with mock.patch.object(BinaryCache, "put", autospec=True, side_effect=BinaryCache.put) as put:
        cold = seen_of_cached(device.name, really)
        assert cold[-1] == (really and 5 + 1000 + 2 + 10000)
        assert put.call_count > 0
        put.reset_mock()
        assert seen_of_cached(device.name, really) == cold
        assert put.call_count == 0
        files = [path for path in (own_cache / "programs").iterdir() if path.is_file()]
        for path in files:
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        assert seen_of_cached(device.name, really) == cold
        assert put.call_count > 0


# The language of a program: how it is recognized, and what a device takes


PTX = """\
// what a compiler says about itself
/* and more */

.version 8.8
.target sm_90
.address_size 64
.visible .entry nothing() { ret; }
"""
CUBIN = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xbe\x00" + bytes(44)


@pytest.mark.parametrize(("source", "language"), [
    ("kernel void k(global int *a) { }", "OpenCL C"),
    ("", "OpenCL C"),
    ("__global__ void k(int *a) { }", "HIP C++"),
    ("// __global__\nkernel void k(global int *a) { }", "OpenCL C"),
    ('constant char *words = "__global__"; kernel void k(global int *a) { }', "OpenCL C"),
    ("#define __global__ kernel\n__global__ void k(global int *a) { }", "OpenCL C"),
    ("/* __global__\n */ kernel void k(global int *a) { }", "OpenCL C"),
    ("kernel void k(global int *a) { int my__global__s = 1; }", "OpenCL C"),
    (PTX, "PTX"),
    (PTX.encode(), "PTX"),
    ("kernel void k(global int *a) { }\n" + PTX, "OpenCL C"),
    (b"\x03\x02\x23\x07" + bytes(16), "SPIR-V"),
    (b"\x07\x23\x02\x03" + bytes(16), "SPIR-V"),
    (CUBIN, "cubin"),
])  # fmt: skip
def test_a_language_is_recognized(source, language):
    assert language_of(source) == language
    assert str(language_of(source)) == language


@pytest.mark.parametrize(
    "source", [b"", b"\x03\x02", bytes(100), b"kernel void k() { }", CUBIN.replace(b"\xbe", b"\x3e"), b".version"]
)
def test_bytes_in_no_language_that_is_known(device, source):
    with pytest.raises(fb.InvalidArgumentError, match=r"not SPIR-V.*pass other source as str"):
        device.program(source)


def test_a_device_says_what_it_takes(device):
    assert set(device.languages) <= set(Language)
    assert {"OpenCL C", "SPIR-V"} & set(device.languages)
    assert "HIP C++" in device.languages


@pytest.mark.parametrize(
    "source", [PTX, PTX.encode(), CUBIN, spirv.fill_module()], ids=["PTX", "bytes", "cubin", "SPIR-V"]
)
def test_what_a_device_does_not_take_is_refused_by_name(device, source):
    language = language_of(source)
    if language in device.languages:
        pytest.skip("it takes that")
    with pytest.raises(
        fb.NotSupportedError,
        match=f"{device.name} takes no {language}, only .*{device.languages[-1]}".replace("+", r"\+"),
    ):
        device.program(source)
