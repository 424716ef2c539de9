"""What CUDA's driver loads for a program, and what is known of its kernels and variables."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, Protocol

from forebay.core.driver import DeviceInfo, Language, Parameter
from forebay.core.errors import BuildError, InvalidArgumentError
from forebay.queues.cuda.compilers.cubin import parameters_in, without_facts
from forebay.queues.cuda.compilers.nvrtc import NvrtcCompiler
from forebay.queues.cuda.compilers.opencl_compiler import OpenCLPtx, compile_opencl
from forebay.queues.cuda.compilers.opencl_ptx import for_cuda
from forebay.queues.cuda.compilers.ptx import PtxEntry, PtxModule, PtxParameter, read_ptx
from forebay.queues.cuda.compilers.ptx_access import accesses_of
from forebay.queues.kernels.cache import BinaryCache, key_of, reads_files
from forebay.queues.kernels.parameters import UNTYPED, KernelInfo, read_parameter
from forebay.spirv.declarations import Declared

__all__ = ["LANGUAGES", "Image", "KernelFacts", "NativeDevice", "build_image", "cpp_compiler"]

LANGUAGES = (Language.CUBIN, Language.PTX, Language.OPENCL_C)
DYNAMIC = Declared("dynamic_shared", "uint4*", "local", 0)  # as in the SPIR-V of HIP C++
DYNAMIC_ALIGNMENT = 16

# PTX types in the words of OpenCL C. Compilers write u32 for int and for unsigned int, and negative numbers are passed
# more often than large ones. What b32 is nobody knows.
WORDS = {
    "s8": "char", "u8": "char", "s16": "short", "u16": "short", "s32": "int", "u32": "int", "s64": "long",
    "u64": "long", "f16": "half", "f32": "float", "f64": "double",
}  # fmt: skip


class NativeDevice(Protocol):
    """What is asked of `DeviceInfo.native`."""

    @property
    def architecture(self) -> tuple[int, int]:
        """The compute capability: ``(9, 0)``."""

    @property
    def driver_version(self) -> int:
        """The version of CUDA that the driver has, as it says it: 13000."""

    @property
    def pci(self) -> tuple[int, int, int]:
        """Domain, bus and device."""


class KernelFacts(NamedTuple):
    """A kernel of an image.

    Attributes
    ----------
    name
        As users say it.
    symbol
        Its name in the module.
    parameters
        A local one is an offset, a number of 8 bytes, in dynamic shared memory, which begins at 0.
    local_alignments
        For each local parameter, what its offset is a multiple of.
    dynamic_shared
        Whether the last parameter, a local one, is dynamic shared memory itself: the kernel is passed nothing for it,
        and it comes first, at offset 0.
    required_block
        Zeros for any.
    """

    name: str
    symbol: str
    parameters: list[Parameter]
    local_alignments: tuple[int, ...] = ()
    dynamic_shared: bool = False
    required_block: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True)
class Image:
    """What cuModuleLoadDataEx takes, PTX that ends with a zero or a cubin, and what is known of it."""

    code: bytes
    kernels: list[KernelFacts]
    variables: dict[str, str] = field(default_factory=dict)
    """The symbol of each variable, by its name."""
    log: str = ""
    accesses: Callable[[str], Sequence[str]] = lambda name: ()
    """As that of `Natives`."""


def build_image(info: DeviceInfo, language: Language, source: str | bytes, options: Sequence[str]) -> Image:
    """Make an image of a program in one of LANGUAGES.

    Raises
    ------
    BuildError
        If it does not compile; with the compiler's log.
    InvalidArgumentError
        For a cubin that is cut short.
    NotInstalledError
        If a compiler is missing.
    NotSupportedError
        For a parameter that CUDA's driver does not take.

    Blocks while it compiles. What any process has compiled before comes from the cache.
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
    native: NativeDevice = info.native
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


def cpp_compiler(info: DeviceInfo) -> NvrtcCompiler:
    """Return the compiler of C++ for a device. Raises `NotInstalledError`."""
    native: NativeDevice = info.native
    return NvrtcCompiler(native.architecture, native.driver_version)


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
        KernelFacts(
            name, name, [read_parameter(name, i, _nameless(i, nbytes), int) for i, nbytes in enumerate(sizes)],
            required_block=block,
        )
        for name, (sizes, block) in parameters_in(cubin).items()
    ]  # fmt: skip
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
    return _facts(kernel.symbol, kernel.mangled, declared, (), kernel.dynamic_shared, kernel.required_block)


def _facts(
    name: str,
    symbol: str,
    declared: Sequence[Declared],
    alignments: tuple[int, ...],
    dynamic_shared: bool,
    required_block: tuple[int, int, int],
) -> KernelFacts:
    if dynamic_shared:
        declared = [*declared, DYNAMIC]
        alignments = (*alignments, DYNAMIC_ALIGNMENT)
    parameters = [read_parameter(name, index, each, int) for index, each in enumerate(declared)]
    return KernelFacts(name, symbol, parameters, alignments, dynamic_shared, required_block)


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
    return _facts(
        entry.name, entry.name, declared, alignments, entry.dynamic_alignment > 0 and not alignments,
        entry.required_block,
    )  # fmt: skip


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
