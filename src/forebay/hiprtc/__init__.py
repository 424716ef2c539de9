"""hiprtc: kernels compiled at run time, in the calling convention of AMD's hip-python package.

Each function returns a tuple whose first element is a `hiprtcResult` (`hiprtcGetErrorString` returns the text only,
as there). A program is HIP C++ or OpenCL C. Clang compiles HIP C++ to SPIR-V where the device takes it, NVRTC for CUDA
(docs/hip-kernels.md). It is compiled for the current device, so that the log is its compiler's; the code that comes out
can be loaded on any device that takes its kind.

    from forebay import hip, hiprtc      # instead of: from hip import hip, hiprtc
"""

from __future__ import annotations

import ctypes
import enum
import os
import re
import threading
from collections.abc import Sequence
from typing import Any

from forebay.c_string import CString
from forebay.compiler.by_clang import link_bitcode
from forebay.compiler.clang import find_clang
from forebay.compiler.included import MOST_OF_CODE, check_text, read_file
from forebay.compiler.options import Options, split_options
from forebay.compiler.program import NotNamedError, Source
from forebay.core.driver import Language
from forebay.core.errors import BuildError, Error, NotInstalledError
from forebay.hiprtc.code import pack_code
from forebay.hiprtc.front_end import Prepared, current_device, prepare, prepare_for_linking

__all__ = [
    "has_symbol",
    "hiprtcAddNameExpression",
    "hiprtcCompileProgram",
    "hiprtcCreateProgram",
    "hiprtcDestroyProgram",
    "hiprtcGetBitcode",
    "hiprtcGetBitcodeSize",
    "hiprtcGetCode",
    "hiprtcGetCodeSize",
    "hiprtcGetErrorString",
    "hiprtcGetLoweredName",
    "hiprtcGetProgramLog",
    "hiprtcGetProgramLogSize",
    "hiprtcJITInputType",
    "hiprtcLinkAddData",
    "hiprtcLinkAddFile",
    "hiprtcLinkComplete",
    "hiprtcLinkCreate",
    "hiprtcLinkDestroy",
    "hiprtcLinkState",
    "hiprtcProgram",
    "hiprtcResult",
    "hiprtcVersion",
    "ihiprtcLinkState",
]  # fmt: skip

VERSION = (9, 0)  # what HIP 5 to 7 say

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"", re.DOTALL)
KERNEL_OF_OPENCL = re.compile(r"\b(?:__)?kernel\b[^;{}]*\bvoid\b")


class hiprtcResult(enum.IntEnum):
    """What a function of hiprtc returns."""

    HIPRTC_SUCCESS = 0
    HIPRTC_ERROR_OUT_OF_MEMORY = 1
    HIPRTC_ERROR_PROGRAM_CREATION_FAILURE = 2
    HIPRTC_ERROR_INVALID_INPUT = 3
    HIPRTC_ERROR_INVALID_PROGRAM = 4
    HIPRTC_ERROR_INVALID_OPTION = 5
    HIPRTC_ERROR_COMPILATION = 6
    HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE = 7
    HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION = 8
    HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION = 9
    HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID = 10
    HIPRTC_ERROR_INTERNAL_ERROR = 11
    HIPRTC_ERROR_LINKING = 100

    def __str__(self) -> str:
        return f"hiprtcResult.{self.name}"  # since Python 3.11 it would be a number


SUCCESS = hiprtcResult.HIPRTC_SUCCESS
INVALID_INPUT = hiprtcResult.HIPRTC_ERROR_INVALID_INPUT
COMPILATION = hiprtcResult.HIPRTC_ERROR_COMPILATION
INVALID_PROGRAM = hiprtcResult.HIPRTC_ERROR_INVALID_PROGRAM


