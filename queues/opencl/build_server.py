"""The process in which Intel's CPU runtime builds SPIR-V; `build_process` starts it and asks."""

from __future__ import annotations

import dataclasses
import os
import select
import sys
from typing import Any

import pyopencl as cl

from forebay.core import errors
from forebay.core.driver import DeviceInfo
from forebay.queues.opencl.build_process import ACCEPTED, receive, send
from forebay.queues.opencl.discovery import intel_cpu_runtime, shown_to_loader
from forebay.queues.opencl.programs import Builder

__all__ = ["serve"]

IDLE = 60.0  # seconds without a program after which the process ends


def serve() -> None:
    """Build what is asked for on the standard input until that ends, or nothing comes for a while."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a driver prints is no answer
    contexts: dict[str, tuple[Any, DeviceInfo]] = {}
    requests = sys.stdin.buffer
    while select.select([requests], [], [], IDLE)[0]:
        try:
            info, source, options = receive(requests)
        except EOFError:
            return
        send(answers, ACCEPTED)
        send(answers, _built(contexts, info, source, options))


def _built(
    contexts: dict[str, tuple[Any, DeviceInfo]], info: DeviceInfo, source: bytes, options: tuple[str, ...]
) -> tuple[Any, ...]:
    try:
        if info.name not in contexts:
            contexts[info.name] = _opened(info)
        return ("built", Builder(*contexts[info.name], source, options).compiled_entry().dumps())
    except errors.BuildError as error:
        return ("BuildError", str(error), error.log)
    except errors.Error as error:
        return (type(error).__name__, str(error))
    except Exception as error:  # a driver's, which may not be known where it is unpickled
        return ("BuildError", f"{type(error).__name__}: {error}", str(error))


def _opened(info: DeviceInfo) -> tuple[Any, DeviceInfo]:
    """A context of the device that the other process means; it is not tried out again."""
    with shown_to_loader(intel_cpu_runtime()):
        platforms = cl.get_platforms()
    found = [
        device for platform in platforms if platform.name.strip() == info.platform for device in platform.get_devices()
    ]
    same = [
        device for device in found
        if (device.name.strip(), device.driver_version.strip()) == (info.description, info.driver_version)
    ]  # fmt: skip
    if not same:
        raise errors.DeviceNotFoundError(f"the process for building does not find {info.name}")
    return cl.Context([same[0]]), dataclasses.replace(info, native=same[0])
