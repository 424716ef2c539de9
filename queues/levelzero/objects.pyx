"""The driver's objects as Python objects. Each is destroyed with its last reference."""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport uint8_t, uint32_t, uint64_t, uintptr_t

from forebay.core.driver cimport Status
from forebay.core.process cimport is_forked
from forebay.queues.levelzero.calls cimport (
    CALL_KernelCreate, CALL_KernelGetProperties, CALL_KernelSetArgumentValue, CALL_KernelSetGroupSize,
    CALL_KernelSetIndirectAccess,
    CALL_KernelSuggestMaxCooperativeGroupCount, CALL_MemAllocDevice, CALL_MemAllocHost, CALL_MemAllocShared,
    CALL_ModuleCreate, CALL_ModuleGetGlobalPointer, CALL_ModuleGetNativeBinary, DeviceAllocDesc, GroupLimits,
    HostAllocDesc, KernelDesc, KernelProperties, ModuleDesc, ze
)
from forebay.queues.levelzero.handles cimport (
    COUNTER_BASED, COUNTER_BASED_POOL, RESET, ZeKernel, ZeModule, ZeQueue, close_device, new_device, new_module,
    new_queue, outcome, release_module, retain_module
)

from forebay.core.errors import BuildError, DriverError, OutOfMemoryError
from forebay.queues.levelzero.calls import CALL_NAMES
from forebay.queues.levelzero.loader import result_name

cdef enum:
    ALL_MEMORY = 7  # ze_kernel_indirect_access_flags_t: of the host, of devices, and shared
    FORMAT_SPIRV = 0
    FORMAT_NATIVE = 1
    INVALID_GLOBAL_NAME = 0x78000010
    ALIGNMENT = 128  # of the largest element type, double16

MODES: dict[str, int] = {"create": COUNTER_BASED, "pool": COUNTER_BASED_POOL, "": RESET}
OUT_OF_MEMORY = (0x70000002, 0x70000003, 0x78000009)  # host memory, device memory, unsupported size


def explain(Status status) -> tuple[str, int, str]:
    """(call, code, name of the code) of a failed operation."""
    code = status & 0xFFFFFFFF
    return CALL_NAMES[status >> 32], code, result_name(code)


cdef int check(Status status, str what) except -1:
    """Raise for a failed call."""
    if status == 0:
        return 0
    call, code, name = explain(status)
    message = f"{call} failed: {name} ({what})"
    if code in OUT_OF_MEMORY:
        raise OutOfMemoryError(message)
    raise DriverError(message, call=call, code=code, name=name)


@cython.no_gc_clear
cdef class DeviceHandle:
    """A device in the context that it shares with others of its driver.

    Parameters
    ----------
    driver, device : int
        The driver's handles.
    mode : "create", "pool" or ""
        How counter-based events are made; "" when they cannot be.
    nanoseconds_per_tick : float
    timestamp_bits : int
        Valid bits of kernel timestamps.
    """

    def __init__(
        self, uintptr_t driver, uintptr_t device, mode: str, double nanoseconds_per_tick, int timestamp_bits
    ) -> None:
        cdef Status status = 0
        if self.device != NULL:
            raise TypeError("this DeviceHandle is made already")
        self.device = new_device(<void*> driver, <void*> device, MODES[mode], &status)
        check(status, "opening the device")
        self.device.nanoseconds_per_tick = nanoseconds_per_tick
        self.device.timestamp_mask = <uint64_t> -1 if timestamp_bits >= 64 else (<uint64_t> 1 << timestamp_bits) - 1

    def __dealloc__(self):
        if self.device != NULL and not is_forked():
            close_device(self.device)

    @property
    def address(self) -> int:
        """The address of the ZeDevice, which is the context handle for the table of operations."""
        return <uintptr_t> self.device

    def create_queue(self, uint32_t ordinal, uint32_t index, uint32_t priority) -> tuple[int, int]:
        """An in-order immediate command list: (the driver's handle, the operations' handle, which the caller owns)."""
        cdef Status status = 0
        cdef ZeQueue* queue = new_queue(self.device, ordinal, index, priority, &status)
        check(status, "making a queue")
        return <uintptr_t> queue.list, <uintptr_t> queue


