"""Which allocation an address is in, as copies, memsets and questions find it."""

import random

import numpy as np
import pytest

from forebay import hip

from ..conftest import ok
from ..helpers import E, K, code


def range_of(address):
    """Where the allocation of an address begins, and its bytes; None for memory that is not from here."""
    error, base, nbytes = hip.hipMemGetAddressRange(address)
    return (int(base), nbytes) if error == E.hipSuccess else None


def set_byte(address, value):
    return hip.hipMemsetAsync(address, value, 1, None)


@pytest.mark.parametrize("allocate", [hip.hipMalloc, hip.hipMallocAsync, hip.hipHostMalloc], ids=lambda f: f.__name__)
def test_the_edges_of_an_allocation(device, allocate, really):
    first, second = ok(allocate(100)), ok(allocate(100))
    for memory in (first, second, first):
        assert range_of(memory) == range_of(memory + 99) == (int(memory), 100)
        assert range_of(memory + 100) != (int(memory), 100)
        ok(hip.hipMemcpy(memory, second if memory is first else first, 100, K.hipMemcpyDefault))
        for offset, nbytes in ((0, 101), (1, 100), (99, 2), (100, 1)):
            source = memory + offset
            assert code(hip.hipMemcpy(bytearray(nbytes), source, nbytes, K.hipMemcpyDefault)) == E.hipErrorInvalidValue
            assert code(hip.hipMemcpyAsync(source, first, nbytes, K.hipMemcpyDefault)) == E.hipErrorInvalidValue
    if allocate is hip.hipHostMalloc:
        return
    ok(hip.hipMemset(first, 1, 100))
    ok(set_byte(first, 2))
    ok(set_byte(first + 99, 3))
    assert code(set_byte(first + 100, 4)) == E.hipErrorInvalidValue
    out = np.zeros(100, "u1")
    ok(hip.hipMemcpy(out, first, 100, K.hipMemcpyDeviceToHost))
    assert out.tolist() == [2, *[1] * 98, 3] or not really


def test_memory_that_is_handed_out_again(device, really):
    """The old pointer has the address of the new memory, and is good for as much as that has."""
    old = ok(hip.hipMallocAsync(4096))
    ok(hip.hipFreeAsync(old))
    assert range_of(old) is None
    assert code(hip.hipFreeAsync(old)) == E.hipErrorInvalidValue
    assert code(hip.hipMemcpy(bytearray(1), old, 1, K.hipMemcpyDeviceToHost)) == E.hipErrorInvalidValue
    assert code(set_byte(old, 1)) == E.hipErrorInvalidValue
    new = ok(hip.hipMallocAsync(4000))
    assert int(new) == int(old)
    assert range_of(old) == (int(new), 4000)
    ok(hip.hipMemset(old, 7, 4000))
    assert code(hip.hipMemset(old, 7, 4001)) == E.hipErrorInvalidValue
    out = bytearray(4000)
    ok(hip.hipMemcpy(out, new, 4000, K.hipMemcpyDeviceToHost))
    assert out == bytes([7] * 4000) or not really
    ok(hip.hipFreeAsync(old))
    assert range_of(new) is None


def test_many_allocations_wherever_they_are(device):
    """The program says where: each array of them is filled in the middle, too."""
    arena, rng = np.zeros(64 * 2000, "u1"), random.Random(6)
    bases = [arena.ctypes.data + 64 * i for i in range(2000)]
    known = set()
    for each in (rng.sample(bases, 2000), rng.sample(bases, 1000), rng.sample(bases, 2000)):
        for base in each:
            if base in known:
                ok(hip.hipHostUnregister(base))
                known.remove(base)
            else:
                ok(hip.hipHostRegister(base, 40, 0))
                known.add(base)
        for base in bases:
            there = (base, 40) if base in known else None
            assert range_of(base) == range_of(base + 39) == there
            assert range_of(base + 40) is None
    for base in known:
        ok(hip.hipHostUnregister(base))
