"""The arguments of kernels made from expressions: their types, and the shape that they have in common."""

from __future__ import annotations

import math
import threading
from typing import Any, NamedTuple, NoReturn

import numpy as np

from forebay.core.driver import AnyBuffer, AnyDevice, AnyQueue
from forebay.core.errors import ArgumentTypeError, BuildError, ClosedError, InvalidArgumentError, NotSupportedError
from forebay.expressions.parameters import KINDS, Parameter, check_name, check_text, read_parameters
from forebay.expressions.sources import CPP, FULL, NUMBER, ONE, OPENCL_C, RAW, Given, Typed
from forebay.expressions.variants import Last, Variant, overlaps_elsewhere
from forebay.queues.device import find_built, keep_built
from forebay.queues.kernels.program import Program
from forebay.queues.memory.shapes import StridedView, is_foreign, name_of, read_only_array, read_shape, type_problem

DOUBLES = "kernel void doubles(global double *x) { x[0] *= 2.0; }"


class Call(NamedTuple):
    """What the arguments of a call come to."""

    variant: Variant
    queue: AnyQueue
    inputs: tuple[Any, ...]  # that a launch takes, as the next
    outputs: tuple[Any, ...]  # those that were given
    shape: tuple[int, ...]  # that of the elements


def refuse(what: str, problem: str, kind: type[Exception] = ArgumentTypeError) -> NoReturn:
    """Raise an error that says whose it is."""
    raise kind(f"{what}: {problem}")


