"""Kernels: their parameters, limits and scratch."""

import itertools
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
from forebay.core.process import finished_before_exit
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

# The driver's kernels, for traces, by the handles of what was made of them: that of one that is gone may be another's
natives: weakref.WeakValueDictionary[int, DriverKernel] = weakref.WeakValueDictionary()
_ids = itertools.count(1)  # never used again, so a plan can never be taken for another kernel's


def names() -> dict[int, str]:
    """Return the names of the driver's kernels, for traces, by handle."""
    made = list(natives.data.items())  # at once: other threads make some
    return {handle: native.name for handle, reference in made if (native := reference()) is not None}


cdef Kernel new_kernel(object device, DeviceState* state, object native, object identities, object accesses):
    """Make a Kernel. ``native`` is a `DriverKernel`; ``identities`` and ``accesses`` are those of its program."""
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
    """Raise for what is no Queue."""
    if not isinstance(queue, AnyQueue):
        raise ArgumentTypeError(f"a launch needs a Queue, not {type(queue).__name__}")


@cython.no_gc_clear
cdef class Kernel:
    """A kernel of a Program: ``program["name"]``. Calling the class raises.

    It may be launched from any thread and on any queue of its device: each (kernel, queue) pair has its own arguments.

    Attributes
    ----------
    name : str
    parameters : tuple of Parameter
        Name, kind, type and bytes of each, as the driver reports them.
    device : Device
    content_id : int
        Computed from the program's source and options and the kernel's name. It is the same in every process.
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

    cdef int _check_open(self) except -1:
        if self.closed:
            raise ClosedError(f"kernel {self.name!r} is closed")
        return 0

    @property
    def signature(self) -> str:
        """The kernel's declaration, as far as the driver knows it."""
        return f"{self.name}({', '.join(f'{p.type_name} {p.name}' for p in self.parameters)})"

    @property
    def max_block_size(self) -> int:
        """Work-items that a group of this kernel can have on its device."""
        return self.max_block

    @property
    def static_local_bytes(self) -> int:
        """Local memory of a group by the kernel's own declarations, in bytes; 0 where the driver does not tell."""
        self._check_open()
        return self.native.static_local_bytes

    def groups_at_once(self, block: Grid, local_bytes: SupportsIndex = 0) -> int:
        """Return how many groups of so many work-items the device runs at the same time, at least.

        That is 0 where a group has less local memory than is asked for. The drivers of CUDA and Level Zero tell.
        Elsewhere it is one for each compute unit, and on CPUs one less.

        Parameters
        ----------
        block : int or tuple of 1 to 3 int
            Work-items per group.
        local_bytes : int
            Local memory of a group that the launch gives, in bytes, beside that of the kernel's own declarations.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError
            For a group that the kernel cannot have.
        ClosedError
        """
        self._check_open()
        extents = tuple(
            read_int(extent, f"kernel {self.name!r}: block is an int or a tuple of 1 to 3 ints")
            for extent in (block if isinstance(block, tuple) else (block,)))
        axes = tuple(self.native.max_block_axis)
        if not 1 <= len(extents) <= 3 or not all(1 <= n <= most for n, most in zip(extents, axes, strict=False)) or (
                math.prod(extents) > self.max_block):
            raise InvalidArgumentError(
                f"kernel {self.name!r} cannot have a block of {block}: 1 to {self.max_block} work-items, each at most "
                f"{axes}")
        nbytes = read_bytes(local_bytes, "local_bytes")
        return 0 if nbytes > self.local_bytes else self.native.groups_at_once((*extents, 1, 1)[:3], nbytes)

    def _create(self) -> int:
        """Return the handle of a new driver kernel, which the caller owns."""
        self._check_open()
        native = self.native  # another thread may close the kernel
        with finished_before_exit(f"kernel {self.name!r}"):
            handle = native.create(self.follows)
        natives[handle] = native
        return handle

    def scratch(self, name: str, size: SupportsIndex | Size) -> None:
        """Declare that a pointer parameter is scratch: launches leave it out, and it gets memory of `size` bytes.

        The memory belongs to one kernel on one queue, where launches use it one after the other. Its contents are
        unspecified. It grows when a launch needs more. A size that depends on data is computed again only after
        something may have written to the data. That takes one launch for each changed buffer and one host synchronize,
        so such a launch blocks. It measures the data after all writes submitted so far, on any queue, that forebay
        knows. Declaring the first such size on a Device builds what measures.

        In a graph the same holds for launches of the graph. Each executable graph has its own scratch for each branch,
        and grows it when a launch needs more. A graph that writes to data from which it takes a size is refused.

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
            When there is no such parameter, when it is not a writable pointer, or when it is declared already.
        ClosedError

        Examples
        --------
        >>> kernel.scratch("stack", fb.MaxOver("row_lengths") * 8)  # doctest: +SKIP
        """
        self._check_open()
        size = read_size(size)
        cdef Py_ssize_t index = self._index_of(name)
        if self.layout[index].kind != POINTER or self.parameters[index].read_only:
            raise InvalidArgumentError(
                f"kernel {self.name!r}: scratch is a pointer to global memory, not {self._declared(index)}")
        if self.left_out[index]:
            raise InvalidArgumentError(f"kernel {self.name!r}: {name!r} is declared as scratch already")
        for leaf in size.leaves():
            self._check_leaf(name, leaf)
        for _, declared in self.scratch_sizes:
            for leaf in declared.leaves():
                if leaf.name == name:
                    raise InvalidArgumentError(
                        f"kernel {self.name!r}: {name!r} cannot be scratch, the size of other scratch is {declared!r}")
        if not all([isinstance(leaf, Argument) for leaf in size.leaves()]):
            _ = self.device._reductions  # built now: CUDA builds nothing while a gate is closed
        self.left_out[index] = True
        self.plain = False
        self.scratch_sizes = (*self.scratch_sizes, (index, size))

    def reads(self, name: str, part: slice | None = None) -> None:
        """Declare that the kernel only reads what the parameter `name` points to: for `Device.races`.

        A pointer that is not const counts as written there otherwise. Nothing else changes.

        Parameters
        ----------
        name : str
            Name of a parameter that points to global memory.
        part : slice, optional
            The elements that a launch uses, by default all. Its bounds are ints, or Sizes of `Argument`: slice
            ``slice(Argument("first"), Argument("first") + Argument("count"))``.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError
            When there is no such parameter, it is no such pointer, or the part is no such slice.
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
            raise InvalidArgumentError(f"kernel {self.name!r}: {what}, not {self._declared(index)}")
        bounds = (None, None)
        if part is not None:
            if not isinstance(part, slice) or part.step not in (None, 1):
                raise ArgumentTypeError(
                    f"kernel {self.name!r}: a part is a slice of elements without a step, not {part!r}")
            bounds = tuple([None if bound is None else read_size(bound) for bound in (part.start, part.stop)])
            for bound in bounds:
                for leaf in () if bound is None else bound.leaves():
                    if not isinstance(leaf, Argument):
                        raise InvalidArgumentError(
                            f"kernel {self.name!r}: a part is known by arguments, not by {leaf!r}")
                    self._check_leaf(name, leaf)
        self.parts = {**(self.parts or {}), index: (writes, *bounds)}

    def follow_pointers(self) -> None:
        """Declare that the kernel follows pointers that it finds in memory or gets as numbers (`Buffer.address`).

        The driver then makes all of the device's memory ready for the kernel (Level Zero, zeKernelSetIndirectAccess;
        OpenCL 3.0, clSetKernelExecInfo; SYCL always does). Since the kernel may write anywhere, scratch that is sized
        by data is measured again after each of its launches. Memory that is closed meanwhile is given back once the
        launches that were submitted before are done. Bound launches made before stay as they are. Calling this twice is
        fine.

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
            self.follows = True
            self.plain = False
            retire_plans(self.state, self.id)  # some drivers have to know when a kernel object is made
            self.id = next(_ids)

    @property
    def scratch_names(self) -> tuple[str, ...]:
        """The parameters that are scratch, in the order of their declarations."""
        return tuple([self.parameters[index].name for index, _ in self.scratch_sizes])

    @property
    def _measured(self) -> set[str]:
        """The parameters for buffers from which sizes of scratch are read."""
        return {
            leaf.name for _, size in self.scratch_sizes for leaf in size.leaves() if not isinstance(leaf, Argument)}

    def scratch_id(self, name: str) -> int:
        """Return the id of the scratch parameter `name`. Like `content_id` it is the same in every process, and it is
        unique in the program.

        Raises
        ------
        InvalidArgumentError
            When no parameter of this name is scratch.
        """
        if name not in self.scratch_names:
            raise InvalidArgumentError(f"kernel {self.name!r} has no scratch {name!r}")
        return self.identities.of(self.name, self._index_of(name) + 1)

    def _index_of(self, name: str) -> int:
        for index, parameter in enumerate(self.parameters):
            if parameter.name == name:
                return index
        raise InvalidArgumentError(f"kernel {self.name!r} has no parameter {name!r}: {self.signature}")

    def _declared(self, index: int) -> str:
        parameter = self.parameters[index]
        return f"{parameter.type_name} {parameter.name}"

    def _check_leaf(self, name: str, leaf: Leaf) -> None:
        cdef Py_ssize_t index = self._index_of(leaf.name)
        if leaf.name == name or self.left_out[index]:
            raise InvalidArgumentError(f"kernel {self.name!r}: {leaf!r} is about scratch, which gets no argument")
        if isinstance(leaf, Argument):
            if self.layout[index].code not in b"bBhHiIqQ":
                raise InvalidArgumentError(
                    f"kernel {self.name!r}: {leaf!r} needs an integer, not {self._declared(index)}")
        elif self.layout[index].kind != POINTER:
            raise InvalidArgumentError(
                f"kernel {self.name!r}: {leaf!r} needs a pointer to memory, not {self._declared(index)}")

    def bind(self, queue: Queue, grid: Grid, block: Grid, *args: Any) -> BoundLaunch:
        """Check and pack everything once: ``kernel.bind(queue, grid, block, *args)()`` only makes the driver call.

        Returns
        -------
        BoundLaunch
            Keeps the queue and the buffers alive.

        Raises
        ------
        Error
            The same errors as `Queue.launch`.
        """
        check_queue(queue)
        return queue._bind(self, grid, block, args)

    def __getitem__(self, configuration: tuple[Grid, Grid] | tuple[Grid, Grid, Queue]) -> ConfiguredLaunch:
        """``kernel[grid, block](*args)`` or ``kernel[grid, block, queue](*args)``: a launch in subscript form.

        Without a queue, the launch goes to the thread's current queue (``with queue:``), else to the null queue.
        """
        if not isinstance(configuration, tuple) or len(configuration) not in (2, 3):
            raise ArgumentTypeError("a launch is kernel[grid, block](...) or kernel[grid, block, queue](...)")
        cdef tuple given = configuration
        return configure(self, given)

    def __call__(self, *args: Never) -> Never:
        raise ArgumentTypeError(f"a launch needs grid and block: {self.name}[grid, block](...)")

    def close(self) -> None:
        """Give the kernel back once its launches are done. Bound launches live on. Does not block; twice is fine."""
        if not self.closed:
            self.closed = True
            self.plain = False
            retire_plans(self.state, self.id)
            retire_after(self.state, self.native, NULL, 0)
            self.native = None

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<forebay.Kernel {self.signature} on {self.device.name}{' closed' if self.closed else ''}>"
