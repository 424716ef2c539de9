"""CUDA's devices, programs and memory as Python objects. operations.hpp has the table of operations
(`forebay.core.driver`) and what these objects hold. The driver's functions are looked up at run time.
"""

import ctypes
from collections.abc import Sequence

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy
from libcpp cimport bool as cbool
from libcpp.atomic cimport atomic
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

from forebay.core.driver cimport Driver, Status
from forebay.core.ownership cimport Ref
from forebay.core.process cimport is_forked
from forebay.queues.memory.allocation cimport ForeignMemory, NativeMemory

from forebay.core.driver import DriverMemory, FunctionTable
from forebay.core.errors import BuildError, InvalidArgumentError, OutOfMemoryError

cdef enum:
    NOT_FOUND = 500  # an error code
    # CUfunction_attribute
    THREADS = 0
    STATIC_SHARED = 1
    DYNAMIC_SHARED = 8
    LOG_SIZE = 1 << 14

ctypedef Status (*Function)(...) noexcept nogil


# `calls.hpp` lists the parameters of each function, and the C++ compiler checks them.
cdef extern from "queues/cuda/calls.hpp" namespace "forebay_cuda":
    cdef struct IpcHandle:
        char* bytes

    cdef enum:
        N_CALLS

    cdef struct Calls:
        Function StreamGetCtx, IpcGetMemHandle, IpcOpenEventHandle, ModuleGetFunction, ModuleGetGlobal_v2
        Function FuncGetAttribute, FuncSetAttribute, OccupancyMaxActiveBlocksPerMultiprocessor
        Function DeviceCanAccessPeer, CtxPushCurrent_v2, CtxPopCurrent_v2, CtxGetStreamPriorityRange
        Function GetErrorName

    const char* const* call_names
    Status within(const Calls& cuda, void* context, ...) noexcept nogil


# The header says what each is, and what it holds.
cdef extern from "queues/cuda/operations.hpp" namespace "forebay_cuda" nogil:
    Calls cuda
    Driver table

    cdef enum:
        OUT_OF_MEMORY, AHEAD

    cdef enum EventKind:
        IPC_EVENT

    cdef enum MemoryKind:
        DEVICE_POOL, SHARED_POOL, HOST_POOL

    cdef enum EndedKind:
        ENDED_REGISTRATIONS, ENDED_EXPORTS, ENDED_IMPORTS, ENDED_KINDS

    void rest(int microseconds) noexcept
    bint is_lost(uint32_t error) noexcept

    cdef cppclass WithoutGates:
        bint begin() noexcept
        bint try_begin() noexcept

    cdef cppclass CuEvent:
        CuEvent(EventKind kind, CuContext* context, void* handle) noexcept

    cdef cppclass CuContext:
        void* handle
        int32_t device
        cbool migrates
        Ref[CuModule] kernels
        atomic[uint32_t] streams, stream_capacity

        @staticmethod
        Status open(int32_t device, const char* kernels, CuContext*& context) noexcept
        bint reach(CuContext* other, Status& status) noexcept
        Status order(void* later, void* earlier) noexcept
        Status create_ipc_event(CuEvent*& made, IpcHandle& opener) noexcept
        void make_streams_ahead(uint32_t before) noexcept
        Status load_module(const char* image, char* log, size_t log_size, void** module) noexcept
        Status take_memory(MemoryKind kind, size_t nbytes, uint64_t& address) noexcept
        void give_back_memory(MemoryKind kind, size_t nbytes, uint64_t address) noexcept
        Status register_memory(uint64_t address, size_t nbytes) noexcept
        Status export_memory(size_t nbytes, uint64_t& address) noexcept
        Status import_memory(const IpcHandle& opener, uint64_t& address, size_t& nbytes) noexcept
        Status give_back_shared(cbool& done) noexcept
        void destroy_later(EndedKind kind, uint64_t handle) noexcept
        void destroy_ended(EndedKind kind) noexcept
        bint try_destroy_ended(EndedKind first, EndedKind last) noexcept

    cdef cppclass CuQueue:
        CuQueue(CuContext* context, PyObject* owner) noexcept
        void* stream

        @staticmethod
        Status create(CuContext* context, int32_t priority, unique_ptr[CuQueue]& made) noexcept

    cdef cppclass CuModule:
        CuModule(CuContext* context, void* handle, bint prints) noexcept
        void* handle

    cdef cppclass CuKernel:
        CuKernel(void* function, Ref[CuModule] module, vector[size_t] sizes, vector[uint32_t] alignments) noexcept

