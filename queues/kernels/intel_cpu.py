"""A program as Intel's runtime for CPUs built it: which kernels it spoiled, and how to build the others again."""

from __future__ import annotations

from collections.abc import Collection

from forebay.compiler.spirv.intel_cpu.warps_made import NO_WARPS
from forebay.compiler.spirv.module import ModuleError, SpirvModule
from forebay.core.driver import BuiltProgram, DriverKernel
from forebay.core.errors import NotSupportedError

__all__ = ["IntelCpuProgram", "without_vectors"]


def without_vectors(module: bytes) -> bytes | None:
    """Return SPIR-V whose kernels are run thread by thread, but for those with warps; None if all have warps."""
    try:
        spirv = SpirvModule(module)
    except ModuleError:
        return None
    return spirv.dumps() if spirv.part_threads(spirv.entries) else None


class IntelCpuProgram(BuiltProgram):
    """A program of SPIR-V.

    Parameters
    ----------
    natives
        Its kernels, variables and log.
    module
        What was built, changed for this runtime.
    options
        With these.
    vectors
        False where its kernels run thread by thread, because the compiler ended its process over vectors.
    refused
        The kernels that have warps by their source, and none as they were built. Asking for one raises
        `NotSupportedError`.
    """

    def __init__(
        self,
        natives: BuiltProgram,
        module: bytes,
        options: tuple[str, ...],
        vectors: bool,
        refused: Collection[str],
    ) -> None:
        super().__init__(natives, natives.variable, natives.log, natives.accesses)
        self._module = module
        self._vectors = vectors
        self.options = options
        self.refused = refused

    def __getitem__(self, name: str) -> DriverKernel:
        if name in self.refused:
            raise NotSupportedError(f"kernel {name!r}: {NO_WARPS}")
        return super().__getitem__(name)

    def over(self, natives: BuiltProgram) -> IntelCpuProgram:
        """The same program with kernels of another driver over this runtime."""
        return IntelCpuProgram(natives, self._module, self.options, self._vectors, self.refused)

    @property
    def module(self) -> bytes:
        """What another compiler of this runtime builds in this process without ending it."""
        return self._module if self._vectors else without_vectors(self._module) or self._module
