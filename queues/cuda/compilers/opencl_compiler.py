"""OpenCL C to PTX by NVIDIA's OpenCL compiler, which every driver of NVIDIA's brings along.

Its library is called directly. As an "installable client driver" it is entered by clIcdGetPlatformIDsKHR, and the
other functions stand in the table at which the platform object begins (Khronos, cl_khr_icd). So no loader and no file
in /etc/OpenCL/vendors is needed.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Sequence
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_ulong, c_void_p, cast
from typing import Any, NamedTuple

from forebay.core.errors import BuildError, DriverError, NotInstalledError
from forebay.queues.cuda.compilers.ptx import read_ptx
from forebay.queues.cuda.library import CONNECTIONS
from forebay.queues.kernels.build import readable
from forebay.spirv.declarations import Declared

__all__ = ["LIBRARY", "OpenCLPtx", "compile_opencl"]

LIBRARY = "libnvidia-opencl.so.1"

# Places in the table, from Khronos' cl_icd.h.
PLACES = {
    "clGetPlatformInfo": 1, "clGetDeviceIDs": 2, "clGetDeviceInfo": 3, "clCreateContext": 4,
    "clCreateProgramWithSource": 26, "clReleaseProgram": 29, "clBuildProgram": 30, "clGetProgramInfo": 32,
    "clGetProgramBuildInfo": 33, "clCreateKernel": 34, "clReleaseKernel": 37, "clGetKernelArgInfo": 101,
}  # fmt: skip
OBJECTS = ("clCreateContext", "clCreateProgramWithSource", "clCreateKernel")
"""Functions that return an object, with the error through their last parameter."""

ALL_DEVICES = 0xFFFFFFFF
PCI_BUS, PCI_SLOT, PCI_DOMAIN = 0x4008, 0x4009, 0x400A  # cl_nv_device_attribute_query
BINARY_SIZES, BINARIES, BUILD_LOG = 0x1165, 0x1166, 0x1183
ADDRESS, TYPE_NAME, TYPE_QUALIFIER, NAME = 0x1196, 0x1198, 0x1199, 0x119A
GLOBAL, LOCAL, CONSTANT = 0x119B, 0x119C, 0x119D
CONST = 1
REPORT_PARAMETERS = "-cl-kernel-arg-info"


class OpenCLPtx(NamedTuple):
    """What the compiler made: PTX, what it said, and the parameters of the kernels that it reports."""

    ptx: str
    log: str
    declared: dict[str, list[Declared]]


def compile_opencl(source: str, options: Sequence[str], pci: tuple[int, int, int], library: str = LIBRARY) -> OpenCLPtx:
    """Compile OpenCL C for the device at this place of the PCI bus: domain, bus, device.

    Raises
    ------
    BuildError
        With the compiler's log.
    NotInstalledError
        If the library is missing, or has no such device.

    Blocks while it compiles, without the GIL.
    """
    opencl = _load(library)
    return _Build(opencl, *_context(opencl, pci)).compile(source, options)


_making = threading.Lock()


def _context(opencl: _OpenCL, pci: tuple[int, int, int]) -> tuple[c_void_p, c_void_p]:
    with _making:  # the environment is changed meanwhile
        return _made_context(opencl, pci)


@functools.cache
def _made_context(opencl: _OpenCL, pci: tuple[int, int, int]) -> tuple[c_void_p, c_void_p]:
    """A context of the device at this place, and the device. It lives as long as the process, as CUDA's does.

    For NVIDIA's driver it is a context of the GPU, which takes 0.2 s to make.
    """
    device = opencl.device_at(pci)
    # Its channels are never used, and with the 32 of CUDA's context it takes many times as long, when other processes
    # make contexts as well. The driver reads the variable each time; a thread that makes a context now gets one, too.
    connections = os.environ.get(CONNECTIONS)
    os.environ[CONNECTIONS] = "1"
    try:
        return opencl.call("clCreateContext", None, 1, (c_void_p * 1)(device), None, None), device
    finally:
        if connections is None:
            del os.environ[CONNECTIONS]
        else:
            os.environ[CONNECTIONS] = connections


class _OpenCL:
    """The library's functions."""

    def __init__(self, library: str) -> None:
        loaded = ctypes.CDLL(library)
        extension = loaded.clGetExtensionFunctionAddress
        extension.restype = c_void_p
        enter = CFUNCTYPE(c_int, c_uint, POINTER(c_void_p), POINTER(c_uint))(extension(b"clIcdGetPlatformIDsKHR"))
        platform = c_void_p()
        status = enter(1, byref(platform), None)
        if status or not platform.value:
            raise NotInstalledError(f"OpenCL C is compiled by NVIDIA's OpenCL, and {library} finds no GPU ({status})")
        self._platform = platform
        table = cast(cast(platform, POINTER(c_void_p))[0] or 0, POINTER(c_void_p))
        self._functions: dict[str, Any] = {}
        for name, place in PLACES.items():
            self._functions[name] = CFUNCTYPE(c_void_p if name in OBJECTS else c_int)(table[place] or 0)

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function; what it makes is returned. Raises `DriverError`."""
        status, made = self.attempt(name, *arguments)
        if status:
            raise DriverError(f"{name} failed with {status}", call=name, code=status)
        return made

    def attempt(self, name: str, *arguments: Any) -> tuple[int, Any]:
        """Call a function; return its status and what it makes."""
        if name not in OBJECTS:
            return self._functions[name](*arguments), None
        status = c_int()
        made = self._functions[name](*arguments, byref(status))
        return status.value, c_void_p(made)

    def text(self, name: str, *arguments: Any) -> str:
        """Return the str that a function for information gives."""
        nbytes = c_size_t()
        self.call(name, *arguments, c_size_t(0), None, byref(nbytes))
        data = ctypes.create_string_buffer(nbytes.value)
        self.call(name, *arguments, c_size_t(nbytes.value), data, None)
        return data.value.decode(errors="replace")

    def number(self, name: str, *arguments: Any) -> int:
        """Return the number that a function for information gives: of four or eight bytes."""
        value = c_ulong()
        self.call(name, *arguments, c_size_t(8), byref(value), None)
        return value.value

    def device_at(self, pci: tuple[int, int, int]) -> c_void_p:
        """Return the device at this place."""
        count = c_uint()
        self.call("clGetDeviceIDs", self._platform, c_ulong(ALL_DEVICES), 0, None, byref(count))
        devices = (c_void_p * count.value)()
        self.call("clGetDeviceIDs", self._platform, c_ulong(ALL_DEVICES), count, devices, None)
        for each in map(c_void_p, devices):
            domain, bus, slot = (self.number("clGetDeviceInfo", each, what) for what in (PCI_DOMAIN, PCI_BUS, PCI_SLOT))
            # A slot has been seen as the device alone (580, H100), and is told to have the function in its lowest bits.
            if (domain, bus) == pci[:2] and slot in (pci[2], pci[2] << 3):
                return each
        raise NotInstalledError(f"OpenCL C is compiled by NVIDIA's OpenCL, which has no device at {pci} of the PCI bus")


@functools.cache
def _load(library: str) -> _OpenCL:
    try:
        return _OpenCL(library)
    except OSError:
        raise NotInstalledError(
            f"OpenCL C is compiled by NVIDIA's OpenCL, whose library {library} was not found: it comes with the "
            "driver (Debian, Ubuntu: libnvidia-compute; in a container NVIDIA_DRIVER_CAPABILITIES=compute,utility)"
        ) from None


class _Build:
    """Programs in one context."""

    def __init__(self, opencl: _OpenCL, context: c_void_p, device: c_void_p) -> None:
        self._opencl, self._context, self._device = opencl, context, device

    def compile(self, source: str, options: Sequence[str]) -> OpenCLPtx:
        program = self._program(source)
        try:
            if not self._build(program, [REPORT_PARAMETERS, *options]):
                ptx = self._ptx(program)
                names = [each.name for each in read_ptx(ptx).entries]
                return OpenCLPtx(ptx, self._log(program, source), self._declared(program, names))
        finally:
            self._opencl.call("clReleaseProgram", program)
        program = self._program(source)
        try:
            if self._build(program, options):
                log = self._log(program, source)
                raise BuildError(f"the program does not build\n{log}", log=log)
            ptx = self._ptx(program)
            return OpenCLPtx(ptx, self._log(program, source), self._declared_elsewhere(source, options, ptx))
        finally:
            self._opencl.call("clReleaseProgram", program)

    def _declared_elsewhere(self, source: str, options: Sequence[str], ptx: str) -> dict[str, list[Declared]]:
        """The parameters of a program that builds only without REPORT_PARAMETERS, because some kernels have none.

        For each kernel without parameters a macro of its name adds one. The same source then builds.
        """
        entries = read_ptx(ptx).entries
        without = [each.name for each in entries if not each.parameters]
        named = [each.name for each in entries if each.parameters]
        macros = "".join(f"#define {name}(_) {name}(int forebay_unused)\n" for name in without)
        program = self._program(macros + source)
        try:
            if self._build(program, [REPORT_PARAMETERS, *options]):
                return {}  # then PTX tells what it can
            return self._declared(program, named)
        finally:
            self._opencl.call("clReleaseProgram", program)

    def _program(self, source: str) -> c_void_p:
        text = c_char_p(source.encode(errors="surrogateescape"))
        made: c_void_p = self._opencl.call("clCreateProgramWithSource", self._context, 1, byref(text), None)
        return made

    def _build(self, program: c_void_p, options: Sequence[str]) -> int:
        devices = (c_void_p * 1)(self._device)
        words = " ".join(options).encode(errors="surrogateescape")
        return int(self._opencl.attempt("clBuildProgram", program, 1, devices, words, None, None)[0])

    def _log(self, program: c_void_p, source: str) -> str:
        log = self._opencl.text("clGetProgramBuildInfo", program, self._device, BUILD_LOG).strip("\0 \n")
        return readable(log, source) or log

    def _ptx(self, program: c_void_p) -> str:
        nbytes = c_size_t()
        self._opencl.call("clGetProgramInfo", program, BINARY_SIZES, c_size_t(8), byref(nbytes), None)
        data = ctypes.create_string_buffer(nbytes.value + 1)
        place = c_void_p(ctypes.addressof(data))
        self._opencl.call("clGetProgramInfo", program, BINARIES, c_size_t(8), byref(place), None)
        return data.raw.rstrip(b"\0").decode(errors="replace")

    def _declared(self, program: c_void_p, names: Sequence[str]) -> dict[str, list[Declared]]:
        return {name: self._declared_of(program, name) for name in names}

    def _declared_of(self, program: c_void_p, name: str) -> list[Declared]:
        kernel = self._opencl.call("clCreateKernel", program, name.encode())
        found = list[Declared]()
        try:
            while True:
                nbytes = c_size_t()
                what = kernel, len(found)
                if self._opencl.attempt("clGetKernelArgInfo", *what, NAME, c_size_t(0), None, byref(nbytes))[0]:
                    return found  # there is no parameter of this number
                found.append(self._parameter(kernel, len(found)))
        finally:
            self._opencl.call("clReleaseKernel", kernel)

    def _parameter(self, kernel: c_void_p, index: int) -> Declared:
        name = self._opencl.text("clGetKernelArgInfo", kernel, index, NAME)
        type_name = self._opencl.text("clGetKernelArgInfo", kernel, index, TYPE_NAME)
        address = self._opencl.number("clGetKernelArgInfo", kernel, index, ADDRESS)
        if address in (GLOBAL, CONSTANT):
            qualifiers = self._opencl.number("clGetKernelArgInfo", kernel, index, TYPE_QUALIFIER)
            return Declared(name, type_name, "pointer", 8, address == CONSTANT or bool(qualifiers & CONST))
        return Declared(name, type_name, "local" if address == LOCAL else "value", 0)
