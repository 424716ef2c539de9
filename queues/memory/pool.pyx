"""Stream-ordered memory: `Queue.alloc` and `Queue.free`.

Memory is handed out and taken back in the order of queues, not of the host. Memory freed on a queue is reused there at
once, even if the device has not reached that point, because its next user runs later. Another queue may have it when
it is ordered after that point, or when that point is known to be reached. A wait for it is inserted only when the pool
must not grow any more: it would tie two queues together that have nothing to do with each other.
"""

import math
from typing import TYPE_CHECKING

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cython.operator cimport dereference, postincrement, preincrement
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libcpp.atomic cimport memory_order_acquire, memory_order_relaxed
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from forebay.core.driver cimport ELEMENT_AT, Status
from forebay.core.process cimport check_memory, is_forked
from forebay.core.state cimport ALLOWING, DeviceState, QueueState, release_device_state
from forebay.core.uses cimport Point, note_use, release_points
from forebay.core.vector_clock cimport (
    Clock, Epochs, advance_submitted, clock_epoch, completed_epoch, is_empty, release_clock, release_epochs,
    retain_clock, retain_epochs, submitted_epoch
)
from forebay.lifetimes.deferred cimport reach_point, retire_after
from forebay.queues.memory.allocation cimport Allocation, OwnedMemory, new_allocation, own_memory
from forebay.queues.memory.buffer cimport Buffer, new_buffer
from forebay.races.checker cimport (
    WRITES, Announcement, command, is_checked, is_told, line_of_program, made, named, use_of, withdraw
)
from forebay.sync.ordering cimport Order, begin_command, carry_pending, submit_waits, wait_for_point

from forebay.core.errors import ArgumentTypeError, ClosedError, InvalidArgumentError, OutOfMemoryError
from forebay.queues.memory.shapes import element_code, read_dtype, read_int, read_shape

if TYPE_CHECKING:
    from typing import Any, SupportsIndex
    from typing_extensions import Never
    from numpy.typing import DTypeLike
    from forebay.queues.device import Device

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


# it has no slab any more
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
        shelf.queue = retain_epochs(queue)
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


# A new slab, of which the caller gets a block of `nbytes`. It takes over the reference to `native`.
cdef Block* add_slab(
    Heap* heap, PyObject* native, uintptr_t handle, uint64_t address, size_t slab_bytes, size_t nbytes
) noexcept nogil:
    cdef Slab* slab = new Slab()
    cdef Block* block = new_block(slab, 0, slab_bytes)
    slab.native = native
    slab.handle = handle
    slab.address = address
    slab.nbytes = slab_bytes
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


cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow) except? -1

cdef enum:
    LOOK_AT_LOOSE = 64  # blocks that an allocation tries to merge before it cuts another one
    MANY_KINDS = 256

cdef uint64_t MOST = <uint64_t> -1


cdef void give_to_driver(OwnedMemory memory, vector[Point]& points):
    """Note the last uses of a slab, whose last reference goes with the caller's. Takes the points over."""
    cdef size_t i
    for i in range(points.size()):
        note_use(memory.uses, points[i].queue, points[i].epoch, False)
    release_points(points)


def read_bytes(nbytes: SupportsIndex, what: str) -> int:
    """Return a checked number of bytes. Raises ArgumentTypeError or InvalidArgumentError."""
    nbytes = read_int(nbytes, f"{what} is a number of bytes")
    if nbytes < 0:
        raise InvalidArgumentError(f"{what} is a number of bytes, not {nbytes}")
    return nbytes


def check_reset(nbytes: SupportsIndex, what: str) -> None:
    """Check a new value of a peak, which can be set to 0 only (HIP, hipMemPoolSetAttribute)."""
    if read_bytes(nbytes, what):
        raise InvalidArgumentError(f"{what} can be set to 0 only, which begins it anew; not to {nbytes}")


class Unpooled:
    """The base of memory that `Queue.free` takes back and that is from no pool."""

    usm_type = "device"

    def check_live(self) -> None:
        """Raise when there is nothing to free."""
        raise NotImplementedError

    def free(self, queue: int, epoch: int) -> None:
        """Take the memory back at this epoch of this queue, by its id."""
        raise NotImplementedError


