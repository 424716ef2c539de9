"""Makes each mistake that null hardware hides on purpose, through the table of calls. The observer must find it.

The objects are the driver's own, made through the table like forebay's. `test_observer` runs these tests in a separate
process, because some of the mistakes corrupt the driver's heap. To run some of them:

    python -m tools.null_levelzero python -m pytest tests/drivers/levelzero/mistakes.py -k threads
"""

import ctypes
import itertools
import threading
from ctypes import Structure, byref, c_size_t, c_uint32, c_uint64, c_void_p

import pytest

import forebay as fb
from forebay.queues.drivers.selection import select
from tests.helpers.spirv import fill_module
from tests.observers import levelzero as observer

pytestmark = pytest.mark.needs("null hardware", "no validation layer")  # which may not survive what is done here

DEVICE, HOST = 2, 4  # scopes
IMMEDIATE, HOST_VISIBLE, TIMESTAMPS = 1, 4, 16
NOT_READY = 1
FOREVER = 2**64 - 1


def described(stype, *fields):
    """A structure of the API: its type, the pointer to an extension structure, and `fields`."""

    class Described(Structure):
        _fields_ = [("stype", c_uint32), ("next", c_void_p), *fields]

        def __init__(self, *values):
            super().__init__(stype, None, *values)

    return Described


QueueDesc = described(0x0E, *((name, c_uint32) for name in ("ordinal", "index", "flags", "mode", "priority")))
ListDesc = described(0x0F, ("ordinal", c_uint32), ("flags", c_uint32))
PoolDesc = described(0x10, ("flags", c_uint32), ("count", c_uint32))
EventDesc = described(0x11, ("index", c_uint32), ("signal", c_uint32), ("wait", c_uint32))
DeviceAllocDesc = described(0x15, ("flags", c_uint32), ("ordinal", c_uint32))
HostAllocDesc = described(0x16, ("flags", c_uint32))
KernelDesc = described(0x1D, ("flags", c_uint32), ("name", ctypes.c_char_p))
ModuleDesc = described(
    0x1B, ("format", c_uint32), ("size", c_size_t), ("input", ctypes.c_char_p), ("options", ctypes.c_char_p),
    ("constants", c_void_p),
)  # fmt: skip
CounterDesc = described(0x2003A, ("flags", c_uint32), ("signal", c_uint32), ("wait", c_uint32))
ContextDesc = described(0x0D, ("flags", c_uint32))


