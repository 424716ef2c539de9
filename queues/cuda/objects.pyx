"""The driver's objects as Python objects. Each is given back with its last reference."""

from collections.abc import Sequence

from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, uint32_t, uint64_t, uintptr_t
from libcpp.vector cimport vector

from forebay.core.driver cimport Status
from forebay.queues.cuda.calls cimport (
    CALL_CtxEnablePeerAccess, CALL_CtxGetStreamPriorityRange, CALL_DeviceCanAccessPeer, CALL_EventCreate,
    CALL_EventRecord, CALL_FuncGetAttribute, CALL_FuncSetAttribute, CALL_ModuleGetFunction,
    CALL_ModuleGetGlobal_v2, CALL_ModuleLoadDataEx, CALL_OccupancyMaxActiveBlocksPerMultiprocessor, CALL_StreamGetCtx,
    CALL_StreamWaitEvent, cuda
)
from forebay.queues.cuda.handles cimport (
    DEVICE_POOL, CuContext, CuKernel, CuModule, CuQueue, allow_access, begin_without_gates, end_without_gates, enter,
    leave, new_module, new_queue, open_context, outcome, release_module, retain_module, unload_ended
)

from forebay.core.errors import BuildError, DriverError, OutOfMemoryError
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
