"""The OpenCL driver. Only this package deals with `cl_command_queue` and the like."""

from forebay.core.driver import DeviceInfo, DriverDevice
from forebay.queues.opencl.adoption import ADOPTS_DEVICES, ADOPTS_QUEUES, adopt_device, adopt_queue
from forebay.queues.opencl.discovery import absence, discover

__all__ = [
    "ADOPTS_DEVICES",
    "ADOPTS_QUEUES",
    "absence",
    "adopt_device",
    "adopt_queue",
    "discover",
    "open_device",
]


def open_device(info: DeviceInfo) -> DriverDevice:
    """As `DriverFolder.open_device`."""
    from forebay.queues.opencl.device import OpenCLDevice  # imported late: only users of this driver pay for it

    return OpenCLDevice(info)
