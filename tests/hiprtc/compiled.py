"""Programs in HIP C++ that clang compiles, run with arrays."""

import numpy as np
import pytest

import forebay as ps
from forebay.hip_cpp import build
from forebay.hiprtc.clang import find_clang
from forebay.hiprtc.front_end import prepare
from forebay.hiprtc.options import split_options


class Compiled:
    """A program on a device; arrays given to a launch are copied in and out."""

    def __init__(self, device, queue, source, options=(), names=()):
        if find_clang()[0] is None:
            pytest.skip(find_clang()[1])
        made = prepare(device, source, "program.hip", {}, split_options(options), names)
        self.log = made.log
        self.program = build(device, made.text, made.options, made.variables)
        self.kernels = {kernel.name: kernel for kernel in made.kernels}
        self.lowered = made.lowered
        self.device, self.queue = device, queue

    def run(self, name, grid, block, *args, shared=0):
        """Launch a kernel, by its name or as a name expression."""
        symbol = self.lowered.get(name) or self.kernels[name].symbol
        info = next(kernel for kernel in self.kernels.values() if kernel.symbol == symbol)
        buffers = [self.device.array(arg) if isinstance(arg, np.ndarray) and arg.ndim else arg for arg in args]
        more = [ps.local(shared)] if info.dynamic_shared else []
        self.queue.launch(self.program[symbol], grid, block, *buffers, *more)
        for buffer, arg in zip(buffers, args, strict=True):
            if buffer is not arg:
                arg[...] = buffer.get(queue=self.queue)
