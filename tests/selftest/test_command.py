"""``forebay selftest``: the process that it watches, its exit status, the table and the file."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from forebay.selftest import command as commands
from forebay.selftest import supervisor
from forebay.selftest.litmus import LITMUS
from forebay.selftest.messages import Ended, Opened, Ran, Request
from forebay.selftest.report import Report
from tests.conftest import DEVICES, on_null_hardware
from tests.helpers.processes import command, python

pytestmark = pytest.mark.needs("no validation layer", "the default device")

SOME = str(LITMUS[0])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "selftest.json"


@pytest.fixture
def inside(monkeypatch):
    """``inside(code)``: the process that runs the tests begins with this."""
    original = supervisor.python_command

    def inside(code):
        monkeypatch.setattr(supervisor, "python_command", lambda rest: original(f"exec({code!r}); {rest}"))

    return inside


def request(rounds=1, patience=30, **options):
    calls_only = on_null_hardware(DEVICES[0])
    return Request(DEVICES[0], rounds, 300, patience, calls_only=calls_only, **options)


# -- as a user types it


def run(path, *arguments, **environment):
    return python("-m", "forebay", "selftest", *arguments, "-o", path, FOREBAY_DEVICE=DEVICES[0], **environment)


@pytest.mark.long
def test_everything_is_right(path):
    """And the file names no folder and no host."""
    done = run(path, "--rounds", 2, FOREBAY_LOG="", OCL_CACHE_FOLDER=Path.home() / "somewhere")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "", "quiet where there is no terminal"
    assert "Everything was as it should be." in done.stdout
    assert "launch + record + wait elsewhere" in done.stdout
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
    assert sum(each["tests"] for each in found["chapters"].values()) == len(LITMUS)
    absent = sum(each["absent"] for each in found["chapters"].values())
    assert sum(each["runs"] for each in found["chapters"].values()) == 2 * (len(LITMUS) - absent)
    assert len(found["latencies, µs"]) == 8


@pytest.mark.needs("null hardware")
def test_null_hardware_is_judged_by_its_calls_and_that_is_said(path):
    done = run(path, "--rounds", 1)
    assert "only the calls were judged" in done.stdout
    assert "calls succeed" in done.stdout
    assert " right" not in done.stdout
    assert json.loads(path.read_text())["judged"].startswith("calls only")


@pytest.mark.needs("real hardware")
@pytest.mark.parametrize(("words", "said"), [("toaster", "'toaster' is not known"), ("cpu:99", "no device matches")])
@pytest.mark.long
def test_a_device_that_is_not_there(path, words, said):
    path.write_text("of before")
    done = run(path, words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert path.read_text() == "of before"
    path.unlink()
    run(path, words)
    assert not path.exists()


def test_a_file_that_cannot_be_written(tmp_path):
    done = run(tmp_path / "missing" / "file.json")
    assert done.returncode == 2
    assert "No such file" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("option", [("--rounds", 0), ("--patience", 0), ("--seconds", -1), ("--rounds", "many")])
def test_an_option_that_makes_no_sense(path, option):
    done = run(path, *option)
    assert done.returncode == 2
    assert option[0] in done.stderr
    assert not path.exists()


@pytest.mark.long
def test_in_this_process(path):
    done = run(path, "--rounds", 1, "--in-process")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
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


@pytest.mark.long
def test_a_process_that_ends_is_told_and_another_goes_on(inside):
    inside(f"""
import os, forebay.selftest.litmus as litmus
from forebay.selftest import work
def end(scene): os.abort()
work.LITMUS = tuple(litmus.Litmus(each.chapter, each.name, end if str(each) == {SOME!r} else each.run,
                                  each.needs_execution) for each in litmus.LITMUS)
