"""Gives OpenCL recordings: clones of kernels, launched one after the other, with copies and fills between them.

They can be changed, as Level Zero's can, so what steps do with those is tested on devices that execute. They can also
branch: what need not come after another then comes in another order than it was added in.
"""

import ctypes

import pyopencl
from libc.stdint cimport int64_t, uint32_t, uintptr_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from forebay.core.driver cimport (
    CHANGED_GROUPS, CHANGED_POINTER, COPY_COMMAND, FOR_HOST, LAUNCH_COMMAND, NOT_YET, Change, Driver, Geometry,
    Memory, RecordedCommand, Status, Waits, no_waits
)

cdef extern from *:
    """
    template <class Table, class New, class Add, class End, class Change, class Replay, class Destroy>
    void put_recordings(
        Table *table, New new_recording, Add add_command, End end_recording, Change change, Replay replay,
        Destroy destroy_recording) {
        table->new_recording = new_recording;
        table->add_command = add_command;
        table->end_recording = end_recording;
        table->change = change;
        table->replay = replay;
        table->destroy_recording = destroy_recording;
    }
    """
    void put_recordings(...)

ctypedef void* (*Clone)(void* kernel, int* error) noexcept nogil


cdef cppclass Recorded:
    RecordedCommand command  # with a clone of its kernel, which is owned
    vector[unsigned char] pattern
    vector[uint32_t] after


cdef cppclass Recording:
    vector[Recorded] commands
    vector[uint32_t] order  # in which they are submitted
    bint changeable
    bint ended
    void* event  # of the last replay; owned; NULL if nobody asks


cdef Driver* table = NULL
cdef Clone clone = NULL
cdef bint asks_whether_done = False
cdef int64_t broken = 0  # how often a recording was used as it must not be
cdef int64_t replays = 0
cdef int64_t changes_made = 0
cdef int64_t clones_made = 0
cdef int64_t moved = 0  # commands that were submitted elsewhere than where they were added


cdef void forget_event(Recording* recording) noexcept nogil:
    if recording.event != NULL:
        table.destroy_event(recording.event)
        recording.event = NULL


cdef Status new_recording(void* queue, bint changeable, void** made) noexcept nogil:
    cdef Recording* recording = new Recording()
    recording.changeable = changeable
    recording.ended = False
    recording.event = NULL
    made[0] = recording
    return 0


cdef Status add_command(
    void* made, const RecordedCommand* command, const uint32_t* after, uint32_t count
) noexcept nogil:
    global broken, clones_made
    cdef Recording* recording = <Recording*> made
    cdef uint32_t own = <uint32_t> recording.commands.size(), i
    cdef Recorded* added
    cdef int error = 0
    if command.kind != LAUNCH_COMMAND and recording.changeable and not table.recordings_branch:
        return 1  # as a driver that cannot change such a command
    if recording.ended:
        broken += 1
    recording.commands.resize(own + 1)
    added = &recording.commands[own]
    added.command = command[0]
    added.command.kernel = NULL
    for i in range(count):
        broken += after[i] >= own
        added.after.push_back(after[i])
    if command.kind == LAUNCH_COMMAND:
        added.command.kernel = clone(command.kernel, &error)
        clones_made += 1
    elif command.kind != COPY_COMMAND:
        added.pattern.assign(command.pattern, command.pattern + command.pattern_size)
    return error


cdef Status end_recording(void* made) noexcept nogil:
    """Order the commands: whenever there is a choice, the one that was added last comes first."""
    global moved
    cdef Recording* recording = <Recording*> made
    cdef size_t count = recording.commands.size(), i, k
    cdef vector[cbool] placed = vector[cbool](count)
    cdef bint ready
    recording.ended = True
    while recording.order.size() < count:
        i = count
        ready = False
        while not ready:
            i -= 1
            ready = not placed[i]
            for k in range(recording.commands[i].after.size()):
                ready = ready and placed[recording.commands[i].after[k]]
        moved += i != recording.order.size()
        placed[i] = True
        recording.order.push_back(<uint32_t> i)
    return 0


