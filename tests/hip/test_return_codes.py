"""The codes that HIP's functions return for wrong calls: a row is a call, its arguments and the code, by family."""

import ctypes

import numpy as np
import pytest

from forebay import hip, hiprtc
from forebay.core.driver import Language
from forebay.hip import ext
from tests.helpers.limits import limits
from tests.inside import hip_without_devices

from .conftest import SOURCE, each, ok
from .helpers import (
    E,
    K,
    N,
    add,
    alloc_params,
    can_map,
    code,
    compiled,
    instantiate,
    ints,
    kernel,
    launch,
    memset,
    variable,
)

VALUE, HANDLE, GONE = E.hipErrorInvalidValue, E.hipErrorInvalidHandle, E.hipErrorContextIsDestroyed
DEVICE, CONTEXT, FUNCTION = E.hipErrorInvalidDevice, E.hipErrorInvalidContext, E.hipErrorInvalidDeviceFunction
DIRECTION, PITCH, SYMBOL = (E.hipErrorInvalidMemcpyDirection, E.hipErrorInvalidPitchValue, E.hipErrorInvalidSymbol)
MEMORY, UNSUPPORTED, NOT_FOUND = E.hipErrorOutOfMemory, E.hipErrorNotSupported, E.hipErrorNotFound
UP, DOWN = K.hipMemcpyHostToDevice, K.hipMemcpyDeviceToHost
ACROSS, DEFAULT = K.hipMemcpyDeviceToDevice, K.hipMemcpyDefault
GLOBAL = hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal
A, F, L, P = hip.hipDeviceAttribute_t, hip.hipFunction_attribute, hip.hipLimit_t, hip.hipPointer_attribute


NO_STREAMS = (12345, ctypes.c_void_p(0xFFFF), hip.ihipStream_t(0xFFFF), (1 << 60) + 16 * 10**6)


# Devices, contexts, the process


def test_devices(refused, number):
    there, value = len(hip.devices.infos()), ctypes.c_uint64(0)
    used, peak = hip.hipGraphMemAttributeType.hipGraphMemAttrUsedMemCurrent, hip.hipGraphMemAttributeType(1)
    pool = ok(hip.hipDeviceGetDefaultMemPool(number))
    one_each = (
        "hipSetDevice hipDeviceGet hipDeviceTotalMem hipDeviceComputeCapability hipGetDeviceProperties "
        "hipDeviceGetUuid hipDeviceGetDefaultMemPool hipDeviceGraphMemTrim hipDevicePrimaryCtxRetain "
        "hipDevicePrimaryCtxRelease hipDevicePrimaryCtxReset hipDevicePrimaryCtxGetState"
    )
    refused(
        DEVICE, (one_each, each(-1, 99)), ("hipDeviceGetName", 9, each(-1, 99)),
        ("hipGetDeviceProperties", hip.hipDeviceProp_t(), each(-1, 99)),
        ("hipDeviceGetAttribute", A.hipDeviceAttributeWarpSize, each(-1, 99)),
        ("hipDeviceCanAccessPeer", each(-1, 99), number), ("hipDeviceEnablePeerAccess", each(number, 99, -1), 0),
        ("hipDeviceDisablePeerAccess", each(number, 99, -1)), ("hipDeviceGetP2PAttribute", 1, number, each(number, 99)),
        ("hipDeviceSetMemPool", 99, pool), ("hipCtxCreate", 0, 99), ("hipDevicePrimaryCtxSetFlags", 99, 0),
        ("hipDeviceGetGraphMemAttribute hipDeviceSetGraphMemAttribute", each(-1, there, 2**31 - 1), peak, value),
    )  # fmt: skip
    refused(
        VALUE, ("hipInit", 1), ("hipDeviceGetName", 0, number),
        ("hipDeviceGetAttribute", each(A.hipDeviceAttributeUnused1, -1, 123456), number),
        ("hipSetDeviceFlags", each(0x100, hip.hipDeviceScheduleSpin | hip.hipDeviceScheduleYield)),
        ("hipDevicePrimaryCtxSetFlags", number, 0x100), ("hipExtGetLinkTypeAndHopCount", number, each(number, 99)),
        ("hipChooseDevice", None), ("hipDeviceSetLimit", L.hipLimitStackSize, -1), ("hipDeviceSetCacheConfig", 4),
        ("hipDeviceSetSharedMemConfig", 3),
        ("hipDeviceGetGraphMemAttribute hipDeviceSetGraphMemAttribute", number, each(7, 99, None), value),
        ("hipDeviceGetGraphMemAttribute hipDeviceSetGraphMemAttribute", number, peak, None),
        ("hipDeviceSetGraphMemAttribute", number, used, value),
        ("hipDeviceSetGraphMemAttribute", number, peak, ctypes.c_uint64(1)),
    )  # fmt: skip
    limits_of_none = each(99, L.hipLimitRange, L.hipExtLimitScratchMax)
    refused(E.hipErrorUnsupportedLimit, ("hipDeviceGetLimit", limits_of_none), ("hipDeviceSetLimit", limits_of_none, 1))
    refused(UNSUPPORTED, ("hipDeviceSetLimit", L.hipLimitMallocHeapSize, 1 << 30))
    refused(
        TypeError, ("hipSetDevice", "cpu"), ("hipGetDeviceProperties", None, number),
        ("hipDeviceSetLimit", L.hipLimitStackSize, "1 KiB"),
    )  # fmt: skip
    assert ok(hip.hipGetDevice()) == number


def test_contexts(refused, number):
    stream = ok(hip.hipStreamCreate())
    refused(
        CONTEXT,
        ("hipCtxPushCurrent hipCtxGetApiVersion", each(12345, None, stream, (7 << 60) + 16 * 99)),
        ("hipCtxSetCurrent hipCtxDestroy", each(12345, stream, (7 << 60) + 16 * 99)),
        ("hipCtxEnablePeerAccess", None, 0),
        ("hipCtxPopCurrent",),  # nothing was pushed
    )
    context = ok(hip.hipCtxCreate(0, number))
    refused(DEVICE, ("hipCtxEnablePeerAccess", context, 0), ("hipCtxDisablePeerAccess", context))
    ok(hip.hipCtxDestroy(context))
    refused(
        VALUE, ("hipCtxDestroy", None), ("hipCtxCreate", 0x100, number),
        ("hipCtxSetCacheConfig hipCtxSetSharedMemConfig", 9),
    )  # fmt: skip
    refused(TypeError, ("hipCtxPushCurrent", "cpu"))


def test_what_a_reset_ends(fresh, refused):
    """Handles and memory of the device, the program's own memory and what is in modules."""
    stream, event, untimed = ok(hip.hipStreamCreate()), ok(hip.hipEventCreate()), ok(hip.hipEventCreateWithFlags(2))
    memory, registered = ints(), np.zeros(64, "u1")
    module = ok(hip.hipModuleLoadData(SOURCE.encode()))
    ok(hip.hipHostRegister(registered, registered.nbytes))
    ok(hip.hipMemsetAsync(memory, 1, 4, stream))
    ok(hip.hipDeviceReset())
    assert fresh.closed
    refused(
        GONE, ("hipStreamSynchronize hipStreamQuery", stream), ("hipEventQuery hipEventRecord", each(event, untimed)),
        ("hipStreamWaitEvent", None, each(event, untimed)),
    )  # fmt: skip
    refused(VALUE, ("hipFree", memory), ("hipMemset", memory, 0, 4))
    refused(NOT_FOUND, ("hipModuleGetFunction", module, b"fill"))
    refused(E.hipErrorHostMemoryNotRegistered, ("hipHostUnregister", registered))
    ok(hip.hipHostRegister(registered, registered.nbytes))
    ok(hip.hipHostUnregister(registered))
    ok(hip.hipDeviceReset())


@pytest.mark.needs("a compiler of HIP C++")
def test_textures_that_a_reset_ends(fresh, refused):
    from .textures.conftest import array_like, texture_of

    array = array_like(np.zeros((1, 1, 64, 1), "i4"))
    texture = texture_of(array)
    ok(hip.hipDeviceReset())
    refused(VALUE, ("hipDestroyTextureObject", texture))
    refused(GONE, ("hipFreeArray", array))


# Streams and events


