"""Finds the Level Zero devices, and the reason why one of them cannot be used.

A device is usable if forebay can make an in-order immediate command list and build a trivial kernel on it, in a
temporary context; nothing is submitted. Devices are in the order of the drivers.
"""

import glob
import os
import struct

from libc.stdint cimport int32_t, uint32_t, uint64_t, uintptr_t
from libcpp.vector cimport vector

from forebay.core.driver cimport Status

from forebay.core.driver import DeviceInfo, Found, Limits, first_line, numbered
from forebay.core.errors import BuildError, Error
from forebay.queues.levelzero.device import COMPUTE, ZeNative
from forebay.queues.levelzero.operations import FUNCTIONS, GET_DRIVER, DeviceHandle, ZeProgram, check
from forebay.compiler.spirv import opcodes as op
from forebay.compiler.spirv.module import make, words_of

ctypedef uint32_t ze_result_t
ctypedef Status (*Function)(...) noexcept nogil  # returns 0, or the call and its ze_result_t


# `calls.hpp` lists the parameters of each function, and the C++ compiler checks them.
cdef extern from "queues/levelzero/calls.hpp" namespace "forebay_ze":
    cdef struct DriverProperties:
        uint32_t version
    cdef struct ExtensionProperties:
        const char* name
    cdef struct DeviceProperties:
        uint32_t stype
        void* next
        uint32_t type, vendor_id, device_id, eus_per_subslice, subslices_per_slice, slices, kernel_timestamp_bits
        uint64_t max_allocation, timer_resolution
        const char* name
    cdef struct IpVersion:
        uint32_t version
    cdef struct ComputeProperties:
        uint32_t max_group_items, max_local_bytes
        uint32_t* max_group_size
        uint32_t* max_group_count
    cdef struct ModuleProperties:
        uint32_t spirv_version, max_argument_bytes
    cdef struct QueueGroupProperties:
        uint32_t flags, queues
        size_t max_fill_pattern
    cdef struct MemoryProperties:
        uint64_t total_size

    cdef struct Calls:
        Function Init, DriverGet, DriverGetApiVersion, DriverGetProperties, DriverGetExtensionProperties
        Function DriverGetExtensionFunctionAddress, DeviceGet, DeviceGetProperties, DeviceGetMemoryProperties
        Function DeviceGetComputeProperties, DeviceGetModuleProperties, DeviceGetCommandQueueGroupProperties

    Status all_of[T](Function get, vector[T]& found, ...) except +


UPDATE = (
    "install a newer driver, 26.27 is known to work: apt install libze1 libze-intel-gpu1 (Debian, Ubuntu; a stable "
    "release's may be too old), or take Intel's own packages"
)
# The loader uses this library instead of the installed drivers.
ALTERNATIVE = "ZE_ENABLE_ALT_DRIVERS"
RENDER_NODES = "/dev/dri/renderD*"

KINDS = {1: "gpu", 2: "cpu", 3: "accelerator", 4: "accelerator", 5: "accelerator"}
OTHER = "choose another device"
NAMES = {3: "an FPGA", 4: "a memory copy accelerator", 5: "an NPU"}

EVENT_POOLS = ("ZE_extension_event_pool_counter_based", "ZE_experimental_event_pool_counter_based")
IP_VERSION = "ZE_extension_device_ip_version"

cdef enum:
    GPUS_ONLY = 1 << 0  # of zeInit's flags
    IN_ORDER = 1 << 1  # of those of an immediate list
    TIMER_IN_CYCLES = 0x00020006  # the type of newer device properties, with a timer that is not rounded to nanoseconds

cdef Calls* ze = <Calls*> <uintptr_t> FUNCTIONS.address

# These functions are the driver's, not the loader's.
ctypedef ze_result_t (*GetPriorityLevels)(void* device, int32_t* lowest, int32_t* highest) noexcept nogil
ctypedef ze_result_t (*GetDriverVersionString)(void* driver, char* text, size_t* size) noexcept nogil


cdef class ZeDriver:
    """A driver, and what is the same for all its devices."""

    cdef void* handle
    cdef tuple api_version
    cdef str version
    cdef set extensions


class UnusableError(Exception):
    """The reason why a device cannot be used, which a newer driver may remove."""


