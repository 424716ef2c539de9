"""Builds modules from OpenCL C or SPIR-V, with a disk cache of the compilers' output."""

from __future__ import annotations

import ctypes
import functools
import re
import threading
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_uint8, c_uint32, c_uint64
from typing import Any, NamedTuple

from forebay.compiler.cache import BinaryCache, key_of, reads_files
from forebay.compiler.spirv import declarations
from forebay.core.driver import DeviceInfo
from forebay.core.errors import BuildError, InvalidArgumentError, NotSupportedError
from forebay.queues.kernels.build import BuildProcessError, build_apart
from forebay.queues.kernels.parameters import kernels_in
from forebay.queues.levelzero.operations import DeviceHandle, ZeProgram

LIBRARY = "libocloc.so"
GET_OCLOC = (
    "install it: apt install intel-ocloc (Debian, Ubuntu), or pass SPIR-V bytes, for example from clang -c -target "
    "spirv64 -x cl -cl-std=CL2.0 -O2 program.cl"
)
INVALID_DEVICE = -33

# ocloc's own log lines, about its command line.
ITS_OWN = re.compile(r"(?m)^(Command was: |Auto-detected target based on ).*\n?")
# Each line begins with the number of compilations so far, which looks like a line number of the source.
COUNTER = re.compile(r"(?m)^\d+:(?=\d+:\d+: )")


class Outcome(NamedTuple):
    """The result of one ocloc call."""

    result: int
    log: str
    outputs: dict[str, bytes]


_lock = threading.Lock()  # ocloc does not promise that simultaneous calls work


def compile_source(source: str, info: DeviceInfo, options: Sequence[str] = ()) -> bytes:
    """Compile OpenCL C for a device to SPIR-V, with names and types of parameters as in the source.

    Blocks without the GIL; calls from several threads take turns. Warnings are dropped. Raises `BuildError` with the
    log, and `NotSupportedError`, saying what to install, if the compiler is missing or does not know the device.
    """
    native = info.native
    # An older compiler may still know one of the two.
    targets = [str(native.ip_version)] if native.ip_version else []
    targets.append(f"{native.device_id:#06x}")
    command = ["compile", "-q", "-spv_only", "-file", "program.cl"]
    if options:
        command += ["-options", " ".join(options)]
    for target in targets:
        outcome = _invoke([*command, "-device", target], source.encode())
        if outcome.result != INVALID_DEVICE:
            break
    else:
        raise NotSupportedError(
            f"the installed OpenCL C compiler, {LIBRARY} {compiler_version()}, does not know {info.name} "
            f"({info.description}): install the intel-ocloc that belongs to the driver, or pass SPIR-V bytes"
        )
    module = next((data for name, data in outcome.outputs.items() if name.endswith(".spv")), None)
    if outcome.result or module is None:
        log = outcome.log or f"the compiler gave no reason (ocloc returned {outcome.result})"
        raise BuildError(f"the program does not build on {info.name}\n{log}", log=log)
    return module


def compiler_version() -> str:
    """Return the compiler's version, equal to its driver's, or "". Raises `NotSupportedError` if it is missing."""
    outputs = _invoke(["query", "OCL_DRIVER_VERSION"]).outputs
    return outputs.get("OCL_DRIVER_VERSION", b"").strip(b"\0\n ").decode(errors="replace")


@functools.cache
def _load() -> ctypes.CDLL:
    """Load the library once. After a failure the next call tries again."""
    try:
        return ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise NotSupportedError(
            f"OpenCL C needs Intel's offline compiler, which cannot be loaded ({error}): {GET_OCLOC}"
        ) from None


