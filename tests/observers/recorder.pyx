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
from libcpp.memory cimport unique_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from forebay.core.driver cimport Driver
from forebay.core.ownership cimport Lock
from forebay.queues.queue cimport Queue

cdef extern from "tests/observers/recorder.hpp" namespace "forebay_observer" nogil:
    cdef cppclass Version "forebay_observer::Call":
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
        vector[Version] tail(size_t first)
        void fail(int function, int64_t code, uint64_t after)
        void fail_at_random(
            const vector[cbool]& functions, const vector[int64_t]& codes, uint64_t seed, uint64_t one_in)
        vector[Version] take()
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
    void wrap_cuda "forebay_observer::wrap_operations<forebay_observer::cuda::Cuda>"(Driver& table) noexcept

cdef extern from "tests/observers/sycl.hpp" namespace "forebay_observer::sycl" nogil:
    cdef enum:
        THROWN_WAIT

    Record& sycl_record "forebay_observer::only<forebay_observer::sycl::Sycl>"()
    void wrap_sycl "forebay_observer::wrap_operations<forebay_observer::sycl::Sycl>"(Driver& table) noexcept
    atomic[uint64_t] kept_back

cdef extern from "queues/levelzero/operations.hpp" namespace "forebay_ze" nogil:
    cdef enum:
        EVENT_KINDS

    cdef cppclass ZeEvent:
        void* handle

    cdef cppclass ZeDevice:
        Lock lock
        vector[unique_ptr[ZeEvent]] idle[4]  # by kind

    cdef cppclass ZeQueue:
        void* list

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

DRIVERS = ("opencl", "levelzero", "sycl", "cuda")
FAILED = -1  # the only error code that dpctl's calls have

# By which call a driver does what: the role and the kind of the calls, and of each of the DRIVERS their names.
CALLS = (
    ("LAUNCH", "command",
     "clEnqueueNDRangeKernel", "zeCommandListAppendLaunchKernel", "DPCTLQueue_SubmitNDRange", "cuLaunchKernel"),
    ("MARKER", "marker",
     "clEnqueueMarkerWithWaitList", "zeCommandListAppendSignalEvent", "DPCTLQueue_SubmitBarrier", "cuEventRecord"),
    ("BARRIER", "barrier", "clEnqueueBarrierWithWaitList", "zeCommandListAppendWaitOnEvents",
     "DPCTLQueue_SubmitBarrierForEvents", "cuStreamWaitEvent"),
    # by which a gate holds the queue; SYCL's is forebay's own list
    ("HOLD", "barrier",
     "clEnqueueBarrierWithWaitList", "zeCommandListAppendWaitOnEvents", "hold", "cuStreamWaitValue32_v2"),
    # each of these can make a gate
    ("GATE", "", "clCreateUserEvent", "zeEventHostReset zeEventPoolCreate", "hold", "cuStreamWaitValue32_v2"),
    # of Level Zero's events that a command signals, no command waits for this serial
    ("MADE_GATE", "gate", "clCreateUserEvent", "zeEventCreate zeEventHostReset", "gate", "gate"),
    ("OPEN", "open", "clSetUserEventStatus", "zeEventHostSignal", "open", "open"),
    ("HOST_FUNCTION", "", "clSetEventCallback", "zeCommandListAppendHostFunction", "hold", "cuLaunchHostFunc"),
    ("ARGUMENT", "argument", "clSetKernelArg clSetKernelArgSVMPointer", "zeKernelSetArgumentValue",
     "DPCTLRawKernelArg_Create", "argument"),
    # cuStreamQuery has the status 600 when it says "not done"; OpenCL's and SYCL's waits are for a marker
    ("FINISH", "finish", "clWaitForEvents", "zeCommandListHostSynchronize", "DPCTLEvent_Wait", "cuStreamQuery"),
    # EventQuery is cuEventQuery, until it says that the event is done
    ("WAIT", "wait", "clWaitForEvents", "zeEventHostSynchronize", "DPCTLEvent_Wait", "EventQuery"),
    ("QUERY", "query",
     "clGetEventInfo", "zeEventQueryStatus", "DPCTLEvent_GetCommandExecutionStatus", "cuEventQuery"),
    ("FLUSH", "", "clFlush", "", "", ""),
    ("REPLAY", "command", "", "zeCommandListImmediateAppendCommandListsExp", "", "cuGraphLaunch"),  # or by a loop
    # a call's event is the node, and its waits are nodes
    ("NODE", "node", "", "", "", "cuGraphAddKernelNode_v2 cuGraphAddMemcpyNode cuGraphAddMemsetNode"),
    ("NEW_RECORDING", "", "", "zeCommandListCreate", "", ""),  # its detail is what `handle_of` is for a queue
    ("NEW_QUEUE", "",
     "clRetainCommandQueue", "zeCommandListCreateImmediate", "DPCTLQueue_Copy", "cuStreamCreateWithPriority"),
    ("RELEASE_QUEUE", "",
     "clReleaseCommandQueue", "zeCommandListDestroy", "DPCTLQueue_Delete", "cuStreamDestroy_v2"),
    ("ALLOCATION", "allocate", "clSVMAlloc clCreateBuffer", "zeMemAllocDevice zeMemAllocHost zeMemAllocShared",
     "DPCTLmalloc_device DPCTLmalloc_shared DPCTLmalloc_host", "cuMemAllocFromPoolAsync"),
)


