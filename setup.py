"""Builds what is compiled; everything that is only said, not done, is in pyproject.toml.

The folders ``core``, ``sync``, ``events`` and ``queues`` at the root are the packages ``forebay.core`` and so on, and
``src/forebay`` is what is above them. setuptools maps them when it installs; Cython and type checkers know no such map,
so ``build/view/forebay`` shows them the layout of an installed forebay. Every ``.pyx`` file in these folders becomes a
module: there is no list to keep up to date. ``build_ext --inplace --tests`` also compiles ``tests/observers``, which
nothing installs.
"""

import os
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import ClassVar

from setuptools import Command, Extension, setup
from setuptools.command.build import build as setuptools_build
from setuptools.command.build_ext import build_ext as setuptools_build_ext
from setuptools.errors import OptionError

ROOT = Path(__file__).resolve().parent
ROOMS = ("core", "sync", "events", "queues")
FACE = Path("src", "forebay")
OBSERVERS = Path("tests", "observers")
VIEW = Path("build", "view")
LINUX = sys.platform.startswith("linux")

NO_COMPILER = """
forebay compiles its core and found no C++ compiler (looked for: {name}). It needs one that knows C++17:
    Debian, Ubuntu    apt-get install g++
    Fedora, RHEL      dnf install gcc-c++
    macOS             xcode-select --install
    conda             conda install -c conda-forge cxx-compiler
Another one is taken from the environment variable CXX.
"""
NO_HEADERS = """
forebay compiles its core and found no Python.h in {folder}. It needs the headers of this very Python:
    Debian, Ubuntu    apt-get install python3-dev
    Fedora, RHEL      dnf install python3-devel
A Python from python.org, conda, pyenv or uv has them already.
"""


def packages():
    """Every folder with an ``__init__.py``, under the name it is imported by."""
    inits = [init for folder in (FACE, *ROOMS) for init in sorted(Path(folder).rglob("__init__.py"))]
    return [module_name(init.parent) for init in inits]


def module_name(path):
    """Return what a file or folder of the rooms, the face or the tests is imported as."""
    parts = path.with_suffix("").parts
    if parts[0] == "tests":
        return ".".join(parts)
    return ".".join(parts[1:] if parts[0] == "src" else ("forebay", *parts))


def extensions(*folders):
    """One extension module for every ``.pyx`` file in the folders."""
    sources = sorted(source for folder in folders for source in Path(folder).rglob("*.pyx"))
    return [
        Extension(
            module_name(source),
            [source.as_posix()],
            language="c++",
            include_dirs=["."],
            # dlopen and threads were libraries of their own before glibc 2.34.
            libraries=["dl"] if LINUX else [],
            extra_link_args=["-pthread"] if LINUX else [],
        )
        for source in sources
    ]


def headers_of(folder):
    """All that a module in this folder may include: its own headers and core's; an observer its driver's, too."""
    folders = [folder, Path("core"), *(Path("queues").iterdir() if folder == OBSERVERS else ())]
    return [str(header) for each in folders for header in each.glob("*.hpp")]


def make_view():
    """Make ``build/view/forebay``: the layout of an installed forebay, in symbolic links to the root."""
    package = VIEW / "forebay"
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir(parents=True)
    entries = {room: Path(room) for room in ROOMS}
    entries.update((entry.name, entry) for entry in FACE.iterdir() if entry.name != "__pycache__")
    for name, target in entries.items():
        if not target.exists():
            continue
        try:
            (package / name).symlink_to(target.resolve(), target_is_directory=target.is_dir())
        except (OSError, NotImplementedError):  # Windows without the privilege, or a file system that has none
            if target.is_dir():
                shutil.copytree(target, package / name)
            else:
                shutil.copy2(target, package / name)


class build(setuptools_build):
    """Build from scratch: setuptools would pack what an earlier build left behind into the wheel."""

    def run(self):
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


class view(Command):
    """Make ``build/view`` and nothing else, for a type checker."""

    user_options: ClassVar[list] = []

    def initialize_options(self):
        pass

    def finalize_options(self):
        pass

    def run(self):
        make_view()


class build_ext(setuptools_build_ext):
    """Compile with Cython, across the folders, as C++17."""

    user_options: ClassVar[list] = [
        *setuptools_build_ext.user_options,
        ("tests", None, "compile what only the tests use, too; with --inplace"),
    ]
    boolean_options: ClassVar[list] = [*setuptools_build_ext.boolean_options, "tests"]

    def initialize_options(self):
        super().initialize_options()
        self.tests = False

    def finalize_options(self):
        if self.tests:
            if not self.inplace:
                raise OptionError("--tests needs --inplace: what only the tests use is not installed")
            self.distribution.ext_modules += extensions(OBSERVERS)
        if self.inplace:
            # An editable install would build in a temporary folder, and compile everything each time.
            self.build_lib = str(Path("build", "inplace"))
            self.build_temp = str(Path("build", "inplace", "objects"))
        super().finalize_options()
        if self.parallel is None:
            self.parallel = min(os.cpu_count() or 1, 4)

    def run(self):
        make_view()
        if self.extensions:
            self.translate()
        super().run()

    def translate(self):
        """Translate Cython to C++. Not when this file is loaded: pip loads it several times only to ask questions."""
        import Cython
        from Cython.Build import cythonize

        translated = cythonize(
            [Extension(extension.name, list(extension.sources), language="c++") for extension in self.extensions],
            include_path=[str(VIEW)],
            build_dir=str(Path("build", f"cython-{Cython.__version__}")),
            nthreads=self.parallel if sys.platform != "win32" else 0,
            language_level=3,
            compiler_directives={"binding": True, "embedsignature": False},
            force=bool(self.force),
        )
        by_name = {extension.name: extension for extension in translated}
        for extension in self.extensions:  # setuptools keeps notes on these objects, so they stay and only learn
            headers = headers_of(Path(extension.sources[0]).parent)
            extension.sources = by_name[extension.name].sources
            extension.depends = by_name[extension.name].depends + headers

    def build_extensions(self):
        if self.compiler.compiler_type == "msvc":
            flags = ["/std:c++17", "/O2", "/EHsc"]
        else:
            self.require_compiler()
            flags = ["-std=c++17", "-O2", "-fvisibility=hidden"]
            if LINUX:
                flags.append("-pthread")
            if not self.debug:
                flags.append("-g0")  # many Pythons were built with -g and hand that on: ten times the size
        for extension in self.extensions:
            extension.extra_compile_args = flags
            extension.define_macros = [] if self.debug else [("NDEBUG", None)]
        super().build_extensions()

    def require_compiler(self):
        """End with advice, rather than with a page of output, when the compiler or Python's headers are missing."""
        command = getattr(self.compiler, "compiler_so_cxx", None) or self.compiler.compiler_cxx
        if not shutil.which(command[0]):
            raise SystemExit(NO_COMPILER.format(name=command[0]))
        folder = sysconfig.get_path("include")
        if not any(Path(include, "Python.h").exists() for include in [folder, *self.include_dirs]):
            raise SystemExit(NO_HEADERS.format(folder=folder))


if __name__ == "__main__":
    os.chdir(ROOT)
    setup(
        packages=packages(),
        ext_modules=extensions(FACE, *ROOMS),
        cmdclass={"build": build, "build_ext": build_ext, "view": view},
    )
