"""OpenCL programs out of the disk cache: what is kept, for what it is used, and what is not believed."""

import contextlib
import dataclasses
import os
import struct
from unittest import mock

import numpy as np
import pytest

import forebay as fb
from forebay.compiler.cache import BinaryCache, Entry
from forebay.queues.kernels.opencl_c import REPORT_PARAMETERS
from forebay.queues.opencl import discovery, programs
from forebay.queues.opencl.programs import Builder
from tests.helpers.device_data import device_data
from tests.inside import cache_key, refusing_to_tell

pytestmark = pytest.mark.needs("OpenCL")

SOURCE = """
typedef struct { float weight; int offset; long large; } Part;
kernel void add(global int *out, Part part, int n) { out[0] = (int) part.large + n; }
kernel void set(global int *out, int n) { out[0] = n; }
kernel void take(global int *out, global const int *from, constant int *table) { out[0] = from[0] + table[0]; }
"""
PART = np.array((0.5, 1, 1000), "f4,i4,i8")[()]


@pytest.fixture(autouse=True)
def cache(own_cache):
    return BinaryCache()


def key_of(device, source=SOURCE, options=(), **changes):
    """Return the key under which the cache has a program; `changes` are of what is known of the device."""
    return cache_key(Builder(device.driver.context, dataclasses.replace(device.info, **changes), source, options))


@pytest.fixture
def runs(device, queue):
    """``runs(program)``: its kernels do what they should."""
    out = device.zeros(1, "i4")

    def runs(program):
        queue.launch(program["add"], 1, 1, out, PART, 7)
        assert device_data(out.get(queue=queue).tolist()) == [1007]
        queue.launch(program["set"], 1, 1, out, 5)
        assert device_data(out.get(queue=queue).tolist()) == [5]

    return runs


@pytest.fixture
def binary(device, cache):
    """Skips the test where the driver's binaries are not kept."""
    device.program(SOURCE)
    entry = Entry.loads(cache.get(key_of(device)))
    if not entry.binary:
        pytest.skip("the driver keeps what it compiles by itself")
    return entry.binary


@contextlib.contextmanager
def nothing_new(compiled=True):
    """Nothing is asked of the driver's compiler, nor written to the cache, nor compiled unless that is excepted."""
    with contextlib.ExitStack() as stack:
        calls = [
            stack.enter_context(mock.patch.object(programs, "declared_by")),
            stack.enter_context(mock.patch.object(programs.OpenCLKernel, "_size_of_value")),
            stack.enter_context(mock.patch.object(BinaryCache, "put")),
        ]
        if compiled:
            calls.append(stack.enter_context(mock.patch.object(Builder, "compile")))
        yield
        assert [call.call_count for call in calls] == [0] * len(calls)


def declared(program):
    return {name: program[name].parameters for name in program}


def test_nothing_is_compiled_or_asked_for_again(device, runs, binary):
    with nothing_new():
        runs(device.program(SOURCE))


def test_where_there_is_no_binary_types_and_sizes_are_not_asked_for_again(device, runs, cache):
    cold = device.program(SOURCE)
    entry = Entry.loads(cache.get(key_of(device)))
    cache.put(key_of(device), Entry(b"", entry.declared).dumps())
    with nothing_new(compiled=False):
        warm = device.program(SOURCE)
        assert declared(warm) == declared(cold)
        assert [parameter.read_only for parameter in warm["take"].parameters] == [False, True, True]
        runs(warm)


# Kernels without parameters


WITHOUT = """
#define MADE(name) kernel void name(void) { }
kernel void nothing(void) { }
kernel void nothing(void);
kernel void empty() { }
__kernel
  __attribute__((reqd_work_group_size(4, 2, 1))) void /* here, too */
  eight ( ) { }
MADE(of_a_macro)
"""


@pytest.fixture
def refuses_to_tell():
    """As NVIDIA's compiler (driver 580): if it shall tell parameters, it refuses a kernel that has none."""
    with refusing_to_tell(REPORT_PARAMETERS):
        yield


def test_kernels_without_parameters_beside_others(device, queue, runs, cache, request):
    plain = declared(device.program(SOURCE))
    request.getfixturevalue("refuses_to_tell")
    program = device.program(WITHOUT + SOURCE)
    assert declared(program) == plain | dict.fromkeys(["nothing", "empty", "eight", "of_a_macro"], ())
    runs(program)
    queue.launch(program["eight"], 1, (4, 2))
    queue.launch(program["of_a_macro"], 1, 1)
    queue.finish()
    with nothing_new(compiled=bool(Entry.loads(cache.get(key_of(device, WITHOUT + SOURCE))).binary)):
        warm = device.program(WITHOUT + SOURCE)
        assert declared(warm) == declared(program)
        runs(warm)
        queue.launch(warm["nothing"], 1, 1)
        queue.finish()