class Expression:
    """What `elementwise` and `reduction` have in common: parameters, and a kernel for each kind of arguments."""

    _dialect = OPENCL_C
    _reduces = False
    """Whether the outputs have a shape of their own."""

    def __init__(
        self, reserved: tuple[str, ...], in_params: str, out_params: str, name: str, preamble: str, options: Any
    ) -> None:
        check_name(type(self).__name__, name)
        c_names = self._dialect is not CPP  # there the types are CuPy's, which are NumPy's
        self.name: str = name
        self.in_params: tuple[Parameter, ...] = read_parameters(name, in_params, reserved, c_names=c_names)
        self.out_params: tuple[Parameter, ...] = read_parameters(name, out_params, reserved, c_names=c_names)
        self.preamble: str = check_text(name, "preamble", preamble)
        self.options: tuple[str, ...] = (options,) if isinstance(options, str) else tuple(options)
        names = [each.name for each in (*self.in_params, *self.out_params)]
        for repeated in {each for each in names if names.count(each) > 1}:
            refuse(name, f"two parameters are called {repeated!r}", InvalidArgumentError)
        if not self.out_params:
            refuse(name, "nothing comes out: out_params is empty", InvalidArgumentError)
        self._begin_empty()

    def _begin_empty(self) -> None:
        self._lock = threading.Lock()  # of building
        self._last = Last()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_lock", "_last")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over what another process sent. Kernels are the process's own."""
        vars(self).update(state)
        self._begin_empty()

    def _source(self, device: AnyDevice, given: Given) -> str:
        """Return the source for arguments of these types."""
        raise NotImplementedError

    def _take(self, device: AnyDevice, program: Program) -> Any:
        """Return what launches need of a program."""
        raise NotImplementedError

    def _code(self) -> str:
        """Return the user's expressions, for messages."""
        raise NotImplementedError

    @property
    def signature(self) -> str:
        """Its parameters, as they were written."""
        return f"{self.name}({', '.join(map(str, self.in_params))}) -> {', '.join(map(str, self.out_params))}"

    def _prepare(self, args: tuple[Any, ...], queue: Any, result: Any, size: Any) -> Call:
        """Read the arguments of a call, and build what they need if they are the first of their kind.

        Raises before anything is submitted.
        """
        inputs, outputs = self._split(args, result)
        queue = self._queue_of([*inputs, *outputs], queue)
        types = _Types(self.name)
        ways: list[str] = []
        shapes: list[tuple[str, tuple[int, ...]]] = []
        for i, parameter in enumerate(self.in_params):
            if is_number(inputs[i]):
                if parameter.raw:
                    refuse(self.name, f"{parameter.name} is raw: it needs an array, not a number")
                ways.append(NUMBER)
                continue
            inputs[i] = self._read_array(parameter, inputs[i], queue)
            types.decide(parameter, inputs[i].dtype)
            ways.append(RAW if parameter.raw else FULL)
            if not parameter.raw:
                shapes.append((parameter.name, tuple(inputs[i].shape)))
        for i, parameter in enumerate(self.out_params[: len(outputs)]):
            outputs[i] = self._read_array(parameter, outputs[i], queue)
            if isinstance(outputs[i], np.ndarray) and not outputs[i].flags.writeable:
                refuse(self.name, f"{parameter.name}: this array is read-only")
            types.decide(parameter, outputs[i].dtype)
        for parameter, way, value in zip(self.in_params, ways, inputs, strict=True):
            if way == NUMBER:
                types.decide_by_number(parameter, value)
        if not outputs and any(parameter.raw for parameter in self.out_params):
            refuse(self.name, "an output that is raw must be passed: nothing else says its size")
        dtypes = tuple(types.of(parameter) for parameter in (*self.in_params, *self.out_params))
        shape = self._shape_of(shapes, outputs, size)
        for i, way in enumerate(ways):
            if way == NUMBER:
                inputs[i] = self._number(self.in_params[i], inputs[i], dtypes[i])
            elif way == FULL and tuple(inputs[i].shape) != shape:
                ways[i] = ONE
        self._check_overlaps(inputs, outputs)
        variant = self._variant(queue.device, tuple(ways), dtypes)
        # `read_again` looks only at the inputs that are Buffers, and must come to the same.
        arrays = {parameter.type_name for parameter, way in zip(self.in_params, ways, strict=True) if way != NUMBER}
        complex_numbers = any(way == NUMBER and dtype.kind == "c" for way, dtype in zip(ways, dtypes))  # noqa: B905
        simple = types.decided.keys() <= arrays and not complex_numbers
        if simple:
            self._last.note(variant)
        else:
            self._last.note(None)
        return Call(variant, queue, tuple(inputs), tuple(outputs), shape)

    def _split(self, args: tuple[Any, ...], result: Any) -> tuple[list[Any], list[Any]]:
        """Return the inputs, and the outputs that were given, behind the inputs or as `result`."""
        count = len(self.in_params)
        if len(args) not in (count, count + len(self.out_params)):
            refuse(self.name, f"{len(args)} arguments given: {self.signature}, with the outputs last or as result=")
        outputs = list(args[count:])
        if result is not None:
            if outputs:
                refuse(self.name, "the outputs are given twice, behind the inputs and as result=")
            outputs = list(result) if isinstance(result, (tuple, list)) else [result]
            if len(outputs) != len(self.out_params):
                refuse(self.name, f"{len(outputs)} outputs given as result=: {self.signature}")
        return list(args[:count]), outputs

    def _queue_of(self, arguments: list[Any], queue: Any) -> AnyQueue:
        """Return the queue that was given, or the thread's current one of the device of the first Buffer."""
        first = next((value for value in arguments if isinstance(value, (AnyBuffer, StridedView))), None)
        if queue is not None and not isinstance(queue, AnyQueue):
            refuse(self.name, f"queue is a Queue, not {type(queue).__name__}")
        if queue is None and first is None:
            refuse(self.name, "no Buffer among the arguments says on which device: give queue=")
        if queue is None:
            return first.device.current_queue  # type: ignore[union-attr]
        if first is not None and first.device._context is not queue.device._context:
            refuse(self.name, f"{queue!r}, but the arguments are on {first.device.name}", InvalidArgumentError)
        return queue

    def _read_array(self, parameter: Parameter, value: Any, queue: AnyQueue) -> Any:
        """Return what is no number as a Buffer or an array of NumPy."""
        if isinstance(value, AnyBuffer):
            if value.closed:
                refuse(self.name, f"{parameter.name}: this Buffer is closed", ClosedError)
            return value
        if isinstance(value, np.ndarray):
            return value
        if isinstance(value, StridedView):
            refuse(
                self.name,
                f"{parameter.name}: these elements do not lie one after another (shape {value.shape}, strides "
                f"{value.strides} bytes): pass view.copy(), a Buffer",
                InvalidArgumentError,
            )
        if is_foreign(value, queue.device.driver):
            array = read_only_array(value, queue.device.driver) if parameter in self.in_params else None
            return queue.device._as_buffer(value, queue) if array is None else array
        refuse(self.name, f"{parameter} is a Buffer, an array or a number, not {name_of(value)}")

    def _number(self, parameter: Parameter, value: Any, dtype: np.dtype[Any]) -> Any:
        """Return a number as a launch takes it for this type."""
        if isinstance(value, np.ndarray):
            value = value[()]
        if dtype.kind == "c":
            return dtype.type(value)
        if isinstance(value, (complex, np.complexfloating)):
            refuse(self.name, f"{parameter.name} needs a number of {dtype}, not a complex one")
        return value

    def _shape_of(self, shapes: list[tuple[str, tuple[int, ...]]], outputs: list[Any], size: Any) -> tuple[int, ...]:
        """Return the shape of the elements."""
        if not self._reduces:
            given = zip(self.out_params, outputs)  # noqa: B905 - there may be none
            own = [(parameter.name, tuple(output.shape)) for parameter, output in given if not parameter.raw]
        else:
            own = []
        if size is not None:
            if shapes or own:
                refuse(self.name, "size= is for calls in which no array is read element by element")
            return read_shape(size)
        name, shape = "", None
        for other, each in own or shapes:
            if shape is None or (math.prod(shape) == 1 and len(shape) <= len(each) and not own):
                name, shape = other, each
        if shape is None:
            refuse(self.name, "no array is read element by element: give size=, the number of elements")
        for other, each in (*own, *shapes):
            is_one = math.prod(each) == 1 and len(each) <= len(shape) and (other, each) not in own
            if each != shape and not is_one:
                refuse(
                    self.name,
                    f"{other} has the shape {each}, {name} has {shape}: arrays have one shape, or a single element",
                    InvalidArgumentError,
                )
        return shape

    def _check_overlaps(self, inputs: list[Any], outputs: list[Any]) -> None:
        for to, output in zip(self.out_params, outputs):  # noqa: B905 - there may be none
            for of, value in zip(self.in_params, inputs, strict=True):
                both = isinstance(output, AnyBuffer) and isinstance(value, AnyBuffer) and not (to.raw or of.raw)
                if both and not self._reduces and overlaps_elsewhere(value, output):
                    refuse(
                        self.name,
                        f"{to.name} overlaps {of.name} and begins elsewhere: elements would be written before they are "
                        "read",
                        InvalidArgumentError,
                    )

    def _variant(self, device: AnyDevice, ways: tuple[str, ...], dtypes: tuple[np.dtype[Any], ...]) -> Variant:
        """Return the variant for arguments of these types, which the device keeps and this object does not."""
        key = ways, dtypes
        found: Variant | None = find_built(device, self, key)
        if found is not None:
            return found
        with self._lock:
            found = find_built(device, self, key)
            if found is None:
                found = self._build(device, ways, dtypes)
                keep_built(device, self, key, found)
        return found

    def _build(self, device: AnyDevice, ways: tuple[str, ...], dtypes: tuple[np.dtype[Any], ...]) -> Variant:
        """Compile for arguments of these types. Blocks."""
        every = (*self.in_params, *self.out_params)
        given_back = [RAW if parameter.raw else FULL for parameter in self.out_params]
        decided = {each.type_name: dtype for each, dtype in zip(every, dtypes, strict=True) if each.dtype is None}
        typed = [Typed(*each) for each in zip(every, dtypes, (*ways, *given_back), strict=True)]
        count = len(self.in_params)
        inputs, outputs = tuple(typed[:count]), tuple(typed[count:])
        given = Given(self.name, self._dialect, self.preamble, decided, inputs, outputs)
        source = self._source(device, given)
        try:
            program = device.program(source, self.options)
        except BuildError as error:
            if any(dtype.char in "dD" for dtype in dtypes) and not _has_doubles(device):
                raise NotSupportedError(f"{self.name}: {device.name} has no float64") from None
            raise BuildError(f"{self.name}, {self._code()}: {error}", log=error.log) from None
        counted = [i for i, parameter in enumerate(every) if parameter.raw and self._dialect is CPP]
        return Variant(self._take(device, program), device, ways, dtypes, tuple(counted), self._reduces)

    def __repr__(self) -> str:
        return f"<forebay.{type(self).__name__} {self.signature}: {self._code()}>"


