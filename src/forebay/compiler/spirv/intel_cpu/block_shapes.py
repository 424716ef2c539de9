"""Lets kernels with HIP's warps have blocks of several dimensions where sub-groups are made along x only.

A warp of HIP counts through x, then y, then z. Intel's CPU runtime fills sub-groups along the first dimension of a
work-group. So a block of (x, y, z) threads is submitted flat: as (x * y * z, 1, 1), with (x, y, z - 1) as the offset of
the launch, and the kernel computes threadIdx and blockDim from these. In a launch without an offset it runs the code
that it always had, because an index that is computed by divisions makes loads of neighbours slow."""

from __future__ import annotations

import itertools

from forebay.compiler.spirv import opcodes as op
from forebay.compiler.spirv.blocks import NO_RESULT, with_new_ids
from forebay.compiler.spirv.module import (
    COUNTED_WARPS,
    Instruction,
    ModuleError,
    SpirvModule,
    ids_in,
    make,
    opcode_of,
    text_of,
    words_of,
)

__all__ = ["let_blocks_be_flat"]

NOT_FLAT = {
    op.GLOBAL_INVOCATION_ID,
    op.GLOBAL_SIZE,
    op.ENQUEUED_WORKGROUP_SIZE,
    op.GLOBAL_OFFSET,
    op.GLOBAL_LINEAR_ID,
}  # would be others


def let_blocks_be_flat(module: bytes) -> tuple[bytes, set[str]]:
    """Let kernels with warps take the shape of their block from the offset of the launch.

    Parameters
    ----------
    module
        SPIR-V. What does not say `COUNTED_WARPS` is returned as it is.

    Returns
    -------
    module : bytes
    flat : set of str
        The kernels whose block may be submitted as (x * y * z, 1, 1) with (x, y, z - 1) as offset.
    """
    mark = words_of(COUNTED_WARPS)
    if text_of(mark).encode() not in module:
        return module, set()
    try:
        spirv = _Module(module)
    except ModuleError:
        return module, set()  # the driver's own reader says what is wrong
    marks = [each for each in spirv.all_of(op.STRING) if each[2:] == mark]
    if not marks:
        return module, set()
    spirv.instructions = [each for each in spirv.instructions if each not in marks]
    flat = spirv.flatten()
    return spirv.dumps(), {spirv.entries[number] for number in flat}


