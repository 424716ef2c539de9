"""What CUDA's driver loads for a program, and what is known of its kernels and variables."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_ulong, c_void_p, cast
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING, Any, NamedTuple

from forebay.core.driver import DeviceInfo, Language, Parameter
from forebay.core.errors import BuildError, DriverError, InvalidArgumentError, NotInstalledError
from forebay.queues.cuda.nvrtc import parameters_in, without_facts
from forebay.queues.cuda.ptx import PtxEntry, PtxModule, PtxParameter, accesses_of, for_cuda, read_ptx
from forebay.queues.kernels.build import readable
from forebay.queues.kernels.cache import BinaryCache, key_of, reads_files
from forebay.queues.kernels.parameters import UNTYPED, KernelInfo, read_parameter
from forebay.spirv.declarations import Declared

if TYPE_CHECKING:
    from forebay.queues.cuda.driver import CuNative

__all__ = ["LANGUAGES", "Image", "KernelFacts", "build_image", "compile_opencl", "facts_of"]

LANGUAGES = (Language.CUBIN, Language.PTX, Language.OPENCL_C)
DYNAMIC = Declared("dynamic_shared", "uint4*", "local", 0)  # as in the SPIR-V of HIP C++
DYNAMIC_ALIGNMENT = 16

# PTX types in the words of OpenCL C. Compilers write u32 for int and for unsigned int, and negative numbers are passed
# more often than large ones. What b32 is nobody knows.
WORDS = {
    "s8": "char", "u8": "char", "s16": "short", "u16": "short", "s32": "int", "u32": "int", "s64": "long",
    "u64": "long", "f16": "half", "f32": "float", "f64": "double",
}  # fmt: skip


class KernelFacts(NamedTuple):
    """A kernel of an image. A local parameter is an offset, a number of 8 bytes, in dynamic shared memory, which begins
    at 0. With `dynamic_shared` the last parameter, a local one, is dynamic shared memory itself: the kernel is passed
    nothing for it, and it comes first, at offset 0.
    """

    name: str  # as users say it
    symbol: str  # its name in the module
    parameters: list[Parameter]
    local_alignments: tuple[int, ...] = ()  # for each local parameter, what its offset is a multiple of
    dynamic_shared: bool = False
    required_block: tuple[int, int, int] = (0, 0, 0)  # zeros for any


@dataclass(frozen=True)
class Image:
    """What cuModuleLoadDataEx takes, PTX that ends with a zero or a cubin, and what is known of it."""

    code: bytes
    kernels: list[KernelFacts]
    variables: dict[str, str] = field(default_factory=dict)  # the symbol of each, by its name
    log: str = ""
    accesses: Callable[[str], Sequence[str]] = lambda name: ()  # as that of `BuiltProgram`


def build_image(info: DeviceInfo, language: Language, source: str | bytes, options: Sequence[str]) -> Image:
    """Make an image of a program in one of LANGUAGES. Raises as `DriverDevice.build`, and `NotInstalledError` if a
    compiler is missing. Blocks while it compiles. What any process has compiled before comes from the cache.
    """
    if language == Language.CUBIN:
        return _of_cubin(source if isinstance(source, bytes) else source.encode())
    text = source.decode(errors="replace") if isinstance(source, bytes) else source
    if language == Language.PTX:
        return _of_ptx(text)
    try:
        compiled = _compiled(info, text, tuple(options))
    except BuildError as error:
        raise BuildError(f"the program does not build on {info.name}\n{error.log}", log=error.log) from None
    image = _of_ptx(compiled.ptx, compiled.declared, compiled.log)
    return replace(image, code=for_cuda(compiled.ptx).encode() + b"\0")


def _compiled(info: DeviceInfo, source: str, options: tuple[str, ...]) -> OpenCLPtx:
    """PTX of OpenCL C, from the cache if possible. What includes files, which may change, is compiled each time."""
    native: CuNative = info.native
    if reads_files(source):
        return compile_opencl(source, options, native.pci)
    cache = BinaryCache()
    device = f"{info.driver_version} {native.driver_version} {native.architecture}"
    key = key_of("OpenCL C to PTX", device, source, *options)
    kept = cache.get(key)
    if kept is not None:
        try:
            ptx, log, declared = json.loads(kept)
            return OpenCLPtx(ptx, log, {name: [Declared(*each) for each in found] for name, found in declared.items()})
        except (ValueError, TypeError, AttributeError):
            pass
    made = compile_opencl(source, options, native.pci)
    cache.put(key, json.dumps(made).encode())
    return made


def facts_of(ptx: str, named: Mapping[str, Sequence[Declared]]) -> list[KernelFacts]:
    """What is known of these kernels of PTX, whose parameters are declared so."""
    return [_of_entry(each, named[each.name]) for each in read_ptx(ptx).entries if each.name in named]


def _of_cubin(code: bytes) -> Image:
    cubin, kernels, variables, accesses = without_facts(code)
    if kernels is not None:
        names = {each.symbol: each.symbol for each in variables} | {each.name: each.symbol for each in variables}
        symbols = {each.symbol: each.mangled for each in kernels}
        return Image(
            cubin,
            [_described(each) for each in kernels],
            names,
            accesses=lambda name: accesses.get(symbols.get(name, ""), ()),
        )
    found = [
        _with_parameters(KernelFacts(name, name, [], required_block=block), [*starmap(_nameless, enumerate(sizes))])
        for name, (sizes, block) in parameters_in(cubin).items()
    ]
    if not found:
        raise InvalidArgumentError("program: the cubin has no kernel")
    return Image(cubin, found)


def _nameless(index: int, nbytes: int) -> Declared:
    """A parameter of which only the size is known."""
    name = f"argument_{index}"
    return Declared(name, UNTYPED, "pointer", 8) if nbytes == 8 else Declared(name, "struct", "value", nbytes)


def _described(kernel: KernelInfo) -> KernelFacts:
    kinds = {True: "pointer", False: "value"}
    declared = [
        Declared(each.name, each.type_name, kinds[each.is_pointer], each.nbytes, each.const, each.alignment)
        for each in kernel.parameters
    ]
    facts = KernelFacts(kernel.symbol, kernel.mangled, [], (), kernel.dynamic_shared, kernel.required_block)
    return _with_parameters(facts, declared)


def _with_parameters(facts: KernelFacts, declared: Sequence[Declared]) -> KernelFacts:
    if facts.dynamic_shared:
        declared = [*declared, DYNAMIC]
        facts = facts._replace(local_alignments=(*facts.local_alignments, DYNAMIC_ALIGNMENT))
    return facts._replace(parameters=[read_parameter(facts.name, i, each, int) for i, each in enumerate(declared)])


def _of_ptx(text: str, named: Mapping[str, Sequence[Declared]] | None = None, log: str = "") -> Image:
    """The image of PTX; `named` has the parameters as a source declares them, by kernel."""
    module = read_ptx(text)
    kernels = [_of_entry(each, (named or {}).get(each.name)) for each in module.entries]
    return Image(
        text.rstrip("\0").encode(errors="replace") + b"\0", kernels, _variables(module), log, partial(accesses_of, text)
    )


def _variables(module: PtxModule) -> dict[str, str]:
    return {each.name: each.name for each in module.variables if "$" not in each.name}  # those are the compiler's own


def _of_entry(entry: PtxEntry, named: Sequence[Declared] | None) -> KernelFacts:
    if named is None or len(named) != len(entry.parameters):
        named = [_declared(entry.name, index, each) for index, each in enumerate(entry.parameters)]
    declared = [
        each._replace(nbytes=parameter.nbytes, alignment=parameter.alignment)
        for each, parameter in zip(named, entry.parameters, strict=True)
    ]
    alignments = tuple(each.alignment for each in entry.parameters if each.space == "shared")
    dynamic_shared = entry.dynamic_alignment > 0 and not alignments
    facts = KernelFacts(entry.name, entry.name, [], alignments, dynamic_shared, entry.required_block)
    return _with_parameters(facts, declared)


def _declared(kernel: str, index: int, parameter: PtxParameter) -> Declared:
    name = parameter.name.removeprefix(f"{kernel}_")
    if parameter.space == "shared":
        return Declared(name, "void*", "local", 8)
    if parameter.is_pointer:
        return Declared(name, "void*", "pointer", 8, parameter.space == "const")
    if not parameter.nbytes:
        return Declared(name, f"{parameter.type}", "value", 0)
    if parameter.type in ("u64", "b64"):  # pointers of C++ are no different here
        return Declared(name, UNTYPED, "pointer", 8)
    word = WORDS.get(parameter.type, "struct")
    return Declared(name, word, "value", parameter.nbytes)


# -- OpenCL C to PTX by NVIDIA's OpenCL compiler, which every driver of NVIDIA's brings along
#
# Its library is called directly. As an "installable client driver" it is entered by clIcdGetPlatformIDsKHR, and the
# other functions stand in the table at which the platform object begins (Khronos, cl_khr_icd). So no loader and no file
# in /etc/OpenCL/vendors is needed.

CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"
OPENCL_LIBRARY = "libnvidia-opencl.so.1"

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


def compile_opencl(
    source: str, options: Sequence[str], pci: tuple[int, int, int], library: str = OPENCL_LIBRARY
) -> OpenCLPtx:
    """Compile OpenCL C for the device at this place of the PCI bus: domain, bus, device. Raises `BuildError` with the
    compiler's log, and `NotInstalledError` if the library is missing, or has no such device. Blocks while it compiles,
    without the GIL.
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
            # The slot is the device alone on an H100 (580); by its documentation the lowest bits are the function.
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
        with self.built(source, [REPORT_PARAMETERS, *options]) as (program, failed):
            if not failed:
                ptx = self._ptx(program)
                names = [each.name for each in read_ptx(ptx).entries]
                return OpenCLPtx(ptx, self._log(program, source), self._declared(program, names))
        with self.built(source, options) as (program, failed):
            if failed:
                log = self._log(program, source)
                raise BuildError(f"the program does not build\n{log}", log=log)
            ptx = self._ptx(program)
            return OpenCLPtx(ptx, self._log(program, source), self._declared_elsewhere(source, options, ptx))

    def _declared_elsewhere(self, source: str, options: Sequence[str], ptx: str) -> dict[str, list[Declared]]:
        """The parameters of a program that builds only without REPORT_PARAMETERS, because some kernels have none.

        For each kernel without parameters a macro of its name adds one. The same source then builds.
        """
        entries = read_ptx(ptx).entries
        without = [each.name for each in entries if not each.parameters]
        named = [each.name for each in entries if each.parameters]
        macros = "".join(f"#define {name}(_) {name}(int forebay_unused)\n" for name in without)
        with self.built(macros + source, [REPORT_PARAMETERS, *options]) as (program, failed):
            return {} if failed else self._declared(program, named)  # if it fails, PTX tells what it can

    @contextlib.contextmanager
    def built(self, source: str, options: Sequence[str]) -> Iterator[tuple[c_void_p, int]]:
        """Build a program, which is released afterwards, and say with which status that failed."""
        text = c_char_p(source.encode(errors="surrogateescape"))
        program: c_void_p = self._opencl.call("clCreateProgramWithSource", self._context, 1, byref(text), None)
        try:
            devices = (c_void_p * 1)(self._device)
            words = " ".join(options).encode(errors="surrogateescape")
            yield program, self._opencl.attempt("clBuildProgram", program, 1, devices, words, None, None)[0]
        finally:
            self._opencl.call("clReleaseProgram", program)

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
