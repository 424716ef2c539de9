// OpenCL's table of operations; the handles are OpenCL's objects. pyopencl's enqueue functions always request an event,
// so they cannot be the launch path.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/driver.hpp"
#include "core/ownership.hpp"

namespace forebay_cl {

using namespace forebay;

// The functions that forebay calls. The list generates the table, the numbers in a `Status` and the names in errors.
typedef int32_t cl_int;
typedef uint32_t cl_uint;
typedef void (*EventCallback)(void *event, cl_int status, void *data);

#define FOREBAY_CL(X) \
    X(cl_int, EnqueueNDRangeKernel, (void *queue, void *kernel, cl_uint work_dim, const size_t *offset, \
        const size_t *global_size, const size_t *local_size, cl_uint n_waits, void *const *waits, void **event)) \
    X(cl_int, EnqueueMarkerWithWaitList, (void *queue, cl_uint n_waits, void *const *waits, void **event)) \
    X(cl_int, EnqueueBarrierWithWaitList, (void *queue, cl_uint n_waits, void *const *waits, void **event)) \
    X(cl_int, EnqueueReadBuffer, (void *queue, void *memory, cl_uint blocking, size_t offset, size_t size, \
        void *host, cl_uint n_waits, void *const *waits, void **event)) \
    X(cl_int, EnqueueWriteBuffer, (void *queue, void *memory, cl_uint blocking, size_t offset, size_t size, \
        const void *host, cl_uint n_waits, void *const *waits, void **event)) \
    X(cl_int, EnqueueCopyBuffer, (void *queue, void *source, void *to, size_t source_offset, size_t to_offset, \
        size_t size, cl_uint n_waits, void *const *waits, void **event)) \
    X(cl_int, EnqueueFillBuffer, (void *queue, void *memory, const void *pattern, size_t pattern_size, \
        size_t offset, size_t size, cl_uint n_waits, void *const *waits, void **event)) \
    X(cl_int, EnqueueSVMMemcpy, (void *queue, cl_uint blocking, void *to, const void *source, size_t size, \
        cl_uint n_waits, void *const *waits, void **event)) \
    X(cl_int, EnqueueSVMMemFill, (void *queue, void *to, const void *pattern, size_t pattern_size, size_t size, \
        cl_uint n_waits, void *const *waits, void **event)) \
    X(cl_int, GetCommandQueueInfo, (void *queue, cl_uint name, size_t size, void *value, size_t *size_returned)) \
    X(cl_int, SetKernelArg, (void *kernel, cl_uint index, size_t size, const void *value)) \
    X(cl_int, SetKernelArgSVMPointer, (void *kernel, cl_uint index, const void *value)) \
    X(cl_int, SetKernelExecInfo, (void *kernel, cl_uint name, size_t size, const void *value)) \
    X(cl_int, Flush, (void *queue)) \
    X(cl_int, WaitForEvents, (cl_uint n_waits, void *const *events)) \
    X(cl_int, GetEventInfo, (void *event, cl_uint name, size_t size, void *value, size_t *size_returned)) \
    X(cl_int, GetEventProfilingInfo, (void *event, cl_uint name, size_t size, void *value, \
        size_t *size_returned)) \
    X(cl_int, SetEventCallback, (void *event, cl_int kind, EventCallback callback, void *data)) \
    X(cl_int, SetUserEventStatus, (void *event, cl_int status)) \
    X(cl_int, RetainEvent, (void *event)) \
    X(cl_int, ReleaseEvent, (void *event)) \
    X(cl_int, RetainCommandQueue, (void *queue)) \
    X(cl_int, ReleaseCommandQueue, (void *queue)) \
    X(void *, CloneKernel, (void *kernel, cl_int *error)) \
    X(cl_int, ReleaseKernel, (void *kernel)) \
    X(cl_int, RetainMemObject, (void *memory)) \
    X(cl_int, ReleaseMemObject, (void *memory)) \
    X(cl_int, SetMemObjectDestructorCallback, (void *memory, void *callback, void *data)) \
    X(cl_int, RetainContext, (void *context)) \
    X(cl_int, ReleaseContext, (void *context)) \
    X(void *, CreateKernel, (void *program, const char *name, cl_int *error)) \
    X(void *, CreateUserEvent, (void *context, cl_int *error)) \
    X(void *, SVMAlloc, (void *context, uint64_t flags, size_t size, cl_uint alignment)) \
    X(void, SVMFree, (void *context, void *pointer)) \
    X(void *, CreateBuffer, (void *context, uint64_t flags, size_t size, void *host, cl_int *error)) \
    X(void *, CreateSubBuffer, (void *buffer, uint64_t flags, cl_uint type, const void *region, cl_int *error))

FOREBAY_TABLE(FOREBAY_CL)

inline Calls cl;  // the `load` of operations.pyx fills it

enum {
    COMPLETE = 0,
    QUEUE_CONTEXT = 0x1090, EVENT_STATUS = 0x11D3, PROFILING_END = 0x1283, EXEC_INFO_SVM_PTRS = 0x11B6
};

// NULL for an empty list, which OpenCL refuses.
inline void *const *events_of(Waits waits) { return waits.count ? waits.events : nullptr; }

// A `Reshape`: submit (x, y, z) as (x * y * z, 1, 1) with the shape as the offset. Rows of whole warps stay as in HIP.
inline void flatten(Geometry *geometry) {
    const size_t x = geometry->block[0], y = geometry->block[1], z = geometry->block[2];
    if (y * z == 1 || x % 32 == 0) return;
    const size_t size[] = {x * y * z, 1, 1};
    const size_t offset[] = {x, y, z - 1};  // two dimensions have none in the third: the kernel reads 0
    std::copy_n(size, 3, geometry->local_size);
    std::copy_n(offset, 3, geometry->offset);
}

// -- fills by a kernel, where memory has addresses only: after clEnqueueSVMMemFill NVIDIA's driver (580) never frees
// the context, which keeps half a GiB of the GPU and some channels. After a hundred no process gets a context (H200).

constexpr char FILL_SOURCE[] = R"(
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
)";

