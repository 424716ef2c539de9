"""Programs without kernels."""

import numpy as np
import pytest

import forebay as fb

pytestmark = pytest.mark.needs("a compiler of its own", "SPIR-V")


@pytest.mark.executes
def test_a_program_of_variables_alone_is_one(compiled):
    program = compiled("__device__ int v = 5; __device__ float w[3]; __constant__ double c = 2.5;")
    assert program.variable("v", "i4").get().tolist() == [5]
    assert program.variable("c", "f8").get().tolist() == [2.5]
    numbers = program.variable("w", "f4")
    numbers.set(np.arange(3, dtype="f4"))
    assert numbers.get().tolist() == [0, 1, 2]


@pytest.mark.parametrize("source", ["", "int main() { return 0; }", "template <class T> __global__ void k(T* x) { }"])
def test_a_program_of_nothing_is_refused(compiled, source):
    with pytest.raises(fb.BuildError, match="no kernel"):
        compiled(source)


def test_what_was_left_out_is_told_when_nothing_remains(compiled):
    with pytest.raises(fb.BuildError) as caught:
        compiled("int main() { return unknown(); }")
    assert "program.hip:1:21: warning: a statement of the host is left out: use of undeclared" in caught.value.log
    assert "no kernel" in caught.value.log
