"""Joins clocks, and completes the queues of a clock whose own queue is done."""

from libc.stdint cimport uint64_t
from libcpp.atomic cimport memory_order_acq_rel, memory_order_acquire, memory_order_relaxed, memory_order_release

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


# -- lists of chunks


cdef Chunks* new_chunks(size_t room) noexcept nogil:
    cdef Chunks* chunks = new Chunks()
    chunks.references.store(1, memory_order_relaxed)
    chunks.each.reserve(room)
    chunks.next_look = 0
    return chunks


cdef inline Chunks* retain_chunks(Chunks* chunks) noexcept nogil:
    if chunks != NULL:
        chunks.references.fetch_add(1, memory_order_relaxed)
    return chunks


cdef void release_chunks(Chunks* chunks) noexcept nogil:
    cdef size_t i
    if chunks != NULL and chunks.references.fetch_sub(1, memory_order_acq_rel) == 1:
        for i in range(chunks.each.size()):
            release_chunk(chunks.each[i])
        del chunks


cdef size_t chunk_place(const Chunks* chunks, uint64_t number) noexcept nogil:
    """Return the place of the first chunk with this number or a higher one."""
    cdef size_t low = 0, high = chunks.each.size(), middle
    while low < high:
        middle = (low + high) // 2
        if chunks.each[middle].number < number:
            low = middle + 1
        else:
            high = middle
    return low


cdef uint64_t chunks_epoch(const Chunks* chunks, const Epochs* queue) noexcept nogil:
    cdef const Chunk* chunk
    cdef size_t place
    if chunks == NULL:
        return 0
    place = chunk_place(chunks, number_of(queue))
    if place == chunks.each.size() or chunks.each[place].number != number_of(queue):
        return 0
    chunk = chunks.each[place]
    place = place_in(chunk, queue.queue_id)
    if place < chunk.entries.size() and chunk.entries[place].queue == queue:
        return chunk.entries[place].epoch
    return 0


cdef Chunks* own_chunks(Chunks* chunks) noexcept nogil:
    """Return the list, or a copy when others have it too. Takes over the reference; NULL is the empty list."""
    cdef Chunks* copy
    cdef size_t i
    if chunks != NULL and chunks.references.load(memory_order_acquire) == 1:
        return chunks
    copy = new_chunks(1 if chunks == NULL else chunks.each.size() + 1)
    if chunks != NULL:
        for i in range(chunks.each.size()):
            copy.each.push_back(retain_chunk(chunks.each[i]))
        copy.next_look = chunks.next_look
        release_chunks(chunks)
    return copy


cdef void raise_in_chunks(Chunks* chunks, Epochs* queue, uint64_t epoch) noexcept nogil:
    """Add this epoch of this queue to a list that nobody else has."""
    cdef size_t place = chunk_place(chunks, number_of(queue))
    if place == chunks.each.size() or chunks.each[place].number != number_of(queue):
        chunks.each.insert(chunks.each.begin() + place, new_chunk(number_of(queue)))
    chunks.each[place] = raised_chunk(chunks.each[place], queue, epoch)


cdef Chunks* without_done(Chunks* chunks, size_t looks) noexcept nogil:
    """Look at so many chunks of a list that nobody else has, and drop those of which all is done. NULL when none is
    left.
    """
    cdef Chunk* chunk
    for _ in range(min(looks, chunks.each.size())):
        if chunks.next_look >= chunks.each.size():
            chunks.next_look = 0
        chunk = chunks.each[chunks.next_look]
        if chunk_is_done(chunk):
            chunks.each.erase(chunks.each.begin() + chunks.next_look)
            release_chunk(chunk)
        else:
            chunks.next_look += 1
    if chunks.each.empty():
        release_chunks(chunks)
        return NULL
    return chunks


cdef Chunks* merged_chunks(Chunks* first, Chunks* second) noexcept nogil:
    """Make a list with the later epoch of each queue. Chunks that the two share, or only one has, are shared. NULL when
    all of it is done.
    """
    cdef size_t i = 0, j = 0, n = 0, m = 0
    cdef Chunk* chunk
    cdef Chunks* chunks
    if first == second or second == NULL:
        return retain_chunks(first)
    if first == NULL:
        return retain_chunks(second)
    n, m = first.each.size(), second.each.size()
    chunks = new_chunks(n + m)
    while i < n or j < m:
        if j == m or i < n and first.each[i].number < second.each[j].number:
            chunk = retain_chunk(first.each[i])
            i += 1
        elif i == n or second.each[j].number < first.each[i].number:
            chunk = retain_chunk(second.each[j])
            j += 1
        else:
            chunk = merged_chunk(first.each[i], second.each[j])
            i += 1
            j += 1
        if chunk != NULL:
            chunks.each.push_back(chunk)
    return without_done(chunks, 2)


# -- clocks


cdef Clock* new_clock(Chunks* chunks) noexcept nogil:
    """Make a clock of these chunks. Takes over the caller's reference."""
    cdef Clock* clock = new Clock()
    clock.references.store(1, memory_order_relaxed)
    clock.chunks = chunks
    clock.next_look = clock.found_done = clock.count = 0
    return clock


