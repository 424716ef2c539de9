"""Texts of HIP are bytes to programs for hip-python up to 7, and str to those for its version 10."""

import pickle

import pytest

from forebay.c_string import CString

ARCH = CString(b"gfx90a:xnack-")
BOTH = (  # what is made of it, and what bytes or str would make
    (b"--arch=" + ARCH, b"--arch=gfx90a:xnack-"), ("--arch=" + ARCH, "--arch=gfx90a:xnack-"),
    (ARCH + b",", b"gfx90a:xnack-,"), (ARCH + ",", "gfx90a:xnack-,"), (b",".join([ARCH, b""]), b"gfx90a:xnack-,"),
    (ARCH.decode("utf-8"), "gfx90a:xnack-"), (ARCH.encode(), b"gfx90a:xnack-"), (str(ARCH), "gfx90a:xnack-"),
    (ARCH.split(b":")[0], b"gfx90a"), (ARCH.split(":")[0], "gfx90a"),
    (ARCH.split(sep=":", maxsplit=1), ["gfx90a", "xnack-"]), (ARCH.removesuffix(":xnack-"), "gfx90a"),
    (ARCH.startswith((b"gfx8", b"gfx9")), True), (ARCH.startswith(("gfx8", "gfx9")), True),
    (b"gfx" in ARCH, True), ("gfx" in ARCH, True), (ARCH[0], ord("g")), (repr(ARCH), "b'gfx90a:xnack-'"),
    (f"{ARCH}|{ARCH:>15}", "gfx90a:xnack-|  gfx90a:xnack-"), ("%s" % ARCH, "gfx90a:xnack-"),  # noqa: UP031
    (CString(b"\xff") + ".", "\N{REPLACEMENT CHARACTER}."),
)  # fmt: skip


def test_it_does_what_bytes_and_str_do():
    assert isinstance(ARCH, bytes)
    for made, expected in BOTH:
        assert (made, type(made)) == (expected, type(expected))
    assert memoryview(ARCH).nbytes == 13
    assert pickle.loads(pickle.dumps(ARCH)) == ARCH


def test_it_equals_either():
    for text in ("gfx90a:xnack-", b"gfx90a:xnack-"):
        assert text == ARCH
        assert (text != ARCH) is False
        assert {ARCH: 1}[text] == {text: 1}[ARCH] == 1
        assert text[:6] != ARCH
        assert ARCH[:6] == text[:6]


def test_what_neither_can_do_is_an_error():
    for wrong in (lambda: ARCH + 1, lambda: 1 + ARCH, lambda: ARCH.replace("a", b"b")):
        with pytest.raises(TypeError):
            wrong()
