"""forebay.hiprtc as programs written for hip-python call it."""

import os
import re
from unittest import mock

import numpy as np
import pytest

import forebay as fb
from forebay import hiprtc
from forebay.hiprtc import front_end, hiprtcResult
from forebay.hiprtc.code import MAGIC, is_code, pack_code, unpack_code
from tests.helpers.device_data import device_data
from tests.helpers.refusals import refused
from tests.helpers.threads import together

OK = hiprtcResult.HIPRTC_SUCCESS
COMPILATION = hiprtcResult.HIPRTC_ERROR_COMPILATION
INPUT = hiprtcResult.HIPRTC_ERROR_INVALID_INPUT
PROGRAM = hiprtcResult.HIPRTC_ERROR_INVALID_PROGRAM

SCALE = b"""\
extern "C" __global__ void scale_vector(float factor, int n, short unused1, int unused2, float unused3, float *x) {
  int tid = threadIdx.x + blockIdx.x * blockDim.x;
  if ( tid == 0 ) {
    printf("tid: %d, factor: %f, x*: %lu, n: %lu, unused1: %d, unused2: %d, unused3: %f\\n",tid,factor,x,n,(int) unused1,unused2,unused3);
  }
  if (tid < n) {
     x[tid] *= factor;
  }
}
"""  # fmt: skip
OPENCL = b"/* no __global__ here */ kernel void twice(global float* x) { x[get_global_id(0)] *= N; }"


pytestmark = pytest.mark.usefixtures("compiling")


def checked(call_result):
    err, *result = call_result
    assert isinstance(err, hiprtcResult)
    if err != OK:
        raise RuntimeError(str(err))
    return result[0] if len(result) == 1 else tuple(result)


def create(source, headers=(), names=()):
    return checked(hiprtc.hiprtcCreateProgram(source, b"some.hip", len(headers), list(headers), list(names)))


def log_of(prog):
    log = bytearray(checked(hiprtc.hiprtcGetProgramLogSize(prog)))
    checked(hiprtc.hiprtcGetProgramLog(prog, log))
    assert log[-1] == 0
    return log[:-1].decode()


def code_of(prog):
    code = bytearray(checked(hiprtc.hiprtcGetCodeSize(prog)))
    checked(hiprtc.hiprtcGetCode(prog, code))
    return code


@pytest.mark.needs("a compiler of HIP C++")
def test_a_kernel_from_source_to_launch(device, queue):
    prog = checked(hiprtc.hiprtcCreateProgram(SCALE, b"scale_vector", 0, [], []))
    cflags = [b"--offload-arch=gfx90a"]
    assert hiprtc.hiprtcCompileProgram(prog, len(cflags), cflags) == (OK,)
    code = unpack_code(code_of(prog))
    checked(hiprtc.hiprtcDestroyProgram(prog.createRef()))
    kernel = code.find("scale_vector")
    assert [p.type_name for p in kernel.parameters] == ["float", "int", "short", "int", "float", "float*"]
    assert [p.nbytes for p in kernel.parameters] == [4, 4, 2, 4, 4, 8]
    assert [p.is_pointer for p in kernel.parameters] == [False] * 5 + [True]
    built = device.program(code.text, code.options)
    x = device.array(np.arange(100, dtype="f4"))
    queue.launch(built[kernel.symbol], 4, 32, 1.5, 100, 5, 2, 5.6, x)
    assert np.allclose(device_data(x.get(queue=queue)), np.arange(100) * 1.5)


def test_opencl_c_is_taken_as_it_is(device, queue):
    prog = create(OPENCL)
    options = [b"-DN=2", b"-cl-mad-enable", b"--offload-arch=gfx90a", b"not counted"]
    checked(hiprtc.hiprtcCompileProgram(prog, 3, options))
    code = unpack_code(code_of(prog))
    expected = "OpenCL C", OPENCL.decode(), ("-DN=2", "-cl-mad-enable"), ()
    assert (code.language, code.text, code.options, code.kernels) == expected
    x = device.array(np.arange(8, dtype="f4"))
    queue.launch(device.program(code.text, code.options)["twice"], 1, 8, x)
    assert device_data(x.get(queue=queue).tolist()) == [2.0 * i for i in range(8)]


