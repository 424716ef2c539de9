"""``python -m forebay.hip``, and `stand_in`: forebay where a program imports hip-python."""

import pytest

from forebay.hip.stand_in import LIBRARIES
from tests.helpers.processes import output_of, python

pytestmark = pytest.mark.needs("the default device")

WHERE = (
    "import os, sys; print(sys.argv, sys.path[0], __name__, os.path.basename(__file__), sys.flags.dont_write_bytecode)"
)


def run(*arguments, **options):
    done = python(*arguments, fresh=True, timeout=60, **options)
    return done.returncode, done.stdout, done.stderr


def in_place(*arguments, **options):
    """What a program prints that runs with forebay as hip-python."""
    return output_of("-m", "forebay.hip", *arguments, fresh=True, timeout=60, **options)


@pytest.mark.parametrize(("program", "arguments"), [
    (f"{WHERE}; sys.exit(7)", ["program.py", "a", "-b", "--help"]),
    (f"{WHERE}; print(__spec__.name)", ["-m", "program", "-m", "x"]), ("def f():\n    1 / 0\n\n\nf()", ["program.py"]),
    ("raise SystemExit('a text')", ["-m", "program"]), ("", ["not_there.py"]), ("", ["-m", "not_there"]),
    ("", ["-c", WHERE.replace("os.path.basename(__file__)", "0"), "a"]),
])  # fmt: skip
def test_it_is_python_itself(tmp_path, program, arguments):
    """Arguments, where imports begin, the exit status and tracebacks."""
    (tmp_path / "program.py").write_text(program)
    assert run("-m", "forebay.hip", *arguments, cwd=tmp_path) == run(*arguments, cwd=tmp_path)


@pytest.mark.parametrize("options", [["-O", "-m", "forebay.hip"], ["-Om", "forebay.hip"], ["-Omforebay.hip"]])
def test_python_keeps_its_options(options):
    assert output_of(*options, "-c", "import sys; print(sys.flags.optimize)", fresh=True) == "1\n"


def test_what_cannot_be_run_is_told():
    status, printed, said = run("-m", "forebay.hip")
    assert (status, printed) == (2, "")
    assert "usage: python -m forebay.hip PROGRAM" in said
    assert in_place("--help") == said
    status, _, said = run("-I", "-m", "forebay.hip", "-c", "import hip")
    assert status == 1
    assert "-E and -I" in said


NAMES = """
import importlib.util
assert importlib.util.find_spec("rocm.bindings.hip") and importlib.util.find_spec("hip.hiprtc")
import hip, rocm, rocm.version, forebay.hip, forebay.hiprtc, forebay.hip.types
import hip.hip as a, hip.hiprtc as b, hip._util.types as c, hip.hiprtc_pyext
from rocm.bindings import hip as d, hiprtc as e
from rocm.bindings.util import types as f
from rocm.bindings.hip import hipError_t
assert a is d is forebay.hip and b is e is forebay.hiprtc and c is f is forebay.hip.types
assert hip.HIP_VERSION_TUPLE[:3] == rocm.version.HIP_VERSION_TUPLE == (a.HIP_VERSION_MAJOR, a.HIP_VERSION_MINOR, 0)
assert hip.HIP_VERSION == a.HIP_VERSION and hip.__version__.startswith(hip.hip_version_name + "+forebay.")
assert b.ext.hiprtcLinkCreate2(HIPRTC_JIT_LTO=1, hipJitOptionMaxRegisters=32)[0] == 0
print(importlib.util.find_spec("hip.nothing"))
"""


def test_all_names_of_all_versions():
    assert in_place("-W", "error", "-c", NAMES) == "None\n"


SPAWNS = """
import multiprocessing, subprocess, sys

def square(x):
    from hip import hip
    code, count = hip.hipGetDeviceCount()
    return x * x, hip.__name__, int(code)

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(square, [3]))
    subprocess.run([sys.executable, "-c", "from rocm.bindings import hip; print(hip.__name__)"], check=True)
"""


def test_processes_of_the_program_have_it_too(tmp_path):
    (tmp_path / "program.py").write_text(SPAWNS)
    assert in_place(tmp_path / "program.py") == "[(9, 'forebay.hip', 0)]\nforebay.hip\n"


LIBRARY = """
import hip.{name} as library
from hip.{name} import {name}Status_t as status
from rocm.bindings import {name}
assert not isinstance(3, status) and status.SUCCESS != 0
assert not hasattr(library, "__all__")
for use in (lambda: {name}.create(), lambda: int(library.create)):
    try:
        use()
    except NotImplementedError as error:
        print(error)
"""


def test_libraries_can_be_imported_but_not_called():
    for name in ("hipblas", "hiprand", "rccl"):
        said = in_place("-c", LIBRARY.format(name=name))
        instead = f"; {LIBRARIES[name]}" if LIBRARIES[name] else ""
        assert said == 2 * f"create: forebay has no {name}, a library for AMD's devices only{instead}\n"


