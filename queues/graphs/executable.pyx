"""Executable graphs, which `Graph.instantiate` makes and queues launch.

An executable has works and a `Prepared` made from them, which launches submit. A change replaces a node's work. If it
can, and no thread launches the `Prepared`, it also writes the arguments there (`change`). The next launch chooses
recordings for the changes (`renew`), or prepares the works anew. So another thread that changes or closes the
executable neither disturbs a launch nor makes it wait.
"""

import math
import threading
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakSet, ref

import numpy as np

cimport cython
from cpython.buffer cimport PyBuffer_Release
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libc.string cimport memcmp, memcpy
from libcpp.vector cimport vector

from forebay.core.driver cimport (
    CHANGED_GROUPS, CHANGED_POINTER, CHANGED_VALUE, COPY_COMMAND, FILL_COMMAND, FOR_DEVICE, FOR_HOST, HOST_MEMORY,
    LAUNCH_COMMAND, NOT_NOW, Change, Driver, Geometry, RecordedCommand, Status, Waits, no_waits
)
from forebay.core.ownership cimport Guard, Lock, Ref, relaxed_bint
from forebay.core.plan cimport POINTER, PackedPointer, Parameter, delete_plan, has_same_local, has_value, take_value
from forebay.core.process cimport is_forked
from forebay.core.state cimport (
    DeviceState, Marker, QueueState, begin_following, closed_gates, end_following
)
from forebay.core.usage cimport Usage, Versions, note_use, still_holds, version_of
from forebay.core.vector_clock cimport Clock, Epochs, EpochsRef, advance_submitted, completed_epoch, submitted_epoch
from forebay.lifetimes.deferred cimport collect_device, reach_point, retire_after
from forebay.queues.host_functions cimport Call, new_call, settle_call, submit_call
from forebay.queues.kernels.kernel cimport MOST_PACKED, Closing, Kernel
from forebay.queues.launch.launch cimport (
    GUARD, HAS_ARRAYS, HAS_BYTES, LARGE_SCRATCH, BoundLaunch, Views, check_count, check_elements, create_plan,
    has_geometry, pack_arguments, plain_extents, read_geometry, read_leaves, reductions_of, release_views,
    renew_resident_list, spilled_bytes
)
from forebay.queues.memory.allocation cimport OwnedMemory, memory_if_open, pointer_to
from forebay.queues.memory.buffer cimport Buffer, add_use
from forebay.queues.memory.transfers cimport copy_bytes, host_memory, host_memory_of, open_end
from forebay.queues.queue cimport Queue, capture_of
from forebay.races.checker cimport (
    Announcement, announce, begin_command, check_nodes, host_function, is_checked, join, races, record_point, settle
)
from forebay.races.launches cimport add_launch
from forebay.sync.ordering cimport (
    Command, await_capacity, check_status, commit, count_failed, init_command, may_stay_full, note_gate_epoch,
    room_of_host_function, submit, submit_ready, take_marker, wait_for_creation, wait_for_point, wait_on_host
)

from forebay.core.driver import AnyGraph
from forebay.core.errors import (
    ArgumentTypeError, ClosedError, GraphUpdateError, InvalidArgumentError, NotSupportedError
)
from forebay.queues.graphs.shape import BRANCHES, LANES, segments_of, serial_order
from forebay.queues.launch.launch import check_guards, fill_guards, known_of, new_guard, null, sizes_of
from forebay.queues.memory.allocation import host_empty
from forebay.queues.memory.pool import Unpooled
from forebay.queues.memory.shapes import read_dtype, read_shape
from forebay.queues.memory.transfers import check_ends, check_overlap, fill_pattern, pin_view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any
    from numpy.typing import DTypeLike
    from typing_extensions import Buffer as HostBuffer, Never
    from forebay.queues.device import Device
    from forebay.queues.graphs.graph import Graph, Node
    from forebay.queues.memory.shapes import Grid, ShapeLike


# -- what nodes do: checked and packed
#
# A work changes only by `rewrite`, when no other code has it. It owns copies of packed arguments, bytes by value and
# fill pattern, and refers to all else: host memory too, which is accessed when the graph runs (HIP). It has no scratch.


cdef extern from "Python.h":
    ctypedef struct PyTupleObject:
        PyObject** ob_item
    Py_ssize_t Py_REFCNT(PyObject* it)


cdef class Work:
    """The work of a node. Made by the methods of `Graph` and by capture."""

    cdef readonly str kind  # "kernel", "copy", "fill", "host", "empty", "alloc", "free" or "graph"
    cdef readonly bint follows  # it has indirect access, so it may write anywhere
    cdef readonly tuple buffers  # all that it uses
    cdef readonly tuple writes  # those that it may write to
    cdef RecordedCommand command  # of a kernel, copy or fill; without the kernel object
    cdef bint acts  # it submits something
    cdef bint by_host  # a part of it is done by the host thread
    cdef bint measures  # it has scratch whose size is read from buffers
    cdef object __weakref__

    buffers: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]

    def __init__(self, *args: Never, **kwargs: Never) -> None:
        raise ArgumentTypeError("a Work is made by the methods of a Graph, or by capture")


cdef class KernelWork(Work):
    """A launch, with copies of bytes by value."""

    cdef readonly Kernel kernel
    cdef readonly tuple arguments
    cdef bytes packed  # arguments as `pack_arguments` lays them out, without scratch
    cdef list by_value  # (index of the parameter, bytes); None without any
    cdef tuple scratch  # (index of the parameter, Size) of each
    cdef dict scalars  # what the sizes are computed from: values of scalar arguments, by leaf; None without scratch
    cdef dict measured  # and Buffers, by leaf

    arguments: tuple[Any, ...]

    @property
    def grid(self) -> tuple[int, ...]:
        return tuple([self.command.geometry.groups[i] for i in range(self.command.geometry.dimensions)])

    @property
    def block(self) -> tuple[int, ...]:
        return tuple([self.command.geometry.block[i] for i in range(self.command.geometry.dimensions)])

    def __repr__(self) -> str:
        return f"{self.kernel.name}[{self.grid}, {self.block}]"


cdef class CopyWork(Work):
    """A copy of `nbytes` from `src` to `dst`, Buffers or host memory."""

    cdef readonly object dst
    cdef readonly object src
    cdef readonly size_t nbytes
    cdef object host  # a view of the host memory, which keeps it where it is; None between buffers

    dst: Buffer | HostBuffer
    src: Buffer | HostBuffer

    def __repr__(self) -> str:
        return f"copy {self.nbytes} bytes, {direction_of(self)}"


cdef class FillWork(Work):
    """A fill of `buffer` with `value`."""

    cdef readonly object buffer
    cdef readonly object value
    cdef readonly bytes pattern

    buffer: Buffer
    value: Any

    def __repr__(self) -> str:
        return f"fill {self.buffer.nbytes} bytes with {self.value!r}"


cdef class HostWork(Work):
    """A call of `function`, on the host."""

    cdef readonly object function

    function: Callable[[], object]

    def __repr__(self) -> str:
        return f"host {getattr(self.function, '__qualname__', None) or type(self.function).__name__}"


cdef class MemoryWork(Work):
    """Memory, a GraphMemory, that the graph hands out as `buffer`, or takes back."""

    cdef readonly Buffer buffer
    cdef readonly object memory

    memory: GraphMemory

    def __repr__(self) -> str:
        return f"{self.kind} {self.memory.nbytes} bytes"


cdef class ListWork(Work):
    """`works` one after the other: the rows of a copy or fill, all of a graph, or none, for others to depend on."""

    cdef readonly tuple works

    works: tuple[Work, ...]

    def __repr__(self) -> str:
        return self.kind if self.kind == "empty" else f"{self.kind} of {len(self.works)}"


def make_kernel(device: Device, launched: Kernel, grid: Grid, block: Grid, tuple given) -> KernelWork:
    """Make the work of ``queue.launch(launched, grid, block, *given)``. Raises the same errors as the launch. Inputs
    of scratch sizes are only noted: each launch of the graph reads them.
    """
    cdef KernelWork work
    cdef Kernel kernel
    cdef PyObject** arguments
    cdef char* packed
    cdef Views views
    cdef Py_ssize_t i
    if type(launched) is not Kernel:
        raise ArgumentTypeError(f"a launch needs a Kernel, not {type(launched).__name__}")
    kernel = launched
    if kernel.closed:
        raise ClosedError(f"kernel {kernel.name!r} is closed")
    if kernel.device._context is not device._context:
        raise InvalidArgumentError(
            f"kernel {kernel.name!r} belongs to {kernel.device.name}, the graph to {device.name}")
    if kernel.scratch_sizes:
        check_count(kernel, len(given))
        left = iter(given)
        given = tuple([null if kernel.left_out[i] else next(left) for i in range(kernel.count)])
    work = new_kernel_work(kernel)
    arguments = (<PyTupleObject*> given).ob_item
    packed = PyBytes_AS_STRING(work.packed)
    pack_arguments(kernel, arguments, len(given), packed, &views)
    try:
        check_elements(kernel, packed)
        if views.unusual & HAS_ARRAYS:
            raise ArgumentTypeError(
                f"kernel {kernel.name!r}: a graph takes no arrays of the host nor memory of other packages; "
                "pass Buffers (Device.array, Device.as_buffer), or by_value(array)")
        if not has_geometry(kernel, grid, block):
            grid, block = plain_extents(kernel, "grid", grid), plain_extents(kernel, "block", block)
        work.command.geometry = read_geometry(kernel, grid, block)[0]
        if views.unusual & HAS_BYTES:
            work.by_value = spilled_bytes(kernel, packed)
    finally:
        release_views(&views)
    if kernel.scratch_sizes:
        work.scratch = kernel.scratch_sizes
        work.scalars, work.measured = read_leaves(kernel, work.scratch, arguments)
        work.measures = bool(work.measured)
        if not work.measures:
            sizes_of(kernel, work.scratch, work.scalars)  # raises errors
    note_arguments(work, given)
    return work


cdef KernelWork new_kernel_work(Kernel kernel):
    cdef KernelWork work = KernelWork.__new__(KernelWork)
    work.kind = "kernel"
    work.command.kind = LAUNCH_COMMAND
    work.kernel = kernel
    work.scratch = ()
    work.acts = True
    work.packed = PyBytes_FromStringAndSize(NULL, kernel.packed_size)  # for the caller to fill in
    return work


def make_bound(BoundLaunch bound) -> KernelWork:
    """Make the work of a bound launch, which is already checked and packed."""
    cdef KernelWork work = new_kernel_work(bound.kernel)
    work.packed = PyBytes_FromStringAndSize(bound.plan.values.data(), bound.plan.values.size())
    work.command.geometry = bound.geometry
    work.by_value = bound.by_value
    note_arguments(work, bound.arguments)
    return work


cdef bint are_plain(tuple given):
    """Return whether reading these arguments of a kernel runs no other code."""
    for each in given:
        if type(each) is not Buffer and type(each) is not int and type(each) is not float:
            return False
    return True


cdef bint has_same_buffers(tuple given, tuple before):
    cdef PyObject** items = (<PyTupleObject*> given).ob_item
    cdef PyObject** others = (<PyTupleObject*> before).ob_item
    cdef Py_ssize_t i, count = len(given)
    for i in range(count):
        if items[i] != others[i] and (type(<object> items[i]) is Buffer or type(<object> others[i]) is Buffer):
            return False
    return True


cdef void note_arguments(KernelWork work, tuple given):
    work.arguments, work.follows = given, work.kernel.follows
    if work.by_value:
        copies = dict(work.by_value)
        work.arguments = tuple([copies.get(i, argument) for i, argument in enumerate(given)])
    work.buffers, work.writes = buffers_among(work.kernel, work.arguments)


