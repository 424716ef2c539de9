"""Queues, contexts and memory of other packages, which may go on using them."""

from forebay.queues.interop import from_dpctl, from_pyopencl, names, notebooks  # noqa: F401 - the last two add names
from forebay.queues.memory.bridges import bridges

bridges["Queue.from_dpctl"] = from_dpctl.adopt
bridges["Queue.from_pyopencl"] = from_pyopencl.adopt
bridges["Device.from_pyopencl"] = from_pyopencl.device_of
bridges["Buffer.to_pyopencl"] = from_pyopencl.array_over
