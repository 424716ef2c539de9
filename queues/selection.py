"""Lists the devices of all drivers, selects one by dpctl's filter string, and adopts objects of other packages."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence

from forebay.core.driver import KINDS, AdoptedQueue, DeviceInfo, DriverDevice, DriverFolder
from forebay.core.errors import ArgumentTypeError, DeviceNotFoundError, InvalidArgumentError
from forebay.core.process import finished_before_exit, note_drivers
from forebay.queues.cuda.driver import Cuda
from forebay.queues.levelzero.driver import LevelZero
from forebay.queues.memory.shapes import shortened
from forebay.queues.opencl.driver import OpenCL
from forebay.queues.sycl.driver import Sycl

__all__ = ["DRIVERS", "DeviceInfo", "adopt_device", "adopt_queue", "devices", "open_driver", "select"]

VARIABLE = "FOREBAY_DEVICE"
# Synonyms from other packages.
OTHER_WORDS = {
    "cuda": "nvidia ptx nv nvrtc",
    "opencl": "cl ocl pocl",
    "opencl:gpu": "hip rocm amd amdgpu hsa metal",
    "level_zero": "intel ze l0 levelzero level-zero oneapi xpu",
    "cpu": "host",
}
log: logging.Logger = logging.getLogger(__name__)
# The drivers by filter word, in order of preference: a GPU's own driver before OpenCL on the same GPU; SYCL last, as it
# drives the devices of the others.
DRIVERS: dict[str, DriverFolder] = {}
DRIVERS["level_zero"] = LevelZero()
DRIVERS["cuda"] = Cuda()
DRIVERS["opencl"] = OpenCL()
DRIVERS["sycl"] = Sycl(DRIVERS)


def devices() -> list[DeviceInfo]:
    """Return every device found. Unusable devices carry the reason and advice.

    They are in order of preference, the first usable one being the default: Level Zero, CUDA, OpenCL, SYCL;
    accelerators last. The first call discovers devices, and blocks until every driver has started and all but CUDA's
    have built a kernel.
    """
    note_drivers()
    with finished_before_exit("devices()"):
        found = [device for driver in DRIVERS.values() for device in driver.discover()]
    return sorted(found, key=lambda device: device.kind == "accelerator")  # stable: else in the drivers' order


def select(words: str | None = None) -> DeviceInfo:
    """Return the device that matches `words`: any of ``backend:kind:index`` in this order, as ``"opencl:cpu:0"``.

    An index counts the devices that the other words match, in the order of `devices`. Without one the first usable
    match is returned. None stands for the environment variable ``FOREBAY_DEVICE``, or, if that is not set, for the
    first usable device. With a backend, no other driver is started.

    Raises `InvalidArgumentError` for an unknown or misplaced word, and `DeviceNotFoundError`, which lists the devices
    and why they cannot be used.
    """
    if words is not None and not isinstance(words, str):
        raise ArgumentTypeError(
            f"a device is selected by a str such as 'opencl:cpu:0', not by {type(words).__name__}"
            + (f": '{words}' is the one at {words} in forebay.devices()" if type(words) is int else "")
        )
    asked = words
    origin = ""
    if asked is None:
        asked = os.environ.get(VARIABLE, "")
        origin = f" (from the environment variable {VARIABLE})" if asked else ""
    backend, kind, index = parse(asked, origin)

    matching = [d for d in (devices() if backend is None else DRIVERS[backend].discover()) if kind in (None, d.kind)]
    if index is not None:
        matching = matching[index : index + 1]
    for device in matching:
        if device.usable:
            return device
    if not asked.strip():
        problem = "there is no device that can be used"
    elif matching:
        problem = f"the device {asked!r}{origin} cannot be used"
    else:
        problem = f"no device matches {asked!r}{origin}"
    why = DRIVERS[backend].absence() if backend else ""
    there = devices()
    if why and there:
        problem = f"{problem}: {why}"
    usable = [device.name for device in there if device.usable]
    if usable:
        problem = f"{problem}; Device({usable[0]!r}) can be used"
    lines = [inventory(there)]
    if there and backend is None and kind and not any(device.kind == kind for device in there):
        lacking = [driver.absence() for driver in DRIVERS.values()]
        lines += ["what other devices need:", *(f"  {absence}" for absence in lacking if absence)]
    raise DeviceNotFoundError("\n".join([f"{problem}; {lines[0]}", *lines[1:]]))


def open_driver(info: DeviceInfo) -> DriverDevice:
    """Open a usable device of `select`. Raises the errors of its driver."""
    log.info("opening %s: %s, %s", info.name, info.description, info.platform)
    return DRIVERS[info.backend].open_device(info)


def adopt_queue(thing: object, opened: Sequence[DriverDevice]) -> AdoptedQueue:
    """Call `DriverFolder.adopt_queue` of the driver that knows `thing`. Raises `ArgumentTypeError` when none does."""
    for adopted in (driver.adopt_queue(thing, opened) for driver in DRIVERS.values()):
        if adopted is not None:
            return adopted
    raise _unknown("adopt_queue", (driver.adopts_queues for driver in DRIVERS.values()), thing)


def adopt_device(thing: object, opened: Sequence[DriverDevice]) -> DriverDevice | DeviceInfo:
    """Call `DriverFolder.adopt_device` of the driver that knows `thing`. Raises `ArgumentTypeError` when none does."""
    for adopted in (driver.adopt_device(thing, opened) for driver in DRIVERS.values()):
        if adopted is not None:
            return adopted
    raise _unknown("adopt", (driver.adopts_devices for driver in DRIVERS.values()), thing)


def _unknown(call: str, taken: Iterable[str], thing: object) -> ArgumentTypeError:
    return ArgumentTypeError(f"{call} needs {' or '.join(filter(None, taken))}, not {type(thing).__name__}")


def parse(words: str, origin: str = "") -> tuple[str | None, str | None, int | None]:
    """Split filter words into backend, kind and index; None for each that is not given."""
    backend = kind = index = None
    for word in filter(None, (part.strip().lower() for part in words.split(":"))):
        if word in DRIVERS and (backend, kind, index) == (None, None, None):
            backend = word
        elif word in KINDS and (kind, index) == (None, None):
            kind = word
        elif word.isdecimal() and index is None:
            index = int(word)
        else:
            known = word in DRIVERS or word in KINDS or word.isdecimal()
            wrong = f"{word!r} is out of place" if known else f"{shortened(word)} is not known"
            meant = [ours for ours, theirs in OTHER_WORDS.items() if word in theirs.split()]
            wrong += f": write {meant[0]!r}" if meant else ""
            raise InvalidArgumentError(
                f"device {words!r}{origin}: {wrong}; a device is selected by backend:kind:index or any part of it in "
                f"this order, where backend is one of {', '.join(DRIVERS)} and kind one of {', '.join(KINDS)}"
            )
    return backend, kind, index


def inventory(there: Sequence[DeviceInfo]) -> str:
    """List the devices, and why unusable ones cannot be used, for the end of an error message."""
    if not there:
        first = sorted(DRIVERS.values(), key=lambda driver: not driver.runs_anywhere)
        return "\n  ".join(["what is missing:", *(driver.absence() for driver in first)])
    lines = ["what there is:"]
    for device in there:
        lines.append(f"  {device.name}  {device.platform} · {device.description}")
        if not device.usable:
            lines += [f"    not usable: {device.reason}", f"    what to do: {device.advice}"]
    return "\n".join(lines)
