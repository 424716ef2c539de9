"""Headers that have several names, libraries of the host, and programs with their host functions."""

import string

import numpy as np
import pytest

from forebay.compiler.clang import INCLUDE
from forebay.compiler.header_names import names
from tests.helpers.device_data import device_data
from tests.hiprtc.results.tables import Calls, call_differences

pytestmark = pytest.mark.needs("a compiler of its own", "SPIR-V")

WHOLE = """
#include <iostream>
#include <sstream>
#include <vector>
#include <cuda_runtime.h>
#include <cudnn.h>
#define CHECK(x) do { cudaError_t e = (x); if (e) { std::cerr << cudaGetErrorString(e) << std::endl; exit(1); } } while (0)

template <class T> __global__ void count(T* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = (T)(3 * i);
}
__global__ void plain(int* out) { out[threadIdx.x] = threadIdx.x + 7; }

int main(int argc, char** argv) {
    int n = argc > 1 ? atoi(argv[1]) : 100;
    std::vector<int> host(n);
    int* out;
    CHECK(cudaMalloc(&out, n * sizeof(int)));
    cudaEvent_t start, stop;
    cudaEventCreate(&start); cudaEventCreate(&stop); cudaEventRecord(start);
    cudaMemset(out, 0, n * sizeof(int));
    count<int><<<(n + 255) / 256, 256>>>(out, n);
    plain<<<dim3(1), dim3(32), 0, 0>>>(out);
    cudaEventRecord(stop); cudaEventSynchronize(stop);
    CHECK(cudaMemcpy(host.data(), out, n * sizeof(int), cudaMemcpyDeviceToHost));
    std::cout << "first " << host[0] << std::endl;
    cudaFree(out); cudaDeviceReset();
}
"""


def test_all_headers_compile_together(compiled):
    """By each of their names, and each twice, as files that include each other do."""
    files = {str(path.relative_to(INCLUDE)) for path in INCLUDE.rglob("*") if path.is_file()}
    assert files >= set(names().values())
    given = [name.removeprefix("cuda/") for name in (*names(), *sorted(files))]
    included = "\n".join(f"#include <{name}>" for name in (*given, *reversed(given)))
    out = np.zeros(1, "i4")
    compiled(f'{included}\nextern "C" __global__ void k(int* out) {{ out[0] = 5; }}').run("k", 1, 1, out)
    assert device_data(out[0]) == 5


@pytest.mark.parametrize("header", [
    "cub/cub.cuh", "curand_kernel.h", "hipcub/hipcub.hpp", "hiprand/hiprand_kernel.h", "mma.h", "rocprim/rocprim.hpp",
])  # fmt: skip
def test_macros_of_one_letter_are_the_programs(compiled, header):
    """They stand before the headers, and are what they were behind them."""
    letters = "".join(f"#define {letter} {number}\n" for number, letter in enumerate(string.ascii_uppercase))
    total = " + ".join(string.ascii_uppercase)
    built = compiled(f"{letters}#include <{header}>\n__global__ void k(int* out) {{ out[0] = {total}; }}")
    out = np.zeros(1, "i4")
    built.run("k", 1, 1, out)
    assert device_data(out[0]) == sum(range(26))


def test_a_program_with_its_host_functions(compiled):
    """Clang reads them, with launches, and leaves them out."""
    built = compiled(WHOLE, names=["count<int>"])
    out = np.zeros(100, "i4")
    built.run("count<int>", 1, 128, out, np.int32(100))
    assert np.array_equal(device_data(out), 3 * np.arange(100))
    built.run("plain", 1, 32, out)
    assert np.array_equal(device_data(out[:32]), np.arange(32) + 7)


OWN = """
#include <cutil.h>
inline __host__ __device__ int rows(const cudaFuncAttributes& of, const cudaDeviceProp& on) {
    return of.numRegs < on.regsPerMultiprocessor ? on.maxThreadsPerBlock : (int)of.sharedSizeBytes;
}
__device__ inline unsigned umin(unsigned a, unsigned b) { return 100 + min(a, b); }
__device__ inline uint4 __shfl(const uint4 v, unsigned lane, unsigned width) {
    return make_uint4(__shfl((int)v.x, lane, width), 1, 2, 3);
}
extern "C" __global__ void k(int* out) {
    int i = threadIdx.x, n = blockDim.x;
    out[i] = __shfl(make_uint4(i, 0, 0, 0), 3u, 32u).x;
    CUT_BANK_CHECKER(out, n + i) = umin(3, i) + umax(3, i);
    cooperative_groups::this_thread().sync();
    out[2 * n + i] = cooperative_groups::this_thread().size() * 10 + (int)cooperative_groups::this_thread().thread_rank();
    out[3 * n + i] = __shfl_up_sync(~0u, i, 2ull, 8) + 100 * __shfl_down(i, (short)1) + 10000 * __shfl_xor(i, 1u, 4l);
}
"""


