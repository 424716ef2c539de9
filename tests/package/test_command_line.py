import importlib.metadata
import json
import re
import shutil
import subprocess
import sysconfig

import pytest

import forebay
from forebay.queues.drivers.selection import devices
from forebay.queues.kernels.cache import BinaryCache, key_of
from tests.helpers.processes import BUNDLED_DRIVERS, no_opencl, output_of, python

pytestmark = pytest.mark.needs("real hardware")


@pytest.fixture(scope="module", autouse=True)
def _some_device():
    if not any(device.usable for device in devices()):
        pytest.skip("no usable device")


def test_the_list_has_the_full_names_of_every_device_however_narrow_the_terminal_is():
    answer = json.loads(output_of("-m", "forebay", "devices", "--json"))
    lines = output_of("-m", "forebay", "devices", COLUMNS=20).splitlines()
    assert answer["devices"]
    for device in answer["devices"]:
        is_default = device["name"] == answer["default"]
        assert device["name"] + ("  the default" if is_default else "") in lines
        assert f"  {device['description']}" in lines


@pytest.mark.needs("the default device")
@pytest.mark.parametrize("words", ["toaster", "cpu:99", "gpu:99"])  # of a kind that is there, and one that is not
def test_the_list_says_when_the_environment_names_no_device(words):
    listed = output_of("-m", "forebay", "devices", FOREBAY_DEVICE=words)
    answer = json.loads(output_of("-m", "forebay", "devices", "--json", FOREBAY_DEVICE=words))
    assert "the default" not in listed
    assert answer["devices"]
    assert answer["default"] is None
    assert f"no default: {answer['problem']}" in listed
    for said in (repr(words), "FOREBAY_DEVICE"):
        assert said in answer["problem"]
    assert "what there is" not in answer["problem"]


@pytest.mark.long
def test_the_default_of_the_list_is_what_the_environment_names():
    every = json.loads(output_of("-m", "forebay", "devices", "--json"))["devices"]
    name = [device["name"] for device in every if device["usable"]][-1]
    assert json.loads(output_of("-m", "forebay", "devices", "--json", FOREBAY_DEVICE=name))["default"] == name
    assert f"{name}  the default that FOREBAY_DEVICE={name} names" in output_of(
        "-m", "forebay", "devices", FOREBAY_DEVICE=name
    )


def test_json_has_every_attribute_but_the_drivers_object():
    answer = json.loads(output_of("-m", "forebay", "devices", "--json"))
    assert answer["default"] in [device["name"] for device in answer["devices"] if device["usable"]]
    assert answer["problem"] == ""
    for device in answer["devices"]:
        assert "native" not in device
        assert device["reason"] if not device["usable"] else device["memory"] > 0


@pytest.mark.needs("the default device")
def test_default_is_one_line_that_names_the_device():
    lines = output_of("-m", "forebay", "default").splitlines()
    assert len(lines) == 1
    assert re.fullmatch(r"device: \w+:\w+:\d+  .+ · .+", lines[0])


@pytest.mark.needs("the default device")
def test_default_obeys_the_environment():
    name = json.loads(output_of("-m", "forebay", "devices", "--json"))["default"]
    assert f"device: {name} " in output_of("-m", "forebay", "default", FOREBAY_DEVICE=name)


@pytest.mark.needs("the default device")
@pytest.mark.parametrize(("words", "message"), [("toaster", "'toaster' is not known"), ("cpu:99", "no device matches")])
def test_default_exits_with_2_and_says_what_is_wrong_with_the_environment(words, message):
    done = python("-m", "forebay", "default", FOREBAY_DEVICE=words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert "FOREBAY_DEVICE" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.needs("the default device")
@pytest.mark.skipif(BUNDLED_DRIVERS, reason="pyopencl's own folder has a driver, always found")
def test_no_driver_at_all(tmp_path):
    nothing = {**no_opencl(tmp_path), "without_level_zero": True, "CUDA_VISIBLE_DEVICES": ""}
    done = python("-m", "forebay", "default", **nothing)
    assert done.returncode == 2
    assert "no device that can be used" in done.stderr
    assert "Traceback" not in done.stderr
    assert "what to do: " in done.stderr or "what is missing:\n  no OpenCL driver was found" in done.stderr
    listed = python("-m", "forebay", "devices", **nothing)
    assert listed.returncode == 0
    assert "OCL_ICD_VENDORS" in listed.stdout


@pytest.mark.needs("the default device")
@pytest.mark.skipif(BUNDLED_DRIVERS, reason="pyopencl's own folder has a driver, always found")
def test_it_finds_the_drivers_that_the_environment_of_the_tests_names(tmp_path, monkeypatch):
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path))
    listed = json.loads(output_of("-m", "forebay", "devices", "--json", without_level_zero=True))
    assert not [device for device in listed["devices"] if device["backend"] == "opencl" and device["usable"]]


