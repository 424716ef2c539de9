"""Compiles C++ for NVIDIA's GPUs by NVRTC, the compiler as a library. It needs neither a GPU nor a driver.

What it makes is machine code of one architecture: PTX of a newer NVRTC is refused by an older driver, while machine
code of the same major version runs. Types and names of parameters come from debug information, for which the program
is compiled a second time, to PTX without optimization. What is known of the kernels stands behind the cubin's end.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import json
import os
import re
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from forebay.core.driver import Language
from forebay.core.errors import BuildError, DriverError, InvalidArgumentError, NotInstalledError, how_to_install
from forebay.queues.cuda.ptx import PtxModule, accesses_of, read_ptx
from forebay.queues.kernels.parameters import (
    CppProgram,
    CppSource,
    DebugTypes,
    KernelInfo,
    KernelSignature,
    ParameterSignature,
    Signatures,
    VariableSignature,
    kernel_info,
    kernels_from,
    variables_from,
)

__all__ = ["Nvrtc", "NvrtcCompiler", "find_nvrtc", "parameters_in", "read_signatures", "with_facts", "without_facts"]

LIBRARY = "libnvrtc.so."
TOOLKIT = "/usr/local/cuda"  # where CUDA's installers put it
RESERVED = re.compile(r"_Z\w*?\d(?:__nv_|cuda3|cub\d|__forebay|cooperative_groups)")  # constants of headers
ADVICE = how_to_install("cuda")


class Outcome(NamedTuple):
    """What NVRTC made of a program: status 0 is success."""

    status: int
    log: str
    cubin: bytes = b""
    ptx: str = ""
    lowered: Mapping[str, str] = {}


class Nvrtc:
    """An NVRTC that was found."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._library = ctypes.CDLL(str(path))
        major, minor = c_int(), c_int()
        self._call("nvrtcVersion", byref(major), byref(minor))
        self.version = major.value, minor.value
        self.includes = tuple(map(str, _includes(path, major.value)))  # folders with the headers that belong to it

    @functools.cached_property
    def architectures(self) -> tuple[int, ...]:
        """The architectures that it knows, such as 90."""
        count = c_int()
        self._call("nvrtcGetNumSupportedArchs", byref(count))
        numbers = (c_int * count.value)()
        self._call("nvrtcGetSupportedArchs", numbers)
        return tuple(numbers)

    def compile(self, source: CppSource) -> Outcome:
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
    """Return the newest NVRTC of a major version up to `most`, that of the driver.

    Wheels come first (``nvidia-cuda-nvrtc``), then a toolkit (``CUDA_HOME``, ``CUDA_PATH``, ``/usr/local/cuda``), then
    what the system's loader finds. Raises `NotInstalledError` if there is none.
    """
    return _find(most, os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""))


@functools.cache
def _find(most: int, *toolkits: str) -> Nvrtc:
    newer = ""
    in_wheels = [each for folder in _wheels() for each in _libraries(folder / "lib")]
    for group in (in_wheels, _in_toolkits((*toolkits, TOOLKIT)), _by_loader(most)):
        for major, path in sorted(group, reverse=True):
            if major > most:
                newer = f": {path} is of CUDA {major}, and this driver of CUDA {most}"
                continue
            try:
                return Nvrtc(path)
            except OSError:
                continue
    wheel = "nvidia-cuda-nvrtc-cu12" if newer and most == 12 else ""
    advice = f"pip install {wheel}" if wheel else ADVICE
    raise NotInstalledError(f"C++ for CUDA is compiled by NVRTC, which was not found{newer}: {advice}")


def _libraries(folder: Path) -> Iterator[tuple[int, Path]]:
    for path in folder.glob(f"{LIBRARY}*"):
        if found := re.fullmatch(r"(\d+)(?:\.\d+)*", path.name.removeprefix(LIBRARY)):
            yield int(found[1]), path


def _wheels() -> list[Path]:
    """The folders of the packages of NVIDIA: ``nvidia/cu13``, ``nvidia/cuda_nvrtc``."""
    spec = importlib.util.find_spec("nvidia")
    places = spec.submodule_search_locations if spec is not None else None
    return [each for place in places or () for each in sorted(Path(place).glob("*/")) if each.is_dir()]


