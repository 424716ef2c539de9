"""The contract of a driver, its Python half; driver.hpp is the half that runs without the GIL.

A driver is one folder in ``queues``, with a `DriverFolder`, and two lines in ``queues/selection.py``. It opens a
`DriverDevice` for each `forebay.Device`. Nothing outside the folder knows which driver is in use. mypy checks the
folders against these classes; what a device need not have has a default. docs/driver.md says more of each entry, and
which may block.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from forebay.core.errors import DriverError, Error, NotSupportedError, OutOfMemoryError

__all__ = [
    "KINDS", "MOST_GROUPS", "PROBE", "Adopted", "AdoptedQueue", "AnyBuffer", "AnyDevice", "AnyGraph", "AnyQueue",
    "BuiltProgram", "DeviceInfo", "DriverDevice", "DriverFolder", "DriverKernel", "DriverMemory", "Found",
    "FunctionTable", "Language", "Limits", "Parameter", "be", "first_line", "numbered",
]  # fmt: skip

if TYPE_CHECKING:  # for a type checker each kind is the class itself
    from ctypes import CDLL

    from forebay.queues.device import Device as AnyDevice
    from forebay.queues.graphs.graph import Graph as AnyGraph
    from forebay.queues.kernels.parameters import CppCompiler
    from forebay.queues.memory.buffer import Buffer as AnyBuffer
    from forebay.queues.queue import Queue as AnyQueue
else:
    from forebay.core.state import AnyQueue

    AnyDevice, AnyBuffer, AnyGraph = (ABCMeta(name, (), {}) for name in ("Device", "Buffer", "Graph"))


KINDS = ("cpu", "gpu", "accelerator", "custom")  # of devices
MOST_GROUPS = 0x7FFFFFFF  # of a launch in each dimension, where the driver sets no limit


def be(kind: Any, made: type) -> None:
    """Register the class that an `Any…` kind stands for, for modules below it, which cannot import it."""
    kind.register(made)


# -- descriptions that a driver gives in forebay's words


class Language(str, Enum):
    """What a program is in. Each is its name, too: ``Language.PTX == "PTX"``."""

    OPENCL_C = "OpenCL C"
    HIP_CPP = "HIP C++"
    CUDA_CPP = "CUDA C++"
    PTX = "PTX"
    SPIRV = "SPIR-V"
    CUBIN = "cubin"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class DeviceInfo:
    """A device that was found, whether or not it can be used.

    Attributes
    ----------
    name
        ``backend:kind:index``, for example ``"opencl:cpu:0"``: dpctl's filter words, and what `select` takes.
    backend
        The driver, by the word of DRIVERS in ``queues/selection.py``, for example ``"opencl"``.
    kind
        One of KINDS.
    index
        Position among the devices of this backend and kind, unusable ones included, so that names do not move when a
        driver is repaired.
    description
        The device's own name.
    platform
        The name of the driver that has it.
    version
        What the device implements, for example ``"OpenCL 3.0"`` or ``"Level Zero 1.15"``.
    driver_version
        The driver's own version.
    compute_units
        Number of compute units; 0 if not known.
    memory
        Size of its memory in bytes; 0 if not known.
    usable
        True once a kernel has been built on it.
    reason
        Why it cannot be used; empty if it can.
    advice
        How to make it usable; empty if it can be used.
    native
        The driver's object, which only the driver's folder looks into; None if there is none for a device that cannot
        be used.
    """

    name: str = ""  # until `numbered` gives it, and the index
    backend: str = ""
    kind: str = "gpu"
    index: int = 0
    description: str = ""
    platform: str = ""
    version: str = ""
    driver_version: str = ""
    compute_units: int = 0
    memory: int = 0
    usable: bool = True
    reason: str = ""
    advice: str = ""
    native: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Limits:
    """The limits of a device and of launches on it. A limit that its driver does not report is 0."""

    group_items: int  # work-items of a group
    group_size: tuple[int, int, int]  # the same in each dimension
    group_count: tuple[int, int, int]  # groups of a launch in each dimension
    local_bytes: int  # local memory of a group
    constant_bytes: int  # a buffer in constant memory
    allocation: int  # bytes of one allocation
    unit_items: int = 0  # work-items that a compute unit runs at once; 0 where it runs one group, or if unknown
    unit_groups: int = 0  # groups, likewise
    clock_khz: int = 0  # highest clock rate
    cache_bytes: int = 0  # cache of its global memory
    shares_memory: bool = False  # whether its memory is the host's
    has_shared: bool = False  # whether it has memory that moves between the two


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel."""

    name: str  # as in the source, as far as the driver knows it
    type_name: str  # likewise
    kind: str  # "pointer", "value" or "local"
    code: str  # the struct module's code of a scalar; "V" for other values; "L" for local memory; "" for pointers
    nbytes: int  # of the argument
    # Of vectors and halves. For a pointer, that of the numbers it points to, which for a vector are its elements; None
    # when the type has no known name: a structure, a typedef, void.
    dtype: np.dtype[Any] | None = None
    read_only: bool = False  # whether it is a pointer to constant memory or to const: a launch writes nothing by it
    alignment: int = 8  # in bytes, where arguments lie one after the other; 0 for a structure of which it is not known


