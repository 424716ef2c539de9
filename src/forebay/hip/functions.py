"""What functions are like, other ways to launch them than `hipModuleLaunchKernel`, and libraries of them.

How many groups of a kernel a compute unit runs at once, OpenCL and SYCL do not tell, and a CPU runs one group on each
of its threads. So one is assumed there, of any size that the kernel can have. Libraries and kernels are HIP 7's names:
a library is a module of the current device, a kernel a function.
"""

from __future__ import annotations

import inspect
import itertools
import threading
from typing import Any, TypeAlias

from forebay.c_string import CString
from forebay.hip import facts
from forebay.hip.compiled.launch import Function
from forebay.hip.devices import device_number, number_of, on_reset
from forebay.hip.errors import OK, HipError, HipFunction, alias, api, enumerator, invalid, listed, made, outputs_of
from forebay.hip.events import record_event
from forebay.hip.facts import hipError_t, hipFuncAttribute, hipFuncAttributes, hipFunction_attribute
from forebay.hip.hardware import check_bank_config, check_cache_config
from forebay.hip.memory import size_of
from forebay.hip.modules import (
    extents_of,
    function_of,
    hipModuleGetFunction,
    hipModuleGetFunctionCount,
    hipModuleGetGlobal,
    hipModuleLaunchKernel,
    hipModuleUnload,
    ihipModule_t,
    ihipModuleSymbol_t,
    load,
    module_of,
    packed_offsets,
    read_image,
)
from forebay.hip.streams import queue_of
from forebay.hiprtc.clang import WARP
from forebay.queues.kernels.kernel import Kernel
from forebay.queues.queue import Queue

MEMBERS: dict[str, str] = facts.FACTS["attributes of functions"]
VERSION = 10 * facts.HIP_VERSION_MAJOR + facts.HIP_VERSION_MINOR


def kernel_of(func: Any) -> Kernel:
    """Return the kernel of a function; hipErrorInvalidDeviceFunction for anything else."""
    if func is None:
        raise HipError(hipError_t.hipErrorInvalidDeviceFunction, "the function is None")
    try:
        function: Function = function_of(func)
    except HipError as error:
        raise HipError(hipError_t.hipErrorInvalidDeviceFunction, str(error)) from error
    return function.kernel


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

    `attrib` is a hipFunction_attribute, and `hfunc` what `hipModuleGetFunction` returned.

    hipErrorInvalidHandle without a function, hipErrorInvalidValue for an unknown attribute.
    """
    return _attribute(attrib, hfunc)


def _attribute(attrib: Any, function: Any) -> int:
    kernel = function_of(function).kernel
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
    _check_attribute(func, attr, value)


def _check_attribute(func: Any, attr: Any, value: Any) -> None:
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

    `func` is what `hipModuleGetFunction` returned, and `config` what would be preferred.

    hipErrorInvalidDeviceFunction for anything but a function, hipErrorInvalidValue for anything but a hipFuncCache_t.
    """
    kernel_of(func)
    check_cache_config(config)


@api()
def hipFuncSetSharedMemConfig(func: Any, config: int) -> None:
    """Accept how wide the banks of shared memory are to be, and ignore it, as on AMD's devices; ``(hipError_t,)``.

    `func` is what `hipModuleGetFunction` returned, and `config` the width.

    hipErrorInvalidDeviceFunction for anything but a function, hipErrorInvalidValue for anything but a
    hipSharedMemConfig.
    """
    kernel_of(func)
    check_bank_config(config)


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

    `f` is the function, of groups of `blockSize` work-items, with `dynSharedMemPerBlk` bytes of dynamic local memory.

    CUDA's driver tells. Elsewhere it is 1. It is 0 when the kernel cannot be launched with so many work-items or so
    much local memory. hipErrorInvalidDeviceFunction for anything but a function, hipErrorInvalidValue for less than one
    work-item.
    """
    return groups_per_unit(kernel_of(f), blockSize, dynSharedMemPerBlk)


@api(outputs=1)
def hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(f: Any, blockSize: int, dynSharedMemPerBlk: int = 0) -> int:
    """Do what `hipOccupancyMaxActiveBlocksPerMultiprocessor` does; hipErrorInvalidValue for None.

    `f` is the function, of groups of `blockSize` work-items, with `dynSharedMemPerBlk` bytes of dynamic local memory.
    """
    return groups_per_unit(_kernel_of_module(f), blockSize, dynSharedMemPerBlk)


@api(outputs=1)
def hipOccupancyAvailableDynamicSMemPerBlock(f: Any, numBlocks: int, blockSize: int) -> int:
    """Return ``(hipError_t, bytes)`` of dynamic local memory with which `numBlocks` groups run at once on a unit.

    `f` is the function, of groups of `blockSize` work-items.

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

    `f` is the function, with `dynSharedMemPerBlk` bytes of dynamic local memory and groups of at most `blockSizeLimit`
    work-items; 0 is no limit.

    hipErrorInvalidValue without a function, and for more local memory than there is.
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


@on_reset
def _forget(number: int) -> None:
    _queues.pop(number, None)


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


def _begin(queue: Queue) -> Queue:
    """Return the queue for cooperative launches of its device, once it comes after this one."""
    number = number_of(queue.device)
    with _lock:
        own = _queues.get(number)
        if own is None or own.closed:
            own = _queues[number] = queue.device.queue(blocking=False)
    own.wait(queue)
    return own


def _launch(f: Any, grid: tuple[int, ...], block: tuple[int, ...], shared: int, stream: Any, params: Any) -> None:
    queue = _check(f, grid, block, shared, stream)
    # Half of the groups of two that run at once could wait for the others for ever.
    own = queue if queue.capturing else _begin(queue)
    _launch_plain(f, grid, block, shared, own, params)
    if own is not queue:
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

    `code` is what `hipModuleLoadData` takes. The options are `jitOptionsValues`, `numJitOptions`, `libraryOptionValues`
    and `numLibraryOptions`. Blocks while it compiles.

    The options say how other compilers are to go about it, and are not looked at.
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

    `fileName` is the file. `jitOptionsValues`, `numJitOptions`, `libraryOptionValues` and `numLibraryOptions` are not
    looked at. Blocks while it compiles.
    """
    return load(read_image(fileName)), None, None


hipLibraryUnload: HipFunction = alias(hipModuleUnload, "hipLibraryUnload", module="library")
hipLibraryGetKernel: HipFunction = alias(
    hipModuleGetFunction,
    "hipLibraryGetKernel",
    ": a kernel is a function for any launch",
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

    `kernel` is what `hipLibraryGetKernel` returned, and `paramIndex` counts its parameters from 0.

    hipErrorInvalidHandle for anything but a kernel, hipErrorInvalidValue when it has no such parameter.
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
    return _attribute(attrib, _kernel_on(kernel, dev))


@api()
def hipKernelSetAttribute(attrib: int, value: int, kernel: Any, dev: int) -> None:
    """Check an attribute; ``(hipError_t,)``. See `hipFuncSetAttribute`; hipErrorInvalidDevice for another device.

    `attrib`, `kernel` and `dev` as for `hipKernelGetAttribute`; `value` as there.
    """
    _check_attribute(_kernel_on(kernel, dev), attrib, value)