cdef tuple buffers_among(Kernel kernel, tuple arguments):
    """Return the Buffers among the arguments of a launch, and those that it may write to."""
    written = [arguments[kernel.written[i]] for i in range(kernel.written.size())]
    return tuple([each for each in arguments if type(each) is Buffer]), tuple([
        each for each in written if type(each) is Buffer])


cdef int check_buffer(object device, Buffer buffer, str what) except -1:
    if buffer.allocation.closed:
        raise buffer._closed_error(what)
    if buffer.allocation.device._context is not device._context:
        raise InvalidArgumentError(f"{what} belongs to {buffer.device.name}, the graph to {device.name}")
    return 0


def make_copy(device: Device, dst: Buffer | HostBuffer, src: Buffer | HostBuffer) -> CopyWork:
    """Make the work of ``queue.copy(dst, src)``. Host memory is accessed only when the graph runs."""
    cdef CopyWork work = CopyWork.__new__(CopyWork)
    cdef RecordedCommand* command = &work.command
    cdef Py_buffer view
    cdef bint download = isinstance(src, Buffer)
    if not isinstance(dst, Buffer) and not download:
        raise ArgumentTypeError(
            f"copy(dst, src) needs at least one Buffer, not {type(dst).__name__} and {type(src).__name__}")
    for what, each in (("dst", dst), ("src", src)):
        if isinstance(each, Buffer):
            if each.device._context is not device._context and not each.closed:
                raise NotSupportedError(f"{what} belongs to {each.device.name}: a graph copies on one device only")
            check_buffer(device, each, what)
    work.kind = "copy"
    work.dst, work.src = dst, src
    work.buffers = tuple([each for each in (dst, src) if isinstance(each, Buffer)])
    work.writes = (dst,) if isinstance(dst, Buffer) else ()
    work.nbytes = (src if download else dst).nbytes
    work.acts = work.nbytes != 0
    command.kind, command.nbytes = COPY_COMMAND, work.nbytes
    if len(work.buffers) == 2:
        check_ends(dst, (<Buffer> dst).nbytes, src, (<Buffer> src).nbytes)
        check_overlap(dst, src)
        command.to, command.source = (<Buffer> dst).memory, (<Buffer> src).memory
        return work
    host = open_end(dst if download else src, download, src if download else dst, &view)
    try:
        work.by_host = not device._is_pinned(<uintptr_t> view.buf, view.len) and not (
            device.driver.takes_pageable if download else device.driver.reads_pageable_late)
        work.host = pin_view(host)
        command.to = command.source = host_memory(view.buf)
    finally:
        PyBuffer_Release(&view)
    if download:
        command.source = (<Buffer> src).memory
    else:
        command.to = (<Buffer> dst).memory
    return work


def make_fill(device: Device, buffer: Buffer, value: Any) -> FillWork:
    cdef FillWork work = FillWork.__new__(FillWork)
    cdef RecordedCommand* command = &work.command
    if not isinstance(buffer, Buffer):
        raise ArgumentTypeError(f"fill() needs a Buffer, not {type(buffer).__name__}")
    check_buffer(device, buffer, "buf")
    work.kind = "fill"
    work.buffer = buffer
    work.value = value
    work.pattern = fill_pattern(buffer, value)
    work.buffers = work.writes = (buffer,)
    work.acts = (<Buffer> buffer).nbytes != 0
    command.kind, command.to, command.nbytes = FILL_COMMAND, (<Buffer> buffer).memory, (<Buffer> buffer).nbytes
    command.pattern = work.pattern
    command.pattern_size = len(work.pattern)
    return work


def make_host(function: Callable[[], object]) -> HostWork:
    cdef HostWork work = HostWork.__new__(HostWork)
    if not callable(function):
        raise ArgumentTypeError(f"host() needs something to call, not {type(function).__name__}")
    work.kind = "host"
    work.function = function
    work.buffers = work.writes = ()
    work.acts = work.by_host = True
    return work


def make_list(str kind, works: Iterable[Work]) -> ListWork:
    cdef ListWork work = ListWork.__new__(ListWork)
    cdef Work each
    work.kind = kind
    work.works = tuple(works)
    work.buffers = tuple(dict.fromkeys([buffer for each in work.works for buffer in each.buffers]))
    work.writes = tuple(dict.fromkeys([buffer for each in work.works for buffer in each.writes]))
    for each in work.works:
        work.follows |= each.follows
        work.measures |= each.measures
        work.acts |= each.acts
        work.by_host |= each.by_host
    return work


def make_alloc(device: Device, shape: ShapeLike, dtype: DTypeLike, freed: GraphMemory | None = None) -> MemoryWork:
    """Make the work of ``queue.alloc(shape, dtype)``, in the memory `freed` or in memory of its own."""
    shape, dtype = read_shape(shape), read_dtype(dtype)
    nbytes = math.prod(shape) * dtype.itemsize
    memory = GraphMemory(device, nbytes, freed)
    work = memory_work("alloc", device.pool._buffer_on(device, memory, shape, dtype))
    memory.work = ref(work)
    return work


def make_free(device: Device, buffer: Buffer) -> MemoryWork:
    if not isinstance(buffer, Buffer):
        raise ArgumentTypeError(f"free() needs a Buffer, not {type(buffer).__name__}")
    check_buffer(device, buffer, "buf")
    if graph_memory_of(buffer) is None:
        raise InvalidArgumentError(
            "free: a graph can free only what a graph has allocated; free this outside of the capture")
    return memory_work("free", buffer)


cdef MemoryWork memory_work(str kind, Buffer buffer):
    cdef MemoryWork work = MemoryWork.__new__(MemoryWork)
    work.kind = kind
    work.buffer = buffer
    work.memory = graph_memory_of(buffer)
    work.buffers = (buffer,)
    work.writes = (buffer,) if kind == "alloc" else ()  # an allocation's contents are unspecified
    return work


# -- memory that graphs allocate: nodes that hand it out, and nodes that take it back (CUDA, graph memory nodes)
#
# Its address is fixed when the node is made. The memory therefore exists from then on, for as long as a node, an
# executable graph or a Buffer uses it. Launches and frees only limit the time in which it may be used: a launch of the
# graph hands it out; a free node, or a free after the launch, takes it back.


memory_lock = threading.RLock()  # reentrant: the garbage collector may run a `free` while this thread holds it
_figures: WeakKeyDictionary[Device, Figures] = WeakKeyDictionary()


class Figures:
    """The device memory that the graphs of a device use, in bytes, and its peaks."""

    used_high: int  # with memory that graphs free themselves
    reserved_high: int

    def __init__(self) -> None:
        self.used_high = self.reserved_high = 0
        self._memories: WeakSet[GraphMemory] = WeakSet()

    @property
    def used(self) -> int:
        """Bytes that launches have handed out and that are not freed."""
        with memory_lock:
            return sum([memory.nbytes for memory in self._memories if memory.live])

    @property
    def reserved(self) -> int:
        """Bytes that were allocated from the driver and not freed."""
        with memory_lock:
            return sum({id(memory.memory): memory.reserved for memory in self._memories}.values())

    def reset(self, name: str) -> None:
        """Reset a peak, "used_high" or "reserved_high", to the current figure."""
        setattr(self, name, getattr(self, name.removesuffix("_high")))


def figures_of(device: Device) -> Figures:
    return _figures.setdefault(device, Figures())


class GraphMemory(Unpooled):
    """Stands for the driver's memory, or a part of it, in a Buffer of an allocation node."""

    memory: OwnedMemory  # the driver's
    reserved: int  # its bytes, of which this may be a part
    figures: Figures
    handle: int
    address: int
    nbytes: int
    inner: bool  # its graph frees it, so that no other code can
    live: bool  # a launch has handed it out, and it was not freed since; never if it is inner
    freed_at: tuple[int, int]  # id of the queue, and epoch, of the last free: its next use comes after that
    work: Callable[[], Work | None]  # a weak reference to the work of the allocation node

    def __init__(self, device: Device, nbytes: int, freed: GraphMemory | None) -> None:
        self.memory = device._allocate(nbytes, "device") if freed is None else freed.memory
        self.reserved = nbytes if freed is None else freed.reserved
        self.figures = figures_of(device)
        self.handle = self.memory.native.handle
        self.address = self.memory.native.address
        self.nbytes = nbytes
        self.inner = self.live = False
        self.freed_at = (0, 0)
        self.work = lambda: None
        with memory_lock:
            self.figures._memories.add(self)
            self.figures.reserved_high = max(self.figures.reserved_high, self.figures.reserved)

    def check_live(self) -> None:
        """Raise InvalidArgumentError if there is nothing to free: before the first launch, or after a free."""
        if self.inner:
            raise InvalidArgumentError("free: the graph that allocates this memory frees it, and no other code can")
        if not self.live:
            raise InvalidArgumentError("free: this memory was freed before, or no launch of its graph has allocated it")

    def free(self, queue: int, epoch: int) -> None:
        with memory_lock:
            self.check_live()
            self.live = False
            self.freed_at = (queue, epoch)


def graph_memory_of(Buffer buffer) -> GraphMemory | None:
    """Return the graph memory of a buffer. None for other memory, and for a closed buffer."""
    cdef OwnedMemory memory = memory_if_open(buffer.allocation)
    native = None if memory is None else memory.native
    return native if type(native) is GraphMemory else None


class Lifetimes:
    """The graph memory that a launch hands out and takes back. `nodes` and `works` are in their serial order."""

    def __init__(self, nodes: Sequence[Node], works: Sequence[Work], auto_free: bool) -> None:
        self.auto_free = auto_free  # a launch takes back what the previous one handed out
        self.made = [work.memory for work in works if work.kind == "alloc"]
        self.handed_out = [memory for memory in self.made if not memory.inner]
        self.taken = [work.memory for work in works if work.kind == "free" and work.memory not in self.made]
        self.peak = used = 0
        ours = {*self.made, *self.taken}
        there = set(self.taken)
        for node, work in zip(nodes, works, strict=True):
            for memory in ours.intersection(map(graph_memory_of, work.buffers)):
                if work.kind == "alloc":
                    there.add(memory)
                    used += memory.nbytes
                elif memory not in there:
                    raise InvalidArgumentError(
                        f"{node!r} uses memory before the graph allocates it, or after it frees it")
                elif work.kind == "free":
                    there.remove(memory)
                    used -= memory.nbytes
            self.peak = max(self.peak, used)

    @property
    def freed_at(self) -> list[tuple[int, int]]:
        """The points that a launch must come after, as (queue id, epoch) pairs."""
        return list({memory.freed_at for memory in self.made} - {(0, 0)})

    def begin(self) -> list[tuple[GraphMemory, bool]]:
        """Hand memory out and take memory back, or raise. Returns the state before, for `set_live`."""
        with memory_lock:
            for memory in self.handed_out:
                if memory.live and not self.auto_free:
                    raise InvalidArgumentError(
                        "the graph was launched before, and memory that it allocates was not freed since: free it, or "
                        "instantiate the graph with auto_free")
            for memory in self.taken:
                memory.check_live()
            before = [(memory, memory.live) for memory in (*self.handed_out, *self.taken)]
            self.set_live([(memory, False) for memory in self.handed_out])
            if self.made:
                figures = self.made[0].figures
                figures.used_high = max(figures.used_high, figures.used + self.peak)
            self.set_live([(memory, memory in self.handed_out) for memory, _ in before])
        return before

    def set_live(self, states: list[tuple[GraphMemory, bool]]) -> None:
        """Set which memory is handed out. If nothing was launched, this restores the state before `begin`."""
        with memory_lock:
            for memory, live in states:
                memory.live = live

    def end(self, queue: int, epoch: int) -> None:
        for memory in self.taken:
            memory.freed_at = (queue, epoch)


# -- for the race checker


