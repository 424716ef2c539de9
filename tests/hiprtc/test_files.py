"""What a program includes and what is loaded are regular files, and clang's time and memory have limits."""

import os
from unittest import mock

import pytest

import forebay as fb
from forebay import hip, hiprtc
from forebay.compiler import clang
from forebay.compiler.by_clang import compile_to_spirv
from forebay.compiler.clang import find_clang
from forebay.compiler.included import MOST, read_included
from forebay.compiler.options import split_options
from forebay.compiler.program import Source

KERNEL = '\nextern "C" __global__ void k(int* x) { x[0] = 1; }\n'


@pytest.fixture
def compiles():
    """``compiles(source)`` compiles with clang, for no device."""
    clang, why = find_clang()
    if clang is None:
        pytest.skip(why)
    return lambda source, options=(), headers=None: compile_to_spirv(
        clang, Source(source, "program.hip", headers or {}, split_options(options))
    )


def test_a_header_is_read_once_by_whatever_path(tmp_path):
    """Libraries include `"../detail/b.h"` and back: each way around has another path."""
    for folder, other in ("ab", "ba"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "of.h").write_text(f'#pragma once\n#include "../{other}/of.h"\n')
    assert len(read_included("program", "#include <a/of.h>", {}, [str(tmp_path)], ())) < 8


@pytest.fixture(params=["a device", "a pipe", "a large file"])
def irregular(request, tmp_path):
    """The path of something that is not to be read, and what is said of it."""
    if request.param == "a device":
        return "/dev/zero", "no regular file"
    path = tmp_path / "here.h"
    if request.param == "a pipe":
        os.mkfifo(path)
        return str(path), "no regular file"
    with path.open("w") as file:
        file.truncate(MOST + 1)  # it takes no room
    return str(path), f"{MOST + 1} bytes is too large: {MOST}"


@pytest.mark.parametrize("way", ["itself", "a header of its own", "a header on the disk", "an option", "a folder"])
def test_what_is_included_is_a_regular_file(compiles, irregular, tmp_path, way):
    path, why = irregular
    include, options, headers, place = f'#include "{path}"', (), {}, "program.hip:2:1:"
    if way == "a header of its own":
        include, headers, place = '#include "own.h"', {"own.h": f'\n\n#include "{path}"\n'}, "own.h:3:1:"
    elif way == "a header on the disk":
        (tmp_path / "disk.h").write_text(f"# include <{path}>")
        include, options, place = '#include "disk.h"', (f"-I{tmp_path}",), "disk.h:1:1:"
    elif way == "an option":
        include, options, place = "", ("-include", path), "command line:1:1:"
    elif way == "a folder":
        folder, name = os.path.split(path)
        include, options = f"#include <{name}>", (f"-I{folder}",)
    with pytest.raises(fb.BuildError) as caught:
        compiles("\n" + include + KERNEL, options, headers)
    assert place in caught.value.log
    assert why in caught.value.log
    assert path in caught.value.log


def test_folders_are_no_headers(compiles, tmp_path):
    """Clang looks on when a folder has the name of a header."""
    (tmp_path / "first" / "own.h").mkdir(parents=True)
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "own.h").write_text("#define ONE 1\n")
    folders = [f"-I{tmp_path / name}" for name in ("first", "second")]
    made = compiles('#include "own.h"' + KERNEL.replace("= 1", "= ONE"), folders)
    assert [kernel.name for kernel in made.kernels] == ["k"]


@pytest.mark.needs("no validation layer")  # HIP's own device stays open
def test_what_is_loaded_is_a_regular_file(device, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/zero", tmp_path / "pipe"):
        assert hip.hipModuleLoad(os.fsencode(path)) == (hip.hipError_t.hipErrorFileNotFound, None)
        assert "no regular file" in str(hip.last_exception())
        state = hiprtc.hiprtcLinkCreate(0, None, None)[1]
        kind = hiprtc.hiprtcJITInputType.HIPRTC_JIT_INPUT_LLVM_BITCODE
        failed = (hiprtc.hiprtcResult.HIPRTC_ERROR_PROGRAM_CREATION_FAILURE,)
        assert hiprtc.hiprtcLinkAddFile(state, kind, os.fsencode(path), 0, None, None) == failed


DOUBLES = "template <int N, int M = 0> struct A { enum { n = A<N - 1, 2 * M>::n + A<N - 1, 2 * M + 1>::n }; };\n"
DOUBLES += "template <int M> struct A<0, M> { enum { n = 1 }; };\n"


def test_a_program_that_clang_does_not_finish_is_an_error(compiles):
    with mock.patch.dict(os.environ, FOREBAY_BUILD_SECONDS="1"), pytest.raises(fb.BuildError) as caught:
        compiles(DOUBLES + KERNEL.replace("= 1", "= A<30>::n"))
    assert "had not finished after 1 seconds of processor time (FOREBAY_BUILD_SECONDS" in caught.value.log
    assert compiles(DOUBLES + KERNEL.replace("= 1", "= A<5>::n")).kernels


def test_memory_that_clang_takes_has_a_limit(compiles):
    doubled = "".join(f"#define A{i + 1} A{i}, A{i}\n" for i in range(40))
    little = mock.patch.object(clang, "most_memory", return_value=1 << 29)
    with little, pytest.raises(fb.BuildError) as caught:
        compiles(f"#define A0 1\n{doubled}__device__ const int all[] = {{A40}};" + KERNEL.replace("= 1", "= all[x[0]]"))
    assert "it may have 0.5 GiB of memory" in caught.value.log
    assert compiles(KERNEL.replace("= 1", "= 2")).kernels


def test_a_file_whose_name_is_a_macro_is_not_read_either(compiles):
    """Clang takes a device for an empty file; what is kept of the compilation must not read it."""
    assert compiles('#define FILE "/dev/zero"\n#include FILE' + KERNEL).kernels
