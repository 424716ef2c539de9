"""Devices by number, and each thread's current one; what they are like, their limits, their peers and their contexts.

The devices are those of the driver that has the default device, in forebay's order; FOREBAY_DEVICE restricts them to
what it names, as HIP_VISIBLE_DEVICES does for HIP. Each is opened when it is first used.
"""

from __future__ import annotations

import copy
import operator
import os
import threading
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from forebay.c_string import CString
from forebay.compiler.clang import WARP
from forebay.core.driver import DeviceInfo, Language
from forebay.core.errors import ArgumentTypeError
from forebay.core.process import refuse_on_host_thread
from forebay.hip import facts
from forebay.hip.compiled.calls import forget_own, set_null_queue
from forebay.hip.errors import (
    HipError,
    HipFunction,
    alias,
    api,
    asserting,
    check_assertions,
    enumerator,
    invalid,
    raised_as,
    size_of,
)
from forebay.hip.facts import (
    FACTS,
    HIP_VERSION,
    hipDeviceAttribute_t,
    hipDeviceP2PAttr,
    hipDeviceProp_t,
    hipError_t,
    hipFuncCache_t,
    hipLimit_t,
    hipSharedMemConfig,
    hipUUID_t,
)
from forebay.hip.pointers import Number, handle_number
from forebay.hiprtc.front_end import compile_for
from forebay.queues import selection
from forebay.queues.device import Device

_lock = threading.RLock()
_infos: list[DeviceInfo] | None = None
_devices: dict[int, Device] = {}
Forget = TypeVar("Forget", bound=Callable[[int], object])
Thing = TypeVar("Thing")
_on_reset: list[Callable[[int], object]] = []


class _Current(threading.local):
    """The number of this thread's current device, and those of the devices whose contexts the thread has pushed."""

    def __init__(self) -> None:
        self.number = 0
        self.pushed: list[int] = []


_current = _Current()
_only_first = True  # no thread has ever chosen another device than the first


def on_reset(forget: Forget) -> Forget:
    """Have this called with the number of each device that is reset."""
    _on_reset.append(forget)
    return forget


class Handles(dict[int, Thing]):
    """Objects by their numbers. Those whose `device` has the number of one that is reset are taken out, and ended.

    `what` is what one is called, and `code` for a number that no object has; `end` releases what an object uses,
    although a program may keep it.
    """

    def __init__(self, what: str, code: hipError_t, end: Callable[[Any], object] = lambda thing: None) -> None:
        super().__init__()
        self._what, self._code, self._end = what, code, end
        on_reset(self._forget)

    def _forget(self, number: int) -> None:
        for address, thing in list(self.items()):
            if thing.device == number:  # type: ignore[attr-defined]
                self.pop(address, None)
                self._end(thing)

    def find(self, thing: Any, code: hipError_t | None = None) -> Thing:
        """Return the object of this handle or number, or raise its code, or another one."""
        number = handle_number(thing, self._what)
        found = self.get(number)
        if found is None:
            raise HipError(code or self._code, f"{self._what}: {number:#x} is none, or was destroyed")
        return found


def infos() -> list[DeviceInfo]:
    """Return the devices there are, by number. Raises `DeviceNotFoundError`, which says why there is none."""
    global _infos
    with _lock:
        if _infos is None:
            default = selection.select()
            _, kind, index = selection.parse(os.environ.get(selection.VARIABLE, ""))
            same = [d for d in selection.DRIVERS[default.backend].discover() if d.usable and kind in (None, d.kind)]
            _infos = [default] if index is not None else sorted(same, key=lambda device: device != default)
        return _infos


def device_number(device: Any) -> int:
    """Check the number of a device.

    hipErrorInvalidDevice when no device has this number.
    """
    try:
        number = operator.index(device)
    except TypeError:
        raise ArgumentTypeError(f"a device is an int, not {type(device).__name__}") from None
    if not 0 <= number < len(infos()):
        raise HipError(hipError_t.hipErrorInvalidDevice, f"device {number}: there are {len(infos())}")
    return number


def device_of(number: int) -> Device:
    """Return the Device of this number, opened when it is not yet."""
    device = _devices.get(number)
    if device is None or device.closed:
        with _lock:
            device = _devices.get(number)
            if device is None or device.closed:
                device = Device(infos()[number].name, timing=True)
                _devices[number] = device
                _note_null_queue()
    return device


