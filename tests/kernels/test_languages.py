"""The language of a program: how it is recognized, and what a device takes."""

import pytest

import forebay as fb
from forebay.core.driver import Language
from forebay.queues.kernels.program import language_of
from tests.helpers import spirv

PTX = """\
// what a compiler says about itself
/* and more */

.version 8.8
.target sm_90
.address_size 64
.visible .entry nothing() { ret; }
"""
CUBIN = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xbe\x00" + bytes(44)


@pytest.mark.parametrize(
    ("source", "language"),
    [
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
    ],
)
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
