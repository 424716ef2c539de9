import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig

import numpy as np
import pytest

from forebay.queues.drivers.selection import devices
from tests.helpers.processes import ROOT, python

pytestmark = [
    pytest.mark.executes(run=False),
    pytest.mark.needs("no validation layer", "the default device"),
    pytest.mark.skipif(not any(device.usable for device in devices()), reason="no usable device"),
]
HEAT = ("-m", "examples.heat", "--size", 96, "--steps", 60)


def checked(*arguments):
    """Run an example. It does nothing without need, and at a race it ends with an error."""
    done = python(*arguments, FOREBAY_STATS=1, FOREBAY_CHECK="races,error")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "what process" in done.stderr
    assert "costly habits" not in done.stderr, done.stderr
    first, *rest = done.stdout.splitlines()
    assert first.startswith("device: ")
    assert [line for line in rest if line.startswith("OK: ")]
    return done.stdout


def picture_at(path):
    image = pytest.importorskip("matplotlib.image").imread(path)
    assert min(image.shape[:2]) > 400
    assert image[..., :3].std() > 0.1


@pytest.fixture(scope="module")
def temperatures(tmp_path_factory):
    path = tmp_path_factory.mktemp("heat") / "one.npy"
    checked(*HEAT, "--bands", 1, "--save", path)
    return np.load(path)


@pytest.mark.parametrize("bands", [5, 48])
@pytest.mark.long
def test_heat_is_the_same_to_the_last_bit_on_any_number_of_queues(tmp_path, temperatures, bands):
    draws = importlib.util.find_spec("matplotlib") is not None
    picture = ("--output", tmp_path / "heat.png") if draws else ()
    checked(*HEAT, "--bands", bands, "--save", tmp_path / "some.npy", *picture)
    assert np.array_equal(np.load(tmp_path / "some.npy"), temperatures)
    assert temperatures.min() < 1
    assert temperatures.max() > 90
    if draws:
        picture_at(tmp_path / "heat.png")


