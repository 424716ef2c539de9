"""Random expressions over integers of all types, compared with what C++ says about their types and values."""

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

# Name in HIP C++: (bits, signed, rank).
TYPES = {
    "bool": (1, False, 0), "char": (8, True, 1), "unsigned char": (8, False, 1), "short": (16, True, 2),
    "unsigned short": (16, False, 2), "int": (32, True, 3), "unsigned int": (32, False, 4), "long long": (64, True, 5),
    "unsigned long long": (64, False, 6),
}  # fmt: skip
VARIABLES = {f"v{index}": name for index, name in enumerate(TYPES)}


class OutOfRangeError(Exception):
    """What C++ leaves undefined."""


def convert(value, name):
    bits, signed, _ = TYPES[name]
    if name == "bool":
        return int(value != 0)
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def promoted(name):
    return "int" if TYPES[name][2] < 3 else name


def common(one, other):
    return max(promoted(one), promoted(other), key=lambda name: TYPES[name][2])


def checked(value, name):
    """A result: wrapped if unsigned; signed arithmetic that overflows is undefined."""
    if TYPES[name][1] and convert(value, name) != value:
        raise OutOfRangeError
    return convert(value, name)


def evaluated(tree, values):
    """(type, value) of an expression."""
    kind, *parts = tree
    if kind == "variable":
        return VARIABLES[parts[0]], values[parts[0]]
    if kind == "literal":
        return parts[1], parts[0]
    if kind == "cast":
        return parts[0], convert(evaluated(parts[1], values)[1], parts[0])
    if kind == "unary":
        name, value = evaluated(parts[1], values)
        if parts[0] == "!":
            return "bool", int(not value)
        name = promoted(name)
        return name, checked({"-": -value, "~": ~value, "+": value}[parts[0]], name)
    if kind == "choice":
        (_, condition), left, right = (evaluated(part, values) for part in parts)
        name = left[0] if left[0] == right[0] else common(left[0], right[0])
        return name, convert((left if condition else right)[1], name)
    op, left, right = parts
    (one, a), (other, b) = evaluated(left, values), evaluated(right, values)
    if op in ("&&", "||"):
        return "bool", int((a and b) != 0) if op == "&&" else int((a or b) != 0)
    if op in ("<<", ">>"):
        name = promoted(one)
        if not 0 <= b < TYPES[name][0] or (a < 0 and op == "<<"):
            raise OutOfRangeError
        return name, checked(a << b if op == "<<" else a >> b, name)
    name = common(one, other)
    a, b = convert(a, name), convert(b, name)
    if op in ("==", "!=", "<", ">", "<=", ">="):
        return "bool", int(eval(f"a {op} b"))
    if op in ("min", "max"):
        return name, min(a, b) if op == "min" else max(a, b)
    if op in "/%":
        if b == 0:
            raise OutOfRangeError
        # Without a quotient there is no remainder, either (C++, [expr.mul]). On PoCL the smallest int % -1 ends the process.
        quotient = checked(abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1), name)
        return name, quotient if op == "/" else a - b * quotient
    return name, checked(eval(f"a {op} b"), name)


def written(tree):
    kind, *parts = tree
    if kind == "variable":
        return parts[0]
    if kind == "literal":
        return parts[2]
    if kind == "cast":
        return f"({parts[0]})({written(parts[1])})"
    if kind == "unary":
        return f"{parts[0]}({written(parts[1])})"
    if kind == "choice":
        return "(({}) ? ({}) : ({}))".format(*map(written, parts))
    if parts[0] in ("min", "max"):
        return f"{parts[0]}({written(parts[1])}, {written(parts[2])})"
    return f"({written(parts[1])} {parts[0]} {written(parts[2])})"


AT_ONCE = 24  # expressions in one program: compiling takes the time
OPERATORS = "+ - * / % & | ^ << >> == != < > <= >= && || min max"
literals = st.one_of(
    st.integers(0, 100).map(lambda n: ("literal", n, "int", str(n))),
    st.integers(0, 255).map(lambda n: ("literal", n, "unsigned int", f"{n:#x}u")),
    st.integers(0, 1 << 40).map(lambda n: ("literal", n, "long long", f"{n}LL")),
    st.just(("literal", 97, "char", "'a'")),
    st.just(("literal", 1, "bool", "true")),
)
trees = st.recursive(
    st.one_of(st.sampled_from(list(VARIABLES)).map(lambda name: ("variable", name)), literals),
    lambda inner: st.one_of(
        st.tuples(st.just("unary"), st.sampled_from("-~!+"), inner),
        st.tuples(st.just("cast"), st.sampled_from(list(TYPES)), inner),
        st.tuples(st.just("choice"), inner, inner, inner),
        st.tuples(
            st.just("binary"),
            st.sampled_from(OPERATORS.split()),
            inner,
            inner,
        ),
    ),
    max_leaves=8,
)
values_of = st.fixed_dictionaries({
    name: st.one_of(
        st.integers(-(1 << (TYPES[kind][0] - 1)) if TYPES[kind][1] else 0, (1 << (TYPES[kind][0] - TYPES[kind][1])) - 1),
        st.integers(0, min(9, (1 << (TYPES[kind][0] - TYPES[kind][1])) - 1)),
    )
    for name, kind in VARIABLES.items()
})  # fmt: skip


@pytest.mark.parametrize("op", "/%")
@pytest.mark.parametrize("name", ["int", "long long"])
def test_the_smallest_integer_is_not_divided_by_minus_one(name, op):
    variable = next(each for each, kind in VARIABLES.items() if kind == name)
    smallest, minus_one = -(1 << (TYPES[name][0] - 1)), ("unary", "-", ("literal", 1, "int", "1"))
    with pytest.raises(OutOfRangeError):
        evaluated(("binary", op, ("variable", variable), minus_one), {variable: smallest})
    assert evaluated(("binary", op, ("variable", variable), minus_one), {variable: -7}) == (name, 7 if op == "/" else 0)


@pytest.mark.long
@pytest.mark.needs("a compiler of its own")
@pytest.mark.executes(run=False)  # what differs each time is an error of hypothesis
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(expressions=st.lists(trees, min_size=AT_ONCE, max_size=AT_ONCE), values=values_of)
def test_integer_expressions(compiled, expressions, values):
    wanted = {}
    for tree in expressions:
        try:
            wanted[written(tree)] = evaluated(tree, values)
        except OutOfRangeError:
            continue
    assume(wanted)
    lines = "\n".join(
        f"out[{index}] = {text}; out[{index + AT_ONCE}] = sizeof({text});" for index, text in enumerate(wanted)
    )
    parameters = ", ".join(f"{kind} {name}" for name, kind in VARIABLES.items())
    program = compiled(f"__global__ void k(long long* out, {parameters}) {{\n{lines}\n}}")
    out = np.zeros(2 * AT_ONCE, "i8")
    program.run("k", 1, 1, out, *(values[name] for name in VARIABLES))
    for index, (text, (name, value)) in enumerate(wanted.items()):
        assert out[index] == convert(value, "long long"), text
        assert out[index + AT_ONCE] == max(TYPES[name][0] // 8, 1), text
