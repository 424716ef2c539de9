"""Which driver calls a step makes, where the driver has recordings that can be changed."""

import pytest

import forebay as fb
from tests.helpers.device_data import device_data
from tests.inside import step_of

from .conftest import RECORDINGS, SIZE, SOURCE, after, made
from .test_same import BETWEEN

pytestmark = [
    pytest.mark.parametrize("recordings", RECORDINGS[-1:], indirect=True),
    pytest.mark.needs("recordings that change"),
]

LAUNCHES = 6


@pytest.fixture
def one_call(device):
    """What the driver's own recordings submit by one call, clones submit launch by launch, with a marker."""
    return device.info.backend in ("cuda", "level_zero")


def commands(calls, queue, first):
    handle = calls.handle_of(queue)
    driver = calls.driver
    return [
        call.name for call in calls.since(first) if call.object == handle and driver.kind_of(call.name) == "command"
    ]


def warm(step, queue, advance, x, ks=range(LAUNCHES)):
    for _ in range(3):
        with step:
            for k in ks:
                advance(queue, x, k)
        queue.finish()


@pytest.mark.skipif(RECORDINGS[-1] != "clones", reason="those of the driver are seen by its calls")
def test_clones_are_replayed_and_changed(queue, advance, x):
    from tests.observers.recordings import counts

    _, replays, changes = counts()
    step = queue.step()
    warm(step, queue, advance, x)
    with step:
        for k in range(LAUNCHES):
            advance(queue, x, k + 1)
    queue.finish()
    assert counts()[1] > replays
    assert counts()[2] > changes


def test_a_command_in_between_ends_a_recording(calls, queue, advance, x, y, one_call):
    """The next time, what was recorded before it and after it are two replays."""
    from tests.observers.recordings import counts

    def replays():
        return calls.count(calls.driver.REPLAY) if one_call else counts()[1]

    step, made = queue.step(), []
    for _ in range(2):
        before = replays()
        with step:
            for k in range(4):
                if k == 2:
                    queue.fill(y, 1)
                advance(queue, x, k)
        made.append(replays() - before)
    queue.finish()
    assert made == [0, 2]


def test_a_change_is_two_calls_more(calls, queue, advance, x, one_call):
    """One that changes the list, and one that closes it; the queue is idle, so nothing must be marked."""
    step = queue.step()
    warm(step, queue, advance, x)
    for i in range(3):
        first = len(calls)
        with step:
            for k in range(LAUNCHES):
                advance(queue, x, k + 10 * i + 10)
        if one_call:
            update = ["zeCommandListUpdateMutableCommandsExp", "zeCommandListClose", calls.driver.REPLAY]
            assert calls.names(first) == update
        queue.finish()


def test_copies_take_turns(calls, queue, advance, hold, x, one_call):
    """While the queue is held, three copies are made and used; then launches are submitted one by one; then again."""
    step = queue.step()
    warm(step, queue, advance, x)
    expected = list(range(LAUNCHES)) * 3
    gate = hold(queue)
    for i in range(6):
        first = len(calls)
        with step:
            for k in range(LAUNCHES):
                advance(queue, x, 100 * i + k + 1)
        expected += [100 * i + k + 1 for k in range(LAUNCHES)]
        if one_call:
            assert (calls.driver.REPLAY in calls.names(first)) == (i < 3)
    gate.open()
    queue.finish()
    first = len(calls)
    with step:
        for k in range(LAUNCHES):
            advance(queue, x, k)
    if one_call:
        assert calls.count(calls.driver.REPLAY, first) == 1
        assert calls.count(calls.driver.LAUNCH, first) == 0
    expected += range(LAUNCHES)
    assert one_call or set(x.get()) == {after(expected)}
    assert queue.stats.steps_recorded == 1


