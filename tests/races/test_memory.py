"""Which memory a race is about: parts, rows, the host's memory, the pool's."""

import numpy as np
import pytest

import forebay as fb
from forebay.queues.drivers.selection import select
from tests.inside import forget_races, natives_of

SIZE = 64
GRID = SIZE // 16, 16


@pytest.fixture
def queues(device):
    return [device.queue(blocking=False) for _ in range(3)]


def test_halves_are_no_race(device, queues, found):
    a, b, _ = queues
    x = device.empty(SIZE)
    a.fill(x[:32], 1)
    b.fill(x[32:], 2)
    assert found() == ()
    b.fill(x[31:33], 2)
    (race,) = found()
    assert (race.begin, race.end) == (31 * 4, 32 * 4)
    assert f"{SIZE * 4} bytes made at {__file__}" in race.memory


def test_launches_on_halves_are_no_race(device, kernels, queues, found):
    a, b, _ = queues
    x = device.empty(SIZE)
    a.launch(kernels["scale"], 2, 16, x[:32], 2.0)
    b.launch(kernels["scale"], 2, 16, x[32:], 2.0)
    assert found() == ()


def test_rows_that_do_not_overlap_are_no_race(device, queues, found):
    a, b, _ = queues
    x = device.empty((8, 8))
    a.copy(x[:, :4], device.empty((8, 4)))
    b.copy(x[:, 4:], device.empty((8, 4)))
    assert (found(), device.possible_races) == ((), ())
    b.copy(x[:, 3:5], device.empty((8, 2)))
    assert len(found()) == 1


@pytest.mark.parametrize(("start", "races"), [(0, 1), (12, 1), (15, 1), (16, 0), (28, 0), (31, 0), (32, 1)])
def test_a_row_and_a_piece(device, queues, found, start, races):
    a, b, _ = queues
    x = device.empty((4, 32), "u1")
    a.copy(x[:, :16], device.empty((4, 16), "u1"))
    b.fill(x.reshape(-1)[start : start + 1], 2)
    assert len(found()) == races


@pytest.mark.parametrize(("start", "races"), [(0, 1), (31, 1), (32, 0), (63, 0)])
def test_what_is_read_backwards(device, queues, found, start, races):
    a, b, _ = queues
    x = device.empty(SIZE)
    a.copy(x[31::-1], device.empty(32))
    b.fill(x[start : start + 1], 2)
    assert len(found()) == races


def test_rows_of_two_pitches_are_possible(device, queues, found):
    a, b, _ = queues
    x = device.empty(64, "u1")
    before = len(device.possible_races)
    a.copy(x[::4], device.empty(16, "u1"))
    b.copy(x[1::3], device.empty(21, "u1"))
    assert found() == ()
    assert len(device.possible_races) == before + 1


def test_a_part_chosen_in_the_kernel_is_possible(device, kernels, queues, found):
    a, b, _ = queues
    x = device.empty(SIZE)
    before = len(device.possible_races)
    a.launch(kernels["part"], 2, 16, x, 0)
    b.launch(kernels["part"], 2, 16, x, 32)
    assert found() == ()
    (race,) = device.possible_races[before:]
    assert "kernel.writes" in " ".join(race.basis)
    b.launch(kernels["part"], 2, 16, x, 0)  # the same part as the first one's
    assert len(found()) == 1
    device.finish()
    a.launch(kernels["part"], 2, 16, x, 0)
    b.fill(x, 1)  # every part
    assert len(found()) == 1


def test_a_part_chosen_by_a_structure_is_possible(device, queues, found):
    a, b, _ = queues
    try:
        kernel = device.program(
            "typedef struct { int at, step; } Part;"
            "kernel void of(global float *y, const Part p) { y[p.at + p.step * get_global_id(0)] = 1; }"
        )["of"]
        parts = [np.array((at, 1), dtype=[("at", "i4"), ("step", "i4")])[()] for at in (0, 32)]
        x, before = device.empty(SIZE), len(device.possible_races)
        a.launch(kernel, 2, 16, x, parts[0])
    except fb.NotSupportedError as error:
        pytest.skip(str(error))
    b.launch(kernel, 2, 16, x, parts[1])
    assert (len(found()), len(device.possible_races)) == (0, before + 1)
    b.launch(kernel, 2, 16, x, parts[0])
    assert len(found()) == 1


