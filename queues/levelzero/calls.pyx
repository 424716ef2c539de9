"""Loads the table of calls from the Level Zero loader, and names the calls and their results in errors."""

import ctypes
import sys

from libc.stdint cimport uintptr_t

from forebay.core.driver cimport Status

from forebay.core.driver import fill_table
from forebay.core.errors import DriverError, NotSupportedError, OutOfMemoryError

LIBRARY = "ze_loader.dll" if sys.platform == "win32" else "libze_loader.so.1"
GET_DRIVER = (
    "for an Intel GPU, install the loader and the driver: apt install libze1 libze-intel-gpu1 (Debian, Ubuntu), or "
    "elsewhere the packages level-zero and intel-compute-runtime"
)
OUT_OF_MEMORY = (0x70000002, 0x70000003, 0x78000009)  # host memory, device memory, unsupported size

CALL_NAMES: tuple[str, ...] = tuple([(b"ze" + call_names[i]).decode() for i in range(N_CALLS)])

# Newer than forebay requires. Without them forebay uses something else, or raises an error when they are needed.
_NEWER = {
    "zeInitDrivers", "zeCommandListImmediateGetFlags", "zeCommandListAppendHostFunction",
    "zeCommandListImmediateAppendCommandListsExp", "zeEventCounterBasedCreate", "zeCommandListGetNextCommandIdExp",
    "zeCommandListUpdateMutableCommandsExp",
}

# Every ze_result_t by its number, unsigned
RESULT_NAMES: dict[int, str] = {
    0: "ZE_RESULT_SUCCESS", 1: "ZE_RESULT_NOT_READY", 0x70000001: "ZE_RESULT_ERROR_DEVICE_LOST",
    0x70000002: "ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY", 0x70000003: "ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
    0x70000004: "ZE_RESULT_ERROR_MODULE_BUILD_FAILURE", 0x70000005: "ZE_RESULT_ERROR_MODULE_LINK_FAILURE",
    0x70000006: "ZE_RESULT_ERROR_DEVICE_REQUIRES_RESET", 0x70000007: "ZE_RESULT_ERROR_DEVICE_IN_LOW_POWER_STATE",
    0x7FF00001: "ZE_RESULT_EXP_ERROR_DEVICE_IS_NOT_VERTEX", 0x7FF00002: "ZE_RESULT_EXP_ERROR_VERTEX_IS_NOT_DEVICE",
    0x7FF00003: "ZE_RESULT_EXP_ERROR_REMOTE_DEVICE", 0x7FF00004: "ZE_RESULT_EXP_ERROR_OPERANDS_INCOMPATIBLE",
    0x7FF00005: "ZE_RESULT_EXP_RTAS_BUILD_RETRY", 0x7FF00006: "ZE_RESULT_EXP_RTAS_BUILD_DEFERRED",
    0x70010000: "ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS", 0x70010001: "ZE_RESULT_ERROR_NOT_AVAILABLE",
    0x70020000: "ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE", 0x70020001: "ZE_RESULT_WARNING_DROPPED_DATA",
    0x78000001: "ZE_RESULT_ERROR_UNINITIALIZED", 0x78000002: "ZE_RESULT_ERROR_UNSUPPORTED_VERSION",
    0x78000003: "ZE_RESULT_ERROR_UNSUPPORTED_FEATURE", 0x78000004: "ZE_RESULT_ERROR_INVALID_ARGUMENT",
    0x78000005: "ZE_RESULT_ERROR_INVALID_NULL_HANDLE", 0x78000006: "ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE",
    0x78000007: "ZE_RESULT_ERROR_INVALID_NULL_POINTER", 0x78000008: "ZE_RESULT_ERROR_INVALID_SIZE",
    0x78000009: "ZE_RESULT_ERROR_UNSUPPORTED_SIZE", 0x7800000A: "ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT",
    0x7800000B: "ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT", 0x7800000C: "ZE_RESULT_ERROR_INVALID_ENUMERATION",
    0x7800000D: "ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION", 0x7800000E: "ZE_RESULT_ERROR_UNSUPPORTED_IMAGE_FORMAT",
    0x7800000F: "ZE_RESULT_ERROR_INVALID_NATIVE_BINARY", 0x78000010: "ZE_RESULT_ERROR_INVALID_GLOBAL_NAME",
    0x78000011: "ZE_RESULT_ERROR_INVALID_KERNEL_NAME", 0x78000012: "ZE_RESULT_ERROR_INVALID_FUNCTION_NAME",
    0x78000013: "ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION",
    0x78000014: "ZE_RESULT_ERROR_INVALID_GLOBAL_WIDTH_DIMENSION",
    0x78000015: "ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_INDEX",
    0x78000016: "ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE",
    0x78000017: "ZE_RESULT_ERROR_INVALID_KERNEL_ATTRIBUTE_VALUE", 0x78000018: "ZE_RESULT_ERROR_INVALID_MODULE_UNLINKED",
    0x78000019: "ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE", 0x7800001A: "ZE_RESULT_ERROR_OVERLAPPING_REGIONS",
    0x7800001B: "ZE_RESULT_WARNING_ACTION_REQUIRED", 0x7800001C: "ZE_RESULT_ERROR_INVALID_KERNEL_HANDLE",
    0x7800001D: "ZE_RESULT_EXT_RTAS_BUILD_RETRY", 0x7800001E: "ZE_RESULT_EXT_RTAS_BUILD_DEFERRED",
    0x7800001F: "ZE_RESULT_EXT_ERROR_OPERANDS_INCOMPATIBLE", 0x78000020: "ZE_RESULT_ERROR_SURVIVABILITY_MODE_DETECTED",
    0x78000021: "ZE_RESULT_ERROR_ADDRESS_NOT_FOUND", 0x78000022: "ZE_RESULT_QUERY_TRUE",
    0x78000023: "ZE_RESULT_QUERY_FALSE", 0x78000024: "ZE_RESULT_ERROR_INVALID_GRAPH",
    0x78000025: "ZE_RESULT_ERROR_GRAPH_CAPTURE_UNSUPPORTED", 0x78000026: "ZE_RESULT_ERROR_GRAPH_CAPTURE_INVALIDATED",
    0x78000027: "ZE_RESULT_ERROR_GRAPH_CAPTURE_MERGE_ATTEMPT", 0x78000028: "ZE_RESULT_ERROR_COMMAND_LIST_NOT_CAPTURING",
    0x78000029: "ZE_RESULT_ERROR_GRAPH_UNJOINED_FORKS", 0x7800002A: "ZE_RESULT_ERROR_GRAPH_INTERNAL_EVENT",
    0x7FFFFFFE: "ZE_RESULT_ERROR_UNKNOWN",
}


