"""Buffers: typed, contiguous views of device memory, made by a Device."""

import itertools
import math
import operator
from typing import TYPE_CHECKING

import numpy as np
cimport cython
from cpython.buffer cimport PyObject_GetBuffer
from cpython.object cimport PyObject
from libc.stdint cimport uintptr_t
from libcpp.atomic cimport memory_order_relaxed

from forebay.core.driver cimport ELEMENT_AT, PART_AT
from forebay.core.state cimport DeviceState, release_device_state
from forebay.core.uses cimport generation_of, new_uses, release_uses, retain_uses
from forebay.events.anchors cimport retire_memory

from forebay.core.errors import ArgumentTypeError, ClosedError, InvalidArgumentError, NotSupportedError, OutOfRangeError
from forebay.queues.memory.bridges import bridges
from forebay.queues.memory.shapes import element_code, read_dtype, read_shape

if TYPE_CHECKING:
    from typing import Any, SupportsIndex

    from numpy.typing import ArrayLike, DTypeLike, NDArray
    from typing_extensions import Never, Self

    from forebay.queues.device import Device
    from forebay.queues.memory.shapes import ShapeLike
    from forebay.queues.queue import Queue

_ids = itertools.count(1, 2)  # odd, as addresses are not, and never used again
_part_ids = itertools.count(1)  # as little, while the driver gives a new part the handle of one that is gone


@cython.no_gc_clear  # the collector must not drop `native` before __dealloc__ has retired it
cdef class OwnedMemory:
    """The driver's memory of an allocation."""

    def __dealloc__(self):
        if self.state == NULL:
            return
        if not self.freed:
            retire_memory(self.state, self.native, self.uses, self.nbytes)
        release_uses(self.uses)
        release_device_state(self.state)


cdef class OpenAllocations:
    """The allocations of a Device that are open. They are linked by themselves, so none is kept alive."""

    cdef close_all(self):
        while self.first != NULL:
            (<Allocation> self.first).close()


cdef void link(OpenAllocations siblings, Allocation allocation):
    allocation.siblings = siblings
    allocation.after = siblings.first
    if siblings.first != NULL:
        (<Allocation> siblings.first).before = <PyObject*> allocation
    siblings.first = <PyObject*> allocation


cdef void unlink(Allocation allocation):
    if allocation.siblings is None:
        return
    if allocation.after != NULL:
        (<Allocation> allocation.after).before = allocation.before
    if allocation.before != NULL:
        (<Allocation> allocation.before).after = allocation.after
    else:
        allocation.siblings.first = allocation.after
    allocation.siblings = None


@cython.no_gc_clear
cdef class Allocation:
    """One piece of device memory, shared by the buffers that view it."""

    device: Device

    def __dealloc__(self):
        unlink(self)
        if self.state != NULL:
            release_uses(self.uses)
            release_device_state(self.state)

    cdef close(self):
        if not self.closed:
            self.closed = True
            unlink(self)
            self.state.closings.fetch_add(1)
            self.memory = None


cdef Allocation new_allocation(object device, DeviceState* state, object native, bint reusable=False):
    """Make an allocation over the driver's memory. `reusable`: it may be handed out again once it is done."""
    cdef Allocation allocation = Allocation.__new__(Allocation)
    cdef OwnedMemory memory = OwnedMemory.__new__(OwnedMemory)
    state.references.fetch_add(2, memory_order_relaxed)
    allocation.state = memory.state = state
    allocation.uses = new_uses()
    memory.uses = retain_uses(allocation.uses)
    memory.native = native
    memory.nbytes = native.nbytes if reusable else 0
    allocation.memory = memory
    allocation.device = device
    link(device._open_allocations, allocation)
    return allocation


cdef OwnedMemory hold_memory(Buffer buffer, object what):
    cdef OwnedMemory memory = buffer.allocation.memory
    if memory is None:
        raise ClosedError(f"{what} is closed")
    return memory


