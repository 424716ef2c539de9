"""Whole programs in HIP C++, compared with NumPy; see `tests.hiprtc.programs`."""

import numpy as np
import pytest

from .programs import COMPARED, PROGRAMS, opencl_source, source

pytestmark = [pytest.mark.executes, pytest.mark.needs("a compiler of its own", "a compiler of HIP C++", "doubles")]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_program(device, compiled, program):
    case = program()
    name = program.__name__
    built = compiled(source(name), names=[case.expression] if case.expression else [])
    for variable, value in (case.variables or {}).items():
        built.variable(variable, "f4").set(value.ravel())
    args = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in case.args]
    built.run(case.expression or name, case.grid, case.block, *args, shared=case.shared)
    for position, expected in case.expected.items():
        difference = np.abs(args[position].astype("f8") - expected.reshape(args[position].shape))
        allowed = case.atol + case.rtol * np.abs(expected.reshape(args[position].shape))
        if name == "mandelbrot":  # fused operations let single points leave a step earlier, or later
            assert (difference > 0).mean() < 0.02
        else:
            assert (difference <= allowed).all(), (name, position, difference.max())


def test_ten_are_in_opencl_c_too():
    assert len(COMPARED) == 10
    assert all("kernel void" in opencl_source(program.__name__) for program in COMPARED)