class Raw:
    """The driver, called through forebay's table. Only the observer checks the calls."""

    def __init__(self, observer, native):
        self.observer = observer
        self.native = native
        self.context = self.make("zeContextCreate", c_void_p(native.driver), byref(ContextDesc(0)))
        self.device = c_void_p(native.device)

    def call(self, name, *arguments):
        """Its result."""
        return ctypes.CFUNCTYPE(c_uint32, *map(type_of, arguments))(self.observer.pointer(name))(*arguments)

    def make(self, name, *arguments):
        """The value that a call stores through its last argument."""
        made = c_void_p()
        result = self.call(name, *arguments, byref(made))
        assert result == 0, f"{name}: {result:#x}"
        return made

    def do(self, name, *arguments):
        result = self.call(name, *arguments)
        assert result == 0, f"{name}: {result:#x}"

    # -- objects

    def list(self):
        return self.make("zeCommandListCreateImmediate", self.context, self.device, byref(QueueDesc(0, 0, 2, 2, 0)))

    def open_list(self):
        return self.make("zeCommandListCreate", self.context, self.device, byref(ListDesc(0, 8)))

    def counter_event(self, signal=DEVICE, wait=DEVICE, flags=IMMEDIATE):
        desc = CounterDesc(flags, signal, wait)
        return self.make("zeEventCounterBasedCreate", self.context, self.device, byref(desc))

    def pool(self, flags=1):
        return self.make("zeEventPoolCreate", self.context, byref(PoolDesc(flags, 4)), c_uint32(0), None)

    def event(self, pool, index=0, signal=HOST, wait=HOST):
        return self.make("zeEventCreate", pool, byref(EventDesc(index, signal, wait)))

    def memory(self, nbytes=4096, host=False):
        if host:
            return self.make("zeMemAllocHost", self.context, byref(HostAllocDesc(0)), c_size_t(nbytes), c_size_t(64))
        desc = DeviceAllocDesc(0, 0)
        return self.make("zeMemAllocDevice", self.context, byref(desc), c_size_t(nbytes), c_size_t(64), self.device)

    def module(self):
        binary = fill_module()
        desc = ModuleDesc(0, len(binary), binary, b"", None)
        module, log = c_void_p(), c_void_p()
        self.do("zeModuleCreate", self.context, self.device, byref(desc), byref(module), byref(log))
        self.do("zeModuleBuildLogDestroy", log)
        return module

    def kernel(self, module, memory=None):
        kernel = self.make("zeKernelCreate", module, byref(KernelDesc(0, b"fill")))
        if memory is not None:
            self.do("zeKernelSetArgumentValue", kernel, c_uint32(0), c_size_t(8), byref(memory))
        self.do("zeKernelSetGroupSize", kernel, c_uint32(1), c_uint32(1), c_uint32(1))
        return kernel

    # -- commands

    def launch(self, list_, kernel, waits=()):
        groups = (c_uint32 * 3)(1, 1, 1)
        return self.call("zeCommandListAppendLaunchKernel", list_, kernel, groups, None, *wait_list(waits))

    def copy(self, list_, to, source, nbytes=64):
        return self.call("zeCommandListAppendMemoryCopy", list_, to, source, c_size_t(nbytes), None, c_uint32(0), None)

    def replay(self, list_, closed):
        append = "zeCommandListImmediateAppendCommandListsExp"
        return self.call(append, list_, c_uint32(1), byref(closed), None, c_uint32(0), None)

    def signal(self, list_, event):
        return self.call("zeCommandListAppendSignalEvent", list_, event)

    def wait(self, list_, *events):
        return self.call("zeCommandListAppendWaitOnEvents", list_, *wait_list(events))

    def finish(self, list_):
        self.do("zeCommandListHostSynchronize", list_, c_uint64(FOREVER))

    def destroy(self, kind, *objects):
        for each in objects:
            self.do(f"ze{kind}Destroy", each)

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
    raw = Raw(watched, select().native)
    assert watched.violations() == []
    return raw


def the(violations):
    """The only violation."""
    (found,) = violations
    return found


@pytest.mark.parametrize("what", ["list", "event", "kernel"])
def test_what_was_destroyed_is_used(raw, watched, what):
    """The call must not reach the driver, because the driver might crash."""
    queue, other, event, unused = raw.list(), raw.list(), raw.counter_event(), raw.counter_event()
    kernel = raw.kernel(raw.module(), raw.memory())
    raw.signal(queue, event)
    raw.finish(queue)
    if what == "list":
        raw.destroy("CommandList", queue)
        raw.signal(queue, unused)
    elif what == "event":
        raw.destroy("Event", event)
        raw.wait(other, event)
    else:
        raw.destroy("Kernel", kernel)
        raw.launch(other, kernel)
    assert "what it is given was destroyed" in the(watched.violations())


def test_memory_freed_twice(raw, watched):
    memory = raw.memory()
    raw.free(memory)
    raw.call("zeMemFree", raw.context, memory)
    assert "zeMemFree: it is not allocated" in the(watched.violations())


# -- nothing wrong


