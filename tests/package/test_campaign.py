"""``python -m tests.campaign``: what it reports, and how it goes on after a program that was wrong."""

import sys

import pytest
from rich.progress import Progress

from forebay.queues.drivers.selection import VARIABLE
from tests import campaign
from tests.conftest import DEVICES
from tests.helpers.processes import python

WORKER = """
import json, os, sys
first, count, step = (int(sys.argv[sys.argv.index(name) + 1]) for name in ("--seed", "--programs", "--step"))
print(json.dumps({"device": "none"}))
for seed in range(first, first + count * step, step):
    print(json.dumps({"begun": seed}), flush=True)
    if seed == 7:
        sys.exit("a crash")
    print(json.dumps({"wrong": "WrongError: memory 0"} if seed == 4 else {"compared": 10}), flush=True)
"""


@pytest.fixture
def reports(monkeypatch):
    """A Campaign of 10 programs, in processes that run this instead."""

    def reports(worker):
        monkeypatch.setattr(
            campaign, "python", lambda *arguments, **_: ([sys.executable, "-c", worker, *map(str, arguments)], None)
        )
        with Progress(disable=True) as progress:
            return campaign.Campaign(progress, 10)

    return reports


@pytest.mark.needs("the default device")
@pytest.mark.long
def test_it_compares_and_counts():
    options = {VARIABLE: DEVICES[0], "FORCE_COLOR": "1"}  # as on a terminal
    done = python("-m", "tests.campaign", "--programs", 20, "--seed", 40, "--processes", 2, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "left:" in done.stderr
    assert "left:" not in done.stdout
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["programs", "20,", "from", "seed", "40"] in lines
    assert ["wrong", "0"] in lines


@pytest.mark.needs("no validation layer")
@pytest.mark.long
def test_programs_with_calls_that_fail_end_no_process_and_leave_nothing():
    done = python("-m", "tests.campaign", "--failures", "--programs", 50, **{VARIABLE: DEVICES[0]})
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "", "quiet where there is no terminal"
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["wrong", "0"] in lines
    (failed,) = (line[3] for line in lines if line[:3] == ["calls", "that", "failed"])
    assert int(failed.rstrip(";").replace(",", "")) > 50


@pytest.mark.parametrize("seeds", [range(10), range(0, 20, 2), range(1, 20, 2)])
def test_wrong_programs_and_those_that_end_the_process_are_named(reports, seeds):
    made = reports(WORKER)
    made.run(seeds)
    assert made.done == 10
    assert set(made.wrong) == {4, 7} & set(seeds)
    assert made.nbytes == 10 * (10 - len(made.wrong))
    assert "a crash" in made.wrong.get(7, "a crash")


def test_it_stops_where_no_program_can_begin(reports):
    made = reports("import sys; sys.exit('no device')")
    made.run(range(10))
    assert made.done == 0
    assert "no device" in made.wrong[0]
