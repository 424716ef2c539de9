"""What is changed in a SPIR-V module that clang made for HIP, so that drivers of OpenCL and Level Zero take it.

Numbers are from the SPIR-V specification: opcodes (3.32), storage classes (3.7), decorations (3.20).
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping, Sequence

from forebay.hiprtc.bounds import comparing_negated
from forebay.hiprtc.signatures import KernelSignature
from forebay.hiprtc.spinning import spinning

__all__ = ["ModuleError", "finish_module", "imported_functions"]

MAGIC, HEADER_WORDS = 0x07230203, 5
SOURCE, SOURCE_EXTENSION, NAME, STRING, EXTENDED, ENTRY_POINT = 3, 4, 5, 7, 12, 15
TYPE_BOOL, TYPE_INT, TYPE_VECTOR, TYPE_POINTER, TYPE_FUNCTION = 20, 21, 23, 32, 33
CONSTANT, CONSTANT_NULL, OPERATION = 43, 46, 52
FUNCTION, PARAMETER, FUNCTION_END, CALL, VARIABLE = 54, 55, 56, 57, 59
DECORATE, BITCAST, NOT_EQUAL, LABEL = 71, 124, 171, 248
LINE, NO_LINE = 8, 317
WORKGROUP = 4
MEMORY_MODEL, EXECUTION_MODE, EXECUTION_MODE_ID = 14, 16, 331
LINKAGE, IMPORTED = 41, 1
BUILT_IN, SUB_GROUP_SIZE = 11, 35
INDICES = (27, 28)  # LocalInvocationId, GlobalInvocationId
MEMORY_BARRIER, INVOCATION, ALL_IN_ORDER = 225, 4, 0x310
SUB_GROUP_VARIABLES = range(36, 42)  # from SubgroupSize to SubgroupLocalInvocationId
SUB_GROUP_OPERATIONS = {*range(333, 367), *range(5571, 5582)}
VECTOR_TYPE, FLOAT4 = 30, 4 << 16 | 5
CONTROL_BARRIER, SUB_GROUP_SCOPE = 224, 3
OPENCL_CPP, ITS_VERSION = 4, 100000

Instruction = list[int]


class ModuleError(ValueError):
    """The module has what the device's drivers do not take; the message says what."""


def finish_module(
    module: bytes, kernels: Sequence[KernelSignature], renamed: Mapping[str, str]
) -> tuple[bytes, set[str]]:
    """Return the module as drivers take it, and the kernels that have dynamic shared memory as a last parameter.

    Parameters
    ----------
    module
        What clang made.
    kernels
        The kernels in it.
    renamed
        New names of kernels, by symbol.

    Raises
    ------
    ModuleError
    """
    spirv = _Module(module)
    spirv.say_source()
    spirv.widen_bools()
    spirv.free_width()
    spirv.part_threads()
    spirv.keep_bounds()
    dynamic = spirv.pass_shared_memory()
    spirv.describe(kernels, dynamic, renamed)
    return spirv.dumps(), {renamed.get(name, name) for name in dynamic}


def imported_functions(module: bytes) -> list[str]:
    """Return the names of the functions that a module calls and does not have."""
    spirv = _Module(module)
    functions = {each[2] for each in spirv._all(FUNCTION)}
    return [
        _text(each[3:-1])
        for each in spirv._all(DECORATE)
        if each[2] == LINKAGE and each[-1] == IMPORTED and each[1] in functions
    ]


def _text(words: Sequence[int]) -> str:
    return struct.pack(f"<{len(words)}I", *words).split(b"\0")[0].decode(errors="replace")


def _words(text: str) -> list[int]:
    data = text.encode() + b"\0"
    data += b"\0" * (-len(data) % 4)
    return list(struct.unpack(f"<{len(data) // 4}I", data))


def _made(opcode: int, *operands: int) -> Instruction:
    return [(len(operands) + 1) << 16 | opcode, *operands]


def _opcode(instruction: Instruction) -> int:
    return instruction[0] & 0xFFFF


# Where numbers begin that are no ids, in instructions of functions; OpExtInst has one between ids.
LITERALS_FROM = {
    61: 4, 62: 3, 63: 3, 64: 4,  # alignments, of OpLoad, OpStore, OpCopyMemory and OpCopyMemorySized
    79: 5, 81: 4, 82: 5,  # OpVectorShuffle, OpCompositeExtract, OpCompositeInsert
    246: 3, 247: 2, 250: 4, 251: 2,  # merges, OpBranchConditional, OpSwitch
}  # fmt: skip


