"""Discovery with Intel's driver, and its messages if the loader or driver is missing or lacks something."""

import ctypes
import json
import os
import struct

import pytest

from forebay.core.errors import DriverError, NotSupportedError
from forebay.queues.drivers.levelzero import descriptors, loader
from forebay.queues.drivers.levelzero import discovery as platforms
from forebay.spirv import declarations
from tests.helpers.processes import output_of
from tools import null_levelzero

from .children import output_under_driver, under_driver

pytestmark = pytest.mark.needs("no chosen device")

# Prints what discovery finds once {before} has put its own functions into `ze`, and what it made and did not destroy.
REPORT = """
import ctypes, dataclasses, json
from forebay.queues.drivers.levelzero import discovery as platforms
from forebay.queues.drivers.levelzero import loader

ze = loader.load()
alive = []

def watch(name, note, what):
    function = ze.function(name)
    def watched(*arguments):
        result = function(*arguments)
        if not result:
            note(what)
        return result
    ze.functions[name] = watched

for create, what in (
    ("zeContextCreate", "Context"), ("zeCommandListCreate", "CommandList"), ("zeModuleCreate", "Module"),
    ("zeCommandListCreateImmediate", "CommandList"), ("zeKernelCreate", "Kernel"),
    ("zeEventCounterBasedCreate", "Event"),
):
    watch(create, alive.append, what)
for what in ("Context", "CommandList", "Module", "Kernel", "Event"):
    watch(f"ze{{what}}Destroy", alive.remove, what)

def fails(code):
    return lambda *arguments: code

{before}
found = platforms.look_with(ze)
devices = [dataclasses.asdict(d) | {{"native": None}} for d in found.devices]
natives = [d.native and dataclasses.asdict(d.native) | {{"uuid": d.native.uuid.hex()}} for d in found.devices]
print(json.dumps([devices, natives, found.absence, alive]))
"""


def look(before="", **options):
    """The devices, the dictionaries of their `ZeNative` and the absence, with nothing left alive."""
    devices, natives, absence, alive = json.loads(output_under_driver(REPORT.format(before=before), **options))
    assert alive == []
    return devices, natives, absence


def one(before="", **options):
    """The only device and its `ZeNative`, or None."""
    (device,), (native,), absence = look(before, **options)
    assert absence == ""
    return device, native


def unusable(before, *words):
    device, native = one(before)
    assert not device["usable"]
    assert native is None
    for word in words:
        assert word in device["reason"]
    assert "\n" not in device["reason"]
    return device


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


@pytest.mark.skipif(ctypes.sizeof(ctypes.c_void_p) != 8, reason="64-bit layouts")
@pytest.mark.parametrize("name", SIZES)
def test_structures_have_the_layout_of_c(name):
    assert ctypes.sizeof(getattr(loader, name)) == SIZES[name]


@pytest.mark.skipif(ctypes.sizeof(ctypes.c_void_p) != 8, reason="64-bit layouts")
@pytest.mark.parametrize(
    ("name", "given", "layout", "fields"),
    [
        ("context_desc", (), "I4xPI4x", (0x0D, 0, 0)),
        ("queue_desc", (7, 2, 3), "I4xP5I4x", (0x0E, 0, 7, 0, 2, 3, 0)),
        ("list_desc", (7,), "I4xPII", (0x0F, 0, 7, 0)),
        ("event_desc", (1, 2, 4), "I4xP3I4x", (0x0002003A, 0, 1, 2, 4)),
    ],
)
def test_descriptors_have_the_layout_of_c(name, given, layout, fields):
    assert struct.unpack(layout, getattr(descriptors, name)(*given)) == fields


@pytest.mark.skipif(ctypes.sizeof(ctypes.c_void_p) != 8, reason="64-bit layouts")
def test_descriptors_point_to_what_they_were_given():
    code = b"SPIR-V\0and more"
    stype, following, format, size, start, options, constants = struct.unpack(
        "I4xPI4xNPPP", descriptors.module_desc(1, code)
    )
    assert (stype, following, format, size, options, constants) == (0x1B, 0, 1, len(code), 0, 0)
    assert ctypes.string_at(start, size) == code
    name = b"probe"
    stype, following, flags, start = struct.unpack("I4xPI4xP", descriptors.kernel_desc(name))
    assert (stype, following, flags, ctypes.string_at(start)) == (0x1D, 0, 0, name)


def test_the_probe_is_a_whole_module_with_one_kernel():
    (kernel,) = declarations.kernels_of(platforms.probe_module()).items()
    assert kernel == ("probe", [declarations.Declared("argument_0", "int*", "pointer", 8)])