def look() -> Found:
    """As `DriverFolder.look`, once the table of calls is loaded."""
    cdef vector[void*] drivers, there
    cdef ZeDriver driver
    cdef size_t i, j
    trouble = "there is no GPU that it knows"
    devices = []
    try:
        drivers = start()
    except Error as error:
        trouble = str(error)
    for i in range(drivers.size()):
        try:
            driver = describe_driver(drivers[i])
            there.clear()
            check(all_of(ze.DeviceGet, there, driver.handle))
        except Error as error:  # go on: other drivers may have devices
            trouble = str(error)
            continue
        for j in range(there.size()):
            devices.append(describe(driver, there[j]))
    return Found(numbered(devices), "" if devices else absence(trouble))


def absence(trouble: str) -> str:
    if chosen := os.environ.get(ALTERNATIVE):
        advice = f"{ALTERNATIVE} is set ({chosen}) and must name a driver that works; unset it to use those installed"
    elif closed := [node for node in glob.glob(RENDER_NODES) if not os.access(node, os.R_OK | os.W_OK)]:
        advice = f"this user may not use {', '.join(sorted(closed))}; add them to that file's group, mostly 'render'"
    else:
        advice = GET_DRIVER
    return f"no Level Zero device was found ({trouble}): {advice}"


cdef vector[void*] start() except *:
    """Initialise Level Zero and return the drivers for GPUs. The first call may take some tenths of a second."""
    cdef vector[void*] found
    check(ze.Init(<uint32_t> GPUS_ONLY))
    check(all_of(ze.DriverGet, found))
    return found


cdef ZeDriver describe_driver(void* handle):
    cdef ZeDriver driver = ZeDriver.__new__(ZeDriver)
    cdef vector[ExtensionProperties] extensions
    cdef DriverProperties properties
    cdef uint32_t version = 0
    check(ze.DriverGetApiVersion(handle, &version))
    check(ze.DriverGetProperties(handle, &properties))
    check(all_of(ze.DriverGetExtensionProperties, extensions, handle))
    driver.handle = handle
    driver.api_version = version >> 16, version & 0xFFFF
    driver.version = version_string(handle) or str(properties.version)
    driver.extensions = {extensions[i].name.decode(errors="replace") for i in range(extensions.size())}
    return driver


cdef str version_string(void* driver):
    """The version as packages have it, such as "1.15.39122"; empty if unknown."""
    cdef GetDriverVersionString get = <GetDriverVersionString> extension(driver, "zeIntelGetDriverVersionString")
    cdef size_t size = 0
    if get == NULL or get(driver, NULL, &size):
        return ""
    cdef bytearray text = bytearray(size + 1)
    size += 1
    return "" if get(driver, text, &size) else text.split(b"\0")[0].decode(errors="replace")


cdef void* extension(void* driver, const char* name) noexcept:
    """A function that only the driver itself exports; NULL if it does not."""
    cdef void* function = NULL
    return NULL if ze.DriverGetExtensionFunctionAddress(driver, name, &function) else function


# -- one device


