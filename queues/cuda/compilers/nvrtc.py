"""Compiles C++ for NVIDIA's GPUs by NVRTC, the compiler as a library. It needs neither a GPU nor a driver.

What it makes is machine code of one architecture: PTX of a newer NVRTC is refused by an older driver, while machine
code of the same major version runs. Types and names of parameters come from debug information, for which the program
is compiled a second time, to PTX without optimization.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from pathlib import Path
from typing import NamedTuple

from forebay.core.driver import Language
from forebay.core.errors import BuildError, DriverError, NotInstalledError, how_to_install
from forebay.queues.cuda.compilers.cubin import with_facts
from forebay.queues.cuda.compilers.debug_info import read_signatures
from forebay.queues.cuda.compilers.ptx import PtxModule, read_ptx
from forebay.queues.cuda.compilers.ptx_access import accesses_of
from forebay.queues.kernels.parameters import (
    CppProgram,
    KernelSignature,
    ParameterSignature,
    Signatures,
    VariableSignature,
    kernel_info,
)

__all__ = ["Nvrtc", "NvrtcCompiler", "find_nvrtc"]

LIBRARY = "libnvrtc.so."
TOOLKIT = "/usr/local/cuda"  # where CUDA's installers put it
RESERVED = re.compile(r"_Z\w*?\d(?:__nv_|cuda3|cub\d|__forebay|cooperative_groups)")  # constants of headers
ADVICE = how_to_install("cuda")


class Outcome(NamedTuple):
    """What NVRTC made of a program: status 0 is success."""

    status: int
    log: str
    cubin: bytes = b""
    ptx: str = ""
    lowered: Mapping[str, str] = {}


class Nvrtc:
    """An NVRTC that was found.

    Attributes
    ----------
    path : Path
    version : tuple of int
        ``(13, 0)``.
    includes : tuple of str
        Folders with the headers that belong to it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._library = ctypes.CDLL(str(path))
        major, minor = c_int(), c_int()
        self._call("nvrtcVersion", byref(major), byref(minor))
        self.version = major.value, minor.value
        self.includes = tuple(map(str, _includes(path, major.value)))

    @functools.cached_property
    def architectures(self) -> tuple[int, ...]:
        """The architectures that it knows, such as 90."""
        count = c_int()
        self._call("nvrtcGetNumSupportedArchs", byref(count))
        numbers = (c_int * count.value)()
        self._call("nvrtcGetSupportedArchs", numbers)
        return tuple(numbers)

    def compile(
        self,
        source: str,
        name: str,
        headers: Mapping[str, str],
        options: Sequence[str],
        expressions: Sequence[str] = (),
    ) -> Outcome:
        """Compile a program; `options` are NVRTC's. Blocks, without the GIL."""
        program = c_void_p()
        texts = _strings([text.encode(errors="surrogateescape") for text in headers.values()])
        names = _strings([each.encode() for each in headers])
        self._call(
            "nvrtcCreateProgram", byref(program), source.encode(errors="surrogateescape"), name.encode(),
            len(headers), texts, names,
        )  # fmt: skip
        try:
            for each in expressions:
                self._call("nvrtcAddNameExpression", program, each.encode())
            status = self._library.nvrtcCompileProgram(
                program, len(options), _strings([each.encode(errors="surrogateescape") for each in options])
            )
            log = self._bytes("ProgramLog", program).decode(errors="replace").strip("\0\n ")
            if status:
                return Outcome(status, log or self._error(status))
            cubin = self._bytes("CUBIN", program)
            ptx = self._bytes("PTX", program).decode(errors="replace").rstrip("\0")
            lowered = {}
            for each in expressions:
                found = c_char_p()
                self._call("nvrtcGetLoweredName", program, each.encode(), byref(found))
                lowered[each] = (found.value or b"").decode()
            return Outcome(0, log, cubin, ptx, lowered)
        finally:
            self._library.nvrtcDestroyProgram(byref(program))

    def _bytes(self, what: str, program: c_void_p) -> bytes:
        nbytes = c_size_t()
        self._call(f"nvrtcGet{what}Size", program, byref(nbytes))
        data = ctypes.create_string_buffer(nbytes.value)
        self._call(f"nvrtcGet{what}", program, data)
        return data.raw

    def _error(self, status: int) -> str:
        text = self._library.nvrtcGetErrorString
        text.restype = c_char_p
        return (text(status) or b"").decode()

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            error = self._error(status)
            raise DriverError(f"{name} failed: {error}", call=name, code=status, name=error)


