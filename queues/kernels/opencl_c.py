"""Compiles programs by pyopencl, and gets the parameters of their kernels from the compiler."""

from __future__ import annotations

import contextlib
from typing import Any

import pyopencl as cl

from forebay.compiler.spirv.declarations import Declared
from forebay.core import errors
from forebay.core.driver import DeviceInfo
from forebay.queues.kernels.build import readable

# Without this option a driver may drop the names and types of parameters.
REPORT_PARAMETERS = "-cl-kernel-arg-info"


class Compiler:
    """The compiler of a device, in a context of that device only. `info.native` is a `pyopencl.Device`."""

    def __init__(self, context: cl.Context, info: DeviceInfo, options: tuple[str, ...]) -> None:
        self._context = context
        self._info = info
        self._native: cl.Device = info.native
        self._options = options

    def compile(self, source: str | bytes) -> tuple[cl.Program, bool]:
        """Return the program, and whether the driver reports its kernels' parameters.

        NVIDIA's compiler (driver 580) refuses a kernel without parameters if asked to report them.
        """
        with contextlib.suppress(cl.Error):
            return self.build_program(self._program(source), REPORT_PARAMETERS), True
        program = None
        try:
            program = self._program(source)
            return self.build_program(program), False
        except cl.Error as error:
            log = (self.log_of(program) if program else "").strip("\0 \n") or str(error)
            log = readable(log, source) or log
            raise errors.BuildError(f"the program does not build on {self._info.name}\n{log}", log=log) from None

    def _program(self, source: str | bytes) -> cl.Program:
        if isinstance(source, bytes):
            return cl.Program(self._context, source)
        # pyopencl's inner class, because the outer one saves source that does not build on disk.
        return cl.Program(cl._cl._Program(self._context, source))

    def build_program(self, program: cl.Program, *options: str) -> cl.Program:
        """Build and return it. Raises `pyopencl.Error`."""
        # Not by its `build`, which warns of all compiler output; only process-wide filters could suppress that.
        inner: Any = program
        words, _ = inner._process_build_options(self._context, [*options, *self._options])
        inner._get_prg()._build(words, [self._native])
        return program

    def log_of(self, program: cl.Program) -> str:
        """Return the build log."""
        built: Any = program  # pyopencl's method has no types
        try:
            return str(built.get_build_info(self._native, cl.program_build_info.LOG))
        except cl.Error:
            return ""

    def declared_elsewhere(self, program: cl.Program, source: str) -> dict[str, list[Declared]]:
        """Return the parameters of a program that builds only without REPORT_PARAMETERS, as some kernels have none.

        For each such kernel a macro of its name adds a parameter. The same source then builds.
        """
        kernels = {name: cl.Kernel(program, name) for name in names_in(program)}
        without = [name for name, kernel in kernels.items() if kernel.num_args == 0]
        if len(without) == len(kernels):
            return {name: [] for name in kernels}
        macros = "".join(f"#define {name}(_) {name}(int forebay_unused)\n" for name in without)
        try:
            reporting = self.build_program(self._program(macros + source), REPORT_PARAMETERS)
        except cl.Error:
            raise errors.NotSupportedError(
                f"the driver of {self._info.name} does not report the parameters of this program's kernels"
                + (f", some of which have none: give {', '.join(map(repr, without))} one" if without else "")
            ) from None
        return {name: [] if name in without else declared_by(cl.Kernel(reporting, name), name) for name in kernels}


def declared_by(kernel: cl.Kernel, kernel_name: str) -> list[Declared]:
    """Return the parameters as the driver reports them. Raises `NotSupportedError` if it does not."""
    info, spaces = cl.kernel_arg_info, cl.kernel_arg_address_qualifier
    asked = info.NAME, info.TYPE_NAME, info.ADDRESS_QUALIFIER, info.TYPE_QUALIFIER
    ask: Any = kernel.get_arg_info  # its results have several types
    declared = []
    for index in range(kernel.num_args):
        try:
            name, type_name, address, qualifiers = (ask(index, each) for each in asked)
        except cl.RuntimeError as error:
            raise errors.NotSupportedError(
                f"kernel {kernel_name!r}: the driver does not report the types of its parameters ({error})"
            ) from None
        if address in (spaces.GLOBAL, spaces.CONSTANT):
            read_only = address == spaces.CONSTANT or bool(qualifiers & cl.kernel_arg_type_qualifier.CONST)
            declared.append(Declared(name, type_name, "pointer", 8, read_only))
        else:
            declared.append(Declared(name, type_name, "local" if address == spaces.LOCAL else "value", 0))
    return declared


def names_in(program: cl.Program) -> list[str]:
    """Return the names of a program's kernels."""
    try:
        # NVIDIA's driver crashes if asked for the names of no kernels
        return [name for name in program.kernel_names.split(";") if name] if program.num_kernels else []
    except cl.Error:  # Intel's CPU runtime fails for a program without kernels
        return []