def _in_toolkits(toolkits: Sequence[str]) -> list[tuple[int, Path]]:
    folders = [Path(each, name) for each in toolkits if each for name in ("lib64", "lib", "targets/x86_64-linux/lib")]
    return [each for folder in folders for each in _libraries(folder)]


def _by_loader(most: int) -> list[tuple[int, Path]]:
    return [(major, Path(f"{LIBRARY}{major}")) for major in (most, most - 1)]


def _includes(library: Path, major: int) -> Iterator[Path]:
    """The folders with headers beside a library: of its toolkit, or of the wheels of the same version. Then those of a
    toolkit of that version, because the wheels that another package needs may be without the C++ library.
    """
    roots = [library.parent.parent]
    if "nvidia" in library.parts:
        # Not those of other packages: that of NVSHMEM has an older C++ library.
        roots += [each for each in _wheels() if each.name == f"cu{major}" or each.name.startswith(("cuda_", "curand"))]
    for toolkit in (os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), TOOLKIT):
        if major in {found for found, _ in _in_toolkits([toolkit])}:
            roots.append(Path(toolkit))
    for root in dict.fromkeys(roots):
        for of in (root / "include", root / "targets/x86_64-linux/include"):
            yield from (folder for folder in (of, of / "cccl") if folder.is_dir())


def _strings(values: Collection[str]) -> ctypes.Array[c_char_p]:
    return (c_char_p * len(values))(*[each.encode(errors="surrogateescape") for each in values])


class NvrtcCompiler:
    """NVRTC for one architecture, a `CppCompiler`. CUDA says its version as 13000."""

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
        """Differs for another NVRTC and another architecture."""
        return f"NVRTC {self._nvrtc.version} sm_{self._architecture} {' '.join(self._nvrtc.includes)}"

    @property
    def folders(self) -> Sequence[str]:
        """Where CUDA's own headers are."""
        return self._nvrtc.includes

    def compile(self, source: CppSource) -> CppProgram:
        """As `CppCompiler.compile`; the options are those of NVRTC. Blocks, without the GIL."""

        def made(*more: str) -> Outcome:
            includes = (f"-I{folder}" for folder in self._nvrtc.includes)
            return self._nvrtc.compile(source._replace(options=[*more, *source.options, *includes]))

        with ThreadPoolExecutor(1) as beside:
            described = beside.submit(made, f"-arch=compute_{self._architecture}", "-G", "-w")
            outcome = made(f"-arch=sm_{self._architecture}")
        if outcome.status:
            raise BuildError(f"the program does not compile\n{outcome.log}", log=outcome.log)
        log = outcome.log
        try:
            told = read_signatures(described.result().ptx)
        except ValueError as error:  # an NVRTC that writes it in another way
            told = Signatures((), ())
            log = f"{log}\nwarning: the types of parameters are not known ({error})".strip()
        return _described(outcome, told, log)


def _described(outcome: Outcome, told: Signatures, log: str) -> CppProgram:
    """The program with what PTX and debug information say of it."""
    module = read_ptx(outcome.ptx)
    kernels = _kernels(module, told)
    variables = _variables(module, told)
    follows = any(each.follows for each in variables)
    entries = {each.name: each for each in module.entries}
    infos = tuple(
        kernel_info(
            each, kernels, entries[each.symbol].dynamic_alignment > 0, follows, entries[each.symbol].required_block
        )
        for each in kernels
    )
    accesses = {each.symbol: accesses_of(outcome.ptx, each.symbol) for each in kernels}
    cubin = with_facts(outcome.cubin, infos, variables, accesses)
    return CppProgram(cubin, infos, variables, dict(outcome.lowered), log)


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
        known[each.name]._replace(nbytes=each.nbytes)
        for each in module.variables
        if each.name in known and not RESERVED.match(each.name)
    )


