"""Lists the devices of all drivers, and selects one by dpctl's filter words."""

from __future__ import annotations

import os
from collections.abc import Sequence

from forebay.core.driver import KINDS, DeviceInfo, DriverDevice, DriverFolder
from forebay.core.errors import ArgumentTypeError, DeviceNotFoundError, InvalidArgumentError
from forebay.queues import levelzero, opencl, sycl

__all__ = ["DRIVERS", "DeviceInfo", "devices", "open_device", "select"]

VARIABLE = "FOREBAY_DEVICE"
# The drivers by the word that selects them, in the order of preference: a GPU's own driver before OpenCL's for the same
# GPU; SYCL, which drives the devices of the others, last. A new driver is one folder and one line here.
DRIVERS: dict[str, DriverFolder] = {
    "level_zero": levelzero,
    "opencl": opencl,
    "sycl": sycl,
}


def devices() -> list[DeviceInfo]:
    """Return every device that was found, the unusable ones with the reason and what to do.

    They come in the order of preference: the first usable one is the default device. Those of Level Zero come before
    those of OpenCL, those of SYCL after them, and accelerators last. The first call looks at the machine, and blocks
    until every driver has started and built a kernel.
    """
    found = [device for driver in DRIVERS.values() for device in driver.discover()]
    return sorted(found, key=lambda device: device.kind == "accelerator")  # stable: else the drivers' own order


def select(words: str | None = None) -> DeviceInfo:
    """Return the device that `words` name.

    Parameters
    ----------
    words
        dpctl's filter: any of ``backend:kind:index`` in this order, for example ``"cpu"``, ``"opencl"``, ``"gpu:1"``,
        ``"opencl:cpu:0"``, ``"0"``. An index counts the devices that the other words match, in the order of
        `devices`; without one it is the first usable device that matches. None means what the environment variable
        ``FOREBAY_DEVICE`` says, and if that is not set, the first usable device. With a backend, no other driver is
        started.

    Raises
    ------
    DeviceNotFoundError
        If nothing matches, or only devices that cannot be used. The message lists what there is and why.
    InvalidArgumentError
        If a word is not known.
    """
    if words is not None and not isinstance(words, str):
        raise ArgumentTypeError(f"a device is selected by a str such as 'opencl:cpu:0', not by {type(words).__name__}")
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
    raise DeviceNotFoundError(f"{problem}; {inventory(there)}")


def open_device(words: str | None = None) -> DriverDevice:
    """Open the device that `select` returns for these words. Raises what `select` and the driver raise."""
    info = select(words)
    return DRIVERS[info.backend].open_device(info)


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
            wrong = f"{word!r} is out of place" if known else f"{word!r} is not known"
            raise InvalidArgumentError(
                f"device {words!r}{origin}: {wrong}; a device is selected by backend:kind:index or any part of it in "
                f"this order, where backend is one of {', '.join(DRIVERS)} and kind one of {', '.join(KINDS)}"
            )
    return backend, kind, index


def inventory(there: Sequence[DeviceInfo]) -> str:
    """Say which devices there are, and why those that cannot be used cannot, for the end of an error message."""
    if not there:
        return "\n".join(driver.absence() for driver in reversed(DRIVERS.values()))  # what anyone can install first
    lines = ["what there is:"]
    for device in there:
        lines.append(f"  {device.name}  {device.platform} · {device.description}")
        if not device.usable:
            lines += [f"    not usable: {device.reason}", f"    what to do: {device.advice}"]
    return "\n".join(lines)
