"""Finds the functions of a SPIR-V module whose threads may wait for each other in a loop.

Intel's CPU runtime runs several threads of a block as lanes of one vector. A lane that spins until another one gives a
lock back holds that one up for ever. A kernel that asks for vectors of its own is run thread by thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

__all__ = ["spinning"]

BRANCH, CONDITIONAL, SWITCH, LABEL = 249, 250, 251, 248
EXCHANGE, COMPARE_EXCHANGE, LOAD, ADD, OR = 229, 230, 227, 234, 241
TRIES = {EXCHANGE: 6, COMPARE_EXCHANGE: 8}  # where the operand is that tells
LOOKS = {ADD: 6, OR: 6}

Instruction = Sequence[int]


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
        if opcode == LABEL:
            block = each[1]
        elif opcode == BRANCH:
            successors[block] = [each[1]]
        elif opcode == CONDITIONAL:
            successors[block] = [each[2], each[3]]
        elif opcode == SWITCH:
            successors[block] = list(each[2:])  # numbers among the labels name no block, or lead too far at worst
        elif (
            opcode == LOAD
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
