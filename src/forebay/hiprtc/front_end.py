"""Which compiler a program in HIP C++ goes to, and what comes out of it for a device.

Where the device takes SPIR-V and a clang was found, that is clang. Elsewhere it is the translator to OpenCL C.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from forebay.core.driver import Language
from forebay.core.errors import BuildError, InvalidArgumentError
from forebay.hip_cpp import KernelInfo, NotInstalledError, RefusedError, Variable, translate
from forebay.hip_cpp.building import options_for
from forebay.hiprtc.clang import find_clang
from forebay.hiprtc.compiler import NotNamedError, compile_bitcode, compile_hip
from forebay.hiprtc.options import Options, split_options
from forebay.queues.device import Device
from forebay.queues.kernels.program import Compiled

__all__ = ["Prepared", "compile_for_device", "prepare", "prepare_for_linking"]


@dataclass(frozen=True)
class Prepared:
    """A program as a device takes it.

    Attributes
    ----------
    text : str or bytes
        OpenCL C, or SPIR-V.
    options : tuple of str
        For `forebay.Device.program`.
    kernels : tuple of KernelInfo
    variables : tuple of Variable
    lowered : dict
        The name by which a module finds what a name expression means.
    log : str
        Warnings.
    """

    text: str | bytes
    options: tuple[str, ...]
    kernels: tuple[KernelInfo, ...]
    variables: tuple[Variable, ...]
    lowered: dict[str, str] = field(default_factory=dict)
    log: str = ""


def prepare(
    device: Device,
    source: str,
    name: str,
    headers: Mapping[str, str],
    options: Options,
    expressions: Sequence[str] = (),
) -> Prepared:
    """Compile or translate HIP C++ for a device; the parameters are those of `compile_hip`.

    Raises
    ------
    BuildError
        With the messages as ``log``; `NotNamedError` for a name expression that names nothing.
    NotInstalledError
        When there is neither a clang nor pcpp: ``pip install 'forebay[hip]'``.

    Blocks while it compiles.
    """
    source = source.removeprefix("\ufeff")  # a byte order mark, which only begins a file
    why = f"{device.name} takes no SPIR-V"
    if Language.SPIRV in device.driver.languages:
        clang, why = find_clang()
        if clang is not None:
            expect = device.driver.expect_spirv
            copies = device.driver.unrolls_recursion
            made = compile_hip(clang, source, name, headers, options, expressions, expect, copies)
            return Prepared(made.spirv, options.opencl, made.kernels, made.variables, made.lowered, made.log)
    try:
        return translated(source, name, headers, options, expressions)
    except NotInstalledError as error:
        raise NotInstalledError(f"HIP C++: {why}; {error}") from None
    except RefusedError as error:
        note = f"note: this is the translator to OpenCL C, which knows a part of HIP C++ only, because {why}"
        log = f"{error.log}\n{note}"
        kind = NotNamedError if error.place.file == "name expression" else BuildError
        raise kind(log, log=log) from None


def prepare_for_linking(
    device: Device, source: str, name: str, headers: Mapping[str, str], options: Options
) -> tuple[bytes, str]:
    """Compile HIP C++ to LLVM's bitcode; return it and the warnings.

    Raises
    ------
    BuildError
        With the messages as ``log``; also where the device takes no SPIR-V.

    Blocks while it compiles.
    """
    clang, why = find_clang()
    if clang is None or Language.SPIRV not in device.driver.languages:
        message = f"-fgpu-rdc: only clang links, for devices that take SPIR-V: {why or device.name}"
        raise BuildError(message, log=message)
    return compile_bitcode(clang, source, name, headers, options)


def compile_for_device(device: Device, source: str, words: tuple[str, ...]) -> Compiled:
    """Compile HIP C++ for `Device.program`, with which it is registered; the options are those of clang.

    Raises
    ------
    BuildError
        With the compiler's log.
    InvalidArgumentError
        For an unknown option.

    Blocks while it compiles.
    """
    try:
        options = split_options(words)
    except ValueError as error:
        raise InvalidArgumentError(f"program: {error}") from None
    made = prepare(device, source, "program.hip", {}, options)
    symbols = {kernel.mangled: kernel.symbol for kernel in made.kernels if kernel.mangled}
    symbols |= {variable.name: variable.symbol for variable in made.variables}
    symbols |= {kernel.name: kernel.symbol for kernel in made.kernels}
    language = Language.OPENCL_C if isinstance(made.text, str) else Language.SPIRV
    return Compiled(language, made.text, options_for(device, made.text, made.options, made.variables), symbols)


def translated(
    source: str, name: str, headers: Mapping[str, str], options: Options, expressions: Sequence[str]
) -> Prepared:
    """Translate HIP C++ to OpenCL C; the lowered names are those of the translation."""
    made = translate(source, name, options.macros, headers, expressions)
    symbols = {kernel.name: kernel.symbol for kernel in made.kernels}
    symbols |= {variable.name: variable.symbol for variable in made.variables}
    plain = {expression: expression.strip().lstrip("&") for expression in expressions}
    lowered = {
        expression: symbols[name] if name in symbols else symbols[expression] for expression, name in plain.items()
    }
    text = options.prelude + made.text
    return Prepared(text, options.opencl, made.kernels, made.variables, lowered, "\n".join(made.warnings))
