"""Reads and changes PTX, and has the PTX of forebay's own kernels.

`read_ptx` reads entries, parameters and variables by their directives (PTX ISA, "Kernel and Function Directives",
"State Spaces"), `accesses_of` the instructions. `for_cuda` adapts the output of NVIDIA's OpenCL compiler.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Iterator
from typing import NamedTuple

from forebay.compiler.spirv.access import ATOMICS, READS, UNKNOWN, WRITES
from forebay.compiler.spirv.declarations import Declared
from forebay.core.errors import NotSupportedError

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
NAME = r"(?:[A-Za-z][\w$]*|[_$%][\w$]+)"
FUNCTION = re.compile(rf"\.(entry|func)\s+(?:\([^)]*\)\s*)?({NAME})\s*(?:\(([^)]*)\))?([^{{;]*)([{{;])")
PARAMETER = re.compile(
    r"\.param\s+(?P<outer>\.align\s+\d+\s+)?\.(?P<type>\w+)"
    r"(?P<pointer>\s+\.ptr(?:\s+\.(?P<space>global|shared|local|const))?)?"
    rf"(?:\s+\.align\s+(?P<inner>\d+))?\s+(?P<name>{NAME})\s*(?P<dimensions>(?:\[\d+\])*)"
)
VARIABLE = re.compile(
    r"(?:^|(?<=[;{}\n]))\s*(?P<linkage>\.(?:visible|extern|weak|common)\s+)?\.(?P<space>global|const|shared)\s"
    rf"(?P<rest>(?:\.attribute\([^)]*\)|[^;={{}}()])*?)\.(?P<type>\w+)\s+(?P<name>{NAME})\s*(?P<dimensions>(?:\[\d*\])*)\s*(?=[;=])"
)
BLOCK = re.compile(r"\.reqntid\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")
ALIGNMENT = re.compile(r"\.align\s+(\d+)")
VECTOR = re.compile(r"\.v([248])\b")
WORD = re.compile(NAME)
# A value loaded from a parameter is an address if it is converted to a global one, or used as one.
LOADED = re.compile(rf"ld\.param\.[bus]64\s+({NAME})\s*,\s*\[\s*({NAME})\s*\]")
ADDRESS = re.compile(rf"cvta\.to\.global\.u64\s+{NAME}\s*,\s*({NAME})|\[\s*({NAME})\s*(?:\+-?\d+\s*)?\]")


class PtxParameter(NamedTuple):
    """A parameter of an entry."""

    name: str
    type: str  # as in PTX: "u64"; of an array, which is how structures are passed, the type of its elements
    nbytes: int
    alignment: int  # for a pointer to shared memory that of its target
    is_pointer: bool  # declared as one, or its value is used as an address
    space: str  # of its target: "global", "shared", "local", "const"; empty if undeclared


class PtxEntry(NamedTuple):
    """A kernel. `dynamic_shared`: whether it, or a function that it uses, has dynamic shared memory."""

    name: str
    parameters: tuple[PtxParameter, ...]
    required_block: tuple[int, int, int]
    dynamic_shared: bool


class PtxModule(NamedTuple):
    """A module's kernels, and the bytes of each variable in global or constant memory."""

    entries: tuple[PtxEntry, ...]
    variables: dict[str, int]


def read_ptx(text: str) -> PtxModule:
    """Read the entries and the variables that are allocated in this module."""
    code = without_comments(text)
    functions = [(match, _body(code, match)) for match in FUNCTION.finditer(code)]
    variables, dynamic = dict[str, int](), set[str]()
    for match in VARIABLE.finditer(code):
        is_extern = (match["linkage"] or "").strip() == ".extern"
        if match["space"] == "shared":
            dynamic |= {match["name"]} if is_extern else set()
        elif not is_extern:
            variables[match["name"]] = _bytes_of_variable(match)
    using = _users(functions, dynamic)
    return PtxModule(
        tuple(_entry(match, body, match[2] in using) for match, body in functions if match[1] == "entry" and body),
        variables,
    )


def without_comments(text: str) -> str:
    """Return PTX without its comments; lines stay where they are."""
    return COMMENT.sub(lambda match: "\n" * match[0].count("\n") or " ", text.rstrip("\0"))


def _body(code: str, match: re.Match[str]) -> str:
    """The text between the braces of a function; empty for a declaration."""
    if match[5] == ";":
        return ""
    depth, start = 1, match.end()
    for brace in re.finditer(r"[{}]", code[start:]):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return code[start : start + brace.start()] or " "
    return code[start:]


