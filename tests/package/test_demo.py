import importlib.util

import pytest

from forebay.queues.drivers.selection import devices
from tests.helpers.processes import python

pytestmark = [
    pytest.mark.needs("no validation layer"),
    pytest.mark.skipif(not importlib.util.find_spec("matplotlib"), reason="matplotlib is not installed"),
    pytest.mark.skipif(not any(device.usable for device in devices()), reason="no usable device"),
]


REAL = pytest.mark.needs("real hardware")


@pytest.mark.executes(reads="done")
@pytest.mark.parametrize(("tiles", "queues"), [(2, 2), pytest.param(3, 2, marks=REAL), pytest.param(1, 1, marks=REAL)])
@pytest.mark.long
def test_the_demo_agrees_with_scipy_and_draws(tmp_path, tiles, queues):
    image = pytest.importorskip("matplotlib.image")
    arguments = "--output", tmp_path / "demo.png", "--tiles", tiles, "--queues", queues
    done = python("-m", "examples.photo", *arguments, FOREBAY_STATS=1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "what process" in done.stderr
    assert "costly habits" not in done.stderr, done.stderr
    first, *_, last = done.stdout.splitlines()
    assert first.startswith("device: ")
    assert last.startswith("OK: ")
    picture = image.imread(tmp_path / "demo.png")
    height, width = picture.shape[:2]
    assert min(height, width) > 500
    assert picture[..., :3].std() > 0.1


def test_without_a_device_the_demo_says_what_to_do(tmp_path):
    done = python("-m", "examples.photo", "--output", tmp_path / "demo.png", FOREBAY_DEVICE="cpu:99")
    assert done.returncode == 2
    assert "no device matches 'cpu:99'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "demo.png").exists()
