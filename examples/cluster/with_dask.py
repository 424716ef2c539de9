"""A picture by workers of Dask: ``python -m examples.cluster.with_dask``."""

from __future__ import annotations

import functools
import os
import sys
import tempfile
from pathlib import Path

import click
import numpy as np
from dask.distributed import Client, LocalCluster, as_completed, get_worker

from .picture import Painter, Tile, judged, tiles_of


@functools.cache
def painter() -> Painter:
    """What this worker paints with. It stays here: a device cannot be sent."""
    return Painter(get_worker().name)  # 0, 1, 2 …, also when started again


def paint(tile: Tile, killed: Path | None) -> tuple[np.ndarray, int]:
    """A task: takes and returns what can be sent."""
    return painter().paint(tile, killed), os.getpid()


@click.command()
@click.option("--side", default=4096, show_default=True, help="Pixels.")
@click.option("--workers", default=4, show_default=True)
@click.option("--kill", is_flag=True, help="Kill a worker in the middle.")
def main(side: int, workers: int, kill: bool) -> None:
    """Paint a picture with workers, and compare it with one process's."""
    tiles, picture = tiles_of(side), np.zeros((side, side), "u2")
    with tempfile.TemporaryDirectory() as folder:
        middle = tiles[len(tiles) // 2]
        killed = {middle: Path(folder, "killed")} if kill else {}
        by = {}
        # Workers are processes that start by spawn, and are numbered. For a
        # cluster that is there already: Client("address of its scheduler").
        with (
            LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None
            ) as cluster,
            Client(cluster) as client,
        ):
            tasks = {client.submit(paint, t, killed.get(t)): t for t in tiles}
            for task, (part, process) in as_completed(tasks, with_results=True):
                picture[tasks[task].place] = part
                by[tasks[task]] = process
        right = judged(picture, by, killed)
    sys.exit(not right)


if __name__ == "__main__":
    main()
