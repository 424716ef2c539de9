"""Libraries and their kernels, HIP 7's names: a library is a module of the current device, a kernel a function."""

from __future__ import annotations

import itertools
from typing import Any, TypeAlias

from forebay.c_string import CString
from forebay.hip.devices import device_number, number_of
from forebay.hip.errors import OK, HipError, Result, api
from forebay.hip.facts import hipError_t
from forebay.hip.functions import hipFuncGetAttribute, hipFuncSetAttribute, kernel_of
from forebay.hip.memory import size_of
from forebay.hip.modules import (
    function_of,
    hipModuleGetFunction,
    hipModuleGetFunctionCount,
    hipModuleGetGlobal,
    hipModuleLoad,
    hipModuleLoadData,
    hipModuleUnload,
    ihipModule_t,
    ihipModuleSymbol_t,
    module_of,
    packed_offsets,
)

hipLibrary_t: TypeAlias = ihipModule_t
hipKernel_t: TypeAlias = ihipModuleSymbol_t


def hipLibraryLoadData(
    code: Any,
    jitOptionsValues: Any = None,
    numJitOptions: int = 0,
    libraryOptionValues: Any = None,
    numLibraryOptions: int = 0,
) -> Result:
    """Build a library for the current device; ``(hipError_t, library, None, None)``. See `hipModuleLoadData`.

    `code` is what `hipModuleLoadData` takes. The options are `jitOptionsValues`, `numJitOptions`, `libraryOptionValues`
    and `numLibraryOptions`. Blocks while it compiles.

    The options say how other compilers are to go about it, and are not looked at.
    """
    return (*hipModuleLoadData(code), None, None)


def hipLibraryLoadFromFile(
    fileName: Any,
    jitOptionsValues: Any = None,
    numJitOptions: int = 0,
    libraryOptionValues: Any = None,
    numLibraryOptions: int = 0,
) -> Result:
    """Build a library from a file; ``(hipError_t, library, None, None)``. See `hipModuleLoad`.

    `fileName` is the file. `jitOptionsValues`, `numJitOptions`, `libraryOptionValues` and `numLibraryOptions` are not
    looked at. Blocks while it compiles.
    """
    return (*hipModuleLoad(fileName), None, None)


def hipLibraryUnload(library: Any) -> Result:
    """Do what `hipModuleUnload` does.

    `library` is what `hipLibraryLoadData` returned. Returns ``(hipError_t,)``.
    """
    return hipModuleUnload(library)


def hipLibraryGetKernel(library: Any, name: Any) -> Result:
    """Return ``(hipError_t, kernel)`` of this name, which is a function for any launch. See `hipModuleGetFunction`.

    `library` is what `hipLibraryLoadData` returned.
    """
    return hipModuleGetFunction(library, name)


def hipLibraryGetKernelCount(library: Any) -> Result:
    """Return ``(hipError_t, count)`` of a library's kernels."""
    return hipModuleGetFunctionCount(library)


def hipLibraryGetGlobal(library: Any, name: Any) -> Result:
    """Return ``(hipError_t, pointer, bytes)`` of a variable. See `hipModuleGetGlobal`.

    `library` is what `hipLibraryLoadData` returned, and `name` the variable's, bytes or str.
    """
    return hipModuleGetGlobal(library, name)


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


def _kernel(kernel: Any) -> ihipModuleSymbol_t:
    function = function_of(kernel)
    if not isinstance(function, ihipModuleSymbol_t):
        raise HipError(hipError_t.hipErrorInvalidHandle, "this kernel is of no library")
    return function


@api(outputs=1)
def hipKernelGetFunction(kernel: Any) -> ihipModuleSymbol_t:
    """Return ``(hipError_t, function)``: the kernel itself. hipErrorInvalidHandle for anything but a kernel."""
    return _kernel(kernel)


@api(outputs=1)
def hipKernelGetLibrary(kernel: Any) -> ihipModule_t:
    """Return ``(hipError_t, library)``; hipErrorInvalidHandle for anything but a kernel."""
    library = _kernel(kernel).module
    assert library is not None
    return library


@api(outputs=1)
def hipKernelGetName(kernel: Any) -> CString:
    """Return ``(hipError_t, name)``; hipErrorInvalidHandle for anything but a kernel."""
    return CString(_kernel(kernel).kernel.name.encode())


@api(outputs=2)
def hipKernelGetParamInfo(kernel: Any, paramIndex: int) -> tuple[int, int]:
    """Return ``(hipError_t, offset, bytes)`` of a parameter among the packed arguments of HIP's ``extra``.

    `kernel` is what `hipLibraryGetKernel` returned, and `paramIndex` counts its parameters from 0.

    hipErrorInvalidHandle for anything but a kernel, hipErrorInvalidValue when it has no such parameter.
    """
    found = next(itertools.islice(packed_offsets(_kernel(kernel)), paramIndex, None), None) if paramIndex >= 0 else None
    if found is None:
        raise HipError(hipError_t.hipErrorInvalidValue, f"there is no parameter {paramIndex}")
    parameter, at = found
    return at, parameter.nbytes


@api()
def _check_device(kernel: Any, dev: int) -> None:
    if number_of(kernel_of(kernel).device) != device_number(dev):
        raise HipError(hipError_t.hipErrorInvalidDevice, "the kernel is another device's")


def hipKernelGetAttribute(attrib: int, kernel: Any, dev: int) -> Result:
    """Return ``(hipError_t, value)``. See `hipFuncGetAttribute`; hipErrorInvalidDevice for another device.

    `attrib` is a hipFunction_attribute, `kernel` what `hipLibraryGetKernel` returned, and `dev` the number of its
    device.
    """
    code = _check_device(kernel, dev)[0]
    return hipFuncGetAttribute(attrib, kernel) if code == OK else (code, None)


def hipKernelSetAttribute(attrib: int, value: int, kernel: Any, dev: int) -> Result:
    """Check an attribute; ``(hipError_t,)``. See `hipFuncSetAttribute`; hipErrorInvalidDevice for another device.

    `attrib`, `kernel` and `dev` as for `hipKernelGetAttribute`; `value` as there.
    """
    result = _check_device(kernel, dev)
    return hipFuncSetAttribute(kernel, attrib, value) if result[0] == OK else result