def test_streams(refused, function, device):
    gone, event, memory = ok(hip.hipStreamCreate()), ok(hip.hipEventCreate()), ints()
    pool = ok(hip.hipDeviceGetDefaultMemPool(hip.devices.number_of(device)))
    ok(hip.hipStreamDestroy(gone))
    none = each(gone, int(gone), *NO_STREAMS)
    wait = hip.hipStreamWaitValueGte
    asking = (
        "hipStreamDestroy hipStreamQuery hipStreamSynchronize hipStreamGetFlags hipStreamGetPriority "
        "hipStreamEndCapture hipStreamIsCapturing hipStreamGetCaptureInfo hipStreamGetCaptureInfo_v2 "
        "hipStreamSynchronize_spt"
    )
    refused(
        GONE, (asking, none), ("hipStreamWaitEvent", none, event, 0),
        ("hipStreamWaitValue32 hipStreamWaitValue64", none, memory, 0, wait),
        ("hipStreamWriteValue32 hipStreamWriteValue64", none, memory, 0, 0), ("hipStreamBeginCapture", none, GLOBAL),
        ("hipLaunchHostFunc", none, print, None), ("hipStreamAttachMemAsync", none, memory),
        ("hipEventRecord", event, none), ("hipMallocAsync", 100, none), ("hipMallocFromPoolAsync", 100, pool, none),
        ("hipFreeAsync", memory, none), ("hipMemsetAsync", memory, 0, 4, none),
        ("hipMemcpyAsync", memory, memory + 100, 4, ACROSS, none),
        ("hipModuleLaunchKernel", function("fill"), 1, 1, 1, 1, 1, 1, 0, none, None, (memory, 1)),
        ("hipLaunchKernel hipLaunchCooperativeKernel", function("fill"), 1, 1, [], 0, none),
        ("hipGraphLaunch", instantiate(ok(hip.hipGraphCreate(0))), none),
    )  # fmt: skip
    refused(TypeError, ("hipStreamSynchronize hipStreamDestroy hipStreamQuery", "no stream"))
    refused(HANDLE, ("hipStreamDestroy", each(None, 0, hip.hipStreamLegacy, hip.hipStreamPerThread)))
    some = each(None, ok(hip.hipStreamCreate()), hip.hipStreamPerThread)
    no_modes = each(-1, 3, 2**31 - 1, None, "global")
    refused(
        VALUE, ("hipStreamCreateWithFlags", each(0xFF, 2, -1, "x", b"1", None, 1.5)),
        ("hipStreamCreateWithPriority", each(0xFF, 2, -1), 0), ("hipStreamWaitEvent", some, event, 0xFFFFFFFF),
        ("hipStreamAddCallback", some, each(None, 0), None, 0), ("hipStreamAddCallback", some, print, None, 10),
        ("hipLaunchHostFunc", some, each(None, 0), None), ("hipStreamBeginCapture", some[1], no_modes),
        ("hipThreadExchangeStreamCaptureMode", no_modes),
    )  # fmt: skip
    refused(HANDLE, ("hipStreamWaitEvent", some, None, 0))
    refused(TypeError, ("hipLaunchHostFunc", None, "text", None))


def test_events(refused):
    event, gone, untimed = ok(hip.hipEventCreate()), ok(hip.hipEventCreate()), ok(hip.hipEventCreateWithFlags(2))
    ok(hip.hipEventDestroy(gone))
    never = ok(hip.hipEventCreate())
    for recorded in (event, untimed):
        ok(hip.hipEventRecord(recorded, None))
        ok(hip.hipEventSynchronize(recorded))
    both = hip.hipEventReleaseToDevice | hip.hipEventReleaseToSystem
    refused(GONE, ("hipEventDestroy hipEventQuery hipEventSynchronize hipEventRecord", gone))
    refused(
        HANDLE, ("hipEventDestroy hipEventQuery hipEventSynchronize hipEventRecord", each(None, 12345)),
        ("hipEventElapsedTime", each(None, untimed, never), event),
        ("hipEventElapsedTime", event, each(None, untimed, never)), ("hipEventElapsedTime", untimed, untimed),
    )  # fmt: skip
    refused(VALUE, ("hipEventCreateWithFlags", each(hip.hipEventInterprocess, both, 0x08000000, both | 7)))
    refused(
        TypeError, ("hipEventCreateWithFlags", each("x", 1.5, None)),
        ("hipEventDestroy hipEventQuery hipEventSynchronize hipEventRecord", "no event"),
    )  # fmt: skip


@pytest.mark.parametrize("bits", [32, 64])
def test_values_in_memory(refused, bits):
    stream, memory = ok(hip.hipStreamCreate()), ok(hip.hipMalloc(64))
    write, wait = f"hipStreamWriteValue{bits}", f"hipStreamWaitValue{bits}"
    wrong = each(None, 0, memory + 64, memory + 61)
    refused(
        VALUE, (write, stream, wrong, 0, 0), (write, stream, memory, 0, 1),
        (wait, stream, wrong, 0, hip.hipStreamWaitValueGte), (wait, stream, memory, 0, 4),
    )  # fmt: skip


def test_steps(refused):
    stream, other = ok(hip.hipStreamCreate()), ok(hip.hipStreamCreate())
    refused(E.hipErrorIllegalState, (ext.hipStreamStepEnd, stream))
    ok(ext.hipStreamStepBegin(stream))
    refused(
        E.hipErrorIllegalState,
        (ext.hipStreamStepBegin, each(stream, other)), (ext.hipStreamStepEnd, other), ("hipStreamBeginCapture", stream),
    )  # fmt: skip
    ok(ext.hipStreamStepEnd(stream))
    refused(E.hipErrorIllegalState, (ext.hipStreamStepEnd, stream))
    ok(hip.hipStreamBeginCapture(stream))
    refused(E.hipErrorIllegalState, (ext.hipStreamStepBegin, stream))
    ok(hip.hipStreamEndCapture(stream))


# Memory


def test_memory(refused, device):
    memory, host, pinned = ok(hip.hipMalloc(100)), np.zeros(100, "u1"), ok(hip.hipHostMalloc(100))
    nowhere = each(-(2**70), -1, 2**64, 2**70, 12345)
    extent, volume = hip.hipExtent, ok(hip.hipMalloc3D(hip.hipExtent(20, 3, 4)))
    freed = ok(hip.hipMalloc(1 << 16))
    ok(hip.hipFree(freed))  # last, so that nothing has its address
    coherent = hip.hipHostMallocCoherent | hip.hipHostMallocNonCoherent
    refused(
        VALUE, ("hipFree hipFreeAsync hipHostFree", each(freed, memory + 1, pinned + 1, host, *nowhere)),
        ("hipFree", pinned), ("hipHostFree", memory),
        ("hipFreeAsync", each(None, 0, hip.DeviceArray(None, (0,)), ctypes.c_void_p()), each(None, 2, 12345)),
        ("hipMalloc hipMallocAsync hipHostMalloc", -1), ("hipHostMalloc", 100, each(0x100, coherent)),
        ("hipMallocManaged", 100, 8), ("hipMallocManaged", 0),
        ("hipExtMallocWithFlags", 100, each(hip.hipMallocSignalMemory, 77)),
        ("hipExtMallocWithFlags hipMallocManaged", 64, each("x", b"1", 1.5, None)), ("hipMallocPitch", -1, 5),
        ("hipMemAllocPitch", 20, 3, 3), ("hipMemAllocPitch", each(0, 20), 0, 4), ("hipMalloc3D", None),
        ("hipMemPtrGetInfo hipMemGetAddressRange", each(freed, memory + 100, *nowhere)),
        ("hipPointerGetAttributes", each(None, 0, host, freed, memory + 100, *nowhere)),
        ("hipPointerGetAttributes", hip.hipPointerAttribute_t(), each(None, host, freed, memory + 100, *nowhere)),
    )  # fmt: skip
    refused(
        MEMORY, ("hipMalloc hipMallocAsync", 1 << 50), ("hipMallocPitch", 1 << 40, 1 << 12),
        ("hipMalloc3D", extent(1 << 20, 1 << 20, 1 << 12)),
    )  # fmt: skip
    refused(
        TypeError, ("hipMalloc", "much"), ("hipHostMalloc", 64, each("x", b"1", 1.5, None)), ("hipMallocAsync", 1.5),
        ("hipMallocPitch", None, 5), ("hipMalloc3D", (1, 2, 3)), ("hipPointerGetAttributes", {}, memory),
    )  # fmt: skip
    # What sets memory.
    lines = "hipMemset hipMemsetAsync hipMemsetD8 hipMemsetD8Async hipMemsetD16 hipMemsetD16Async hipMemsetD32"
    refused(
        VALUE,
        (f"{lines} hipMemsetD32Async hipMemset_spt hipMemsetAsync_spt", each(None, host, freed, memory + 100), 1, 4),
        (f"{lines} hipMemsetD32Async", memory, 1, each(101, -1, 1 << 40)), ("hipMemset", nowhere, 0, 4),
        ("hipMemset2D", memory, 8, 5, 10, 4),
        ("hipMemset3D", volume, 0, each(extent(volume.pitch + 1, 3, 4), extent(20, 3, 5), extent(20, 4, 4), None)),
        ("hipMemset3D", None, 0, extent(20, 3, 4)),
        ("hipMemset3D", hip.hipPitchedPtr(None, 8, 8, 8), 0, extent(8, 1, 1)),
        ("hipMemsetD2D32", volume.ptr, each(3, 6), 0, 1, 2), ("hipMemsetD2D8", volume.ptr, -1, 0, 1, 2),
        ("hipMemsetD2D16", volume.ptr, volume.pitch, 0, 1, 1000),
    )  # fmt: skip
    refused(TypeError, ("hipMemsetAsync", memory, 0, 1.5))
    ok(hip.hipMemset(memory, 1, 0))
    ok(hip.hipMemset3D(volume, 0, extent(0, 3, 4)))
    ok(hip.hipMemsetD2D32(volume.ptr, 4, 0, 0, 5))
    # Copies whose host side is no array to write to, or is the wrong side.
    refused(
        VALUE, ("hipMemcpy hipMemcpyAsync", each(host[::2], b"x" * 100, host[:50]), memory, 99, DOWN),
        ("hipMemcpy hipMemcpyAsync", host, host, 100, each(UP, DOWN)),
        ("hipMemcpy hipMemcpyAsync", memory + 1, host, 100, UP),
        ("hipMemcpy hipMemcpyAsync", each(*nowhere[:4]), host, 64, DEFAULT),
        ("hipMemcpy hipMemcpyAsync", host, each(freed, freed + 8, freed[4:], *nowhere[:4]), 4, DEFAULT),
    )  # fmt: skip
    refused(DIRECTION, ("hipMemcpy hipMemcpyAsync", memory, memory, 4, each(5, -1, 1 << 70, "up", None)))
    refused(TypeError, ("hipMemcpy hipMemcpyAsync", memory, object(), 10, UP), ("hipMemcpy3D", hip.hipExtent()))
    refused(VALUE, ("hipMemcpy3D", None), ("hipMemcpyParam2D", hip.hip_Memcpy2D(WidthInBytes=1, Height=1)))
    ok(hip.hipMemcpy(memory, host, 0, UP))
    for nothing in (extent(0, 3, 4), extent(20, 0, 4), extent(20, 3, 0)):
        ok(hip.hipMemcpy3D(hip.hipMemcpy3DParms(dstPtr=volume, srcPtr=volume, extent=nothing, kind=ACROSS)))
    # Pinned memory and the device's pointer to it.
    refused(VALUE, ("hipHostGetDevicePointer", memory, 0), ("hipHostGetDevicePointer", pinned, 1))
    if not can_map(device):
        refused(UNSUPPORTED, ("hipHostGetDevicePointer", pinned, 0))
    ok(hip.hipFree(memory))
    ok(hip.hipHostFree(pinned))


