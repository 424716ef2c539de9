"""Clocks of queues that there are not: what the operations of core/vector_clock make of them."""

from libcpp.vector cimport vector

from forebay.core.vector_clock cimport (
    Clock, ClockEntry, ClockRef, EpochsRef, clock_epoch, clock_is_done, completed_epoch, covers, list_entries,
    merge_clock, new_epochs, note_reached, raise_clock
)


cdef class Clocks:
    """So many queues and clocks, by their numbers. Every clock is empty at first."""

    cdef vector[EpochsRef] queues
    cdef vector[ClockRef] clocks

    def __cinit__(self, size_t queues, size_t clocks):
        cdef size_t i
        for i in range(queues):
            self.queues.push_back(new_epochs(i + 1))
        self.clocks.resize(clocks)

    def put(self, clock, queue, epoch):
        raise_clock(self.clocks[clock], self.queues[queue], epoch)

    def share(self, clock, other):
        """Let one clock be the other one."""
        self.clocks[clock] = self.clocks[other]

    def merge(self, clock, other):
        merge_clock(self.clocks[clock], self.clocks[other])

    def reach(self, queue, epoch, clock=None):
        cdef Clock* named = NULL
        if clock is not None:
            named = self.clocks[clock]
        note_reached(self.queues[queue], epoch, named)

    def completed(self, queue):
        return completed_epoch(self.queues[queue])

    def epoch(self, clock, queue):
        return clock_epoch(self.clocks[clock], self.queues[queue])

    def covers(self, clock, other):
        return covers(self.clocks[clock], self.clocks[other])

    def done(self, clock):
        return clock_is_done(self.clocks[clock])

    def empty(self, clock):
        return self.clocks[clock] == NULL

    def listed(self, clock):
        """The entries, in chunks and recent ones, by queue; the highest of each."""
        cdef vector[ClockEntry] entries
        cdef dict listed = {}
        list_entries(self.clocks[clock], entries)
        for entry in entries:
            number = entry.queue.queue_id - 1
            listed[number] = max(entry.epoch, listed.get(number, 0))
        return listed
