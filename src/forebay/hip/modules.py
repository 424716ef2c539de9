"""Modules are programs, functions their kernels, and launches: these are compiled, in `forebay.hip.compiled.launch`."""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import itertools
import os
import struct
import threading
import weakref
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from forebay.c_string import CString
from forebay.compiler.clang import WARP
from forebay.compiler.included import MOST_OF_CODE, read_file
from forebay.core.driver import Language, Parameter
from forebay.core.errors import ArgumentTypeError, ClosedError, InvalidArgumentError, NotSupportedError
from forebay.core.process import Numbers
from forebay.hip import allocations, facts
from forebay.hip.allocations import Allocation, Place
from forebay.hip.compiled import launch as compiled
from forebay.hip.compiled.launch import Function, dim3
from forebay.hip.devices import (
    Handles,
    current_device,
    current_number,
    device_number,
    number_of,
    on_reset,
)
from forebay.hip.errors import (
    OK,
    HipError,
    HipFunction,
    Result,
    alias,
    api,
    asserting,
    code_of,
    enumerator,
    invalid,
    listed,
    made,
    outputs_of,
    raised_as,
    record,
    size_of,
)
from forebay.hip.facts import (
    hipError_t,
    hipFuncAttribute,
    hipFuncAttributes,
    hipFunction_attribute,
)
from forebay.hip.memory import pointer_to
from forebay.hip.pointers import DeviceArray, Number, address_of, handle_number, host_view
from forebay.hip.streams import queue_of, record_event
from forebay.hiprtc.code import Code, is_code, unpack_code
from forebay.queues.kernels.kernel import Kernel
from forebay.queues.kernels.program import Program, language_of
from forebay.queues.queue import Queue

