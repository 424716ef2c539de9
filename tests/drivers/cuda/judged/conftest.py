"""The folder of CUDA, judged by its calls where there is no GPU: `standin.hpp` takes the place of the driver.

What this shows: each call has arguments that fit the call, objects that are there, and a context where one is needed;
what was submitted is in the order that HIP's rules ask for; what must not wait for a closed gate does not; a failure of
any call leaves nothing behind. What it cannot show: that CUDA's driver agrees with the model, and that a kernel or copy
computes anything, as none is executed. `make test-cuda` runs the whole suite on a GPU.
"""

import threading
from unittest import mock

import pytest

import forebay as fb
from forebay.queues.drivers.cuda.driver import Cuda
from forebay.queues.drivers.selection import DRIVERS
from tests.drivers.cuda import standin, standing_in
from tests.helpers.observer import observe
from tests.observers import cuda as observer
from tests.ordering import failures, mixed, program

JUDGED = [
    pytest.mark.needs("no chosen device", "no validation layer"),
    pytest.mark.skipif(bool(DRIVERS["cuda"].discover()), reason="the table has the functions of a real driver"),
]
SECONDS = 60


@pytest.fixture(scope="module", autouse=True)
def known():
    """In this module CUDA is the stand-in."""
    patches = standing_in.begin()
    with mock.patch.dict(DRIVERS, cuda=Cuda()):
        observer.watch()
        yield
    for patch in patches:
        patch.stop()


@pytest.fixture(autouse=True)
def meant(known):
    """No test calls the driver wrongly, but for what it appends here. Failures that are planned do not reach it."""
    before, meant = standin.there_are()["faults"], []
    yield meant
    assert standin.there_are()["faults"] == before + len(meant)


@pytest.fixture(scope="module")
def device(known):
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
def results_are_not_compared(monkeypatch):
    for module in (program, mixed, failures):
        monkeypatch.setattr(module, "EXECUTES", False)


def in_a_thread(function):
    """Start a thread, which ends with the process at the latest. Returns what waits for it and says if it has ended."""
    thread = threading.Thread(target=function, daemon=True)
    thread.start()

    def ended(seconds=SECONDS):
        thread.join(seconds)
        return not thread.is_alive()

    return ended