class hiprtcProgram:
    """A program; made by `hiprtcCreateProgram`."""

    def __init__(self, source: Source) -> None:
        self._lock = threading.Lock()  # two threads may compile one program
        self._source = source
        self._expressions: list[str] = []
        self._lowered: dict[str, str] = {}
        self._log = ""
        self._code: bytes | None = None
        self._bitcode: bytes | None = None
        self._compiled = False
        self._destroyed = False

    def createRef(self) -> hiprtcProgram:
        """Return the program: where C takes a pointer to a handle, hip-python's programs pass this."""
        return self

    def __repr__(self) -> str:
        return f"<hiprtcProgram {self._source.name!r}{' (destroyed)' if self._destroyed else ''}>"


# -- arguments


def _memory(thing: Any) -> memoryview:
    """Return the memory of an object; TypeError for a pointer, which does not tell how much there is."""
    if isinstance(thing, (ctypes.c_void_p, ctypes._Pointer)):
        raise TypeError
    return memoryview(thing)


def _text(value: Any) -> str:
    """Return a C string as str."""
    if isinstance(value, str):
        check_text("hiprtc", value, "surrogateescape")
        return value
    return bytes(_memory(value)).split(b"\0")[0].decode(errors="replace")


def _strings(count: int, values: Sequence[Any] | None) -> list[str]:
    values = list(values or [])
    if not 0 <= count <= len(values):
        raise ValueError
    return [_text(value) for value in values[:count]]


def _usable(prog: Any) -> bool:
    return isinstance(prog, hiprtcProgram) and not prog._destroyed


def _write(target: Any, data: bytes) -> bool:
    """Write to host memory of at least that size; return whether that was possible."""
    try:
        view = _memory(target).cast("B")
    except (TypeError, BufferError, ValueError):
        return False
    if view.readonly or view.nbytes < len(data):
        return False
    view[: len(data)] = data
    return True


# -- programs


def hiprtcCreateProgram(
    src: bytes | str, name: bytes | str | None, numHeaders: int, headers: Any, includeNames: Any
) -> tuple[hiprtcResult, hiprtcProgram | None]:
    """Make a program from its source.

    Parameters
    ----------
    src : bytes
        HIP C++, or OpenCL C: that is what has a ``kernel void`` and no ``__global__``.
    name : bytes or None
        What messages call it.
    numHeaders, headers, includeNames
        The texts of files that it may include, and their names.

    Returns
    -------
    tuple
        ``(HIPRTC_SUCCESS, program)``; ``HIPRTC_ERROR_INVALID_INPUT`` when an argument is not of this kind.
    """
    try:
        texts, names = _strings(numHeaders, headers), _strings(numHeaders, includeNames)
        source = Source(_text(src), _text(name) if name else "program", dict(zip(names, texts, strict=True)))
    except (TypeError, ValueError):
        return INVALID_INPUT, None
    return SUCCESS, hiprtcProgram(source)


def hiprtcDestroyProgram(prog: Any) -> tuple[hiprtcResult]:
    """End a program; code that was got from it stays.

    `prog` is what `hiprtcCreateProgram` returned.

    Returns
    -------
    tuple
        ``(HIPRTC_SUCCESS,)``; ``HIPRTC_ERROR_INVALID_INPUT`` for a null pointer, ``HIPRTC_ERROR_INVALID_PROGRAM`` for
        anything but a program, or a destroyed one.
    """
    if not prog:
        return (INVALID_INPUT,)
    if not _usable(prog):
        return (INVALID_PROGRAM,)
    prog._destroyed = True
    prog._code = prog._bitcode = None
    return (SUCCESS,)


def hiprtcAddNameExpression(prog: Any, name_expression: bytes | str) -> tuple[hiprtcResult]:
    """Ask for an instance of a kernel template, such as ``b"scale<float>"``, or a variable, before compiling.

    `prog` is what `hiprtcCreateProgram` returned, and `name_expression` that name, bytes or str.

    Returns
    -------
    tuple
        ``(HIPRTC_SUCCESS,)``; ``HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION`` when it is too late.
    """
    if not _usable(prog):
        return (INVALID_PROGRAM,)
    if not name_expression:
        return (INVALID_INPUT,)
    if prog._compiled:
        return (hiprtcResult.HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION,)
    try:
        prog._expressions.append(_text(name_expression))
    except (TypeError, ValueError):
        return (INVALID_INPUT,)
    return (SUCCESS,)


