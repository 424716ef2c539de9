"""State of queues and devices below Python: all that is used without the GIL.

A `QueueState` is counted: its Queue has a reference, its device's registry while work may be outstanding, and the null
queue's list while the queue is in it. So closing or dropping a queue does not end its ordering.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libcpp.atomic cimport atomic
from libcpp.deque cimport deque
from libcpp.map cimport map, multimap
from libcpp.unordered_map cimport unordered_map
from libcpp.unordered_set cimport unordered_set
from libcpp.vector cimport vector

from forebay.core.driver cimport NULL_FORBIDDEN, QUEUE_CAPTURED, QUEUE_CLOSED, Answer, Driver, Geometry, Status
from forebay.core.ownership cimport Lock, Ref, Refs, relaxed_bint, relaxed_pointer, relaxed_uint32, relaxed_uint64
from forebay.core.plan cimport Plan
from forebay.core.usage cimport ResidentList
from forebay.core.vector_clock cimport Clock, ClockEntry, ClockRef, Epochs, EpochsRef, OnceClock


cdef cppclass Marker:
    """A driver event that completes when its queue has reached an epoch, shared by all waiters."""
    atomic[int32_t] references
    uint8_t use  # MarkerUse: who may wait for it
    uint8_t adopted  # its queue gets commands that forebay does not see
    EpochsRef queue
    uint64_t epoch
    ClockRef clock  # what the queue was ordered after when the marker was made
    OnceClock after  # `clock` with the marker added; shared by all waiters
    void* event  # owned; NULL when the queue had nothing outstanding
    const Driver* driver
    void* context  # of the marker's device: waiting for an event of another context needs a bridge
    void* device  # only compared: the marker's DeviceState may be gone
    void (*destroy)(Marker* marker) noexcept nogil


cdef void forget_opened_bridges(DeviceState* device) noexcept nogil


cdef void note_done(Marker* marker) noexcept nogil
cdef Answer poll_marker(Marker* marker) noexcept nogil


# The only list of counters. `Stats` has the same names, and `allocations`.
cdef struct Statistics:
    relaxed_uint64 launches
    relaxed_uint64 copies
    relaxed_uint64 fills
    relaxed_uint64 host_functions
    relaxed_uint64 markers_made
    relaxed_uint64 markers_shared
    relaxed_uint64 waits_made
    relaxed_uint64 waits_elided_completed
    relaxed_uint64 waits_elided_ordered
    relaxed_uint64 events_made
    relaxed_uint64 host_syncs
    relaxed_uint64 arg_bytes_set
    relaxed_uint64 arg_bytes_skipped
    relaxed_uint64 reductions
    relaxed_uint64 graph_launches
    relaxed_uint64 steps
    relaxed_uint64 steps_recorded
    relaxed_uint64 steps_given_up


cdef cppclass Retired:
    """Something to release when the last of its uses is done. One of the first five members is set."""
    PyObject* thing  # owned, as the plan is
    Plan* plan
    Ref[Marker] marker
    QueueState* queue  # the queue itself, of which this is a part; with the reference of its Queue
    uint64_t kernel_id  # of a kernel that is gone: its plans are then retired
    vector[ClockEntry] points  # its uses that were not done when it was last looked at
    Retired* next  # linked, so that putting it on a list needs no memory
    size_t nbytes  # of device memory that may be handed out again; 0 for anything else
    bint open  # more uses must be looked for before it may wait at a queue
    bint host  # its release concerns no memory or object of the driver


cdef cppclass NativeQueue:
    """A driver queue and its properties: a later Queue that asks for the same ones may get it."""
    PyObject* native  # the driver's own object for the queue; owned
    int priority
    bint timing


cdef enum:
    FOLLOWING = 0x8000000000000000


cdef enum:
    UNLIMITED = 0xFFFFFFFFFFFFFFFF


cdef enum SlowPath:
    # Reasons in one word, so that the launch path checks all of them at once
    BY_CLOSING = 1
    BY_CAPTURE = 2  # it is captured: its commands become part of a graph
    BY_CAPTURE_OF_OTHERS = 4  # on the null queue, while a blocking queue is captured
    BY_STEP = 8  # a step may collect its launches; everything is allowed, but not on the short path
    BY_CHECK = 16  # its commands are checked for races; likewise
    BY_WATCH = 32  # a watcher notes what memory its commands use; likewise
    STILL_ALLOWED = 56  # the last three


cdef enum Collecting:
    # An open step's answer to a launch
    NOT_COLLECTED  # submit it as it is
    COLLECTED
    TO_BE_RECORDED  # submit it as it is, and then notify the step
    OUT_OF_TURN  # likewise, but the step knows it already
    OWES_WAITS  # gather its waits first, and then ask again


cdef cppclass OpenStep:
    """An open step's part of one queue, guarded by the queue's lock. What it has collected counts as submitted
    everywhere but in the driver: before a driver call on the queue, and before a marker, call `submit_collected`.
    """
    size_t waiting  # how many were collected and not submitted
    void (*submit)(QueueState* queue) noexcept nogil  # submits them; an error is raised when the step is left
    # Offers a launch of `kernel`, a Kernel. Needs the GIL. A queue that is `locked` stays locked; any other is locked
    # meanwhile, if its lock is free. `closings`: the device's count from before the arguments were checked, unless the
    # caller holds their memory.
    Collecting (*collect)(
        QueueState* queue, bint locked, PyObject* kernel, const Geometry* geometry, const char* packed,
        const uint64_t* closings, Status* status, uint32_t* failed_at
    ) noexcept
    # Notes that the launch was submitted as it is. Needs the GIL.
    int (*submitted)(
        QueueState* queue, Collecting why, PyObject* kernel, const Geometry* geometry, const char* packed
    ) except -1


cdef cppclass QueueOrder:
    """What a queue comes after, and what after it. Changed by `sync`; the queue's lock guards all but the atomic."""
    ClockRef clock
    Ref[Marker] marker  # of the newest epoch that a marker was asked for
    Ref[Marker] copied  # of the newest copy, for a finish right after it; NULL: none, or it was waited for
    Refs[Marker] pending  # waits that already count as commands, but that no command has carried yet
    size_t prune_at  # prune threshold: with this many `pending`, the next one first drops needless ones
    uint64_t before_pending  # the epoch before the first of them
    ClockRef clock_before  # the clock at that epoch
    deque[Ref[Marker]] checkpoints  # of points before which nothing can be held up, by ascending epoch
    relaxed_bint has_checkpoints
    deque[uint64_t] gate_epochs  # of gates and host functions, the oldest first, until they are known to be done
    atomic[uint64_t] null_seen  # the null queue's epoch up to which this queue needs no wait
    bint null_pending
    bint null_ordered  # in the list, where every later command of the null queue will find it
    QueueState* next_listed


