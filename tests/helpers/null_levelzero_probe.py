"""Calls the Level Zero functions that forebay needs, through ctypes alone, and prints the results as JSON.

`test_null_levelzero.py` runs this under `null_levelzero`. Every call is checked; the first failure ends the script.
"""

from __future__ import annotations

import ctypes
import json
import sys
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_int, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p

SOURCE = b"""
kernel void scale(global float *data, float factor, int count) {
    int i = get_global_id(0);
    if (i < count) data[i] *= factor;
}
"""

IN_ORDER = 1 << 1
ASYNCHRONOUS = 2
IMMEDIATE_AND_HOST_VISIBLE = 1 << 0 | 1 << 2
SCOPE_DEVICE, SCOPE_HOST = 1 << 1, 1 << 2
FOREVER = 2**64 - 1


def described(stype: int, *fields: tuple[str, type]) -> type[Structure]:
    """A structure of the API: its type, the pointer to an extension structure, and `fields`."""

    class Described(Structure):
        _fields_ = [("stype", c_uint32), ("next", c_void_p), *fields]

        def __init__(self, *values):
            super().__init__(stype, None, *values)

    return Described


ContextDesc = described(0x0D, ("flags", c_uint32))
QueueDesc = described(
    0x0E, ("ordinal", c_uint32), ("index", c_uint32), ("flags", c_uint32), ("mode", c_uint32), ("priority", c_uint32)
)
DeviceAllocDesc = described(0x15, ("flags", c_uint32), ("ordinal", c_uint32))
ModuleDesc = described(
    0x1B,
    ("format", c_uint32),
    ("size", c_size_t),
    ("input", c_char_p),
    ("flags", c_char_p),
    ("constants", c_void_p),
)
KernelDesc = described(0x1D, ("flags", c_uint32), ("name", c_char_p))
CounterEventDesc = described(0x0002003A, ("flags", c_uint32), ("signal", c_uint32), ("wait", c_uint32))
DeviceProperties = described(
    0x03,
    ("type", c_uint32),
    ("vendor", c_uint32),
    ("device", c_uint32),
    ("flags", c_uint32),
    ("subdevice", c_uint32),
    ("clock_rate", c_uint32),
    ("max_allocation", c_uint64),
    ("max_contexts", c_uint32),
    ("max_priority", c_uint32),
    ("shape", c_uint32 * 5),
    ("timer_resolution", c_uint64),
    ("timestamp_bits", c_uint32 * 2),
    ("uuid", c_uint8 * 16),
    ("name", c_char * 256),
)


class Three(Structure):
    """Sizes or counts of groups in three dimensions."""

    _fields_ = [("x", c_uint32), ("y", c_uint32), ("z", c_uint32)]


ze = ctypes.CDLL("libze_loader.so.1")


def call(name: str, *arguments) -> None:
    """Call a function of Level Zero and stop if it does not succeed."""
    result = getattr(ze, name)(*arguments) & 0xFFFFFFFF
    if result:
        sys.exit(f"{name} returned {result:#x}")


def make(name: str, *arguments) -> c_void_p:
    """Call a function of Level Zero whose last parameter takes a handle, and return the handle."""
    handle = c_void_p()
    call(name, *arguments, byref(handle))
    return handle


def handles(name: str, *owner) -> list[c_void_p]:
    """All handles that a function of the `…Get(owner, &count, handles)` kind lists."""
    count = c_uint32()
    call(name, *owner, byref(count), None)
    found = (c_void_p * count.value)()
    call(name, *owner, byref(count), found)
    return [c_void_p(handle) for handle in found]


