"""`forebay bench`: that it measures, writes, compares and draws. No test looks at how long anything took."""

import json
import os
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest
from click.testing import CliRunner

from microbench import raw
from microbench.__main__ import main
from microbench.cases import CASES
from microbench.harness import Bench, measure
from microbench.layers import LAYERS, AbsentError, Ground, Subject
from microbench.layers.forebay import Queues
from microbench.layers.hip import Hip
from microbench.raw import Kernel
from microbench.report import Report, changes
from tests.helpers.device_data import device_data
from tests.helpers.processes import python
from tests.inside import buffer_over

pytestmark = pytest.mark.needs("no validation layer")

OURS = {"forebay", "forebay bound"}
SMALL = ("--quick", "--rounds", 2, "--calls", 2)


def run(*words, status=0):
    done = CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == status, done.output
    assert status or done.stderr == "", "quiet where there is no terminal"
    return done.output


def small(device, *layers):
    return Bench(device, quick=True, rounds=2, calls=2, **({"only": layers} if layers else {}))


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """The file of a small run."""
    path = tmp_path_factory.mktemp("bench") / "result.json"
    run("launch", "graph", "idle", "--quick", "--rounds", 12, "--calls", 4, "--json", path)
    return path


def changed(result, path, change):
    """A copy of a result in which `change` was made to each row."""
    known = json.loads(result.read_text())
    for row in known["rows"]:
        change(row)
    path.write_text(json.dumps(known))
    return path


@pytest.fixture(scope="module")
def steady(result, tmp_path_factory):
    """The same rows with samples of a machine that nothing disturbs: 1 % of noise."""
    random = np.random.default_rng(1)

    def settle(row):
        row["samples"] = random.normal(1, 0.01, 12).tolist()

    return changed(result, tmp_path_factory.mktemp("bench") / "steady.json", settle)


# Measuring


def test_every_round_has_every_subject_once_in_its_surroundings():
    seen = []

    @contextmanager
    def around(name):
        seen.append(("in", name))
        yield
        seen.append(("out", name))

    def subject(name, seconds):
        def sample(n):
            seen.append((n, name))
            return n * seconds

        return Subject(sample, lambda: around(name))

    found = measure({"a": subject("a", 1e-6), "b": subject("b", 3e-6)}, calls=5, rounds=7, warm_up=2)
    assert found == {"a": pytest.approx([1] * 7), "b": pytest.approx([3] * 7)}
    for first in range(0, len(seen), 6):
        whats, names = zip(*seen[first : first + 6], strict=True)
        assert sorted(names) == ["a", "a", "a", "b", "b", "b"]
        assert whats == ("in", 5, "out") * 2
    assert len(seen) == 9 * 6


@pytest.mark.parametrize("name", [name for name in CASES if name != "start"])
def test_every_case_gives_rows_of_forebay_at_every_point(device, name, really):
    bench = small(device)
    case, turns = CASES[name], []
    rows = bench.run(case, lambda: turns.append(1))
    assert len(turns) == bench.turns(case)
    assert all(np.isfinite(row.samples).all() and min(row.samples) > 0 for row in rows)
    points = [point.name for point in case.points(bench)]
    assert list(dict.fromkeys(row.point for row in rows)) == (points if really or name != "host" else [])
    for point in points if really or name != "host" else ():
        assert OURS & {row.layer for row in rows if row.point == point}


@pytest.mark.long
def test_the_start_of_processes(device):
    # With all connections each process takes seconds beside others.
    with mock.patch.dict(os.environ, CUDA_DEVICE_MAX_CONNECTIONS="8"):
        rows = small(device).run(CASES["start"], lambda: None)
    caches = {"out of forebay's cache", "out of the driver's cache"}
    assert {row.point.partition(", ")[2] for row in rows} == {"", "compiled", *caches}


@pytest.mark.long
def test_what_is_measured_leaves_nothing_behind(device):
    bench = small(device, "C", "forebay", "forebay bound")
    names = ("launch", "events", "chains", "idle", "busy", "finish", "graph", "pool")

    def all_of_them():
        for name in names:
            bench.run(CASES[name], lambda: None)
        device.finish()

    all_of_them()
    before = device.stats.allocations
    all_of_them()
    all_of_them()
    first = device.stats.allocations - before
    all_of_them()
    all_of_them()
    assert device.stats.allocations - before <= 2 * first


def test_hips_functions_are_not_measured_on_another_device(device):
    with mock.patch("microbench.layers.hip.number_of", return_value=-1), pytest.raises(AbsentError, match=device.name):
        Hip(Ground(device))


# The floor


@pytest.fixture
def native(device):
    ground = Ground(device)
    if ground.native is None or ground.native.own_streams:
        pytest.skip(ground.no_native or "its memory is none of forebay's")
    return ground.native


def test_the_floor_really_launches_and_copies(device, native):
    (stream,), memory = native.streams(1), native.memory(4)
    launch = native.enqueue(stream, Kernel(native.make_kernel(16, memory)))
    (upload,) = native.transfer(stream, "up", 4)
    upload.kept["source"].view("f4")[0] = 3
    assert native.run([upload, *launch, *native.say(native.texts.finish, stream)])(3) > 0
    found = [buffer_over(device, source, (1,), "f4").item() for source in (upload.kept["to"], memory)]
    assert device_data(found) == [3, sum(range(100, 115))]


