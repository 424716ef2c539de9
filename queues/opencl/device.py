"""One OpenCL device and its context. It makes queues, memory and kernels."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl

from forebay.core import errors
from forebay.core.driver import Adopted, BuiltProgram, DeviceInfo, DriverDevice, Language, Limits
from forebay.core.intel_cpu import INTEL_CPU
from forebay.queues.kernels import build
from forebay.queues.opencl import operations
from forebay.queues.opencl.operations import AdoptedMemory, ClMemory, MemoryPart
from forebay.queues.opencl.programs import Builder, one_at_a_time

CL_QUEUE_PRIORITY_KHR = 0x1096

# A queue surely takes this many commands before an enqueue blocks. NVIDIA's driver takes 1021 behind a running kernel
# (H100, driver 580); CPU runtimes have no limit (100,000 behind a gate, measured on Intel's and PoCL).
NEVER_BLOCKS = 2**63
KEEPS_GIL_BELOW = 256

# From forebay's priorities (lower is more urgent, as in HIP) to the bits of cl_khr_priority_hints.
PRIORITIES = {-1: 1 << 0, 0: 1 << 1, 1: 1 << 2}


def is_a_cpu(native: cl.Device) -> bool:
    """Whether the device is a CPU, which shares the host's memory."""
    return bool(native.type & cl.device_type.CPU)


def make_part(memory: ClMemory | AdoptedMemory, offset: int, nbytes: int) -> tuple[MemoryPart, int]:
    """A memory object for a part of memory, and its handle."""
    part = MemoryPart(memory, offset, nbytes)
    return part, part.handle


