"""Parts of a Buffer whose elements do not lie one after another. A kernel copies them."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from forebay.core.driver import AnyBuffer
from forebay.core.errors import ArgumentTypeError, InvalidArgumentError, OutOfRangeError
from forebay.queues.memory.shapes import check_copied, check_in_place, read_int, shortened

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from forebay.queues.device import Device
    from forebay.queues.kernels.kernel import Kernel
    from forebay.queues.memory.buffer import Buffer
    from forebay.queues.queue import Queue

UNITS = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}
BYTES = np.dtype(np.uint8)
BLOCK = 64
MOST_ROWS = 4096  # groups; NVIDIA's hardware takes 65535 along y
ON_THE_HOST = (1, 0)  # DLPack's kDLCPU
UNCHECKED = nullcontext()  # of a launch that no checker of races sees

# x varies fastest, and y, z and w are counted by rows; all in units. Rows go on where the launch has no more groups.
SOURCE = """
kernel void move_UNIT(
    global UNIT *to, const ulong to_start, global const UNIT *from, const ulong from_start, const ulong rows,
    const ulong nx, const long to_x, const long from_x, const ulong ny, const long to_y, const long from_y,
    const ulong nz, const long to_z, const long from_z, const long to_w, const long from_w)
{
    const long x = get_global_id(0);
    if (x >= nx) return;
    for (ulong row = get_global_id(1); row < rows; row += get_global_size(1)) {
        const long y = row % ny, z = row / ny % nz, w = row / ny / nz;
        global UNIT *there = to + to_start + y * to_y + z * to_z + w * to_w;
        global const UNIT *here = from + from_start + y * from_y + z * from_z + w * from_w;
        if (to_x == 1 && from_x == 1) there[x] = here[x];  // compilers make it a copy of vectors
        else there[x * to_x] = here[x * from_x];
    }
}
"""


def read_index(value: Any) -> int:
    """Convert one index of an axis.

    Raises
    ------
    ArgumentTypeError
    """
    return read_int(
        value,
        "a Buffer is indexed by ints, slices, ... and None",
        ": no mask, no array of indices; index the array of .get(), or write a kernel",
    )


def read_key(
    key: Any, shape: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Return what NumPy's basic indexing selects: (the first byte, shape, strides in bytes).

    Raises
    ------
    ArgumentTypeError
        For what is no basic index: an array of indices, a mask.
    OutOfRangeError
    """
    keys = tuple(
        each if each is None or each is Ellipsis or isinstance(each, slice) else read_index(each)
        for each in (key if isinstance(key, tuple) else (key,))
    )
    for each in keys:
        if isinstance(each, int) and not -(2**63) <= each < 2**63:
            raise OutOfRangeError(f"index {shortened(each)} is out of bounds (a Buffer of shape {shape})")
    # An array whose elements are never read: NumPy computes where they would be. It must make no copy, as it does for
    # masks and arrays of indices, which would read what is there.
    whole = np.lib.stride_tricks.as_strided(np.empty(1, np.uint8), shape, strides)
    try:
        part = whole[keys if Ellipsis in keys else (*keys, ...)]
    except (IndexError, OverflowError) as error:
        if "too many" in str(error) or "ellipsis" in str(error):
            raise ArgumentTypeError(f"a Buffer of {len(shape)} dimensions: {error}") from None
        raise OutOfRangeError(f"{error} (a Buffer of shape {shape})") from None
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(f"a slice of a Buffer: {error}") from None
    if part.size == 0:
        return 0, part.shape, part.strides
    start = part.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    return start, part.shape, part.strides


