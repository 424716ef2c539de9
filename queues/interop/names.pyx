"""Names that other packages have for forebay's, and how to do without pickles.

Each raises an AttributeError with forebay's name. They are attributes of the type, because a ``__getattr__`` would slow
down every attribute of it, launches included.
"""

from typing import TYPE_CHECKING

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF

from forebay.core.errors import ArgumentTypeError
from forebay.events.event import Event
from forebay.queues.device import Device
from forebay.queues.graphs.executable import ExecutableGraph
from forebay.queues.graphs.graph import Graph
from forebay.queues.kernels.kernel import Kernel
from forebay.queues.kernels.program import Program
from forebay.queues.launch.launch import BoundLaunch, by_value, local
from forebay.queues.launch.results import Result
from forebay.queues.memory.buffer import Buffer
from forebay.queues.memory.pool import MemoryPool
from forebay.queues.memory.shapes import StridedView
from forebay.queues.queue import Queue
from forebay.queues.graphs.step import Step

if TYPE_CHECKING:
    from typing import Any

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        PyObject* tp_dict
        PyObject* tp_mro
        const char* tp_doc
    void PyType_Modified(PyTypeObject*)

# By type, what to do instead, and the names for which to say so.
INSTEAD: dict[type, dict[str, str]] = {
    Queue: {
        "finish() waits for its work, query() asks":
            "synchronize synchronise sync join wait_for_completion block_until_done",
        "wait(event) or wait(other_queue)": "wait_event wait_stream wait_for wait_queue enqueue_wait_for_events",
        "record() returns an Event": "record_event marker enqueue_marker add_event",
        "launch(kernel, grid, block, *args)":
            "submit run execute enqueue enqueue_nd_range_kernel parallel_for launch_kernel",
        "copy(dst, src), for every direction": "memcpy memcpy_async enqueue_copy copy_async upload download",
        "fill(buffer, value)": "memset memset_async enqueue_fill_buffer",
        "host(function)": "add_callback launch_host_func launch_host_function call_host",
        "native is the driver's own queue": "ptr handle int_ptr cuda_stream",
        "query() asks, and empty is what is known already": "done is_done is_idle ready",
        "nothing is needed: commands go to the driver at once": "flush",
        "nothing is needed: commands of a queue run in order": "barrier enqueue_barrier",
        "device is its Device, and that has what belongs to the context": "context sycl_context",
        "close()": "destroy release",
        "with queue.capture() as graph:": "graph start_capture stop_capture",
        "buffer.get(queue=queue)": "get",
        "this is the stream; native is the driver's own": "stream",
    },
    Device: {
        "finish() waits for all queues": "synchronize synchronise sync",
        "queue() makes one": "stream create_stream Stream create_queue command_queue",
        "nothing is needed: what it makes is on it": "use make_current push set_current",
        "null_queue": "default_stream legacy_stream default_queue",
        "empty(shape, dtype)": "malloc mem_alloc alloc allocate empty_like",
        "array(host) copies to the device": "to_device asarray as_array put from_numpy",
        "empty(shape, dtype), and then fill(value) of the buffer": "ones full ones_like full_like",
        "program(source) builds all kernels":
            "compile Module RawModule RawKernel SourceModule build load_module Program",
        "event()": "create_event Event",
        "buffer.close() gives memory back": "free mem_free",
        "queue().launch(kernel, grid, block, *args)": "launch submit run",
        "queue().copy(dst, src), for every direction": "copy memcpy",
        "info describes the device":
            "compute_units max_compute_units vendor platform memory total_memory global_mem_size attributes get_info "
            "properties get_attribute",
        "null_queue.native is the driver's queue, which has its context": "context sycl_context handle",
    },
    Buffer: {
        "get().tobytes() copies them to the host": "__bytes__",
        "get() copies to the host":
            "cpu numpy to_host copy_to_host asnumpy tolist tobytes to_numpy map_to_host",
        "set(source) copies from the host or another Buffer": "copy_from assign copy_from_host put to_device upload",
        "address": "ptr data_ptr device_pointer device_ptr gpudata data int_ptr ctypes",
        "close()": "free release delete_",
        "on the host, get().astype(dtype); view(dtype) gives the same bytes another type": "astype",
        "reshape(-1)": "flatten ravel",
        "fill(value)": "fill_ zero_ memset",
        "forebay has no functions of arrays: make one by fb.reduction or fb.elementwise, or use NumPy's on get()":
            "sum mean min max dot argmax argmin sort any all cumsum transpose T",
        "item() is a number on the host, get() an array": "__round__ __floor__ __ceil__ __complex__",
        "device": "sycl_device",
    },
    Event: {
        "wait()": "synchronize synchronise sync",
        "query()": "done is_done ready command_execution_status",
        "queue.record(event)": "record",
        "end.elapsed(start), or end - start": "elapsed_time time_till get_elapsed_time",
        "record with timing=True, and then end.elapsed(start)": "profile get_profiling_info profiling_info",
    },
    Kernel: {
        "queue.launch(kernel, grid, block, *args), or kernel[grid, block, queue](*args)":
            "launch run enqueue forall prepared_call async_call",
        "the arguments go with the launch; bind(queue, grid, block, *args) keeps them":
            "set_arg set_args setArg prepare",
        "parameters": "num_args args arg_types get_arg_info",
        "max_block_size": "get_work_group_info max_threads_per_block",
    },
    Program: {
        "program['name'] is a kernel": "get_function get_kernel getFunction get_func kernel get getKernel",
        "kernel_names": "all_kernels kernels functions",
        "nothing is needed: Device.program has built it": "build compile",
    },
    Step: {"`with step:` around its launches runs them": "run launch replay execute"},
    Graph: {"launch(queue)": "replay run execute upload"},
}

