"""forebay's own kernels, in PTX: they are loaded with the context.

Loading a program later waits while any gate is closed, and what needs one of these may be what opens the gate.
"""

from __future__ import annotations

from forebay.spirv.declarations import Declared

__all__ = ["MOVES", "PTX"]

HEAD = """
.version 7.0
.target sm_70
.address_size 64
"""

# A pattern of 8 to 128 bytes, which no call of the driver fills with: word i of the memory is word i & mask of it.
FILL = """
.visible .entry fill(.param .u64 to, .param .u64 count, .param .u32 mask, .param .align 4 .b8 pattern[128])
{
    .reg .u64 %to, %count, %i, %stride, %offset, %pattern;
    .reg .u32 %mask, %group, %size, %item, %word;
    .reg .pred %past;
    ld.param.u64 %to, [to];
    ld.param.u64 %count, [count];
    ld.param.u32 %mask, [mask];
    mov.u64 %pattern, pattern;
    mov.u32 %group, %ctaid.x;
    mov.u32 %size, %ntid.x;
    mov.u32 %item, %tid.x;
    mul.wide.u32 %i, %group, %size;
    cvt.u64.u32 %offset, %item;
    add.u64 %i, %i, %offset;
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
}
"""

# Strided memory: in PTX what queues/memory/shapes.py has in OpenCL C.
MOVE = """
.visible .entry move_{unit}({parameters})
{{
    .reg .u64 %{registers};
    .reg .u64 %x, %row, %step, %y, %z, %w, %rest, %there, %here;
    .reg .u32 %group, %size, %item;
    .reg .{register} %value;
    .reg .pred %past;
    {loads}
    mov.u32 %group, %ctaid.x;
    mov.u32 %size, %ntid.x;
    mov.u32 %item, %tid.x;
    mul.wide.u32 %x, %group, %size;
    cvt.u64.u32 %rest, %item;
    add.u64 %x, %x, %rest;
    setp.ge.u64 %past, %x, %nx;
    @%past bra END;
    mad.lo.u64 %to_start, %x, %to_x, %to_start;
    mad.lo.u64 %from_start, %x, %from_x, %from_start;
    mov.u32 %group, %ctaid.y;
    mov.u32 %size, %ntid.y;
    mov.u32 %item, %tid.y;
    mul.wide.u32 %row, %group, %size;
    cvt.u64.u32 %rest, %item;
    add.u64 %row, %row, %rest;
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
NAMES = (
    "to", "to_start", "from", "from_start", "rows",
    "nx", "to_x", "from_x", "ny", "to_y", "from_y", "nz", "to_z", "from_z", "to_w", "from_w",
)  # fmt: skip


def _move(unit: str) -> str:
    size, type_name, register = UNITS[unit]
    return MOVE.format(
        unit=unit, size=size, type=type_name, register=register, registers=", %".join(NAMES),
        parameters=", ".join(f".param .u64 p_{name}" for name in NAMES),
        loads="\n    ".join(f"ld.param.u64 %{name}, [p_{name}];" for name in NAMES),
    )  # fmt: skip


def _declared(unit: str, name: str) -> Declared:
    if name in ("to", "from"):
        return Declared(name, f"{unit}*", "pointer", 8, name == "from")
    return Declared(name, "long" if name[-2:] in ("_x", "_y", "_z", "_w") else "ulong", "value", 8)


MOVES = {f"move_{unit}": [_declared(unit, name) for name in NAMES] for unit in UNITS}
"""The kernels that copy strided memory, with their parameters."""

PTX = HEAD + FILL + "".join(map(_move, UNITS))
"""The text of all."""