def _users(functions: list[tuple[re.Match[str], str]], dynamic: set[str]) -> set[str]:
    """Functions that use one of these variables, directly or through a function that they name."""
    known = {match[2]: set(WORD.findall(body)) for match, body in functions if body} if dynamic else {}
    using = set[str]()
    while found := {name for name, words in known.items() if words & (dynamic | using)} - using:
        using |= found
    return using


def _entry(match: re.Match[str], body: str, dynamic_shared: bool) -> PtxEntry:
    loaded = dict(LOADED.findall(body))
    addresses = {loaded.get(a or b, "") for a, b in ADDRESS.findall(body)} if loaded else set[str]()
    block = BLOCK.search(match[4])
    return PtxEntry(
        match[2],
        tuple(_parameters(match[3] or "", addresses)),
        (int(block[1]), int(block[2] or 1), int(block[3] or 1)) if block else (0, 0, 0),
        dynamic_shared,
    )


def _parameters(text: str, addresses: set[str]) -> Iterator[PtxParameter]:
    for match in PARAMETER.finditer(text):
        element = _bytes_of(match["type"])
        nbytes = element
        for dimension in re.findall(r"\d+", match["dimensions"]):
            nbytes *= int(dimension)
        pointed = bool(match["pointer"])
        outer = ALIGNMENT.search(match["outer"] or "")
        # With .ptr the alignment is that of the target.
        inner = match["inner"] if not pointed or match["space"] == "shared" else None
        alignment = int(outer[1]) if outer else int(inner or element or 1)
        is_pointer = pointed or (not match["dimensions"] and match["name"] in addresses)
        yield PtxParameter(match["name"], match["type"], nbytes, alignment, is_pointer, match["space"] or "")


def _bytes_of_variable(match: re.Match[str]) -> int:
    vector = VECTOR.search(match["rest"])
    nbytes = _bytes_of(match["type"]) * (int(vector[1]) if vector else 1)
    for dimension in re.findall(r"\[(\d*)\]", match["dimensions"]):
        nbytes *= int(dimension or 0)
    return nbytes


def _bytes_of(type: str) -> int:
    """The bytes of a fundamental type; 0 for others, such as texref."""
    bits = re.fullmatch(r"(?:[bus]|f|bf)(8|16|32|64|128)(?:x2)?|pred", type)
    if not bits:
        return 0
    return int(bits[1] or 8) // 8 * (2 if type.endswith("x2") and type[:1] == "f" else 1)


# -- accesses: what kernels do with the memory that their parameters point to, as far as their instructions show
#
# PTX ISA, "Instruction Set". A register is an address if any instruction, in any order, computes it from a parameter.

INSTRUCTION = re.compile(r"(?:@!?[%\w$]+\s+)?([a-z]\w*(?:[.:]+\w+)*)\s*(.*)", re.DOTALL)
REGISTER = re.compile(r"%[A-Za-z_$][\w$]*")
MEMORY = re.compile(r"\[([^\]]*)\]")
FIRST_OPERAND = re.compile(r"\s*(\{[^}]*\}|[^,\s]+)")
# Labels and .loc.
WITHOUT_SEMICOLON = re.compile(r"^[ \t]*(?:[$%\w]+:(?!:)|\.loc\b[^\n]*)", re.MULTILINE)
# Instructions that only read at their addresses, or branch on a value.
READING = {
    "ld", "ldu", "prefetch", "prefetchu", "ldmatrix", "setp", "bra", "brx", "ret", "exit", "bar", "barrier", "membar",
    "fence", "isspacep", "tex", "trap",
}  # fmt: skip


def accesses_of(text: str, symbol: str) -> list[str]:
    """Return the access through each parameter of a kernel, as ``spirv.access.accesses_of``, or nothing."""
    code = without_comments(text)
    for match in FUNCTION.finditer(code):
        if match.group(1, 2) == ("entry", symbol) and (body := _body(code, match)):
            try:
                return _accesses([each["name"] for each in PARAMETER.finditer(match[3] or "")], body)
            except ValueError:
                return []
    return []


