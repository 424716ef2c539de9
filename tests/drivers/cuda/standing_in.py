"""Puts the stand-in of `standin.hpp` in the place of CUDA's driver, and a compiler of empty kernels beside it."""

from __future__ import annotations

from unittest import mock

from forebay.compiler.cache import Entry
from forebay.compiler.spirv.declarations import Declared
from forebay.core.errors import BuildError
from forebay.queues.cuda import driver, programs

from . import standin
from .kernel_declarations import read_kernels

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
SIZED = {1: ".u8", 2: ".u16", 4: ".u32", 8: ".u64"}


def begin():
    """From here on forebay's CUDA is the stand-in; ``end()`` of what is returned restores the driver's library.

    Nothing may have looked for devices of CUDA yet.
    """
    patches = [
        mock.patch.object(driver, "LIBRARY", standin.PATH),
        # Not through the cache: a real device's programs are in it.
        mock.patch.object(programs, "_compiled", compiled),
    ]
    for patch in patches:
        patch.start()
    return patches


def inside():
    """Whether CUDA is the stand-in in this process."""
    return driver.LIBRARY == standin.PATH


def compiled(info, source, options):
    """In the place of NVIDIA's OpenCL compiler: the signatures of a source's kernels, with empty bodies."""
    try:
        kernels = read_kernels(source)
    except BuildError as error:
        raise BuildError(f"the program does not build on {info.name}\n{error}", log=str(error)) from None
    declared = {
        name: [
            Declared(each.name, each.type_name, each.kind, each.nbytes, each.read_only) for each in kernel.parameters
        ]
        for name, kernel in kernels.items()
    }
    return Entry((HEAD + "".join(map(entry, kernels.values()))).encode(), declared)


def entry(kernel):
    """The PTX of a kernel that does nothing."""
    parameters = ",\n".join(f"\t.param {parameter(each)}" for each in kernel.parameters)
    block = ", ".join(map(str, kernel.required_block)) if any(kernel.required_block) else ""
    required = f".reqntid {block}\n" if block else ""
    return f".entry {kernel.name}(\n{parameters}\n)\n{required}{{\n\tret;\n}}\n"


def parameter(declared):
    if declared.kind == "pointer":
        return f".u64 .ptr .global .align 1 {declared.name}"
    if declared.kind == "local":
        return f".u64 .ptr .shared .align 16 {declared.name}"
    if declared.nbytes in SIZED:
        return f"{SIZED[declared.nbytes]} {declared.name}"
    return f".align 8 .b8 {declared.name}[{declared.nbytes}]"
