"""Short programs, whose races are marked: of which memory, what orders, and what a use stands for.

A statement that ends in ``# race`` must make one certain race, in ``# possible`` one possible race; every other
statement must make none. What comes after ``# race:`` is the line that the report gives.
"""

import ast
import re

import numpy as np
import pytest

import forebay as fb
from tests.helpers.observer import observe
from tests.inside import forget_races

SIZE = 64
GRID = SIZE // 16, 16
OWN = """
kernel void all_of(global float *y, const int n)
{ for (int i = get_global_id(0); i < n; i += get_global_size(0)) y[i] = 1; }
kernel void mark(global float *y, const int first, const int count)
{ if (get_global_id(0) < count) y[first + get_global_id(0)] = 1; }
kernel void follow(global const float *x, global float *into) { into[get_global_id(0)] = x[0]; }
"""
# a, b and c are non-blocking queues, null is the null queue; x and y are memory of 64 floats, host is as much.
SCRIPTS = r"""
== halves are no race, and what reaches into both is
a.fill(x[:32], 1)
b.fill(x[32:], 2)
b.fill(x[31:33], 2)  # race: b.wait(a)
== launches on halves
a.launch(scale, 2, 16, x[:32], 2.0)
b.launch(scale, 2, 16, x[32:], 2.0)
== rows that do not overlap
rows = empty((8, 8))
a.copy(rows[:, :4], empty((8, 4)))
b.copy(rows[:, 4:], empty((8, 4)))
b.copy(rows[:, 3:5], empty((8, 2)))  # race
== a row and a piece
rows = empty((4, 32), "u1")
a.copy(rows[:, :16], empty((4, 16), "u1"))
b.fill(rows.reshape(-1)[:1], 2)  # race
b.fill(rows.reshape(-1)[12:13], 2)  # race
b.fill(rows.reshape(-1)[15:16], 2)  # race
b.fill(rows.reshape(-1)[16:17], 2)
b.fill(rows.reshape(-1)[28:32], 2)
b.fill(rows.reshape(-1)[32:33], 2)  # race
== what is read backwards
a.copy(x[31::-1], empty(32))
b.fill(x[:1], 2)  # race
b.fill(x[31:32], 2)  # race
b.fill(x[32:33], 2)
b.fill(x[63:], 2)
== rows of two pitches
a.copy(bytes64[::4], empty(16, "u1"))
b.copy(bytes64[1::3], empty(21, "u1"))  # possible
== a part chosen in the kernel
a.launch(part, 2, 16, x, 0)
b.launch(part, 2, 16, x, 32)  # possible
b.launch(part, 2, 16, x, 0)  # race
device.finish()
a.launch(part, 2, 16, x, 0)
b.fill(x, 1)  # race
device.finish()
a.launch(part, 2, 16, x, 0)
b.fill(x[32:], 1)  # possible
== a part may be chosen where a grid is rounded up: five groups of sixteen may stand for 65 elements
one, other = (empty(70), empty(70)), (empty(70), empty(70))
a.launch(slots, 4, 16, *one, 0, 8)
b.launch(slots, 4, 16, *one, 8, 8)  # possible
a.launch(slots, 5, 16, *other, 0, 8)
b.launch(slots, 5, 16, *other, 8, 8)  # possible
== of nine groups more than 70 work-items do something, and of four as many as there are elements
one, other = (empty(70), empty(70)), (empty(64), empty(64))
a.launch(slots, 9, 16, *one, 0, 8)
b.launch(slots, 9, 16, *one, 8, 8)  # race
a.launch(slots, 4, 16, *other, 0, 8)
b.launch(slots, 4, 16, *other, 8, 8)  # race
== an integer that is the size chooses nothing
a.launch(all_of, 2, 16, x, 64)
b.fill(x[:8], 1)  # race
== declared parts are certain or nothing
mark.writes("y", slice(fb.Argument("first"), fb.Argument("first") + fb.Argument("count")))
a.launch(mark, 2, 16, x, 0, 32)
b.launch(mark, 2, 16, x, 32, 32)
b.launch(mark, 2, 16, x, 16, 32)  # race
== a kernel that follows pointers may use any memory
follow.follow_pointers()
a.launch(follow, *GRID, x, y)
b.launch(scale, *GRID, empty(64), 2.0)  # possible
device.finish()
for queue in (a, b): queue.launch(scale, *GRID, empty(64), 2.0)
a.launch(follow, *GRID, x, y)  # possible
a.launch(scale, *GRID, empty(64), 2.0)
b.launch(scale, *GRID, empty(64), 2.0)  # possible
== host memory that a download still writes
a.copy(host, x)
a.copy(y, host)  # race: a.finish()
a.finish()
a.copy(y, host)
== pinned memory
pinned = fb.host_empty(64, device=device)
a.copy(pinned, x)
b.copy(y, pinned)  # race: b.wait(a)
== two downloads to one array
a.copy(host[:40], x[:40])
b.copy(host[40:], y[40:])
b.copy(host[39:], y[39:])  # race
== an array in the place of another is another
for _ in range(100): a.copy(np.zeros(64, "f4"), x); b.copy(np.zeros(64, "f4"), x)
== bytes by value
a.copy(host, x)
b.launch(take, *GRID, fb.by_value(host), y)  # race
== an array as an argument
a.copy(host, x)
b.launch(take, *GRID, host, y)  # race
== memory of a queue belongs to those that wait for it
pooled = a.alloc(64)
b.fill(pooled, 1)  # race
pooled = a.alloc(64)
b.wait(a)
b.fill(pooled, 1)
a.wait(b)
a.free(pooled)
== a free comes after all uses
pooled = a.alloc(64)
b.wait(a)
b.fill(pooled, 1)
a.free(pooled)  # race: a.wait(b)
== memory that is handed out again is other memory
for queue in (a, b) * 100: pooled = queue.alloc(64); queue.fill(pooled, 1); queue.free(pooled)
== a read comes after writers where no queue is given
a.fill(x, 1)
b.wait(a)
b.fill(y, 2)
y.get()
c.fill(x, 3)
x.set(5)
== a set comes after readers and a get does not
a.launch(take, *GRID, x, empty(64))
x.set(5)
a.wait(null)
a.launch(take, *GRID, x, y)
x.get()
b.fill(x, 3)  # race
== what a queue does after a get is another matter
a.fill(x, 1)
x.get()
a.fill(x, 2)
b.fill(x, 3)  # race
device.finish()
a.fill(y, 1)
y.set(2)
a.fill(y, 3)  # race
null.fill(y, 4)  # race
== uses that were forgotten still order
big = empty(1024)
c.fill(y, 1)
c.fill(big[:1], 1)
for i in range(1, 300): a.fill(big[2 * i : 2 * i + 1], 1); a.record()
big.get()
b.fill(y, 2)
== a use does not stand for one that reaches further
a.fill(x[:32], 1)
a.fill(x[:8], 2)
b.fill(x[16:24], 3)  # race
== rows do not stand for what lies between them
rows = empty((8, 8))
a.fill(rows.reshape(-1)[:8], 1)
a.copy(rows[:, :4], empty((8, 4)))
b.fill(rows.reshape(-1)[6:8], 2)  # race
== a part does not stand for another
a.launch(part, 2, 16, x, 0)
a.launch(part, 2, 16, x, 32)
b.launch(part, 2, 16, x, 0)  # race and possible
== a doubtful use does not stand for a certain one
box = empty((4, 4, 8), "u1")
a.fill(box.reshape(-1)[:1], 1)
a.copy(box[::2, ::2, ::3], empty((2, 2, 3), "u1"))
b.fill(box.reshape(-1)[:1], 2)  # race and possible
== a read does not stand for a doubtful write
box = empty((4, 4, 8), "u1")
a.copy(box[::2, ::2, ::3], empty((2, 2, 3), "u1"))
a.copy(empty(box.shape, "u1"), box)
b.copy(empty(box.shape, "u1"), box)  # possible
== a loop over parts uses all of them
for i in (1, 0, 2): a.fill(x[16 * i : 16 * i + 16], 1)
b.fill(x[48:], 2)
b.fill(x[4:8], 2)  # race
b.fill(x[20:24], 2)  # race
b.fill(x[36:40], 2)  # race
== a loop over parts does not use what is between
for i in (0, 2): a.fill(x[16 * i : 16 * i + 16], 1)
b.fill(x[16:32], 2)
== a loop over parts with records between
events = []
for i in range(2): a.fill(x[16 * i : 16 * i + 16], 1); events.append(a.record())
b.wait(events[0])
b.fill(x[:16], 2)
b.fill(x[16:32], 2)  # race
== a wait orders what it names and no more: had the event been done, the wait would be no command of the null queue
one, other = device.queue(), device.queue()
device.finish()
one.fill(x, 1)
a.fill(y, 1)
null.wait(a)
other.fill(y, 2)
other.fill(x, 2)  # race
== the null queue comes after what a blocking queue waits for
one = device.queue()
a.fill(x, 1)
one.wait(a)
null.fill(x, 2)
== a wait makes no queue one of those that the null queue comes after
c.fill(y, 1)
a.wait(c)
a.fill(x, 1)
null.fill(x, 2)  # race
== a finish of the null queue speaks for those that block
device.queue().fill(x, 1)
null.finish()
a.fill(x, 2)
== an event that was waited for says nothing of later commands
a.fill(x, 1)
event = a.record()
a.fill(y, 1)
event.wait()
other = fb.Device(private=True, check="races")
other.finish()
other.close()
b.fill(x, 2)
b.fill(y, 2)  # race
== a command that was refused has not used anything
refused(a.launch, scale, *GRID, x, "a number")
refused(a.copy, x, empty(63))
refused(a.copy, x, np.zeros(63, "f4"))
refused(a.copy, x, empty(64, "i4"))
refused(a.fill, x, "a number")
b.fill(x, 1)
device.finish()
a.fill(x[:32], 1)
refused(a.launch, scale, *GRID, x[32:], "a number")
refused(a.copy, x[32:], empty(64))
refused(a.copy, x[32:], np.zeros(64, "f4"))
refused(a.copy, x[32:], empty(32, "i4"))
refused(a.fill, x[32:], "a number")
b.fill(x[32:], 2)
b.fill(x[:32], 2)  # race
== a command that was refused leaves what it stood for
for _ in range(3): a.fill(x[8:32], 1)
refused(a.launch, scale, *GRID, x, "a number")
refused(a.copy, x, np.zeros(63, "f4"))
refused(a.copy, x, empty(64, "i4"))
refused(a.fill, x, "a number")
b.fill(x[8:16], 2)  # race
b.fill(x[40:], 2)
== commands that the driver refuses use nothing
graph = device.graph()
graph.add_fill(x, 2)
ready = graph.instantiate()
def stepping():
    with a.step(): a.launch(scale, *GRID, x, 2.0)
strided = empty((64, 2))[:, 0]
calls = [
    lambda: a.launch(scale, *GRID, x, 2.0), lambda: scale.bind(a, *GRID, x, 2.0)(), lambda: a.fill(x, 3),
    lambda: a.copy(x, host), lambda: a.copy(x, strided), lambda: ready.launch(a), stepping,
]
for call in calls: call(); device.finish(); failing(call); b.launch(scale, *GRID, x, 2.0); device.finish()
== a free that the driver refuses frees nothing
one, other, made = device.queue(), device.queue(), null.alloc(64)
null.launch(scale, *GRID, x, 2.0)
failing(one.free, made)
other.launch(scale, *GRID, made, 2.0)
== the null queue orders nothing by a command that the driver refuses
one, other = device.queue(), device.queue()
one.fill(x, 1)
failing(null.fill, y, 1)
other.fill(x, 1)  # race
== a wait that the driver refuses orders nothing
a.fill(x, 1)
failing(b.wait, a)
b.fill(x, 1)  # race
== a host function that the driver refuses orders nothing
a.fill(x, 1)
failing(a.host, int)
b.fill(x, 1)  # race
== nodes are ordered through other nodes
graph = device.graph()
first = graph.add_fill(x, 1)
between = graph.add_host(int, after=first)
graph.add_kernel(scale, *GRID, x, 2.0, after=between)
graph.add_empty()
graph.instantiate()
== a launch of a graph is a command of its queue
graph = device.graph()
graph.add_kernel(take, *GRID, x, y)
a.fill(x, 1)
graph.launch(b)  # race
device.finish()
graph.launch(b)
c.copy(empty(64), y)  # race
== launches of one graph come after each other
graph = device.graph()
graph.add_kernel(scale, *GRID, x, 2.0)
for _ in range(3): graph.launch(a); graph.launch(b)
== what a node was set to
graph = device.graph()
node = graph.add_kernel(scale, *GRID, x, 2.0)
ready = graph.instantiate()
a.fill(y, 1)
ready.launch(b)
ready.set_kernel(node, scale, *GRID, y, 2.0)
ready.launch(b)  # race
== memory of a graph
graph = device.graph()
alloc = graph.add_alloc(64)
graph.add_fill(alloc.work.buffer, 1, after=alloc)
graph.launch(a)
b.copy(empty(64), alloc.work.buffer)  # race
a.wait(b)
a.free(alloc.work.buffer)
graph.launch(b)
b.free(alloc.work.buffer)
== memory that a launch takes back by itself
with a.capture() as graph: memory = a.alloc(64)
ready = graph.instantiate(auto_free=True)
ready.launch(a)
b.wait(a)
b.launch(scale, *GRID, memory, 3.0)
ready.launch(a)  # race: a.wait(b)
== memory that was freed before the graph allocates it again: the launch comes after the free, and all before that
with a.capture() as graph: memory = a.alloc(64); a.launch(scale, *GRID, memory, 2.0)
ready = graph.instantiate()
ready.launch(a)
b.wait(a)
b.launch(scale, *GRID, memory, 3.0)
b.launch(scale, *GRID, x, 2.0)
b.free(memory)
ready.launch(a)
a.launch(scale, *GRID, x, 3.0)
== branches of a capture
with a.capture() as graph: b.wait(a); a.launch(scale, *GRID, x, 2.0); b.launch(scale, *GRID, x, 3.0); a.wait(b)
graph.instantiate()  # race
with a.capture() as graph:
    b.wait(a)
    a.launch(scale, *GRID, x, 2.0)
    b.wait(a)
    b.launch(scale, *GRID, x, 3.0)
    a.wait(b)
graph.instantiate()
== a graph within a graph
inner, outer = device.graph(), device.graph()
inner.add_kernel(scale, *GRID, x, 2.0)
outer.add_graph(inner)
outer.add_fill(x, 1)
outer.instantiate()  # race
"""
SCRIPTS = dict(part.partition("\n")[::2] for part in SCRIPTS.split("== ")[1:])
MARK = re.compile(r"# (race|possible|race and possible)(?:: (.*))?$")


