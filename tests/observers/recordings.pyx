"""Gives OpenCL recordings that can be changed, as Level Zero has them: clones of kernels, launched one after the other.

So what steps do with such recordings is tested on devices that execute.
"""

import ctypes

import pyopencl
from libc.stdint cimport int64_t, uintptr_t
from libcpp.vector cimport vector

from forebay.core.driver cimport (
    CHANGED_GROUPS, CHANGED_POINTER, FOR_HOST, LAUNCH_COMMAND, NOT_YET, Change, Command, Driver, Geometry, Memory,
    Status, Waits, no_waits
)

ctypedef void* (*Clone)(void* kernel, int* error) noexcept nogil


cdef cppclass Recording:
    vector[void*] kernels  # owned clones
    vector[Geometry] geometries
    bint ended
    void* event  # of the last replay; owned; NULL if nobody asks


cdef Driver* table = NULL
cdef Clone clone = NULL
cdef bint asks_whether_done = False
cdef int64_t broken = 0  # how often a recording was used as it must not be
cdef int64_t replays = 0
cdef int64_t changes_made = 0
cdef int64_t clones_made = 0


cdef void forget_event(Recording* recording) noexcept nogil:
    if recording.event != NULL:
        table.release_event(recording.event)
        recording.event = NULL


cdef Status new_recording(void* queue, bint changeable, void** made) noexcept nogil:
    cdef Recording* recording
    made[0] = NULL
    if changeable:  # graphs are as fast without
        recording = new Recording()
        recording.ended = False
        recording.event = NULL
        made[0] = recording
    return 0


cdef Status add_command(void* made, const Command* command) noexcept nogil:
    global broken, clones_made
    cdef Recording* recording = <Recording*> made
    cdef int error = 0
    if command.kind != LAUNCH_COMMAND:
        return 1  # as a driver that cannot change such a command
    if recording.ended:
        broken += 1
    recording.kernels.push_back(clone(command.kernel, &error))
    clones_made += 1
    recording.geometries.push_back(command.geometry)
    return error


cdef Status end_recording(void* made) noexcept nogil:
    (<Recording*> made).ended = True
    return 0


cdef Status change(void* made, const Change* changes, size_t count) noexcept nogil:
    global broken, changes_made
    cdef Recording* recording = <Recording*> made
    cdef Geometry* geometry
    cdef const Change* each
    cdef Status status = 0
    cdef size_t i
    cdef int k
    changes_made += 1
    if not recording.ended or recording.event != NULL and table.event_status(recording.event) == NOT_YET:
        broken += 1
    for i in range(count):
        each = &changes[i]
        if i and each.command < changes[i - 1].command:
            broken += 1
        if each.kind == CHANGED_GROUPS:
            geometry = &recording.geometries[each.command]
            for k in range(3):
                geometry.groups[k] = (<const unsigned int*> each.value)[k]
                geometry.global_size[k] = geometry.groups[k] * geometry.local_size[k]
        elif each.kind == CHANGED_POINTER:
            status = table.set_pointer(recording.kernels[each.command], each.index, <const Memory*> each.value)
        else:
            status = table.set_value(recording.kernels[each.command], each.index, each.size, each.value)
        if status != 0:
            return status
    return 0


cdef Status replay(void* queue, void* made, Waits waits) noexcept nogil:
    global broken, replays
    cdef Recording* recording = <Recording*> made
    cdef Status status
    cdef size_t i
    replays += 1
    if not recording.ended:
        broken += 1
    for i in range(recording.kernels.size()):
        status = table.launch(queue, recording.kernels[i], &recording.geometries[i], waits if i == 0 else no_waits())
        while status != 0 and i != 0:  # a driver's is one call, which is refused as a whole or not at all
            status = table.launch(queue, recording.kernels[i], &recording.geometries[i], no_waits())
        if status != 0:
            return status
    forget_event(recording)
    while asks_whether_done and table.marker(queue, no_waits(), FOR_HOST, &recording.event) != 0:
        pass
    return 0


cdef void release_recording(void* made) noexcept nogil:
    global broken
    cdef Recording* recording = <Recording*> made
    cdef size_t i
    if recording.event != NULL and table.event_status(recording.event) == NOT_YET:
        broken += 1
    forget_event(recording)
    for i in range(recording.kernels.size()):
        table.release_kernel(recording.kernels[i])
    del recording


def install(address: int, spares: bool) -> None:
    """Add them to a driver's table. Steps that are made from now on collect launches.

    Parameters
    ----------
    address : int
        Of OpenCL's table of operations.
    spares : bool
        Whether recordings may be changed while they run, as in CUDA and as clones can. If not, each replay makes a
        marker, to find a change while it may run.
    """
    global table, clone, asks_whether_done
    table = <Driver*> <uintptr_t> address
    clone = <Clone> <uintptr_t> ctypes.cast(ctypes.CDLL(pyopencl._cl.__file__).clCloneKernel, ctypes.c_void_p).value
    asks_whether_done = not spares
    table.changes_spare_running = spares
    table.new_recording = new_recording
    table.add_command = add_command
    table.end_recording = end_recording
    table.change = change
    table.replay = replay
    table.release_recording = release_recording


def uninstall() -> None:
    """Let steps that are made from now on collect nothing. Recordings that there are can still be released."""
    table.change = NULL
    table.new_recording = NULL


def counts() -> tuple[int, int, int]:
    """How often recordings were misused, replayed and changed so far."""
    return broken, replays, changes_made


def clones() -> int:
    """How many kernels the recordings have made so far, by a call that no observer sees."""
    return clones_made
