"""What the compiled code shows of a pointer that is not const: nothing writes through it, or only atomics do."""

import pytest

import forebay as fb
from forebay.compiler.spirv.access import accesses_of
from tests.inside import natives_of

SIZE = 64
GRID = SIZE // 16, 16

BODIES = """
float look(global float *p, int i) { return p[i]; }
kernel void twice(global float *y, global float *x) { y[get_global_id(0)] = 2 * x[get_global_id(0)]; }
kernel void called(global float *y, global float *x) { y[get_global_id(0)] = look(x, get_global_id(0)); }
kernel void chosen(global int *y, global int *a, global int *b, int first) { *y = (first ? a : b)[3]; }
kernel void chosen_to(global int *y, global int *a, global int *b, int first) { (first ? a : b)[3] = *y; }
kernel void walked(global float *y, global float *x, int n)
{
    for (global float *at = x; at < x + n; at += 2) *y += *at;
}
kernel void vectors(global float *y, global float *x) { vstore4(vload4(1, x), 0, y); }
kernel void moved(global float *y, global float *x)
{
    local float here[32];
    event_t done = async_work_group_copy(here, x, 32, 0);
    wait_group_events(1, &done);
    y[get_local_id(0)] = here[31 - get_local_id(0)];
}
kernel void counted(volatile global int *n, global int *x) { atomic_add(n + x[0], 1); }
kernel void counted_and_set(volatile global int *n) { atomic_add(n, 1); n[1] = 2; }
kernel void kept(global float *y, global ulong *where) { *where = (ulong) y; }
"""
SHOWN = {
    "twice": ["writes", "reads"], "called": ["writes", "reads"], "chosen": ["writes", "reads", "reads"],
    "chosen_to": ["reads", "writes", "writes"], "walked": ["writes", "reads"], "vectors": ["writes", "reads"],
    "moved": ["writes", "reads"], "counted": ["atomics", "reads"], "counted_and_set": ["writes"],
    "kept": ["", "writes"],
}  # fmt: skip


@pytest.fixture
def program(device):
    return device.program(BODIES)


@pytest.fixture
def shows(program):
    if not natives_of(program).accesses("twice"):
        pytest.skip("this driver compiles OpenCL C itself, and shows no code")


@pytest.mark.parametrize("name", SHOWN)
def test_what_the_code_shows(program, shows, name):
    pointers = [i for i, parameter in enumerate(program[name].parameters) if parameter.kind == "pointer"]
    shown = natives_of(program).accesses(name)
    assert [shown[i] for i in pointers] == SHOWN[name]
    assert len(shown) == len(program[name].parameters)


@pytest.mark.needs("no chosen device")
def test_of_what_is_no_module_nothing_is_known():
    assert accesses_of(b"", "k") == ()
    assert accesses_of(b"\3\2#\7" + bytes(13), "k") == ()


def submit(device, first, second, *arguments):
    a, b = device.queue(blocking=False), device.queue(blocking=False)
    device.finish()
    a.launch(first, *GRID, *arguments)
    b.launch(second, *GRID, *arguments)
    device.finish()


def test_what_nothing_writes_is_read(device, program, shows, found):
    x, ys = device.zeros(SIZE), [device.zeros(SIZE) for _ in range(2)]
    a, b = device.queue(blocking=False), device.queue(blocking=False)
    device.finish()
    for queue, y in zip((a, b), ys, strict=True):
        queue.launch(program["twice"], *GRID, y, x)
    assert found() == ()
    a.fill(x, 1)
    (race,) = found()
    assert not race.first.writes
    assert race.basis == ()
    device.finish()


def test_a_write_that_is_seen_is_no_matter_of_const(device, program, shows, found):
    submit(device, program["twice"], program["twice"], device.zeros(SIZE), device.zeros(SIZE))
    (race,) = found()
    assert "not const" not in "".join(race.basis)


def test_atomics_of_both_are_possible_at_most(device, program, shows, found):
    n, x = device.zeros(SIZE, "i4"), device.zeros(SIZE, "i4")
    submit(device, program["counted"], program["counted"], n, x)
    assert found() == ()
    (race,) = device.possible_races
    assert "atomic" in race.basis[-1]


def test_atomics_of_one_are_no_excuse(device, program, shows, found):
    n, x = device.zeros(SIZE, "i4"), device.zeros(SIZE, "i4")
    a, b, c = (device.queue(blocking=False) for _ in range(3))
    device.finish()
    a.launch(program["counted_and_set"], *GRID, n)
    a.launch(program["counted"], *GRID, n, x)  # does not stand for the one before
    b.launch(program["counted"], *GRID, n, x)
    assert {race.first.kernel for race in found()} == {"counted_and_set"}
    c.fill(n, 0)
    assert {race.first.kernel for race in found()} == {"counted_and_set", "counted"}
    device.finish()


def test_types_for_atomics_alone(device, found):
    """OpenCL C 2.0, section 6.13.11: what has such a type is changed by atomic operations."""
    try:
        kernel = device.program(
            "kernel void count(global atomic_int *n) { atomic_fetch_add_explicit(n, 1, memory_order_relaxed); }",
            "-cl-std=CL2.0",
        )["count"]
    except fb.BuildError:
        pytest.skip("no OpenCL C 2.0")
    n = device.zeros(SIZE, "i4")
    submit(device, kernel, kernel, n)
    assert found() == ()
    assert len(device.possible_races) == 1
    plain = device.program("kernel void set(global int *n) { n[get_global_id(0)] = 1; }")["set"]
    a, b = device.queue(blocking=False), device.queue(blocking=False)
    a.launch(plain, *GRID, n)
    a.launch(kernel, *GRID, n)  # does not stand for the one before
    b.launch(kernel, *GRID, n)
    assert [race.first.kernel for race in found()] == ["set"]
    device.finish()