def test_registered_memory(refused, streams):
    array, pinned, memory = np.arange(N, dtype="i4"), ok(hip.hipHostMalloc(400)), ints(4)
    at = array.ctypes.data
    refused(
        VALUE, ("hipHostRegister", each(None, 0, b"bytes"), 4),
        ("hipHostRegister", array, each(0, -1, array.nbytes + 1)), ("hipHostRegister", array, 4, 0x100),
        ("hipHostUnregister", None),
    )  # fmt: skip
    refused(E.hipErrorHostMemoryNotRegistered, ("hipHostUnregister", each(pinned, memory, array, at + 4)))
    refused(TypeError, ("hipHostRegister", object(), 4))
    ok(hip.hipHostRegister(array, 400))
    refused(E.hipErrorHostMemoryAlreadyRegistered, ("hipHostRegister", each(array, at + 4, at - 8, pinned), 16))
    refused(VALUE, ("hipFree hipHostFree hipFreeAsync", array))
    ok(hip.hipHostUnregister(array))
    refused(E.hipErrorHostMemoryNotRegistered, ("hipHostUnregister", array))
    refused(VALUE, ("hipHostGetFlags", array))


def test_pools_and_attributes_of_pointers(refused, number):
    pool, memory = ok(hip.hipDeviceGetDefaultMemPool(number)), ok(hip.hipMalloc(100))
    attributes, value = hip.hipMemPoolAttr, ctypes.c_uint64(5)
    nowhere = hip.hipMemLocation(hip.hipMemLocationType.hipMemLocationTypeDevice, 99)
    here = hip.hipMemLocation(hip.hipMemLocationType.hipMemLocationTypeDevice, number)
    told = each(
        attributes.hipMemPoolAttrReservedMemCurrent, attributes.hipMemPoolAttrUsedMemCurrent,
        attributes.hipMemPoolAttrUsedMemHigh, 99,
    )  # fmt: skip
    refused(
        VALUE, ("hipMemPoolSetAttribute", pool, told, value),
        ("hipMemPoolSetAttribute", pool, attributes.hipMemPoolReuseAllowOpportunistic, each(0, 1, 4095)),
        ("hipMemPoolGetAttribute", pool, 99, value), ("hipMemPoolGetAttribute", None, 1, value),
        ("hipMemPoolGetAttribute", pool, 1, None), ("hipMemPoolGetAccess", pool, nowhere),
        ("hipMemPoolGetAccess", 12, here), ("hipMallocFromPoolAsync", 4, 12, None),
        ("hipPointerGetAttribute", value, each(P.HIP_POINTER_ATTRIBUTE_P2P_TOKENS, 99), memory),
        ("hipPointerGetAttribute", value, P.HIP_POINTER_ATTRIBUTE_CONTEXT, memory),
        ("hipPointerGetAttribute", None, P.HIP_POINTER_ATTRIBUTE_IS_MANAGED, memory),
        ("hipPointerGetAttribute", value, P.HIP_POINTER_ATTRIBUTE_IS_MANAGED, 123),
        ("hipPointerSetAttribute", value, P.HIP_POINTER_ATTRIBUTE_MAPPED, memory),
        ("hipPointerSetAttribute", None, P.HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory),
    )  # fmt: skip
    refused(TypeError, ("hipMemPoolTrimTo", "text", 0))


def test_managed_memory(refused, number):
    made = hip.hipMallocManaged(1 << 12)
    if made[0] == UNSUPPORTED:
        pytest.skip("the device has no managed memory")
    memory, device, value = ok(made), ints(1000), ctypes.c_int32(5)
    advice = hip.hipMemoryAdvise.hipMemAdviseSetReadMostly
    here = hip.hipMemLocation(hip.hipMemLocationType.hipMemLocationTypeDevice, number)
    nowhere, places = hip.hipMemLocation(), each(99, hip.hipInvalidDeviceId)
    read_mostly = hip.hipMemRangeAttribute.hipMemRangeAttributeReadMostly
    accessed = hip.hipMemRangeAttribute.hipMemRangeAttributeAccessedBy
    for wrong, count in ((None, 4), (device, 4), (memory, each(0, (1 << 12) + 1, -1)), (memory + 1, 1 << 12)):
        refused(
            VALUE, ("hipMemAdvise", wrong, count, advice, number), ("hipMemPrefetchAsync", wrong, count, number),
            ("hipMemRangeGetAttribute", value, 4, read_mostly, wrong, count),
        )  # fmt: skip
    assert value.value == 5
    refused(DEVICE, ("hipMemAdvise", memory, 4, advice, places), ("hipMemPrefetchAsync", memory, 4, places))
    refused(
        VALUE, ("hipMemAdvise", memory, 4, 77, number), ("hipMemAdvise_v2", memory, 4, advice, nowhere),
        ("hipMemPrefetchAsync_v2", memory, 4, nowhere), ("hipMemPrefetchAsync_v2", memory, 4, here, 1),
        ("hipMemRangeGetAttribute", value, 3, 1, memory, 4),
        ("hipMemRangeGetAttribute", value, 8, read_mostly, memory, 4),
        ("hipMemRangeGetAttribute", value, 0, accessed, memory, 4),
        ("hipMemRangeGetAttribute", value, 4, 77, memory, 4),
        ("hipStreamAttachMemAsync", None, each(device, memory + 4, None)),
        ("hipStreamAttachMemAsync", None, memory, 12), ("hipStreamAttachMemAsync", None, memory, 0, 9),
    )  # fmt: skip
    ok(hip.hipFree(memory))
    refused(VALUE, ("hipMemAdvise", memory, 4, advice, number))


@pytest.mark.needs("no memory that processes share")
def test_where_processes_share_nothing(refused):
    flags = hip.hipEventInterprocess | hip.hipEventDisableTiming
    refused(
        UNSUPPORTED, ("hipIpcGetMemHandle", ints()), ("hipIpcOpenMemHandle", bytes(64), 1),
        ("hipIpcOpenEventHandle", bytes(64)), ("hipEventCreateWithFlags", flags),
    )  # fmt: skip


