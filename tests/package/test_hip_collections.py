"""The table of what becomes of kernels in other people's files, which are cut down to their kernels first."""

import pytest
from click.testing import CliRunner

from forebay.hiprtc.clang import find_clang
from forebay.queues.drivers.selection import VARIABLE
from tests import hip_collections

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
FILES = {
    "program.cu": PROGRAM,
    "shared.h": HEADER,
    "page.py": 'SOURCE = r"""extern "C" __global__ void k(int* x) { x[0] = 1; }"""\nOTHER = "x"\n',
    # What a build and other files give, and what that needs itself.
    "Makefile": "TILE ?= 32\nall:\n\tnvcc -Xcompiler -Wall,-DTILE=$(TILE),-DCODE=4 -DOTHER=$(NOWHERE)\n",
    "other.cu": "typedef float real;\n#define SIZE 4\nstatic const real width = SIZE;\nint on_host = 2;\n",
}


@pytest.mark.needs("SPIR-V", "no validation layer")  # its Devices live as long as the process
@pytest.mark.long
def test_table(tmp_path, device):
    if find_clang()[0] is None:
        pytest.skip(find_clang()[1])

    def run(*options):
        arguments = [str(tmp_path), *options, "--device", device.name]
        return CliRunner(env={VARIABLE: device.name}).invoke(hip_collections.main, arguments)

    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    done = run("--at-least", "99")
    assert done.exit_code == 1
    assert "4 kernels: 3 loads, 1 does not compile" in done.output, done.output
    assert "assembly of a GPU" in done.output
    assert "of those that need nothing of the causes with a name 100.0 % load" in done.output
    done = run("--only", "page")
    assert done.exit_code == 0, done.output
