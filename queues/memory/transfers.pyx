"""Copies and fills. A copy needs memory that is neither freed nor moved until it was read and written.

The copy is noted as a use of Buffers and pinned host memory, which keeps them. Such a copy is submitted as a launch is:
when nothing must be gathered and the driver cannot block, the GIL is kept.

A pageable source is staged: its bytes are copied at once to private memory that the device can read without the
driver's help. A pageable destination is passed to drivers that accept it. For others (Level Zero's would block the
caller with the queue locked) the copy fills staging memory and waits, as in CUDA and HIP. Staging memory and pageable
destinations are kept until the queue has reached the copy's epoch.
"""

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_Release,
    PyObject_CheckBuffer, PyObject_GetBuffer
)
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport uint64_t, uintptr_t
from libc.string cimport memset
from libcpp.utility cimport move

from forebay.core.driver cimport FOR_HOST, HOST_MEMORY, Memory, Status, Waits, element_of
from forebay.core.ownership cimport Ref, Refs
from forebay.core.state cimport AnyQueue, Marker, QueueState, closed_gates, is_closed, new_marker
from forebay.core.usage cimport Usage
from forebay.core.vector_clock cimport submitted_epoch
from forebay.events.event cimport Event, new_event, set_marker
from forebay.lifetimes.deferred cimport collect_device, collect_queue, retire_after
from forebay.queues.memory.allocation cimport NativeMemory, OwnedMemory, hold_memory, pinned_memory_of
from forebay.queues.memory.buffer cimport Buffer, add_use
from forebay.races.checker cimport (
    Announcement, announce, announce_use, is_checked, is_observed, on_host, record_point, settle
)
from forebay.sync.finish cimport wait_for_markers
from forebay.sync.ordering cimport (
    Command, check_status, commit, init_command, keep_copied, submit, submit_keeping_gil, take_marker
)

from forebay.core.driver import DriverMemory
from forebay.core.errors import ArgumentTypeError, InvalidArgumentError, NotSupportedError
from forebay.core.process import refuse_on_host_thread
from forebay.queues.memory.shapes import (
    StridedView, check_copied, convert, copy_strided, ctypes_problem, format_problem, host_array, shortened,
    type_problem
)

cdef enum:
    SMALLEST = 1 << 12
    KEPT = 64 << 20  # bytes that the pool keeps at most
    MANY = 16  # small pieces of memory kept before the queue's progress is checked
    MANY_TYPES = 256


cdef class StagingPool:
    """Recycled blocks of host memory, in powers of two. ``make(nbytes)`` allocates memory that the device can access. A
    block is reused once its array has no references left.
    """

    cdef object make, lock
    cdef dict idle  # lists of blocks, by their size
    cdef Py_ssize_t kept

    def __init__(self, make: Callable[[int], DriverMemory]) -> None:
        self.make, self.idle, self.kept = make, {}, 0
        self.lock = threading.RLock()  # garbage collection may return a block while this thread is in `take`

    def take(self, nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        cdef Py_ssize_t size
        if nbytes == 0:
            return np.empty(0, np.uint8)
        size = max(<Py_ssize_t> SMALLEST, 1 << (nbytes - 1).bit_length())
        memory = None
        with self.lock:
            if self.idle.get(size):
                memory = self.idle[size].pop()
                self.kept -= size
        return np.asarray(Block(self, memory or self.make(size)))[:nbytes]


cdef class Block:
    """Returns its memory to the pool when the last array made from it is gone."""

    cdef StagingPool pool
    cdef NativeMemory memory

    def __init__(self, pool: StagingPool, memory: DriverMemory) -> None:
        self.pool, self.memory = pool, memory

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, <void*> <uintptr_t> self.memory.address, self.memory.nbytes, False, flags)

    def __del__(self) -> None:
        cdef Py_ssize_t size = self.memory.nbytes
        with self.pool.lock:
            if self.pool.kept + size <= KEPT:
                self.pool.idle.setdefault(size, []).append(self.memory)
                self.pool.kept += size


