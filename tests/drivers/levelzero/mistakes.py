"""Makes each mistake that null hardware hides on purpose, through the table of calls. The observer must find it.

The objects are the driver's own, made through the table like forebay's. `test_observer` runs these tests in a separate
process, because some of the mistakes corrupt the driver's heap. To run some of them:

    python -m tests.null_levelzero --devices 2 python -m pytest tests/drivers/levelzero/mistakes.py -k meet
"""

import ctypes
import functools
import itertools
import struct
import threading
from ctypes import byref, c_size_t, c_uint32, c_uint64, c_void_p

import pytest

import forebay as fb
from forebay.queues.drivers.levelzero.descriptors import kernel_desc, module_desc
from tests.helpers.spirv import fill_module
from tests.observers import levelzero as observer

pytestmark = pytest.mark.needs("null hardware", "no validation layer")  # which may not survive what is done here

DEVICE, HOST = 2, 4  # scopes
IMMEDIATE, HOST_VISIBLE = 1, 4
NOT_READY = 1
FOREVER = 2**64 - 1


CONTEXT, QUEUE, LIST, POOL, EVENT, DEVICE_MEMORY, HOST_MEMORY = 0x0D, 0x0E, 0x0F, 0x10, 0x11, 0x15, 0x16
COUNTER = 0x2003A


def desc(stype, *fields):
    """A descriptor of the API: its type, the pointer to an extension structure, and `fields`."""
    return struct.pack(f"I4xP{len(fields)}I4x", stype, 0, *fields)


