"""Memory of a GPU, and of the host for it, as Python objects; and what processes share. Each is released with its last
reference.
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy

from forebay.core.driver cimport Status
from forebay.core.process cimport is_forked
from forebay.queues.cuda.operations cimport (
    DEVICE_POOL, ENDED_EXPORTS, ENDED_IMPORTS, ENDED_REGISTRATIONS, HOST_POOL, IPC_EVENT, KEPT, LARGEST_BLOCK,
    OUT_OF_MEMORY_CODE, POOLS, PORTABLE_MAPPED, SHARED_POOL, ContextHandle, CuContext, IpcHandle, MemoryKind, check,
    cuda, destroy_ended, destroy_later, end_without_gates, enter, give_back_block, importing, leave, new_event,
    open_pool, take_block, try_destroy_ended, wait_without_gates
)

from forebay.core.errors import InvalidArgumentError
from forebay.queues.cuda.operations import explain


KINDS: dict[str, int] = {"device": DEVICE_POOL, "shared": SHARED_POOL, "host": HOST_POOL}


@cython.no_gc_clear  # freeing needs the context
cdef class Allocation:
    """Memory that a GPU reaches. The classes below say how it is made, and free it with the last reference."""

    cdef readonly uintptr_t handle  # always 0: memory has addresses only
    cdef readonly uintptr_t address
    cdef readonly size_t nbytes
    cdef readonly str usm_type
    cdef ContextHandle context

    cdef CuContext* begin(self, ContextHandle context, size_t nbytes, str usm_type="device") except NULL:
        if self.address:
            raise TypeError(f"this {type(self).__name__} is made already")
        self.context = context
        self.nbytes = nbytes
        self.usm_type = usm_type
        return context.context


@cython.no_gc_clear
cdef class CuMemory(Allocation):
    """Memory of the device, of the host, or shared by both, from a pool of the driver. It goes back with this object.
    Drop the last reference only when the device is done with it.

    Host and shared memory has the buffer protocol.

    Nothing waits until the stream that it was taken on has got there: the pool maps memory in the call, that stream has
    no other work, and what the pool hands out again was given back when the device was done with it.

    Parameters
    ----------
    usm_type : "device", "host" or "shared"
    """

    cdef MemoryKind kind

    def __init__(self, ContextHandle context not None, size_t nbytes, str usm_type="device") -> None:
        cdef CuContext* of = self.begin(context, nbytes, usm_type)
        cdef MemoryKind kind = KINDS[usm_type]
        cdef uint64_t address = 0
        cdef Status status
        self.kind = kind
        with nogil:
            status = take_memory(of, kind, nbytes, &address)
            if <uint32_t> status == OUT_OF_MEMORY_CODE and enter(of) == 0:
                trim(of, 0)  # the pools may have kept some, and what others could open may wait for its end
                try_destroy_ended(of, ENDED_EXPORTS, ENDED_IMPORTS)
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
cdef class CuRegistered(Allocation):
    """Memory of the program, of the host, which the device reaches until this object goes. The program keeps it."""

    cdef bint registered

    def __init__(self, ContextHandle context not None, uintptr_t address, size_t nbytes) -> None:
        cdef CuContext* of = self.begin(context, nbytes, "host")
        cdef Status status
        with nogil:
            status = enter(of)
            if status == 0:
                try_destroy_ended(of, ENDED_REGISTRATIONS, ENDED_REGISTRATIONS)
                status = cuda.MemHostRegister_v2(address, nbytes, PORTABLE_MAPPED)
                leave()
        check(status, f"registering {nbytes} bytes of the host")
        self.address = address
        self.registered = True

    def __dealloc__(self):
        if not self.registered or is_forked():
            return
        self.end()
        with nogil:
            try_destroy_ended(self.context.context, ENDED_REGISTRATIONS, ENDED_REGISTRATIONS)

    cdef void end(self):
        self.registered = False
        destroy_later(self.context.context, ENDED_REGISTRATIONS, self.address)

    def unregister(self) -> None:
        """Have the device reach it no more. Blocks until nothing runs on the device, and no gate is closed."""
        if self.registered:
            self.end()
        with nogil:
            wait_without_gates()
            destroy_ended(self.context.context, ENDED_REGISTRATIONS)
            end_without_gates()

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, <void*> self.address, self.nbytes, False, flags)


cdef inline bint is_block(MemoryKind kind, size_t nbytes) noexcept nogil:
    return kind == HOST_POOL and nbytes <= LARGEST_BLOCK


cdef Status take_memory(CuContext* context, MemoryKind kind, size_t nbytes, uint64_t* address) noexcept nogil:
    cdef Status status
    if is_block(kind, nbytes):
        return take_block(context, nbytes, address)
    status = open_pool(context, kind)
    if status != 0:
        return status
    return cuda.MemAllocFromPoolAsync(address, nbytes, context.pools[<int> kind], context.memory_stream)


cdef void trim(CuContext* context, size_t kept) noexcept nogil:
    """Give memory back that the pools keep, but for so many bytes each."""
    cdef int kind
    for kind in range(POOLS):
        if context.pools[kind] != NULL:
            cuda.MemPoolTrimTo(context.pools[kind], kept)


# -- memory and events that processes share (CUDA Programming Guide, "Interprocess Communication")
#
# Memory is of cuMemAlloc: a handle opens nothing of a pool, and a pool whose memory can be shared otherwise gives none
# back to the system. cuMemFree and cuIpcCloseMemHandle wait for the whole device and let no other thread launch
# meanwhile, behind a closed gate for ever. So they are left to who blocks anyway: see `try_destroy_ended`.


cdef enum:
    LAZY_ENABLE_PEER_ACCESS = 1  # CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, the only flag there is
    NO_TIMING_INTERPROCESS = 2 | 4  # of an event

OWN_PROCESS = 201  # CUDA_ERROR_INVALID_CONTEXT


def give_back_shared(ContextHandle context not None) -> bool:
    """Give back what nobody refers to, once nothing runs; False while a gate is closed."""
    cdef CuContext* of = context.context
    cdef bint done = False
    cdef Status status
    with nogil:
        status = enter(of)
        if status == 0:
            done = try_destroy_ended(of, ENDED_EXPORTS, ENDED_IMPORTS)
            leave()
    check(status, "giving memory back")
    return done


@cython.no_gc_clear
cdef class CuExported(Allocation):
    """Memory of the device that other processes can open. Drop the last reference only when no process uses it."""

    def __init__(self, ContextHandle context not None, size_t nbytes) -> None:
        cdef CuContext* of = self.begin(context, nbytes)
        cdef uint64_t address = 0
        cdef Status status
        with nogil:
            status = enter(of)
            if status == 0:
                try_destroy_ended(of, ENDED_EXPORTS, ENDED_IMPORTS)
                status = cuda.MemAlloc_v2(&address, nbytes)
                if <uint32_t> status == OUT_OF_MEMORY_CODE:  # the pools may have kept some
                    trim(of, 0)
                    status = cuda.MemAlloc_v2(&address, nbytes)
                leave()
        check(status, f"{nbytes} bytes that other processes can open")
        self.address = address

    def __dealloc__(self):
        if self.address and not is_forked():
            destroy_later(self.context.context, ENDED_EXPORTS, self.address)

    def ipc_handle(self) -> bytes:
        """What opens it in another process."""
        cdef IpcHandle made
        cdef Status status
        with nogil:
            status = enter(self.context.context)
            if status == 0:
                status = cuda.IpcGetMemHandle(&made, self.address)
                leave()
        check(status, "a handle for other processes")
        return made.bytes[:sizeof(IpcHandle)]


@cython.no_gc_clear
cdef class CuImported(Allocation):
    """Memory of another process, open until this object goes. That process keeps it for as long."""

    def __init__(self, ContextHandle context not None, bytes handle not None) -> None:
        cdef CuContext* of = self.begin(context, 0)
        cdef IpcHandle given = read_handle(handle)
        cdef uint64_t address = 0, base = 0
        cdef size_t nbytes = 0
        cdef Status status
        with nogil:
            status = enter(of)
            if status == 0:
                try_destroy_ended(of, ENDED_EXPORTS, ENDED_IMPORTS)
                importing.lock()
                status = cuda.IpcOpenMemHandle_v2(&address, given, LAZY_ENABLE_PEER_ACCESS)
                importing.unlock()
                if status == 0:
                    status = cuda.MemGetAddressRange_v2(&base, &nbytes, address)
                    if status != 0:
                        destroy_later(of, ENDED_IMPORTS, address)
                leave()
        check_opened(status, "memory")
        self.address = address
        self.nbytes = base + nbytes - address

    def __dealloc__(self):
        if self.address and not is_forked():
            destroy_later(self.context.context, ENDED_IMPORTS, self.address)


def create_ipc_event(ContextHandle context not None) -> tuple[int, bytes]:
    """(handle, which the caller owns; what opens the event in another process)."""
    cdef CuContext* of = context.context
    cdef IpcHandle made
    cdef void* event = NULL
    cdef Status status
    with nogil:  # who frees memory of cuMemAlloc in another thread may hold the driver for long
        status = enter(of)
        if status == 0:
            status = cuda.EventCreate(&event, NO_TIMING_INTERPROCESS)
            if status == 0:
                status = cuda.IpcGetEventHandle(&made, event)
                if status != 0:
                    cuda.EventDestroy_v2(event)
            leave()
    check(status, "an event for other processes")
    return <uintptr_t> new_event(of, IPC_EVENT, event, 0), made.bytes[:sizeof(IpcHandle)]


def open_ipc_event(ContextHandle context not None, bytes handle not None) -> int:
    """The handle, which the caller owns, of an event of another process."""
    cdef CuContext* of = context.context
    cdef IpcHandle given = read_handle(handle)
    cdef void* event = NULL
    cdef Status status
    with nogil:
        status = enter(of)
        if status == 0:
            status = cuda.IpcOpenEventHandle(&event, given)
            leave()
    check_opened(status, "event")
    return <uintptr_t> new_event(of, IPC_EVENT, event, 0)


cdef IpcHandle read_handle(bytes handle):
    cdef IpcHandle read
    if len(handle) != sizeof(IpcHandle):
        raise InvalidArgumentError(f"a handle of another process is {sizeof(IpcHandle)} bytes, not {len(handle)}")
    memcpy(&read, <const char*> handle, sizeof(IpcHandle))
    return read


cdef int check_opened(Status status, str what) except -1:
    """Raise for a handle that opens nothing."""
    if status == 0 or <uint32_t> status == OUT_OF_MEMORY_CODE:
        return check(status, f"{what} of another process")
    call, code, name = explain(status)
    if code == OWN_PROCESS:
        raise InvalidArgumentError(f"this handle is of {what} of this process, which only others can open ({name})")
    raise InvalidArgumentError(
        f"this handle opens no {what} here: it may be gone with its process, of another kind, or of a GPU that this "
        f"process does not see ({call}: {name})")
