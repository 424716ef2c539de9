"""The driver's objects as Python objects. Each is given back with its last reference."""

from collections.abc import Sequence

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy
from libcpp.atomic cimport memory_order_relaxed
from libcpp.vector cimport vector

from forebay.core.driver cimport Status
from forebay.core.process cimport is_forked
from forebay.core.vector_clock cimport Lock
from forebay.queues.cuda.calls cimport (
    CALL_CtxEnablePeerAccess, CALL_CtxGetStreamPriorityRange, CALL_DeviceCanAccessPeer, CALL_EventCreate,
    CALL_EventRecord, CALL_FuncGetAttribute, CALL_FuncSetAttribute, CALL_IpcGetEventHandle, CALL_IpcGetMemHandle,
    CALL_IpcOpenEventHandle, CALL_IpcOpenMemHandle_v2, CALL_MemAllocFromPoolAsync, CALL_MemAlloc_v2,
    CALL_MemGetAddressRange_v2, CALL_MemHostRegister_v2, CALL_ModuleGetFunction, CALL_ModuleGetGlobal_v2,
    CALL_ModuleLoadDataEx, CALL_OccupancyMaxActiveBlocksPerMultiprocessor, CALL_StreamGetCtx, CALL_StreamWaitEvent,
    IpcHandle, cuda
)
from forebay.queues.cuda.handles cimport (
    DEVICE_POOL, HOST_POOL, IPC_EVENT, LARGEST_BLOCK, POOLS, SHARED_POOL, CuContext, CuEvent, CuKernel, CuModule,
    CuQueue, MemoryKind, allow_access, begin_without_gates, end_without_gates, enter, give_back_block, leave,
    new_module, new_queue, open_context, open_pool, outcome, release_module, retain_module, take_block, unload_ended
)

from forebay.core.errors import BuildError, DriverError, InvalidArgumentError, OutOfMemoryError
from forebay.queues.cuda.calls import CALL_NAMES, error_name

cdef enum:
    NOT_FOUND = 500
    ALREADY_ENABLED = 704  # access to a peer
    NO_TIMING = 2  # of an event
    # CUfunction_attribute
    THREADS = 0
    STATIC_SHARED = 1
    DYNAMIC_SHARED = 8
    # CUjit_option
    ERROR_LOG = 5
    ERROR_SIZE = 6
    LOG_SIZE = 1 << 14

OUT_OF_MEMORY: int = 2  # as Python knows it


def explain(Status status) -> tuple[str, int, str]:
    """(call, code, name of the code) of a failed operation."""
    code = status & 0xFFFFFFFF
    return CALL_NAMES[status >> 32], code, error_name(code)


cdef int check(Status status, str what) except -1:
    """Raise for a failed call."""
    if status == 0:
        return 0
    call, code, name = explain(status)
    message = f"{call} failed: {name} ({what})"
    if code == OUT_OF_MEMORY:
        raise OutOfMemoryError(message)
    raise DriverError(message, call=call, code=code, name=name)