TABLE: int = <uintptr_t> &table


# -- what blocks until no gate is closed


cdef int wait_without_gates(WithoutGates& none) except -1 nogil:
    while not none.begin():
        rest(1000)
        with gil:
            PyErr_CheckSignals()
    return 0


cdef int reserve_stream(CuContext* context) except -1 nogil:
    """Count a stream that is about to be made. If the driver has no memory for it, blocks until no gate is closed."""
    cdef WithoutGates none
    cdef uint32_t count = context.streams.fetch_add(1) + 1
    cdef uint32_t capacity = context.stream_capacity.load()
    if count + AHEAD // 2 <= capacity:
        return 0
    if count <= capacity:  # there is memory for this one, so do not wait
        if not none.try_begin():
            return 0
    else:
        context.streams.fetch_sub(1)
        wait_without_gates(none)
        count = context.streams.fetch_add(1) + 1
    if count + AHEAD // 2 > context.stream_capacity.load():
        context.make_streams_ahead(context.streams.load() - 1)  # the counted one is not made yet
    return 0


# -- Python objects over these: each is released with its last reference


def load(library: ctypes.CDLL) -> None:
    """Fill the table from the driver's library, once. Raises `ImportError` if the driver lacks one of the functions."""
    FUNCTIONS.load(library, "CUDA's driver", "install a driver of CUDA 13.0 or newer (580)")


def error_name(int code) -> str:
    """Return the CUDA_ERROR_… name, or "error CODE" if unknown. Codes of commands are negated."""
    cdef const char* name = NULL
    code = abs(code)
    if (<void**> &cuda)[0] == NULL or cuda.GetErrorName(<uint32_t> code, &name) != 0 or name == NULL:
        return f"error {code}"
    return name.decode()


FUNCTIONS: FunctionTable = FunctionTable(
    <uintptr_t> &cuda, tuple([(b"cu" + call_names[i]).decode() for i in range(N_CALLS)]), error_name,
    (OUT_OF_MEMORY,), frozenset([code for code in range(1000) if is_lost(code)]))


cdef int check(Status status, str what) except -1:
    if status != 0:
        raise FUNCTIONS.failed(status, what)
    return 0


cdef class ContextHandle:
    """The primary context of a GPU, shared by all its Devices, for the life of the process. `kernels`: PTX of forebay's
    own, ending with a zero; `migrates`: whether shared memory can be prefetched. Making the context blocks for 0.5 s.
    """

    cdef CuContext* context

    def __init__(self, int32_t device, bytes kernels not None, bint migrates=False) -> None:
        cdef Status status = 0
        cdef const char* text = kernels
        with nogil:
            status = CuContext.open(device, text, self.context)
            if migrates and status == 0:
                self.context.migrates = True
        check(status,
              "opening the device; where many processes share it, start them with CUDA_DEVICE_MAX_CONNECTIONS=8")

    @property
    def address(self) -> int:
        """The address of the CuContext, which is the context handle of the table."""
        return <uintptr_t> self.context

    @property
    def handle(self) -> int:
        return <uintptr_t> self.context.handle

    def __enter__(self) -> None:
        """Make the context current: other packages use this thread's device when they hand over memory or streams."""
        check(cuda.CtxPushCurrent_v2(self.context.handle), "making the context current")

    def __exit__(self, *raised: object) -> None:
        cdef void* popped = NULL
        cuda.CtxPopCurrent_v2(&popped)

    @property
    def streams(self) -> int:
        """The number of forebay's streams on the GPU, over all Devices."""
        return self.context.streams.load()

    @property
    def priorities(self) -> tuple[int, ...]:
        """Lower is more urgent."""
        cdef int32_t least = 0, greatest = 0
        check(within(cuda, self.context.handle, cuda.CtxGetStreamPriorityRange, &least, &greatest),
              "the priorities of streams")
        return tuple(range(greatest, least + 1))

    def can_reach(self, ContextHandle peer not None) -> bool:
        """All Devices of a GPU have one context."""
        cdef int32_t can = peer.context.device == self.context.device
        if not can:
            check(cuda.DeviceCanAccessPeer(&can, self.context.device, peer.context.device), "access to another GPU")
        return can != 0

    def reach(self, ContextHandle peer not None) -> bool:
        """Let this GPU use the other's memory: its pools and variables. False while a gate is closed."""
        cdef Status status = 0
        cdef bint reached
        with nogil:
            reached = self.context.reach(peer.context, status)
        check(status, "access to another GPU")
        return reached

    def create_queue(self, int32_t priority) -> tuple[int, int]:
        """Make a stream that the legacy null stream does not wait for: (driver's handle, table's handle, which the
        caller owns). If the driver lacks memory for it (docs/cuda.md), blocks without the GIL until no gate is closed;
        Ctrl-C interrupts.
        """
        cdef Status status
        cdef unique_ptr[CuQueue] queue
        with nogil:
            reserve_stream(self.context)
            status = CuQueue.create(self.context, priority, queue)
        check(status, "making a queue")
        return <uintptr_t> queue.get().stream, <uintptr_t> queue.release()

    def adopt_queue(self, uintptr_t stream, object owner) -> int:
        """Return the table's handle, which the caller owns, of `owner`'s stream. It retains `owner`: even after a close
        forebay may query the stream.
        """
        cdef CuQueue* queue = new CuQueue(self.context, <PyObject*> owner)
        Py_INCREF(owner)
        queue.stream = <void*> stream
        return <uintptr_t> queue

    def order(self, uintptr_t later, uintptr_t earlier) -> None:
        """Order a stream, from now on, after another one's work so far. Either may be a default stream."""
        check(self.context.order(<void*> later, <void*> earlier), "waiting for a stream of another package")


