"""Discovery with Intel's driver, and its messages if the loader or driver is missing or lacks something."""

import ctypes
import json
import os
import struct
from types import SimpleNamespace
from unittest import mock

import pytest

from forebay.core.errors import DriverError, Error
from forebay.queues.levelzero import descriptors, discovery, loader
from forebay.queues.selection import DRIVERS, devices, select
from forebay.spirv import declarations
from tools import null_levelzero

from .children import output_under_driver, under_driver

pytestmark = pytest.mark.needs("no chosen device")


# Without a driver


def test_results_have_the_specifications_names():
    assert loader.result_name(0x70000001) == "ZE_RESULT_ERROR_DEVICE_LOST"
    assert loader.result_name(0x78000004 - 2**32) == "ZE_RESULT_ERROR_INVALID_ARGUMENT"
    assert loader.result_name(0x12345) == "error 0x12345"
    loader.checked("zeInit", 0)
    with pytest.raises(DriverError, match="zeInit failed: ZE_RESULT_ERROR_UNINITIALIZED") as error:
        loader.checked("zeInit", 0x78000001 - 2**32)
    expected = ("zeInit", 0x78000001, "ZE_RESULT_ERROR_UNINITIALIZED")
    assert (error.value.call, error.value.code, error.value.name) == expected


# The results of sizeof in C for the specification's header
SIZES = {
    "DeviceProperties": 368, "ComputeProperties": 88, "ModuleProperties": 64, "MemoryProperties": 296,
    "QueueGroupProperties": 40, "ExtensionProperties": 260, "DriverProperties": 40, "IpVersion": 24,
    "InitDriverTypeDesc": 24,
}  # fmt: skip
CODE, NAME = b"SPIR-V\0and more", b"probe"
DESCRIPTORS = [  # (function, arguments, layout, fields, field with an address or None)
    ("context_desc", (), "I4xPI4x", (0x0D, 0, 0), None),
    ("queue_desc", (7, 2, 3), "I4xP5I4x", (0x0E, 0, 7, 0, 2, 3, 0), None),
    ("list_desc", (7,), "I4xPII", (0x0F, 0, 7, 0), None),
    ("event_desc", (1, 2, 4), "I4xP3I4x", (0x0002003A, 0, 1, 2, 4), None),
    ("module_desc", (1, CODE), "I4xPI4xNPPP", (0x1B, 0, 1, len(CODE), CODE, 0, 0), 4),
    ("kernel_desc", (NAME,), "I4xPI4xP", (0x1D, 0, 0, NAME), 3),
]


def test_structures_and_descriptors_have_the_layout_of_c():
    assert {name: ctypes.sizeof(getattr(loader, name)) for name in SIZES} == SIZES
    for name, given, layout, fields, address in DESCRIPTORS:
        found = list(struct.unpack(layout, getattr(descriptors, name)(*given)))
        if address is not None:
            found[address] = ctypes.string_at(found[address], len(fields[address]))
        assert tuple(found) == fields, name


def test_the_probe_is_a_whole_module_with_one_kernel():
    (kernel,) = declarations.kernels_of(discovery.probe_module()).items()
    assert kernel == ("probe", [declarations.Declared("argument_0", "int*", "pointer", 8)])


@pytest.mark.parametrize(
    ("library", "words"),
    [
        ("libze_loader_that_is_not_there.so.1", ["_not_there.so.1", "apt install libze1 libze-intel-gpu1"]),
        ("libc.so.6", ["zeInit failed"]),
    ],
)
def test_without_a_loader_the_advice_is_to_install_it_and_others_are_as_ever(library, words):
    folder = type(DRIVERS["level_zero"])()
    others = [device for device in devices() if device.backend != "level_zero"]
    with mock.patch.object(loader, "LIBRARY", library), mock.patch.dict(DRIVERS, level_zero=folder):
        assert folder.discover() == []
        assert devices() == others
        with pytest.raises(Error) as refused:
            select("level_zero")
    assert folder.absence() in str(refused.value)
    assert all(word in folder.absence() for word in words)


def test_a_render_node_that_may_not_be_opened_is_named(tmp_path):
    def absence():
        return discovery.look_with(SimpleNamespace(drivers=list)).absence

    node = tmp_path / "renderD128"
    with mock.patch.dict(os.environ), mock.patch.object(discovery, "RENDER_NODES", str(tmp_path / "renderD*")):
        os.environ.pop(discovery.ALTERNATIVE, None)
        assert "apt install" in absence()
        node.touch()
        with mock.patch.object(os, "access", return_value=False):
            assert str(node) in absence()
            assert "group" in absence()


