"""HIP C++ by NVRTC, without a GPU: what compiles, what it is called, and what is said of what does not."""

import os
from unittest import mock

import pytest

from forebay.compiler.by_driver import as_clang_says, compile_by_driver
from forebay.compiler.options import split_options
from forebay.compiler.program import NotNamedError, Source
from forebay.core.errors import BuildError
from forebay.hip.facts import HIP_VERSION as VERSION
from forebay.hip.textures import DECLARED, _as_clang_says
from tests.helpers.processes import ROOT

pytestmark = pytest.mark.needs("no device of another driver than CUDA")


@pytest.fixture
def compiles(nvrtc, tmp_path):
    """``compiles(source, options, names, headers)``: the program, compiled anew."""

    def compiled(source, options=(), names=(), headers=None):
        return compile_by_driver(nvrtc, Source(source, "program.hip", headers or {}, split_options(options), names))

    with mock.patch.dict(os.environ, FOREBAY_CACHE=str(tmp_path / "cache")):
        yield compiled


@pytest.fixture
def refused(compiles):
    """``refused(source)``: the log of a program that does not compile."""

    def log(source, *arguments):
        with pytest.raises(BuildError) as caught:
            compiles(source, *arguments)
        return caught.value.log

    return log


REFUSED = [
    ("float calls(float); const float ONCE = calls(1); __global__ void k(float* out) { out[0] = ONCE; }", ["calls"]),
    ("__global__ void k(float4* v) { v[0].x = sqrt(v[0]); }", ["no instance of overloaded function"]),
    ("__device__ int missing(int); __global__ void k(int* n) { *n = missing(1); }", ["missing"]),
    # Code of the host that a kernel reaches
    ("""
#include <vector>
int size() { std::vector<int> all(3); return all.size(); }
__global__ void k(int* n) { n[0] = size(); }""", ["program.hip:3:", "which kernels reach"]),
    # Errors are NVRTC's
    ("\n__global__ void k(int* n) {\n  *n = nothing; }", [
        'program.hip(3): error: identifier "nothing" is undefined', "  *n = nothing; }",
    ]),
]  # fmt: skip
PROGRAMS = [  # (source, types of the parameters)
    (f"#include <hip/hip_version.h>\n__global__ void k(int*) {{ static_assert(HIP_VERSION == {VERSION}); }}", "int*"),
    # Constants computed from others
    ("""
    static const float SCALE = 2.0f;
    const float TWICE = SCALE * 2;
    namespace inner { double const HALF = SCALE / 2; }
    /* } */
    extern "C" { const double ALL = TWICE + inner::HALF; }
    __global__ void k(float* out) {
        const float own = out[1] * SCALE; out[0] = TWICE * inner::HALF * ALL + own;
    }""", None),
    ("""
    __device__ float3 three[2] = {{1, 2, 3}, make_float3(4, (2 + 3), 6)};
    __device__ float4 four = make_float4(1, 2, 3, 4);
    __global__ void k(float* out, int n) {
        float4 v = make_float4(n, n, n, n);
        out[0] = three[1].y + four.x + v.w;
    }""", None),
    # What HIP has and CUDA has not
    ("""
    struct Twelve { int a, b, c; };
    __global__ void k(float4* v, float3* w, double* d, unsigned long long* votes, unsigned long* n, Twelve* t) {
        int i = hipThreadIdx_x + hipBlockIdx_x * hipBlockDim_x;
        v[i] = v[i] * 2 + v[i + 1] - make_float4(1, 2, 3, 4) / 3.0f;
        v[i] += 1;
        w[i] = 2 * -w[i];
        votes[i] = __ballot(i > 3) + __any(i) + __all(i) + __popcll(__ballot64(1)) + (v[i] == v[0]);
        d[i] = __shfl_down(d[i], 1) + __shfl_xor(i, 2, 16) + __shfl(d[i], 0) + atomicMax(d, 3.0);
        t[i] = __shfl(t[i], 3);
        atomicAdd(n, 1ul);
        unsafeAtomicAdd(d, 2.0);
        votes[i] += __lane_id() + wall_clock64() + __AMDGCN_WAVEFRONT_SIZE;
        HIP_DYNAMIC_SHARED(float, shared)
        shared[i] = uint64_t(INT_MAX) + FLT_MAX * M_PI;
    }""", "float4* float3* double* ulong* ulong* struct*"),
    pytest.param("""
    #include <hip/hip_fp8.h>
    __global__ void k(float* x, unsigned long long* n, int* i, long long* w, double* d, float4* v, char* text) {
        x[0] = powif(x[1], 3) + (float)__hip_fp8_e4m3_fnuz(x[2]);
        n[0] = __match_any(i[0]) + __match_all(i[1], i) + __lanemask_lt() + __bitextract_u64(n[1], 3, 7);
        n[1] = strlen(text) + __lastbit_u32_u64(n[2]) + __bitinsert_u32(1, 2, 3, 4);
        atomicMax_block(d, 2.0); atomicMin_system(x, 2.0f); atomicSub(w, 3ll); atomicAdd_system(w, 4ll);
        atomicCAS(d, 1.0, 2.0); atomicExch_block(d, 3.0); atomicAnd(w, 5ll); atomicSub_system(x, 1.0f);
        v[0] = v[0]++ + --v[1]; *(int2*)i = ~*(int2*)i;
        register int r = i[2]; i[2] = r + memcmp(text, text + 1, 3);
        __int128 wide = (__int128)w[0] * w[1]; w[2] = wide >> 64;
    }""", "float* ulong* int* long* double* float4* char*", marks=pytest.mark.long),
    # A program's own operator goes first
    ("""
    __device__ float3 operator+(float3 a, float3 b) { return make_float3(a.x, b.y, 0); }
    __global__ void k(float3* v) { v[0] = v[1] + v[2]; }""", None),
    # Half precision and complex numbers
    ("""
    #include <hip/hip_fp16.h>
    #include <hip/hip_bf16.h>
    #include <hip/hip_complex.h>
    __global__ void k(__half* h, __hip_bfloat16* b, hipFloatComplex* c, half x) {
        h[0] = __hadd(h[1], x); b[0] = __float2bfloat16(1.0f); c[0] = hipCmulf(c[1], make_hipFloatComplex(1, 2));
    }""", "half* struct* float2* half"),
    # The library of C++, also where a program names it without including it, as hipcc lets it
    pytest.param("""
    template <class T> __global__ void k(T* x) {
        x[0] = std::min(x[1], std::numeric_limits<T>::max()) + std::is_same_v<T, int>;
    }
    template __global__ void k<int>(int*);""", "int*", marks=pytest.mark.long),
    # CUB and cooperative groups
    pytest.param("""
    #include <hipcub/hipcub.hpp>
    #include <hip/hip_cooperative_groups.h>
    __global__ void k(const int* in, int* out) {
        using Sum = hipcub::BlockReduce<int, 128>;
        __shared__ typename Sum::TempStorage room;
        int sum = Sum(room).Sum(in[threadIdx.x]);
        cooperative_groups::this_thread_block().sync();
        if (threadIdx.x == 0) *out = sum;
    }""", None, marks=pytest.mark.long),
    # CUB includes headers of Thrust, of its own version; complex numbers are forebay's: Thrust's need a host in some
    pytest.param("""
    #include <thrust/iterator/counting_iterator.h>
    #include <thrust/complex.h>
    static_assert(THRUST_MAJOR_VERSION >= 2);
    __global__ void k(float* out) {
        thrust::complex<float> z(3, 4);
        out[0] = abs(z * conj(z)) + *(thrust::make_counting_iterator(2) + 5);
        std::printf("%f", out[0]);
    }""", None, marks=pytest.mark.long),
    # hipRAND's numbers are forebay's own, the same on every device
    pytest.param("""
    #include <hiprand/hiprand_kernel.h>
    __global__ void k(float* x, hiprandState_t* kept) {
        hiprandState state;
        hiprandStatePhilox4_32_10_t other;
        hiprand_init(1, 2, 0, &state);
        hiprand_init(1, 2, 3, &other);
        x[0] = hiprand_uniform(&state) + hiprand_normal(&state) + hiprand_uniform4(&other).x;
        *kept = state;
    }""", "float* struct*", marks=pytest.mark.long),
    # ``using namespace std`` makes two of one function: CUDA's library has its own
    pytest.param("""
    #include <cmath>
    #include <algorithm>
    using namespace std;
    __global__ void k(double* x) {
        x[0] = sqrt(x[1]) + std::pow(x[2], 2.0) + max(x[3], x[4]) + abs(x[5]);
    }""", None, marks=pytest.mark.long),
]  # fmt: skip
HEADERS = ("hip_fp16", "hip_bf16", "hip_fp8", "hip_complex", "hip_ext", "math_functions", "amd_detail/hip_runtime")
# Headers that are read when a program needs them, as with clang, where they are included already; reading all of CUDA's
# would take every program a second.
STATEMENTS = (
    "__half h = __float2half(x[0]); x[0] = __half2float(__hmul(h, h));",
    "__hip_bfloat16 b = __float2bfloat16(x[0]); x[0] = __bfloat162float(b);",
    "auto group = cooperative_groups::this_thread_block(); group.sync(); x[0] = group.size();",
    "hipFloatComplex z = make_hipFloatComplex(x[0], x[1]); x[0] = hipCabsf(z);",
)
LONG = [
    *(f"#include <hip/{header}.h>\n__global__ void k(int* x) {{ *x = 1; }}" for header in HEADERS),
    *(f"__global__ void k(float* x) {{ {statement} }}" for statement in STATEMENTS),
]