@pytest.mark.needs("a compiler of HIP C++")
@pytest.mark.parametrize(("source", "told"), [
    (b"\n__global__ void k(int* p) {\n  p[0] = nothing;\n}", r"some\.hip[:(]3(.|\n)*p\[0\] = nothing;"),
    (b"kernel void k(global int* p) { p[0] = no_such_name; }", "no_such_name"),
    (b"__global__ void k(const int* p) {\n p[0] = 1; }", "read-only|must be a modifiable lvalue"),
])  # fmt: skip
def test_what_is_refused_is_in_the_log(source, told):
    prog = create(source)
    assert hiprtc.hiprtcCompileProgram(prog, 0, None) == (COMPILATION,)
    assert re.search(told, log_of(prog))
    assert hiprtc.hiprtcGetCodeSize(prog)[0] == PROGRAM
    assert hiprtc.hiprtcGetCode(prog, bytearray(100)) == (PROGRAM,)


@pytest.mark.needs("a compiler of HIP C++")
def test_headers(device, queue):
    prog = create(
        b'#include "sub/ops.h"\n#include <sub/ops.h>\n__global__ void k(int* p) { p[0] = op(LEVEL); }',
        [b'#pragma once\n#include "level.h"\n__device__ int op(int a) { return a + 1; }', b"#define LEVEL 3"],
        [b"sub/ops.h", b"sub/level.h"],
    )
    assert hiprtc.hiprtcCompileProgram(prog, 0, []) == (OK,), log_of(prog)
    code = unpack_code(code_of(prog))
    n = device.zeros(1, "i4")
    queue.launch(device.program(code.text, code.options)["k"], 1, 1, n)
    assert device_data(n.get(queue=queue).tolist()) == [4]
    prog = create(b'#include "other.h"\n__global__ void k(int* p) { }')
    assert hiprtc.hiprtcCompileProgram(prog, 0, []) == (COMPILATION,)
    assert "other.h" in log_of(prog)


@pytest.mark.needs("a compiler of HIP C++")
def test_templates_by_name_expression(device):
    prog = create(
        b"template <typename T> __global__ void add(T* x, T y) { x[threadIdx.x] += y; }\n"
        b"__constant__ int factor; __global__ void plain(int* p) { p[0] = factor; }"
    )
    early = hiprtcResult.HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION
    assert hiprtc.hiprtcGetLoweredName(prog, b"add<float>")[0] == early
    names = b"add<float>", b"&add<long long>", b"plain", b"&factor"
    for expression in names:
        checked(hiprtc.hiprtcAddNameExpression(prog, expression))
    checked(hiprtc.hiprtcCompileProgram(prog, 0, []))
    *lowered, factor = (checked(hiprtc.hiprtcGetLoweredName(prog, name)) for name in names)
    code = unpack_code(code_of(prog))
    program = device.program(code.text, code.options)
    assert code.find_variable(factor.decode()).name == "factor"
    assert {code.find(name.decode()).symbol for name in lowered} == set(program)
    assert [code.find(name.decode()).parameters[-1].type_name for name in lowered[:2]] == ["float", "long"]
    assert hiprtc.hiprtcGetLoweredName(prog, b"add<int>") == (hiprtcResult.HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID, None)
    late = hiprtcResult.HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION
    assert hiprtc.hiprtcAddNameExpression(prog, b"add<int>") == (late,)


