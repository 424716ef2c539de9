"""The OpenCL side of the table of operations (`forebay.core.driver`), and memory.

The functions are found at run time in the loader that pyopencl uses, and the objects are pyopencl's. Its own enqueue
functions always ask for an event, so they cannot be the launch path.
"""

import ctypes

import pyopencl

cimport cython
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from libcpp.vector cimport vector

from forebay.core.driver cimport (
    DONE, HOST_MEMORY, NOT_YET, TIMED, Answer, Arrival, Driver, Geometry, HostCallback, Interrupted, Memory,
    Status, Waits
)
from forebay.core.ownership cimport Guard, Lock
from forebay.core.process cimport is_forked
from forebay.queues.memory.allocation cimport ForeignMemory, NativeMemory
from forebay.sync.ordering cimport wait_watched

from forebay.core.driver import fill_table
from forebay.core.errors import DriverError, OutOfMemoryError

ctypedef int32_t cl_int
ctypedef uint32_t cl_uint
ctypedef Status (*Function)(...) noexcept nogil
ctypedef void* (*Maker)(...) noexcept nogil


# `calls.hpp` lists the parameters of each function, and the C++ compiler checks them.
cdef extern from "queues/opencl/calls.hpp" namespace "forebay_cl":
    cdef enum Call:
        CALL_CreateKernel, CALL_CreateUserEvent
        N_CALLS

    cdef struct Calls:
        Function EnqueueNDRangeKernel, EnqueueMarkerWithWaitList, EnqueueBarrierWithWaitList
        Function EnqueueReadBuffer, EnqueueWriteBuffer, EnqueueCopyBuffer, EnqueueFillBuffer
        Function EnqueueSVMMemcpy, EnqueueSVMMemFill, GetCommandQueueInfo
        Function SetKernelArg, SetKernelArgSVMPointer, SetKernelExecInfo, Flush, WaitForEvents
        Function GetEventInfo, GetEventProfilingInfo, SetEventCallback, SetUserEventStatus
        Function RetainEvent, ReleaseEvent, RetainCommandQueue, ReleaseCommandQueue, RetainKernel, ReleaseKernel
        Function RetainMemObject, ReleaseMemObject, SetMemObjectDestructorCallback, RetainContext, ReleaseContext
        Maker CreateKernel, CreateUserEvent, SVMAlloc, CreateBuffer, CreateSubBuffer
        void (*SVMFree)(...) noexcept nogil

    const char* const* call_names


cdef Calls cl

CALLS: int = <uintptr_t> &cl
CALL_NAMES: tuple[str, ...] = tuple([(b"cl" + call_names[i]).decode() for i in range(N_CALLS)])

_SVM = {
    "clEnqueueSVMMemcpy", "clEnqueueSVMMemFill", "clSetKernelArgSVMPointer", "clSetKernelExecInfo", "clSVMAlloc",
    "clSVMFree",
}


def load() -> None:
    """Fill the table from the loader that pyopencl's extension module is linked to. One call is enough.

    A symbol lookup in a library also searches the libraries it depends on. So this finds the same loader that made
    pyopencl's objects, wherever it came from. Raises `ImportError` if that is too old to have one of the functions; the
    SVM functions may be missing.
    """
    fill_table(CALLS, CALL_NAMES, ctypes.CDLL(pyopencl._cl.__file__), _SVM, "the OpenCL loader",
               "forebay needs OpenCL 1.2 or newer")


cdef inline Status outcome(Call call, cl_int error) noexcept nogil:
    if error == 0:
        return 0
    return (<int64_t> call << 32) | <uint32_t> error


cdef size_t WARP = 32  # rows of whole warps are what they are in HIP


cdef void flatten(Geometry* geometry) noexcept nogil:
    """Submit (x, y, z) as (x * y * z, 1, 1) with the shape as the offset."""
    cdef size_t x = geometry.block[0], y = geometry.block[1], z = geometry.block[2]
    if y * z == 1 or x % WARP == 0:
        return
    geometry.local_size[0] = x * y * z
    geometry.local_size[1] = geometry.local_size[2] = 1
    geometry.offset[0], geometry.offset[1] = x, y
    # A launch of two dimensions has no offset in the third, which is 0 to the kernel.
    geometry.offset[2] = z - 1


RESHAPE: int = <uintptr_t> &flatten


