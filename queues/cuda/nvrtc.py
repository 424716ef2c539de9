"""Compiles C++ for NVIDIA's GPUs by NVRTC, the compiler as a library. It needs neither a GPU nor a driver.

The output is machine code of one architecture: an older driver refuses PTX of a newer NVRTC, but runs machine code of
the same major version. Types and names of parameters come from debug information, for which the program is compiled
again without optimization. The facts about kernels follow the end of the cubin.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import io
import json
import os
import re
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from pathlib import Path
from typing import Any, NamedTuple

from forebay.compiler.program import (
    DebugTypes,
    DriverSource,
    KernelInfo,
    KernelSignature,
    ParameterSignature,
    Program,
    Signatures,
    VariableSignature,
    kernel_info,
    kernels_from,
    variables_from,
)
from forebay.core.driver import Language
from forebay.core.errors import BuildError, DriverError, InvalidArgumentError, NotInstalledError, how_to_install
from forebay.queues.cuda.ptx import PtxModule, accesses_of, read_ptx

LIBRARY = "libnvrtc.so."
TOOLKIT = "/usr/local/cuda"  # where CUDA's installers put it
RESERVED = re.compile(r"_Z\w*?\d(?:__nv_|cuda3|cub\d|__forebay|cooperative_groups)")  # constants of headers


class Outcome(NamedTuple):
    """The result of a compilation; status 0 is success."""

    status: int
    log: str
    cubin: bytes = b""
    ptx: str = ""
    lowered: Mapping[str, str] = {}


class Nvrtc:
    """An NVRTC library."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._library = ctypes.CDLL(str(path))
        major, minor = c_int(), c_int()
        self._call("nvrtcVersion", byref(major), byref(minor))
        self.version = major.value, minor.value
        self.includes = tuple(map(str, _includes(path, major.value)))  # folders with the headers that belong to it

    @functools.cached_property
    def architectures(self) -> tuple[int, ...]:
        """Supported architectures, such as 90."""
        count = c_int()
        self._call("nvrtcGetNumSupportedArchs", byref(count))
        numbers = (c_int * count.value)()
        self._call("nvrtcGetSupportedArchs", numbers)
        return tuple(numbers)

    def compile(self, source: DriverSource) -> Outcome:
        """Compile a program. Blocks, without the GIL."""
        program = c_void_p()
        self._call(
            "nvrtcCreateProgram", byref(program), source.text.encode(errors="surrogateescape"), source.name.encode(),
            len(source.headers), _strings(source.headers.values()), _strings(source.headers),
        )  # fmt: skip
        try:
            for each in source.expressions:
                self._call("nvrtcAddNameExpression", program, each.encode())
            status = self._library.nvrtcCompileProgram(program, len(source.options), _strings(source.options))
            log = self._bytes("ProgramLog", program).decode(errors="replace").strip("\0\n ")
            if status:
                return Outcome(status, log or self._error(status))
            cubin = self._bytes("CUBIN", program)
            ptx = self._bytes("PTX", program).decode(errors="replace").rstrip("\0")
            lowered = {}
            for each in source.expressions:
                found = c_char_p()
                self._call("nvrtcGetLoweredName", program, each.encode(), byref(found))
                lowered[each] = (found.value or b"").decode()
            return Outcome(0, log, cubin, ptx, lowered)
        finally:
            self._library.nvrtcDestroyProgram(byref(program))

    def _bytes(self, what: str, program: c_void_p) -> bytes:
        nbytes = c_size_t()
        self._call(f"nvrtcGet{what}Size", program, byref(nbytes))
        data = ctypes.create_string_buffer(nbytes.value)
        self._call(f"nvrtcGet{what}", program, data)
        return data.raw

    def _error(self, status: int) -> str:
        text = self._library.nvrtcGetErrorString
        text.restype = c_char_p
        return (text(status) or b"").decode()

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            error = self._error(status)
            raise DriverError(f"{name} failed: {error}", call=name, code=status, name=error)