cdef extern from *:
    """
    // NumPy C functions, by their index in its API table, a stable ABI. Its headers would be a build requirement.
    static void **numpy_functions;

    static inline void use_table(void **table) { numpy_functions = table; }

    static inline PyObject *numpy_type(PyObject *scalar) {  // PyArray_DescrFromScalar
        return reinterpret_cast<PyObject *(*)(PyObject *)>(numpy_functions[57])(scalar);
    }

    static inline void *numpy_bytes(PyObject *structure) {  // PyArray_ScalarAsCtype
        void *bytes = nullptr;
        reinterpret_cast<void (*)(PyObject *, void *)>(numpy_functions[62])(structure, &bytes);
        return bytes;
    }

    // Whether elements of this PEP 3118 format are bytes in the machine's order, and no Python objects.
    static inline bool are_bytes(const char *format) {
        bool is_name = false;
        for (; *format; format++) {
            if (*format == ':') {
                is_name = !is_name;
            } else if (!is_name && strchr(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ">!O" : "<O", *format)) {
                return false;
            }
        }
        return true;
    }
    """
    bint are_bytes(const char* format)
    void use_table(void** table)
    object numpy_type(object scalar)
    void* numpy_bytes(object structure)


try:
    from numpy._core._multiarray_umath import _ARRAY_API
except ImportError:  # before NumPy 2
    from numpy.core._multiarray_umath import _ARRAY_API
use_table(<void**> PyCapsule_GetPointer(_ARRAY_API, NULL))

cdef object ndarray = np.ndarray
cdef object void = np.void
cdef tuple of_ctypes = (ctypes.Structure, ctypes.Union, ctypes.Array)
cdef dict plain = {}  # structure types that are plain bytes, by identity: comparing them is slow
cdef object strided_view = StridedView


cdef int copy(object queue, QueueState* state, object dst, object src) except -1:
    announced = announce_copy(queue, state, dst, src) if is_observed(state) else None
    if type(dst) is strided_view or type(src) is strided_view:
        queue._check_open()
        copy_strided(queue, dst, src)
    elif isinstance(dst, Buffer):
        if isinstance(src, Buffer):
            copy_buffers(queue, state, dst, src)
        else:
            upload(queue, state, dst, src)
    elif isinstance(src, Buffer):
        download(queue, state, dst, src, announced)
    else:
        raise ArgumentTypeError(
            f"copy(dst, src) needs at least one Buffer, not {type(dst).__name__} and {type(src).__name__}")
    return settle(announced)


cdef Announcement announce_copy(object queue, QueueState* state, object dst, object src):
    """Announce a copy. None for one that will be refused, and for strided memory, which a launch copies."""
    cdef Announcement uses = Announcement(), at_once = Announcement()
    buffer, other = (dst, src) if isinstance(dst, Buffer) else (src, dst)
    nbytes = getattr(buffer, "nbytes", None)
    if not isinstance(buffer, Buffer) or type(other) is strided_view or getattr(other, "nbytes", nbytes) != nbytes:
        return None
    add_use(src, False, "copy", state.device, uses, at_once)
    on_host(state.device, at_once)
    add_use(dst, True, "copy", state.device, uses, uses)
    return announce(queue, uses)


def check_ends(dst: Any, to: int, src: Any, source: int) -> None:
    """Check that both ends of a copy have the same bytes and, where these are numbers, the same elements."""
    if to != source:
        out_of, into = [
            f"{tuple(end.shape)} {getattr(end, 'dtype', '')}, " if getattr(end, "shape", None) is not None else ""
            for end in (src, dst)]
        raise InvalidArgumentError(
            f"copy of {out_of}{source} bytes to {into}{to} bytes: both must be the same; a slice of the larger one is "
            "a part of it")
    check_copied(dst, src)


