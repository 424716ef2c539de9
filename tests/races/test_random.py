"""Random programs with one needed wait left out: the checker reports it, and reports nothing of programs without races.

`tests/ordering` has the programs and the rules, which know nothing of the checker.
"""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import forebay as fb
from forebay.queues.selection import select
from tests.conftest import DEVICES
from tests.helpers.processes import output_of
from tests.ordering.happens_before import Rules
from tests.ordering.program import SOURCE, Program
from tests.ordering.test_programs import Player, repeats, steps

pytestmark = [pytest.mark.threads, pytest.mark.executes]  # both for host functions

programs = st.lists(st.one_of(steps, steps, steps, repeats), min_size=1, max_size=60)


class RacedError(Exception):
    """A command was submitted that races."""


class RulesOfWaits(Rules):
    """Those that hold whatever was done when: any wait may have been dropped then, and order no more than it names."""

    def wait(self, queue, point, operation):
        super().wait(queue, point, None)


class Told(Program):
    """Believes what a driver says: null hardware says that what is behind a closed gate is done."""

    RULES = RulesOfWaits

    def now_done(self, must):
        self.told |= must


class LeavingOut(Player):
    """Leaves out one wait that the rules need, and ends the program with the command that needs it."""

    def attempt(self, queue, action, insist):
        if self.program.racing(queue, action.writes, action.reads):
            action.submit(queue)
            raise RacedError
        return super().attempt(queue, action, insist)


def played(program_steps):
    """Play on a device that has told nothing yet. Returns certain and possible races, and whether there is one."""
    raced = False
    with fb.Device(private=True, check="races") as device:
        program = Told(device, device.program(SOURCE))
        try:
            player = LeavingOut(program)
            try:
                for step in program_steps:
                    player.play(*step)
            except RacedError:
                raced = True
        finally:
            for gate in program.gates.values():
                gate.open()
        device.finish()
        return device.races, device.possible_races, raced


@pytest.mark.long
@pytest.mark.every_driver
@settings(max_examples=200, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs)
def test_a_wait_that_is_missing_is_told(program_steps):
    certain, possible, raced = played(program_steps)
    if raced:
        assert certain or [race for race in possible if "host function" in race.basis[0]]
    else:
        assert (certain, possible) == ((), ())


# Programs of which the driver refuses calls


@pytest.mark.threads
@pytest.mark.needs("no validation layer")
@pytest.mark.skipif(select().backend in ("cuda", "nothing"), reason="another process has no mock driver")
@pytest.mark.parametrize("options", [["--failures"], ["--failures", "--check"], ["--check"]], ids=" ".join)
def test_random_programs_are_silent_also_if_calls_are_refused(options):
    """What no refused command wrote to is as the model says, and a race that is planted afterwards is found."""
    said = output_of("-m", "tools.campaign", "--programs", 50, *options, FOREBAY_DEVICE=DEVICES[0])
    failed = re.search(r"calls that failed +([\d,]+); operations with an error ([\d,]+)", said)
    assert failed is None if options == ["--check"] else int(failed[2].replace(",", "")) > 20
