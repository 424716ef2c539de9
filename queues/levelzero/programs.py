"""From OpenCL C or SPIR-V to a module of the driver, through a disk cache of what the compilers made."""

from __future__ import annotations

from forebay.core import errors
from forebay.core.driver import DeviceInfo
from forebay.queues.kernels import spirv
from forebay.queues.kernels.cache import BinaryCache, key_of, reads_files
from forebay.queues.levelzero import ocloc
from forebay.queues.levelzero.objects import DeviceHandle, ZeProgram

# Of the options, those that concern the translation of SPIR-V to machine code; the driver refuses others.
FOR_MODULES = ("-ze-", "-cl-fast-relaxed-math", "-cl-finite-math-only", "-cl-mad-enable", "-cl-no-signed-zeros",
               "-cl-opt-disable", "-cl-unsafe-math-optimizations", "-cl-intel-", "-igc_opts")  # fmt: skip

# Without it the compiler drops variables that no kernel uses and keeps no record of the others' names that could be
# relied on: zeModuleGetGlobalPointer then says ZE_RESULT_ERROR_UNSUPPORTED_FEATURE of a name that it does not know.
TAKES_ADDRESSES = "-ze-take-global-address"


def compiled(
    handle: DeviceHandle, info: DeviceInfo, source: str | bytes, options: tuple[str, ...]
) -> tuple[ZeProgram, dict[str, list[spirv.Declared]], set[str]]:
    """The module, the parameters of its kernels by name, and the names of its variables.

    Raises
    ------
    BuildError
        With the compiler's log.
    InvalidArgumentError
        When bytes are not a whole SPIR-V module: the driver's compiler would end the process.
    NotSupportedError
        For OpenCL C when the offline compiler is not installed.

    Blocks while it compiles; a program that was compiled before, by any process, is taken from the cache.
    """
    cache = BinaryCache()
    if isinstance(source, str):
        code = _spirv(cache, info, source, options)
        try:
            kernels = spirv.kernels_of(code)
        except ValueError:
            kernels = {}  # no kernel in it, which the driver does not mind
    else:
        code = source
        try:
            kernels = spirv.kernels_of(code)
        except ValueError as error:
            raise errors.InvalidArgumentError(
                f"program: these bytes are not SPIR-V ({error}); pass OpenCL C as str"
            ) from None
    variables = spirv.variables_of(code)
    return _module(cache, handle, info, code, options, bool(variables)), kernels, variables


def _device_key(info: DeviceInfo) -> str:
    return f"{info.native.vendor_id:x}:{info.native.device_id:x}:{info.native.ip_version:x}"


def _spirv(cache: BinaryCache, info: DeviceInfo, source: str, options: tuple[str, ...]) -> bytes:
    """SPIR-V of a program in OpenCL C. One that includes files is compiled each time, because those may change."""
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
    chosen = " ".join(
        [*([TAKES_ADDRESSES] if variables else []), *(option for option in options if option.startswith(FOR_MODULES))]
    )
    key = key_of("native", info.driver_version, _device_key(info), code, chosen)
    native = cache.get(key)
    if native is not None:
        try:
            return ZeProgram(handle, native, True)
        except errors.BuildError:
            pass  # not what this driver takes, whatever its version says: make it anew
    try:
        module = ZeProgram(handle, code, False, chosen)
    except errors.BuildError as error:
        raise errors.BuildError(f"the program does not build on {info.name}\n{error.log}", log=error.log) from None
    cache.put(key, module.native_binary())
    return module
