"""The functions of a SPIR-V module as basic blocks, for passes that change the flow of control."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from forebay.compiler.spirv import opcodes as op
from forebay.compiler.spirv.module import Instruction, SpirvModule, ids_in, make, opcode_of

__all__ = ["NO_RESULT", "Block", "BlocksModule", "Function", "with_new_ids"]

ENDS = range(op.BRANCH, 256)  # to OpUnreachable
LABELS = {
    op.LABEL: (1,),
    op.BRANCH: (1,),
    op.CONDITIONAL: (2, 3),
    op.LOOP_MERGE: (1, 2),
    op.SELECTION_MERGE: (1,),
}  # where they are
# Opcodes without a result; among those without a name here are OpImageWrite, OpAtomicStore and writes of sub-groups.
NO_RESULT = {
    0, op.STORE, op.COPY_MEMORY, op.COPY_MEMORY_SIZED, 99, op.BARRIER, op.MEMORY_BARRIER, 228, *op.MERGES,
    *range(op.BRANCH, op.LIFETIME_STOP + 1), op.GROUP_WAIT, 319, 5576, 5578, 5630,
    op.FUNCTION, op.FUNCTION_END, op.LABEL, op.LINE, op.NO_LINE,
}  # fmt: skip


@dataclass
class Block:
    """A basic block.

    Attributes
    ----------
    label : int
    body : list of Instruction
        With the phis, without the label and what ends the block.
    end : Instruction
    """

    label: int
    body: list[Instruction]
    end: Instruction

    def phis(self) -> list[Instruction]:
        """Return the phis."""
        return [each for each in self.body if opcode_of(each) == op.PHI]


@dataclass
class Function:
    """A function.

    Attributes
    ----------
    head : Instruction
        OpFunction.
    parameters, variables : list of Instruction
    blocks : list of Block
        The first is the entry, without the variables.
    """

    head: Instruction
    parameters: list[Instruction] = field(default_factory=list)
    variables: list[Instruction] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)

    def instructions(self) -> list[Instruction]:
        """Return it as it stands in a module."""
        made = [self.head, *self.parameters]
        for block in self.blocks:
            made.append(make(op.LABEL, block.label))
            if block is self.blocks[0]:
                made += self.variables
            made += block.body
            made.append(block.end)
        return [*made, make(op.FUNCTION_END)]


def with_new_ids(
    each: Instruction, values: Mapping[int, int], labels: Mapping[int, int], switch_step: Callable[[int], int]
) -> Instruction:
    """Return a copy of an instruction of a function with other ids.

    Parameters
    ----------
    each
        The instruction.
    values, labels
        The new ids. Values that are not named stay; every label must be named.
    switch_step
        The words from one label of an OpSwitch to the next, by the id that it chooses by.
    """
    opcode = opcode_of(each)
    places: Sequence[int] = LABELS.get(opcode, ())
    if opcode == op.SWITCH:
        step = switch_step(each[1])
        places = (2, *range(2 + step, len(each), step))
    elif opcode == op.PHI:
        places = range(4, len(each), 2)
    made = list(each)
    for at in ids_in(each):
        made[at] = values.get(each[at], each[at])
    for at in places:
        made[at] = labels[each[at]]
    return made


class BlocksModule(SpirvModule):
    """A module whose functions are taken apart and put together again.

    Attributes
    ----------
    types : dict
        The type of each value, by its id.
    widths : dict
        The bits of each type of integers.
    bodies : dict
        The functions, as instructions.
    origins : dict
        What values that were made are copies of; they get its decorations.
    """

    def __init__(self, module: bytes) -> None:
        super().__init__(module)
        self.bodies = self.functions()
        self._void = {each[1] for each in self.all_of(op.TYPE_VOID)}
        self.widths = {each[1]: each[2] for each in self.all_of(op.TYPE_INT)}
        kinds = (op.UNDEFINED, op.VARIABLE, *op.CONSTANTS)
        self.types = {each[2]: each[1] for each in self.instructions if opcode_of(each) in kinds}
        for body in self.bodies.values():
            self.types |= {each[2]: each[1] for each in body if opcode_of(each) not in NO_RESULT}
        self._by_value = {
            each[1] for each in self.all_of(op.DECORATE) if each[2:] == [op.PARAMETER_ATTRIBUTE, op.BY_VALUE]
        }  # fmt: skip
        self.origins: dict[int, int] = {}

    def switch_step(self, selector: int) -> int:
        """Return the words from one label of an OpSwitch to the next: the literal's, and the label."""
        return self.widths[self.types[selector]] // 64 + 2

    def successors(self, block: Block) -> list[int]:
        """Return the labels that a block may go to, each once."""
        opcode = opcode_of(block.end)
        if opcode == op.BRANCH:
            return [block.end[1]]
        if opcode == op.CONDITIONAL:
            return list(dict.fromkeys(block.end[2:4]))
        if opcode == op.SWITCH:
            step = self.switch_step(block.end[1])
            return list(dict.fromkeys([block.end[2], *block.end[2 + step :: step]]))
        return []

    def function(self, number: int) -> Function:
        """Return a function in blocks."""
        made = Function(list(self.bodies[number][0]))
        block: Block | None = None
        for each in self.bodies[number][1:-1]:
            opcode = opcode_of(each)
            if opcode == op.PARAMETER:
                made.parameters.append(list(each))
            elif opcode == op.LABEL:
                block = Block(each[1], [], [])
                made.blocks.append(block)
            elif opcode == op.VARIABLE:
                made.variables.append(list(each))
            elif block is not None and opcode in ENDS:
                block.end = list(each)
                block = None
            elif block is not None:
                block.body.append(list(each))
        return made

    def new_like(self, number: int) -> int:
        """Return a new id for a copy of a value, with its type and decorations."""
        new = self.new_id()
        if number in self.types:
            self.types[new] = self.types[number]
        self.origins[new] = self.origins.get(number, number)
        return new

    def inline(self, caller: Function, wanted: Iterable[int]) -> None:
        """Put functions where they are called, until no call of one is left. None of them may call itself."""
        wanted = set(wanted)
        at = 0
        while at < len(caller.blocks):
            block = caller.blocks[at]
            found = next(
                (i for i, each in enumerate(block.body) if opcode_of(each) == op.CALL and each[3] in wanted), None
            )
            if found is not None:
                self._inline(caller, at, found)
            at += 1

    def _inline(self, caller: Function, at: int, place: int) -> None:
        block = caller.blocks[at]
        call, rest = block.body[place], block.body[place + 1 :]
        callee = self.function(call[3])
        after = Block(self.new_id(), rest, block.end)
        values: dict[int, int] = {}
        begin = block.body[:place]
        for parameter, argument in zip(callee.parameters, call[4:], strict=True):
            values[parameter[2]] = argument
            if parameter[2] in self._by_value:
                own = values[parameter[2]] = self.new_like(parameter[2])
                caller.variables.append(make(op.VARIABLE, parameter[1], own, op.FUNCTION_STORAGE))
                begin.append(make(op.COPY_MEMORY, own, argument))
        inside = [each for one in callee.blocks for each in one.body]
        for each in (*callee.variables, *inside):
            if opcode_of(each) not in NO_RESULT:
                values[each[2]] = self.new_like(each[2])
        labels = {one.label: self.new_id() for one in callee.blocks}
        caller.variables += [with_new_ids(each, values, labels, self.switch_step) for each in callee.variables]
        results: list[int] = []
        for one in callee.blocks:
            one.body = [with_new_ids(each, values, labels, self.switch_step) for each in one.body]
            if opcode_of(one.end) in (op.RETURN, op.RETURN_VALUE):
                results += [*(values.get(word, word) for word in one.end[1:]), labels[one.label]]
                one.end = make(op.BRANCH, after.label)
            else:
                one.end = with_new_ids(one.end, values, labels, self.switch_step)
            one.label = labels[one.label]
        if call[1] not in self._void:
            is_returned = make(op.PHI, call[1], call[2], *results)
            after.body.insert(0, is_returned if results else make(op.UNDEFINED, call[1], call[2]))
        block.body, block.end = begin, make(op.BRANCH, callee.blocks[0].label)
        for label in self.successors(after):
            for phi in next(one for one in caller.blocks if one.label == label).phis():
                phi[4::2] = [after.label if parent == block.label else parent for parent in phi[4::2]]
        caller.blocks[at + 1 : at + 1] = [*callee.blocks, after]

    def put(self, functions: Mapping[int, Function]) -> None:
        """Write functions into the module, with what was declared and the decorations of copies."""
        before = self.instructions[
            : next(i for i, each in enumerate(self.instructions) if opcode_of(each) == op.FUNCTION)
        ]
        copies: dict[int, list[int]] = {}
        for new, old in self.origins.items():
            copies.setdefault(old, []).append(new)
        instructions = {number: function.instructions() for number, function in functions.items()}
        gone = {number for name in functions for number in _made_by(self.bodies[name])}
        gone -= {number for body in instructions.values() for number in _made_by(body)}
        made: list[Instruction] = []
        for each in before:
            if opcode_of(each) in (op.NAME, op.DECORATE) and each[1] in gone:
                continue
            made.append(each)
            if opcode_of(each) == op.DECORATE and each[2] not in (op.LINKAGE, op.PARAMETER_ATTRIBUTE):
                made += [make(op.DECORATE, new, *each[2:]) for new in copies.get(each[1], ())]
        bodies = self.functions() | instructions
        self.instructions = [*made, *(each for body in bodies.values() for each in body)]
        self.end_declaring()


def _made_by(body: Iterable[Instruction]) -> Iterator[int]:
    """The ids of the values and labels of a function."""
    for each in body:
        if opcode_of(each) == op.LABEL:
            yield each[1]
        elif opcode_of(each) not in NO_RESULT:
            yield each[2]
