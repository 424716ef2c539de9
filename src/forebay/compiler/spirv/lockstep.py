"""Finds functions of a SPIR-V module that rely on threads of a warp going on together.

Programs for older GPUs end a reduction so: each line writes ``volatile`` shared memory, and the next one reads what
other threads of the warp have written there, without a barrier. Nothing here makes threads take such steps together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forebay.compiler.spirv import opcodes as op

__all__ = ["relying_on_lockstep"]

CHAINS_AND_CASTS = {  # the third operand is the pointer
    op.ACCESS_CHAIN, op.IN_BOUNDS_ACCESS_CHAIN, op.POINTER_ACCESS_CHAIN, op.IN_BOUNDS_POINTER_ACCESS_CHAIN,
    op.COPY_OBJECT, op.POINTER_TO_GENERIC, op.GENERIC_TO_POINTER, op.GENERIC_TO_POINTER_EXPLICIT, op.BITCAST,
}  # fmt: skip

Instruction = Sequence[int]


def relying_on_lockstep(functions: Mapping[int, Sequence[Instruction]], globals_: Sequence[Instruction]) -> set[int]:
    """Return the functions that read volatile shared memory after they wrote it elsewhere, with no barrier between.

    Parameters
    ----------
    functions
        The instructions of each, by the function's id.
    globals_
        The variables of the module and the constants that are computed from them.
    """
    shared = {each[2]: each for each in globals_}
    return {number for number, body in functions.items() if _relies(body, shared)}


def _relies(body: Sequence[Instruction], outside: Mapping[int, Instruction]) -> bool:
    if not any(_is_volatile(each) for each in body):
        return False
    made = {**outside, **{each[2]: each for each in body if len(each) > 2}}
    labels: dict[int, int] = {}
    written: set[int] = set()
    for at, each in enumerate(body):
        opcode = each[0] & 0xFFFF
        if opcode == op.LABEL:
            labels[each[1]] = at
        if _step(each, made, written):
            return True
        targets = each[1:2] if opcode == op.BRANCH else each[2:4] if opcode == op.CONDITIONAL else ()
        for start in (labels[target] for target in targets if target in labels):  # once more round the loop
            again = set(written)
            if any(_step(other, made, again) for other in body[start:at]):
                return True
    return False


def _step(each: Instruction, made: Mapping[int, Instruction], written: set[int]) -> bool:
    """Whether this reads shared memory that others may have written after the last barrier."""
    opcode = each[0] & 0xFFFF
    if opcode == op.BARRIER:
        written.clear()
    elif _is_volatile(each) and opcode == op.STORE and _is_shared(each[1], made, set()):
        written.add(each[1])
    elif _is_volatile(each) and opcode == op.LOAD and _is_shared(each[3], made, set()):
        return bool(written - {each[3]})
    return False


def _is_volatile(each: Instruction) -> bool:
    opcode = each[0] & 0xFFFF
    at = {op.STORE: 3, op.LOAD: 4}.get(opcode, 0)
    return bool(at and len(each) > at and each[at] & op.VOLATILE)


def _is_shared(pointer: int, made: Mapping[int, Instruction], seen: set[int]) -> bool:
    each = made.get(pointer)
    if each is None or pointer in seen:
        return False
    seen.add(pointer)
    opcode = each[0] & 0xFFFF
    if opcode == op.VARIABLE:
        return each[3] == op.WORKGROUP
    if opcode in CHAINS_AND_CASTS:
        return _is_shared(each[3], made, seen)
    others = each[4:] if opcode in (op.CONSTANT_OPERATION, op.SELECT) else each[3::2] if opcode == op.PHI else ()
    return any(_is_shared(other, made, seen) for other in others)
