"""Variables of programs: the compiler options that allow them, and where they are in memory.

OpenCL itself gives the host no way to a variable. Intel's drivers have one, clGetDeviceGlobalVariablePointerINTEL. Its
address is good for kernels and for the SVM commands (tried on the CPU runtime, 2026.2.0).

A kernel that stores the address was tried instead: PoCL (3.1) compiles it with -cl-std=CL2.0 although it has no
variables, and gives every kernel its own copy.
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
    """The memory of a variable. It keeps the program."""

    handle = 0  # no memory object: it has an address
    usm_type = "device"

    def __init__(self, program: cl.Program, address: int, nbytes: int) -> None:
        self._program = program
        self.address, self.nbytes = address, nbytes


def options_for(device: cl.Device) -> tuple[str, ...] | None:
    """The options that allow variables in global memory at file scope; None where nothing does."""
    try:
        if FEATURE in [feature.name for feature in device.opencl_c_features]:
            return ("-cl-std=CL3.0",)
    except (cl.Error, AttributeError):  # before OpenCL 3.0: 2.x always has them, 1.x never
        if device.opencl_c_version.startswith("OpenCL C 2."):
            return ("-cl-std=CL2.0",)
    return None


def find(info: DeviceInfo, program: cl.Program, name: str) -> ClVariable | None:
    """A variable of a program; None when no variable has this name.

    Raises
    ------
    NotSupportedError
        When the driver has no such call.
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
    """The extension's function; None when the platform has none."""
    library: Any = ctypes.CDLL(cl._cl.__file__)  # the very loader that pyopencl uses, see `calls.load`
    look_up = library.clGetExtensionFunctionAddressForPlatform
    look_up.restype, look_up.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_char_p)
    address = look_up(platform.int_ptr, CALL.encode())
    return SIGNATURE(address) if address else None