@cython.no_gc  # it cannot be part of a cycle: the pool refers to no Python object that could refer to it
@cython.freelist(64)
cdef class Lease:
    """The driver's memory of an allocation, as far as it is a block of a pool. When it ends, the pool has it again.

    It ends with a free; or when its last Buffer is gone or was closed, and the device is done with its uses.
    """

    @property
    def usm_type(self) -> str:
        """As `DriverMemory.usm_type`."""
        return "device"

    cdef int free_on(self, QueueState* state) except -1:
        """Say that the block is free after everything that was submitted to this queue until the lease ends."""
        cdef Block* block = self.block
        if block.freed_on != state.epochs:
            if block.freed_on != NULL:
                release_epochs(block.freed_on)
            block.freed_on = retain_epochs(state.epochs)
        block.freed_on_null = state.is_null
        block.freed_on_blocking = state.blocking
        self.freed = True
        return 0

    def __dealloc__(self):
        cdef Heap* heap
        if self.block == NULL or is_forked():
            return
        heap = self.pool.heap
        heap.lock.lock()
        if self.freed:
            self.block.freed_at = submitted_epoch(self.block.freed_on)
        give_back(heap, self.block)
        heap.lock.unlock()


# -- the elements of a Buffer


@cython.no_gc
cdef class Kind:
    """What a Buffer has of its dtype."""
    cdef object dtype
    cdef size_t itemsize
    cdef uint64_t code  # as in Memory.kind


cdef dict _kinds = {}  # by what was given as dtype


cdef Kind kind_of(object dtype):
    """Read a dtype. Strings and the dtype of numbers are looked up."""
    cdef Kind kind = <Kind> _kinds.get(dtype) if type(dtype) is str else None
    if kind is not None:
        return kind
    kind = Kind.__new__(Kind)
    kind.dtype = read_dtype(dtype)
    kind.itemsize = kind.dtype.itemsize
    kind.code = <uint64_t> element_code(kind.dtype) << ELEMENT_AT
    if type(dtype) is str and len(_kinds) < MANY_KINDS:
        _kinds[dtype] = kind
    return kind


# -- pools


cdef MemoryPool new_pool(DeviceState* state, object driver, object limit):
    cdef MemoryPool pool = MemoryPool.__new__(MemoryPool)
    state.references.fetch_add(1, memory_order_relaxed)
    pool.state = state
    pool.heap = new Heap()
    pool.heap.splits = driver.has_addresses
    pool.part_of = driver.part_of
    pool.threshold = 0
    pool.limit = limit
    pool.reuse_follow_event_dependencies = True
    pool.reuse_allow_opportunistic = True
    pool.reuse_allow_internal_dependencies = True
    return pool


