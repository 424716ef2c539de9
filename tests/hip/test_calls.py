"""How compiled functions of HIP read their arguments, and what stands for an error there."""

import ctypes
import inspect
import threading

import pytest

import forebay as fb
from forebay import hip
from tests.helpers.threads import in_thread, together
from tests.tracing.reading import Trace

from .conftest import ok
from .helpers import E, K, code, ints, launch, read

COMPILED = [
    "hipEventRecord", "hipFreeAsync", "hipMallocAsync", "hipMemcpy", "hipMemcpyAsync", "hipMemset", "hipMemsetAsync",
    "hipModuleLaunchKernel", "hipStreamSynchronize", "hipStreamWaitEvent",
]  # fmt: skip


def joined(text):
    """The same text, but another object: the name of a keyword that no compiler has seen."""
    return "".join(list(text))


@pytest.mark.parametrize("name", COMPILED)
def test_it_shows_its_parameters(name):
    function = getattr(hip, name)
    assert inspect.isbuiltin(function)
    expected = inspect.signature(function.__self__.definition).parameters.values()
    shown = inspect.signature(function).parameters.values()
    assert [(each.name, each.default) for each in shown] == [(each.name, each.default) for each in expected]
    assert function.__module__.startswith("forebay.hip.")
    assert inspect.cleandoc(function.__self__.definition.__doc__) == inspect.getdoc(function)


@pytest.mark.parametrize("name", COMPILED)
def test_arguments_that_it_does_not_have(name):
    function, names = getattr(hip, name), list(inspect.signature(getattr(hip, name)).parameters)
    for arguments, keywords in (
        ((), {}), ([None] * (len(names) + 1), {}), ([None] * len(names), {names[0]: None}), ([None], {"nothing": None}),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=name):
            function(*arguments, **keywords)


@pytest.mark.parametrize("order", ["as it is", "backwards", "names of one's own"])
def test_arguments_by_name(device, function, events, really, order):
    stream = ok(hip.hipStreamCreate())

    def call(name, **given):
        if order != "as it is":
            given = dict(reversed(given.items()))
        if order == "names of one's own":
            given = {joined(each): value for each, value in given.items()}
        return ok(getattr(hip, name)(**given))

    memory = call("hipMallocAsync", size=40, stream=stream)
    call("hipMemsetAsync", dst=memory, value=0x101, sizeBytes=40, stream=stream)
    call(
        "hipModuleLaunchKernel", f=function("add"), gridDimX=1, gridDimY=1, gridDimZ=1, blockDimX=10, blockDimY=1,
        blockDimZ=1, sharedMemBytes=0, stream=stream, extra=(memory, ctypes.c_int(1)),
    )  # fmt: skip
    call("hipEventRecord", event=events[0], stream=stream)
    call("hipStreamWaitEvent", stream=None, event=events[0], flags=0)
    copy = call("hipMallocAsync", size=40)
    call("hipMemcpyAsync", dst=copy, src=memory, sizeBytes=40, kind=K.hipMemcpyDefault, stream=None)
    call("hipStreamSynchronize", stream=None)
    assert read(copy, 10) == [0x01010102] * 10 or not really
    call("hipMemset", dst=copy, value=1, sizeBytes=40)
    call("hipMemcpy", dst=memory, src=copy, sizeBytes=40, kind=K.hipMemcpyDeviceToDevice)
    assert read(memory, 10) == [0x01010101] * 10 or not really
    call("hipFreeAsync", dev_ptr=memory, stream=stream)
    call("hipFreeAsync", dev_ptr=copy)


@pytest.mark.threads
def test_every_compiled_success_is_the_last_result(device, function, events):
    """After a failure, too, and in the thread of the call alone."""
    memory, other = ints(10), ints(10)
    calls = [
        lambda: hip.hipModuleLaunchKernel(function("add"), 1, 1, 1, 10, 1, 1, 0, None, None, (memory, ctypes.c_int(1))),
        lambda: hip.hipMemcpyAsync(memory, other, 40, K.hipMemcpyDefault),
        lambda: hip.hipMemcpy(memory, other, 40, K.hipMemcpyDefault),
        lambda: hip.hipMemsetAsync(memory, 0, 40),
        lambda: hip.hipMallocAsync(40),
        lambda: hip.hipFreeAsync(hip.hipMallocAsync(40)[1]),
        lambda: hip.hipEventRecord(events[0]),
        lambda: hip.hipStreamWaitEvent(None, events[0]),
        lambda: hip.hipStreamSynchronize(None),
    ]

    def elsewhere(call):
        ok(hip.hipSetDevice(hip.devices.number_of(device)))
        return call()

    for call in calls:
        code(hip.hipMalloc(-1))
        assert in_thread(elsewhere, call)[0] == E.hipSuccess
        assert hip.hipExtGetLastError() == (E.hipErrorInvalidValue,)
        assert call()[0] == E.hipSuccess
        assert hip.hipExtGetLastError() == (E.hipSuccess,)


