import contextlib
import json
import os
from dataclasses import replace
from unittest import mock

import pytest

from forebay.core.driver import DeviceInfo, numbered
from forebay.core.errors import ArgumentTypeError, DeviceNotFoundError, InvalidArgumentError
from forebay.core.intel_cpu import INTEL_CPU, INTEL_LIBRARY
from forebay.queues.opencl import discovery as platforms
from forebay.queues.selection import DRIVERS, VARIABLE, devices, parse, select
from tests.helpers.processes import BUNDLED_DRIVERS, UNCHOSEN, no_opencl, output_of, python
from tests.inside import in_order_of_preference

needs_intel = pytest.mark.skipif(
    platforms.intel_cpu_runtime() is None, reason="Intel's CPU runtime is not from pip here"
)

about_opencl = pytest.mark.needs("OpenCL")

no_bundled_driver = pytest.mark.skipif(BUNDLED_DRIVERS, reason="pyopencl's own folder has a driver, always found")

# Prints what discovery finds, after what stands in BEFORE.
REPORT = """
import json
from forebay.queues.opencl import discovery as platforms
from forebay.queues.selection import DRIVERS
{before}
found = DRIVERS["opencl"].discover()
devices = [dict(platform=d.platform, usable=d.usable, reason=d.reason, advice=d.advice) for d in found]
print(json.dumps([devices, DRIVERS["opencl"].absence()]))
"""


def report(before="", **environment):
    return json.loads(output_of("-c", REPORT.format(before=before), **UNCHOSEN | environment))


# What is found on this machine


def test_names_are_dpctls_filter_words_and_number_each_kind():
    counted = {}
    for device in devices():
        assert device.index == counted.get((device.backend, device.kind), 0)
        counted[device.backend, device.kind] = device.index + 1
        assert device.name == f"{device.backend}:{device.kind}:{device.index}"


def test_a_usable_device_has_a_native_one_and_an_unusable_one_a_reason_and_advice():
    for device in devices():
        if device.usable:
            assert device.native is not None
            assert not device.reason
            assert not device.advice
            assert device.compute_units > 0
            assert device.memory > 0
        else:
            assert device.reason
            assert device.advice


def test_gpus_come_first_and_accelerators_last():
    order = [{"gpu": 0, "accelerator": 2}.get(device.kind, 1) for device in devices()]
    assert order == sorted(order)


@about_opencl
def test_the_machine_is_looked_at_once_whatever_the_number_of_threads():
    before = """
import threading
seen = []
threads = [threading.Thread(target=lambda: seen.append(DRIVERS["opencl"].discover())) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(seen) == 8
assert all(mine is first for found in seen for mine, first in zip(found, seen[0], strict=True))
"""
    report(before)


def test_a_caller_cannot_change_the_list_of_others():
    for listed in (devices, DRIVERS["opencl"].discover, DRIVERS["level_zero"].discover):
        before = listed()
        listed().clear()
        assert listed() == before


def test_drivers_of_one_kind_of_device_come_before_opencl_and_sycl_after_it():
    order = [device.name for device in devices() if device.kind != "accelerator"]
    drivers = (DRIVERS[name] for name in ("level_zero", "cuda", "opencl", "sycl"))
    found = [device for driver in drivers for device in driver.discover()]
    assert order == [device.name for device in found if device.kind != "accelerator"]


# What discovery finds, by what came before it and by the environment

BROKEN = "import pathlib; platforms.intel_cpu_runtime = lambda: pathlib.Path('{folder}/" + INTEL_LIBRARY + "')"
PYOPENCL_FIRST = """
import contextlib, pyopencl
with contextlib.suppress(pyopencl.Error):
    pyopencl.get_platforms()
"""
FROM_PIP = {  # what comes before, the environment; whether Intel's runtime is usable, words of its reason and advice
    "the machine": ("", {}, True, "", ""),
    "broken files beside it": ("", {"OCL_ICD_VENDORS": "{folder}/icds"}, True, "", ""),
    "OCL_ICD_VENDORS": ("", {"OCL_ICD_VENDORS": "{folder}"}, False, "OCL_ICD_VENDORS", "OCL_ICD_VENDORS"),
    "OPENCL_VENDOR_PATH": ("", {"OPENCL_VENDOR_PATH": "{folder}"}, False, "OPENCL_VENDOR_PATH", "OPENCL_VENDOR_PATH"),
    "OpenCL used before": (PYOPENCL_FIRST, {}, True, "", ""),
    "no library": (BROKEN, {}, False, INTEL_LIBRARY, "intel-cmplr-lib-rt"),
}


