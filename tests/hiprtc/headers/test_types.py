"""Vector types, halves, bfloat16, complex numbers; printing; old names; what is refused."""

import re

import numpy as np
import pytest

from forebay.core.errors import BuildError
from tests.helpers import processes
from tests.helpers.device_data import device_data
from tests.hiprtc.results.tables import case, kernel_differences

pytestmark = pytest.mark.needs("a compiler of its own", "a compiler of HIP C++", "doubles", "halves")

SIZES = {"char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "long": 8, "ulong": 8, "longlong": 8,
         "ulonglong": 8, "float": 4, "double": 8}  # fmt: skip


def test_layout_of_vectors(compiled):
    """As HIP has them: three are not padded, two and four are aligned to all of them."""
    checks = "".join(
        f"static_assert(sizeof({name}{n}) == {size * n} && alignof({name}{n}) == {size if n == 3 else size * n});\n"
        for name, size in SIZES.items()
        for n in (1, 2, 3, 4)
    )
    checks += "static_assert(sizeof(uchar) == 1 && sizeof(ushort) == 2 && sizeof(uint) == 4 && sizeof(ullong) == 8);"
    compiled(checks + 'static_assert(sizeof(dim3) == 12); extern "C" __global__ void k(int*) {}')


def test_complex(compiled):
    source = """
        #include <cuComplex.h>
        #include <thrust/complex.h>
        extern "C" __global__ void all(const hipFloatComplex* x, const float2* y, cuComplex* out, double2* wide,
                                       const std::complex<double>* z, complex<float>* t) {
            int i = threadIdx.x; cuComplex* o = out + 5 * i;
            o[0] = hipCmulf(x[i], y[i]); o[1] = cuCdivf(x[i], y[i]); o[2] = hipCfmaf(x[i], y[i], x[i]);
            o[3] = make_cuComplex(cuCabsf(x[i]), hipCrealf(y[i])); o[4] = x[i] + hipConjf(y[i]);
            std::complex<double> w = std::exp(z[i]) * std::conj(z[i]) / (z[i] + 2.0) + std::abs(z[i]); wide[i] = make_double2(w.real(), w.imag());
            thrust::complex<float> c(x[i].x, x[i].y); t[i] = exp(c) / (c + 1.0f) * conj(c);
        }"""
    rng = np.random.default_rng(6)
    x, y = ((rng.normal(size=64) + 1j * rng.normal(size=64)).astype("c8") for _ in range(2))
    z = rng.normal(size=64) + 1j * rng.normal(size=64)
    out, wide, t = np.zeros((64, 5), "c8"), np.zeros(64, "c16"), np.zeros(64, "c8")
    views = x.view("f4"), y.view("f4"), out.view("f4"), wide.view("f8"), z.view("f8"), t.view("f4")
    compiled(source).run("all", 1, 64, *views)
    expected = [x * y, x / y, x * y + x, np.abs(x) + 1j * y.real, x + np.conj(y)]
    assert np.allclose(device_data(out), np.stack(expected, 1), rtol=1e-4, atol=1e-5)
    assert np.allclose(device_data(wide), np.exp(z) * z.conj() / (z + 2) + abs(z))
    assert np.allclose(device_data(t), np.exp(x) / (x + 1) * np.conj(x), rtol=1e-4, atol=1e-5)


def test_old_names_and_memory(compiled):
    source = """
        #include "hip/hip_runtime.h"
        extern "C" __global__ __launch_bounds__(64, 2) void all(int* out, const float* __restrict__ x, float* y) {
            HIP_DYNAMIC_SHARED(float, s)
            int i = hipThreadIdx_x + hipBlockIdx_x * hipBlockDim_x;
            s[hipThreadIdx_x] = __ldg(&x[i]); __syncthreads(); __threadfence(); __threadfence_block();
            y[i] = s[hipBlockDim_x - 1 - hipThreadIdx_x];
            long long from = clock64(); out[i] = clock64() >= from && hipGridDim_x == 2;
            char copy[12]; memcpy(copy, &x[i], 4); memset(copy + 4, 1, 8); int n; memcpy(&n, copy + 4, 4); out[i] += n;
        }"""
    x, y, out = np.arange(64, dtype="f4"), np.zeros(64, "f4"), np.zeros(64, "i4")
    compiled(source).run("all", 2, 32, out, x, y, shared=128)
    assert np.array_equal(device_data(y), x.reshape(2, 32)[:, ::-1].ravel())
    assert (device_data(out) == 0x01010101 + 1).all()


