"""Headers that have several names, libraries of the host, and programs with their host functions."""

import numpy as np
import pytest

from forebay.hiprtc.clang import INCLUDE
from forebay.hiprtc.header_names import names
from tests.helpers.device_data import device_data

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
    headers = ["algorithm", "array", "bitset", "cmath", "complex", "functional", "iostream", "map", "string", "tuple",
               "variant"]  # fmt: skip
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


def test_short_names_of_integers(compiled):
    source = """extern "C" __global__ void k(uchar* a, ullong* b, ushort* c, uint* d, ulong* e) {
        static_assert(sizeof(uchar) == 1 && sizeof(ushort) == 2 && sizeof(ullong) == 8);
        *b = *a + *c + *d + *e; }"""
    out = np.zeros(1, "u8")
    compiled(source).run("k", 1, 1, *[np.array([n], t) for n, t in ((250, "u1"),)], out,
                         np.array([65000], "u2"), np.array([3 << 30], "u4"), np.array([1 << 40], "u8"))  # fmt: skip
    assert device_data(out[0]) == 250 + 65000 + (3 << 30) + (1 << 40)


@pytest.mark.parametrize(
    ("compilers", "expected"),
    [
        ("", [1, 1, 600]),  # one of CUDA's, that asks which compiler it has
        ("// hipify made this\n", [0, 0, 0]),
        ("#if defined(__HIPCC__)\n#define HIPCC 1\n#endif\n", [0, 0, 0]),
        ("// ownership of friendship\n", [1, 1, 600]),
    ],
)
def test_macros_of_a_compiler_are_of_the_language(compiled, compilers, expected):
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
    out = np.zeros(3, "i4")
    compiled(source).run("k", 1, 1, out)
    assert device_data(out).tolist() == expected