def hiprtcGetLoweredName(prog: Any, name_expression: bytes | str) -> tuple[hiprtcResult, bytes | None]:
    """Return the name by which ``hipModuleGetFunction`` or ``hipModuleGetGlobal`` finds what a name expression means.

    `prog` was compiled, and `name_expression` was added to it before.

    Returns
    -------
    tuple
        ``(HIPRTC_SUCCESS, name)``; ``HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION``, or
        ``HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID`` for one that was not added.
    """
    if not _usable(prog):
        return INVALID_PROGRAM, None
    if not name_expression:
        return INVALID_INPUT, None
    if not prog._compiled:
        return hiprtcResult.HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION, None
    try:
        lowered = prog._lowered.get(_text(name_expression))
    except (TypeError, ValueError):
        return INVALID_INPUT, None
    if lowered is None:
        return hiprtcResult.HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID, None
    return SUCCESS, CString(lowered.encode())


# -- compiling


def hiprtcCompileProgram(prog: Any, numOptions: int, options: Any) -> tuple[hiprtcResult]:
    """Compile a program for the current device.

    `prog` is what `hiprtcCreateProgram` returned. The first `numOptions` of the options count.

    HIP C++ goes to clang where the device takes SPIR-V, and on CUDA to NVRTC; see docs/hip-kernels.md. Blocks while the
    compilers work. What they say is in the program's log: errors, or the warnings
    of what succeeded. A program that any process has compiled before comes from the cache.

    Parameters
    ----------
    options : list of bytes
        Those of clang: ``-D``, ``-U``, ``-I``, ``-include``; ``-std=c++20`` (C++17 without it), ``-O…``, ``-W…``;
        ``-ffast-math`` and its like, ``-ffp-contract=…``; ``-g`` for lines in the device's code; ``-fgpu-rdc`` for
        bitcode that is to be linked, and no code. For the device's own
        compiler any ``-cl-…``. Those that choose an architecture are ignored. NVRTC gets those that mean something to
        it.

    Returns
    -------
    tuple
        ``(HIPRTC_SUCCESS,)``; ``HIPRTC_ERROR_COMPILATION``; ``HIPRTC_ERROR_INVALID_OPTION`` for an unknown option,
        which the log names.

    Raises
    ------
    NotInstalledError
        If the program is HIP C++ and its compiler is not installed: ``pip install 'forebay[hip]'``, on CUDA
        ``'forebay[cuda]'``.
    """
    if not _usable(prog):
        return (INVALID_PROGRAM,)
    try:
        words = _strings(numOptions, options)
    except (TypeError, ValueError):
        return (INVALID_INPUT,)
    with prog._lock:
        prog._compiled = True
        prog._code = prog._bitcode = None
        try:
            split = split_options(words)
        except ValueError as error:
            prog._log = str(error)
            return (hiprtcResult.HIPRTC_ERROR_INVALID_OPTION,)
        return (_compile(prog, split),)


def _compile(prog: hiprtcProgram, options: Options) -> hiprtcResult:
    """Compile; what goes wrong is in the log."""
    source = prog._source._replace(options=options, expressions=tuple(prog._expressions))
    log, is_opencl = "", _is_opencl(source.text)
    try:
        device = current_device()
        if is_opencl:
            if source.headers or source.expressions:
                prog._log = "headers and name expressions are for HIP C++: this program is OpenCL C"
                return COMPILATION
            made = Prepared(options.prelude + source.text, (*options.macros, *options.opencl))
        elif options.links:
            prog._bitcode, prog._log = prepare_for_linking(device, source)
            return SUCCESS
        else:
            made = prepare(device, source)
        log = made.log
        device.program(made.text, made.options).close()
    except NotInstalledError:  # the installation is wrong, not the program
        raise
    except NotNamedError as error:
        prog._log = error.log
        return hiprtcResult.HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID
    except BuildError as error:
        prog._log = "\n".join(filter(None, [log, error.log]))
        return COMPILATION
    except MemoryError as error:
        prog._log = str(error)
        return hiprtcResult.HIPRTC_ERROR_OUT_OF_MEMORY
    except Error as error:  # no device, or one that takes no source
        prog._log = str(error)
        return COMPILATION
    prog._log = log
    prog._lowered = made.lowered
    language = Language.OPENCL_C if is_opencl else Language.HIP_CPP
    prog._code = pack_code(source.name, language, made.text, made.options, made.kernels, made.variables)
    return SUCCESS


