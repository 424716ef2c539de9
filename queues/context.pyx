"""What all Device objects of one device share: the driver's context, the null queue, and the state of all queues.

Two libraries of one program may each make a Device, and hand buffers, queues and events to each other. As in HIP there
is one null stream, which is ordered against the blocking queues of both.
"""

import threading
from collections import deque
from typing import TYPE_CHECKING

cimport cython
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uint64_t, uintptr_t
from libc.string cimport memset

from forebay.core.driver cimport Driver
from forebay.core.process cimport check_memory, is_forked
from forebay.core.state cimport Statistics, new_device_state
from forebay.lifetimes.deferred cimport abandon
from forebay.lifetimes.queue_ends cimport retire_queue
from forebay.queues.queue cimport new_queue_of
from forebay.sync.finish cimport close_queues, refuse_all
from forebay.sync.ordering cimport divide_room, join_room

from forebay.core.errors import Error
from forebay.queues import selection

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any
    from forebay.core.driver import DriverDevice
    from forebay.queues.queue import Queue

changes = 1


class Entered(threading.local):
    """The queues of one device that this thread has entered by ``with``, the innermost last."""

    def __init__(self) -> None:
        self._queues: list[Queue] = []

    @property
    def current(self) -> Queue | None:
        """The queue that this thread entered last, or None."""
        return self._queues[-1] if self._queues else None

    def enter(self, queue: Queue) -> None:
        """Make this the thread's current queue."""
        self._queues.append(queue)

    def leave(self, queue: Queue) -> None:
        """Make the previously entered queue the current one again.

        Raises
        ------
        Error
            When ``queue`` is not the current queue.
        """
        if self.current is not queue:
            raise Error(f"{queue!r} is not this thread's current queue")
        self._queues.pop()


class _OwnOfThread(threading.local):
    own: _Own | None = None


class _Own:
    """Holds a thread's own queue. When the thread ends, the queue returns to the device for the next thread."""

    def __init__(self, queue: Queue, idle: deque[Queue]) -> None:
        self.queue = queue
        self.idle = idle

    def __del__(self) -> None:
        global changes
        changes += 1  # first: whoever has borrowed the queue may not use it any more
        if not self.queue.closed:
            self.idle.append(self.queue)


class ThreadQueues:
    """The queues that the threads own on a device."""

    def __init__(self) -> None:
        self._here = _OwnOfThread()
        self._idle: deque[Queue] = deque()

    def own(self, make: Callable[[], Queue]) -> Queue:
        """Return this thread's own queue. It may come from a thread that has ended; else `make` makes a new one."""
        own = self._here.own
        if own is not None and not own.queue.closed:
            return own.queue
        try:
            queue = self._idle.popleft()
            while queue.closed:
                queue = self._idle.popleft()
        except IndexError:
            queue = make()
        self._here.own = _Own(queue, self._idle)
        return queue

    def close(self) -> None:
        """Let go of the threads' own queues."""
        self._here = _OwnOfThread()
        self._idle.clear()


_shared: list[Context] = []  # contexts with open Devices that others may join
cdef uint64_t _owners = 0  # how many Devices there have ever been


@cython.no_gc_clear
cdef class Context:
    """A driver's context of one device, with its queues. It goes with the last Device and what keeps a Device."""

    driver: DriverDevice
    entered: Entered
    native_null_queue: Any
    lost: str | None

    def __dealloc__(self):
        if is_forked():
            Py_INCREF(self.driver)  # it is the parent's, and all that is left of its work
            return
        if self.null_queue != NULL:
            retire_queue(self.null_queue)
        if self.state != NULL:
            abandon(self.state, self.driver)

    cdef uint64_t number_device(self):
        """Return the number of a Device, and count its queues from now on."""
        global _owners
        cdef Statistics nothing
        memset(&nothing, 0, sizeof(nothing))
        _owners += 1
        self.state.registry.lock.lock()
        self.state.registry.counts_of_ended[_owners] = nothing
        self.state.registry.lock.unlock()
        return _owners

    cdef leave(self):
        """Note that a Device was closed. With the last, the null queue closes, and nobody can join any more."""
        self.open_devices -= 1
        if self.open_devices == 0:
            if self in _shared:
                _shared.remove(self)
            with nogil:
                close_queues(self.state, 0)
            self.listed = None

    cdef lose(self, str message):
        """Note that the device is lost: its queues refuse commands, and a new Device gets a context of its own."""
        if self.lost is not None:
            return
        self.lost = message
        self.state.lost = True
        if self in _shared:
            _shared.remove(self)
        with nogil:
            refuse_all(self.state)


cdef Context new_context(object driver):
    cdef Context context = Context.__new__(Context)
    check_memory()
    context.driver = driver
    context.open_devices = 1
    context.entered = Entered()
    context.state = new_device_state(
        <const Driver*> <uintptr_t> driver.table, <void*> <uintptr_t> driver.context_handle, driver.keeps_gil_below)
    context.state.in_flight.waits_starve = driver.waits_starve
    join_room(context.state, driver.shared_room)
    # Whoever shares it may want to time records.
    native, handle = driver.create_queue(0, True)
    divide_room(context.state, driver.keeps_gil_below)
    context.native_null_queue = native
    context.null_queue = new_queue_of(context.state, native, handle, 0, True, True, True, False, 0)
    context.state.null_queue = context.null_queue
    return context


cdef Context join(object info):
    """Join the context of this device, and return it; None when nobody has one open that others may join."""
    cdef Context context
    for context in _shared:
        known = context.driver.info
        if known.name == info.name and known.native is info.native:
            context.open_devices += 1
            return context
    return None


cdef Context context_of(object filter, bint private):
    """Return the context of the device that `selection.select` finds. It is opened if it is not, or if it is private.
    """
    cdef Context context, made
    info = selection.select(filter)
    context = None if private else join(info)
    if context is not None:
        return context
    made = new_context(selection.open_driver(info))
    if private:
        return made
    context = join(info)  # another thread may have been faster
    if context is not None:
        made.leave()
        return context
    _shared.append(made)
    return made
