"""Fills convert a value to the dtype of a buffer and make the pattern that the drivers repeat. And prefetches."""

from forebay.core.driver cimport Status
from forebay.core.epochs cimport submitted_epoch
from forebay.core.state cimport QueueState
from forebay.core.uses cimport Uses, note_use
from forebay.queues.memory.allocation cimport hold_memory
from forebay.queues.memory.buffer cimport Buffer, add_use
from forebay.races.checker cimport command, withdraw
from forebay.races.engine cimport Announcement
from forebay.sync.ordering cimport Order, begin_command, end_command, waits_of

import numpy as np

from forebay.core.errors import ArgumentTypeError, InvalidArgumentError
from forebay.queues.memory.shapes import convert, shortened


cdef int fill(object queue, QueueState* state, object buf, object value) except -1:
    """Implement `Queue.fill`."""
    if not isinstance(buf, Buffer):
        raise ArgumentTypeError(f"fill() needs a Buffer, not {type(buf).__name__}")
    cdef Buffer buffer = buf
    queue._check_buffer(buffer, "buf")
    element = element_bytes(buffer, value)
    cdef bytes pattern = repeated_bytes(buffer, element)
    if pattern is None:
        return fill_by_copies(queue, buffer, element)
    return fill_bytes(queue, state, buffer, pattern, len(pattern))


cdef int fill_unchecked(
    object queue, QueueState* state, Buffer buffer, const unsigned char* first, size_t size
) except -1:
    cdef Order order
    cdef Status status
    cdef Uses* uses = buffer.allocation.uses
    if buffer.nbytes == 0:
        return 0
    held = hold_memory(buffer.allocation, "buf")  # the value may have closed it, and another thread may
    with nogil:
        status = begin_command(state, &order)
        if status == 0:
            # the drivers copy the pattern before they return
            status = state.driver.fill(
                state.handle, &buffer.memory, first, size, buffer.nbytes, waits_of(state, &order), NULL)
            if status == 0:
                state.counts.fills += 1
                note_use(uses, state.epochs, submitted_epoch(state.epochs) + 1, True)
            end_command(state, &order, status)
    del held
    if status != 0:
        queue._raise(status, "fill")
    return 0


cdef int prefetch(object queue, QueueState* state, Buffer buffer, bint to_host) except -1:
    """Implement `Queue._prefetch`."""
    cdef Order order
    cdef Status status
    cdef Uses* uses = buffer.allocation.uses
    queue._check_buffer(buffer, "buf")
    if not queue.device.driver.prefetches or buffer.nbytes == 0:
        return 0
    held = hold_memory(buffer.allocation, "buf")
    with nogil:
        status = begin_command(state, &order)
        if status == 0:
            status = state.driver.prefetch(
                state.handle, &buffer.memory, buffer.nbytes, to_host, waits_of(state, &order))
            if status == 0:
                note_use(uses, state.epochs, submitted_epoch(state.epochs) + 1, False)
            end_command(state, &order, status)
    del held
    if status != 0:
        queue._raise(status, "prefetch")
    return 0


cdef int fill_checked(
    object queue, QueueState* state, Buffer buffer, const unsigned char* first, size_t size
) except -1:
    """Fill on a queue that is checked for races."""
    cdef Announcement uses
    add_use(buffer, True, "fill", uses)
    command(queue, state, uses)
    try:
        return fill_unchecked(queue, state, buffer, first, size)
    except BaseException:
        withdraw(uses)
        raise


cdef bytes fill_pattern(Buffer buf, object value):
    """Return the bytes that a node of a graph repeats."""
    pattern = repeated_bytes(buf, element_bytes(buf, value))
    if pattern is None:
        raise InvalidArgumentError(
            f"fill: elements of {buf.itemsize} bytes from byte {buf.start} on; in a graph the device fills with 1, 2, "
            "4, … 128 bytes at multiples of these")
    return pattern


cdef int fill_by_copies(object queue, Buffer buffer, bytes element) except -1:
    """Fill with what the device cannot repeat by itself: each copy doubles the part that is done."""
    cdef size_t done = len(element)
    flat = buffer.reshape(-1).view(np.uint8)
    if buffer.nbytes:
        queue.copy(flat[:done], element)
    while done < buffer.nbytes:
        more = min(done, buffer.nbytes - done)
        queue.copy(flat[done:done + more], flat[:more])
        done += more
    return 0


cdef bytes element_bytes(Buffer buf, object value):
    try:
        element = convert(value, buf.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"fill: {shortened(value)} does not fit {buf.dtype} ({error})") from None
    if element.ndim:
        raise InvalidArgumentError(f"fill needs one value, not an array of shape {element.shape}")
    return element.tobytes()


cdef bytes repeated_bytes(Buffer buf, bytes pattern):
    """Return the bytes to repeat. OpenCL wants them to begin at a multiple of their number, and so do all.

    None where the device fills with no such bytes.
    """
    cdef Py_ssize_t size
    for size in (1, 2, 4, 8, 16, 32, 64, 128):
        if len(pattern) % size == 0 and pattern == pattern[:size] * (len(pattern) // size):
            break
    else:
        return None
    if buf.nbytes and (buf.memory.offset | buf.memory.address) % <size_t> size:
        return None
    return pattern[:size]
