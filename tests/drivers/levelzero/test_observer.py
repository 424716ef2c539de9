"""The observer finds mistakes that null hardware hides; each is made through the table of calls."""

import ctypes
import struct
from ctypes import byref, c_size_t, c_uint32, c_uint64, c_void_p

import pytest

from forebay.queues.selection import select
from tests.helpers.observer import observer_of

observer = observer_of("level_zero")
pytestmark = pytest.mark.needs("null hardware", "no validation layer")  # which may not survive what is done here

DEVICE, HOST = 2, 4  # scopes
PAGEABLE = ctypes.create_string_buffer(64)


def described(stype, *fields):
    """A structure of the API: its type, no extension, and these fields of 32 bits."""
    return ctypes.create_string_buffer(struct.pack(f"I4xQ{'I' * len(fields)}", stype, 0, *fields))


class Raw:
    """The driver, called through forebay's table: only the observer checks the calls."""

    def __init__(self):
        native = select().native
        self.device = c_void_p(native.device)
        self.context = self.make("ContextCreate", c_void_p(native.driver), described(0x0D, 0))

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

    def event(self, signal=HOST):
        """A counter-based one that the host can see."""
        return self.make("EventCounterBasedCreate", self.context, self.device, described(0x2003A, 5, signal, DEVICE))

    def gate(self):
        pool = self.make("EventPoolCreate", self.context, described(0x10, 1, 4), c_uint32(0), None)
        return self.make("EventCreate", pool, described(0x11, 0, HOST, HOST))

    def memory(self, nbytes):
        described_memory = described(0x15, 0, 0)
        return self.make("MemAllocDevice", self.context, described_memory, c_size_t(nbytes), c_size_t(64), self.device)

    def copy(self, to, nbytes):
        source, queue = self.memory(256), self.list()
        self.call("CommandListAppendMemoryCopy", queue, to, source, c_size_t(nbytes), None, c_uint32(0), None)
        return source

    def signal(self, event, queue=None):
        self.call("CommandListAppendSignalEvent", queue or self.list(), event)
        return event

    def wait(self, event):
        self.call("CommandListAppendWaitOnEvents", self.list(), c_uint32(1), (c_void_p * 1)(event))
        return event

    def destroy(self, kind, what):
        self.call(f"{kind}Destroy", what)
        return what

    def free(self, memory):
        self.call("MemFree", self.context, memory)
        return memory


def waited_for(raw):
    queue = raw.list()
    raw.wait(raw.signal(raw.event(), queue))
    raw.call("CommandListHostSynchronize", queue, c_uint64(2**64 - 1))
    raw.destroy("CommandList", queue)


MISTAKES = {
    "what it is given was destroyed": lambda raw: raw.wait(raw.destroy("Event", raw.event())),
    "it is not allocated": lambda raw: raw.free(raw.free(raw.memory(64))),
    "does not reach the host": lambda raw: raw.call("EventQueryStatus", raw.signal(raw.event(DEVICE))),
    "whose signal does not reach the device": lambda raw: raw.wait(raw.signal(raw.event(1))),
    "never signalled": lambda raw: raw.call("EventQueryStatus", raw.event()),
    "the host cannot do this": lambda raw: raw.call("EventHostReset", raw.event()),
    "may still wait for": waited_for,
    "pageable": lambda raw: raw.copy(PAGEABLE, 64),
    "past the end": lambda raw: raw.copy(raw.memory(128), 129),
    "what uses it is not known": lambda raw: raw.free(raw.copy(raw.memory(128), 128)),
    "it has 1 objects": lambda raw: raw.call("ContextDestroy", (raw.list(), raw.context)[1]),
    "a list may still wait": lambda raw: raw.destroy("Event", raw.wait(raw.gate())),
    "is not known to have happened": lambda raw: raw.destroy("Event", raw.signal(raw.gate())),
    "again without a reset": lambda raw: raw.signal(raw.signal(raw.gate())),
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