def check_overlap(dst: Buffer, src: Buffer) -> None:
    if dst._overlaps(src):
        raise InvalidArgumentError("copy between overlapping parts of one Buffer")


cdef int check_buffer(object queue, QueueState* state, Buffer buffer, object what) except -1:
    if not (buffer.allocation.closed or buffer.allocation.state != state.device or is_closed(state)):
        return 0
    queue._check_open()
    if buffer.allocation.closed:
        raise buffer._closed_error(what)
    raise InvalidArgumentError(f"{what} belongs to {buffer.device.name}, {queue!r} does not")


cdef int copy_buffers(object queue, QueueState* state, Buffer dst, Buffer src) except -1:
    cdef OwnedMemory to, source
    if dst.allocation.state != state.device and src.allocation.state == state.device:
        raise InvalidArgumentError(f"copy to another device ({dst.device.name}) is submitted on a queue of that device")
    if dst.nbytes != src.nbytes or element_of(dst.memory.kind) != element_of(src.memory.kind):
        check_ends(dst, dst.nbytes, src, src.nbytes)
    check_buffer(queue, state, dst, "dst")
    if src.allocation.state != state.device:
        return copy_between_devices(queue, state, dst, src)
    check_buffer(queue, state, src, "src")
    if dst.allocation is src.allocation:
        check_overlap(dst, src)
    if (
        (dst.memory.handle == NULL) != (src.memory.handle == NULL)
        and (dst.memory.address == 0) != (src.memory.address == 0)
        and queue.device.info.kind != "cpu"  # where an address is the host's
    ):
        raise NotSupportedError(
            f"copy between memory of another package and memory of forebay: {queue.device.name} has no command for "
            "that, because one has only a handle and the other only an address; copy through a NumPy array")
    to, source = hold_memory(dst.allocation, "dst"), hold_memory(src.allocation, "src")
    submit_copy(queue, state, &dst.memory, to.usage, &src.memory, source.usage, dst.nbytes)
    return 0


cdef int copy_between_devices(object queue, QueueState* state, Buffer dst, Buffer src) except -1:
    """Copy after all writes and blocking work of the other device, which its null queue comes after. If this device can
    reach the memory, it reads it; else the null queue copies it to the host first.
    """
    cdef OwnedMemory to
    cdef Memory staging
    if src.allocation.closed:
        raise src._closed_error("copy: src")
    if src.allocation.state.driver != state.driver:
        upload(queue, state, dst, src.get())  # blocks: a driver cannot wait for another driver's events
        return 0
    if queue.device._copy_from_peer(queue, dst, src):
        return 0
    staged = queue.device.driver.stage(src.nbytes)
    staging = host_memory_of(staged)
    other = src.device.null_queue
    src._let_follow(other, True)  # also writes of non-blocking queues, for which `queue` may have waited
    copy_to_staging(other, staged, src)
    queue.wait(other)
    to = hold_memory(dst.allocation, "dst")
    submit_kept(queue, state, &dst.memory, to.usage, &staging, NULL, dst.nbytes, staged, NULL)
    return 0


def copy_to_staging(AnyQueue queue not None, staged: Any, Buffer src not None) -> Event:
    """Copy to memory from `stage`, asynchronously. Returns an Event for its completion."""
    cdef Ref[Marker] marker
    cdef QueueState* state = queue.state
    check_buffer(queue, state, src, "src")
    event = new_event(queue.device, state.device, False)
    cdef OwnedMemory source = hold_memory(src.allocation, "src")
    cdef Memory staging = host_memory_of(staged)
    announced = None
    if is_checked(state):
        announced = announce_use(queue, src.allocation.usage, src.start, src.nbytes, False, "copy")
    submit_kept(queue, state, &staging, NULL, &src.memory, source.usage, src.nbytes, staged, &marker)
    settle(announced)
    if marker.get() != NULL:
        set_marker(event, marker, False, queue)
        (<Event> event).seen = record_point(queue)
    return event


