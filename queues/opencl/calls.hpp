// The OpenCL functions forebay calls itself. This list generates the table, the numbers in a `Status` and the names in
// errors.

#pragma once

#include <cstddef>
#include <cstdint>

#include "core/driver.hpp"

namespace forebay_cl {

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
    X(cl_int, RetainKernel, (void *kernel)) \
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

}
