"""A failed ``assert`` in a kernel is told by the next synchronizing function."""

import threading

import numpy as np
import pytest

from forebay import hip
from forebay.hip.errors import asserting

from .conftest import ok
from .helpers import E, K, compiled, function_of

pytestmark = [pytest.mark.executes, pytest.mark.needs("SPIR-V")]

CHECKED = b"""extern "C" __global__ void check(int* x, int least) {
    assert(x[threadIdx.x] >= least); x[threadIdx.x] += 1;
}"""
PLAIN = b'extern "C" __global__ void plain(int* x) { x[threadIdx.x] += 1; }'


def load(source):
    return ok(hip.hipModuleLoadData(compiled(source)))


@pytest.fixture
def x(device):
    pointer = ok(hip.hipMalloc(64 * 4))
    ok(hip.hipMemset(pointer, 0, 64 * 4))
    return pointer


@pytest.fixture
def check(device):
    if device.info.backend == "sycl":
        pytest.skip("SYCL does not report where variables are")
    module = load(CHECKED)
    function = ok(hip.hipModuleGetFunction(module, b"check"))

    def run(x, least, stream=None):
        ok(hip.hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, stream, None, (x, least)))

    run.module = module
    return run


def test_a_failure_is_told_until_the_module_goes(x, check):
    check(x, 0)
    assert hip.hipDeviceSynchronize() == (E.hipSuccess,)
    check(x, 2)
    assert hip.hipDeviceSynchronize() == hip.hipCtxSynchronize() == (E.hipErrorAssert,)
    assert "assertion" in str(hip.errors.last_exception())
    assert hip.hipGetLastError() == (E.hipErrorAssert,)
    assert hip.hipStreamSynchronize(None) == (E.hipErrorAssert,)
    out = np.zeros(64, "i4")
    ok(hip.hipMemcpy(out, x, out.nbytes, K.hipMemcpyDeviceToHost))
    assert (out == 2).all()  # the threads have gone on
    ok(hip.hipModuleUnload(check.module))
    ok(hip.hipDeviceSynchronize())


DEEP = b"""
__device__ unsigned f(unsigned n, unsigned x) { return n == 0 ? x : f(n - 1, x * 5) * 3 + 1; }
extern "C" __global__ void deep(unsigned* x, unsigned n) { x[threadIdx.x] += f(n, 3); }
"""


def test_a_recursion_that_is_too_deep_is_told(x, device):
    if device.info.backend != "opencl" or device.info.kind != "cpu":
        pytest.skip("GPUs have a stack, and SYCL does not report where variables are")
    function = function_of(DEEP, b"deep")
    for n, told in ((60, E.hipSuccess), (66, E.hipErrorAssert)):
        ok(hip.hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, None, None, (x, n)))
        assert hip.hipDeviceSynchronize() == (told,)


def test_streams_and_events_tell(x, check):
    stream, event = ok(hip.hipStreamCreate()), ok(hip.hipEventCreate())
    check(x, 1, stream)
    ok(hip.hipEventRecord(event, stream))
    assert hip.hipEventSynchronize(event) == (E.hipErrorAssert,)
    assert hip.hipStreamSynchronize(stream) == (E.hipErrorAssert,)
    ok(hip.hipDeviceReset())
    ok(hip.hipDeviceSynchronize())


def test_looking_waits_for_no_other_stream(x, check):
    """The null stream would wait for a blocking stream that is held up by a callback."""
    busy, other = ok(hip.hipStreamCreate()), ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
    go = threading.Event()
    ok(hip.hipLaunchHostFunc(busy, lambda _: go.wait(30), None))
    check(x, 1, other)
    try:
        assert hip.hipStreamSynchronize(other) == (E.hipErrorAssert,)
        assert not go.is_set()
        assert hip.hipStreamQuery(busy) == (E.hipErrorNotReady,)
    finally:
        go.set()
    ok(hip.hipModuleUnload(check.module))
    ok(hip.hipDeviceSynchronize())


def test_only_modules_with_assertions_are_looked_at_as_long_as_they_are_there(device):
    before = len(asserting)
    for source in (PLAIN, b"#define NDEBUG\n#include <assert.h>\n" + CHECKED, *[CHECKED] * 20):
        module = load(source)
        # SYCL does not report where variables are
        assert len(asserting) == before + (source == CHECKED and device.info.backend != "sycl")
        ok(hip.hipModuleUnload(module))
    assert len(asserting) == before