cdef int add_uses(Work work, DeviceState* device, Announcement uses) except -1:
    cdef KernelWork launched
    cdef CopyWork copied
    if type(work) is KernelWork:
        launched = work
        return add_launch(
            launched.kernel, (<PyTupleObject*> launched.arguments).ob_item, PyBytes_AS_STRING(launched.packed),
            &launched.command.geometry, uses)
    if type(work) is ListWork:
        for each in (<ListWork> work).works:
            add_uses(each, device, uses)
    elif type(work) is CopyWork:
        copied = work
        for end, writes in ((copied.src, False), (copied.dst, True)):
            add_use(end if isinstance(end, Buffer) else copied.host, writes, "copy", device, uses, uses)
    elif work.buffers:
        add_use(work.buffers[0], True, work.kind, device, uses, uses)
    return 0


cdef Announcement uses_of_nodes(tuple works, tuple nodes, DeviceState* device, Announcement uses):
    """Add the uses of each work, with the line of the program that made its node."""
    for work, node in zip(works, nodes, strict=True):
        uses.place = node._place
        add_uses(work, device, uses)
    return uses


# -- what two graphs must share for one to replace the other (the rule of CUDA and HIP)


def shape_of(ordered: Sequence[Node]) -> list[tuple[Any, ...]]:
    """Return each node's kind, its dependencies, and the kinds of memory between which it copies."""
    at = {node: i for i, node in enumerate(ordered)}
    return [
        (node.kind, sorted([at[other] for other in node.dependencies]), direction_of(node.work)) for node in ordered
    ]


def direction_of(work: Any) -> Any:
    """Return between which kinds of memory a copy copies. For a graph: of each work. For other works: None."""
    if work.kind == "graph":
        return [(each.kind, direction_of(each)) for each in work.works]
    if work.kind != "copy":
        return None
    if type(work) is ListWork:
        return direction_of(work.works[0])
    return " to ".join(["device" if isinstance(end, Buffer) else "host" for end in (work.src, work.dst)])


def check_same_shape(ordered: Sequence[Node], expected: Sequence[tuple[Any, ...]]) -> None:
    shape = shape_of(ordered)
    if len(shape) != len(expected):
        raise GraphUpdateError(f"the other graph has {len(shape)} nodes, this one {len(expected)}", "nodes")
    for i, (there, here) in enumerate(zip(shape, expected, strict=True)):
        last = ("copies", "direction") if there[0] == "copy" else ("does", "nodes")
        verbs = ("is of kind", "kind"), ("depends on nodes", "dependencies"), last
        for (verb, reason), other, own in zip(verbs, there, here, strict=True):
            if other != own:
                text = repr if reason == "kind" else str
                raise GraphUpdateError(
                    f"node {i} of the other graph {verb} {text(other)}, here {text(own)}", reason, ordered[i])


# -- sizes of scratch


cdef inline bint is_still(const Versions* versions, const DeviceState* device) noexcept nogil:
    """Return whether nothing can have been written since to the inputs of the sizes."""
    return versions.memory.empty() or still_holds(versions, device.resident.unseen_writes.load())


cdef class Sizes:
    """Scratch sizes in bytes, as a launch computed them."""

    cdef uint64_t closings  # the device's count when all buffers were last seen open
    cdef dict by_work  # bytes of each scratch of a KernelWork
    cdef Versions versions  # of the inputs of the sizes, whose buffers the works keep
    cdef bint lasting  # False if a size is unknown, or an input can be written without forebay's knowledge


cdef list works_with_scratch(object works, bint all_launches=False):
    """Return the launches with scratch, or all launches, including those in lists."""
    cdef list found = []
    for work in works:
        if type(work) is ListWork:
            found += works_with_scratch((<ListWork> work).works, all_launches)
        elif type(work) is KernelWork and (all_launches or (<KernelWork> work).scratch):
            found.append(work)
    return found


cdef Sizes read_sizes(object queue, QueueState* state, tuple works):
    """Compute the sizes. Unknown inputs are measured on `queue`, which blocks. If it is None, they stay unknown."""
    cdef Sizes sizes = Sizes.__new__(Sizes)
    cdef KernelWork work
    cdef Buffer buffer
    sizes.by_work = {}
    sizes.closings = state.device.resident.closings.load()
    sizes.lasting = True
    sizes.versions.unseen_writes = state.device.resident.unseen_writes.load()
    launches = works_with_scratch(works)
    if not launches:
        return sizes
    buffers = [buffer for work in launches for buffer in work.measured.values()]
    seen = set()
    for buffer in buffers:  # first, so that a write from now on is noticed
        sizes.lasting = sizes.lasting and buffer.allocation.exposed.load() == 0
        if id_of(buffer) not in seen:
            seen.add(id_of(buffer))
            sizes.versions.memory.push_back(version_of(buffer.allocation.kept_usage))
    reduced = reductions_of(queue, state, buffers)
    if reduced is None:
        sizes.lasting = False
        return sizes
    left = iter(reduced)
    for work in launches:
        mine = [next(left) for _ in work.measured]
        sizes.by_work[work] = sizes_of(work.kernel, work.scratch, known_of(work.scalars, work.measured, mine))
    return sizes


cdef inline object id_of(Buffer buffer):
    return <uintptr_t> buffer.allocation.usage


cdef class Accesses:
    """What the works of a graph write to, and the inputs of their scratch sizes."""

    cdef list writers  # works
    cdef list reads  # (KernelWork, leaf, Buffer)

    def __cinit__(self) -> None:
        self.writers, self.reads = [], []

    def add(self, works: Iterable[Work]) -> None:
        """Add works. If one may write to an input of any scratch size, raises InvalidArgumentError and adds none."""
        cdef Work work
        cdef KernelWork launch
        writers = [work for work in works if work.writes or work.follows]
        reads = [
            (launch, leaf, buffer) for launch in works_with_scratch(works) for leaf, buffer in launch.measured.items()]
        for new, among in ((self.reads, writers), (reads, self.writers), (reads, writers)):
            for launch, leaf, buffer in new:
                for work in among:
                    if may_write(work, buffer):
                        refuse(launch, leaf, buffer, work)
        self.writers += writers
        self.reads += reads


cdef bint may_write(Work work, Buffer buffer):
    cdef Buffer written
    if work.follows:
        return True
    for written in work.writes:
        if (
            written.allocation.usage == buffer.allocation.usage
            and written.start < buffer.start + buffer.nbytes and buffer.start < written.start + written.nbytes
        ):
            return True
    return False


cdef object refuse(KernelWork launch, object leaf, Buffer buffer, Work writer):
    names = [launch.kernel.parameters[index].name for index, size in launch.scratch if leaf in size.leaves()]
    why = "follows pointers, so it may write there" if writer.follows and buffer not in writer.writes else (
        "may write there")
    raise InvalidArgumentError(
        f"kernel {launch.kernel.name!r}: the size of its scratch {names[0]!r} is read from {buffer!r} ({leaf!r}) "
        f"before the graph runs, and {writer!r} of the same graph {why}")


# -- submits graphs
#
# The first lane is the queue that the graph is launched on. Each other lane is a queue that only this graph uses, under
# the graph's own lock. Lanes wait for each other through markers. At the end the first lane waits for all others, so
# all other code sees the graph as one command.


cdef enum:
    MOST_TRIES = 100


cdef enum StepKind:
    COMMANDS
    HOST_CALL
    JOIN  # does nothing but wait


cdef cppclass Step:
    StepKind kind
    size_t first  # index of the first command, or of the host function
    size_t count
    Run* run  # owned; NULL: these commands are not recorded
    Copy* copy  # of the run, which one call replays; NULL: the commands are submitted one by one
    uint32_t lane  # see `forebay.queues.graphs.shape`
    bint from_start  # it begins a lane and waits for no other step, only for the start of the launch
    bint awaited  # another lane waits for it
    uint64_t room  # what a replay takes of the in-flight limit beside one command (`room_of_recorded_copy`)
    vector[size_t] waits  # for the ends of these steps, of other lanes


cdef cppclass UseOf:
    Ref[Usage] usage
    bint writes


cdef cppclass GraphCommand(Recorded):
    bint follows  # a launch of a kernel with indirect access
    size_t plan_at  # in `Kept.plans`
    size_t step


cdef cppclass Submission:
    """The steps, commands and lanes that a launch submits."""
    vector[UseOf] uses  # of the allocations that it uses
    relaxed_bint created  # a launch came after the creation of all of these, and later launches come after it
    bint follows  # it has indirect access, so it may use all memory
    EpochsRef last_queue  # of the last launch; NULL before the first
    uint64_t last_epoch
    vector[Step] steps
    vector[GraphCommand*] commands  # owned
    vector[void*] lanes  # the driver's queues; the first is NULL and stands for the launch queue
    uint64_t room  # of all steps


cdef enum:
    OUT_OF_DATE = -100  # not submitted: a buffer was written to or closed since the snapshot, or the queue may be full


cdef cppclass Replay(Command):
    """A launch that is one recording."""
    Submission* submission
    # The snapshot, compared again under the queue's lock: of the inputs of sizes, and of how many buffers were closed
    const Versions* versions
    uint64_t closings


cdef cppclass Launch(Replay):
    """A launch in progress."""
    vector[Call*] functions
    size_t called  # how many of these were submitted
    Waits waits  # the waits that the queue's next command carries
    Ref[Marker] begin  # marker of everything before the launch, or NULL
    void* start  # the event that other lanes begin with a wait for; NULL when there is nothing to wait for
    vector[void*] events  # by step: its event if another lane waits for it, else NULL; then further events; owned
    vector[void*] list  # wait list for the driver, which may overwrite it
    uint32_t touched  # one bit for each lane that may have received a command
    bint joined  # the queue waits for all of these


cdef inline void init_replay(Replay* run, Submission* submission, Sizes sizes) noexcept:
    run.at_once = True
    run.submission, run.versions, run.closings = submission, &sizes.versions, sizes.closings


cdef inline bint is_out_of_date(QueueState* queue, const Replay* run) noexcept nogil:
    return not is_still(run.versions, queue.device) or queue.device.resident.closings.load() != run.closings


cdef Status call_replay(QueueState* queue, Command* command, Waits waits) noexcept nogil:
    cdef Submission* submission = (<Replay*> command).submission
    cdef const Step* step = &submission.steps[0]
    cdef Status status
    if is_out_of_date(queue, <Replay*> command):
        return OUT_OF_DATE
    status = queue.driver.replay(queue.handle, step.copy.recording, waits)
    if status == 0:
        advance_submitted(queue.epochs, step.room)
        commit(queue, command)
        queue.counts.graph_launches += 1
        note_launch(queue, submission)
    return status


cdef Status submit_one(
    const Driver* driver, void* handle, Recorded* recorded, Waits waits, uint32_t* failed_at
) noexcept nogil:
    """Submit a command that is not recorded, or has changed since. Launches may share its kernel object."""
    cdef const RecordedCommand* command = &recorded.command
    cdef Status status = set_arguments(recorded, failed_at)
    if status != 0:
        return status
    if command.kind == LAUNCH_COMMAND:
        return driver.launch(handle, command.kernel, &command.geometry, waits)
    if command.kind == COPY_COMMAND:
        return driver.copy(handle, &command.to, &command.source, command.nbytes, waits, NULL)
    return driver.fill(handle, &command.to, command.pattern, command.pattern_size, command.nbytes, waits, NULL)


cdef inline void count_one(QueueState* queue, Launch* run) noexcept nogil:  # the queue is locked
    commit(queue, run)
    run.waits.count = 0


cdef Status add_event(QueueState* queue, void* handle, Waits waits, void** event) noexcept nogil:
    cdef Status status = queue.driver.marker(handle, waits, FOR_DEVICE, event)
    if status == 0:
        queue.counts.markers_made += 1
        queue.counts.events_made += 1
    else:
        event[0] = NULL
    return status


