"""Fills convert a value to the dtype of a buffer and make the pattern that the drivers repeat."""

from forebay.core.driver cimport Status
from forebay.core.epochs cimport submitted_epoch
from forebay.core.state cimport QueueState
from forebay.core.uses cimport Uses, note_use
from forebay.queues.memory.buffer cimport Buffer, hold_memory
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
    cdef Uses* uses = buffer.allocation.uses
    if buffer.nbytes == 0:
        return 0
    held = hold_memory(buffer, "buf")  # `value` may have closed it, and another thread may
    with nogil:
        status = begin_command(state, &order)
        if status == 0:
            # the drivers copy the pattern before they return
            status = state.driver.fill(
                state.handle, &buffer.memory, &view[0], size, buffer.nbytes, waits_of(state, &order), NULL)
            if status == 0:
                state.counts.fills += 1
                note_use(uses, state.epochs, submitted_epoch(state.epochs) + 1, True)
            end_command(state, &order, status)
    del held
    if status != 0:
        queue._raise(status, "fill")
    return 0


cdef bytes fill_pattern(Buffer buf, object value):
    """Return the bytes to repeat. OpenCL wants them to begin at a multiple of their number, and so do all."""
    cdef Py_ssize_t size
    try:
        element = convert(value, buf.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"fill: {value!r} does not fit {buf.dtype} ({error})") from None
    if element.ndim:
        raise InvalidArgumentError(f"fill needs one value, not an array of shape {element.shape}")
    pattern = element.tobytes()
    for size in (1, 2, 4, 8, 16, 32, 64, 128):
        if len(pattern) % size == 0 and pattern == pattern[:size] * (len(pattern) // size):
            break
    else:
        raise InvalidArgumentError(
            f"fill: an element of {len(pattern)} bytes; the device fills with 1, 2, 4, … 128")
    if buf.nbytes and (buf.memory.offset | buf.memory.address) % <size_t> size:
        raise InvalidArgumentError(
            f"fill: elements of {buf.itemsize} bytes from byte {buf.start} on; the device fills with {size} bytes at "
            f"multiples of {size}")
    return pattern[:size]
