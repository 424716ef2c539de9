"""One thread runs all host functions, one after the other, in the order in which queues reach them.

The driver's callback must neither take the GIL nor wait. It puts the call on a list and wakes the thread. The thread
runs the Python function and then opens the gate that holds the queue.
"""

import collections
import threading
import time
import weakref
from typing import TYPE_CHECKING

cimport cython
from cpython.exc cimport PyErr_SetObject, PyErr_WriteUnraisable
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libcpp cimport bool as cbool
from libcpp.deque cimport deque
from libcpp.unordered_set cimport unordered_set
from libcpp.vector cimport vector

from forebay.core.driver cimport Status, Waits
from forebay.core.ownership cimport Guard, Lock, Ref
from forebay.core.process cimport be_host_thread, is_forked
from forebay.core.state cimport DeviceState, QueueState
from forebay.core.vector_clock cimport advance_submitted
from forebay.lifetimes.deferred cimport collect_abandoned, collect_device
from forebay.races.checker cimport begin_command, host_function, is_checked, record_point, settle
from forebay.sync.ordering cimport (
    Command, begin_host_function, commit, end_host_function, init_command, room_of_host_function, submit
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
# Never deleted: threads may wait for it when the process ends, or have been waiting when it was forked
cdef condition_variable_any* arrived = new condition_variable_any()
cdef deque[Call*] ready
cdef unordered_set[Call*] outstanding  # calls whose gates are not open again
cdef int submitting = 0  # number of calls in `outstanding` that are not settled
cdef int opening = 0  # number of gates being opened that may still count in their device's `gates.closed`
cdef condition_variable_any* none_opening = new condition_variable_any()
cdef cbool stopping = False


cdef void wake(void* data) noexcept nogil:
    cdef Guard guard
    guard.take(lock)
    ready.push_back(<Call*> data)
    guard.leave()
    arrived.notify_one()


cdef Call* next_call() noexcept nogil:
    """Block until a call is ready, and return it. Returns NULL when the interpreter ends."""
    cdef Call* call = NULL
    cdef Guard guard
    guard.take(lock)
    while ready.empty() and not stopping:
        arrived.wait(lock)
    if not stopping:
        call = ready.front()
        ready.pop_front()
    return call


cdef bint begin_opening(Call* call) noexcept nogil:
    """Note that a gate is about to be opened: of this call, or with NULL, of a Gate. False if `stop` opens it."""
    global opening
    cdef Guard guard
    guard.take(lock)
    if call != NULL and outstanding.erase(call) == 0:
        return False
    opening += 1
    return True


cdef void end_opening(Call* call) noexcept nogil:
    """Note that a gate is open: of this call, which its last user deletes, or with NULL, of a Gate."""
    global opening
    cdef bint gone = False
    cdef Guard guard
    guard.take(lock)
    opening -= 1
    if call != NULL:
        call.ended = True
        gone = call.settled
    guard.leave()
    none_opening.notify_all()
    if gone:
        del call


cdef void wait_for_openings() noexcept nogil:
    cdef Guard guard
    guard.take(lock)
    while opening != 0:
        none_opening.wait(lock)


def _run() -> None:
    """The host thread."""
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
        except BaseException as error:  # the next synchronize raises it, this thread goes on
            if not (stopping and isinstance(error, ClosedError)):  # that is how it learns that the interpreter ends
                queue.device._host_errors.keep(queue, <object> call.function, error)
        Py_DECREF(<object> call.function)
        Py_DECREF(queue)
        del queue
        with nogil:
            if begin_opening(call):
                call.driver.open_gate(call.gate, False)
                call.driver.destroy_event(call.gate)
                end_host_function(call.device.get())
                end_opening(call)
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

    Host functions that have not run by now never will. Their queues go on without them instead of ending with an error:
    a user event set to an error makes PoCL 3.1 abort the process as soon as a command waits for it (seen), and Intel's
    CPU runtime runs the later commands anyway.
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
        for gate in list(_gates):
            (<Gate> gate).let_go(False)
        if not all_settled:
            time.sleep(1e-3)  # nothing tells when a driver call of another thread returns
    # Do not join the thread: it may be inside a function that never returns. It is a daemon.


cdef bint open_held() noexcept nogil:
    """Open the gates of all calls that have one. Returns whether no call is being submitted."""
    cdef vector[Call*] left
    cdef Call* call
    cdef size_t i
    cdef bint all_settled
    cdef Guard guard
    guard.take(lock)
    for call in outstanding:
        if call.held:
            left.push_back(call)
    for i in range(left.size()):
        outstanding.erase(left[i])
    all_settled = submitting == 0
    guard.leave()
    for i in range(left.size()):
        left[i].driver.open_gate(left[i].gate, False)
        end_host_function(left[i].device.get())
    return all_settled


_gates: weakref.WeakSet[Gate] = weakref.WeakSet()


cdef Call* new_call(object queue, QueueState* state, object function) except NULL:
    global submitting
    cdef Call* call
    cdef Guard guard
    _start()
    call = new Call()
    guard.take(lock)
    if stopping:
        guard.leave()
        del call
        raise ClosedError(f"host() on {queue!r}: the interpreter ends, and calls no more host functions")
    submitting += 1
    outstanding.insert(call)
    guard.leave()
    call.driver = state.driver
    call.device = Ref[DeviceState].share(state.device)
    Py_INCREF(function)
    Py_INCREF(queue)
    call.function = <PyObject*> function
    call.queue = <PyObject*> queue
    return call


cdef Status submit_call(QueueState* state, void* handle, Call* call, Waits waits) noexcept nogil:  # the queue is locked
    """Submit a call. After success the host thread may have called it already."""
    cdef Status status
    cdef Guard guard
    begin_host_function(state.device)
    status = state.driver.hold(handle, state.device.context, waits, wake, call, &call.gate)
    if status == 0:
        guard.take(lock)
        call.held = True
        guard.leave()
        state.counts.host_functions += 1
        state.counts.events_made += 2
        advance_submitted(state.epochs, room_of_host_function(state))  # its command is counted by the caller
    else:
        end_host_function(state.device)
    return status


cdef cppclass HostFunction(Command):
    Call* function


cdef Status call_function(QueueState* queue, Command* command, Waits waits) noexcept nogil:
    cdef Status status = submit_call(queue, queue.handle, (<HostFunction*> command).function, waits)
    if status == 0:
        commit(queue, command)
    return status


cdef int settle_call(object queue, object function, Call* call, bint submitted_it) except -1:
    global submitting
    cdef bint gone  # no other thread has it any more
    cdef Guard guard
    with nogil:
        guard.take(lock)
        call.settled = True
        submitting -= 1
        if not submitted_it:
            outstanding.erase(call)
        gone = call.ended or not submitted_it
        guard.leave()
        if gone:
            del call
    if not submitted_it:
        Py_DECREF(function)
        Py_DECREF(queue)
    return 0


cdef int submit_host_function(object queue, QueueState* state, object function) except -1:
    cdef HostFunction submitted
    cdef Status status
    cdef Call* call
    announced = begin_command(queue) if is_checked(state) else None
    if announced is not None:
        function = host_function(function, announced)
    call = new_call(queue, state, function)
    init_command(&submitted, call_function)
    submitted.holds = submitted.parted = True
    submitted.function = call
    with nogil:
        status = submit(state, &submitted)
    settle_call(queue, function, call, status == 0)
    if status != 0:
        queue._raise(status, "host function")
    return settle(announced)


@cython.no_gc_clear
cdef class Gate:
    """Holds a queue until it is opened: what `Queue.gate` returns, and a context manager that opens it at its end.

    Dropping the last reference opens it, too. Any thread may open it.
    """

    @property
    def opened(self) -> bool:
        """Whether it has been opened."""
        return self.is_open

    def open(self, failed: bool = False) -> None:
        """Let the queue go on. With ``failed`` the commands behind the gate end with an error. Twice is fine."""
        if self.is_open or is_forked():
            return
        self.let_go(failed)
        collect_device(self.device)
        collect_abandoned()

    cdef void let_go(self, bint failed):
        if self.is_open:
            return
        self.is_open = True
        with nogil:
            begin_opening(NULL)
            self.driver.open_gate(self.handle, failed)
            self.driver.destroy_event(self.handle)
            self.device.gates.closed.fetch_sub(1)
            end_opening(NULL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.open()

    def __dealloc__(self):
        if self.handle != NULL and not is_forked():
            if not self.is_open:
                self.driver.open_gate(self.handle, False)
                self.driver.destroy_event(self.handle)
                self.device.gates.closed.fetch_sub(1)
            self.kept_device.clear()
            collect_abandoned()


cdef cppclass Hold(Command):
    void* gate


cdef Status call_hold(QueueState* queue, Command* command, Waits waits) noexcept nogil:
    cdef Status status
    queue.device.gates.closed.fetch_add(1)
    status = queue.driver.hold(
        queue.handle, queue.device.context, waits, NULL, NULL, &(<Hold*> command).gate)
    if status == 0:
        commit(queue, command)
        queue.counts.events_made += 1
    else:
        queue.device.gates.closed.fetch_sub(1)
    return status


cdef Gate submit_gate(object queue, QueueState* state):
    cdef Hold hold
    cdef Status status
    cdef Gate gate = Gate.__new__(Gate)
    init_command(&hold, call_hold)
    hold.holds = hold.parted = True
    with nogil:
        status = submit(state, &hold)
    if status != 0:
        queue._raise(status, "gate")
    gate.handle = hold.gate  # first, so that the gate opens whatever Python code runs next
    gate.driver = state.driver
    gate.kept_device = Ref[DeviceState].share(state.device)
    gate.device = state.device
    _gates.add(gate)
    if is_checked(state):
        record_point(queue)
    return gate


# -- what they raise


cdef class HostErrors:
    """What the host functions of a Device raised and no synchronize has raised yet."""

    def __cinit__(self) -> None:
        self.kept = collections.deque()

    def keep(self, queue: Queue, function: Callable[[], object], error: BaseException) -> None:
        """Keep what a function of the queue raised for the next synchronize."""
        self.kept.append((queue, error, name_of(function)))
        if self.closed:
            self.close()

    def raise_first(self, queue: Queue | None) -> None:
        """Raise the oldest error of this queue. The null queue speaks for the blocking queues too, None for all."""
        if not self.kept:
            return
        for entry in list(self.kept):
            raised_on, error, _ = entry
            if queue is None or raised_on is queue or (queue.is_null and raised_on.blocking):
                self.kept.remove(entry)
                raise error

    def close(self) -> None:
        """Give `sys.unraisablehook` all errors, also later ones, because no synchronize will raise them any more."""
        self.closed = True
        while self.kept:
            queue, error, name = self.kept.popleft()
            where = f"host function {name} of {queue!r}"
            PyErr_SetObject(type(error), error)
            PyErr_WriteUnraisable(where)


def name_of(function: Callable[[], object]) -> str:
    """Return the name of a function, or of the type of what can be called like one."""
    try:
        return str(getattr(function, "__qualname__", type(function).__qualname__))
    except Exception:  # noqa: BLE001 - it may be an object of any kind, and the host thread must go on
        return type(function).__qualname__