cdef class ContextHandle:
    """The primary context of a GPU, which all Devices of it share and which lives as long as the process.

    Parameters
    ----------
    device : int
        The driver's number of the GPU.
    kernels : bytes
        PTX of forebay's own kernels, ending with a zero.

    Blocks while the context is made, half a second when nobody in the process has used the GPU before.
    """

    def __init__(self, int32_t device, bytes kernels not None) -> None:
        cdef Status status = 0
        cdef const char* text = kernels
        if self.context != NULL:
            raise TypeError("this ContextHandle is made already")
        with nogil:
            self.context = open_context(device, text, &status)
        check(status,
              "opening the device; where many processes share it, start them with CUDA_DEVICE_MAX_CONNECTIONS=8")

    @property
    def address(self) -> int:
        """The address of the CuContext, which is the context handle for the table of operations."""
        return <uintptr_t> self.context

    @property
    def handle(self) -> int:
        """The driver's handle of the context."""
        return <uintptr_t> self.context.handle

    def __enter__(self) -> None:
        """Make the context current in this thread until `__exit__`: other packages take the thread's current device for
        the one that is meant when they hand over memory or streams.
        """
        check(enter(self.context), "making the context current")

    def __exit__(self, *raised: object) -> None:
        leave()

    @property
    def streams(self) -> int:
        """How many streams forebay has on the GPU, of all Devices."""
        return self.context.streams.load()

    @property
    def priorities(self) -> tuple[int, ...]:
        """The priorities of streams; lower is more urgent."""
        cdef int32_t least = 0, greatest = 0
        cdef Status status = enter(self.context)
        if status == 0:
            status = outcome(CALL_CtxGetStreamPriorityRange, cuda.CtxGetStreamPriorityRange(&least, &greatest))
            leave()
        check(status, "the priorities of streams")
        return tuple(range(greatest, least + 1))

    def can_reach(self, ContextHandle peer not None) -> bool:
        """Whether this GPU has access to the memory of another one. All Devices of a GPU have one context."""
        cdef int32_t can = peer.context.device == self.context.device
        if not can:
            check(outcome(CALL_DeviceCanAccessPeer, cuda.DeviceCanAccessPeer(
                &can, self.context.device, peer.context.device)), "access to another GPU")
        return can != 0

    def reach(self, ContextHandle peer not None) -> bool:
        """Let this GPU use the other's memory: of its pools, and its variables. False while a gate is closed."""
        cdef CuContext* context = self.context
        cdef CuContext* other = peer.context
        cdef Status status = 0
        cdef bint reached
        with nogil:
            reached = context == other or has_reached(context, other.device)
            if not reached and begin_without_gates():
                status = reach_memory(context, other)
                end_without_gates()
                reached = True
        check(status, "access to another GPU")
        return reached

    def create_queue(self, int32_t priority) -> tuple[int, int]:
        """A stream that the legacy null stream does not wait for: (the driver's handle, the operations' handle, which
        the caller owns).

        Blocks behind a closed gate where the driver takes memory for more streams (docs/cuda.md); others run meanwhile.
        """
        cdef Status status = 0
        cdef CuQueue* queue
        with nogil:
            queue = new_queue(self.context, priority, &status)
        check(status, "making a queue")
        return <uintptr_t> queue.stream, <uintptr_t> queue

    def adopt_queue(self, uintptr_t stream, object owner) -> int:
        """The operations' handle, which the caller owns, of a stream of another package. The stream is `owner`'s, which
        is kept as long as the handle: after a close, too, forebay may have to ask the stream how far it is.
        """
        cdef CuQueue* queue = new CuQueue()
        Py_INCREF(owner)
        queue.owner = <PyObject*> owner
        queue.stream = <void*> stream
        queue.context = self.context
        queue.owned = False
        return <uintptr_t> queue

    def order(self, uintptr_t later, uintptr_t earlier) -> None:
        """Let what one stream gets from now on come after what another has got. The other may be a default stream."""
        cdef void* event = NULL
        cdef Status status = enter(self.context)  # which default streams are of
        if status == 0:
            status = outcome(CALL_EventCreate, cuda.EventCreate(&event, NO_TIMING))
            if status == 0:
                status = outcome(CALL_EventRecord, cuda.EventRecord(event, <void*> earlier))
                if status == 0:
                    status = outcome(CALL_StreamWaitEvent, cuda.StreamWaitEvent(<void*> later, event, 0))
                cuda.EventDestroy_v2(event)
            leave()
        check(status, "waiting for a stream of another package")


def context_of(uintptr_t stream) -> int:
    """The driver's handle of the context that a stream is of. Raises `DriverError`."""
    cdef void* context = NULL
    check(outcome(CALL_StreamGetCtx, cuda.StreamGetCtx(<void*> stream, &context)), f"the context of stream {stream:#x}")
    return <uintptr_t> context


cdef bint has_reached(CuContext* context, int32_t device) noexcept nogil:
    cdef bint found = False
    cdef size_t i
    context.lock.lock()
    for i in range(context.reached.size()):
        if context.reached[i] == device:
            found = True
    context.lock.unlock()
    return found


