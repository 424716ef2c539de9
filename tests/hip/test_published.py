"""Packages as they are published that import hip-python, unmodified: by ``python -m forebay.hip``."""

import shutil
import subprocess
import sys

import pytest

from tests.helpers.processes import ROOT, output_of
from tools import hip_names

pytestmark = [pytest.mark.long, pytest.mark.needs("the default device", "a compiler of HIP C++", "real hardware")]


@pytest.fixture(scope="session")
def packages(tmp_path_factory):
    """A function that gets packages, without what they depend on, and returns their folder."""

    def get(*words):
        folder = tmp_path_factory.mktemp("packages")
        command, *names = words
        where = "--target" if command == "install" else "--dest"
        line = [sys.executable, "-m", "pip", command, "--quiet", "--no-deps", where, str(folder), *names]
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"pip {' '.join(words)}: {done.stderr.strip().splitlines()[-1]}")
        return folder

    return get


TUNES = """
import sys
first = sys.argv[1] == "first"
if first:
    import contextlib, pyopencl
    with contextlib.suppress(pyopencl.Error):
        pyopencl.get_platforms()
import numpy as np
from kernel_tuner import run_kernel, tune_kernel

source = '''
__global__ void vector_add(float* c, const float* a, const float* b, int n) {
    int i = blockIdx.x * block_size_x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
'''
n, rng = np.int32(10_000), np.random.default_rng(7)
a, b = rng.random(n, "f4"), rng.random(n, "f4")
arguments = [np.zeros_like(a), a, b, n]
tuned, _ = tune_kernel(
    "vector_add", source, n, arguments, {"block_size_x": [16, 32, 64]}, lang="HIP",
    answer=[a + b, None, None, None], quiet=True,
)
assert all(isinstance(each["time"], float) for each in tuned) and len(tuned) == 3, tuned
c, *_ = run_kernel("vector_add", source, n, arguments, {"block_size_x": 64}, lang="HIP", quiet=True)
assert np.array_equal(c, a + b)
if not first:
    import pyopencl
    assert pyopencl.get_platforms()
print("tuned")
"""


@pytest.fixture(scope="session")
def kernel_tuner(packages):
    return packages("install", "kernel_tuner==1.5.0", "python-constraint2", "xmltodict")


@pytest.mark.parametrize("pyopencl", ["first", "last"])
def test_kernel_tuner(kernel_tuner, pyopencl):
    """Its tuner compares what each variant has computed with the answer. It imports pyopencl where that is there."""
    done = output_of("-m", "forebay.hip", "-c", TUNES, pyopencl, fresh=True, timeout=120, PYTHONPATH=kernel_tuner)
    assert done.splitlines()[-1] == "tuned"


def test_kernel_tuners_own_tests(kernel_tuner, packages, tmp_path):
    """Those of its HIP functions, which only the archive of its source has."""
    (archive,) = packages("download", "--no-binary", ":all:", "kernel_tuner==1.5.0").iterdir()
    shutil.unpack_archive(archive, tmp_path)
    (root,) = tmp_path.iterdir()
    options = ["-m", "pytest", "-q", "-c", "/dev/null", "-p", "no:cacheprovider", "-p", "no:randomly", "--rootdir"]
    tests = root, root / "test" / "test_hip_functions.py"
    said = output_of("-m", "forebay.hip", *options, *tests, fresh=True, timeout=120, cwd=root, PYTHONPATH=kernel_tuner)
    assert said.splitlines()[-1].startswith("6 passed in ")


CUDA_CORE = """
import numpy as np
from cuda.core import Device, DeviceMemoryResource
from rocm.bindings import hip

device = Device()
device.set_current()
assert device.uuid.startswith("GPU-")
stream, resource = device.create_stream(), DeviceMemoryResource(device.device_id)
host, back = np.arange(1000, dtype="f8"), np.zeros(1000)
buffers = [resource.allocate(host.nbytes, stream) for _ in range(2)]
kinds = hip.hipMemcpyKind
for to, of, kind in (
    (buffers[0].handle, host, kinds.hipMemcpyHostToDevice),
    (buffers[1].handle, buffers[0].handle, kinds.hipMemcpyDeviceToDevice),
    (back, buffers[1].handle, kinds.hipMemcpyDeviceToHost),
):
    (code,) = hip.hipMemcpyAsync(to, of, host.nbytes, kind, stream.handle)
    assert int(code) == 0
stream.sync()
assert np.array_equal(host, back)
buffers[0].close()
borrowed = device.create_stream(stream)
assert int(borrowed.handle) == int(stream.handle)
device.sync()
print("copied")
"""


def test_cuda_core_of_amd(packages):
    """AMD's package with CUDA Python's names on rocm.bindings. What is left is freed when the interpreter ends."""
    folder = packages("install", "hip-python-interop==10.0.0.0.1.2")
    assert output_of("-m", "forebay.hip", "-c", CUDA_CORE, fresh=True, timeout=120, PYTHONPATH=folder) == "copied\n"


def test_the_page_of_missing_names(packages):
    """It is what AMD's stubs have and forebay does not. Classes and functions come and go with both."""
    version = "10.0.0.0.1.2"
    wheels = packages("download", f"rocm-bindings-hip=={version}", f"rocm-bindings-core=={version}")
    page = (ROOT / "docs" / "reference" / "hip-names.md").read_text(encoding="utf-8")
    assert hip_names.page(sorted(wheels.glob("*.whl"))) == page
    assert "## Functions" not in page
