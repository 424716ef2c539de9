"""What is read from PTX, whoever wrote it."""

import pytest

from forebay.queues.cuda.ptx import MOVES, OWN_KERNELS, read_ptx
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