def _accesses(parameters: list[str], body: str) -> list[str]:
    instructions = list(_instructions(body))
    index = {name: at for at, name in enumerate(parameters)}
    origins: dict[str, int] = {}  # by register: a mask of the parameters that its value comes from
    changed = True
    while changed:
        changed = False
        for kind, operands in instructions:
            mask = _origin(kind, operands, index, origins)
            first = FIRST_OPERAND.match(operands)
            for register in REGISTER.findall(first[1]) if mask and first else ():
                if origins.get(register, 0) | mask != origins.get(register, 0):
                    origins[register] = origins.get(register, 0) | mask
                    changed = True
    written = atomic = lost = 0
    for kind, operands in instructions:
        name = kind.partition(".")[0]
        places = _mask(" ".join(MEMORY.findall(operands)), origins)
        if name in ("st", "call"):
            written |= places if name == "st" else 0
            lost |= _mask(MEMORY.sub(" ", operands), origins)  # the address escapes
        elif name in ("atom", "red"):
            first = FIRST_OPERAND.match(operands) if name == "atom" else None
            lost |= _mask(MEMORY.sub(" ", operands[first.end() :] if first else operands), origins)
            atomic |= places
        elif name not in READING and not kind.startswith("wmma.load"):
            written |= places
    return [
        WRITES if written >> at & 1 else UNKNOWN if lost >> at & 1 else ATOMICS if atomic >> at & 1 else READS
        for at in range(len(parameters))
    ]


def _origin(kind: str, operands: str, index: dict[str, int], origins: dict[str, int]) -> int:
    name = kind.partition(".")[0]
    if kind.startswith("ld.param"):
        named = re.match(rf"\s*({NAME})", (MEMORY.findall(operands) or [""])[0])
        return 1 << index[named[1]] if named and named[1] in index else 0
    if name in READING or name in ("st", "atom", "red", "call") or MEMORY.search(operands):
        return 0
    if name == "mov":  # mov.u64 of a parameter's own address
        own = [index[each] for each in re.findall(NAME, operands) if each in index]
        if own:
            return 1 << own[0]
    first = FIRST_OPERAND.match(operands)
    return _mask(operands[first.end() :], origins) if first else 0


def _mask(text: str, origins: dict[str, int]) -> int:
    return functools.reduce(operator.or_, (origins.get(register, 0) for register in REGISTER.findall(text)), 0)


def _instructions(body: str) -> Iterator[tuple[str, str]]:
    """Split into opcode, with its qualifiers, and operands."""
    for statement in WITHOUT_SEMICOLON.sub(" ", body).split(";"):
        text = statement.strip(" \t\r\n{}")
        match = INSTRUCTION.match(text)
        if match:
            yield match[1], match[2]
        elif text and not text.startswith("."):
            raise ValueError(f"this is no instruction of PTX: {text.split(chr(10))[0]!r}")


# -- OpenCL: changes to the PTX of NVIDIA's OpenCL compiler, so that CUDA's driver takes it
#
# Each change is anchored to a directive or an instruction. If anything of OpenCL's own is left, it is refused.
#
# =============================== ==================================== =================================================
# In OpenCL's PTX                 becomes
# =============================== ==================================== =================================================
# ``texmode_independent``         nothing                              it is about samplers
# ``.ptr .shared`` of a parameter nothing                              refused by CUDA; see `_local_parameters`
# ``.const``, if a parameter is   ``.global``                          for CUDA a ``constant`` parameter is an ordinary
# ``.ptr .const``                                                      address, and a function may get either
# ``%envreg0`` to 5               0                                    number of the first group, global offset
# ``%envreg6`` to 8               ``%nctaid``                          number of groups
# ``%envreg9``                    computed                             number of dimensions
# ``.func … vprintf``             ``.extern .func``                    CUDA's driver has it
# =============================== ==================================== =================================================

TARGET = re.compile(r"^(\s*\.target\s+\w+)\s*,\s*texmode_independent\b", re.MULTILINE)
ADDRESS_SIZE = re.compile(r"^\s*\.address_size\s+64\s*?$", re.MULTILINE)
ENVIRONMENT = re.compile(rf"^(\s*mov\.[bus]32\s+)({NAME})(\s*,\s*)%envreg(\d+)\s*;", re.MULTILINE)
LOCAL = re.compile(rf"(\.param\s+\.[bu]64)\s+\.ptr\s+\.shared\s+\.align\s+(\d+)(\s+)({NAME})")
CONSTANT = re.compile(r"(\.param\s+\.[bu]64\s+\.ptr\s+)\.const\b")
CONSTANT_VARIABLE = re.compile(r"^(\s*(?:\.(?:visible|extern|weak)\s+)?)\.const\b", re.MULTILINE)
CONSTANT_USE = re.compile(r"^(\s*(?:@!?%\w+\s+)?(?:ld|cvta|prefetch)(?:\.\w+)*?)\.const\b", re.MULTILINE)
PRINTF = re.compile(r"^(\s*)(\.func\s+\([^)]*\)\s*vprintf\b)", re.MULTILINE)
OBJECT = re.compile(r"\.(texref|surfref|samplerref)\b")
LEFT = re.compile(r"%envreg\d+|\.ptr\s+\.shared\b")

