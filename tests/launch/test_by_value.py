"""Pointer parameters that get bytes by value: uploaded when they have changed, and only then."""

import contextlib
import ctypes
import gc
import threading
import weakref
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import forebay as fb
from tests.drivers.levelzero import validation
from tests.helpers.observer import observe, observer_of
from tests.helpers.refusals import refused
from tests.inside import clock_of

SOURCE = """
kernel void total(global int *out, global const int *in, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) sum += in[i];
    out[0] = sum;
}
kernel void two(global int *out, global const int *first, constant int *second) {
    out[0] = first[0] * 1000 + second[0];
}
kernel void count(global int *out, global const int *in) { out[in[0]] += in[1]; }
kernel void bump(global int *out, global int *own, global const int *kept) {
    out[0] = ++own[0] * 100 + ++own[1] + kept[0];
}
"""


@pytest.fixture(scope=validation.scope("module"))
def kernels(device):
    return device.program(SOURCE)


@pytest.fixture
def out(device):
    out = device.zeros(64, "i4")
    device.finish()
    return out


def total(queue, kernels, out, value, n):
    queue.launch(kernels["total"], 1, 1, out, value, n)


class Numbers(ctypes.Structure):
    _fields_ = (("a", ctypes.c_int32), ("b", ctypes.c_int32 * 3))


@pytest.mark.executes
@pytest.mark.parametrize(
    "value",
    [
        np.array([1, 2, 3, 4], "i4").tobytes(),
        fb.by_value(np.array([1, 2, 3, 4], "i4")),
        fb.by_value(bytearray(np.array([1, 2, 3, 4], "i4").tobytes())),
        np.array([(1, (2, 3, 4))], [("a", "i4"), ("b", "i4", 3)])[0],
        Numbers(1, (2, 3, 4)),
    ],
    ids=["bytes", "array", "bytearray", "structured scalar", "ctypes structure"],
)
def test_every_kind_of_bytes(queue, kernels, out, value):
    total(queue, kernels, out, value, 4)
    assert out.get(queue=queue)[0] == 10


def test_equal_bytes_are_not_uploaded_again(device, queue, kernels, out):
    array = np.arange(1024, dtype="i4")
    total(queue, kernels, out, fb.by_value(array), 1024)
    queue.finish()
    with observe(device) as calls:
        before = queue.stats
        mark = fb.by_value(array.tobytes())
        for value in (fb.by_value(array), fb.by_value(array.copy()), array.tobytes(), mark, mark):
            total(queue, kernels, out, value, 1024)
        assert calls.names() == [observer_of(device.info.backend).LAUNCH] * 5
        made = queue.stats - before
    assert (made.launches, made.events_made, made.arg_bytes_set) == (5, 0, 0)
    assert made.arg_bytes_skipped >= 5 * 4096


