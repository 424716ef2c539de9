"""OpenCL C through libocloc: parameters, options, errors, and a missing compiler."""

import json
from types import SimpleNamespace

import pytest

from forebay.core.driver import DeviceInfo
from forebay.core.errors import NotSupportedError
from forebay.queues.drivers.levelzero import ocloc
from tests.inside import without_compiler

from .children import output_under_driver

pytestmark = pytest.mark.needs("no chosen device")

# Compiles on the first device of the driver. An error is reported as its class, message and log.
COMPILE = """
import ctypes, dataclasses, json, threading, warnings
from pathlib import Path

from forebay.spirv import declarations
from forebay.core.errors import Error
from forebay.queues.drivers.selection import DRIVERS
from forebay.queues.drivers.levelzero import ocloc

warnings.simplefilter("error")
info = DRIVERS["level_zero"].discover()[0]
assert "libocloc" not in Path("/proc/self/maps").read_text(), "importing loads no compiler"
loaded, outputs = [], []

def load(name, cdll=ctypes.CDLL):
    loaded.append(cdll(name))
    loaded[-1].oclocInvoke.errcheck = lambda result, *_: outputs.append(1) or result
    loaded[-1].oclocFreeOutput.errcheck = lambda result, *_: outputs.pop() and result
    return loaded[-1]

ctypes.CDLL = load

def compiled(source, *options, **native):
    device = dataclasses.replace(info, native=dataclasses.replace(info.native, **native))
    try:
        return declarations.kernels_of(ocloc.compile_source(source, device, options))
    except Error as error:
        return [type(error).__name__, str(error), getattr(error, "log", None)]

"""
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
NAMES = ("ip_version=0", "ip_version=7", "device_id=0xffff")
CASES = {
    "parameters": f"compiled({PARAMETERS!r})",
    # twice: the compiler counts its compilations, and puts that number before the line number
    "wrong": f"[compiled({WRONG!r}), compiled({WRONG!r})]",
    "option": f"compiled({EMPTY!r}, '-bogus')",
    # A GPU without double precision (Arc A770), whose front end says nothing about it
    "silent": "compiled('kernel void f(global double *a) { a[0] = 1; }', ip_version=0, device_id=0x56a0)",
    "warnings": "compiled('#warning look here\\nkernel void f(void) { int unused; }')",
    "unknown": f"compiled({EMPTY!r}, ip_version=7, device_id=0xffff)",
    "versions": "[ocloc.compiler_version(), info.driver_version]",
} | {each: f"compiled({EMPTY!r}, {each})" for each in NAMES}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The results of all cases, in one process, which leaves nothing of the compiler's."""
    folder = tmp_path_factory.mktemp("with a blank")
    (folder / "name.h").write_text("#define NAME(x) x\n")
    options = f"'-cl-std=CL3.0', '-DCOUNT=3', '-I {json.dumps(str(folder))}'"
    cases = CASES | {"options": f"compiled({OPTIONS!r}, {options})", "lost": f"compiled({OPTIONS!r})"}
    code = "results = {name: eval(case) for name, case in " + repr(cases) + ".items()}\nprint(json.dumps(results))\n"
    asserted = "assert len(loaded) == 1 and not outputs"
    return json.loads(output_under_driver(COMPILE + code + asserted))


def test_parameters_have_the_names_and_types_of_the_source(results):
    assert results["parameters"] == {
        "f": [
            ["values", "uint*", "pointer", 8, False, 0],
            ["count", "uint", "value", 4, False, 0],
            ["sign", "int", "value", 4, False, 0],
            ["pair", "struct Pair", "value", 16, False, 8],
            ["scratch", "float*", "local", 8, False, 0],
            ["table", "short*", "pointer", 8, True, 0],
            ["vector", "float4", "value", 16, False, 0],
            ["wide", "ulong", "value", 8, False, 0],
            ["text", "char*", "pointer", 8, True, 0],
        ],
        "g": [],
    }


@pytest.mark.parametrize("case", ["options", "warnings", *NAMES])
def test_it_compiles(results, case):
    """With options, with warnings, which are dropped, and with one of two names of the device."""
    assert results[case] == {"f": []}


def test_an_error_has_the_log_and_names_the_device_and_the_position(results):
    for kind, message, log in results["wrong"]:
        assert kind == "BuildError"
        assert message == f"the program does not build on level_zero:gpu:0\n{log}"
        assert log.startswith("3:10: error: use of undeclared identifier 'no_such_name'\n  a[0] = no_such_name;\n")
        assert "ocloc compile" not in log
        assert "\0" not in log


@pytest.mark.parametrize(("case", "words"), [("option", "-bogus"), ("lost", "name.h"), ("silent", "")])
def test_an_error_has_a_log_that_names_what_is_wrong(results, case, words):
    kind, message, log = results[case]
    assert kind == "BuildError"
    assert log
    assert words in log
    assert log in message


def test_a_compiler_from_before_the_device(results):
    kind, message, _ = results["unknown"]
    assert kind == "NotSupportedError"
    assert "does not know level_zero:gpu:0" in message
    assert "intel-ocloc" in message


def test_the_version_is_the_drivers(results):
    compiler, driver = results["versions"]
    assert int(compiler.split(".")[-1]) == int(driver.split(".")[-1])


@pytest.mark.long
def test_threads_may_compile_at_the_same_time():
    code = """
sources = [f"kernel void f{n}(global int *a) {{ a[0] = {n}; }}" for n in range(8)]
sources += ["kernel void broken(global int *a) { a[0] = no_such_name; }"] * 4
found = [None] * len(sources)

def work(index):
    found[index] = compiled(sources[index])

threads = [threading.Thread(target=work, args=(index,)) for index in range(len(sources))]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
for n in range(8):
    assert found[n] == {f"f{n}": [("a", "int*", "pointer", 8, False, 0)]}, found[n]
assert all(each[0] == "BuildError" for each in found[8:])
print("compiled")
"""
    assert output_under_driver(COMPILE + code) == "compiled\n"


def test_without_the_compiler_the_message_says_what_to_install():
    native = SimpleNamespace(ip_version=0, device_id=0x0BD5)
    info = DeviceInfo("level_zero:gpu:0", "level_zero", "gpu", 0, "", "", native=native)
    with without_compiler("libocloc_that_is_not_there.so"):
        words = r"libocloc_that_is_not_there.*apt install intel-ocloc.*SPIR-V.*clang"
        with pytest.raises(NotSupportedError, match=words):
            ocloc.compiler_version()
        with pytest.raises(NotSupportedError, match="apt install intel-ocloc"):
            ocloc.compile_source(EMPTY, info)
