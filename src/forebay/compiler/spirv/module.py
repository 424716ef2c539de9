"""A SPIR-V module as a list of instructions that can be changed."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Sequence

from forebay.compiler.spirv import opcodes as op

__all__ = [
    "COUNTED_WARPS",
    "Instruction",
    "ModuleError",
    "SpirvModule",
    "ids_in",
    "make",
    "opcode_of",
    "text_of",
    "words_of",
]

FLOAT4 = 4 << 16 | 5  # the word that names a type to VECTOR_TYPE

COUNTED_WARPS = "warps count through x, y and z"
"""An OpString of modules whose kernels of a required sub-group size mean HIP's warps."""

Instruction = list[int]
"""The word with length and opcode, then the operands."""

# Where numbers begin that are no ids, in instructions of functions.
LITERALS_FROM = {
    op.LINE: 2, op.FUNCTION: 5, op.VARIABLE: 3,  # whose initializer is no id of the function
    op.LOAD: 4, op.STORE: 3, op.COPY_MEMORY: 3, op.COPY_MEMORY_SIZED: 4,  # alignments
    op.SHUFFLE: 5, op.EXTRACT: 4, op.INSERT: 5, op.GENERIC_TO_POINTER_EXPLICIT: 4,
    op.LOOP_MERGE: 3, op.SELECTION_MERGE: 2, op.CONDITIONAL: 4, op.SWITCH: 2, op.LIFETIME_START: 2, op.LIFETIME_STOP: 2,
}  # fmt: skip
# One number between ids: OpExtInst's instruction, what groups' operations compute, OpFunction's control.
LITERAL_AT = {op.EXTENDED: 4, op.FUNCTION: 3, **dict.fromkeys((*range(264, 272), 342, *range(349, 365)), 4)}


class ModuleError(ValueError):
    """These bytes are no module, or it has what the device's drivers do not take; the message says what."""


def text_of(words: Sequence[int]) -> str:
    """Return the text that these words begin with."""
    return struct.pack(f"<{len(words)}I", *words).split(b"\0")[0].decode(errors="replace")


def words_of(text: str) -> list[int]:
    """Return a text as words."""
    data = text.encode() + b"\0"
    data += b"\0" * (-len(data) % 4)
    return list(struct.unpack(f"<{len(data) // 4}I", data))


def make(opcode: int, *operands: int) -> Instruction:
    """Return an instruction."""
    return [(len(operands) + 1) << 16 | opcode, *operands]


def opcode_of(instruction: Instruction) -> int:
    """Return what an instruction does."""
    return instruction[0] & 0xFFFF


def ids_in(instruction: Instruction) -> Collection[int]:
    """Return the places in an instruction of a function that may be ids; of OpSwitch not those of its labels."""
    opcode = opcode_of(instruction)
    literal = LITERAL_AT.get(opcode)
    places = range(1, min(LITERALS_FROM.get(opcode, len(instruction)), len(instruction)))
    return [at for at in places if at != literal] if literal else places


