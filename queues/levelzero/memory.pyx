"""Memory of Level Zero devices."""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport uintptr_t

from forebay.core.driver cimport Status
from forebay.core.process cimport is_forked
from forebay.queues.levelzero.calls cimport DeviceAllocDesc, HostAllocDesc, check, ze
from forebay.queues.levelzero.operations cimport DeviceHandle

cdef enum:
    ALIGNMENT = 128  # of the largest element type, double16


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
                status = ze.MemAllocHost(context, &of_host, nbytes, ALIGNMENT, &address)
            elif of_both:
                status = ze.MemAllocShared(
                    context, &of_device, &of_host, nbytes, ALIGNMENT, device.device.handle, &address)
            else:
                status = ze.MemAllocDevice(context, &of_device, nbytes, ALIGNMENT, device.device.handle, &address)
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
