"""Modelled on the tests of hipStreamWaitValue and hipStreamWriteValue."""

import numpy as np
import pytest

from forebay import hip

from .conftest import ok
from .helpers import CANNOT_MAP, E, K, can_map, code

pytestmark = pytest.mark.executes
BITS = {32: "u4", 64: "u8"}
MEMORY = {"device": "hipMalloc", "host": "hipHostMalloc", "managed": "hipMallocManaged", "copies": "hipHostMalloc"}
GTE, EQ, AND, NOR = (getattr(hip, f"hipStreamWaitValue{name}") for name in ("Gte", "Eq", "And", "Nor"))


@pytest.fixture(params=MEMORY)
def memory(request, device):
    """With "copies", as on a device that cannot map memory of the host."""
    if request.param == "copies":
        request.getfixturevalue("shares_none")
    elif request.param == "host" and not can_map(device):
        pytest.skip(CANNOT_MAP)
    result, pointer = getattr(hip, MEMORY[request.param])(1024)
    if result == E.hipErrorNotSupported:
        pytest.skip("the device has no such memory")
    if request.param == "copies":
        np.asarray(pointer)[:] = 0
    else:
        ok(hip.hipMemset(pointer, 0, 1024))
        ok(hip.hipDeviceSynchronize())
    return pointer


def call(what, bits, *args):
    return getattr(hip, f"hipStream{what}Value{bits}")(*args)


def value_at(pointer, bits):
    out = np.zeros(1, BITS[bits])
    ok(hip.hipMemcpy(out, pointer, out.nbytes, K.hipMemcpyDefault))
    return int(out[0])


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("offset", [0, 1, 31])
def test_write(memory, bits, offset):
    stream, value = ok(hip.hipStreamCreate()), 0x70F0F0FF if bits == 32 else 0x7FFF0000FFFF0000
    ok(call("Write", bits, stream, memory + offset * bits // 8, value, 0))
    ok(hip.hipStreamSynchronize(stream))
    assert value_at(memory + offset * bits // 8, bits) == value


@pytest.mark.parametrize(("bits", "flags", "mask", "wanted", "fails", "passes"), [
    (32, GTE, 0xF, 0x4, 0x3, 0x6),
    (32, EQ, 0xFFFF, 0x1, 0x0FFF0000, 0x0FFF0001),
    (32, EQ, 0xFF, 0x11, 0x25, 0x11),
    (32, AND, 0xFF, 0xF4A, 0xF35, 0x02),
    (32, NOR, None, 0x7AF5F5F5, 0xFFFFFFFF, 0x1),
    (32, GTE, None, 0x7FFF0001, 0x7FFF0000, 0x7FFF0010),
    (64, EQ, None, 0x7FFFFFFFFFFFFFFF, 0x7FFFFFFF0FFF0000, 0x7FFFFFFFFFFFFFFF),
    (64, AND, None, 0x70F0F0F0F0F0F0F0, 0x0F0F0F0F0F0F0F0F, 0x1F0F0F0F0F0F0F0F),
])  # fmt: skip
@pytest.mark.parametrize("blocks", [True, False])
def test_wait(memory, bits, flags, mask, wanted, fails, passes, blocks):
    stream, other = ok(hip.hipStreamCreate()), ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
    before, after = ok(hip.hipEventCreate()), ok(hip.hipEventCreate())
    ok(call("Write", bits, stream, memory, fails if blocks else passes, 0))
    ok(hip.hipEventRecord(before, stream))
    arguments = (stream, memory, wanted, flags)
    ok(call("Wait", bits, *arguments) if mask is None else call("Wait", bits, *arguments, mask))
    ok(call("Write", bits, stream, memory + 8, 5, 0))
    ok(hip.hipEventRecord(after, stream))
    ok(hip.hipEventSynchronize(before))
    if blocks:
        assert code(hip.hipEventQuery(after)) == E.hipErrorNotReady
        ok(call("Write", bits, other, memory, passes, 0))
    ok(hip.hipStreamSynchronize(stream))
    ok(hip.hipEventQuery(after))
    assert value_at(memory + 8, bits) == 5
