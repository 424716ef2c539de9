"""forebay under the names of AMD's packages, for programs that import `hip` or `rocm.bindings`.

``python -m forebay.hip PROGRAM`` runs such a program as it is. A service calls `stand_in` before its first
``import hip``. Without one of the two, ``import hip`` gives what is installed by that name.

This folder is put into `sys.path`, so that processes which a program starts find `hip` and `rocm`, too. So it has no
other modules.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from forebay import hip, hiprtc
from forebay.core.errors import Error, NotSupportedError
from forebay.hip import types
from forebay.hip.facts import HIP_VERSION, HIP_VERSION_MAJOR, HIP_VERSION_MINOR, HIP_VERSION_PATCH, hipJitOption

__all__ = ["stand_in"]

log: logging.Logger = logging.getLogger(__name__)

FOLDER: str = os.path.dirname(os.path.abspath(__file__))
DISTRIBUTIONS = ("hip-python", "rocm-bindings-hip")
# AMD's libraries, and what there is instead.
LIBRARIES: dict[str, str] = {
    **dict.fromkeys(("hipblas", "hipblaslt", "hipdnn_backend", "hipfft", "hipfile", "hipsolver", "hipsparse"), ""),
    **dict.fromkeys(("hipsparselt", "hiptensor", "rocblas", "rocfft", "rocrand", "rocsolver", "rocsparse"), ""),
    "amd_comgr": "hiprtc compiles",
    "amdsmi": "forebay.devices() lists devices",
    "hiprand": "kernels can include hiprand_kernel.h",
    "rccl": "hipMemcpyPeer copies between devices",
    "roctx": "`forebay trace` shows what a program does",
}


def stand_in() -> None:
    """Let ``import hip`` and ``import rocm.bindings`` give forebay from now on, also in processes of multiprocessing.

    The first such import writes a line to forebay's log: as a warning where AMD's packages are installed.

    Raises
    ------
    Error
        When another package of that name was imported already.
    """
    for name in ("hip", "rocm"):
        there = sys.modules.get(name)
        if there is not None and not hasattr(there, "__forebay__"):
            raise Error(f"stand_in(): {there!r} is imported already; call it before the first `import {name}`")
    if FOLDER not in sys.path:
        sys.path.insert(0, FOLDER)


class _Missing(type):
    """What each name of a library that is not there is: a class that can be imported and compared, but not called."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Missing(f"{cls.__name__}.{name}", (), {"__module__": cls.__module__})

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        library = cls.__module__
        instead = f"; {LIBRARIES[library]}" if LIBRARIES[library] else ""
        raise NotSupportedError(f"{cls.__name__}: forebay has no {library}, a library for AMD's devices only{instead}")

    __int__ = __index__ = __call__


class _Library(ModuleType):
    """A library of AMD's that is not there. It can be imported; calls of what is in it raise NotSupportedError."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return _Missing(name, (), {"__module__": self.__name__.rpartition(".")[2]})


class HiprtcLinkCreateOpts(tuple[int, list[Any], list[Any]]):
    """The arguments of `hiprtcLinkCreate` for options by name: those of `hipJitOption`, or hiprtc's older ones."""

    def __new__(cls, **options: Any) -> HiprtcLinkCreateOpts:
        keys = [name if name.startswith("HIPRTC_JIT_") else hipJitOption[name] for name in options]
        return super().__new__(cls, (len(options), keys, list(options.values())))


def hiprtcLinkCreate2(**options: Any) -> Any:
    """Do what `hiprtcLinkCreate` does, with the options as keywords."""
    return hiprtc.hiprtcLinkCreate(*HiprtcLinkCreateOpts(**options))


def _versions() -> dict[str, Any]:
    numbers = (HIP_VERSION_MAJOR, HIP_VERSION_MINOR, HIP_VERSION_PATCH)
    text = ".".join(map(str, numbers))
    made: dict[str, Any] = {"__version__": f"{text}+forebay.{importlib.metadata.version('forebay')}"}
    for which in ("HIP", "ROCM"):
        made |= {f"{which}_VERSION": HIP_VERSION, f"{which}_VERSION_NAME": text, f"{which}_VERSION_TUPLE": numbers}
        made |= {f"{which.lower()}_version_name": text, f"{which.lower()}_version_tuple": numbers}
    return made | {"VERSION": made["__version__"]}


def _installed(distribution: str) -> importlib.metadata.Distribution | None:
    try:
        return importlib.metadata.distribution(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _package(name: str, **members: Any) -> ModuleType:
    made = ModuleType(name, __doc__) if members else _Library(name, _Library.__doc__)
    made.__spec__ = ModuleSpec(name, None, is_package=True)
    made.__path__ = []
    vars(made).update(members, __forebay__=True)
    sys.modules[name] = made
    for member, value in members.items():
        if isinstance(value, ModuleType):
            sys.modules[f"{name}.{member}"] = value
    return made


class _Finder:
    """Finds what `make_packages` has made for those who look for it without importing it."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        module = sys.modules.get(name) if name.startswith(("hip.", "rocm.")) else None
        return None if module is None else module.__spec__


def make_packages(top: str) -> None:
    """Make the package `hip` or `rocm` of forebay's modules; the module of that name in this folder calls this."""
    under = "hip" if top == "hip" else "rocm.bindings"
    helpers = _package(
        f"{under}.hiprtc_pyext", HiprtcLinkCreateOpts=HiprtcLinkCreateOpts, hiprtcLinkCreate2=hiprtcLinkCreate2
    )
    hiprtc.ext = helpers  # type: ignore[attr-defined]
    bindings = {"hip": hip, "hiprtc": hiprtc, "hiprtc_pyext": helpers}
    bindings |= {name: _package(f"{under}.{name}") for name in LIBRARIES}
    util = "_util" if top == "hip" else "util"
    bindings[util] = _package(f"{under}.{util}", types=types)
    if top == "hip":
        _package("hip", **bindings, **_versions())
    else:
        _package("rocm", bindings=_package(under, **bindings), version=_package("rocm.version", **_versions()))
    if _Finder not in sys.meta_path:
        sys.meta_path.append(_Finder)
    there = [f"{each.name} {each.version}" for each in map(_installed, DISTRIBUTIONS) if each is not None]
    unused = f"; {' and '.join(there)} is installed and not used" if there else ""
    log.log(logging.WARNING if there else logging.INFO, "`import %s` gives forebay%s", top, unused)