FIRST_MODULE, FIRST_FUNCTION = 5 << 60, 6 << 60
ASSERTION = "__forebay_assertion_failed"  # of hiprtc's headers
AMD_CODE = (b"\x7fELF", b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB")

_numbers = Numbers()
_functions: weakref.WeakValueDictionary[int, ihipModuleSymbol_t] = weakref.WeakValueDictionary()


class ihipModule_t(Number):
    """A module; compares, hashes and converts like its number."""

    def __init__(self, address: Any = 0) -> None:
        super().__init__(address)
        self.device = -1
        self.program: Program | None = None
        self.code: Code | None = None
        self.functions: dict[str, ihipModuleSymbol_t] = {}
        self.variables: dict[str, Allocation] = {}

    def forget(self) -> None:
        """Release its functions: they refer to their module, so all would stay until the collector runs."""
        asserting.pop(self, None)
        self.functions.clear()


class ihipModuleSymbol_t(Number, Function):
    """A function of a module; compares, hashes and converts like its number."""

    def __init__(self, kernel: Kernel, module: Any = None) -> None:
        Function.__init__(self, kernel, module)
        self.address: int = FIRST_FUNCTION + 16 * next(_numbers)
        _functions[self.address] = self


hipModule_t: TypeAlias = ihipModule_t
ihipLibrary_t: TypeAlias = ihipModule_t
ihipKernel_t: TypeAlias = ihipModuleSymbol_t
hipFunction_t: TypeAlias = ihipModuleSymbol_t


_modules: Handles[ihipModule_t] = Handles("a module", hipError_t.hipErrorNotFound, end=ihipModule_t.forget)


# -- loading


def _source_of(image: Any) -> tuple[Any, Any, Code | None]:
    """Source, options of the compiler, and what hiprtc knows of it or None."""
    if image is None:
        raise invalid("the image is None")
    if isinstance(image, str):
        return image, (), None
    view = host_view(image)
    if view is None:
        raise ArgumentTypeError(f"an image is str or bytes, not {type(image).__name__}")
    code = view.tobytes()
    if is_code(code):
        unpacked = unpack_code(code)
        return unpacked.text, unpacked.options, unpacked
    with contextlib.suppress(InvalidArgumentError):
        if language_of(code) in (Language.SPIRV, Language.CUBIN):
            return code, (), None
    if code.startswith(AMD_CODE):
        raise HipError(hipError_t.hipErrorNoBinaryForGpu, "this image has code for AMD's GPUs only")
    try:
        source = code.rstrip(b"\0").decode()
    except UnicodeDecodeError:
        source = ""
    if not source.strip():
        raise HipError(hipError_t.hipErrorInvalidImage, "this image is neither text nor code of a device")
    return source, (), None


def load(image: Any) -> ihipModule_t:
    """Build a module for the current device; errors as for `hipModuleLoadData`."""
    device = current_device()
    module = ihipModule_t(FIRST_MODULE + 16 * next(_numbers))
    unfit, wrong = hipError_t.hipErrorNoBinaryForGpu, hipError_t.hipErrorInvalidImage
    with raised_as(unfit, NotSupportedError), raised_as(wrong, InvalidArgumentError):
        source, options, module.code = _source_of(image)
        module.program = device.program(source, options)
    module.device = current_number()
    _modules[module.address] = module
    _watch_assertions(module)
    return module


def _watch_assertions(module: ihipModule_t) -> None:
    """Let synchronizing functions tell when an assertion in one of the module's kernels has failed."""
    if module.code is None or module.program is None:
        return
    try:
        flag = module.program.get_global(ASSERTION)
    except (NotSupportedError, InvalidArgumentError):  # it has none, or the driver does not tell where variables are
        return
    device = flag.device
    queue = device.queue(blocking=False)  # waits for nothing but itself

    def has_failed() -> bool:
        value = bytearray(4)
        queue.copy(value, flag)
        queue.finish()
        return any(value)

    asserting[module] = (device, has_failed)


@api(outputs=1)
def hipModuleLoadData(image: Any) -> ihipModule_t:
    """Build a module for the current device; ``(hipError_t, module)``. Blocks while it compiles.

    Parameters
    ----------
    image : bytes-like or str
        What `hiprtcGetCode` gave, OpenCL C, or SPIR-V.

    hipErrorInvalidValue for None, hipErrorInvalidImage for anything else and for what does not compile
    (`last_exception` has the compiler's log), hipErrorNoBinaryForGpu for AMD's code objects, for SPIR-V on a device
    that takes none, and for code with variables on a device that has none.
    """
    return load(image)


@api(outputs=1)
def hipModuleLoadDataEx(image: Any, numOptions: int = 0, options: Any = None, optionValues: Any = None) -> ihipModule_t:
    """Do what `hipModuleLoadData` does; the options say how AMD's compiler is to go about it, and are not looked at.

    `image` as there; the options are `numOptions`, `options` and `optionValues`. Blocks while it compiles.
    """
    return load(image)


hipModuleLoadFatBinary: HipFunction = alias(hipModuleLoadData, "hipModuleLoadFatBinary", image="fatbin")


@api(outputs=1)
def hipModuleLoad(fname: Any) -> ihipModule_t:
    """Build a module from a file, see `hipModuleLoadData`; hipErrorFileNotFound when no file has this name.

    `fname` is the file's name, str or bytes: hipErrorInvalidValue for an empty one. Blocks while it compiles. Returns
    ``(hipError_t, module)``.
    """
    return load(read_image(fname))


def read_image(fname: Any) -> bytes:
    """Return what is in a file; hipErrorInvalidValue for an empty name, hipErrorFileNotFound."""
    if not fname:
        raise invalid("the file name is empty")
    with raised_as(hipError_t.hipErrorFileNotFound, OSError, ValueError):  # the latter for a name that none can have
        return read_file(os.fsdecode(fname), MOST_OF_CODE)


def module_of(module: Any) -> ihipModule_t:
    """Return the module of this object or number; hipErrorInvalidHandle for None, hipErrorNotFound for no module."""
    if module is None:
        raise HipError(hipError_t.hipErrorInvalidHandle, "the module is None")
    return _modules.find(module)


@api()
def hipModuleUnload(module: Any) -> None:
    """End a module; launches that were submitted complete; ``(hipError_t,)``. Its functions and variables are gone.

    hipErrorInvalidHandle for None, hipErrorNotFound for one that was unloaded before. Does not block.
    """
    known = module_of(module)
    if _modules.pop(known.address, None) is not None and known.program is not None:
        for variable in known.variables.values():
            allocations.take(variable.base)
        known.program.close()
        known.forget()


def text_of(name: Any) -> str:
    """Return the name that a program gave as bytes, as str, or as C's string."""
    if isinstance(name, ctypes.c_char_p):
        name = name.value or b""
    return os.fsdecode(name) if isinstance(name, (bytes, str)) else os.fsdecode(ctypes.string_at(address_of(name)[0]))


@api(outputs=1)
def hipModuleGetFunction(module: Any, kname: Any) -> ihipModuleSymbol_t:
    """Return ``(hipError_t, function)`` of this name, given as bytes or str.

    `module` is what `hipModuleLoadData` returned, and `kname` the name: for HIP C++ as in the source, or as
    `hiprtcGetLoweredName` returned it.

    hipErrorNotFound when the module has none, hipErrorInvalidHandle without a module, hipErrorInvalidValue without a
    name.
    """
    if not kname:
        raise invalid("the name is empty")
    known, name = module_of(module), text_of(kname)
    program, kernel = known.program, known.code.find(name) if known.code is not None else None
    symbol = name if kernel is None else kernel.symbol
    assert program is not None
    if symbol not in program:
        raise HipError(
            hipError_t.hipErrorNotFound, f"the module has no function {name!r}; it has {', '.join(program) or 'none'}"
        )
    if symbol not in known.functions:
        found = program[symbol]
        follows = any("**" in parameter.type_name for parameter in found.parameters) or (
            kernel is not None and kernel.follows
        )
        if follows and found.device.driver.has_addresses:
            found.follow_pointers()  # any kernel may, in HIP
        known.functions[symbol] = ihipModuleSymbol_t(found, known)
    return known.functions[symbol]


@api(outputs=1)
def hipModuleGetFunctionCount(mod: Any) -> int:
    """Return ``(hipError_t, count)`` of a module's functions."""
    program = module_of(mod).program
    return len(program) if program is not None else 0


@api(outputs=2)
def hipModuleGetGlobal(hmod: Any, name: Any) -> tuple[DeviceArray, int]:
    """Return ``(hipError_t, pointer, bytes)`` of a ``__device__`` or ``__constant__`` variable, its name bytes or str.

    The pointer is good for copies, memsets and kernels until the module is unloaded; each module has its own variables.
    In OpenCL C it is a variable at file scope in ``global`` memory, see `forebay.Program.get_global`.

    hipErrorNotFound when the module has none, hipErrorInvalidHandle without a module, hipErrorInvalidValue without a
    name, hipErrorNotSupported where the driver does not tell where variables are: OpenCL without Intel's extension for
    it, and SYCL.
    """
    if not name:
        raise invalid("the name is empty")
    known, text = module_of(hmod), text_of(name)
    if text not in known.variables:
        symbol: str | None = text
        if known.code is not None and known.code.language == Language.HIP_CPP:
            variable = known.code.find_variable(text)
            symbol = variable.symbol if variable is not None else None
        assert known.program is not None
        try:
            buffer = known.program.get_global(symbol) if symbol is not None else None
        except InvalidArgumentError:
            buffer = None
        if buffer is None:
            raise HipError(hipError_t.hipErrorNotFound, f"the module has no variable {text!r} that the host may reach")
        allocation = Allocation(buffer, facts.hipMemoryType.hipMemoryTypeDevice, known.device, variable=True)
        known.variables[text] = allocation
        allocations.enter(allocation)
    allocation = known.variables[text]
    return pointer_to(allocation), allocation.nbytes


# -- what the launch needs


def extents_of(given: Any) -> tuple[int, ...]:
    """Return three extents of a grid or a block."""
    values = (given,) if isinstance(given, int) or not hasattr(given, "__iter__") else tuple(given)
    if len(values) > 3:
        raise ArgumentTypeError(f"a grid or a block has 1 to 3 extents, not {len(values)}")
    return tuple(dim3(*values))


def function_of(function: Any) -> Function:
    """Return the function of this number, or of this `forebay.Kernel`.

    hipErrorInvalidHandle for anything but a function.
    """
    if isinstance(function, Function):
        return function
    if isinstance(function, Kernel):
        return Function(function, None)
    known = _functions.get(handle_number(function, "a function"))
    if known is None:
        raise HipError(hipError_t.hipErrorInvalidHandle, f"no function: {function!r}")
    return known


def _given_bytes(parameter: Parameter) -> int:
    """How many bytes of a value there are: HIP's float3 has 12, and the kernel's 16."""
    return parameter.nbytes if parameter.kind == "pointer" or parameter.dtype is None else parameter.dtype.itemsize


def _value_at(parameter: Parameter, address: int) -> Any:
    """The value for a parameter that is at this address."""
    return _value_of(parameter, ctypes.string_at(address, _given_bytes(parameter)))


def _value_of(parameter: Parameter, data: bytes) -> Any:
    """The value for a parameter that has these bytes."""
    if parameter.kind == "pointer":
        return int.from_bytes(data, "little")
    if parameter.code == "V":
        return data
    return struct.unpack(f"<{parameter.code}", data)[0]


def _values(function: Function) -> list[Parameter]:
    return [parameter for parameter in function.kernel.parameters if parameter.kind != "local"]


def packed_offsets(function: Function) -> Iterator[tuple[Parameter, int]]:
    """Yield the parameters of a function with where each begins among arguments that lie one after the other.

    Raises InvalidArgumentError for a structure of unknown alignment whose offset depends on it.
    """
    end = 0
    for parameter in _values(function):
        alignment = parameter.alignment
        if alignment == 0:
            alignment = min(parameter.nbytes & -parameter.nbytes, 16)
            if end % alignment:
                raise InvalidArgumentError(
                    f"kernel {function.kernel.name!r}, parameter {parameter.name!r}: the alignment of "
                    f"{parameter.type_name} is not known, and so where it begins; pass the arguments one by one"
                )
        at = -(-end // alignment) * alignment
        yield parameter, at
        end = at + parameter.nbytes


def _words(of: Any, count: int) -> Any:
    """The addresses in one of HIP's arrays of ``void *``."""
    if isinstance(of, (ctypes.Array, list)):
        return [address_of(word)[0] for word in of]
    address, _ = address_of(of)
    if address == 0:
        raise invalid("the arguments are at a null pointer")
    return [word or 0 for word in (ctypes.c_void_p * count).from_address(address)]


def _value_from(parameter: Parameter, item: Any) -> Any:
    """The value for a parameter from an entry of a list of ``kernelParams``, which says where its bytes are."""
    what = f"kernelParams, parameter {parameter.name!r}"
    place = Place(np.asarray(item) if isinstance(item, np.generic) else item, _given_bytes(parameter), what)
    if not place.in_host_memory:
        raise invalid(
            f"{what}: this is memory of the device, but an entry says where in the host's memory the argument is; pass "
            "the arguments themselves as extra"
        )
    return _value_of(parameter, place.bytes().tobytes())


def read_params(function: Function, params: Any) -> tuple[Any, ...]:
    """Return the values that ``kernelParams`` stands for."""
    values = _values(function)
    if isinstance(params, (list, tuple)):
        if len(params) != len(values):
            raise InvalidArgumentError(
                f"kernelParams: {len(params)} addresses for {len(values)} arguments: {function.kernel.signature}"
            )
        return tuple(map(_value_from, values, params))
    return tuple(
        _value_at(parameter, address)
        for parameter, address in zip(values, _words(params, len(values)), strict=False)
        if address
    )


def read_extra(function: Function, extra: Any) -> tuple[Any, ...]:
    """Return the values that ``extra`` stands for, other than as a tuple."""
    values = _values(function)
    if isinstance(extra, list) and (len(extra) != 5 or not isinstance(extra[0], int) or len(values) == 5):
        return tuple(extra)  # else these may be the five words
    words = _words(extra, 5)
    if (
        len(words) < 5
        or words[0::2]
        != [facts.HIP_LAUNCH_PARAM_BUFFER_POINTER, facts.HIP_LAUNCH_PARAM_BUFFER_SIZE, facts.HIP_LAUNCH_PARAM_END]
        or not (words[1] and words[3])
    ):
        raise invalid("extra is neither a tuple of values nor HIP's five words")
    size = ctypes.c_size_t.from_address(words[3]).value
    found = []
    for parameter, at in packed_offsets(function):
        if at + parameter.nbytes > size:
            raise invalid(f"extra has {size} bytes, which are too few")
        found.append(_value_at(parameter, words[1] + at))
    return tuple(found)


def _launch_failed(error: Exception, *args: Any, **kwargs: Any) -> Result:
    given = inspect.signature(hipModuleLaunchKernel).bind(*args, **kwargs).arguments
    code = code_of(error)
    if isinstance(error, (ClosedError, InvalidArgumentError)):
        code = hipError_t.hipErrorInvalidValue  # memory that was freed, or a module that was unloaded
        try:
            queue = queue_of(given.get("stream"))
            if number_of(queue.device) != number_of(function_of(given["f"]).kernel.device):
                code = hipError_t.hipErrorInvalidHandle
        except HipError as wrong:
            code = wrong.code
    record(code, error)
    return (code,)


compiled.connect(_launch_failed, ihipModuleSymbol_t, function_of, read_params, read_extra)


@compiled.hipModuleLaunchKernel
def hipModuleLaunchKernel(
    f: Any,
    gridDimX: int,
    gridDimY: int,
    gridDimZ: int,
    blockDimX: int,
    blockDimY: int,
    blockDimZ: int,
    sharedMemBytes: int = 0,
    stream: Any = None,
    kernelParams: Any = None,
    extra: Any = None,
) -> Result:
    """Launch a kernel (HIP, hipModuleLaunchKernel).

    Parameters
    ----------
    f : ihipModuleSymbol_t
        From `hipModuleGetFunction`.
    gridDimX, gridDimY, gridDimZ : int
        Groups.
    blockDimX, blockDimY, blockDimZ : int
        Work-items per group.
    sharedMemBytes : int
        Dynamic local memory: the size of the one ``local`` pointer parameter of a kernel in OpenCL C, for which no
        argument is given.
    stream : ihipStream_t
        Or None or 0 for the null stream.
    kernelParams : list or tuple
        Where the arguments are, in memory of the host, as in hip-python: for each parameter an address (int or
        ctypes.c_void_p), a ctypes pointer or ``byref``, or what has its bytes there: a ctypes value, a NumPy array or
        scalar, anything with a buffer. A kernel's pointer is an argument too: give where it is stored, such as
        ``ctypes.addressof(ctypes.c_void_p(int(memory)))``, not the pointer. Or HIP's array of addresses as a ctypes
        array.
    extra : tuple or list
        The arguments themselves: one ctypes value for each parameter, and a pointer object, an address, a
        `forebay.Buffer` or None for each pointer; or HIP's five words (HIP_LAUNCH_PARAM_BUFFER_POINTER, …) as a ctypes
        array or a list. NULL for one of the two, in any spelling, and an empty list are nothing.

    Returns
    -------
    tuple
        ``(hipError_t,)``: hipErrorInvalidValue for dimensions, arguments or memory that cannot be,
        hipErrorNotSupported for memory of the host that the device cannot map, hipErrorInvalidHandle without a function
        or when the stream is another device's, hipErrorContextIsDestroyed for what is no stream (any more).

    Does not wait for the kernel, see `forebay.Queue.launch`.
    """
    # What is in front of this takes every call without keywords.
    result: Result = hipModuleLaunchKernel(
        f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, stream, kernelParams, extra
    )
    return result


# -- what functions are like, other ways to launch them than `hipModuleLaunchKernel`, and libraries of them

MEMBERS: dict[str, str] = facts.FACTS["attributes of functions"]
VERSION = 10 * facts.HIP_VERSION_MAJOR + facts.HIP_VERSION_MINOR


def kernel_of(func: Any) -> Kernel:
    """Return the kernel of a function; hipErrorInvalidDeviceFunction for anything else."""
    with raised_as(hipError_t.hipErrorInvalidDeviceFunction, HipError):
        return function_of(func).kernel


def _attributes(kernel: Kernel) -> hipFuncAttributes:
    static = kernel.static_local_bytes
    return hipFuncAttributes(
        binaryVersion=VERSION,
        ptxVersion=VERSION,
        sharedSizeBytes=static,
        maxDynamicSharedSizeBytes=max(kernel.device.driver.limits.local_bytes - static, 0),
        maxThreadsPerBlock=kernel.max_block_size,
    )


@api(outputs=1)
def hipFuncGetAttributes(func: Any) -> hipFuncAttributes:
    """Return ``(hipError_t, hipFuncAttributes)``; hipErrorInvalidDeviceFunction for anything but a function."""
    return _attributes(kernel_of(func))


@api(outputs=1)
def hipFuncGetAttribute(attrib: int, hfunc: Any) -> int:
    """Return ``(hipError_t, value)`` of one member of `hipFuncAttributes`, which says what each is.

    `attrib` is a hipFunction_attribute: hipErrorInvalidValue for an unknown one. hipErrorInvalidHandle without a
    function.
    """
    kernel = function_of(hfunc).kernel
    name = MEMBERS.get(enumerator(hipFunction_attribute, attrib, "a function has no attribute").name)
    if name is None:
        raise invalid(f"a function has no attribute {attrib!r}")
    return int(_attributes(kernel)[name])


@api()
def hipFuncSetAttribute(func: Any, attr: int, value: int) -> None:
    """Check a hipFuncAttribute; ``(hipError_t,)``. A launch may use all the shared memory there is without it.

    `func` is what `hipModuleGetFunction` returned, `attr` the attribute, and `value` bytes or percent.

    hipErrorInvalidDeviceFunction for anything but a function; hipErrorInvalidValue for other attributes than
    MaxDynamicSharedMemorySize and PreferredSharedMemoryCarveout (a percentage, or -1), for more shared memory than a
    launch can have, and for a negative size.
    """
    kernel = kernel_of(func)
    if attr == hipFuncAttribute.hipFuncAttributeMaxDynamicSharedMemorySize:
        most = _attributes(kernel)["maxDynamicSharedSizeBytes"]
        if size_of(value) > most:
            raise invalid(f"{value} bytes of shared memory: there are {most}")
    elif attr == hipFuncAttribute.hipFuncAttributePreferredSharedMemoryCarveout:
        if not -1 <= value <= 100:
            raise invalid(f"{value} percent")
    else:
        raise invalid(f"the attribute {attr!r} of a function cannot be set")


@api()
def hipFuncSetCacheConfig(func: Any, config: int) -> None:
    """Accept how a function would like the cache to be divided, and ignore it, as on AMD's devices; ``(hipError_t,)``.

    hipErrorInvalidDeviceFunction for anything but a function, hipErrorInvalidValue for anything but a hipFuncCache_t.
    """
    kernel_of(func)
    enumerator(facts.hipFuncCache_t, config, "no configuration of the cache")


@api()
def hipFuncSetSharedMemConfig(func: Any, config: int) -> None:
    """Accept how wide the banks of shared memory are to be, and ignore it, as on AMD's devices; ``(hipError_t,)``.

    hipErrorInvalidDeviceFunction for anything but a function, hipErrorInvalidValue for anything but a
    hipSharedMemConfig.
    """
    kernel_of(func)
    enumerator(facts.hipSharedMemConfig, config, "no configuration of shared memory")


# -- occupancy


DISABLE_CACHING_OVERRIDE = 1
KEPT = 128  # bytes: what local memory is dealt out in


def _kernel_of_module(f: Any) -> Kernel:
    """Return the kernel of a function, for the functions of modules; hipErrorInvalidValue for None."""
    if f is None:
        raise invalid("the function is None")
    return function_of(f).kernel


def _dynamic_bytes(kernel: Kernel) -> int:
    return max(int(kernel.device.driver.limits.local_bytes) - kernel.static_local_bytes, 0)


def groups_per_unit(kernel: Kernel, block: int, shared: int) -> int:
    """Return how many groups of this many work-items a compute unit runs at once: 0 when it can run none.

    hipErrorInvalidValue for less than one work-item.
    """
    if block <= 0:
        raise invalid(f"groups of {block} work-items")
    if block > kernel.max_block_size or size_of(shared) > _dynamic_bytes(kernel):
        return 0
    room = kernel.device.driver.limits.unit_items // block
    return max(min(kernel.groups_at_once(block, shared) // _units(kernel), room), 1)


def _units(kernel: Kernel) -> int:
    return max(kernel.device.info.compute_units, 1)


def _block_size(kernel: Kernel, shared: Any, limit: Any) -> tuple[int, int]:
    limits = kernel.device.driver.limits
    if size_of(shared) > _dynamic_bytes(kernel):
        raise invalid(f"{shared} bytes of local memory")
    largest = min(kernel.max_block_size, limits.group_size[0])
    block = min(largest, limit) if limit > 0 else largest
    if block >= WARP:
        block -= block % WARP
    groups = groups_per_unit(kernel, block, shared)
    for smaller in range(block - WARP, 0, -WARP):
        more = groups_per_unit(kernel, smaller, shared)
        if more * smaller > groups * block:
            groups, block = more, smaller
    return groups * _units(kernel), block


@api(outputs=1)
def hipOccupancyMaxActiveBlocksPerMultiprocessor(f: Any, blockSize: int, dynSharedMemPerBlk: int = 0) -> int:
    """Return ``(hipError_t, groups)`` that a compute unit runs at once.

    CUDA's driver tells. Elsewhere it is 1. It is 0 when the kernel cannot be launched with that many work-items or that
    much local memory. hipErrorInvalidDeviceFunction for anything but a function, hipErrorInvalidValue for less than one
    work-item.
    """
    return groups_per_unit(kernel_of(f), blockSize, dynSharedMemPerBlk)


@api(outputs=1)
def hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(f: Any, blockSize: int, dynSharedMemPerBlk: int = 0) -> int:
    """Do what `hipOccupancyMaxActiveBlocksPerMultiprocessor` does; hipErrorInvalidValue for None."""
    return groups_per_unit(_kernel_of_module(f), blockSize, dynSharedMemPerBlk)


@api(outputs=1)
def hipOccupancyAvailableDynamicSMemPerBlock(f: Any, numBlocks: int, blockSize: int) -> int:
    """Return ``(hipError_t, bytes)`` of dynamic local memory with which `numBlocks` groups run at once on a unit.

    Groups share what there is. hipErrorInvalidDeviceFunction for anything but a function, hipErrorInvalidValue for less
    than one group or work-item, and for more work-items than the kernel can have.
    """
    kernel = kernel_of(f)
    if numBlocks <= 0 or not groups_per_unit(kernel, blockSize, 0):
        raise invalid(f"{numBlocks} groups of {blockSize} work-items")
    room = max(int(kernel.device.driver.limits.local_bytes) // numBlocks - kernel.static_local_bytes, 0)
    if groups_per_unit(kernel, blockSize, 0) >= numBlocks:  # a GPU keeps some for itself, of each group
        while room and groups_per_unit(kernel, blockSize, room) < numBlocks:
            room = max(room - KEPT, 0)
    return room


@api(outputs=2)
def hipOccupancyMaxPotentialBlockSize(f: Any, dynSharedMemPerBlk: int = 0, blockSizeLimit: int = 0) -> tuple[int, int]:
    """Return ``(hipError_t, gridSize, blockSize)``: the groups of which most work-items run at once, and how many do.

    A group has at most `blockSizeLimit` work-items; 0 is no limit. hipErrorInvalidValue without a function, and for
    more local memory than there is.
    """
    return _block_size(_kernel_of_module(f), dynSharedMemPerBlk, blockSizeLimit)


hipModuleOccupancyMaxPotentialBlockSize: HipFunction = alias(
    hipOccupancyMaxPotentialBlockSize, "hipModuleOccupancyMaxPotentialBlockSize"
)


def _with_flags(function: Any) -> HipFunction:
    *_, last = parameters = [*inspect.signature(function).parameters.values()]
    flags = last.replace(name="flags", default=int(facts.hipOccupancyDefault))
    doc = f"""Do what `{function.__name__}` does; the flags are 0 or 1.

    {listed(each.name for each in parameters)} as there; hipErrorInvalidValue for other `flags`."""

    def call(*given: Any) -> Any:
        if given[-1] not in (facts.hipOccupancyDefault, DISABLE_CACHING_OVERRIDE):
            raise invalid(f"flags {given[-1]!r}")
        return function.__wrapped__(*given[:-1])

    returns = inspect.signature(function).return_annotation
    return made(f"{function.__name__}WithFlags", [*parameters, flags], doc, call, function.outputs, returns)


hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags: HipFunction = _with_flags(
    hipOccupancyMaxActiveBlocksPerMultiprocessor
)
hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags: HipFunction = _with_flags(
    hipModuleOccupancyMaxActiveBlocksPerMultiprocessor
)
hipModuleOccupancyMaxPotentialBlockSizeWithFlags: HipFunction = _with_flags(hipModuleOccupancyMaxPotentialBlockSize)


# -- launches


_lock = threading.Lock()
_queues: dict[int, Queue] = {}  # by device: its cooperative launches, one after the other
on_reset(lambda number: _queues.pop(number, None))


def _launch_plain(f: Any, grid: tuple[int, ...], block: tuple[int, ...], shared: int, stream: Any, params: Any) -> None:
    (x, y, z), (width, height, depth) = grid, block
    outputs_of(hipModuleLaunchKernel(f, x, y, z, width, height, depth, shared, stream, params))


@api()
def hipLaunchKernel(
    function_address: Any, numBlocks: object, dimBlocks: object, args: Any, sharedMemBytes: int = 0, stream: Any = None
) -> None:
    """Launch a function; ``(hipError_t,)``. Does not block.

    `sharedMemBytes` and `stream` as for `hipModuleLaunchKernel`.

    Parameters
    ----------
    function_address : ihipModuleSymbol_t
        From `hipModuleGetFunction`: there is no host function that stands for a kernel.
    numBlocks, dimBlocks : dim3
        Groups, and work-items per group; or an int, or a tuple of up to three.
    args : list or tuple
        The ``kernelParams`` of `hipModuleLaunchKernel`, where the errors are.
    """
    _launch_plain(function_address, extents_of(numBlocks), extents_of(dimBlocks), sharedMemBytes, stream, args)


@api()
def hipExtLaunchKernel(
    function_address: Any,
    numBlocks: object,
    dimBlocks: object,
    args: Any,
    sharedMemBytes: int = 0,
    stream: Any = None,
    startEvent: Any = None,
    stopEvent: Any = None,
    flags: int = 0,
) -> None:
    """Do what `hipLaunchKernel` does, and record one event before and one after it, unless they are None.

    `function_address`, `numBlocks`, `dimBlocks`, `args`, `sharedMemBytes` and `stream` as there; `startEvent` and
    `stopEvent` are the events.

    The flags make no difference. Errors as for `hipEventRecord` too; nothing is launched when the first is refused.
    """
    if startEvent is not None:
        record_event(startEvent, stream)
    _launch_plain(function_address, extents_of(numBlocks), extents_of(dimBlocks), sharedMemBytes, stream, args)
    if stopEvent is not None:
        record_event(stopEvent, stream)


# -- launches whose groups wait for each other


def _check(f: Any, grid: tuple[int, ...], block: tuple[int, ...], shared: int, stream: Any) -> Queue:
    """Check that all groups run at once, and return the queue of the stream."""
    queue, kernel = queue_of(stream), kernel_of(f)
    items, groups = block[0] * block[1] * block[2], grid[0] * grid[1] * grid[2]
    if not groups_per_unit(kernel, items, shared):
        raise HipError(hipError_t.hipErrorInvalidConfiguration, f"groups of {items} work-items, {shared} bytes")
    most = kernel.groups_at_once(block, shared)
    if groups > most:
        raise HipError(
            hipError_t.hipErrorCooperativeLaunchTooLarge,
            f"{groups} groups that wait for each other: {kernel.device.name} runs {most} of this size at once",
        )
    return queue


def _launch(f: Any, grid: tuple[int, ...], block: tuple[int, ...], shared: int, stream: Any, params: Any) -> None:
    queue = _check(f, grid, block, shared, stream)
    if queue.capturing:
        _launch_plain(f, grid, block, shared, queue, params)
        return
    number = number_of(queue.device)
    with _lock:  # half of the groups of two that run at once could wait for the others for ever
        own = _queues.get(number)
        if own is None or own.closed:
            own = _queues[number] = queue.device.queue(blocking=False)
    own.wait(queue)
    _launch_plain(f, grid, block, shared, own, params)
    queue.wait(own)


@api()
def hipModuleLaunchCooperativeKernel(
    f: Any,
    gridDimX: int,
    gridDimY: int,
    gridDimZ: int,
    blockDimX: int,
    blockDimY: int,
    blockDimZ: int,
    sharedMemBytes: int = 0,
    stream: Any = None,
    kernelParams: Any = None,
) -> None:
    """Launch a function all of whose groups run at the same time; ``(hipError_t,)``. Does not block.

    `f`, `gridDimX`, `gridDimY`, `gridDimZ`, `blockDimX`, `blockDimY`, `blockDimZ`, `sharedMemBytes`, `stream` and
    `kernelParams` as for `hipModuleLaunchKernel`.

    How many groups that can be, Level Zero's driver tells; elsewhere it is one for each compute unit, on CPUs one less.
    Such launches of a device run one after the other, as on AMD's devices, whatever their streams are; other work
    beside them only delays them. In a capture it becomes a node like that of any launch, and graphs are not ordered so.

    hipErrorCooperativeLaunchTooLarge for more groups, hipErrorInvalidDeviceFunction for anything but a function,
    hipErrorInvalidConfiguration for groups that the kernel cannot have; otherwise as `hipModuleLaunchKernel`.
    """
    grid, block = (gridDimX, gridDimY, gridDimZ), (blockDimX, blockDimY, blockDimZ)
    _launch(f, grid, block, sharedMemBytes, stream, kernelParams)


@api()
def hipLaunchCooperativeKernel(
    f: Any, gridDim: object, blockDimX: object, kernelParams: Any, sharedMemBytes: int = 0, stream: Any = None
) -> None:
    """Do what `hipModuleLaunchCooperativeKernel` does; the dimensions are `dim3`, an int or a tuple of up to three.

    `f` is the function, `gridDim` groups of `blockDimX` work-items; `kernelParams`, `sharedMemBytes` and `stream` as
    there. Does not block.
    """
    _launch(f, extents_of(gridDim), extents_of(blockDimX), sharedMemBytes, stream, kernelParams)


# -- libraries


hipLibrary_t: TypeAlias = ihipModule_t
hipKernel_t: TypeAlias = ihipModuleSymbol_t


@api(outputs=3)
def hipLibraryLoadData(
    code: Any,
    jitOptionsValues: Any = None,
    numJitOptions: int = 0,
    libraryOptionValues: Any = None,
    numLibraryOptions: int = 0,
) -> tuple[ihipModule_t, None, None]:
    """Build a library for the current device; ``(hipError_t, library, None, None)``. See `hipModuleLoadData`.

    `code` is what `hipModuleLoadData` takes. Blocks while it compiles.
    """
    return load(code), None, None


@api(outputs=3)
def hipLibraryLoadFromFile(
    fileName: Any,
    jitOptionsValues: Any = None,
    numJitOptions: int = 0,
    libraryOptionValues: Any = None,
    numLibraryOptions: int = 0,
) -> tuple[ihipModule_t, None, None]:
    """Build a library from a file; ``(hipError_t, library, None, None)``. See `hipModuleLoad`.

    `fileName` is the file. Blocks while it compiles.
    """
    return load(read_image(fileName)), None, None


hipLibraryUnload: HipFunction = alias(hipModuleUnload, "hipLibraryUnload", module="library")
hipLibraryGetKernel: HipFunction = alias(
    hipModuleGetFunction,
    "hipLibraryGetKernel",
    ": a kernel is like any function",
    module="library",
    kname="name",
)
hipLibraryGetKernelCount: HipFunction = alias(hipModuleGetFunctionCount, "hipLibraryGetKernelCount", mod="library")
hipLibraryGetGlobal: HipFunction = alias(hipModuleGetGlobal, "hipLibraryGetGlobal", hmod="library")


@api(outputs=1)
def hipLibraryEnumerateKernels(numKernels: int, library: Any) -> list[ihipModuleSymbol_t]:
    """Return ``(hipError_t, kernels)``: a list of at most this many.

    At most `numKernels` of what `library` has: hipErrorInvalidHandle for None, hipErrorNotFound for one that was
    unloaded.
    """
    program = module_of(library).program
    assert program is not None
    found = [hipModuleGetFunction(library, name) for name in list(program)[: size_of(numKernels)]]
    return [kernel for code, kernel in found if code == OK]


def _kernel_in(kernel: Any) -> ihipModuleSymbol_t:
    function = function_of(kernel)
    if not isinstance(function, ihipModuleSymbol_t):
        raise HipError(hipError_t.hipErrorInvalidHandle, "this kernel is of no library")
    return function


@api(outputs=1)
def hipKernelGetFunction(kernel: Any) -> ihipModuleSymbol_t:
    """Return ``(hipError_t, function)``: the kernel itself. hipErrorInvalidHandle for anything but a kernel."""
    return _kernel_in(kernel)


@api(outputs=1)
def hipKernelGetLibrary(kernel: Any) -> ihipModule_t:
    """Return ``(hipError_t, library)``; hipErrorInvalidHandle for anything but a kernel."""
    library = _kernel_in(kernel).module
    assert library is not None
    return library


@api(outputs=1)
def hipKernelGetName(kernel: Any) -> CString:
    """Return ``(hipError_t, name)``; hipErrorInvalidHandle for anything but a kernel."""
    return CString(_kernel_in(kernel).kernel.name.encode())


@api(outputs=2)
def hipKernelGetParamInfo(kernel: Any, paramIndex: int) -> tuple[int, int]:
    """Return ``(hipError_t, offset, bytes)`` of a parameter among the packed arguments of HIP's ``extra``.

    hipErrorInvalidHandle for anything but a kernel, hipErrorInvalidValue when it has no parameter `paramIndex`, from 0
    on.
    """
    found = (
        next(itertools.islice(packed_offsets(_kernel_in(kernel)), paramIndex, None), None) if paramIndex >= 0 else None
    )
    if found is None:
        raise invalid(f"there is no parameter {paramIndex}")
    parameter, at = found
    return at, parameter.nbytes


def _kernel_on(kernel: Any, dev: int) -> Any:
    """Return a kernel, whose device has to be this one."""
    if number_of(kernel_of(kernel).device) != device_number(dev):
        raise HipError(hipError_t.hipErrorInvalidDevice, "the kernel is another device's")
    return kernel


@api(outputs=1)
def hipKernelGetAttribute(attrib: int, kernel: Any, dev: int) -> int:
    """Return ``(hipError_t, value)``. See `hipFuncGetAttribute`; hipErrorInvalidDevice for another device.

    `attrib` is a hipFunction_attribute, `kernel` what `hipLibraryGetKernel` returned, and `dev` the number of its
    device.
    """
    return hipFuncGetAttribute.__wrapped__(attrib, _kernel_on(kernel, dev))  # type: ignore[attr-defined, no-any-return]


@api()
def hipKernelSetAttribute(attrib: int, value: int, kernel: Any, dev: int) -> None:
    """Check an attribute; ``(hipError_t,)``. See `hipFuncSetAttribute`; hipErrorInvalidDevice for another device.

    `attrib`, `kernel` and `dev` as for `hipKernelGetAttribute`; `value` as there.
    """
    hipFuncSetAttribute.__wrapped__(_kernel_on(kernel, dev), attrib, value)  # type: ignore[attr-defined]
