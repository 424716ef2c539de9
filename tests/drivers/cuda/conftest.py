import importlib.metadata
from types import SimpleNamespace

import pytest

from forebay.core.driver import DeviceInfo
from forebay.core.errors import NotInstalledError
from forebay.queues.cuda.nvrtc import NvrtcCompiler

ARCHITECTURE, DRIVER = (9, 0), 13000


@pytest.fixture(scope="session")
def nvrtc():
    """NVRTC for an H100, which needs no GPU. Where its package is installed it must be found."""
    try:
        return NvrtcCompiler(ARCHITECTURE, DRIVER)
    except NotInstalledError as error:
        if is_installed("nvidia-cuda-nvrtc"):
            raise
        pytest.skip(str(error))


def is_installed(package):
    """Whether pip has installed it."""
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


@pytest.fixture
def info():
    """What the driver says of an H100; there need be none."""
    native = SimpleNamespace(architecture=ARCHITECTURE, driver_version=DRIVER, pci=(0, 1, 0))
    return DeviceInfo("cuda:gpu:0", "cuda", "gpu", 0, "NVIDIA H100", "NVIDIA CUDA", driver_version="580", native=native)
