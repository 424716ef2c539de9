"""Compiles the extension modules. All static settings are in pyproject.toml.

The folders ``core``, ``sync``, ``lifetimes``, ``events``, ``races`` and ``queues`` at the root are the
packages ``forebay.core`` and so on, and ``src/forebay`` is the package above them; ``microbench`` is ``forebay.bench``.
setuptools maps the folders when it installs. Cython and type checkers have no such map, so ``build/view/forebay``
shows them the layout of an installed forebay. Every ``.pyx`` file in these folders becomes a module, so there is no
list to keep up to date; one more has what Cython would put into each of them. Stubs for wheels and type checkers are
made from the annotations. ``build_ext --inplace --tests`` also compiles ``tests/observers`` and the drivers in
``tests/drivers``, which nothing installs.
"""

import ast
import copy
import gc
import json
import multiprocessing
import os
import re
import shutil
import sys
import sysconfig
import tempfile
import threading
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import ClassVar

from setuptools import Command, Extension, setup
from setuptools.command.build import build as setuptools_build
from setuptools.command.build_ext import build_ext as setuptools_build_ext
from setuptools.errors import CompileError, OptionError

ROOT = Path(__file__).resolve().parent
ROOMS = ("core", "sync", "lifetimes", "events", "races", "queues")
FACE = Path("src", "forebay")
BENCH = Path("microbench")
OBSERVERS = Path("tests", "observers")
DRIVERS = Path("tests", "drivers")  # that only the tests use
VIEW = Path("build", "view")
# What Cython would repeat in each module: its type of functions, the reading of keywords, imports. Without these copies
# the compiler takes a tenth less time. Cython makes this module; it has no source.
SHARED = "forebay.core.cython_shared"
ON_THEIR_OWN = ("queues/device.pyx", "queues/queue.pyx")  # their methods would take some instructions more for a call
# What makes things ready, shows them or checks them: no operation whose instructions are in microbench/counts.json
# executes any of this. With -O1 the compiler takes a third less time for it. What only the tests use gets -O0, and all
# else -O2.
OFF_THE_PATH = (
    "queues/levelzero/discovery.pyx",
    "queues/graphs/capture.pyx",
    "queues/interop/*.pyx",
    "queues/kernels/*.pyx",
    "races/*.pyx",
    "src/forebay/tracing/*.pyx",
)
# Most modules include these, which takes the compiler longer than what is in many of them.
INCLUDED = """
#ifndef PY_SSIZE_T_CLEAN  // as in what Cython makes: Python.h comes before it now
#define PY_SSIZE_T_CLEAN
#endif
#include "Python.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <ios>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>
"""
INCLUDE = re.compile(rb'#include "([^"\n]+)"')
RESERVE = Path("core", "reserve.hpp")  # has the `operator new` of all modules
MANY = 20  # modules, for which precompiling headers is worth its two seconds
FOR_ANY_SYSTEM = {"sdist", "egg_info"}  # commands that compile nothing

NO_COMPILER = """
forebay compiles its core and found no C++ compiler (looked for: {name}). It needs one that knows C++17:
    Debian, Ubuntu    apt-get install g++
    Fedora, RHEL      dnf install gcc-c++
    conda             conda install -c conda-forge cxx-compiler
To use another compiler, set the environment variable CXX.
"""
NO_HEADERS = """
forebay compiles its core and found no Python.h in {folder}. It needs the headers of exactly this Python:
    Debian, Ubuntu    apt-get install python3-dev
    Fedora, RHEL      dnf install python3-devel
A Python from python.org, conda, pyenv or uv has them already.
"""
NOT_HERE = """
forebay cannot be built on {system}: it runs on Linux. What is missing here:
{missing}
https://github.com/forebay/forebay/blob/main/docs/platforms.md says what works where.
"""
MISSING = {
    "win32": """    the module resource and other parts of POSIX, for the processes that compile kernels
    anybody who has compiled it by MSVC, or run it: it was never tried
In WSL 2, forebay runs as on any Linux, on the CPU and on GPUs whose driver supports WSL.""",
    "darwin": """    a driver: Apple's OpenCL ends at 1.2, without SPIR-V, and there is no Level Zero, CUDA or SYCL
    anybody who has run it with another driver, such as PoCL: it was never tried
In a virtual machine or container with Linux, forebay runs on the CPU with PoCL.""",
}
OTHER = "    anybody who has tried"


