import dataclasses
import gc
from unittest import mock

import pytest

import forebay as fb
from forebay.queues.device import open_devices
from tests.helpers.observer import observe, observer_of
from tests.ordering.program import SOURCE

from . import validation


@pytest.fixture
def emulated():
    """The driver, watched. The observer answers for it: commands behind a closed gate are not done."""
    observer = observer_of("level_zero")
    observer.watch(emulate=True)
    yield observer
    found = observer.violations()
    observer.unwatch()
    assert not found, "\n".join(found)


@pytest.fixture
def left(emulated):
    """``left()``: how many more of the driver's objects there are than before, by kind, without zeros."""
    gc.collect()
    before = emulated.alive()
    # Devices share a context, so it stays if another device is open already.
    shared = {"contexts"} if any(device.info.backend == "level_zero" for device in open_devices()) else set()

    def left():
        gc.collect()
        now = emulated.alive()
        return {kind: now[kind] - before[kind] for kind in now if now[kind] != before[kind] and kind not in shared}

    return left


# The validation layer wants counter-based events of a pool to be reset, which the driver refuses.
@pytest.fixture(params=["create"] if validation.active() else ["create", "pool"])
def event_mode(request):
    """How events are made: each way in turn, whatever the driver can."""
    return request.param


class Opened(list):
    """Opens devices when it is called."""

    def __call__(self):
        self.append(fb.Device(private=True))
        return self[-1]

    def close_all(self):
        while self:
            self.pop().close()


@pytest.fixture
def opened(emulated, event_mode):
    """``opened()``: a device with events made in this mode; it is closed at the end."""
    info = next(device for device in fb.devices() if device.backend == "level_zero")
    info = dataclasses.replace(info, native=dataclasses.replace(info.native, counter_based=event_mode))
    opened = Opened()
    with mock.patch("forebay.queues.selection.select", return_value=info):
        yield opened
        opened.close_all()


@pytest.fixture
def device(opened):
    return opened()


@pytest.fixture
def kernels(device):
    return device.program(SOURCE)


@pytest.fixture
def calls(device, kernels):
    with observe(device) as calls:
        yield calls


@pytest.fixture
def buffer(device):
    buffer = device.zeros(64, "u4")
    device.finish()
    return buffer