def test_a_call_that_fails_ends_the_floor(device, native):
    if device.info.backend != "opencl":
        pytest.skip("a null handle is no error there but the end of the process")
    (broken,) = native.transfer(*native.streams(1), "across", 64)
    broken.arguments[0] = 0
    with pytest.raises(RuntimeError, match="C loop"):
        native.run([broken])(1)


def test_without_a_compiler_there_is_no_floor_and_it_is_said(device, tmp_path):
    nothing = {"FOREBAY_CACHE": str(tmp_path), "CC": "no-such-compiler", "PATH": str(tmp_path)}
    raw.loops.cache_clear()
    try:
        with mock.patch.dict(os.environ, nothing):
            bench = small(device, "C", "C again", "forebay")
        assert [layer.name for layer in bench.layers] == ["forebay"]
        assert "apt install gcc" in bench.absent["C"]
        rows = bench.run(CASES["launch"], lambda: None)
        report = Report.of(bench, [CASES["launch"]], rows, 1)
        assert all("median/C" not in numbers for _, numbers in report.lines())
    finally:
        raw.loops.cache_clear()


# Results


def test_a_result_has_the_driver_the_versions_the_rows_and_what_was_not_there(result):
    report = Report.read(result)
    assert report.about["driver"]
    assert report.about["versions"]["numpy"] == np.__version__
    order = list(LAYERS)
    there = {row.layer for row in report.rows}
    assert there | set(report.absent) >= set(order) - {"C recording", "forebay step"}
    assert not there & set(report.absent)
    assert report.missing["launch/one scalar changed"]["forebay bound"] == "its arguments are fixed"
    for key in {(row.case, row.point) for row in report.rows}:
        layers = [row.layer for row in report.rows if (row.case, row.point) == key]
        assert layers == sorted(layers, key=order.index)
    assert {numbers["median/C"] for row, numbers in report.lines() if row.layer == "C"} <= {1}


def test_a_result_can_be_printed_in_two_ways(result):
    text = run("pool", *SMALL, "--layer", "forebay", "--json", "-")
    assert {row["layer"] for row in json.loads(text)["rows"]} == {"forebay"}
    text = run("show", result)
    for word in ("forebay bound", "one scalar changed", "Beside others", "null, 1024 idle"):
        assert word in text


def test_what_is_slower_is_named_and_nothing_else(result, steady, tmp_path):
    def slower(row):
        if (row["point"], row["layer"]) == ("one scalar changed", "forebay"):
            row["samples"] = [sample * 2 for sample in row["samples"]]

    new = changed(steady, tmp_path / "new.json", slower)
    (line,) = [line for line in run("compare", "--check", steady, new, status=1).splitlines() if "launch/" in line]
    assert "one scalar changed" in line
    assert "2.000" in line
    run("compare", "--check", new, steady)  # it is faster
    assert "0 of" in run("compare", "--check", result, result)


def test_a_machine_that_is_slower_in_all_is_no_change_where_there_is_a_floor(steady, tmp_path):
    def slower(row):
        row["samples"] = [sample * 3 for sample in row["samples"]]

    report = Report.read(steady)
    new = Report.read(changed(steady, tmp_path / "new.json", slower))
    alone = {(row.case, row.point, row.layer) for row in report.rows if report.floor(row) is None}
    assert {(each.row.case, each.row.point, each.row.layer) for each in changes(report, new)} == alone
    assert len(alone) < len(report.rows)


@pytest.mark.needs("no chosen device")
@pytest.mark.long
def test_pictures(result, tmp_path):
    pytest.importorskip("matplotlib")
    drawn = run("plot", result, "--folder", tmp_path / "pictures").split()
    assert len(drawn) == 6
    for name in ("queues", "distribution", "graphs"):
        assert (tmp_path / "pictures" / f"result-{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (tmp_path / "pictures" / f"result-{name}.svg").read_text()


@pytest.mark.needs("no chosen device")
def test_the_installed_command_is_the_same_and_without_scipy_says_what_to_install(tmp_path):
    (tmp_path / "scipy.py").write_text("raise ModuleNotFoundError('no scipy', name='scipy')")
    done = python("-m", "forebay", "bench", "launch", PYTHONPATH=tmp_path)
    assert done.returncode == 2
    assert "forebay[bench]" in done.stderr


# What goes wrong


@pytest.mark.threads
def test_an_interrupt_opens_what_was_held(device):
    subject_of, bench = Queues.launch, small(device, "forebay")

    def interrupted(self, *arguments):
        subject = subject_of(self, *arguments)

        def run(n):
            subject.run(n)
            raise KeyboardInterrupt

        return Subject(run, subject.around)

    with mock.patch.object(Queues, "launch", interrupted), pytest.raises(KeyboardInterrupt):
        bench.run(CASES["launch"], lambda: None)
    device.finish()
    assert all(queue.it.empty for queue in bench.layers[0].streams(1))