class _Module(SpirvModule):
    def flatten(self) -> set[int]:
        """Change the kernels that may be flat, and return their functions."""
        self._bodies = self.functions()
        built_in = {each[1]: each[3] for each in self.all_of(op.DECORATE) if each[2] == op.BUILT_IN}
        self._indices = {
            number: kind for number, kind in built_in.items() if kind in (op.LOCAL_INVOCATION_ID, op.WORKGROUP_SIZE)
        }
        others = {number for number, kind in built_in.items() if kind in NOT_FLAT}
        modes = {(each[1], each[2]) for each in self.all_of(op.EXECUTION_MODE)}
        readers, refused = set(), set()
        for number, body in self._bodies.items():
            for each in body:
                used = {each[at] for at in ids_in(each)}
                if opcode_of(each) == op.LOAD and each[3] in self._indices:
                    readers.add(number)
                elif not used.isdisjoint(others) or not used.isdisjoint(self._indices):
                    refused.add(number)
        readers, refused = self.with_callers(readers), self.with_callers(refused)
        flat = {
            number for number in self.entries
            if (number, op.SUB_GROUP_SIZE) in modes and (number, op.LOCAL_SIZE) not in modes and number not in refused
        }  # fmt: skip
        if flat & readers:
            self._change(flat & readers, readers)
        return flat

    def _change(self, kernels: set[int], readers: set[int]) -> None:
        """Give kernels a second body for launches with an offset, and copies of the functions that it calls."""
        before = [*itertools.takewhile(lambda each: opcode_of(each) != op.FUNCTION, self.instructions)]
        self._types = {each[2]: each[1] for each in before if opcode_of(each) in (op.UNDEFINED, *op.CONSTANTS)}
        self._widths = {each[1]: each[2] for each in before if opcode_of(each) == op.TYPE_INT}
        self.begin_declaring()
        self._word, self._long = self.declare(op.TYPE_INT, 32, 0), self.declare(op.TYPE_INT, 64, 0)
        self._bool = self.declare(op.TYPE_BOOL)
        self._zero = self.declare(op.CONSTANT_NULL, self._long, typed=True)
        self._one = self.declare(op.CONSTANT, self._long, 1, 0, typed=True)
        self._triple = self.declare(op.TYPE_VECTOR, self._long, 3)
        self._offset = self.new_id()
        pointer = self.declare(op.TYPE_POINTER, op.INPUT, self._triple)
        self._added.append(make(op.VARIABLE, pointer, self._offset, op.INPUT))
        self._renamed: dict[int, list[int]] = {}
        self._copies = {number: self.new_id() for number in self._called_by(kernels) & readers - kernels}
        bodies = [self._doubled(body) if number in kernels else body for number, body in self._bodies.items()]
        bodies += [self._copied(self._bodies[number]) for number in self._copies]
        self._describe(before, kernels)
        self.instructions = [*before, *self._added, *itertools.chain.from_iterable(bodies)]

    def _called_by(self, kernels: set[int]) -> set[int]:
        found, waiting = set(kernels), list(kernels)
        while waiting:
            for each in self._bodies[waiting.pop()]:
                if opcode_of(each) == op.CALL and each[3] not in found:
                    found.add(each[3])
                    waiting.append(each[3])
        return found

    def _describe(self, before: list[Instruction], kernels: set[int]) -> None:
        """Say in the module's first part what is new in it."""
        for each in before:
            if opcode_of(each) == op.ENTRY_POINT and each[2] in kernels:
                each[:] = make(op.ENTRY_POINT, *each[1:], self._offset)
        names = [make(op.NAME, self._offset, *words_of("__spirv_BuiltInGlobalOffset"))]
        decorations = [
            make(op.DECORATE, self._offset, op.CONSTANT_DECORATION),
            make(op.DECORATE, self._offset, op.BUILT_IN, op.GLOBAL_OFFSET),
        ]
        for each in before:
            if opcode_of(each) == op.NAME and each[1] in self._copies:
                names.append(make(op.NAME, self._copies[each[1]], *words_of(f"{text_of(each[2:])}.flat")))
            elif opcode_of(each) == op.DECORATE and each[2] != op.LINKAGE:
                decorations += [make(op.DECORATE, new, *each[2:]) for new in self._renamed.get(each[1], ())]
        at = next(i for i, each in enumerate(before) if opcode_of(each) == op.DECORATE)
        before[at:at] = [*names, *decorations]

    def _doubled(self, body: list[Instruction]) -> list[Instruction]:
        """A kernel that runs its old body, or one for flat blocks in launches with an offset."""
        start = next(at for at, each in enumerate(body) if opcode_of(each) == op.LABEL)
        self._types |= {each[2]: each[1] for each in body[:start]}  # parameters, of which a switch may ask
        variables = [each for each in body if opcode_of(each) == op.VARIABLE]  # of both: only one is run
        blocks = [each for each in body[start:-1] if opcode_of(each) != op.VARIABLE]
        copied = self._renamed_copy(blocks)
        offset, first, is_flat = self.new_id(), self.new_id(), self.new_id()
        return [
            *body[:start],
            make(op.LABEL, self.new_id()),
            *variables,
            make(op.LOAD, self._triple, offset, self._offset),
            make(op.EXTRACT, self._long, first, offset, 0),
            make(op.NOT_EQUAL, self._bool, is_flat, first, self._zero),
            make(op.CONDITIONAL, is_flat, copied[0][1], blocks[0][1]),
            *blocks,
            *copied,
            body[-1],
        ]

    def _copied(self, body: list[Instruction]) -> list[Instruction]:
        """A function as it is called from the new bodies of kernels."""
        copied = self._renamed_copy(body)
        copied[0][2] = self._copies[body[0][2]]
        return copied

    def _renamed_copy(self, body: list[Instruction]) -> list[Instruction]:
        """A copy with ids of its own that takes threadIdx and blockDim from the offset and the place in the row."""
        results = [each for each in body if opcode_of(each) not in NO_RESULT]
        self._types |= {each[2]: each[1] for each in results}
        block_size, thread = self.new_id(), self.new_id()
        values = {each[2]: self.new_id() for each in results}
        labels = {each[1]: self.new_id() for each in body if opcode_of(each) == op.LABEL}
        loads = {each[2]: self._indices.get(each[3], 0) for each in body if opcode_of(each) == op.LOAD}
        values |= {
            load: thread if kind == op.LOCAL_INVOCATION_ID else block_size for load, kind in loads.items() if kind
        }
        for old, new in values.items():
            if not loads.get(old):
                self._renamed.setdefault(old, []).append(new)
        begin = next(at for at, each in enumerate(body) if opcode_of(each) == op.LABEL) + 1
        while opcode_of(body[begin]) in (op.VARIABLE, op.LINE, op.NO_LINE):  # variables come first
            begin += 1
        values |= self._copies
        made = [
            with_new_ids(each, values, labels, self._switch_step)
            for each in body
            if opcode_of(each) != op.LOAD or not loads[each[2]]
        ]
        made[begin:begin] = self._indices_of(block_size, thread)
        return made

    def _switch_step(self, selector: int) -> int:
        return self._widths[self._types[selector]] // 64 + 2

    def _indices_of(self, block_size: int, thread: int) -> list[Instruction]:
        """Compute blockDim and threadIdx."""
        made: list[Instruction] = []

        def add(opcode: int, kind: int, *operands: int) -> int:
            number = self.new_id()
            made.append(make(opcode, kind, number, *operands))
            return number

        def narrow(number: int) -> int:
            return add(op.CONVERT_UNSIGNED, self._word, number)

        offset = add(op.LOAD, self._triple, self._offset)
        sizes = [add(op.EXTRACT, self._long, offset, at) for at in range(3)]
        sizes[2] = add(op.ADD, self._long, sizes[2], self._one)
        made.append(make(op.CONSTRUCT, self._triple, block_size, *sizes))
        variable = next((number for number, kind in self._indices.items() if kind == op.LOCAL_INVOCATION_ID), 0)
        if not variable:
            return made
        place = narrow(add(op.EXTRACT, self._long, add(op.LOAD, self._triple, variable), 0))
        x, y = narrow(sizes[0]), narrow(sizes[1])
        row = add(op.DIVIDE, self._word, place, x)
        plane = add(op.DIVIDE, self._word, row, y)
        indices = (
            add(op.SUBTRACT, self._word, place, add(op.MULTIPLY, self._word, row, x)),
            add(op.SUBTRACT, self._word, row, add(op.MULTIPLY, self._word, plane, y)),
            plane,
        )
        longs = [add(op.CONVERT_UNSIGNED, self._long, each) for each in indices]
        made.append(make(op.CONSTRUCT, self._triple, thread, *longs))
        return made
