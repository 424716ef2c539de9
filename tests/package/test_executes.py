"""What null hardware excuses: assertions about data that the device should have written, and no others."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.conftest import is_about_data

pytestmark = pytest.mark.needs("the default device")

QUEUE = SimpleNamespace(epoch=3, stats=SimpleNamespace(launches=2), empty=True)
BUFFER = SimpleNamespace(get=lambda queue: np.zeros(4), nbytes=16)


def reads_back():
    assert BUFFER.get(queue=QUEUE).tolist() == [1] * 4


def names_an_array_in_several_lines():
    out = bytearray(4)
    assert (
        QUEUE.epoch,
        out[0],
    ) == (3, 1)


def names_what_the_mark_names():
    found = [0, 0]
    assert found == [1, 2]


def a_count():
    out = BUFFER.get(queue=QUEUE)
    assert out[0] == 0
    assert QUEUE.stats.launches == 3


def a_state():
    wrong = [QUEUE.empty, QUEUE.epoch == 4, BUFFER.nbytes == 20]
    assert not any(wrong)


DATA = [reads_back, names_an_array_in_several_lines, names_what_the_mark_names]


@pytest.mark.parametrize("test", [*DATA, a_count, a_state])
def test_only_data_is_excused(test):
    with pytest.raises(AssertionError) as caught:
        test()
    assert is_about_data(caught.value, pytest.mark.executes(reads="found").mark) == (test in DATA)
