# For observers of drivers whose operations are wrapped, see operations.hpp.

cdef extern from "tests/observers/operations.hpp" namespace "forebay_observer" nogil:
    void wrap_operations(Driver& table)
    uintptr_t (*queue_handle)(void* queue) noexcept
    uintptr_t (*event_handle)(void* event) noexcept
    cbool lies_about_waits
    void (*open_at_once)(void* gate) noexcept

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


cdef void open_gate(void* gate) noexcept nogil:
    unwrapped.open_gate(gate, False)


cdef void (*opens)(void* gate) noexcept nogil
opens = open_gate


def lie(waits=False, gates=False):
    """From here on, while the observer is on, the driver is no good: it launches without waits, or no gate holds.

    So tests see that the checker notices. Without arguments it is honest again.
    """
    global lies_about_waits, open_at_once
    lies_about_waits = waits
    open_at_once = NULL
    if gates:
        open_at_once = opens
