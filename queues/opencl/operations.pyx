"""OpenCL's memory as Python objects, handles of pyopencl's queues, and kernel objects. operations.hpp has the table of
operations (`forebay.core.driver`). Its functions are looked up at run time in pyopencl's loader.
"""

import ctypes

import pyopencl

cimport cython
from libc.stdint cimport int32_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc

from forebay.core.driver cimport Driver, Reshape, Status, Waits
from forebay.core.ownership cimport Guard, Lock
from forebay.core.process cimport is_forked
from forebay.queues.memory.allocation cimport ForeignMemory, NativeMemory
from forebay.sync.ordering cimport wait_watched

from forebay.core.driver import FunctionTable
from forebay.core.errors import DriverError, OutOfMemoryError

ctypedef int32_t cl_int
ctypedef Status (*Function)(...) noexcept nogil
ctypedef void* (*Maker)(...) noexcept nogil


# The header lists the parameters of each function, and the C++ compiler checks them.
cdef extern from "queues/opencl/operations.hpp" namespace "forebay_cl" nogil:
    cdef enum:
        N_CALLS
        CALL_CreateKernel

    cdef struct Calls:
        Function SetKernelArg, RetainCommandQueue, RetainMemObject, ReleaseMemObject
        Function SetMemObjectDestructorCallback, RetainContext, ReleaseContext
        Maker CreateKernel, SVMAlloc, CreateBuffer, CreateSubBuffer
        void (*SVMFree)(...) noexcept nogil

    const char* const* call_names
    Calls cl
    Driver table
    const char* _FILL_SOURCE "forebay_cl::FILL_SOURCE"
    Reshape flatten
    Status failure(int call, uint32_t code)
    void add_fill_program(void* context, void* program) noexcept
    void remove_fill_program(void* context, void* program) noexcept


TABLE: int = <uintptr_t> &table
RESHAPE: int = <uintptr_t> flatten
FILL_SOURCE: str = _FILL_SOURCE.decode()

_SVM = {
    "clCloneKernel", "clEnqueueSVMMemcpy", "clEnqueueSVMMemFill", "clSetKernelArgSVMPointer", "clSetKernelExecInfo",
    "clSVMAlloc", "clSVMFree",
}


def error_name(code: int) -> str:
    name = pyopencl.status_code.to_string(code, default_format="%d")
    return f"CL_{name}" if not name.lstrip("-").isdigit() else f"error {code}"


FUNCTIONS: FunctionTable = FunctionTable(
    <uintptr_t> &cl, tuple([(b"cl" + call_names[i]).decode() for i in range(N_CALLS)]), error_name, (-4, -5, -6),
    (2,))  # CL_DEVICE_NOT_AVAILABLE: a device that was found is no longer available (OpenCL 3.0, 4.4)


def load() -> None:
    """Fill the table, once, from the loader that pyopencl's extension module is linked to: a symbol lookup in a library
    also searches its dependencies. Raises `ImportError` if the loader lacks a function, except those for SVM.
    """
    FUNCTIONS.load(ctypes.CDLL(pyopencl._cl.__file__), "the OpenCL loader", "forebay needs OpenCL 1.2 or newer", _SVM)


def use_fill_program(uintptr_t context, uintptr_t program, bint used) -> None:
    """Use this program, made of `FILL_SOURCE`, for fills in the context's queues, or no longer: its device is gone."""
    with nogil:
        (add_fill_program if used else remove_fill_program)(<void*> context, <void*> program)


def probe_argument_size(kernel: pyopencl.Kernel, index: int, limit: int) -> int:
    """Return the size in bytes of a by-value parameter of unknown type; 0 if the driver accepts several sizes.

    It should accept only the right one (CL_INVALID_ARG_SIZE, OpenCL 3.0, clSetKernelArg). PoCL's accepts any size.
    """
    cdef void* handle = <void*> <uintptr_t> kernel.int_ptr
    cdef size_t size, found = 0
    cdef bytes zeros = bytes(limit)
    cdef const char* value = zeros
    for size in range(1, <size_t> limit + 1):
        if cl.SetKernelArg(handle, <uint32_t> index, size, value) == 0:
            if found:
                return 0
            found = size
    return found


cdef int check(Status status) except -1:
    """Raise for a failed call: a reference that was not taken must not be released later."""
    if status != 0:
        raise FUNCTIONS.failed(status)
    return 0


def wait_for(event: pyopencl.Event) -> None:
    """Block until the event is done, beside other threads that submit: for devices whose `waits_starve`."""
    cdef void* handle = <void*> <uintptr_t> event.int_ptr
    cdef Status status
    with nogil:
        status = wait_watched(&table, NULL, Waits(1, &handle), NULL)
    check(status)


def retained(queue: pyopencl.CommandQueue) -> int:
    """Return the handle of a pyopencl queue, with a reference of its own."""
    cdef void* handle = <void*> <uintptr_t> queue.int_ptr
    check(cl.RetainCommandQueue(handle))
    return <uintptr_t> handle


def create_kernel(uintptr_t program, bytes name) -> int:
    """Return a new kernel object, owned by the caller. pyopencl's class also runs Python code, to set its arguments."""
    cdef cl_int error = 0
    cdef void* handle = cl.CreateKernel(<void*> program, <const char*> name, &error)
    check(failure(CALL_CreateKernel, <uint32_t> error) if error != 0 else 0)
    return <uintptr_t> handle


