"""The contract with a driver for Cython; driver.hpp describes each entry. See driver.py, too."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

ctypedef int64_t Status
ctypedef int64_t Answer
ctypedef void (*HostCallback)(void* data) noexcept nogil
ctypedef bint (*Interrupted)() noexcept nogil


cdef enum:
    # the parts of Memory.kind beside HOST_MEMORY
    ELEMENT_AT = 1  # the lowest bit of the code of its elements, as `element_code` gives it; 0 for bytes
    ELEMENT_MASK = 0x7F
    PART_AT = 8  # the lowest bit of the id of a part that has a handle of its own: handles are used again


cdef inline uint64_t element_of(uint64_t kind) noexcept nogil:
    return kind >> ELEMENT_AT & ELEMENT_MASK


cdef extern from "core/driver.hpp" namespace "forebay" nogil:
    cdef enum:
        QUEUE_CLOSED, NO_PLAN, NO_ROOM, QUEUE_CAPTURED, NULL_FORBIDDEN, STALE, WRONG_TYPE, INTERRUPTED, NOT_NOW
        NO_MEMORY, NOT_CREATED
        NOT_YET, DONE
        HOST_MEMORY
        LAUNCH_COMMAND, COPY_COMMAND, FILL_COMMAND
        CHANGED_POINTER, CHANGED_VALUE, CHANGED_GROUPS
        FOR_DEVICE, FOR_HOST, TIMED

    cdef struct Memory:
        void* handle
        uint64_t address
        size_t offset
        uint64_t kind

    cdef struct Waits:
        uint32_t count
        void** events

    cdef struct Geometry:
        int dimensions
        size_t global_size[3]
        size_t local_size[3]
        size_t offset[3]
        uint32_t groups[3]
        uint32_t block[3]

    ctypedef void (*Reshape)(Geometry* geometry) noexcept nogil

    cdef struct RecordedCommand:
        int kind
        void* kernel
        Geometry geometry
        Memory to, source
        size_t nbytes, pattern_size
        const unsigned char* pattern

    cdef struct Change:
        int kind
        uint32_t command, index, size
        const void* value

    # The header has the parameters, and the C++ compiler checks them.
    ctypedef Status (*Operation)(...) noexcept nogil
    ctypedef void (*Ending)(void* handle) noexcept nogil

    cdef struct Driver:
        bint gates_forbid_releases, copies_have_events, scopes_matter, waits_read_queues, changes_spare_running
        bint recordings_branch
        uint32_t room_of_host_function, room_of_recorded_copy, asks_of_finish
        Operation launch, set_pointer, set_value, follow, copy, fill, prefetch, marker, barrier, record_shared, hold
        Operation open_gate, new_recording, add_command, end_recording, change, replay, poll, wait_events, tell_failure
        Operation elapsed, bridge
        Answer (*event_status)(void* event) noexcept nogil
        Ending renew_queue, write_printed, destroy_event, destroy_kernel, destroy_recording, destroy_queue


cdef inline Waits no_waits() noexcept nogil:
    return Waits(0, NULL)