class Raw:
    """The driver, called through forebay's table. Only the observer checks the calls.

    Each of the `OBJECTS` is made when it is first asked for, and is the same one for the same arguments.
    """

    OBJECTS = ("list", "open_list", "closed", "counter_event", "pool", "event", "memory", "module", "kernel")

    def __init__(self, observer):
        self.observer = observer
        self.natives = [device.native for device in fb.devices() if device.backend == "level_zero"]
        self.context = self.make("zeContextCreate", c_void_p(self.natives[0].driver), desc(CONTEXT, 0))
        self.device = c_void_p(self.natives[0].device)
        for name in self.OBJECTS:
            setattr(self, name, functools.cache(getattr(self, name)))

    def call(self, name, *arguments):
        """Its result."""
        return ctypes.CFUNCTYPE(c_uint32, *map(type_of, arguments))(self.observer.pointer(name))(*arguments)

    def make(self, name, *arguments):
        """The value that a call stores through its last argument."""
        made = c_void_p()
        self.do(name, *arguments, byref(made))
        return made

    def do(self, name, *arguments):
        result = self.call(name, *arguments)
        assert result == 0, f"{name}: {result:#x}"

    # -- objects

    def list(self, number=1, device=0):
        of = c_void_p(self.natives[device].device)
        return self.make("zeCommandListCreateImmediate", self.context, of, desc(QUEUE, 0, 0, 2, 2, 0))

    def open_list(self):
        return self.make("zeCommandListCreate", self.context, self.device, desc(LIST, 0, 8))

    def closed(self):
        """A closed list with a launch of the kernel."""
        self.launch(self.open_list(), self.kernel())
        self.do("zeCommandListClose", self.open_list())
        return self.open_list()

    def counter_event(self, signal=DEVICE, wait=DEVICE, flags=IMMEDIATE):
        return self.make("zeEventCounterBasedCreate", self.context, self.device, desc(COUNTER, flags, signal, wait))

    def visible(self, signal=HOST):
        return self.counter_event(signal, DEVICE, IMMEDIATE | HOST_VISIBLE)

    def pool(self, flags=1):
        return self.make("zeEventPoolCreate", self.context, desc(POOL, flags, 4), c_uint32(0), None)

    def event(self, index=0, signal=HOST, wait=HOST, flags=1):
        return self.make("zeEventCreate", self.pool(flags), desc(EVENT, index, signal, wait))

    def memory(self, nbytes=4096, host=False):
        if host:
            return self.make("zeMemAllocHost", self.context, desc(HOST_MEMORY, 0), c_size_t(nbytes), c_size_t(64))
        rest = c_size_t(nbytes), c_size_t(64), self.device
        return self.make("zeMemAllocDevice", self.context, desc(DEVICE_MEMORY, 0, 0), *rest)

    def module(self):
        binary, module, log = fill_module(), c_void_p(), c_void_p()
        self.do("zeModuleCreate", self.context, self.device, module_desc(0, binary), byref(module), byref(log))
        self.do("zeModuleBuildLogDestroy", log)
        return module

    def kernel(self, number=1):
        kernel = self.make("zeKernelCreate", self.module(), kernel_desc(b"fill"))
        self.do("zeKernelSetArgumentValue", kernel, c_uint32(0), c_size_t(8), byref(self.memory()))
        self.do("zeKernelSetGroupSize", kernel, c_uint32(1), c_uint32(1), c_uint32(1))
        return kernel

    # -- commands

    def launch(self, list_, kernel, waits=()):
        groups = (c_uint32 * 3)(1, 1, 1)
        return self.call("zeCommandListAppendLaunchKernel", list_, kernel, groups, None, *wait_list(waits))

    def copy(self, list_, to, source, nbytes=64):
        return self.call("zeCommandListAppendMemoryCopy", list_, to, source, c_size_t(nbytes), None, c_uint32(0), None)

    def fill(self, list_, to):
        rest = byref(c_uint32(1)), c_size_t(4), c_size_t(64), None, c_uint32(0), None
        return self.call("zeCommandListAppendMemoryFill", list_, to, *rest)

    def argument(self, kernel):
        return self.call("zeKernelSetArgumentValue", kernel, c_uint32(1), c_size_t(4), byref(c_uint64(7)))

    def replay(self, list_, closed):
        append = "zeCommandListImmediateAppendCommandListsExp"
        return self.call(append, list_, c_uint32(1), byref(closed), None, c_uint32(0), None)

    def signal(self, list_, event):
        return self.call("zeCommandListAppendSignalEvent", list_, event)

    def wait(self, list_, *events):
        return self.call("zeCommandListAppendWaitOnEvents", list_, *wait_list(events))

    # -- the host

    def poll(self, list_):
        return self.call("zeCommandListHostSynchronize", list_, c_uint64(0))

    def finish(self, list_):
        self.do("zeCommandListHostSynchronize", list_, c_uint64(FOREVER))

    def ask(self, event, timeout=0):
        return self.call("zeEventHostSynchronize", event, c_uint64(timeout))

    def query(self, event):
        return self.call("zeEventQueryStatus", event)

    def open(self, gate):
        return self.call("zeEventHostSignal", gate)

    def reset(self, event):
        return self.call("zeEventHostReset", event)

    def destroy(self, kind, *objects):
        for each in objects:
            self.do(f"ze{kind}Destroy", each)

    def destroy_unseen(self, kind, object_):
        """Destroy it for the observer alone: the driver would not survive the mistake."""
        self.observer.fail(f"ze{kind}Destroy", 0, 0)
        self.call(f"ze{kind}Destroy", object_)

    def free(self, *addresses):
        for each in addresses:
            self.do("zeMemFree", self.context, each)


def type_of(argument):
    """By reference and NULL are pointers like all others."""
    return c_void_p if argument is None or not hasattr(type(argument), "from_param") or isinstance(
        argument, ctypes.Array) else type(argument)  # fmt: skip


def wait_list(events):
    return c_uint32(len(events)), (c_void_p * len(events))(*events) if events else None


@pytest.fixture
def watched():
    observer.watch()
    yield observer
    observer.unwatch()


@pytest.fixture
def raw(watched):
    """Objects may be left over: the process is young, and nothing runs."""
    raw = Raw(watched)
    assert watched.violations() == []
    return raw


