"""Waits of the host end beside threads that go on submitting, to the same queue or to others.

With FOREBAY_TURNS set, each cell has so many turns and prints how late its waits returned: see docs/reliability.md.
"""

import collections
import itertools
import os
import statistics
import threading
import time

import pytest

import forebay as fb

TURNS = int(os.environ.get("FOREBAY_TURNS", 0))
GUARD = int(os.environ.get("GUARD", 20))  # seconds: a wait that takes longer hangs
SOURCE = """
kernel void work(global float *x) {
    float v = x[get_global_id(0)];
    for (int i = 0; i < 200; i++) v = v * 1.0001f + 1.0f;
    x[get_global_id(0)] = v;
}
"""
pytestmark = [pytest.mark.threads, pytest.mark.timeout(600)]


class Scene:
    """A queue that this thread waits for, and threads that fill it or others."""

    def __init__(self, device, threads, place, ahead):
        self.device, self.ahead = device, ahead
        self.work = device.program(SOURCE)["work"]
        self.queue, self.x = device.queue(blocking=False), device.zeros(256, "f4")
        self.out = fb.host_empty(256, "f4", device=device)
        other = device.queue(blocking=False)
        self.filled = [
            (self.queue if place == "same" else other if place == "other" else device.queue(blocking=False),
             device.zeros(256, "f4"))
            for _ in range(threads)
        ]
        self.ends, self.turns, self.raised, self.running = False, 0, None, []
        device.finish()

    def fill(self, queue, memory):
        points = collections.deque()
        try:
            while not self.ends:
                queue.launch(self.work, 4, 64, memory)
                self.turns += 1
                if self.ahead and self.turns % 50 == 0:
                    points.append(queue.record())
                    while len(points) > self.ahead // 50 and not self.ends:
                        if points[0].query():
                            points.popleft()
                        else:
                            time.sleep(0)
        except BaseException as error:
            self.raised = error

    def begin(self):
        self.ends, self.turns = False, 0
        self.running = [threading.Thread(target=self.fill, args=filled) for filled in self.filled]
        for thread in self.running:
            thread.start()

    def end(self):
        self.ends = True
        for thread in self.running:
            thread.join()
        self.device.finish()
        assert self.raised is None

    def turn(self, wait, late):
        """Wait once. Return after how many milliseconds since its point was reached, or None when it hung."""
        for _ in range(300 if late else 20):
            self.queue.launch(self.work, 4, 64, self.x)
        if wait == "copy":
            self.queue.copy(self.out, self.x)
        point, returned, reached, hung = self.queue.record(), threading.Event(), [], []

        def watch():
            if late:
                self.begin()
            end = time.perf_counter() + GUARD
            while not returned.wait(0.001):
                if not reached and point.query():
                    reached.append(time.perf_counter())
                if time.perf_counter() > end:
                    hung.append(True)
                    self.ends = True  # so that the test fails, and does not hang itself

        watching = threading.Thread(target=watch)
        watching.start()
        WAITS[wait](self, point)
        end = time.perf_counter()
        returned.set()
        watching.join()
        if late:
            self.end()
        return None if hung else 1e3 * (end - min([*reached, end]))


def wait_for_another(scene, point):
    after = scene.device.queue(blocking=False)
    after.wait(scene.queue)
    after.finish()


WAITS = {
    "finish": lambda scene, point: scene.queue.finish(),
    "event": lambda scene, point: point.wait(),
    "get": lambda scene, point: scene.x.get(queue=scene.queue),
    "copy": lambda scene, point: scene.queue.finish(),
    "device": lambda scene, point: scene.device.finish(),
    "a queue after it": wait_for_another,
}
FILLINGS = [  # threads, where they submit, how many commands ahead, whether they begin while the wait is on
    *itertools.product((1, 2, 4), ("same", "other"), (1000, None), (False,)),
    *itertools.product((2, 4), ("others",), (1000, None), (False,)),
    *itertools.product((1, 2, 4), ("same", "other"), (None,), (True,)),
]


@pytest.mark.parametrize("filling", FILLINGS, ids=lambda filling: "-".join(map(str, filling)))
@pytest.mark.parametrize("wait", WAITS)
def test_it_ends(device, wait, filling):
    *where, late = filling
    scene = Scene(device, *where)
    if not late:
        scene.begin()
    try:
        lags = [scene.turn(wait, late) for _ in range(TURNS or 3)]
    finally:
        scene.end()
    assert None not in lags
    if TURNS:
        print(f"\n{wait}, {filling}: median {statistics.median(lags):.1f} ms, {max(lags):.0f} ms at most")