enum {
    REPEATED = 128,  // bytes; every pattern's size divides it
    OF_ONE = 16,     // bytes that a work-item writes
    GROUP = 64
};

struct Filler {
    void *context;
    void *program;             // made of FILL_SOURCE
    std::vector<void *> idle;  // not used by any thread
};

inline Lock fill_lock;
inline std::vector<Filler> fillers GUARDED_BY(fill_lock);  // each device has one

// This program's filler, or any of the context if `program` is NULL; NULL if there is none.
inline Filler *find_filler(void *context, void *program) REQUIRES(fill_lock) {
    for (Filler &each : fillers)
        if (each.context == context && (!program || each.program == program)) return &each;
    return nullptr;
}

// Use this program for fills in the context's queues.
inline void add_fill_program(void *context, void *program) {
    Guard guard(fill_lock);
    fillers.push_back({context, program, {}});
}

// Nothing of the program's device is used any more.
inline void remove_fill_program(void *context, void *program) {
    Guard guard(fill_lock);
    Filler *filler = find_filler(context, program);
    for (void *kernel : filler->idle) cl.ReleaseKernel(kernel);
    fillers.erase(fillers.begin() + (filler - fillers.data()));
}

// A kernel for one fill, as another thread could set its arguments before the launch. Afterwards it is kept for reuse:
// releasing it while a gate is closed would be undefined.
class FillKernel {
    void *context = nullptr, *program = nullptr;

  public:
    void *kernel = nullptr;  // NULL if the context has no program

    Status take(void *queue) {
        if (Status status = cl.GetCommandQueueInfo(queue, QUEUE_CONTEXT, sizeof context, &context, nullptr))
            return status;
        cl_int error = 0;
        Guard guard(fill_lock);
        Filler *filler = find_filler(context, nullptr);
        if (!filler) return 0;
        program = filler->program;
        kernel = take_last(filler->idle);
        if (!kernel) kernel = cl.CreateKernel(program, "fill", &error);
        return error ? failure(CALL_CreateKernel, error) : 0;
    }

    ~FillKernel() {
        if (!kernel) return;
        Guard guard(fill_lock);
        if (Filler *filler = find_filler(context, program))
            filler->idle.push_back(kernel);
        else
            cl.ReleaseKernel(kernel);
    }
};

// -- the operations

inline Status launch(void *queue, void *kernel, const Geometry *geometry, Waits waits) {
    return cl.EnqueueNDRangeKernel(queue, kernel, geometry->dimensions, geometry->offset, geometry->global_size,
        geometry->local_size, waits.count, events_of(waits), nullptr);
}