HELD = "the event is not visible to the host"
PAGEABLE = (ctypes.c_char * 64)()
NOWHERE = c_void_p(ctypes.addressof(PAGEABLE))
MISTAKES = [  # (the violation, what is still right, the mistake)
    # What was destroyed is used: the call must not reach the driver, which might crash.
    ("what it is given was destroyed", lambda raw: raw.destroy("CommandList", raw.list()),
     lambda raw: raw.signal(raw.list(), raw.counter_event())),
    ("what it is given was destroyed",
     lambda raw: (raw.signal(raw.list(), raw.counter_event()), raw.destroy("Event", raw.counter_event())),
     lambda raw: raw.wait(raw.list(2), raw.counter_event())),
    ("what it is given was destroyed", lambda raw: raw.destroy("Kernel", raw.kernel()),
     lambda raw: raw.launch(raw.list(), raw.kernel())),
    ("zeMemFree: it is not allocated", lambda raw: raw.free(raw.memory()),
     lambda raw: raw.call("zeMemFree", raw.context, raw.memory())),
    # Scopes
    *((f"{name}: the scope of the event's signal does not reach the host",
       lambda raw: raw.signal(raw.list(), raw.visible(DEVICE)), lambda raw, ask=ask: ask(raw, raw.visible(DEVICE)))
      for name, ask in (("zeEventHostSynchronize", Raw.ask), ("zeEventQueryStatus", Raw.query))),
    ("zeEventQueryStatus: " + HELD, lambda raw: raw.signal(raw.list(), raw.counter_event(HOST)),
     lambda raw: raw.query(raw.counter_event(HOST))),
    ("zeEventHostSignal: " + HELD, lambda raw: raw.event(flags=0), lambda raw: raw.open(raw.event(flags=0))),
    *(("whose signal does not reach the device",  # of its own list: nothing has to be made visible
       lambda raw, scope=scope: (raw.signal(raw.list(), raw.counter_event(scope)),
                                 raw.wait(raw.list(), raw.counter_event(scope))),
       lambda raw, scope=scope: raw.wait(raw.list(2), raw.counter_event(scope))) for scope in (0, 1)),
    *(("zeCommandListAppendLaunchKernel: list 2 waits for an event whose wait does not reach the device",
       lambda raw, made=made: raw.signal(raw.list(), made(raw)),
       lambda raw, made=made: raw.launch(raw.list(2), raw.kernel(), [made(raw)]))
      for made in (lambda raw: raw.event(wait=0), lambda raw: raw.counter_event(wait=0))),
    ("waits for the host by an event whose wait does not reach it", lambda raw: None,
     lambda raw: raw.wait(raw.list(), raw.event(wait=DEVICE))),
    ("another device's event whose signal stays on that",
     lambda raw: (raw.signal(raw.list(), raw.counter_event()), raw.signal(raw.list(), raw.counter_event(HOST)),
                  raw.wait(raw.list(2, device=1), raw.counter_event(HOST))),
     lambda raw: raw.wait(raw.list(2, device=1), raw.counter_event())),
    ("has no timestamps", lambda raw: raw.signal(raw.list(), raw.visible()),
     lambda raw: raw.call("zeEventQueryKernelTimestamp", raw.visible(), (c_uint64 * 4)())),
    # Counter-based events
    ("never signalled", lambda raw: None, lambda raw: raw.wait(raw.list(), raw.visible())),
    ("never signalled", lambda raw: None, lambda raw: raw.ask(raw.visible())),
    ("never signalled", lambda raw: None, lambda raw: raw.query(raw.visible())),
    ("the host cannot do this", lambda raw: None, lambda raw: raw.open(raw.visible())),
    ("the host cannot do this", lambda raw: None, lambda raw: raw.reset(raw.visible())),
    ("not for immediate lists", lambda raw: None, lambda raw: raw.signal(raw.list(), raw.counter_event(flags=2))),
    # Lists
    ("list 1 has work that is not known to be done", lambda raw: raw.launch(raw.list(), raw.kernel()),
     lambda raw: raw.destroy("CommandList", raw.list())),
    ("list 1 signals what list 2 may still wait for",  # its own work is done
     lambda raw: (raw.signal(raw.list(), raw.counter_event()), raw.wait(raw.list(2), raw.counter_event()),
                  raw.finish(raw.list())),
     lambda raw: raw.destroy("CommandList", raw.list())),
    ("whose list was destroyed",
     lambda raw: (raw.signal(raw.list(), raw.counter_event()), raw.finish(raw.list()),
                  raw.destroy("CommandList", raw.list())),
     lambda raw: raw.wait(raw.list(2), raw.counter_event())),
    ("not known to be done",  # a poll that says "not ready" shows nothing
     lambda raw: (raw.launch(raw.list(), raw.kernel()),
                  raw.observer.fail("zeCommandListHostSynchronize", NOT_READY, 0), raw.poll(raw.list())),
     lambda raw: raw.destroy("CommandList", raw.list())),
    # Memory, kernels, modules, contexts
    ("pageable", lambda raw: None, lambda raw: raw.copy(raw.list(), NOWHERE, raw.memory())),
    ("pageable", lambda raw: None, lambda raw: raw.copy(raw.list(), raw.memory(), NOWHERE)),
    ("pageable", lambda raw: None, lambda raw: raw.fill(raw.list(), NOWHERE)),
    ("past the end of an allocation of 128 bytes", lambda raw: None,
     lambda raw: raw.copy(raw.list(), raw.memory(128), raw.memory(256), 129)),
    ("zeMemFree: what uses it is not known to be done", lambda raw: raw.launch(raw.list(), raw.kernel()),
     lambda raw: raw.free(raw.memory())),
    ("zeMemFree: what uses it is not known to be done",
     lambda raw: raw.copy(raw.list(), raw.memory(), raw.memory(host=True)), lambda raw: raw.free(raw.memory())),
    ("argument 0 was freed", lambda raw: (raw.kernel(), raw.free(raw.memory())),
     lambda raw: raw.launch(raw.list(), raw.kernel())),
    ("zeKernelDestroy: launches of it are not known to be done", lambda raw: raw.launch(raw.list(), raw.kernel()),
     lambda raw: raw.destroy("Kernel", raw.kernel())),
    ("zeModuleDestroy: it has kernels", lambda raw: (raw.launch(raw.list(), raw.kernel()), raw.finish(raw.list())),
     lambda raw: raw.destroy("Module", raw.module())),
    ("zeContextDestroy: it has 1 objects", lambda raw: raw.list(),
     lambda raw: raw.destroy_unseen("Context", raw.context)),
    # Closed lists
    ("is not closed", lambda raw: None, lambda raw: raw.replay(raw.list(), raw.open_list())),
    ("not known to have run", lambda raw: raw.replay(raw.list(), raw.closed()),
     lambda raw: raw.destroy("CommandList", raw.closed())),
    ("what uses it is not known to be done", lambda raw: raw.replay(raw.list(), raw.closed()),
     lambda raw: raw.free(raw.memory())),
    ("launches of it are not known to be done", lambda raw: raw.replay(raw.list(), raw.closed()),
     lambda raw: raw.destroy("Kernel", raw.kernel())),
    ("uses memory that was freed", lambda raw: (raw.closed(), raw.free(raw.memory())),
     lambda raw: raw.replay(raw.list(), raw.closed())),
    ("what it is given was destroyed", lambda raw: (raw.closed(), raw.destroy("Kernel", raw.kernel())),
     lambda raw: raw.replay(raw.list(), raw.closed())),
    # Plain events
    ("zeEventHostReset: a list may still wait for the event",
     lambda raw: (raw.wait(raw.list(), raw.event()), raw.open(raw.event())), lambda raw: raw.reset(raw.event())),
    ("zeEventHostReset: the event's signal is not known to have happened",
     lambda raw: raw.signal(raw.list(), raw.event()), lambda raw: raw.reset(raw.event())),
    ("signals an event again without a reset",
     lambda raw: (raw.signal(raw.list(), raw.event()), raw.finish(raw.list())),
     lambda raw: raw.signal(raw.list(), raw.event())),
    ("that others wait for the host to signal", lambda raw: raw.wait(raw.list(), raw.event()),
     lambda raw: raw.signal(raw.list(2), raw.event())),
    ("zeEventDestroy: a list may still wait for the event",
     lambda raw: (raw.wait(raw.list(), raw.event()), raw.open(raw.event())),
     lambda raw: raw.destroy("Event", raw.event())),
    ("zeEventPoolDestroy: it has events", lambda raw: raw.event(),
     lambda raw: raw.destroy_unseen("EventPool", raw.pool(1))),
]  # fmt: skip


