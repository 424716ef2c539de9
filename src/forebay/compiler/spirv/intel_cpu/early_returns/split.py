"""What the two ways to make a second body share: the first body, what is kept in variables, copies of blocks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from forebay.compiler.spirv import opcodes as op
from forebay.compiler.spirv.blocks import NO_RESULT, Block, Function, with_new_ids
from forebay.compiler.spirv.intel_cpu.early_returns.barriers import BarrierModule
from forebay.compiler.spirv.intel_cpu.early_returns.divergence import Divergence, Flow
from forebay.compiler.spirv.module import Instruction, ids_in, make, opcode_of

__all__ = ["Common", "Split"]


class Common:
    """What the kernels of a module have in common: types and constants."""

    def __init__(self, spirv: BarrierModule) -> None:
        self._spirv = spirv
        self.word: int = spirv.declare(op.TYPE_INT, 32, 0)
        self.bool: int = spirv.declare(op.TYPE_BOOL)
        self.scope: int = self.number(op.WORK_GROUP_SCOPE)
        self.order: int = self.number(op.ALL_IN_ORDER)
        self.true: int = spirv.declare(op.CONSTANT_TRUE, self.bool, typed=True)
        self.false: int = spirv.declare(op.CONSTANT_FALSE, self.bool, typed=True)

    def neutral(self, each: Instruction) -> int:
        """Return the id of what changes nothing in a vote or a sum."""
        if opcode_of(each) == op.GROUP_ADD:
            return self.number(0)
        return self.true if opcode_of(each) == op.GROUP_ALL else self.false

    def number(self, value: int) -> int:
        """Return the id of a constant."""
        if not value:
            return self._spirv.declare(op.CONSTANT_NULL, self.word, typed=True)
        return self._spirv.declare(op.CONSTANT, self.word, value, typed=True)


class Split:
    """One kernel, while it gets its second body.

    Parameters
    ----------
    spirv, common
        The module.
    function, flow, threads
        The kernel, its flow, and what its threads may see differently.
    """

    def __init__(
        self, spirv: BarrierModule, common: Common, function: Function, flow: Flow, threads: Divergence
    ) -> None:
        self._spirv, self._common, self._flow, self._threads = spirv, common, flow, threads
        self._function = function
        self._parting = threads.parting
        self._blocks = {block.label: block for block in function.blocks}
        self._parts = {block.label: self._parts_of(block) for block in function.blocks}
        self._before_barrier = flow.reach({label for label, parts in self._parts.items() if len(parts) > 1})
        started = {label for one in self._parting for label in flow.after[one]}
        reached = flow.reached_from(started)
        self._second = [block for block in function.blocks if block.label in reached]
        self._variables: list[Instruction] = []
        # Where the second body begins, for each place at which threads part in the first.
        self._branches = {label: spirv.new_id() for label in self._parting}
        self._incoming = {phi[2]: self._variable(phi[1]) for block in self._second for phi in block.phis()}
        self._defined = {
            each[2] for block in function.blocks for each in block.body if opcode_of(each) not in NO_RESULT
        }
        self._kept = {number: self._variable(spirv.types[number]) for number in self._crossing()}

    def function(self) -> Function:
        """Return the whole of it."""
        second = self._second_body()
        first = self._first_body()  # it changes the phis
        function = self._function
        variables = [*function.variables, *self._variables]
        return Function(function.head, function.parameters, variables, self._in_order([*first, *second]))

    def _second_body(self) -> list[Block]:
        raise NotImplementedError

    def _in_order(self, blocks: list[Block]) -> list[Block]:
        """The blocks so that each comes after those that are on every way to it, as SPIR-V asks for."""
        by_label = {block.label: block for block in blocks}
        found, seen = [], {blocks[0].label}
        stack = [(blocks[0], iter(self._spirv.successors(blocks[0])))]
        while stack:
            block, after = stack[-1]
            label = next((each for each in after if each not in seen), None)
            if label is None:
                found.append(block)
                stack.pop()
            else:
                seen.add(label)
                stack.append((by_label[label], iter(self._spirv.successors(by_label[label]))))
        return found[::-1]

    # -- what is kept in variables

    def _variable(self, kind: int) -> int:
        number = self._spirv.new_id()
        pointer = self._spirv.declare(op.TYPE_POINTER, op.FUNCTION_STORAGE, kind)
        self._variables.append(make(op.VARIABLE, pointer, number, op.FUNCTION_STORAGE))
        return number

    def _parts_of(self, block: Block) -> list[list[Instruction]]:
        """The stretches of a block between barriers; each but the first begins with its barrier."""
        parts: list[list[Instruction]] = [[]]
        for each in block.body:
            if self._spirv.is_barrier(each):
                parts.append([])
            parts[-1].append(each)
        return parts

    def _crossing(self) -> set[int]:
        """The values that the second body uses elsewhere than in the stretch that computes them, or at its end."""
        places = {
            each[2]: (label, at) for label, parts in self._parts.items()
            for at, part in enumerate(parts) for each in part if opcode_of(each) not in NO_RESULT
        }  # fmt: skip
        found: set[int] = set()
        for block in self._second:
            for at, part in enumerate(self._parts[block.label]):
                for each in part:
                    if opcode_of(each) != op.PHI:
                        here = (block.label, at) if not at or each is not part[0] else ()
                        found |= {number for number in _operands(each) if places.get(number, here) != here}
        for label in {*self._parting, *(block.label for block in self._second)}:
            block = self._blocks[label]
            found |= {block.end[1]} if opcode_of(block.end) in (op.CONDITIONAL, op.SWITCH) else set()
            found |= set(self._passed_on(block).values())
        return found & places.keys()

    def _passed_on(self, block: Block) -> dict[int, int]:
        """What the phis behind a block take from it, by the phi."""
        return {
            phi[2]: phi[at] for label in self._flow.after[block.label] for phi in self._blocks[label].phis()
            for at in range(3, len(phi), 2) if phi[at + 1] == block.label
        }  # fmt: skip

    # -- the first body

    def _first_body(self) -> list[Block]:
        made: list[Block] = []
        renamed: dict[int, int] = {}
        for block in self._function.blocks:
            body: list[Instruction] = []
            stores: list[Instruction] = []
            for each in block.body:
                if opcode_of(each) != op.PHI:
                    body += stores
                    stores = []
                body.append(each)
                if opcode_of(each) not in NO_RESULT and each[2] in self._kept:
                    stores.append(make(op.STORE, self._kept[each[2]], each[2]))
            new = Block(block.label, [*body, *stores], block.end)
            made.append(new)
            if block.label in self._parting:
                made += self._vote(new)
                renamed[block.label] = made[-1].label
        return self._without_dead(made, renamed)

    def _vote(self, block: Block) -> list[Block]:
        """Let the threads vote at the end of a block where they may part, and what follows it."""
        common, parted = self._common, self._branches[block.label]
        block.body = [each for each in block.body if opcode_of(each) not in op.MERGES]
        ways = [label for label in self._flow.after[block.label] if label in self._before_barrier]
        if opcode_of(block.end) == op.SWITCH:
            block.end = make(op.BRANCH, parted)
            return []
        chosen, if_true, if_false = block.end[1:4]
        if len(ways) == 1:
            leaves = chosen if if_true != ways[0] else self._made(block.body, op.LOGICAL_NOT, common.bool, chosen)
            some = self._made(block.body, op.GROUP_ANY, common.bool, common.scope, leaves)
            block.end = make(op.CONDITIONAL, some, parted, ways[0])
            return []
        some, every = (
            self._made(block.body, each, common.bool, common.scope, chosen) for each in (op.GROUP_ANY, op.GROUP_ALL)
        )
        agreed = self._made(block.body, op.LOGICAL_EQUAL, common.bool, some, every)
        then = Block(self._spirv.new_id(), [], make(op.CONDITIONAL, some, if_true, if_false))
        block.end = make(op.CONDITIONAL, agreed, then.label, parted)
        return [then]

    def _without_dead(self, blocks: list[Block], renamed: Mapping[int, int]) -> list[Block]:
        """The blocks that are reached from the first, with phis of the ways that are left."""
        after = {block.label: self._spirv.successors(block) for block in blocks}
        alive, waiting = {blocks[0].label}, [blocks[0].label]
        while waiting:
            for label in after.get(waiting.pop(), ()):
                if label not in alive:
                    alive.add(label)
                    waiting.append(label)
        ways = {(one, label) for one in alive for label in after.get(one, ())}
        left = [block for block in blocks if block.label in alive]
        for block in left:
            for phi in block.phis():
                pairs = [(phi[at], renamed.get(phi[at + 1], phi[at + 1])) for at in range(3, len(phi), 2)]
                kept = [word for pair in pairs if (pair[1], block.label) in ways for word in pair]
                phi[:] = make(op.PHI, phi[1], phi[2], *kept)
            block.body = [
                each for each in block.body
                if opcode_of(each) not in op.MERGES
                or alive.issuperset(each[1 : 2 + (opcode_of(each) == op.LOOP_MERGE)])
            ]  # fmt: skip
        return left

    # -- copies for the second body

    def _value(self, number: int, here: dict[int, int], body: list[Instruction]) -> int:
        """A value in the second body."""
        if number not in self._defined:
            return number
        if number not in here:
            here[number] = self._spirv.new_like(number)
            body.append(make(op.LOAD, self._spirv.types[number], here[number], self._kept[number]))
        return here[number]

    def _keep(self, number: int, here: Mapping[int, int], body: list[Instruction]) -> None:
        if number in self._kept:
            body.append(make(op.STORE, self._kept[number], here[number]))

    def _copy(self, part: Iterable[Instruction], here: dict[int, int], body: list[Instruction]) -> None:
        """Copy what stands between two barriers; phis come first."""
        for each in part:
            if opcode_of(each) in op.MERGES:
                continue
            is_result = opcode_of(each) not in NO_RESULT
            if opcode_of(each) == op.PHI:
                here[each[2]] = self._spirv.new_like(each[2])
                body.append(make(op.LOAD, each[1], here[each[2]], self._incoming[each[2]]))
            else:
                for number in _operands(each):
                    self._value(number, here, body)
                if is_result:
                    here[each[2]] = self._spirv.new_like(each[2])
                body.append(with_new_ids(each, here, {}, self._spirv.switch_step))
            if is_result:
                self._keep(each[2], here, body)

    def _pass_on(
        self, block: Block, here: dict[int, int], body: list[Instruction], wanted: Callable[[int], bool] | None = None
    ) -> None:
        """Store what the phis behind a block take from it."""
        for phi, value in self._passed_on(block).items():
            if wanted is None or wanted(phi):
                body.append(make(op.STORE, self._incoming[phi], self._value(value, here, body)))

    def _ended(
        self, block: Block, here: dict[int, int], body: list[Instruction], labels: Mapping[int, int], over: int
    ) -> Instruction:
        """The end of a block with other labels; a return goes to a label, too."""
        if opcode_of(block.end) == op.RETURN:
            return make(op.BRANCH, over)
        if opcode_of(block.end) in (op.CONDITIONAL, op.SWITCH):
            self._value(block.end[1], here, body)
        return with_new_ids(block.end, here, labels, self._spirv.switch_step)

    def _made(self, body: list[Instruction], opcode: int, kind: int, *operands: int) -> int:
        number = self._spirv.new_id()
        self._spirv.types[number] = kind
        body.append(make(opcode, kind, number, *operands))
        return number

    def _voted(self, body: list[Instruction], each: Instruction, takes_part: int, value: int) -> int:
        """A vote or a sum of the threads that take part, at a place to which all come."""
        value = self._made(body, op.SELECT, each[1], takes_part, value, self._common.neutral(each))
        return self._made(body, opcode_of(each), each[1], *each[3:-1], value)


def _operands(each: Instruction) -> Sequence[int]:
    first: Collection[int] = () if opcode_of(each) in NO_RESULT else (1, 2)
    return [each[at] for at in ids_in(each) if at not in first]