// A memory object is cheaper to set than an address, but always means offset 0. Only CPU devices have both: NVIDIA's
// driver refuses a memory object for a parameter that ever had an address. It also refuses to launch with a null
// address, so a null pointer is a null memory object. On NVIDIA that works only if all earlier arguments of the
// parameter were null, too.
inline Status set_pointer(void *kernel, uint32_t index, const Memory *memory) {
    if (!memory->address || (memory->handle && !memory->offset))
        return cl.SetKernelArg(kernel, index, sizeof memory->handle, &memory->handle);
    return cl.SetKernelArgSVMPointer(kernel, index, memory->pointer());
}

inline Status set_value(void *kernel, uint32_t index, size_t size, const void *value) {
    return cl.SetKernelArg(kernel, index, size, value);
}

// An empty list is CL_INVALID_VALUE. After a list for a kernel object with a launch behind a closed gate, and a copy
// there from or to memory of the list, NVIDIA's driver (580) never ends the release of the context: hence the copies.
inline Status follow(void *kernel, const uint64_t *addresses, size_t count, void **copy) {
    cl_int error = 0;
    if (copy) kernel = *copy = cl.CloneKernel(kernel, &error);
    if (error) return failure(CALL_CloneKernel, error);
    return cl.SetKernelExecInfo(kernel, EXEC_INFO_SVM_PTRS, count * sizeof(void *), addresses);
}

inline Status copy(void *queue, const Memory *to, const Memory *source, size_t nbytes, Waits waits, void **event) {
    void *const *events = events_of(waits);
    if (to->handle && source->handle)
        return cl.EnqueueCopyBuffer(
            queue, source->handle, to->handle, source->offset, to->offset, nbytes, waits.count, events, event);
    // Memory of pyopencl may have no address. Then the other end's address is the host's, as all are on CPUs.
    if (source->handle && (to->kind & HOST_MEMORY || !source->address))
        return cl.EnqueueReadBuffer(
            queue, source->handle, false, source->offset, nbytes, to->pointer(), waits.count, events, event);
    if (to->handle && (source->kind & HOST_MEMORY || !to->address))
        return cl.EnqueueWriteBuffer(
            queue, to->handle, false, to->offset, nbytes, source->pointer(), waits.count, events, event);
    return cl.EnqueueSVMMemcpy(queue, false, to->pointer(), source->pointer(), nbytes, waits.count, events, event);
}

inline Status fill(void *queue, const Memory *to, const void *pattern, size_t pattern_size, size_t nbytes, Waits waits,
    void **event) {
    if (to->handle)
        return cl.EnqueueFillBuffer(
            queue, to->handle, pattern, pattern_size, to->offset, nbytes, waits.count, events_of(waits), event);
    FillKernel taken;
    if (Status status = taken.take(queue)) return status;
    if (!taken.kernel)
        return cl.EnqueueSVMMemFill(
            queue, to->pointer(), pattern, pattern_size, nbytes, waits.count, events_of(waits), event);
    char repeated[REPEATED];
    const uint64_t n = nbytes;
    const size_t group = GROUP, items = (nbytes + OF_ONE * GROUP - 1) / (OF_ONE * GROUP) * GROUP;
    for (size_t at = 0; at < REPEATED; at += pattern_size) std::memcpy(repeated + at, pattern, pattern_size);
    Status status = cl.SetKernelArgSVMPointer(taken.kernel, 0, to->pointer());
    if (!status) status = cl.SetKernelArg(taken.kernel, 1, sizeof n, &n);
    if (!status) status = cl.SetKernelArg(taken.kernel, 2, REPEATED, repeated);
    if (!status)
        status = cl.EnqueueNDRangeKernel(
            queue, taken.kernel, 1, nullptr, &items, &group, waits.count, events_of(waits), event);
    return status;
}

inline Status barrier(void *queue, Waits waits) {
    return cl.EnqueueBarrierWithWaitList(queue, waits.count, events_of(waits), nullptr);
}

// A marker with a wait list waits for the list; the in-order queue puts it after earlier commands and before later ones
// (OpenCL 3.0, 5.11). Other queues may wait for it only once it is flushed (5.15). The waits of a timed marker go to a
// barrier before it: NVIDIA's driver reports times of 0 for a marker with a wait list, and for a barrier the times of
// the command before it.
inline Status marker(void *queue, Waits waits, int use, void **event) {
    if (use & TIMED && waits.count) {
        if (Status status = barrier(queue, waits)) return status;
        waits.count = 0;
    }
    if (Status status = cl.EnqueueMarkerWithWaitList(queue, waits.count, events_of(waits), event)) return status;
    Status status = cl.Flush(queue);
    if (status) cl.ReleaseEvent(std::exchange(*event, nullptr));
    return status;
}

