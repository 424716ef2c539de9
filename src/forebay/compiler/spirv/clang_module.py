"""What is changed in a SPIR-V module that clang made for HIP, so that drivers of OpenCL and Level Zero take it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from forebay.compiler.spirv import opcodes as op
from forebay.compiler.spirv.lockstep import relying_on_lockstep
from forebay.compiler.spirv.module import (
    COUNTED_WARPS,
    Instruction,
    ModuleError,
    SpirvModule,
    ids_in,
    make,
    opcode_of,
    words_of,
)
from forebay.compiler.spirv.recursion import recursive

if TYPE_CHECKING:
    from forebay.compiler.program import KernelSignature

__all__ = ["ClangModule"]

ITS_VERSION = 100000


class ClangModule(SpirvModule):
    """A module that clang made for HIP, and the passes over it."""

    # -- the passes

    def say_source(self) -> None:
        """Say that the source was C++ for OpenCL.

        Drivers choose their built-in functions by this: for OpenCL C, which clang says, Intel's CPU runtime has no
        atomic operations on generic pointers.
        """
        sources = list(self.all_of(op.SOURCE))
        for each in sources:
            each[1:3] = [op.OPENCL_CPP, ITS_VERSION]
        if not sources:
            self.instructions.insert(self.first_of_debug(), make(op.SOURCE, op.OPENCL_CPP, ITS_VERSION))

    def free_width(self) -> None:
        """Let kernels without warps be as wide as the device likes.

        Where blocks are narrower than a warp along x, Intel's CPU runtime runs a kernel of a required width one thread
        after another.
        """
        lanes = {
            each[1] for each in self.all_of(op.DECORATE) if each[2] == op.BUILT_IN and each[3] in op.SUB_GROUP_VARIABLES
        }  # fmt: skip
        scopes = {each[2] for each in self.all_of(op.CONSTANT) if each[3:] == [op.SUB_GROUP_SCOPE]}
        functions = self.functions()
        users = self.with_callers({
            number for number, body in functions.items()
            if any(
                opcode_of(each) in op.SUB_GROUP_OPERATIONS
                or (opcode_of(each) == op.BARRIER and each[1] in scopes)
                or any(each[at] in lanes for at in ids_in(each))
                for each in body
            )
        })  # fmt: skip
        self.instructions = [
            each for each in self.instructions
            if not (opcode_of(each) == op.EXECUTION_MODE and each[2] == op.SUB_GROUP_SIZE and each[1] not in users)
        ]  # fmt: skip
        if users & self.entries.keys():
            self.say(COUNTED_WARPS)

    def relying(self) -> list[str]:
        """The kernels whose threads rely on going on together, see `lockstep`."""
        variables = [each for opcode in (op.VARIABLE, op.CONSTANT_OPERATION) for each in self.all_of(opcode)]
        users = self.with_callers(relying_on_lockstep(self.functions(), variables))
        return [name for number, name in self.entries.items() if number in users]

    def widen_bools(self) -> None:
        """Make parameters of kernels that are of type bool bytes, as the host passes them: OpTypeBool has no size."""
        bools = {each[1] for each in self.all_of(op.TYPE_BOOL)}
        parameters = [each for each in self._parameters() if each[1] in bools]
        if not parameters:
            return
        self.begin_declaring()
        byte = self.declare(op.TYPE_INT, 8, 0)
        zero = self.declare(op.CONSTANT_NULL, byte, typed=True)
        tests: list[Instruction] = []
        for each in parameters:
            number = self.new_id()
            tests.append(make(op.NOT_EQUAL, each[1], each[2], number, zero))
            each[1:] = [byte, number]
        self._rename({test[2]: test[3] for test in tests})
        self._retype_functions()
        made = {test[3]: test for test in tests}
        self._at_entry({number: [made[number]] for number in made})
        self.end_declaring()

    def number_pointers(self) -> None:
        """Pass generic pointers to recursive functions as numbers, see `recursion`."""
        functions = self.functions()
        generic = {each[1] for each in self.all_of(op.TYPE_POINTER) if each[2] == op.GENERIC}
        parameters = {
            number: [each for each in functions[number] if opcode_of(each) == op.PARAMETER]
            for number in recursive(functions)
        }
        pointers = {number: [each[1] in generic for each in those] for number, those in parameters.items()}
        if not any(map(any, pointers.values())):
            return
        self.begin_declaring()
        ulong = self.declare(op.TYPE_INT, 64, 0)
        made: dict[int, list[Instruction]] = {}
        renamed: dict[int, int] = {}
        for each in (each for those in parameters.values() for each in those if each[1] in generic):
            number = self.new_id()
            made[number] = [make(op.NUMBER_TO_POINTER, each[1], each[2], number)]
            renamed[each[2]] = number
            each[1:] = [ulong, number]
        self._rename(renamed)
        # A number is neither aliased nor read-only.
        self.instructions = [
            each for each in self.instructions if not (opcode_of(each) == op.DECORATE and each[1] in made)
        ]
        self._retype_functions()
        self._at_entry(made)
        changed: list[Instruction] = []
        for each in self.instructions:
            if opcode_of(each) == op.CALL:
                for at, is_pointer in enumerate(pointers.get(each[3], ()), 4):
                    if is_pointer:
                        changed.append(make(op.POINTER_TO_NUMBER, ulong, self.new_id(), each[at]))
                        each[at] = changed[-1][2]
            changed.append(each)
        self.instructions = changed
        self.end_declaring()

    def pass_shared_memory(self) -> set[str]:
        """Make ``extern __shared__`` memory a last parameter of the kernels that use it; return their names.

        All such arrays are one, as in HIP. The functions between a kernel and the use get the parameter, too.
        """
        imported = {
            each[1] for each in self.all_of(op.DECORATE) if each[2] == op.LINKAGE and each[-1] == op.IMPORTED
        }  # fmt: skip
        arrays = {
            each[2]: each[1] for each in self.all_of(op.VARIABLE) if each[3] == op.WORKGROUP and each[2] in imported
        }
        if not arrays:
            return set()
        derived = self._derived(set(arrays))
        functions = self.functions()
        users = {
            number for number, body in functions.items()
            if any(each[at] in arrays or each[at] in derived for each in body for at in ids_in(each))
        }  # fmt: skip
        users = self.with_callers(users)
        self.begin_declaring()
        # As wide as what is aligned most: drivers align local memory by the type that it is declared as.
        wide = self.declare(op.TYPE_VECTOR, self.declare(op.TYPE_INT, 32, 0), 4)
        pointer = self.declare(op.TYPE_POINTER, op.WORKGROUP, wide)
        self._add_parameter(users, pointer, arrays, derived)
        self._retype_functions()
        self.end_declaring()
        gone = {*arrays, *derived}
        self.instructions = [each for each in self.instructions if not self._belongs_to(each, gone)]
        for each in self.all_of(op.ENTRY_POINT):
            each[:] = make(op.ENTRY_POINT, *(word for word in each[1:] if word not in arrays))
        return {name for number, name in self.entries.items() if number in users}

    def describe(self, kernels: Sequence[KernelSignature], dynamic: set[str], renamed: Mapping[str, str]) -> None:
        """Add the names and types of the kernels' parameters, in the strings that translators from OpenCL C leave."""
        known = {kernel.symbol: kernel for kernel in kernels}
        names: dict[int, str] = {}
        said: list[Instruction] = []
        functions = self.functions()
        for number, symbol in self.entries.items():
            kernel = known.get(symbol)
            parameters = [each for each in functions[number] if opcode_of(each) == op.PARAMETER]
            shared = symbol in dynamic
            if kernel is None or len(parameters) != len(kernel.parameters) + shared:
                continue
            each_name = [p.name for p in kernel.parameters] + ["dynamic_shared"] * shared
            types = [p.type_name for p in kernel.parameters] + ["uint4*"] * shared
            qualifiers = ["const" if p.const else "" for p in kernel.parameters] + [""] * shared
            names |= {parameter[2]: name for parameter, name in zip(parameters, each_name, strict=True)}
            name = renamed.get(symbol, symbol)
            for what, words in (("kernel_arg_type", types), ("kernel_arg_type_qual", qualifiers)):
                said.append(make(op.STRING, self.new_id(), *words_of(f"{what}.{name}.{','.join(words)},")))
        for each in self.all_of(op.ENTRY_POINT):
            symbol = self.entries[each[2]]
            if symbol in renamed:
                length = len(words_of(symbol))
                each[:] = make(op.ENTRY_POINT, *each[1:3], *words_of(renamed[symbol]), *each[3 + length :])
                names[each[2]] = renamed[symbol]
        # Intel's CPU runtime calls a kernel by its OpName, not by its entry point.
        self.instructions = [
            each for each in self.instructions if not (opcode_of(each) == op.NAME and each[1] in names)
        ]
        at = self.first_of_debug()
        self.instructions[at:at] = said
        at = next(
            (
                i
                for i, each in enumerate(self.instructions)
                if opcode_of(each) == op.NAME or opcode_of(each) >= op.TYPE_BOOL - 1
            ),
            len(self.instructions),
        )
        while opcode_of(self.instructions[at - 1]) in (op.SOURCE_EXTENSION,):
            at -= 1
        self.instructions[at:at] = [make(op.NAME, number, *words_of(name)) for number, name in names.items()]

    # -- parts of them

    def say(self, text: str) -> None:
        """Leave a text in the module for its loader."""
        self.instructions.insert(self.first_of_debug(), make(op.STRING, self.new_id(), *words_of(text)))

    def _parameters(self) -> list[Instruction]:
        """OpFunctionParameter of each kernel."""
        functions = self.functions()
        return [each for number in self.entries for each in functions[number] if opcode_of(each) == op.PARAMETER]

    def _rename(self, others: Mapping[int, int]) -> None:
        """Let names and decorations of these ids, but no use, be those of others."""
        for each in self.instructions:
            if opcode_of(each) in (op.NAME, op.DECORATE):
                each[1] = others.get(each[1], each[1])

    def _retype_functions(self) -> None:
        """Give each function the type that its parameters say."""
        results = {each[1]: each[2] for each in self.all_of(op.TYPE_FUNCTION)}
        for body in self.functions().values():
            types = [each[1] for each in body if opcode_of(each) == op.PARAMETER]
            body[0][4] = self.declare(op.TYPE_FUNCTION, results.get(body[0][4], body[0][1]), *types)

    def _at_entry(self, wanted: Mapping[int, list[Instruction]]) -> None:
        """Insert instructions at the beginning of the functions that have these parameters."""
        made: list[Instruction] = []
        waiting: list[Instruction] = []
        in_first = False
        for each in self.instructions:
            opcode = opcode_of(each)
            if opcode == op.PARAMETER:
                waiting += wanted.get(each[2], [])
            if in_first and opcode not in (op.VARIABLE, op.LINE, op.NO_LINE):
                made += waiting
                waiting, in_first = [], False
            made.append(each)
            if opcode == op.LABEL and waiting:
                in_first = True
        self.instructions = made

    def after_variables(self, wanted: Mapping[int, Instruction]) -> None:
        """Insert an instruction at the beginning of functions."""
        made: list[Instruction] = []
        waiting: Instruction | None = None
        in_first = False
        for each in self.instructions:
            opcode = opcode_of(each)
            if opcode == op.FUNCTION:
                waiting, in_first = wanted.get(each[2]), False
            if waiting is not None and in_first and opcode not in (op.VARIABLE, op.LINE, op.NO_LINE):
                made.append(waiting)
                waiting = None
            made.append(each)
            in_first = in_first or opcode == op.LABEL
        self.instructions = made

    def _derived(self, arrays: set[int]) -> dict[int, Instruction]:
        """The constants that are computed from these, in order."""
        found: dict[int, Instruction] = {}
        for each in self.instructions:
            opcode = opcode_of(each)
            if opcode == op.FUNCTION:
                break
            if opcode in (op.NAME, op.DECORATE, op.ENTRY_POINT, op.EXTENDED) or not any(
                word in arrays or word in found for word in each[1:]
            ):
                continue
            if opcode == op.CONSTANT_OPERATION and any(word in arrays or word in found for word in each[4:]):
                found[each[2]] = each
            elif opcode in (41, 42, 44, 45, op.VARIABLE) and any(word in arrays or word in found for word in each[3:]):
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
            opcode = opcode_of(each)
            if opcode == op.FUNCTION:
                function, parameter = each[2], 0
            elif function in users and opcode != op.PARAMETER and not parameter:
                parameter = self.new_id()
                made.append(make(op.PARAMETER, pointer, parameter))
                own = {number: self.new_id() for number in (*arrays, *derived)}
                begin = [make(op.BITCAST, type, own[number], parameter) for number, type in arrays.items()]
                for number, constant in derived.items():
                    operands = [own.get(word, word) for word in constant[4:]]
                    begin.append(make(constant[3], constant[1], own[number], *operands))
                added[parameter] = begin
            if function in users and parameter and opcode not in (op.LABEL, op.LINE, op.FUNCTION_END):
                each = [*(own.get(word, word) if at in ids_in(each) else word for at, word in enumerate(each))]
                if opcode == op.CALL and each[3] in users:
                    each = make(op.CALL, *each[1:], parameter)
            made.append(each)
            if opcode == op.FUNCTION_END:
                function = 0
        self.instructions = made
        self._at_entry(added)

    @staticmethod
    def _belongs_to(instruction: Instruction, gone: set[int]) -> bool:
        """Whether an instruction declares or describes something that is gone."""
        opcode = opcode_of(instruction)
        if opcode in (op.VARIABLE, op.CONSTANT_OPERATION):
            return instruction[2] in gone
        return opcode in (op.NAME, op.DECORATE) and instruction[1] in gone
