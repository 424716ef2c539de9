"""Races of programs of `forebay.hip`: by addresses, and told with HIP's names."""

import json
import os

import pytest

from forebay.queues.drivers.selection import select
from tests.helpers.processes import ROOT, python

pytestmark = pytest.mark.skipif(select().backend == "cuda", reason="another process has no stand-in")

# Each plants a race, and gets what stands before its second command: nothing, or the line that was told.
PLANTED = '''
import ctypes, json, logging, sys
import numpy as np
from forebay import hip
from tests.inside import forget_races

logging.getLogger("forebay").setLevel(logging.CRITICAL)
K = hip.hipMemcpyKind
SOURCE = """
kernel void scale(global int *y, int k) { y[get_global_id(0)] *= k; }
kernel void take(global const int *x, global int *into) { into[get_global_id(0)] = x[get_global_id(0)]; }
"""
N = 256


def ok(result):
    first, *rest = result
    assert first == hip.hipError_t.hipSuccess, result
    return rest[0] if len(rest) == 1 else rest


def stream():
    return ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))


def memory():
    return ok(hip.hipMalloc(4 * N))


def launch(name, queue, *arguments):
    function = ok(hip.hipModuleGetFunction(MODULE, name))
    ok(hip.hipModuleLaunchKernel(function, N // 16, 1, 1, 16, 1, 1, 0, queue, None, arguments))


def memset_and_copy(repair):
    a, b, x, y = stream(), stream(), memory(), memory()
    ok(hip.hipMemsetAsync(x, 1, 4 * N, a))
    repair(locals())
    ok(hip.hipMemcpyAsync(y, x, 4 * N, K.hipMemcpyDeviceToDevice, b))


def two_memsets(repair):
    a, b, x = stream(), stream(), memory()
    ok(hip.hipMemsetAsync(x, 1, 4 * N, a))
    repair(locals())
    ok(hip.hipMemsetD32Async(x, 1, N, b))


def kernels(repair):
    a, b, x, y = stream(), stream(), memory(), memory()
    launch(b"scale", a, x, ctypes.c_int(2))
    repair(locals())
    launch(b"take", b, x, y)


def upload_and_kernel(repair):
    a, b, x, y, host = stream(), stream(), memory(), memory(), np.ones(N, "i4")
    ok(hip.hipMemcpyAsync(x, host, 4 * N, K.hipMemcpyHostToDevice, a))
    repair(locals())
    launch(b"take", b, x, y)


def kernel_and_download(repair):
    a, b, x, host = stream(), stream(), memory(), np.ones(N, "i4")
    launch(b"scale", a, x, ctypes.c_int(2))
    repair(locals())
    ok(hip.hipMemcpyAsync(host, x, 4 * N, K.hipMemcpyDeviceToHost, b))


def null_stream(repair):
    b, x = stream(), memory()
    ok(hip.hipMemsetAsync(x, 1, 4 * N, 0))
    repair(locals())
    ok(hip.hipMemsetAsync(x, 2, 4 * N, b))


def event_too_early(repair):
    a, b, x, event = stream(), stream(), memory(), ok(hip.hipEventCreate())
    ok(hip.hipEventRecord(event, a))
    ok(hip.hipMemsetAsync(x, 1, 4 * N, a))
    ok(hip.hipStreamWaitEvent(b, event, 0))
    repair(locals())
    ok(hip.hipMemsetAsync(x, 2, 4 * N, b))


def other_stream_synchronized(repair):
    a, b, x = stream(), stream(), memory()
    ok(hip.hipMemsetAsync(x, 1, 4 * N, a))
    ok(hip.hipStreamSynchronize(b))
    repair(locals())
    ok(hip.hipMemsetAsync(x, 2, 4 * N, b))


def pool_memory(repair):
    a, b = stream(), stream()
    x = ok(hip.hipMallocAsync(4 * N, a))
    repair(locals())
    ok(hip.hipMemsetAsync(x, 1, 4 * N, b))


def pool_free(repair):
    a, b = stream(), stream()
    x = ok(hip.hipMallocAsync(4 * N, a))
    event = ok(hip.hipEventCreate())
    ok(hip.hipEventRecord(event, a))
    ok(hip.hipStreamWaitEvent(b, event, 0))
    ok(hip.hipMemsetAsync(x, 1, 4 * N, b))
    repair(locals())
    ok(hip.hipFreeAsync(x, a))


def graph(repair):
    a, b, x = stream(), stream(), memory()
    ok(hip.hipStreamBeginCapture(a, hip.hipStreamCaptureMode.hipStreamCaptureModeGlobal))
    ok(hip.hipMemsetAsync(x, 1, 4 * N, a))
    made = ok(hip.hipStreamEndCapture(a))
    ready = ok(hip.hipGraphInstantiate(made, 0))[0]
    ok(hip.hipMemsetAsync(x, 1, 4 * N, b))
    repair(locals())
    ok(hip.hipGraphLaunch(ready, a))


def silent():
    a, b, x, y, event = stream(), stream(), memory(), memory(), ok(hip.hipEventCreate())
    ok(hip.hipMemsetAsync(x, 1, 4 * N, a))
    ok(hip.hipEventRecord(event, a))
    ok(hip.hipStreamWaitEvent(b, event, 0))
    ok(hip.hipMemcpyAsync(y, x, 4 * N, K.hipMemcpyDeviceToDevice, b))
    ok(hip.hipStreamSynchronize(b))
    ok(hip.hipMemsetAsync(x, 1, 4 * N, a))
    ok(hip.hipEventRecord(event, a))
    ok(hip.hipEventSynchronize(event))
    ok(hip.hipMemsetAsync(x, 2, 4 * N, b))
    ok(hip.hipDeviceSynchronize())
    ok(hip.hipMemcpy(y, x, 4 * N, K.hipMemcpyDeviceToDevice))
    ok(hip.hipMemsetAsync(y, 1, 4 * N, ok(hip.hipStreamCreate())))
    host = np.zeros(N, "i4")
    ok(hip.hipMemcpy(host, y, 4 * N, K.hipMemcpyDeviceToHost))
    ok(hip.hipFree(x))


device = hip.current_device()
MODULE = ok(hip.hipModuleLoadData(SOURCE.encode()))
found = []
for plant in (memset_and_copy, two_memsets, kernels, upload_and_kernel, kernel_and_download, null_stream,
              event_too_early, other_stream_synchronized, pool_memory, pool_free, graph):
    forget_races(device)
    plant(lambda names: None)
    ok(hip.hipDeviceSynchronize())
    races = device.races
    missing = races[0].missing if races else ""
    forget_races(device)
    plant(lambda names: exec(missing, {"hip": hip}, names))
    ok(hip.hipDeviceSynchronize())
    found.append((plant.__name__, len(races), missing, [str(race) for race in device.races]))
forget_races(device)
silent()
print(json.dumps([found, [str(race) for race in device.races]]))
'''


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    script = tmp_path_factory.mktemp("hip") / "planted.py"
    script.write_text(PLANTED)
    ran = python(script, PYTHONPATH=ROOT, FOREBAY_CHECK="races", FOREBAY_DEVICE=os.environ.get("FOREBAY_DEVICE"))
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads(ran.stdout.splitlines()[-1])


def test_planted_races_are_found_and_repaired_by_their_line(told):
    planted, _ = told
    assert len(planted) == 11
    assert [name for name, races, _, _ in planted if not races] == []
    assert [(name, after) for name, _, _, after in planted if after] == []


def test_the_line_has_hips_names(told):
    for name, _, missing, _ in told[0]:
        assert "hip.hipStreamWaitEvent(" in missing, (name, missing)


def test_what_hip_orders_is_silent(told):
    assert told[1] == []
