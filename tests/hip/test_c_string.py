"""Texts of HIP are bytes to programs for hip-python up to 7, and str to those for its version 10."""

import pickle

import pytest

from forebay.c_string import CString

ARCH = CString(b"gfx90a:xnack-")


def test_it_is_bytes():
    assert isinstance(ARCH, bytes)
    assert ARCH == b"gfx90a:xnack-"
    assert ARCH != b"gfx90a"
    assert type(b"--offload-arch=" + ARCH) is bytes
    assert b"--offload-arch=" + ARCH == b"--offload-arch=gfx90a:xnack-"
    assert ARCH + b"," == b"gfx90a:xnack-,"
    assert ARCH.decode("utf-8") == "gfx90a:xnack-"
    assert ARCH.split(b":")[0] == b"gfx90a"
    assert ARCH.startswith((b"gfx8", b"gfx9"))
    assert b"gfx" in ARCH
    assert ARCH[0] == ord("g")
    assert repr(ARCH) == "b'gfx90a:xnack-'"
    assert b",".join([ARCH, b""]) == b"gfx90a:xnack-,"
    assert memoryview(ARCH).nbytes == 13
    assert pickle.loads(pickle.dumps(ARCH)) == ARCH


def test_it_does_what_str_does():
    assert ARCH == "gfx90a:xnack-"
    assert str(ARCH) == ARCH
    assert (ARCH != "gfx90a:xnack-") is False
    assert ARCH != "gfx90a"
    assert type("--offload-arch=" + ARCH) is str
    assert "--offload-arch=" + ARCH == "--offload-arch=gfx90a:xnack-"
    assert ARCH + "," == "gfx90a:xnack-,"
    assert f"{ARCH}|{ARCH:>15}" == "gfx90a:xnack-|  gfx90a:xnack-"
    assert "%s" % ARCH == "gfx90a:xnack-"  # noqa: UP031
    assert ARCH.encode() == b"gfx90a:xnack-"
    assert ARCH.split(":")[0] == "gfx90a"
    assert ARCH.split(sep=":", maxsplit=1) == ["gfx90a", "xnack-"]
    assert ARCH.startswith(("gfx8", "gfx9"))
    assert ARCH.removesuffix(":xnack-") == "gfx90a"
    assert "gfx" in ARCH
    assert ARCH[:6] == "gfx90a"
    assert ARCH[:6] == b"gfx90a"


def test_it_is_found_by_either():
    assert {"gfx90a": 1}[ARCH[:6]] == {b"gfx90a": 1}[ARCH[:6]] == 1
    assert {ARCH: 1}["gfx90a:xnack-"] == {ARCH: 1}[b"gfx90a:xnack-"] == 1


def test_what_neither_can_do_is_an_error():
    with pytest.raises(TypeError):
        _ = ARCH + 1
    with pytest.raises(TypeError):
        _ = 1 + ARCH
    with pytest.raises(TypeError):
        ARCH.replace("a", b"b")
    assert CString(b"\xff") + "." == "\N{REPLACEMENT CHARACTER}."
