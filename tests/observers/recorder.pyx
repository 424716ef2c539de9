"""Records the driver calls that forebay makes, and makes chosen ones fail: one recorder for all drivers.

It does not see calls inside the driver, nor calls that pyopencl or dpctl make themselves. Mistakes that the driver
allows, and that no result shows, are `violations`.
"""

import ctypes
import functools
import importlib

from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libcpp cimport bool as cbool
from libcpp.atomic cimport atomic
from libcpp.string cimport string
from libcpp.vector cimport vector

from forebay.core.driver cimport Driver
from forebay.queues.cuda.calls cimport cuda
from forebay.queues.cuda.handles cimport CuEvent, CuQueue
from forebay.queues.levelzero.calls cimport ze
from forebay.queues.levelzero.handles cimport EVENT_KINDS, ZeDevice, ZeQueue
from forebay.queues.opencl.calls cimport cl
from forebay.queues.queue cimport Queue
from forebay.queues.sycl.calls cimport FAILED, sycl
from forebay.queues.sycl.operations cimport SyclQueue

cdef extern from "tests/observers/recorder.hpp" namespace "forebay_observer" nogil:
    cdef cppclass Seen "forebay_observer::Call":
        int function
        uintptr_t object
        uintptr_t kernel
        vector[int64_t] waits
        int64_t event
        int64_t detail
        int64_t status
        cbool injected
        uint64_t thread

    cdef cppclass Record:
        uintptr_t (*queue_handle)(void* queue) noexcept
        uintptr_t (*event_handle)(void* event) noexcept
        void install(void* table)
        void uninstall(void* table)
        size_t size()
        vector[Seen] tail(size_t first)
        void fail(int function, int64_t code, uint64_t after)
        void fail_at_random(
            const vector[cbool]& functions, const vector[int64_t]& codes, uint64_t seed, uint64_t one_in)
        vector[Seen] take()
        void drop_waits(const vector[cbool]& functions, uint64_t one_in)
        uint64_t waits_dropped()
        void forgive()
        vector[string] take_violations()
        void pause(int function)
        void wait_until_paused()
        void go_on()
        void begin()
        vector[int64_t] alive()

cdef extern from "tests/observers/opencl.hpp" nogil:
    Record& opencl_record "forebay_observer::only<forebay_observer::opencl::OpenCL>"()

cdef extern from "tests/observers/cuda.hpp" nogil:
    Record& cuda_record "forebay_observer::only<forebay_observer::cuda::Cuda>"()
    void wrap_cuda "forebay_observer::wrap_operations<forebay_observer::cuda::Cuda>"(Driver& table)

cdef extern from "tests/observers/sycl.hpp" namespace "forebay_observer::sycl" nogil:
    cdef enum:
        THROWN_WAIT

    Record& sycl_record "forebay_observer::only<forebay_observer::sycl::Sycl>"()
    void wrap_sycl "forebay_observer::wrap_operations<forebay_observer::sycl::Sycl>"(Driver& table)
    atomic[uint64_t] kept_back

cdef extern from "tests/observers/levelzero.hpp" namespace "forebay_observer::levelzero" nogil:
    ctypedef void* GetAllocProperties

    cdef cppclass LevelZeroRecord "forebay_observer::levelzero::LevelZero" (Record):
        cbool recording, emulating
        uint64_t room
        int blocked

    LevelZeroRecord& state()
    void set[T](T& member, T value)
    uint64_t UNLIMITED "UINT64_MAX"
    void begin_watch(GetAllocProperties properties_of, cbool reports_refused)
    vector[int64_t] event_serials(const vector[void*]& idle)
    vector[size_t] objects_alive()
    unsigned int number_of(void* list)

# The kinds of the calls that drivers name below. A wait comes after a finish, which may be the same call.
KINDS = {
    "MARKER": "marker", "BARRIER": "barrier", "HOLD": "barrier", "FINISH": "finish", "WAIT": "wait", "QUERY": "query",
    "OPEN": "open", "ARGUMENT": "argument",
}


