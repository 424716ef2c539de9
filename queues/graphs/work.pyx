"""The work of a graph's nodes: checked, packed and immutable.

A work owns copies of its packed arguments, its bytes by value and its fill pattern, and references to everything else
it uses. It only points to host memory, as in HIP: that memory is read and written when the graph runs. It has no
scratch: every executable graph has its own.
"""

import math
from weakref import ref
from typing import TYPE_CHECKING

from cpython.buffer cimport PyBuffer_Release
from libc.stdint cimport uintptr_t
from libc.string cimport memcpy
from libcpp.vector cimport vector

from forebay.core.driver cimport HOST_MEMORY
from forebay.queues.kernels.kernel cimport Kernel
from forebay.queues.launch.arguments cimport (
    HAS_ARRAYS, HAS_BYTES, Views, check_elements, pack_arguments, release_views, spilled_bytes
)
from forebay.queues.launch.launch cimport BoundLaunch, has_geometry, plain_extents, read_geometry
from forebay.queues.launch.scratch cimport check_count, read_leaves, sizes_of
from forebay.queues.memory.allocation cimport add_host_use
from forebay.queues.memory.buffer cimport Buffer, add_use
from forebay.queues.memory.transfers cimport (
    check_overlap, check_size, fill_pattern, host_memory, open_view, pin_view, shown
)
from forebay.races.checker cimport Use, what_of_node
from forebay.races.launches cimport add_launch

from forebay.core.errors import ArgumentTypeError, ClosedError, InvalidArgumentError, NotSupportedError
from forebay.queues.graphs.memory import GraphMemory, Reserved
from forebay.queues.launch.arguments import null
from forebay.queues.memory.shapes import check_copied, read_dtype, read_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from numpy.typing import DTypeLike
    from typing_extensions import Buffer as HostBuffer
    from typing_extensions import Never

    from forebay.queues.device import Device
    from forebay.queues.memory.shapes import Grid, ShapeLike


cdef class Work:
    """The work of a node. Immutable; made by the methods of `Graph` and by capture.

    Attributes
    ----------
    kind : "kernel", "copy", "fill", "host", "empty", "alloc", "free" or "graph"
    buffers : tuple of Buffer
        All the buffers that it uses.
    writes : tuple of Buffer
        The buffers that it may write to.
    """

    buffers: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]

    def __init__(self, *args: Never, **kwargs: Never) -> None:
        raise ArgumentTypeError("a Work is made by the methods of a Graph, or by capture")


cdef class KernelWork(Work):
    """A launch.

    Attributes
    ----------
    kernel : Kernel
    grid, block : tuple of int
    arguments : tuple
        Bytes by value are copies.
    """

    arguments: tuple[Any, ...]

    @property
    def grid(self) -> tuple[int, ...]:
        return tuple([self.geometry.groups[i] for i in range(self.geometry.dimensions)])

    @property
    def block(self) -> tuple[int, ...]:
        return tuple([self.geometry.block[i] for i in range(self.geometry.dimensions)])

    def __repr__(self) -> str:
        return f"{self.kernel.name}[{self.grid}, {self.block}]"


cdef class CopyWork(Work):
    """A copy.

    Attributes
    ----------
    dst, src : Buffer or host memory
    nbytes : int
    """

    dst: Buffer | HostBuffer
    src: Buffer | HostBuffer

    def __repr__(self) -> str:
        to = "host" if self.to.kind & HOST_MEMORY else "device"
        source = "host" if self.source.kind & HOST_MEMORY else "device"
        return f"copy {self.nbytes} bytes, {source} to {to}"


cdef class FillWork(Work):
    """A fill.

    Attributes
    ----------
    buffer : Buffer
    value : scalar
    pattern : bytes
        The bytes of the value.
    """

    buffer: Buffer
    value: Any

    def __repr__(self) -> str:
        return f"fill {self.buffer.nbytes} bytes with {self.value!r}"


cdef class HostWork(Work):
    """A host function.

    Attributes
    ----------
    function : callable
    """

    function: Callable[[], object]

    def __repr__(self) -> str:
        return f"host {getattr(self.function, '__qualname__', None) or type(self.function).__name__}"