def _is_opencl(source: str) -> bool:
    bare = COMMENT.sub(" ", source)
    return "__global__" not in bare and KERNEL_OF_OPENCL.search(bare) is not None


# -- results


def hiprtcGetProgramLogSize(prog: Any) -> tuple[hiprtcResult, int | None]:
    """Return the bytes of the log of the last compilation, with the zero at its end.

    `prog` is what `hiprtcCreateProgram` returned; HIPRTC_ERROR_INVALID_PROGRAM for anything else. Returns
    ``(HIPRTC_SUCCESS, bytes)``.
    """
    if not _usable(prog):
        return INVALID_PROGRAM, None
    return SUCCESS, len(prog._log.encode(errors="surrogateescape")) + 1


def hiprtcGetProgramLog(prog: Any, log: Any) -> tuple[hiprtcResult]:
    """Write the log to host memory, such as a bytearray.

    `prog` is what `hiprtcCreateProgram` returned; HIPRTC_ERROR_INVALID_PROGRAM for anything else.

    Returns
    -------
    tuple
        ``(HIPRTC_SUCCESS,)``; ``HIPRTC_ERROR_INVALID_INPUT`` when the memory is too small or cannot be written.
    """
    if not _usable(prog):
        return (INVALID_PROGRAM,)
    return (SUCCESS if _write(log, prog._log.encode(errors="surrogateescape") + b"\0") else INVALID_INPUT,)


def hiprtcGetCodeSize(prog: Any) -> tuple[hiprtcResult, int | None]:
    """Return the bytes of the code; ``HIPRTC_ERROR_INVALID_PROGRAM`` when none was compiled.

    `prog` was compiled. Returns ``(HIPRTC_SUCCESS, bytes)``.
    """
    if not _usable(prog) or prog._code is None:
        return INVALID_PROGRAM, None
    return SUCCESS, len(prog._code)


def hiprtcGetCode(prog: Any, code: Any) -> tuple[hiprtcResult]:
    """Write the code, which ``hipModuleLoadData`` takes, to host memory.

    `prog` was compiled. `code` is what can be written to, such as a bytearray or a NumPy array, of as many bytes as
    `hiprtcGetCodeSize` returned.

    Returns
    -------
    tuple
        ``(HIPRTC_SUCCESS,)``; ``HIPRTC_ERROR_INVALID_INPUT`` when the memory is too small or cannot be written,
        ``HIPRTC_ERROR_INVALID_PROGRAM`` when nothing was compiled.
    """
    if not _usable(prog) or prog._code is None:
        return (INVALID_PROGRAM,)
    return (SUCCESS if _write(code, prog._code) else INVALID_INPUT,)


def _bitcode_of(prog: Any) -> bytes | None:
    """Return the bitcode of a program that was compiled to be linked; None if there is none."""
    return prog._bitcode if _usable(prog) else None


def hiprtcVersion() -> tuple[hiprtcResult, int, int]:
    """Return the version of hiprtc that this one follows: (result, major, minor)."""
    return SUCCESS, *VERSION


def hiprtcGetErrorString(result: hiprtcResult) -> tuple[bytes]:
    """Return the name of a result, alone in a tuple.

    Raises
    ------
    TypeError
        For anything but a `hiprtcResult`, as hip-python does.
    """
    if not isinstance(result, hiprtcResult):
        raise TypeError(f"hiprtcGetErrorString: needs a hiprtcResult, not {type(result).__name__}")
    return (CString(result.name.encode()),)