PUBLISHED = "https://raw.githubusercontent.com/forebay/forebay/main/"
READABLE = "https://github.com/forebay/forebay/blob/main/"


def readme():
    """Return README with absolute links, because an index shows it without the files it points to."""
    text = Path("README.md").read_text(encoding="utf-8")
    text = re.sub(r"(!\[[^]]*\]\()(?!https?:)", rf"\g<1>{PUBLISHED}", text)
    return re.sub(r"((?<!!)\[[^]]*\]\()(?!https?:|#)", rf"\g<1>{READABLE}", text)


def packages():
    """Every folder with an ``__init__.py``, by its import name."""
    inits = [init for folder in (FACE, BENCH, *ROOMS) for init in sorted(Path(folder).rglob("__init__.py"))]
    return [module_name(init.parent) for init in inits]


def module_name(path):
    """Return the import name of a file or folder of the rooms, the face, the benchmarks or the tests."""
    parts = path.with_suffix("").parts
    if parts[0] == BENCH.name:
        return ".".join(("forebay", "bench", *parts[1:]))
    if parts[0] == "tests":
        return ".".join(parts)
    return ".".join(parts[1:] if parts[0] == "src" else ("forebay", *parts))


def extensions(*folders):
    """One extension module for every ``.pyx`` file in the folders."""
    sources = sorted(source for folder in folders for source in Path(folder).rglob("*.pyx"))
    return [extension(module_name(source), source) for source in sources]


def extension(name, source):
    return Extension(
        name,
        [source.as_posix()],
        language="c++",
        include_dirs=["."],
        # before glibc 2.34, dlopen and threads were separate libraries
        libraries=["dl"],
        extra_link_args=["-pthread"],
    )


def work_in(extension):
    """How long it may take to compile, next to others. The shared module, without a source, is among the longest."""
    source = Path(extension.sources[0])
    return source.stat().st_size if source.exists() else sys.maxsize


def headers_of(source):
    """The headers of this project that a C++ file includes, itself or by others. A module with the layout of an earlier
    one would crash, whatever folder it is in.
    """
    found, left = set(), [source]
    while left:
        including = left.pop()
        for name in INCLUDE.findall(including.read_bytes()):
            header = next(filter(Path.is_file, (including.parent / name.decode(), Path(name.decode()))), None)
            if header is not None and header not in found:
                found.add(header)
                left.append(header)
    return sorted(map(str, found))


def make_view():
    """Make ``build/view/forebay``: the layout of an installed forebay, in symbolic links to the root."""
    package = VIEW / "forebay"
    shutil.rmtree(package, ignore_errors=True)
    for folder, name in {FACE: "", BENCH: "bench", **{Path(room): room for room in ROOMS}}.items():
        for source in folder.rglob("*"):
            if source.is_dir() or source.suffix in (".so", ".pyd", ".pyc"):
                continue
            entry = package / name / source.relative_to(folder)
            entry.parent.mkdir(parents=True, exist_ok=True)
            try:
                entry.symlink_to(source.resolve())
            except (OSError, NotImplementedError):  # Windows without the privilege, or a file system without links
                shutil.copy2(source, entry)


