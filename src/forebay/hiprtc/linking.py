"""hiprtc's linker: one program of several LLVM modules, made by the clang that compiles HIP C++."""

from __future__ import annotations

import enum
import os
from typing import Any

from forebay.core.driver import Language
from forebay.core.errors import BuildError, Error
from forebay.hiprtc import api
from forebay.hiprtc.api import INVALID_INPUT, INVALID_PROGRAM, SUCCESS, hiprtcResult
from forebay.hiprtc.clang import find_clang
from forebay.hiprtc.code import pack_code
from forebay.hiprtc.compiler import link_bitcode
from forebay.hiprtc.options import Options
from forebay.queues.kernels.build import shown_while_building
from forebay.queues.kernels.program import MOST_OF_CODE, read_file

__all__ = [
    "hiprtcGetBitcode", "hiprtcGetBitcodeSize", "hiprtcJITInputType", "hiprtcLinkAddData", "hiprtcLinkAddFile",
    "hiprtcLinkComplete", "hiprtcLinkCreate", "hiprtcLinkDestroy", "ihiprtcLinkState",
]  # fmt: skip


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
    bitcode = api.bitcode_of(prog)
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
    made = api.bitcode_of(prog)
    if made is None:
        return (INVALID_PROGRAM,)
    return (SUCCESS if api.write(bitcode, made) else INVALID_INPUT,)


def hiprtcLinkCreate(
    num_options: int = 0, option_ptr: Any = None, option_vals_pptr: Any = None
) -> tuple[hiprtcResult, ihiprtcLinkState]:
    """Return ``(HIPRTC_SUCCESS, state)``, to which modules are added; the options are for AMD's linker and ignored.

    `num_options`, `option_ptr` and `option_vals_pptr` are these options.
    """
    return SUCCESS, ihiprtcLinkState()


def hiprtcLinkAddData(
    hiprtc_link_state: Any,
    input_type: int,
    image: Any,
    image_size: int,
    name: Any = None,
    num_options: int = 0,
    options_ptr: Any = None,
    option_values: Any = None,
) -> tuple[hiprtcResult]:
    """Add a module to what is linked.

    `hiprtc_link_state` is what `hiprtcLinkCreate` returned. `name`, `num_options`, `options_ptr` and `option_values`
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
    if not _usable(hiprtc_link_state) or input_type != hiprtcJITInputType.HIPRTC_JIT_INPUT_LLVM_BITCODE:
        return (INVALID_INPUT,)
    try:
        data = image.encode() if isinstance(image, str) else bytes(memoryview(image).cast("B"))
    except (TypeError, ValueError, BufferError):
        return (INVALID_INPUT,)
    if not 0 < image_size <= len(data):
        return (INVALID_INPUT,)
    hiprtc_link_state._modules.append(data[:image_size])
    return (SUCCESS,)


def hiprtcLinkAddFile(
    hiprtc_link_state: Any,
    input_type: int,
    file_path: Any,
    num_options: int = 0,
    options_ptr: Any = None,
    option_values: Any = None,
) -> tuple[hiprtcResult]:
    """Add a module in a file to what is linked, see `hiprtcLinkAddData`.

    `file_path` is the file, str or bytes; `hiprtc_link_state`, `input_type`, `num_options`, `options_ptr` and
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
    return hiprtcLinkAddData(hiprtc_link_state, input_type, data, len(data))


def hiprtcLinkComplete(hiprtc_link_state: Any) -> tuple[hiprtcResult, bytes | None, int | None]:
    """Link what was added, and compile it for the current device. Blocks while the compilers work.

    `hiprtc_link_state` is what `hiprtcLinkCreate` returned.

    Returns
    -------
    tuple
        ``(HIPRTC_SUCCESS, code, bytes)``, for ``hipModuleLoadData``; ``HIPRTC_ERROR_INVALID_INPUT`` when nothing was
        added; ``HIPRTC_ERROR_LINKING``, and the state's ``log`` says why.
    """
    if not _usable(hiprtc_link_state) or not hiprtc_link_state._modules:
        return INVALID_INPUT, None, None
    options = Options()
    try:
        device = api.device_to_compile_for()
        clang, why = find_clang()
        if clang is None or Language.SPIRV not in device.driver.languages:
            raise BuildError(log=why or f"{device.name} takes no SPIR-V, and linking makes nothing else")
        with shown_while_building(f"HIP C++ for {device.name}"):
            made = link_bitcode(clang, hiprtc_link_state._modules, options, device.driver.unrolls_recursion)
        device.program(made.code).close()
    except Error as error:
        hiprtc_link_state.log = getattr(error, "log", "") or str(error)
        return hiprtcResult.HIPRTC_ERROR_LINKING, None, None
    code = pack_code("linked", Language.HIP_CPP, made.code, (), made.kernels, made.variables)
    return SUCCESS, code, len(code)


def hiprtcLinkDestroy(hiprtc_link_state: Any) -> tuple[hiprtcResult]:
    """End a state; what was linked stays. ``HIPRTC_ERROR_INVALID_INPUT`` for anything but one that is not ended.

    `hiprtc_link_state` is what `hiprtcLinkCreate` returned.
    """
    if not _usable(hiprtc_link_state):
        return (INVALID_INPUT,)
    hiprtc_link_state._destroyed = True
    hiprtc_link_state._modules.clear()
    return (SUCCESS,)


def _usable(state: Any) -> bool:
    return isinstance(state, ihiprtcLinkState) and not state._destroyed