@cython.no_gc_clear
cdef class HostView:
    """The base of the arrays of `Buffer.host`, which keep it alive. When it goes, they can write no more."""

    cdef Allocation allocation
    cdef OwnedMemory memory  # which is therefore not handed out again when the allocation is closed

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyObject_GetBuffer(self.memory.native, view, flags)

    def __dealloc__(self):
        self.allocation.exposed -= 1


cdef HostView new_host_view(Allocation allocation):
    cdef HostView view = HostView.__new__(HostView)
    view.memory = allocation.memory
    view.allocation = allocation
    expose(allocation)
    return view


cdef PackedPointer new_pointer(object native):
    cdef PackedPointer pointer
    pointer.allocation = next(_ids)
    pointer.memory.handle = <void*> <uintptr_t> native.handle
    pointer.memory.address = native.address
    pointer.memory.offset = 0
    pointer.memory.kind = 0
    return pointer


cdef void expose(Allocation allocation) noexcept:
    """Note that a holder outside forebay may write to it at any time. What was known of the data is out of date."""
    allocation.exposed += 1
    allocation.uses.generation += 1


cdef Buffer new_buffer(Allocation allocation, size_t offset, tuple shape, object dtype):
    cdef Buffer buffer = Buffer.__new__(Buffer)
    cdef object native = allocation.memory.native
    buffer.allocation = allocation
    buffer.shape = shape
    buffer.dtype = dtype
    buffer.nbytes = math.prod(shape) * dtype.itemsize
    buffer.memory.handle = <void*> <uintptr_t> native.handle
    buffer.memory.address = native.address + offset if native.address else 0
    buffer.memory.offset = buffer.start = offset
    buffer.memory.kind = <uint64_t> element_code(dtype) << ELEMENT_AT
    return buffer