@pytest.fixture
def failing(device):
    """``failing(call, …)``: the driver refuses all that the call asks for."""

    def failing(call, *arguments):
        with observe(device) as calls:
            calls.driver.fail_at_random(1, 1)
            try:
                refused(call, *arguments)
            finally:
                calls.forgive()

    return failing


def refused(call, *arguments):
    with pytest.raises(fb.Error):
        call(*arguments)


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_marked_statements_race_and_no_others(device, kernels, failing, name):
    own = device.program(OWN)
    a, b, c = (device.queue(blocking=False) for _ in range(3))
    names = {"device": device, "fb": fb, "np": np, "null": device.null_queue, "a": a, "b": b, "c": c, "GRID": GRID}
    names |= {name: kernels[name] for name in ("scale", "take", "part", "slots")} | {"empty": device.empty}
    names |= {name: own[name] for name in ("all_of", "mark", "follow")} | {"failing": failing, "refused": refused}
    names |= {"x": device.empty(SIZE), "y": device.empty(SIZE), "host": np.zeros(SIZE, "f4")}
    names["bytes64"] = device.empty(SIZE, "u1")
    lines = SCRIPTS[name].splitlines()
    for statement in ast.parse(SCRIPTS[name]).body:
        forget_races(device)
        exec(compile(ast.Module([statement], []), f"<{name}>", "exec"), names)
        mark = MARK.search(lines[statement.end_lineno - 1])
        expected = ("race" in mark[1], "possible" in mark[1]) if mark else (0, 0)
        assert (len(device.races), len(device.possible_races)) == expected, lines[statement.lineno - 1]
        assert not mark or mark[2] in (None, *(race.missing for race in device.races))
    device.finish()