def _ids(instruction: Instruction) -> Collection[int]:
    """The places in an instruction that may be ids."""
    opcode = _opcode(instruction)
    places = range(1, LITERALS_FROM.get(opcode, len(instruction)))
    return [at for at in places if at != 4] if opcode == EXTENDED else places


class _Module:
    def __init__(self, module: bytes) -> None:
        words = struct.unpack(f"<{len(module) // 4}I", module[: len(module) // 4 * 4])
        if len(words) < HEADER_WORDS or words[0] != MAGIC:
            raise ModuleError("clang made no SPIR-V")
        self.header = list(words[:HEADER_WORDS])
        self.instructions: list[Instruction] = []
        at = HEADER_WORDS
        while at < len(words):
            count = words[at] >> 16
            if count == 0 or at + count > len(words):
                raise ModuleError("clang's SPIR-V is cut off")
            self.instructions.append(list(words[at : at + count]))
            at += count
        self.entries = {each[2]: _text(each[3:]) for each in self._all(ENTRY_POINT)}

    def dumps(self) -> bytes:
        """Return the module's bytes."""
        flat = [*self.header, *(word for instruction in self.instructions for word in instruction)]
        return struct.pack(f"<{len(flat)}I", *flat)

    def _all(self, opcode: int) -> Iterable[Instruction]:
        return (each for each in self.instructions if _opcode(each) == opcode)

    def _new(self) -> int:
        self.header[3] += 1
        number: int = self.header[3] - 1
        return number

    def _declare(self, opcode: int, *operands: int, typed: bool = False) -> int:
        """The id of a type, or of a constant, which has its type before its own id. It is made if it is missing."""
        key = (opcode, *operands)
        known = self._declared.get(key, 0)
        if not known:
            known = self._declared[key] = self._new()
            self._added.append(
                _made(opcode, operands[0], known, *operands[1:]) if typed else _made(opcode, known, *operands)
            )
        return known

    def _begin_declaring(self) -> None:
        """Note the types that are there: SPIR-V forbids a second one that is no structure."""
        self._added: list[Instruction] = []
        self._declared: dict[tuple[int, ...], int] = {}
        for each in self.instructions:
            opcode = _opcode(each)
            if opcode in (TYPE_BOOL, TYPE_INT, TYPE_VECTOR, TYPE_POINTER, TYPE_FUNCTION):
                self._declared.setdefault((opcode, *each[2:]), each[1])
            elif opcode in (CONSTANT, CONSTANT_NULL):
                self._declared.setdefault((opcode, each[1], *each[3:]), each[2])
            elif opcode == FUNCTION:
                break

    def _end_declaring(self) -> None:
        at = next((i for i, each in enumerate(self.instructions) if _opcode(each) == FUNCTION), len(self.instructions))
        self.instructions[at:at] = self._added

    # -- the passes

    def say_source(self) -> None:
        """Say that the source was C++ for OpenCL.

        Drivers choose their built-in functions by this: for OpenCL C, which clang says, Intel's CPU runtime has no
        atomic operations on generic pointers.
        """
        sources = list(self._all(SOURCE))
        for each in sources:
            each[1:3] = [OPENCL_CPP, ITS_VERSION]
        if not sources:
            self.instructions.insert(self._first_of_debug(), _made(SOURCE, OPENCL_CPP, ITS_VERSION))

    def free_width(self) -> None:
        """Let kernels without warps be as wide as the device likes.

        Where blocks are narrower than a warp along x, Intel's CPU runtime runs a kernel of a required width one thread
        after another.
        """
        lanes = {
            each[1] for each in self._all(DECORATE) if each[2] == BUILT_IN and each[3] in SUB_GROUP_VARIABLES
        }  # fmt: skip
        scopes = {each[2] for each in self._all(CONSTANT) if each[3:] == [SUB_GROUP_SCOPE]}
        functions = self._functions()
        users = self._with_callers({
            number for number, body in functions.items()
            if any(
                _opcode(each) in SUB_GROUP_OPERATIONS
                or (_opcode(each) == CONTROL_BARRIER and each[1] in scopes)
                or any(each[at] in lanes for at in _ids(each))
                for each in body
            )
        })  # fmt: skip
        self.instructions = [
            each for each in self.instructions
            if not (_opcode(each) == EXECUTION_MODE and each[2] == SUB_GROUP_SIZE and each[1] not in users)
        ]  # fmt: skip

    def part_threads(self) -> None:
        """Say that kernels whose threads may wait for each other are not to be made into vectors, see `spinning`."""
        constants = {each[2] for opcode in (CONSTANT, CONSTANT_NULL) for each in self._all(opcode)}
        zeros = {each[2] for each in self._all(CONSTANT_NULL)}
        zeros |= {each[2] for each in self._all(CONSTANT) if not any(each[3:])}
        users = self._with_callers(spinning(self._functions(), constants, zeros))
        warps = {each[1] for each in self._all(EXECUTION_MODE) if each[2] == SUB_GROUP_SIZE}
        at = self._first_of_debug()
        self.instructions[at:at] = [
            _made(EXECUTION_MODE, number, VECTOR_TYPE, FLOAT4) for number in self.entries if number in users - warps
        ]

    def keep_bounds(self) -> None:
        """Put a fence of one thread at the beginning of kernels that would spoil those after them, see `bounds`."""
        numbers = {each[2]: each[3:] for each in self._all(CONSTANT)}
        numbers |= {each[2]: [0] for each in self._all(CONSTANT_NULL)}
        small = {number for number, (low, *high) in numbers.items() if low < 2 and not any(high)}
        negative = {number for number, words in numbers.items() if words[-1] >> 31}
        indices = {each[1] for each in self._all(DECORATE) if each[2] == BUILT_IN and each[3] in INDICES}
        *first, _ = [number for number in self._functions() if number in self.entries] or [0]
        functions = self._functions()
        found = comparing_negated({number: functions[number] for number in first}, indices, small, negative)
        if not found:
            return
        self._begin_declaring()
        uint = self._declare(TYPE_INT, 32, 0)
        scope, order = (self._declare(CONSTANT, uint, value, typed=True) for value in (INVOCATION, ALL_IN_ORDER))
        self._after_variables({number: _made(MEMORY_BARRIER, scope, order) for number in found})
        self._end_declaring()

    def widen_bools(self) -> None:
        """Make parameters of kernels that are of type bool bytes, as the host passes them: OpTypeBool has no size."""
        bools = {each[1] for each in self._all(TYPE_BOOL)}
        parameters = [each for each in self._parameters() if each[1] in bools]
        if not parameters:
            return
        self._begin_declaring()
        byte = self._declare(TYPE_INT, 8, 0)
        zero = self._declare(CONSTANT_NULL, byte, typed=True)
        tests: list[Instruction] = []
        for each in parameters:
            number = self._new()
            tests.append(_made(NOT_EQUAL, each[1], each[2], number, zero))
            self._rename(each[2], number)
            each[1:] = [byte, number]
        self._retype_functions()
        made = {test[3]: test for test in tests}
        self._at_entry({number: [made[number]] for number in made})
        self._end_declaring()

    def pass_shared_memory(self) -> set[str]:
        """Make ``extern __shared__`` memory a last parameter of the kernels that use it; return their names.

        All such arrays are one, as in HIP. The functions between a kernel and the use get the parameter, too.
        """
        imported = {
            each[1] for each in self._all(DECORATE) if each[2] == LINKAGE and each[-1] == IMPORTED
        }  # fmt: skip
        arrays = {each[2]: each[1] for each in self._all(VARIABLE) if each[3] == WORKGROUP and each[2] in imported}
        if not arrays:
            return set()
        derived = self._derived(set(arrays))
        functions = self._functions()
        users = {
            number for number, body in functions.items()
            if any(each[at] in arrays or each[at] in derived for each in body for at in _ids(each))
        }  # fmt: skip
        users = self._with_callers(users)
        self._begin_declaring()
        # As wide as what is aligned most: drivers align local memory by the type that it is declared as.
        wide = self._declare(TYPE_VECTOR, self._declare(TYPE_INT, 32, 0), 4)
        pointer = self._declare(TYPE_POINTER, WORKGROUP, wide)
        self._add_parameter(users, pointer, arrays, derived)
        self._retype_functions()
        self._end_declaring()
        gone = {*arrays, *derived}
        self.instructions = [each for each in self.instructions if not self._belongs_to(each, gone)]
        for each in self._all(ENTRY_POINT):
            each[:] = _made(ENTRY_POINT, *(word for word in each[1:] if word not in arrays))
        return {name for number, name in self.entries.items() if number in users}

    def describe(self, kernels: Sequence[KernelSignature], dynamic: set[str], renamed: Mapping[str, str]) -> None:
        """Add the names and types of the kernels' parameters, in the strings that translators from OpenCL C leave."""
        known = {kernel.symbol: kernel for kernel in kernels}
        names: dict[int, str] = {}
        said: list[Instruction] = []
        for number, symbol in self.entries.items():
            kernel = known.get(symbol)
            parameters = self._parameters_of(number)
            shared = symbol in dynamic
            if kernel is None or len(parameters) != len(kernel.parameters) + shared:
                continue
            each_name = [p.name for p in kernel.parameters] + ["dynamic_shared"] * shared
            types = [p.type_name for p in kernel.parameters] + ["uint4*"] * shared
            qualifiers = ["const" if p.const else "" for p in kernel.parameters] + [""] * shared
            names |= {parameter[2]: name for parameter, name in zip(parameters, each_name, strict=True)}
            name = renamed.get(symbol, symbol)
            for what, words in (("kernel_arg_type", types), ("kernel_arg_type_qual", qualifiers)):
                said.append(_made(STRING, self._new(), *_words(f"{what}.{name}.{','.join(words)},")))
        for each in self._all(ENTRY_POINT):
            symbol = self.entries[each[2]]
            if symbol in renamed:
                length = len(_words(symbol))
                each[:] = _made(ENTRY_POINT, *each[1:3], *_words(renamed[symbol]), *each[3 + length :])
                names[each[2]] = renamed[symbol]
        # Intel's CPU runtime calls a kernel by its OpName, not by its entry point.
        self.instructions = [each for each in self.instructions if not (_opcode(each) == NAME and each[1] in names)]
        at = self._first_of_debug()
        self.instructions[at:at] = said
        at = next(
            (i for i, each in enumerate(self.instructions) if _opcode(each) == NAME or _opcode(each) >= TYPE_BOOL - 1),
            len(self.instructions),
        )
        while _opcode(self.instructions[at - 1]) in (SOURCE_EXTENSION,):
            at -= 1
        self.instructions[at:at] = [_made(NAME, number, *_words(name)) for number, name in names.items()]

    # -- parts of them

    def _first_of_debug(self) -> int:
        """Where OpString and OpSource go: behind the entry points and their modes."""
        last = [
            i
            for i, each in enumerate(self.instructions)
            if _opcode(each) in (MEMORY_MODEL, ENTRY_POINT, EXECUTION_MODE, EXECUTION_MODE_ID)
        ]
        return last[-1] + 1 if last else 0

    def _functions(self) -> dict[int, list[Instruction]]:
        """The instructions of each function, with OpFunction."""
        found: dict[int, list[Instruction]] = {}
        body: list[Instruction] | None = None
        for each in self.instructions:
            if _opcode(each) == FUNCTION:
                body = found[each[2]] = []
            if body is not None:
                body.append(each)
            if _opcode(each) == FUNCTION_END:
                body = None
        return found

    def _with_callers(self, users: set[int]) -> set[int]:
        """These functions and those that call them, directly or not."""
        callers: dict[int, set[int]] = {}
        for number, body in self._functions().items():
            for each in body:
                if _opcode(each) == CALL:
                    callers.setdefault(each[3], set()).add(number)
        users, waiting = set(users), list(users)
        while waiting:
            for caller in callers.get(waiting.pop(), ()):
                if caller not in users:
                    users.add(caller)
                    waiting.append(caller)
        return users

    def _parameters(self) -> list[Instruction]:
        """OpFunctionParameter of each kernel."""
        return [each for number in self.entries for each in self._parameters_of(number)]

    def _parameters_of(self, function: int) -> list[Instruction]:
        return [each for each in self._functions().get(function, []) if _opcode(each) == PARAMETER]

    def _rename(self, old: int, new: int) -> None:
        """Let names and decorations of an id, but no use, be those of another."""
        for each in self.instructions:
            if _opcode(each) in (NAME, DECORATE) and each[1] == old:
                each[1] = new

    def _retype_functions(self) -> None:
        """Give each function the type that its parameters say."""
        results = {each[1]: each[2] for each in self._all(TYPE_FUNCTION)}
        for body in self._functions().values():
            types = [each[1] for each in body if _opcode(each) == PARAMETER]
            body[0][4] = self._declare(TYPE_FUNCTION, results.get(body[0][4], body[0][1]), *types)

    def _at_entry(self, wanted: Mapping[int, list[Instruction]]) -> None:
        """Insert instructions at the beginning of the functions that have these parameters."""
        made: list[Instruction] = []
        waiting: list[Instruction] = []
        in_first = False
        for each in self.instructions:
            opcode = _opcode(each)
            if opcode == PARAMETER:
                waiting += wanted.get(each[2], [])
            if in_first and opcode not in (VARIABLE, LINE, NO_LINE):
                made += waiting
                waiting, in_first = [], False
            made.append(each)
            if opcode == LABEL and waiting:
                in_first = True
        self.instructions = made

    def _after_variables(self, wanted: Mapping[int, Instruction]) -> None:
        """Insert an instruction at the beginning of functions."""
        made: list[Instruction] = []
        waiting: Instruction | None = None
        in_first = False
        for each in self.instructions:
            opcode = _opcode(each)
            if opcode == FUNCTION:
                waiting, in_first = wanted.get(each[2]), False
            if waiting is not None and in_first and opcode not in (VARIABLE, LINE, NO_LINE):
                made.append(waiting)
                waiting = None
            made.append(each)
            in_first = in_first or opcode == LABEL
        self.instructions = made

    def _derived(self, arrays: set[int]) -> dict[int, Instruction]:
        """The constants that are computed from these, in order."""
        found: dict[int, Instruction] = {}
        for each in self.instructions:
            opcode = _opcode(each)
            if opcode == FUNCTION:
                break
            if opcode in (NAME, DECORATE, ENTRY_POINT, EXTENDED) or not any(
                word in arrays or word in found for word in each[1:]
            ):
                continue
            if opcode == OPERATION and any(word in arrays or word in found for word in each[4:]):
                found[each[2]] = each
            elif opcode in (41, 42, 44, 45, VARIABLE) and any(word in arrays or word in found for word in each[3:]):
                raise ModuleError("the address of extern __shared__ memory in an initializer")
        return found

    def _add_parameter(
        self, users: set[int], pointer: int, arrays: Mapping[int, int], derived: Mapping[int, Instruction]
    ) -> None:
        """Give functions the pointer, pass it on in calls, and compute from it what stood for the arrays."""
        added: dict[int, list[Instruction]] = {}
        made: list[Instruction] = []
        own: dict[int, int] = {}
        function = parameter = 0
        for each in self.instructions:
            opcode = _opcode(each)
            if opcode == FUNCTION:
                function, parameter = each[2], 0
            elif function in users and opcode != PARAMETER and not parameter:
                parameter = self._new()
                made.append(_made(PARAMETER, pointer, parameter))
                own = {number: self._new() for number in (*arrays, *derived)}
                begin = [_made(BITCAST, type, own[number], parameter) for number, type in arrays.items()]
                for number, constant in derived.items():
                    operands = [own.get(word, word) for word in constant[4:]]
                    begin.append(_made(constant[3], constant[1], own[number], *operands))
                added[parameter] = begin
            if function in users and parameter and opcode not in (LABEL, LINE, FUNCTION_END):
                each = [*(own.get(word, word) if at in _ids(each) else word for at, word in enumerate(each))]
                if opcode == CALL and each[3] in users:
                    each = _made(CALL, *each[1:], parameter)
            made.append(each)
            if opcode == FUNCTION_END:
                function = 0
        self.instructions = made
        self._at_entry(added)

    @staticmethod
    def _belongs_to(instruction: Instruction, gone: set[int]) -> bool:
        """Whether an instruction declares or describes something that is gone."""
        opcode = _opcode(instruction)
        if opcode in (VARIABLE, OPERATION):
            return instruction[2] in gone
        return opcode in (NAME, DECORATE) and instruction[1] in gone
