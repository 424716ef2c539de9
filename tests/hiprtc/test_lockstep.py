"""Warnings of kernels that rely on threads of a warp going on together."""

import pytest

pytestmark = pytest.mark.needs("a compiler of its own", "SPIR-V")

REDUCE = r"""
template <class T> __device__ void of_a_warp(volatile T* s, int i) {
    s[i] += s[i + 16]; SYNC
    s[i] += s[i + 8]; SYNC
    s[i] += s[i + 4];
}
extern "C" __global__ void reduce(int* x) {
    SHARED;
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < 32) of_a_warp(s, threadIdx.x);
    __syncthreads();
    x[threadIdx.x] = s[0];
}
extern "C" __global__ void other(int* x) { x[0] = 1; }
"""
LOOP = r"""
extern "C" __global__ void reduce(int* x, int n) {
    __shared__ volatile int s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    for (int k = n; k > 0; k /= 2) { int both = s[threadIdx.x] + s[threadIdx.x + k]; s[threadIdx.x] = both; SYNC }
    __syncthreads();
    x[threadIdx.x] = s[0];
}
"""
SHARED = ["__shared__ int s[64]", "extern __shared__ int s[]"]
WARNING = "warning: the kernel reduce reads volatile shared memory that other threads of a warp have written"


@pytest.mark.parametrize("source", [*(REDUCE.replace("SHARED", each) for each in SHARED), LOOP])
def test_steps_of_a_warp_without_a_barrier_are_warned_of(compiled, source):
    log = compiled(source.replace("SYNC", "")).made.log
    assert WARNING in log
    assert log.count("volatile") == 1
    for sync in ("__syncwarp();", "__syncthreads();"):
        assert "volatile" not in compiled(source.replace("SYNC", sync)).made.log


@pytest.mark.parametrize(
    "body",
    [
        "volatile int* flag = x; flag[0] = 1; while (flag[1] == 0) { }",
        "__shared__ int s[64]; s[threadIdx.x] = x[0]; x[1] = s[threadIdx.x + 1];",
        "__shared__ volatile int s[64]; s[threadIdx.x] = x[0]; x[1] = s[threadIdx.x];",
        "__shared__ volatile int s[64]; s[threadIdx.x] = x[0]; __syncthreads(); x[1] = s[threadIdx.x + 1];",
        "volatile int s[8]; for (int i = 0; i < 8; i++) s[i] = x[i]; x[0] = s[x[1]];",
    ],
)
def test_nothing_else_is_warned_of(compiled, body):
    assert "volatile" not in compiled(f'extern "C" __global__ void k(int* x) {{ {body} }}').made.log
