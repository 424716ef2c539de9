import pytest

from forebay.hip.devices import current_device
from forebay.hiprtc import front_end

from .running import Built


@pytest.fixture
def compiled(device, queue):
    """``compiled(source)``: see `Built`."""
    return lambda source, options=(), names=(): Built(device, queue, source, options, names)


@pytest.fixture
def compiling(device):
    """Let `forebay.hiprtc` compile for the test's device."""
    front_end.compile_for(lambda: device)
    yield
    front_end.compile_for(current_device)
