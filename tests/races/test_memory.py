"""Which memory a race is about: parts, rows, the host's memory, the pool's."""

import numpy as np
import pytest

import forebay as fb
from forebay.queues.selection import select
from tests.inside import natives_of

SIZE = 64
GRID = SIZE // 16, 16


@pytest.fixture
def queues(device):
    return [device.queue(blocking=False) for _ in range(3)]


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
