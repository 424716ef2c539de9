"""One SYCL device and its context. It makes queues, memory and kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from forebay.compiler.spirv.access import accesses_of
from forebay.core import errors
from forebay.core.driver import (
    Adopted,
    BuiltProgram,
    DeviceInfo,
    DriverDevice,
    DriverFolder,
    DriverKernel,
    Language,
    Limits,
    Parameter,
)
from forebay.queues.kernels.intel_cpu import IntelCpuProgram
from forebay.queues.kernels.parameters import kernels_in, read_parameter
from forebay.queues.sycl import operations

# A queue surely takes this many commands before a submission blocks. The CPU runtime has no limit: 40,000 launches
# behind a running kernel did not block. GPUs have not been measured; NVIDIA's OpenCL takes 1021.
NEVER_BLOCKS = 2**63
KEEPS_GIL_BELOW = 256

NO_REASON = "it returned nothing; with DPCTL_VERBOSITY=error dpctl says why on stderr"


class SyclProgramKernel(DriverKernel):
    """A kernel of SYCL: its parameters and its limits. It makes kernel objects for plans."""

    def __init__(
        self,
        device: SyclDevice,
        bundle: operations.Bundle,
        name: str,
        parameters: Sequence[Parameter],
        required_block: tuple[int, int, int],
    ) -> None:
        self._kernel = operations.BundledKernel(bundle, name)
        self._codes = [parameter.code for parameter in parameters]
        native, limits = device.native, device.limits
        most = min(self._kernel.max_block or limits.group_items, limits.group_items)
        units = max(native.max_compute_units - native.is_cpu, 1)  # see `OpenCLKernel`
        super().__init__(name, parameters, most, limits.group_size, limits.local_bytes, required_block, units=units)

    def create(self, follows: bool) -> int:
        """SYCL's kernels always have indirect access."""
        return self._kernel.create(self._codes)


