"""OpenCL's calls, on the queues of a forebay device."""

from __future__ import annotations

import ctypes
from typing import Any

import pyopencl as cl

import forebay as fb

from .. import kernels
from . import Call, address_of

ONE = ctypes.c_size_t(1)
EXECUTION_STATUS = 0x11D3
SVM_READ_WRITE, BUFFER_USE_HOST_PTR = 1, 1 | 1 << 3
SIMULTANEOUS_USE = 0x1293, 1, 0  # CL_COMMAND_BUFFER_FLAGS_KHR, or a command buffer cannot follow itself


class Driver:
    """Makes calls of OpenCL. Streams are forebay's queues."""

    def __init__(self, device: Any):
        self.device = device
        self.driver: Any = device.driver
        self._library = ctypes.CDLL(cl._cl.__file__)  # the loader that pyopencl, and so forebay, uses
        inner = cl._cl._Program(self.driver.context, kernels.opencl())
        inner._build(b"", None)  # without pyopencl's warning of what the compiler says
        self.program: Any = cl.Program(inner)

    def function(self, name: str) -> int:
        """The address of a function."""
        return ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value or 0

    def call(self, name: str, *arguments: int, loaded: tuple[int, ...] = (), result: int = 0) -> Call:
        """A call of a function of the loader."""
        return Call(self.function(name), arguments, loaded, result)

    @staticmethod
    def handle(stream: fb.Queue) -> int:
        """The driver's queue."""
        return int(stream.native.int_ptr)

    @staticmethod
    def settle(stream: fb.Queue) -> None:
        """Wait for what forebay does not know of."""
        stream.native.finish()

    # -- launches

    def memory(self, nbytes: int) -> Any:
        """Memory of the kind that forebay uses."""
        return self.driver.allocate(nbytes)

    def kernel(self, arguments: int, memory: Any) -> Any:
        """A kernel object of its own with its arguments set."""
        kernel: Any = cl.Kernel(self.program, kernels.name_of(arguments))  # its stubs do not take all it takes
        if memory.handle:
            kernel.set_arg(0, cl.MemoryObject.from_int_ptr(memory.handle, retain=True))
        else:
            set_address = self._library.clSetKernelArgSVMPointer
            if set_address(ctypes.c_void_p(kernel.int_ptr), ctypes.c_uint32(0), ctypes.c_void_p(memory.address)):
                raise RuntimeError("clSetKernelArgSVMPointer failed")
        for index, value in enumerate(kernels.values(arguments), 1):
            kernel.set_arg(index, ctypes.c_int32(value))
        return kernel

    def launch(self, stream: fb.Queue, kernel: Any, waits: Any = None) -> list[Call]:
        """A launch of one work-item that waits for the events of an array."""
        one, count = address_of(ONE), len(waits) if waits is not None else 0
        first = address_of(waits) if count else 0
        handles = self.handle(stream), kernel.int_ptr
        return [self.call("clEnqueueNDRangeKernel", *handles, 1, 0, one, one, count, first, 0)]

    def set_number(self, kernel: Any, index: int, cell: ctypes.c_int32) -> Call:
        """Set an integer."""
        return self.call("clSetKernelArg", kernel.int_ptr, index, 4, address_of(cell))

    def set_pointer(self, kernel: Any, memory: Any, cell: ctypes.c_uint64) -> Call:
        """Set the pointer; the cell is for the call's use."""
        if not memory.handle:
            return self.call("clSetKernelArgSVMPointer", kernel.int_ptr, 0, memory.address)
        cell.value = memory.handle
        return self.call("clSetKernelArg", kernel.int_ptr, 0, 8, address_of(cell))

    # -- events

    def events(self, count: int, for_host: bool = False) -> Any:
        """An array for so many events, which the markers put there."""
        return (ctypes.c_void_p * count)()

    def marker(self, stream: fb.Queue, events: Any, index: int = 0) -> list[Call]:
        """A marker, flushed, or no other queue could wait for it."""
        slot = address_of(events) + 8 * index
        queue = self.handle(stream)
        return [self.call("clEnqueueMarkerWithWaitList", queue, 0, 0, slot), self.call("clFlush", queue)]

    def release(self, events: Any) -> list[Call]:
        """Give the events of an array back."""
        slots = [address_of(events) + 8 * index for index in range(len(events))]
        return [self.call("clReleaseEvent", slot, loaded=(0,)) for slot in slots]

    def query(self, events: Any, answer: ctypes.c_int32) -> list[Call]:
        """Ask whether the first event of an array is done."""
        return [
            self.call("clGetEventInfo", address_of(events), EXECUTION_STATUS, 4, address_of(answer), 0, loaded=(0,))
        ]

    def finish(self, stream: fb.Queue) -> list[Call]:
        """Wait for all that a queue was given."""
        return [self.call("clFinish", self.handle(stream))]

    def wait_for(self, events: Any) -> list[Call]:
        """Let the host wait for all events of an array."""
        return [self.call("clWaitForEvents", len(events), address_of(events))]

    # -- memory

    def copy(self, stream: fb.Queue, direction: str, nbytes: int) -> tuple[list[Call], object]:
        """A copy "up", "down" or "across", the host's memory being pinned; and what has to be kept."""
        queue, here, there = self.handle(stream), self.memory(nbytes), self.memory(nbytes)
        at, host = self.pinned(nbytes)
        kept = (here, there, host)
        if direction == "up":
            call = self.upload(stream, here, at, nbytes)
        elif direction == "across" and here.handle:
            call = self.call("clEnqueueCopyBuffer", queue, here.handle, there.handle, 0, 0, nbytes, 0, 0, 0)
        elif here.handle:
            call = self.call("clEnqueueReadBuffer", queue, here.handle, 0, 0, nbytes, at, 0, 0, 0)
        else:
            to, source = (at, here.address) if direction == "down" else (there.address, here.address)
            call = self.call("clEnqueueSVMMemcpy", queue, 0, to, source, nbytes, 0, 0, 0)
        return [call], kept

    def pinned(self, nbytes: int) -> tuple[int, object]:
        """The address of pinned memory, and what has to be kept."""
        host = fb.host_empty(nbytes, "u1", device=self.device)
        return host.ctypes.data, host

    def upload(self, stream: fb.Queue, memory: Any, source: int, nbytes: int) -> Call:
        """A copy from an address of pinned memory."""
        queue = self.handle(stream)
        if memory.handle:
            return self.call("clEnqueueWriteBuffer", queue, memory.handle, 0, 0, nbytes, source, 0, 0, 0)
        return self.call("clEnqueueSVMMemcpy", queue, 0, memory.address, source, nbytes, 0, 0, 0)

    def alloc(self, stream: fb.Queue, nbytes: int) -> tuple[list[Call], object, str]:
        """Memory allocated and freed."""
        memory, context = self.memory(8), self.driver.context.int_ptr
        address, handle, scrap, error = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_int32()
        at, over = address_of(address), address_of(handle)
        calls = []  # clSVMFree returns nothing; what it leaves in the register is no error code
        if memory.address:
            calls.append(self.call("clSVMAlloc", context, SVM_READ_WRITE, nbytes, 0, result=at))
        if memory.handle:
            flags = BUFFER_USE_HOST_PTR if memory.address else 1
            loaded = (3,) if memory.address else ()
            argument = at if memory.address else 0
            make = (context, flags, nbytes, argument, address_of(error))
            calls.append(self.call("clCreateBuffer", *make, loaded=loaded, result=over))
            calls.append(self.call("clReleaseMemObject", over, loaded=(0,)))
        if memory.address:
            calls.append(self.call("clSVMFree", context, at, loaded=(1,), result=address_of(scrap)))
        return calls, (address, handle, scrap, error), "the driver's own allocation"

    # -- recordings

    def recording(self, stream: fb.Queue, length: int) -> tuple[list[Call], object] | None:
        """Enqueueing a command buffer of so many launches; None where there are no command buffers."""
        native = stream.native
        if "cl_khr_command_buffer" not in self.driver.native.extensions.split():
            return None
        memory = self.memory(4096)
        kernel = self.kernel(2, memory)
        find = self._library.clGetExtensionFunctionAddressForPlatform
        find.restype = ctypes.c_void_p
        platform = ctypes.c_void_p(native.device.platform.int_ptr)
        pointer, integer = ctypes.c_void_p, ctypes.c_int32

        def extension(name: bytes, *types: Any) -> Any:
            return ctypes.CFUNCTYPE(*types)(find(platform, name))

        create = extension(b"clCreateCommandBufferKHR", pointer, ctypes.c_uint32, pointer, pointer, pointer)
        command = extension(
            b"clCommandNDRangeKernelKHR", integer, pointer, pointer, pointer, pointer, ctypes.c_uint32, pointer,
            pointer, pointer, ctypes.c_uint32, pointer, pointer, pointer,
        )  # fmt: skip
        finalize = extension(b"clFinalizeCommandBufferKHR", integer, pointer)
        error, one = integer(), ctypes.byref(ONE)
        flags = (ctypes.c_uint64 * 3)(*SIMULTANEOUS_USE)
        buffer = create(1, ctypes.byref(pointer(native.int_ptr)), flags, ctypes.byref(error))
        errors = [error.value]
        errors += [
            command(buffer, None, None, kernel.int_ptr, 1, None, one, one, 0, None, None, None) for _ in range(length)
        ]
        errors.append(finalize(buffer))
        if any(errors):
            raise RuntimeError(f"making a command buffer failed: {max(errors, key=abs)}")
        enqueue = find(platform, b"clEnqueueCommandBufferKHR")
        return [Call(enqueue, (0, 0, buffer, 0, 0, 0))], (memory, kernel)
