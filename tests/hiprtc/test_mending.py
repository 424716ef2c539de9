"""Programs that clang refuses as they are: members that say once where they run, and code of the host."""

import numpy as np
import pytest

import forebay as fb
from forebay.compiler.host_code import Mending, Program
from tests.helpers.device_data import device_data

from .results.tables import case, kernel_differences

MEMBERS = r"""
struct A {
    int v;
    A(int);
    int get() const;
    int twice();
    static int of_class(int);
    template <class T> T more(T) const;
    int* address();
    A operator+(const A&) const;
    operator int() const;
    __device__ int at_declaration() const;
    struct Inner { int z; int get() const; };
};
__device__ A::A(int x) : v(x) {}
__device__ int A::get() const { return v; }
__host__ __device__ int A::twice() { return 2 * v; }
__device__ int A::of_class(int x) { return x + 100; }
template <class T> __device__ T A::more(T x) const { return x + v; }
__device__ int* A::address() { return &v; }
__device__ A A::operator+(const A& o) const { return A(v + o.v); }
__device__ A::operator int() const { return -v; }
int A::at_declaration() const { return v + 1000; }
__device__ int A::Inner::get() const { return z * 5; }
template <class T> struct Of { T v; T get() const; void set(T); __device__ T at_declaration() const; };
template <class T> __device__ T Of<T>::get() const { return v; }
template <class T> __host__ __device__ void Of<T>::set(T x) { v = x; }
template <class T> T Of<T>::at_declaration() const { return v / 2; }
namespace n { int triple(int); }
__device__ int n::triple(int x) { return 3 * x; }
__host__ __device__ float both(float);
float both(float x) { return x * 0.5f; }
extern "C" __global__ void all(const int* x, int* out, float* f) {
    int i = threadIdx.x, n = 32;
    A a(x[i]);
    A::Inner inner{x[i]};
    Of<float> o;
    o.set(x[i]);
    int values[] = {a.get(), a.twice(), A::of_class(x[i]), a.more(7), *a.address(), (a + a).v, int(a),
                    a.at_declaration(), inner.get(), n::triple(x[i])};
    for (int k = 0; k < 10; k++)
        out[k * n + i] = values[k];
    f[i] = o.get() + o.at_declaration() + both(x[i]);
}
"""


@pytest.mark.needs("a compiler of its own", "SPIR-V")
def test_members_that_say_in_one_declaration_only_where_they_run(device, queue):
    x, out, f = np.arange(-7, 25, dtype="i4"), np.zeros(320, "i4"), np.zeros(32, "f4")
    assert (
        device_data(kernel_differences(device, queue, {"members": case(MEMBERS, 1, 32, x, out, f, kernel="all")})) == []
    )


HOST = r"""
#include <some_library/that_is_not_here.hpp>
#include <thread>
template <class T, int N> __global__ void scale(T* x) { x[threadIdx.x] *= N; }
template <class T> __global__ void shift(T* x, T by) { x[threadIdx.x] += by; }
template <class T> __global__ void negate(T* x) { x[threadIdx.x] = -x[threadIdx.x]; }
library::Type a_global;
library::Type declared(int);
struct Timer { library::Clock clock; void start() { clock.start(); } };
class Held {
    int value;
public:
    __host__ __device__ Held(int v) : value(v) {}
    __device__ int get() const { return value; }
    void save(library::File& file) { file << value; }
    library::Thread thread;
};
inline int max(int a, int b) { return a > b ? a : b; }
template <class T> void run(library::Handle handle, T* x) { scale<T, 4><<<1, 32>>>(x, handle); }
int main(int argc, char** argv) {
    library::init(&argc, &argv);
    float* x = nullptr;
    for (auto each : library::all()) { library::use(each); }
    if (library::rank() == 0) printf("first\n");
    std::thread worker([&] { library::work(); });
    shift<<<1, 32>>>(x, 2.0f);
    auto* data = library::data();
    negate<int><<<1, 32>>>(data);
    hipLaunchKernelGGL(HIP_KERNEL_NAME(scale<double, 3>), dim3(1), dim3(32), 0, library::stream(), data);
    return library::finish();
}
extern "C" __global__ void held(int* x) { x[0] = max(x[0], sizeof(int)); }
"""


@pytest.mark.needs("a compiler of its own", "SPIR-V")
@pytest.mark.long
def test_code_of_the_host_that_does_not_compile_is_left_out(compiled):
    source = HOST.replace("    library::Thread thread;\n", "")
    program = compiled(source)
    floats, doubles, numbers = (np.arange(32, dtype=kind) for kind in ("f4", "f8", "i4"))
    program.run("shift<float>", 1, 32, floats, np.float32(2))
    program.run("scale<double, 3>", 1, 32, doubles)
    program.run("negate<int>", 1, 32, numbers)
    assert np.array_equal(device_data(floats), np.arange(32) + 2)
    assert np.array_equal(device_data(doubles), np.arange(32) * 3)
    assert np.array_equal(device_data(numbers), -np.arange(32))
    log = program.made.log
    place = source[: source.index("library::finish")].count("\n") + 1
    assert f"program.hip:{place}:" in log
    assert "warning: a statement of the host is left out: use of undeclared identifier 'library'" in log
    assert "warning: the header some_library/that_is_not_here.hpp is left out" in log


