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
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libcpp.atomic cimport memory_order_acquire, memory_order_relaxed
from libcpp.vector cimport vector

from forebay.core.clock cimport Clock, release_clock, retain_clock
from forebay.core.driver cimport ELEMENT_AT, Status
from forebay.core.epochs cimport (
    Epochs, advance_submitted, is_empty, release_epochs, retain_epochs, submitted_epoch
)
from forebay.core.process cimport check_memory, is_forked
from forebay.core.state cimport ALLOWING, DeviceState, QueueState, release_device_state
from forebay.core.uses cimport Point, note_use, release_points
from forebay.lifetimes.collection cimport reach_point
from forebay.lifetimes.retired cimport retire_after
from forebay.queues.memory.allocation cimport Allocation, OwnedMemory, new_allocation, own_memory
from forebay.queues.memory.buffer cimport Buffer, new_buffer
from forebay.queues.memory.slabs cimport (
    GRAIN, Block, Gone, Heap, Slab, add_slab, delete_heap, give_back, is_idle, merge_loose, new_heap, points_of_idle,
    points_to_ask, remove_slab, settle_done, size_class, slab_size, take_any, take_anyone, take_joined, take_ordered,
    take_own
)
from forebay.races.checker cimport command, is_checked, is_told, made, named, use_of, withdraw
from forebay.races.lines cimport line_of_program
from forebay.races.engine cimport WRITES, Announcement
from forebay.sync.ordering cimport Order, begin_command, submit_waits, wait_for_point
from forebay.sync.points cimport carry_pending

from forebay.core.errors import ArgumentTypeError, ClosedError, InvalidArgumentError, OutOfMemoryError
from forebay.queues.memory.shapes import element_code, read_dtype, read_int, read_shape

if TYPE_CHECKING:
    from typing import Any, SupportsIndex

    from numpy.typing import DTypeLike
    from typing_extensions import Never

    from forebay.queues.device import Device

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
    pool.heap = new_heap()
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
        clock = retain_clock(state.clock)
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
        return queue.device.listed.load(memory_order_acquire) == NULL
    if not queue.blocking or is_empty(queue.device.null_queue.epochs):
        return True
    return queue.null_seen.load(memory_order_relaxed) == submitted_epoch(queue.device.null_queue.epochs)


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
