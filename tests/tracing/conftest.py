import pytest


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trace.json"


@pytest.fixture
def buffer(device):
    with device.zeros(100, "i4") as buffer:
        device.finish()
        yield buffer
