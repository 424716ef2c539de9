"""One Level Zero device and its context. It makes queues, memory and kernels."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from functools import partial

from forebay.compiler.spirv import declarations
from forebay.compiler.spirv.access import accesses_of
from forebay.core import errors
from forebay.core.driver import BuiltProgram, DeviceInfo, DriverDevice, DriverKernel, Language, Limits
from forebay.queues.kernels import build
from forebay.queues.kernels.parameters import read_parameter
from forebay.queues.levelzero import operations
from forebay.queues.levelzero.operations import DeviceHandle, ZeMemory, ZeProgram
from forebay.queues.levelzero.programs import compiled
from forebay.queues.memory.transfers import StagingPool

# With fewer commands in flight an append surely does not block. Null hardware never blocks. A real device's ring holds
# more; how much more was not measured.
KEEPS_GIL_BELOW = 512
# Intel's driver reads the second variable only with the first. These receivers put commands into a file, or nowhere.
READS_KEYS, RECEIVER, NO_HARDWARE = "NEOReadDebugKeys", "SetCommandStreamReceiver", ("1", "5")

# From forebay's priorities (lower is more urgent, as in HIP) to ze_command_queue_priority_t.
PRIORITIES = {-1: 2, 0: 0, 1: 1}

COMPUTE = 1 << 0  # of the flags of a queue group


@dataclass(frozen=True)
class ZeNative:
    """A Level Zero device: its handles, and what its driver says about it."""

    driver: int  # a handle, like `device`; valid as long as the process lives
    device: int
    device_id: int  # of PCI
    vendor_id: int
    ip_version: int  # the hardware's version as the compiler counts it; 0 if unknown
    limits: Limits
    max_argument_bytes: int  # all arguments of a kernel
    timer_resolution_ns: float  # of the device's clock
    kernel_timestamp_bits: int  # valid bits of a kernel's timestamps
    # For each ordinal: flags (1 compute, 2 copy, 4 cooperative), number of queues, and bytes of a fill's largest
    # pattern (2**64 - 1: no limit).
    groups: tuple[tuple[int, int, int], ...]
    priorities: tuple[int, int] | None  # the lowest and the highest; lower is more urgent. None if unknown
    # "create": zeEventCounterBasedCreate makes counter-based events; "pool": an event pool with an extended descriptor.
    counter_based: str


class LevelZeroKernel(DriverKernel):
    """A kernel of the driver: its parameters and its limits. It makes kernel objects for plans."""

    def __init__(self, native: ZeNative, module: ZeProgram, name: str, declared: list[declarations.Declared]) -> None:
        self._module = module
        parameters = [read_parameter(name, index, facts) for index, facts in enumerate(declared)]
        nbytes = sum(parameter.nbytes for parameter in parameters if parameter.kind != "local")
        if nbytes > native.max_argument_bytes:
            raise errors.NotSupportedError(
                f"kernel {name!r} takes {nbytes} bytes of arguments; the device has {native.max_argument_bytes}"
            )
        items, required, static = module.limits(name)
        limits = native.limits
        most = items or limits.group_items
        super().__init__(name, parameters, most, limits.group_size, limits.local_bytes, required, 0, static)

    def groups_at_once(self, block: tuple[int, int, int], local_bytes: int) -> int:
        locals_ = [index for index, parameter in enumerate(self.parameters) if parameter.kind == "local"]
        return int(self._module.cooperative_groups(self.name, block, locals_, local_bytes))

    def create(self, follows: bool) -> int:
        return int(self._module.create_kernel(self.name, follows))


def on_null_hardware() -> bool:
    """Whether the environment tells Intel's driver to drive no hardware, as `tools.null_levelzero` does."""
    return os.environ.get(READS_KEYS) == "1" and os.environ.get(RECEIVER) in NO_HARDWARE


class LevelZeroDevice(DriverDevice):
    """One Level Zero device. The context handle is a ZeDevice."""

    table: int = operations.TABLE
    functions = operations.FUNCTIONS
    has_addresses = True
    timing_is_free = True  # only timed events differ
    takes_pageable = False
    reads_pageable_late = False
    keeps_gil_below = KEEPS_GIL_BELOW

    def __init__(self, info: DeviceInfo) -> None:
        operations.load()
        self.info = info
        self.native: ZeNative = info.native
        self.limits: Limits = self.native.limits
        self.handle: DeviceHandle = DeviceHandle(
            self.native.driver,
            self.native.device,
            self.native.counter_based,
            self.native.timer_resolution_ns,
            self.native.kernel_timestamp_bits,
        )
        self.context_handle: int = self.handle.address
        lowest, highest = self.native.priorities or (1, -1)
        self.priorities: tuple[int, ...] = tuple(
            priority for priority in PRIORITIES if highest <= priority <= lowest
        ) or (0,)
        self.executes: bool = not on_null_hardware()
        self.stage = StagingPool(partial(ZeMemory, self.handle, usm_type="host")).take  # type: ignore[method-assign]
        # Take turns: lists on one (ordinal, index) share an engine, and a waiting list can stall the others.
        self._ordinal = next(o for o, (flags, _, _) in enumerate(self.native.groups) if flags & COMPUTE)
        self._engines = itertools.cycle(range(self.native.groups[self._ordinal][1]))

    # -- queues

    def create_queue(self, priority: int, timing: bool) -> tuple[int, int]:
        return self.handle.create_queue(self._ordinal, next(self._engines), PRIORITIES[priority])

    # -- memory

    def allocate(self, nbytes: int, usm_type: str = "device") -> ZeMemory:
        self.check_size(nbytes)
        return ZeMemory(self.handle, max(nbytes, 1), usm_type)

    # -- programs

    languages: tuple[Language, ...] = (Language.SPIRV, Language.OPENCL_C)

    def expect_spirv(self) -> None:
        build.expect()

    def build(self, language: Language, source: str | bytes, options: tuple[str, ...]) -> BuiltProgram:
        """OpenCL C needs Intel's offline compiler."""
        module, code, kernels, variables = compiled(self.handle, self.info, source, options)
        return BuiltProgram(
            {name: LevelZeroKernel(self.native, module, name, declared) for name, declared in kernels.items()},
            lambda name: module.variable(name) if name in variables else None,
            accesses=partial(accesses_of, code),
        )
