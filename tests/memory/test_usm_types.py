"""Memory that the host shares with the device."""

import gc

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data


def made(device, usm_type, shape=64, dtype="i4"):
    try:
        return device.empty(shape, dtype, usm_type=usm_type)
    except fb.NotSupportedError:
        pytest.skip(f"the device has no {usm_type} memory")


@pytest.mark.parametrize("usm_type", ["shared", "host"])
def test_the_host_sees_what_the_device_wrote_and_the_other_way_round(device, program, queue, usm_type):
    buffer = made(device, usm_type)
    zeros, array = device.zeros(16, "f8", usm_type=usm_type), device.array([1.5, 2.5], usm_type=usm_type)
    device.finish()
    assert {each.usm_type for each in (buffer, zeros, array)} == {usm_type}
    assert (device_data(zeros.host.tolist()), device_data(array.host.tolist())) == ([0.0] * 16, [1.5, 2.5])
    assert usm_type == "host" or np.shares_memory(np.from_dlpack(buffer), buffer.host)
    host = buffer.host
    assert (host.shape, host.dtype) == ((64,), np.dtype("i4"))
    host[:] = np.arange(64)
    queue.launch(program["add"], 4, 16, buffer, 5)
    queue.finish()
    assert device_data(host.tolist()) == list(range(5, 69))
    assert device_data(buffer.get().tolist()) == list(range(5, 69))


@pytest.mark.parametrize("usm_type", ["shared", "host"])
def test_views_share_the_memory(device, usm_type):
    buffer = made(device, usm_type, (4, 8))
    buffer.host[:] = np.arange(32).reshape(4, 8)
    assert buffer[1].host.tolist() == list(range(8, 16))
    assert buffer[1:3].reshape(-1)[4:6].host.tolist() == [12, 13]
    assert buffer.view("u1").host.shape == (4, 32)
    assert buffer[2:2].host.shape == (0, 8)
    buffer[3].host[0] = -1
    assert buffer.host[3, 0] == -1


@pytest.mark.parametrize("usm_type", ["shared", "host"])
def test_the_array_keeps_the_memory(device, usm_type):
    buffer = made(device, usm_type)
    host = buffer.host
    host[:] = 7
    buffer.close()
    del buffer
    gc.collect()
    others = [made(device, usm_type) for _ in range(20)]
    for other in others:
        other.host[:] = 8
    assert host.tolist() == [7] * 64
