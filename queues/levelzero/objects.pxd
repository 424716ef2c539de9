"""The driver's objects as Python objects."""

from forebay.queues.levelzero.handles cimport ZeDevice


cdef class DeviceHandle:
    cdef ZeDevice* device
    cdef object __weakref__