@cython.no_gc_clear  # freeing needs the device
cdef class ZeMemory:
    """Unified shared memory, freed with this object. Drop the last reference only when the device is done with it.

    Host and shared memory has the buffer protocol.

    Parameters
    ----------
    usm_type : "device", "host" or "shared"
    """

    cdef readonly uintptr_t handle  # always 0: memory has addresses only
    cdef readonly uintptr_t address
    cdef readonly size_t nbytes
    cdef readonly str usm_type
    cdef DeviceHandle device

    def __init__(self, DeviceHandle device not None, size_t nbytes, str usm_type="device") -> None:
        cdef DeviceAllocDesc of_device
        cdef HostAllocDesc of_host
        cdef void* context = device.device.context.handle
        cdef void* address = NULL
        cdef Status status
        cdef bint of_both = usm_type == "shared", on_host = usm_type == "host"
        self.device = device
        self.nbytes = nbytes
        self.usm_type = usm_type
        with nogil:
            if on_host:
                status = outcome(CALL_MemAllocHost, ze.MemAllocHost(context, &of_host, nbytes, ALIGNMENT, &address))
            elif of_both:
                status = outcome(CALL_MemAllocShared, ze.MemAllocShared(
                    context, &of_device, &of_host, nbytes, ALIGNMENT, device.device.handle, &address))
            else:
                status = outcome(CALL_MemAllocDevice, ze.MemAllocDevice(
                    context, &of_device, nbytes, ALIGNMENT, device.device.handle, &address))
        check(status, f"{nbytes} bytes of {usm_type} memory")
        self.address = <uintptr_t> address

    def __dealloc__(self):
        if self.address and not is_forked():
            with nogil:
                ze.MemFree(self.device.device.context.handle, <void*> self.address)

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        if self.usm_type == "device":
            raise BufferError("device memory cannot be read by the host")
        PyBuffer_FillInfo(buffer, self, <void*> self.address, self.nbytes, False, flags)


