"""Which memory is known by its addresses; `hipMallocAsync` and `hipFreeAsync`, which enter it and take it out.

The critical section of `guard` guards the map: nothing that may run Python code happens while it is changed.
"""

cimport cython
from cpython.buffer cimport PyObject_GetBuffer
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint64_t
from libcpp.vector cimport vector

from forebay.core.ownership cimport relaxed_bint
from forebay.core.state cimport QueueState
from forebay.hip.compiled.calls cimport (
    Address, ok, pointer_class, queue_of, queue_of_null, raise_pending, succeed,
)
from forebay.queues.memory.buffer cimport Buffer as DeviceBuffer  # beside the protocol's in the stub
from forebay.queues.memory.pool cimport MemoryPool, free
from forebay.queues.queue cimport Queue, is_captured

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from forebay.hip.facts import hipMemoryType
    from forebay.queues.graphs.executable import GraphMemory

cdef extern from "Python.h":
    ctypedef object (*Maker "newfunc")(PyTypeObject* kind, PyObject* arguments, PyObject* names)

    ctypedef struct Type "PyTypeObject":
        Maker tp_new

    bint PyLong_CheckExact(object)
    long long PyLong_AsLongLongAndOverflow(object, int* overflow)  # never raises for an int

cdef extern from "src/forebay/hip/compiled/known.hpp" namespace "forebay_hip" nogil:
    cdef struct Entry:
        uint64_t base
        PyObject* thing

    cdef cppclass ByAddress:
        Entry* below(uint64_t address)
        Entry* at_base(uint64_t base)
        void insert(uint64_t base, PyObject* thing) except +
        void remove()
        vector[uint64_t] bases() except +

# -- memory

cdef ByAddress by_base  # owned: an Allocation, or a Buffer of the first device's pool
cdef object guard = object()

# what `connect` has set
cdef object allocation_class = None
cdef object of_device = None
cdef relaxed_bint has_addresses = True  # as far as is known
cdef tuple kinds_to_free = ()


cdef class Located(Address):
    """The base of pointers: what keeps the memory, and the shape of what is there."""

    _owner: Any
    _shape: Any
    _typestr: str
    _stream: int | None

    def _host_array(self) -> object:
        raise TypeError(f"{type(self).__name__}: it does not tell how much there is")

    def __getbuffer__(self, Py_buffer* view, int flags):
        cdef Known known = known_with(place_of(self.address)) if self.address else None
        if known is not None and known.kind is of_device:
            raise TypeError("memory of the device is no buffer of the host: copy it with hipMemcpy")
        PyObject_GetBuffer(self._host_array(), view, flags)


cdef class Part:
    """A part of the memory of an allocation."""


cdef class Known:
    """The base of `Allocation`: what there is to know without looking anything up."""

    memory: Any
    kind: hipMemoryType
    graph_memory: GraphMemory | None
    hints: Any
    _parts: Any
    _node: Any
    flags: int
    ipc_handle: bytes | None

    cdef object part_of(self, uint64_t offset, size_t nbytes):
        """Return a part of the memory that lies in it, the same as last time if that was asked for."""
        if nbytes == self.nbytes:
            return self.memory
        cdef Part last
        with cython.critical_section(self):
            last = self.last_part
        if last is None or last.offset != offset or last.nbytes != nbytes:
            last = Part.__new__(Part)
            last.offset, last.nbytes = offset, nbytes
            last.memory = self.memory[offset:offset + nbytes]
            with cython.critical_section(self):
                _before, self.last_part = self.last_part, last
        return last.memory


def connect(allocation: type[Known], device_kind: hipMemoryType, managed_kind: hipMemoryType) -> None:
    """Set the class of what is known, and the kinds of memory that `hipFreeAsync` frees: `forebay.hip.memory`."""
    global allocation_class, of_device, kinds_to_free
    allocation_class, of_device = allocation, device_kind
    kinds_to_free = (device_kind, managed_kind)


# -- the map


cdef inline object new_of(object kind):
    """Make an object without calling its `__init__`."""
    return (<Type*> kind).tp_new(<PyTypeObject*> kind, <PyObject*> (), NULL)


cdef int put(uint64_t base, object thing) except -1:
    cdef Entry* found
    with cython.critical_section(guard):
        found = by_base.at_base(base)
        if found == NULL:
            by_base.insert(base, <PyObject*> thing)
            Py_INCREF(thing)
            return 0
        old = <object> found.thing
        Py_INCREF(thing)
        found.thing = <PyObject*> thing
    Py_DECREF(old)  # the entry's reference; this function has one, and drops it when the map is done
    return 0


cdef bint drop(uint64_t base, object thing) except -1:
    """Take an entry out, unless another thread has put something else there. Returns whether it was there."""
    cdef Entry* found
    with cython.critical_section(guard):
        found = by_base.at_base(base)
        if found == NULL or found.thing != <PyObject*> thing:
            return False
        by_base.remove()
    Py_DECREF(thing)
    return True


cdef object thing_at(uint64_t base):
    cdef Entry* found
    with cython.critical_section(guard):
        found = by_base.at_base(base)
        return None if found == NULL else <object> found.thing


cdef Known known_at(uint64_t base):
    """Return the allocation that begins here; None for none."""
    thing = thing_at(base)
    return known_of(thing, base) if type(thing) is DeviceBuffer else <Known> thing


