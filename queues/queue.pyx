"""Queues: commands of one queue run in the order they were submitted in."""

import importlib
import itertools
import time

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport PyObject
from libc.stdint cimport uintptr_t

from penstock.events.anchors cimport collect_device, collect_queue
from penstock.events.event cimport Event, new_event, set_marker
from penstock.events.marker cimport Marker, release_marker, retain_marker
from penstock.queues.bound cimport bind
from penstock.queues.buffer cimport Buffer, note_write
from penstock.queues.copies cimport copy, copy_to_staging
from penstock.queues.driver cimport FOR_DEVICE, FOR_HOST, QUEUE_CLOSED, TIMED, Status
from penstock.queues.host_functions cimport submit_gate, submit_host_function
from penstock.queues.kernel cimport Kernel
from penstock.queues.launch cimport launch, list_of
from penstock.queues.scratch cimport launch_with_scratch
from penstock.queues.state cimport (
    DeviceState, QueueState, Statistics, new_queue_state, release_queue_state
)
from penstock.sync.clock cimport Clock, release_clock, retain_clock
from penstock.sync.epochs cimport is_empty
from penstock.sync.finish cimport finish_queue, mark_for_closing, query_queue
from penstock.sync.ordering cimport (
    Order, abort_command, begin_command, commit_command, record_marker, wait_for_marker, waits_of
)

from penstock.queues.errors import ArgumentTypeError, ClosedError, InvalidArgumentError, TimeoutError
from penstock.queues.host_functions import refuse_on_host_thread
from penstock.queues.layout import convert
from penstock.queues.results import launch_for_result
from penstock.queues.stats import Stats

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

_ids = itertools.count(1)


cdef Queue new_queue(
    object device, DeviceState* state, object native, size_t handle, bint is_null, bint blocking, bint timing,
    bint adopted, object priority
):
    cdef Queue queue = Queue.__new__(Queue)
    queue.state = new_queue_state(state, <void*> <uintptr_t> handle, next(_ids), is_null, blocking, timing, adopted)
    queue.device = device
    queue.priority = priority
    queue.native = native
    return queue


cdef object stats_of(const Statistics& counts, object allocations=0):
    return Stats(
        counts.launches, counts.copies, counts.fills, counts.host_functions, counts.markers_made,
        counts.markers_shared, counts.waits_made, counts.waits_elided_completed, counts.waits_elided_ordered,
        counts.events_made, counts.host_syncs, counts.arg_bytes_set, counts.arg_bytes_skipped, counts.reductions,
        allocations)