# Modules, functions, launches


def test_modules(refused, module, function, tmp_path, device):
    stream, fill = ok(hip.hipStreamCreate()), function("fill")
    elf = each(b"\x7fELF\x02\x01", b"__CLANG_OFFLOAD_BUNDLE__")
    none = str(tmp_path / "none")
    refused(VALUE, ("hipModuleLoad", each(None, b"", "")), ("hipModuleLoadData hipLibraryLoadData", None))
    refused(E.hipErrorFileNotFound, ("hipModuleLoad hipLibraryLoadFromFile", none))
    refused(E.hipErrorNoBinaryForGpu, ("hipModuleLoadData hipLibraryLoadData", elf))
    spirv = "hipModuleLoadData", b"\x03\x02\x23\x07 no module"
    refused(E.hipErrorInvalidImage if Language.SPIRV in device.driver.languages else E.hipErrorNoBinaryForGpu, spirv)
    wrong = each(b"", b"\xff\xfe\x00", "kernel void wrong(int x) { no such thing; }")
    refused(E.hipErrorInvalidImage, ("hipModuleLoadData", wrong))
    refused(TypeError, ("hipModuleLoadData", 5), ("hipModuleUnload", "text"))
    refused(NOT_FOUND, ("hipModuleGetFunction", module, b"none"), ("hipModuleUnload", stream))
    refused(HANDLE, ("hipModuleGetFunction", None, b"fill"), ("hipModuleUnload", None))
    refused(VALUE, ("hipModuleGetFunction", module, each(None, b"", "")))
    ok(hip.hipModuleUnload(module))
    refused(NOT_FOUND, ("hipModuleUnload", module), ("hipModuleGetFunction", module, b"fill"))
    refused(VALUE, ("hipModuleLaunchKernel", fill, 1, 1, 1, 1, 1, 1, 0, None, None, (ints(), ctypes.c_int(1))))


def test_variables(refused, variables, function, graph):
    """Of modules, and as symbols."""
    module, data, fill = variables(), np.zeros(17, "u1"), function("fill")
    by, memory = variable(module, b"by"), ints(4)
    used = hip.Pointer(by)
    launch(fill, None, used, 1, groups=1, block=1)
    names = each(b"none", b"fixed", b"step", b"cou", b"count\0", b"\xff", "täble")
    refused(NOT_FOUND, ("hipModuleGetGlobal", module, names), ("hipModuleGetGlobal", 12345, b"count"))
    refused(HANDLE, ("hipModuleGetGlobal", None, b"count"))
    to, of = "hipMemcpyToSymbol hipMemcpyToSymbolAsync", "hipMemcpyFromSymbol hipMemcpyFromSymbolAsync"
    refused(
        VALUE,
        ("hipModuleGetGlobal", module, each(None, b"", "")),
        ("hipFree hipFreeAsync hipHostFree", by),
        ("hipMemcpyHtoD", by, data, 17),  # the next variable is right behind it
        ("hipMemcpyDtoH", data, by, 17),
        ("hipMemset", by, 0, 17),
        (to, by, None, 4, 0, DEFAULT),
        ("hipGraphAddMemcpyNodeToSymbol", graph, None, 0, by, data, each(0, 20), 0, UP),
        ("hipGraphAddMemcpyNodeToSymbol", None, None, 0, by, data, 4, 0, UP),
    )
    for size, offset in ((17, 0), (16, 1), (1, 16), (4, -1), (-1, 0)):
        refused(VALUE, (to, by, data, size, offset, DEFAULT), (of, data, by, size, offset, DEFAULT))
    wrong = each(None, 0, memory, by + 4, data, 12345)
    refused(
        SYMBOL, ("hipGetSymbolAddress hipGetSymbolSize", wrong), (to, wrong, data, 4, 0, UP),
        (of, data, wrong, 4, 0, DOWN), ("hipGraphAddMemcpyNodeToSymbol", graph, None, 0, memory, data, 4, 0, UP),
    )  # fmt: skip
    refused(
        DIRECTION, (to, by, data, 4, 0, each(DOWN, K.hipMemcpyHostToHost, 99)),
        (of, data, by, 4, 0, each(UP, K.hipMemcpyHostToHost, 99)),
        ("hipGraphAddMemcpyNodeToSymbol", graph, None, 0, by, data, 4, 0, DOWN),
    )  # fmt: skip
    ok(hip.hipMemcpyToSymbol(by, data, 0, 16, DEFAULT))
    ok(hip.hipModuleUnload(module))
    gone = each(by, by + 4, used, int(by))
    refused(NOT_FOUND, ("hipModuleGetGlobal", module, b"by"))
    refused(SYMBOL, (to, by, data, 4, 0, DEFAULT))
    refused(
        VALUE, ("hipMemcpyHtoD", gone, data, 4), ("hipMemcpyDtoH", data, gone, 4), ("hipMemcpyDtoD", gone, memory, 4),
        ("hipMemset", gone, 0, 4), ("hipMemGetAddressRange hipFree", gone),
        ("hipModuleLaunchKernel", fill, 1, 1, 1, 1, 1, 1, 0, None, None, (by, ctypes.c_int(1))),
        ("hipMemcpy", each(*gone[:3]), data, 4, DEFAULT),
    )  # fmt: skip


@pytest.mark.needs("SYCL", "a compiler of HIP C++")
def test_variables_whose_place_the_driver_does_not_report(refused):
    source = b'__constant__ int by = 2; extern "C" __global__ void step(int* out) { out[0] = by; }'
    module = ok(hip.hipModuleLoadData(compiled(source)))
    refused(UNSUPPORTED, ("hipModuleGetGlobal", module, b"by"))
    refused(NOT_FOUND, ("hipModuleGetGlobal", module, b"none"))


def test_libraries(refused, number):
    library = ok(hip.hipLibraryLoadData(SOURCE.encode(), None, 0, None, 0))[0]
    fill = ok(hip.hipLibraryGetKernel(library, b"fill"))
    refused(NOT_FOUND, ("hipLibraryGetKernel", library, b"none"))
    refused(
        VALUE, ("hipLibraryEnumerateKernels", -1, library), ("hipKernelGetParamInfo", fill, each(-1, 2)),
        ("hipKernelGetAttribute", 77, fill, number),
    )  # fmt: skip
    refused(DEVICE, ("hipKernelGetAttribute", 0, fill, 99), ("hipKernelSetAttribute", 8, 16, fill, 99))
    refused(
        HANDLE, ("hipKernelGetFunction hipKernelGetName hipKernelGetLibrary", each(None, 12345, library)),
        ("hipLibraryUnload", None),
    )  # fmt: skip
    ok(hip.hipLibraryUnload(library))
    gone = ("hipLibraryUnload hipLibraryGetKernelCount", library)
    refused(NOT_FOUND, gone, ("hipLibraryEnumerateKernels", 1, library))


def test_functions(refused, function, device):
    fill, most, wrong = function("fill"), limits(device.info).local_memory, each(None, 0, 12345)
    attributes = hip.hipFuncAttribute
    dynamic, shared = attributes.hipFuncAttributeMaxDynamicSharedMemorySize, attributes(9)
    groups = "hipOccupancyMaxActiveBlocksPerMultiprocessor hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags"
    of_modules = groups.replace("hipO", "hipModuleO")
    largest = (
        "hipOccupancyMaxPotentialBlockSize hipModuleOccupancyMaxPotentialBlockSize "
        "hipModuleOccupancyMaxPotentialBlockSizeWithFlags"
    )
    refused(
        FUNCTION, ("hipFuncGetAttributes", each(*wrong, ok(hip.hipStreamCreate()))),
        ("hipFuncSetAttribute", wrong, 8, 0), ("hipFuncSetCacheConfig hipFuncSetSharedMemConfig", wrong, 0),
        (groups, None, 1, 0), ("hipOccupancyAvailableDynamicSMemPerBlock", None, 1, 1),
    )  # fmt: skip
    refused(HANDLE, ("hipFuncGetAttribute", 0, None))
    refused(
        VALUE, ("hipFuncGetAttribute", each(99, F.HIP_FUNC_ATTRIBUTE_MAX), fill),
        ("hipFuncSetAttribute", fill, dynamic, each(most + 1, -1)), ("hipFuncSetAttribute", fill, shared, 101),
        ("hipFuncSetAttribute", fill, each(attributes.hipFuncAttributeClusterDimMustBeSet, 99), 1),
        ("hipFuncSetCacheConfig hipFuncSetSharedMemConfig", fill, 9), (largest, None, 0, 0),
        (largest, fill, each(1 << 40, -1), 0), (of_modules, None, 1, 0),
        (f"{groups} {of_modules}", fill, each(0, -1), 0), (f"{groups} {of_modules}", fill, 1, -1),
        (f"{groups.split()[1]} {of_modules.split()[1]}", fill, 1, 0, 2),
        ("hipOccupancyAvailableDynamicSMemPerBlock", fill, each(0, -1), 10),
        ("hipOccupancyAvailableDynamicSMemPerBlock", fill, 1, each(0, fill.kernel.max_block_size + 1)),
    )  # fmt: skip