cdef object describe(ZeDriver driver, void* device):
    cdef DeviceProperties properties
    cdef IpVersion ip_version
    cdef vector[MemoryProperties] memories
    if driver.api_version >= (1, 2):
        properties.stype = TIMER_IN_CYCLES
    if IP_VERSION in driver.extensions:
        properties.next = &ip_version
    memory, reason, advice, native = 0, "", "", None
    try:
        check(ze.DeviceGetProperties(device, &properties))
        check(all_of(ze.DeviceGetMemoryProperties, memories, device))
        memory = sum([memories[i].total_size for i in range(memories.size())])
        if properties.type in NAMES:
            reason, advice = f"it is {NAMES[properties.type]}, and forebay runs kernels on GPUs and CPUs", OTHER
        else:
            native = native_of(driver, device, &properties, ip_version.version)
    except (UnusableError, Error) as error:
        reason, advice = str(error), UPDATE
    return DeviceInfo(
        backend="level_zero",
        kind=KINDS.get(properties.type, "gpu"),
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


cdef object native_of(ZeDriver driver, void* device, const DeviceProperties* properties, uint32_t ip_version):
    """Query the fields of `ZeNative`, and try the functions that forebay needs. Raises `UnusableError` or `Error`."""
    cdef ComputeProperties compute
    cdef ModuleProperties module
    cdef vector[QueueGroupProperties] there
    check(ze.DeviceGetComputeProperties(device, &compute))
    check(ze.DeviceGetModuleProperties(device, &module))
    check(all_of(ze.DeviceGetCommandQueueGroupProperties, there, device))
    groups = tuple([(there[i].flags, there[i].queues, there[i].max_fill_pattern) for i in range(there.size())])
    ordinal = next((ordinal for ordinal, group in enumerate(groups) if group[0] & COMPUTE), None)
    if ordinal is None:
        raise UnusableError("it has no queue that runs kernels")
    if not module.spirv_version:
        raise UnusableError("its driver takes no SPIR-V")
    resolution = properties.timer_resolution
    in_cycles = properties.stype == TIMER_IN_CYCLES
    return ZeNative(
        driver=<uintptr_t> driver.handle,
        device=<uintptr_t> device,
        device_id=properties.device_id,
        vendor_id=properties.vendor_id,
        ip_version=ip_version,
        limits=Limits(
            group_items=compute.max_group_items,
            group_size=tuple([compute.max_group_size[i] for i in range(3)]),
            group_count=tuple([compute.max_group_count[i] for i in range(3)]),
            local_bytes=compute.max_local_bytes,
            constant_bytes=properties.max_allocation,
            allocation=properties.max_allocation,
            has_shared=True,
        ),
        max_argument_bytes=module.max_argument_bytes,
        timer_resolution_ns=1e9 / (resolution or 1e9) if in_cycles else float(resolution or 1),
        kernel_timestamp_bits=properties.kernel_timestamp_bits,
        groups=groups,
        priorities=priorities_of(driver, device),
        counter_based=try_out(driver, device, ordinal),
    )


cdef tuple priorities_of(ZeDriver driver, void* device):
    cdef GetPriorityLevels get = <GetPriorityLevels> extension(driver.handle, "zeDeviceGetPriorityLevels")
    cdef int32_t lowest = 0, highest = 0
    return None if get == NULL or get(device, &lowest, &highest) else (lowest, highest)


# -- trying out the functions forebay needs


cdef str try_out(ZeDriver driver, void* device, uint32_t ordinal):
    """Make a list and a kernel in a temporary context, and return the way to make counter-based events."""
    handle = DeviceHandle(<uintptr_t> driver.handle, <uintptr_t> device, "create", 1, 64)
    # Versions do not tell whether the driver has the loader's function, so try to make an event.
    made = "create" if handle.makes_events() else "pool" if driver.extensions.intersection(EVENT_POOLS) else ""
    if not made:
        raise UnusableError("its driver has no counter-based events")
    try:
        flags = handle.list_flags(ordinal)
    except Error as error:
        raise UnusableError(f"its driver makes no in-order command list ({error})") from None
    # Drivers older than in-order lists ignore the flag and would run commands concurrently. So lists that report flags
    # must report this one. Otherwise counter-based events prove it: they exist only for such lists.
    if flags is not None and not flags & IN_ORDER:
        raise UnusableError("its driver does not say that a command list is in order")
    try:
        ZeProgram(handle, probe_module(), False).limits("probe")
    except BuildError as error:
        raise UnusableError(f"it cannot build a kernel: {first_line(error.log or str(error))}") from None
    except Error as error:
        raise UnusableError(f"it cannot make a kernel: {error}") from None
    return made


def probe_module() -> bytes:
    """Assemble ``kernel void probe(global int *a) { a[0] = 1; }`` in SPIR-V 1.0, with the numbers of its specification.

    A compiler from OpenCL C is another package, which may be missing.
    """
    addresses, kernel = 4, 6  # capabilities
    physical_64, open_cl, kernel_model, aligned = 2, 2, 6, 2
    void, integer, pointer, signature, one, probe, a, start, bound = range(1, 10)
    module = [
        0x07230203, 0x00010000, 0, bound, 0,
        *make(op.CAPABILITY, addresses),
        *make(op.CAPABILITY, kernel),
        *make(op.MEMORY_MODEL, physical_64, open_cl),
        *make(op.ENTRY_POINT, kernel_model, probe, *words_of("probe")),
        *make(op.TYPE_VOID, void),
        *make(op.TYPE_INT, integer, 32, 0),
        *make(op.TYPE_POINTER, pointer, op.GLOBAL_MEMORY, integer),
        *make(op.TYPE_FUNCTION, signature, void, pointer),
        *make(op.CONSTANT, integer, one, 1),
        *make(op.FUNCTION, void, probe, 0, signature),
        *make(op.PARAMETER, pointer, a),
        *make(op.LABEL, start),
        *make(op.STORE, a, one, aligned, 4),
        *make(op.RETURN),
        *make(op.FUNCTION_END),
    ]
    return struct.pack(f"<{len(module)}I", *module)
