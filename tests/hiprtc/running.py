"""Kernels in HIP C++, compiled or translated, built and run."""

import numpy as np
import pytest

import forebay as ps
from forebay.hip_cpp import RefusedError, build, translate
from forebay.hiprtc.clang import find_clang
from forebay.hiprtc.compiler import compile_hip
from forebay.hiprtc.options import split_options
from tests.helpers.observer import EXECUTES


class Built:
    """A program in HIP C++ on a device; arrays given to a launch are copied in and out."""

    def __init__(self, device, queue, source, options=(), names=(), way="translator"):
        if way == "clang":
            clang, _ = find_clang()
            self.translation = made = compile_hip(
                clang, source, "program.hip", {}, split_options(options), names, copies=device.info.kind == "cpu"
            )
            text, self.lowered = made.spirv, made.lowered
        else:
            self.translation = translate(source, options=options, name_expressions=names)
            text, self.lowered = self.translation.text, {}
        try:
            self.program = build(device, text, (), self.translation.variables)
        except RefusedError as error:
            assert device.driver.variable_options is None
            pytest.skip(error.what)
        except ps.BuildError as error:
            raise AssertionError(f"{error.log}\n{text}") from None
        self.kernels = {kernel.name: kernel for kernel in self.translation.kernels}
        self.instances = {kernel.mangled: kernel for kernel in self.translation.kernels}
        self.device, self.queue = device, queue

    def variable(self, name, dtype):
        """The Buffer of a variable."""
        if self.device.info.backend == "sycl":
            pytest.skip("the driver tells nobody where variables are")
        (variable,) = (each for each in self.translation.variables if each.name == name)
        buffer = self.program.get_global(variable.symbol)
        assert buffer.nbytes == variable.nbytes
        return buffer.view(dtype)

    def run(self, name, grid, block, *args, shared=0):
        info = self.kernels[name] if name in self.kernels else self.instances[self.lowered[name]]
        buffers = [self.device.array(arg) if isinstance(arg, np.ndarray) and arg.ndim else arg for arg in args]
        more = [ps.local(max(shared, 1))] if info.dynamic_shared else []
        self.queue.launch(self.program[info.symbol], grid, block, *buffers, *more)
        for buffer, arg in zip(buffers, args, strict=True):
            if buffer is not arg:
                back = buffer.get(queue=self.queue)
                if EXECUTES:  # or numbers of the test would become whatever the memory holds
                    arg[...] = back
