"""Memory of a GPU, and of the host for it, as Python objects. Each is given back with its last reference."""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libcpp.vector cimport vector

from forebay.core.driver cimport Status
from forebay.core.epochs cimport Lock
from forebay.core.process cimport is_forked
from forebay.queues.cuda.calls cimport (
    CALL_IpcOpenMemHandle_v2, CALL_MemAllocFromPoolAsync, CALL_MemHostRegister_v2, IpcHandle, cuda
)
from forebay.queues.cuda.handles cimport (
    DEVICE_POOL, HOST_POOL, LARGEST_BLOCK, POOLS, SHARED_POOL, CuContext, MemoryKind, begin_without_gates,
    end_without_gates, enter, give_back_block, leave, open_pool, outcome, take_block
)
from forebay.queues.cuda.objects cimport OUT_OF_MEMORY_CODE, ContextHandle, check, rest

cdef enum:
    KEPT = 64 << 20  # as in handles.pyx
    PORTABLE_MAPPED = 3  # registered for all contexts, with an address for the device
    LAZY_ENABLE_PEER_ACCESS = 1  # CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, the only flag there is

KINDS: dict[str, int] = {"device": DEVICE_POOL, "shared": SHARED_POOL, "host": HOST_POOL}


@cython.no_gc_clear  # freeing needs the context
cdef class CuMemory:
    """Memory of the device, of the host, or shared by both, from a pool of the driver. It goes back with this object.
    Drop the last reference only when the device is done with it.

    Host and shared memory has the buffer protocol.

    Nothing waits until the stream that it was taken on has got there: the pool maps memory in the call, that stream has
    no other work, and what the pool hands out again was given back when the device was done with it.

    Parameters
    ----------
    usm_type : "device", "host" or "shared"
    """

    cdef readonly uintptr_t handle  # always 0: memory has addresses only
    cdef readonly uintptr_t address
    cdef readonly size_t nbytes
    cdef readonly str usm_type
    cdef ContextHandle context
    cdef MemoryKind kind

    def __init__(self, ContextHandle context not None, size_t nbytes, str usm_type="device") -> None:
        cdef CuContext* of = context.context
        cdef MemoryKind kind = KINDS[usm_type]
        cdef uint64_t address = 0
        cdef Status status
        if self.address:
            raise TypeError("this CuMemory is made already")
        self.context = context
        self.nbytes = nbytes
        self.usm_type = usm_type
        self.kind = kind
        with nogil:
            status = take_memory(of, kind, nbytes, &address)
            if <uint32_t> status == OUT_OF_MEMORY_CODE and enter(of) == 0:
                trim(of, 0)  # the pools may have kept some, and what others could open may wait for its end
                give_back_ended(of)
                leave()
                status = take_memory(of, kind, nbytes, &address)
        check(status, f"{nbytes} bytes of {usm_type} memory")
        self.address = address

    def __dealloc__(self):
        if not self.address or is_forked():  # then it is the parent's
            return
        if is_block(self.kind, self.nbytes):  # KINDS may be gone: the process may be ending
            give_back_block(self.context.context, self.nbytes, self.address)
        else:
            with nogil:
                cuda.MemFreeAsync(<uint64_t> self.address, self.context.context.memory_stream)
                trim(self.context.context, KEPT)

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        if self.usm_type == "device":
            raise BufferError("device memory cannot be read by the host")
        PyBuffer_FillInfo(buffer, self, <void*> self.address, self.nbytes, False, flags)


