"""The contract of a driver for Cython: driver.hpp has the same with what each thing is. See driver.py, too."""

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

    cdef struct Driver:
        bint gates_forbid_releases, copies_have_events, scopes_matter, waits_read_queues, changes_spare_running
        bint recordings_branch
        uint32_t room_of_host_function, room_of_recorded_copy, asks_of_finish
        Status (*launch)(void* queue, void* kernel, const Geometry* geometry, Waits waits) noexcept nogil
        Status (*set_pointer)(void* kernel, uint32_t index, const Memory* memory) noexcept nogil
        Status (*set_value)(void* kernel, uint32_t index, size_t size, const void* value) noexcept nogil
        Status (*follow)(void* kernel, const uint64_t* addresses, size_t count) noexcept nogil
        Status (*copy)(
            void* queue, const Memory* to, const Memory* source, size_t nbytes, Waits waits, void** event
        ) noexcept nogil
        Status (*fill)(
            void* queue, const Memory* to, const void* pattern, size_t pattern_size, size_t nbytes, Waits waits,
            void** event
        ) noexcept nogil
        Status (*prefetch)(void* queue, const Memory* memory, size_t nbytes, bint to_host, Waits waits) noexcept nogil
        Status (*marker)(void* queue, Waits waits, int use, void** event) noexcept nogil
        Status (*barrier)(void* queue, Waits waits) noexcept nogil
        Status (*record_shared)(void* queue, void* event) noexcept nogil
        Status (*hold)(
            void* queue, void* context, Waits waits, HostCallback wake, void* data, void** gate) noexcept nogil
        Status (*open_gate)(void* gate, bint failed) noexcept nogil
        Status (*new_recording)(void* queue, bint changeable, void** recording) noexcept nogil
        Status (*add_command)(
            void* recording, const RecordedCommand* command, const uint32_t* after, uint32_t count
        ) noexcept nogil
        Status (*end_recording)(void* recording) noexcept nogil
        Status (*change)(void* recording, const Change* changes, size_t count) noexcept nogil
        Status (*replay)(void* queue, void* recording, Waits waits) noexcept nogil
        Status (*poll)(void* queue, bint* done) noexcept nogil
        Status (*wait_events)(void* context, Waits events, Interrupted interrupted) noexcept nogil
        Status (*tell_failure)(void* queue) noexcept nogil
        void (*renew_queue)(void* queue) noexcept nogil
        void (*write_printed)(void* context) noexcept nogil
        Answer (*event_status)(void* event) noexcept nogil
        Status (*elapsed)(void* first, void* second, double* nanoseconds) noexcept nogil
        Status (*bridge)(void* context, void* event, void** bridged) noexcept nogil
        void (*destroy_event)(void* event) noexcept nogil
        void (*destroy_kernel)(void* kernel) noexcept nogil
        void (*destroy_recording)(void* recording) noexcept nogil
        void (*destroy_queue)(void* queue) noexcept nogil


cdef inline Waits no_waits() noexcept nogil:
    return Waits(0, NULL)
