"""The SYCL driver: queues of dpctl, or queues that dpctl can use, driven through SYCL only."""

from forebay.core.driver import DeviceInfo, DriverDevice
from forebay.queues.sycl.adoption import ADOPTS_DEVICES, ADOPTS_QUEUES, adopt_device, adopt_queue
from forebay.queues.sycl.discovery import absence, discover

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
    from forebay.queues.sycl.device import SyclDevice  # imported late: only users of this driver pay for it

    return SyclDevice(info)
