"""The choices of the driver's side of a device: engines, priorities, limits, and when programs are compiled."""

import contextlib
import dataclasses
import os
from unittest import mock

import pytest

import forebay as fb
from forebay.compiler.cache import BinaryCache
from forebay.core.driver import Language
from forebay.core.errors import BuildError, NotSupportedError, OutOfMemoryError
from forebay.queues.levelzero import programs
from forebay.queues.levelzero.device import LevelZeroDevice
from forebay.queues.selection import DRIVERS
from tests.helpers.spirv import fill_module
from tests.inside import without_compiler
from tests.observers.recorder import ticks_between

pytestmark = pytest.mark.needs("null hardware")

SOURCE = "kernel void fill(global int *values, int value) { values[get_global_id(0)] = value; }"


@pytest.fixture
def info():
    return next(device for device in DRIVERS["level_zero"].discover() if device.usable)


@pytest.fixture
def open_device(info):
    """``open_device(field=value, …)``: the driver's side of a device that reports these values."""

    def open_device(**changes):
        return LevelZeroDevice(dataclasses.replace(info, native=dataclasses.replace(info.native, **changes)))

    return open_device


def asked_of(device, priorities):
    """(ordinal, index, priority) of the list that the device asks for, for a queue of each of these priorities.

    This driver's null hardware cannot have more than one engine.
    """
    device.handle = mock.Mock()
    device.handle.create_queue.return_value = 0, 0
    for priority in priorities:
        device.create_queue(priority, False)
    return [call.args for call in device.handle.create_queue.call_args_list]


def test_queues_are_spread_over_the_engines(open_device):
    device = open_device(groups=((2, 1, 1), (7, 4, 16), (1, 2, 16)))
    assert asked_of(device, [0] * 6) == [(1, index, 0) for index in (0, 1, 2, 3, 0, 1)]


@pytest.mark.parametrize(
    ("levels", "priorities", "asked"),
    [(None, (-1, 0, 1), (2, 0, 1)), ((0, -1), (-1, 0), (2, 0)), ((0, 0), (0,), (0,)), ((2, -2), (-1, 0, 1), (2, 0, 1))],
)
def test_priorities_are_those_that_the_driver_has(open_device, levels, priorities, asked):
    device = open_device(priorities=levels)
    assert device.priorities == priorities
    assert tuple(given for _, _, given in asked_of(device, priorities)) == asked


def test_arguments_that_do_not_fit_are_refused_before_anything_is_launched(open_device):
    device = open_device(max_argument_bytes=11)
    with pytest.raises(NotSupportedError, match="'fill' takes 12 bytes of arguments; the device has 11"):
        device.build(Language.SPIRV, fill_module(), ())


@pytest.mark.parametrize("usm_type", ["device", "shared", "host"])
def test_an_allocation_that_is_too_large_is_refused(open_device, info, usm_type):
    device = open_device(limits=dataclasses.replace(info.native.limits, allocation=1 << 20))
    assert device.allocate(1 << 20, usm_type).nbytes == 1 << 20
    with pytest.raises(OutOfMemoryError, match="at most 1048576"):
        device.allocate((1 << 20) + 1, usm_type)


def test_staging_memory_is_used_again_and_not_while_it_is_in_use(open_device):
    device = open_device()
    first, second = device.stage(5000), device.stage(5000)
    addresses = {first.ctypes.data, second.ctypes.data}
    assert len(addresses) == 2
    part = first[10:20]
    del first, second
    third = device.stage(6000)
    assert third.ctypes.data in addresses - {part.ctypes.data - 10}
    del part
    assert {device.stage(8192).ctypes.data, third.ctypes.data} <= addresses
    assert device.stage(0).size == 0


# -- compiling and the cache


@pytest.fixture
def compiler(tmp_path):
    """``compiler()``: how often each compiler ran, beginning with an empty cache."""
    counted = ((programs, "compile_source"), (programs, "build_apart"), (programs, "ZeProgram"))
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, FOREBAY_CACHE=str(tmp_path)))
        os.environ.pop("FOREBAY_NO_CACHE", None)
        source, apart, made = (
            stack.enter_context(mock.patch.object(module, name, wraps=getattr(module, name)))
            for module, name in counted
        )
        yield lambda: {
            "OpenCL C": source.call_count,
            "SPIR-V": apart.call_count + sum(not native for (_, _, native, *_), _ in made.call_args_list),
        }