# -- memory: shared virtual memory if the device has it, so that a buffer has an address


cdef enum:
    CL_MEM_READ_WRITE = 1 << 0
    CL_MEM_USE_HOST_PTR = 1 << 3
    CL_MEM_SVM_FINE_GRAIN_BUFFER = 1 << 10
    CL_BUFFER_CREATE_TYPE_REGION = 0x1220


cdef struct Lent:
    void* context  # retained: Intel's runtime (2026.2) frees nothing once the context is gone, memory objects or not
    void* address


cdef void free_lent(void* memory, void* data) noexcept nogil:
    """Called by the driver, on any thread, when the last reference to the memory object is gone."""
    cdef Lent lent = (<Lent*> data)[0]
    free(data)
    cl.SVMFree(lent.context, lent.address)
    cl.ReleaseContext(lent.context)


cdef Lock allocating  # so that a thread's second call of clSVMAlloc is the driver's next, also without a GIL


@cython.no_gc_clear  # freeing needs the context
cdef class ClMemory(NativeMemory):
    """One allocation, freed with this object. Drop the last reference only when the device is done with it.

    With addresses it is SVM, fine-grained if the host shares it, otherwise coarse-grained. Memory `in_place` for the
    host has the buffer protocol. On CPUs a memory object lies over it, because setting that as an argument is three
    times cheaper (OpenCL 3.0: clCreateBuffer with CL_MEM_USE_HOST_PTR of an SVM pointer shares the memory).
    """

    cdef bint lent  # others may retain the memory object
    cdef object context  # a pyopencl.Context, which must outlive its allocations
    cdef object __weakref__

    def __init__(
        self, context: pyopencl.Context, size_t nbytes, bint addresses, bint memory_object, str usm_type,
        bint in_place
    ) -> None:
        cdef void* native = <void*> <uintptr_t> context.int_ptr
        cdef cl_int error = 0
        cdef Guard guard
        self.context = context
        self.nbytes = nbytes
        self.usm_type = usm_type
        self.in_place = in_place
        if addresses:
            fine = CL_MEM_SVM_FINE_GRAIN_BUFFER if usm_type == "shared" else 0
            # Alignment 0 is that of the device's largest type, enough for every element type. NVIDIA's driver (580)
            # sometimes returns no memory when it reserves another 2 MiB of addresses; the next call succeeds.
            guard.take(allocating)
            for _ in range(2):
                self.address = <uintptr_t> cl.SVMAlloc(native, CL_MEM_READ_WRITE | fine, nbytes, 0)
                if self.address:
                    break
            guard.leave()
            if not self.address:
                raise OutOfMemoryError(f"clSVMAlloc returned no memory for {nbytes} bytes")
        if memory_object:
            self.handle = <uintptr_t> cl.CreateBuffer(
                native, CL_MEM_READ_WRITE | (CL_MEM_USE_HOST_PTR if addresses else 0), nbytes,
                <void*> <uintptr_t> self.address, &error)
            if error != 0:
                raise OutOfMemoryError(f"clCreateBuffer failed for {nbytes} bytes: error {error}")

    def lend(self) -> None:
        """Let others retain the memory object; its memory is freed with the last reference (OpenCL 3.0,
        clSetMemObjectDestructorCallback). Intel's runtime (2026.2) does not count sub-buffers as references.
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
        with nogil:  # unmapping a gigabyte takes 80 ms
            if self.handle:
                cl.ReleaseMemObject(<void*> self.handle)
            if self.address and not self.lent:
                cl.SVMFree(context, <void*> <uintptr_t> self.address)


@cython.no_gc_clear
cdef class MemoryPart:
    """A memory object for a part of an allocation, which it keeps."""

    cdef readonly uintptr_t handle
    cdef NativeMemory whole

    def __init__(self, NativeMemory whole, size_t offset, size_t nbytes) -> None:
        cdef cl_int error = 0
        cdef size_t[2] region
        region[0] = offset
        region[1] = nbytes
        self.whole = whole
        self.handle = <uintptr_t> cl.CreateSubBuffer(
            <void*> whole.handle, 0, CL_BUFFER_CREATE_TYPE_REGION, region, &error)  # the access of the whole
        if error != 0:
            message = f"clCreateSubBuffer failed for {nbytes} bytes: error {error}"
            if error in (-4, -5, -6):
                raise OutOfMemoryError(message)
            raise DriverError(message, call="clCreateSubBuffer", code=error)

    def __dealloc__(self):
        if self.handle and not is_forked():
            cl.ReleaseMemObject(<void*> self.handle)


@cython.no_gc_clear
cdef class AdoptedMemory(ForeignMemory):
    """Memory of another package, with OpenCL's memory object if it has one."""

    def __init__(self, owner: object, uintptr_t handle, uint64_t address, size_t nbytes, str usm_type="device") -> None:
        ForeignMemory.__init__(self, owner, address, nbytes, usm_type)
        if handle and cl.RetainMemObject(<void*> handle) != 0:
            raise OutOfMemoryError("clRetainMemObject failed")
        self.handle = handle

    def __dealloc__(self):
        if self.handle and not is_forked():
            cl.ReleaseMemObject(<void*> self.handle)
