"""Reductions from expressions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from forebay.core.driver import AnyBuffer, AnyDevice, AnyQueue
from forebay.core.errors import InvalidArgumentError, NotSupportedError
from forebay.expressions.arguments import Call, Expression, refuse
from forebay.expressions.parameters import KINDS, check_text
from forebay.expressions.sources import Given, code_of, reduction_source
from forebay.expressions.variants import give_up
from forebay.queues.kernels.kernel import Kernel
from forebay.queues.kernels.program import Program
from forebay.queues.memory.buffer import note_creation
from forebay.queues.memory.shapes import ShapeLike, read_dtype, read_int

RESERVED = "a", "b", "i", "n"
# Work-items of a group. On a CPU a work-item is a lane of a vector, and a group with a barrier keeps what each has in
# memory: 16 take half the time that 64 take (Intel's runtime).
BLOCK, CPU_BLOCK = 256, 16
ALONE = {True: 1024, False: 16}
"""Rounds of a group up to which one group does everything, on a CPU and elsewhere."""
GROUPS, LEAST_GROUPS = 8, 64
"""The most groups for each compute unit, and of a device with few of these."""
# Local memory has no bools and no halves.
WIDER = {"b1": np.dtype(np.int32), "f2": np.dtype(np.float32)}


class _Kernels(NamedTuple):
    alone: Kernel
    partial: Kernel
    last: Kernel
    block: int
    alone_up_to: int
    most_groups: int


class reduction(Expression):  # noqa: N801 - called as a function is
    """A kernel that combines all elements to one; ``fb.reduction(…)``.

    It takes one launch, or two for many elements, and nothing waits. The result is the same each time for the same
    elements on the same device: the order in which elements are combined depends on their number alone.

    Parameters
    ----------
    in_params : str
        As for `elementwise`.
    out_param : str
        The type and the name of the result.
    map : str
        Expression in OpenCL C that is reduced: the names of the inputs mean their elements, ``i`` is the index and
        ``n`` the number of elements.
    combine : str
        Expression of ``a`` and ``b``: both are mapped or combined elements. It must be associative and commutative,
        as far as rounding allows.
    start : str, number or None
        What the elements are combined with, once; the result for no elements. With None there must be elements.
    post : str, optional
        Statements that set the result from ``a``, the combined elements, and ``n``. By default the result is ``a``.
    accumulate : numpy dtype, optional
        What is combined; by default the type of the result. For ``bool`` it is int32, and for float16 float32.
    name, preamble, options
        As for `elementwise`.

    Attributes
    ----------
    name, map, combine, post, preamble : str
    start : str or None
    accumulate : numpy.dtype or None
    in_params, out_params : tuple of Parameter
    options : tuple of str

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        For what cannot be read. What the compiler refuses, the first call reports.

    Examples
    --------
    >>> norm = fb.reduction("T x", "T y", "x * x", "a + b", 0, "y = sqrt(a)")  # doctest: +SKIP
    >>> length = norm(x)  # doctest: +SKIP
    """

    _reduces = True

    def __init__(
        self,
        in_params: str,
        out_param: str,
        map: str,
        combine: str,
        start: str | float | None = None,
        post: str | None = None,
        *,
        accumulate: Any = None,
        name: str = "reduction",
        preamble: str = "",
        options: str | Sequence[str] = (),
    ) -> None:
        super().__init__(RESERVED, in_params, out_param, name, preamble, options)
        if len(self.out_params) != 1 or self.out_params[0].raw:
            refuse(name, f"{out_param!r}: a reduction has one result, which is not raw", InvalidArgumentError)
        self.map: str = check_text(name, "map", map)
        self.combine: str = check_text(name, "combine", combine)
        self.start: str | None = None if start is None else check_text(name, "start", _spelled(start))
        self.post: str = check_text(name, "post", f"{self.out_params[0].name} = a" if post is None else post)
        self.accumulate: np.dtype[Any] | None = None if accumulate is None else read_dtype(accumulate)
        if self.accumulate is not None and self.accumulate.kind not in KINDS:
            refuse(name, f"accumulate: {self.accumulate} is no type of numbers", InvalidArgumentError)

    def __call__(
        self,
        *args: Any,
        queue: AnyQueue | None = None,
        result: Any = None,
        size: ShapeLike | None = None,
        axis: int | tuple[int, ...] | None = None,
    ) -> Any:
        """Launch the reduction. Does not block, but when it has to be compiled, and for arrays of NumPy.

        Parameters
        ----------
        *args
            As for `elementwise`. The output may follow.
        queue : Queue, optional
            As for `elementwise`.
        result : Buffer or numpy dtype, optional
            A Buffer of one element for the result, instead of a new one. Or the dtype of the result: then it is on its
            way to the host, a `Result`, as with `Queue.launch`.
        size : int or tuple of int, optional
            How many elements, when only numbers and raw arrays go in.
        axis : optional
            None or all axes: others are not reduced alone.

        Returns
        -------
        Buffer or Result
            The result. A new Buffer has no dimensions, and is memory of `Queue.alloc`.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError, ClosedError, BuildError, NotSupportedError, OutOfMemoryError,
        DriverError
            As for `elementwise`. Also InvalidArgumentError for no elements and no `start`.
        """
        to_host = None
        if result is not None and not isinstance(result, (AnyBuffer, np.ndarray, tuple, list)):
            to_host = read_dtype(result)
            result = None
        read = None if size is not None else self._last.read_again(args, queue, result)
        call = Call(*read) if read else self._prepare(args, queue, result, size)
        if axis is not None:
            self._check_axis(axis, len(call.shape))
        made = call.variant.dtypes[-1]
        count = math.prod(call.shape)
        if count == 0 and self.start is None:
            refuse(self.name, "no elements, and no start to begin with", InvalidArgumentError)
        if to_host is not None:
            if to_host != made:
                refuse(self.name, f"result={to_host}: the result is {made}")
            if call.outputs:
                refuse(self.name, "the output is given twice, behind the inputs and as result=")
            call.queue._refuse_in_capture(
                f"{self.name} with result= for the host (pass a Buffer, to read after each run)"
            )
        elif call.outputs and call.outputs[0].size != 1:
            shape = tuple(call.outputs[0].shape)
            refuse(self.name, f"the result is one element, not {shape}", InvalidArgumentError)
        allocated = () if call.outputs or to_host is not None else (call.queue.alloc((), made),)
        (output,) = call.outputs or allocated or (None,)
        try:
            result = self._launch(call, count, output, to_host)
        except BaseException:
            give_up(call.queue, allocated)
            raise
        if allocated:
            note_creation(output, call.queue)
        return output if to_host is None else result

    def _launch(self, call: Call, count: int, output: Any, to_host: Any) -> Any:
        kernels: _Kernels = call.variant.built
        queue, block = call.queue, kernels.block
        sizes = [call.inputs[i].size for i in call.variant.counted]
        given = [] if to_host is not None else [output]
        if count <= kernels.alone_up_to:
            inputs = call.inputs if count else [_of_no_elements(queue, value) for value in call.inputs]
            return queue.launch(kernels.alone, 1, block, *inputs, count, *sizes, *given, result=to_host)
        groups = min(-(-count // block), kernels.most_groups)
        share = -(-count // (groups * block)) * block
        groups = -(-count // share)
        # A graph's memory is allocated and freed by nodes of its own.
        accumulated = self._accumulated(call.variant.dtypes[-1])
        if queue.capturing:
            partial = queue.alloc(groups, accumulated)
        else:
            partial = queue.device._lend(queue, groups, accumulated)
        try:
            queue.launch(kernels.partial, groups, block, *call.inputs, count, share, *sizes, partial)
            made = queue.launch(kernels.last, 1, block, partial, groups, count, *given, result=to_host)
        except BaseException:
            give_up(queue, (partial,))
            raise
        queue.free(partial)
        return made

    def _accumulated(self, made: np.dtype[Any]) -> np.dtype[Any]:
        dtype = self.accumulate or made
        return WIDER.get(code_of(dtype), dtype)

    def _check_axis(self, axis: Any, ndim: int) -> None:
        axes = axis if isinstance(axis, tuple) else (axis,)
        try:
            reduced = {range(ndim)[read_int(each, f"{self.name}: axis is an int or a tuple of ints")] for each in axes}
        except IndexError:
            refuse(self.name, f"axis={axis!r} is no axis of {ndim}", InvalidArgumentError)
        if len(reduced) != ndim:
            raise NotSupportedError(
                f"{self.name}: axis={axis!r} of {ndim}: all axes are reduced together; for one, write an elementwise "
                "kernel over the others with a loop and a raw parameter"
            )

    def _block(self, device: AnyDevice) -> int:
        return CPU_BLOCK if device.info.kind == "cpu" else BLOCK

    def _source(self, device: AnyDevice, given: Given) -> str:
        return reduction_source(
            given,
            self._accumulated(given.outputs[0].dtype),
            self.map,
            self.combine,
            self.start,
            self.post,
            self._block(device),
        )

    def _take(self, device: AnyDevice, program: Program) -> _Kernels:
        block = self._block(device)
        return _Kernels(
            program[f"{self.name}_group"],
            program[f"{self.name}_partial"],
            program[f"{self.name}_last"],
            block,
            ALONE[device.info.kind == "cpu"] * block,
            max(GROUPS * device.info.compute_units, LEAST_GROUPS),
        )

    def _code(self) -> str:
        return f"map {self.map!r}, combine {self.combine!r}, start {self.start!r}, post {self.post!r}"


def _of_no_elements(queue: AnyQueue, value: Any) -> Any:
    """Return what a launch takes for an array of NumPy's without elements, of which there is nothing to copy."""
    return value if not isinstance(value, np.ndarray) or value.size else queue.alloc(0, value.dtype)


def _spelled(start: Any) -> Any:
    """Return a number as C has it, and everything else as it is."""
    if not isinstance(start, (bool, int, float, np.bool_, np.integer, np.floating)):
        return start
    number = int(start) if isinstance(start, (bool, int, np.bool_, np.integer)) else float(start)
    if np.isnan(number):
        return "NAN"
    if np.isinf(number):
        return "INFINITY" if number > 0 else "-INFINITY"
    return repr(number)
