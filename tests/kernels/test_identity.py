"""Ids of kernels and tasks: the hash is FNV-1a, no two tasks share an id, and each process gives the same ones."""

import json
import threading
import time
from functools import partial
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import forebay as fb
from forebay.queues.kernels import cache as kernel_cache
from forebay.queues.kernels.cache import BinaryCache, Identities, content_id, identify, key_of
from tests.helpers.threads import together

DIGEST = key_of("a program")
NAMES = ["fill", "blur", "reduce"]
KERNELS = [(name, 0) for name in sorted(NAMES)]


@pytest.fixture
def cache(own_cache):
    return BinaryCache()


def file_of(cache):
    (path,) = cache.info().folder.iterdir()
    return path


# The hash


def test_ids_never_change():
    """What is here was written down once: another version of forebay must give the same."""
    assert [content_id("d", "k", task) for task in range(3)] == [3502162470, 3518940089, 3468607232]
    assert content_id(DIGEST, "µ", 12) == 1068480175
    assert key_of("program", "kernel void k() {}", "-DN=1")[:8] == "7f4c6c8a"


# The table


@pytest.mark.parametrize("bits", [2, 3, 32])
def test_no_two_share_an_id_whatever_the_order_of_kernels(bits):
    table, other = Identities(DIGEST, NAMES, bits=bits), Identities(DIGEST, NAMES[::-1] + NAMES, bits=bits)
    ids = [table.of(name) for name in NAMES]
    assert ids == [other.of(name) for name in NAMES]
    assert len({0, *ids}) == 4
    assert all(0 < identity < 2**bits for identity in ids)


def test_a_full_table_says_so_and_stays_as_it_was():
    table = Identities(DIGEST, NAMES, bits=2)
    with pytest.raises(fb.InvalidArgumentError, match="all 3 ids"):
        table.of("fill", 1)
    assert sorted(table.of(name) for name in NAMES) == [1, 2, 3]


@pytest.mark.parametrize("task", [("fil", 0), ("fill", -1), ("", 0)])
def test_a_task_that_is_not_the_programs_is_refused(task):
    with pytest.raises(fb.InvalidArgumentError, match=repr(task[0])):
        Identities(DIGEST, NAMES).of(*task)


def test_threads_that_ask_at_once_get_the_same():
    def slow(*task, **options):
        time.sleep(0.001)
        return content_id(*task, **options)

    table, start, found = Identities(DIGEST, NAMES, bits=8), threading.Barrier(4), []

    def ask(order):
        start.wait()
        found.append({task: table.of("fill", task) for task in order})

    with mock.patch.object(kernel_cache, "content_id", slow):
        together(*[partial(ask, range(20)[::step]) for step in (1, -1, 1, -1)])
    assert all(each == found[0] for each in found)
    assert len(set(found[0].values())) == 20


def model(bits, tasks):
    """Linear probing as a textbook has it: an array of slots, of which the first is never used."""
    slots = ["nobody"] + [None] * (2**bits - 1)
    for task in tasks:
        if task not in slots:
            at = content_id(DIGEST, *task, bits=bits)
            while slots[at] is not None:
                at = (at + 1) % len(slots)
            slots[at] = task
    return {task: at for at, task in enumerate(slots) if isinstance(task, tuple)}


# 3 kernels and at most 12 tasks in 15 slots: on the way there every probe collides
tasks = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 4)), max_size=40)


@given(st.integers(4, 10), tasks, st.integers(0, 40))
def test_against_a_model(tmp_path_factory, bits, asked, split):
    """The second process asks in its own order, and its tasks that the first had keep the ids they had there."""
    cache = BinaryCache(tmp_path_factory.mktemp("cache"))
    first, second = asked[:split], asked[split:]
    table = Identities(DIGEST, NAMES, cache, bits=bits)
    expected = model(bits, [*KERNELS, *first])
    assert {task: table.of(*task) for task in first} == {task: expected[task] for task in first}
    table = Identities(DIGEST, NAMES, cache, bits=bits)
    expected = model(bits, [*KERNELS, *first, *second])
    assert {task: table.of(*task) for task in [*second, *KERNELS, *first]} == expected


# On disk


def test_a_known_task_is_not_written_again(cache):
    Identities(DIGEST, NAMES, cache).of("fill", 1)
    with mock.patch.object(BinaryCache, "put") as put:
        assert Identities(DIGEST, NAMES, cache).of("fill", 1) == content_id(DIGEST, "fill", 1)
    assert put.call_count == 0


def test_programs_do_not_share_a_table(cache):
    Identities(DIGEST, ["fill"], cache, bits=4).of("fill", 1)
    assert cache.info().entries == 1
    for digest, names, bits in ((key_of("b"), ["fill"], 4), (DIGEST, ["fill", "x"], 4), (DIGEST, ["fill"], 5)):
        table = Identities(digest, names, cache, bits=bits)
        assert table.of("fill") == Identities(digest, names, bits=bits).of("fill")
    assert cache.info().entries == 4


def others(entries):
    return [[name, index, identity % 14 + 1] for name, index, identity in entries]


WRONG = {
    "not JSON": lambda entries: b"\xff{",
    "not a list": lambda entries: b"7",
    "not of tasks": lambda entries: b'[["fill", 0]]',
    "null": lambda entries: b"[[null, null, null]]",
    "empty": lambda entries: [],
    "a kernel is missing": lambda entries: entries[1:],
    "other kernels": lambda entries: [["foreign", *entry[1:]] for entry in entries],
    "a task of no kernel": lambda entries: [*entries, ["foreign", 1, content_id(DIGEST, "foreign", 1, bits=4)]],
    "a task below 0": lambda entries: [*entries, ["fill", -1, content_id(DIGEST, "fill", -1, bits=4)]],
    "a task twice": lambda entries: [*entries, entries[-1]],
    "other ids": others,
    "one id is another": lambda entries: [*entries[:-1], [*entries[-1][:2], entries[-1][2] % 15 + 1]],
    "more than there is room for": lambda entries: [*entries, *(["fill", n, 1] for n in range(5, 30))],
}


@pytest.mark.parametrize("what", WRONG)
def test_a_table_of_something_else_is_ignored_and_rewritten(cache, what):
    table = Identities(DIGEST, NAMES, cache, bits=4)
    ids = [table.of(name, task) for name in NAMES for task in (0, 1)]
    key = file_of(cache).name
    good = json.loads(cache.get(key))
    wrong = WRONG[what](good)
    cache.put(key, wrong if isinstance(wrong, bytes) else json.dumps(wrong).encode())  # its checksum is right
    table = Identities(DIGEST, NAMES, cache, bits=4)
    assert json.loads(cache.get(key)) == good[: len(NAMES)]
    assert [table.of(name, task) for name in NAMES for task in (0, 1)] == ids
    assert sorted(json.loads(cache.get(key))) == sorted(good)


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


@pytest.mark.parametrize(("source", "kept"), [("kernel void a() {}", 1), ('#include "a.h"', 0), (b"SPIR-V", 1)])
def test_what_includes_files_is_not_kept(cache, source, kept):
    identities = identify(("a", "b"), source, ())
    assert identities.of("a") != identities.of("b")
    assert cache.info().entries == kept