def names_of(backend):
    """The driver's functions, by number."""
    return importlib.import_module(f"forebay.queues.{backend}.calls").CALL_NAMES


cdef class Recorder:
    """Records one driver's calls.

    Each driver's class has the NAMES of its functions, and of operations that are recorded like calls; which of these
    are COMMANDS, by how they begin, are of OTHER kinds, or NEVER_FAIL; and by which call each operation is done, where
    there is only one: LAUNCH, UPLOAD, DOWNLOAD, FILL (with elements of four bytes), MARKER, BARRIER, ARGUMENT, WAIT,
    QUERY, NEW_QUEUE, RELEASE_QUEUE, OPEN, and HOLD, by which a gate holds the queue; HOST_FUNCTION, and FINISH (perhaps
    for a marker); GATE, of which any one makes a gate. FAILURE is an error that any call may return, and OUT_OF_MEMORY
    a code.
    """

    cdef Record* record
    cdef void* table  # of the driver's functions
    cdef Driver unwrapped
    cdef cbool recording
    cdef readonly dict kinds

    NEVER_FAIL = ()
    OTHER = {}
    REPLAY = None  # the replay of a graph; None: by a loop over its commands
    NEW_RECORDING = None  # its detail is what `handle_of` is for a queue
    FLUSH = None
    GATE_MARKERS = 0  # markers that a gate makes for itself
    POLLS = False  # whether the driver reports that a queue is done, without a marker
    FINISH_IS_POLL = False  # there is no other finish
    RELEASING = ("Release", "Free", "Destroy", "Delete", "free")  # parts of the names of functions that do

    def __init__(self):
        self.kinds = {getattr(self, role): kind for role, kind in KINDS.items()} | self.OTHER

    def kind_of(self, name):
        """The kind of a call; "command" for other commands and "other" for the rest."""
        return self.kinds.get(name, "command" if name.startswith(self.COMMANDS) else "other")

    def load(self):
        """Fill the table of the driver's functions."""

    def watch(self, emulate=False):
        """Follow all objects that the driver makes from here on, before `start`. Most drivers' need not."""

    def unwatch(self):
        """End what `watch` began."""

    def events_alive(self, device):
        """The serials of events made while recorded to which forebay still holds references."""
        return sorted(self.record.alive())

    def begin(self):
        self.record.begin()
        self.load()
        self.record.install(self.table)

    def end(self):
        self.record.uninstall(self.table)

    def start(self):
        """Begin to record, with an empty log and no failures planned."""
        if self.recording:
            raise RuntimeError("the driver's calls are being recorded already")
        self.begin()
        self.recording = True

    def stop(self):
        """Stop recording. The log stays until the next start."""
        if self.recording:
            self.end()
            self.recording = False

    def count(self):
        """How many calls were recorded."""
        return self.record.size()

    cdef list described(self, const vector[Seen]& found):
        cdef size_t i
        return [
            (self.NAMES[found[i].function], found[i].object, found[i].kernel, tuple(found[i].waits), found[i].event,
             found[i].detail, found[i].status, found[i].injected, found[i].thread)
            for i in range(found.size())
        ]

    def read(self, size_t first):
        """The calls from the one with this index on, as tuples.

        (name, object, kernel, serials of the events waited for, serial of the event made or meant, detail, status,
        injected, thread)
        """
        cdef vector[Seen] found
        with nogil:
            found = self.record.tail(first)
        return self.described(found)

    def take(self):
        """The calls that `read` would return from the first one on. They leave the record, and none is missed."""
        cdef vector[Seen] found
        with nogil:
            found = self.record.take()
        return self.described(found)

    def fail(self, name, int64_t code, uint64_t after):
        """Make a later call of this name, after `after` others, return the code without reaching the driver."""
        if name not in self.NAMES or name in self.NEVER_FAIL:
            raise ValueError(f"no call is named {name!r}, or it has no way of failing")
        self.record.fail(self.NAMES.index(name), code, after)

    def fail_at_random(self, uint64_t seed, uint64_t one_in):
        """Make calls fail at random places until `forgive`: one in so many of each function but those that release
        something or open a gate.
        """
        cdef vector[cbool] functions = [
            name not in self.NEVER_FAIL and name != self.OPEN and not any(word in name for word in self.RELEASING)
            for name in self.NAMES
        ]
        cdef vector[int64_t] codes = [self.FAILURE[0], self.OUT_OF_MEMORY]
        self.record.fail_at_random(functions, codes, seed, one_in)

    def drop_waits(self, uint64_t one_in, names=None):
        """Let one call in so many, of those of these functions (all) that have waits, reach the driver without them,
        until `forgive`: an order that the program asked for is lost. The record shows the waits that were asked for.

        In CUDA a wait is a call of its own (cuStreamWaitEvent), which does not reach the driver then, and nodes of a
        graph lose what they depend on.
        """
        cdef vector[cbool] functions = [names is None or name in names for name in self.NAMES]
        self.record.drop_waits(functions, one_in)

    def waits_dropped(self):
        """How many calls have lost their waits."""
        return self.record.waits_dropped()

    def forgive(self):
        """Cancel all failures planned by `fail` and `fail_at_random`, and give the driver all waits."""
        self.record.forgive()

    def violations(self):
        """The violations since the last call of this function, as texts."""
        return [text.decode() for text in self.record.take_violations()]

    def pause(self, name):
        """Let the next call of this name not return to its caller before `go_on`. SYCL's operations do not."""
        self.record.pause(self.NAMES.index(name))

    def wait_until_paused(self):
        """Block until a call does not return."""
        with nogil:
            self.record.wait_until_paused()

    def go_on(self):
        """Let the paused call return."""
        self.record.go_on()