@cython.no_gc_clear
cdef class CuRegistered:
    """Memory of the program, of the host, which the device reaches until this object goes. The program keeps it."""

    cdef readonly uintptr_t handle
    cdef readonly uintptr_t address
    cdef readonly size_t nbytes
    cdef ContextHandle context
    cdef bint registered

    usm_type = "host"

    def __init__(self, ContextHandle context not None, uintptr_t address, size_t nbytes) -> None:
        cdef Status status
        if self.address:
            raise TypeError("this CuRegistered is made already")
        self.context = context
        with nogil:
            status = enter(context.context)
            if status == 0:
                unregister_ended(context.context)
                status = outcome(CALL_MemHostRegister_v2, cuda.MemHostRegister_v2(address, nbytes, PORTABLE_MAPPED))
                leave()
        check(status, f"registering {nbytes} bytes of the host")
        self.address = address
        self.nbytes = nbytes
        self.registered = True

    def __dealloc__(self):
        if not self.registered or is_forked():
            return
        self.end()
        with nogil:
            unregister_ended(self.context.context)

    cdef void end(self):
        cdef CuContext* context = self.context.context
        self.registered = False
        context.lock.lock()
        context.ended_registrations.push_back(self.address)
        context.lock.unlock()

    def unregister(self) -> None:
        """Have the device reach it no more. Blocks until nothing runs on the device, and no gate is closed."""
        if self.registered:
            self.end()
        with nogil:
            while not unregister_ended(self.context.context):
                rest()
                with gil:
                    PyErr_CheckSignals()

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, <void*> self.address, self.nbytes, False, flags)


cdef bint unregister_ended(CuContext* context) noexcept nogil:
    """Unregister what the device reaches no more. Behind a closed gate the driver would wait, and let no other thread
    launch: then it is left to who comes next, and False is returned.
    """
    cdef vector[uint64_t] ended
    cdef size_t i
    if not begin_without_gates():
        return False
    context.lock.lock()
    ended.swap(context.ended_registrations)
    context.lock.unlock()
    for i in range(ended.size()):
        cuda.MemHostUnregister(ended[i])
    end_without_gates()
    return True


cdef inline bint is_block(MemoryKind kind, size_t nbytes) noexcept nogil:
    return kind == HOST_POOL and nbytes <= LARGEST_BLOCK


cdef Status take_memory(CuContext* context, MemoryKind kind, size_t nbytes, uint64_t* address) noexcept nogil:
    cdef Status status
    if is_block(kind, nbytes):
        return take_block(context, nbytes, address)
    status = open_pool(context, kind)
    if status != 0:
        return status
    return outcome(CALL_MemAllocFromPoolAsync, cuda.MemAllocFromPoolAsync(
        address, nbytes, context.pools[<int> kind], context.memory_stream))


cdef void trim(CuContext* context, size_t kept) noexcept nogil:
    """Give memory back that the pools keep, but for so many bytes each."""
    cdef int kind
    for kind in range(POOLS):
        if context.pools[kind] != NULL:
            cuda.MemPoolTrimTo(context.pools[kind], kept)


cdef bint give_back_ended(CuContext* context) noexcept nogil:
    """Free and close the memory of ipc.pyx that nobody refers to any more. That waits until nothing runs on the device.
    False while a gate is closed: then it is left to who comes next.
    """
    cdef vector[uint64_t] exports, imports
    cdef size_t i
    if not begin_without_gates():
        return False
    context.lock.lock()
    exports.swap(context.ended_exports)
    imports.swap(context.ended_imports)
    context.lock.unlock()
    for i in range(exports.size()):
        cuda.MemFree_v2(exports[i])
    importing.lock()
    for i in range(imports.size()):
        cuda.IpcCloseMemHandle(imports[i])
    importing.unlock()
    end_without_gates()
    return True


cdef Lock importing  # two threads that open and close the same memory get CUDA_ERROR_ALREADY_MAPPED


cdef Status open_import(const IpcHandle& handle, uint64_t* address) noexcept nogil:
    """Open memory of another process."""
    cdef Status status
    importing.lock()
    status = outcome(CALL_IpcOpenMemHandle_v2, cuda.IpcOpenMemHandle_v2(address, handle, LAZY_ENABLE_PEER_ACCESS))
    importing.unlock()
    return status
