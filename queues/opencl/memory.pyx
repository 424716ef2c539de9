"""Device memory. It is shared virtual memory where the device has that, so that a buffer has an address."""

from typing import TYPE_CHECKING

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport uint64_t, uintptr_t
from libc.stdlib cimport free, malloc

from forebay.core.process cimport is_forked
from forebay.queues.opencl.operations cimport cl, cl_int

from forebay.core.errors import OutOfMemoryError

if TYPE_CHECKING:
    import pyopencl

cdef enum:
    CL_MEM_READ_WRITE = 1 << 0
    CL_MEM_USE_HOST_PTR = 1 << 3
    CL_MEM_SVM_FINE_GRAIN_BUFFER = 1 << 10
    CL_BUFFER_CREATE_TYPE_REGION = 0x1220


cdef struct Lent:
    void* context  # retained
    void* address


cdef void free_lent(void* memory, void* data) noexcept nogil:
    """The driver calls it when the last reference to the memory object is gone, on whatever thread that is."""
    cdef Lent lent = (<Lent*> data)[0]
    free(data)
    cl.SVMFree(lent.context, lent.address)
    cl.ReleaseContext(lent.context)


@cython.no_gc_clear  # freeing needs the context
cdef class ClMemory:
    """One allocation, freed with this object. Drop the last reference only when the device is done with the memory.

    With addresses, the memory is a coarse-grained SVM allocation. Memory that the host shares is fine-grained. What is
    `in_place` for the host has the buffer protocol. On CPU devices a memory object lies over the same memory, because
    setting a memory object as an argument is three times cheaper there (OpenCL 3.0: clCreateBuffer with
    CL_MEM_USE_HOST_PTR of an SVM pointer shares the memory).
    """

    cdef readonly uintptr_t handle
    cdef readonly uint64_t address
    cdef readonly size_t nbytes
    cdef readonly str usm_type
    cdef readonly bint in_place
    cdef bint lent  # others may have the memory object
    cdef object context  # a pyopencl.Context: must outlive what is allocated in it
    cdef object __weakref__

    def __init__(
        self, context: pyopencl.Context, size_t nbytes, bint addresses, bint memory_object, str usm_type,
        bint in_place
    ) -> None:
        cdef void* native = <void*> <uintptr_t> context.int_ptr
        cdef cl_int error = 0
        self.context = context
        self.nbytes = nbytes
        self.usm_type = usm_type
        self.in_place = in_place
        if addresses:
            # alignment 0 means that of the device's largest type, which is enough for every element type
            self.address = <uintptr_t> cl.SVMAlloc(
                native, CL_MEM_READ_WRITE | (CL_MEM_SVM_FINE_GRAIN_BUFFER if usm_type == "shared" else 0), nbytes, 0)
            if self.address == 0:
                raise OutOfMemoryError(f"clSVMAlloc returned no memory for {nbytes} bytes")
        if memory_object:
            self.handle = <uintptr_t> cl.CreateBuffer(
                native, CL_MEM_READ_WRITE | (CL_MEM_USE_HOST_PTR if addresses else 0), nbytes,
                <void*> <uintptr_t> self.address, &error)
            if error != 0:
                raise OutOfMemoryError(f"clCreateBuffer failed for {nbytes} bytes: error {error}")

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        if not self.in_place:
            raise BufferError("device memory cannot be read by the host")
        PyBuffer_FillInfo(buffer, self, <void*> self.address, self.nbytes, False, flags)

    def lend(self) -> None:
        """Let others retain the memory object. The memory below it goes with the last reference (OpenCL 3.0,
        clSetMemObjectDestructorCallback). Intel's runtime (2026.2) does not count sub-buffers as such.
        """
        cdef Lent* lent
        cdef void* context = <void*> <uintptr_t> self.context.int_ptr
        if self.lent or not self.address:
            return
        lent = <Lent*> malloc(sizeof(Lent))
        if lent == NULL:
            raise MemoryError()
        lent[0] = Lent(context, <void*> <uintptr_t> self.address)
        if cl.RetainContext(context) != 0:
            free(lent)
            raise OutOfMemoryError("clRetainContext failed")
        if cl.SetMemObjectDestructorCallback(<void*> self.handle, <void*> free_lent, lent) != 0:
            cl.ReleaseContext(context)
            free(lent)
            raise OutOfMemoryError("clSetMemObjectDestructorCallback failed")
        self.lent = True

    def __dealloc__(self):
        cdef void* context
        if is_forked():
            return
        context = <void*> <uintptr_t> self.context.int_ptr
        with nogil:  # to unmap a gigabyte takes 80 ms
            if self.handle:
                cl.ReleaseMemObject(<void*> self.handle)
            if self.address and not self.lent:
                cl.SVMFree(context, <void*> <uintptr_t> self.address)


@cython.no_gc_clear
cdef class MemoryPart:
    """A memory object for a part of an allocation that has an address. It keeps that."""

    cdef readonly uintptr_t handle
    cdef ClMemory whole

    def __init__(self, ClMemory whole, size_t offset, size_t nbytes) -> None:
        cdef cl_int error = 0
        cdef size_t[2] region
        region[0] = offset
        region[1] = nbytes
        self.whole = whole
        self.handle = <uintptr_t> cl.CreateSubBuffer(
            <void*> whole.handle, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, region, &error)
        if error != 0:
            raise OutOfMemoryError(f"clCreateSubBuffer failed for {nbytes} bytes: error {error}")

    def __dealloc__(self):
        if self.handle and not is_forked():
            cl.ReleaseMemObject(<void*> self.handle)


cdef class AdoptedMemory:
    """Memory that an object of another package owns. It keeps the object, and the memory object of OpenCL if that is
    what the memory is.

    Memory of the host has the buffer protocol.
    """

    cdef readonly uintptr_t handle
    cdef readonly uint64_t address
    cdef readonly size_t nbytes
    cdef readonly str usm_type
    cdef object owner

    def __init__(
        self, owner: object, uintptr_t handle, uint64_t address, size_t nbytes, str usm_type="device"
    ) -> None:
        if handle and cl.RetainMemObject(<void*> handle) != 0:
            raise OutOfMemoryError("clRetainMemObject failed")
        self.handle = handle
        self.address = address
        self.nbytes = nbytes
        self.usm_type = usm_type
        self.owner = owner

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        if self.usm_type == "device":
            raise BufferError("device memory cannot be read by the host")
        PyBuffer_FillInfo(buffer, self, <void*> self.address, self.nbytes, False, flags)

    def __dealloc__(self):
        if self.handle and not is_forked():
            cl.ReleaseMemObject(<void*> self.handle)
