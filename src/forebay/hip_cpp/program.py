"""A whole program: its kernels and what they call, its structures and constants, put together in OpenCL C."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from forebay.hip_cpp import nodes
from forebay.hip_cpp.constants import Known
from forebay.hip_cpp.emit_statements import DYNAMIC, Instance, Shared, innermost_missing
from forebay.hip_cpp.errors import Place, RefusedError
from forebay.hip_cpp.helpers import helpers_for
from forebay.hip_cpp.layout import laid_out
from forebay.hip_cpp.parser import Parser
from forebay.hip_cpp.reserved import RESERVED
from forebay.hip_cpp.types import SIZES, Array, Named, Pointer, Reference, Space, Struct, Type, spelling, vector_parts
from forebay.hip_cpp.values import Base, Symbol

__all__ = ["Translator", "Variable"]

# The space of __constant__ variables: global memory, as the host writes to them, where the device has variables there.
SETTABLE = "hip_constant"
LIMIT = 20_000  # copies of functions, before a program is refused
MARK = re.compile("\x02(?:S(\\d+)\x03 ?|A(\\d+)\x03)")


@dataclass(eq=False)
class Placed:
    """A function as it is written: its symbol, and its text."""

    symbol: str
    text: str


@dataclass(frozen=True)
class Variable:
    """A variable of a translated program that the host may reach.

    Attributes
    ----------
    name : str
        In the source.
    symbol : str
        In the OpenCL program.
    type_name : str
    nbytes : int
    required : bool
        Whether there is no program without it: an initialized ``__constant__`` becomes a constant where the device has
        no variables.
    file : str
    line : int
    """

    name: str
    symbol: str
    type_name: str
    nbytes: int
    required: bool
    file: str
    line: int


class Translator:
    """Translates a parsed program.

    Parameters
    ----------
    parser
        That has parsed everything.
    name_expressions
        Such as ``"scale<float>"``: which templates of kernels are wanted.
    """

    def __init__(self, parser: Parser, names: set[str]) -> None:
        self.parser = parser
        self.names: set[str] = names | RESERVED
        self.structs: dict[str, Struct] = parser.structs
        self.renamed: dict[str, str] = {}
        self.symbols: dict[str, str] = {name: self.local_name(name) for name in parser.structs}
        self.functions: dict[str, list[nodes.Function]] = {}
        for function in parser.functions:
            self.functions.setdefault(function.name, []).append(function)
        self.spaces: dict[int, tuple[Space, Place | None]] = {}
        self.private: Space = self.space("private")
        self.local: Space = self.space("local")
        self.constant_space: Space = self.space("constant")
        self.global_space: Space = self.space("global")
        self.settable_space: Space = self.space(SETTABLE)
        self.atomic: dict[int, tuple[str, Place]] = {}
        self.instances: list[Instance] = []
        self.stack: list[str] = []
        self.shared: dict[str, Shared] = {}
        self.placed: dict[tuple[int, str], Placed] = {}
        self.written: list[tuple[Space, Place]] = []
        self.at_file_scope: dict[str, tuple[Symbol, str]] = {}
        self.variables: list[Variable] = []
        self.dynamic: dict[str, nodes.Variable] = {}
        self.used_types: dict[str, None] = {}
        self.warnings: list[str] = []
        self._fields: dict[str, list[tuple[str, Type]]] = {}
        self._sizing: list[str] = []

    # -- names and marks

    def unique(self, name: str) -> str:
        """Return a name that the program does not have."""
        number = 1
        while f"{name}_{number}" in self.names:
            number += 1
        self.names.add(f"{name}_{number}")
        return f"{name}_{number}"

    def local_name(self, name: str) -> str:
        """Return the name of a variable or a parameter."""
        if name not in self.renamed:
            self.renamed[name] = self.unique(name) if name in RESERVED or name.startswith("hip_") else name
        return self.renamed[name]

    def member_symbol(self, name: str) -> str:
        """Return the name of a member."""
        return self.local_name(name)

    def mark(self, place: Place, hard: bool = False) -> str:
        """Return a mark that says which line the text behind it comes from."""
        return f"\2{'M' if hard else 'L'}{place.line};{place.file}\3"

    def warn(self, what: str, place: Place) -> None:
        """Add a warning."""
        warning = f"{place.file}:{place.line}: warning: {what}"
        if warning not in self.warnings:
            self.warnings.append(warning)

    def space(self, name: str = "", why: str = "", place: Place | None = None) -> Space:
        """Return a new address space, known by name or to be found out."""
        space = Space(name, place, why)
        self.spaces[space.id] = (space, place)
        return space

    def atomic_space(self, space: Space, name: str, place: Place) -> str:
        """Return a mark for a space in which an atomic operation works, to be part of a name."""
        self.spaces.setdefault(space.id, (space, place))
        self.atomic.setdefault(space.id, (name, place))
        return f"\2A{space.id}\3"

    def note_write(self, space: Space, place: Place) -> None:
        """Note an assignment, which must not be to constant memory."""
        self.written.append((space, place))

    # -- types

    def use_type(self, name: str, place: Place) -> None:
        """Note that a type is needed."""
        if name in self.structs and name not in self.used_types:
            self.fields(self.structs[name])
            self.used_types[name] = None
        elif (
            name not in self.structs
            and name not in SIZES
            and name not in ("void", "auto")
            and vector_parts(name)[1] == 1
        ):
            raise RefusedError(f"the type {name!r} is only declared, not defined", place)

    def fields(self, structure: Struct) -> list[tuple[str, Type]]:
        """Return the members, with one space for each pointer among them in the whole program."""
        if structure.name not in self._fields:
            if structure.name in self._sizing:
                return []
            if not structure.fields:
                raise RefusedError(f"the empty structure {structure.name}", structure.place)
            self._sizing.append(structure.name)
            base = Base(self)
            why = f"a pointer in the structure {structure.name}"
            self._fields[structure.name] = [
                (name, base.concrete(type, structure.place, why)) for name, type in structure.fields
            ]
            self._sizing.pop()
        return self._fields[structure.name]

    def size_of(self, type: Type) -> tuple[int, int]:
        """(bytes, alignment) of a type, as HIP lays it out."""
        if isinstance(type, (Pointer, Reference)):
            return 8, 8
        if isinstance(type, Array):
            nbytes, alignment = self.size_of(type.of)
            return nbytes * (type.size or 0), alignment
        if type.name in self.structs:
            structure = self.structs[type.name]
            sizes = [self.size_of(field) for _, field in self.fields(structure)]
            alignment = max(alignment for _, alignment in sizes)
            end = 0
            for nbytes, aligned in sizes:
                start = -(-end // aligned) * aligned
                end = start + nbytes if structure.word == "struct" else max(end, nbytes)
            return -(-end // alignment) * alignment, alignment
        base, lanes = vector_parts(type.name)
        nbytes = SIZES.get(base, 1)
        return nbytes * lanes, nbytes if lanes == 3 else nbytes * lanes

    def holds_pointers(self, type: Type) -> bool:
        """Whether an object of this type has pointers in it."""
        if isinstance(type, Array):
            return self.holds_pointers(type.of)
        if isinstance(type, Named) and type.name in self.structs:
            return any(self.holds_pointers(field) for _, field in self.fields(self.structs[type.name]))
        return isinstance(type, Pointer)

    # -- constants, variables and shared memory

    def declare_variables(self) -> None:
        """Translate what is declared at file scope."""
        for node in self.parser.variables:
            if "__shared__" in node.attributes and "extern" in node.attributes:
                self.dynamic[node.name] = node
                continue
            if "__shared__" in node.attributes:
                raise RefusedError(f"the __shared__ variable {node.name} at file scope", node.place)
            if "extern" in node.attributes and node.init is None:
                raise RefusedError(f"the variable {node.name} of another program: nothing is linked", node.place)
            constant = is_constant(node.type) or "constexpr" in node.attributes
            if not constant and not node.attributes & {"__device__", "__constant__"}:
                raise RefusedError(
                    f"the variable {node.name} at file scope is neither __device__ nor __constant__: code of the host "
                    "is not in the subset", node.place
                )  # fmt: skip
            if constant and node.init is None:
                raise RefusedError(
                    f"the constant {node.name} without an initializer: what the host sets later is __constant__ "
                    "without const", node.place
                )  # fmt: skip
            self.declare_at_file_scope(node, constant)
        for check in self.parser.asserts:
            if not Base(self).constant_integer(check.condition, "a static assertion"):
                raise RefusedError(f"static assertion failed {check.message}".rstrip(), check.place)

    def declare_at_file_scope(self, node: nodes.Variable, constant: bool) -> None:
        """Translate a constant, or a variable that the host may reach.

        Of the latter nothing is known when a program is compiled, not even if it has an initializer and kernels only
        read it. So it is never const, whose value compilers put into the code.
        """
        instance = Instance(self, constant=True)
        type = instance.concrete(node.type, node.place)
        if self.holds_pointers(type) or isinstance(type, Reference) or spelling(type) in ("auto", "const auto", "void"):
            what = "constant" if constant else "variable"
            raise RefusedError(f"the {what} {node.name} of type {spelling(type)} at file scope", node.place)
        settable = "__constant__" in node.attributes
        space = self.constant_space if constant else self.settable_space if settable else self.global_space
        symbol = Symbol(self.unique(node.name), type, space)
        if constant:
            assert node.init is not None
            symbol.init = node.init
            if isinstance(type, Named):
                symbol.type = Named(type.name, True)
                symbol.value = instance.known_value(node.init, type)
        if "enumerator" in node.attributes:
            if symbol.value is None:
                raise RefusedError(f"the value of {node.name} is not a constant integer", node.place)
            symbol.text = ""
            self.at_file_scope[node.name] = symbol, ""
            return
        if node.name in self.at_file_scope or node.name in self.functions:
            raise RefusedError(f"a second {node.name!r}", node.place)
        text = "" if node.init is None else f" = {instance.initializer(node.init, type)}"
        if isinstance(type, Array) and innermost_missing(type):
            raise RefusedError(f"the array {node.name} without a size", node.place)
        declaration = f"{self.mark(node.place, hard=True)}{instance.declare(type, symbol.text, space.name)}{text};\n"
        self.at_file_scope[node.name] = symbol, declaration
        if not constant:
            self.variables.append(Variable(
                node.name, symbol.text, spelling(type), self.size_of(type)[0], not settable or node.init is None,
                *node.place,
            ))  # fmt: skip

    def file_symbol(self, name: str) -> Symbol | None:
        """Return a constant, a variable or dynamic shared memory that is declared at file scope."""
        if name in self.at_file_scope:
            return self.at_file_scope[name][0]
        return self.dynamic_symbol(self.dynamic[name], Base(self)) if name in self.dynamic else None

    def dynamic_symbol(self, node: nodes.Variable, base: Base) -> Symbol:
        """Return what stands for ``extern __shared__ T name[]``."""
        if not isinstance(node.type, Array) or node.type.size is not None or isinstance(node.type.of, Array):
            raise RefusedError("extern __shared__ needs the form 'extern __shared__ T name[];'", node.place)
        of = base.concrete(node.type.of, node.place)
        if self.holds_pointers(of):
            raise RefusedError("pointers in shared memory: not in the subset of HIP C++", node.place)
        type = Pointer(of, self.local, const=True)
        text = f"(({base.declare(Pointer(of, self.local), '')}){DYNAMIC})"
        return Symbol(text, type, self.private, shared=DYNAMIC)

    def shared_object(self, key: str, name: str, type: Type) -> Shared:
        """Return the one object for a declaration of shared memory."""
        if self.holds_pointers(type):
            raise RefusedError(f"pointers in shared memory ({name}): not in the subset of HIP C++")
        if key not in self.shared:
            self.shared[key] = Shared(self.unique(name), type)
        return self.shared[key]

    # -- functions

    def is_function(self, name: str) -> bool:
        """Whether the program has a function of this name."""
        return name in self.functions

    def functions_named(self, name: str) -> list[nodes.Function]:
        """Return the functions of this name."""
        return self.functions[name]

    def instance(
        self, function: nodes.Function, bindings: dict[str, Any], types: list[Type], node: nodes.Node
    ) -> Instance:
        """Translate a function for these arguments."""
        if len(self.instances) >= LIMIT:
            raise RefusedError(f"more than {LIMIT} copies of functions are needed", node.place)
        instance = Instance(
            self, bindings, [{}], function=function, param_types=types,
            id=len(self.instances),
        )  # fmt: skip
        self.instances.append(instance)
        self.stack.append(self.key(function, bindings))
        instance.translate()
        self.stack.pop()
        return instance

    def kernel(self, function: nodes.Function, bindings: dict[str, Any]) -> Instance:
        """Translate a kernel."""
        base = Base(self, bindings)
        types = []
        for param in function.params:
            type = base.concrete(param.type, param.place)
            what = ""
            if isinstance(type, Reference):
                what = "a reference"
            elif isinstance(type, Pointer):
                assert type.space is not None
                type.space.join(self.space("global"), param.place)
                if isinstance(type.to, (Pointer, Array)) or self.holds_pointers(type.to):
                    what = "a pointer to what holds pointers"
            elif self.holds_pointers(type):
                what = "a structure that holds pointers"
            if what:
                raise RefusedError(
                    f"parameter {param.name!r} of the kernel {function.name}: {what}: not in the subset of HIP C++",
                    param.place,
                )
            types.append(type)
        return self.instance(function, bindings, types, function)

    def key(self, function: nodes.Function, bindings: dict[str, Any]) -> str:
        """Return what tells instances of functions apart, but for their address spaces."""
        bound = [f"{name}={one.value if isinstance(one, Known) else spelling(one)}" for name, one in bindings.items()]
        return f"{id(function)}<{','.join(bound)}>"

    # -- putting it together

    def place_instance(self, instance: Instance, symbol: str = "") -> Placed:
        """Return a translated function with all names in it, once for all that are the same."""
        text = instance.text
        for number in instance.calls:
            text = text.replace(f"\2F{number}\3", self.place_instance(self.instances[number]).symbol)
        text = MARK.sub(self.space_name, text)
        key = (id(instance.function), text)
        if key not in self.placed:
            name = symbol or self.unique(instance.function.name)
            self.placed[key] = Placed(name, text.replace("\2N\3", name))
        return self.placed[key]

    def space_name(self, match: re.Match[str]) -> str:
        """Return the name of a space, which is known by now."""
        space, place = self.spaces[int(match[1] or match[2])]
        if match[2]:
            return space.name
        if not space.name and space.why:
            raise RefusedError(f"{space.why} of which it cannot be told what memory it points to", place)
        return "" if space.name in ("", "private") else f"{space.name} "

    def text(self) -> str:
        """Return the program in OpenCL C."""
        for number, (name, place) in self.atomic.items():
            if self.spaces[number][0].name not in ("global", "local"):
                raise RefusedError(f"{name}() of what is neither in global nor in shared memory", place)
        for space, place in self.written:
            if space.name in ("constant", SETTABLE):
                raise RefusedError("an assignment to constant memory", place)
        structures = []
        for name in self.structs:
            if name in self.used_types:
                structure = self.structs[name]
                base = Base(self)
                lines = [
                    f"    {base.declare(type, self.member_symbol(field))};\n" for field, type in self.fields(structure)
                ]
                mark = self.mark(structure.place, hard=True)
                symbol = self.symbols[name]
                word = structure.word
                structures.append(f"{mark}typedef {word} {symbol} {symbol};\n{word} {symbol} {{\n{''.join(lines)}}};\n")
        declarations = [text for _, text in self.at_file_scope.values()]
        functions = [placed.text for placed in self.placed.values()]
        body = MARK.sub(self.space_name, "".join([*structures, *declarations, *functions]))
        helpers = helpers_for(body)
        return f"{helpers}\n{laid_out(body)}" if helpers else laid_out(body)


def is_constant(type: Type) -> bool:
    """Whether a variable of this type never changes."""
    if isinstance(type, Array):
        return is_constant(type.of)
    return not isinstance(type, Reference) and type.const