def find_nvrtc(most: int) -> Nvrtc:
    """Return the newest NVRTC of a major version up to `most`, the driver's. Raises `NotInstalledError`.

    Wheels come first (``nvidia-cuda-nvrtc``), then a toolkit (``CUDA_HOME``, ``CUDA_PATH``, ``/usr/local/cuda``), then
    what the system's loader finds.
    """
    return _find(most, os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""))


@functools.cache
def _find(most: int, *toolkits: str) -> Nvrtc:
    newer = ""
    by_loader = [(major, Path(f"{LIBRARY}{major}")) for major in (most, most - 1)]
    for group in (_libraries(each / "lib" for each in _wheels()), _in_toolkits(*toolkits, TOOLKIT), by_loader):
        for major, path in sorted(group, reverse=True):
            if major > most:
                newer = f": {path} is of CUDA {major}, and this driver of CUDA {most}"
                continue
            with contextlib.suppress(OSError):
                return Nvrtc(path)
    raise NotInstalledError(f"C++ for CUDA is compiled by NVRTC, which was not found{newer}: {how_to_install('cuda')}")


def _libraries(folders: Iterable[Path]) -> Iterator[tuple[int, Path]]:
    for path in (path for folder in folders for path in folder.glob(f"{LIBRARY}*")):
        if found := re.fullmatch(r"(\d+)(?:\.\d+)*", path.name.removeprefix(LIBRARY)):
            yield int(found[1]), path


def _wheels() -> list[Path]:
    """Folders of NVIDIA's packages: ``nvidia/cu13``, ``nvidia/cuda_nvrtc``."""
    spec = importlib.util.find_spec("nvidia")
    places = spec.submodule_search_locations if spec is not None else None
    return [each for place in places or () for each in sorted(Path(place).glob("*/")) if each.is_dir()]


def _in_toolkits(*toolkits: str) -> Iterator[tuple[int, Path]]:
    libraries = ("lib64", "lib", "targets/x86_64-linux/lib")
    return _libraries(Path(each, name) for each in toolkits if each for name in libraries)


def _includes(library: Path, major: int) -> Iterator[Path]:
    """Header folders: of the library's toolkit, or of wheels of the same version, then of a toolkit of that version,
    because wheels that another package needs may lack the C++ library.
    """
    roots = [library.parent.parent]
    if "nvidia" in library.parts:
        # Not of other packages: NVSHMEM's has an older C++ library.
        roots += [each for each in _wheels() if each.name == f"cu{major}" or each.name.startswith(("cuda_", "curand"))]
    for toolkit in (os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), TOOLKIT):
        if major in {found for found, _ in _in_toolkits(toolkit)}:
            roots.append(Path(toolkit))
    for root in dict.fromkeys(roots):
        for of in (root / "include", root / "targets/x86_64-linux/include"):
            yield from (folder for folder in (of, of / "cccl") if folder.is_dir())


def _strings(values: Collection[str]) -> ctypes.Array[c_char_p]:
    return (c_char_p * len(values))(*[each.encode(errors="surrogateescape") for each in values])


