"""What kernels reach is never left out of a program: it does not compile, and the log says what does not."""

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data

pytestmark = pytest.mark.needs("a compiler of its own", "SPIR-V")

KERNEL = 'extern "C" __global__ void k(int* x) { x[0] = %s; }\n'

# What a kernel uses, beside the primary template, the outer name or the other function that would take its place.
REACHED = {
    "a specialization": (
        "template <class T> struct By { static const int n = 2; };\n"
        "template <> struct By<float> { static const int n = library::factor; };\n",
        "By<float>::n",
    ),
    "a partial specialization": (
        "template <class T> struct By { enum { n = 2 }; };\n"
        "template <class T> struct By<T*> : library::Base { enum { n = 3 }; };\n",
        "By<float*>::n",
    ),
    "a partial specialization for what is not known": (
        "template <class T, class = void> struct By { enum { n = 2 }; };\n"
        "template <class T> struct By<T, library::enable<T>> { enum { n = 3 }; };\n",
        "By<float>::n",
    ),
    "a statement of a function's specialization": (
        "template <class T> __device__ int by() { return 2; }\n"
        "template <> int by<float>() { int n = 1; n = library::factor; return n; }\n",
        "by<float>()",
    ),
    "a condition of a function's specialization": (
        "template <class T> __device__ int by() { return 2; }\n"
        "template <> int by<float>() { if (library::is_big) return 4; return 3; }\n",
        "by<float>()",
    ),
    "a function's specialization": (
        "template <class T> __device__ int by(T) { return 2; }\n"
        "template <> int by<float>(float) throw(library::Error) { return 3; }\n",
        "by(1.0f)",
    ),
    "a constructor's specialization": (
        "template <class T> struct By { int n; __device__ By(int) : n(2) {} };\n"
        "template <> By<float>::By(int m) : n(library::factor) {}\n",
        "By<float>(1).n",
    ),
    "a variable's specialization": (
        "template <class T> const int by = 2;\ntemplate <> const int by<float> = library::factor;\n", "by<float>"),
    "a member's specialization": (
        "template <class T> struct By { static const int n; };\ntemplate <class T> const int By<T>::n = 2;\n"
        "template <> const int By<float>::n = library::factor;\n",
        "By<float>::n",
    ),
    "a statement of a member that says elsewhere that it is the device's": (
        "struct By { __device__ int n(int); };\nint By::n(int m) { m = library::f(m); return m; }\n", "By().n(1)"),
    "a statement of a function behind a header's macro": (
        '#include "own.h"\nOF_BOTH int by(int m) { m = library::f(m); return m; }\n', "by(1)"),
    "a constexpr function behind a header's macro": (
        '#include "own.h"\nconstexpr int by(double) { return 2; }\nALWAYS int by(float) { return library::factor; }\n',
        "by(1.0f)",
    ),
    "a constant": ("const int by = 2;\nnamespace n { const int by = library::factor;\n", "by"),
    "a type": ("using by = int;\nnamespace n { using by = library::Type;\n", "sizeof(by)"),
    "a type of C": ("typedef int by;\nnamespace n { typedef library::Type by;\n", "sizeof(by)"),
    "a class": ("struct By { int n; };\nnamespace n { struct By { library::Type n[7]; };\n", "sizeof(By)"),
    "an enumeration": ("const int by = 2;\nnamespace n { enum Of { other, by = library::factor };\n", "by"),
    "a name of a library": ("__device__ int by() { return 2; }\nnamespace n { using library::by;\n", "by()"),
    "a template of types": (
        "template <class T> using by = T;\nnamespace n { template <class T> using by = library::Of<T>;\n",
        "sizeof(by<int>)",
    ),
    "a class within a class": (
        "struct In { int n; };\nstruct By { struct In { library::Type n[7]; };\n"
        "  static __device__ int n() { return sizeof(In); } };\n",
        "By::n()",
    ),
}  # fmt: skip
OWN = "#define OF_DEVICE __device__\n#define OF_BOTH __host__ OF_DEVICE inline\n#define ALWAYS constexpr\n"


@pytest.mark.parametrize("source", REACHED.values(), ids=list(REACHED))
def test_what_a_kernel_reaches_is_an_error(compiled, tmp_path, source):
    (tmp_path / "own.h").write_text(OWN)
    text, use = source
    kernel = KERNEL % use + ("}\n" if "namespace n {" in text else "")
    with pytest.raises(fb.BuildError) as caught:
        compiled(text + kernel, [f"-I{tmp_path}"])
    log = caught.value.log
    line = text[: text.index("library")].count("\n") + 1
    assert any(f"program.hip:{line}:" in each and "'library'" in each for each in log.splitlines()), log
    assert "by" in log.lower()
    assert "__forebay" not in log


OF_DEVICE = ("OF_BOTH", "ALWAYS", "By::n(int", "By { struct In", "By(int)")  # these stay errors
OF_HOST = {name: each for name, each in REACHED.items() if not any(word in each[0] for word in OF_DEVICE)}


def test_what_only_the_host_reaches_is_left_out(compiled):
    """The same, where the host only has it and a kernel uses something else."""
    source, lines = "", []
    for number, (text, use) in enumerate(OF_HOST.values()):
        source += f"namespace of{number} {{\n"
        lines.append((source + text[: text.index("library")]).count("\n") + 1)
        source += f"{text}int end() {{ return {use} + library::end(); }}\n" + "}\n" * (1 + ("namespace n {" in text))
    x = np.zeros(1, "i4")
    program = compiled(source + KERNEL % "5")
    program.run("k", 1, 1, x)
    assert device_data(x[0]) == 5
    log = program.made.log.splitlines()
    for line in lines:
        assert any(each.startswith(f"program.hip:{line}:") and "left out" in each for each in log), (line, log)
    assert "__forebay" not in program.made.log


def test_a_function_of_the_device_within_one_of_the_host_is_an_error(compiled):
    source = (
        "template <class F> __global__ void k(int* x, F f) { x[0] = f(x[0]); }\n"
        "int main() {\n    auto f = [] __device__ (int n) {\n        return library::of(n);\n    };\n"
        "    k<<<1, 1>>>((int*)0, f);\n}\n" + KERNEL % "1"
    )
    with pytest.raises(fb.BuildError) as caught:
        compiled(source)
    assert "program.hip:4:" in caught.value.log


def test_a_missing_header_is_named_beside_what_is_missed(compiled):
    source = "#include <some/library.hpp>\n#include <another/one.hpp>\n" + KERNEL % "library::factor"
    with pytest.raises(fb.BuildError) as caught:
        compiled(source)
    _, _, after = caught.value.log.partition("'library'")
    for name in ("some/library.hpp", "another/one.hpp"):
        assert f"note: the header {name} was not found" in after
