import contextlib
import gc
import importlib.util
import os
import shlex
import sys
import time
import weakref
from dataclasses import replace
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, settings

import forebay as fb
from forebay.core.errors import Error
from forebay.queues.selection import VARIABLE, devices, select
from tests.drivers.cuda import standing_in
from tests.drivers.levelzero import validation
from tests.drivers.sycl import bundles
from tests.helpers import device_data
from tests.helpers.collector import collect
from tests.helpers.refusals import refused
from tests.memory.other_process import Told
from tests.observers.internals import in_flight_is_limited
from tools import null_levelzero

from .helpers import kernels as sources
from .helpers.needs import has, may_have

collect_ignore = [] if importlib.util.find_spec("dpctl") else ["drivers/sycl"]

# Hundreds of processes that tests start import NumPy, a third of which is threads for products of matrices.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Before anything looks for devices: Level Zero's loader reads the environment only once.
validation.begin()

# However busy the machine is, and whatever was found in another run. Null hardware computes nothing, so the first
# example fails there; hundreds of smaller ones, each compiled anew, would fail no differently.
settings.register_profile(
    "forebay",
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.generate] if null_levelzero.inside() else settings.default.phases,
)
settings.load_profile("forebay")

NOT_EXECUTED = (
    "needs kernels, copies and host functions to really run; null hardware encodes and submits but executes nothing"
)


def devices_to_test():
    """The default device and every CPU. If FOREBAY_DEVICE names a device, only that one."""
    try:
        default = select().name
    except Error:
        return [None]  # the fixture then fails with the reason and advice
    if os.environ.get("FOREBAY_DEVICE"):
        return [default]
    return [default, *(d.name for d in devices() if d.usable and d.kind == "cpu" and d.name != default)]


DEVICES = devices_to_test()
bundles.keep()


def on_null_hardware(name):
    """Whether the device of this name executes nothing."""
    return any(
        inside() and str(name).startswith(backend)
        for backend, inside in (("level_zero", null_levelzero.inside), ("cuda", standing_in.inside))
    )


def pytest_addoption(parser):
    parser.addoption(
        "--unwatched", action="store_true",
        help="only tests that the validation layer cannot watch: processes, what is compiled",
    )  # fmt: skip


def pytest_configure(config):
    validation.register(config)
    if null_levelzero.inside() and getattr(config.option, "tx", None):
        # The worker processes of pytest-xdist need the driver, too.
        command, _ = null_levelzero.child_command("python")
        config.option.tx = [f"{each}//python={shlex.join(command)}" for each in config.option.tx]


def pytest_report_header():
    known = {device.name: device for device in devices()}
    return [
        f"device: {name}  {known[name].platform} · {known[name].description}" if name else "device: none"
        for name in DEVICES
    ]


# -- selecting the tests that can run on a device


