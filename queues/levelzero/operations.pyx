"""Level Zero's devices, programs and memory as Python objects; names of calls and results for errors. operations.hpp
has the table of operations (`forebay.core.driver`).
"""

import ctypes

cimport cython
from libc.stdint cimport uint8_t, uint32_t, uint64_t, uintptr_t
from libcpp.memory cimport shared_ptr, unique_ptr

from forebay.core.driver cimport Driver, Status
from forebay.core.ownership cimport Ref
from forebay.core.process cimport is_forked
from forebay.queues.memory.allocation cimport ForeignMemory, NativeMemory

from forebay.core.driver import FunctionTable
from forebay.core.errors import BuildError, NotSupportedError, OutOfMemoryError

cdef enum:
    INVALID_GLOBAL_NAME = 0x78000010
    ALL_MEMORY = 7  # ze_kernel_indirect_access_flags_t: of the host, of devices, and shared
    FORMAT_SPIRV = 0
    FORMAT_NATIVE = 1
    ALIGNMENT = 128  # of memory: that of the largest element type, double16

ctypedef Status (*Function)(...) noexcept nogil


# `calls.hpp` lists the parameters of each function, and the C++ compiler checks them.
cdef extern from "queues/levelzero/calls.hpp" namespace "forebay_ze":
    cdef struct DeviceAllocDesc:
        uint32_t flags, ordinal
    cdef struct HostAllocDesc:
        uint32_t flags
    cdef struct ModuleDesc:
        uint32_t format
        size_t size
        const uint8_t* input
        const char* options
    cdef struct KernelDesc:
        const char* name
    cdef struct KernelProperties:
        uint32_t arguments, local_bytes
        void* next
        uint32_t* required_group
    cdef struct GroupLimits:
        uint32_t items

    cdef enum:
        N_CALLS

    cdef struct Calls:
        Function CommandListImmediateGetFlags, EventCounterBasedCreate
        Function KernelSetArgumentValue, KernelSetGroupSize, KernelCreate, KernelSetIndirectAccess, KernelDestroy
        Function KernelGetProperties, KernelSuggestMaxCooperativeGroupCount
        Function MemAllocDevice, MemAllocHost, MemAllocShared, MemFree
        Function ModuleCreate, ModuleBuildLogGetString, ModuleBuildLogDestroy, ModuleGetNativeBinary
        Function ModuleGetGlobalPointer

    const char* const* call_names


# Each ends with its last reference. The header says what holds what.
cdef extern from "queues/levelzero/operations.hpp" namespace "forebay_ze" nogil:
    Calls ze
    Driver table

    cdef enum:
        DEVICE_LOST

    cdef enum EventKind:
        DEVICE_EVENT

    cdef enum EventMode:
        COUNTER_BASED, COUNTER_BASED_POOL

    cdef cppclass ZeContext:
        void* handle

    cdef cppclass ZeEvent:
        pass

    cdef cppclass ZeDevice:
        shared_ptr[ZeContext] context
        void* handle
        double nanoseconds_per_tick
        uint64_t timestamp_mask

        @staticmethod
        Status open(void* driver, void* handle, EventMode mode, Ref[ZeDevice]& opened) noexcept
        void close() noexcept
        Status take_event(EventKind kind, Ref[ZeEvent]& taken) noexcept

    cdef cppclass ZeQueue:
        void* list

        @staticmethod
        Status create(
            ZeDevice* device, uint32_t ordinal, uint32_t index, uint32_t priority, Ref[ZeQueue]& made) noexcept

    cdef cppclass ZeModule:
        ZeModule(Ref[ZeDevice] device, void* handle) noexcept
        void* handle

    cdef cppclass ZeKernel:
        ZeKernel(void* handle, Ref[ZeModule] module) noexcept
        void* handle

MODES: dict[str, int] = {"create": COUNTER_BASED, "pool": COUNTER_BASED_POOL}

LIBRARY = "libze_loader.so.1"
GET_DRIVER = (
    "for an Intel GPU, install the loader and the driver: apt install libze1 libze-intel-gpu1 (Debian, Ubuntu), or "
    "elsewhere the packages level-zero and intel-compute-runtime"
)

