"""Devices, which own queues, buffers, programs and events."""

import atexit
import logging
import math
import os
import threading
import time
import weakref
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

cimport cython
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint64_t, uintptr_t

from forebay.core.driver cimport INTERRUPTED, NO_MEMORY, Driver, Status
from forebay.core.ownership cimport Guard, Ref, Refs
from forebay.core.process cimport check_memory, is_forked, on_host_thread, raise_interrupt
from forebay.core.state cimport (
    DeviceState, QueueState, Statistics, captures_under_way, device_statistics, leave_to_parent,
    new_device_state, registered_queues, stats_of
)
from forebay.core.vector_clock cimport Clock, note_reached, submitted_epoch
from forebay.events.event cimport new_event, new_ipc_event
from forebay.lifetimes.deferred cimport (
    abandon, close_queues, collect_abandoned, collect_all, collect_device, refuse_all, release_idle_queues,
    retire_after, retire_queue, take_idle_queue, take_over_plans, take_spare
)
from forebay.queues.host_functions cimport HostErrors, wait_for_openings
from forebay.queues.kernels.kernel cimport new_kernel
from forebay.queues.launch.launch cimport GUARD
from forebay.queues.memory.allocation cimport (
    Allocation, OpenAllocations, OwnedMemory, expose, hold_memory, new_allocation, own_memory, pinned_memory_of
)
from forebay.queues.memory.buffer cimport Buffer, new_buffer
from forebay.queues.memory.pool cimport NO_MORE_THAN, Lease, MemoryPool, new_pool
cimport forebay.queues.queue as queue_module
from forebay.queues.queue cimport Queue, new_queue, new_queue_of
from forebay.races.checker cimport ALL, ALONE, change_checking, join as add_past, made, races
from forebay.sync.finish cimport finish_device, wait_for_retired
from forebay.sync.ordering cimport divide_capacity, enter_list, join_quota

from forebay.core.driver import AnyDevice, DeviceInfo, be
from forebay.core.errors import (
    ArgumentTypeError, DeviceLostError, DriverError, Error, InvalidArgumentError, NotSupportedError, OutOfMemoryError
)
from forebay.core.process import closed_error, end_calls, finished_before_exit, note_drivers, refuse_on_host_thread
from forebay.queues import selection
from forebay.queues.capture_rules import abandon_captures, refuse_synchronize, refuse_unsafe
from forebay.queues.graphs.capture import Capture
from forebay.queues.graphs.graph import Graph
from forebay.queues.graphs.step import Step
from forebay.queues.host_functions import stop as stop_host_functions
from forebay.queues.kernels.program import Program, compiled_source, languages_of, read_source
from forebay.queues.launch.results import Reductions
from forebay.queues.memory.allocation import made as devices_made, open_devices
from forebay.queues.memory.buffer import note_creation
from forebay.queues.memory.shapes import (
    Moves, host_array, name_of as name_of_type, read_dtype, read_int, read_shape, to_array
)
from forebay.races.launches import declare_move
from forebay.races.reports import begin_summary, found as found_races, read_check
from forebay.sync.ordering import end_watching

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence
    from typing import Any
    from typing_extensions import Never, Self
    from numpy.typing import ArrayLike, DTypeLike
    from forebay.core.driver import DriverDevice, DriverKernel, DriverMemory, BuiltProgram
    from forebay.core.stats import Stats
    from forebay.events.event import Event, IpcEvent
    from forebay.queues.memory.shapes import ShapeLike
    from forebay.queues.queue import Queue
    from forebay.races.reports import Race

log = logging.getLogger(__name__)

USM_TYPES = ("device", "shared", "host")
KEPT_FOR_LAUNCHES = 64 << 20  # bytes of memory for arrays and results that a synchronize does not give back


