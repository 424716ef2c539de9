"""What clang's LLVM module says of the kernels and the variables: names, types, constness.

A SPIR-V module has none of it: pointers to const are pointers, and a structure is bytes. The debug information of the
LLVM module has it all, also for ``extern "C"`` kernels and for instances of templates, whose mangled names do not tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from forebay.compiler.program import DebugTypes, KernelSignature, Signatures, VariableSignature

QUOTED = r'"(?:[^"\\]|\\[0-9A-Fa-f]{2})*"'
SYMBOL = rf"(?:{QUOTED}|[-\w$.]+)"
PARENTHESES = rf"\((?:{QUOTED}|[^()\"])*\)"
ARGUMENT = re.compile(rf'(?:{QUOTED}|{PARENTHESES}|[^(),"])+')
ARGUMENTS = rf'(?:{QUOTED}|{PARENTHESES}|[^()"])*'
KERNEL = re.compile(rf"define [^@]*\bspir_kernel void @({SYMBOL})\(({ARGUMENTS})\).*!dbg !(\d+)")
BY_VALUE = re.compile(rf"byval{PARENTHESES} align (\d+)")  # a structure
# Those that are local to the module are not reported to the host.
LOCAL = "external |private |internal "
VARIABLE = re.compile(rf"@({SYMBOL}) = (?!{LOCAL})[\w() ]*addrspace\(1\)[\w() ]* (?:global|constant) .*!dbg !(\d+)")
NODE = re.compile(r"^!(\d+) = (?:distinct )?!(.*)", re.MULTILINE)
FIELD = re.compile(rf"(\w+): (?:!(\d+)|({QUOTED})|([^,()]+))")
REFERENCE = re.compile(r"!(\d+)|null")


def read_signatures(module: str) -> Signatures:
    """Read LLVM's text, made with ``-debug-info-kind=limited``."""
    return _Module(module).signatures()


class _Module(DebugTypes):
    def __init__(self, module: str) -> None:
        super().__init__()
        self.nodes = nodes_of(module)
        self.kernels: list[tuple[str, str, list[int]]] = []  # symbol, debug information, alignment of each structure
        self.variables: list[tuple[str, str]] = []
        self.names: dict[tuple[str, int], str] = {}  # of parameters, by function and position
        for line in module.splitlines():
            if line.startswith("define ") and (match := KERNEL.match(line)):
                by_value = [BY_VALUE.search(argument) for argument in ARGUMENT.findall(match[2])]
                self.kernels.append((unquoted(match[1]), match[3], [int(each[1]) if each else 0 for each in by_value]))
            elif line.startswith("@") and (match := VARIABLE.match(line)):
                self.variables.append((unquoted(match[1]), match[2]))
        wanted = {node for _, node, _ in self.kernels}
        for text in self.nodes.values():
            if text.startswith("DILocalVariable(") and "arg: " in text:
                fields = fields_of(text)
                if fields.get("scope") in wanted and "name" in fields:
                    self.names[fields["scope"], int(fields["arg"])] = fields["name"]

    def signatures(self) -> Signatures:
        return Signatures(
            tuple(self._kernel(*each) for each in self.kernels),
            tuple(self._variable(symbol, node) for symbol, node in self.variables),
        )

    def _kernel(self, symbol: str, node: str, alignments: list[int]) -> KernelSignature:
        fields = self.fields(node)
        types = REFERENCE.findall(self.nodes[self.fields(fields["type"])["types"]])[1:]  # the first is the result
        if len(alignments) != len(types):  # an empty structure is left out
            alignments = [0] * len(types)
        parameters = tuple(
            self.parameter(self.names.get((node, index + 1), f"argument_{index}"), type, alignments[index])
            for index, type in enumerate(types)
        )
        return KernelSignature(fields["name"], symbol, parameters, int(fields.get("line", 0)))

    def _variable(self, symbol: str, expression: str) -> VariableSignature:
        fields = self.fields(self.fields(expression)["var"])
        type = self.type_of(fields["type"])
        return VariableSignature(
            fields["name"], symbol, type.name, type.nbytes, type.holds_pointers, int(fields.get("line", 0))
        )

    def members(self, fields: Mapping[str, str]) -> Iterator[str]:
        for match in REFERENCE.finditer(self.nodes.get(fields.get("elements", ""), "")):
            member = self.fields(match[1] or "")
            if member.get("tag") in ("DW_TAG_member", "DW_TAG_inheritance") and "StaticMember" not in member.get(
                "flags", ""
            ):
                yield member.get("baseType", "")

    def fields(self, node: str) -> dict[str, str]:
        return fields_of(self.nodes.get(node, ""))

    def lanes(self, fields: Mapping[str, str]) -> int:
        if "DIFlagVector" not in fields.get("flags", ""):
            return 0
        (extent,) = REFERENCE.findall(self.nodes[fields["elements"]])
        return int(self.fields(extent)["count"])


