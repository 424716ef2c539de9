"""HIP C++ that clang compiles: parameters, shared memory, names, messages, options."""

import cProfile
import os
import pstats
import re
from unittest import mock

import numpy as np
import pytest

import forebay as fb
from forebay.compiler import by_clang
from forebay.compiler.by_clang import compile_to_spirv
from forebay.compiler.clang import find_clang
from forebay.compiler.options import split_options
from forebay.compiler.program import NotNamedError, Source
from forebay.compiler.spirv import declarations
from tests.helpers.device_data import device_data

from .results.tables import case, kernel_differences

clang, reason = find_clang()
if clang is None:
    pytest.skip(reason, allow_module_level=True)

pytestmark = pytest.mark.needs("SPIR-V")


def compiled(source, options=(), names=(), headers=None):
    return compile_to_spirv(clang, Source(source, "some.hip", headers or {}, split_options(options), names))


def refused(source, options=(), names=(), headers=None):
    with pytest.raises(fb.BuildError) as caught:
        compiled(source, options, names, headers)
    return caught.value.log


@pytest.mark.long
def test_the_work_grows_with_the_number_of_kernels_and_not_with_its_square():
    calls = []
    finish = by_clang.finish_module

    def counted(*arguments):
        profile = cProfile.Profile()
        result = profile.runcall(finish, *arguments)
        calls.append(pstats.Stats(profile).total_calls)
        return result

    with mock.patch.dict(os.environ, FOREBAY_NO_CACHE="1"), mock.patch.object(by_clang, "finish_module", counted):
        for count in (20, 80):
            kernels = (f'extern "C" __global__ void k{i}(int* x, bool b) {{ x[0] = b; }}' for i in range(count))
            assert len(compiled("\n".join(kernels)).kernels) == count
    assert calls[1] < 6 * calls[0]


# -- parameters

MANY = """
#include <hip/hip_fp16.h>
struct Node { Node* next; float v; };
struct Pair { const float* p; int n; };
struct alignas(16) Wide { float4 f; char c; };
enum E { X, Y }; enum class Small : unsigned char { U };
extern "C" __global__ void many(
    float4 a, const float4* b, float3* c, __half h, const __half* hp, bool f, bool* fp, unsigned long long u, size_t s,
    long long* q, E e, Small small, float** pp, const float* const* cpp, Node* n, Pair p, Wide w, void* v, const void* cv,
    const double (*m)[4], char ch, unsigned char uc, dim3 d, const Wide& r, float3 three) {
    q[0] = u + n->next->v + p.p[0] + w.f.x + m[1][2];
    if (f) *fp = e == X;
}"""


def test_names_types_and_constness_of_parameters(device):
    """Those of an extern "C" kernel, too, whose name does not tell them. Nothing is written through `n`."""
    made = compiled(MANY)
    expected = [
        ("a", "float4", 16, False), ("b", "float4*", 8, True), ("c", "float3*", 8, False), ("h", "half", 2, False),
        ("hp", "half*", 8, True), ("f", "uchar", 1, False), ("fp", "uchar*", 8, False), ("u", "ulong", 8, False),
        ("s", "ulong", 8, False), ("q", "long*", 8, False), ("e", "int", 4, False), ("small", "uchar", 1, False),
        ("pp", "float**", 8, False), ("cpp", "float**", 8, True), ("n", "struct*", 8, True), ("p", "struct", 16, False),
        ("w", "struct", 32, False), ("v", "void*", 8, False), ("cv", "void*", 8, True), ("m", "double*", 8, True),
        ("ch", "char", 1, False), ("uc", "uchar", 1, False), ("d", "struct", 12, False), ("r", "struct*", 8, True),
        ("three", "struct", 12, False),
    ]  # fmt: skip
    with device.program(made.code) as program:
        seen = [(p.name, p.type_name, p.nbytes, p.read_only) for p in program["many"].parameters]
    assert seen == expected
    (info,) = made.kernels
    assert [(p.name, p.type_name, p.nbytes) for p in info.parameters] == [each[:3] for each in expected]
    assert {p.name: p.alignment for p in info.parameters}["w"] == 16
    assert info.follows


@pytest.mark.needs("a compiler of its own")
def test_a_kernel_without_pointers_in_memory_follows_none():
    kernels = compiled("__global__ void k(const float* a, float* b, int n) { b[0] = a[n]; }").kernels
    assert not kernels[0].follows
    with_variable = "__device__ float* at; __global__ void k(int n) { at[n] = 1; }"
    assert compiled(with_variable).kernels[0].follows


# -- extern __shared__