# -- what a driver calls


class FunctionTable:
    """The functions of a driver's library: the address of the table of `driver.hpp`, and their names by number.

    ``name_of(code)`` is the name of an error code, also of one that an event's status gave. The codes in
    `out_of_memory` say that memory ran out, and those in `lost` that the device is lost.
    """

    def __init__(
        self,
        address: int,
        names: Sequence[str],
        name_of: Callable[[int], str],
        out_of_memory: Collection[int] = (),
        lost: Collection[int] = (),
    ) -> None:
        self.address = address
        self.names = names
        self.name_of = name_of
        self.out_of_memory = out_of_memory
        self.lost = lost

    def load(self, library: CDLL, where: str, advice: str, optional: Collection[str] = ()) -> None:
        """Look the functions up in a library. A filled table is not filled again.

        Functions in `optional` may be missing; they are NULL then. Raises `ImportError` when another one is missing,
        with `where` and `advice` in the message. The table stays empty then.
        """
        import ctypes

        entries = (ctypes.c_void_p * len(self.names)).from_address(self.address)
        if entries[0] is not None:
            return
        found = {name: getattr(library, name, None) for name in self.names}
        for name, function in found.items():
            if function is None and name not in optional:
                raise ImportError(f"{where} has no {name}: {advice}")
        entries[:] = [each and ctypes.cast(each, ctypes.c_void_p).value for each in found.values()]

    def explain(self, status: int) -> tuple[str, int, str]:
        """Explain a `Status`: the function, its error code, and the name of that."""
        code = (status & 0xFFFFFFFF ^ 1 << 31) - (1 << 31)  # 32 bits with a sign
        return self.names[status >> 32], code, self.name_of(code)

    def failed(self, status: int, what: str = "") -> Error:
        """Return the error for a `Status`. The message ends with `what`."""
        call, code, name = self.explain(status)
        message = f"{call} failed: {name}" + (f" ({what})" if what else "")
        if code in self.out_of_memory:
            return OutOfMemoryError(message)
        return DriverError(message, call=call, code=code, name=name)


# -- what a driver makes


class DriverMemory(Protocol):
    """One allocation. Dropping the last reference frees it, so the device must be done with it by then.

    Memory that the host can read in place has the buffer protocol: "shared" and "host", and all of a CPU.
    """

    @property
    def handle(self) -> int:
        """The driver's memory object, for `Memory.handle` of driver.hpp; 0 where memory is its address alone."""

    @property
    def address(self) -> int:
        """Where it begins in the device's address space; 0 on devices whose memory has no addresses."""

    @property
    def nbytes(self) -> int:
        """Bytes that can be used."""

    @property
    def usm_type(self) -> str:
        """Where it is: "device", "shared" or "host", as in `forebay.Device.empty`."""