@pytest.mark.needs("SPIR-V", "a compiler of HIP C++")
@pytest.mark.parametrize(("names", "kernels"), [
    ((), {"add<float>", "add<int>", "add<char>", "explicitly<int>", "plain"}),
    ((b"add<int>",), {"add<int>", "explicitly<int>", "plain"}),
    ((b"add<long>", b"plain"), {"add<long>", "explicitly<int>", "plain"}),
])  # fmt: skip
def test_where_names_are_asked_for_only_those_of_the_instances_that_the_host_launches_are_made(names, kernels):
    prog = create(
        b"template <class T> __global__ void add(T* x) { x[0] += 1; }\n"
        b"template <class T> static __global__ void explicitly(T* x) { x[0] += 1; }\n"
        b"template __global__ void explicitly<int>(int*);\n__global__ void plain(int* p) { }\n"
        b"void host() { add<float><<<1, 1>>>(nullptr); add<int><<<1, 1>>>(nullptr); add<char><<<1, 1>>>(nullptr); }\n"
    )
    for name in names:
        checked(hiprtc.hiprtcAddNameExpression(prog, name))
    checked(hiprtc.hiprtcCompileProgram(prog, 0, []))
    assert {kernel.name for kernel in unpack_code(code_of(prog)).kernels} == kernels


@pytest.mark.parametrize("expression", [b"nothing", b"add<1>"])
def test_name_expressions_that_name_nothing(expression):
    prog = create(b"template <typename T> __global__ void add(T* x) { } __global__ void plain(int* p) { }")
    checked(hiprtc.hiprtcAddNameExpression(prog, expression))
    result = hiprtc.hiprtcCompileProgram(prog, 0, [])[0]
    assert result in (hiprtcResult.HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID, COMPILATION)
    assert log_of(prog)


@pytest.mark.needs("SPIR-V", "a compiler of HIP C++")
@pytest.mark.parametrize(("expression", "says"), [
    (b"ad", "use of undeclared identifier 'ad'"),
    (b"add", "overloaded function 'add'"),
    (b"on_the_host", "'on_the_host' is neither a kernel nor a variable of the device; its kernels: add<float>, plain"),
])  # fmt: skip
def test_the_log_of_a_wrong_name_is_about_the_name(expression, says):
    """Code of the host that does not compile is in the program as well, and would have been left out."""
    prog = create(
        b"#include <mpi.h>\ntemplate <class T> __global__ void add(T* x) { }\n__global__ void plain(int* p) { }\n"
        b"MPI_Comm everyone;\nvoid on_the_host() { MPI_Barrier(everyone); add<float><<<1, 1>>>(nullptr); }\n"
    )
    checked(hiprtc.hiprtcAddNameExpression(prog, expression))
    assert hiprtc.hiprtcCompileProgram(prog, 0, []) == (hiprtcResult.HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID,)
    first, *others = [line for line in log_of(prog).splitlines() if "error: " in line]
    assert first.startswith("name expression:1:")
    assert says in first
    assert not others


@pytest.mark.parametrize("options", [[b"--frobnicate"], [b"-Wl,-lm"], [b"-D"], [b"-include"]])
def test_options_that_nobody_knows_are_named(options):
    prog = create(b"__global__ void k(float* x) { }")
    assert hiprtc.hiprtcCompileProgram(prog, 1, options) == (hiprtcResult.HIPRTC_ERROR_INVALID_OPTION,)
    assert options[0].decode() in log_of(prog)


def test_wrong_arguments():
    prog = create(OPENCL)
    for source, count, headers, names in ((None, 0, None, None), (b"", 1, None, None), (b"", 1, [b""], [])):
        assert hiprtc.hiprtcCreateProgram(source, b"x", count, headers, names) == (INPUT, None)
    for count, options in ((2, [b"-DN=1"]), (1, [3])):
        assert hiprtc.hiprtcCompileProgram(prog, count, options) == (INPUT,)
    for name in (b"", 5, object(), [b"k"]):
        assert hiprtc.hiprtcAddNameExpression(prog, name) == (INPUT,)
    assert hiprtc.hiprtcDestroyProgram(None) == (INPUT,)
    checked(hiprtc.hiprtcCompileProgram(prog, 1, [b"-DN=1"]))
    size = checked(hiprtc.hiprtcGetCodeSize(prog))
    for target in (bytearray(size - 1), bytes(size), None, 5, np.zeros(size, "u1")[::2]):
        assert hiprtc.hiprtcGetCode(prog, target) == (INPUT,)
    for target in (np.zeros(size + 3, "u1"), memoryview(bytearray(size)), np.zeros(size, "f4")):
        checked(hiprtc.hiprtcGetCode(prog, target))
    assert hiprtc.hiprtcGetProgramLog(prog, bytearray()) == (INPUT,)
    for name in (b"", 5):
        assert hiprtc.hiprtcGetLoweredName(prog, name) == (INPUT, None)