def test_launches(refused, function, device):
    """Wrong dimensions, functions, streams, and arguments in `extra` and in `kernelParams`."""
    fill, memory, value, freed = function("fill"), ints(), ctypes.c_int(1), ok(hip.hipMalloc(1 << 16))
    ok(hip.hipFree(freed))
    given, pointer = (memory, value), ctypes.c_void_p(int(memory))
    here, there = ctypes.addressof(pointer), ctypes.addressof(value)

    def start(function, dimensions=(1, 1, 1, 1, 1, 1), shared=0, stream=None, params=None, extra=None):
        return hip.hipModuleLaunchKernel(function, *dimensions, shared, stream, params, extra)

    attribute = lambda name: ok(hip.hipDeviceGetAttribute(getattr(A, f"hipDeviceAttributeMax{name}"), 0))  # noqa: E731
    most = [attribute(f"BlockDim{axis}") for axis in "XYZ"]
    side = round(attribute("ThreadsPerBlock") ** (1 / 3)) + 2
    no_extent = [[int(i != k) for i in range(6)] for k in range(6)]
    too_large = [[1, 1, 1, *(most[k] + 1 if i == k else 1 for i in range(3))] for k in range(3)]
    dimensions = each(
        *no_extent, *too_large, [1, 1, 1, side, side, side], [-1, 1, 1, 1, 1, 1], [1 << 40, 1, 1, 1, 1, 1]
    )
    wrong_extra = each(
        None, (), (memory,), (*given, 1), (memory, "text"), (np.zeros(3), value), (12345, value), (freed, value),
        (ctypes.c_void_p * 5)(),
    )  # fmt: skip
    wrong_params = each(
        [memory, value], [int(memory), there], [pointer, value], [here, 1], [here, True], [here, None], [here, 1.5],
        [here, ctypes.c_short(1)], [here, "text"], [here], [here, there, there], [],
    )  # fmt: skip
    refused(
        VALUE, (start, fill, dimensions, 0, None, None, given), (start, fill, [1] * 6, 0, None, list(given), given),
        (start, fill, [1] * 6, 0, None, None, wrong_extra), (start, fill, [1] * 6, 0, None, wrong_params),
        (start, fill, [1] * 6, limits(device.info).local_memory + 1, None, None, given),
        (start, "text", [1] * 6, 0, None, None, given),
        ("hipLaunchKernel hipLaunchCooperativeKernel", fill, 1, 1, [here], 0, None),
        ("hipLaunchKernel", fill, 0, 1, [here, there], 0, None),
    )  # fmt: skip
    refused(
        HANDLE, (start, each(None, 12345), [1] * 6, 0, None, None, given),
        ("hipLaunchKernel", None, 1, 1, [here, there], 0, None),
        ("hipExtLaunchKernel", fill, 1, 1, [here, there], 0, None, 12345, None),
    )  # fmt: skip
    refused(FUNCTION, ("hipLaunchCooperativeKernel", None, 1, 1, [here, there], 0, None))
    packed, size = (ctypes.c_uint64 * 2)(int(memory), 5), ctypes.c_size_t(11)  # of 12 bytes
    words = (ctypes.c_void_p * 5)(1, ctypes.addressof(packed), 2, ctypes.addressof(size), 3)
    refused(VALUE, (start, fill, [1] * 6, 0, None, None, words))
    at_once, largest = fill.kernel.groups_at_once(1), fill.kernel.max_block_size
    cooperative = ("hipLaunchCooperativeKernel", fill)
    refused(
        E.hipErrorCooperativeLaunchTooLarge,
        (*cooperative, each(at_once + 1, hip.dim3(at_once, 2)), 1, [here, there], 0, None),
        ("hipModuleLaunchCooperativeKernel", fill, 1, 1, at_once + 1, 1, 1, 1, 0, None, [here, there]),
    )
    refused(
        E.hipErrorInvalidConfiguration, (*cooperative, 1, largest + 1, [here, there], 0, None),
        (*cooperative, 1, 1, [here, there], 1 << 40, None),
    )  # fmt: skip


@pytest.mark.needs("two devices")
def test_a_stream_of_another_device(refused, function, number):
    fill, memory = function("fill"), ints()
    ok(hip.hipSetDevice((number + 1) % ok(hip.hipGetDeviceCount())))
    stream = ok(hip.hipStreamCreate())
    ok(hip.hipSetDevice(number))
    refused(HANDLE, ("hipModuleLaunchKernel", fill, 1, 1, 1, 1, 1, 1, 0, stream, None, (memory, ctypes.c_int(1))))
    ok(hip.hipStreamDestroy(stream))


# Graphs


def test_graphs(refused, graph, function, tmp_path):
    node, empty = add(graph, function("add"), ints(), 1), ok(hip.hipGraphAddEmptyNode(graph, None, 0))
    executable, gone = instantiate(graph), ok(hip.hipGraphCreate(0))
    of_gone = ok(hip.hipGraphAddEmptyNode(gone, None, 0))
    ended = instantiate(gone)
    clone, other, out = ok(hip.hipGraphClone(graph)), ok(hip.hipGraphCreate(0)), hip.hipGraphNode()
    copied = ok(hip.hipGraphNodeFindInClone(node, clone))
    ok(hip.hipGraphDestroy(gone))
    ok(hip.hipGraphExecDestroy(ended))
    refused(
        VALUE, ("hipGraphCreate", 1),
        ("hipGraphDestroy hipGraphGetNodes hipGraphClone hipGraphInstantiate", each(gone, None)),
        ("hipGraphDebugDotPrint", gone, "nowhere", 0), ("hipGraphDebugDotPrint", graph, None, 0),
        ("hipGraphNodeGetType", each(of_gone, None)), ("hipGraphExecDestroy hipGraphExecGetFlags", each(ended, None)),
        ("hipGraphLaunch hipGraphUpload", each(ended, None), None), ("hipGraphInstantiateWithFlags", graph, 1 << 20),
        ("hipGraphExecUpdate", None, graph, out), ("hipGraphExecUpdate", executable, each(None, gone), out),
        ("hipGraphExecUpdate", executable, graph, None),
        ("hipGraphNodeFindInClone", node, each(other, graph, None, gone)),
        ("hipGraphNodeFindInClone", each(copied, None), clone),
    )  # fmt: skip
    refused(E.hipErrorOperatingSystem, ("hipGraphDebugDotPrint", graph, str(tmp_path), 0))
    refused(TypeError, ("hipGraphDestroy", "graph"), ("hipGraphExecUpdate", executable, graph, "here"))
    # Dependencies.
    one, two = (ok(hip.hipGraphAddEmptyNode(other, None, 0)) for _ in range(2))
    for wrong in (
        (None, [one], [two], 1), (other, None, None, 1), (other, [one], None, 1), (other, [one], [empty], 1),
        (other, [empty], [one], 1), (other, [one], [one], 1), (other, [one, one], [two, two], 2),
        (other, [one], [two], 2),
    ):  # fmt: skip
        refused(VALUE, ("hipGraphAddDependencies", *wrong))
    assert ok(hip.hipGraphGetEdges(other)) == ([], [], 0)
    ok(hip.hipGraphAddDependencies(other, [one, two], [two, one], 1))  # as many as are asked for
    assert ok(hip.hipGraphGetEdges(other)) == ([one], [two], 1)
    refused(
        VALUE, ("hipGraphAddDependencies", other, [one], [two], 1),
        ("hipGraphRemoveDependencies", other, [two], [one], 1),
        ("hipGraphRemoveDependencies", other, [one, one], [two, two], 2),
    )  # fmt: skip
    ok(hip.hipGraphAddDependencies(other, [two], [one], 1))
    refused(VALUE, ("hipGraphInstantiate", other, 0))  # a circle