# -- fills by a kernel, where memory is addresses alone
#
# clEnqueueSVMMemFill would do. But NVIDIA's driver (580) gives no context back in which it was called: each keeps half
# a GiB of the GPU and some of its channels, and after a hundred no process gets a context any more. Found on an H200.


FILL_SOURCE = """
kernel void fill(global uchar *to, ulong nbytes, ulong16 pattern)
{
    ulong first = get_global_id(0) * 16, end = min(first + 16, nbytes);
    uint4 value = ((uint4 *) &pattern)[get_global_id(0) % 8];
    if (first + 16 <= nbytes && (ulong) to % 16 == 0)
        *(global uint4 *) (to + first) = value;
    else
        for (ulong i = first; i < end; i++)
            to[i] = ((uchar *) &value)[i - first];
}
"""

cdef enum:
    CL_QUEUE_CONTEXT = 0x1090
    REPEATED = 128  # bytes; every pattern's size divides it
    OF_ONE = 16  # bytes that a work-item writes
    GROUP = 64

cdef cppclass Filler:
    uintptr_t context
    uintptr_t program
    vector[void*] idle  # kernels that no thread is submitting

cdef Lock lock
cdef vector[Filler] fillers  # each device has one


def add_fill_program(uintptr_t context, uintptr_t program) -> None:
    """Fill with this program, made of `FILL_SOURCE`, in the queues of the context."""
    cdef Filler filler
    cdef Guard guard
    filler.context = context
    filler.program = program
    with nogil:
        guard.take(lock)
        fillers.push_back(filler)
        guard.leave()


def remove_fill_program(uintptr_t context, uintptr_t program) -> None:
    """Forget the program. Nothing of its device is used any more."""
    cdef Filler* filler
    cdef Guard guard
    with nogil:
        guard.take(lock)
        filler = find_filler(<void*> context, program)
        for kernel in filler.idle:
            cl.ReleaseKernel(kernel)
        fillers.erase(fillers.begin() + (filler - fillers.data()))
        guard.leave()


cdef Filler* find_filler(void* context, uintptr_t program) noexcept nogil:
    """The filler of this program, or with 0 any of the context; NULL if there is none. The lock is held."""
    cdef size_t i
    for i in range(fillers.size()):
        if fillers[i].context == <uintptr_t> context and program in (0, fillers[i].program):
            return &fillers[i]
    return NULL


cdef Status take_kernel(void* context, void** kernel, uintptr_t* program) noexcept nogil:
    """Take a kernel for one fill: another thread could set its arguments between the calls and the launch.

    It is NULL where there is no program for the context.
    """
    cdef Filler* filler
    cdef cl_int error = 0
    cdef Guard guard
    guard.take(lock)
    filler = find_filler(context, 0)
    if filler != NULL:
        program[0] = filler.program
        if filler.idle.empty():
            kernel[0] = cl.CreateKernel(<void*> filler.program, <const char*> b"fill", &error)
        else:
            kernel[0] = filler.idle.back()
            filler.idle.pop_back()
    return outcome(CALL_CreateKernel, error)


cdef void put_back(void* context, void* kernel, uintptr_t program) noexcept nogil:
    """Keep a kernel for the next fill. It is not released: while a gate is closed that would be undefined."""
    cdef Filler* filler
    cdef Guard guard
    guard.take(lock)
    filler = find_filler(context, program)
    if filler != NULL:
        filler.idle.push_back(kernel)
    else:
        cl.ReleaseKernel(kernel)


cdef inline void* const* events_of(Waits waits) noexcept nogil:
    """The wait list; NULL if it is empty, because OpenCL refuses an empty list."""
    return waits.events if waits.count else NULL