def test_nothing_is_wrong_with_what_is_right(raw, watched):
    first, second = raw.list(), raw.list()
    module, memory, upload = raw.module(), raw.memory(), raw.memory(host=True)
    kernel = raw.kernel(module, memory)
    event, done = raw.counter_event(), raw.counter_event(HOST, DEVICE, IMMEDIATE | HOST_VISIBLE)
    for _ in range(3):
        assert raw.copy(first, memory, upload) == 0
        assert raw.launch(first, kernel) == 0
        assert raw.signal(first, event) == 0
        assert raw.launch(second, kernel, [event]) == 0
        assert raw.signal(second, done) == 0
        raw.do("zeEventHostSynchronize", done, c_uint64(FOREVER))
    raw.destroy("Kernel", kernel)
    raw.destroy("Module", module)
    raw.free(memory, upload)
    raw.destroy("CommandList", first, second)
    raw.destroy("Event", event, done)
    raw.destroy("Context", raw.context)
    assert watched.violations() == []
    assert watched.alive() == dict.fromkeys(watched.OBJECTS, 0)


def test_a_gate_used_twice(raw, watched):
    queue, pool = raw.list(), raw.pool()
    gate = raw.event(pool)
    for turn in range(3):
        if turn:
            raw.do("zeEventHostReset", gate)
        assert raw.wait(queue, gate) == 0
        raw.do("zeEventHostSignal", gate)
        raw.finish(queue)
    raw.destroy("Event", gate)
    raw.destroy("EventPool", pool)
    assert watched.violations() == []


# -- threads


def meet(watched, name, *functions):
    """Makes two calls in two threads. The named calls take long."""
    watched.slow(name, 100_000)
    started = threading.Event()
    thread = threading.Thread(target=lambda: (started.set(), functions[0]()))
    thread.start()
    started.wait()
    threading.Event().wait(0.03)
    functions[1]()
    thread.join()
    watched.slow(name, 0)
    return watched.violations()


@pytest.mark.parametrize("second", ["launch", "marker", "synchronize", "barrier"])
def test_two_threads_on_one_list(raw, watched, second):
    queue = raw.list()
    kernel, event = raw.kernel(raw.module(), raw.memory()), raw.counter_event()
    calls = {
        "launch": lambda: raw.launch(queue, raw.kernel(raw.module())),
        "marker": lambda: raw.signal(queue, event),
        "synchronize": lambda: raw.call("zeCommandListHostSynchronize", queue, c_uint64(0)),
        "barrier": lambda: raw.wait(queue),
    }
    found = meet(watched, "zeCommandListAppendLaunchKernel", lambda: raw.launch(queue, kernel), calls[second])
    assert "while another thread is in zeCommandListAppendLaunchKernel with the same list" in the(found)


def test_a_host_synchronize_while_another_thread_appends(raw, watched):
    queue, event = raw.list(), raw.counter_event()
    found = meet(watched, "zeCommandListHostSynchronize", lambda: raw.finish(queue), lambda: raw.signal(queue, event))
    assert "zeCommandListAppendSignalEvent: while another thread is in zeCommandListHostSynchronize" in the(found)


def test_two_threads_on_two_lists(raw, watched):
    first, second = raw.list(), raw.list()
    kernels = [raw.kernel(raw.module(), raw.memory()) for _ in range(2)]
    found = meet(
        watched, "zeCommandListAppendLaunchKernel", lambda: raw.launch(first, kernels[0]),
        lambda: raw.launch(second, kernels[1]),
    )  # fmt: skip
    assert found == []


def test_two_threads_on_one_kernel(raw, watched):
    queue, kernel = raw.list(), raw.kernel(raw.module(), raw.memory())
    value = c_uint64(7)
    found = meet(
        watched, "zeCommandListAppendLaunchKernel", lambda: raw.launch(queue, kernel),
        lambda: raw.call("zeKernelSetArgumentValue", kernel, c_uint32(1), c_size_t(4), byref(value)),
    )  # fmt: skip
    assert "zeKernelSetArgumentValue: while another thread is in" in the(found)
    assert "same kernel" in the([found[0]])


# -- scopes


