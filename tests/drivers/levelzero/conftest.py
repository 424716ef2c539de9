import dataclasses
import gc

import pytest

import forebay as fb
from forebay.queues.device import open_devices
from forebay.queues.drivers import selection
from tests.helpers.observer import observe
from tests.ordering.program import SOURCE

from . import validation


@pytest.fixture
def emulated():
    """The driver, watched. The observer answers for it: commands behind a closed gate are not done."""
    from tests.observers import levelzero as observer

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


MODES = {"counter-based": "create", "pool": "pool", "reset": ""}
if validation.active():
    del MODES["pool"]  # the layer wants counter-based events of a pool to be reset, which the driver refuses


@pytest.fixture(params=MODES.values(), ids=MODES.keys())
def event_mode(request):
    """How events are made: each way in turn, whatever the driver can."""
    return request.param


@pytest.fixture
def opened(emulated, event_mode, monkeypatch):
    """``opened()``: a device with events made in this mode; it is closed at the end."""
    info = next(device for device in fb.devices() if device.backend == "level_zero")
    native = dataclasses.replace(info.native, counter_based=event_mode)
    monkeypatch.setattr(selection, "select", lambda _=None: dataclasses.replace(info, native=native))
    made = []

    def open_device():
        made.append(fb.Device(private=True))
        return made[-1]

    def close_all():
        while made:
            made.pop().close()

    open_device.close_all = close_all
    yield open_device
    close_all()


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
