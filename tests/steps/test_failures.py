"""Each call of the driver that a step makes fails in turn: the launches are submitted all the same, or say why not."""

import gc

import pytest

import forebay as fb

from .conftest import RECORDINGS, SIZE

pytestmark = [
    pytest.mark.parametrize("recordings", RECORDINGS[-1:], indirect=True),
    pytest.mark.skipif(RECORDINGS != ["the driver's"], reason="of the driver's own recordings"),
]
TURNS = 5
MAKING = (
    "zeCommandListCreate", "zeCommandListGetNextCommandIdExp", "zeCommandListClose",
    "zeCommandListImmediateAppendCommandListsExp", "zeCommandListUpdateMutableCommandsExp",
)  # fmt: skip


def launched_by(calls, queue, first):
    """How many launches reached the queue; a list stands for three."""
    stands_for = {calls.driver.LAUNCH: 1, calls.driver.REPLAY: 3}
    done = [call for call in calls.since(first) if call.object == calls.handle_of(queue) and call.status == 0]
    return sum(stands_for.get(call.name, 0) for call in done)


@pytest.mark.parametrize("name", MAKING)
@pytest.mark.parametrize("at", range(3))
def test_what_makes_and_changes_recordings(calls, device, queue, advance, x, watched, name, at):
    """Without a recording the launches are submitted one by one, and the step is an ordinary one from then on."""
    step = queue.step()
    with step:
        for k in range(3):
            advance(queue, x, k)
    calls.fail(name, 0x70000003, after=at)
    for i in range(TURNS):
        first = len(calls)
        with step:
            for k in range(3):
                advance(queue, x, i + k)
        queue.finish()
        assert launched_by(calls, queue, first) == 3
    failed = any(call.injected for call in calls.log)
    calls.forgive()
    if name != "zeCommandListImmediateAppendCommandListsExp":  # which leaves the recording as it is
        assert queue.stats.steps_given_up == failed
    assert queue.stats.launches == 3 * (TURNS + 1)
    step.close()
    advance(queue, x, 1)
    queue.finish()


@pytest.mark.parametrize("name", ["zeCommandListAppendLaunchKernel", "zeKernelSetArgumentValue"])
def test_launches_that_fail_when_they_are_submitted(calls, device, queue, advance, x, name):
    """The error names the kernel, at the end of the block. Other queues, and the step, go on."""
    step, other = queue.step(), device.queue(blocking=False)
    for _ in range(3):
        with step:
            for k in range(3):
                advance(queue, x, k)
        queue.finish()
    step.__enter__()
    advance(queue, x, 5)
    advance(queue, x, 6)
    calls.fail(name, calls.driver.FAILURE[0])
    queue.fill(x, 1)
    advance(queue, x, 7)
    with pytest.raises(fb.DriverError, match=r"UNKNOWN.*kernel 'advance', collected by a step") as raised:
        step.__exit__(None, None, None)
    calls.forgive()
    assert name in str(raised.value)
    assert repr(queue) in str(raised.value)
    if name == "zeKernelSetArgumentValue":
        assert "argument 1 (uint k)" in str(raised.value)
    advance(other, x, 1)
    other.finish()
    with step:
        for k in range(3):
            advance(queue, x, k)
    queue.finish()
    assert queue.empty


@pytest.mark.parametrize("name", ["zeCommandListAppendLaunchKernel", "zeKernelSetArgumentValue"])
def test_a_launch_that_fails_in_the_turn_that_gives_the_step_up(calls, queue, advance, x, name):
    """The step has forgotten the kernel by then; the error names it all the same."""
    step = queue.step()
    for turn in range(3):
        with step:
            for k in range(3):
                advance(queue, x, turn + k)
    calls.fail("zeCommandListUpdateMutableCommandsExp", 0x70000003)
    calls.fail(name, 0x70000003)
    step.__enter__()
    for k in range(3):
        advance(queue, x, 10 + k)
    with pytest.raises(fb.OutOfMemoryError, match=f"{name}.*kernel 'advance'"):
        step.__exit__(None, None, None)
    assert queue.stats.steps_given_up == 1
    with step:
        advance(queue, x, 1)
    queue.finish()


def test_an_exception_of_the_block_comes_first(calls, queue, advance, x):
    step = queue.step()
    for _ in range(3):
        with step:
            for k in range(3):
                advance(queue, x, k)
        queue.finish()
    step.__enter__()
    advance(queue, x, 5)
    advance(queue, x, 6)
    calls.fail("zeCommandListAppendLaunchKernel", calls.driver.FAILURE[0])
    queue.fill(x, 1)
    step.__exit__(KeyError, KeyError(), None)
    calls.forgive()
    with step:
        advance(queue, x, 5)


@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize("splits", [False, True])
def test_nothing_is_left(watched, closes, splits):
    """Lists, kernels and events are given back with the step, when the device is done with them."""
    gc.collect()
    before = watched.alive()
    with fb.Device(private=True) as device:
        kernel, x = device.program("kernel void f(global int *a, int k) { a[0] = k; }")["f"], device.zeros(4, "i4")
        queue = device.queue()
        step = queue.step()
        for i in range(12):
            gate = queue.gate()
            with step:
                for k in range(4):
                    if splits and i // 3 % 2 and k == 2:
                        queue.fill(x, i)
                    queue.launch(kernel, 1, 1, x, i + k)
            gate.open()
        lists = watched.alive()["lists"]
        queue.finish()
        if closes:
            step.close()
            step.close()
        del step
        device.finish()
        del queue
        gc.collect()
        device.zeros(4, "i4")
        assert watched.alive()["lists"] <= lists - 2  # copies took turns
    del device, kernel, x
    gc.collect()
    now = watched.alive()
    assert [kind for kind in now if kind != "contexts" and now[kind] > before[kind]] == []


def test_a_kernel_that_the_step_has_no_more(calls, device, queue, x):
    """The step's own object of it is given back when what was launched with it is done."""
    source = "kernel void {0}(global uint *a, uint k) {{ a[get_global_id(0)] += k; }}"
    own, step = device.program(source.format("before") + source.format("now")), queue.step()
    for i, name in enumerate(["before", "before", "before", "now", "now"]):
        if i == 3:
            first = len(calls)
        with step:
            for k in range(2):
                queue.launch(own[name], 4, 16, x, k)
        queue.finish()
        device.empty(SIZE, "u4")
    assert calls.count("zeKernelDestroy", first) == 1


def test_a_change_of_an_executable_graph(calls, device, queue, kernels, x):
    """It records nothing anew; when the driver cannot change the recording, there is a new one."""
    graph, nodes = device.graph(), []
    for k in range(3):
        nodes.append(graph.add_kernel(kernels["advance"], 4, 16, x, k, after=nodes[-1:]))
    executable = graph.instantiate()

    def launch(k):
        first = len(calls)
        executable.set_kernel(nodes[1], kernels["advance"], 4, 16, x, k)
        executable.launch(queue)
        names = calls.names(first)
        queue.finish()
        return names

    for k in range(3):
        launch(k)
    change = ["zeCommandListUpdateMutableCommandsExp", "zeCommandListClose", calls.driver.REPLAY]
    assert launch(99) == change
    calls.fail("zeCommandListUpdateMutableCommandsExp", calls.driver.FAILURE[0])
    names = launch(98)
    assert names.count(calls.driver.REPLAY) == names.count("zeCommandListCreate") == 1
    assert launch(97)[-3:] == change
    executable.close()
