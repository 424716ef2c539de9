"""Discovery with Intel's driver, and its messages if the loader or driver is missing or lacks something."""

import json
import os
from unittest import mock

import pytest

from forebay.compiler.spirv import declarations
from forebay.core.errors import Error
from forebay.queues.levelzero import discovery, operations
from forebay.queues.selection import DRIVERS, devices, select
from tests.helpers.processes import output_of
from tools import null_levelzero

from .children import output_under_driver, under_driver

pytestmark = pytest.mark.needs("no chosen device")


# Without a driver


def test_results_have_the_specifications_names():
    assert operations.result_name(0x70000001) == "ZE_RESULT_ERROR_DEVICE_LOST"
    assert operations.result_name(-0x78000004) == "ZE_RESULT_ERROR_INVALID_ARGUMENT"
    assert operations.result_name(0x12345) == "error 0x12345"


def test_the_probe_is_a_whole_module_with_one_kernel():
    (kernel,) = declarations.kernels_of(discovery.probe_module()).items()
    assert kernel == ("probe", [declarations.Declared("argument_0", "int*", "pointer", 8)])


def test_without_a_loader_the_advice_is_to_install_it_and_others_are_as_ever():
    folder = type(DRIVERS["level_zero"])()
    others = [device for device in devices() if device.backend != "level_zero"]
    missing = mock.patch.object(operations, "LIBRARY", "libze_loader_that_is_not_there.so.1")
    with missing, mock.patch.dict(DRIVERS, level_zero=folder):
        assert folder.discover() == []
        assert devices() == others
        with pytest.raises(Error) as refused:
            select("level_zero")
    assert folder.absence() in str(refused.value)
    assert all(word in folder.absence() for word in ("_not_there.so.1", "apt install libze1 libze-intel-gpu1"))


def test_a_library_that_is_no_loader_is_named_with_what_it_lacks():
    code = """
from forebay.queues.levelzero import operations
from forebay.queues.selection import DRIVERS
operations.LIBRARY = "libc.so.6"
print(DRIVERS["level_zero"].absence())
"""
    absence = output_of("-c", code)
    assert "no Level Zero device was found (the Level Zero loader has no zeInit: upgrade it" in absence


def test_a_render_node_that_may_not_be_opened_is_named(tmp_path):
    node = tmp_path / "renderD128"
    with mock.patch.dict(os.environ), mock.patch.object(discovery, "RENDER_NODES", str(tmp_path / "renderD*")):
        os.environ.pop(discovery.ALTERNATIVE, None)
        assert "apt install" in discovery.absence("no driver")
        node.touch()
        with mock.patch.object(os, "access", return_value=False):
            assert str(node) in discovery.absence("no driver")
            assert "group" in discovery.absence("no driver")


# Intel's driver. One process looks for devices once for each case, in which code has put its own functions into the
# table of calls.

REPORT = """
import ctypes, dataclasses, json, sys, threading
from pathlib import Path
from forebay.queues.levelzero import discovery, operations
from forebay.queues.selection import DRIVERS, devices, select
from tests.observers.recorder import RECORDERS

observer = RECORDERS["level_zero"]
KINDS = {"CommandListCreateImmediate": "CommandList", "EventCounterBasedCreate": "Event"}
KINDS |= {f"{kind}Create": kind for kind in ("Context", "CommandList", "Module", "Kernel")}
FUNCTION = ctypes.CFUNCTYPE(ctypes.c_uint32, *[ctypes.c_void_p] * 8)  # takes as many arguments as any of these

def real(name):
    return FUNCTION(observer.pointer(name))

def put(name, function):
    kept.append(FUNCTION(function))
    observer.replace(name, ctypes.cast(kept[-1], ctypes.c_void_p).value)

def lacks(name):
    observer.replace(name, 0)

def fails(name, code):
    put(name, lambda *given: code)

def write(at, value):
    ctypes.c_uint32.from_address(at).value = value
    return 0

def change(name, after):
    function = real(name)
    def changed(*given):
        result = function(*given)
        if not result:
            after(given)
        return result
    put(name, changed)

def twice(count, found, *rest):
    result = INIT(count, found, *rest)
    if found:
        slots = (ctypes.c_void_p * 2).from_address(found)
        slots[1] = slots[0]
    write(count, 2)
    return result

def look(before):
    alive = []
    for call, kind in KINDS.items():
        change(f"ze{call}", lambda _, kind=kind: alive.append(kind))
    for kind in {*KINDS.values()}:
        change(f"ze{kind}Destroy", lambda _, kind=kind: alive.remove(kind))
    exec(before, globals() | {"alive": alive})
    found = discovery.look()
    for name, address in TABLE.items():
        observer.replace(name, address)
    assert not alive, (before, alive)
    return [dataclasses.asdict(device) for device in found.devices], found.absence

def is_loaded():
    return "libze_loader" in Path("/proc/self/maps").read_text()

assert not is_loaded(), "importing loads nothing"
loads, load, seen, kept = [], operations.load, [], []
operations.load = lambda: loads.append(1) or load()
threads = [threading.Thread(target=lambda: seen.append(DRIVERS["level_zero"].discover())) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert is_loaded() and len(loads) == 1, "looked once"
assert len(seen) == 8 and all(each == seen[0] for each in seen)
TABLE, INIT = {name: observer.pointer(name) for name in operations.FUNCTIONS.names}, real("zeDriverGet")
"""