@pytest.mark.needs("a compiler of HIP C++")
def test_a_byte_order_mark_and_ends_of_lines_of_dos():
    prog = create(b"\xef\xbb\xbf" + SCALE.replace(b"\n", b"\r\n"))
    assert hiprtc.hiprtcCompileProgram(prog, 0, []) == (OK,)


@pytest.mark.parametrize("what", ["destroyed", None, 5])
def test_what_is_no_program(what):
    prog = what
    if what == "destroyed":
        prog = create(OPENCL)
        checked(hiprtc.hiprtcDestroyProgram(prog))
        assert "destroyed" in repr(prog)
    assert hiprtc.hiprtcCompileProgram(prog, 0, []) == (PROGRAM,)
    assert hiprtc.hiprtcGetCodeSize(prog) == hiprtc.hiprtcGetProgramLogSize(prog) == (PROGRAM, None)
    assert hiprtc.hiprtcGetCode(prog, bytearray(9)) == hiprtc.hiprtcGetProgramLog(prog, bytearray(9)) == (PROGRAM,)
    assert hiprtc.hiprtcAddNameExpression(prog, b"x") == (PROGRAM,)
    assert hiprtc.hiprtcGetLoweredName(prog, b"x") == (PROGRAM, None)
    if what:
        assert hiprtc.hiprtcDestroyProgram(prog) == (PROGRAM,)


def test_a_program_may_be_compiled_again_and_by_two_threads():
    prog = create(OPENCL)
    assert hiprtc.hiprtcCompileProgram(prog, 0, []) == (COMPILATION,)
    assert together(*[lambda: hiprtc.hiprtcCompileProgram(prog, 1, [b"-DN=3"])] * 4) == [(OK,)] * 4
    assert log_of(prog) == ""
    assert unpack_code(code_of(prog)).options == ("-DN=3",)


def test_results_have_hips_names():
    assert hiprtc.hiprtcVersion()[0] == OK
    assert hiprtc.hiprtcGetErrorString(COMPILATION) == (b"HIPRTC_ERROR_COMPILATION",)
    assert str(COMPILATION) == "hiprtcResult.HIPRTC_ERROR_COMPILATION"
    assert (COMPILATION, hiprtcResult.HIPRTC_ERROR_INTERNAL_ERROR) == (6, 11)
    with pytest.raises(TypeError, match="hiprtcResult"):
        hiprtc.hiprtcGetErrorString(6)


def test_without_a_device_the_log_says_so():
    def no_device():
        raise fb.DeviceNotFoundError("no device at all")

    front_end.compile_for(no_device)
    prog = create(OPENCL)
    assert hiprtc.hiprtcCompileProgram(prog, 0, []) == (COMPILATION,)
    assert log_of(prog) == "no device at all"


def test_code_objects():
    data = pack_code("name", "OpenCL C", "text ✓", ["-DN"], [])
    assert data.startswith(MAGIC)
    assert is_code(data)
    assert unpack_code(data + b"more").text == "text ✓"
    assert unpack_code(memoryview(bytearray(data))).options == ("-DN",)
    for broken in (b"", b"\x7fELF and so on", MAGIC, data[:-1], data[:-3] + b"xyz", data[:8] + b"\1" + data[9:]):
        with refused(fb.InvalidArgumentError, ValueError, "code object"):
            unpack_code(broken)


def test_without_a_compiler_only_hip_cpp_is_refused(device):
    program = create(b"__global__ void k(float* x) { x[0] = 1.0f; }")
    with mock.patch.dict(os.environ, FOREBAY_CLANG="none"):
        if "SPIR-V" in device.languages:
            with pytest.raises(ImportError, match="turns clang off"):
                hiprtc.hiprtcCompileProgram(program, 0, [])
        assert hiprtc.hiprtcCompileProgram(create(b"kernel void k() {}"), 0, []) == (OK,)