cdef class Recorder:
    """Records one driver's calls.

    It has the NAMES of the driver's functions, and of operations that are recorded like calls (OWN). Each role of CALLS
    is an attribute: the first name, all names if the role has no kind and several, or None. Besides there are COMMANDS,
    by how they begin; what can NEVER_FAIL; FAILURE, an error that any call may return; and the code OUT_OF_MEMORY.
    """

    cdef Record* record
    cdef void* table  # of the driver's functions
    cdef void (*wrap_operations)(Driver& operations) noexcept nogil  # NULL where only calls are recorded
    cdef Driver unwrapped
    cdef cbool recording
    cdef dict kinds
    cdef object calls  # the driver's `operations`
    cdef str driver
    cdef readonly tuple NAMES
    cdef dict __dict__  # the roles

    OWN = ()
    NEVER_FAIL = ()
    GATE_MARKERS = 0  # markers that a gate makes for itself
    POLLS = False  # whether the driver reports that a queue is done, without a marker
    FINISH_IS_POLL = False  # there is no other finish
    RELEASING = ("Release", "Free", "Destroy", "Delete", "free")  # parts of the names of functions that do

    def __init__(self, str driver):
        self.driver = driver
        self.calls = importlib.import_module(f"forebay.queues.{driver}.operations")
        self.table = <void*> <uintptr_t> self.calls.FUNCTIONS.address
        self.NAMES = (*self.calls.FUNCTIONS.names, *self.OWN)
        self.kinds = {}
        for role, kind, *drivers in CALLS:
            names = drivers[DRIVERS.index(driver)].split()
            if kind:
                self.kinds |= dict.fromkeys(names, kind)
            setattr(self, role, tuple(names) if len(names) > 1 and not kind else names[0] if names else None)

    def kind_of(self, name):
        """The kind of a call; "command" for other commands and "other" for the rest."""
        return self.kinds.get(name, "command" if name.startswith(self.COMMANDS) else "other")

    def may_fail(self, name):
        """Whether a program can go on when this call fails: it releases nothing, and opens no gate."""
        return name not in self.NEVER_FAIL and name != self.OPEN and not any(word in name for word in self.RELEASING)

    def load(self):
        """Fill the table of the driver's functions."""
        self.calls.load()

    def watch(self, emulate=False):
        """Follow all objects that the driver makes from here on, before `start`. Most drivers' need not."""

    def unwatch(self):
        """End what `watch` began."""

    def handle_of(self, Queue queue not None):
        """What the record has for a queue: the driver's handle, of Level Zero the number of its list."""
        return self.record.queue_handle(queue.state.handle)

    def events_alive(self, device):
        """The serials of events made while recorded to which forebay still holds references."""
        return sorted(self.record.alive())

    cdef Driver* operations(self):
        """The driver's table of operations."""
        return <Driver*> <uintptr_t> self.calls.TABLE

    def begin(self):
        self.record.begin()
        self.load()
        self.record.install(self.table)
        if self.wrap_operations != NULL:
            self.unwrapped = self.operations()[0]
            self.wrap_operations(self.operations()[0])

    def end(self):
        if self.wrap_operations != NULL:
            self.operations()[0] = self.unwrapped
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

    cdef list described(self, const vector[Version]& found):
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
        cdef vector[Version] found
        with nogil:
            found = self.record.tail(first)
        return self.described(found)

    def take(self):
        """The calls that `read` would return from the first one on. They leave the record, and none is missed."""
        cdef vector[Version] found
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
        cdef vector[cbool] functions = [self.may_fail(name) for name in self.NAMES]
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


