"""Copies. Besides the driver call, a copy needs host memory that neither changes nor moves until it was read.

A pageable source is staged: its bytes are copied at once to memory that nobody else can change and that the device can
read without the driver's help. A pageable destination is given to drivers that take it. For other drivers (Level Zero's
would make the caller wait with the queue locked) the copy fills staging memory and waits, as in CUDA and HIP.
"""

import numpy as np
from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS, PyBUF_WRITABLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
)
from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF, Py_XINCREF
from libc.stdint cimport uintptr_t
from libc.string cimport memcpy
from libcpp.vector cimport vector

from forebay.core.driver cimport FOR_HOST, HOST_MEMORY, Memory, Status, element_of
from forebay.core.epochs cimport submitted_epoch
from forebay.core.marker cimport Marker, new_marker, retain_marker
from forebay.core.state cimport QueueAnchor, QueueState
from forebay.core.uses cimport Uses, note_use
from forebay.events.event cimport new_event, reach, set_marker
from forebay.lifetimes.collection cimport collect_queue
from forebay.queues.memory.allocation cimport hold_memory
from forebay.queues.memory.buffer cimport Buffer
from forebay.sync.ordering cimport Order, abort_command, apply_command, begin_command, end_order, waits_of

from forebay.core.errors import ArgumentTypeError, ClosedError, InvalidArgumentError, NotSupportedError
from forebay.core.process import refuse_on_host_thread
from forebay.queues.memory.foreign import host_array
from forebay.queues.memory.shapes import check_copied
from forebay.queues.memory.strided import StridedView, copy_strided


cdef int copy(object queue, QueueState* state, object dst, object src) except -1:
    """Implement `Queue.copy`."""
    if isinstance(dst, Buffer) and isinstance(src, Buffer):
        copy_buffers(queue, state, dst, src)
    elif type(dst) is StridedView or type(src) is StridedView:
        queue._check_open()
        copy_strided(queue, dst, src)
    elif isinstance(dst, Buffer):
        upload(queue, state, dst, src)
    elif isinstance(src, Buffer):
        download(queue, state, dst, src)
    else:
        raise ArgumentTypeError(
            f"copy(dst, src) needs at least one Buffer, not {type(dst).__name__} and {type(src).__name__}")
    return 0


cdef int check_size(size_t to, size_t source) except -1:
    if to != source:
        raise InvalidArgumentError(f"copy of {source} bytes to {to} bytes: both must be the same")
    return 0


cdef int check_overlap(Buffer dst, Buffer src) except -1:
    if dst.allocation is src.allocation and (
        dst.start < src.start + src.nbytes and src.start < dst.start + dst.nbytes
    ):
        raise InvalidArgumentError("copy between overlapping parts of one Buffer")
    return 0


cdef int copy_buffers(object queue, QueueState* state, Buffer dst, Buffer src) except -1:
    if dst.allocation.state != state.device and src.allocation.state == state.device:
        raise InvalidArgumentError(
            f"copy to another device ({dst.device.name}) is submitted on a queue of that device")
    check_size(dst.nbytes, src.nbytes)
    if element_of(dst.memory.kind) != element_of(src.memory.kind):
        check_copied(dst, src)
    queue._check_buffer(dst, "dst")
    if src.allocation.state != state.device:
        return copy_between_devices(queue, state, dst, src)
    queue._check_buffer(src, "src")
    check_overlap(dst, src)
    if are_of_two_kinds(&dst.memory, &src.memory) and not queue.device.driver.copies_between_kinds:
        raise NotSupportedError(
            f"copy between memory of another package and memory of forebay: {queue.device.name} has no command for "
            "that, because one has only a handle and the other only an address; copy through a NumPy array")
    submit_copy(queue, state, dst, NULL, src, NULL, dst.nbytes, None, NULL)
    return 0


cdef bint are_of_two_kinds(const Memory* one, const Memory* other) noexcept:
    """Return whether one is only a memory object and the other only an address."""
    return (one.handle == NULL) != (other.handle == NULL) and (one.address == 0) != (other.address == 0)


