"""The calls about contexts fail in turn: see `test_faults`, which runs this where no other device is open."""

import pytest

from forebay.queues.drivers.levelzero.loader import result_name

from .test_faults import CODES, OF_CONTEXTS, fail_each


@pytest.mark.parametrize("code", CODES, ids=result_name)
@pytest.mark.parametrize("name", OF_CONTEXTS)
def test_a_call_that_fails(left, opened, emulated, event_mode, name, code):
    assert fail_each(left, opened, emulated, name, code)
