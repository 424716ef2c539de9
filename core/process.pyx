"""Process-wide state: exit, the host thread, signals, forks, and memory of the host."""

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport uint64_t
from libcpp.atomic cimport atomic

from forebay.core.ownership cimport relaxed_bint

from forebay.core.errors import ClosedError, Error, OutOfMemoryError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

# -- exit: some calls must return before the interpreter ends

_changed = threading.Condition()
_unfinished = 0
_ending = False


@contextmanager
def finished_before_exit(what: str) -> Iterator[None]:
    """Keep the interpreter from ending before the block does, on any thread. Raises ClosedError if it is ending.

    Once it has ended, CPython unwinds the stack of a thread that wants the GIL. pyopencl's frames do not survive that:
    the process aborts. Nor does a compiler survive the unloading of the libraries it runs in.
    """
    global _unfinished
    with _changed:
        if _ending:
            raise ClosedError(f"{what}: the interpreter ends")
        _unfinished += 1
    try:
        yield
    finally:
        with _changed:
            _unfinished -= 1
            _changed.notify_all()


def is_ending() -> bool:
    """Whether the interpreter ends, and devices are closed or about to be."""
    return _ending


def end_calls() -> None:
    """Let no such block begin, and wait for those that have begun."""
    global _ending
    with _changed:
        _ending = True
        while _unfinished > 0:
            _changed.wait()


# -- the thread that runs host functions; waits are refused on it

cdef extern from *:
    "static thread_local bool forebay_is_host_thread = false;"
    bint is_host_thread "forebay_is_host_thread"


cdef relaxed_bint has_host_thread = False  # cheaper to read than a thread-local variable


cdef void be_host_thread() noexcept nogil:
    global has_host_thread, is_host_thread
    has_host_thread = is_host_thread = True


cpdef bint on_host_thread() noexcept nogil:
    return has_host_thread and is_host_thread


def refuse_on_host_thread(what: str) -> None:
    """Raise `Error` inside a host function: it holds a queue, perhaps the one to wait for (HIP forbids it too)."""
    if on_host_thread():
        raise Error(f"{what} inside a host function: it holds a queue, and the wait could be for that one")


cdef class Numbers:
    """An iterator over 1, 2, 3, … for any number of threads. Before Python 3.14 `itertools.count` needs a GIL."""

    cdef atomic[uint64_t] next

    def __init__(self, uint64_t first=1) -> None:
        self.next.store(first)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> int:
        return self.next.fetch_add(1)


# -- signals: their handlers run on the main thread, and only when it asks for them

cdef object _raised = None  # by a handler, and not raised further yet


cdef bint interrupted() noexcept nogil:
    """Run the handlers of pending signals. Return whether one has raised."""
    global _raised
    with gil:
        try:
            PyErr_CheckSignals()
        except BaseException as error:
            _raised = error
            return True
    return False


cdef int raise_interrupt() except -1:
    global _raised
    error, _raised = _raised, None
    raise error


# -- forks: drivers do not survive one, because their threads are gone, and their locks may be held for ever. So a
# child can use no driver and no object of the parent's, and finishes, closes or releases nothing of the parent's.

ADVICE = "after a fork, which drivers do not survive: fork before devices are looked for, or start the child by spawn"

cdef extern from *:
    """
    static forebay::Relaxed<int> forebay_started;
    static int forebay_forked = 0;

    #ifndef _WIN32
    #include <pthread.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>

    // Intel's CPU runtime would finish the parent's queues when the child ends, for ever.
    static void forebay_skip_libraries(int status, void *) {
        fflush(NULL);
        _exit(status);
    }

    static void forebay_skip_libraries_at_exit() {
    #ifdef __GLIBC__
        on_exit(forebay_skip_libraries, NULL);
    #endif
    }

    static void forebay_after_fork() { forebay_forked = forebay_started; }
    static int forebay_watch_forks() { return pthread_atfork(NULL, NULL, forebay_after_fork); }
    #else
    static void forebay_skip_libraries_at_exit() {}
    static int forebay_watch_forks() { return 0; }
    #endif
    """
    relaxed_bint started "forebay_started"  # drivers, by this process or one that it was forked from
    bint forked "forebay_forked"
    # Not by os.register_at_fork: before it calls anything in the child, CPython drops the `threading.local` values of
    # other threads, and with them the last references to the parent's objects.
    int watch_forks "forebay_watch_forks"()
    void skip_libraries_at_exit "forebay_skip_libraries_at_exit"()


if watch_forks() != 0:
    raise MemoryError("pthread_atfork")


cdef bint is_forked() noexcept nogil:
    return forked


def note_drivers() -> None:
    """Note that drivers are started in this process. Raises `Error` if it was forked from one with drivers."""
    global started
    if forked:
        raise Error(f"no device can be used {ADVICE}")
    started = True


def closed_error(thing: object) -> ClosedError:
    """Return the error for using a closed object, or an object of the parent process."""
    return ClosedError(f"{thing!r} cannot be used {ADVICE}" if forked else f"{thing!r} is closed")


def _after_fork() -> None:
    global _changed, _unfinished
    _changed = threading.Condition()  # no other thread runs here
    _unfinished = 0
    if forked:
        skip_libraries_at_exit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# -- memory of the host


cdef int raise_memory_short() except -1:
    raise OutOfMemoryError("the host has no memory left: nothing was made")
