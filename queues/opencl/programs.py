"""Makes kernels from OpenCL C or SPIR-V, with a disk cache of the driver's binaries and facts about kernels."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyopencl as cl

from forebay.compiler.cache import BinaryCache, Entry, key_of, reads_files
from forebay.compiler.spirv import declarations
from forebay.compiler.spirv.access import accesses_of
from forebay.compiler.spirv.intel_cpu.block_shapes import let_blocks_be_flat
from forebay.compiler.spirv.intel_cpu.early_returns import let_threads_return
from forebay.compiler.spirv.intel_cpu.warps_made import options_for_warps, without_warps
from forebay.core import errors
from forebay.core.driver import BuiltProgram, DeviceInfo, DriverKernel
from forebay.core.intel_cpu import INTEL_CPU, intel_cpu_runtime, shown_to_loader
from forebay.queues.kernels.build import BuildProcessError, CompilerEndedError, build_apart, readable
from forebay.queues.kernels.intel_cpu import IntelCpuProgram, without_vectors
from forebay.queues.kernels.opencl_c import Compiler, declared_by, names_in
from forebay.queues.kernels.parameters import kernels_in, read_parameter
from forebay.queues.memory.allocation import ForeignMemory
from forebay.queues.opencl import operations
from forebay.queues.opencl.discovery import POCL, identity_of, turn

one_at_a_time = contextlib.nullcontext() if getattr(sys, "_is_gil_enabled", lambda: True)() else threading.RLock()
"""A lock around builds of programs: pyopencl 2026.1 has not declared that it needs no GIL, and crashes."""

Declared = dict[str, list[declarations.Declared]]
"""The parameters of each kernel, by name. The size of a structure is 0 until it is queried."""


class OpenCLKernel(DriverKernel):
    """A kernel of the driver: its parameters and its limits. It makes kernel objects for plans.

    ``size_of(type_name)`` returns the size of a source type in bytes. With `declared` None, the driver is asked.
    """

    def __init__(
        self,
        device: cl.Device,
        program: cl.Program,
        name: str,
        size_of: Callable[[str], int],
        declared: Sequence[declarations.Declared] | None,
        reshape: int,
    ) -> None:
        self.program = program
        self._handle = program.int_ptr
        self._device = device
        self._size_of = size_of
        kernel = cl.Kernel(program, name)
        if declared is None:
            declared = declared_by(kernel, name)
        elif len(declared) != kernel.num_args:
            raise errors.NotSupportedError(
                f"kernel {name!r}: it has {kernel.num_args} parameters, and {len(declared)} are declared"
            )
        parameters = [
            read_parameter(name, index, facts, partial(self._size_of_value, kernel, index, facts.type_name))
            for index, facts in enumerate(declared)
        ]
        info: Any = kernel.get_work_group_info  # each has another type
        ask = cl.kernel_work_group_info
        static = info(ask.LOCAL_MEM_SIZE, device)
        super().__init__(
            name,
            parameters,
            max_block=info(ask.WORK_GROUP_SIZE, device),
            max_block_axis=[*device.max_work_item_sizes, 1, 1][:3],
            local_bytes=device.local_mem_size,
            required_block=tuple(info(ask.COMPILE_WORK_GROUP_SIZE, device)),
            reshape=reshape,
            static_local_bytes=static if static > 1 else 0,  # NVIDIA's driver (580) says 1 where there is none
            # one less on CPUs: Intel's runtime counts the program's thread that may wait
            units=max(device.max_compute_units - bool(device.type & cl.device_type.CPU), 1),
        )

    def _size_of_value(self, kernel: cl.Kernel, index: int, type_name: str) -> int:
        limit = self._device.max_parameter_size
        return operations.probe_argument_size(kernel, index, limit) or self._size_of(type_name)

    def create(self, follows: bool) -> int:
        return operations.create_kernel(self._handle, self.name.encode())


def redeclared(kernel: DriverKernel) -> list[declarations.Declared]:
    """Return the parameters with their sizes, enough to make the kernel again without asking the driver."""
    return [
        declarations.Declared(p.name, p.type_name, p.kind, p.nbytes, p.read_only, p.alignment)
        for p in kernel.parameters
    ]


_hopeless: set[str] = set()
"""Keys of programs that also crashed the compiler without vectors: these are tried only once from then on."""


class Builder(Compiler):
    """Builds one program, of OpenCL C or SPIR-V, in a context of this device only."""

    def __init__(self, context: cl.Context, info: DeviceInfo, source: str | bytes, options: tuple[str, ...]) -> None:
        self._source = source
        self._flat: set[str] = set()
        if isinstance(source, bytes) and info.platform == INTEL_CPU:
            self._source, self._flat = let_blocks_be_flat(let_threads_return(source))
            options = options_for_warps(source, options)
        super().__init__(context, info, options)

    def build(self) -> BuiltProgram:
        """Return the kernels by name and the variables; the cache serves all processes. Raises as `DriverDevice.build`:
        a partial SPIR-V module would crash Intel's CPU runtime. Blocks while it compiles.
        """
        declared = self._declared_in_source()
        if reads_files(self._source):
            return self._compiled(declared)[1]
        cache = BinaryCache()
        key = self._key()
        entry = Entry.loads(cache.get(key) or b"")
        built = self._restored(entry) if entry is not None else None
        if built is None and isinstance(self._source, bytes) and self._info.platform == INTEL_CPU:
            built = self._built_apart(self._source, cache, key)
        if built is not None:
            return built
        program, kernels = self._compiled(declared)
        entry = self._entry_of(program, kernels)
        cache.put(key, entry.dumps())
        return self._finished(kernels, entry)

    def compiled_entry(self) -> Entry:
        """Compile, bypassing the cache, and return the cache entry. Raises as `build`."""
        return self._entry_of(*self._compiled(self._declared_in_source()))

    def _entry_of(self, program: cl.Program, kernels: BuiltProgram) -> Entry:
        return Entry(
            self._binary_of(program), {name: redeclared(kernel) for name, kernel in kernels.items()}, kernels.log
        )

    def _built_apart(self, source: bytes, cache: BinaryCache, key: str) -> BuiltProgram | None:
        """Build in another process, because this compiler can end its own; if it does, once more without vectors, where
        Intel's fails most. None if there can be no such process, or if the driver refuses the binary.
        """
        vectors = True
        try:
            try:
                data = build_apart(__name__, self._info, source, self._options)
            except CompilerEndedError:
                parted = None if key in _hopeless else without_vectors(source)
                if parted is None:
                    raise
                _hopeless.add(key)
                data = build_apart(__name__, self._info, parted, self._options)
                _hopeless.discard(key)
                vectors = False
        except BuildProcessError:
            return None
        entry = Entry.loads(data)
        if entry is None:
            return None
        entry = entry._replace(vectors=vectors)
        cache.put(key, entry.dumps())
        return self._restored(entry)

    def _compiled(self, declared: Declared) -> tuple[cl.Program, BuiltProgram]:
        program, reports = self.compile(self._source)
        if not reports and isinstance(self._source, str):
            declared = self.declared_elsewhere(program, self._source)
        kernels = self._kernels_of(program, declared)
        kernels.log = readable(self.log_of(program), self._source)  # the log of a successful build
        return program, kernels

    def _declared_in_source(self) -> Declared:
        return kernels_in(self._source) if isinstance(self._source, bytes) else {}

    def _key(self) -> str:
        """The cache key, of everything that affects the driver's output."""
        language = "SPIR-V" if isinstance(self._source, bytes) else "OpenCL C"
        return key_of("OpenCL", *identity_of(self._info), language, self._source, *self._options)

    def _restored(self, entry: Entry) -> BuiltProgram | None:
        """The kernels from the cache; None if the driver refuses the binary of its own version."""
        try:
            if entry.binary:
                program = self.build_program(cl.Program(self._context, [self._native], [entry.binary]))
            else:
                program, _ = self.compile(self._source)
            if set(names_in(program)) != set(entry.declared):
                return None
            kernels = self._kernels_of(program, entry.declared)
            kernels.log = entry.log
            return self._finished(kernels, entry)
        except (cl.Error, errors.NotSupportedError):
            return None

    def _finished(self, kernels: BuiltProgram, entry: Entry) -> BuiltProgram:
        if not isinstance(self._source, bytes) or self._info.platform != INTEL_CPU:
            return kernels
        refused = without_warps(entry.binary, entry.declared)
        return IntelCpuProgram(kernels, self._source, self._options, entry.vectors, refused)

    def _kernels_of(self, program: cl.Program, declared: Declared) -> BuiltProgram:
        def kernel(name: str) -> OpenCLKernel:
            reshape = operations.RESHAPE if name in self._flat else 0
            return OpenCLKernel(self._native, program, name, self._size_of, declared.get(name), reshape)

        variable = partial(find_variable, self._info, program)
        natives = BuiltProgram({name: kernel(name) for name in declared or names_in(program)}, variable)
        if isinstance(self._source, bytes):
            natives.accesses = partial(accesses_of, self._source)
        return natives

    def build_program(self, program: cl.Program, *options: str) -> cl.Program:
        with turn(self._info.platform, self._source):
            return super().build_program(program, *options)

    def _binary_of(self, program: cl.Program) -> bytes:
        """The driver's binary; empty on PoCL, where keeping it costs more than it saves.

        To return it, PoCL compiles each kernel for groups of any size (3.1: 0.2 s each), and for a launch once more for
        its group size. PoCL itself caches what it compiles from source on disk.
        """
        if self._info.platform == POCL:
            return b""
        try:
            binaries: Any = program.get_info(cl.program_info.BINARIES)  # one per device; there is one device
        except cl.Error:
            return b""
        return bytes(binaries[0])

    def _size_of(self, type_name: str) -> int:
        """The bytes of a source type, for drivers that do not check argument sizes (PoCL's).

        The compiler evaluates the size in an attribute, which can be read without running anything.
        """
        attribute = f"__attribute__((reqd_work_group_size(sizeof({type_name}), 1, 1)))"
        probe = f"\nkernel {attribute} void forebay_size(int unused) {{ }}\n"
        try:
            program, _ = self.compile(f"{self._source!s}{probe}")
            kernel = cl.Kernel(program, "forebay_size")
        except (errors.BuildError, cl.Error) as error:
            raise errors.NotSupportedError(
                f"the driver of {self._info.name} does not report the size of the parameter type {type_name!r}: {error}"
            ) from None
        return int(kernel.get_work_group_info(cl.kernel_work_group_info.COMPILE_WORK_GROUP_SIZE, self._native)[0])


