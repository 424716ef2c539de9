"""What a type checker learns of forebay: what each call returns, and which calls are wrong. Nobody runs this.

`make check` reads it with mypy, which also complains of an `ignore` that it does not need.
"""

from typing import Any

import numpy as np
from typing_extensions import assert_type

import forebay as fb
from forebay import hip

device = fb.Device("cpu", timing=True)
queue = device.queue(priority=-1)
kernel = device.program("")["k"]
buffer = device.array([1.0, 2.0])

assert_type(queue.launch(kernel, 1, 1, buffer), None)
assert_type(queue.launch(kernel, (1, 1), 1, result="f4"), fb.Result)
assert_type(queue.launch(kernel, 1, 1, buffer, result=np.dtype(("f4", 3))), fb.Result)
assert_type(kernel[1, 1](buffer), None)
assert_type(kernel[1, 1, queue](buffer, result="f4"), fb.Result)
assert_type(kernel.bind(queue, 1, 1, buffer), fb.BoundLaunch)
assert_type(kernel.device, fb.Device)
assert_type(buffer.view("u1").shape, tuple[int, ...])
assert_type(queue.record() - queue.record(), float)
assert_type(queue.record(), fb.Event)
assert_type(queue.record().query(), bool)
assert_type(queue.alloc(8, "i4"), fb.Buffer)
assert_type(queue.finish(), None)
assert_type(buffer[1:3], fb.Buffer)
assert_type(buffer[0], fb.Buffer)
assert_type(buffer[1:][0].device.queue(), fb.Queue)
assert_type(buffer[:, 0], fb.Buffer | fb.StridedView)
assert_type(buffer[::2], fb.Buffer | fb.StridedView)
assert_type(buffer[::2].copy(), fb.Buffer)
assert_type(buffer.shape, tuple[int, ...])
assert_type(buffer.reshape(2, 1), fb.Buffer)
assert_type(buffer == buffer, bool)
assert_type(device.null_queue, fb.Queue)
assert_type(device.event(), fb.Event)
assert_type(device.info.name, str)
buffer[1:] = buffer[:1]
buffer[::2] = 3
queue.launch(kernel, 1, 1, fb.NULL)
queue.wait(queue.record())
queue.wait(device.queue(blocking=False))
device.pool.release_threshold = 1 << 20
with queue.capture() as graph:
    queue.fill(buffer, 0)
with graph.instantiate() as executable:
    assert_type(executable, fb.ExecutableGraph)
assert_type(hip.hipExtent(1, 2, 3).width, int)
assert_type(hip.hipMemcpy3DParms().srcPos, hip.hipPos)
assert_type(hip.hipEventDisableTiming, int)
assert_type(hip.hipMemcpyKind(4), hip.hipMemcpyKind)
assert_type(hip.hipMalloc(4), tuple[Any, ...])
assert_type(hip.hipMemsetD32Async(0, 0, 0), tuple[Any, ...])

fb.Device(1)  # type: ignore[arg-type]
device.queue(priority="high")  # type: ignore[arg-type]
queue.launch(kernel, 1)  # type: ignore[call-overload]
queue.launch(kernel, 1, 1, results="f4")  # type: ignore[call-overload]
queue.copy(1, 2)  # type: ignore[arg-type]
queue.device = device  # type: ignore[misc]
queue.wait()  # type: ignore[call-overload]
queue.wait(None)  # type: ignore[call-overload]
queue.wait(buffer)  # type: ignore[call-overload]
buffer["rows"]  # type: ignore[call-overload]
buffer + buffer  # type: ignore[operator]
device.queue(non_blocking=True)  # type: ignore[arg-type]
fb.Queue(device)  # type: ignore[arg-type]
hip.hipExtent().pitch = 1  # type: ignore[attr-defined]
hip.hipExtent().width = "wide"  # type: ignore[assignment]