def nodes_of(module: str) -> dict[str, str]:
    """Return the numbered metadata of LLVM's text."""
    return dict(NODE.findall(module))


def fields_of(text: str) -> dict[str, str]:
    """Return the fields of a node of debug information, references as bare numbers; its kind under the empty name."""
    fields = {
        name: reference or (unquoted(string) if string else word.strip().removeprefix("null"))
        for name, reference, string, word in FIELD.findall(text)
    }
    fields[""] = text.partition("(")[0]
    return fields


def unquoted(symbol: str) -> str:
    """Return a name of LLVM's text without its quotes."""
    if not symbol.startswith('"'):
        return symbol
    escaped = symbol[1:-1].encode(errors="surrogateescape")  # LLVM escapes bytes, of which a character can have several
    name = re.sub(rb"\\([0-9A-Fa-f]{2})", lambda match: bytes([int(match[1], 16)]), escaped)
    return name.decode(errors="surrogateescape")


# -- where in the source the reason is when clang's back end refuses a program: it tells no line itself


# What the back end says, what is looked for in the module, and what that is called in HIP.
REASONS = (
    ("Inline assembly", re.compile(r"\bcall [^@]*\basm .*!dbg !(\d+)"),
     "inline assembly is a GPU's own, and this device has none"),
)  # fmt: skip
BACK_END = re.compile(r"error in backend: (.*)")
IN_FUNCTION = re.compile(r"\(in function: ([^)\s]+)\)")
DEFINED = re.compile(rf"define [^@]*@({SYMBOL})\(.*!dbg !(\d+)")


def explained(log: str, module: str, sources: Mapping[str, str]) -> str:
    """Return the back end's message with the file, the line and a caret, as far as they can be found.

    The LLVM module that clang's log is about has debug information. The sources are the texts of the program and of its
    headers, by name.
    """
    said = BACK_END.search(log)
    if said is None:
        return log
    reason = said[1]
    for words, pattern, meaning in REASONS:
        if words in reason:
            reason = f"{meaning} ({reason})"
            place = next(_places(module, pattern), None)
            break
    else:
        place = _of_function(module, IN_FUNCTION.search(reason))
    return _at(place, f"error: {reason}", sources)


def without_definition(symbols: Sequence[str], module: str, sources: Mapping[str, str]) -> str:
    """Return the messages about functions that are declared and called, and defined nowhere."""
    messages = []
    for symbol in symbols:
        call = re.compile(rf'\b(?:call|invoke) [^@\n]*@"?{re.escape(symbol)}"?\(.*!dbg !(\d+)')
        place = next(_places(module, call), None)
        messages.append(_at(place, f"error: the function {symbol} is declared, and defined nowhere", sources))
    return "\n".join(messages)


def _at(place: tuple[str, int, int] | None, message: str, sources: Mapping[str, str]) -> str:
    """A message with the line that it is about, and a caret."""
    if place is None:
        return message
    file, line, column = place
    lines = sources.get(file, "").splitlines()
    text = f"{file}:{line}:{column}: {message}"
    if 0 < line <= len(lines):
        margin = f"{line:5} | "
        text += f"\n{margin}{lines[line - 1]}\n{' ' * (len(margin) - 2)}| {' ' * max(column - 1, 0)}^"
    return text


def _places(module: str, pattern: re.Pattern[str]) -> Iterator[tuple[str, int, int]]:
    """The file, line and column of the instructions that match; where they were inlined, of the call."""
    nodes = nodes_of(module)
    for match in pattern.finditer(module):
        fields = fields_of(nodes.get(match[1], ""))
        yield _file(nodes, fields.get("scope", "")), int(fields.get("line", 0)), int(fields.get("column", 1))


def _of_function(module: str, match: re.Match[str] | None) -> tuple[str, int, int] | None:
    for symbol, node in DEFINED.findall(module) if match else ():
        if match and unquoted(symbol) == match[1]:
            nodes = nodes_of(module)
            return _file(nodes, node), int(fields_of(nodes[node]).get("line", 0)), 1
    return None


def _file(nodes: Mapping[str, str], scope: str) -> str:
    return fields_of(nodes.get(fields_of(nodes.get(scope, "")).get("file", ""), "")).get("filename", "")
