"""CuPy's kernels that are made from expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from forebay.core.errors import InvalidArgumentError
from forebay.cupy_style.raw import check_stream
from forebay.expressions.arguments import Expression
from forebay.expressions.elementwise import elementwise
from forebay.expressions.parameters import check_text
from forebay.expressions.reduction import reduction
from forebay.expressions.sources import CPP
from forebay.hiprtc.front_end import current_device
from forebay.queues.memory.buffer import Buffer
from forebay.queues.memory.shapes import read_int
from forebay.queues.queue import Queue


class _InCpp(Expression):
    """An expression in HIP C++, with the attributes that CuPy's have."""

    _dialect = CPP

    @property
    def nin(self) -> int:
        """How many inputs there are."""
        return len(self.in_params)

    @property
    def nout(self) -> int:
        """How many outputs there are."""
        return len(self.out_params)

    @property
    def nargs(self) -> int:
        """How many inputs and outputs there are."""
        return self.nin + self.nout

    def __repr__(self) -> str:
        return f"<forebay.cupy_style.{type(self).__name__} {self.signature}>"


class ElementwiseKernel(_InCpp, elementwise):
    """A kernel that computes each element by the same statements in C++, as CuPy's class of this name.

    `forebay.elementwise` is the same in OpenCL C, which more devices take.

    Parameters
    ----------
    in_params, out_params : str
        Types and names: ``"float32 x, raw T y"``. The types are NumPy's names, or single letters for types that the
        arguments decide.
    operation : str
        Statements in C++, with the names for the elements, ``i`` and ``_ind`` for the index, ``n`` and ``_ind.size()``
        for the number of elements. A raw array has ``size()``, and is indexed in C order.
    name : str
    reduce_dims
        Taken and not needed: arrays are contiguous.
    preamble : str
        Code before the kernel.
    no_return, return_tuple : bool
        Whether a call returns None, or a tuple of a single output, too.
    doc : str
        The ``__doc__`` of the object.
    loop_prep, after_loop : str
        Statements of each thread before its elements, and after them.
    options : tuple of str
        As for `RawModule`.

    Attributes
    ----------
    name, operation, preamble : str
    in_params, out_params : tuple of Parameter
        name, type_name, dtype, raw.
    nin, nout, nargs : int
        How many there are.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        For parameters that cannot be read.
    """

    def __init__(
        self,
        in_params: str,
        out_params: str,
        operation: str,
        name: str = "kernel",
        reduce_dims: bool = True,
        preamble: str = "",
        no_return: bool = False,
        return_tuple: bool = False,
        doc: str = "",
        *,
        loop_prep: str = "",
        after_loop: str = "",
        options: Sequence[str] = (),
    ) -> None:
        super().__init__(in_params, out_params, operation, name=name, preamble=preamble, options=options)
        self._around = check_text(name, "loop_prep", loop_prep), check_text(name, "after_loop", after_loop)
        self._no_return, self._return_tuple = no_return, return_tuple
        if doc:
            self.__doc__ = doc

    def __call__(  # type: ignore[override]
        self, *args: Any, size: int | None = None, block_size: int = 256, stream: Queue | None = None
    ) -> Any:
        """Launch the kernel. It does not block, but when it has to be compiled, and for NumPy arrays.

        Parameters
        ----------
        *args
            The inputs: Buffers or NumPy arrays of one shape or of one element, and numbers. The outputs may follow.
        size : int, optional
            The number of elements, if all arrays are raw.
        block_size : int
            Threads of a block.
        stream : Queue, optional
            By default the current queue of the first Buffer's device.

        Returns
        -------
        Buffer, tuple of Buffers or None
            The outputs.

        Raises
        ------
        NotSupportedError
            On devices for which nothing compiles C++: those that take no SPIR-V, but CUDA's.
        ArgumentTypeError, InvalidArgumentError, ClosedError, BuildError
            As `forebay.elementwise`.
        """
        block_size = read_int(block_size, f"{self.name}: block_size is an int")
        if block_size < 1:
            raise InvalidArgumentError(f"{self.name}: block_size={block_size!r} is no number of threads")
        queue = _queue_for(self.name, args, stream)
        outputs = self._call(args, queue, None, size, 0 if block_size == 256 else block_size)
        if self._no_return:
            return None
        return outputs if self._return_tuple or len(outputs) > 1 else outputs[0]


