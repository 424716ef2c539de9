"""Spilled arguments: bytes by value for pointer parameters. They are uploaded when they have changed, or the kernel may
have written to them.
"""

from libc.stdint cimport uint32_t, uint64_t

from forebay.core.driver cimport Status, Waits
from forebay.core.plan cimport Plan
from forebay.core.state cimport QueueState
from forebay.queues.kernels.kernel cimport Kernel
from forebay.sync.ordering cimport Order


# Copies of the bytes by value, as (index of the parameter, bytes)
cdef list spilled_bytes(Kernel kernel, const char* packed)
cdef void use_spills(Plan* plan, char* packed) noexcept nogil
cdef Status upload_spills(
    QueueState* state, Plan* plan, const char* packed, Waits waits, uint64_t* uploads, uint32_t* failed_at
) noexcept nogil
cdef void apply_uploads(QueueState* state, Order* order, uint64_t uploads) noexcept nogil
cdef Status end_uploads(QueueState* state, Order* order, uint64_t uploads, Status status) noexcept nogil  # unlocks
cdef bint needs_uploads(Plan* plan) noexcept nogil
cdef Status upload_again(
    QueueState* state, Plan* plan, Waits waits, uint64_t* uploads, uint32_t* failed_at
) noexcept nogil
cdef int make_room(object queue, QueueState* state, uint64_t kernel_id, Plan* bound, const char* packed) except -1
