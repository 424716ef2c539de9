"""Which clang is found, and what is kept on the disk of what it made."""

import os
import shutil
import stat
import subprocess
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import pytest

import forebay as fb
from forebay.compiler import by_clang, prelude
from forebay.compiler.by_clang import compile_to_spirv
from forebay.compiler.clang import find_clang
from forebay.compiler.options import split_options
from forebay.compiler.program import Source
from tests.helpers.no_files import NO_FILES, folder_of_others
from tests.helpers.processes import command
from tests.helpers.threads import together
from tests.inside import without_clang_in_a_wheel

clang, reason = find_clang()
if clang is None:
    pytest.skip(reason, allow_module_level=True)

pytestmark = pytest.mark.needs("no chosen device")

KERNEL = "__global__ void k(int* x) { x[0] = NUMBER; }"
OPTIONS = split_options(["-DNUMBER=1"])


def program(folder, text, name="zig"):
    """A program that can stand for clang; as zig it has the headers of the one that was found."""
    path = folder / name
    if name == "zig":
        (folder / "lib").symlink_to(os.path.join(os.path.dirname(clang.path), "lib"))
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


ITSELF = f'exec {clang.path} "$@"'


def found(path):
    """The clang that the environment names."""
    with mock.patch.dict(os.environ, FOREBAY_CLANG=str(path)):
        return find_clang()


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """A clang that notes each run, the file that has a line for each, and the precompiled header, made once."""
    folder = tmp_path_factory.mktemp("made")
    log = folder / "log"
    by, _ = found(program(folder, f"echo run >> {log}\n{ITSELF}"))
    with mock.patch.dict(os.environ, FOREBAY_CACHE=str(folder)):
        os.environ.pop("FOREBAY_NO_CACHE", None)
        compiled(by)
    (header,) = files(folder, "headers")
    return by, log, header


@pytest.fixture(autouse=True)
def folder(tmp_path, counted):
    """The cache's folder, with the header. A test may change the environment."""
    with mock.patch.dict(os.environ, FOREBAY_CACHE=str(tmp_path / "cache")):
        os.environ.pop("FOREBAY_NO_CACHE", None)
        (tmp_path / "cache" / "headers").mkdir(parents=True)
        shutil.copy2(counted[2], tmp_path / "cache" / "headers")
        yield tmp_path / "cache"


@pytest.fixture
def compile_counted(counted):
    """``compile_counted(…)``: the program, and how often clang ran for it."""
    by, log, _ = counted

    def compile_counted(source=KERNEL, options=OPTIONS, **more):
        before = log.read_text().count("\n")
        made = compiled(by, source, options, **more)
        return made, log.read_text().count("\n") - before

    return compile_counted


def compiled(by=clang, source=KERNEL, options=OPTIONS, name="some.hip", headers=None):
    return compile_to_spirv(by, Source(source, name, headers or {}, options))


def files(folder, kind):
    return [path for path in (folder / kind).iterdir() if path.is_file()]


# -- finding it


def test_the_environment_names_one(tmp_path):
    path = program(tmp_path, ITSELF)
    by, why = found(path)
    assert (by.path, by.version, why) == (str(path), clang.version, "")


@pytest.mark.parametrize(("text", "told"), [
    ("echo clang version 19.1.7", "is clang 19.1.7; HIP C++ needs 20"),
    ("echo some compiler", "is no clang"),
    ("exit 3", "does not run"),
    ('case "$*" in *--version) echo clang version 22.1;; *) echo error: no target >&2; exit 1;; esac', "error: no target"),
])  # fmt: skip
def test_what_is_no_such_clang_is_named(tmp_path, text, told):
    path = program(tmp_path, text)
    by, why = found(path)
    assert by is None
    for words in ("FOREBAY_CLANG", str(path), told):
        assert words in why


def test_a_file_that_is_not_there_and_none(tmp_path):
    assert "does not run" in found(tmp_path / "nothing")[1]
    assert found("none") == (None, "FOREBAY_CLANG=none turns clang off")


def test_the_path_is_searched_last(tmp_path):
    os.environ.pop("FOREBAY_CLANG", None)
    program(tmp_path, "echo clang version 14.0.6", "clang")
    folders = [flag for flag in clang.flags if os.path.isabs(flag)]
    listed = "".join(f" {folder}\\n" for folder in folders)
    newer = program(
        tmp_path,
        f"""case "$*" in
        *"-E -v"*) printf '#include <...> search starts here:\\n{listed}End of search list.\\n' >&2;;
        *) exec {" ".join(clang.front_end[:-1])} "$@" {" ".join(flag for flag in clang.flags if flag[:2] == "-D")};;
        esac""",
        "clang-22",
    )
    with without_clang_in_a_wheel():
        os.environ["PATH"] = f"{tmp_path}{os.pathsep}/bin"
        by, _ = find_clang()
        assert by.path == str(newer)
        assert [flag for flag in by.flags if os.path.isabs(flag)] == folders
        newer.unlink()
        os.environ["PATH"] = f"{tmp_path}{os.pathsep}"
        by, why = find_clang()
    assert by is None
    assert "clang 14.0.6" in why
    assert "pip install 'forebay[hip]'" in why


