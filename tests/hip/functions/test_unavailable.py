"""What no device can do: each function is there, and says why."""

import pytest

from forebay import hip
from forebay.hip.functions.unavailable import SUBJECTS

from ..helpers import E, code

FUNCTIONS = [(subject, name, outputs) for subject in SUBJECTS for name, outputs in subject.outputs()]


@pytest.mark.parametrize(("subject", "name", "outputs"), FUNCTIONS, ids=[name for _, name, _ in FUNCTIONS])
@pytest.mark.needs("no chosen device")
def test_it_says_why(subject, name, outputs):
    for result in (getattr(hip, name)(), getattr(hip, name)(1, None, flags=0)):
        assert code(result) == E.hipErrorNotSupported
        assert len(result) == 1 + outputs
        reason = str(hip.last_exception())
        assert reason.startswith(f"{name}: {subject.reason}")
        assert subject.instead in reason
    assert hip.hipGetLastError() == (E.hipErrorNotSupported,)
    assert subject.reason in getattr(hip, name).__doc__


@pytest.mark.needs("no chosen device")
def test_each_is_named_once():
    names = [name for _, name, _ in FUNCTIONS]
    assert len(names) == len(set(names))
    assert all(subject.reason and subject.name for subject in SUBJECTS)
