"""Memory and events that processes share: another process opens, uses, orders and closes them, or dies."""

import gc
import random
import re
from functools import partial

import numpy as np
import pytest

import forebay as fb
from tests.helpers import growth, processes
from tests.helpers.observer import observe
from tests.helpers.threads import beside, together

from .other_process import SOURCE, Other

N = 1 << 16
needs_ipc = pytest.mark.needs("memory that processes share")


@pytest.fixture
def queue(make_queue):
    return make_queue(blocking=False)


@pytest.fixture
def shared(device, queue):
    """A Buffer that other processes can open: 0, 1, 2, …"""
    made = device.empty(N, "u4", ipc_enabled=True)
    queue.copy(made, np.arange(N, dtype="u4"))
    queue.finish()
    yield made
    if not made.closed:
        device.close_ipc_memory(made)


@pytest.fixture
def events(device, told):
    """Two events of this process that the other one has opened."""
    made = device.ipc_event(), device.ipc_event()
    for each in made:
        told("open_event", each.ipc_handle)
    return made


@pytest.fixture
def holds(told, really):
    """``holds(where, expected)``: a Buffer, or a handle in the other process, has these numbers, if anything runs."""

    def holds(where, expected):
        if isinstance(where, bytes):
            told("copy", where)
            found = told("finish")
        else:
            found = where.get()
        return np.array_equal(found[: len(expected)], expected) or not really

    return holds


