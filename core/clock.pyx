"""Joins clocks, and completes the queues of a clock whose own queue is done."""

from libc.stdint cimport uint64_t
from libcpp.atomic cimport memory_order_acq_rel, memory_order_acquire, memory_order_relaxed, memory_order_release

from forebay.core.epochs cimport Epochs, completed_epoch, release_epochs, retain_epochs

cdef enum:
    CHUNK_BITS = 5


# -- chunks


cdef inline uint64_t number_of(const Epochs* queue) noexcept nogil:
    return queue.queue_id >> CHUNK_BITS


cdef Chunk* new_chunk(uint64_t number) noexcept nogil:
    cdef Chunk* chunk = new Chunk()
    chunk.references.store(1, memory_order_relaxed)
    chunk.number = number
    return chunk


cdef inline Chunk* retain_chunk(Chunk* chunk) noexcept nogil:
    chunk.references.fetch_add(1, memory_order_relaxed)
    return chunk


cdef void release_chunk(Chunk* chunk) noexcept nogil:
    cdef size_t i
    if chunk.references.fetch_sub(1, memory_order_acq_rel) == 1:
        for i in range(chunk.entries.size()):
            release_epochs(chunk.entries[i].queue)
        del chunk


cdef inline void append_entry(Chunk* chunk, Epochs* queue, uint64_t epoch) noexcept nogil:
    """Append an entry unless it is completed. Completed entries order nothing; leaving them out keeps clocks small."""
    if epoch > completed_epoch(queue):
        chunk.entries.push_back(ClockEntry(retain_epochs(queue), epoch))


cdef bint chunk_is_done(const Chunk* chunk) noexcept nogil:
    cdef size_t i
    for i in range(chunk.entries.size()):
        if completed_epoch(chunk.entries[i].queue) < chunk.entries[i].epoch:
            return False
    return True


cdef size_t place_in(const Chunk* chunk, uint64_t queue_id) noexcept nogil:
    """Return the place of the first entry whose queue has this id or a higher one."""
    cdef size_t low = 0, high = chunk.entries.size(), middle
    while low < high:
        middle = (low + high) // 2
        if chunk.entries[middle].queue.queue_id < queue_id:
            low = middle + 1
        else:
            high = middle
    return low


cdef Chunk* raised_chunk(Chunk* chunk, Epochs* queue, uint64_t epoch) noexcept nogil:
    """Return the chunk with this entry added. Takes over the reference; changes it in place if nobody else has one."""
    cdef Chunk* copy
    cdef size_t i, place
    if chunk.references.load(memory_order_acquire) != 1:
        copy = new_chunk(chunk.number)
        copy.entries.reserve(chunk.entries.size() + 1)
        for i in range(chunk.entries.size()):
            append_entry(copy, chunk.entries[i].queue, chunk.entries[i].epoch)
        release_chunk(chunk)
        chunk = copy
    place = place_in(chunk, queue.queue_id)
    if place < chunk.entries.size() and chunk.entries[place].queue == queue:
        if chunk.entries[place].epoch < epoch:
            chunk.entries[place].epoch = epoch
    else:
        chunk.entries.insert(chunk.entries.begin() + place, ClockEntry(retain_epochs(queue), epoch))
    return chunk


cdef Chunk* merged_chunk(Chunk* first, Chunk* second) noexcept nogil:
    """Return a chunk with the later epoch of each queue, which may be one of these two. NULL when all of it is done."""
    cdef size_t i = 0, j = 0, n = first.entries.size(), m = second.entries.size()
    cdef const ClockEntry* a
    cdef const ClockEntry* b
    cdef Chunk* chunk
    if first == second:
        return retain_chunk(first)
    chunk = new_chunk(first.number)
    chunk.entries.reserve(n + m)
    while i < n or j < m:
        a = &first.entries[i] if i < n else NULL
        b = &second.entries[j] if j < m else NULL
        if b == NULL or a != NULL and a.queue.queue_id < b.queue.queue_id:
            append_entry(chunk, a.queue, a.epoch)
            i += 1
        elif a == NULL or b.queue.queue_id < a.queue.queue_id:
            append_entry(chunk, b.queue, b.epoch)
            j += 1
        else:
            append_entry(chunk, a.queue, max(a.epoch, b.epoch))
            i += 1
            j += 1
    if chunk.entries.empty():
        release_chunk(chunk)
        return NULL
    return chunk


