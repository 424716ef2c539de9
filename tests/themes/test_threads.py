"""Several host threads: no command is lost or half done, none is claimed done too early, and all threads go on."""

import itertools
import threading

import pytest

from tests.helpers.features import Scene, each_feature
from tests.helpers.observer import EXECUTES
from tests.helpers.threads import hurried, together  # noqa: F401

pytestmark = [pytest.mark.threads, pytest.mark.usefixtures("hurried")]


def turns_of(feature):
    """How often a thread submits it: the more often the cheaper it is. What null hardware is given stays with it."""
    return 250 if feature.hosts else 800 if EXECUTES else 400


@pytest.mark.parametrize("which", ["one queue", "two queues", "null and blocking", "per-thread"])
def test_each_thread_has_its_memory(device, kernels, feature, which, holds):
    """Two threads submit the same kind of command, with one program."""
    if which == "one queue" and feature.alone:
        pytest.skip("one at a time on a queue")
    scenes, shared, turns = [Scene(device, kernels) for _ in range(2)], device.queue(), turns_of(feature)
    commands = [feature.make(scene) for scene in scenes]
    for command in commands:
        command(shared, 1)
        device.finish()
    before = shared.epoch
    commands[0](shared, 2)
    counted, before, stats = shared.epoch - before, shared.epoch, device.stats

    def work(i):
        queue = {
            "one queue": lambda: shared,
            "two queues": lambda: device.queue(blocking=False),
            "null and blocking": lambda: [device.null_queue, shared][i],
            "per-thread": lambda: device.per_thread_queue,
        }[which]()
        if queue is not shared:
            queue.wait(shared)
        for k in range(turns):
            commands[i](queue, k)
        queue.finish()

    together(lambda: work(0), lambda: work(1))
    for i, (scene, command) in enumerate(zip(scenes, commands, strict=True)):
        assert holds(scene.x, command.after([1, *[2] * (i == 0), *range(turns)]))
    if which == "one queue" and feature.single and not feature.several and counted == 1:
        assert shared.epoch == shared.completed == before + 2 * turns
    assert (device.stats - stats).launches % (2 * turns) == 0


def test_commands_of_all_kinds_on_one_queue(device, kernels, holds):
    """Each thread has another kind: some keep the GIL, and some do not."""
    queue, chosen = device.queue(), [param.values[0] for param in each_feature(lambda each: not each.recordings)]
    scenes = [Scene(device, kernels) for _ in chosen]
    commands = [feature.make(scene) for feature, scene in zip(chosen, scenes, strict=True)]

    def work(command):
        for k in range(60):
            command(queue, k)
        queue.finish()

    together(*(lambda command=command: work(command) for command in commands))
    assert queue.empty
    assert queue.completed == queue.epoch
    for scene, command in zip(scenes, commands, strict=True):
        assert holds(scene.x, command.after(range(60)))


def wait_elsewhere(queue):
    other = queue.device.queue(blocking=False)
    other.wait(queue)
    other.finish()


LOOKS = {
    "finish": lambda queue: queue.finish(),
    "query": lambda queue: queue.query() and None,
    "empty": lambda queue: False,
    "event": lambda queue: queue.record().wait(),
    "device": lambda queue: queue.device.finish(),
    "finish of another": wait_elsewhere,
}


def counted_by(command, most):
    """By what `x` shows, how many commands have run at most: those with the numbers 1, 2, …"""
    values = [0]
    for k in range(1, most):
        values.append(command.after([k], values[-1]))
    return {value: k for k, value in enumerate(values)}


@pytest.mark.executes
@pytest.mark.parametrize("kind", ["non-blocking", "blocking", "null"])
@pytest.mark.parametrize("feature", each_feature(lambda each: each.single and not each.hosts), indirect=True)
def test_nothing_is_claimed_done_that_is_not(device, kernels, kind, feature):
    """`x` tells what ran: `completed` and `empty` may never be ahead of it."""
    scene, least = Scene(device, kernels, value=0), turns_of(feature)
    command, most = feature.make(scene), 40 * least
    queue = device.null_queue if kind == "null" else device.queue(blocking=kind == "blocking")
    reader, counts, ended, looks = device.queue(blocking=False), counted_by(command, most), threading.Event(), []
    queue.finish()
    start, launched = queue.epoch, 1
    command(queue, 1)
    per = queue.epoch - start

    def submit():
        nonlocal launched
        try:
            while (launched < least or len(looks) < len(LOOKS)) and launched < most - 1:
                launched += 1
                command(queue, launched)
        finally:
            ended.set()

    def look():
        for how in itertools.cycle(LOOKS):
            if ended.is_set():
                return
            submitted = queue.epoch
            if LOOKS[how](queue) is None and how != "query":
                assert queue.completed >= submitted
            submitted, empty, completed = queue.epoch, queue.empty, queue.completed
            done = counts[int(scene.x[:1].get(queue=reader)[0])]
            assert done >= (completed - start) // per
            assert not empty or done >= (submitted - start) // per
            looks.append(how)

    together(submit, look)
    queue.finish()
    assert queue.completed == queue.epoch
    assert int(scene.x[:1].get(queue=reader)[0]) == command.after(range(1, launched + 1), 0)
    assert {*looks} >= {*list(LOOKS)[:3]}


def test_each_thread_finishes_in_each_way(device, kernels, feature, holds):
    """Some on queues of their own, and some on one; the null queue is used by all."""
    null, shared = device.null_queue, device.queue()
    scenes = [Scene(device, kernels) for _ in range(4)]
    commands = [feature.make(scene) for scene in scenes]

    def work(i):
        queue = shared if i > 1 and not feature.alone else device.queue(blocking=i % 2 == 0)
        for k in range(40):
            commands[i](queue, k)
            (queue.finish, device.finish, null.finish, lambda: queue.record().wait())[k % 4]()
            if queue is not shared and (k % 4 != 2 or queue.blocking):
                assert queue.empty

    together(*(lambda i=i: work(i) for i in range(4)))
    device.finish()
    for scene, command in zip(scenes, commands, strict=True):
        assert holds(scene.x, command.after(range(40)))


def test_queues_that_wait_for_each_other(device, kernels, feature, holds):
    """And come and go meanwhile."""
    scenes = [Scene(device, kernels) for _ in range(2)]
    commands = [feature.make(scene) for scene in scenes]
    queues = [device.queue(blocking=i == 0) for i in range(2)]

    def work(i):
        for k in range(100):
            queues[i].wait(queues[1 - i])
            commands[i](queues[i], k)
            if k % 16 == i:
                queue = device.queue(blocking=k % 32 == i)
                queue.wait(queues[i])
                commands[i](queue, k)
                queues[i].wait(queue.record())
                queue.close()

    together(lambda: work(0), lambda: work(1))
    device.finish()
    for i, (scene, command) in enumerate(zip(scenes, commands, strict=True)):
        assert holds(scene.x, command.after(k for k in range(100) for _ in range(1 + (k % 16 == i))))
    assert EXECUTES or all(queue.empty for queue in queues)