@about_opencl
@needs_intel
@pytest.mark.parametrize("case", FROM_PIP)
def test_intels_runtime_from_pip(tmp_path, case):
    before, environment, usable, reason, advice = FROM_PIP[case]
    (tmp_path / INTEL_LIBRARY).write_text("not a library")
    (tmp_path / "icds").mkdir()
    for name, text in (("broken", "/no/such.so"), ("empty", ""), ("intel", platforms.intel_cpu_runtime())):
        (tmp_path / "icds" / f"{name}.icd").write_text(f"{text}\n")
    found, absence = report(
        before.format(folder=tmp_path), **{name: value.format(folder=tmp_path) for name, value in environment.items()}
    )
    (intel,) = (device for device in found if device["platform"] == INTEL_CPU)
    assert (intel["usable"], absence) == (usable, "")
    assert reason in intel["reason"]
    assert advice in intel["advice"]


@about_opencl
@no_bundled_driver
@needs_intel
def test_drivers_chosen_by_the_user_are_the_only_ones():
    found, _ = report(OCL_ICD_VENDORS=platforms.intel_cpu_runtime())
    assert [(device["platform"], device["usable"]) for device in found] == [(INTEL_CPU, True)]


@about_opencl
@needs_intel
def test_the_environment_is_as_before_no_folder_is_left_and_system_drivers_are_found(tmp_path):
    code = """
import os
before = dict(os.environ)
from forebay.queues.selection import DRIVERS
print(*(device.platform for device in DRIVERS["opencl"].discover()), sep="|")
for name in ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "OCL_ICD_FILENAMES"):
    assert os.environ.get(name) == before.get(name), name
"""
    alone, _ = report("platforms.intel_cpu_runtime = lambda: None")
    both = output_of("-c", code, **UNCHOSEN | {"TMPDIR": tmp_path})
    assert list(tmp_path.glob("forebay*")) == []
    assert {device["platform"] for device in alone} <= set(both.strip().split("|"))
    output_of("-c", code, **UNCHOSEN | {"TMPDIR": tmp_path, "OCL_ICD_FILENAMES": tmp_path / "none.so"})


@about_opencl
@needs_intel
@pytest.mark.needs("a compiler of HIP C++")
def test_it_is_the_default_after_other_uses_of_opencl():
    """pyopencl's loader has looked for drivers before, and may have found another one for CPUs."""
    code = (
        PYOPENCL_FIRST
        + """
import forebay as fb
device, x = fb.Device("opencl:cpu"), None
kernel = device.program('extern "C" __global__ void f(int* x) { x[threadIdx.x] = threadIdx.x; }')["f"]
x = device.zeros(8, "i4")
device.queue().launch(kernel, 1, 8, x)
print(device.info.platform, *x.get())
"""
    )
    assert output_of("-c", code, **UNCHOSEN) == f"{INTEL_CPU} 0 1 2 3 4 5 6 7\n"


@about_opencl
@needs_intel
def test_one_import_shows_it_to_programs_of_pyopencl(tmp_path):
    """It warns where it comes too late, and adds nothing where the environment chooses drivers."""
    seen = PYOPENCL_FIRST + "    print(*(platform.name for platform in pyopencl.get_platforms()), sep='|')"
    shown = output_of("-c", f"import pyopencl, forebay.icd\n{seen}", **UNCHOSEN | {"PYTHONWARNINGS": "error"})
    assert INTEL_CPU in shown.strip().split("|")
    said = python("-c", f"{seen}\nimport forebay.icd", **UNCHOSEN).stderr
    assert "RuntimeWarning" in said
    assert "import forebay.icd first" in said
    if not BUNDLED_DRIVERS:
        done = python("-c", f"import forebay.icd\n{seen}", **no_opencl(tmp_path))
        assert (done.stdout.strip(), done.stderr) == ("", "")


@about_opencl
@pytest.mark.parametrize(("before", "words"), [
    pytest.param("platforms.intel_cpu_runtime = lambda: None",
                 ["no OpenCL driver was found", "forebay[cpu]", "OCL_ICD_VENDORS"], marks=no_bundled_driver),
    ("import sys; sys.modules['pyopencl'] = None", ["pip install --upgrade pyopencl"]),
], ids=["no drivers", "no pyopencl"])  # fmt: skip
def test_where_there_is_none_the_advice_is_to_install_it(tmp_path, before, words):
    found, absence = report(before, **no_opencl(tmp_path))
    assert found == []
    assert [word for word in words if word not in absence] == []


# The probe


@pytest.fixture
def usable():
    return next(device for device in DRIVERS["opencl"].discover() if device.usable).native