@pytest.mark.parametrize("call", ["zeEventHostSynchronize", "zeEventQueryStatus"])
def test_the_host_asks_an_event_whose_signal_stays_on_the_device(raw, watched, call):
    queue, event = raw.list(), raw.counter_event(DEVICE, DEVICE, IMMEDIATE | HOST_VISIBLE)
    raw.signal(queue, event)
    raw.call(call, event, *([c_uint64(0)] if "Synchronize" in call else []))
    assert f"{call}: the scope of the event's signal does not reach the host" in the(watched.violations())


def test_the_host_asks_an_event_that_is_not_visible_to_it(raw, watched):
    queue, event = raw.list(), raw.counter_event(HOST, DEVICE, IMMEDIATE)
    raw.signal(queue, event)
    raw.call("zeEventQueryStatus", event)
    assert "not visible to the host" in the(watched.violations())
    pooled = raw.event(raw.pool(flags=0))
    raw.call("zeEventHostSignal", pooled)
    assert "zeEventHostSignal: the event is not visible to the host" in the(watched.violations())


@pytest.mark.parametrize("scope", [0, 1])
def test_a_list_waits_for_a_signal_that_stays_in_its_own_list(raw, watched, scope):
    first, second, event = raw.list(), raw.list(), raw.counter_event(scope, DEVICE)
    raw.signal(first, event)
    raw.wait(first, event)
    assert watched.violations() == []  # of its own: nothing has to be made visible
    raw.wait(second, event)
    assert "whose signal does not reach the device" in the(watched.violations())


@pytest.mark.parametrize("pooled", [False, True])
def test_a_list_waits_without_making_visible(raw, watched, pooled):
    first, second = raw.list(), raw.list()
    event = raw.event(raw.pool(), signal=HOST, wait=0) if pooled else raw.counter_event(DEVICE, 0)
    raw.signal(first, event)
    raw.launch(second, raw.kernel(raw.module(), raw.memory()), [event])
    assert "zeCommandListAppendLaunchKernel: list 2 waits for an event whose wait does not reach the device" in the(
        watched.violations())  # fmt: skip


def test_a_list_waits_for_the_host_with_a_device_scope(raw, watched):
    raw.wait(raw.list(), raw.event(raw.pool(), wait=DEVICE))
    assert "waits for the host by an event whose wait does not reach it" in the(watched.violations())


def test_a_list_of_another_device_waits_for_a_device_scope(raw, watched):
    devices = [device.native for device in fb.devices() if device.backend == "level_zero"]
    if len(devices) < 2:
        pytest.skip("needs two devices: python -m tools.null_levelzero --devices 2")
    first, event, wide = raw.list(), raw.counter_event(), raw.counter_event(HOST, DEVICE)
    raw.device = c_void_p(devices[1].device)
    second = raw.list()
    raw.signal(first, event)
    raw.signal(first, wide)
    raw.wait(second, wide)
    assert watched.violations() == []
    raw.wait(second, event)
    assert "another device's event whose signal stays on that" in the(watched.violations())


def test_times_of_an_event_without(raw, watched):
    queue, event = raw.list(), raw.counter_event(HOST, DEVICE, IMMEDIATE | HOST_VISIBLE)
    raw.signal(queue, event)
    raw.call("zeEventQueryKernelTimestamp", event, (c_uint64 * 4)())
    assert "has no timestamps" in the(watched.violations())


# -- counter-based events


@pytest.mark.parametrize("how", ["list", "host", "query"])
def test_waiting_for_what_was_never_signalled(raw, watched, how):
    event = raw.counter_event(HOST, DEVICE, IMMEDIATE | HOST_VISIBLE)
    if how == "list":
        raw.wait(raw.list(), event)
    elif how == "host":
        raw.call("zeEventHostSynchronize", event, c_uint64(0))
    else:
        raw.call("zeEventQueryStatus", event)
    assert "never signalled" in the(watched.violations())


