"""Modules, and libraries and their kernels, HIP 7's names for modules and functions."""

import numpy as np
import pytest

from forebay import hip
from forebay.core.driver import Language
from forebay.core.errors import BuildError
from forebay.hiprtc.code import pack_code
from tests.helpers.device_data import device_data

from ..conftest import SOURCE, ok
from ..helpers import E, N, code, ints, launch, read

F = hip.hipFunction_attribute


@pytest.fixture
def library(device):
    return ok(hip.hipLibraryLoadData(SOURCE.encode(), None, 0, None, 0))[0]


@pytest.fixture
def fill(library):
    return ok(hip.hipLibraryGetKernel(library, b"fill"))


def test_a_kernel_is_launched(fill, streams):
    memory, (stream,) = ints(), streams(1)
    launch(fill, stream, memory, 5)
    launch(ok(hip.hipKernelGetFunction(fill)), stream, memory, 6, groups=1)
    ok(hip.hipStreamSynchronize(stream))
    assert device_data(read(memory)) == [6] * 10 + [5] * (N - 10)


def test_what_is_known(library, fill, device, tmp_path):
    number, path = ok(hip.hipGetDevice()), tmp_path / "fill.cl"
    every = ok(hip.hipLibraryEnumerateKernels(100, library))
    assert len(every) == ok(hip.hipLibraryGetKernelCount(library)) == SOURCE.count("kernel void")
    assert fill in every
    assert len(ok(hip.hipLibraryEnumerateKernels(2, library))) == 2
    assert ok(hip.hipKernelGetName(fill)) == b"fill"
    assert ok(hip.hipKernelGetLibrary(fill)) == library
    most = ok(hip.hipKernelGetAttribute(F.HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, fill, number))
    assert most == fill.kernel.max_block_size
    dynamic = hip.hipFuncAttribute.hipFuncAttributeMaxDynamicSharedMemorySize
    ok(hip.hipKernelSetAttribute(dynamic, 16, fill, number))
    path.write_text(SOURCE)
    of_file, *options = ok(hip.hipLibraryLoadFromFile(str(path), None, 0, None, 0))
    assert options == [None, None]
    ok(hip.hipLibraryGetKernel(of_file, "fill"))


@pytest.mark.parametrize(
    "image",
    [SOURCE, SOURCE.encode(), bytearray(SOURCE.encode() + b"\0"), np.frombuffer(SOURCE.encode(), "u1")],
    ids=["str", "bytes", "bytearray", "numpy"],
)
def test_images(device, image):
    module = ok(hip.hipModuleLoadData(image))
    assert ok(hip.hipModuleGetFunctionCount(module)) == SOURCE.count("kernel void")
    assert ok(hip.hipModuleGetFunction(module, "fill")) == ok(hip.hipModuleGetFunction(int(module), b"fill"))
    ok(hip.hipModuleUnload(module))


def test_files(device, tmp_path):
    path = tmp_path / "module.cl"
    path.write_text(SOURCE)
    for name in (str(path), str(path).encode()):
        ok(hip.hipModuleGetFunction(ok(hip.hipModuleLoad(name)), b"add"))


def test_images_that_cannot_be(device):
    """`last_exception` has the log."""
    assert code(hip.hipModuleLoadData("kernel void wrong(int x) { no such thing; }")) == E.hipErrorInvalidImage
    assert isinstance(hip.last_exception(), BuildError)
    whole = pack_code("damaged", Language.OPENCL_C, SOURCE)
    ok(hip.hipModuleGetFunction(ok(hip.hipModuleLoadData(bytearray(whole))), b"fill"))
    assert code(hip.hipModuleLoadData(whole[:-3])) == E.hipErrorInvalidImage
    assert "damaged" in str(hip.last_exception())


def test_dim3():
    assert list(hip.dim3()) == [1, 1, 1]
    assert list(hip.dim3(2, 3)) == [2, 3, 1]
    assert hip.dim3(8.0).x == hip.dim3(8)[0] == hip.dim3(8)["x"] == 8
    assert hip.dim3(1, 2) == hip.dim3(1, 2, 1)
    for wrong in (8.5, "8", None, -1, 1 << 32):
        with pytest.raises((TypeError, ValueError)):
            hip.dim3(wrong)
