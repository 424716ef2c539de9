import pytest

import forebay as fb
from forebay import hip
from forebay.hip.generated import SUBJECTS
from forebay.hip.table import DRIVERS, FUNCTIONS, chapter_of, table
from tests.helpers.threads import in_thread

from .conftest import ok
from .helpers import E, code


def test_an_error_sticks_until_it_is_asked_for(device):
    assert hip.hipGetLastError() == hip.hipPeekAtLastError() == (E.hipSuccess,)
    assert code(hip.hipMalloc(-1)) == E.hipErrorInvalidValue
    ok(hip.hipFree(None))  # does not clear it
    assert hip.hipExtGetLastError() == (E.hipSuccess,)
    assert hip.hipPeekAtLastError() == hip.hipPeekAtLastError() == (E.hipErrorInvalidValue,)
    assert "-1" in str(hip.last_exception())
    assert hip.hipGetLastError() == (E.hipErrorInvalidValue,)
    assert hip.hipGetLastError() == (E.hipSuccess,)
    assert hip.last_exception() is None


@pytest.mark.executes
def test_not_ready_is_no_error(device, hold):
    hold(None)
    assert code(hip.hipStreamQuery(None)) == E.hipErrorNotReady
    assert hip.hipExtGetLastError() == (E.hipErrorNotReady,)
    assert hip.hipPeekAtLastError() == (E.hipSuccess,)


def test_each_thread_has_its_own(device):
    code(hip.hipMalloc(-1))
    assert in_thread(hip.hipGetLastError) == (E.hipSuccess,)
    assert hip.hipGetLastError() == (E.hipErrorInvalidValue,)


@pytest.mark.parametrize("extent", [float("nan"), float("inf"), 2.5, "3", (1, 2, 3, 4)])
def test_extents_that_are_none_are_named(device, extent):
    with pytest.raises(fb.ArgumentTypeError, match=r"extents?"):
        hip.hipLaunchKernel(None, extent, 1, (), 0, None)


# As ROCm's runtime says them.


def test_names(device):
    for each in hip.hipError_t:
        assert ok(hip.hipGetErrorName(each)) == each.name.encode()
        assert ok(hip.hipGetErrorString(each))
        assert ok(hip.hipDrvGetErrorName(int(each))) == each.name.encode()
        assert ok(hip.hipDrvGetErrorString(each))
        assert str(each) == f"hipError_t.{each.name}"
        assert "HIP: " + ok(hip.hipGetErrorName(each)) == f"HIP: {each.name}"  # as hip-python 10 has it
    assert ok(hip.hipGetErrorString(E.hipSuccess)) == b"no error"
    assert ok(hip.hipGetErrorName(123456)) == b"hipErrorUnknown"
    assert code(hip.hipDrvGetErrorName(123456)) == E.hipErrorInvalidValue
    assert E.hipErrorInvalidResourceHandle is E.hipErrorInvalidHandle


# What is not there


@pytest.mark.parametrize("name", ["hipNoSuchThing", "hipbogus", "HIP_NOTHING"])
def test_a_function_that_is_not_there_says_so(name):
    with pytest.raises(AttributeError, match=f"has no {name}"):
        getattr(hip, name)
    with pytest.raises(NotImplementedError):
        getattr(hip, name)
    assert not hasattr(hip, name)
    with pytest.raises(AttributeError, match="no attribute 'anything'"):
        hip.anything  # noqa: B018


def test_the_table():
    rows = {row.name: row for row in table()}
    assert set(rows) == set(FUNCTIONS)
    assert len(set(map(chapter_of, FUNCTIONS))) > 30
    for name, row in rows.items():
        assert chapter_of(name) == row.chapter
        assert callable(getattr(hip, name))
        assert getattr(hip, name).__doc__
    assert rows["hipMalloc"].drivers == ("yes",) * len(DRIVERS)
    assert rows["hipModuleGetGlobal"].drivers[0] == "yes"
    refused = {name for subject in SUBJECTS for name in subject.outputs}
    assert {name for name, row in rows.items() if not row.there} == refused
    assert chapter_of("hipNoSuchThing") is None
    functions = {name for name in hip.__all__ if name.startswith("hip") and callable(getattr(hip, name))}
    assert {name for name in functions if not isinstance(getattr(hip, name), type)} <= set(rows)


# What no device can do: each function is there, and says why


REFUSED = [(subject, name, outputs) for subject in SUBJECTS for name, outputs in subject.outputs.items()]


@pytest.mark.parametrize(("subject", "name", "outputs"), REFUSED, ids=[name for _, name, _ in REFUSED])
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
    names = [name for _, name, _ in REFUSED]
    assert len(names) == len(set(names))
    assert all(subject.reason and subject.name for subject in SUBJECTS)
