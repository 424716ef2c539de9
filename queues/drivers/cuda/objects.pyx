"""The driver's objects as Python objects. Each is given back with its last reference."""

from collections.abc import Sequence

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, uint32_t, uint64_t, uintptr_t
from libcpp.vector cimport vector

from forebay.core.driver cimport Status
from forebay.queues.drivers.cuda.calls cimport (
    CALL_CtxGetStreamPriorityRange, CALL_EventCreate, CALL_EventRecord, CALL_FuncGetAttribute, CALL_FuncSetAttribute,
    CALL_MemAllocFromPoolAsync, CALL_MemHostRegister_v2, CALL_ModuleGetFunction, CALL_ModuleGetGlobal_v2,
    CALL_ModuleLoadDataEx,
    CALL_OccupancyMaxActiveBlocksPerMultiprocessor, CALL_StreamGetCtx, CALL_StreamWaitEvent, cuda
)
from forebay.queues.drivers.cuda.handles cimport (
    DEVICE_POOL, HOST_POOL, LARGEST_BLOCK, POOLS, SHARED_POOL, CuContext, CuKernel, CuModule, CuQueue, MemoryKind,
    begin_without_gates, end_without_gates, enter, give_back_block, leave, new_module, new_queue, open_context,
    open_pool, outcome, release_module, retain_module, take_block, unload_ended
)

from forebay.core.errors import BuildError, DriverError, OutOfMemoryError
from forebay.queues.drivers.cuda.calls import CALL_NAMES, error_name

cdef enum:
    OUT_OF_MEMORY_CODE = 2
    NOT_FOUND = 500
    PORTABLE_MAPPED = 3  # registered for all contexts, with an address for the device
    NO_TIMING = 2  # of an event
    # CUfunction_attribute
    THREADS = 0
    STATIC_SHARED = 1
    DYNAMIC_SHARED = 8
    # CUjit_option
    ERROR_LOG = 5
    ERROR_SIZE = 6
    LOG_SIZE = 1 << 14
    KEPT = 64 << 20  # as in handles.pyx

OUT_OF_MEMORY: int = 2  # as Python knows it
KINDS: dict[str, int] = {"device": DEVICE_POOL, "shared": SHARED_POOL, "host": HOST_POOL}


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

    def adopt_queue(self, uintptr_t stream) -> int:
        """The operations' handle of a stream that another package owns, which the caller owns."""
        cdef CuQueue* queue = new CuQueue()
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
            if <uint32_t> status == OUT_OF_MEMORY_CODE:  # the pools may have kept some
                trim(of, 0)
                status = take_memory(of, kind, nbytes, &address)
        check(status, f"{nbytes} bytes of {usm_type} memory")
        self.address = address

    def __dealloc__(self):
        if not self.address:
            return
        if is_block(self.kind, self.nbytes):  # KINDS may be gone: the process may be ending
            give_back_block(self.context.context, self.nbytes, self.address)
        else:
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

    def __dealloc__(self):
        cdef CuContext* context
        if not self.address:
            return
        context = self.context.context
        context.lock.lock()
        context.ended_registrations.push_back(self.address)
        context.lock.unlock()
        with nogil:
            unregister_ended(context)

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, <void*> self.address, self.nbytes, False, flags)


cdef void unregister_ended(CuContext* context) noexcept nogil:
    """Unregister what the device reaches no more. Behind a closed gate the driver would wait, and let no other thread
    launch: then it is left to who comes next.
    """
    cdef vector[uint64_t] ended
    cdef size_t i
    if not begin_without_gates():
        return
    context.lock.lock()
    ended.swap(context.ended_registrations)
    context.lock.unlock()
    for i in range(ended.size()):
        cuda.MemHostUnregister(ended[i])
    end_without_gates()


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
        self.module = new_module(of, handle)
        if b"vprintf" in image:
            of.prints.store(1)

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


cdef extern from *:
    """
    #include <chrono>
    #include <thread>
    static inline void forebay_pause() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }
    """
    void rest "forebay_pause" () noexcept nogil