SHARED = """
extern __shared__ float room[];
extern __shared__ int same[];
__device__ __attribute__((noinline)) float read(int i) { return room[i]; }
__device__ __attribute__((noinline)) float through(int i) { return read(i) + 1; }
extern "C" __global__ void none(float* x) { x[threadIdx.x] += 1; }
extern "C" __global__ void direct(float* x, bool twice) {
    room[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = room[blockDim.x - 1 - threadIdx.x] * (twice ? 2 : 1);
}
extern "C" __global__ void by_functions(float* x) {
    float* chosen = x[0] < 0 ? x : room;
    chosen[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = through((threadIdx.x + 1) % blockDim.x);
}
extern "C" __global__ void bits(int* x) { room[threadIdx.x] = 1.0f; __syncthreads(); x[threadIdx.x] = same[0]; }
template <class T> __global__ void typed(T* x) {
    extern __shared__ __align__(16) unsigned char raw[];
    T* mine = reinterpret_cast<T*>(raw);
    mine[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = mine[0];
}
template __global__ void typed<double>(double*);
"""


@pytest.mark.needs("a compiler of its own")
def test_kernels_that_use_it_have_one_more_parameter():
    made = compiled(SHARED)
    dynamic = {kernel.name: kernel.dynamic_shared for kernel in made.kernels}
    assert dynamic == {"none": False, "direct": True, "by_functions": True, "bits": True, "typed<double>": True}
    for symbol, parameters in declarations.kernels_of(made.code).items():
        kinds = [parameter.kind for parameter in parameters]
        assert kinds.count("local") == (symbol != "none")
        assert symbol == "none" or kinds[-1] == "local"


@pytest.mark.needs("a compiler of its own")
def test_it_works_in_kernels_and_in_functions(device, queue):
    start = np.arange(8, dtype="f4")
    cases = {f"direct {twice}": case(SHARED, 1, 8, start, twice, kernel="direct", shared=32) for twice in (True, False)}
    given = {"none": start, "by_functions": start, "bits": np.zeros(8, "i4"), "typed<double>": np.arange(3.0, 11)}
    for name, x in given.items():
        cases[name] = case(SHARED, 1, 8, x, kernel=name, shared=64)
    assert device_data(kernel_differences(device, queue, cases)) == []


@pytest.mark.needs("a compiler of its own")
def test_its_address_is_no_initializer():
    log = refused("""extern __shared__ int room[]; __device__ int* const at[2] = {room, room + 1};
    __global__ void k(int* x, int i) { *at[i] = 1; x[0] = room[i]; }""")
    assert "some.hip" in log


# -- names


def test_names_of_instances_and_variables(device):
    source = """
    template <class T> __global__ void scale(T* x, T by) { x[0] *= by; }
    namespace deep { template <int N> __global__ void add(int* x) { x[0] += N; } __device__ int count = 3; }
    __global__ void plain(int* x) { x[0] = deep::count; }
    extern "C" __global__ void c(int* x) { x[0] = 1; }
    static __constant__ float weights[4];
    __global__ void uses(float* x) { x[0] = weights[3]; }"""
    names = ["scale<float>", "&scale< long long >", "deep::add<3>", "plain", "c", "&deep::count", "weights"]
    made = compiled(source, names=names)
    assert made.lowered == {
        "scale<float>": "_Z5scaleIfEvPT_S0_", "&scale< long long >": "_Z5scaleIxEvPT_S0_",
        "deep::add<3>": "_ZN4deep3addILi3EEEvPi", "plain": "_Z5plainPi", "c": "c", "&deep::count": "_ZN4deep5countE",
        "weights": "_ZL7weights",
    }  # fmt: skip
    assert {kernel.name: kernel.symbol for kernel in made.kernels} == {
        "scale<float>": "_Z5scaleIfEvPT_S0_", "scale<long long>": "_Z5scaleIxEvPT_S0_",
        "add<3>": "_ZN4deep3addILi3EEEvPi", "plain": "plain", "c": "c", "uses": "uses",
    }  # fmt: skip
    assert {variable.name: variable.nbytes for variable in made.variables} == {"count": 4, "weights": 16}
    with device.program(made.code) as program:
        assert set(program) == {kernel.symbol for kernel in made.kernels}


@pytest.mark.needs("a compiler of its own")
def test_overloads_are_known_by_their_mangled_names():
    made = compiled("__global__ void k(int* x) { x[0] = 1; } __global__ void k(float* x) { x[0] = 1; }")
    assert {kernel.symbol for kernel in made.kernels} == {"_Z1kPi", "_Z1kPf"}


