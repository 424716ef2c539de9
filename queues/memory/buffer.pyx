"""Buffers: typed, contiguous views of device memory, made by a Device."""

import math
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np

cimport cython
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, uint64_t, uintptr_t

from forebay.core.driver cimport ELEMENT_AT, PART_AT
from forebay.core.state cimport AnyQueue, DeviceState, QueueState
from forebay.core.usage cimport Usage, generation_of, last_write
from forebay.core.vector_clock cimport ClockEntry
from forebay.lifetimes.deferred cimport retire_memory
from forebay.queues.memory.allocation cimport Allocation, OwnedMemory, add_host_use, expose, hold_memory
from forebay.races.checker cimport DOUBTFUL, Announcement, on_host, order_of, races
from forebay.sync.finish cimport order_after_uses, wait_for_uses

from forebay.core.driver import AnyBuffer, be
from forebay.core.errors import (
    ArgumentTypeError, CaptureError, ClosedError, InvalidArgumentError, NotSupportedError, OutOfRangeError
)
from forebay.core.process import Numbers
from forebay.queues.memory.allocation import HostView
from forebay.queues.memory.shapes import (
    NotOnHost, StridedView, array_of, capsule_of, element_code, item_of, part_of, read_dtype, read_index, read_shape,
    shortened, to_array
)
from forebay.races.checker import place_in_program

if TYPE_CHECKING:
    from types import EllipsisType
    from typing import Any, SupportsIndex
    from typing_extensions import Never, NoReturn, Self
    from numpy.typing import ArrayLike, DTypeLike, NDArray
    from forebay.queues.device import Device
    from forebay.queues.memory.shapes import ShapeLike
    from forebay.queues.queue import Queue

cdef struct Tensor:
    # How DLPack's DLManagedTensor begins
    void* data
    int32_t device_type
    int32_t device_id


cdef object new_capsule(object owner, uint64_t address, tuple shape, object dtype, tuple device):
    """Return a capsule over C-contiguous memory, which keeps `owner`. Raises BufferError for an unknown dtype."""
    interface = {"version": 3, "data": (address, False), "shape": shape, "typestr": dtype.str}
    capsule = np.asarray(SimpleNamespace(owner=owner, __array_interface__=interface)).__dlpack__()
    cdef Tensor* tensor = <Tensor*> PyCapsule_GetPointer(capsule, "dltensor")
    tensor.device_type, tensor.device_id = device
    return capsule


_part_ids = Numbers()  # never reused, although the driver reuses the handles of parts


cdef object view_in_place(Buffer buffer):
    """Return an array over the memory itself; None where the host cannot read it."""
    if buffer.nbytes == 0:
        return np.empty(buffer.shape, buffer.dtype)
    try:
        memoryview(hold_memory(buffer.allocation).native)
    except (TypeError, BufferError):
        return None
    return np.ndarray(buffer.shape, buffer.dtype, HostView(buffer.allocation), buffer.start)


cdef int add_use(
    object end, bint writes, str kind, DeviceState* device, Announcement uses, Announcement at_once
) except -1:
    cdef Buffer buffer
    if type(end) is not Buffer:
        return add_host_use(end, writes, kind, device, uses, at_once)
    buffer = end
    if buffer.allocation.state == device:  # else the copy is refused, or goes through the host
        uses.add_end(buffer.allocation.usage, buffer.start, buffer.nbytes, writes, kind)
    return 0


cdef Buffer new_buffer(Allocation allocation, size_t offset, tuple shape, object dtype):
    cdef Buffer buffer = Buffer.__new__(Buffer)
    cdef OwnedMemory memory = hold_memory(allocation)
    native = memory.native
    buffer.allocation = allocation
    buffer.shape = shape
    buffer.dtype = dtype
    buffer.nbytes = math.prod(shape) * dtype.itemsize
    buffer.memory.handle = <void*> <uintptr_t> native.handle
    buffer.memory.address = native.address + offset if native.address else 0
    buffer.memory.offset = buffer.start = offset
    buffer.memory.kind = <uint64_t> element_code(dtype) << ELEMENT_AT
    return buffer