# -- the linker: one program of several LLVM modules, made by the clang that compiles HIP C++


class hiprtcJITInputType(enum.IntEnum):
    """What the linker is given; only LLVM's bitcode and text are taken here."""

    HIPRTC_JIT_INPUT_CUBIN = 0
    HIPRTC_JIT_INPUT_PTX = 1
    HIPRTC_JIT_INPUT_FATBINARY = 2
    HIPRTC_JIT_INPUT_OBJECT = 3
    HIPRTC_JIT_INPUT_LIBRARY = 4
    HIPRTC_JIT_INPUT_NVVM = 5
    HIPRTC_JIT_NUM_LEGACY_INPUT_TYPES = 6
    HIPRTC_JIT_INPUT_LLVM_BITCODE = 100
    HIPRTC_JIT_INPUT_LLVM_BUNDLED_BITCODE = 101
    HIPRTC_JIT_INPUT_LLVM_ARCHIVES_OF_BUNDLED_BITCODE = 102


class ihiprtcLinkState:
    """What is to be linked; made by `hiprtcLinkCreate`.

    Attributes
    ----------
    log : str
        Why `hiprtcLinkComplete` failed; empty before.
    """

    def __init__(self) -> None:
        self.log = ""
        self._modules: list[bytes] = []
        self._destroyed = False


def hiprtcGetBitcodeSize(prog: Any) -> tuple[hiprtcResult, int | None]:
    """Return the bytes of LLVM's bitcode; ``HIPRTC_ERROR_INVALID_PROGRAM`` unless compiled with ``-fgpu-rdc``.

    `prog` is the program. Returns ``(HIPRTC_SUCCESS, bytes)``.
    """
    bitcode = _bitcode_of(prog)
    return (INVALID_PROGRAM, None) if bitcode is None else (SUCCESS, len(bitcode))


def hiprtcGetBitcode(prog: Any, bitcode: Any) -> tuple[hiprtcResult]:
    """Write LLVM's bitcode of a program that was compiled with ``-fgpu-rdc`` to host memory.

    `prog` is the program. `bitcode` is what can be written to, such as a bytearray or a NumPy array, of as many bytes
    as `hiprtcGetBitcodeSize` returned.

    Returns
    -------
    tuple
        ``(HIPRTC_SUCCESS,)``; ``HIPRTC_ERROR_INVALID_INPUT`` when the memory is too small or cannot be written,
        ``HIPRTC_ERROR_INVALID_PROGRAM`` when there is none.
    """
    made = _bitcode_of(prog)
    if made is None:
        return (INVALID_PROGRAM,)
    return (SUCCESS if _write(bitcode, made) else INVALID_INPUT,)


def hiprtcLinkCreate(
    num_options: int = 0, option_ptr: Any = None, option_vals_pptr: Any = None
) -> tuple[hiprtcResult, ihiprtcLinkState]:
    """Return ``(HIPRTC_SUCCESS, state)``, to which modules are added; the options are for AMD's linker and ignored.

    `num_options`, `option_ptr` and `option_vals_pptr` are these options.
    """
    return SUCCESS, ihiprtcLinkState()


def hiprtcLinkAddData(
    hip_link_state: Any,
    input_type: int,
    image: Any,
    image_size: int,
    name: Any = None,
    num_options: int = 0,
    options_ptr: Any = None,
    option_values: Any = None,
) -> tuple[hiprtcResult]:
    """Add a module to what is linked.

    `hip_link_state` is what `hiprtcLinkCreate` returned. `name`, `num_options`, `options_ptr` and `option_values`
    are not looked at.

    Parameters
    ----------
    input_type : hiprtcJITInputType
        ``HIPRTC_JIT_INPUT_LLVM_BITCODE``.
    image : bytes-like or str
        What `hiprtcGetBitcode` gave, or LLVM's text, for the target spirv64.
    image_size : int
        Its bytes.

    Returns
    -------
    tuple
        ``(HIPRTC_SUCCESS,)``; ``HIPRTC_ERROR_INVALID_INPUT`` for anything else.
    """
    if not _can_link(hip_link_state) or input_type != hiprtcJITInputType.HIPRTC_JIT_INPUT_LLVM_BITCODE:
        return (INVALID_INPUT,)
    try:
        data = image.encode() if isinstance(image, str) else bytes(memoryview(image).cast("B"))
    except (TypeError, ValueError, BufferError):
        return (INVALID_INPUT,)
    if not 0 < image_size <= len(data):
        return (INVALID_INPUT,)
    hip_link_state._modules.append(data[:image_size])
    return (SUCCESS,)