@pytest.mark.parametrize(("words", "right", "wrong"), MISTAKES)
def test_a_mistake_is_found(raw, watched, words, right, wrong):
    right(raw)
    assert watched.violations() == []
    wrong(raw)
    (found,) = watched.violations()
    assert words in found


# -- nothing wrong


def test_nothing_is_wrong_with_what_is_right(raw, watched):
    first, second, kernel, closed = raw.list(), raw.list(2), raw.kernel(), raw.closed()
    upload, event, done = raw.memory(host=True), raw.counter_event(), raw.visible()
    for _ in range(3):
        assert raw.copy(first, raw.memory(), upload) == 0
        assert raw.launch(first, kernel) == 0
        assert raw.signal(first, event) == 0
        assert raw.launch(second, kernel, [event]) == 0
        assert raw.replay(second, closed) == 0
        assert raw.signal(second, done) == 0
        assert raw.ask(done, FOREVER) == 0
    raw.destroy("CommandList", closed)
    raw.destroy("Kernel", kernel)
    raw.destroy("Module", raw.module())
    raw.free(raw.memory(), upload)
    raw.destroy("CommandList", first, second)
    raw.destroy("Event", event, done)
    raw.destroy("Context", raw.context)
    assert watched.violations() == []
    assert watched.alive() == dict.fromkeys(watched.OBJECTS, 0)


