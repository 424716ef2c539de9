"""Fills by a kernel, where memory is addresses alone.

clEnqueueSVMMemFill would do. But NVIDIA's driver (580) gives no context back in which it was called: each keeps half a
GiB of the GPU and some of its channels, and after a hundred no process gets a context any more. Found on an H200.
"""

from cython.operator cimport dereference
from libc.stdint cimport uint64_t, uintptr_t
from libc.string cimport memcpy
from libcpp.mutex cimport mutex
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from forebay.core.driver cimport Memory, Status, Waits
from forebay.queues.opencl.calls cimport (
    CALL_CreateKernel, CALL_EnqueueNDRangeKernel, CALL_GetCommandQueueInfo, CALL_SetKernelArg,
    CALL_SetKernelArgSVMPointer, Call, cl, cl_int, outcome
)

SOURCE = """
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
    uintptr_t program
    vector[void*] idle  # kernels that no thread is submitting

cdef mutex lock
cdef unordered_map[uintptr_t, vector[Filler]] fillers  # by context: each of its devices has one


def add_program(uintptr_t context, uintptr_t program) -> None:
    """Fill with this program, made of `SOURCE`, in the queues of the context."""
    cdef Filler filler
    filler.program = program
    with nogil:
        lock.lock()
    fillers[context].push_back(filler)
    lock.unlock()


def remove_program(uintptr_t context, uintptr_t program) -> None:
    """Forget the program. Nothing of its device is used any more."""
    cdef vector[Filler]* known
    cdef vector[void*] idle
    cdef size_t i
    with nogil:
        lock.lock()
    known = &fillers[context]
    for i in range(known.size()):
        if known.at(i).program == program:
            idle.swap(known.at(i).idle)
            known.erase(known.begin() + i)
            break
    if known.empty():
        fillers.erase(context)
    lock.unlock()
    with nogil:
        for i in range(idle.size()):
            cl.ReleaseKernel(idle[i])


cdef Filler* find_filler(void* context, uintptr_t program) noexcept nogil:
    """The filler of this program, or with 0 any of the context; NULL if there is none. The lock is held."""
    cdef unordered_map[uintptr_t, vector[Filler]].iterator found = fillers.find(<uintptr_t> context)
    cdef size_t i
    if found != fillers.end():
        for i in range(dereference(found).second.size()):
            if program == 0 or dereference(found).second.at(i).program == program:
                return &dereference(found).second.at(i)
    return NULL


cdef Status take_kernel(void* context, void** kernel, uintptr_t* program) noexcept nogil:
    """Take a kernel for one fill: another thread could set its arguments between the calls and the launch.

    It is NULL where there is no program for the context.
    """
    cdef Filler* filler
    cdef cl_int error = 0
    lock.lock()
    filler = find_filler(context, 0)
    if filler != NULL:
        program[0] = filler.program
        if filler.idle.empty():
            kernel[0] = cl.CreateKernel(<void*> filler.program, <const char*> b"fill", &error)
        else:
            kernel[0] = filler.idle.back()
            filler.idle.pop_back()
    lock.unlock()
    return outcome(CALL_CreateKernel, error)


cdef void put_back(void* context, void* kernel, uintptr_t program) noexcept nogil:
    """Keep a kernel for the next fill. It is not released: while a gate is closed that would be undefined."""
    cdef Filler* filler
    lock.lock()
    filler = find_filler(context, program)
    if filler != NULL:
        filler.idle.push_back(kernel)
    lock.unlock()
    if filler == NULL:
        cl.ReleaseKernel(kernel)


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
    cdef Call call = CALL_SetKernelArgSVMPointer
    cdef cl_int error = cl.GetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof(void*), &context, NULL)
    if error != 0:
        status[0] = outcome(CALL_GetCommandQueueInfo, error)
        return True
    status[0] = take_kernel(context, &kernel, &program)
    if kernel == NULL:
        return status[0] != 0
    while at < REPEATED:
        memcpy(repeated + at, pattern, pattern_size)
        at += pattern_size
    error = cl.SetKernelArgSVMPointer(kernel, 0, <void*> <uintptr_t> to.address)
    if error == 0:
        call = CALL_SetKernelArg
        error = cl.SetKernelArg(kernel, 1, sizeof(n), &n)
    if error == 0:
        error = cl.SetKernelArg(kernel, 2, REPEATED, repeated)
    if error == 0:
        call = CALL_EnqueueNDRangeKernel
        error = cl.EnqueueNDRangeKernel(
            queue, kernel, 1, NULL, &items, &group, waits.count, waits.events if waits.count else NULL, event)
    put_back(context, kernel, program)
    status[0] = outcome(call, error)
    return True