def test_a_program_is_compiled_once(open_device, compiler):
    for _ in range(3):
        kernels = open_device().build(Language.OPENCL_C, SOURCE, ("-DN=1",))
        assert [parameter.name for parameter in kernels["fill"].parameters] == ["values", "value"]
    assert compiler() == {"OpenCL C": 1, "SPIR-V": 1}
    open_device().build(Language.OPENCL_C, SOURCE, ("-DN=2",))
    assert compiler() == {"OpenCL C": 2, "SPIR-V": 1}  # the result was the same SPIR-V
    open_device().build(Language.OPENCL_C, SOURCE, ("-DN=2", "-cl-fast-relaxed-math"))
    assert compiler() == {"OpenCL C": 3, "SPIR-V": 2}
    open_device().build(Language.OPENCL_C, SOURCE + " ", ("-DN=2",))
    assert compiler()["OpenCL C"] == 4


def test_another_driver_or_device_compiles_anew(info, open_device, compiler):
    open_device().build(Language.SPIRV, fill_module(), ())
    open_device(device_id=info.native.device_id + 1).build(Language.SPIRV, fill_module(), ())
    assert compiler()["SPIR-V"] == 2
    programs.compiled(open_device().handle, dataclasses.replace(info, driver_version="next"), fill_module(), ())
    assert compiler()["SPIR-V"] == 3


def test_a_program_that_includes_files_is_compiled_each_time(open_device, compiler, tmp_path):
    header = tmp_path / "value.h"
    source = f'#include "value.h"\n{SOURCE.replace("= value", "= value + MORE")}'
    for more in (1, 2, 2):
        header.write_text(f"#define MORE {more}\n")
        open_device().build(Language.OPENCL_C, source, (f"-I{tmp_path}",))
    assert compiler() == {"OpenCL C": 3, "SPIR-V": 2}


@pytest.mark.needs("no validation layer")
def test_a_cached_binary_that_the_driver_refuses_is_made_anew(open_device, compiler):
    open_device().build(Language.SPIRV, fill_module(), ())
    get = BinaryCache.get
    with mock.patch.object(BinaryCache, "get", lambda cache, key: get(cache, key) and b"no binary at all"):
        kernels = open_device().build(Language.SPIRV, fill_module(), ())
    assert list(kernels) == ["fill"]
    assert compiler()["SPIR-V"] == 2


def test_without_the_offline_compiler_spirv_still_works(open_device, compiler):
    with without_compiler("libno-such-ocloc.so"):
        with pytest.raises(NotSupportedError, match=r"intel-ocloc.*SPIR-V"):
            open_device().build(Language.OPENCL_C, SOURCE, ())
        assert list(open_device().build(Language.SPIRV, fill_module(), ())) == ["fill"]


def test_a_program_that_is_wrong_says_where(open_device, compiler):
    with pytest.raises(BuildError, match="undeclared identifier 'missing'") as caught:
        open_device().build(Language.OPENCL_C, SOURCE.replace("= value", "= missing"), ())
    assert "1:7" in caught.value.log
    with pytest.raises(fb.InvalidArgumentError, match="not SPIR-V"):
        open_device().build(Language.SPIRV, b"\x7fELF" + bytes(60), ())
    with pytest.raises(fb.InvalidArgumentError, match="cut off"):
        open_device().build(Language.SPIRV, fill_module()[:-40], ())


def test_a_program_without_kernels_has_none(open_device, compiler):
    assert open_device().build(Language.OPENCL_C, "int helper(int x) { return x; }", ()) == {}


# -- times of a clock that wraps after minutes

BITS_32 = (1 << 32) - 1
BITS_64 = (1 << 64) - 1


@pytest.mark.parametrize("mask", [BITS_32, BITS_64])
@pytest.mark.parametrize("ticks", [0, 1, -1, 12_000_000, -12_000_000, (1 << 31) - 1, 1 - (1 << 31)])
@pytest.mark.parametrize("first", [0, 5, 1 << 20, BITS_32 - 5])
def test_the_time_between_is_the_shorter_way_round(first, ticks, mask):
    first &= mask
    assert ticks_between(first, (first + ticks) & mask, mask) == ticks
    assert ticks_between(7 << 40 | 3, 9 << 33 | 10, BITS_32) == 7, "bits above the valid ones do not count"