@cython.no_gc_clear
cdef class Buffer:
    """A typed, C-contiguous view of device memory.

    `Device.empty`, `Device.zeros`, `Device.array` and slicing make buffers; calling the class raises. Slices and
    reshaped views share the memory: closing one closes all. Closing the memory, or dropping its last view, gives it
    back when the work submitted by then is done. Neither blocks.

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
            retire_memory(self.allocation.state, self.part, self.allocation.uses, 0)

    @property
    def device(self) -> Device:
        """The Device that this memory belongs to."""
        return self.allocation.device

    @property
    def address(self) -> int:
        """Its start in the device's address space, for pointer arithmetic.

        Raises
        ------
        NotSupportedError
            On devices without shared virtual memory, because their memory has no addresses.
        """
        self._check_open()
        if self.memory.address == 0:
            raise NotSupportedError(f"memory of {self.device.name} has no addresses (no shared virtual memory)")
        return self.memory.address

    @property
    def __sycl_usm_array_interface__(self) -> dict[str, Any]:
        """Lets dpctl and dpnp use this memory without a copy. Only buffers of SYCL devices have it.

        Users of the memory must keep this Buffer alive. Reading this attribute does not wait for work on the memory.
        """
        usm = self.device.driver.usm
        if usm is None:
            raise AttributeError(f"SYCL does not know the memory of {self.device.name}")
        self._check_open()
        expose(self.allocation)  # for good: forebay cannot know when the other use ends
        return usm.usm_interface(self.memory.address, self.shape, self.dtype)

    def to_pyopencl(self, queue: Any) -> Any:
        """Return an array of pyopencl over this same memory, without a copy. Only for buffers of OpenCL devices.

        The array keeps the memory alive, also when this Buffer is closed. Its ``base_data`` is the `pyopencl.Buffer`.
        Commands of pyopencl on it and of forebay are ordered if both go to `queue`: adopt that with
        `Queue.from_pyopencl`. From now on the memory counts as changing all the time (see `generation`).

        Parameters
        ----------
        queue : pyopencl.CommandQueue or Queue
            The queue of the array, of the same `pyopencl.Context`; or the Queue that adopted it.

        Returns
        -------
        pyopencl.array.Array

        Does not block.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError
            When `queue` is no such queue, and for memory from `Queue.alloc`, which is handed out again.
        NotSupportedError
            On devices of other drivers, and on OpenCL devices where memory is addresses alone (NVIDIA's).
        """
        self._check_open()
        return bridges["Buffer.to_pyopencl"](self, queue)

    def _lend(self) -> tuple[Any, int]:
        """Return the driver's memory and where this view begins. It is not handed out again, whoever has it."""
        cdef OwnedMemory memory = hold_memory(self, "this Buffer")
        memory.nbytes = 0
        expose(self.allocation)  # for good: forebay cannot know when the other use ends
        return memory.native, self.start

    @property
    def generation(self) -> int:
        """How often something may have written to the memory. All views share this number, and it only rises.

        It rises with every copy and fill to the memory, and with every launch that takes it through a pointer that is
        not const. It does not count writes through addresses that a kernel finds in memory, nor writes by others.
        """
        return generation_of(self.allocation.uses)

    @property
    def usm_type(self) -> str:
        """Where the memory is: "device", "shared" or "host" (see `Device.empty`)."""
        self._check_open()
        return self.allocation.memory.native.usm_type

    @property
    def host(self) -> NDArray[Any]:
        """A NumPy array on this same memory, if its type is "shared" or "host". The array keeps the memory alive.

        Do not read or write the array while the device may use the memory: finish first (SYCL 2020, 4.8.2). While the
        array lives, the memory counts as changing all the time (see `generation`).

        Raises
        ------
        NotSupportedError
            For memory of the device.
        """
        self._check_open()
        if self.allocation.memory.native.usm_type == "device":
            raise NotSupportedError(
                f"memory of {self.device.name} cannot be read in place: copy it with .get(), or make it with "
                "usm_type='shared'")
        if self.nbytes == 0:
            return np.empty(self.shape, self.dtype)
        return np.ndarray(self.shape, self.dtype, new_host_view(self.allocation), self.start)

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
        """Whether the memory was given back."""
        return self.allocation.closed

    def _check_open(self) -> None:
        if self.allocation.closed:
            raise ClosedError("this Buffer is closed")

    def __len__(self) -> int:
        if not self.shape:
            raise ArgumentTypeError("len() of a 0-dimensional Buffer")
        return self.shape[0]

    def __getitem__(self, key: SupportsIndex | slice) -> Buffer:
        """Return a view of part of the first axis: ``buf[i]`` or ``buf[a:b]``. Steps other than 1 are refused."""
        self._check_open()
        if not self.shape:
            raise ArgumentTypeError("a 0-dimensional Buffer cannot be sliced")
        row = self.nbytes // self.shape[0] if self.shape[0] else 0
        if isinstance(key, slice):
            try:
                start, stop, step = key.indices(self.shape[0])
            except (TypeError, ValueError) as error:
                raise ArgumentTypeError(f"a slice of a Buffer: {error}") from None
            if step != 1:
                raise InvalidArgumentError(f"a Buffer is contiguous: slices have step 1, not {step}")
            return self._part(start * row, (max(stop - start, 0), *self.shape[1:]), self.dtype)
        try:
            index = operator.index(key)
        except TypeError:
            raise ArgumentTypeError(
                f"a Buffer is indexed by an int or a slice of its first axis, not {type(key).__name__}") from None
        if not -self.shape[0] <= index < self.shape[0]:
            raise OutOfRangeError(f"index {index} is out of range for a Buffer of {self.shape[0]} rows")
        return self._part(index % self.shape[0] * row, self.shape[1:], self.dtype)

    def __setitem__(self, key: SupportsIndex | slice, host: ArrayLike) -> None:
        """Implement ``buf[a:b] = host``: `set` that part."""
        self[key].set(host)

    def __array__(self, *args: Any, **kwargs: Any) -> Never:
        raise ArgumentTypeError("a Buffer is device memory: copy it to the host with .get()")

    def reshape(self, *shape: ShapeLike) -> Buffer:
        """Return a view of the same memory with another shape of equal size. One dimension may be -1."""
        self._check_open()
        shape = read_shape(shape[0] if len(shape) == 1 else shape, -1)
        if -1 in shape:
            rest = -math.prod(shape)  # of the other dimensions, if there is one -1
            if shape.count(-1) == 1 and rest > 0 and self.size % rest == 0:
                shape = tuple(self.size // rest if extent == -1 else extent for extent in shape)
        if math.prod(shape) != self.size or -1 in shape:
            raise InvalidArgumentError(f"cannot reshape {self.shape} ({self.size} elements) to {shape}")
        return self._part(0, shape, self.dtype)

    def view(self, dtype: DTypeLike) -> Buffer:
        """Return a view of the same memory with another element type. Its size must divide that of the last axis."""
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
        cdef Buffer part = new_buffer(self.allocation, self.start + offset, shape, dtype)
        # The driver may need its own object for a part, or have to refuse it.
        self.device._adapt_view(part, self.allocation.memory.native)
        return part

    def _use_part(self, part: object, uintptr_t handle) -> None:
        """Use the driver's object for exactly this view. It lives as long as the view."""
        self.part = part
        self.memory.handle = <void*> handle
        self.memory.offset = 0
        self.memory.kind |= <uint64_t> next(_part_ids) << PART_AT

    def get(self, out: NDArray[Any] | None = None, queue: Queue | None = None) -> NDArray[Any]:
        """Copy to the host and wait for the copy.

        Parameters
        ----------
        out : writable C-contiguous array of the same dtype and size, optional
            The array to copy to; by default a new one is made.
        queue : Queue, optional
            The queue that copies; by default the thread's current queue, else the null queue.

        Returns
        -------
        numpy.ndarray

        Blocks until the copy, and thus everything before it on that queue, is done.
        """
        self._check_open()
        queue = self._queue(queue)
        if out is None:
            out = np.empty(self.shape, self.dtype)
        elif not isinstance(out, np.ndarray):
            raise ArgumentTypeError(f"get: out is a NumPy array, not {type(out).__name__}")
        elif out.dtype != self.dtype or out.size != self.size:
            raise InvalidArgumentError(
                f"get: out has {out.size} elements of {out.dtype}, this Buffer {self.size} of {self.dtype}")
        queue.copy(out, self)
        queue.finish()
        return out

    def set(self, host: ArrayLike, queue: Queue | None = None) -> None:
        """Copy from the host: ``queue.copy(self, host)`` on the thread's current queue, else the null queue.

        `host` is converted to this buffer's dtype and broadcast to its shape. It may be reused as soon as this returns.
        """
        self._check_open()
        queue = self._queue(queue)
        try:
            host = np.asarray(host, self.dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise ArgumentTypeError(f"set: no array of {self.dtype} ({error})") from None
        try:
            host = np.broadcast_to(host, self.shape)
        except ValueError:
            raise InvalidArgumentError(f"set: an array of shape {host.shape} does not fit {self.shape}") from None
        queue.copy(self, np.asarray(host, order="C"))

    def _queue(self, queue: Queue | None) -> Queue:
        if queue is None:
            return self.device.current_queue
        if not hasattr(type(queue), "copy") or not hasattr(type(queue), "finish"):
            raise ArgumentTypeError(f"a Queue copies, not {type(queue).__name__}")
        return queue

    def close(self) -> None:
        """Give the memory back once the work submitted so far is done. Does not block. Closing twice is fine."""
        self.allocation.close()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = " closed" if self.allocation.closed else ""
        return f"<forebay.Buffer {self.shape} {self.dtype} on {self.device.name}{state}>"
