"""Full queues: a driver's call may block as long as a host function runs, which may want the lock that is held then."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libcpp.atomic cimport atomic
from libcpp.vector cimport vector

from forebay.core.driver cimport FOR_HOST, Status, Waits
from forebay.core.epochs cimport Lock, completed_epoch, is_empty, submitted_epoch
from forebay.core.marker cimport Marker, note_done, poll_marker, release_marker
from forebay.core.process cimport interrupted
from forebay.core.state cimport (
    UNLIMITED, DeviceState, QueueState, Room, capacity_with, closed_gates, refusal, release_queue_state,
    retain_queue_state, room_with, states, states_lock
)
from forebay.sync.host_waits cimport wait_on_host
from forebay.sync.points cimport ask_queue, forget_done_marks, mark_the_way, take_marker

cdef extern from *:
    """
    #include <chrono>
    #include <cstdint>
    #include <thread>

    namespace forebay {
    static thread_local bool is_host_thread = false;
    static void pause() { std::this_thread::sleep_for(std::chrono::microseconds(100)); }

    // Queue and epoch at which this thread last gave up waiting, because the queue made no progress
    static thread_local std::uint64_t stalled_queue = 0, stalled_at = 0;
    }
    """
    bint is_host_thread "forebay::is_host_thread"
    void pause "forebay::pause"() nogil
    uint64_t stalled_queue "forebay::stalled_queue"
    uint64_t stalled_at "forebay::stalled_at"


cdef enum:
    COLLECTS = 64  # commands that cannot borrow, of which one looks what others have borrowed
    WORTH_MARKING = 64  # where a queue takes fewer commands, markers cost as much as they save
    PAUSES = 10000  # some 1.5 s: at most, that one command gives way while its queue makes no progress
    PAUSES_BESIDE_GATES = 500  # the same while a gate of the device is closed, which this thread may be about to open


cdef atomic[int32_t] host_functions
cdef Lock rooms_lock
cdef vector[Room*] rooms


cdef void be_host_thread() noexcept nogil:
    global is_host_thread
    is_host_thread = True


cdef void begin_host_function(DeviceState* device) noexcept nogil:
    host_functions.fetch_add(1)
    device.host_functions.fetch_add(1)  # before `open_holds`, or it could be taken for a gate
    device.open_holds.fetch_add(1)


cdef void end_host_function(DeviceState* device) noexcept nogil:
    device.open_holds.fetch_sub(1)
    device.host_functions.fetch_sub(1)
    host_functions.fetch_sub(1)


cdef uint64_t room_of_host_function(const QueueState* queue) noexcept nogil:
    """Where graphs are launched, twice as much: CUDA changes channels at a host function and after such a launch."""
    return queue.driver.room_of_host_function * (2 if queue.counts.graph_launches else 1)


cdef void keep_gil_below(DeviceState* device, uint64_t most) noexcept nogil:
    """Set how many commands each queue takes, besides what is lent to it."""
    cdef size_t i
    device.registry_lock.lock()
    device.keeps_gil_below = most
    for i in range(device.queues.size()):
        device.queues[i].queue.room = room_with(device, device.queues[i].queue.lent)
    device.registry_lock.unlock()


cdef void count_calls(DeviceState* device, uint32_t calls) noexcept nogil:
    """Note how many of the driver's calls each command is at most: more than one while it is traced."""
    device.calls = calls
    keep_gil_below(device, device.keeps_gil_below)


cdef void divide_room(DeviceState* device, uint64_t most) noexcept nogil:
    """Note how many commands each queue takes, now that there is one queue more: those of the driver's context have
    less than before where they share their room, those of private Devices, too.

    What a queue has in flight beyond that is lent to it. As long as more is in flight than that leaves for others, no
    queue surely takes more than it has.
    """
    cdef Room* room = device.room
    if room == NULL:
        if device.keeps_gil_below != most:
            keep_gil_below(device, most)
        return
    room.lock.lock()
    if room.each == most:
        room.lock.unlock()
        return
    room.each = most
    states_lock.lock()
    for each in states:
        if each.room == room:
            lend_what_is_used(each, most)
    for each in states:
        if each.room == room:
            keep_gil_below(each, most if room.left >= 0 else 1)
    states_lock.unlock()
    room.lock.unlock()


cdef void allot_again(Room* room) noexcept nogil:
    """Let each queue have its room again when others have given back what they had too much. No registry is locked."""
    room.lock.lock()
    if room.left >= 0:
        states_lock.lock()
        for each in states:
            if each.room == room and each.keeps_gil_below != room.each:
                keep_gil_below(each, room.each)
        states_lock.unlock()
    room.lock.unlock()


