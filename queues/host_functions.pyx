"""One thread runs all host functions, one after the other, in the order in which queues reach them.

The driver's callback may neither take the GIL nor wait: it puts the call on a list and wakes the thread. The thread
runs the Python function and then opens the gate that holds the queue.
"""

import collections
import threading
import time
from typing import TYPE_CHECKING

cimport cython
from cpython.exc cimport PyErr_SetObject, PyErr_WriteUnraisable
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from libcpp.deque cimport deque
from libcpp.unordered_set cimport unordered_set
from libcpp.vector cimport vector

from forebay.core.driver cimport Driver, Status, Waits
from forebay.core.ownership cimport Guard, Lock, Ref, relaxed_bint
from forebay.core.process cimport be_host_thread, is_forked
from forebay.core.state cimport DeviceState, QueueState
from forebay.core.vector_clock cimport advance_submitted
from forebay.lifetimes.deferred cimport collect_abandoned, collect_device
from forebay.races.checker cimport begin_command, host_function, is_checked, record_point, settle
from forebay.sync.ordering cimport (
    Command, begin_hold, check_status, commit, end_hold, init_command, room_of_host_function, submit
)

from forebay.core.errors import ClosedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

    from forebay.queues.queue import Queue

cdef extern from "<condition_variable>" namespace "std" nogil:
    cdef cppclass condition_variable_any:
        void wait(Lock& lock)
        void notify_one()
        void notify_all()


cdef Lock lock  # guards what follows
# Never deleted: threads may wait for it when the process ends, or when it was forked
cdef condition_variable_any* arrived = new condition_variable_any()
cdef deque[Call*] ready
cdef unordered_set[Call*] outstanding  # calls whose gates are not open yet
cdef int opening = 0  # gates being opened that may still count in their device's `gates.closed`
cdef condition_variable_any* none_opening = new condition_variable_any()
cdef relaxed_bint stopping = False


cdef void wake(void* data) noexcept nogil:
    cdef Guard guard
    guard.take(lock)
    ready.push_back(<Call*> data)
    guard.leave()
    arrived.notify_one()


cdef Call* next_call() noexcept nogil:
    """Block until a call is ready, and return it; NULL when the interpreter ends."""
    cdef Call* call = NULL
    cdef Guard guard
    guard.take(lock)
    while ready.empty() and not stopping:
        arrived.wait(lock)
    if not stopping:
        call = ready.front()
        ready.pop_front()
    return call


cdef void end_call(Call* call, bint failed=False) noexcept nogil:
    """Open a gate, unless `stop` does. It counts in `opening` until it no longer counts as closed."""
    global opening
    cdef Ref[DeviceState] device = call.device
    cdef const Driver* driver = call.driver
    cdef void* gate = call.gate
    cdef bint calls = call.function != NULL, gone
    cdef Guard guard
    guard.take(lock)
    if outstanding.erase(call) == 0:
        return
    opening += 1
    call.ended = True
    gone = call.held
    guard.leave()
    if gone:
        del call
    driver.open_gate(gate, failed)
    driver.destroy_event(gate)
    end_hold(device.get(), calls)
    guard.take(lock)
    opening -= 1
    guard.leave()
    none_opening.notify_all()


cdef void wait_for_openings() noexcept nogil:
    cdef Guard guard
    guard.take(lock)
    while opening != 0:
        none_opening.wait(lock)


def _run() -> None:
    cdef Call* call
    be_host_thread()
    while True:
        with nogil:
            call = next_call()
        if call == NULL:
            return
        queue = <object> call.queue
        try:
            (<object> call.function)()
        except BaseException as error:  # the next synchronize raises it; this thread goes on
            if not (stopping and isinstance(error, ClosedError)):  # at exit the function's submissions raise that
                queue.device._host_errors.keep(queue, <object> call.function, error)
        Py_DECREF(<object> call.function)
        Py_DECREF(queue)
        del queue
        with nogil:
            end_call(call)
        collect_abandoned()  # dropping the queue may have dropped its device too