cdef inline Chunks* chunks_of(const Clock* clock) noexcept nogil:
    if clock == NULL:
        return NULL
    return clock.chunks


cdef Clock* retain_clock(Clock* clock) noexcept nogil:
    if clock != NULL:
        clock.references.fetch_add(1, memory_order_relaxed)
    return clock


cdef void release_clock(Clock* clock) noexcept nogil:
    cdef size_t i
    if clock != NULL and clock.references.fetch_sub(1, memory_order_acq_rel) == 1:
        for i in range(clock.count):
            release_epochs(clock.recent[i].queue)
        release_chunks(clock.chunks)
        del clock


cdef inline uint64_t recent_epoch(const Clock* clock, const Epochs* queue) noexcept nogil:
    cdef size_t i
    for i in range(clock.count):
        if clock.recent[i].queue == queue:
            return clock.recent[i].epoch
    return 0


cdef uint64_t clock_epoch(const Clock* clock, const Epochs* queue) noexcept nogil:
    """Return the epoch of ``queue`` that this clock is ordered after; 0 when the queue is not in the clock."""
    cdef uint64_t epoch
    if clock == NULL:
        return 0
    epoch = recent_epoch(clock, queue)
    return epoch if epoch != 0 else chunks_epoch(clock.chunks, queue)


cdef bint chunk_is_covered(const Clock* clock, const Chunk* own, const Chunk* other) noexcept nogil:
    """Return whether each entry of the other chunk is done, or contained in this clock, whose chunk of that number is
    `own`, or NULL.
    """
    cdef size_t i = 0, j, n = 0 if own == NULL else own.entries.size()
    cdef const ClockEntry* entry
    if own == other:
        return True
    for j in range(other.entries.size()):
        entry = &other.entries[j]
        # compare pointers first: they are usually equal, and reading an id is a cache miss
        while i < n and own.entries[i].queue != entry.queue and own.entries[i].queue.queue_id < entry.queue.queue_id:
            i += 1
        if i < n and own.entries[i].queue == entry.queue and own.entries[i].epoch >= entry.epoch:
            continue
        if entry.epoch > completed_epoch(entry.queue) and recent_epoch(clock, entry.queue) < entry.epoch:
            return False
    return True


cdef bint covers(const Clock* clock, const Clock* other) noexcept nogil:
    """Return whether each entry of the other clock is done or contained in this clock."""
    cdef size_t i = 0, j, n
    cdef const Chunks* own
    cdef const Chunk* chunk
    cdef const ClockEntry* entry
    if other == NULL or other == clock:
        return True
    if clock == NULL:
        return clock_is_done(other)
    for j in range(other.count):
        entry = &other.recent[j]
        if entry.epoch > completed_epoch(entry.queue) and clock_epoch(clock, entry.queue) < entry.epoch:
            return False
    own = clock.chunks
    if other.chunks == NULL or other.chunks == own:
        return True
    n = 0 if own == NULL else own.each.size()
    for j in range(other.chunks.each.size()):
        chunk = other.chunks.each[j]
        while i < n and own.each[i] != chunk and own.each[i].number < chunk.number:
            i += 1
        if not chunk_is_covered(clock, own.each[i] if i < n and own.each[i].number == chunk.number else NULL, chunk):
            return False
    return True


cdef void drop_done(Clock* clock) noexcept nogil:
    """Drop what is done: recent entries, and chunks once most of them were found to be.

    The clock has no other owner. No change looks at more than two chunks, and what is long done does not stay.
    """
    cdef size_t i, size, kept = 0
    for i in range(clock.count):
        if clock.recent[i].epoch > completed_epoch(clock.recent[i].queue):
            clock.recent[kept] = clock.recent[i]
            kept += 1
        else:
            release_epochs(clock.recent[i].queue)
    clock.count = kept
    if clock.chunks == NULL:
        return
    size = clock.chunks.each.size()
    for _ in range(2):
        if clock.next_look < size:
            clock.found_done += chunk_is_done(clock.chunks.each[clock.next_look])
            clock.next_look += 1
    if clock.next_look >= size:
        if 2 * clock.found_done > size:
            clock.chunks = without_done(own_chunks(clock.chunks), size)
        clock.next_look = clock.found_done = 0


cdef void put(Clock* clock, Epochs* queue, uint64_t epoch) noexcept nogil:
    """Add this epoch of this queue to a clock that has no other owner."""
    cdef size_t i
    if epoch <= completed_epoch(queue):  # it orders nothing; leaving it out keeps clocks small
        return
    for i in range(clock.count):
        if clock.recent[i].queue == queue:
            clock.recent[i].epoch = max(clock.recent[i].epoch, epoch)
            return
    if clock.chunks != NULL and chunks_epoch(clock.chunks, queue) >= epoch:
        return
    if clock.count == RECENT:
        clock.chunks = own_chunks(clock.chunks)
        for i in range(RECENT):
            raise_in_chunks(clock.chunks, clock.recent[i].queue, clock.recent[i].epoch)
            release_epochs(clock.recent[i].queue)
        clock.chunks = without_done(clock.chunks, 2 * RECENT)
        clock.next_look = clock.found_done = clock.count = 0
    clock.recent[clock.count] = ClockEntry(retain_epochs(queue), epoch)
    clock.count += 1