KERNEL_CHANGES = (
    {"func": None}, {"extra": None}, {"extra": (5,)}, {"kernelParams": (ctypes.c_int(1), ctypes.c_int(2))},
    {"gridDim": 0}, {"blockDim": (1 << 20, 1 << 10)}, {"sharedMemBytes": 1 << 40},
)  # fmt: skip
MEMSET_CHANGES = (
    {"dst": None}, {"dst": 1 << 50}, {"elementSize": 0}, {"elementSize": 3}, {"width": 0}, {"width": N + 1},
    {"height": 0}, {"height": 2, "pitch": 4}, {"height": 2, "pitch": 4 * N},
)  # fmt: skip
COPY_CHANGES = (  # of (dst, src, count, kind), where `memory` and `host` are N ints
    lambda memory, host: (None, host, 4, UP), lambda memory, host: (memory, None, 4, UP),
    lambda memory, host: (memory, host, 0, UP), lambda memory, host: (memory, host, 4 * N + 1, UP),
    lambda memory, host: (host, memory, 4, UP), lambda memory, host: (memory, memory + 1, 4, ACROSS),
)  # fmt: skip


def changed(params, changes):
    made = params.copy()
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_nodes(refused, graph, function, events):
    """A node of each kind: to add it, to set it in the graph and in what is instantiated, and to ask for it."""
    memory, host, other = ints(), np.zeros(N, "i4"), ok(hip.hipGraphCreate(0))
    run, fill, call = kernel(function("fill"), memory, 1), memset(memory, 1, 2), hip.hipHostNodeParams(print)
    copy = (memory, memory + 8, 8, ACROSS)
    nodes = {name: ok(getattr(hip, f"hipGraphAdd{name}")(graph, None, 0, *given)) for name, given in {
        "KernelNode": [run], "MemsetNode": [fill], "HostNode": [call], "MemcpyNode1D": copy,
        "EventRecordNode": [events[0]], "EventWaitNode": [events[1]], "ChildGraphNode": [other], "EmptyNode": [],
    }.items()}  # fmt: skip
    executable, late = instantiate(graph), {}
    for name, given in (("Kernel", run), ("Memset", fill), ("Host", call), ("EventRecord", events[0])):
        late[name] = ok(getattr(hip, f"hipGraphAdd{name}Node")(graph, None, 0, given))
    stranger, gone = ok(hip.hipGraphAddEmptyNode(other, None, 0)), ok(hip.hipGraphCreate(0))
    ok(hip.hipGraphDestroy(gone))
    count, empty = ok(hip.hipGraphGetNodes(graph))[1], nodes["EmptyNode"]
    wrong_graphs, wrong_counts = each(None, gone, 12345), ((None, 1), ([stranger], 1), ([empty], 2), ([empty] * 2, 2))
    for name, given in {
        "KernelNode": [run], "MemsetNode": [fill], "HostNode": [call], "MemcpyNode1D": copy, "EmptyNode": [],
        "EventRecordNode": [events[0]], "EventWaitNode": [events[1]], "ChildGraphNode": [other],
        "MemAllocNode": [alloc_params()],
    }.items():  # fmt: skip
        adds = f"hipGraphAdd{name}"
        refused(VALUE, (adds, wrong_graphs, None, 0, *given))
        for dependencies, number in (*wrong_counts, ([None], 1), ([empty], -1)):
            refused(VALUE, (adds, graph, dependencies, number, *given))
        refused(TypeError, (adds, graph, [empty], "1", *given))
    taking = "hipGraphAddKernelNode hipGraphAddMemsetNode hipGraphAddHostNode"
    refused(
        VALUE,
        (f"{taking} hipGraphAddMemAllocNode", graph, None, 0, None),
        ("hipGraphAddHostNode", graph, None, 0, each(None, hip.hipHostNodeParams())),
    )
    refused(TypeError, (taking, graph, None, 0, 5))
    # What is wrong in the parameters.
    for changes in KERNEL_CHANGES:
        params = changed(run, changes)
        refused(
            VALUE, ("hipGraphAddKernelNode", graph, None, 0, params),
            ("hipGraphKernelNodeSetParams", nodes["KernelNode"], params),
            ("hipGraphExecKernelNodeSetParams", executable, nodes["KernelNode"], params),
        )  # fmt: skip
    refused(FUNCTION, ("hipGraphAddKernelNode", graph, None, 0, changed(run, {"func": 12345})))
    for changes in MEMSET_CHANGES:
        params = changed(memset(memory, 1), changes)
        refused(
            VALUE, ("hipGraphAddMemsetNode", graph, None, 0, params),
            ("hipGraphMemsetNodeSetParams", nodes["MemsetNode"], params),
            ("hipGraphExecMemsetNodeSetParams", executable, nodes["MemsetNode"], params),
        )  # fmt: skip
    for change in COPY_CHANGES:
        given = change(memory, host)
        refused(
            VALUE, ("hipGraphAddMemcpyNode1D", graph, None, 0, *given),
            ("hipGraphMemcpyNodeSetParams1D", nodes["MemcpyNode1D"], *given),
            ("hipGraphExecMemcpyNodeSetParams1D", executable, nodes["MemcpyNode1D"], *given),
        )  # fmt: skip
    refused(
        DIRECTION, ("hipGraphAddMemcpyNode1D", graph, None, 0, memory, host, 4, 77),
        ("hipGraphMemcpyNodeSetParams1D", nodes["MemcpyNode1D"], memory, host, 4, 77),
        ("hipGraphExecMemcpyNodeSetParams1D", executable, nodes["MemcpyNode1D"], memory, host, 4, 77),
    )  # fmt: skip
    # Nodes of another kind, none, and those that are not in what is instantiated.
    others = each(None, empty)
    for name, params in (("Kernel", run), ("Memset", fill), ("Host", call)):
        node = nodes[f"{name}Node"]
        refused(
            VALUE, (f"hipGraph{name}NodeSetParams", others, params), (f"hipGraph{name}NodeSetParams", node, None),
            (f"hipGraph{name}NodeGetParams", others), (f"hipGraphExec{name}NodeSetParams", None, node, params),
            (f"hipGraphExec{name}NodeSetParams", executable, each(*others, late[name]), params),
            (f"hipGraphExec{name}NodeSetParams", executable, node, None),
        )  # fmt: skip
    record, wait, rows = nodes["EventRecordNode"], nodes["EventWaitNode"], memset(memory, 1, 1, 4, 2, 8)
    destroyed = ok(hip.hipEventCreate())
    ok(hip.hipEventDestroy(destroyed))
    wrong = each(None, 0, 123, destroyed, ok(hip.hipStreamCreate()))
    child = nodes["ChildGraphNode"]
    refused(
        VALUE, ("hipGraphAddEventRecordNode hipGraphAddEventWaitNode", graph, None, 0, wrong),
        ("hipGraphEventRecordNodeSetEvent", record, wrong), ("hipGraphEventRecordNodeGetEvent", each(*others, wait)),
        ("hipGraphEventRecordNodeSetEvent", each(*others, wait), events[0]),
        ("hipGraphEventWaitNodeGetEvent", each(*others, record)),
        ("hipGraphExecEventRecordNodeSetEvent", executable, each(empty, wait, late["EventRecord"]), events[0]),
        ("hipGraphExecEventWaitNodeSetEvent", executable, record, events[0]),
        ("hipGraphExecEventRecordNodeSetEvent", instantiate(other), record, events[0]),
        ("hipGraphAddDependencies", graph, [record], [record], 1),
        ("hipGraphExecMemsetNodeSetParams", executable, nodes["MemsetNode"], rows),
        ("hipGraphHostNodeSetParams", nodes["HostNode"], hip.hipHostNodeParams()),
        ("hipGraphExecHostNodeSetParams", executable, nodes["HostNode"], hip.hipHostNodeParams()),
        ("hipGraphMemcpyNodeSetParams1D", each(None, nodes["MemsetNode"]), *copy),
        ("hipGraphMemcpyNodeGetParams", each(None, nodes["MemsetNode"])),
        ("hipGraphMemcpyNodeSetParams", nodes["MemcpyNode1D"], None),
        ("hipGraphExecMemcpyNodeSetParams1D", None, nodes["MemcpyNode1D"], *copy),
        ("hipGraphExecMemcpyNodeSetParams1D", executable, each(None, nodes["MemsetNode"]), *copy),
        ("hipGraphExecMemcpyNodeSetParams", executable, nodes["MemcpyNode1D"], None),
        ("hipGraphAddChildGraphNode", graph, None, 0, None),
        ("hipGraphExecChildGraphNodeSetParams", None, child, other),
        ("hipGraphExecChildGraphNodeSetParams", executable, each(None, empty), other),
        ("hipGraphExecChildGraphNodeSetParams", executable, child, each(None, graph)),
        ("hipGraphChildGraphNodeGetGraph", empty),
    )  # fmt: skip
    refused(TypeError, ("hipGraphMemcpyNodeSetParams", nodes["MemcpyNode1D"], fill))
    assert ok(hip.hipGraphGetNodes(graph))[1] == count
    assert ok(hip.hipGraphMemsetNodeGetParams(nodes["MemsetNode"])).value == 1


