"""Makes each driver call in turn fail (for no known reason, or out of memory) while a small program runs.

The error of a failed step must name the call and its result, and the queue must be unchanged. Other queues go on,
closing works, and nothing is left over. Events are made in each of the three possible ways.
"""

import contextlib
import gc

import numpy as np
import pytest

import forebay as fb
from forebay.queues.drivers.levelzero.loader import result_name
from tests.helpers.observer import Calls
from tests.ordering.program import SOURCE

from .children import pytest_of_its_own

pytestmark = pytest.mark.needs("null hardware", "no validation layer")

DEVICE_LOST, OUT_OF_HOST_MEMORY, OUT_OF_DEVICE_MEMORY = 0x70000001, 0x70000002, 0x70000003
UNKNOWN = 0x7FFFFFFE
CODES = (UNKNOWN, OUT_OF_HOST_MEMORY, OUT_OF_DEVICE_MEMORY)

VARIABLE = "global int count = 1; kernel void get(global int *x) { x[0] = count; }"
CALLS = (
    "zeCommandListAppendLaunchKernel", "zeCommandListAppendMemoryCopy", "zeCommandListAppendMemoryFill",
    "zeCommandListAppendSignalEvent", "zeCommandListAppendWaitOnEvents", "zeCommandListAppendHostFunction",
    "zeCommandListHostSynchronize", "zeCommandListCreateImmediate", "zeCommandListDestroy",
    "zeCommandListCreate", "zeCommandListClose", "zeCommandListImmediateAppendCommandListsExp",
    "zeKernelSetArgumentValue", "zeKernelSetGroupSize", "zeKernelSetIndirectAccess", "zeKernelCreate",
    "zeKernelDestroy", "zeKernelGetProperties",
    "zeEventCounterBasedCreate", "zeEventPoolCreate", "zeEventPoolDestroy", "zeEventCreate", "zeEventDestroy",
    "zeEventHostSynchronize", "zeEventQueryStatus", "zeEventHostReset",
    "zeEventQueryKernelTimestamp", "zeMemAllocDevice", "zeMemAllocHost", "zeMemFree", "zeModuleCreate",
    "zeModuleDestroy", "zeModuleGetNativeBinary", "zeModuleGetGlobalPointer",
)  # fmt: skip
OF_CONTEXTS = ("zeContextCreate", "zeContextDestroy")
# Failures of these raise nothing. A failed release has no consequence, and an optional query is repeated. A cache that
# cannot be written is not an error either, and a cached binary that the driver refuses is compiled again.
SILENT = {
    "zeCommandListDestroy", "zeKernelDestroy", "zeEventPoolDestroy", "zeEventDestroy", "zeMemFree", "zeModuleDestroy",
    "zeContextDestroy", "zeEventQueryStatus", "zeModuleGetNativeBinary", "zeModuleCreate",
}  # fmt: skip
OF_NO_QUEUE = ("zeKernelCreate", "zeKernelSetIndirectAccess", "zeMem")
NOT_CALLED = {"create": {"zeModuleGetNativeBinary", "zeEventQueryKernelTimestamp"}}
NOT_CALLED["pool"] = NOT_CALLED[""] = {*NOT_CALLED["create"], "zeEventCounterBasedCreate"}
# Who makes a new plan collects what is done, and asks by a marker how far a queue is that has staged a copy. If that
# fails, nobody knows: nothing is given back, and it is asked again later.
ASKED = {"zeCommandListAppendSignalEvent", "zeEventCreate", "zeEventCounterBasedCreate"}


