"""CuPy's raw kernels: sources in CUDA or HIP C++, compiled by `forebay.hiprtc`'s compiler and launched as CuPy does.

    from forebay.cupy_style import RawKernel      # instead of: from cupy import RawKernel

Arrays are forebay's Buffers, or NumPy arrays, which are copied in before the kernel and out after it. A kernel runs on
the device of its first Buffer, on the thread's current queue of that device (``with queue:``).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

import forebay.face  # noqa: F401 - it has Devices take HIP C++
from forebay.core.errors import InvalidArgumentError, NotSupportedError
from forebay.hiprtc.current import current_device
from forebay.hiprtc.front_end import prepare
from forebay.hiprtc.options import split_options
from forebay.queues.device import Device
from forebay.queues.kernels.kernel import Kernel
from forebay.queues.kernels.program import Program
from forebay.queues.kernels.signatures import KernelInfo
from forebay.queues.launch.arguments import local, null
from forebay.queues.memory.buffer import Buffer

__all__ = ["RawKernel", "RawModule"]

Dimensions = int | tuple[int, ...]


class RawModule:
    """A program in CUDA or HIP C++, as CuPy's class of this name.

    Parameters
    ----------
    code : str
        The source. It is compiled when something is first asked for, for the device that is used then.
    path : str
        Refused: a binary of CUDA.
    options : tuple of str
        As for `forebay.hiprtc.hiprtcCompileProgram`.
    name_expressions : sequence of str
        Instances of kernel templates, such as ``"scale<float>"``.
    backend, translate_cucomplex, enable_cooperative_groups, jitify
        Taken and not needed: there is one compiler, it has the C++ library, and ``cuComplex.h`` is one of its headers.
    device : Device
        Where to compile; without it the device of the first Buffer in a launch, or the default one.
    """

    def __init__(
        self,
        *,
        code: str | None = None,
        path: str | os.PathLike[str] | None = None,
        options: Sequence[str] = (),
        backend: str = "nvrtc",
        translate_cucomplex: bool = False,
        enable_cooperative_groups: bool = False,
        name_expressions: Sequence[str] | None = None,
        jitify: bool = False,
        device: Device | None = None,
    ) -> None:
        if (code is None) == (path is None):
            raise InvalidArgumentError("RawModule: give either code or path")
        if path is not None or code is None:
            raise NotSupportedError(f"RawModule: {path} is a binary of CUDA; give the source as code")
        self.code = code
        self.options: tuple[str, ...] = tuple(options)
        self.name_expressions: list[str] = list(name_expressions or ())
        self._device = device
        self._lock = threading.Lock()
        self._built: dict[Device, tuple[Program, dict[str, KernelInfo], dict[str, str]]] = {}

    def compile(self) -> None:
        """Compile now, for the device given at the beginning, or the default one. Blocks.

        Raises
        ------
        BuildError
            With the compiler's log.
        """
        self._program(None)

    def get_function(self, name: str) -> RawKernel:
        """Return a kernel by its name in an ``extern "C"`` block, its name if that is unique, or a name expression."""
        kernel = RawKernel.__new__(RawKernel)
        kernel._module, kernel.name = self, name
        return kernel

    def get_global(self, name: str) -> Buffer:
        """Return the memory of the ``__constant__`` or ``__device__`` variable `name`.

        Raises
        ------
        NotSupportedError
            Where the driver tells nobody where variables are.
        """
        program, _, lowered = self._program(None)
        return program.get_global(lowered.get(name, name))

    def _program(self, device: Device | None) -> tuple[Program, dict[str, KernelInfo], dict[str, str]]:
        device = self._device or device or next(iter(self._built), None) or current_device()
        with self._lock:
            if device not in self._built:
                made = prepare(device, self.code, "program.cu", {}, split_options(self.options), self.name_expressions)
                kernels = {kernel.symbol: kernel for kernel in made.kernels}
                kernels |= {kernel.name: kernel for kernel in made.kernels}
                program = device.program(made.text, made.options)
                self._built[device] = program, kernels, made.lowered
            return self._built[device]

    def _kernel(self, name: str, device: Device | None) -> tuple[Kernel, KernelInfo]:
        program, kernels, lowered = self._program(device)
        info = kernels.get(lowered.get(name, name))
        if info is None:
            raise InvalidArgumentError(f"RawModule: no kernel {name!r}; there are {', '.join(kernels) or 'none'}")
        return program[info.symbol], info


class RawKernel:
    """A kernel in CUDA or HIP C++, as CuPy's class of this name.

    Parameters
    ----------
    code : str
        The source.
    name : str
        The kernel's name; for an instance of a template, the name expression.
    options : tuple of str
        As for `forebay.hiprtc.hiprtcCompileProgram`.
    **others
        As for `RawModule`.

    Attributes
    ----------
    name : str
    """

    name: str
    _module: RawModule

    def __init__(self, code: str, name: str, options: Sequence[str] = (), **others: Any) -> None:
        self.name = name
        expressions = [name] if "<" in name else []
        self._module = RawModule(code=code, options=options, name_expressions=expressions, **others)

    def __call__(self, grid: Dimensions, block: Dimensions, args: Sequence[Any], *, shared_mem: int = 0) -> None:
        """Launch the kernel on the current queue. It does not block, but for NumPy arrays, which it waits for.

        Parameters
        ----------
        grid, block
            Blocks, and threads of each, in up to three dimensions.
        args : sequence
            Buffers and NumPy arrays for pointers, None for a null pointer; numbers and NumPy scalars, converted to the
            parameters' types.
        shared_mem : int
            Bytes of ``extern __shared__`` memory.
        """
        device = next((arg.device for arg in args if isinstance(arg, Buffer)), None)
        kernel, info = self._module._kernel(self.name, device)
        more = [local(max(shared_mem, 1))] if info.dynamic_shared else []
        given = [null if arg is None else arg for arg in args]
        kernel.device.current_queue.launch(kernel, grid, block, *given, *more)

    @property
    def code(self) -> str:
        """The source."""
        return self._module.code

    @property
    def options(self) -> tuple[str, ...]:
        """The options of the compiler."""
        return self._module.options

    @property
    def max_threads_per_block(self) -> int:
        """How many threads a block may have on the device."""
        return self._module._kernel(self.name, None)[0].max_block_size

    def compile(self) -> None:
        """Compile now; see `RawModule.compile`."""
        self._module.compile()