# -- clocks


cdef Clock* new_clock() noexcept nogil:
    cdef Clock* clock = new Clock()
    clock.references.store(1, memory_order_relaxed)
    clock.next_look = 0
    return clock


cdef Clock* retain_clock(Clock* clock) noexcept nogil:
    if clock != NULL:
        clock.references.fetch_add(1, memory_order_relaxed)
    return clock


cdef void release_clock(Clock* clock) noexcept nogil:
    cdef size_t i
    if clock != NULL and clock.references.fetch_sub(1, memory_order_acq_rel) == 1:
        for i in range(clock.chunks.size()):
            release_chunk(clock.chunks[i])
        del clock


cdef size_t chunk_place(const Clock* clock, uint64_t number) noexcept nogil:
    """Return the place of the first chunk with this number or a higher one."""
    cdef size_t low = 0, high = clock.chunks.size(), middle
    while low < high:
        middle = (low + high) // 2
        if clock.chunks[middle].number < number:
            low = middle + 1
        else:
            high = middle
    return low


cdef uint64_t clock_epoch(const Clock* clock, const Epochs* queue) noexcept nogil:
    """Return the epoch of ``queue`` that this clock is ordered after; 0 when the queue is not in the clock."""
    cdef const Chunk* chunk
    cdef size_t place
    if clock == NULL:
        return 0
    place = chunk_place(clock, number_of(queue))
    if place == clock.chunks.size() or clock.chunks[place].number != number_of(queue):
        return 0
    chunk = clock.chunks[place]
    place = place_in(chunk, queue.queue_id)
    if place < chunk.entries.size() and chunk.entries[place].queue == queue:
        return chunk.entries[place].epoch
    return 0


cdef bint chunk_covers(const Chunk* chunk, const Chunk* other) noexcept nogil:
    """Return whether each entry of the other chunk is done or contained in this one, which may be NULL."""
    cdef size_t i = 0, j, n = 0 if chunk == NULL else chunk.entries.size()
    cdef const ClockEntry* entry
    if chunk == other:
        return True
    for j in range(other.entries.size()):
        entry = &other.entries[j]
        # compare pointers first: they are usually equal, and reading an id is a cache miss
        while i < n and chunk.entries[i].queue != entry.queue and (
            chunk.entries[i].queue.queue_id < entry.queue.queue_id
        ):
            i += 1
        if i < n and chunk.entries[i].queue == entry.queue and chunk.entries[i].epoch >= entry.epoch:
            continue
        if entry.epoch > completed_epoch(entry.queue):
            return False
    return True


cdef bint covers(const Clock* clock, const Clock* other) noexcept nogil:
    """Return whether each entry of the other clock is done or contained in this clock."""
    cdef size_t i = 0, j, n = 0 if clock == NULL else clock.chunks.size()
    cdef const Chunk* chunk
    if other == NULL or other == clock:
        return True
    for j in range(other.chunks.size()):
        chunk = other.chunks[j]
        while i < n and clock.chunks[i] != chunk and clock.chunks[i].number < chunk.number:
            i += 1
        if not chunk_covers(
            clock.chunks[i] if i < n and clock.chunks[i].number == chunk.number else NULL, chunk
        ):
            return False
    return True


