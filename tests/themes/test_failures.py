"""A driver call that fails: the command is refused and nothing has happened, or it counts; all else goes on."""

import contextlib
import gc

import pytest

import forebay as fb
from tests.helpers.features import GRID

GIVEN = {"marker", "barrier", "command"}
KEPT = ("markers_made", "markers_shared", "events_made", "arg_bytes_set", "arg_bytes_skipped")  # made and not undone


def state_of(queue):
    stats = {name: value for name, value in vars(queue.stats).items() if name not in KEPT}
    return queue.epoch, queue.completed, queue.empty, stats


@pytest.mark.threads
def test_each_call_of_a_command_fails_in_turn(device, calls, log, hold, scene, feature, command, place, holds):
    queue = place.queue

    def turn(k, name=None, after=0):
        """Submit the command behind held queues while this call fails. Return its calls, if none failed."""
        device.finish()
        queue.fill(scene.x, 1)
        device.finish()
        begun = len(log)
        place.begin(hold)
        first, began, before, refused = len(calls), len(log), state_of(queue), None
        if name:
            calls.fail(name, calls.driver.FAILURE[0], after)
        try:
            command(queue, k)
        except fb.Error as error:
            refused = error
        calls.forgive()
        made, handle = calls.since(first), calls.handle_of(queue)
        failed = [call.name for call in made if call.injected]
        given = [call for call in made if call.object == handle and not call.injected and calls.kind(call) in GIVEN]
        if refused is not None:
            assert failed[0] in str(refused)
            if not given and not feature.counts:
                assert state_of(queue) == before
        elif not failed:
            return made
        assert not given or not queue.empty
        ended = len(log)
        place.submit(queue)
        place.end()
        relation, follows = log.relation(), log.commands(ended, queues=[queue])[0]
        own = log.commands(began, ended) if refused is None or not feature.several else []
        for earlier in (*log.commands(begun, began, place.producers), *own):
            assert relation.comes_after(follows, earlier) or relation.done >> earlier & 1
        hold.open()
        device.finish()
        if refused is None:
            assert holds(scene.x, command.after([k]))
        return None

    for k in (1, 2, 3):  # what is built, measured and recorded once
        command(queue, k)
        device.finish()
    made = turn(3)
    hold.open()
    assert made
    alive, failed = len(calls.events_alive()), 0
    names = dict.fromkeys(call.name for call in made if calls.driver.may_fail(call.name))
    for name in names:
        for after in range(6):
            done = turn(4 + after, name, after)
            hold.open()
            if done is not None:
                break
            failed += 1
    assert failed
    device.finish()
    queue.fill(scene.x, 1)
    command(queue, 3)
    device.finish()
    assert holds(scene.x, command.after([3]))
    assert len(calls.events_alive()) <= alive + 8


@pytest.mark.threads
@pytest.mark.parametrize("what", ["MARKER", "BARRIER", "HOST_FUNCTION", "FLUSH", "LAUNCH"])
def test_a_queue_is_kept_by_what_a_failed_call_has_left_in_it(device, calls, hold, scene, feature, what):
    """It is handed on, or ended, after all that its driver was given, also by a call that then failed."""
    name = getattr(calls.driver, what)
    if name is None:
        pytest.skip("this driver submits at once")
    if feature.keeps_queues or feature.alone:
        pytest.skip("it keeps its queue")
    command, null = feature.make(scene), device.null_queue
    command(null, 1)
    device.finish()
    hold(null)
    null.launch(scene.program["advance"], *GRID, scene.x, 1)
    for after in range(6):
        queue, first = device.queue(), len(calls)
        handle = calls.handle_of(queue)
        calls.fail(name, calls.driver.FAILURE[0], after)
        with contextlib.suppress(fb.Error):
            command(queue, 1)
        calls.forgive()
        made = calls.since(first)
        given = any(call.object == handle and not call.injected and calls.kind(call) in GIVEN for call in made)
        assert not given or not queue.empty
        del queue
        gc.collect()
        others = [device.queue() for _ in range(3)]
        ended = {call.object for call in calls.since(first) if call.name == calls.driver.RELEASE_QUEUE}
        assert not given or handle not in ended.union(map(calls.handle_of, others))
        del others
        if not any(call.injected for call in made):
            break
