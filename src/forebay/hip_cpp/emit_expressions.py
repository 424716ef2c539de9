"""From expressions to OpenCL C."""

from __future__ import annotations

from dataclasses import dataclass

from forebay.hip_cpp import nodes
from forebay.hip_cpp.builtins import Builtins
from forebay.hip_cpp.constants import CONSTANTS, Known, character, number
from forebay.hip_cpp.types import (
    Array,
    Named,
    Pointer,
    Reference,
    Type,
    arithmetic,
    is_vector,
    same,
    spelling,
    vector_parts,
)  # fmt: skip
from forebay.hip_cpp.values import Symbol, Value, element, is_integer, is_three, promoted

__all__ = ["Expressions"]

GRID = {
    "threadIdx": "get_local_id",
    "blockIdx": "get_group_id",
    "blockDim": "get_local_size",
    "gridDim": "get_num_groups",
}
AXES = {"x": 0, "y": 1, "z": 2}
NOT_HERE = {
    "warpSize": "warpSize: OpenCL has no warps",
    "__func__": "__func__",
    "__FUNCTION__": "__FUNCTION__",
}
INTEGER_ONLY = {"%", "&", "|", "^", "<<", ">>"}
COMPARISONS = {"==", "!=", "<", ">", "<=", ">="}


@dataclass(eq=False)
class Expressions(Builtins):
    """Translates expressions."""

    def expression(self, node: nodes.Expression) -> Value:
        """Translate an expression."""
        value: Value = getattr(self, f"on_{type(node).__name__.lower()}")(node)
        return value

    def rvalue(self, node: nodes.Expression) -> Value:
        """Translate an expression of which only the value is used."""
        value = self.native(self.decayed(self.expression(node)))
        if isinstance(value.type, Named) and value.type.name == "void":
            self.wrong("a value is needed, and this is void", node)
        return value

    # -- literals and names

    def on_number(self, node: nodes.Number) -> Value:
        """Translate a literal."""
        text, name, value = number(node)
        return Value(text, Named(name), True, is_null=value == 0)

    def on_char(self, node: nodes.Char) -> Value:
        """Translate a character: of type char, which in C it is not."""
        return Value(f"((char){character(node)})", Named("char"), True)

    def on_string(self, node: nodes.String) -> Value:
        """Refuse strings outside of printf."""
        self.refuse("a string, other than as an argument of printf", node)

    def on_initlist(self, node: nodes.InitList) -> Value:
        """Refuse braces where they initialize nothing."""
        self.refuse("braces here", node)

    def on_name(self, node: nodes.Name) -> Value:
        """Translate a variable or a constant."""
        name = node.name
        mark = self.program.mark(node.place)
        bound = self.bindings.get(name)
        symbol = self.lookup(name)
        if isinstance(bound, Known) and not any(name in scope for scope in self.scopes):
            return self.known(bound, mark)
        if symbol is None:
            if name in ("nullptr", "NULL"):
                return Value("0", Pointer(Named("void"), self.program.space()), True, is_null=True)
            if name in CONSTANTS:
                text, type_name = CONSTANTS[name]
                return Value(text, Named(type_name), True)
            if name in GRID:
                self.refuse(f"{name} without .x, .y or .z", node)
            if name in NOT_HERE:
                self.refuse(NOT_HERE[name], node)
            if self.program.is_function(name):
                self.refuse(f"the function {name} as a value", node)
            self.wrong(f"{name!r} is not declared, or not in the subset of HIP C++", node)
        if symbol.value is not None and (self.constant or symbol.text == ""):
            return self.known(symbol.value, mark)
        if self.constant:
            if symbol.init is None or not arithmetic(symbol.type):
                self.refuse(f"{name} in the initializer of a constant", node)
            value = self.rvalue(symbol.init)
            assert isinstance(symbol.type, Named)
            return Value(f"(({symbol.type.name}){value.operand})", symbol.type, True)
        if symbol.shared:
            self.need_shared(symbol.shared, symbol)
        return Value(mark + symbol.text, symbol.type, True, symbol.space)

    def known(self, known: Known, mark: str) -> Value:
        """Translate a constant integer."""
        return Value(f"{mark}({self.declare(Named(known.type_name), '')})({known.value})", Named(known.type_name))

    def need_shared(self, key: str, symbol: Symbol) -> None:
        """Note that the function needs an object in shared memory."""
        raise NotImplementedError

    # -- access

    def on_member(self, node: nodes.Member) -> Value:
        """Translate ``a.x``, ``p->x`` and ``threadIdx.x``."""
        owner = node.owner
        if isinstance(owner, nodes.Name) and owner.name in GRID and self.lookup(owner.name) is None and not node.arrow:
            if node.name not in AXES:
                self.wrong(f"{owner.name} has no member {node.name!r}", node)
            return Value(f"(uint){GRID[owner.name]}({AXES[node.name]})", Named("uint"))
        value = self.expression(owner)
        type, space, text = value.type, value.space, f"{value.operand}.{{}}"
        if node.arrow:
            value = self.decayed(value)
            if not isinstance(value.type, Pointer):
                self.wrong(f"-> behind a {spelling(value.type)}", node)
            type, space, text = value.type.to, value.type.space, f"{value.operand}->{{}}"
        if is_vector(type):
            assert isinstance(type, Named)
            base, lanes = vector_parts(type.name)
            if node.name not in "xyzw"[:lanes] or len(node.name) != 1:
                self.wrong(f"{type.name} has no member {node.name!r}", node)
            return Value(text.format(node.name), Named(base, type.const), True, space, component=not is_three(type))
        structure = self.program.structs.get(type.name) if isinstance(type, Named) else None
        if structure is None:
            self.wrong(f"{spelling(type)} has no members", node)
        for name, field in self.program.fields(structure):
            if name == node.name:
                assert isinstance(type, Named)
                if type.const and isinstance(field, Named):
                    field = Named(field.name, True, field.volatile)
                return Value(text.format(self.program.member_symbol(name)), field, True, space)
        self.wrong(f"{structure.name} has no member {node.name!r}", node)

    def on_index(self, node: nodes.Index) -> Value:
        """Translate ``a[i]``."""
        array = self.decayed(self.expression(node.array))
        index = self.rvalue(node.index)
        if not isinstance(array.type, Pointer) or not is_integer(index.type):
            self.wrong(f"{spelling(array.type)} with an index of type {spelling(index.type)}", node)
        return Value(f"{array.operand}[{index.text}]", array.type.to, True, array.type.space)

    # -- operators

    def on_unary(self, node: nodes.Unary) -> Value:
        """Translate prefix operators."""
        op = node.op
        if op == "&":
            value = self.expression(node.operand)
            if value.space is None or value.component:
                what = "an element of a vector" if value.component else "a value"
                self.refuse(f"the address of {what}", node)
            return Value(f"&{value.operand}", Pointer(value.type, value.space))
        if op == "*":
            value = self.decayed(self.expression(node.operand))
            if not isinstance(value.type, Pointer) or (
                isinstance(value.type.to, Named) and value.type.to.name == "void"
            ):
                self.wrong(f"* of a {spelling(value.type)}", node)
            return Value(f"*{value.operand}", value.type.to, False, value.type.space)
        if op in ("++", "--"):
            return self.stepped(node.operand, node, f"{op}{{}}")
        value = self.rvalue(node.operand)
        if op == "!":
            self.truth(value, node)
            return Value(f"!{value.operand}", Named("bool"))
        if is_vector(value.type) and (op != "~" or element(value.type) not in ("float", "double")):
            return Value(f"{op}{value.operand}", value.type, native=value.native)
        if not arithmetic(value.type) or (op == "~" and not is_integer(value.type)):
            self.wrong(f"{op} of a {spelling(value.type)}", node)
        assert isinstance(value.type, Named)
        return Value(f"{op}{value.operand}", promoted(value.type))

    def on_postfix(self, node: nodes.Postfix) -> Value:
        """Translate ``i++``."""
        return self.stepped(node.operand, node, f"{{}}{node.op}")

    def stepped(self, operand: nodes.Expression, node: nodes.Node, form: str) -> Value:
        """Translate ``++`` and ``--``."""
        value = self.expression(operand)
        if value.space is None:
            self.wrong("++ or -- of a value that is not a variable", node)
        self.program.note_write(value.space, node.place)
        if not isinstance(value.type, Pointer) and (not arithmetic(value.type) or spelling(value.type) == "bool"):
            self.refuse(f"++ or -- of a {spelling(value.type)}", node)
        return Value(form.format(value.operand), value.type, False, value.space if form.endswith("}") else None)

    def on_binary(self, node: nodes.Binary) -> Value:
        """Translate binary operators."""
        op = node.op
        if op == ",":
            left, last = self.expression(node.left), self.decayed(self.expression(node.right))
            return Value(f"({left.operand}, {last.operand})", last.type, True, native=last.native)
        if op in ("&&", "||"):
            texts = []
            for side in (node.left, node.right):
                value = self.rvalue(side)
                self.truth(value, side)
                texts.append(value.operand)
            return Value(f"{texts[0]} {op} {texts[1]}", Named("bool"))
        return self.operation(op, self.rvalue(node.left), self.rvalue(node.right), node)

    def operation(self, op: str, left: Value, right: Value, node: nodes.Node) -> Value:
        """Translate an operation on two values."""
        if is_vector(left.type) or is_vector(right.type):
            return self.vector_operation(op, left, right, node)
        text = f"{left.operand} {op} {right.operand}"
        if isinstance(left.type, Pointer) or isinstance(right.type, Pointer):
            return self.pointer_operation(op, left, right, text, node)
        result = self.common(left.type, right.type, node)
        if op in COMPARISONS:
            return Value(text, Named("bool"))
        if op in INTEGER_ONLY and not (is_integer(left.type) and is_integer(right.type)):
            self.wrong(f"{op} of {spelling(left.type)} and {spelling(right.type)}", node)
        if op in ("<<", ">>"):
            assert isinstance(left.type, Named)
            result = promoted(left.type)
        return Value(text, result)

    def pointer_operation(self, op: str, left: Value, right: Value, text: str, node: nodes.Node) -> Value:
        """Translate an operation of which at least one side is a pointer."""
        pointers = isinstance(left.type, Pointer), isinstance(right.type, Pointer)
        if op in COMPARISONS and (all(pointers) or left.is_null or right.is_null):
            if not left.is_null and not right.is_null:
                assert isinstance(left.type, Pointer)
                assert isinstance(right.type, Pointer)
                self.join_pointers(left.type, right.type, node)
            return Value(text, Named("bool"))
        if op == "-" and all(pointers):
            assert isinstance(left.type, Pointer)
            assert isinstance(right.type, Pointer)
            self.join_pointers(left.type, right.type, node)
            return Value(f"(long)({text})", Named("long"))
        if op in ("+", "-") and pointers[0] and is_integer(right.type):
            return Value(text, left.type)
        if op == "+" and pointers[1] and is_integer(left.type):
            return Value(text, right.type)
        self.wrong(f"{op} of {spelling(left.type)} and {spelling(right.type)}", node)

    def vector_operation(self, op: str, left: Value, right: Value, node: nodes.Node) -> Value:
        """Translate an operation element by element; a scalar becomes one of the elements' type."""
        if op in COMPARISONS:
            self.refuse("comparing vectors", node)
        type = left.type if is_vector(left.type) else right.type
        base = element(type)
        texts = []
        for value in (left, right):
            if not is_vector(value.type):
                text = self.scalar(value, base, node)
                texts.append(text if value.atom and text == value.text else f"({text})")
            elif same(value.type, type):
                texts.append(value.operand)
            else:
                self.wrong(f"{op} of {spelling(left.type)} and {spelling(right.type)}", node)
        if op in INTEGER_ONLY and base in ("float", "double"):
            self.wrong(f"{op} of {spelling(left.type)} and {spelling(right.type)}", node)
        if op in ("<<", ">>"):
            self.refuse("shifting vectors", node)
        assert isinstance(type, Named)
        return Value(f"{texts[0]} {op} {texts[1]}", Named(type.name), native=is_three(type))

    def on_assign(self, node: nodes.Assign) -> Value:
        """Translate assignments."""
        target = self.expression(node.left)
        if target.space is None or isinstance(target.type, Array):
            self.wrong("an assignment to something that is not a variable", node)
        self.program.note_write(target.space, node.place)
        if node.op == "=":
            if isinstance(node.right, nodes.InitList):
                text = self.aggregate(node.right, target.type)
            else:
                text = self.converted(self.expression(node.right), target.type, node)
            return Value(f"{target.operand} = {text}", target.type, False, target.space)
        op = node.op[:-1]
        right = self.rvalue(node.right)
        plain = arithmetic(target.type) and spelling(target.type) != "bool"
        result = self.operation(op, self.native(target), right, node)
        if isinstance(target.type, Pointer):
            self.converted(result, target.type, node)
        if (plain and arithmetic(right.type)) or isinstance(target.type, Pointer):
            return Value(f"{target.operand} {node.op} {right.operand}", target.type, False, target.space)
        if not is_pure(node.left):
            self.refuse(f"{node.op} with a side effect on its left", node)
        return Value(
            f"{target.operand} = {self.converted(result, target.type, node)}", target.type, False, target.space
        )

    def on_conditional(self, node: nodes.Conditional) -> Value:
        """Translate ``c ? a : b``."""
        condition = self.rvalue(node.condition)
        self.truth(condition, node)
        left, right = self.decayed(self.expression(node.left)), self.decayed(self.expression(node.right))
        if arithmetic(left.type) and arithmetic(right.type):
            alike = same(left.type, right.type)
            type: Type = Named(spelling(left.type).split()[-1]) if alike else self.common(left.type, right.type, node)
        elif isinstance(left.type, Pointer) and isinstance(right.type, Pointer):
            if not left.is_null and not right.is_null:
                self.join_pointers(left.type, right.type, node)
            type = right.type if left.is_null else left.type
        elif same(left.type, right.type):
            type = left.type
            if left.native or right.native:
                left, right = self.native(left), self.native(right)
        else:
            self.wrong(f"? with {spelling(left.type)} and {spelling(right.type)}", node)
        text = f"{condition.operand} ? {left.operand} : {right.operand}"
        return Value(text, type, native=left.native)

    # -- types

    def on_cast(self, node: nodes.Cast) -> Value:
        """Translate casts."""
        if isinstance(node.type, Reference):
            self.refuse("casts to references", node)
        value = self.decayed(self.expression(node.operand))
        return self.cast(value, self.concrete(node.type, node.place, "a cast"), node, node.kind)

    def cast(self, value: Value, type: Type, node: nodes.Node, kind: str = "") -> Value:
        """Translate a conversion in writing."""
        if isinstance(type, Named) and type.name == "void":
            return Value(f"(void){value.operand}", type)
        if isinstance(type, Pointer):
            assert type.space is not None
            if isinstance(value.type, Pointer):
                assert value.type.space is not None
                if value.is_null:
                    type.space.forget()
                else:
                    type.space.forget()
                    if same(type.to, value.type.to):
                        self.join_pointers(type, value.type, node)
                    else:
                        type.space.join(value.type.space, node.place)
            elif value.is_null:
                type.space.forget()
            elif not is_integer(value.type):
                self.wrong(f"a cast of {spelling(value.type)} to {spelling(type)}", node)
            return Value(f"({self.declare(type, '')}){value.operand}", type, is_null=value.is_null)
        if arithmetic(type):
            assert isinstance(type, Named)
            if isinstance(value.type, Pointer) and type.name in ("long", "ulong", "bool"):
                if type.name == "bool":
                    return Value(f"{value.operand} != 0", Named("bool"))
                return Value(f"({type.name}){value.operand}", Named(type.name))
            if kind == "reinterpret_cast" and not same(type, value.type):
                self.refuse("reinterpret_cast between values; __float_as_int() and its like do that", node)
            if type.name == "bool":
                return Value(self.converted(value, type, node), Named("bool"))
            text = self.scalar(value, type.name, node)
            return Value(text, Named(type.name), value.atom and text == value.text)
        if same(type, value.type):
            return value
        self.wrong(f"a cast of {spelling(value.type)} to {spelling(type)}", node)

    def on_construct(self, node: nodes.Construct) -> Value:
        """Translate ``T(…)`` and ``T{…}``."""
        type = self.concrete(node.type, node.place)
        if isinstance(type, Named) and (type.name in self.program.structs or is_vector(type)) and (
            node.braces or not node.arguments
        ):  # fmt: skip
            text = self.aggregate(nodes.InitList(node.place, node.arguments), type)
            return Value(text, Named(type.name), True, native=False)
        if is_vector(type):
            assert isinstance(type, Named)
            return self.vector(type.name, node.arguments, node)
        if len(node.arguments) > 1:
            self.refuse("constructors", node)
        if not node.arguments:
            return self.cast(Value("0", Named("int"), True, is_null=True), type, node)
        argument = node.arguments[0]
        if isinstance(argument, nodes.InitList):
            self.refuse("braces here", node)
        return self.cast(self.decayed(self.expression(argument)), type, node)

    def on_sizeof(self, node: nodes.SizeOf) -> Value:
        """Translate sizeof."""
        of = node.of
        type = self.expression(of).type if isinstance(of, nodes.Expression) else self.concrete(of, node.place)
        return Value(f"{self.size_of(type)[0]}UL", Named("ulong"), True)

    # -- initializers

    def aggregate(self, node: nodes.InitList, type: Type) -> str:
        """Translate braces that are a value."""
        if is_vector(type) and not is_three(type):
            return self.initializer(node, type)
        if isinstance(type, Named) and (type.name in self.program.structs or is_three(type)):
            return f"({self.declare(Named(type.name), '')}){self.initializer(node, type)}"
        return self.initializer(node, type)

    def initializer(self, node: nodes.Expression, type: Type) -> str:
        """Translate what initializes an object of a type."""
        if not isinstance(node, nodes.InitList):
            if self.constant and is_three(type) and isinstance(node, (nodes.Call, nodes.Construct)):
                return self.initializer(nodes.InitList(node.place, node.arguments), type)
            return self.converted(self.expression(node), type, node)
        items = node.items
        if isinstance(type, Array):
            count = len(items) if type.size is None else type.size
            if isinstance(type.of, Array) and items and not isinstance(items[0], nodes.InitList):
                self.refuse("nested arrays without nested braces", node)
            if len(items) > count:
                self.wrong(f"{len(items)} initializers for {count} elements", node)
            texts = [self.initializer(item, type.of) for item in items] or [self.zero(type.of)]
            type.size = count
            return f"{{{', '.join(texts)}}}"
        if is_vector(type):
            assert isinstance(type, Named)
            base, lanes = vector_parts(type.name)
            if len(items) > lanes:
                self.wrong(f"{len(items)} initializers for a {type.name}", node)
            texts = [self.scalar(self.rvalue(item), base, item) for item in items] + ["0"] * (lanes - len(items))
            return f"{{{', '.join(texts)}}}" if lanes == 3 else f"({type.name})({', '.join(texts)})"
        structure = self.program.structs.get(type.name) if isinstance(type, Named) else None
        if structure is not None:
            fields = self.program.fields(structure)
            limit = len(fields) if structure.word == "struct" else 1
            if len(items) > limit:
                self.wrong(f"{len(items)} initializers for {structure.name}", node)
            pairs = zip(items, fields, strict=False)
            texts = [self.initializer(item, field) for item, (_, field) in pairs] or [self.zero(fields[0][1])]
            return f"{{{', '.join(texts)}}}"
        if len(items) > 1:
            self.wrong(f"{len(items)} initializers for a {spelling(type)}", node)
        return self.initializer(items[0], type) if items else "0"

    def zero(self, type: Type) -> str:
        """Return the initializer of an object that is all zeros."""
        if isinstance(type, Array):
            return f"{{{self.zero(type.of)}}}"
        if is_three(type):
            return "{0, 0, 0}"
        if is_vector(type):
            assert isinstance(type, Named)
            return f"({type.name})(0)"
        structure = self.program.structs.get(type.name) if isinstance(type, Named) else None
        return f"{{{self.zero(self.program.fields(structure)[0][1])}}}" if structure else "0"


def is_pure(node: nodes.Expression) -> bool:
    """Whether an expression may be written twice."""
    if isinstance(node, (nodes.Assign, nodes.Postfix, nodes.Call)):
        return False
    if isinstance(node, nodes.Unary) and node.op in ("++", "--"):
        return False
    return all(is_pure(part) for part in vars(node).values() if isinstance(part, nodes.Expression))