@pytest.mark.needs("a compiler of its own")
@pytest.mark.parametrize("name", ["nothing", "add", "add<", "add<1>", "helper<int>", "1 + 1", "", "k); int x = (0"])
def test_expressions_that_name_nothing(name):
    source = (
        "template <class T> __device__ T helper(T a) { return a; } template <class T> __global__ void add(T* x) { } "
    )
    with pytest.raises(NotNamedError) as caught:
        compiled(source + "__global__ void k(int* x) { }", names=[name])
    assert "name expression" in caught.value.log


# -- messages


@pytest.mark.needs("a compiler of its own")
def test_warnings_of_what_succeeds_are_told():
    made = compiled('#warning "think of it"\n__global__ void k(int* x) { int unused; x[0] = 1; }', ["-Wall"])
    assert "some.hip:1:2: warning:" in made.log
    assert "think of it" in made.log
    assert "unused variable" in made.log
    assert compiled("__global__ void k(int* x) { int unused; x[0] = 1; }", ["-Wall", "-w"]).log == ""


@pytest.mark.needs("a compiler of its own")
@pytest.mark.parametrize(("source", "line", "told"), [
    ('__global__ void k(int* x) {\n asm("nop"); }', 2, "inline assembly"),
    ("__global__ void k(int* x) {\n throw 3; }", 2, "throw"),
    ('#include "none.h"\n__global__ void k(int* x) { }', 1, "none.h"),
    ("__global__ void k(const int* x) {\n\n x[0] = 1; }", 3, "read-only"),
    ("__device__ int elsewhere(int);\n__global__ void k(int* x) {\n x[0] = elsewhere(x[1]); }", 3, "_Z9elsewherei"),
    ("\n\nint host() { return 1; } __global__ void k(int* x) { x[0] = host(); }", 3, "__host__"),
])  # fmt: skip
def test_what_devices_do_not_have_is_refused_with_its_line(source, line, told):
    log = refused(source)
    assert re.search(rf"^some\\.hip:{line}:\\d+: (fatal )?error: ".replace("\\\\", "\\"), log, re.MULTILINE), log
    assert told in log
    assert "^" in log


@pytest.mark.needs("a compiler of its own")
def test_headers_have_relative_names_which_messages_use():
    for name in ("../outside.h", "/tmp/outside.h"):
        assert "relative path" in refused("", headers={name: ""})
    log = refused('#include "sub/a.h"\n', headers={"sub/a.h": "\n__device__ int x = nothing;"})
    assert "sub/a.h:2:20: error:" in log
    assert "/tmp" not in log


# -- options


@pytest.mark.needs("a compiler of its own")
@pytest.mark.long
def test_macros_standards_and_folders(tmp_path):
    (tmp_path / "mine.h").write_text("#define MINE 5\n")
    source = """
    #include "mine.h"
    #if MINE != 5 || LEVEL != 3 || !defined(YES) || defined(NO) || T(7) != 8
    #error macros
    #endif
    static_assert(__cplusplus == STANDARD);
    __global__ void k(int* x) { x[0] = 1; }"""
    more = ["-DLEVEL=3", "-D", "YES", "-DNO", "-UNO", "-DT(x)=x+1", f"-I{tmp_path}"]
    assert compiled(source, [*more, "-DSTANDARD=201703L"]).kernels
    for standard in ("-std=c++20", "--std=c++20"):
        assert compiled(source, [*more, "-DSTANDARD=202002L", standard]).kernels
    assert compiled(
        source.replace('#include "mine.h"', ""), [*more, "-DSTANDARD=201703L", "-include", "mine.h"]
    ).kernels
    assert "macros" in refused(source, [*more[:-1], f"-I{tmp_path}", "-DSTANDARD=201703L", "-DLEVEL=4"])


@pytest.mark.needs("a compiler of its own")
def test_macros_do_not_reach_the_header_that_comes_first():
    names = ["T", "x", "i", "value", "size", "block", "N"]
    made = compiled("__global__ void k(float* p) { p[0] = N; }", [f"-D{name}=4" for name in names])
    assert [kernel.name for kernel in made.kernels] == ["k"]


@pytest.mark.needs("a compiler of its own")
@pytest.mark.parametrize("options", [
    ["-O0", "-g", "-fgpu-rdc", "--gpu-architecture=gfx90a", "--offload-arch=gfx942", "-fno-fast-math"],
    ["-O3", "-ffast-math", "-std=gnu++20", "-Wall", "-Wextra", "-ferror-limit=3", "-ftemplate-depth=50", "-fno-strict-aliasing"],
    ["--use_fast_math", "-fno-exceptions", "-munsafe-fp-atomics"],
    ["-ffp-contract=off", "-ffinite-math-only", "-fno-signed-zeros", "-funsafe-math-optimizations"],
])  # fmt: skip
@pytest.mark.long
def test_options_of_clang(device, options):
    made = compiled("__global__ void k(float* x) { x[0] = x[1] * x[2] + sqrtf(x[3]) / x[4]; }", options)
    with device.program(made.code, split_options(options).opencl) as program:
        assert list(program) == ["k"]


