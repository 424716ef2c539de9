"""hiprtc's linker: programs of several modules."""

from unittest import mock

import numpy as np
import pytest

from forebay import hip, hiprtc
from forebay.compiler.clang import find_clang
from forebay.core.driver import Language
from forebay.hiprtc import hiprtcJITInputType, hiprtcResult
from forebay.hiprtc.code import pack_code, unpack_code
from tests.helpers.device_data import device_data
from tests.hiprtc.test_api import checked, create, log_of

clang, reason = find_clang()
if clang is None:
    pytest.skip(reason, allow_module_level=True)

OK, INPUT, LINKING = (
    hiprtcResult.HIPRTC_SUCCESS, hiprtcResult.HIPRTC_ERROR_INVALID_INPUT, hiprtcResult.HIPRTC_ERROR_LINKING
)  # fmt: skip
BITCODE = hiprtcJITInputType.HIPRTC_JIT_INPUT_LLVM_BITCODE

KERNEL = b"""
__device__ void bump(float* x);
extern __device__ int by;
extern "C" __global__ void k(float* x) { bump(x + threadIdx.x); x[threadIdx.x] *= by; }"""
FUNCTION = b"""
__device__ int by = 3;
__device__ void bump(float* x) { *x += 1; }"""
TEXT = """
target triple = "spirv64"
define spir_func void @_Z4bumpPf(ptr addrspace(4) %0) {
  %2 = load float, ptr addrspace(4) %0
  %3 = fadd float %2, 1.0
  store float %3, ptr addrspace(4) %0
  ret void
}
@by = addrspace(1) global i32 3
"""


pytestmark = pytest.mark.usefixtures("compiling")


def bitcode(source):
    prog = create(source)
    assert hiprtc.hiprtcCompileProgram(prog, 1, [b"-fgpu-rdc"]) == (OK,), log_of(prog)
    assert hiprtc.hiprtcGetCodeSize(prog)[0] == hiprtcResult.HIPRTC_ERROR_INVALID_PROGRAM
    data = bytearray(checked(hiprtc.hiprtcGetBitcodeSize(prog)))
    assert hiprtc.hiprtcGetBitcode(prog, bytearray(len(data) - 1)) == (INPUT,)
    checked(hiprtc.hiprtcGetBitcode(prog, data))
    checked(hiprtc.hiprtcDestroyProgram(prog))
    return data


def linked(*modules):
    state = checked(hiprtc.hiprtcLinkCreate(0, None, None))
    for module in modules:
        checked(hiprtc.hiprtcLinkAddData(state, BITCODE, module, len(module), b"some", 0, None, None))
    return state, *hiprtc.hiprtcLinkComplete(state)


@pytest.mark.needs("SPIR-V")
@pytest.mark.parametrize("other", ["bitcode", "text"])
def test_a_kernel_and_a_function_of_another_module(device, queue, other):
    _, result, code, size = linked(bitcode(KERNEL), bitcode(FUNCTION) if other == "bitcode" else TEXT)
    assert (result, size) == (OK, len(code))
    unpacked = unpack_code(code)
    (kernel,) = unpacked.kernels
    assert [(p.name, p.type_name) for p in kernel.parameters] == [("x", "float*")]
    x = device.array(np.arange(4, dtype="f4"))
    queue.launch(device.program(unpacked.text)["k"], 1, 4, x)
    assert device_data(x.get(queue=queue).tolist()) == [3, 6, 9, 12]


@pytest.mark.needs("SPIR-V")
def test_what_is_in_no_module_is_an_error():
    state, result, code, size = linked(b"nonsense")
    assert (result, code, size) == (LINKING, None, None)
    assert state.log
    state, result, code, size = linked(bitcode(FUNCTION), bitcode(FUNCTION))
    assert result == LINKING
    assert "multiply defined" in state.log
    state, result, code, size = linked(bitcode(KERNEL))
    assert result == LINKING
    assert "bump" in state.log


@pytest.mark.needs("SPIR-V")
def test_modules_from_files(tmp_path):
    path = tmp_path / "kernel.bc"
    path.write_bytes(bitcode(KERNEL))
    state = checked(hiprtc.hiprtcLinkCreate())
    assert hiprtc.hiprtcLinkAddFile(state, BITCODE, str(path).encode(), 0, None, None) == (OK,)
    missing = hiprtc.hiprtcLinkAddFile(state, BITCODE, tmp_path / "none.bc")
    assert missing == (hiprtcResult.HIPRTC_ERROR_PROGRAM_CREATION_FAILURE,)
    assert hiprtc.hiprtcLinkAddFile(state, BITCODE, None) == (INPUT,)


@pytest.mark.needs("no SPIR-V")
def test_a_device_without_spirv_says_so(device):
    prog = create(FUNCTION)
    assert hiprtc.hiprtcCompileProgram(prog, 1, [b"-fgpu-rdc"]) == (hiprtcResult.HIPRTC_ERROR_COMPILATION,)
    assert device.name in log_of(prog)
    state, result, *_ = linked(TEXT.encode())
    assert result == LINKING
    assert device.name in state.log


def test_wrong_arguments():
    state = checked(hiprtc.hiprtcLinkCreate(0, None, None))
    assert hiprtc.hiprtcLinkComplete(state) == (INPUT, None, None)
    for kind in (hiprtcJITInputType.HIPRTC_JIT_INPUT_PTX, 3, None):
        assert hiprtc.hiprtcLinkAddData(state, kind, b"x", 1) == (INPUT,)
    for data, size in ((b"x", 2), (b"x", 0), (None, 1), (5, 1)):
        assert hiprtc.hiprtcLinkAddData(state, BITCODE, data, size) == (INPUT,)
    assert hiprtc.hiprtcLinkDestroy(state) == (OK,)
    for what in (state, None, 5):
        assert hiprtc.hiprtcLinkDestroy(what) == (INPUT,)
        assert hiprtc.hiprtcLinkAddData(what, BITCODE, b"x", 1) == (INPUT,)
        assert hiprtc.hiprtcLinkComplete(what) == (INPUT, None, None)
    prog = create(b"kernel void k() { }")
    assert hiprtc.hiprtcGetBitcodeSize(prog) == (hiprtcResult.HIPRTC_ERROR_INVALID_PROGRAM, None)
    assert hiprtc.hiprtcGetBitcode(prog, bytearray(9)) == (hiprtcResult.HIPRTC_ERROR_INVALID_PROGRAM,)


@pytest.mark.needs("no SPIR-V")
def test_code_in_spirv_is_refused_where_it_cannot_be_loaded(device):
    code = pack_code("k", Language.HIP_CPP, b"\x03\x02\x23\x07 compiled elsewhere")
    with mock.patch("forebay.hip.modules.current_device", return_value=device):
        result, module = hip.hipModuleLoadData(code)
    assert (result, module) == (hip.hipError_t.hipErrorNoBinaryForGpu, None)
    assert "takes no SPIR-V" in str(hip.last_exception())
