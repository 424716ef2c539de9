"""Plans: the state remembered between launches of one kernel on one queue.

Kernels of OpenCL and Level Zero are stateful: two threads that set arguments of one `cl_kernel` get wrong results on
one CPU runtime and a crash on another. So each plan owns its own kernel object, which the lock of its queue guards.
"""

from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy
from libcpp.deque cimport deque
from libcpp.vector cimport vector

from forebay.core.driver cimport CHANGED_POINTER, CHANGED_VALUE, Change, Driver, Memory, Status, element_of
from forebay.core.ownership cimport Ref, relaxed_uint64
from forebay.core.vector_clock cimport Epochs, EpochsRef
from forebay.core.usage cimport Moment, Usage, pin, unpin


cdef enum ParameterKind:
    POINTER
    VALUE
    LOCAL


cdef struct Parameter:
    uint8_t kind  # a ParameterKind
    char code  # of a scalar value, as in the struct module; 'V' for bytes of exactly `size`; 0 for a pointer
    uint8_t element  # of a pointer: the code of what it points to, see `element_of`; 0 when any memory will do
    uint8_t writes  # whether it is a pointer through which the kernel may write
    uint32_t size  # bytes of the argument as the device sees it
    uint32_t offset  # in the packed block
    uint32_t width  # bytes in the packed block
    # Range of an integer: one of 30 bits fits if number + bias <= most, compared unsigned, any other if
    # number + bias <= mask. Its bytes are number & mask.
    uint64_t bias  # 0 without a sign
    uint64_t mask  # 0: no integer
    uint64_t most


cdef struct PackedPointer:
    # Shows whether the argument changed. Handle and address do not, because they are reused after a free, while a
    # driver may have looked up the old allocation. It is the address of the allocation's Usage, which the plan retains,
    # or for memory without Usage an odd number that is never used again.
    uint64_t allocation
    Memory memory


cdef struct PackedBytes:
    # A pointer parameter's slot for bytes by value, until the plan has put them on the device
    uint64_t allocation  # SPILLED
    uint64_t stamp  # unique to bytes that can never change; 0 for all others
    const void* data  # host memory
    size_t nbytes
    uint64_t kind  # of the elements, as in Memory


cdef struct Staging:
    # Host memory that uploads fill from the front
    Memory memory
    size_t capacity
    size_t used  # 0: when the epoch is done, all of it is free
    uint64_t epoch  # of the last upload
    PyObject* array  # owned


cdef cppclass Spill:
    # Device buffer of a pointer parameter whose argument is bytes by value. A plan's launches run in order, so an
    # upload may be submitted to the buffer while earlier launches still use it.
    PackedPointer device
    size_t capacity  # 0: no buffer yet
    size_t nbytes  # of the last upload
    uint64_t stamp  # of the bytes of the last upload, as in PackedBytes
    bint known  # whether the buffer holds, or will hold by the next command, the bytes of the last upload
    PyObject* buffer  # its OwnedMemory, which does not keep the Device; owned
    deque[Staging] staging  # the piece that takes the next upload, then oldest first
    const void* last  # the bytes of the last upload, in one of these pieces


cdef enum:
    SPILLED = 0xFFFFFFFFFFFFFFFF  # the allocation of a slot that has PackedBytes


cdef inline Usage* usage_of(const PackedPointer* pointer) noexcept nogil:
    return <Usage*> pointer.allocation if pointer.allocation & 1 == 0 else NULL


cdef cppclass Plan:
    const Driver* driver
    void* kernel  # owned
    uint64_t kernel_id
    EpochsRef queue  # of the queue that it is for; NULL for a plan of a graph or a step
    relaxed_uint64 epoch  # of its last launch
    vector[Ref[Usage]] uses  # by parameter: of the allocation that the kernel has, if it has one
    vector[Parameter] parameters
    vector[char] values  # the packed block as last set
    vector[char] known  # per argument: 0 when it was never set, or setting it failed
    bint all_known
    bint has_local  # some parameter is local memory
    uint64_t resident_version  # of the list that the kernel has, see ResidentList; 0 for none
    uint64_t argument_bytes  # the bytes that a launch would set if nothing were remembered
    vector[Spill] spills  # one for each parameter as soon as one has spilled
    PyObject* snapshot  # the Snapshot of its scratch; owned, NULL before the first


cdef void delete_plan(Plan* plan) noexcept nogil
cdef inline bint has_right_type(const Parameter* parameter, const char* value) noexcept nogil:
    cdef uint64_t given
    if parameter.element == 0:
        return True
    given = element_of((<const PackedPointer*> value).memory.kind)
    return given == 0 or given == parameter.element


cdef Status check_types(
    const Parameter* parameters, size_t count, const char* packed, uint32_t* failed_at
) noexcept nogil
# `moment`: what the launch comes after; NULL when the memory that it uses is known to be created
cdef Status set_changed_arguments(
    Plan* plan, const char* packed, const Moment* moment, relaxed_uint64* bytes_set, relaxed_uint64* bytes_skipped,
    uint32_t* failed_at
) noexcept nogil


cdef inline void change_use(
    Ref[Usage]& known, Usage* usage, Epochs* queue, const relaxed_uint64* epoch, bint writes
) noexcept nogil:
    """Set the usage of an argument of a plan or of a step's record; NULL for none. It is used up to `epoch` of the
    queue; without a queue the caller notes the uses. It is retained: otherwise another allocation could get its
    address, and packed arguments would take one for the other.
    """
    if known.get() == usage:
        return
    if queue != NULL and usage != NULL:
        pin(usage, queue, epoch, writes)
    if queue != NULL and known.get() != NULL:
        unpin(known.get(), epoch, writes)
    known = Ref[Usage].share(usage)


# Take back the epoch of a launch that was refused after it was set. `Buffer.generation` does not fall by that
cdef void withdraw(
    relaxed_uint64* epoch, uint64_t before, vector[Ref[Usage]]& uses, vector[Parameter]& parameters
) noexcept nogil


cdef inline bint is_same_pointer(const PackedPointer* known, const PackedPointer* value) noexcept nogil:
    return (
        known.allocation == value.allocation and known.memory.address == value.memory.address
        and known.memory.handle == value.memory.handle and known.memory.offset == value.memory.offset
        and known.memory.kind == value.memory.kind
    )


cdef inline bint has_value(const char* known, const char* value, uint32_t width) noexcept nogil:
    if width == sizeof(uint64_t):
        return memcmp(known, value, 8) == 0
    if width == sizeof(PackedPointer):
        return is_same_pointer(<const PackedPointer*> known, <const PackedPointer*> value)
    return memcmp(known, value, width) == 0


cdef inline void take_value(char* known, const char* value, uint32_t width) noexcept nogil:
    if width == sizeof(uint64_t):
        memcpy(known, value, 8)
    elif width == sizeof(PackedPointer):
        memcpy(known, value, sizeof(PackedPointer))
    else:
        memcpy(known, value, width)


cdef inline bint has_same_local(
    const Parameter* parameters, size_t count, const char* known, const char* packed
) noexcept nogil:
    """Return whether two packed blocks have the same sizes of local memory, which no recorded launch can change."""
    cdef size_t i
    for i in range(count):
        if parameters[i].kind == LOCAL and not has_value(
            known + parameters[i].offset, packed + parameters[i].offset, parameters[i].width
        ):
            return False
    return True