@pytest.mark.parametrize(("size", "groups", "certain"), [(70, 4, 0), (70, 5, 0), (70, 9, 1), (64, 4, 1)])
def test_a_part_may_be_chosen_where_a_grid_is_rounded_up(device, kernels, queues, found, size, groups, certain):
    """Five groups of sixteen may stand for 65 elements; of nine, more than 70 work-items do something."""
    a, b, _ = queues
    x, y = device.empty(size), device.empty(size)
    before = len(device.possible_races)
    a.launch(kernels["slots"], groups, 16, x, y, 0, 8)
    b.launch(kernels["slots"], groups, 16, x, y, 8, 8)
    assert (len(found()), len(device.possible_races)) == (certain, before + (not certain))


def test_an_integer_that_is_the_size_chooses_nothing(device, queues, found):
    kernel = device.program(
        "kernel void all_of(global float *y, const int n)"
        "{ for (int i = get_global_id(0); i < n; i += get_global_size(0)) y[i] = 1; }"
    )["all_of"]
    a, b, _ = queues
    x = device.empty(SIZE)
    a.launch(kernel, 2, 16, x, SIZE)
    b.fill(x[:8], 1)
    assert len(found()) == 1


def test_declared_parts_are_certain_or_nothing(device, queues, found):
    kernel = device.program(
        "kernel void mark(global float *y, const int first, const int count)"
        "{ if (get_global_id(0) < count) y[first + get_global_id(0)] = 1; }"
    )["mark"]
    kernel.writes("y", slice(fb.Argument("first"), fb.Argument("first") + fb.Argument("count")))
    a, b, _ = queues
    x = device.empty(SIZE)
    before = device.possible_races
    a.launch(kernel, 2, 16, x, 0, 32)
    b.launch(kernel, 2, 16, x, 32, 32)
    assert (found(), device.possible_races) == ((), before)
    b.launch(kernel, 2, 16, x, 16, 32)
    (race,) = found()
    assert (race.begin, race.end) == (64, 128)
    assert race.basis == ()


def test_a_pointer_that_is_not_const_can_be_said_to_be_read(device, queues, found):
    source = "kernel void peek(global float *x, global float *y) { y[get_global_id(0)] = x[get_global_id(0)]; }"
    program = device.program(source)
    kernel = program["peek"]
    a, b, _ = queues
    x = device.empty(SIZE)
    a.launch(kernel, *GRID, x, device.empty(SIZE))
    b.launch(kernel, *GRID, x, device.empty(SIZE))
    if natives_of(program).accesses("peek"):  # the compiled code shows it
        assert found() == ()
    else:
        (race,) = found()
        (reason,) = race.basis
        assert 'kernel.reads("x")' in reason

    kernel = device.program(source + " ")["peek"]
    kernel.reads("x")
    x = device.empty(SIZE)
    a.launch(kernel, *GRID, x, device.empty(SIZE))
    b.launch(kernel, *GRID, x, device.empty(SIZE))
    assert found() == ()


def test_what_reads_and_writes_refuse(device, kernels):
    kernel = kernels["slots"]
    with pytest.raises(fb.InvalidArgumentError, match="no parameter 'z'"):
        kernel.reads("z")
    with pytest.raises(fb.InvalidArgumentError, match="may write through"):
        kernel.writes("x")
    with pytest.raises(fb.InvalidArgumentError, match="pointer"):
        kernel.reads("first")
    with pytest.raises(fb.ArgumentTypeError, match="slice"):
        kernel.writes("y", 3)
    with pytest.raises(fb.InvalidArgumentError, match="known by arguments"):
        kernel.writes("y", slice(fb.MaxOver("x"), None))


def test_a_kernel_that_follows_pointers_may_use_any_memory(device, kernels, queues, found):
    follower = device.program(
        "kernel void follow(global const float *x, global float *into) { into[get_global_id(0)] = x[0]; }"
    )["follow"]
    follower.follow_pointers()
    a, b, _ = queues
    before = len(device.possible_races)
    a.launch(follower, *GRID, device.empty(SIZE), device.empty(SIZE))
    b.launch(kernels["scale"], *GRID, device.empty(SIZE), 2.0)
    assert found() == ()
    (race,) = device.possible_races[before:]
    assert "pointers" in race.basis[-1]
    device.finish()
    for queue in (a, b):  # these know their memory
        queue.launch(kernels["scale"], *GRID, device.empty(SIZE), 2.0)
    assert len(device.possible_races) == before + 1
    a.launch(follower, *GRID, device.empty(SIZE), device.empty(SIZE))
    a.launch(kernels["scale"], *GRID, device.empty(SIZE), 2.0)  # does not stand for it
    told = len(device.possible_races)
    b.launch(kernels["scale"], *GRID, device.empty(SIZE), 2.0)
    assert len(device.possible_races) == told + 1


