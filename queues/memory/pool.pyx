"""Stream-ordered memory: `Queue.alloc` and `Queue.free`.

Memory is allocated and freed in the order of queues, not of the host. Memory freed on a queue is reused there at once,
even if the device has not reached that point, because its next user runs later. Another queue may reuse it when ordered
after that point, or when that point is known to be reached. A wait is inserted only when the pool must not grow any
more, because it would tie unrelated queues together.
"""

import math
from typing import TYPE_CHECKING

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libcpp.vector cimport vector

from forebay.core.driver cimport ELEMENT_AT, Status
from forebay.core.ownership cimport Guard, Ref
from forebay.core.process cimport check_memory, is_forked
from forebay.core.state cimport STILL_ALLOWED, DeviceState, QueueState
from forebay.core.usage cimport note_use
from forebay.core.vector_clock cimport Clock, ClockEntry, Epochs, is_empty, submitted_epoch
from forebay.lifetimes.deferred cimport reach_point, retire_after
from forebay.queues.memory.allocation cimport Allocation, OwnedMemory, memory_if_open, new_allocation, own_memory
from forebay.queues.memory.buffer cimport Buffer, new_buffer
from forebay.races.checker cimport announce_use, is_checked, is_observed, made, settle
from forebay.sync.ordering cimport (
    carry_pending, check_status, owes_null_wait, submit_waits, wait_for_creation, wait_for_point
)

from forebay.core.errors import ArgumentTypeError, ClosedError, InvalidArgumentError, OutOfMemoryError
from forebay.queues.memory.shapes import element_code, read_dtype, read_int, read_shape

if TYPE_CHECKING:
    from typing import Any, SupportsIndex
    from typing_extensions import Never
    from numpy.typing import DTypeLike
    from forebay.queues.device import Device

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow) except? -1

cdef enum:
    MANY_KINDS = 256

cdef uint64_t MOST = <uint64_t> -1


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
    """The base of memory from no pool that `Queue.free` takes back. ``check_live()`` raises when there is nothing to
    free; ``free(queue, epoch)`` frees it at this epoch of the queue with this id.
    """

    usm_type = "device"


@cython.no_gc  # it is in no cycle: the pool refers to no Python object that could refer to it
@cython.freelist(64)
cdef class Lease:
    """A block of a pool, as the driver's memory of an allocation. When the lease ends, the pool gets the block back. It
    ends with a free; or when its last Buffer is dropped or closed, and its uses are done.
    """

    usm_type = "device"  # as `DriverMemory.usm_type`

    cdef int free_on(self, QueueState* state) except -1:
        """Free the block after everything submitted to this queue until the lease ends."""
        self.block.free_on(state.epochs, state.is_null, state.blocking)
        self.freed = True
        return 0

    def __dealloc__(self):
        if self.block != NULL and not is_forked():
            self.pool.heap.give_back(self.block, self.freed)


# -- the elements of a Buffer


@cython.no_gc
cdef class Kind:
    """What a Buffer needs of its dtype."""
    cdef object dtype
    cdef size_t itemsize
    cdef uint64_t code  # as in Memory.kind


cdef dict _kinds = {}  # by what was given as dtype


cdef Kind kind_of(object dtype):
    cdef Kind kind = <Kind> _kinds.get(dtype) if type(dtype) is str else None
    if kind is not None:
        return kind
    kind = Kind.__new__(Kind)
    kind.dtype = read_dtype(dtype)
    kind.itemsize = kind.dtype.itemsize
    kind.code = <uint64_t> element_code(kind.dtype) << ELEMENT_AT
    if type(dtype) is str and len(_kinds) < MANY_KINDS:  # an entry stays: `get` of Cython borrows it for a moment
        return <Kind> _kinds.setdefault(dtype, kind)
    return kind


# -- pools


cdef MemoryPool new_pool(DeviceState* state, object driver, object limit):
    cdef MemoryPool pool = MemoryPool.__new__(MemoryPool)
    pool.kept_state = Ref[DeviceState].share(state)
    pool.state = state
    pool.heap = new Heap(driver.has_addresses)
    pool.part_of = driver.part_of
    pool.threshold = 0
    pool.limit = limit
    pool.reuse_follow_event_dependencies = True
    pool.reuse_allow_opportunistic = True
    pool.reuse_allow_internal_dependencies = True
    return pool