def write_stubs():
    """Write a stub for every ``.pyx`` file into the view, beside it."""
    from stubgen_pyx import StubgenPyx
    from stubgen_pyx.config import StubgenPyxConfig

    config = StubgenPyxConfig(
        include_private=True,
        exclude_attribution=True,
        resolve_ctypedef_aliases=True,
        trim_not_defined=False,  # otherwise a misspelt name in an annotation becomes Any
        include_dirs=[str(VIEW)],
    )
    sources = sorted(VIEW.rglob("*.pyx"))
    StubgenPyx(config=config).convert_multiple_files(sources)
    for stub in [source.with_suffix(".pyi") for source in sources]:
        tree = TidyStub().visit(ast.parse(stub.read_text(encoding="utf-8")))
        tree.body.insert(1, ast.parse("from typing_extensions import Never, overload").body[0])
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        for node in [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]:
            node.names = [name for name in node.names if (name.asname or name.name).split(".")[0] in used]
            if not node.names:
                tree.body.remove(node)
        stub.write_text(ast.unparse(tree) + "\n", encoding="utf-8")
    write_stubs_of_hip()


def write_stubs_of_hip():
    """Write stubs of what `forebay.hip` makes when it is imported: HIP's facts, and its public names."""
    folder = VIEW / "forebay" / "hip"
    facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    text = [(folder / "facts.py").read_text(encoding="utf-8").partition("\ndef _at_first(")[0]]
    text += [f"{name}: int" for name in facts["constants"]]
    for base in ("IntEnum", "IntFlag"):
        for name, kind in facts[base].items():
            text += [
                f"class {name}(enum.{base}):",
                *(f"    {member} = {value}" for member, value in kind["members"].items()),
            ]
    for name, structure in facts["structures"].items():
        base = "Opaque" if any(isinstance(given, dict) for given in structure["members"].values()) else "Record"
        text += [f"class {name}({base}):"]
        text += [f"    {member}: {type_of_member(given)}" for member, given in structure["members"].items()]
    text += [f"{alias} = {name}" for alias, name in facts["aliases"].items()]
    (folder / "facts.pyi").write_text("\n".join(text) + "\n", encoding="utf-8")
    text = ["from typing import Any", "from forebay.hip.compiled.launch import dim3 as dim3"]
    for module in sorted(folder.glob("[!_]*.py")):
        source = module.with_suffix(".pyi") if module.stem == "facts" else module
        names = [each for node in ast.parse(source.read_text(encoding="utf-8")).body for each in names_defined_by(node)]
        public = [name for name in dict.fromkeys(names) if PUBLIC_IN_HIP.match(name)]
        text += [f"from forebay.hip.{module.stem} import {name} as {name}" for name in public]
    text.append("def __getattr__(name: str) -> Any: ...")
    (folder / "__init__.pyi").write_text("\n".join(text) + "\n", encoding="utf-8")


# As in ``forebay/hip/__init__.py``.
PUBLIC_IN_HIP = re.compile(r"i?hip|HIP|(DeviceArray|NDBuffer|Pointer|current_device|last_exception|textureReference)$")


def names_defined_by(node):
    """The names that a statement of a module defines, other than by an import."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return [each.id for target in targets if target for each in ast.walk(target) if isinstance(each, ast.Name)]


def type_of_member(given):
    """The type of a structure's member that is this at first, see ``forebay/hip/facts.py``."""
    if isinstance(given, str):  # an enumerator, in whose place a number may be, or the name of a class
        return "Any" if "." in given or given == "object" else given
    return {list: "list[Any]", dict: "bytes", type(None): "Any"}.get(type(given), type(given).__name__)


# What the last parameter of a method may be, and what comes back then. Cython would take overloads of special methods
# for the methods, and a default that is there only for the message of an error is none for a type checker.
OVERLOADS = {
    "Buffer.__getitem__": {
        "SupportsIndex | slice[Any, Any, None]": "Buffer",
        "slice | tuple[Any, ...] | EllipsisType | None": "Buffer | StridedView",
    },
    "Queue.wait": {"Event | IpcEvent": "None", "Queue": "None"},
}


