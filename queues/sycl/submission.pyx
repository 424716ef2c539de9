"""Wraps dpctl's submit functions so that they return a `Status`."""

from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from forebay.core.driver cimport Geometry, Status, Waits
from forebay.queues.sycl.calls cimport (
    CALL_Queue_Fill128, CALL_Queue_Fill16, CALL_Queue_Fill32, CALL_Queue_Fill64, CALL_Queue_Memcpy,
    CALL_Queue_MemcpyWithEvents, CALL_Queue_Memset, CALL_Queue_SubmitBarrier, CALL_Queue_SubmitBarrierForEvents,
    CALL_Queue_SubmitNDRange, Call, failure, sycl
)
from forebay.queues.sycl.kernels cimport SyclKernel


cdef inline Status outcome(Call call, void* event) noexcept nogil:
    return 0 if event != NULL else failure(call)


cdef Status submit_kernel(
    void* queue, SyclKernel* kernel, const Geometry* geometry, Waits waits, void** event
) noexcept nogil:
    # The last dimension of a SYCL range varies fastest, like the first of OpenCL and HIP.
    cdef size_t global_size[3]
    cdef size_t local_size[3]
    cdef int i, last = geometry.dimensions - 1
    for i in range(geometry.dimensions):
        global_size[last - i] = geometry.global_size[i]
        local_size[last - i] = geometry.local_size[i]
    event[0] = sycl.Queue_SubmitNDRange(
        kernel.kernel, queue, kernel.values.data(), kernel.types.data(), kernel.values.size(), global_size, local_size,
        geometry.dimensions, waits.events, waits.count)
    return outcome(CALL_Queue_SubmitNDRange, event[0])


cdef Status submit_copy(
    void* queue, void* to, const void* source, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    if waits.count == 0:
        event[0] = sycl.Queue_Memcpy(queue, to, source, nbytes)
        return outcome(CALL_Queue_Memcpy, event[0])
    event[0] = sycl.Queue_MemcpyWithEvents(queue, to, source, nbytes, waits.events, waits.count)
    return outcome(CALL_Queue_MemcpyWithEvents, event[0])


cdef Status submit_fill(
    void* queue, void* to, const unsigned char* pattern, size_t pattern_size, size_t nbytes, Waits waits, void** event
) noexcept nogil:
    cdef uint16_t two
    cdef uint32_t four
    cdef uint64_t eight[2]
    cdef size_t count = nbytes // pattern_size
    cdef Status status
    if waits.count != 0:  # dpctl's fills take no wait list
        status = submit_barrier(queue, waits, event)
        if status != 0:
            return status
        sycl.Event_Delete(event[0])
    if pattern_size == 1:
        event[0] = sycl.Queue_Memset(queue, to, pattern[0], count)
        return outcome(CALL_Queue_Memset, event[0])
    if pattern_size == 2:
        memcpy(&two, pattern, 2)
        event[0] = sycl.Queue_Fill16(queue, to, two, count)
        return outcome(CALL_Queue_Fill16, event[0])
    if pattern_size == 4:
        memcpy(&four, pattern, 4)
        event[0] = sycl.Queue_Fill32(queue, to, four, count)
        return outcome(CALL_Queue_Fill32, event[0])
    memcpy(eight, pattern, 8 if pattern_size == 8 else 16)
    if pattern_size == 8:
        event[0] = sycl.Queue_Fill64(queue, to, eight[0], count)
        return outcome(CALL_Queue_Fill64, event[0])
    if pattern_size == 16:
        event[0] = sycl.Queue_Fill128(queue, to, eight, count)
        return outcome(CALL_Queue_Fill128, event[0])
    return fill_by_doubling(queue, <char*> to, pattern, pattern_size, nbytes, event)


cdef Status fill_by_doubling(
    void* queue, char* to, const unsigned char* pattern, size_t pattern_size, size_t nbytes, void** event
) noexcept nogil:
    """Fill with patterns longer than the 16 bytes that dpctl takes: write one element, then copy it by doubling."""
    cdef uint64_t part[2]
    cdef size_t i, done = pattern_size
    cdef size_t more
    event[0] = NULL
    for i in range(pattern_size // 16):
        memcpy(part, pattern + 16 * i, 16)
        if not goes_on(sycl.Queue_Fill128(queue, to + 16 * i, part, 1), event):
            return failure(CALL_Queue_Fill128)
    while done < nbytes:
        more = done if done < nbytes - done else nbytes - done
        if not goes_on(sycl.Queue_Memcpy(queue, to + done, to, more), event):
            return failure(CALL_Queue_Memcpy)
        done += more
    return 0


cdef bint goes_on(void* made, void** event) noexcept nogil:
    """Replace the event by that of the next part; False when there is none. Then nobody will know of the parts before:
    they are waited for, because the memory may be given back.
    """
    if event[0] != NULL:
        if made == NULL:
            sycl.Event_Wait(event[0])
        sycl.Event_Delete(event[0])
    event[0] = made
    return made != NULL


cdef Status submit_barrier(void* queue, Waits waits, void** event) noexcept nogil:
    if waits.count == 0:
        event[0] = sycl.Queue_SubmitBarrier(queue)
        return outcome(CALL_Queue_SubmitBarrier, event[0])
    event[0] = sycl.Queue_SubmitBarrierForEvents(queue, waits.events, waits.count)
    return outcome(CALL_Queue_SubmitBarrierForEvents, event[0])
