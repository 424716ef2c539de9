"""The way of a launch: from the call in Python to the call of the driver."""

import itertools

from docs.pictures.svg import Drawing

# What is done, by which function, where that is written, and the kind of box. The order is that of the calls.
SHORT = (
    ("Python calls queue.launch(…)", "launch_method", "queues/queue.pyx", "b"),
    ("grid and block are those of before?", "has_geometry", "queues/launch/launch.pxd", "a"),
    ("arguments are packed: no lock is held", "pack_arguments", "queues/launch/launch.pyx", "a"),
    ("the queue's lock, if it is free", "try_lock", "core/ownership.hpp", "e"),
    ("nothing to wait for? one comparison", "is_ready_to_launch", "queues/launch/launch.pxd", "a"),
    ("the kernel object of this queue", "find_plan", "queues/launch/launch.pxd", "a"),
    ("what changed is set", "is_same_block", "queues/launch/launch.pxd", "a"),
    ("the driver's call", "launch", "core/driver.hpp", "d"),
    ("the epoch advances", "count_launch", "queues/launch/launch.pxd", "a"),
)
LONG = (
    ("the lock, without the GIL;", "waits are gathered", "begin_command", "sync/ordering.pyx", "c"),
    ("the driver's call", "carries the waits", "call_launch", "queues/launch/launch.pyx", "d"),
    ("epoch and clock,", "or nothing has changed", "commit", "sync/ordering.pxd", "c"),
)
WIDTH, STEP, BOX, LEFT = 400, 50, 38, 226


def draw():
    """Return the picture, an SVG."""
    drawing = Drawing(WIDTH, STEP * len(SHORT) + 8, "The way of a launch")
    tops = [8 + STEP * number for number in range(len(SHORT))]
    left, right, middle = 8, LEFT + 30, 8 + LEFT / 2
    for upper, lower in itertools.pairwise(tops):
        drawing.straight([(middle, upper + BOX), (middle, lower)])
    for top, (what, function, _, kind) in zip(tops, SHORT, strict=True):
        drawing.box(left, top, LEFT, BOX, kind)
        drawing.words(middle, top + 13, what, size=11)
        drawing.words(middle, top + 27, function, "code quiet", size=10)
    wide = WIDTH - right - 8
    starts = [tops[4], tops[4] + 64, tops[4] + 128]
    for name in ("try_lock", "is_ready_to_launch"):
        top = next(top for top, step in zip(tops, SHORT, strict=True) if step[1] == name)
        y = top + BOX / 2
        drawing.words((left + LEFT + right) / 2, y - 7, "no", "quiet", size=10)
        if name == "try_lock":
            drawing.straight([(left + LEFT, y), (right + wide / 2, y), (right + wide / 2, starts[0])])
        else:
            drawing.straight([(left + LEFT, y), (right, y)])
    for upper, lower in itertools.pairwise(starts):
        drawing.straight([(right + wide / 2, upper + 50), (right + wide / 2, lower)])
    for top, (one, two, function, _, kind) in zip(starts, LONG, strict=True):
        drawing.box(right, top, wide, 50, kind)
        drawing.words(right + wide / 2, top + 11, one, size=10.5)
        drawing.words(right + wide / 2, top + 24, two, size=10.5)
        drawing.words(right + wide / 2, top + 39, function, "code quiet", size=10)
    return drawing.text()