@pytest.mark.parametrize("call", ["zeEventHostSignal", "zeEventHostReset"])
def test_the_host_signals_or_resets_a_counter_based_event(raw, watched, call):
    raw.call(call, raw.counter_event(HOST, DEVICE, IMMEDIATE | HOST_VISIBLE))
    assert "the host cannot do this" in the(watched.violations())


def test_an_event_for_other_lists_than_immediate_ones(raw, watched):
    raw.signal(raw.list(), raw.counter_event(flags=2))
    assert "not for immediate lists" in the(watched.violations())


def test_a_counter_based_event_may_be_used_again_and_destroyed_at_once(raw, watched):
    first, second, event = raw.list(), raw.list(), raw.counter_event()
    for _ in range(2):
        raw.signal(first, event)
        raw.wait(second, event)
    raw.destroy("Event", event)
    assert watched.violations() == []


# -- lists


def test_a_list_destroyed_at_work(raw, watched):
    queue = raw.list()
    raw.launch(queue, raw.kernel(raw.module(), raw.memory()))
    raw.destroy("CommandList", queue)
    assert "list 1 has work that is not known to be done" in the(watched.violations())


def test_a_list_destroyed_while_another_may_wait_for_it(raw, watched):
    """The list's own work is done, but a later wait still reads its counter."""
    first, second, event = raw.list(), raw.list(), raw.counter_event()
    raw.signal(first, event)
    raw.wait(second, event)
    raw.finish(first)
    raw.destroy("CommandList", first)
    assert "list 1 signals what list 2 may still wait for" in the(watched.violations())


def test_a_list_destroyed_when_all_who_waited_are_done(raw, watched):
    first, second, third = raw.list(), raw.list(), raw.list()
    event, last = raw.counter_event(), raw.counter_event(HOST, DEVICE, IMMEDIATE | HOST_VISIBLE)
    raw.signal(first, event)
    raw.wait(second, event)
    raw.signal(second, event)
    raw.wait(third, event)
    raw.signal(third, last)
    raw.do("zeEventHostSynchronize", last, c_uint64(FOREVER))  # which tells of all three
    raw.destroy("CommandList", first, second, third)
    assert watched.violations() == []


def test_a_wait_for_an_event_of_a_list_that_is_gone(raw, watched):
    first, second, event = raw.list(), raw.list(), raw.counter_event()
    raw.signal(first, event)
    raw.finish(first)
    raw.destroy("CommandList", first)
    raw.wait(second, event)
    assert "whose list was destroyed" in the(watched.violations())


def test_a_poll_that_says_not_ready_tells_nothing(raw, watched):
    queue = raw.list()
    raw.launch(queue, raw.kernel(raw.module(), raw.memory()))
    watched.fail("zeCommandListHostSynchronize", NOT_READY, 0)
    assert raw.call("zeCommandListHostSynchronize", queue, c_uint64(0)) == NOT_READY
    raw.destroy("CommandList", queue)
    assert "not known to be done" in the(watched.violations())


# -- memory, kernels, modules, contexts


@pytest.mark.parametrize("which", ["to", "source"])
def test_a_copy_with_pageable_memory(raw, watched, which):
    pageable = (ctypes.c_char * 64)()
    memory, address = raw.memory(), c_void_p(ctypes.addressof(pageable))
    queue = raw.list()
    raw.copy(queue, *((address, memory) if which == "to" else (memory, address)))
    assert "pageable" in the(watched.violations())
    raw.finish(queue)


def test_a_fill_of_pageable_memory(raw, watched):
    pageable = (ctypes.c_char * 64)()
    queue, pattern = raw.list(), c_uint32(1)
    raw.call("zeCommandListAppendMemoryFill", queue, c_void_p(ctypes.addressof(pageable)), byref(pattern), c_size_t(4),
             c_size_t(64), None, c_uint32(0), None)  # fmt: skip
    assert "pageable" in the(watched.violations())


def test_a_copy_past_the_end(raw, watched):
    raw.copy(raw.list(), raw.memory(128), raw.memory(256), 129)
    assert "past the end of an allocation of 128 bytes" in the(watched.violations())


