"""Parsing statements and declarations.

Why a parser of its own: pycparser knows C only, neither templates nor references nor functional casts; tree-sitter's
grammars do not know which names are types, so that ``(a) - b`` and ``f(a < b, c > d)`` come out as a guess; clang's
Python package is a compiler of many megabytes. The subset is small, and what is outside of it must be refused by name,
which a parser for all of C++ does not make easier.
"""

from __future__ import annotations

from forebay.hip_cpp import nodes
from forebay.hip_cpp.expressions import ExpressionParser
from forebay.hip_cpp.tokens import Token
from forebay.hip_cpp.types import Array, Named, Pointer, Reference, Struct, Type

__all__ = ["Parser"]

ATTRIBUTES = {
    "__global__", "__device__", "__host__", "__shared__", "__constant__", "static", "inline", "extern",
    "__forceinline__", "__noinline__", "__inline__", "constexpr", "register",
}  # fmt: skip


class Parser(ExpressionParser):
    """Parses a whole program.

    Its attributes are what was found at file scope, in order.
    """

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__(tokens)
        self.functions: list[nodes.Function] = []
        self.variables: list[nodes.Variable] = []
        self.structs: dict[str, Struct] = {}
        self.asserts: list[nodes.StaticAssert] = []

    def program(self) -> None:
        """Parse everything."""
        while self.token.kind != "end":
            self.external()

    def external(self) -> None:
        """Parse one declaration at file scope."""
        if self.token.kind == "pragma":
            self.pragma()
            return
        if self.accept(";"):
            return
        if self.at("extern") and self.peek().kind == "string":
            self.advance()
            if self.advance().text != '"C"':
                self.refuse("linkage other than C")
            if self.accept("{"):
                while not self.accept("}"):
                    if self.token.kind == "end":
                        self.unexpected("'}' expected")
                    self.external()
                return
        if self.at("template"):
            self.template()
        elif self.at("static_assert"):
            self.asserts.append(self.static_assert())
        elif not self.type_declaration():
            self.declaration(True, [])

    # -- types

    def type_declaration(self) -> bool:
        """Parse a typedef, using, enum or the definition of a structure, if there is one."""
        if self.at("typedef"):
            self.advance()
            if self.at("struct", "union") and "{" in (self.peek().text, self.peek(2).text):
                structure = self.structure(typedef=True)
                if structure.name != self.token.text:
                    self.types[self.name("a name")] = Named(structure.name)
                else:
                    self.advance()
            else:
                type = self.base_type()
                type = self.pointers(type)
                name = self.name("a name")
                self.types[name] = self.dimensions(type)
            self.expect(";")
            return True
        if self.at("using"):
            self.advance()
            if self.at("namespace") or self.peek().text != "=":
                self.refuse("using, other than as the name of a type")
            name = self.name("a name")
            self.expect("=")
            self.types[name] = self.dimensions(self.pointers(self.base_type()))
            self.expect(";")
            return True
        if self.at("enum"):
            self.enum()
            return True
        if self.at("struct", "union") and self.peek(2).text in ("{", ";", ":", "final"):
            self.structure()
            self.expect(";")
            return True
        if self.at("struct", "union") and self.peek().text == "{":
            self.refuse("structures without a name")
        return False

    def structure(self, typedef: bool = False) -> Struct:
        """Parse a structure or union up to its closing brace."""
        place = self.place
        word = self.advance().text
        name = "" if self.at("{") else self.name("a name")
        if self.at(":", "final"):
            self.refuse("inheritance")
        if name:
            self.types.setdefault(name, Named(name))
        if not self.accept("{"):
            return Struct(name, word, place)  # declared now, defined later
        start = self.position
        if not name:  # its name comes behind it, and its members do not need it
            depth = 1
            while depth and self.token.kind != "end":
                token = self.advance()
                depth += (token.text == "{") - (token.text == "}") if token.kind == "op" else 0
            name = self.name("a name")
            self.types[name] = Named(name)
            self.position = start
        if name in self.structs:
            self.refuse(f"a second definition of {name}", place)
        structure = Struct(name, word, place)
        while not self.accept("}"):
            self.member(structure)
        self.structs[name] = structure
        return structure

    def member(self, structure: Struct) -> None:
        """Parse the members of one declaration."""
        if self.at("struct", "union", "enum") and "{" in (self.peek().text, self.peek(2).text):
            self.refuse("structures inside of structures")
        if self.token.kind == "pragma" or self.at(*ATTRIBUTES, "~") or (
            self.token.text == structure.name and self.peek().text == "("
        ):  # fmt: skip
            self.refuse("member functions, and members with attributes")
        base = self.base_type()
        while True:
            type = self.pointers(base)
            if isinstance(type, Reference):
                self.refuse("references as members")
            name = self.name("the name of a member")
            if self.at("("):
                self.refuse(f"member functions ({name})")
            if self.at(":"):
                self.refuse("bit-fields")
            type = self.dimensions(type)
            if self.at("=", "{"):
                self.refuse("initializers of members")
            structure.fields.append((name, type))
            if not self.accept(","):
                break
        self.expect(";")

    def enum(self) -> None:
        """Parse an enumeration: its names are constants of type int."""
        place = self.advance().place
        if self.at("class", "struct"):
            self.refuse("enum class", place)
        if self.token.kind == "name":
            self.types[self.name("a name")] = Named("int")
        if self.at(":"):
            self.refuse("enumerations with a type", place)
        self.expect("{")
        last: nodes.Expression | None = None
        while not self.accept("}"):
            place = self.place
            name = self.name("a name")
            if self.accept("="):
                value = self.conditional()
            elif last is None:
                value = nodes.Number(place, "0")
            else:
                value = nodes.Binary(place, "+", last, nodes.Number(place, "1"))
            self.variables.append(
                nodes.Variable(place, name, Named("int", const=True), value, frozenset({"constexpr", "enumerator"}))
            )
            last = nodes.Name(place, name)
            if not self.at("}"):
                self.expect(",")
        self.expect(";")

    # -- declarations

    def template(self) -> None:
        """Parse a function template."""
        place = self.advance().place
        self.expect("<")
        parameters: list[tuple[str, str]] = []
        while not self.at(">"):
            if self.at("typename", "class"):
                self.advance()
                parameters.append((self.name("the name of a template parameter"), ""))
            elif self.at("template") or self.peek().text == "...":
                self.refuse("templates of templates, and parameter packs")
            else:
                type = self.type_id()
                if not isinstance(type, Named):
                    self.refuse("template parameters that are pointers or references")
                parameters.append((self.name("the name of a template parameter"), type.name))
            if self.at("="):
                self.refuse("defaults of template parameters")
            if not self.accept(","):
                break
        self.close_angle()
        if not parameters:
            self.refuse("specialisations of templates", place)
        if self.at("struct", "class", "union", "using"):
            self.refuse("templates of classes and of types", place)
        hidden = {name: self.types.get(name) for name, _ in parameters}
        for name, type_name in parameters:
            if not type_name:
                self.types[name] = Named(name)
        try:
            self.declaration(True, parameters)
        finally:
            for name, before in hidden.items():
                self.types.pop(name, None)
                if before is not None:
                    self.types[name] = before

    def attributes(self) -> tuple[frozenset[str], nodes.Expression | None]:
        """Parse what stands around a type: ``__global__ static …``."""
        found: set[str] = set()
        bounds = None
        while True:
            if self.at("constexpr") or self.at(*ATTRIBUTES):
                found.add(self.advance().text)
            elif self.at("__launch_bounds__"):
                self.advance()
                bounds = (self.arguments("(", ")") or self.unexpected("a number expected"))[0]
            elif self.at("[") and self.peek().text == "[":
                while not self.accept("]"):
                    if self.advance().kind == "end":
                        self.unexpected("']' expected")
                self.expect("]")
            elif self.at("extern") and self.peek().kind == "string":
                self.refuse("linkage here")
            else:
                return frozenset(found), bounds

    def specifiers(self) -> tuple[Type, frozenset[str], nodes.Expression | None]:
        """Parse the type and the attributes before and behind it."""
        before, bounds = self.attributes()
        const = False
        while self.at("const", "volatile") and self.peek().text in ATTRIBUTES:
            const = self.advance().text == "const" or const
            more, _ = self.attributes()
            before |= more
        type = self.base_type()
        after, more_bounds = self.attributes()
        attributes = before | after
        if isinstance(type, Named) and (const or "constexpr" in attributes):
            type = Named(type.name, True, type.volatile)
        return type, attributes, bounds or more_bounds

    def declaration(self, at_file_scope: bool, template: list[tuple[str, str]]) -> nodes.Declaration | None:
        """Parse variables, or at file scope a function."""
        place = self.place
        base, attributes, bounds = self.specifiers()
        variables: list[nodes.Variable] = []
        while True:
            type = self.pointers(base)
            more, more_bounds = self.attributes()
            attributes |= more
            where = self.place
            if self.at("operator"):
                self.refuse("overloaded operators")
            name = self.name("a name")
            if self.at("::"):
                self.refuse("names with '::'", where)
            if at_file_scope and self.at("(") and not variables:
                self.function(nodes.Function(
                    where, name, type, [], nodes.Block(place, []), attributes, template, bounds or more_bounds
                ))  # fmt: skip
                return None
            type = self.dimensions(type)
            variables.append(nodes.Variable(where, name, type, self.initializer(), attributes))
            if not self.accept(","):
                break
        self.expect(";")
        if template:
            self.refuse("templates of variables", place)
        if at_file_scope:
            self.variables.extend(variables)
        return nodes.Declaration(place, variables)

    def initializer(self) -> nodes.Expression | None:
        """Parse ``= x``, ``= {…}``, ``{…}`` or ``(x)``."""
        if self.accept("="):
            return self.braced() if self.at("{") else self.assignment()
        if self.at("{"):
            return self.braced()
        if self.at("("):
            place = self.place
            arguments = self.arguments("(", ")")
            if len(arguments) != 1:
                self.refuse("constructors with several arguments", place)
            return arguments[0]
        return None

    def function(self, function: nodes.Function) -> None:
        """Parse the parameters and the body; a declaration without one is dropped."""
        self.expect("(")
        if self.at("void") and self.peek().text == ")":
            self.advance()
        while not self.accept(")"):
            if self.at("..."):
                self.refuse("functions with any number of arguments")
            place = self.place
            if self.at("extern", "static", "__shared__"):
                self.refuse("attributes of parameters")
            type = self.pointers(self.base_type())
            if self.at("..."):
                self.refuse("parameter packs")
            name = "" if self.at(",", ")", "=", "[") else self.name("the name of a parameter")
            type = self.dimensions(type)
            if isinstance(type, Array):
                type = Pointer(type.of)
            default = self.assignment() if self.accept("=") else None
            function.params.append(nodes.Param(place, name, type, default))
            if not self.at(")"):
                self.expect(",")
        if self.at("const", "noexcept", "->"):
            self.refuse(f"{self.token.text!r} behind the parameters of a function")
        if function.template:
            self.templates.add(function.name)
        if self.accept(";"):
            return
        if not self.at("{"):
            self.unexpected("the body of a function expected")
        function.body = self.block()
        self.functions.append(function)

    # -- statements

    def block(self) -> nodes.Block:
        """Parse ``{ … }``."""
        place = self.expect("{").place
        types = dict(self.types)
        body: list[nodes.Statement] = []
        while not self.accept("}"):
            if self.token.kind == "end":
                self.unexpected("'}' expected")
            statement = self.statement()
            if statement is not None:
                body.append(statement)
        self.types = types
        return nodes.Block(place, body)

    def body(self) -> nodes.Statement:
        """Parse what a loop or a condition holds."""
        return self.statement() or nodes.Block(self.place, [])

    def statement(self) -> nodes.Statement | None:
        """Parse one statement; None for one that only declares a type."""
        place = self.place
        if self.token.kind == "pragma":
            return self.pragma()
        if self.at("{"):
            return self.block()
        if self.accept(";"):
            return nodes.ExpressionStatement(place, None)
        if self.token.kind == "name" and hasattr(self, f"parse_{self.token.text}"):
            parsed: nodes.Statement = getattr(self, f"parse_{self.token.text}")()
            return parsed
        if self.at("break", "continue"):
            word = self.advance().text
            self.expect(";")
            return nodes.Jump(place, word)
        if self.at("static_assert"):
            return self.static_assert()
        if self.at("struct", "union", "enum") and "{" in (self.peek().text, self.peek(2).text):
            self.refuse("types defined inside of a function")
        if self.at("typedef", "using"):
            self.type_declaration()
            return None
        if self.token.kind == "name" and self.peek().text == ":" and not self.at_type():
            self.refuse("labels")
        if self.at(*ATTRIBUTES, "const", "volatile") or (self.at_type() and not self.at_constructor()):
            return self.declaration(False, [])
        value = self.expression()
        self.expect(";")
        return nodes.ExpressionStatement(place, value)

    def at_constructor(self) -> bool:
        """Whether a type that begins here is called."""
        ahead = 2 if self.token.text == "std" else 0
        return self.peek(ahead + 1).text in ("(", "{") and self.peek(ahead + 2).text != "*"

    def condition(self) -> nodes.Expression:
        """Parse a condition in parentheses."""
        self.expect("(")
        if self.at_type() and not self.at_constructor():
            self.refuse("declarations in a condition")
        value = self.expression()
        if self.at(";"):
            self.refuse("if and switch with an initializer")
        self.expect(")")
        return value

    def parse_if(self) -> nodes.Statement:
        """Parse ``if``."""
        place = self.advance().place
        if self.at("constexpr"):
            self.refuse("if constexpr")
        condition = self.condition()
        then = self.body()
        otherwise = self.body() if self.accept("else") else None
        return nodes.If(place, condition, then, otherwise)

    def parse_for(self) -> nodes.Statement:
        """Parse ``for``."""
        place = self.advance().place
        self.expect("(")
        init: nodes.Statement | None = None
        if self.at_type() and not self.at_constructor():
            start = self.position
            self.pointers(self.base_type())
            if self.peek().text == ":":
                self.refuse("for over a range")
            self.position = start
            init = self.declaration(False, [])
        elif not self.accept(";"):
            init = nodes.ExpressionStatement(self.place, self.expression())
            self.expect(";")
        condition = None if self.at(";") else self.expression()
        self.expect(";")
        step = None if self.at(")") else self.expression()
        self.expect(")")
        return nodes.For(place, init, condition, step, self.body())

    def parse_while(self) -> nodes.Statement:
        """Parse ``while``."""
        place = self.advance().place
        condition = self.condition()
        return nodes.Loop(place, condition, self.body(), False)

    def parse_do(self) -> nodes.Statement:
        """Parse ``do``."""
        place = self.advance().place
        body = self.body()
        self.expect("while")
        condition = self.condition()
        self.expect(";")
        return nodes.Loop(place, condition, body, True)

    def parse_switch(self) -> nodes.Statement:
        """Parse ``switch``."""
        place = self.advance().place
        value = self.condition()
        return nodes.Switch(place, value, self.body())

    def parse_case(self) -> nodes.Statement:
        """Parse ``case n:``."""
        place = self.advance().place
        value = self.conditional()
        self.expect(":")
        return nodes.Case(place, value)

    def parse_default(self) -> nodes.Statement:
        """Parse ``default:``."""
        place = self.advance().place
        self.expect(":")
        return nodes.Case(place, None)

    def parse_return(self) -> nodes.Statement:
        """Parse ``return``."""
        place = self.advance().place
        value: nodes.Expression | None = None
        if not self.at(";"):
            value = self.braced() if self.at("{") else self.expression()
        self.expect(";")
        return nodes.Return(place, value)

    def static_assert(self) -> nodes.StaticAssert:
        """Parse ``static_assert``."""
        place = self.advance().place
        self.expect("(")
        condition = self.assignment()
        message = self.advance().text if self.accept(",") else ""
        self.expect(")")
        self.expect(";")
        return nodes.StaticAssert(place, condition, message)

    def pragma(self) -> nodes.Statement:
        """Parse ``#pragma``: those about unrolling are handed on, and what would change the meaning is refused."""
        token = self.advance()
        word = token.text.split("(")[0].split()[:1]
        if word in (["unroll"], ["nounroll"]):
            return nodes.Pragma(token.place, token.text)
        if word != ["once"]:
            self.refuse(f"#pragma {token.text}", token.place)
        return nodes.ExpressionStatement(token.place, None)
