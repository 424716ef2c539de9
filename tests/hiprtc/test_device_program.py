"""HIP C++ given to Device.program."""

import os
from unittest import mock

import numpy as np
import pytest

import forebay as fb
from tests.helpers.device_data import device_data
from tests.helpers.refusals import refused

SCALE = "__global__ void scale(float* x, float by, int n) { int i = threadIdx.x; if (i < n) x[i] *= by; }"


@pytest.mark.needs("a compiler of HIP C++")
def test_it_runs(device, queue):
    program = device.program(SCALE)
    assert list(program) == ["scale"]
    x = device.array(np.arange(8, dtype="f4"))
    queue.launch(program["scale"], 1, 8, x, 2.5, 6)
    assert device_data(x.get(queue=queue).tolist()) == [0, 2.5, 5, 7.5, 10, 12.5, 6, 7]
    with refused(fb.Error, TypeError, "view"):
        queue.launch(program["scale"], 1, 8, device.zeros(8, "f8"), 2.5, 6)


@pytest.mark.needs("a compiler of HIP C++")
@pytest.mark.long
def test_instances_and_variables_by_their_names_in_the_source(device, queue):
    source = """
    namespace deep { __device__ int count = 3; }
    template <class T> __global__ void scale(T* x) { x[0] *= deep::count; }
    template __global__ void scale<float>(float*);
    template __global__ void scale<int>(int*);"""
    with device.program(source, "-std=c++20 -O3") as program:
        assert set(program) == {"_Z5scaleIfEvPT_", "_Z5scaleIiEvPT_"}
        for name in ("scale<float>", "_Z5scaleIfEvPT_"):
            assert name in program
        assert program["scale<float>"] is program["_Z5scaleIfEvPT_"]
        assert "scale<double>" not in program
        with refused(fb.InvalidArgumentError, ValueError, "scale<double>"):
            program["scale<double>"]
        x = device.array(np.full(1, 2, "i4"))
        queue.launch(program["scale<int>"], 1, 1, x)
        assert device_data(x.get(queue=queue).tolist()) == [6]
        if device.info.backend != "sycl":
            assert device_data(program.get_global("count").view("i4").get(queue=queue).tolist()) == [3]
            assert program.get_global("_ZN4deep5countE") is program.get_global("count")


def test_an_unknown_option_is_named(device):
    with refused(fb.InvalidArgumentError, ValueError, "--frobnicate"):
        device.program(SCALE, ["--frobnicate"])


@pytest.mark.needs("SPIR-V")
def test_without_a_compiler_it_says_what_to_install(device):
    off = mock.patch.dict(os.environ, FOREBAY_CLANG="none")
    with off, refused(fb.NotSupportedError, ImportError, "turns clang off"):
        device.program(SCALE)
    with device.program("kernel void k(global float* x) { x[0] = 1; }") as program:
        assert "k" in program


@pytest.mark.needs("no compiler of HIP C++")
def test_a_device_without_a_compiler_names_both_ways_out(device):
    with pytest.raises(fb.NotSupportedError) as caught:
        device.program(SCALE)
    for words in (device.name, "takes no SPIR-V", "forebay[cpu,hip]", "forebay[cuda]"):
        assert words in str(caught.value)
    for other in fb.devices():
        assert other.name == device.name or (other.reason or f"{other.name} ({other.platform})") in str(caught.value)


def test_a_closed_device_is_refused_before_it_compiles(device):
    other = fb.Device(device.name, private=True)
    other.close()
    with pytest.raises(fb.ClosedError):
        other.program("__global__ nonsense")
