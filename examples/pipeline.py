"""Noise is taken out of many pictures, and a trace shows what overlaps.

Run it by ``python -m examples.pipeline``.

A picture is copied to the device, filtered there a few times, and copied back.
On one queue one thing happens after another. With a queue for each of the
three, the next picture is on its way while this one is filtered and the last
one copied back, as far as the device can do both. The result is SciPy's, to the
last bit. ``--trace`` keeps the traces, for https://ui.perfetto.dev.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from scipy import ndimage

import forebay as fb

from .photo import photograph

BLOCK = (64, 4)
ROOMS = 3  # pictures that are on the device at a time
NOISE = 0.1  # of the pixels
SOURCE = """
void order(uchar *a, uchar *b)
{
    uchar least = min(*a, *b);
    *b = max(*a, *b);
    *a = least;
}

/* The median of each pixel and the eight around it, for each colour; beyond the
   border the border repeats. */
kernel void median(global const uchar *from, global uchar *to,
                   int width, int height)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x >= width || y >= height) return;
    for (int colour = 0; colour < 3; colour++) {
        uchar v[9];
        for (int j = 0; j < 3; j++)
            for (int i = 0; i < 3; i++) {
                int row = clamp(y + j - 1, 0, height - 1);
                int column = clamp(x + i - 1, 0, width - 1);
                v[3 * j + i] = from[3 * (row * width + column) + colour];
            }
        /* The columns in order: then three of the nine are left. */
        for (int i = 0; i < 3; i++) {
            order(v + i, v + 3 + i);
            order(v + 3 + i, v + 6 + i);
            order(v + i, v + 3 + i);
        }
        uchar low = max(v[0], max(v[1], v[2]));
        uchar middle = max(min(v[3], v[4]), min(max(v[3], v[4]), v[5]));
        uchar high = min(v[6], min(v[7], v[8]));
        to[3 * (y * width + x) + colour] =
            max(min(low, middle), min(max(low, middle), high));
    }
}
"""


def noisy(count: int) -> np.ndarray:
    """A photograph, so many times, each with black and white dots anew."""
    random = np.random.default_rng(6)
    pictures = np.repeat(photograph()[None], count, axis=0)
    dots = random.random(pictures.shape[:3])
    pictures[dots < NOISE / 2] = 0
    pictures[dots > 1 - NOISE / 2] = 255
    return pictures


@dataclass
class Room:
    """Memory for a picture on the device, and when it is free again."""

    picture: fb.Buffer
    other: fb.Buffer
    free: fb.Event


class Pipeline:
    """Pictures on their way through a device. Memory is made once, and pinned
    on the host, or copies would wait.
    """

    def __init__(self, device: fb.Device, pictures: np.ndarray, passes: int):
        self.device, self.passes = device, passes
        self.median = device.program(SOURCE)["median"]
        self.given = fb.host_empty(pictures.shape, "u1", device)
        self.given[...] = pictures
        self.result = fb.host_empty(pictures.shape, "u1", device)
        shape = pictures.shape[1:]
        self.rooms = [
            Room(
                device.empty(shape, "u1"),
                device.empty(shape, "u1"),
                device.event(),
            )
            for _ in range(ROOMS)
        ]
        device.finish()

    def run(self, up: fb.Queue, compute: fb.Queue, down: fb.Queue) -> float:
        """Filter all pictures. Blocks until the last is back, and returns the
        seconds that it took.

        The three queues may be one and the same: then none of the waits is
        needed, and forebay makes none.
        """
        self.result.fill(0)
        height, width = self.given.shape[1:3]
        grid = -(-width // BLOCK[0]), -(-height // BLOCK[1])
        began = time.perf_counter()
        for number, (given, result) in enumerate(
            zip(self.given, self.result, strict=True)
        ):
            room = self.rooms[number % ROOMS]
            up.wait(room.free)  # never recorded: done
            up.copy(room.picture, given)
            compute.wait(up.record())
            before, after = room.picture, room.other
            for _ in range(self.passes):
                compute.launch(
                    self.median, grid, BLOCK, before, after, width, height
                )
                before, after = after, before
            down.wait(compute.record())
            down.copy(result, before)
            down.record(room.free)
        self.device.finish()
        return time.perf_counter() - began


@dataclass(frozen=True)
class Ran:
    """A command that the device ran: on which track of the trace, and when, in
    milliseconds.
    """

    track: int
    name: str
    begin: float
    end: float


def commands_in(path: Path) -> list[Ran]:
    """What the device ran according to a trace, from the first command on."""
    events = [
        event
        for event in json.loads(path.read_text())["traceEvents"]
        if event["ph"] == "X"
    ]
    ran = [event for event in events if event["cat"] == "ran"]
    if not ran:
        return []
    tracks = sorted({event["tid"] for event in ran})
    first = min(event["ts"] for event in ran)
    spans = [(event, (event["ts"] - first) / 1e3) for event in ran]
    return [
        Ran(tracks.index(each["tid"]), each["name"], at, at + each["dur"] / 1e3)
        for each, at in spans
    ]


def shares(commands: list[Ran]) -> tuple[float, float]:
    """For how much of the time the device ran something, and for how much on
    two or three queues at once.
    """
    changes = sorted(
        [(each.begin, 1) for each in commands]
        + [(each.end, -1) for each in commands]
    )
    running, busy, both = 0, 0.0, 0.0
    for (time_, change), (after, _) in itertools.pairwise(changes):
        running += change
        busy += (after - time_) * (running > 0)
        both += (after - time_) * (running > 1)
    whole = changes[-1][0] - changes[0][0] if changes else 0
    return (busy / whole, both / whole) if whole else (0.0, 0.0)


def draw(traces: dict[str, list[Ran]], output: Path) -> None:
    """Write a picture of when the device ran what."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    rows = [
        len({each.track for each in commands}) for commands in traces.values()
    ]
    figure, both = pyplot.subplots(
        len(traces),
        1,
        figsize=(10, 1.6 + 0.6 * sum(rows)),
        layout="constrained",
        sharex=True,
        height_ratios=rows,
    )
    for axes, (title, commands) in zip(both, traces.items(), strict=True):
        for each in commands:
            colour, edge = (
                ("tab:blue", "white")
                if each.name == "median"
                else ("tab:orange", "tab:orange")
            )
            axes.barh(
                each.track,
                each.end - each.begin,
                0.8,
                each.begin,
                color=colour,
                edgecolor=edge,
                linewidth=0.4,
            )
        count = 1 + max((each.track for each in commands), default=0)
        axes.set_yticks(
            range(count),
            ["upload", "filter", "download"] if count == 3 else ["everything"],
        )
        axes.invert_yaxis()
        axes.set_title(title, loc="left")
    both[-1].set_xlabel("ms on the device (blue: filters, orange: copies)")
    figure.savefig(output, dpi=120)