def find_nvrtc(most: int) -> Nvrtc:
    """Return the newest NVRTC of a major version up to `most`, that of the driver.

    Wheels come first (``nvidia-cuda-nvrtc``), then a toolkit (``CUDA_HOME``, ``CUDA_PATH``, ``/usr/local/cuda``), then
    what the system's loader finds.

    Raises
    ------
    NotInstalledError
        If there is none.
    """
    return _find(most, os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""))


@functools.cache
def _find(most: int, *toolkits: str) -> Nvrtc:
    newer = ""
    for group in (_in_wheels(), _in_toolkits((*toolkits, TOOLKIT)), _by_loader(most)):
        for major, path in sorted(group, reverse=True):
            if major > most:
                newer = f": {path} is of CUDA {major}, and this driver of CUDA {most}"
                continue
            try:
                return Nvrtc(path)
            except OSError:
                continue
    wheel = "nvidia-cuda-nvrtc-cu12" if newer and most == 12 else ""
    advice = f"pip install {wheel}" if wheel else ADVICE
    raise NotInstalledError(f"C++ for CUDA is compiled by NVRTC, which was not found{newer}: {advice}")


def _libraries(folder: Path) -> Iterator[tuple[int, Path]]:
    for path in folder.glob(f"{LIBRARY}*"):
        if found := re.fullmatch(r"(\d+)(?:\.\d+)*", path.name.removeprefix(LIBRARY)):
            yield int(found[1]), path


def _wheels() -> list[Path]:
    """The folders of the packages of NVIDIA: ``nvidia/cu13``, ``nvidia/cuda_nvrtc``."""
    spec = importlib.util.find_spec("nvidia")
    places = spec.submodule_search_locations if spec is not None else None
    return [each for place in places or () for each in sorted(Path(place).glob("*/")) if each.is_dir()]


def _in_wheels() -> list[tuple[int, Path]]:
    return [each for folder in _wheels() for each in _libraries(folder / "lib")]


def _in_toolkits(toolkits: Sequence[str]) -> list[tuple[int, Path]]:
    folders = [Path(each, name) for each in toolkits if each for name in ("lib64", "lib", "targets/x86_64-linux/lib")]
    return [each for folder in folders for each in _libraries(folder)]


def _by_loader(most: int) -> list[tuple[int, Path]]:
    return [(major, Path(f"{LIBRARY}{major}")) for major in (most, most - 1)]


def _includes(library: Path, major: int) -> Iterator[Path]:
    """The folders with headers beside a library: of its toolkit, or of the wheels of the same version. Then those of a
    toolkit of that version, because the wheels that another package needs may be without the C++ library.
    """
    roots = [library.parent.parent]
    if "nvidia" in library.parts:
        # Not those of other packages: that of NVSHMEM has an older C++ library.
        roots += [each for each in _wheels() if each.name == f"cu{major}" or each.name.startswith(("cuda_", "curand"))]
    for toolkit in (os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), TOOLKIT):
        if major in {found for found, _ in _in_toolkits([toolkit])}:
            roots.append(Path(toolkit))
    for root in dict.fromkeys(roots):
        for of in (root / "include", root / "targets/x86_64-linux/include"):
            yield from (folder for folder in (of, of / "cccl") if folder.is_dir())


def _strings(values: Sequence[bytes]) -> ctypes.Array[c_char_p]:
    return (c_char_p * len(values))(*values)


