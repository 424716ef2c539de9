"""What null hardware excuses: assertions about `device_data`, and no others."""

import numpy as np
import pytest

from tests.helpers import device_data
from tests.helpers.device_data import device_data as written

pytestmark = pytest.mark.needs("the default device")


def test_what_is_said_of_data_that_no_device_has_written_holds(monkeypatch):
    before, x = device_data.unknown, np.zeros(4, "i4")
    for executes in (True, False):
        monkeypatch.setattr(device_data, "executes", executes)
        for holds in (
            lambda: written(x).tolist() == [1] * 4,
            lambda: [5, written(x[0])] == [5, 1],
            lambda: (written(x) > 1).all() and np.array_equal(written(x), x + 1) and x + 1 == written(x),
            lambda: all(abs(each) == 1 for each in written(x)) and 1 in written(x),
        ):
            assert bool(holds()) != executes
        assert not (written(x[0]) == 0 and len(x) == 3)
    assert device_data.unknown > before
    device_data.unknown = before  # for this test is judged
