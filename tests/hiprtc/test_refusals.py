"""What is outside of the subset is refused with its line, its name and the line itself."""

import re

import pytest

import forebay as ps
from forebay.hip_cpp import RefusedError, translate

HEAD = "// one\n// two\n"

# (program from line 3 on, line, words of the message)
REFUSALS = {
    "class": ("class A { };", 3, "class"),
    "member function": ("struct A { int x;\n int get() { return x; } };", 4, "member function"),
    "inheritance": ("struct A { int x; };\nstruct B : A { int y; };", 4, "inheritance"),
    "access": ("struct A { private: int x; };", 3, "access"),
    "member initializer": ("struct A { int x = 1; };", 3, "initializers of members"),
    "bit-field": ("struct A { int x : 3; };", 3, "bit-field"),
    "namespace": ("namespace a { }", 3, "namespace"),
    "using namespace": ("using namespace std;", 3, "using"),
    "enum class": ("enum class A { X };", 3, "enum class"),
    "template class": ("template <typename T> struct A { T x; };", 3, "templates of classes"),
    "template specialisation": ("template <> __device__ int f(int x) { return x; }", 3, "specialisation"),
    "operator": ("struct A { int x; };\n__device__ A operator+(A a, A b) { return a; }", 4, "operator"),
    "new": ("__global__ void k(int* p) {\n int* q = new int; }", 4, "new"),
    "delete": ("__global__ void k(int* p) {\n delete p; }", 4, "delete"),
    "throw": ("__global__ void k(int* p) {\n throw 1; }", 4, "exceptions"),
    "try": ("__global__ void k(int* p) {\n try { } }", 4, "exceptions"),
    "lambda": ("__global__ void k(int* p) {\n auto f = [=](int x) { return x; }; }", 4, "lambda"),
    "goto": ("__global__ void k(int* p) {\n goto end; }", 4, "goto"),
    "label": ("__global__ void k(int* p) {\n end: p[0] = 1; }", 4, "label"),
    "range for": ("__global__ void k(int* p) { int a[3];\n for (int x : a) p[0] += x; }", 4, "range"),
    "if constexpr": ("__global__ void k(int* p) {\n if constexpr (true) p[0] = 1; }", 4, "if constexpr"),
    "asm": ("__global__ void k(int* p) {\n asm(\"nop\"); }", 4, "assembly"),
    "static variable": ("__global__ void k(int* p) {\n static int n = 0; }", 4, "static"),
    "function pointer": ("__global__ void k(int* p) {\n int (*f)(int); }", 4, "pointers to functions"),
    "function as a value": ("__device__ int f(int x) { return x; }\n__global__ void k(int* p) { auto g = f; }", 4, "'f'|f as a value"),
    "recursion": ("__device__ int f(int x) { return x ? f(x - 1)\n : 0; }\n__global__ void k(int* p) { p[0] = f(3); }", 3, "recursion"),
    "endless template": (
        "template <int N> __device__ int f() {\n return f<N + 1>(); }\n__global__ void k(int* p) { p[0] = f<1>(); }", 0, "too deeply"
    ),
    "kernel launch": ("__global__ void k(int* p) {\n k<<<1, 1>>>(p); }", 4, "launch"),
    "call of a kernel": ("__global__ void j(int* p) { }\n__global__ void k(int* p) { j(p); }", 4, "call of the kernel"),
    "host code": ("int main() { return 0; }", 3, "code of the host"),
    "shuffle": ("__global__ void k(int* p) {\n p[0] = __shfl_down(p[0], 1); }", 4, "warp"),
    "ballot": ("__global__ void k(int* p) {\n p[0] = __ballot(1); }", 4, "warp"),
    "warpSize": ("__global__ void k(int* p) {\n p[0] = warpSize; }", 4, "warp"),
    "cooperative groups": ("namespace cg = cooperative_groups;", 3, "namespace"),
    "cooperative groups, used": ("__global__ void k(int* p) {\n auto g = cooperative_groups::this_thread_block(); }", 4, "::"),
    "texture": ("texture<float, 2> t;", 3, "texture"),
    "texture object": ("__global__ void k(float* p,\n hipTextureObject_t t) { }", 4, "texture"),
    "tex2D": ("__global__ void k(float* p) {\n p[0] = tex2D(p, 1, 2); }", 4, "texture"),
    "half": ("__global__ void k(__half* p) { }", 3, "half"),
    "threadfence": ("__global__ void k(int* p) {\n __threadfence(); }", 4, "fence"),
    "vote barrier": ("__global__ void k(int* p) {\n p[0] = __syncthreads_count(1); }", 4, "vote"),
    "clock": ("__global__ void k(long long* p) {\n p[0] = clock64(); }", 4, "clock"),
    "assert": ("__global__ void k(int* p) {\n assert(p[0]); }", 4, "end a kernel"),
    "malloc": ("__global__ void k(int* p) {\n malloc(4); }", 4, "memory functions"),
    "rounding": ("__global__ void k(float* p) {\n p[0] = __fadd_rn(p[0], 1.0f); }", 4, "rounding"),
    "unknown function": ("__global__ void k(float* p) {\n p[0] = frobnicate(1); }", 4, "frobnicate"),
    "unknown name": ("__global__ void k(float* p) {\n p[0] = q; }", 4, "'q'"),
    "unknown type": ("__global__ void k(float* p) {\n thing x; }", 4, "thing|';'"),
    "unknown atomic": ("__global__ void k(int* p) {\n atomicAdd_block(p, 1); }", 4, "atomic"),
    "atomic on short": ("__global__ void k(short* p) {\n atomicAdd(p, 1); }", 4, "short"),
    "atomic on a local": ("__global__ void k(int* p) { int x = 0;\n atomicAdd(&x, 1); }", 4, "neither in global nor in shared"),
    "variable of the host": ("int counter;", 3, "counter at file scope is neither __device__ nor __constant__"),
    "managed": ("__managed__ int counter;", 3, "managed"),
    "shared variable at file scope": ("__shared__ int counter;", 3, "counter"),
    "variable of another program": ("extern __device__ int counter;", 3, "nothing is linked"),
    "constant without a value": ("__constant__ const float w[3];", 3, "without an initializer"),
    "pointer variable": ("__device__ float* p;", 3, r"the variable p of type float\*"),
    "structure with a pointer as a variable": ("struct V { float* x; };\n__device__ V v;", 4, "variable v of type V"),
    "variable without a size": ("__device__ int a[];", 3, "array a without a size"),
    "second variable of this name": ("__device__ int a;\n__constant__ int a;", 4, "second 'a'"),
    "variable and function": ("__device__ int f() { return 1; }\n__device__ int f;", 4, "second 'f'"),
    "variable as a size": ("__constant__ int n = 4;\n__global__ void k(int* p) {\n int t[n]; }", 5, "not a constant integer"),
    "variable in an initializer": ("__constant__ int n = 4;\n__constant__ int m = n + 1;", 4, "n in the initializer"),
    "assignment to __constant__": ("__constant__ int c;\n__global__ void k(int* p) {\n c = p[0]; }", 5, "constant memory"),
    "step of __constant__": ("__constant__ int c[2];\n__global__ void k(int* p) {\n c[1]++; }", 5, "constant memory"),
    "assignment through a pointer": (
        "__constant__ int c;\n__device__ void f(int* p) {\n *p += 1; }\n__global__ void k(int* p) { f(&c); }", 5, "constant memory"
    ),
    "atomic on __constant__": ("__constant__ int c;\n__global__ void k(int* p) {\n atomicAdd(&c, 1); }", 5, "neither in global"),
    "variables of two kinds": (
        "__device__ int d;\n__constant__ int c;\n__global__ void k(int* p) { int* q = &d;\n if (p[0]) q = &c; }", 6,
        "global memory in one case and to __constant__ memory"
    ),
    "__constant__ or constant": (
        "const int d[2] = {1, 2};\n__constant__ int c[2];\n__global__ void k(int* p) {\n const int* q = p[0] ? c : d; }", 6,
        "__constant__ memory in one case and to constant memory"
    ),
    "device variable in a function": ("__global__ void k(int* p) {\n __device__ int x; }", 4, "__device__ here"),
    "reference in a kernel": ("__global__ void k(int& x) { }", 3, "reference"),
    "pointer to pointer": ("__global__ void k(int** x) { }", 3, "pointer"),
    "structure with a pointer": ("struct V { float* x; };\n__global__ void k(V v) { }", 4, "holds pointers"),
    "memory with pointers": ("struct V { V* next; int n; };\n__global__ void k(V* v) { }", 4, "holds pointers"),
    "shared and global": (
        "__global__ void k(int* p, int n) { __shared__ int t[4];\n int* q = p;\n q = t; }", 5, "shared memory"
    ),
    "shared or global": ("__global__ void k(int* p, int n) { __shared__ int t[4];\n int* q = n ? p : t; }", 4, "shared memory"),
    "returns both": (
        "__device__ int* f(int* a, int* b, int n) {\n if (n) return a;\n return b; }\n"
        "__global__ void k(int* p) { int x; *f(p, &x, 1) = 1; }", 5, "private memory"
    ),
    "address of an integer": ("__global__ void k(long long a) {\n int* p = (int*)a; *p = 1; }", 4, "cannot be told"),
    "variable length": ("__global__ void k(int* p, int n) {\n int a[n]; }", 4, "not a constant"),
    "address of a vector's element": ("__global__ void k(float4* p) {\n float* q = &p[0].x; }", 4, "vector"),
    "comparing vectors": ("__global__ void k(float4* p) {\n bool b = p[0] == p[1]; }", 4, "comparing vectors"),
    "mixing vectors": ("__global__ void k(float4* p, int4* q) {\n p[0] += q[0]; }", 4, "float4 and int4"),
    "wrong number of elements": ("__global__ void k(float4* p) {\n p[0] = make_float4(1, 2); }", 4, "2 values"),
    "modulo of floats": ("__global__ void k(float* p) {\n p[0] = p[0] % 2; }", 4, "%"),
    "pointer conversion": ("__global__ void k(float* p) {\n int* q = p; }", 4, r"float\* where a int\*"),
    "wrong argument": ("__device__ void f(int* p) { }\n__global__ void k(float* p) { f(p); }", 4, r"float\* where a int\*"),
    "too few arguments": ("__device__ void f(int a, int b) { }\n__global__ void k(int* p) { f(1); }", 4, "1 arguments: it takes 2"),
    "only declared": ("__device__ int f(int a);\n__global__ void k(int* p) { p[0] = f(1); }", 4, "f"),
    "deduction": ("template <typename T> __device__ T f() { return 1; }\n__global__ void k(int* p) { p[0] = f(); }", 4, "deduced"),
    "deduction, twice": (
        "template <typename T> __device__ T f(T a, T b) { return a; }\n__global__ void k(int* p) { f(1, 2.0f); }", 4, "at once"
    ),
    "reference to a value": ("__device__ void f(int& x) { }\n__global__ void k(int* p) {\n f(3); }", 5, "reference"),
    "reinterpret value": ("__global__ void k(float* p) {\n int i = reinterpret_cast<int&>(p[0]); }", 4, "reference"),
    "dynamic_cast": ("__global__ void k(float* p) {\n dynamic_cast<int*>(p); }", 4, "dynamic_cast"),
    "string": ("__global__ void k(float* p) {\n const char* s = \"text\"; }", 4, "string"),
    "printf without a format": ("__global__ void k(char* p) {\n printf(p); }", 4, "format"),
    "printf mismatch": ("__global__ void k(float* p) {\n printf(\"%d\", p[0]); }", 4, "float"),
    "printf, too few": ("__global__ void k(float* p) {\n printf(\"%f %f\", p[0]); }", 4, "fewer"),
    "threadIdx whole": ("__global__ void k(uint3* p) {\n p[0] = threadIdx; }", 4, "threadIdx"),
    "shared initializer": ("__global__ void k(int* p) {\n __shared__ int x = 1; }", 4, "initializer"),
    "shared pointer": ("__global__ void k(int* p) {\n __shared__ int* x; }", 4, "pointers in shared"),
    "second definition": ("__global__ void k(int* p) { }\n__global__ void k(float* p) { }", 3, "second definition"),
    "second variable": ("__global__ void k(int* p) { int a;\n int a; }", 4, "second 'a'"),
    "line": ("#line 7\n#line 1 \"a.hip\"\n__global__ void k(int* p) {\n auto f = [](int x) { return x; }; }", 6, "lambdas"),
    "line without a number": ("\n#line here\n__global__ void k(int* p) { }", 4, "#line here"),
    "pragma": ("#pragma clang fp contract(off)\n__global__ void k(int* p) { }", 3, "pragma"),
    "error": ("#error no way", 3, "no way"),
    "include": ("#include <vector>", 3, "vector"),
    "unbalanced": ("__global__ void k(int* p) {", 3, "'}'"),
    "bad token": ("__global__ void k(int* p) { p[0] = 1 @ 2; }", 3, "@"),
    "long double": ("__global__ void k(float* p) {\n p[0] = 1.0L; }", 4, "1.0L"),
    "void variable": ("__global__ void k(int* p) {\n void x; }", 4, "void"),
    "returning a value": ("__global__ void k(int* p) {\n return 1; }", 4, "void"),
    "kernel with a result": ("__global__ int k(int* p) { return 1; }", 3, "void"),
    "static_assert": ("static_assert(sizeof(int) == 8, \"wide\");", 3, "static assertion"),
    "in a macro": ("#define F(x) new x\n__global__ void k(int* p) {\n F(int); }", 5, "new"),
    "variadic": ("__device__ int f(int a, ...) { return a; }", 3, "any number"),
    "auto result": ("__device__ auto f(int a) { return a; }\n__global__ void k(int* p) { f(1); }", 3, "auto"),
    "dim3": ("__global__ void k(int* p) {\n dim3 d; }", 4, "dim3"),
    "std": ("__global__ void k(float* p) {\n p[0] = std::sqrt(p[0]); }", 4, "::"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_outside_of_the_subset_is_refused_with_its_line(name):
    program, line, words = REFUSALS[name]
    with pytest.raises(RefusedError, match=words) as caught:
        translate(HEAD + program, "some.hip")
    assert caught.value.line == line
    assert str(caught.value).startswith(f"some.hip:{line}: error: ")
    shown = str(caught.value).splitlines()[-1]
    assert not line or shown.strip() == (HEAD + program).splitlines()[line - 1].strip()
    assert isinstance(caught.value, ps.BuildError)


def test_a_header_has_lines_of_its_own():
    with pytest.raises(RefusedError) as caught:
        translate('#include "mine.h"\n', "some.hip", headers={"mine.h": "\nclass A;\n"})
    assert caught.value.place == ("mine.h", 2)
    assert "class A;" in str(caught.value)


@pytest.mark.parametrize(
    "junk", ["(" * 5000, "a" * 10_000, "{" * 3000, "#define A A A\nA", "\0", "/*", '"', "é", "#if", "#include"]
)
def test_junk_is_refused(junk):
    with pytest.raises(RefusedError):
        translate(f"__global__ void k(int* p) {{ p[0] = {junk}\n")


def test_the_compilers_errors_are_at_the_users_lines(device, needs_line_directives):
    # a const is written to: the translation leaves it to the compiler
    source = "\n" * 60 + "__global__ void k(const int* p,\n  int n) {\n\n  if (n)\n    p[0]\n = 1; }"
    with pytest.raises(ps.BuildError) as caught:
        device.program(translate(source, "some.hip").text)
    assert re.search(r"\b6[56]:", caught.value.log)


def test_a_return_before_a_barrier_is_worth_a_warning():
    source = """__device__ void wait() { __syncthreads(); }
        __global__ void k(int* p, int n) {
            if (threadIdx.x >= n) return;
            wait();
        }
        __global__ void fine(int* p) { wait(); if (p[0]) return; }"""
    (warning,) = translate(source, "some.hip").warnings
    assert warning.startswith("some.hip:3: warning:")
    assert "line 4" in warning