def look(*cases, **options):
    """(devices, absence) for each case, the dictionaries of `DeviceInfo` and `ZeNative`; no object is left alive."""
    code = f"{REPORT}\nprint(json.dumps({{case: look(case) for case in {cases!r}}}, default=bytes.hex))"
    return json.loads(output_under_driver(code, **options))


ANSWERS = "put('{name}', lambda asked, answer, *rest: write(answer, {value}))\n"
NO_EVENTS = """
def extensions(driver, count, found, *rest):
    if found:
        ctypes.memmove(found, b"{extension}\\0", len(b"{extension}\\0"))
    return write(count, 1)
lacks("zeEventCounterBasedCreate")
put("zeDriverGetExtensionProperties", extensions)
"""
CANNOT_ASK = "lacks('zeCommandListImmediateGetFlags')\n"
LOG = """
TEXT = b"\\n  error: no backend\\nmore\\n\\0"
def create(context, device, described, module, log, *rest):
    alive.append("log")
    ctypes.c_void_p.from_address(log).value = 77
    return 0x70000004
def text(log, size, buffer, *rest):
    if buffer is not None:
        ctypes.memmove(buffer, TEXT, len(TEXT))
    return write(size, len(TEXT))
put("zeModuleBuildLogDestroy", lambda *log: alive.remove("log") or 0)
put("zeModuleCreate", create)
put("zeModuleBuildLogGetString", text)
"""
TWO_DRIVERS = "put('zeDriverGet', twice)"
ONE_FAILS = """
put("zeDriverGet", twice)
get, calls = real("zeDeviceGet"), []
put("zeDeviceGet", lambda *given: calls.append(1) or (0x78000001 if len(calls) == 1 else get(*given)))
"""
NO_COMPUTE = """
def take(given):
    count = ctypes.c_uint32.from_address(given[1]).value
    for at in range(given[2], given[2] + 40 * count, 40) if given[2] else ():
        write(at + 16, ctypes.c_uint32.from_address(at + 16).value & ~1)
change("zeDeviceGetCommandQueueGroupProperties", take)
"""
NOT_INTELS = "fails('zeDriverGetExtensionFunctionAddress', 0x78000004)"
USABLE = {  # what an older loader or another driver lacks, and what is then known of the device
    ONE_FAILS: {},
    CANNOT_ASK: {},
    NO_EVENTS.format(extension="ZE_experimental_event_pool_counter_based"): {"counter_based": "pool", "ip_version": 0},
    NO_EVENTS.format(extension="ZE_extension_event_pool_counter_based"): {"counter_based": "pool"},
    "fails('zeEventCounterBasedCreate', 0x78000003)": {"counter_based": "pool"},
    "lacks('zeCommandListAppendHostFunction')": {},
    NOT_INTELS: {"priorities": None},
    ANSWERS.format(name="zeDriverGetApiVersion", value="1 << 16 | 1"): {
        "version": "Level Zero 1.1", "timer_resolution_ns": 83.0,
    },
}  # fmt: skip
UNUSABLE = {
    "fails('zeCommandListCreateImmediate', 0x7800000c)": [
        "in-order", "ZE_RESULT_ERROR_INVALID_ENUMERATION", "libze-intel-gpu1", "26.27",
    ],
    ANSWERS.format(name="zeCommandListImmediateGetFlags", value=0): ["in order"],
    NO_EVENTS.format(extension="ZE_extension_subgroups"): ["no counter-based events", "libze-intel-gpu1"],
    "change('zeDeviceGetProperties', lambda given: write(given[1] + 16, 5))": ["level_zero:accelerator:0", "NPU"],
    NO_COMPUTE: ["no queue that runs kernels"],
    "change('zeDeviceGetModuleProperties', lambda given: write(given[1] + 16, 0))": ["SPIR-V"],
    "fails('zeModuleCreate', 0x70000004)": ["it cannot build a kernel", "ZE_RESULT_ERROR_MODULE_BUILD_FAILURE"],
    LOG: ["it cannot build a kernel: error: no backend; install a newer driver"],
    "fails('zeKernelCreate', 0x78000011)": ["it cannot make a kernel", "INVALID_KERNEL_NAME"],
    **{f"fails('{name}', 0x70000001)": ["level_zero:gpu:0", name, "ZE_RESULT_ERROR_DEVICE_LOST"]
       for name in ("zeDeviceGetProperties", "zeContextCreate", "zeDeviceGetMemoryProperties")},
}  # fmt: skip
DUMB = ("zeDriverGetApiVersion", "zeDriverGetProperties", "zeDriverGetExtensionProperties")
DO_NOT_ANSWER = {f"fails('{name}', 0x7ffffffe)": name for name in DUMB}


@pytest.fixture(scope="module")
def found():
    return look("", TWO_DRIVERS, *USABLE, *UNUSABLE, *DO_NOT_ANSWER)