class OpenCLDevice(DriverDevice):
    """One OpenCL device in a context of its own, by default a new one. The context handle is a cl_context."""

    def __init__(self, info: DeviceInfo, context: cl.Context | None = None) -> None:
        operations.load()
        self.info = info
        self.native: cl.Device = info.native
        self._map_queue: cl.CommandQueue | None = None  # pinned memory is mapped once and stays mapped
        self.context: Any = context or cl.Context([self.native])
        self.context_handle: int = self.context.int_ptr
        is_cpu = is_a_cpu(self.native)
        # NVIDIA's driver (580) reads pageable memory when the copy is submitted
        self.reads_pageable_late = is_cpu
        try:
            svm = self.native.svm_capabilities
        except cl.Error:  # OpenCL 1.x devices lack this query
            svm = 0
        version = tuple(map(int, self.native.platform.version.split()[1].split(".")))
        self.has_addresses: bool = bool(svm & cl.device_svm_capabilities.COARSE_GRAIN_BUFFER) and version >= (2, 1)
        self.has_shared: bool = bool(svm & cl.device_svm_capabilities.FINE_GRAIN_BUFFER)
        native = self.native
        sizes, shares = [*native.max_work_item_sizes, 1, 1][:3], bool(native.host_unified_memory)
        self.limits = Limits.of(native, sizes, native.max_constant_buffer_size, shares, self.has_shared)
        self.takes_host: bool = is_cpu and bool(svm & cl.device_svm_capabilities.FINE_GRAIN_SYSTEM)
        self.is_in_place: bool = is_cpu and self.has_addresses
        # NVIDIA's driver refuses a memory object for a parameter that ever had an address, so there forebay uses one
        # kind. On CPUs both work on the same parameter (measured), and setting the memory object is cheaper.
        self.has_memory_objects: bool = is_cpu or not self.has_addresses
        self.unrolls_recursion = is_cpu
        takes_spirv = "cl_khr_il_program" in native.extensions or bool(getattr(native, "il_version", ""))
        self.languages = (Language.SPIRV, Language.OPENCL_C) if takes_spirv else (Language.OPENCL_C,)
        self.keeps_gil_below = NEVER_BLOCKS if is_cpu else KEEPS_GIL_BELOW
        # On Intel's runtime (2026.2.0) a waiting thread executes commands of any queue, and returns when it finds none.
        # On PoCL (3.1) it waits up to 2.6 s for locks that a submitting thread nearly always holds.
        self.waits_starve = is_cpu
        has_priorities = "cl_khr_priority_hints" in native.extensions.split()
        self.priorities: tuple[int, ...] = tuple(PRIORITIES) if has_priorities else (0,)
        if not self.has_memory_objects:
            self._fill_by_kernel()

    def _fill_by_kernel(self) -> None:
        kernel: Any = self.build(Language.OPENCL_C, operations.FILL_SOURCE, ())["fill"]
        # not kept by the finalizer, whose references end with the interpreter, in a forked child, too
        self._fill_program: cl.Program = kernel.program
        handle = self._fill_program.int_ptr
        operations.use_fill_program(self.context_handle, handle, True)
        weakref.finalize(self, operations.use_fill_program, self.context_handle, handle, False).atexit = False

    # -- queues

    def create_queue(self, priority: int, timing: bool) -> tuple[cl.CommandQueue, int]:
        """A pyopencl queue, and its handle, which has a reference of its own."""
        # pyopencl's stubs want enumerations where its functions take ints
        properties: Any = cl.command_queue_properties.PROFILING_ENABLE if timing else 0
        if priority and len(self.priorities) > 1:
            properties = [cl.queue_properties.PROPERTIES, properties, CL_QUEUE_PRIORITY_KHR, PRIORITIES[priority], 0]
            queue = cl.CommandQueue(self.context, self.native, properties)
        else:
            queue = cl.CommandQueue(self.context, self.native, properties=properties)
        return queue, operations.retained(queue)

    # -- memory

    def allocate(self, nbytes: int, usm_type: str = "device") -> ClMemory:
        """Zero bytes get one, because no driver allocates zero bytes. Raises `NotSupportedError` for host memory, which
        OpenCL does not have, and for shared memory without fine-grained SVM.
        """
        if usm_type != "device" and not (usm_type == "shared" and self.has_shared):
            raise errors.NotSupportedError(
                f"{usm_type} memory: {self.info.name} has none; forebay.host_empty() is memory of the host that it "
                "copies from without staging"
            )
        self.check_size(nbytes)
        in_place = self.is_in_place or usm_type == "shared"
        return ClMemory(self.context, max(nbytes, 1), self.has_addresses, self.has_memory_objects, usm_type, in_place)

    @property
    def takes_over(self) -> str:
        host = ", and memory of the host (__dlpack__, __array_interface__)" if self.takes_host else ""
        return f"memory of pyopencl in its context{host}"

    def can_adopt(self, thing: object) -> bool:
        return type(thing).__module__.startswith("pyopencl")

    def adopt_memory(self, thing: Any) -> Adopted | None:
        """As `DriverDevice.adopt_memory`: a `pyopencl.Buffer`, a `pyopencl.array.Array`, or SVM of pyopencl."""
        if isinstance(thing, cl.MemoryObjectHolder):
            if not isinstance(thing, cl.Buffer) and thing.type != cl.mem_object_type.BUFFER:
                raise errors.InvalidArgumentError("as_buffer: an image of OpenCL is no memory with an order of bytes")
            if thing.context != self.context:
                raise errors.InvalidArgumentError(
                    f"as_buffer: this {type(thing).__name__} is of another pyopencl.Context than {self.info.name}; "
                    "Device.adopt(context) makes a Device of a given context"
                )
            memory = AdoptedMemory(thing, thing.int_ptr, 0, thing.size)
            return Adopted(memory, (thing.size,), np.dtype(np.uint8))
        if isinstance(thing, (cl.SVMPointer, cl.SVM)):
            address, nbytes = thing.svm_ptr, thing.size
            if address is None or nbytes is None:
                raise errors.InvalidArgumentError(
                    "as_buffer: this memory of pyopencl was released, or has no known size"
                )
            memory = AdoptedMemory(thing, 0, address, nbytes)
            return Adopted(memory, (nbytes,), np.dtype(np.uint8), listed=True)
        if type(thing).__module__ == "pyopencl.array" and hasattr(thing, "base_data"):
            return self._adopt_array(thing)
        return None

    def _adopt_array(self, array: Any) -> Adopted:
        dtype = np.dtype(array.dtype)
        if not array.flags.c_contiguous:
            raise errors.InvalidArgumentError(
                f"as_buffer: this pyopencl array is not C-contiguous (shape {array.shape}, strides {array.strides} "
                "bytes): pass array.copy()"
            )
        if array.base_data is None:  # pyopencl has no memory for an empty array
            return Adopted(AdoptedMemory(array, 0, 0, 0), array.shape, dtype)
        base = self.adopt_memory(array.base_data)
        if base is None:
            raise errors.ArgumentTypeError(f"as_buffer: a pyopencl array over {type(array.base_data).__name__}")
        return base._replace(shape=array.shape, dtype=dtype, offset=array.offset)

    def adopt_event(self, thing: object) -> None:
        """Refuses a `pyopencl.Event`: the opening of a user's gate is unknown."""
        if isinstance(thing, cl.Event):
            raise errors.ArgumentTypeError(
                "wait() needs an Event or a Queue to come after, not pyopencl.Event: adopt the queue that it is of, by "
                "Device.adopt_queue, and wait for that"
            )

    def array_over(
        self, lend: Callable[[], tuple[Any, int]], shape: tuple[int, ...], dtype: np.dtype[Any], queue: object
    ) -> Any:
        """Makes a `pyopencl.array.Array`."""
        from pyopencl.array import Array

        if not isinstance(queue, cl.CommandQueue):
            raise errors.ArgumentTypeError(
                f"to_pyopencl needs a pyopencl.CommandQueue, or the Queue that adopted it, not {type(queue).__name__}"
            )
        if queue.context != self.context:
            raise errors.InvalidArgumentError(
                f"to_pyopencl: this queue is of another pyopencl.Context than {self.info.name}; "
                "Device.adopt(context) makes a Device of a given context"
            )
        if 0 in shape:
            return Array(queue, shape, dtype)
        native, start = lend()
        return Array(queue, shape, dtype, data=cl.Buffer.from_int_ptr(self.lend(native), retain=True), offset=start)

    def adopt_host(self, owner: object, address: int, nbytes: int) -> AdoptedMemory:
        return AdoptedMemory(owner, 0, address, nbytes, "host")

    def lend(self, memory: ClMemory | AdoptedMemory) -> int:
        """Return the handle of a memory object for others to retain; their references keep the memory. Raises
        `InvalidArgumentError` for memory of a pool or a program, and `NotSupportedError` if memory has addresses only.
        """
        if not isinstance(memory, (ClMemory, AdoptedMemory)):
            raise errors.InvalidArgumentError(
                "to_pyopencl: this memory is handed out again (Queue.alloc), or is a variable of a program: no other "
                "package can keep it"
            )
        if not memory.handle:
            raise errors.NotSupportedError(f"memory of {self.info.name} is addresses alone, and no memory object")
        if isinstance(memory, ClMemory):
            memory.lend()
        return memory.handle

    def part(self, memory: ClMemory | AdoptedMemory, offset: int, nbytes: int) -> tuple[MemoryPart, int] | None:
        if memory.address or (offset == 0 and nbytes == memory.nbytes) or nbytes == 0:
            return None
        alignment = self.native.mem_base_addr_align // 8
        if offset % alignment:
            raise errors.NotSupportedError(
                f"a part that begins at byte {offset}: this memory of {self.info.name} has no address, and parts of "
                f"it begin at multiples of {alignment} bytes"
            )
        return make_part(memory, offset, nbytes)

    @property
    def part_of(self) -> Callable[[ClMemory, int, int], tuple[MemoryPart, int]] | None:
        """For CPUs, where setting an address takes three times as long."""
        return make_part if self.has_addresses and self.has_memory_objects else None

    def pinned(self, nbytes: int) -> tuple[int, Any]:
        """Returns a buffer that stays mapped. Blocks until it is mapped."""
        self.check_size(nbytes, " of pinned host memory")
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
        enqueue_map: Any = cl.enqueue_map_buffer
        both: Any = cl.map_flags.READ | cl.map_flags.WRITE
        try:
            buffer = cl.Buffer(self.context, flags, max(nbytes, 1))
            if self._map_queue is None:
                self._map_queue = cl.CommandQueue(self.context, self.native)
            array, event = enqueue_map(self._map_queue, buffer, both, 0, (max(nbytes, 1),), np.uint8, is_blocking=False)
            (operations.wait_for if self.waits_starve else cl.Event.wait)(event)
        except cl.MemoryError as error:
            raise errors.OutOfMemoryError(f"{nbytes} bytes of pinned host memory: {error}") from None
        return array.ctypes.data, (array, buffer)

    # With profiling each command reads the clock: 45 ns of 540 for a launch from C on Intel's CPU runtime, 20 of 290 on
    # PoCL, 110 of 1,440 on NVIDIA (H200).
    timing_is_free = False
    takes_pageable = True
    table: int = operations.TABLE
    functions = operations.FUNCTIONS

    # -- programs

    def expect_spirv(self) -> None:
        if self.info.platform == INTEL_CPU:
            build.expect()

    def build(self, language: Language, source: str | bytes, options: tuple[str, ...]) -> BuiltProgram:
        with one_at_a_time:
            return Builder(self.context, self.info, source, options).build()
