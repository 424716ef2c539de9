"""HIP's vector types, and structures as arguments for a kernel's vectors."""

import copy
import ctypes

import numpy as np
import pytest

from forebay import hip

from ..conftest import ok
from ..helpers import E, K, code, function_of

SOURCE = b"""
kernel void vectors(float3 a, float4 b, uchar4 c, int2 d, global float *out) {
    out[0] = a.x; out[1] = a.y; out[2] = a.z; out[3] = b.w; out[4] = c.w; out[5] = d.y; out[6] = b.x; out[7] = d.x;
}
"""
GIVEN = [1, 2, 3, 7, 200, -2, 4, -1]


class Mine(ctypes.Structure):
    _fields_ = (("first", ctypes.c_float), ("rest", ctypes.c_float * 3))


@pytest.fixture
def vectors(device):
    return function_of(SOURCE, b"vectors")


def arguments(b=None):
    return [hip.float3(1, 2, 3), b or hip.float4(4, 5, 6, 7), hip.uchar4(w=200), hip.int2(-1, -2)]


def launched(vectors, params=None, extra=None):
    ok(hip.hipModuleLaunchKernel(vectors, 1, 1, 1, 1, 1, 1, 0, None, params, extra))


@pytest.mark.executes
@pytest.mark.needs("OpenCL")
@pytest.mark.parametrize("way", ["extra", "values", "addresses", "own structure"])
def test_a_kernel_gets_them(vectors, way):
    out, got = ok(hip.hipMalloc(32)), np.zeros(8, "f4")
    own = arguments(Mine(4, (5, 6, 7)) if way == "own structure" else None)
    pointer = ctypes.c_void_p(int(out))
    if way == "addresses":
        launched(vectors, [ctypes.addressof(each) for each in (*own, pointer)])
    elif way == "values":
        launched(vectors, [*own, ctypes.addressof(pointer)])
    else:
        launched(vectors, extra=(*own, out))
    ok(hip.hipMemcpy(got, out, 32, K.hipMemcpyDeviceToHost))
    assert got.tolist() == GIVEN


@pytest.mark.needs("OpenCL")
def test_structures_of_another_size(vectors, works):
    out = ok(hip.hipMalloc(32))
    for wrong in (hip.float2(), hip.double4(), Mine * 2):
        given = arguments()
        given[1] = wrong() if isinstance(wrong, type) else wrong
        launch = hip.hipModuleLaunchKernel(vectors, 1, 1, 1, 1, 1, 1, 0, None, None, (*given, out))
        assert code(launch) == E.hipErrorInvalidValue
        assert "argument 1" in str(hip.last_exception())
    works(None)


def test_sizes_are_hips():
    sizes = {"char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "long": 8, "ulong": 8, "longlong": 8,
             "ulonglong": 8, "float": 4, "double": 8}  # fmt: skip
    for element, nbytes in sizes.items():
        for count in range(1, 5):
            vector = getattr(hip, f"{element}{count}")
            assert ctypes.sizeof(vector) == nbytes * count
            assert vector.PROPERTIES() == list("xyzw"[:count])
            assert vector().c_sizeof() == nbytes * count


def test_they_are_sequences():
    made = hip.float4(1, 2, w=4)
    assert tuple(made) == (1, 2, 0, 4)
    assert (made.x, made["y"], made[-1], len(made)) == (1, 2, 4, 4)
    assert made == copy.copy(made) == hip.float4(*made)
    assert hash(made) == hash(hip.float4(*made))
    assert made != hip.float4() != (0, 0, 0, 0)
    assert hip.int2(1, 2) != hip.uint2(1, 2)
    assert repr(hip.int2(1, -2)) == "int2(x=1, y=-2)"
    made.y = 9
    assert np.frombuffer(made, "f4").tolist() == [1, 9, 0, 4]
    assert made.as_c_void_p().value == ctypes.addressof(made)
    with pytest.raises(TypeError):
        hip.float2(1, 2, 3)
    with pytest.raises(TypeError):
        hip.float2("1")
    with pytest.raises(IndexError):
        hip.float2()[2]