cdef class OpenCL(Recorder):
    """It looks for launches that follow pointers to memory that was freed."""

    COMMANDS = ("clEnqueue",)
    NEVER_FAIL = ("clSVMFree",)
    FAILURE = -36, "CL_INVALID_COMMAND_QUEUE"
    OUT_OF_MEMORY = -6

    def __cinit__(self):
        self.record = &opencl_record()


@functools.cache  # in a child that was forked the driver does not start
def started():
    """CUDA's driver, and how many devices it has."""
    from forebay.queues.cuda import driver

    return driver.start()


cdef uintptr_t first_word(void* thing) noexcept nogil:
    """The driver's handle of a queue of CUDA and SYCL."""
    return (<uintptr_t*> thing)[0]


cdef extern from "queues/cuda/operations.hpp" namespace "forebay_cuda":
    cdef cppclass CuEvent:
        void* handle


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

    OWN = ("gate", "open", "argument", "EventQuery", "ReleaseKernel")
    COMMANDS = ("cuLaunch", "cuMemcpy", "cuMemset", "cuMemPrefetch", "cuGraphLaunch")
    NEVER_FAIL = ("cuModuleUnload", "cuMemPoolTrimTo", "cuCtxPopCurrent_v2", "cuGetErrorName", "gate", "argument")
    GATE_MARKERS = 1  # the event of what is behind the wait for a word
    POLLS = FINISH_IS_POLL = True
    FAILURE = 1, "CUDA_ERROR_INVALID_VALUE"
    OUT_OF_MEMORY = 2

    def __cinit__(self):
        self.record, self.wrap_operations = &cuda_record(), wrap_cuda
        self.record.queue_handle, self.record.event_handle = first_word, handle_of_event

    def load(self):
        self.calls.load(started()[0])

    def watch(self, emulate=False):
        """Open the contexts, which stay. Where nothing executes the driver answers by its model what is done."""
        from forebay.queues.cuda.operations import ContextHandle
        from forebay.queues.cuda.ptx import OWN_KERNELS

        self.load()
        for ordinal in range(started()[1]):
            ContextHandle(ordinal, OWN_KERNELS.encode() + b"\0")


