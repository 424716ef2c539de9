"""Events that processes share, as Python sees them."""

from forebay.core.state cimport DeviceState, QueueState

cdef class IpcEvent:
    cdef DeviceState* state  # retained
    cdef void* handle  # owned
    cdef void* seen  # what the checker of races knows of this process's last record; owned; NULL: nothing
    cdef readonly object device
    cdef readonly bytes ipc_handle


cdef IpcEvent new_ipc_event(object device, DeviceState* state, size_t handle, bytes ipc_handle)
cdef int record_shared(object queue, QueueState* state, object capture, IpcEvent event) except -1
cdef int wait_for_shared(object queue, QueueState* state, object capture, IpcEvent event) except -1