def _invoke(command: Sequence[str], source: bytes = b"") -> Outcome:
    """Run an ocloc command on a source file in memory."""
    words = [b"ocloc", *(word.encode() for word in command)]
    arguments = (c_char_p * len(words))(*words)
    text, nbytes, name = c_char_p(source), c_uint64(len(source) + 1), c_char_p(b"program.cl")
    count = c_uint32()
    data, sizes, names = POINTER(POINTER(c_uint8))(), POINTER(c_uint64)(), POINTER(c_char_p)()
    results = byref(count), byref(data), byref(sizes), byref(names)
    with _lock:
        library: Any = _load()
        library.oclocInvoke.restype = c_int
        no_headers = 0, None, None, None
        result = library.oclocInvoke(
            len(words), arguments, 1, byref(text), byref(nbytes), byref(name), *no_headers, *results
        )
        outputs = {}
        for index in range(count.value):
            outputs[(names[index] or b"").decode(errors="replace")] = ctypes.string_at(data[index], sizes[index])
        library.oclocFreeOutput(*results)
    log = outputs.pop("stdout.log", b"").decode(errors="replace").replace("\0", "")
    return Outcome(result, COUNTER.sub("", ITS_OWN.sub("", log)).strip(), outputs)


# Options for the translation of SPIR-V to machine code. The driver refuses others.
FOR_MODULES = ("-ze-", "-cl-fast-relaxed-math", "-cl-finite-math-only", "-cl-mad-enable", "-cl-no-signed-zeros",
               "-cl-opt-disable", "-cl-unsafe-math-optimizations", "-cl-intel-", "-igc_opts")  # fmt: skip

# Without it the compiler drops unused variables and keeps no reliable record of names: zeModuleGetGlobalPointer then
# returns ZE_RESULT_ERROR_UNSUPPORTED_FEATURE for an unknown name.
TAKES_ADDRESSES = "-ze-take-global-address"

WORKER = "forebay.queues.levelzero.driver"


def compiled(
    handle: DeviceHandle, info: DeviceInfo, source: str | bytes, options: tuple[str, ...]
) -> tuple[ZeProgram, bytes, dict[str, list[declarations.Declared]], set[str]]:
    """Return the module, its SPIR-V, its kernels' parameters and its variables' names; the cache serves all processes.
    Blocks while it compiles. Raises as `LevelZeroDevice.build`.
    """
    cache = BinaryCache()
    code = _spirv(cache, info, source, options) if isinstance(source, str) else source
    try:
        kernels = kernels_in(code)
    except InvalidArgumentError:
        if code is source:
            raise
        kernels = {}  # no kernels, which the driver accepts
    variables = declarations.variables_of(code)
    return _module(cache, handle, info, code, options, bool(variables)), code, kernels, variables


def _device_key(info: DeviceInfo) -> str:
    return f"{info.native.vendor_id:x}:{info.native.device_id:x}:{info.native.ip_version:x}"


def _spirv(cache: BinaryCache, info: DeviceInfo, source: str, options: tuple[str, ...]) -> bytes:
    """SPIR-V of OpenCL C. A source with includes is always compiled, because those may change."""
    if reads_files(source):
        return compile_source(source, info, options)
    key = key_of("SPIR-V", compiler_version(), _device_key(info), source, *options)
    code = cache.get(key)
    if code is None:
        code = compile_source(source, info, options)
        cache.put(key, code)
    return code


def _module(
    cache: BinaryCache, handle: DeviceHandle, info: DeviceInfo, code: bytes, options: tuple[str, ...], variables: bool
) -> ZeProgram:
    chosen = (
        *([TAKES_ADDRESSES] if variables else []), *(option for option in options if option.startswith(FOR_MODULES))
    )  # fmt: skip
    key = key_of("native", info.driver_version, _device_key(info), code, " ".join(chosen))
    native = cache.get(key)
    if native is None:
        try:
            # In another process, because this compiler can end its process.
            native = build_apart(WORKER, info, code, chosen)
            cache.put(key, native)
        except BuildProcessError:
            pass
    if native is not None:
        try:
            return ZeProgram(handle, native, True)
        except BuildError:
            pass  # the driver refuses the binary of its own version: compile here
    module = translated(handle, info, code, chosen)
    cache.put(key, module.native_binary())
    return module


def translated(handle: DeviceHandle, info: DeviceInfo, code: bytes, options: tuple[str, ...]) -> ZeProgram:
    """Compile SPIR-V in this process. Raises `BuildError` with the compiler's log. Blocks while it compiles."""
    try:
        return ZeProgram(handle, code, False, " ".join(options))
    except BuildError as error:
        raise BuildError(f"the program does not build on {info.name}\n{error.log}", log=error.log) from None
