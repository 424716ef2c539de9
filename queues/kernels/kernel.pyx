"""Kernels: their parameters, limits and scratch."""

import math
import weakref
from typing import TYPE_CHECKING

cimport cython
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free

from forebay.core.driver cimport Reshape
from forebay.core.plan cimport LOCAL, POINTER, VALUE, PackedPointer, Parameter
from forebay.core.ownership cimport Ref
from forebay.core.process cimport is_forked
from forebay.core.state cimport DeviceState
from forebay.lifetimes.deferred cimport retire_after, retire_plans

from forebay.core.driver import AnyQueue
from forebay.core.errors import ArgumentTypeError, ClosedError, InvalidArgumentError, NotSupportedError
from forebay.core.process import Numbers, finished_before_exit
from forebay.queues.kernels.parameters import Argument, read_size
from forebay.queues.memory.pool import read_bytes
from forebay.queues.memory.shapes import element_code, read_int

if TYPE_CHECKING:
    from typing import Any, SupportsIndex

    from typing_extensions import Never, Self

    from forebay.core.driver import DriverKernel, Parameter as ParameterInfo
    from forebay.queues.device import Device
    from forebay.queues.kernels.parameters import Leaf, Size
    from forebay.queues.launch.launch import BoundLaunch
    from forebay.queues.launch.results import ConfiguredLaunch
    from forebay.queues.memory.shapes import Grid
    from forebay.queues.queue import Queue

# The driver's kernels by handle, for traces. The entry of a freed kernel may be replaced, because handles are reused.
natives: weakref.WeakValueDictionary[int, DriverKernel] = weakref.WeakValueDictionary()
_ids = Numbers()  # never reused, so that a plan always belongs to its own kernel


def names() -> dict[int, str]:
    made = list(natives.data.items())  # one atomic step: other threads add to it
    return {handle: native.name for handle, reference in made if (native := reference()) is not None}


cdef object no_grid = object()


cdef class Closing:
    """A base for objects with `close`, which the end of a ``with`` block calls."""

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


cdef class LastGeometry:
    """Before the first launch it is that of no grid."""

    def __cinit__(self) -> None:
        self.grid = self.block = no_grid