@needs_ipc
def test_each_process_sees_what_the_other_wrote(device, told, queue, shared, holds):
    handle = shared.ipc_handle
    assert (type(handle), len(handle)) == (bytes, 64)
    assert handle == shared.ipc_handle
    assert told("open", handle) == N * 4
    assert holds(handle, np.arange(N))
    told("add", handle, 5)
    told("finish")
    assert holds(shared, np.arange(N) + 5)
    queue.launch(device.program(SOURCE)["add"], N // 64, 64, shared, 7)
    queue.finish()
    assert holds(handle, np.arange(N) + 12)
    told("close", handle)


@needs_ipc
def test_memory_of_the_other_process_is_memory_like_any(device, told, queue, holds):
    handle = told("make", N)
    whole = device.open_ipc_memory(handle)
    assert (whole.shape, whole.dtype) == ((4 * N,), np.dtype("u1"))
    x = device.open_ipc_memory(handle, (2, N // 4), "u4")  # twice, and less than all of it
    kernel, graph = device.program(SOURCE)["add"], device.graph()
    queue.fill(x, 1)
    queue.launch(kernel, N // 128, 64, x, 1)
    graph.add_kernel(kernel, N // 128, 64, x, 3)
    executable = graph.instantiate()
    for _ in range(3):
        executable.launch(queue)
    kernel.bind(queue, N // 256, 64, x[1], 10)()
    queue.finish()
    assert holds(handle, np.repeat([11, 21], N // 4))
    device.close_ipc_memory(whole)
    queue.fill(x, 2)  # it is still open
    queue.finish()
    device.close_ipc_memory(x)
    device.close_ipc_memory(x)
    told("close", handle)


@needs_ipc
def test_inside_a_step(told, device, queue, shared, events, holds):
    """What a step has collected is submitted before the record, and what it collects next comes after the wait."""
    handle, (event, back) = shared.ipc_handle, events
    told("open", handle)
    program, step, model = device.program(SOURCE), queue.step(), np.arange(N, dtype="u4")
    for turn in range(8):
        with step:
            queue.launch(program["mix"], N // 64, 64, shared, turn)
            queue.launch(program["add"], N // 64, 64, shared, 1)
            queue.record(event)
            told("wait", event.ipc_handle)
            told("add", handle, 7, "mix")
            told("record", back.ipc_handle)
            queue.wait(back)
            queue.launch(program["mix"], N // 64, 64, shared, 2)
            queue.launch(program["add"], N // 64, 64, shared, turn)
        model = ((model * 3 + turn + 1) * 3 + 7) * 3 + 2 + turn
    queue.finish()
    assert holds(shared, model)
    told("close", handle)


@needs_ipc
@pytest.mark.parametrize("seed", range(12))
def test_random_programs_of_two_processes(device, told, hold, really, seed):
    """Each command comes after the one before on its memory, by an event where that was the other process's."""
    draw, here = random.Random(seed), Other(device.name)
    sides, models, last = [lambda what, *args: getattr(here, what)(*args), told], {}, {}
    events = [[side("make_event") for _ in range(3)] for side in sides]
    for number, side in enumerate(sides):
        for event in events[number]:
            sides[1 - number]("open_event", event)
        for _ in range(2):
            memory = side("make", N)
            sides[1 - number]("open", memory)
            side("clear", memory)
            side("finish")
            models[memory] = 0
    gate = None
    for _ in range(draw.randint(20, 120)):
        number, memory, k = draw.randrange(2), draw.choice(list(models)), draw.randrange(1000)
        if last.get(memory, (number,))[0] != number:
            sides[number]("wait", last[memory][1])
        sides[number]("add", memory, k, "mix")
        last[memory] = number, draw.choice(events[number])
        sides[number]("record", last[memory][1])
        models[memory] = (models[memory] * 3 + k) % (1 << 32)
        if gate is None and draw.random() < 0.05:
            gate = hold(here.queue)
        elif gate is not None and draw.random() < 0.1:
            gate = gate.open()
    if gate is not None:
        gate.open()
    for side in sides:
        side("finish")
    for memory, model in models.items():
        side = draw.choice(sides)
        side("copy", memory)
        found = side("finish")
        assert np.array_equal(found, np.full(N, model, "u4")) or not really
        own = memory in list(models)[:2]
        sides[own]("close", memory)
        sides[1 - own]("close", memory)
    here.device.close()


@needs_ipc
def test_a_record_after_the_wait_is_another_point(told, device, queue, hold):
    """Behind a gate that opens once the queue's next command, which was told to wait before, is done."""
    event = device.ipc_event()
    handle = event.ipc_handle
    told("open_event", handle)
    first, second = device.queue(blocking=False), device.queue(blocking=False)
    first_gate, second_gate = hold(first), hold(second)
    first.record(event)
    queue.wait(event)
    second.record(event)
    first_gate.open()
    queue.fill(device.empty(16, "u4"), 1)
    queue.finish()  # and not behind the second gate
    assert not event.query()
    second_gate.open()
    told("wait_on_host", handle)
    second.finish()
    assert event.query()


@needs_ipc
def test_a_wait_is_for_the_record_that_was_there(device, queue, make_queue, hold):
    """Not for what the queue had before, and the event and a queue that waits for it may go meanwhile."""
    event, held, other = device.ipc_event(), make_queue(blocking=False), device.queue(blocking=False)
    queue.fill(device.empty(16, "u4"), 1)
    before = queue.record()
    gate = hold(held)
    held.record(event)
    queue.wait(event)
    other.wait(event)
    other.close()
    del event, other
    gc.collect()
    queue.fill(device.empty(16, "u4"), 2)
    before.wait()
    assert not queue.query()
    gate.open()
    queue.finish()
    held.finish()


REFUSED = {
    "open_ipc_memory(bytes(64))": "opens no memory here",
    "open_ipc_memory(bytes(range(64)))": "opens no memory here",
    "open_ipc_memory(b'\\xff' * 64)": "opens no memory here",
    "open_ipc_memory(shared.ipc_handle)": "memory of this process, which only others can open",
    "open_ipc_memory(b'abc')": "64 bytes, not 3",
    "open_ipc_memory(theirs, 17, 'u4')": "is more than its 64 bytes",
    "open_ipc_event(bytes(64))": "opens no event here",
    "open_ipc_event(bytes(range(64)))": "opens no event here",
    "open_ipc_event(theirs)": "opens no event here",
    "open_ipc_event(event.ipc_handle)": "event of this process",
    "open_ipc_event('abc')": "is bytes, not str",
    "empty(16).ipc_handle": "ipc_enabled=True) makes such",
    "array(shared[16:].ipc_handle)": "is a part, from byte 64 on",
    "empty(16, usm_type='host', ipc_enabled=True)": "memory of the device, not of usm_type 'host'",
    "empty(16, ipc_enabled=2)": "ipc_enabled is a bool",
    "null_queue.record(event, timing=True)": "record with timing of an IpcEvent",
    "close_ipc_memory(shared.ipc_handle)": "close_ipc_memory() needs a Buffer, not bytes",
    "array(fb.IpcEvent())": "made by Device.ipc_event",
}
"""What is called of a Device, and words of the error."""
OF_ANOTHER_DEVICE = {
    "null_queue.record(event)": "record: this IpcEvent belongs to",
    "null_queue.wait(event)": "wait: this IpcEvent belongs to",
    "close_ipc_memory(shared)": "close_ipc_memory: this Buffer belongs to",
}


@needs_ipc
def test_what_is_refused(device, queue, shared, told):
    event = device.ipc_event()
    names = {"fb": fb, "shared": shared, "event": event, "theirs": told("make", 16)}
    with fb.Device(device.name, private=True) as other:
        for own, refusals in ((device, REFUSED), (other, OF_ANOTHER_DEVICE)):
            for written, words in refusals.items():
                with pytest.raises((fb.ArgumentTypeError, fb.InvalidArgumentError), match=re.escape(words)):
                    eval(f"device.{written}", {"device": own} | names)
    with pytest.raises(fb.CaptureIsolationError), queue.capture():
        queue.record(event)
    with pytest.raises(fb.CaptureIsolationError), queue.capture():
        queue.wait(event)
    with pytest.raises(fb.CaptureUnsupportedError), queue.capture():
        device.empty(16, ipc_enabled=True)
    queue.close()
    shared.close()
    for use in (lambda: queue.record(event), lambda: queue.wait(event), lambda: shared.ipc_handle):
        with pytest.raises(fb.ClosedError):
            use()


@needs_ipc
def test_the_interpreter_is_unlocked_where_the_driver_may_wait(device, told):
    """So that other threads go on; the observer looks at each call."""
    handle, event_handle = told("make", N), told("make_event")
    with observe(device) as calls:
        made, event = device.empty(N, "u4", ipc_enabled=True), device.ipc_event()
        _ = made.ipc_handle
        opened, other = device.open_ipc_memory(handle, dtype="u4"), device.open_ipc_event(event_handle)
        for each in (made, opened):
            device.close_ipc_memory(each)
        del made, opened, event, other
        device.finish()
        asked = {call.name.removesuffix("_v2") for call in calls.since(0)}
    assert asked > {
        *("cuIpcGetMemHandle", "cuIpcGetEventHandle", "cuIpcOpenMemHandle", "cuIpcOpenEventHandle"),
        *("cuIpcCloseMemHandle", "cuMemAlloc", "cuMemFree"),
    }


@needs_ipc
def test_closing_does_not_wait_for_a_gate_and_giving_back_does(device, told, queue, hold):
    handle = told("make", N)
    mine, opened = device.empty(N, "u4", ipc_enabled=True), device.open_ipc_memory(handle, dtype="u4")
    _ = mine.ipc_handle
    gate = hold(queue)
    queue.copy(mine, opened)
    other = device.empty(N, "u4", ipc_enabled=True)
    mine.close()
    opened.close()
    del mine, opened
    gc.collect()
    more = device.empty(N, "u4", ipc_enabled=True)  # which would give back what is closed
    with beside(lambda: device.close_ipc_memory(more)) as (thread,):
        thread.join(0.05)
        assert thread.is_alive()
        gate.open()
    queue.finish()
    device.close_ipc_memory(other)
    told("close", handle)


@needs_ipc
def test_a_process_that_dies(device, told, queue, shared, really):
    event = device.ipc_event()
    told("open", shared.ipc_handle)
    told("open_event", event.ipc_handle)
    told("add", shared.ipc_handle, 1)
    told("finish")
    told("record", event.ipc_handle)
    queue.wait(event)
    told.kill()
    queue.fill(shared, 3)
    queue.finish()
    assert np.array_equal(shared.get(), np.full(N, 3)) or not really
    event.wait()


@needs_ipc
def test_many_turns(device, told, queue):
    """Memory and events come and go on both sides; the GPU has room for 140 of these at once."""
    count = 1 << 28
    for turn in range(200):
        mine = device.empty(count, "u4", ipc_enabled=True)
        told("open", mine.ipc_handle)
        event = device.ipc_event()
        told("open_event", event.ipc_handle)
        told("record", event.ipc_handle)
        queue.wait(event)
        queue.fill(mine[:64], turn)
        queue.finish()
        told("close", mine.ipc_handle)
        mine.close()


@needs_ipc
def test_a_program_that_never_finishes_keeps_nothing(device, queue):
    event, x, other = device.ipc_event(), device.empty(16, "u4"), device.queue(blocking=False)

    def turn():
        queue.fill(x, 1)
        queue.record(event)
        other.wait(event)
        other.record(event)
        queue.wait(event)

    assert growth.growth(turn, event.query) < growth.MIB


@needs_ipc
def test_two_threads_open_record_and_close(device, told):
    handles, event = [told("make", N) for _ in range(4)], device.ipc_event()

    def work(seed):
        with device.queue(blocking=False) as own:
            for turn in range(25):
                x = device.open_ipc_memory(handles[(seed + turn) % 4], dtype="u4")
                own.wait(event)
                own.fill(x, seed)
                own.record(event)
                if turn % 2:
                    own.finish()
                x.close()

    together(partial(work, 0), partial(work, 1))
    event.wait()
    for handle in handles:
        told("close", handle)


@needs_ipc
def test_the_checker_of_races_knows_them(device):
    with fb.Device(device.name, check="races,error") as checked:
        first, second = checked.queue(blocking=False), checked.queue(blocking=False)
        x, event = checked.empty(16, "u4", ipc_enabled=True), checked.ipc_event()
        for turn in range(3):
            first.fill(x, turn)
            first.record(event)
            second.wait(event)
            second.fill(x, turn)
            second.record(event)
            event.wait()
        first.fill(x, 1)
        with pytest.raises(fb.RaceError):
            second.fill(x, 2)
        checked.finish()


@needs_ipc
def test_the_page_says_how(device, tmp_path, really):
    page = (processes.ROOT / "docs" / "several-processes.md").read_text(encoding="utf-8")
    program = tmp_path / "program.py"
    program.write_text(page.split("```py\n")[1].split("```")[0], encoding="utf-8")
    if really:
        assert processes.output_of(program, FOREBAY_DEVICE=device.name) == "[6. 6.]\n"


@pytest.mark.needs("no memory that processes share")
@pytest.mark.parametrize("use", [
    lambda device: device.empty(16, ipc_enabled=True),
    lambda device: device.empty(16).ipc_handle,
    lambda device: device.open_ipc_memory(bytes(64)),
    lambda device: device.ipc_event(),
    lambda device: device.open_ipc_event(bytes(64)),
])  # fmt: skip
def test_where_processes_share_nothing_that_is_said(device, use):
    with pytest.raises(fb.NotSupportedError, match="shares no memory and events between processes: CUDA does"):
        use(device)