cdef Driver* operations_of(str backend):
    """The driver's table of operations."""
    cdef uintptr_t address = importlib.import_module(f"forebay.queues.{backend}.operations").table_address()
    return <Driver*> address


cdef class OpenCL(Recorder):
    """It looks for launches that follow pointers to memory that was freed."""

    NAMES = names_of("opencl")
    COMMANDS = ("clEnqueue",)
    OTHER = {
        "clSetKernelArgSVMPointer": "argument",
        "clCreateUserEvent": "gate",
        "clSVMAlloc": "allocate",
        "clCreateBuffer": "allocate",
    }
    NEVER_FAIL = ("clSVMFree",)
    LAUNCH = "clEnqueueNDRangeKernel"
    UPLOAD = "clEnqueueWriteBuffer"
    DOWNLOAD = "clEnqueueReadBuffer"
    FILL = "clEnqueueFillBuffer"
    MARKER = "clEnqueueMarkerWithWaitList"
    BARRIER = HOLD = "clEnqueueBarrierWithWaitList"
    HOST_FUNCTION = "clSetEventCallback"
    ARGUMENT = "clSetKernelArg"
    FINISH = WAIT = "clWaitForEvents"  # for a marker
    QUERY = "clGetEventInfo"
    GATE = ("clCreateUserEvent",)
    FLUSH = "clFlush"
    OPEN = "clSetUserEventStatus"
    NEW_QUEUE = "clRetainCommandQueue"
    RELEASE_QUEUE = "clReleaseCommandQueue"
    FAILURE = -36, "CL_INVALID_COMMAND_QUEUE"
    OUT_OF_MEMORY = -6

    def __cinit__(self):
        self.record, self.table = &opencl_record(), &cl

    def load(self):
        from forebay.queues.opencl import calls

        calls.load()

    def handle_of(self, Queue queue not None):
        """The driver's handle of a queue."""
        return <uintptr_t> queue.state.handle


@functools.cache  # in a child that was forked the driver does not start
def started():
    """CUDA's driver, and how many devices it has."""
    from forebay.queues.cuda import library

    return library.start()


