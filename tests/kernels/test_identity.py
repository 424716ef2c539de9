"""Ids of kernels and tasks: the hash is FNV-1a, no two tasks share an id, and each process gives the same ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import forebay as fb
from forebay.compiler.cache import key_of
from forebay.queues.kernels.program import Identities, content_id

DIGEST = key_of("a program")
NAMES = {"fill": 1, "blur": 4, "reduce": 3}  # with the number of parameters


# The hash


def test_ids_never_change():
    """What is here was written down once: another version of forebay must give the same."""
    assert [content_id("d", "k", task) for task in range(3)] == [3502162470, 3518940089, 3468607232]
    assert content_id(DIGEST, "µ", 12) == 1068480175
    assert key_of("program", "kernel void k() {}", "-DN=1")[:8] == "7f4c6c8a"


# The table


@pytest.mark.parametrize("bits", [2, 3, 32])
def test_no_two_share_an_id_whatever_the_order_of_kernels(bits):
    table, other = Identities(DIGEST, NAMES, bits=bits), Identities(DIGEST, dict(reversed(NAMES.items())), bits=bits)
    ids = [table.of(name) for name in NAMES]
    assert ids == [other.of(name) for name in NAMES]
    assert len({0, *ids}) == 4
    assert all(0 < identity < 2**bits for identity in ids)


def test_a_full_table_says_so_and_stays_as_it_was():
    table = Identities(DIGEST, NAMES, bits=2)
    with pytest.raises(fb.InvalidArgumentError, match="all 3 ids"):
        table.of("fill", 1)
    assert sorted(table.of(name) for name in NAMES) == [1, 2, 3]


@pytest.mark.parametrize("task", [("fil", 0), ("fill", -1), ("fill", 2), ("", 0), ("", 1)])
def test_a_task_that_is_not_the_programs_is_refused(task):
    with pytest.raises(fb.InvalidArgumentError, match=repr(task[0])):
        Identities(DIGEST, NAMES).of(*task)


def model(bits, tasks):
    """Linear probing as a textbook has it: an array of slots, of which the first is never used."""
    slots = ["nobody"] + [None] * (2**bits - 1)
    for task in tasks:
        at = content_id(DIGEST, *task, bits=bits)
        while slots[at] is not None:
            at = (at + 1) % len(slots)
        slots[at] = task
    return {task: at for at, task in enumerate(slots) if isinstance(task, tuple)}


# 3 kernels and at most 12 tasks in 15 slots: on the way there every probe collides
@given(st.integers(4, 10), st.tuples(*[st.integers(0, 4)] * 3), st.randoms())
def test_against_a_model_in_whatever_order_it_is_asked(bits, counts, chance):
    parameters = dict(zip(NAMES, counts, strict=True))
    tasks = [(name, 0) for name in sorted(parameters)]
    tasks += [(name, task + 1) for name in sorted(parameters) for task in range(parameters[name])]
    table, expected = Identities(DIGEST, parameters, bits=bits), model(bits, tasks)
    chance.shuffle(tasks)
    assert {task: table.of(*task) for task in tasks} == expected


# Kernels


def test_a_kernel_has_its_id(device):
    source = "kernel void one(global int *a) { a[0] = N; } kernel void two(global int *a) { a[0] = N; }"
    with device.program(source, "-DN=1") as program, device.program(source, "-DN=2") as another:
        digest = key_of("program", source, "-DN=1")
        assert {name: program[name].content_id for name in program} == {
            "one": content_id(digest, "one"),
            "two": content_id(digest, "two"),
        }
        assert another["one"].content_id != program["one"].content_id
        kernel = program["one"]
    assert kernel.content_id == content_id(digest, "one")  # closed, it can still be named
    with pytest.raises(AttributeError):
        kernel.content_id = 5