cdef Status change(void* made, const Change* changes, size_t count) noexcept nogil:
    global broken, changes_made
    cdef Recording* recording = <Recording*> made
    cdef Geometry* geometry
    cdef const Change* each
    cdef Status status = 0
    cdef void* kernel
    cdef size_t i
    cdef int k
    changes_made += count
    if not recording.changeable or not recording.ended:
        broken += 1
    elif recording.event != NULL and table.event_status(recording.event) == NOT_YET:
        broken += 1
    for i in range(count):
        each = &changes[i]
        if i and each.command < changes[i - 1].command:
            broken += 1
        kernel = recording.commands[each.command].command.kernel
        if each.kind == CHANGED_GROUPS:
            geometry = &recording.commands[each.command].command.geometry
            for k in range(3):
                geometry.groups[k] = (<const unsigned int*> each.value)[k]
                geometry.global_size[k] = geometry.groups[k] * geometry.local_size[k]
        elif each.kind == CHANGED_POINTER:
            status = table.set_pointer(kernel, each.index, <const Memory*> each.value)
        else:
            status = table.set_value(kernel, each.index, each.size, each.value)
        if status != 0:
            return status
    return 0


cdef Status submit(void* queue, Recorded* recorded, Waits waits) noexcept nogil:
    cdef RecordedCommand* command = &recorded.command
    if command.kind == LAUNCH_COMMAND:
        return table.launch(queue, command.kernel, &command.geometry, waits)
    if command.kind == COPY_COMMAND:
        return table.copy(queue, &command.to, &command.source, command.nbytes, waits, NULL)
    return table.fill(
        queue, &command.to, recorded.pattern.data(), recorded.pattern.size(), command.nbytes, waits, NULL)


cdef Status replay(void* queue, void* made, Waits waits) noexcept nogil:
    global broken, replays
    cdef Recording* recording = <Recording*> made
    cdef Recorded* recorded
    cdef Status status
    cdef size_t i
    replays += 1
    if not recording.ended:
        broken += 1
    for i in range(recording.order.size()):
        recorded = &recording.commands[recording.order[i]]
        status = submit(queue, recorded, waits if i == 0 else no_waits())
        while status != 0 and i != 0:  # a driver's is one call, which is refused as a whole or not at all
            status = submit(queue, recorded, no_waits())
        if status != 0:
            return status
    forget_event(recording)
    while asks_whether_done and table.marker(queue, no_waits(), FOR_HOST, &recording.event) != 0:
        pass
    return 0


cdef void destroy_recording(void* made) noexcept nogil:
    global broken
    cdef Recording* recording = <Recording*> made
    cdef size_t i
    if recording.event != NULL and table.event_status(recording.event) == NOT_YET:
        broken += 1
    forget_event(recording)
    for i in range(recording.commands.size()):
        if recording.commands[i].command.kernel != NULL:
            table.destroy_kernel(recording.commands[i].command.kernel)
    del recording


def install(address: int, spares: bool, branches: bool = False) -> None:
    """Add them to OpenCL's table of operations. Steps made from now on collect launches, and graphs are recorded.

    If `spares`, recordings may be changed while they run, as in CUDA and as clones can. If not, each replay makes a
    marker, to find a change while it may run. If `branches`, recordings branch, as in CUDA; a whole graph is one then.
    """
    global table, clone, asks_whether_done
    table = <Driver*> <uintptr_t> address
    clone = <Clone> <uintptr_t> ctypes.cast(ctypes.CDLL(pyopencl._cl.__file__).clCloneKernel, ctypes.c_void_p).value
    asks_whether_done = not spares
    table.changes_spare_running = spares
    table.recordings_branch = branches
    put_recordings(table, new_recording, add_command, end_recording, change, replay, destroy_recording)


def uninstall() -> None:
    """Let steps that are made from now on collect nothing. Recordings that there are can still be released."""
    table.change = NULL
    table.new_recording = NULL
    table.recordings_branch = False


def counts() -> tuple[int, int, int]:
    """How often recordings were misused and replayed, and how much of them was changed, so far."""
    return broken, replays, changes_made


def clones() -> int:
    """How many kernels the recordings have made so far, by a call that no observer sees."""
    return clones_made


def reordered() -> int:
    """How many commands were submitted elsewhere than where they were added, because the recordings branch."""
    return moved
