"""SYCL's contexts, programs and memory as Python objects, and handles of queues, kernels and events. operations.hpp has
the table of operations (`forebay.core.driver`). Its functions are looked up at run time in dpctl's library. With
DPCTL_VERBOSITY=error in the environment dpctl prints the reason of a failure on stderr.
"""

import ctypes
import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

cimport cython
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uintptr_t
from libcpp.vector cimport vector

from forebay.core.driver cimport Driver
from forebay.core.process cimport is_forked
from forebay.queues.memory.allocation cimport ForeignMemory, NativeMemory

from forebay.core.driver import Adopted, FunctionTable
from forebay.core.errors import (
    ArgumentTypeError, BuildError, Error, InvalidArgumentError, NotSupportedError, OutOfMemoryError
)
from forebay.queues.memory.shapes import are_contiguous

if TYPE_CHECKING:
    from collections.abc import Iterable

ctypedef void* (*Maker)(...) noexcept nogil
ctypedef void (*Doer)(...) noexcept nogil


# The header lists the parameters of each function, and the C++ compiler checks them.
cdef extern from "queues/sycl/operations.hpp" namespace "forebay_sycl" nogil:
    cdef enum:
        N_CALLS
        OUT_OF_MEMORY, HOLDS_ADOPTED, WAITS_FOR_HELD
        WORK_GROUP_MEMORY, RAW_ARGUMENT, SUBMITTED

    cdef struct Calls:
        Maker Queue_Copy, Event_Copy, Kernel_Copy, malloc_device, malloc_shared, malloc_host
        Maker KernelBundle_CreateFromOCLSource, KernelBundle_CreateFromSpirv, KernelBundle_GetKernel
        Doer KernelBundle_Delete, Kernel_Delete, free_with_context
        int (*USM_GetPointerType)(...) noexcept nogil
        size_t (*Kernel_GetWorkGroupSize)(...) noexcept nogil

    const char* const* call_names
    Calls sycl
    Driver table

    # The header says what each is. Their owners delete them; events go with the last reference.
    cdef cppclass SyclKernel:
        SyclKernel(void* kernel, vector[int] types) noexcept

    cdef cppclass SyclEvent:
        SyclEvent(int state, void* event) noexcept

    cdef cppclass SyclQueue:
        SyclQueue(void* queue, bint adopted) noexcept

    cdef cppclass SyclContext:
        void* context
        void* device
        void* queue
        void* joining


TABLE: int = <uintptr_t> &table
GATE_FAILED = "a command was refused, or was behind a gate that failed"


def error_name(code: int) -> str:
    """All codes have one name, because dpctl's C interface has no error codes."""
    return GATE_FAILED


FUNCTIONS: FunctionTable = FunctionTable(
    <uintptr_t> &sycl, tuple([(b"DPCTL" + call_names[i]).decode() for i in range(N_CALLS)]), error_name)

# Errors for forebay's own reasons, except a gate that failed
REFUSALS: dict[int, partial[Error]] = {
    OUT_OF_MEMORY: partial(
        OutOfMemoryError, "the host has no memory to hold a queue at a gate, or a command behind it"),
    HOLDS_ADOPTED: partial(
        NotSupportedError, "a queue of dpctl cannot be held: SYCL has no event that the host sets, and dpctl could "
        "submit behind the gate"),
    WAITS_FOR_HELD: partial(
        NotSupportedError, "a queue of dpctl cannot wait for what is behind a gate or a host function that has not "
        "returned: SYCL knows of it only afterwards; finish the other queue first"),
}

LIBRARY = "libDPCTLSyclInterface.so"


def load() -> None:
    """Fill the table from dpctl's library, once. Raises `ImportError` if dpctl is missing or lacks a function."""
    import dpctl

    path = Path(dpctl.__file__).with_name(LIBRARY)
    if not path.exists():
        raise ImportError(f"{path.parent} has no {LIBRARY}")
    FUNCTIONS.load(ctypes.CDLL(str(path)), f"dpctl {dpctl.__version__}", "forebay needs dpctl 0.21 or newer")


# -- contexts and programs as Python objects, and the handles of queues and kernels


USM_TYPES = ("", "device", "shared", "host")  # DPCTLSyclUSMType; empty for memory of another context
ARGUMENT_TYPES: dict[str, int] = {code: number for number, code in enumerate([*"bBhHiIqQfd", ""])}  # pointers have none
ARGUMENT_TYPES |= {"L": WORK_GROUP_MEMORY, "V": RAW_ARGUMENT}


@cython.no_gc_clear
cdef class ContextHandle:
    """A context, its device and two queues: dpctl's objects, which it keeps."""

    cdef SyclContext native
    cdef tuple kept

    def __init__(self, context: object, device: object, queue: object, joining: object) -> None:
        self.kept = context, device, queue, joining
        self.native.context = <void*> <uintptr_t> context.addressof_ref()
        self.native.device = <void*> <uintptr_t> device.addressof_ref()
        self.native.queue = <void*> <uintptr_t> queue.addressof_ref()
        self.native.joining = <void*> <uintptr_t> joining.addressof_ref()

    def __dealloc__(self):
        if is_forked():
            Py_INCREF(self.kept)  # they are the parent's

    @property
    def address(self) -> int:
        """The context handle of the table."""
        return <uintptr_t> &self.native


