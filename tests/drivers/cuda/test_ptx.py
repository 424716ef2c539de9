"""What is read from PTX, whoever wrote it."""

import pytest

from forebay.compiler.program import DriverSource
from forebay.queues.cuda.nvrtc import without_facts
from forebay.queues.cuda.ptx import MOVES, OWN_KERNELS, accesses_of, read_ptx
from forebay.queues.memory.shapes import SOURCE, UNITS
from tests.drivers.cuda.kernel_declarations import read_kernels

pytestmark = pytest.mark.needs("no device of another driver than CUDA")

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"


def entry(text):
    return read_ptx(HEAD + text).entries[0]


def test_parameters():
    found = entry(
        """.visible .entry k(
        .param .u64 k_param_0, // a comment, with a , in it
        .param .u64 .ptr .global .align 4 k_param_1,
        .param .align 8 .b8 k_param_2[24], .param .f32 k_param_3,
        .param .u64 .ptr .shared .align 16 k_param_4,
        .param .b8 k_param_5 [2][3], .param .u64 .ptr .const .align 4 k_param_6
        ) { ret; }"""
    )
    assert [each[1:] for each in found.parameters] == [
        ("u64", 8, 8, False, ""), ("u64", 8, 8, True, "global"), ("b8", 24, 8, False, ""), ("f32", 4, 4, False, ""),
        ("u64", 8, 16, True, "shared"), ("b8", 6, 1, False, ""), ("u64", 8, 8, True, "const"),
    ]  # fmt: skip
    assert found.parameters[0].name == "k_param_0"


@pytest.mark.parametrize(("use", "is_pointer"), [
    ("cvta.to.global.u64 %rd2, %rd1;", True), ("ld.global.u32 %r1, [%rd1+-8];", True),
    ("st.global.u32 [%rd1], %r1;", True), ("add.s64 %rd2, %rd1, 8;", False), ("// st.global.u32 [%rd1], %r1;", False),
])  # fmt: skip
def test_a_number_that_is_used_as_an_address_is_a_pointer(use, is_pointer):
    found = entry(f".entry k(.param .u64 p)\n{{ .reg .b64 %rd<3>; ld.param.u64 %rd1, [p];\n{use}\nret; }}")
    assert found.parameters[0].is_pointer is is_pointer


@pytest.mark.parametrize(
    ("directive", "block"),
    [(".reqntid 8, 4, 2", (8, 4, 2)), (".reqntid 64", (64, 1, 1)), (".maxntid 128, 1, 1\n.minnctapersm 2", (0, 0, 0))],
)
def test_blocks(directive, block):
    assert entry(f".entry k()\n{directive}\n{{ ret; }}").required_block == block


def test_shared_memory():
    text = """
    .extern .shared .align 16 .b8 words[];
    .shared .align 4 .b8 unused[64];
    .func (.param .b32 r) helper(.param .b32 a) { mov.u64 %rd1, words; ret; }
    .func other();
    .visible .entry a(.param .u64 words_param_0) { .shared .align 8 .b8 one[20]; .shared .f64 two[2]; ret; }
    .visible .entry b() { { call (r), helper, (a); } ret; }
    .entry c() { mov.u64 %rd1, words; }
    """
    entries = read_ptx(HEAD + text).entries
    assert {each.name: each.dynamic_shared for each in entries} == {"a": False, "b": True, "c": True}


def test_variables():
    text = """
    .visible .global .align 4 .u32 count = 5;
    .const .align 8 .b8 table[16] = {1, 0, 3};
    .global .attribute(.managed) .align 8 .v4 .f32 moved[2][3];
    .extern .global .align 4 .b8 elsewhere[4];
    /* .global .u32 commented; */
    .entry k() { .local .b8 depot[8]; .shared .b8 mine[3]; ret; }
    """
    assert read_ptx(HEAD + text).variables == {"count": 4, "table": 16, "moved": 96}


def test_nothing():
    assert read_ptx(HEAD + "\0") == ((), {})
    assert read_ptx("") == ((), {})


def test_own_kernels_are_called_like_those_in_opencl_c():
    source = read_kernels("".join(SOURCE.replace("UNIT", name) for name in UNITS.values()))
    assert source.keys() == MOVES.keys()
    entries = {each.name: each for each in read_ptx(OWN_KERNELS).entries}
    for name, kernel in source.items():
        expected = [(each.name, each.type_name, each.kind, each.read_only) for each in kernel.parameters]
        assert [(each.name, each.type_name, each.kind, each.read_only) for each in MOVES[name]] == expected
        assert [each.name for each in entries[name].parameters] == [f"p_{each.name}" for each in MOVES[name]]
        assert {each.nbytes for each in entries[name].parameters} == {8}


# What it shows to be done with the memory that a kernel's pointers lead to


ACCESSES = """
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
    program = nvrtc.compile(DriverSource(ACCESSES, "access.cu", {}, [], []))
    shown = without_facts(program.code)[3]
    assert shown == SHOWN