cdef uintptr_t stream_of(void* queue) noexcept nogil:
    return <uintptr_t> (<CuQueue*> queue).stream


cdef uintptr_t handle_of_event(void* event) noexcept nogil:
    return <uintptr_t> (<CuEvent*> event).handle


cdef class Cuda(Recorder):
    """What is recorded is what the driver was asked for. Only what belongs together is put together, as other drivers
    have it in one call: what a stream waits for is recorded with the command that follows, or as a call of its own name
    where none does; a copy and the event behind it are one command; and a wait of the host is one call, however it
    asks. Making a gate, opening it, setting an argument and releasing a kernel object are no calls of the driver, and
    cannot fail.

    It looks for gates whose word is used again before their stream has passed it.
    """

    NAMES = (*names_of("cuda"), "gate", "open", "argument", "EventQuery", "ReleaseKernel")
    COMMANDS = ("cuLaunch", "cuMemcpy", "cuMemset", "cuMemPrefetch", "cuGraphLaunch")
    OTHER = {
        "cuMemAllocFromPoolAsync": "allocate",
        "gate": "gate",
        "cuGraphAddKernelNode_v2": "node",  # its event is the node, and its waits are nodes
        "cuGraphAddMemcpyNode": "node",
        "cuGraphAddMemsetNode": "node",
    }
    NEVER_FAIL = ("cuModuleUnload", "cuMemPoolTrimTo", "cuCtxPopCurrent_v2", "cuGetErrorName", "gate", "argument")
    LAUNCH = "cuLaunchKernel"
    UPLOAD = DOWNLOAD = "cuMemcpyAsync"
    FILL = "cuMemsetD32Async"
    MARKER = "cuEventRecord"
    BARRIER = "cuStreamWaitEvent"
    HOLD = "cuStreamWaitValue32_v2"
    HOST_FUNCTION = "cuLaunchHostFunc"
    ARGUMENT = "argument"
    REPLAY = "cuGraphLaunch"
    FINISH = "cuStreamQuery"  # with the status 600 when it says "not done"
    WAIT = "EventQuery"  # cuEventQuery, until it says that the event is done
    QUERY = "cuEventQuery"
    GATE = ("cuStreamWaitValue32_v2",)  # a gate is an event that was made before
    OPEN = "open"
    NEW_QUEUE = "cuStreamCreateWithPriority"
    RELEASE_QUEUE = "cuStreamDestroy_v2"
    GATE_MARKERS = 1  # the event of what is behind the wait for a word
    POLLS = FINISH_IS_POLL = True
    FAILURE = 1, "CUDA_ERROR_INVALID_VALUE"
    OUT_OF_MEMORY = 2

    def __cinit__(self):
        self.record, self.table = &cuda_record(), &cuda
        self.record.queue_handle, self.record.event_handle = stream_of, handle_of_event

    def load(self):
        from forebay.queues.cuda import calls

        calls.load(started()[0])

    def watch(self, emulate=False):
        """Open the contexts, which stay. Where nothing executes the driver answers by its model what is done."""
        from forebay.queues.cuda.objects import ContextHandle
        from forebay.queues.cuda.own_kernels import PTX

        self.load()
        for ordinal in range(started()[1]):
            ContextHandle(ordinal, PTX.encode() + b"\0")

    def begin(self):
        super().begin()
        self.unwrapped = operations_of("cuda")[0]
        wrap_cuda(operations_of("cuda")[0])

    def end(self):
        operations_of("cuda")[0] = self.unwrapped
        super().end()

    def handle_of(self, Queue queue not None):
        """The driver's handle of a queue."""
        return stream_of(queue.state.handle)


cdef uintptr_t native_queue(void* queue) noexcept nogil:
    return <uintptr_t> (<SyclQueue*> queue).queue


