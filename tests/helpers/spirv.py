"""Assembles one small SPIR-V module, so that tests of SPIR-V input need no compiler.

Numbers are from the SPIR-V specification, version 1.0: opcodes (3.32), capabilities (3.31) and the enumerants before
them.
"""

import struct

MAGIC = 0x07230203
VERSION_1_0 = 0x00010000

OP_SOURCE, OP_NAME, OP_STRING = 3, 5, 7
OP_MEMORY_MODEL, OP_ENTRY_POINT, OP_CAPABILITY = 14, 15, 17
OP_TYPE_VOID, OP_TYPE_INT, OP_TYPE_VECTOR, OP_TYPE_POINTER, OP_TYPE_FUNCTION = 19, 21, 23, 32, 33
OP_FUNCTION, OP_FUNCTION_PARAMETER, OP_FUNCTION_END = 54, 55, 56
OP_VARIABLE, OP_LOAD, OP_STORE, OP_IN_BOUNDS_PTR_ACCESS_CHAIN = 59, 61, 62, 70
OP_DECORATE, OP_COMPOSITE_EXTRACT, OP_LABEL, OP_RETURN = 71, 81, 248, 253

CAPABILITY_ADDRESSES, CAPABILITY_KERNEL, CAPABILITY_INT64 = 4, 6, 11
PHYSICAL_64, OPEN_CL, KERNEL, OPEN_CL_C = 2, 2, 6, 3
INPUT, CROSS_WORKGROUP = 1, 5
BUILT_IN, GLOBAL_INVOCATION_ID = 11, 28
ALIGNED = 2


def text(value):
    """A literal string: zero-terminated, in whole words."""
    data = value.encode() + b"\0"
    data += b"\0" * (-len(data) % 4)
    return struct.unpack(f"<{len(data) // 4}I", data)


def instruction(opcode, *words):
    return [(len(words) + 1) << 16 | opcode, *words]


def assemble(instructions, bound):
    """The bytes of a module in which all ids are below `bound`."""
    words = [MAGIC, VERSION_1_0, 0, bound, 0, *(word for line in instructions for word in line)]
    return struct.pack(f"<{len(words)}I", *words)


def fill_module(name="fill"):
    """``kernel void fill(global int *values, int value) { values[get_global_id(0)] = value; }``"""
    (ulong, ulong3, pointer_to_input, uint, pointer, void, function, invocation, fill, values, value, start, ids, x,
     element, types) = range(1, 17)  # fmt: skip
    body = [
        instruction(OP_CAPABILITY, CAPABILITY_ADDRESSES),
        instruction(OP_CAPABILITY, CAPABILITY_KERNEL),
        instruction(OP_CAPABILITY, CAPABILITY_INT64),
        instruction(OP_MEMORY_MODEL, PHYSICAL_64, OPEN_CL),
        instruction(OP_ENTRY_POINT, KERNEL, fill, *text(name), invocation),
        instruction(OP_STRING, types, *text(f"kernel_arg_type.{name}.int*,int,")),
        instruction(OP_SOURCE, OPEN_CL_C, 102000),
        instruction(OP_NAME, values, *text("values")),
        instruction(OP_NAME, value, *text("value")),
        instruction(OP_DECORATE, invocation, BUILT_IN, GLOBAL_INVOCATION_ID),
        instruction(OP_TYPE_INT, ulong, 64, 0),
        instruction(OP_TYPE_VECTOR, ulong3, ulong, 3),
        instruction(OP_TYPE_POINTER, pointer_to_input, INPUT, ulong3),
        instruction(OP_TYPE_INT, uint, 32, 0),
        instruction(OP_TYPE_POINTER, pointer, CROSS_WORKGROUP, uint),
        instruction(OP_TYPE_VOID, void),
        instruction(OP_TYPE_FUNCTION, function, void, pointer, uint),
        instruction(OP_VARIABLE, pointer_to_input, invocation, INPUT),
        instruction(OP_FUNCTION, void, fill, 0, function),
        instruction(OP_FUNCTION_PARAMETER, pointer, values),
        instruction(OP_FUNCTION_PARAMETER, uint, value),
        instruction(OP_LABEL, start),
        instruction(OP_LOAD, ulong3, ids, invocation, ALIGNED, 32),
        instruction(OP_COMPOSITE_EXTRACT, ulong, x, ids, 0),
        instruction(OP_IN_BOUNDS_PTR_ACCESS_CHAIN, pointer, element, values, x),
        instruction(OP_STORE, element, value, ALIGNED, 4),
        instruction(OP_RETURN),
        instruction(OP_FUNCTION_END),
    ]
    return assemble(body, bound=types + 1)


def deadly_module(name="fill"):
    """A module whose function says that its result is of a type that is none; Intel's compilers end the process."""
    words = list(struct.unpack(f"<{len(fill_module(name)) // 4}I", fill_module(name)))
    at = 5
    while words[at] & 0xFFFF != OP_FUNCTION:
        at += words[at] >> 16
    words[at + (words[at] >> 16) - 1] = words[3] - 1
    return struct.pack(f"<{len(words)}I", *words)