def context_of(uintptr_t stream) -> int:
    """Return the driver's handle of the stream's context. Raises `DriverError`."""
    cdef void* context = NULL
    check(cuda.StreamGetCtx(<void*> stream, &context), f"the context of stream {stream:#x}")
    return <uintptr_t> context


cdef class CuProgram:
    """A loaded module: PTX that ends with a zero, or a cubin. `name` is the device's. Raises `BuildError` with the
    driver's log.

    Blocks while the driver compiles, until nothing runs on the device, and while any gate of any CUDA device in the
    process is closed: otherwise the driver would block, and launches of other threads with it.
    """

    cdef Ref[CuModule] module
    cdef ContextHandle context

    def __init__(self, ContextHandle context not None, bytes image not None, str name) -> None:
        cdef CuContext* of = context.context
        cdef const char* text = image
        cdef void* handle = NULL
        cdef Status status
        cdef bytearray errors = bytearray(LOG_SIZE)
        cdef char* log_at = errors
        cdef WithoutGates none
        self.context = context
        with nogil:
            wait_without_gates(none)
            status = of.load_module(text, log_at, LOG_SIZE, &handle)
        if status != 0:
            error = FUNCTIONS.failed(status)
            if isinstance(error, OutOfMemoryError):
                raise error
            log = bytes(errors).split(b"\0")[0].decode(errors="replace").strip() or error.name
            raise BuildError(f"the program does not build on {name}: {error}\n{log}", log=log)
        self.module = Ref[CuModule].adopt(new CuModule(of, handle, b"vprintf" in image))

    @staticmethod
    def own(ContextHandle context not None) -> CuProgram:
        """The module of forebay's own kernels, which lives as long as the context. Does not block."""
        cdef CuProgram made = CuProgram.__new__(CuProgram)
        made.context = context
        made.module = context.context.kernels
        return made

    def function(self, str symbol) -> int:
        """Return the driver's handle of a kernel, valid as long as this object."""
        cdef bytes encoded = symbol.encode()
        cdef void* function = NULL
        check(cuda.ModuleGetFunction(&function, self.module.get().handle, encoded), f"kernel {symbol!r}")
        return <uintptr_t> function

    def limits(self, uintptr_t function, int32_t most_shared) -> tuple[int, int]:
        """Give a kernel this much shared memory in all. Returns its maximum of work-items and static shared bytes."""
        cdef int32_t threads = 0, static = 0
        cdef Status status = cuda.FuncGetAttribute(&threads, THREADS, <void*> function)
        if status == 0:
            status = cuda.FuncGetAttribute(&static, STATIC_SHARED, <void*> function)
        if status == 0 and most_shared > static:
            status = cuda.FuncSetAttribute(<void*> function, DYNAMIC_SHARED, most_shared - static)
        check(status, "properties of a kernel")
        return threads, static

    def groups_at_once(self, uintptr_t function, int32_t block, size_t shared) -> int:
        """Groups that run at once on a multiprocessor, each with so much dynamic shared memory."""
        cdef int32_t groups = 0
        check(within(
            cuda, self.context.context.handle, cuda.OccupancyMaxActiveBlocksPerMultiprocessor, &groups,
            <void*> function, block, shared), f"groups of {block}")
        return groups

    def create_kernel(self, uintptr_t function, sizes: Sequence[int], alignments: Sequence[int]) -> int:
        """Make a kernel object; the caller owns the handle. `sizes`: bytes of the driver's parameters. `alignments`: of
        each of forebay's parameters that is local memory, 0 for others.
        """
        cdef vector[size_t] nbytes = sizes
        cdef vector[uint32_t] of_locals = alignments
        return <uintptr_t> new CuKernel(<void*> function, self.module, nbytes, of_locals)

    def variable(self, str symbol) -> ForeignMemory | None:
        """The memory of a variable, which keeps the program loaded; None for an unknown name."""
        cdef bytes encoded = symbol.encode()
        cdef size_t nbytes = 0
        cdef uint64_t address = 0
        cdef Status status = cuda.ModuleGetGlobal_v2(&address, &nbytes, self.module.get().handle, encoded)
        if <uint32_t> status == NOT_FOUND:
            return None
        check(status, f"variable {symbol!r}")
        return ForeignMemory(self, address, nbytes)


