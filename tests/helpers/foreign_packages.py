"""Memory of another package of CUDA, which goes by the thread's current context, as PyTorch and CuPy do."""

import ctypes
from functools import partial

import pytest

import forebay as fb
from forebay.queues.cuda import driver
from tests.helpers.threads import together


def current_context():
    """The context that is current in this thread."""
    context = ctypes.c_void_p()
    assert ctypes.CDLL(driver.LIBRARY).cuCtxGetCurrent(ctypes.byref(context)) == 0
    return context.value


class Array:
    """Notes the current context when it is asked for its memory and stream."""

    def __init__(self, buffer, fails):
        self.buffer, self.fails, self.seen = buffer, fails, set()

    @property
    def __cuda_array_interface__(self):
        self.seen.add(current_context())
        return self.buffer.__cuda_array_interface__


class Tensor(Array):
    def __dlpack__(self, *, stream):
        self.seen.add(current_context())
        if self.fails:
            raise BufferError("it is elsewhere")


def take_over(pair):
    """Each of two GPUs takes memory over, in a thread where the other's context is current, before and after."""

    def work(number):
        device, others = pair[number], pair[1 - number].driver.handle
        for kind, fails in [(Array, False), (Tensor, False), (Tensor, True)] * 50:
            foreign = kind(device.empty(16, "i4"), fails)
            with others:
                if fails:
                    with pytest.raises(fb.InvalidArgumentError, match=f"not for {device.name}: it is elsewhere"):
                        device.as_buffer(foreign)
                else:
                    device.as_buffer(foreign)
                assert foreign.seen == {device.driver.handle.handle}
                assert current_context() == others.handle

    together(*[partial(work, number) for number in range(2)])