@about_opencl
def test_a_device_that_cannot_build_a_kernel_says_what_its_compiler_said(usable, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    reason = platforms.why_unusable(usable, "kernel void probe(global int *a) { a[0] = missing; }")
    assert reason.startswith("it cannot build a kernel: ")
    assert len(reason) > len("it cannot build a kernel: ")
    assert "\n" not in reason
    assert list(tmp_path.iterdir()) == []  # pyopencl's own build leaves the source behind
    assert platforms.why_unusable(usable) == ""


@about_opencl
def test_a_compiler_that_has_worked_is_not_started_again_only_to_see_that(tmp_path, monkeypatch):
    import pyopencl as cl

    monkeypatch.setenv("FOREBAY_CACHE", str(tmp_path))
    monkeypatch.delenv("FOREBAY_NO_CACHE", raising=False)
    info, made, program = next(device for device in DRIVERS["opencl"].discover() if device.usable), [], cl._cl._Program

    def make(context, *made_of):
        made.append(made_of)
        return program(context, *made_of)

    monkeypatch.setattr(cl._cl, "_Program", make)
    for _ in range(3):
        assert platforms.why_unusable(info.native, info=info) == ""
    assert [len(made_of) for made_of in made] == [1, 2, 2]  # the source, and what the driver made of it
    (kept,) = (path for path in tmp_path.rglob("*") if path.is_file())
    kept.write_bytes(kept.read_bytes()[:-1])
    assert platforms.why_unusable(info.native, info=info) == ""
    assert len(made[-1]) == 1
    wrong = "kernel void probe(global int *a) { a[0] = missing; }"
    for _ in range(2):
        assert platforms.why_unusable(info.native, wrong, info)
        assert made[-1] == (wrong,)
    other = replace(info, driver_version="another")
    assert platforms.why_unusable(info.native, info=other) == ""
    assert len(made[-1]) == 1


@about_opencl
def test_a_compiler_that_warns_is_still_good(usable, recwarn):
    assert platforms.why_unusable(usable, "kernel void probe(global int *a) { int unused; a[0] = 1; }") == ""
    assert not recwarn.list


@pytest.mark.parametrize("missing", ["available", "compiler_available"])
def test_a_device_that_its_driver_calls_unavailable_is_not_used(missing):
    class Device:
        available = True
        compiler_available = True

    setattr(Device, missing, False)
    assert platforms.why_unusable(Device()) != ""


# Selection, on a made-up machine


def device(platform, kind, usable=True, backend="opencl", name=""):
    trouble = {} if usable else {"usable": False, "reason": "it is broken", "advice": "mend it"}
    return DeviceInfo(name, backend, kind, 0, f"a {kind}", platform, **trouble)


@pytest.fixture
def finds():
    """``finds(name, devices, absence)``: what a driver finds from now on, and what it says if that is nothing."""
    with contextlib.ExitStack() as stack:

        def finds(name, devices=(), absence=""):
            found = {"discover": lambda: list(devices), "absence": lambda: absence}
            stack.enter_context(mock.patch.multiple(DRIVERS[name], **found))

        yield finds


@pytest.fixture
def chosen():
    """``chosen(words)``: the environment's choice."""
    with mock.patch.dict(os.environ):
        os.environ.pop(VARIABLE, None)
        yield lambda words: os.environ.update({VARIABLE: words})


@pytest.fixture
def machine(finds, chosen):
    """Two CPUs, two GPUs of which the first is broken, and an emulator; in the worst order."""
    there = [
        device("Intel(R) FPGA Emulation Platform for OpenCL(TM)", "accelerator"),
        device("Portable Computing Language", "cpu"),
        device("Broken driver", "gpu", usable=False),
        device(INTEL_CPU, "cpu"),
        device("NVIDIA CUDA", "gpu"),
    ]
    found = numbered(in_order_of_preference(there))
    finds("opencl", found)
    finds("level_zero", absence="no Level Zero loader: install one")
    finds("sycl", absence="no dpctl: install it")
    finds("cuda", absence="CUDA's driver is not installed: install it")
    return found


def test_order_of_preference(machine):
    assert [(device.name, device.platform) for device in machine] == [
        ("opencl:gpu:0", "Broken driver"),
        ("opencl:gpu:1", "NVIDIA CUDA"),
        ("opencl:cpu:0", INTEL_CPU),
        ("opencl:cpu:1", "Portable Computing Language"),
        ("opencl:accelerator:0", "Intel(R) FPGA Emulation Platform for OpenCL(TM)"),
    ]


SELECTED = {
    "opencl:gpu:1": [None, "", "opencl", "gpu", "gpu:1", "1", "opencl:gpu:1"],
    "opencl:cpu:0": ["2", "cpu", "opencl:cpu", "opencl:cpu:0"],
    "opencl:cpu:1": ["CPU:1", " opencl : cpu : 1 ", "opencl:3"],
    "opencl:accelerator:0": ["accelerator", "opencl:accelerator:0"],
}


def test_filter_words_select(machine):
    for name, choices in SELECTED.items():
        assert [select(words).name for words in choices] == [name] * len(choices)


def test_the_environment_variable_selects_unless_the_program_does(machine, chosen):
    chosen("cpu:1")
    assert select().name == "opencl:cpu:1"
    assert select("gpu").name == "opencl:gpu:1"


@pytest.mark.parametrize("words", ["custom", "cpu:2", "5", "opencl:gpu:7"])
def test_no_match_lists_what_there_is(machine, words):
    with pytest.raises(DeviceNotFoundError, match=f"no device matches '{words}'") as error:
        select(words)
    for device in machine:
        assert device.name in str(error.value)
    assert isinstance(error.value, LookupError)


def test_a_match_that_cannot_be_used_says_why(machine, finds):
    for words in ("gpu:0", "0", "opencl:gpu:0"):
        with pytest.raises(DeviceNotFoundError, match=r"(?s)cannot be used.*it is broken.*mend it"):
            select(words)
    finds("opencl", [replace(device, usable=False, reason="broken", advice="mend it") for device in machine])
    with pytest.raises(DeviceNotFoundError, match="no device that can be used"):
        select()


def test_on_a_machine_without_drivers_the_message_begins_with_the_one_that_pip_installs(machine, finds):
    for name in DRIVERS:
        finds(name, absence=f"no {name}")
    with pytest.raises(DeviceNotFoundError) as error:
        select()
    problem, *missing = str(error.value).splitlines()
    assert problem == "there is no device that can be used; what is missing:"
    assert missing == ["  no opencl", "  no level_zero", "  no cuda", "  no sycl"]


def test_a_wrong_environment_variable_is_named_in_the_error(machine, chosen):
    chosen("toaster")
    with pytest.raises(InvalidArgumentError, match=r"FOREBAY_DEVICE.*'toaster' is not known"):
        select()
    chosen("cpu:9")
    with pytest.raises(DeviceNotFoundError, match="FOREBAY_DEVICE"):
        select()


@pytest.mark.parametrize("words", ["toaster", "cpu:gpu", "0:cpu", "cpu:opencl", "0:1", "-1", "cpu:x", "opencl:opencl"])
def test_words_that_make_no_sense(words):
    with pytest.raises(InvalidArgumentError, match="backend:kind:index"):
        parse(words)


def test_sycl_is_used_when_it_is_asked_for_or_there_is_nothing_else(machine, finds):
    finds("sycl", [device("SYCL", "gpu", backend="sycl", name="sycl:gpu:0")])
    assert select().name == "opencl:gpu:1"
    assert select("gpu").name == "opencl:gpu:1"
    assert select("sycl").name == "sycl:gpu:0"
    finds("opencl")
    assert select().name == "sycl:gpu:0"


def test_selection_among_two_drivers(machine, finds):
    gpu = device("Level Zero", "gpu", backend="level_zero", name="level_zero:gpu:0")
    npu = device("Level Zero", "accelerator", False, backend="level_zero", name="level_zero:accelerator:0")
    finds("level_zero", [gpu, npu])
    for name, choices in {
        "level_zero:gpu:0": [None, "gpu", "level_zero", "LEVEL_ZERO:gpu:0"], "opencl:cpu:0": ["cpu"],
        "opencl:gpu:1": ["gpu:2", "opencl", "opencl:1"], "opencl:accelerator:0": ["accelerator"],
    }.items():  # fmt: skip
        assert [select(words).name for words in choices] == [name] * len(choices)
    assert [device.name for device in devices()][-2:] == ["level_zero:accelerator:0", "opencl:accelerator:0"]


def test_a_driver_that_is_not_asked_for_is_not_started(machine, finds):
    started = mock.Mock(side_effect=AssertionError("it was started"))
    with mock.patch.object(DRIVERS["level_zero"], "discover", started):
        assert select("opencl").name == "opencl:gpu:1"
    finds("level_zero", [device("", "gpu", backend="level_zero", name="mine")])
    with mock.patch.object(DRIVERS["opencl"], "discover", started):
        assert select("level_zero:gpu").name == "mine"


@pytest.mark.parametrize(
    ("words", "advice"),
    [("sycl", "no dpctl: install it"), ("sycl:cpu", "no dpctl: install it"),
     ("level_zero:gpu:0", "no Level Zero loader: install one")],
)  # fmt: skip
def test_a_driver_that_is_not_there_says_what_to_install(machine, words, advice):
    with pytest.raises(DeviceNotFoundError, match=advice) as error:
        select(words)
    for device in machine:
        assert device.name in str(error.value)


def test_words_of_the_wrong_type():
    with pytest.raises(ArgumentTypeError, match="not by int"):
        select(0)
