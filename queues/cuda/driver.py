"""What the folder offers: CUDA's devices, and the streams of other packages.

It finds and starts CUDA's driver, describes its devices, and says why one is unusable. Importing this module loads
nothing; without a driver `start` costs one failed ``dlopen``. Frequent calls are in calls.hpp; these run once a device.

No context is made, because that takes 0.5 s and half a gigabyte for each GPU. So opening a usable device may still
fail, with the driver's own error.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from forebay.core.driver import AdoptedQueue, DeviceInfo, DriverDevice, DriverFolder, Found, Limits, numbered
from forebay.core.errors import DriverError, InvalidArgumentError, NotSupportedError

if TYPE_CHECKING:
    from ctypes import CDLL

LIBRARY = "libcuda.so.1"
GET_DRIVER = "for an NVIDIA GPU, install NVIDIA's driver of CUDA 13.0 or newer (580); nothing else is needed"
OLDEST = 13000
CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"
MOST_CONNECTIONS = 32
DRIVERS_CONNECTIONS = 8  # if the variable is not set
NO_DEVICE = 100

LEGACY, PER_THREAD = 1, 2  # CU_STREAM_LEGACY, CU_STREAM_PER_THREAD: names of the default streams

log: logging.Logger = logging.getLogger(__name__)

# CUdevice_attribute; some set fields of Limits and CuNative
BLOCK, GRID, MULTIPROCESSORS, INTEGRATED, COMPUTE_MODE, MANAGED = 2, 5, 16, 18, 20, 83
PCI_BUS, PCI_DEVICE, PCI_DOMAIN, MAJOR, MINOR = 33, 34, 50, 75, 76
LIMITS = {
    "group_items": 1, "unit_items": 39, "unit_groups": 106, "local_bytes": 97, "constant_bytes": 9, "clock_khz": 13,
    "cache_bytes": 38,
}  # fmt: skip
FLAGS = {"migrates": 89, "has_ipc": 125}
HAS_POOLS = 115
PROHIBITED = 2  # of compute_mode


class CuNative(NamedTuple):
    """A GPU as CUDA's driver describes it."""

    ordinal: int  # the driver's number
    architecture: tuple[int, int]  # the compute capability, for example (9, 0)
    driver_version: int  # the CUDA that the driver has, for example 13000
    pci: tuple[int, int, int]  # domain, bus and device
    limits: Limits
    multiprocessors: int
    migrates: bool
    has_ipc: bool
    connections: int


class Cuda(DriverFolder):
    """See `DriverFolder`. The rest of the folder is imported late, because `import forebay` looks for no device."""

    adopts_queues = "a stream of CUDA (__cuda_stream__; of CuPy, PyTorch, numba)"

    def look(self) -> Found:
        chosen = CONNECTIONS in os.environ
        try:
            driver, count = start()
            devices = [describe(driver, ordinal, chosen) for ordinal in range(count)]
        except (NotSupportedError, DriverError) as error:
            return Found([], str(error))
        if not devices:
            hidden = " (CUDA_VISIBLE_DEVICES may hide it)" if "CUDA_VISIBLE_DEVICES" in os.environ else ""
            return Found([], f"CUDA's driver is there and finds no GPU{hidden}: {GET_DRIVER}")
        return Found(numbered(devices), "")

    def open_device(self, info: DeviceInfo) -> DriverDevice:
        from forebay.queues.cuda.device import CudaDevice

        load()
        return CudaDevice(info)

    def adopt_queue(self, thing: Any, opened: Iterable[DriverDevice]) -> AdoptedQueue | None:
        stream = _stream_of(thing)
        if stream is None:
            return None
        if stream in (0, LEGACY, PER_THREAD):
            raise InvalidArgumentError(
                f"adopt_queue: this {type(thing).__name__} is CUDA's default stream, which is another one for each "
                "thread or waits for all: make a stream, and adopt that"
            )
        if not self.discover():
            raise NotSupportedError(f"adopt_queue: {self.absence()}")
        from forebay.queues.cuda.device import CudaDevice
        from forebay.queues.cuda.operations import context_of

        load()
        context = context_of(stream)
        there = [device for device in opened if isinstance(device, CudaDevice)]
        known = {device.info.name for device in there}
        others = (CudaDevice(info) for info in self.discover() if info.usable and info.name not in known)
        for device in itertools.chain(there, others):
            if device.handle.handle == context:
                return AdoptedQueue(device, device.handle.adopt_queue(stream, thing), True)
        raise InvalidArgumentError(
            "adopt_queue: this stream is in a context of its own; forebay uses the primary context of a GPU, as CUDA's "
            "runtime, CuPy, PyTorch and numba do"
        )


def _stream_of(thing: Any) -> int | None:
    """Return the driver's handle of a CUDA stream; None for other objects.

    It knows ``__cuda_stream__`` (cuda.core, CuPy 14 and newer), ``cuda_stream`` (PyTorch), and ``ptr`` and ``handle``
    of the streams of CuPy and numba.
    """
    protocol = getattr(type(thing), "__cuda_stream__", None)
    if protocol is not None:
        described = protocol(thing) if callable(protocol) else thing.__cuda_stream__
        return int(described[1])
    package = type(thing).__module__.partition(".")[0]
    name = {"torch": "cuda_stream", "cupy": "ptr", "numba": "handle"}.get(package)
    if name is None or "Stream" not in type(thing).__name__ or not hasattr(thing, name):
        return None
    handle = getattr(thing, name)
    return int(getattr(handle, "value", handle) or 0)


# -- discovery


