"""What a queue is known to have reached, and what is then known of the queues that it comes after."""

from __future__ import annotations

import pytest

from tests.helpers.threads import beside
from tests.observers.internals import not_empty_after

QUEUES, TURNS = 256, 40


def finish_later(device):
    """Finish a queue that comes after the null queue, and so after all others."""
    later = device.queue()
    later.record()
    later.finish()


WAYS = {
    "finish": lambda device: device.null_queue.finish(),
    "query": lambda device: until(device.null_queue.query),
    "event waited": lambda device: device.null_queue.record().wait(),
    "event queried": lambda device: until(device.null_queue.record().query),
    "device": lambda device: device.finish(),
    "later": finish_later,
}


def until(done):
    while not done():
        pass


@pytest.mark.threads
@pytest.mark.parametrize("way", WAYS)
def test_whoever_sees_the_null_queue_done_sees_the_others_done(device, way):
    """The null queue speaks for the blocking queues, also to a thread that looks while another notes what is done."""
    null, queues = device.null_queue, [device.queue() for _ in range(QUEUES)]
    buffer = device.empty(1, "u4")
    device.finish()
    for _ in range(TURNS):
        for queue in queues:
            queue.fill(buffer, 1)
        null.fill(buffer, 2)
        found = []
        with beside(lambda epoch=null.epoch, found=found: found.append(not_empty_after(null, epoch, queues))):
            WAYS[way](device)
        assert found == [0]
