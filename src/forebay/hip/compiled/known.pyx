"""Which memory is known by its addresses; `hipMallocAsync` and `hipFreeAsync`, which enter it and take it out.

The map needs no lock but the GIL: nothing that may run Python code happens while it is changed.
"""

from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint64_t
from libcpp.map cimport map
from cython.operator cimport dereference, postincrement, predecrement

from forebay.hip.compiled.launch cimport Address, Handle, null_queue
from forebay.queues.memory.buffer cimport Buffer
from forebay.queues.memory.pool cimport MemoryPool, free
from forebay.queues.queue cimport Queue

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from forebay.hip.enums import hipError_t, hipMemoryType

ctypedef map[uint64_t, PyObject*].iterator Entry

cdef extern from "Python.h":
    ctypedef object (*Maker "newfunc")(PyTypeObject* kind, PyObject* arguments, PyObject* names)

    ctypedef struct Type "PyTypeObject":
        Maker tp_new

cdef map[uint64_t, PyObject*] by_base  # owned

# what `connect` has set
cdef object allocation_class = None
cdef object pointer_class = None
cdef object of_device = None
cdef tuple kinds_to_free = ()
cdef object ok = None
cdef tuple success = None
cdef object malloc_uncommon = None
cdef object free_uncommon = None
cdef object on_failure = None
cdef object note_success = None
cdef bint has_failed = False  # any call of this process: then successes are noted, too


cdef class Located(Address):
    """The base of pointers: what keeps the memory, and the shape of what is there."""


cdef class Known:
    """The base of `Allocation`: what there is to know without looking anything up."""


def connect(
    allocation: type[Known],
    pointer: type[Located],
    device_kind: hipMemoryType,
    managed_kind: hipMemoryType,
    result: tuple[hipError_t],
    malloc: Callable[[Any, Any], Any],
    free_other: Callable[[Any, Any], None],
    failure: Callable[[Exception, int], tuple[Any, ...]],
    succeeded: Callable[[], None],
) -> None:
    """Set the classes, what a success returns, and who does what is off the common path: `forebay.hip.memory`."""
    global allocation_class, pointer_class, of_device, kinds_to_free, ok, success
    global malloc_uncommon, free_uncommon, on_failure, note_success
    allocation_class, pointer_class, of_device = allocation, pointer, device_kind
    kinds_to_free, success, ok = (device_kind, managed_kind), result, result[0]
    malloc_uncommon, free_uncommon, on_failure, note_success = malloc, free_other, failure, succeeded


def note_failures() -> None:
    """From now on successes have to be noted, because `hipExtGetLastError` tells what the last call returned."""
    global has_failed
    has_failed = True


# -- the map


cdef void put(Known known):
    cdef PyObject* old = NULL
    cdef Entry found = by_base.find(known.base)
    Py_INCREF(known)
    if found == by_base.end():
        by_base[known.base] = <PyObject*> known
        return
    old = dereference(found).second
    dereference(found).second = <PyObject*> known
    Py_DECREF(<object> old)


cdef Known take_out(uint64_t base):
    cdef Entry found = by_base.find(base)
    if found == by_base.end():
        return None
    known = <Known> dereference(found).second
    by_base.erase(found)
    Py_DECREF(known)
    return known


def enter(known: Known) -> None:
    """Make it known by its addresses. It replaces memory that a graph has freed there."""
    put(known)


def take(uint64_t address) -> Known | None:
    """Take the allocation that begins at this address out; None when none does."""
    return take_out(address)


def peek(uint64_t address) -> Known | None:
    """Return the allocation that begins at this address."""
    cdef Entry found = by_base.find(address)
    return None if found == by_base.end() else <Known> dereference(found).second


cdef Known below(uint64_t address):
    """Return the allocation with the highest base up to this address; None for none."""
    cdef Entry found = by_base.upper_bound(address)
    if found == by_base.begin():
        return None
    return <Known> dereference(predecrement(found)).second


def find(uint64_t address) -> tuple[Known, int] | None:
    """Return the allocation that an address is in, and how far in; None for memory that is not from here."""
    cdef Known known = below(address)
    if known is None or address - known.base >= max(known.nbytes, <size_t> 1):
        return None
    return known, address - known.base


