"""Every example of docs/hip-kernels.md, translated, built and run or refused."""

import re

import numpy as np
import pytest

from forebay.hip_cpp import RefusedError, translate
from tests.helpers.processes import ROOT

PAGE = (ROOT / "docs" / "hip-kernels.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| ((?:[^|\\]|\\.)+) \| `((?:[^`|\\]|\\.)+)` \| `?((?:[^|`\\]|\\.)+)`? \|$", re.MULTILINE)


def rows(title):
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    found = [[cell.replace("\\|", "|") for cell in row] for row in ROW.findall(section)]
    assert len(found) == section.count("\n|") - 2  # the head and the line below it are no rows
    return [pytest.param(*row[1:], id=row[0], marks=marks_of(row[1])) for row in found]


def marks_of(example):
    long = any(word in example for word in ("64 bits", "ull*", "long long*"))
    return [pytest.mark.needs("atomics on 64 bits")] if long else []


def program_of(example):
    example = example.replace("⏎", "\n")
    whole = "__global__" in example or "main()" in example
    return example if whole else f"__global__ void k(float* x, int* n, float4* v) {{\n{example}\n}}"


def flat(text):
    return " ".join(re.sub(r"#line.*", "", text).split())


@pytest.mark.executes
@pytest.mark.parametrize(("example", "becomes"), rows("What is in the subset"))
def test_what_is_in_the_subset(build, example, becomes):
    program = build(program_of(example))
    assert flat(becomes) in flat(program.translation.text)
    (info,) = program.kernels.values()
    arguments = [np.ones(64, "f4").view("u1") if p.kind == "pointer" else 1 for p in info.parameters]
    if "P q" in example:
        arguments[1] = np.array((1, (2, 3, 4)), [("a", "i4"), ("b", "f4", 3)])
    program.run("k", 1, 1, *arguments, shared=64)


@pytest.mark.parametrize(("example", "words"), rows("What is refused"))
def test_what_is_refused(example, words):
    with pytest.raises(RefusedError) as caught:
        translate(program_of(example))
    assert words in caught.value.what
    assert caught.value.line >= 1
