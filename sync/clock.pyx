"""Joining clocks, and what follows from a clock whose queue is done."""

from libc.stdint cimport uint64_t
from libcpp.atomic cimport memory_order_acq_rel, memory_order_relaxed
from libcpp.vector cimport vector

from penstock.sync.epochs cimport Epochs, completed_epoch, raise_completed, release_epochs, retain_epochs


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
    """The epoch of ``queue`` that this clock is ordered after; 0 when it names none."""
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
    """Entries already completed order nothing any more; leaving them out is what keeps clocks small."""
    if epoch > completed_epoch(queue):
        clock.entries.push_back(ClockEntry(retain_epochs(queue), epoch))


cdef Clock* clock_of_entries(const vector[ClockEntry]& entries) noexcept nogil:
    """A new clock with one reference; ``entries`` are by ascending queue id. NULL when all of them are done."""
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


cdef Clock* merged(const Clock* first, const Clock* second) noexcept nogil:
    cdef vector[ClockEntry] entries
    cdef size_t i = 0, j = 0, n = 0, m = 0
    cdef ClockEntry a, b
    if first != NULL:
        n = first.entries.size()
    if second != NULL:
        m = second.entries.size()
    entries.reserve(n + m)
    while i < n or j < m:
        if j == m or (i < n and first.entries[i].queue.queue_id < second.entries[j].queue.queue_id):
            entries.push_back(first.entries[i])
            i += 1
        elif i == n or second.entries[j].queue.queue_id < first.entries[i].queue.queue_id:
            entries.push_back(second.entries[j])
            j += 1
        else:
            a = first.entries[i]
            b = second.entries[j]
            entries.push_back(a if a.epoch >= b.epoch else b)
            i += 1
            j += 1
    return clock_of_entries(entries)


cdef Clock* joined_clock(Clock* first, Clock* second, Epochs* queue, uint64_t epoch) noexcept nogil:
    """A new reference to: first, second and (queue, epoch), the later epoch of each queue; completed ones dropped."""
    cdef vector[ClockEntry] single
    single.push_back(ClockEntry(queue, epoch))
    cdef Clock* one = clock_of_entries(single)
    cdef Clock* both = merged(first, second)
    cdef Clock* all_three = merged(both, one)
    release_clock(both)
    release_clock(one)
    return all_three


cdef void complete_clock(const Clock* clock) noexcept nogil:
    """What a done epoch was ordered after is done too: raise those queues' ``completed`` without asking their driver."""
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