class NvrtcCompiler:
    """NVRTC for one architecture, a `DriverCompiler`. `driver_version` is like 13000."""

    language = Language.CUBIN

    def __init__(self, architecture: tuple[int, int], driver_version: int) -> None:
        self._nvrtc = find_nvrtc(driver_version // 1000)
        self._architecture = architecture[0] * 10 + architecture[1]
        if self._architecture not in self._nvrtc.architectures:
            version = ".".join(map(str, self._nvrtc.version))
            raise NotInstalledError(
                f"NVRTC {version} ({self._nvrtc.path}) does not compile for sm_{self._architecture}: "
                f"{min(self._nvrtc.architectures)} to {max(self._nvrtc.architectures)}; install another version"
            )

    @property
    def identity(self) -> str:
        return f"NVRTC {self._nvrtc.version} sm_{self._architecture} {' '.join(self._nvrtc.includes)}"

    @property
    def folders(self) -> Sequence[str]:
        return self._nvrtc.includes

    def compile(self, source: DriverSource) -> Program:
        """As `DriverCompiler.compile`, with NVRTC's options. Blocks, without the GIL."""

        def made(*more: str) -> Outcome:
            includes = (f"-I{folder}" for folder in self._nvrtc.includes)
            return self._nvrtc.compile(source._replace(options=[*more, *source.options, *includes]))

        # Without optimization, unused code may call undefined functions; -rdc allows that.
        with ThreadPoolExecutor(1) as beside:
            described = beside.submit(made, f"-arch=sm_{self._architecture}", "-G", "-rdc=true", "-w")
            outcome = made(f"-arch=sm_{self._architecture}")
        if outcome.status:
            raise BuildError(f"the program does not compile\n{outcome.log}", log=outcome.log)
        log = outcome.log
        try:
            told = read_signatures(described.result().cubin)
        except ValueError as error:  # another form of debug information
            told = Signatures((), ())
            log = f"{log}\nwarning: the types of parameters are not known ({error})".strip()
        return _described(outcome, told, log)


def _described(outcome: Outcome, told: Signatures, log: str) -> Program:
    module = read_ptx(outcome.ptx)
    kernels = _kernels(module, told)
    variables = _variables(module, told)
    follows = any(each.follows for each in variables)
    entries = {each.name: each for each in module.entries}
    infos = tuple(
        kernel_info(each, kernels, entries[each.symbol].dynamic_shared, follows, entries[each.symbol].required_block)
        for each in kernels
    )
    accesses = {each.symbol: accesses_of(outcome.ptx, each.symbol) for each in kernels}
    cubin = with_facts(outcome.cubin, infos, variables, accesses)
    return Program(cubin, infos, variables, dict(outcome.lowered), log)


def _kernels(module: PtxModule, told: Signatures) -> list[KernelSignature]:
    known = {each.symbol: each for each in told.kernels}
    kernels = []
    for entry in module.entries:
        kernel = known.get(entry.name)
        if kernel is None or len(kernel.parameters) != len(entry.parameters):
            unnamed = [
                ParameterSignature(p.name, "void*" if p.is_pointer else "struct", p.is_pointer, False, 0, 1, True)
                for p in entry.parameters
            ]
            kernel = KernelSignature(entry.name, entry.name, tuple(unnamed), 0)
        parameters = tuple(
            named._replace(nbytes=declared.nbytes, alignment=declared.alignment)
            for named, declared in zip(kernel.parameters, entry.parameters, strict=True)
        )
        kernels.append(kernel._replace(parameters=parameters))
    return kernels


def _variables(module: PtxModule, told: Signatures) -> tuple[VariableSignature, ...]:
    known = {each.symbol: each for each in told.variables}
    return tuple(
        known[name]._replace(nbytes=nbytes)
        for name, nbytes in module.variables.items()
        if name in known and not RESERVED.match(name)
    )


# -- cubins: CUDA's machine code, an ELF file, followed by the compiler's facts about its kernels
#
# Unlike SPIR-V it has no types of parameters, so forebay appends them. CUDA's driver gets the cubin alone.

MAGIC = b"forebay facts 2\n"
END = struct.Struct(f"<Q{len(MAGIC)}s")  # size of the facts, which precede it; the magic

# A .nv.info section has attributes: format, kind, and the value or the size of its bytes.
ATTRIBUTE = struct.Struct("<BBH")
WITH_BYTES = 0x04
REQUIRED_BLOCK, PARAMETER = 0x10, 0x17
PARAMETER_VALUE = struct.Struct("<IHHI")  # …, ordinal, offset, flags with the size in their upper 14 bits
INFO = ".nv.info."


def with_facts(
    cubin: bytes,
    kernels: Sequence[KernelInfo],
    variables: Sequence[VariableSignature],
    accesses: Mapping[str, Sequence[str]],
) -> bytes:
    """Append what is known of a cubin's kernels and variables, and the kernels' accesses by symbol."""
    facts = json.dumps([kernels, variables, accesses], separators=(",", ":")).encode()
    return cubin + facts + END.pack(len(facts), MAGIC)


def without_facts(
    code: bytes,
) -> tuple[bytes, tuple[KernelInfo, ...] | None, tuple[VariableSignature, ...], dict[str, list[str]]]:
    """Split off the facts; kernels are None if there are none. Raises `InvalidArgumentError` if they are damaged."""
    if len(code) < END.size or not code.endswith(MAGIC):
        return code, None, (), {}
    nbytes, _ = END.unpack_from(code, len(code) - END.size)
    start = len(code) - END.size - nbytes
    try:
        kernels, variables, accesses = json.loads(code[start : len(code) - END.size])
        return code[:start], kernels_from(kernels), variables_from(variables), dict(accesses)
    except (ValueError, TypeError, IndexError):
        raise InvalidArgumentError("program: what follows this cubin is damaged") from None


def parameters_in(cubin: bytes) -> dict[str, tuple[list[int], tuple[int, int, int]]]:
    """Return each kernel's parameter sizes and required group size, or raise `InvalidArgumentError` if truncated."""
    from elftools.common.exceptions import ELFError

    try:
        elf = _elf(cubin)
        sections, _ = list(elf.iter_sections()), list(elf.iter_segments())  # these stand at the end
        if any(len(each.data()) != each.data_size for each in sections):
            raise ValueError
        return {
            each.name.removeprefix(INFO): _attributes(each.data()) for each in sections if each.name.startswith(INFO)
        }
    except (ELFError, struct.error, ValueError):
        raise InvalidArgumentError("program: the cubin is cut short") from None


def _attributes(body: bytes) -> tuple[list[int], tuple[int, int, int]]:
    sizes: dict[int, int] = {}
    block = (0, 0, 0)
    at = 0
    while at < len(body):
        form, kind, value = ATTRIBUTE.unpack_from(body, at)
        at += ATTRIBUTE.size
        if form != WITH_BYTES:
            continue
        if kind == PARAMETER:
            _, ordinal, _, flags = PARAMETER_VALUE.unpack_from(body, at)
            sizes[ordinal] = flags >> 18
        elif kind == REQUIRED_BLOCK:
            block = struct.unpack_from("<3I", body, at)
        at += value
    return [sizes[ordinal] for ordinal in sorted(sizes)], block


# -- the debug information of a program that NVRTC compiled: DWARF in its cubin

ENCODINGS = {
    0x02: "DW_ATE_boolean", 0x04: "DW_ATE_float", 0x05: "DW_ATE_signed", 0x06: "DW_ATE_signed_char",
    0x07: "DW_ATE_unsigned", 0x08: "DW_ATE_unsigned_char", 0x10: "DW_ATE_UTF",
}  # fmt: skip
KINDS = {"DW_TAG_base_type": "DIBasicType", "DW_TAG_subroutine_type": "DISubroutineType"}
ADDRESS = 0x03  # DW_OP_addr


def read_signatures(cubin: bytes) -> Signatures:
    """Read signatures from a cubin's debug information; nothing without a cubin. Raises `ValueError` if it has none.

    All functions with code and all variables with an address are returned: PTX has which of them are the program's
    kernels and variables, and the alignment of structures.
    """
    if not cubin:
        return Signatures((), ())
    from elftools.common.exceptions import DWARFError, ELFError

    kernels, variables = list[KernelSignature](), list[VariableSignature]()
    try:
        # Relocation concerns only addresses, which are not read, and a cubin's relocations are of its own kind.
        types = _Types(_elf(cubin).get_dwarf_info(relocate_dwarf_sections=False))
        for entry in types.entries.values():
            if entry.tag == "DW_TAG_subprogram" and "DW_AT_low_pc" in entry.attributes:
                kernels.append(types.function(entry))
            elif entry.tag == "DW_TAG_variable":
                location = _of(entry, "location")  # a local variable has no address, or a list of places
                if isinstance(location, list) and location[0] == ADDRESS:
                    variables.append(types.variable(entry))
    except (DWARFError, ELFError, KeyError) as error:
        raise ValueError(f"debug information in another form ({error!r})") from None
    return Signatures(tuple(kernels), tuple(variables))


def _elf(cubin: bytes) -> Any:
    from elftools.elf.elffile import ELFFile

    return ELFFile(io.BytesIO(cubin))


def _of(entry: Any, attribute: str, default: Any = "") -> Any:
    found = entry.attributes.get(f"DW_AT_{attribute}")
    value = default if found is None else found.value
    return value.decode(errors="replace") if isinstance(value, bytes) else value


class _Types(DebugTypes):
    def __init__(self, dwarf: Any) -> None:
        super().__init__()
        self.entries = {entry.offset: entry for unit in dwarf.iter_CUs() for entry in unit.iter_DIEs() if entry.tag}

    def function(self, entry: Any) -> KernelSignature:
        parameters = [child for child in entry.iter_children() if child.tag == "DW_TAG_formal_parameter"]
        symbol = _symbol(entry)
        return KernelSignature(
            _told(entry, "name", symbol),
            symbol,
            tuple(
                self.parameter(_of(each, "name", f"argument_{index}"), self._type(each))
                for index, each in enumerate(parameters)
            ),
            _told(entry, "decl_line", 0),
        )

    def variable(self, entry: Any) -> VariableSignature:
        symbol = _symbol(entry)
        type = self.type_of(self._type(_declaration(entry)))
        return VariableSignature(
            _plain(_told(entry, "name", symbol)), symbol, type.name, type.nbytes, type.holds_pointers,
            _told(entry, "decl_line", 0),
        )  # fmt: skip

    def _type(self, entry: Any) -> str:
        """The entry of its type; empty for void, for which LLVM has none."""
        if "DW_AT_type" not in entry.attributes:
            return ""
        type = entry.get_DIE_from_attribute("DW_AT_type")
        return "" if type.tag == "DW_TAG_unspecified_type" else str(type.offset)

    def fields(self, node: str) -> dict[str, str]:
        if not node:
            return {"": ""}
        entry = self.entries[int(node)]
        fields = {"": KINDS.get(entry.tag, ""), "tag": entry.tag, "node": node, "baseType": self._type(entry)}
        if "DW_AT_name" in entry.attributes:
            fields["name"] = _of(entry, "name")
        fields["size"] = str(8 * self._bytes_of(entry))
        fields["encoding"] = ENCODINGS.get(_of(entry, "encoding"), "")
        fields["flags"] = "DIFlagFwdDecl" if _of(entry, "declaration") else ""
        return fields

    def members(self, fields: Mapping[str, str]) -> Iterator[str]:
        for child in self.entries[int(fields["node"])].iter_children():
            if child.tag in ("DW_TAG_member", "DW_TAG_inheritance") and not _of(child, "external"):
                yield self._type(child)

    def _bytes_of(self, entry: Any) -> int:
        if entry.tag != "DW_TAG_array_type":
            return int(_of(entry, "byte_size", 0))
        nbytes = self.type_of(self._type(entry)).nbytes
        for child in entry.iter_children():
            if child.tag == "DW_TAG_subrange_type":
                nbytes *= _of(child, "count", 0) or _of(child, "upper_bound", -1) + 1
        return nbytes


def _declaration(entry: Any) -> Any:
    """The declaration that an entry completes, or the entry itself."""
    return entry.get_DIE_from_attribute("DW_AT_specification") if "DW_AT_specification" in entry.attributes else entry


def _told(entry: Any, attribute: str, default: Any) -> Any:
    """An attribute of the entry or of its declaration."""
    return _of(entry, attribute, _of(_declaration(entry), attribute, default))


def _symbol(entry: Any) -> str:
    return str(_told(entry, "MIPS_linkage_name", _told(entry, "name", "")))


def _plain(name: str) -> str:
    """The source name of a variable in a namespace, for which NVRTC gives the symbol."""
    rest, last = name.removeprefix("_ZN"), name
    while found := re.match(r"\d+", rest):
        end = found.end() + int(found[0])
        last, rest = rest[found.end() : end], rest[end:]
    return last
