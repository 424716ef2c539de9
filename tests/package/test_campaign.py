"""``python -m tools.campaign``: what it reports, and how it goes on after a program that was wrong."""

import sys

import pytest
from rich.progress import Progress

from forebay.queues.drivers.selection import VARIABLE
from tests.conftest import DEVICES
from tests.helpers.processes import python
from tools.campaign import Campaign

WORKER = """
import json, os, sys
first, count = map(int, sys.argv[1:])
print(json.dumps({"device": "none"}))
for seed in range(first, first + count):
    print(json.dumps({"begun": seed}), flush=True)
    if seed == 7:
        sys.exit("a crash")
    print(json.dumps({"wrong": "WrongError: memory 0"} if seed == 4 else {"compared": 10}), flush=True)
"""


def campaign_of(worker):
    """A Campaign of the programs 0 to 9, in processes that run this instead."""

    class OfWorker(Campaign):
        def command(self, seeds):
            return [sys.executable, "-c", worker, str(seeds[0]), str(len(seeds))], None

    with Progress(disable=True) as progress:
        campaign = OfWorker(progress, 10)
        campaign.run(range(10))
    return campaign


def run(*options, **environment):
    """What a campaign without a wrong program prints, line by line, and what it shows meanwhile."""
    done = python("-m", "tools.campaign", *options, **{VARIABLE: DEVICES[0]}, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["wrong", "0"] in lines
    return lines, done.stderr


@pytest.mark.needs("the default device")
@pytest.mark.long
def test_it_compares_and_counts():
    lines, shown = run("--programs", 20, "--seed", 40, "--processes", 2, FORCE_COLOR="1")  # as on a terminal
    assert "left:" in shown
    assert ["programs", "20,", "from", "seed", "40"] in lines


@pytest.mark.needs("no validation layer")
@pytest.mark.long
def test_programs_with_calls_that_fail_end_no_process_and_leave_nothing():
    lines, shown = run("--failures", "--programs", 50)
    assert shown == "", "quiet where there is no terminal"
    (failed,) = (line[3] for line in lines if line[:3] == ["calls", "that", "failed"])
    assert int(failed.rstrip(";").replace(",", "")) > 50


def test_wrong_programs_and_those_that_end_the_process_are_named():
    campaign = campaign_of(WORKER)
    assert (campaign.done, campaign.counts["compared"]) == (10, 80)
    assert set(campaign.wrong) == {4, 7}
    assert "a crash" in campaign.wrong[7]


def test_it_stops_where_no_program_can_begin():
    campaign = campaign_of("import sys; sys.exit('no device')")
    assert campaign.done == 1
    assert "no device" in campaign.wrong[0]
