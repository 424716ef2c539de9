"""What CUDA's driver loads for a program, and the facts about its kernels and variables."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from ctypes import CFUNCTYPE, POINTER, byref, c_int, c_uint, c_void_p
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from forebay.compiler.cache import BinaryCache, Entry, key_of, reads_files
from forebay.compiler.program import KernelInfo
from forebay.compiler.spirv.declarations import Declared
from forebay.core.driver import DeviceInfo, Language, Parameter
from forebay.core.errors import DriverError, InvalidArgumentError, NotInstalledError, NotSupportedError
from forebay.core.intel_cpu import intel_cpu_runtime, shown_to_loader
from forebay.queues.cuda.nvrtc import parameters_in, without_facts
from forebay.queues.cuda.ptx import PtxEntry, PtxParameter, accesses_of, for_cuda, read_ptx
from forebay.queues.kernels.build import readable
from forebay.queues.kernels.parameters import UNTYPED, read_parameter

if TYPE_CHECKING:
    import pyopencl as cl

    from forebay.queues.cuda.driver import CuNative

LANGUAGES = (Language.CUBIN, Language.PTX, Language.OPENCL_C)
DYNAMIC = Declared("dynamic_shared", "uint4*", "local", 0)  # as in the SPIR-V of HIP C++
DYNAMIC_ALIGNMENT = 16

# PTX types in OpenCL C's words. Compilers write u32 for int and unsigned int, and negative numbers are passed more
# often than large ones. The type behind b32 is unknown.
WORDS = {
    "s8": "char", "u8": "char", "s16": "short", "u16": "short", "s32": "int", "u32": "int", "s64": "long",
    "u64": "long", "f16": "half", "f32": "float", "f64": "double",
}  # fmt: skip


class KernelFacts(NamedTuple):
    """A kernel of an image. A local parameter is an 8-byte offset in dynamic shared memory. With `dynamic_shared` the
    last one is that memory itself, at offset 0, and no argument is passed for it.
    """

    name: str  # as in the source
    symbol: str  # its name in the module
    parameters: list[Parameter]
    local_alignments: tuple[int, ...] = ()  # the alignment of each local parameter's offset
    dynamic_shared: bool = False
    required_block: tuple[int, int, int] = (0, 0, 0)  # zeros for any


@dataclass(frozen=True)
class Image:
    """The input of cuModuleLoadDataEx, PTX that ends with a zero or a cubin, and the facts about it."""

    code: bytes
    kernels: list[KernelFacts]
    variables: dict[str, str] = field(default_factory=dict)  # the symbol of each, by its name
    log: str = ""
    accesses: Callable[[str], Sequence[str]] = lambda name: ()  # as in `BuiltProgram`


def build_image(info: DeviceInfo, language: Language, source: str | bytes, options: Sequence[str]) -> Image:
    """Make an image of a program in one of LANGUAGES; it may come from the cache, which all processes share. Raises as
    `DriverDevice.build`, and `NotInstalledError` if a compiler is missing. Blocks while it compiles.
    """
    if language == Language.CUBIN:
        return _of_cubin(source if isinstance(source, bytes) else source.encode())
    text = source.decode(errors="replace") if isinstance(source, bytes) else source
    if language == Language.PTX:
        return _of_ptx(text)
    compiled = _compiled(info, text, tuple(options))
    ptx = compiled.binary.decode(errors="replace")
    return replace(_of_ptx(ptx, compiled.declared, compiled.log), code=for_cuda(ptx).encode() + b"\0")


def _compiled(info: DeviceInfo, source: str, options: tuple[str, ...]) -> Entry:
    """PTX of OpenCL C, from the cache if possible. A source with includes is always compiled: its files may change."""
    native: CuNative = info.native
    if reads_files(source):
        return compile_opencl(info, source, options)
    cache = BinaryCache()
    device = f"{info.driver_version} {native.driver_version} {native.architecture}"
    key = key_of("OpenCL C to PTX", device, source, *options)
    made = Entry.loads(cache.get(key) or b"")
    if made is None:
        made = compile_opencl(info, source, options)
        cache.put(key, made.dumps())
    return made


def facts_of(ptx: str, named: Mapping[str, Sequence[Declared]]) -> list[KernelFacts]:
    """Return the facts about these kernels, with their declared parameters."""
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
    found = []
    for name, (sizes, block) in parameters_in(cubin).items():  # only sizes of parameters are known
        declared = [
            Declared(f"argument_{index}", *((UNTYPED, "pointer") if nbytes == 8 else ("struct", "value")), nbytes)
            for index, nbytes in enumerate(sizes)
        ]
        found.append(_with_parameters(KernelFacts(name, name, [], required_block=block), declared))
    if not found:
        raise InvalidArgumentError("program: the cubin has no kernel")
    return Image(cubin, found)


def _described(kernel: KernelInfo) -> KernelFacts:
    declared = [
        Declared(p.name, p.type_name, "pointer" if p.is_pointer else "value", p.nbytes, p.const, p.alignment)
        for p in kernel.parameters
    ]
    facts = KernelFacts(kernel.symbol, kernel.mangled, [], (), kernel.dynamic_shared, kernel.required_block)
    return _with_parameters(facts, declared)


def _with_parameters(facts: KernelFacts, declared: Sequence[Declared]) -> KernelFacts:
    if facts.dynamic_shared:
        declared = [*declared, DYNAMIC]
        facts = facts._replace(local_alignments=(*facts.local_alignments, DYNAMIC_ALIGNMENT))
    return facts._replace(parameters=[read_parameter(facts.name, i, each, int) for i, each in enumerate(declared)])


def _of_ptx(text: str, named: Mapping[str, Sequence[Declared]] | None = None, log: str = "") -> Image:
    """The image of PTX; `named` has each kernel's parameters as the source declares them."""
    module = read_ptx(text)
    kernels = [_of_entry(each, (named or {}).get(each.name)) for each in module.entries]
    variables = {name: name for name in module.variables if "$" not in name}  # the others are the compiler's own
    code = text.rstrip("\0").encode(errors="replace") + b"\0"
    return Image(code, kernels, variables, log, partial(accesses_of, text))


