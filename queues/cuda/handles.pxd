"""The structures behind this driver's handles: the driver's own handle, and forebay's data about it."""

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.atomic cimport atomic
from libcpp.vector cimport vector

from forebay.core.driver cimport Status
from forebay.core.vector_clock cimport Lock
from forebay.queues.cuda.calls cimport Call, KernelNode, cuda_result_t


cdef enum EventKind:
    PLAIN_EVENT
    TIMED_EVENT
    GATE_EVENT  # recorded behind a wait for a word that the host writes
    EVENT_KINDS
    IPC_EVENT  # which other processes know, and which is never recorded for anything else


cdef enum MemoryKind:
    DEVICE_POOL
    SHARED_POOL
    HOST_POOL
    POOLS


cdef enum:
    SMALLEST_BLOCK = 256  # bytes, which all are multiples of: no type wants more
    BLOCK_CLASSES = 9
    LARGEST_BLOCK = 1 << 16


cdef cppclass CuContext:
    """The primary context of one GPU. It lives as long as the process, as with CUDA's runtime: making one takes half a
    second, and other packages use it.
    """
    void* handle
    int32_t device
    void* pools[POOLS]  # NULL until needed
    void* memory_stream  # on which memory is taken from the pools and given back; it has no other work
    CuModule* kernels  # forebay's own; and the one that fills
    void* fill
    atomic[uint32_t] streams  # that there are
    atomic[uint32_t] printing  # programs that call printf
    atomic[uint32_t] ended_printing  # programs of these that have ended
    atomic[uint32_t] written  # how many had ended before the driver last wrote what kernels had printed
    Lock lock  # guards all below
    vector[int32_t] reached  # devices whose memory this one uses
    vector[CuEvent*] idle[EVENT_KINDS]
    vector[CuEvent*] passing  # gates that are open and given back, which their queue may not have passed yet
    size_t asked_for  # which of these is asked for next
    vector[void*] ended_modules  # to be unloaded when no gate is closed
    vector[void*] ended_executables  # likewise to be destroyed
    vector[uint64_t] ended_registrations  # likewise to be unregistered: addresses of the host
    vector[uint64_t] ended_exports  # likewise to be freed: memory that other processes could open
    vector[uint64_t] ended_imports  # likewise to be closed: memory of other processes
    vector[CuQueue*] joins  # private streams for host waits on many events, each one wait's at a time; these are idle
    vector[uint64_t] blocks[BLOCK_CLASSES]  # small memory of the host that is idle, by size
    uint64_t chunk  # of which more is cut from the end
    size_t chunk_left  # bytes


cdef cppclass CuEvent:
    atomic[int32_t] references
    void* handle
    CuContext* context
    uint32_t* word  # gates only: what the host writes, in pinned memory
    EventKind kind


cdef cppclass CuQueue:
    void* stream
    CuContext* context
    cbool owned
    PyObject* owner  # of a stream of another package: the object that was adopted, retained; else NULL


cdef cppclass CuModule:
    atomic[int32_t] references  # the owner's, and one for each kernel
    void* handle
    CuContext* context
    cbool prints


cdef cppclass CuKernel:
    """A function and the values of its parameters, which a launch copies."""
    void* function
    CuModule* module  # retained
    vector[uint64_t] words  # the values, each at a whole word
    vector[void*] values  # where each of the driver's parameters is, as cuLaunchKernel takes them
    vector[uint32_t] locals  # by parameter: bytes of local memory
    vector[uint32_t] alignments  # of these; 0 for a parameter that is no local memory
    uint32_t shared  # bytes of dynamic shared memory


cdef cppclass CuNode:
    """A launch in a recording, as it is now."""
    void* node
    CuKernel* kernel  # a copy, so that it can change; NULL for another command
    KernelNode params


cdef cppclass CuRecording:
    void* graph
    void* executable
    CuContext* context
    vector[CuNode*] nodes
    vector[void*] after  # room for the nodes that one comes after


cdef inline Status outcome(Call call, cuda_result_t error) noexcept nogil:
    if error == 0:
        return 0
    return (<Status> call << 32) | error


cdef CuContext* open_context(int32_t device, const char* kernels, Status* status) noexcept nogil
cdef Status enter(CuContext* context) noexcept nogil
cdef void leave() noexcept nogil
cdef Status open_pool(CuContext* context, MemoryKind kind) noexcept nogil
cdef Status allow_access(void* pool, int32_t device) noexcept nogil
cdef Status take_block(CuContext* context, size_t nbytes, uint64_t* address) noexcept nogil
cdef void give_back_block(CuContext* context, size_t nbytes, uint64_t address) noexcept nogil
cdef CuQueue* new_queue(CuContext* context, int32_t priority, Status* status) noexcept nogil
cdef void release_queue(CuQueue* queue) noexcept nogil
cdef CuQueue* take_join(CuContext* context, Status* status) noexcept nogil
cdef void give_back_join(CuQueue* join) noexcept nogil
cdef CuEvent* take_event(CuContext* context, EventKind kind, Status* status) noexcept nogil
cdef CuEvent* retain_event(CuEvent* event) noexcept nogil
cdef void release_event(CuEvent* event) noexcept nogil
cdef void open_word(CuEvent* gate) noexcept nogil
cdef bint begin_gate() noexcept nogil
cdef void end_gate() noexcept nogil
cdef bint begin_without_gates() noexcept nogil
cdef void end_without_gates() noexcept nogil
cdef void destroy_ended(CuContext* context) noexcept nogil
cdef void unload_ended(CuContext* context) noexcept nogil
cdef uint32_t gates_closed() noexcept nogil
cdef CuModule* new_module(CuContext* context, void* handle, bint prints) noexcept nogil
cdef CuModule* retain_module(CuModule* module) noexcept nogil
cdef void release_module(CuModule* module) noexcept nogil
cdef CuKernel* copy_kernel(const CuKernel* kernel) noexcept nogil
cdef void place_locals(CuKernel* kernel) noexcept nogil
cdef void release_kernel(CuKernel* kernel) noexcept nogil
cdef void release_recording(CuRecording* recording) noexcept nogil