def load() -> None:
    """Fill the table from the Level Zero loader, which must be installed where the system looks for libraries. One call
    is enough.

    Raises
    ------
    NotSupportedError
        If it is not there or cannot be loaded; the message says what to install.
    ImportError
        If it is too old to have one of the functions that forebay requires.
    """
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise NotSupportedError(f"no Level Zero loader ({error}): {GET_DRIVER}") from None
    fill_table(<uintptr_t> &ze, CALL_NAMES, library, _NEWER, "the Level Zero loader",
               "upgrade it (Debian, Ubuntu: libze1)")


def result_name(code: int) -> str:
    """The specification's name of a result, signed or unsigned; "error 0x…" for a number that it does not have."""
    code &= 0xFFFFFFFF
    return RESULT_NAMES.get(code, f"error {code:#x}")


def explain(Status status) -> tuple[str, int, str]:
    """(call, code, name of the code) of a failed operation."""
    code = status & 0xFFFFFFFF
    return CALL_NAMES[status >> 32], code, result_name(code)


cdef int check(Status status, str what="") except -1:
    """Raise for a failed call. The message ends with `what`."""
    if status == 0:
        return 0
    call, code, name = explain(status)
    message = f"{call} failed: {name} ({what})" if what else f"{call} failed: {name}"
    if code in OUT_OF_MEMORY:
        raise OutOfMemoryError(message)
    raise DriverError(message, call=call, code=code, name=name)