cdef Status begin_lanes(QueueState* queue, Launch* run) noexcept nogil:  # the queue is locked
    """Make the event that other lanes begin with a wait for. An idle queue with no waits needs none."""
    cdef Status status
    if run.waits.count == 0:
        status = take_marker(queue, FOR_DEVICE, run.begin)
        if status == 0 and run.begin.get().epoch > completed_epoch(run.begin.get().queue):
            run.start = run.begin.get().event
        return status
    status = add_event(queue, queue.handle, run.waits, &run.start)
    if status == 0:
        run.events.push_back(run.start)
        count_one(queue, run)
    else:
        count_failed(queue, run)
        run.waits.count = 0
    return status


cdef Status submit_step(QueueState* queue, size_t at, Launch* run) noexcept nogil:  # the queue is locked
    """Submit one step. Only the launch queue's commands advance its epoch: it waits for the other lanes at the end."""
    cdef Submission* submission = run.submission
    cdef Step* step = &submission.steps[at]
    cdef void* handle = queue.handle
    cdef Waits waits = run.waits
    cdef Status status = 0
    cdef GraphCommand* command
    cdef uint32_t failed_at = 0
    cdef size_t i
    if step.lane != 0:
        handle = submission.lanes[step.lane]
        run.touched |= <uint32_t> 1 << step.lane
    if step.lane != 0 or not step.waits.empty():
        run.list.clear()
        for i in range(step.waits.size()):
            run.list.push_back(run.events[step.waits[i]])
        if step.from_start and run.start != NULL:
            run.list.push_back(run.start)
        queue.counts.waits_made += run.list.size()
        waits = Waits(<uint32_t> run.list.size(), run.list.data())
    if step.kind == COMMANDS and step.copy == NULL:
        for i in range(step.first, step.first + step.count):
            command = submission.commands[i]
            status = submit_one(queue.driver, handle, command, waits, &failed_at)
            if status != 0:
                return status
            waits.count = 0
            if step.lane == 0:
                count_one(queue, run)
    else:
        if step.kind == COMMANDS:
            status = queue.driver.replay(handle, step.copy.recording, waits)
            if status == 0:
                advance_submitted(queue.epochs, step.room)
        elif step.kind == JOIN:
            status = queue.driver.barrier(handle, waits)
        else:
            status = submit_call(queue, handle, run.functions[run.called], waits)
            run.called += status == 0
            if status != 0 and step.lane == 0:
                count_failed(queue, run)
        if status == 0 and step.lane == 0:
            count_one(queue, run)
    if status == 0 and step.awaited:
        status = add_event(queue, handle, no_waits(), &run.events[at])
    return status


cdef Status join_touched(QueueState* queue, Launch* run) noexcept nogil:  # the queue is locked
    """After a failure, make the queue wait for the commands of its lanes."""
    cdef void* event = NULL
    cdef Status status = 0
    cdef size_t lane
    run.list.clear()
    for lane in range(1, run.submission.lanes.size()):
        if status == 0 and run.touched >> lane & 1:
            status = add_event(queue, run.submission.lanes[lane], no_waits(), &event)
            run.events.push_back(event)
            run.list.push_back(event)
    if status == 0:
        status = queue.driver.barrier(queue.handle, Waits(<uint32_t> run.list.size(), run.list.data()))
    if status == 0:
        count_one(queue, run)
    return status


cdef void finish_touched(QueueState* queue, Launch* run) noexcept nogil:
    """Wait on the host for the lanes, because `join_touched` failed. No lock of a queue is held. No other code knows of
    the lanes' commands, so a failed wait is tried again, up to MOST_TRIES times.
    """
    cdef void* event = NULL
    cdef size_t lane, tries
    cdef Status status
    for lane in range(1, run.submission.lanes.size()):
        tries = MOST_TRIES if run.touched >> lane & 1 else 0
        while tries:
            tries -= 1
            if queue.driver.marker(run.submission.lanes[lane], no_waits(), FOR_HOST, &event) == 0:
                status = wait_on_host(queue.device, Waits(1, &event), NULL)
                queue.driver.destroy_event(event)
                if status == 0:
                    break


cdef void note_launch(QueueState* queue, Submission* submission) noexcept nogil:
    """Note the uses of a launch that was submitted, at least in part. The queue is locked."""
    cdef uint64_t epoch = submitted_epoch(queue.epochs)
    cdef size_t i
    for i in range(submission.uses.size()):
        note_use(submission.uses[i].usage.get(), queue.epochs, epoch, submission.uses[i].writes)
    if submission.follows:
        end_following(queue, epoch)
    if submission.last_queue != queue.epochs:
        submission.last_queue = <Epochs*> queue.epochs
    submission.last_epoch = epoch


cdef uint64_t room_of_launch(const QueueState* queue, const Submission* submission, size_t functions) noexcept nogil:
    return submission.room + functions * (1 + room_of_host_function(queue))


cdef Status renew_resident_lists(QueueState* queue, Submission* submission) noexcept nogil:  # the queue is locked
    """Give kernel objects the list of memory, once in a launch, because several commands may share one."""
    cdef bint pending = (
        submission.last_queue == NULL or submission.last_epoch > completed_epoch(submission.last_queue))
    cdef Status status = 0
    for command in submission.commands:
        if command.follows and status == 0:  # the next epoch comes after the last launch, whatever queue that was on
            status = renew_resident_list(
                queue.device, command.plan, pending, queue.epochs, submitted_epoch(queue.epochs) + 1)
            command.command.kernel = command.plan.kernel
    return status


cdef Status call_run(QueueState* queue, Command* command, Waits waits) noexcept nogil:
    """Submit a whole launch. The epoch counts its driver calls, because it also bounds what is in flight."""
    cdef Launch* run = <Launch*> command
    cdef Submission* submission = run.submission
    cdef size_t i
    cdef Status status = 0
    if (
        is_out_of_date(queue, run)
        # the caller waits for capacity and tries again: here it holds the graph's lock
        or may_stay_full(queue, room_of_launch(queue, submission, run.functions.size()))
    ):
        return OUT_OF_DATE
    if not run.functions.empty():
        status = note_gate_epoch(queue)
        if status != 0:
            return status
    run.waits = waits
    if submission.follows:
        begin_following(queue)
        status = renew_resident_lists(queue, submission)
    if submission.lanes.size() > 1:
        run.events.resize(submission.steps.size(), NULL)
        for i in range(submission.steps.size()):
            if submission.steps[i].from_start and status == 0:
                status = begin_lanes(queue, run)
                break
    for i in range(submission.steps.size()):
        if status != 0:
            break
        status = submit_step(queue, i, run)
    if status == 0:
        queue.counts.graph_launches += 1
    elif run.touched:  # what was submitted before the failed call still runs
        run.joined = join_touched(queue, run) == 0
    if run.began:
        note_launch(queue, submission)
    elif submission.follows:
        end_following(queue, 0)
    return status


# -- what the launches of a graph submit, with all that this needs


cdef enum:
    NO_LAUNCH = 0xFFFFFFFF  # a node that is no launch, or one that cannot be changed


@cython.no_gc_clear
cdef class Prepared:
    """What launches submit, until a change needs other memory or kernels. `kept` is released after the last launch."""

    cdef list works  # as of the last launch
    cdef Sizes sizes
    cdef uint64_t version  # of the executable that this matches; 0 while it is renewed, and after that has failed
    cdef bint changed  # some launches changed since their copies were chosen; then no thread launches it
    cdef bint uses_changed  # the changed launches may use other memory than `buffers`
    cdef int users  # how many threads launch it; only touched with the GIL
    cdef tuple buffers  # all that the works use
    cdef Submission* submission  # owned
    cdef Recorder recorder
    cdef vector[uint64_t] versions  # by command
    cdef Kept kept  # its plans, lanes and memory
    cdef vector[Copy*] dropped  # discarded by their runs
    cdef vector[uint32_t] sharers  # by plan: how many launches it is for
    cdef uint32_t lane  # of what is added next
    cdef bint cut  # the next command begins a new step
    cdef bint branches  # one recording has all commands
    cdef vector[uint32_t] following  # then: the commands that the next one comes after
    cdef dict by_arguments  # index of a plan by lane, kernel id and packed arguments
    cdef dict scratch  # OwnedMemory by lane, kernel and index of the parameter; empty on a debugging device
    cdef list placed  # (lane, KernelWork) of what has scratch
    cdef vector[size_t] command_of  # by node: the index of its launch, or NO_LAUNCH
    cdef vector[size_t] changed_nodes  # since the copies were chosen, each once
    cdef vector[char] is_changed  # by node
    cdef vector[vector[uint32_t]] after  # by command: those that it comes after; empty where each follows the last
    cdef list guards  # of a debugging device
    cdef list functions
    cdef bint one_by_one  # some run has no copy that could be replayed
    cdef int repeats  # how many launches have found it so since the last change
    cdef bint alone  # all is in one run
    cdef int wasted  # for how many sizes in turn the scratch was far too large
    cdef object lifetimes  # Lifetimes of the memory that they allocate and free, or None

    def __cinit__(self) -> None:
        self.submission = new Submission()  # all zero
        self.submission.lanes.push_back(NULL)
        self.functions, self.guards = [], []
        self.by_arguments, self.scratch = {}, {}

    def __dealloc__(self):
        cdef GraphCommand* command
        cdef size_t i
        for i in range(self.submission.steps.size()):
            if self.submission.steps[i].run != NULL:
                take_copies(self.dropped, self.submission.steps[i].run)
                del self.submission.steps[i].run
        for command in self.submission.commands:
            del command
        if self.kept is not None:
            self.kept.copies.swap(self.dropped)
            retire_after(self.kept.state.get(), self.kept, self.submission.last_queue, self.submission.last_epoch)
        del self.submission

    cdef int retire_dropped(self) except -1:
        """Destroy the discarded copies once the last launch is done."""
        cdef Kept dropped
        if not self.dropped.empty():
            dropped = new_kept(self.kept.state.get())
            dropped.copies.swap(self.dropped)
            retire_after(self.kept.state.get(), dropped, self.submission.last_queue, self.submission.last_epoch)
        return 0

    cdef GraphCommand* add(self, const RecordedCommand* what, bint alone=False) except NULL:
        """Add a command; `alone`: it shares its step with no other."""
        cdef Submission* submission = self.submission
        cdef GraphCommand* command
        if alone or self.cut or submission.steps.back().kind != COMMANDS:
            self.add_step(COMMANDS, submission.commands.size(), 0)
        command = new GraphCommand()
        command.command = what[0]
        if self.branches:
            self.after.push_back(self.following)
            self.following.assign(1, <uint32_t> submission.commands.size())
        submission.commands.push_back(command)
        command.step = submission.steps.size() - 1
        submission.steps[command.step].count += 1
        self.cut = alone
        return command

    cdef int add_step(self, StepKind kind, size_t first, size_t count) except -1:
        cdef Step* step
        self.submission.steps.resize(self.submission.steps.size() + 1)
        step = &self.submission.steps.back()
        step.kind, step.first, step.count, step.lane = kind, first, count, self.lane
        self.cut = False
        return 0

    cdef int add_host(self, object function) except -1:
        self.add_step(HOST_CALL, len(self.functions), 1)
        self.functions.append(function)
        return 0


# -- records runs of commands, and changes what was recorded: for graphs, and for steps


