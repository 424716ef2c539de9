"""Fills convert a value to the dtype of a buffer and make the pattern that the drivers repeat."""

from forebay.core.driver cimport Status
from forebay.core.state cimport QueueState
from forebay.queues.memory.buffer cimport Buffer, note_write
from forebay.sync.ordering cimport Order, begin_command, end_command, waits_of

from forebay.core.errors import ArgumentTypeError, InvalidArgumentError
from forebay.queues.memory.shapes import convert


cdef int fill(object queue, QueueState* state, object buf, object value) except -1:
    """Implement `Queue.fill`."""
    cdef Order order
    cdef Status status
    if not isinstance(buf, Buffer):
        raise ArgumentTypeError(f"fill() needs a Buffer, not {type(buf).__name__}")
    cdef Buffer buffer = buf
    queue._check_buffer(buffer, "buf")
    pattern = fill_pattern(buffer, value)
    cdef const unsigned char[::1] view = pattern
    cdef size_t size = len(pattern)
    if buffer.nbytes == 0:
        return 0
    with nogil:
        status = begin_command(state, &order)
        if status == 0:
            # the drivers copy the pattern before they return
            status = state.driver.fill(
                state.handle, &buffer.memory, &view[0], size, buffer.nbytes, waits_of(&order), NULL)
            state.counts.fills += status == 0
            end_command(state, &order, status)
    if status != 0:
        queue._raise(status, "fill")
    note_write(buffer, state)
    return 0


cdef bytes fill_pattern(Buffer buf, object value):
    try:
        element = convert(value, buf.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"fill: {value!r} does not fit {buf.dtype} ({error})") from None
    if element.ndim:
        raise InvalidArgumentError(f"fill needs one value, not an array of shape {element.shape}")
    pattern = element.tobytes()
    if len(set(pattern)) == 1:
        pattern = pattern[:1]
    if len(pattern) > 128 or len(pattern) & (len(pattern) - 1):
        raise InvalidArgumentError(
            f"fill: an element of {len(pattern)} bytes; the device fills with 1, 2, 4, … 128")
    return pattern
