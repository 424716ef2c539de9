"""A second body with one barrier, in a loop to which threads come from all barriers of the kernel.

A thread that reaches a barrier notes which one in ``next``; one that returns notes 0. After the barrier each goes on
where it was, and those that have returned come back to the barrier, until no other does. So a barrier waits for the
threads that are left, whichever barriers these have reached. The runtime makes no vectors of such a body, and ends the
process when such a kernel uses warps.
"""

from __future__ import annotations

from forebay.compiler.spirv import opcodes as op
from forebay.compiler.spirv.blocks import Block, Function
from forebay.compiler.spirv.intel_cpu.early_returns.barriers import BarrierModule
from forebay.compiler.spirv.intel_cpu.early_returns.divergence import Divergence, Flow
from forebay.compiler.spirv.intel_cpu.early_returns.split import Common, Split
from forebay.compiler.spirv.module import Instruction, make, opcode_of

__all__ = ["OneBarrier"]


class OneBarrier(Split):
    """As `Split`."""

    def __init__(
        self, spirv: BarrierModule, common: Common, function: Function, flow: Flow, threads: Divergence
    ) -> None:
        super().__init__(spirv, common, function, flow, threads)
        self._labels = {block.label: spirv.new_id() for block in self._second}
        self._over, self._loop = spirv.new_id(), spirv.new_id()
        self._next = self._variable(common.word)
        self._arrivals: list[int] = []  # the labels after the barriers
        self._votes: dict[int, tuple[Instruction, int, int]] = {}  # what it is, and where what goes in and comes out is

    def _second_body(self) -> list[Block]:
        begin = [self._branch(self._blocks[label]) for label in self._branches]
        copied = [made for block in self._second for made in self._copied(block)]
        over = Block(self._over, [make(op.STORE, self._next, self._common.number(0))], make(op.BRANCH, self._loop))
        return [*begin, *copied, over, *self._waiting_loop()]

    def _branch(self, block: Block) -> Block:
        """The end of a block at which threads part."""
        here: dict[int, int] = {}
        made = Block(self._branches[block.label], [], [])
        self._pass_on(block, here, made.body)
        made.end = self._ended(block, here, made.body, self._labels, self._over)
        return made

    def _copied(self, block: Block) -> list[Block]:
        """A block, cut at its barriers."""
        label, made = self._labels[block.label], []
        parts = self._parts[block.label]
        for at, part in enumerate(parts):
            here: dict[int, int] = {}
            body: list[Instruction] = []
            if at:
                label = self._arrivals[-1]
                self._arrived(part[0], here, body)
            self._copy(part[at > 0 :], here, body)
            made.append(Block(label, body, []))
            if at + 1 < len(parts):
                made[-1].end = self._arrive(parts[at + 1][0], here, body)
            elif block.label in self._branches:
                made[-1].end = make(op.BRANCH, self._branches[block.label])
            else:
                self._pass_on(block, here, body)
                made[-1].end = self._ended(block, here, body, self._labels, self._over)
        return made

    def _arrive(self, each: Instruction, here: dict[int, int], body: list[Instruction]) -> Instruction:
        """Note which barrier a thread is at, and go to the loop."""
        self._arrivals.append(self._spirv.new_id())
        number = len(self._arrivals)
        if opcode_of(each) != op.BARRIER:
            value = self._value(each[-1], here, body)
            given = self._variable(each[1])
            self._votes[number] = each, given, self._variable(each[1])
            body.append(make(op.STORE, given, value))
        body.append(make(op.STORE, self._next, self._common.number(number)))
        return make(op.BRANCH, self._loop)

    def _arrived(self, each: Instruction, here: dict[int, int], body: list[Instruction]) -> None:
        """Take what a vote or a sum has come to."""
        if opcode_of(each) != op.BARRIER:
            _, _, result = self._votes[len(self._arrivals)]
            here[each[2]] = self._made(body, op.LOAD, each[1], result)
            self._keep(each[2], here, body)

    def _waiting_loop(self) -> list[Block]:
        """The barrier, the votes of those that are at one, and where threads go from it."""
        common = self._common
        go, leave = self._spirv.new_id(), self._spirv.new_id()
        body: list[Instruction] = []
        next = self._made(body, op.LOAD, common.word, self._next)
        body.append(make(op.BARRIER, common.scope, common.scope, common.order))
        is_left = self._made(body, op.NOT_EQUAL, common.bool, next, common.number(0))
        somebody = self._made(body, op.GROUP_ANY, common.bool, common.scope, is_left)
        for number, (each, given, result) in self._votes.items():
            is_here = self._made(body, op.EQUAL, common.bool, next, common.number(number))
            value = self._made(body, op.LOAD, each[1], given)
            body.append(make(op.STORE, result, self._voted(body, each, is_here, value)))
        again: list[Instruction] = []
        next = self._made(again, op.LOAD, common.word, self._next)
        cases = [word for at, label in enumerate(self._arrivals, 1) for word in (at, label)]
        return [
            Block(self._loop, body, make(op.CONDITIONAL, somebody, go, leave)),
            Block(go, again, make(op.SWITCH, next, self._loop, *cases)),
            Block(leave, [], make(op.RETURN)),
        ]
