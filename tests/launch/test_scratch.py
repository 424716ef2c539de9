"""Scratch whose size depends on data: when the data is looked at again, and when it is not."""

import copy
import gc
import itertools
import pickle
import weakref
from functools import partial
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import forebay as fb
from forebay.queues.kernels.parameters import read_size
from tests.helpers.device_data import device_data
from tests.helpers.refusals import refused
from tests.helpers.threads import beside, together
from tests.inside import bounds_of, launch_memory_of, lend

SOURCE = """
kernel void use(global const int *rows, global uchar *stack, int n, global int *out) {
    for (int i = 0; i < n; i++) stack[i] = (uchar)i;
    out[0] = n ? stack[n - 1] : -1;
}
kernel void two(global const int *rows, global uchar *first, global const uint *more, global uchar *second, int n) {
    first[0] = second[0] = n;
}
kernel void rewrite(global int *values, int value) { values[get_global_id(0)] = value; }
typedef struct { global int *next; int value; int unused; } Link;
kernel void chase(global const Link *link) { link->next[0] = link->value; }
kernel void whose(global uchar *stack, int n, global ulong *place) { stack[n - 1] = 1; place[0] = (ulong)stack; }
kernel void of_real(global const float *values, global uchar *stack) { stack[0] = 1; }
"""


@pytest.fixture
def kernels(device):
    """Kernels that a test may declare scratch of."""
    with device.program(SOURCE) as kernels:
        yield kernels


@pytest.fixture
def use(kernels):
    kernels["use"].scratch("stack", fb.MaxOver("rows"))
    return kernels["use"]


@pytest.fixture
def of_n(kernels):
    kernels["use"].scratch("stack", fb.Argument("n"))
    return kernels["use"]


@pytest.fixture
def out(device):
    return device.zeros(1, "i4")


@pytest.fixture
def rows(device, queue):
    buffer = device.empty(100, "i4")
    queue.copy(buffer, np.arange(100, dtype="i4"))
    return buffer


def reductions(queue, launch):
    """How many buffers were measured for it."""
    before = queue.stats.reductions
    launch()
    return queue.stats.reductions - before


# Whose


def test_launches_that_nothing_orders_have_scratch_of_their_own(device, make_queue, hold, kernels):
    """The size of both is known before, and the same."""
    queues = [make_queue(blocking=False) for _ in range(4)]
    kernel, outs = kernels["whose"], [device.zeros(1, "u8") for _ in queues]
    kernel.scratch("stack", fb.Argument("n"))
    device.finish()  # the queues wait for nobody, and for no zeros either
    gates = [hold(queue) for queue in queues]
    for queue, out in zip(queues, outs, strict=True):
        queue.launch(kernel, 1, 1, 1000, out)
    for gate in gates:
        gate.open()
    places = sorted(int(out.get(queue=queue)[0]) for queue, out in zip(queues, outs, strict=True))
    assert all(b - a >= 1000 for a, b in device_data(itertools.pairwise(places))), places


# When


def test_measured_once_then_only_after_a_write(device, queue, make_queue, kernels, use, rows, out, really):
    def launch():
        queue.launch(use, 1, 1, rows, 10, out)

    assert reductions(queue, launch) == 1
    before = device.stats
    for turn in range(2007):
        launch()
        if turn % 100 == 0 and not really:
            # Host functions of other tests never end on null hardware, and a full queue makes room while there are any.
            queue.query()
    steady = device.stats - before
    assert steady.launches == 2007
    assert (steady.reductions, steady.allocations, steady.copies, steady.host_syncs) == (0,) * 4
    assert steady.events_made <= 2007 // max(device.driver.keeps_gil_below // 2, 32)  # how far a full queue is
    other = make_queue()
    writes = [
        lambda: queue.copy(rows, np.arange(100, dtype="i4")),
        lambda: queue.copy(rows[:50], np.arange(50, dtype="i4")),
        lambda: queue.fill(rows, 20),
        lambda: other.fill(rows, 30),
        lambda: queue.launch(kernels["rewrite"], 100, 1, rows, 40),
        lambda: other.launch(kernels["rewrite"], 90, 1, rows[10:], 50),
        kernels["rewrite"].bind(queue, 100, 1, rows, 60),
        lambda: rows.set(np.arange(100)),
        lambda: queue.copy(rows, device.array(np.arange(100, dtype="i4"))),
    ]
    for write in writes:
        write()
        assert reductions(queue, launch) == 1
        assert reductions(queue, launch) == 0
    queue.launch(use, 1, 1, rows, 10, out)
    queue.copy(np.empty(100, "i4"), rows)  # reading is no write
    device.null_queue.launch(use, 1, 1, rows, 10, out)  # nor is a launch that takes it through a pointer to const
    assert reductions(queue, launch) == 0
    device.finish()


