"""Finds the functions of a SPIR-V module whose threads may wait for each other in a loop.

Intel's CPU runtime runs several threads of a block as lanes of one vector. A lane that spins until another one gives a
lock back holds that one up for ever. A kernel that asks for vectors of its own is run thread by thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from forebay.compiler.spirv import opcodes as op
from forebay.compiler.spirv.clang_module import ClangModule

__all__ = ["part_waiting"]

TRIES = {op.ATOMIC_EXCHANGE: 6, op.ATOMIC_COMPARE_EXCHANGE: 8}  # where the operand is that tells
LOOKS = {op.ATOMIC_ADD: 6, op.ATOMIC_OR: 6}

Instruction = Sequence[int]


def part_waiting(module: ClangModule) -> None:
    """Say that kernels whose threads may wait for each other are not to be made into vectors."""
    constants = {each[2] for opcode in (op.CONSTANT, op.CONSTANT_NULL) for each in module.all_of(opcode)}
    zeros = {each[2] for each in module.all_of(op.CONSTANT_NULL)}
    zeros |= {each[2] for each in module.all_of(op.CONSTANT) if not any(each[3:])}
    module.part_threads(module.with_callers(spinning(module.functions(), constants, zeros)))


def spinning(functions: Mapping[int, Iterable[Instruction]], constants: set[int], zeros: set[int]) -> set[int]:
    """Return the functions in which an atomic operation in a loop asks for the same each time round.

    That is one that takes or tries a lock, or looks at a flag. A loop that computes a new value from the old one, as
    that which adds floats, compares with what it has just read.

    Parameters
    ----------
    functions
        The instructions of each, by the function's id.
    constants
        The ids of constants.
    zeros
        The ids of those that are zero: who adds it only looks.
    """
    return {number for number, body in functions.items() if _spins(body, constants, zeros)}


def _spins(body: Iterable[Instruction], constants: set[int], zeros: set[int]) -> bool:
    successors: dict[int, list[int]] = {}
    suspects: set[int] = set()
    block = 0
    for each in body:
        opcode = each[0] & 0xFFFF
        if opcode == op.LABEL:
            block = each[1]
        elif opcode == op.BRANCH:
            successors[block] = [each[1]]
        elif opcode == op.CONDITIONAL:
            successors[block] = [each[2], each[3]]
        elif opcode == op.SWITCH:
            successors[block] = list(each[2:])  # numbers among the labels name no block, or lead too far at worst
        elif (
            opcode == op.ATOMIC_LOAD
            or (opcode in TRIES and each[TRIES[opcode]] in constants)
            or (opcode in LOOKS and each[LOOKS[opcode]] in zeros)
        ):
            suspects.add(block)
    return any(_is_in_loop(suspect, successors) for suspect in suspects)


def _is_in_loop(block: int, successors: Mapping[int, list[int]]) -> bool:
    seen: set[int] = set()
    waiting = list(successors.get(block, ()))
    while waiting:
        one = waiting.pop()
        if one == block:
            return True
        if one not in seen:
            seen.add(one)
            waiting += successors.get(one, ())
    return False
