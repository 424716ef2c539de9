"""Finds the branches in which the threads of a block may part although a barrier lies before the place where they meet.

A value is *uniform* when it is the same for all threads of a block. It is not when it comes from a thread's index, an
atomic operation or a warp, from memory at an address that is not uniform, or from a place that some threads reach by
another way than the others. What is not known counts as not uniform."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from forebay.compiler.spirv import opcodes as op
from forebay.compiler.spirv.blocks import NO_RESULT, Block, BlocksModule, Function
from forebay.compiler.spirv.module import Instruction, ids_in, opcode_of

__all__ = ["UNIFORM_INPUTS", "Divergence", "Flow", "thread_dependent"]

CASTS = {op.POINTER_TO_GENERIC, op.GENERIC_TO_POINTER, op.GENERIC_TO_POINTER_EXPLICIT, op.BITCAST}
# From NumWorkgroups to WorkgroupId, WorkDim to GlobalOffset, SubgroupMaxSize to NumEnqueuedSubgroups
UNIFORM_INPUTS = {24, 25, 26, *range(30, 34), 37, 38, 39}
WORK_GROUP_RESULTS = {*op.GROUP_OPERATIONS} - {259, op.GROUP_WAIT}  # the same for all, but those of scans; 259 copies
OWN = {*op.ATOMICS, *op.FLOAT_ATOMICS, *op.SUB_GROUP_OPERATIONS, op.CLOCK}


class Flow:
    """How the blocks of a function follow each other.

    Attributes
    ----------
    after : dict
        The labels that each block may go to.
    """

    def __init__(self, spirv: BlocksModule, function: Function) -> None:
        self.blocks: Mapping[int, Block] = {block.label: block for block in function.blocks}
        self.after = {block.label: spirv.successors(block) for block in function.blocks}
        self._behind = self._postdominators()

    def reach(self, labels: Collection[int]) -> set[int]:
        """Return the blocks from which one of these is reached, and these."""
        before: dict[int, list[int]] = {}
        for label, after in self.after.items():
            for each in after:
                before.setdefault(each, []).append(label)
        return _reached(labels, before)

    def reached_from(self, labels: Collection[int]) -> set[int]:
        """Return the blocks that are reached from these, and these."""
        return _reached(labels, self.after)

    def influence(self, label: int) -> tuple[set[int], set[int]]:
        """Return the blocks between a branch and the place where all its ways meet again, and that place."""
        inside: set[int] = set()
        meeting: set[int] = set()
        waiting = list(self.after[label])
        while waiting:
            one = waiting.pop()
            if one != label and self._behind[label] >> self._number[one] & 1:
                meeting.add(one)
            elif one not in inside:
                inside.add(one)
                waiting += self.after[one]
        return inside, meeting

    def _postdominators(self) -> dict[int, int]:
        """For each block, as bits, those that are on every way from it to an end."""
        self._number = {label: at for at, label in enumerate(self.after)}
        ends = {
            label for label, after in self.after.items()
            if not after and opcode_of(self.blocks[label].end) != op.UNREACHABLE
        }  # fmt: skip
        everything = (1 << len(self.after)) - 1
        leaving = self.reach(ends)
        behind = {
            label: 1 << self._number[label] if label in ends or (label not in leaving and after) else everything
            for label, after in self.after.items()
        }
        changing = [label for label in self.after if self.after[label] and label in leaving]
        changed = True
        while changed:
            changed = False
            for label in reversed(changing):
                common = everything
                for each in self.after[label]:
                    common &= behind[each]
                common |= 1 << self._number[label]
                if common != behind[label]:
                    behind[label] = common
                    changed = True
        return behind


def _reached(labels: Collection[int], after: Mapping[int, Collection[int]]) -> set[int]:
    found, waiting = set(labels), list(labels)
    while waiting:
        for each in after.get(waiting.pop(), ()):
            if each not in found:
                found.add(each)
                waiting.append(each)
    return found


def thread_dependent(spirv: BlocksModule) -> set[int]:
    """Return the variables that hold what differs between threads, and the functions that may return such a thing."""
    inputs = {
        each[1] for each in spirv.all_of(op.DECORATE) if each[2] == op.BUILT_IN and each[3] not in UNIFORM_INPUTS
    }  # fmt: skip
    users = {
        number for number, body in spirv.bodies.items()
        if any(opcode_of(each) in OWN or (opcode_of(each) == op.LOAD and each[3] in inputs) for each in body)
    }  # fmt: skip
    return inputs | spirv.with_callers(users)


class Divergence:
    """What threads of a block may see differently in a function.

    Parameters
    ----------
    spirv, function, flow
        The function, and its flow.
    barriers
        The blocks with a barrier.
    own
        What `thread_dependent` has found.

    Attributes
    ----------
    parting : set of int
        The blocks at whose end threads may part before a barrier. What follows them is judged as if all threads had
        gone the same way.
    """

    def __init__(
        self, spirv: BlocksModule, function: Function, flow: Flow, barriers: Collection[int], own: Collection[int]
    ) -> None:
        self._flow, self._barriers = flow, barriers
        self._places, self._simple = _simple_variables(function)
        self._different = {*own, *(each[2] for each in function.variables if each[2] not in self._simple)}
        self._stores: list[tuple[int, Instruction]] = [
            (block.label, each) for block in function.blocks for each in block.body if opcode_of(each) == op.STORE
        ]
        # What is computed a different number of times, and where it may be used as uniform.
        self._inside: dict[int, list[set[int]]] = {}
        self._done: set[int] = set()
        self.parting: set[int] = set()
        changed = True
        while changed:
            before = len(self._different), len(self._done)
            for block in function.blocks:
                self._look_at(block)
            changed = before != (len(self._different), len(self._done))

    def differs(self, number: int, label: int) -> bool:
        """Whether a value may not be uniform in a block."""
        return number in self._different or any(label not in inside for inside in self._inside.get(number, ()))

    def _look_at(self, block: Block) -> None:
        for each in block.body:
            opcode = opcode_of(each)
            if opcode == op.STORE:
                variable = self._places.get(each[1])
                if variable and self.differs(each[2], block.label):
                    self._different.add(variable)
            elif opcode not in NO_RESULT and each[2] not in self._different and self._is_different(each, block.label):
                self._different.add(each[2])
        is_choice = opcode_of(block.end) in (op.CONDITIONAL, op.SWITCH)
        if is_choice and block.label not in self._done and self.differs(block.end[1], block.label):
            self._done.add(block.label)
            self._part(block.label)

    def _is_different(self, each: Instruction, label: int) -> bool:
        opcode = opcode_of(each)
        if opcode in OWN:
            return True
        if opcode in WORK_GROUP_RESULTS and (opcode < 264 or each[4] == 0):
            return False
        if opcode == op.LOAD and each[3] in self._places:
            return self._places[each[3]] in self._different
        return any(self.differs(each[at], label) for at in ids_in(each) if at > 2)

    def _part(self, label: int) -> None:
        """Note what threads that part here make different, or that they do so before a barrier."""
        inside, meeting = self._flow.influence(label)
        if not inside.isdisjoint(self._barriers):
            self.parting.add(label)
            return
        ways = {*inside, label}
        for one in (*inside, *meeting):
            for phi in self._flow.blocks[one].phis():
                if len({phi[at] for at in range(3, len(phi), 2) if phi[at + 1] in ways}) > 1:
                    self._different.add(phi[2])
        for place, store in self._stores:
            if place in inside and store[1] in self._places:
                self._different.add(self._places[store[1]])
        if label in inside:
            for one in inside:
                for each in self._flow.blocks[one].body:
                    if opcode_of(each) not in NO_RESULT:
                        self._inside.setdefault(each[2], []).append(inside)


def _simple_variables(function: Function) -> tuple[dict[int, int], set[int]]:
    """The variables that are only loaded and stored, by their ids and those of casts of them; and their ids alone."""
    places = {each[2]: each[2] for each in function.variables}
    for block in function.blocks:
        for each in block.body:
            if opcode_of(each) in CASTS and each[3] in places:
                places[each[2]] = places[each[3]]
    escaping: set[int] = set()
    for block in function.blocks:
        for each in block.body:
            opcode = opcode_of(each)
            if opcode in CASTS or opcode in op.LIFETIMES or opcode in (op.LOAD, op.STORE):
                used = each[2:3] if opcode == op.STORE else []
            else:
                used = [each[at] for at in ids_in(each)]
            escaping |= {places[number] for number in used if number in places}
    known = {number: variable for number, variable in places.items() if variable not in escaping}
    return known, set(known.values())