cdef Status record(Recorder& recorder, Run* run, void** recording) noexcept nogil:
    """Record a run. NULL and status 0: the driver cannot record such commands."""
    cdef const Driver* driver = recorder.driver
    cdef Status status = driver.new_recording(recorder.queue, run.changeable, recording)
    cdef uint32_t failed_at = 0, previous
    cdef Recorded* each
    cdef size_t i
    if status != 0 or recording[0] == NULL:
        return status
    for i in range(run.end - run.first):
        each = recorder.commands[run.first + i]
        previous = <uint32_t> i - 1
        if status == 0:
            status = set_arguments(each, &failed_at)
        if status == 0 and recorder.after == NULL:
            status = driver.add_command(recording[0], &each.command, &previous, i > 0)
        elif status == 0:
            status = driver.add_command(
                recording[0], &each.command, recorder.after[i].data(), <uint32_t> recorder.after[i].size())
    if status == 0:
        status = driver.end_recording(recording[0])
    if status != 0:
        driver.destroy_recording(recording[0])
        recording[0] = NULL
    return status


cdef inline uint32_t next_change(const Copy* copy, const uint64_t* versions, uint32_t command) noexcept nogil:
    """Return the first command from this one on that has another version than in the copy, or their number."""
    cdef uint32_t count = <uint32_t> copy.versions.size()
    while command < count and copy.versions[command] == versions[command]:
        command += 1
        while command + 32 <= count and memcmp(&copy.versions[command], &versions[command], 32 * sizeof(uint64_t)) == 0:
            command += 32
    return command


cdef inline Change change_of(
    const Parameter* parameter, const char* value, uint32_t command, uint32_t index
) noexcept nogil:
    """Return the change that sets an argument of a recorded launch. It is not local memory."""
    if parameter.kind == POINTER:
        return Change(CHANGED_POINTER, command, index, 0, &(<const PackedPointer*> value).memory)
    return Change(CHANGED_VALUE, command, index, parameter.size, value)


cdef Status change(Recorder& recorder, Run* run, Copy* copy) noexcept nogil:
    """Write the newest version of each command into a copy that does not run."""
    cdef const uint64_t* versions = recorder.versions + run.first
    cdef const Parameter* parameter
    cdef const uint64_t* changed_at
    cdef Recorded* launch
    cdef uint32_t command, count, i
    cdef uint64_t known
    recorder.changes.clear()
    command = next_change(copy, versions, 0)
    while command < copy.versions.size():
        known = copy.versions[command]
        copy.versions[command] = versions[command]
        launch = recorder.commands[run.first + command]
        changed_at = launch.changed_at.data()
        parameter = launch.plan.parameters.data()
        count = <uint32_t> launch.plan.parameters.size()
        for i in range(count):
            if changed_at[i] > known:
                recorder.changes.push_back(change_of(parameter, launch.values.data() + parameter.offset, command, i))
            parameter += 1
        if changed_at[count] > known:
            recorder.changes.push_back(Change(CHANGED_GROUPS, command, 0, 0, &launch.command.geometry.groups[0]))
        command = next_change(copy, versions, command + 1)
    if recorder.changes.empty():
        return 0
    return recorder.driver.change(copy.recording, recorder.changes.data(), recorder.changes.size())


cdef Status choose_copy(Recorder& recorder, Run* run, size_t most, Copy** chosen) noexcept nogil:
    cdef const uint64_t* versions = recorder.versions + run.first
    cdef size_t i, at, count = run.copies.size()
    cdef bint runs
    cdef void* recording = NULL
    cdef Copy* copy
    cdef Status status
    chosen[0] = NULL
    if count != 0:
        copy = run.copies[run.current]
        if next_change(copy, versions, 0) == copy.versions.size():
            chosen[0] = copy  # it is not changed, so it may still run
            return 0
        runs = not recorder.driver.changes_spare_running and recorder.may_run(recorder.owner, copy)
        for i in range(1, count + 1):  # the one whose turn was last comes last
            at = (run.current + i) % count
            copy = run.copies[at]
            if run.changeable and not (runs if i == count else recorder.may_run(recorder.owner, copy)):
                run.current = at
                status = change(recorder, run, copy)
                if status == 0:
                    chosen[0] = copy
                return status
    if count >= most:
        return NOT_NOW
    status = record(recorder, run, &recording)
    if recording != NULL:
        copy = new Copy()
        copy.recording = recording
        copy.versions.assign(versions, versions + (run.end - run.first))
        run.current = count
        run.copies.push_back(copy)
        chosen[0] = copy
    return status


cdef void take_copies(vector[Copy*]& copies, Run* run) noexcept nogil:
    copies.insert(copies.end(), run.copies.begin(), run.copies.end())
    run.copies.clear()
    run.current = 0


# The garbage collector does not see this class: it empties lists before their owner has ended. So no host function is
# in it, as that may refer to its graph.
@cython.no_gc
cdef class Kept:
    def __dealloc__(self):
        cdef Copy* copy
        cdef size_t i
        if self.state.get() == NULL or is_forked():
            return
        for copy in self.copies:
            self.state.get().driver.destroy_recording(copy.recording)
            del copy
        for i in range(self.plans.size()):
            delete_plan(self.plans[i])


cdef object kept_of(object work):
    if type(work) is ListWork:
        return [kept_of(each) for each in (<ListWork> work).works]
    return None if type(work) in (HostWork, KernelWork) else work  # a plan keeps what its kernel needs


cdef Kept new_kept(DeviceState* state):
    cdef Kept kept = Kept.__new__(Kept)
    kept.state = Ref[DeviceState].share(state)
    kept.things = []
    return kept


# -- makes graphs ready to run: gives them their own kernels and memory, and records the commands
#
# Host functions and waits divide a lane into parts. If the driver can record commands, it submits each part by one
# call. If its recordings branch, that is the whole graph, unless a host function or indirect access divides it.


cdef enum:
    PATIENCE = 4  # sizes in turn for which the scratch is far too large, before it shrinks
    MOST_REPEATS = 8  # launches in turn that are submitted one by one, before one more copy is recorded for them


