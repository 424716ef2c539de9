import pytest

from .running import Built


@pytest.fixture
def build(device, queue):
    """``build(source)``: see `Built`."""
    return lambda source, options=(), names=(): Built(device, queue, source, options, names)