cdef Known known_of(object thing, uint64_t base):
    """Return the allocation of a Buffer, made when it is first asked for."""
    cdef Known known
    cdef Entry* found
    known = new_of(allocation_class)
    known.memory = thing
    known.kind = of_device
    known.flags = 0
    known.pooled = True
    known.nbytes = (<DeviceBuffer> thing).nbytes
    known.base = base
    with cython.critical_section(guard):
        found = by_base.at_base(base)  # again: other threads, or code that the collector ran, may have changed it
        if found != NULL and found.thing == <PyObject*> thing:
            Py_INCREF(known)
            found.thing = <PyObject*> known
            Py_DECREF(thing)  # this function has another reference
            return known
    return known_at(base)


cdef Known known_below(uint64_t address):
    """Return the allocation with the highest base up to this address; None for none."""
    cdef uint64_t base = 0
    cdef Entry* found
    thing = None
    with cython.critical_section(guard):
        found = by_base.below(address)
        if found != NULL:
            base = found.base
            thing = <object> found.thing
    return known_of(thing, base) if type(thing) is DeviceBuffer else <Known> thing


def enter(known: Known) -> None:
    """Make it known by its addresses. It replaces memory that a graph has freed there."""
    put(known.base, known)


cdef uint64_t place_of(object address) except? 0:
    """Return an address as C's; for a number that is none 0, where no allocation is."""
    try:
        return address
    except OverflowError:
        return 0


def take(address: int) -> Any:
    """Take the allocation that begins at this address out; None when none does."""
    cdef uint64_t base = place_of(address)
    cdef Known known = known_at(base)
    while known is not None and not drop(base, known):
        known = known_at(base)
    return known


def peek(address: int) -> Any:
    """Return the allocation that begins at this address."""
    return known_at(place_of(address))


cdef Known known_with(uint64_t address):
    cdef Known known = known_below(address)
    return None if known is None or address - known.base >= max(known.nbytes, <size_t> 1) else known


def find(address: int) -> Any:
    """Return the allocation that an address is in, and how far in; None for memory that is not from here."""
    cdef uint64_t place = place_of(address)
    cdef Known known = known_with(place)
    return None if known is None else (known, place - known.base)


def overlaps(address: int, nbytes: int) -> bool:
    """Return whether any allocation has bytes in this range."""
    cdef Known known = known_below(place_of(address + nbytes - 1)) if nbytes else None
    return known is not None and known.base + known.nbytes > address


def all_of(int number) -> Any:
    """Return what is allocated on a device."""
    cdef vector[uint64_t] bases
    cdef size_t i
    with cython.critical_section(guard):
        bases = by_base.bases()
    found = [known_at(bases[i]) for i in range(bases.size())]
    return iter([known for known in found if known is not None and (<Known> known).device == number])


# -- memory in the order of a stream


# `free`, for a caller who looks at what it returns himself: a `try` costs as much as reading the arguments.
ctypedef int (*Raw)(object queue, QueueState* state, object buffer) noexcept


cdef int put_back(uint64_t address, object thing) except -1:
    """Make memory known again that could not be freed, and raise why."""
    try:
        raise_pending()
    finally:
        put(address, thing)
    return 0


cdef object malloc_front(PyObject* const* words):
    cdef Queue queue, first
    cdef DeviceBuffer buffer
    cdef Located pointer
    cdef int overflow = 0
    global has_addresses
    if not has_addresses:
        return None
    queue, first = queue_of(<object> words[1]), queue_of_null()
    if (
        queue is None or first is None or queue.state.device != first.state.device
        or is_captured(queue) or not PyLong_CheckExact(<object> words[0])
        or PyLong_AsLongLongAndOverflow(<object> words[0], &overflow) <= 0
    ):
        return None
    buffer = (<MemoryPool> queue.device.pool).alloc(queue.device, queue, queue.state, <object> words[0], "u1")
    if buffer.memory.address == 0:
        has_addresses = False  # the definition has numbers for such memory
        free(queue, queue.state, buffer)
        return None
    put(buffer.memory.address, buffer)
    pointer = new_of(pointer_class)
    pointer.address = buffer.memory.address
    pointer.buffer = pointer._owner = buffer
    pointer._shape = buffer.shape
    pointer._typestr, pointer._itemsize = "|u1", 1
    succeed()
    return ok, pointer


cdef object free_front(PyObject* const* words):
    cdef Queue queue
    cdef uint64_t address
    if type(<object> words[0]) is not pointer_class and not isinstance(<object> words[0], Address):
        return None
    queue = queue_of(<object> words[1])
    address = (<Address> <object> words[0]).address
    thing = thing_at(address)
    if queue is None or is_captured(queue) or thing is None:
        return None
    buffer = thing
    if type(thing) is not DeviceBuffer:
        if (
            not (<Known> thing).pooled or (<Known> thing).graph_memory is not None
            or (<Known> thing).kind not in kinds_to_free
        ):
            return None
        buffer = (<Known> thing).memory
    if not drop(address, thing):  # unknown from here on, for `free` may let other threads run
        return None
    if (<Raw> free)(queue, queue.state, buffer) != 0:
        put_back(address, thing)
    return succeed()