inline Status create_user_event(void *context, void **event) {
    cl_int error = 0;
    *event = cl.CreateUserEvent(context, &error);
    return error ? failure(CALL_CreateUserEvent, error) : 0;
}

// NVIDIA's driver never ends the release of a context with a user event that was not set, even without waiters.
inline void drop_user_event(void **event) {
    cl.SetUserEventStatus(*event, COMPLETE);
    cl.ReleaseEvent(std::exchange(*event, nullptr));
}

// Runs on a driver thread, where it must not wait, not even for the GIL: it only wakes.
inline void on_arrival(void *, cl_int, void *arrival) { Arrival::arrive(arrival); }

inline Status hold(void *queue, void *context, Waits waits, HostCallback wake, void *data, void **gate) {
    void *reached = nullptr;
    Status status = create_user_event(context, gate);
    if (status) return status;
    Arrival *arrival = wake ? new Arrival(wake, data) : nullptr;
    if (wake)
        status = cl.EnqueueMarkerWithWaitList(queue, waits.count, events_of(waits), &reached);
    else if (waits.count)
        status = barrier(queue, waits);
    if (!status) status = barrier(queue, {1, gate});
    if (!status && wake) status = cl.SetEventCallback(reached, COMPLETE, on_arrival, arrival);
    if (reached) cl.ReleaseEvent(reached);
    if (status) {
        delete arrival;
        drop_user_event(gate);  // otherwise the submitted barrier would hold the queue for ever
        return status;
    }
    cl.Flush(queue);
    if (arrival) arrival->settle(true);
    return 0;
}

// Behind a gate that is set to an error, commands end with that error and do not run.
inline Status open_gate(void *gate, int failed) { return cl.SetUserEventStatus(gate, failed ? -1 : COMPLETE); }

inline Status wait_events(void *, Waits events, Interrupted) { return cl.WaitForEvents(events.count, events.events); }

inline Answer event_status(void *event) {
    cl_int state = 0;
    if (Status status = cl.GetEventInfo(event, EVENT_STATUS, sizeof state, &state, nullptr)) return status;
    return state > COMPLETE ? NOT_YET : state == COMPLETE ? DONE : state;
}

inline Status elapsed(void *first, void *second, double *nanoseconds) {
    uint64_t begin = 0, end = 0;
    Status status = cl.GetEventProfilingInfo(first, PROFILING_END, sizeof begin, &begin, nullptr);
    if (!status) status = cl.GetEventProfilingInfo(second, PROFILING_END, sizeof end, &end, nullptr);
    *nanoseconds = double(int64_t(end - begin));
    return status;
}

inline void pass_on(void *, cl_int status, void *bridged) {
    cl.SetUserEventStatus(bridged, std::min(status, 0));
    cl.ReleaseEvent(bridged);
}

// A user event for an event of another context, which OpenCL cannot wait for (3.0, 5.11).
inline Status bridge(void *context, void *event, void **bridged) {
    if (Status status = create_user_event(context, bridged)) return status;
    Status status = cl.RetainEvent(*bridged);  // the callback's own reference
    if (!status) {
        status = cl.SetEventCallback(event, COMPLETE, pass_on, *bridged);
        if (status) cl.ReleaseEvent(*bridged);
    }
    if (status) drop_user_event(bridged);
    return status;
}

inline void destroy_event(void *event) { cl.ReleaseEvent(event); }
inline void destroy_kernel(void *kernel) { cl.ReleaseKernel(kernel); }
inline void destroy_queue(void *queue) { cl.ReleaseCommandQueue(queue); }

inline Driver table = {
    .gates_forbid_releases = true, .copies_have_events = true, .launch = launch, .set_pointer = set_pointer,
    .set_value = set_value, .follow = follow, .copy = copy, .fill = fill, .marker = marker, .barrier = barrier,
    .hold = hold, .open_gate = open_gate, .wait_events = wait_events, .event_status = event_status,
    .elapsed = elapsed, .bridge = bridge, .destroy_event = destroy_event, .destroy_kernel = destroy_kernel,
    .destroy_queue = destroy_queue};

}