""")
    told = list(supervisor.supervise(request(rounds=2)))
    wrong = [message for message in told if isinstance(message, Ran) and message.problem]
    assert [message.what for message in wrong] == [SOME]
    assert "SIGABRT" in wrong[0].problem
    ran = [message.what for message in told if isinstance(message, Ran) and message.number == 0]
    assert sorted(ran) == sorted(map(str, LITMUS)), "each test once in the round, although there were two processes"
    assert [type(message) for message in told].count(Opened) == 2
    assert told[-1] == Ended(2, stats=told[-1].stats)


def test_a_test_that_hangs_is_told_with_its_line_and_another_process_goes_on(inside):
    inside(f"""
import time, forebay.selftest.litmus as litmus
from forebay.selftest import work
def hang(scene):
    while True: time.sleep(1)
work.LITMUS = tuple(litmus.Litmus(each.chapter, each.name, hang, each.needs_execution)
                    for each in litmus.LITMUS if str(each) == {SOME!r}) + litmus.LITMUS[1:3]
""")
    # Opening a device of CUDA takes some seconds beside other processes.
    patience = 15 if DEVICES[0].startswith("cuda") else 2
    told = list(supervisor.supervise(request(patience=patience)))
    (wrong,) = [message for message in told if isinstance(message, Ran) and message.problem]
    assert wrong.what == SOME
    assert wrong.problem.startswith("hung")
    assert "in hang" in wrong.problem
    assert str(Path.home()) not in wrong.problem.replace(str(Path.home()) + "\n", "")
    assert told[-1].problem == ""


def test_a_process_that_ends_while_the_device_is_opened_is_not_tried_again(inside, path, capsys):
    inside("import forebay.selftest.work as w, os\nw.fb.Device = lambda *_, **__: os._exit(7)")
    assert commands.selftest(request(), str(path)) == 1
    found = json.loads(path.read_text())
    assert found["stopped"] == "the device could not be opened"
    assert "exit status 7" in found["failures"][0]["problem"]
    assert "exit status 7" in capsys.readouterr().out


def test_it_gives_up_after_three(inside):
    inside("import os, forebay.selftest.scene as s\ns.Bench.run = lambda *_: os._exit(1)")
    told = list(supervisor.supervise(request()))
    assert [type(message) for message in told].count(Opened) == 3
    assert "3 processes" in told[-1].problem


def test_no_process_can_be_started(monkeypatch, path):
    monkeypatch.setattr(supervisor.sys, "executable", "")
    assert commands.selftest(request(), str(path)) == 1
    assert "no process could be started" in json.loads(path.read_text())["stopped"]


# -- a device that is wrong


@pytest.mark.needs("OpenCL", "real hardware")
@pytest.mark.long
def test_one_lost_wait_in_a_hundred_makes_it_fail(inside, path, capsys):
    inside("""
from forebay.selftest import work
from tests.observers import opencl
work.LITMUS = work.LITMUS[:120]  # the others take longer
opencl.start()
opencl.drop_waits(100)
""")
    assert commands.selftest(request(rounds=6), str(path)) == 1
    out = capsys.readouterr().out
    assert "failed" in out
    assert "https://github.com/forebay/forebay/issues" in out
    assert "Everything was as it should be" not in out
    found = json.loads(path.read_text())
    assert not found["passed"]
    assert found["failures"]
    for failure in found["failures"]:
        assert failure["test"] in map(str, LITMUS)
        assert failure["problem"]
        assert failure["rounds"]


# -- the report


def test_a_device_on_which_no_race_is_seen_is_told():
    from forebay.selftest.messages import Controlled

    report = Report()
    for message in (Opened({}, True, 1e-3), Controlled(0, 30), Ran(SOME, 0), Ended(1)):
        report.note(message)
    assert report.passed
    assert "a wait that is lost may not have been seen" in " ".join(report.verdict().split())


def test_what_a_device_does_not_have_is_no_failure():
    report = Report()
    for message in (Opened({}, True, 1e-3), Ran(SOME, 0, absent="it has none"), Ended(1)):
        report.note(message)
    assert report.passed
    assert report.as_dict()["absent"] == {SOME: "it has none"}
    assert report.chapters()["pairs of queues"].absent == 1
