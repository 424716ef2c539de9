import pytest


@pytest.fixture
def in_place(device):
    """Skips where the host cannot read the memory."""
    if device.info.kind != "cpu" or device.info.backend != "opencl":
        pytest.skip("the host cannot read the device's memory")


@pytest.fixture
def takes_host(device):
    if not device.driver.takes_host:
        pytest.skip("the device does not reach memory of the host")
