"""NumPy arrays as launch arguments, which are copied in before the launch and out after it; and memory of others."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from forebay.core.errors import Error, InvalidArgumentError
from forebay.core.process import refuse_on_host_thread
from forebay.queues.memory.buffer import Buffer
from forebay.queues.memory.foreign import is_foreign, read_only_array, why_unfit

if TYPE_CHECKING:
    from forebay.core.driver import Parameter
    from forebay.queues.kernels.kernel import Kernel
    from forebay.queues.queue import Queue

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


def launch_with_arrays(queue: Queue, kernel: Kernel, grid: Any, block: Any, arguments: list[Any]) -> None:
    """Launch with arrays, and copy them on `queue`.

    Blocks until the results are there, if any array is written to. In a capture it does not block: launch and copies
    become part of the graph, with their own memory.
    """
    captured = queue.capturing
    given = [parameter for parameter in kernel.parameters if parameter.name not in kernel.scratch_names]
    arguments = [
        _taken_over(kernel, queue, i, given[i], each) if given[i].kind == "pointer" else each
        for i, each in enumerate(arguments)
    ]
    arrays: list[tuple[int, Any]] = [(i, each) for i, each in enumerate(arguments) if isinstance(each, np.ndarray)]
    written = [(i, array) for i, array in arrays if array.flags.writeable and not given[i].read_only]
    for i, array in arrays:
        problem = why_unfit(array) or ("" if array.size else f"it is empty (shape {array.shape})")
        if problem:
            raise InvalidArgumentError(
                f"kernel {kernel.name!r}, argument {i} ({given[i].type_name} {given[i].name}): this array cannot be "
                f"copied to the device: {problem}"
            )
        if captured and given[i].name in kernel._measured:
            raise InvalidArgumentError(
                f"kernel {kernel.name!r}, argument {i} ({given[i].type_name} {given[i].name}): the size of scratch is "
                "read from it before the graph runs, but only the graph copies the array: pass a Buffer"
            )
        for j, other in written:
            if i != j and not _are_same(array, other) and np.may_share_memory(array, other):
                raise InvalidArgumentError(
                    f"kernel {kernel.name!r}: the arrays of arguments {i} and {j} overlap, and one is written to"
                )
    if written and not captured:
        refuse_on_host_thread("A launch that writes to arrays of the host")
    buffers: dict[tuple[int, int], Buffer] = {}
    replaced = list(arguments)
    try:
        for i, array in arrays:
            if _place(array) not in buffers:
                lend = _of_a_graph if captured else queue.device._lend
                buffers[_place(array)] = lend(queue, array.shape, array.dtype)
                queue.copy(buffers[_place(array)], array)
            replaced[i] = buffers[_place(array)]
        queue.launch(kernel, grid, block, *replaced)
        for _, array in written:
            queue.copy(array, buffers[_place(array)])
    finally:
        for buffer in () if captured else buffers.values():
            queue.free(buffer)
    if written and not captured:
        queue.record().wait()


def _taken_over(kernel: Kernel, queue: Queue, i: int, parameter: Parameter, value: Any) -> Any:
    """Return a Buffer over what another package or another device owns, and everything else as it is."""
    if isinstance(value, Buffer):
        return queue.device._over_peer(value) if queue.device._reaches(value.device) else value
    if isinstance(value, np.ndarray) or not is_foreign(value, queue.device.driver):
        return value
    try:
        array = read_only_array(value, queue.device.driver) if parameter.read_only else None
        return queue.device._as_buffer(value, queue) if array is None else array
    except Error as error:
        raise type(error)(
            f"kernel {kernel.name!r}, argument {i} ({parameter.type_name} {parameter.name}): {error}"
        ) from None


def _of_a_graph(queue: Queue, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Buffer:
    """Make memory that lives as long as the nodes that use it."""
    device = queue.device
    memory = device._allocate(math.prod(shape) * dtype.itemsize, "device")
    return device.pool._buffer_on(device, memory, shape, dtype)


def _place(array: Array) -> tuple[int, int]:
    return array.ctypes.data, array.nbytes


def _are_same(first: Array, second: Array) -> bool:
    return _place(first) == _place(second)