class SyclDevice(DriverDevice):
    """One SYCL device in one context. The context handle is a SyclContext.

    One of `drivers`, by filter word, compiles for it, because SYCL reports too little. The context is that of `queue`,
    which `array_interface` names; by default of a new queue in dpctl's own context for the device, as of
    `dpctl.SyclQueue`.
    """

    table: int = operations.TABLE
    functions = operations.FUNCTIONS
    has_addresses = True
    timing_is_free = False  # a property of the queue; its cost has not been measured

    def __init__(self, info: DeviceInfo, drivers: Mapping[str, DriverFolder], queue: Any = None) -> None:
        import dpctl

        operations.load()
        self._dpctl = dpctl
        self.info = info
        self.native: Any = info.native
        # forebay allocates through this queue and names it to users of the memory, but submits nothing to it.
        self._named = queue or dpctl.SyclQueue(self.native, property="in_order")
        self.context: Any = self._named.sycl_context
        joining = dpctl.SyclQueue(self.context, self.native)
        self.handle: operations.ContextHandle = operations.ContextHandle(
            self.context, self.native, self._named, joining
        )
        self.context_handle: int = self.handle.address
        is_cpu = info.kind == "cpu"
        native = self.native
        sizes = native.max_work_item_sizes3d[::-1]  # the last dimension of a SYCL range is the first here
        has_shared = native.has_aspect_usm_shared_allocations
        self.limits: Limits = Limits.of(native, sizes, native.max_mem_alloc_size, is_cpu, has_shared)
        self.unrolls_recursion = is_cpu
        # SYCL compiles OpenCL C for no other backend than OpenCL
        over_opencl = self.native.backend.name == "opencl"
        self.languages: tuple[Language, ...] = (Language.SPIRV, Language.OPENCL_C) if over_opencl else (Language.SPIRV,)
        self.keeps_gil_below = NEVER_BLOCKS if is_cpu else KEEPS_GIL_BELOW
        self.waits_starve = is_cpu  # Intel's runtime, as over OpenCL
        self.takes_pageable = is_cpu  # measured: on CPUs a copy from or to pageable memory does not wait
        self.reads_pageable_late = is_cpu
        self._drivers = drivers
        self._beneath: DriverDevice | None = None

    # -- queues

    def create_queue(self, priority: int, timing: bool) -> tuple[Any, int]:
        properties = ("in_order", "enable_profiling") if timing else "in_order"
        queue = self._dpctl.SyclQueue(self.context, self.native, property=properties)
        return queue, operations.create_queue(queue.addressof_ref(), False)

    # -- memory

    def allocate(self, nbytes: int, usm_type: str = "device") -> operations.OwnMemory:
        if not getattr(self.native, f"has_aspect_usm_{usm_type}_allocations"):
            raise errors.NotSupportedError(f"{usm_type} memory: {self.info.name} has none")
        self.check_size(nbytes)
        return operations.OwnMemory(self.handle, max(nbytes, 1), usm_type)

    takes_over = "USM memory of its context (__sycl_usm_array_interface__)"

    def can_adopt(self, thing: object) -> bool:
        return hasattr(thing, operations.INTERFACE)

    def adopt_memory(self, thing: object) -> Adopted | None:
        return operations.adopt_memory(thing, self.handle, self.info.name)

    def adopt_event(self, thing: object) -> int | None:
        """Takes a `dpctl.SyclEvent`. SYCL waits for events of other contexts, too."""
        return operations.adopt_event(thing.addressof_ref()) if isinstance(thing, self._dpctl.SyclEvent) else None

    def array_interface(self, name: str, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> object | None:
        described = {"data": (address, False), "shape": shape, "strides": None, "typestr": dtype.str, "version": 1}
        return described | {"syclobj": self._named} if name == operations.INTERFACE else None

    def stage(self, nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Pageable memory if the device copies from it asynchronously, otherwise host USM memory."""
        if self.takes_pageable:
            return super().stage(nbytes)
        memory: Any = self.allocate(nbytes, "host")  # has the buffer protocol
        return np.frombuffer(memory, np.uint8, nbytes)

    # -- programs

    def expect_spirv(self) -> None:
        beneath = self._compiler()
        if beneath is not None:
            beneath.expect_spirv()

    def _no_variable(self, name: str) -> None:
        raise errors.NotSupportedError(
            f"variable {name!r}: dpctl's interface to SYCL has no call that finds variables of programs; the same "
            "device over another driver may, see forebay.devices()"
        )

    def build(self, language: Language, source: str | bytes, options: tuple[str, ...]) -> BuiltProgram:
        """Programs may have variables, but dpctl cannot find them."""
        declared = kernels_in(source) if isinstance(source, bytes) else {}
        beneath = self._compiler()
        facts: dict[str, Any]
        built: BuiltProgram | None = None
        if beneath is not None:
            # SYCL reports neither parameters, required group sizes nor the log, and builds in this process, which
            # Intel's compilers can end. So the driver beneath builds it first.
            try:
                built = beneath.build(language, source, options)
            except errors.BuildError as error:
                message = f"the program does not build on {self.info.name}\n{error.log}"
                raise errors.BuildError(message, log=error.log) from None
            facts = {name: (kernel.parameters, kernel.required_block) for name, kernel in built.items()}
            if isinstance(built, IntelCpuProgram):
                source, options = built.module, built.options
        else:
            facts = {
                name: ([read_parameter(name, index, each) for index, each in enumerate(parameters)], (0, 0, 0))
                for name, parameters in declared.items()
            }
        if not facts:
            return BuiltProgram({}, self._no_variable)
        bundle = operations.Bundle(self.handle, source, " ".join(options))
        kernels = {name: SyclProgramKernel(self, bundle, name, *each) for name, each in facts.items()}
        natives = BuiltProgram(kernels, self._no_variable)
        if isinstance(source, bytes):
            natives.accesses = partial(accesses_of, source)
        return built.over(natives) if isinstance(built, IntelCpuProgram) else natives

    def _compiler(self) -> DriverDevice | None:
        """The device, opened by the driver beneath SYCL; None if that is missing and SPIR-V has the parameters."""
        over = self.native.backend.name
        if self._beneath is None and over in self._drivers:
            same = (self.info.description, self.info.driver_version)
            found = (d for d in self._drivers[over].discover() if (d.description, d.driver_version) == same)
            info = next((d for d in found if over != "opencl" or d.platform == self.info.platform), None)
            if info is not None and info.usable:
                self._beneath = self._drivers[over].open_device(info)
        if self._beneath is None and over == "opencl":
            raise errors.NotSupportedError(
                f"{self.info.name}: pyopencl does not find the driver {self.info.platform}, which reports the "
                "parameters of kernels; see forebay.devices()"
            )
        return self._beneath

    # -- errors

    def explain(self, status: int) -> tuple[str, int, str]:
        """As `DriverDevice.explain`; raises for what SYCL cannot do, and without host memory for held commands."""
        what = status >> 32
        if what in operations.REFUSALS:
            raise operations.REFUSALS[what]()
        if what < len(self.functions.names):
            return self.functions.names[what], -1, NO_REASON
        return "SYCL", -1, operations.GATE_FAILED