WAYS_OUT: dict[type, str] = {
    **dict.fromkeys((Buffer, StridedView), "pickle the array that get() returns, and copy that with Device.array"),
    Result: "pickle the value that get() returns",
    Device: "pickle its name, and make Device(name) in the other process",
    Queue: "make one with Device.queue in the other process",
    Event: "wait for it here, and send a message",
    Program: "send the source, and build it with Device.program in the other process, which finds it in the cache",
    Kernel: "send the source, and build it with Device.program in the other process, which finds it in the cache",
    BoundLaunch: "send what it was made from",
    **dict.fromkeys((Graph, ExecutableGraph), "capture it in the other process"),
    Step: "make one with Queue.step in the other process",
    MemoryPool: "each Device has its own",
}


# Signatures of compiled classes for ``inspect.signature``, ``help`` and editors.
SIGNATURES: dict[type, str] = {
    Device: "(filter=None, *, timing=None, debug=False, private=False, check=None)",
    by_value: "(value)",
    local: "(nbytes)",
}


class OtherName:
    """Another package's name for something in forebay."""

    def __init__(self, name: str, instead: str) -> None:
        self.name = name
        self.instead = instead

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        kind = owner.__name__ if owner is not None else type(instance).__name__
        raise AttributeError(f"a forebay.{kind} has no {self.name!r}: {self.instead}", name=self.name, obj=instance)


def add(kind: type, name: str, value: object) -> None:
    """Set an attribute of a type, also of a compiled one."""
    cdef PyTypeObject* native = <PyTypeObject*> kind
    (<dict> native.tp_dict)[name] = value
    PyType_Modified(native)


def add_unlisted(kind: type, names: dict[str, OtherName]) -> None:
    """Give a type attributes that ``dir`` of it, of its instances and ``help`` do not list.

    Attributes are looked up in ``__mro__``, but ``dir`` goes through ``__bases__``: these are only in the former.
    """
    cdef PyTypeObject* native = <PyTypeObject*> kind
    cdef tuple order = kind.__mro__
    unlisted = type("NamesElsewhere", (), {**names, "__slots__": (), "__doc__": None, "__module__": "forebay"})
    old = native.tp_mro
    new = (*order[:-1], unlisted, *order[-1:])
    Py_INCREF(new)
    native.tp_mro = <PyObject*> new
    Py_DECREF(<object> old)
    PyType_Modified(native)


def sign(kind: type, signature: str) -> None:
    """Put a signature before a compiled class's docstring, where CPython looks for it."""
    cdef PyTypeObject* native = <PyTypeObject*> kind
    cdef bytes text = f"{kind.__name__}{signature}\n--\n\n{kind.__doc__}".encode()
    Py_INCREF(text)  # never freed, like the class
    native.tp_doc = text
    PyType_Modified(native)


def refuse_pickles(way_out: str) -> Any:
    """Return the ``__reduce_ex__`` of a type whose objects belong to this process."""

    def __reduce_ex__(self: object, protocol: int) -> Any:
        name = type(self).__name__
        raise ArgumentTypeError(f"a forebay.{name} belongs to this process and is not pickled: {way_out}")

    return __reduce_ex__


for _kind, _instead in INSTEAD.items():
    add_unlisted(_kind, {
        _name: OtherName(_name, _advice) for _advice, _names in _instead.items() for _name in _names.split()})
for _kind, _signature in SIGNATURES.items():
    sign(_kind, _signature)
for _kind, _way_out in WAYS_OUT.items():
    add(_kind, "__reduce_ex__", refuse_pickles(_way_out))
