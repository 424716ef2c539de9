"""Shows what forebay remembers of queues and allocations, and how much of it: no public name tells."""

from libc.stdint cimport uint64_t, uintptr_t
from libcpp.atomic cimport atomic, memory_order_acquire
from libcpp.memory cimport shared_ptr
from libcpp.vector cimport vector
from posix.unistd cimport usleep

from forebay.core.ownership cimport Lock, Ref
from forebay.core.vector_clock cimport (
    Clock, ClockEntry, Epochs, completed_epoch, is_empty
)
from forebay.core.state cimport UNLIMITED, states, states_lock
from forebay.queues.device cimport Context
from forebay.queues.memory.allocation cimport hold_memory
from forebay.queues.memory.buffer cimport Buffer
from forebay.queues.memory.pool cimport Lease, size_class as size_class_of
from forebay.queues.queue cimport Queue

from contextlib import contextmanager


cdef extern from "core/vector_clock.hpp" namespace "forebay" nogil:
    cdef cppclass Chunk:
        vector[ClockEntry] entries

    cdef cppclass Chunks:
        vector[shared_ptr[Chunk]] each

    cdef cppclass ClockOfChunks "forebay::Clock":
        shared_ptr[Chunks] chunks


cdef class KeptClock:
    """The clock that a queue has now, or None; kept, so that addresses of its chunks are not used again.

    `chunks` are the addresses of its chunks, each with the number of its entries.
    """

    cdef Ref[Clock] clock
    cdef readonly dict chunks

    def __cinit__(self, Queue queue not None):
        cdef Chunks* chunks = NULL
        with nogil:
            queue.state.lock.lock()
            self.clock = Ref[Clock].share(queue.state.order.clock)
            queue.state.lock.unlock()
        self.chunks = {}
        if self.clock.get() != NULL:
            chunks = (<ClockOfChunks*> self.clock.get()).chunks.get()
        if chunks != NULL:
            for chunk in chunks.each:
                self.chunks[<uintptr_t> chunk.get()] = chunk.get().entries.size()


def uses_of(Buffer buffer not None):
    """How many uses of the allocation are remembered: points of the past, and plans that have it as an argument."""
    cdef size_t past, holders
    with nogil:
        buffer.allocation.usage.lock.lock()
        past = buffer.allocation.usage.past.size()
        holders = buffer.allocation.usage.pins.size()
        buffer.allocation.usage.lock.unlock()
    return past, holders


def size_class(size_t nbytes):
    """Bytes of a block of the pool for an allocation."""
    return size_class_of(nbytes)


def block_size(Buffer buffer not None):
    """Bytes of the block of the pool that the buffer lies in."""
    cdef Lease lease = hold_memory(buffer.allocation).native
    return lease.block.nbytes


def reductions_of(Buffer buffer not None):
    """How many reductions of parts of the allocation are remembered."""
    return len(buffer.allocation.reductions or ())


def devices_of(Queue queue not None):
    """How many Devices the queue's context keeps counters of."""
    cdef size_t found
    with nogil:
        queue.state.device.registry.lock.lock()
        found = queue.state.device.registry.counts_of_ended.size()
        queue.state.device.registry.lock.unlock()
    return found


def not_empty_after(Queue first not None, uint64_t epoch, list others not None):
    """Block until `first` is known to have reached the epoch, and return how many of the others are not known to be
    empty at that moment. Looks without the GIL and without a pause, at the last of the others first.
    """
    cdef vector[Epochs*] looked_at
    cdef Queue queue
    cdef size_t i, found = 0
    for queue in others:
        looked_at.push_back(queue.state.epochs)
    with nogil:
        while completed_epoch(first.state.epochs) < epoch:
            pass
        for i in range(looked_at.size()):
            found += not is_empty(looked_at[looked_at.size() - 1 - i])
    return found


def sharers_of(Context context not None):
    """How many open Devices share the context."""
    return context.open_devices


def is_listed(Queue queue not None):
    """Whether the queue is in the list of its device's null queue; waits for whoever has the queue's lock."""
    cdef bint listed
    with nogil:
        queue.state.lock.lock()
        listed = queue.state.order.null_pending
        queue.state.lock.unlock()
    return listed


def nothing_is_listed(Queue queue not None):
    """Whether the null queue's list is empty; takes no lock."""
    return queue.state.device.null_order.pending.load(memory_order_acquire) == NULL


def is_wanted(Queue queue not None):
    """Whether a thread waits for the queue's lock."""
    return queue.state.lock.is_wanted()


def room_of(Queue queue not None):
    """How many commands in flight the queue surely takes: beside many others on CUDA few, and some that are lent."""
    return queue.state.in_flight.room


@contextmanager
def locked(Queue queue not None):
    """Keep the queue's lock until the block ends, which must not use the queue."""
    with nogil:
        queue.state.lock.lock()
    try:
        yield
    finally:
        queue.state.lock.unlock()


cdef class Turns:
    """A lock that one thread takes again and again, and how often it had it when another thread got it."""

    cdef Lock lock
    cdef atomic[int] taken

    def take(self, int most):
        """Lock `most` times for a millisecond each, without a pause between."""
        cdef int _turn
        with nogil:
            for _turn in range(most):
                self.lock.lock()
                self.taken.fetch_add(1)
                usleep(1000)
                self.lock.unlock()

    def ask(self):
        """Lock once; how many turns the other thread had before that and until then."""
        cdef int before, after
        with nogil:
            while self.taken.load() == 0:
                usleep(100)
            before = self.taken.load()
            self.lock.lock()
            after = self.taken.load()
            self.lock.unlock()
        return before, after


def in_flight_is_limited():
    """Return whether back-pressure of host waits limits what queues may have in flight, on any device."""
    cdef bint limited = False
    states_lock.lock()
    for device in states:
        limited = limited or device.in_flight.limit.load() != UNLIMITED
    states_lock.unlock()
    return limited