@pytest.mark.executes
def test_printing(compiled, device, tmp_path):
    """In a process of its own, whose output is read when it has ended. On CUDA an assertion that fails ends the
    context: tests/drivers/cuda/test_ended.py.
    """
    fails = device.info.backend != "cuda"
    program = tmp_path / "printing.py"
    program.write_text(
        """
import forebay as fb
device = fb.Device()
program = device.program('''
    #include <cassert>
    extern "C" __global__ void say(int n, float x) {
        printf("plain\\\\n"); printf("%d %.2f %s %c %llu\\\\n", n + threadIdx.x, x, "text", 'c', 1ull << 40);
        assert(threadIdx.x < MOST && "too many"); if (n == 3) std::printf("%5.1e|%%\\\\n", 2.0);
    }''')
device.null_queue.launch(program["say"], 1, 2, 3, 1.5)
device.finish()
""".replace("MOST", "1" if fails else "2")
    )
    lines = processes.output_of(program, timeout=100, FOREBAY_DEVICE=device.name).splitlines()
    assert lines.count("plain") == 2
    assert "3 1.50 text c 1099511627776" in lines
    assert "4 1.50 text c 1099511627776" in lines
    assert lines.count("2.0e+00|%") == 2
    failed = [line for line in lines if "assertion" in line]
    assert len(failed) == fails
    pattern = r":5: block \(0, 0, 0\), thread \(1, 0, 0\): assertion `.*too many.*' failed"
    assert all(re.search(pattern, line) for line in failed)


REFUSED = {
    "float3 v = tex2D<float3>(t, 1, 2); out[0] = v.x;": "1, 2 or 4 channels",
    "out[0] = tex2D<double>(t, 1, 2);": "of at most 32 bits",
    "out[0] = tex2Dgather<float>(t, 1, 2);": "a vector of four",
    "cooperative_groups::tiled_partition<64>(cooperative_groups::this_thread_block()).sync();": "a tile has 1, 2, 4",
    "char c[3]; atomicAdd((char (*)[3])out, 1);": "error:",
}


@pytest.mark.needs("SPIR-V")
@pytest.mark.parametrize("statement", REFUSED)
def test_refused_with_the_line(compiled, statement):
    source = f"""extern "C" __global__ void k(float* out, hipTextureObject_t t, int n, int** where) {{
        {statement}
    }}"""
    with pytest.raises(BuildError) as caught:
        compiled(source)
    assert REFUSED[statement] in caught.value.log
    assert "program.hip:2:" in caught.value.log
    assert "^" in caught.value.log


def test_headers_warn_of_nothing(compiled):
    program = compiled(
        '#include <hip/hip_runtime.h>\nextern "C" __global__ void k(float* x) { x[0] = sinf(__shfl(x[1], 2)); }',
        ["-Wall", "-Wextra"],
    )
    assert program.made.log == ""


FUNCTIONS = (
    "sin", "cos", "tan", "exp", "log", "sqrt", "rsqrt", "cbrt", "floor", "ceil", "rint", "trunc", "round", "fabs", "erf", "erfc",
    "sinh", "cosh", "tanh", "exp2", "exp10", "log2", "log10", "asinh", "atan", "expm1", "log1p", "sinpi", "cospi", "tgamma",
)  # fmt: skip


@pytest.mark.parametrize("others", [0, 17, *(pytest.param(each, marks=pytest.mark.long) for each in (9, 26))])
def test_numbers_in_instructions_are_no_names(device, queue, others):
    """``extern __shared__`` becomes a parameter; numbers of functions that equal its id in the module stay."""
    source = f"""
        {"".join(f"__device__ int variable{n};" for n in range(others))}
        __global__ void k(float* x, int* n) {{
            extern __shared__ float own[];
            own[threadIdx.x] = x[threadIdx.x]; __syncthreads();
            float v = own[threadIdx.x];
            x[threadIdx.x] = {" + ".join(f"{call}f(v)" for call in FUNCTIONS)};
            n[0] = 0 {"".join(f" + variable{n}" for n in range(others))};
        }}"""
    launch = case(source, 1, 32, np.linspace(0.5, 1.5, 32).astype("f4"), np.ones(1, "i4"), shared=128)
    assert device_data(kernel_differences(device, queue, {"functions": launch})) == []
