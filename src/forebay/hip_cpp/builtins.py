"""Calls of HIP's own functions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from forebay.hip_cpp import nodes
from forebay.hip_cpp.builtin_tables import ATOMICS, FAST, FIXED, MATH, PREDICATES
from forebay.hip_cpp.calls import Calls
from forebay.hip_cpp.types import ALIASES, VECTORS, Named, Pointer, arithmetic, spelling, vector_parts
from forebay.hip_cpp.values import Value, is_integer, promoted

__all__ = ["Builtins"]

MAKE = re.compile(r"make_(\w+[234])$")
FORMAT = re.compile(r"%(?:%|([-+ #0]*)(\d+|\*)?(?:\.(\d+|\*))?(hh|h|ll|l|j|z|t|L)?([a-zA-Z]))")
HINTS = [
    (re.compile(r"__(shfl|ballot|all|any|activemask|match|reduce_|syncwarp|lane_id)"), "warps: OpenCL has none"),
    (re.compile(r"tex\dD|surf\dD|__ldg"), "textures and read-only loads"),
    (re.compile(r"__threadfence(_system)?$"), "a fence across the device: OpenCL C 1.2 has none"),
    (re.compile(r"__syncthreads_"), "barriers with a vote"),
    (re.compile(r"clock|wall_clock"), "clocks"),
    (re.compile(r"malloc$|free$|memcpy$|memset$"), "memory functions"),
    (re.compile(r"assert$|abort$|__trap"), "ways to end a kernel"),
    (re.compile(r"__([fd](add|sub|mul|div|sqrt|rcp)_r|fmaf?_r)"), "a chosen rounding"),
    (re.compile(r"__h|h2?(exp|log|sqrt|sin|cos)"), "half precision"),
    (re.compile(r"atomic"), "this atomic operation"),
]  # fmt: skip


@dataclass(eq=False)
class Builtins(Calls):
    """Translates calls: the program's own functions first, then HIP's."""

    def on_call(self, node: nodes.Call) -> Value:
        """Translate a call."""
        name = node.function.name
        if self.lookup(name) is not None:
            self.refuse(f"a call of {name}, which is not a function", node)
        if self.program.is_function(name):
            return self.user_call(node)
        mark = self.program.mark(node.place)
        for handler in (
            self.math_call,
            self.fixed_call,
            self.min_max_call,
            self.vector_call,
            self.atomic_call,
            self.other_call,
        ):
            value = handler(name, node)
            if value is not None:
                value.text = mark + value.text
                return value
        for pattern, what in HINTS:
            if pattern.match(name):
                self.refuse(f"{name}(): {what}", node)
        self.wrong(f"{name}() is not declared, or not in the subset of HIP C++", node)

    def values(self, node: nodes.Call, count: int) -> list[Value]:
        """Translate the arguments of a call that needs this many."""
        name = node.function.name
        if len(node.arguments) != count:
            self.wrong(f"{name}() with {len(node.arguments)} arguments: it takes {count}", node)
        return [self.rvalue(argument) for argument in node.arguments]

    def math_call(self, name: str, node: nodes.Call) -> Value | None:
        """Translate sinf(x), sin(x) and their like."""
        if name in FAST:
            call, count, kind = *FAST[name], "float"
        elif name in MATH:
            call, count = MATH[name]
            values = self.values(node, count)
            floats = all(isinstance(value.type, Named) and value.type.name == "float" for value in values)
            kind = "float" if floats else "double"
        elif name.endswith("f") and name[:-1] in MATH:
            call, count, kind = *MATH[name[:-1]], "float"
        elif name in PREDICATES:
            value = self.values(node, 1)[0]
            kind = "float" if spelling(value.type).endswith("float") else "double"
            return Value(f"({name}({self.scalar(value, kind, node)}) != 0)", Named("bool"), True)
        else:
            return None
        texts = [self.scalar(value, kind, node) for value in self.values(node, count)]
        return Value(f"{call}({', '.join(texts)})", Named(kind), True)

    def fixed_call(self, name: str, node: nodes.Call) -> Value | None:
        """Translate the functions of the table."""
        if name not in FIXED:
            return None
        text, takes, gives = FIXED[name]
        kinds = takes.split()
        if name == "__syncthreads":
            self.note_barrier(node)
        texts = []
        for value, kind in zip(self.values(node, len(kinds)), kinds, strict=True):
            argument = self.scalar(value, kind, node)
            texts.append(argument if value.atom and argument == value.text else f"({argument})")
        return Value(f"({text.format(*texts)})" if gives != "void" else text, Named(gives), True)

    def min_max_call(self, name: str, node: nodes.Call) -> Value | None:
        """Translate min, max and abs, which depend on the types."""
        if name == "abs":
            value = self.values(node, 1)[0]
            if not arithmetic(value.type):
                self.wrong(f"abs() of a {spelling(value.type)}", node)
            assert isinstance(value.type, Named)
            if not is_integer(value.type):
                return Value(f"fabs({value.text})", Named(value.type.name), True)
            type = promoted(value.type)
            if type.name.startswith("u"):
                return Value(value.text, type, value.atom)
            return Value(f"(({type.name})abs({self.scalar(value, type.name, node)}))", type, True)
        if name not in ("min", "max"):
            return None
        left, right = self.values(node, 2)
        type = self.common(left.type, right.type, node)
        call = name if is_integer(type) else f"f{name}"
        return Value(f"{call}({self.scalar(left, type.name, node)}, {self.scalar(right, type.name, node)})", type, True)

    def vector_call(self, name: str, node: nodes.Call) -> Value | None:
        """Translate make_float4(…) and its like."""
        match = MAKE.match(name)
        if match is None or match[1] not in VECTORS:
            return None
        return self.vector(ALIASES[match[1]], node.arguments, node)

    def vector(self, name: str, arguments: list[nodes.Expression], node: nodes.Expression) -> Value:
        """Translate a vector from its elements."""
        base, lanes = vector_parts(name)
        if len(arguments) != lanes:
            self.refuse(f"{name} from {len(arguments)} values", node)
        texts = [self.scalar(self.rvalue(argument), base, argument) for argument in arguments]
        return Value(f"({name})({', '.join(texts)})", Named(name), native=lanes == 3)

    def atomic_call(self, name: str, node: nodes.Call) -> Value | None:
        """Translate atomic operations."""
        steps = {"atomicInc": "inc", "atomicDec": "dec"}
        if name not in ATOMICS and name not in steps:
            return None
        count = 2 if name in steps else 1 + ATOMICS[name][1]
        if len(node.arguments) != count:
            self.wrong(f"{name}() with {len(node.arguments)} arguments: it takes {count}", node)
        pointer = self.decayed(self.expression(node.arguments[0]))
        if (
            not isinstance(pointer.type, Pointer)
            or not isinstance(pointer.type.to, Named)
            or not arithmetic(pointer.type.to)
        ):
            self.wrong(f"{name}() of a {spelling(pointer.type)}", node)
        assert pointer.type.space is not None
        kind = pointer.type.to.name
        space = self.program.atomic_space(pointer.type.space, name, node.place)
        rest = [self.scalar(self.rvalue(argument), kind, argument) for argument in node.arguments[1:]]
        if name in steps:
            if kind != "uint":
                self.wrong(f"{name}() of {kind}", node)
            return Value(f"hip_atomic_{steps[name]}_{space}({pointer.text}, {rest[0]})", Named("uint"), True)
        operation, _, kinds, _ = ATOMICS[name]
        if kind in kinds:
            return Value(f"atomic_{operation}({pointer.text}, {', '.join(rest)})", Named(kind), True)
        if kind in ("long", "ulong"):
            return Value(f"atom_{operation}({pointer.text}, {', '.join(rest)})", Named(kind), True)
        if kind in ("float", "double") and operation in ("add", "sub"):
            value = rest[0] if operation == "add" else f"-({rest[0]})"
            return Value(f"hip_atomic_add_{kind}_{space}({pointer.text}, {value})", Named(kind), True)
        self.refuse(f"{name}() of {kind}", node)

    def other_call(self, name: str, node: nodes.Call) -> Value | None:
        """Translate printf and functions with results behind pointers."""
        if name == "printf":
            return self.printf(node)
        kind = "float" if name.endswith("f") else "double"
        plain = name[:-1] if name.endswith("f") else name
        if plain not in ("sincos", "frexp", "modf"):
            return None
        counts = {"sincos": 3, "frexp": 2, "modf": 2}
        if len(node.arguments) != counts[plain]:
            self.wrong(f"{name}() with {len(node.arguments)} arguments: it takes {counts[plain]}", node)
        value = self.scalar(self.rvalue(node.arguments[0]), kind, node)
        pointers = []
        for argument in node.arguments[1:]:
            pointer = self.decayed(self.expression(argument))
            needed = "int" if plain == "frexp" else kind
            if not isinstance(pointer.type, Pointer) or spelling(pointer.type.to) != needed:
                self.wrong(f"{name}() with a {spelling(pointer.type)} where a {needed}* is needed", node)
            pointers.append(pointer.operand)
        if plain == "sincos":
            return Value(f"((void)(*{pointers[0]} = sincos({value}, {pointers[1]})))", Named("void"), True)
        return Value(f"{plain}({value}, {pointers[0]})", Named(kind), True)

    def printf(self, node: nodes.Call) -> Value:
        """Translate printf: OpenCL C has no %ll, and what %l takes must be a long."""
        if not node.arguments or not isinstance(node.arguments[0], nodes.String):
            self.refuse("printf() without a literal as its format", node)
        texts: list[str] = []
        rest = list(node.arguments[1:])

        def conversion(match: re.Match[str]) -> str:
            if match[0] == "%%":
                return match[0]
            if "*" in (match[2], match[3]) or match[5] not in "diouxXcfFeEgGaApsZ" or match[4] == "L":
                self.refuse(f"{match[0]!r} in the format of printf()", node)
            if not rest:
                self.wrong("printf() with fewer arguments than its format needs", node)
            argument = rest.pop(0)
            if match[5] == "s" and isinstance(argument, nodes.String):
                texts.append(f'"{argument.text}"')
                return match[0]
            value = self.rvalue(argument)
            length = {"ll": "l", "j": "l", "z": "l", "t": "l"}.get(match[4] or "", match[4] or "")
            texts.append(self.printed(value, length, match[5], node))
            return "%" + match[1] + (match[2] or "") + (f".{match[3]}" if match[3] else "") + length + match[5]

        text = FORMAT.sub(conversion, node.arguments[0].text)
        if rest:
            self.wrong("printf() with more arguments than its format needs", node)
        return Value(f"printf({', '.join([chr(34) + text + chr(34), *texts])})", Named("int"), True)

    def printed(self, value: Value, length: str, letter: str, node: nodes.Node) -> str:
        """Return the text of an argument of printf, as its conversion needs it."""
        kind = spelling(value.type)
        if letter in "diouxXc" and length == "l" and (is_integer(value.type) or isinstance(value.type, Pointer)):
            return f"({'long' if letter in 'di' else 'ulong'}){value.operand}"
        if letter in "diouxXc" and is_integer(value.type):
            return value.text if kind.removeprefix("const ") not in ("long", "ulong") else f"(int){value.operand}"
        if letter in "fFeEgGaA" and arithmetic(value.type) and not is_integer(value.type):
            return value.text
        if letter == "p" and isinstance(value.type, Pointer):
            return value.text
        self.wrong(f"printf() with a {kind} for %{length}{letter}", node)