def test_a_gate_used_twice(raw, watched):
    queue, gate = raw.list(), raw.event()
    for turn in range(3):
        if turn:
            assert raw.reset(gate) == 0
        assert raw.wait(queue, gate) == 0
        assert raw.open(gate) == 0
        raw.finish(queue)
    raw.destroy("Event", gate)
    raw.destroy("EventPool", raw.pool(1))
    assert watched.violations() == []


def test_lists_and_a_counter_based_event_destroyed_when_all_who_waited_are_done(raw, watched):
    lists, event, last = [raw.list(number) for number in (1, 2, 3)], raw.counter_event(), raw.visible()
    for first, second in itertools.pairwise(lists):
        raw.signal(first, event)  # again and again
        raw.wait(second, event)
    raw.signal(lists[-1], last)
    raw.destroy("Event", event)
    assert raw.ask(last, FOREVER) == 0  # which tells of all three
    raw.destroy("CommandList", *lists)
    assert watched.violations() == []


# -- threads

LAUNCH = "zeCommandListAppendLaunchKernel"
MEETINGS = [  # (the call that takes long, another thread's, the violation)
    (LAUNCH, lambda raw: raw.launch(raw.list(), raw.kernel(2)), f"is in {LAUNCH} with the same list"),
    (LAUNCH, lambda raw: raw.signal(raw.list(), raw.counter_event()), f"is in {LAUNCH} with the same list"),
    (LAUNCH, lambda raw: raw.poll(raw.list()), f"is in {LAUNCH} with the same list"),
    (LAUNCH, lambda raw: raw.wait(raw.list()), f"is in {LAUNCH} with the same list"),
    (LAUNCH, lambda raw: raw.argument(raw.kernel()), f"is in {LAUNCH} with the same kernel"),
    (LAUNCH, lambda raw: raw.launch(raw.list(2), raw.kernel(2)), None),
    ("zeCommandListHostSynchronize", lambda raw: raw.signal(raw.list(), raw.counter_event()),
     "zeCommandListAppendSignalEvent: while another thread is in zeCommandListHostSynchronize"),
]  # fmt: skip