cdef void lend_what_is_used(DeviceState* device, uint64_t most) noexcept nogil:
    cdef Room* room = device.room
    cdef QueueState* queue
    cdef uint64_t in_flight
    cdef size_t i
    device.registry_lock.lock()
    for i in range(device.queues.size()):
        in_flight = submitted_epoch(device.queues[i].epochs) - completed_epoch(device.queues[i].epochs)
        if in_flight > most:
            queue = device.queues[i].queue
            if in_flight - most > queue.lent:
                if queue.lent == 0:
                    room.borrowers.push_back(queue)
                room.left -= <int64_t> (in_flight - most - queue.lent)
                queue.lent = in_flight - most
    device.registry_lock.unlock()


cdef void lend_room(QueueState* queue, uint64_t lent) noexcept nogil:
    queue.device.registry_lock.lock()
    queue.lent = lent
    queue.room = room_with(queue.device, lent)
    queue.device.registry_lock.unlock()


cdef void join_room(DeviceState* device, uint64_t shared) noexcept nogil:
    """Let the queues of a new Device share what there is to share in the driver's context; 0: nothing."""
    cdef Room* room
    if shared == 0:
        return
    rooms_lock.lock()
    for room in rooms:
        if room.context == device.context:
            device.room = room
    if device.room == NULL:
        device.room = new Room()
        device.room.context = device.context
        device.room.left = <int64_t> shared
        device.room.most_lent = shared * 3 // 4
        device.room.each = device.keeps_gil_below
        rooms.push_back(device.room)
    rooms_lock.unlock()
    device.room.lock.lock()
    device.keeps_gil_below = device.room.each if device.room.left >= 0 else 1
    device.room.lock.unlock()


