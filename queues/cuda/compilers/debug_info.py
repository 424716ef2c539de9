"""The debug information of a program that NVRTC compiled: DWARF, as numbers in the text of its PTX."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from forebay.queues.kernels.parameters import DebugTypes, KernelSignature, Signatures, VariableSignature

__all__ = ["Entry", "read_entries", "read_signatures"]

SECTION = re.compile(r"\.section\s+(\.debug_\w+)\s*\{(.*?)\}", re.DOTALL)
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
HEADER = 11  # bytes of a unit's: length, version, place of the abbreviations, size of an address


@dataclass
class Entry:
    """An entry of the debug information.

    Attributes
    ----------
    tag : str
        Without ``DW_TAG_``.
    place : int
        By which others name it.
    values : dict
        The attributes, without ``DW_AT_``. An address is the name of what is there.
    children : list of Entry
    """

    tag: str
    place: int
    values: dict[str, int | str] = field(default_factory=dict)
    children: list[Entry] = field(default_factory=list)


def read_entries(ptx: str) -> dict[int, Entry]:
    """Return the entries by their place; none for PTX without debug information.

    Raises
    ------
    ValueError
        For what is not DWARF 2 to 4 as NVRTC writes it.
    """
    sections = dict(SECTION.findall(ptx))
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
    numbers.at = HEADER
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
    kernels and variables of the program, and the alignment of structures.

    Raises
    ------
    ValueError
        As `read_entries`.
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