@cython.no_gc_clear
cdef class Queue:
    """An in-order queue of one device; HIP calls it a stream.

    Made by `Device.queue` and `Queue.from_dpctl`; calling the class raises. Any thread may use it: each command is
    atomic. Two queues are equal when they are the same object. ``with queue:`` makes it the thread's current queue and
    closes nothing.

    Attributes
    ----------
    device : Device
    priority : int
        As the driver granted it: lower is more urgent, 0 is normal.
    """

    def __init__(self, *args, **kwargs):
        raise ArgumentTypeError("a Queue is made by Device.queue")

    @staticmethod
    def from_dpctl(queue, blocking=True):
        """Adopt an in-order queue of dpctl: what is launched here comes after what dpctl or dpnp submitted to it, and
        the other way round.

        Its device is the `Device` for its context, made if there is none. It is always taken to have new work, so
        each wait for it takes a marker of its own, and it is never `empty`. What dpctl submits waits for nothing of
        penstock's but what was submitted to this very queue. Host functions need a queue of penstock's own.

        Parameters
        ----------
        queue : dpctl.SyclQueue
            Made with ``property="in_order"``. Closing the Queue leaves it as it is.
        blocking : bool
            Whether it is ordered against its device's null queue.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError
            When it is no such queue, or runs out of order.
        NotSupportedError
            When dpctl is not installed, or the device has no USM memory.
        """
        return importlib.import_module("penstock.queues.sycl.adoption").adopt(queue, blocking)

    def __dealloc__(self):
        # The work goes on; the device's registry keeps what is below until it is done.
        if self.state != NULL:
            self.state.device.orphans.fetch_add(1)
            release_queue_state(self.state)

    # -- what it is

    @property
    def id(self):
        """A number no other queue of this process has or will have."""
        return self.state.epochs.queue_id

    @property
    def blocking(self):
        """Whether it is ordered against the null queue (HIP: made without hipStreamNonBlocking)."""
        return self.state.blocking

    @property
    def is_null(self):
        """Whether it is its device's null queue."""
        return self.state.is_null

    @property
    def timing(self):
        """Whether events recorded here can be timed."""
        return self.state.timing

    @property
    def closed(self):
        """Whether it was closed."""
        return self.state.closed

    @property
    def empty(self):
        """Whether everything submitted is known to be done: two loads, no lock, no driver call. See `query`.

        Never of an adopted queue, which may have got commands that penstock did not see.
        """
        return is_empty(self.state.epochs) and not self.state.adopted

    @property
    def epoch(self):
        """The number of commands submitted so far."""
        return self.state.epochs.submitted.load()

    @property
    def completed(self):
        """The highest epoch known to be done."""
        return self.state.epochs.completed.load()

    @property
    def _clock(self):
        """What it is ordered after and not known to be done: epochs by queue id; for tests."""
        cdef Clock* clock
        cdef size_t i
        with nogil:
            self.state.lock.lock()
            clock = retain_clock(self.state.clock)
            self.state.lock.unlock()
        try:
            return {
                clock.entries[i].queue.queue_id: clock.entries[i].epoch
                for i in range(0 if clock == NULL else clock.entries.size())
            }
        finally:
            with nogil:
                release_clock(clock)

    @property
    def stats(self):
        """The counters of this queue, a `Stats`."""
        cdef Statistics counts
        with nogil:
            self.state.lock.lock()
            counts = self.state.counts
            self.state.lock.unlock()
        return stats_of(counts)

    # -- commands

    # launch(kernel, grid, block, *args) is added below the class

    def _bind(self, Kernel kernel, grid, block, tuple args):
        self._check_open()
        return bind(self, self.state, kernel, grid, block, args)

    def copy(self, dst, src):
        """Copy all of `src` to `dst`: buffers, or C-contiguous host memory (NumPy arrays, anything with a buffer).

        Both have the same number of bytes; dtypes are not looked at. Host memory that is pageable may be reused as soon
        as this returns when it is the source: its bytes are staged. As destination it holds the result once the copy is
        done, after `finish` or an event, and is kept alive until then; on Level Zero the call waits for that, as in
        CUDA. Pinned memory (`penstock.host_empty`) is not staged: neither read nor write it before the copy is done.

        Does not wait for the copy, but may block while the driver stages pageable memory.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError, ClosedError, DriverError
        """
        copy(self, self.state, dst, src)

    def _copy_to_staging(self, staged, Buffer src):
        """An Event that is done when it is there."""
        return copy_to_staging(self, self.state, staged, src)

    def fill(self, buf, value):
        """Set every element of `buf` to `value`, converted to its dtype.

        Raises
        ------
        InvalidArgumentError
            When the value does not fit the dtype, or an element has a size the device cannot fill with (OpenCL: a power
            of two up to 128 bytes).
        ClosedError, DriverError
        """
        cdef Order order
        cdef Status status
        cdef QueueState* state = self.state
        if not isinstance(buf, Buffer):
            raise ArgumentTypeError(f"fill() needs a Buffer, not {type(buf).__name__}")
        cdef Buffer buffer = buf
        self._check_buffer(buffer, "buf")
        pattern = self._pattern(buffer, value)
        cdef const unsigned char[::1] view = pattern
        cdef size_t size = len(pattern)
        if buffer.nbytes == 0:
            return
        with nogil:
            status = begin_command(state, &order)
            if status == 0:
                # the drivers copy the pattern before they return
                status = state.driver.fill(
                    state.handle, &buffer.memory, &view[0], size, buffer.nbytes, waits_of(&order), NULL)
                if status == 0:
                    state.counts.fills += 1
                    commit_command(state, &order)
                else:
                    abort_command(state, &order)
        if status != 0:
            self._raise(status, "fill")
        note_write(buffer, state)

    def alloc(self, shape, dtype="f4"):
        """A buffer from the device's `pool`, for commands that come later on this queue (HIP, hipMallocAsync).

        Other queues use it after a wait for this one. Memory freed here is handed out again at once; memory freed on
        another queue when this one is ordered after that, when it is known to be done, or after a wait that is
        inserted: the settings of `MemoryPool` say which. Dropped or closed instead of freed it goes back to the pool
        once everything submitted to the device until then is done.

        Parameters
        ----------
        shape : int or tuple of int
        dtype : numpy dtype, "f4" by default

        Does not block, except where `Device.empty` does.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError, OutOfMemoryError, ClosedError, DriverError
        """
        return self.device.pool._alloc(self, shape, dtype)

    def free(self, buf):
        """Give memory of `alloc` back in the order of this queue: after everything submitted to it (HIP, hipFreeAsync).

        Neither the buffer nor a view of it can be used any more, though what was submitted before still does. The
        memory may be from another queue: what uses it elsewhere is to be waited for first, with `wait`.

        Does not block.

        Raises
        ------
        ClosedError
            When it was freed or closed before.
        InvalidArgumentError
            When it is not from `alloc`, or belongs to another device.
        ArgumentTypeError, DriverError
        """
        self.device.pool._free(self, buf)

    def _pattern(self, Buffer buf, value):
        try:
            element = convert(value, buf.dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidArgumentError(f"fill: {value!r} does not fit {buf.dtype} ({error})") from None
        if element.ndim:
            raise InvalidArgumentError(f"fill needs one value, not an array of shape {element.shape}")
        pattern = element.tobytes()
        if len(set(pattern)) == 1:
            pattern = pattern[:1]
        if len(pattern) > 128 or len(pattern) & (len(pattern) - 1):
            raise InvalidArgumentError(
                f"fill: an element of {len(pattern)} bytes; the device fills with 1, 2, 4, … 128")
        return pattern

    def host(self, function):
        """Call ``function()`` on penstock's host thread when the queue gets there; the queue waits until it returns.

        It may submit work, but not wait for any. What it raises is raised by the next `finish` of this queue or of its
        device, or `wait` for an event of this queue. Host functions run one at a time.

        Does not block.
        """
        if not callable(function):
            raise ArgumentTypeError(f"host() needs something to call, not {type(function).__name__}")
        submit_host_function(self, self.state, function)

    def _gate(self):
        """Hold the queue until the returned gate is opened; for tests."""
        return submit_gate(self, self.state)

    # -- order

    def record(self, event=None, timing=False):
        """Mark this point of the queue.

        Parameters
        ----------
        event : Event, optional
            To be recorded again; a new one is made when not given. One made with timing is recorded with timing.
        timing : bool
            Whether the event can be used for `Event.elapsed`. Needs a queue made with timing; a timed record is a
            command of its own.

        Returns
        -------
        Event
        """
        cdef Marker* marker = NULL
        cdef Status status
        cdef bint timed = timing
        if event is None:
            event = new_event(self.device, self.state.device, timed)
        elif not isinstance(event, Event):
            raise ArgumentTypeError(f"record() needs an Event, not {type(event).__name__}")
        elif (<Event> event).state != self.state.device:
            raise InvalidArgumentError(f"record: this Event belongs to {event.device.name}, {self!r} does not")
        timed = timed or (<Event> event).timing
        if timed and not self.state.timing:
            raise InvalidArgumentError(
                f"record with timing on {self!r}: it was made without; use Device.queue(timing=True)")
        with nogil:
            status = record_marker(self.state, FOR_HOST | TIMED if timed else FOR_HOST, &marker)
        if status != 0:
            self._raise(status, "record")
        set_marker(event, marker, timed, self)
        return event

    def wait(self, event_or_queue):
        """What is submitted here from now on starts only when the event is done, or what was submitted to the queue.

        Does not block. Makes no driver call for an event that was never recorded, is done, or that this queue is
        already ordered after.
        """
        cdef Marker* marker = NULL
        cdef Status status
        cdef Queue producer
        self._check_open()
        if isinstance(event_or_queue, Event):
            if (<Event> event_or_queue).marker == NULL:
                return
            if (<Event> event_or_queue).state.driver != self.state.driver:
                raise InvalidArgumentError("wait: the event belongs to another driver's device")
            marker = retain_marker((<Event> event_or_queue).marker)
        elif isinstance(event_or_queue, Queue):
            producer = event_or_queue
            if producer is self:
                return
            if producer.state.driver != self.state.driver:
                raise InvalidArgumentError("wait: the queue belongs to another driver's device")
            with nogil:
                status = record_marker(
                    producer.state, FOR_DEVICE if producer.state.device == self.state.device else FOR_HOST, &marker)
            if status != 0:
                producer._raise(status, "wait")
        else:
            raise ArgumentTypeError(f"wait() needs an Event or a Queue, not {type(event_or_queue).__name__}")
        with nogil:
            status = wait_for_marker(self.state, marker)
            release_marker(marker)
        if status != 0:
            self._raise(status, "wait")

    def query(self):
        """Whether everything submitted is done; asks the driver, never blocks (HIP, hipStreamQuery).

        The null queue speaks for the blocking queues too.
        """
        cdef Status status
        cdef int reached = 0
        self._check_open()
        with nogil:
            status = query_queue(self.state, &reached)
        if status != 0:
            self._raise(status, "query")
        if reached < 0:
            self.device._raise_execution_error(reached, repr(self))
        return reached == 1

    def finish(self, timeout=None):
        """Block until everything submitted so far is done: one host synchronize, none when it is known to be.

        The null queue finishes the blocking queues too (HIP, hipStreamSynchronize of the null stream).

        Parameters
        ----------
        timeout : float, optional
            Seconds. Ctrl-C is delivered at once with a timeout, and when finish returns without.

        Raises
        ------
        TimeoutError
            When it is not done by then; the queue is as it was.
        DriverError
            When the driver reports a failure.
        Exception
            What a host function of this queue raised.
        """
        cdef Status status
        self._check_open()
        refuse_on_host_thread("Queue.finish()")
        if timeout is not None:
            self._finish_within(timeout)
        else:
            with nogil:
                status = finish_queue(self.state)
            if status != 0:
                self._raise(status, "finish")
        collect_queue(self.state)
        collect_device(self.state.device)
        self.device._synchronized(self)

    def _finish_within(self, timeout):
        if not hasattr(timeout, "__float__"):
            raise ArgumentTypeError(f"finish: timeout is a number of seconds, not {type(timeout).__name__}")
        timeout = float(timeout)
        if timeout != timeout:
            raise InvalidArgumentError("finish: timeout is nan, which never comes")
        end = time.monotonic() + timeout
        pause = 20e-6
        while not self.query():
            PyErr_CheckSignals()
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{self!r} is not done after {timeout} s")
            time.sleep(min(pause, left))
            pause = min(2 * pause, 1e-3)

    # -- life

    def close(self):
        """No more commands. What was submitted still runs, in order; events recorded here stay good. Twice is fine."""
        cdef Status status
        if self.state.closed:
            return
        if self.state.is_null and not self.device.closed:
            raise InvalidArgumentError("the null queue lives as long as its device: close the Device")
        with nogil:
            status = mark_for_closing(self.state)
        collect_queue(self.state)
        if status != 0:
            self._raise(status, "close")

    def __enter__(self):
        self._check_open()
        self.device._push_current(self)
        return self

    def __exit__(self, *exc_info):
        self.device._pop_current(self)

    def _check_open(self):
        if self.state.closed:
            raise ClosedError(f"{self!r} is closed")

    def _check_buffer(self, Buffer buffer, what):
        self._check_open()
        if buffer.allocation.closed:
            raise ClosedError(f"{what} is closed")
        if buffer.allocation.state != self.state.device:
            raise InvalidArgumentError(f"{what} belongs to {buffer.device.name}, {self!r} does not")

    def _raise(self, status, what):
        """The exception for a failed operation."""
        if status == QUEUE_CLOSED:
            raise ClosedError(f"{self!r} is closed")
        self.device._raise(status, f"{what} on {self!r}")

    def __repr__(self):
        kind = "null queue" if self.state.is_null else "queue" if self.state.blocking else "non-blocking queue"
        return f"<penstock.Queue: {kind} {self.id} of {self.device.name}>"


cdef object launch_method(object self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords):
    if count < 3:
        raise ArgumentTypeError(f"launch(kernel, grid, block, *args) takes at least 3 arguments ({count} given)")
    kernel = <object> arguments[0]
    if type(kernel) is not Kernel:
        raise ArgumentTypeError(f"launch needs a Kernel, not {type(kernel).__name__}")
    if keywords != NULL:
        if <tuple> keywords != ("result",):
            raise ArgumentTypeError(f"launch takes the keyword result only, not {', '.join(<tuple> keywords)}")
        return launch_for_result(
            self, kernel, <object> arguments[1], <object> arguments[2], list_of(arguments + 3, count - 3),
            <object> arguments[count])
    if (<Kernel> kernel).plain:
        launch(
            self, (<Queue> self).state, <Kernel> kernel, <object> arguments[1], <object> arguments[2], arguments + 3,
            count - 3)
    else:
        launch_with_scratch(
            self, (<Queue> self).state, <Kernel> kernel, <object> arguments[1], <object> arguments[2], arguments + 3,
            count - 3)
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
    One for each parameter that is not scratch (`Kernel.scratch`): a `Buffer` or None for a pointer, a number for a
    scalar, anything with the buffer protocol and the right size (NumPy values, bytes, ctypes structures) for a vector
    or structure, ``ps.local(nbytes)`` for local memory. A pointer also takes bytes by value (``ps.by_value``), and a
    NumPy array: copied in on this queue, and out again when it is writable and the pointer is not const.
result : numpy dtype, optional
    Of what the last parameter points to, which is left out of the arguments: the kernel writes one such value there.

Returns
-------
Result or None
    With `result`, the value on its way to the host.

Does not wait for the kernel, except when an array has to be copied out, and when scratch has to be measured. It blocks
only while the device's own queue is full, without the GIL.

Raises
------
ArgumentTypeError, InvalidArgumentError, ClosedError
    Before the driver sees anything; the queue is as it was.
OutOfMemoryError
    When there is no memory for scratch, arguments or results; nothing was submitted.
DriverError
    When the driver refuses; nothing was submitted.
"""


cdef void add_launch_method():
    # By hand, because a Cython method would put the arguments into a tuple first: 40 ns of a launch.
    cdef PyTypeObject* queue_type = <PyTypeObject*> Queue
    (<dict> queue_type.tp_dict)["launch"] = PyDescr_NewMethod(queue_type, &launch_definition)
    PyType_Modified(queue_type)


add_launch_method()
