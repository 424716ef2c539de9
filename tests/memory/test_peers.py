"""Memory of another device, in kernels and copies. Where devices do not reach each other's, that is said."""

from functools import partial
from unittest import mock

import numpy as np
import pytest

import forebay as fb
from forebay import hip
from tests.helpers.growth import MIB, growth
from tests.helpers.observer import observe
from tests.helpers.threads import together

pytestmark = pytest.mark.needs("two devices")

N = 1 << 18
SOURCE = "kernel void add(global int *x, int value) { x[get_global_id(0)] += value; }"


@pytest.fixture
def pair(device):
    with fb.Device(hip.devices.infos()[0].name) as one, fb.Device(hip.devices.infos()[1].name) as other:
        yield one, other


@pytest.fixture
def linked(pair):
    """Two devices of which the first uses the second's memory."""
    one, other = pair
    if not one.can_access_peer(other):
        pytest.skip("no device reaches another's memory")
    one.enable_peer_access(other)
    yield one, other
    one.disable_peer_access(other)


def test_it_is_refused_unless_it_is_enabled(pair):
    one, other = pair
    kernel, x = one.program(SOURCE)["add"], other.empty(N, "i4")
    refused = pytest.raises(fb.InvalidArgumentError, match="this Buffer belongs to")
    with refused:
        one.null_queue.launch(kernel, N // 256, 256, x, 1)
    with pytest.raises(fb.InvalidArgumentError, match="as_buffer: its memory belongs to"):
        one.as_buffer(x)
    assert not one.can_access_peer(one)
    with pytest.raises(fb.NotSupportedError, match="cannot access"):
        one.enable_peer_access(one)
    if not one.can_access_peer(other):
        with pytest.raises(fb.NotSupportedError, match=r"cannot access memory of .*: copy it"):
            one.enable_peer_access(other)
        return
    for _ in range(2):
        one.enable_peer_access(other)
    one.null_queue.launch(kernel, N // 256, 256, x, 1)
    with refused:
        other.null_queue.launch(other.program(SOURCE)["add"], N // 256, 256, one.zeros(N, "i4"), 1)
    for _ in range(2):
        one.disable_peer_access(other)
    with refused:
        one.null_queue.launch(kernel, N // 256, 256, x, 1)
    one.finish()


def test_kernels_and_events_order_what_two_devices_do(linked, really):
    _, other = linked
    kernels = [each.program(SOURCE)["add"] for each in linked]
    queues = [each.queue(blocking=False) for each in linked]
    x = other.zeros(N, "i4")
    other.finish()
    for turn in range(20):
        queues[turn % 2].wait(queues[1 - turn % 2].record())
        queues[turn % 2].launch(kernels[turn % 2], N // 256, 256, x, turn)
    queues[0].wait(queues[1].record())
    queues[0].launch(kernels[0], N // 512, 256, x[N // 2 :], 1000)  # a view
    queues[0].finish()
    expected = np.full(N, sum(range(20)))
    expected[N // 2 :] += 1000
    assert np.array_equal(x.get(), expected) or not really


def test_a_graph_a_bound_launch_and_a_step_have_it(linked, really):
    one, other = linked
    kernel, queue, x = one.program(SOURCE)["add"], one.queue(blocking=False), other.zeros(N, "i4")
    other.finish()
    with queue.capture() as graph:
        queue.launch(kernel, N // 256, 256, x, 1)
    executable = graph.instantiate()
    for _ in range(5):
        executable.launch(queue)
    bound = kernel.bind(queue, N // 256, 256, one.as_buffer(x), 2)
    step = queue.step()
    for turn in range(5):
        bound()
        with step:
            queue.launch(kernel, N // 256, 256, x, 1)
            queue.launch(kernel, N // 256, 256, x, turn // 2)
    queue.finish()
    assert set(x.get().tolist()) == {5 + 10 + 5 + 4} or not really


def test_memory_stays_until_the_other_device_is_done(linked):
    one, other = linked
    kernel, queue = one.program(SOURCE)["add"], one.queue(blocking=False)
    x = other.zeros(1 << 24, "u1").view("i4")
    other.finish()
    with observe(other) as calls:
        with queue.gate():
            queue.launch(kernel, 1, 256, x, 1)
            x.close()
            del x
            other.finish()
            assert calls.count("cuMemFreeAsync") == 0
        queue.finish()
        one.finish()
        other.finish()
        assert calls.count("cuMemFreeAsync") == 1


def test_a_device_closes_while_another_uses_its_memory(pair):
    one, other = pair
    if not one.can_access_peer(other):
        pytest.skip("no device reaches another's memory")
    kernel, queue = one.program(SOURCE)["add"], one.queue(blocking=False)
    with fb.Device(other.name, private=True) as closing:
        one.enable_peer_access(closing)
        x = closing.zeros(1 << 20, "i4")
        closing.finish()
        gate = queue.gate()
        queue.launch(kernel, 1, 256, x, 1)
    with gate, pytest.raises(fb.ClosedError):
        queue.launch(kernel, 1, 256, x, 1)
    queue.finish()


def test_later_work_of_the_other_device_comes_after_a_copy(linked):
    """By the null queue's rule, as in CUDA: what is written there next must not get into the copy. Access is enabled
    before the gate is closed: behind one the first copy would go through the host.
    """
    one, other = linked
    x, y, queue = other.zeros(N, "i4"), one.zeros(N, "i4"), one.queue(blocking=False)
    later, free = other.queue(), other.queue(blocking=False)
    other.finish()
    one.finish()
    with queue.gate():
        queue.copy(y, x)
        later.fill(x, 7)
        free.fill(other.empty(4, "i4"), 1)
        free.finish()
        assert not later.query()
    later.finish()
    queue.finish()


@pytest.mark.parametrize("nbytes", [4, 1 << 16, (1 << 20) + 4])
def test_copies_through_the_host(pair, nbytes, really):
    """As between devices without a link: each has access to the other's memory of the host."""
    source = np.arange(nbytes // 4, dtype="i4")
    with mock.patch.object(type(pair[0].driver), "can_reach", return_value=False):
        for first, second in (pair, pair[::-1]):
            x, queue = first.array(source), second.queue(blocking=False)
            y = second.empty(nbytes // 4, "i4")
            queue.copy(y, x)
            queue.finish()
            assert np.array_equal(y.get(), source) or not really


def test_two_threads_use_each_others_memory(linked, really):
    """Each launches on its own device, and both on both devices' memory, while one of the buffers comes and goes."""
    one, other = linked
    other.enable_peer_access(one)
    kernels = [each.program(SOURCE)["add"] for each in linked]
    kept = [each.zeros(N, "i4") for each in linked]
    one.finish()
    other.finish()

    def work(number):
        queue = linked[number].queue(blocking=False)
        for turn in range(200):
            theirs = linked[1 - number].empty(1024, "i4")
            queue.launch(kernels[number], N // 512, 256, kept[1 - number][: N // 2], 1)
            queue.launch(kernels[number], N // 512, 256, kept[number][N // 2 :], 1)
            queue.launch(kernels[number], 4, 256, theirs, turn)
            theirs.close()
        queue.finish()

    together(partial(work, 0), partial(work, 1))
    other.disable_peer_access(one)
    for each in kept:
        assert set(each.get().tolist()) == {200} or not really


@pytest.mark.parametrize("what", ["launch", "copy"])
def test_nothing_is_kept_of_each_turn(linked, what):
    one, other = linked
    kernel, queue, x, y = one.program(SOURCE)["add"], one.queue(), other.zeros(256, "i4"), one.zeros(256, "i4")
    other.finish()
    one.finish()

    def turn():
        if what == "copy":
            queue.copy(y, x)
        else:
            queue.launch(kernel, 1, 256, x, 1)

    assert growth(turn, queue.query) < MIB
