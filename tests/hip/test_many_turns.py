"""Programs that go on and on and never synchronize: HIP's functions keep nothing of each turn."""

import ctypes
from types import SimpleNamespace

import pytest

from forebay import hip
from tests.helpers.growth import MIB, growth

from .conftest import ok
from .helpers import K, N, ints

pytestmark = pytest.mark.needs("no validation layer")  # it remembers every call

LITTLE = 4 * MIB  # in 50,000 turns: 80 bytes each
BYTES = 4 * N


def set_zeros(of):
    return hip.hipMemsetAsync(of.there, 0, BYTES, of.stream)


def launch(of):
    arguments = (ctypes.c_void_p(int(of.there)), ctypes.c_int(1))
    return hip.hipModuleLaunchKernel(of.fill, 1, 1, 1, 64, 1, 1, 0, of.stream, None, arguments)


def wait(of):
    ok(set_zeros(of))
    ok(hip.hipEventRecord(of.event, of.stream))
    ok(hip.hipStreamWaitEvent(of.other, of.event, 0))
    return hip.hipMemsetAsync(of.second, 0, BYTES, of.other)


def new_event(of):
    event = ok(hip.hipEventCreateWithFlags(hip.hipEventDisableTiming))
    ok(set_zeros(of))
    ok(hip.hipEventRecord(event, of.stream))
    return hip.hipEventDestroy(event)


TURNS = {
    "launch": launch, "set": set_zeros, "wait": wait, "new event": new_event,
    "up": lambda of: hip.hipMemcpyAsync(of.there, of.pinned, BYTES, K.hipMemcpyHostToDevice, of.stream),
    "down": lambda of: hip.hipMemcpyAsync(of.pinned, of.there, BYTES, K.hipMemcpyDeviceToHost, of.stream),
    "across": lambda of: hip.hipMemcpyAsync(of.second, of.there, BYTES, K.hipMemcpyDeviceToDevice, of.stream),
    "allocate": lambda of: hip.hipFreeAsync(ok(hip.hipMallocAsync(BYTES, of.stream)), of.stream),
}  # fmt: skip


EVERYWHERE = ("launch", "wait", "allocate", "up")  # `tests.themes` shows what the commands of the others keep


@pytest.mark.parametrize(
    "turn", [pytest.param(name, marks=[pytest.mark.every_driver] * (name in EVERYWHERE)) for name in TURNS]
)
@pytest.mark.long
def test_nothing_is_kept_of_each_turn(device, streams, function, turn):
    stream, other = streams(2)
    of = SimpleNamespace(
        stream=stream, other=other, event=ok(hip.hipEventCreate()), fill=function("fill"), there=ints(), second=ints(),
        pinned=ok(hip.hipHostMalloc(BYTES, 0)),
    )  # fmt: skip
    is_done = lambda: all(hip.hipStreamQuery(each)[0] == hip.hipError_t.hipSuccess for each in (stream, other))  # noqa: E731
    assert growth(lambda: ok(TURNS[turn](of)), is_done) < LITTLE
    ok(hip.hipDeviceSynchronize())