def hiprtcLinkAddFile(
    hip_link_state: Any,
    input_type: int,
    file_path: Any,
    num_options: int = 0,
    options_ptr: Any = None,
    option_values: Any = None,
) -> tuple[hiprtcResult]:
    """Add a module in a file to what is linked, see `hiprtcLinkAddData`.

    `file_path` is the file, str or bytes; `hip_link_state`, `input_type`, `num_options`, `options_ptr` and
    `option_values` as there.

    Returns
    -------
    tuple
        ``HIPRTC_ERROR_PROGRAM_CREATION_FAILURE`` when it cannot be read.
    """
    try:
        data = read_file(os.fsdecode(file_path), MOST_OF_CODE)
    except TypeError:
        return (INVALID_INPUT,)
    except (OSError, ValueError):  # the latter for a name that none can have
        return (hiprtcResult.HIPRTC_ERROR_PROGRAM_CREATION_FAILURE,)
    return hiprtcLinkAddData(hip_link_state, input_type, data, len(data))


def hiprtcLinkComplete(hip_link_state: Any) -> tuple[hiprtcResult, bytes | None, int | None]:
    """Link what was added, and compile it for the current device. Blocks while the compilers work.

    `hip_link_state` is what `hiprtcLinkCreate` returned.

    Returns
    -------
    tuple
        ``(HIPRTC_SUCCESS, code, bytes)``, for ``hipModuleLoadData``; ``HIPRTC_ERROR_INVALID_INPUT`` when nothing was
        added; ``HIPRTC_ERROR_LINKING``, and the state's ``log`` says why.
    """
    if not _can_link(hip_link_state) or not hip_link_state._modules:
        return INVALID_INPUT, None, None
    options = Options()
    try:
        device = current_device()
        clang, why = find_clang()
        if clang is None or Language.SPIRV not in device.driver.languages:
            raise BuildError(log=why or f"{device.name} takes no SPIR-V, and linking makes nothing else")
        made = link_bitcode(clang, hip_link_state._modules, options, device.driver.unrolls_recursion)
        device.program(made.code).close()
    except Error as error:
        hip_link_state.log = getattr(error, "log", "") or str(error)
        return hiprtcResult.HIPRTC_ERROR_LINKING, None, None
    code = pack_code("linked", Language.HIP_CPP, made.code, (), made.kernels, made.variables)
    return SUCCESS, code, len(code)


def hiprtcLinkDestroy(hip_link_state: Any) -> tuple[hiprtcResult]:
    """End a state; what was linked stays. ``HIPRTC_ERROR_INVALID_INPUT`` for anything but one that is not ended.

    `hip_link_state` is what `hiprtcLinkCreate` returned.
    """
    if not _can_link(hip_link_state):
        return (INVALID_INPUT,)
    hip_link_state._destroyed = True
    hip_link_state._modules.clear()
    return (SUCCESS,)


def _can_link(state: Any) -> bool:
    return isinstance(state, ihiprtcLinkState) and not state._destroyed


hiprtcLinkState = ihiprtcLinkState


def has_symbol(name: str | bytes) -> bool:
    """Return whether there is a function of this name."""
    text = name if isinstance(name, str) else bytes(name).decode(errors="replace")
    return text in __all__ and callable(globals()[text]) and not isinstance(globals()[text], type)
