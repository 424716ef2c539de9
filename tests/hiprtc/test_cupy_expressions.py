"""`forebay.cupy_style`: kernels from expressions in C++, and what a raw kernel says and is told of itself."""

import numpy as np
import pytest

import forebay as fb
from forebay.cupy_style import ElementwiseKernel, RawKernel, RawModule, ReductionKernel

pytestmark = [pytest.mark.executes, pytest.mark.needs("a compiler of HIP C++", "doubles")]


@pytest.fixture(autouse=True)
def needs_clang(compiled):
    """The tests need what `compiled` needs."""


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
        assert np.array_equal(z.get(queue=queue), 2 * x + t[::-1].reshape(3, 100))
        assert np.flatnonzero(last.get(queue=queue)).tolist() == [299]
    assert (kernel.nin, kernel.nout, kernel.nargs, kernel.name) == (3, 2, 5, "mixed")
    assert queue.stats.launches == 2


def test_a_reduction_kernel(device):
    norm = ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2norm", reduce_type="double")
    x = np.linspace(0, 1, 60000, dtype="f4").reshape(200, 300)
    for _ in range(2):
        y = norm(device.array(x), axis=(0, 1), keepdims=True)
        assert y.shape == (1, 1)
        assert y.get() == np.float32(np.linalg.norm(x.astype("f8")))
    out = device.empty((), "f4")
    assert norm(device.empty(0, "f4"), out=out) is out
    assert out.get() == 0
    with pytest.raises(fb.NotSupportedError, match="axis=0 of 2"):
        norm(device.array(x), axis=0)


SHARED = """
extern "C" __global__ void reversed(int* x) {
    __shared__ int own[64];
    extern __shared__ int more[];
    own[threadIdx.x] = x[threadIdx.x];
    more[threadIdx.x] = 1;
    __syncthreads();
    x[threadIdx.x] = own[63 - threadIdx.x] + more[63 - threadIdx.x];
}"""


def test_a_raw_kernel_on_a_stream_and_its_attributes(device, queue):
    kernel = RawKernel(SHARED, "reversed", device=device)
    x = device.array(np.arange(64, dtype="i4"))
    device.finish()
    kernel((1,), (64,), (x,), shared_mem=256, stream=queue)
    assert np.array_equal(x.get(queue=queue), np.arange(64)[::-1] + 1)
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
    with pytest.raises(fb.ArgumentTypeError, match="stream is a Queue"):
        kernel((1,), (64,), (x,), stream=0)
    with pytest.raises(fb.NotSupportedError, match="cannot wait for each other"):
        kernel((1,), (64,), (x,), enable_cooperative_groups=True)


def test_names_are_checked_at_once(device):
    module = RawModule(code=SHARED, device=device)
    with pytest.raises(fb.InvalidArgumentError, match="no kernel 'reverse'; there are reversed"):
        module.get_function("reverse")
    for name in ("reverse", "reverse<int>"):
        with pytest.raises(fb.InvalidArgumentError, match="there is no 'reverse' in the source"):
            RawKernel(SHARED, name)
    with pytest.raises(fb.InvalidArgumentError, match="no 'reverse' in the source"):
        RawModule(code=SHARED, name_expressions=["reverse<int>"])
    with pytest.raises(fb.InvalidArgumentError, match="'2d' cannot be"):
        RawKernel(SHARED, "2d")
    with pytest.raises(fb.ArgumentTypeError, match="a str, not bytes"):
        RawKernel(SHARED, b"reversed")
    for more in ("#define JOIN(a, b) a##b\n", '#include "kernels.h"\n'):  # which may have it
        RawKernel(more + SHARED, "reverse")
    RawKernel(SHARED, "reverse", ("-Dreversed=reverse",))
    with pytest.raises(fb.InvalidArgumentError, match="'fload32' is no type"):
        ElementwiseKernel("fload32 x", "T y", "y = x")
    with pytest.raises(fb.InvalidArgumentError, match="reduce_type='flot'"):
        ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", reduce_type="flot")


def test_mistakes(device, queue):
    x = device.empty(4, "f4")
    wrong = ElementwiseKernel("T x", "T y", "y = x * q", "wrong")
    with pytest.raises(fb.BuildError, match=r"wrong, 'y = x \* q'(.*\n)*.*\bq\b"):
        wrong(x)
    with pytest.raises(fb.ArgumentTypeError, match="stream is a Queue"):
        wrong(x, stream="0")
    with pytest.raises(fb.InvalidArgumentError, match="block_size=0"):
        wrong(x, block_size=0)
