"""What `tests.hip_collections` prints of a small collection of programs."""

import pytest
from click.testing import CliRunner

from forebay.hiprtc.clang import find_clang
from forebay.queues.drivers.selection import VARIABLE
from tests import hip_collections


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
__global__ void scale(T* x, T a) { x[threadIdx.x] = a * x[threadIdx.x] + twice(N) + TILE; }

template <int group, typename index_t, typename value_t>
__global__ void gather(value_t* x, index_t n) { x[n & group] += width; }

__global__ __launch_bounds__(64) void lane(int* x) { asm("wgmma.fence.sync.aligned;"); }

int main() {
    printf("}"); // {
#ifdef FAST
    scale<float, 4><<<1, 64>>>(x, 2.f);
    gather<32><<<1, 64>>>(x, n);
#endif
    return 0;
}
"""
HEADER = "#pragma once\n__device__ inline int twice(int n) { return 2 * n; }\nvoid host() { std::cout; }\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "program.cu").write_text(PROGRAM)
    (tmp_path / "shared.h").write_text(HEADER)
    (tmp_path / "page.py").write_text(
        'SOURCE = r"""extern "C" __global__ void k(int* x) { x[0] = 1; }"""\nOTHER = "x"\n'
    )
    (tmp_path / "types.h").write_text("typedef float real;\ntypedef real field;\n")
    (tmp_path / "kernel.cu").write_text("__global__ void k(field* x) { x[SIZE] = 1; }\n")
    (tmp_path / "Makefile").write_text("SIZE ?= 4\nFLAGS = -O2 -DSIZE=$(SIZE)\n")
    return tmp_path


@pytest.mark.needs("SPIR-V")
@pytest.mark.needs("no validation layer")  # its Devices live as long as the process
@pytest.mark.long
def test_table(folder, device):
    """Files are cut down to their kernels, with what they need of other files and of their build."""
    if find_clang()[0] is None:
        pytest.skip(find_clang()[1])
    done = run([str(folder), "--at-least", "99"], device)
    assert done.exit_code == 1
    assert "4 kernels: 3 loads, 1 does not compile" in done.output
    assert "assembly of a GPU" in done.output
    assert "of those that need nothing of the causes with a name 100.0 % load" in done.output
    done = run("--only", "page")
    assert done.exit_code == 0, done.output