def number_of(device: Device) -> int:
    """Return the number of a Device; that of its name when it was opened otherwise than here."""
    for number, known in list(_devices.items()):
        if known is device:
            return number
    return next((number for number, info in enumerate(infos()) if info.name == device.name), -1)


def current_number() -> int:
    """Return the number of this thread's current device."""
    return _current.number


def current_device() -> Device:
    """Return the `forebay.Device` that is this thread's current one. Not part of HIP.

    Raises
    ------
    DeviceNotFoundError
        When no device can be used; its message says why.
    """
    return device_of(_current.number)


compile_for(current_device)


def _note_null_queue() -> None:
    """Spare launches on stream 0 the look-up, as long as it is the same queue for all threads."""
    first = _devices.get(0)
    set_null_queue(first.null_queue if _only_first and first is not None and not first.closed else None)


def set_current(number: int) -> None:
    """Make the device of this number the thread's current one."""
    global _only_first
    if number != _current.number:
        _current.number = number
        forget_own()
    if number and _only_first:
        _only_first = False
        _note_null_queue()


def check_schedule(flags: Any) -> None:
    """Raise for flags that HIP does not have, or that do not go together; hipErrorInvalidValue."""
    if operator.index(flags) & ~0x1F or bin(flags & 7).count("1") > 1:
        raise invalid(f"a device has no flags {flags!r}")


def is_open(number: int) -> bool:
    """Whether the device of this number was used, and not reset since."""
    device = _devices.get(number)
    return device is not None and not device.closed


def reset(number: int) -> None:
    """Close the device of this number, and forget what was made on it. Blocks."""
    refuse_on_host_thread("hipDeviceReset()")
    with _lock:
        device = _devices.pop(number, None)
        _note_null_queue()
    if device is not None:
        try:
            device.close()
        finally:
            for forget in _on_reset:
                forget(number)


@api()
def hipInit(flags: int) -> None:
    """Do nothing but check; ``(hipError_t,)``: hipErrorInvalidValue for flags, hipErrorNoDevice without a device."""
    if flags:
        raise invalid(f"hipInit: flags have to be 0, not {flags}")
    infos()


@api(outputs=1)
def hipGetDeviceCount() -> int:
    """Return ``(hipError_t, count)``; hipErrorNoDevice when no device can be used."""
    return len(infos())


@api()
def hipSetDevice(deviceId: int) -> None:
    """Make it this thread's current device; ``(hipError_t,)``: hipErrorInvalidDevice when no device has this number."""
    set_current(device_number(deviceId))


@api(outputs=1)
def hipGetDevice() -> int:
    """Return ``(hipError_t, number)`` of this thread's current device; hipErrorNoDevice when no device can be used."""
    infos()
    return _current.number


@api(outputs=1)
def hipDeviceGet(ordinal: int) -> int:
    """Return ``(hipError_t, number)``: the number itself, once it is checked."""
    return device_number(ordinal)


@api()
def hipSetDeviceFlags(flags: int) -> None:
    """Accept scheduling flags, which forebay has no use for; ``(hipError_t,)``: hipErrorInvalidValue for others."""
    check_schedule(flags)


@api(outputs=1)
def hipGetDeviceFlags() -> int:
    """Return ``(hipError_t, 0)``: hipDeviceScheduleAuto."""
    return 0


@api()
def hipDeviceSynchronize() -> None:
    """Block until everything submitted to the current device is done; ``(hipError_t,)``.

    Raises what a callback has raised since the last synchronize. hipErrorAssert when an assertion in a kernel failed.
    """
    device = current_device()
    device.finish()
    if asserting:
        check_assertions(device)


@api()
def hipDeviceReset() -> None:
    """Finish the current device, and destroy its streams, events, memory and modules; ``(hipError_t,)``. Blocks.

    hipErrorNotSupported in a callback, which changes nothing.
    """
    reset(_current.number)


@api(outputs=2)
def hipDeviceGetStreamPriorityRange() -> tuple[int, int]:
    """Return ``(hipError_t, least, greatest)``; the greatest has the lowest number."""
    priorities = current_device().driver.priorities
    return max(priorities), min(priorities)