WITHOUT_LOADER = """
from forebay.queues.drivers.levelzero import loader
loader.LIBRARY = "libze_loader_that_is_not_there.so.1"
from forebay.queues.drivers.selection import DRIVERS, devices, select
from forebay import Error
assert DRIVERS["level_zero"].discover() == []
assert devices() == [*DRIVERS["opencl"].discover(), *DRIVERS["sycl"].discover()]
print(DRIVERS["level_zero"].absence())
try:
    select("level_zero")
except Error as error:
    assert DRIVERS["level_zero"].absence() in str(error)
else:
    raise AssertionError
"""


def test_without_a_loader_the_advice_is_to_install_it_and_opencl_is_as_ever():
    (absence,) = output_of("-c", WITHOUT_LOADER).splitlines()
    assert "libze_loader_that_is_not_there.so.1" in absence
    assert "apt install libze1 libze-intel-gpu1" in absence


def test_a_library_that_is_no_loader(monkeypatch):
    monkeypatch.setattr(loader, "LIBRARY", "libc.so.6")
    if os.name != "posix":
        pytest.skip("no libc.so.6")
    devices, absence = platforms.look()
    assert devices == []
    assert "zeInit failed" in absence


def test_a_render_node_that_may_not_be_opened_is_named(tmp_path, monkeypatch):
    monkeypatch.delenv("ZE_ENABLE_ALT_DRIVERS", raising=False)
    monkeypatch.setattr(platforms, "RENDER_NODES", str(tmp_path / "renderD*"))
    assert "apt install" in platforms._absence("no driver")
    (tmp_path / "renderD128").write_text("")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert str(tmp_path / "renderD128") in platforms._absence("no driver")
    assert "group" in platforms._absence("no driver")


def test_importing_loads_no_loader():
    code = """
from pathlib import Path
from forebay.queues.drivers.selection import DRIVERS

def loaded():
    return "libze_loader" in Path("/proc/self/maps").read_text()

before = loaded()
DRIVERS["level_zero"].discover()
print(before, loaded())
"""
    assert output_under_driver(code) == "False True\n"


# Intel's driver


def test_the_device_and_what_its_driver_says():
    device, native = one()
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
    assert (native["vendor_id"], native["device_id"]) == (0x8086, 0x0BD5)
    assert native["ip_version"] >> 22 == 12  # 12.60.7
    assert len(native["uuid"]) == 32
    assert native["max_group_items"] == 1024
    assert native["max_group_size"] == [1024] * 3
    assert native["max_group_count"] == [2**32 - 1] * 3
    assert native["max_local_bytes"] == 128 << 10
    assert native["max_argument_bytes"] == 2048
    assert native["timer_resolution_ns"] == pytest.approx(1e9 / 12_000_048)
    assert (native["timestamp_bits"], native["kernel_timestamp_bits"]) == (36, 32)
    assert native["groups"] == [[7, 1, 2**64 - 1], [2, 1, 1], [2, 8, 1]]
    assert native["priorities"] == [0, -1]
    assert native["has_host_function"]
    assert native["counter_based"] == "create"


def test_two_devices_have_two_names_and_are_selected_by_them():
    devices, natives, _ = look(devices=2)
    assert [device["name"] for device in devices] == ["level_zero:gpu:0", "level_zero:gpu:1"]
    assert natives[0]["device"] != natives[1]["device"]
    assert natives[0]["uuid"] != natives[1]["uuid"]
    assert natives[0]["driver"] == natives[1]["driver"]
    code = """
from forebay.queues.drivers.selection import devices, select
first, second = devices()[:2]
assert (first.name, second.name) == ("level_zero:gpu:0", "level_zero:gpu:1")
assert select("level_zero") is select("gpu") is select() is first
assert select("level_zero:gpu:1") is select("level_zero:1") is second
print("selected")
"""
    assert output_under_driver(code, devices=2) == "selected\n"


def test_it_is_looked_at_once_whatever_the_number_of_threads():
    code = """
import threading
from forebay.queues.drivers.selection import DRIVERS
from forebay.queues.drivers.levelzero import loader
loads, real = [], loader.load
loader.load = lambda: loads.append(1) or real()
seen = []
threads = [threading.Thread(target=lambda: seen.append(DRIVERS["level_zero"].discover())) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(seen) == 8
assert len(seen[0]) == 1
assert all(found[0] is seen[0][0] for found in seen)
assert len(loads) == 1
print(DRIVERS["level_zero"].absence())
"""
    assert output_under_driver(code) == "\n"