cdef cppclass QueueInFlight:
    """In-flight limits of a queue. Changed by `sync`."""
    relaxed_uint64 room  # a launch may keep the GIL while fewer commands than this can be in flight
    relaxed_uint64 lent  # the part of `room` that is borrowed from the quota; both change under the registry's lock
    bint found_busy  # what the last poll of the driver said


cdef struct QueueStep:
    relaxed_pointer lane  # the OpenStep; NULL: no step collects its launches
    relaxed_pointer thread  # whose launches it collects; without the lock only that thread uses the step


cdef cppclass QueueResident:
    """Launches of a queue that may have used all memory of the device. Changed here, under the queue's lock."""
    # Epoch of the last one; 0 for none. It has FOLLOWING while one is being submitted, whose epoch is not known yet.
    # Any thread may read it.
    atomic[uint64_t] last_indirect
    bint is_indirect_user  # whether it is `indirect` in the registry


cdef cppclass QueueDeferred:
    """Deferred releases that wait for points of a queue. Changed by `lifetimes`; the registry's lock guards it."""
    multimap[uint64_t, Retired*] retired  # by the epoch to wait for
    relaxed_uint64 count  # of these
    bint draining  # in the device's list of that name, or with the thread that took it off
    Ref[Marker] asked  # the one marker that shows how far `retired` is done; used by that thread only
    Retired own  # the queue itself, once its Queue is gone


cdef cppclass QueuePlans:
    """The kernel objects of a queue. The queue's lock guards them."""
    unordered_map[uint64_t, Plan*] by_kernel  # by kernel id
    Plan* last
    relaxed_uint64 staged  # pieces of staging memory of all plans
    uint64_t searches  # the device's count when the queue was handed on


