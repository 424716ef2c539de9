"""Makes a module of the driver from OpenCL C or SPIR-V, with a disk cache of the compilers' output."""

from __future__ import annotations

from forebay.core import errors
from forebay.core.driver import DeviceInfo
from forebay.queues.kernels.build_process import BuildProcessError, build_apart
from forebay.queues.kernels.cache import BinaryCache, key_of, reads_files
from forebay.queues.levelzero import ocloc
from forebay.queues.levelzero.objects import DeviceHandle, ZeProgram
from forebay.spirv import declarations

# The options that affect the translation of SPIR-V to machine code. The driver refuses others.
FOR_MODULES = ("-ze-", "-cl-fast-relaxed-math", "-cl-finite-math-only", "-cl-mad-enable", "-cl-no-signed-zeros",
               "-cl-opt-disable", "-cl-unsafe-math-optimizations", "-cl-intel-", "-igc_opts")  # fmt: skip

# Without it the compiler drops variables that no kernel uses, and keeps no reliable record of the other names:
# zeModuleGetGlobalPointer then returns ZE_RESULT_ERROR_UNSUPPORTED_FEATURE for an unknown name.
TAKES_ADDRESSES = "-ze-take-global-address"

WORKER = "forebay.queues.levelzero.build_worker"


def compiled(
    handle: DeviceHandle, info: DeviceInfo, source: str | bytes, options: tuple[str, ...]
) -> tuple[ZeProgram, bytes, dict[str, list[declarations.Declared]], set[str]]:
    """The module, its SPIR-V, the parameters of its kernels by name, and the names of its variables.

    Raises
    ------
    BuildError
        If the program does not build, or ended the compiler's process; with the compiler's log.
    InvalidArgumentError
        If bytes are not a whole SPIR-V module.
    NotSupportedError
        If the source is OpenCL C and the offline compiler is not installed.

    Blocks while it compiles. A program that any process has compiled before comes from the cache.
    """
    cache = BinaryCache()
    if isinstance(source, str):
        code = _spirv(cache, info, source, options)
        try:
            kernels = declarations.kernels_of(code)
        except ValueError:
            kernels = {}  # it has no kernels; the driver accepts that
    else:
        code = source
        try:
            kernels = declarations.kernels_of(code)
        except ValueError as error:
            raise errors.InvalidArgumentError(f"program: these bytes are not SPIR-V ({error})") from None
    variables = declarations.variables_of(code)
    return _module(cache, handle, info, code, options, bool(variables)), code, kernels, variables


def _device_key(info: DeviceInfo) -> str:
    return f"{info.native.vendor_id:x}:{info.native.device_id:x}:{info.native.ip_version:x}"


def _spirv(cache: BinaryCache, info: DeviceInfo, source: str, options: tuple[str, ...]) -> bytes:
    """SPIR-V of a program in OpenCL C. If it includes files it is compiled each time, because those may change."""
    if reads_files(source):
        return ocloc.compile_source(source, info, options)
    key = key_of("SPIR-V", ocloc.compiler_version(), _device_key(info), source, *options)
    code = cache.get(key)
    if code is None:
        code = ocloc.compile_source(source, info, options)
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
            # In another process, because this compiler can end the one that it works in.
            native = build_apart(WORKER, info, code, chosen)
            cache.put(key, native)
        except BuildProcessError:
            pass
    if native is not None:
        try:
            return ZeProgram(handle, native, True)
        except errors.BuildError:
            pass  # this driver refuses the binary although its version matches: compile here
    module = translated(handle, info, code, chosen)
    cache.put(key, module.native_binary())
    return module


def translated(handle: DeviceHandle, info: DeviceInfo, code: bytes, options: tuple[str, ...]) -> ZeProgram:
    """The module that the driver's compiler makes of SPIR-V in this process.

    Raises
    ------
    BuildError
        If the program does not build; with the compiler's log.

    Blocks while it compiles.
    """
    try:
        return ZeProgram(handle, code, False, " ".join(options))
    except errors.BuildError as error:
        raise errors.BuildError(f"the program does not build on {info.name}\n{error.log}", log=error.log) from None