def test_copies_of_rows_in_nodes(refused, graph):
    memory, host, small = ints(), np.zeros(N, "i4"), ints(1)
    ends = {"srcPtr": hip.hipPitchedPtr(host, 8, 8, 2), "dstPtr": hip.hipPitchedPtr(memory, 8, 8, 2)}
    extent = hip.hipExtent
    for more, expected in (
        ({"extent": extent(8, 1, 0)}, VALUE), ({"extent": extent(9, 2, 1)}, PITCH),
        ({"extent": extent(8, 3, 2)}, VALUE), ({"extent": extent(8, N, 1)}, VALUE),
        ({"extent": extent(4 * N, 1, 1), "srcPos": hip.hipPos(4)}, VALUE),
        ({"extent": extent(4 * N, 1, 1), "dstPos": hip.hipPos(4)}, VALUE),
        ({"extent": extent(8, 1, 1), "srcArray": 5}, VALUE),
        ({"extent": extent(8, 1, 1), "srcPtr": hip.hipPitchedPtr()}, VALUE),
    ):  # fmt: skip
        refused(expected, ("hipGraphAddMemcpyNode", graph, None, 0, hip.hipMemcpy3DParms(**{**ends, **more})))
    node = ok(hip.hipGraphAddMemcpyNode1D(graph, None, 0, memory, host, 16, DEFAULT))
    executable = instantiate(graph)
    many = hip.hipMemcpy3DParms(**ends, extent=extent(4, 2, 1), kind=DEFAULT)
    refused(
        VALUE, ("hipGraphExecMemcpyNodeSetParams1D", executable, node, small, host, 16, DEFAULT),
        ("hipGraphExecMemcpyNodeSetParams1D", executable, node, host, memory, 16, DEFAULT),  # the other way
        ("hipGraphExecMemcpyNodeSetParams", executable, node, many),
    )  # fmt: skip
    ok(hip.hipGraphMemcpyNodeSetParams(node, many))
    refused(VALUE, ("hipGraphExecMemcpyNodeSetParams1D", instantiate(graph), node, memory, host, 16, DEFAULT))


def test_memory_in_graphs(refused, graph, device):
    number, there = hip.devices.number_of(device), len(hip.devices.infos())
    given, elsewhere, host = alloc_params(), ok(hip.hipMalloc(4 * N)), np.zeros(4)
    node = ok(hip.hipGraphAddMemAllocNode(graph, None, 0, given))
    pointer, at = given.dptr, ctypes.c_void_p()
    kinds, places = hip.hipMemAllocationType, hip.hipMemLocationType
    for change, expected in (
        (lambda p: setattr(p.poolProps, "allocType", kinds.hipMemAllocationTypeInvalid), VALUE),
        (lambda p: setattr(p.poolProps.location, "type", places.hipMemLocationTypeInvalid), VALUE),
        (lambda p: setattr(p.poolProps.location, "id", there), VALUE),
        (lambda p: setattr(p.poolProps.location, "id", -1), VALUE),
        (lambda p: setattr(p, "accessDescCount", there + 1), VALUE),
        (lambda p: setattr(p, "bytesize", 0), VALUE),
        (lambda p: setattr(p, "bytesize", (1 << 64) - 1), MEMORY),
        *[(lambda p: setattr(p.poolProps.location, "id", not number), UNSUPPORTED)] * (there > 1),
    ):
        wrong = alloc_params()
        change(wrong)
        refused(expected, ("hipGraphAddMemAllocNode", graph, None, 0, wrong))
        assert wrong.dptr is None
    refused(TypeError, ("hipGraphAddMemAllocNode", graph, None, 0, hip.hipMemsetParams()))
    refused(
        VALUE, ("hipGraphAddMemFreeNode", None, [node], 1, pointer),
        ("hipGraphAddMemFreeNode", graph, None, 5, pointer), ("hipGraphAddMemFreeNode", graph, [node], 2, pointer),
        ("hipGraphAddMemFreeNode", graph, [node], 1, each(None, host, pointer + 4, elsewhere)),
    )  # fmt: skip
    free = ok(hip.hipDrvGraphAddMemFreeNode(graph, [node], 1, pointer))
    refused(
        VALUE, ("hipGraphAddMemFreeNode", each(graph, ok(hip.hipGraphCreate(0))), None, 0, pointer),
        ("hipGraphMemAllocNodeGetParams", each(None, free)),
        ("hipGraphMemFreeNodeGetParams", each(None, node), ctypes.byref(at)),
        ("hipGraphMemFreeNodeGetParams", free, None),
    )  # fmt: skip
    assert ok(hip.hipGraphGetNodes(graph))[1] == 2
    refused(UNSUPPORTED, ("hipGraphAddChildGraphNode", ok(hip.hipGraphCreate(0)), None, 0, graph))


# Arrays, textures, surfaces

FLOATS = hip.hipChannelFormatDesc(32, 0, 0, 0, hip.hipChannelFormatKind.hipChannelFormatKindFloat)
LAYERED, CUBEMAP, GATHER = hip.hipArrayLayered, hip.hipArrayCubemap, hip.hipArrayTextureGather
SIGNED, UNSIGNED, FLOAT, NO_KIND = hip.hipChannelFormatKind
NO_ARRAYS = (  # description, width, height, depth, flags
    (FLOATS, 0, 4, 0, 0), (FLOATS, 4, 0, 4, 0), (FLOATS, 4, 4, 0, LAYERED), (FLOATS, (1 << 17) + 1, 0, 0, 0),
    (FLOATS, 4, (1 << 16) + 1, 0, 0), (FLOATS, 4, 4, (1 << 14) + 1, 0), (FLOATS, 4, 4, 2049, LAYERED),
    (FLOATS, 4, 4, 5, CUBEMAP), (FLOATS, 4, 5, 6, CUBEMAP), (FLOATS, 4, 4, 12, CUBEMAP), (FLOATS, 4, 0, 0, GATHER),
    (FLOATS, 4, 4, 4, GATHER), (FLOATS, 4, 4, 0, 64), (None, 4, 4, 0, 0), (FLOATS, -4, 4, 0, 0),
    *((hip.hipChannelFormatDesc(*bits), 4, 4, 0, 0) for bits in (
        (8, 8, 8, 0, UNSIGNED), (8, 16, 0, 0, UNSIGNED), (8, 0, 8, 0, UNSIGNED), (8, 0, 0, 0, FLOAT),
        (10, 10, 10, 10, SIGNED), (64, 0, 0, 0, SIGNED), (-8, 0, 0, 0, SIGNED), (8, 0, 0, 0, NO_KIND),
    )),
)  # fmt: skip


@pytest.mark.needs("a compiler of HIP C++")
def test_arrays(refused):
    for desc, width, height, depth, flags in NO_ARRAYS:
        refused(VALUE, ("hipMalloc3DArray", desc, hip.hipExtent(width, height, depth), flags))
        if not depth:
            refused(VALUE, ("hipMallocArray", desc, width, height, flags))
    descriptor, formats = hip.HIP_ARRAY_DESCRIPTOR, hip.hipArray_Format
    wrong = each(*(descriptor(4, 4, *of) for of in ((0, 4), (formats.HIP_AD_FORMAT_FLOAT, 3), (32, 0))))
    wide = ok(hip.hipMallocArray(hip.hipChannelFormatDesc(32, 32, 32, 32, FLOAT), 10, 6))
    array, gone = ok(hip.hipMallocArray(FLOATS, 10, 6)), ok(hip.hipMallocArray(FLOATS, 10, 6))
    ok(hip.hipFreeArray(gone))
    refused(VALUE, ("hipArrayCreate", wrong), ("hipFreeArray hipArrayDestroy", None), ("hipFree", array))
    refused(MEMORY, ("hipMalloc3DArray", FLOATS, hip.hipExtent(1 << 14, 1 << 14, 1 << 14), 0))
    refused(
        TypeError, ("hipMallocArray", (32, 0, 0, 0), 4, 4), ("hipMalloc3DArray", FLOATS, (4, 4, 4)),
        ("hipFreeArray", "array"),
    )  # fmt: skip
    refused(GONE, ("hipFreeArray hipArrayDestroy", gone))
    asking = "hipArrayGetInfo hipArrayGetDescriptor hipArray3DGetDescriptor hipGetChannelDesc"
    refused(HANDLE, (asking, each(gone, None)))
    rows = np.zeros((3, 12), "i4")
    for x, y, width, height in (
        (8, 0, 40, 3), (0, 4, 40, 3), (0, 0, 44, 3), (0, 0, 40, 7), (-4, 0, 40, 3), (0, 0, 40, 4),
    ):  # fmt: skip
        refused(
            VALUE, ("hipMemcpy2DToArray", array, x, y, rows, 48, width, height, UP),
            ("hipMemcpy2DFromArray", rows, 48, array, x, y, width, height, DOWN),
        )  # fmt: skip
    two_sizes = hip.hipMemcpy3DParms(dstArray=wide, srcArray=array, extent=hip.hipExtent(2, 2, 1), kind=ACROSS)
    refused(VALUE, ("hipMemcpy3D", two_sizes))
    refused(HANDLE, ("hipMemcpy2DToArray", None, 0, 0, rows, 48, 40, 3, UP))
    refused(PITCH, ("hipMemcpy2DToArray", array, 0, 0, rows, 36, 40, 3, UP))
    refused(DIRECTION, ("hipMemcpy2DToArray", array, 0, 0, rows, 48, 40, 3, -1))
    refused(
        VALUE, ("hipMemcpy2DToArray", array, 0, 0, None, 48, 40, 3, UP),
        ("hipMemcpy2DToArray", array, 0, 0, rows, 48, 40, 3, ACROSS), ("hipMemcpyToArray", array, 36, 5, rows, 8, UP),
        ("hipMemcpyHtoA", array, 236, rows, 8),
    )  # fmt: skip
    refused(GONE, ("hipMemcpyAtoH", rows, gone, 0, 4))
    ok(hip.hipMemcpy2DToArray(array, 0, 0, rows, 48, 0, 0, UP))


