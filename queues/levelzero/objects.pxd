"""The driver's objects as Python sees them."""

from forebay.queues.levelzero.handles cimport ZeDevice


cdef class DeviceHandle:
    cdef ZeDevice* device
    cdef object __weakref__
