"""Memory of SYCL devices, and memory of dpctl and dpnp that they take over."""

import math

import numpy as np

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport uintptr_t

from forebay.core.process cimport is_forked
from forebay.queues.sycl.calls cimport sycl
from forebay.queues.sycl.operations cimport ContextHandle

from forebay.core.driver import Adopted
from forebay.core.errors import ArgumentTypeError, InvalidArgumentError, OutOfMemoryError
from forebay.queues.memory.shapes import are_contiguous

INTERFACE = "__sycl_usm_array_interface__"


cdef class UsmMemory:
    """USM memory. Shared and host memory has the buffer protocol, because the host can read and write it."""

    cdef readonly uintptr_t address
    cdef readonly uintptr_t handle  # always 0: SYCL memory has addresses only
    cdef readonly size_t nbytes
    cdef readonly str usm_type

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        if self.usm_type == "device":
            raise BufferError("device memory cannot be read by the host")
        PyBuffer_FillInfo(buffer, self, <void*> self.address, self.nbytes, False, flags)


@cython.no_gc_clear  # freeing needs the context
cdef class OwnMemory(UsmMemory):
    """One allocation, freed with this object. Drop the last reference only when the device is done with the memory."""

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


@cython.no_gc_clear
cdef class AdoptedMemory(UsmMemory):
    """Memory of another owner. This object keeps the owner alive."""

    cdef readonly object owner

    def __init__(self, owner: object, uintptr_t address, size_t nbytes, str usm_type) -> None:
        self.owner = owner
        self.address = address
        self.nbytes = nbytes
        self.usm_type = usm_type


def adopt_memory(thing: object, ContextHandle context, name: str) -> Adopted | None:
    """As `DriverDevice.adopt_memory`, for the device of this name."""
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
            f"as_buffer: the {INTERFACE} of this {type(thing).__name__} is not one ({error})"
        ) from None
    # dpctl's own memory objects claim to be read-only although they can be written (0.21, 0.22).
    if read_only and not isinstance(thing, _memory_classes()):
        raise InvalidArgumentError(f"as_buffer: this {type(thing).__name__} is read-only")
    if strides is not None and not are_contiguous(shape, tuple(strides), 1):
        raise InvalidArgumentError(
            f"as_buffer: this {type(thing).__name__} is not C-contiguous (shape {shape}, strides {tuple(strides)})"
        )
    nbytes = math.prod(shape) * dtype.itemsize
    usm_type = context.usm_type_at(address) if nbytes else "device"
    if not usm_type:
        raise InvalidArgumentError(
            f"as_buffer: the memory of this {type(thing).__name__} belongs to another SYCL context than {name}'s"
        )
    return Adopted(AdoptedMemory(thing, address, nbytes, usm_type), shape, dtype)


def _memory_classes() -> tuple[type, ...]:
    from dpctl import memory

    return memory.MemoryUSMDevice, memory.MemoryUSMHost, memory.MemoryUSMShared
