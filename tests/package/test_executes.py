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


def an_array():
    out = BUFFER.get(queue=QUEUE)
    assert out[1] == 1


def several_lines():
    out = bytearray(4)
    assert (
        QUEUE.epoch,
        out[0],
    ) == (3, 1)


def what_the_mark_names():
    found = [0, 0]
    assert found == [1, 2]


def a_count():
    out = BUFFER.get(queue=QUEUE)
    assert out[0] == 0
    assert QUEUE.stats.launches == 3


def an_epoch():
    assert QUEUE.epoch == 4


def a_state():
    wrong = [QUEUE.empty]
    assert not any(wrong)


def a_size():
    assert BUFFER.nbytes == 4 * 5


@pytest.mark.parametrize("test", [reads_back, an_array, several_lines, what_the_mark_names])
def test_data_is_excused(test):
    assert is_excused(test)


@pytest.mark.parametrize("test", [a_count, an_epoch, a_state, a_size])
def test_what_forebay_says_is_not(test):
    assert not is_excused(test)


def is_excused(test):
    with pytest.raises(AssertionError) as caught:
        test()
    return is_about_data(caught.value, pytest.mark.executes(reads="found").mark)