cdef bint fill_by_kernel(
    void* queue, const Memory* to, const void* pattern, size_t pattern_size, size_t nbytes, Waits waits, void** event,
    Status* status
) noexcept nogil:
    """Fill memory that has an address. False where there is no program for the context of the queue."""
    cdef char repeated[REPEATED]
    cdef void* context = NULL
    cdef void* kernel = NULL
    cdef uintptr_t program = 0
    cdef uint64_t n = nbytes
    cdef size_t group = GROUP, at = 0
    cdef size_t items = (nbytes + OF_ONE * GROUP - 1) // (OF_ONE * GROUP) * GROUP
    status[0] = cl.GetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof(void*), &context, NULL)
    if status[0] != 0:
        return True
    status[0] = take_kernel(context, &kernel, &program)
    if kernel == NULL:
        return status[0] != 0
    while at < REPEATED:
        memcpy(repeated + at, pattern, pattern_size)
        at += pattern_size
    status[0] = cl.SetKernelArgSVMPointer(kernel, 0, <void*> <uintptr_t> to.address)
    if status[0] == 0:
        status[0] = cl.SetKernelArg(kernel, 1, sizeof(n), &n)
    if status[0] == 0:
        status[0] = cl.SetKernelArg(kernel, 2, REPEATED, repeated)
    if status[0] == 0:
        status[0] = cl.EnqueueNDRangeKernel(
            queue, kernel, 1, NULL, &items, &group, waits.count, events_of(waits), event)
    put_back(context, kernel, program)
    return True


cdef enum:
    CL_COMPLETE = 0
    CL_EVENT_COMMAND_EXECUTION_STATUS = 0x11D3
    CL_PROFILING_COMMAND_END = 0x1283
    CL_KERNEL_EXEC_INFO_SVM_PTRS = 0x11B6


cdef Status launch(void* queue, void* kernel, const Geometry* geometry, Waits waits) noexcept nogil:
    return cl.EnqueueNDRangeKernel(
        queue, kernel, geometry.dimensions, geometry.offset, geometry.global_size, geometry.local_size, waits.count,
        events_of(waits), NULL)


cdef Status set_pointer(void* kernel, uint32_t index, const Memory* memory) noexcept nogil:
    # A memory object is cheaper to set than an address, but always means offset 0. Only CPU devices have both: NVIDIA's
    # driver refuses a memory object for a parameter that ever had an address. It also refuses to launch with a null
    # address, so a null pointer is passed as a null memory object. On NVIDIA that works only if every earlier argument
    # of the parameter was a null pointer too.
    if memory.address == 0 or memory.handle != NULL and memory.offset == 0:
        return cl.SetKernelArg(kernel, index, sizeof(void*), &memory.handle)
    return cl.SetKernelArgSVMPointer(kernel, index, <void*> <uintptr_t> memory.address)


cdef Status set_value(void* kernel, uint32_t index, size_t size, const void* value) noexcept nogil:
    return cl.SetKernelArg(kernel, index, size, value)


cdef Status follow(void* kernel, const uint64_t* addresses, size_t count) noexcept nogil:
    # An empty list is CL_INVALID_VALUE. Setting it on a kernel object whose earlier launch has not run concerns later
    # launches only (tried on Intel's runtime and on NVIDIA's, while a launch was held).
    return cl.SetKernelExecInfo(kernel, CL_KERNEL_EXEC_INFO_SVM_PTRS, count * sizeof(void*), addresses)