@click.command()
@click.option(
    "--pictures", default=12, show_default=True, type=click.IntRange(min=1)
)
@click.option(
    "--passes",
    default=3,
    show_default=True,
    type=click.IntRange(min=1),
    help="Of the filter.",
)
@click.option(
    "--trace",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep the traces there.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="Write a picture of the traces there.",
)
def main(
    pictures: int, passes: int, folder: Path | None, output: Path | None
) -> None:
    """Filter pictures on one queue and on three, look what overlaps, and
    compare the results with SciPy's.
    """
    device = fb.Device()
    given = noisy(pictures)
    pipeline = Pipeline(device, given, passes)
    height, width = given.shape[1:3]
    print(
        f"device: {device.name}, {pictures} pictures of {width} × {height}, "
        f"{passes} passes"
    )
    expected = given
    for _ in range(passes):
        expected = ndimage.median_filter(
            expected, size=(1, 3, 3, 1), mode="nearest"
        )
    wrong, traces = 0, {}
    with tempfile.TemporaryDirectory() as temporary:
        for count, name in ((1, "one queue"), (3, "three queues")):
            queues = [device.queue(blocking=False) for _ in range(count)]
            up, compute, down = queues * (3 // count)
            # some drivers compile a kernel only when a queue first launches it
            pipeline.run(up, compute, down)
            took = min(pipeline.run(up, compute, down) for _ in range(3))
            path = Path(folder or temporary) / f"{name.replace(' ', '-')}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            # apart, because these times take events
            with fb.trace(path, device_times=True):
                timed = [device.queue(blocking=False) for _ in range(count)]
                pipeline.run(*timed * (3 // count))
            traces[name] = commands_in(path)
            busy, both = shares(traces[name])
            print(
                f"{name}: {1e3 * took:.1f} ms; in the trace something ran in "
                f"{busy:.0%} of the time, and on several queues at once in "
                f"{both:.0%}"
            )
            wrong += np.count_nonzero(pipeline.result != expected)
    if output:
        draw(traces, output)
    print(
        f"{'WRONG' if wrong else 'OK'}: {wrong} numbers of "
        f"{2 * expected.size:,} differ from SciPy's"
    )
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
