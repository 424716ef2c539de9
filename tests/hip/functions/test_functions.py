"""What functions are like, and occupancy."""

import ctypes

import numpy as np
import pytest

from forebay import hip
from forebay.core.driver import Language
from forebay.core.errors import BuildError
from forebay.hip.modules import KEPT
from forebay.hiprtc.code import pack_code
from tests.helpers.device_data import device_data
from tests.helpers.limits import limits

from ..conftest import SOURCE, ok
from ..helpers import E, N, code, function_of, ints, launch, read

F, SET = hip.hipFunction_attribute, hip.hipFuncAttribute
SHARED = b"""
kernel void shared(global int *out) {
    local int room[64];
    room[get_local_id(0)] = 1;
    barrier(CLK_LOCAL_MEM_FENCE);
    out[get_global_id(0)] = room[0];
}
"""


@pytest.fixture
def shared(device):
    """A function with 256 bytes of shared memory."""
    return function_of(SHARED, b"shared")


@pytest.fixture
def tells(device):
    """Whether the driver tells how much shared memory a function has."""
    return device.info.backend != "sycl"


def test_attributes(function, device, shared, tells):
    fill, most = function("fill"), limits(device.info).local_memory
    found = ok(hip.hipFuncGetAttributes(fill))
    assert isinstance(found, hip.hipFuncAttributes)
    assert found.maxThreadsPerBlock == fill.kernel.max_block_size
    assert (found.sharedSizeBytes, found.maxDynamicSharedSizeBytes) == (0, most)
    assert set(found.PROPERTIES()) >= {"numRegs", "localSizeBytes", "constSizeBytes", "binaryVersion", "ptxVersion"}
    of_shared = ok(hip.hipFuncGetAttributes(int(shared)))
    if tells:
        assert 256 <= of_shared.sharedSizeBytes <= 512
        assert of_shared.maxDynamicSharedSizeBytes == most - of_shared.sharedSizeBytes
    for attribute, each, expected in (
        (F.HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, fill, found.maxThreadsPerBlock),
        (F.HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, fill, most),
        (int(F.HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), shared, of_shared.sharedSizeBytes),
        (F.HIP_FUNC_ATTRIBUTE_NUM_REGS, fill, 0),
    ):
        assert ok(hip.hipFuncGetAttribute(attribute, each)) == expected
    ok(hip.hipFuncSetAttribute(fill, SET.hipFuncAttributeMaxDynamicSharedMemorySize, most))
    for percent in (-1, 0, 100):
        ok(hip.hipFuncSetAttribute(fill, SET.hipFuncAttributePreferredSharedMemoryCarveout, percent))
    ok(hip.hipFuncSetCacheConfig(fill, hip.hipFuncCache_t.hipFuncCachePreferL1))
    ok(hip.hipFuncSetSharedMemConfig(fill, hip.hipSharedMemConfig.hipSharedMemBankSizeEightByte))


# Occupancy


@pytest.mark.parametrize("name", ["hip", "hipModule", "hipModule WithFlags"])
def test_the_largest_groups(function, device, name):
    of, _, flags = name.partition(" ")
    find, fill = getattr(hip, f"{of}OccupancyMaxPotentialBlockSize{flags}"), function("nothing")
    grid, block = ok(find(fill, 0, 0))
    assert grid == device.info.compute_units * ok(hip.hipOccupancyMaxActiveBlocksPerMultiprocessor(fill, block, 0))
    assert 0 < block <= fill.kernel.max_block_size
    ok(hip.hipModuleLaunchKernel(fill, grid, 1, 1, block, 1, 1, 0, None, None, (ctypes.c_int(1),)))
    assert ok(find(fill, 0, 1))[1] == 1
    assert ok(find(fill, 0, 10**9))[1] == block


@pytest.mark.parametrize("flags", ["", "WithFlags"])
@pytest.mark.parametrize("of", ["hip", "hipModule"])
def test_groups_of_a_compute_unit(function, device, shared, tells, of, flags):
    find, fill = getattr(hip, f"{of}OccupancyMaxActiveBlocksPerMultiprocessor{flags}"), function("fill")
    most, room = fill.kernel.max_block_size, limits(device.info).local_memory
    for block in (1, 10, most):
        assert ok(find(fill, block, 0)) >= 1
    assert ok(find(fill, most + 1, 0)) == 0
    assert 1 <= ok(find(fill, 1, room)) <= ok(find(fill, 1, 0))
    assert ok(find(fill, 1, room + 1)) == 0
    assert not tells or ok(find(shared, 1, room)) == 0
    assert not flags or ok(find(fill, 1, 0, 1)) >= 1


def test_shared_memory_that_is_left(function, device, shared):
    fill, room = function("fill"), limits(device.info).local_memory
    find = hip.hipOccupancyAvailableDynamicSMemPerBlock
    assert ok(find(fill, 1, 10)) == room
    for kernel, groups in ((fill, 4), (shared, 2)):
        share = room // groups - ok(hip.hipFuncGetAttributes(kernel)).sharedSizeBytes
        left = ok(find(kernel, groups, 10))
        if device.info.backend == "cuda":  # a GPU keeps some of each group, and shared memory has a few sizes
            at_once = hip.hipOccupancyMaxActiveBlocksPerMultiprocessor
            assert 0 < left <= share
            assert ok(at_once(kernel, 10, left)) >= groups
            assert left + KEPT > share or ok(at_once(kernel, 10, left + KEPT)) < groups
        else:
            assert left == share


# Modules, and libraries and their kernels


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
