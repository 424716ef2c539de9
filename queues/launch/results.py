"""Results of kernels: the futures that launches with ``result=dtype`` return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, overload

import numpy as np

from forebay.core.errors import ArgumentTypeError, InvalidArgumentError
from forebay.events.event import wait_for_all
from forebay.queues.memory.shapes import element_code, read_dtype

if TYPE_CHECKING:
    from collections.abc import Generator

    from numpy.typing import DTypeLike

    from forebay.events.event import Event
    from forebay.queues.kernels.kernel import Kernel
    from forebay.queues.queue import Queue

__all__ = ["Result", "results"]


class Result:
    """The result of a launch, on its way to the host; made by ``queue.launch(…, result=dtype)``.

    Dropping it unread costs no synchronize.
    """

    def __init__(self, event: Event | None = None, staged: Any = None, dtype: Any = None) -> None:
        if event is None:
            raise ArgumentTypeError("a Result is made by Queue.launch with result=dtype")
        self._event = event
        self._staged = staged
        self.dtype: np.dtype[Any] = dtype

    @property
    def done(self) -> bool:
        """Whether the value is on the host. Never blocks."""
        return self._event.query()

    def get(self) -> Any:
        """The value: a NumPy scalar, or an array when the dtype has a shape.

        Blocks until the value is here. Takes one host synchronize, or none when it is known to be here.

        Raises
        ------
        DriverError
            When an earlier command failed.
        """
        self._event.wait()
        base, shape = self.dtype.base, self.dtype.shape
        value = np.frombuffer(self._staged, base, self.dtype.itemsize // base.itemsize)
        return value.reshape(shape).copy() if shape else value[0]

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait in an event loop of asyncio, and return the value: ``value = await result``. No thread waits."""
        yield from self._event.__await__()
        return self.get()

    def __repr__(self) -> str:
        return f"<forebay.Result of {self.dtype}, {'done' if self.done else 'on its way'}>"


class ConfiguredLaunch(Protocol):
    """The type of ``kernel[grid, block]``, which is called with the arguments, like `Queue.launch`."""

    @overload
    def __call__(self, *args: Any, result: DTypeLike) -> Result: ...

    @overload
    def __call__(self, *args: Any, result: None = None) -> None: ...


def results(*futures: Result) -> list[Any]:
    """Return the values of several results, `futures`, with one host synchronize a device.

    Blocks until the last one is here.

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
        event = queue._copy_to_staging(staged, buffer)
    finally:
        queue.free(buffer)
    return Result(event, staged, dtype)
