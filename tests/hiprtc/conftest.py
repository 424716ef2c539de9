import pytest

from .running import Built


@pytest.fixture
def compiled(device, queue):
    """``compiled(source)``: see `Built`."""
    return lambda source, options=(), names=(): Built(device, queue, source, options, names)
