"""Short forms for tests of `penstock.hip`."""

import ctypes

import numpy as np

from penstock import hip

from .conftest import ok

E = hip.hipError_t
K = hip.hipMemcpyKind
N = 1000


def code(result):
    """The code of a call that failed; the outputs are None."""
    first, *outputs = result
    assert first != E.hipSuccess
    assert outputs == [None] * len(outputs)
    return first


def ints(count=N, value=0):
    """Memory of the device with so many of this int."""
    pointer = ok(hip.hipMalloc(4 * count))
    ok(hip.hipMemsetD32(pointer, value, count))
    ok(hip.hipStreamSynchronize(0))
    return pointer


def read(pointer, count=N):
    """What is there, as a list of ints; waits for the null stream."""
    out = np.zeros(count, "i4")
    ok(hip.hipMemcpy(out, pointer, out.nbytes, K.hipMemcpyDeviceToHost))
    return out.tolist()


def launch(function, stream, *args, groups=N // 10, block=10, shared=0):
    arguments = tuple(ctypes.c_int(arg) if isinstance(arg, int) else arg for arg in args)
    ok(hip.hipModuleLaunchKernel(function, groups, 1, 1, block, 1, 1, shared, stream, None, arguments))