cdef Status copy(
    void* queue, const Memory* to, const Memory* source, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    cdef void* to_address = <void*> <uintptr_t> to.address
    cdef void* source_address = <void*> <uintptr_t> source.address
    cdef void* const* events = events_of(waits)
    if to.handle != NULL and source.handle != NULL:
        return cl.EnqueueCopyBuffer(
            queue, source.handle, to.handle, source.offset, to.offset, nbytes, waits.count, events, event)
    # Memory of pyopencl may have no address. Then the address of the other end is the host's, as all are on CPUs.
    if source.handle != NULL and (to.kind & HOST_MEMORY or source.address == 0):
        return cl.EnqueueReadBuffer(
            queue, source.handle, False, source.offset, nbytes, to_address, waits.count, events, event)
    if to.handle != NULL and (source.kind & HOST_MEMORY or to.address == 0):
        return cl.EnqueueWriteBuffer(
            queue, to.handle, False, to.offset, nbytes, source_address, waits.count, events, event)
    return cl.EnqueueSVMMemcpy(queue, False, to_address, source_address, nbytes, waits.count, events, event)


cdef Status fill(
    void* queue, const Memory* to, const void* pattern, size_t pattern_size, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    cdef Status status = 0
    if to.handle != NULL:
        return cl.EnqueueFillBuffer(
            queue, to.handle, pattern, pattern_size, to.offset, nbytes, waits.count, events_of(waits), event)
    if fill_by_kernel(queue, to, pattern, pattern_size, nbytes, waits, event, &status):
        return status
    return cl.EnqueueSVMMemFill(
        queue, <void*> <uintptr_t> to.address, pattern, pattern_size, nbytes, waits.count, events_of(waits), event)


cdef Status marker(void* queue, Waits waits, int use, void** event) noexcept nogil:
    # A marker with a wait list waits for that list. The in-order queue puts it after earlier commands and before later
    # ones (OpenCL 3.0, 5.11). Other queues may wait for it only once it is flushed (5.15).
    #
    # The waits of a timed marker go to a barrier before it: NVIDIA's driver reports times of 0 for the event of a
    # marker with a wait list, and for the event of a barrier the times of the command before it.
    cdef Status status
    if use & TIMED and waits.count != 0:
        status = cl.EnqueueBarrierWithWaitList(queue, waits.count, waits.events, NULL)
        if status != 0:
            return status
        waits.count = 0
    status = cl.EnqueueMarkerWithWaitList(queue, waits.count, events_of(waits), event)
    if status != 0:
        return status
    status = cl.Flush(queue)
    if status != 0:
        cl.ReleaseEvent(event[0])
        event[0] = NULL
    return status


cdef Status barrier(void* queue, Waits waits) noexcept nogil:
    return cl.EnqueueBarrierWithWaitList(queue, waits.count, events_of(waits), NULL)


cdef void on_arrival(void* event, cl_int status, void* arrival) noexcept nogil:
    """Runs on a driver thread. It only wakes and returns: a driver's callback must not wait, not for the GIL."""
    Arrival.arrive(arrival)


cdef void drop_user_event(void** event) noexcept nogil:
    """Set it and release it. NVIDIA's driver never ends the release of a context in which one was not set, even if
    nothing waits for it.
    """
    cl.SetUserEventStatus(event[0], CL_COMPLETE)
    cl.ReleaseEvent(event[0])
    event[0] = NULL


cdef Status hold(void* queue, void* context, Waits waits, HostCallback wake, void* data, void** gate) noexcept nogil:
    cdef cl_int error
    cdef Status status
    cdef void* reached = NULL
    cdef Arrival* arrival = NULL
    if wake != NULL:
        arrival = new Arrival(wake, data)
    gate[0] = cl.CreateUserEvent(context, &error)
    if error != 0:
        del arrival
        return outcome(CALL_CreateUserEvent, error)
    if wake == NULL:
        status = cl.EnqueueBarrierWithWaitList(queue, waits.count, events_of(waits), NULL) if waits.count else 0
    else:
        status = cl.EnqueueMarkerWithWaitList(queue, waits.count, events_of(waits), &reached)
    if status == 0:
        status = cl.EnqueueBarrierWithWaitList(queue, 1, gate, NULL)
        if status == 0 and wake != NULL:
            status = cl.SetEventCallback(reached, CL_COMPLETE, on_arrival, arrival)
    if reached != NULL:
        cl.ReleaseEvent(reached)
    if status != 0:
        del arrival
        drop_user_event(gate)  # the barrier that was submitted would hold the queue for ever
        return status
    cl.Flush(queue)
    if arrival != NULL:
        arrival.settle(True)
    return 0


cdef Status open_gate(void* gate, bint failed) noexcept nogil:
    """Set the user event. If it is set to an error, the commands behind it end with that error and do not run."""
    return cl.SetUserEventStatus(gate, -1 if failed else CL_COMPLETE)


cdef Status wait_events(void* context, Waits events, Interrupted interrupted) noexcept nogil:
    return cl.WaitForEvents(events.count, events.events)


cdef Answer event_status(void* event) noexcept nogil:
    cdef cl_int state = 0
    cdef Status status = cl.GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(state), &state, NULL)
    if status != 0:
        return status
    if state > 0:
        return NOT_YET
    return DONE if state == CL_COMPLETE else state


cdef Status elapsed(void* first, void* second, double* nanoseconds) noexcept nogil:
    cdef uint64_t begin = 0
    cdef uint64_t end = 0
    cdef Status status = cl.GetEventProfilingInfo(first, CL_PROFILING_COMMAND_END, sizeof(begin), &begin, NULL)
    if status == 0:
        status = cl.GetEventProfilingInfo(second, CL_PROFILING_COMMAND_END, sizeof(end), &end, NULL)
    nanoseconds[0] = <double> <int64_t> (end - begin)
    return status


cdef void pass_on(void* event, cl_int status, void* bridged) noexcept nogil:
    cl.SetUserEventStatus(bridged, status if status < 0 else CL_COMPLETE)
    cl.ReleaseEvent(bridged)


cdef Status bridge(void* context, void* event, void** bridged) noexcept nogil:
    """Make a user event that stands for an event of another context: OpenCL cannot wait for that (3.0, 5.11)."""
    cdef Status status
    cdef cl_int error
    bridged[0] = cl.CreateUserEvent(context, &error)
    if error != 0:
        return outcome(CALL_CreateUserEvent, error)
    status = cl.RetainEvent(bridged[0])  # the callback's own reference
    if status == 0:
        status = cl.SetEventCallback(event, CL_COMPLETE, pass_on, bridged[0])
        if status != 0:
            cl.ReleaseEvent(bridged[0])
    if status != 0:
        drop_user_event(bridged)
    return status


cdef void destroy_event(void* event) noexcept nogil:
    cl.ReleaseEvent(event)


cdef void destroy_kernel(void* kernel) noexcept nogil:
    cl.ReleaseKernel(kernel)


cdef void destroy_queue(void* queue) noexcept nogil:
    cl.ReleaseCommandQueue(queue)


cdef Driver table = Driver(
    gates_forbid_releases=True, copies_have_events=True, scopes_matter=False, waits_read_queues=False,
    changes_spare_running=False, recordings_branch=False, room_of_host_function=0, room_of_recorded_copy=0,
    asks_of_finish=0, launch=launch, set_pointer=set_pointer, set_value=set_value, follow=follow, copy=copy, fill=fill,
    prefetch=NULL, marker=marker, barrier=barrier, record_shared=NULL, hold=hold, open_gate=open_gate,
    new_recording=NULL, add_command=NULL, end_recording=NULL, change=NULL, replay=NULL, poll=NULL,
    wait_events=wait_events, tell_failure=NULL, renew_queue=NULL, write_printed=NULL, event_status=event_status,
    elapsed=elapsed, bridge=bridge, destroy_event=destroy_event, destroy_kernel=destroy_kernel, destroy_recording=NULL,
    destroy_queue=destroy_queue)

TABLE: int = <uintptr_t> &table


def probe_argument_size(kernel: pyopencl.Kernel, index: int, limit: int) -> int:
    """The size in bytes of a by-value parameter of unknown type; 0 if the driver accepts several sizes.

    A driver should refuse every size but the right one (CL_INVALID_ARG_SIZE, OpenCL 3.0, clSetKernelArg). PoCL's
    accepts any size, so there the result is 0.
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
    """Raise for a failed call. A reference that was not taken must not be given back later."""
    if status != 0:
        call, error = CALL_NAMES[status >> 32], <cl_int> status
        raise DriverError(f"{call} failed: error {error}", call=call, code=error)
    return 0


def wait_for(event: pyopencl.Event) -> None:
    """Block until it is over, beside other threads that submit: for devices whose `waits_starve`."""
    cdef void* handle = <void*> <uintptr_t> event.int_ptr
    cdef Status status
    with nogil:
        status = wait_watched(&table, NULL, Waits(1, &handle), NULL)
    check(status)


def retain_queue(queue: pyopencl.CommandQueue) -> int:
    """The handle of a pyopencl queue. The handle holds its own reference."""
    cdef void* handle = <void*> <uintptr_t> queue.int_ptr
    check(cl.RetainCommandQueue(handle))
    return <uintptr_t> handle


def retain_kernel(kernel: pyopencl.Kernel) -> int:
    """The handle of a pyopencl kernel. The handle holds its own reference."""
    cdef void* handle = <void*> <uintptr_t> kernel.int_ptr
    check(cl.RetainKernel(handle))
    return <uintptr_t> handle


# -- memory: shared virtual memory where the device has that, so that a buffer has an address


cdef enum:
    CL_MEM_READ_WRITE = 1 << 0
    CL_MEM_USE_HOST_PTR = 1 << 3
    CL_MEM_SVM_FINE_GRAIN_BUFFER = 1 << 10
    CL_BUFFER_CREATE_TYPE_REGION = 0x1220


cdef struct Lent:
    void* context  # retained
    void* address


cdef void free_lent(void* memory, void* data) noexcept nogil:
    """The driver calls it when the last reference to the memory object is gone, on whatever thread that is."""
    cdef Lent lent = (<Lent*> data)[0]
    free(data)
    cl.SVMFree(lent.context, lent.address)
    cl.ReleaseContext(lent.context)


@cython.no_gc_clear  # freeing needs the context
cdef class ClMemory(NativeMemory):
    """One allocation, freed with this object. Drop the last reference only when the device is done with the memory.

    With addresses, the memory is a coarse-grained SVM allocation. Memory that the host shares is fine-grained. What is
    `in_place` for the host has the buffer protocol. On CPU devices a memory object lies over the same memory, because
    setting a memory object as an argument is three times cheaper there (OpenCL 3.0: clCreateBuffer with
    CL_MEM_USE_HOST_PTR of an SVM pointer shares the memory).
    """

    cdef bint lent  # others may have the memory object
    cdef object context  # a pyopencl.Context: must outlive what is allocated in it
    cdef object __weakref__

    def __init__(
        self, context: pyopencl.Context, size_t nbytes, bint addresses, bint memory_object, str usm_type,
        bint in_place
    ) -> None:
        cdef void* native = <void*> <uintptr_t> context.int_ptr
        cdef cl_int error = 0
        self.context = context
        self.nbytes = nbytes
        self.usm_type = usm_type
        self.in_place = in_place
        if addresses:
            # alignment 0 means that of the device's largest type, which is enough for every element type
            self.address = <uintptr_t> cl.SVMAlloc(
                native, CL_MEM_READ_WRITE | (CL_MEM_SVM_FINE_GRAIN_BUFFER if usm_type == "shared" else 0), nbytes, 0)
            if self.address == 0:
                raise OutOfMemoryError(f"clSVMAlloc returned no memory for {nbytes} bytes")
        if memory_object:
            self.handle = <uintptr_t> cl.CreateBuffer(
                native, CL_MEM_READ_WRITE | (CL_MEM_USE_HOST_PTR if addresses else 0), nbytes,
                <void*> <uintptr_t> self.address, &error)
            if error != 0:
                raise OutOfMemoryError(f"clCreateBuffer failed for {nbytes} bytes: error {error}")

    def lend(self) -> None:
        """Let others retain the memory object. The memory below it goes with the last reference (OpenCL 3.0,
        clSetMemObjectDestructorCallback). Intel's runtime (2026.2) does not count sub-buffers as such.
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
        with nogil:  # to unmap a gigabyte takes 80 ms
            if self.handle:
                cl.ReleaseMemObject(<void*> self.handle)
            if self.address and not self.lent:
                cl.SVMFree(context, <void*> <uintptr_t> self.address)


@cython.no_gc_clear
cdef class MemoryPart:
    """A memory object for a part of an allocation that has an address. It keeps that."""

    cdef readonly uintptr_t handle
    cdef ClMemory whole

    def __init__(self, ClMemory whole, size_t offset, size_t nbytes) -> None:
        cdef cl_int error = 0
        cdef size_t[2] region
        region[0] = offset
        region[1] = nbytes
        self.whole = whole
        self.handle = <uintptr_t> cl.CreateSubBuffer(
            <void*> whole.handle, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, region, &error)
        if error != 0:
            raise OutOfMemoryError(f"clCreateSubBuffer failed for {nbytes} bytes: error {error}")

    def __dealloc__(self):
        if self.handle and not is_forked():
            cl.ReleaseMemObject(<void*> self.handle)


@cython.no_gc_clear
cdef class AdoptedMemory(ForeignMemory):
    """Memory of an object of another package, and the memory object of OpenCL if that is what it is."""

    def __init__(
        self, owner: object, uintptr_t handle, uint64_t address, size_t nbytes, str usm_type="device"
    ) -> None:
        ForeignMemory.__init__(self, owner, address, nbytes, usm_type)
        if handle and cl.RetainMemObject(<void*> handle) != 0:
            raise OutOfMemoryError("clRetainMemObject failed")
        self.handle = handle

    def __dealloc__(self):
        if self.handle and not is_forked():
            cl.ReleaseMemObject(<void*> self.handle)