def one(found, case):
    (device,), absence = found[case]
    assert absence == ""
    return device


def test_the_device_and_what_its_driver_says(found):
    device = one(found, "")
    native = device["native"]
    assert device["usable"]
    assert (device["name"], device["backend"], device["kind"]) == ("level_zero:gpu:0", "level_zero", "gpu")
    assert device["platform"] == "Level Zero"
    assert device["version"].startswith("Level Zero 1.")
    assert device["driver_version"].count(".") == 2
    assert device["compute_units"] == 64  # 1 slice of 8 subslices of 8, as asked for
    assert device["memory"] >= native["limits"]["allocation"] > 1 << 30
    assert native["driver"]
    assert native["device"]
    assert native["ip_version"] >> 22 == 12  # 12.60.7
    expected = {
        "vendor_id": 0x8086, "device_id": 0x0BD5, "max_argument_bytes": 2048,
        "timer_resolution_ns": pytest.approx(1e9 / 12_000_048), "kernel_timestamp_bits": 32,
        "groups": [[7, 1, 2**64 - 1], [2, 1, 1], [2, 8, 1]], "priorities": [0, -1], "counter_based": "create",
    }  # fmt: skip
    assert {name: native[name] for name in expected} == expected
    limits = {
        "group_items": 1024, "group_size": [1024] * 3, "group_count": [2**32 - 1] * 3, "local_bytes": 128 << 10,
        "has_shared": True,
    }  # fmt: skip
    assert native["limits"].items() >= limits.items()


@pytest.mark.parametrize("case", USABLE)
def test_what_an_older_loader_or_another_driver_lacks(found, case):
    device = one(found, case)
    assert device["usable"]
    known = device | device["native"]
    assert {name: known[name] for name in USABLE[case]} == USABLE[case]
    assert device["driver_version"].isdecimal() == (case == NOT_INTELS)


@pytest.mark.parametrize("case", UNUSABLE)
def test_a_device_that_cannot_be_used_says_why(found, case):
    device = one(found, case)
    assert not device["usable"]
    assert device["native"] is None
    assert device["advice"]
    said = f"{device['name']}: {device['reason']}; {device['advice']}"
    assert all(word in said for word in UNUSABLE[case])
    assert "\n" not in said


@pytest.mark.parametrize("case", DO_NOT_ANSWER)
def test_a_driver_that_does_not_answer_has_no_devices(found, case):
    there, absence = found[case]
    assert there == []
    assert f"{DO_NOT_ANSWER[case]} failed: ZE_RESULT_ERROR_UNKNOWN" in absence


def test_devices_of_two_drivers_are_numbered_through(found):
    assert [device["name"] for device in found[TWO_DRIVERS][0]] == ["level_zero:gpu:0", "level_zero:gpu:1"]


def test_two_devices_have_two_names_and_are_selected_by_them():
    selected = """
first, second = devices()[:2]
assert select("level_zero") is select("gpu") is select() is first
assert select("level_zero:gpu:1") is select("level_zero:1") is second
"""
    first, second = look(selected, devices=2)[selected][0]
    assert (first["name"], second["name"]) == ("level_zero:gpu:0", "level_zero:gpu:1")
    assert first["native"]["driver"] == second["native"]["driver"]
    assert first["native"]["device"] != second["native"]["device"]


def test_the_validation_layer_finds_nothing_wrong():
    code = "from forebay.queues.selection import DRIVERS; print(len(DRIVERS['level_zero'].discover()))"
    done = under_driver(code, validate=True)
    assert (done.returncode, done.stdout.split()) == (0, ["1"]), done.stderr
    assert "Check balance of create/destroy calls" in done.stderr
    # The layer does not count zeEventCounterBasedCreate, only the destruction of its events.
    leaks = [line.split() for line in done.stderr.splitlines() if "LEAK" in line]
    assert [(line[0], line[-1]) for line in leaks] == [("zexCounterBasedEventCreate2", "-1")]
    assert "error" not in done.stderr.lower()


# A loader without a driver


@pytest.mark.parametrize("name", ["no-such-driver.so", "libz.so.1"])
def test_a_loader_without_a_driver_says_which_one_it_was_told_to_use(name):
    path = null_levelzero.cache_folder() / "ready" / "root" / null_levelzero.LIBRARIES / name
    there, absence = look("", ZE_ENABLE_ALT_DRIVERS=path)[""]
    assert there == []
    assert "no Level Zero device was found" in absence
    assert f"ZE_ENABLE_ALT_DRIVERS is set ({path})" in absence
    assert "\n" not in absence


def test_a_driver_without_a_gpu():
    code = """
import ctypes, os
from forebay.queues.levelzero import operations
from forebay.queues.selection import DRIVERS
ctypes.CDLL(operations.LIBRARY).zeInit(0)
os.environ.pop("ZE_ENABLE_ALT_DRIVERS")  # changes only the message: the loader has read it by now
print(DRIVERS["level_zero"].absence())
"""
    absence = output_under_driver(code, NEOReadDebugKeys=None)
    assert "no Level Zero device was found" in absence
    assert "libze-intel-gpu1" in absence or "render" in absence
