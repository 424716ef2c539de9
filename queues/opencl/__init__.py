"""The OpenCL driver: everything that knows what a `cl_command_queue` is."""

from forebay.core.driver import DeviceInfo, DriverDevice
from forebay.queues.opencl.discovery import absence, discover

__all__ = ["absence", "discover", "open_device"]


def open_device(info: DeviceInfo) -> DriverDevice:
    """As `DriverFolder.open_device`."""
    from forebay.queues.opencl.device import OpenCLDevice  # only for those who use this driver

    return OpenCLDevice(info)
