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
from pathlib import Path

import pytest

from tests.helpers.processes import ROOT, output_of, python

if not (ROOT / "setup.py").exists():
    pytest.skip("only in a checkout", allow_module_level=True)
pytest.importorskip("Cython")
pytest.importorskip("setuptools", minversion="77")
if not importlib.util.find_spec("stubgen_pyx"):  # which takes long to import
    pytest.skip("stubgen-pyx is not installed", allow_module_level=True)

pytestmark = pytest.mark.needs("no chosen device")

ROOMS = ("core", "spirv", "sync", "lifetimes", "events", "races", "queues")
FACE = Path("src", "forebay")
BENCH = Path("microbench")
BUILD_SDIST = "import setuptools.build_meta as b; print(b.build_sdist('dist'))"
BUILD_WHEEL = "import setuptools.build_meta as b; print(b.build_wheel('dist'))"

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
    "queues/drivers/opencl/large.pyx": """
from forebay.sync.small cimport Counter
from ....sync.small cimport Counter as SameCounter

cdef class User:
    cdef Counter counter

    def __init__(self) -> None:
        self.counter = SameCounter()

    def advance(self) -> int:
        return self.counter.advance()
""",
    "tests/observers/small.pyx": """
from forebay.sync.small cimport Counter

cdef extern from "queues/drivers/opencl/calls.hpp" namespace "forebay_cl":
    enum: N_CALLS

def advance():
    cdef Counter counter = Counter()
    return counter.advance() + N_CALLS
""",
}
USE = "from forebay.queues.drivers.opencl.large import User; u = User(); print(u.advance() + u.advance())"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the repository with the modules above instead of its own."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, copy / name)
    ignore = shutil.ignore_patterns("*.so", "*.pyd", "*.pyx", "*.cpp", "__pycache__")
    for folder in (FACE, BENCH, *ROOMS, "tests"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=ignore)
    rules = (copy / "setup.py").read_text()
    assert rules.count('"-O2"') == 1
    (copy / "setup.py").write_text(rules.replace('"-O2"', '"-O0"'))  # which takes half as long
    (copy / FACE / "__init__.py").write_text('"""Without what it imports when it is whole."""\n')
    for name, text in SOURCES.items():
        (copy / name).write_text(text.lstrip())
    return copy


@pytest.fixture(scope="module")
def wheel(checkout):
    output_of("-c", BUILD_WHEEL, cwd=checkout)
    (path,) = (checkout / "dist").glob("*.whl")
    return path


def modules(folder):
    return {path.relative_to(folder): path.stat().st_mtime_ns for path in folder.rglob("*.so")}


@pytest.mark.long
def test_the_wheel_has_everything_and_nothing_else(checkout, wheel):
    assert wheel.name.startswith("forebay-0.1.0-")
    names = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
    assert {name.split("/")[0] for name in names} == {"forebay"}
    suffixes = {".py", ".pyi", ".pxd", ".so", ".typed", ".c", ".h", ".cuh", ".hpp", ""}
    assert {Path(name).suffix for name in names} == suffixes
    expected = {Path("forebay/py.typed")}
    bench = [path.relative_to(checkout / BENCH) for path in (checkout / BENCH).rglob("*.[pc]*")]
    expected |= {Path("forebay/bench", path) for path in bench if path.suffix in (".py", ".c")}
    folders = [checkout / FACE / "hiprtc" / name for name in ("include", "include_nvidia")]
    headers = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert len(headers) > 20
    expected |= {path.relative_to(checkout / "src") for path in headers}
    for pattern in ("**/*.py", "**/*.pyx", "**/*.pxd"):
        expected |= {path.relative_to(checkout / "src") for path in (checkout / FACE).glob(pattern)}
        for room in ROOMS:
            expected |= {Path("forebay", path.relative_to(checkout)) for path in (checkout / room).glob(pattern)}
    expected = {path.with_suffix(".pyi") if path.suffix == ".pyx" else path for path in expected}
    assert {Path(name) for name in names if not name.endswith(".so")} == expected
    compiled = {re.sub(r"\..*", "", name) for name in names if name.endswith(".so")}
    assert compiled == {"forebay/core/cython_shared", "forebay/sync/small", "forebay/queues/drivers/opencl/large"}


@pytest.mark.long
def test_the_source_distribution_has_what_builds_and_tests_it(checkout):
    output_of("-c", BUILD_SDIST, cwd=checkout)
    (path,) = (checkout / "dist").glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    folders = (checkout / folder for folder in (*ROOMS, "tests"))
    headers = {path.relative_to(checkout).as_posix() for folder in folders for path in folder.rglob("*.hpp")}
    assert any(name.startswith("tests/observers/") for name in headers)
    assert names >= headers | {*SOURCES, "setup.py", "tests/observers/recorder.pxi"}


