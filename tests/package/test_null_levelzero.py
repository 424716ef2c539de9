"""The cache of `null_levelzero`, how it starts commands, and that the driver it gets does what forebay needs."""

import hashlib
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.helpers.processes import ROOT
from tools import null_levelzero
from tools.null_levelzero import DamagedError, UnavailableError

pytestmark = pytest.mark.needs("no chosen device")

TREE = Path("/tree")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and a fetch that makes a small tree and counts its calls in `cache.fetched`."""

    cache = SimpleNamespace(folder=tmp_path / "null-levelzero", fetched=0, error=None)
    cache.ready = cache.folder / "ready"

    def fetch(folder):
        cache.fetched += 1
        (folder / "root").mkdir(parents=True)
        (folder / "root" / "driver.so").write_bytes(b"driver %d" % cache.fetched)
        (folder / "root" / "driver.so.1").symlink_to("driver.so")
        if cache.error:
            raise cache.error
        time.sleep(0.05)
        null_levelzero.seal(folder, {"driver": "1"})

    monkeypatch.setenv("FOREBAY_CACHE", str(tmp_path))
    monkeypatch.setattr(null_levelzero, "fetch", fetch)
    return cache


def names(folder):
    return {path.name for path in folder.iterdir()} - {"lock", "compiled"}


def test_runs_that_start_together_or_later_fetch_once(cache):
    (cache.folder / "part-killed" / "new").mkdir(parents=True)  # what a killed fetch has left
    with ThreadPoolExecutor(4) as pool:
        roots = list(pool.map(lambda _: null_levelzero.ensure(), range(4)))
    assert [*roots, null_levelzero.ensure()] == [cache.ready / "root"] * 5
    assert cache.fetched == 1
    assert names(cache.folder) == {"ready"}
    manifest = json.loads((cache.ready / "manifest.json").read_text())
    assert manifest["versions"] == {"driver": "1"}
    assert manifest["sha256"] == {"root/driver.so": hashlib.sha256(b"driver 1").hexdigest()}


@pytest.mark.parametrize("error", [UnavailableError("no network"), KeyboardInterrupt(), OSError("disk full")])
def test_an_interrupted_fetch_leaves_nothing_and_an_interrupted_refresh_what_was_there(cache, error):
    cache.error = error
    with pytest.raises(type(error)):
        null_levelzero.ensure()
    assert names(cache.folder) == set()
    cache.error = None
    null_levelzero.ensure(refresh=True)
    cache.error = error
    with pytest.raises(type(error)):
        null_levelzero.ensure(refresh=True)
    null_levelzero.ensure()
    assert (cache.ready / "root" / "driver.so").read_bytes() == b"driver 2"
    assert names(cache.folder) == {"ready"}


def change(file):
    file.write_bytes(b"other")


@pytest.mark.parametrize(
    ("name", "damage", "said"),
    [
        ("root/driver.so", change, "checksum"),
        ("root/driver.so", Path.unlink, "missing"),
        ("manifest.json", change, "cannot be read"),
        ("manifest.json", Path.unlink, "cannot be read"),
    ],
)
def test_damage_is_found_named_and_repaired_by_refresh(cache, name, damage, said):
    null_levelzero.ensure()
    damage(cache.ready / name)
    with pytest.raises(DamagedError, match=f"{name}.*{said}.*--refresh"):
        null_levelzero.ensure()
    null_levelzero.ensure(refresh=True)


def test_a_cache_that_cannot_be_made(cache):
    cache.folder.write_text("")
    with pytest.raises(UnavailableError, match="FOREBAY_CACHE"):
        null_levelzero.ensure()


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A PATH that holds nothing but what the test puts there: `tools("apt-get", "exit 100")`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("FOREBAY_DEBIAN_MIRROR", raising=False)

    def add(name, script="", begin="#!/bin/sh"):
        (folder / name).write_text(f"{begin}\n{script}\n")
        (folder / name).chmod(0o755)
        return str(folder / name)

    return add


NO_NETWORK = 'case "$*" in *indextargets*) echo "Debian|Debian|http://h/debian/";; *) echo E: Failed; exit 100; esac'


@pytest.mark.parametrize(
    ("scripts", "message"),
    [
        ({"dpkg": "", "dpkg-deb": ""}, "^apt-get is not installed"),
        ({"dpkg-deb": "", "apt-get": ""}, "^dpkg is not installed"),
        ({"dpkg": "", "apt-get": ""}, "^dpkg-deb is not installed"),
        ({"dpkg": "echo riscv64", "dpkg-deb": "", "apt-get": ""}, "amd64 only.*riscv64"),
        (
            {"dpkg": "echo amd64", "dpkg-deb": "", "apt-get": NO_NETWORK},
            r"Debian unstable failed.*network.*\n.*E: Fail",
        ),
        ({"dpkg": "echo amd64", "dpkg-deb": "", "apt-get": "echo 'U|U|http://a/ubuntu/'"}, "FOREBAY_DEBIAN_MIRROR"),
    ],
)
def test_what_makes_a_fetch_impossible_is_named(tools, tmp_path, scripts, message):
    for tool, script in scripts.items():
        tools(tool, script)
    with pytest.raises(UnavailableError, match=message):
        null_levelzero.fetch(tmp_path / "new")


@pytest.mark.parametrize(
    ("targets", "archive"),
    [
        (["Debian|Debian-Security|http://a/debian-security/", "Debian|Debian|http://b/debian/"], "http://b/debian/"),
        (["$(ORIGIN)|$(LABEL)|http://a/debian-security/", "$(ORIGIN)|$(LABEL)|http://b/debian"], "http://b/debian"),
    ],
)
def test_the_archive_is_the_one_apt_uses(tools, targets, archive):
    tools("apt-get", "\n".join(f"echo '{target}'" for target in targets))
    assert null_levelzero.debian_archive() == archive


def test_scripts_run_with_this_python_and_programs_as_they_are(tools):
    script, program = tools("pytest", begin="#!/usr/bin/env python3"), tools("bench", begin="\x7fELF")
    tools("run")
    line = null_levelzero.command_line(TREE, ["python", "-c", "pass"])
    assert line[:3] == ["/tree/usr/lib64/ld-linux-x86-64.so.2", "--argv0", sys.executable]
    assert line[-3:] == [sys.executable, "-c", "pass"]
    assert line[4].startswith("/tree/usr/lib/x86_64-linux-gnu:")
    assert null_levelzero.command_line(TREE, ["pytest", "-q"])[-3:] == [sys.executable, script, "-q"]
    assert null_levelzero.command_line(TREE, [program, "x"])[-2:] == [program, "x"]
    for name, message in (("run", "neither"), ("nothing", "no command 'nothing'")):
        with pytest.raises(UnavailableError, match=message):
            null_levelzero.command_line(TREE, [name])


PROGRAM = """
import sys
import forebay as fb
gpus = [each for each in fb.devices() if each.name.startswith("level_zero:gpu") and each.usable]
with fb.Device(gpus[-1].name) as device:
    fill = device.program("kernel void fill(global int* x, int n) { x[get_global_id(0)] = n; }")["fill"]
    one, other = device.queue(), device.queue()
    one.launch(fill, 16, 64, device.empty(1024, "i4"), 3)
    other.wait(one)
    other.finish()
print(len(gpus), "Intel" in gpus[0].description, sys.argv[1:], sys.executable, sys.prefix)
sys.exit(7)
"""


def test_queues_work_on_the_driver():
    """With one device and no layer, `make test-levelzero` shows it."""
    try:
        null_levelzero.ensure()
    except UnavailableError as error:
        pytest.skip(f"Intel's Level Zero driver cannot be had here: {str(error).splitlines()[0]}")

    def run(*command):
        line = [sys.executable, "-m", "tools.null_levelzero", "--devices", "2", "--validate", *command]
        environment = null_levelzero.outside()
        return subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    done = run("python", "-c", PROGRAM, "--devices", "a b")
    assert done.returncode == 7, done.stderr
    assert done.stdout == f"2 True {['--devices', 'a b']} {sys.executable} {sys.prefix}\n"
    assert "Check balance of create/destroy calls" in done.stderr
    done = run("no-such-command")
    assert (done.returncode, done.stderr) == (1, "null_levelzero: there is no command 'no-such-command'\n")