cdef Status reach_memory(CuContext* context, CuContext* other) noexcept nogil:
    """Pools say by themselves who has access to what is taken from them, variables and other packages' memory do not.
    """
    cdef Status status = enter(context)
    if status == 0:
        status = outcome(CALL_CtxEnablePeerAccess, cuda.CtxEnablePeerAccess(other.handle, 0))
        leave()
    if <uint32_t> status == ALREADY_ENABLED:  # by another package
        status = 0
    if status == 0:
        status = allow_access(other.pools[<int> DEVICE_POOL], context.device)
    if status == 0:
        context.lock.lock()
        context.reached.push_back(other.device)
        context.lock.unlock()
    return status


cdef class CuProgram:
    """A module that is loaded.

    Parameters
    ----------
    image : bytes
        PTX that ends with a zero, or a cubin.
    name : str
        Of the device, for errors.

    Raises
    ------
    BuildError
        If the driver refuses it; with what it says as the log.

    Blocks while the driver compiles; until nothing runs on the device; and while any gate is closed, of any device of
    CUDA in this process: behind a closed gate the driver would block, and let no other thread launch.
    """

    cdef CuModule* module
    cdef ContextHandle context

    def __init__(self, ContextHandle context not None, bytes image not None, str name) -> None:
        cdef CuContext* of = context.context
        cdef const char* text = image
        cdef uint32_t options[4]
        cdef void* values[4]
        cdef void* handle = NULL
        cdef Status status
        cdef bytearray errors = bytearray(LOG_SIZE)
        if self.module != NULL:
            raise TypeError("this CuProgram is made already")
        self.context = context
        options[0] = ERROR_LOG
        values[0] = <char*> errors
        options[1] = ERROR_SIZE
        values[1] = <void*> <uintptr_t> LOG_SIZE
        with nogil:
            while not begin_without_gates():
                rest()
                with gil:
                    PyErr_CheckSignals()
            status = enter(of)
            if status == 0:
                unload_ended(of)
                status = outcome(CALL_ModuleLoadDataEx, cuda.ModuleLoadDataEx(&handle, text, 2, options, values))
                leave()
            end_without_gates()
        if status != 0:
            call, code, called = explain(status)
            if code == OUT_OF_MEMORY:
                check(status, "building a program")
            log = bytes(errors).split(b"\0")[0].decode(errors="replace").strip() or called
            raise BuildError(f"the program does not build on {name}: {call} failed: {called}\n{log}", log=log)
        self.module = new_module(of, handle, b"vprintf" in image)

    @staticmethod
    def own(ContextHandle context not None) -> CuProgram:
        """The module of forebay's own kernels, which was loaded with the context and stays. Does not block."""
        cdef CuProgram made = CuProgram.__new__(CuProgram)
        made.context = context
        made.module = retain_module(context.context.kernels)
        return made

    def __dealloc__(self):
        if self.module != NULL:
            release_module(self.module)

    def function(self, str symbol) -> int:
        """The driver's handle of a kernel. It is valid as long as this object."""
        cdef bytes encoded = symbol.encode()
        cdef void* function = NULL
        check(outcome(CALL_ModuleGetFunction, cuda.ModuleGetFunction(&function, self.module.handle, encoded)),
              f"kernel {symbol!r}")
        return <uintptr_t> function

    def limits(self, uintptr_t function, int32_t most_shared) -> tuple[int, int]:
        """Have a kernel take so many bytes of shared memory in all, and return (work-items that a group can have,
        bytes of its own shared memory).
        """
        cdef int32_t threads = 0, static = 0
        cdef Status status = outcome(CALL_FuncGetAttribute, cuda.FuncGetAttribute(
            &threads, THREADS, <void*> function))
        if status == 0:
            status = outcome(CALL_FuncGetAttribute, cuda.FuncGetAttribute(&static, STATIC_SHARED, <void*> function))
        if status == 0 and most_shared > static:
            status = outcome(CALL_FuncSetAttribute, cuda.FuncSetAttribute(
                <void*> function, DYNAMIC_SHARED, most_shared - static))
        check(status, "properties of a kernel")
        return threads, static

    def groups_at_once(self, uintptr_t function, int32_t block, size_t shared) -> int:
        """How many groups of so many work-items a multiprocessor runs at once, each with so many bytes of dynamic
        shared memory.
        """
        cdef int32_t groups = 0
        cdef Status status = enter(self.context.context)
        if status == 0:
            status = outcome(CALL_OccupancyMaxActiveBlocksPerMultiprocessor,
                             cuda.OccupancyMaxActiveBlocksPerMultiprocessor(
                                 &groups, <void*> function, block, shared))
            leave()
        check(status, f"groups of {block}")
        return groups

    def create_kernel(self, uintptr_t function, sizes: Sequence[int], alignments: Sequence[int]) -> int:
        """The operations' handle of a new kernel object, which the caller owns.

        Parameters
        ----------
        sizes
            Bytes of the driver's parameters.
        alignments
            By forebay's parameter, that of its local memory; 0 for one that is none. The last ones may have no
            parameter of the driver's.
        """
        cdef CuKernel* kernel = new CuKernel()
        cdef vector[size_t] offsets
        cdef size_t words = 0
        cdef size_t offset
        cdef size_t nbytes
        for nbytes in sizes:
            offsets.push_back(words)
            words += (nbytes + 7) // 8
        kernel.words.resize(words)
        for offset in offsets:
            kernel.values.push_back(kernel.words.data() + offset)
        for alignment in alignments:
            kernel.alignments.push_back(alignment)
        kernel.locals.resize(kernel.alignments.size())
        kernel.function = <void*> function
        kernel.module = retain_module(self.module)
        return <uintptr_t> kernel

    def variable(self, str symbol) -> CuVariable | None:
        """A variable of the program; None if no variable has this name."""
        cdef bytes encoded = symbol.encode()
        cdef size_t nbytes = 0
        cdef uint64_t address = 0
        cdef CuVariable variable
        cdef Status status = outcome(CALL_ModuleGetGlobal_v2, cuda.ModuleGetGlobal_v2(
            &address, &nbytes, self.module.handle, encoded))
        if <uint32_t> status == NOT_FOUND:
            return None
        check(status, f"variable {symbol!r}")
        variable = CuVariable.__new__(CuVariable)
        variable.program = self
        variable.address = address
        variable.nbytes = nbytes
        return variable