def compiled(source: bytes) -> bytes:
    """OpenCL C to SPIR-V, in memory."""
    ocloc = ctypes.CDLL("libocloc.so")
    words = b"ocloc compile -q -spv_only -device pvc -file kernel.cl".split()
    arguments = (c_char_p * len(words))(*words)
    count = c_uint32()
    data, sizes, names = POINTER(POINTER(c_uint8))(), POINTER(c_uint64)(), POINTER(c_char_p)()
    result = ocloc.oclocInvoke(
        len(words), arguments,
        1, byref(c_char_p(source)), byref(c_uint64(len(source) + 1)), byref(c_char_p(b"kernel.cl")),
        0, None, None, None,
        byref(count), byref(data), byref(sizes), byref(names),
    )  # fmt: skip
    outputs = {names[i]: ctypes.string_at(data[i], sizes[i]) for i in range(count.value)}
    ocloc.oclocFreeOutput(byref(count), byref(data), byref(sizes), byref(names))
    spirv = [content for name, content in outputs.items() if name.endswith(b".spv")]
    if result or not spirv:
        sys.exit(f"ocloc returned {result}: {outputs}")
    return spirv[0]


def main() -> None:
    """Make all the calls once."""
    call("zeInit", 0)
    driver = handles("zeDriverGet")[0]
    devices = handles("zeDeviceGet", driver)
    device = devices[0]
    properties = DeviceProperties()
    call("zeDeviceGetProperties", device, byref(properties))
    version = c_uint32()
    call("zeDriverGetApiVersion", driver, byref(version))

    context = make("zeContextCreate", driver, byref(ContextDesc()))
    queue = QueueDesc(0, 0, IN_ORDER, ASYNCHRONOUS, 0)
    producer = make("zeCommandListCreateImmediate", context, device, byref(queue))
    consumer = make("zeCommandListCreateImmediate", context, device, byref(queue))

    spirv = compiled(SOURCE)
    module, log = c_void_p(), c_void_p()
    call("zeModuleCreate", context, device, byref(ModuleDesc(0, len(spirv), spirv)), byref(module), byref(log))
    call("zeModuleBuildLogDestroy", log)
    kernel = make("zeKernelCreate", module, byref(KernelDesc(0, b"scale")))
    buffer = c_void_p()
    call("zeMemAllocDevice", context, byref(DeviceAllocDesc()), c_size_t(4096), c_size_t(64), device, byref(buffer))

    call("zeKernelSetGroupSize", kernel, 64, 1, 1)
    for index, value in enumerate((buffer, ctypes.c_float(2), c_int(1024))):
        call("zeKernelSetArgumentValue", kernel, index, c_size_t(ctypes.sizeof(value)), byref(value))
    groups = Three(16, 1, 1)
    call("zeCommandListAppendLaunchKernel", producer, kernel, byref(groups), None, 0, None)

    marker_desc = CounterEventDesc(IMMEDIATE_AND_HOST_VISIBLE, SCOPE_DEVICE | SCOPE_HOST, SCOPE_DEVICE)
    marker = make("zeEventCounterBasedCreate", context, device, byref(marker_desc))
    call("zeCommandListAppendSignalEvent", producer, marker)
    call("zeCommandListAppendWaitOnEvents", consumer, 1, byref(marker))
    call("zeCommandListAppendLaunchKernel", consumer, kernel, byref(groups), None, 1, byref(marker))
    call("zeEventHostSynchronize", marker, c_uint64(FOREVER))
    call("zeCommandListHostSynchronize", consumer, c_uint64(FOREVER))
    call("zeCommandListHostSynchronize", producer, c_uint64(FOREVER))

    call("zeEventDestroy", marker)
    call("zeKernelDestroy", kernel)
    call("zeModuleDestroy", module)
    call("zeMemFree", context, buffer)
    call("zeCommandListDestroy", consumer)
    call("zeCommandListDestroy", producer)
    call("zeContextDestroy", context)
    print(
        json.dumps(
            {
                "devices": len(devices),
                "name": properties.name.decode(),
                "vendor": properties.vendor,
                "device": properties.device,
                "api": [version.value >> 16, version.value & 0xFFFF],
                "spirv": spirv[:4].hex(),
            }
        )
    )


if __name__ == "__main__":
    main()