cdef int copy_between_devices(object queue, QueueState* state, Buffer dst, Buffer src) except -1:
    """Copy through the host. First the other device's null queue, which comes after its blocking work, reads `src`."""
    cdef Memory memory
    if src.allocation.closed:
        raise ClosedError("copy: src is closed")
    if src.allocation.state.driver != state.driver:
        upload(queue, state, dst, src.get())  # a driver cannot wait for another driver's events, so this blocks
        return 0
    staged = queue.device.driver.stage(src.nbytes)
    other = src.device.null_queue
    memory = host_memory_of(staged)
    other._copy_to_staging(staged, src)
    queue.wait(other)
    submit_copy(queue, state, dst, NULL, None, &memory, dst.nbytes, staged, NULL)
    return 0


cdef object copy_to_staging(object queue, QueueState* state, object staged, Buffer src):
    """Copy to memory from `stage`, asynchronously. Returns an Event that is done when the bytes are there."""
    cdef Memory memory = host_memory_of(staged)
    cdef Marker* marker = NULL
    queue._check_buffer(src, "src")
    event = new_event(queue.device, state.device, False)
    submit_copy(queue, state, None, &memory, src, NULL, src.nbytes, staged, &marker)
    if marker != NULL:
        set_marker(event, marker, False, queue)
    return event


cdef int upload(object queue, QueueState* state, Buffer dst, object src) except -1:
    cdef Py_buffer view
    cdef Memory memory
    queue._check_buffer(dst, "dst")
    src = shown(src)
    try:
        open_view(src, &view, False)
    except ArgumentTypeError:
        if not isinstance(src, np.ndarray) or src.flags.c_contiguous or src.dtype.hasobject:
            raise
        src = np.ascontiguousarray(src)
        open_view(src, &view, False)
    try:
        check_size(dst.nbytes, view.len)
        check_copied(dst, src)
        if queue.device._is_pinned(src):
            staged = src
            memory = host_memory(<uintptr_t> view.buf)
        else:
            staged = queue.device.driver.stage(view.len)
            memory = host_memory_of(staged)
            memcpy(<void*> <uintptr_t> memory.address, view.buf, view.len)
        submit_copy(queue, state, dst, NULL, None, &memory, dst.nbytes, staged, NULL)
    finally:
        PyBuffer_Release(&view)
    return 0


cdef int download(object queue, QueueState* state, object dst, Buffer src) except -1:
    cdef Py_buffer view
    cdef Memory memory
    queue._check_buffer(src, "src")
    dst = shown(dst)
    open_view(dst, &view, True)
    try:
        check_size(view.len, src.nbytes)
        check_copied(dst, src)
        if queue.device.driver.takes_pageable or queue.device._is_pinned(dst):
            memory = host_memory(<uintptr_t> view.buf)
            submit_copy(queue, state, None, &memory, src, NULL, src.nbytes, pin_view(dst), NULL)
        else:
            download_staged(queue, state, view.buf, src)
    finally:
        PyBuffer_Release(&view)
    return 0


cdef int download_staged(object queue, QueueState* state, void* to, Buffer src) except -1:
    cdef vector[Marker*] markers
    cdef Marker* marker = NULL
    cdef Memory memory
    refuse_on_host_thread("copy to pageable memory, which waits on this device,")
    staged = queue.device.driver.stage(src.nbytes)
    memory = host_memory_of(staged)
    submit_copy(queue, state, None, &memory, src, NULL, src.nbytes, staged, &marker)
    if marker == NULL:
        return 0
    markers.push_back(marker)
    reach(queue.device, state.device, markers, f"copy on {queue!r}")
    memcpy(to, <const void*> <uintptr_t> memory.address, src.nbytes)
    return 0