cdef class CuVariable:
    """The memory of a variable. It keeps the program loaded."""

    cdef readonly uintptr_t address
    cdef readonly size_t nbytes
    cdef CuProgram program

    handle = 0  # memory has addresses only
    usm_type = "device"


# -- memory of a GPU, and of the host for it, as Python objects. Each is given back with its last reference


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
    """Free and close the shared memory that has no reference left. That waits until nothing runs on the device.
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


# With the context current.
cdef Status open_import(const IpcHandle& handle, uint64_t* address) noexcept nogil:
    """Open memory of another process."""
    cdef Status status
    importing.lock()
    status = outcome(CALL_IpcOpenMemHandle_v2, cuda.IpcOpenMemHandle_v2(address, handle, LAZY_ENABLE_PEER_ACCESS))
    importing.unlock()
    return status


# -- memory and events that processes share (CUDA Programming Guide, "Interprocess Communication")
#
# Memory is of cuMemAlloc: a handle opens nothing of a pool, and a pool whose memory can be shared otherwise gives none
# back to the system. cuMemFree and cuIpcCloseMemHandle wait for the whole device and let no other thread launch
# meanwhile, behind a closed gate for ever. So they are left to who blocks anyway: see `give_back_ended`.


cdef enum:
    NO_TIMING_INTERPROCESS = 2 | 4  # of an event

HANDLE_BYTES: int = sizeof(IpcHandle)
OWN_PROCESS = 201  # CUDA_ERROR_INVALID_CONTEXT


def give_back_shared(ContextHandle context not None) -> bool:
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


def create_ipc_event(ContextHandle context not None) -> tuple[int, bytes]:
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


def open_ipc_event(ContextHandle context not None, bytes handle not None) -> int:
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