@cython.no_gc_clear
cdef class MemoryPool:
    """The memory of a device that `Queue.alloc` hands out and `Queue.free` takes back (HIP, stream-ordered allocator).

    The Device makes it, as its `pool`; calling the class raises. Any thread may use it.

    Attributes
    ----------
    reuse_follow_event_dependencies : bool
        Whether a queue may have memory freed on another queue if it is already ordered after the free, by events or by
        the rules of the null queue.
    reuse_allow_opportunistic : bool
        Whether a queue may have memory freed on another queue that is known to be done with it.
    reuse_allow_internal_dependencies : bool
        Whether a queue may be made to wait for another queue to get memory that was freed there. That happens only when
        the driver has no more memory or the pool has reached `growth_limit`.

    Notes
    -----
    The three settings are on at first, like HIP's attributes of these names.
    """

    def __init__(self, *args: Never, **kwargs: Never) -> None:
        raise ArgumentTypeError("a MemoryPool is made with its Device: Device.pool")

    def __dealloc__(self):
        if self.state == NULL or is_forked():  # then it is the parent's
            return
        self.give_up(0, False)
        delete_heap(self.heap)
        release_device_state(self.state)

    # -- properties

    @property
    def release_threshold(self) -> int:
        """Bytes to keep when a queue, an event or the device is synchronized; 0 at first (HIP).

        A synchronize gives unused memory beyond this back to the driver. A program that synchronizes often and
        allocates again can set it to the number of bytes it needs; the driver then allocates no more.
        """
        return self.threshold

    @release_threshold.setter
    def release_threshold(self, nbytes: SupportsIndex) -> None:
        self.threshold = min(read_bytes(nbytes, "release_threshold"), MOST)

    @property
    def growth_limit(self) -> int:
        """Bytes that may be reserved before a queue is made to wait for memory that was freed on another one. At first
        half of the device's memory. It never makes an allocation fail: beyond it, the pool grows if nothing was freed.
        Before that, slabs without used blocks that the device is done with go back to the driver.
        """
        return self.limit

    @growth_limit.setter
    def growth_limit(self, nbytes: SupportsIndex) -> None:
        self.limit = min(read_bytes(nbytes, "growth_limit"), MOST)

    @property
    def reserved(self) -> int:
        """Bytes that were allocated from the driver and not given back."""
        return self.heap.reserved

    @property
    def used(self) -> int:
        """Bytes of the blocks that were handed out and not freed."""
        return self.heap.used

    @property
    def reserved_high(self) -> int:
        """The peak of `reserved`. Set it to 0 to reset it."""
        return self.heap.reserved_peak

    @reserved_high.setter
    def reserved_high(self, nbytes: SupportsIndex) -> None:
        check_reset(nbytes, "reserved_high")
        self.heap.lock.lock()
        self.heap.reserved_peak = self.heap.reserved
        self.heap.lock.unlock()

    @property
    def used_high(self) -> int:
        """The peak of `used`. Set it to 0 to reset it."""
        return self.heap.used_peak

    @used_high.setter
    def used_high(self, nbytes: SupportsIndex) -> None:
        check_reset(nbytes, "used_high")
        self.heap.lock.lock()
        self.heap.used_peak = self.heap.used
        self.heap.lock.unlock()

    def trim(self, keep: SupportsIndex = 0) -> None:
        """Give memory that nothing can use any more back to the driver, until at most `keep` bytes are reserved.

        Does not block and does not ask the driver which frees are done: synchronize first to find out.
        """
        self.give_up(min(read_bytes(keep, "trim: keep"), MOST), True)

    cdef int trim_after_wait(self) except -1:
        """Trim to the threshold after the host has waited for something."""
        if self.heap.reserved > self.threshold:
            self.give_up(self.threshold, True)
        return 0

    def _give_up_idle(self) -> bool:
        """Give idle memory back once the device is done with it, because the driver has none left.

        Returns whether there was any.
        """
        return self.give_up(0, False)

    cdef bint give_up(self, uint64_t keep, bint only_done):
        """Give slabs without used blocks to the driver until at most `keep` bytes are reserved: at once those that the
        device is known to be done with; the others, without `only_done`, when it is. Returns whether there were any.
        """
        cdef Heap* heap = self.heap
        cdef Slab* slab
        cdef PyObject* native = NULL
        cdef OwnedMemory memory
        cdef vector[Point] points
        cdef bint any_given = False
        while heap.reserved > keep:
            native = NULL
            with nogil:
                heap.lock.lock()
                slab = heap.idle
                while slab != NULL and only_done and not is_idle(slab):
                    slab = slab.after
                if slab != NULL:
                    native = slab.native
                    remove_slab(heap, slab, points)
                heap.lock.unlock()
            if native == NULL:
                break
            memory = <OwnedMemory> native
            Py_DECREF(memory)
            give_to_driver(memory, points)
            memory = None
            any_given = True
        self.release_gone()
        return any_given

    cdef int release_gone(self) except -1:
        """Release the driver's objects of blocks that are no more."""
        cdef vector[Gone] gone
        cdef size_t i
        if self.heap.gone.empty():  # this may race: at worst the next call sees it
            return 0
        self.heap.lock.lock()
        gone.swap(self.heap.gone)
        self.heap.lock.unlock()
        for i in range(gone.size()):
            part = <object> gone[i].thing
            Py_DECREF(part)
            retire_after(self.state, part, gone[i].queue, gone[i].epoch)
            part = None
            if gone[i].queue != NULL:
                release_epochs(gone[i].queue)
        return 0

    # -- alloc and free

    cdef object alloc(self, object device, object queue, QueueState* state, object shape, object dtype):
        cdef Kind kind = kind_of(dtype)
        cdef Buffer buffer
        cdef Lease lease
        cdef int overflow = 0
        cdef long long count = PyLong_AsLongLongAndOverflow(shape, &overflow) if type(shape) is int else -1
        if count >= 0 and <size_t> count < NO_MORE_THAN // kind.itemsize:
            shape = (shape,)
        else:
            shape = read_shape(shape)
            elements = math.prod(shape)
            if elements * kind.itemsize >= NO_MORE_THAN:
                raise OutOfMemoryError(f"{elements * kind.itemsize} bytes: {device.name} has not so much memory")
            count = elements
        lease = self.lease(device, queue, state, <size_t> count * kind.itemsize)
        buffer = Buffer.__new__(Buffer)
        buffer.allocation = new_allocation(device, own_memory(self.state, lease, False))
        buffer.shape = shape
        buffer.dtype = kind.dtype
        buffer.nbytes = lease.nbytes
        buffer.memory.handle = <void*> lease.handle
        buffer.memory.address = lease.address
        buffer.memory.offset = buffer.start = 0
        buffer.memory.kind = kind.code
        if is_told(state):
            note_alloc(queue, state, buffer)
        return buffer

    cdef Lease lease(self, object device, object queue, QueueState* state, size_t nbytes):
        """Hand out so many bytes, for later commands on this queue; with `state` NULL for those on any queue.

        The block goes back with the last reference, as it was. So drop that when its uses are done, or call `free_on`.
        """
        cdef Lease lease = Lease.__new__(Lease)
        cdef Block* block = self.take(device, queue, state, nbytes)
        lease.pool = self
        lease.block = block
        lease.freed = False
        lease.handle = block.handle if block.handle or not block.slab.handle else self.handle_of(block)
        lease.address = block.slab.address + block.offset if block.slab.address else 0
        lease.nbytes = nbytes
        return lease

    cdef uintptr_t handle_of(self, Block* block) except? 0:
        """Return the driver's object for a block of a slab that has one. 0 for its address alone.

        An argument is set faster by an object, but to make one takes longer than that saves: so a block gets one when
        it is handed out for the second time.
        """
        if block.nbytes == block.slab.nbytes:
            return block.slab.handle
        if block.seen and self.part_of is not None:
            part, handle = self.part_of((<OwnedMemory> block.slab.native).native, block.offset, block.nbytes)
            Py_INCREF(part)
            block.part = <PyObject*> part
            block.handle = handle
        return block.handle

    cdef Block* take(self, object device, object queue, QueueState* state, size_t nbytes) except NULL:
        cdef Block* block
        cdef size_t size = size_class(nbytes)
        block = NULL
        if state != NULL:
            self.heap.lock.lock()
            block = take_own(self.heap, state.epochs, size)
            self.heap.lock.unlock()
        if block == NULL:
            check_memory()
            with nogil:
                block = self.find(state, size)
            if block == NULL:
                block = self.grow(device, queue, state, nbytes)
            self.release_gone()
        return block

    cdef Block* find(self, QueueState* state, size_t nbytes) noexcept nogil:
        """Take out a block that the queue may have without a wait. NULL when there is none."""
        cdef Heap* heap = self.heap
        cdef vector[Point] points
        cdef Clock* clock
        cdef Block* block
        cdef size_t i
        if state == NULL:
            heap.lock.lock()
            if self.reuse_allow_opportunistic:
                settle_done(heap)
            merge_loose(heap, heap.loose_count)
            block = take_anyone(heap, nbytes)
            heap.lock.unlock()
            return block
        state.lock.lock()
        clock = retain_clock(state.order.clock)
        state.lock.unlock()
        heap.lock.lock()
        if self.reuse_allow_opportunistic:
            settle_done(heap)
        merge_loose(heap, LOOK_AT_LOOSE)
        block = take_ordered(heap, state, clock, self.reuse_follow_event_dependencies, nbytes)
        if block == NULL:
            merge_loose(heap, heap.loose_count)
            block = take_ordered(heap, state, clock, self.reuse_follow_event_dependencies, nbytes)
        if block == NULL:
            block = take_joined(heap, state.epochs, nbytes)
        if block == NULL and self.reuse_allow_opportunistic:
            points_to_ask(heap, nbytes, points)
        heap.lock.unlock()
        if not points.empty():
            for i in range(points.size()):
                reach_point(self.state, points[i].queue, points[i].epoch)
            release_points(points)
            heap.lock.lock()
            settle_done(heap)
            merge_loose(heap, heap.loose_count)
            block = take_ordered(heap, state, clock, self.reuse_follow_event_dependencies, nbytes)
            if block == NULL:
                block = take_joined(heap, state.epochs, nbytes)
            heap.lock.unlock()
        release_clock(clock)
        return block

    cdef Block* grow(self, object device, object queue, QueueState* state, size_t nbytes) except NULL:
        """Get a block from a new slab. At the limit, idle slabs go back first, and the queue rather waits for a free.

        If the driver has no room for a slab, it gets as large as the block, and in the end just large enough.
        """
        cdef Heap* heap = self.heap
        cdef Block* block = NULL
        cdef size_t least = size_class(nbytes)
        cdef size_t size = slab_size(heap, least)
        if heap.reserved + size > self.limit:
            size = least
        if heap.reserved + size > self.limit:
            self.ask_for_idle()
            with nogil:
                block = self.find(state, least)  # what was found done just now serves, rather than new memory
            if block != NULL:
                return block
            self.give_up(self.limit - size if self.limit > size else 0, True)
            if heap.reserved + size > self.limit:
                block = self.wait_for_free(queue, state, least)
                if block != NULL:
                    return block
        while True:
            try:
                memory = device._allocate(size, "device")
                break
            except OutOfMemoryError:
                if size > least:
                    size = least
                    continue
                least = (max(nbytes, <size_t> 1) + GRAIN - 1) // GRAIN * GRAIN
                if size > least:
                    size = least
                    continue
                with nogil:
                    block = self.find(state, least)
                if block == NULL:
                    block = self.wait_for_free(queue, state, least)
                if block == NULL:
                    raise
                return block
        Py_INCREF(memory)
        handle, address = memory.native.handle, memory.native.address
        heap.lock.lock()
        block = add_slab(heap, <PyObject*> memory, handle, address, size, least)
        heap.lock.unlock()
        return block

    cdef int ask_for_idle(self) except -1:
        """Ask the driver whether it is done with slabs that have no used blocks."""
        cdef vector[Point] points
        cdef size_t i
        with nogil:
            self.heap.lock.lock()
            points_of_idle(self.heap, points)
            self.heap.lock.unlock()
            for i in range(points.size()):
                reach_point(self.state, points[i].queue, points[i].epoch)
            release_points(points)
        return 0

    cdef Block* wait_for_free(self, object queue, QueueState* state, size_t nbytes) except? NULL:
        """Take out a block that was freed on another queue, and order the queue after that. NULL when there is none, or
        when the settings forbid it.
        """
        cdef Block* block
        cdef Status status
        if not self.reuse_allow_internal_dependencies or state == NULL:
            return NULL
        with nogil:
            self.heap.lock.lock()
            block = take_any(self.heap, nbytes)
            self.heap.lock.unlock()
            if block == NULL:
                status = 0
            else:
                status = order_after(state, block.freed_on, block.freed_at)
            if status != 0:
                self.heap.lock.lock()
                give_back(self.heap, block)
                self.heap.lock.unlock()
        if status != 0:
            queue._raise(status, "alloc")
        return block

    def _buffer_on(self, device: Device, memory: Any, tuple shape, dtype: DTypeLike) -> Buffer:
        """Make a Buffer on memory of a graph."""
        if not isinstance(memory, OwnedMemory):
            memory = own_memory(self.state, memory, False)
        return new_buffer(new_allocation(device, memory), 0, shape, dtype)

