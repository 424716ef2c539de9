"""What the launches of a graph submit."""

from libc.stdint cimport uint32_t
from libcpp.vector cimport vector

from forebay.core.driver cimport Command, Driver, Memory
from forebay.core.plan cimport Plan
from forebay.core.state cimport DeviceState
from forebay.queues.graphs.submission cimport StepKind, Submission


cdef class Prepared:
    cdef DeviceState* state  # retained
    cdef const Driver* driver
    cdef Submission* submission  # owned
    cdef uint32_t lane  # the lane of the steps added next
    cdef bint cut  # the next command begins a new step
    cdef vector[Plan*] plans  # owned
    cdef vector[uint32_t] sharers  # by plan: how many launches it is for
    cdef dict by_arguments  # index of a plan by lane, kernel id and packed arguments
    cdef dict scratch  # Scratch by lane, kernel and index of the parameter; empty on a debugging device
    cdef dict room  # bytes of each scratch of a KernelWork, on the lane where it has the least
    cdef bint changeable  # its recordings can be changed
    cdef bint not_now  # something is not recorded that could be at another time
    cdef vector[size_t] command_of  # by node: the index of its launch, NO_LAUNCH for other nodes
    cdef vector[size_t] step_of
    cdef vector[size_t] plan_of
    cdef vector[vector[uint32_t]] after  # by command: those that it comes after; empty where each follows the last
    cdef list guards  # of a debugging device
    cdef list functions
    cdef list kept  # objects that must live as long as this one, the works first
    cdef int add(self, Command command, Plan* following=*) except -1
    cdef int add_step(self, StepKind kind, size_t first, size_t count) except -1
    cdef int add_host(self, object function) except -1
    cdef int add_copy(self, const Memory* to, const Memory* source, size_t nbytes) except -1
