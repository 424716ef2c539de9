"""The cache of `null_levelzero`, how it starts commands, and that the driver it gets does what forebay needs."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests import null_levelzero
from tests.helpers.processes import ROOT
from tests.null_levelzero import DamagedError, UnavailableError

pytestmark = pytest.mark.needs("no chosen device")

PROBE = ROOT / "tests/helpers/null_levelzero_probe.py"
PONTE_VECCHIO = 0x0BD5


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and a fetch that makes a small tree and counts its calls in `cache.fetched`."""
    monkeypatch.setenv("FOREBAY_CACHE", str(tmp_path))

    class Cache:
        folder = tmp_path / "null-levelzero"
        ready = folder / "ready"
        fetched = 0
        fail: BaseException | None = None

    def fetch(folder: Path) -> None:
        Cache.fetched += 1
        (folder / "root" / "lib").mkdir(parents=True)
        (folder / "root" / "lib" / "driver.so").write_bytes(b"driver %d" % Cache.fetched)
        (folder / "root" / "lib" / "driver.so.1").symlink_to("driver.so")
        if Cache.fail:
            raise Cache.fail
        time.sleep(0.05)
        null_levelzero.seal(folder, {"driver": "1"})

    monkeypatch.setattr(null_levelzero, "fetch", fetch)
    return Cache


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"lock", "compiled"}


def test_the_second_run_fetches_nothing(cache):
    assert null_levelzero.ensure() == cache.ready / "root"
    assert null_levelzero.ensure() == cache.ready / "root"
    assert cache.fetched == 1
    assert names(cache.folder) == {"ready"}


def test_the_manifest_has_versions_and_checksums(cache):
    null_levelzero.ensure()
    manifest = json.loads((cache.ready / "manifest.json").read_text())
    assert manifest["versions"] == {"driver": "1"}
    assert manifest["sha256"] == {"root/lib/driver.so": hashlib.sha256(b"driver 1").hexdigest()}


@pytest.mark.parametrize("error", [UnavailableError("no network"), KeyboardInterrupt(), OSError("disk full")])
def test_an_interrupted_fetch_leaves_nothing(cache, error):
    cache.fail = error
    with pytest.raises(type(error)):
        null_levelzero.ensure()
    assert names(cache.folder) == set()
    cache.fail = None
    null_levelzero.ensure()
    assert cache.fetched == 2


def test_what_a_killed_fetch_left_is_not_used_and_is_removed(cache):
    left = cache.folder / "part-killed" / "new" / "root"
    left.mkdir(parents=True)
    root = null_levelzero.ensure()
    assert (root / "lib" / "driver.so").exists()
    assert names(cache.folder) == {"ready"}


