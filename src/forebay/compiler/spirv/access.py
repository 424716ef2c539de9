"""What the kernels of a module do with the memory that their parameters point to, as far as their instructions show."""

from __future__ import annotations

from collections.abc import Sequence

from forebay.compiler.spirv import opcodes as op
from forebay.compiler.spirv.module import Instruction, ModuleError, SpirvModule, ids_in, opcode_of

__all__ = ["ATOMICS", "READS", "UNKNOWN", "WRITES", "accesses_of"]

READS, ATOMICS, UNKNOWN, WRITES = "reads", "atomics", "", "writes"
ORDER = (READS, ATOMICS, UNKNOWN, WRITES)

# Whose result is the same pointer, or one into the same memory.
LEADS_ON = {
    op.ACCESS_CHAIN, op.IN_BOUNDS_ACCESS_CHAIN, op.POINTER_ACCESS_CHAIN, op.IN_BOUNDS_POINTER_ACCESS_CHAIN,
    op.COPY_OBJECT, op.POINTER_TO_GENERIC, op.GENERIC_TO_POINTER, op.GENERIC_TO_POINTER_EXPLICIT, op.BITCAST,
    op.SELECT, op.PHI, op.POINTER_TO_NUMBER,
}  # fmt: skip
ONLY_LOOKS = {
    op.LOAD,
    op.ATOMIC_LOAD,
    op.POINTER_EQUAL,
    op.POINTER_NOT_EQUAL,
    op.POINTER_DIFFERENCE,
    *op.LIFETIMES,
    *op.COMPARISONS,
}


def accesses_of(module: bytes, kernel: str) -> Sequence[str]:
    """Return for each parameter of a kernel what is done with the memory that it points to.

    Parameters
    ----------
    module : bytes
        SPIR-V.
    kernel : str

    Returns
    -------
    sequence of str
        READS when nothing writes there, ATOMICS when only atomic operations do, WRITES when something else does.
        UNKNOWN when the pointer goes where it cannot be followed: into memory, a number, a function of another module.
        Empty for what is no module of this machine's byte order or has no such kernel.
    """
    try:
        read = SpirvModule(module)
    except ModuleError:
        return ()
    for number, name in read.entries.items():
        if name == kernel:
            types = {each[1] for each in read.all_of(op.TYPE_POINTER)}
            functions = _Functions(read.functions(), types)
            return [functions.access(number, at) for at in range(functions.parameters(number))]
    return ()


class _Functions:
    def __init__(self, bodies: dict[int, list[Instruction]], types: set[int]) -> None:
        self._bodies = bodies
        self._types = types  # of pointers
        self._known: dict[tuple[int, int], str] = {}

    def parameters(self, function: int) -> int:
        """The number of a function's parameters."""
        return sum(opcode_of(each) == op.PARAMETER for each in self._bodies[function])

    def access(self, function: int, at: int) -> str:
        """What a function does through its parameter of this number."""
        if (function, at) not in self._known:
            self._known[function, at] = UNKNOWN  # for the inner call of a recursion
            self._known[function, at] = self._followed(self._bodies.get(function, []), at)
        return self._known[function, at]

    def _followed(self, body: list[Instruction], at: int) -> str:
        declared = [each[2] for each in body if opcode_of(each) == op.PARAMETER]
        if at >= len(declared) or not any(opcode_of(each) == op.LABEL for each in body):
            return UNKNOWN  # another module has its body
        pointers = {declared[at]}
        variables = {each[2] for each in body if opcode_of(each) == op.VARIABLE}
        slots: set[int] = set()  # variables that keep such a pointer, as a compiler that does not optimize has them
        found = READS
        size = -1
        while size != len(pointers) + len(slots):  # branches may lead back
            size = len(pointers) + len(slots)
            for each in body:
                found = max(found, self._step(each, pointers, variables, slots), key=ORDER.index)
                if found == WRITES:
                    return WRITES
        return found

    def _step(self, each: Instruction, pointers: set[int], variables: set[int], slots: set[int]) -> str:
        opcode = opcode_of(each)
        used = [place for place in ids_in(each) if each[place] in pointers or each[place] in slots]
        if not used or opcode in (op.PARAMETER, op.VARIABLE):
            return READS
        if opcode == op.STORE:
            target, value = each[1], each[2]
            if value in pointers and target in variables:
                slots.add(target)
            if target in pointers:
                return WRITES
            return READS if target in slots and value not in slots else UNKNOWN
        if opcode == op.LOAD and each[3] in slots:
            pointers.add(each[2])
            return READS
        if opcode in op.LIFETIMES:
            return READS
        if any(each[place] in slots for place in used):
            return UNKNOWN  # somebody else may have the pointer from there
        if opcode in ONLY_LOOKS:
            return READS
        if opcode in LEADS_ON:
            pointers.add(each[2])
            return READS
        if opcode in op.ATOMICS or opcode in op.FLOAT_ATOMICS:
            pointer = each[1] if opcode == op.ATOMIC_STORE else each[3]
            return ATOMICS if pointer in pointers else UNKNOWN
        if opcode == op.CALL:
            if each[1] in self._types:
                pointers.add(each[2])  # it may return this one
            return max(
                (self.access(each[3], at) for at, value in enumerate(each[4:]) if value in pointers), key=ORDER.index
            )
        if opcode == op.EXTENDED and each[4] in op.VECTOR_LOADS:
            return READS
        if opcode == op.EXTENDED and each[4] in op.VECTOR_STORES:
            return WRITES
        if opcode in (op.COPY_MEMORY, op.COPY_MEMORY_SIZED):
            return WRITES if each[1] in pointers else READS
        if opcode == op.GROUP_COPY:
            return WRITES if each[4] in pointers else READS
        return UNKNOWN
