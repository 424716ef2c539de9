"""Results of kernels: the futures that launches with ``result=dtype`` return."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Protocol, overload

import numpy as np

from forebay.core.errors import ArgumentTypeError, InvalidArgumentError
from forebay.events.event import wait_for_all
from forebay.queues.memory.shapes import NotOnHost, element_code, lent, read_dtype
from forebay.queues.memory.transfers import copy_to_staging

if TYPE_CHECKING:
    from collections.abc import Generator

    from numpy.typing import DTypeLike

    from forebay.events.event import Event
    from forebay.queues.device import Device
    from forebay.queues.kernels.kernel import Kernel
    from forebay.queues.memory.buffer import Buffer
    from forebay.queues.queue import Queue


class Result(NotOnHost):
    """The result of a launch, on its way to the host; made by ``queue.launch(…, result=dtype)``.

    Discarding it unread takes no host synchronize.
    """

    def __init__(self, event: Event | None = None, staged: Any = None, dtype: Any = None) -> None:
        if event is None:
            raise ArgumentTypeError("a Result is made by Queue.launch with result=dtype")
        self._event = event
        self._staged = staged
        self.dtype: np.dtype[Any] = dtype

    def query(self) -> bool:
        """Return whether the value is on the host. Never blocks."""
        return self._event.query()

    def get(self) -> Any:
        """Return the value: a NumPy scalar, or an array if the dtype has a shape.

        Blocks until the value is on the host. Takes one host synchronize, or none if the value is known to be there.

        Raises
        ------
        DriverError
            If an earlier command failed.
        """
        self._event.wait()
        base, shape = self.dtype.base, self.dtype.shape
        value = np.frombuffer(self._staged, base, self.dtype.itemsize // base.itemsize)
        return value.reshape(shape).copy() if shape else value[0]

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait in an asyncio event loop, and return the value: ``value = await result``. No thread waits."""
        yield from self._event.__await__()
        return self.get()

    def __repr__(self) -> str:
        return f"<forebay.Result of {self.dtype}, {'done' if self.query() else 'on its way'}>"


class ConfiguredLaunch(Protocol):
    """The type of ``kernel[grid, block]``, which is called with the arguments, like `Queue.launch`."""

    @overload
    def __call__(self, *args: Any, result: DTypeLike) -> Result: ...

    @overload
    def __call__(self, *args: Any, result: None = None) -> None: ...


def results(*futures: Result) -> list[Any]:
    """Return the values of `futures`, with one host synchronize for each device. Blocks until all are on the host.

    Raises
    ------
    ArgumentTypeError
    DriverError
    """
    for future in futures:
        if not isinstance(future, Result):
            raise ArgumentTypeError(f"results() needs what launches with result= gave, not {type(future).__name__}")
    wait_for_all([future._event for future in futures])
    return [future.get() for future in futures]


def launch_for_result(queue: Queue, kernel: Kernel, grid: Any, block: Any, arguments: list[Any], result: Any) -> Result:
    """Implement `Queue.launch` with ``result=``."""
    dtype = read_dtype(result)
    last = kernel.parameters[-1] if kernel.parameters else None
    if last is None or last.kind != "pointer" or last.read_only or last.name in kernel.scratch_names:
        raise InvalidArgumentError(
            f"kernel {kernel.name!r}: result= is for a kernel whose last parameter is a pointer that it writes to: "
            f"{kernel.signature}"
        )
    if element_code(last.dtype) and element_code(dtype) not in (0, element_code(last.dtype)):
        raise ArgumentTypeError(
            f"kernel {kernel.name!r}, result={str(dtype)!r}: the last parameter ({last.type_name} {last.name}) points "
            f"to {last.dtype}"
        )
    buffer = queue.device._lend(queue, 1, dtype.base if not dtype.shape else np.dtype((np.void, dtype.itemsize)))
    try:
        queue.launch(kernel, grid, block, *arguments, buffer)
    except BaseException:
        buffer.close()  # a free is ordered like a command, and a refused launch leaves the queue as it was
        raise
    try:
        staged = queue.device.driver.stage(dtype.itemsize)
        event = copy_to_staging(queue, staged, buffer)
    finally:
        queue.free(buffer)
    return Result(event, staged, dtype)


# -- minimum, maximum and sum of integer buffers, computed on the device and cached with the allocation


TYPES = {"i1": "char", "u1": "uchar", "i2": "short", "u2": "ushort", "i4": "int", "u4": "uint", "i8": "long",
         "u8": "ulong"}  # fmt: skip
BLOCK = 64
MOST_GROUPS = 64
PER_THREAD = 64  # elements, before another group is added

# Each group stores (minimum, maximum, sum) of its share; the host combines them.
SOURCE = """
kernel void reduce_TYPE(global const TYPE *values, const ulong count, global WIDE *partial,
    const ulong at)
{
    partial += 3 * at;
    local WIDE least[BLOCK], greatest[BLOCK], sums[BLOCK];
    size_t mine = get_local_id(0);
    WIDE low = values[0], high = values[0], sum = 0;
    for (ulong i = get_global_id(0); i < count; i += get_global_size(0)) {
        WIDE value = values[i];
        low = min(low, value);
        high = max(high, value);
        sum += value;
    }
    least[mine] = low;
    greatest[mine] = high;
    sums[mine] = sum;
    for (size_t rest = BLOCK / 2; rest > 0; rest /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (mine < rest) {
            least[mine] = min(least[mine], least[mine + rest]);
            greatest[mine] = max(greatest[mine], greatest[mine + rest]);
            sums[mine] += sums[mine + rest];
        }
    }
    if (mine == 0) {
        partial[3 * get_group_id(0)] = least[0];
        partial[3 * get_group_id(0) + 1] = greatest[0];
        partial[3 * get_group_id(0) + 2] = sums[0];
    }
}
"""


class Reductions:
    """The reduction kernels of a device."""

    def __init__(self, device: Device) -> None:
        names = TYPES.values()
        source = "".join(
            SOURCE.replace("TYPE", name).replace("WIDE", "ulong" if name.startswith("u") else "long") for name in names
        )
        program = device.program(f"#define BLOCK {BLOCK}\n{source}")
        self._kernels: dict[str, Kernel] = {code: program[f"reduce_{name}"] for code, name in TYPES.items()}

    def run(self, queue: Queue, buffers: list[Buffer]) -> list[tuple[int, int, int]]:
        """Return (minimum, maximum, sum) of each. Blocks: one launch for each on `queue`, and one host synchronize."""
        groups = [min(-(-buffer.size // (BLOCK * PER_THREAD)), MOST_GROUPS) for buffer in buffers]
        shares = list(zip(buffers, groups, itertools.accumulate(groups, initial=0), strict=False))
        with lent(queue, (sum(groups), 3), np.dtype("i8")) as partial:
            for buffer, count, start in shares:
                queue.launch(self._kernels[buffer.dtype.str[1:]], count, BLOCK, buffer, buffer.size, partial, start)
            staged = queue.device.driver.stage(partial.nbytes)
            staged[:] = 0  # on a device that executes nothing, garbage must not become a size
            copy_to_staging(queue, staged, partial).wait()
        host = np.asarray(staged)[: partial.nbytes].view("i8").reshape(partial.shape)
        found = []
        for buffer, count, start in shares:
            own = host[start : start + count].view("u8" if buffer.dtype.kind == "u" else "i8")
            found.append((int(own[:, 0].min()), int(own[:, 1].max()), int(own[:, 2].sum())))
        return found
