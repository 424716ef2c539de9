"""The Python half of the contract with a driver; driver.hpp has the half that runs without the GIL.

A driver is one folder in ``queues`` with a `DriverFolder`, which opens a `DriverDevice` for each `forebay.Device`. No
code outside the folder knows which driver is in use. docs/driver.md says where a new driver is listed, describes each
entry, and says which may block.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, ABCMeta, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import count
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

    from forebay.compiler.program import DriverCompiler
    from forebay.queues.device import Device as AnyDevice
    from forebay.queues.graphs.graph import Graph as AnyGraph
    from forebay.queues.memory.buffer import Buffer as AnyBuffer
    from forebay.queues.queue import Queue as AnyQueue
else:
    from forebay.core.state import AnyQueue

    AnyDevice, AnyBuffer, AnyGraph = (ABCMeta(name, (), {}) for name in ("Device", "Buffer", "Graph"))


KINDS = ("cpu", "gpu", "accelerator", "custom")  # of devices
MOST_GROUPS = 0x7FFFFFFF  # of a launch in each dimension, where the driver sets no limit


def be(kind: Any, made: type) -> None:
    """Register the class behind an `Any…` kind, for lower modules, which cannot import it."""
    kind.register(made)


# -- descriptions in forebay's words


class Language(str, Enum):
    """The language of a program. Each member equals its name: ``Language.PTX == "PTX"``."""

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
        Position within backend and kind, counting unusable devices: a repaired driver changes no name.
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
        The driver's object, opaque outside its folder; None if an unusable device has none.
    """

    name: str = ""  # set by `numbered`, as the index is
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
    unit_items: int = 0  # work-items that a compute unit runs at once; 0 if it runs one group, or if unknown
    unit_groups: int = 0  # groups, likewise
    clock_khz: int = 0  # highest clock rate
    cache_bytes: int = 0  # cache of its global memory
    shares_memory: bool = False  # whether its memory is the host's
    has_shared: bool = False  # whether it has memory that migrates between the two

    @classmethod
    def of(cls, native: Any, sizes: Sequence[int], constant_bytes: int, shares: bool, has_shared: bool) -> Limits:
        """Describe a device of pyopencl or dpctl. Their drivers limit only the work-items of a launch, not groups."""
        x, y, z = sizes
        return cls(
            group_items=native.max_work_group_size,
            group_size=(x, y, z),
            group_count=(MOST_GROUPS, MOST_GROUPS, MOST_GROUPS),
            local_bytes=native.local_mem_size,
            constant_bytes=constant_bytes,
            allocation=native.max_mem_alloc_size,
            clock_khz=native.max_clock_frequency * 1000,
            cache_bytes=native.global_mem_cache_size,
            shares_memory=shares,
            has_shared=has_shared,
        )


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel."""

    name: str  # as in the source, as far as the driver knows it
    type_name: str  # as in the source, as far as the driver knows it
    kind: str  # "pointer", "value" or "local"
    code: str  # the struct module's code of a scalar; "V" for other values; "L" for local memory; "" for pointers
    nbytes: int  # of the argument
    # Of a vector or half. Of a pointer: that of the numbers it points to, which for a vector are its elements. None if
    # the type has no known name: a structure, a typedef, void.
    dtype: np.dtype[Any] | None = None
    read_only: bool = False  # whether it points to constant memory or to const: a launch writes nothing through it
    alignment: int = 8  # in bytes, where arguments are packed; 0 for a structure of unknown alignment


# -- what a driver calls


@dataclass
class FunctionTable:
    """The functions of a driver's library: the address of the table of `driver.hpp`, and their names by number.

    ``name_of(code)`` names an error code, also one from an event's status. The codes in `out_of_memory` mean that
    memory ran out, those in `lost`, which have no sign, that the device is lost.
    """

    address: int
    names: Sequence[str]
    name_of: Callable[[int], str]
    out_of_memory: Collection[int] = ()
    lost: Collection[int] = ()

    def load(self, library: CDLL, where: str, advice: str, optional: Collection[str] = ()) -> None:
        """Fill the table from a library, unless it is filled. Missing functions that are `optional` are NULL. If
        another one is missing, raises `ImportError` with `where` and `advice`, and leaves the table empty.
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
        """Explain a `Status`: the function, its error code, and the code's name."""
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
    """One allocation, freed with its last reference: the device must be done with it by then. Memory that the host can
    read in place has the buffer protocol: "shared" and "host", and all of a CPU.
    """

    @property
    def handle(self) -> int:
        """The driver's memory object, for `Memory.handle` of driver.hpp; 0 where memory is its address alone."""

    @property
    def address(self) -> int:
        """The start in the device's address space; 0 on devices whose memory has no addresses."""

    @property
    def nbytes(self) -> int:
        """The usable bytes."""

    @property
    def usm_type(self) -> str:
        """The kind of memory: "device", "shared" or "host", as in `forebay.Device.empty`."""


