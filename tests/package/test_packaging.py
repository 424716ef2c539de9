"""The rules of setup.py, on a copy of the repository that has two small modules in place of the real ones.

Compiling the real ones takes too long for a test, and `make test` has just done it.
"""

import importlib.util
import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from functools import partial
from pathlib import Path
from unittest import mock

import pytest

from tests.helpers import processes
from tests.helpers.processes import ROOT

if not (ROOT / "setup.py").exists():
    pytest.skip("only in a checkout", allow_module_level=True)
pytest.importorskip("Cython")
pytest.importorskip("setuptools", minversion="77")
if not importlib.util.find_spec("stubgen_pyx"):  # which takes long to import
    pytest.skip("stubgen-pyx is not installed", allow_module_level=True)

pytestmark = pytest.mark.needs("no chosen device")
output_of, python = (partial(each, fresh=True) for each in (processes.output_of, processes.python))

ROOMS = ("core", "sync", "lifetimes", "events", "races", "queues")
FACE = Path("src", "forebay")
BENCH = Path("microbench")
BUILD = ("setup.py", "--quiet", "build_ext", "--inplace")
GXX = pytest.mark.skipif(shutil.which("g++") is None, reason="another compiler may say or do it otherwise")

# One module cimports the other across the folders, by both ways of naming it, and needs C++.
SOURCES = {
    "sync/smaller.hpp": "#pragma once\n",
    "sync/small.hpp": '#include "sync/smaller.hpp"\n',
    "sync/small.pxd": """
from libcpp.atomic cimport atomic

cdef extern from "sync/small.hpp":
    pass

cdef class Counter:
    cdef atomic[long long] count
    cdef long long advance(self) noexcept nogil
""",
    "sync/small.pyx": """
cdef class Counter:
    cdef long long advance(self) noexcept nogil:
        return self.count.fetch_add(1) + 1
""",
    "queues/opencl/large.pyx": """
from forebay.sync.small cimport Counter
from ...sync.small cimport Counter as SameCounter

cdef class User:
    cdef Counter counter

    def __init__(self) -> None:
        self.counter = SameCounter()

    def advance(self) -> int:
        return self.counter.advance()
""",
    "tests/observers/small.pyx": """
from forebay.sync.small cimport Counter

cdef extern from "queues/opencl/operations.hpp" namespace "forebay_cl":
    enum: N_CALLS

def advance():
    cdef Counter counter = Counter()
    return counter.advance() + N_CALLS
""",
}
USE = "from forebay.queues.opencl.large import User; u = User(); print(u.advance() + u.advance())"


@pytest.fixture
def checkout(tmp_path):
    """A copy of the repository with the modules above instead of its own."""
    copy = tmp_path / "checkout"
    ignore = shutil.ignore_patterns("*.so", "*.pyd", "*.pyx", "*.cpp", "__pycache__")
    for folder in (FACE, BENCH, *ROOMS, "tests"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=ignore)
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, copy / name)
    rules = (copy / "setup.py").read_text()
    assert rules.count('"-O2"') == 1
    (copy / "setup.py").write_text(rules.replace('"-O2"', '"-O0"'))  # which takes half as long
    (copy / FACE / "__init__.py").write_text('"""Without what it imports when it is whole."""\n')
    for name, text in SOURCES.items():
        (copy / name).write_text(text.lstrip())
    return copy


@pytest.fixture
def rules():
    """The names of setup.py, which are for the checkout's folder."""
    before = os.getcwd()
    os.chdir(ROOT)
    yield runpy.run_path("setup.py")
    os.chdir(before)


def modules(checkout, *folders):
    """The compiled modules, and when each was written."""
    return {path: path.stat().st_mtime_ns for folder in folders for path in (checkout / folder).rglob("*.so")}