def test_a_program_with_functions_that_only_cuda_names(compiled):
    """HIP has no `umin`, so programs for both bring one; a shuffle of theirs takes what vectors are made of."""
    out, i = np.zeros((4, 32), "i4"), np.arange(32)
    compiled(OWN).run("k", 1, 32, out)
    assert np.array_equal(device_data(out[0]), np.full(32, 3))
    assert np.array_equal(device_data(out[1]), 100 + np.minimum(3, i) + np.maximum(3, i))
    assert np.array_equal(device_data(out[2]), np.full(32, 10))
    assert np.array_equal(device_data(out[3]), i - 2 * (i % 8 > 1) + 100 * np.minimum(i + 1, 31) + 10000 * (i ^ 1))


def test_names_that_the_library_of_cpp_has_too(compiled):
    """Programs that are `using namespace std` call functions of HIP as `std` has them inside: `__all`."""
    headers = ["valarray", "algorithm", "array", "bitset", "cmath", "complex", "functional", "iostream", "map", "string",
               "tuple", "variant"]  # fmt: skip
    calls = (
        "__all(x) + __any(x) + __all_sync(~0u, x) + (int)__ballot(x) + __popc(x) + __clz(x) + __ffs(x) + __mul24(x, x)"
    )
    kernel = f"using namespace std;\n__global__ void k(int* out) {{ int x = out[0]; out[1] = {calls}; }}"
    compiled("\n".join([*(f"#include <{name}>" for name in headers), kernel]))


# Functions that AMD's headers lack, by (result and parameters): programs written for both bring their own.
OF_CUDA = {
    "unsigned {}(unsigned x, unsigned)": "__vcmpeq4 __vcmpne4 __vsub4 __vsubss4 __vadd4 __vmaxu2 __vmins2 __vsetgtu4 __vsads4",
    "unsigned {}(unsigned x)": "__vneg2 __vabs4 __vabsss2",
    "int {}(int x, int, int)": "__dp4a __dp2a_lo __vimax3_s32 __viaddmin_s32",
    "int {}(float x)": "__finitef __isnanf __signbitf",
}


@pytest.mark.parametrize("begins", ["static __device__ __forceinline__", "__device__", 'extern "C" __device__'])
def test_functions_of_a_program_go_before_those_that_only_cuda_has(compiled, begins):
    own, calls = [], []
    for declared, names_of in OF_CUDA.items():
        for name in names_of.split():
            own.append(f"{begins} {declared.format(name)} {{ return x + {len(calls)}; }}")
            calls.append(f"out[{len(calls)}] = {name}({', '.join(['out[30]', *['1'] * declared.count(',')])});")
    out = np.zeros(31, "i4")
    out[30] = 5
    source = f'{" ".join(own)}\nextern "C" __global__ void k(int* out) {{ {" ".join(calls)} }}'
    compiled(source).run("k", 1, 1, out)
    assert np.array_equal(device_data(out[: len(calls)]), 5 + np.arange(len(calls)))


def test_functions_of_vectors_are_found_from_a_namespace(compiled):
    """By argument-dependent lookup: the types are of the global namespace, as in CUDA and HIP."""
    source = """
        __device__ inline float dot(float3 a, float3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
        __device__ inline int dot(HIP_vector_type<int, 2> a, int2 b) { return a.x * b.x + a.y * b.y; }
        namespace n {
        struct pair { float x, y; };
        __device__ inline float dot(pair a, pair b) { return a.x * b.x + a.y * b.y; }
        __device__ inline float3 operator*(pair a, float3 b) { return float3(a.x * b.x, a.y * b.y, 0); }
        extern "C" __global__ void k(float* out) {
            out[0] = dot(float3(1, 2, 3), float3(4, 5, 6));
            out[1] = dot(pair{2, 3}, pair{4, 5});
            out[2] = dot(int2(2, 3), int2(5, 7));
            out[3] = (pair{2, 3} * float3(7, 8, 9) + float3(1, 1, 1) * 2.0f).y;
        }
        }"""
    out = np.zeros(4, "f4")
    compiled(source).run("k", 1, 1, out)
    assert device_data(out).tolist() == [32, 23, 31, 26]


