"""Programs: source or SPIR-V, built for one device."""

from __future__ import annotations

import functools
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from forebay.compiler.included import check_text
from forebay.core.driver import BuiltProgram, DriverDevice, Language
from forebay.core.errors import ArgumentTypeError, ClosedError, InvalidArgumentError, NotSupportedError
from forebay.queues.kernels.kernel import Closing

if TYPE_CHECKING:
    from forebay.queues.device import Device
    from forebay.queues.kernels.kernel import Kernel
    from forebay.queues.memory.buffer import Buffer

SPIRV_MAGIC = (b"\x03\x02\x23\x07", b"\x07\x23\x02\x03")  # SPIR-V 1.6, 2.3: in either order of bytes
ELF, MACHINE, CUDA = b"\x7fELF", slice(18, 20), b"\xbe\x00"
# PTX ISA, "PTX Module Directives": a module begins with .version, followed by .target
PTX = re.compile(r"(?:\s|//[^\n]*\n|/\*.*?\*/)*\.version\s+\d+\.\d+\s[^;{}]*?\.target\s", re.DOTALL)
NOT_CODE = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"", re.DOTALL)
# Defining this macro in OpenCL C lets the same source be HIP elsewhere.
KERNEL_OF_HIP = re.compile(r"\b__global__\b")
OWN_MACRO = re.compile(r"^\s*#\s*define\s+__global__\b", re.MULTILINE)


def language_of(source: str | bytes) -> Language:
    """Return the language of a program. HIP C++, as CUDA C++, has a ``__global__`` that is not its own macro. Raises
    `InvalidArgumentError` for bytes that are neither SPIR-V nor PTX nor a cubin.
    """
    if isinstance(source, str):
        if "__global__" in source:
            code = NOT_CODE.sub(" ", source)
            if KERNEL_OF_HIP.search(code) and not OWN_MACRO.search(code):
                return Language.HIP_CPP
        return Language.PTX if ".version" in source and PTX.match(source) else Language.OPENCL_C
    if source[:4] in SPIRV_MAGIC:
        return Language.SPIRV
    if source[:4] == ELF and source[MACHINE] == CUDA:
        return Language.CUBIN
    if b".version" in source and PTX.match(source.decode("latin-1")):
        return Language.PTX
    raise InvalidArgumentError("program: these bytes are not SPIR-V, nor PTX or a cubin; pass other source as str")


class Compiled(NamedTuple):
    """A source compiled for a device: what the driver takes, its options, and the driver's names for source names."""

    language: Language
    source: str | bytes
    options: tuple[str, ...]
    symbols: Mapping[str, str]


FrontEnd = Callable[[Any, str, tuple[str, ...]], Compiled]

# Front ends by language, for languages that the driver does not take; called with ``(device, source, options)``.
FRONT_ENDS: dict[Language, FrontEnd] = {}


def languages_of(driver: DriverDevice) -> tuple[Language, ...]:
    """Return the languages that a device's programs can be in, those of its driver first."""
    return tuple(dict.fromkeys((*driver.languages, *FRONT_ENDS)))


def compiled_source(device: Any, source: str | bytes, options: tuple[str, ...]) -> Compiled:
    """Return `source`, or what a front end makes of it for the driver, which blocks. Raises as `Device.program`."""
    language = language_of(source)
    errors = "surrogateescape" if language == Language.HIP_CPP else "strict"
    for what, text in (("source", source), *(("options", option) for option in options)):
        if isinstance(text, str):
            check_text(f"program: {what}", text, errors)
    if language in device.driver.languages:
        return Compiled(language, source, options, {})
    if language in FRONT_ENDS and isinstance(source, str):
        return FRONT_ENDS[language](device, source, options)
    message = f"{device.name} takes no {language}, only {', '.join(languages_of(device.driver))}"
    if language == Language.OPENCL_C and Language.SPIRV in device.driver.languages:
        message += "; compile it with clang or ocloc, and pass the bytes"
    raise NotSupportedError(f"program: {message}")


