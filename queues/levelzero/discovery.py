"""Finds the Level Zero devices of this machine, and gives the reason when one of them cannot be used.

A device counts as usable if forebay can make an in-order immediate command list and build a trivial kernel on it. This
happens in a temporary context, and nothing is submitted. Devices come in the order of the drivers. Without a loader,
looking for devices costs next to nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import os
import struct
from collections.abc import Iterator
from ctypes import byref, c_int32, c_size_t, c_uint32, c_void_p
from dataclasses import dataclass
from typing import NamedTuple

from forebay.core.driver import DeviceInfo, Found, numbered
from forebay.core.errors import DriverError, NotSupportedError
from forebay.queues.levelzero import loader
from forebay.queues.levelzero.descriptors import (
    context_desc,
    event_desc,
    kernel_desc,
    list_desc,
    module_desc,
    queue_desc,
)
from forebay.queues.levelzero.loader import LevelZero, result_name

__all__ = ["ZeNative", "look", "look_with", "probe_module"]

UPDATE = (
    "install a newer driver, 26.27 is known to work: apt install libze1 libze-intel-gpu1 (Debian, Ubuntu; a stable "
    "release's may be too old), or take Intel's own packages"
)
# The loader uses the library named here instead of the installed drivers.
ALTERNATIVE = "ZE_ENABLE_ALT_DRIVERS"
RENDER_NODES = "/dev/dri/renderD*"

KINDS = {1: "gpu", 2: "cpu", 3: "accelerator", 4: "accelerator", 5: "accelerator"}
NAMES = {3: "an FPGA", 4: "a memory copy accelerator", 5: "an NPU"}

COMPUTE = 1 << 0  # of the flags of a queue group
IN_ORDER = 1 << 1  # of those of an immediate list
ASYNCHRONOUS = 2  # its mode
COUNTER_IMMEDIATE = 1 << 0  # of the flags of a counter-based event
SCOPE_DEVICE = 1 << 1
FORMAT_SPIRV = 0  # of a module
EVENT_POOLS = ("ZE_extension_event_pool_counter_based", "ZE_experimental_event_pool_counter_based")
IP_VERSION = "ZE_extension_device_ip_version"


@dataclass(frozen=True)
class ZeNative:
    """A Level Zero device: its handles, and what its driver says about it.

    Attributes
    ----------
    driver, device : int
        Handles. They are valid as long as the process lives.
    api_version : (int, int)
        The version of the specification that the driver reports. Intel's older drivers report 1.3 but support more.
    device_id, vendor_id : int
        PCI numbers.
    uuid : bytes
        Sixteen bytes that name the device.
    ip_version : int
        The hardware's version as the compiler counts it; 0 if unknown.
    max_group_items : int
        Work-items in a group.
    max_group_size, max_group_count : (int, int, int)
        Work-items of a group, and groups of a launch, in each dimension.
    max_local_bytes, max_argument_bytes, max_allocation : int
        Bytes of local memory in a group, of all arguments of a kernel, and of one allocation.
    timer_resolution_ns : float
        Nanoseconds of one tick of the device's clock.
    timestamp_bits, kernel_timestamp_bits : int
        How many bits of the two kinds of timestamps are valid.
    groups : tuple of (int, int, int)
        For each ordinal: flags (1 compute, 2 copy, 4 cooperative), number of queues, and bytes of the largest pattern
        of a fill, 2**64 - 1 when there is no limit.
    priorities : (int, int) or None
        The lowest and the highest priority of a queue. Lower numbers are more urgent. None if unknown.
    has_host_function : bool
        Whether ``zeCommandListAppendHostFunction`` works.
    counter_based : "create", "pool" or ""
        How counter-based events are made: by ``zeEventCounterBasedCreate``, or from an event pool with an extended
        descriptor; "" if the driver has none.
    """

    driver: int
    device: int
    api_version: tuple[int, int]
    device_id: int
    vendor_id: int
    uuid: bytes
    ip_version: int
    max_group_items: int
    max_group_size: tuple[int, int, int]
    max_group_count: tuple[int, int, int]
    max_local_bytes: int
    max_argument_bytes: int
    max_allocation: int
    timer_resolution_ns: float
    timestamp_bits: int
    kernel_timestamp_bits: int
    groups: tuple[tuple[int, int, int], ...]
    priorities: tuple[int, int] | None
    has_host_function: bool
    counter_based: str


class ZeDriver(NamedTuple):
    """A driver, and the facts that are the same for all its devices."""

    handle: int
    api_version: tuple[int, int]
    version: str
    extensions: frozenset[str]


class UnusableError(Exception):
    """A device cannot be used. Gives the reason and advice."""

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.advice = advice


def look() -> Found:
    """As `DriverFolder.look`."""
    try:
        ze = loader.load()
    except NotSupportedError as error:
        return Found([], str(error))
    return look_with(ze)


def look_with(ze: LevelZero) -> Found:
    """Return the devices that these Level Zero functions find, or the reason why there are none."""
    trouble = "there is no GPU that it knows"
    devices: list[DeviceInfo] = []
    try:
        drivers = ze.drivers()
    except DriverError as error:
        trouble, drivers = str(error), []
    for handle in drivers:
        try:
            driver = _driver(ze, handle)
            there = ze.handles("zeDeviceGet", handle)
        except DriverError as error:  # go on: other drivers may have devices
            trouble = str(error)
            continue
        for device in there:
            devices.append(_describe(ze, driver, device))
    return Found(numbered(devices), "" if devices else _absence(trouble))


def _absence(trouble: str) -> str:
    chosen = os.environ.get(ALTERNATIVE)
    if chosen:
        advice = f"{ALTERNATIVE} is set ({chosen}) and must name a driver that works; unset it to use those installed"
        return f"no Level Zero device was found ({trouble}): {advice}"
    closed = [node for node in glob.glob(RENDER_NODES) if not os.access(node, os.R_OK | os.W_OK)]
    if closed:
        advice = f"this user may not use {', '.join(sorted(closed))}; add them to that file's group, mostly 'render'"
        return f"no Level Zero device was found ({trouble}): {advice}"
    return f"no Level Zero device was found ({trouble}): {loader.GET_DRIVER}"


def _driver(ze: LevelZero, handle: int) -> ZeDriver:
    version = c_uint32()
    ze.call("zeDriverGetApiVersion", handle, byref(version))
    properties = loader.DriverProperties()
    ze.call("zeDriverGetProperties", handle, byref(properties))
    extensions = ze.all_of("zeDriverGetExtensionProperties", loader.ExtensionProperties, handle)
    return ZeDriver(
        handle,
        (version.value >> 16, version.value & 0xFFFF),
        _version_string(ze, handle) or str(properties.version),
        frozenset(extension.name.decode(errors="replace") for extension in extensions),
    )


def _version_string(ze: LevelZero, driver: int) -> str:
    """Return the version as packages write it, for example "1.15.39122"; empty if unknown."""
    function = ze.extension(driver, "zeIntelGetDriverVersionString")
    size = c_size_t()
    if function is None or function(driver, None, byref(size)):
        return ""
    text = ctypes.create_string_buffer(size.value + 1)
    size.value = len(text)
    return "" if function(driver, text, byref(size)) else text.value.decode(errors="replace")


# One device


def _describe(ze: LevelZero, driver: ZeDriver, device: int) -> DeviceInfo:
    properties = loader.DeviceProperties()
    # Every driver since 1.2 has the newer structure. Only there is the timer not rounded to nanoseconds.
    if driver.api_version >= (1, 2):
        properties.stype = loader.DeviceProperties.STYPE_1_2
    ip_version = loader.IpVersion()
    if IP_VERSION in driver.extensions:
        properties.next = ctypes.addressof(ip_version)
    memory, reason, advice, native = 0, "", "", None
    try:
        ze.call("zeDeviceGetProperties", device, byref(properties))
        memories = ze.all_of("zeDeviceGetMemoryProperties", loader.MemoryProperties, device)
        memory = sum(each.total_size for each in memories)
        if properties.type in NAMES:
            raise UnusableError(
                f"it is {NAMES[properties.type]}, and forebay runs kernels on GPUs and CPUs", "choose another device"
            )
        native = _native(ze, driver, device, properties, ip_version.version)
    except UnusableError as error:
        reason, advice = error.reason, error.advice
    except DriverError as error:
        reason, advice = str(error), UPDATE
    return DeviceInfo(
        name="",  # until all are known
        backend="level_zero",
        kind=KINDS.get(properties.type, "gpu"),
        index=0,
        description=properties.name.decode(errors="replace").strip() or "device",
        platform="Level Zero",
        version="Level Zero {}.{}".format(*driver.api_version),
        driver_version=driver.version,
        compute_units=properties.slices * properties.subslices_per_slice * properties.eus_per_subslice,
        memory=memory,
        usable=not reason,
        reason=reason,
        advice=advice,
        native=native,
    )


def _native(
    ze: LevelZero, driver: ZeDriver, device: int, properties: loader.DeviceProperties, ip_version: int
) -> ZeNative:
    """Query the fields of `ZeNative`, and try out the functions forebay needs.

    Raises
    ------
    UnusableError, DriverError
        If the device lacks one of them.
    """
    compute, module = loader.ComputeProperties(), loader.ModuleProperties()
    ze.call("zeDeviceGetComputeProperties", device, byref(compute))
    ze.call("zeDeviceGetModuleProperties", device, byref(module))
    groups = tuple(
        (group.flags, group.queues, group.max_fill_pattern)
        for group in ze.all_of("zeDeviceGetCommandQueueGroupProperties", loader.QueueGroupProperties, device)
    )
    ordinal = next((ordinal for ordinal, group in enumerate(groups) if group[0] & COMPUTE), None)
    if ordinal is None:
        raise UnusableError("it has no queue that runs kernels", UPDATE)
    if not module.spirv_version:
        raise UnusableError("its driver takes no SPIR-V", UPDATE)
    with _made(ze, "zeContextDestroy", "zeContextCreate", driver.handle, context_desc()) as context:
        counter_based = _counter_based(ze, driver, context, device)
        _require_in_order_lists(ze, context, device, ordinal, known=bool(counter_based))
        _require_kernels(ze, context, device)
        has_host_function = _has_host_function(ze, context, device, ordinal)
    resolution = properties.timer_resolution
    in_cycles = properties.stype == loader.DeviceProperties.STYPE_1_2
    return ZeNative(
        driver=driver.handle,
        device=device,
        api_version=driver.api_version,
        device_id=properties.device_id,
        vendor_id=properties.vendor_id,
        uuid=bytes(properties.uuid),
        ip_version=ip_version,
        max_group_items=compute.max_group_items,
        max_group_size=_three(*compute.max_group_size),
        max_group_count=_three(*compute.max_group_count),
        max_local_bytes=compute.max_local_bytes,
        max_argument_bytes=module.max_argument_bytes,
        max_allocation=properties.max_allocation,
        timer_resolution_ns=1e9 / (resolution or 1e9) if in_cycles else float(resolution or 1),
        timestamp_bits=properties.timestamp_bits,
        kernel_timestamp_bits=properties.kernel_timestamp_bits,
        groups=groups,
        priorities=_priorities(ze, driver, device),
        has_host_function=has_host_function,
        counter_based=counter_based,
    )


def _three(x: int, y: int, z: int) -> tuple[int, int, int]:
    return x, y, z


def _priorities(ze: LevelZero, driver: ZeDriver, device: int) -> tuple[int, int] | None:
    function = ze.extension(driver.handle, "zeDeviceGetPriorityLevels")
    lowest, highest = c_int32(), c_int32()
    if function is None or function(device, byref(lowest), byref(highest)):
        return None
    return lowest.value, highest.value


# Trying out the functions forebay needs


@contextlib.contextmanager
def _made(ze: LevelZero, destroy: str, create: str, *arguments: object) -> Iterator[int]:
    """Create an object, and destroy it at the end of the block."""
    handle = ze.create(create, *arguments)
    try:
        yield handle
    finally:
        ze.call(destroy, handle)


def _counter_based(ze: LevelZero, driver: ZeDriver, context: int, device: int) -> str:
    # The loader may have the function and the driver not, and versions do not tell. So try to make an event.
    described = event_desc(COUNTER_IMMEDIATE, SCOPE_DEVICE, SCOPE_DEVICE)
    try:
        with _made(ze, "zeEventDestroy", "zeEventCounterBasedCreate", context, device, described):
            return "create"
    except DriverError:
        return "pool" if driver.extensions.intersection(EVENT_POOLS) else ""


def _require_in_order_lists(ze: LevelZero, context: int, device: int, ordinal: int, known: bool) -> None:
    """Raise unless an in-order immediate list can be made.

    Drivers that are older than such lists ignore the flag and would run commands side by side. So forebay accepts only
    a list that reports the flag. Where lists cannot report it, the driver must be `known` to have counter-based events,
    which exist only for such lists.
    """
    described = queue_desc(ordinal, IN_ORDER, ASYNCHRONOUS)
    try:
        create = "zeCommandListCreateImmediate"
        with _made(ze, "zeCommandListDestroy", create, context, device, described) as commands:
            flags = c_uint32()
            asked = ze.result("zeCommandListImmediateGetFlags", commands, byref(flags)) == 0
            if flags.value & IN_ORDER if asked else known:
                return
    except DriverError as error:
        raise UnusableError(f"its driver makes no in-order command list ({error})", UPDATE) from None
    raise UnusableError("its driver does not say that a command list is in order", UPDATE)


def _require_kernels(ze: LevelZero, context: int, device: int) -> None:
    """Raise unless a kernel can be built."""
    code = probe_module()
    described = module_desc(FORMAT_SPIRV, code)
    log, module = c_void_p(), c_void_p()
    result = ze.result("zeModuleCreate", context, device, described, byref(module), byref(log))
    said = _build_log(ze, log.value) if log.value else ""
    if result:
        raise UnusableError(f"it cannot build a kernel: {said or f'zeModuleCreate: {result_name(result)}'}", UPDATE)
    try:
        with _made(ze, "zeKernelDestroy", "zeKernelCreate", module, kernel_desc(b"probe")):
            pass
    except DriverError as error:
        raise UnusableError(f"it cannot make a kernel: {error}", UPDATE) from None
    finally:
        ze.call("zeModuleDestroy", module)


def _build_log(ze: LevelZero, log: int) -> str:
    """Return the first line of a build log that is not blank, and destroy the log."""
    size = c_size_t()
    text = b""
    if not ze.result("zeModuleBuildLogGetString", log, byref(size), None):
        buffer = ctypes.create_string_buffer(size.value + 1)
        if not ze.result("zeModuleBuildLogGetString", log, byref(size), buffer):
            text = buffer.value
    ze.call("zeModuleBuildLogDestroy", log)
    return next((line.strip() for line in text.decode(errors="replace").splitlines() if line.strip()), "")


def _has_host_function(ze: LevelZero, context: int, device: int, ordinal: int) -> bool:
    """Append one to a list that is not an immediate one and is destroyed unexecuted: it is never called."""
    never = ctypes.CFUNCTYPE(None, c_void_p)(lambda data: None)
    address = ctypes.cast(never, c_void_p)
    try:
        with _made(ze, "zeCommandListDestroy", "zeCommandListCreate", context, device, list_desc(ordinal)) as commands:
            append = "zeCommandListAppendHostFunction"
            return ze.result(append, commands, address, None, None, None, 0, None) == 0
    except DriverError:
        return False


def probe_module() -> bytes:
    """Assemble, in SPIR-V 1.0, ``kernel void probe(global int *a) { a[0] = 1; }``.

    A compiler from OpenCL C is another package, which need not be there. Numbers are from the SPIR-V specification.
    """
    capability, memory_model, entry_point = 17, 14, 15
    type_void, type_int, type_pointer, type_function, constant = 19, 21, 32, 33, 43
    function, parameter, label, store, end, end_function = 54, 55, 248, 62, 253, 56
    addresses, kernel = 4, 6  # capabilities
    physical_64, open_cl, kernel_model, global_memory, aligned = 2, 2, 6, 5, 2
    void, integer, pointer, signature, one, probe, a, start, bound = range(1, 10)

    module = [0x07230203, 0x00010000, 0, bound, 0]
    for opcode, *operands in (
        (capability, addresses),
        (capability, kernel),
        (memory_model, physical_64, open_cl),
        (entry_point, kernel_model, probe, *struct.unpack("<2I", b"probe\0\0\0")),
        (type_void, void),
        (type_int, integer, 32, 0),
        (type_pointer, pointer, global_memory, integer),
        (type_function, signature, void, pointer),
        (constant, integer, one, 1),
        (function, void, probe, 0, signature),
        (parameter, pointer, a),
        (label, start),
        (store, a, one, aligned, 4),
        (end,),
        (end_function,),
    ):
        module += [(1 + len(operands)) << 16 | opcode, *operands]
    return struct.pack(f"<{len(module)}I", *module)
