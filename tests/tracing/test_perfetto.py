"""Perfetto reads a trace: its trace processor in this process."""

import json
import sys

import pytest

import forebay as fb
from tests.helpers.processes import output_of
from tests.helpers.trace_processor import TraceProcessor

from .reading import Trace

PROBLEMS = "select name, value from stats where (severity != 'info' or name like 'flow%') and value > 0"
LAUNCHES = "select count(*) from slice where category = 'launch'"
WAITS = "select count(*) from flow join slice on slice_in = slice.id where slice.category != 'driver'"
BACKWARD = (
    "select count(*) from flow join slice a on slice_out = a.id join slice b on slice_in = b.id where a.ts > b.ts"
)
THREADS = "select distinct thread.name from slice join thread_track t on track_id = t.id join thread using (utid)"
COUNTERS = "select distinct t.name from counter join counter_track t on track_id = t.id"


def in_perfetto(path):
    """The trace as Perfetto has it, which finds nothing wrong."""
    trace = TraceProcessor(path.read_bytes())
    assert trace.query(PROBLEMS) == []
    assert trace.query(BACKWARD) == [(0,)]
    return trace


@pytest.fixture(params=[False, True], ids=["", "device times"])
def ring(request, path, device, program):
    """What three queues counted while each waited for the one before it, traced to `path`."""
    with device.empty(100, "i4") as buffer, fb.trace(path, device_times=request.param):
        queues = [device.queue(blocking=False) for _ in range(3)]
        for turn in range(4):
            for producer, waiter in zip(queues, queues[1:] + queues[:1], strict=True):
                producer.launch(program["add"], 10, 10, buffer, turn)
                waiter.wait(producer.record())
        device.finish()
        return [queue.stats for queue in queues]


def test_it_counts_what_the_queues_counted(path, ring):
    trace, ours = in_perfetto(path), Trace(path)
    assert trace.query(f"{LAUNCHES} and name = 'add'") == [(sum(each.launches for each in ring),)] == [(12,)]
    ran = ours.about.get("device times", {"commands": 0})["commands"]
    assert trace.query("select count(*) from slice where category = 'ran'") == [(ran,)]
    assert trace.query(f"{WAITS} and slice.category = 'ran'") == [(ran,)]
    assert trace.query(f"{WAITS} and slice.category != 'ran'") == [(sum(each.waits_made for each in ring),)]
    assert {name for (name,) in trace.query(THREADS)} == {name for (_, name), slices in ours.slices.items() if slices}
    assert len(trace.query(COUNTERS)) == len(ours.counters) == 3


@pytest.mark.executes
@pytest.mark.needs("no chosen device", "no validation layer")
@pytest.mark.long
def test_it_counts_the_launches_and_waits_of_the_demo(path, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("skimage")
    demo = (sys.executable, "-m", "examples.photo", "--output", tmp_path / "demo.png")
    output_of("-m", "forebay", "trace", "-o", path, "--", *demo)
    (stats,) = json.loads(path.read_text())["otherData"]["stats"]
    trace = in_perfetto(path)
    assert trace.query(LAUNCHES) == [(stats["launches"],)]
    assert trace.query(WAITS) == [(stats["waits_made"],)]
    assert min(stats["launches"], stats["waits_made"]) > 20