# -- cubins: CUDA's machine code, an ELF file, with what the compiler knew of its kernels behind its end
#
# Machine code says where parameters are, not what they are. SPIR-V has their types in it; for a cubin forebay puts them
# behind it, where CUDA's driver does not look: it gets the cubin alone.

MAGIC = b"forebay facts 2\n"
END = struct.Struct(f"<Q{len(MAGIC)}s")  # bytes of the facts, which come before; the magic

# ELF64: the header, and a header of a section.
ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
# .nv.info sections are attributes: their format, their kind, and their value or the bytes of it.
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
    """Return a cubin with what is known of its kernels and variables, and what the kernels' PTX shows, by symbol."""
    facts = json.dumps([kernels, variables, accesses], separators=(",", ":")).encode()
    return cubin + facts + END.pack(len(facts), MAGIC)


def without_facts(
    code: bytes,
) -> tuple[bytes, tuple[KernelInfo, ...] | None, tuple[VariableSignature, ...], dict[str, list[str]]]:
    """Return the cubin itself, and what is known of it; None for the kernels of a cubin that has no facts. Raises
    `InvalidArgumentError` if they are damaged.
    """
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
    """Return the bytes of each parameter of each kernel, and the size of its groups if that is required. Raises
    `InvalidArgumentError` for a cubin that is cut short.
    """
    try:
        return {name.removeprefix(INFO): _attributes(body) for name, body in _sections(cubin) if name.startswith(INFO)}
    except (struct.error, IndexError, ValueError):
        raise InvalidArgumentError("program: the cubin is cut short") from None


def _sections(cubin: bytes) -> list[tuple[str, bytes]]:
    header = ELF_HEADER.unpack_from(cubin)
    start, size, count, names = header[6], header[11], header[12], header[13]
    if len(cubin) < max(start + size * count, header[5] + header[9] * header[10]):  # the tables of both kinds
        raise ValueError
    sections = [SECTION_HEADER.unpack_from(cubin, start + size * index) for index in range(count)]
    texts = sections[names][4]
    found = []
    for section in sections:
        name = cubin[texts + section[0] : cubin.index(0, texts + section[0])].decode()
        body = cubin[section[4] : section[4] + section[5]]
        if section[1] != 8 and len(body) != section[5]:  # SHT_NOBITS has no bytes
            raise ValueError
        found.append((name, body))
    return found


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


# -- the debug information of a program that NVRTC compiled: DWARF, as numbers in the text of its PTX

DEBUG_SECTION = re.compile(r"\.section\s+(\.debug_\w+)\s*\{(.*?)\}", re.DOTALL)
DIRECTIVE = re.compile(r"\.b(8|16|32|64)\s+([^\n]*)")
WIDTHS = {"8": "<B", "16": "<H", "32": "<I", "64": "<Q"}

# DWARF 2, 7.5.4: the names of what is asked for; all else keeps its number.
TAGS = {
    0x01: "array_type", 0x02: "class_type", 0x04: "enumeration_type", 0x05: "formal_parameter", 0x0D: "member",
    0x0F: "pointer_type", 0x10: "reference_type", 0x13: "structure_type", 0x15: "subroutine_type", 0x16: "typedef",
    0x17: "union_type", 0x1C: "inheritance", 0x1F: "ptr_to_member_type", 0x21: "subrange_type", 0x24: "base_type",
    0x26: "const_type", 0x2E: "subprogram", 0x34: "variable", 0x35: "volatile_type", 0x37: "restrict_type",
    0x39: "namespace", 0x3B: "unspecified_type", 0x42: "rvalue_reference_type",
}  # fmt: skip
ATTRIBUTES = {
    0x02: "location", 0x03: "name", 0x0B: "byte_size", 0x11: "low_pc", 0x22: "is_optional", 0x2F: "upper_bound",
    0x37: "count", 0x3B: "decl_line", 0x3C: "declaration", 0x3E: "encoding", 0x3F: "external", 0x47: "specification",
    0x49: "type", 0x2007: "linkage_name",
}  # fmt: skip
ADDR, DATA2, DATA4, DATA8, STRING, BLOCK1, DATA1, FLAG = 0x01, 0x05, 0x06, 0x07, 0x08, 0x0A, 0x0B, 0x0C
SDATA, UDATA, REF4 = 0x0D, 0x0F, 0x13
FIXED = {ADDR: "<Q", DATA2: "<H", DATA4: "<I", DATA8: "<Q", DATA1: "<B", FLAG: "<B", REF4: "<I"}
UNIT_HEADER = 11  # bytes of a unit's: length, version, place of the abbreviations, size of an address


