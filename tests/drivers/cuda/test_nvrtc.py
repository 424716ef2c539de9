"""What NVRTC makes of C++, and what its debug information says of it."""

import os
from unittest import mock

import pytest

from forebay.compiler.program import DriverSource
from forebay.core.errors import BuildError, NotInstalledError
from forebay.queues.cuda import nvrtc as module
from forebay.queues.cuda.nvrtc import NvrtcCompiler, find_nvrtc, read_signatures

pytestmark = pytest.mark.needs("no device of another driver than CUDA")

SOURCE = """
struct Node { Node *next; float value; };
struct S { float a; int b[3]; const double *p; };
typedef float4 V;
enum E { X };
typedef unsigned long long number;
__constant__ float table[4];
__device__ Node *first;
extern "C" __global__ void all(
    const float *__restrict__ x, float *y, S s, V v, uchar2 w, unsigned char c, E e, bool b, float &r, void *q,
    const int *const *pp, number n, volatile short *vs, double3 d3)
{
    extern __shared__ float dynamic[];
    __shared__ int fixed[7];
    fixed[threadIdx.x % 7] = dynamic[1];
    y[threadIdx.x] = x[threadIdx.x] * s.a + table[1] + first->value + v.x + fixed[2];
}
template <class T, int N> __global__ void __launch_bounds__(64) shift(const T *a, T *b) { b[0] = a[N]; }
namespace inner { __global__ void __block_size__((8, 4, 2)) same(long long *a) { *a = 1; } }
__global__ void same(char *a) { *a = 1; }
__device__ int helper(float *dynamic) { return 3; }
__global__ void alone(int *dynamic) { *dynamic = helper(0); }
"""


def types(kernel):
    return [(each.name, each.type_name, each.is_pointer, each.const, each.nbytes) for each in kernel.parameters]


@pytest.fixture(scope="module")
def program(nvrtc):
    return nvrtc.compile(DriverSource(SOURCE, "all.cu", {}, ["-std=c++17"], ["shift<short,3>", "&first"]))


@pytest.fixture(scope="module")
def kernels(program):
    return {each.name: each for each in program.kernels}


def test_types_of_parameters(kernels):
    assert types(kernels["all"]) == [
        ("x", "float*", True, True, 8), ("y", "float*", True, False, 8), ("s", "struct", False, False, 24),
        ("v", "float4", False, False, 16), ("w", "uchar2", False, False, 2), ("c", "uchar", False, False, 1),
        ("e", "int", False, False, 4), ("b", "uchar", False, False, 1), ("r", "float*", True, False, 8),
        ("q", "void*", True, False, 8), ("pp", "int**", True, True, 8), ("n", "ulong", False, False, 8),
        ("vs", "short*", True, False, 8), ("d3", "struct", False, False, 24),
    ]  # fmt: skip
    assert [each.alignment for each in kernels["all"].parameters[2:5]] == [8, 16, 2]


def test_names(kernels, program):
    """An instance is named as in the source, and what is there twice by its symbol."""
    assert {name: each.symbol for name, each in kernels.items()} == {
        "all": "all", "shift<short,3>": "_Z5shiftIsLi3EEvPKT_PS0_", "_ZN5inner4sameEPx": "_ZN5inner4sameEPx",
        "_Z4samePc": "_Z4samePc", "alone": "alone",
    }  # fmt: skip
    assert kernels["alone"].mangled == "_Z5alonePi"
    assert program.lowered == {"shift<short,3>": "_Z5shiftIsLi3EEvPKT_PS0_", "&first": "first"}


def test_pointers_that_are_followed(nvrtc):
    source = "__global__ void plain(float *x) { *x = 1; } struct S { int *p; }; __global__ void k(S s) { *s.p = 1; }"
    program = nvrtc.compile(DriverSource(source, "a.cu", {}, []))
    assert {each.name: each.follows for each in program.kernels} == {"plain": False, "k": True}
    program = nvrtc.compile(DriverSource(SOURCE, "a.cu", {}, []))
    assert all(each.follows for each in program.kernels), "a variable holds a pointer"


def test_dynamic_shared_memory(nvrtc, kernels):
    """Found through functions that are not inlined, and not by a name alone."""
    assert {name for name, each in kernels.items() if each.dynamic_shared} == {"all"}
    source = """
    extern __shared__ double words[];
    __device__ __noinline__ double one(int i) { return words[i]; }
    __device__ __noinline__ double two(int i) { return one(i) + 1; }
    __global__ void through(double *x) { *x = two(threadIdx.x); }
    __global__ void without(double *x) { *x = 2; }
    """
    program = nvrtc.compile(DriverSource(source, "a.cu", {}, []))
    assert {each.name: each.dynamic_shared for each in program.kernels} == {"through": True, "without": False}


def test_required_blocks(kernels):
    assert kernels["_ZN5inner4sameEPx"].required_block == (8, 4, 2)
    assert kernels["shift<short,3>"].required_block == (0, 0, 0)


def test_variables(program):
    found = {each.name: (each.symbol, each.type_name, each.nbytes, each.follows) for each in program.variables}
    assert found == {"table": ("table", "float", 16, False), "first": ("first", "struct*", 8, True)}


def test_machine_code(nvrtc):
    """A cubin, for an architecture that the device has."""
    assert nvrtc.compile(DriverSource("__global__ void k() {}", "a.cu", {}, [])).code.startswith(b"\x7fELF")
    with pytest.raises(NotInstalledError, match="does not compile for sm_11"):
        NvrtcCompiler((1, 1), 13000)


def test_what_the_compiler_says(nvrtc):
    with pytest.raises(BuildError) as caught:
        nvrtc.compile(DriverSource("__global__ void k() {\n  no_such(1); }", "mine.cu", {}, []))
    assert 'mine.cu(2): error: identifier "no_such" is undefined' in caught.value.log
    program = nvrtc.compile(DriverSource("__global__ void k(int *p) { int i; *p = 1; }", "mine.cu", {}, []))
    assert '"i" was declared but never referenced' in program.log


def test_without_nvrtc(tmp_path):
    """The message says what to install; one of a later CUDA than the driver's is none."""
    (tmp_path / "lib64").mkdir()
    (tmp_path / "lib64" / "libnvrtc.so.99.1").touch()
    with (
        mock.patch.multiple(module, _wheels=list, TOOLKIT=str(tmp_path / "none")),
        mock.patch.dict(os.environ, CUDA_HOME=str(tmp_path)),
    ):
        words = r"of CUDA 99, and this driver of CUDA 2: pip install 'forebay\[cuda\]'"
        with pytest.raises(NotInstalledError, match=words):
            find_nvrtc(2)
        with pytest.raises(ImportError):
            find_nvrtc(1)


def test_debug_information_that_is_not_there(nvrtc):
    assert read_signatures(b"") == ((), ())
    assert read_signatures(nvrtc.compile(DriverSource("__global__ void k() {}", "mine.cu", {}, [])).code[:0]) == (
        (),
        (),
    )
    for other in (b"ELF", b"\x7fELF" + bytes(60)):
        with pytest.raises(ValueError, match="in another form"):
            read_signatures(other)