@pytest.mark.needs("a compiler of HIP C++")
def test_texture_objects(refused):
    from .textures.conftest import array_like, linear, pitched, resource_of, surface_of, texture_of

    array, memory, how = array_like(np.zeros((1, 1, 64, 1), "i4")), ints(64), hip.hipTextureDesc()
    freed, texture, destroyed = array_like(np.zeros((1, 1, 8, 1), "i4")), texture_of(array), texture_of(array)
    ok(hip.hipFreeArray(freed))
    ok(hip.hipDestroyTextureObject(destroyed))
    types, views, host = hip.hipResourceType, hip.hipResourceViewFormat, np.zeros(64, "i4")
    resources = each(
        linear(None, 256), linear(memory, 0), linear(memory, 257), linear(memory, (1 << 64) - 1), linear(memory + 1, 4),
        linear(memory + 4, 8, "f4", 2), linear(host, 256), linear(memory, 3), pitched(None, 4, 4, 16),
        pitched(memory, 4, 4, 12), pitched(memory, 4, 4, 18), pitched(memory, 4, 17, 16), pitched(memory, 0, 4, 16),
        pitched(memory, 4, 0, 16), hip.hipResourceDesc(9), None,
        hip.hipResourceDesc(types.hipResourceTypeMipmappedArray),
    )  # fmt: skip
    textures = each(None, *(hip.hipTextureDesc(**wrong) for wrong in (
        {"addressMode": [0, 0, 7]}, {"addressMode": [0]}, {"filterMode": 2}, {"readMode": 5}, {"filterMode": 1},
        {"borderColor": ["a"] * 4},
    )))  # fmt: skip
    mipmapped = hip.hipResourceDesc(types.hipResourceTypeMipmappedArray)
    mipmapped.res.mipmap.mipmap = 4
    of_memory = resource_of(array)
    of_memory.resType = types.hipResourceTypeLinear
    surface = surface_of(array)
    asking = "hipGetTextureObjectResourceDesc hipGetTextureObjectTextureDesc hipTexObjectGetTextureDesc"
    refused(
        VALUE, ("hipCreateTextureObject", resources, how, None),
        ("hipCreateTextureObject", resource_of(array), textures, None),
        ("hipCreateTextureObject", resource_of(array), how, hip.hipResourceViewDesc(views.hipResViewFormatFloat2)),
        ("hipCreateTextureObject", linear(memory, 256), how, hip.hipResourceViewDesc(views.hipResViewFormatFloat1)),
        ("hipDestroyTextureObject", each(destroyed, int(destroyed), surface)), (asking, each(destroyed, None)),
        ("hipGetTextureObjectResourceViewDesc", texture), ("hipFree", each(texture, surface)),
        ("hipCreateSurfaceObject", each(None, of_memory)), ("hipDestroySurfaceObject", each(texture, None, 17)),
    )  # fmt: skip
    refused(
        HANDLE, ("hipCreateTextureObject", resource_of(None), how, None), ("hipCreateSurfaceObject", resource_of(None))
    )
    refused(
        UNSUPPORTED, ("hipCreateTextureObject", resource_of(array), hip.hipTextureDesc(sRGB=1), None),
        ("hipCreateTextureObject", mipmapped, how, None),
    )  # fmt: skip
    refused(
        GONE, ("hipCreateTextureObject", resource_of(freed), how, None), ("hipCreateSurfaceObject", resource_of(freed))
    )
    refused(
        TypeError, ("hipCreateTextureObject", each(array, {}), how, None), ("hipDestroyTextureObject", "texture"),
        ("hipCreateTextureObject", resource_of(array), {}, None), ("hipCreateSurfaceObject", array),
    )  # fmt: skip
    ok(hip.hipDestroySurfaceObject(surface))
    refused(VALUE, ("hipDestroySurfaceObject", surface))
    ok(hip.hipDestroyTextureObject(ok(hip.hipCreateTextureObject(pitched(memory, 4, 16, 16), how, None))))
    for none in (None, 0):
        ok(hip.hipDestroyTextureObject(none))


@pytest.mark.needs("a compiler of HIP C++")
def test_texture_references(refused, device):
    from .textures.conftest import array_like

    if device.info.backend == "sycl":
        pytest.skip("the driver does not report where variables are")
    source = b"""texture<float, 2, hipReadModeElementType> plain; __device__ int count;
        extern "C" __global__ void k(float* out) { out[0] = tex2D(plain, 0, 0) + count; }"""
    module, array = ok(hip.hipModuleLoadData(compiled(source))), array_like(np.ones((1, 4, 8, 1), "f4"))
    texture = ok(hip.hipModuleGetTexRef(module, b"plain"))
    refused(NOT_FOUND, ("hipModuleGetTexRef", module, each(b"count", b"nothing")))
    refused(HANDLE, ("hipModuleGetTexRef", None, b"plain"), ("hipTexRefSetArray", texture, None, 1))
    refused(E.hipErrorInvalidTexture, ("hipGetTextureReference", None))
    refused(
        VALUE, ("hipTexRefSetAddressMode", texture, 3, 0), ("hipTexRefSetAddressMode", texture, 0, 9),
        ("hipTexRefSetFilterMode", texture, 9), ("hipTexRefSetFormat", texture, 7, 1),
        ("hipTexRefSetArray", texture, array, 2), ("hipTexRefSetArray", None, array, 1),
        ("hipBindTexture", texture, None, FLOATS), ("hipUnbindTexture", 17), ("hipTexRefGetArray", texture),
    )  # fmt: skip


# Functions whose null stream is the thread's own


def test_per_thread(refused):
    refused(VALUE, ("hipMemcpy_spt", None, None, 4, DEFAULT), ("hipMemsetAsync_spt", ints(1), 0, 400, None))
    refused(SYMBOL, ("hipMemcpyToSymbol_spt", 0, np.zeros(1), 8), ("hipMemcpyFromSymbol_spt", np.zeros(1), 0, 8))
    refused(TypeError, ("hipMemcpy_spt", 1, 2))


def test_without_a_device():
    with hip_without_devices():
        for name, *given in (
            ("hipGetDeviceCount",), ("hipGetDevice",), ("hipInit", 0), ("hipDeviceSynchronize",), ("hipStreamCreate",),
            ("hipMalloc", 10), ("hipSetDevice", 0), ("hipGetDeviceProperties", 0), ("hipModuleLoadData", SOURCE),
        ):  # fmt: skip
            assert code(getattr(hip, name)(*given)) == E.hipErrorNoDevice
            assert "no device matches 'custom:99' (from the environment variable FOREBAY_DEVICE)" in said()
        program = ok(hiprtc.hiprtcCreateProgram(b'extern "C" __global__ void f(int* x) { }', b"f", 0, [], []))
        assert hiprtc.hiprtcCompileProgram(program, 0, []) == (hiprtc.hiprtcResult.HIPRTC_ERROR_COMPILATION,)
        log = bytearray(ok(hiprtc.hiprtcGetProgramLogSize(program)))
        ok(hiprtc.hiprtcGetProgramLog(program, log))
        assert b"(from the environment variable FOREBAY_DEVICE)" in log


def said():
    return str(hip.last_exception())
