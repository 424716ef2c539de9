"""How processes end: with memory still alive, and after a kernel that ended CUDA's context."""

import pytest

from forebay.queues.selection import select
from tests.helpers import processes

from . import standing_in

pytestmark = pytest.mark.needs("no device of another driver than CUDA", "no validation layer")

# Without a GPU the driver is the stand-in, which executes nothing.
BEGIN = """
import forebay as fb
device = fb.Device("cuda")
queue, x = device.queue(), device.zeros(64, "u4")
"""
STANDING_IN = "from tests.drivers.cuda import standing_in\nstanding_in.begin()\n"

FAULTS = {
    "trap": "__trap();", "assertion": 'assert(x[1] && "never");', "address": "*(volatile unsigned*)8 = 1;",
}  # fmt: skip


def on_a_gpu():
    info = select()
    return info is not None and info.backend == "cuda" and info.usable and not standing_in.inside()


def ended(text):
    return processes.python("-c", ("" if on_a_gpu() else STANDING_IN) + BEGIN + text, timeout=100)


@pytest.mark.needs("no chosen device")
@pytest.mark.parametrize("kept", [
    "keep = [x, fb.host_empty(64, 'u4', device=device), device.empty(64, 'u4', usm_type='shared')]",
    "keep = [device.array([1, 2, 3]) for _ in range(5)]; device.close()",
    "import builtins; builtins.kept = x, queue.record(), device.program('kernel void k(global int *x) {}')",
])  # fmt: skip
def test_with_memory_that_is_alive(kept):
    """Nothing is printed, whatever of Python's modules is gone by then."""
    done = ended(kept)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(not on_a_gpu(), reason="a kernel has to fail")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_kernel_that_fails_ends_the_context(fault):
    """It is said once where it is found, and by each call after that; closing and the end of the process are quiet."""
    done = ended(f"""
k = device.program('''#include <cassert>
    extern "C" __global__ void k(unsigned* x) {{ {FAULTS[fault]} x[0] = 1; }}''')["k"]
queue.launch(k, 1, 1, x)
for call in (queue.finish, device.finish, x.get, queue.record, lambda: queue.launch(k, 1, 1, x)):
    try:
        call()
    except fb.DeviceLostError as error:
        print("lost:", error)
device.close()
print("closed")
""")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("lost: ")] == lines[:-1]
    assert lines[-1] == "closed"
    assert len(lines) == 6
    if fault == "assertion":
        assert 'Assertion `x[1] && "never"` failed' in done.stderr
    else:
        assert done.stderr == ""