@dataclass(eq=False)
class DriverKernel(ABC):
    """A kernel of a program as the driver knows it. Each plan and each bound launch gets its own kernel object."""

    name: str  # as in the source
    parameters: Sequence[Parameter]  # in the order of the source
    max_block: int  # work-items that a group can have
    max_block_axis: Sequence[int]  # in each of the three dimensions; the first varies fastest
    local_bytes: int  # local memory that a group can have
    required_block: Sequence[int] = (0, 0, 0)  # the group size that it was compiled for; three zeros for any
    reshape: int = 0  # address of the `Reshape` of driver.hpp that each new shape of its launches passes; 0 for none
    static_local_bytes: int = 0  # local memory of a group by its own declarations; 0 if the driver does not report it
    units: int = 1  # compute units, each of which runs one group, if the driver reports no more

    def groups_at_once(self, block: tuple[int, int, int], local_bytes: int) -> int:
        """Return how many groups run at once, at least. `local_bytes`: from the launch, beside the kernel's own."""
        return self.units

    @abstractmethod
    def create(self, follows: bool) -> int:
        """Make a kernel object and return its handle, to be passed to `destroy_kernel`. With `follows` it needs
        indirect access: `follow` of driver.hpp sets its resident set, if the driver has that entry. Raises
        `DriverError`. Does not block.
        """


