"""Queues. The commands of one queue run in the order in which they were submitted."""

from typing import TYPE_CHECKING, overload

import numpy as np

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.weakref cimport PyWeakref_NewRef
from libc.stdint cimport uint64_t, uintptr_t
from libcpp.atomic cimport memory_order_relaxed
from libcpp.vector cimport vector

from forebay.core.driver cimport NULL_FORBIDDEN, QUEUE_CAPTURED, QUEUE_CLOSED, Status
from forebay.core.plan cimport POINTER
from forebay.core.ownership cimport Guard, Ref, release, retain
from forebay.core.process cimport is_forked, on_host_thread
from forebay.core.state cimport (
    BY_CHECK, BY_WATCH, AnyQueue, DeviceState, Marker, QueueState, captures_under_way, is_closed, new_queue_state,
    open_step_count, set_captured, set_slow_path, stats_of
)
from forebay.core.vector_clock cimport Clock, ClockEntry, ClockRef, completed_epoch, is_empty, list_entries
from forebay.events.event cimport Event, marker_of, queue_of, record, wait_for_event, wait_for_foreign, wait_for_queue
from forebay.lifetimes.deferred cimport close_queue, collect_queue, retire_queue
from forebay.queues.host_functions cimport submit_gate, submit_host_function
cimport forebay.queues.kernels.kernel as kernel_module
from forebay.queues.kernels.kernel cimport Kernel
from forebay.queues.launch.launch cimport (
    PyVectorcall_NARGS, bind, enable_vectorcall, launch, launch_with_scratch, list_of, vectorcallfunc
)
from forebay.queues.memory.buffer cimport Buffer
from forebay.queues.memory.pool cimport MemoryPool, free
from forebay.queues.memory.transfers cimport copy, fill
from forebay.races.checker cimport ALONE, is_checked, order_of, races, reach
from forebay.sync.finish cimport finish_queue, query_queue, wait_checked

from forebay.core.errors import ArgumentTypeError, CaptureError, CaptureUnsupportedError, Error, InvalidArgumentError
from forebay.core.process import Numbers, refuse_on_host_thread
from forebay.queues.capture_rules import LATER, captures_that_bar_null, refuse_null, refuse_unsafe
from forebay.queues.kernels.kernel import check_queue
from forebay.queues.launch.results import launch_for_result
from forebay.queues.memory.shapes import is_foreign

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, SupportsFloat
    from typing_extensions import Buffer as HostBuffer, Never, Self
    from numpy.typing import DTypeLike
    from forebay.core.stats import Stats
    from forebay.events.event import IpcEvent
    from forebay.queues.graphs.capture import Capture
    from forebay.queues.graphs.graph import Graph
    from forebay.queues.graphs.step import Step
    from forebay.queues.host_functions import Gate
    from forebay.queues.launch.launch import BoundLaunch
    from forebay.queues.launch.results import Result
    from forebay.queues.memory.shapes import Grid, ShapeLike, StridedView

_ids = Numbers()
# Called with each new Queue. A trace uses it to look up later which queue a driver's handle was.
watchers: list[Callable[[Queue], None]] = []


cdef QueueState* new_queue_of(
    DeviceState* device, object native, size_t handle, uint64_t owner, bint is_null, bint blocking, bint timing,
    bint adopted, object priority
):
    """Make the state of a queue over the driver's queue. Returns it with the owner's reference."""
    cdef QueueState* state = new_queue_state(
        device, <void*> <uintptr_t> handle, next(_ids), owner, is_null, blocking, timing, adopted)
    if not adopted:  # the driver's queue is recycled
        Py_INCREF(native)
        state.made.native = <PyObject*> native
        state.made.priority = priority
    return state


cdef Queue new_queue(object device, QueueState* state, object adopted):
    cdef Queue queue = Queue.__new__(Queue)
    queue.state = retain(state) if state.is_null else state
    queue.device = device
    queue.priority = state.made.priority
    queue.native = <object> state.made.native if adopted is None else adopted
    queue.reference = PyWeakref_NewRef(queue, None)
    for watcher in tuple(watchers):  # a copy: a watcher may remove itself
        watcher(queue)
    return queue