def test_runs_that_start_together_fetch_once(cache):
    roots = []
    threads = [threading.Thread(target=lambda: roots.append(null_levelzero.ensure())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert roots == [cache.ready / "root"] * 4
    assert cache.fetched == 1


def test_refresh_replaces_and_a_failed_refresh_keeps(cache):
    null_levelzero.ensure()
    root = null_levelzero.ensure(refresh=True)
    assert (root / "lib" / "driver.so").read_bytes() == b"driver 2"
    cache.fail = UnavailableError("no network")
    with pytest.raises(UnavailableError):
        null_levelzero.ensure(refresh=True)
    assert (null_levelzero.ensure() / "lib" / "driver.so").read_bytes() == b"driver 2"
    assert names(cache.folder) == {"ready"}


def change(file: Path) -> None:
    file.write_bytes(b"other")


@pytest.mark.parametrize(
    ("name", "damage", "said"),
    [
        ("root/lib/driver.so", change, "checksum"),
        ("root/lib/driver.so", Path.unlink, "missing"),
        ("manifest.json", change, "cannot be read"),
        ("manifest.json", Path.unlink, "cannot be read"),
    ],
)
def test_damage_is_found_named_and_repaired_by_refresh(cache, name, damage, said):
    null_levelzero.ensure()
    damage(cache.ready / name)
    with pytest.raises(DamagedError, match=said) as caught:
        null_levelzero.ensure()
    assert str(cache.ready / name) in str(caught.value)
    assert "--refresh" in str(caught.value)
    null_levelzero.ensure(refresh=True)


def test_a_cache_that_cannot_be_made(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FOREBAY_CACHE", str(tmp_path / "file"))
    with pytest.raises(UnavailableError, match="FOREBAY_CACHE"):
        null_levelzero.ensure()


# --- fetching ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A PATH that holds nothing but what the test puts there: `tools("apt-get", "exit 100")`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("FOREBAY_DEBIAN_MIRROR", raising=False)

    def add(name: str, script: str = "") -> None:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    return add


@pytest.mark.parametrize("missing", ["apt-get", "dpkg", "dpkg-deb"])
def test_missing_tools_are_named(tools, tmp_path, missing):
    for tool in {"apt-get", "dpkg", "dpkg-deb"} - {missing}:
        tools(tool)
    with pytest.raises(UnavailableError, match=f"^{missing} is not installed"):
        null_levelzero.fetch(tmp_path / "new")


def test_another_architecture_is_refused(tools, tmp_path):
    tools("apt-get")
    tools("dpkg-deb")
    tools("dpkg", "echo riscv64")
    with pytest.raises(UnavailableError, match=r"amd64 only.*riscv64"):
        null_levelzero.fetch(tmp_path / "new")


def test_no_network_says_what_apt_said(tools, tmp_path):
    tools("dpkg", "echo amd64")
    tools("dpkg-deb")
    tools(
        "apt-get",
        'case "$*" in *indextargets*) echo "Debian|Debian|http://h/debian/";; *) echo E: Failed; exit 100; esac',
    )
    with pytest.raises(UnavailableError, match=r"reading the index of Debian unstable failed.*network.*\n.*E: Failed"):
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


def test_without_a_debian_archive_one_can_be_named(tools, monkeypatch):
    tools("apt-get", "echo 'Ubuntu|Ubuntu|http://a/ubuntu/'")
    with pytest.raises(UnavailableError, match="FOREBAY_DEBIAN_MIRROR"):
        null_levelzero.debian_archive()
    monkeypatch.setenv("FOREBAY_DEBIAN_MIRROR", "http://b/debian")
    assert null_levelzero.debian_archive() == "http://b/debian"


# --- starting commands ------------------------------------------------------------------------------------------------


def test_python_is_this_python():
    line = null_levelzero.command_line(Path("/tree"), ["python", "-c", "pass"])
    assert line[:3] == ["/tree/usr/lib64/ld-linux-x86-64.so.2", "--argv0", sys.executable]
    assert line[-3:] == [sys.executable, "-c", "pass"]
    assert line[4].startswith("/tree/usr/lib/x86_64-linux-gnu:")


def test_scripts_run_with_this_python_and_programs_as_they_are(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    script, program, shell = tmp_path / "pytest", tmp_path / "bench", tmp_path / "run"
    script.write_text("#!/usr/bin/env python3\n")
    program.write_bytes(b"\x7fELF")
    shell.write_text("#!/bin/sh\n")
    for path in (script, program, shell):
        path.chmod(0o755)
    assert null_levelzero.command_line(Path("/tree"), ["pytest", "-q"])[-3:] == [sys.executable, str(script), "-q"]
    assert null_levelzero.command_line(Path("/tree"), [str(program), "x"])[-2:] == [str(program), "x"]
    with pytest.raises(UnavailableError, match="neither"):
        null_levelzero.command_line(Path("/tree"), ["run"])
    with pytest.raises(UnavailableError, match="no command 'nothing'"):
        null_levelzero.command_line(Path("/tree"), ["nothing"])


def test_the_environment():
    root = Path("/tree")
    plain = null_levelzero.environment(root, base={"A": "1"})
    assert plain["A"] == "1"
    assert plain["ZE_ENABLE_ALT_DRIVERS"] == "/tree/usr/lib/x86_64-linux-gnu/libze_intel_gpu.so.1"
    assert "CreateMultipleRootDevices" not in plain
    assert "ZE_ENABLE_VALIDATION_LAYER" not in plain
    more = null_levelzero.environment(root, devices=2, validate=True, base={})
    assert more["CreateMultipleRootDevices"] == "2"
    assert more["ZE_ENABLE_VALIDATION_LAYER"] == more["ZEL_ENABLE_BASIC_LEAK_CHECKER"] == "1"


# --- the driver itself ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def driver():
    """The tree, or a skip that says why it cannot be had."""
    try:
        return null_levelzero.ensure()
    except UnavailableError as error:
        pytest.skip(f"Intel's Level Zero driver cannot be had here: {str(error).splitlines()[0]}")


def run(*options: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "tests.null_levelzero", *options]
    return subprocess.run(
        command,
        cwd=ROOT,
        env=null_levelzero.outside(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("options", [(), ("--devices", "2"), ("--validate",)])
def test_streams_work_on_the_driver(driver, options):
    done = run(*options, "python", str(PROBE))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[0])
    assert (found["vendor"], found["device"]) == (0x8086, PONTE_VECCHIO)
    assert found["devices"] == (2 if "2" in options else 1)
    assert found["api"] >= [1, 15]
    assert found["spirv"] == "03022307"  # the magic number of SPIR-V
    assert ("Check balance of create/destroy calls" in done.stderr) == ("--validate" in options)


def test_arguments_exit_status_and_interpreter_are_passed_on(driver):
    script = "import sys; print(sys.argv[1:], sys.executable, sys.prefix); sys.exit(7)"
    done = run("python", "-c", script, "--devices", "a b")
    assert done.returncode == 7
    assert done.stdout.strip() == f"{['--devices', 'a b']} {sys.executable} {sys.prefix}"


def test_a_child_process_of_this_one(driver):
    arguments, environment = null_levelzero.child_command("python", str(PROBE))
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_a_command_line_error_is_one_line(driver):
    done = run("no-such-command")
    assert done.returncode == 1
    assert done.stderr == "null_levelzero: there is no command 'no-such-command'\n"
