"""Attributes, limits, caches and peers."""

import pytest

from forebay import hip

from ..conftest import ok
from ..helpers import E, K, code, ints, launch, read

A = hip.hipDeviceAttribute_t
L = hip.hipLimit_t


@pytest.fixture
def number(device):
    return ok(hip.hipGetDevice())


def test_every_attribute_has_a_value(number):
    properties = ok(hip.hipGetDeviceProperties(number))
    no_attributes = [attribute for attribute in A if "Unused" in attribute.name or attribute.name.endswith("End")]
    for attribute in A:
        result = hip.hipDeviceGetAttribute(attribute, number)
        if attribute in no_attributes or attribute == A.hipDeviceAttributeVendorSpecificBegin:
            assert code(result) == E.hipErrorInvalidValue
        else:
            assert isinstance(ok(result), int)
    assert len(A) - len(no_attributes) - 1 == 114
    for attribute, expected in (
        (A.hipDeviceAttributeMaxBlockDimY, properties.maxThreadsDim[1]),
        (A.hipDeviceAttributeMaxThreadsDim, properties.maxThreadsDim[0]),
        (A.hipDeviceAttributeMaxPitch, properties.memPitch),
        (A.hipDeviceAttributeMaxSharedMemoryPerBlock, properties.sharedMemPerBlock),
        (A.hipDeviceAttributeSharedMemPerBlockOptin, properties.sharedMemPerBlock),
        (A.hipDeviceAttributeMultiprocessorCount, properties.multiProcessorCount),
        (A.hipDeviceAttributePhysicalMultiProcessorCount, properties.multiProcessorCount),
        (A.hipDeviceAttributeTotalGlobalMem, properties.totalGlobalMem),
        (A.hipDeviceAttributeEccEnabled, 0),
        (A.hipDeviceAttributeMaxTexture1DMipmap, 0),
        (A.hipDeviceAttributeMaxTexture2DWidth, properties.maxTexture2D[0]),
        (A.hipDeviceAttributeMaxTexture3DDepth, properties.maxTexture3D[2]),
        (A.hipDeviceAttributeTextureAlignment, properties.textureAlignment),
        (A.hipDeviceAttributeImageSupport, int(properties.maxTexture2D[0] > 0)),
        (A.hipDeviceAttributeCooperativeLaunch, 1),
        (A.hipDeviceAttributeHostRegisterSupported, 1),
        (A.hipDeviceAttributeCanUseStreamWaitValue, 1),
    ):
        assert ok(hip.hipDeviceGetAttribute(attribute, number)) == expected
    assert code(hip.hipDeviceGetAttribute(123456, number)) == E.hipErrorInvalidValue


def test_uuid_and_choice(number):
    properties = ok(hip.hipGetDeviceProperties(number))
    assert ok(hip.hipDeviceGetUuid(number)) == properties.uuid
    assert code(hip.hipDeviceGetUuid(99)) == E.hipErrorInvalidDevice
    wanted = hip.hipDeviceProp_t()
    assert ok(hip.hipChooseDevice(wanted)) == 0
    assert 0 <= ok(hip.hipChooseDevice(properties)) < ok(hip.hipGetDeviceCount())
    chosen = ok(hip.hipGetDeviceProperties(ok(hip.hipChooseDevice(properties))))
    assert chosen.totalGlobalMem >= properties.totalGlobalMem
    assert code(hip.hipChooseDevice(None)) == E.hipErrorInvalidValue


def test_limits(fresh):
    for limit in (L.hipLimitStackSize, L.hipLimitPrintfFifoSize, L.hipLimitMallocHeapSize):
        assert ok(hip.hipDeviceGetLimit(limit)) > 0
    ok(hip.hipDeviceSetLimit(L.hipLimitStackSize, 8192))
    ok(hip.hipDeviceSetLimit(int(L.hipLimitPrintfFifoSize), 1 << 24))
    assert ok(hip.hipDeviceGetLimit(L.hipLimitStackSize)) == 8192
    assert ok(hip.hipDeviceGetLimit(L.hipLimitPrintfFifoSize)) == 1 << 24
    assert code(hip.hipDeviceSetLimit(L.hipLimitMallocHeapSize, 1 << 30)) == E.hipErrorNotSupported
    assert "heap" in str(hip.last_exception())
    for wrong in (99, L.hipLimitRange, L.hipExtLimitScratchMax):
        assert code(hip.hipDeviceGetLimit(wrong)) == E.hipErrorUnsupportedLimit
        assert code(hip.hipDeviceSetLimit(wrong, 1)) == E.hipErrorUnsupportedLimit
    assert code(hip.hipDeviceSetLimit(L.hipLimitStackSize, -1)) == E.hipErrorInvalidValue
    with pytest.raises(TypeError):
        hip.hipDeviceSetLimit(L.hipLimitStackSize, "1 KiB")
    assert ok(hip.hipDeviceGetLimit(L.hipLimitStackSize)) == 8192
    ok(hip.hipDeviceReset())
    assert ok(hip.hipDeviceGetLimit(L.hipLimitStackSize)) == 1024