# -- memory of the GPU and its pinned host memory, and what processes share: each is released with its last reference


POOL_KINDS: dict[str, int] = {"device": DEVICE_POOL, "shared": SHARED_POOL, "host": HOST_POOL}


@cython.no_gc_clear  # freeing needs the context
cdef class CuMemory(NativeMemory):
    """Memory of the device, of the host, or shared by both, from a pool; host and shared memory has the buffer
    protocol. Drop the last reference only when the device is done with it.

    Using it needs no wait for the stream that it is taken on: the pool maps memory in the call, that stream has no
    other work, and memory was returned to the pool when the device was done with it.
    """

    cdef ContextHandle context
    cdef MemoryKind kind

    def __init__(self, ContextHandle context not None, size_t nbytes, str usm_type="device") -> None:
        cdef CuContext* of = context.context
        cdef MemoryKind kind = POOL_KINDS[usm_type]
        cdef uint64_t address = 0
        cdef Status status
        self.context = context
        self.nbytes = nbytes
        self.usm_type = usm_type
        self.kind = kind
        with nogil:
            status = of.take_memory(kind, nbytes, address)
        check(status, f"{nbytes} bytes of {usm_type} memory")
        self.address = address

    def __dealloc__(self):
        if self.address and not is_forked():  # else it is the parent's
            with nogil:
                self.context.context.give_back_memory(self.kind, self.nbytes, self.address)


# -- memory and events that processes share (CUDA Programming Guide, "Interprocess Communication")
#
# Such memory comes from cuMemAlloc: an IPC handle opens no memory of a pool, and a pool with another way of sharing
# returns no memory to the system. cuMemFree and cuIpcCloseMemHandle wait for the whole device and block launches of
# other threads, behind a closed gate for ever. So they are left to calls that may block: see `try_destroy_ended`.


OWN_PROCESS = 201  # CUDA_ERROR_INVALID_CONTEXT


@cython.no_gc_clear
cdef class CuLateMemory(NativeMemory):
    """Memory whose release by the driver would wait. It is the program's, which keeps it; or the device's, exported and
    no longer used when this is destroyed; or another process's, which keeps it as long.
    """

    cdef ContextHandle context
    cdef EndedKind kind  # ENDED_KINDS once released

    def __dealloc__(self):
        if self.kind != ENDED_KINDS and not is_forked():
            self.context.context.destroy_later(self.kind, self.address)
            if self.kind == ENDED_REGISTRATIONS:
                with nogil:
                    self.context.context.try_destroy_ended(ENDED_REGISTRATIONS, ENDED_REGISTRATIONS)


cdef CuLateMemory new_late_memory(
    ContextHandle context, EndedKind kind, uint64_t address, size_t nbytes, str usm_type="device"
):
    cdef CuLateMemory made = CuLateMemory.__new__(CuLateMemory)
    made.context = context
    made.kind = kind
    made.address = address
    made.nbytes = nbytes
    made.usm_type = usm_type
    return made