@cython.no_gc_clear
cdef class MemoryPool:
    """The memory of a device that `Queue.alloc` allocates and `Queue.free` frees (HIP, stream-ordered allocator).

    The Device makes it, as its `pool`; calling the class raises. Any thread may use it. The three settings are
    HIP's attributes of these names, and on at first.

    Attributes
    ----------
    reuse_follow_event_dependencies : bool
        Whether a queue may reuse memory freed on another queue if it is already ordered after the free, by events or by
        the rules of the null queue.
    reuse_allow_opportunistic : bool
        Whether a queue may reuse memory freed on another queue if the free is known to be done.
    reuse_allow_internal_dependencies : bool
        Whether a queue may be made to wait for another queue to reuse memory freed there. That happens only when the
        driver has no more memory or the pool has reached `growth_limit`.
    """

    def __init__(self, *args: Never, **kwargs: Never) -> None:
        raise ArgumentTypeError("a MemoryPool is made with its Device: Device.pool")

    def __dealloc__(self):
        if self.state == NULL or is_forked():  # after a fork it is the parent's
            return
        self.give_up(0, False)
        del self.heap

    # -- properties

    @property
    def release_threshold(self) -> int:
        """Bytes to keep when a queue, an event or the device is synchronized; 0 at first (HIP).

        A synchronize frees unused memory beyond this. A program that synchronizes often and allocates again can set it
        to the bytes it needs; the driver then allocates no more.
        """
        return self.threshold

    @release_threshold.setter
    def release_threshold(self, nbytes: SupportsIndex) -> None:
        self.threshold = min(read_bytes(nbytes, "release_threshold"), MOST)

    @property
    def growth_limit(self) -> int:
        """Bytes that may be reserved before a queue is made to wait for memory freed on another one.

        At first half of the device's memory. At the limit, slabs without used blocks that are done are freed first. No
        allocation fails because of it: if nothing was freed, the pool grows beyond it.
        """
        return self.limit

    @growth_limit.setter
    def growth_limit(self, nbytes: SupportsIndex) -> None:
        self.limit = min(read_bytes(nbytes, "growth_limit"), MOST)

    @property
    def reserved(self) -> int:
        """Bytes allocated from the driver and not freed."""
        return self.heap.reserved

    @property
    def used(self) -> int:
        """Bytes of the blocks handed out and not freed."""
        return self.heap.used

    @property
    def reserved_high(self) -> int:
        """The peak of `reserved`. Set it to 0 to reset it."""
        return self.heap.reserved_peak

    @reserved_high.setter
    def reserved_high(self, nbytes: SupportsIndex) -> None:
        cdef Guard guard
        check_reset(nbytes, "reserved_high")
        guard.take(self.heap.lock)
        self.heap.reserved_peak = self.heap.reserved

    @property
    def used_high(self) -> int:
        """The peak of `used`. Set it to 0 to reset it."""
        return self.heap.used_peak

    @used_high.setter
    def used_high(self, nbytes: SupportsIndex) -> None:
        cdef Guard guard
        check_reset(nbytes, "used_high")
        guard.take(self.heap.lock)
        self.heap.used_peak = self.heap.used

    def trim(self, keep: SupportsIndex = 0) -> None:
        """Free unused memory until at most `keep` bytes are reserved.

        Does not block, nor ask the driver which frees are done: synchronize first to find out.
        """
        self.give_up(min(read_bytes(keep, "trim: keep"), MOST), True)

    cdef int trim_after_wait(self) except -1:
        if self.heap.reserved > self.threshold:
            self.give_up(self.threshold, True)
        return 0

    cdef bint give_up(self, uint64_t keep, bint only_done) except? -1:
        """Free slabs without used blocks until at most `keep` bytes are reserved. Returns whether there were any.

        Those known to be done are freed at once; the others, without `only_done`, when they are.
        """
        cdef vector[ClockEntry] points
        cdef PyObject* native
        cdef OwnedMemory memory
        cdef bint any_given = False
        while self.heap.reserved > keep:
            with nogil:
                native = self.heap.take_slab(only_done, points)
            if native == NULL:
                break
            memory = <OwnedMemory> native
            Py_DECREF(memory)
            for point in points:
                note_use(memory.usage, point.queue, point.epoch, False)
            memory = None  # freed after these uses
            any_given = True
        release_gone(self)
        return any_given

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
        if is_observed(state):
            if is_checked(state):
                buffer.allocation.made_at = made(state.device, buffer.allocation.usage, buffer.nbytes)
            settle(announce_use(queue, buffer.allocation.usage, 0, buffer.nbytes, True, "alloc"))
        return buffer

    cdef Lease lease(self, object device, object queue, QueueState* state, size_t nbytes):
        """Hand out `nbytes` for later commands on this queue; with `state` NULL for those on any queue.

        The block returns as it was with the last reference. Drop that only when its uses are done, or call `free_on`.
        """
        cdef Lease lease = Lease.__new__(Lease)
        cdef size_t size = size_class(nbytes)
        cdef Block* block = NULL
        if state != NULL:
            block = self.heap.take_own(state.epochs, size)
        if block == NULL:
            check_memory()
            block = find(self, state, size)
            if block == NULL:
                block = grow(self, device, queue, state, nbytes)
            release_gone(self)
        lease.pool = self
        lease.block = block
        lease.freed = False
        lease.handle = block.handle if block.handle or not block.slab.handle else handle_of(self, block)
        lease.address = block.slab.address + block.offset if block.slab.address else 0
        lease.nbytes = nbytes
        return lease

    def _buffer_on(self, device: Device, memory: Any, tuple shape, dtype: DTypeLike) -> Buffer:
        if not isinstance(memory, OwnedMemory):
            memory = own_memory(self.state, memory, False)
        return new_buffer(new_allocation(device, memory), 0, shape, dtype)


