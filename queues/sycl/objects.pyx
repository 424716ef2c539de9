"""SYCL's contexts, memory and programs as Python objects, and the handles of queues and kernels."""

from typing import TYPE_CHECKING

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport uintptr_t
from libcpp.vector cimport vector

from forebay.core.process cimport is_forked
from forebay.queues.sycl.calls cimport (
    FLOAT32, FLOAT64, INT16, INT32, INT64, INT8, RAW_ARGUMENT, UINT16, UINT32, UINT64, UINT8, USM_POINTER,
    WORK_GROUP_MEMORY, sycl
)
from forebay.queues.sycl.gates cimport SUBMITTED, new_event, new_queue
from forebay.queues.sycl.kernels cimport new_kernel

from forebay.core.errors import BuildError, Error, NotSupportedError, OutOfMemoryError

if TYPE_CHECKING:
    from collections.abc import Iterable

USM_TYPES = ("", "device", "shared", "host")  # DPCTLSyclUSMType
ARGUMENT_TYPES: dict[str, int] = {
    "b": INT8, "B": UINT8, "h": INT16, "H": UINT16, "i": INT32, "I": UINT32, "q": INT64, "Q": UINT64, "f": FLOAT32,
    "d": FLOAT64, "V": RAW_ARGUMENT, "L": WORK_GROUP_MEMORY, "": USM_POINTER,
}


@cython.no_gc_clear
cdef class ContextHandle:
    """Holds its own references to a context and two of its queues. It takes their addresses in dpctl's objects.

    Attributes
    ----------
    address : int
        The context handle for the table of operations.
    """

    cdef SyclContext native

    def __init__(self, uintptr_t context, uintptr_t device, uintptr_t queue, uintptr_t joining) -> None:
        self.native.context = sycl.Context_Copy(<void*> context)
        self.native.device = <void*> device
        self.native.queue = sycl.Queue_Copy(<void*> queue)
        self.native.joining = sycl.Queue_Copy(<void*> joining)
        if self.native.context == NULL or self.native.queue == NULL or self.native.joining == NULL:
            raise Error("SYCL did not copy a context or a queue")

    def __dealloc__(self):
        if is_forked():
            return
        if self.native.joining != NULL:
            sycl.Queue_Delete(self.native.joining)
        if self.native.queue != NULL:
            sycl.Queue_Delete(self.native.queue)
        if self.native.context != NULL:
            sycl.Context_Delete(self.native.context)

    @property
    def address(self) -> int:
        return <uintptr_t> &self.native

    def usm_type_at(self, uintptr_t address) -> str:
        """The USM type of this context's memory at an address: device, shared or host; otherwise an empty str."""
        return USM_TYPES[sycl.USM_GetPointerType(<void*> address, self.native.context)]


cdef class UsmMemory:
    """USM memory. Shared and host memory has the buffer protocol, because the host can read and write it."""

    cdef readonly uintptr_t address
    cdef readonly uintptr_t handle  # always 0: SYCL memory has addresses only
    cdef readonly size_t nbytes
    cdef readonly str usm_type

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        if self.usm_type == "device":
            raise BufferError("device memory cannot be read by the host")
        PyBuffer_FillInfo(buffer, self, <void*> self.address, self.nbytes, False, flags)


@cython.no_gc_clear  # freeing needs the context
cdef class OwnMemory(UsmMemory):
    """One allocation, freed with this object. Drop the last reference only when the device is done with the memory."""

    cdef ContextHandle context

    def __init__(self, ContextHandle context not None, size_t nbytes, str usm_type) -> None:
        cdef void* queue = context.native.queue
        cdef bint of_device = usm_type == "device", of_both = usm_type == "shared"
        self.context = context
        self.nbytes = nbytes
        self.usm_type = usm_type
        with nogil:
            if of_device:
                self.address = <uintptr_t> sycl.malloc_device(nbytes, queue)
            elif of_both:
                self.address = <uintptr_t> sycl.malloc_shared(nbytes, queue)
            else:
                self.address = <uintptr_t> sycl.malloc_host(nbytes, queue)
        if self.address == 0:
            raise OutOfMemoryError(f"DPCTLmalloc_{usm_type} returned no memory for {nbytes} bytes")

    def __dealloc__(self):
        if self.address and not is_forked():
            with nogil:
                sycl.free_with_context(<void*> self.address, self.context.native.context)


