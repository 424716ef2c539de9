"""The commands of ``forebay`` that only show something: devices, default, cache, hip."""

import json
import re
import shutil
import subprocess
import sysconfig

import pytest
from click.testing import CliRunner

import forebay
from forebay.__main__ import commands
from forebay.compiler.cache import BinaryCache, key_of
from forebay.queues.selection import VARIABLE, devices
from tests.helpers.processes import BUNDLED_DRIVERS, no_opencl, output_of, python

pytestmark = [
    pytest.mark.needs("real hardware", "the default device"),
    pytest.mark.skipif(not any(device.usable for device in devices()), reason="no usable device"),
]


def run(*words, status=0, **environment):
    """What ``forebay`` prints on stdout, or on stderr where it fails, with this exit status."""
    environment = {VARIABLE: None} | {name: str(value) for name, value in environment.items()}
    done = CliRunner().invoke(commands, words, prog_name="forebay", env=environment, catch_exceptions=False)
    assert done.exit_code == status, done.output
    if status:
        assert done.stdout == ""
    return done.stderr if status else done.stdout


def listed(**environment):
    return json.loads(run("devices", "--json", **environment))


def test_the_list_has_the_full_names_of_every_device_however_narrow_the_terminal_is():
    answer, lines = listed(), run("devices", COLUMNS=20).splitlines()
    assert answer["devices"]
    for device in answer["devices"]:
        is_default = device["name"] == answer["default"]
        assert device["name"] + ("  the default" if is_default else "") in lines
        assert f"  {device['description']}" in lines


@pytest.mark.parametrize(
    ("words", "message"),  # of a kind that is there, and one that is not
    [("toaster", "'toaster' is not known"), ("cpu:99", "no device matches"), ("gpu:99", "no device matches")],
)
def test_an_environment_that_names_no_device(words, message):
    answer, text = listed(FOREBAY_DEVICE=words), run("devices", FOREBAY_DEVICE=words)
    assert "the default" not in text
    assert answer["devices"]
    assert answer["default"] is None
    assert f"no default: {answer['problem']}" in text
    error = run("default", status=2, FOREBAY_DEVICE=words)
    for said in (answer["problem"], error):
        assert message in said
        assert repr(words) in said
        assert "FOREBAY_DEVICE" in said
    assert "what there is" not in answer["problem"]


def test_the_default_is_what_the_environment_names():
    name = [device["name"] for device in listed()["devices"] if device["usable"]][-1]
    assert listed(FOREBAY_DEVICE=name)["default"] == name
    assert f"{name}  the default that FOREBAY_DEVICE={name} names" in run("devices", FOREBAY_DEVICE=name)
    (line,) = run("default", FOREBAY_DEVICE=name).splitlines()
    assert re.fullmatch(rf"device: {name}  .+ · .+", line)


def test_json_has_every_attribute_but_the_drivers_object():
    answer = listed()
    assert answer["default"] in [device["name"] for device in answer["devices"] if device["usable"]]
    assert answer["problem"] == ""
    for device in answer["devices"]:
        assert "native" not in device
        assert device["reason"] if not device["usable"] else device["memory"] > 0


@pytest.mark.skipif(BUNDLED_DRIVERS, reason="pyopencl's own folder has a driver, always found")
def test_no_driver_at_all(tmp_path):
    nothing = {**no_opencl(tmp_path), "without_level_zero": True, "CUDA_VISIBLE_DEVICES": ""}
    done = python("-m", "forebay", "default", **nothing)
    assert done.returncode == 2
    assert "no device that can be used" in done.stderr
    assert "Traceback" not in done.stderr
    assert "what to do: " in done.stderr or "what is missing:\n  no OpenCL driver was found" in done.stderr
    assert "OCL_ICD_VENDORS" in output_of("-m", "forebay", "devices", **nothing)


def test_an_ascii_terminal_is_good_enough():
    assert "opencl:" in output_of("-m", "forebay", "devices", PYTHONIOENCODING="ascii")


def test_the_installed_script_says_its_version():
    script = shutil.which("forebay", path=sysconfig.get_path("scripts"))
    if script is None:
        pytest.skip("forebay is not installed as a script here")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"forebay {forebay.__version__}\n"


@pytest.mark.parametrize(
    ("words", "expected"), [("forebay de", {"devices", "default"}), ("forebay cache ", {"info", "clear"})]
)
def test_the_shell_can_complete_commands(words, expected):
    request = {"_FOREBAY_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": words.count(" ")}
    assert set(run(**request).split()) == {f"plain,{name}" for name in expected}


def test_the_cache_is_shown_and_cleared(tmp_path):
    cache = BinaryCache(tmp_path / "programs")
    for value in (b"one", b"two"):
        cache.put(key_of(value), value)
    header = tmp_path / "headers" / "some.pch"
    header.parent.mkdir()
    header.write_bytes(bytes(1 << 20))
    shown = run("cache", "info", FOREBAY_CACHE=tmp_path)
    assert str(tmp_path / "programs") in shown
    assert "HIP's headers, precompiled: 1, 1.0 MiB" in shown
    assert "2 entries, 0.0 of 256 MiB" in shown
    assert "2 entries removed" in run("cache", "clear", FOREBAY_CACHE=tmp_path)
    assert "0 entries" in run("cache", "info", FOREBAY_CACHE=tmp_path)
    assert cache.get(key_of(b"one")) is None
    assert not header.exists()
    assert "turned off" in run("cache", "info", FOREBAY_NO_CACHE=1)


def test_what_there_is_of_hip():
    table, every, rows = run("hip"), run("hip", "--all"), json.loads(run("hip", "--json"))
    assert "hipModuleLaunchKernel" in table
    assert "hipMallocMipmappedArray" not in table
    assert "textures have one level" in every
    for row in rows:
        assert row["name"] in every
        assert set(row) == {"chapter", "name", "cuda", "level_zero", "opencl", "sycl"}
    assert {row["name"]: row["opencl"] for row in rows}["hipStreamCreate"] == "yes"