cdef uintptr_t handle_of(MemoryPool pool, Block* block) except? 0:
    """Return the driver's object for a block, if its slab has one; 0 for its address alone.

    A block gets one when it is handed out again: it makes setting an argument faster, but costs more than that saves.
    """
    if block.nbytes == block.slab.nbytes:
        return block.slab.handle
    if block.seen and pool.part_of is not None:
        part, handle = pool.part_of((<OwnedMemory> block.slab.native).native, block.offset, block.nbytes)
        Py_INCREF(part)
        block.part = <PyObject*> part
        block.handle = handle
    return block.handle


# -- the steps of an allocation: see `Heap`


cdef Block* find(MemoryPool pool, QueueState* state, size_t nbytes) except? NULL:
    """Take out a block that the queue may have without a wait; NULL if there is none."""
    cdef vector[ClockEntry] points
    cdef Taker taker
    cdef Block* block
    cdef Guard guard
    taker.opportunistic = pool.reuse_allow_opportunistic
    with nogil:
        if state != NULL:
            taker.queue = <Epochs*> state.epochs
            taker.is_null, taker.blocking, taker.adopted = state.is_null, state.blocking, state.adopted
            taker.follows = pool.reuse_follow_event_dependencies
            guard.take(state.lock)
            taker.clock = <Clock*> state.order.clock
            guard.leave()
        block = pool.heap.find(taker, nbytes, &points)
        if not points.empty():
            for point in points:
                reach_point(pool.state, point.queue, point.epoch)
            block = pool.heap.find(taker, nbytes, NULL)
    return block


cdef Block* grow(MemoryPool pool, object device, object queue, QueueState* state, size_t nbytes) except NULL:
    """Get a block from a new slab. At the limit, free idle slabs first, and prefer waiting for a free.

    If the driver has no memory for a slab, it gets as large as the block, and in the end just large enough.
    """
    cdef Heap* heap = pool.heap
    cdef Block* block
    cdef vector[ClockEntry] points
    cdef size_t least = size_class(nbytes)
    cdef size_t size = heap.slab_size(least)
    if heap.reserved + size > pool.limit:
        size = least
    if heap.reserved + size > pool.limit:
        with nogil:
            heap.points_of_idle(points)
            for point in points:
                reach_point(pool.state, point.queue, point.epoch)
        block = find(pool, state, least)  # what was found done above, before new memory
        if block != NULL:
            return block
        pool.give_up(pool.limit - size if pool.limit > size else 0, True)
        if heap.reserved + size > pool.limit:
            block = wait_for_free(pool, queue, state, least)
            if block != NULL:
                return block
    while True:
        try:
            memory = device._allocate(size, "device")
            break
        except OutOfMemoryError:
            if size == least:
                least = (max(nbytes, <size_t> 1) + GRAIN - 1) // GRAIN * GRAIN
            if size > least:
                size = least
                continue
            block = find(pool, state, least)
            if block == NULL:
                block = wait_for_free(pool, queue, state, least)
            if block == NULL:
                raise
            return block
    Py_INCREF(memory)
    return heap.add_slab(<PyObject*> memory, memory.native.handle, memory.native.address, size, least)


