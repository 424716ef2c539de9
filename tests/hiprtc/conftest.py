import pytest

from forebay.hip.devices import current_device
from forebay.hiprtc import current

from .running import Built


@pytest.fixture
def compiled(device, queue):
    """``compiled(source)``: see `Built`."""
    return lambda source, options=(), names=(): Built(device, queue, source, options, names)


@pytest.fixture
def compiling(device):
    """Let `forebay.hiprtc` compile for the test's device."""
    current.compile_for(lambda: device)
    yield
    current.compile_for(current_device)