# Intel's driver. One process looks for devices once for each case, in which code has put its own functions into `ze`.

REPORT = """
import ctypes, dataclasses, json, sys, threading
from pathlib import Path
from forebay.queues.levelzero import discovery, loader
from forebay.queues.selection import DRIVERS, devices, select

KINDS = {"CommandListCreateImmediate": "CommandList", "EventCounterBasedCreate": "Event"}
KINDS |= {f"{kind}Create": kind for kind in ("Context", "CommandList", "Module", "Kernel")}

def fails(code):
    return lambda *arguments: code

def of(reference):
    return getattr(reference, "_obj")  # what `byref` was given

def change(ze, name, after):
    function = ze.function(name)
    def changed(*arguments):
        result = function(*arguments)
        if not result:
            after(arguments)
        return result
    ze.functions[name] = changed

def look(before):
    ze, alive = loader.load(), []
    for call, kind in KINDS.items():
        change(ze, f"ze{call}", lambda _, kind=kind: alive.append(kind))
    for kind in {*KINDS.values()}:
        change(ze, f"ze{kind}Destroy", lambda _, kind=kind: alive.remove(kind))
    exec(before, globals() | {"ze": ze, "alive": alive})
    found = discovery.look_with(ze)
    assert not alive, (before, alive)
    return [dataclasses.asdict(device) for device in found.devices], found.absence

def is_loaded():
    return "libze_loader" in Path("/proc/self/maps").read_text()

assert not is_loaded(), "importing loads nothing"
loads, load, seen = [], loader.load, []
loader.load = lambda: loads.append(1) or load()
threads = [threading.Thread(target=lambda: seen.append(DRIVERS["level_zero"].discover())) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert is_loaded() and len(loads) == 1, "looked once"
assert len(seen) == 8 and all(each == seen[0] for each in seen)
"""


def look(*cases, **options):
    """(devices, absence) for each case, the dictionaries of `DeviceInfo` and `ZeNative`; no object is left alive."""
    code = f"{REPORT}\nprint(json.dumps({{case: look(case) for case in {cases!r}}}, default=bytes.hex))"
    return json.loads(output_under_driver(code, **options))