@api(outputs=1)
def hipDeviceGetName(len: int, device: int) -> bytes:
    """Return ``(hipError_t, name)``, at most `len` - 1 bytes of it; hipErrorInvalidValue for a length below 1."""
    number = device_number(device)
    if len < 1:
        raise invalid(f"hipDeviceGetName: a length of {len}")
    return CString(infos()[number].description.encode()[: len - 1])


@api(outputs=1)
def hipDeviceTotalMem(device: int) -> int:
    """Return ``(hipError_t, bytes)`` of the device's memory."""
    return infos()[device_number(device)].memory


@api(outputs=1)
def hipRuntimeGetVersion() -> int:
    """Return ``(hipError_t, version)`` of HIP's interface that is followed here."""
    return HIP_VERSION


hipDriverGetVersion: HipFunction = alias(hipRuntimeGetVersion, "hipDriverGetVersion")


# -- what a device is like


NUMBERS = [name for name, value in hipDeviceProp_t._members.items() if value == 0]
# Sizes are in elements. Nothing in the kernels' headers needs a limit but that indices are ints.
TEXTURES: dict[str, Any] = FACTS["properties of textures"]
MOST_1D: int = TEXTURES["maxTexture1D"]
MOST_LINEAR: int = TEXTURES["maxTexture1DLinear"]
MOST_LAYERS: int = TEXTURES["maxTexture1DLayered"][1]
MOST_2D, MOST_3D = tuple(TEXTURES["maxTexture2D"]), tuple(TEXTURES["maxTexture3D"])


def properties_of(number: int) -> hipDeviceProp_t:
    """Find out what the device of this number is like."""
    info, driver = infos()[number], device_of(number).driver
    limits = driver.limits
    given = copy.deepcopy(TEXTURES) if has_textures(device_of(number)) else {}
    given |= FACTS["properties of all devices"]
    given |= {member: int(getattr(limits, limit)) for member, limit in FACTS["properties by limits"].items()}
    properties = hipDeviceProp_t(**given)
    properties.name = CString(info.description.encode())
    properties.gcnArchName = CString(info.name.encode())
    # No driver is asked for one: the same whenever this machine is looked at, and another for each device.
    properties.uuid.bytes = uuid.uuid5(uuid.NAMESPACE_OID, f"{info.platform} {info.name}").bytes
    properties.totalGlobalMem = info.memory
    properties.multiProcessorCount = info.compute_units
    properties.major, properties.minor = facts.HIP_VERSION_MAJOR, facts.HIP_VERSION_MINOR
    properties.maxThreadsPerMultiProcessor = max(limits.unit_items, limits.group_items)
    properties.maxThreadsDim, properties.maxGridSize = list(limits.group_size), list(limits.group_count)
    properties.memPitch = min(limits.allocation, 0x7FFFFFFF)
    properties.warpSize = WARP
    properties.unifiedAddressing = int(driver.has_addresses)
    properties.maxBlocksPerMultiProcessor = max(limits.unit_groups, 1)
    properties.streamPrioritiesSupported = int(len(driver.priorities) > 1)
    return properties


def has_textures(device: Any) -> bool:
    """Whether kernels can read textures, which takes HIP C++ and addresses: they are read in software."""
    driver = device.driver
    return bool(driver.has_addresses and {Language.SPIRV, Language.CUBIN} & set(driver.languages))


@api(outputs=1)
def hipGetDeviceProperties(deviceId: int) -> hipDeviceProp_t:
    """Return ``(hipError_t, hipDeviceProp_t)`` of a device. ``gcnArchName``, a `CString`: its name here."""
    return properties_of(device_number(deviceId))


@api(outputs=2)
def hipDeviceComputeCapability(device: int) -> tuple[int, int]:
    """Return ``(hipError_t, major, minor)``: the version of HIP, because no device here has one of its own."""
    device_number(device)
    return facts.HIP_VERSION_MAJOR, facts.HIP_VERSION_MINOR


@api(outputs=1)
def hipDeviceGetUuid(device: int) -> hipUUID_t:
    """Return ``(hipError_t, hipUUID_t)``: no two devices have the same, and it stays while the machine is the same."""
    return properties_of(device_number(device)).uuid