@dataclass
class Entry:
    """An entry of the debug information."""

    tag: str  # without ``DW_TAG_``
    place: int  # by which others name it
    values: dict[str, int | str] = field(default_factory=dict)  # without ``DW_AT_``; an address is what has it
    children: list[Entry] = field(default_factory=list)


def read_entries(ptx: str) -> dict[int, Entry]:
    """Return the entries by their place; none for PTX without debug information. Raises `ValueError` for what is not
    DWARF 2 to 4 as NVRTC writes it.
    """
    sections = dict(DEBUG_SECTION.findall(ptx))
    if ".debug_info" not in sections:
        return {}
    try:
        abbreviations = _abbreviations(_Numbers(sections[".debug_abbrev"]))
        return _entries(_Numbers(sections[".debug_info"]), abbreviations)
    except (struct.error, KeyError, IndexError) as error:
        raise ValueError(f"debug information in another form ({error!r})") from None


class _Numbers:
    """The bytes of a section, and the names that stand where addresses do."""

    def __init__(self, body: str) -> None:
        data = bytearray()
        self.names: dict[int, str] = {}
        for bits, values in DIRECTIVE.findall(body):
            for value in values.split(","):
                value = value.strip()
                if not re.match(r"-?\d", value):
                    self.names[len(data)] = value.partition("+")[0]
                    value = "0"
                data += struct.pack(WIDTHS[bits], int(value, 0) & (1 << int(bits)) - 1)
        self.data, self.at = bytes(data), 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return int(value)

    def leb(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def string(self) -> str:
        end = self.data.index(0, self.at)
        text = self.data[self.at : end].decode(errors="replace")
        self.at = end + 1
        return text

    def value(self, form: int) -> int | str:
        start = self.at
        if form == STRING:
            return self.string()
        if form in (SDATA, UDATA):
            return self.leb()
        if form == BLOCK1:
            length = self.number("<B")
            self.at += length
            return next((name for place, name in self.names.items() if start < place < self.at), "")
        value = self.number(FIXED[form])
        return self.names.get(start, value)


def _abbreviations(numbers: _Numbers) -> dict[int, tuple[int, bool, list[tuple[int, int]]]]:
    found = {}
    while number := numbers.leb():
        tag, parent = numbers.leb(), bool(numbers.number("<B"))
        forms = list(iter(lambda: (numbers.leb(), numbers.leb()), (0, 0)))
        found[number] = tag, parent, forms
    return found


def _entries(numbers: _Numbers, abbreviations: dict[int, tuple[int, bool, list[tuple[int, int]]]]) -> dict[int, Entry]:
    found: dict[int, Entry] = {}
    above = [Entry("", 0)]
    end = numbers.number("<I") + 4
    numbers.at = UNIT_HEADER
    while numbers.at < end:
        place = numbers.at
        number = numbers.leb()
        if not number:
            if len(above) > 1:
                above.pop()
            continue
        tag, parent, forms = abbreviations[number]
        entry = Entry(TAGS.get(tag, str(tag)), place)
        for attribute, form in forms:
            value = numbers.value(form)
            if attribute in ATTRIBUTES:
                entry.values[ATTRIBUTES[attribute]] = value
        found[place] = entry
        above[-1].children.append(entry)
        if parent:
            above.append(entry)
    return found


ENCODINGS = {
    0x02: "DW_ATE_boolean", 0x04: "DW_ATE_float", 0x05: "DW_ATE_signed", 0x06: "DW_ATE_signed_char",
    0x07: "DW_ATE_unsigned", 0x08: "DW_ATE_unsigned_char", 0x10: "DW_ATE_UTF",
}  # fmt: skip
KINDS = {"base_type": "DIBasicType", "subroutine_type": "DISubroutineType"}


def read_signatures(ptx: str) -> Signatures:
    """Read what the debug information of PTX says of its functions and variables.

    The kernels are all functions that have code, and the variables all that have a place: PTX itself tells which are
    kernels and variables of the program, and the alignment of structures. Raises as `read_entries`.
    """
    entries = read_entries(ptx)
    types = _Types(entries)
    kernels, variables = list[KernelSignature](), list[VariableSignature]()
    for entry in entries.values():
        if entry.tag == "subprogram" and "low_pc" in entry.values:
            kernels.append(types.function(entry))
        elif entry.tag == "variable" and entry.values.get("location"):
            variables.append(types.variable(entry))
    return Signatures(tuple(kernels), tuple(variables))


class _Types(DebugTypes):
    def __init__(self, entries: dict[int, Entry]) -> None:
        super().__init__()
        self.entries = entries

    def function(self, entry: Entry) -> KernelSignature:
        told = self._told(entry)
        parameters = [child for child in entry.children if child.tag == "formal_parameter"]
        symbol = str(told.get("linkage_name", told.get("name", "")))
        return KernelSignature(
            str(told.get("name", symbol)),
            symbol,
            tuple(
                self.parameter(str(each.values.get("name", f"argument_{index}")), str(each.values.get("type", "")))
                for index, each in enumerate(parameters)
            ),
            int(told.get("decl_line", 0)),
        )

    def variable(self, entry: Entry) -> VariableSignature:
        told = self._told(entry)
        symbol = str(told["location"])
        type = self.type_of(str(told.get("type", "")))
        return VariableSignature(
            _plain(str(told.get("name", symbol))), symbol, type.name, type.nbytes, type.holds_pointers,
            int(told.get("decl_line", 0)),
        )  # fmt: skip

    def _told(self, entry: Entry) -> dict[str, int | str]:
        """The attributes of an entry, with those of the declaration that it completes."""
        declared = self.entries.get(int(entry.values.get("specification", 0)))
        return {**(declared.values if declared else {}), **entry.values}

    def fields(self, node: str) -> dict[str, str]:
        entry = self.entries.get(int(node)) if node else None
        if entry is None:
            return {"": ""}
        values = entry.values
        fields = {"": KINDS.get(entry.tag, ""), "tag": f"DW_TAG_{entry.tag}", "node": node}
        if "name" in values:
            fields["name"] = str(values["name"])
        pointed = self.entries.get(int(values.get("type", 0)))
        if pointed is not None and pointed.tag != "unspecified_type":  # void, which LLVM has no entry for
            fields["baseType"] = str(pointed.place)
        fields["size"] = str(8 * self._bytes_of(entry))
        fields["encoding"] = ENCODINGS.get(int(values.get("encoding", 0)), "")
        fields["flags"] = "DIFlagFwdDecl" if values.get("declaration") else ""
        return fields

    def members(self, fields: Mapping[str, str]) -> Iterator[str]:
        for child in self.entries[int(fields["node"])].children:
            if child.tag in ("member", "inheritance") and not child.values.get("external"):
                yield str(child.values.get("type", ""))

    def _bytes_of(self, entry: Entry) -> int:
        if entry.tag != "array_type":
            return int(entry.values.get("byte_size", 0))
        nbytes = self.type_of(str(entry.values.get("type", ""))).nbytes
        for child in entry.children:
            if child.tag == "subrange_type":
                bound = child.values.get("upper_bound")
                nbytes *= int(child.values.get("count", 0)) if bound is None else int(bound) + 1
        return nbytes


def _plain(name: str) -> str:
    """The name in the source of a variable in a namespace, of which NVRTC says the symbol."""
    rest, last = name.removeprefix("_ZN"), name
    while found := re.match(r"\d+", rest):
        end = found.end() + int(found[0])
        last, rest = rest[found.end() : end], rest[end:]
    return last