def test_caches(device):
    assert ok(hip.hipDeviceGetCacheConfig()) == hip.hipFuncCache_t.hipFuncCachePreferNone
    for config in hip.hipFuncCache_t:
        ok(hip.hipDeviceSetCacheConfig(config))
    assert code(hip.hipDeviceSetCacheConfig(4)) == E.hipErrorInvalidValue
    for config in hip.hipSharedMemConfig:
        ok(hip.hipDeviceSetSharedMemConfig(config))
    assert code(hip.hipDeviceSetSharedMemConfig(3)) == E.hipErrorInvalidValue
    assert ok(hip.hipDeviceGetSharedMemConfig()) == hip.hipSharedMemConfig.hipSharedMemBankSizeFourByte


def test_a_device_is_no_peer_of_itself(number):
    assert ok(hip.hipDeviceCanAccessPeer(number, number)) == 0
    for call in (lambda n: hip.hipDeviceEnablePeerAccess(n, 0), hip.hipDeviceDisablePeerAccess):
        for wrong in (number, 99, -1):
            assert code(call(wrong)) == E.hipErrorInvalidDevice
    assert code(hip.hipDeviceGetP2PAttribute(1, number, number)) == E.hipErrorInvalidDevice
    assert code(hip.hipDeviceGetP2PAttribute(1, number, 99)) == E.hipErrorInvalidDevice
    assert code(hip.hipExtGetLinkTypeAndHopCount(number, number)) == E.hipErrorInvalidValue
    assert code(hip.hipExtGetLinkTypeAndHopCount(number, 99)) == E.hipErrorInvalidValue


@pytest.mark.needs("two devices")
@pytest.mark.executes
def test_peers(device, function):
    ok(hip.hipSetDevice(0))
    linked = ok(hip.hipDeviceCanAccessPeer(0, 1))
    assert code(hip.hipDeviceEnablePeerAccess(1, 1)) == E.hipErrorInvalidValue
    assert code(hip.hipDeviceDisablePeerAccess(1)) == E.hipErrorPeerAccessNotEnabled
    if linked:
        ok(hip.hipDeviceEnablePeerAccess(1, 0))
        assert code(hip.hipDeviceEnablePeerAccess(1, 0)) == E.hipErrorPeerAccessAlreadyEnabled
        ok(hip.hipSetDevice(1))
        memory = ints(10, 6)
        ok(hip.hipSetDevice(0))
        launch(function("add"), None, memory, 3, groups=1)
        ok(hip.hipDeviceSynchronize())
        assert read(memory, 10) == [9] * 10
        ok(hip.hipDeviceDisablePeerAccess(1))
    else:
        assert code(hip.hipDeviceEnablePeerAccess(1, 0)) == E.hipErrorPeerAccessUnsupported
        assert "hipMemcpyPeer" in str(hip.last_exception())
    assert ok(hip.hipDeviceGetP2PAttribute(hip.hipDeviceP2PAttr.hipDevP2PAttrAccessSupported, 0, 1)) == linked
    assert code(hip.hipDeviceGetP2PAttribute(99, 0, 1)) == E.hipErrorInvalidValue
    assert ok(hip.hipExtGetLinkTypeAndHopCount(0, 1)) == (2, 2 - linked)
    here = ints(10, 5)
    ok(hip.hipSetDevice(1))
    there = ints(10, 6)
    ok(hip.hipMemcpy(there, here, 40, K.hipMemcpyDefault))
    assert read(there, 10) == [5] * 10
