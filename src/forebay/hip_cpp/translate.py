"""The whole way from a source to OpenCL C."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from forebay.hip_cpp import nodes
from forebay.hip_cpp.emit_statements import DYNAMIC, Instance
from forebay.hip_cpp.errors import NotInstalledError, Place, RefusedError
from forebay.hip_cpp.parser import Parser
from forebay.hip_cpp.program import Translator, Variable
from forebay.hip_cpp.tokens import Token, tokenize
from forebay.hip_cpp.types import Pointer, Type, spelling
from forebay.hip_cpp.values import Base

__all__ = ["KernelInfo", "ParameterInfo", "Translation", "translate"]


@dataclass(frozen=True)
class ParameterInfo:
    """A parameter of a kernel, as HIP sees it.

    Attributes
    ----------
    name, type_name : str
        As in the source, with fixed-width names (``uint``, ``long`` for ``long long``).
    kind : "pointer" or "value"
    nbytes, alignment : int
        In HIP's argument buffer.
    """

    name: str
    type_name: str
    kind: str
    nbytes: int
    alignment: int


@dataclass(frozen=True)
class KernelInfo:
    """A kernel of a program.

    Attributes
    ----------
    name : str
        Its name in the source, or its name expression: ``"scale<float>"``.
    symbol : str
        Its name in the OpenCL program, or in the SPIR-V module.
    parameters : tuple of ParameterInfo
    dynamic_shared : bool
        Whether what the driver has has one more parameter, the last: local memory for ``extern __shared__``.
    launch_bounds : int
        The largest block of ``__launch_bounds__``; 0 without.
    line : int
    mangled : str
        Its name by the rules of C++; empty when it was translated.
    follows : bool
        Whether it may reach memory by pointers that are themselves in memory.
    """

    name: str
    symbol: str
    parameters: tuple[ParameterInfo, ...] = ()
    dynamic_shared: bool = False
    launch_bounds: int = 0
    line: int = 0
    mangled: str = ""
    follows: bool = False


@dataclass(frozen=True)
class Translation:
    """A program in OpenCL C, its kernels, warnings, and its variables."""

    text: str
    kernels: tuple[KernelInfo, ...]
    warnings: tuple[str, ...] = field(default=())
    variables: tuple[Variable, ...] = field(default=())


def translate(
    source: str,
    file: str = "program.hip",
    options: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    name_expressions: Sequence[str] = (),
) -> Translation:
    """Translate HIP C++ to OpenCL C.

    Parameters
    ----------
    source
        The program.
    file
        What messages call it.
    options
        Of the preprocessor: ``-D…``, ``-U…``, ``-I…``.
    headers
        Files that it may include, by name.
    name_expressions
        Kernels, such as ``"scale<float>"``, that are instances of templates, and variables: ``"&count"``.

    Returns
    -------
    Translation

    Raises
    ------
    RefusedError
        With the file, the line, the construct and the source line, if anything is outside of the subset.
    NotInstalledError
        Without pcpp.
    """
    try:
        from forebay.hip_cpp.preprocessor import preprocess
    except ModuleNotFoundError as error:
        if error.name != "pcpp":
            raise
        advice = "the translator of HIP C++ needs the preprocessor pcpp: pip install 'forebay[hip]'"
        raise NotInstalledError(advice) from None
    file = file.replace("\3", "").replace('"', "").replace("\n", " ") or "program.hip"
    sources = {file: source, **(headers or {})}
    try:
        if "\2" in source or "\3" in source:
            raise RefusedError("a control character", Place(file, 1))
        tokens = preprocess(source, file, options, headers)
        return translated(tokens, name_expressions)
    except RefusedError as error:
        lines = sources.get(error.place.file, "").splitlines()
        place = error.place if error.place.line else Place(file, 0)
        text = lines[place.line - 1] if 0 < place.line <= len(lines) else ""
        raise RefusedError(error.what, place, text) from None
    except RecursionError:
        raise RefusedError("the program is nested too deeply", Place(file, 0)) from None


def translated(tokens: list[Token], name_expressions: Sequence[str]) -> Translation:
    """Translate tokens."""
    parser = Parser(tokens)
    parser.program()
    program = Translator(parser, {token.text for token in tokens if token.kind == "name"})
    program.declare_variables()
    kernels: list[tuple[str, nodes.Function, Instance]] = []
    for function in parser.functions:
        check_attributes(function, program)
        if function.is_kernel and not function.template:
            kernels.append((function.name, function, program.kernel(function, {})))
    for expression in name_expressions:
        kernels += requested(expression, program, parser)
    found = []
    for name, function, instance in kernels:
        plain = name == function.name and name not in program.names - set(name_tokens(tokens))
        symbol = name if plain and not name.startswith("hip_") else program.unique(function.name)
        placed = program.place_instance(instance, symbol)
        base = Base(program, instance.bindings)
        bounds = function.launch_bounds
        found.append(KernelInfo(
            name, placed.symbol,
            tuple(
                parameter(base, param, type) for param, type in zip(function.params, instance.param_types, strict=True)
            ),
            DYNAMIC in instance.shared,
            base.constant_integer(bounds, "a launch bound") if bounds else 0,
            function.place.line,
        ))  # fmt: skip
    return Translation(program.text(), tuple(found), tuple(program.warnings), tuple(program.variables))


def name_tokens(tokens: list[Token]) -> set[str]:
    """Return all names of the source that mean nothing in OpenCL C."""
    from forebay.hip_cpp.reserved import RESERVED

    return {token.text for token in tokens if token.kind == "name"} - RESERVED


def parameter(base: Base, param: nodes.Param, type: Type) -> ParameterInfo:
    """Describe a parameter."""
    nbytes, alignment = base.size_of(type)
    kind = "pointer" if isinstance(type, Pointer) else "value"
    return ParameterInfo(param.name, spelling(type), kind, nbytes, alignment)


def check_attributes(function: nodes.Function, program: Translator) -> None:
    """Refuse what is not device code, and two functions that are declared alike."""
    attributes = function.attributes
    if "__shared__" in attributes or "__constant__" in attributes:
        raise RefusedError(f"the attributes of {function.name}", function.place)
    if function.is_kernel and attributes & {"__device__", "__host__"}:
        raise RefusedError(f"{function.name} is __global__ and more", function.place)
    if function.is_kernel and len(program.functions[function.name]) > 1:
        raise RefusedError(f"a second definition of the kernel {function.name}", function.place)
    if not attributes & {"__global__", "__device__"} and "constexpr" not in attributes:
        raise RefusedError(
            f"the function {function.name} is neither __global__ nor __device__: code of the host is not in the subset",
            function.place,
        )


def requested(expression: str, program: Translator, parser: Parser) -> list[tuple[str, nodes.Function, Instance]]:
    """Return the kernel that a name expression asks for; none if it is there anyway, as variables are."""
    place = Place("name expression", 1)
    tokens = tokenize(expression.strip().lstrip("&"), "name expression")
    reader = Parser(tokens)
    reader.types, reader.templates = parser.types, parser.templates
    try:
        node = reader.primary()
    except RefusedError as error:
        raise RefusedError(f"the name expression {expression!r}: {error.what}", place) from None
    variables = {variable.name for variable in program.variables}
    if isinstance(node, nodes.Name) and reader.token.kind == "end" and node.name in variables:
        return []
    if not isinstance(node, nodes.Name) or reader.token.kind != "end" or not program.is_function(node.name):
        raise RefusedError(f"the name expression {expression!r} names no kernel", place)
    function = program.functions_named(node.name)[0]
    if not function.is_kernel or bool(function.template) != (node.arguments is not None):
        raise RefusedError(f"the name expression {expression!r} names no kernel", place)
    if not function.template:
        return []
    call = nodes.Call(place, node, [])
    bindings = Instance(program).deduced(function, call, [])
    return [(expression, function, program.kernel(function, bindings))]
