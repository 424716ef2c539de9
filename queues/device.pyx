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
from libcpp.atomic cimport atomic

from forebay.core.driver cimport INTERRUPTED, NO_MEMORY, Driver, Status
from forebay.core.ownership cimport Guard, Ref, Refs, relaxed_bint
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
from forebay.queues.kernels.kernel cimport Closing, new_kernel
from forebay.queues.launch.launch cimport GUARD
from forebay.queues.memory.allocation cimport (
    Allocation, OpenAllocations, OwnedMemory, expose, hold_memory, memory_if_open, new_allocation, own_memory,
    pinned_memory_of
)
from forebay.queues.memory.buffer cimport Buffer, new_buffer
from forebay.queues.memory.pool cimport NO_MORE_THAN, Lease, MemoryPool, new_pool
cimport forebay.queues.queue as queue_module
from forebay.queues.queue cimport Queue, new_queue, new_queue_of
from forebay.races.checker cimport ALL, ALONE, change_checking, join as add_past, made, races
from forebay.sync.finish cimport finish_device, wait_for_retired
from forebay.sync.ordering cimport check_status, divide_capacity, enter_list, join_quota

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
from forebay.queues.kernels.program import Identities, Program, compiled_source, languages_of, read_source
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
    from typing_extensions import Never
    from numpy.typing import ArrayLike, DTypeLike
    from forebay.core.driver import DriverDevice, DriverKernel, DriverMemory, BuiltProgram
    from forebay.core.stats import Stats
    from forebay.events.event import Event, IpcEvent
    from forebay.queues.memory.shapes import ShapeLike
    from forebay.queues.queue import Queue
    from forebay.races.reports import Race

log = logging.getLogger(__name__)

USM_TYPES = ("device", "shared", "host")
KEPT_FOR_LAUNCHES = 64 << 20  # bytes: what a synchronize leaves in the pool of `_launch_memory`


