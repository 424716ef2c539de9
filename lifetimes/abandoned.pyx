"""Releases what contexts that are gone have left behind, once no outstanding work can use it any more."""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libcpp.vector cimport vector

from forebay.core.state cimport DeviceState, release_device_state
from forebay.lifetimes.collection cimport collect_all
from forebay.lifetimes.queue_ends cimport release_idle_queues
from forebay.lifetimes.retired cimport has_something


cdef struct Abandoned:
    DeviceState* state  # retained
    PyObject* driver  # owned


cdef vector[Abandoned] abandoned  # with work outstanding; only touched with the GIL


cdef void abandon(DeviceState* state, object driver):
    Py_INCREF(driver)
    abandoned.push_back(Abandoned(state, <PyObject*> driver))
    collect_abandoned()


cdef void collect_abandoned():
    """Release what can be released by now."""
    cdef vector[Abandoned] contexts
    cdef size_t i
    contexts.swap(abandoned)  # more may be abandoned meanwhile
    for i in range(contexts.size()):
        collect_all(contexts[i].state)
        if has_something(contexts[i].state):
            abandoned.push_back(contexts[i])
        else:
            release_idle_queues(contexts[i].state, 0)
            release_device_state(contexts[i].state)
            Py_DECREF(<object> contexts[i].driver)
