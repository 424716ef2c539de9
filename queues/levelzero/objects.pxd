"""The driver's objects as Python sees them."""

from forebay.queues.levelzero.handles cimport Device


cdef class DeviceHandle:
    cdef Device* device
    cdef object __weakref__