@dataclass(eq=False)
class DriverKernel(ABC):
    """A kernel of a program as the driver knows it. Each plan and each bound launch gets a kernel object of its own."""

    name: str  # as in the source
    parameters: Sequence[Parameter]  # in the order of the source
    max_block: int  # work-items that a group can have
    max_block_axis: Sequence[int]  # in each of the three dimensions; the first is the one that varies fastest
    local_bytes: int  # local memory that a group can have
    required_block: Sequence[int] = (0, 0, 0)  # the group size that it was compiled for; three zeros when any will do
    reshape: int = 0  # address of the `Reshape` of driver.hpp that each new shape of its launches passes; 0 for none
    static_local_bytes: int = 0  # local memory of a group by its own declarations; 0 where the driver does not tell
    units: int = 1  # compute units, each of which runs a group, where the driver tells no more about that

    def groups_at_once(self, block: tuple[int, int, int], local_bytes: int) -> int:
        """Return how many groups of this size the device runs at the same time, at least, with so much local memory
        for each that the launch gives, beside that of the kernel's own declarations.
        """
        return self.units

    @abstractmethod
    def create(self, follows: bool) -> int:
        """Make a kernel object and return its handle, which the caller gives to `destroy_kernel` of driver.hpp.

        `follows` says whether it follows pointers that it finds in memory; `follow` of driver.hpp then tells it the
        memory, where the driver has that. Raises `DriverError` when the driver refuses. Does not block.
        """


class BuiltProgram(dict[str, DriverKernel]):
    """A program as its driver built it: the kernels by name, and the variables.

    ``variable(name)`` returns the memory of a variable, which keeps the program; None when no variable has this name.
    It raises `NotSupportedError` where the driver does not report the addresses of variables. `log` is what the
    compiler said about the program, as users read it; empty for nothing. ``accesses(name)`` returns for each parameter
    of a kernel what its compiled code shows to be done with the memory that it points to: "reads", "atomics" for what
    only atomic operations change, "writes", or "" for what cannot be followed; nothing where there is no code to look
    into. It takes milliseconds; the checker of races asks.
    """

    def __init__(
        self,
        kernels: Mapping[str, DriverKernel],
        variable: Callable[[str], DriverMemory | None] = lambda name: None,
        log: str = "",
        accesses: Callable[[str], Sequence[str]] = lambda name: (),
    ) -> None:
        super().__init__(kernels)
        self.variable = variable
        self.log = log
        self.accesses = accesses


class Adopted(NamedTuple):
    """Memory that an object of another package owns, and what that object says is there."""

    memory: DriverMemory  # it keeps its owner
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int = 0  # the byte at which the elements begin
    listed: bool = False  # its address belongs in the list that `follow` of driver.hpp takes, like the driver's own


class AdoptedQueue(NamedTuple):
    """A queue that an object of another package owns."""

    device: DriverDevice  # that of its context
    handle: int  # for the table; the caller gives it to `destroy_queue`. The object's own queue is retained
    timed: bool  # it times events


