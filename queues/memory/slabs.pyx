"""Cuts slabs into blocks, merges free neighbours, and finds the block that a queue may have.

A block that was freed may be used only by what comes after the free: by the queue that freed it, by a queue that is
ordered after that point, or by anyone once the device has reached it. Each queue therefore has free blocks of its own,
by size. A loop that allocates what it has freed before pops and pushes there. All else happens only when that finds
nothing: what is done becomes anyone's, neighbours are merged, larger blocks are cut.
"""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t, uintptr_t
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector
from cython.operator cimport dereference, postincrement, preincrement

from forebay.core.clock cimport Clock, clock_epoch
from forebay.core.epochs cimport Epochs, completed_epoch, release_epochs, retain_epochs
from forebay.core.state cimport QueueState
from forebay.core.uses cimport Point

ctypedef unordered_map[uintptr_t, Shelf*].iterator ShelfIterator

cdef enum:
    SMALLEST_SLAB = 64 << 10
    LARGEST_SLAB = 32 << 20
    LARGEST_STEP = 2 << 20  # between sizes of blocks
    LOOK_AT = 8  # blocks of a bin that are looked at
    MANY_SHELVES = 64
    MANY_STEPS = 4096  # over neighbours, before a slab is made instead


cpdef size_t size_class(size_t nbytes) noexcept nogil:
    """Return the bytes of a block for so many: at most a sixteenth more, and at most 2 MiB or 511 bytes."""
    cdef size_t step = GRAIN
    if nbytes > 32 * GRAIN:
        step = min(max(<size_t> 1 << (highest_bit(nbytes - 1) - 4), <size_t> GRAIN), <size_t> LARGEST_STEP)
    return max((nbytes + step - 1) & ~(step - 1), <size_t> GRAIN)


cdef size_t slab_size(const Heap* heap, size_t nbytes) noexcept nogil:
    """Return how large the slab for a block of so many bytes should be.

    A quarter of what is reserved, so that little is idle in small programs and slabs are few in large ones.
    """
    cdef size_t size = SMALLEST_SLAB
    while size < LARGEST_SLAB and size < heap.reserved // 4:
        size *= 2
    return max(size, nbytes) if heap.splits else nbytes


