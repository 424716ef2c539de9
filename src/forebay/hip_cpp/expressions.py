"""Parsing types and expressions."""

from __future__ import annotations

from typing import NoReturn

from forebay.hip_cpp import nodes
from forebay.hip_cpp.errors import Place, RefusedError
from forebay.hip_cpp.tokens import Token
from forebay.hip_cpp.types import ALIASES, WORDS, Array, Named, Pointer, Reference, Type, words_of

__all__ = ["ExpressionParser"]

BINARY = [
    ["||"],
    ["&&"],
    ["|"],
    ["^"],
    ["&"],
    ["==", "!="],
    ["<", ">", "<=", ">="],
    ["<<", ">>"],
    ["+", "-"],
    ["*", "/", "%"],
]
SHIFT = 7  # a template's arguments hold no bare comparison
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
CASTS = {"static_cast", "reinterpret_cast", "const_cast"}

# Words of C++ that begin what is not in the subset, and how to say so.
PLAIN_WORDS = """
    new delete dynamic_cast typeid decltype class namespace goto friend mutable thread_local alignas __align__
    noexcept alignof export explicit __attribute__ __declspec consteval constinit wchar_t
"""
REFUSED_WORDS = {
    **{word: word for word in PLAIN_WORDS.split()},
    **dict.fromkeys(["throw"], "throw: exceptions"),
    **dict.fromkeys(["try"], "try: exceptions"),
    **dict.fromkeys(["catch"], "catch: exceptions"),
    **dict.fromkeys(["this"], "this: classes with member functions"),
    **dict.fromkeys(["operator"], "operator: overloaded operators"),
    **dict.fromkeys(["virtual"], "virtual functions"),
    **dict.fromkeys(["asm", "__asm__"], "inline assembly"),
    **dict.fromkeys(["co_await", "co_return", "co_yield"], "coroutines"),
    **dict.fromkeys(["concept", "requires"], "concepts"),
    **dict.fromkeys(["__managed__"], "__managed__ variables"),
    **dict.fromkeys(["private", "protected", "public"], "access specifiers"),
    **dict.fromkeys(["half", "__half", "__half2", "half2", "_Float16"], "half precision"),
    **dict.fromkeys(["__hip_bfloat16"], "bfloat16"),
    **dict.fromkeys(["dim3"], "dim3 variables"),
    **dict.fromkeys(["hipTextureObject_t", "texture", "cudaTextureObject_t"], "textures"),
    **dict.fromkeys(["hipSurfaceObject_t"], "surfaces"),
    **dict.fromkeys(["cooperative_groups"], "cooperative groups"),
    **dict.fromkeys(["float1", "int1"], "vectors of one"),
}