WORDS = {"texref": "an image", "surfref": "an image", "samplerref": "a sampler"}
SHARED = "forebay_dynamic_shared"
DIMENSIONS = """\
	{{
	.reg .pred %forebay_more;
	.reg .b32 %forebay_threads, %forebay_groups;
	mov.u32 %forebay_threads, %ntid.y;
	mov.u32 %forebay_groups, %nctaid.y;
	mul.lo.u32 %forebay_threads, %forebay_threads, %forebay_groups;
	setp.gt.u32 %forebay_more, %forebay_threads, 1;
	selp.b32 {0}, 2, 1, %forebay_more;
	mov.u32 %forebay_threads, %ntid.z;
	mov.u32 %forebay_groups, %nctaid.z;
	mul.lo.u32 %forebay_threads, %forebay_threads, %forebay_groups;
	setp.gt.u32 %forebay_more, %forebay_threads, 1;
	selp.b32 {0}, 3, {0}, %forebay_more;
	}}"""


def for_cuda(ptx: str) -> str:
    """Adapt PTX of NVIDIA's OpenCL compiler. Raises `NotSupportedError` for images, samplers and other remains."""
    ptx = without_comments(ptx)
    if found := OBJECT.search(ptx):
        raise NotSupportedError(
            f"the program has {WORDS[found[1]]} ({found[0]}): images and samplers of OpenCL are not supported on CUDA"
        )
    ptx = TARGET.sub(r"\1", ptx)
    ptx = ENVIRONMENT.sub(_environment, ptx)
    ptx = PRINTF.sub(r"\1.extern \2", ptx)
    if CONSTANT.search(ptx):
        ptx = CONSTANT.sub(r"\1.global", ptx)
        ptx = CONSTANT_VARIABLE.sub(r"\1.global", ptx)
        ptx = CONSTANT_USE.sub(r"\1.global", ptx)
        _refuse(re.search(r"\.const\b", ptx))
    ptx = _local_parameters(ptx)
    _refuse(LEFT.search(ptx))
    return ptx


def _refuse(found: re.Match[str] | None) -> None:
    if found:
        raise NotSupportedError(f"the program's PTX has {found[0]}, which CUDA's driver does not take from OpenCL")


def _environment(match: re.Match[str]) -> str:
    number = int(match[4])
    if number < 6:
        return f"{match[1]}{match[2]}{match[3]}0;"
    if number < 9:
        return f"{match[1]}{match[2]}{match[3]}%nctaid.{'xyz'[number - 6]};"
    return DIMENSIONS.format(match[2]) if number == 9 else match[0]


def _local_parameters(ptx: str) -> str:
    """Turn local parameters into offsets in dynamic shared memory: each load adds its start.

    The address is unknown: it follows the system's part, of a size that no call reports, and static shared memory.
    """
    found = LOCAL.findall(ptx)
    if not found:
        return ptx
    ptx = LOCAL.sub(r"\1\3\4", ptx)
    for _, _, _, name in found:
        # A load has the name in brackets, the declaration does not.
        load = re.compile(rf"^(\s*)ld\.param\.[bu]64\s+({NAME})\s*,\s*\[\s*{re.escape(name)}\s*\]\s*;", re.MULTILINE)
        ptx, loads = load.subn(
            rf"\g<0>\n\1{{ .reg .b64 %forebay_base; mov.u64 %forebay_base, {SHARED}; "
            r"add.s64 \2, \2, %forebay_base; }",
            ptx,
        )
        if len(re.findall(rf"(?<![\w$]){re.escape(name)}(?![\w$])", ptx)) != loads + 1:
            raise NotSupportedError(f"the program's PTX uses the local parameter {name} in a way that is not known")
    alignment = max(int(align) for _, align, _, _ in found)
    declaration = f"\n.extern .shared .align {max(alignment, 16)} .b8 {SHARED}[];"
    return ADDRESS_SIZE.sub(lambda match: match[0] + declaration, ptx, count=1)


# -- forebay's own kernels, loaded with the context
#
# A later load would wait while any gate is closed, and opening that gate may need one of these.

HEAD = """
.version 7.0
.target sm_70
.address_size 64
"""


def _index(axis: str, to: str, spare: str) -> str:
    """The number of this work-item in the launch. Leaves the group's size in %size."""
    return f"""mov.u32 %group, %ctaid.{axis};
    mov.u32 %size, %ntid.{axis};
    mov.u32 %item, %tid.{axis};
    mul.wide.u32 {to}, %group, %size;
    cvt.u64.u32 {spare}, %item;
    add.u64 {to}, {to}, {spare};"""


