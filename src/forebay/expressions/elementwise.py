"""elementwise kernels from an expression."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from forebay.core.driver import AnyDevice, AnyQueue
from forebay.core.errors import InvalidArgumentError
from forebay.expressions.arguments import Expression, refuse
from forebay.expressions.parameters import check_text
from forebay.expressions.sources import OPENCL_C, Given, map_source
from forebay.queues.kernels.program import Program
from forebay.queues.memory.shapes import ShapeLike

RESERVED = "i", "n"
LEAVES = re.compile(r"\breturn\b")


class elementwise(Expression):  # noqa: N801 - called as a function is
    """A kernel that computes each element of its outputs by the same statements; ``fb.elementwise(…)``.

    It is compiled with the first call for arguments of certain types on a device, and kept on disk as every program.
    Calls with arguments like those of the call before cost about what `Queue.launch` costs.

    Parameters
    ----------
    in_params, out_params : str
        What goes in and what comes out: types and names, such as ``"float32 x, T y"``. A type is NumPy's name of one,
        or a single letter for a type that the arguments decide. With ``raw`` before it, the statements index the array
        themselves.
    operation : str
        Statements in OpenCL C, with the names of the parameters for their elements, ``i`` for the index of the
        element in C order, and ``n`` for the number of elements. An output begins with what its memory has.
    name : str
        The kernel's, for messages and traces.
    preamble : str
        Functions and macros that come before the kernel.
    options : str or sequence of str
        Of the compiler, as for `Device.program`.

    Attributes
    ----------
    name, operation, preamble : str
    in_params, out_params : tuple of Parameter
        As they were read: name, type_name, dtype, raw.
    options : tuple of str

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        For parameters that cannot be read. What the compiler refuses, the first call reports.

    Notes
    -----
    ``float16`` is read and written, and computed as float32; a raw array of it is read by ``vload_half(i, x)``. A
    ``bool`` has one byte, as in NumPy. There are no complex numbers in OpenCL C; `forebay.cupy_style.ElementwiseKernel`
    has them.

    Examples
    --------
    >>> axpy = fb.elementwise("T x, T y, T a", "T z", "z = a * x + y")  # doctest: +SKIP
    >>> z = axpy(x, y, 2)  # doctest: +SKIP
    """

    _around = "", ""
    """Statements before the loop over the elements, and after it."""

    def __init__(
        self,
        in_params: str,
        out_params: str,
        operation: str,
        *,
        name: str = "elementwise",
        preamble: str = "",
        options: str | Sequence[str] = (),
    ) -> None:
        super().__init__(RESERVED, in_params, out_params, name, preamble, options)
        self.operation: str = check_text(name, "operation", operation)
        if self._dialect is OPENCL_C and LEAVES.search(operation):
            refuse(
                name, "the operation has a return, which would leave the output as it was: use if", InvalidArgumentError
            )

    def __call__(
        self,
        *args: Any,
        queue: AnyQueue | None = None,
        result: Any = None,
        size: ShapeLike | None = None,
    ) -> Any:
        """Launch the kernel. Does not block, but when it has to be compiled, and for arrays of NumPy.

        Parameters
        ----------
        *args
            One for each input: a `Buffer`, a NumPy array, which is copied in (and out of, for an output), memory of
            another package that a launch takes, or a number, which is passed by value. Arrays have one shape. One
            with a single element is used for every element. The outputs may follow.
        queue : Queue, optional
            By default the thread's current queue on the device of the first Buffer. The launch comes after what was
            submitted to this queue, like every launch.
        result : Buffer, or tuple of Buffers, optional
            The outputs, instead of new ones. One may be the same as an input.
        size : int or tuple of int, optional
            The shape of the outputs, when only numbers and raw arrays go in.

        Returns
        -------
        Buffer or tuple of Buffers
            The outputs. New ones are memory of `Queue.alloc`: they can be used on this queue, and on others that wait
            for it.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError, ClosedError
            For arguments that do not fit, before anything is submitted.
        BuildError
            When the operation does not compile. The compiler's log is in the message and in ``.log``.
        NotSupportedError
            When the device has no such type.
        OutOfMemoryError, DriverError
            As for `Queue.launch`.
        """
        outputs = self._call(args, queue, result, size)
        return outputs[0] if len(outputs) == 1 else outputs

    def _call(self, args: tuple[Any, ...], queue: Any, result: Any, size: Any, block: int = 0) -> tuple[Any, ...]:
        if size is None and not block:
            outputs = self._last.launch_again(args, queue, result)
            if outputs is not None:
                return outputs
        call = self._prepare(args, queue, result, size)
        return call.variant.launch(call.queue, call.inputs, call.outputs, call.shape, *((block,) if block else ()))

    def _source(self, device: AnyDevice, given: Given) -> str:
        return map_source(given, self.operation, *self._around)

    def _take(self, device: AnyDevice, program: Program) -> Any:
        return program[f"{self.name}_elements"]

    def _code(self) -> str:
        return repr(self.operation)