@pytest.mark.parametrize(("compilers", "expected"), [
    ("", [1, 1, 600]),  # one of CUDA's, that asks which compiler it has
    ("// hipify made this\n", [0, 0, 0]),
    ("#if defined(__HIPCC__)\n#define HIPCC 1\n#endif\n", [0, 0, 0]),
    ("// ownership of friendship\nenum { LEFT_HIP_JOINT, HIPS };\n", [1, 1, 600]),
    ("#ifdef USE_HIP\n#endif\n", [0, 0, 0]),
])  # fmt: skip
@pytest.mark.parametrize("is_in_header", [False, True])
def test_macros_of_a_compiler_are_of_the_language(compiled, compilers, expected, is_in_header, tmp_path):
    source = f"""{compilers}
        #ifdef __CUDACC__
        static __device__ __forceinline__ int one() {{ return 1; }}
        #else
        static __device__ __forceinline__ int one() {{ return 0; }}
        #endif
        #ifdef __NVCC__
        #define NVCC 1
        #endif
        extern "C" __global__ void k(int* out) {{
            out[0] = one();
        #ifdef NVCC
            out[1] = 1;
        #endif
        #ifdef __CUDA_ARCH__
            out[2] = __CUDA_ARCH__;
        #endif
        }}"""
    if is_in_header:
        (tmp_path / "own.h").write_text(source)
        source = "#include <own.h>\n"
    out = np.zeros(3, "i4")
    compiled(source, [f"-I{tmp_path}"]).run("k", 1, 1, out)
    assert device_data(out).tolist() == expected


# Functions of vectors by the names of CUDA's samples: rows of calls, and what NumPy says of them


N = 32
A, B = (np.random.default_rng(seed).random((N, 3), "f4") + np.float32(0.01) for seed in (11, 12))
X, Y, I = A.astype("f8"), B.astype("f8"), np.arange(N)  # noqa: E741
DOT, LENGTH, LEAST = (X * Y).sum(1), np.sqrt((X * X).sum(1)), np.float32(0.1)
BEGIN = "int3 p = make_int3(i % 32, 7, 9); float3 u = ((const float3*)a_)[p.x], v = ((const float3*)b_)[p.x];"
VECTORS = {
    "cross(u, v)": np.cross(X, Y), "normalize(u)": X / LENGTH[:, None], "lerp(u, v, 0.25f)": X + 0.25 * (Y - X),
    "reflect(u, v)": X - 2 * Y * DOT[:, None], "clamp(u, 0.25f, 0.5f)": np.clip(X, 0.25, 0.5),
    "clamp(u, make_float3(0.1f), v)": np.where(X < LEAST, LEAST, np.where(Y < X, Y, X)), "fminf(u, v)": np.minimum(X, Y),
    "fmaxf(u, v)": np.maximum(X, Y), "floorf(u * 5)": np.floor(A * 5), "fracf(u * 5)": (A * 5) % 1, "fabs(u - v)": abs(X - Y),
    "make_float3(make_float4(u, 3))": X, "make_float3(make_int3(u * 9))": np.trunc(A * 9),
    "smoothstep(u * 0, u * 0 + 1, v)": np.clip(Y, 0, 1) ** 2 * (3 - 2 * np.clip(Y, 0, 1)),
}  # fmt: skip
NUMBERS = {
    "dot(u, v)": DOT, "length(u)": LENGTH, "lerp(u.x, v.x, 0.5f) + clamp(u.y, 0.25f, 0.5f)": (X[:, 0] + Y[:, 0]) / 2 + np.clip(X[:, 1], 0.25, 0.5),
    "dot(make_float4(u, 2), make_float4(v, 3)) + length(make_float2(u)) + make_float4(u).w": DOT + 6 + np.hypot(X[:, 0], X[:, 1]),
    "dot(p, make_int3(2)) + clamp(p.x, 3, 9) + max(p, make_int3(8)).x": 2 * I + 32 + np.clip(I, 3, 9) + np.maximum(I, 8),
    "abs(make_int2(-p.x, p.x)).x + dot(make_uint2(3u), make_uint2(p.x, p.y))": 4 * I + 21,
    **{f"({call}).{axis}": values[:, at] for call, values in VECTORS.items() for at, axis in enumerate("xyz")},
}  # fmt: skip


@pytest.mark.needs("a compiler of its own", "SPIR-V")
@pytest.mark.parametrize("header", ["helper_math.h", "cutil_math.h"])
def test_vectors(device, queue, header):
    rows = {call: lambda *_, values=values: np.resize(values, 3 * N) for call, values in NUMBERS.items()}
    given = {"a": A.ravel(), "b": B.ravel()}
    table = Calls(rows, "f4", given, f"#include <{header}>\n", BEGIN, N, rtol=2e-6, atol=2e-6)
    assert device_data(call_differences(device, queue, [table])) == []
