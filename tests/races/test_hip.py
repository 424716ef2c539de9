"""Races of programs of `forebay.hip`: by addresses, and told with HIP's names."""

import json
import os

import pytest

from forebay.queues.selection import select
from tests.helpers.processes import ROOT, output_of

pytestmark = pytest.mark.skipif(select().backend == "cuda", reason="another process has no stand-in")

# a and b are streams that do not block, x and y memory of 256 integers, host is an array. Each program plants a race.
# In the place of HERE comes nothing, or the line that was told.
PLANTED = {
    "a set and a copy": "hipMemsetAsync(x, 1, SIZE, a); HERE; hipMemcpyAsync(y, x, SIZE, DEVICE, b)",
    "two sets": "hipMemsetAsync(x, 1, SIZE, a); HERE; hipMemsetD32Async(x, 1, N, b)",
    "two kernels": "launch('scale', a, x, 2); HERE; launch('take', b, x, y)",
    "an upload and a kernel": "hipMemcpyAsync(x, host, SIZE, UPLOAD, a); HERE; launch('take', b, x, y)",
    "a kernel and a download": "launch('scale', a, x, 2); HERE; hipMemcpyAsync(host, x, SIZE, DOWNLOAD, b)",
    "the null stream": "hipMemsetAsync(x, 1, SIZE, 0); HERE; hipMemsetAsync(x, 2, SIZE, b)",
    "an event too early": "hipEventRecord(event, a); hipMemsetAsync(x, 1, SIZE, a); hipStreamWaitEvent(b, event, 0);"
    "HERE; hipMemsetAsync(x, 2, SIZE, b)",
    "another stream synchronized": "hipMemsetAsync(x, 1, SIZE, a); hipStreamSynchronize(b); HERE;"
    "hipMemsetAsync(x, 2, SIZE, b)",
    "memory of a pool": "z = ok(hipMallocAsync(SIZE, a)); HERE; hipMemsetAsync(z, 1, SIZE, b)",
    "a free": "z = ok(hipMallocAsync(SIZE, a)); hipEventRecord(event, a); hipStreamWaitEvent(b, event, 0);"
    "hipMemsetAsync(z, 1, SIZE, b); HERE; hipFreeAsync(z, a)",
    "a graph": "hipStreamBeginCapture(a, GLOBAL); hipMemsetAsync(x, 1, SIZE, a);"
    "ready = ok(hipGraphInstantiate(ok(hipStreamEndCapture(a)), 0))[0]; hipMemsetAsync(x, 1, SIZE, b); HERE;"
    "hipGraphLaunch(ready, a)",
}
SILENT = """
hipMemsetAsync(x, 1, SIZE, a)
hipEventRecord(event, a)
hipStreamWaitEvent(b, event, 0)
hipMemcpyAsync(y, x, SIZE, DEVICE, b)
hipStreamSynchronize(b)
hipMemsetAsync(x, 1, SIZE, a)
hipEventRecord(event, a)
hipEventSynchronize(event)
hipMemsetAsync(x, 2, SIZE, b)
hipDeviceSynchronize()
hipMemcpy(y, x, SIZE, DEVICE)
hipMemsetAsync(y, 1, SIZE, ok(hipStreamCreate()))
hipMemcpy(host, y, SIZE, DOWNLOAD)
hipFree(x)
"""
PLAY = '''
import ctypes, json, logging, sys
import numpy as np
from forebay import hip
from tests.inside import forget_races

logging.getLogger("forebay").setLevel(logging.CRITICAL)
SOURCE = """
kernel void scale(global int *y, int k) { y[get_global_id(0)] *= k; }
kernel void take(global const int *x, global int *into) { into[get_global_id(0)] = x[get_global_id(0)]; }
"""
N = 256


def ok(result):
    first, *rest = result
    assert first == hip.hipError_t.hipSuccess, result
    return rest[0] if len(rest) == 1 else rest


def launch(name, queue, *arguments):
    function = ok(hip.hipModuleGetFunction(MODULE, name.encode()))
    arguments = tuple(ctypes.c_int(each) if isinstance(each, int) else each for each in arguments)
    ok(hip.hipModuleLaunchKernel(function, N // 16, 1, 1, 16, 1, 1, 0, queue, None, arguments))


def play(program):
    """Run the program with objects of its own, and return the races that it made."""
    a, b = (ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking)) for _ in range(2))
    x, y = (ok(hip.hipMalloc(4 * N)) for _ in range(2))
    forget_races(device)
    objects = {"a": a, "b": b, "x": x, "y": y, "host": np.ones(N, "i4"), "event": ok(hip.hipEventCreate())}
    exec(program, NAMES | objects)
    ok(hip.hipDeviceSynchronize())
    return device.races


device, K = hip.current_device(), hip.hipMemcpyKind
MODULE = ok(hip.hipModuleLoadData(SOURCE.encode()))
NAMES = {name: getattr(hip, name) for name in hip.__all__}
NAMES |= {"hip": hip, "ok": ok, "launch": launch, "N": N, "SIZE": 4 * N}
NAMES |= {"DEVICE": K.hipMemcpyDeviceToDevice, "UPLOAD": K.hipMemcpyHostToDevice, "DOWNLOAD": K.hipMemcpyDeviceToHost}
NAMES["GLOBAL"] = hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal
planted, silent = json.loads(sys.argv[1])
told = {}
for name, program in planted.items():
    races = play(program.replace("HERE", "pass"))
    missing = races[0].missing if races else "pass"
    told[name] = missing, [str(race) for race in play(program.replace("HERE", missing))]
print(json.dumps([told, [str(race) for race in play(silent)]]))
'''


@pytest.fixture(scope="module")
def told():
    variables = {"FOREBAY_CHECK": "races", "FOREBAY_DEVICE": os.environ.get("FOREBAY_DEVICE")}
    said = output_of(
        "-c",
        PLAY,
        json.dumps([PLANTED, SILENT]),
        PYTHONPATH=os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        **variables,
    )
    return json.loads(said.splitlines()[-1])


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_race_is_found_and_repaired_by_its_line_which_has_hips_names(told, name):
    missing, after = told[0][name]
    assert "hip.hipStreamWaitEvent(" in missing
    assert after == []


def test_what_hip_orders_is_silent(told):
    assert told[1] == []
