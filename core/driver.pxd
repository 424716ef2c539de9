"""The contract of a driver, its C half: the table of operations, and the few types that cross it. See driver.py too.

Everything here runs without the GIL and may be called with a queue's lock held. Nothing outside a driver's folder knows
what is behind the handles.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

# 0, or (which call failed) << 32 | (the driver's error code as 32 bits): the driver's `explain` turns it into words.
# Negative: forebay's own, below.
ctypedef int64_t Status

cdef enum:
    QUEUE_CLOSED = -1
    NO_PLAN = -2
    NO_ROOM = -3
    QUEUE_CAPTURED = -4
    NULL_FORBIDDEN = -5
    STALE = -6
    WRONG_TYPE = -7
    INTERRUPTED = -8
    NOT_NOW = -9
    NO_MEMORY = -10  # of the host
    NOT_CREATED = -11  # a command would use memory before what made it: see `Usage.creation`

# What a driver says of an event. DONE, or NOT_YET. Negative: its command failed with this error, and is over; that says
# nothing of what came before it, because a command also fails when something that it waits for does. More than DONE:
# nobody knows, because the query itself failed, with this Status. Who gets no answer gives nothing back.
ctypedef int64_t Answer

cdef enum:
    NOT_YET = 0
    DONE = 1

ctypedef void (*HostCallback)(void* data) noexcept nogil
ctypedef bint (*Interrupted)() noexcept nogil  # whether a signal handler has raised meanwhile


cdef extern from "core/driver.hpp" namespace "forebay" nogil:
    cdef cppclass Arrival:  # the argument of a driver's host function, `arrive`, by which a queue arrives at a gate
        Arrival(HostCallback wake, void* data) noexcept

        @staticmethod
        void arrive(void* arrival) noexcept
        void settle(bint submitted) noexcept


cdef enum:
    # the parts of Memory.kind
    HOST_MEMORY = 1  # all that a driver looks at
    ELEMENT_AT = 1  # the lowest bit of the code of its elements, as `element_code` gives it; 0 for bytes
    ELEMENT_MASK = 0x7F
    PART_AT = 8  # the lowest bit of the id of a part that has a handle of its own: handles are used again


cdef struct Memory:
    void* handle  # the driver's memory object; NULL for host memory and for plain addresses
    uint64_t address  # where it begins, this view's offset included; 0 when the device has no addresses
    size_t offset  # of this view in `handle`
    uint64_t kind  # a whole word, so that packed pointers have no padding to differ in


cdef inline uint64_t element_of(uint64_t kind) noexcept nogil:
    return kind >> ELEMENT_AT & ELEMENT_MASK


cdef struct Waits:
    uint32_t count
    void** events  # the driver may overwrite the list: each is handed to one operation only


cdef inline Waits no_waits() noexcept nogil:
    return Waits(0, NULL)


cdef struct Geometry:
    int dimensions
    size_t global_size[3]  # work-items, as OpenCL and SYCL count
    size_t local_size[3]  # `block`, unless the kernel has a `Reshape`
    size_t offset[3]  # zeros, likewise
    uint32_t groups[3]  # as HIP and Level Zero count
    uint32_t block[3]


# Changes `local_size` and `offset` of a launch's geometry, for a kernel that was compiled for that.
ctypedef void (*Reshape)(Geometry* geometry) noexcept nogil


cdef enum CommandKind:
    LAUNCH_COMMAND
    COPY_COMMAND
    FILL_COMMAND


cdef struct RecordedCommand:
    # of a graph, with all that its operation below takes
    int kind
    void* kernel  # with its arguments, which nobody may change
    Geometry geometry
    Memory to
    Memory source
    size_t nbytes
    size_t pattern_size
    const unsigned char* pattern


cdef enum ChangeKind:
    CHANGED_POINTER
    CHANGED_VALUE
    CHANGED_GROUPS


cdef struct Change:
    # of a launch in a recording
    int kind
    uint32_t command  # in the order in which they were added
    uint32_t index  # of the argument
    uint32_t size  # of a value
    const void* value  # a Memory; the bytes of a value; or the groups, as in Geometry


cdef enum MarkerUse:
    FOR_DEVICE = 0  # only other queues of the device wait for it
    FOR_HOST = 1  # the host waits for it or asks for it, or another device waits for it
    TIMED = 2  # the host also asks when it was reached


cdef struct Driver:
    # -- properties
    bint gates_forbid_releases  # while a gate is closed, nothing but events may be released
    bint copies_have_events  # at no cost; one for a blocking wait only, since nothing is flushed (OpenCL)
    bint scopes_matter  # a marker for the device alone must not be waited for by the host
    bint waits_read_queues  # a wait reads memory of the queue that signals the event, which must not end before
    bint changes_spare_running  # a change of a recording does not concern replays submitted before (CUDA)
    uint32_t room_of_host_function  # of a queue's room, beside a command's: see `keeps_gil_below` and sync/ordering
    uint32_t room_of_recorded_copy  # likewise, of each copy in a recording that is replayed
    # How often a finish asks (`poll`) a queue that nobody else wants before it waits for a marker. Where the host can
    # only wait by asking, that is one command less. 0: once, unless that was in vain the last time.
    uint32_t asks_of_finish
    bint recordings_branch  # commands of a recording that need not follow each other run side by side
    # -- the launch path
    Status (*launch)(void* queue, void* kernel, const Geometry* geometry, Waits waits) noexcept nogil
    Status (*set_pointer)(void* kernel, uint32_t index, const Memory* memory) noexcept nogil
    # value NULL: local memory of that size
    Status (*set_value)(void* kernel, uint32_t index, size_t size, const void* value) noexcept nogil
    # Tell the driver all memory that the kernel may reach by pointers which it finds there: these allocations, at least
    # one. It is told again, under the queue's lock, before a launch when the list has changed; earlier launches keep
    # theirs. Such kernels are not recorded. NULL where the driver knows by itself where pointers lead.
    Status (*follow)(void* kernel, const uint64_t* addresses, size_t count) noexcept nogil
    # -- other commands; `event`, one for the host, may be NULL when the caller needs none
    Status (*copy)(
        void* queue, const Memory* to, const Memory* source, size_t nbytes, Waits waits, void** event
    ) noexcept nogil
    Status (*fill)(
        void* queue, const Memory* to, const void* pattern, size_t pattern_size, size_t nbytes, Waits waits, void**
        event
    ) noexcept nogil
    # Have shared memory moved to the device or to the host, where it stays until somebody uses it elsewhere; results do
    # not depend on it. It may do nothing; NULL where no device of the driver moves memory on request.
    Status (*prefetch)(void* queue, const Memory* memory, size_t nbytes, bint to_host, Waits waits) noexcept nogil
    # an event that is signalled when everything before it is done; submitted to the device before it returns
    Status (*marker)(void* queue, Waits waits, int use, void** event) noexcept nogil
    Status (*barrier)(void* queue, Waits waits) noexcept nogil
    # Record an event that processes share, again; what waits for it later waits for this point. NULL where none do.
    Status (*record_shared)(void* queue, void* event) noexcept nogil
    # the queue goes no further until `gate` is opened; when it arrives there, `wake(data)` is called (wake may be NULL)
    Status (*hold)(void* queue, void* context, Waits waits, HostCallback wake, void* data, void** gate) noexcept nogil
    Status (*open_gate)(void* gate, bint failed) noexcept nogil
    # -- graphs and steps; NULL where a loop over the commands is at least as fast
    # A recording: `replay` submits the commands that were added by one call, to any queue of the device, also while it
    # still runs. `queue` is one of these. NULL when the driver has no such recordings.
    Status (*new_recording)(void* queue, bint changeable, void** recording) noexcept nogil
    # The arguments are those that the kernel has now. The kernel is kept as long as the recording. The command comes
    # after these others of the recording, each given by how many were added before it; a driver whose recordings do not
    # branch may run all in the order in which they were added. The first and the last of these answer NOT_NOW where the
    # driver would have to wait for a gate: the commands are submitted one by one then, and forebay asks again later.
    Status (*add_command)(
        void* recording, const RecordedCommand* command, const uint32_t* after, uint32_t count
    ) noexcept nogil
    Status (*end_recording)(void* recording) noexcept nogil
    # Change a `changeable` recording, which must not be running then, unless `changes_spare_running`. The changes are
    # sorted by command. After a failure nobody knows what the recording does.
    Status (*change)(void* recording, const Change* changes, size_t count) noexcept nogil
    Status (*replay)(void* queue, void* recording, Waits waits) noexcept nogil
    # -- the host's side
    # Ask whether everything submitted is done. Never blocks; the queue is locked. NULL: only a marker can answer that.
    Status (*poll)(void* queue, bint* done) noexcept nogil
    # Blocks until all are signalled; one host synchronize. A single event is one for the host. Where the driver has
    # timed waits, it asks `interrupted` from time to time (NULL: never), and returns INTERRUPTED when that says yes.
    Status (*wait_events)(void* context, Waits events, Interrupted interrupted) noexcept nogil
    # Tell a failure of the queue's commands that no wait has told: once. Never blocks. NULL where nothing fails later
    # but the whole context.
    Status (*tell_failure)(void* queue) noexcept nogil
    # The queue, whose work is done, gets another owner, who is told no failure of before. Markers go on telling theirs.
    # Never blocks. NULL where there is no `tell_failure`.
    void (*renew_queue)(void* queue) noexcept nogil
    # Write what kernels have printed and the driver still has. Never blocks. NULL: it is written as they run.
    void (*write_printed)(void* context) noexcept nogil
    # Ask whether an event is signalled. Never blocks.
    Answer (*event_status)(void* event) noexcept nogil
    # the time from `first` to `second`, timed events that are done; a clock that wraps goes the shorter way round
    Status (*elapsed)(void* first, void* second, double* nanoseconds) noexcept nogil
    # an event of this context that is signalled when the other context's event is
    Status (*bridge)(void* context, void* event, void** bridged) noexcept nogil
    void (*destroy_event)(void* event) noexcept nogil
    # called when no work that uses them is outstanding
    void (*destroy_kernel)(void* kernel) noexcept nogil
    void (*destroy_recording)(void* recording) noexcept nogil
    void (*destroy_queue)(void* queue) noexcept nogil