class Run:
    """A program of steps, each of which may fail; later steps go on without it."""

    def __init__(self, calls, name, code, opened):
        self.calls, self.name, self.code, self.opened = calls, name, code, opened
        self.errors = []
        self.silent = []  # steps in which the call failed, and that raised nothing

    def injected(self):
        return sum(call.injected for call in self.calls.log)

    def step(self, what, function, *queues):
        """The function's result; None if it fails. Then the queues must be unchanged."""
        before, injected = [counts_of(queue) for queue in queues], self.injected()
        try:
            result = function()
            if self.injected() != injected:
                self.silent.append(what)
            return result
        except fb.Error as error:
            self.errors.append(error)
        self.check(what, str(self.errors[-1]), queues)
        assert [counts_of(queue) for queue in queues] == before or what in WAITING, what
        return None

    def check(self, what, message, queues):
        assert self.name in message, f"{what}: {message}"
        if queues and not self.name.startswith(OF_NO_QUEUE):
            assert any(repr(queue) in message for queue in queues), f"{what}: {message}"
        if what in ("launch", "bind", "bound launch", "launch after an upload"):
            assert "kernel 'advance'" in message

    def play(self):
        play(self, self.step("device", self.opened) or self.opened())
        silent = self.name in SILENT or (self.name in ASKED and self.silent == ["launch after an upload"])
        assert len(self.errors) == self.injected() or (silent and len(self.errors) < 2)
        expected = fb.DriverError if self.code == UNKNOWN else fb.OutOfMemoryError
        for error in self.errors:
            assert result_name(self.code) in str(error)
            assert isinstance(error, (expected, fb.BuildError))
        self.calls.fail(self.name, self.code)  # closing works all the same


class Lost(Run):
    """The same program, each step of which may find that the device is lost."""

    def check(self, what, message, queues):
        lost = [str(error) for error in self.errors if isinstance(error, fb.DeviceLostError)]
        assert not lost or lost[0] in message, f"{what}: {message}"

    def play(self):
        with contextlib.suppress(fb.Error):
            play(self, self.opened())


def counts_of(queue):
    stats = queue.stats
    return queue.epoch, stats.launches, stats.copies, stats.fills, stats.host_functions


# These may have submitted waits or copies before the host's wait failed, or a part of themselves.
WAITING = {
    "finish", "null finish", "device.finish", "query", "download", "event.wait", "event.done", "wait",
    "gate", "host", "record", "timed record",
}  # fmt: skip


def graph_of(device, kernel, buffer):
    graph = device.graph()
    launch = graph.add_kernel(kernel, 4, 16, buffer, 1)
    graph.add_fill(buffer, 2, after=launch)
    return graph


def play(run, device):
    """Uses everything that forebay asks of a driver."""
    step = run.step
    program = step("program", lambda: device.program(SOURCE)) or device.program(SOURCE)
    first = step("queue", lambda: device.queue(timing=True)) or device.queue(timing=True)
    second = step("queue", lambda: device.queue(blocking=False)) or device.queue(blocking=False)
    null = device.null_queue
    buffer = step("empty", lambda: device.empty(64, "u4"))
    buffer = device.empty(64, "u4") if buffer is None else buffer
    step("variable", lambda: device.program(VARIABLE, device.driver.variable_options).get_global("count"))
    kernel, host = program["advance"], np.arange(64, dtype="u4")
    for turn in range(2):
        gate = step("gate", first.gate, first)
        step("fill", lambda: first.fill(buffer, 1), first)
        step("upload", lambda: first.copy(buffer, host), first)
        for k in (turn, turn, turn + 1):
            step("launch after an upload", lambda k=k: first.launch(kernel, 4, 16, buffer, k), first)
        event = step("record", first.record, first)
        if event is not None:
            step("wait", lambda event=event: second.wait(event), second)
        step("launch", lambda: second.launch(kernel, 4, 16, buffer, 1), second)
        bound = step("bind", lambda: kernel.bind(second, 4, 16, buffer, 2), second)
        if bound is not None:
            step("bound launch", bound, second)
        executable = step("instantiate", graph_of(device, kernel, buffer).instantiate)
        if executable is not None:
            step("graph launch", lambda executable=executable: executable.launch(second), second)
        step("launch", lambda: null.launch(kernel, 4, 16, buffer, 1), null, first)
        step("query", second.query, second)
        if gate is not None:
            gate.open()
        step("host", lambda: second.host(lambda: None), second)
        if event is not None:
            step("event.done", lambda event=event: event.done)
            step("event.wait", event.wait)
        step("null finish", null.finish, null)
        step("finish", second.finish, second)
        step("download", lambda: first.copy(np.empty(64, "u4"), buffer), first)
        step("device.finish", device.finish)
        timed = step("timed record", lambda: first.record(timing=True), first)
        if timed is not None:
            step("elapsed", lambda timed=timed: timed.elapsed(timed))
        step("launch", lambda: first.launch(kernel, 4, 16, buffer, 1), first)
    kernel.follow_pointers()
    step("launch", lambda: first.launch(kernel, 4, 16, buffer, 1), first)
    # others go on
    run.calls.forgive()
    for queue in (first, second, null, device.queue()):
        queue.launch(kernel, 4, 16, buffer, 5)
        queue.copy(np.empty(64, "u4"), buffer)
        queue.finish()
        assert queue.empty


