"""Text for compilers, and names: halves of characters are refused by name, and any letters go."""

import pytest

import forebay as fb
from forebay import hip, hiprtc
from forebay.cupy_style import RawKernel, RawModule
from tests.helpers.device_data import device_data
from tests.helpers.refusals import refused

OPENCL = "kernel void k(global float *x) { x[0] = 1; }\n"
HIP = 'extern "C" __global__ void k(float* x) { x[0] = 1; }\n'
FROM_BYTES = "\udc80"  # for a byte that is no text: clang and NVRTC get the byte
NO_TEXT = "\ud800"

OPENCL_TEXTS = {
    "source": lambda device, half: device.program(f"{OPENCL}// {half}"),
    "options": lambda device, half: device.program(OPENCL, f"-DX={half}"),
    "an option": lambda device, half: device.program(OPENCL, ["-I", f"/{half}"]),
    "kernel": lambda device, half: device.program(OPENCL)[f"k{half}"],
    "variable": lambda device, half: device.program(OPENCL).get_global(f"k{half}"),
    "elementwise": lambda device, half: fb.elementwise("T x", "T y", f"y = x; // {half}")(device.empty(1)),
    "reduction": lambda device, half: fb.reduction("T x", "T y", f"x // {half}", "a + b")(device.empty(1)),
    "preamble": lambda device, half: fb.elementwise("T x", "T y", "y = x", preamble=f"//{half}")(device.empty(1)),
}
HIP_TEXTS = {
    "source": lambda device, half: device.program(f"{HIP}// {half}"),
    "options": lambda device, half: device.program(HIP, ["-D", f"X={half}"]),
    "code": lambda device, half: RawModule(code=f"{HIP}// {half}", device=device).compile(),
    "module's options": lambda device, half: RawModule(code=HIP, options=(f"-DX={half}",), device=device).compile(),
    "instance": lambda device, half: RawModule(code=HIP, name_expressions=[f"k<{half}>"], device=device).compile(),
    "function": lambda device, half: RawModule(code=HIP, device=device).get_function(f"k{half}"),
    "global": lambda device, half: RawModule(code=HIP, device=device).get_global(f"k{half}"),
}


@pytest.mark.needs("OpenCL")
@pytest.mark.parametrize("half", [FROM_BYTES, NO_TEXT], ids=ascii)
@pytest.mark.parametrize("text", OPENCL_TEXTS)
def test_half_of_a_character_in_opencl_c(device, text, half):
    with refused(fb.InvalidArgumentError, ValueError, ascii(half)[1:-1]):
        OPENCL_TEXTS[text](device, half)


@pytest.mark.needs("a compiler of HIP C++")
@pytest.mark.parametrize("text", HIP_TEXTS)
def test_half_of_a_character_in_hip(device, text):
    with refused(fb.InvalidArgumentError, ValueError, ascii(NO_TEXT)[1:-1]):
        HIP_TEXTS[text](device, NO_TEXT)


@pytest.mark.needs("a compiler of HIP C++")
@pytest.mark.parametrize("text", ["source", "code", "options"])
def test_bytes_that_are_no_text_go_to_the_compiler_of_hip(device, text):
    HIP_TEXTS[text](device, FROM_BYTES)


def test_half_of_a_character_in_hiprtc_and_names_of_files(tmp_path):
    invalid = hiprtc.hiprtcResult.HIPRTC_ERROR_INVALID_INPUT
    assert hiprtc.hiprtcCreateProgram(NO_TEXT, None, 0, None, None)[0] == invalid
    assert hiprtc.hiprtcCreateProgram(HIP, NO_TEXT, 0, None, None)[0] == invalid
    _, program = hiprtc.hiprtcCreateProgram(HIP, None, 0, None, None)
    assert hiprtc.hiprtcAddNameExpression(program, NO_TEXT) == (invalid,)
    assert hiprtc.hiprtcCompileProgram(program, 1, [NO_TEXT]) == (invalid,)
    for name in (NO_TEXT, "a\0b"):
        assert hip.hipModuleLoad(str(tmp_path / name))[0] == hip.hipError_t.hipErrorFileNotFound


@pytest.mark.needs("a compiler of HIP C++", "SPIR-V")
@pytest.mark.parametrize(("code", "name"), [
    ('extern "C" __global__ void größe(float* x) { x[0] = 3; }', "größe"),
    ("template <class T> __global__ void größe(T* x) { x[0] = 3; }", "größe<float>"),
    ("__global__ void 大小(float* x) { x[0] = 3; }", "大小"),
])  # fmt: skip
def test_kernels_have_names_in_any_letters(device, queue, code, name):
    """Clang takes them; NVRTC does not."""
    x = device.zeros(1)
    RawKernel(code, name, device=device)(1, 1, (x,))
    assert device_data(x.item()) == 3
    with refused(fb.InvalidArgumentError, ValueError, "länge"):
        RawKernel(code, "länge", device=device)
