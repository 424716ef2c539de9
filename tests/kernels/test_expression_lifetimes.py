"""Kernels made from expressions outlive Devices, and keep none of them: what they compile goes with the Device."""

import copy
import gc
import weakref

import numpy as np
import pytest

import forebay as fb
from forebay.cupy_style import ElementwiseKernel, RawKernel, ReductionKernel
from forebay.queues.kernels.kernel import names
from tests.helpers.threads import together
from tests.inside import elementwise_that_calls_before_it_compiles

ONE = fb.elementwise("T x", "T y", "y = x + 1", name="lives_on")
SUM = fb.reduction("T x", "T total", "x", "a + b", 0, name="lives_on")
SOURCE = 'extern "C" __global__ void lives_on(float* x) { x[0] += 1; }'
IN_CPP = {
    "ElementwiseKernel": ElementwiseKernel("T x", "T y", "y = x + 1", "lives_on"),
    "ReductionKernel": ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "lives_on"),
    "RawKernel": RawKernel(SOURCE, "lives_on"),
}


FROM_EXPRESSIONS = {"elementwise": ONE, "reduction": SUM, **IN_CPP}


def compiled_now():
    """How many kernels there are of those above."""
    return len([name for name in names().values() if name.startswith("lives_on")])


@pytest.fixture(params=[
    "elementwise", "reduction", *[pytest.param(name, marks=pytest.mark.needs("SPIR-V")) for name in IN_CPP]
])  # fmt: skip
def call(request, device):
    """Calls one of them twice for a Device."""

    def call(device):
        x = device.empty(5)
        for _ in range(2):
            if request.param == "RawKernel":
                IN_CPP["RawKernel"](1, 1, (x,))
            else:
                FROM_EXPRESSIONS[request.param](x)

    return call


@pytest.mark.parametrize("beside", ["nobody", "another of the context"])
def test_a_closed_device_is_gone_at_once(device, call, beside):
    gc.collect()
    before = compiled_now()
    staying = fb.Device(device.name) if beside != "nobody" else None
    with fb.Device(device.name, private=staying is None) as other:
        gone, context = weakref.ref(other), weakref.ref(other.driver)
        call(other)
        assert compiled_now() > before
    del other
    assert gone() is None
    assert compiled_now() == before
    if staying is None:
        assert context() is None
    else:
        call(staying)  # compiles its own
        staying.close()
        assert compiled_now() == before


@pytest.mark.parametrize("private", [True, False])
def test_a_device_that_is_dropped_goes_with_the_garbage(device, call, private):
    other = fb.Device(device.name, private=private)
    gone = weakref.ref(other)
    call(other)
    other.finish()  # or what is outstanding stays until it is done
    del other
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("sent", [lambda made: made, copy.copy])
def test_what_a_kernel_has_compiled_goes_with_it(device, sent):
    gc.collect()
    before = compiled_now()
    made = fb.elementwise("T x", "T y", "y = x + 1", name="lives_on")
    one = sent(made)
    one(device.empty(5))
    assert compiled_now() == before + 1
    del made, one
    assert compiled_now() == before


@pytest.mark.needs("SPIR-V")
def test_a_raw_kernel_goes_on_with_the_device_that_is_there(device):
    kernel = RawKernel(SOURCE, "lives_on")
    for _ in range(2):
        with fb.Device(device.name, private=True) as other:
            kernel(1, 1, (other.empty(5),))
            assert kernel.max_threads_per_block > 0  # of the device it was compiled for
            kernel(1, 1, (np.zeros(1, "f4"),))
            assert other.stats.launches == 2


def test_a_device_is_closed_while_a_kernel_is_compiled(device):
    other = fb.Device(device.name, private=True)
    slow = elementwise_that_calls_before_it_compiles(lambda device: together(device.close))(
        "T x", "T y", "y = x + 1", name="lives_on"
    )
    gone = weakref.ref(other)
    before = compiled_now()
    with pytest.raises(fb.ClosedError) as caught:
        slow(other.empty(5))
    del caught, slow
    gc.collect()  # the frames of the error
    assert compiled_now() == before
    del other
    assert gone() is None