@api(outputs=1)
def hipChooseDevice(prop: Any) -> int:
    """Return ``(hipError_t, number)`` of the device that has the most of what a `hipDeviceProp_t` asks for.

    What is 0 or empty there is not asked for, otherwise each member that the device has at least is a point; the first
    of those with the most points is chosen. hipErrorInvalidValue for anything but a structure.
    """
    if not isinstance(prop, hipDeviceProp_t):
        raise invalid(f"prop is a hipDeviceProp_t, not {type(prop).__name__}")
    wanted = [name for name in NUMBERS if getattr(prop, name)]

    def points(number: int) -> int:
        there = properties_of(number)
        return sum(getattr(there, name) >= getattr(prop, name) for name in wanted)

    return max(range(len(infos())), key=points)


# -- attributes


PREFIX = "hipDeviceAttribute"
# A number, or the member of hipDeviceProp_t that has another name than the attribute, and where in it; None for numbers
# that HIP keeps free, and the ends of ranges.
OTHERWISE: dict[str, Any] = FACTS["attributes of devices"]
_NUMBERS = frozenset(map(int, hipDeviceAttribute_t))
_MEMBERS = {name.lower(): name for name in hipDeviceProp_t.PROPERTIES()}


def _value(name: str, properties: hipDeviceProp_t) -> int:
    if name == "ImageSupport":
        return int(properties.maxTexture1D > 0)
    given = OTHERWISE.get(name, [_MEMBERS.get(name.lower())])
    if not isinstance(given, list):
        return int(given)
    value = properties[given[0]] if given[0] else 0
    return int(value[given[-1] if len(given) > 1 else 0] if isinstance(value, list) else value)


@api(outputs=1)
def hipDeviceGetAttribute(attr: int, deviceId: int) -> int:
    """Return ``(hipError_t, value)``: 0 for what no device here has, such as mipmaps, and for what no driver reports.

    `attr` is a hipDeviceAttribute_t, and `deviceId` a device's number. What each is, its name in `hipDeviceProp_t`
    says: sizes are in bytes, clocks in kHz.

    hipErrorInvalidDevice for an unknown device, hipErrorInvalidValue for an unknown attribute.
    """
    number = device_number(deviceId)
    name = hipDeviceAttribute_t(attr).name.removeprefix(PREFIX) if attr in _NUMBERS else "Unused1"
    if OTHERWISE.get(name, 0) is None:
        raise invalid(f"a device has no attribute {attr!r}")
    return _value(name, properties_of(number))


# -- limits and caches: no driver lets them be set, so what HIP may ignore is ignored


# HIP's own sizes at first, in bytes. Only the device's compiler knows the real ones.
LIMITS: dict[hipLimit_t, int] = {hipLimit_t[name]: nbytes for name, nbytes in FACTS["limits"].items()}
_limits: dict[int, dict[hipLimit_t, int]] = {}  # by device, as they were set
on_reset(lambda number: _limits.pop(number, None))


def _limit(limit: Any) -> hipLimit_t:
    known = enumerator(hipLimit_t, limit, "no limit", hipError_t.hipErrorUnsupportedLimit)
    if known not in LIMITS:
        raise HipError(hipError_t.hipErrorUnsupportedLimit, f"no device here has {known.name}")
    return known


@api(outputs=1)
def hipDeviceGetLimit(limit: int) -> int:
    """Return ``(hipError_t, bytes)`` of a limit of the current device: what was set last, or HIP's own value.

    There are those of the stack, of printf's memory and of the kernels' heap; hipErrorUnsupportedLimit for others.
    """
    current_device()
    known = _limit(limit)
    return _limits.get(current_number(), LIMITS).get(known, LIMITS[known])


@api()
def hipDeviceSetLimit(limit: int, value: int) -> None:
    """Set a limit of the current device, which changes what `hipDeviceGetLimit` returns and nothing else.

    Returns ``(hipError_t,)``; `value` is in bytes. Drivers make room for the stack of a kernel and for printf by
    themselves. hipErrorNotSupported for a larger heap: each program has one of 8 MiB; hipErrorUnsupportedLimit for
    other limits.
    """
    current_device()
    known, nbytes = _limit(limit), size_of(value)
    if known == hipLimit_t.hipLimitMallocHeapSize and nbytes > LIMITS[known]:
        raise HipError(hipError_t.hipErrorNotSupported, "the kernels of a program have a heap of 8 MiB")
    _limits.setdefault(current_number(), {})[known] = nbytes