def device_of(item):
    """The name of the device that a test is for."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return parameters.get("device", DEVICES[0])


def is_about_text(item):
    """Whether a test of the compilers uses no device: those run when none was chosen, and once is enough."""
    return "hiprtc" in item.path.parts and "device" not in item.fixturenames


UNWATCHED = ("no validation layer", "a compiler of its own")


def is_watched(item):
    """Whether the run under the validation layer has this test, too."""
    words = {word for mark in item.iter_markers("needs") for word in mark.args}
    return words.isdisjoint(UNWATCHED)


def can_run(item, known):
    """Whether a test can pass on its device. Without a device it is kept, to fail with advice."""
    info = known.get(device_of(item))
    if is_about_text(item) and os.environ.get(VARIABLE):
        return False
    if item.get_closest_marker("executes") and on_null_hardware(device_of(item)):
        return False
    return info is None or has(info, item)


def pytest_ignore_collect(collection_path, config):
    """Whether no test of this file would be left: each process would import it and make its tests for nothing."""
    if not collection_path.match("test_*.py"):
        return None
    known = {device.name: device for device in devices()}
    text, marked = collection_path.read_text(encoding="utf-8"), config.option.markexpr
    some = (
        (marked in text or not marked.isidentifier())
        and (not config.getoption("--unwatched") or any(word in text for word in UNWATCHED))
        and any(name not in known or may_have(known[name], text) for name in DEVICES)
    )
    return None if some else True


def pytest_collection_modifyitems(config, items):
    known = {device.name: device for device in devices()}
    there, gone = [], []
    unwatched = config.getoption("--unwatched")
    for item in items:
        (there if can_run(item, known) and not (unwatched and is_watched(item)) else gone).append(item)
    items[:] = sorted(there, key=lambda item: item.get_closest_marker("long") is None)  # else in the order they had
    config.hook.pytest_deselected(items=gone)


def pytest_collection():
    gc.disable()  # what is made for the tests stays: to look through it again and again takes a seventh of the time


def pytest_collection_finish():
    gc.enable()
    spare_collector()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    device_data.executes = not on_null_hardware(device_of(item))
    result = yield
    sys.last_type = sys.last_value = sys.last_traceback = sys.last_exc = None  # with all that a failed test used
    if nextitem is None or nextitem.path != item.path:
        spare_collector()
    return result


def spare_collector():
    """Many tests collect garbage to look for leaks. Freezing spares them the objects that pytest keeps."""
    gc.collect()
    gc.freeze()


# -- null hardware


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    # On null hardware a test still submits everything. The driver and its validation layer check it, and it is cleaned
    # up. Only what it says of `device_data` is excused: counts, epochs and states must be right whatever executes.
    before = device_data.unknown
    result = yield
    if device_data.unknown > before:
        pytest.skip(NOT_EXECUTED)
    return result


# -- devices


@pytest.fixture(scope=validation.device_scope, params=DEVICES, ids=str)
def device(request):
    """An open device. A test that uses this fixture runs once on each device."""
    # Private, because what a failed test left open must not change what another sees.
    with fb.Device(request.param, private=True) as device:
        yield device


@pytest.fixture
def really(device):
    """Whether the device really executes commands."""
    return not on_null_hardware(device.name)


def opencl_parts(native, units):
    import pyopencl as cl

    return native.create_sub_devices([cl.device_partition_property.EQUALLY, units])


def sycl_parts(native, units):
    return native.create_sub_devices(partition=units)


PARTS = {"opencl": opencl_parts, "sycl": sycl_parts}
"""How drivers divide a device into parts with so many compute units each."""


def second_devices():
    """The choices for `another`: a second context of the same device, a part of it, and unrelated devices."""
    first = next((device for device in devices() if device.name == DEVICES[0]), None)
    others = [d.name for d in devices() if d.usable and first and d.backend == first.backend and d != first]
    return ["same", *(["part"] if first and first.backend in PARTS and first.kind == "cpu" else []), *others]


@pytest.fixture(params=second_devices())
def another(request, device):
    """A second device, of the same driver."""
    if request.param == "part":
        if device.info.kind != "cpu":
            pytest.skip("only CPU devices are partitioned")
        if device.info.compute_units < 2:
            pytest.skip("it has one compute unit")
        part = PARTS[device.info.backend](device.info.native, device.info.compute_units // 2)[-1]
        info = replace(device.info, name=f"{device.info.name}, a half", native=part)
        with mock.patch("forebay.queues.selection.select", return_value=info):
            another = fb.Device()
    else:
        another = fb.Device(device.name if request.param == "same" else request.param, private=True)
    with another:
        yield another


# -- fixtures for all tests


POOL_SETTINGS = (
    "release_threshold", "growth_limit", "reuse_follow_event_dependencies", "reuse_allow_opportunistic",
    "reuse_allow_internal_dependencies",
)  # fmt: skip


@pytest.fixture(autouse=True)
def pool_settings(request):
    """Fail the test that leaves settings of the shared device's pool changed: another test would see them."""
    if "device" not in request.fixturenames:
        yield
        return
    pool = request.getfixturevalue("device").pool
    before = {name: getattr(pool, name) for name in POOL_SETTINGS}
    yield
    left = {name: getattr(pool, name) for name in POOL_SETTINGS}
    for name, value in before.items():
        setattr(pool, name, value)
    assert left == before


gc.collect = collect  # in all tests