def test_the_validation_layer_finds_nothing_wrong():
    done = under_driver(
        "from forebay.queues.drivers.selection import DRIVERS; print(len(DRIVERS['level_zero'].discover()))",
        validate=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1"]
    assert "Check balance of create/destroy calls" in done.stderr
    # The layer does not count zeEventCounterBasedCreate, only the destruction of its events.
    leaks = [line.split() for line in done.stderr.splitlines() if "LEAK" in line]
    assert [(line[0], line[-1]) for line in leaks] == [("zexCounterBasedEventCreate2", "-1")]
    assert "error" not in done.stderr.lower()


# A loader without a driver


@pytest.mark.parametrize("name", ["no-such-driver.so", "libz.so.1"])
def test_a_loader_without_a_driver_says_which_one_it_was_told_to_use(name):
    path = null_levelzero.cache_folder() / "ready" / "root" / null_levelzero.LIBRARIES / name
    devices, _, absence = look(ZE_ENABLE_ALT_DRIVERS=path)
    assert devices == []
    assert "no Level Zero device was found" in absence
    assert f"ZE_ENABLE_ALT_DRIVERS is set ({path})" in absence
    assert "\n" not in absence


def test_a_driver_without_a_gpu():
    code = """
import os
from forebay.queues.drivers.selection import DRIVERS
os.environ.pop("ZE_ENABLE_ALT_DRIVERS")  # changes only the message: the loader has read it by now
print(DRIVERS["level_zero"].absence())
"""
    loaded = "from forebay.queues.drivers.levelzero import loader; ze = loader.load(); ze.result('zeInit', 0)\n"
    absence = output_under_driver(loaded + code, NEOReadDebugKeys=None)
    assert "no Level Zero device was found" in absence
    assert "libze-intel-gpu1" in absence or "render" in absence


def test_opencl_is_there_without_a_level_zero_driver():
    code = """
from forebay.queues.drivers.selection import DRIVERS, devices
assert devices() == [*DRIVERS["opencl"].discover(), *DRIVERS["sycl"].discover()]
print("same")
"""
    assert output_under_driver(code, ZE_ENABLE_ALT_DRIVERS="/no/such.so") == "same\n"


# Older loaders and drivers


@pytest.mark.parametrize("substitute", ["None", "fails(0x78000003)"])
def test_a_loader_or_a_driver_without_the_newer_initialisation(substitute):
    device, _ = one(f"ze.functions['zeInitDrivers'] = {substitute}")
    assert device["usable"]


@pytest.mark.parametrize("name", ["zeDriverGetApiVersion", "zeDriverGetProperties", "zeDriverGetExtensionProperties"])
def test_a_driver_that_does_not_answer_has_no_devices(name):
    devices, _, absence = look(f"ze.functions['{name}'] = fails(0x7ffffffe)")
    assert devices == []
    assert f"{name} failed: ZE_RESULT_ERROR_UNKNOWN" in absence


def test_a_driver_that_fails_does_not_hide_the_next_ones_devices():
    before = """
twice = ze.drivers() * 2
ze.drivers = lambda: twice
real, calls = ze.function("zeDeviceGet"), []
ze.functions["zeDeviceGet"] = lambda *given: calls.append(1) or (0x78000001 if len(calls) == 1 else real(*given))
"""
    device, _ = one(before)
    assert device["usable"]


def test_devices_of_two_drivers_are_numbered_through():
    devices, _, _ = look("twice = ze.drivers() * 2\nze.drivers = lambda: twice")
    assert [device["name"] for device in devices] == ["level_zero:gpu:0", "level_zero:gpu:1"]


def test_a_driver_that_refuses_in_order_lists():
    device = unusable(
        "ze.functions['zeCommandListCreateImmediate'] = fails(0x7800000c)",
        "in-order", "ZE_RESULT_ERROR_INVALID_ENUMERATION",
    )  # fmt: skip
    assert "libze-intel-gpu1" in device["advice"]
    assert "26.27" in device["advice"]


def test_a_driver_that_ignores_that_lists_should_be_in_order():
    before = """
def get_flags(commands, flags):
    flags._obj.value = 0
    return 0
ze.functions["zeCommandListImmediateGetFlags"] = get_flags
"""
    unusable(before, "in order")


NO_EVENTS = """
ze.functions["zeEventCounterBasedCreate"] = None
real_driver = platforms._driver
platforms._driver = lambda *arguments: real_driver(*arguments)._replace(extensions=frozenset({extensions}))
"""


def test_a_driver_that_cannot_be_asked_for_flags_is_believed_if_it_has_events_for_in_order_lists_only():
    cannot_ask = "ze.functions['zeCommandListImmediateGetFlags'] = None\n"
    assert one(cannot_ask)[0]["usable"]
    unusable(cannot_ask + NO_EVENTS.format(extensions="set()"), "in order")


@pytest.mark.parametrize(
    ("extensions", "counter_based"),
    [
        ("{'ZE_experimental_event_pool_counter_based'}", "pool"),
        ("{'ZE_extension_event_pool_counter_based'}", "pool"),
        ("{'ZE_extension_subgroups'}", ""),
    ],
)
def test_a_driver_without_counter_based_events_is_usable(extensions, counter_based):
    device, native = one(NO_EVENTS.format(extensions=extensions))
    assert device["usable"]
    assert native["counter_based"] == counter_based
    assert native["ip_version"] == 0  # its extension is not in the list either


def test_a_driver_that_has_the_function_for_events_and_refuses():
    _, native = one("ze.functions['zeEventCounterBasedCreate'] = fails(0x78000003)")
    assert native["counter_based"] == "pool"


@pytest.mark.parametrize("substitute", ["None", "fails(0x78000003)"])
def test_a_driver_without_host_functions_is_usable(substitute):
    device, native = one(f"ze.functions['zeCommandListAppendHostFunction'] = {substitute}")
    assert device["usable"]
    assert not native["has_host_function"]


def test_a_driver_that_is_not_intels():
    device, native = one("ze.functions['zeDriverGetExtensionFunctionAddress'] = fails(0x78000004)")
    assert device["usable"]
    assert device["driver_version"].isdecimal()
    assert native["priorities"] is None


def test_before_1_2_the_timer_is_in_nanoseconds():
    before = """
def version(driver, answer):
    answer._obj.value = 1 << 16 | 1
    return 0
ze.functions["zeDriverGetApiVersion"] = version
"""
    device, native = one(before)
    assert device["version"] == "Level Zero 1.1"
    assert native["timer_resolution_ns"] == 83.0


# Devices that cannot be used


CHANGED = """
real = ze.function("{name}")
def changed(*arguments):
    result = real(*arguments)
    {change}
    return result
ze.functions["{name}"] = changed
"""


def test_an_npu_is_listed_and_not_used():
    device = unusable(CHANGED.format(name="zeDeviceGetProperties", change="arguments[1]._obj.type = 5"), "NPU")
    assert device["name"] == "level_zero:accelerator:0"
    assert device["advice"]


def test_a_device_that_only_copies():
    change = "for group in arguments[2] or (): group.flags &= ~1"
    unusable(CHANGED.format(name="zeDeviceGetCommandQueueGroupProperties", change=change), "no queue that runs kernels")


def test_a_driver_without_spirv():
    unusable(CHANGED.format(name="zeDeviceGetModuleProperties", change="arguments[1]._obj.spirv_version = 0"), "SPIR-V")


def test_a_driver_that_cannot_build():
    # invalid machine code, because Intel's compiler ends the process over invalid SPIR-V
    before = "platforms.FORMAT_SPIRV = 1"
    unusable(before, "it cannot build a kernel", "ZE_RESULT_ERROR_MODULE_BUILD_FAILURE")


def test_what_the_compiler_said_is_the_reason():
    before = """
def create(context, device, described, module, log):
    alive.append("log")
    log._obj.value = 77
    return 0x70000004
def text(log, size, buffer):
    if buffer is not None:
        buffer.value = b"\\n  error: no backend\\nmore\\n"
    size._obj.value = 30
    return 0
ze.functions["zeModuleBuildLogDestroy"] = lambda log: alive.remove("log") or 0
ze.functions.update(zeModuleCreate=create, zeModuleBuildLogGetString=text)
"""
    device = unusable(before, "error: no backend")
    assert device["reason"] == "it cannot build a kernel: error: no backend"


def test_a_driver_that_loses_the_kernel():
    unusable("ze.functions['zeKernelCreate'] = fails(0x78000011)", "it cannot make a kernel", "INVALID_KERNEL_NAME")


@pytest.mark.parametrize("name", ["zeDeviceGetProperties", "zeContextCreate", "zeDeviceGetMemoryProperties"])
def test_a_device_whose_driver_fails_is_listed_with_the_call(name):
    device = unusable(f"ze.functions['{name}'] = fails(0x70000001)", name, "ZE_RESULT_ERROR_DEVICE_LOST")
    assert device["name"] == "level_zero:gpu:0"
    assert device["advice"]


def test_the_error_of_a_missing_loader_is_forebays(monkeypatch):
    monkeypatch.setattr(loader, "LIBRARY", "libze_loader_that_is_not_there.so.1")
    with pytest.raises(NotSupportedError, match="apt install libze1"):
        loader.load()