def _of_entry(entry: PtxEntry, named: Sequence[Declared] | None) -> KernelFacts:
    if named is None or len(named) != len(entry.parameters):
        named = [_declared(entry.name, index, each) for index, each in enumerate(entry.parameters)]
    declared = [
        each._replace(nbytes=parameter.nbytes, alignment=parameter.alignment)
        for each, parameter in zip(named, entry.parameters, strict=True)
    ]
    alignments = tuple(each.alignment for each in entry.parameters if each.space == "shared")
    dynamic_shared = entry.dynamic_shared and not alignments
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
    if parameter.type in ("u64", "b64"):  # C++ pointers look the same here
        return Declared(name, UNTYPED, "pointer", 8)
    word = WORDS.get(parameter.type, "struct")
    return Declared(name, word, "value", parameter.nbytes)


# -- OpenCL C to PTX by NVIDIA's OpenCL compiler, a part of every driver of NVIDIA
#
# Its library is an "installable client driver", entered by clIcdGetPlatformIDsKHR. Its objects begin with a table of
# functions (Khronos, cl_khr_icd), which pyopencl calls. So no file in /etc/OpenCL/vendors is needed.

CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"
OPENCL_LIBRARY = "libnvidia-opencl.so.1"


def compile_opencl(info: DeviceInfo, source: str, options: tuple[str, ...]) -> Entry:
    """Compile OpenCL C, without the GIL. Raises `BuildError`, and `NotInstalledError` without the library or device."""
    import pyopencl as cl

    from forebay.queues.kernels.opencl_c import Compiler, declared_by, names_in

    declared: dict[str, list[Declared]] = {}
    try:
        with _making:  # it changes the environment
            context = _context(OPENCL_LIBRARY, info.native.pci)
        compiler = Compiler(context, replace(info, native=context.devices[0]), options)
        program, reports = compiler.compile(source)
        said = compiler.log_of(program).strip("\0 \n")
        binaries: Any = program.get_info(cl.program_info.BINARIES)  # one per device; there is one device
        with contextlib.suppress(NotSupportedError):  # then only PTX has the types
            if reports:
                declared = {name: declared_by(cl.Kernel(program, name), name) for name in names_in(program)}
            else:
                declared = compiler.declared_elsewhere(program, source)
    except cl.Error as error:
        raise DriverError(f"{error.routine} failed with {error.code}", call=error.routine, code=error.code) from None
    return Entry(binaries[0].rstrip(b"\0"), declared, readable(said, source) or said)


_making = threading.Lock()


@functools.cache
def _context(library: str, pci: tuple[int, int, int]) -> cl.Context:
    """A context of the device at this PCI domain, bus and device, for the life of the process. NVIDIA's takes 0.2 s."""
    import pyopencl as cl

    device = _device_at(pci, _platform(library))
    # One connection, as its channels are never used: with the 32 of CUDA's context this takes many times as long while
    # other processes make contexts. The driver reads the variable each time, also for another thread's context.
    connections = os.environ.get(CONNECTIONS)
    os.environ[CONNECTIONS] = "1"
    try:
        context = cl.Context([device])
    finally:
        if connections is None:
            del os.environ[CONNECTIONS]
        else:
            os.environ[CONNECTIONS] = connections
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(context))  # not released at exit, nor by a forked child
    return context


def _platform(library: str) -> cl.Platform:
    import pyopencl as cl

    try:
        loaded = ctypes.CDLL(library)
    except OSError:
        raise NotInstalledError(
            f"OpenCL C is compiled by NVIDIA's OpenCL, whose library {library} was not found: it comes with the "
            "driver (Debian, Ubuntu: libnvidia-compute; in a container NVIDIA_DRIVER_CAPABILITIES=compute,utility)"
        ) from None
    extension = loaded.clGetExtensionFunctionAddress
    extension.restype = c_void_p
    enter = CFUNCTYPE(c_int, c_uint, POINTER(c_void_p), POINTER(c_uint))(extension(b"clIcdGetPlatformIDsKHR"))
    platform = c_void_p()
    status = enter(1, byref(platform), None)
    if status or not platform.value:
        raise NotInstalledError(f"OpenCL C is compiled by NVIDIA's OpenCL, and {library} finds no GPU ({status})")
    return cl.Platform.from_int_ptr(platform.value)


def _device_at(pci: tuple[int, int, int], platform: cl.Platform) -> cl.Device:
    with shown_to_loader(intel_cpu_runtime()):  # the loader may start here
        devices = platform.get_devices()
    for each in devices:
        # On an H100 (580) the slot is the device number alone; by its documentation the lowest bits are the function.
        if (each.pci_domain_id_nv, each.pci_bus_id_nv) == pci[:2] and each.pci_slot_id_nv in (pci[2], pci[2] << 3):
            return each
    raise NotInstalledError(f"OpenCL C is compiled by NVIDIA's OpenCL, which has no device at {pci} of the PCI bus")
