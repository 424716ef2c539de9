"""Usage records: which queues used an allocation, up to which epochs, and how often it may have been written.

A launch with unchanged arguments stores one number, its plan's epoch. So an allocation knows the plans that have it as
an argument, and the points at which plans, copies, fills and graphs used it before. Its generation is computed from
these on demand. Launches with indirect access may use all memory; drivers that need a list of it have one.
"""

from libc.stdint cimport int32_t, uint64_t
from libcpp.atomic cimport atomic
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from forebay.core.ownership cimport Lock, Ref, relaxed_uint64
from forebay.core.vector_clock cimport Clock, ClockEntry, Epochs, EpochsRef, clock_epoch, completed_epoch


cdef cppclass PastUse:
    EpochsRef queue
    uint64_t used
    uint64_t written  # 0 for never


cdef struct Pin:
    # A plan, or a step's entry, that has the allocation as an argument
    Epochs* queue  # the plan retains it
    const relaxed_uint64* last  # the epoch of its last launch; in the plan or the entry
    bint writes


cdef cppclass Usage:
    atomic[int32_t] references  # the allocation's, and one for each plan, graph, step and snapshot that has it
    void (*destroy)(Usage* usage) noexcept nogil
    # The point at which the initial contents are there (`zeros`, `array`); no queue: it was made without any. Set
    # before other code has the memory, and never changed.
    ClockEntry creation
    Lock lock  # guards all below; taken last, never held across a call
    uint64_t writes  # the generation without the last epochs of the pins that write, modulo 2^64
    vector[PastUse] past
    vector[Pin] pins
    size_t prune_at  # prune threshold: with this many in `past`, the next one first removes those that are done


cdef struct Moment:
    # What a command is ordered after
    const Epochs* queue  # all earlier commands of its queue
    const Epochs* null_queue  # likewise; NULL when the null queue's rules do not apply
    const Clock* clock


cdef inline bint is_known_created(const Usage* usage) noexcept nogil:
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
    """Inputs that a size was computed from; revalidated under the lock of the submission."""
    vector[Version] memory
    uint64_t unseen_writes  # the device's count


# Rises with every possible write
cdef uint64_t generation_of(Usage* usage) noexcept nogil


cdef inline Version version_of(Ref[Usage]& usage) noexcept nogil:
    cdef Version version
    version.usage = usage
    version.generation = generation_of(usage.get())
    return version


cdef inline bint still_holds(const Versions* versions, uint64_t unseen_writes) noexcept nogil:
    """Return whether no command may have written there since. Writes from outside forebay do not count."""
    cdef size_t i
    if versions.unseen_writes != unseen_writes:
        return False
    for i in range(versions.memory.size()):
        if generation_of(versions.memory[i].usage.get()) != versions.memory[i].generation:
            return False
    return True


cdef Ref[Usage] new_usage() noexcept nogil
cdef void note_use(Usage* usage, Epochs* queue, uint64_t epoch, bint writes) noexcept nogil
cdef void pin(Usage* usage, Epochs* queue, const relaxed_uint64* last, bint writes) noexcept nogil
cdef void unpin(Usage* usage, const relaxed_uint64* last, bint writes) noexcept nogil
cdef void count_withdrawn(Usage* usage, uint64_t epochs) noexcept nogil  # see `withdraw`
# The epoch of the queue's last command that has written there; 0 for none
cdef uint64_t last_write(Usage* usage, const Epochs* queue) noexcept nogil
cdef void points_of(Usage* usage, bint writers_only, vector[ClockEntry]& points) noexcept nogil


cdef cppclass ResidentList:
    """Memory that indirect access may reach. It leaves the list with its last reference, so before it is freed."""
    # Rises with each change, under the lock. A launch with indirect access compares it with the version of its kernel
    # object's list; 0: it has none
    atomic[uint64_t] version
    Lock lock  # guards the one below; taken last, never held across a call
    unordered_map[uint64_t, size_t] addresses  # with a count, because memory may be adopted twice


cdef void list_memory(ResidentList* followed, uint64_t address) noexcept nogil
cdef void unlist_memory(ResidentList* followed, uint64_t address) noexcept nogil