@pytest.mark.needs("a compiler of its own", "SPIR-V")
def test_headers_on_the_disk_are_read_in_another_way_and_stay(compiled, tmp_path):
    header = tmp_path / "scaled.h"
    text = "struct S { float by; float of(float) const; };\n__device__ float S::of(float x) const { return x * by; }\n"
    text += "inline void save() { library::File file; file.write(1); }\n"
    text += '__device__ unsigned lane() { unsigned n; asm("mov.u32 %0, %laneid;" : "=r"(n)); return n; }\n'
    header.write_text(text)
    source = '#include "scaled.h"\nextern "C" __global__ void scale(float* x, S s) { x[threadIdx.x] = s.of(lane()); }'
    x = np.zeros(32, "f4")
    program = compiled(source, [f"-I{tmp_path}"])
    program.run("scale", 1, 32, x, np.float32(3))
    assert np.array_equal(device_data(x), np.arange(32) * 3)
    assert f"{header}:3:" in program.made.log
    assert header.read_text() == text


@pytest.mark.needs("a compiler of its own", "SPIR-V")
def test_any_number_of_headers_may_be_missing(compiled):
    headers = "".join(f"#include <library/{number}.h>\n" for number in range(20))
    program = compiled(f"{headers}library::Type of();\n__global__ void k(int*) {{}}")
    assert program.made.log.count("warning: the header library/") == 20


@pytest.mark.needs("a compiler of its own", "SPIR-V")
@pytest.mark.parametrize("host", [
    "struct Error : std::exception { const char* what() const noexcept override { return nullptr; } };\nint f() { throw Error(); }",
    '#include <filesystem>\n#include <fstream>\nvoid f(std::filesystem::path folder) { std::ifstream file(folder / "name"); }',
])  # fmt: skip
def test_what_the_host_does_with_the_library_of_cpp_stays(compiled, host):
    log = compiled(f"{host}\nlibrary::Type of();\n__global__ void k(int*) {{}}").made.log
    assert log.count("left out") == 1


def test_a_function_that_stays_wrong_loses_its_body():
    program = Program("void f() { k<int><<<1, 1>>>(0); bad; }", kernels={"k"})
    assert program.leave_out(20, whole=True)
    assert program.text() == "void f() {(void)&k<int>;::__forebay_left_out<0>();}"


@pytest.mark.needs("a compiler of its own", "SPIR-V")
@pytest.mark.parametrize(("source", "line", "what"), [
    (HOST + "__global__ void wrong(int* x) { x[0] = no_such_name; }", -1, "no_such_name"),
    (HOST + "__device__ int wrong(int x) { return library::of_device(x); }", -1, "'library'"),
    (HOST + '#include "own.h"', -1, "'own.h' file not found"),
    (HOST + "__constant__ library::Type value;", -1, "'library'"),
    (HOST + "__global__ void wrong(int* x, Held h) { x[0] = h.get(); }", "library::Thread thread;", "'library'"),
    (
        "struct A { int f(); };\n__device__ int A::f() const { return 1; }\n__global__ void k() { }",
        2,
        "'f' does not",
    ),
])  # fmt: skip
def test_errors_of_the_device_stay_errors(compiled, source, line, what):
    number = line if isinstance(line, int) else source[: source.index(line)].count("\n") + 1
    number = source.count("\n") + 1 if number < 0 else number
    with pytest.raises(fb.BuildError) as caught:
        compiled(source)
    assert any(each.startswith(f"program.hip:{number}:") and what in each for each in caught.value.log.split("\n"))