# Fills with a pattern of 8 to 128 bytes, which no driver call does: word i becomes word i & mask of the pattern.
FILL = """
.visible .entry fill(.param .u64 to, .param .u64 count, .param .u32 mask, .param .align 4 .b8 pattern[128])
{{
    .reg .u64 %to, %count, %i, %stride, %offset, %pattern;
    .reg .u32 %mask, %group, %size, %item, %word;
    .reg .pred %past;
    ld.param.u64 %to, [to];
    ld.param.u64 %count, [count];
    ld.param.u32 %mask, [mask];
    mov.u64 %pattern, pattern;
    {i}
    mov.u32 %group, %nctaid.x;
    mul.wide.u32 %stride, %group, %size;
NEXT:
    setp.ge.u64 %past, %i, %count;
    @%past bra END;
    cvt.u32.u64 %item, %i;
    and.b32 %item, %item, %mask;
    mul.wide.u32 %offset, %item, 4;
    add.u64 %offset, %pattern, %offset;
    ld.param.u32 %word, [%offset];
    shl.b64 %offset, %i, 2;
    add.u64 %offset, %to, %offset;
    st.global.u32 [%offset], %word;
    add.u64 %i, %i, %stride;
    bra NEXT;
END:
    ret;
}}
"""

# Strided copies: queues/memory/shapes.py has the same in OpenCL C.
MOVE = """
.visible .entry move_{unit}({parameters})
{{
    .reg .u64 %{registers};
    .reg .u64 %x, %row, %step, %y, %z, %w, %rest, %there, %here;
    .reg .u32 %group, %size, %item;
    .reg .{register} %value;
    .reg .pred %past;
    {loads}
    {x}
    setp.ge.u64 %past, %x, %nx;
    @%past bra END;
    mad.lo.u64 %to_start, %x, %to_x, %to_start;
    mad.lo.u64 %from_start, %x, %from_x, %from_start;
    {row}
    mov.u32 %group, %nctaid.y;
    mul.wide.u32 %step, %group, %size;
NEXT:
    setp.ge.u64 %past, %row, %rows;
    @%past bra END;
    rem.u64 %y, %row, %ny;
    div.u64 %rest, %row, %ny;
    rem.u64 %z, %rest, %nz;
    div.u64 %w, %rest, %nz;
    mad.lo.u64 %there, %y, %to_y, %to_start;
    mad.lo.u64 %there, %z, %to_z, %there;
    mad.lo.u64 %there, %w, %to_w, %there;
    mad.lo.u64 %there, %there, {size}, %to;
    mad.lo.u64 %here, %y, %from_y, %from_start;
    mad.lo.u64 %here, %z, %from_z, %here;
    mad.lo.u64 %here, %w, %from_w, %here;
    mad.lo.u64 %here, %here, {size}, %from;
    ld.global.{type} %value, [%here];
    st.global.{type} [%there], %value;
    add.u64 %row, %row, %step;
    bra NEXT;
END:
    ret;
}}
"""

UNITS = {
    "uchar": (1, "u8", "u16"), "ushort": (2, "u16", "u16"), "uint": (4, "u32", "u32"), "ulong": (8, "u64", "u64"),
}  # fmt: skip
MOVE_PARAMETERS = (
    "to", "to_start", "from", "from_start", "rows",
    "nx", "to_x", "from_x", "ny", "to_y", "from_y", "nz", "to_z", "from_z", "to_w", "from_w",
)  # fmt: skip


def _move(unit: str) -> str:
    size, type_name, register = UNITS[unit]
    return MOVE.format(
        unit=unit, size=size, type=type_name, register=register, registers=", %".join(MOVE_PARAMETERS),
        parameters=", ".join(f".param .u64 p_{name}" for name in MOVE_PARAMETERS),
        loads="\n    ".join(f"ld.param.u64 %{name}, [p_{name}];" for name in MOVE_PARAMETERS),
        x=_index("x", "%x", "%rest"), row=_index("y", "%row", "%rest"),
    )  # fmt: skip


def _declared_move(unit: str, name: str) -> Declared:
    if name in ("to", "from"):
        return Declared(name, f"{unit}*", "pointer", 8, name == "from")
    return Declared(name, "long" if name[-2:] in ("_x", "_y", "_z", "_w") else "ulong", "value", 8)


MOVES = {f"move_{unit}": [_declared_move(unit, name) for name in MOVE_PARAMETERS] for unit in UNITS}
"""The kernels for strided copies, with their parameters."""

OWN_KERNELS = HEAD + FILL.format(i=_index("x", "%i", "%offset")) + "".join(map(_move, UNITS))
"""The text of all own kernels."""
