"""Pointer parameters that get bytes by value: uploaded when they have changed, and only then."""

import ctypes
import gc
from functools import partial
from unittest import mock

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data
from tests.helpers.observer import observe, observer_of
from tests.helpers.refusals import refused

SOURCE = """
kernel void total(global int *out, global const int *in, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) sum += in[i];
    out[0] = sum;
}
kernel void two(global int *out, global const int *first, constant int *second) {
    out[0] = first[0] * 1000 + second[0];
}
kernel void bump(global int *out, global int *own, global const int *kept) {
    out[0] = ++own[0] * 100 + ++own[1] + kept[0];
}
"""


@pytest.fixture
def out(device):
    out = device.zeros(64, "i4")
    device.finish()
    return out


def total(queue, kernels, out, value, n):
    queue.launch(kernels["total"], 1, 1, out, value, n)


class Numbers(ctypes.Structure):
    _fields_ = (("a", ctypes.c_int32), ("b", ctypes.c_int32 * 3))


class Lying(np.void):
    dtype = np.dtype("V4000")
    itemsize = 4000


FOUR = np.array([1, 2, 3, 4], "i4")
KINDS = {
    "bytes": FOUR.tobytes(),
    "a marked array": fb.by_value(FOUR),
    "a marked bytearray": fb.by_value(bytearray(FOUR.tobytes())),
    "a structured scalar": np.array([(1, (2, 3, 4))], [("a", "i4"), ("b", "i4", 3)])[0],
    "a ctypes structure": Numbers(1, (2, 3, 4)),
    "a field of an array": np.zeros(3, [("i", "i4", 3), ("j", "u4")])[1],
    "a record": np.rec.array([(1, 2), (3, 4)], "i4,i4")[1],
    "a nested one": np.array([((5, 6), 7)], [("inner", "i4,i4"), ("z", "i4")])[0],
    "bytes of NumPy": np.void(bytes(range(8))),
    "a subclass": Lying(bytes(range(12))),
}


@pytest.mark.parametrize("value", KINDS.values(), ids=KINDS)
def test_every_kind_of_bytes(queue, kernels, out, value):
    expected = FOUR if isinstance(value, type(KINDS["a marked array"])) else np.frombuffer(bytes(value), "i4")
    for given_value in (value, fb.by_value(value)) if isinstance(value, np.void) else (value,):
        total(queue, kernels, out, given_value, len(expected))
        assert device_data(out.get(queue=queue)[0]) == expected.sum()


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