class ExpressionParser:
    """A recursive-descent parser over tokens; what it does not know, it refuses."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.position: int = 0
        self.types: dict[str, Type] = {name: Named(meaning) for name, meaning in ALIASES.items()}
        self.templates: set[str] = set()

    # -- tokens

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.position]

    @property
    def place(self) -> Place:
        """Where that is."""
        return self.token.place

    def peek(self, ahead: int = 1) -> Token:
        """Return a token further on."""
        return self.tokens[min(self.position + ahead, len(self.tokens) - 1)]

    def advance(self) -> Token:
        """Return the next token and go past it."""
        token = self.token
        if token.kind != "end":
            self.position += 1
        return token

    def at(self, *texts: str) -> bool:
        """Whether the next token is one of these words or operators."""
        return self.token.kind in ("op", "name") and self.token.text in texts

    def accept(self, *texts: str) -> Token | None:
        """Go past one of these, if it is next."""
        return self.advance() if self.at(*texts) else None

    def expect(self, text: str) -> Token:
        """Go past this, or refuse."""
        if not self.at(text):
            self.unexpected(f"{text!r} expected")
        return self.advance()

    def name(self, what: str) -> str:
        """Go past a name."""
        if self.token.kind != "name":
            self.unexpected(f"{what} expected")
        if self.token.text in REFUSED_WORDS or self.token.text in WORDS:
            self.unexpected("")
        return self.advance().text

    def unexpected(self, what: str) -> NoReturn:
        """Refuse the next token."""
        text = self.token.text
        if text in REFUSED_WORDS and self.token.kind == "name":
            raise RefusedError(f"{REFUSED_WORDS[text]}: not in the subset of HIP C++", self.place)
        raise RefusedError(f"{what}, not {text!r}" if what else f"unexpected {text!r}", self.place)

    def refuse(self, what: str, place: Place | None = None) -> NoReturn:
        """Refuse a construct."""
        raise RefusedError(f"{what}: not in the subset of HIP C++", place or self.place)

    # -- types

    def at_type(self, ahead: int = 0) -> bool:
        """Whether a type begins here."""
        token = self.peek(ahead)
        if token.kind != "name":
            return False
        if token.text == "std" and self.peek(ahead + 1).text == "::":
            return self.peek(ahead + 2).text in ALIASES
        return token.text in WORDS or token.text in self.types or token.text in (
            "const", "volatile", "constexpr", "struct", "union", "auto", "typename"
        )  # fmt: skip

    def base_type(self) -> Type:
        """Parse a type up to its declarator."""
        const = volatile = False
        words: list[str] = []
        found: Type | None = None
        place = self.place
        while self.token.kind == "name":
            text = self.token.text
            if text in ("const", "constexpr"):
                const = True
            elif text == "volatile":
                volatile = True
            elif text in ("typename", "struct", "union"):
                pass
            elif text in WORDS and found is None:
                words.append(text)
            elif text == "std" and self.peek().text == "::" and self.peek(2).text in ALIASES and not words:
                self.advance()
                self.advance()
                continue
            elif not words and found is None and (text in self.types or text == "auto"):
                found = self.types.get(text, Named("auto"))
            else:
                break
            self.advance()
        if found is None:
            if not words:
                self.unexpected("a type expected")
            found = Named(words_of(words, place))
        return qualified(found, const, volatile)

    def pointers(self, type: Type) -> Type:
        """Parse the stars and the ampersand of a declarator."""
        while True:
            if self.accept("*"):
                type = Pointer(type)
                while self.at("const", "volatile", "__restrict__", "__restrict", "restrict"):
                    word = self.advance().text
                    type.const = type.const or word == "const"
                    type.restrict = type.restrict or "restrict" in word
            elif self.at("&&"):
                self.refuse("rvalue references")
            elif self.accept("&"):
                type = Reference(type)
                self.accept("__restrict__", "__restrict")
            else:
                break
        if self.at("(") and self.peek().text in ("*", "&"):
            self.refuse("pointers to functions and to arrays")
        return type

    def type_id(self) -> Type:
        """Parse a type without a name, as in a cast."""
        type = self.pointers(self.base_type())
        if self.at("["):
            self.refuse("array types in casts")
        return type

    def dimensions(self, type: Type) -> Type:
        """Parse ``[n][m]`` behind a name."""
        sizes = []
        while self.accept("["):
            sizes.append(None if self.at("]") else self.expression())
            self.expect("]")
        for size in reversed(sizes):
            if isinstance(type, Reference):
                self.refuse("arrays of references")
            type = Array(type, size)
        return type

    # -- expressions

    def expression(self) -> nodes.Expression:
        """Parse an expression with commas."""
        left = self.assignment()
        while self.at(","):
            place = self.advance().place
            left = nodes.Binary(place, ",", left, self.assignment())
        return left

    def assignment(self) -> nodes.Expression:
        """Parse an expression without commas."""
        left = self.conditional()
        if self.token.kind == "op" and self.token.text in ASSIGNMENTS:
            token = self.advance()
            right = self.braced() if self.at("{") else self.assignment()
            return nodes.Assign(token.place, token.text, left, right)
        return left

    def conditional(self) -> nodes.Expression:
        """Parse ``a ? b : c``."""
        condition = self.binary(0)
        if not self.at("?"):
            return condition
        place = self.advance().place
        left = self.expression()
        self.expect(":")
        return nodes.Conditional(place, condition, left, self.assignment())

    def binary(self, level: int) -> nodes.Expression:
        """Parse binary operators that bind as tightly as this level or more."""
        if level == len(BINARY):
            return self.unary()
        left = self.binary(level + 1)
        while self.token.kind == "op" and self.token.text in BINARY[level]:
            token = self.advance()
            left = nodes.Binary(token.place, token.text, left, self.binary(level + 1))
        return left

    def unary(self) -> nodes.Expression:
        """Parse prefix operators and casts."""
        token = self.token
        if token.kind == "op" and token.text in ("+", "-", "!", "~", "*", "&", "++", "--"):
            self.advance()
            return nodes.Unary(token.place, token.text, self.unary())
        if self.at("sizeof"):
            self.advance()
            if self.at("...") or not (self.at("(") and self.at_type(1)):
                return nodes.SizeOf(token.place, self.unary())
            self.advance()
            of = self.type_id()
            self.expect(")")
            return nodes.SizeOf(token.place, of)
        if self.at("(") and self.at_type(1):
            start = self.position
            self.advance()
            type = self.type_id()
            if self.accept(")"):
                if self.at("{"):
                    self.refuse("compound literals")
                return nodes.Cast(token.place, type, self.unary())
            self.position = start  # it was a type's constructor in parentheses
        return self.postfix()

    def postfix(self) -> nodes.Expression:
        """Parse calls, subscripts, members, ``++`` and ``--``."""
        value = self.primary()
        while True:
            place = self.place
            if self.accept("["):
                value = nodes.Index(place, value, self.expression())
                self.expect("]")
            elif self.at("("):
                if not isinstance(value, nodes.Name):
                    self.refuse("calls of anything but a function by its name")
                value = nodes.Call(value.place, value, self.arguments("(", ")"))
            elif self.at(".", "->"):
                arrow = self.advance().text == "->"
                value = nodes.Member(place, value, self.name("the name of a member"), arrow)
            elif self.at("++", "--"):
                value = nodes.Postfix(place, self.advance().text, value)
            else:
                return value

    def arguments(self, opening: str, closing: str) -> list[nodes.Expression]:
        """Parse a list in parentheses or braces."""
        self.expect(opening)
        found: list[nodes.Expression] = []
        while not self.accept(closing):
            found.append(self.braced() if self.at("{") else self.assignment())
            if not self.at(closing):
                self.expect(",")
        return found

    def braced(self) -> nodes.InitList:
        """Parse ``{…}``."""
        place = self.place
        if self.peek().text == ".":
            self.refuse("designated initializers")
        return nodes.InitList(place, self.arguments("{", "}"))

    def primary(self) -> nodes.Expression:
        """Parse literals, names, parentheses, C++ casts and constructors."""
        token = self.token
        if token.kind == "number":
            self.advance()
            return nodes.Number(token.place, token.text)
        if token.kind == "char":
            self.advance()
            return nodes.Char(token.place, token.text)
        if token.kind == "string":
            text = ""
            while self.token.kind == "string":
                text += self.advance().text[1:-1]
            return nodes.String(token.place, text)
        if self.accept("("):
            value = self.expression()
            self.expect(")")
            return value
        if self.at(*CASTS):
            self.advance()
            self.expect("<")
            type = self.type_id()
            self.close_angle()
            self.expect("(")
            operand = self.expression()
            self.expect(")")
            return nodes.Cast(token.place, type, operand, token.text)
        if self.at("["):
            self.refuse("lambdas")
        if self.at_type():
            type = self.base_type()
            if self.at("{"):
                return nodes.Construct(token.place, type, self.arguments("{", "}"), True)
            if self.at("("):
                return nodes.Construct(token.place, type, self.arguments("(", ")"))
            self.unexpected("an expression expected")
        if self.at("::") or (token.kind == "name" and self.peek().text == "::"):
            self.refuse(f"names with '::' ({token.text}::)")
        if token.kind != "name":
            self.unexpected("an expression expected")
        name = self.name("an expression")
        arguments = self.template_arguments() if name in self.templates and self.at("<") else None
        if arguments is None and self.at("<") and self.at_type(1) and self.peek(2).text in (">", ",", "*"):
            self.refuse(f"{name}<…>, which is not a function template of the program", token.place)
        return nodes.Name(token.place, name, arguments)

    def template_arguments(self) -> list[Type | nodes.Expression]:
        """Parse ``<int, 4>``."""
        self.expect("<")
        found: list[Type | nodes.Expression] = []
        while not self.at(">", ">>"):
            found.append(self.type_id() if self.at_type() else self.binary(SHIFT + 1))
            if not self.accept(","):
                break
        self.close_angle()
        return found

    def close_angle(self) -> None:
        """Go past one ``>``, which may be half of ``>>``."""
        if self.at(">>"):
            token = self.token
            self.tokens[self.position] = Token("op", ">", token.place)
            return
        self.expect(">")


def qualified(type: Type, const: bool, volatile: bool) -> Type:
    """Return the type with these qualifiers as well."""
    if isinstance(type, Named):
        return Named(type.name, type.const or const, type.volatile or volatile)
    if isinstance(type, Pointer) and const:
        return Pointer(type.to, type.space, True, type.restrict)
    if isinstance(type, Array):
        return Array(qualified(type.of, const, volatile), type.size)
    return type