def test_a_trace_sees_copies_and_waits(device, tmp_path):
    memory, other = ints(10), ints(10)
    with fb.trace(tmp_path / "trace.json"):
        ok(hip.hipMemcpyAsync(memory, other, 40, K.hipMemcpyDefault))
        ok(hip.hipStreamSynchronize(None))
    calls = [each["name"] for each in Trace(tmp_path / "trace.json").host if each["cat"] == "call"]
    assert calls == ["Queue.copy", "Queue.finish"]


# The thread's own stream


def own_queue():
    """The queue that a memset on hipStreamPerThread goes to. Only the memset looks for it, before it is known here."""
    memory = ints(10)
    ok(hip.hipMemsetAsync(memory, 1, 40, hip.hipStreamPerThread))
    queue = hip.streams.queue_of(hip.hipStreamPerThread)
    before = queue.epoch
    ok(hip.hipMemsetAsync(memory, 1, 40, hip.hipStreamPerThread))
    assert queue.epoch > before
    return queue


@pytest.mark.threads
def test_threads_that_come_and_go(device, function):
    """Each gets the stream of one that has ended, and none that another has."""
    memory = ints(10)
    number = hip.devices.number_of(device)
    used = []

    def work():
        ok(hip.hipSetDevice(number))
        queue = hip.streams.queue_of(hip.hipStreamPerThread)
        used.append(queue)
        for _ in range(5):
            before = queue.epoch
            launch(function("add"), hip.hipStreamPerThread, memory, 1, groups=1)
            assert queue.epoch == before + 1  # nobody else's launches
        return True

    for _ in range(50):
        assert together(work, work) == [True, True]
    assert len(set(used)) < 10
    ok(hip.hipStreamSynchronize(None))


@pytest.mark.threads
def test_a_thread_launches_while_it_ends(fresh, device, function):
    """What is left of it has given its stream back, the only one there is, and another thread has it by then."""
    memory, number = ints(10), hip.devices.number_of(device)
    found = []

    def take():
        ok(hip.hipSetDevice(number))
        queue = own_queue()
        taken.wait()
        done.wait()
        found.append(queue)

    class Last:
        def __del__(self):
            other = threading.Thread(target=take)
            other.start()
            taken.wait()
            before = first[0].epoch
            ok(hip.hipSetDevice(number))  # which may be gone, too
            launch(function("add"), hip.hipStreamPerThread, memory, 1, groups=1)
            found.append(first[0].epoch - before)
            done.set()
            other.join()

    def work():
        ok(hip.hipSetDevice(number))
        first.append(own_queue())
        local.last = Last()  # goes after the stream, which the thread had before

    local, first, taken, done = threading.local(), [], threading.Barrier(2), threading.Event()
    in_thread(work)
    assert found[0] == (found[1].id != first[0].id)  # CPython decides what of a thread goes first


@pytest.mark.threads
def test_a_reset_while_threads_use_their_own_streams(fresh, device):
    """Each call succeeds or has a code of a context that is gone, and the stream is a new one then."""
    gone = {E.hipErrorContextIsDestroyed, E.hipErrorInvalidValue, E.hipErrorInvalidHandle}
    number = hip.devices.number_of(device)
    stop = threading.Event()

    def work():
        ok(hip.hipSetDevice(number))
        codes = set()
        while not stop.is_set():
            error, memory = hip.hipMallocAsync(64, hip.hipStreamPerThread)
            codes.add(error)
            if error == E.hipSuccess:
                codes.add(hip.hipMemsetAsync(memory, 1, 64, hip.hipStreamPerThread)[0])
                codes.add(hip.hipFreeAsync(memory, hip.hipStreamPerThread)[0])
            codes.add(hip.hipStreamSynchronize(hip.hipStreamPerThread)[0])
        return codes

    def reset():
        try:
            for _ in range(5):
                ok(hip.hipDeviceReset())
                ok(hip.hipMemset(ints(10), 1, 40))
        finally:
            stop.set()
        return set()

    for codes in together(work, work, reset):
        assert codes <= gone | {E.hipSuccess}


def test_the_stream_after_a_reset(fresh, device):
    first = own_queue()
    ok(hip.hipDeviceReset())
    assert first.closed
    second = own_queue()
    assert second is not first
    second.close()  # by somebody who has it
    assert own_queue() not in (first, second)


@pytest.mark.needs("two devices")
def test_each_device_has_its_own_stream_of_a_thread(device):
    functions, queues = [], []
    for number in range(2):
        ok(hip.hipSetDevice(number))
        module = ok(hip.hipModuleLoadData("kernel void nothing(int unused) { }"))
        functions.append(ok(hip.hipModuleGetFunction(module, b"nothing")))
        queues.append(own_queue())
    for number in (0, 1, 1, 0):
        ok(hip.hipSetDevice(number))
        epochs = [queue.epoch for queue in queues]
        launch(functions[number], hip.hipStreamPerThread, 1, groups=1)  # nothing else looks for the queue before
        epochs[number] += 1
        assert [queue.epoch for queue in queues] == epochs