class _Types:
    """The types that arguments decide."""

    def __init__(self, what: str) -> None:
        self.decided: dict[str, np.dtype[Any]] = {}
        self._what = what
        self._by: dict[str, str] = {}

    def decide(self, parameter: Parameter, dtype: np.dtype[Any]) -> None:
        """Check the type of an array against its parameter's, or let it decide that of a placeholder."""
        letter, name = parameter.type_name, parameter.name
        if dtype.kind not in KINDS:
            refuse(self._what, f"{name} has elements of {dtype}, which are no numbers")
        if type_problem(dtype):
            refuse(self._what, f"{name}: {type_problem(dtype)}")
        if parameter.dtype is not None:
            if parameter.dtype != dtype:
                refuse(
                    self._what,
                    f"{name} needs elements of {parameter.dtype}, not {dtype}: convert them, or declare a type that "
                    f"the arguments decide ('T {name}'); if their bytes are meant, pass "
                    f".view({parameter.dtype.str[1:]!r})",
                )
            return
        if self.decided.setdefault(letter, dtype) != dtype:
            refuse(
                self._what,
                f"{name} has elements of {dtype}, {self._by[letter]} has {self.decided[letter]}, and {letter} is one "
                "type",
            )
        self._by.setdefault(letter, name)

    def decide_by_number(self, parameter: Parameter, value: Any) -> None:
        """Let a number of NumPy's decide a placeholder that no array has."""
        if parameter.dtype is None and isinstance(value, (np.generic, np.ndarray)):
            self.decided.setdefault(parameter.type_name, value.dtype.newbyteorder("="))

    def of(self, parameter: Parameter) -> np.dtype[Any]:
        """Return the type of a parameter, now that all arguments were looked at."""
        dtype = parameter.dtype or self.decided.get(parameter.type_name)
        if dtype is None:
            refuse(
                self._what,
                f"no argument decides {parameter.type_name}, the type of {parameter.name}: pass an array, or a number "
                "of NumPy's, such as numpy.float32(2)",
            )
        return dtype


def is_number(value: Any) -> bool:
    """Whether an argument is passed by value: numbers of Python and NumPy, and NumPy's arrays of no dimension."""
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in KINDS
    return isinstance(value, (bool, int, float, complex, np.number, np.bool_))


def _has_doubles(device: AnyDevice) -> bool:
    try:
        device.program(DOUBLES)
    except BuildError:
        return False
    return True
