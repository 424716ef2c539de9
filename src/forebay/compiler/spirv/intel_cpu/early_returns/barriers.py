"""Which instructions of a module all threads of a block must come to."""

from __future__ import annotations

import graphlib

from forebay.compiler.spirv import opcodes as op
from forebay.compiler.spirv.blocks import BlocksModule
from forebay.compiler.spirv.module import Instruction, opcode_of

__all__ = ["BarrierModule"]


class BarrierModule(BlocksModule):
    """A module that knows its barriers.

    Attributes
    ----------
    waiting : set of int
        The functions with a barrier, and those that call them.
    inlined, recursive : set of int
        Those among them that are called: what can be put into its callers, and what cannot because it calls itself.
    """

    def __init__(self, module: bytes) -> None:
        super().__init__(module)
        self._scopes = {each[2] for each in self.all_of(op.CONSTANT) if each[3:] == [op.WORK_GROUP_SCOPE]}
        self.recursive: set[int] = set()
        self.waiting = self.with_callers(
            {number for number, body in self.bodies.items() if any(map(self.is_barrier, body))}
        )
        calls = {
            number: {each[3] for each in self.bodies[number] if opcode_of(each) == op.CALL} & self.waiting
            for number in self.waiting
        }
        self.inlined: set[int] = set().union(*calls.values())
        try:
            graphlib.TopologicalSorter(calls).prepare()
        except graphlib.CycleError:
            self.inlined, self.recursive = set(), self.inlined

    def is_barrier(self, each: Instruction) -> bool:
        """Whether all threads of the block must come to this instruction."""
        opcode = opcode_of(each)
        if opcode == op.CALL:
            return each[3] in self.recursive
        return (opcode == op.BARRIER and each[1] in self._scopes) or (
            opcode in op.GROUP_OPERATIONS and each[1 if opcode == op.GROUP_WAIT else 3] in self._scopes
        )
