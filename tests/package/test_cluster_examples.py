"""One picture by workers of Dask and of Ray, one of which is killed: `make test-clusters` runs these."""

import importlib.util
from unittest import mock

import numpy as np
import pytest

from examples.cluster import picture
from examples.cluster.picture import Painter, Tile, painted_alone, tiles_of
from forebay.queues.selection import devices
from tests.helpers.processes import output_of

pytestmark = [
    pytest.mark.needs("no validation layer", "the default device"),
    pytest.mark.skipif(not any(device.usable for device in devices()), reason="no usable device"),
]
PROGRAMS = {"distributed": "with_dask", "ray": "with_ray"}


@pytest.mark.executes
@pytest.mark.parametrize("package", PROGRAMS)
@pytest.mark.timeout(200)
def test_the_work_of_a_killed_worker_is_done_again(tmp_path, package):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: make test-clusters")
    if package == "distributed":
        import dask
        import distributed  # noqa: F401 - which adds its settings to Dask's

        assert dask.config.get("distributed.worker.multiprocessing-method") == "spawn"
    environment = {"HOME": tmp_path, "RAY_USAGE_STATS_ENABLED": "0", "DO_NOT_TRACK": "1"}
    size, killed, last = output_of("-m", f"examples.cluster.{PROGRAMS[package]}", "--kill", **environment).splitlines()[
        -3:
    ]
    count = int(size.split(" by ")[1].split()[0])
    assert size.startswith("32 MiB in tiles of up to 2, by ")
    assert 2 <= count <= 5  # four, and the one that came for the killed one; a fast one may leave others nothing
    assert "was killed in the middle" in killed
    assert last == "OK: 0 pixels differ"


@pytest.mark.executes
def test_tiles_fit_together():
    whole = Painter(3).paint(Tile(0, 0, 150, 150, 3.2 / 150))
    with mock.patch.object(picture, "MOST", 10_000):
        assert len(tiles_of(150)) == 9
        assert all(tile.width * tile.height * 2 <= picture.MOST for tile in tiles_of(150))
        assert np.array_equal(painted_alone(150), whole)
    assert np.unique(whole).size > 30
