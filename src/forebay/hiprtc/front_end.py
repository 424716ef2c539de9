"""Which compiler a program in HIP C++ goes to, and what comes out of it for a device.

Where the driver has a compiler of C++, it is that (NVRTC); where the device takes SPIR-V, it is clang.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from forebay.compiler.by_clang import compile_to_bitcode, compile_to_spirv
from forebay.compiler.by_driver import compile_by_driver
from forebay.compiler.clang import find_clang
from forebay.compiler.included import check_text
from forebay.compiler.options import split_options
from forebay.compiler.program import KernelInfo, Source, VariableSignature
from forebay.core.driver import Language
from forebay.core.errors import BuildError, InvalidArgumentError, NotInstalledError, NotSupportedError, how_to_install
from forebay.queues.device import Device
from forebay.queues.kernels.program import Compiled, language_of
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


def prepare(device: Device, source: Source) -> Prepared:
    """Compile HIP C++ for a device. Blocks while it compiles.

    Raises BuildError with the messages as ``log``, and `NotNamedError` for a name expression that names nothing;
    NotInstalledError when the compiler for this device is missing, and NotSupportedError when there is none for it;
    InvalidArgumentError for text with a lone surrogate.
    """
    for text in (source.text, source.name, *source.headers, *source.headers.values(), *source.expressions):
        check_text(source.name if text is source.text else "a name or a header", text, "surrogateescape")
    source = source._replace(text=source.text.removeprefix("\ufeff"))  # a byte order mark, which only begins a file
    driver = device.driver
    compiler = driver.cpp_compiler()
    options: tuple[str, ...] = ()
    if compiler is not None:
        made = compile_by_driver(compiler, source)
    elif Language.SPIRV in driver.languages:
        clang, why = find_clang()
        if clang is None:
            raise NotInstalledError(f"HIP C++: {why}")
        made = compile_to_spirv(clang, source, driver.expect_spirv, driver.unrolls_recursion)
        options = source.options.opencl
    else:
        others = devices_beside(device.name)
        raise NotSupportedError(
            f"HIP C++: {device.name} takes no SPIR-V, which clang makes of it, and its driver has no compiler of C++; "
            + (f"{others}; or " if others else "")
            + f"use a driver that takes SPIR-V ({how_to_install('cpu,hip')} for CPUs), or CUDA's for an NVIDIA GPU "
            f"({how_to_install('cuda')})"
        )
    return Prepared(made.code, options, made.kernels, made.variables, made.lowered, made.log)


def prepare_for_linking(device: Device, source: Source) -> tuple[bytes, str]:
    """Compile HIP C++ to LLVM's bitcode; return it and the warnings. Blocks while it compiles.

    Raises BuildError with the messages as ``log``; also where the device takes no SPIR-V.
    """
    clang, why = find_clang()
    if clang is None or Language.SPIRV not in device.driver.languages:
        message = f"-fgpu-rdc: only clang links, for devices that take SPIR-V: {why or device.name}"
        raise BuildError(message, log=message)
    return compile_to_bitcode(clang, source)


def compile_for_device(device: Device, source: str, words: tuple[str, ...]) -> Compiled:
    """Compile HIP C++ for `Device.program`, with which it is registered; the options are those of clang.

    Blocks while it compiles. Raises BuildError with the compiler's log, and InvalidArgumentError for an unknown option.
    """
    try:
        options = split_options(words)
    except ValueError as error:
        raise InvalidArgumentError(f"program: {error}") from None
    made = prepare(device, Source(source, options=options))
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


# -- the device that `forebay.hiprtc` compiles for


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