@cython.no_gc_clear
cdef class Bundle:
    cdef void* native
    cdef ContextHandle context

    def __init__(self, ContextHandle context not None, source: str | bytes, options: str) -> None:
        cdef size_t nbytes = len(source)
        cdef bint is_module = isinstance(source, bytes)
        cdef bytes code = source if is_module else source.encode()
        cdef bytes words = options.encode()
        cdef const char* text = code
        cdef const char* flags = words
        self.context = context
        with nogil:
            if is_module:
                self.native = sycl.KernelBundle_CreateFromSpirv(
                    self.context.native.context, self.context.native.device, text, nbytes, flags)
            else:
                self.native = sycl.KernelBundle_CreateFromOCLSource(
                    self.context.native.context, self.context.native.device, text, flags)
        if self.native == NULL:
            raise BuildError("SYCL does not build the program; with DPCTL_VERBOSITY=error dpctl says why on stderr")

    def __dealloc__(self):
        if self.native != NULL and not is_forked():
            sycl.KernelBundle_Delete(self.native)


@cython.no_gc_clear
cdef class BundledKernel:
    """A kernel without arguments."""

    cdef void* native
    cdef readonly Bundle bundle

    def __init__(self, Bundle bundle not None, name: str) -> None:
        cdef bytes text = name.encode()
        self.bundle = bundle
        self.native = sycl.KernelBundle_GetKernel(bundle.native, <const char*> text)
        if self.native == NULL:
            raise NotSupportedError(f"SYCL does not give out the kernel {name!r} of this program")

    def __dealloc__(self):
        if self.native != NULL and not is_forked():
            sycl.Kernel_Delete(self.native)

    @property
    def max_block(self) -> int:
        return sycl.Kernel_GetWorkGroupSize(self.native)

    def create(self, codes: Iterable[str]) -> int:
        """Return the handle of a kernel with its own arguments, of the types in `codes`, as in `Parameter`."""
        cdef vector[int] types
        cdef void* copied
        for code in codes:
            types.push_back(ARGUMENT_TYPES[code])
        copied = sycl.Kernel_Copy(self.native)
        if copied == NULL:
            raise Error("SYCL did not copy a kernel")
        return <uintptr_t> new SyclKernel(copied, types)


def adopt_event(uintptr_t address) -> int:
    """Return the handle of the event in a dpctl.SyclEvent, with a reference of its own."""
    cdef void* copied = sycl.Event_Copy(<void*> address)
    if copied == NULL:
        raise Error("SYCL did not copy an event")
    return <uintptr_t> new SyclEvent(SUBMITTED, copied)


def create_queue(uintptr_t address, adopted: bool) -> int:
    """Return the handle of the queue in a dpctl.SyclQueue, with a reference of its own."""
    cdef void* copied = sycl.Queue_Copy(<void*> address)
    if copied == NULL:
        raise Error("SYCL did not copy a queue")
    return <uintptr_t> new SyclQueue(copied, adopted)


# -- forebay's memory, and memory of dpctl and dpnp


INTERFACE = "__sycl_usm_array_interface__"


@cython.no_gc_clear  # freeing needs the context
cdef class OwnMemory(NativeMemory):
    """One allocation, freed with this object. Drop the last reference only when the device is done with it."""

    cdef ContextHandle context

    def __init__(self, ContextHandle context not None, size_t nbytes, str usm_type) -> None:
        cdef void* queue = context.native.queue
        cdef bint of_device = usm_type == "device", of_both = usm_type == "shared"
        self.context = context
        self.nbytes = nbytes
        self.usm_type = usm_type
        with nogil:
            if of_device:
                self.address = <uintptr_t> sycl.malloc_device(nbytes, queue)
            elif of_both:
                self.address = <uintptr_t> sycl.malloc_shared(nbytes, queue)
            else:
                self.address = <uintptr_t> sycl.malloc_host(nbytes, queue)
        if self.address == 0:
            raise OutOfMemoryError(f"DPCTLmalloc_{usm_type} returned no memory for {nbytes} bytes")

    def __dealloc__(self):
        if self.address and not is_forked():
            with nogil:
                sycl.free_with_context(<void*> self.address, self.context.native.context)


def adopt_memory(thing: object, ContextHandle context, name: str) -> Adopted | None:
    """As `DriverDevice.adopt_memory`; `name` is the device's."""
    from dpctl import memory

    cdef uintptr_t place
    interface = getattr(thing, INTERFACE, None)
    if not isinstance(interface, dict):
        return None
    try:
        address, read_only = interface["data"]
        shape = tuple([int(extent) for extent in interface["shape"]])
        dtype = np.dtype(interface["typestr"])
        strides = interface.get("strides")
        address = int(address or 0) + int(interface.get("offset", 0)) * dtype.itemsize
    except (KeyError, TypeError, ValueError) as error:
        raise ArgumentTypeError(
            f"as_buffer: the {INTERFACE} of this {type(thing).__name__} is not one ({error})") from None
    # dpctl's own memory objects claim to be read-only, but can be written (0.21, 0.22).
    if read_only and not isinstance(thing, (memory.MemoryUSMDevice, memory.MemoryUSMHost, memory.MemoryUSMShared)):
        raise InvalidArgumentError(f"as_buffer: this {type(thing).__name__} is read-only")
    if strides is not None and not are_contiguous(shape, tuple(strides), 1):
        raise InvalidArgumentError(
            f"as_buffer: this {type(thing).__name__} is not C-contiguous (shape {shape}, strides {tuple(strides)})")
    nbytes = math.prod(shape) * dtype.itemsize
    place = <uintptr_t> address
    usm_type = USM_TYPES[sycl.USM_GetPointerType(<void*> place, context.native.context)] if nbytes else "device"
    if not usm_type:
        raise InvalidArgumentError(
            f"as_buffer: the memory of this {type(thing).__name__} belongs to another SYCL context than {name}'s")
    return Adopted(ForeignMemory(thing, address, nbytes, usm_type), shape, dtype)