# -- what is kept


@pytest.mark.long
def test_what_makes_another_program(compile_counted, folder):
    shutil.rmtree(folder)
    first = compile_counted()
    assert first[1] == 3  # the header, the module, SPIR-V
    assert compile_counted() == (first[0], 0)
    for change in (
        {"source": KERNEL + " "}, {"name": "other.hip"}, {"headers": {"a.h": ""}}, {"options": split_options(["-DNUMBER=2"])},
        {"options": split_options(["-DNUMBER=1", "-O1"])},
    ):  # fmt: skip
        assert compile_counted(**change)[1] > 0
    with mock.patch("forebay.compiler.prelude.content_key", return_value="changed"):  # another version of the headers
        assert compile_counted()[1] == 2


def test_an_included_file_that_changes(tmp_path, compile_counted):
    header = tmp_path / "number file.h"
    header.write_text("#define NUMBER 1\n")
    given = f'#include "number file.h"\n{KERNEL}', split_options([f"-I{tmp_path}"])
    one, _ = compile_counted(*given)
    assert compile_counted(*given) == (one, 0)
    header.write_text("#define NUMBER 2\n")
    other, count = compile_counted(*given)
    assert other.code != one.code
    assert count == 2
    header.unlink()
    with pytest.raises(fb.BuildError, match=r"number file\.h"):
        compile_counted(*given)


ASKED = f"#if __has_include( <first.h>)\n#define NUMBER 1\n#else\n#define NUMBER 2\n#endif\n{KERNEL}"