def test_a_loop_that_never_waits(calls, queue, advance, x, one_call):
    """What a device has long done may be changed, though nobody has said that it is done."""
    if not one_call:
        pytest.skip("how far the device is depends on the device")
    step = queue.step()
    warm(step, queue, advance, x)
    first = len(calls)
    for i in range(20):
        with step:
            for k in range(LAUNCHES):
                advance(queue, x, i + k + 1)
    assert calls.count(calls.driver.REPLAY, first) == 20
    assert calls.count(calls.driver.LAUNCH, first) == 0


@pytest.mark.parametrize("what", [what for what in BETWEEN if what not in (
    "a null-queue query", "a buffer that comes and goes", "memory of the pool",
)])  # fmt: skip
@pytest.mark.threads  # of host functions
def test_what_submits_first(device, calls, queue, advance, x, y, what):
    step = queue.step()
    for i in range(4):
        with step:
            advance(queue, x, i)
            advance(queue, x, 2)
            first = len(calls)
            BETWEEN[what](device, queue, x, y)
            if i and what not in ("stats", "nothing"):
                assert commands(calls, queue, first)[0] in (calls.driver.REPLAY, calls.driver.LAUNCH)
            advance(queue, x, 3)
            assert not i or what not in ("stats", "nothing") or commands(calls, queue, first) == []
    device.finish()


def test_several_queues(device, calls, advance, x, y, one_call):
    """Each that joined gets its launches by one call."""
    queue, other = device.queue(blocking=False), device.queue(blocking=False)
    step = queue.step()
    for i in range(4):
        queue.finish()
        other.finish()
        first = len(calls)
        with step:
            for k in range(LAUNCHES):
                advance(queue, x, k)
            other.wait(queue)
            for k in range(LAUNCHES):
                advance(other, y, k)
            assert i == 0 or commands(calls, other, first) == []
        expected = [calls.driver.REPLAY] if one_call else [calls.driver.LAUNCH] * LAUNCHES
        if i > 1:
            assert commands(calls, queue, first) == commands(calls, other, first) == expected
    assert step_of(other) is None
    first = len(calls)
    advance(other, y, 1)
    assert commands(calls, other, first) == [calls.driver.LAUNCH]


def test_an_event_of_the_step_lets_a_queue_join(device, calls, queue, advance, x, y):
    other, early = device.queue(), queue.record()
    step = queue.step()
    with step:
        other.wait(early)
        assert step_of(other) is None
        advance(queue, x, 1)
        other.wait(queue.record())
        assert step_of(other) is step
    assert step_of(other) is None


# -- giving up


def test_it_gives_up(calls, queue, advance, kernels, x):
    step = queue.step()
    for i in range(6):
        before = queue.stats
        first = len(calls)
        with step:
            for k in range(i + 2):
                advance(queue, x, k)
            queue.launch(kernels["count"], 1, 16, x)
        changed = queue.stats - before
        assert (changed.steps_recorded, changed.steps_given_up) == (i < 3, i == 3)
        assert changed.launches == i + 3
        assert calls.count(calls.driver.LAUNCH, first) == i + 3
    assert step_of(queue) is None


