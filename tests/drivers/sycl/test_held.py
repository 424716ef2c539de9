"""Failures of commands that forebay keeps back for a held queue."""

import contextlib
from functools import partial

import numpy as np
import pytest

import forebay as fb
from tests.helpers.observer import observe
from tests.helpers.refusals import refused
from tests.helpers.threads import together

COUNT = 64
SOURCE = """
struct pair { int a; float b; };
kernel void add(global int *a, struct pair p) { a[get_global_id(0)] = a[get_global_id(0)] * 10 + p.a; }
"""
SLOW = """
kernel void slow(global int *a)
{
    int v = 0;
    for (int k = 0; k < 300; k++)
        v = v * 3 + k + a[get_global_id(0)];
    a[get_global_id(0)] = v | 1;
}
"""
PAIR = np.dtype([("a", "i4"), ("b", "f4")])


FAILED = (fb.Error, RuntimeError, "behind a gate that failed")


def fill_behind_a_failed_gate(queue, buffer):
    with queue.gate() as gate:
        queue.fill(buffer, 3)
        gate.open(failed=True)


def polled(queue):
    """A marker of all that the queue has, which polls have found done."""
    marker = queue.record()
    while not marker.query():
        pass
    return marker


@pytest.fixture
def fresh():
    """A device of its own, and a buffer."""
    with fb.Device("sycl:cpu", private=True) as device:
        buffer = device.zeros(COUNT, "i4")
        device.finish()
        yield device, buffer


@pytest.fixture
def add(device):
    return device.program(SOURCE)["add"]


@pytest.mark.parametrize("call", ["DPCTLKernel_Copy", "DPCTLRawKernelArg_Create"])
def test_a_launch_that_cannot_be_kept_is_none(device, add, call):
    """It is refused at once. Earlier and later commands are not affected."""
    own = device.queue(blocking=False)
    buffer = device.zeros(COUNT, "i4")
    bound = [add.bind(own, 1, COUNT, buffer, np.array((k, 0), PAIR)) for k in (1, 2, 3)]
    device.finish()
    with observe(device) as calls:
        gate = own.gate()
        bound[0]()
        before = own.epoch
        calls.fail(call, -1)
        with refused(fb.OutOfMemoryError, MemoryError, "hold", "gate"):
            bound[1]()
        assert own.epoch == before
        bound[2]()
        gate.open()
        assert buffer.get(queue=own).tolist() == [13] * COUNT


@pytest.mark.parametrize("what", ["launch", "copy"])
def test_a_queue_behind_a_gate_that_fails_says_so_once(device, add, what):
    own, other = device.queue(blocking=False), device.queue(blocking=False)
    buffer, spare = device.zeros(COUNT, "i4"), device.zeros(COUNT, "i4")
    device.finish()
    gate = own.gate()
    if what == "copy":
        own.copy(buffer, spare)
    else:
        own.launch(add, 1, COUNT, buffer, np.array((1, 0), PAIR))
    other.wait(own.record())
    other.fill(spare, 5)
    gate.open(failed=True)
    for queue in (own, other):
        with refused(*FAILED):
            queue.finish()
    device.finish()
    own.fill(buffer, 7)
    other.fill(spare, 8)
    assert buffer.get(queue=own).tolist() == [7] * COUNT
    assert spare.get(queue=other).tolist() == [8] * COUNT