def test_a_kernel_that_follows_pointers_is_no_matter_of_later_devices():
    """Which may have the address of the one it was for."""
    for _ in range(20):
        with fb.Device(private=True, check="races") as device:
            kernel = device.program("kernel void set(global float *y) { y[get_global_id(0)] = 1; }")["set"]
            queues = [device.queue(blocking=False) for _ in range(2)]
            for queue in queues:
                queue.launch(kernel, *GRID, device.empty(SIZE))
            assert device.possible_races == ()
            kernel.follow_pointers()
            queues[0].launch(kernel, *GRID, device.empty(SIZE))


# -- the host's memory


def test_host_memory_that_a_download_still_writes(device, queues, found):
    a, _, _ = queues
    x, y = device.empty(SIZE), device.empty(SIZE)
    host = np.zeros(SIZE, "f4")
    a.copy(host, x)
    a.copy(y, host)  # the host reads it now, and not when the queue gets there
    (race,) = found()
    assert race.second.queue == "the host"
    assert race.missing == "a.finish()"
    a.finish()
    a.copy(y, host)
    assert found() == ()


def test_two_downloads_to_one_array(device, queues, found):
    a, b, _ = queues
    x, y = device.empty(SIZE), device.empty(SIZE)
    host = np.zeros(SIZE, "f4")
    a.copy(host[:40], x[:40])
    b.copy(host[40:], y[40:])
    assert found() == ()
    b.copy(host[39:], y[39:])
    assert len(found()) == 1


def test_an_array_in_the_place_of_another_is_another(device, queues, found):
    a, b, _ = queues
    x = device.empty(SIZE)
    for _ in range(100):
        a.copy(np.zeros(SIZE, "f4"), x)
        b.copy(np.zeros(SIZE, "f4"), x)
    assert found() == ()


def test_pinned_memory(device, queues, found):
    a, b, _ = queues
    x, y = device.empty(SIZE), device.empty(SIZE)
    host = fb.host_empty(SIZE, device=device)
    a.copy(host, x)
    b.copy(y, host)
    (race,) = found()
    assert race.missing == "b.wait(a)"
    assert (race.begin, race.end) == (0, SIZE * 4)


def test_bytes_by_value(device, kernels, queues, found):
    a, b, _ = queues
    host = np.zeros(SIZE, "f4")
    a.copy(host, device.empty(SIZE))
    b.launch(kernels["take"], *GRID, fb.by_value(host), device.empty(SIZE))
    assert len(found()) == 1


def test_an_array_as_an_argument(device, kernels, queues, found):
    a, b, _ = queues
    host = np.zeros(SIZE, "f4")
    a.copy(host, device.empty(SIZE))
    b.launch(kernels["take"], *GRID, host, device.empty(SIZE))
    assert len(found()) == 1


# -- the pool's memory


def test_memory_of_a_queue_belongs_to_those_that_wait_for_it(device, kernels, queues, found):
    a, b, _ = queues
    x = a.alloc(SIZE)
    b.fill(x, 1)
    (race,) = found()
    assert race.first.kind == "alloc"
    x = a.alloc(SIZE)
    b.wait(a)
    b.fill(x, 1)
    a.wait(b)
    a.free(x)
    assert found() == ()


def test_a_free_comes_after_all_uses(device, queues, found):
    a, b, _ = queues
    x = a.alloc(SIZE)
    b.wait(a)
    b.fill(x, 1)
    a.free(x)
    (race,) = found()
    assert (race.second.kind, race.missing) == ("free", "a.wait(b)")


def test_memory_that_is_handed_out_again_is_other_memory(device, queues, found):
    a, b, _ = queues
    for _ in range(100):
        for queue in (a, b):
            x = queue.alloc(SIZE)
            queue.fill(x, 1)
            queue.free(x)
    assert found() == ()


def test_a_read_comes_after_writers_where_no_queue_is_given(device, queues, found):
    a, b, c = queues
    x, y = device.empty(SIZE), device.empty(SIZE)
    a.fill(x, 1)
    b.wait(a)
    b.fill(y, 2)
    y.get()  # waits for what b was given, and so for what a was given before
    c.fill(x, 3)
    assert found() == ()
    x.set(5)
    assert found() == ()


def test_a_set_comes_after_readers_and_a_get_does_not(device, kernels, queues, found):
    a, b, _ = queues
    x, y = device.empty(SIZE), device.empty(SIZE)
    a.launch(kernels["take"], *GRID, x, device.empty(SIZE))
    x.set(5)
    assert found() == ()
    a.wait(device.null_queue)
    a.launch(kernels["take"], *GRID, x, y)
    x.get()  # of which the launch is no concern
    b.fill(x, 3)
    (race,) = found()
    assert (race.first.kernel, race.missing) == ("take", "b.wait(a)")


