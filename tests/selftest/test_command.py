"""``forebay selftest``: the process that it watches, its exit status, the table and the file."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import pytest

from forebay import __main__ as main
from forebay.queues.kernels import build
from forebay.queues.selection import VARIABLE
from forebay.selftest import command as commands
from forebay.selftest import supervisor
from forebay.selftest.command import Report
from forebay.selftest.litmus import LITMUS
from forebay.selftest.work import Controlled, Ended, Opened, Ran, Request
from tests.conftest import DEVICES, on_null_hardware
from tests.helpers.processes import command

pytestmark = pytest.mark.needs("no validation layer", "the default device")

SOME = str(LITMUS[0])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "selftest.json"


@pytest.fixture
def inside(monkeypatch):
    """``inside(code)``: the process that runs the tests begins with this."""
    original = build.python_command

    def inside(code):
        monkeypatch.setattr(build, "python_command", lambda rest: original(f"exec({code!r}); {rest}"))

    return inside


def request(rounds=1, patience=30, **options):
    calls_only = on_null_hardware(DEVICES[0])
    return Request(DEVICES[0], rounds, 300, patience, calls_only=calls_only, **options)


# -- as a user types it


@pytest.fixture
def run(path, capfd):
    """``run(…)``: what ``forebay selftest`` prints, with this exit status: on stderr where that is 2."""

    def run(*arguments, status=0, output=path, **environment):
        words = ["selftest", *map(str, arguments), "-o", str(output)]
        with mock.patch.dict(os.environ, {VARIABLE: DEVICES[0]} | environment), pytest.raises(SystemExit) as ended:
            main.commands(words, prog_name="forebay")
        out, error = capfd.readouterr()
        assert ended.value.code == status, out + error
        assert not (out if status == 2 else error)  # quiet where there is no terminal
        return error if status == 2 else out

    return run


@pytest.mark.long
def test_everything_is_right(run, path):
    """And the file names no folder and no host."""
    out = run("--rounds", 2, FOREBAY_LOG="", OCL_CACHE_FOLDER=str(Path.home() / "somewhere"))
    assert "Everything was as it should be." in out
    assert "launch + record + wait elsewhere" in out
    text = path.read_text()
    assert "~/somewhere" in text
    assert str(Path.home()) not in text
    assert os.uname().nodename not in text or len(os.uname().nodename) < 4
    found = json.loads(text)
    assert found["passed"]
    assert found["device"]["name"] == DEVICES[0]
    assert found["device"]["driver_version"]
    assert found["versions"]["forebay"]
    assert found["rounds"] == 2
    chapters = found["chapters"].values()
    assert sum(each["tests"] for each in chapters) == len(LITMUS)
    assert sum(each["runs"] for each in chapters) == 2 * (len(LITMUS) - sum(each["absent"] for each in chapters))
    assert len(found["latencies, µs"]) == 8


@pytest.mark.long
def test_in_this_process_and_without_results_that_is_said(run, path):
    out = run("--rounds", 1, "--in-process", "--calls-only")
    assert "only the calls were judged" in out
    assert "calls succeed" in out
    assert " right" not in out
    assert json.loads(path.read_text())["judged"].startswith("calls only")


@pytest.mark.needs("real hardware")
@pytest.mark.parametrize(("words", "said"), [("toaster", "'toaster' is not known"), ("cpu:99", "no device matches")])
@pytest.mark.parametrize("before", ["of before", None])
def test_a_device_that_is_not_there_leaves_the_file_as_it_was(run, path, words, said, before):
    if before:
        path.write_text(before)
    error = run(words, "--in-process", status=2)
    assert said in error
    assert "Traceback" not in error
    assert (path.read_text() if path.exists() else None) == before


def test_a_file_that_cannot_be_written(run, tmp_path):
    assert "No such file" in run(output=tmp_path / "missing" / "file.json", status=2)


@pytest.mark.parametrize("option", [("--rounds", 0), ("--patience", 0), ("--seconds", -1), ("--rounds", "many")])
def test_an_option_that_makes_no_sense(run, path, option):
    assert option[0] in run(*option, status=2)
    assert not path.exists()


def test_ctrl_c_leaves_a_file_and_no_process(path):
    arguments, env = command(
        "-m", "forebay", "selftest", "--rounds", 100000, "--seconds", 1000, "-o", path, FOREBAY_DEVICE=DEVICES[0]
    )
    process = subprocess.Popen(
        arguments, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while not path.exists() or not path.read_text().endswith("}\n"):  # it is there once the device is open
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    out, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in out
    assert "Traceback" not in error
    found = json.loads(path.read_text())
    assert found["stopped"] == "interrupted"
    assert not found["passed"]


# -- what a driver may do to the process


IN_ITS_PLACE = """
import os, time
from forebay.selftest import litmus, work
def hang(scene):
    while True: time.sleep(1)