def test_each_argument_that_a_size_follows_from_is_compared(device, queue, kernels):
    kernel = kernels["two"]
    kernel.scratch("first", fb.MaxOver("rows") * 4 + fb.Argument("n"))
    kernel.scratch("second", fb.SumOver("more") // 2 - fb.MinOver("rows"))
    rows, more = device.array(np.arange(100, dtype="i4")), device.array(np.full(10, 7, "u4"))
    same = device.array(np.arange(100, dtype="i4"))

    def measured(*arguments):
        return reductions(queue, lambda: queue.launch(kernel, 1, 1, *arguments))

    assert measured(rows, more, 1) == 2
    assert measured(rows, more, 1) == 0
    assert measured(rows, more, 2) == 0  # another scalar, the same data
    assert measured(same, more, 2) == 1
    assert measured(rows, more, 2) == 0  # remembered with the data
    assert measured(rows[1:], more, 2) == 1
    assert measured(rows[:99], more, 2) == 1
    assert measured(rows.view("u4"), more, 2) == 1
    assert measured(rows[1:], more[:5], 2) == 1
    queue.fill(more, 1)
    assert measured(rows, more, 2) == 1


def test_kernels_and_queues_share_what_was_measured(device, queue, make_queue, kernels, use, rows, out):
    queue.launch(use, 1, 1, rows, 1, out)
    kernel = kernels["two"]
    kernel.scratch("first", fb.SumOver("rows"))
    kernel.scratch("second", 16)
    more = device.zeros(1, "u4")
    assert reductions(queue, lambda: queue.launch(kernel, 1, 1, rows, more, 1)) == 0
    other = make_queue()
    assert reductions(other, lambda: other.launch(use, 1, 1, rows, 1, out)) == 0


def test_600_reductions_over_3_buffers_are_3(device, queue):
    parameters = ", ".join(f"global const int *in{i}" for i in range(3))
    kernel = device.program(f"kernel void many({parameters}, global uchar *stack) {{ stack[0] = 1; }}")["many"]
    size = 0
    for i in range(200):
        size = fb.MaxOver("in0") * i + fb.MinOver("in1") + fb.SumOver("in2") // (i + 1) + size
    kernel.scratch("stack", size)
    inputs = [device.array(np.arange(1, 1000, dtype="i4")) for _ in range(3)]

    def launch():
        queue.launch(kernel, 1, 1, *inputs)

    syncs = device.stats.host_syncs
    assert reductions(queue, launch) == 3
    assert device.stats.host_syncs - syncs <= 1
    assert reductions(queue, launch) == 0
    queue.fill(inputs[1], 5)
    assert reductions(queue, launch) == 1


def test_a_host_view_counts_as_writing_all_the_time(device, queue, use, out):
    try:
        rows = device.empty(10, "i4", usm_type="shared")
    except fb.NotSupportedError:
        pytest.skip("no shared memory")
    queue.fill(rows, 8)

    def measured():
        found = reductions(queue, lambda: queue.launch(use, 1, 1, rows, 8, out))
        device.finish()
        return found

    assert (measured(), measured()) == (1, 0)
    host = rows.host
    part = host[3:]
    del host
    for value in (70, 80):
        part[0] = value
        assert measured() == 1
    del part
    gc.collect()
    assert (measured(), measured()) == (1, 0)  # what was written last


def test_generations_rise_with_writes_only_and_are_shared(device, queue, kernels):
    a, b, other = device.empty(16, "i4"), device.empty(16, "i4"), device.empty(16, "i4")
    first, again = a.generation, a[4:]

    def risen(action):
        before = a.generation
        action()
        assert again.generation == a.generation
        return a.generation - before

    assert first >= 1
    assert risen(lambda: queue.fill(again, 1)) == 1
    assert risen(lambda: queue.copy(a, b)) == 1
    assert risen(lambda: queue.copy(b, a)) == 0
    assert risen(lambda: queue.launch(kernels["rewrite"], 1, 1, again, 1)) >= 1
    assert risen(lambda: queue.launch(kernels["rewrite"], 1, 1, again, 1)) == 1
    assert risen(lambda: queue.launch(kernels["rewrite"], 1, 1, other, 1)) == 0
    assert risen(kernels["rewrite"].bind(queue, 1, 1, a, 2)) >= 1
    assert risen(lambda: a.get(queue=queue)) == 0
    with pytest.raises(fb.Error):
        queue.launch(kernels["rewrite"], 1, 1, a, "x")
    assert risen(lambda: None) == 0
    assert b.generation == 2


@pytest.mark.threads
def test_a_generation_never_falls_beside_threads_that_launch_and_change_arguments(device, kernels):
    a, b = device.empty(16, "i4"), device.empty(16, "i4")

    def launch():
        queue = device.queue(blocking=False)
        for i in range(2000):
            queue.launch(kernels["rewrite"], 1, 1, a if i % 3 else b, 1)
            if i % 100 == 0:
                kernels["rewrite"].bind(queue, 1, 1, a, 1)()
        queue.finish()

    seen = [a.generation]
    with beside(launch, launch) as threads:
        while any(thread.is_alive() for thread in threads):
            seen.append(a.generation)
    assert seen == sorted(seen)
    assert a.generation >= 1 + 2 * (1333 + 20)


def test_kernels_that_follow_pointers(device, queue, kernels, use, out, really):
    if not device.driver.has_addresses:
        with refused(fb.NotSupportedError, NotImplementedError, "no addresses"):
            kernels["chase"].follow_pointers()
        pytest.skip("no addresses")
    chase = kernels["chase"]
    chase.follow_pointers()
    chase.follow_pointers()
    rows, hidden = device.zeros(4, "i4"), device.zeros(4, "i4")
    device.finish()
    links = np.zeros(1, [("next", "u8"), ("value", "i4"), ("unused", "i4")])
    for turn, target in enumerate([rows, hidden, device.zeros(4, "i4")]):
        device.finish()
        links["next"], links["value"] = target.address, 30 + turn
        before = rows.generation
        queue.launch(chase, 1, 1, fb.by_value(links))
        assert target.get(queue=queue)[0] == 30 + turn or not really
        assert rows.generation == before  # nobody sees where it writes, so
        assert reductions(queue, lambda: queue.launch(use, 1, 1, rows, 30, out)) == 1
        assert reductions(queue, lambda: queue.launch(use, 1, 1, rows, 30, out)) == 0
    links["next"], links["value"] = rows.address, 99
    go = chase.bind(queue, 1, 1, fb.by_value(links))
    go()
    assert reductions(queue, lambda: queue.launch(use, 1, 1, rows, 30, out)) == 1
    assert out.get(queue=queue).tolist() == [29] or not really
    assert rows.get(queue=queue)[0] == 99 or not really


# Growth, failure, life


@pytest.fixture
def small_device(device):
    """A device of 15 MB: its driver refuses more."""
    real, there = device.driver.allocate, []
    if not getattr(type(real(1, "device")), "__weakrefoffset__", 0):
        pytest.skip("nothing tells when this driver's memory goes")

    def allocate(nbytes, usm_type="device"):
        there[:] = [each for each in there if each[0]() is not None]
        if sum(size for _, size in there) + nbytes > 15_000_000:
            raise fb.OutOfMemoryError("for the test")
        memory = real(nbytes, usm_type)
        there.append((weakref.ref(memory), nbytes))
        return memory

    device.finish()
    launch_memory_of(device).trim()
    with mock.patch.object(device.driver, "allocate", allocate):
        yield device


@pytest.mark.parametrize("how", ["finish", "shortage"])
def test_scratch_that_is_far_too_large_is_given_back(small_device, queue, of_n, out, how):
    rows = small_device.zeros(1, "i4")
    for n in (8_000_000, 14):
        queue.launch(of_n, 1, 1, rows, n, out)
    if how == "finish":
        queue.finish()
    large = small_device.empty(10_000_000, "u1")
    assert device_data(out.get(queue=queue).tolist()) == [13]
    large.close()


@pytest.mark.executes
def test_a_failed_growth_leaves_what_there_was(device, queue, use, out, rows):
    queue.fill(rows, 50)
    queue.launch(use, 1, 1, rows, 50, out)
    queue.fill(rows, 1 << 28)  # more than the pool of launches keeps
    epoch = queue.epoch
    full = mock.patch.object(device.driver, "allocate", side_effect=fb.OutOfMemoryError("no memory"))
    with full, refused(fb.OutOfMemoryError, MemoryError, "no memory"):
        queue.launch(use, 1, 1, rows, 100000, out)
    assert queue.epoch == epoch + 2  # it was measured, and read
    lend(queue, 3, "i8")  # idle memory was given up, and what measures needs some
    queue.fill(rows, 50)
    before = device.stats.allocations
    queue.launch(use, 1, 1, rows, 50, out)
    assert device.stats.allocations == before
    assert out.get(queue=queue).tolist() == [49]


def test_scratch_grows_seldom(device):
    with fb.Device(device.name, private=True) as alone:
        queue, use = alone.queue(), alone.program(SOURCE)["use"]
        use.scratch("stack", fb.MaxOver("rows"))
        rows, out = alone.zeros(100, "i4"), alone.zeros(1, "i4")

        def allocated(size):
            """By a launch that needs so much."""
            queue.fill(rows, size)
            before = alone.stats.allocations
            queue.launch(use, 1, 1, rows, 1, out)
            return alone.stats.allocations - before

        allocated(10)
        sizes = (5 << 20, 5 << 20, 11 << 19, 2 << 20, 5 << 20, 10, 5 << 20, 20 << 20)
        assert [device_data(allocated(size)) for size in sizes] == [1, 0, 0, 0, 0, 0, 0, 1]


def test_scratch_that_is_replaced_lives_until_the_launches_with_it_are_done(device, queue, hold, of_n, out):
    rows = device.zeros(1, "i4")
    queue.launch(of_n, 1, 1, rows, 1000, out)
    results = [device.zeros(1, "i4") for _ in range(20)]
    gate = hold(queue)
    for i, result in enumerate(results):
        queue.launch(of_n, 1, 1, rows, 1000 * 2**i % 4000037 + 200, result)
        pressure = [device.zeros(1 << 18, "u1") for _ in range(4)]
        del pressure
    gate.open()
    queue.finish()
    for i, result in enumerate(results):
        assert device_data(result.get(queue=queue).tolist()) == [(1000 * 2**i % 4000037 + 199) % 256]


def test_scratch_does_not_keep_the_device(device):
    another = fb.Device(device.name, private=True)
    kernel = another.program(SOURCE)["use"]
    kernel.scratch("stack", fb.MaxOver("rows"))
    another.null_queue.launch(kernel, 1, 1, another.zeros(4, "i4"), 0, another.zeros(1, "i4"))
    another.finish()
    state = another.driver
    another = kernel = None
    gc.collect()
    assert len(gc.get_referrers(state)) <= 1


@pytest.mark.threads
@pytest.mark.parametrize(
    "debug",
    [False, pytest.param(True, marks=pytest.mark.executes)],
)
def test_threads_with_different_sizes_on_one_queue(device, debug):
    """Neither gets the other's scratch, nor is that taken for an overflow on a device that debugs."""
    with fb.Device(device.name, debug=debug, private=True) as own:
        queue, use = own.queue(), own.program(SOURCE)["use"]
        use.scratch("stack", fb.MaxOver("rows"))

        def work(n):
            rows, out = own.array(np.array([n], "i4")), own.zeros(1, "i4")
            own.finish()
            for _ in range(200):
                queue.launch(use, 1, 1, rows, n, out)
            assert device_data(out.get(queue=queue).tolist()) == [(n - 1) % 256]

        together(partial(work, 100), partial(work, 1000))


# What the reductions give


@pytest.mark.parametrize("code", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("count", [1, 63, 64, 65, 4096, 100003])
def test_reductions_are_exact(device, queue, code, count):
    bounds = np.iinfo(code)
    values = np.random.default_rng(count).integers(bounds.min, bounds.max, count, dtype=code, endpoint=True)
    wide = "u8" if code[0] == "u" else "i8"
    expected = values.min(), values.max(), values.astype(wide).sum(dtype=wide)
    assert device_data(bounds_of(queue, device.array(values))) == expected


def test_nothing_is_measured_of_no_elements(device, queue, use, out):
    assert reductions(queue, lambda: queue.launch(use, 1, 1, device.empty(0, "i4"), 0, out)) == 0


@pytest.mark.long
@settings(max_examples=200)
@given(st.data())
def test_sizes_are_what_python_would_compute(data):
    leaves = {fb.MaxOver("a"): 7, fb.MinOver("a"): -3, fb.SumOver("b"): 100, fb.Argument("n"): 12}

    def combine(draw_from):
        return st.tuples(st.sampled_from("+-*/"), draw_from, draw_from)

    leaf = st.one_of(st.sampled_from(list(leaves)), st.integers(-5, 5))
    tree = data.draw(st.recursive(leaf, combine, max_leaves=12))

    def build(node, of_leaf):
        if not isinstance(node, tuple):
            return of_leaf(node)
        left, right = build(node[1], of_leaf), build(node[2], of_leaf)
        return {"+": lambda: left + right, "-": lambda: left - right, "*": lambda: left * right,
                "/": lambda: left // right}[node[0]]()  # fmt: skip

    try:
        expected = build(tree, lambda node: leaves.get(node, node))
    except ZeroDivisionError:
        try:
            size = read_size(build(tree, lambda node: node))
        except ZeroDivisionError:
            return  # of two ints
        with pytest.raises(fb.InvalidArgumentError, match="divides by 0"):
            size.evaluate(leaves)
        return
    assert read_size(build(tree, lambda node: node)).evaluate(leaves) == expected


# Debugging


@pytest.mark.executes
def test_debugging_names_kernel_and_scratch_that_overflow(device):
    with fb.Device(device.name, debug=True, private=True) as debugging:
        kernel = debugging.program(SOURCE)["use"]
        kernel.scratch("stack", fb.MaxOver("rows") * 2)
        rows, out = debugging.array(np.array([50, 3], "i4")), debugging.zeros(1, "i4")
        queue = debugging.queue()
        for n in (100, 1, 100):
            queue.launch(kernel, 1, 1, rows, n, out)
        named = (f"'use' (id {kernel.content_id:08x})", f"'stack' (id {kernel.scratch_id('stack'):08x})")
        with refused(fb.ScratchOverflowError, RuntimeError, *named, "100 bytes", "MaxOver('rows') * 2"):
            queue.launch(kernel, 1, 1, rows, 101, out)
        queue.launch(kernel, 1, 1, rows, 100, out)
        assert out.get().tolist() == [99]


# Bad input


def test_a_size_is_copied_and_sent():
    size = fb.MaxOver("a") * 4 + fb.Argument("n")
    for same in (copy.deepcopy(size), pickle.loads(pickle.dumps(size))):
        assert same.leaves() == size.leaves() == {fb.MaxOver("a"), fb.Argument("n")}
        assert repr(same) == repr(size)


VALUE, TYPE, CLOSED = (fb.InvalidArgumentError, ValueError), (fb.ArgumentTypeError, TypeError), fb.ClosedError


def test_declarations_that_are_refused(kernels):
    two = kernels["two"]
    for name, size, kinds, *words in (
        ("third", 8, VALUE, "no parameter 'third'", "first"), ("n", 8, VALUE, "pointer", "int n"),
        ("rows", 8, VALUE, "rows"), ("first", fb.MaxOver("nobody"), VALUE, "no parameter 'nobody'"),
        ("first", fb.MaxOver("n"), VALUE, "MaxOver('n')", "int n"),
        ("first", fb.Argument("rows"), VALUE, "Argument('rows')"),
        ("first", fb.MaxOver("first"), VALUE, "MaxOver('first')"), ("first", 1.5, TYPE, "float"),
        ("first", "8", TYPE, "str"),
    ):  # fmt: skip
        with refused(*kinds, "'two'" if kinds is VALUE else "", *words):
            two.scratch(name, size)
    with refused(*TYPE, "MaxOver", "int"):
        fb.MaxOver(3)
    with pytest.raises(TypeError):
        fb.MaxOver("rows") * 1.5
    with refused(*TYPE, "not known"):
        bool(fb.MaxOver("rows"))
    assert two.scratch_names == ()
    two.scratch("first", fb.MaxOver("rows"))
    assert two.scratch_names == ("first",)
    assert two.scratch_id("first") != two.content_id
    with refused(*VALUE, "no scratch 'second'"):
        two.scratch_id("second")
    for name, size, word in (("first", 8, "already"), ("second", fb.MaxOver("first"), "MaxOver('first')")):
        with refused(*VALUE, "'two'", word):
            two.scratch(name, size)
    two.close()
    with refused(CLOSED, RuntimeError, "'two'", "closed"):
        two.scratch("second", 8)


def test_launches_that_are_refused(refuses, device, queue, kernels, use, rows, out):
    two, real, more = kernels["two"], kernels["of_real"], device.zeros(1, "u4")
    real.scratch("stack", fb.MaxOver("values"))
    two.scratch("first", fb.Argument("n") - 5)
    two.scratch("second", 8 // fb.Argument("n"))
    for kernel, arguments, kinds, *words in (
        (use, (rows, fb.NULL, 10, out), TYPE, "3 arguments", "4 given"),
        (use, (fb.NULL, 10, out), TYPE, "MaxOver('rows')", "Null"),
        (real, (rows.view("f4"),), TYPE, "MaxOver('values')", "float32"),
        (two, (rows, more, 3), VALUE, "'first'", "-2 bytes", "Argument('n') - 5"),
    ):
        with refuses(*kinds, repr(kernel.name), *words):
            queue.launch(kernel, 1, 1, *arguments)
    with refuses(fb.NotSupportedError, NotImplementedError, "'use'", "bound"):
        use.bind(queue, 1, 1, rows, 10, out)
    two.close()
    with refuses(CLOSED, RuntimeError, "'two'", "closed"):
        queue.launch(two, 1, 1, rows, more, 9)


@pytest.mark.executes
def test_measuring_is_refused_on_the_host_thread(device, queue, make_queue, use, rows, out):
    queue.host(lambda: make_queue().launch(use, 1, 1, rows, 1, out))
    with pytest.raises(fb.Error, match="host function"):
        queue.finish()
