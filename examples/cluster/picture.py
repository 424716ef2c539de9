"""A picture of a Julia set in tiles, each of which any process can paint.

A process that paints has a `Painter`, and with it a device. It takes a tile and
returns an array of NumPy: both can be sent, and know nothing of a process.
"""

from __future__ import annotations

import itertools
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import forebay as fb

MOST = 2 << 20  # bytes of its device that a worker takes for a tile
TURNS = 500
BLOCK = (64, 4)
SOURCE = f"""
/* For each pixel of a tile, how many turns its point takes to get away. */
kernel void julia(global ushort *turns, int left, int top,
                  int width, int height, float pixel)
{{
    int i = get_global_id(0), j = get_global_id(1);
    if (i >= width || j >= height) return;
    float x = pixel * (left + i) - 1.6f, y = pixel * (top + j) - 1.6f;
    ushort turn = 0;
    for (; turn < {TURNS} && x * x + y * y < 4.0f; turn++) {{
        float next = x * x - y * y - 0.8f;
        y = 2.0f * x * y + 0.156f;
        x = next;
    }}
    turns[j * width + i] = turn;
}}
"""


@dataclass(frozen=True)
class Tile:
    """A part of a picture."""

    left: int
    top: int
    width: int
    height: int
    pixel: float

    @property
    def place(self) -> tuple[slice, slice]:
        """Where it is in the picture."""
        rows = slice(self.top, self.top + self.height)
        return rows, slice(self.left, self.left + self.width)


def tiles_of(side: int) -> list[Tile]:
    """Cut a square picture into tiles that a worker takes."""
    most = int((MOST // 2) ** 0.5)  # pixels of two bytes
    parts = [(at, min(most, side - at)) for at in range(0, side, most)]
    pairs = itertools.product(parts, parts)
    return [Tile(x, y, w, h, 3.2 / side) for (y, h), (x, w) in pairs]


def device_of(worker: int) -> fb.Device:
    """Open the device of a worker: its own GPU, as far as there are so many."""
    found = [each for each in fb.devices() if each.usable]
    gpus = [each.name for each in found if each.kind == "gpu"]
    if not gpus or "FOREBAY_DEVICE" in os.environ:
        return fb.Device()
    return fb.Device(gpus[worker % len(gpus)])


class Painter:
    """What a process needs to paint. It is made once, for many tiles."""

    def __init__(self, worker: int):
        self.device = device_of(worker)
        self.queue = self.device.queue(blocking=False)
        self.julia = self.device.program(SOURCE)["julia"]

    def paint(self, tile: Tile, killed: Path | None = None) -> np.ndarray:
        """Return the turns of each pixel. Blocks until they are there.

        If `killed` is given, and there is no such file yet, this process is
        killed in the middle, to see that another one does its work again.
        """
        width, height = tile.width, tile.height
        grid = -(-width // BLOCK[0]), -(-height // BLOCK[1])
        place = tile.left, tile.top, width, height, tile.pixel
        with self.device.empty((height, width), "u2") as turns:
            self.queue.launch(self.julia, grid, BLOCK, turns, *place)
            if killed is not None and not killed.exists():
                killed.write_text(str(os.getpid()))
                os.kill(os.getpid(), signal.SIGKILL)
            return turns.get(queue=self.queue)


def painted_alone(side: int) -> np.ndarray:
    """Return the picture as this process paints it."""
    picture, painter = np.zeros((side, side), "u2"), Painter(0)
    for tile in tiles_of(side):
        picture[tile.place] = painter.paint(tile)
    return picture


def judged(
    picture: np.ndarray, by: dict[Tile, int], killed: dict[Tile, Path]
) -> bool:
    """Print whether a picture is right, and what became of the killed process.

    Parameters
    ----------
    picture
        What the workers have painted.
    by
        The process that has painted each tile.
    killed
        The tile at which a process was killed, and the file that it has left.
    """
    count = len(set(by.values()))
    size = picture.nbytes >> 20
    print(f"{size} MiB in tiles of up to {MOST >> 20}, by {count} processes")
    alone = painted_alone(len(picture))
    wrong = np.count_nonzero(picture != alone)
    right = wrong == 0 and alone.max() == TURNS and np.unique(alone).size > 50
    for tile, path in killed.items():
        first = int(path.read_text())
        print(f"{first} was killed in the middle; {by[tile]} did it again")
        right = right and first != by[tile]
    print(f"{'OK' if right else 'WRONG'}: {wrong} pixels differ")
    return right
