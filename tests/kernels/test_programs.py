import gc
import secrets
import warnings

import pytest

import forebay as fb
from tests.helpers import spirv
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


@pytest.mark.executes
@pytest.mark.parametrize("options", ["-DN=7 -cl-fast-relaxed-math", ["-DN=7"], ("-DN=7", "-cl-mad-enable")])
def test_options_reach_the_compiler(device, queue, options):
    buffer = device.zeros(1, "i4")
    queue.launch(device.program(ONE_TWO, options)["one"], 1, 1, buffer)
    assert buffer.get(queue=queue).tolist() == [7]


@pytest.mark.parametrize("source", ["", "int helper(int a) { return a; }"])
def test_a_program_without_kernels(device, refuses, source):
    program = device.program(source)
    assert len(program) == 0
    with refuses(fb.InvalidArgumentError, ValueError, "'one'", "none"):
        program["one"]


def test_a_kernel_that_is_not_there_is_refused_with_those_that_are(program, refuses):
    with refuses(fb.InvalidArgumentError, ValueError, "'fil'", "'fill'"):
        program["fil"]
    with refuses(fb.ArgumentTypeError, TypeError, "int"):
        program[0]


@pytest.mark.parametrize(
    "source",
    [
        "kernel void one(int n) { no_such_name; }",
        "kernel void one() { no_such_name; }",
        "kernel void one(int n, {",
        "garbage",
        "kernel int one(int n) { return 1; }",
    ],
)
def test_a_program_that_does_not_build_says_what_the_compiler_said(device, refuses, source):
    with refuses(fb.BuildError, RuntimeError, device.name) as _:
        device.program(source)
    with pytest.raises(fb.BuildError) as caught:
        device.program(source)
    assert caught.value.log  # compilers agree on no word, but each names what it does not know
    assert caught.value.log in str(caught.value)
    if "no_such_name" in source:
        assert "no_such_name" in caught.value.log


def test_an_option_the_compiler_does_not_know_is_refused(device, refuses):
    with refuses(fb.BuildError, RuntimeError, device.name):
        device.program(ONE_TWO, "-DN=1 --no-such-option")


@pytest.mark.parametrize("source", [None, 5, ["kernel"], ONE_TWO.encode])
def test_a_source_of_the_wrong_type_is_refused(device, refuses, source):
    with refuses(fb.ArgumentTypeError, TypeError, "source", type(source).__name__):
        device.program(source)


@pytest.mark.parametrize("options", [5, None, [5], [b"-DN=1"], {"N": 1}.items()])
def test_options_of_the_wrong_type_are_refused(device, refuses, options):
    with refuses(fb.ArgumentTypeError, TypeError, "options"):
        device.program(ONE_TWO, options)


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


@pytest.mark.executes
def test_a_program_may_be_closed_or_dropped_while_its_kernels_are_in_flight(device, queue, hold):
    buffer, other = device.zeros(1, "i4"), device.zeros(1, "i4")
    device.finish()
    program, second = device.program(ONE_TWO, "-DN=5"), device.program(ONE_TWO, "-DN=6")
    gate = hold(queue)
    with program:
        queue.launch(program["one"], 1, 1, buffer)
    queue.launch(second["one"], 1, 1, other)
    del program, second
    gc.collect()
    gate.open()
    assert [buffer.get(queue=queue)[0], other.get(queue=queue)[0]] == [5, 6]


@pytest.mark.executes
def test_many_programs_come_and_go(device, queue):
    buffer = device.zeros(1, "i4")
    for value in range(20):
        queue.launch(device.program(ONE_TWO, f"-DN={value}")["one"], 1, 1, buffer)
        assert buffer.get(queue=queue).tolist() == [value]


# SPIR-V


@pytest.mark.needs("SPIR-V")
@pytest.mark.executes
@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("name", ["fill", "a_longer_name"])
def test_spirv_runs(device, queue, wrap, name):
    program = device.program(wrap(spirv.fill_module(name)))
    assert list(program) == [name]
    buffer = device.zeros(100, "i4")
    queue.launch(program[name], 10, 10, buffer, -7)
    assert buffer.get(queue=queue).tolist() == [-7] * 100


@pytest.mark.needs("SPIR-V")
def test_arguments_of_spirv_are_checked(device, queue, refuses):
    kernel = device.program(spirv.fill_module())["fill"]
    assert kernel.signature == "fill(int* values, int value)"
    with refuses(fb.ArgumentTypeError, TypeError, "2 arguments"):
        queue.launch(kernel, 1, 1, None)
    with refuses(fb.InvalidArgumentError, ValueError, "argument 1", "range"):
        queue.launch(kernel, 1, 1, fb.NULL, 1 << 31)
    with refuses(fb.ArgumentTypeError, TypeError, "argument 0", "Buffer"):
        queue.launch(kernel, 1, 1, 5, 1)


@pytest.mark.parametrize("source", [b"", b"\3\2", b"kernel void f() { }", bytes(100)])
def test_bytes_that_are_no_spirv_are_refused(device, refuses, source):
    with refuses(fb.InvalidArgumentError, ValueError, "SPIR-V"):
        device.program(source)


@pytest.mark.needs("SPIR-V")
def test_spirv_that_was_cut_off_is_refused(device, refuses):
    # Intel's CPU runtime ends the process when it meets one, so it must not see it
    module = spirv.fill_module()
    for length in (4, 16, 20, 60, 62, len(module) - 8, len(module) - 4, len(module) - 1):
        with refuses(fb.InvalidArgumentError, ValueError, "SPIR-V"):
            device.program(module[:length])


@pytest.mark.needs("no SPIR-V")
def test_spirv_on_a_device_that_takes_none_is_refused(device, refuses):
    with refuses(fb.NotSupportedError, NotImplementedError, device.name, "SPIR-V"):
        device.program(spirv.fill_module())


def test_a_program_is_made_by_a_device_only():
    with refused(fb.ArgumentTypeError, TypeError, "Device.program"):
        fb.Program()


def test_a_build_leaves_the_filters_of_warnings_alone(device):
    """What Python has shown once it does not show again, and nothing is shown of what a compiler says."""
    source = f"kernel void one(global int *a) {{ int unused; a[0] = {secrets.randbits(30)}; }}"
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        for _ in range(3):  # once for the compiler, and once for the cache
            warnings.warn("mine", stacklevel=1)
            device.program(source)
    assert [str(each.message) for each in shown] == ["mine"]