def note_creation(Buffer buffer not None, AnyQueue queue not None) -> None:
    """Order all uses of the buffer after the queue's writes to it (none in a capture). No other code has it yet."""
    cdef QueueState* state = queue.state
    cdef Usage* usage = buffer.allocation.usage
    cdef uint64_t epoch = last_write(usage, state.epochs)
    if epoch == 0:
        return
    usage.creation = ClockEntry(state.epochs, epoch)
    if state.device.checked:
        races.note_created(usage, order_of(queue))


@cython.no_gc_clear
@cython.freelist(64)
cdef class Buffer:
    """A typed, C-contiguous view of device memory.

    `Device.empty`, `Device.zeros`, `Device.array` and slicing make buffers; calling the class raises. Slices and
    reshaped views share the memory: closing one closes all. Memory that is closed, or whose last view is dropped, is
    freed when the work submitted by then is done. Neither blocks.

    A Buffer is not an array to compute with, nor a number: it has no operators. ``if``, ``in`` and NumPy functions
    other than ``numpy.asarray`` and its like raise ArgumentTypeError, which says what to write. ``==`` compares
    identity, not elements, so Buffers can be keys of a dict.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    nbytes : int
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __init__(self, *args: Never, **kwargs: Never) -> None:
        raise ArgumentTypeError("a Buffer is made by Device.empty, Device.zeros or Device.array")

    def __dealloc__(self):
        if self.part is not None:
            retire_memory(self.allocation.state, self.part, self.allocation.usage, 0, 0)

    @property
    def device(self) -> Device:
        """The Device that this memory belongs to."""
        return self.allocation.device

    @property
    def _begins_at(self) -> int:
        """Its start, of which only the remainder modulo small powers of two is meaningful."""
        return self.memory.address or self.memory.offset

    @property
    def address(self) -> int:
        """Its start in the device's address space, for pointer arithmetic.

        Raises NotSupportedError on devices without shared virtual memory, because their memory has no addresses.
        """
        self._check_open()
        if self.memory.address == 0:
            raise NotSupportedError(f"memory of {self.device.name} has no addresses (no shared virtual memory)")
        return self.memory.address

    @property
    def __sycl_usm_array_interface__(self) -> dict[str, Any]:
        """Lets dpctl and dpnp use this memory without a copy. Only buffers of SYCL devices have it.

        Users of the memory must keep this Buffer alive. Reading the attribute does not wait for work on the memory.
        """
        return self._shown_as("__sycl_usm_array_interface__")

    @property
    def ipc_handle(self) -> bytes:
        """The handle for `Device.open_ipc_memory` in another process (HIP, hipIpcGetMemHandle).

        This process must keep the buffer open until the others have closed theirs. Raises InvalidArgumentError when it
        is not of `Device.empty` with `ipc_enabled`, or does not begin where its memory does, and NotSupportedError on
        drivers other than CUDA.
        """
        self._check_open()
        if self.start != 0:
            raise InvalidArgumentError(f"ipc_handle: this Buffer is a part, from byte {self.start} on: take the whole")
        handle = self.device.driver.memory_handle(hold_memory(self.allocation).native)
        expose(self.allocation)  # for good: forebay cannot see what other processes do with it
        return handle

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Lets CuPy, PyTorch and numba use this memory without a copy. Only buffers of CUDA devices have it.

        Users must keep this Buffer alive. Nothing waits for work on the memory: the interface's ``stream`` is None.
        """
        return self._shown_as("__cuda_array_interface__")

    def _shown_as(self, name: str) -> dict[str, Any]:
        shown = self.device.driver.array_interface(name, self.memory.address, self.shape, self.dtype)
        if shown is None:
            raise AttributeError(f"memory of {self.device.name} has no {name}", name=name, obj=self)
        self._check_open()
        expose(self.allocation)  # for good: forebay cannot see when the other use ends
        return shown

    def to_pyopencl(self, queue: Any) -> Any:
        """Return a `pyopencl.array.Array` over this memory, without a copy. Only for buffers of OpenCL devices.

        The array keeps the memory alive, also when this Buffer is closed. Its ``base_data`` is the `pyopencl.Buffer`;
        keep that as long as a sub-region of it, which does not keep it on Intel's runtime (2026.2). Commands of
        pyopencl and of forebay on it are ordered if both go to `queue`: adopt that with `Device.adopt_queue`. From now
        on the memory counts as changing all the time (see `generation`). Does not block.

        Parameters
        ----------
        queue : pyopencl.CommandQueue or Queue
            The queue of the array, of the same `pyopencl.Context`; or the Queue that adopted it.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError
            When `queue` is no such queue, and for memory from `Queue.alloc`, which is reused.
        NotSupportedError
            On devices of other drivers, and on OpenCL devices whose memory is addresses alone (NVIDIA's).
        """
        self._check_open()
        if isinstance(queue, AnyQueue):
            if not queue.adopted:
                raise InvalidArgumentError(
                    f"to_pyopencl: forebay would not see what pyopencl submits to {queue!r}; make a queue with "
                    "pyopencl.CommandQueue(queue.native.context), and adopt it with Device.adopt_queue")
            queue = queue.native
        return self.device.driver.array_over(self._lend, self.shape, self.dtype, queue)

    def _lend(self) -> tuple[Any, int]:
        """Return the driver's memory and this view's offset. The memory is never reused."""
        cdef OwnedMemory memory = hold_memory(self.allocation)
        memory.reusable = 0
        expose(self.allocation)  # for good, as in `_shown_as`
        return memory.native, self.start

    @property
    def generation(self) -> int:
        """A number that rises whenever something may have written to the memory. All views share it.

        It rises by 1 with every copy and fill to the memory, and by 1 or more with every launch that takes it through a
        pointer that is not const. Writes through addresses that a kernel finds in memory, and by others, do not count.
        """
        return generation_of(self.allocation.usage)

    @property
    def usm_type(self) -> str:
        """Where the memory is: "device", "shared" or "host" (see `Device.empty`)."""
        self._check_open()
        return hold_memory(self.allocation).native.usm_type

    @property
    def host(self) -> NDArray[Any]:
        """A NumPy array over this same memory, if its type is "shared" or "host". The array keeps the memory alive.

        Do not read or write the array while the device may use the memory: finish first (SYCL 2020, 4.8.2). While the
        array lives, the memory counts as changing all the time (see `generation`). Raises NotSupportedError for
        "device" memory.
        """
        if self.usm_type == "device":
            raise NotSupportedError(
                f"memory of {self.device.name} cannot be read in place: copy it with .get(), or make it with "
                "usm_type='shared'")
        if self.nbytes and self.allocation.state.checked:  # the host may read the memory from now on
            view = Announcement()
            view.add(self.allocation.usage, self.start, self.nbytes, DOUBTFUL, ("host", "", "a view of it"))
            on_host(self.allocation.state, view)
        return view_in_place(self)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.nbytes // self.dtype.itemsize

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self.allocation.closed

    def _check_open(self) -> None:
        if self.allocation.closed:
            raise self._closed_error("this Buffer")

    def _closed_error(self, what: str) -> ClosedError:
        """Return the error for using it when closed. `what` is how the call names it."""
        where = "; Device(debug=True) notes where Buffers are made"
        if self.allocation.made_at:
            where = f", made at {place_in_program(self.allocation.made_at)}"
        return ClosedError(f"{what} is closed: {self.shape} {self.dtype} on {self.device.name}{where}")

    def __len__(self) -> int:
        if not self.shape:
            raise ArgumentTypeError("len() of a 0-dimensional Buffer")
        return self.shape[0]

    __array_ufunc__ = NotOnHost.__array_ufunc__
    __array_function__ = NotOnHost.__array_function__

    def __bool__(self) -> NoReturn:
        NotOnHost.__bool__(self)

    def __contains__(self, item: object, /) -> NoReturn:
        NotOnHost.__contains__(self, item)

    def __getitem__(  # setup.py tells type checkers which is which
        self, key: SupportsIndex | slice | tuple[Any, ...] | EllipsisType | None, /
    ) -> Buffer | StridedView:
        """Return a view of part of the memory, by NumPy's basic indexing: ``buf[i]``, ``buf[a:b]``, ``buf[::2, 1]``.

        It is a `StridedView` if its elements are not contiguous. Indexing rows is fastest.
        """
        self._check_open()
        if not self.shape and not isinstance(key, tuple):
            raise ArgumentTypeError("a 0-dimensional Buffer cannot be sliced")
        if key is None or key is Ellipsis or isinstance(key, tuple):
            return part_of(self, key)
        row = self.nbytes // self.shape[0] if self.shape[0] else 0
        if isinstance(key, slice):
            try:
                start, stop, step = key.indices(self.shape[0])
            except (TypeError, ValueError) as error:
                raise ArgumentTypeError(f"a slice of a Buffer: {error}") from None
            if step != 1:
                return part_of(self, key)
            return self._part(start * row, (max(stop - start, 0), *self.shape[1:]), self.dtype)
        index = key if type(key) is int else read_index(key)
        if not -self.shape[0] <= index < self.shape[0]:
            raise OutOfRangeError(f"index {index} is out of range for a Buffer of {self.shape[0]} rows")
        return self._part(index % self.shape[0] * row, self.shape[1:], self.dtype)

    def __setitem__(
        self, key: SupportsIndex | slice | tuple[Any, ...] | EllipsisType | None,
        host: ArrayLike | Buffer | StridedView, /,
    ) -> None:
        """Implement ``buf[a:b] = host``: `set` that part."""
        self[key].set(host)

    def copy(self, queue: Queue | None = None) -> Buffer:
        """Return a new Buffer with the same elements. `queue`, or the thread's current queue, copies. Does not block.

        Without a `queue`, the copy comes after all submitted writes to the memory, on any queue.
        """
        self._check_open()
        queue = self._queue(queue, True)
        made = self.device.empty(self.shape, self.dtype)
        queue.copy(made, self)
        return made

    def fill(self, value: Any, queue: Queue | None = None) -> None:
        """Set every element to `value`: ``queue.fill(self, value)`` on `queue` or the thread's current queue.

        Does not block. Without a `queue`, the fill comes after all submitted uses of the memory, on any queue.
        """
        self._check_open()
        self._queue(queue, False).fill(self, value)

    def item(self, *index: SupportsIndex) -> Any:
        """Copy one element to the host, as a Python number: ``buf.item(3)``, ``buf.item(0, 1)``. Blocks, as `get`.

        Without an `index` the Buffer must have one element, as in NumPy. Raises InvalidArgumentError and
        ArgumentTypeError when the indices do not name one element.
        """
        self._check_open()
        return item_of(self, *index)

    def _overlaps(self, Buffer other) -> bool:
        return self.allocation is other.allocation and (
            self.start < other.start + other.nbytes and other.start < self.start + self.nbytes)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """Copy to the host and wait, as `get`: ``numpy.asarray(buffer)``.

        With ``copy=False``, wait for submitted uses and return an array over the memory, where the host can read it.
        """
        return array_of(self, dtype, copy)

    def _in_place(self) -> NDArray[Any] | None:
        """Wait for the submitted uses; return an array over the memory, or None where the host cannot read it."""
        self._check_open()
        array = view_in_place(self)
        if array is not None:
            wait_for_uses(self.device, self.allocation.state, self.allocation.usage, False, NULL)
        return array

    def __dlpack__(
        self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None, copy: bool | None = None
    ) -> object:
        """Hand the memory to another package without a copy: ``numpy.from_dlpack(buffer)``, ``torch.from_dlpack``.

        The host must be able to read it in place: all memory of a CPU, and "shared" and "host" memory (`Device.empty`).
        For other memory, a request for an array on the host (``device="cpu"``) gets a copy. The memory is kept until
        the other package drops it, also when this Buffer is closed. Until then it counts as changing (`generation`).

        Memory of a CUDA device goes to CUDA packages such as CuPy and PyTorch, without blocking. Their later work on
        `stream` comes after the uses of the memory submitted by now. `stream` is DLPack's: 1 for the legacy default
        stream, 2 for the thread's, -1 for none, or a handle. Without one, as from NumPy, the request counts as for the
        host. Keep this Buffer, or the other array, until the other package's work with it is done: forebay does not see
        that work, and DLPack cannot express it.

        For other memory it blocks until these uses are done, because in DLPack host memory has no stream. Later
        commands are not ordered with what the other package does. Raises BufferError when the host cannot read the
        memory in place and a copy is not wanted, or `stream` is given; and for elements that DLPack does not know.
        """
        self._check_open()
        place = self.device.driver.dlpack_device(self.usm_type)
        if place is not None and stream is not None and not copy and dl_device in (None, place):
            if stream != -1:  # it comes after all submitted uses of the memory
                queue = self.device.queue(blocking=False, timing=False)
                try:
                    self._let_follow(queue, False)
                    queue.record()  # the command that carries the waits
                    self.device.driver.order_stream(stream, queue.native)
                finally:
                    queue.close()
            expose(self.allocation)  # for good, as in `_shown_as`
            memory = hold_memory(self.allocation)
            memory.reusable = 0
            return new_capsule(memory, self.memory.address, self.shape, self.dtype, place)
        return capsule_of(self, stream, copy, {"max_version": max_version, "dl_device": dl_device})

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's device: (1, 0), the host, if it reads in place; (2, …) for CUDA memory; else (12, 0)."""
        self._check_open()
        return self.device.driver.dlpack_device(self.usm_type) or ((12, 0) if view_in_place(self) is None else (1, 0))

    def reshape(self, *shape: ShapeLike) -> Buffer:
        """Return a view of the same memory with another `shape` of equal size. One dimension may be -1.

        Raises InvalidArgumentError when the sizes differ.
        """
        self._check_open()
        shape = read_shape(shape[0] if len(shape) == 1 else shape, -1)
        if -1 in shape:
            rest = -math.prod(shape)  # of the other dimensions, if there is one -1
            if shape.count(-1) == 1 and rest > 0 and self.size % rest == 0:
                shape = tuple(self.size // rest if extent == -1 else extent for extent in shape)
        if math.prod(shape) != self.size or -1 in shape:
            raise InvalidArgumentError(f"cannot reshape {self.shape} ({self.size} elements) to {shortened(shape)}")
        return self._part(0, shape, self.dtype)

    def view(self, dtype: DTypeLike) -> Buffer:
        """Return a view of the same memory with another element type, `dtype`.

        Raises InvalidArgumentError when its size does not divide the last axis, and for types with Python objects.
        """
        self._check_open()
        new = read_dtype(dtype)
        if not self.shape:
            if new.itemsize != self.dtype.itemsize:
                raise InvalidArgumentError(f"a 0-dimensional Buffer of {self.dtype} cannot be viewed as {new}")
            return self._part(0, (), new)
        last = self.shape[-1] * self.dtype.itemsize
        if last % new.itemsize:
            raise InvalidArgumentError(f"{last} bytes of the last axis are no whole number of {new}")
        return self._part(0, (*self.shape[:-1], last // new.itemsize), new)

    def _part(self, size_t offset, tuple shape, dtype: np.dtype[Any]) -> Buffer:
        """Return a view that begins `offset` bytes after this one."""
        cdef OwnedMemory memory = hold_memory(self.allocation)
        cdef Buffer part = new_buffer(self.allocation, self.start + offset, shape, dtype)
        # The driver may need its own object for a part, or refuse it.
        native = self.device.driver.part(memory.native, part.start, part.nbytes)
        if native is not None:
            part.part, handle = native
            part.memory.handle = <void*> <uintptr_t> handle
            part.memory.offset = 0
            part.memory.kind |= <uint64_t> next(_part_ids) << PART_AT
        return part

    def get(self, out: NDArray[Any] | None = None, queue: Queue | None = None) -> NDArray[Any]:
        """Copy to the host and wait for the copy.

        Blocks until the copy, and thus everything before it on that queue, is done. Without a `queue` the host first
        waits for writes that the copying queue would not come after; no queue waits for another. Name a queue if such a
        write depends on the calling thread, as to let a host function return.

        Parameters
        ----------
        out : writable array of the same dtype and size, optional
            The array to copy to; by default a new one is made. Elements go in C order to any strides.
        queue : Queue, optional
            The queue that copies, in its own order alone. By default the thread's current queue, else the null queue,
            copies, after all submitted writes to the memory, on any queue.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError
            When `out` does not fit.
        """
        self._check_open()
        if out is None:
            out = np.empty(self.shape, self.dtype)
        elif not isinstance(out, np.ndarray):
            raise ArgumentTypeError(f"get: out is a NumPy array, not {type(out).__name__}")
        elif out.dtype != self.dtype or out.size != self.size:
            raise InvalidArgumentError(
                f"get: out has shape {out.shape} of {out.dtype}, this Buffer {self.shape} of {self.dtype}")
        elif not out.flags.writeable:
            raise ArgumentTypeError("get: out is read-only")
        elif not out.flags.c_contiguous:
            out[...] = self.get(queue=queue).reshape(out.shape)
            return out
        try:
            queue = self._queue(queue, True, True)
            queue.copy(out, self)
            queue.finish()
        except CaptureError as error:
            error.args = (
                f"{error}; get() waits: in a capture write queue.copy(array, buffer), which each launch of the graph "
                "does, and read the array after a finish",)
            raise
        return out

    def set(self, host: ArrayLike, queue: Queue | None = None) -> None:
        """Copy from the host: ``queue.copy(self, host)`` on the thread's current queue, else the null queue.

        `host` is converted to this buffer's dtype and broadcast to its shape. It may be reused as soon as this returns.
        A Buffer or a `StridedView` of the same shape and dtype is copied on the device. `queue` copies in its own order
        alone. Without it, the copy comes after all submitted uses of the memory and writes to that of `host`, on any
        queue. Does not wait for the copy. Raises ArgumentTypeError and InvalidArgumentError when `host` cannot be
        converted, or has another shape.
        """
        self._check_open()
        if isinstance(host, (Buffer, StridedView)):
            if host.shape != self.shape or host.dtype != self.dtype:
                raise InvalidArgumentError(
                    f"set: a copy on the device converts nothing: {host.shape} of {host.dtype} to {self.shape} of "
                    f"{self.dtype}")
            if queue is None:
                getattr(host, "_base", host)._let_follow(self.device.current_queue, True)
            self._queue(queue, False).copy(self, host)
            return
        host = to_array(host, self.dtype, "set")
        try:
            host = np.broadcast_to(host, self.shape)
        except ValueError:
            raise InvalidArgumentError(
                f"set: an array of shape {host.shape} does not fit a Buffer of shape {self.shape}; a slice of it takes "
                "less") from None
        self._queue(queue, False).copy(self, np.asarray(host, order="C"))

    def _queue(self, queue: Queue | None, writers: bool, waits: bool = False) -> Queue:
        """Return `queue`; else the current queue, ordered after all submitted uses of this memory, or only the
        `writers`. With `waits`, the host waits for them instead.
        """
        if queue is None:
            current = self.device.current_queue
            if waits:  # but not for those that the queue's next command comes after
                wait_for_uses(
                    self.device, self.allocation.state, self.allocation.usage, writers, (<AnyQueue?> current).state)
            else:
                self._let_follow(current, writers)
            return current
        if not isinstance(queue, AnyQueue):
            raise ArgumentTypeError(
                f"the queue to copy on is a Queue, not {type(queue).__name__}; queue.copy(dst, src) copies to another")
        return queue

    def _let_follow(self, AnyQueue queue not None, bint writers) -> None:
        """Order the queue's next command after all submitted uses, or only after the `writers`."""
        order_after_uses(queue, queue.state, self.allocation.state, self.allocation.usage, writers)

    def close(self) -> None:
        """Free the memory once the work submitted so far is done. Does not block. May be called twice."""
        self.allocation.close()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = " closed" if self.allocation.closed else ""
        return f"<forebay.Buffer {self.shape} {self.dtype} on {self.device.name}{state}>"


be(AnyBuffer, Buffer)
