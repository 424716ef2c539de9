"""Stream-ordered memory: `Queue.alloc` and `Queue.free`.

Memory is handed out and taken back in the order of queues, not of the host. Memory freed on a queue is reused there at
once, even if the device has not reached that point, because its next user runs later. Another queue may have it when
it is ordered after that point, or when that point is known to be reached. A wait for it is inserted only when the pool
must not grow any more: it would tie two queues together that have nothing to do with each other.
"""

import bisect
import math
import operator
import threading
from collections import deque
from typing import TYPE_CHECKING

from libc.stdint cimport uint64_t
from libcpp.atomic cimport memory_order_relaxed

from forebay.core.clock cimport Clock, clock_epoch, release_clock, retain_clock
from forebay.core.driver cimport Status
from forebay.core.epochs cimport (
    Epochs, advance_submitted, completed_epoch, release_epochs, retain_epochs, submitted_epoch
)
from forebay.core.state cimport DeviceState, QueueState, release_device_state
from forebay.events.anchors cimport reach_point, retire_after
from forebay.queues.memory.allocation cimport Allocation, OwnedMemory, new_allocation, own_memory
from forebay.queues.memory.buffer cimport Buffer, new_buffer
from forebay.sync.ordering cimport Order, begin_command, carry_pending, submit_waits, wait_for_point

from forebay.core.errors import ArgumentTypeError, ClosedError, InvalidArgumentError, OutOfMemoryError
from forebay.queues.memory.shapes import read_dtype, read_shape

if TYPE_CHECKING:
    from typing import Any, SupportsIndex

    from numpy.typing import DTypeLike
    from typing_extensions import Never

    from forebay.queues.device import Device

SMALLEST = 512
LARGEST_STEP = 2 << 20  # bytes


