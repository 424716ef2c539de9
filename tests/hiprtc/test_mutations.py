"""Programs with something wrong in them: translated or refused, whatever it is, and nothing else."""

import contextlib
import inspect
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.hip_cpp import RefusedError, translate

from . import test_kernels, test_language
from .test_table import rows

PROGRAMS = [
    program
    for module in (test_kernels, test_language)
    for program in re.findall(r'"""\n(.*?)"""', inspect.getsource(module), re.DOTALL)
    if "__global__" in program
]
PROGRAMS += [row.values[0] for title in ("What is in the subset", "What is refused") for row in rows(title)]
PIECE = re.compile(r"\w+|\s+|.", re.DOTALL)
POOL = [
    "(", ")", "{", "}", "[", "]", "<", ">", "*", "&", ",", ";", "=", "+", "-", "0", "1.5f", "x", "n", "int", "float", "void",
    "auto", "const", "float3", "float4", "struct", "template", "return", "for", "__shared__", "__device__", "__global__",
    "sizeof", "nullptr", "threadIdx", "min", "printf", "atomicAdd", '"s"', "'c'", "::", ".", "->", "?", ":", "~", "!", "#",
    "extern", "enum", "case", "typedef", "using", "static_cast", "make_float3", "{}", "++", "+=", "bool", "k",
]  # fmt: skip


@st.composite
def broken_programs(draw):
    pieces = PIECE.findall(draw(st.sampled_from(PROGRAMS)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(pieces) - 1))
        change = draw(st.sampled_from(["drop", "replace", "insert", "repeat", "swap"]))
        if change == "drop":
            del pieces[at : at + draw(st.integers(1, 3))]
            pieces = pieces or [" "]
        elif change == "replace":
            pieces[at] = f" {draw(st.sampled_from(POOL))} "
        elif change == "insert":
            pieces.insert(at, f" {draw(st.sampled_from(POOL))} ")
        elif change == "repeat":
            pieces.insert(at, pieces[at])
        else:
            other = draw(st.integers(0, len(pieces) - 1))
            pieces[at], pieces[other] = pieces[other], pieces[at]
    return "".join(pieces)


@settings(max_examples=300)
@given(broken_programs())
def test_a_broken_program_is_translated_or_refused(source):
    with contextlib.suppress(RefusedError):
        text = translate(source).text
        assert "\2" not in text
        assert "\3" not in text
