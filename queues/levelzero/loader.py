"""Finds the Level Zero loader, calls its functions, and names their results.

The launch path calls the driver from compiled code. Calls that happen once for a device go through this module, with
ctypes: every function has its parameter types, and every result is checked. Numbers and layouts follow the Level Zero
specification, version 1.17. This module has the structures that only discovery uses; the others are in calls.hpp.

Importing this module loads nothing, and `load` on a machine without Level Zero costs one failed ``dlopen``.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from ctypes import POINTER, c_char, c_char_p, c_int32, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any, ClassVar

from forebay.core.errors import DriverError, NotSupportedError

__all__ = [
    "GET_DRIVER",
    "RESULT_NAMES",
    "ComputeProperties",
    "DeviceProperties",
    "DriverProperties",
    "ExtensionProperties",
    "InitDriverTypeDesc",
    "IpVersion",
    "LevelZero",
    "MemoryProperties",
    "ModuleProperties",
    "QueueGroupProperties",
    "checked",
    "load",
    "result_name",
]

LIBRARY = "ze_loader.dll" if sys.platform == "win32" else "libze_loader.so.1"
GET_DRIVER = (
    "for an Intel GPU, install the loader and the driver: apt install libze1 libze-intel-gpu1 (Debian, Ubuntu), or "
    "elsewhere the packages level-zero and intel-compute-runtime"
)

INIT_GPU_ONLY = 1 << 0
INIT_DRIVER_TYPE_GPU = 1 << 0

RESULT_NAMES: dict[int, str] = {
    0: "ZE_RESULT_SUCCESS",
    1: "ZE_RESULT_NOT_READY",
    0x70000001: "ZE_RESULT_ERROR_DEVICE_LOST",
    0x70000002: "ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY",
    0x70000003: "ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
    0x70000004: "ZE_RESULT_ERROR_MODULE_BUILD_FAILURE",
    0x70000005: "ZE_RESULT_ERROR_MODULE_LINK_FAILURE",
    0x70000006: "ZE_RESULT_ERROR_DEVICE_REQUIRES_RESET",
    0x70000007: "ZE_RESULT_ERROR_DEVICE_IN_LOW_POWER_STATE",
    0x7FF00001: "ZE_RESULT_EXP_ERROR_DEVICE_IS_NOT_VERTEX",
    0x7FF00002: "ZE_RESULT_EXP_ERROR_VERTEX_IS_NOT_DEVICE",
    0x7FF00003: "ZE_RESULT_EXP_ERROR_REMOTE_DEVICE",
    0x7FF00004: "ZE_RESULT_EXP_ERROR_OPERANDS_INCOMPATIBLE",
    0x7FF00005: "ZE_RESULT_EXP_RTAS_BUILD_RETRY",
    0x7FF00006: "ZE_RESULT_EXP_RTAS_BUILD_DEFERRED",
    0x70010000: "ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS",
    0x70010001: "ZE_RESULT_ERROR_NOT_AVAILABLE",
    0x70020000: "ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE",
    0x70020001: "ZE_RESULT_WARNING_DROPPED_DATA",
    0x78000001: "ZE_RESULT_ERROR_UNINITIALIZED",
    0x78000002: "ZE_RESULT_ERROR_UNSUPPORTED_VERSION",
    0x78000003: "ZE_RESULT_ERROR_UNSUPPORTED_FEATURE",
    0x78000004: "ZE_RESULT_ERROR_INVALID_ARGUMENT",
    0x78000005: "ZE_RESULT_ERROR_INVALID_NULL_HANDLE",
    0x78000006: "ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE",
    0x78000007: "ZE_RESULT_ERROR_INVALID_NULL_POINTER",
    0x78000008: "ZE_RESULT_ERROR_INVALID_SIZE",
    0x78000009: "ZE_RESULT_ERROR_UNSUPPORTED_SIZE",
    0x7800000A: "ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT",
    0x7800000B: "ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT",
    0x7800000C: "ZE_RESULT_ERROR_INVALID_ENUMERATION",
    0x7800000D: "ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION",
    0x7800000E: "ZE_RESULT_ERROR_UNSUPPORTED_IMAGE_FORMAT",
    0x7800000F: "ZE_RESULT_ERROR_INVALID_NATIVE_BINARY",
    0x78000010: "ZE_RESULT_ERROR_INVALID_GLOBAL_NAME",
    0x78000011: "ZE_RESULT_ERROR_INVALID_KERNEL_NAME",
    0x78000012: "ZE_RESULT_ERROR_INVALID_FUNCTION_NAME",
    0x78000013: "ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION",
    0x78000014: "ZE_RESULT_ERROR_INVALID_GLOBAL_WIDTH_DIMENSION",
    0x78000015: "ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_INDEX",
    0x78000016: "ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE",
    0x78000017: "ZE_RESULT_ERROR_INVALID_KERNEL_ATTRIBUTE_VALUE",
    0x78000018: "ZE_RESULT_ERROR_INVALID_MODULE_UNLINKED",
    0x78000019: "ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE",
    0x7800001A: "ZE_RESULT_ERROR_OVERLAPPING_REGIONS",
    0x7800001B: "ZE_RESULT_WARNING_ACTION_REQUIRED",
    0x7800001C: "ZE_RESULT_ERROR_INVALID_KERNEL_HANDLE",
    0x7800001D: "ZE_RESULT_EXT_RTAS_BUILD_RETRY",
    0x7800001E: "ZE_RESULT_EXT_RTAS_BUILD_DEFERRED",
    0x7800001F: "ZE_RESULT_EXT_ERROR_OPERANDS_INCOMPATIBLE",
    0x78000020: "ZE_RESULT_ERROR_SURVIVABILITY_MODE_DETECTED",
    0x78000021: "ZE_RESULT_ERROR_ADDRESS_NOT_FOUND",
    0x78000022: "ZE_RESULT_QUERY_TRUE",
    0x78000023: "ZE_RESULT_QUERY_FALSE",
    0x78000024: "ZE_RESULT_ERROR_INVALID_GRAPH",
    0x78000025: "ZE_RESULT_ERROR_GRAPH_CAPTURE_UNSUPPORTED",
    0x78000026: "ZE_RESULT_ERROR_GRAPH_CAPTURE_INVALIDATED",
    0x78000027: "ZE_RESULT_ERROR_GRAPH_CAPTURE_MERGE_ATTEMPT",
    0x78000028: "ZE_RESULT_ERROR_COMMAND_LIST_NOT_CAPTURING",
    0x78000029: "ZE_RESULT_ERROR_GRAPH_UNJOINED_FORKS",
    0x7800002A: "ZE_RESULT_ERROR_GRAPH_INTERNAL_EVENT",
    0x7FFFFFFE: "ZE_RESULT_ERROR_UNKNOWN",
}
"""Every ``ze_result_t`` by its number, unsigned."""


def result_name(code: int) -> str:
    """Return the specification's name of a result, for example ``"ZE_RESULT_ERROR_DEVICE_LOST"``.

    Parameters
    ----------
    code
        The result of a function, signed or unsigned.

    Returns
    -------
    str
        ``"error 0x…"`` for a number that the specification does not have.
    """
    code &= 0xFFFFFFFF
    return RESULT_NAMES.get(code, f"error {code:#x}")


def checked(call: str, result: int) -> None:
    """Raise unless a function of Level Zero succeeded.

    Parameters
    ----------
    call
        Name of the function.
    result
        Its result.

    Raises
    ------
    DriverError
        With the function, the number and its name.
    """
    code = result & 0xFFFFFFFF
    if code:
        name = result_name(code)
        raise DriverError(f"{call} failed: {name}", call=call, code=code, name=name)


# Structures


class Described(ctypes.Structure):
    """A structure of the API. Each begins with its type and a pointer to an extension structure.

    A subclass gives its type and the further fields. The constructor takes their values by name, and ``stype`` for a
    structure that may have another type.
    """

    STYPE: ClassVar[int]
    stype: int
    next: int | None

    def __init__(self, **values: Any) -> None:
        super().__init__(**{"stype": self.STYPE, **values})


HEAD: list[tuple[str, Any]] = [("stype", c_uint32), ("next", c_void_p)]


class InitDriverTypeDesc(Described):
    """``ze_init_driver_type_desc_t``."""

    STYPE: ClassVar[int] = 0x00020021
    _fields_ = [*HEAD, ("flags", c_uint32)]


class DriverProperties(Described):
    """``ze_driver_properties_t``."""

    STYPE: ClassVar[int] = 0x1
    _fields_ = [*HEAD, ("uuid", c_uint8 * 16), ("version", c_uint32)]
    version: int


class ExtensionProperties(ctypes.Structure):
    """``ze_driver_extension_properties_t``; it has no type of its own."""

    _fields_ = [("name", c_char * 256), ("version", c_uint32)]
    name: bytes


class DeviceProperties(Described):
    """``ze_device_properties_t``.

    With `STYPE` the resolution of the timer is in nanoseconds, rounded; with `STYPE_1_2` it is in cycles per second.
    """

    STYPE: ClassVar[int] = 0x3
    STYPE_1_2 = 0x00020006
    _fields_ = [
        *HEAD,
        ("type", c_uint32),
        ("vendor_id", c_uint32),
        ("device_id", c_uint32),
        ("flags", c_uint32),
        ("subdevice_id", c_uint32),
        ("core_clock_rate", c_uint32),
        ("max_allocation", c_uint64),
        ("max_hardware_contexts", c_uint32),
        ("max_priority", c_uint32),
        ("threads_per_eu", c_uint32),
        ("simd_width", c_uint32),
        ("eus_per_subslice", c_uint32),
        ("subslices_per_slice", c_uint32),
        ("slices", c_uint32),
        ("timer_resolution", c_uint64),
        ("timestamp_bits", c_uint32),
        ("kernel_timestamp_bits", c_uint32),
        ("uuid", c_uint8 * 16),
        ("name", c_char * 256),
    ]
    type: int
    vendor_id: int
    device_id: int
    max_allocation: int
    eus_per_subslice: int
    subslices_per_slice: int
    slices: int
    timer_resolution: int
    timestamp_bits: int
    kernel_timestamp_bits: int
    uuid: Sequence[int]
    name: bytes


class IpVersion(Described):
    """``ze_device_ip_version_ext_t``, which extends the properties of a device."""

    STYPE: ClassVar[int] = 0x0001000F
    _fields_ = [*HEAD, ("version", c_uint32)]
    version: int


class ComputeProperties(Described):
    """``ze_device_compute_properties_t``."""

    STYPE: ClassVar[int] = 0x4
    _fields_ = [
        *HEAD,
        ("max_group_items", c_uint32),
        ("max_group_size", c_uint32 * 3),
        ("max_group_count", c_uint32 * 3),
        ("max_local_bytes", c_uint32),
        ("subgroup_size_count", c_uint32),
        ("subgroup_sizes", c_uint32 * 8),
    ]
    max_group_items: int
    max_group_size: Sequence[int]
    max_group_count: Sequence[int]
    max_local_bytes: int


class ModuleProperties(Described):
    """``ze_device_module_properties_t``."""

    STYPE: ClassVar[int] = 0x5
    _fields_ = [
        *HEAD,
        ("spirv_version", c_uint32),
        ("flags", c_uint32),
        ("float_flags", c_uint32 * 3),
        ("max_argument_bytes", c_uint32),
        ("printf_buffer_size", c_uint32),
        ("native_uuid", c_uint8 * 16),
    ]
    spirv_version: int
    max_argument_bytes: int


class MemoryProperties(Described):
    """``ze_device_memory_properties_t``."""

    STYPE: ClassVar[int] = 0x7
    _fields_ = [
        *HEAD,
        ("flags", c_uint32),
        ("max_clock_rate", c_uint32),
        ("max_bus_width", c_uint32),
        ("total_size", c_uint64),
        ("name", c_char * 256),
    ]
    total_size: int


class QueueGroupProperties(Described):
    """``ze_command_queue_group_properties_t``."""

    STYPE: ClassVar[int] = 0x6
    _fields_ = [*HEAD, ("flags", c_uint32), ("max_fill_pattern", c_size_t), ("queues", c_uint32)]
    flags: int
    max_fill_pattern: int
    queues: int


# Functions

_HANDLE = c_void_p
_HANDLES = POINTER(c_void_p)
_COUNT = POINTER(c_uint32)
_DESCRIPTOR = c_char_p  # bytes out of descriptors.pyx

PARAMETERS: dict[str, tuple[Any, ...]] = {
    "zeInit": (c_uint32,),
    "zeInitDrivers": (_COUNT, _HANDLES, POINTER(InitDriverTypeDesc)),
    "zeDriverGet": (_COUNT, _HANDLES),
    "zeDriverGetApiVersion": (_HANDLE, _COUNT),
    "zeDriverGetProperties": (_HANDLE, POINTER(DriverProperties)),
    "zeDriverGetExtensionProperties": (_HANDLE, _COUNT, POINTER(ExtensionProperties)),
    "zeDriverGetExtensionFunctionAddress": (_HANDLE, c_char_p, POINTER(c_void_p)),
    "zeDeviceGet": (_HANDLE, _COUNT, _HANDLES),
    "zeDeviceGetProperties": (_HANDLE, POINTER(DeviceProperties)),
    "zeDeviceGetComputeProperties": (_HANDLE, POINTER(ComputeProperties)),
    "zeDeviceGetModuleProperties": (_HANDLE, POINTER(ModuleProperties)),
    "zeDeviceGetMemoryProperties": (_HANDLE, _COUNT, POINTER(MemoryProperties)),
    "zeDeviceGetCommandQueueGroupProperties": (_HANDLE, _COUNT, POINTER(QueueGroupProperties)),
    "zeContextCreate": (_HANDLE, _DESCRIPTOR, _HANDLES),
    "zeContextDestroy": (_HANDLE,),
    "zeCommandListCreate": (_HANDLE, _HANDLE, _DESCRIPTOR, _HANDLES),
    "zeCommandListCreateImmediate": (_HANDLE, _HANDLE, _DESCRIPTOR, _HANDLES),
    "zeCommandListImmediateGetFlags": (_HANDLE, _COUNT),
    "zeCommandListAppendHostFunction": (_HANDLE, c_void_p, c_void_p, c_void_p, _HANDLE, c_uint32, _HANDLES),
    "zeCommandListDestroy": (_HANDLE,),
    "zeEventCounterBasedCreate": (_HANDLE, _HANDLE, _DESCRIPTOR, _HANDLES),
    "zeEventDestroy": (_HANDLE,),
    "zeModuleCreate": (_HANDLE, _HANDLE, _DESCRIPTOR, _HANDLES, _HANDLES),
    "zeModuleDestroy": (_HANDLE,),
    "zeModuleBuildLogGetString": (_HANDLE, POINTER(c_size_t), c_char_p),
    "zeModuleBuildLogDestroy": (_HANDLE,),
    "zeKernelCreate": (_HANDLE, _DESCRIPTOR, _HANDLES),
    "zeKernelDestroy": (_HANDLE,),
    # these belong to the driver, not to the loader: see `LevelZero.extension`
    "zeDeviceGetPriorityLevels": (_HANDLE, POINTER(c_int32), POINTER(c_int32)),
    "zeIntelGetDriverVersionString": (_HANDLE, c_char_p, POINTER(c_size_t)),
}
"""The types of the parameters of every function that is called through ctypes; each returns a ``ze_result_t``."""

Function = Callable[..., int]


class LevelZero:
    """The functions of the loader.

    Attributes
    ----------
    library : ctypes.CDLL
    functions : dict[str, Callable[..., int] or None]
        The functions looked up so far; None for those that this loader lacks. Tests put their own in here.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        self.functions: dict[str, Function | None] = {}

    def function(self, name: str) -> Function | None:
        """Return the function of that name, or None if this loader does not have it."""
        if name not in self.functions:
            function: Any = getattr(self.library, name, None)
            if function is not None:
                function.argtypes = PARAMETERS[name]
                function.restype = c_uint32
            self.functions[name] = function
        return self.functions[name]

    def extension(self, driver: int, name: str) -> Function | None:
        """Return a function that only the driver itself exports, or None if it does not."""
        address = c_void_p()
        if self.result("zeDriverGetExtensionFunctionAddress", driver, name.encode(), ctypes.byref(address)):
            return None
        if not address.value:
            return None
        prototype: Any = ctypes.CFUNCTYPE(c_uint32, *PARAMETERS[name])
        function: Function = prototype(address.value)
        return function

    def result(self, name: str, *arguments: Any) -> int:
        """Call a function and return its result. If the loader lacks it, that is UNSUPPORTED_FEATURE."""
        function = self.function(name)
        return 0x78000003 if function is None else function(*arguments)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function.

        Raises
        ------
        DriverError
            If it fails.
        """
        checked(name, self.result(name, *arguments))

    def create(self, name: str, *arguments: Any) -> int:
        """Call a function whose last parameter takes a handle, and return the handle.

        Raises
        ------
        DriverError
            If it fails.
        """
        handle = c_void_p()
        self.call(name, *arguments, ctypes.byref(handle))
        return handle.value or 0

    def handles(self, name: str, *owner: int) -> list[int]:
        """Return all handles that a function of the form ``…Get(owner, &count, handles)`` lists.

        Raises
        ------
        DriverError
            If it fails.
        """
        count = c_uint32()
        self.call(name, *owner, ctypes.byref(count), None)
        found = (c_void_p * count.value)()
        if count.value:
            self.call(name, *owner, ctypes.byref(count), found)
        return [handle for handle in found[: count.value] if handle]

    def all_of(self, name: str, kind: type[Any], owner: int) -> list[Any]:
        """Return all structures that a function of the form ``…Get(owner, &count, structures)`` fills.

        Raises
        ------
        DriverError
            If it fails.
        """
        count = c_uint32()
        self.call(name, owner, ctypes.byref(count), None)
        found = (kind * count.value)()
        for structure in found:
            if issubclass(kind, Described):
                structure.stype = kind.STYPE
        if count.value:
            self.call(name, owner, ctypes.byref(count), found)
        return list(found[: count.value])

    def drivers(self) -> list[int]:
        """Initialise Level Zero and return the handles of the drivers for GPUs.

        Initialising it again does no harm. The first time may take some tenths of a second in the driver.

        Raises
        ------
        DriverError
            If there is no driver, or none that can start.
        """
        # The loader may have the newer function although the driver does not.
        if self.function("zeInitDrivers") is not None:
            count, gpus = c_uint32(), InitDriverTypeDesc(flags=INIT_DRIVER_TYPE_GPU)
            if self.result("zeInitDrivers", ctypes.byref(count), None, ctypes.byref(gpus)) == 0 and count.value:
                found = (c_void_p * count.value)()
                self.call("zeInitDrivers", ctypes.byref(count), found, ctypes.byref(gpus))
                return [handle for handle in found[: count.value] if handle]
        self.call("zeInit", INIT_GPU_ONLY)
        return self.handles("zeDriverGet")


def load() -> LevelZero:
    """Return the functions of the Level Zero loader, which must be installed where the system looks for libraries.

    Raises
    ------
    NotSupportedError
        If it is not there or cannot be loaded; the message says what to install.
    """
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise NotSupportedError(f"no Level Zero loader ({error}): {GET_DRIVER}") from None
    return LevelZero(library)