cdef Status order_after(QueueState* queue, Epochs* freed_on, uint64_t freed_at) noexcept nogil:
    """Make the queue wait for the free, and for nothing later that can be held up."""
    cdef Status status = wait_for_point(queue, freed_on.queue_id, freed_at)
    if status == 0 and queue.adopted:  # the next command there may carry no wait
        queue.lock.lock()
        status = carry_pending(queue)
        queue.lock.unlock()
    return status


cdef inline bint owes_nothing(QueueState* queue) noexcept nogil:
    """Return whether a free on the queue, which is locked, has no wait to gather. May say no without need."""
    if queue.barred & ~<uint32_t> ALLOWING != 0 or queue.adopted:
        return False
    if queue.is_null:
        return queue.device.null_order.listed.load(memory_order_acquire) == NULL
    if not queue.blocking or is_empty(queue.device.null_queue.epochs):
        return True
    return queue.order.null_seen.load(memory_order_relaxed) == submitted_epoch(queue.device.null_queue.epochs)


cdef int submit_free(object queue, QueueState* state) except -1:
    """Order a free like a command, by the rules of the null queue."""
    cdef Order order
    cdef Status status
    cdef bint owes = True
    if state.lock.try_lock():
        owes = not owes_nothing(state)
        state.lock.unlock()
    if not owes:
        return 0
    with nogil:
        status = begin_command(state, &order)
        if status == 0:
            if state.adopted:
                advance_submitted(state.epochs)  # for the commands that it got from outside forebay
            status = submit_waits(state, &order)
    if status != 0:
        queue._raise(status, "free")
    return 0