@pytest.mark.parametrize(("long", "other", "words"), MEETINGS)
def test_two_threads_that_meet(raw, watched, long, other, words):
    queue, kernel = raw.list(), raw.kernel()
    for made in (raw.list(2), raw.kernel(2), raw.counter_event()):
        assert made
    first = (lambda: raw.launch(queue, kernel)) if long == LAUNCH else (lambda: raw.finish(queue))
    watched.slow(long, 100_000)
    started = threading.Event()
    thread = threading.Thread(target=lambda: (started.set(), first()))
    thread.start()
    started.wait()
    threading.Event().wait(0.03)
    other(raw)
    thread.join()
    watched.slow(long, 0)
    found = watched.violations()
    assert len(found) == (words is not None)
    assert all(words in each for each in found)


# -- what it answers for


@pytest.fixture
def emulated():
    observer.watch(emulate=True)
    yield Raw(observer)
    observer.unwatch()


def test_what_is_behind_a_closed_gate_is_not_done(emulated):
    raw = emulated
    first, second, free = (raw.list(number) for number in (1, 2, 3))
    gate, event, done, kernel = raw.event(), raw.counter_event(), raw.visible(), raw.kernel()
    raw.launch(first, kernel)
    assert raw.poll(first) == 0
    raw.wait(first, gate)
    raw.signal(first, event)
    raw.wait(second, event)
    raw.signal(second, done)
    raw.launch(free, kernel)
    for queue, result in ((first, NOT_READY), (second, NOT_READY), (free, 0)):
        assert raw.poll(queue) == result
    assert raw.query(done) == raw.ask(done, 1000) == NOT_READY
    opener = threading.Timer(0.05, lambda: raw.open(gate))
    opener.start()
    assert raw.ask(done, FOREVER) == 0  # blocks until then
    opener.join()
    for queue in (first, second, free):
        assert raw.poll(queue) == 0
    assert raw.observer.violations() == []


def test_host_functions_are_called_when_the_list_arrives(emulated):
    raw, ran = emulated, []
    queue, gates = raw.list(), [raw.event(0), raw.event(1)]
    function = ctypes.CFUNCTYPE(None, c_void_p)(ran.append)
    numbers = itertools.count(1)

    def host():
        raw.do("zeCommandListAppendHostFunction", queue, function, c_void_p(next(numbers)), None, None, c_uint32(0),
               None)  # fmt: skip

    host()
    assert ran == [1]
    for gate in gates:
        raw.wait(queue, gate)
        host()
    assert ran == [1]
    raw.open(gates[1])
    assert ran == [1]
    raw.open(gates[0])
    assert ran == [1, 2, 3]


# -- recording and failing


def test_serials_are_those_of_signals(raw, watched):
    first, second, event = raw.list(), raw.list(2), raw.counter_event()
    watched.start()
    for _ in range(2):
        raw.signal(first, event)
        raw.wait(second, event)
    watched.stop()
    signals = [call[4] for call in watched.read(0) if call[0] == "zeCommandListAppendSignalEvent"]
    waits = [call[3] for call in watched.read(0) if call[0] == "zeCommandListAppendWaitOnEvents"]
    assert len(set(signals)) == 2
    assert waits == [(serial,) for serial in signals]


def test_what_ends_an_object_ends_it_though_it_fails(raw, watched):
    queue = raw.list()
    watched.fail("zeCommandListDestroy", 0x70000001, 0)
    assert raw.call("zeCommandListDestroy", queue) == 0x70000001
    assert watched.alive()["lists"] == 0


def test_it_costs_nothing_when_it_is_off():
    observer.watch()  # finds the driver's functions
    observer.unwatch()
    assert not observer.is_watching()
    before = [observer.pointer(name) for name in observer.NAMES]
    observer.watch()
    assert all(observer.pointer(name) != pointer for name, pointer in zip(observer.NAMES, before, strict=True))
    observer.unwatch()
    assert [observer.pointer(name) for name in observer.NAMES] == before


def test_every_call_is_wrapped_and_known():
    assert observer.KINDS.keys() <= set(observer.NAMES)
    constants = (observer.LAUNCH, observer.UPLOAD, observer.FILL, observer.MARKER, observer.BARRIER, observer.ARGUMENT)
    assert set(constants) <= set(observer.NAMES)
    assert {observer.kind_of(name) for name in constants} == {"command", "marker", "barrier", "argument"}