_thread: threading.Thread | None = None
_thread_lock = threading.Lock()


def _start() -> None:
    global _thread
    if _thread is None:
        with _thread_lock:
            if _thread is None:
                thread = threading.Thread(target=_run, name="forebay host functions", daemon=True)
                thread.start()
                _thread = thread


def stop() -> None:
    """Open all gates, including those of host functions, because the interpreter ends.

    Host functions that have not run by now never will. Their queues go on rather than fail: after a user event is set
    to an error, PoCL 3.1 aborts the process as soon as a command waits for it (seen), and Intel's CPU runtime runs the
    later commands anyway.
    """
    global stopping
    cdef bint all_settled = False
    cdef Guard guard
    with nogil:
        guard.take(lock)
        stopping = True
        ready.clear()
        guard.leave()
        arrived.notify_one()
    while not all_settled:
        # A thread that submits a call may be inside a driver whose queue is full behind one of these gates.
        with nogil:
            all_settled = open_held()
        if not all_settled:
            time.sleep(1e-3)  # nothing reports the return of another thread's driver call
    # Do not join the thread: it is a daemon, and may be inside a function that never returns.


cdef bint open_held() noexcept nogil:
    """Open the gates of all calls that have one. Return whether no call is being submitted."""
    cdef vector[Call*] left
    cdef bint all_settled
    cdef Guard guard
    guard.take(lock)
    for call in outstanding:
        if call.held:
            left.push_back(call)
    for call in left:
        outstanding.erase(call)
    all_settled = outstanding.empty()
    guard.leave()
    for call in left:
        call.driver.open_gate(call.gate, False)
        end_hold(call.device.get(), call.function != NULL)
    return all_settled


cdef Call* new_call(object queue, QueueState* state, object function) except NULL:
    cdef Call* call
    cdef Guard guard
    if function is not None:
        _start()
    call = new Call()
    guard.take(lock)
    if stopping and function is not None:
        guard.leave()
        del call
        raise ClosedError(f"host() on {queue!r}: the interpreter ends, and calls no more host functions")
    outstanding.insert(call)
    guard.leave()
    call.driver = state.driver
    call.device = Ref[DeviceState].share(state.device)
    if function is not None:
        Py_INCREF(function)
        Py_INCREF(queue)
        call.function = <PyObject*> function
        call.queue = <PyObject*> queue
    return call


cdef Status submit_call(QueueState* state, void* handle, Call* call, Waits waits) noexcept nogil:  # the queue is locked
    """Submit a call. After success the host thread owns it, and may have run it already."""
    cdef bint calls = call.function != NULL, gone
    cdef void (*arrive)(void* data) noexcept nogil
    cdef Status status
    cdef Guard guard
    arrive = wake
    if not calls:
        arrive = NULL
    begin_hold(state.device, calls)
    status = state.driver.hold(handle, state.device.context, waits, arrive, call, &call.gate)
    if status != 0:
        end_hold(state.device, calls)
        return status
    guard.take(lock)
    call.held = True
    gone = call.ended
    guard.leave()
    if gone:
        del call
    state.counts.events_made += 1
    if calls:
        state.counts.host_functions += 1
        state.counts.events_made += 1
        advance_submitted(state.epochs, room_of_host_function(state))  # the caller counts its command
    return 0


cdef cppclass Hold(Command):
    Call* what


cdef Status call_hold(QueueState* queue, Command* command, Waits waits) noexcept nogil:
    cdef Status status = submit_call(queue, queue.handle, (<Hold*> command).what, waits)
    if status == 0:
        commit(queue, command)
    return status


cdef int settle_call(object queue, object function, Call* call, bint submitted_it) except -1:
    cdef Guard guard
    if not submitted_it:
        guard.take(lock)
        outstanding.erase(call)
        guard.leave()
        Py_XDECREF(call.function)
        Py_XDECREF(call.queue)
        del call
    return 0


