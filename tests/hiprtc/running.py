"""Kernels in HIP C++, compiled for a device, built and run."""

import numpy as np
import pytest

import forebay as fb
from forebay.compiler.options import split_options
from forebay.compiler.program import Source
from forebay.core.errors import NotSupportedError
from forebay.hiprtc.front_end import prepare
from tests.helpers.observer import EXECUTES


class Built:
    """A program in HIP C++ on a device; arrays given to a launch are copied in and out."""

    def __init__(self, device, queue, source, options=(), names=()):
        try:
            self.made = prepare(device, Source(source, options=split_options(options), expressions=names))
        except NotSupportedError as error:
            pytest.skip(str(error))
        self.lowered = self.made.lowered
        self.program = device.program(self.made.text, self.made.options)
        self.kernels = {kernel.name: kernel for kernel in self.made.kernels}
        self.instances = {kernel.mangled: kernel for kernel in self.made.kernels}
        self.device, self.queue = device, queue

    def variable(self, name, dtype):
        """The Buffer of a variable."""
        if self.device.info.backend == "sycl":
            pytest.skip("the driver does not report where variables are")
        (variable,) = (each for each in self.made.variables if each.name == name)
        buffer = self.program.get_global(variable.symbol)
        assert buffer.nbytes == variable.nbytes
        return buffer.view(dtype)

    def info(self, name):
        """The description of a kernel, by its name or by an expression."""
        return self.kernels[name] if name in self.kernels else self.instances[self.lowered[name]]

    def run(self, name, grid, block, *args, shared=0):
        info = self.info(name)
        buffers = [self.device.array(arg) if isinstance(arg, np.ndarray) and arg.ndim else arg for arg in args]
        more = [fb.local(max(shared, 1))] if info.dynamic_shared else []
        self.queue.launch(self.program[info.symbol], grid, block, *buffers, *more)
        for buffer, arg in zip(buffers, args, strict=True):
            if buffer is not arg:
                back = buffer.get(queue=self.queue)
                if EXECUTES:  # or numbers of the test would become whatever the memory holds
                    arg[...] = back