cdef int upload(object queue, QueueState* state, Buffer dst, object src) except -1:
    cdef OwnedMemory to, pinned
    cdef Py_buffer view
    cdef Memory host
    check_buffer(queue, state, dst, "dst")
    try:
        open_end(src, False, dst, &view)
    except ArgumentTypeError:
        if not isinstance(src, np.ndarray) or src.flags.c_contiguous:
            raise
        open_end(np.ascontiguousarray(src), False, dst, &view)
    try:
        pinned = pinned_memory_of(view.buf, view.len, state.device)
        to = hold_memory(dst.allocation, "dst")
        if pinned is not None:
            host = host_memory(view.buf)
            submit_copy(queue, state, &dst.memory, to.usage, &host, pinned.usage, dst.nbytes)
        else:
            staged = queue.device.driver.stage(view.len)
            host = host_memory_of(staged)
            copy_bytes(<void*> <uintptr_t> host.address, view.buf, view.len)
            if view.len >= LARGE:
                check_buffer(queue, state, dst, "dst")  # another thread may have closed it meanwhile
            submit_kept(queue, state, &dst.memory, to.usage, &host, NULL, dst.nbytes, staged, NULL)
    finally:
        PyBuffer_Release(&view)
    return 0


cdef int download(object queue, QueueState* state, object dst, Buffer src, Announcement announced) except -1:
    cdef OwnedMemory source, pinned
    cdef Py_buffer view
    cdef Memory host
    check_buffer(queue, state, src, "src")
    dst = open_end(dst, True, src, &view)
    try:
        pinned = pinned_memory_of(view.buf, view.len, state.device)
        source = hold_memory(src.allocation, "src")
        host = host_memory(view.buf)
        if pinned is not None:
            submit_copy(queue, state, &host, pinned.usage, &src.memory, source.usage, src.nbytes)
        elif queue.device.driver.takes_pageable:
            submit_kept(queue, state, &host, NULL, &src.memory, source.usage, src.nbytes, pin_view(dst), NULL)
        else:
            download_staged(queue, state, view.buf, src, source, announced)
    finally:
        PyBuffer_Release(&view)
    return 0


cdef int download_staged(
    object queue, QueueState* state, void* to, Buffer src, OwnedMemory source, Announcement announced
) except -1:
    cdef Refs[Marker] markers
    cdef Ref[Marker] marker
    refuse_on_host_thread("copy to pageable memory, which waits on this device,")
    staged = queue.device.driver.stage(src.nbytes)
    cdef Memory staging = host_memory_of(staged)
    submit_kept(queue, state, &staging, NULL, &src.memory, source.usage, src.nbytes, staged, &marker)
    if marker.get() == NULL:
        return 0
    settle(announced)  # the wait may fail
    markers.push_back(move(marker))
    wait_for_markers(queue.device, state.device, markers, f"copy on {queue!r}")
    copy_bytes(to, <const void*> <uintptr_t> staging.address, src.nbytes)
    return 0


cdef cppclass Copy(Command):
    const Memory* to
    const Memory* source
    size_t nbytes
    bint marks  # the marker is wanted
    uint64_t epoch
    Ref[Marker] marker


cdef Status call_copy(QueueState* queue, Command* command, Waits waits) noexcept nogil:
    cdef Copy* copy = <Copy*> command
    cdef void* event = NULL
    cdef Status status = queue.driver.copy(
        queue.handle, copy.to, copy.source, copy.nbytes, waits,
        &event if copy.marks or queue.driver.copies_have_events else NULL)
    if status != 0:
        return status
    commit(queue, command)
    queue.counts.copies += 1
    copy.epoch = submitted_epoch(queue.epochs)
    if event == NULL:  # the driver may have taken the copy and refused its event
        return take_marker(queue, FOR_HOST, copy.marker) if copy.marks else 0
    if copy.marks:
        queue.counts.events_made += 1
        copy.marker = new_marker(queue.device, queue.epochs, copy.epoch, queue.order.clock, event, FOR_HOST)
    else:
        keep_copied(queue, event)
    return 0