cdef int hold(object queue, QueueState* state, Call* call, str what) except -1:
    cdef Hold submitted
    cdef Status status
    init_command(&submitted, call_hold)
    submitted.holds = submitted.parted = True
    submitted.what = call
    with nogil:
        status = submit(state, &submitted)
    settle_call(queue, None, call, status == 0)
    return check_status(queue, status, what)


cdef int submit_host_function(object queue, QueueState* state, object function) except -1:
    announced = begin_command(queue) if is_checked(state) else None
    if announced is not None:
        function = host_function(function, announced)
    hold(queue, state, new_call(queue, state, function), "host function")
    return settle(announced)


@cython.no_gc_clear
cdef class Gate:
    """Holds a queue until it is opened: what `Queue.gate` returns, and a context manager that opens it at its end.

    Dropping the last reference opens it, too. Any thread may open it.
    """

    @property
    def opened(self) -> bool:
        """Whether it has been opened."""
        with cython.critical_section(self):
            return self.call == NULL

    def open(self, failed: bool = False) -> None:
        """Open the gate; opening it again does nothing. With ``failed`` the commands behind it end with an error."""
        cdef bint fails = failed  # may run code that opens it
        cdef Call* call
        cdef Ref[DeviceState] device
        if is_forked():
            return
        with cython.critical_section(self):
            call = self.call
            self.call = NULL
        if call == NULL:
            return
        device = call.device
        with nogil:
            end_call(call, fails)
        collect_device(device.get())
        device.clear()
        collect_abandoned()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.open()

    def __dealloc__(self):
        if self.call != NULL and not is_forked():
            end_call(self.call)
            collect_abandoned()


cdef Gate submit_gate(object queue, QueueState* state):
    cdef Gate gate = Gate.__new__(Gate)
    queue._check_open()  # in a forked child another thread of the parent may have had the lock of the calls
    cdef Call* call = new_call(queue, state, None)
    hold(queue, state, call, "gate")
    gate.call = call  # first, so that the gate opens whatever Python code runs next
    if is_checked(state):
        record_point(queue)
    return gate


# -- errors of host functions


cdef class HostErrors:
    """Exceptions of a Device's host functions that no synchronize has raised yet."""

    def __cinit__(self) -> None:
        self.kept = collections.deque()

    def keep(self, queue: Queue, function: Callable[[], object], error: BaseException) -> None:
        """Keep an exception of a function of the queue for the next synchronize."""
        entry = (queue, error, name_of(function))
        with cython.critical_section(self):
            self.kept.append(entry)
        if self.closed:
            self.close()

    def raise_first(self, queue: Queue | None) -> None:
        """Raise this queue's oldest error: for the null queue also that of a blocking queue, for None that of any."""
        if not self.kept:
            return
        first = None
        with cython.critical_section(self):
            for i, (raised_on, error, _) in enumerate(self.kept):
                if queue is None or raised_on is queue or (queue.is_null and raised_on.blocking):
                    first = error
                    del self.kept[i]
                    break
        if first is not None:
            raise first

    def close(self) -> None:
        """Give all errors, also later ones, to `sys.unraisablehook`, because no synchronize will raise them."""
        with cython.critical_section(self):
            self.closed = True
            kept = list(self.kept)
            self.kept.clear()  # not replaced: other threads look whether there are any
        for queue, error, name in kept:
            where = f"host function {name} of {queue!r}"
            PyErr_SetObject(type(error), error)
            PyErr_WriteUnraisable(where)


def name_of(function: Callable[[], object]) -> str:
    """Return the name of a function, or of the type of another callable."""
    try:
        return str(getattr(function, "__qualname__", type(function).__qualname__))
    except Exception:  # noqa: BLE001 - it may be any object, and the host thread must go on
        return type(function).__qualname__