cdef class MemoryWork(Work):
    """Memory that the graph hands out, or takes back.

    Attributes
    ----------
    buffer : Buffer
    memory : GraphMemory
    """

    memory: GraphMemory

    def __repr__(self) -> str:
        return f"{self.kind} {self.memory.nbytes} bytes"


cdef class ListWork(Work):
    """Several works, one after the other: the rows of a copy or fill, or all the works of a graph.

    Attributes
    ----------
    works : tuple of Work
    """

    works: tuple[Work, ...]

    def __repr__(self) -> str:
        return f"{self.kind} of {len(self.works)}"


cdef class EmptyWork(Work):
    """No work: a point that other nodes depend on."""

    def __repr__(self) -> str:
        return "empty"


def make_kernel(device: Device, kernel: Kernel, grid: Grid, block: Grid, tuple arguments) -> KernelWork:
    """Make the work of ``queue.launch(kernel, grid, block, *arguments)``. Raises the same errors as the launch.

    What the sizes of scratch are computed from is only noted: launches of the graph read it as it is then.
    """
    return kernel_work(device, kernel, grid, block, arguments, None)


cdef KernelWork kernel_work(
    object device, object launched, object grid, object block, tuple given, KernelWork before
):
    """As `make_kernel`. `before`, or None, is a work of the same graph that this one may have something in common with.
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
    work = KernelWork.__new__(KernelWork)
    if kernel.closed:
        raise ClosedError(f"kernel {kernel.name!r} is closed")
    if before is not None and before.kernel is not kernel:
        before = None
    if before is None and kernel.device._context is not device._context:
        raise InvalidArgumentError(
            f"kernel {kernel.name!r} belongs to {kernel.device.name}, the graph to {device.name}")
    if kernel.scratch_sizes:
        check_count(kernel, len(given))
        left = iter(given)
        given = tuple([null if kernel.left_out[i] else next(left) for i in range(kernel.count)])
    arguments = (<PyTupleObject*> given).ob_item
    work.kind = "kernel"
    work.kernel = kernel
    work.scratch = kernel.scratch_sizes
    work.has_scratch = bool(work.scratch)
    packed = resize_packed(&work.packed, kernel.packed_size)
    pack_arguments(kernel, arguments, len(given), packed, &views)
    try:
        check_elements(kernel, packed)
        if views.unusual & HAS_ARRAYS:
            raise ArgumentTypeError(
                f"kernel {kernel.name!r}: a graph takes no arrays of the host nor memory of other packages; "
                "pass Buffers (Device.array, Device.as_buffer), or by_value(array)")
        if not has_geometry(kernel, grid, block):
            grid, block = plain_extents(kernel, "grid", grid), plain_extents(kernel, "block", block)
        work.geometry = read_geometry(kernel, grid, block)[0]
        work.by_value = spilled_bytes(kernel, packed) if views.unusual & HAS_BYTES else None
    finally:
        release_views(&views)
    if work.scratch:
        work.scalars, work.measured = read_leaves(kernel, work.scratch, arguments)
        work.measures = bool(work.measured)
        if not work.measures:
            sizes_of(kernel, work.scratch, work.scalars)  # which raises errors
    note_arguments(work, given, before)
    return work


def make_bound(BoundLaunch bound) -> KernelWork:
    """Make the work of a bound launch, which is already checked and packed."""
    cdef KernelWork work = KernelWork.__new__(KernelWork)
    work.kind = "kernel"
    work.kernel = bound.kernel
    work.scratch = ()
    memcpy(resize_packed(&work.packed, bound.plan.values.size()), bound.plan.values.data(), bound.plan.values.size())
    work.geometry = bound.geometry
    work.by_value = bound.by_value
    note_arguments(work, bound.arguments, None)
    return work


cdef bint has_same_buffers(tuple given, tuple before):
    """Return whether all Buffers among these arguments of a kernel are the same."""
    cdef PyObject** items = (<PyTupleObject*> given).ob_item
    cdef PyObject** others = (<PyTupleObject*> before).ob_item
    cdef Py_ssize_t i, count = len(given)
    for i in range(count):
        if items[i] != others[i] and (type(<object> items[i]) is Buffer or type(<object> others[i]) is Buffer):
            return False
    return True


cdef void note_arguments(KernelWork work, tuple given, KernelWork before):
    """Note the arguments, with copies of bytes by value, and which buffers they are. `before`, or None, is of the same
    kernel.
    """
    if before is not None and not work.by_value and has_same_buffers(given, before.arguments):
        work.arguments = given
        work.follows = work.kernel.follows
        work.buffers, work.writes = before.buffers, before.writes
        return
    if work.by_value:
        copies = dict(work.by_value)
        given = tuple([copies.get(i, argument) for i, argument in enumerate(given)])
    work.arguments = given
    work.follows = work.kernel.follows
    work.buffers = tuple([argument for argument in work.arguments if type(argument) is Buffer])
    written = [work.arguments[work.kernel.written[i]] for i in range(work.kernel.written.size())]
    work.writes = tuple([argument for argument in written if type(argument) is Buffer])


cdef int check_buffer(object device, Buffer buffer, str what) except -1:
    if buffer.allocation.closed:
        raise buffer._closed_error(what)
    if buffer.allocation.device._context is not device._context:
        raise InvalidArgumentError(f"{what} belongs to {buffer.device.name}, the graph to {device.name}")
    return 0


def make_copy(device: Device, dst: Buffer | HostBuffer, src: Buffer | HostBuffer) -> CopyWork:
    """Make the work of ``queue.copy(dst, src)``. Host memory is accessed only when the graph runs."""
    cdef CopyWork work = CopyWork.__new__(CopyWork)
    cdef Py_buffer view
    cdef bint writable = isinstance(src, Buffer)
    if not isinstance(dst, Buffer) and not writable:
        raise ArgumentTypeError(
            f"copy(dst, src) needs at least one Buffer, not {type(dst).__name__} and {type(src).__name__}")
    for what, each in (("dst", dst), ("src", src)):
        if isinstance(each, Buffer):
            if each.device._context is not device._context and not each.closed:
                raise NotSupportedError(f"{what} belongs to {each.device.name}: a graph copies on one device only")
            check_buffer(device, each, what)
    work.kind = "copy"
    work.dst, work.src = dst, src
    if isinstance(dst, Buffer) and writable:
        check_size(dst, (<Buffer> dst).nbytes, src, (<Buffer> src).nbytes)
        check_copied(dst, src)
        check_overlap(dst, src)
        work.to, work.source = (<Buffer> dst).memory, (<Buffer> src).memory
        work.buffers, work.writes = (dst, src), (dst,)
    else:
        host = shown(dst if writable else src, writable)
        open_view(host, &view, writable)
        try:
            work.pageable = not device._is_pinned(<uintptr_t> view.buf, view.len)
            work.host = pin_view(host)
            if writable:
                check_size(host, view.len, src, (<Buffer> src).nbytes)
                check_copied(host, src)
                work.to, work.source = host_memory(view.buf), (<Buffer> src).memory
                work.buffers, work.writes = (src,), ()
            else:
                check_size(dst, (<Buffer> dst).nbytes, host, view.len)
                check_copied(dst, host)
                work.to, work.source = (<Buffer> dst).memory, host_memory(view.buf)
                work.buffers = work.writes = (dst,)
        finally:
            PyBuffer_Release(&view)
    work.nbytes = (src if writable else dst).nbytes
    return work


def make_fill(device: Device, buffer: Buffer, value: Any) -> FillWork:
    """Make the work of ``queue.fill(buffer, value)``."""
    cdef FillWork work = FillWork.__new__(FillWork)
    if not isinstance(buffer, Buffer):
        raise ArgumentTypeError(f"fill() needs a Buffer, not {type(buffer).__name__}")
    check_buffer(device, buffer, "buf")
    work.kind = "fill"
    work.buffer = buffer
    work.value = value
    work.pattern = fill_pattern(buffer, value)
    work.to = (<Buffer> buffer).memory
    work.buffers = work.writes = (buffer,)
    return work


def make_host(function: Callable[[], object]) -> HostWork:
    """Make the work of ``queue.host(function)``."""
    cdef HostWork work = HostWork.__new__(HostWork)
    if not callable(function):
        raise ArgumentTypeError(f"host() needs something to call, not {type(function).__name__}")
    work.kind = "host"
    work.function = function
    work.buffers = work.writes = ()
    return work


def make_list(str kind, works: Iterable[Work]) -> ListWork:
    """Make the work of a node that does all of these works in turn."""
    cdef ListWork work = ListWork.__new__(ListWork)
    cdef Work each
    work.kind = kind
    work.works = tuple(works)
    work.buffers = tuple(dict.fromkeys([buffer for each in work.works for buffer in each.buffers]))
    work.writes = tuple(dict.fromkeys([buffer for each in work.works for buffer in each.writes]))
    work.follows = any([each.follows for each in work.works])
    work.has_scratch = any([each.has_scratch for each in work.works])
    work.measures = any([each.measures for each in work.works])
    return work


def make_empty() -> EmptyWork:
    """Make a work that does nothing."""
    cdef EmptyWork work = EmptyWork.__new__(EmptyWork)
    work.kind = "empty"
    work.buffers = work.writes = ()
    return work


def make_alloc(device: Device, shape: ShapeLike, dtype: DTypeLike, freed: Reserved | None = None) -> MemoryWork:
    """Make the work of ``queue.alloc(shape, dtype)``.

    Parameters
    ----------
    freed : Reserved, optional
        Memory that was freed earlier and is used again; without it the work gets memory of its own.
    """
    shape, dtype = read_shape(shape), read_dtype(dtype)
    nbytes = math.prod(shape) * dtype.itemsize
    memory = GraphMemory(Reserved(device, nbytes) if freed is None else freed, nbytes)
    work = memory_work("alloc", device.pool._buffer_on(device, memory, shape, dtype))
    memory.work = ref(work)
    return work


def make_free(device: Device, buffer: Buffer) -> MemoryWork:
    """Make the work of ``queue.free(buffer)`` for memory that a graph allocates."""
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


def graph_memory_of(Buffer buffer) -> GraphMemory | None:
    """Return the graph memory of a buffer. None for other memory, and for a closed buffer."""
    native = None if buffer.allocation.memory is None else buffer.allocation.memory.native
    return native if type(native) is GraphMemory else None


# -- for the checker of races


cdef int add_end(object end, CopyWork work, bint writes, vector[Use]& uses) except -1:
    if isinstance(end, Buffer):
        return add_use(end, writes, "copy", uses)
    return add_host_use(
        end if work.host is None else work.host, work.to.address if writes else work.source.address, work.nbytes,
        writes, "copy", uses)


cdef int add_uses(Work work, vector[Use]& uses) except -1:
    cdef KernelWork launched
    if type(work) is KernelWork:
        launched = work
        return add_launch(
            launched.kernel, (<PyTupleObject*> launched.arguments).ob_item, packed_bytes(&launched.packed),
            &launched.geometry, uses)
    if type(work) is CopyWork:
        add_end((<CopyWork> work).src, work, False, uses)
        return add_end((<CopyWork> work).dst, work, True, uses)
    if type(work) is FillWork:
        return add_use((<FillWork> work).buffer, True, "fill", uses)
    if type(work) is MemoryWork:
        return add_use((<MemoryWork> work).buffer, True, work.kind, uses)
    if type(work) is ListWork:
        for each in (<ListWork> work).works:
            add_uses(each, uses)
    return 0


cdef int add_nodes(tuple works, tuple nodes, vector[Use]& uses, vector[size_t]& owners) except -1:
    """Add the uses of all works, and of which node each is; each says which line made the node."""
    cdef size_t i, before
    for at, node in enumerate(nodes):
        before = uses.size()
        add_uses(works[at], uses)
        owners.resize(uses.size(), at)
        for i in range(before, uses.size()):
            uses[i].what = what_of_node(uses[i].what, node._place)
    return 0