def size_class(nbytes: int) -> int:
    """Return the block size for a number of bytes. Each doubling has four sizes, so at most a fifth of a block is idle.
    """
    if nbytes <= SMALLEST:
        return SMALLEST
    step = min(1 << ((nbytes - 1).bit_length() - 3), LARGEST_STEP)
    return -(-nbytes // step) * step


cdef class Block:
    """One allocation from the driver."""

    def __dealloc__(self):
        if self.freed_on != NULL:
            release_epochs(self.freed_on)


cdef void forget_free(Block block):
    if block.freed_on != NULL:
        release_epochs(block.freed_on)
        block.freed_on = NULL


cdef bint is_done(Block block):
    return block.freed_on == NULL or completed_epoch(block.freed_on) >= block.freed_at


def read_bytes(nbytes: SupportsIndex, what: str) -> int:
    """Return a checked number of bytes. Raises ArgumentTypeError or InvalidArgumentError."""
    try:
        nbytes = operator.index(nbytes)
    except TypeError:
        raise ArgumentTypeError(f"{what} is a number of bytes, not {type(nbytes).__name__}") from None
    if nbytes < 0:
        raise InvalidArgumentError(f"{what} is a number of bytes, not {nbytes}")
    return nbytes


def check_reset(nbytes: SupportsIndex, what: str) -> None:
    """Check a new value of a peak, which can be set to 0 only (HIP, hipMemPoolSetAttribute)."""
    if read_bytes(nbytes, what):
        raise InvalidArgumentError(f"{what} can be set to 0 only, which begins it anew; not to {nbytes}")


class Lease:
    """Stands for the driver's memory object in a Buffer of a pool. When it ends, the pool gets the block back.

    It ends with a free; or when its last Buffer is gone or was closed, and the device is done with its uses.
    """

    usm_type = "device"

    def __init__(self, pool: MemoryPool, block: Block, handle: int, address: int, nbytes: int) -> None:
        self.pool = pool
        self.block = block
        self.handle = handle
        self.address = address
        self.nbytes = nbytes

    def check_live(self) -> None:
        """Raise when there is nothing to free. Only graph memory, a derived class, can have nothing."""

    def __del__(self) -> None:
        # The collector may run this while this same thread is inside the pool, so it only appends to a deque.
        self.pool._give_back(self.block)


cdef MemoryPool new_pool(DeviceState* state, object limit):
    cdef MemoryPool pool = MemoryPool.__new__(MemoryPool)
    state.references.fetch_add(1, memory_order_relaxed)
    pool.state = state
    pool.lock = threading.RLock()  # reentrant: the collector may run a `free` while this thread holds it
    pool.returned = deque()
    pool.idle = {}
    pool.sizes = []
    pool.threshold = pool.reserved = pool.used_now = pool.reserved_peak = pool.used_peak = 0
    pool.limit = limit
    pool.reuse_follow_event_dependencies = True
    pool.reuse_allow_opportunistic = True
    pool.reuse_allow_internal_dependencies = True
    return pool


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
    reserved : int
        Bytes that were allocated from the driver and not given back.

    Notes
    -----
    The three settings are on at first, like HIP's attributes of these names.
    """

    reserved: int

    def __init__(self, *args: Never, **kwargs: Never) -> None:
        raise ArgumentTypeError("a MemoryPool is made with its Device: Device.pool")

    def __dealloc__(self):
        if self.state != NULL:
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
        self.threshold = read_bytes(nbytes, "release_threshold")

    @property
    def growth_limit(self) -> int:
        """Bytes that may be reserved before a queue is made to wait for memory that was freed on another one. At first
        half of the device's memory. It never makes an allocation fail: beyond it, the pool grows if nothing was freed.
        """
        return self.limit

    @growth_limit.setter
    def growth_limit(self, nbytes: SupportsIndex) -> None:
        self.limit = read_bytes(nbytes, "growth_limit")

    @property
    def used(self) -> int:
        """Bytes of the blocks that were handed out and not freed."""
        with self.lock:
            self.settle()
            return self.used_now

    @property
    def reserved_high(self) -> int:
        """The peak of `reserved`. Set it to 0 to reset it."""
        return self.reserved_peak

    @reserved_high.setter
    def reserved_high(self, nbytes: SupportsIndex) -> None:
        check_reset(nbytes, "reserved_high")
        with self.lock:
            self.reserved_peak = self.reserved

    @property
    def used_high(self) -> int:
        """The peak of `used`. Set it to 0 to reset it."""
        return self.used_peak

    @used_high.setter
    def used_high(self, nbytes: SupportsIndex) -> None:
        check_reset(nbytes, "used_high")
        with self.lock:
            self.settle()
            self.used_peak = self.used_now

    def trim(self, keep: SupportsIndex = 0) -> None:
        """Give memory that nothing can use any more back to the driver, until at most `keep` bytes are reserved.

        Does not block and does not ask the driver which frees are done: synchronize first to find out.
        """
        keep = read_bytes(keep, "trim: keep")
        with self.lock:
            self.settle()
            for size in reversed(self.sizes):
                for blocks in self.idle[size].values():
                    while blocks and self.reserved > keep and is_done(blocks[0]):
                        self.release(blocks.popleft())

    def _synchronized(self) -> None:
        """Trim to the threshold after the host has waited for something."""
        if self.reserved > self.threshold:
            self.trim(self.threshold)

    def _give_up_idle(self) -> bool:
        """Give idle memory back once the device is done with it, because the driver has none left.

        Returns whether there was any.
        """
        with self.lock:
            self.settle()
            before = self.reserved
            for by_queue in self.idle.values():
                for blocks in by_queue.values():
                    while blocks:
                        self.release(blocks.popleft())
            return self.reserved < before

    # -- alloc and free

    cdef object alloc(self, object queue, QueueState* state, object shape, object dtype):
        cdef Block block
        shape = read_shape(shape)
        dtype = read_dtype(dtype)
        nbytes = math.prod(shape) * dtype.itemsize
        block = self.find(state, nbytes)
        if block is None and self.reserved + size_class(nbytes) > self.limit:
            block = self.wait_for_free(queue, state, nbytes)
        if block is None:
            try:
                block = self.grow(queue, nbytes)
            except OutOfMemoryError:
                block = self.find(state, nbytes) or self.wait_for_free(queue, state, nbytes)
                if block is None:
                    raise
        with self.lock:
            block.freed = False  # where it was freed before is kept: who never uses it gives it back as it was
            self.used_now += block.nbytes
            self.used_peak = max(self.used_peak, self.used_now)
        native = (<OwnedMemory> block.native).native
        lease = Lease(self, block, native.handle, native.address, nbytes)
        return new_buffer(new_allocation(queue.device, own_memory(self.state, lease, False)), 0, shape, dtype)

    def _buffer_on(self, device: Device, memory: Any, tuple shape, dtype: DTypeLike) -> Buffer:
        """Make a Buffer on memory of a graph."""
        if not isinstance(memory, OwnedMemory):
            memory = own_memory(self.state, memory, False)
        return new_buffer(new_allocation(device, memory), 0, shape, dtype)

    def _give_back(self, Block block) -> None:
        """Take back a block that was freed, or that nothing can use any more. Called from a destructor."""
        if block.freed:
            block.freed_at = submitted_epoch(block.freed_on)
        self.returned.append(block)

    cdef settle(self):
        """Put blocks that were given back among the idle ones. The pool is locked."""
        cdef Block block
        while self.returned:
            block = self.returned.popleft()
            self.used_now -= block.nbytes
            self.put_back(block)

    cdef put_back(self, Block block):
        """Put a block among the idle ones. The pool is locked."""
        by_queue = self.idle.get(block.nbytes)
        if by_queue is None:
            by_queue = self.idle[block.nbytes] = {}
            bisect.insort(self.sizes, block.nbytes)
        queue_id = 0 if block.freed_on == NULL else block.freed_on.queue_id
        blocks = by_queue.get(queue_id)
        if blocks is None:
            blocks = by_queue[queue_id] = deque()
        blocks.append(block)

    cdef release(self, Block block):
        """Give a block to the driver as soon as the device is done with it. The pool is locked."""
        self.reserved -= block.nbytes
        retire_after(self.state, block.native, block.freed_on, block.freed_at)
        block.native = None

    cdef Block grow(self, object queue, object nbytes):
        """Allocate a block from the driver. If there is no room for its size class, it gets exactly the needed size."""
        cdef Block block = Block.__new__(Block)
        size = size_class(nbytes)
        try:
            block.native = queue.device._allocate(size, "device")
        except OutOfMemoryError:
            size = max(nbytes, 1)
            block.native = queue.device._allocate(size, "device")
        block.nbytes = size
        with self.lock:
            self.reserved += size
            self.reserved_peak = max(self.reserved_peak, self.reserved)
        return block

    cdef list fitting(self, object nbytes):
        """Return the blocks of fitting sizes: for each size and queue, those freed there. The pool is locked."""
        self.settle()
        size = size_class(nbytes)
        sizes = self.sizes[bisect.bisect_left(self.sizes, nbytes):bisect.bisect_right(self.sizes, size + size // 8)]
        return [self.idle[size] for size in sizes]

    cdef Block find(self, QueueState* state, object nbytes):
        """Take out a block that the queue may have without a wait. None when there is none."""
        cdef Clock* clock
        cdef Block block
        with nogil:
            state.lock.lock()
            clock = retain_clock(state.clock)
            state.lock.unlock()
        try:
            with self.lock:
                found = self.fitting(nbytes)
                for by_queue in found:
                    for queue_id in (state.epochs.queue_id, 0):
                        blocks = by_queue.get(queue_id)
                        if blocks:
                            return blocks.pop()
                for by_queue in found:
                    for queue_id, blocks in list(by_queue.items()):
                        if not blocks:
                            del by_queue[queue_id]
                        elif may_have(self, state, clock, blocks[0]):  # what was freed there first is done first
                            return blocks.popleft()
                if self.reuse_allow_opportunistic:
                    for by_queue in found:
                        for blocks in by_queue.values():
                            block = blocks[0]
                            with nogil:
                                reach_point(self.state, block.freed_on, block.freed_at)
                            if is_done(block):
                                return blocks.popleft()
                return None
        finally:
            with nogil:
                release_clock(clock)

    cdef Block wait_for_free(self, object queue, QueueState* state, object nbytes):
        """Take out a block that was freed on another queue, and order the queue after that. None when there is none, or
        when the settings forbid it.
        """
        cdef Block block = None
        cdef Status status
        if not self.reuse_allow_internal_dependencies:
            return None
        with self.lock:
            for by_queue in self.fitting(nbytes):
                for blocks in by_queue.values():
                    if blocks and block is None:
                        block = blocks.popleft()
        if block is None:
            return None
        with nogil:
            status = order_after(state, block.freed_on, block.freed_at)
        if status == 0:
            return block
        with self.lock:
            self.put_back(block)
        queue._raise(status, "alloc")


cdef bint may_have(MemoryPool pool, QueueState* queue, const Clock* clock, Block block):
    """Return whether the queue, with this clock, is ordered after the free, or the free is known to be done."""
    cdef Epochs* freed_on = block.freed_on
    if freed_on == NULL or freed_on == queue.epochs:
        return True
    if pool.reuse_allow_opportunistic and is_done(block):
        return True
    if not pool.reuse_follow_event_dependencies or queue.adopted:
        return False  # an adopted queue gets commands that carry no waits of forebay
    if clock_epoch(clock, freed_on) >= block.freed_at:
        return True
    # the null-queue rules order the memory's next use after the free
    return queue.is_null and block.freed_on_blocking or queue.blocking and block.freed_on_null


cdef Status order_after(QueueState* queue, Epochs* freed_on, uint64_t freed_at) noexcept nogil:
    """Make the queue wait for the free, and for nothing later that can be held up."""
    cdef Status status = wait_for_point(queue, freed_on.queue_id, freed_at)
    if status == 0 and queue.adopted:  # the next command there may carry no wait
        queue.lock.lock()
        status = carry_pending(queue)
        queue.lock.unlock()
    return status


cdef int submit_free(object queue, QueueState* state) except -1:
    """Order a free like a command, by the rules of the null queue."""
    cdef Order order
    cdef Status status
    with nogil:
        status = begin_command(state, &order)
        if status == 0:
            if state.adopted:
                advance_submitted(state.epochs)  # for the commands that it got from outside forebay
            status = submit_waits(state, &order)
    if status != 0:
        queue._raise(status, "free")
    return 0


cdef int free(object queue, QueueState* state, object buf) except -1:
    cdef Allocation allocation
    if not isinstance(buf, Buffer):
        raise ArgumentTypeError(f"free() needs a Buffer, not {type(buf).__name__}")
    allocation = (<Buffer> buf).allocation
    if allocation.closed:
        raise ClosedError("free: this Buffer was freed or closed before")
    lease = allocation.memory.native
    if not isinstance(lease, Lease):
        raise InvalidArgumentError("free: this Buffer is not from Queue.alloc; its close() gives the memory back")
    if allocation.state != state.device:
        raise InvalidArgumentError(f"free: this Buffer belongs to {buf.device.name}, {queue!r} does not")
    lease.check_live()
    submit_free(queue, state)
    if type(lease) is Lease:
        take_back(allocation, lease, state)
    else:
        lease.free(state.epochs.queue_id, submitted_epoch(state.epochs))
    return 0


cdef int take_back(Allocation allocation, object lease, QueueState* state) except -1:
    """Close the allocation. The block goes back to its pool at once, or when a call that uses it now has submitted."""
    cdef Block block = lease.block
    if allocation.closed:
        raise ClosedError("free: another thread has freed or closed this Buffer meanwhile")
    forget_free(block)
    block.freed = True
    block.freed_on = retain_epochs(state.epochs)
    block.freed_on_null = state.is_null
    block.freed_on_blocking = state.blocking
    allocation.memory.freed = True
    allocation.close()
    return 0
