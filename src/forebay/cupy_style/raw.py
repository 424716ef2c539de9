"""CuPy's raw kernels."""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from forebay.compiler.options import split_options
from forebay.compiler.program import KernelInfo, Source
from forebay.core.errors import ArgumentTypeError, InvalidArgumentError, NotSupportedError
from forebay.hiprtc.front_end import current_device, prepare
from forebay.queues.device import Device, find_built, keep_built
from forebay.queues.kernels.kernel import Kernel
from forebay.queues.kernels.program import Program
from forebay.queues.launch.launch import local, null
from forebay.queues.memory.buffer import Buffer
from forebay.queues.memory.shapes import read_int
from forebay.queues.queue import Queue

Dimensions = int | tuple[int, ...]
_Built = tuple[Program, dict[str, KernelInfo], dict[str, str]]

# What may make a name that the source does not have in one piece
MAKES_NAMES = re.compile(r"##|#\s*include")
WORD = re.compile(r"[^\W\d]\w*")


def _check_name(what: str, name: Any, code: str, options: Sequence[str]) -> None:
    """Refuse a name that is none, or that the source does not have."""
    if not isinstance(name, str):
        raise ArgumentTypeError(f"{what}: a kernel's name is a str, not {type(name).__name__}")
    words = WORD.findall(name.partition("<")[0])
    if not words or re.match(r"\d", name):
        raise InvalidArgumentError(f"{what}: {name!r} cannot be a kernel's name")
    text = " ".join((code, *options))
    if not re.search(rf"\b{words[-1]}\b", text) and not MAKES_NAMES.search(text):
        raise InvalidArgumentError(f"{what}: there is no {words[-1]!r} in the source")