cdef cppclass QueueState:
    Lock lock  # guards all but atomics and what says otherwise; the first member, which saves a launch an instruction
    atomic[int32_t] references
    const Driver* driver
    void* handle
    DeviceState* device  # `kept_device`'s
    Ref[DeviceState] kept_device
    uint64_t owner  # the number of the Device that it is closed with; 0 for the null queue
    EpochsRef epochs
    bint is_null
    bint blocking
    bint adopted  # gets commands that forebay does not see, so only the driver knows whether it is empty
    relaxed_uint32 slow_path  # why commands may not be submitted, or not on the short path: 0, or some of SlowPath
    QueueStep open_step
    QueueOrder order
    QueueInFlight in_flight
    QueuePlans plans
    Statistics counts
    QueueResident resident
    QueueDeferred deferred
    NativeQueue made
    void (*destroy)(QueueState* queue) noexcept nogil


cdef cppclass Quota:
    """Shared quota of the queues of one driver context, beside their own limits. Both live as long as the process."""
    void* context
    Lock lock  # guards what follows, and is taken after a queue's
    int64_t left  # negative while queues exceed their limits, because more queues were made since
    uint64_t most_lent  # to one queue
    uint64_t each  # each queue's own limit, from the driver
    unordered_set[QueueState*] borrowers


cdef struct Registered:
    uint64_t queue_id
    QueueState* queue  # retained
    Epochs* epochs  # the queue's: checking thousands for work must not touch the queues themselves
    bint adopted
    bint indirect  # it has had launches with indirect access, or is adopted


cdef cppclass DeviceInFlight:
    """In-flight limits of a device's queues. Changed by `sync`."""
    relaxed_uint64 keeps_gil_below  # each queue's room while nothing is lent to it; guarded by the registry's lock
    Quota* quota  # NULL where the driver's queues share none
    relaxed_uint32 calls  # driver calls of each command, at most
    atomic[uint64_t] limit  # of each queue, by the back-pressure of sync/ordering; UNLIMITED when there is none
    bint waits_starve  # see core/driver.py


cdef cppclass NullOrder:
    """What the null queue is ordered against. Changed by `sync`."""
    atomic[QueueState*] pending  # blocking queues with a command since the last null-queue wait, newest first
    size_t listed_ended  # queues that have ended and are still in this list; guarded by the registry's lock
    int blocking_captures  # how many blocking queues are captured; guarded by the null queue's lock


cdef cppclass Registry:
    """The queues of a device. The lock is never held across a driver call, so it may be taken with the GIL."""
    Lock lock
    vector[Registered] queues  # by ascending id
    # Closed queues: the driver queue and the plans go to a later Queue. Destroying one takes long on some drivers, and
    # others may still wait for its counter (Level Zero) or must not be released while a gate is closed (OpenCL).
    Refs[QueueState] idle_queues
    map[uint64_t, Statistics] counts_of_ended  # of queues that are gone, for each Device that is not


cdef cppclass DeviceDeferred:
    """Deferred releases. Changed by `lifetimes`; the registry's lock guards it."""
    relaxed_pointer fresh  # the first Retired that was not looked at yet
    deque[Ref[QueueState]] draining  # queues that something retired waits for
    relaxed_bint has_draining
    relaxed_pointer kept  # the first Retired that is done, but nothing may be released while a gate is closed (OpenCL)
    uint64_t searches  # for plans of kernels that are gone; a search misses plans that are being handed on


cdef cppclass ResidentSet:
    """Memory that indirect access may reach, and launches that may have used all of it. Changed here."""
    ResidentList listed
    atomic[uint64_t] closings  # how many allocations were closed; when it changes, bound launches must check again
    atomic[uint64_t] unseen_writes  # launches that may have written anywhere; raised under the queue's lock


cdef cppclass Gates:
    """Gates and host functions that may hold up queues of a device."""
    atomic[int32_t] closed  # gates not opened yet, and host functions that have not returned
    atomic[int32_t] host_functions  # how many of these are host functions
    Refs[Marker] bridges  # events of other contexts that the driver turned into gates; registry's lock
    atomic[int32_t] closed_bridges  # how many of these may not be open yet


cdef cppclass DeviceState:
    atomic[int32_t] references
    void (*destroy)(DeviceState* device) noexcept nogil
    const Driver* driver
    void* context
    QueueState* null_queue  # not retained: the Context that owns this state owns it too
    relaxed_bint lost  # every use of the device is an error
    relaxed_bint checked  # a Device asked for race checks: each queue that is made has BY_CHECK
    uint64_t host_syncs  # waits of the host for an event or for the whole device; guarded by the registry's lock
    Registry registry
    DeviceInFlight in_flight
    NullOrder null_order
    DeviceDeferred deferred
    ResidentSet resident
    Gates gates


