"""Which memory is known by its addresses; `hipMallocAsync` and `hipFreeAsync`, which enter it and take it out.

The map needs no lock but the GIL: nothing that may run Python code happens while it is changed.
"""

from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint64_t
from libcpp.map cimport map
from libcpp.vector cimport vector
from cython.operator cimport dereference, postincrement, predecrement

from forebay.core.state cimport is_closed
from forebay.hip.compiled.launch cimport Address, Handle, null_queue
from forebay.queues.memory.buffer cimport Buffer
from forebay.queues.memory.pool cimport MemoryPool, free
from forebay.queues.queue cimport Queue

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from forebay.hip.enums import hipError_t, hipMemoryType
    from forebay.queues.graphs.allocations.memory import GraphMemory

ctypedef map[uint64_t, PyObject*].iterator Entry

cdef extern from "Python.h":
    ctypedef object (*Maker "newfunc")(PyTypeObject* kind, PyObject* arguments, PyObject* names)

    ctypedef struct Type "PyTypeObject":
        Maker tp_new

cdef map[uint64_t, PyObject*] by_base  # owned: an Allocation, or a Buffer of the first device's pool

# what `connect` has set
cdef object allocation_class = None
cdef object pointer_class = None
cdef object stream_class = None
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

    _owner: Any
    _shape: Any


cdef class Known:
    """The base of `Allocation`: what there is to know without looking anything up."""

    memory: Any
    kind: hipMemoryType
    graph_memory: GraphMemory | None
    hints: Any
    _parts: Any
    _node: Any
    flags: int


def connect(
    allocation: type[Known],
    pointer: type[Located],
    stream: type[Handle],
    device_kind: hipMemoryType,
    managed_kind: hipMemoryType,
    result: tuple[hipError_t],
    malloc: Callable[[Any, Any], Any],
    free_other: Callable[[Any, Any], None],
    failure: Callable[[Exception, int], tuple[Any, ...]],
    succeeded: Callable[[], None],
) -> None:
    """Set the classes, what a success returns, and who does what is off the common path: `forebay.hip.memory`."""
    global allocation_class, pointer_class, stream_class, of_device, kinds_to_free, ok, success
    global malloc_uncommon, free_uncommon, on_failure, note_success
    allocation_class, pointer_class, stream_class, of_device = allocation, pointer, stream, device_kind
    kinds_to_free, success, ok = (device_kind, managed_kind), result, result[0]
    malloc_uncommon, free_uncommon, on_failure, note_success = malloc, free_other, failure, succeeded


def note_failures() -> None:
    """From now on successes have to be noted, because `hipExtGetLastError` tells what the last call returned."""
    global has_failed
    has_failed = True


# -- the map


cdef inline object new_of(object kind):
    """Make an object without calling its `__init__`."""
    return (<Type*> kind).tp_new(<PyTypeObject*> kind, <PyObject*> (), NULL)


cdef void put(uint64_t base, object thing):
    cdef PyObject* old = NULL
    cdef Entry found = by_base.find(base)
    Py_INCREF(thing)
    if found == by_base.end():
        by_base[base] = <PyObject*> thing
        return
    old = dereference(found).second
    dereference(found).second = <PyObject*> thing
    Py_DECREF(<object> old)


cdef Known known_at(uint64_t base):
    """Return the allocation that begins there; None for none. That of a Buffer is made when it is first asked for."""
    cdef Entry found = by_base.find(base)
    cdef Known known
    if found == by_base.end():
        return None
    thing = <object> dereference(found).second
    if type(thing) is not Buffer:
        return <Known> thing
    known = new_of(allocation_class)
    known.memory = thing
    known.kind = of_device
    known.flags = 0
    known.pooled = True
    known.nbytes = (<Buffer> thing).nbytes
    known.base = base
    found = by_base.find(base)  # again: the collector may have run Python code
    if found == by_base.end():
        return None
    if dereference(found).second != <PyObject*> thing:
        return known_at(base)
    put(base, known)
    return known


def enter(known: Known) -> None:
    """Make it known by its addresses. It replaces memory that a graph has freed there."""
    put(known.base, known)


def take(uint64_t address) -> Any:
    """Take the allocation that begins at this address out; None when none does."""
    cdef Known known = known_at(address)
    if known is not None:
        by_base.erase(address)
        Py_DECREF(known)
    return known


def peek(uint64_t address) -> Any:
    """Return the allocation that begins at this address."""
    return known_at(address)


cdef Known below(uint64_t address):
    """Return the allocation with the highest base up to this address; None for none."""
    cdef Entry found = by_base.upper_bound(address)
    if found == by_base.begin():
        return None
    return known_at(dereference(predecrement(found)).first)


def find(uint64_t address) -> Any:
    """Return the allocation that an address is in, and how far in; None for memory that is not from here."""
    cdef Known known = below(address)
    if known is None or address - known.base >= max(known.nbytes, <size_t> 1):
        return None
    return known, address - known.base


def overlaps(uint64_t address, size_t nbytes) -> bool:
    """Return whether any allocation has bytes in this range."""
    cdef Known known = below(address + nbytes - 1) if nbytes else None
    return known is not None and known.base + known.nbytes > address


def all_of(int number) -> Any:
    """Return what is allocated on a device."""
    cdef vector[uint64_t] bases
    cdef Entry each = by_base.begin()
    cdef size_t i
    while each != by_base.end():
        bases.push_back(dereference(postincrement(each)).first)
    found = [known_at(bases[i]) for i in range(bases.size())]
    return iter([known for known in found if known is not None and (<Known> known).device == number])


# -- memory in the order of a stream


cdef Queue queue_of(object stream):
    """Return the queue of a stream; None when it has to be looked up, or when it is captured or closed."""
    cdef Queue queue = None
    if stream is None:
        queue = null_queue
    elif null_queue is not None and (  # then the current device of all threads is the first
        type(stream) is stream_class or isinstance(stream, Handle)
    ):
        queue = (<Handle> stream).queue
    if queue is None or queue._capture is not None or is_closed(queue.state):
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
    put(buffer.memory.address, buffer)
    pointer = new_of(pointer_class)
    pointer.address = buffer.memory.address
    pointer.buffer = pointer._owner = buffer
    pointer._shape = buffer.shape
    if has_failed:
        note_success()
    return ok, pointer


cdef bint free_common(object pointer, object stream) except -1:
    """Free memory of a pool. Returns False, and does nothing, for anything else."""
    cdef Queue queue = queue_of(stream)
    cdef uint64_t address
    cdef Entry found
    if queue is None or type(pointer) is not pointer_class and not isinstance(pointer, Address):
        return False
    address = (<Address> pointer).address
    found = by_base.find(address)
    if found == by_base.end():
        return False
    thing = <object> dereference(found).second
    buffer = thing
    if type(thing) is not Buffer:
        if not (<Known> thing).pooled or (<Known> thing).graph_memory is not None:
            return False
        if (<Known> thing).kind not in kinds_to_free:
            return False
        buffer = (<Known> thing).memory
    by_base.erase(found)  # known to nobody from here on, for `free` may let other threads run
    Py_DECREF(thing)
    try:
        free(queue, queue.state, buffer)
    except BaseException:
        put(address, thing)
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