@pytest.fixture(autouse=True)
def collector():
    """Give each test the garbage collector as it was: without it others show nothing of what happens in collections."""
    was_enabled, threshold = gc.isenabled(), gc.get_threshold()
    yield
    (gc.enable if was_enabled else gc.disable)()
    gc.set_threshold(*threshold)


@pytest.fixture(autouse=True)
def unlimited(request):
    """Let each test begin without the limit that threads of an earlier one brought about: a full queue makes markers.

    The limit ends a second after threads last submitted beside a wait. Tests with threads of their own count nothing.
    """
    if not request.node.get_closest_marker("threads"):
        end = time.monotonic() + 10
        while in_flight_is_limited():
            assert time.monotonic() < end, "threads of an earlier test still submit beside waits"
            time.sleep(0.01)  # the watcher, a native thread, reports nothing when it ends the limit


@pytest.fixture(scope=validation.device_scope)
def program(device):
    return device.program(sources.SOURCE)


@pytest.fixture(scope=validation.scope("module"))
def kernels(request, device):
    """Those of the `SOURCE` of the test's module."""
    return device.program(request.module.SOURCE)


class Holder:
    """Holds queues back."""

    def __init__(self):
        self.gates = []

    def __call__(self, queue):
        self.gates.append(queue.gate())
        return self.gates[-1]

    def open(self):
        for gate in self.gates:
            gate.open()


@pytest.fixture
def hold(device):
    """``hold(queue)``: the queue goes no further until the gate it returns is opened, at the latest by the end."""
    holder = Holder()
    yield holder
    holder.open()


@pytest.fixture
def make_queue(device, hold):
    """``make_queue(…)`` is ``device.queue(…)``. The queue is closed when the test ends."""
    made = []

    def make_queue(**options):
        made.append(device.queue(**options))
        return made[-1]

    yield make_queue
    for queue in made:
        queue.close()


@pytest.fixture
def queue(make_queue):
    return make_queue()


@pytest.fixture
def told(device):
    """Another process with this device, which does what it is told: ``told("make", 16)``."""
    made = Told(device.name, standing_in.inside())
    yield made
    made.end()


class Kept:
    """What a driver gave, with weak references."""

    def __init__(self, what):
        self.what = what


@pytest.fixture
def pins_of(monkeypatch):
    """``pins_of(device)`` makes ``pins`` for another device."""

    def watched(device):
        made, pin = [], device.driver.pinned

        def noted(nbytes):
            address, owner = pin(nbytes)
            kept = Kept(owner)
            made.append(weakref.ref(kept))
            return address, kept

        monkeypatch.setattr(device.driver, "pinned", noted)
        return lambda: sum(each() is not None for each in made)

    return watched


@pytest.fixture
def pins(device, pins_of):
    """How many pieces of the pinned memory that was made have not gone back to the driver: ``pins()``."""
    return pins_of(device)


@pytest.fixture
def staged(device, monkeypatch):
    """How many pieces of the staging memory that was made are still there: ``staged()``."""
    made, stage = [], device.driver.stage

    def noted(nbytes):
        memory = stage(nbytes)
        made.append(weakref.ref(memory))
        return memory

    monkeypatch.setattr(device.driver, "stage", noted)
    return lambda: sum(each() is not None for each in made)


@pytest.fixture
def works(device, program, really):
    """``works(queue)`` asserts that a launch on the queue works."""
    values = iter(range(1, 1 << 30))

    def works(queue):
        value = next(values)
        with device.empty(100, "i4") as buffer:
            queue.launch(program["fill"], 10, 10, buffer, value)
            result = buffer.get(queue=queue).tolist()
            assert result == [value] * 100 or not really

    return works


@pytest.fixture
def refuses(queue, works):
    """``with refuses(fb.X, builtin, "word", …):`` the block must raise that error and leave the queue unchanged."""

    @contextlib.contextmanager
    def refuses(kind, builtin, *words):
        works(queue)
        before = queue.epoch, queue.stats
        with refused(kind, builtin, *words):
            yield
        assert (queue.epoch, queue.stats) == before
        works(queue)

    return refuses
