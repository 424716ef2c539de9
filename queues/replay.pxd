"""Graphs made ready to run."""

from libcpp.vector cimport vector

from penstock.queues.driver cimport Command, Driver, Memory, Status
from penstock.queues.host_functions cimport Call
from penstock.queues.plan cimport Plan
from penstock.queues.state cimport DeviceState, QueueState


cdef enum StepKind:
    COMMANDS  # submitted one by one
    RECORDED  # by one call of the driver
    HOST_CALL


cdef struct Step:
    StepKind kind
    size_t first  # of the commands, or which of the host functions
    size_t count
    void* recording  # owned


cdef class Prepared:
    cdef DeviceState* state  # retained
    cdef const Driver* driver
    cdef vector[Command] commands
    cdef vector[Step] steps
    cdef vector[Plan*] plans  # owned
    cdef dict by_arguments  # index of a plan by kernel id and packed arguments
    cdef list functions
    cdef list kept  # all that has to live as long as this
    cdef int add(self, Command command) except -1
    cdef int add_host(self, object function) except -1
    cdef int add_copy(self, const Memory* to, const Memory* source, size_t nbytes) except -1


cdef class Replay:
    cdef Prepared prepared
    cdef vector[Step]* steps
    cdef vector[Command]* commands


cdef Replay new_replay(object device, QueueState* queue, list works)
cdef Status submit_replay(
    QueueState* queue, vector[Step]* steps, vector[Command]* commands, vector[Call*]& calls, size_t* called, bint* began
) noexcept nogil