@pytest.mark.parametrize(
    ("source", "types"), [*PROGRAMS, *(pytest.param(each, None, marks=pytest.mark.long) for each in LONG)]
)
def test_a_program_compiles(compiles, source, types):
    program = compiles(source)
    (kernel,) = program.kernels
    assert kernel.dynamic_shared == ("HIP_DYNAMIC_SHARED" in source)
    if types:
        assert [each.type_name for each in kernel.parameters] == types.split()
        assert program.variables == (), "constants of headers are none of the program's"


@pytest.mark.parametrize(("source", "words"), REFUSED)
def test_a_program_that_does_not_compile(refused, source, words):
    log = refused(source)
    assert all(word in log for word in words)


@pytest.mark.long
def test_mathematics_of_integers_and_of_two_types(compiles):
    source = """
    template <class T, class U> struct same { enum { value = 0 }; };
    template <class T> struct same<T, T> { enum { value = 1 }; };
    template <class T> __device__ void is_double(T) { static_assert(same<T, double>::value, "double"); }
    template <class T> __device__ void is_float(T) { static_assert(same<T, float>::value, "float"); }
    __global__ void k(double* out, float f, double d, int n, unsigned char c, long long w) {
        is_double(sqrt(n)); is_double(exp(1)); is_double(floor(w)); is_double(sin(c)); is_double(fabs(n));
        is_double(fmax(f, d)); is_double(fmin(n, f)); is_double(pow(n, n)); is_double(atan2(1, f));
        is_double(hypot(n, w));
        is_float(sqrt(f)); is_float(fmax(f, f)); is_float(exp(f)); is_double(sqrt(d)); is_double(fmod(d, d));
        out[0] = sqrt(n) + fmax(f, d) + pow(2, f) + max(f, 0.1) + abs(-3) + abs(-f);
    }"""
    compiles(source)
    compiles("#include <cmath>\nusing namespace std;\n" + source)


