from penstock.queues.errors import Error

from penstock.devices import select


def pytest_report_header():
    try:
        device = select()
    except Error as error:
        return f"device: none, {error}"
    return f"device: {device.name}  {device.platform} · {device.description}"
