"""A second body in which threads that have returned go the way of the others and do nothing but come to the barriers.

Whether a thread is still there is in the variable ``active``. Everything that is not uniform is done if it is. Uniform
arithmetic, such as the counters of loops, all threads do; so they know the way as long as it depends on nothing else.
Where it does, the threads that are left vote. In a loop that threads leave one by one they vote on whether any is left.

What lies between two places that all threads pass, without a barrier, is copied as it is, for the active threads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from forebay.compiler.spirv import opcodes as op
from forebay.compiler.spirv.blocks import NO_RESULT, Block, Function, with_new_ids
from forebay.compiler.spirv.intel_cpu.early_returns.barriers import BarrierModule
from forebay.compiler.spirv.intel_cpu.early_returns.divergence import UNIFORM_INPUTS, Divergence, Flow
from forebay.compiler.spirv.intel_cpu.early_returns.split import Common, Split
from forebay.compiler.spirv.module import Instruction, ids_in, make, opcode_of

__all__ = ["InactiveThreads", "UnstructuredError"]

# Without effects and faults: parts of vectors, conversions, arithmetic, comparisons, bits
PURE = {80, 81, *range(109, 117), 124, 126, 127, *range(128, 134), *range(154, 192), *range(194, 201)}


class UnstructuredError(Exception):
    """The threads that are left may not go the same way: `waiting` has to do it."""


class InactiveThreads(Split):
    """As `Split`.

    Raises
    ------
    UnstructuredError
    """

    def __init__(
        self, spirv: BarrierModule, common: Common, function: Function, flow: Flow, threads: Divergence
    ) -> None:
        super().__init__(spirv, common, function, flow, threads)
        self._kinds: dict[int, str] = {}
        self._meeting: dict[int, int] = {}  # where the ways after a block meet, if there is no barrier between
        self._inside: dict[int, set[int]] = {}
        self._follow()
        self._labels = {label: spirv.new_id() for label in self._kinds}
        self._known = self._known_to_all()
        self._active, self._over = self._variable(common.bool), spirv.new_id()
        self._made_blocks: list[Block] = []

    def _second_body(self) -> list[Block]:
        for label in self._branches:
            self._begin(self._blocks[label])
        for label in self._labels:
            self._body_of(self._blocks[label])
        return [*self._made_blocks, Block(self._over, [], make(op.RETURN))]

    # -- what the way is like

    def _follow(self) -> None:
        """Find the blocks that all threads pass, and how each ends."""
        waiting = [label for one in self._parting for label in self._stays(one)]
        for label in self._parting:
            if opcode_of(self._blocks[label].end) == op.SWITCH or len(self._stays(label)) != 1:
                raise UnstructuredError
        while waiting:
            label = waiting.pop()
            if label in self._kinds:
                continue
            inside, meeting = self._flow.influence(label)
            stays = self._stays(label)
            after = self._flow.after[label]
            if not stays:
                self._kinds[label] = "last"
            elif len(after) == 1:
                self._kinds[label] = "next"
            elif all(len(self._parts[one]) == 1 for one in inside):
                self._kinds[label] = "region"
                (self._meeting[label],) = meeting
                self._inside[label] = inside
                stays = list(meeting)
            else:
                self._kinds[label] = "branch"
            waiting += stays

    def _stays(self, label: int) -> list[int]:
        return [each for each in self._flow.after[label] if each in self._before_barrier]

    def _known_to_all(self) -> set[int]:
        """The values that all threads compute: uniform arithmetic in blocks that all pass."""
        spirv = self._spirv
        inputs = {
            each[1] for each in spirv.all_of(op.DECORATE) if each[2] == op.BUILT_IN and each[3] in UNIFORM_INPUTS
        }  # fmt: skip
        constants = {each[2] for each in spirv.all_of(op.CONSTANT)}
        second = {block.label for block in self._second}
        ways: dict[int, set[int]] = {}  # the blocks from which all threads come to one
        for label, kind in [*self._kinds.items(), *((label, "branch") for label in self._parting)]:
            if kind != "region":
                for after in self._stays(label):
                    ways.setdefault(after, set()).add(label)
        known: dict[int, tuple[int, Instruction]] = {}
        for block in self._function.blocks:
            if block.label in second and block.label not in self._kinds:
                continue
            for each in block.body:
                opcode = opcode_of(each)
                if (
                    opcode not in NO_RESULT
                    and not self._threads.differs(each[2], block.label)
                    and (
                        block.label not in second
                        or opcode in PURE
                        or spirv.is_barrier(each)
                        or (opcode == op.LOAD and each[3] in inputs)
                        or (opcode in op.DIVISIONS and each[4] in constants)
                        or (
                            opcode == op.PHI and set(each[4::2]) <= ways.get(block.label, set()) | self._outside(second)
                        )
                    )
                ):
                    known[each[2]] = block.label, each
        changed = True
        while changed:
            changed = False
            for number, (label, each) in list(known.items()):
                if label not in second or spirv.is_barrier(each):
                    continue
                used = each[3::2] if opcode_of(each) == op.PHI else [each[at] for at in ids_in(each) if at > 2]
                if any(one in self._defined and one not in known for one in used):
                    del known[number]
                    changed = True
        for label, kind in self._kinds.items():
            if kind == "branch":
                self._kinds[label] = self._kind_of_branch(label, known)
        return set(known)

    def _outside(self, second: Collection[int]) -> set[int]:
        """The blocks from which the second body is never entered."""
        return self._blocks.keys() - second - self._parting

    def _kind_of_branch(self, label: int, known: Collection[int]) -> str:
        chosen = self._blocks[label].end[1]
        is_known = chosen in known or chosen not in self._defined
        if label not in self._parting and is_known and not self._threads.differs(chosen, label):
            return "all"
        if opcode_of(self._blocks[label].end) == op.SWITCH:
            raise UnstructuredError
        return "leave" if len(self._stays(label)) == 1 else "vote"

    # -- blocks

    def _add(self, label: int | None = None) -> Block:
        self._made_blocks.append(Block(self._spirv.new_id() if label is None else label, [], []))
        return self._made_blocks[-1]

    def _is_active(self, body: list[Instruction]) -> int:
        return self._made(body, op.LOAD, self._common.bool, self._active)

    def _guarded(self, before: Block) -> tuple[Block, Block]:
        """A block for active threads after one for all, and one where all meet again."""
        inside, after = self._add(), self._add()
        before.end = make(op.CONDITIONAL, self._is_active(before.body), inside.label, after.label)
        inside.end = make(op.BRANCH, after.label)
        return inside, after

    def _body_of(self, block: Block) -> None:
        all_threads = self._add(self._labels[block.label])
        parts = self._parts[block.label]
        direction = 0
        for at, part in enumerate(parts):
            here: dict[int, int] = {}
            if at:
                self._meet(part[0], here, all_threads.body)
            own = [each for each in part[at > 0 :] if opcode_of(each) in NO_RESULT or each[2] not in self._known]
            shared = [each for each in part[at > 0 :] if opcode_of(each) not in NO_RESULT and each[2] in self._known]
            self._copy(shared, here, all_threads.body)
            if at + 1 == len(parts):
                if self._kinds[block.label] == "vote":
                    direction = self._variable(self._common.bool)
                    all_threads.body.append(make(op.STORE, direction, self._common.false))
                active, after = self._guarded(all_threads)
                inside = dict(here)
                self._copy(own, inside, active.body)
                self._end(block, active, inside, after, direction)
            elif own:
                active, after = self._guarded(all_threads)
                self._copy(own, dict(here), active.body)
                all_threads = after

    def _meet(self, each: Instruction, here: dict[int, int], body: list[Instruction]) -> None:
        """A barrier, or a vote of the active threads."""
        if opcode_of(each) == op.BARRIER:
            body.append(each)
            return
        value = self._value(each[-1], {}, body)
        here[each[2]] = self._voted(body, each, self._is_active(body), value)
        self._keep(each[2], here, body)

    def _begin(self, block: Block) -> None:
        """Where the second body begins: at the end of a block at which threads part."""
        begin, after = self._add(self._branches[block.label]), self._add()
        begin.body.append(make(op.STORE, self._active, self._common.true))
        self._leave(block, begin, {}, after)

    def _end(self, block: Block, active: Block, inside: dict[int, int], after: Block, direction: int) -> None:
        """End a block: what active threads do, and where all go."""
        kind = self._kinds[block.label]
        if kind == "leave":
            self._leave(block, active, inside, after)
            return
        self._pass_on(block, inside, active.body, lambda phi: phi not in self._known)
        if kind == "last":
            labels = self._copied(self._flow.reached_from(self._flow.after[block.label]), {}, self._over)
            active.end = self._ended(block, inside, active.body, labels, self._over)
            after.end = make(op.BRANCH, self._over)
            return
        if kind == "region":
            meeting = self._meeting[block.label]
            labels = self._copied(self._inside[block.label], {meeting: self._labels[meeting]}, self._over)
            active.end = self._ended(block, inside, active.body, labels, self._over)
            after.end = make(op.BRANCH, self._labels[meeting])
            return
        here: dict[int, int] = {}
        self._pass_on(block, here, after.body, lambda phi: phi in self._known)
        labels = {label: self._labels.get(label, 0) for label in self._flow.after[block.label]}
        for label in labels:
            if label not in self._before_barrier:
                labels[label] = self._left_together(label)
        if kind == "vote":
            common = self._common
            active.body.append(make(op.STORE, direction, self._value(block.end[1], inside, active.body)))
            after = self._while_any(block, after)
            chosen = self._made(after.body, op.LOAD, common.bool, direction)
            chosen = self._made(after.body, op.GROUP_ANY, common.bool, common.scope, chosen)
            after.end = with_new_ids(block.end, {block.end[1]: chosen}, labels, self._spirv.switch_step)
        else:
            after.end = self._ended(block, here, after.body, labels, self._over)

    def _leave(self, block: Block, active: Block, inside: dict[int, int], after: Block) -> None:
        """Let threads leave one by one; the others, and those that have left, go on."""
        (stays,) = self._stays(block.label)
        self._pass_on(block, inside, active.body, lambda phi: phi not in self._known)
        gone = self._add()
        gone.body.append(make(op.STORE, self._active, self._common.false))
        gone.end = make(op.BRANCH, after.label)
        leaving = self._flow.reached_from([each for each in self._flow.after[block.label] if each != stays])
        labels = self._copied(leaving, {stays: after.label}, gone.label)
        active.end = self._ended(block, inside, active.body, labels, self._over)
        self._pass_on(block, {}, after.body, lambda phi: phi in self._known)
        after = self._while_any(block, after)
        after.end = make(op.BRANCH, self._labels[stays])

    def _while_any(self, block: Block, before: Block) -> Block:
        """Where to go on while any thread is active; only a block in a loop must ask."""
        if block.label not in self._flow.reached_from(self._stays(block.label)):
            return before
        after = self._add()
        common = self._common
        somebody = self._made(before.body, op.GROUP_ANY, common.bool, common.scope, self._is_active(before.body))
        before.end = make(op.CONDITIONAL, somebody, after.label, self._over)
        return after

    def _left_together(self, label: int) -> int:
        """Where all threads go that leave together: the active ones do what is left."""
        labels = self._copied(self._flow.reached_from([label]), {}, self._over)
        made = self._add()
        made.end = make(op.CONDITIONAL, self._is_active(made.body), labels[label], self._over)
        return made.label

    def _copied(self, blocks: Iterable[int], labels: dict[int, int], over: int) -> dict[int, int]:
        """Copy blocks without barriers for active threads; return the labels."""
        blocks = list(blocks)
        labels = labels | {label: self._spirv.new_id() for label in blocks}
        for label, block in zip(blocks, map(self._blocks.__getitem__, blocks), strict=True):
            here: dict[int, int] = {}
            made = self._add(labels[label])
            self._copy(block.body, here, made.body)
            self._pass_on(block, here, made.body)
            made.end = self._ended(block, here, made.body, labels, over)
        return labels