# -- the build process for an OpenCL device: see `build_apart`


def open_again(info: DeviceInfo) -> tuple[cl.Context, DeviceInfo] | None:
    """A context of the asking process's device, without trying it out again; None if it is not there."""
    with shown_to_loader(intel_cpu_runtime()):
        platforms = cl.get_platforms()
    for platform in platforms:
        for device in platform.get_devices() if platform.name.strip() == info.platform else ():
            if (device.name.strip(), device.driver_version.strip()) == (info.description, info.driver_version):
                return cl.Context([device]), dataclasses.replace(info, native=device)
    return None


def build(opened: tuple[cl.Context, DeviceInfo], source: bytes, options: tuple[str, ...]) -> bytes:
    """Return the binary and the kernels' parameters, as `Entry` loads them. Raises `BuildError`."""
    return Builder(*opened, source, options).compiled_entry().dumps()


# -- variables: their compiler options and addresses. Only Intel's drivers have a call for the address,
# clGetDeviceGlobalVariablePointerINTEL. Kernels and the SVM commands accept it (tried on the CPU runtime, 2026.2.0). A
# kernel that stores the address is no alternative: PoCL (3.1) compiles that with -cl-std=CL2.0 although it has no
# variables, and gives every kernel its own copy.

CALL = "clGetDeviceGlobalVariablePointerINTEL"
FEATURE = "__opencl_c_program_scope_global_variables"
CL_INVALID_ARG_VALUE = -50  # from Intel's drivers, for an unknown name
SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_size_t),
    ctypes.POINTER(ctypes.c_void_p)
)  # fmt: skip