class TidyStub(ast.NodeTransformer):
    """Corrects the parts of stubgen-pyx 0.3's output that do not match what Python sees."""

    def visit_ClassDef(self, node):
        if [ast.unparse(base) for base in node.bases] == ["TypedDict"]:  # a C structure
            return None
        node.decorator_list = [name for name in node.decorator_list if not ast.unparse(name).startswith("cython.")]
        members = [
            self.overloaded(each, OVERLOADS.get(f"{node.name}.{getattr(each, 'name', '')}")) for each in node.body
        ]
        node.body = [each for overloads in members for each in overloads]
        return self.generic_visit(node)

    @staticmethod
    def overloaded(node, kinds):
        made = []
        for kind, result in (kinds or {}).items():
            made.append(copy.deepcopy(node))
            arguments = made[-1].args
            (arguments.args or arguments.posonlyargs)[-1].annotation = ast.parse(kind, mode="eval").body
            arguments.defaults = []
            made[-1].returns = ast.parse(result, mode="eval").body
            made[-1].decorator_list = [ast.Name("overload")]
        return made or [node]

    def visit_AnnAssign(self, node):
        kind = ast.unparse(node.annotation)
        if kind == "TypeAlias":  # another C type
            return None
        if kind.startswith("Final["):  # a readonly attribute, whose value may still change
            kind = ast.unparse(node.annotation.slice)
            return ast.parse(f"@property\ndef {node.target.id}(self) -> {kind}: ...").body
        node.value = None
        return node

    def visit_FunctionDef(self, node):
        if node.name == "__dealloc__":
            return None
        if node.args.kwarg:  # stubgen-pyx loses its annotation; here it equals vararg's, or is Never
            vararg = node.args.vararg
            node.args.kwarg.annotation = vararg.annotation if vararg else ast.Name("Never")
        return node


class build(setuptools_build):
    """Build from scratch: otherwise setuptools packs files of an earlier build into the wheel."""

    def run(self):
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


class view(Command):
    """Make ``build/view`` and the stubs in it, and nothing else, for a type checker."""

    user_options: ClassVar[list] = []

    def initialize_options(self):
        pass

    def finalize_options(self):
        pass

    def run(self):
        make_view()
        write_stubs()


class Progress:
    """Reports compiled modules on stderr: on a terminal in one line that is rewritten, else one line per module."""

    def __init__(self, total):
        self.done, self.total = 0, total
        self.any_compiled = False
        self.terminal = sys.stderr.isatty()
        self.lock = threading.Lock()

    def advance(self, name, compiled):
        """Count a module, and report it unless all modules so far were up to date."""
        with self.lock:
            self.done += 1
            self.any_compiled |= compiled
            line = f"forebay: compiled {self.done} of {self.total} modules: {name}"
            if self.terminal and self.any_compiled:
                print(f"\r\033[K{line}", end="\n" if self.done == self.total else "", file=sys.stderr, flush=True)
            elif compiled:
                print(line, file=sys.stderr, flush=True)


