"""Programs of which the driver refuses calls: the checker of races forgets what they said, of memory and of order."""

import re

import pytest

from forebay.queues.selection import select
from tests.conftest import DEVICES
from tests.helpers.processes import output_of


@pytest.mark.threads
@pytest.mark.needs("no validation layer")
@pytest.mark.skipif(select().backend in ("cuda", "nothing"), reason="another process has no mock driver")
@pytest.mark.parametrize("options", [["--failures"], ["--failures", "--check"], ["--check"]], ids=" ".join)
def test_random_programs_are_silent_also_if_calls_are_refused(options):
    """What no refused command wrote to is as the model says, and a race that is planted afterwards is found."""
    said = output_of("-m", "tools.campaign", "--programs", 50, *options, FOREBAY_DEVICE=DEVICES[0])
    failed = re.search(r"calls that failed +([\d,]+); operations with an error ([\d,]+)", said)
    assert failed is None if options == ["--check"] else int(failed[2].replace(",", "")) > 20
