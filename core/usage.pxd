"""Usage: which queues an allocation was used on, up to which epochs, and how often something may have written to it.

A launch whose arguments have not changed stores one number, the epoch of its plan. An allocation therefore knows the
plans that have it as an argument, and the points at which plans, copies, fills and graphs used it before. Its
generation is computed from these, when it is asked for.

Launches of kernels that follow pointers may use all memory. For drivers that need one there is a list of it.
"""

from libc.stdint cimport int32_t, uint64_t
from libcpp.atomic cimport atomic
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from forebay.core.ownership cimport Lock, Ref
from forebay.core.vector_clock cimport Clock, ClockEntry, Epochs, EpochsRef, clock_epoch, completed_epoch


cdef cppclass PastUse:
    EpochsRef queue
    uint64_t used
    uint64_t written  # 0 for never


cdef struct Pin:
    # A plan, or an entry of a step, that has the allocation as an argument
    Epochs* queue  # the plan retains it
    const uint64_t* last  # the epoch of its last launch; in the plan or the entry
    bint writes


cdef cppclass Usage:
    atomic[int32_t] references  # the allocation's, and one for each plan, graph, step and snapshot that has it
    void (*destroy)(Usage* usage) noexcept nogil
    # The point after which the contents that the memory was made with are there (`zeros`, `array`); no queue: it was
    # made without any. It is set before other code has the memory, and never changes.
    ClockEntry creation
    Lock lock  # guards all below; taken last, never held across a call
    uint64_t writes  # the generation without the last epochs of the pins that write; modulo 2^64
    vector[PastUse] past
    vector[Pin] pins
    size_t prune_at  # when `past` has this many entries, the next one first removes those that are done


cdef struct Moment:
    # What a command comes after
    const Epochs* queue  # all that its queue was given before
    const Epochs* null_queue  # the same of the null queue; NULL when its rules do not concern the queue
    const Clock* clock


cdef inline bint is_known_created(const Usage* usage) noexcept nogil:
    """Return whether the creation of this memory is known to be done."""
    return usage.creation.queue == NULL or usage.creation.epoch <= completed_epoch(usage.creation.queue)


cdef inline bint is_created(const Usage* usage, const Moment* moment) noexcept nogil:
    """Return whether a command comes after the creation of this memory."""
    cdef const Epochs* creator = <const Epochs*> usage.creation.queue
    return (
        is_known_created(usage)
        or creator == moment.queue
        or creator == moment.null_queue
        or clock_epoch(moment.clock, creator) >= usage.creation.epoch
    )


cdef cppclass Version:
    Ref[Usage] usage
    uint64_t generation


cdef cppclass Versions:
    """What a size was computed from. A launch looks at it again under the lock that it is submitted under."""
    vector[Version] memory
    uint64_t unseen_writes  # the device's count


# A number that rises whenever something may have written there
cdef uint64_t generation_of(Usage* usage) noexcept nogil


cdef inline Version version_of(Ref[Usage]& usage) noexcept nogil:
    """Return what the memory holds now."""
    cdef Version version
    version.usage = usage
    version.generation = generation_of(usage.get())
    return version


cdef inline bint still_holds(const Versions* versions, uint64_t unseen_writes) noexcept nogil:
    """Return whether nothing may have written there since. Writes that forebay cannot see do not count."""
    cdef size_t i
    if versions.unseen_writes != unseen_writes:
        return False
    for i in range(versions.memory.size()):
        if generation_of(versions.memory[i].usage.get()) != versions.memory[i].generation:
            return False
    return True


cdef Ref[Usage] new_usage() noexcept nogil
cdef void note_use(Usage* usage, Epochs* queue, uint64_t epoch, bint writes) noexcept nogil
cdef void pin(Usage* usage, Epochs* queue, const uint64_t* last, bint writes) noexcept nogil
cdef void unpin(Usage* usage, const uint64_t* last, bint writes) noexcept nogil
# The epoch of the queue's last command that has written there; 0 for none
cdef uint64_t last_write(Usage* usage, const Epochs* queue) noexcept nogil
cdef void points_of(Usage* usage, bint writers_only, vector[ClockEntry]& points) noexcept nogil


cdef cppclass ResidentList:
    """The list of a device. Memory is on it until its last reference goes, so before it is freed."""
    # Rises with each change, under the lock. A launch that follows pointers compares it with the version that its
    # kernel object has; 0 is that of a kernel object without a list.
    atomic[uint64_t] version
    Lock lock  # guards the one below; taken last, never held across a call
    unordered_map[uint64_t, size_t] addresses  # with how many listed each: memory may be taken over twice


cdef void list_memory(ResidentList* followed, uint64_t address) noexcept nogil
cdef void unlist_memory(ResidentList* followed, uint64_t address) noexcept nogil
