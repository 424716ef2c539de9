"""A device's pool as a new one is, and what is handed out of it."""

import gc

import pytest

N = 1000
LARGE = 1 << 20  # elements of memory that has a slab of its own, which is as large
KINDS = ("null", "blocking", "non-blocking", "per-thread")


@pytest.fixture
def pool(device):
    """The device's pool, as a new one is."""
    pool = device.pool
    gc.collect()
    device.finish()
    pool.trim()
    pool.reserved_high = pool.used_high = 0
    limit = pool.growth_limit
    yield pool
    pool.growth_limit = limit
    pool.release_threshold = 0
    pool.reuse_follow_event_dependencies = True
    pool.reuse_allow_opportunistic = True
    pool.reuse_allow_internal_dependencies = True


@pytest.fixture
def full_pool(pool):
    """It grows only where nothing was freed, and rather has a queue wait."""
    pool.growth_limit = 0
    return pool


@pytest.fixture
def places(device):
    """Skip where memory has no addresses, and therefore no parts."""
    if not device.driver.has_addresses:
        pytest.skip("memory of this device has no addresses")


@pytest.fixture
def fill(program):
    return program["fill"]


@pytest.fixture
def queues(device, make_queue):
    """Queues of each kind, by name."""
    return {
        "null": device.null_queue, "blocking": make_queue(), "non-blocking": make_queue(blocking=False),
        "non-blocking too": make_queue(blocking=False), "per-thread": device.per_thread_queue,
    }  # fmt: skip
