"""The compiler as a package of its own: built from its folder, and used where there is nothing else of forebay."""

import importlib.util
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import pytest

from tests.helpers.processes import ROOT, command

pytestmark = [pytest.mark.needs("no chosen device"), pytest.mark.long]
FOLDER = ROOT / "src" / "forebay" / "compiler"
if not (ROOT / "setup.py").exists():
    pytest.skip("only in a checkout", allow_module_level=True)

PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "forebay-compiler"
version = "1"
[tool.setuptools.packages.find]
namespaces = true
[tool.setuptools.package-data]
"*" = ["include/**/*", "include_nvidia/**/*"]
"""
USE = """
import sys
from forebay.compiler.by_clang import compile_to_spirv
from forebay.compiler.by_driver import compile_by_driver
from forebay.compiler.clang import find_clang
from forebay.compiler.errors import BuildError
from forebay.compiler.options import split_options
from forebay.compiler.program import NotNamedError, Source

clang, why = find_clang()
text = '#include "n.h"\\ntemplate <class T> __global__ void twice(T* x, const int* n) { if (!*n) x[0] = N; }'
source = Source(text, "twice.hip", {"n.h": "#define N M"}, split_options(["-DM=2"]), ("twice<float>",))
program = compile_to_spirv(clang, source)
print(program.code[:4].hex(), [(each.name, each.type_name, each.const) for each in program.kernels[0].parameters])
wrong = "__global__ void k() { nonsense; }"
for change, expected in (({"text": wrong}, BuildError), ({"expressions": ("once<int>",)}, NotNamedError)):
    try:
        compile_to_spirv(clang, source._replace(**change))
    except expected as error:
        print(type(error).__name__, "error:" in error.log)
others = {name.split(".")[1] for name in sys.modules if name.startswith("forebay.")}
print(*sorted(others), *sorted({"numpy", "pyopencl"} & {*sys.modules}))
"""


def test_its_wheel_compiles_without_the_rest(tmp_path):
    if not (shutil.which("clang") or importlib.util.find_spec("ziglang")):
        pytest.skip("no clang")
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    shutil.copytree(FOLDER, tmp_path / "forebay" / "compiler", ignore=shutil.ignore_patterns("__pycache__"))
    build = ("-m", "pip", "wheel", "-q", "--no-index", "--no-deps", "--no-build-isolation", "-w", tmp_path, tmp_path)
    subprocess.run([sys.executable, *map(str, build)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        names = {name for name in file.namelist() if ".dist-info" not in name}
        assert names == {
            path.relative_to(tmp_path).as_posix() for path in (tmp_path / "forebay").rglob("*") if path.is_file()
        }
        file.extractall(tmp_path / "installed")
    libraries = sysconfig.get_path("purelib")  # without what an editable forebay adds by its .pth file
    environment = {"PYTHONPATH": f"{tmp_path / 'installed'}:{libraries}", "FOREBAY_CACHE": tmp_path / "cache"}
    arguments, env = command("-S", "-c", USE, **environment)
    said = subprocess.run(arguments, env=env, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert said.splitlines() == [
        "03022307 [('x', 'float*', False), ('n', 'int*', True)]", "BuildError True", "NotNamedError True", "compiler",
    ]  # fmt: skip
