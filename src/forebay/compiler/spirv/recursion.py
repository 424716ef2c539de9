"""Finds functions of a SPIR-V module that call themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from forebay.compiler.spirv import opcodes as op
from forebay.compiler.spirv.module import Instruction, opcode_of

__all__ = ["recursive"]


def recursive(functions: Mapping[int, Iterable[Instruction]]) -> set[int]:
    """Return the functions of a SPIR-V module that call themselves, and those on the way from one of them to another.

    Parameters
    ----------
    functions
        The instructions of each, by the function's id.
    """
    calls = {
        number: {each[3] for each in body if opcode_of(each) == op.CALL} & functions.keys()
        for number, body in functions.items()
    }
    count = -1
    while count != len(calls):
        count = len(calls)
        called = set().union(*calls.values())
        calls = {number: callees for number, callees in calls.items() if callees and number in called}
        calls = {number: callees & calls.keys() for number, callees in calls.items()}
    return set(calls)