def strides_of(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the strides of C-contiguous memory, in bytes."""
    return tuple(itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def are_contiguous(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Whether elements with these strides lie one after another, in C order."""
    return 0 in shape or all(
        extent == 1 or stride == expected
        for extent, stride, expected in zip(shape, strides, strides_of(shape, itemsize), strict=True)
    )


class Moves:
    """The kernels of a device that copy between strided memory."""

    def __init__(self, device: Device) -> None:
        source = "".join(SOURCE.replace("UNIT", name) for name in UNITS.values())
        natives = device.driver.moves()
        program = device.program(source) if natives is None else device._program_of(natives, source)
        self._kernels: dict[int, Kernel] = {size: program[f"move_{name}"] for size, name in UNITS.items()}

    def move(self, queue: Queue, to: StridedView, source: StridedView) -> None:
        """Copy. Both have one shape and element size, and do not overlap. Does not block.

        It is one launch; for more than four axes that cannot be taken together, one for each part.
        """
        axes = merged(to, source)
        if len(axes) > 4:
            for i in range(to.shape[0]):
                self.move(queue, part_without_axis(to, i), part_without_axis(source, i))
            return
        (run, _, _), *outer = axes
        # GPUs need units that lie at multiples of their size, so it matters where the memory itself begins.
        into, out_of = to.memory, source.memory
        begins = (into._begins_at, to.start, out_of._begins_at, source.start)
        unit = math.gcd(8, run, *begins, *(stride for _, *strides in outer for stride in strides))
        axes = [(count, at // unit, of // unit) for count, at, of in outer]
        if run > unit or not axes:
            axes.insert(0, (run // unit, 1, 1))
        x, y, z, w = (*axes, *[(1, 0, 0)] * (4 - len(axes)))
        rows = y[0] * z[0] * w[0]
        width = min(BLOCK, 1 << (x[0] - 1).bit_length())
        block = (width, BLOCK // width)
        grid = (-(-x[0] // width), min(-(-rows // block[1]), MOST_ROWS))
        kernel = self._kernels[unit]
        with queue._announced_move(kernel, to, source) if queue.checked else UNCHECKED:
            queue.launch(
                kernel, grid, block, into, to.start // unit, out_of, source.start // unit, rows, *x, *y, *z, *w[1:]
            )


def merged(to: StridedView, source: StridedView) -> list[tuple[int, int, int]]:
    """Return the axes, fastest first: extent and both strides. The first counts bytes.

    Axes that can be are taken together.
    """
    axes = [(to.dtype.itemsize, 1, 1)]
    for count, *strides in zip(reversed(to.shape), reversed(to.strides), reversed(source.strides), strict=True):
        before, *steps = axes[-1]
        if strides == [before * step for step in steps]:
            axes[-1] = (before * count, steps[0], steps[1])
        elif count > 1:
            axes.append((count, strides[0], strides[1]))
    return axes


def part_without_axis(view: StridedView, index: int) -> StridedView:
    """Return ``view[index]``, strided even where it is not."""
    return StridedView(view._base, view.start + index * view.strides[0], view.shape[1:], view.strides[1:])


def item_of(memory: Any, index: tuple[Any, ...]) -> Any:
    """Implement ``memory.item(*index)`` of Buffers and views."""
    if not index and memory.size != 1:
        raise InvalidArgumentError(f"item: {memory.size} elements need an index")
    whole = tuple(map(read_index, index))
    if len(whole) == 1 and memory.ndim != 1:  # counted in C order
        if not -memory.size <= whole[0] < memory.size:
            raise OutOfRangeError(f"item: index {whole[0]} is out of range for {memory.size} elements")
        whole = tuple(map(int, np.unravel_index(whole[0] % memory.size, memory.shape)))
    if index and len(whole) != memory.ndim:
        raise InvalidArgumentError(f"item: {len(whole)} indices for the shape {memory.shape}")
    return (memory[whole] if index else memory).get().item()


class StridedView:
    """Part of a `Buffer` whose elements do not lie one after another: ``buf[::2]``, ``buf[:, 1]``.

    Indexing makes such views; calling the class raises. A view shares the Buffer's memory. It can be read, written and
    indexed like a Buffer, and `Queue.copy` takes it. A kernel cannot have it as an argument: `copy` makes a Buffer.

    Attributes
    ----------
    shape : tuple of int
    strides : tuple of int
        In bytes, as NumPy's.
    dtype : numpy.dtype
    """

    def __init__(
        self, base: Any = None, start: int = 0, shape: tuple[int, ...] = (), strides: tuple[int, ...] = ()
    ) -> None:
        if not isinstance(base, AnyBuffer):
            raise ArgumentTypeError("a StridedView is part of a Buffer: buf[::2]")
        self._base: Buffer = base
        self._start = start
        self.shape = shape
        self.strides = strides
        self.dtype: np.dtype[Any] = base.dtype

    @property
    def device(self) -> Device:
        """The Device that the memory belongs to."""
        return self._base.device

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of its elements, without what lies between them."""
        return self.size * self.dtype.itemsize

    @property
    def memory(self) -> Buffer:
        """The bytes that it is part of."""
        part: Buffer = self._base._part(0, (self._base.nbytes,), BYTES)
        return part

    @property
    def start(self) -> int:
        """The byte of `memory` where its first element begins."""
        return self._start

    @property
    def closed(self) -> bool:
        """Whether the memory was given back."""
        return self._base.closed

    def __len__(self) -> int:
        if not self.shape:
            raise ArgumentTypeError("len() of a 0-dimensional view")
        return self.shape[0]

    def __getitem__(self, key: Any) -> Buffer | StridedView:
        """Return a view of part of it, by NumPy's basic indexing."""
        start, shape, strides = read_key(key, self.shape, self.strides)
        return view_of(self._base, self._start + start, shape, strides)

    def __setitem__(self, key: Any, host: ArrayLike) -> None:
        """Implement ``view[key] = host``: `set` that part."""
        self[key].set(host)

    def _queue(self, queue: Queue | None, order: str) -> Queue:
        chosen: Queue = self._base._queue(queue, order)
        return chosen

    def get(self, out: NDArray[Any] | None = None, queue: Queue | None = None) -> NDArray[Any]:
        """Copy to the host and wait for the copy: `out` and `queue` are as in `Buffer.get`."""
        queue = self._queue(queue, "_wait_for_writers")
        queue._refuse_in_capture("a copy of strided memory to the host")
        packed = self.device._lend(queue, self.shape, self.dtype)
        try:
            copy_strided(queue, packed, self)
            return packed.get(out, queue)
        finally:
            queue.free(packed)

    def set(self, host: ArrayLike, queue: Queue | None = None) -> None:
        """Copy `host`, converted and broadcast, or a Buffer, to the device: `queue` is as in `Buffer.set`."""
        on_device = isinstance(host, (AnyBuffer, StridedView))
        if queue is None and on_device:
            self.device.current_queue._come_after_writers(getattr(host, "_base", host))  # type: ignore[arg-type]
        queue = self._queue(queue, "_come_after_uses")
        if on_device:
            queue.copy(self, host)  # type: ignore[arg-type]
            return
        queue._refuse_in_capture("a copy of host memory to strided memory")
        packed = self.device._lend(queue, self.shape, self.dtype)
        try:
            packed.set(host, queue)
            copy_strided(queue, self, packed)
        finally:
            queue.free(packed)

    def fill(self, value: Any, queue: Queue | None = None) -> None:
        """Set every element to `value`. `queue` is as in `Buffer.fill`. Does not block."""
        queue = self._queue(queue, "_come_after_uses")
        queue._refuse_in_capture("a fill of strided memory")
        one = self.device._lend(queue, 1, self.dtype)
        try:
            queue.fill(one, value)
            self.device._moves.move(queue, self, StridedView(one, 0, self.shape, (0,) * self.ndim))
        finally:
            queue.free(one)

    def copy(self, queue: Queue | None = None) -> Buffer:
        """Return a new Buffer with the same elements, which a kernel can take. `queue` is as in `Buffer.copy`. Does not
        block.
        """
        queue = self._queue(queue, "_come_after_writers")
        made: Buffer = self.device.empty(self.shape, self.dtype)
        queue.copy(made, self)
        return made

    def item(self, *index: int) -> Any:
        """Return one element as a Python object: `index` is as in `Buffer.item`. Blocks."""
        return item_of(self, index)

    def _in_place(self) -> NDArray[Any]:
        """Wait for the uses of the memory, and return an array over it, where the host can read it."""
        whole = self.memory.__array__(copy=False)
        return np.ndarray(self.shape, self.dtype, whole, self._start, self.strides)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Copy to the host and wait: ``numpy.asarray(view)``; with ``copy=False`` as `Buffer.__array__`."""
        if copy is not False:
            return np.asarray(self.get(), dtype)
        check_in_place(self.dtype, dtype)
        return self._in_place()

    def __dlpack__(self, *, stream: Any = None, copy: bool | None = None, **wanted: Any) -> object:
        """Hand the memory to another package, strides and all, without a copy: as `Buffer.__dlpack__`."""
        if stream is not None:
            raise BufferError("this memory is the host's, which has no stream: stream is None")
        if not copy and self.__dlpack_device__() == ON_THE_HOST:
            return self._in_place().__dlpack__(**wanted)
        if not copy and (copy is False or wanted.get("dl_device") != ON_THE_HOST):
            raise BufferError(
                f"the host cannot read this memory of {self.device.name} in place: copy it with .get(), or with "
                "from_dlpack(…, device='cpu')"
            )
        return self.get().__dlpack__(**wanted)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's device, as `Buffer.__dlpack_device__`."""
        return self._base.__dlpack_device__()

    def __repr__(self) -> str:
        return f"<forebay.StridedView {self.shape} {self.dtype}, strides {self.strides}, of {self._base!r}>"


def view_of(base: Buffer, start: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Buffer | StridedView:
    """Return a Buffer where that can be."""
    if are_contiguous(shape, strides, base.dtype.itemsize):
        part: Buffer = base._part(start, shape, base.dtype)
        return part
    return StridedView(base, start, shape, strides)


def part_of(base: Buffer, key: Any) -> Buffer | StridedView:
    """Implement the rarer cases of ``buffer[key]``."""
    return view_of(base, *read_key(key, base.shape, strides_of(base.shape, base.dtype.itemsize)))


def copy_strided(queue: Queue, to: Any, source: Any) -> None:
    """Implement `Queue.copy` between memory of which one end is strided, and host memory perhaps the other.

    Raises
    ------
    InvalidArgumentError, ArgumentTypeError
        When shape or element size differ, or the elements are numbers of two types.
    """
    if not isinstance(to, (AnyBuffer, StridedView)):
        raise ArgumentTypeError("copy of strided memory to the host: use view.get(out=array), which waits")
    if not isinstance(source, (AnyBuffer, StridedView)):
        to.set(source, queue)
        return
    check_copied(to, source)
    to, source = _as_view(to), _as_view(source)
    if to.shape != source.shape or to.dtype.itemsize != source.dtype.itemsize:
        raise InvalidArgumentError(
            f"copy of {source.shape} elements of {source.dtype} to {to.shape} of {to.dtype}: with strides both must be "
            "the same"
        )
    if source.closed or to.closed:
        queue._check_buffer(source._base, "src")
        queue._check_buffer(to._base, "dst")
    if to.size == 0:
        return
    if to._base._overlaps(source._base):
        queue._refuse_in_capture("a copy between strided parts of one Buffer")
        packed = to.device._lend(queue, to.shape, to.dtype)
        try:
            copy_strided(queue, packed, source)
            copy_strided(queue, to, packed)
        finally:
            queue.free(packed)
        return
    to.device._moves.move(queue, to, source)


def _as_view(memory: Any) -> StridedView:
    if isinstance(memory, StridedView):
        return memory
    return StridedView(memory, 0, memory.shape, strides_of(memory.shape, memory.dtype.itemsize))