@cython.no_gc_clear
cdef class Device(Closing):
    """A device. It owns the queues, buffers, programs and events made for it.

    Devices of one name are one device, as in HIP. They share the driver's context and the null queue, and each can use
    what belongs to the other. Each has its own settings, counters, memory pool, per-thread queues and host-function
    errors, and closes its own queues and buffers. What they share is freed with the last one.

    Closing a device, also by ``with``, first finishes its queues and the null queue. Objects made for it keep it alive.
    Without such objects a closed device is freed at once, an open one when the garbage collector finds it.

    Parameters
    ----------
    filter : str, optional
        dpctl's filter string, any part of ``backend:type:index``: ``"opencl:cpu"``, ``"gpu:1"``, ``"cpu"``. By default
        the environment variable FOREBAY_DEVICE decides, else the preferred usable device is taken.
    timing : bool, optional
        The default `timing` of its queues: whether they take timed records. By default it is on where that is free
        (Level Zero), and off where each command costs more for it (OpenCL: 5 to 9 % of the driver's call; SYCL). The
        null queue always takes timed records, because it is shared.
    debug : bool
        Whether each launch waits for the kernel and raises `OutOfBoundsError` if the kernel wrote past the end of a
        Buffer's memory made by `empty`, `zeros` or `array` of this Device, or `ScratchOverflowError` past the end of
        its scratch. Graph launches check scratch only, bound launches nothing. Out-of-bounds reads are not found, nor
        writes outside a view but within its Buffer's memory. The waits hide ordering errors (`logging` warns of this),
        which `check` finds.
    private : bool
        Whether it has its own context and null queue and shares nothing, for tests. `adopt_queue` does not find it.
    check : str, optional
        ``"races"`` reports in `races` two commands that use the same memory, one of them writing, if nothing in the
        program orders them. They are judged at submission, by the program's order alone. ``"races,error"`` raises
        `RaceError` instead of submitting the second. This applies to all queues of the context, until the last Device
        that asked for it is closed. By default the environment variable FOREBAY_CHECK decides; ``""`` checks nothing.

    Attributes
    ----------
    info : DeviceInfo
        What is known without opening the device: its names, its kind, its driver.
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
    """

    cdef DeviceState* state  # the context's
    cdef uint64_t number  # unique in this process
    cdef object earlier  # Stats: counts of shared objects from before it was made
    cdef readonly Context _context
    cdef readonly OpenAllocations _open_allocations
    cdef readonly object info
    cdef readonly object driver
    cdef readonly bint timing
    cdef readonly bint debug
    cdef readonly bint private
    cdef readonly str check
    cdef readonly relaxed_bint closed
    cdef readonly MemoryPool pool
    cdef readonly MemoryPool _launch_memory  # for arrays given to launches, for results and for scratch
    cdef object _null_queue
    cdef readonly object _thread_queues
    cdef readonly HostErrors _host_errors
    cdef object _reducing
    cdef tuple _told  # the races known when it was closed
    cdef object _moving
    cdef object _built  # see `keep_built`
    cdef atomic[uint64_t] _allocations
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

        Blocks while devices are discovered, if nothing has done so before.

        Parameters
        ----------
        thing : pyopencl.Context or pyopencl.Device
            For a context of one device, a Device in that context, the same each time until it is closed. For a device,
            its ``Device(name)`` in forebay's own context.

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
        work: it is never `empty`, and each wait for it takes its own marker. Work that the other package submits waits
        only for those commands of forebay that were submitted to this queue. Host functions need a queue of forebay's
        own if the package is dpctl. Blocks only as `adopt` does.

        Parameters
        ----------
        queue : pyopencl.CommandQueue or dpctl.SyclQueue
            An in-order queue: pyopencl's default, ``property="in_order"`` with dpctl. Closing the Queue leaves it open.
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
        """Make a Device that shares nothing, over a `DriverDevice` that `selection.open_driver` did not open."""
        cdef Device device = Device.__new__(Device)
        open_device(device, lambda: new_context(driver), None, None)
        return device

    def __del__(self) -> None:
        # Nothing here may block. Outstanding work goes on.
        if self.state != NULL and not self.closed and not is_forked():
            self._disband()

    def __dealloc__(self):
        cdef Guard guard
        if self.state != NULL and not is_forked():  # another thread may have held the lock at the fork
            guard.take(self.state.registry.lock)
            self.state.registry.counts_of_ended.erase(self.number)

    # -- properties

    @property
    def name(self) -> str:
        """Its full filter, ``backend:type:index``."""
        return self.info.name

    @property
    def stats(self) -> Stats:
        """The counters of all its queues, including closed and dropped ones; a `Stats`.

        The null queue and waits for events and devices count for all Devices of this name, from when each was made.
        """
        cdef Statistics counts
        with nogil:
            counts = device_statistics(self.state, self.number)
        return stats_of(counts, self._allocations.load()) - self.earlier

    @property
    def races(self) -> tuple[Race, ...]:
        """The races found on the device for certain (see `check`), also after it is closed.

        Each pair of lines is reported once, also by ``logging`` as a warning of "forebay.races".
        """
        return tuple(race for race in races_of(self) if race.certain)

    @property
    def possible_races(self) -> tuple[Race, ...]:
        """Possible races: `Race.basis` says what is not known. ``logging`` has them as infos of "forebay.races"."""
        return tuple(race for race in races_of(self) if not race.certain)

    # -- queues

    @property
    def null_queue(self) -> Queue:
        """HIP's legacy default stream: implicitly ordered against every blocking queue of this device."""
        self._check_open()
        with cython.critical_section(self):
            if self._null_queue is not None:
                return self._null_queue
        raise self._unusable(self)  # another thread has closed it meanwhile

    @property
    def per_thread_queue(self) -> Queue:
        """This thread's default queue: a blocking queue that another thread gets when this thread ends."""
        self._check_open()
        with cython.critical_section(self):
            queues = self._thread_queues
        return queues.own(self.queue)

    @property
    def current_queue(self) -> Queue:
        """The queue that this thread entered last by ``with queue:``, else the null queue."""
        self._check_open()
        entered = self._context.entered.queues
        return entered[-1] if entered else self.null_queue

    def queue(self, blocking: bool = True, priority: int = 0, timing: bool | None = None, **others: Never) -> Queue:
        """Make a queue.

        On CUDA it may block if a gate is closed and 128 queues were made since (docs/cuda.md); Ctrl-C ends that.

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
            Keywords of other packages are refused; the error names forebay's.

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

    # For `Queue.capture` and `Queue.step`, whose module is below those of the two
    _capturing = Capture
    _new_step = staticmethod(Step._of)

    def event(self, timing: bool = False) -> Event:
        """Make an event for ``queue.record(event)``; with `timing`, it is recorded with timing.

        Raises ArgumentTypeError and ClosedError.
        """
        self._check_open()
        check_flag(timing, "event: timing")
        return new_event(self, self.state, timing)

    def ipc_event(self) -> IpcEvent:
        """Make an event that other processes can open by its `IpcEvent.ipc_handle` (HIP, hipIpcGetEventHandle).

        Raises NotSupportedError on drivers other than CUDA.
        """
        self._check_open()
        event, handle = self.driver.create_shared_event()
        return new_ipc_event(self, self.state, event, handle)

    def open_ipc_event(self, handle: bytes) -> IpcEvent:
        """Open an event that another process must keep while this one uses it (HIP, hipIpcOpenEventHandle).

        Parameters
        ----------
        handle : bytes
            The other process's `IpcEvent.ipc_handle`, for a device of the same GPU or of one that it reaches.

        Raises
        ------
        InvalidArgumentError
            For a handle that opens nothing here, or one of this process.
        NotSupportedError
            On devices of drivers other than CUDA.
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
            As in SYCL. "device" is memory of the device. "shared" migrates between host and device (HIP,
            hipMallocManaged). "host" is host memory that the device reads over the bus. The host can read and write the
            latter two in place, see `Buffer.host`.
        ipc_enabled : bool
            Whether other processes can open the memory by its `Buffer.ipc_handle`; for "device" memory only. Allocating
            it takes the driver some 50 µs. Closed memory is freed when more is allocated, or by `close_ipc_memory`,
            which blocks: the free waits until nothing runs on the GPU and no gate is closed.

        Raises
        ------
        NotSupportedError
            When the device has no memory that the host shares; or, with `ipc_enabled`, that processes share.
        InvalidArgumentError
            For a negative dimension, or a dtype that holds Python objects or is in the other byte order.
        OutOfMemoryError
            When there is no memory even after blocking until closed memory is no longer in use. It does not wait for
            work that a gate or host function holds up, nor at all in a host function or during a capture.
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

        Only `IpcEvent`, or messages between host waits, order what the processes do with it. The other process must not
        free it before `close_ipc_memory` has returned here. Blocks until nothing runs on the GPU if memory that
        processes share was closed before.

        Parameters
        ----------
        handle : bytes
            The other process's `Buffer.ipc_handle`, of the same GPU or of one that this one reaches.
        shape : int or tuple of int, optional
            By default all of it, in one dimension.
        dtype : numpy dtype, "u1" by default

        Raises
        ------
        InvalidArgumentError
            For a handle that opens nothing here, one of this process, and a shape that is larger than the memory.
        NotSupportedError
            On devices of drivers other than CUDA.
        """
        self._check_open()
        handle, dtype = check_handle(handle, "open_ipc_memory"), read_dtype(dtype)
        refuse_unsafe(f"open_ipc_memory on {self.info.name}")
        memory = self.driver.open_memory(handle)
        shape = (memory.nbytes // dtype.itemsize,) if shape is None else read_shape(shape)
        if math.prod(shape) * dtype.itemsize > memory.nbytes:
            raise InvalidArgumentError(f"open_ipc_memory: {shape} of {dtype} is more than its {memory.nbytes} bytes")
        return self._over(memory, shape, dtype)

    def close_ipc_memory(self, buffer: Buffer) -> None:
        """Close and free a buffer of `open_ipc_memory`, or `empty` with `ipc_enabled` (HIP, hipIpcCloseMemHandle).
        Blocks until nothing runs on the GPU and no gate is closed. Raises ArgumentTypeError when `buffer` is not a
        Buffer, and InvalidArgumentError when it belongs to another device.
        """
        self._check_open()
        if not isinstance(buffer, Buffer):
            raise ArgumentTypeError(f"close_ipc_memory() needs a Buffer, not {name_of_type(buffer)}")
        if buffer.device._context is not self._context:
            raise InvalidArgumentError(
                f"close_ipc_memory: this Buffer belongs to {buffer.device.name}, not {self.name}")
        refuse_unsafe(f"close_ipc_memory on {self.info.name}")
        finish_all(self)
        buffer.close()
        retry_until(give_back_shared, self)

    def _over_host_memory(self, address: int, nbytes: int) -> Buffer | None:
        """Return a buffer over the program's own memory, which must outlive it; None where kernels cannot use it."""
        self._check_open()
        memory = self.driver.register_host(address, nbytes)
        if memory is None:
            return None
        return new_buffer(new_allocation(self, own_memory(self.state, memory, False)), 0, (nbytes,), read_dtype("u1"))

    def _lend(self, queue: Queue, shape: ShapeLike, dtype: DTypeLike) -> Buffer:
        """Return memory for the commands of a launch. ``queue.free`` returns it to the pool for later launches."""
        queue._check_open()
        return self._launch_memory.alloc(self, queue, (<Queue?> queue).state, shape, dtype)

    def _lease_scratch(self, queue: Queue | None, nbytes: int) -> OwnedMemory:
        """Return memory of `_launch_memory`, to which it returns when the last reference is dropped.

        With a `queue`, only that queue may use it, and a drop is ordered like a free there. With None any queue may,
        and the memory returns after its uses.
        """
        cdef Lease lease
        cdef OwnedMemory memory
        cdef QueueState* state = NULL
        if queue is not None:
            state = (<Queue?> queue).state
        lease = self._launch_memory.lease(self, queue, state, nbytes)
        memory = own_memory(self.state, lease, False)
        if state != NULL:
            lease.free_on(state)
            memory.freed = True
        return memory

    def _allocate(self, nbytes: int, usm_type: str) -> OwnedMemory:
        collect_device(self.state)
        memory = None
        if usm_type == "device" and nbytes < NO_MORE_THAN:
            memory = take_spare(self.state, nbytes)
        if memory is None:
            shared = usm_type == "ipc"
            allocate = self.driver.allocate_shared if shared else partial(self.driver.allocate, usm_type=usm_type)
            try:
                memory = allocate(nbytes)
            except OutOfMemoryError:
                log.info("no room for %d bytes on %s: waiting for memory that is in use", nbytes, self.name)
                if not make_room(self):
                    raise
                memory = allocate(nbytes)
            self._allocations.fetch_add(1)
        return own_memory(self.state, memory, True, usm_type == "device")

    def _pin(self, nbytes: int) -> tuple[int, OwnedMemory]:
        """Return the address and the owner of pinned host memory."""
        collect_device(self.state)
        address, native = self.driver.pinned(nbytes)
        return address, own_memory(self.state, native, False)

    def _list_something(self) -> None:
        """Keep the resident set of kernels with indirect access from being empty (OpenCL 3.0, clSetKernelExecInfo)."""
        if self.state.driver.follow != NULL and self._context.listed is None:
            self._context.listed = self._allocate(1, "device")

    def zeros(self, shape: ShapeLike, dtype: DTypeLike = "f4", usm_type: str = "device") -> Buffer:
        """Make a buffer of zeros, filled on the thread's current queue.

        Every command that uses the buffer comes after the fill, on any queue. Only kernels that reach it by pointers
        stored in memory must be ordered by the program. `shape`, `dtype` and `usm_type` are as in `empty`.
        """
        buffer = self.empty(shape, dtype, usm_type)
        if buffer.nbytes:
            queue = self.current_queue
            queue.fill(buffer.reshape(-1).view(np.uint8), 0)
            note_creation(buffer, queue)
        return buffer

    def array(self, host: ArrayLike, dtype: DTypeLike | None = None, usm_type: str = "device") -> Buffer:
        """Make a buffer with a copy of `host`, anything `numpy.asarray` takes, on the thread's current queue.

        Every command that uses the buffer comes after the copy, as with `zeros`. `dtype` is by default that of `host`,
        in the machine's byte order. `usm_type` is as in `empty`. Raises ArgumentTypeError and InvalidArgumentError for
        what is not an array of numbers or structures; OutOfMemoryError, ClosedError and DriverError as `empty`.
        """
        host = to_array(host, None if dtype is None else read_dtype(dtype), "array")
        buffer = self.empty(host.shape, host.dtype, usm_type)
        queue = self.current_queue
        queue.copy(buffer, host)
        note_creation(buffer, queue)
        return buffer

    def as_buffer(self, thing: object) -> Buffer:
        """Make a buffer over memory that another object owns, without a copy.

        Launches also take such objects for pointer parameters, but make a new buffer each time. Does not block. Work on
        `thing` that was submitted elsewhere is not waited for: see `adopt_queue`. Finish the queues here before the
        host reads `thing`.

        Parameters
        ----------
        thing : object
            Writable and C-contiguous. On OpenCL: a `pyopencl.Buffer`, `pyopencl.array.Array` or SVM of pyopencl in this
            device's context (see `adopt`); on CPUs also host memory: NumPy arrays and objects with ``__dlpack__``,
            ``__array_interface__`` or the buffer protocol. On SYCL: objects with ``__sycl_usm_array_interface__``, from
            dpctl or dpnp, in USM memory of this device's context. It is kept alive until the buffer is closed or
            dropped and the work submitted by then is done. On every device: a pointer of `forebay.hip`, whose memory is
            gone once `hipFree` was called.

        Returns
        -------
        Buffer
            With the shape and dtype of `thing`; bytes where it has none.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError
            When `thing` is not such an object.
        NotSupportedError
            When the device adopts no memory. `Device.array` copies it.
        """
        self._check_open()
        return self._as_buffer(thing, self.current_queue)

    def _as_buffer(self, thing: object, queue: Queue) -> Buffer:
        """As `as_buffer`. `queue` comes after work submitted elsewhere, if the other package can say what that is."""
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
        """Whether kernels of this device can use memory of `peer` (CUDA: GPUs with a link). Does not block."""
        return peer._context is not self._context and self.driver.can_reach(peer.driver)

    def enable_peer_access(self, peer: Device) -> None:
        """Let kernels and copies of this device use buffers of `peer` from now on (HIP, hipDeviceEnablePeerAccess).

        Launches on queues of this device take them as arguments, and keep their memory until they are done; bound
        launches take them by `as_buffer`. Only events and waits order the queues of the two devices. The other
        direction needs its own call. On CUDA it waits until no gate is closed, as a build does. Raises
        NotSupportedError when `can_access_peer` is False.
        """
        self._check_open()
        if not self.can_access_peer(peer):
            raise NotSupportedError(f"{self.name} cannot access memory of {peer.name}: copy it (Queue.copy)")
        retry_until(self.driver.reach, peer.driver)
        self._peers.add(peer.driver)

    def disable_peer_access(self, peer: Device) -> None:
        """Refuse buffers of `peer` again. What was submitted before still runs. Does not block."""
        self._peers.discard(peer.driver)

    def _over_peer(self, Buffer buffer) -> Buffer:
        """Return a buffer of this device over the same memory, which it keeps until the work with it is done."""
        memory = hold_memory(buffer.allocation)
        return self._over(
            self.driver.adopt_peer(memory, buffer.memory.address, buffer.nbytes), buffer.shape, buffer.dtype)

    def _copy_from_peer(self, queue: Queue, dst: Buffer, src: Buffer) -> bool:
        """Copy memory of another device on a queue of this one. Later work of the other comes after it by the null
        queue's rule (CUDA, cuMemcpyPeer). Returns False, with nothing done, if it cannot be reached, or not now.
        """
        peer = src.device
        if not (src.nbytes and self.driver.can_reach(peer.driver) and self.driver.reach(peer.driver)):
            return False
        src._let_follow(peer.null_queue, True)
        queue.wait(peer.null_queue)
        queue.copy(dst, self._over_peer(src))
        peer.null_queue.wait(queue)
        peer.null_queue.record()  # carries the wait; blocking queues come after it
        return True

    def _over(
        self, memory: DriverMemory, shape: tuple[int, ...], dtype: DTypeLike, offset: int = 0, listed: bool = False
    ) -> Buffer:
        """Make a buffer over memory that others may change without forebay seeing it. `listed` is as in `Adopted`."""
        dtype = read_dtype(dtype)
        allocation = new_allocation(self, own_memory(self.state, memory, listed))
        expose(allocation)
        if offset == 0:
            return new_buffer(allocation, 0, shape, dtype)
        return new_buffer(allocation, 0, (memory.nbytes,), np.dtype(np.uint8))._part(offset, shape, dtype)

    def _keep_until_done(self, thing: object) -> None:
        """Release `thing`, which no outstanding command uses, once the driver allows releases."""
        retire_after(self.state, thing, NULL, 0)

    def _is_pinned(self, address: int, nbytes: int) -> bool:
        return pinned_memory_of(<const void*> <uintptr_t> address, nbytes, self.state) is not None

    # -- programs

    @property
    def languages(self) -> tuple[str, ...]:
        """What `program` takes here: some of "OpenCL C", "SPIR-V", "HIP C++", "CUDA C++", "PTX" and "cubin"."""
        return tuple(map(str, languages_of(self.driver)))

    def program(self, source: str | bytes | bytearray | memoryview, options: str | Sequence[str] = ()) -> Program:
        """Build a program.

        Blocks while it compiles. What any process compiled before is read from disk, unless it includes files.

        Parameters
        ----------
        source : str or bytes
            In one of `languages`: OpenCL C, HIP C++ (what has a ``__global__``), or bytes of SPIR-V.
        options : str or sequence of str
            Compiler options such as ``"-cl-fast-relaxed-math"``; for HIP C++ those of clang, such as ``"-std=c++20"``.

        Raises
        ------
        BuildError
            When the program does not build. The compiler's log is in the message and in ``.log``.
        InvalidArgumentError
            When an option for HIP C++ is unknown, bytes are in no language, or text has a lone surrogate.
        NotSupportedError
            When the device does not take the language, or the source is HIP C++ and no compiler for it is installed:
            ``pip install 'forebay[hip]'``.
        """
        self._check_open()
        source, options = read_source(source, options)
        began = time.perf_counter()
        with finished_before_exit("program()"):
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
        from forebay.compiler.cache import key_of  # late: only programs need the cache's imports

        parameters = {name: len(native.parameters) for name, native in natives.items()}
        identities = Identities(key_of("program", source, *options), parameters)
        return Program(self, natives, identities, self._make_kernel, symbols)

    @property
    def _reductions(self) -> Reductions:
        with cython.critical_section(self):
            if self._reducing is None:
                self._reducing = Reductions(self)
            return self._reducing

    @property
    def _moves(self) -> Moves:
        with cython.critical_section(self):
            if self._moving is None:
                self._moving = Moves(self, declare_move)
            return self._moving

    def _make_kernel(self, native: DriverKernel, identities: Any, accesses: Any) -> Any:
        return new_kernel(self, self.state, native, identities, accesses)

    # -- sync and life

    def finish(self) -> None:
        """Block until all queues are done, also those of other Devices that share the context.

        Takes one host synchronize for any number of queues (HIP, hipDeviceSynchronize).

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
        """Finish its queues and the null queue, then close. Later uses of the device, its queues or buffers raise.

        Blocks until the work is done. Other Devices of the context, and the null queue, go on. May be called twice.

        Raises
        ------
        Error
            Inside a host function. The device stays open.
        DriverError
            When the driver reports a failure.
        Exception
            The first that a host function raised since the last synchronize. `sys.unraisablehook` gets the others.
        """
        if not self.closed:
            close_device(self, True)

    def _disband(self) -> None:
        """Close queues and buffers, and drop references that would keep the Device until a garbage collection."""
        refuse_commands(self)
        if self.check:
            self._told = races_of(self)
            change_checking(self._null_queue, -1, self.check == "races,error")
        self._host_errors.close()
        self._open_allocations.close_all()
        self._built.clear()
        with cython.critical_section(self):
            _before = self._null_queue, self._reducing, self._moving, self._thread_queues
            self._null_queue = None  # its state stays: other threads may be about to use the other queues
            self._reducing = self._moving = None
            self._thread_queues = ThreadQueues(deque())  # drops those of all threads

    cpdef int _check_open(self) except -1:
        if self.closed or self._context.lost is not None:
            raise self._unusable(self)
        return 0

    def _unusable(self, thing: object) -> Error:
        lost = self._context.lost
        return closed_error(thing) if lost is None else DeviceLostError(f"{thing!r}: the device is lost: {lost}")

    def __repr__(self) -> str:
        return f"<forebay.Device {self.info.name}: {self.info.description}>"

    def _give_back_memory(self) -> None:
        synchronized(self, None)

    # -- errors

    def _raise(self, status: int, what: str) -> None:
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
        """Raise the exception for a command that the driver accepted and that failed on the device."""
        name = self.driver.functions.name_of(code)
        raise driver_error(self, f"a command failed on the device: {name} ({what})", "", code, name)

    def _wait_for_openings(self) -> None:
        """Block until no gate that was opened counts as closed."""
        with nogil:
            wait_for_openings()


def races_of(Device device) -> tuple[Race, ...]:
    if device._told is not None:
        return device._told
    return found_races(device.state.null_queue.epochs.queue_id) if device.state.checked else ()


def unless_closed(Device device, queue: Queue) -> Queue:
    """Return a new queue, unless another thread has closed the Device meanwhile, or found it lost."""
    if device.closed or device._context.lost is not None:
        queue.close()
        raise device._unusable(device)
    return queue


def give_back_shared(Device device) -> bool:
    """Free closed memory that processes shared. Returns False, with nothing freed, while a gate is closed."""
    collect_device(device.state)
    return bool(device.driver.give_back_shared())


cdef int retry_until(function, argument) except -1:
    """Call it until it returns True, as it does once no gate is closed."""
    while not function(argument):
        time.sleep(0.001)  # nothing signals that the last gate opened; the sleep lets signal handlers run
    return 0


def leave_host_memory(Device device, Buffer buffer) -> None:
    """Close a buffer of `_over_host_memory`. Blocks until no work submitted here uses its memory."""
    cdef OwnedMemory memory = memory_if_open(buffer.allocation)
    if device.closed or memory is None:
        return
    finish_all(device)
    buffer.close()
    device.driver.unregister_host(memory.native)


cdef bint make_room(Device device) except -1:
    """Free unused memory, and wait for memory that will come free. Returns whether there was any."""
    cdef Status status = 0
    cdef bint given_up = device.pool.give_up(0, False) | device._launch_memory.give_up(0, False)
    if not collect_all(device.state) and not given_up:
        return False
    if not on_host_thread() and not captures_under_way():
        with nogil:
            status = wait_for_retired(device.state)
        check_status(device, status, "wait for memory")
        collect_all(device.state)
    return True


def close_device(Device device, raising: bool) -> None:
    cdef Refs[QueueState] queues
    refuse_on_host_thread("Device.close()")
    abandon_captures(device)
    was_lost = device._context.lost is not None  # then the user has had the error
    try:
        if not device.closed:
            finish_all(device, device.number, raising=False)  # host functions may still submit
            refuse_commands(device)
        finish_all(device, device.number, raising)  # what other threads submitted before the queues closed
    except DeviceLostError:  # all its work counts as done: the driver never reports it
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
        collect_all(device.state)  # what a gate delayed while it counted as closed
        device._disband()
        collect_all(device.state)
        if device._context.open_devices == 0:
            release_idle_queues(device.state, 0)
        device.pool.trim()
        device._launch_memory.trim()
        collect_all(device.state)  # what the pools have freed
        log.debug("closed %s", device.name)


def refuse_commands(Device device) -> None:
    """Close the queues, and with the last Device of the context the null queue. Calling it twice is allowed."""
    with cython.critical_section(device):
        closed = device.closed
        device.closed = True  # first: a queue that another thread registers from now on is closed by that thread
    if closed:
        return
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
    """Make a Device of a context that counts it as open already."""
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
    device.pool = new_pool(device.state, device.driver, device.info.memory // 2)
    device._launch_memory = new_pool(device.state, device.driver, device.info.memory // 2)
    device._launch_memory.release_threshold = KEPT_FOR_LAUNCHES
    device._null_queue = new_queue(device, context.null_queue, None)
    devices_made[device.number] = weakref.ref(device, partial(devices_made.pop, device.number))
    if checks:
        change_checking(device._null_queue, 1, raises)
        device.check = "races,error" if raises else "races"
        begin_summary()


def find_built(Device device, owner: object, key: Hashable) -> Any:
    # As its `get`, without a call of Python's. No `dict`: Cython's `get` borrows, and other threads may delete entries
    cdef object kept = device._built.data.get(weakref.ref(owner))
    return None if kept is None else kept.get(key)


def keep_built(Device device, owner: object, key: Hashable, built: object) -> None:
    """Keep what was compiled here for `owner`, such as an expression, until the Device or `owner` is gone.

    What is kept must not refer to `owner`. Raises ClosedError, and keeps nothing, if another thread closed the Device.
    """
    device._built.setdefault(owner, {})[key] = built
    if device.closed:  # checked last: `close` sets it before it clears `_built`
        device._built.clear()
        raise device._unusable(device)


cdef int synchronized(object of, object queue) except -1:
    cdef Device device = of
    device.pool.trim_after_wait()
    device._launch_memory.trim_after_wait()
    if device._host_errors.kept and queue is not None:
        device._host_errors.raise_first(queue)
    return 0


queue_module.after_wait = synchronized


cpdef int finish_all(Device device, uint64_t owner=0, bint raising=True) except -1:
    """Finish all queues; with an owner, its queues and the null queue."""
    cdef Ref[Clock] past
    cdef Refs[QueueState] queues
    cdef Status status
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


# For each setting of `queue`, the keywords that other packages use for it.
SETTINGS: dict[str, str] = {
    "blocking=False": "non_blocking nonblocking flags",
    "timing=True": "enable_profiling profiling properties property enable_timing",
}


def check_flag(value: object, name: str) -> None:
    """Refuse anything but a bool, because Python would take any value as one."""
    if not isinstance(value, (bool, np.bool_)):
        raise ArgumentTypeError(f"{name} is a bool, not {type(value).__name__}")


def check_handle(value: object, name: str) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise ArgumentTypeError(f"{name}: a handle of another process is bytes, not {type(value).__name__}")
    return bytes(value)


_adopting = threading.Lock()  # so that two threads that adopt queues of one context get one Device


def _drivers_open() -> list[DriverDevice]:
    return [device.driver for device in open_devices() if not device.private]


def _device_over(driver: DriverDevice) -> Device:
    """Return the Device of an adopted `DriverDevice`, making it if there is none."""
    for device in open_devices():
        if device.driver is driver:
            return device
    return Device._of(driver)


def _leave_all_to_parent() -> None:
    """In a forked child: release nothing of any device, and make its queues refuse commands."""
    cdef Device device
    if is_forked():
        for made_one in devices_made.values():
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
    """Close all devices, because drivers may fail if they are unloaded at work. Gates hold queues, so open them first.

    All queues refuse commands before any is finished: a finish may not end while daemon threads go on submitting.
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


