"""Headers that have several names, libraries of the host, and programs with their host functions."""

import numpy as np
import pytest

from forebay.hiprtc.clang import INCLUDE
from forebay.hiprtc.header_names import names

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


def test_every_name_means_a_header():
    for name, header in names().items():
        assert (INCLUDE / header).is_file(), (name, header)


@pytest.mark.executes
def test_all_names_compile_together(compiled):
    """Each twice, as files that include each other do."""
    given = [name.removeprefix("cuda/") for name in names()]
    included = "\n".join(f"#include <{name}>" for name in (*given, *reversed(given)))
    out = np.zeros(1, "i4")
    compiled(f'{included}\nextern "C" __global__ void k(int* out) {{ out[0] = 5; }}').run("k", 1, 1, out)
    assert out[0] == 5


@pytest.mark.executes
def test_a_program_with_its_host_functions(compiled):
    """Clang reads them, with launches, and leaves them out."""
    built = compiled(WHOLE, names=["count<int>"])
    out = np.zeros(100, "i4")
    built.run("count<int>", 1, 128, out, np.int32(100))
    assert np.array_equal(out, 3 * np.arange(100))
    built.run("plain", 1, 32, out)
    assert np.array_equal(out[:32], np.arange(32) + 7)