class SpirvModule:
    """A module that is changed instruction by instruction.

    Parameters
    ----------
    module : bytes
        In the byte order of this machine.

    Attributes
    ----------
    header : list of int
    instructions : list of Instruction
        Each is a list of words.
    entries : dict
        The kernels' names, by the id of their functions.

    Raises
    ------
    ModuleError
    """

    def __init__(self, module: bytes) -> None:
        words = struct.unpack(f"<{len(module) // 4}I", module[: len(module) // 4 * 4])
        if len(words) < op.HEADER_WORDS or words[0] != op.MAGIC:
            raise ModuleError("these bytes are no SPIR-V")
        self.header = list(words[: op.HEADER_WORDS])
        self.instructions: list[Instruction] = []
        at = op.HEADER_WORDS
        while at < len(words):
            count = words[at] >> 16
            if count == 0 or at + count > len(words):
                raise ModuleError("the SPIR-V is cut off")
            self.instructions.append(list(words[at : at + count]))
            at += count
        self.entries = {each[2]: text_of(each[3:]) for each in self.all_of(op.ENTRY_POINT)}

    def dumps(self) -> bytes:
        """Return the module's bytes."""
        flat = [*self.header, *(word for instruction in self.instructions for word in instruction)]
        return struct.pack(f"<{len(flat)}I", *flat)

    def all_of(self, opcode: int) -> Iterable[Instruction]:
        """Return the instructions that do this."""
        return (each for each in self.instructions if opcode_of(each) == opcode)

    def new_id(self) -> int:
        """Return an id that nothing has."""
        self.header[3] += 1
        number: int = self.header[3] - 1
        return number

    def declare(self, opcode: int, *operands: int, typed: bool = False) -> int:
        """Return the id of a type, or of a constant, which has its type before its own id; make what is missing."""
        key = (opcode, *operands)
        known = self._declared.get(key, 0)
        if not known:
            known = self._declared[key] = self.new_id()
            self._added.append(
                make(opcode, operands[0], known, *operands[1:]) if typed else make(opcode, known, *operands)
            )
        return known

    def begin_declaring(self) -> None:
        """Note the types that are there: SPIR-V forbids a second one that is no structure."""
        self._added: list[Instruction] = []
        self._declared: dict[tuple[int, ...], int] = {}
        for each in self.instructions:
            opcode = opcode_of(each)
            if opcode in (op.TYPE_BOOL, op.TYPE_INT, op.TYPE_VECTOR, op.TYPE_POINTER, op.TYPE_FUNCTION):
                self._declared.setdefault((opcode, *each[2:]), each[1])
            elif opcode in (op.CONSTANT, op.CONSTANT_NULL):
                self._declared.setdefault((opcode, each[1], *each[3:]), each[2])
            elif opcode == op.FUNCTION:
                break

    def end_declaring(self) -> None:
        """Put what was declared before the functions."""
        at = next(
            (i for i, each in enumerate(self.instructions) if opcode_of(each) == op.FUNCTION), len(self.instructions)
        )
        self.instructions[at:at] = self._added

    def first_of_debug(self) -> int:
        """Return where OpString and OpSource go: behind the entry points and their modes."""
        last = [
            i
            for i, each in enumerate(self.instructions)
            if opcode_of(each) in (op.MEMORY_MODEL, op.ENTRY_POINT, op.EXECUTION_MODE, op.EXECUTION_MODE_ID)
        ]
        return last[-1] + 1 if last else 0

    def part_threads(self, kernels: Collection[int]) -> bool:
        """Say that kernels are not to be made into vectors, but for those with warps; return whether there are others.

        Intel's CPU runtime takes a kernel that asks for vectors of its own for one of vectors, and runs it as it is.
        """
        but = {each[1] for each in self.all_of(op.EXECUTION_MODE) if each[2] in (op.SUB_GROUP_SIZE, op.VECTOR_TYPE)}
        modes = [
            make(op.EXECUTION_MODE, number, op.VECTOR_TYPE, FLOAT4)
            for number in self.entries
            if number in kernels and number not in but
        ]
        at = self.first_of_debug()
        self.instructions[at:at] = modes
        return bool(modes)

    def functions(self) -> dict[int, list[Instruction]]:
        """Return the instructions of each function, with OpFunction."""
        found: dict[int, list[Instruction]] = {}
        body: list[Instruction] | None = None
        for each in self.instructions:
            if opcode_of(each) == op.FUNCTION:
                body = found[each[2]] = []
            if body is not None:
                body.append(each)
            if opcode_of(each) == op.FUNCTION_END:
                body = None
        return found

    def with_callers(self, users: set[int]) -> set[int]:
        """Return these functions and those that call them, directly or not."""
        callers: dict[int, set[int]] = {}
        for number, body in self.functions().items():
            for each in body:
                if opcode_of(each) == op.CALL:
                    callers.setdefault(each[3], set()).add(number)
        users, waiting = set(users), list(users)
        while waiting:
            for caller in callers.get(waiting.pop(), ()):
                if caller not in users:
                    users.add(caller)
                    waiting.append(caller)
        return users