# -- what all Devices of one name share: the driver's context, the null queue, and the state of all queues. Two
# libraries of one program may each make a Device, and exchange buffers, queues and events.


changes.store(1)


class Entered(threading.local):
    """The queues of one device that this thread has entered by ``with``, innermost last."""

    def __init__(self) -> None:
        self.queues: list[Queue] = []


class _Own:
    """Owns a thread's own queue. When the thread ends, the queue becomes idle, for another thread to take."""

    def __init__(self, queue: Queue, idle: deque[Queue]) -> None:
        self.queue = queue
        self.idle = idle

    def __del__(self) -> None:
        changes.fetch_add(1)  # first: it invalidates borrowed references to the queue
        if not self.queue.closed:
            self.idle.append(self.queue)


class ThreadQueues(threading.local):
    """A thread's own queue of a device. `idle` holds those of threads that have ended."""

    def __init__(self, idle: deque[Queue]) -> None:
        self._idle = idle
        self._own: _Own | None = None

    def own(self, make: Callable[[], Queue]) -> Queue:
        """Return this thread's own queue: an idle one of a thread that has ended, else a new one."""
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
_sharing = threading.RLock()  # guards that, and `open_devices` of each; a finalizer may close a Device
cdef atomic[uint64_t] owners  # how many Devices were made so far


