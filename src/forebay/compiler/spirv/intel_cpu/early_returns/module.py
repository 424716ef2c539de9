"""Finds the kernels of a module that need a second body, and gives it to them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from forebay.compiler.spirv import opcodes as op
from forebay.compiler.spirv.blocks import Function
from forebay.compiler.spirv.intel_cpu.early_returns.barriers import BarrierModule
from forebay.compiler.spirv.intel_cpu.early_returns.divergence import Divergence, Flow, thread_dependent
from forebay.compiler.spirv.intel_cpu.early_returns.inactive import InactiveThreads, UnstructuredError
from forebay.compiler.spirv.intel_cpu.early_returns.split import Common
from forebay.compiler.spirv.intel_cpu.early_returns.waiting import OneBarrier
from forebay.compiler.spirv.module import ModuleError, make, opcode_of, words_of

__all__ = ["RETURNS_EARLY", "Found", "find_early_returns", "let_threads_return"]

RETURNS_EARLY = "threads may return before barriers"
"""An OpString of modules in which `find_early_returns` has found a kernel that can be changed."""


@dataclass
class Found:
    """What was found in a module.

    Attributes
    ----------
    kernels : set of str
        Those in which threads may part before a barrier, and that can be changed.
    refused : dict
        Those that cannot, with the reason.
    """

    kernels: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)


def find_early_returns(module: bytes) -> Found:
    """Find the kernels of a module in which threads may return, or part, before a barrier that others reach.

    Parameters
    ----------
    module
        SPIR-V.

    Raises
    ------
    ModuleError
        If these bytes are no SPIR-V.
    """
    return _Module(module).find()


def let_threads_return(module: bytes) -> bytes:
    """Return a module whose barriers wait only for the threads that have not returned.

    Parameters
    ----------
    module
        SPIR-V. What does not say `RETURNS_EARLY` is returned as it is.
    """
    mark = words_of(RETURNS_EARLY)
    if RETURNS_EARLY.encode() not in module:
        return module
    try:
        spirv = _Module(module)
    except ModuleError:
        return module  # the driver's own reader says what is wrong
    marks = [each for each in spirv.all_of(op.STRING) if each[2:] == mark]
    if not marks:
        return module
    spirv.instructions = [each for each in spirv.instructions if each not in marks]
    spirv.change()
    return spirv.dumps()


class _Module(BarrierModule):
    """A module whose kernels get second bodies."""

    def __init__(self, module: bytes) -> None:
        super().__init__(module)
        self.found = Found()

    def find(self) -> Found:
        """As `find_early_returns`."""
        functions = self._functions()
        warps = {each[1] for each in self.all_of(op.EXECUTION_MODE) if each[2] == op.SUB_GROUP_SIZE}
        if functions:
            self.begin_declaring()
        for number in functions.keys() & warps:
            try:
                InactiveThreads(self, Common(self), *functions[number])
            except UnstructuredError:
                # The runtime ends its process over warps in what it makes no vectors of, see `waiting`.
                name = self.entries[number]
                self.found.kernels.remove(name)
                self.found.refused[name] = "it uses warps, and threads that stay may come to different barriers"
        return self.found

    def change(self) -> None:
        """Change the kernels that `find` finds."""
        kernels = _Module(self.dumps()).find().kernels
        functions = {number: each for number, each in self._functions().items() if self.entries[number] in kernels}
        if not functions:
            return
        self.begin_declaring()
        common = Common(self)
        changed = {number: self._with_second_body(common, *each) for number, each in functions.items()}
        if make(op.CAPABILITY, op.GROUPS) not in self.instructions:
            self.instructions.insert(0, make(op.CAPABILITY, op.GROUPS))
        self.put(changed)

    def _with_second_body(self, common: Common, function: Function, flow: Flow, threads: Divergence) -> Function:
        for block in function.blocks:
            block.body = [each for each in block.body if opcode_of(each) not in op.LIFETIMES]
        try:
            return InactiveThreads(self, common, function, flow, threads).function()
        except UnstructuredError:
            return OneBarrier(self, common, function, flow, threads).function()

    def _functions(self) -> dict[int, tuple[Function, Flow, Divergence]]:
        """The kernels that are to be changed, with what is known of their threads."""
        made: dict[int, tuple[Function, Flow, Divergence]] = {}
        own = thread_dependent(self) if self.waiting & self.entries.keys() else set()
        for number in self.waiting & self.entries.keys():
            function = self.function(number)
            self.inline(function, self.inlined)
            flow = Flow(self, function)
            barriers = {block.label for block in function.blocks if any(map(self.is_barrier, block.body))}
            threads = Divergence(self, function, flow, barriers, own)
            if not threads.parting:
                continue
            reason = self._reason(function)
            if reason:
                self.found.refused[self.entries[number]] = reason
            else:
                self.found.kernels.add(self.entries[number])
                made[number] = function, flow, threads
        return made

    def _reason(self, function: Function) -> str:
        """Why a function cannot be changed, if so."""
        for each in itertools.chain.from_iterable(block.body for block in function.blocks):
            opcode = opcode_of(each)
            if opcode == op.CALL and each[3] in self.recursive:
                return "a function that calls itself has a barrier"
            if opcode in op.GROUP_OPERATIONS and self.is_barrier(each):
                is_sum = opcode == op.GROUP_ADD and each[4] == 0 and self.widths.get(each[1]) == 32
                if not is_sum and opcode not in (op.GROUP_ALL, op.GROUP_ANY):
                    return "an operation of the whole block that is no vote and no sum of 32 bits"
        return ""