# Newer than forebay requires: without them it uses something else, or raises an error when they are needed.
_NEWER = {
    "zeCommandListImmediateGetFlags", "zeCommandListAppendHostFunction", "zeCommandListImmediateAppendCommandListsExp",
    "zeEventCounterBasedCreate", "zeCommandListGetNextCommandIdExp", "zeCommandListUpdateMutableCommandsExp",
}

# The possible ze_result_t without their common prefix: runs of numbers, by the first
_RESULTS = {
    0: "SUCCESS NOT_READY",
    0x70000001: (
        "ERROR_DEVICE_LOST ERROR_OUT_OF_HOST_MEMORY ERROR_OUT_OF_DEVICE_MEMORY ERROR_MODULE_BUILD_FAILURE "
        "ERROR_MODULE_LINK_FAILURE ERROR_DEVICE_REQUIRES_RESET ERROR_DEVICE_IN_LOW_POWER_STATE"
    ),
    0x70010000: "ERROR_INSUFFICIENT_PERMISSIONS ERROR_NOT_AVAILABLE",
    0x70020000: "ERROR_DEPENDENCY_UNAVAILABLE WARNING_DROPPED_DATA",
    0x78000001: (
        "ERROR_UNINITIALIZED ERROR_UNSUPPORTED_VERSION ERROR_UNSUPPORTED_FEATURE ERROR_INVALID_ARGUMENT "
        "ERROR_INVALID_NULL_HANDLE ERROR_HANDLE_OBJECT_IN_USE ERROR_INVALID_NULL_POINTER ERROR_INVALID_SIZE "
        "ERROR_UNSUPPORTED_SIZE ERROR_UNSUPPORTED_ALIGNMENT ERROR_INVALID_SYNCHRONIZATION_OBJECT "
        "ERROR_INVALID_ENUMERATION ERROR_UNSUPPORTED_ENUMERATION ERROR_UNSUPPORTED_IMAGE_FORMAT "
        "ERROR_INVALID_NATIVE_BINARY ERROR_INVALID_GLOBAL_NAME ERROR_INVALID_KERNEL_NAME ERROR_INVALID_FUNCTION_NAME "
        "ERROR_INVALID_GROUP_SIZE_DIMENSION ERROR_INVALID_GLOBAL_WIDTH_DIMENSION ERROR_INVALID_KERNEL_ARGUMENT_INDEX "
        "ERROR_INVALID_KERNEL_ARGUMENT_SIZE ERROR_INVALID_KERNEL_ATTRIBUTE_VALUE ERROR_INVALID_MODULE_UNLINKED "
        "ERROR_INVALID_COMMAND_LIST_TYPE ERROR_OVERLAPPING_REGIONS WARNING_ACTION_REQUIRED "
        "ERROR_INVALID_KERNEL_HANDLE"
    ),
    0x7FFFFFFE: "ERROR_UNKNOWN",
}
RESULT_NAMES: dict[int, str] = {
    code: f"ZE_RESULT_{name}" for first, names in _RESULTS.items() for code, name in enumerate(names.split(), first)
}


def load() -> None:
    """Fill the table from the installed Level Zero loader, once. Raises `NotSupportedError` if it cannot be loaded,
    saying what to install, and `ImportError` if it lacks a required function.
    """
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise NotSupportedError(f"no Level Zero loader ({error}): {GET_DRIVER}") from None
    FUNCTIONS.load(library, "the Level Zero loader", "upgrade it (Debian, Ubuntu: libze1)", _NEWER)


def result_name(code: int) -> str:
    """Return the specification's name, or "error 0x…" if unknown. Codes of commands are negated."""
    code = abs(code)
    return RESULT_NAMES.get(code, f"error {code:#x}")


FUNCTIONS: FunctionTable = FunctionTable(
    <uintptr_t> &ze, tuple([(b"ze" + call_names[i]).decode() for i in range(N_CALLS)]), result_name,
    (0x70000002, 0x70000003, 0x78000009),  # host memory, device memory, unsupported size
    (DEVICE_LOST,))


cpdef int check(Status status, str what="") except -1:
    """Raise for a failed call. The message ends with `what`."""
    if status != 0:
        raise FUNCTIONS.failed(status, what)
    return 0


