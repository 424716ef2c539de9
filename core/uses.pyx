"""Notes uses of allocations. Nothing here needs the GIL or calls a driver."""

from libc.stdint cimport uint64_t
from libcpp.atomic cimport memory_order_acq_rel, memory_order_relaxed
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector
from cython.operator cimport dereference

from forebay.core.vector_clock cimport Epochs, completed_epoch, release_epochs, retain_epochs

cdef enum:
    FEW = 8


cdef Uses* new_uses() except NULL nogil:
    cdef Uses* uses = new Uses()
    uses.references.store(1, memory_order_relaxed)
    uses.writes = 1
    uses.crowded = FEW
    return uses


cdef Uses* retain_uses(Uses* uses) noexcept nogil:
    uses.references.fetch_add(1, memory_order_relaxed)
    return uses


cdef void release_uses(Uses* uses) noexcept nogil:
    if uses.references.fetch_sub(1, memory_order_acq_rel) == 1:
        for use in uses.past:
            release_epochs(use.queue)
        del uses


cdef void forget_done(Uses* uses) noexcept nogil:
    """Remove the uses that are done. `crowded` doubles with what is left, so that a use costs the same on average."""
    cdef size_t kept = 0
    for use in uses.past:
        if use.used <= completed_epoch(use.queue):
            release_epochs(use.queue)
        else:
            uses.past[kept] = use
            kept += 1
    uses.past.resize(kept)
    uses.crowded = max(<size_t> FEW, 2 * kept)


cdef void note_locked(Uses* uses, Epochs* queue, uint64_t epoch, bint writes) noexcept nogil:
    cdef size_t i = uses.past.size()
    cdef PastUse* use
    while i != 0:  # the newest first
        i -= 1
        use = &uses.past[i]
        if use.queue == queue:
            use.used = max(use.used, epoch)
            if writes:
                use.written = max(use.written, epoch)
            return
    if uses.past.size() >= uses.crowded:
        forget_done(uses)
    uses.past.push_back(PastUse(retain_epochs(queue), epoch, epoch if writes else 0))


cdef void note_use(Uses* uses, Epochs* queue, uint64_t epoch, bint writes) noexcept nogil:
    """Note a use by a command that is no launch of a plan. The queue with these epochs is locked."""
    uses.lock.lock()
    note_locked(uses, queue, epoch, writes)
    uses.writes += writes
    uses.lock.unlock()


cdef void hold(Uses* uses, Epochs* queue, const uint64_t* last, bint writes) noexcept nogil:
    """Note that a plan has the allocation as an argument. `last` rises with each launch, and never falls."""
    uses.lock.lock()
    if writes:
        uses.writes -= last[0]
    uses.holders.push_back(Holder(queue, last, writes))
    uses.lock.unlock()


cdef void unhold(Uses* uses, const uint64_t* last, bint writes) noexcept nogil:
    """Note that a plan has the allocation no longer as one of its arguments."""
    cdef Holder holder
    cdef size_t i
    uses.lock.lock()
    for i in range(uses.holders.size()):
        if uses.holders[i].last == last and uses.holders[i].writes == writes:
            holder = uses.holders[i]
            uses.holders[i] = uses.holders.back()
            uses.holders.pop_back()
            if writes:
                uses.writes += last[0]
            if holder.last[0] > completed_epoch(holder.queue):
                note_locked(uses, holder.queue, holder.last[0], holder.writes)
            break
    uses.lock.unlock()


cdef uint64_t generation_of(Uses* uses) noexcept nogil:
    cdef uint64_t generation
    uses.lock.lock()
    generation = uses.writes
    for holder in uses.holders:
        if holder.writes:
            generation += holder.last[0]
    uses.lock.unlock()
    return generation


cdef void points_of(Uses* uses, bint writers_only, vector[Point]& points) noexcept nogil:
    """Append the points after which nothing uses the allocation, or writes to it. Each is retained for the caller."""
    cdef uint64_t epoch
    uses.lock.lock()
    for use in uses.past:
        epoch = use.written if writers_only else use.used
        if epoch > completed_epoch(use.queue):
            points.push_back(Point(retain_epochs(use.queue), epoch))
    for holder in uses.holders:
        if (holder.writes or not writers_only) and holder.last[0] > completed_epoch(holder.queue):
            points.push_back(Point(retain_epochs(holder.queue), holder.last[0]))
    uses.lock.unlock()


cdef void release_points(vector[Point]& points) noexcept nogil:
    for point in points:
        release_epochs(point.queue)
    points.clear()


# -- the list of memory that kernels may follow pointers to


cdef void list_memory(Followed* followed, uint64_t address) noexcept nogil:
    cdef unordered_map[uint64_t, Place].iterator found
    cdef Place* place
    followed.lock.lock()
    found = followed.places.find(address)
    if found == followed.places.end():
        followed.places[address] = Place(followed.addresses.size(), 1)
        followed.addresses.push_back(address)
        followed.version.fetch_add(1)
    else:
        place = &dereference(found).second
        place.count += 1
    followed.lock.unlock()


cdef void unlist_memory(Followed* followed, uint64_t address) noexcept nogil:
    """Take memory off the list, before its users are looked for: a launch that began earlier is found as one of
    these, and one that begins later gives its kernel object the new list.
    """
    cdef unordered_map[uint64_t, Place].iterator found
    cdef Place* place
    cdef uint64_t last
    followed.lock.lock()
    found = followed.places.find(address)
    if found != followed.places.end():
        place = &dereference(found).second
        place.count -= 1
        if place.count == 0:
            last = followed.addresses.back()
            followed.addresses[place.index] = last
            followed.places[last].index = place.index
            followed.addresses.pop_back()
            followed.places.erase(address)
            followed.version.fetch_add(1)
    followed.lock.unlock()