cdef bint borrow_room(QueueState* queue, uint64_t more) noexcept nogil:
    cdef Room* room = queue.device.room
    cdef bint borrowed
    if room == NULL or queue.device.calls > 1:
        return False
    room.lock.lock()
    borrowed = <int64_t> more <= room.left and queue.lent + more <= room.most_lent
    if borrowed:
        more = min(max(more, <uint64_t> room.left // 2), room.most_lent - queue.lent)
        room.left -= <int64_t> more
        if queue.lent == 0:
            room.borrowers.push_back(queue)
        lend_room(queue, queue.lent + more)
    room.lock.unlock()
    return borrowed


cdef void give_back_room(QueueState* queue, uint64_t in_flight) noexcept nogil:
    """Give back what is lent to the queue, but for what so many commands need. The queue is locked."""
    cdef Room* room = queue.device.room
    cdef uint64_t used = 0
    cdef size_t i
    if queue.lent == 0:
        return
    room.lock.lock()
    if in_flight > room.each:
        used = min(in_flight - room.each, queue.lent)
    room.left += <int64_t> (queue.lent - used)
    lend_room(queue, used)
    for i in range(room.borrowers.size() if used == 0 else 0):
        if room.borrowers[i] == queue:
            room.borrowers[i] = room.borrowers.back()
            room.borrowers.pop_back()
            break
    room.lock.unlock()


cdef bint has_all(QueueState* queue) noexcept nogil:
    """Return whether the driver has all that counts as submitted. The queue is locked."""
    return queue.pending.empty() and (queue.step == NULL or queue.step.waiting == 0)


cdef void collect_room(Room* room) noexcept nogil:
    """Have queues that need it no more give back what is lent to them. They are asked whether they are done, because
    nobody else may ever do so; but none that another thread, or the caller, has locked.
    """
    cdef vector[QueueState*] borrowers
    cdef QueueState* queue
    cdef bint done
    room.lock.lock()
    for queue in room.borrowers:
        borrowers.push_back(retain_queue_state(queue))
    room.lock.unlock()
    for queue in borrowers:
        if queue.lock.try_lock():
            if queue.driver.poll != NULL and not is_empty(queue.epochs) and has_all(queue):
                ask_queue(queue, &done)  # what has failed is in flight
            give_back_room(queue, submitted_epoch(queue.epochs) - completed_epoch(queue.epochs))
            queue.lock.unlock()
        release_queue_state(queue)
    allot_again(room)


cdef uint64_t in_flight_of(QueueState* queue) noexcept nogil:
    return submitted_epoch(queue.epochs) - completed_epoch(queue.epochs)


cdef bint has_room(QueueState* queue, uint64_t more) noexcept nogil:
    """Return whether the driver surely takes one command more, and beside it as much as `more`. The queue is locked."""
    cdef uint64_t in_flight = in_flight_of(queue)
    cdef uint64_t capacity = capacity_with(queue.device, queue.lent)
    if in_flight == 0 or in_flight + more < capacity:
        return True
    return borrow_room(queue, in_flight + more + 1 - capacity)


cdef Status look_for_room(QueueState* queue) noexcept nogil:
    """Where the queue may be full, see to it that it soon is known not to be, if it is not. The queue is locked."""
    cdef uint64_t limit = queue.device.in_flight_limit.load()
    if has_room(queue, 0) and in_flight_of(queue) < limit:
        return 0
    if queue.device.room != NULL and submitted_epoch(queue.epochs) % COLLECTS == 0:
        collect_room(queue.device.room)
    return mark_the_way(queue) if queue.room >= WORTH_MARKING or limit != UNLIMITED else 0


cdef bint may_stay_full(QueueState* queue, uint64_t more) noexcept nogil:
    """Return whether the driver's call for one more command may block until a host function returns. It is locked.

    That may be one of any device, because one thread runs them all. One that is submitted later holds up nothing that
    this queue waits for. The host thread never waits for room, because what it waits for could be the function that it
    is in. Nor does anybody while a gate of the device is closed: it could be this thread that opens it.
    """
    if has_room(queue, more):
        return False
    return (
        host_functions.load() != 0 and closed_gates(queue.device) <= queue.device.host_functions.load()
        and not is_host_thread
    )


cdef bint ask_first_mark(QueueState* queue) noexcept nogil:
    """Ask how far the queue is, by a mark, which is made if there is none: launches of graphs make none. Return False
    when there is none all the same. No lock is held.
    """
    cdef bint marked = True
    if queue.lock.try_lock():
        forget_done_marks(queue)
        if queue.marks.empty() and refusal(queue) == 0:
            mark_the_way(queue)
        marked = not queue.marks.empty()
        if marked:
            poll_marker(queue.marks.front())
        queue.lock.unlock()
    return marked


cdef void sleep_while_limited(QueueState* queue) noexcept nogil:
    """Sleep while the queue may be given no command, by the limit of host_waits.pyx. No lock is held.

    What the queue waits for may depend on what this thread does next: a gate that it opens, memory that a kernel polls,
    an event of another package. So the thread goes on when its queue makes no progress, soon if a gate is closed or a
    host function has not returned, and gives way again when the queue does. The host thread always goes on.
    """
    global stalled_queue, stalled_at
    cdef uint64_t limit, completed, before = UNLIMITED
    cdef int pauses = 0, most
    while True:
        limit = queue.device.in_flight_limit.load()
        completed = completed_epoch(queue.epochs)
        if (
            limit == UNLIMITED or is_host_thread or in_flight_of(queue) < limit
            or stalled_queue == queue.epochs.queue_id and stalled_at == completed or not ask_first_mark(queue)
        ):
            return
        most = PAUSES if closed_gates(queue.device) == 0 else PAUSES_BESIDE_GATES
        if pauses >= most:
            stalled_queue = queue.epochs.queue_id
            stalled_at = completed
            return
        pauses = pauses + 1 if completed == before else 0
        before = completed
        pause()


cdef Status await_event(DeviceState* device, Marker* marker) noexcept nogil:
    """Block until the marker is reached."""
    cdef Waits waits
    cdef Status status
    cdef void* event = marker.event
    if event == NULL:
        return 0
    waits.count = 1
    waits.events = &event
    status = wait_on_host(device, marker.driver, waits, interrupted)
    if status == 0:
        note_done(marker)
    return status


cdef Status make_room(QueueState* queue, uint64_t more) noexcept nogil:
    """Block while the queue may be full behind a host function. That function, and others, can submit meanwhile."""
    cdef Marker* marker = NULL
    cdef Status status
    cdef bint full, collected = queue.device.room == NULL
    give_way(queue)
    while True:
        queue.lock.lock()
        status = 0
        full = may_stay_full(queue, more)
        if full and collected:
            status = take_marker(queue, FOR_HOST, &marker)  # one command more, and all who wait here share it
        queue.lock.unlock()
        if not full or status != 0:
            return status
        if not collected:
            # To wait without need is to wait for ever where a host function waits for what this thread does next.
            collect_room(queue.device.room)
            collected = True
            continue
        status = await_event(queue.device, marker)
        release_marker(marker)
        if status != 0:
            return status
