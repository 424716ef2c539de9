"""The descriptors that discovery passes through ctypes, in the layouts of calls.hpp. The driver does not write them."""

from forebay.queues.levelzero.calls cimport (
    ContextDesc, CounterDesc, KernelDesc, ListDesc, ModuleDesc, QueueDesc
)


def context_desc() -> bytes:
    cdef ContextDesc desc
    return (<const char*> &desc)[:sizeof(desc)]


def queue_desc(ordinal: int, flags: int, mode: int) -> bytes:
    """The descriptor of an immediate list."""
    cdef QueueDesc desc
    desc.ordinal = ordinal
    desc.flags = flags
    desc.mode = mode
    return (<const char*> &desc)[:sizeof(desc)]


def list_desc(ordinal: int, flags: int = 0) -> bytes:
    cdef ListDesc desc
    desc.ordinal = ordinal
    desc.flags = flags
    return (<const char*> &desc)[:sizeof(desc)]


def event_desc(flags: int, signal: int, wait: int) -> bytes:
    """The descriptor of a counter-based event."""
    cdef CounterDesc desc
    desc.flags = flags
    desc.signal = signal
    desc.wait = wait
    return (<const char*> &desc)[:sizeof(desc)]


def module_desc(format: int, code: bytes) -> bytes:
    """The descriptor points into `code`, so the caller must keep `code` alive."""
    cdef ModuleDesc desc
    desc.format = format
    desc.size = len(code)
    desc.input = code
    return (<const char*> &desc)[:sizeof(desc)]


def kernel_desc(name: bytes) -> bytes:
    """The descriptor points into `name`, so the caller must keep `name` alive."""
    cdef KernelDesc desc
    desc.name = name
    return (<const char*> &desc)[:sizeof(desc)]