def test_what_a_queue_does_after_a_get_is_another_matter(device, queues, found):
    a, b, _ = queues
    x, y = device.empty(SIZE), device.empty(SIZE)
    a.fill(x, 1)
    x.get()  # for which nobody records anything on a
    a.fill(x, 2)
    b.fill(x, 3)
    assert len(found()) == 1
    device.finish()
    a.fill(y, 1)
    y.set(2)
    a.fill(y, 3)
    device.null_queue.fill(y, 4)
    assert {race.first.queue.split()[0] for race in found()} == {"a", "device.null_queue"}


def test_uses_that_were_forgotten_still_order(device, queues, found):
    a, b, c = queues
    x, y = device.empty(1024), device.empty(SIZE)
    c.fill(y, 1)
    c.fill(x[:1], 1)
    for i in range(1, 300):  # too many to be kept
        a.fill(x[2 * i : 2 * i + 1], 1)
        a.record()
    x.get()
    b.fill(y, 2)
    assert found() == ()


@pytest.mark.skipif(select().backend == "cuda", reason="the stand-in has no shared memory")
def test_a_view_of_shared_memory_is_possible(device, queues, found):
    a, _, _ = queues
    try:
        x = device.empty(SIZE, usm_type="shared")
    except fb.NotSupportedError:
        pytest.skip("the device has no shared memory")
    before = len(device.possible_races)
    view = x.host
    assert len(device.possible_races) == before
    a.fill(x, 1)
    assert x.host is not view
    assert found() == ()
    assert len(device.possible_races) == before + 1


# -- a later use of a queue stands for an earlier one only where it would be told for the same


def test_a_use_does_not_stand_for_one_that_reaches_further(device, queues, found):
    a, b, _ = queues
    x = device.empty(SIZE)
    a.fill(x[:32], 1)
    a.fill(x[:8], 2)
    b.fill(x[16:24], 3)
    (race,) = found()
    assert (race.begin, race.end) == (64, 96)


def test_rows_do_not_stand_for_what_lies_between_them(device, queues, found):
    a, b, _ = queues
    x = device.empty((8, 8))
    a.fill(x.reshape(-1)[:8], 1)
    a.copy(x[:, :4], device.empty((8, 4)))
    b.fill(x.reshape(-1)[6:8], 2)
    assert len(found()) == 1


def test_a_part_does_not_stand_for_another(device, kernels, queues, found):
    a, b, _ = queues
    x = device.empty(SIZE)
    a.launch(kernels["part"], 2, 16, x, 0)
    a.launch(kernels["part"], 2, 16, x, 32)
    b.launch(kernels["part"], 2, 16, x, 0)
    assert len(found()) == 1


def test_a_doubtful_use_does_not_stand_for_a_certain_one(device, queues, found):
    a, b, _ = queues
    x = device.empty((4, 4, 8), "u1")
    part = x[::2, ::2, ::3]
    a.fill(x.reshape(-1)[:1], 1)
    a.copy(part, device.empty(part.shape, "u1"))
    b.fill(x.reshape(-1)[:1], 2)
    assert len(found()) == 1


# -- uses side by side, of one line, are kept as one


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_a_loop_over_parts_uses_all_of_them(device, queues, found, order):
    a, b, _ = queues
    x = device.empty(SIZE)
    for i in order:
        a.fill(x[16 * i : 16 * i + 16], 1)
    b.fill(x[48:], 2)
    assert found() == ()
    for i in range(3):
        forget_races(device)
        b.fill(x[16 * i + 4 : 16 * i + 8], 2)
        assert len(device.races) == 1


def test_a_loop_over_parts_does_not_use_what_is_between(device, queues, found):
    a, b, _ = queues
    x = device.empty(SIZE)
    for i in (0, 2):
        a.fill(x[16 * i : 16 * i + 16], 1)
    b.fill(x[16:32], 2)
    assert found() == ()


def test_a_loop_over_parts_with_records_between(device, queues, found):
    a, b, _ = queues
    x = device.empty(SIZE)
    events = []
    for i in range(2):
        a.fill(x[16 * i : 16 * i + 16], 1)
        events.append(a.record())
    b.wait(events[0])
    b.fill(x[:16], 2)
    assert found() == ()
    b.fill(x[16:32], 2)
    assert len(found()) == 1


def test_a_read_does_not_stand_for_a_doubtful_write(device, queues, found):
    a, b, _ = queues
    x = device.empty((4, 4, 8), "u1")
    part = x[::2, ::2, ::3]
    before = len(device.possible_races)
    a.copy(part, device.empty(part.shape, "u1"))
    a.copy(device.empty(x.shape, "u1"), x)
    b.copy(device.empty(x.shape, "u1"), x)
    assert found() == ()
    (race,) = device.possible_races[before:]
    assert race.first.writes
