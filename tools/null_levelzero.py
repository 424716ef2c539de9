"""Run a command under Intel's Level Zero driver, on a machine without an Intel GPU.

    python -m tools.null_levelzero python -c 'import dpctl; dpctl.lsplatform()'
    python -m tools.null_levelzero --validate --devices 2 pytest -q tests

Intel's driver has a mode in which it drives no hardware: kernels are compiled and commands are encoded and submitted,
but nothing executes. That is enough to develop for an Intel GPU, to test what is submitted, and to measure what the
driver costs on the host.

The driver that Debian unstable packages is recent enough; the one of a stable release usually is not. The packages are
fetched with apt into a folder of the user's cache (no root, nothing is installed) and are used through the C library
and the dynamic loader that come with them. Later runs verify what is there against the checksums taken then, and need
no network. `FOREBAY_CACHE` moves the folder; `FOREBAY_DEBIAN_MIRROR` names the Debian archive where apt's own
configuration has none.

Processes that the command starts are ordinary ones and do not see the driver. Start those that should with
`child_command()`.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import platformdirs

PACKAGES = (
    "libze1", "libze-intel-gpu1", "libigc2", "libigdfcl2", "libigdgmm12", "intel-ocloc", "libc6", "libstdc++6",
    "libgcc-s1", "zlib1g", "libzstd1",
)  # fmt: skip
"""What is unpacked: the loader, the driver, its compilers, and the libraries they need newer than a stable system's."""

ARCHITECTURE = "amd64"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
"""Where Debian puts libraries, below `/` and below the unpacked tree alike."""

NULL_HARDWARE = {
    "NEOReadDebugKeys": "1", "SetCommandStreamReceiver": "5", "UseAubStream": "0", "ProductFamilyOverride": "pvc",
    "HardwareInfoOverride": "1x8x8",
}  # fmt: skip
"""Makes the driver present a small Ponte Vecchio GPU that executes nothing."""

VALIDATION = {
    "ZE_ENABLE_VALIDATION_LAYER": "1", "ZE_ENABLE_PARAMETER_VALIDATION": "1", "ZE_ENABLE_THREADING_VALIDATION": "1",
    "ZEL_ENABLE_EVENTS_CHECKER": "1", "ZEL_ENABLE_BASIC_LEAK_CHECKER": "1",
}  # fmt: skip
"""The loader's checks; one that is set already, to 0 for example, stays as it is.

The handle-lifetime checker is left off: it refuses correct launches on immediate lists.
"""

MARK = "FOREBAY_NULL_LEVELZERO"
"""Set, to the unpacked tree, in the environment of a process that runs under the driver."""

DEVICES = "CreateMultipleRootDevices"
MANIFEST = "manifest.json"


class UnavailableError(RuntimeError):
    """The driver cannot be had here; the message says why and what would help."""


class DamagedError(RuntimeError):
    """What is in the cache is not what was fetched."""


def cache_folder() -> Path:
    """The folder that holds everything this module fetches."""
    root = os.environ.get("FOREBAY_CACHE") or platformdirs.user_cache_dir("forebay", appauthor=False)
    return Path(root).absolute() / "null-levelzero"


def compiled_folder() -> Path:
    """Where the driver keeps what it compiled; used by it only if it exists."""
    return cache_folder() / "compiled"


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def seal(folder: Path, versions: Mapping[str, str]) -> None:
    """Write down the packages' versions and the checksum of every file below `folder`."""
    plain = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    files = {str(path.relative_to(folder)): sha256(path) for path in plain}
    manifest = {"architecture": ARCHITECTURE, "versions": dict(versions), "sha256": files}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")


def verify(folder: Path) -> None:
    """Raise `DamagedError` unless every file that was sealed is still there with its checksum."""
    again = f"use --refresh, or delete {folder} and run again"
    try:
        expected = json.loads((folder / MANIFEST).read_text())["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{folder / MANIFEST} cannot be read ({error}); {again}") from error
    for name, checksum in expected.items():
        path = folder / name
        if not path.is_file():
            raise DamagedError(f"{path} is missing; {again}")
        if sha256(path) != checksum:
            raise DamagedError(f"{path} does not have the checksum it was fetched with; {again}")