class DriverDevice(ABC):
    """One device, opened for a `forebay.Device` that keeps it for as long as there is work. Any thread may call it."""

    info: DeviceInfo  # the device that was opened
    limits: Limits  # of the device and of launches on it
    table: int  # address of the `Driver` of driver.hpp; valid as long as the process lives
    context_handle: int  # what the table's functions take for `context`; valid as long as this object lives
    # While fewer commands than this are in flight on a queue, submitting one more surely does not block. While a host
    # function is outstanding, forebay submits no more than these: see docs/architecture.md, "Locks". A driver whose
    # queues share their room says less with each that it makes: forebay asks again then.
    keeps_gil_below: int
    shared_room: int = 0  # where queues share a limit: how many more commands can be in flight, on all of them
    most_held: int | None = None  # queues that gates and host functions hold up while others get on; None: any number
    functions: FunctionTable  # of the driver's library
    # What `build` takes. A program in another language is compiled for the first of these that its compiler makes.
    languages: tuple[Language, ...]
    priorities: tuple[int, ...] = (0,)  # that a queue can have, lower is more urgent; always with 0 among them
    timing_is_free: bool = False  # whether a queue with timed events costs nothing measurable more
    has_addresses: bool  # whether memory has addresses that a kernel could follow
    takes_pageable: bool  # whether a copy into pageable memory is asynchronous; else it goes through what `stage` gives
    reads_pageable_late: bool  # whether a copy from pageable memory reads it when it runs; else when it is submitted
    # Whether a wait of the host may return late, or never, while other threads go on submitting: then back-pressure
    # holds these up (sync/ordering.pyx). Only where `event_status` may be asked during such a wait.
    waits_starve: bool = False
    unrolls_recursion: bool = False  # functions that call themselves become copies: a circle of calls costs too much
    # Whether commands really run. They do not under Intel's Level Zero driver with null hardware: memory keeps what it
    # had, and a query of when an event was signalled never returns.
    executes: bool = True
    takes_host: bool = False  # whether the device reaches ordinary memory of the host by its address
    has_ipc: bool = False  # whether it has memory and events that processes share

    # -- queues and memory

    @abstractmethod
    def create_queue(self, priority: int, timing: bool) -> tuple[object, int]:
        """Make an in-order queue: the driver's own object or handle, for the user, and the handle for the table.
        `timing` asks for timed events. Raises `DriverError`.
        """

    @abstractmethod
    def allocate(self, nbytes: int, usm_type: str) -> DriverMemory:
        """Make memory. Raises `NotSupportedError` where there is none of this kind, and `OutOfMemoryError`."""

    def check_size(self, nbytes: int, of: str = "") -> None:
        """Raise OutOfMemoryError for more than one allocation can have."""
        most = self.limits.allocation
        if nbytes > most:
            raise OutOfMemoryError(f"{nbytes} bytes{of}: {self.info.name} allocates at most {most} at once")

    def part(self, memory: Any, offset: int, nbytes: int) -> tuple[object, int] | None:
        """Make a memory object for a part of what `allocate` returned: its owner and its handle; None where a part
        has an address. Raises `NotSupportedError` for an offset that the driver cannot have.
        """
        return None

    @property
    def part_of(self) -> Callable[[Any, int, int], tuple[object, int]] | None:
        """The same for memory that has an address, too, where an argument is set faster by an object; else None. The
        offset is a multiple of 512.
        """
        return None

    def pinned(self, nbytes: int) -> tuple[int, object]:
        """Make host memory that the device reads and writes without staging: its address and its owner. Raises
        `OutOfMemoryError`.
        """
        try:
            memory = self.allocate(nbytes, "host")
        except OutOfMemoryError as error:
            raise OutOfMemoryError(f"pinned host memory: {error}") from None
        return memory.address, memory

    def stage(self, nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Make host memory for the bytes of one copy; by default pageable memory. Raises `OutOfMemoryError`."""
        return np.empty(nbytes, np.uint8)

    # -- what belongs to other packages

    @property
    def takes_over(self) -> str:
        """What `adopt_memory` and `adopt_host` take, in words; empty for nothing."""
        return ""

    def can_adopt(self, thing: object) -> bool:
        """Whether `thing` looks like an object that `adopt_memory` takes, or refuses with a reason. Raises nothing."""
        return False

    def adopt_memory(self, thing: object) -> Adopted | None:
        """Take over memory of this driver that an object of another package owns. None when it is no such object.
        Raises `InvalidArgumentError` when it is read-only, not C-contiguous, or of another context.
        """
        return None

    def adopt_host(self, owner: object, address: int, nbytes: int) -> DriverMemory:
        """Take over ordinary memory of the host, which `owner` keeps. Only with `takes_host`."""
        raise NotSupportedError(f"{self.info.name} does not reach memory of the host by its address")

    def register_host(self, address: int, nbytes: int) -> DriverMemory | None:
        """Let the device reach memory of the program as long as there is what is returned; None where it cannot."""
        return self.adopt_host(None, address, nbytes) if self.takes_host else None

    def unregister_host(self, memory: DriverMemory) -> None:
        """End what `register_host` began. Nothing that is submitted uses the memory any more."""
        return

    def can_reach(self, peer: DriverDevice) -> bool:
        """Whether this device can be made to reach the memory of another one."""
        return False

    def reach(self, peer: DriverDevice) -> bool:
        """Let this device use the memory of another one. False where the driver would wait for a gate."""
        raise NotSupportedError(f"{self.info.name} does not reach memory of {peer.info.name}")

    def adopt_peer(self, owner: object, address: int, nbytes: int) -> DriverMemory:
        """Take over memory of another device that this one reaches, which `owner` keeps."""
        raise NotSupportedError(f"{self.info.name} does not reach memory of other devices")

    # -- what several processes share. Nobody but these processes knows when the others are done with it.

    def allocate_shared(self, nbytes: int) -> DriverMemory:
        """Make memory of the device that other processes can open. Raises `OutOfMemoryError`."""
        raise self._no_ipc()

    def memory_handle(self, memory: DriverMemory) -> bytes:
        """What opens this memory in another process. Raises `InvalidArgumentError` if it is of `allocate`."""
        raise self._no_ipc()

    def open_memory(self, handle: bytes) -> DriverMemory:
        """Open memory of another process. Raises `InvalidArgumentError` for a handle that opens nothing here."""
        raise self._no_ipc()

    def give_back_shared(self) -> bool:
        """Give back memory of these kinds that has no reference left; waits for what runs on the device. False, with
        nothing done, where the driver would wait for a gate.
        """
        return True

    def create_shared_event(self) -> tuple[int, bytes]:
        """Make an event that other processes can open: its handle, which the caller owns, and what opens it there."""
        raise self._no_ipc()

    def open_event(self, handle: bytes) -> int:
        """Open an event of another process; else as `create_shared_event`. Raises `InvalidArgumentError`."""
        raise self._no_ipc()

    def _no_ipc(self) -> NotSupportedError:
        return NotSupportedError(f"{self.info.name} shares no memory and events between processes: CUDA does")

    def adopt_event(self, thing: object) -> int | None:
        """Handle, which the caller owns, of an event that is done when this event of another package is. None when it
        is no such event. Raises `ArgumentTypeError` for one that cannot be waited for, saying what to do instead.
        """
        return None

    def hand_over(self, thing: object, native: Any) -> None:
        """Let what a queue, given as `create_queue` returned it, gets from now on come after what the package that owns
        `thing` has submitted for it. Raises `InvalidArgumentError` when that package refuses.
        """
        return

    def dlpack_device(self, usm_type: str) -> tuple[int, int] | None:
        """DLPack's device of memory of this kind; None where other packages have no such memory."""
        return None

    def order_stream(self, stream: int, native: Any) -> None:
        """Let what a stream of another package, in DLPack's numbering, gets from now on come after what a queue of this
        device has got. Raises `InvalidArgumentError`.
        """
        raise NotSupportedError(f"no other package has streams of {self.info.name}")

    def array_interface(self, name: str, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> object | None:
        """The attribute of this name by which other packages reach memory of this device; None where it has none."""
        return None

    def queue_interface(self, name: str, native: Any) -> object | None:
        """The attribute of this name by which other packages use a queue; None where it has none."""
        return None

    def array_over(
        self, lend: Callable[[], tuple[Any, int]], shape: tuple[int, ...], dtype: np.dtype[Any], queue: object
    ) -> object:
        """Make an array of another package over memory of this device, for that package's `queue`. `lend` gives the
        memory that `allocate` returned, which lives as long as the array, and the byte at which the array begins.
        """
        raise NotSupportedError(f"no other package has arrays over memory of {self.info.name}")

    # -- programs

    def expect_spirv(self) -> None:
        """Get ready to build SPIR-V, which is being made."""
        return

    def cpp_compiler(self) -> CppCompiler | None:
        """The driver's own compiler of C++ for this device; None where it has none. Raises `NotInstalledError`."""
        return None

    @abstractmethod
    def build(self, language: Language, source: str | bytes, options: tuple[str, ...]) -> BuiltProgram:
        """Build a program in one of `languages`; text is str, the others are bytes. Raises `BuildError` with the
        compiler's log, `InvalidArgumentError` for what is cut short, and `NotSupportedError` for a parameter that the
        driver does not take, or where a compiler is not installed.
        """

    def moves(self) -> BuiltProgram | None:
        """The kernels of `forebay.queues.memory.shapes`, by their names there, where to build them at the first use
        would wait for what is outstanding.
        """
        return None

    # -- errors

    def explain(self, status: int) -> tuple[str, int, str]:
        """Explain a `Status`: the driver's call, its error code, and the name of that. Raises `NotSupportedError` or
        `OutOfMemoryError` itself where that says more.
        """
        return self.functions.explain(status)


# -- what the folder of each driver offers, and what the search for devices is in all of them


PROBE = "kernel void probe(global int *a) { a[0] = 1; }"
"""OpenCL C that every compiler takes which works at all."""
log: logging.Logger = logging.getLogger(__name__)


class Found(NamedTuple):
    """The result of looking for devices: the devices, and if there are none, the reason and advice in one line."""

    devices: list[DeviceInfo]
    absence: str


class DriverFolder(ABC):
    """What a driver's folder offers: its ``driver.py`` has a subclass, and ``selection.py`` the one object of it.

    It looks for devices when any thread first asks. Drivers that are installed later are not found.
    """

    adopts_queues = ""  # what `adopt_queue` takes, in words; empty for nothing
    adopts_devices = ""  # likewise `adopt_device`
    runs_anywhere = False  # pip has a driver for any processor: this advice comes first where there is no device

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: Found | None = None

    @abstractmethod
    def look(self) -> Found:
        """Start the driver and return the devices, unusable ones too, in order of preference. It is called once, may
        block, and raises nothing.
        """

    @abstractmethod
    def open_device(self, info: DeviceInfo) -> DriverDevice:
        """Open a usable device that `discover` listed. Raises `DriverError`."""

    def adopt_queue(self, thing: Any, opened: Iterable[DriverDevice]) -> AdoptedQueue | None:
        """Take over an in-order queue of another package. None when it is no such queue.

        Its device is one of `opened` if there is one of its context, otherwise a new one. Raises
        `InvalidArgumentError` when it runs out of order, and `NotSupportedError` when its device cannot be used.
        """
        return None

    def adopt_device(self, thing: Any, opened: Iterable[DriverDevice]) -> DriverDevice | DeviceInfo | None:
        """Take over a context or device of another package. None when it is no such object.

        A context becomes the device of `opened` that is in it, otherwise a new one. A device without a context is what
        `discover` listed, if it is in that list. Raises as `adopt_queue`.
        """
        return None

    def found(self) -> Found:
        """Return the result of the search. The first call blocks until the driver has started."""
        with self._lock:
            if self._found is not None:
                return self._found
            found = self._found = self.look()
        for device in found.devices:
            log.info("found %s: %s", device.name, device.description if device.usable else device.reason)
        if found.absence:
            log.info("%s", found.absence)
        return found

    def discover(self) -> list[DeviceInfo]:
        """Every device, the unusable ones too; a new list of the same objects each time. Blocks as `found`."""
        return list(self.found().devices)

    def absence(self) -> str:
        """Why there is no device and what to do, in one line; empty if there is one."""
        return self.found().absence


def numbered(devices: Iterable[DeviceInfo]) -> list[DeviceInfo]:
    """Number devices of one backend within their kind, in this order, and name them ``backend:kind:index``."""
    counted: dict[str, int] = {}
    named: list[DeviceInfo] = []
    for device in devices:
        index = counted.setdefault(device.kind, 0)
        counted[device.kind] += 1
        named.append(replace(device, name=f"{device.backend}:{device.kind}:{index}", index=index))
    return named


def first_line(text: str) -> str:
    """Return the first line that is not blank: drivers begin their logs with blank lines."""
    return next((line.strip() for line in text.splitlines() if line.strip(" \t\0")), "")