cdef int make_scratch(Prepared prepared, object device, list segments, Prepared last) except -1:
    """Allocate the scratch. Launches of a kernel in one lane share it, as they run one after the other. So do
    executions of one graph: scratch of `last` is reused if it is large enough, and not far too large.
    """
    cdef OwnedMemory memory
    cdef KernelWork work
    cdef dict needed = {}
    prepared.placed = [
        (segment.lane, work) for segment in segments
        for work in works_with_scratch([prepared.works[node] for node in segment.nodes])]
    for lane, work in prepared.placed:
        for (index, _), nbytes in zip(work.scratch, bytes_needed(prepared.sizes, work), strict=True):
            needed[lane, work.kernel, index] = max(needed.get((lane, work.kernel, index), 0), nbytes)
    for key, nbytes in needed.items() if not device.debug else ():
        memory = None if last is None else last.scratch.get(key)  # no other thread changes it
        there = 0 if memory is None else memory.native.nbytes
        if there < nbytes or there > LARGE_SCRATCH and there // 4 > nbytes:
            # an eighth more, so that scratch that grows slowly is not allocated at every launch
            memory = device._lease_scratch(None, nbytes if memory is None else nbytes + nbytes // 8)
        prepared.scratch[key] = memory
        prepared.kept.things.append(memory)
    return 0


cdef object bytes_needed(Sizes sizes, KernelWork work):
    """Return the bytes of each scratch of a launch; 1 for unknown sizes."""
    return sizes.by_work.get(work, [1] * len(work.scratch))  # no other thread changes it


cdef bint has_room(Prepared prepared, Sizes sizes):
    """Return whether all scratch is large enough, and no kernel's was far too large for several sizes in turn."""
    cdef KernelWork work
    cdef dict most = {}  # (needed, there) by kernel and parameter
    if prepared.guards:  # of a debugging device, whose scratch must fit exactly
        return sizes.by_work == prepared.sizes.by_work
    for lane, work in prepared.placed:
        for (index, _), nbytes in zip(work.scratch, bytes_needed(sizes, work), strict=True):
            pair = nbytes, prepared.scratch[lane, work.kernel, index].native.nbytes
            if pair[0] > pair[1]:
                return False
            most[work.kernel, index] = tuple(map(max, pair, most.get((work.kernel, index), (0, 0))))
    wastes = any([there > LARGE_SCRATCH and there // 4 > needed for needed, there in most.values()])
    prepared.wasted = prepared.wasted + 1 if wastes else 0
    return prepared.wasted <= PATIENCE


cdef OwnedMemory scratch_of(Prepared prepared, object device, KernelWork work, Py_ssize_t i):
    cdef OwnedMemory memory
    if not device.debug:
        return prepared.scratch[prepared.lane, work.kernel, work.scratch[i][0]]
    nbytes = bytes_needed(prepared.sizes, work)[i]
    memory = device._lease_scratch(None, nbytes + GUARD)
    prepared.kept.things.append(memory)
    prepared.guards.append(new_guard(device, work.kernel, memory, work.scratch[i], nbytes))
    return memory


cdef int add_plan(Prepared prepared, GraphCommand* launch, KernelWork work) except -1:
    """Give a launch a plan and kernel object of its own."""
    launch.plan = create_plan(prepared.kept.state.get().driver, work.kernel, NULL)
    launch.command.kernel = launch.plan.kernel
    launch.plan_at = prepared.kept.plans.size()
    prepared.kept.plans.push_back(launch.plan)
    prepared.sharers.push_back(1)
    return 0


cdef int add_kernel(Prepared prepared, object device, KernelWork work) except -1:
    """Add a kernel launch. In one lane, launches of one kernel with identical arguments share a kernel object of their
    own. Bytes by value have a buffer for each launch. They are copied there before every launch, never skipped.
    """
    cdef vector[char] packed
    cdef uint32_t failed_at = 0
    cdef PackedPointer* slot
    cdef bytes given
    cdef RecordedCommand copy
    cdef GraphCommand* launch
    cdef Status status
    cdef Py_ssize_t i
    cdef const char* arguments = PyBytes_AS_STRING(work.packed)
    packed.assign(arguments, arguments + len(work.packed))
    for index, value in work.by_value or ():
        given = value
        memory = device._allocate(len(given), "device")
        staged = device.driver.stage(len(given))
        prepared.kept.things += [memory, staged]
        slot = <PackedPointer*> (packed.data() + work.kernel.layout[<size_t> index].offset)
        slot[0] = pointer_to(memory)
        copy.kind, copy.to, copy.source, copy.nbytes = COPY_COMMAND, slot.memory, host_memory_of(staged), len(given)
        copy_bytes(<void*> <uintptr_t> copy.source.address, <const char*> given, len(given))
        prepared.add(&copy)
    for i in range(len(work.scratch)):
        slot = <PackedPointer*> (packed.data() + work.kernel.layout[<size_t> work.scratch[i][0]].offset)
        slot[0] = pointer_to(scratch_of(prepared, device, work, i))
    launch = prepared.add(&work.command, work.follows and prepared.recorder.driver.follow != NULL)
    launch.follows = work.follows
    launch.changed_at.resize(work.kernel.count + 1, 0)
    launch.values.swap(packed)
    key = prepared.lane, work.kernel.id, PyBytes_FromStringAndSize(launch.values.data(), launch.values.size())
    if key in prepared.by_arguments:
        launch.plan_at = prepared.by_arguments[key]
        launch.plan = prepared.kept.plans[launch.plan_at]
        launch.command.kernel = launch.plan.kernel
        prepared.sharers[launch.plan_at] += 1
        return 0
    add_plan(prepared, launch, work)
    prepared.by_arguments[key] = launch.plan_at
    status = set_arguments(launch, &failed_at)
    if status != 0:
        device._raise(
            status, f"kernel {work.kernel.name!r}, argument {failed_at} ({work.kernel._declared(failed_at)})")
    return 0


cdef object bytes_of(object host):
    return (host if isinstance(host, np.ndarray) else np.frombuffer(host, np.uint8)).reshape(-1).view(np.uint8)


cdef int add_staged_copy(Prepared prepared, object device, CopyWork work) except -1:
    """Add a copy of pageable memory that the driver would not access when the graph runs: the host thread does."""
    cdef RecordedCommand copy = work.command
    staged = host_empty(work.nbytes, np.uint8, device)
    prepared.kept.things.append(staged)
    if copy.to.kind & HOST_MEMORY:
        copy.to = host_memory_of(staged)
        prepared.add(&copy)
        return prepared.add_host(partial(np.copyto, bytes_of(work.host), staged))
    copy.source = host_memory_of(staged)
    prepared.add_host(partial(np.copyto, staged, bytes_of(work.host)))
    prepared.add(&copy)
    return 0


cdef int add_work(Prepared prepared, object device, Work work) except -1:
    if type(work) is ListWork:
        for each in (<ListWork> work).works:
            if (<Work> each).acts:
                add_work(prepared, device, each)
    elif type(work) is KernelWork:
        add_kernel(prepared, device, work)
    elif type(work) is HostWork:
        prepared.add_host((<HostWork> work).function)
    elif work.by_host:
        add_staged_copy(prepared, device, work)
    else:
        prepared.add(&work.command)
    return 0


cdef int add_segment(Prepared prepared, object device, segment, list ends, dict last) except -1:
    """Add a segment, and to `ends` its last step. With `branches` add its last command, also to `last`, by lane."""
    cdef Submission* submission = prepared.submission
    cdef size_t first = submission.steps.size()
    cdef Step* step
    cdef Work work
    prepared.lane = segment.lane
    prepared.cut = first == 0 or not prepared.branches
    prepared.following = [*last.get(segment.lane, ()), *[ends[at] for at in segment.waits]]
    for node in segment.nodes:
        work = prepared.works[node]
        add_work(prepared, device, work)
        if type(work) is KernelWork and is_changeable(<KernelWork> work):
            prepared.command_of[<size_t> node] = submission.commands.size() - 1
    if prepared.branches:  # later steps come after all of the recording
        ends.append(submission.commands.size() - 1)
        last[segment.lane] = ends[-1:]
        return 0
    if not segment.nodes:
        prepared.add_step(JOIN, 0, 0)
    step = &submission.steps[first]
    step.from_start = segment.from_start
    step.waits = [ends[at] for at in segment.waits]
    submission.steps.back().awaited = segment.awaited
    ends.append(submission.steps.size() - 1)
    return 0


cdef int add_runs(Prepared prepared, object device) except -1:
    """Make a run of each step that can be recorded, and record it."""
    cdef Submission* submission = prepared.submission
    cdef const Driver* driver = prepared.recorder.driver
    cdef Status status
    cdef Step* step
    cdef size_t i, k
    prepared.recorder.commands = <Recorded**> submission.commands.data()
    prepared.recorder.versions = prepared.versions.data()
    prepared.recorder.after = NULL
    if not prepared.after.empty():
        prepared.recorder.after = prepared.after.data()
    prepared.recorder.may_run, prepared.recorder.owner = may_run, <void*> prepared.kept.state.get()
    for i in range(submission.steps.size()):
        step = &submission.steps[i]
        # CUDA, whose recordings branch, replays one launch in less time than it launches it.
        if step.kind == COMMANDS and (step.count > 1 or driver.recordings_branch):
            step.run = new Run()
            step.run.first, step.run.end = step.first, step.first + step.count
            for k in range(step.run.first, step.run.end):
                step.room += driver.room_of_recorded_copy * (submission.commands[k].command.kind == COPY_COMMAND)
            submission.room += step.room
    with nogil:
        status = choose_copies(prepared)
    return check_status(device, status, "recording a graph")


cdef Status choose_copies(Prepared prepared) noexcept nogil:
    """Choose the copies that launches replay. After NOT_NOW the commands of a run are submitted one by one."""
    cdef Submission* submission = prepared.submission
    cdef Status status
    cdef Step* step
    cdef size_t i, most
    prepared.one_by_one = False
    for i in range(submission.steps.size()):
        step = &submission.steps[i]
        if step.run == NULL:
            continue
        if step.copy != NULL:  # the last launch replayed it
            step.copy.queue, step.copy.epoch = submission.last_queue, submission.last_epoch
        most = MOST_COPIES if prepared.repeats < MOST_REPEATS else step.run.copies.size() + 1
        status = choose_copy(prepared.recorder, step.run, most, &step.copy)
        if step.run.changeable and step.run.copies.empty() and status != NOT_NOW:
            step.run.changeable = False  # some kernels can be recorded, but not to be changed
            status = choose_copy(prepared.recorder, step.run, most, &step.copy)
        if status == 0 and step.copy == NULL:  # nor recorded
            del step.run
            step.run = NULL
            prepared.alone = False
        prepared.one_by_one |= status == NOT_NOW
        if status != 0 and status != NOT_NOW:
            return status
    prepared.repeats = 0
    return 0


cdef bint may_run(void* owner, Copy* copy) noexcept nogil:
    cdef Epochs* queue = <Epochs*> copy.queue
    if queue == NULL or copy.epoch <= completed_epoch(queue):
        return False
    reach_point(<DeviceState*> owner, queue, copy.epoch)
    return copy.epoch > completed_epoch(queue)


cdef int note_uses(Prepared prepared) except -1:
    cdef Submission* submission = prepared.submission
    cdef Buffer buffer
    cdef UseOf use
    prepared.buffers = tuple(dict.fromkeys([buffer for work in prepared.works for buffer in work.buffers]))
    written = {id_of(buffer) for work in prepared.works for buffer in work.writes}
    submission.uses.clear()
    submission.created = prepared.uses_changed = False
    for each in dict.fromkeys([id_of(buffer) for buffer in prepared.buffers]):
        use.usage = Ref[Usage].share(<Usage*> <uintptr_t> each)
        use.writes = each in written
        submission.uses.push_back(use)
    return 0


# -- changes the launches of what is prepared: only what differs
#
# The next launch writes the changes into a copy of the run.


cdef inline bint is_changeable(KernelWork work):
    return not (work.by_value or work.scratch or work.follows)


cdef bint change_launch(
    Prepared prepared, size_t node, Kernel kernel, const char* packed, const Geometry* geometry, bint replaced
) noexcept:
    """Change the arguments and geometry of a node's launch of the same kernel. False: it cannot. `replaced`: it may use
    other buffers. No thread launches what is prepared, and no Python code runs here.
    """
    cdef size_t at = prepared.command_of[node]
    cdef GraphCommand* launch
    cdef Step* step
    cdef const Parameter* parameter = kernel.layout
    cdef char* values
    cdef uint64_t version
    cdef uint32_t i, count = <uint32_t> kernel.count
    if at == NO_LAUNCH:
        return False
    launch = prepared.submission.commands[at]
    values = launch.values.data()
    version = prepared.versions[at] + 1
    step = &prepared.submission.steps[launch.step]
    if step.run != NULL and (
        not step.run.changeable
        or memcmp(&launch.command.geometry.block[0], &geometry.block[0], 3 * sizeof(uint32_t)) != 0
        or kernel.has_local and not has_same_local(parameter, count, values, packed)
    ):
        take_copies(prepared.dropped, step.run)  # it is recorded anew
        step.run.changeable = prepared.recorder.driver.change != NULL
        step.copy = NULL
    for i in range(count):
        if not has_value(values + parameter.offset, packed + parameter.offset, parameter.width):
            take_value(values + parameter.offset, packed + parameter.offset, parameter.width)
            launch.changed_at[i] = prepared.versions[at] = version
        parameter += 1
    if memcmp(&launch.command.geometry.groups[0], &geometry.groups[0], 3 * sizeof(uint32_t)) != 0:
        launch.changed_at[count] = prepared.versions[at] = version
    launch.command.geometry = geometry[0]
    if (replaced or step.run == NULL) and not prepared.is_changed[node]:
        prepared.is_changed[node] = True
        prepared.changed_nodes.push_back(node)
    prepared.changed = True
    prepared.uses_changed |= replaced
    return True


cdef Status set_launches(Prepared prepared, vector[size_t]& nodes) except? -1:
    """Set the arguments of launches that are not recorded. One that differs from its sharers gets its own object."""
    cdef GraphCommand* launch
    cdef Status status = 0
    cdef uint32_t failed_at = 0
    for node in nodes:
        if status != 0:
            break
        launch = prepared.submission.commands[prepared.command_of[node]]
        if prepared.submission.steps[launch.step].run != NULL:
            continue
        if prepared.sharers[launch.plan_at] > 1 and not is_same_block(
            launch.plan.values.data(), launch.values.data(), launch.values.size()
        ):
            prepared.sharers[launch.plan_at] -= 1
            add_plan(prepared, launch, prepared.works[node])
        status = set_arguments(launch, &failed_at)
    return status


cdef list hold_buffers(object works):
    """Return the memory of all Buffers of the works, or raise ClosedError. The caller keeps it while it passes their
    arguments to the driver, so that a close meanwhile, by other code or another thread, frees nothing.
    """
    cdef list held = []
    cdef Buffer buffer
    for work in works:
        for buffer in (<Work> work).buffers:
            memory = memory_if_open(buffer.allocation)
            if memory is None:
                raise buffer._closed_error(f"{work!r}, a node of the graph: a Buffer that it uses")
            held.append(memory)
    return held


cdef struct Point:
    uint64_t queue
    uint64_t epoch


@cython.no_gc_clear
cdef class ExecutableGraph(Closing):
    """A graph that can be launched any number of times; made by `Graph.instantiate`.

    It has copies of the graph's nodes as they were when it was made, and keeps all that they use alive. Its executions
    run one after the other (as in CUDA and HIP): a launch on another queue waits for the previous launch. Any thread
    may use it. A change takes effect with the next launch that begins, never with half of one. A launch that has begun
    completes even if another thread closes the graph.

    Attributes
    ----------
    device : Device
    closed : bool
    """

    cdef readonly object device
    cdef readonly relaxed_bint closed
    # Code that replaces one of these releases the old one last, because that may run any code.
    cdef list works  # the nodes' works, or their replacements
    cdef uint64_t version  # rises whenever one is replaced
    cdef bint measures  # some work may have scratch whose size is read from buffers
    cdef Prepared prepared  # from works that may have been replaced since; None when it is closed
    cdef list lanes  # Queues that only its launches use, beside the launch queue
    cdef tuple ordered  # the nodes it was made from
    cdef dict places  # of these, by node
    cdef Py_ssize_t next_place  # after the node that was changed last: usually the next to change
    cdef list shape
    cdef bint auto_free
    cdef object handing_out  # a lock for a launch that hands out memory; reentrant: the collector may run a launch
    cdef Lock lock  # allows one launch at a time; guards the two below
    cdef uint64_t last_queue  # id of the last launch's queue; 0, which no queue has, before the first launch
    cdef uint64_t last_epoch
    cdef Ref[Clock] seen  # what the race checker knows of the last launch; NULL: nothing
    cdef object __weakref__

    device: Device

    def __init__(self, *args: Never, **kwargs: Never) -> None:
        raise ArgumentTypeError("an ExecutableGraph is made by Graph.instantiate")

    @staticmethod
    def _of(device: Device, nodes: Sequence[Node], auto_free: bool = False) -> ExecutableGraph:
        cdef ExecutableGraph made = ExecutableGraph.__new__(ExecutableGraph)
        cdef QueueState* state = (<Queue> device.null_queue).state
        cdef Work work
        ordered = serial_order(nodes)
        works = tuple([node.work for node in ordered])
        made.device = device
        made.ordered = tuple(ordered)
        made.places = {node: at for at, node in enumerate(ordered)}
        made.shape = shape_of(ordered)
        made.auto_free = auto_free
        made.lanes = []
        made.handing_out = threading.RLock()
        if state.device.checked:
            uses = [uses_of_nodes((work,), (node,), state.device, Announcement()) for work, node in zip(works, ordered)]
            check_nodes(state.device, uses, made.ordered, [dependencies for _, dependencies, _ in made.shape])
        Accesses().add(works)
        made.measures = any([work.measures for work in works])
        made.works, made.version = list(works), 1
        made.prepared = made.prepare(works, read_sizes(None, state, works), 1)
        return made

    cdef Prepared prepare(self, tuple works, Sizes sizes, uint64_t version):
        """Prepare works, as of a version, for all queues of the device, with scratch of these sizes."""
        cdef QueueState* queue = (<Queue> self.device.null_queue).state
        cdef const Driver* driver = queue.driver
        cdef Prepared prepared = Prepared.__new__(Prepared), last = self.prepared
        cdef Submission* submission = prepared.submission
        cdef Work work
        cdef bint branches = driver.recordings_branch and driver.new_recording != NULL
        ordered, shape = self.ordered, self.shape
        self._check_open()  # a closed graph has no nodes
        _held = hold_buffers(works)
        prepared.works, prepared.sizes, prepared.version = list(works), sizes, version
        if any([type(work) is MemoryWork for work in works]):
            prepared.lifetimes = Lifetimes(ordered, works, self.auto_free)
        collect_device(queue.device)
        for work in works:
            submission.follows |= work.follows
            # one recording has all lanes, if it can have all commands
            branches = branches and not work.by_host and not (work.follows and driver.follow != NULL)
        segments = segments_of(
            [dependencies for _, dependencies, _ in shape], [work.acts for work in works],
            BRANCHES if branches else LANES)
        lanes = [] if branches else self.lanes_of(segments)
        prepared.kept = new_kept(queue.device)
        prepared.kept.things += [kept_of(work) for work in works]
        prepared.kept.things += lanes
        for lane in lanes:
            submission.lanes.push_back((<Queue> lane).state.handle)
        prepared.recorder.driver, prepared.recorder.queue = driver, queue.handle
        prepared.command_of.resize(len(works), NO_LAUNCH)
        prepared.is_changed.resize(len(works))
        prepared.changed_nodes.reserve(len(works))
        make_scratch(prepared, self.device, segments, last)
        prepared.branches = branches
        ends, last_of = [], {}
        for segment in segments:
            add_segment(prepared, self.device, segment, ends, last_of)
        prepared.versions.resize(submission.commands.size(), 0)
        if driver.new_recording != NULL:
            add_runs(prepared, self.device)
        prepared.alone = (
            submission.steps.size() == 1 and submission.steps[0].run != NULL
            and not prepared.functions and not prepared.guards and prepared.lifetimes is None
            and not submission.follows)
        note_uses(prepared)
        return prepared

    cdef list lanes_of(self, list segments):
        """Return the queues for the segments' lanes, beside the launch queue."""
        others = max([segment.lane for segment in segments], default=0)
        before = self.lanes
        lanes = before[:others]
        for _ in range(len(lanes), others):
            lanes.append(self.device.queue(blocking=False, timing=False))
        if len(lanes) > len(before) and not self.closed:
            self.lanes = lanes
        return lanes

    cdef Prepared ready(self, Queue queue):
        """Return what to launch. Blocks if something has to be measured, on this queue."""
        cdef Prepared prepared = self.prepared
        cdef Sizes sizes
        cdef uint64_t closings = queue.state.device.resident.closings.load(), version = self.version
        cdef bint same
        works = tuple(self.works)
        self._check_open()
        if self.version != version:  # changed meanwhile, by code that the garbage collector ran
            return self.ready(queue)
        if closings != prepared.sizes.closings:
            hold_buffers(works)
        sizes = prepared.sizes
        if prepared.version != version or not sizes.lasting or not is_still(&sizes.versions, queue.state.device):
            sizes = read_sizes(queue, queue.state, works)
            sizes.closings = closings
        same = prepared.version == version and (sizes is prepared.sizes or has_room(prepared, sizes))
        if same:  # else another thread may be renewing it
            prepared.repeats += prepared.one_by_one
            if prepared.changed or prepared.repeats >= MOST_REPEATS:
                same = self.renew(prepared, version)
        if same:
            _before, prepared.sizes = prepared.sizes, sizes
        else:
            prepared = self.prepare(works, sizes, version)
            if self.version == version and not self.closed:  # else the next launch prepares anew
                _before, self.prepared = self.prepared, prepared
        closings = queue.state.device.resident.closings.load()
        if closings != sizes.closings:
            hold_buffers(works)  # measuring takes time, and frees memory of its own
            sizes.closings = closings
        return prepared

    cdef bint renew(self, Prepared prepared, uint64_t version) except -1:
        """Apply the changes up to a version, in time proportional to them. False: the works must be prepared anew."""
        cdef Status status
        cdef vector[size_t] nodes = prepared.changed_nodes
        cdef size_t i
        works = self.works  # the garbage collector may close the graph
        changed = [works[node] for node in nodes]
        _held = [memory_if_open((<Buffer> buffer).allocation) for buffer in prepared.buffers]
        if prepared.uses_changed:
            _held += hold_buffers(changed)
        _before = [prepared.works[node] for node in nodes], prepared.buffers
        if self.closed or prepared.version != version or self.version != version:
            return False
        if prepared.users:  # other threads launch its runs one by one: record them later
            return True
        prepared.version = 0
        for i in range(nodes.size()):
            prepared.works[nodes[i]] = changed[i]
            prepared.is_changed[nodes[i]] = False
        prepared.changed_nodes.clear()
        prepared.changed = False
        if prepared.uses_changed:
            note_uses(prepared)
        status = set_launches(prepared, nodes)
        if status == 0:
            with nogil:
                status = choose_copies(prepared)
        prepared.retire_dropped()
        if status == 0:
            prepared.version = version
        return status == 0

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError("this ExecutableGraph is closed")

    def launch(self, queue: Queue) -> None:
        """Run the graph on a queue, after the queue's earlier commands. The launch is a command like any other.

        The graph may be launched again while it still runs. If the queue is captured, the nodes become part of the
        capture. The call does not wait for the graph. It blocks while the driver's queue is full. It also blocks if a
        scratch size is read from a buffer that may have been written to since the last launch: that buffer is measured
        on this queue, after all known writes, and the scratch grows if it must.

        Parameters
        ----------
        queue : Queue
            Of the graph's device.

        Raises
        ------
        ClosedError
            If the graph, the queue or a buffer that the graph uses is closed, or a kernel whose scratch must grow.
        InvalidArgumentError
            If memory that the graph allocated was not freed since the last launch and `auto_free` is off, if the graph
            frees memory that is not allocated, or if a scratch size is negative.
        NotSupportedError
            On a captured queue, if the graph has nodes that allocate or free memory.
        OutOfMemoryError
            If there is no memory for scratch. Nothing was submitted.
        Error
            In a host function, if something has to be measured.
        ScratchOverflowError
            On a debugging device, if a kernel wrote behind its scratch.
        DriverError
            If the driver refuses a part of the graph. What was submitted before it still runs.
        """
        with cython.critical_section(self):
            self.launch_on(queue)

    @cython.final
    cdef int launch_on(self, object queue) except -1:
        cdef Queue on
        cdef Status status
        cdef Prepared prepared = self.prepared
        if type(queue) is Queue and prepared is not None:
            on = queue
            if (
                prepared.changed and on.state.slow_path == 0 and on.state.device == prepared.kept.state.get()
                and on.state.device.resident.closings.load() == prepared.sizes.closings
            ):
                self.renew(prepared, self.version)
            status = self.launch_at_once(prepared, on.state)
            if status != NOT_NOW:
                return check_status(on, status, "graph launch")
        if not isinstance(queue, Queue):
            raise ArgumentTypeError(f"a graph is launched on a Queue, not on {type(queue).__name__}")
        on = queue
        self._check_open()
        on._check_open()
        if on.device._context is not self.device._context:
            raise InvalidArgumentError(f"the graph belongs to {self.device.name}, {on!r} does not")
        capture = capture_of(on)
        if capture is None or not self.capture_into(capture, on):
            self.launch_now(on)

    cdef Announcement announce_works(self, Queue on, tuple works):
        cdef Announcement announced = begin_command(on)
        cdef Ref[Clock] past
        join(announced.command.past, self.seen.get())  # the launch before
        for work in works:
            if type(work) is MemoryWork and (<Work> work).kind == "alloc" and not (
                    self.auto_free and (<MemoryWork> work).memory.live):  # that takes it back without any wait
                past = races.past_of_uses((<MemoryWork> work).buffer.allocation.usage, False)
                join(announced.command.past, past.get())
        return announce(on, uses_of_nodes(works, self.ordered, on.state.device, announced))

    cdef int launch_now(self, Queue on) except -1:
        cdef Announcement announced = None
        cdef uint64_t version = 0  # that is announced
        cdef Prepared prepared
        cdef Status status
        cdef uint64_t room = 0
        submitted = False
        while not submitted:
            with nogil:
                status = await_capacity(on.state, room)
            check_status(on, status, "graph launch")
            prepared = self.ready(on)
            room = room_of_launch(on.state, prepared.submission, len(prepared.functions))
            prepared.users += 1  # no other code changes it now, even while a race is reported
            try:
                if prepared.changed or prepared.version == 0:  # by other code, since `ready` returned
                    continue
                if is_checked(on.state) and prepared.version != version:
                    version, announced = prepared.version, None
                    announced = self.announce_works(on, tuple(prepared.works))
                if prepared.lifetimes is None:
                    submitted = self.submit_on(on, prepared, announced)
                else:
                    with self.handing_out:
                        submitted = self.submit_on(on, prepared, announced)
            finally:
                prepared.users -= 1

    cdef Status launch_at_once(self, Prepared prepared, QueueState* state) noexcept:
        """Submit a single unchanged recording with the GIL, if nothing must be gathered. NOT_NOW: nothing was done."""
        cdef Replay run
        cdef Submission* submission = prepared.submission
        cdef Status status = NOT_NOW
        cdef Guard graph, queue
        if (
            prepared.version != self.version or prepared.changed or not prepared.alone or prepared.one_by_one
            or not prepared.sizes.lasting or not submission.created or state.device != prepared.kept.state.get()
            or not graph.try_take(self.lock)
            or (self.last_queue != state.epochs.queue_id and self.last_queue != 0) or not queue.try_take(state.lock)
        ):
            return NOT_NOW
        # A driver may take fewer graphs than launches before it blocks: the GIL is kept for a quarter as many (CUDA
        # took more with a thousand nodes each), and only while no gate of the device is closed.
        if (
            closed_gates(state.device) == 0
            and submitted_epoch(state.epochs) - completed_epoch(state.epochs) + submission.room
            < state.in_flight.room // 4
        ):
            init_command(&run, call_replay)
            init_replay(&run, submission, prepared.sizes)
            status = submit_ready(state, &run)
            if status == 0:
                self.last_queue = state.epochs.queue_id
                self.last_epoch = submitted_epoch(state.epochs)
        return NOT_NOW if status == OUT_OF_DATE else status

    cdef bint capture_into(self, object capture, Queue queue) except -1:
        """Add the works to the queue's capture. Returns False if that has ended."""
        works = tuple(self.works)
        hold_buffers(works)
        if any([type(work) is MemoryWork for work in works]):
            raise NotSupportedError("a graph with nodes that allocate or free memory cannot be part of another one")
        return capture.add_graph(queue, works, [dependencies for _, dependencies, _ in self.shape])

    cdef bint submit_on(self, Queue queue, Prepared prepared, Announcement announced) except -1:
        """Submit what is prepared. False: a buffer was written to or closed since `ready`, or the queue was filled."""
        cdef vector[Point] points
        cdef Point end = Point(0, 0)
        cdef Launch run
        cdef size_t i
        cdef Status status = 1  # a failure, until the launch is tried
        cdef Sizes sizes = prepared.sizes
        cdef Submission* submission = prepared.submission
        cdef Ref[Clock] seen
        cdef Guard guard
        if queue.state.device.resident.closings.load() != sizes.closings:
            return False
        # a buffer that is closed from now on must outlive the launch
        _held = [memory_if_open((<Buffer> buffer).allocation) for buffer in prepared.buffers]
        functions = prepared.functions
        if announced is not None:
            functions = [host_function(function, announced) for function in functions]
        guards, lifetimes = prepared.guards, prepared.lifetimes
        if guards:
            fill_guards(queue, guards)
        if lifetimes is not None:
            before = lifetimes.begin()
            for queue_id, epoch in lifetimes.freed_at:
                points.push_back(Point(queue_id, epoch))
        init_command(&run, call_run)
        init_replay(&run, submission, sizes)
        run.joined, run.called, run.start, run.touched = True, 0, NULL, 0
        try:
            for function in functions:
                run.functions.push_back(new_call(queue, queue.state, function))
            with nogil:
                guard.take(self.lock)
                if self.last_queue != queue.state.epochs.queue_id and self.last_queue != 0:
                    points.push_back(Point(self.last_queue, self.last_epoch))
                status = 0
                for i in range(points.size()):
                    if status == 0:
                        status = wait_for_point(queue.state, points[i].queue, points[i].epoch)
                for i in range(submission.uses.size()):
                    if status == 0:
                        status = wait_for_creation(queue.state, submission.uses[i].usage.get())
                if status == 0:
                    status = submit(queue.state, &run)
                    if not run.joined:
                        finish_touched(queue.state, &run)
                    submission.created = submission.created or status == 0
                    if status != OUT_OF_DATE:
                        self.last_queue = queue.state.epochs.queue_id
                        self.last_epoch = submitted_epoch(queue.state.epochs)
                for i in range(run.events.size()):
                    if run.events[i] != NULL:
                        queue.state.driver.destroy_event(run.events[i])
                end = Point(self.last_queue, self.last_epoch)
                guard.leave()
        finally:
            for i in range(run.functions.size()):
                settle_call(queue, functions[i], run.functions[i], i < run.called)
            if not run.began and status != 0:
                if lifetimes is not None:
                    lifetimes.set_live(before)
            else:  # all was submitted, or a part before the driver refused the rest
                if lifetimes is not None:
                    lifetimes.end(end.queue, end.epoch)
                if announced is not None:
                    settle(announced)
                    seen = record_point(queue)
                    join(self.seen, seen.get())  # another thread may have launched it again
        if status == OUT_OF_DATE:
            return False
        check_status(queue, status, "graph launch")
        if guards:
            check_guards(queue, guards)
        return True

    def update(self, graph: Graph) -> None:
        """Take over the work of another graph's nodes (HIP, hipGraphExecUpdate). Running executions do not change.

        Parameters
        ----------
        graph : Graph
            It has the same kinds of nodes and the same dependencies, added in the same order. Its copies have the same
            direction: host to device, device to host, or within the device.

        Raises
        ------
        GraphUpdateError
            If the graphs differ in more than the work of their nodes. Nothing has changed then.
        InvalidArgumentError, ClosedError
            As for `Graph.instantiate`. Nothing has changed then. Driver errors and a lack of memory are raised by the
            next launch.
        ArgumentTypeError
            If `graph` is not a Graph.
        """
        with cython.critical_section(self):
            self.update_to(graph)

    cdef int update_to(self, object graph) except -1:
        cdef Work work
        cdef KernelWork launch
        cdef Py_ssize_t at
        self._check_open()
        if not isinstance(graph, AnyGraph):
            raise ArgumentTypeError(f"update() needs a Graph, not {type(graph).__name__}")
        graph._check_complete()
        if graph.device._context is not self.device._context:
            raise GraphUpdateError(
                f"the other graph belongs to {graph.device.name}, this one to {self.device.name}", "device",
                graph.nodes[0] if graph.nodes else None)
        ordered = serial_order(graph.nodes)
        for node in (*ordered, *self.ordered):
            if type(node.work) is MemoryWork:
                raise GraphUpdateError(
                    f"{node!r}: graphs that allocate or free memory are not updated", "memory",
                    node if node in ordered else None)
        check_same_shape(ordered, self.shape)
        works = [node.work for node in ordered]
        Accesses().add(works)
        hold_buffers(works)
        for launch in works_with_scratch(works, all_launches=True):
            launch.kernel._check_open()
        measures = any([work.measures for work in works])
        _before = tuple(self.works)
        self._check_open()
        self.measures = measures
        for at in range(len(works)):
            self.change(at, works[at])

    def set_kernel(self, node: Node, kernel: Kernel, grid: Grid, block: Grid, *args: Any) -> None:
        """Change what a kernel node launches, from the next launch on (HIP, hipGraphExecKernelNodeSetParams).

        The graph, its nodes and running executions do not change.

        Parameters
        ----------
        node : Node
            A kernel node of the graph that this was made from.
        kernel, grid, block, *args
            As for `Queue.launch`.
        """
        cdef Py_ssize_t at
        with cython.critical_section(self):
            at = self.place_of(node, "kernel")
            if not self.rewrite(at, kernel, grid, block, args):
                self.put(at, make_kernel(self.device, kernel, grid, block, args))

    cdef bint rewrite(self, Py_ssize_t at, object launched, object grid, object block, tuple given) except -1:
        """Write arguments into a node's work, if no other code has it, and into what is prepared. False: not done."""
        cdef Prepared prepared
        cdef KernelWork work
        cdef Kernel kernel
        cdef Views views
        cdef char packed[MOST_PACKED]
        cdef Geometry geometry
        cdef bint replaced
        if type(launched) is not Kernel or not are_plain(given):  # else reading them may run code, and it is done once
            return False
        kernel = launched
        if (
            kernel.closed or kernel.packed_size > MOST_PACKED or kernel.scratch_sizes or kernel.follows
            or self.measures or not has_geometry(kernel, grid, block)
        ):
            return False
        pack_arguments(kernel, (<PyTupleObject*> given).ob_item, len(given), packed, &views)
        if views.unusual:  # a Buffer of another device; such arguments hold no views
            return False
        geometry = read_geometry(kernel, grid, block)[0]  # another launch may change it, as soon as other code can run
        work = self.works[at]
        arguments = work.arguments
        replaced = work.kernel is not kernel or not has_same_buffers(given, arguments)
        if replaced:
            check_elements(kernel, packed)
            _buffers, others = (work.buffers, work.writes), buffers_among(kernel, given)
        prepared = self.prepared  # from here on no other code runs
        if (
            prepared is None or prepared.version != self.version or prepared.users or prepared.lifetimes is not None
            or self.works[at] is not work or work.kernel is not kernel or not is_changeable(work)
            or Py_REFCNT(<PyObject*> work) != 2 + (prepared.works[at] is work)  # other code has it too
            or not change_launch(prepared, at, kernel, packed, &geometry, replaced)
        ):
            return False
        memcpy(PyBytes_AS_STRING(work.packed), packed, kernel.packed_size)
        work.command.geometry = geometry
        work.arguments = given  # the old ones are released last, when any code may run
        if replaced:
            work.buffers, work.writes = others
        self.version += 1
        prepared.version = self.version
        return True

    def set_copy(self, node: Node, dst: Buffer | HostBuffer, src: Buffer | HostBuffer) -> None:
        """Change what a copy node copies, from the next launch on (HIP, hipGraphExecMemcpyNodeSetParams1D).

        `node` is a copy node, as in `set_kernel`. `dst` and `src` are as for `Graph.add_copy`, in the same direction as
        before: host to device, device to host, or within the device.
        """
        self._set(node, "copy", lambda: make_copy(self.device, dst, src))

    def set_fill(self, node: Node, buf: Buffer, value: Any) -> None:
        """Change the buffer or value of a fill node, from the next launch on (HIP, hipGraphExecMemsetNodeSetParams).

        `node` is a fill node, as in `set_kernel`. `buf` and `value` are as for `Queue.fill`.
        """
        self._set(node, "fill", lambda: make_fill(self.device, buf, value))

    def set_host(self, node: Node, function: Callable[[], object]) -> None:
        """Change the function of a host node, from the next launch on (HIP, hipGraphExecHostNodeSetParams).

        `node` is a host node, as in `set_kernel`. `function` is as for `Queue.host`.
        """
        self._set(node, "host", lambda: make_host(function))

    def set_graph(self, node: Node, graph: Graph) -> None:
        """Change the graph of a graph node, from the next launch on (HIP, hipGraphExecChildGraphNodeSetParams).

        `node` is a graph node, as in `set_kernel`. `graph` has the same shape, as for `update`.
        """
        self._set(node, "graph", lambda: graph._as_work(self.device))

    def _set(self, node: Node, kind: str, make: Callable[[], Work]) -> None:
        with cython.critical_section(self):
            self.put(self.place_of(node, kind), make())

    cdef Py_ssize_t place_of(self, object node, str kind) except -1:
        """Return the index of a node of this kind, or raise InvalidArgumentError. In the critical section."""
        cdef Py_ssize_t at = self.next_place
        if at >= len(self.ordered) or self.ordered[at] is not node:
            try:
                at = self.places.get(node, -1)
            except TypeError:  # it has no hash, so it is no node
                at = -1
            self._check_open()  # a hash of the caller's may have closed it
            if at < 0:
                raise InvalidArgumentError(f"set_{kind}: this is no node of the graph that this was made from")
        if (<Work> self.works[at]).kind != kind:  # as that of the node
            raise InvalidArgumentError(f"set_{kind}: {node!r} is no {kind} node")
        self.next_place = at + 1
        return at

    cdef int put(self, Py_ssize_t at, Work work) except -1:
        """Replace a node's work by one of the same kind, from the next launch on. An error changes nothing."""
        if type(work) is not KernelWork:
            there, here = direction_of(work), self.shape[at][2]
            if there != here:
                raise InvalidArgumentError(f"set_{work.kind}: the node is to {work.kind} {here}, and not {there}")
        if work.measures or self.measures:
            before = None
            while before != self.version:
                before = self.version
                Accesses().add((*self.works[:at], work, *self.works[at + 1:]))
            self.measures = True
        if self.closed:  # meanwhile, by another thread
            self._check_open()
        _before = self.works[at]
        self.change(at, work)
        return 0

    cdef void change(self, Py_ssize_t at, Work work) noexcept:
        """Replace a node's work, which the caller retains, and change what is prepared if possible. Runs no Python."""
        cdef Prepared prepared = self.prepared
        before = self.works[at]
        self.works[at] = work
        self.version += 1
        if (
            prepared.version == self.version - 1 and prepared.users == 0 and prepared.lifetimes is None
            and type(work) is KernelWork and (<KernelWork> before).kernel is (<KernelWork> work).kernel
            and is_changeable(<KernelWork> work) and change_launch(
                prepared, at, (<KernelWork> work).kernel, PyBytes_AS_STRING((<KernelWork> work).packed),
                &work.command.geometry, True)
        ):
            prepared.version = self.version

    @property
    def writes(self) -> tuple[Buffer, ...]:
        """The buffers that a launch may write to."""
        with cython.critical_section(self):
            works = tuple(self.works)
        return tuple(dict.fromkeys([buffer for work in works for buffer in work.writes]))

    def close(self) -> None:
        """Release the graph's resources once its launches are done. Does not block. Closing twice is allowed."""
        with cython.critical_section(self):
            self.closed = True
            _before = self.works, self.prepared, self.lanes, self.ordered, self.places
            self.works, self.prepared, self.lanes, self.ordered, self.places = [], None, [], (), {}

    def __repr__(self) -> str:
        with cython.critical_section(self):
            state = "closed" if self.closed else f"{len(self.works)} nodes"
        return f"<forebay.ExecutableGraph, {state}, on {self.device.name}>"
