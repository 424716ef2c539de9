"""Makes mistakes that null hardware hides, through the table of calls. The observer must find each.

`test_observer` runs these tests in a process of their own, because some mistakes corrupt the driver's heap. By hand:

    python -m tools.null_levelzero python -m pytest tests/drivers/levelzero/mistakes.py
"""

import ctypes
import struct
import threading
from ctypes import byref, c_size_t, c_uint32, c_uint64, c_void_p

import pytest

from forebay.queues.drivers.selection import select
from tests.helpers.spirv import fill_module
from tests.observers import levelzero as observer

pytestmark = pytest.mark.needs("null hardware", "no validation layer")  # which may not survive what is done here

DEVICE, HOST = 2, 4  # scopes
IMMEDIATE, HOST_VISIBLE = 1, 4
PAGEABLE = ctypes.create_string_buffer(64)


def described(stype, *fields, format=""):
    """A structure of the API: its type, no extension, and these fields; 32 bits each if no format is given."""
    return ctypes.create_string_buffer(struct.pack(f"I4xQ{format or 'I' * len(fields)}", stype, 0, *fields))


class Raw:
    """The driver, called through forebay's table: only the observer checks the calls."""

    def __init__(self):
        native = select().native
        self.context = self.make("ContextCreate", c_void_p(native.driver), described(0x0D, 0))
        self.device = c_void_p(native.device)

    def call(self, name, *arguments):
        """Its result. What is no number of ctypes is a pointer."""
        types = [type(each) if isinstance(each, ctypes._SimpleCData) else c_void_p for each in arguments]
        return ctypes.CFUNCTYPE(c_uint32, *types)(observer.pointer(f"ze{name}"))(*arguments)

    def make(self, name, *arguments):
        """The value that a call stores through its last argument."""
        made = c_void_p()
        assert self.call(name, *arguments, byref(made)) == 0, name
        return made

    def list(self):
        return self.make("CommandListCreateImmediate", self.context, self.device, described(0x0E, 0, 0, 2, 2, 0))

    def event(self, signal=HOST, wait=DEVICE, flags=IMMEDIATE | HOST_VISIBLE):
        """A counter-based one."""
        return self.make("EventCounterBasedCreate", self.context, self.device, described(0x2003A, flags, signal, wait))

    def pool(self):
        return self.make("EventPoolCreate", self.context, described(0x10, 1, 4), c_uint32(0), None)

    def gate(self, pool=None, wait=HOST):
        return self.make("EventCreate", pool or self.pool(), described(0x11, 0, HOST, wait))

    def memory(self, nbytes=4096):
        desc = described(0x15, 0, 0)
        return self.make("MemAllocDevice", self.context, desc, c_size_t(nbytes), c_size_t(64), self.device)

    def module(self):
        code, options = ctypes.create_string_buffer(fill_module()), ctypes.create_string_buffer(b"")
        fields = 0, len(code) - 1, ctypes.addressof(code), ctypes.addressof(options), 0
        module, desc = c_void_p(), described(0x1B, *fields, format="I4xQQQQ")
        self.make("ModuleCreate", self.context, self.device, desc, byref(module))  # and a log
        return module

    def kernel(self, module=None, memory=None):
        name = ctypes.create_string_buffer(b"fill")
        desc = described(0x1D, 0, ctypes.addressof(name), format="I4xQ")
        kernel = self.make("KernelCreate", module or self.module(), desc)
        self.call("KernelSetArgumentValue", kernel, c_uint32(0), c_size_t(8), byref(memory or self.memory()))
        self.call("KernelSetGroupSize", kernel, c_uint32(1), c_uint32(1), c_uint32(1))
        return kernel

    def launch(self, queue, kernel):
        groups = (c_uint32 * 3)(1, 1, 1)
        self.call("CommandListAppendLaunchKernel", queue, kernel, groups, None, c_uint32(0), None)
        return queue

    def copy(self, to, nbytes):
        queue = self.list()
        source = self.memory()
        self.call("CommandListAppendMemoryCopy", queue, to, source, c_size_t(nbytes), None, c_uint32(0), None)

    def signal(self, queue, event):
        self.call("CommandListAppendSignalEvent", queue, event)
        return event

    def wait(self, queue, event):
        self.call("CommandListAppendWaitOnEvents", queue, c_uint32(1), (c_void_p * 1)(event))
        return event

    def finish(self, queue):
        self.call("CommandListHostSynchronize", queue, c_uint64(2**64 - 1))
        return queue

    def query(self, event):
        self.call("EventQueryStatus", event)

    def destroy(self, kind, what):
        self.call(f"{kind}Destroy", what)
        return what

    def free(self, memory):
        self.call("MemFree", self.context, memory)
        return memory

    def recorded(self, kernel):
        """A closed list with a launch."""
        closed = self.make("CommandListCreate", self.context, self.device, described(0x0F, 0, 8))
        self.launch(closed, kernel)
        self.call("CommandListClose", closed)
        return closed

    def replay(self, closed):
        append = "CommandListImmediateAppendCommandListsExp"
        self.call(append, self.list(), c_uint32(1), byref(closed), None, c_uint32(0), None)
        return closed

    def two_threads(self):
        queue, kernels = self.list(), [self.kernel() for _ in range(2)]
        observer.slow("zeCommandListAppendLaunchKernel", 200_000)
        other = threading.Thread(target=self.launch, args=(queue, kernels[0]))
        other.start()
        threading.Event().wait(0.05)
        self.launch(queue, kernels[1])
        other.join()