cdef class ZeProgram:
    """A compiled program.

    Parameters
    ----------
    binary : bytes
        SPIR-V or a native binary. Check the header of SPIR-V first: a wrong one makes the driver's compiler end the
        process.
    native : bool
        Whether `binary` is a native binary.
    options : str
        Options for the compiler.

    Raises
    ------
    BuildError
        If the program does not build; with the compiler's log.

    Blocks while it compiles.
    """

    cdef ZeModule* module
    cdef DeviceHandle device

    def __init__(self, DeviceHandle device not None, bytes binary not None, bint native, str options="") -> None:
        cdef ModuleDesc desc
        cdef bytes encoded = options.encode()
        cdef void* handle = NULL
        cdef void* log = NULL
        cdef Status status
        if self.module != NULL:
            raise TypeError("this ZeProgram is made already")
        desc.format = FORMAT_NATIVE if native else FORMAT_SPIRV
        desc.size = len(binary)
        desc.input = <const uint8_t*> <const char*> binary
        desc.options = encoded
        self.device = device
        with nogil:
            status = outcome(CALL_ModuleCreate, ze.ModuleCreate(
                device.device.context.handle, device.device.handle, &desc, &handle, &log))
        if status == 0:
            self.module = new_module(device.device, handle)
        text = read_log(log)
        if status != 0:
            call, code, name = explain(status)
            if code in OUT_OF_MEMORY:
                check(status, "building a program")
            raise BuildError(f"{call} failed: {name}\n{text}", log=text)

    def __dealloc__(self):
        if self.module != NULL and not is_forked():
            release_module(self.module)

    def native_binary(self) -> bytes:
        """The machine code that the compiler made."""
        cdef size_t size = 0
        check(outcome(CALL_ModuleGetNativeBinary, ze.ModuleGetNativeBinary(self.module.handle, &size, NULL)),
              "native binary")
        cdef bytearray binary = bytearray(size)
        if size:
            check(outcome(CALL_ModuleGetNativeBinary, ze.ModuleGetNativeBinary(
                self.module.handle, &size, <uint8_t*> <char*> binary)), "native binary")
        return bytes(binary)

    def variable(self, str name) -> ZeVariable | None:
        """A variable of the program; None if no variable has this name."""
        cdef bytes encoded = name.encode()
        cdef size_t nbytes = 0
        cdef void* address = NULL
        cdef ZeVariable variable
        cdef Status status = outcome(CALL_ModuleGetGlobalPointer, ze.ModuleGetGlobalPointer(
            self.module.handle, encoded, &nbytes, &address))
        if status & 0xFFFFFFFF == INVALID_GLOBAL_NAME:
            return None
        check(status, f"variable {name!r}")
        variable = ZeVariable.__new__(ZeVariable)
        variable.module = self
        variable.address = <uintptr_t> address
        variable.nbytes = nbytes
        return variable

    def limits(self, str name) -> tuple[int, tuple[int, int, int], int]:
        """A kernel's (largest number of work-items in a group, or 0; required group size, or zeros; bytes of its own
        local memory).
        """
        cdef void* kernel = self.new_kernel(name)
        cdef KernelProperties properties
        cdef GroupLimits group
        cdef Status status
        properties.next = &group
        status = outcome(CALL_KernelGetProperties, ze.KernelGetProperties(kernel, &properties))
        ze.KernelDestroy(kernel)
        check(status, f"properties of kernel {name!r}")
        return group.items, tuple(properties.required_group[i] for i in range(3)), properties.local_bytes

    def cooperative_groups(self, str name, tuple block, list local_parameters, size_t local_bytes) -> int:
        """How many groups of this size a device runs at once, as the driver suggests it. The last of the parameters
        that are local memory has so many bytes.
        """
        cdef void* kernel = self.new_kernel(name)
        cdef uint32_t count = 0
        cdef uint32_t x = block[0], y = block[1], z = block[2]
        cdef Status status = outcome(CALL_KernelSetGroupSize, ze.KernelSetGroupSize(kernel, x, y, z))
        cdef uint32_t last
        if status == 0 and local_parameters and local_bytes:
            last = local_parameters[-1]
            status = outcome(
                CALL_KernelSetArgumentValue, ze.KernelSetArgumentValue(kernel, last, local_bytes, NULL))
        if status == 0:
            status = outcome(
                CALL_KernelSuggestMaxCooperativeGroupCount, ze.KernelSuggestMaxCooperativeGroupCount(kernel, &count))
        ze.KernelDestroy(kernel)
        check(status, f"kernel {name!r} in groups of {block}")
        return count

    cdef void* new_kernel(self, str name) except NULL:
        cdef KernelDesc desc
        cdef bytes encoded = name.encode()
        cdef void* kernel = NULL
        desc.name = encoded
        check(outcome(CALL_KernelCreate, ze.KernelCreate(self.module.handle, &desc, &kernel)), f"kernel {name!r}")
        return kernel

    def create_kernel(self, str name, bint follows_pointers) -> int:
        """The operations' handle of a new kernel object, which the caller owns."""
        cdef void* handle = self.new_kernel(name)
        cdef Status status = 0
        cdef ZeKernel* kernel
        if follows_pointers:
            status = outcome(CALL_KernelSetIndirectAccess, ze.KernelSetIndirectAccess(handle, ALL_MEMORY))
            if status != 0:
                ze.KernelDestroy(handle)
                check(status, f"kernel {name!r}")
        kernel = new ZeKernel()
        kernel.handle = handle
        kernel.module = retain_module(self.module)
        kernel.group[0] = kernel.group[1] = kernel.group[2] = 0
        return <uintptr_t> kernel


cdef class ZeVariable:
    """The memory of a variable. It keeps the program alive."""

    cdef readonly uintptr_t address
    cdef readonly size_t nbytes
    cdef ZeProgram module

    handle = 0  # memory has addresses only
    usm_type = "device"


cdef str read_log(void* log):
    cdef size_t size = 0
    if log == NULL:
        return ""
    cdef bytearray text = bytearray()
    if ze.ModuleBuildLogGetString(log, &size, NULL) == 0 and size:
        text = bytearray(size)
        ze.ModuleBuildLogGetString(log, &size, text)
    ze.ModuleBuildLogDestroy(log)
    return bytes(text).rstrip(b"\0").decode(errors="replace").strip()
