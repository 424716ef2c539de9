"""Markers: a driver event that completes when its queue has reached an epoch, shared by all who wait for it."""

from libc.stdint cimport int32_t, uint64_t
from libcpp.atomic cimport atomic, memory_order_acquire

from forebay.core.clock cimport Clock
from forebay.core.driver cimport Answer, Driver
from forebay.core.epochs cimport Epochs


cdef cppclass Marker:
    atomic[int32_t] references
    Epochs* queue  # retained
    uint64_t epoch
    Clock* clock  # retained: what the queue was ordered after when the marker was made
    atomic[Clock*] after  # retained: `clock` with the marker added; made when first needed, shared by all who wait
    void* event  # owned; NULL when the queue had nothing outstanding
    const Driver* driver
    void* context  # of the marker's device: waiting for an event of another context needs a bridge
    int use  # MarkerUse: who may wait for it
    bint adopted  # its queue gets commands that forebay does not see


cdef inline bint has_one_owner(Marker* marker) noexcept nogil:
    """Return whether only the caller has the marker: then nobody else can get it."""
    return marker.references.load(memory_order_acquire) == 1


# The marker takes over `event`, and retains the epochs and the clock.
cdef Marker* new_marker(
    Epochs* queue, uint64_t epoch, Clock* clock, void* event, const Driver* driver, void* context, int use
) noexcept nogil
cdef void renew_marker(Marker* marker, uint64_t epoch, Clock* clock, void* event, int use) noexcept nogil
cdef Marker* retain_marker(Marker* marker) noexcept nogil
cdef void release_marker(Marker* marker) noexcept nogil
cdef Clock* clock_after(Marker* marker) noexcept nogil
cdef void note_done(Marker* marker) noexcept nogil
cdef Answer poll_marker(Marker* marker) noexcept nogil