@pytest.mark.needs("the default device")
@pytest.mark.long
def test_an_ascii_terminal_is_good_enough():
    assert "device: " in output_of("-m", "forebay", "default", PYTHONIOENCODING="ascii")
    assert "opencl:" in output_of("-m", "forebay", "devices", PYTHONIOENCODING="ascii")
    json.loads(output_of("-m", "forebay", "devices", "--json", PYTHONIOENCODING="ascii"))


@pytest.mark.needs("the default device")
def test_the_installed_script_is_the_same():
    script = shutil.which("forebay", path=sysconfig.get_path("scripts"))
    if script is None:
        pytest.skip("forebay is not installed as a script here")
    done = subprocess.run([script, "--help"], capture_output=True, text=True, check=True)
    assert "devices" in done.stdout
    assert "default" in done.stdout


@pytest.mark.needs("the default device")
def test_the_version_is_the_one_of_the_installed_package():
    assert forebay.__version__ == importlib.metadata.version("forebay")
    assert output_of("-m", "forebay", "--version") == f"forebay {forebay.__version__}\n"


@pytest.mark.needs("the default device")
@pytest.mark.parametrize(
    ("words", "expected"), [("forebay de", {"devices", "default"}), ("forebay cache ", {"info", "clear"})]
)
def test_the_shell_can_complete_commands(words, expected):
    request = {"_FOREBAY_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": words.count(" ")}
    assert set(output_of("-m", "forebay", **request).split()) == {f"plain,{name}" for name in expected}


@pytest.mark.needs("the default device")
def test_a_word_that_is_no_command_is_an_error():
    assert python("-m", "forebay", "toaster").returncode == 2


@pytest.mark.needs("the default device")
def test_the_cache_is_shown_and_cleared(tmp_path):
    cache = BinaryCache(tmp_path / "programs")
    for value in (b"one", b"two"):
        cache.put(key_of(value), value)
    header = tmp_path / "headers" / "some.pch"
    header.parent.mkdir()
    header.write_bytes(bytes(1 << 20))
    shown = output_of("-m", "forebay", "cache", "info", FOREBAY_CACHE=tmp_path)
    assert str(tmp_path / "programs") in shown
    assert "HIP's headers, precompiled: 1, 1.0 MiB" in shown
    assert "2 entries, 0.0 of 256 MiB" in shown
    assert "2 entries removed" in output_of("-m", "forebay", "cache", "clear", FOREBAY_CACHE=tmp_path)
    assert "0 entries" in output_of("-m", "forebay", "cache", "info", FOREBAY_CACHE=tmp_path)
    assert cache.get(key_of(b"one")) is None
    assert not header.exists()
    assert "turned off" in output_of("-m", "forebay", "cache", "info", FOREBAY_NO_CACHE=1)


@pytest.mark.needs("the default device")
@pytest.mark.long
def test_what_there_is_of_hip():
    table = output_of("-m", "forebay", "hip")
    every = output_of("-m", "forebay", "hip", "--all")
    rows = json.loads(output_of("-m", "forebay", "hip", "--json"))
    assert "hipModuleLaunchKernel" in table
    assert "hipMallocMipmappedArray" not in table
    assert "textures have one level" in every
    for row in rows:
        assert row["name"] in every
        assert set(row) == {"chapter", "name", "cuda", "level_zero", "opencl", "sycl"}
    assert {row["name"]: row["opencl"] for row in rows}["hipStreamCreate"] == "yes"