class BuiltProgram(dict[str, DriverKernel]):
    """A built program: the kernels by name, and the variables.

    ``variable(name)`` returns the memory of a variable, which keeps the program, or None for an unknown name. It raises
    `NotSupportedError` if the driver does not report addresses of variables. `log` is the compiler's log as users read
    it; it may be empty. ``accesses(name)`` returns for each parameter of a kernel what the compiled code does with the
    memory that it points to: "reads", "atomics" (changed by atomic operations only), "writes", or "" if unknown. It
    returns nothing if there is no code to analyse. It takes milliseconds; the race checker calls it.
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
    """Memory of another package, with the shape and type that its object declares."""

    memory: DriverMemory  # keeps its owner
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int = 0  # the byte at which the elements begin
    listed: bool = False  # its address belongs in the list for `follow` of driver.hpp, like the driver's own


class AdoptedQueue(NamedTuple):
    """A queue of another package."""

    device: DriverDevice  # that of its context
    handle: int  # for the table; the caller passes it to `destroy_queue`. The object's own queue is retained
    timed: bool  # it times events


class DriverDevice(ABC):
    """One device, opened for a `forebay.Device` that keeps it while there is work. Any thread may call it."""

    info: DeviceInfo  # the device that was opened
    limits: Limits  # of the device and of launches on it
    table: int  # address of the `Driver` of driver.hpp; valid as long as the process lives
    context_handle: int  # what the table's functions take for `context`; valid as long as this object lives
    # With fewer commands than this in flight on a queue, submitting one more surely does not block; while a host
    # function is outstanding, forebay submits no more (docs/architecture.md, "Locks"). If queues share one limit, each
    # new queue lowers this: forebay reads it again.
    keeps_gil_below: int
    shared_room: int = 0  # if queues share a limit: how many more commands can be in flight, on all of them
    most_held: int | None = None  # queues that gates and host functions may hold while others go on; None: any number
    functions: FunctionTable  # of the driver's library
    # The languages that `build` takes. A program in another one is compiled for the first that its compiler makes.
    languages: tuple[Language, ...]
    priorities: tuple[int, ...] = (0,)  # of queues, lower is more urgent; 0 is among them
    timing_is_free: bool = False  # whether a queue with timed events costs nothing measurable
    has_addresses: bool  # whether memory has addresses, for indirect access
    takes_pageable: bool  # whether a copy into pageable memory is asynchronous; else it goes through what `stage` gives
    reads_pageable_late: bool  # whether a copy from pageable memory reads it when it runs; else when it is submitted
    # Whether a host wait may return late, or never, while other threads submit: then back-pressure limits these
    # (sync/ordering.pyx). Only if `event_status` may be called during such a wait.
    waits_starve: bool = False
    unrolls_recursion: bool = False  # recursive functions are unrolled: a cycle of calls costs too much
    # False for Intel's Level Zero driver on null hardware: memory keeps its contents, and querying an event's time
    # never returns.
    executes: bool = True
    takes_host: bool = False  # whether the device reaches ordinary memory of the host by its address
    has_ipc: bool = False  # whether it has memory and events that processes share

    # -- queues and memory

    @abstractmethod
    def create_queue(self, priority: int, timing: bool) -> tuple[object, int]:
        """Make an in-order queue, timed or not: (the user's object, the table's handle). Raises `DriverError`."""

    @abstractmethod
    def allocate(self, nbytes: int, usm_type: str) -> DriverMemory:
        """Allocate memory. Raises `NotSupportedError` if there is none of this kind, and `OutOfMemoryError`."""

    def check_size(self, nbytes: int, of: str = "") -> None:
        """Raise OutOfMemoryError if the size exceeds the limit of one allocation."""
        most = self.limits.allocation
        if nbytes > most:
            raise OutOfMemoryError(f"{nbytes} bytes{of}: {self.info.name} allocates at most {most} at once")

    def part(self, memory: Any, offset: int, nbytes: int) -> tuple[object, int] | None:
        """Make a memory object for a part of an allocation: its owner and its handle; None if an address is enough.
        Raises `NotSupportedError` for an offset that the driver cannot have.
        """
        return None

    @property
    def part_of(self) -> Callable[[Any, int, int], tuple[object, int]] | None:
        """`part` for memory with addresses, if setting an object is faster. Offsets are multiples of 512."""
        return None

    def pinned(self, nbytes: int) -> tuple[int, object]:
        """Make host memory that the device accesses without staging: its address and owner, or `OutOfMemoryError`."""
        try:
            memory = self.allocate(nbytes, "host")
        except OutOfMemoryError as error:
            raise OutOfMemoryError(f"pinned host memory: {error}") from None
        return memory.address, memory

    def stage(self, nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Make host memory for the bytes of one copy, pageable by default. Raises `OutOfMemoryError`."""
        return np.empty(nbytes, np.uint8)

    # -- what belongs to other packages

    @property
    def takes_over(self) -> str:
        """What `adopt_memory` and `adopt_host` take, in words; empty for nothing."""
        return ""

    def can_adopt(self, thing: object) -> bool:
        """Whether `adopt_memory` takes such an object, or refuses it with a reason. Raises nothing."""
        return False

    def adopt_memory(self, thing: object) -> Adopted | None:
        """Take over memory of this driver from another package's object; None for any other object. Raises
        `InvalidArgumentError` if the memory is read-only, not C-contiguous, or of another context.
        """
        return None

    def adopt_host(self, owner: object, address: int, nbytes: int) -> DriverMemory:
        """Take over pageable host memory, which `owner` keeps. Only with `takes_host`."""
        raise NotSupportedError(f"{self.info.name} does not reach memory of the host by its address")

    def register_host(self, address: int, nbytes: int) -> DriverMemory | None:
        """Let the device reach the program's memory while the result lives; None if it cannot."""
        return self.adopt_host(None, address, nbytes) if self.takes_host else None

    def unregister_host(self, memory: DriverMemory) -> None:
        """End what `register_host` began. No submitted work uses the memory any more."""
        return

    def can_reach(self, peer: DriverDevice) -> bool:
        """Whether this device can reach another one's memory, once `reach` allows it."""
        return False

    def reach(self, peer: DriverDevice) -> bool:
        """Let this device use another one's memory. False if the driver would wait for a gate."""
        raise NotSupportedError(f"{self.info.name} does not reach memory of {peer.info.name}")

    def adopt_peer(self, owner: object, address: int, nbytes: int) -> DriverMemory:
        """Take over memory of another device within reach, which `owner` keeps."""
        raise NotSupportedError(f"{self.info.name} does not reach memory of other devices")

    # -- what several processes share: only they know when the others are done with it

    def allocate_shared(self, nbytes: int) -> DriverMemory:
        """Allocate device memory that other processes can open. Raises `OutOfMemoryError`."""
        raise self._no_ipc()

    def memory_handle(self, memory: DriverMemory) -> bytes:
        """Return the bytes that open it in another process. Raises `InvalidArgumentError` for memory of `allocate`."""
        raise self._no_ipc()

    def open_memory(self, handle: bytes) -> DriverMemory:
        """Open memory of another process. Raises `InvalidArgumentError` for a handle that opens nothing here."""
        raise self._no_ipc()

    def give_back_shared(self) -> bool:
        """Release such memory without references; waits for running work. False if the driver would wait for a gate."""
        return True

    def create_shared_event(self) -> tuple[int, bytes]:
        """Make an event that other processes can open: its handle, which the caller owns, and what opens it there."""
        raise self._no_ipc()

    def open_event(self, handle: bytes) -> int:
        """Open another process's event, as `create_shared_event`. Raises `InvalidArgumentError`."""
        raise self._no_ipc()

    def _no_ipc(self) -> NotSupportedError:
        return NotSupportedError(f"{self.info.name} shares no memory and events between processes: CUDA does")

    def adopt_event(self, thing: object) -> int | None:
        """Return a handle, owned by the caller, that completes with another package's event; None for other objects.
        Raises `ArgumentTypeError` for an event that cannot be waited for, and says what to do instead.
        """
        return None

    def hand_over(self, thing: object, native: Any) -> None:
        """Order a queue, as `create_queue` returned it, after what the package of `thing` has submitted for it. Raises
        `InvalidArgumentError` if that package refuses.
        """
        return

    def dlpack_device(self, usm_type: str) -> tuple[int, int] | None:
        """Return DLPack's device of this kind of memory; None if other packages have none."""
        return None

    def order_stream(self, stream: int, native: Any) -> None:
        """Order another package's stream (DLPack's numbering) after this queue, or raise `InvalidArgumentError`."""
        raise NotSupportedError(f"no other package has streams of {self.info.name}")

    def array_interface(self, name: str, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> object | None:
        """Return the attribute by which other packages access memory of this device; None if there is none."""
        return None

    def queue_interface(self, name: str, native: Any) -> object | None:
        """Return the attribute by which other packages use a queue; None if there is none."""
        return None

    def array_over(
        self, lend: Callable[[], tuple[Any, int]], shape: tuple[int, ...], dtype: np.dtype[Any], queue: object
    ) -> object:
        """Make another package's array over memory of this device, for that package's `queue`. `lend` returns the
        memory that `allocate` made, which lives as long as the array, and the array's first byte in it.
        """
        raise NotSupportedError(f"no other package has arrays over memory of {self.info.name}")

    # -- programs

    def expect_spirv(self) -> None:
        """Prepare to build SPIR-V, which is being made."""
        return

    def cpp_compiler(self) -> DriverCompiler | None:
        """Return the driver's own C++ compiler; None if it has none. Raises `NotInstalledError`."""
        return None

    @abstractmethod
    def build(self, language: Language, source: str | bytes, options: tuple[str, ...]) -> BuiltProgram:
        """Build a program in one of `languages`: str for text, otherwise bytes. Raises `BuildError` with the compiler's
        log, `InvalidArgumentError` for truncated bytes, and `NotSupportedError` for a parameter that the driver does
        not take or a compiler that is not installed.
        """

    def moves(self) -> BuiltProgram | None:
        """Return `forebay.queues.memory.shapes`' kernels by name, if a late build would wait for pending work."""
        return None

    # -- errors

    def explain(self, status: int) -> tuple[str, int, str]:
        """Explain a `Status`: call, error code, name. May raise `NotSupportedError` or `OutOfMemoryError` itself."""
        return self.functions.explain(status)


# -- what each driver's folder offers, and the search for devices


PROBE = "kernel void probe(global int *a) { a[0] = 1; }"
"""OpenCL C that every working compiler takes."""
log: logging.Logger = logging.getLogger(__name__)


class Found(NamedTuple):
    """The devices that a search found; if there are none, the reason and advice in one line."""

    devices: list[DeviceInfo]
    absence: str


class DriverFolder(ABC):
    """What a driver's folder offers: ``driver.py`` has a subclass, and ``selection.py`` its one object. It looks for
    devices when any thread first asks. Drivers that are installed later are not found.
    """

    adopts_queues = ""  # what `adopt_queue` takes, in words; empty for nothing
    adopts_devices = ""  # likewise `adopt_device`
    runs_anywhere = False  # pip has a driver for any processor: this advice comes first if there is no device

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: Found | None = None

    @abstractmethod
    def look(self) -> Found:
        """Start the driver and return all devices in order of preference. Called once; may block; raises nothing."""

    @abstractmethod
    def open_device(self, info: DeviceInfo) -> DriverDevice:
        """Open a usable device that `discover` listed. Raises `DriverError`."""

    def adopt_queue(self, thing: Any, opened: Iterable[DriverDevice]) -> AdoptedQueue | None:
        """Take over another package's in-order queue, on its context's device in `opened` or a new one; None for
        others. Raises `InvalidArgumentError` for an out-of-order queue, and `NotSupportedError` for an unusable device.
        """
        return None

    def adopt_device(self, thing: Any, opened: Iterable[DriverDevice]) -> DriverDevice | DeviceInfo | None:
        """Take over another package's context or device; None for other objects. A context becomes its device in
        `opened`, or a new one; a device becomes its entry in `discover`, if it has one. Raises as `adopt_queue`.
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
        """Return all devices, unusable ones too, in a new list. Blocks as `found`."""
        return list(self.found().devices)

    def absence(self) -> str:
        """Return why there is no device and what to do, in one line; empty if there is one."""
        return self.found().absence


def numbered(devices: Iterable[DeviceInfo]) -> list[DeviceInfo]:
    """Number devices of one backend within their kind, in order, and name them ``backend:kind:index``."""
    counted: defaultdict[str, count[int]] = defaultdict(count)
    named: list[DeviceInfo] = []
    for device in devices:
        index = next(counted[device.kind])
        named.append(replace(device, name=f"{device.backend}:{device.kind}:{index}", index=index))
    return named


def first_line(text: str) -> str:
    """Return the first line that is not blank: drivers begin their logs with blank lines."""
    return next((line.strip() for line in text.splitlines() if line.strip(" \t\0")), "")
