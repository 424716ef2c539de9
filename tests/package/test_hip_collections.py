"""Cutting files down to their kernels, and the table of what became of them."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from forebay.hiprtc.clang import find_clang
from forebay.queues.drivers.selection import VARIABLE
from tests import hip_collections
from tests.helpers.hip_builds import asked_at, declaration_of, defined_under, macros_for
from tests.helpers.hip_instances import Instances
from tests.helpers.hip_sources import Collection, guessed, host_functions, items, with_types, without
from tests.hip_collections import scoped


def run(arguments, device):
    """The program's result; it chooses a device for its whole process, which ends with the call here."""
    return CliRunner(env={VARIABLE: device.name}).invoke(hip_collections.main, [*arguments, "--device", device.name])


PROGRAM = r"""
#include <cstdio>
#include <thrust/device_vector.h>
#include "shared.h"

struct Timer { std::chrono::steady_clock::time_point start; void stop(); };
void prototype(Timer&);

template <typename T, int N>
__global__ void scale(T* x, T a) { x[threadIdx.x] = a * x[threadIdx.x] + twice(N); }

__global__ __launch_bounds__(64) void lane(int* x) { asm("wgmma.fence.sync.aligned;"); }

int main() {
    printf("}"); // {
#ifdef FAST
    scale<float, 4><<<1, 64>>>(x, 2.f);
#endif
    return 0;
}
"""
HEADER = (
    "#pragma once\n__device__ inline int twice(int n) { return 2 * n; }\n#define SIZE 3\nvoid host() { std::cout; }\n"
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "program.cu").write_text(PROGRAM)
    (tmp_path / "shared.h").write_text(HEADER)
    (tmp_path / "page.py").write_text(
        'SOURCE = r"""extern "C" __global__ void k(int* x) { x[0] = 1; }"""\nOTHER = "x"\n'
    )
    return tmp_path


def test_cutting(folder):
    seen = set()
    text = Collection(folder, Path()).flatten(folder / "program.cu", seen)
    assert seen == {folder / "program.cu", folder / "shared.h"}
    cut = without(text, host_functions(text))
    assert [item.name for item in items(cut) if item.kind == "kernel"] == ["scale", "lane"]
    for gone in ("main", "prototype", "host()", "thrust", "printf"):
        assert gone not in cut
    for kept in ("twice(int n)", "#define SIZE 3", "struct Timer", "#ifdef FAST", "#endif"):
        assert kept in cut
    assert cut.count("\n") == text.count("\n")


def test_instances():
    assert Instances(PROGRAM).of("scale") == ["scale<float, 4>"]
    through = """template <class T, class Op> void run(T* x) { constexpr int N{2 * 8}; scale<T, N, Op><<<1, N>>>(x); }
        int main() { run<double, Sum<double>>(x); }"""
    assert Instances(through).of("scale")[0] == "scale<double, (2 * 8), Sum<double>>"
    assert guessed("template <class T, unsigned N, bool B, int D = 1> __global__ void k(T*)", "k") == [
        "k<float, 16, true>", "k<int, 16, true>", "k<unsigned, 16, true>",
    ]  # fmt: skip
    assert (
        guessed("template <typename T, typename BinaryOp> __global__ void k(T*)", "k")[0]
        == "k<float, std::plus<float>>"
    )


def test_what_a_build_and_other_files_give(folder):
    # The value of a -D ends at a comma.
    (folder / "Makefile").write_text(
        "TILE ?= 32\nSIZE =\nFLAGS = -DTILE=$(TILE) -DUSE_IT,-DSIZE=$(SIZE) -DA=$(UNKNOWN)\n"
    )
    (folder / "CMakeLists.txt").write_text("target_compile_definitions(program PRIVATE ROWS=4 -DCOLUMNS=5)\n")
    (folder / "other.cu").write_text("static const float width = 3;\n__constant__ int table[4];\nint on_host = 2;\n")
    path, collection = folder / "program.cu", Collection(folder, Path())
    assert macros_for(path, folder) == {
        "TILE": "32", "USE_IT": "1", "SIZE": "16", "ROWS": "4", "COLUMNS": "5",
    }  # fmt: skip
    text = "#ifdef USE_IT\n#if LEVEL >= 30\n#define BLOCK 4\n__global__ void k() {}\n#endif\n#endif\n"
    assert asked_at(text, text.index("__global__")) == {"USE_IT": "1", "LEVEL": "30"}
    assert defined_under(text, "BLOCK") == {"USE_IT": "1", "LEVEL": "30"}
    assert declaration_of("table", path, collection) == "__constant__ int table[4];"
    assert declaration_of("width", path, collection) == "static const float width = 3;"
    assert not declaration_of("on_host", path, collection)
    assert hip_collections.last_name("9square_mei") == "square_me"
    assert hip_collections.last_name("N8particle7advanceEf") == "advance"


def test_instances_that_a_launch_leaves_open():
    """A launch names the first arguments, the others come from its parameters: an index is no float."""
    text = """template <int group, typename index_t, typename value_t> __global__ void k(value_t* x, index_t n) {}
        template <class Offset, class T> __global__ void l(T* x, Offset n) {}
        template <typename T> concept Number = true;
        template <Number T, std::integral I> __global__ void m(T* x, I n) {}
        int main() { k<32><<<1, 32>>>(x, n); l<<<1, 32>>>(x, n); }"""
    assert Instances(text).of("k") == ["k<32, int, float>"]
    heads = text.split("}")
    assert guessed(heads[1], "l") == ["l<int, float>", "l<int, int>", "l<unsigned, unsigned>"]
    assert guessed(with_types(heads[2].split(";")[1], text), "m")[0] == "m<float, int>"


def test_names_with_the_namespaces_that_clang_knows():
    log = "k.hip:9:2: error: use of undeclared identifier 'best'; did you mean 'sgm::best'?"
    assert scoped([["sgm::k<64, best<64>>"]], log) == [["sgm::k<64, sgm::best<64>>"]]
    assert not scoped([["sgm::k<64, sgm::best<64>>"]], log)
    assert not scoped([["k<64, best>"]], "k.hip:9:2: error: use of undeclared identifier 'best'; did you mean 'rest'?")


@pytest.mark.needs("SPIR-V")
@pytest.mark.needs("no validation layer")  # its Devices live as long as the process
@pytest.mark.long
def test_table(folder, device):
    if find_clang()[0] is None:
        pytest.skip(find_clang()[1])
    done = run([str(folder), "--at-least", "99"], device)
    assert done.exit_code == 1
    assert "3 kernels: 2 loads, 1 does not compile" in done.output
    assert "assembly of a GPU" in done.output
    assert "of those that need nothing of the causes with a name 100.0 % load" in done.output
    done = run([str(folder), "--only", "page"], device)
    assert done.exit_code == 0, done.output
