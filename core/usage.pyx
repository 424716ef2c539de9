"""Notes uses of allocations. Nothing here needs the GIL or calls a driver."""

from libc.stdint cimport uint64_t
from libcpp.atomic cimport memory_order_relaxed
from libcpp.vector cimport vector

from forebay.core.ownership cimport Guard, Ref, relaxed_uint64
from forebay.core.process cimport is_forked
from forebay.core.vector_clock cimport ClockEntry, Epochs, completed_epoch

cdef enum:
    FEW = 8


cdef Ref[Usage] new_usage() noexcept nogil:
    cdef Usage* usage = new Usage()
    usage.references.store(1, memory_order_relaxed)
    usage.destroy = destroy_usage
    usage.writes = 1
    usage.prune_at = FEW
    return Ref[Usage].adopt(usage)


cdef void destroy_usage(Usage* usage) noexcept nogil:
    del usage


cdef void forget_done(Usage* usage) noexcept nogil:
    """Remove the uses that are done. `prune_at` doubles with what is left, so the average cost of a use is constant."""
    cdef size_t i, kept = 0
    for i in range(usage.past.size()):
        if usage.past[i].used > completed_epoch(usage.past[i].queue):
            usage.past[kept] = usage.past[i]
            kept += 1
    usage.past.resize(kept)
    usage.prune_at = max(<size_t> FEW, 2 * kept)


cdef inline void note_locked(Usage* usage, Epochs* queue, uint64_t epoch, bint writes) noexcept nogil:
    cdef PastUse* first = usage.past.data()
    cdef PastUse* use = first + usage.past.size()
    while use != first:  # the newest first
        use -= 1
        if use.queue == queue:
            use.used = max(use.used, epoch)
            if writes:
                use.written = max(use.written, epoch)
            return
    add_use(usage, queue, epoch, writes)


cdef void add_use(Usage* usage, Epochs* queue, uint64_t epoch, bint writes) noexcept nogil:  # the usage is locked
    cdef PastUse added
    if usage.past.size() >= usage.prune_at:
        forget_done(usage)
    added.queue = queue
    added.used = epoch
    added.written = epoch if writes else 0
    usage.past.push_back(added)


cdef void note_use(Usage* usage, Epochs* queue, uint64_t epoch, bint writes) noexcept nogil:
    """Note a use by a command other than a plan's launch. The queue with these epochs is locked."""
    cdef Guard guard
    guard.take(usage.lock)
    note_locked(usage, queue, epoch, writes)
    usage.writes += writes


cdef void pin(Usage* usage, Epochs* queue, const relaxed_uint64* last, bint writes) noexcept nogil:
    """Note that a plan has the allocation as an argument. `last` rises with each launch (but see `withdraw`)."""
    cdef Guard guard
    guard.take(usage.lock)
    if writes:
        usage.writes -= last[0]
    usage.pins.push_back(Pin(queue, last, writes))


cdef void unpin(Usage* usage, const relaxed_uint64* last, bint writes) noexcept nogil:
    cdef Pin each
    cdef size_t i
    cdef Guard guard
    guard.take(usage.lock)
    for i in range(usage.pins.size()):
        if usage.pins[i].last == last and usage.pins[i].writes == writes:
            each = usage.pins[i]
            usage.pins[i] = usage.pins.back()
            usage.pins.pop_back()
            if writes:
                usage.writes += last[0]
            if each.last[0] > completed_epoch(each.queue):
                note_locked(usage, each.queue, each.last[0], each.writes)
            break


cdef void count_withdrawn(Usage* usage, uint64_t epochs) noexcept nogil:
    cdef Guard guard
    guard.take(usage.lock)
    usage.writes += epochs


cdef uint64_t last_write(Usage* usage, const Epochs* queue) noexcept nogil:
    cdef uint64_t epoch = 0
    cdef size_t i
    cdef Guard guard
    guard.take(usage.lock)
    for i in range(usage.past.size()):
        if usage.past[i].queue == queue:
            epoch = max(epoch, usage.past[i].written)
    for each in usage.pins:
        if each.queue == queue and each.writes:
            epoch = max(epoch, each.last[0])
    return epoch


cdef uint64_t generation_of(Usage* usage) noexcept nogil:
    cdef uint64_t generation
    cdef Guard guard
    if is_forked():  # another thread of the parent may have had the lock
        return 0
    guard.take(usage.lock)
    generation = usage.writes
    for each in usage.pins:
        if each.writes:
            generation += each.last[0]
    return generation


cdef void points_of(Usage* usage, bint writers_only, vector[ClockEntry]& points) noexcept nogil:
    """Append the points after which nothing uses the allocation, or writes to it."""
    cdef PastUse* use
    cdef uint64_t epoch
    cdef size_t i
    cdef Guard guard
    guard.take(usage.lock)
    for i in range(usage.past.size()):
        use = &usage.past[i]
        epoch = use.written if writers_only else use.used
        if epoch > completed_epoch(use.queue):
            points.push_back(ClockEntry(use.queue, epoch))
    for each in usage.pins:
        if (each.writes or not writers_only) and each.last[0] > completed_epoch(each.queue):
            points.push_back(ClockEntry(each.queue, each.last[0]))


# -- the list of memory that indirect access may reach


cdef void list_memory(ResidentList* followed, uint64_t address) noexcept nogil:
    cdef Guard guard
    guard.take(followed.lock)
    followed.addresses[address] += 1
    if followed.addresses[address] == 1:
        followed.version.fetch_add(1)


cdef void unlist_memory(ResidentList* followed, uint64_t address) noexcept nogil:
    """Call before looking for the users: an earlier launch is among them, and a later one uses the new list."""
    cdef Guard guard
    guard.take(followed.lock)
    followed.addresses[address] -= 1
    if followed.addresses[address] == 0:
        followed.addresses.erase(address)
        followed.version.fetch_add(1)