def read_source(source: Any, options: Any) -> tuple[str | bytes, tuple[str, ...]]:
    """Check the arguments of `Device.program`. Raises `ArgumentTypeError` and `InvalidArgumentError`."""
    if isinstance(source, os.PathLike):
        raise ArgumentTypeError(
            f"program: source is the text itself, not the path {os.fspath(source)!r}: pass path.read_text(), or "
            "path.read_bytes() for SPIR-V"
        )
    if isinstance(source, str) and _is_file_name(source):
        raise InvalidArgumentError(
            f"program: {source!r} is the name of a file, not OpenCL C: pass pathlib.Path({source!r}).read_text(), or "
            ".read_bytes() for SPIR-V"
        )
    if not isinstance(source, (str, bytes, bytearray, memoryview)):
        raise ArgumentTypeError(
            f"program: source is OpenCL C or HIP C++ as str, or SPIR-V as bytes, not {type(source).__name__}"
        )
    try:
        options = tuple(options.split() if isinstance(options, str) else options)
        if not all(isinstance(option, str) for option in options):
            raise TypeError
    except TypeError:
        raise ArgumentTypeError("program: options are a str or a sequence of str") from None
    return source if isinstance(source, str) else bytes(source), options


def _is_file_name(source: str) -> bool:
    """Whether this is no source: a kernel has parentheses and braces."""
    if not source.strip() or any(each in source for each in "\n(){};"):
        return False
    return bool(re.fullmatch(r".*\.(cl|clh|c|cpp|h|hip|cu|spv|spirv|bc)", source.strip())) or os.path.isfile(source)


class Program(Closing):
    """Kernels built from one source; made by `Device.program`.

    ``program["name"]`` is a `Kernel`, the same object each time. Iterating gives the names. `get_global` returns the
    variables that the kernels share. A template instance in HIP C++ has two names: the driver's mangled one and that of
    the source, ``program["scale<float>"]``.

    Attributes
    ----------
    device : Device
    log : str
        The compiler's warnings, each with its line of the source. Empty if there were none, and on Level Zero.
    """

    def __init__(
        self, device: Any = None, natives: Any = None, identities: Any = None, make: Any = None, symbols: Any = None
    ) -> None:
        if not callable(make):
            raise ArgumentTypeError("a Program is made by Device.program")
        self.device: Device = device
        self._built: BuiltProgram = natives
        self.log: str = natives.log
        self._identities = identities
        self._make_kernel = make
        self._symbols: Mapping[str, str] = symbols or {}
        self._kernels: dict[str, Kernel] = {}
        self._globals: dict[str, Buffer] = {}
        self.closed: bool = False

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """The names of its kernels."""
        return tuple(self._built)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self._built)

    if not TYPE_CHECKING:  # else type checkers would accept every name

        def __getattr__(self, name):
            for kind in type(self).__mro__:
                if name in vars(kind):  # a name of another package, whose property says what to write instead
                    return vars(kind)[name].__get__(self, type(self))
            natives = self.__dict__.get("_built") or ()
            instead = f": program[{name!r}] is the kernel" if name in natives else ""
            raise AttributeError(f"a forebay.Program has no {name!r}{instead}", name=name, obj=self)

    def __getitem__(self, name: str) -> Kernel:
        if not isinstance(name, str):
            raise ArgumentTypeError(f"a kernel's name is a str, not {type(name).__name__}")
        kernel = self._kernels.get(name)
        if kernel is not None:
            return kernel
        self._check_open()
        name = self._symbols.get(name, name)
        if name not in self._built:
            there = ", ".join(map(repr, self._built)) or "none: a kernel begins with `kernel void`"
            raise InvalidArgumentError(f"the program has no kernel {name!r}; it has {there}")
        if name not in self._kernels:
            self._kernels[name] = self._make_kernel(self._built[name], self._identities, self._built.accesses)
        return self._kernels[name]

    def get_global(self, name: str) -> Buffer:
        """Return the memory of a variable at file scope, as bytes: ``program.get_global("table").view("f4")``.

        The variable must be in ``global`` memory and not ``static``; in HIP C++ ``__device__`` or ``__constant__``.
        OpenCL C has such variables since 2.0, on devices with ``__opencl_c_program_scope_global_variables``, and only
        on request: ``dev.program(source, "-cl-std=CL3.0")``. Each program initializes its own. Does not block.

        Kernels use a variable without taking it as an argument. So its `Buffer.generation` does not count their writes,
        and only waits order its uses on different queues. Do not write to a variable that is ``const`` or in
        ``constant`` memory: it may be part of the kernels' code.

        Returns
        -------
        Buffer
            The same object each time, until it is closed. It outlives a dropped program, but not a closed one.

        Raises
        ------
        InvalidArgumentError
            When there is no variable of this `name`.
        ArgumentTypeError, ClosedError
        NotSupportedError
            When the driver does not report the addresses of variables: OpenCL without
            clGetDeviceGlobalVariablePointerINTEL, and SYCL. Level Zero does (zeModuleGetGlobalPointer).
        """
        self._check_open()
        if not isinstance(name, str):
            raise ArgumentTypeError(f"a variable's name is a str, not {type(name).__name__}")
        name = self._symbols.get(name, name)
        known = self._globals.get(name)
        if known is not None and not known.closed:
            return known
        memory = self._built.variable(name) if name.isprintable() else None
        if memory is None:
            raise InvalidArgumentError(f"the program has no variable {name!r} in global memory")
        self._globals.pop(name, None)
        return self._globals.setdefault(name, self.device._over(memory, (memory.nbytes,), np.dtype(np.uint8)))

    def __iter__(self) -> Iterator[str]:
        return iter(self._built)

    def __len__(self) -> int:
        return len(self._built)

    def __contains__(self, name: object) -> bool:
        return name in self._built or (isinstance(name, str) and self._symbols.get(name) in self._built)

    def close(self) -> None:
        """Close its kernels and variables. Submitted launches still run. May be called twice."""
        self.closed = True
        while self._kernels:
            self._kernels.popitem()[1].close()
        for variable in self._globals.values():
            variable.close()
        if self._built:
            self.device._keep_until_done(self._built)
        self._built = BuiltProgram({})

    def __del__(self) -> None:
        if getattr(self, "_built", None):
            self.device._keep_until_done(self._built)

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError("this Program is closed")

    def __repr__(self) -> str:
        return f"<forebay.Program ({', '.join(self._built)}) on {self.device.name}>"


