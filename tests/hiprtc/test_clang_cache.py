"""Which clang is found, and what is kept on the disk of what it made."""

import os
import shutil
import stat
import subprocess
import threading
from pathlib import Path
from unittest import mock

import pytest

import forebay as fb
from forebay.hiprtc import compiler, prelude
from forebay.hiprtc.clang import find_clang
from forebay.hiprtc.compiler import compile_hip
from forebay.hiprtc.options import split_options
from tests.helpers.no_files import NO_FILES, folder_of_others
from tests.helpers.processes import command

clang, reason = find_clang()
if clang is None:
    pytest.skip(reason, allow_module_level=True)

pytestmark = pytest.mark.needs("no chosen device")

KERNEL = "__global__ void k(int* x) { x[0] = NUMBER; }"
OPTIONS = split_options(["-DNUMBER=1"])


@pytest.fixture(scope="module")
def header(tmp_path_factory):
    """The precompiled header, made once for most tests."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBAY_CACHE", str(folder))
        patch.delenv("FOREBAY_NO_CACHE", raising=False)
        compiled()
    (path,) = files(folder, "headers")
    return path


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, header):
    monkeypatch.setenv("FOREBAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FOREBAY_NO_CACHE", raising=False)
    (tmp_path / "cache" / "headers").mkdir(parents=True)
    shutil.copy2(header, tmp_path / "cache" / "headers")
    return tmp_path / "cache"


@pytest.fixture
def runs(monkeypatch):
    """The commands of clang that run."""
    seen = []
    whole = compiler.run_clang

    def run_clang(command, data):
        seen.append(command)
        return whole(command, data)

    def run(command, **options):
        seen.append(command)
        return subprocess.run(command, **options)

    monkeypatch.setattr(compiler, "run_clang", run_clang)
    monkeypatch.setattr(prelude, "subprocess", type("Subprocess", (), {"run": staticmethod(run),
                        "SubprocessError": subprocess.SubprocessError, "DEVNULL": subprocess.DEVNULL}))  # fmt: skip
    return seen


def compiled(source=KERNEL, options=OPTIONS, name="some.hip", headers=None, by=clang):
    return compile_hip(by, source, name, headers or {}, options, [])


def program(tmp_path, text, name="zig"):
    """A program that can stand for clang; as zig it has the headers of the one that was found."""
    path = tmp_path / name
    if name == "zig":
        (tmp_path / "lib").symlink_to(os.path.join(os.path.dirname(clang.path), "lib"))
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


ITSELF = f'exec {clang.path} "$@"'


# -- finding it


def test_the_environment_names_one(tmp_path, monkeypatch):
    path = program(tmp_path, ITSELF)
    monkeypatch.setenv("FOREBAY_CLANG", str(path))
    found, why = find_clang()
    assert (found.path, found.version, why) == (str(path), clang.version, "")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("echo clang version 19.1.7", "is clang 19.1.7; HIP C++ needs 20"),
        ("echo some compiler", "is no clang"),
        ("exit 3", "does not run"),
        (
            'case "$*" in *--version) echo clang version 22.1;; *) echo error: no target >&2; exit 1;; esac',
            "error: no target",
        ),
    ],
)
def test_what_is_no_such_clang_is_named(tmp_path, monkeypatch, text, told):
    path = program(tmp_path, text)
    monkeypatch.setenv("FOREBAY_CLANG", str(path))
    found, why = find_clang()
    assert found is None
    for words in ("FOREBAY_CLANG", str(path), told):
        assert words in why


def test_a_file_that_is_not_there_and_none(tmp_path, monkeypatch):
    monkeypatch.setenv("FOREBAY_CLANG", str(tmp_path / "nothing"))
    assert "does not run" in find_clang()[1]
    monkeypatch.setenv("FOREBAY_CLANG", "none")
    assert find_clang() == (None, "FOREBAY_CLANG=none turns clang off")


def test_the_path_is_searched_last(tmp_path, monkeypatch):
    monkeypatch.setattr("forebay.hiprtc.clang._in_wheel", lambda: "")
    monkeypatch.delenv("FOREBAY_CLANG", raising=False)
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
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin")
    found, _ = find_clang()
    assert found.path == str(newer)
    assert [flag for flag in found.flags if os.path.isabs(flag)] == folders
    newer.unlink()
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}")
    found, why = find_clang()
    assert found is None
    assert "clang 14.0.6" in why
    assert "pip install 'forebay[hip]'" in why


# -- what is kept


@pytest.mark.long
def test_a_second_time_clang_does_not_run(runs, folder):
    shutil.rmtree(folder)
    first = compiled()
    assert len(runs) == 3  # the header, the module, SPIR-V
    assert compiled() == first
    assert len(runs) == 3


@pytest.mark.parametrize("change", [
    {"source": KERNEL + " "}, {"name": "other.hip"}, {"headers": {"a.h": ""}}, {"options": split_options(["-DNUMBER=2"])},
    {"options": split_options(["-DNUMBER=1", "-O1"])},
])  # fmt: skip
@pytest.mark.long
def test_what_makes_another_program(runs, change):
    compiled()
    count = len(runs)
    compiled(**change)
    assert len(runs) > count


def test_an_included_file_that_changes(tmp_path, runs):
    header = tmp_path / "number file.h"
    header.write_text("#define NUMBER 1\n")
    source, options = f'#include "number file.h"\n{KERNEL}', split_options([f"-I{tmp_path}"])
    one = compiled(source, options)
    count = len(runs)
    assert compiled(source, options) == one
    assert len(runs) == count
    header.write_text("#define NUMBER 2\n")
    assert compiled(source, options).code != one.code
    assert len(runs) == count + 2
    header.unlink()
    with pytest.raises(fb.BuildError, match=r"number file\.h"):
        compiled(source, options)


@pytest.mark.parametrize("name", ["number.h", "within/number.h"])
def test_a_file_that_appears_before_the_one_that_was_included(tmp_path, runs, name):
    first, second = (tmp_path / folder / name for folder in ("first", "second"))
    for path in (first, second):
        path.parent.mkdir(parents=True)
    second.write_text("#define NUMBER 2")
    options = split_options([f"-I{tmp_path / 'first'}", "-isystem", str(tmp_path / "second")])
    source = f'#include "{name}"\n{KERNEL}'
    before = compiled(source, options)
    count = len(runs)
    assert compiled(source, options) == before
    assert len(runs) == count
    first.write_text("#define NUMBER 1")
    assert compiled(source, options) != before


def test_a_file_that_is_asked_for_appears(tmp_path, runs):
    options = split_options([f"-I{tmp_path}"])
    source = f"#if __has_include( <number.h>)\n#define NUMBER 1\n#else\n#define NUMBER 2\n#endif\n{KERNEL}"
    before = compiled(source, options)
    count = len(runs)
    assert compiled(source, options) == before
    assert len(runs) == count
    (tmp_path / "number.h").write_text("")
    assert compiled(source, options) != before


def test_another_version_of_the_headers(tmp_path, monkeypatch, runs):
    compiled()
    count = len(runs)
    monkeypatch.setattr(prelude, "content_key", lambda: "changed")
    compiled()
    assert len(runs) == count + 2


@pytest.mark.long
def test_the_same_headers_installed_again(tmp_path, monkeypatch):
    """Clang knows a file that is precompiled by its time: else it would read it again, and find all twice."""
    here = tmp_path / "include"
    shutil.copytree(prelude.INCLUDE, here)
    for module in (prelude, compiler):
        monkeypatch.setattr(module, "INCLUDE", here)
    monkeypatch.setattr(compiler, "HEADERS", ("-I", str(here), "-I", str(here / "cuda")))
    compiled()
    os.utime(here / "hip" / "hip_cooperative_groups.h", ns=(1, 1))
    compiled("#include <cooperative_groups.h>\n" + KERNEL)


def files(folder, kind):
    return [path for path in (folder / kind).iterdir() if path.is_file()]


@pytest.mark.parametrize("kind", ["programs", "headers"])
@pytest.mark.parametrize("content", [b"", b"broken", None], ids=["empty", "broken", "half"])
@pytest.mark.long
def test_a_broken_file_is_made_anew(folder, kind, content):
    first = compiled()
    (path,) = files(folder, kind)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if content is None else content)
    if kind == "headers":
        for other in files(folder, "programs"):
            other.unlink()
    assert compiled() == first
    (path,) = files(folder, kind)
    assert abs(path.stat().st_size - len(whole)) < 1000


@pytest.mark.parametrize("kind", ["programs", pytest.param("headers", marks=pytest.mark.long)])
@pytest.mark.parametrize("place", NO_FILES)
def test_what_is_no_file_is_replaced_or_done_without(folder, kind, place):
    first = compiled()
    (path,) = files(folder, kind)
    for each in [path, *files(folder, "programs")]:
        each.unlink(missing_ok=True)
    place(path)
    assert compiled() == first
    assert path in files(folder, kind) or place is folder_of_others


@pytest.mark.long
def test_a_broken_header_that_cannot_be_removed_is_done_without(folder, monkeypatch):
    first = compiled()
    (path,) = files(folder, "headers")
    path.write_bytes(path.read_bytes()[:100_000])
    for other in files(folder, "programs"):
        other.unlink()
    monkeypatch.setattr(Path, "unlink", mock.Mock(side_effect=PermissionError))
    assert compiled() == first


@pytest.mark.long
def test_headers_of_other_flags_are_apart_and_the_oldest_go(folder, monkeypatch):
    monkeypatch.setattr(prelude, "KEPT", 2)
    for standard in ("c++17", "c++20", "gnu++17"):
        compiled(options=split_options(["-DNUMBER=1", f"-std={standard}"]))
    assert len(files(folder, "headers")) == 2


@pytest.mark.parametrize("how", ["a file", "turned off"])
def test_without_a_cache_it_compiles_all_the_same(folder, monkeypatch, runs, how):
    if how == "a file":
        shutil.rmtree(folder)
        folder.write_text("in the way")
    else:
        monkeypatch.setenv("FOREBAY_NO_CACHE", "1")
    first = compiled()
    assert compiled() == first
    assert len(runs) >= 4


@pytest.mark.long
def test_a_full_disk(monkeypatch, runs, folder):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    shutil.rmtree(folder)
    monkeypatch.setattr(prelude.os, "replace", full)
    made = compiled()
    assert [kernel.name for kernel in made.kernels] == ["k"]
    assert 2 < len(runs) < 5  # one for the header in the cache's folder, one where an earlier test may have left it


@pytest.mark.long
def test_a_clang_that_cannot_write_leaves_nothing(folder):
    """It is killed when its file gets larger than a process may write."""
    shutil.rmtree(folder)
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20));"
        "from forebay.hiprtc import prelude; from forebay.hiprtc.clang import find_clang, HEADERS;"
        "clang, _ = find_clang(); print(prelude.precompiled(clang, ('-std=c++17', *HEADERS, *clang.flags)))"
    )
    arguments, env = command("-c", code, FOREBAY_CACHE=folder)
    assert subprocess.run(arguments, env=env, capture_output=True, text=True, check=True).stdout == "None\n"
    assert list((folder / "headers").iterdir()) == []


@pytest.mark.long
def test_what_a_killed_process_left_of_a_header_is_removed_when_it_is_old(folder):
    for name in (".part-old", ".part-new"):
        (folder / "headers" / name).mkdir(parents=True)
        (folder / "headers" / name / "half").write_bytes(b"half")
    os.utime(folder / "headers" / ".part-old", (0, 0))
    compiled(options=split_options(["-DNUMBER=1", "-std=c++20"]))
    assert [path.name for path in (folder / "headers").glob(".part-*")] == [".part-new"]


@pytest.mark.long
def test_threads_and_processes_at_once(folder):
    shutil.rmtree(folder)
    code = (
        "from forebay.hiprtc.clang import find_clang; from forebay.hiprtc.compiler import compile_hip;"
        "from forebay.hiprtc.options import split_options;"
        f"made = compile_hip(find_clang()[0], {KERNEL!r}, 'some.hip', {{}}, split_options(['-DNUMBER=1']));"
        "print(len(made.code))"
    )
    arguments, env = command("-c", code, FOREBAY_CACHE=folder)
    others = [subprocess.Popen(arguments, env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    results = []
    threads = [threading.Thread(target=lambda: results.append(compiled())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sizes = {int(other.communicate()[0]) for other in others} | {len(made.code) for made in results}
    assert len(sizes) == 1
    assert len(results) == 2
    assert len(files(folder, "headers")) == 1
    assert len(files(folder, "programs")) == 2  # and which clang it was


# -- when clang ends


@pytest.mark.long
def test_a_clang_that_dies_is_a_compile_error(tmp_path, monkeypatch):
    path = program(tmp_path, f'case "$*" in *"-x ir"*) kill -SEGV $$;; esac\n{ITSELF}')
    monkeypatch.setenv("FOREBAY_CLANG", str(path))
    by, _ = find_clang()
    with pytest.raises(fb.BuildError) as caught:
        compiled(by=by)
    assert "some.hip: error: clang was ended by SIGSEGV" in caught.value.log
    path.unlink()
    with pytest.raises(fb.BuildError, match="does not run"):
        compiled(source=KERNEL + "\n", by=by)


@pytest.mark.long
@pytest.mark.parametrize("no_cache", [None, 1])
def test_nothing_is_left_in_the_temporary_folder(tmp_path, no_cache):
    """Nor is Python left to remove it, of which it would warn."""
    code = (
        "import os, tempfile\n"
        "from forebay.hiprtc.clang import find_clang\nfrom forebay.hiprtc.compiler import compile_hip\n"
        "from forebay.hiprtc.options import split_options\n"
        "for source in ('__global__ void k(int* x) { }', 'nonsense'):\n"
        "    try: compile_hip(find_clang()[0], source, 'some.hip', {'a.h': ''}, split_options([]))\n"
        "    except Exception as error: print(error)\n"
    )
    (tmp_path / "tmp").mkdir()
    environment = {"FOREBAY_CACHE": tmp_path / "c", "FOREBAY_NO_CACHE": no_cache, "TMPDIR": tmp_path / "tmp"}
    arguments, env = command("-W", "error", "-c", code, **environment)
    done = subprocess.run(arguments, env=env, capture_output=True, text=True, check=True)
    assert "nonsense" in done.stdout
    assert done.stderr == ""
    assert list((tmp_path / "tmp").iterdir()) == []
