"""`forebay.cupy_style`: programs in the manner of CuPy's user guide, kernels from expressions, and what is refused."""

import numpy as np
import pytest

import forebay as fb
from forebay.cupy_style import ElementwiseKernel, RawKernel, RawModule, ReductionKernel
from tests.helpers.device_data import device_data

pytestmark = [pytest.mark.needs("a compiler of HIP C++", "doubles")]

SCALE = """
extern "C" __global__ void scale(const float* x, float* y, float a) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    y[i] = a * x[i];
}"""


SHARED = """
extern "C" __global__ void reversed(int* x) {
    __shared__ int own[64];
    extern __shared__ int more[];
    own[threadIdx.x] = x[threadIdx.x];
    more[threadIdx.x] = 1;
    __syncthreads();
    x[threadIdx.x] = own[63 - threadIdx.x] + more[63 - threadIdx.x];
}"""


@pytest.fixture(autouse=True)
def needs_clang(compiled):
    """The tests need what `compiled` needs."""


def test_on_buffers_and_on_arrays(device):
    scale = RawKernel(SCALE, "scale", device=device)
    x = np.arange(25, dtype="f4").reshape(5, 5)
    there, result = device.array(x), device.zeros((5, 5), "f4")
    scale((5,), (5,), (there, result, np.float32(2)))
    assert np.array_equal(device_data(result.get()), 2 * x)
    y = np.zeros_like(x)
    scale(5, 5, (x, y, 3))
    assert np.array_equal(device_data(y), 3 * x)
    assert scale.code == SCALE
    assert scale.max_threads_per_block >= 64


def test_none_is_a_null_pointer(device):
    source = 'extern "C" __global__ void is_null(int* out, const int* pointer) { out[0] = pointer == nullptr; }'
    is_null, out = RawKernel(source, "is_null", device=device), device.zeros(1, "i4")
    for pointer, expected in ((None, 1), (out, 0)):
        is_null((1,), (1,), (out, pointer))
        assert device_data(out.get().tolist()) == [expected]


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
    assert np.allclose(device_data(out.get()), x * 1j * np.pi + 2 * y, rtol=1e-6)


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
        pytest.skip("the driver does not report where variables are")
    for name, dtype in (("reversed<float>", "f4"), ("reversed<double>", "f8")):
        x = np.arange(16, dtype=dtype)
        module.get_function(name)((1,), (16,), (x,), shared_mem=16 * 8)
        assert np.array_equal(device_data(x), np.arange(16)[::-1] + 7)


def test_the_current_queue(device):
    kernel = RawKernel(SCALE, "scale", device=device)
    queue = device.queue()
    x, y = device.zeros(64, "f4"), device.zeros(64, "f4")
    before = queue.stats.launches
    with queue:
        kernel((1,), (64,), (x, y, 1))
    assert queue.stats.launches == before + 1


@pytest.mark.parametrize("dtype", ["c8", "f2"])
def test_an_elementwise_kernel_with_raw_arrays_and_its_index(device, queue, dtype):
    kernel = ElementwiseKernel(
        "T x, raw T t, T a",
        "T z, bool last",
        "z = a * x + t[_ind.size() - 1 - i % t.size()]; last = _ind.get() == n - 1",
        "mixed",
        loop_prep="T nothing = 0;",
        after_loop="(void)nothing;",
        return_tuple=True,
    )
    x = np.arange(300).reshape(3, 100).astype(dtype)
    t = np.arange(300).astype(dtype)
    if dtype == "c8":
        x, t = x + 2j, t * 1j
    there, other = device.array(x), device.array(t)
    device.finish()
    for options in ({}, {"block_size": 64}):
        z, last = kernel(there, other, 2, stream=queue, **options)
        assert np.array_equal(device_data(z.get(queue=queue)), 2 * x + t[::-1].reshape(3, 100))
        assert np.flatnonzero(device_data(last.get(queue=queue))).tolist() == [299]
    assert (kernel.nin, kernel.nout, kernel.nargs, kernel.name) == (3, 2, 5, "mixed")
    assert queue.stats.launches == 2


def test_a_reduction_kernel(device):
    norm = ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2norm", reduce_type="double")
    x = np.linspace(0, 1, 60000, dtype="f4").reshape(200, 300)
    for _ in range(2):
        y = norm(device.array(x), axis=(0, 1), keepdims=True)
        assert y.shape == (1, 1)
        assert device_data(y.get()) == np.float32(np.linalg.norm(x.astype("f8")))
    out = device.empty((), "f4")
    assert norm(device.empty(0, "f4"), out=out) is out
    assert device_data(out.get()) == 0
    with pytest.raises(fb.NotSupportedError, match="axis=0 of 2"):
        norm(device.array(x), axis=0)