# -- ids that are the same in every process


BITS = 32  # of an id
OFFSET_BASIS = 0x811C9DC5
PRIME = 0x01000193


def content_id(program_digest: str, kernel_name: str, task_index: int = 0, *, bits: int = BITS) -> int:
    """Return the FNV-1a hash of a task (0: the kernel) and a key of `key_of`, folded to `bits` to test collisions."""
    value = OFFSET_BASIS
    for byte in f"{program_digest}\0{kernel_name}\0{task_index}".encode():
        value = (value ^ byte) * PRIME & 0xFFFFFFFF
    return (value >> bits ^ value) & (1 << bits) - 1


class Identities:
    """The ids of one program's kernels and of their tasks: the same in every process, never 0, and unique.

    A task is a parameter of a kernel, counted from 1; `parameters` has their number by kernel. On a collision the later
    gets the next free id: kernels precede tasks, and both go by name. For the others see `content_id`.
    """

    def __init__(self, program_digest: str, parameters: Mapping[str, int], *, bits: int = BITS) -> None:
        self._digest = program_digest
        self._parameters = dict(sorted(parameters.items()))
        self._bits = bits
        self._kernels = self._give((name, 0) for name in self._parameters)

    def of(self, kernel_name: str, task_index: int = 0) -> int:
        """Return the id of a task, or of the kernel. Raises `InvalidArgumentError` for others, and if ids run out."""
        ids = self._tasks if task_index else self._kernels
        if (kernel_name, task_index) not in ids:
            raise InvalidArgumentError(f"the program has no task {task_index} of a kernel {kernel_name!r}")
        return ids[kernel_name, task_index]

    @functools.cached_property
    def _tasks(self) -> dict[tuple[str, int], int]:
        each = ((name, task) for name, count in self._parameters.items() for task in range(1, count + 1))
        return self._give(itertools.chain(self._kernels, each))

    def _give(self, tasks: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        slots, ids, taken = 1 << self._bits, {}, {0}
        for task in tasks:
            if len(taken) == slots:
                raise InvalidArgumentError(f"all {slots - 1} ids of the program are taken")
            identity = content_id(self._digest, *task, bits=self._bits)
            while identity in taken:
                identity = (identity + 1) % slots
            taken.add(identity)
            ids[task] = identity
        return ids
