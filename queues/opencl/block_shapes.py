"""Lets kernels with HIP's warps have blocks of several dimensions where sub-groups are made along x only.

A warp of HIP counts through x, then y, then z. Intel's CPU runtime fills sub-groups along the first dimension of a
work-group. So a block of (x, y, z) threads is submitted flat: as (x * y * z, 1, 1), with (x, y, z - 1) as the offset of
the launch, and the kernel computes threadIdx and blockDim from these. In a launch without an offset it runs the code
that it always had, because an index that is computed by divisions makes loads of neighbours slow.

Numbers are from the SPIR-V specification: opcodes (3.32), storage classes (3.7), decorations (3.20), built-ins (3.21).
"""

from __future__ import annotations

import itertools

from forebay.queues.kernels.spirv_blocks import NO_RESULT, with_new_ids
from forebay.queues.kernels.spirv_module import (
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

NAME, STRING, ENTRY_POINT, EXECUTION_MODE = 5, 7, 15, 16
TYPE_BOOL, TYPE_INT, TYPE_VECTOR, TYPE_POINTER = 20, 21, 23, 32
UNDEFINED, CONSTANTS, CONSTANT_WORDS, CONSTANT_NULL = 1, range(41, 53), 43, 46
FUNCTION, FUNCTION_END, CALL, VARIABLE, LOAD = 54, 56, 57, 59, 61
DECORATE, CONSTRUCT, EXTRACT, CONVERT = 71, 80, 81, 113
ADD, SUBTRACT, MULTIPLY, DIVIDE, NOT_EQUAL = 128, 130, 132, 134, 171
LABEL, CONDITIONAL, LINE, NO_LINE = 248, 250, 8, 317
INPUT = 1
CONSTANT, BUILT_IN, LINKAGE = 22, 11, 41
BLOCK_SIZE, THREAD, OFFSET = 25, 27, 33
# They would be others: GlobalInvocationId, GlobalSize, EnqueuedWorkgroupSize, GlobalOffset, GlobalLinearId
NOT_FLAT = {28, 31, 32, OFFSET, 34}
LOCAL_SIZE, SUB_GROUP_SIZE = 17, 35


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
    marks = [each for each in spirv.all_of(STRING) if each[2:] == mark]
    if not marks:
        return module, set()
    spirv.instructions = [each for each in spirv.instructions if each not in marks]
    flat = spirv.flatten()
    return spirv.dumps(), {spirv.entries[number] for number in flat}


class _Module(SpirvModule):
    def flatten(self) -> set[int]:
        """Change the kernels that may be flat, and return their functions."""
        self._bodies = self.functions()
        built_in = {each[1]: each[3] for each in self.all_of(DECORATE) if each[2] == BUILT_IN}
        self._indices = {number: kind for number, kind in built_in.items() if kind in (THREAD, BLOCK_SIZE)}
        others = {number for number, kind in built_in.items() if kind in NOT_FLAT}
        modes = {(each[1], each[2]) for each in self.all_of(EXECUTION_MODE)}
        readers, refused = set(), set()
        for number, body in self._bodies.items():
            for each in body:
                used = {each[at] for at in ids_in(each)}
                if opcode_of(each) == LOAD and each[3] in self._indices:
                    readers.add(number)
                elif not used.isdisjoint(others) or not used.isdisjoint(self._indices):
                    refused.add(number)
        readers, refused = self.with_callers(readers), self.with_callers(refused)
        flat = {
            number for number in self.entries
            if (number, SUB_GROUP_SIZE) in modes and (number, LOCAL_SIZE) not in modes and number not in refused
        }  # fmt: skip
        if flat & readers:
            self._change(flat & readers, readers)
        return flat

    def _change(self, kernels: set[int], readers: set[int]) -> None:
        """Give kernels a second body for launches with an offset, and copies of the functions that it calls."""
        before = [*itertools.takewhile(lambda each: opcode_of(each) != FUNCTION, self.instructions)]
        self._types = {each[2]: each[1] for each in before if opcode_of(each) in (UNDEFINED, *CONSTANTS)}
        self._widths = {each[1]: each[2] for each in before if opcode_of(each) == TYPE_INT}
        self.begin_declaring()
        self._word, self._long = self.declare(TYPE_INT, 32, 0), self.declare(TYPE_INT, 64, 0)
        self._bool = self.declare(TYPE_BOOL)
        self._zero = self.declare(CONSTANT_NULL, self._long, typed=True)
        self._one = self.declare(CONSTANT_WORDS, self._long, 1, 0, typed=True)
        self._triple = self.declare(TYPE_VECTOR, self._long, 3)
        self._offset = self.new_id()
        pointer = self.declare(TYPE_POINTER, INPUT, self._triple)
        self._added.append(make(VARIABLE, pointer, self._offset, INPUT))
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
                if opcode_of(each) == CALL and each[3] not in found:
                    found.add(each[3])
                    waiting.append(each[3])
        return found

    def _describe(self, before: list[Instruction], kernels: set[int]) -> None:
        """Say in the module's first part what is new in it."""
        for each in before:
            if opcode_of(each) == ENTRY_POINT and each[2] in kernels:
                each[:] = make(ENTRY_POINT, *each[1:], self._offset)
        names = [make(NAME, self._offset, *words_of("__spirv_BuiltInGlobalOffset"))]
        decorations = [make(DECORATE, self._offset, CONSTANT), make(DECORATE, self._offset, BUILT_IN, OFFSET)]
        for each in before:
            if opcode_of(each) == NAME and each[1] in self._copies:
                names.append(make(NAME, self._copies[each[1]], *words_of(f"{text_of(each[2:])}.flat")))
            elif opcode_of(each) == DECORATE and each[2] != LINKAGE:
                decorations += [make(DECORATE, new, *each[2:]) for new in self._renamed.get(each[1], ())]
        at = next(i for i, each in enumerate(before) if opcode_of(each) == DECORATE)
        before[at:at] = [*names, *decorations]

    def _doubled(self, body: list[Instruction]) -> list[Instruction]:
        """A kernel that runs its old body, or one for flat blocks in launches with an offset."""
        start = next(at for at, each in enumerate(body) if opcode_of(each) == LABEL)
        self._types |= {each[2]: each[1] for each in body[:start]}  # parameters, of which a switch may ask
        variables = [each for each in body if opcode_of(each) == VARIABLE]  # of both: only one is run
        blocks = [each for each in body[start:-1] if opcode_of(each) != VARIABLE]
        copied = self._renamed_copy(blocks)
        offset, first, is_flat = self.new_id(), self.new_id(), self.new_id()
        return [
            *body[:start],
            make(LABEL, self.new_id()),
            *variables,
            make(LOAD, self._triple, offset, self._offset),
            make(EXTRACT, self._long, first, offset, 0),
            make(NOT_EQUAL, self._bool, is_flat, first, self._zero),
            make(CONDITIONAL, is_flat, copied[0][1], blocks[0][1]),
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
        labels = {each[1]: self.new_id() for each in body if opcode_of(each) == LABEL}
        loads = {each[2]: self._indices.get(each[3], 0) for each in body if opcode_of(each) == LOAD}
        values |= {load: thread if kind == THREAD else block_size for load, kind in loads.items() if kind}
        for old, new in values.items():
            if not loads.get(old):
                self._renamed.setdefault(old, []).append(new)
        begin = next(at for at, each in enumerate(body) if opcode_of(each) == LABEL) + 1
        while opcode_of(body[begin]) in (VARIABLE, LINE, NO_LINE):  # variables come first
            begin += 1
        values |= self._copies
        made = [
            with_new_ids(each, values, labels, self._switch_step)
            for each in body
            if opcode_of(each) != LOAD or not loads[each[2]]
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
            return add(CONVERT, self._word, number)

        offset = add(LOAD, self._triple, self._offset)
        sizes = [add(EXTRACT, self._long, offset, at) for at in range(3)]
        sizes[2] = add(ADD, self._long, sizes[2], self._one)
        made.append(make(CONSTRUCT, self._triple, block_size, *sizes))
        variable = next((number for number, kind in self._indices.items() if kind == THREAD), 0)
        if not variable:
            return made
        place = narrow(add(EXTRACT, self._long, add(LOAD, self._triple, variable), 0))
        x, y = narrow(sizes[0]), narrow(sizes[1])
        row = add(DIVIDE, self._word, place, x)
        plane = add(DIVIDE, self._word, row, y)
        indices = (
            add(SUBTRACT, self._word, place, add(MULTIPLY, self._word, row, x)),
            add(SUBTRACT, self._word, row, add(MULTIPLY, self._word, plane, y)),
            plane,
        )
        longs = [add(CONVERT, self._long, each) for each in indices]
        made.append(make(CONSTRUCT, self._triple, thread, *longs))
        return made