def options_for_variables(device: cl.Device) -> tuple[str, ...] | None:
    """The options that allow variables in global memory at file scope; None if the device has no variables."""
    try:
        if FEATURE in [feature.name for feature in device.opencl_c_features]:
            return ("-cl-std=CL3.0",)
    except (cl.Error, AttributeError):  # before OpenCL 3.0: 2.x always has them, 1.x never
        if device.opencl_c_version.startswith("OpenCL C 2."):
            return ("-cl-std=CL2.0",)
    return None


def find_variable(info: DeviceInfo, program: cl.Program, name: str) -> ForeignMemory | None:
    """A variable of a program; None for an unknown name. Raises `NotSupportedError` if the driver cannot find any."""
    device: cl.Device = info.native
    call = _call_of(device.platform)
    if call is None:
        lacks = f"no program-scope variables ({FEATURE})" if options_for_variables(device) is None else f"no {CALL}"
        raise errors.NotSupportedError(f"variable {name!r}: {info.name} has {lacks}, so no host can reach one")
    nbytes, address = ctypes.c_size_t(), ctypes.c_void_p()
    error = call(device.int_ptr, program.int_ptr, name.encode(), nbytes, address)
    if error == CL_INVALID_ARG_VALUE:
        return None
    if error or not address.value:
        raise errors.DriverError(f"{CALL} failed: error {error} (variable {name!r})", call=CALL, code=error)
    return ForeignMemory(program, address.value, nbytes.value)


def _call_of(platform: cl.Platform) -> Any:
    library: Any = ctypes.CDLL(cl._cl.__file__)  # pyopencl's loader, as in `operations.load`
    look_up = library.clGetExtensionFunctionAddressForPlatform
    look_up.restype, look_up.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_char_p)
    address = look_up(platform.int_ptr, CALL.encode())
    return SIGNATURE(address) if address else None