@pytest.mark.parametrize("source", [f'#include "number.h"\n{KERNEL}', f'#include "within/number.h"\n{KERNEL}', ASKED])
def test_a_file_that_appears(tmp_path, compile_counted, source):
    """Before the one that was included, and one that was only asked for."""
    for path in ("second/number.h", "second/within/number.h", "first/within"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    for name in ("number.h", "within/number.h"):
        (tmp_path / "second" / name).write_text("#define NUMBER 2")
    options = split_options([f"-I{tmp_path / 'first'}", "-isystem", str(tmp_path / "second")])
    before, _ = compile_counted(source, options)
    assert compile_counted(source, options) == (before, 0)
    (tmp_path / "first" / "within").mkdir()
    for name in ("number.h", "within/number.h", "first.h"):
        (tmp_path / "first" / name).write_text("#define NUMBER 1" * (name != "first.h"))
    assert compile_counted(source, options)[0] != before


@pytest.mark.long
def test_the_same_headers_installed_again(tmp_path):
    """Clang knows a file that is precompiled by its time: else it would read it again, and find all twice."""
    here = tmp_path / "include"
    shutil.copytree(prelude.INCLUDE, here)
    headers = ("-I", str(here), "-I", str(here / "cuda"))
    with mock.patch.object(prelude, "INCLUDE", here), mock.patch.multiple(by_clang, INCLUDE=here, HEADERS=headers):
        compiled()
        os.utime(here / "hip" / "hip_cooperative_groups.h", ns=(1, 1))
        compiled(source="#include <cooperative_groups.h>\n" + KERNEL)


def broken(content):
    """A way to damage a file, given what it holds."""
    return lambda path: path.write_bytes(content(path.read_bytes()))


def replaced(place):
    """A way to put something that is no file in its place."""
    return lambda path: (path.unlink(), place(path))


DAMAGES = {
    "empty": broken(lambda whole: b""), "broken": broken(lambda whole: b"broken"),
    "half": broken(lambda whole: whole[: len(whole) // 2]), "stuck": broken(lambda whole: whole[:100_000]),
    **{place.__name__: replaced(place) for place in NO_FILES},
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.long
def test_a_header_that_is_damaged_is_made_anew_or_done_without(folder, counted, damage):
    """Programs are in a `BinaryCache`, which has tests of its own."""
    first = compiled(counted[0])
    (path,) = files(folder, "headers")
    size = path.stat().st_size
    for other in files(folder, "programs"):
        other.unlink()
    DAMAGES[damage](path)
    with mock.patch.object(Path, "unlink", side_effect=PermissionError) if damage == "stuck" else nullcontext():
        assert compiled(counted[0]) == first
    if damage not in (folder_of_others.__name__, "stuck"):
        assert files(folder, "headers") == [path]
        assert abs(path.stat().st_size - size) < 1000


@pytest.mark.long
def test_headers_of_other_flags_are_apart_and_the_oldest_go(folder):
    """So does what a killed process left of a header, when it is old."""
    for name in (".part-old", ".part-new"):
        (folder / "headers" / name).mkdir(parents=True)
        (folder / "headers" / name / "half").write_bytes(b"half")
    os.utime(folder / "headers" / ".part-old", (0, 0))
    with mock.patch.object(prelude, "KEPT", 2):
        for standard in ("c++17", "c++20"):
            compiled(options=split_options(["-DNUMBER=1", f"-std={standard}"]))
    assert len(files(folder, "headers")) == 2
    assert [path.name for path in (folder / "headers").glob(".part-*")] == [".part-new"]


FULL = mock.patch.object(prelude.os, "replace", side_effect=OSError(28, "No space left on device"))


@pytest.mark.parametrize(
    "how", ["a file", *(pytest.param(each, marks=pytest.mark.long) for each in ("turned off", "a full disk"))]
)
def test_without_a_cache_it_compiles_all_the_same(folder, compile_counted, how):
    if how == "turned off":
        os.environ["FOREBAY_NO_CACHE"] = "1"
    else:
        shutil.rmtree(folder)
    if how == "a file":
        folder.write_text("in the way")
    with FULL if how == "a full disk" else nullcontext():
        (first, count), (again, more) = compile_counted(), compile_counted()
    assert [kernel.name for kernel in first.kernels] == ["k"]
    assert again == first
    assert count + more >= 4


@pytest.mark.long
def test_a_clang_that_cannot_write_leaves_nothing(folder):
    """It is killed when its file gets larger than a process may write."""
    shutil.rmtree(folder)
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20));"
        "from forebay.compiler import prelude; from forebay.compiler.clang import find_clang, HEADERS;"
        "clang, _ = find_clang(); print(prelude.precompiled(clang, ('-std=c++17', *HEADERS, *clang.flags)))"
    )
    arguments, env = command("-c", code, FOREBAY_CACHE=folder)
    assert subprocess.run(arguments, env=env, capture_output=True, text=True, check=True).stdout == "None\n"
    assert list((folder / "headers").iterdir()) == []


@pytest.mark.long
def test_threads_and_processes_at_once(folder):
    shutil.rmtree(folder)
    code = (
        "from forebay.compiler.clang import find_clang; from forebay.compiler.by_clang import compile_to_spirv;"
        "from forebay.compiler.options import split_options; from forebay.compiler.program import Source;"
        f"source = Source({KERNEL!r}, 'some.hip', {{}}, split_options(['-DNUMBER=1']));"
        "made = compile_to_spirv(find_clang()[0], source);"
        "print(len(made.code))"
    )
    arguments, env = command("-c", code, FOREBAY_CACHE=folder)
    others = [subprocess.Popen(arguments, env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    results = together(compiled, compiled)
    sizes = {int(other.communicate()[0]) for other in others} | {len(made.code) for made in results}
    assert len(sizes) == 1
    assert len(files(folder, "headers")) == 1
    assert len(files(folder, "programs")) == 2  # and which clang it was


# -- when clang ends


@pytest.mark.long
def test_a_clang_that_dies_is_a_compile_error(tmp_path):
    path = program(tmp_path, f'case "$*" in *"-x ir"*) kill -SEGV $$;; esac\n{ITSELF}')
    by, _ = found(path)
    with pytest.raises(fb.BuildError) as caught:
        compiled(by=by)
    assert "some.hip: error: clang was ended by SIGSEGV" in caught.value.log
    path.unlink()
    with pytest.raises(fb.BuildError, match="does not run"):
        compiled(by, KERNEL + "\n")


@pytest.mark.long
@pytest.mark.parametrize("no_cache", [None, 1])
def test_nothing_is_left_in_the_temporary_folder(tmp_path, no_cache):
    """Nor is Python left to remove it, of which it would warn."""
    code = (
        "import os, tempfile\n"
        "from forebay.compiler.clang import find_clang\nfrom forebay.compiler.by_clang import compile_to_spirv\n"
        "from forebay.compiler.program import Source\n"
        "for source in ('__global__ void k(int* x) { }', 'nonsense'):\n"
        "    try: compile_to_spirv(find_clang()[0], Source(source, headers={'a.h': ''}))\n"
        "    except Exception as error: print(error)\n"
    )
    (tmp_path / "tmp").mkdir()
    environment = {"FOREBAY_CACHE": tmp_path / "c", "FOREBAY_NO_CACHE": no_cache, "TMPDIR": tmp_path / "tmp"}
    arguments, env = command("-W", "error", "-c", code, **environment)
    done = subprocess.run(arguments, env=env, capture_output=True, text=True, check=True)
    assert "nonsense" in done.stdout
    assert done.stderr == ""
    assert list((tmp_path / "tmp").iterdir()) == []