@api(outputs=1)
def hipDeviceGetCacheConfig() -> hipFuncCache_t:
    """Return ``(hipError_t, hipFuncCachePreferNone)``: drivers divide the cache as they like."""
    current_device()
    return hipFuncCache_t.hipFuncCachePreferNone


@api()
def hipDeviceSetCacheConfig(cacheConfig: int) -> None:
    """Accept how the cache is to be divided, and ignore it, as on AMD's devices; ``(hipError_t,)``.

    hipErrorInvalidValue for anything but a hipFuncCache_t.
    """
    current_device()
    enumerator(hipFuncCache_t, cacheConfig, "no configuration of the cache")


@api(outputs=1)
def hipDeviceGetSharedMemConfig() -> hipSharedMemConfig:
    """Return ``(hipError_t, hipSharedMemBankSizeFourByte)``, as on AMD's devices."""
    current_device()
    return hipSharedMemConfig.hipSharedMemBankSizeFourByte


@api()
def hipDeviceSetSharedMemConfig(config: int) -> None:
    """Accept how wide the banks of shared memory are to be, and ignore it, as on AMD's devices; ``(hipError_t,)``.

    hipErrorInvalidValue for anything but a hipSharedMemConfig.
    """
    current_device()
    enumerator(hipSharedMemConfig, config, "no configuration of shared memory")


# -- peers


PCI_EXPRESS = 2  # hsa_amd_link_info_type_t


def _can_access(number: int, peer: int) -> bool:
    return number != peer and device_of(number).can_access_peer(device_of(peer))


def _peer(peer: Any) -> int:
    number = device_number(peer)
    if number == current_number():
        raise HipError(hipError_t.hipErrorInvalidDevice, f"device {number} is the current one, and no peer of itself")
    return number


@api(outputs=1)
def hipDeviceCanAccessPeer(deviceId: int, peerDeviceId: int) -> int:
    """Return ``(hipError_t, 1)`` where kernels of one device can use memory of the other: CUDA, with a link; else 0.

    `deviceId` and `peerDeviceId` are numbers of devices; hipErrorInvalidDevice for an unknown one. Opens both.
    """
    return int(_can_access(device_number(deviceId), device_number(peerDeviceId)))


@api()
def hipDeviceEnablePeerAccess(peerDeviceId: int, flags: int = 0) -> None:
    """Let kernels of the current device use memory of another one; ``(hipError_t,)``. The other way is another call.

    `peerDeviceId` is the other device's number. See `forebay.Device.enable_peer_access`, also for when it blocks.

    Copies between devices do not need it: `hipMemcpyPeer` and hipMemcpyDefault work. hipErrorPeerAccessUnsupported
    where it cannot be (`hipDeviceCanAccessPeer`), hipErrorPeerAccessAlreadyEnabled, hipErrorInvalidDevice for an
    unknown device and for the current one, hipErrorInvalidValue for flags other than 0.
    """
    number = _peer(peerDeviceId)
    if flags:
        raise invalid(f"hipDeviceEnablePeerAccess: flags have to be 0, not {flags}")
    device, other = current_device(), device_of(number)
    if not device.can_access_peer(other):
        raise HipError(
            hipError_t.hipErrorPeerAccessUnsupported,
            f"kernels of device {current_number()} cannot use the memory of device {number}; hipMemcpyPeer copies it",
        )
    if other.driver in device._peers:
        raise HipError(hipError_t.hipErrorPeerAccessAlreadyEnabled, f"access to device {number} is enabled already")
    device.enable_peer_access(other)


@api()
def hipDeviceDisablePeerAccess(peerDeviceId: int) -> None:
    """Refuse memory of another device again; ``(hipError_t,)``: hipErrorPeerAccessNotEnabled if it was not enabled.

    `peerDeviceId` is the other device's number; hipErrorInvalidDevice as for `hipDeviceEnablePeerAccess`. Launches
    from before still run. Does not block.
    """
    number = _peer(peerDeviceId)
    device, other = current_device(), device_of(number)
    if other.driver not in device._peers:
        raise HipError(hipError_t.hipErrorPeerAccessNotEnabled, f"access to device {number} is not enabled")
    device.disable_peer_access(other)


