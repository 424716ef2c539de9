"""`forebay.cupy_style`: programs in the manner of CuPy's user guide."""

import numpy as np
import pytest

import forebay as fb
from forebay.cupy_style import RawKernel, RawModule

pytestmark = [pytest.mark.executes, pytest.mark.needs("a compiler of HIP C++", "doubles")]

SCALE = """
extern "C" __global__ void scale(const float* x, float* y, float a) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    y[i] = a * x[i];
}"""


@pytest.fixture(autouse=True)
def needs_clang(compiled):
    """The tests need what `compiled` needs."""


def test_on_buffers_and_on_arrays(device):
    scale = RawKernel(SCALE, "scale", device=device)
    x = np.arange(25, dtype="f4").reshape(5, 5)
    there, result = device.array(x), device.zeros((5, 5), "f4")
    scale((5,), (5,), (there, result, np.float32(2)))
    assert np.array_equal(result.get(), 2 * x)
    y = np.zeros_like(x)
    scale(5, 5, (x, y, 3))
    assert np.array_equal(y, 3 * x)
    assert scale.code == SCALE
    assert scale.max_threads_per_block >= 64


def test_none_is_a_null_pointer(device):
    source = 'extern "C" __global__ void is_null(int* out, const int* pointer) { out[0] = pointer == nullptr; }'
    is_null, out = RawKernel(source, "is_null", device=device), device.zeros(1, "i4")
    for pointer, expected in ((None, 1), (out, 0)):
        is_null((1,), (1,), (out, pointer))
        assert out.get().tolist() == [expected]


def test_complex_numbers(device):
    kernel = RawKernel(
        """
        #include <cupy/complex.cuh>
        #include <cupy/math_constants.h>
        extern "C" __global__ void combine(const complex<float>* x, const complex<float>* y, complex<float>* out, float a) {
            int i = threadIdx.x;
            out[i] = x[i] * complex<float>(0, CUDART_PI_F) + a * y[i];
        }""",
        "combine",
        device=device,
    )
    x = np.arange(20, dtype="c8") + 1j
    y = 1j * np.arange(20, dtype="c8")
    out = device.zeros(20, "c8")
    kernel((1,), (20,), (device.array(x), device.array(y), out, np.float32(2)))
    assert np.allclose(out.get(), x * 1j * np.pi + 2 * y, rtol=1e-6)


def test_module_with_templates_shared_memory_and_variables(device):
    module = RawModule(
        code="""
        __constant__ int offset;
        template <class T> __global__ void reversed(T* x) {
            extern __shared__ char memory[];
            T* own = (T*)memory;
            own[threadIdx.x] = x[threadIdx.x];
            __syncthreads();
            x[threadIdx.x] = own[blockDim.x - 1 - threadIdx.x] + offset;
        }""",
        options=("-std=c++11",),
        name_expressions=["reversed<float>", "reversed<double>"],
        device=device,
    )
    if device.info.backend != "sycl":
        module.get_global("offset").view("i4").set(np.array([7], "i4"))
    else:
        pytest.skip("the driver tells nobody where variables are")
    for name, dtype in (("reversed<float>", "f4"), ("reversed<double>", "f8")):
        x = np.arange(16, dtype=dtype)
        module.get_function(name)((1,), (16,), (x,), shared_mem=16 * 8)
        assert np.array_equal(x, np.arange(16)[::-1] + 7)


def test_the_current_queue(device):
    kernel = RawKernel(SCALE, "scale", device=device)
    queue = device.queue()
    x, y = device.zeros(64, "f4"), device.zeros(64, "f4")
    before = queue.stats.launches
    with queue:
        kernel((1,), (64,), (x, y, 1))
    assert queue.stats.launches == before + 1


@pytest.mark.needs("SPIR-V")
def test_mistakes(device):
    with pytest.raises(fb.InvalidArgumentError, match="either code or path"):
        RawModule()
    with pytest.raises(fb.NotSupportedError, match="a binary of CUDA"):
        RawModule(path="kernels.cubin")
    module = RawModule(code=SCALE, device=device)
    with pytest.raises(fb.InvalidArgumentError, match="no kernel 'scales'; there are scale"):
        module.get_function("scales")(1, 1, ())
    with pytest.raises(fb.BuildError, match=r"program\.cu:1:"):
        RawKernel("__global__ void k(int* p) { q[0] = 1; }", "k", device=device).compile()
    kernel = module.get_function("scale")
    with pytest.raises(fb.Error):
        kernel(1, 1, (1, 2))
    x = np.ones(4, "f4")
    kernel(1, 4, (x, x.copy(), 2))  # and still works
