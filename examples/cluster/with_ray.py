"""A picture by actors of Ray: ``python -m examples.cluster.with_ray``."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import click
import numpy as np
import ray
from ray.util import ActorPool

from .picture import Painter, Tile, judged, tiles_of


@ray.remote(max_restarts=3, max_task_retries=3)
class Worker:
    """A process with a device. When it ends, Ray starts another one.

    That one gets the tile which this had not painted yet.
    """

    def __init__(self, number: int):
        self.painter = Painter(number)

    def paint(
        self, tile: Tile, killed: Path | None
    ) -> tuple[Tile, np.ndarray, int]:
        """Takes and returns what can be sent."""
        return tile, self.painter.paint(tile, killed), os.getpid()


@click.command()
@click.option("--side", default=4096, show_default=True, help="Pixels.")
@click.option("--workers", default=4, show_default=True)
@click.option("--kill", is_flag=True, help="Kill a worker in the middle.")
def main(side: int, workers: int, kill: bool) -> None:
    """Paint a picture with workers, and compare it with one process's."""
    tiles, picture = tiles_of(side), np.zeros((side, side), "u2")
    # For a cluster that is there already: ray.init("auto").
    ray.init(num_cpus=workers, include_dashboard=False)
    with tempfile.TemporaryDirectory() as folder:
        middle = tiles[len(tiles) // 2]
        killed = {middle: Path(folder, "killed")} if kill else {}
        by = {}
        pool = ActorPool([Worker.remote(number) for number in range(workers)])
        for tile, part, process in pool.map_unordered(
            lambda worker, tile: worker.paint.remote(tile, killed.get(tile)),
            tiles,
        ):
            picture[tile.place] = part
            by[tile] = process
        ray.shutdown()
        right = judged(picture, by, killed)
    sys.exit(not right)


if __name__ == "__main__":
    main()