cdef int note_alloc(object queue, QueueState* state, Buffer buffer) except -1:
    """Tell the checker of races that memory is a queue's from now on: others may use it after a wait for that."""
    cdef Announcement uses
    if is_checked(state):
        made(buffer.allocation.uses, buffer.nbytes)
        buffer.allocation.made_at = line_of_program()
    uses.push_back(use_of(buffer.allocation.uses, 0, buffer.nbytes, WRITES, named("alloc", "")))
    return command(queue, state, uses)


cdef int free_checked(object queue, QueueState* state, Allocation allocation, object native) except -1:
    """Free on a queue that is checked for races: memory goes back after all that the queue comes after."""
    cdef Announcement uses
    uses.push_back(use_of(allocation.uses, 0, native.nbytes, WRITES, named("free", "")))
    command(queue, state, uses)
    try:
        return free_unchecked(queue, state, allocation, native)
    except BaseException:
        withdraw(uses)
        raise


cdef inline int free_unchecked(object queue, QueueState* state, Allocation allocation, object native) except -1:
    if type(native) is not Lease:
        native.check_live()
        submit_free(queue, state)
        native.free(state.epochs.queue_id, submitted_epoch(state.epochs))
        return 0
    submit_free(queue, state)
    if allocation.closed:
        raise ClosedError("free: another thread has freed or closed this Buffer meanwhile")
    # The block goes back to its pool at once, or when a call that uses it now has submitted.
    (<Lease> native).free_on(state)
    allocation.memory.freed = True
    allocation.close()
    return 0


cdef int free(object queue, QueueState* state, object buf) except -1:
    cdef Allocation allocation
    if type(buf) is not Buffer:
        raise ArgumentTypeError(f"free() needs a Buffer, not {type(buf).__name__}")
    allocation = (<Buffer> buf).allocation
    if allocation.closed:
        raise buf._closed_error("free: this Buffer was freed or closed before, and")
    native = allocation.memory.native
    if type(native) is not Lease and not isinstance(native, Unpooled):
        raise InvalidArgumentError("free: this Buffer is not from Queue.alloc; its close() gives the memory back")
    if allocation.state != state.device:
        raise InvalidArgumentError(f"free: this Buffer belongs to {buf.device.name}, {queue!r} does not")
    if is_told(state):
        return free_checked(queue, state, allocation, native)
    return free_unchecked(queue, state, allocation, native)