@pytest.mark.parametrize("when", ["behind the gate", "later"])
@pytest.mark.parametrize("how", ["event", "finish", "device", "timeout", "query"])
def test_who_waits_for_a_failure_has_waited_for_the_rest_and_hears_of_it_once(device, when, how):
    """A wait that told it at once left work behind that ran before the gate, in memory that may then be freed."""
    own, other = device.queue(blocking=False), device.queue(blocking=False)
    buffers = [device.zeros(1 << 22, "i4", usm_type="shared") for _ in range(2)]
    slow, spare = device.program(SLOW)["slow"], device.zeros(COUNT, "i4")
    device.finish()
    with own.gate() as gate:
        own.fill(spare, 3)
        if when == "behind the gate":
            event = own.record()
        gate.open(failed=True)
    for queue, buffer in zip((own, other), buffers, strict=True):
        queue.launch(slow, buffer.size // 64, 64, buffer)
    if when == "later":
        event = own.record()

    def ask():
        while not event.query():
            pass

    hears = how != "query" or when == "behind the gate"  # what failed itself says so each time; the rest is for waits
    wait = {
        "event": event.wait, "finish": own.finish, "device": device.finish, "query": ask,
        "timeout": lambda: own.finish(timeout=60),
    }[how]  # fmt: skip
    words = [] if how == "query" else ["behind a gate that failed"]
    with refused(fb.Error, RuntimeError, *words) if hears else contextlib.nullcontext():
        wait()
    if how not in ("event", "query") or when == "later":
        assert buffers[0].host[-1] & 1
    if how == "query":
        with refused(*FAILED):
            own.finish()
    wait()
    assert event.query()
    device.finish()
    assert own.empty


@pytest.mark.parametrize("fails", [False, True])
def test_memory_goes_back_though_nobody_waits_for_a_failure(device, fails):
    """A program that only asks, after a gate that failed."""
    own = device.queue(blocking=False)
    device.finish()
    with observe(device) as calls:
        with own.gate() as gate:
            own.fill(device.empty(COUNT, "i4"), 3)
            gate.open(failed=fails)
        for i in range(300):
            with device.empty(COUNT, "i4") as buffer:
                own.fill(buffer, i)
            own.record().query()
        polled(own)  # the queue may be behind by all of them
        made = sum(calls.count(name) for name in ("DPCTLmalloc_device", "DPCTLmalloc_shared"))
        assert made - calls.count("DPCTLfree_with_context") < 5
    with refused(*FAILED) if fails else contextlib.nullcontext():
        own.finish()


@pytest.mark.parametrize("how", ["query", "finish", "timeout", "device", "close"])
def test_a_failure_is_told_though_all_is_known_to_be_done(fresh, how):
    device, buffer = fresh
    own, other = device.queue(), device.queue(blocking=False)
    fill_behind_a_failed_gate(own, buffer)
    polled(own)
    assert own.empty
    assert other.query()
    other.finish()
    tells = {
        "query": own.query, "finish": own.finish, "timeout": lambda: own.finish(timeout=60),
        "device": device.finish, "close": device.close,
    }[how]  # fmt: skip
    with refused(*FAILED):
        tells()
    if how != "close":
        assert own.query()
        own.finish(timeout=60)
        device.finish()


@pytest.mark.parametrize("how", ["query", "finish", "timeout"])
def test_the_null_queue_tells_failures_of_blocking_queues(fresh, how):
    device, buffer = fresh
    null, queues = device.null_queue, [device.queue(blocking=blocking) for blocking in (False, True)]
    for queue in queues:
        fill_behind_a_failed_gate(queue, buffer)
        polled(queue)
    tells = {"query": null.query, "finish": null.finish, "timeout": lambda: null.finish(timeout=60)}[how]
    with refused(*FAILED):
        tells()
    tells()
    with refused(*FAILED):
        queues[0].finish()
    device.finish()


def test_the_next_owner_of_a_queue_is_told_no_failure_of_before(fresh):
    """And a marker of before takes none of the next owner's."""
    device, buffer = fresh
    own = device.queue(blocking=False)
    fill_behind_a_failed_gate(own, buffer)
    marker, native = polled(own), id(own.native)
    assert own.empty
    del own
    following = [device.queue(blocking=False) for _ in range(3)]
    (own,) = [queue for queue in following if id(queue.native) == native]
    own.finish()
    assert own.query()
    own.fill(buffer, 7)
    assert buffer.get(queue=own).tolist() == [7] * COUNT
    fill_behind_a_failed_gate(own, buffer)
    marker.wait()
    with refused(*FAILED):
        own.finish()
    device.finish()


@pytest.mark.threads
def test_of_threads_that_ask_at_once_one_is_told(device):
    own, buffer, told = device.queue(blocking=False), device.zeros(COUNT, "i4"), []
    device.finish()

    def ask(asks):
        try:
            asks()
        except fb.Error as error:
            told.append(str(error))

    asking = [partial(ask, each) for each in (own.finish, own.finish, lambda: own.finish(timeout=60), device.finish)]
    for _ in range(50):
        fill_behind_a_failed_gate(own, buffer)
        together(*asking)
    assert len(told) == 50
