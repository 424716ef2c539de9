"""Variables of programs: `Program.get_global`."""

import gc
import struct
from itertools import pairwise

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data
from tests.helpers.needs import variable_options
from tests.helpers.refusals import refused
from tests.inside import binary_of

SOURCE = """
global int count = 5;
global float table[4] = {1, 2, 3, 4};
global int never_used[7];
static global int hidden = 9;
kernel void step(global int *out) { out[0] = count++; out[1] = (int)table[2]; out[2] = hidden; }
kernel void write(global int *to, int value) { to[0] = value; }
"""


@pytest.fixture
def build(device):
    """``build()``: the program; a device whose variables nobody can reach has none."""
    if variable_options(device) is None:
        pytest.skip("the device has no variables")
    if device.info.backend == "sycl":
        pytest.skip("the driver does not report where variables are")
    return lambda source=SOURCE: device.program(source, variable_options(device))


@pytest.fixture
def step(device):
    """``step(program)``: what the kernel finds in the variables; it counts."""

    def step(program):
        out = device.empty(3, "i4")
        device.null_queue.launch(program["step"], 1, 1, out)
        return out.get().tolist()

    return step


def test_a_variable_is_a_buffer_of_its_bytes_which_kernels_use(build, step, device):
    program, queue = build(), device.null_queue
    others = build()["write"]  # of another program, out of the cache
    for name, dtype, values in (("count", "i4", [5]), ("table", "f4", [1, 2, 3, 4]), ("never_used", "i4", [0] * 7)):
        variable = program.get_global(name)
        assert (variable.shape, variable.dtype, variable.nbytes) == ((4 * len(values),), np.uint8, 4 * len(values))
        assert (variable.device, variable.usm_type) == (device, "device")
        assert program.get_global(name) is variable
        assert device_data(variable.view(dtype).get().tolist()) == values
    ends = sorted((v.address, v.address + v.nbytes) for v in map(program.get_global, ("count", "table", "never_used")))
    assert all(one[1] <= other[0] for one, other in pairwise(ends))
    assert device_data(step(program)) == [5, 3, 9]
    count, table = program.get_global("count").view("i4"), program.get_global("table").view("f4")
    table.set([10, 20, 30, 40])
    queue.fill(count, 70)
    assert device_data(step(program)) == [70, 30, 9]
    table[2:3].set([31])
    source = device.array(np.array([8], "i4"))
    queue.copy(count, source)
    assert device_data(step(program)) == [8, 31, 9]
    queue.copy(source, count)
    assert device_data(source.get().tolist()) == [9]
    for kernel in (program["write"], others):
        queue.launch(kernel, 1, 1, count, 50)
        assert device_data(step(program)[0]) == 50
        kernel.bind(queue, 1, 1, count, 60)()
        assert device_data(step(program)[0]) == 60


def test_programs_have_their_own(build, step):
    """The second is out of the cache."""
    one, other = build(), build()
    assert one.get_global("count").address != other.get_global("count").address
    one.get_global("count").view("i4").set([100])
    assert device_data(step(other)[0]) == 5
    assert device_data(step(one)[0]) == 100
    assert device_data(step(other)[0]) == 6


def test_a_graph_copies_to_it(build, step, device):
    program, queue = build(), device.queue()
    count, source = program.get_global("count").view("i4"), device.array(np.array([40], "i4"))
    device.finish()
    with queue.capture() as graph:
        queue.copy(count, source)
    ready = graph.instantiate()
    for _ in range(2):
        step(program)
        ready.launch(queue)
        queue.finish()
        assert device_data(count.get().tolist()) == [40]


# -- how long it is there


def test_how_long_it_is_there(build, device, really):
    """It outlives a program that is dropped, and is closed with one that is; closed itself, it is handed out again."""
    count = build().get_global("count").view("i4")
    gc.collect()
    count.set([3])
    assert count.get().tolist() == [3] or not really
    program = build()
    with program.get_global("count") as first:
        pass
    count = program.get_global("count")
    assert count is not first
    assert count.view("i4").get().tolist() == [5] or not really
    part = count[:2]
    program.close()
    program.close()
    for each in (count, part):
        assert each.closed
        with refused(fb.ClosedError, RuntimeError, "closed"):
            each.get()
    with refused(fb.ClosedError, RuntimeError, "Program is closed"):
        program.get_global("count")
    with refused(fb.ClosedError, RuntimeError, "closed"):
        device.null_queue.launch(build()["write"], 1, 1, count, 1)


def test_work_that_uses_it_still_runs_when_its_program_is_closed(build, device, hold, really):
    program, queue, out = build(), device.queue(), np.zeros(1, "i4")
    count = program.get_global("count").view("i4")
    gate = hold(queue)
    queue.fill(count, 12)
    queue.copy(out, count)
    program.close()
    del program, count
    gc.collect()
    gate.open()
    queue.finish()
    assert out[0] == 12 or not really


def test_writes_of_kernels_are_not_seen_so_nothing_is_remembered_of_it(build, queue):
    """Memory that changes unseen is measured anew for each launch."""
    program = build(
        "global int counts[2] = {1, 2};"
        "kernel void grow(global int *x, global const int *of) { x[0] = of[0]; counts[1] += 1; }"
    )
    grow = program["grow"]
    grow.scratch("x", fb.MaxOver("of") * 0 + 64)
    counts = program.get_global("counts").view("i4")
    for _ in range(3):
        queue.launch(grow, 1, 1, counts)
    assert queue.stats.reductions == 3


# -- what is refused


def test_names_that_are_refused(build):
    program = build()
    for name in ("none", "hidden", "step", "", "count\0", "\udcff", "count ", "täble"):
        with refused(fb.InvalidArgumentError, ValueError, repr(name)):
            program.get_global(name)
    for name in (None, 3, b"count"):
        with refused(fb.ArgumentTypeError, TypeError, type(name).__name__):
            program.get_global(name)
    assert program.get_global("count").nbytes == 4


@pytest.mark.needs("no variables")
def test_a_driver_that_does_not_tell_says_so(device):
    program = device.program("kernel void fill(global int *x) { x[0] = 1; }")
    with refused(fb.NotSupportedError, RuntimeError, "'count'"):
        program.get_global("count")


# -- what compilers make of it


def section(elf, name):
    """A section of a 64-bit ELF file."""
    at, size, count, names = struct.unpack_from("<Q10xHHH", elf, 0x28)[0], *struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, at + index * size) for index in range(count)]
    strings = headers[names][4]
    for word, _, _, _, offset, nbytes in headers:
        if elf[strings + word :].startswith(name.encode() + b"\0"):
            return elf[offset : offset + nbytes]
    raise LookupError(name)


@pytest.mark.needs("Level Zero")
@pytest.mark.parametrize(("declared", "in_code"), [("global", False), ("global const", True), ("constant", True)])
def test_what_is_not_const_is_not_part_of_the_code(device, declared, in_code):
    """Else kernels would not see what the host writes, which null hardware cannot show."""
    source = f"{declared} int a = 0x12345678; kernel void get(global int *x) {{ x[0] = a; }}"
    program = device.program(source, variable_options(device))
    binary = binary_of(program, "get")
    assert ((0x12345678).to_bytes(4, "little") in section(binary, ".text.get")) == in_code