def check_stream(what: str, stream: Any) -> None:
    """Refuse what is no Queue. Raises `ArgumentTypeError`."""
    if stream is not None and not isinstance(stream, Queue):
        raise ArgumentTypeError(f"{what}: stream is a Queue (device.queue()), not {type(stream).__name__}")


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
        for name in self.name_expressions:
            _check_name("RawModule: name_expressions", name, code, self.options)
        self._device = device
        self._lock = threading.Lock()
        self._first: Callable[[], Device | None] = lambda: None  # the first it was compiled for, of those there are

    def compile(self) -> None:
        """Compile now, for the device given at the beginning, or the default one. Blocks.

        Raises
        ------
        BuildError
            With the compiler's log.
        """
        self._program(None)

    def get_function(self, name: str) -> RawKernel:
        """Return a kernel by its name in an ``extern "C"`` block, its name if that is unique, or a name expression.

        Compiles, which blocks, if nothing has yet.

        Raises
        ------
        InvalidArgumentError
            When the program has no such kernel.
        BuildError
        """
        kernel = RawKernel.__new__(RawKernel)
        kernel._begin(self, name)
        self._kernel(name, None)
        return kernel

    def get_global(self, name: str) -> Buffer:
        """Return the memory of the ``__constant__`` or ``__device__`` variable `name`.

        Raises
        ------
        NotSupportedError
            If the driver does not report where variables are.
        """
        program, _, lowered = self._program(None)
        return program.get_global(lowered.get(name, name))

    def _program(self, device: Device | None) -> _Built:
        device = self._device or device or self._first_open() or current_device()
        built: _Built | None = find_built(device, self, None)
        if built is not None:
            return built
        with self._lock:
            built = find_built(device, self, None)
            if built is None:
                options = split_options(self.options)
                made = prepare(device, Source(self.code, "program.cu", {}, options, self.name_expressions))
                kernels = {kernel.symbol: kernel for kernel in made.kernels}
                kernels |= {kernel.name: kernel for kernel in made.kernels}
                built = device.program(made.text, made.options), kernels, made.lowered
                keep_built(device, self, None, built)
                if self._first_open() is None:
                    self._first = weakref.ref(device)
            return built

    def _first_open(self) -> Device | None:
        first = self._first()
        return None if first is None or first.closed else first

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

    Raises
    ------
    InvalidArgumentError
        When the source has no such name.
    """

    __slots__ = "__weakref__", "_carveout", "_module", "_most_shared", "name"

    name: str
    _module: RawModule
    _most_shared: int | None
    _carveout: int

    def __init__(self, code: str, name: str, options: Sequence[str] = (), **others: Any) -> None:
        _check_name("RawKernel", name, code, options)
        expressions = [name] if "<" in name else []
        self._begin(RawModule(code=code, options=options, name_expressions=expressions, **others), name)

    def _begin(self, module: RawModule, name: str) -> None:
        self._module, self.name = module, name
        self._most_shared, self._carveout = None, -1

    def __call__(
        self,
        grid: Dimensions,
        block: Dimensions,
        args: Sequence[Any],
        *,
        shared_mem: int = 0,
        stream: Queue | None = None,
        enable_cooperative_groups: bool = False,
    ) -> None:
        """Launch the kernel. It does not block, but for NumPy arrays, which it waits for.

        Parameters
        ----------
        grid, block
            Blocks, and threads of each, in up to three dimensions.
        args : sequence
            Buffers and NumPy arrays for pointers, None for a null pointer; numbers and NumPy scalars, converted to the
            parameters' types.
        shared_mem : int
            Bytes of ``extern __shared__`` memory.
        stream : Queue, optional
            By default the current queue of the first Buffer's device.
        enable_cooperative_groups
            Refused: the blocks of a grid cannot wait for each other.

        Raises
        ------
        InvalidArgumentError
            For more shared memory than `max_dynamic_shared_size_bytes`, and as `Queue.launch`.
        """
        if enable_cooperative_groups:
            raise NotSupportedError(f"{self.name}: the blocks of a grid cannot wait for each other: launch twice")
        check_stream(self.name, stream)
        first = next((arg.device for arg in args if isinstance(arg, Buffer)), None)
        kernel, info = self._module._kernel(self.name, stream.device if first is None and stream else first)
        shared_mem = read_int(shared_mem, f"{self.name}: shared_mem is an int")
        if shared_mem and self._most_shared is not None and shared_mem > self._most_shared:
            raise InvalidArgumentError(
                f"{self.name}: {shared_mem} bytes of shared memory, max_dynamic_shared_size_bytes is "
                f"{self._most_shared}"
            )
        more = [local(max(shared_mem, 1))] if info.dynamic_shared else []
        queue = kernel.device.current_queue if stream is None else stream
        given = [null if arg is None else arg for arg in args]
        queue.launch(kernel, grid, block, *given, *more)

    @property
    def code(self) -> str:
        """The source."""
        return self._module.code

    @property
    def options(self) -> tuple[str, ...]:
        """The options of the compiler."""
        return self._module.options

    @property
    def attributes(self) -> dict[str, int]:
        """What CuPy tells of a kernel, by CuPy's names; 0 for what no driver tells.

        Known are max_threads_per_block, shared_size_bytes (0 on SYCL) and max_dynamic_shared_size_bytes. The kernel is
        compiled for that, if it is not yet.
        """
        return {
            "max_threads_per_block": self.max_threads_per_block,
            "shared_size_bytes": self.shared_size_bytes,
            "const_size_bytes": 0,
            "local_size_bytes": 0,
            "num_regs": 0,
            "ptx_version": 0,
            "binary_version": 0,
            "cache_mode_ca": 0,
            "max_dynamic_shared_size_bytes": self.max_dynamic_shared_size_bytes,
            "preferred_shared_memory_carveout": self._carveout,
        }

    @property
    def max_threads_per_block(self) -> int:
        """How many threads a block may have on the device."""
        return self._module._kernel(self.name, None)[0].max_block_size

    @property
    def shared_size_bytes(self) -> int:
        """Shared memory that the kernel itself declares, in bytes; 0 where the driver does not tell."""
        return self._module._kernel(self.name, None)[0].static_local_bytes

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        """The most bytes for `shared_mem` in a launch: all there is, unless a smaller number was set.

        Setting it raises InvalidArgumentError for more than the device has beside `shared_size_bytes`.
        """
        return self._most_dynamic() if self._most_shared is None else self._most_shared

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, nbytes: int) -> None:
        most = self._most_dynamic()
        nbytes = read_int(nbytes, f"{self.name}: max_dynamic_shared_size_bytes is an int")
        if not 0 <= nbytes <= most:
            raise InvalidArgumentError(f"{self.name}: {nbytes} bytes of shared memory for a launch: there are {most}")
        self._most_shared = nbytes

    def _most_dynamic(self) -> int:
        kernel = self._module._kernel(self.name, None)[0]
        return max(kernel.device.driver.limits.local_bytes - kernel.static_local_bytes, 0)

    @property
    def preferred_shared_memory_carveout(self) -> int:
        """How much of the cache the kernel would like as shared memory, in percent, or -1. It changes nothing.

        Setting it raises InvalidArgumentError for what is no percentage.
        """
        return self._carveout

    @preferred_shared_memory_carveout.setter
    def preferred_shared_memory_carveout(self, percent: int) -> None:
        percent = read_int(percent, f"{self.name}: preferred_shared_memory_carveout is an int")
        if not -1 <= percent <= 100:
            raise InvalidArgumentError(f"{self.name}: {percent!r} is no percentage from 0 to 100, or -1")
        self._carveout = percent

    def compile(self) -> None:
        """Compile now; see `RawModule.compile`."""
        self._module.compile()