cdef class Sycl(Recorder):
    """Forebay keeps back commands behind a gate. They are recorded at once, so the record shows SYCL's order, and its
    readers need not know. A marker, a barrier, a copy and a fill have one name each, whichever call of dpctl it is.
    Arguments, which SYCL takes with the launch, are recorded when they are set.

    A call that fails returns nothing: dpctl has no error codes, and those given to `fail` are only recorded.
    """

    NAMES = (*names_of("sycl"), "gate", "hold", "open")
    COMMANDS = ("DPCTLQueue_SubmitNDRange", "DPCTLQueue_Mem", "DPCTLQueue_Fill")
    OTHER = {
        "DPCTLmalloc_device": "allocate",
        "DPCTLmalloc_shared": "allocate",
        "DPCTLmalloc_host": "allocate",
        "gate": "gate",
    }
    NEVER_FAIL = ("gate", *[name for name in NAMES if name.endswith("_Delete") or "free" in name])
    LAUNCH = "DPCTLQueue_SubmitNDRange"
    UPLOAD = DOWNLOAD = "DPCTLQueue_Memcpy"
    FILL = "DPCTLQueue_Fill32"
    MARKER = "DPCTLQueue_SubmitBarrier"
    BARRIER = "DPCTLQueue_SubmitBarrierForEvents"
    HOLD = HOST_FUNCTION = "hold"  # by forebay's own list
    ARGUMENT = "DPCTLRawKernelArg_Create"
    FINISH = WAIT = "DPCTLEvent_Wait"  # for a marker
    QUERY = "DPCTLEvent_GetCommandExecutionStatus"
    GATE = ("hold",)  # makes it, too
    OPEN = "open"
    NEW_QUEUE = "DPCTLQueue_Copy"
    RELEASE_QUEUE = "DPCTLQueue_Delete"
    OUT_OF_MEMORY = FAILED

    def __cinit__(self):
        self.record, self.table = &sycl_record(), &sycl
        self.record.queue_handle = native_queue

    @property
    def FAILURE(self):
        from forebay.queues.sycl.device import NO_REASON

        return FAILED, NO_REASON

    def load(self):
        from forebay.queues.sycl import calls

        calls.load()

    def begin(self):
        super().begin()
        self.unwrapped = operations_of("sycl")[0]
        wrap_sycl(operations_of("sycl")[0])

    def end(self):
        operations_of("sycl")[0] = self.unwrapped
        super().end()

    def copies_in_launches(self):
        """How many kernels were copied for launches behind gates since the process began: the record leaves these
        out.
        """
        return kept_back.load()

    def throw_in_wait(self):
        """Let the next wait end at once, as dpctl lets a wait end that has thrown, and its event say nothing."""
        self.record.fail(THROWN_WAIT, FAILED, 0)

    def handle_of(self, Queue queue not None):
        """The driver's handle of a queue."""
        return native_queue(queue.state.handle)