def test_it_does_not_give_up_when_it_was_the_same_once(queue, advance, x):
    step = queue.step()
    for i in range(40):
        with step:
            for k in range(2 + i // 2):
                advance(queue, x, k)
    assert queue.stats.steps_given_up == 0
    assert queue.stats.steps_recorded == 20


def test_a_kernel_that_cannot_be_recorded(calls, queue, advance, x, one_call):
    """The driver refuses it: the step is an ordinary one from then on."""
    if not one_call:
        pytest.skip("clones take any kernel")
    step = queue.step()
    calls.fail("zeCommandListAppendLaunchKernel", 0x78000003, after=2 * LAUNCHES - 2)
    for i in range(5):
        first = len(calls)
        with step:
            for k in range(LAUNCHES):
                advance(queue, x, k + i)
        launched = [call for call in calls.since(first) if call.name == calls.driver.LAUNCH and not call.injected]
        assert len([call for call in launched if call.object == calls.handle_of(queue)]) == LAUNCHES
    calls.forgive()
    assert (queue.stats.steps_recorded, queue.stats.steps_given_up) == (1, 1)


# -- what comes back, and what is measured


@pytest.fixture
def own(device):
    """A kernel with scratch that is measured, one that writes, and one that may follow pointers."""
    own = device.program(
        "kernel void use(global const uint *rows, global uchar *s, global uint *a) { s[0] = 1; a[0] = rows[0]; }"
        "kernel void grow(global uint *rows, uint k) { rows[get_global_id(0)] = k; }"
        "kernel void look(global uint *a) { a[0] += 1; }"
    )
    own["use"].scratch("s", fb.MaxOver("rows") + 1)
    return own


def test_what_is_measured_after_a_collected_write(device, queue, own, x):
    rows, step = made(device), queue.step()
    for i in range(5):
        before = queue.stats.reductions
        with step:
            queue.launch(own["grow"], 4, 16, rows, 3)
            queue.launch(own["grow"], 4, 16, rows, 3)
            queue.launch(own["use"], 1, 1, rows, x)
            queue.launch(own["use"], 1, 1, rows, x)
        assert queue.stats.reductions - before == 1, i


@pytest.mark.parametrize("how", ["drop", "close", "pool"])
def test_memory_that_goes_while_it_is_collected(device, queue, kernels, advance, x, how):
    """It is collected, and so counts as used: what is made meanwhile does not get it."""
    step, expected = queue.step(), 0
    for i in range(6):
        with step:
            each = queue.alloc(SIZE, "u4") if how == "pool" else device.empty(SIZE, "u4")
            queue.fill(each, i)
            queue.launch(kernels["combine"], 4, 16, x, each, 1)
            queue.launch(kernels["combine"], 4, 16, x, each, 2)
            if how == "pool":
                queue.free(each)
            elif how == "close":
                each.close()
            del each
            other = device.queue(blocking=False)
            for _ in range(3):
                other.fill(device.empty(SIZE, "u4"), 99)
            other.finish()
        for k in (1, 2):
            expected = (expected * 5 + i + k) % (1 << 32)
    assert device_data(set(x.get())) == {expected}


def test_a_kernel_that_follows_pointers_later_may_write_anywhere(device, queue, own, x, y):
    """A launch that was recorded before it did is not collected any more."""
    rows, step = made(device), queue.step()
    queue.launch(own["use"], 1, 1, rows, x)
    for follows in (False, True):
        for i in range(5):
            before = queue.stats.reductions
            with step:
                queue.launch(own["look"], 1, 1, y)
                queue.launch(own["look"], 1, 1, y)
            queue.launch(own["use"], 1, 1, rows, x)
            assert queue.stats.reductions - before == follows, i
        own["look"].follow_pointers()


def test_what_is_collected_is_checked_for_races(device):
    with fb.Device(device.name, private=True, check="races") as device:
        own, one, other = device.program(SOURCE)["advance"], device.queue(), device.queue()
        x, step = made(device), one.step()
        for i in range(6):
            with step:
                one.launch(own, 4, 16, x, 1)
                one.launch(own, 4, 16, x, i)
            assert not device.races, i
            if i < 5:
                other.wait(one)
            other.launch(own, 4, 16, x, 2)
            one.wait(other)
        assert device.races
        device.finish()


@pytest.mark.needs("Level Zero")  # OpenCL forbids the release while a queue is held
def test_memory_that_the_step_has_no_more_goes_at_once(calls, device, queue, advance, hold, y):
    """What used it is done; the launches that now use other memory are not."""
    before, step = made(device), queue.step()
    warm(step, queue, advance, before)
    gate = hold(queue)
    with step:
        for k in range(LAUNCHES):
            advance(queue, y, k)
    first = len(calls)
    before.close()
    assert calls.count("zeMemFree", first) == 1
    y.close()
    assert calls.count("zeMemFree", first) == 1
    gate.open()
