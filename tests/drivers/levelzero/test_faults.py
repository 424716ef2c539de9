"""Makes each driver call in turn fail while a small program runs.

The reason is not known, or memory is short, or the device is lost. An error names the call and its result. Other queues
go on, closing works, and nothing is left over. Events are made in each of the three possible ways. What becomes of the
queue is judged in `tests.themes`.
"""

import contextlib
import gc

import numpy as np
import pytest

import forebay as fb
from forebay.queues.device import open_devices
from forebay.queues.levelzero.operations import FUNCTIONS, result_name
from tests.helpers.needs import variable_options
from tests.helpers.observer import Calls
from tests.ordering import failures
from tests.ordering.program import SOURCE

from .children import pytest_of_its_own

pytestmark = pytest.mark.needs("null hardware", "no validation layer")

DEVICE_LOST, OUT_OF_DEVICE_MEMORY, UNKNOWN = 0x70000001, 0x70000003, 0x7FFFFFFE
ERRORS = {UNKNOWN: fb.DriverError, OUT_OF_DEVICE_MEMORY: fb.OutOfMemoryError}

VARIABLE = "global int count = 1; kernel void get(global int *x) { x[0] = count; }"
OF_CONTEXTS = ["zeContextCreate", "zeContextDestroy"]
ELSEWHERE = {
    "zeCommandListGetNextCommandIdExp",  # tests/steps/test_failures.py
    "zeCommandListUpdateMutableCommandsExp",
    "zeEventHostSignal",  # opens a gate: if the host cannot, its queue is held until the whole device is lost
    "zeKernelSuggestMaxCooperativeGroupCount",  # of kernels of forebay.hip alone
    "zeMemAllocShared",
    "zeModuleBuildLogGetString",
    "zeModuleBuildLogDestroy",
}
IN_DISCOVERY = ("zeInit", "zeDriver", "zeDeviceGet", "zeCommandListImmediateGetFlags")  # test_discovery.py
CALLS = [
    name for name in FUNCTIONS.names if name not in {*ELSEWHERE, *OF_CONTEXTS} and not name.startswith(IN_DISCOVERY)
]
# Failures of these raise nothing. A failed release has no consequence, and an optional query is repeated. A cache that
# cannot be written is not an error either, and a cached binary that the driver refuses is compiled again. Who makes a
# new plan asks by a marker how far a queue is that has staged a copy: if that fails, it is asked again later.
SILENT = {
    "zeCommandListDestroy", "zeKernelDestroy", "zeEventPoolDestroy", "zeEventDestroy", "zeMemFree", "zeModuleDestroy",
    "zeContextDestroy", "zeEventQueryStatus", "zeModuleGetNativeBinary", "zeModuleCreate",
    "zeCommandListAppendSignalEvent", "zeEventCreate", "zeEventCounterBasedCreate",
}  # fmt: skip
NOT_CALLED = {"create": {"zeModuleGetNativeBinary", "zeEventQueryKernelTimestamp"}}
NOT_CALLED["pool"] = {*NOT_CALLED["create"], "zeEventCounterBasedCreate"}


def play(opened, forgive):
    """Use everything that forebay asks of a driver, and go on after each step that fails. Returns the errors."""
    errors = []

    def step(function, *arguments, **named):
        try:
            return function(*arguments, **named)
        except fb.Error as error:
            errors.append(error)
        return None

    def again(function, *arguments, **named):
        made = step(function, *arguments, **named)
        return function(*arguments, **named) if made is None else made

    def graph():
        graph = device.graph()
        graph.add_fill(buffer, 2, after=graph.add_kernel(kernel, 4, 16, buffer, 1))
        return graph.instantiate()

    device = again(opened)
    kernel = again(device.program, SOURCE)["advance"]
    first, second, null = again(device.queue, timing=True), again(device.queue, blocking=False), device.null_queue
    buffer, host = again(device.empty, 64, "u4"), np.arange(64, dtype="u4")
    step(lambda: device.program(VARIABLE, variable_options(device)).get_global("count"))
    for turn in range(2):
        gate = step(first.gate)
        step(first.fill, buffer, 1)
        step(first.copy, buffer, host)
        for k in (turn, turn, turn + 1):
            step(first.launch, kernel, 4, 16, buffer, k)
        event = step(first.record)
        if event is not None:
            step(second.wait, event)
        step(second.launch, kernel, 4, 16, buffer, 1)
        step(lambda: kernel.bind(second, 4, 16, buffer, 2)())
        executable = step(graph)
        if executable is not None:
            step(executable.launch, second)
        step(null.launch, kernel, 4, 16, buffer, 1)
        step(second.query)
        if gate is not None:
            gate.open()
        step(second.host, lambda: None)
        if event is not None:
            step(lambda event=event: event.query())
            step(event.wait)
        for finish in (null.finish, second.finish, device.finish):
            step(finish)
        step(first.copy, np.empty(64, "u4"), buffer)
        timed = step(first.record, timing=True)
        if timed is not None:
            step(timed.elapsed, timed)
        step(first.launch, kernel, 4, 16, buffer, 1)
    kernel.follow_pointers()
    step(first.launch, kernel, 4, 16, buffer, 1)
    forgive()
    for queue in (first, second, null, device.queue()):  # others go on
        queue.launch(kernel, 4, 16, buffer, 5)
        queue.copy(np.empty(64, "u4"), buffer)
        queue.finish()
        assert queue.empty
    return errors


def play_and_judge(opened, calls, name, code):
    """Play, with the errors that this call may bring about, which keep what the program left: they end with this."""
    errors = play(opened, calls.forgive)
    injected = sum(call.injected for call in calls.log)
    assert len(errors) == injected or (name in SILENT and len(errors) < 2)
    for error in errors:
        assert name in str(error)
        assert result_name(code) in str(error)
        assert isinstance(error, (ERRORS[code], fb.BuildError))
    calls.fail(name, code)  # closing works all the same


def fail_each(left, opened, emulated, name, code):
    """Let the first of these calls fail, then the second, and so on. Return how many were made, at most 3.

    Closing works all the same, and nothing is left.
    """
    for after in range(4):
        emulated.start()
        calls = Calls(emulated, None)
        calls.fail(name, code, after)
        try:
            if code == DEVICE_LOST:
                with contextlib.suppress(fb.Error):
                    play(opened, calls.forgive)
            else:
                play_and_judge(opened, calls, name, code)
            for _ in range(2):
                gc.collect()
                with contextlib.suppress(fb.Error):
                    opened.close_all()
            assert left() == {}, after
            if code == DEVICE_LOST:
                emulated.violations()  # it does not know that nothing runs
            if not any(call.injected for call in calls.log):
                break
        finally:
            emulated.stop()
    return after


@pytest.mark.parametrize("code", [*ERRORS, DEVICE_LOST], ids=result_name)
@pytest.mark.parametrize("name", CALLS + OF_CONTEXTS)
def test_a_call_that_fails(left, opened, emulated, event_mode, name, code):
    """Devices share a context: its calls are made for the first and the last one only."""
    shared = name in OF_CONTEXTS and any(device.info.backend == "level_zero" for device in open_devices())
    never = shared or code == DEVICE_LOST or name in NOT_CALLED[event_mode]
    assert fail_each(left, opened, emulated, name, code) or never


def test_a_context_that_fails():
    """In a process of its own, where no other device is open."""
    done = pytest_of_its_own("test_faults.py", "-k", "zeContext")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 passed" in done.stdout


def test_programs_whose_calls_fail_at_random(opened):
    with failures.FailingBench() as bench:
        for seed in range(60):
            bench.run(seed)
        assert bench.failed > 60


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