cdef Lock states_lock  # taken before a registry's lock
cdef vector[DeviceState*] states  # all: private Devices have one each, and share the driver's queues


# The marker takes over `event`.
cdef Ref[Marker] new_marker(
    DeviceState* device, Epochs* queue, uint64_t epoch, Clock* clock, void* event, int use
) noexcept nogil
cdef Ref[DeviceState] new_device_state(
    const Driver* driver, void* context, uint64_t keeps_gil_below, bint waits_starve
) noexcept nogil
cdef QueueState* new_queue_state(
    DeviceState* device, void* handle, uint64_t queue_id, uint64_t owner, bint is_null, bint blocking, bint timing,
    bint adopted
) noexcept nogil
cdef Ref[QueueState] find_queue(DeviceState* device, uint64_t queue_id) noexcept nogil
cdef bint points_of_indirect_uses(DeviceState* device, bint unseen, vector[ClockEntry]& points) noexcept nogil
cdef void registered_queues(DeviceState* device, Refs[QueueState]& into) noexcept nogil
cdef void unregister(QueueState* queue) noexcept nogil
# Around the submission of launches with indirect access; the queue is locked
cdef void begin_following(QueueState* queue) noexcept nogil
cdef void end_following(QueueState* queue, uint64_t epoch) noexcept nogil
cdef void leave_to_parent(DeviceState* device) noexcept nogil
cdef inline bint is_closed(const QueueState* queue) noexcept nogil:
    return queue.slow_path & BY_CLOSING != 0


cdef inline Status refusal(const QueueState* queue) noexcept nogil:
    """Return the status that refuses a command of the queue; 0 when it is allowed. The queue is locked."""
    if queue.slow_path & ~<uint32_t> STILL_ALLOWED == 0:
        return 0
    if queue.slow_path & BY_CLOSING:
        return QUEUE_CLOSED
    return QUEUE_CAPTURED if queue.slow_path & BY_CAPTURE else NULL_FORBIDDEN


cdef inline int32_t closed_gates(DeviceState* device) noexcept nogil:
    """Return how many gates, host functions and bridges may hold up the device's queues. The registry is not locked."""
    if device.gates.closed_bridges.load() != 0:
        forget_opened_bridges(device)
    return device.gates.closed.load() + device.gates.closed_bridges.load()


cdef inline void submit_collected(QueueState* queue) noexcept nogil:  # the queue is locked
    if queue.open_step.lane != NULL and (<OpenStep*> queue.open_step.lane).waiting != 0:
        (<OpenStep*> queue.open_step.lane).submit(queue)


cdef inline uint64_t capacity_with(DeviceState* device, uint64_t lent) noexcept nogil:
    if device.in_flight.calls > 1:  # lent quota is not used: it was counted in single calls
        return max(device.in_flight.keeps_gil_below // device.in_flight.calls, <uint64_t> 1)
    return device.in_flight.keeps_gil_below + lent


cdef inline uint64_t room_with(DeviceState* device, uint64_t lent) noexcept nogil:
    return min(capacity_with(device, lent), device.in_flight.limit.load())


cdef object stats_of(const Statistics& counts, object allocations=*)
cdef void set_slow_path(QueueState* queue, uint32_t why, bint on) noexcept nogil
cdef void set_captured(QueueState* queue, bint captured_now) noexcept nogil
cdef int captures_under_way() noexcept nogil
cdef atomic[int32_t] open_step_count  # of any device; while it is 0, no wait lets a queue join a step
# Of the null queue and of waits of the host, which all Devices of the context share; with an owner, of its queues too
cdef Statistics device_statistics(DeviceState* device, uint64_t owner) noexcept nogil


cdef class AnyQueue:
    cdef QueueState* state  # retained
    cdef readonly object device
    cdef readonly object priority
    cdef readonly object native  # the driver's own queue object, for other packages
    cdef object captured_by  # the Capture that records its commands; None when they run. Read it by `_capture`
    cdef object in_step  # the open Step that it takes part in, or None. Read and set it by `_step`
    cdef object __weakref__
    cdef object reference  # a weak reference to itself, shared by its events: one for each event would be expensive