cdef inline void init_copy(
    Copy* copy, const Memory* to, Usage* written, const Memory* source, Usage* read, size_t nbytes
) noexcept nogil:
    init_command(copy, call_copy)
    copy.writes, copy.reads = written, read
    copy.to, copy.source, copy.nbytes = to, source, nbytes
    copy.marks = False


cdef int submit_copy(
    object queue, QueueState* state, const Memory* to, Usage* written, const Memory* source, Usage* read, size_t nbytes
) except -1:
    """Submit a copy between memory whose uses are noted and that the caller retains."""
    cdef Copy copy
    cdef Status status
    if nbytes == 0:
        return 0
    init_copy(&copy, to, written, source, read, nbytes)
    status = submit_keeping_gil(state, &copy)
    return check_status(queue, status, "copy")


cdef int submit_kept(
    object queue, QueueState* state, const Memory* to, Usage* written, const Memory* source, Usage* read, size_t nbytes,
    object kept, Ref[Marker]* done
) except -1:
    """Submit a copy from or to other host memory, which belongs to `kept` and has no usage. The driver may block.

    If `done` is not NULL, it receives the copy's marker; it stays unchanged when there are no bytes to copy.
    """
    cdef Copy copy
    cdef Status status
    if nbytes == 0:
        return 0
    # Else a program that never waits would keep the host memory of all its copies. This check may race.
    collect_queue(state)
    if nbytes >= LARGE or state.deferred.count >= MANY:
        collect_device(state.device)
    init_copy(&copy, to, written, source, read, nbytes)
    copy.marks = done != NULL
    with nogil:
        status = submit(state, &copy)
    if copy.began:
        retire_after(state.device, kept, state.epochs, copy.epoch, True)
    check_status(queue, status, "copy")
    if done != NULL:
        done[0] = move(copy.marker)
    return 0


cdef Memory host_memory(const void* address) noexcept:
    return Memory(NULL, <uint64_t> <uintptr_t> address, 0, HOST_MEMORY)


cdef Memory host_memory_of(object staged):
    """Return the Memory of an array made by a driver's `stage`. It stays in place as long as the array does."""
    cdef Py_buffer view
    PyObject_GetBuffer(staged, &view, PyBUF_SIMPLE)
    cdef Memory memory = host_memory(view.buf if view.len else NULL)
    PyBuffer_Release(&view)
    return memory


cdef object open_end(object host, bint writes, Buffer buffer, Py_buffer* view):
    """Open a view of host memory that a copy reads or `writes`; `buffer` is the copy's other end. Returns the object
    with the buffer protocol: an array over the memory of a tensor, else `host` itself.
    """
    cdef int flags = PyBUF_WRITABLE if writes else 0
    cdef str problem = ""
    if not PyObject_CheckBuffer(host) and hasattr(type(host), "__dlpack__"):
        host = host_array(host, "copy", writable=writes)
    cdef bint alike = isinstance(host, ndarray) and host.dtype is buffer.dtype  # needs no more checks
    try:
        if alike:
            PyObject_GetBuffer(host, view, PyBUF_C_CONTIGUOUS | flags)
        else:
            problem = view_bytes(host, view, flags)
    except (TypeError, BufferError, ValueError) as error:
        if isinstance(host, np.ndarray) and not host.flags.c_contiguous:
            instead = "buffer.get(out=array) waits and then writes to it" if writes else "np.ascontiguousarray(array)"
            raise ArgumentTypeError(
                f"copy: this array is not C-contiguous (shape {host.shape}, strides {host.strides} bytes): {instead}"
            ) from None
        instead = ": use a NumPy array" if isinstance(host, (list, tuple)) else ""
        raise ArgumentTypeError(
            f"copy needs a Buffer or {'writable, ' if writes else ''}C-contiguous host memory, "
            f"not this {type(host).__name__}{instead} ({error})") from None
    if problem:
        raise ArgumentTypeError(f"copy: {problem}")
    try:
        if view.len != <Py_ssize_t> buffer.nbytes or not alike:
            if writes:
                check_ends(host, view.len, buffer, buffer.nbytes)
            else:
                check_ends(buffer, buffer.nbytes, host, view.len)
    except BaseException:
        PyBuffer_Release(view)
        raise
    return host