def test_a_raw_kernel_on_a_stream_and_its_attributes(device, queue):
    kernel = RawKernel(SHARED, "reversed", device=device)
    x = device.array(np.arange(64, dtype="i4"))
    device.finish()
    kernel((1,), (64,), (x,), shared_mem=256, stream=queue)
    assert np.array_equal(device_data(x.get(queue=queue)), np.arange(64)[::-1] + 1)
    attributes = kernel.attributes
    told = device.info.backend != "sycl"
    assert attributes["shared_size_bytes"] == kernel.shared_size_bytes == 256 * told
    most = device.driver.limits.local_bytes - 256 * told
    assert attributes["max_dynamic_shared_size_bytes"] == kernel.max_dynamic_shared_size_bytes == most
    assert attributes["max_threads_per_block"] >= 64
    kernel.max_dynamic_shared_size_bytes = 256
    kernel.preferred_shared_memory_carveout = 50
    kernel((1,), (64,), (x,), shared_mem=256, stream=queue)
    before = queue.epoch
    with pytest.raises(fb.InvalidArgumentError, match=r"260 bytes of shared memory, max_dynamic.* is 256"):
        kernel((1,), (64,), (x,), shared_mem=260, stream=queue)
    assert queue.epoch == before
    with pytest.raises(fb.InvalidArgumentError, match=f"there are {most}"):
        kernel.max_dynamic_shared_size_bytes = most + 1
    assert kernel.max_dynamic_shared_size_bytes == 256
    with pytest.raises(fb.InvalidArgumentError, match="percentage"):
        kernel.preferred_shared_memory_carveout = 101
    with pytest.raises(AttributeError):
        kernel.max_dynamic_shared_memory = 256


WRONG = ElementwiseKernel("T x", "T y", "y = x * q", "wrong")
NO_NAME = "no 'reverse' in the source"
REFUSED = {
    "neither code nor path": (lambda on, x: RawModule(), fb.InvalidArgumentError, "either code or path"),
    "a binary": (lambda on, x: RawModule(path="kernels.cubin"), fb.NotSupportedError, "a binary of CUDA"),
    "no such function": (lambda on, x: RawModule(code=SHARED, device=on).get_function("reverse"), fb.InvalidArgumentError,
                         "no kernel 'reverse'; there are reversed"),
    "no such kernel": (lambda on, x: RawKernel(SHARED, "reverse"), fb.InvalidArgumentError, NO_NAME),
    "no such instance": (lambda on, x: RawKernel(SHARED, "reverse<int>"), fb.InvalidArgumentError, NO_NAME),
    "no such expression": (lambda on, x: RawModule(code=SHARED, name_expressions=["reverse<int>"]), fb.InvalidArgumentError, NO_NAME),
    "no name": (lambda on, x: RawKernel(SHARED, "2d"), fb.InvalidArgumentError, "'2d' cannot be"),
    "bytes": (lambda on, x: RawKernel(SHARED, b"reversed"), fb.ArgumentTypeError, "a str, not bytes"),
    "no type": (lambda on, x: ElementwiseKernel("fload32 x", "T y", "y = x"), fb.InvalidArgumentError, "'fload32' is no type"),
    "no type of a reduction": (lambda on, x: ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", reduce_type="flot"),
                               fb.InvalidArgumentError, "reduce_type='flot'"),
    "what does not compile": (lambda on, x: RawKernel("__global__ void k(int* p) { q[0] = 1; }", "k", device=on).compile(),
                              fb.BuildError, r"program\.cu[:(]1"),
    "numbers for pointers": (lambda on, x: RawKernel(SCALE, "scale", device=on)(1, 1, (1, 2)), fb.Error, "."),
    "no stream": (lambda on, x: RawKernel(SHARED, "reversed", device=on)(1, 64, (x,), stream=0), fb.ArgumentTypeError, "stream is a Queue"),
    "a grid that waits": (lambda on, x: RawKernel(SHARED, "reversed", device=on)(1, 64, (x,), enable_cooperative_groups=True),
                          fb.NotSupportedError, "cannot wait for each other"),
    "an unknown name": (lambda on, x: WRONG(x), fb.BuildError, r"wrong, 'y = x \* q'(.*\n)*.*\bq\b"),
    "a stream of text": (lambda on, x: WRONG(x, stream="0"), fb.ArgumentTypeError, "stream is a Queue"),
    "an empty block": (lambda on, x: WRONG(x, block_size=0), fb.InvalidArgumentError, "block_size=0"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(device, what):
    call, error, match = REFUSED[what]
    with pytest.raises(error, match=match):
        call(device, device.empty(64, "i4"))


def test_names_that_may_be_elsewhere_are_not_refused():
    for more in ("#define JOIN(a, b) a##b\n", '#include "kernels.h"\n'):
        RawKernel(more + SHARED, "reverse")
    RawKernel(SHARED, "reverse", ("-Dreversed=reverse",))