class SharingDevice:
    """The part of a `DriverDevice` that is about the program's memory, and memory and events of several processes."""

    handle: ContextHandle

    def register_host(self, uintptr_t address, size_t nbytes) -> CuLateMemory:
        """As `DriverDevice.register_host`: pinned; does not block."""
        cdef ContextHandle context = self.handle
        cdef Status status
        with nogil:
            status = context.context.register_memory(address, nbytes)
        check(status, f"registering {nbytes} bytes of the host")
        return new_late_memory(context, ENDED_REGISTRATIONS, address, nbytes, "host")

    def unregister_host(self, memory: DriverMemory) -> None:
        """As `DriverDevice.unregister_host`. Blocks until nothing runs on the device, and no gate is closed."""
        cdef CuLateMemory late
        cdef WithoutGates none
        if isinstance(memory, CuLateMemory):
            late = memory
            if late.kind == ENDED_REGISTRATIONS:
                late.context.context.destroy_later(late.kind, late.address)
                late.kind = ENDED_KINDS
            with nogil:
                wait_without_gates(none)
                late.context.context.destroy_ended(ENDED_REGISTRATIONS)

    def allocate_shared(self, nbytes: int) -> CuLateMemory:
        """As `DriverDevice.allocate_shared`. Blocks until nothing runs if such memory was closed, and no gate is."""
        cdef ContextHandle context = self.handle
        cdef uint64_t address = 0
        cdef size_t size
        cdef Status status
        self.check_size(nbytes)
        size = max(nbytes, 1)
        with nogil:
            status = context.context.export_memory(size, address)
        check(status, f"{size} bytes that other processes can open")
        return new_late_memory(context, ENDED_EXPORTS, address, size)

    def memory_handle(self, memory: DriverMemory) -> bytes:
        """As `DriverDevice.memory_handle`: 64 bytes, CUDA's."""
        cdef CuContext* of = (<ContextHandle?> self.handle).context
        cdef IpcHandle made
        cdef uint64_t address = memory.address
        cdef Status status
        if not isinstance(memory, CuLateMemory) or (<CuLateMemory> memory).kind != ENDED_EXPORTS:
            raise InvalidArgumentError(
                "this memory cannot be opened by other processes: Device.empty(…, ipc_enabled=True) makes such")
        with nogil:
            status = within(cuda, of.handle, cuda.IpcGetMemHandle, &made, address)
        check(status, "a handle for other processes")
        return made.bytes[:sizeof(IpcHandle)]

    def open_memory(self, bytes handle not None) -> CuLateMemory:
        """As `DriverDevice.open_memory`. Blocks as `allocate_shared`."""
        cdef ContextHandle context = self.handle
        cdef IpcHandle given = read_handle(handle)
        cdef uint64_t address = 0
        cdef size_t nbytes = 0
        cdef Status status
        with nogil:
            status = context.context.import_memory(given, address, nbytes)
        check_opened(status, "memory")
        return new_late_memory(context, ENDED_IMPORTS, address, nbytes)

    def give_back_shared(self) -> bool:
        cdef CuContext* of = (<ContextHandle?> self.handle).context
        cdef cbool done = False
        cdef Status status
        with nogil:
            status = of.give_back_shared(done)
        check(status, "giving memory back")
        return done

    def create_shared_event(self) -> tuple[int, bytes]:
        cdef CuContext* of = (<ContextHandle?> self.handle).context
        cdef IpcHandle opener
        cdef CuEvent* event = NULL
        cdef Status status
        with nogil:  # cuMemFree in another thread may block the driver for long
            status = of.create_ipc_event(event, opener)
        check(status, "an event for other processes")
        return <uintptr_t> event, opener.bytes[:sizeof(IpcHandle)]

    def open_event(self, bytes handle not None) -> int:
        cdef CuContext* of = (<ContextHandle?> self.handle).context
        cdef IpcHandle given = read_handle(handle)
        cdef void* event = NULL
        cdef Status status
        with nogil:
            status = within(cuda, of.handle, cuda.IpcOpenEventHandle, &event, given)
        check_opened(status, "event")
        return <uintptr_t> new CuEvent(IPC_EVENT, of, event)


cdef IpcHandle read_handle(bytes handle):
    cdef IpcHandle read
    if len(handle) != sizeof(IpcHandle):
        raise InvalidArgumentError(f"a handle of another process is {sizeof(IpcHandle)} bytes, not {len(handle)}")
    memcpy(&read, <const char*> handle, sizeof(IpcHandle))
    return read


cdef int check_opened(Status status, str what) except -1:
    """Raise for a handle that opens nothing."""
    if status == 0 or <uint32_t> status == OUT_OF_MEMORY:
        return check(status, f"{what} of another process")
    error = FUNCTIONS.failed(status)
    if error.code == OWN_PROCESS:
        raise InvalidArgumentError(f"this handle is of {what} of this process, which only others can open ({error})")
    raise InvalidArgumentError(
        f"this handle opens no {what} here: it may be gone with its process, of another kind, or of a GPU that this "
        f"process does not see ({error})")