@cython.no_gc_clear
cdef class Context:
    """A driver's context of one device, with its queues. It is freed with the last Device and what keeps a Device."""

    driver: DriverDevice
    entered: Entered
    lost: str | None

    def __dealloc__(self):
        if is_forked():
            Py_INCREF(self.driver)  # never freed: it and its outstanding work are the parent's
            return
        if self.null_queue != NULL:
            retire_queue(self.null_queue)
        if self.state != NULL:
            abandon(self.kept_state, self.driver)

    cdef uint64_t number_device(self):
        """Return the number of a new Device, and count its queues from now on."""
        cdef Guard guard
        cdef uint64_t number = owners.fetch_add(1) + 1
        guard.take(self.state.registry.lock)
        self.state.registry.counts_of_ended[number]  # inserts zeros
        return number

    cdef leave(self):
        """Count a Device as closed. With the last, the null queue closes, and no Device can join any more."""
        with _sharing:
            self.open_devices -= 1
            last = self.open_devices == 0
            if last and self in _shared:
                _shared.remove(self)
        if last:
            with nogil:
                close_queues(self.state, 0)
            self.listed = None

    cdef lose(self, str message):
        """Note that the device is lost: its queues refuse commands, and a new Device gets its own context."""
        with _sharing:
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
    # Timed, because a Device that shares it may time records.
    native, handle = driver.create_queue(0, True)
    divide_capacity(context.state, driver.keeps_gil_below)
    context.null_queue = new_queue_of(context.state, native, handle, 0, True, True, True, False, 0)
    context.state.null_queue = context.null_queue
    return context


cdef Context context_of(object filter, bint private):
    """Return the context of the device that `selection.select` finds, opening it if it is not open, or if private."""
    cdef Context context, opened = None
    info = selection.select(filter)
    while True:
        if not private:
            context = join_shared(info, opened)
            if context is not None:
                if opened is not None and context is not opened:  # another thread was faster
                    opened.leave()
                return context
        elif opened is not None:
            return opened
        opened = new_context(selection.open_driver(info))


cdef Context join_shared(object info, Context opened):
    """Join the context of a device, or share `opened`, if that is given and there is none. None: there is none."""
    cdef Context context
    with _sharing:
        for context in _shared:
            if context.driver.info.name == info.name and context.driver.info.native is info.native:
                context.open_devices += 1
                return context
        if opened is not None:
            _shared.append(opened)
        return opened