@pytest.mark.parametrize("ranks", [1, 4])
@pytest.mark.long
def test_heat_is_the_same_to_the_last_bit_in_any_number_of_processes(tmp_path, temperatures, ranks):
    pytest.importorskip("mpi4py")
    mpiexec = shutil.which("mpiexec", path=sysconfig.get_path("scripts")) or shutil.which("mpiexec")
    if mpiexec is None:
        pytest.skip("mpiexec is not installed")
    command = [mpiexec, "-n", ranks, sys.executable, *HEAT, "--bands", 2, "--save", tmp_path / "all.npy"]
    env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # Open MPI's
    done = subprocess.run(
        [str(word) for word in command], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"processes: {ranks}," in done.stdout
    assert np.array_equal(np.load(tmp_path / "all.npy"), temperatures)


def test_heat_refuses_more_bands_than_rows():
    done = python("-m", "examples.heat", "--size", 8, "--bands", 5)
    assert done.returncode == 2
    assert "8 rows are too few for 5 bands" in done.stderr


@pytest.mark.long
def test_bodies_attract_each_other_in_steps(tmp_path):
    pytest.importorskip("matplotlib")
    output = checked("-m", "examples.nbody", "--groups", 4, "--steps", 60, "--output", tmp_path / "nbody.png")
    assert "60 steps" in output
    picture_at(tmp_path / "nbody.png")


@pytest.mark.parametrize("queues", [32, 1])
def test_small_products_on_many_queues(queues):
    output = checked("-m", "examples.products", "--queues", queues, "--length", 7)
    assert "0 waits between queues" in output


@pytest.mark.long
def test_requests_are_answered_on_one_queue_and_on_many(tmp_path):
    draws = importlib.util.find_spec("matplotlib") is not None
    picture = ("--output", tmp_path / "inference.png") if draws else ()
    output = checked("-m", "examples.inference", "--requests", 20, "--repeats", 1, *picture)
    assert "\n 20 queues: half of the questions" in output
    if draws:
        picture_at(tmp_path / "inference.png")


@pytest.mark.long
def test_a_network_learns_the_same_in_steps_and_without():
    output = checked("-m", "examples.training", "--steps", 600)
    assert "OK: the same both ways" in output
    assert float(output.split(" is off by ")[1].split()[0]) < 0.2


@pytest.mark.long
def test_a_trace_shows_what_overlaps(tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("skimage")
    shown = ("--trace", tmp_path / "traces", "--output", tmp_path / "pipeline.png")
    output = checked("-m", "examples.pipeline", "--pictures", 6, "--passes", 1, *shown)
    assert "one queue: " in output
    picture_at(tmp_path / "pipeline.png")
    from examples.pipeline import ROOMS, commands_in

    # Each room has two pictures in turn, or a run would upload what is there from the run before.
    assert 2 * ROOMS == 6
    for name, tracks in (("one-queue", 1), ("three-queues", 3)):
        ran = commands_in(tmp_path / "traces" / f"{name}.json")
        assert len(ran) == 6 * 3
        assert {each.track for each in ran} == set(range(tracks))


def test_shares_of_a_trace():
    pytest.importorskip("matplotlib")
    pytest.importorskip("skimage")
    from examples.pipeline import Ran, shares

    one_after_another = [Ran(0, "copy", 0, 1), Ran(0, "median", 1, 3), Ran(0, "copy", 4, 5)]
    assert shares(one_after_another) == (0.8, 0)
    assert shares([*one_after_another, Ran(1, "copy", 2, 4), Ran(2, "copy", 2, 3)]) == (1, 0.2)
    assert shares([]) == (0, 0)


JACOBI = ("-m", "examples.jacobi", "--size", 50, 22, "--steps", 300, "--every", 120)


@pytest.mark.parametrize("grid", [(1, 1), (2, 3)])
@pytest.mark.long
def test_jacobis_method_is_the_same_in_any_number_of_blocks(tmp_path, grid):
    draws = importlib.util.find_spec("matplotlib") is not None
    picture = ("--output", tmp_path / "jacobi.png") if draws else ()
    output = checked(*JACOBI, "--grid", *grid, *picture)
    assert f"300 steps of {grid[0] * grid[1]} blocks" in output
    if draws:
        picture_at(tmp_path / "jacobi.png")


@pytest.mark.long
def test_jacobis_method_ends_at_the_solution():
    output = checked("-m", "examples.jacobi", "--size", 20, 20, "--steps", 3000, "--every", 250)
    assert int(output.split(" steps of ")[0].split()[-1]) < 3000
    assert float(output.split(" from the equation")[0].split("off by ")[-1]) < 5e-3


@pytest.mark.needs("SPIR-V")  # which clang makes; CUDA has NVRTC
def test_jacobis_method_without_a_compiler_says_what_is_missing():
    done = python(*JACOBI, FOREBAY_CLANG="none")
    assert done.returncode == 1
    assert "FOREBAY_CLANG=none turns clang off" in done.stderr
    assert "Traceback" not in done.stderr


def test_jacobis_method_refuses_more_blocks_than_points():
    done = python(*JACOBI, "--grid", 1, 12)
    assert done.returncode == 2
    assert "are too few for (1, 12) blocks" in done.stderr


@pytest.mark.parametrize("block", [4096, 1000])
@pytest.mark.long
def test_high_tones_are_taken_out_of_music(tmp_path, block):
    wavfile = pytest.importorskip("scipy.io.wavfile")
    if importlib.util.find_spec("pygame") is None:
        pytest.skip("pygame-ce is not installed, and with it the music")
    files = ("--sound", tmp_path / "low.wav", "--output", tmp_path / "tones.png")
    checked("-m", "examples.audio", "--block", block, *files)
    rate, low = wavfile.read(tmp_path / "low.wav")
    loud = np.abs(np.fft.rfft(low))
    at = int(len(loud) * 2500 / (rate / 2))
    assert loud[:at].max() > 1000 * loud[at:].max()
    picture_at(tmp_path / "tones.png")


@pytest.mark.long
def test_what_is_no_music_is_refused(tmp_path):
    pytest.importorskip("scipy")
    (tmp_path / "text.wav").write_text("not a sound")
    done = python("-m", "examples.audio", tmp_path / "text.wav")
    assert done.returncode == 2
    assert "text.wav" in done.stderr
    assert "Traceback" not in done.stderr
