"""What PTX shows to be done with the memory that a kernel's pointers lead to."""

import pytest

from forebay.queues.cuda.nvrtc import without_facts
from forebay.queues.cuda.ptx import accesses_of
from forebay.queues.kernels.parameters import CppSource

pytestmark = pytest.mark.needs("no device of another driver than CUDA")

SOURCE = """
__device__ __noinline__ float look(float *p, int i) { return p[i]; }
extern "C" {
__global__ void all(float *y, float *x, int *n, float **where, float *kept, double *s, int count)
{
    int i = threadIdx.x;
    if (i < count) { y[i] += x[i]; atomicAdd(n + (int) x[0], 1); where[0] = kept; }
    for (double *at = s; at < s + count; at += 2) y[0] += *at;
}
__global__ void called(float *y, float *x) { y[threadIdx.x] = look(x, threadIdx.x); }
__global__ void chosen(int *y, int *a, int *b, int first) { *y = (first ? a : b)[3]; }
__global__ void chosen_to(int *y, int *a, int *b, int first) { (first ? a : b)[3] = *y; }
__global__ void vectors(float4 *y, float4 *x) { y[0] = x[1]; }
__global__ void shared(float *y, float *x)
{
    __shared__ float here[32];
    here[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = here[31 - threadIdx.x];
}
}
"""
SHOWN = {
    "all": ["writes", "reads", "atomics", "writes", "", "reads", "reads"], "called": ["writes", ""],
    "chosen": ["writes", "reads", "reads", "reads"], "chosen_to": ["reads", "writes", "writes", "reads"],
    "vectors": ["writes", "reads"], "shared": ["writes", "reads"],
}  # fmt: skip
BY_HAND = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 k_0, .param .u64 k_1, .param .u64 k_2, .param .u64 k_3, .param .u64 k_4)
{
    .reg .pred %p<2>;
    .reg .b32 %r<5>;
    .reg .b64 %rd<20>;
    .loc 1 2 3
    ld.param.u64 %rd1, [k_0]; ld.param.u64 %rd2, [k_1];
    ld.param.u64 %rd3, [k_2];
    ld.param.u64 %rd4, [k_3];
    ld.param.u64 %rd10, [k_4];
    .loc 1 3 3
AGAIN:
    ld.global.u32 %r1, [%rd5+4];
    mov.b64 {%r2, %r3}, %rd2;
    mov.b64 %rd5, {%r2, %r3};
    add.s64 %rd1, %rd1, 4;
    setp.lt.u64 %p1, %rd1, %rd2;
    @%p1 bra AGAIN;
    red.global.add.u32 [%rd3], %r1;
    { // a block of its own
    st.local.u64 [%rd6], %rd4;
    }
    st.global.v2.u32 [%rd10], {%r1, %r1};
    ret;
}
"""


@pytest.mark.needs("no chosen device")
def test_of_text_written_by_hand():
    assert accesses_of(BY_HAND, "k") == ["reads", "reads", "atomics", "", "writes"]
    assert accesses_of(BY_HAND, "other") == []
    assert accesses_of(BY_HAND.replace("AGAIN:", "AGAIN: ???;"), "k") == []


def test_of_what_nvrtc_makes(nvrtc):
    program = nvrtc.compile(CppSource(SOURCE, "access.cu", {}, [], []))
    shown = without_facts(program.code)[3]
    assert shown == SHOWN