cdef int check_may_wait(Queue queue, str what) except -1:
    """Check that the capture rules let the host query the queue, or wait for it."""
    capture = capture_of(queue)
    if capture is not None:
        capture.refuse(f"{what} {queue!r}", LATER)
    # While a blocking queue is captured, a command on the null queue raises its own error: CaptureImplicitError.
    if captures_under_way() and not (queue.state.is_null and captures_that_bar_null(queue.device)):
        refuse_unsafe(f"{what} {queue!r}")
    return 0


def set_capture(Queue queue, capture: Capture | None) -> None:
    """Let `capture` record the queue's commands from now on. With None, they run again."""
    cdef bint begins = capture is not None
    if begins:
        replace_capture(queue, capture)
    with nogil:
        set_captured(queue.state, begins)
    replace_capture(queue, capture)


cdef int replace_capture(Queue queue, object capture) except -1:
    with cython.critical_section(queue):
        capture, queue.captured_by = queue.captured_by, capture  # so that the old one is released outside
    return 0


def stop_checking(Queue queue) -> None:
    with nogil:
        set_slow_path(queue.state, BY_CHECK, False)


def watch(Queue queue, watched: bool) -> None:
    """Begin or stop reporting what memory the queue's commands use to the watcher of `watch_uses`."""
    cdef bint wanted = watched
    with nogil:
        set_slow_path(queue.state, BY_WATCH, wanted)


def clock_of(Queue queue) -> dict[int, int]:
    """Return the epochs, by queue id, that it is ordered after and that are not known to be done."""
    cdef ClockRef clock
    cdef vector[ClockEntry] entries
    cdef Guard guard
    shown: dict[int, int] = {}
    with nogil:
        guard.take(queue.state.lock)
        clock = <Clock*> queue.state.order.clock
        guard.leave()
    list_entries(clock, entries)
    for entry in entries:
        if entry.epoch > completed_epoch(entry.queue):
            shown[entry.queue.queue_id] = max(entry.epoch, shown.get(entry.queue.queue_id, 0))
    return shown


def note_unseen_wait(Queue queue) -> None:
    if is_checked(queue.state):
        races.wait_for_unseen(order_of(queue))


cdef int join_step(Queue queue, object waited_for) except -1:
    """Let a queue that waited for another queue, or for its event, join the step that the other is in."""
    cdef Event event
    cdef Ref[Marker] marker
    if isinstance(waited_for, Queue):
        step = waited_for._step
        if step is not None:
            step._join(queue, waited_for, None)
        return 0
    event = waited_for
    with cython.critical_section(event):
        producer, marker = queue_of(event), marker_of(event)
    step = None if producer is None else producer._step
    if step is not None:
        step._join(queue, producer, marker.get().epoch)
    return 0