TABLE: int = <uintptr_t> &table


# -- devices and programs as Python objects: each is destroyed with its last reference


@cython.no_gc_clear
cdef class DeviceHandle:
    """A device in the context that its driver's devices share. Facts on events and timestamps are as in `ZeNative`."""

    cdef Ref[ZeDevice] device
    cdef object __weakref__

    def __init__(
        self, uintptr_t driver, uintptr_t device, mode: str, double nanoseconds_per_tick, int timestamp_bits
    ) -> None:
        check(ZeDevice.open(<void*> driver, <void*> device, MODES[mode], self.device), "opening the device")
        self.device.get().nanoseconds_per_tick = nanoseconds_per_tick
        self.device.get().timestamp_mask = (
            <uint64_t> -1 if timestamp_bits >= 64 else (<uint64_t> 1 << timestamp_bits) - 1)

    def __dealloc__(self):
        if is_forked():
            self.device.take()
        elif self.device.get() != NULL:
            self.device.get().close()
            self.device.clear()  # here: otherwise a pending Python error would be set while the driver is called

    @property
    def address(self) -> int:
        """The address of the ZeDevice, which is the context handle of the table."""
        return <uintptr_t> self.device.get()

    @property
    def context(self) -> int:
        return <uintptr_t> self.device.get().context.get().handle

    def create_queue(self, uint32_t ordinal, uint32_t index, uint32_t priority) -> tuple[int, int]:
        """Make an in-order immediate list. Returns the driver's handle and the table's, which the caller owns."""
        cdef Ref[ZeQueue] queue
        check(ZeQueue.create(self.device.get(), ordinal, index, priority, queue), "making a queue")
        return <uintptr_t> queue.get().list, <uintptr_t> queue.take()

    def makes_events(self) -> bool:
        """Whether the driver makes counter-based events."""
        cdef Ref[ZeEvent] event
        return ze.EventCounterBasedCreate != NULL and self.device.get().take_event(DEVICE_EVENT, event) == 0

    def list_flags(self, uint32_t ordinal) -> int | None:
        """The flags of a temporary in-order list; None if the driver does not report them."""
        cdef Ref[ZeQueue] queue
        cdef uint32_t flags = 0
        check(ZeQueue.create(self.device.get(), ordinal, 0, 0, queue))
        if ze.CommandListImmediateGetFlags == NULL or ze.CommandListImmediateGetFlags(queue.get().list, &flags) != 0:
            return None
        return flags