@pytest.mark.needs("a compiler of its own")
@pytest.mark.long
def test_a_multiplication_and_an_addition_may_become_one_operation(device, queue):
    source = """extern "C" __global__ void k(const float* x, float* out) {
        int i = threadIdx.x; out[i] = x[i] * x[i + 1] + x[i + 2]; }"""
    x = np.random.default_rng(2).uniform(-1, 1, 66).astype("f4")
    apart = x[:64] * x[1:65] + x[2:]
    together = (x[:64].astype("f8") * x[1:65] + x[2:]).astype("f4")
    assert not np.array_equal(apart, together)
    pragma = source.replace("{", '{ _Pragma("clang fp contract(off)")')
    for text, options, expected in (
        (source, (), together), (source, ["-ffast-math"], together), (source, ["-ffp-contract=fast"], together),
        (source, ["-ffp-contract=off"], apart), (pragma, (), apart),
    ):  # fmt: skip
        out = np.zeros(64, "f4")
        with device.program(compiled(text, options).code) as program:
            queue.launch(program["k"], 1, 64, x, out)
        assert np.array_equal(device_data(out), expected), (text, options)


@pytest.mark.needs("a compiler of its own")
def test_functions_that_nobody_calls_are_left_out():
    source = '__device__ void never() { asm("nop"); } __global__ void k(int* x) { x[0] = 1; }'
    assert b"never" not in compiled(source).code


def test_memory_is_compared_without_a_function_of_the_drivers(device, queue):
    """Clang calls memcmp by itself, for atomic operations on floats too; Level Zero has none."""
    source = """__global__ void k(int* x, const char* a, int n) {
        x[0] = __builtin_memcmp(a, a + 8, 8); x[1] = __builtin_memcmp(a, a + 8, n); x[2] = __builtin_memcmp(a + 8, a, n);
    }
    __global__ void add(float* f) { atomicMax(f, 2.0f); }"""
    program = device.program(source)
    assert len([program[name].signature for name in ("k", "add")]) == 2
    a = np.array([1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 250, 6, 7, 8], "u1")
    x, there = device.zeros(3, "i4"), device.array(a)
    for n, expected in ((4, 0), (5, -245), (0, 0)):
        queue.launch(program["k"], 1, 1, x, there, n)
        assert device_data(x.get(queue=queue).tolist()) == [-245, expected, -expected]


def asks_for_vectors(module):
    """The kernels that say so: OpExecutionMode, VecTypeHint."""
    words, at, found = np.frombuffer(module, "<u4"), 5, 0
    while at < len(words):
        found += words[at] & 0xFFFF == 16 and words[at + 2] == 30
        at += words[at] >> 16
    return found


LOCKS = [
    "__global__ void k(int* f) { while (atomicCAS(f, 0, 1) != 0) { } f[1] += 1; atomicExch(f, 0); }",
    """__global__ void k(int* f) { bool done = false; while (!done) if (atomicCAS(f, 0, 1) == 0) {
        f[1] += 1; atomicExch(f, 0); done = true; } }""",
    "__global__ void k(int* f) { while (atomicExch(f, 1) != 0) { } f[1] += 1; atomicExch(f, 0); }",
    """__device__ __attribute__((noinline)) void take(int* f) { while (atomicCAS(f, 0, 1) != 0) { } }
    __global__ void k(int* f) { take(f); f[1] += 1; atomicExch(f, 0); }""",
]


@pytest.mark.parametrize("source", LOCKS)
def test_threads_of_a_block_may_wait_for_a_lock(device, queue, source):
    assert asks_for_vectors(compiled(source).code) == 1
    f = device.zeros(2, "i4")
    queue.launch(device.program(source)["k"], 2, 32, f)
    assert device_data(f.get(queue=queue).tolist()) == [0, 64]


@pytest.mark.needs("a compiler of its own")
@pytest.mark.parametrize("body", [
    "for (int i = 0; i < 10; i++) { atomicAdd(x + i, 1.f); atomicMax(x + i, 2.f); }",
    "for (int i = threadIdx.x; i < n[9]; i += blockDim.x) atomicAdd(n + n[i], 1);",
    "for (int i = 0; i < n[9]; i++) { atomicInc((unsigned*)n, 7u); atomicMin(n + i, i); }",
    "atomicCAS(n, 0, 1); atomicExch(n, 0);",
])  # fmt: skip
def test_what_waits_for_nobody_is_no_lock(body):
    assert asks_for_vectors(compiled(f"__global__ void k(float* x, int* n) {{ {body} }}").code) == 0