def ensure(refresh: bool = False) -> Path:
    """The unpacked tree, fetched first if it is not in the cache (or anew, with `refresh`), and verified.

    The tree appears under its name in one step, when it is complete: a fetch that is interrupted leaves nothing that a
    later one would use, and two at once fetch once.
    """
    cache = cache_folder()
    ready = cache / "ready"
    if refresh or not ready.exists():
        try:
            cache.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UnavailableError(f"the cache cannot be made: {error}; set FOREBAY_CACHE to another folder") from error
        with open(cache / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if refresh or not ready.exists():
                _replace(cache, ready)
    verify(ready)
    with contextlib.suppress(OSError):  # a cache that cannot be written to can still be used
        compiled_folder().mkdir(exist_ok=True)
    return ready / "root"


def _replace(cache: Path, ready: Path) -> None:
    """Fetch into a folder beside `ready` and put it in its place. The cache's lock is held."""
    for left_over in cache.glob("part-*"):  # of a fetch that was killed
        shutil.rmtree(left_over, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix="part-", dir=cache))
    try:
        fetch(part / "new")
        if ready.exists():
            ready.rename(part / "old")
        (part / "new").rename(ready)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def fetch(folder: Path) -> None:
    """Make `folder`: the packages below `debs`, unpacked below `root`, and the manifest."""
    for tool in ("apt-get", "dpkg", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise UnavailableError(
                f"{tool} is not installed; the driver comes from Debian packages (Debian or Ubuntu only)"
            )
    architecture = _output("dpkg", "--print-architecture").strip()
    if architecture != ARCHITECTURE:
        raise UnavailableError(f"the driver exists for {ARCHITECTURE} only; this machine's packages are {architecture}")

    print(f"fetching Intel's Level Zero driver (about 75 MB) into {cache_folder()}", file=sys.stderr)
    debs, root = folder / "debs", folder / "root"
    debs.mkdir(parents=True)
    root.mkdir()
    with tempfile.TemporaryDirectory(prefix="apt-", dir=folder.parent) as own:
        apt = ["apt-get", "-q", "-c", str(_apt_configuration(Path(own), debian_archive()))]
        _output(*apt, "update", doing="reading the index of Debian unstable")
        _output(*apt, "download", *PACKAGES, cwd=debs, doing="downloading the packages")
    versions = {}
    for deb in sorted(debs.iterdir()):
        name, version = _output("dpkg-deb", "--show", "--showformat=${Package}\n${Version}", str(deb)).split("\n")
        versions[name] = version
        _output("dpkg", "-x", str(deb), str(root))
    missing = set(PACKAGES) - versions.keys()
    if missing:
        raise UnavailableError(f"apt-get downloaded no package for {', '.join(sorted(missing))}")
    seal(folder, versions)


def debian_archive() -> str:
    """The address of a Debian archive: the one apt already uses here."""
    if address := os.environ.get("FOREBAY_DEBIAN_MIRROR"):
        return address
    form = "$(ORIGIN)|$(LABEL)|$(REPO_URI)"
    targets = [line.split("|") for line in _output("apt-get", "indextargets", "--format", form).splitlines()]
    for origin, label, address in targets:
        if (origin, label) == ("Debian", "Debian"):
            return address
    for _, _, address in targets:  # origin and label are only known once `apt-get update` has run
        if urlsplit(address).path.rstrip("/").endswith("/debian"):
            return address
    raise UnavailableError("apt has no Debian archive configured here; set FOREBAY_DEBIAN_MIRROR to the address of one")


def _apt_configuration(own: Path, archive: str) -> Path:
    """Write an apt configuration that keeps index and cache below `own` and knows Debian unstable only."""
    keyring = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    signed = f"[signed-by={keyring}] " if keyring.exists() else ""
    (own / "sources.list").write_text(f"deb {signed}{archive} unstable main\n")
    (own / "lists" / "partial").mkdir(parents=True)
    (own / "cache" / "archives" / "partial").mkdir(parents=True)
    settings = f"""\
Dir::Etc::SourceList "{own}/sources.list";
Dir::Etc::SourceParts "-";
Dir::State::Lists "{own}/lists";
Dir::Cache "{own}/cache";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
Acquire::Retries "2";
APT::Architecture "{ARCHITECTURE}";
APT::Architectures {{ "{ARCHITECTURE}"; }};
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"""
    (own / "apt.conf").write_text(settings)
    return own / "apt.conf"


def _output(*command: str, cwd: Path | None = None, doing: str = "") -> str:
    """The standard output of a command; `UnavailableError`, with the end of what it said, if it fails."""
    env = {**os.environ, "LC_ALL": "C.UTF-8"}
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    done = subprocess.run(command, cwd=cwd, env=env, text=True, check=False, **pipes)
    if done.returncode:
        said = "\n  ".join((done.stdout + done.stderr).strip().splitlines()[-6:])
        raise UnavailableError(f"{doing or 'running ' + command[0]} failed (is there a network?):\n  {said}")
    return done.stdout


def environment(root: Path, devices: int = 1, validate: bool = False, base: Mapping[str, str] = os.environ) -> dict:
    """The environment of a command that runs under the driver."""
    defaults = {"NEO_CACHE_DIR": str(compiled_folder()), **(VALIDATION if validate else {})}
    result = {**defaults, **base, **NULL_HARDWARE, MARK: str(root)}
    result["ZE_ENABLE_ALT_DRIVERS"] = str(root / LIBRARIES / "libze_intel_gpu.so.1")
    if devices > 1:
        result[DEVICES] = str(devices)
    return result


def command_line(root: Path, command: Sequence[str]) -> list[str]:
    """The command, started through the dynamic loader and the C library of the unpacked tree.

    `python` means this Python. A script of Python (`pytest`, `demo.py`) is run with it, another program as it is.
    """
    program, arguments = command[0], list(command[1:])
    if program in ("python", "python3", os.path.basename(sys.executable)):
        program = sys.executable
    else:
        found = shutil.which(program) or (program if os.path.isfile(program) else None)
        if found is None:
            raise UnavailableError(f"there is no command {program!r}")
        program = os.path.abspath(found)
        with open(program, "rb") as file:
            first = file.readline(256)
        if not first.startswith(b"\x7fELF"):
            if not program.endswith(".py") and not (first.startswith(b"#!") and b"python" in first):
                raise UnavailableError(f"{program} is neither a script of Python nor a compiled program")
            program, arguments = sys.executable, [program, *arguments]

    folders = [str(root / LIBRARIES), sysconfig.get_config_var("LIBDIR") or "", f"/{LIBRARIES}"]
    folders += os.environ.get("LD_LIBRARY_PATH", "").split(":")
    path = ":".join(dict.fromkeys(folder for folder in folders if folder))
    loader = root / "usr/lib64/ld-linux-x86-64.so.2"
    return [str(loader), "--argv0", program, "--library-path", path, program, *arguments]


def inside() -> bool:
    """Whether this process, or an ancestor, was started under the driver."""
    return MARK in os.environ


def outside(base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """An environment without what this process got for being under the driver: other devices, the validation layer."""
    return {
        name: value
        for name, value in base.items()
        if name not in (*VALIDATION, DEVICES) and not name.startswith(("ZEL_LOADER_LOG", "ZEL_ENABLE_LOADER_LOG"))
    }


def devices_here() -> int:
    """How many devices the driver shows to this process."""
    return int(os.environ.get(DEVICES, "1"))


@functools.cache
def _verified() -> Path:
    return ensure()


def child_command(*command: str, devices: int = 1, validate: bool = False) -> tuple[list[str], dict[str, str]]:
    """The argument list and the environment that run `command` under the driver, for `subprocess`.

    The cache is verified once in a process. What this process itself runs under makes no difference.
    """
    root = _verified()
    return command_line(root, command), environment(root, devices, validate, base=outside())


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.null_levelzero",
        description="Run a command under Intel's Level Zero driver with null hardware: no GPU, nothing executes.",
    )
    parser.add_argument("--devices", type=int, default=1, metavar="N", help="how many devices the driver shows")
    parser.add_argument("--validate", action="store_true", help="turn the loader's validation layer on")
    parser.add_argument("--refresh", action="store_true", help="fetch the packages again")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="python …, a script of Python, or a program")
    options = parser.parse_args()
    if not options.command and not options.refresh:
        parser.error("which command?")
    if options.devices < 1:
        parser.error("--devices takes a number from 1 up")
    with contextlib.suppress(KeyboardInterrupt):
        try:
            root = ensure(options.refresh)
            if not options.command:
                return
            command = command_line(root, options.command)
        except (UnavailableError, DamagedError) as error:
            sys.exit(f"null_levelzero: {error}")
        sys.stdout.flush()
        os.execve(command[0], command, environment(root, options.devices, options.validate))
    sys.exit(130)


if __name__ == "__main__":
    main()