def pin_view(host: Any) -> Any:
    """Return a view that keeps the object alive and its memory from being moved or resized."""
    return host.view() if isinstance(host, np.ndarray) else memoryview(host)


cdef void* structure_bytes(object structure, Py_ssize_t* nbytes) except? NULL:
    """Return the memory of a numpy.void, valid as long as it lives; NULL if a device cannot use its bytes. It uses
    NumPy's C interface, because the buffer protocol builds a format.
    """
    dtype = numpy_type(structure)
    key = <uintptr_t> <PyObject*> dtype
    if key not in plain:
        if type_problem(dtype):
            return NULL
        if len(plain) >= MANY_TYPES:
            plain.clear()
        plain[key] = dtype
    nbytes[0] = dtype.itemsize
    return numpy_bytes(structure)


cdef str view_bytes(object host, Py_buffer* view, int flags):
    """Open a view of C-contiguous bytes. Returns "", or why a device cannot use them, and then opens none.

    All host memory is checked here. `flags` are PyBUF_WRITABLE, or 0. The view does not keep a NumPy structure: the
    caller must. Raises TypeError, ValueError or BufferError for an object without such memory.
    """
    cdef str problem
    if flags == 0 and isinstance(host, void):
        memset(view, 0, sizeof(Py_buffer))
        view.buf = structure_bytes(host, &view.len)
        return "" if view.buf != NULL else type_problem(numpy_type(host))
    if isinstance(host, ndarray):
        problem = type_problem(host.dtype)
        if not problem:
            PyObject_GetBuffer(host, view, PyBUF_C_CONTIGUOUS | flags)
        return problem
    PyObject_GetBuffer(host, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | flags)
    if view.format == NULL or are_bytes(view.format):
        owner = type(host.obj if isinstance(host, memoryview) else host)
        problem = ctypes_problem(owner) if issubclass(owner, of_ctypes) else ""
    else:
        problem = format_problem(view.format.decode("utf-8", "replace"))
    if problem:
        PyBuffer_Release(view)
    return problem


# -- fills convert a value to the dtype of a buffer, and make the pattern that drivers repeat; prefetches


cdef int fill(object queue, QueueState* state, object buf, object value) except -1:
    if not isinstance(buf, Buffer):
        raise ArgumentTypeError(f"fill() needs a Buffer, not {type(buf).__name__}")
    cdef Buffer buffer = buf
    check_buffer(queue, state, buffer, "buf")
    element = element_bytes(buffer, value)
    cdef bytes pattern = repeated_bytes(buffer, element)
    if pattern is not None:
        return fill_bytes(queue, state, buffer, pattern, len(pattern))
    cdef size_t done = len(element)  # the device cannot repeat it: each copy doubles the filled part
    flat = buffer.reshape(-1).view(np.uint8)
    if buffer.nbytes:
        queue.copy(flat[:done], element)
    while done < buffer.nbytes:
        more = min(done, buffer.nbytes - done)
        queue.copy(flat[done:done + more], flat[:more])
        done += more
    return 0


cdef cppclass Fill(Command):
    const Memory* memory
    size_t nbytes
    const unsigned char* pattern
    size_t pattern_size