def test_kernels_without_parameters_alone(device, queue, refuses_to_tell):
    program = device.program(WITHOUT)
    assert set(declared(program).values()) == {()}
    queue.launch(program["empty"], 1, 1)
    queue.finish()


def test_where_a_kernel_without_parameters_is_called_the_others_cannot_be_known(device, refuses_to_tell):
    source = "kernel void nothing(void) { } kernel void calls(global int *out) { nothing(); out[0] = 1; }"
    with pytest.raises(fb.NotSupportedError, match="'nothing'"):
        device.program(source)


@pytest.mark.parametrize("before", ["", WITHOUT])
def test_what_does_not_build_is_said_once_and_not_kept(device, before, request, tmp_path, cache):
    source = before + "kernel void k(int n) { no_such_name; }"
    with mock.patch("tempfile.tempdir", str(tmp_path)):
        with pytest.raises(fb.BuildError) as plain:
            device.program(source)
        request.getfixturevalue("refuses_to_tell")
        with pytest.raises(fb.BuildError) as caught:
            device.program(source)
    assert cache.info().entries == 0
    assert caught.value.log.count("no_such_name") == plain.value.log.count("no_such_name") > 0
    assert "without parameters" not in caught.value.log
    assert not list(tmp_path.glob("*.cl"))  # pyopencl would leave a copy


# What is not believed; each has the right checksum


WRONG = {
    "empty": b"", "too short": b"\0" * 7, "too long a table": struct.pack("<Q", 1 << 60) + b"{}",
    "not JSON": struct.pack("<Q", 2) + b"\xff{", "not a table": struct.pack("<Q", 2) + b"[]",
    "not of kernels": struct.pack("<Q", 9) + b'{"add":7}',
    "not of parameters": struct.pack("<Q", 14) + b'{"add":[[1,2]]}',
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_entry_is_ignored_and_rewritten(device, runs, cache, what):
    device.program(SOURCE)
    good = cache.get(key_of(device))
    cache.put(key_of(device), WRONG[what])
    runs(device.program(SOURCE))
    assert Entry.loads(cache.get(key_of(device))).declared == Entry.loads(good).declared


@pytest.mark.parametrize("wrong", [b"\x7fELF" + bytes(1000), b"binary", bytes(64)], ids=["ELF", "text", "zeros"])
def test_a_binary_that_the_driver_refuses_is_ignored_and_rewritten(device, runs, cache, binary, wrong):
    declared = Entry.loads(cache.get(key_of(device))).declared
    cache.put(key_of(device), Entry(wrong, declared).dumps())
    runs(device.program(SOURCE))
    entry = Entry.loads(cache.get(key_of(device)))
    assert entry.declared == declared
    assert entry.binary[:4] == binary[:4]  # two compilations need not give the same bytes
    assert entry.binary != wrong


def test_a_binary_of_other_kernels_is_ignored_and_rewritten(device, runs, cache, binary):
    declared = Entry.loads(cache.get(key_of(device))).declared
    for foreign in ({**declared, "third": []}, {**declared, "set": declared["add"]}, {"set": declared["set"]}):
        cache.put(key_of(device), Entry(binary, foreign).dumps())
        runs(device.program(SOURCE))
        assert Entry.loads(cache.get(key_of(device))).declared == declared


# What decides


def test_whatever_decides_what_is_compiled_is_in_the_key(device):
    here = key_of(device)
    assert here == key_of(device)
    keys = [key_of(device, SOURCE, ("-DN=1",)), key_of(device, SOURCE, ("-DN=1", "")), key_of(device, SOURCE + " ")]
    keys.append(key_of(device, SOURCE.encode()))  # as SPIR-V
    keys += [key_of(device, **{what: "another"}) for what in ("driver_version", "platform", "description")]
    with mock.patch.dict(os.environ, CL_CONFIG_CPU_TARGET_ARCH="corei7-avx"):
        keys.append(key_of(device))
    if device.info.kind == "cpu":
        with mock.patch.object(discovery, "processor", return_value="another"):
            keys.append(key_of(device))
    assert len({here, *keys}) == 1 + len(keys)


def test_the_processor_is_described_by_what_does_not_change():
    assert discovery.processor()
    assert "MHz" not in discovery.processor()


@pytest.mark.parametrize("directive", ["#include", "# /* over\nlines */ include"])
def test_a_source_that_includes_files_is_compiled_each_time(device, queue, cache, tmp_path, directive):
    (tmp_path / "n.h").write_text("#define N 1\n")
    source = f'{directive} "n.h"\nkernel void set(global int *out) {{ out[0] = N; }}'
    out = device.zeros(1, "i4")
    queue.launch(device.program(source, f"-I{tmp_path}")["set"], 1, 1, out)
    assert device_data(out.get(queue=queue).tolist()) == [1]
    (tmp_path / "n.h").write_text("#define N 2\n")
    queue.launch(device.program(source, f"-I{tmp_path}")["set"], 1, 1, out)
    assert device_data(out.get(queue=queue).tolist()) == [2]
    assert cache.info().entries == 0
