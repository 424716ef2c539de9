"""OpenCL C through libocloc: parameters, options, errors, and a missing compiler."""

import ctypes
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from unittest import mock

import pytest

from forebay.compiler.spirv import declarations
from forebay.core.errors import BuildError, NotSupportedError
from forebay.queues.levelzero import programs
from forebay.queues.selection import select
from tests.inside import compiler_is_loaded_again, without_compiler

pytestmark = pytest.mark.needs("null hardware")

PARAMETERS = """
struct Pair { int a; double b; };
kernel void f(global uint *values, uint count, int sign, struct Pair pair, local float *scratch, constant short *table,
              float4 vector, ulong wide, global const char *restrict text) { values[0] = count; }
kernel void g(void) { }
"""
OPTIONS = """
#include "name.h"
#if __OPENCL_C_VERSION__ != 300 || COUNT != 3
#error the options were lost
#endif
kernel void NAME(f)(void) { }
"""
WRONG = "// µ\nkernel void f(global int *a) {\n  a[0] = no_such_name;\n}\n"
EMPTY = "kernel void f(void) { }"
WARNS = "#warning look here\nkernel void f(void) { int unused; }"
DOUBLES = "kernel void f(global double *a) { a[0] = 1; }"
ARC_A770 = {"ip_version": 0, "device_id": 0x56A0}  # which has no double precision; its front end says nothing about it


@pytest.fixture(autouse=True)
def freed():
    """The compiler's library is loaded once, by a test that needs it, and each of its outputs is freed."""
    loaded, outputs = [], []

    def load(name, cdll=ctypes.CDLL):
        loaded.append(cdll(name))
        loaded[-1].oclocInvoke.errcheck = lambda result, *_: outputs.append(1) or result
        loaded[-1].oclocFreeOutput.errcheck = lambda result, *_: outputs.pop() and result
        return loaded[-1]

    with compiler_is_loaded_again(), mock.patch.object(ctypes, "CDLL", load):
        yield
    assert not outputs
    assert len(loaded) < 2


def compiled(source, *options, **native):
    info = select()
    spirv = programs.compile_source(source, replace(info, native=replace(info.native, **native)), options)
    return declarations.kernels_of(spirv)


def test_parameters_have_the_names_and_types_of_the_source():
    assert compiled(PARAMETERS) == {
        "f": [
            ("values", "uint*", "pointer", 8, False, 0), ("count", "uint", "value", 4, False, 0),
            ("sign", "int", "value", 4, False, 0), ("pair", "struct Pair", "value", 16, False, 8),
            ("scratch", "float*", "local", 8, False, 0), ("table", "short*", "pointer", 8, True, 0),
            ("vector", "float4", "value", 16, False, 0), ("wide", "ulong", "value", 8, False, 0),
            ("text", "char*", "pointer", 8, True, 0),
        ],
        "g": [],
    }  # fmt: skip


def test_options_reach_the_compiler(tmp_path):
    folder = tmp_path / "with a blank"
    folder.mkdir()
    (folder / "name.h").write_text("#define NAME(x) x\n")
    assert compiled(OPTIONS, "-cl-std=CL3.0", "-DCOUNT=3", f"-I {json.dumps(str(folder))}") == {"f": []}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("source", "native"),
    [(WARNS, {}), (EMPTY, {"ip_version": 0}), (EMPTY, {"ip_version": 7}), (EMPTY, {"device_id": 0xFFFF})],
)
def test_it_compiles(source, native):
    """With warnings, which are dropped, and with one of two names of the device."""
    assert compiled(source, **native) == {"f": []}


def test_an_error_has_the_log_and_names_the_device_and_the_position():
    for _ in range(2):  # the compiler counts its compilations, and puts that number before the line number
        with pytest.raises(BuildError) as caught:
            compiled(WRONG)
        log = caught.value.log
        assert str(caught.value) == f"the program does not build on {select().name}\n{log}"
        assert log.startswith("3:10: error: use of undeclared identifier 'no_such_name'\n  a[0] = no_such_name;\n")
        assert "ocloc compile" not in log
        assert "\0" not in log


@pytest.mark.parametrize(
    ("source", "options", "native", "words"),
    [(EMPTY, ["-bogus"], {}, "-bogus"), (OPTIONS, [], {}, "name.h"), (DOUBLES, [], ARC_A770, "")],
)
def test_an_error_has_a_log_that_names_what_is_wrong(source, options, native, words):
    with pytest.raises(BuildError) as caught:
        compiled(source, *options, **native)
    assert caught.value.log
    assert words in caught.value.log
    assert caught.value.log in str(caught.value)


def test_a_compiler_from_before_the_device():
    with pytest.raises(NotSupportedError, match=f"does not know {select().name}.*intel-ocloc"):
        compiled(EMPTY, ip_version=7, device_id=0xFFFF)


def test_the_version_is_the_drivers():
    assert int(programs.compiler_version().split(".")[-1]) == int(select().driver_version.split(".")[-1])


@pytest.mark.threads
def test_threads_may_compile_at_the_same_time():
    def work(n):
        if n >= 8:
            with pytest.raises(BuildError):
                compiled(WRONG)
            return None
        return compiled(f"kernel void f{n}(global int *a) {{ a[0] = {n}; }}")

    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(work, range(12)))
    assert found[:8] == [{f"f{n}": [("a", "int*", "pointer", 8, False, 0)]} for n in range(8)]


def test_without_the_compiler_the_message_says_what_to_install():
    with without_compiler("libocloc_that_is_not_there.so"):
        words = r"libocloc_that_is_not_there.*apt install intel-ocloc.*SPIR-V.*clang"
        with pytest.raises(NotSupportedError, match=words):
            programs.compiler_version()
        with pytest.raises(NotSupportedError, match="apt install intel-ocloc"):
            compiled(EMPTY)
