"""Programs that go on and on and never synchronize: HIP's functions keep nothing of each turn."""

import ctypes

import numpy as np
import pytest

from forebay import hip
from tests.helpers.growth import MIB, growth

from .conftest import ok
from .helpers import K, N, ints

pytestmark = pytest.mark.needs("no validation layer")  # it remembers every call

LITTLE = 4 * MIB  # in 50,000 turns: 80 bytes each
BYTES = 4 * N


class Program:
    def __init__(self, streams, function):
        self.stream, self.other = streams(2)
        self.event = ok(hip.hipEventCreate())
        self.fill = function("fill")
        self.there, self.second = ints(), ints()
        self.pinned = ok(hip.hipHostMalloc(BYTES, 0))
        self.host = np.zeros(N, "i4")

    def is_done(self):
        return all(hip.hipStreamQuery(each)[0] == hip.hipError_t.hipSuccess for each in (self.stream, self.other))

    def launch(self):
        arguments = (ctypes.c_void_p(int(self.there)), ctypes.c_int(1))
        ok(hip.hipModuleLaunchKernel(self.fill, 1, 1, 1, 64, 1, 1, 0, self.stream, None, arguments))

    def up(self):
        ok(hip.hipMemcpyAsync(self.there, self.pinned, BYTES, K.hipMemcpyHostToDevice, self.stream))

    def down(self):
        ok(hip.hipMemcpyAsync(self.pinned, self.there, BYTES, K.hipMemcpyDeviceToHost, self.stream))

    def across(self):
        ok(hip.hipMemcpyAsync(self.second, self.there, BYTES, K.hipMemcpyDeviceToDevice, self.stream))

    def set(self):
        ok(hip.hipMemsetAsync(self.there, 0, BYTES, self.stream))

    def record(self):
        self.set()
        ok(hip.hipEventRecord(self.event, self.stream))

    def wait(self):
        self.record()
        ok(hip.hipStreamWaitEvent(self.other, self.event, 0))
        ok(hip.hipMemsetAsync(self.second, 0, BYTES, self.other))

    def allocate(self):
        ok(hip.hipFreeAsync(ok(hip.hipMallocAsync(BYTES, self.stream)), self.stream))

    def new_event(self):
        event = ok(hip.hipEventCreateWithFlags(hip.hipEventDisableTiming))
        self.set()
        ok(hip.hipEventRecord(event, self.stream))
        ok(hip.hipEventDestroy(event))


WAYS = [name for name in vars(Program) if not name.startswith("_") and name != "is_done"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.long
@pytest.mark.every_driver
def test_nothing_is_kept_of_each_turn(device, streams, function, way):
    program = Program(streams, function)
    assert growth(getattr(program, way), program.is_done) < LITTLE
    ok(hip.hipDeviceSynchronize())
