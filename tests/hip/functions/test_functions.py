"""What functions are like, and occupancy."""

import ctypes

import pytest

from forebay import hip
from forebay.hip.modules import KEPT
from tests.helpers.limits import limits

from ..conftest import ok
from ..helpers import function_of

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