cdef int submit_copy(
    object queue, QueueState* state, Buffer to, Memory* to_host, Buffer source, Memory* source_host, size_t nbytes,
    object anchor, Marker** done
) except -1:
    """Submit a copy. Each end is a Buffer, or None and host memory. Host memory of an asynchronous copy is anchored
    until the copy's own event is done.

    If `done` is not NULL, it receives a reference to the marker of an anchored copy. It stays unchanged when there are
    no bytes to copy.
    """
    cdef Order order
    cdef Status status
    cdef void* event = NULL
    cdef Marker* marker
    cdef bint anchored = anchor is not None
    cdef PyObject* thing = <PyObject*> anchor
    cdef Memory* dst = to_host if to is None else &to.memory
    cdef Memory* src = source_host if source is None else &source.memory
    cdef Uses* written = NULL
    cdef Uses* read = NULL
    if to is not None:
        written = to.allocation.uses
    if source is not None:
        read = source.allocation.uses
    # Another thread may close the buffers while the GIL is released.
    held = [
        hold_memory((<Buffer> each).allocation, what)
        for each, what in ((to, "dst"), (source, "src")) if each is not None]
    if nbytes == 0:
        return 0
    collect_queue(state)  # or a program that never waits would keep the host memory of all its copies
    Py_XINCREF(thing)
    with nogil:
        status = begin_command(state, &order)
        if status == 0:
            status = state.driver.copy(
                state.handle, dst, src, nbytes, waits_of(state, &order), &event if anchored else NULL)
            if status != 0:
                abort_command(state, &order)
            else:
                state.counts.copies += 1
                apply_command(state, &order)
                if written != NULL:
                    note_use(written, state.epochs, submitted_epoch(state.epochs), True)
                if read != NULL:
                    note_use(read, state.epochs, submitted_epoch(state.epochs), False)
                if anchored:
                    state.counts.events_made += 1
                    marker = new_marker(
                        state.epochs, submitted_epoch(state.epochs), state.clock, event, state.driver,
                        state.device.context, FOR_HOST)
                    if done != NULL:
                        done[0] = retain_marker(marker)
                    state.anchors.push_back(QueueAnchor(marker, thing))
                state.lock.unlock()
                end_order(&order)
    del held
    if status != 0 or not anchored:
        Py_XDECREF(thing)
    if status != 0:
        queue._raise(status, "copy")
    return 0


cdef Memory host_memory(uintptr_t address):
    cdef Memory memory
    memory.handle = NULL
    memory.address = address
    memory.offset = 0
    memory.kind = HOST_MEMORY
    return memory


cdef Memory host_memory_of(object staged):
    """Return the Memory of an array that a driver's `stage` made."""
    cdef const unsigned char[::1] view = staged
    return host_memory(<uintptr_t> &view[0] if view.shape[0] else 0)


cdef object shown(object host):
    """Return what has the buffer protocol: an array over the memory of a tensor, anything else as it is."""
    if PyObject_CheckBuffer(host) or not hasattr(type(host), "__dlpack__"):
        return host
    return host_array(host, "copy")


cdef object pin_view(object host):
    """Return a view that keeps the object alive and its memory from being moved or resized."""
    return host.view() if isinstance(host, np.ndarray) else memoryview(host)


cdef int open_view(object host, Py_buffer* view, bint writable) except -1:
    if (isinstance(host, np.ndarray) and host.dtype.hasobject) or (isinstance(host, memoryview) and "O" in host.format):
        raise ArgumentTypeError("copy: references to Python objects are no bytes to copy")
    try:
        PyObject_GetBuffer(host, view, PyBUF_C_CONTIGUOUS | (PyBUF_WRITABLE if writable else 0))
    except (TypeError, BufferError, ValueError) as error:
        if isinstance(host, np.ndarray) and not host.flags.c_contiguous:
            instead = "buffer.get(out=array) waits and then writes to it" if writable else "np.ascontiguousarray(array)"
            raise ArgumentTypeError(
                f"copy: this array is not C-contiguous (shape {host.shape}, strides {host.strides} bytes): {instead}"
            ) from None
        instead = ": use a NumPy array" if isinstance(host, (list, tuple)) else ""
        raise ArgumentTypeError(
            f"copy needs a Buffer or {'writable, ' if writable else ''}C-contiguous host memory, "
            f"not this {type(host).__name__}{instead} ({error})") from None
    return 0