@api(outputs=1)
def hipDeviceGetP2PAttribute(attr: int, srcDevice: int, dstDevice: int) -> int:
    """Return ``(hipError_t, 1)`` for hipDevP2PAttrAccessSupported as `hipDeviceCanAccessPeer` does, and 0 for others.

    `attr` is a hipDeviceP2PAttr, `srcDevice` and `dstDevice` are the numbers of the devices.

    hipErrorInvalidDevice for an unknown device and for one and the same, hipErrorInvalidValue for an unknown attribute.
    """
    source, to = device_number(srcDevice), device_number(dstDevice)
    if source == to:
        raise HipError(hipError_t.hipErrorInvalidDevice, f"device {srcDevice} has no link to itself")
    known = enumerator(hipDeviceP2PAttr, attr, "a link has no attribute")
    return int(known == hipDeviceP2PAttr.hipDevP2PAttrAccessSupported and _can_access(source, to))


@api(outputs=2)
def hipExtGetLinkTypeAndHopCount(device1: int, device2: int) -> tuple[int, int]:
    """Return ``(hipError_t, 2, hops)``: PCI Express, and two hops where a copy goes through the host; else one.

    hipErrorInvalidValue when `device1` or `device2` is the number of no device, and for one and the same.
    """
    with raised_as(hipError_t.hipErrorInvalidValue, HipError):
        one, other = device_number(device1), device_number(device2)
    if one == other:
        raise invalid(f"device {device1} has no link to itself")
    return PCI_EXPRESS, 1 if _can_access(one, other) else 2


# -- contexts, for programs of CUDA's driver interface: a device under another name. As on AMD's devices it has one,
# its primary one: `hipCtxCreate` pushes that onto the thread's stack, whose top is the thread's current device


FIRST_CONTEXT = 7 << 60
API_VERSION = 4  # HIP's own says so of each context


class ihipCtx_t(Number):
    """The context of a device; compares, hashes and converts like its number."""


hipCtx_t = ihipCtx_t


_flags: dict[int, int] = {}  # by device
on_reset(lambda number: _flags.pop(number, None))


def _context(number: int) -> ihipCtx_t:
    return ihipCtx_t(FIRST_CONTEXT + 16 * number)