cdef Clock* unless_empty(Clock* clock) noexcept nogil:
    if clock.count == 0 and clock.chunks == NULL:
        release_clock(clock)
        return NULL
    return clock


cdef Clock* copied(const Clock* clock) noexcept nogil:
    """Make a clock with the same entries and chunks. NULL is the empty clock."""
    cdef Clock* copy = new_clock(retain_chunks(chunks_of(clock)))
    cdef size_t i
    if clock != NULL:
        copy.next_look = clock.next_look
        copy.found_done = clock.found_done
        copy.count = clock.count
        for i in range(clock.count):
            copy.recent[i] = ClockEntry(retain_epochs(clock.recent[i].queue), clock.recent[i].epoch)
    return copy


cdef Clock* merged(const Clock* first, const Clock* second) noexcept nogil:
    """Make a clock with the later epoch of each queue."""
    cdef Clock* clock = new_clock(NULL)
    cdef size_t i
    clock.chunks = merged_chunks(chunks_of(first), chunks_of(second))
    for i in range(0 if first == NULL else first.count):
        put(clock, first.recent[i].queue, first.recent[i].epoch)
    for i in range(0 if second == NULL else second.count):
        put(clock, second.recent[i].queue, second.recent[i].epoch)
    drop_done(clock)
    return unless_empty(clock)


cdef Clock* raised_clock(Clock* clock, Epochs* queue, uint64_t epoch) noexcept nogil:
    """Return the clock with this epoch of this queue added. Takes over the caller's reference.

    The clock is changed in place when nobody else has a reference.
    """
    cdef Clock* raised = clock
    if clock == NULL or clock.references.load(memory_order_acquire) != 1:
        raised = copied(clock)
        release_clock(clock)
    drop_done(raised)
    put(raised, queue, epoch)
    return unless_empty(raised)


cdef inline void raise_completed(Epochs* epochs, uint64_t epoch) noexcept nogil:
    """Raise ``completed``, never lower it: a finish that began earlier may report later."""
    cdef uint64_t known = epochs.completed.load(memory_order_relaxed)
    while known < epoch:
        if epochs.completed.compare_exchange_weak(known, epoch, memory_order_release):
            return


cdef uint64_t raise_recent(const Clock* clock, uint64_t taken, uint64_t queue_id) noexcept nogil:
    """Raise the recent entries with a higher queue id than this, the highest first, but those whose bits are set.
    Returns the bits with theirs.
    """
    cdef size_t i, highest
    while taken + 1 != <uint64_t> 1 << clock.count:
        highest = clock.count
        for i in range(clock.count):
            if taken >> i & 1 == 0 and clock.recent[i].queue.queue_id > queue_id and (
                highest == clock.count or clock.recent[i].queue.queue_id > clock.recent[highest].queue.queue_id
            ):
                highest = i
        if highest == clock.count:
            break
        raise_completed(clock.recent[highest].queue, clock.recent[highest].epoch)
        taken |= <uint64_t> 1 << highest
    return taken


cdef void note_reached(Epochs* queue, uint64_t epoch, const Clock* clock) noexcept nogil:
    """Note that the queue has reached this epoch, and before it that all is done which the clock names, without asking
    a driver. So whoever sees the queue done sees that done as well.

    The null queue speaks for the blocking queues of its device, which all have higher ids: it comes after them here.
    """
    cdef const Chunk* chunk
    cdef const ClockEntry* entry
    cdef uint64_t taken = 0
    cdef size_t i, j
    if clock != NULL:
        for i in range(0 if clock.chunks == NULL else clock.chunks.each.size(), 0, -1):
            chunk = clock.chunks.each[i - 1]
            for j in range(chunk.entries.size(), 0, -1):
                entry = &chunk.entries[j - 1]
                taken = raise_recent(clock, taken, entry.queue.queue_id)
                raise_completed(entry.queue, entry.epoch)
        raise_recent(clock, taken, 0)
    raise_completed(queue, epoch)


cdef bint clock_is_done(const Clock* clock) noexcept nogil:
    cdef size_t i
    if clock == NULL:
        return True
    for i in range(clock.count):
        if completed_epoch(clock.recent[i].queue) < clock.recent[i].epoch:
            return False
    for i in range(0 if clock.chunks == NULL else clock.chunks.each.size()):
        if not chunk_is_done(clock.chunks.each[i]):
            return False
    return True


cdef void list_entries(const Clock* clock, vector[ClockEntry]& into) noexcept nogil:
    cdef size_t i, j
    if clock == NULL:
        return
    for i in range(0 if clock.chunks == NULL else clock.chunks.each.size()):
        for j in range(clock.chunks.each[i].entries.size()):
            into.push_back(clock.chunks.each[i].entries[j])
    for i in range(clock.count):
        into.push_back(clock.recent[i])
