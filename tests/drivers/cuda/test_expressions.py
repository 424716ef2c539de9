"""Kernels made from expressions in C++, as CUDA's compiler takes them."""

from types import SimpleNamespace

import numpy as np
import pytest

from forebay.cupy_style import ElementwiseKernel, ReductionKernel
from forebay.expressions.sources import FULL, NUMBER, RAW, Typed
from forebay.hiprtc.driver_compiler import compile_cpp
from forebay.hiprtc.options import split_options
from tests.inside import source_in_cpp

pytestmark = pytest.mark.needs("no device of another driver than CUDA")

GPU = SimpleNamespace(info=SimpleNamespace(kind="gpu"))
MIXED = ElementwiseKernel(
    "T x, raw T t, T a", "T z, bool last", "z = a * x + t[_ind.size() - 1 - i]; last = _ind.get() == n - 1", "mixed",
    loop_prep="T nothing = 0;", after_loop="(void)nothing;",
)  # fmt: skip
NORM = ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "norm")


def source_of(made, dtype, ways):
    every = (*made.in_params, *made.out_params)
    typed = [Typed(each, each.dtype or np.dtype(dtype), way) for each, way in zip(every, ways, strict=True)]
    return source_in_cpp(made, GPU, {"T": np.dtype(dtype)}, typed)


@pytest.mark.parametrize(
    ("made", "dtype", "ways", "parameters"),
    [
        (MIXED, "f2", (FULL, RAW, NUMBER, FULL, FULL), "half* half* float half* uchar* long long"),
        (NORM, "f8", (FULL, FULL), "double* long double*"),
    ],
)
def test_they_compile(nvrtc, made, dtype, ways, parameters):
    program = compile_cpp(nvrtc, source_of(made, dtype, ways), "program.hip", {}, split_options(()), ())
    kernels = {kernel.name: kernel for kernel in program.kernels}
    names = ["mixed_elements"] if made is MIXED else ["norm_group", "norm_last", "norm_partial"]
    assert sorted(kernels) == names
    assert [each.type_name for each in kernels[names[0]].parameters] == parameters.split()
