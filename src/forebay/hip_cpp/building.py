"""From OpenCL C, which may have variables, or SPIR-V to a program; and the device that `forebay.hiprtc` builds for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from forebay.hip_cpp.errors import Place, RefusedError
from forebay.hip_cpp.program import Variable
from forebay.queues.device import Device
from forebay.queues.kernels.program import Program

__all__ = ["build", "compile_for", "current_device", "options_for"]

_choose: Callable[[], Device] | None = None
_default: list[Device] = []
_lock = threading.Lock()


def compile_for(choose: Callable[[], Device]) -> None:
    """Compile for the device that `choose` returns in the thread that compiles. `forebay.hip` calls this."""
    global _choose
    _choose = choose


def current_device() -> Device:
    """Return the device that `forebay.hip` uses in this thread, or the default one if it is not imported."""
    if _choose is not None:
        return _choose()
    with _lock:
        if not _default or _default[0].closed:
            _default[:] = [Device()]
        return _default[0]


def build(
    device: Device, text: str | bytes, options: Sequence[str] = (), variables: Sequence[Variable] = ()
) -> Program:
    """Build a program; with variables in a version of OpenCL C that has them, unless the options choose one.

    Raises
    ------
    RefusedError
        When the device has no variables and the program needs them.
    BuildError
        With the compiler's log.

    Blocks while it compiles.
    """
    return device.program(text, options_for(device, text, options, variables))


def options_for(
    device: Device, text: str | bytes, options: Sequence[str], variables: Sequence[Variable]
) -> tuple[str, ...]:
    """Return the options with which the device has variables; raises as `build` does."""
    if variables and isinstance(text, str):
        more = device.driver.variable_options
        if more is None:
            for variable in variables:
                if variable.required:
                    raise RefusedError(
                        f"the variable {variable.name} at file scope: {device.name} has no program-scope variables in "
                        "global memory (__opencl_c_program_scope_global_variables); give the kernel a pointer instead",
                        Place(variable.file, variable.line),
                    )
        elif not any(option.startswith("-cl-std=") for option in options):
            options = (*options, *more)
    return tuple(options)