@pytest.mark.executes
def test_marks_in_turn(device, make_queue, kernels):
    """Bytes that cannot change are known by their mark, on each queue those that it had last; others are compared."""
    queues, out = [make_queue(blocking=False) for _ in range(2)], device.empty(1, "i4")
    ones, twos = (np.full(4, value, "i4").tobytes() for value in (1, 2))
    array = np.full(4, 3, "i4")
    marks = {1: fb.by_value(ones), 2: fb.by_value(twos), 3: fb.by_value(array), 4: fb.by_value(bytearray(ones))}
    for turn, kind in enumerate([1, 1, 2, 1, 3, 3, 2, 4, 1, 2, 2, 4, 3, 1] * 2):
        array[:] = turn
        queue = queues[turn // 3 % 2]
        total(queue, kernels, out, marks[kind], 4)
        assert out.get(queue=queue)[0] == 4 * {1: 1, 2: 2, 3: turn, 4: 1}[kind]


@pytest.mark.executes
def test_the_elements_of_a_mark_are_looked_at_each_time(queue, kernels, out, refuses):
    whole, real = fb.by_value(np.ones(4, "i4")), fb.by_value(np.ones(4, "i4").view("f4"))
    total(queue, kernels, out, whole, 4)
    with refuses(fb.ArgumentTypeError, TypeError, "floating-point"):
        total(queue, kernels, out, real, 4)
    total(queue, kernels, out, whole, 4)


def test_the_elements_of_other_memory_are_looked_at_before_bytes_are_uploaded(device, queue, kernels, out):
    real = device.zeros(out.shape, "f4")
    for value in (1, 1, 2):
        total(queue, kernels, out, fb.by_value(np.full(4, value, "i4")), 4)
    queue.finish()
    with observe(device) as calls:
        with pytest.raises(fb.ArgumentTypeError, match="floating-point"):
            total(queue, kernels, real, fb.by_value(np.full(4, 3, "i4")), 4)
        assert calls.kinds()["command"] == 0


def test_changed_bytes_are_uploaded_once_and_nothing_is_allocated(device, queue, kernels, out):
    array = np.zeros(1024, "i4")
    mark = fb.by_value(array)
    for turn in range(3):  # staging memory comes with the first two
        array[0] = turn
        total(queue, kernels, out, mark, 1024)
        queue.finish()
    for turn in range(10, 20):
        array[5] = turn
        with observe(device) as calls:
            before = queue.stats
            total(queue, kernels, out, mark, 1024)
            kinds, made = calls.kinds(), queue.stats - before
        queue.finish()  # which takes a marker where the driver has nothing else
        assert (kinds["command"], kinds["allocate"], kinds["marker"]) == (2, 0, 0)
        assert (made.launches, made.arg_bytes_set, made.events_made) == (1, 4096, 0)


def test_bytes_that_grow_do_not_make_memory_each_time(device, queue, kernels, out, monkeypatch):
    staged, stage = [], device.driver.stage
    monkeypatch.setattr(device.driver, "stage", lambda nbytes: staged.append(nbytes) or stage(nbytes))
    for turn, count in enumerate([16, 16, 4096, 4096, 4096] + [4096, 16] * 10):
        total(queue, kernels, out, np.full(count, turn, "i4").tobytes(), count)
        queue.finish()
    assert max(staged) <= 2 * 16 * 4 * 4096
    assert len(staged) <= 3


def test_uploads_that_may_still_run_share_events(device, queue, kernels, out, hold):
    """One for as many as a piece of staging memory takes."""
    total(queue, kernels, out, bytes(4096), 1024)
    queue.finish()
    hold(queue)
    before = queue.stats
    for turn in range(1, 65):
        total(queue, kernels, out, np.full(1024, turn, "i4").tobytes(), 1024)
    made = queue.stats - before
    assert made.arg_bytes_set == 64 * 4096
    assert made.events_made <= 64 // 16 + 1


@pytest.mark.executes(reads="found")
@pytest.mark.parametrize("sizes", [[16], [1024], [16, 1024, 5], [1024, 4096, 1024, 1 << 16, 16]], ids=str)
def test_every_launch_behind_a_gate_gets_its_own_bytes(device, queue, kernels, hold, sizes):
    """Through many rounds of the staging memory: full, half full, outgrown, trimmed by a finish."""
    launches = 100
    out = [device.zeros(1, "i4") for _ in range(launches)]
    for turn in range(4):
        gate = hold(queue) if turn != 2 else None
        for i in range(launches):
            count = sizes[(i // 3) % len(sizes)]
            total(queue, kernels, out[i], np.full(count, i * 7 + turn, "i4").tobytes(), count)
        if gate is not None:
            gate.open()
        queue.finish()
        found = [int(one.get(queue=queue)[0]) for one in out]
        assert found == [(i * 7 + turn) * sizes[(i // 3) % len(sizes)] for i in range(launches)]


@pytest.mark.executes
def test_a_launch_gets_the_bytes_of_its_time(device, queue, kernels, hold):
    array = np.zeros(1024, "i4")
    outs = [device.zeros(1, "i4") for _ in range(30)]
    device.finish()
    gate = hold(queue)
    for turn, out in enumerate(outs):
        array[:] = turn
        total(queue, kernels, out, fb.by_value(array), 1024)
    array[:] = -1
    gate.open()
    assert [int(out.get(queue=queue)[0]) for out in outs] == [1024 * turn for turn in range(30)]


@pytest.mark.executes
def test_a_launch_on_another_queue_does_not_disturb_one_in_flight(device, make_queue, kernels, hold):
    one, other = make_queue(blocking=False), make_queue(blocking=False)
    outs = [device.zeros(1, "i4") for _ in range(2)]
    device.finish()
    gate = hold(one)
    total(one, kernels, outs[0], fb.by_value(np.full(1024, 3, "i4")), 1024)
    total(other, kernels, outs[1], fb.by_value(np.full(1024, 4, "i4")), 1024)
    other.finish()
    gate.open()
    assert outs[0].get(queue=one)[0] == 3 * 1024
    assert outs[1].get(queue=other)[0] == 4 * 1024


@pytest.mark.threads
@pytest.mark.executes
@pytest.mark.parametrize("shared", [True, False], ids=["one queue", "two queues"])
def test_two_threads_that_launch_one_kernel(device, make_queue, kernels, shared):
    """The kernel counts in memory of its own for each thread, so one argument of another launch would show."""
    turns = 20_000
    queues = [make_queue()] * 2 if shared else [make_queue(blocking=False), make_queue(blocking=False)]
    out = device.zeros(2, "i4")
    device.finish()

    def work(number):
        array = np.array([number, 0], "i4")
        mark = fb.by_value(array)
        for turn in range(turns):
            array[1] = turn % 7
            queues[number].launch(kernels["count"], 1, 1, out, mark)
            if turn % 500 == 0:
                queues[number].finish()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    device.finish()
    assert out.get().tolist() == [sum(turn % 7 for turn in range(turns))] * 2


def press(device, queue, sizes):
    """Make memory of these sizes, and write all of it: what was given back too early is among it."""
    pressure = [device.empty(size, "u1") for size in sizes for _ in range(8)]
    for buffer in pressure:
        queue.fill(buffer, 77)
    queue.finish()
    return pressure


@pytest.mark.executes
def test_a_buffer_grows_while_earlier_launches_read_the_old_one(device, make_queue, kernels, hold):
    queue, aside = make_queue(blocking=False), make_queue(blocking=False)
    outs = [device.zeros(1, "i4") for _ in range(4)]
    device.finish()
    gate = hold(queue)
    sizes = [1 << 10, 1 << 14, 100, 1 << 18]
    for out, size in zip(outs, sizes, strict=True):
        total(queue, kernels, out, fb.by_value(np.ones(size, "i4")), size)
    pressure = press(device, aside, [4 * size for size in sizes])
    gate.open()
    assert [int(out.get(queue=queue)[0]) for out in outs] == sizes
    del pressure


def test_a_buffer_that_cannot_grow_leaves_the_old_one(device, queue, kernels, out, monkeypatch, really):
    small = np.ones(16, "i4")
    total(queue, kernels, out, fb.by_value(small), 16)
    queue.finish()
    before = queue.epoch

    def full(nbytes, usm_type="device"):
        raise fb.OutOfMemoryError("full")

    monkeypatch.setattr(device.driver, "allocate", full)
    with refused(fb.OutOfMemoryError, MemoryError, "full"):
        total(queue, kernels, out, fb.by_value(np.ones(100000, "i4")), 100000)
    assert queue.epoch == before
    monkeypatch.undo()
    stats = queue.stats
    total(queue, kernels, out, fb.by_value(small), 16)
    assert (queue.stats - stats).arg_bytes_set == 0
    assert not really or out.get(queue=queue)[0] == 16


@pytest.mark.executes
def test_the_kernel_is_dropped_with_a_launch_in_flight(device, make_queue, hold):
    queue = make_queue(blocking=False)
    out = device.zeros(1, "i4")
    device.finish()
    kernels = device.program(SOURCE)
    gate = hold(queue)
    total(queue, kernels, out, fb.by_value(np.full(4096, 5, "i4")), 4096)
    kernels.close()
    del kernels
    gc.collect()
    pressure = press(device, make_queue(blocking=False), [4 * 4096])
    gate.open()
    assert out.get(queue=queue)[0] == 5 * 4096
    del pressure


@pytest.mark.executes(reads="there")
def test_bytes_of_a_bound_launch_stay_until_they_are_uploaded(device, kernels, out, make_queue, monkeypatch):
    """Also when it is dropped before it was ever called. A gate would not show it: nothing is released meanwhile."""
    staged, stage = [], device.driver.stage

    def noted(nbytes):
        memory = stage(nbytes)
        staged.append(weakref.ref(memory))
        return memory

    monkeypatch.setattr(device.driver, "stage", noted)
    slow = device.program("""kernel void slow(global int *out, int n) {
        for (int i = 0; i < n; i++) out[i & 63] = out[(i + 1) & 63] * 3 + i;
    }""")["slow"]
    queue = make_queue(blocking=False)
    for turns in (1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28):
        queue.launch(slow, 1, 1, out, turns)
        bound = kernels["total"].bind(queue, 1, 1, out, np.ones(64, "i4").tobytes(), 64)
        del bound
        device.queue()  # which collects
        gc.collect()
        there = staged[-1]() is not None
        if not queue.query():
            break
        queue.finish()  # the device was too fast to show anything
    assert there
    queue.finish()
    device.finish()
    assert staged[-1]() is None


@pytest.mark.executes
def test_several_by_value(queue, kernels, out):
    for first, second in [(1, 2), (1, 3), (4, 3), (4, 3), (5, 6)]:
        queue.launch(
            kernels["two"], 1, 1, out, fb.by_value(np.array([first], "i4")), np.array([second], "i4").tobytes()
        )
        assert out.get(queue=queue)[0] == first * 1000 + second


# -- bytes that the kernel writes to

OWN, KEPT = np.array([10, 20], "i4"), np.array([3], "i4")
BUMPED = 11 * 100 + 21 + 3


def launch_it(queue, kernel, out):
    return lambda: queue.launch(kernel, 1, 1, out, fb.by_value(OWN), KEPT.tobytes())


def bind_it(queue, kernel, out):
    return kernel.bind(queue, 1, 1, out, fb.by_value(OWN), KEPT.tobytes())


def bind_and_call_it(queue, kernel, out):
    return kernel.bind(queue, 1, 1, out, fb.by_value(OWN), KEPT.tobytes()).__call__


def capture_it(make):
    def graph(queue, kernel, out):
        launch = make(queue, kernel, out)
        with queue.capture() as graph:
            launch()
        executable = graph.instantiate()
        return lambda: executable.launch(queue)

    return graph


def collect_it(make):
    """In a step, which collects what repeats."""

    def collected(queue, kernel, out):
        launch, step = make(queue, kernel, out), queue.step()

        def stepping():
            with step:
                launch()

        return stepping

    return collected


LAUNCHES = {
    "launched": launch_it,
    "bound": bind_it,
    "bound, by its method": bind_and_call_it,
    "a graph's": capture_it(launch_it),
    "a graph's of a bound one": capture_it(bind_it),
    "a step's": collect_it(launch_it),
    "a step's of a bound one": collect_it(bind_it),
}


@pytest.mark.executes
@pytest.mark.parametrize("form", LAUNCHES)
def test_what_a_kernel_wrote_into_its_bytes_is_lost(device, make_queue, kernels, out, form):
    device.finish()
    queue = make_queue(blocking=False)
    launch = LAUNCHES[form](queue, kernels["bump"], out)
    for _ in range(5):
        launch()
        assert out.get(queue=queue)[0] == BUMPED


@pytest.mark.executes(reads="found")
@pytest.mark.parametrize("form", LAUNCHES)
def test_what_a_kernel_wrote_is_lost_behind_a_gate_too(device, make_queue, kernels, hold, form):
    """The staging memory goes round and grows, and launches of two threads' worth of bytes share it."""
    outs, queue = [device.zeros(1, "i4") for _ in range(2)], make_queue(blocking=False)
    device.finish()
    launches = [LAUNCHES[form](queue, kernels["bump"], out) for out in outs]
    found = []
    for _ in range(3):
        gate = hold(queue)
        for i in range(40):
            launches[i % 2]()
        gate.open()
        queue.finish()
        found.append([int(out.get(queue=queue)[0]) for out in outs])
    assert found == [[BUMPED] * 2] * 3


@pytest.mark.parametrize("form", [form for form in LAUNCHES if "graph" not in form])
def test_only_bytes_that_the_kernel_may_write_to_are_uploaded_each_time(device, queue, kernels, out, form):
    launch = LAUNCHES[form](queue, kernels["bump"], out)
    for _ in range(3):
        launch()
        queue.finish()
    with observe(device) as calls:
        upload = calls.name_of("UPLOAD")
        for _ in range(40):
            before, epoch, first = queue.stats, queue.epoch, len(calls)
            launch()
            made, counts = queue.stats - before, calls.counts(first)
            assert counts[observer_of(device.info.backend).LAUNCH] == counts[upload] == 1
            assert queue.epoch == epoch + 2
            assert (made.launches, made.events_made, made.arg_bytes_set) == (1, 0, OWN.nbytes)
            queue.finish()  # which takes a marker where the driver has nothing else


def test_an_upload_of_a_bound_launch_that_fails_is_made_again(device, queue, kernels, out, really):
    driver, bound = observer_of(device.info.backend), bind_it(queue, kernels["bump"], out)
    bound()
    queue.finish()
    with observe(device) as calls:
        epoch, upload = queue.epoch, calls.name_of("UPLOAD")
        calls.fail(upload, driver.FAILURE[0])
        with refused(fb.DriverError, RuntimeError, upload, "bump", "argument 1", "own"):
            bound()
        assert queue.epoch == epoch
        calls.fail(driver.LAUNCH, driver.FAILURE[0])
        with refused(fb.DriverError, RuntimeError, driver.LAUNCH, "bump"):
            bound()
        assert queue.epoch == epoch + 1  # the upload was submitted
        bound()
        assert queue.epoch == epoch + 3
    assert not really or out.get(queue=queue)[0] == BUMPED


def test_an_upload_of_a_bound_launch_carries_the_waits(device, make_queue, kernels, hold):
    """The first upload does, once; the launch comes after it anyway."""
    producer, queue = make_queue(blocking=False), make_queue(blocking=False)
    out = device.zeros(1, "i4")
    device.finish()
    bound = bind_it(queue, kernels["bump"], out)
    queue.finish()
    hold(producer)
    producer.fill(out, 0)
    queue.wait(producer)
    with observe(device) as calls:
        upload, first = calls.name_of("UPLOAD"), len(calls)
        bound()
        commands = [call.name for call in calls.since(first) if calls.kind(call) == "command"]
    assert commands == [upload, observer_of(device.info.backend).LAUNCH]
    assert producer.id in clock_of(queue)


@pytest.mark.executes
def test_bytes_of_long_ago_are_still_known(queue, kernels, out):
    """Of one argument, while those of the other change and its staging memory is used over and over."""
    kept = np.array([7], "i4").tobytes()
    for turn in range(8):
        before = queue.stats
        queue.launch(kernels["two"], 1, 1, out, kept, np.array([turn], "i4").tobytes())
        assert out.get(queue=queue)[0] == 7000 + turn
        assert (queue.stats - before).arg_bytes_skipped >= 4 * (turn > 0)
    for first in (7, 8, 7):
        queue.launch(kernels["two"], 1, 1, out, np.array([first], "i4").tobytes(), kept)
        assert out.get(queue=queue)[0] == first * 1000 + 7


@pytest.mark.executes
def test_buffers_and_bytes_in_turn(device, queue, kernels, out):
    buffer = device.array(np.full(16, 2, "i4"))
    device.finish()
    for value, expected in [(buffer, 32), (bytes(64), 0), (buffer, 32), (bytes(64), 0)]:
        total(queue, kernels, out, value, 16)
        assert out.get(queue=queue)[0] == expected


def test_the_upload_waits_for_what_the_launch_waits_for(device, make_queue, kernels, hold, really):
    first, second = make_queue(blocking=False), make_queue(blocking=False)
    out = device.zeros(1, "i4")
    device.finish()
    gate = hold(first)
    total(first, kernels, out, np.full(4, 1, "i4").tobytes(), 4)
    second.wait(first)
    total(second, kernels, out, np.full(4, 2, "i4").tobytes(), 4)
    assert not second.query() or not really
    gate.open()
    assert out.get(queue=second)[0] == 8 or not really


@pytest.mark.executes
def test_a_bound_launch_has_the_bytes_of_when_it_was_bound(device, queue, kernels, out):
    array = np.full(16, 3, "i4")
    go = kernels["total"].bind(queue, 1, 1, out, fb.by_value(array), 16)
    array[:] = 9
    total(queue, kernels, out, fb.by_value(array), 16)
    for _ in range(2):
        go()
        assert out.get(queue=queue)[0] == 48


def test_an_upload_that_fails_is_made_anew(device, queue, kernels, out, really):
    driver = observer_of(device.info.backend)
    array = np.full(64, 1, "i4")
    total(queue, kernels, out, fb.by_value(array), 64)
    queue.finish()
    array[:] = 2
    with observe(device) as calls:
        epoch, upload = queue.epoch, calls.name_of("UPLOAD")
        calls.fail(upload, driver.FAILURE[0])
        with refused(fb.DriverError, RuntimeError, upload, "total", "argument 1", "in"):
            total(queue, kernels, out, fb.by_value(array), 64)
        assert queue.epoch == epoch
        calls.fail(driver.LAUNCH, driver.FAILURE[0])
        with refused(fb.DriverError, RuntimeError, driver.LAUNCH, "total"):
            total(queue, kernels, out, fb.by_value(array), 64)
        assert queue.epoch == epoch + 1  # the upload was submitted
        total(queue, kernels, out, fb.by_value(array), 64)
        assert queue.epoch == epoch + 2
    assert not really or out.get(queue=queue)[0] == 128


@pytest.mark.parametrize(
    ("value", "kind", "builtin", "word"),
    [
        ([1, 2], fb.ArgumentTypeError, TypeError, "by_value"),
        ("text", fb.ArgumentTypeError, TypeError, "str"),
        (b"", fb.InvalidArgumentError, ValueError, "no bytes"),
        (np.array([(None,)], [("a", "O")])[0], fb.ArgumentTypeError, TypeError, "Python objects"),
    ],
    ids=["list", "str", "nothing", "objects"],
)
def test_what_is_refused(refuses, queue, kernels, out, value, kind, builtin, word):
    with refuses(kind, builtin, "'total', argument 1", word):
        total(queue, kernels, out, value, 1)


@pytest.mark.parametrize(
    "value", [5, None, "text", np.zeros((4, 4))[:, 1], np.array([None]), np.zeros(0), [1]],
    ids=["int", "None", "str", "strided", "objects", "empty", "list"],
)  # fmt: skip
def test_what_cannot_be_marked(value):
    with pytest.raises(fb.Error, match="by_value"):
        fb.by_value(value)


class Lying(np.void):
    dtype = np.dtype("V4000")
    itemsize = 4000


@pytest.mark.executes
@pytest.mark.parametrize(
    "structure",
    [
        np.zeros(3, [("i", "i4", 3), ("j", "u4")])[1],
        np.rec.array([(1, 2), (3, 4)], "i4,i4")[1],
        np.array([((5, 6), 7)], [("inner", "i4,i4"), ("z", "i4")])[0],
        np.void(bytes(range(8))),
        Lying(bytes(range(12))),
    ],
    ids=["field of an array", "record", "nested", "bytes", "subclass"],
)
def test_structures_of_numpy(queue, kernels, out, structure):
    expected = np.frombuffer(structure.tobytes(), "i4")
    for value in (structure, fb.by_value(structure)):
        total(queue, kernels, out, value, len(expected))
        assert out.get(queue=queue)[0] == expected.sum()


def test_a_mark_keeps_its_memory(queue, kernels, out):
    grown = bytearray(64)
    mark = fb.by_value(grown)
    with pytest.raises(BufferError):
        grown.extend(bytes(100))
    total(queue, kernels, out, mark, 16)
    del mark
    queue.finish()
    grown.extend(bytes(100))


steps = st.tuples(
    st.sampled_from(["launch"] * 6 + ["gate", "open", "finish", "kernel", "grow", "no memory"]),
    st.integers(0, 1),
    st.integers(0, 3),
)


@pytest.mark.executes(run=False)
@settings(max_examples=50, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(steps, min_size=1, max_size=40))
def test_each_launch_sees_its_bytes(device, program_steps):
    """Against a model that knows which bytes each launch must have seen."""
    queues = [device.queue(blocking=False) for _ in range(2)]
    kernels = [device.program(SOURCE)]
    sizes = [8, 8]
    gates = {}
    expected = []
    out = device.zeros(64, "i4")
    device.finish()
    for step, which, number in program_steps:
        queue = queues[which]
        if step == "launch" and len(expected) < 64:
            array = np.full(sizes[which], number, "i4")
            slot = out[len(expected) : len(expected) + 1]
            queue.launch(kernels[0]["total"], 1, 1, slot, fb.by_value(array), len(array))
            expected.append(number * len(array))
            array[:] = -7
        elif step == "no memory" and len(expected) < 64:
            array = np.full(8 * 4**number, 5, "i4")
            slot = out[len(expected) : len(expected) + 1]
            no_memory = mock.patch.object(device.driver, "allocate", side_effect=fb.OutOfMemoryError("no memory"))
            with no_memory, contextlib.suppress(fb.OutOfMemoryError):  # only if it has to grow for this
                queue.launch(kernels[0]["total"], 1, 1, slot, fb.by_value(array), len(array))
                expected.append(5 * len(array))
        elif step == "gate" and which not in gates:
            gates[which] = queue.gate()
        elif step == "open" and which in gates:
            gates.pop(which).open()
        elif step == "finish":
            if which in gates:
                gates.pop(which).open()
            queue.finish()
        elif step == "kernel" and (not gates or device.driver.most_held is None):  # CUDA builds nothing behind a gate
            kernels[0].close()
            kernels[0] = device.program(SOURCE)
        elif step == "grow":
            sizes[which] = 8 * 4**number
    for gate in gates.values():
        gate.open()
    device.finish()
    assert out.get().tolist()[: len(expected)] == expected
    for queue in queues:
        queue.close()
