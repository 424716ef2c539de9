"""What a process gets from the disk cache is what another compiled: the same ids, diagnostics and counters.

Each process here builds eight kernels in a cache folder of its own.
"""

import json
import subprocess

import pytest

from tests.conftest import DEVICES, on_null_hardware
from tests.helpers.processes import ROOT, command

pytestmark = pytest.mark.needs("no validation layer", "the default device")

CHILD = """
import json, sys
import numpy as np
import forebay as fb
from forebay.queues.kernels.cache import BinaryCache

calls = {"hit": 0, "miss": 0, "put": 0}
real_get, real_put = BinaryCache.get, BinaryCache.put

def get(self, key):
    value = real_get(self, key)
    calls["miss" if value is None else "hit"] += 1
    return value

def put(self, key, value):
    calls["put"] += 1
    real_put(self, key, value)

BinaryCache.get, BinaryCache.put = get, put

PART = "typedef struct { float weight; int offset; long large; } Part;"
SOURCE = '''
kernel void k%(n)d(global int *restrict out, const global int *in, constant float *table, local int *shared,
                   int count, float3 scale, Part part, uchar small)
{ out[get_global_id(0)] = %(n)d + count + (int) part.large + small + (int) scale.y; }
'''

SIZED = "kernel void sized(global const int *rows, global uchar *stack, int n) { stack[n - 1] = rows[0]; }"

def said(attempt):
    try:
        attempt()
    except fb.Error as error:
        return f"{type(error).__name__}: {error}"
    return ""

with fb.Device(sys.argv[1], debug=EXECUTES) as device:
    part = np.zeros(1, "f4,i4,i8")
    part["f2"] = 1000
    queue, out = device.queue(), device.zeros(64, "i4")
    given = out, out, out.view("f4"), fb.local(64), 5, np.array([0, 10000, 0], "f4")
    seen = {"ids": {}, "said": [], "out": []}
    if sys.argv[2:]:  # another process is to begin at the same time
        print("ready", flush=True)
        sys.stdin.readline()
    program = device.program(PART + "".join(SOURCE % {"n": n} for n in range(8)), "-cl-mad-enable")
    for name in sorted(program):
        kernel = program[name]
        seen["ids"][name] = kernel.content_id
        seen["said"] += [
            kernel.signature,
            str(kernel.parameters),
            str(kernel.max_block_size),
            said(lambda: queue.launch(kernel, 1, 64, out)),
            said(lambda: queue.launch(kernel, 1, 64, *given, part[0], 256)),
            said(lambda: queue.launch(kernel, 1, 64, *given, b"short", 2)),
            said(lambda: queue.launch(kernel, 1, 1 << 30, *given, part[0], 2)),
        ]
        for turn in range(3):
            queue.launch(kernel, 1, 64, *given, part[0], 2)
        if EXECUTES:
            seen["out"].append(int(out.get(queue=queue)[7]))
    sized = device.program(SIZED)["sized"]
    sized.scratch("stack", fb.MaxOver("rows") + 3)
    with queue:
        rows = device.array(np.arange(100, dtype="i4"))
    for turn in range(5):
        queue.launch(sized, 1, 1, rows, 5)
    seen["ids"]["scratch"] = sized.scratch_id("stack")
    if EXECUTES:
        seen["said"].append(said(lambda: queue.launch(sized, 1, 1, rows, 103)))
    # What else is counted depends on how far the device is.
    lasting = ("launches", "copies", "fills", "reductions", "arg_bytes_set", "arg_bytes_skipped")
    seen["stats"] = [{name: getattr(each.stats, name) for name in lasting} for each in (queue, device)]
    out.close()
    queue.close()
print(json.dumps({"seen": seen, "calls": calls}))
"""


@pytest.fixture(params=DEVICES, ids=str)
def name(request):
    return request.param


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "programs"


@pytest.fixture
def start(tmp_path, name):
    """``start()``: a process of its own; ``start("wait")``: one that waits for a line before it builds anything."""
    started = []

    def start(*waits):
        # A driver's own cache, too, is to be a fresh one.
        fresh = {"FOREBAY_CACHE": tmp_path, "POCL_CACHE_DIR": tmp_path / "pocl", "FOREBAY_NO_CACHE": None}
        child = CHILD.replace("EXECUTES", str(not on_null_hardware(name)))
        arguments, env = command("-c", child, name, *waits, **fresh)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen(arguments, cwd=ROOT, env=env, text=True, **pipes))
        return started[-1]

    yield start
    for child in started:
        child.kill()
        child.communicate()


def result_of(child):
    out, err = child.communicate(timeout=200)
    assert child.returncode == 0, err
    found = json.loads(out.splitlines()[-1])
    return found["seen"], found["calls"]


@pytest.mark.long
def test_a_warm_start_is_like_a_cold_one(start, name, folder):
    cold, calls = result_of(start())
    assert calls["hit"] == 0
    assert calls["put"] >= calls["miss"] > 0
    assert len(set(cold["ids"].values())) == 9
    assert all(cold["said"])
    executed = [] if on_null_hardware(name) else sorted(range(8), key=str)
    assert cold["out"] == [n + 5 + 1000 + 2 + 10000 for n in executed]
    warm, calls = result_of(start())
    assert warm == cold
    assert (calls["miss"], calls["put"]) == (0, 0)

    files = [path for path in folder.iterdir() if not path.name.startswith(".")]
    whole = {path: path.read_bytes() for path in files}
    for path, data in whole.items():
        path.write_bytes(data[: len(data) // 2])
    damaged, calls = result_of(start())
    assert damaged == cold
    assert calls["hit"] == 0
    assert calls["put"] > 0
    assert result_of(start()) == (cold, {"hit": calls["miss"], "miss": 0, "put": 0})


@pytest.mark.long
def test_two_processes_that_start_cold_at_once(start):
    both = [start("wait"), start("wait")]
    for child in both:
        assert child.stdout.readline() == "ready\n", child.stderr.read()
    for child in both:
        child.stdin.write("\n")
        child.stdin.flush()
    (one, _), (other, _) = map(result_of, both)
    assert one == other
    warm, calls = result_of(start())
    assert warm == one
    assert calls["miss"] == 0