class ReductionKernel(_InCpp, reduction):
    """A kernel that combines all elements to one, by expressions in C++, as CuPy's class of this name.

    `forebay.reduction` is the same in OpenCL C, which more devices take.

    Parameters
    ----------
    in_params, out_params : str
        As for `ElementwiseKernel`; there is one output.
    map_expr : str
        What is reduced, from an element of each input.
    reduce_expr : str
        What two of these, ``a`` and ``b``, are combined to.
    post_map_expr : str
        Statement that sets the output from ``a``, such as ``"y = sqrt(a)"``.
    identity : str or None
        What there is without elements. With None there must be elements.
    name : str
    reduce_type : str, optional
        The type of what is combined, by its name in C++ or NumPy; by default that of the output.
    reduce_dims
        Taken and not needed.
    preamble : str
    options : tuple of str

    Attributes
    ----------
    name, map_expr, reduce_expr, post_map_expr, preamble : str
    identity : str or None
    in_params, out_params : tuple of Parameter
    nin, nout, nargs : int

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        For what cannot be read.
    """

    def __init__(
        self,
        in_params: str,
        out_params: str,
        map_expr: str,
        reduce_expr: str,
        post_map_expr: str,
        identity: Any,
        name: str = "reduce_kernel",
        reduce_type: str | None = None,
        reduce_dims: bool = True,
        preamble: str = "",
        options: Sequence[str] = (),
    ) -> None:
        super().__init__(
            in_params,
            out_params,
            map_expr,
            reduce_expr,
            None if identity == "" else identity,
            post_map_expr,
            accumulate=None if reduce_type is None else _type_named(name, reduce_type),
            name=name,
            preamble=preamble,
            options=options,
        )
        self.map_expr: str = map_expr
        self.reduce_expr: str = reduce_expr
        self.post_map_expr: str = post_map_expr
        self.identity: str | None = self.start

    def __call__(  # type: ignore[override]
        self,
        *args: Any,
        out: Buffer | None = None,
        axis: int | tuple[int, ...] | None = None,
        keepdims: bool = False,
        stream: Queue | None = None,
    ) -> Buffer:
        """Launch the reduction. It does not block, but when it has to be compiled, and for NumPy arrays.

        Parameters
        ----------
        *args
            The inputs, as for `ElementwiseKernel`. The output may follow.
        out : Buffer, optional
            The output, of one element.
        axis : optional
            None, or all axes.
        keepdims : bool
            Whether the result has as many dimensions as the input, of 1 element each. Not with `out`.
        stream : Queue, optional
            By default the current queue of the first Buffer's device.

        Returns
        -------
        Buffer
            The result, without dimensions; or `out`.

        Raises
        ------
        NotSupportedError
            For single axes, and on devices for which nothing compiles C++.
        ArgumentTypeError, InvalidArgumentError, ClosedError, BuildError
            As `forebay.reduction`.
        """
        queue = _queue_for(self.name, args, stream)
        made: Buffer = super().__call__(*args, queue=queue, result=out, axis=axis)
        if keepdims and out is None and len(args) == self.nin:
            arrays = [each.ndim for each in args if isinstance(each, (Buffer, np.ndarray))]
            return made.reshape((1,) * max(arrays))
        return made


def _queue_for(what: str, arguments: Sequence[Any], stream: Any) -> Queue:
    """Return the queue of a launch."""
    check_stream(what, stream)
    if isinstance(stream, Queue):
        return stream
    first = next((each for each in arguments if isinstance(each, Buffer)), None)
    return (current_device() if first is None else first.device).current_queue


def _type_named(what: str, name: Any) -> np.dtype[Any]:
    """Return the type of a name in C++ or of NumPy's."""
    for code, spelling in CPP.spellings.items():
        if name == spelling.value and code != "f2":
            return np.dtype(code)
    try:
        dtype: np.dtype[Any] = np.dtype(name)
    except TypeError:
        raise InvalidArgumentError(f"{what}: reduce_type={name!r} is no type of numbers") from None
    return dtype