cdef class LevelZero(Recorder):
    """It follows each call: the objects and their scopes, the order of each list, and what the host knows to be done.
    From these it finds violations that null hardware hides. Hardware that executes nothing reports at once that
    everything is done. With `emulate` the recorder answers instead: commands behind a gate that the host has not opened
    are not done, and host functions are called.

    The record identifies a list by a number that is never used again. A serial identifies one signal of an event. If a
    call that ends an object is made to fail, the object still ends.
    """

    NAMES = names_of("levelzero")
    COMMANDS = ("zeCommandListAppend", "zeCommandListImmediateAppend")
    OTHER = {
        "zeEventCreate": "gate",  # for events that a command signals, no command waits for this serial
        "zeEventHostReset": "gate",
        "zeMemAllocDevice": "allocate",
        "zeMemAllocHost": "allocate",
        "zeMemAllocShared": "allocate",
    }
    LAUNCH = "zeCommandListAppendLaunchKernel"
    UPLOAD = DOWNLOAD = "zeCommandListAppendMemoryCopy"
    FILL = "zeCommandListAppendMemoryFill"
    MARKER = "zeCommandListAppendSignalEvent"
    BARRIER = HOLD = "zeCommandListAppendWaitOnEvents"
    HOST_FUNCTION = "zeCommandListAppendHostFunction"
    ARGUMENT = "zeKernelSetArgumentValue"
    REPLAY = "zeCommandListImmediateAppendCommandListsExp"
    FINISH = "zeCommandListHostSynchronize"
    WAIT = "zeEventHostSynchronize"
    QUERY = "zeEventQueryStatus"
    GATE = ("zeEventHostReset", "zeEventPoolCreate")  # for a used gate, or for a new one
    OPEN = "zeEventHostSignal"
    NEW_QUEUE = "zeCommandListCreateImmediate"
    NEW_RECORDING = "zeCommandListCreate"
    RELEASE_QUEUE = "zeCommandListDestroy"
    GATE_MARKERS = 1  # to know when a gate may be used again
    POLLS = True
    FAILURE = 0x7FFFFFFE, "ZE_RESULT_ERROR_UNKNOWN"
    OUT_OF_MEMORY = 0x70000003
    OBJECTS = ("contexts", "lists", "events", "pools", "modules", "kernels", "memory", "logs")

    cdef int watches
    cdef cbool watched_to_record

    def __cinit__(self):
        self.record, self.table = &state(), &ze

    def watch(self, emulate=False, refused=False):
        """Follow objects and find violations from here on, without recording calls. Call it before they are made.

        Parameters
        ----------
        emulate : bool
            Answer for hardware that executes nothing.
        refused : bool
            Report each call that the driver, or a layer before it, refuses.
        """
        from forebay.queues.levelzero import calls, loader

        cdef uintptr_t properties_of
        if self.watches == 0:
            library = loader.load().library
            calls.load(library)
            properties_of = ctypes.cast(library.zeMemGetAllocProperties, ctypes.c_void_p).value
            begin_watch(<GetAllocProperties> properties_of, <cbool> refused)
            self.record.install(&ze)
        self.watches += 1
        set(state().emulating, <cbool> emulate)

    def unwatch(self):
        """End what `watch` began. The last one restores the driver's own functions."""
        if self.watches == 0:
            return
        self.watches -= 1
        set(state().emulating, <cbool> False)
        set(state().room, UNLIMITED)
        if self.watches == 0:
            self.record.uninstall(&ze)

    def begin(self):
        self.record.begin()
        if self.watches == 0:
            self.watch()
            self.watched_to_record = True
        set(state().recording, <cbool> True)

    def end(self):
        set(state().recording, <cbool> False)
        self.forgive()
        if self.watched_to_record:
            self.unwatch()
            self.watched_to_record = False

    def limit(self, uint64_t commands):
        """Let this number of commands behind a closed gate fill a list, as on NVIDIA's driver: the next one blocks."""
        set(state().room, commands)

    def blocked(self):
        """The number of threads that wait for room on a list."""
        return state().blocked

    def events_alive(self, device):
        """The serials of events in use: of signals since `start`, and of events not waiting to be used again."""
        cdef vector[void*] idle
        cdef ZeDevice* known = <ZeDevice*> <uintptr_t> device.driver.context_handle
        cdef size_t i
        cdef int kind
        known.lock.lock()
        for kind in range(EVENT_KINDS):
            for i in range(known.idle[kind].size()):
                idle.push_back(known.idle[kind][i].handle)
        known.lock.unlock()
        return sorted(event_serials(idle))

    def alive(self):
        """The number of objects of each kind that were made while watched and not destroyed."""
        return dict(zip(self.OBJECTS, objects_alive()))

    def handle_of(self, Queue queue not None):
        """The number by which `read` identifies the list of a queue."""
        return number_of((<ZeQueue*> queue.state.handle).list)

    def pointer(self, name):
        """The current address in the table of calls, for tests that call a function wrongly on purpose."""
        return <uintptr_t> (<void**> self.table)[self.NAMES.index(name)]


RECORDERS = {"opencl": OpenCL(), "level_zero": LevelZero(), "sycl": Sycl(), "cuda": Cuda()}
