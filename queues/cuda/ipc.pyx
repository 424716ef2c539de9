"""Memory and events that processes share (CUDA Programming Guide, "Interprocess Communication").

Memory is of cuMemAlloc: a handle opens nothing of a pool, and a pool whose memory can be shared otherwise gives none
back to the system. cuMemFree and cuIpcCloseMemHandle wait for the whole device and let no other thread launch
meanwhile, behind a closed gate for ever. So they are left to who blocks anyway: see `give_back_ended`.
"""

cimport cython
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy
from libcpp.atomic cimport memory_order_relaxed

from forebay.core.driver cimport Status
from forebay.core.process cimport is_forked
from forebay.queues.cuda.calls cimport (
    CALL_EventCreate, CALL_IpcGetEventHandle, CALL_IpcGetMemHandle, CALL_IpcOpenEventHandle, CALL_MemAlloc_v2,
    CALL_MemGetAddressRange_v2, IpcHandle, cuda
)
from forebay.queues.cuda.handles cimport (
    IPC_EVENT, CuContext, CuEvent, enter, leave, outcome
)
from forebay.queues.cuda.memory cimport give_back_ended, open_import, trim
from forebay.queues.cuda.objects cimport OUT_OF_MEMORY_CODE, ContextHandle, check

from forebay.core.errors import InvalidArgumentError
from forebay.queues.cuda.objects import explain

cdef enum:
    NO_TIMING_INTERPROCESS = 2 | 4  # of an event

HANDLE_BYTES: int = sizeof(IpcHandle)
OWN_PROCESS = 201  # CUDA_ERROR_INVALID_CONTEXT


def give_back(ContextHandle context not None) -> bool:
    """Give back what nobody refers to, once nothing runs; False while a gate is closed."""
    cdef CuContext* of = context.context
    cdef bint done = False
    cdef Status status
    with nogil:
        status = enter(of)
        if status == 0:
            done = give_back_ended(of)
            leave()
    check(status, "giving memory back")
    return done


@cython.no_gc_clear  # freeing needs the context
cdef class CuExported:
    """Memory of the device that other processes can open. Drop the last reference only when no process uses it."""

    cdef readonly uintptr_t handle  # always 0: memory has addresses only
    cdef readonly uintptr_t address
    cdef readonly size_t nbytes
    cdef ContextHandle context

    usm_type = "device"

    def __init__(self, ContextHandle context not None, size_t nbytes) -> None:
        cdef CuContext* of = context.context
        cdef uint64_t address = 0
        cdef Status status
        if self.address:
            raise TypeError("this CuExported is made already")
        self.context = context
        self.nbytes = nbytes
        with nogil:
            status = enter(of)
            if status == 0:
                give_back_ended(of)
                status = outcome(CALL_MemAlloc_v2, cuda.MemAlloc_v2(&address, nbytes))
                if <uint32_t> status == OUT_OF_MEMORY_CODE:  # the pools may have kept some
                    trim(of, 0)
                    status = outcome(CALL_MemAlloc_v2, cuda.MemAlloc_v2(&address, nbytes))
                leave()
        check(status, f"{nbytes} bytes that other processes can open")
        self.address = address

    def __dealloc__(self):
        if self.address and not is_forked():
            self.context.context.lock.lock()
            self.context.context.ended_exports.push_back(self.address)
            self.context.context.lock.unlock()

    def ipc_handle(self) -> bytes:
        """What opens it in another process."""
        cdef IpcHandle made
        cdef Status status
        with nogil:
            status = enter(self.context.context)
            if status == 0:
                status = outcome(CALL_IpcGetMemHandle, cuda.IpcGetMemHandle(&made, self.address))
                leave()
        check(status, "a handle for other processes")
        return made.bytes[:sizeof(IpcHandle)]


@cython.no_gc_clear
cdef class CuImported:
    """Memory of another process, open until this object goes. That process keeps it for as long."""

    cdef readonly uintptr_t handle
    cdef readonly uintptr_t address
    cdef readonly size_t nbytes
    cdef ContextHandle context

    usm_type = "device"

    def __init__(self, ContextHandle context not None, bytes handle not None) -> None:
        cdef CuContext* of = context.context
        cdef IpcHandle given = read_handle(handle)
        cdef uint64_t address = 0, base = 0
        cdef size_t nbytes = 0
        cdef Status status
        if self.address:
            raise TypeError("this CuImported is made already")
        self.context = context
        with nogil:
            status = enter(of)
            if status == 0:
                give_back_ended(of)
                status = open_import(given, &address)
                if status == 0:
                    status = outcome(CALL_MemGetAddressRange_v2, cuda.MemGetAddressRange_v2(&base, &nbytes, address))
                    if status != 0:
                        end_import(of, address)
                leave()
        check_opened(status, "memory")
        self.address = address
        self.nbytes = base + nbytes - address

    def __dealloc__(self):
        if self.address and not is_forked():
            end_import(self.context.context, self.address)


cdef void end_import(CuContext* context, uint64_t address) noexcept nogil:
    context.lock.lock()
    context.ended_imports.push_back(address)
    context.lock.unlock()


def create_event(ContextHandle context not None) -> tuple[int, bytes]:
    """(handle, which the caller owns; what opens the event in another process)."""
    cdef CuContext* of = context.context
    cdef IpcHandle made
    cdef void* event = NULL
    cdef Status status
    with nogil:  # who frees memory of cuMemAlloc in another thread may hold the driver for long
        status = enter(of)
        if status == 0:
            status = outcome(CALL_EventCreate, cuda.EventCreate(&event, NO_TIMING_INTERPROCESS))
            if status == 0:
                status = outcome(CALL_IpcGetEventHandle, cuda.IpcGetEventHandle(&made, event))
                if status != 0:
                    cuda.EventDestroy_v2(event)
            leave()
    check(status, "an event for other processes")
    return <uintptr_t> new_shared(of, event), made.bytes[:sizeof(IpcHandle)]


def open_event(ContextHandle context not None, bytes handle not None) -> int:
    """The handle, which the caller owns, of an event of another process."""
    cdef CuContext* of = context.context
    cdef IpcHandle given = read_handle(handle)
    cdef void* event = NULL
    cdef Status status
    with nogil:
        status = enter(of)
        if status == 0:
            status = outcome(CALL_IpcOpenEventHandle, cuda.IpcOpenEventHandle(&event, given))
            leave()
    check_opened(status, "event")
    return <uintptr_t> new_shared(of, event)


cdef CuEvent* new_shared(CuContext* context, void* handle) noexcept nogil:
    cdef CuEvent* event = new CuEvent()
    event.references.store(1, memory_order_relaxed)
    event.handle = handle
    event.context = context
    event.word = NULL
    event.kind = IPC_EVENT
    return event


cdef IpcHandle read_handle(bytes handle):
    cdef IpcHandle read
    if len(handle) != sizeof(IpcHandle):
        raise InvalidArgumentError(f"a handle of another process is {HANDLE_BYTES} bytes, not {len(handle)}")
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