cdef Kernel new_kernel(object device, DeviceState* state, object native, object identities, object accesses):
    """Make a Kernel. `native` is a `DriverKernel`; `identities` and `accesses` are those of its program."""
    cdef Kernel kernel = Kernel.__new__(Kernel)
    cdef Parameter* layout
    cdef Py_ssize_t i
    cdef int size
    cdef size_t offset = 0
    kernel.kept_state = Ref[DeviceState].share(state)
    kernel.state = state
    kernel.device = device
    kernel.native = native
    kernel.name = native.name
    kernel.parameters = tuple(native.parameters)
    kernel.identities = identities
    kernel.accesses = accesses
    kernel.content_id = identities.of(native.name)
    kernel.id = next(_ids)
    kernel.last = LastGeometry.__new__(LastGeometry)
    kernel.count = len(kernel.parameters)
    kernel.layout = <Parameter*> calloc(max(kernel.count, 1), sizeof(Parameter))
    if kernel.layout == NULL:
        raise MemoryError()
    for i in range(kernel.count):
        parameter = kernel.parameters[i]
        layout = &kernel.layout[i]
        layout.offset = <uint32_t> offset
        layout.size = parameter.nbytes
        layout.bias = <uint64_t> 1 << 62  # so that no number fits
        if parameter.kind == "pointer":
            layout.kind = POINTER
            layout.writes = not parameter.read_only
            layout.element = element_code(parameter.dtype)
            if not parameter.read_only:
                kernel.written.push_back(i)
            layout.width = sizeof(PackedPointer)
        elif parameter.kind == "local":
            layout.kind = LOCAL
            kernel.has_local = True
            layout.code = c"L"
            layout.width = 8
        else:
            layout.kind = VALUE
            layout.code = <char> ord(parameter.code)
            size = "BHIQbhiq".find(parameter.code)
            if size >= 0:
                layout.mask = ~<uint64_t> 0 >> (64 - (8 << size % 4))
                layout.bias = 0 if size < 4 else layout.mask // 2 + 1
                layout.most = layout.mask >> 1 if size == 3 else layout.mask
            layout.width = (parameter.nbytes + 7) // 8 * 8
        offset += layout.width
    kernel.packed_size = max((offset + 15) // 16 * 16, <size_t> 16)
    kernel.left_out.resize(kernel.count)
    kernel.scratch_sizes = ()
    kernel.plain = offset <= MOST_PACKED and not device.debug
    kernel.max_block = native.max_block
    kernel.local_bytes = native.local_bytes
    kernel.reshape = <Reshape> <uintptr_t> native.reshape
    for i in range(3):
        kernel.max_block_axis[i] = native.max_block_axis[i]
        kernel.required_block[i] = native.required_block[i]
    return kernel


def check_queue(queue: object) -> None:
    if not isinstance(queue, AnyQueue):
        raise ArgumentTypeError(f"a launch needs a Queue, not {type(queue).__name__}")


@cython.no_gc_clear
cdef class Kernel(Closing):
    """A kernel of a Program: ``program["name"]``. Calling the class raises.

    Any thread may launch it on any queue of its device: each (kernel, queue) pair has its own arguments.

    Attributes
    ----------
    name : str
    parameters : tuple of Parameter
        Name, kind, type and bytes of each, as the driver reports them.
    device : Device
    content_id : int
        A hash of the program's source and options and the kernel's name, the same in every process.
    """

    device: Device
    parameters: tuple[ParameterInfo, ...]

    def __init__(self, *args: Never, **kwargs: Never) -> None:
        raise ArgumentTypeError("a Kernel comes from a Program: program['name']")

    def __dealloc__(self):
        free(self.layout)
        if self.state != NULL:
            if is_forked():
                Py_INCREF(self.native)  # it is the parent's, as the state is
                return
            if not self.closed:
                retire_plans(self.state, self.id)
                retire_after(self.state, self.native, NULL, 0)

    cpdef int _check_open(self) except -1:
        if self.closed:
            raise ClosedError(f"kernel {self.name!r} is closed")
        return 0

    cdef object native_if_open(self):
        with cython.critical_section(self):
            self._check_open()
            return self.native

    @property
    def signature(self) -> str:
        """The kernel's declaration, as far as the driver knows it."""
        return f"{self.name}({', '.join(f'{p.type_name} {p.name}' for p in self.parameters)})"

    @property
    def max_block_size(self) -> int:
        """The most work-items that a group of this kernel can have."""
        return self.max_block

    @property
    def static_local_bytes(self) -> int:
        """Bytes of local memory that the kernel declares for a group; 0 if the driver does not report them."""
        return self.native_if_open().static_local_bytes

    def groups_at_once(self, block: Grid, local_bytes: SupportsIndex = 0) -> int:
        """Return how many groups of `block` work-items the device can run at once, at least.

        CUDA and Level Zero report it: 0 if a group needs more local memory than there is. Elsewhere it is one for each
        compute unit, and on CPUs one less.

        Parameters
        ----------
        block : int or tuple of 1 to 3 int
            Work-items per group.
        local_bytes : int
            Local memory in bytes that the launch gives a group, besides what the kernel declares.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError
            For a group that the kernel cannot have.
        ClosedError
        """
        native = self.native_if_open()
        extents = tuple(
            read_int(extent, f"kernel {self.name!r}: block is an int or a tuple of 1 to 3 ints")
            for extent in (block if isinstance(block, tuple) else (block,)))
        axes = tuple(native.max_block_axis)
        if not 1 <= len(extents) <= 3 or not all(1 <= n <= most for n, most in zip(extents, axes, strict=False)) or (
                math.prod(extents) > self.max_block):
            raise InvalidArgumentError(
                f"kernel {self.name!r} cannot have a block of {block}: 1 to {self.max_block} work-items, each at most "
                f"{axes}")
        nbytes = read_bytes(local_bytes, "local_bytes")
        return 0 if nbytes > self.local_bytes else native.groups_at_once((*extents, 1, 1)[:3], nbytes)

    def _create(self) -> int:
        """Return the handle of a new driver kernel, owned by the caller."""
        native = self.native_if_open()
        with finished_before_exit(f"kernel {self.name!r}"):
            handle = native.create(self.follows)
        natives[handle] = native
        return handle

    def scratch(self, name: str, size: SupportsIndex | Size) -> None:
        """Declare that a pointer parameter is scratch: launches leave it out, and it gets memory of `size` bytes.

        The memory belongs to one kernel on one queue, whose launches use it in turn. Its contents are unspecified. It
        grows when a launch needs more.

        A size that depends on data is computed again only if something may have written to the data. It measures the
        data after all known writes submitted so far, on any queue. This takes one launch for each changed buffer and
        one host synchronize, so that launch blocks. The first such declaration on a Device builds kernels for this.

        The same holds for launches of a graph. Each executable graph has its own scratch for each branch. A graph that
        writes to data from which it takes a size is refused.

        Parameters
        ----------
        name : str
            Name of a parameter that points to global memory.
        size : int or Size
            Bytes. A Size combines `MaxOver`, `MinOver` and `SumOver` of a buffer argument of integers, and `Argument`
            of an integer argument, by ``+ - * //``. Each takes the name of its parameter. 0 gets one byte.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError
            When there is no such parameter, it is not a writable pointer, or it is declared already.
        ClosedError

        Examples
        --------
        >>> kernel.scratch("stack", fb.MaxOver("row_lengths") * 8)  # doctest: +SKIP
        """
        self._check_open()
        size = read_size(size)
        cdef Py_ssize_t index = self._index_of(name)
        if self.layout[index].kind != POINTER or self.parameters[index].read_only:
            raise self._invalid(f"scratch is a pointer to global memory, not {self._declared(index)}")
        if self.left_out[index]:
            raise self._invalid(f"{name!r} is declared as scratch already")
        for leaf in size.leaves():
            self._check_leaf(name, leaf)
        for _, declared in self.scratch_sizes:
            for leaf in declared.leaves():
                if leaf.name == name:
                    raise self._invalid(f"{name!r} cannot be scratch, the size of other scratch is {declared!r}")
        if not all([isinstance(leaf, Argument) for leaf in size.leaves()]):
            _ = self.device._reductions  # built now: CUDA builds nothing while a gate is closed
        with cython.critical_section(self):
            self.left_out[index] = True
            self.plain = False
            self.earlier_sizes = self.earlier_sizes, self.scratch_sizes
            self.scratch_sizes = (*self.scratch_sizes, (index, size))

    def reads(self, name: str, part: slice | None = None) -> None:
        """Declare for `Device.races` that the kernel only reads what the pointer parameter `name` points to.

        Without this, a pointer that is not const counts as written. Nothing else changes.

        Parameters
        ----------
        name : str
            Name of a parameter that points to global memory.
        part : slice, optional
            The elements that a launch uses, by default all. Its bounds are ints, or Sizes of `Argument`:
            ``slice(Argument("first"), Argument("first") + Argument("count"))``.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError
            When the parameter or the part is not as described.
        ClosedError
        """
        self._declare(name, part, False)

    def writes(self, name: str, part: slice | None = None) -> None:
        """Declare that the kernel writes what the parameter `name` points to, or `part` of it; as in `reads`."""
        self._declare(name, part, True)

    def _declare(self, name: str, part: object, writes: bool) -> None:
        self._check_open()
        cdef Py_ssize_t index = self._index_of(name)
        if self.layout[index].kind != POINTER or (writes and self.parameters[index].read_only):
            what = "a pointer that it may write through" if writes else "a pointer to memory"
            raise self._invalid(f"{what}, not {self._declared(index)}")
        bounds = (None, None)
        if part is not None:
            if not isinstance(part, slice) or part.step not in (None, 1):
                raise ArgumentTypeError(
                    f"kernel {self.name!r}: a part is a slice of elements without a step, not {part!r}")
            bounds = tuple([None if bound is None else read_size(bound) for bound in (part.start, part.stop)])
            for bound in bounds:
                for leaf in () if bound is None else bound.leaves():
                    if not isinstance(leaf, Argument):
                        raise self._invalid(f"a part is known by arguments, not by {leaf!r}")
                    self._check_leaf(name, leaf)
        with cython.critical_section(self):
            self.parts = {**(self.parts or {}), index: (writes, *bounds)}

    def follow_pointers(self) -> None:
        """Declare that the kernel uses pointers that it finds in memory or gets as numbers (`Buffer.address`).

        The driver then makes all of the device's memory accessible to it (Level Zero, zeKernelSetIndirectAccess; OpenCL
        3.0, clSetKernelExecInfo; SYCL always does). Since it may write anywhere, scratch sized by data is measured
        again after each of its launches. Closed memory is freed once the launches submitted before are done. What
        `Device.zeros` and its like write comes before launches that get the memory as an argument; the program orders
        it before those that find it by a pointer. Earlier bound launches stay as they are. May be called twice.

        Raises
        ------
        NotSupportedError
            When the device's memory has no addresses.
        ClosedError
        """
        self._check_open()
        if not self.device.driver.has_addresses:
            raise NotSupportedError(f"memory of {self.device.name} has no addresses that a kernel could follow")
        if not self.follows:
            self.device._list_something()
            number = next(_ids)
            with cython.critical_section(self):
                self.follows = True
                self.plain = False
                number, self.id = self.id, number
            retire_plans(self.state, number)  # some drivers must know it when a kernel object is made

    @property
    def scratch_names(self) -> tuple[str, ...]:
        """The names of the scratch parameters, in order of declaration."""
        return tuple([self.parameters[index].name for index, _ in self.scratch_sizes])

    @property
    def _measured(self) -> set[str]:
        """The parameters for buffers from which scratch sizes are computed."""
        return {leaf.name for _, size in self.scratch_sizes for leaf in size.leaves() if not isinstance(leaf, Argument)}

    def scratch_id(self, name: str) -> int:
        """Return the id of the scratch parameter `name`: unique in the program, the same in every process.

        Raises InvalidArgumentError when no parameter of this name is scratch.
        """
        if name not in self.scratch_names:
            raise InvalidArgumentError(f"kernel {self.name!r} has no scratch {name!r}")
        return self.identities.of(self.name, self._index_of(name) + 1)

    def _index_of(self, name: str) -> int:
        for index, parameter in enumerate(self.parameters):
            if parameter.name == name:
                return index
        raise InvalidArgumentError(f"kernel {self.name!r} has no parameter {name!r}: {self.signature}")

    def _invalid(self, problem: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"kernel {self.name!r}: {problem}")

    def _declared(self, index: int) -> str:
        parameter = self.parameters[index]
        return f"{parameter.type_name} {parameter.name}"

    def _check_leaf(self, name: str, leaf: Leaf) -> None:
        cdef Py_ssize_t index = self._index_of(leaf.name)
        if leaf.name == name or self.left_out[index]:
            raise self._invalid(f"{leaf!r} is about scratch, which gets no argument")
        if isinstance(leaf, Argument):
            if self.layout[index].code not in b"bBhHiIqQ":
                raise self._invalid(f"{leaf!r} needs an integer, not {self._declared(index)}")
        elif self.layout[index].kind != POINTER:
            raise self._invalid(f"{leaf!r} needs a pointer to memory, not {self._declared(index)}")

    def bind(self, queue: Queue, grid: Grid, block: Grid, *args: Any) -> BoundLaunch:
        """Check and pack everything once: ``kernel.bind(queue, grid, block, *args)()`` only makes the driver call.

        The result keeps the queue and the buffers alive. Raises Error, the same errors as `Queue.launch`.
        """
        check_queue(queue)
        return queue._bind(self, grid, block, args)

    def __getitem__(self, configuration: tuple[Grid, Grid] | tuple[Grid, Grid, Queue]) -> ConfiguredLaunch:
        """Launch in subscript form: ``kernel[grid, block](*args)`` or ``kernel[grid, block, queue](*args)``.

        Without a queue, the launch goes to the thread's current queue (``with queue:``), else to the null queue.
        """
        if not isinstance(configuration, tuple) or len(configuration) not in (2, 3):
            raise ArgumentTypeError("a launch is kernel[grid, block](...) or kernel[grid, block, queue](...)")
        cdef tuple given = configuration
        return configure(self, given)

    def __call__(self, *args: Never) -> Never:
        raise ArgumentTypeError(f"a launch needs grid and block: {self.name}[grid, block](...)")

    def close(self) -> None:
        """Free the kernel once its launches are done. Bound launches live on. Does not block; may be called twice."""
        with cython.critical_section(self):
            closed, self.closed, self.plain = self.closed, True, False
            native, self.native = self.native, None
        if not closed:
            retire_plans(self.state, self.id)
            retire_after(self.state, native, NULL, 0)

    def __repr__(self) -> str:
        return f"<forebay.Kernel {self.signature} on {self.device.name}{' closed' if self.closed else ''}>"
