"""A command comes after all that its queue was ordered after, and before all that is ordered after the queue."""


def test_it_comes_between_what_was_before_and_what_is_after(device, log, hold, scene, command, place, holds):
    for k in (1, 2):
        command(place.queue, k)
        place.submit(place.later)
        device.finish()
    first = len(log)
    place.begin(hold)
    began = len(log)
    command(place.queue, 3)
    ended = len(log)
    place.end()
    before, middle = log.commands(first, began, place.producers), log.commands(began, ended)
    last, relation = log.commands(ended, queues=[place.later])[-1], log.relation()
    assert len(before) == len(place.producers)
    for each in [*middle, last]:
        assert all(relation.comes_after(each, earlier) for earlier in before)
    assert all(relation.comes_after(last, each) for each in middle)
    assert not place.later.query()
    hold.open()
    device.finish()
    assert holds(scene.x, command.after((1, 2, 3)))


def test_waits_are_carried_once(device, calls, hold, scene, command, place):
    """What comes next on the queue waits for nothing."""
    command(place.queue, 1)
    place.submit(place.queue)
    device.finish()
    place.begin(hold)
    command(place.queue, 2)
    place.submit(place.queue)
    first, stats = len(calls), place.queue.stats
    place.submit(place.queue)
    assert calls.kinds(first) - calls.kinds(len(calls)) == {"command": 1}
    assert (place.queue.stats - stats).waits_made == 0