class NvrtcCompiler:
    """NVRTC for one architecture, a `CppCompiler`.

    Parameters
    ----------
    architecture
        ``(9, 0)``
    driver_version
        As CUDA says it: 13000.
    """

    language = Language.CUBIN

    def __init__(self, architecture: tuple[int, int], driver_version: int) -> None:
        self._nvrtc = find_nvrtc(driver_version // 1000)
        self._architecture = architecture[0] * 10 + architecture[1]
        if self._architecture not in self._nvrtc.architectures:
            version = ".".join(map(str, self._nvrtc.version))
            raise NotInstalledError(
                f"NVRTC {version} ({self._nvrtc.path}) does not compile for sm_{self._architecture}: "
                f"{min(self._nvrtc.architectures)} to {max(self._nvrtc.architectures)}; install another version"
            )

    @property
    def identity(self) -> str:
        """Differs for another NVRTC and another architecture."""
        return f"NVRTC {self._nvrtc.version} sm_{self._architecture} {' '.join(self._nvrtc.includes)}"

    @property
    def folders(self) -> Sequence[str]:
        """Where CUDA's own headers are."""
        return self._nvrtc.includes

    def compile(
        self,
        source: str,
        name: str,
        headers: Mapping[str, str],
        options: Sequence[str],
        expressions: Sequence[str] = (),
    ) -> CppProgram:
        """As `CppCompiler.compile`; the options are those of NVRTC. Blocks, without the GIL."""
        options = [*options, *(f"-I{folder}" for folder in self._nvrtc.includes)]

        def made(*more: str) -> Outcome:
            return self._nvrtc.compile(source, name, headers, [*more, *options], expressions)

        with ThreadPoolExecutor(1) as beside:
            described = beside.submit(made, f"-arch=compute_{self._architecture}", "-G", "-w")
            outcome = made(f"-arch=sm_{self._architecture}")
        if outcome.status:
            raise BuildError(f"the program does not compile\n{outcome.log}", log=outcome.log)
        log = outcome.log
        try:
            told = read_signatures(described.result().ptx)
        except ValueError as error:  # an NVRTC that writes it in another way
            told = Signatures((), ())
            log = f"{log}\nwarning: the types of parameters are not known ({error})".strip()
        return _described(outcome, told, log)


def _described(outcome: Outcome, told: Signatures, log: str) -> CppProgram:
    """The program with what PTX and debug information say of it."""
    module = read_ptx(outcome.ptx)
    kernels = _kernels(module, told)
    variables = _variables(module, told)
    follows = any(each.follows for each in variables)
    entries = {each.name: each for each in module.entries}
    infos = tuple(
        kernel_info(
            each, kernels, entries[each.symbol].dynamic_alignment > 0, follows, entries[each.symbol].required_block
        )
        for each in kernels
    )
    accesses = {each.symbol: accesses_of(outcome.ptx, each.symbol) for each in kernels}
    cubin = with_facts(outcome.cubin, infos, variables, accesses)
    return CppProgram(cubin, infos, variables, dict(outcome.lowered), log)


def _kernels(module: PtxModule, told: Signatures) -> list[KernelSignature]:
    known = {each.symbol: each for each in told.kernels}
    kernels = []
    for entry in module.entries:
        kernel = known.get(entry.name)
        if kernel is None or len(kernel.parameters) != len(entry.parameters):
            kernel = KernelSignature(entry.name, entry.name, (), 0)
        parameters = tuple(
            named._replace(nbytes=declared.nbytes, alignment=declared.alignment)
            for named, declared in zip(
                kernel.parameters or [_unnamed(each.name, each.is_pointer) for each in entry.parameters],
                entry.parameters,
                strict=True,
            )
        )
        kernels.append(kernel._replace(parameters=parameters))
    return kernels


def _unnamed(name: str, is_pointer: bool) -> ParameterSignature:
    return ParameterSignature(name, "void*" if is_pointer else "struct", is_pointer, False, 0, 1, True)


def _variables(module: PtxModule, told: Signatures) -> tuple[VariableSignature, ...]:
    known = {each.symbol: each for each in told.variables}
    return tuple(
        known[each.name]._replace(nbytes=each.nbytes)
        for each in module.variables
        if each.name in known and not RESERVED.match(each.name)
    )
