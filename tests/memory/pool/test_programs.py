"""Random programs, and threads, that share the pool."""

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import forebay as fb
from forebay.queues.memory.slabs import size_class

OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["alloc", "free", "free elsewhere", "drop", "gate", "open", "wait", "finish"]),
        st.integers(0, 3),
        st.integers(0, 7),
        st.sampled_from([100, 110, 1000, 5000]),
    ),
    max_size=40,
)


@pytest.mark.executes
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(operations=OPERATIONS, switches=st.tuples(*[st.booleans()] * 3), threshold=st.sampled_from([0, 1 << 30]))
def test_any_program_reads_what_it_wrote(device, pool, program, operations, switches, threshold):
    """Each buffer gets a value of its own when it is made, and is read before it is freed; nobody else may write it.

    Gates hold queues back, so that what is not ordered by the pool happens in the wrong order.
    """
    (
        pool.reuse_follow_event_dependencies,
        pool.reuse_allow_opportunistic,
        pool.reuse_allow_internal_dependencies,
    ) = switches
    pool.release_threshold = threshold
    queues = [device.null_queue, device.queue(), device.queue(blocking=False), device.queue(blocking=False)]
    live, gates, reads = [], {}, []  # live: (buffer, the queue that uses it)
    value = 0

    def read(buffer, queue):
        out = fb.host_empty(buffer.size, "i4", device=device)  # a copy to pageable memory waits on some drivers
        queue.copy(out, buffer)
        return out

    for operation, q, k, count in operations:
        queue = queues[q]
        if operation == "alloc":
            value += 1
            buffer = queue.alloc(count, "i4")
            queue.launch(program["fill"], count // 10, 10, buffer, value)
            live.append((buffer, queue, value))
            places = sorted((b.address, b.address + b.nbytes) for b, _, _ in live)
            assert all(end <= start for (_, end), (start, _) in itertools.pairwise(places))
        elif operation in ("free", "free elsewhere", "drop") and live:
            buffer, queue, expected = live.pop(k % len(live))
            reads.append((read(buffer, queue), expected))
            if operation == "free elsewhere":
                queues[q].wait(queue)
                queue = queues[q]
            if operation != "drop":
                queue.free(buffer)
            del buffer
        elif operation == "gate" and q not in gates:
            gates[q] = queue.gate()
        elif operation == "open" and gates:
            gates.pop(sorted(gates)[k % len(gates)]).open()
        elif operation == "wait":
            queue.wait(queues[k % 4])
        elif operation == "finish" and not gates:
            queue.finish()
        assert pool.used >= sum(size_class(b.nbytes) for b, _, _ in live)
        assert pool.reserved >= pool.used
    for gate in gates.values():
        gate.open()
    for buffer, queue, expected in live:
        reads.append((read(buffer, queue), expected))
        queue.free(buffer)
    del live
    device.finish()
    for out, expected in reads:
        assert set(out.tolist()) == {expected}
    assert pool.used == 0
    for queue in queues[1:]:
        queue.close()
