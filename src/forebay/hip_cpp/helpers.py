"""Functions in OpenCL C that a translated program may need; only those it uses are written."""

from __future__ import annotations

import re

__all__ = ["helpers_for"]

HELPERS = {
    "hip_constant": """#if defined(__opencl_c_program_scope_global_variables) || __OPENCL_C_VERSION__ == 200
#define hip_constant global
#else
#define hip_constant constant
#endif""",
    "hip_ffs": "int hip_ffs(int x) { return x == 0 ? 0 : 32 - (int)clz(x & -x); }",
    "hip_ffsll": "int hip_ffsll(long x) { return x == 0 ? 0 : 64 - (int)clz(x & -x); }",
    "hip_brev": """uint hip_brev(uint x) {
    x = ((x >> 1) & 0x55555555u) | ((x & 0x55555555u) << 1);
    x = ((x >> 2) & 0x33333333u) | ((x & 0x33333333u) << 2);
    x = ((x >> 4) & 0x0f0f0f0fu) | ((x & 0x0f0f0f0fu) << 4);
    x = ((x >> 8) & 0x00ff00ffu) | ((x & 0x00ff00ffu) << 8);
    return (x >> 16) | (x << 16);
}""",
}

ATOMIC_FLOAT = """TYPE hip_atomic_add_TYPE_SPACE(volatile SPACE TYPE *p, TYPE value) {
    volatile SPACE BITS *bits = (volatile SPACE BITS *)p;
    BITS expected, found = *bits;
    do {
        expected = found;
        found = CAS(bits, expected, as_BITS(as_TYPE(expected) + value));
    } while (found != expected);
    return as_TYPE(found);
}"""
ATOMIC_WRAP = {
    "inc": "found >= limit ? 0 : found + 1",
    "dec": "(found == 0 || found > limit) ? limit : found - 1",
}
ATOMIC_STEP = """uint hip_atomic_OP_SPACE(volatile SPACE uint *p, uint limit) {
    uint expected, found = *p;
    do {
        expected = found;
        found = atomic_cmpxchg(p, expected, NEXT);
    } while (found != expected);
    return found;
}"""
VECTOR = """typedef struct { TYPE x, y, z; } hip_TYPE3;"""
PACK = """hip_TYPE3 hip_pack_TYPE3(TYPE3 v) { hip_TYPE3 p; p.x = v.x; p.y = v.y; p.z = v.z; return p; }"""
UNPACK = """TYPE3 hip_unpack_TYPE3(hip_TYPE3 p) { return (TYPE3)(p.x, p.y, p.z); }"""

WORD = re.compile(r"\bhip_\w+")


def helper(name: str) -> str:
    """Return the text of one helper; empty if no helper has this name."""
    if name in HELPERS:
        return HELPERS[name]
    if match := re.fullmatch(r"hip_atomic_add_(float|double)_(global|local)", name):
        bits, call = ("uint", "atomic_cmpxchg") if match[1] == "float" else ("ulong", "atom_cmpxchg")
        text = ATOMIC_FLOAT.replace("TYPE", match[1]).replace("BITS", bits).replace("CAS", call)
        return text.replace("SPACE", match[2])
    if match := re.fullmatch(r"hip_atomic_(inc|dec)_(global|local)", name):
        return (
            ATOMIC_STEP.replace("OP", match[1]).replace("SPACE", match[2])
            .replace("NEXT", ATOMIC_WRAP[match[1]].replace("found", "expected"))
        )  # fmt: skip
    for pattern, text in ((r"hip_(\w+)3", VECTOR), (r"hip_pack_(\w+)3", PACK), (r"hip_unpack_(\w+)3", UNPACK)):
        if (match := re.fullmatch(pattern, name)) and "_" not in match[1]:
            return text.replace("TYPE", match[1])
    return ""


def helpers_for(text: str) -> str:
    """Return the text of all helpers that a text uses, and that these use, in an order that works."""
    found: dict[str, str] = {}

    def add(text: str) -> None:
        for name in sorted(set(WORD.findall(text))):
            if name not in found and (body := helper(name)):
                found[name] = ""  # its own name is in it
                add(body)
                del found[name]
                found[name] = body

    add(text)
    lines = "\n".join(found.values())
    if re.search(r"\batom_\w+\(", lines + text):
        lines = INT64_ATOMICS + "\n" + lines
    return lines


INT64_ATOMICS = """#ifndef cl_khr_int64_base_atomics
#error "64-bit atomic operations: this device has no cl_khr_int64_base_atomics"
#endif
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#ifdef cl_khr_int64_extended_atomics
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable
#endif"""