def end(scene): os.abort()
class Instead(litmus.Litmus):
    def __call__(self, scene): {}(scene)
work.LITMUS = tuple(Instead(each.chapter, each.name, each.text) if str(each) == {!r} else each
                    for each in litmus.LITMUS[:{}])
"""


@pytest.mark.long
def test_a_process_that_ends_is_told_and_another_goes_on(inside):
    inside(IN_ITS_PLACE.format("end", SOME, None))
    told = list(supervisor.supervise(request(rounds=2)))
    (wrong,) = [message for message in told if isinstance(message, Ran) and message.problem]
    assert wrong.what == SOME
    assert "SIGABRT" in wrong.problem
    ran = [message.what for message in told if isinstance(message, Ran) and message.number == 0]
    assert sorted(ran) == sorted(map(str, LITMUS)), "each test once in the round, although there were two processes"
    assert [type(message) for message in told].count(Opened) == 2
    assert told[-1] == Ended(2, stats=told[-1].stats)


def test_a_test_that_hangs_is_told_with_its_line_and_another_process_goes_on(inside):
    inside(IN_ITS_PLACE.format("hang", SOME, 3))
    # Opening a device takes seconds beside other processes, above all on CUDA.
    told = list(supervisor.supervise(request(patience=15 if DEVICES[0].startswith("cuda") else 8)))
    (wrong,) = [message for message in told if isinstance(message, Ran) and message.problem]
    assert wrong.what == SOME
    assert wrong.problem.startswith("hung")
    assert "in hang" in wrong.problem
    assert str(Path.home()) not in wrong.problem
    assert told[-1].problem == ""


def test_a_process_that_ends_while_the_device_is_opened_is_not_tried_again(inside, path, capsys):
    inside("import forebay.selftest.work as w, os\nw.fb.Device = lambda *_, **__: os._exit(7)")
    assert commands.selftest(request(), str(path)) == 1
    found = json.loads(path.read_text())
    assert found["stopped"] == "the device could not be opened"
    assert "exit status 7" in found["failures"][0]["problem"]
    out = capsys.readouterr().out
    assert "exit status 7" in out
    assert "https://github.com/forebay/forebay/issues" in out
    assert "Everything was as it should be" not in out
    assert not found["passed"]


def test_it_gives_up_after_three(inside):
    inside("import os, forebay.selftest.scene as s\ns.Bench.run = lambda *_: os._exit(1)")
    told = list(supervisor.supervise(request()))
    assert [type(message) for message in told].count(Opened) == 3
    assert "3 processes" in told[-1].problem


def test_no_process_can_be_started(path):
    with mock.patch.object(sys, "executable", ""):
        assert commands.selftest(request(), str(path)) == 1
    assert "no process could be started" in json.loads(path.read_text())["stopped"]


# -- the report


def test_a_device_on_which_no_race_is_seen_or_that_lacks_something_has_not_failed():
    report = Report()
    told = (Opened({}, True, 1e-3), Controlled(0, 30), Ran(SOME, 0, absent="it has none"), Ended(1))
    for message in told:
        report.note(message)
    assert report.passed
    assert "a wait that is lost may not have been seen" in " ".join(report.verdict().split())
    assert report.as_dict()["absent"] == {SOME: "it has none"}
    assert report.chapters()["pairs of queues"]["absent"] == 1