cdef inline bint is_close(size_t found, size_t nbytes) noexcept nogil:
    """Whether a block of `found` bytes is not worth cutting for `nbytes`."""
    return found < nbytes + max(nbytes // 16, <size_t> GRAIN)


cdef inline int bin_of(size_t nbytes) noexcept nogil:
    cdef uint64_t grains = nbytes // GRAIN
    cdef int high = highest_bit(grains)
    if high < 2:
        return <int> grains
    if high > 40:
        return BINS - 1
    return 4 * (high - 2) + <int> (grains >> (high - 2))


# -- lists


cdef inline void append(BlockList* into, Block* block, int which) noexcept nogil:
    block.links[which].before = into.last
    block.links[which].after = NULL
    if into.last != NULL:
        into.last.links[which].after = block
    else:
        into.first = block
    into.last = block


cdef inline void insert_after(BlockList* into, Block* block, Block* place, int which) noexcept nogil:
    cdef Block* after = place.links[which].after
    block.links[which].before = place
    block.links[which].after = after
    place.links[which].after = block
    if after != NULL:
        after.links[which].before = block
    else:
        into.last = block


cdef inline void unlink(BlockList* out_of, Block* block, int which) noexcept nogil:
    cdef Block* before = block.links[which].before
    cdef Block* after = block.links[which].after
    if before != NULL:
        before.links[which].after = after
    else:
        out_of.first = after
    if after != NULL:
        after.links[which].before = before
    else:
        out_of.last = before


cdef inline Block* before_of(const Block* block) noexcept nogil:
    return block.links[NEIGHBOURS].before


cdef inline Block* after_of(const Block* block) noexcept nogil:
    return block.links[NEIGHBOURS].after


cdef inline bint is_free(const Block* block) noexcept nogil:
    return block != NULL and not block.used


cdef inline void add_loose(Heap* heap, Block* block) noexcept nogil:
    if not block.loose:
        block.loose = True
        append(&heap.loose, block, LOOSE)
        heap.loose_count += 1


cdef inline void drop_loose(Heap* heap, Block* block) noexcept nogil:
    if block.loose:
        block.loose = False
        unlink(&heap.loose, block, LOOSE)
        heap.loose_count -= 1


# -- shelves


cdef void init_shelf(Shelf* shelf, Epochs* queue) noexcept nogil:
    cdef int i
    shelf.queue = queue
    shelf.count = 0
    shelf.by_age.first = shelf.by_age.last = NULL
    for i in range(BINS):
        shelf.bins[i].first = shelf.bins[i].last = NULL
    for i in range(3):
        shelf.filled[i] = 0


cdef Heap* new_heap() noexcept nogil:
    cdef Heap* heap = new Heap()
    heap.splits = True
    heap.reserved = heap.reserved_peak = heap.used = heap.used_peak = heap.loose_count = 0
    heap.loose.first = heap.loose.last = NULL
    heap.idle = NULL
    heap.last_shelf = NULL
    init_shelf(&heap.anyone, NULL)
    return heap


cdef void delete_heap(Heap* heap) noexcept nogil:
    cdef ShelfIterator each = heap.shelves.begin()
    while each != heap.shelves.end():
        release_epochs(dereference(each).second.queue)
        del dereference(each).second
        preincrement(each)
    del heap


cdef Shelf* find_shelf(Heap* heap, Epochs* queue) noexcept nogil:
    """Return what a queue has freed; NULL for nothing."""
    cdef ShelfIterator found
    if heap.last_shelf != NULL and heap.last_shelf.queue == queue:
        return heap.last_shelf
    found = heap.shelves.find(<uintptr_t> queue)
    if found == heap.shelves.end():
        return NULL
    heap.last_shelf = dereference(found).second
    return heap.last_shelf


cdef Shelf* shelf_of(Heap* heap, Epochs* queue) noexcept nogil:
    cdef Shelf* shelf
    if queue == NULL:
        return &heap.anyone
    shelf = find_shelf(heap, queue)
    if shelf == NULL:
        shelf = new Shelf()
        init_shelf(shelf, retain_epochs(queue))
        heap.shelves[<uintptr_t> queue] = shelf
        heap.last_shelf = shelf
    return shelf


cdef inline void shelve(Heap* heap, Block* block) noexcept nogil:
    cdef Shelf* shelf = shelf_of(heap, block.freed_on)
    cdef int at = bin_of(block.nbytes)
    block.shelf = shelf
    shelf.count += 1
    shelf.filled[at >> 6] |= <uint64_t> 1 << (at & 63)
    append(&shelf.bins[at], block, IN_BIN)
    if block.freed_on != NULL:
        append(&shelf.by_age, block, BY_AGE)


cdef inline void unshelve(Block* block) noexcept nogil:
    cdef Shelf* shelf = block.shelf
    cdef int at = bin_of(block.nbytes)
    shelf.count -= 1
    unlink(&shelf.bins[at], block, IN_BIN)
    if shelf.bins[at].first == NULL:
        shelf.filled[at >> 6] &= ~(<uint64_t> 1 << (at & 63))
    if block.freed_on != NULL:
        unlink(&shelf.by_age, block, BY_AGE)


cdef inline int next_filled(const Shelf* shelf, int at) noexcept nogil:
    """Return the first bin from here on that is not empty; BINS when all are."""
    cdef int word = at >> 6
    cdef uint64_t bits
    if at >= BINS:
        return BINS
    bits = shelf.filled[word] >> (at & 63) << (at & 63)
    while bits == 0:
        word += 1
        if word == 3:
            return BINS
        bits = shelf.filled[word]
    return 64 * word + lowest_bit(bits)


# -- blocks


cdef void forget_free(Block* block) noexcept nogil:
    if block.freed_on != NULL:
        release_epochs(block.freed_on)
        block.freed_on = NULL


cdef void drop_part(Heap* heap, Block* block) noexcept nogil:
    """The block is not what it was: its object goes when the commands that used it are done."""
    block.seen = False
    if block.part != NULL:
        if block.freed_on != NULL:
            retain_epochs(block.freed_on)
        heap.gone.push_back(Gone(block.part, block.freed_on, block.freed_at))
        block.part = NULL
        block.handle = 0


cdef Block* new_block(Slab* slab, size_t offset, size_t nbytes) noexcept nogil:
    cdef Block* block = new Block()
    block.slab = slab
    block.offset = offset
    block.nbytes = nbytes
    block.used = block.loose = block.seen = block.freed_on_null = block.freed_on_blocking = False
    block.shelf = NULL
    block.freed_on = NULL
    block.freed_at = 0
    block.part = NULL
    block.handle = 0
    return block


cdef inline void enter_idle(Heap* heap, Slab* slab) noexcept nogil:
    slab.before = NULL
    slab.after = heap.idle
    if heap.idle != NULL:
        heap.idle.before = slab
    heap.idle = slab


cdef inline void leave_idle(Heap* heap, Slab* slab) noexcept nogil:
    if slab.before != NULL:
        slab.before.after = slab.after
    else:
        heap.idle = slab.after
    if slab.after != NULL:
        slab.after.before = slab.before


cdef void cut(Heap* heap, Block* block, size_t nbytes) noexcept nogil:
    """Cut a block that is on no shelf down to this size, if that is worth it. The rest is free where the whole was."""
    cdef Block* rest
    if not heap.splits or is_close(block.nbytes, nbytes):
        return
    drop_part(heap, block)
    rest = new_block(block.slab, block.offset + nbytes, block.nbytes - nbytes)
    insert_after(&block.slab.blocks, rest, block, NEIGHBOURS)
    if block.freed_on != NULL:
        rest.freed_on = retain_epochs(block.freed_on)
        rest.freed_at = block.freed_at
        rest.freed_on_null = block.freed_on_null
        rest.freed_on_blocking = block.freed_on_blocking
    block.nbytes = nbytes
    shelve(heap, rest)
    if is_free(after_of(rest)):
        add_loose(heap, rest)


cdef inline Block* hand_out(Heap* heap, Block* block, size_t nbytes) noexcept nogil:
    """Take a free block off its shelf, for so many bytes. Where it was freed is kept: who never uses it gives it back
    as it was.
    """
    unshelve(block)
    block.used = True
    if block.nbytes != nbytes:
        cut(heap, block, nbytes)
    if block.slab.used == 0:
        leave_idle(heap, block.slab)
    block.slab.used += 1
    heap.used += block.nbytes
    heap.used_peak = max(heap.used_peak, heap.used)
    return block


cdef void give_back(Heap* heap, Block* block) noexcept nogil:
    """Put a used block on the shelf of the queue that freed it last."""
    cdef Slab* slab = block.slab
    heap.used -= block.nbytes
    block.used = False
    block.seen = True
    slab.used -= 1
    if slab.used == 0:
        enter_idle(heap, slab)
    shelve(heap, block)
    if is_free(before_of(block)) or is_free(after_of(block)):
        add_loose(heap, block)


cdef Block* add_slab(
    Heap* heap, PyObject* native, uintptr_t handle, uint64_t address, size_t slab_bytes, size_t nbytes
) noexcept nogil:
    cdef Slab* slab = new Slab()
    cdef Block* block = new_block(slab, 0, slab_bytes)
    slab.native = native
    slab.handle = handle
    slab.address = address
    slab.nbytes = slab_bytes
    slab.used = 0
    slab.blocks.first = slab.blocks.last = NULL
    append(&slab.blocks, block, NEIGHBOURS)
    heap.reserved += slab_bytes
    heap.reserved_peak = max(heap.reserved_peak, heap.reserved)
    enter_idle(heap, slab)
    shelve(heap, block)
    return hand_out(heap, block, nbytes)


cdef bint is_alike(const Block* first, const Block* second) noexcept nogil:
    """Whether both are free, for the same queue or for anyone."""
    return is_free(first) and is_free(second) and first.freed_on == second.freed_on


cdef void absorb(Heap* heap, Block* block, Block* after) noexcept nogil:
    """Merge two neighbours, of which neither is on a shelf. What one queue freed is free from its last free on."""
    drop_part(heap, block)
    drop_part(heap, after)
    drop_loose(heap, after)
    if block.freed_on == NULL and after.freed_on != NULL:
        block.freed_on = retain_epochs(after.freed_on)
        block.freed_at = after.freed_at
        block.freed_on_null = after.freed_on_null
        block.freed_on_blocking = after.freed_on_blocking
    elif after.freed_on != NULL:
        block.freed_at = max(block.freed_at, after.freed_at)
    block.nbytes += after.nbytes
    unlink(&block.slab.blocks, after, NEIGHBOURS)
    forget_free(after)
    del after


cdef Block* merge_around(Heap* heap, Block* block) noexcept nogil:
    """Merge a free block with neighbours of its own kind. Returns the one that is left."""
    cdef Block* after
    if not is_alike(before_of(block), block) and not is_alike(block, after_of(block)):
        return block
    while is_alike(before_of(block), block):
        block = before_of(block)
    unshelve(block)
    while is_alike(block, after_of(block)):
        after = after_of(block)
        unshelve(after)
        absorb(heap, block, after)
    shelve(heap, block)
    return block


cdef void merge_loose(Heap* heap, size_t most) noexcept nogil:
    """Merge what lies side by side and is free for the same queue, or for anyone; looks at so many of the loose ones.

    Those that still have a free neighbour, of another kind, stay loose.
    """
    cdef Block* block
    for _ in range(min(most, heap.loose_count)):
        block = heap.loose.first
        if block == NULL:
            return
        drop_loose(heap, block)
        if block.used:
            continue
        block = merge_around(heap, block)
        if is_free(before_of(block)) or is_free(after_of(block)):
            add_loose(heap, block)


cdef void settle_done(Heap* heap) noexcept nogil:
    """Let anyone have what the device is known to be done with, and drop shelves that stay empty."""
    cdef ShelfIterator each = heap.shelves.begin()
    cdef ShelfIterator here
    cdef Shelf* shelf
    cdef Block* block
    while each != heap.shelves.end():
        here = postincrement(each)
        shelf = dereference(here).second
        while True:
            block = shelf.by_age.first
            if block == NULL or block.freed_at > completed_epoch(block.freed_on):
                break
            unshelve(block)
            forget_free(block)
            shelve(heap, block)
            if is_free(before_of(block)) or is_free(after_of(block)):
                add_loose(heap, block)
        if shelf.count == 0 and heap.shelves.size() > MANY_SHELVES:
            if heap.last_shelf == shelf:
                heap.last_shelf = NULL
            heap.shelves.erase(here)
            release_epochs(shelf.queue)
            del shelf


# -- finding one


cdef Block* closest(const Shelf* shelf, size_t nbytes) noexcept nogil:
    """Return a block of this size or hardly more, the last freed first. None is cut for it."""
    cdef Block* block = shelf.bins[bin_of(nbytes)].last
    for _ in range(LOOK_AT):
        if block == NULL or block.nbytes >= nbytes and is_close(block.nbytes, nbytes):
            return block
        block = block.links[IN_BIN].before
    return NULL


cdef Block* smallest(const Shelf* shelf, size_t nbytes) noexcept nogil:
    """Return a block that is large enough, one of the smallest of those."""
    cdef Block* found = NULL
    cdef Block* block
    cdef int at = bin_of(nbytes)
    block = shelf.bins[at].first
    for _ in range(LOOK_AT):
        if block == NULL:
            break
        if block.nbytes >= nbytes and (found == NULL or block.nbytes < found.nbytes):
            found = block
        block = block.links[IN_BIN].after
    if found == NULL and at < BINS - 1:
        at = next_filled(shelf, at + 1)
        if at < BINS:
            found = shelf.bins[at].first
            if found.nbytes < nbytes:  # the last bin has all sizes
                found = NULL
    return found


cdef Block* take_own(Heap* heap, Epochs* queue, size_t nbytes) noexcept nogil:
    """Take a block of about this size that the queue has freed, as it is. NULL for none."""
    cdef Shelf* shelf = find_shelf(heap, queue)
    cdef Block* block = closest(shelf, nbytes) if shelf != NULL else NULL
    return hand_out(heap, block, nbytes) if block != NULL else NULL


cdef bint is_ordered_after(QueueState* queue, const Clock* clock, const Block* block) noexcept nogil:
    """Whether the queue, with this clock, is ordered after the free."""
    if queue.adopted:
        return False  # it gets commands that carry no waits of forebay
    if clock_epoch(clock, block.freed_on) >= block.freed_at:
        return True
    # the null-queue rules order the memory's next use after the free
    return queue.is_null and block.freed_on_blocking or queue.blocking and block.freed_on_null


cdef Block* take_ordered(
    Heap* heap, QueueState* queue, const Clock* clock, bint follows, size_t nbytes
) noexcept nogil:
    """Take a block that the queue may have without a wait. If it is too large, it is cut. NULL for none.

    Of about this size if there is one: anyone's, or with `follows` one that a queue freed that this one is ordered
    after. Else the smallest of those and of the queue's own.
    """
    cdef ShelfIterator each
    cdef Shelf* shelf = find_shelf(heap, queue.epochs)
    cdef Block* block = closest(&heap.anyone, nbytes)
    cdef Block* best
    if block != NULL:
        return hand_out(heap, block, nbytes)
    best = smallest(&heap.anyone, nbytes)
    if shelf != NULL:
        block = smallest(shelf, nbytes)
        if block != NULL and (best == NULL or block.nbytes <= best.nbytes):
            best = block
    each = heap.shelves.begin() if follows else heap.shelves.end()
    while each != heap.shelves.end():
        shelf = dereference(each).second
        preincrement(each)
        if shelf.queue == queue.epochs or shelf.count == 0:
            continue
        block = smallest(shelf, nbytes)
        if block != NULL and (best == NULL or block.nbytes < best.nbytes) and is_ordered_after(queue, clock, block):
            best = block
    if best == NULL:
        return NULL
    return hand_out(heap, best, nbytes)


cdef Block* take_anyone(Heap* heap, size_t nbytes) noexcept nogil:
    """Take a block that anyone may have, for use on any queue. NULL for none."""
    cdef Block* block = closest(&heap.anyone, nbytes)
    if block == NULL:
        block = smallest(&heap.anyone, nbytes)
    return hand_out(heap, block, nbytes) if block != NULL else NULL


cdef inline bint may_join(const Block* block, const Epochs* queue) noexcept nogil:
    return is_free(block) and (block.freed_on == NULL or block.freed_on == queue)


cdef Block* take_joined(Heap* heap, Epochs* queue, size_t nbytes) noexcept nogil:
    """Take a block joined from neighbours that the queue has freed and that anyone may have. NULL for none.

    Not done before it is needed, because until the queue's part is done nobody else can have the rest.
    """
    cdef Block* block
    cdef Block* first
    cdef Block* last
    cdef size_t found, steps = 0
    block = heap.loose.first
    while block != NULL and steps < MANY_STEPS:
        first = last = block
        block = block.links[LOOSE].after
        steps += 1
        if not may_join(first, queue):
            continue
        found = first.nbytes
        while found < nbytes and may_join(before_of(first), queue):
            first = before_of(first)
            found += first.nbytes
            steps += 1
        while found < nbytes and may_join(after_of(last), queue):
            last = after_of(last)
            found += last.nbytes
            steps += 1
        if found < nbytes:
            continue
        unshelve(first)
        while first.nbytes < found:
            last = after_of(first)
            unshelve(last)
            absorb(heap, first, last)
        shelve(heap, first)
        return hand_out(heap, first, nbytes)
    return NULL


cdef Block* take_any(Heap* heap, size_t nbytes) noexcept nogil:
    """Take a block that some queue has freed, which the caller has to wait for. NULL for none."""
    cdef ShelfIterator each = heap.shelves.begin()
    cdef Block* best = NULL
    cdef Block* block
    while each != heap.shelves.end():
        block = smallest(dereference(each).second, nbytes)
        if block != NULL and (best == NULL or block.nbytes < best.nbytes):
            best = block
        preincrement(each)
    if best == NULL:
        return NULL
    return hand_out(heap, best, nbytes)


# -- asking the driver


cdef void points_to_ask(Heap* heap, size_t nbytes, vector[Point]& points) noexcept nogil:
    """Append where the queues freed what is large enough: each has a reference for the caller."""
    cdef ShelfIterator each = heap.shelves.begin()
    cdef Block* block
    while each != heap.shelves.end():
        block = smallest(dereference(each).second, nbytes)
        if block != NULL:
            points.push_back(Point(retain_epochs(block.freed_on), block.freed_at))
        preincrement(each)


cdef void points_of_idle(Heap* heap, vector[Point]& points) noexcept nogil:
    """Append the points after which slabs can be given back."""
    cdef Slab* slab = heap.idle
    while slab != NULL:
        add_points(slab, points)
        slab = slab.after


cdef void add_points(const Slab* slab, vector[Point]& points) noexcept nogil:
    cdef Block* block = slab.blocks.first
    while block != NULL:
        if block.freed_on != NULL and block.freed_at > completed_epoch(block.freed_on):
            points.push_back(Point(retain_epochs(block.freed_on), block.freed_at))
        block = after_of(block)


cdef bint is_idle(const Slab* slab) noexcept nogil:
    """Whether the device is known to be done with a slab that has no used block."""
    cdef Block* block = slab.blocks.first
    while block != NULL:
        if block.freed_on != NULL and block.freed_at > completed_epoch(block.freed_on):
            return False
        block = after_of(block)
    return True


cdef void remove_slab(Heap* heap, Slab* slab, vector[Point]& points) noexcept nogil:
    """Take out a slab without used blocks. Appends the points after which `native` can go, which is then `gone`'s
    caller's.
    """
    cdef Block* block
    add_points(slab, points)
    heap.reserved -= slab.nbytes
    leave_idle(heap, slab)
    while slab.blocks.first != NULL:
        block = slab.blocks.first
        unlink(&slab.blocks, block, NEIGHBOURS)
        unshelve(block)
        drop_loose(heap, block)
        drop_part(heap, block)
        forget_free(block)
        del block
    del slab