@pytest.mark.parametrize("use", ["launch", "copy"])
def test_memory_freed_while_it_is_used(raw, watched, use):
    queue, memory = raw.list(), raw.memory()
    if use == "launch":
        raw.launch(queue, raw.kernel(raw.module(), memory))
    else:
        raw.copy(queue, memory, raw.memory(host=True))
    raw.free(memory)
    assert "zeMemFree: what uses it is not known to be done" in the(watched.violations())


def test_a_launch_with_memory_that_was_freed(raw, watched):
    memory = raw.memory()
    kernel = raw.kernel(raw.module(), memory)
    raw.free(memory)
    raw.launch(raw.list(), kernel)
    assert "argument 0 was freed" in the(watched.violations())


def test_a_kernel_destroyed_while_it_runs(raw, watched):
    queue, kernel = raw.list(), raw.kernel(raw.module(), raw.memory())
    raw.launch(queue, kernel)
    raw.destroy("Kernel", kernel)
    assert "zeKernelDestroy: launches of it are not known to be done" in the(watched.violations())


@pytest.fixture
def closed(raw):
    """A closed list with a launch, and the memory, kernel and module that it uses."""
    memory, module = raw.memory(), raw.module()
    kernel, closed = raw.kernel(module, memory), raw.open_list()
    raw.launch(closed, kernel)
    raw.do("zeCommandListClose", closed)
    return closed, memory, kernel, module


def test_a_closed_list_is_replayed(raw, watched, closed):
    recorded, memory, kernel, module = closed
    list_ = raw.list()
    for _ in range(2):
        raw.replay(list_, recorded)
    raw.finish(list_)
    raw.destroy("CommandList", recorded, list_)
    raw.destroy("Kernel", kernel)
    raw.destroy("Module", module)
    raw.free(memory)
    assert watched.violations() == []


def test_a_list_replayed_before_it_is_closed(raw, watched):
    raw.replay(raw.list(), raw.open_list())
    assert "is not closed" in the(watched.violations())


def test_a_closed_list_destroyed_while_it_runs(raw, watched, closed):
    raw.replay(raw.list(), closed[0])
    raw.destroy("CommandList", closed[0])
    assert "not known to have run" in the(watched.violations())


def test_what_a_closed_list_uses_ends_while_it_runs(raw, watched, closed):
    _, memory, kernel, _ = closed
    raw.replay(raw.list(), closed[0])
    raw.free(memory)
    assert "what uses it is not known to be done" in the(watched.violations())
    raw.destroy("Kernel", kernel)
    assert "launches of it are not known to be done" in the(watched.violations())


def test_what_a_closed_list_uses_is_gone(raw, watched, closed):
    _, memory, kernel, _ = closed
    raw.free(memory)
    raw.destroy("Kernel", kernel)
    assert watched.violations() == []
    raw.replay(raw.list(), closed[0])
    texts = "\n".join(watched.violations())
    assert "uses memory that was freed" in texts
    assert "what it is given was destroyed" in texts


def test_a_module_destroyed_before_its_kernels(raw, watched):
    queue, module = raw.list(), raw.module()
    kernel = raw.kernel(module, raw.memory())
    raw.launch(queue, kernel)
    raw.finish(queue)
    raw.destroy("Module", module)
    assert "zeModuleDestroy: it has kernels" in the(watched.violations())


def test_a_context_destroyed_before_what_it_has(raw, watched):
    other = Raw(watched, raw.native)
    other.list()
    watched.fail("zeContextDestroy", 0, 0)
    raw.call("zeContextDestroy", other.context)
    assert "zeContextDestroy: it has 1 objects" in the(watched.violations())


# -- plain events


def test_an_event_reset_while_a_list_may_wait_for_it(raw, watched):
    queue, gate = raw.list(), raw.event(raw.pool())
    raw.wait(queue, gate)
    raw.do("zeEventHostSignal", gate)
    raw.do("zeEventHostReset", gate)
    assert "zeEventHostReset: a list may still wait for the event" in the(watched.violations())