cdef class ZeProgram:
    """A program, compiled from a native binary or SPIR-V. Check the header of SPIR-V first: with a wrong one the
    driver's compiler ends the process. Raises `BuildError` with the compiler's log. Blocks while it compiles.
    """

    cdef Ref[ZeModule] module

    def __init__(self, DeviceHandle device not None, bytes binary not None, bint native, str options="") -> None:
        cdef ZeDevice* of = device.device.get()
        cdef ModuleDesc desc
        cdef bytes encoded = options.encode()
        cdef void* handle = NULL
        cdef void* log = NULL
        cdef Status status
        desc.format = FORMAT_NATIVE if native else FORMAT_SPIRV
        desc.size = len(binary)
        desc.input = <const uint8_t*> <const char*> binary
        desc.options = encoded
        with nogil:
            status = ze.ModuleCreate(of.context.get().handle, of.handle, &desc, &handle, &log)
        if status == 0:
            self.module = Ref[ZeModule].adopt(new ZeModule(device.device, handle))
        text = read_log(log)
        if status != 0:
            error = FUNCTIONS.failed(status)
            raise error if isinstance(error, OutOfMemoryError) else BuildError(f"{error}\n{text}", log=text)

    def __dealloc__(self):
        if is_forked():
            self.module.take()
        self.module.clear()

    def native_binary(self) -> bytes:
        cdef size_t size = 0
        check(ze.ModuleGetNativeBinary(self.module.get().handle, &size, NULL), "native binary")
        cdef bytearray binary = bytearray(size)
        if size:
            check(ze.ModuleGetNativeBinary(self.module.get().handle, &size, <uint8_t*> <char*> binary), "native binary")
        return bytes(binary)

    def variable(self, str name) -> ForeignMemory | None:
        """The memory of a variable, which keeps the program; None for an unknown name."""
        cdef bytes encoded = name.encode()
        cdef size_t nbytes = 0
        cdef void* address = NULL
        cdef Status status = ze.ModuleGetGlobalPointer(self.module.get().handle, encoded, &nbytes, &address)
        if <uint32_t> status == INVALID_GLOBAL_NAME:
            return None
        check(status, f"variable {name!r}")
        return ForeignMemory(self, <uintptr_t> address, nbytes)

    def limits(self, str name) -> tuple[int, tuple[int, int, int], int]:
        """A kernel's maximum of work-items, or 0; required group size, or zeros; bytes of its own local memory."""
        cdef void* kernel = self.new_kernel(name)
        cdef KernelProperties properties
        cdef GroupLimits group
        cdef Status status
        properties.next = &group
        status = ze.KernelGetProperties(kernel, &properties)
        ze.KernelDestroy(kernel)
        check(status, f"properties of kernel {name!r}")
        return group.items, tuple(properties.required_group[i] for i in range(3)), properties.local_bytes

    def cooperative_groups(self, str name, tuple block, list local_parameters, size_t local_bytes) -> int:
        """The driver's suggestion for groups that run at once. `local_bytes` go to the last local parameter."""
        cdef void* kernel = self.new_kernel(name)
        cdef uint32_t count = 0
        cdef uint32_t x = block[0], y = block[1], z = block[2]
        cdef Status status = ze.KernelSetGroupSize(kernel, x, y, z)
        cdef uint32_t last
        if status == 0 and local_parameters and local_bytes:
            last = local_parameters[-1]
            status = ze.KernelSetArgumentValue(kernel, last, local_bytes, NULL)
        if status == 0:
            status = ze.KernelSuggestMaxCooperativeGroupCount(kernel, &count)
        ze.KernelDestroy(kernel)
        check(status, f"kernel {name!r} in groups of {block}")
        return count

    cdef void* new_kernel(self, str name) except NULL:
        cdef KernelDesc desc
        cdef bytes encoded = name.encode()
        cdef void* kernel = NULL
        desc.name = encoded
        check(ze.KernelCreate(self.module.get().handle, &desc, &kernel), f"kernel {name!r}")
        return kernel

    def create_kernel(self, str name, bint follows_pointers) -> int:
        """Return the handle of a new kernel object, which the caller owns."""
        cdef unique_ptr[ZeKernel] kernel
        kernel.reset(new ZeKernel(self.new_kernel(name), self.module))
        if follows_pointers:
            check(ze.KernelSetIndirectAccess(kernel.get().handle, ALL_MEMORY), f"kernel {name!r}")
        return <uintptr_t> kernel.release()


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


@cython.no_gc_clear  # freeing needs the device
cdef class ZeMemory(NativeMemory):
    """Unified shared memory, freed with this object. Drop the last reference only when the device is done with it."""

    cdef DeviceHandle device

    def __init__(self, DeviceHandle device not None, size_t nbytes, str usm_type="device") -> None:
        cdef DeviceAllocDesc of_device
        cdef HostAllocDesc of_host
        cdef ZeDevice* of = device.device.get()
        cdef void* context = of.context.get().handle
        cdef void* address = NULL
        cdef Status status
        cdef bint of_both = usm_type == "shared", on_host = usm_type == "host"
        self.device = device
        self.nbytes = nbytes
        self.usm_type = usm_type
        with nogil:
            if on_host:
                status = ze.MemAllocHost(context, &of_host, nbytes, ALIGNMENT, &address)
            elif of_both:
                status = ze.MemAllocShared(context, &of_device, &of_host, nbytes, ALIGNMENT, of.handle, &address)
            else:
                status = ze.MemAllocDevice(context, &of_device, nbytes, ALIGNMENT, of.handle, &address)
        check(status, f"{nbytes} bytes of {usm_type} memory")
        self.address = <uintptr_t> address

    def __dealloc__(self):
        if self.address and not is_forked():
            with nogil:
                ze.MemFree(self.device.device.get().context.get().handle, <void*> self.address)