def test_the_smaller_of_two_integers_of_any_types(compiles):
    integers = ["bool", "char", "unsigned char", "short", "int", "unsigned", "long", "size_t", "long long"]
    pairs = [(one, other) for one in integers for other in integers]
    parameters = ", ".join(f"{name} v{i}" for i, name in enumerate(integers))
    lines = (
        "\n".join(
            f'static_assert(sizeof({of}({a}(1), {b}(2))) == sizeof({a}(1) + {b}(2)), "{of} of {a} and {b}");\n'
            f"out[{i}] = {of}(v{integers.index(a)}, v{integers.index(b)});"
            for i, (a, b) in enumerate(pairs)
            for of in ("min", "max")
        )
        .replace("unsigned char(", "(unsigned char)(")
        .replace("long long(", "(long long)(")
    )
    compiles(f"__global__ void k(long long* out, {parameters}) {{\n{lines}\n}}")


def test_headers_include_those_beside_them(compiles, refused):
    """As hiprtcCreateProgram has them: a compiler of files looks in the folder of the file that includes."""
    headers = {
        "sub/ops.h": '#pragma once\n#include "level.h"\n#include "../top.h"\n#include <other.h>',
        "sub/level.h": "const int LEVEL = 3;",
        "level.h": "#error not this one",
        "top.h": "const int TOP = 4;",
        "other.h": "const int OTHER = 5;",
        "sub/other.h": "#error in angles it is not beside",
    }
    source = '#include "sub/ops.h"\n__global__ void k(int* p) { static_assert(LEVEL + TOP + OTHER == 12, "all"); }'
    compiles(source, headers=headers)
    del headers["sub/level.h"], headers["level.h"]
    assert "level.h" in refused(source, (), (), headers)


WHOLE = """
#include <hip/hip_runtime.h>
#include <iostream>
#include <vector>
#define CHECK(call) if ((call) != hipSuccess) { std::cerr << "bad" << std::endl; exit(1); }
template <class T> __global__ void scale(T* x, T by) { x[threadIdx.x] *= by; }
struct Timer { std::vector<float> times; ~Timer() { std::cout << times[0]; } };
static int calls = 0;
__host__ __device__ inline int both(int n) { return n + 1; }
__global__ void plain(int* n) { n[0] = both(n[0]); }
int main(int argc, char** argv) {
    std::vector<float> host(100);
    float* x;
    CHECK(hipMalloc(&x, 400));
    scale<float><<<dim3(1), 64, 0, 0>>>(x, 2.f);
    hipLaunchKernelGGL(scale<double>, dim3(1), dim3(2), 0, 0, (double*)x, 2.0);
    for (auto& each : host) std::cout << each;
    return calls;
}
"""