def _device_of(ctx: Any) -> int:
    """Return the number of a context's device; hipErrorInvalidContext when it is none."""
    address = handle_number(ctx, "a context")
    try:
        if address % 16 or address < FIRST_CONTEXT:
            raise HipError(hipError_t.hipErrorInvalidContext)
        return device_number((address - FIRST_CONTEXT) // 16)
    except HipError:
        raise HipError(hipError_t.hipErrorInvalidContext, f"no context: {address:#x}") from None


@api(outputs=1)
def hipCtxCreate(flags: int, device: int) -> ihipCtx_t:
    """Push the context of a device, which becomes the thread's current one; ``(hipError_t, context)``.

    It is the primary context; a device has no other. hipErrorInvalidDevice for an unknown device, hipErrorInvalidValue
    for flags other than those of `hipSetDeviceFlags`, which make no difference.
    """
    number = device_number(device)
    check_schedule(flags)
    set_current(number)
    current_device()
    _flags[number] = flags
    _current.pushed.append(number)
    return _context(number)


@api()
def hipCtxDestroy(ctx: Any) -> None:
    """Pop a context that this thread has on top; ``(hipError_t,)``. Streams and memory of the device stay.

    hipErrorInvalidValue for None, hipErrorInvalidContext for anything but a context.
    """
    if ctx is None:
        raise invalid("the context is None")
    number = _device_of(ctx)
    if _current.pushed and _current.pushed[-1] == number:
        _pop()


def _pop() -> int:
    number = _current.pushed.pop()
    if _current.pushed:
        set_current(_current.pushed[-1])
    return number


@api(outputs=1)
def hipCtxPopCurrent() -> ihipCtx_t:
    """Pop the context on top; ``(hipError_t, context)``. The device of the next one becomes the current one, if any.

    hipErrorInvalidContext when the thread has pushed none.
    """
    if not _current.pushed:
        raise HipError(hipError_t.hipErrorInvalidContext, "this thread has pushed no context")
    return _context(_pop())


@api()
def hipCtxPushCurrent(ctx: Any) -> None:
    """Push a context, whose device becomes the current one; ``(hipError_t,)``: hipErrorInvalidContext."""
    number = _device_of(ctx)
    _current.pushed.append(number)
    set_current(number)


@api()
def hipCtxSetCurrent(ctx: Any) -> None:
    """Put a context in the place of the one on top; None pops that; ``(hipError_t,)``. See `hipCtxPushCurrent`."""
    if ctx is None:
        if _current.pushed:
            _pop()
        return
    number = _device_of(ctx)
    _current.pushed[-1:] = [number]
    set_current(number)


@api(outputs=1)
def hipCtxGetCurrent() -> ihipCtx_t:
    """Return ``(hipError_t, context)`` of the thread's current device, which is the primary one if none was pushed."""
    return _context(current_number())


@api(outputs=1)
def hipCtxGetDevice() -> int:
    """Return ``(hipError_t, number)`` of the current context's device: what `hipGetDevice` returns."""
    current_device()
    return current_number()


@api(outputs=1)
def hipCtxGetApiVersion(ctx: Any) -> int:
    """Return ``(hipError_t, 4)``, as HIP's own; hipErrorInvalidContext for anything but a context."""
    _device_of(ctx)
    return API_VERSION


@api(outputs=1)
def hipCtxGetFlags() -> int:
    """Return ``(hipError_t, flags)`` that the current device's context was created with; 0 if it was not."""
    return _flags.get(current_number(), 0)


hipCtxSynchronize: HipFunction = alias(hipDeviceSynchronize, "hipCtxSynchronize")
hipCtxGetCacheConfig: HipFunction = alias(hipDeviceGetCacheConfig, "hipCtxGetCacheConfig")
hipCtxSetCacheConfig: HipFunction = alias(hipDeviceSetCacheConfig, "hipCtxSetCacheConfig")
hipCtxGetSharedMemConfig: HipFunction = alias(hipDeviceGetSharedMemConfig, "hipCtxGetSharedMemConfig")
hipCtxSetSharedMemConfig: HipFunction = alias(hipDeviceSetSharedMemConfig, "hipCtxSetSharedMemConfig")


@api()
def hipCtxEnablePeerAccess(peerCtx: Any, flags: int = 0) -> None:
    """Let kernels use memory of a context's device: `hipDeviceEnablePeerAccess`; ``(hipError_t,)``; `flags` are 0."""
    hipDeviceEnablePeerAccess.__wrapped__(_device_of(peerCtx), flags)  # type: ignore[attr-defined]


@api()
def hipCtxDisablePeerAccess(peerCtx: Any) -> None:
    """Refuse that again, see `hipDeviceDisablePeerAccess`; ``(hipError_t,)``."""
    hipDeviceDisablePeerAccess.__wrapped__(_device_of(peerCtx))  # type: ignore[attr-defined]


@api(outputs=1)
def hipDevicePrimaryCtxRetain(dev: int) -> ihipCtx_t:
    """Open a device, and return ``(hipError_t, context)``; hipErrorInvalidDevice for an unknown device."""
    number = device_number(dev)
    device_of(number)
    return _context(number)


@api()
def hipDevicePrimaryCtxRelease(dev: int) -> None:
    """Do nothing but check; ``(hipError_t,)``: a device stays open until `hipDeviceReset`, as on AMD's devices."""
    device_number(dev)


@api()
def hipDevicePrimaryCtxReset(dev: int) -> None:
    """Do what `hipDeviceReset` does, to this device; ``(hipError_t,)``. Blocks."""
    reset(device_number(dev))


@api(outputs=2)
def hipDevicePrimaryCtxGetState(dev: int) -> tuple[int, int]:
    """Return ``(hipError_t, flags, active)``: 1 when the device was used and not reset since."""
    number = device_number(dev)
    return _flags.get(number, 0), int(is_open(number))


@api()
def hipDevicePrimaryCtxSetFlags(dev: int, flags: int) -> None:
    """Set the flags of a device that was not used yet; ``(hipError_t,)``.

    hipErrorContextAlreadyInUse when it was, hipErrorInvalidValue for flags other than those of `hipSetDeviceFlags`,
    which make no difference.
    """
    number = device_number(dev)
    check_schedule(flags)
    if is_open(number):
        raise HipError(hipError_t.hipErrorContextAlreadyInUse, f"device {number} was used already")
    _flags[number] = flags
