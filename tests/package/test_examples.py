"""Each example does what it says, without a race and without an inefficiency, and draws its picture."""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig

import numpy as np
import pytest

from forebay.queues.selection import devices
from tests.helpers.processes import ROOT, python

image = pytest.importorskip("matplotlib.image")

LONG = [pytest.mark.long, pytest.mark.every_driver]
pytestmark = [
    pytest.mark.executes,
    pytest.mark.needs("no validation layer", "the default device"),
    pytest.mark.skipif(not any(device.usable for device in devices()), reason="no usable device"),
]
HEAT = ("-m", "examples.heat", "--size", 96, "--steps", 60)
JACOBI = "--size 50 22 --steps 300 --every 120"


def checked(*arguments):
    """Run an example. It does nothing without need, and at a race it ends with an error."""
    done = python(*arguments, FOREBAY_STATS=1, FOREBAY_CHECK="races,error")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "what process" in done.stderr
    assert "inefficiencies" not in done.stderr, done.stderr
    first, *rest = done.stdout.splitlines()
    assert first.startswith("device: ")
    assert [line for line in rest if line.startswith("OK: ")]
    return done.stdout


def is_picture(path):
    picture = image.imread(path)
    return min(picture.shape[:2]) > 400 and picture[..., :3].std() > 0.1


@pytest.mark.parametrize(("name", "arguments", "draws", "printed"), [
    pytest.param("photo", "--tiles 2 --queues 2", True, "OK: ", marks=pytest.mark.long),
    pytest.param("photo", "--tiles 3 --queues 2", True, "OK: ", marks=LONG),
    pytest.param("photo", "--tiles 1 --queues 1", True, "OK: ", marks=pytest.mark.long),
    pytest.param("nbody", "--groups 4 --steps 60", True, "60 steps", marks=LONG),
    ("products", "--queues 32 --length 7", False, "0 waits between queues"),
    ("products", "--queues 1 --length 7", False, "0 waits between queues"),
    pytest.param("inference", "--requests 20 --repeats 1", True, "\n 20 queues: half of the questions", marks=LONG),
    pytest.param("training", "--steps 600", False, "OK: the same both ways", marks=LONG),
    pytest.param("jacobi", f"{JACOBI} --grid 1 1", True, "300 steps of 1 blocks", marks=pytest.mark.long),
    pytest.param("jacobi", f"{JACOBI} --grid 2 3", True, "300 steps of 6 blocks", marks=LONG),
    pytest.param("jacobi", "--size 20 20 --steps 3000 --every 250", False, " from the equation", marks=LONG),
])  # fmt: skip
def test_an_example_is_right_and_draws(tmp_path, name, arguments, draws, printed):
    picture = ("--output", tmp_path / "picture.png") if draws else ()
    output = checked("-m", f"examples.{name}", *arguments.split(), *picture)
    assert printed in output
    assert not draws or is_picture(tmp_path / "picture.png")
    if name == "training":
        assert float(output.split(" is off by ")[1].split()[0]) < 0.2
    if " from the equation" in output:
        assert int(output.split(" steps of ")[0].split()[-1]) <= 3000
        assert float(output.split(" from the equation")[0].split("off by ")[-1]) < (
            5e-3 if "20 20" in arguments else 99
        )


@pytest.mark.parametrize(("name", "arguments", "environment", "status", "message"), [
    ("photo", "--tiles 1", {"FOREBAY_DEVICE": "cpu:99"}, 2, "no device matches 'cpu:99'"),
    ("heat", "--size 8 --bands 5", {}, 2, "8 rows are too few for 5 bands"),
    ("jacobi", f"{JACOBI} --grid 1 12", {}, 2, "are too few for (1, 12) blocks"),
    # clang makes SPIR-V; CUDA has NVRTC
    pytest.param("jacobi", JACOBI, {"FOREBAY_CLANG": "none"}, 1, "FOREBAY_CLANG=none turns clang off",
                 marks=pytest.mark.needs("SPIR-V")),
    pytest.param("audio", "pyproject.toml", {}, 2, "pyproject.toml", marks=LONG),
])  # fmt: skip
def test_an_example_refuses_what_it_cannot_do(name, arguments, environment, status, message):
    done = python("-m", f"examples.{name}", *arguments.split(), **environment)
    assert done.returncode == status
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def temperatures(tmp_path_factory):
    path = tmp_path_factory.mktemp("heat") / "one.npy"
    checked(*HEAT, "--bands", 1, "--save", path)
    return np.load(path)


@pytest.mark.parametrize("bands", [5, 48])
@pytest.mark.long
def test_heat_is_the_same_to_the_last_bit_on_any_number_of_queues(tmp_path, temperatures, bands):
    checked(*HEAT, "--bands", bands, "--save", tmp_path / "some.npy", "--output", tmp_path / "heat.png")
    assert np.array_equal(np.load(tmp_path / "some.npy"), temperatures)
    assert temperatures.min() < 1
    assert temperatures.max() > 90
    assert is_picture(tmp_path / "heat.png")


@pytest.mark.parametrize("ranks", [1, 4])
@pytest.mark.long
def test_heat_is_the_same_to_the_last_bit_in_any_number_of_processes(tmp_path, temperatures, ranks):
    pytest.importorskip("mpi4py")
    mpiexec = shutil.which("mpiexec", path=sysconfig.get_path("scripts")) or shutil.which("mpiexec")
    if mpiexec is None:
        pytest.skip("mpiexec is not installed")
    command = [mpiexec, "-n", ranks, sys.executable, *HEAT, "--bands", 2, "--save", tmp_path / "all.npy"]
    env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # Open MPI's
    done = subprocess.run(map(str, command), cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"processes: {ranks}," in done.stdout
    assert np.array_equal(np.load(tmp_path / "all.npy"), temperatures)


@pytest.mark.long
def test_a_trace_shows_what_overlaps(tmp_path):
    pytest.importorskip("skimage")
    shown = ("--trace", tmp_path / "traces", "--output", tmp_path / "pipeline.png")
    assert "one queue: " in checked("-m", "examples.pipeline", "--pictures", 6, "--passes", 1, *shown)
    assert is_picture(tmp_path / "pipeline.png")
    from examples.pipeline import ROOMS, commands_in

    # Each room has two pictures in turn, or a run would upload what is there from the run before.
    assert 2 * ROOMS == 6
    for name, tracks in (("one-queue", 1), ("three-queues", 3)):
        ran = commands_in(tmp_path / "traces" / f"{name}.json")
        assert len(ran) == 6 * 3
        assert {each.track for each in ran} == set(range(tracks))


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
    assert is_picture(tmp_path / "tones.png")