ANSWERS = """
def {name}(asked, answer):
    of(answer).value = {value}
    return 0
ze.functions["{name}"] = {name}
"""
NO_EVENTS = """
ze.functions["zeEventCounterBasedCreate"] = None
all_of = ze.all_of
named = [loader.ExtensionProperties(name=b"{extension}")]
ze.all_of = lambda name, *given: named if name == "zeDriverGetExtensionProperties" else all_of(name, *given)
"""
CANNOT_ASK = "ze.functions['zeCommandListImmediateGetFlags'] = None\n"
LOG = """
def create(context, device, described, module, log):
    alive.append("log")
    of(log).value = 77
    return 0x70000004
def text(log, size, buffer):
    if buffer is not None:
        buffer.value = b"\\n  error: no backend\\nmore\\n"
    of(size).value = 30
    return 0
ze.functions["zeModuleBuildLogDestroy"] = lambda log: alive.remove("log") or 0
ze.functions.update(zeModuleCreate=create, zeModuleBuildLogGetString=text)
"""
ONE_FAILS = """
twice = ze.drivers() * 2
ze.drivers = lambda: twice
real, calls = ze.function("zeDeviceGet"), []
ze.functions["zeDeviceGet"] = lambda *given: calls.append(1) or (0x78000001 if len(calls) == 1 else real(*given))
"""
TWO_DRIVERS = "twice = ze.drivers() * 2\nze.drivers = lambda: twice"
NOT_INTELS = "ze.functions['zeDriverGetExtensionFunctionAddress'] = fails(0x78000004)"
USABLE = {  # what an older loader or another driver lacks, and what is then known of the device
    "ze.functions['zeInitDrivers'] = None": {},
    "ze.functions['zeInitDrivers'] = fails(0x78000003)": {},
    ONE_FAILS: {},
    CANNOT_ASK: {},
    NO_EVENTS.format(extension="ZE_experimental_event_pool_counter_based"): {"counter_based": "pool", "ip_version": 0},
    NO_EVENTS.format(extension="ZE_extension_event_pool_counter_based"): {"counter_based": "pool"},
    NO_EVENTS.format(extension="ZE_extension_subgroups"): {"counter_based": ""},
    "ze.functions['zeEventCounterBasedCreate'] = fails(0x78000003)": {"counter_based": "pool"},
    "ze.functions['zeCommandListAppendHostFunction'] = None": {"has_host_function": False},
    "ze.functions['zeCommandListAppendHostFunction'] = fails(0x78000003)": {"has_host_function": False},
    NOT_INTELS: {"priorities": None},
    ANSWERS.format(name="zeDriverGetApiVersion", value="1 << 16 | 1"): {
        "version": "Level Zero 1.1", "timer_resolution_ns": 83.0,
    },
}  # fmt: skip
UNUSABLE = {
    "ze.functions['zeCommandListCreateImmediate'] = fails(0x7800000c)": [
        "in-order", "ZE_RESULT_ERROR_INVALID_ENUMERATION", "libze-intel-gpu1", "26.27",
    ],
    ANSWERS.format(name="zeCommandListImmediateGetFlags", value=0): ["in order"],
    CANNOT_ASK + NO_EVENTS.format(extension=""): ["in order"],
    "change(ze, 'zeDeviceGetProperties', lambda given: setattr(of(given[1]), 'type', 5))": [
        "level_zero:accelerator:0", "NPU",
    ],
    "change(ze, 'zeDeviceGetCommandQueueGroupProperties', lambda given: "
    "[setattr(group, 'flags', group.flags & ~1) for group in given[2] or ()])": ["no queue that runs kernels"],
    "change(ze, 'zeDeviceGetModuleProperties', lambda given: setattr(of(given[1]), 'spirv_version', 0))": ["SPIR-V"],
    "ze.functions['zeModuleCreate'] = fails(0x70000004)": [
        "it cannot build a kernel", "ZE_RESULT_ERROR_MODULE_BUILD_FAILURE",
    ],
    LOG: ["it cannot build a kernel: error: no backend; install a newer driver"],
    "ze.functions['zeKernelCreate'] = fails(0x78000011)": ["it cannot make a kernel", "INVALID_KERNEL_NAME"],
    **{f"ze.functions['{name}'] = fails(0x70000001)": ["level_zero:gpu:0", name, "ZE_RESULT_ERROR_DEVICE_LOST"]
       for name in ("zeDeviceGetProperties", "zeContextCreate", "zeDeviceGetMemoryProperties")},
}  # fmt: skip
DUMB = ("zeDriverGetApiVersion", "zeDriverGetProperties", "zeDriverGetExtensionProperties")
DO_NOT_ANSWER = {f"ze.functions['{name}'] = fails(0x7ffffffe)": name for name in DUMB}


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
    assert device["memory"] >= native["max_allocation"] > 1 << 30
    assert native["driver"]
    assert native["device"]
    assert tuple(native["api_version"]) >= (1, 15)
    assert native["ip_version"] >> 22 == 12  # 12.60.7
    assert len(native["uuid"]) == 32
    expected = {
        "vendor_id": 0x8086, "device_id": 0x0BD5, "max_group_items": 1024, "max_group_size": [1024] * 3,
        "max_group_count": [2**32 - 1] * 3, "max_local_bytes": 128 << 10, "max_argument_bytes": 2048,
        "timer_resolution_ns": pytest.approx(1e9 / 12_000_048), "timestamp_bits": 36, "kernel_timestamp_bits": 32,
        "groups": [[7, 1, 2**64 - 1], [2, 1, 1], [2, 8, 1]], "priorities": [0, -1], "has_host_function": True,
        "counter_based": "create",
    }  # fmt: skip
    assert {name: native[name] for name in expected} == expected


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
    assert all(first["native"][name] != second["native"][name] for name in ("device", "uuid"))


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
import os
from forebay.queues.levelzero import loader
from forebay.queues.selection import DRIVERS
loader.load().result("zeInit", 0)
os.environ.pop("ZE_ENABLE_ALT_DRIVERS")  # changes only the message: the loader has read it by now
print(DRIVERS["level_zero"].absence())
"""
    absence = output_under_driver(code, NEOReadDebugKeys=None)
    assert "no Level Zero device was found" in absence
    assert "libze-intel-gpu1" in absence or "render" in absence