def test_an_event_reset_before_its_signal_happened(raw, watched):
    queue, event = raw.list(), raw.event(raw.pool())
    raw.signal(queue, event)
    raw.do("zeEventHostReset", event)
    assert "zeEventHostReset: the event's signal is not known to have happened" in the(watched.violations())


def test_an_event_signalled_again_without_a_reset(raw, watched):
    queue, event = raw.list(), raw.event(raw.pool())
    raw.signal(queue, event)
    raw.finish(queue)
    raw.signal(queue, event)
    assert "signals an event again without a reset" in the(watched.violations())


def test_a_gate_that_a_list_signals(raw, watched):
    queue, other, gate = raw.list(), raw.list(), raw.event(raw.pool())
    raw.wait(queue, gate)
    raw.signal(other, gate)
    assert "that others wait for the host to signal" in the(watched.violations())


def test_a_gate_destroyed_while_a_list_may_wait_for_it(raw, watched):
    queue, pool = raw.list(), raw.pool()
    gate = raw.event(pool)
    raw.wait(queue, gate)
    raw.do("zeEventHostSignal", gate)
    raw.destroy("Event", gate)
    assert "zeEventDestroy: a list may still wait for the event" in the(watched.violations())


def test_a_pool_destroyed_before_its_events(raw, watched):
    pool = raw.pool()
    raw.event(pool)
    watched.fail("zeEventPoolDestroy", 0, 0)
    raw.call("zeEventPoolDestroy", pool)
    assert "zeEventPoolDestroy: it has events" in the(watched.violations())


# -- what it answers for


@pytest.fixture
def emulated():
    observer.watch(emulate=True)
    yield Raw(observer, select().native)
    observer.unwatch()


def test_what_is_behind_a_closed_gate_is_not_done(emulated):
    raw = emulated
    first, second, free = raw.list(), raw.list(), raw.list()
    gate = raw.event(raw.pool())
    event, done = raw.counter_event(), raw.counter_event(HOST, DEVICE, IMMEDIATE | HOST_VISIBLE)
    kernel = raw.kernel(raw.module(), raw.memory())
    raw.launch(first, kernel)
    assert raw.call("zeCommandListHostSynchronize", first, c_uint64(0)) == 0
    raw.wait(first, gate)
    raw.signal(first, event)
    raw.wait(second, event)
    raw.signal(second, done)
    raw.launch(free, kernel)
    for queue, result in ((first, NOT_READY), (second, NOT_READY), (free, 0)):
        assert raw.call("zeCommandListHostSynchronize", queue, c_uint64(0)) == result
    assert raw.call("zeEventQueryStatus", done) == NOT_READY
    assert raw.call("zeEventHostSynchronize", done, c_uint64(1000)) == NOT_READY
    opener = threading.Timer(0.05, lambda: raw.do("zeEventHostSignal", gate))
    opener.start()
    raw.do("zeEventHostSynchronize", done, c_uint64(FOREVER))  # blocks until then
    opener.join()
    for queue in (first, second, free):
        assert raw.call("zeCommandListHostSynchronize", queue, c_uint64(0)) == 0
    assert raw.observer.violations() == []


def test_host_functions_are_called_when_the_list_arrives(emulated):
    raw, ran = emulated, []
    queue, pool = raw.list(), raw.pool()
    gates = [raw.event(pool, i) for i in range(2)]
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
    raw.do("zeEventHostSignal", gates[1])
    assert ran == [1]
    raw.do("zeEventHostSignal", gates[0])
    assert ran == [1, 2, 3]


# -- recording and failing


def test_serials_are_those_of_signals(raw, watched):
    first, second, event = raw.list(), raw.list(), raw.counter_event()
    watched.start()
    raw.signal(first, event)
    raw.wait(second, event)
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
