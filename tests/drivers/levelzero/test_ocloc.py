"""OpenCL C through libocloc: parameters, options, errors, and a missing compiler."""

import json

import pytest

from forebay.core.driver import DeviceInfo
from forebay.core.errors import NotSupportedError
from forebay.queues.drivers.levelzero import ocloc
from tests.helpers.processes import output_of

from .children import output_under_driver

pytestmark = pytest.mark.needs("no chosen device")

# Compiles on the first device of the driver. An error is printed as its class, message and log.
COMPILE = """
import dataclasses, json, sys
from forebay.spirv import declarations
from forebay.core.errors import Error
from forebay.queues.drivers.selection import DRIVERS
from forebay.queues.drivers.levelzero import ocloc

info = DRIVERS["level_zero"].discover()[0]

def compiled(source, *options, **native):
    device = dataclasses.replace(info, native=dataclasses.replace(info.native, **native))
    try:
        return declarations.kernels_of(ocloc.compile_source(source, device, options))
    except Error as error:
        return [type(error).__name__, str(error), getattr(error, "log", None)]

"""


def result_of(expression, **options):
    return json.loads(output_under_driver(f"{COMPILE}\nprint(json.dumps({expression}))", **options))


def test_parameters_have_the_names_and_types_of_the_source():
    source = """
struct Pair { int a; double b; };
kernel void f(global uint *values, uint count, int sign, struct Pair pair, local float *scratch, constant short *table,
              float4 vector, ulong wide, global const char *restrict text) { values[0] = count; }
kernel void g(void) { }
"""
    found = result_of(f"compiled({source!r})")
    assert found == {
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


@pytest.mark.long
def test_options_reach_the_compiler(tmp_path):
    folder = tmp_path / "with a blank"
    folder.mkdir()
    (folder / "name.h").write_text("#define NAME(x) x\n")
    source = """
#include "name.h"
#if __OPENCL_C_VERSION__ != 300 || COUNT != 3
#error the options were lost
#endif
kernel void NAME(f)(void) { }
"""
    arguments = f"{source!r}, '-cl-std=CL3.0', '-DCOUNT=3', '-I {json.dumps(str(folder))}'"
    assert result_of(f"compiled({arguments})") == {"f": []}
    assert "name.h" in result_of(f"compiled({source!r})")[2]


def test_an_error_has_the_log_and_names_the_device_and_the_position():
    source = "// µ\nkernel void f(global int *a) {\n  a[0] = no_such_name;\n}\n"
    # twice: the compiler counts its compilations, and puts that number before the line number
    for kind, message, log in result_of(f"[compiled({source!r}), compiled({source!r})]"):
        assert kind == "BuildError"
        assert message == f"the program does not build on level_zero:gpu:0\n{log}"
        assert log.startswith("3:10: error: use of undeclared identifier 'no_such_name'\n  a[0] = no_such_name;\n")
        assert "ocloc compile" not in log
        assert "\0" not in log


def test_an_option_that_is_not_known_is_named():
    kind, message, log = result_of("compiled('kernel void f(void) { }', '-bogus')")
    assert kind == "BuildError"
    assert "-bogus" in log
    assert log in message


def test_a_compiler_that_fails_without_a_word_is_an_error_with_one():
    # a GPU without double precision (Arc A770), whose front end says nothing about it
    source = "kernel void f(global double *a) { a[0] = 1; }"
    kind, message, log = result_of(f"compiled({source!r}, ip_version=0, device_id=0x56a0)")
    assert kind == "BuildError"
    assert log
    assert message.endswith(log)


def test_warnings_are_dropped():
    source = "#warning look here\nkernel void f(void) { int unused; }"
    code = f"{COMPILE}\nimport warnings; warnings.simplefilter('error')\nassert compiled({source!r}) == {{'f': []}}"
    assert output_under_driver(code) == ""


@pytest.mark.parametrize("native", ["ip_version=0", "ip_version=7", "device_id=0xffff"])
def test_one_of_two_names_of_the_device_is_enough(native):
    assert result_of(f"compiled('kernel void f(void) {{ }}', {native})") == {"f": []}


def test_a_compiler_from_before_the_device():
    kind, message, _ = result_of("compiled('kernel void f(void) { }', ip_version=7, device_id=0xffff)")
    assert kind == "NotSupportedError"
    assert "does not know level_zero:gpu:0" in message
    assert "intel-ocloc" in message


@pytest.mark.long
def test_threads_may_compile_at_the_same_time():
    code = (
        COMPILE
        + """
import threading
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
    )
    assert output_under_driver(code) == "compiled\n"


def test_what_the_compiler_gave_is_given_back():
    code = (
        COMPILE
        + """
freed = []
library = ocloc._load()
real = library.oclocFreeOutput
class Watched:
    oclocInvoke = library.oclocInvoke
    def oclocFreeOutput(self, *arguments):
        freed.append(real(*arguments))
ocloc._library = Watched()
compiled("kernel void f(void) { }")
compiled("kernel void f(void) { missing(); }")
compiled("oops")
print(len(freed))
"""
    )
    assert output_under_driver(code) == "3\n"


def test_the_version_is_the_drivers():
    code = f"{COMPILE}\nprint(ocloc.compiler_version(), info.driver_version)"
    compiler, driver = output_under_driver(code).split()
    assert int(compiler.split(".")[-1]) == int(driver.split(".")[-1])


def test_without_the_compiler_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setattr(ocloc, "LIBRARY", "libocloc_that_is_not_there.so")
    monkeypatch.setattr(ocloc, "_library", None)
    with pytest.raises(NotSupportedError, match=r"libocloc_that_is_not_there.*apt install intel-ocloc.*SPIR-V.*clang"):
        ocloc.compiler_version()
    info = DeviceInfo("level_zero:gpu:0", "level_zero", "gpu", 0, "", "", native=Native())
    with pytest.raises(NotSupportedError, match="apt install intel-ocloc"):
        ocloc.compile_source("kernel void f(void) { }", info)


class Native:
    ip_version = 0
    device_id = 0x0BD5


def test_importing_loads_no_compiler():
    code = "from forebay.queues.drivers.levelzero import ocloc; print(ocloc._library)"
    assert output_of("-c", code) == "None\n"