def of_gone_list(raw):
    queue, event = raw.list(), raw.event()
    raw.signal(queue, event)
    raw.destroy("CommandList", raw.finish(queue))
    raw.wait(raw.list(), event)


def waited_for(raw):
    queue, event = raw.list(), raw.event()
    raw.wait(raw.list(), raw.signal(queue, event))
    raw.destroy("CommandList", raw.finish(queue))


def in_use(raw, end):
    memory, module = raw.memory(), raw.module()
    kernel = raw.kernel(module, memory)
    raw.launch(raw.list(), kernel)
    end(kernel, module, memory)


def freed(raw, use):
    memory = raw.memory()
    kernel = raw.kernel(memory=memory)
    closed = raw.recorded(kernel)
    raw.free(memory)
    use(kernel, closed)


def signalled_twice(raw):
    queue, event = raw.list(), raw.gate()
    for _ in range(2):
        raw.finish(queue)
        raw.signal(queue, event)


MISTAKES = {
    "the same list": Raw.two_threads,
    "what it is given was destroyed": lambda raw: raw.wait(raw.list(), raw.destroy("Event", raw.event())),
    "it is not allocated": lambda raw: raw.free(raw.free(raw.memory())),
    "does not reach the host": lambda raw: raw.query(raw.signal(raw.list(), raw.event(DEVICE))),
    "not visible to the host": lambda raw: raw.query(raw.signal(raw.list(), raw.event(flags=IMMEDIATE))),
    "whose signal does not reach the device": lambda raw: raw.wait(raw.list(), raw.signal(raw.list(), raw.event(1))),
    "whose wait does not reach the device": lambda raw: raw.wait(raw.list(), raw.signal(raw.list(), raw.event(wait=0))),
    "whose wait does not reach it": lambda raw: raw.wait(raw.list(), raw.gate(wait=DEVICE)),
    "never signalled": lambda raw: raw.query(raw.event()),
    "the host cannot do this": lambda raw: raw.call("EventHostReset", raw.event()),
    "not for immediate lists": lambda raw: raw.signal(raw.list(), raw.event(flags=2)),
    "has work": lambda raw: raw.destroy("CommandList", raw.launch(raw.list(), raw.kernel())),
    "may still wait for": waited_for,
    "whose list was destroyed": of_gone_list,
    "pageable": lambda raw: raw.copy(PAGEABLE, 64),
    "past the end": lambda raw: raw.copy(raw.memory(128), 129),
    "what uses it is not known": lambda raw: in_use(raw, lambda kernel, module, memory: raw.free(memory)),
    "launches of it are not": lambda raw: in_use(raw, lambda kernel, module, memory: raw.destroy("Kernel", kernel)),
    "argument 0 was freed": lambda raw: freed(raw, lambda kernel, closed: raw.launch(raw.list(), kernel)),
    "it has 1 objects": lambda raw: (pool := raw.pool(), raw.gate(pool), raw.destroy("EventPool", pool)),
    "a list may still wait": lambda raw: raw.destroy("Event", raw.wait(raw.list(), raw.gate())),
    "is not known to have happened": lambda raw: raw.destroy("Event", raw.signal(raw.list(), raw.gate())),
    "again without a reset": signalled_twice,
    "the host to signal": lambda raw: raw.signal(raw.list(), raw.wait(raw.list(), raw.gate())),
    "known to have run": lambda raw: raw.destroy("CommandList", raw.replay(raw.recorded(raw.kernel()))),
    "uses memory that was freed": lambda raw: freed(raw, lambda kernel, closed: raw.replay(closed)),
}


@pytest.mark.parametrize(("text", "mistake"), MISTAKES.items(), ids=MISTAKES)
def test_a_mistake_is_found(text, mistake):
    observer.watch()
    try:
        raw = Raw()
        assert observer.violations() == []
        mistake(raw)
        assert any(text in each for each in observer.violations())
    finally:
        observer.unwatch()