def test_whole_files_with_their_host(compiles):
    """What of the host does not compile is left out, and the log says what; instances that it launches are there."""
    program = compiles(WHOLE)
    assert {each.name for each in program.kernels} == {"scale<float>", "scale<double>", "plain"}
    assert "program.hip:3:" in program.log
    assert "left out" in program.log


def test_name_expressions(compiles):
    source = """
    template <class T> __global__ void k(T* x) { *x = 1; }
    __device__ int v[4];
    namespace n { __constant__ int c; }"""
    program = compiles(source, names=["k<int>", "&v", "n::c"])
    assert program.lowered == {"k<int>": "_Z1kIiEvPT_", "&v": "v", "n::c": "_ZN1n1cE"}
    assert {each.name for each in program.variables} == {"v", "c"}
    with pytest.raises(NotNamedError, match="nothing"):
        compiles(source, names=["nothing<int>"])


def test_options_and_headers(compiles, tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "far.h").write_text("#define FAR 3\n")
    source = '#include "near.h"\n#include <far.h>\n__global__ void k(T* x) { *x = NEAR + FAR + N; }'
    options = [
        "-DT=double",
        "-DN",
        f"-I{tmp_path / 'far'}",
        *["-ffast-math", "-std=gnu++20", "--offload-arch=gfx90a", "-O3"],
    ]
    program = compiles(source, options, headers={"near.h": "#define NEAR 2"})
    assert program.kernels[0].parameters[0].type_name == "double*"


def test_the_cache_knows_the_files(compiles, nvrtc, tmp_path):
    header = tmp_path / "mine.h"
    source, options = "#include <mine.h>\n__global__ void k(T* x) { *x = 1; }", [f"-I{tmp_path}"]
    with mock.patch.object(type(nvrtc), "compile", autospec=True, side_effect=type(nvrtc).compile) as compile_:
        for name, count in (("int", 1), ("float", 2), ("float", 2)):
            header.write_text(f"typedef {name} T;")
            assert compiles(source, options).kernels[0].parameters[0].type_name == f"{name}*"
            assert compile_.call_count == count


def test_a_file_that_a_macro_names_is_read_anew(compiles, tmp_path):
    source, options = "#include FILE\n__global__ void k(T* x) { *x = 1; }", [f"-I{tmp_path}", "-DFILE=<mine.h>"]
    for name in ("int", "float"):
        (tmp_path / "mine.h").write_text(f"typedef {name} T;")
        assert compiles(source, options).kernels[0].parameters[0].type_name == f"{name}*"


def test_every_header_is_read_once():
    for path in (ROOT / "src/forebay/compiler/include_nvidia").rglob("*.*"):
        assert "\n#pragma once\n" in "\n" + path.read_text(), path


def test_messages_in_the_form_of_clangs():
    log = """a.hip(3): error: identifier "x" is undefined
      y = x + 1;
          ^

a.hip(1): catastrophic error: cannot open source file "vector"
  #include <vector>
                   ^

/usr/h.h(7): error: no member
  T t;
    ^
          detected during instantiation of "void f<T>()" at line 12 of a.hip

ptxas fatal   : Unresolved extern function '_Z18__forebay_left_outILi4EEiv'
"""
    assert as_clang_says(log).splitlines() == [
        'a.hip:3:9: error: identifier "x" is undefined', "a.hip:1:18: fatal error: 'vector' file not found",
        "/usr/h.h:7:3: error: no member", "a.hip:12:1: note: instantiated here",
        "ptxas:1:1: error: __forebay_left_out<4>",
    ]  # fmt: skip


@pytest.mark.long
def test_textures_are_those_of_software(compiles):
    """`forebay.hip` makes the objects, so kernels read them as on every device; CUDA's own are the hardware's."""
    program = compiles("""
    texture<float, 2, hipReadModeElementType> two;
    texture<uchar4, 1, hipReadModeNormalizedFloat> four;
    __global__ void k(hipTextureObject_t t, hipSurfaceObject_t s, float* x, cudaTextureObject_t c) {
        float2 v;
        surf2Dread(&v, s, 8, 1);
        surf2Dwrite(v, s, 16, 1);
        x[0] = tex2D<float>(t, 1, 2) + tex1Dfetch<float4>(t, 3).x + tex3D<uchar4>(t, 1, 2, 3).y + v.x;
        x[1] = tex2D(two, 1, 2) + tex1Dfetch(four, 2).x + tex2D<float>(c, 1, 2);
    }""")
    parameters = program.kernels[0].parameters
    assert [(each.is_pointer, each.nbytes) for each in parameters] == [(True, 8), (True, 8), (True, 8), (False, 8)]
    found = {each.name: DECLARED.fullmatch(_as_clang_says(each.type_name)) for each in program.variables}
    assert {name: match.groups() for name, match in found.items()} == {
        "two": ("float", None, "0"), "four": ("unsigned char", "4", "1"),
    }  # fmt: skip