def test_the_wheel_has_stubs_with_the_annotations(wheel):
    stub = zipfile.ZipFile(wheel).read("forebay/queues/drivers/opencl/large.pyi").decode()
    assert "def advance(self) -> int:" in stub


def version_of(checkout, folder):
    folder.mkdir()
    ask = "import setuptools.build_meta as b, sys; print(b.prepare_metadata_for_build_wheel(sys.argv[1]))"
    name = output_of("-c", ask, folder, cwd=checkout).split()[-1]
    return name.removeprefix("forebay-").removesuffix(".dist-info")


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.long
def test_the_version_is_that_of_the_last_tag(checkout, tmp_path):
    copy = tmp_path / "checkout"
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns("build", "dist"))
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "all"], ["tag", "v3.1.4"]):
        subprocess.run(["git", *words], cwd=copy, check=True)
    assert version_of(copy, tmp_path / "at") == "3.1.4"
    (copy / "new").touch()
    subprocess.run(["git", "add", "-A"], cwd=copy, check=True)
    subprocess.run(["git", *who, "commit", "-qm", "more"], cwd=copy, check=True)
    assert version_of(copy, tmp_path / "after").startswith("3.1.5.dev1")


def test_the_wheel_works_without_the_checkout(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    assert output_of("-c", USE, cwd=tmp_path).strip() == "3"


@pytest.mark.long
def test_modules_that_are_gone_do_not_stay_in_the_next_wheel(checkout, wheel):
    stale = checkout / "queues/stale.py"
    stale.write_text("")
    output_of("-c", BUILD_WHEEL, cwd=checkout)
    assert "forebay/queues/stale.py" in zipfile.ZipFile(wheel).namelist()
    stale.unlink()
    output_of("-c", BUILD_WHEEL, cwd=checkout)
    assert "forebay/queues/stale.py" not in zipfile.ZipFile(wheel).namelist()


@pytest.mark.long
def test_a_build_in_place_compiles_what_changed_and_leaves_no_generated_source(checkout):
    build = ("setup.py", "--quiet", "build_ext", "--inplace")
    output_of(*build, cwd=checkout)
    first = modules(checkout / "queues") | modules(checkout / "sync")
    assert len(first) == 2
    assert not [path for path in checkout.rglob("*.cpp") if "build" not in path.relative_to(checkout).parts]

    output_of(*build, cwd=checkout)
    assert modules(checkout / "queues") | modules(checkout / "sync") == first

    third = first
    for name in ("sync/small.pxd", "sync/smaller.hpp"):  # both modules depend on them
        os.utime(checkout / name)
        output_of(*build, cwd=checkout)
        second, third = third, modules(checkout / "queues") | modules(checkout / "sync")
        assert all(third[name] > second[name] for name in second)

    os.utime(checkout / "queues/drivers/opencl/calls.hpp")  # neither
    output_of(*build, cwd=checkout)
    assert modules(checkout / "queues") | modules(checkout / "sync") == third

    output_of("-c", "import setuptools.build_meta as b; b.build_editable('editable')", cwd=checkout)
    assert modules(checkout / "queues") | modules(checkout / "sync") == third


@pytest.mark.skipif(shutil.which("g++") is None, reason="another compiler may say it otherwise")
@pytest.mark.long
def test_modules_depend_on_the_headers_that_the_compiler_reads(monkeypatch):
    """All of them, in whatever folder, and no others: the real ones, as far as they are translated here."""
    monkeypatch.chdir(ROOT)
    headers_of = runpy.run_path("setup.py")["headers_of"]
    sources = sorted(Path("build").glob("cython-*/**/*.cpp"))
    command = ["g++", "-MM", "-std=c++17", "-I.", f"-I{sysconfig.get_path('include')}"]
    for source in sources:
        read = subprocess.run([*command, source], capture_output=True, text=True, check=True).stdout.split()
        assert headers_of(source) == sorted(word for word in read if word.endswith(".hpp")), source


@pytest.mark.long
def test_a_build_says_what_it_compiles(checkout):
    build = ("setup.py", "--quiet", "build_ext", "--inplace")
    names = {"forebay.core.cython_shared", "forebay.sync.small", "forebay.queues.drivers.opencl.large"}
    lines = python(*build, "--force", cwd=checkout).stderr.splitlines()
    said = [re.fullmatch(r"forebay: compiled (\d) of 3 modules: (\S+)", line) for line in lines]
    assert [match[1] for match in said] == ["1", "2", "3"]
    assert {match[2] for match in said} == names
    assert python(*build, cwd=checkout).stderr == ""


@pytest.mark.skipif(shutil.which("g++") is None, reason="another compiler may do it otherwise, and go without")
@pytest.mark.long
def test_precompiled_headers_change_no_module(checkout):
    """They are for builds from nothing, and nothing of them stays. A compiler that makes none goes without."""
    rules = (checkout / "setup.py").read_text()
    build = ("setup.py", "build_ext", "--inplace", "--force")
    made = []
    try:
        for first in ("", "#error"):
            few = (
                rules.replace('"-O0"', '"-O2"')
                .replace("MANY = 20", "MANY = 1")
                .replace('INCLUDED = """', f'INCLUDED = """{first}')
            )
            (checkout / "setup.py").write_text(few)
            done = python(*build, cwd=checkout, CXX="g++", CC="gcc")
            assert done.returncode == 0, done.stderr
            code = {path.name: path.read_bytes() for room in ROOMS for path in (checkout / room).rglob("*.so")}
            made.append((len(re.findall(r"/large\.o .* -include ", done.stdout)), code))
    finally:
        (checkout / "setup.py").write_text(rules)
    assert [included for included, _ in made] == [1, 0]
    assert made[0][1] == made[1][1]
    assert not [path for path in (checkout / "build").rglob("*") if "headers" in path.name or path.suffix == ".gch"]


@pytest.mark.long
def test_a_wrong_source_ends_the_build_with_its_error(checkout):
    wrong = checkout / "queues/wrong.pyx"
    wrong.write_text("def wrong() ->:\n")
    done = python("setup.py", "--quiet", "build_ext", "--inplace", cwd=checkout)
    wrong.unlink()
    assert done.returncode != 0
    assert "queues/wrong.pyx:1:" in done.stderr


@pytest.mark.long
def test_what_only_the_tests_use_is_compiled_when_that_is_asked_for(checkout, wheel, tmp_path):
    build = ("setup.py", "--quiet", "build_ext", "--inplace")
    output_of(*build, cwd=checkout)
    assert not modules(checkout / "tests")
    output_of(*build, "--tests", cwd=checkout)
    first = modules(checkout)
    use = "import tests.observers.small as small; print(small.advance())"
    zipfile.ZipFile(wheel).extractall(tmp_path)
    assert int(output_of("-c", use, cwd=checkout, PYTHONPATH=tmp_path)) > 1

    os.utime(checkout / "queues/drivers/opencl/calls.hpp")
    output_of(*build, "--tests", cwd=checkout)
    changed = {path.name.partition(".")[0] for path, time in modules(checkout).items() if time != first[path]}
    assert changed >= {"large", "small"}

    done = python("setup.py", "build_ext", "--tests", cwd=checkout)
    assert done.returncode != 0
    assert "--tests needs --inplace" in done.stderr


@pytest.mark.long
def test_the_view_has_the_layout_of_an_installed_forebay(checkout):
    output_of("setup.py", "--quiet", "view", cwd=checkout)
    view = checkout / "build/view/forebay"
    assert {path.name for path in view.iterdir()} == {path.name for path in (checkout / FACE).iterdir()} | {
        "bench",
        *ROOMS,
    }
    large = "queues/drivers/opencl/large.pyx"
    assert (view / large).read_text() == (checkout / large).read_text()
    assert (view / large).with_suffix(".pyi").exists()
    assert not [*checkout.glob("queues/**/*.pyi")]


@pytest.mark.long
def test_without_symbolic_links_the_view_is_a_copy(checkout):
    forbid = "def symlink_to(*_, **__): raise OSError\nimport pathlib; pathlib.Path.symlink_to = symlink_to\n"
    output_of("-c", f"{forbid}import runpy; runpy.run_path('setup.py')['make_view']()", cwd=checkout)
    view = checkout / "build/view/forebay"
    assert (view / "queues/drivers/opencl/large.pyx").exists()
    assert not (view / "queues/drivers/opencl/large.pyx").is_symlink()
    output_of("setup.py", "--quiet", "view", cwd=checkout)


def test_a_missing_compiler_is_said_plainly(checkout):
    done = python(
        "setup.py", "build_ext", "--inplace", "--force", cwd=checkout, CXX="no-such-compiler", CC="no-such-compiler"
    )
    assert done.returncode != 0
    assert "no-such-compiler" in done.stderr
    assert "apt-get install g++" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("system", "missing"), [("win32", "WSL 2"), ("darwin", "Apple's OpenCL"), ("aix", "tried")])
def test_another_system_is_told_what_is_missing(monkeypatch, system, missing):
    monkeypatch.chdir(ROOT)
    rules = runpy.run_path("setup.py")
    rules["require_linux"]()
    monkeypatch.setattr(sys, "platform", system)
    for command in ("dist_info", "bdist_wheel", "build_ext"):  # of which pip runs the first before all others
        monkeypatch.setattr(sys, "argv", ["setup.py", command])
        with pytest.raises(SystemExit, match=f"cannot be built on {system}") as error:
            rules["require_linux"]()
        assert missing in str(error.value)
        assert (ROOT / "docs" / "platforms.md").exists()
        assert "docs/platforms.md" in str(error.value)
    monkeypatch.setattr(sys, "argv", ["setup.py", "sdist"])
    rules["require_linux"]()
