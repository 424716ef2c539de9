"""What CUDA's driver is given for a program."""

from types import SimpleNamespace

import numpy as np
import pytest

from forebay.compiler.by_driver import compile_by_driver
from forebay.compiler.program import DriverSource, Source
from forebay.core.driver import Language
from forebay.core.errors import InvalidArgumentError
from forebay.cupy_style import ElementwiseKernel, ReductionKernel
from forebay.expressions.sources import FULL, NUMBER, RAW, Typed
from forebay.queues.cuda.nvrtc import MAGIC, without_facts
from forebay.queues.cuda.programs import build_image
from tests.inside import source_in_cpp

pytestmark = pytest.mark.needs("no device of another driver than CUDA")

SOURCE = """
__device__ int count;
__constant__ float table[2];
__global__ void scale(const float *x, double *y, int n, float4 v, char c) {
    extern __shared__ float words[];
    y[count] = x[n] + words[threadIdx.x] + table[n] + v.x + c;
}
extern "C" __global__ void __block_size__((32, 1, 1)) plain(unsigned long long n, long long *out) { *out = n; }
"""
PTX = """
.version 8.0
.target sm_90
.address_size 64
.global .align 4 .u32 count;
.global .align 1 .b8 $str[3] = {37, 100};
.visible .entry plain(.param .u64 plain_param_0, .param .u64 plain_param_1, .param .f32 plain_param_2,
  .param .align 4 .b8 plain_param_3[12])
.reqntid 32, 1, 1
{
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [plain_param_0];
  ld.param.u64 %rd2, [plain_param_1];
  cvta.to.global.u64 %rd3, %rd2;
  st.global.u64 [%rd3], %rd1;
  ret;
}
"""


def parameters(kernel):
    return [(each.name, each.kind, each.code, each.nbytes, each.read_only) for each in kernel.parameters]


@pytest.fixture
def code(nvrtc):
    return nvrtc.compile(DriverSource(SOURCE, "a.cu", {}, [])).code


def test_a_cubin_with_its_types(code, info):
    image = build_image(info, Language.CUBIN, code, ())
    scale, plain = image.kernels
    assert (scale.name, scale.symbol) == ("scale", "_Z5scalePKfPdi6float4c")
    assert parameters(scale) == [
        ("x", "pointer", "", 8, True), ("y", "pointer", "", 8, False), ("n", "value", "i", 4, False),
        ("v", "value", "V", 16, False), ("c", "value", "b", 1, False), ("dynamic_shared", "local", "L", 8, False),
    ]  # fmt: skip
    assert [each.dtype for each in scale.parameters[:2]] == ["f4", "f8"]
    assert (scale.dynamic_shared, scale.local_alignments) == (True, (16,))
    assert (plain.dynamic_shared, plain.required_block) == (False, (32, 1, 1))
    assert image.variables == {"count": "count", "table": "table"}
    assert image.code == without_facts(code)[0]
    assert MAGIC not in image.code, "the driver gets the machine code alone"


def test_a_cubin_without_them(code, info):
    """The sizes are known, from the machine code."""
    cubin, *_ = without_facts(code)
    image = build_image(info, Language.CUBIN, cubin, ())
    kernels = {each.name: each for each in image.kernels}
    assert [(each.kind, each.nbytes) for each in kernels["_Z5scalePKfPdi6float4c"].parameters] == [
        ("pointer", 8), ("pointer", 8), ("value", 4), ("value", 16), ("value", 1),
    ]  # fmt: skip
    assert kernels["plain"].required_block == (32, 1, 1)
    assert image.code == cubin


@pytest.mark.parametrize("kept", [0.999, 0.5, 0.1])
def test_a_cubin_that_is_cut_short(code, info, kept):
    cubin, *_ = without_facts(code)
    with pytest.raises(InvalidArgumentError):
        build_image(info, Language.CUBIN, cubin[: int(len(cubin) * kept)], ())


def test_facts_that_are_damaged(code, info):
    with pytest.raises(InvalidArgumentError, match="damaged"):
        build_image(info, Language.CUBIN, code.replace(b'"scale"', b'"scale '), ())


@pytest.mark.parametrize("form", [str, str.encode])
def test_ptx(info, form):
    image = build_image(info, Language.PTX, form(PTX), ())
    assert image.code == PTX.encode() + b"\0"
    (plain,) = image.kernels
    assert parameters(plain) == [
        ("param_0", "pointer", "", 8, False), ("param_1", "pointer", "", 8, False), ("param_2", "value", "f", 4, False),
        ("param_3", "value", "V", 12, False),
    ]  # fmt: skip
    assert plain.required_block == (32, 1, 1)
    assert image.variables == {"count": "count"}


# Kernels made from expressions in C++, as CUDA's compiler takes them


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
    program = compile_by_driver(nvrtc, Source(source_of(made, dtype, ways)))
    kernels = {kernel.name: kernel for kernel in program.kernels}
    names = ["mixed_elements"] if made is MIXED else ["norm_group", "norm_last", "norm_partial"]
    assert sorted(kernels) == names
    assert [each.type_name for each in kernels[names[0]].parameters] == parameters.split()