cdef Clock* merged(const Clock* first, const Clock* second) noexcept nogil:
    """Make a clock with the later epoch of each queue. Chunks that the two share, or only one has, are shared."""
    cdef size_t i = 0, j = 0, n = 0, m = 0
    cdef Chunk* chunk
    cdef Clock* clock
    if first != NULL:
        n = first.chunks.size()
    if second != NULL:
        m = second.chunks.size()
    clock = new_clock()
    clock.chunks.reserve(n + m)
    while i < n or j < m:
        if j == m or i < n and first.chunks[i].number < second.chunks[j].number:
            chunk = retain_chunk(first.chunks[i])
            i += 1
        elif i == n or second.chunks[j].number < first.chunks[i].number:
            chunk = retain_chunk(second.chunks[j])
            j += 1
        else:
            chunk = merged_chunk(first.chunks[i], second.chunks[j])
            i += 1
            j += 1
        if chunk != NULL:
            clock.chunks.push_back(chunk)
    return without_done(clock)


cdef Clock* without_done(Clock* clock) noexcept nogil:
    """Drop two chunks of the clock if all of them is done. Takes over the only reference; NULL when nothing is left.

    A change adds at most one chunk, so a clock cannot grow by what is long done, and no change looks at all of it.
    """
    cdef Chunk* chunk
    for _ in range(2):
        if clock.chunks.empty():
            break
        if clock.next_look >= clock.chunks.size():
            clock.next_look = 0
        chunk = clock.chunks[clock.next_look]
        if chunk_is_done(chunk):
            clock.chunks.erase(clock.chunks.begin() + clock.next_look)
            release_chunk(chunk)
        else:
            clock.next_look += 1
    if clock.chunks.empty():
        release_clock(clock)
        return NULL
    return clock


cdef Clock* raised_clock(Clock* clock, Epochs* queue, uint64_t epoch) noexcept nogil:
    """Return the clock with this epoch of this queue added. Takes over the caller's reference.

    The clock is changed in place when nobody else has a reference, else its chunks are shared.
    """
    cdef Clock* raised = clock
    cdef size_t i, place
    if clock == NULL or clock.references.load(memory_order_acquire) != 1:
        raised = new_clock()
        if clock != NULL:
            raised.chunks.reserve(clock.chunks.size() + 1)
            for i in range(clock.chunks.size()):
                raised.chunks.push_back(retain_chunk(clock.chunks[i]))
            raised.next_look = clock.next_look
            release_clock(clock)
    if epoch > completed_epoch(queue):
        place = chunk_place(raised, number_of(queue))
        if place == raised.chunks.size() or raised.chunks[place].number != number_of(queue):
            raised.chunks.insert(raised.chunks.begin() + place, new_chunk(number_of(queue)))
        raised.chunks[place] = raised_chunk(raised.chunks[place], queue, epoch)
    return without_done(raised)


cdef inline void raise_completed(Epochs* epochs, uint64_t epoch) noexcept nogil:
    """Raise ``completed``, never lower it: a finish that began earlier may report later."""
    cdef uint64_t known = epochs.completed.load(memory_order_relaxed)
    while known < epoch:
        if epochs.completed.compare_exchange_weak(known, epoch, memory_order_release):
            return


cdef void note_reached(Epochs* queue, uint64_t epoch, const Clock* clock) noexcept nogil:
    """Note that the queue has reached this epoch, and before it that all is done which the clock names, without asking
    a driver. So whoever sees the queue done sees that done as well.

    The null queue speaks for the blocking queues of its device, which all have higher ids: it comes after them here.
    """
    cdef const Chunk* chunk
    cdef size_t i, j
    for i in range(0 if clock == NULL else clock.chunks.size(), 0, -1):
        chunk = clock.chunks[i - 1]
        for j in range(chunk.entries.size(), 0, -1):
            raise_completed(chunk.entries[j - 1].queue, chunk.entries[j - 1].epoch)
    raise_completed(queue, epoch)


cdef bint clock_is_done(const Clock* clock) noexcept nogil:
    cdef size_t i
    if clock != NULL:
        for i in range(clock.chunks.size()):
            if not chunk_is_done(clock.chunks[i]):
                return False
    return True
