import dpctl
import dpctl.memory as dpctl_memory
import numpy as np
import pytest

import forebay as fb
from forebay.queues.selection import devices

SOURCE = """
kernel void step(global uint *a, uint n) {
    for (uint i = 0; i < n; i++) a[get_global_id(0)] = a[get_global_id(0)] * 1664525u + 1013904223u;
}
kernel void hold(global volatile uint *a, global volatile uint *may_end) { while (!atomic_add(may_end, 0)) { } }
"""


COUNT = 1 << 12
LONG = 20_000  # steps: some tens of milliseconds, so that what comes next is submitted while they run
VALUES = np.arange(COUNT, dtype=np.uint32)


def steps(values, n):
    """The kernel's results for these values."""
    for _ in range(n):
        values = values * np.uint32(1664525) + np.uint32(1013904223)
    return values


def usm(queue, values=None):
    memory = dpctl_memory.MemoryUSMDevice(4 * COUNT, queue=queue)
    if values is not None:
        memory.copy_from_host(values.view("u1"))
    return memory


def contents(memory):
    return np.asarray(memory.copy_to_host()).view(np.uint32)


@pytest.fixture(scope="session")
def native():
    """The `dpctl.SyclDevice` of the first usable SYCL device. forebay looks first, because it finds Intel's driver."""
    found = next((device for device in devices() if device.backend == "sycl" and device.usable), None)
    if found is None:
        pytest.skip("there is no usable SYCL device")
    return found.native


@pytest.fixture
def sycl_queue(native):
    """A queue of dpctl. It has no outstanding work before and after the test."""
    queue = dpctl.SyclQueue(native, property="in_order")
    yield queue
    queue.wait()


@pytest.fixture
def memory(sycl_queue):
    """Memory of dpctl, with VALUES."""
    return usm(sycl_queue, VALUES)


@pytest.fixture
def queue(sycl_queue):
    """The same queue, adopted; its device is closed when the test ends."""
    queue = fb.Device.adopt_queue(sycl_queue)
    yield queue
    queue.device.close()


@pytest.fixture
def device(queue):
    return queue.device


@pytest.fixture
def program(device):
    return device.program(SOURCE)


@pytest.fixture
def step(program):
    return program["step"]


@pytest.fixture
def hold(program, device, sycl_queue):
    """Launch a kernel on a queue, with a buffer, that runs until the function that is returned is called."""
    shared = dpctl_memory.MemoryUSMShared(4, queue=sycl_queue)
    may_end, of_device = np.asarray(shared).view("u4"), device.as_buffer(shared).view("u4")
    may_end[:] = 0

    def open_():
        may_end[:] = 1

    def launch(queue, buffer):
        queue.launch(program["hold"], 1, 1, buffer, of_device)
        return open_

    yield launch
    open_()  # a test that fails leaves nothing that runs on