@cython.no_gc_clear
cdef class Device:
    """A device. It owns the queues, buffers, programs and events made for it.

    Devices of one name are one device, as in HIP: they share the driver's context and the null queue, and what belongs
    to one can be used with the other. Each has its own settings, counters, memory pool, per-thread queues and errors of
    host functions, and closes its own queues and buffers. What they share goes with the last.

    Parameters
    ----------
    filter : str, optional
        dpctl's filter words, any part of ``backend:type:index``: ``"opencl:cpu"``, ``"gpu:1"``, ``"cpu"``. Without a
        filter, the environment variable FOREBAY_DEVICE decides, else the preferred usable device is taken.
    timing : bool, optional
        Whether its queues can take timed records, if they are made without saying so. The default is the driver's: on
        where that costs nothing (Level Zero), and off where each command costs more for it (OpenCL: 5 to 9 % of the
        driver's call; SYCL). The null queue always takes them, because it is shared.
    debug : bool
        Whether each launch waits for the kernel, so that faults of order cannot show (`check` finds those; a warning
        in `logging` says so), and raises `OutOfBoundsError` when the kernel wrote behind the memory
        of a Buffer that was made by `empty`, `zeros` or `array` of this Device, or behind its scratch
        (`ScratchOverflowError`). A launch of a graph looks at scratch only, a bound launch at nothing. What a kernel
        reads, and what it writes within the memory of the Buffer that a view is part of, is not found.
    private : bool
        Whether it shares nothing with other Devices: a context and a null queue of its own, for tests.
        `adopt_queue` does not find it.
    check : str, optional
        ``"races"``: whether two commands use the same memory, one of them writing, that nothing in the program orders.
        Judged when they are submitted, by the program's order alone, and told in `races`. ``"races,error"`` raises
        `RaceError` instead of submitting the second. Concerns all queues of its context, until the last Device that
        asked for it is closed. Without it, the environment variable FOREBAY_CHECK decides; ``""`` checks nothing.

    Attributes
    ----------
    info : DeviceInfo
        What there was to know before it was opened: its names, its kind, its driver.
    driver : DriverDevice
        What its driver can do with it.
    timing, debug, private : bool
    check : str
        The settings it was made with.
    closed : bool
    pool : MemoryPool
        The pool from which `Queue.alloc` takes memory.

    Raises
    ------
    DeviceNotFoundError
        When no usable device matches. The message lists the devices.

    Notes
    -----
    Closing a device, also by ``with``, first finishes the work of its queues and of the null queue. Objects made for it
    keep it alive. A closed device without such objects is gone at once; one that was never closed goes when the garbage
    collector finds it.
    """

    cdef DeviceState* state  # the context's
    cdef uint64_t number  # no other Device of this process has it
    cdef object earlier  # Stats: what was counted before it was made, of what it shares
    cdef readonly Context _context
    cdef readonly OpenAllocations _open_allocations
    cdef readonly object info
    cdef readonly object driver
    cdef readonly bint timing
    cdef readonly bint debug
    cdef readonly bint private
    cdef readonly str check
    cdef readonly bint closed
    cdef readonly MemoryPool pool  # for `Queue.alloc`
    cdef readonly MemoryPool _launch_memory  # for arrays given to launches, for results and for scratch
    cdef object _null_queue
    cdef readonly object _thread_queues
    cdef readonly HostErrors _host_errors
    cdef object _reducing
    cdef tuple _told  # the races that there were when it was closed
    cdef object _moving
    cdef object _built  # what was compiled here for something that belongs to no device, by a weak reference to that
    cdef object _allocations
    cdef readonly object _peers  # the drivers of other devices whose memory its commands may use
    cdef object __weakref__

    info: DeviceInfo
    driver: DriverDevice
    _host_errors: HostErrors
    _thread_queues: ThreadQueues
    _peers: weakref.WeakSet[DriverDevice]

    def __init__(
        self, filter: str | None = None, *, timing: bool | None = None, debug: bool = False, private: bool = False,
        check: str | None = None,
    ) -> None:
        if self.state != NULL:
            raise Error("this Device is already made")
        check_flag(debug, "Device: debug")
        check_flag(private, "Device: private")
        if timing is not None:
            check_flag(timing, "Device: timing")
        open_device(self, lambda: context_of(filter, private), timing, check)
        if debug and not self.check:
            log.warning(
                "Device(debug=True) waits for each launch, so faults of order cannot show with it: they are found by "
                'Device(check="races")')
        self.debug = debug
        self.private = private

    @staticmethod
    def adopt(thing: object) -> Device:
        """Return a Device over a context of another package, to which its queues and memory then belong.

        Parameters
        ----------
        thing : pyopencl.Context or pyopencl.Device
            A context of one device: the result is the same Device each time, until it is closed, and is in that
            context. Or a device: then it is ``Device(name)`` of that device, in forebay's own context.

        Notes
        -----
        Blocks while the machine is examined, if nothing has done so before.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError
            When it is neither, or the context has several devices.
        NotSupportedError
            When the device cannot be used.
        """
        with _adopting:
            adopted = selection.adopt_device(thing, _drivers_open())
            return Device(adopted.name) if isinstance(adopted, DeviceInfo) else _device_over(adopted)

    @staticmethod
    def adopt_queue(queue: object, blocking: bool = True) -> Queue:
        """Adopt an in-order queue of another package. Its commands and those of forebay on it run in submission order.

        Its device is the Device of its context, which is made if there is none. The queue always counts as having new
        work, so each wait for it takes its own marker, and it is never `empty`. Work that the other package submits
        waits only for those commands of forebay that were submitted to this queue. Host functions need a queue of
        forebay's own where the package is dpctl. Does not block, but as `adopt` does.

        Parameters
        ----------
        queue : pyopencl.CommandQueue or dpctl.SyclQueue
            In order, which is pyopencl's default, and ``property="in_order"`` with dpctl. Closing the Queue does not
            change it.
        blocking : bool
            Whether it is ordered against its device's null queue.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError
            When it is not such a queue, or runs out of order, or its context has several devices.
        NotSupportedError
            When the device cannot be used, or has no USM memory (dpctl).
        """
        cdef Device device
        cdef Queue adopting
        cdef Guard guard
        check_flag(blocking, "adopt_queue: blocking")
        with _adopting:
            adopted = selection.adopt_queue(queue, _drivers_open())
            device = _device_over(adopted.device)
        adopting = new_queue(device, new_queue_of(
            device.state, queue, adopted.handle, device.number, False, blocking, adopted.timed, True, 0), queue)
        with nogil:
            guard.take(adopting.state.lock)
            enter_list(adopting.state)  # it may have work already
            guard.leave()
        return unless_closed(device, adopting)

    @staticmethod
    def _of(driver: DriverDevice) -> Device:
        """Make a Device of a `DriverDevice` that `selection.open_driver` did not open. It shares nothing."""
        cdef Device device = Device.__new__(Device)
        open_device(device, lambda: new_context(driver), None, None)
        return device

    def __del__(self) -> None:
        # No code can use the Device any more. Nothing here may block, and outstanding work goes on.
        if self.state != NULL and not self.closed and not is_forked():
            self._disband()

    def __dealloc__(self):
        cdef Guard guard
        if self.state != NULL and not is_forked():  # else another thread may have had the lock
            guard.take(self.state.registry.lock)
            self.state.registry.counts_of_ended.erase(self.number)

    # -- properties

    @property
    def name(self) -> str:
        """Its full filter, ``backend:type:index``."""
        return self.info.name

    @property
    def stats(self) -> Stats:
        """The counters of all its queues, including queues that are gone; a `Stats`.

        The null queue and the waits for events and devices count for all Devices of this name, since each was made.
        """
        cdef Statistics counts
        with nogil:
            counts = device_statistics(self.state, self.number)
        return stats_of(counts, self._allocations) - self.earlier

    @property
    def races(self) -> tuple[Race, ...]:
        """The races that were found on the device, for certain; see `check` at `Device`. Closed, it still has them.

        Each is reported once for each pair of lines, also by ``logging``, as a warning of "forebay.races".
        """
        return tuple(race for race in races_of(self) if race.certain)

    @property
    def possible_races(self) -> tuple[Race, ...]:
        """What may be races: `Race.basis` says what is not known. ``logging`` has them as infos of "forebay.races"."""
        return tuple(race for race in races_of(self) if not race.certain)

    # -- queues

    @property
    def null_queue(self) -> Queue:
        """HIP's legacy default stream: implicitly ordered against every blocking queue of this device."""
        self._check_open()
        return self._null_queue

    @property
    def per_thread_queue(self) -> Queue:
        """This thread's default queue: a blocking queue that another thread gets when this thread ends."""
        self._check_open()
        return self._thread_queues.own(self.queue)

    @property
    def current_queue(self) -> Queue:
        """The queue that this thread entered last by ``with queue:``, else the null queue."""
        self._check_open()
        entered = self._context.entered.queues
        return entered[-1] if entered else self._null_queue

    def queue(
        self, blocking: bool = True, priority: int = 0, timing: bool | None = None, **others: Never
    ) -> Queue:
        """Make a queue.

        Parameters
        ----------
        blocking : bool
            Whether it is ordered against the null queue, as in HIP's default; False is hipStreamNonBlocking.
        priority : int
            Lower is more urgent. It is clamped to the driver's range (HIP, hipStreamCreateWithPriority): -1 to 1 with
            cl_khr_priority_hints, else 0.
        timing : bool, optional
            Whether events recorded on it can be timed. The default is the device's setting.
        **others
            None: words of other packages are refused with forebay's.

        On CUDA it may block if a gate is closed and 128 queues were made since (docs/cuda.md); Ctrl-C ends that.

        Raises
        ------
        ArgumentTypeError, ClosedError, DriverError
        """
        cdef Ref[QueueState] idle
        cdef Queue queue
        self._check_open()
        if others:
            found = [ours for ours, theirs in SETTINGS.items() if set(others) & set(theirs.split())]
            instead = f"write {', '.join(found)}" if found else "it takes blocking, priority and timing"
            raise ArgumentTypeError(f"queue() takes no {', '.join(others)}: {instead}")
        check_flag(blocking, "queue: blocking")
        if timing is None:
            timing = self.timing
        check_flag(timing, "queue: timing")
        priority = read_int(priority, "queue: priority is an int")
        collect_device(self.state)
        priority = min(max(priority, min(self.driver.priorities)), max(self.driver.priorities))
        check_memory()
        idle = take_idle_queue(self.state, priority, timing)
        if idle.get() != NULL:
            native = <object> idle.get().made.native
            Py_DECREF(native)
            handle = <uintptr_t> idle.get().handle
        else:
            with finished_before_exit("queue()"):
                native, handle = self.driver.create_queue(priority, timing)
            divide_capacity(self.state, self.driver.keeps_gil_below)
        queue = new_queue(self, new_queue_of(
            self.state, native, handle, self.number, False, blocking, timing, False, priority), None)
        if idle.get() != NULL:
            with nogil:
                take_over_plans(queue.state, idle.get())
        return unless_closed(self, queue)

    _capturing = Capture  # for `Queue.capture`
    _new_step = staticmethod(Step._of)  # for `Queue.step`

    def event(self, timing: bool = False) -> Event:
        """Make an event, to be recorded later by ``queue.record(event)``; with `timing`, as a timed record.

        Raises
        ------
        ArgumentTypeError, ClosedError
        """
        self._check_open()
        check_flag(timing, "event: timing")
        return new_event(self, self.state, timing)

    def ipc_event(self) -> IpcEvent:
        """Make an event that other processes can open, by its `IpcEvent.ipc_handle` (HIP, hipIpcGetEventHandle).

        Raises
        ------
        NotSupportedError
            Where processes share no events: all but CUDA.
        """
        self._check_open()
        event, handle = self.driver.create_shared_event()
        return new_ipc_event(self, self.state, event, handle)

    def open_ipc_event(self, handle: bytes) -> IpcEvent:
        """Open an event of another process, which keeps it as long as this one uses it (HIP, hipIpcOpenEventHandle).

        Parameters
        ----------
        handle : bytes
            `IpcEvent.ipc_handle` there. Of a device of the same GPU, or one that it reaches.

        Raises
        ------
        InvalidArgumentError
            For a handle that opens nothing here, and one of this process.
        NotSupportedError
            Where processes share no events: all but CUDA.
        """
        self._check_open()
        handle = check_handle(handle, "open_ipc_event")
        return new_ipc_event(self, self.state, self.driver.open_event(handle), handle)

    def graph(self) -> Graph:
        """Make an empty `Graph`, to be filled node by node."""
        self._check_open()
        return Graph(self, _made=True)

    # -- memory

    def empty(
        self, shape: ShapeLike, dtype: DTypeLike = "f4", usm_type: str = "device", ipc_enabled: bool = False
    ) -> Buffer:
        """Make a buffer with unspecified contents.

        Parameters
        ----------
        shape : int or tuple of int
        dtype : numpy dtype, "f4" by default
        usm_type : "device", "shared" or "host"
            SYCL's words. "device" is memory of the device. "shared" is memory that moves between host and device (HIP,
            hipMallocManaged). "host" is memory of the host that the device reads over the bus. The host can read and
            write the latter two in place, see `Buffer.host`.
        ipc_enabled : bool
            Whether other processes can open the memory, by its `Buffer.ipc_handle`; only of the device's. It takes the
            driver some 50 µs, and once it is closed it goes back when more of it is made, or a call blocks that gives
            memory back (`close_ipc_memory`): that waits until nothing runs on the GPU, and no gate is closed.

        Raises
        ------
        NotSupportedError
            When the device has no memory that the host shares; or, with `ipc_enabled`, that processes share.
        InvalidArgumentError
            For a negative dimension, or a dtype that holds Python objects or is in the other byte order.
        OutOfMemoryError
            When there is no memory even after a wait for closed memory that is still in use, except by work that a
            gate or a host function holds up. That wait blocks. There is none in a host function or during a capture.
        """
        cdef Allocation allocation
        self._check_open()
        if captures_under_way():
            refuse_unsafe(f"allocation on {self.info.name}", "allocate before it, or in it by queue.alloc")
        shape = read_shape(shape)
        dtype = read_dtype(dtype)
        if usm_type not in USM_TYPES:
            raise InvalidArgumentError(f"empty: usm_type is one of {', '.join(USM_TYPES)}, not {usm_type!r}")
        check_flag(ipc_enabled, "empty: ipc_enabled")
        if ipc_enabled and usm_type != "device":
            raise InvalidArgumentError(f"empty: processes share memory of the device, not of usm_type {usm_type!r}")
        nbytes = math.prod(shape) * dtype.itemsize
        memory = self._allocate(nbytes + (GUARD if self.debug else 0), "ipc" if ipc_enabled else usm_type)
        allocation = new_allocation(self, memory)
        allocation.guarded = self.debug
        allocation.guard_at = nbytes
        if self.debug or self.state.checked:
            allocation.made_at = made(self.state, allocation.usage, nbytes)
        return new_buffer(allocation, 0, shape, dtype)

    def open_ipc_memory(self, handle: bytes, shape: ShapeLike | None = None, dtype: DTypeLike = "u1") -> Buffer:
        """Make a buffer over memory of another process (HIP, hipIpcOpenMemHandle).

        Nothing orders what processes do with it but `IpcEvent`, or messages between waits of the host. The other
        process must not give it back before it is closed here: by `close_ipc_memory`, which says when it is.

        Parameters
        ----------
        handle : bytes
            `Buffer.ipc_handle` there. Of the same GPU, or one that this one reaches.
        shape : int or tuple of int, optional
            By default all of it, in one dimension.
        dtype : numpy dtype, "u1" by default

        Raises
        ------
        InvalidArgumentError
            For a handle that opens nothing here, one of this process, and a shape that is larger than the memory.
        NotSupportedError
            Where processes share no memory: all but CUDA.

        Notes
        -----
        Blocks until nothing runs on the GPU if memory that processes share was closed before.
        """
        self._check_open()
        handle, dtype = check_handle(handle, "open_ipc_memory"), read_dtype(dtype)
        if captures_under_way():
            refuse_unsafe(f"open_ipc_memory on {self.info.name}")
        memory = self.driver.open_memory(handle)
        shape = (memory.nbytes // dtype.itemsize,) if shape is None else read_shape(shape)
        if math.prod(shape) * dtype.itemsize > memory.nbytes:
            raise InvalidArgumentError(f"open_ipc_memory: {shape} of {dtype} is more than its {memory.nbytes} bytes")
        return self._over(memory, shape, dtype)

    def close_ipc_memory(self, buffer: Buffer) -> None:
        """Close a buffer of `open_ipc_memory`, or of `empty` with `ipc_enabled`, and give its memory back (HIP,
        hipIpcCloseMemHandle). Blocks until nothing runs on the GPU, and no gate is closed.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError
            For what is no Buffer, and one of another device.
        """
        self._check_open()
        if not isinstance(buffer, Buffer):
            raise ArgumentTypeError(f"close_ipc_memory() needs a Buffer, not {name_of_type(buffer)}")
        if buffer.device._context is not self._context:
            raise InvalidArgumentError(
                f"close_ipc_memory: this Buffer belongs to {buffer.device.name}, not {self.name}")
        if captures_under_way():
            refuse_unsafe(f"close_ipc_memory on {self.info.name}")
        finish_all(self)
        buffer.close()
        while not give_back_shared(self):
            time.sleep(0.001)  # nothing tells when the last gate opens, and a signal handler must get its turn

    def _over_host_memory(self, address: int, nbytes: int) -> Buffer | None:
        """Return a buffer over the program's own memory, which must outlive it; None where kernels cannot use that."""
        self._check_open()
        memory = self.driver.register_host(address, nbytes)
        if memory is None:
            return None
        return new_buffer(new_allocation(self, own_memory(self.state, memory, False)), 0, (nbytes,), read_dtype("u1"))

    def _lend(self, queue: Queue, shape: ShapeLike, dtype: DTypeLike) -> Buffer:
        """Return memory for the commands of a launch. ``queue.free`` gives it back, for use by later launches."""
        queue._check_open()
        return self._launch_memory.alloc(self, queue, (<Queue?> queue).state, shape, dtype)

    def _lease_scratch(self, queue: Queue | None, nbytes: int) -> OwnedMemory:
        """Return memory of the pool of launches, which it has again when the last reference goes.

        For `queue`, the only one that may use it, and on which a drop is ordered like a free. With None for any queue,
        and then after its uses.
        """
        cdef Lease lease
        cdef OwnedMemory memory
        cdef Queue user = queue
        cdef QueueState* state = NULL
        if user is not None:
            state = user.state
        lease = self._launch_memory.lease(self, queue, state, nbytes)
        memory = own_memory(self.state, lease, False)
        if user is not None:
            lease.free_on(user.state)
            memory.freed = True
        return memory

    def _allocate(self, nbytes: int, usm_type: str) -> OwnedMemory:
        """Return memory that goes back to the driver when nothing can reach it any more."""
        collect_device(self.state)
        memory = None
        if usm_type == "device" and nbytes < NO_MORE_THAN:
            memory = take_spare(self.state, nbytes)
        if memory is None:
            shared = usm_type == "ipc"
            allocate = partial(self.driver.allocate_shared, nbytes) if shared else partial(
                self.driver.allocate, nbytes, usm_type)
            try:
                memory = allocate()
            except OutOfMemoryError:
                log.info("no room for %d bytes on %s: waiting for memory that is in use", nbytes, self.name)
                if not make_room(self):
                    raise
                memory = allocate()
            self._allocations += 1
        return own_memory(self.state, memory, True, usm_type == "device")

    def _pin(self, nbytes: int) -> tuple[int, OwnedMemory]:
        """Return the address of pinned memory of the host, and what gives it back, as `_allocate` does."""
        collect_device(self.state)
        address, native = self.driver.pinned(nbytes)
        return address, own_memory(self.state, native, False)

    def _list_something(self) -> None:
        """Have some memory on the list of a driver that needs one for kernels that follow pointers: it must not be
        empty (OpenCL 3.0, clSetKernelExecInfo).
        """
        if self.state.driver.follow != NULL and self._context.listed is None:
            self._context.listed = self._allocate(1, "device")

    def zeros(self, shape: ShapeLike, dtype: DTypeLike = "f4", usm_type: str = "device") -> Buffer:
        """Make a buffer of zeros, filled on the thread's current queue.

        Each command that uses the buffer comes after that, on any queue. Only kernels that follow pointers to it must
        be ordered by the program. `shape`, `dtype` and `usm_type` are as in `empty`.
        """
        buffer = self.empty(shape, dtype, usm_type)
        if buffer.nbytes:
            queue = self.current_queue
            queue.fill(buffer.reshape(-1).view(np.uint8), 0)
            note_creation(buffer, queue)
        return buffer

    def array(self, host: ArrayLike, dtype: DTypeLike | None = None, usm_type: str = "device") -> Buffer:
        """Make a buffer with a copy of `host`, anything `numpy.asarray` takes. The thread's current queue copies it.

        Each command that uses the buffer comes after that, as with `zeros`.

        `dtype` is that of the elements, by default that of `host`, in the machine's byte order; `usm_type` is as in
        `empty`.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError
            For what is no array of numbers or structures.
        OutOfMemoryError, ClosedError, DriverError
            As in `empty`.
        """
        host = to_array(host, None if dtype is None else read_dtype(dtype), "array")
        buffer = self.empty(host.shape, host.dtype, usm_type)
        queue = self.current_queue
        queue.copy(buffer, host)
        note_creation(buffer, queue)
        return buffer

    def as_buffer(self, thing: object) -> Buffer:
        """Make a buffer over memory that another object owns, without a copy.

        A pointer parameter of a launch takes such objects, too, but then each launch makes a buffer anew.

        Parameters
        ----------
        thing : object
            Writable and C-contiguous. On OpenCL: a `pyopencl.Buffer`, `pyopencl.array.Array` or SVM of pyopencl in this
            device's context (see `adopt`); on CPUs also memory of the host: NumPy arrays and whatever has
            ``__dlpack__``, ``__array_interface__`` or the buffer protocol. On SYCL: what has
            ``__sycl_usm_array_interface__``, from dpctl or dpnp, in USM memory of this device's context. It is kept
            alive until the buffer is closed or dropped and the work submitted by then is done. On every device: a
            pointer of `forebay.hip`, whose memory is gone once `hipFree` was called.

        Returns
        -------
        Buffer
            With the shape and dtype of `thing`; bytes where it has none.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError
            When `thing` is not such an object.
        NotSupportedError
            When the device takes over no memory. `Device.array` copies it.

        Notes
        -----
        Does not block. Nothing waits for work on `thing` that was submitted elsewhere: see `adopt_queue`. Finish the
        queues here before the host reads `thing`.
        """
        self._check_open()
        return self._as_buffer(thing, self.current_queue)

    def _as_buffer(self, thing: object, queue: Queue) -> Buffer:
        """As `as_buffer`; this queue comes after what was submitted elsewhere, where the other package can tell."""
        own = getattr(type(thing), "__forebay_buffer__", None)
        buffer = own(thing) if own is not None else thing
        if isinstance(buffer, Buffer) and buffer.device._context is not self._context:
            if buffer.device.driver in self._peers:
                return self._over_peer(buffer)
            raise InvalidArgumentError(f"as_buffer: its memory belongs to {buffer.device.name}, not {self.name}")
        if own is not None:
            return buffer
        adopted = self.driver.adopt_memory(thing)
        if adopted is not None:
            if queue._capture is None:
                self.driver.hand_over(thing, queue.native)
            return self._over(*adopted)
        if not self.driver.takes_over:
            raise NotSupportedError(
                f"as_buffer: {self.name} takes over no memory of other packages; Device.array copies what NumPy can "
                "read")
        array = host_array(thing) if self.driver.takes_host else None
        if array is None:
            raise ArgumentTypeError(
                f"as_buffer: {self.name} takes over {self.driver.takes_over}, not {name_of_type(thing)}; Device.array "
                "copies what NumPy can read")
        return self._over(self.driver.adopt_host(array, array.ctypes.data, array.nbytes), array.shape, array.dtype)

    def can_access_peer(self, peer: Device) -> bool:
        """Whether kernels of this device can use memory of another one, `peer` (CUDA: GPUs with a link).

        Does not block.
        """
        return peer._context is not self._context and self.driver.can_reach(peer.driver)

    def enable_peer_access(self, peer: Device) -> None:
        """Let kernels and copies of this device use buffers of another one, `peer`, from now on (HIP,
        hipDeviceEnablePeerAccess).

        A launch on a queue of this device takes them as arguments, and keeps their memory until it is done; a bound
        launch takes them by `as_buffer`. What orders the devices' queues are events and waits, as always: nothing else
        does. The other direction is another call.

        Raises
        ------
        NotSupportedError
            When it cannot (`can_access_peer`).

        Notes
        -----
        On CUDA it waits until no gate is closed, as a build does.
        """
        self._check_open()
        if not self.can_access_peer(peer):
            raise NotSupportedError(f"{self.name} cannot access memory of {peer.name}: copy it (Queue.copy)")
        while not self.driver.reach(peer.driver):
            time.sleep(0.001)  # nothing tells when the last gate opens, and a signal handler must get its turn
        self._peers.add(peer.driver)

    def disable_peer_access(self, peer: Device) -> None:
        """Refuse buffers of another device, `peer`, again. What was submitted before still runs. Does not block."""
        self._peers.discard(peer.driver)

    def _over_peer(self, Buffer buffer) -> Buffer:
        """The same memory as a buffer of this device, which keeps it until the work with it is done."""
        memory = hold_memory(buffer.allocation)
        return self._over(
            self.driver.adopt_peer(memory, buffer.memory.address, buffer.nbytes), buffer.shape, buffer.dtype)

    def _copy_from_peer(self, queue: Queue, dst: Buffer, src: Buffer) -> bool:
        """Copy memory of another device on a queue of this one; later work of the other comes after it by the null
        queue's rule (CUDA, cuMemcpyPeer). False, with nothing done, where this one does not reach it, or not now.
        """
        peer = src.device
        if not (src.nbytes and self.driver.can_reach(peer.driver) and self.driver.reach(peer.driver)):
            return False
        src._let_follow(peer.null_queue, True)
        queue.wait(peer.null_queue)
        queue.copy(dst, self._over_peer(src))
        peer.null_queue.wait(queue)
        peer.null_queue.record()  # the command that carries the wait, which blocking queues come after
        return True

    def _over(
        self, memory: DriverMemory, shape: tuple[int, ...], dtype: DTypeLike, offset: int = 0, listed: bool = False
    ) -> Buffer:
        """Make a buffer over memory that others may change without forebay's knowledge. `listed` as in `Adopted`."""
        dtype = read_dtype(dtype)
        allocation = new_allocation(self, own_memory(self.state, memory, listed))
        expose(allocation)
        if offset == 0:
            return new_buffer(allocation, 0, shape, dtype)
        return new_buffer(allocation, 0, (memory.nbytes,), np.dtype(np.uint8))._part(offset, shape, dtype)

    def _keep_until_done(self, thing: object) -> None:
        """Drop `thing`, which no outstanding command uses, when the driver lets it be released."""
        retire_after(self.state, thing, NULL, 0)

    def _is_pinned(self, address: int, nbytes: int) -> bool:
        return pinned_memory_of(<const void*> <uintptr_t> address, nbytes, self.state) is not None

    # -- programs

    @property
    def languages(self) -> tuple[str, ...]:
        """What `program` takes here, of "OpenCL C", "SPIR-V", "HIP C++", "CUDA C++", "PTX" and "cubin"."""
        return tuple(map(str, languages_of(self.driver)))

    def program(self, source: str | bytes | bytearray | memoryview, options: str | Sequence[str] = ()) -> Program:
        """Build a program.

        Parameters
        ----------
        source : str or bytes
            In one of `languages`: OpenCL C, HIP C++ (what has a ``__global__``), or bytes of SPIR-V.
        options : str or sequence of str
            Compiler options, such as ``"-cl-fast-relaxed-math"``; for HIP C++ those of clang, such as
            ``"-std=c++20"``.

        Returns
        -------
        Program

        Raises
        ------
        BuildError
            When the program does not build. The compiler's log is in the message and in ``.log``.
        InvalidArgumentError
            When an option for HIP C++ is unknown, bytes are in no language, or text has a lone surrogate.
        NotSupportedError
            When the device does not take the language, or the source is HIP C++ and no compiler for it is installed:
            ``pip install 'forebay[hip]'``.

        Notes
        -----
        Blocks while it compiles. A program that was compiled before, by any process, is read from the disk instead,
        unless the source includes files.
        """
        self._check_open()
        source, options = read_source(source, options)
        began = time.perf_counter()
        from forebay.queues.kernels.build import shown_while_building  # not before a program is built

        with finished_before_exit("program()"), shown_while_building(f"a program for {self.name}"):
            compiled = compiled_source(self, source, options)
            natives = self.driver.build(compiled.language, compiled.source, compiled.options)
        program = self._program_of(natives, compiled.source, compiled.options, compiled.symbols)
        spent = 1e3 * (time.perf_counter() - began)
        log.info("built a program (%s) for %s in %.1f ms", ", ".join(program), self.name, spent)
        return program

    def _program_of(
        self, natives: BuiltProgram, source: str | bytes, options: tuple[str, ...] = (),
        symbols: Mapping[str, str] | None = None,
    ) -> Program:
        """A program of kernels that the driver has made from this source."""
        from forebay.queues.kernels.cache import Identities, key_of  # with the cache, and so with what only that needs

        parameters = {name: len(native.parameters) for name, native in natives.items()}
        identities = Identities(key_of("program", source, *options), parameters)
        return Program(self, natives, identities, self._make_kernel, symbols)

    @property
    def _reductions(self) -> Reductions:
        if self._reducing is None:
            self._reducing = Reductions(self)
        return self._reducing

    @property
    def _moves(self) -> Moves:
        if self._moving is None:
            self._moving = Moves(self, declare_move)
        return self._moving

    def _make_kernel(self, native: DriverKernel, identities: Any, accesses: Any) -> Any:
        return new_kernel(self, self.state, native, identities, accesses)

    # -- sync and life

    def finish(self) -> None:
        """Block until all queues are done, also those of other Devices that share the context.

        Takes one host synchronize for any number (HIP, hipDeviceSynchronize).

        Raises
        ------
        DriverError
            When the driver reports a failure.
        Exception
            Whatever a host function raised since the last synchronize.
        """
        self._check_open()
        if captures_under_way():
            refuse_synchronize(self, "Device.finish()")
        finish_all(self, 0, True)

    def close(self) -> None:
        """Finish the work of its queues and of the null queue, then close. Using the device, or queues and buffers made
        for it, is an error from then on.

        Closing twice is fine. Blocks until the work is done. Devices that share the context, and the null queue, go on.

        Raises
        ------
        Error
            Inside a host function. The device stays open.
        DriverError
            When the driver reports a failure.
        Exception
            Whatever a host function raised since the last synchronize. `sys.unraisablehook` gets what else they raised.
        """
        if not self.closed:
            close_device(self, True)

    def _disband(self) -> None:
        """Close queues and buffers, and drop references that would keep the Device until the garbage collector runs."""
        refuse_commands(self)
        if self.check:
            self._told = races_of(self)
            change_checking(self._null_queue, -1, self.check == "races,error")
        self._host_errors.close()
        self._null_queue = None  # its state stays, because other threads may be about to use the other queues
        self._open_allocations.close_all()
        self._reducing = None
        self._moving = None
        self._built.clear()
        self._thread_queues = ThreadQueues(deque())  # those of all threads go

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    cpdef int _check_open(self) except -1:
        if self.closed or self._context.lost is not None:
            raise self._unusable(self)
        return 0

    def _unusable(self, thing: object) -> Error:
        """Return the error for using a thing of this device that is closed, or lost with the device."""
        lost = self._context.lost
        return closed_error(thing) if lost is None else DeviceLostError(f"{thing!r}: the device is lost: {lost}")

    def __repr__(self) -> str:
        return f"<forebay.Device {self.info.name}: {self.info.description}>"

    # -- errors

    def _raise(self, status: int, what: str) -> None:
        """Raise the exception for a failed driver call, or what a signal handler raised during a wait."""
        if status == INTERRUPTED:
            raise_interrupt()
        if status == NO_MEMORY:
            raise OutOfMemoryError(f"the host has no memory left ({what}): nothing was submitted")
        call, code, name = self.driver.explain(status)
        message = f"{call} failed: {name} ({what})"
        if code in self.driver.functions.out_of_memory:
            raise OutOfMemoryError(message)
        raise driver_error(self, message, call, code, name)

    def _raise_execution_error(self, code: int, what: str) -> None:
        """Raise the exception for a command that the driver took and that failed on the device."""
        name = self.driver.functions.name_of(code)
        raise driver_error(self, f"a command failed on the device: {name} ({what})", "", code, name)

    def _wait_for_openings(self) -> None:
        """Block until no gate counts as closed that somebody has opened."""
        with nogil:
            wait_for_openings()

    def _give_back_memory(self) -> None:
        self.pool.trim_after_wait()
        self._launch_memory.trim_after_wait()


def races_of(Device device) -> tuple[Race, ...]:
    if device._told is not None:
        return device._told
    return found_races(device.state.null_queue.epochs.queue_id) if device.state.checked else ()


def unless_closed(Device device, queue: Queue) -> Queue:
    """Return a queue that was just made, if no other thread has closed the Device meanwhile, or found it lost."""
    if device.closed or device._context.lost is not None:
        queue.close()
        raise device._unusable(device)
    return queue


def give_back_shared(Device device) -> bool:
    """Give memory back that processes shared, and that is closed. False while a gate is closed: not now."""
    collect_device(device.state)
    return bool(device.driver.give_back_shared())


def leave_host_memory(Device device, Buffer buffer) -> None:
    """Close a buffer of `_over_host_memory`. Blocks until nothing that was submitted here uses its memory."""
    cdef OwnedMemory memory = buffer.allocation.memory
    if device.closed or memory is None:
        return
    finish_all(device)
    buffer.close()
    device.driver.unregister_host(memory.native)


cdef bint make_room(Device device) except -1:
    """Give back what is not needed, and wait for what will come free. Returns whether there was any."""
    cdef Status status = 0
    cdef bint given_up = device.pool.give_up(0, False) | device._launch_memory.give_up(0, False)
    if not collect_all(device.state) and not given_up:
        return False
    if not on_host_thread() and not captures_under_way():
        with nogil:
            status = wait_for_retired(device.state)
        if status != 0:
            device._raise(status, "wait for memory")
        collect_all(device.state)
    return True


def close_device(Device device, raising: bool) -> None:
    cdef Refs[QueueState] queues
    refuse_on_host_thread("Device.close()")
    if captures_under_way():
        abandon_captures(device)
    was_lost = device._context.lost is not None  # its user knows already
    try:
        if not device.closed:
            finish_all(device, device.number, raising=False)  # what host functions submit meanwhile is taken
            refuse_commands(device)
        finish_all(device, device.number, raising)  # what other threads have submitted before that
    except DeviceLostError:  # all of its work counts as done: it will never say so
        with nogil:
            registered_queues(device.state, queues)
            for queue in queues:
                note_reached(queue.epochs, submitted_epoch(queue.epochs), NULL)
            queues.clear()
        if not was_lost:
            raise
    finally:
        refuse_commands(device)
        device._wait_for_openings()
        collect_all(device.state)  # what a gate delayed, because it still counted
        device._disband()
        collect_all(device.state)
        if device._context.open_devices == 0:
            release_idle_queues(device.state, 0)
        device.pool.trim()
        device._launch_memory.trim()
        collect_all(device.state)  # what these have given back
        log.debug("closed %s", device.name)


def refuse_commands(Device device) -> None:
    """Close the queues, and with the last Device of the context the null queue. Twice is fine."""
    if device.closed:
        return
    device.closed = True  # first: a queue that another thread registers from now on is closed by that thread
    with nogil:
        close_queues(device.state, device.number)
    device._context.leave()


def driver_error(Device device, message: str, call: str, code: int, name: str) -> DriverError:
    if abs(code) not in device.driver.functions.lost:
        return DriverError(message, call=call, code=code, name=name)
    device._context.lose(message)
    if message != device._context.lost:
        message = f"{message}; the device is lost: {device._context.lost}"
    return DeviceLostError(message, call=call, code=code, name=name)


def open_device(Device device, find_context: Callable[[], Context], timing: bool | None, check: str | None) -> None:
    """Make a Device of a context, which counts it as open already."""
    cdef Context context
    checks, raises = read_check(check)
    note_drivers()
    collect_abandoned()
    with finished_before_exit("Device()"):
        context = find_context()
    device.driver = context.driver
    device.info = context.driver.info
    device.timing = context.driver.timing_is_free if timing is None else timing
    device._context = context
    device.state = context.state
    device.check = ""
    device.number = context.number_device()
    device.earlier = stats_of(device_statistics(device.state, device.number))
    device._open_allocations = OpenAllocations()
    device._thread_queues = ThreadQueues(deque())
    device._host_errors = HostErrors()
    device._built = weakref.WeakKeyDictionary()
    device._peers = weakref.WeakSet()
    device._allocations = 0
    device.pool = new_pool(device.state, device.driver, device.info.memory // 2)
    device._launch_memory = new_pool(device.state, device.driver, device.info.memory // 2)
    device._launch_memory.release_threshold = KEPT_FOR_LAUNCHES
    device._null_queue = new_queue(device, context.null_queue, None)
    devices_made.append(weakref.ref(device, devices_made.remove))
    if checks:
        change_checking(device._null_queue, 1, raises)
        device.check = "races,error" if raises else "races"
        begin_summary()


def find_built(Device device, owner: object, key: Hashable) -> Any:
    """Return what `keep_built` has kept, or None."""
    cdef dict kept = device._built.data.get(weakref.ref(owner))  # as its `get`, without a call of Python's
    return None if kept is None else kept.get(key)


def keep_built(Device device, owner: object, key: Hashable, built: object) -> None:
    """Keep what was compiled here for `owner`, such as an expression, until the Device is closed or dropped, or
    until `owner` is gone, which nothing that is kept may refer to.

    Raises
    ------
    ClosedError
        When another thread has closed the Device meanwhile. Nothing is kept then.
    """
    device._built.setdefault(owner, {})[key] = built
    if device.closed:  # looked at last: `close` sets it first, and drops afterwards what is there
        device._built.clear()
        raise device._unusable(device)


cdef int synchronized(object of, object queue) except -1:
    """Do what follows after the host has waited for this queue of the Device."""
    cdef Device device = of
    device.pool.trim_after_wait()
    device._launch_memory.trim_after_wait()
    if device._host_errors.kept:
        device._host_errors.raise_first(queue)
    return 0


queue_module.after_wait = synchronized


cpdef int finish_all(Device device, uint64_t owner=0, bint raising=True) except -1:
    """Finish all queues; with an owner, its queues and the null queue."""
    cdef Ref[Clock] past
    cdef Refs[QueueState] queues
    cdef Status status
    if on_host_thread():
        refuse_on_host_thread("Device.finish()")
    if device.state.checked:
        past = races.past_of(device.state.null_queue.epochs.queue_id, ALL if owner == 0 else ALONE)
        with nogil:
            registered_queues(device.state, queues)
        for queue in queues:
            if queue.owner == owner:
                add_past(past, races.past_of(queue.epochs.queue_id, ALONE).get())
    with nogil:
        status = finish_device(device.state, owner)
    if status != 0:
        device._raise(status, f"finish of {device!r}")
    if device.state.checked:
        races.reach_all(device.state.null_queue.epochs.queue_id, past.get())
    collect_all(device.state)
    device._give_back_memory()
    if raising and device._host_errors.kept:
        device._host_errors.raise_first(None)
    return 0


# What `queue` calls the settings that other packages give a queue, and their words.
SETTINGS: dict[str, str] = {
    "blocking=False": "non_blocking nonblocking flags",
    "timing=True": "enable_profiling profiling properties property enable_timing",
}


def check_flag(value: object, name: str) -> None:
    """Raise for anything but a bool, which Python would take for one or the other."""
    if not isinstance(value, (bool, np.bool_)):
        raise ArgumentTypeError(f"{name} is a bool, not {type(value).__name__}")


def check_handle(value: object, name: str) -> bytes:
    """Raise for what is no bytes."""
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise ArgumentTypeError(f"{name}: a handle of another process is bytes, not {type(value).__name__}")
    return bytes(value)


_adopting = threading.Lock()  # two queues of one context get one Device, also from two threads


def _drivers_open() -> list[DriverDevice]:
    return [device.driver for device in open_devices() if not device.private]


def _device_over(driver: DriverDevice) -> Device:
    """Return the Device of a `DriverDevice` that was adopted, making it if there is none."""
    for device in open_devices():
        if device.driver is driver:
            return device
    return Device._of(driver)


def _leave_all_to_parent() -> None:
    """In a forked child: nothing of any device is released, and its queues refuse commands."""
    cdef Device device
    if is_forked():
        for made_one in devices_made:
            device = made_one()
            if device is not None:
                Py_INCREF(device)
                device.closed = True
                if device.state != NULL:
                    leave_to_parent(device.state)


be(AnyDevice, Device)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all_to_parent)


@atexit.register
def _finish_all() -> None:
    """Close all devices, because drivers may fail when they are unloaded at work. Open gates first: they hold queues.

    All queues refuse commands before any is finished: daemon threads may go on submitting, and a finish may not end
    beside them.
    """
    if is_forked():
        return
    stop_host_functions()
    end_calls()
    still_open = open_devices()
    ends = [partial(refuse_commands, each) for each in still_open]
    ends += [partial(close_device, each, raising=False) for each in still_open]
    for end in ends:
        try:
            end()
        except BaseException:  # noqa: BLE001 - at exit no caller is left to catch it
            pass
    collect_abandoned()
    end_watching()


# -- what all Device objects of one device share: the driver's context, the null queue, and the state of all queues
#
# Two libraries of one program may each make a Device, and hand buffers, queues and events to each other. As in HIP
# there is one null stream, which is ordered against the blocking queues of both.


changes = 1


class Entered(threading.local):
    """The queues of one device that this thread has entered by ``with``, the innermost last."""

    def __init__(self) -> None:
        self.queues: list[Queue] = []


class _Own:
    """Holds a thread's own queue. When the thread ends, the queue returns to the device for the next thread."""

    def __init__(self, queue: Queue, idle: deque[Queue]) -> None:
        self.queue = queue
        self.idle = idle

    def __del__(self) -> None:
        global changes
        changes += 1  # first: code with a borrowed reference to the queue may not use it any more
        if not self.queue.closed:
            self.idle.append(self.queue)


class ThreadQueues(threading.local):
    """A thread's own queue of a device; `idle` are those of threads that have ended."""

    def __init__(self, idle: deque[Queue]) -> None:
        self._idle = idle
        self._own: _Own | None = None

    def own(self, make: Callable[[], Queue]) -> Queue:
        """Return this thread's own queue. It may come from a thread that has ended; else `make` makes a new one."""
        if self._own is None or self._own.queue.closed:
            queue = None
            try:
                while queue is None or queue.closed:
                    queue = self._idle.popleft()
            except IndexError:
                queue = make()
            self._own = _Own(queue, self._idle)
        return self._own.queue


_shared: list[Context] = []  # contexts with open Devices that others may join
cdef uint64_t _owners = 0  # how many Devices there have ever been


@cython.no_gc_clear
cdef class Context:
    """A driver's context of one device, with its queues. It goes with the last Device and what keeps a Device."""

    driver: DriverDevice
    entered: Entered
    lost: str | None

    def __dealloc__(self):
        if is_forked():
            Py_INCREF(self.driver)  # it is the parent's, and all that is left of its work
            return
        if self.null_queue != NULL:
            retire_queue(self.null_queue)
        if self.state != NULL:
            abandon(self.kept_state, self.driver)

    cdef uint64_t number_device(self):
        """Return the number of a Device, and count its queues from now on."""
        global _owners
        cdef Guard guard
        _owners += 1
        guard.take(self.state.registry.lock)
        self.state.registry.counts_of_ended[_owners]  # zeros
        return _owners

    cdef leave(self):
        """Note that a Device was closed. With the last, the null queue closes, and no Device can join any more."""
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
    context.kept_state = new_device_state(
        <const Driver*> <uintptr_t> driver.table, <void*> <uintptr_t> driver.context_handle, driver.keeps_gil_below,
        driver.waits_starve)
    context.state = context.kept_state.get()
    join_quota(context.state, driver.shared_room)
    # A Device that shares it may want to time records.
    native, handle = driver.create_queue(0, True)
    divide_capacity(context.state, driver.keeps_gil_below)
    context.null_queue = new_queue_of(context.state, native, handle, 0, True, True, True, False, 0)
    context.state.null_queue = context.null_queue
    return context


cdef Context context_of(object filter, bint private):
    """Return the context of the device that `selection.select` finds. It is opened if it is not, or if it is private.
    """
    cdef Context context, opened = None
    info = selection.select(filter)
    while True:
        for context in () if private else _shared:
            if context.driver.info.name == info.name and context.driver.info.native is info.native:
                context.open_devices += 1
                if opened is not None:  # another thread was faster
                    opened.leave()
                return context
        if opened is not None:
            break
        opened = new_context(selection.open_driver(info))
    if not private:
        _shared.append(opened)
    return opened