@cython.no_gc_clear
cdef class Queue(AnyQueue):
    """An in-order queue of one device; HIP calls it a stream.

    `Device.queue` and `Device.adopt_queue` make queues; calling the class raises. Any thread may use a queue: each
    command is atomic. Queues that are the same queue compare equal, as the null queues of two Devices of one name.
    ``with queue:`` makes it the thread's current queue; leaving the block does not close it.

    Attributes
    ----------
    device : Device
    priority : int
        The priority that the driver granted: lower is more urgent, 0 is normal.
    native : object
        The driver's own queue: a `pyopencl.CommandQueue`, a `dpctl.SyclQueue`, or Level Zero's handle of a command
        list. forebay does not see what is submitted there directly, unless the queue is `adopted`.
    """

    def __init__(self, *args: Never, **kwargs: Never) -> None:
        raise ArgumentTypeError("a Queue is made by Device.queue")

    def __dealloc__(self):
        # Its work goes on. The device's registry keeps the state until that is done.
        if is_forked():
            Py_INCREF(self.native)  # it is the parent's
        elif self.state != NULL and self.state.is_null:
            release(self.state)
        elif self.state != NULL:
            retire_queue(self.state)

    def __eq__(self, other: object, /) -> bool:
        if not isinstance(other, Queue):
            return NotImplemented
        return self.state == (<Queue> other).state

    def __hash__(self) -> int:
        return hash(<uintptr_t> self.state)

    # -- properties

    @property
    def id(self) -> int:
        """A number that no other queue of this process ever has."""
        return self.state.epochs.queue_id

    @property
    def blocking(self) -> bool:
        """Whether it is ordered against the null queue (HIP: made without hipStreamNonBlocking)."""
        return self.state.blocking

    @property
    def is_null(self) -> bool:
        """Whether this is the device's null queue."""
        return self.state.is_null

    @property
    def timing(self) -> bool:
        """Whether events recorded here can be timed."""
        return self.state.made.timing

    @property
    def adopted(self) -> bool:
        """Whether other packages submit to it too: see `Device.adopt_queue`."""
        return self.state.adopted

    @property
    def checked(self) -> bool:
        """Whether its commands are checked for races: see `Device.races`."""
        return self.state.slow_path & BY_CHECK != 0

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return is_closed(self.state)

    @property
    def __cuda_stream__(self) -> Callable[[], tuple[int, int]]:
        """Lets cuda.core, CuPy and others use this queue as their stream. Only queues of CUDA devices have it.

        forebay does not see what they submit. To order that with other queues, adopt a stream of theirs.
        """
        name = "__cuda_stream__"
        shown = self.device.driver.queue_interface(name, self.native)
        if shown is None:
            raise AttributeError(f"queues of {self.device.name} have no {name}", name=name, obj=self)
        return shown

    @property
    def empty(self) -> bool:
        """Whether everything submitted is known to be done: two loads, no lock, no driver call. See `query`.

        Always False for an adopted queue, which may have received commands that forebay did not see.
        """
        if not is_empty(self.state.epochs) or self.state.adopted:
            return False
        if is_checked(self.state):
            reach(races.past_of(self.state.epochs.queue_id, ALONE).get())
        return True

    @property
    def epoch(self) -> int:
        """The number of commands submitted so far."""
        return self.state.epochs.submitted.load()

    @property
    def completed(self) -> int:
        """The highest epoch known to be done."""
        return self.state.epochs.completed.load()

    @property
    def stats(self) -> Stats:
        """The counters of this queue, a `Stats`."""
        return stats_of(self.state.counts)  # without the lock, as in `device_statistics`

    # -- commands

    def _bind(self, Kernel kernel, grid: Grid, block: Grid, tuple args) -> BoundLaunch:
        self._check_open()
        return bind(self, self.state, kernel, grid, block, args)

    # For type checkers: `launch_definition` replaces both and has the documentation.
    @overload
    def launch(self, kernel: Kernel, grid: Grid, block: Grid, /, *args: Any, result: DTypeLike) -> Result: ...

    @overload
    def launch(self, kernel: Kernel, grid: Grid, block: Grid, /, *args: Any, result: None = None) -> None: ...

    def copy(self, dst: Buffer | StridedView | HostBuffer, src: Buffer | StridedView | HostBuffer) -> None:
        """Copy all of `src` to `dst`: buffers, or C-contiguous host memory.

        Host memory is a NumPy array, a tensor of PyTorch (``__dlpack__``) or anything with a buffer. Both sides must
        have the same number of bytes, and nothing is converted. Elements that differ in size, or in being integers or
        floating-point numbers, are refused, unless one side is bytes or structures (use ``.view`` to copy the bytes).

        A pageable source is staged and may be reused as soon as this returns. A pageable destination is kept alive, and
        holds the result once the copy is done, after `finish` or an event; on Level Zero the call waits for that, as in
        CUDA. Pinned memory (`forebay.host_empty`) is not staged: do not read or write it before the copy is done.

        A source in host memory may have any strides. If an end is a `StridedView`, both have one shape, and a kernel
        copies; the other end may be host memory only as the source.

        Otherwise it does not wait for the copy, but may block while pageable memory is staged. Other threads run while
        the host copies many bytes; whether the copy sees what they write to the source meanwhile is unspecified.

        Raises ArgumentTypeError, InvalidArgumentError, ClosedError and DriverError.
        """
        if (capture := capture_of(self)) is None or not capture.copy(self, dst, src):
            copy(self, self.state, dst, src)

    def fill(self, buf: Buffer, value: Any) -> None:
        """Set every element of `buf` to `value`, converted to its dtype.

        Raises
        ------
        InvalidArgumentError
            When the value does not fit the dtype. In a capture, also when the device cannot fill with it: the value
            must repeat every 1, 2, 4, … or 128 bytes, and the part begin at a multiple of that (OpenCL 3.0,
            clEnqueueFillBuffer). Outside a capture, copies replace such a fill.
        ClosedError, DriverError
        """
        if (capture := capture_of(self)) is None or not capture.fill(self, buf, value):
            fill(self, self.state, buf, value)

    def alloc(self, shape: ShapeLike, dtype: DTypeLike = "f4") -> Buffer:
        """Allocate a buffer from the device's `pool` for later commands on this queue (HIP, hipMallocAsync).

        Other queues may use it after a wait for this one. Memory freed on this queue is reused at once. Memory freed on
        another queue is reused when this queue is ordered after the free, or when the free is done. Otherwise the pool
        grows. Only when it must not grow any more, this queue is made to wait for the free (CUDA's rule for internal
        dependencies; see `MemoryPool`). A buffer that is dropped or closed instead of freed returns to the pool once
        its uses are done. In a capture it becomes a node (`Graph.add_alloc`). Blocks only as `Device.empty`.

        Parameters
        ----------
        shape : int or tuple of int
        dtype : numpy dtype, "f4" by default

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError, OutOfMemoryError, ClosedError, DriverError
        """
        if (capture := capture_of(self)) is None or (buffer := capture.alloc(self, shape, dtype)) is None:
            if is_closed(self.state):
                self._check_open()
            buffer = (<MemoryPool> self.device.pool).alloc(self.device, self, self.state, shape, dtype)
        return buffer

    def free(self, buf: Buffer) -> None:
        """Free `buf`, memory of `alloc`, after all commands submitted to this queue so far (HIP, hipFreeAsync).

        Later commands cannot use the buffer or its views; earlier ones still do. The memory may come from another
        queue's `alloc`. This queue must first `wait` for its uses on other queues. A graph that allocated the memory
        can be launched again after the free. In a capture the free becomes a node. Does not block.

        Raises
        ------
        ClosedError
            When the buffer was freed or closed before.
        InvalidArgumentError
            When the buffer is not from `alloc`, belongs to another device, or is a graph's memory and not in use.
        ArgumentTypeError, DriverError
        """
        if (capture := capture_of(self)) is None or not capture.free(self, buf):
            if is_closed(self.state):
                self._check_open()
            free(self, self.state, buf)

    def host(self, function: Callable[[], object]) -> None:
        """Call ``function()`` on forebay's host thread when the queue reaches it. The queue waits until it returns.

        The function may submit work but must not wait for any, nor close a device. Host functions run one at a time. If
        it raises, the next `finish` of this queue or its device, or the next `wait` for an event of this queue, raises
        that exception. If none follows, `sys.unraisablehook` gets it when the device is closed or gone, or the
        interpreter ends. Blocks only while the queue may be full behind another host function.

        Raises ArgumentTypeError when `function` is not callable.
        """
        if not callable(function):
            raise ArgumentTypeError(f"host() needs something to call, not {type(function).__name__}")
        if (capture := capture_of(self)) is None or not capture.host(self, function):
            submit_host_function(self, self.state, function)

    def gate(self) -> Gate:
        """Hold the queue until the returned gate is opened (OpenCL: a user event). Does not block.

        Later commands of this queue, and what waits for them, run after that. A host wait for any of them blocks until
        another thread opens the gate. Dropping the last reference to the gate opens it.
        """
        return submit_gate(self, self.state)

    # -- order

    @overload
    def record(self, event: IpcEvent) -> IpcEvent: ...

    @overload
    def record(self, event: Event | None = None, timing: bool = False) -> Event: ...

    def record(self, event: Any = None, timing: bool = False) -> Any:
        """Mark this point of the queue. Returns the event.

        Parameters
        ----------
        event : Event or IpcEvent, optional
            The event to record again; by default a new one is made. An event made with timing is recorded with timing.
        timing : bool
            Whether `Event.elapsed` can use the event. A timed record is its own command, and needs a queue with timing,
            which every queue has where that is free (see `Device`).
        """
        return record(self, self.state, self.device, capture_of(self), event, timing)

    def wait(self, event_or_queue: Event | Queue | IpcEvent | None = None) -> None:  # None: see setup.py
        """Let later commands of this queue start only when the event, or all work of the other queue so far, is done.

        Does not block. Makes no driver call for an event that was never recorded or is done, or that this queue is
        already ordered after. A `dpctl.SyclEvent` is asked at once whether it is done.

        Parameters
        ----------
        event_or_queue : Event, Queue, IpcEvent or SyclEvent
            Of a device in the same context; a SyclEvent for a queue of a SYCL device.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError, ClosedError
        CaptureIsolationError, CaptureMergeError
            When one of the two is captured and the other is not, or by another capture.
        """
        if is_closed(self.state):
            self._check_open()
        if isinstance(event_or_queue, Event):
            wait_for_event(self, self.state, capture_of(self), event_or_queue)
        elif isinstance(event_or_queue, Queue):
            if event_or_queue is not self:
                wait_for_queue(
                    self, self.state, capture_of(self), event_or_queue, (<Queue> event_or_queue).state,
                    capture_of(event_or_queue))
        else:
            wait_for_foreign(self, self.state, event_or_queue, next(_ids))
            return
        if open_step_count.load(memory_order_relaxed):
            join_step(self, event_or_queue)

    def query(self) -> bool:
        """Return whether everything submitted is done. Asks the driver, never blocks (HIP, hipStreamQuery).

        On the null queue this covers the blocking queues too. Raises DriverError when the driver reports a failure.
        """
        if is_closed(self.state):
            self._check_open()
        check_may_wait(self, "query of")
        return wait_checked(self, self.state, True, None) if is_checked(self.state) else query_queue(self, self.state)

    def finish(self, timeout: SupportsFloat | None = None) -> None:
        """Block until everything submitted so far is done.

        Takes one host synchronize, or none when the work is known to be done. The null queue finishes the blocking
        queues too (HIP, hipStreamSynchronize of the null stream).

        Parameters
        ----------
        timeout : float, optional
            Seconds. With a timeout, Ctrl-C is delivered at once; without, only when finish returns.

        Raises
        ------
        TimeoutError
            When the work is not done by then. The queue is unchanged.
        DriverError
            When the driver reports a failure.
        Exception
            Whatever a host function of this queue raised.
        """
        if is_closed(self.state):
            self._check_open()
        if is_captured(self) or captures_under_way():
            check_may_wait(self, "finish of")
        if on_host_thread():
            refuse_on_host_thread("Queue.finish()")
        if is_checked(self.state):
            wait_checked(self, self.state, False, timeout)
        else:
            finish_queue(self, self.state, timeout)
        after_wait(self.device, self)

    async def finished(self) -> None:
        """Wait in an asyncio event loop for everything submitted so far: ``await queue.finished()``.

        Work counts if submitted before the coroutine starts. The loop's other tasks go on, and no thread waits. Raises
        DriverError, or what a host function of this queue raised, as `finish`.
        """
        await self.record()

    # -- capture

    def capture(self, mode: str = "global") -> Capture:
        """Capture a graph: inside ``with queue.capture() as graph:`` commands become nodes of the graph and do not run.

        Launches, copies, fills, host functions and graph launches are captured. Records and waits become dependencies.
        Another queue of the device joins by waiting for an event recorded in the capture, or for the captured queue.
        The captured queue must wait for it again before the end. An exception that leaves the block discards it.

        While a blocking queue is captured, the null queue cannot be used. Synchronizing with or querying a captured
        queue is an error. Both invalidate the capture, as does all that it cannot record (hipStreamBeginCapture).

        Parameters
        ----------
        mode : "global", "thread_local" or "relaxed"
            Whether operations that might wait for a captured queue are an error in every thread, in this one, or in
            none: `Device.empty` and its like, and `finish` and `query` of other queues. `Device.finish` always is.

        Returns
        -------
        context manager
            Entering it returns a `Graph`, which can be used once the block has ended.

        Raises
        ------
        CaptureError, NotSupportedError
            On entering: for a queue that is captured already, the null queue, and adopted queues.
        CaptureInvalidatedError, CaptureUnjoinedError, CaptureWrongThreadError
            On leaving, when the capture gives no graph. The queues can be used again.
        """
        return self.device._capturing(self, mode)

    def begin_capture(self, mode: str = "global") -> None:
        """Begin a capture that lasts until `end_capture` (HIP, hipStreamBeginCapture). `mode` is as in `capture`."""
        self.device._capturing(self, mode).__enter__()

    def end_capture(self) -> Graph:
        """End the capture that `begin_capture` began.

        Raises
        ------
        CaptureError
            When the queue is not captured. The derived errors CaptureUnmatchedError, for a queue that joined, and
            CaptureWrongThreadError leave the capture unchanged.
        CaptureInvalidatedError, CaptureUnjoinedError
            When the capture gives no graph. It has ended.
        """
        self._check_open()
        capture = capture_of(self)
        if capture is None:
            raise CaptureError(f"{self!r} is not captured")
        return capture.end(self)

    @property
    def capturing(self) -> bool:
        """Whether its commands become nodes of a graph. Also True in an invalidated capture, until it is ended."""
        return is_captured(self)

    # -- steps

    def step(self) -> Step:
        """Make a `Step`: ``with step:`` around a repeated section of a program submits its launches at less cost.

        Does not block. Raises ClosedError.
        """
        self._check_open()
        return self.device._new_step(self)

    def _refuse_in_capture(self, what: str) -> None:
        capture = capture_of(self)
        if capture is not None:
            capture.refuse(f"{what} on {self!r}")

    # -- life

    def close(self) -> None:
        """Refuse further commands. Submitted commands still run in order, and events recorded here stay valid.

        May be called twice. Raises InvalidArgumentError for the null queue, which is closed with its device.
        """
        cdef Status status
        if is_closed(self.state):
            return
        if self.state.is_null:
            if self.device.closed:
                return
            raise InvalidArgumentError("the null queue lives as long as its device: close the Device")
        capture = capture_of(self)
        if capture is not None:
            capture.lose(self)
        with nogil:
            status = close_queue(self.state)
        collect_queue(self.state)
        if status != 0:
            self._raise(status, "close")

    def __enter__(self) -> Self:
        self._check_open()
        self.device._context.entered.queues.append(self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        entered = self.device._context.entered.queues
        if not entered or entered[-1] is not self:
            raise Error(f"{self!r} is not this thread's current queue")
        entered.pop()

    cpdef int _check_open(self) except -1:
        if is_closed(self.state):
            raise self.device._unusable(self)
        return 0

    def _raise(self, status: int, what: str) -> None:
        if status == QUEUE_CLOSED:
            raise self.device._unusable(self)
        if status == NULL_FORBIDDEN:
            refuse_null(self.device, f"{what} on {self!r}")
        if status == QUEUE_CAPTURED:
            raise CaptureUnsupportedError(f"{what} on {self!r}: it is captured")
        self.device._raise(status, f"{what} on {self!r}")

    def __repr__(self) -> str:
        kind = "null queue" if self.state.is_null else "queue" if self.state.blocking else "non-blocking queue"
        return f"<forebay.Queue: {kind} {self.id} of {self.device.name}>"


# -- how Python calls a launch: ``queue.launch(kernel, grid, block, …)`` and ``kernel[grid, block, queue](…)``. Both
# take the arguments as CPython passes them: a Cython method would first put them into a tuple, 40 ns a launch.


cdef extern from "Python.h":
    ctypedef void (*PyCFunction)()
    ctypedef struct PyMethodDef:
        const char* ml_name
        PyCFunction ml_meth
        int ml_flags
        const char* ml_doc
    ctypedef struct PyTypeObject:
        PyObject* tp_dict
    int METH_FASTCALL
    int METH_KEYWORDS
    object PyDescr_NewMethod(PyTypeObject*, PyMethodDef*)
    void PyType_Modified(PyTypeObject*)


# -- queue.launch(…)


cdef bint captured_launch(
    Queue queue, Kernel kernel, object grid, object block, PyObject* const* arguments, Py_ssize_t count
) except -1:
    """Capture the launch of a kernel that is not plain. Returns whether it became part of a graph."""
    cdef Py_ssize_t i
    capture = capture_of(queue)
    if capture is None or kernel.closed:
        return False
    given = list_of(arguments, count)
    taking = [i for i in range(kernel.count) if not kernel.left_out[i]]
    for i, argument in zip(taking, given):
        if kernel.layout[i].kind == POINTER and (
            isinstance(argument, np.ndarray) or is_foreign(argument, kernel.device.driver)
        ):
            return False  # the caller launches with Buffers instead, which comes here again
    return capture.launch(queue, kernel, grid, block, tuple(given))


cdef int refuse_without_grid(list given, tuple keywords) except -1:
    name, parameters = "kernel", "*args"
    if given and isinstance(given[0], Kernel):
        kernel = given[0]
        name = f"program[{kernel.name!r}]"
        parameters = ", ".join([each.name for each in kernel.parameters if each.name not in kernel.scratch_names])
    named = f", and by name, which it does not take, {', '.join(keywords)}" if keywords else ""
    raise ArgumentTypeError(
        f"launch needs a kernel, grid and block, and then the kernel's arguments ({len(given)} given{named}): "
        f"queue.launch({name}, grid, block, {parameters}), where grid counts groups and block the work-items of each")


cdef object launch_not_plain(
    Queue queue, Kernel kernel, object grid, object block, PyObject* const* arguments, Py_ssize_t count,
    PyObject* keywords
):
    """Launch a kernel that is not plain, or one with keywords, whose values come after the arguments."""
    if keywords != NULL:
        if <tuple> keywords != ("result",):
            raise ArgumentTypeError(
                f"launch takes the keyword result only, not {', '.join(<tuple> keywords)}: a kernel's arguments go by "
                "their order, and the queue is the one whose launch is called")
        if <object> arguments[count] is not None:
            queue._refuse_in_capture(
                "launch with result= (pass a Buffer, and copy it to an array, to read after each run)")
            return launch_for_result(queue, kernel, grid, block, list_of(arguments, count), <object> arguments[count])
    if kernel.plain:
        launch(queue, queue.state, kernel, grid, block, arguments, count)
    elif not captured_launch(queue, kernel, grid, block, arguments, count):
        launch_with_scratch(queue, queue.state, kernel, grid, block, arguments, count)
    return None


cdef object launch_method(object self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords):
    cdef PyObject* kernel  # these three are borrowed from the caller
    cdef PyObject* grid
    cdef PyObject* block
    if count < 3:
        refuse_without_grid(list_of(arguments, count), <tuple> keywords if keywords != NULL else ())
    kernel, grid, block = arguments[0], arguments[1], arguments[2]
    if type(<object> kernel) is not Kernel:
        raise ArgumentTypeError(
            f"launch needs a Kernel, not {type(<object> kernel).__name__}: queue.launch(program['name'], grid, block, "
            "*args)")
    if keywords != NULL or not (<Kernel> kernel).plain:
        return launch_not_plain(
            self, <Kernel> kernel, <object> grid, <object> block, arguments + 3, count - 3, keywords)
    launch(self, (<Queue> self).state, <Kernel> kernel, <object> grid, <object> block, arguments + 3, count - 3)
    return None


cdef PyMethodDef launch_definition
launch_definition.ml_name = "launch"
launch_definition.ml_meth = <PyCFunction> launch_method
launch_definition.ml_flags = METH_FASTCALL | METH_KEYWORDS
launch_definition.ml_doc = b"""launch($self, kernel, grid, block, /, *args, result=None)
--

Launch `kernel` on `grid` groups of `block` work-items each.

Parameters
----------
kernel : Kernel
grid, block : int or tuple of 1 to 3 int
    Groups, and work-items per group, as in HIP; not OpenCL's global size.
*args
    One for each parameter that is not scratch (`Kernel.scratch`): a `Buffer` or ``fb.NULL`` for a pointer; a number for
    a scalar; anything with the buffer protocol and the right size (NumPy values, bytes, ctypes structures) for a vector
    or structure; ``fb.local(nbytes)`` for local memory. A pointer also takes bytes by value (``fb.by_value``) or a
    NumPy array. An array is copied in on this queue, and out again when it is writable and the pointer is not const.
    Elements must have the size and kind, integer or floating-point, that the pointer points to. Bytes, structures and
    unknown types match any pointer.
result : numpy dtype, optional
    The type that the last parameter points to. Leave this parameter out of the arguments: the kernel writes one value
    of the type there.

Returns
-------
Result or None
    With `result`, the value on its way to the host.

Notes
-----
In a capture the launch becomes part of the graph. Arrays are read and written, and scratch is sized by the data, each
time the graph runs.

Waits for the kernel only when an array must be copied out or scratch must be measured. Otherwise it blocks only while
the driver's queue is full, without the GIL.

Raises
------
ArgumentTypeError, InvalidArgumentError, ClosedError
    Before the driver sees anything; the queue is unchanged. For elements of another type, pass `Buffer.view`.
OutOfMemoryError
    When there is no memory for scratch, arguments or results. Nothing was submitted.
DriverError
    When the driver refuses the launch: it was not submitted. Bytes by value may have been copied for it.
"""


# Replaces what the class declares for type checkers
cdef PyTypeObject* queue_type = <PyTypeObject*> Queue
(<dict> queue_type.tp_dict)["launch"] = PyDescr_NewMethod(queue_type, &launch_definition)
PyType_Modified(queue_type)


# -- kernel[grid, block](…)


@cython.freelist(8)
cdef class Launcher:
    """A kernel with grid, block and queue: ``kernel[grid, block]``. Calling it is `Queue.launch` with these."""

    cdef vectorcallfunc vectorcall
    cdef Kernel kernel
    cdef object grid
    cdef object block
    cdef Queue queue

    def __init__(self, *args: Never, **kwargs: Never) -> None:
        raise ArgumentTypeError("a Launcher comes from a Kernel: kernel[grid, block]")

    def __call__(self, *args: Any, **keywords: Any) -> object:
        """Launch. See `Queue.launch`."""
        return self.queue.launch(self.kernel, self.grid, self.block, *args, **keywords)

    def __repr__(self) -> str:
        return f"{self.kernel!r}[{self.grid!r}, {self.block!r}, {self.queue!r}]"


cdef object configure(Kernel kernel, tuple given):
    cdef Launcher launcher
    queue = given[2] if len(given) == 3 else kernel.device.current_queue
    if type(queue) is not Queue:
        check_queue(queue)
    launcher = Launcher.__new__(Launcher)
    launcher.vectorcall = <vectorcallfunc> call_launcher
    launcher.kernel = kernel
    launcher.grid = given[0]
    launcher.block = given[1]
    launcher.queue = queue
    return launcher


cdef object call_launcher(Launcher launcher, PyObject* const* arguments, size_t flags, PyObject* keywords):
    cdef Py_ssize_t count = PyVectorcall_NARGS(flags)
    cdef PyObject* kernel = <PyObject*> launcher.kernel  # the caller keeps the Launcher, which keeps this
    if keywords != NULL or not (<Kernel> kernel).plain:
        return launch_not_plain(
            launcher.queue, <Kernel> kernel, launcher.grid, launcher.block, arguments, count, keywords)
    launch(launcher.queue, launcher.queue.state, <Kernel> kernel, launcher.grid, launcher.block, arguments, count)
    return None


cdef Launcher probe = Launcher.__new__(Launcher)
enable_vectorcall(probe, &probe.vectorcall)
probe = None
kernel_module.configure = configure
