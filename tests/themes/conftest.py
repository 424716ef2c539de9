# ruff: noqa: F811 - fixtures that are imported

from contextlib import nullcontext

import pytest

from tests.drivers.levelzero import validation
from tests.helpers.features import Scene, each_feature, program_of
from tests.helpers.observer import EXECUTES
from tests.helpers.recordings import recordings_installed
from tests.ordering.conftest import calls, device, nothing_forbidden, watched  # noqa: F401

from .places import KINDS, Log, Place


@pytest.fixture(scope=validation.scope("module"))
def kernels(device):
    return program_of(device)


@pytest.fixture(params=each_feature())
def feature(request):
    """Each Feature in turn, with the recordings of the tests where it asks for them."""
    with recordings_installed(False) if request.param.recordings else nullcontext():
        yield request.param


@pytest.fixture
def scene(device, kernels):
    return Scene(device, kernels)


@pytest.fixture
def command(feature, scene):
    return feature.make(scene)


@pytest.fixture
def holds():
    """``holds(buffer, value)``: whether all elements have this value, where memory changes at all."""

    def holds(buffer, value, queue=None):
        got = buffer.get(queue=queue)
        return not EXECUTES or bool((got == value).all())

    return holds


@pytest.fixture(params=KINDS)
def place(request, device, scene):
    return Place(device, request.param, scene)


@pytest.fixture
def log(calls):
    return Log(calls)
