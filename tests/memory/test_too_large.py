"""Sizes that no device has: the same error for each, whatever the device is busy with."""

import collections
import random
import threading

import pytest

import forebay as fb
from tests.helpers.examples import MANY, many
from tests.helpers.observer import EXECUTES

SOURCE = "kernel void use(ulong n, global uchar *stack) { if (n == 0) stack[0] = 1; }"
SIZES = [2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**70]


def with_scratch(device, queue, kernel, nbytes):
    queue.launch(kernel, 1, 1, nbytes // 2**32)


def in_a_graph_with_scratch(device, queue, kernel, nbytes):
    with queue.capture() as graph:
        with_scratch(device, queue, kernel, nbytes)
    graph.launch(queue)


def in_a_capture(device, queue, kernel, nbytes):
    with queue.capture():
        queue.alloc(nbytes, "u1")


ALLOCATIONS = {
    "empty": lambda device, queue, kernel, nbytes: device.empty(nbytes, "u1"),
    "empty of rows": lambda device, queue, kernel, nbytes: device.empty((nbytes, 3), "f8"),
    "zeros": lambda device, queue, kernel, nbytes: device.zeros(nbytes, "u1"),
    "alloc": lambda device, queue, kernel, nbytes: queue.alloc(nbytes, "u1"),
    "host_empty": lambda device, queue, kernel, nbytes: fb.host_empty(nbytes, "u1", device),
    "add_alloc": lambda device, queue, kernel, nbytes: device.graph().add_alloc(nbytes, "u1"),
    "alloc in a capture": in_a_capture,
    "scratch": with_scratch,
    "scratch of a graph": in_a_graph_with_scratch,
}


@pytest.fixture(params=[False, True], ids=["", "debug"])
def own(device, request):
    with fb.Device(device.name, private=True, debug=request.param) as own:
        yield own


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("allocate", ALLOCATIONS.values(), ids=ALLOCATIONS)
def test_memory_runs_out(own, allocate, gated):
    kernel = own.program(SOURCE)["use"]  # before the gate is closed: CUDA loads no code while one is
    kernel.scratch("stack", fb.Argument("n") * 2**32)
    queue, gate = own.queue(blocking=False), own.queue(blocking=False).gate()
    if not gated:
        gate.open()
    with gate:
        own.empty(1000).close()  # where nothing may be released now, it is to be handed out again
        own.empty(10)
        for nbytes in SIZES:
            with pytest.raises(fb.OutOfMemoryError, match=r"\d{19} "):
                allocate(own, queue, kernel, nbytes)
    own.finish()


OPERATIONS = {"launch": 4, "wait": 6, "free": 6, "record": 1, "gate": 2, "host function": 1}


@pytest.mark.parametrize("programs", MANY)
def test_it_runs_out_without_a_wait_for_a_gate(own, programs):
    """Queues wait for each other, and some are held, each with commands before and behind what holds it."""
    kernel = own.program(SOURCE)["use"]
    # Where nothing is executed, what is held up never ends: each waits for it as long as it may.
    for seed in range(many(programs) if EXECUTES else 60):
        draw, gates, late, users = random.Random(seed), [], [], collections.defaultdict(dict)

        def open_all(gates=gates):
            for gate in gates:
                gate.open()

        def give_up(late=late, open_all=open_all):
            late.append(True)
            open_all()

        queues = [own.null_queue, *(own.queue(draw.random() < 0.5) for _ in range(2))]
        buffers = [queue.alloc(64, "u1") for queue in queues for _ in range(2)]
        draw.shuffle(buffers)
        own.finish()  # so that every queue may use them
        for operation in draw.choices(list(OPERATIONS), OPERATIONS.values(), k=draw.randint(4, 16)):
            queue, other = draw.choice(queues), draw.choice(queues)
            if operation == "launch" and buffers:
                buffer = draw.choice(buffers)
                queue.launch(kernel, 1, 1, 1, buffer)
                users[buffer.address][queue] = True
            elif operation == "wait":
                queue.wait(other)
            elif operation == "free" and buffers:
                buffer = buffers.pop()
                if draw.random() < 0.5:
                    buffer.close()
                else:
                    for user in users[buffer.address]:  # a free comes after the uses on its own queue only
                        queue.wait(user)
                    queue.free(buffer)
            elif operation == "record":
                other.wait(queue.record())
            elif operation == "gate":
                gates.append(queue.gate())
            elif operation == "host function" and EXECUTES:  # where nothing is executed, its gate never opens
                queue.host(lambda: None)
        watchdog = threading.Timer(20, give_up)
        watchdog.start()
        try:
            with pytest.raises(fb.OutOfMemoryError):
                own.empty(2**62, "u1")
            assert not late, f"seed {seed} waited for a gate"
        finally:
            watchdog.cancel()
            watchdog.join()
            open_all()
        own.finish()
        for queue in queues[1:]:
            queue.close()
