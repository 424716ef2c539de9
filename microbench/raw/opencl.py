"""OpenCL: the loop in C, and pyopencl's two ways to launch."""

from __future__ import annotations

import ctypes
import timeit
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

import forebay as ps
from microbench.interleaved import Sample
from microbench.raw import checked, loops


def function(name: str) -> ctypes.c_void_p:
    """The address of an OpenCL function in the loader that pyopencl, and so forebay, uses."""
    return ctypes.cast(getattr(ctypes.CDLL(cl._cl.__file__), name), ctypes.c_void_p)


def set_address(kernel: cl.Kernel, index: int, address: int) -> None:
    """Set a pointer argument to an address of shared virtual memory."""
    call = ctypes.CDLL(cl._cl.__file__).clSetKernelArgSVMPointer
    error = call(ctypes.c_void_p(kernel.int_ptr), ctypes.c_uint32(index), ctypes.c_void_p(address))
    if error:
        raise RuntimeError(f"clSetKernelArgSVMPointer failed: {error}")


SLOTS = 512  # more than a sample has launches


class Raw:
    """One program of a device, for those who launch without forebay."""

    def __init__(self, device: ps.Device, source: str):
        self.driver = device.driver
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cl.CompilerWarning)  # a driver's log says nothing here
            self._program = cl.Program(self.driver.context, source).build(cache_dir=False)

    def _kernel(self) -> tuple[cl.Kernel, object]:
        """A kernel object of its own with its arguments, and its memory, of the kind that forebay uses."""
        kernel = cl.Kernel(self._program, "fill")
        memory = self.driver.allocate(4096)
        if self.driver.has_memory_objects:
            kernel.set_arg(0, cl.MemoryObject.from_int_ptr(memory.handle, retain=True))
        else:
            set_address(kernel, 0, memory.address)
        kernel.set_arg(1, np.int32(100))
        return kernel, memory

    def loop(self, queue: ps.Queue) -> RawLoop:
        """The C loop on the queue's own driver queue."""
        return RawLoop(queue.native, *self._kernel())

    def others(self, queue: ps.Queue) -> dict[str, Sample]:
        """Other ways to launch the same from Python."""
        kernel, memory = self._kernel()
        called = cl.Kernel(self._program, "fill")  # pyopencl sets its arguments at each call
        plain = cl.Buffer(self.driver.context, cl.mem_flags.READ_WRITE, 4096)
        enqueue = {"enqueue": cl.enqueue_nd_range_kernel, "native": queue.native, "kernel": kernel, "memory": memory}
        call = {"kernel": called, "native": queue.native, "buffer": plain, "number": np.int32(100)}
        return {
            "pyopencl enqueue_nd_range_kernel": timeit.Timer("enqueue(native, kernel, (1,), (1,))", globals=enqueue)
            .timeit,
            "pyopencl kernel(queue, …)": timeit.Timer("kernel(native, (1,), (1,), buffer, number)", globals=call)
            .timeit,
        }  # fmt: skip

    def recorded(self, queue: ps.Queue, length: int) -> Sample | None:
        """Enqueueing a command buffer of so many launches, from C; None where there are no command buffers."""
        if "cl_khr_command_buffer" not in self.driver.native.extensions.split():
            return None
        kernel, memory = self._kernel()
        native = queue.native
        find = ctypes.CDLL(cl._cl.__file__).clGetExtensionFunctionAddressForPlatform
        find.restype = ctypes.c_void_p

        def extension(name: bytes, *types: Any) -> Any:
            address = find(ctypes.c_void_p(native.device.platform.int_ptr), name)
            return ctypes.CFUNCTYPE(*types)(address)

        pointer, integer = ctypes.c_void_p, ctypes.c_int32
        create = extension(b"clCreateCommandBufferKHR", pointer, ctypes.c_uint32, pointer, pointer, pointer)
        command = extension(
            b"clCommandNDRangeKernelKHR", integer, pointer, pointer, pointer, pointer, ctypes.c_uint32, pointer,
            pointer, pointer, ctypes.c_uint32, pointer, pointer, pointer,
        )  # fmt: skip
        finalize = extension(b"clFinalizeCommandBufferKHR", integer, pointer)
        error = integer()
        # CL_COMMAND_BUFFER_FLAGS_KHR: CL_COMMAND_BUFFER_SIMULTANEOUS_USE_KHR, or it cannot follow itself
        flags = (ctypes.c_uint64 * 3)(0x1293, 1, 0)
        buffer = create(1, ctypes.byref(pointer(native.int_ptr)), flags, ctypes.byref(error))
        one = ctypes.byref(ctypes.c_size_t(1))
        errors = [error.value]
        errors += [
            command(buffer, None, None, kernel.int_ptr, 1, None, one, one, 0, None, None, None) for _ in range(length)
        ]
        errors.append(finalize(buffer))
        if any(errors):
            raise RuntimeError(f"making a command buffer failed: {max(errors, key=abs)}")
        enqueue = pointer(find(pointer(native.device.platform.int_ptr), b"clEnqueueCommandBufferKHR"))
        loop = loops(Path(__file__).with_suffix(".c")).replays

        def sample(n: int, _kept: object = (memory, kernel)) -> float:
            return checked(loop(enqueue, pointer(native.int_ptr), pointer(buffer), ctypes.c_size_t(n)))

        return sample

    def uploading_loop(self, queue: ps.Queue, nbytes: int) -> Sample:
        """The C loop that writes so many bytes before each launch."""
        buffer = cl.Buffer(self.driver.context, cl.mem_flags.READ_WRITE, nbytes)
        kernel = cl.Kernel(self._program, "fill")
        kernel.set_args(buffer, np.int32(100))
        ring = np.zeros(nbytes * SLOTS, np.uint8)
        loop = loops(Path(__file__).with_suffix(".c")).uploading_launches
        functions = [function(name) for name in ("clEnqueueNDRangeKernel", "clEnqueueWriteBuffer", "clReleaseEvent")]
        handles = [ctypes.c_void_p(each.int_ptr) for each in (queue.native, kernel, buffer)]
        sizes = ctypes.c_size_t(nbytes), ctypes.c_size_t(SLOTS)

        def sample(n: int, _kept: object = (kernel, buffer)) -> float:
            return checked(loop(*functions, *handles, ctypes.c_void_p(ring.ctypes.data), *sizes, ctypes.c_size_t(n)))

        return sample

    @staticmethod
    def settle(queue: ps.Queue) -> None:
        """Wait for launches that forebay does not know of."""
        queue.native.finish()


class RawLoop:
    """Launches of one kernel on one queue, from C."""

    def __init__(self, queue: cl.CommandQueue, kernel: cl.Kernel, *kept: object):
        self._library = loops(Path(__file__).with_suffix(".c"))
        self._kept = (queue, kernel, *kept)  # whose handles and arguments are used
        self._queue = ctypes.c_void_p(queue.int_ptr)
        self._kernel = ctypes.c_void_p(kernel.int_ptr)
        self._enqueue = function("clEnqueueNDRangeKernel")
        self._set = function("clSetKernelArg")

    def __call__(self, n: int) -> float:
        """Seconds that n launches take."""
        return checked(self._library.launches(self._enqueue, self._queue, self._kernel, ctypes.c_size_t(n)))

    def changing(self, n: int, index: int) -> float:
        """The same with one int argument set each time."""
        return checked(
            self._library.changing_launches(
                self._enqueue, self._set, self._queue, self._kernel, ctypes.c_uint32(index), ctypes.c_size_t(n)
            )
        )
