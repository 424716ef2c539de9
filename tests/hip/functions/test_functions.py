"""What functions are like, and occupancy."""

import ctypes

import pytest

from forebay import hip
from forebay.hip.functions.occupancy import KEPT
from tests.helpers.limits import limits

from ..conftest import ok
from ..helpers import E, code, function_of

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
    found = ok(hip.hipFuncGetAttributes(int(shared)))
    if tells:
        assert 256 <= found.sharedSizeBytes <= 512
        assert found.maxDynamicSharedSizeBytes == most - found.sharedSizeBytes
    for wrong in (None, 0, 12345, ok(hip.hipStreamCreate())):
        assert code(hip.hipFuncGetAttributes(wrong)) == E.hipErrorInvalidDeviceFunction


def test_one_attribute(function, device, shared, tells):
    fill = function("fill")
    most = ok(hip.hipFuncGetAttribute(F.HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, fill))
    assert most == fill.kernel.max_block_size
    dynamic = ok(hip.hipFuncGetAttribute(F.HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, fill))
    assert dynamic == limits(device.info).local_memory
    static = ok(hip.hipFuncGetAttribute(int(F.HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), shared))
    assert static == ok(hip.hipFuncGetAttributes(shared)).sharedSizeBytes
    assert ok(hip.hipFuncGetAttribute(F.HIP_FUNC_ATTRIBUTE_NUM_REGS, fill)) == 0
    assert code(hip.hipFuncGetAttribute(99, fill)) == E.hipErrorInvalidValue
    assert code(hip.hipFuncGetAttribute(F.HIP_FUNC_ATTRIBUTE_MAX, fill)) == E.hipErrorInvalidValue
    assert code(hip.hipFuncGetAttribute(0, None)) == E.hipErrorInvalidResourceHandle


# Occupancy


@pytest.mark.parametrize(
    "name",
    [
        "hipOccupancyMaxPotentialBlockSize",
        "hipModuleOccupancyMaxPotentialBlockSize",
        "hipModuleOccupancyMaxPotentialBlockSizeWithFlags",
    ],
)
def test_the_largest_groups(function, device, name):
    find, fill = getattr(hip, name), function("nothing")
    grid, block = ok(find(fill, 0, 0))
    assert grid == device.info.compute_units * ok(hip.hipOccupancyMaxActiveBlocksPerMultiprocessor(fill, block, 0))
    assert 0 < block <= fill.kernel.max_block_size
    ok(hip.hipModuleLaunchKernel(fill, grid, 1, 1, block, 1, 1, 0, None, None, (ctypes.c_int(1),)))
    assert ok(find(fill, 0, 1))[1] == 1
    assert ok(find(fill, 0, 10**9))[1] == block
    assert code(find(None, 0, 0)) == E.hipErrorInvalidValue
    assert code(find(fill, 1 << 40, 0)) == E.hipErrorInvalidValue
    assert code(find(fill, -1, 0)) == E.hipErrorInvalidValue


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
    if tells:
        assert ok(find(shared, 1, room)) == 0
    for block, size in ((0, 0), (-1, 0), (1, -1)):
        assert code(find(fill, block, size)) == E.hipErrorInvalidValue
    missing = E.hipErrorInvalidValue if of == "hipModule" else E.hipErrorInvalidDeviceFunction
    assert code(find(None, 1, 0)) == missing
    if flags:
        assert ok(find(fill, 1, 0, 1)) >= 1
        assert code(find(fill, 1, 0, 2)) == E.hipErrorInvalidValue


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
    for wrong in ((0, 10), (1, 0), (1, fill.kernel.max_block_size + 1), (-1, 10)):
        assert code(find(fill, *wrong)) == E.hipErrorInvalidValue
    assert code(find(None, 1, 1)) == E.hipErrorInvalidDeviceFunction
