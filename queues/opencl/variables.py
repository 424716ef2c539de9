"""Variables of programs: the compiler options that allow them, and their addresses.

OpenCL itself does not let the host reach a variable. Intel's drivers do, with clGetDeviceGlobalVariablePointerINTEL.
Kernels and the SVM commands accept that address (tried on the CPU runtime, 2026.2.0).

The alternative, a kernel that stores the address, does not work on PoCL (3.1): it compiles such a kernel with
-cl-std=CL2.0 although it has no variables, and gives every kernel its own copy.
"""

from __future__ import annotations

import ctypes
from typing import Any

import pyopencl as cl

from forebay.core import errors
from forebay.core.driver import DeviceInfo

CALL = "clGetDeviceGlobalVariablePointerINTEL"
FEATURE = "__opencl_c_program_scope_global_variables"
CL_INVALID_ARG_VALUE = -50  # Intel's drivers return it for a name without a variable
SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_size_t),
    ctypes.POINTER(ctypes.c_void_p)
)  # fmt: skip


class ClVariable:
    """The memory of a variable. It keeps the program alive."""

    handle = 0  # no memory object; only the address is used
    usm_type = "device"

    def __init__(self, program: cl.Program, address: int, nbytes: int) -> None:
        self._program = program
        self.address: int = address
        self.nbytes: int = nbytes


def options_for(device: cl.Device) -> tuple[str, ...] | None:
    """The options that allow variables in global memory at file scope; None if the device has no variables."""
    try:
        if FEATURE in [feature.name for feature in device.opencl_c_features]:
            return ("-cl-std=CL3.0",)
    except (cl.Error, AttributeError):  # before OpenCL 3.0: 2.x always has them, 1.x never
        if device.opencl_c_version.startswith("OpenCL C 2."):
            return ("-cl-std=CL2.0",)
    return None


def find(info: DeviceInfo, program: cl.Program, name: str) -> ClVariable | None:
    """A variable of a program; None if no variable has this name.

    Raises
    ------
    NotSupportedError
        If the driver cannot find variables.
    """
    device: cl.Device = info.native
    call = _call_of(device.platform)
    if call is None:
        lacks = f"no program-scope variables ({FEATURE})" if options_for(device) is None else f"no {CALL}"
        raise errors.NotSupportedError(f"variable {name!r}: {info.name} has {lacks}, so no host can reach one")
    nbytes, address = ctypes.c_size_t(), ctypes.c_void_p()
    error = call(device.int_ptr, program.int_ptr, name.encode(), nbytes, address)
    if error == CL_INVALID_ARG_VALUE:
        return None
    if error or not address.value:
        raise errors.DriverError(f"{CALL} failed: error {error} (variable {name!r})", call=CALL, code=error)
    return ClVariable(program, address.value, nbytes.value)


def _call_of(platform: cl.Platform) -> Any:
    """The extension's function; None if the platform does not have it."""
    library: Any = ctypes.CDLL(cl._cl.__file__)  # the same loader that pyopencl uses, see `calls.load`
    look_up = library.clGetExtensionFunctionAddressForPlatform
    look_up.restype, look_up.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_char_p)
    address = look_up(platform.int_ptr, CALL.encode())
    return SIGNATURE(address) if address else None
