"""Finds the kernels of a SPIR-V module that make Intel's CPU runtime 2026 leave out threads of the kernels after them.

The runtime runs no threads that a comparison of the thread's index at a kernel's beginning would send home. One pass
does that for all kernels of a module, in order. After a comparison with a negated index, which its optimizer also makes
of ``blockIdx.x * blockDim.x + threadIdx.x == 0``, it takes the kernels that follow for such, too, and runs one
thread of them. A fence before the comparison keeps the pass from looking at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

__all__ = ["comparing_negated"]

LOAD, EXTRACT, UNSIGNED, SIGNED, BITCAST, NEGATE = 61, 81, 113, 114, 124, 126
ADD, SUBTRACT, MULTIPLY, SHIFT, OR, NOT = 128, 130, 132, 196, 197, 200
LINEAR = {EXTRACT, UNSIGNED, SIGNED, BITCAST, NEGATE, ADD, SUBTRACT, MULTIPLY, SHIFT, OR, NOT}
COMPARISONS = range(170, 180)  # from OpIEqual to OpSLessThanEqual

Instruction = Sequence[int]


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
        if opcode == LOAD and each[3] in indices:
            linear.add(each[2])
        elif opcode in COMPARISONS:
            if operands & negated or (operands & sums and operands & small):
                return True
        elif opcode in LINEAR and operands & linear:
            linear.add(each[2])
            if opcode in (ADD, OR, SUBTRACT) or operands & sums:
                sums.add(each[2])
            turned = opcode in (NEGATE, NOT) or (opcode == SUBTRACT and each[4] in linear)
            if turned or operands & negated or (opcode == MULTIPLY and operands & negative):
                negated.add(each[2])
    return False