def fail_each(left, opened, emulated, name, code, kind=Run):
    """Let the first of these calls fail, then the second, and so on. Return how many were made, at most 3.

    Closing works all the same, and nothing is left.
    """
    for after in range(4):
        emulated.start()
        run = kind(Calls(emulated, None), name, code, opened)
        run.calls.fail(name, code, after)
        try:
            run.play()
            run.errors.clear()  # they keep what the program left, a closed gate too
            gc.collect()
            with contextlib.suppress(fb.Error):
                opened.close_all()
            gc.collect()
            injected = run.injected()
            del run
            opened.close_all()
            gc.collect()
            assert left() == {}, after
            if code == DEVICE_LOST:
                emulated.violations()  # it does not know that nothing runs
        finally:
            emulated.stop()
        if not injected:
            break
    return after


@pytest.mark.parametrize("code", CODES, ids=result_name)
@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_fails(left, opened, emulated, event_mode, name, code):
    assert fail_each(left, opened, emulated, name, code) or name in NOT_CALLED[event_mode]


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_finds_the_device_lost(left, opened, emulated, name):
    """Every later step says so."""
    fail_each(left, opened, emulated, name, DEVICE_LOST, Lost)


def test_a_device_that_is_lost_closes_and_leaves_nothing(left, opened, emulated):
    """Nothing runs on it any more, so that all can go, whatever cannot be asked any more."""
    emulated.start()
    try:
        device = opened()
        kernel, queue = device.program(SOURCE)["advance"], device.queue()
        buffer, host = device.empty(64, "u4"), fb.host_empty(64, "u4", device=device)
        gate = queue.gate()
        queue.launch(kernel, 4, 16, buffer, 1)
        queue.copy(host, buffer)
        for name in CALLS:
            if not any(word in name for word in emulated.RELEASING):
                for _ in range(200):
                    emulated.fail(name, DEVICE_LOST, 0)
        with pytest.raises(fb.DriverError, match="DEVICE_LOST"):
            device.close()
        gate.open()
        del device, kernel, queue, buffer, host, gate
        opened.close_all()
        assert left() == {}
        emulated.violations()  # it does not know that nothing runs
    finally:
        emulated.stop()


def test_a_context_that_fails():
    """Devices share a context, so these calls are made for the first and the last one only: in a process of its own."""
    done = pytest_of_its_own("faults_of_contexts.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "18 passed" in done.stdout


def test_all_calls_are_failed(emulated):
    """Except those that forebay does not make, or that need a path of their own.

    If the host cannot open a gate, nothing helps: its queue is held until the whole device is lost.
    """
    elsewhere = {
        "zeCommandListGetNextCommandIdExp",  # tests/steps/test_failures.py
        "zeCommandListUpdateMutableCommandsExp",
        "zeEventHostSignal",
        "zeKernelSuggestMaxCooperativeGroupCount",  # of kernels of forebay.hip alone
        "zeMemAllocShared",
        "zeModuleBuildLogGetString",
        "zeModuleBuildLogDestroy",
    }
    assert {*CALLS, *OF_CONTEXTS, *elsewhere} == set(emulated.NAMES)
