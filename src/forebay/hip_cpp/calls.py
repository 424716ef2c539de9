"""Calls of the program's own functions: overloads, templates, references, and a copy for each combination of spaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from forebay.hip_cpp import nodes
from forebay.hip_cpp.constants import Known
from forebay.hip_cpp.errors import RefusedError
from forebay.hip_cpp.types import INTEGERS, Array, Named, Pointer, Reference, Type, same, spelling
from forebay.hip_cpp.values import Base, Value

if TYPE_CHECKING:
    from forebay.hip_cpp.emit_statements import Instance

__all__ = ["Calls"]


@dataclass(eq=False)
class Calls(Base):
    """Translates calls of functions that the program defines."""

    def expression(self, node: nodes.Expression) -> Value:
        """Translate an expression."""
        raise NotImplementedError

    def rvalue(self, node: nodes.Expression) -> Value:
        """Translate an expression of which only the value is used."""
        raise NotImplementedError

    def aggregate(self, node: nodes.InitList, type: Type) -> str:
        """Translate braces that are a value."""
        raise NotImplementedError

    def note_barrier(self, node: nodes.Node) -> None:
        """Note that there is a barrier."""

    def note_call(self, instance: Instance, node: nodes.Node) -> list[str]:
        """Note what a called function needs; return the arguments it gets besides its own."""
        raise NotImplementedError

    def user_call(self, node: nodes.Call) -> Value:
        """Translate a call of a function of the program."""
        name = node.function.name
        arguments = [
            None if isinstance(argument, nodes.InitList) else self.expression(argument) for argument in node.arguments
        ]
        function, bindings = self.choose(node, arguments)
        if function.is_kernel:
            self.refuse(f"a call of the kernel {name}", node)
        if self.program.key(function, bindings) in self.program.stack:
            self.refuse(f"recursion ({name}): OpenCL C has none", node)
        types: list[Type] = []
        texts: list[str] = []
        callee = Base(self.program, bindings)
        callee.scopes = [{}]
        for index, param in enumerate(function.params):
            given = node.arguments[index] if index < len(node.arguments) else param.default
            assert given is not None
            value = arguments[index] if index < len(arguments) else None
            if index >= len(arguments) and not isinstance(given, nodes.InitList):
                value = self.default(given, bindings)
            type, text = self.argument(callee, param, value, given, node)
            types.append(type)
            texts.append(text)
        instance = self.program.instance(function, bindings, types, node)
        texts += self.note_call(instance, node)
        text = f"\2F{instance.id}\3({', '.join(texts)})"
        return Value(text, instance.result, True)

    def default(self, node: nodes.Expression, bindings: dict[str, Type | Known]) -> Value:
        """Translate the default of a parameter, which sees nothing of the caller's."""
        mine = self.scopes, self.bindings
        self.scopes, self.bindings = [{}], bindings
        try:
            return self.expression(node)
        finally:
            self.scopes, self.bindings = mine

    def argument(
        self, callee: Base, param: nodes.Param, value: Value | None, node: nodes.Expression, call: nodes.Call
    ) -> tuple[Type, str]:
        """(type of the parameter, text of the argument)."""
        type = param.type
        if isinstance(type, Reference):
            to = callee.concrete(type.to, param.place)
            if value is None:
                self.refuse("braces for a reference", call)
            assert value is not None
            if value.space is not None and not value.component and same(to, value.type):
                pointer = Pointer(to, value.space)
                if isinstance(to, Pointer) and isinstance(value.type, Pointer):
                    self.join_pointers(to, value.type, call)
                return Reference(pointer), f"&{value.operand}"
            if not (isinstance(to, Named) and to.const):
                self.wrong(f"a reference to {spelling(to)} needs a variable of that type", call)
            return to, self.converted(value, to, call)
        concrete = callee.concrete(type, param.place)
        if value is None:
            assert isinstance(node, nodes.InitList)
            return concrete, self.aggregate(node, concrete)
        return concrete, self.converted(value, concrete, call)

    # -- which function

    def choose(self, node: nodes.Call, arguments: list[Value | None]) -> tuple[nodes.Function, dict[str, Type | Known]]:
        """Return the function that a call means, and the arguments of its template."""
        name = node.function.name
        candidates = []
        reason = ""
        for function in self.program.functions_named(name):
            required = sum(param.default is None for param in function.params)
            if not required <= len(arguments) <= len(function.params):
                reason = f"{name}() with {len(arguments)} arguments: it takes {len(function.params)}"
                continue
            try:
                bindings = self.deduced(function, node, arguments)
            except RefusedError as error:
                reason = error.what
                continue
            candidates.append((function, bindings))
        if len(candidates) > 1:
            exact = [
                candidate for candidate in candidates
                if all(
                    value is None or self.takes(candidate[1], param.type, value.type, node)
                    for param, value in zip(candidate[0].params, arguments, strict=False)
                )
            ]  # fmt: skip
            plain = [candidate for candidate in exact if not candidate[0].template]
            candidates = plain or exact or candidates
        if len(candidates) > 1:
            self.refuse(f"a call of {name}() that none of its overloads takes exactly", node)
        if not candidates:
            self.wrong(reason or f"{name}() is only declared, not defined", node)
        return candidates[0]

    def takes(self, bindings: dict[str, Type | Known], param: Type, argument: Type, node: nodes.Node) -> bool:
        """Whether a parameter of a function, or of an instance of a template, has an argument's very type."""
        return same_argument(Base(self.program, bindings).concrete(param, node.place), argument)

    def deduced(
        self, function: nodes.Function, node: nodes.Call, arguments: list[Value | None]
    ) -> dict[str, Type | Known]:
        """Return the template's arguments: those written first, the others from the types of the call's."""
        found: dict[str, Type | Known] = {}
        if not function.template:
            if node.function.arguments:
                self.wrong(f"{function.name} is not a template", node)
            return found
        names = [name for name, _ in function.template]
        written = node.function.arguments or []
        if len(written) > len(names):
            self.wrong(f"{len(written)} template arguments: {function.name} takes {len(names)}", node)
        for (name, type_name), argument in zip(function.template, written, strict=False):
            if (type_name == "") == isinstance(argument, nodes.Expression):
                self.wrong(f"template argument {name} of {function.name}", node)
            if isinstance(argument, nodes.Expression):
                if type_name not in INTEGERS:
                    self.refuse(f"template parameters of type {type_name}", node)
                found[name] = Known(self.constant_integer(argument, "a template argument"), "long").to(type_name)
            else:
                found[name] = self.concrete(argument, node.place)
        for param, value in zip(function.params, arguments, strict=False):
            if value is not None:
                self.match(param.type, value, found, set(names[len(written) :]), node)
        missing = [name for name in names if name not in found]
        if missing:
            self.wrong(f"{function.name}(): the template argument {missing[0]} cannot be deduced", node)
        return found

    def match(
        self, pattern: Type, value: Value, found: dict[str, Type | Known], names: set[str], node: nodes.Node
    ) -> None:
        """Learn template arguments from the type of an argument."""
        type = value.type
        if isinstance(pattern, Reference):
            pattern = pattern.to
        else:
            type = self.decayed(value).type
        top = True
        while isinstance(pattern, Pointer) and isinstance(type, (Pointer, Array)):
            pattern, type = pattern.to, type.to if isinstance(type, Pointer) else type.of
            top = False
        if not isinstance(pattern, Named) or pattern.name not in names:
            return
        if isinstance(type, Named):
            type = Named(type.name, type.const and not top and not pattern.const)
        before = found.get(pattern.name)
        if before is None:
            found[pattern.name] = type
        elif not isinstance(before, Known) and not same(before, type):
            self.wrong(f"{pattern.name} is {spelling(before)} and {spelling(type)} at once", node)


def same_argument(param: Type, argument: Type) -> bool:
    """Whether an argument has a parameter's very type."""
    if isinstance(param, Reference):
        param = param.to
    if isinstance(param, Pointer) and isinstance(argument, Array):
        return same(param.to, argument.of)
    return same(param, argument)
