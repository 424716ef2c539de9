"""Without a GPU: `standin.hpp` in the place of CUDA's driver, which is judged by its calls.

What this shows: each call has arguments that fit the call, objects that are there, and a context where one is needed;
what was submitted is in the order that HIP's rules ask for; what must not wait for a closed gate does not; a failure of
any call leaves nothing behind. What it cannot show: that CUDA's driver agrees with the model, and that a kernel or copy
computes anything, as none is executed. `make test-cuda` runs the whole suite on a GPU.
"""

import contextlib
import os
import threading
from unittest import mock

import pytest

import forebay as fb
from forebay.queues.cuda.driver import Cuda
from forebay.queues.selection import DRIVERS
from tests.drivers.cuda import standin, standing_in
from tests.helpers.observer import observe, observer_of
from tests.ordering import failures, mixed, program

JUDGED = pytest.mark.needs("no chosen device", "no validation layer")
SECONDS = 60


@pytest.fixture(scope="module", autouse=True)
def driver():
    """The mock driver, which forebay has in this module."""
    if DRIVERS["cuda"].discover():
        pytest.skip("the table has the functions of a real driver")
    with contextlib.ExitStack() as stack:
        for patch in standing_in.begin():
            stack.callback(patch.stop)
        stack.enter_context(mock.patch.dict(DRIVERS, cuda=Cuda()))
        stack.enter_context(mock.patch.dict(os.environ, FOREBAY_STANDIN_DEVICES="2"))
        observer_of("cuda").watch()
        yield


@pytest.fixture(autouse=True)
def nothing_wrong(driver):
    """No test calls the driver wrongly, also where forebay says nothing. Failures that are planned do not reach it."""
    before = standin.there_are()["faults"]
    yield
    assert standin.there_are()["faults"] == before


@pytest.fixture(scope="module")
def device(driver):
    with fb.Device("cuda", private=True) as device:
        yield device


@pytest.fixture(scope="module")
def kernels(device):
    return device.program(program.SOURCE)


@pytest.fixture
def calls(device, kernels):
    device.finish()
    with observe(device) as calls:
        yield calls
    device.finish()


@pytest.fixture
def results_are_not_compared():
    with contextlib.ExitStack() as stack:
        for module in (program, mixed, failures):
            stack.enter_context(mock.patch.object(module, "EXECUTES", False))
        yield


def in_a_thread(function):
    """Start a thread, which ends with the process at the latest. Returns what waits for it and says if it has ended."""
    thread = threading.Thread(target=function, daemon=True)
    thread.start()

    def ended(seconds=SECONDS):
        thread.join(seconds)
        return not thread.is_alive()

    return ended
