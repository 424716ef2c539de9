"""OpenCL's calls, on the queues of a forebay device."""

from __future__ import annotations

import ctypes
from typing import Any

import pyopencl as cl

from .. import kernels
from ..layers import Ground, Handle, Texts
from . import Call, CLoop

ONE = ctypes.c_size_t(1)
SIMULTANEOUS_USE = 0x1293, 1, 0  # CL_COMMAND_BUFFER_FLAGS_KHR, or a command buffer cannot follow itself
BUFFERS = Texts(
    launch="clEnqueueNDRangeKernel queue kernel 1 0 one one size waits 0",
    signal="clEnqueueMarkerWithWaitList queue 0 0 slot; clFlush queue",  # or no other queue could wait for it
    release="clReleaseEvent *slot",
    event="clGetEventInfo *slot 0x11D3 4 answer 0",
    finish="clFinish queue",
    all="clWaitForEvents size waits",
    copy=(
        "clEnqueueWriteBuffer queue to 0 0 n source 0 0 0",
        "clEnqueueReadBuffer queue source 0 0 n to 0 0 0",
        "clEnqueueCopyBuffer queue source to 0 0 n 0 0 0",
    ),
    alloc="buffer = clCreateBuffer context 1 n 0 error; clReleaseMemObject *buffer",
    alloc_note="the driver's own allocation",
)
SVM = BUFFERS._replace(
    copy=("clEnqueueSVMMemcpy queue 0 to source n 0 0 0",) * 3,
    # clSVMFree returns nothing; what it leaves in the register is no error code
    alloc="address = clSVMAlloc context 1 n 0; answer = clSVMFree context *address",
)
BUFFERS_OVER_SVM = BUFFERS._replace(
    alloc=(
        "address = clSVMAlloc context 1 n 0; buffer = clCreateBuffer context 9 n *address error; "
        "clReleaseMemObject *buffer; answer = clSVMFree context *address"
    )
)


class OpenCLLoop(CLoop):
    """The loop over OpenCL's calls."""

    set_number = "clSetKernelArg kernel 1 4 cell"

    def __init__(self, ground: Ground):
        super().__init__(ground)
        self.library: Any = ctypes.CDLL(cl._cl.__file__)  # the loader that pyopencl, and so forebay, uses
        inner = cl._cl._Program(self.ground.driver.context, kernels.opencl())
        inner._build(b"", None)  # without pyopencl's warning of what the compiler says
        self.program: Any = cl.Program(inner)
        self.names.update({"context": self.ground.driver.context.int_ptr, "one": ONE})
        memory = self.memory(8)
        self.texts: Texts = SVM if not memory.handle else BUFFERS_OVER_SVM if memory.address else BUFFERS
        self.set_pointer = (
            "clSetKernelArg kernel 0 8 cell" if memory.handle else "clSetKernelArgSVMPointer kernel 0 memory"
        )

    def queue_of(self, stream: Any) -> int:
        """The handle of a queue."""
        return int(stream.native.int_ptr)

    def make_event(self, for_host: bool) -> None:
        """Nothing: markers make events."""

    def make_kernel(self, arguments: int, memory: Any) -> Any:
        """A kernel of pyopencl's."""
        kernel: Any = cl.Kernel(self.program, kernels.name_of(arguments))  # its stubs do not take all it takes
        if memory.handle:
            kernel.set_arg(0, cl.MemoryObject.from_int_ptr(memory.handle, retain=True))
        else:
            set_address = self.library.clSetKernelArgSVMPointer
            if set_address(ctypes.c_void_p(kernel.int_ptr), ctypes.c_uint32(0), ctypes.c_void_p(memory.address)):
                raise RuntimeError("clSetKernelArgSVMPointer failed")
        for index, value in enumerate(kernels.values(arguments), 1):
            kernel.set_arg(index, ctypes.c_int32(value))
        return kernel

    def recording(self, stream: Handle, length: int) -> list[Call]:
        """A command buffer of the given number of launches, enqueued."""
        if "cl_khr_command_buffer" not in self.ground.driver.native.extensions.split():
            return super().recording(stream, length)
        native, kernel, buffer = stream.it.native, self.kernel(), ctypes.c_uint64()
        find = self.library.clGetExtensionFunctionAddressForPlatform
        find.restype = ctypes.c_void_p
        names: dict[str, Any] = {
            call: find(ctypes.c_void_p(native.device.platform.int_ptr), call.encode())
            for call in (
                "clCreateCommandBufferKHR", "clCommandNDRangeKernelKHR", "clFinalizeCommandBufferKHR",
                "clEnqueueCommandBufferKHR",
            )
        }  # fmt: skip
        names |= {"queues": ctypes.c_uint64(native.int_ptr), "flags": (ctypes.c_uint64 * 3)(*SIMULTANEOUS_USE)}
        names |= {"kernel": kernel.made, "kept": kernel, "buffer": buffer}
        command = "clCommandNDRangeKernelKHR *buffer 0 0 kernel 1 0 one one 0 0 0 0;" * length
        created = "buffer = clCreateCommandBufferKHR 1 queues flags error"
        self.do(f"{created}; {command} clFinalizeCommandBufferKHR *buffer", **names)
        return self.say("clEnqueueCommandBufferKHR 0 0 buffer 0 0 0", stream, **names | {"buffer": buffer.value})