def expected_in_wheel(checkout):
    """The files of a wheel but the compiled modules."""
    expected = {Path("forebay", name) for name in ("py.typed", "hip/facts.json", "hip/facts.pyi", "hip/__init__.pyi")}
    for pattern in ("**/*.py", "**/*.pyx", "**/*.pxd"):
        expected |= {path.relative_to(checkout / "src") for path in (checkout / FACE).glob(pattern)}
        for room in ROOMS:
            expected |= {Path("forebay", path.relative_to(checkout)) for path in (checkout / room).glob(pattern)}
    bench = [path.relative_to(checkout / BENCH) for path in (checkout / BENCH).rglob("*.[pc]*")]
    expected |= {Path("forebay/bench", path) for path in bench if path.suffix in (".py", ".c")}
    folders = [checkout / FACE / "compiler" / name for name in ("include", "include_nvidia")]
    headers = {path.relative_to(checkout / "src") for each in folders for path in each.rglob("*") if path.is_file()}
    assert len(headers) > 20
    return headers | {path.with_suffix(".pyi") if path.suffix == ".pyx" else path for path in expected}


@pytest.mark.long
def test_the_wheel_of_the_source_distribution(checkout, tmp_path):
    """It has everything and nothing else, the tag's version, stubs, and works without the checkout."""
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    if shutil.which("git"):
        for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "all"], ["tag", "v3.1.4"]):
            subprocess.run(["git", *words], cwd=checkout, check=True)
    output_of("-c", "import setuptools.build_meta as b; b.build_sdist('dist')", cwd=checkout)
    (path,) = (checkout / "dist").glob("*.tar.gz")
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path)
    source = tmp_path / path.name.removesuffix(".tar.gz")
    names = {path.relative_to(source).as_posix() for path in source.rglob("*")}
    folders = (checkout / folder for folder in (*ROOMS, "tests"))
    headers = {path.relative_to(checkout).as_posix() for folder in folders for path in folder.rglob("*.hpp")}
    assert any(name.startswith("tests/observers/") for name in headers)
    assert names >= headers | {*SOURCES, "setup.py"}

    earlier = source / "build" / f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}" / "forebay"
    earlier.mkdir(parents=True)
    (earlier / "stale.py").write_text("of an earlier build")
    output_of("-c", "import setuptools.build_meta as b; b.build_wheel('dist')", cwd=source)
    (path,) = (source / "dist").glob("*.whl")
    assert path.name.startswith("forebay-3.1.4-" if shutil.which("git") else "forebay-0.1.0-")
    wheel = zipfile.ZipFile(path)
    names = {Path(name) for name in wheel.namelist() if ".dist-info/" not in name}
    assert {name for name in names if name.suffix != ".so"} == expected_in_wheel(checkout)
    compiled = {re.sub(r"\..*", "", str(name)) for name in names if name.suffix == ".so"}
    assert compiled == {"forebay/core/cython_shared", "forebay/sync/small", "forebay/queues/opencl/large"}
    assert b"def advance(self) -> int:" in wheel.read("forebay/queues/opencl/large.pyi")
    wheel.extractall(tmp_path / "installed")
    assert output_of("-c", USE, cwd=tmp_path / "installed").strip() == "3"


@pytest.mark.long
def test_a_build_in_place_compiles_what_changed_and_says_it(checkout):
    lines = python(*BUILD, cwd=checkout).stderr.splitlines()
    said = [re.fullmatch(r"forebay: compiled (\d) of 3 modules: (\S+)", line) for line in lines]
    assert [match[1] for match in said] == ["1", "2", "3"]
    names = {"forebay.core.cython_shared", "forebay.sync.small", "forebay.queues.opencl.large"}
    assert {match[2] for match in said} == names
    first = modules(checkout, "sync", "queues")
    assert len(first) == 2
    assert not [path for path in checkout.rglob("*.cpp") if "build" not in path.relative_to(checkout).parts]
    assert not modules(checkout, "tests")
    assert python(*BUILD, cwd=checkout).stderr == ""
    assert modules(checkout, "sync", "queues") == first

    for name in ("sync/small.pxd", "sync/smaller.hpp"):  # both modules depend on them
        os.utime(checkout / name)
        output_of(*BUILD, cwd=checkout)
        second, first = first, modules(checkout, "sync", "queues")
        assert all(first[path] > second[path] for path in second)

    os.utime(checkout / "queues/opencl/operations.hpp")  # neither does, but a module of the tests
    output_of(*BUILD, "--tests", cwd=checkout)
    assert modules(checkout, "sync", "queues") == first
    (tests,) = modules(checkout, "tests").values()
    os.utime(checkout / "queues/opencl/operations.hpp")
    output_of(*BUILD, "--tests", cwd=checkout)
    assert min(modules(checkout, "tests").values()) > tests

    output_of("-c", "import setuptools.build_meta as b; b.build_editable('editable')", cwd=checkout)
    assert modules(checkout, "sync", "queues") == first


