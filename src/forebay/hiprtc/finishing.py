"""Makes what drivers of OpenCL and Level Zero take of the SPIR-V that clang made for HIP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forebay.queues.kernels.parameters import KernelSignature
from forebay.spirv import opcodes as op
from forebay.spirv.clang_module import ClangModule
from forebay.spirv.intel_cpu.bounds import keep_bounds
from forebay.spirv.intel_cpu.early_returns import RETURNS_EARLY, find_early_returns
from forebay.spirv.intel_cpu.spinning import part_waiting
from forebay.spirv.module import ModuleError, text_of

__all__ = ["ModuleError", "finish_module", "imported_functions"]


def finish_module(
    module: bytes, kernels: Sequence[KernelSignature], renamed: Mapping[str, str]
) -> tuple[bytes, set[str], list[str]]:
    """Return the module as drivers take it, the kernels whose last parameter is dynamic shared memory, and warnings.

    Parameters
    ----------
    module
        What clang made.
    kernels
        The kernels in it.
    renamed
        New names of kernels, by symbol.

    Raises
    ------
    ModuleError
    """
    spirv = ClangModule(module)
    if not spirv.entries:
        raise ModuleError("the program has no kernel")
    spirv.say_source()
    spirv.widen_bools()
    spirv.number_pointers()
    spirv.free_width()
    part_waiting(spirv)
    keep_bounds(spirv)
    relying = spirv.relying()
    dynamic = spirv.pass_shared_memory()
    spirv.describe(kernels, dynamic, renamed)
    found = find_early_returns(spirv.dumps())
    if found.kernels:
        spirv.say(RETURNS_EARLY)
    warnings = [
        f"warning: the kernel {renamed.get(name, name)} reads volatile shared memory that other threads of a warp have "
        "written, without a barrier: threads of a warp do not go on together here, so __syncwarp() must stand between"
        for name in relying
    ]
    warnings += [
        f"warning: threads of the kernel {name} may return or part before a barrier that others reach. Intel's runtime "
        f"for CPUs does not let that pass, and forebay cannot mend it here: {reason}"
        for name, reason in found.refused.items()
    ]
    return spirv.dumps(), {renamed.get(name, name) for name in dynamic}, warnings


def imported_functions(module: bytes) -> list[str]:
    """Return the names of the functions that a module calls and does not have."""
    spirv = ClangModule(module)
    functions = {each[2] for each in spirv.all_of(op.FUNCTION)}
    return [
        text_of(each[3:-1])
        for each in spirv.all_of(op.DECORATE)
        if each[2] == op.LINKAGE and each[-1] == op.IMPORTED and each[1] in functions
    ]