LEFT_OUT = {
    "int main() { a(); b(bad); c(); }": "int main() { a(); GONE; c(); }",
    "void f() { for (x : bad) { y(); } }": "void f() { for (;GONE;) { y(); } }",
    "void f() { if (a) g(); else if (bad) h(); }": "void f() { if (a) g(); else if (GONE) h(); }",
    "void f() { if (a) { g(bad); } }": "void f() { if (a) { GONE; } }",
    "void f() { if constexpr (a) { g(bad); } }": "void f() { if constexpr (a) { GONE; } }",
    "void f() { try { g(); } catch (bad e) { } }": "void f() { try { g(); } catch (...) { } }",
    "void f() { auto l = [] { bad; }; g(); }": "void f() { GONE; g(); }",
    "void f() { k<int, 3><<<g, b>>>(bad); }": "void f() { (void)&k<int, 3>;GONE; }",
    "void f() { launch(bad, n::k<A<3>>, other<int>); }": "void f() { (void)&n::k<A<3>>;GONE; }",
    "void f() { (void)&k<bad>; }": "void f() { GONE; }",
    "void f() {\n#if X\n  g(1,\n#else\n  g(bad,\n#endif\n  2); h(); }": "void f() {\n#if X\n  g(1,\n#else\n  GONE;\n#endif\n h(); }",
    "void f() { g(bad,\n#ifdef X\n 1,\n#endif\n 2); }": "void f() { GONE;\n#ifdef X\n\n#endif\n }",
    # both branches open the brace that is closed once
    "__device__ void d() {\n#if X\n  for (;;) {\n#else\n  if (1) {\n#endif\n} }\nvoid f() { bad; }": (
        "__device__ void d() {\n#if X\n  for (;;) {\n#else\n  if (1) {\n#endif\n} }\nvoid f() { GONE; }"
    ),
    "KERNELS(int)\nTEST(a) { bad; }": "KERNELS(int)\nTEST(a) { GONE; }",
    "KERNELS(bad)\nTEST(a) { f(); }": None,
    "namespace n { bad x; int y; }": "namespace n { extern TYPE x; int y; }",
    "bad f(int) { return 1; } int y;": " int y;",
    'extern "C" { bad x; }': 'extern "C" { extern TYPE x; }',
    "struct S { bad m; int n; };": "struct S;",
    "struct S { bad m; __device__ int n(); };": "struct S;",
    "OF_LIBRARY class S { constexpr int n = 1; void f() { bad; } };": "OF_LIBRARY class S { constexpr int n = 1; void f() { GONE; } };",
    "template <class T> class S : public bad { constexpr int n = 1; };": "template <class T> class S;",
    "struct S { bad m(); __device__ int n(); };": "struct S {  __device__ int n(); };",
    "struct S { int m() { bad; } __device__ int n(); };": "struct S { int m() { GONE; } __device__ int n(); };",
    "#define HD __device__\nHD int f() { return bad; }": None,
    "S::S(int n) : m(bad) { f(); } int y;": "S::S(int n) { GONE; } int y;",
    "struct S : bad { int n; } x, *y;": "struct S; extern TYPE x, y;",
    "typedef struct { bad n; } S;": " typedef TYPE S;",
    "typedef struct S_ { bad n; } S, *P;": "struct S_; typedef TYPE S, P;",
    "template <> struct A<int> : B<int> { bad n; };": "template <> struct A<int>;",
    "struct S { struct In { bad n; }; __device__ int n(); };": "struct S { struct In; __device__ int n(); };",
    "using S = bad::S; int y;": "typedef TYPE S; int y;",
    "static bad<int, 3> x = 1, y[4]{5};": "extern TYPE x, y;",
    "static_assert(bad); int y;": " int y;",
    "using namespace bad; int y;": " int y;",
    "void f() { auto l = [] __device__ (int n) { bad; }; }": None,
    "__attribute__((host)) __attribute__((device)) int f() { bad; }": None,
    "__global__ void k() { bad; }": None,
    "__constant__ bad x;": None,
    "constexpr int f() { return bad; }": None,
}


@pytest.mark.parametrize("text", LEFT_OUT)
def test_what_is_left_out(text):
    program = Program(text, ["KERNELS"], {"k"}, [text.index("bad")], {"KERNELS"})
    left = LEFT_OUT[text]
    done = program.leave_out(text.index("bad"))
    expected = left and left.replace("GONE", "::__forebay_left_out<0>()").replace("TYPE", "::__forebay_is_left_out")
    assert (program.text() if done else None) == expected


def test_a_log_that_says_nothing_known_mends_nothing():
    mending = Mending("p.hip", "int main() { bad; }", lambda path: None)
    assert not mending.mend("clang was ended by SIGSEGV")
    assert not mending.mend("other.h:1:1: error: bad")
    assert mending.mend("p.hip:1:14: error: bad") == {"p.hip"}
    assert mending.texts == {"p.hip": "int main() { ::__forebay_left_out<0>(); }"}


@pytest.mark.needs("a compiler of its own", "SPIR-V")
@pytest.mark.parametrize(
    "source", ["", "int main() { return unknown(); }", "template <class T> __global__ void k() { }"]
)
def test_a_program_without_kernels_compiles_as_by_other_compilers(compiled, source):
    log = compiled(source).made.log
    assert log.endswith("program.hip: warning: the program has no kernel")
    told = "program.hip:1:21: warning: a statement of the host is left out: use of undeclared"
    assert ("unknown" in source) == (told in log)


@pytest.mark.needs("a compiler of its own", "SPIR-V")
def test_a_kernel_that_the_host_only_hands_on_is_made(compiled):
    source = """template <int N> __launch_bounds__(64) __global__ void scale(float* x) { x[threadIdx.x] *= N; }
template <int N> void run(library::Queue queue) {
    auto kernel = scale<N>;
    queue.launch(kernel); }
int main() { constexpr int n = 3; library::cooperative((const void*)scale<n>, library::queue()); run<4>(); }
template void run<5>(library::Queue);
"""
    program = compiled(source)
    x = np.arange(32, dtype="f4")
    program.run("scale<3>", 1, 32, x)
    assert np.array_equal(device_data(x), np.arange(32) * 3)
