# For observers of drivers whose operations are wrapped, see operations.hpp.

cdef extern from "tests/observers/operations.hpp" namespace "forebay_observer" nogil:
    void wrap_operations(Driver& table)
    uintptr_t (*queue_handle)(void* queue) noexcept
    uintptr_t (*event_handle)(void* event) noexcept

cdef Driver unwrapped


cdef Driver* table() noexcept:
    cdef uintptr_t address = operations.table_address()
    return <Driver*> address


cdef void begin_operations() noexcept:
    global unwrapped
    unwrapped = table()[0]
    wrap_operations(table()[0])


cdef void end_operations() noexcept:
    table()[0] = unwrapped
