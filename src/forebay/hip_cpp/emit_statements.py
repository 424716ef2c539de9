"""From the body of a function to OpenCL C."""

from __future__ import annotations

from dataclasses import dataclass, field

from forebay.hip_cpp import nodes
from forebay.hip_cpp.constants import Known
from forebay.hip_cpp.emit_expressions import Expressions
from forebay.hip_cpp.errors import Place
from forebay.hip_cpp.types import Array, Named, Pointer, Reference, Type, spelling
from forebay.hip_cpp.values import Symbol

__all__ = ["DYNAMIC", "Instance", "Shared"]

DYNAMIC = "hip_dynamic_shared"
INDENT = "    "


@dataclass(eq=False)
class Shared:
    """An object in shared memory: a variable of the kernel, and a parameter of the functions that use it."""

    name: str
    type: Type


@dataclass(eq=False)
class Instance(Expressions):
    """A function, translated for one combination of template arguments and address spaces.

    Attributes
    ----------
    text : str
        With marks where names of spaces and of other instances belong.
    shared : dict
        What it and what it calls need in shared memory, by key.
    """

    function: nodes.Function = None  # type: ignore[assignment]
    param_types: list[Type] = field(default_factory=list)
    id: int = 0
    result: Type = field(default_factory=lambda: Named("void"))
    text: str = ""
    calls: list[int] = field(default_factory=list)
    shared: dict[str, Shared] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    pragma: str = ""  # for the loop that comes next
    depth: int = 1
    returns: list[tuple[Place, int]] = field(default_factory=list)  # and how many barriers were before it
    barriers: list[Place] = field(default_factory=list)

    @property
    def is_kernel(self) -> bool:
        """Whether it is a kernel."""
        return self.function.is_kernel

    def translate(self) -> None:
        """Translate it."""
        function = self.function
        if isinstance(function.result, Reference) or spelling(function.result) == "auto":
            self.refuse(f"a function that returns {spelling(function.result)}", function)
        self.result = self.concrete(function.result, function.place)
        if self.is_kernel and spelling(self.result) != "void":
            self.wrong("a kernel that does not return void", function)
        params = [self.param(param, type) for param, type in zip(function.params, self.param_types, strict=True)]
        self.scopes.append({})
        for statement in function.body.body:
            self.statement(statement)
        self.warn_about_returns()
        head = []
        for key, shared in self.shared.items():
            if key == DYNAMIC:
                params.append(f"local ulong2 *{DYNAMIC}")
            elif self.is_kernel:
                head.append(f"{INDENT}{self.declare(shared.type, shared.name, 'local')};\n")
            else:
                params.append(self.declare(Pointer(shared.type, self.program.local), shared.name))
        kind = "kernel " if self.is_kernel else ""
        mark = self.program.mark(function.place, hard=True)
        signature = f"{kind}{self.declare(self.result, '')} \2N\3({', '.join(params) or 'void'})"
        self.text = f"{mark}{signature} {{\n{''.join(head)}{''.join(self.lines)}}}\n"

    def param(self, param: nodes.Param, type: Type) -> str:
        """Declare a parameter; return its text."""
        if param.name and param.name in self.scopes[-1]:
            self.wrong(f"a second parameter {param.name!r}", param)
        text = self.program.local_name(param.name or "unused")
        if isinstance(type, Reference):
            pointer = type.to
            assert isinstance(pointer, Pointer)
            assert pointer.space is not None
            self.scopes[-1][param.name] = Symbol(f"(*{text})", pointer.to, pointer.space)
            return self.declare(pointer, text)
        if isinstance(type, Named) and type.name in ("void", "auto"):
            self.refuse(f"a parameter of type {type.name}", param)
        self.scopes[-1][param.name] = Symbol(text, type, self.program.private)
        return self.declare(type, text)

    # -- what calls and shared memory need

    def note_call(self, instance: Instance, node: nodes.Node) -> list[str]:
        """Note what a called function needs; return the arguments it gets besides its own."""
        self.calls.append(instance.id)
        if instance.barriers:
            self.note_barrier(node)
        for key, shared in instance.shared.items():
            self.shared.setdefault(key, shared)
        by_name = "" if not self.is_kernel else "&"
        return [key if key == DYNAMIC else by_name + shared.name for key, shared in instance.shared.items()]

    def need_shared(self, key: str, symbol: Symbol) -> None:
        """Note that the function needs an object in shared memory."""
        if key == DYNAMIC:
            self.shared.setdefault(DYNAMIC, Shared(DYNAMIC, Named("ulong")))

    def note_barrier(self, node: nodes.Node) -> None:
        """Note that there is a barrier."""
        self.barriers.append(node.place)

    def warn_about_returns(self) -> None:
        """Warn when a work-item may leave before a barrier that the others reach."""
        for place, before in self.returns:
            if later := self.barriers[before:]:
                self.program.warn(
                    f"a thread that returns here does not reach __syncthreads() in line {later[0].line}: OpenCL allows "
                    "that only if all threads of the block return", place
                )  # fmt: skip

    # -- statements

    def write(self, text: str, place: Place) -> None:
        """Write a line."""
        self.lines.append(f"{self.program.mark(place, hard=True)}{INDENT * self.depth}{text}\n")

    def statement(self, node: nodes.Statement) -> None:
        """Translate a statement."""
        if self.pragma and not isinstance(node, (nodes.For, nodes.Loop)):
            self.wrong("#pragma unroll before something that is not a loop", node)
        getattr(self, f"do_{type(node).__name__.lower()}")(node)

    def nested(self, node: nodes.Statement) -> None:
        """Translate a statement in braces of its own."""
        self.scopes.append({})
        self.depth += 1
        for statement in node.body if isinstance(node, nodes.Block) else [node]:
            self.statement(statement)
        self.depth -= 1
        self.scopes.pop()
        self.lines.append(f"{INDENT * self.depth}}}\n")

    def do_block(self, node: nodes.Block) -> None:
        """Translate ``{ … }``."""
        self.write("{", node.place)
        self.nested(node)

    def do_expressionstatement(self, node: nodes.ExpressionStatement) -> None:
        """Translate an expression that stands alone."""
        self.write(f"{self.expression(node.expression).text if node.expression else ''};", node.place)

    def do_if(self, node: nodes.If) -> None:
        """Translate ``if``."""
        self.write(f"if ({self.condition(node.condition)}) {{", node.place)
        self.nested(node.then)
        if node.otherwise is not None:
            self.write("else {", node.otherwise.place)
            self.nested(node.otherwise)

    def condition(self, node: nodes.Expression) -> str:
        """Translate a condition."""
        return self.truth(self.rvalue(node), node)

    def do_for(self, node: nodes.For) -> None:
        """Translate ``for``; its variables get braces of their own."""
        self.scopes.append({})
        self.write("{", node.place)
        self.depth += 1
        pragma, self.pragma = self.pragma, ""
        if node.init is not None:
            self.statement(node.init)
        condition = self.condition(node.condition) if node.condition else ""
        step = self.expression(node.step).text if node.step else ""
        self.lines.append(pragma)
        self.write(f"for (; {condition}; {step}) {{", node.place)
        self.nested(node.body)
        self.depth -= 1
        self.lines.append(f"{INDENT * self.depth}}}\n")
        self.scopes.pop()

    def do_loop(self, node: nodes.Loop) -> None:
        """Translate ``while`` and ``do``."""
        self.lines.append(self.pragma)
        self.pragma = ""
        if node.after:
            self.write("do {", node.place)
            self.nested(node.body)
            self.write(f"while ({self.condition(node.condition)});", node.condition.place)
            return
        self.write(f"while ({self.condition(node.condition)}) {{", node.place)
        self.nested(node.body)

    def do_switch(self, node: nodes.Switch) -> None:
        """Translate ``switch``."""
        self.write(f"switch ({self.condition(node.value)}) {{", node.place)
        self.nested(node.body)

    def do_case(self, node: nodes.Case) -> None:
        """Translate ``case n:``, behind which C wants a statement."""
        if node.value is None:
            self.write("default:;", node.place)
        else:
            self.write(f"case {self.constant_integer(node.value, 'a case')}:;", node.place)

    def do_jump(self, node: nodes.Jump) -> None:
        """Translate ``break`` and ``continue``."""
        self.write(f"{node.word};", node.place)

    def do_return(self, node: nodes.Return) -> None:
        """Translate ``return``."""
        if not (self.function.body.body and node is self.function.body.body[-1]):
            self.returns.append((node.place, len(self.barriers)))
        if node.value is None:
            self.write("return;", node.place)
        elif isinstance(node.value, nodes.InitList):
            self.write(f"return {self.aggregate(node.value, self.result)};", node.place)
        elif spelling(self.result) == "void":
            self.wrong("a value returned from a function that returns void", node)
        else:
            self.write(f"return {self.converted(self.expression(node.value), self.result, node)};", node.place)

    def do_pragma(self, node: nodes.Pragma) -> None:
        """Hand on ``#pragma unroll``."""
        words = node.text.replace("(", " ").replace(")", " ").split()
        if len(words) > 1 and not words[1].isdigit():
            value = self.constant_of(words[1])
            if value is None:
                self.refuse(f"#pragma {node.text}", node)
            words[1] = str(value.value)
        self.pragma = f"{self.program.mark(node.place, hard=True)}#pragma {' '.join(words)}\n"

    def do_staticassert(self, node: nodes.StaticAssert) -> None:
        """Check an assertion now."""
        if not self.constant_integer(node.condition, "a static assertion"):
            self.wrong(f"static assertion failed {node.message}".rstrip(), node)

    # -- declarations

    def do_declaration(self, node: nodes.Declaration) -> None:
        """Translate variables, each on its own."""
        for variable in node.variables:
            if variable.name in self.scopes[-1]:
                self.wrong(f"a second {variable.name!r} in the same block", variable)
            if "__shared__" in variable.attributes:
                self.shared_variable(variable)
            elif variable.attributes & {"extern", "__constant__", "__device__"}:
                self.refuse(f"{', '.join(sorted(variable.attributes))} here", variable)
            elif isinstance(variable.type, Reference):
                self.reference_variable(variable)
            else:
                self.variable(variable)

    def variable(self, node: nodes.Variable) -> None:
        """Translate an ordinary variable."""
        text = self.program.local_name(node.name)
        type, init = self.typed(node)
        constant = isinstance(type, Named) and type.const
        if "static" in node.attributes and not (constant or (isinstance(type, Array) and is_const(type))):
            self.refuse("static variables", node)
        symbol = Symbol(text, type, self.program.private)
        if node.init is not None and not init:
            if isinstance(type, Array) and not isinstance(node.init, nodes.InitList):
                self.refuse("an array initialized by anything but braces", node)
            if isinstance(node.init, nodes.InitList) and isinstance(type, Pointer) and not node.init.items:
                init = "0"
            else:
                init = self.initializer(node.init, type)
        if isinstance(type, Array) and innermost_missing(type):
            self.wrong("an array without a size", node)
        if isinstance(type, Named) and type.const and node.init is not None:
            symbol.value = self.known_value(node.init, type)
        self.scopes[-1][node.name] = symbol
        self.write(f"{self.declare(type, text)}{f' = {init}' if init else ''};", node.place)

    def typed(self, node: nodes.Variable) -> tuple[Type, str]:
        """(type of a variable, its initializer if that was needed to know the type)."""
        base = node.type
        if isinstance(base, Named) and base.name == "auto":
            if node.init is None or isinstance(node.init, nodes.InitList):
                self.refuse("auto without a value", node)
            value = self.decayed(self.expression(node.init))
            if value.is_null and isinstance(value.type, Pointer):
                self.refuse("auto for nullptr", node)
            type = value.type
            if isinstance(type, Named):
                type = Named(type.name, base.const)
            elif isinstance(type, Pointer):
                type = Pointer(type.to, type.space, base.const)
            return type, self.packed(value).text
        if isinstance(base, Pointer) and isinstance(base.to, Named) and base.to.name == "auto":
            if node.init is None:
                self.refuse("auto without a value", node)
            value = self.decayed(self.expression(node.init))
            if not isinstance(value.type, Pointer) or value.is_null:
                self.wrong(f"auto* for a {spelling(value.type)}", node)
            return value.type, value.text
        type = self.concrete(base, node.place)
        if (
            spelling(type) in ("void", "const void")
            or "auto" in spelling(type).replace("*", " ").replace("[", " ").split()
        ):
            self.refuse(f"a variable of type {spelling(type)}", node)
        return type, ""

    def reference_variable(self, node: nodes.Variable) -> None:
        """Translate a reference: a pointer to what it is bound to."""
        assert isinstance(node.type, Reference)
        if node.init is None or isinstance(node.init, nodes.InitList):
            self.wrong("a reference that is bound to nothing", node)
        value = self.expression(node.init)
        to = node.type.to
        if value.space is None or value.component:
            self.refuse("a reference to something that is not a variable", node)
        type = value.type
        if not (isinstance(to, Named) and to.name == "auto"):
            type = self.concrete(to, node.place)
            if spelling(type).removeprefix("const ") != spelling(value.type).removeprefix("const "):
                self.wrong(f"a reference to {spelling(type)} bound to a {spelling(value.type)}", node)
            if isinstance(type, Pointer) and isinstance(value.type, Pointer):
                self.join_pointers(type, value.type, node)
        elif isinstance(type, Named):
            type = Named(type.name, type.const or to.const, type.volatile)
        text = self.program.local_name(node.name)
        self.scopes[-1][node.name] = Symbol(f"(*{text})", type, value.space)
        self.write(f"{self.declare(Pointer(type, value.space), text)} = &{value.operand};", node.place)

    def shared_variable(self, node: nodes.Variable) -> None:
        """Translate shared memory: a variable of the kernel, whichever function declares it."""
        type = node.type
        if node.init is not None:
            self.wrong("an initializer of a __shared__ variable", node)
        if "extern" in node.attributes:
            self.scopes[-1][node.name] = self.program.dynamic_symbol(node, self)
            return
        if isinstance(type, (Pointer, Reference)):
            self.refuse("pointers in shared memory", node)
        type = self.concrete(type, node.place)
        if isinstance(type, Array) and innermost_missing(type):
            self.wrong("an array without a size", node)
        bound = ",".join(
            f"{name}={one.value if isinstance(one, Known) else spelling(one)}" for name, one in self.bindings.items()
        )
        key = f"{id(node)}<{bound}>"
        shared = self.shared.get(key)
        if shared is None:
            shared = self.shared[key] = self.program.shared_object(key, node.name, type)
        text = shared.name if self.is_kernel else f"(*{shared.name})"
        self.scopes[-1][node.name] = Symbol(text, type, self.program.local)


def innermost_missing(type: Array) -> bool:
    """Whether any size of an array is missing."""
    return type.size is None or (isinstance(type.of, Array) and innermost_missing(type.of))


def is_const(type: Type) -> bool:
    """Whether the elements of an array are constant."""
    return is_const(type.of) if isinstance(type, Array) else isinstance(type, Named) and type.const
