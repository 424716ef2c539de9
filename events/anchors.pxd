"""Anchors keep a resource alive until the device is done with it."""

from forebay.core.state cimport DeviceState, QueueState


cdef void anchor_on_device(DeviceState* device, object thing)
cdef void collect_queue(QueueState* queue)
cdef void collect_device(DeviceState* device)
cdef void abandon_device(DeviceState* device, object driver)
cdef void collect_abandoned()
