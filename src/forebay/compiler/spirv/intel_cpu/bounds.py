"""Finds the kernels of a SPIR-V module that make Intel's CPU runtime 2026 leave out threads of the kernels after them.

The runtime runs no threads that a comparison of the thread's index at a kernel's beginning would send home. One pass
does that for all kernels of a module, in order. After a comparison with a negated index, which its optimizer also makes
of ``blockIdx.x * blockDim.x + threadIdx.x == 0``, it takes the kernels that follow for such, too, and runs one
thread of them. A fence before the comparison keeps the pass from looking at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from forebay.compiler.spirv import opcodes as op
from forebay.compiler.spirv.clang_module import ClangModule
from forebay.compiler.spirv.module import make

__all__ = ["keep_bounds"]

LINEAR = {
    op.EXTRACT,
    op.CONVERT_UNSIGNED,
    op.CONVERT_SIGNED,
    op.BITCAST,
    op.NEGATE,
    op.ADD,
    op.SUBTRACT,
    op.MULTIPLY,
    op.SHIFT_LEFT,
    op.BITWISE_OR,
    op.BITWISE_NOT,
}

Instruction = Sequence[int]


def keep_bounds(module: ClangModule) -> None:
    """Put a fence of one thread at the beginning of kernels that would spoil those after them."""
    numbers = {each[2]: each[3:] for each in module.all_of(op.CONSTANT)}
    numbers |= {each[2]: [0] for each in module.all_of(op.CONSTANT_NULL)}
    small = {number for number, (low, *high) in numbers.items() if low < 2 and not any(high)}
    negative = {number for number, words in numbers.items() if words[-1] >> 31}
    indices = {
        each[1]
        for each in module.all_of(op.DECORATE)
        if each[2] == op.BUILT_IN and each[3] in (op.LOCAL_INVOCATION_ID, op.GLOBAL_INVOCATION_ID)
    }
    *first, _ = [number for number in module.functions() if number in module.entries] or [0]
    functions = module.functions()
    found = comparing_negated({number: functions[number] for number in first}, indices, small, negative)
    if not found:
        return
    module.begin_declaring()
    uint = module.declare(op.TYPE_INT, 32, 0)
    scope, order = (module.declare(op.CONSTANT, uint, value, typed=True) for value in (op.INVOCATION, op.ALL_IN_ORDER))
    module.after_variables({number: make(op.MEMORY_BARRIER, scope, order) for number in found})
    module.end_declaring()


def comparing_negated(
    functions: Mapping[int, Iterable[Instruction]], indices: Set[int], small: Set[int], negative: Set[int]
) -> set[int]:
    """Return the functions that compare the negative of an index, or a sum with an index in it with 0 or 1.

    Parameters
    ----------
    functions
        The instructions of each, by the function's id.
    indices
        The ids of the variables that hold a thread's index.
    small, negative
        The ids of constants that are 0 or 1, and of those that are negative.
    """
    return {number for number, body in functions.items() if _compares(body, indices, small, negative)}


def _compares(body: Iterable[Instruction], indices: Set[int], small: Set[int], negative: Set[int]) -> bool:
    linear: set[int] = set()
    sums: set[int] = set()
    negated: set[int] = set()
    for each in body:
        opcode, operands = each[0] & 0xFFFF, set(each[3:])
        if opcode == op.LOAD and each[3] in indices:
            linear.add(each[2])
        elif opcode in op.COMPARISONS:
            if operands & negated or (operands & sums and operands & small):
                return True
        elif opcode in LINEAR and operands & linear:
            linear.add(each[2])
            if opcode in (op.ADD, op.BITWISE_OR, op.SUBTRACT) or operands & sums:
                sums.add(each[2])
            turned = opcode in (op.NEGATE, op.BITWISE_NOT) or (opcode == op.SUBTRACT and each[4] in linear)
            if turned or operands & negated or (opcode == op.MULTIPLY and operands & negative):
                negated.add(each[2])
    return False