cdef Status call_fill(QueueState* queue, Command* command, Waits waits) noexcept nogil:
    cdef Fill* fill = <Fill*> command
    cdef Status status = queue.driver.fill(  # which copies the pattern before it returns
        queue.handle, fill.memory, fill.pattern, fill.pattern_size, fill.nbytes, waits, NULL)
    if status == 0:
        commit(queue, command)
        queue.counts.fills += 1
    return status


cdef int fill_bytes(object queue, QueueState* state, Buffer buffer, const unsigned char* first, size_t size) except -1:
    cdef Announcement announced = None
    cdef Fill fill
    cdef Status status
    if buffer.nbytes == 0:
        return 0
    if is_observed(state):
        announced = announce_use(queue, buffer.allocation.usage, buffer.start, buffer.nbytes, True, "fill")
    held = hold_memory(buffer.allocation, "buf")  # the value's code or another thread may close it
    init_command(&fill, call_fill)
    fill.writes = buffer.allocation.usage
    fill.memory, fill.nbytes = &buffer.memory, buffer.nbytes
    fill.pattern, fill.pattern_size = first, size
    if closed_gates(state.device) == 0:  # behind one, the first fill of its kind may block and no thread could open it
        status = submit_keeping_gil(state, &fill)
    else:
        with nogil:
            status = submit(state, &fill)
    del held
    check_status(queue, status, "fill")
    return settle(announced)


cdef cppclass Prefetch(Command):
    const Memory* memory
    size_t nbytes
    bint to_host


cdef Status call_prefetch(QueueState* queue, Command* command, Waits waits) noexcept nogil:
    cdef Prefetch* prefetch = <Prefetch*> command
    cdef Status status = queue.driver.prefetch(queue.handle, prefetch.memory, prefetch.nbytes, prefetch.to_host, waits)
    if status == 0:
        commit(queue, command)
    return status


def prefetch(AnyQueue queue not None, Buffer buffer not None, bint to_host) -> None:
    """Ask the driver to move shared memory to the device or to the host, if it can. Does not block."""
    cdef QueueState* state = queue.state
    cdef Prefetch moved
    cdef Status status
    check_buffer(queue, state, buffer, "buf")
    if state.driver.prefetch == NULL or buffer.nbytes == 0:
        return
    held = hold_memory(buffer.allocation, "buf")
    init_command(&moved, call_prefetch)
    moved.reads = buffer.allocation.usage
    moved.memory, moved.nbytes, moved.to_host = &buffer.memory, buffer.nbytes, to_host
    with nogil:
        status = submit(state, &moved)
    del held
    check_status(queue, status, "prefetch")


def fill_pattern(Buffer buf not None, value: Any) -> bytes:
    """Return the pattern that a graph's fill node repeats."""
    pattern = repeated_bytes(buf, element_bytes(buf, value))
    if pattern is None:
        raise InvalidArgumentError(
            f"fill: elements of {buf.itemsize} bytes from byte {buf.start} on; in a graph the device fills with 1, 2, "
            "4, … 128 bytes at multiples of these")
    return pattern


cdef bytes element_bytes(Buffer buf, object value):
    try:
        element = convert(value, buf.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"fill: {shortened(value)} does not fit {buf.dtype} ({error})") from None
    if element.ndim:
        raise InvalidArgumentError(f"fill needs one value, not an array of shape {element.shape}")
    return element.tobytes()


cdef bytes repeated_bytes(Buffer buf, bytes pattern):
    """Return the pattern to repeat, whose size must divide its start (OpenCL); None if there is none."""
    cdef Py_ssize_t size
    for size in (1, 2, 4, 8, 16, 32, 64, 128):
        if len(pattern) % size == 0 and pattern == pattern[:size] * (len(pattern) // size):
            aligned = (buf.memory.offset | buf.memory.address) % <size_t> size == 0
            return pattern[:size] if aligned or buf.nbytes == 0 else None
    return None