def package_of_amd(folder, name="hip_python"):
    """A package as AMD's, with its metadata."""
    (folder / "hip").mkdir()
    (folder / "hip" / "__init__.py").write_text("whose = 'AMD'")
    (folder / f"{name}-7.0.dist-info").mkdir()
    (folder / f"{name}-7.0.dist-info" / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 7.0\n")
    return {"PYTHONPATH": folder}


def test_the_user_chooses_beside_amds_package(tmp_path):
    env = package_of_amd(tmp_path)
    assert run("-c", "import forebay.hip, hip; print(hip.whose)", **env) == (0, "AMD\n", "")
    status, printed, said = run("-m", "forebay.hip", "-c", "from hip import hip; print(hip.__name__)", **env)
    assert (status, printed) == (0, "forebay.hip\n")
    assert said == "`import hip` gives forebay; hip_python 7.0 is installed and not used\n"


STANDS_IN = """
import multiprocessing
from forebay.hip.stand_in import stand_in

def name(_):
    from hip import hip
    return hip.__name__

if __name__ == "__main__":
    stand_in()
    stand_in()
    import hip.hiprtc
    from rocm.bindings import hip as bindings
    assert hip.hip is bindings
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(name, [0]))
"""


def test_a_service_calls_a_function(tmp_path):
    (tmp_path / "program.py").write_text(STANDS_IN)
    status, printed, said = run(tmp_path / "program.py", FOREBAY_LOG="info")
    assert (status, printed) == (0, "['forebay.hip']\n")
    assert said.count("`import hip` gives forebay\n") == 2  # the process of the pool says so as well


def test_it_is_too_late_after_the_first_import(tmp_path):
    status, _, said = run(
        "-c", "import hip; from forebay.hip.stand_in import stand_in; stand_in()", **package_of_amd(tmp_path)
    )
    assert status == 1
    assert str(tmp_path / "hip") in said
    assert "call it before the first `import hip`" in said


COMMON = """
import ctypes, sys
import numpy as np
{imports}

def check(result):
    code, *values = result if isinstance(result, tuple) else (result,)
    if int(code) != 0:
        raise RuntimeError(str(code))
    return values[0] if len(values) == 1 else tuple(values)

SOURCE = b'''
extern "C" __global__ void scale(char *rows, size_t pitch, float by, int width) {{
    float *row = (float *) (rows + blockIdx.y * pitch);
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x < width) row[x] = row[x] * by + blockIdx.y;
}}
'''
program = check(hiprtc.hiprtcCreateProgram({source}, 0, [], []))
{properties}
options = [{option}]
check(hiprtc.hiprtcCompileProgram(program, len(options), options))
code = bytearray(check(hiprtc.hiprtcGetCodeSize(program)))
check(hiprtc.hiprtcGetCode(program, code))
module = check(hip.hipModuleLoadData(code))
scale = check(hip.hipModuleGetFunction(module, b"scale"))
width, height = 70, 5
host = np.arange(width * height, dtype=np.float32).reshape(height, width)
stream = check(hip.hipStreamCreate())
{rows}
kinds = hip.hipMemcpyKind
check(hip.hipMemcpy2D(rows, pitch, host, width * 4, width * 4, height, kinds.hipMemcpyHostToDevice))
{launch}
back = np.zeros_like(host)
check(hip.hipMemcpy2DAsync(back, width * 4, rows, pitch, width * 4, height, kinds.hipMemcpyDeviceToHost, stream))
check(hip.hipStreamSynchronize(stream))
assert np.array_equal(back, host * 2 + np.arange(height)[:, None]), back
check(hip.hipFree(rows))
check(hip.hipStreamDestroy(stream))
check(hip.hipModuleUnload(module))
check(hiprtc.hiprtcDestroyProgram(program.createRef()))
print(sys.argv[1:])
"""

VERSION_7 = {
    "imports": "from hip import hip, hiprtc\nfrom hip._util.types import DeviceArray, ListOfPointer",
    "properties": "properties = hip.hipDeviceProp_t()\ncheck(hip.hipGetDeviceProperties(properties, 0))",
    "source": "SOURCE, b'scale'",
    "option": "b'--offload-arch=' + properties.gcnArchName",
    "rows": """
pitched = hip.hipPitchedPtr()
check(hip.hipMalloc3D(pitched, hip.hipExtent(width=width * 4, height=height, depth=1)))
rows, pitch = pitched.ptr, pitched.pitch
assert isinstance(rows, DeviceArray)
""",
    "launch": """
values = [ctypes.c_void_p(int(rows)), ctypes.c_size_t(pitch), ctypes.c_float(2), ctypes.c_int(width)]
addresses = ListOfPointer([ctypes.addressof(value) for value in values])
check(hip.hipModuleLaunchKernel(scale, 3, height, 1, 32, 1, 1, 0, stream, addresses, 0))
""",
}
VERSION_10 = {
    "imports": "from rocm.bindings import hip, hiprtc\nfrom rocm.version import HIP_VERSION_TUPLE",
    "properties": "properties = check(hip.hipGetDeviceProperties(0))",
    "source": "SOURCE.decode(), 'scale'",
    "option": "'--offload-arch=' + properties.gcnArchName",
    "rows": """
pitched = check(hip.hipMalloc3D(hip.hipExtent(width * 4, height, 1)))
rows, pitch = pitched.ptr, pitched.pitch
assert HIP_VERSION_TUPLE[0] >= 7
""",
    "launch": """
params = hip.hipKernelNodeParams()
params.func, params.gridDim, params.blockDim = scale, hip.dim3(3, height, 1), hip.dim3(32, 1, 1)
params.extra = (rows, ctypes.c_size_t(pitch), ctypes.c_float(2), ctypes.c_int(width))
graph = check(hip.hipGraphCreate(0))
check(hip.hipGraphAddKernelNode(graph, None, 0, params))
executable, _, _ = check(hip.hipGraphInstantiate(graph, 0))
check(hip.hipGraphLaunch(executable, stream))
""",
}


@pytest.mark.needs("a compiler of HIP C++")
@pytest.mark.executes
@pytest.mark.parametrize("version", [VERSION_7, VERSION_10], ids=["7", "10"])
def test_programs_of_both_versions_run_as_they_are(tmp_path, version):
    (tmp_path / "program.py").write_text(COMMON.format(**version))
    assert in_place(tmp_path / "program.py", "an argument") == "['an argument']\n"
