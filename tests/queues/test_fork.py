"""A process that is forked when drivers have started. The child leaves everything to the parent, and ends at once."""

import os

import pytest

from tests.helpers.processes import quiet_output_of

pytestmark = [
    pytest.mark.needs("no validation layer"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
]

START = """
import gc, multiprocessing, os, sys, threading
import forebay as fb
device = fb.Device()
program = device.program('''
kernel void add(global int *a, int v) { a[get_global_id(0)] += v; }
kernel void spin(global int *a, int n) {
    for (int j = 0; j < n; j++)
        for (int i = 0; i < 1 << 30; i++) a[1] += a[0] ^ i;
}
kernel void one(global int *a) { a[0] = 1; }
''')
add, spin = program["add"], program["spin"]
queue, other, null = device.queue(), device.queue(blocking=False), device.null_queue
buffer, busy = device.zeros(1000, "i4"), device.zeros(2, "i4")
go = add.bind(queue, 10, 100, buffer, 1)
add[10, 100, queue](buffer, 1)
event, timed = queue.record(), device.event(timing=True)
device.finish()
really = buffer.get()[0] == 1

def refused(*calls):
    for number, call in enumerate(calls):
        try:
            call()
        except fb.Error as error:
            assert "after a fork" in str(error), error
            assert "spawn" in str(error), error
        else:
            raise AssertionError(f"number {number} was not refused")

def in_child(call):
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        call()
        sys.exit(7)  # with all that the interpreter does when it ends
    _, status = os.waitpid(pid, 0)
    print("child", os.waitstatus_to_exitcode(status), flush=True)

def works():
    before = int(buffer.get(queue=queue)[0])
    add[10, 100, queue](buffer, 1)
    go()
    assert buffer.get(queue=queue).tolist() == [before + 2] * 1000 or not really
    device.finish()
    print("works")
"""


def plays(device, code):
    """Run the code, which forks once. Neither process may hang, crash or complain."""
    # A driver can take a minute to open a device beside fourteen other processes.
    assert quiet_output_of(START + code, FOREBAY_DEVICE=device.name, timeout=250) == "child 7\nworks\n"


# What the parent has done by then, the fork, and how it goes on so that it can finish, by name.
PROGRAMS = """\
== idle
in_child(lambda: None)
works()
== host function used
queue.host(lambda: None)
device.finish()
in_child(lambda: None)
works()
== host function running
queue.host(lambda: None)
device.finish()
running, end = threading.Event(), threading.Event()
queue.host(lambda: (running.set(), end.wait()))
running.wait()
in_child(lambda: None)
end.set()
works()
== host function that raised
queue.host(lambda: 1 / 0)
while not queue.query():
    pass
in_child(lambda: None)
try:
    device.finish()
except ZeroDivisionError:
    works()
== long kernel
other.launch(spin, 1, 1, busy, 15 if device.info.kind == "cpu" else 3)
other.record()
in_child(lambda: None)
works()
== gate
gate = queue.gate()
add[10, 100, queue](buffer, 1)
null.launch(add, 10, 100, buffer, 1)
in_child(lambda: None)
gate.open()
works()
== memory closed in flight
gate = queue.gate()
queue.fill(busy, 1)
busy.close()
other.close()
in_child(lambda: None)
gate.open()
works()
== copies of pinned memory in flight
there, back = (fb.host_empty(1000, "i4", device=device) for _ in range(2))
there[:] = 3
gate = queue.gate()
queue.copy(buffer, there)
queue.copy(back, buffer)
del there
in_child(lambda: None)
gate.open()
queue.finish()
assert back.tolist() == [3] * 1000 or not really
works()
== pinned memory that the child drops
pinned = [fb.host_empty(1000, "i4", device=device)]
gate = queue.gate()
queue.copy(pinned[0], buffer)
in_child(lambda: (pinned.clear(), gc.collect()))
gate.open()
queue.finish()
assert pinned[0].tolist() == [1] * 1000 or not really
works()
== everything that the child drops
gate = queue.gate()
add[10, 100, queue](buffer, 1)
def child():
    for name in "gate event timed go busy buffer queue other null spin add program device".split():
        del globals()[name]
        gc.collect()
in_child(child)
gate.open()
works()
== uses of what is the parent's
gate = queue.gate()
add[10, 100, queue](buffer, 1)
add[10, 100, null](buffer, 1)
with queue.capture(mode="relaxed") as graph:
    add[10, 100, queue](buffer, 0)
executable = graph.instantiate()
late, result = other.record(), queue.launch(program["one"], 1, 1, result="i4")
def child():
    refused(
        fb.Device, fb.devices, device.finish, device.queue, device.event, device.graph, lambda: device.null_queue,
        lambda: device.empty(5), lambda: device.program("kernel void k() { }"), lambda: device.current_queue,
        lambda: fb.host_empty(5, device=device), lambda: device.as_buffer(buffer), lambda: device.zeros(3),
        queue.finish, queue.query, queue.record, queue.gate, lambda: queue.record(event), null.query, other.finish,
        lambda: queue.finish(timeout=5), lambda: queue.host(print), lambda: queue.wait(event),
        lambda: queue.wait(other), lambda: other.wait(queue), lambda: queue.launch(add, 10, 100, buffer, 1),
        lambda: add[10, 100, other](buffer, 1), lambda: null.launch(add, 10, 100, buffer, 1), go,
        lambda: queue.launch(spin, 1, 1, buffer, 1), lambda: add.bind(queue, 1, 1, buffer, 1),
        lambda: queue.copy(buffer, bytes(4000)), lambda: queue.fill(buffer, 1), lambda: queue.alloc(5),
        lambda: buffer.get(queue=queue), lambda: buffer.set([1] * 1000, queue=queue), lambda: graph.launch(queue),
        lambda: executable.launch(other), queue.begin_capture, event.wait, event.query, late.wait,
        lambda: event.elapsed(event), result.get, lambda: fb.results(result),
    )
    assert device.closed and queue.closed
    for thing in (gate, go, executable, graph, buffer, add, program, queue, other, device):
        for end in ("open", "close"):
            getattr(thing, end, lambda: None)()
in_child(child)
gate.open()
works()
== blocks that the child leaves
with fb.Device() as inner, inner.queue() as mine, mine.gate():
    mine.fill(inner.empty(10, "i4"), 1)
    in_child(lambda: None)
    sys.stdout.flush()
works()
== a child of a child
in_child(lambda: (os.waitpid(os.fork() or sys.exit(8), 0), refused(device.finish, fb.Device)))
works()
== multiprocessing
queue.host(lambda: None)
add[10, 100, queue](buffer, 1)
def child():
    refused(device.finish, fb.Device)
    sys.exit(7)
process = multiprocessing.get_context("fork").Process(target=child)
process.start()
process.join()
print("child", process.exitcode)
device.finish()
works()
"""
PROGRAMS = dict(part.partition("\n")[::2] for part in f"\n{PROGRAMS}".split("\n== ")[1:])
NEED_HOST_FUNCTIONS = ("host function running", "host function that raised")


@pytest.mark.parametrize(
    "program",
    [pytest.param(name, marks=pytest.mark.executes) if name in NEED_HOST_FUNCTIONS else name for name in PROGRAMS],
)
def test_a_child_ends_at_once_and_the_parent_goes_on(device, program):
    plays(device, PROGRAMS[program])


EVERYTHING = """
from tests.helpers.observer import observe
from tests.inside import fill_by_kernel
import ctypes, weakref
with observe(device):  # for the first time here: CUDA's driver does not start in a child
    pass
unused = device.program("kernel void k(global int *a) { a[0] = 1; }")
part, pinned, lent = buffer[100:200], fb.host_empty(100, "i4", device=device), queue.alloc(400)
add[1, 100, queue](part, 0)
with queue.capture(mode="relaxed") as graph:
    add[10, 100, queue](buffer, 0)
    queue.copy(pinned, part)
executable = graph.instantiate()
executable.launch(queue)
device.finish()
gate = queue.gate()
ended, step = other.step(), queue.step()
for of, each in (*[(other, ended)] * 3, (queue, step)):  # with recordings where the driver has them
    each.__enter__()
    for _ in range(3):
        add[1, 100, of](part, 0)
        add[1, 100, of](buffer[300:400], 0)
    if each is ended:
        each.__exit__(None, None, None)
late, result = other.record(), queue.launch(program["one"], 1, 1, result="i4")
lent.close()
apart, closed = fb.Device(private=True), fb.Device(private=True)
for one in (apart, closed):
    of = one.queue()
    of.fill(one.empty(10, "i4"), 1)
    one.finish()
closed.close()
del one, of
fill_by_kernel(device)
# programs of pyopencl are released by calls of its own, which nobody here can see
refs = [
    weakref.ref(thing, lambda ref, write=os.write: write(1, b"released "))
    for thing in gc.get_objects()
    if str(type(thing).__module__).startswith("pyopencl") and type(thing).__name__ == "Program"
]
ctypes.pythonapi.Py_IncRef(ctypes.py_object(refs))
names = [name for name, thing in globals().items() if str(type(thing).__module__).startswith(("forebay", "numpy"))]
def child():
    with observe(device) as calls:
        for name in [*names, "device"]:
            globals().pop(name, None)
        gc.collect()
        gc.collect()
    assert not calls.names(), calls.names()
"""

OPENED = """
gate.open()
step.__exit__(None, None, None)
"""
HAD_BY_A_THREAD = """
local, kept, end = threading.local(), threading.Event(), threading.Event()
class Things:
    pass
used = {"add", "buffer", "device", "fb", "gate", "go", "queue", "really", "step"}  # by what the parent does after this
things = Things()
things.all = [globals().pop(name) for name in names if name not in used]
dropped = weakref.ref(things)
def keep():
    local.things = globals().pop("things")
    kept.set()
    end.wait()
thread = threading.Thread(target=keep, daemon=True)
thread.start()
kept.wait()
with observe(device) as calls:
    def child():
        assert dropped() is None
        assert not calls.names(), calls.names()
    in_child(child)
refs.clear()  # what the parent drops now is its own
end.set()
thread.join()
gate.open()
step.__exit__(None, None, None)
works()
"""


@pytest.mark.parametrize(
    "code",
    [f"in_child(child){OPENED}works()", f"{OPENED}device.finish()\nin_child(child)\nworks()", HAD_BY_A_THREAD],
    ids=["at work", "idle", "had by a thread"],
)
def test_nothing_of_a_parents_is_released_in_a_child(device, code):
    """What is done could be given back at once. CPython drops what other threads had before any handler of forks."""
    plays(device, EVERYTHING + code)


FORKS = """
import os, sys
import forebay as fb
def work():
    with fb.Device() as device:
        device.queue().fill(device.empty(10, "i4"), 1)
        device.null_queue.finish()
    print("worked", flush=True)
def refused():
    for start in fb.Device, fb.devices:
        try:
            start()
        except fb.Error as error:
            assert "after a fork" in str(error), error
    print("refused", flush=True)
{before}
pid = os.fork()
if not pid:
    {in_child}()
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
work()
"""


@pytest.mark.parametrize(
    ("before", "in_child", "said"),
    [("pass", "work", "worked"), ("fb.devices()", "refused", "refused")],
    ids=["only imported", "looked for devices"],
)
def test_a_child_of_a_process_that_has_opened_no_device(device, before, in_child, said):
    """What was only imported does not matter."""
    code = FORKS.format(before=before, in_child=in_child)
    assert quiet_output_of(code, FOREBAY_DEVICE=device.name, timeout=60) == f"{said}\nworked\n"