def overlaps(uint64_t address, size_t nbytes) -> bool:
    """Return whether any allocation has bytes in this range."""
    cdef Known known = below(address + nbytes - 1) if nbytes else None
    return known is not None and known.base + known.nbytes > address


def all_of(int number) -> Iterator[Known]:
    """Return what is allocated on a device."""
    cdef list found = []
    cdef Entry each = by_base.begin()
    while each != by_base.end():
        found.append(<Known> dereference(postincrement(each)).second)  # nothing that is made here runs Python code
    return iter([known for known in found if (<Known> known).device == number])


# -- memory in the order of a stream


cdef inline object new_of(object kind):
    """Make an object without calling its `__init__`."""
    return (<Type*> kind).tp_new(<PyTypeObject*> kind, <PyObject*> (), NULL)


cdef Queue queue_of(object stream):
    """Return the queue of a stream; None when it has to be looked up, or when it is captured or closed."""
    cdef Queue queue = None
    if stream is None:
        queue = null_queue
    elif isinstance(stream, Handle) and null_queue is not None:  # so that the current device is the first
        queue = (<Handle> stream).queue
    if queue is None or queue._capture is not None or queue.closed:
        return None
    return queue


def hipMallocAsync(size: int, stream: Any = None) -> tuple[hipError_t, Any]:
    """Allocate memory for what comes later on the stream; ``(hipError_t, pointer)``. Does not block.

    `size` is in bytes; `stream` is a stream, None or 0.

    From the device's memory pool, see `forebay.Queue.alloc`. A null pointer for 0 bytes. In a capture it becomes a
    node, see `hipGraphAddMemAllocNode`.
    """
    cdef Queue queue
    cdef Buffer buffer
    cdef Known known
    cdef Located pointer
    try:
        queue = queue_of(stream) if type(size) is int and size > 0 else None
        if queue is None:
            result = malloc_uncommon(size, stream)
            note_success()
            return ok, result
        buffer = (<MemoryPool> queue.device.pool).alloc(queue.device, queue, queue.state, size, "u1")
        if buffer.memory.address == 0:
            result = malloc_uncommon(buffer, stream)
            note_success()
            return ok, result
    except Exception as error:
        return on_failure(error, 1)
    known = new_of(allocation_class)
    known.memory = buffer
    known.kind = of_device
    known.flags = 0
    known.pooled = True
    known.nbytes = buffer.nbytes
    known.base = buffer.memory.address
    put(known)
    pointer = new_of(pointer_class)
    pointer.address = known.base
    pointer.buffer = buffer
    pointer._owner = known
    pointer._shape = buffer.shape
    if has_failed:
        note_success()
    return ok, pointer


cdef bint free_common(object pointer, object stream) except -1:
    """Free memory of a pool. Returns False, and does nothing, for anything else."""
    cdef Queue queue = queue_of(stream)
    cdef Entry found
    cdef Known known
    if queue is None or not isinstance(pointer, Address):
        return False
    found = by_base.find((<Address> pointer).address)
    if found == by_base.end():
        return False
    known = <Known> dereference(found).second
    if not known.pooled or known.graph_memory is not None or known.kind not in kinds_to_free:
        return False
    by_base.erase(found)  # known to nobody from here on, for `free` may let other threads run
    Py_DECREF(known)
    try:
        free(queue, queue.state, known.memory)
    except BaseException:
        put(known)
        raise
    return True


def hipFreeAsync(dev_ptr: Any, stream: Any = None) -> tuple[hipError_t]:
    """Give memory back in the order of the stream, after everything submitted to it; ``(hipError_t,)``.

    `dev_ptr` is what `hipMallocAsync` or `hipMalloc` returned; `stream` is a stream, None or 0.

    Memory of `hipMalloc` is freed when everything submitted to its device so far is done. Does not block.
    hipErrorInvalidValue for a null pointer (unlike `hipFree`), when no allocation begins there, or it was freed before.
    In a capture it becomes a node, see `hipGraphAddMemFreeNode`; only memory that a graph allocates can be freed there.
    """
    try:
        if not free_common(dev_ptr, stream):
            free_uncommon(dev_ptr, stream)
    except Exception as error:
        return on_failure(error, 0)
    if has_failed:
        note_success()
    return success