cdef class Sycl(Recorder):
    """Forebay keeps back commands behind a gate. They are recorded at once, so the record shows SYCL's order, and its
    readers need not know. A marker, a barrier, a copy and a fill have one name each, whichever call of dpctl it is.
    Arguments, which SYCL takes with the launch, are recorded when they are set.

    A call that fails returns nothing: dpctl has no error codes, and those given to `fail` are only recorded.
    """

    OWN = ("gate", "hold", "open")
    COMMANDS = ("DPCTLQueue_SubmitNDRange", "DPCTLQueue_Mem", "DPCTLQueue_Fill")
    OUT_OF_MEMORY = FAILED

    def __cinit__(self):
        self.record, self.wrap_operations = &sycl_record(), wrap_sycl
        self.record.queue_handle = first_word

    @property
    def NEVER_FAIL(self):
        return "gate", *[name for name in self.calls.FUNCTIONS.names if name.endswith("_Delete") or "free" in name]

    @property
    def FAILURE(self):
        from forebay.queues.sycl.device import NO_REASON

        return FAILED, NO_REASON

    def copies_in_launches(self):
        """How many kernels were copied for launches behind gates since the process began: the record leaves these
        out.
        """
        return kept_back.load()

    def throw_in_wait(self):
        """Let the next wait end at once, as dpctl lets a wait end that has thrown, and its event say nothing."""
        self.record.fail(THROWN_WAIT, FAILED, 0)


cdef uintptr_t list_number(void* queue) noexcept nogil:
    return number_of((<ZeQueue*> queue).list)


cdef extern from "queues/levelzero/operations.hpp" namespace "forebay_ze":
    double _ticks_between "forebay_ze::ticks_between"(uint64_t first, uint64_t second, uint64_t mask) nogil


def ticks_between(uint64_t first, uint64_t second, uint64_t mask):
    """As `elapsed` of Level Zero computes it."""
    return _ticks_between(first, second, mask)


cdef class LevelZero(Recorder):
    """It follows each call: the objects and their scopes, the order of each list, and what the host knows to be done.
    From these it finds violations that null hardware hides. Hardware that executes nothing reports at once that
    everything is done. With `emulate` the recorder answers instead: commands behind a gate that the host has not opened
    are not done, and host functions are called.

    The record identifies a list by a number that is never used again. A serial identifies one signal of an event. If a
    call that ends an object is made to fail, the object still ends.
    """

    COMMANDS = ("zeCommandListAppend",)
    GATE_MARKERS = 1  # to know when a gate may be used again
    POLLS = True
    FAILURE = 0x7FFFFFFE, "ZE_RESULT_ERROR_UNKNOWN"
    OUT_OF_MEMORY = 0x70000003
    OBJECTS = ("contexts", "lists", "events", "pools", "modules", "kernels", "memory", "logs")

    cdef int watches
    cdef cbool watched_to_record

    def __cinit__(self):
        self.record = &state()
        self.record.queue_handle = list_number

    def watch(self, emulate=False, refused=False):
        """Follow objects and find violations from here on, without recording calls. Call it before they are made.

        `emulate` answers for hardware that executes nothing. `refused` reports each call that the driver, or a layer
        before it, refuses.
        """
        cdef uintptr_t properties_of
        if self.watches == 0:
            self.calls.load()
            library = ctypes.CDLL(self.calls.LIBRARY)
            properties_of = ctypes.cast(library.zeMemGetAllocProperties, ctypes.c_void_p).value
            begin_watch(<GetAllocProperties> properties_of, <cbool> refused)
            self.record.install(self.table)
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
            self.record.uninstall(self.table)

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
                idle.push_back(known.idle[kind][i].get().handle)
        known.lock.unlock()
        return sorted(event_serials(idle))

    def alive(self):
        """The number of objects of each kind that were made while watched and not destroyed."""
        return dict(zip(self.OBJECTS, objects_alive()))

    def pointer(self, name):
        """The current address in the table of calls, for tests that call a function wrongly on purpose."""
        return <uintptr_t> (<void**> self.table)[self.NAMES.index(name)]

    def replace(self, name, uintptr_t function):
        """Put the address of a function, or 0 as if the loader did not have it, into the table of calls."""
        (<void**> self.table)[<size_t> self.NAMES.index(name)] = <void*> function


RECORDERS = {
    "opencl": OpenCL("opencl"), "level_zero": LevelZero("levelzero"), "sycl": Sycl("sycl"), "cuda": Cuda("cuda")
}