@pytest.mark.long
def test_what_ends_a_build_is_said_plainly(checkout):
    done = python(*BUILD, "--force", cwd=checkout, CXX="no-such-compiler", CC="no-such-compiler")
    assert done.returncode != 0
    assert "no-such-compiler" in done.stderr
    assert "apt-get install g++" in done.stderr
    assert "Traceback" not in done.stderr
    done = python("setup.py", "build_ext", "--tests", cwd=checkout)
    assert done.returncode != 0
    assert "--tests needs --inplace" in done.stderr
    (checkout / "queues/wrong.pyx").write_text("def wrong() ->:\n")
    done = python(*BUILD, cwd=checkout)
    assert done.returncode != 0
    assert "queues/wrong.pyx:1:" in done.stderr


@GXX
@pytest.mark.long
def test_modules_depend_on_the_headers_that_the_compiler_reads(rules):
    """All of them, in whatever folder, and no others: the real ones, as far as they are translated here."""
    command = ["g++", "-MM", "-std=c++17", "-I.", f"-I{sysconfig.get_path('include')}"]
    for source in sorted(Path("build").glob("cython-*/**/*.cpp")):
        read = subprocess.run([*command, source], capture_output=True, text=True, check=True).stdout.split()
        assert rules["headers_of"](source) == sorted(word for word in read if word.endswith(".hpp")), source


@GXX
@pytest.mark.long
def test_precompiled_headers_change_no_module(checkout):
    """They are for builds from nothing, and nothing of them stays. A compiler that makes none goes without."""
    rules, made = (checkout / "setup.py").read_text(), []
    rules = rules.replace("MANY = 20", "MANY = 1").replace('"-O0"', '"-O2"')
    for first in ("", "#error"):
        (checkout / "setup.py").write_text(rules.replace('INCLUDED = """', f'INCLUDED = """{first}'))
        done = python("setup.py", "build_ext", "--inplace", "--force", cwd=checkout, CXX="g++", CC="gcc")
        assert done.returncode == 0, done.stderr
        code = {path: path.read_bytes() for path in modules(checkout, *ROOMS)}
        made.append((len(re.findall(r"/large\.o .* -include ", done.stdout)), code))
    assert [included for included, _ in made] == [1, 0]
    assert made[0][1] == made[1][1]
    assert not [path for path in (checkout / "build").rglob("*") if "headers" in path.name or path.suffix == ".gch"]


@pytest.mark.parametrize(("system", "missing"), [("win32", "WSL 2"), ("darwin", "Apple's OpenCL"), ("aix", "tried")])
def test_another_system_is_told_what_is_missing(rules, system, missing):
    rules["require_linux"]()
    with mock.patch.object(sys, "platform", system):
        for command in ("dist_info", "bdist_wheel", "build_ext"):  # of which pip runs the first before all others
            with (
                mock.patch.object(sys, "argv", ["setup.py", command]),
                pytest.raises(SystemExit, match=f"cannot be built on {system}") as error,
            ):
                rules["require_linux"]()
            assert missing in str(error.value)
            assert "docs/platforms.md" in str(error.value)
        with mock.patch.object(sys, "argv", ["setup.py", "sdist"]):
            rules["require_linux"]()
