"""Joins clocks, and completes the queues of a clock whose own queue is done."""

from libc.stdint cimport uint64_t
from libcpp.atomic cimport memory_order_acq_rel, memory_order_acquire, memory_order_relaxed
from libcpp.vector cimport vector

from forebay.core.epochs cimport Epochs, completed_epoch, raise_completed, release_epochs, retain_epochs


cdef Clock* retain_clock(Clock* clock) noexcept nogil:
    if clock != NULL:
        clock.references.fetch_add(1, memory_order_relaxed)
    return clock


cdef void release_clock(Clock* clock) noexcept nogil:
    cdef size_t i
    if clock != NULL and clock.references.fetch_sub(1, memory_order_acq_rel) == 1:
        for i in range(clock.entries.size()):
            release_epochs(clock.entries[i].queue)
        del clock


cdef uint64_t clock_epoch(const Clock* clock, const Epochs* queue) noexcept nogil:
    """Return the epoch of ``queue`` that this clock is ordered after; 0 when the queue is not in the clock."""
    if clock == NULL:
        return 0
    cdef size_t low = 0, high = clock.entries.size(), middle
    while low < high:
        middle = (low + high) // 2
        if clock.entries[middle].queue.queue_id < queue.queue_id:
            low = middle + 1
        else:
            high = middle
    if low < clock.entries.size() and clock.entries[low].queue == queue:
        return clock.entries[low].epoch
    return 0


cdef inline void append_entry(Clock* clock, Epochs* queue, uint64_t epoch) noexcept nogil:
    """Append an entry unless it is completed. Completed entries order nothing; leaving them out keeps clocks small."""
    if epoch > completed_epoch(queue):
        clock.entries.push_back(ClockEntry(retain_epochs(queue), epoch))


cdef Clock* clock_of_entries(const vector[ClockEntry]& entries) noexcept nogil:
    """Make a clock with one reference. ``entries`` are by ascending queue id. NULL when all of them are done."""
    cdef Clock* clock = new Clock()
    cdef size_t i
    clock.references.store(1, memory_order_relaxed)
    clock.entries.reserve(entries.size())
    for i in range(entries.size()):
        append_entry(clock, entries[i].queue, entries[i].epoch)
    if clock.entries.size() == 0:
        release_clock(clock)
        return NULL
    return clock


cdef bint covers(const Clock* clock, const Clock* other) noexcept nogil:
    """Return whether each entry of the other clock is done or contained in this clock."""
    cdef size_t i = 0, j, n = 0
    cdef const ClockEntry* entry
    if other == NULL or other == clock:
        return True
    if clock != NULL:
        n = clock.entries.size()
    for j in range(other.entries.size()):
        entry = &other.entries[j]
        # compare pointers first: they are usually equal, and reading an id is a cache miss
        while i < n and clock.entries[i].queue != entry.queue and (
            clock.entries[i].queue.queue_id < entry.queue.queue_id
        ):
            i += 1
        if i < n and clock.entries[i].queue == entry.queue and clock.entries[i].epoch >= entry.epoch:
            continue
        if entry.epoch > completed_epoch(entry.queue):
            return False
    return True


cdef Clock* merged(const Clock* first, const Clock* second) noexcept nogil:
    """Make a clock with the later epoch of each queue. Completed epochs are dropped."""
    cdef vector[ClockEntry] entries
    cdef size_t i = 0, j = 0, n = 0, m = 0
    cdef ClockEntry a, b
    if first != NULL:
        n = first.entries.size()
    if second != NULL:
        m = second.entries.size()
    entries.reserve(n + m)
    while i < n and j < m:
        a = first.entries[i]
        b = second.entries[j]
        if a.queue == b.queue:
            entries.push_back(a if a.epoch >= b.epoch else b)
            i += 1
            j += 1
        elif a.queue.queue_id < b.queue.queue_id:
            entries.push_back(a)
            i += 1
        else:
            entries.push_back(b)
            j += 1
    while i < n:
        entries.push_back(first.entries[i])
        i += 1
    while j < m:
        entries.push_back(second.entries[j])
        j += 1
    return clock_of_entries(entries)


cdef Clock* raised_clock(Clock* clock, Epochs* queue, uint64_t epoch) noexcept nogil:
    """Return the clock with this epoch of this queue added. Takes over the caller's reference.

    The clock is changed in place when nobody else has a reference. So a queue that waits for many others copies its
    clock only once.
    """
    cdef size_t low = 0, high, middle
    cdef vector[ClockEntry] entries
    cdef Clock* single
    cdef Clock* result
    if clock == NULL or clock.references.load(memory_order_acquire) != 1:
        entries.push_back(ClockEntry(queue, epoch))
        single = clock_of_entries(entries)
        if clock == NULL:
            return single
        result = merged(clock, single)
        release_clock(single)
        release_clock(clock)
        return result
    high = clock.entries.size()
    while low < high:
        middle = (low + high) // 2
        if clock.entries[middle].queue.queue_id < queue.queue_id:
            low = middle + 1
        else:
            high = middle
    if low < clock.entries.size() and clock.entries[low].queue == queue:
        if clock.entries[low].epoch < epoch:
            clock.entries[low].epoch = epoch
    else:
        clock.entries.insert(clock.entries.begin() + low, ClockEntry(retain_epochs(queue), epoch))
    return clock


cdef void complete_clock(const Clock* clock) noexcept nogil:
    """Raise ``completed`` of all queues in the clock of a done epoch, without asking a driver: they are done too."""
    cdef size_t i
    if clock != NULL:
        for i in range(clock.entries.size()):
            raise_completed(clock.entries[i].queue, clock.entries[i].epoch)


cdef bint clock_is_done(const Clock* clock) noexcept nogil:
    cdef size_t i
    if clock != NULL:
        for i in range(clock.entries.size()):
            if completed_epoch(clock.entries[i].queue) < clock.entries[i].epoch:
                return False
    return True
