"""Commands that the driver refuses: the checker of races forgets what they said, of memory and of order."""

import contextlib
import logging
import re

import pytest

import forebay as fb
from forebay.queues.selection import select
from tests.conftest import DEVICES
from tests.helpers.observer import observe
from tests.helpers.processes import python

SIZE = 64
GRID = SIZE // 16, 16


class Commands:
    """Kernel and memory of the tests."""

    def __init__(self, device, kernels):
        self.kernel = kernels["scale"]
        self.kernel.writes("y")  # what stands in for CUDA's compiler shows no code that does
        self.x, self.other = device.zeros(SIZE), device.zeros((SIZE, 2))
        device.null_queue.copy(self.x, self.other[:, 0])  # compiles what copies strided memory
        device.finish()

    def launch(self, queue):
        queue.launch(self.kernel, *GRID, self.x, 2.0)


@contextlib.contextmanager
def refusing(device):
    """The driver refuses everything in the block, in which something must be refused."""
    with observe(device) as calls:
        calls.driver.fail_at_random(1, 1)
        try:
            with pytest.raises(fb.Error):
                yield
        finally:
            calls.forgive()


@pytest.fixture
def commands(device, kernels):
    return Commands(device, kernels)


@pytest.fixture
def queues(device):
    return [device.queue(blocking=False) for _ in range(2)]


@pytest.mark.threads
@pytest.mark.needs("no validation layer")
@pytest.mark.skipif(select().backend in ("cuda", "nothing"), reason="another process has no mock driver")
@pytest.mark.parametrize("options", [["--failures"], ["--failures", "--check"], ["--check"]], ids=" ".join)
def test_random_programs_are_silent_also_if_calls_are_refused(options):
    """What no refused command wrote to is as the model says, and a race that is planted afterwards is found."""
    done = python("-m", "tools.campaign", "--programs", 50, *options, FOREBAY_DEVICE=DEVICES[0])
    assert done.returncode == 0, done.stdout + done.stderr
    failed = re.search(r"calls that failed +([\d,]+); operations with an error ([\d,]+)", done.stdout)
    assert failed is None if options == ["--check"] else int(failed[2].replace(",", "")) > 20


def test_others_have_come_after_a_command_of_the_null_queue_that_is_refused(device, commands, queues, found, caplog):
    """A blocking queue that submits in between still comes after the null queue's next command."""
    null, blocking, y = device.null_queue, device.queue(), device.zeros(SIZE)
    device.finish()

    class Meanwhile(logging.Handler):
        """As another thread could, between the announcement and the driver's call."""

        def emit(self, record):
            commands.launch(blocking)
            y.close()

    meanwhile = Meanwhile()
    logging.getLogger("forebay.races").addHandler(meanwhile)
    try:
        queues[0].launch(commands.kernel, *GRID, y, 2.0)
        with pytest.raises(fb.ClosedError):
            null.launch(commands.kernel, *GRID, y, 2.0)
    finally:
        logging.getLogger("forebay.races").removeHandler(meanwhile)
    assert len(found()) == 1
    null.launch(commands.kernel, *GRID, commands.other, 2.0)
    blocking.launch(commands.kernel, *GRID, commands.other, 2.0)
    assert not found()
    device.finish()


def test_a_copy_by_a_destructor_is_another_launch(device, commands, queues, found):
    """What a strided copy says of itself is taken by its own launch, and not by one that other code makes meanwhile."""
    q1, q2 = queues
    y = device.zeros((SIZE, 2))
    device.finish()
    with refusing(device):
        q1.copy(commands.x, commands.other[:, 0])
    q1.copy(y[:, 1], commands.other[:, 1])
    commands.launch(q1)
    commands.launch(q2)
    assert len(found()) == 1
    device.finish()