class build_ext(setuptools_build_ext):
    """Compile with Cython, across the folders, as C++17, on all cores."""

    user_options: ClassVar[list] = [
        *setuptools_build_ext.user_options,
        ("tests", None, "also compile the modules that only the tests use; with --inplace"),
    ]
    boolean_options: ClassVar[list] = [*setuptools_build_ext.boolean_options, "tests"]

    def initialize_options(self):
        super().initialize_options()
        self.tests = False

    def finalize_options(self):
        if self.tests:
            if not self.inplace:
                raise OptionError("--tests needs --inplace: modules that only the tests use are not installed")
            self.distribution.ext_modules += extensions(OBSERVERS, DRIVERS)
        if self.inplace or self.editable_mode:
            # One permanent folder for both, so that an editable install reuses what `build_ext --inplace` compiled.
            self.build_lib = str(Path("build", "inplace"))
            self.build_temp = str(Path("build", "inplace", "objects"))
        super().finalize_options()
        if self.parallel is None:
            self.parallel = len(os.sched_getaffinity(0))

    def run(self):
        make_view()
        gc.disable()  # see build_extensions
        if self.inplace or self.editable_mode:
            super().run()
            return
        # Stubs are made beside the compiler. By fork: there is no name by which another process could import this file.
        stubs = multiprocessing.get_context("fork").Process(target=write_stubs, daemon=True)
        stubs.start()
        super().run()
        stubs.join()
        if stubs.exitcode:
            raise SystemExit("forebay: making the stubs failed; the error is above.")
        for stub in VIEW.rglob("*.pyi"):
            shutil.copy2(stub, Path(self.build_lib, stub.relative_to(VIEW)))

    def build_extensions(self):
        self.require_compiler()
        self.extensions.sort(key=work_in, reverse=True)  # so that no core has a long one left in the end
        for extension in self.extensions:
            source = Path(extension.sources[0])
            level = "-O1" if any(map(source.match, OFF_THE_PATH)) else "-O2"
            if source.parts[0] == "tests":
                level = "-O1" if "drivers" in source.parts else "-O0"  # under a driver of theirs many run
            extension.extra_compile_args = ["-std=c++17", level, "-fvisibility=hidden", "-pthread"]
            if not self.debug:  # many Pythons were built with -g and pass it on, for ten times the size
                extension.extra_compile_args.append("-g0")
            extension.define_macros = [] if self.debug else [("NDEBUG", None)]
            extension.extra_link_args.append(
                "-Wl,-Bsymbolic-functions"
            )  # its own `operator new`, wherever it is loaded
        folders = (FACE, *map(Path, ROOMS), OBSERVERS, DRIVERS)
        sources = [path for folder in folders for path in folder.rglob("*.p[yx][xdi]")]
        self.newest_source = max(path.stat().st_mtime for path in sources)
        self.progress = Progress(len(self.extensions))
        self.failed = False
        # Cython makes millions of objects in cycles. To find and free them takes a fifth of the time at best; what all
        # modules leave is 2.5 GiB, spread over the processes, which soon end.
        with ProcessPoolExecutor(self.parallel, initializer=gc.disable) as processes:
            self.translations = {extension.name: self.translate(extension, processes) for extension in self.extensions}
            Path(self.build_temp).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.build_temp) as folder:
                source = Path(folder, "reserve.cpp")
                source.write_text(f'#define FOREBAY_OPERATOR_NEW\n#include "{RESERVE.as_posix()}"\n')
                allocation = self.compile_like(self.extensions[0], source, [], [])
                for extension in self.extensions:
                    extension.extra_objects = [str(allocation)]
                self.precompile(Path(folder))
                super().build_extensions()

    def precompile(self, folder):
        """Precompile headers into a folder, for the modules that are not there yet.

        A module's code is the same with them. GCC does not notice when a header has changed since, so they are not kept
        for another build. Behind ccache there are none: it would look up no module that includes them.
        """
        missing = self.extensions
        if not self.force:
            missing = [extension for extension in missing if not Path(self.get_ext_fullpath(extension.name)).exists()]
        words = getattr(self.compiler, "compiler_so_cxx", None) or self.compiler.compiler_cxx
        if len(missing) < MANY or any("ccache" in Path(shutil.which(word) or word).resolve().name for word in words):
            return
        for flags in {tuple(extension.extra_compile_args) for extension in missing}:
            source = folder / f"headers{len(list(folder.iterdir()))}.cpp"
            source.write_text(INCLUDED)
            header = source.with_suffix(".hpp")
            header.write_text(INCLUDED)
            those = [extension for extension in missing if tuple(extension.extra_compile_args) == flags]
            use = ["-include", str(header)]
            try:
                self.compile_like(those[0], source, ["-x", "c++-header"], []).rename(f"{header}.gch")
                source.write_text("")
                self.compile_like(those[0], source, [], use)
            except CompileError:  # a compiler that does it otherwise
                continue
            for extension in those:
                extension.extra_compile_args = [*flags, *use]

    def compile_like(self, extension, source, before, after):
        """Compile a file as if it were a module's. Returns what it became."""
        arguments = {
            "output_dir": str(source.parent),
            "macros": extension.define_macros,
            "include_dirs": extension.include_dirs,
            "debug": self.debug,
            "extra_preargs": before,
            "extra_postargs": [*extension.extra_compile_args, *after],
        }
        return Path(self.compiler.compile([str(source)], **arguments)[0])

    def translate(self, extension, processes):
        """Start translating a module to C++, unless the translation is up to date."""
        import Cython  # imported late: pip loads this file several times just for metadata
        from Cython.Build import cythonize

        # cythonize also asks for the age of Cython's own files, and those of another virtual environment are newer.
        module = Path("build", f"cython-{Cython.__version__}", *Path(extension.sources[0]).parts).with_suffix(".cpp")
        if not self.force and module.exists() and module.stat().st_mtime > self.newest_source:
            done = Future()
            done.set_result([Extension(extension.name, [module.as_posix()], language="c++")])
            return done
        # Cython 3.3 cannot take the language of the shared module from an Extension.
        language = {} if extension.name == SHARED else {"language": "c++"}
        return processes.submit(
            cythonize,
            [Extension(extension.name, list(extension.sources), **language)],
            include_path=[str(VIEW)],
            cplus=True,
            shared_utility_qualified_name=None if extension.sources[0] in ON_THEIR_OWN else SHARED,
            build_dir=str(Path("build", f"cython-{Cython.__version__}")),
            language_level=3,
            compiler_directives={
                "binding": True,
                "embedsignature": False,
                "annotation_typing": False,
                "freethreading_compatible": True,
                "emit_code_comments": bool(self.debug),  # the lines of the .pyx, a fifth of all text
            },
            force=bool(self.force),
            quiet=True,
        )

    def build_extension(self, extension):
        """Compile a module once it is translated, unless it is up to date. setuptools' threads call this."""
        if self.failed:
            return
        try:
            (translated,) = self.translations[extension.name].result()
            extension.sources = translated.sources
            extension.depends = [*translated.depends, *headers_of(Path(*translated.sources)), str(RESERVE)]
            module = Path(self.get_ext_fullpath(extension.name))
            before = module.stat().st_mtime_ns if module.exists() else None
            super().build_extension(extension)
        except BaseException:
            self.failed = True  # the others stop, or the error would show only after minutes of work
            raise
        self.progress.advance(extension.name, compiled=module.stat().st_mtime_ns != before)

    def require_compiler(self):
        """Exit with advice, not with a page of output, if the compiler or Python's headers are missing."""
        command = getattr(self.compiler, "compiler_so_cxx", None) or self.compiler.compiler_cxx
        if not shutil.which(command[0]):
            raise SystemExit(NO_COMPILER.format(name=command[0]))
        folder = sysconfig.get_path("include")
        if not any(Path(include, "Python.h").exists() for include in [folder, *self.include_dirs]):
            raise SystemExit(NO_HEADERS.format(folder=folder))


def require_linux():
    """Exit with what is missing on another system, before anything is downloaded or compiled for it."""
    if not (sys.platform.startswith("linux") or FOR_ANY_SYSTEM & set(sys.argv)):
        raise SystemExit(NOT_HERE.format(system=sys.platform, missing=MISSING.get(sys.platform, OTHER)))


if __name__ == "__main__":
    require_linux()
    os.chdir(ROOT)
    setup(
        long_description=readme(),
        long_description_content_type="text/markdown",
        packages=packages(),
        ext_modules=[extension(SHARED, Path("core", "cython_shared.cpp")), *extensions(FACE, *ROOMS)],
        cmdclass={"build": build, "build_ext": build_ext, "view": view},
    )
