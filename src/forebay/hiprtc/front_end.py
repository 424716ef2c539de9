"""Which compiler a program in HIP C++ goes to, and what comes out of it for a device.

Where the driver has a compiler of C++, it is that (NVRTC); where the device takes SPIR-V, it is clang.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from forebay.core.driver import Language
from forebay.core.errors import BuildError, InvalidArgumentError, NotInstalledError, NotSupportedError, how_to_install
from forebay.hiprtc.clang import find_clang
from forebay.hiprtc.compiler import compile_bitcode, compile_hip
from forebay.hiprtc.driver_compiler import compile_cpp
from forebay.hiprtc.options import Options, split_options
from forebay.queues.device import Device
from forebay.queues.kernels.parameters import KernelInfo, VariableSignature
from forebay.queues.kernels.program import Compiled, check_text, language_of
from forebay.queues.selection import VARIABLE, devices


@dataclass(frozen=True)
class Prepared:
    """A program as a device takes it."""

    text: str | bytes  # OpenCL C, or SPIR-V or a cubin
    options: tuple[str, ...]  # for `forebay.Device.program`
    kernels: tuple[KernelInfo, ...] = ()
    variables: tuple[VariableSignature, ...] = ()
    lowered: dict[str, str] = field(default_factory=dict)  # by which name a module finds what a name expression means
    log: str = ""  # warnings


def prepare(
    device: Device,
    source: str,
    name: str,
    headers: Mapping[str, str],
    options: Options,
    expressions: Sequence[str] = (),
) -> Prepared:
    """Compile HIP C++ for a device; the parameters are those of `compile_hip`. Blocks while it compiles.

    Raises BuildError with the messages as ``log``, and `NotNamedError` for a name expression that names nothing;
    NotInstalledError when the compiler for this device is missing, and NotSupportedError when there is none for it;
    InvalidArgumentError for text with a lone surrogate.
    """
    for text in (source, name, *headers, *headers.values(), *expressions):
        check_text(name if text is source else "a name or a header", text, "surrogateescape")
    source = source.removeprefix("\ufeff")  # a byte order mark, which only begins a file
    compiler = device.driver.cpp_compiler()
    if compiler is not None:
        made = compile_cpp(compiler, source, name, headers, options, expressions)
        return Prepared(made.code, (), made.kernels, made.variables, made.lowered, made.log)
    if Language.SPIRV not in device.driver.languages:
        others = devices_beside(device.name)
        raise NotSupportedError(
            f"HIP C++: {device.name} takes no SPIR-V, which clang makes of it, and its driver has no compiler of C++; "
            + (f"{others}; or " if others else "")
            + f"use a driver that takes SPIR-V ({how_to_install('cpu,hip')} for CPUs), or CUDA's for an NVIDIA GPU "
            f"({how_to_install('cuda')})"
        )
    clang, why = find_clang()
    if clang is None:
        raise NotInstalledError(f"HIP C++: {why}")
    driver = device.driver
    made = compile_hip(
        clang, source, name, headers, options, expressions, driver.expect_spirv, driver.unrolls_recursion
    )
    return Prepared(made.code, options.opencl, made.kernels, made.variables, made.lowered, made.log)


def prepare_for_linking(
    device: Device, source: str, name: str, headers: Mapping[str, str], options: Options
) -> tuple[bytes, str]:
    """Compile HIP C++ to LLVM's bitcode; return it and the warnings. Blocks while it compiles.

    Raises BuildError with the messages as ``log``; also where the device takes no SPIR-V.
    """
    clang, why = find_clang()
    if clang is None or Language.SPIRV not in device.driver.languages:
        message = f"-fgpu-rdc: only clang links, for devices that take SPIR-V: {why or device.name}"
        raise BuildError(message, log=message)
    return compile_bitcode(clang, source, name, headers, options)


def compile_for_device(device: Device, source: str, words: tuple[str, ...]) -> Compiled:
    """Compile HIP C++ for `Device.program`, with which it is registered; the options are those of clang.

    Blocks while it compiles. Raises BuildError with the compiler's log, and InvalidArgumentError for an unknown option.
    """
    try:
        options = split_options(words)
    except ValueError as error:
        raise InvalidArgumentError(f"program: {error}") from None
    made = prepare(device, source, "program.hip", {}, options)
    symbols = {kernel.mangled: kernel.symbol for kernel in made.kernels}
    symbols |= {variable.name: variable.symbol for variable in made.variables}
    symbols |= {kernel.name: kernel.symbol for kernel in made.kernels}
    return Compiled(language_of(made.text), made.text, made.options, symbols)


def devices_beside(name: str) -> str:
    """Say which other devices than this one there are, or why they cannot be used; empty where there is none."""
    return "; ".join(
        f"{each.name} ({each.platform}) can be used, see {VARIABLE}"
        if each.usable
        else f"{each.name} ({each.platform}) cannot be used: {each.reason}; {each.advice}"
        for each in devices()
        if each.name != name
    )