def start() -> tuple[CDLL, int]:
    """Load and start the driver; return it and its number of devices. Raises `NotSupportedError` if there is no driver
    or an old one, and `DriverError` if it does not start.

    Each waiting stream takes a hardware connection, and with the driver's default of 8 a few that wait for the host
    hold up all others (docs/cuda.md). So CUDA_DEVICE_MAX_CONNECTIONS is set to 32, the maximum, unless it is set. The
    driver reads it when the first package of the process starts it.
    """
    from ctypes import CDLL, byref, c_int, c_uint

    try:
        library = CDLL(LIBRARY)
    except OSError as error:
        raise NotSupportedError(f"CUDA's driver is not installed ({error}): {GET_DRIVER}") from None
    os.environ.setdefault(CONNECTIONS, str(MOST_CONNECTIONS))
    version = c_int()
    code = library.cuInit(c_uint(0))
    if code not in (0, NO_DEVICE):
        raise _failed(library, "cuInit", code, "CUDA's driver does not start", f": {GET_DRIVER}")
    _checked(library, "cuDriverGetVersion", byref(version))
    if version.value < OLDEST:
        raise NotSupportedError(
            f"CUDA's driver is of CUDA {version.value // 1000}.{version.value % 1000 // 10}, too old: {GET_DRIVER}"
        )
    count = c_int()
    if code == 0:
        _checked(library, "cuDeviceGetCount", byref(count))
    return library, count.value


def load() -> None:
    """Look the driver's functions up. Raises `ImportError` if it is too old."""
    from forebay.queues.cuda import operations

    operations.load(start()[0])


def describe(library: CDLL, ordinal: int, chosen: bool) -> DeviceInfo:
    """Describe a device. `chosen`: whether CUDA_DEVICE_MAX_CONNECTIONS was set before `start`. Raises `DriverError`."""
    from ctypes import byref, c_int, c_size_t, create_string_buffer

    device, memory, version = c_int(), c_size_t(), c_int()
    name = create_string_buffer(256)
    _checked(library, "cuDeviceGet", byref(device), c_int(ordinal))
    _checked(library, "cuDeviceGetName", name, c_int(len(name)), device)
    _checked(library, "cuDeviceTotalMem_v2", byref(memory), device)
    _checked(library, "cuDriverGetVersion", byref(version))

    def ask(which: int) -> int:  # 0 for an attribute unknown to the driver
        value = c_int()
        return value.value if library.cuDeviceGetAttribute(byref(value), c_int(which), device) == 0 else 0

    def three(first: int) -> tuple[int, int, int]:
        return ask(first), ask(first + 1), ask(first + 2)

    limits = Limits(
        **{field: ask(which) for field, which in LIMITS.items()},
        group_size=three(BLOCK),
        group_count=three(GRID),
        allocation=memory.value,
        shares_memory=bool(ask(INTEGRATED)),
        has_shared=bool(ask(MANAGED)),
    )
    native = CuNative(
        ordinal=device.value,
        architecture=(ask(MAJOR), ask(MINOR)),
        driver_version=version.value,
        pci=(ask(PCI_DOMAIN), ask(PCI_BUS), ask(PCI_DEVICE)),
        limits=limits,
        multiprocessors=ask(MULTIPROCESSORS),
        connections=connections(library, device.value, chosen),
        **{field: bool(ask(which)) for field, which in FLAGS.items()},
    )
    reason, advice = "", ""
    if ask(COMPUTE_MODE) == PROHIBITED:
        reason, advice = "its compute mode is PROHIBITED", "nvidia-smi --compute-mode=DEFAULT, as root"
    elif not ask(HAS_POOLS):
        reason, advice = "it has no memory pools", "it is too old for CUDA's stream-ordered memory; use OpenCL on it"
    return DeviceInfo(
        backend="cuda",
        description=name.value.decode(errors="replace"),
        platform="NVIDIA CUDA",
        version=f"compute capability {native.architecture[0]}.{native.architecture[1]}",
        driver_version=f"CUDA {version.value // 1000}.{version.value % 1000 // 10}",
        compute_units=native.multiprocessors,
        memory=memory.value,
        usable=not reason,
        reason=reason,
        advice=advice,
        native=native,
    )


def connections(library: CDLL, device: int, chosen: bool) -> int:
    """Return the number of hardware connections for all streams. Warns if another package started CUDA with few."""
    if chosen:
        value = os.environ.get(CONNECTIONS, "")
        return min(max(int(value), 1), MOST_CONNECTIONS) if value.isdecimal() else DRIVERS_CONNECTIONS
    from ctypes import byref, c_int, c_uint

    flags, active = c_uint(), c_int()
    library.cuDevicePrimaryCtxGetState(c_int(device), byref(flags), byref(active))
    if active.value:
        log.warning(
            "another package used CUDA before forebay, with %s not set: the driver's %s connections are shared by all "
            "streams, and a few that wait for the host hold up the others. Set it to %s before the process starts.",
            CONNECTIONS, DRIVERS_CONNECTIONS, MOST_CONNECTIONS,
        )  # fmt: skip
    return DRIVERS_CONNECTIONS if active.value else MOST_CONNECTIONS


def _failed(library: CDLL, call: str, code: int, what: str, advice: str = "") -> DriverError:
    from ctypes import byref, c_char_p, c_int

    text = c_char_p()
    library.cuGetErrorName(c_int(code), byref(text))
    name = text.value.decode() if text.value else f"error {code}"
    return DriverError(f"{what}: {name}{advice}", call=call, code=code, name=name)


def _checked(library: CDLL, call: str, *args: object) -> None:
    if code := getattr(library, call)(*args):
        raise _failed(library, call, code, f"{call} failed")
