"""From OpenCL C to a program of a device, where the program may have variables."""

from __future__ import annotations

from collections.abc import Sequence

from forebay.hip_cpp.errors import Place, RefusedError
from forebay.hip_cpp.program import Variable
from forebay.queues.device import Device
from forebay.queues.kernels.program import Program

__all__ = ["build"]


def build(device: Device, text: str, options: Sequence[str] = (), variables: Sequence[Variable] = ()) -> Program:
    """Build a program; with variables in a version of OpenCL C that has them, unless the options choose one.

    Raises
    ------
    RefusedError
        When the device has no variables and the program needs them.
    BuildError
        With the compiler's log.

    Blocks while it compiles.
    """
    if variables:
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
    return device.program(text, options)
