"""One GPU over CUDA's driver. It makes queues, memory and kernels."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from forebay.core import errors
from forebay.core.driver import Adopted, BuiltProgram, DeviceInfo, DriverDevice, DriverKernel, Language, Limits
from forebay.queues.cuda import operations
from forebay.queues.cuda.nvrtc import NvrtcCompiler
from forebay.queues.cuda.operations import ContextHandle, CuMemory, CuProgram, SharingDevice
from forebay.queues.cuda.programs import LANGUAGES, KernelFacts, build_image, facts_of
from forebay.queues.cuda.ptx import MOVES, OWN_KERNELS
from forebay.queues.memory.allocation import ForeignMemory
from forebay.queues.memory.shapes import are_contiguous
from forebay.queues.memory.transfers import StagingPool

if TYPE_CHECKING:
    from forebay.queues.cuda.driver import CuNative

# A hardware channel takes 1,020 commands, and a process has as many channels as connections (measured on an H100). A
# quarter is divided among a channel's streams, each with its own limit. A third is the shared quota, which may all be
# used in one channel. The rest is for other packages' streams. It also keeps host functions, which count as 23 commands
# each where graphs are launched, below the 27 that fit there.
ROOM = 1020
INTERFACE = "__cuda_array_interface__"
ON_CUDA = 2  # DLPack's kDLCUDA


class CudaKernel(DriverKernel):
    """A kernel of the driver: its parameters and its limits. It makes kernel objects for plans."""

    def __init__(self, native: CuNative, program: CuProgram, facts: KernelFacts) -> None:
        self._program = program
        self._multiprocessors = native.multiprocessors
        self._function: int = program.function(facts.symbol)
        passed = facts.parameters[:-1] if facts.dynamic_shared else facts.parameters
        self._sizes = [parameter.nbytes for parameter in passed]
        alignments = iter(facts.local_alignments)
        self._alignments = [next(alignments) if each.kind == "local" else 0 for each in facts.parameters]
        limits = native.limits
        most, static = program.limits(self._function, limits.local_bytes if facts.local_alignments else 0)
        super().__init__(
            facts.name, facts.parameters, most, limits.group_size, limits.local_bytes, facts.required_block, 0, static
        )

    def groups_at_once(self, block: tuple[int, int, int], local_bytes: int) -> int:
        groups = self._program.groups_at_once(self._function, math.prod(block), local_bytes)
        return int(groups) * self._multiprocessors

    def create(self, follows: bool) -> int:
        return int(self._program.create_kernel(self._function, self._sizes, self._alignments))


class CudaDevice(SharingDevice, DriverDevice):
    """One GPU, once the driver's functions are loaded. The context handle is a CuContext of its primary context."""

    has_addresses = True
    timing_is_free = True  # only timed events differ
    takes_pageable = False
    reads_pageable_late = False
    shared_room = ROOM // 3
    most_held: int  # each occupies a hardware connection; measured with 32 of them (docs/cuda.md)
    languages: tuple[Language, ...] = LANGUAGES
    table: int = operations.TABLE
    functions = operations.FUNCTIONS

    def __init__(self, info: DeviceInfo) -> None:
        self.info = info
        self.native: CuNative = info.native
        self.limits: Limits = self.native.limits
        self.handle = ContextHandle(self.native.ordinal, OWN_KERNELS.encode() + b"\0", self.native.migrates)
        self.context_handle: int = self.handle.address
        self.priorities: tuple[int, ...] = self.handle.priorities
        self.has_ipc: bool = self.native.has_ipc
        connections = self.native.connections
        self.most_held = connections * 3 // 4 if connections >= 16 else connections // 2
        self.keeps_gil_below = self._room()
        own = CuProgram.own(self.handle)
        self._moves = {each.name: CudaKernel(self.native, own, each) for each in facts_of(OWN_KERNELS, MOVES)}
        self.stage = StagingPool(partial(CuMemory, self.handle, usm_type="host")).take  # type: ignore[method-assign]

    # -- queues

    def create_queue(self, priority: int, timing: bool) -> tuple[int, int]:
        queue: tuple[int, int] = self.handle.create_queue(priority)
        self.keeps_gil_below = self._room()
        return queue

    def _room(self) -> int:
        return max(ROOM // 4 // max(-(-self.handle.streams // self.native.connections), 1), 1)

    # -- memory

    def allocate(self, nbytes: int, usm_type: str = "device") -> CuMemory:
        """Managed memory is the kind that both share."""
        if usm_type != "host":
            self.check_size(nbytes)
        if nbytes >> 48:  # exceeds every address
            raise errors.OutOfMemoryError(f"{nbytes} bytes of {usm_type} memory are more than {self.info.name} has")
        if usm_type == "shared" and not self.limits.has_shared:
            raise errors.NotSupportedError(f"shared memory: {self.info.name} has none")
        return CuMemory(self.handle, max(nbytes, 1), usm_type)

    takes_over = "memory of CUDA (__cuda_array_interface__: CuPy, PyTorch, numba)"

    def can_reach(self, peer: DriverDevice) -> bool:
        return isinstance(peer, CudaDevice) and bool(self.handle.can_reach(peer.handle))

    def reach(self, peer: DriverDevice) -> bool:
        return isinstance(peer, CudaDevice) and bool(self.handle.reach(peer.handle))

    def adopt_peer(self, owner: object, address: int, nbytes: int) -> ForeignMemory:
        return ForeignMemory(owner, address, nbytes)

    def can_adopt(self, thing: object) -> bool:
        return hasattr(type(thing), INTERFACE)

    def adopt_memory(self, thing: object) -> Adopted | None:
        with self.handle:
            described = getattr(thing, INTERFACE, None)
        if not isinstance(described, dict):
            return None
        shape, dtype = tuple(described["shape"]), np.dtype(described["typestr"])
        if described.get("descr") and dtype.kind == "V":
            dtype = np.dtype(described["descr"])
        address, read_only = described["data"]
        strides = described.get("strides")
        problem = "is read-only" if read_only else "has a mask" if described.get("mask") is not None else ""
        if not problem and strides is not None and not are_contiguous(shape, tuple(strides), dtype.itemsize):
            problem = "is not C-contiguous"
        if problem:
            raise errors.InvalidArgumentError(f"adopt: this {type(thing).__name__} {problem}")
        return Adopted(ForeignMemory(thing, int(address or 0), math.prod(shape) * dtype.itemsize), shape, dtype)

    def array_interface(self, name: str, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> object | None:
        """CuPy, PyTorch and numba use it. They do not wait for forebay's queues."""
        if name != INTERFACE:
            return None
        return {
            "data": (address, False), "shape": shape, "strides": None, "typestr": dtype.str, "descr": dtype.descr,
            "version": 3, "stream": None,
        }  # fmt: skip

    def queue_interface(self, name: str, native: int) -> object | None:
        return (lambda: (0, native)) if name == "__cuda_stream__" else None

    def hand_over(self, thing: Any, native: int) -> None:
        """By DLPack's handshake, or for the stream that ``__cuda_array_interface__`` names."""
        with self.handle:
            if hasattr(type(thing), "__dlpack__"):
                try:
                    thing.__dlpack__(stream=native)  # the capsule is dropped; the wait stays
                except BufferError as error:
                    raise errors.InvalidArgumentError(
                        f"as_buffer: this {type(thing).__name__} is not for {self.info.name}: {error}"
                    ) from None
                return
            stream = getattr(thing, INTERFACE).get("stream")
        if stream is not None:
            self.handle.order(native, stream)

    def dlpack_device(self, usm_type: str) -> tuple[int, int] | None:
        """Host and shared memory is passed on as host memory."""
        return (ON_CUDA, self.native.ordinal) if usm_type == "device" else None

    def order_stream(self, stream: int, native: int) -> None:
        if not isinstance(stream, int) or stream <= 0:
            raise errors.InvalidArgumentError(f"a stream of DLPack is a handle, or 1 or 2, not {stream!r}")
        self.handle.order(stream, native)

    # -- programs

    def cpp_compiler(self) -> NvrtcCompiler:
        return NvrtcCompiler(self.native.architecture, self.native.driver_version)

    def build(self, language: Language, source: str | bytes, options: tuple[str, ...]) -> BuiltProgram:
        image = build_image(self.info, language, source, options)
        program = CuProgram(self.handle, image.code, self.info.name)
        kernels = {facts.name: CudaKernel(self.native, program, facts) for facts in image.kernels}

        def variable(name: str) -> Any:
            return program.variable(image.variables[name]) if name in image.variables else None

        return BuiltProgram(kernels, variable, image.log, image.accesses)

    def moves(self) -> BuiltProgram:
        return BuiltProgram(self._moves)