@cython.no_gc_clear
cdef class AdoptedMemory(UsmMemory):
    """Memory of another owner. This object keeps the owner alive."""

    cdef readonly object owner

    def __init__(self, owner: object, uintptr_t address, size_t nbytes, str usm_type) -> None:
        self.owner = owner
        self.address = address
        self.nbytes = nbytes
        self.usm_type = usm_type


@cython.no_gc_clear
cdef class Bundle:
    """A built program."""

    cdef void* native
    cdef ContextHandle context

    def __init__(self, ContextHandle context not None, source: str | bytes, options: str) -> None:
        cdef const char* text
        cdef size_t nbytes = len(source)
        cdef bint is_module = isinstance(source, bytes)
        cdef bytes code = source if is_module else source.encode()
        cdef bytes words = options.encode()
        cdef const char* flags = words
        text = code
        self.context = context
        with nogil:
            if is_module:
                self.native = sycl.KernelBundle_CreateFromSpirv(
                    self.context.native.context, self.context.native.device, text, nbytes, flags)
            else:
                self.native = sycl.KernelBundle_CreateFromOCLSource(
                    self.context.native.context, self.context.native.device, text, flags)
        if self.native == NULL:
            raise BuildError("SYCL does not build the program; with DPCTL_VERBOSITY=error dpctl says why on stderr")

    def __dealloc__(self):
        if self.native != NULL and not is_forked():
            sycl.KernelBundle_Delete(self.native)

    def kernel(self, name: str) -> BundledKernel:
        """The kernel of this name."""
        return BundledKernel(self, name)


@cython.no_gc_clear
cdef class BundledKernel:
    """A kernel without arguments."""

    cdef void* native
    cdef readonly Bundle bundle

    def __init__(self, Bundle bundle not None, name: str) -> None:
        cdef bytes text = name.encode()
        self.bundle = bundle
        self.native = sycl.KernelBundle_GetKernel(bundle.native, <const char*> text)
        if self.native == NULL:
            raise NotSupportedError(f"SYCL does not give out the kernel {name!r} of this program")

    def __dealloc__(self):
        if self.native != NULL and not is_forked():
            sycl.Kernel_Delete(self.native)

    @property
    def max_block(self) -> int:
        return sycl.Kernel_GetWorkGroupSize(self.native)

    def create(self, codes: Iterable[str]) -> int:
        """The handle of a new kernel with its own arguments. `codes` gives their types, as in `Parameter`."""
        cdef vector[int] types
        cdef void* copied
        for code in codes:
            types.push_back(ARGUMENT_TYPES[code])
        copied = sycl.Kernel_Copy(self.native)
        if copied == NULL:
            raise Error("SYCL did not copy a kernel")
        return <uintptr_t> new_kernel(copied, types)


def can_pass(code: str) -> bool:
    """Whether this dpctl can pass an argument of this type (a code as in `Parameter`)."""
    if code == "V":
        return bool(sycl.RawKernelArg_Available())
    if code == "L":
        return bool(sycl.WorkGroupMemory_Available())
    return code in ARGUMENT_TYPES


def adopt_event(uintptr_t address) -> int:
    """A driver event, from the address in a dpctl.SyclEvent. It holds its own reference."""
    cdef void* copied = sycl.Event_Copy(<void*> address)
    if copied == NULL:
        raise Error("SYCL did not copy an event")
    return <uintptr_t> new_event(SUBMITTED, copied)


def create_queue(uintptr_t address, adopted: bool) -> int:
    """The handle of a queue, from its address in a dpctl.SyclQueue. The handle holds its own reference."""
    cdef void* copied = sycl.Queue_Copy(<void*> address)
    if copied == NULL:
        raise Error("SYCL did not copy a queue")
    return <uintptr_t> new_queue(copied, adopted)