cdef Block* wait_for_free(MemoryPool pool, object queue, QueueState* state, size_t nbytes) except? NULL:
    """Take out a block freed on another queue, and order the queue after that free but nothing later. Returns NULL if
    there is none, or the settings forbid it.
    """
    cdef Block* block
    cdef Status status = 0
    cdef Guard guard
    if not pool.reuse_allow_internal_dependencies or state == NULL:
        return NULL
    with nogil:
        block = pool.heap.take_any(nbytes)
        if block != NULL:
            status = wait_for_point(state, block.freed.queue.queue_id, block.freed.epoch)
            if status == 0 and state.adopted:  # its next command may carry no wait
                guard.take(state.lock)
                status = carry_pending(state)
                guard.leave()
            if status != 0:
                pool.heap.give_back(block, False)
    check_status(queue, status, "alloc")
    return block


cdef int release_gone(MemoryPool pool) except -1:
    """Release the driver's objects of blocks that no longer exist."""
    cdef vector[Gone] gone
    cdef Guard guard
    guard.take(pool.heap.lock)
    gone.swap(pool.heap.gone)
    guard.leave()
    for each in gone:
        part = <object> each.thing
        Py_DECREF(part)
        retire_after(pool.state, part, each.point.queue, each.point.epoch)
        part = None
    return 0


# -- free


cdef bint owes_nothing(QueueState* queue) noexcept:
    """Return whether a free on the queue has no wait to gather. May return False although it has none."""
    cdef Guard guard
    if not guard.try_take(queue.lock):
        return False
    if queue.slow_path & ~<uint32_t> STILL_ALLOWED != 0 or queue.adopted:
        return False
    return not owes_null_wait(queue) or not queue.is_null and is_empty(queue.device.null_queue.epochs)


cdef int free(object queue, QueueState* state, object buf) except -1:
    cdef Allocation allocation
    cdef OwnedMemory memory
    cdef Status status = 0
    if type(buf) is not Buffer:
        raise ArgumentTypeError(f"free() needs a Buffer, not {type(buf).__name__}")
    allocation = (<Buffer> buf).allocation
    memory = memory_if_open(allocation)
    if memory is None:
        raise buf._closed_error("free: this Buffer was freed or closed before, and")
    native = memory.native
    if type(native) is not Lease and not isinstance(native, Unpooled):
        raise InvalidArgumentError("free: this Buffer is not from Queue.alloc; its close() gives the memory back")
    if allocation.state != state.device:
        raise InvalidArgumentError(f"free: this Buffer belongs to {buf.device.name}, {queue!r} does not")
    # the free comes after all that the queue comes after
    announced = announce_use(queue, allocation.usage, 0, native.nbytes, True, "free") if is_observed(state) else None
    if allocation.usage.creation.queue != NULL:
        with nogil:
            status = wait_for_creation(state, allocation.usage)
    if status == 0 and type(native) is not Lease:
        native.check_live()
    if status == 0 and not owes_nothing(state):  # a free is ordered like a command, by the rules of the null queue
        with nogil:
            status = submit_waits(state)
    check_status(queue, status, "free")
    if type(native) is not Lease:
        native.free(state.epochs.queue_id, submitted_epoch(state.epochs))
    else:
        if not allocation.close():
            raise ClosedError("free: another thread has freed or closed this Buffer meanwhile")
        (<Lease> native).free_on(state)  # the block returns at once, or after another thread's call that uses it
        memory.freed = True
    return settle(announced)