def test_marks_buffers_and_bytes_in_turn(device, make_queue, kernels):
    """Bytes that cannot change are known by their mark, on each queue those that it had last; others are compared."""
    queues, out = [make_queue(blocking=False) for _ in range(2)], device.empty(1, "i4")
    ones, twos = (np.full(4, value, "i4").tobytes() for value in (1, 2))
    array = np.full(4, 3, "i4")
    marks = {1: fb.by_value(ones), 2: fb.by_value(twos), 3: fb.by_value(array), 4: fb.by_value(bytearray(ones))}
    marks |= {5: device.array(np.full(4, 5, "i4")), 6: bytes(16)}
    device.finish()
    for turn, kind in enumerate([1, 1, 2, 1, 3, 3, 2, 4, 5, 6, 5, 1, 2, 2, 6, 4, 3, 5, 1] * 2):
        array[:] = turn
        queue = queues[turn // 3 % 2]
        total(queue, kernels, out, marks[kind], 4)
        assert device_data(out.get(queue=queue)[0]) == 4 * {1: 1, 2: 2, 3: turn, 4: 1, 5: 5, 6: 0}[kind]


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


def test_elements_are_looked_at_each_time_before_bytes_are_uploaded(device, queue, kernels, out, refuses):
    """Those of the bytes, and those of other memory of the launch."""
    ints, reals, real = np.full(4, 3, "i4"), np.ones(4, "f4"), device.zeros(out.shape, "f4")
    total(queue, kernels, out, fb.by_value(ints), 4)
    with refuses(fb.ArgumentTypeError, TypeError, "floating-point"):
        total(queue, kernels, out, fb.by_value(reals), 4)
    ints[:] = 4
    with observe(device) as calls:
        with pytest.raises(fb.ArgumentTypeError, match="floating-point"):
            total(queue, kernels, real, fb.by_value(ints), 4)
        assert calls.kinds()["command"] == 0


def test_bytes_that_grow_do_not_make_memory_each_time(device, queue, kernels, out):
    with mock.patch.object(device.driver, "stage", wraps=device.driver.stage) as stage:
        for turn, count in enumerate([16, 16, 4096, 4096, 4096] + [4096, 16] * 10):
            total(queue, kernels, out, np.full(count, turn, "i4").tobytes(), count)
            queue.finish()
    assert max(call.args[0] for call in stage.call_args_list) <= 2 * 16 * 4 * 4096
    assert stage.call_count <= 3


def test_large_bytes_of_two_launches_in_flight_have_memory_that_stays(device, queue, kernels, out, hold):
    many = 1 << 18  # a piece of staging memory is then just as large
    with mock.patch.object(device.driver, "stage", wraps=device.driver.stage) as stage:
        for turn in range(4):
            gate = hold(queue)
            for k in range(2):
                total(queue, kernels, out, np.full(many, 2 * turn + k, "i4").tobytes(), many)
            gate.open()
            queue.finish()
    assert stage.call_count <= 2


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
        assert device_data(found) == [(i * 7 + turn) * sizes[(i // 3) % len(sizes)] for i in range(launches)]


def press(device, queue, sizes):
    """Make memory of these sizes, and write all of it: what was given back too early is among it."""
    pressure = [device.empty(size, "u1") for size in sizes for _ in range(8)]
    for buffer in pressure:
        queue.fill(buffer, 77)
    queue.finish()
    return pressure


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
    assert [device_data(int(out.get(queue=queue)[0])) for out in outs] == sizes
    del pressure


def test_a_buffer_that_cannot_grow_leaves_the_old_one(device, queue, kernels, out, really):
    small = np.ones(16, "i4")
    total(queue, kernels, out, fb.by_value(small), 16)
    queue.finish()
    before = queue.epoch
    full = mock.patch.object(device.driver, "allocate", side_effect=fb.OutOfMemoryError("full"))
    with full, refused(fb.OutOfMemoryError, MemoryError, "full"):
        total(queue, kernels, out, fb.by_value(np.ones(100000, "i4")), 100000)
    assert queue.epoch == before
    stats = queue.stats
    total(queue, kernels, out, fb.by_value(small), 16)
    assert (queue.stats - stats).arg_bytes_set == 0
    assert not really or out.get(queue=queue)[0] == 16


@pytest.mark.executes
def test_bytes_of_a_bound_launch_stay_until_they_are_uploaded(device, kernels, out, make_queue, staged):
    """Also when it is dropped before it was ever called. A gate would not show it: nothing is released meanwhile."""
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
        there = staged()
        if not queue.query():
            break
        queue.finish()  # the device was too fast to show anything
    assert there == 1
    queue.finish()
    device.finish()
    assert staged() == 0


# -- bytes that the kernel writes to

OWN, KEPT = np.array([10, 20], "i4"), np.array([3], "i4")
BUMPED = 11 * 100 + 21 + 3


def launch_it(queue, kernel, out):
    return lambda: queue.launch(kernel, 1, 1, out, fb.by_value(OWN), KEPT.tobytes())


def bind_it(queue, kernel, out):
    return kernel.bind(queue, 1, 1, out, fb.by_value(OWN), KEPT.tobytes())


def captured(queue, launch):
    with queue.capture() as graph:
        launch()
    return partial(graph.instantiate().launch, queue)


def collected(queue, launch):
    """In a step, which collects what repeats."""
    step = queue.step()

    def stepping():
        with step:
            launch()

    return stepping


LAUNCHES = {
    "launched": launch_it,
    "bound": bind_it,
    "bound, by its method": lambda *given: bind_it(*given).__call__,
    "a graph's": lambda queue, *given: captured(queue, launch_it(queue, *given)),
    "a graph's of a bound one": lambda queue, *given: captured(queue, bind_it(queue, *given)),
    "a step's": lambda queue, *given: collected(queue, launch_it(queue, *given)),
    "a step's of a bound one": lambda queue, *given: collected(queue, bind_it(queue, *given)),
}


@pytest.mark.parametrize("form", LAUNCHES)
def test_what_a_kernel_wrote_into_its_bytes_is_lost(device, make_queue, kernels, hold, form):
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
    assert device_data(found) == [[BUMPED] * 2] * 3


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


@pytest.mark.parametrize("form", ["launched", "bound"])
def test_an_upload_that_fails_is_made_again(device, queue, kernels, out, really, form):
    driver, launch = observer_of(device.info.backend), LAUNCHES[form](queue, kernels["bump"], out)
    launch()
    queue.finish()
    with observe(device) as calls:
        epoch, upload = queue.epoch, calls.name_of("UPLOAD")
        calls.fail(upload, driver.FAILURE[0])
        with refused(fb.DriverError, RuntimeError, upload, "bump", "argument 1", "own"):
            launch()
        assert queue.epoch == epoch
        calls.fail(driver.LAUNCH, driver.FAILURE[0])
        with refused(fb.DriverError, RuntimeError, driver.LAUNCH, "bump"):
            launch()
        assert queue.epoch == epoch + 1  # the upload was submitted
        launch()
        assert queue.epoch == epoch + 3
    assert not really or out.get(queue=queue)[0] == BUMPED


def test_bytes_of_long_ago_are_still_known(queue, kernels, out):
    """Of one argument, while those of the other change and its staging memory is used over and over."""
    kept = np.array([7], "i4").tobytes()
    for turn in range(8):
        before = queue.stats
        queue.launch(kernels["two"], 1, 1, out, kept, np.array([turn], "i4").tobytes())
        assert device_data(out.get(queue=queue)[0]) == 7000 + turn
        assert (queue.stats - before).arg_bytes_skipped >= 4 * (turn > 0)
    for first in (7, 8, 7):
        queue.launch(kernels["two"], 1, 1, out, np.array([first], "i4").tobytes(), kept)
        assert device_data(out.get(queue=queue)[0]) == first * 1000 + 7


def test_a_bound_launch_has_the_bytes_of_when_it_was_bound(device, queue, kernels, out):
    array = np.full(16, 3, "i4")
    go = kernels["total"].bind(queue, 1, 1, out, fb.by_value(array), 16)
    array[:] = 9
    total(queue, kernels, out, fb.by_value(array), 16)
    for _ in range(2):
        go()
        assert device_data(out.get(queue=queue)[0]) == 48


def test_what_is_refused(refuses, queue, kernels, out):
    for value, kind, builtin, word in (
        ([1, 2], fb.ArgumentTypeError, TypeError, "by_value"),
        ("text", fb.ArgumentTypeError, TypeError, "str"),
        (b"", fb.InvalidArgumentError, ValueError, "no bytes"),
        (np.array([(None,)], [("a", "O")])[0], fb.ArgumentTypeError, TypeError, "Python objects"),
    ):
        with refuses(kind, builtin, "'total', argument 1", word):
            total(queue, kernels, out, value, 1)
    for value in (5, None, "text", np.zeros((4, 4))[:, 1], np.array([None]), np.zeros(0), [1]):
        with pytest.raises(fb.Error, match="by_value"):
            fb.by_value(value)


def test_a_mark_keeps_its_memory(queue, kernels, out):
    grown = bytearray(64)
    mark = fb.by_value(grown)
    with pytest.raises(BufferError):
        grown.extend(bytes(100))
    total(queue, kernels, out, mark, 16)
    del mark
    queue.finish()
    grown.extend(bytes(100))


def test_a_bound_launch_takes_its_bytes_from_one_place(device, queue, kernels, out, hold):
    """However many are under way: they never change."""
    go = bind_it(queue, kernels["bump"], out)
    with mock.patch.object(device.driver, "stage", wraps=device.driver.stage) as stage:
        gate = hold(queue)
        for _ in range(300):
            go()
        gate.open()
        queue.finish()
    assert stage.call_count <= 1
    assert device_data(out.get(queue=queue)[0]) == BUMPED
