"""Texture references, which HIP has from before objects: variables of a module that the host binds to memory."""

from __future__ import annotations

import re
from typing import Any

from forebay.hip import allocations, facts
from forebay.hip.allocations import Allocation
from forebay.hip.arrays import Format, array_of, hipArray
from forebay.hip.devices import device_number, device_of, on_reset
from forebay.hip.errors import OK, HipError, HipFunction, api, check_params, define, invalid, last_exception
from forebay.hip.facts import (
    HIP_ARRAY_DESCRIPTOR,
    HIP_TEXTURE_DESC,
    hipArray_Format,
    hipChannelFormatDesc,
    hipError_t,
    hipTextureDesc,
    hipTextureReadMode,
)
from forebay.hip.hardware import MOST_LINEAR
from forebay.hip.memory import size_of
from forebay.hip.modules import hipModuleGetGlobal, module_of, text_of
from forebay.hip.pointers import Pointer, address_of
from forebay.hip.textures import LAYOUT, TextureMemory, of_array, of_linear, of_rows, texture_bytes, texture_of_flags
from forebay.queues.capture_rules import refuse_synchronous

READ = hipTextureReadMode

# Clang's name of the type, and of its elements in the order of `forebay.hip.arrays.TYPES`.
DECLARED = re.compile(r"texture<(?:HIP_vector_type<)?([\w ]+)(?:, (\d)U?>)?, \d+, \(hipTextureReadMode\)(\d)>")
# The same as NVRTC says it.
SHORT = re.compile(
    r"texture<(signed |u|unsigned )?(char|short|int|float)(\d?),(\d+),hipReadMode(ElementType|NormalizedFloat)>"
)
ELEMENTS = ("unsigned char", "signed char", "unsigned short", "short", "unsigned int", "int", "_Float16", "float")

_references: dict[int, textureReference] = {}


class textureReference(hipTextureDesc):
    """A texture variable of a module, and how it is read; made by `hipModuleGetTexRef`.

    Its members are those of `hipTextureDesc`, `normalized` (normalizedCoords) and `channelDesc`. They count when it is
    bound.
    """

    def __init__(self, variable: Allocation, format: Format, read: hipTextureReadMode) -> None:
        super().__init__(readMode=read)
        self.variable, self.format = variable, format
        self.place: TextureMemory | None = None
        self.pointer: Any = None

    @property
    def normalized(self) -> int:
        """Whether coordinates go from 0 to 1."""
        return self.normalizedCoords

    @normalized.setter
    def normalized(self, value: int) -> None:
        self.normalizedCoords = value

    @property
    def channelDesc(self) -> hipChannelFormatDesc:
        """What its elements are."""
        return self.format.description

    def copy(self) -> hipTextureDesc:
        """Return how it is read."""
        made: hipTextureDesc = hipTextureDesc(**{name: self[name] for name in self._members}).copy()
        return made

    def bind(self, place: TextureMemory | None, pointer: Any = None) -> None:
        """Let it read from there from now on, or from nowhere; on the null stream. Blocks."""
        if allocations.peek(self.variable.base) is not self.variable:
            raise HipError(hipError_t.hipErrorInvalidHandle, "the module of this texture reference is unloaded")
        refuse_synchronous("binding a texture reference")
        data = bytes(LAYOUT.size) if place is None else texture_bytes(place, self)
        queue = device_of(self.variable.device).null_queue
        queue.copy(self.variable.memory, data)
        queue.finish()
        self.place, self.pointer = place, pointer

    def changed(self) -> None:
        """Let a change of its members count, if it is bound."""
        if self.place is not None:
            self.bind(self.place, self.pointer)


@on_reset
def _forget(number: int) -> None:
    for base, reference in list(_references.items()):
        if reference.variable.device == number:
            _references.pop(base, None)


def _reference_of(variable: Allocation, declared: re.Match[str]) -> textureReference:
    """The reference that a variable is."""
    known = _references.get(variable.base)
    if known is None or known.variable is not variable:
        element, channels, read = declared.groups()
        known = textureReference(variable, Format(ELEMENTS.index(element), int(channels or 1)), READ(int(read)))
        _references[variable.base] = known
    return known


def _checked(reference: Any) -> textureReference:
    if not isinstance(reference, textureReference):
        raise invalid(f"a texture reference is what hipModuleGetTexRef returns, not {reference!r}")
    return reference


@api(outputs=1)
def hipModuleGetTexRef(hmod: Any, name: Any) -> textureReference:
    """Return ``(hipError_t, textureReference)`` of a module's variable such as ``texture<float, 2> name``.

    `hmod` is the module, and `name` the variable's name, bytes or str.

    Errors as `hipModuleGetGlobal`; hipErrorNotFound for other variables, too. Blocks the first time.
    """
    result, pointer, _ = hipModuleGetGlobal(hmod, name)
    if result != OK:
        raise HipError(result, str(last_exception()))
    code, text = module_of(hmod).code, text_of(name)
    variable = code.find_variable(text) if code is not None else None
    declared = DECLARED.fullmatch(_as_clang_says(variable.type_name)) if variable is not None else None
    if declared is None:
        raise HipError(hipError_t.hipErrorNotFound, f"the variable {text!r} is no texture reference")
    return _reference_of(pointer._owner, declared)


def _as_clang_says(type_name: str) -> str:
    """The type of a reference in one form, whatever compiler said it."""
    if found := SHORT.fullmatch(type_name):
        element = ("unsigned " if found[1] and found[1].startswith("u") else "") + found[2]
        whole = f"HIP_vector_type<{element}, {found[3]}>" if found[3] else element
        type_name = f"texture<{whole}, {found[4]}, (hipTextureReadMode){int(found[5] != 'ElementType')}>"
    return type_name.replace("<char,", "<signed char,")


@api(outputs=1)
def hipGetTextureReference(symbol: Any) -> textureReference:
    """Return ``(hipError_t, textureReference)`` of the variable at this address.

    `symbol` is the address, as `hipModuleGetGlobal` returns it.

    hipErrorInvalidTexture unless `hipModuleGetTexRef` returned it before.
    """
    address, _ = address_of(symbol)
    known = _references.get(address)
    if known is None or allocations.peek(address) is not known.variable:
        raise HipError(hipError_t.hipErrorInvalidTexture, f"no texture reference is at {address:#x}")
    return known


# -- binding


def _there(pointer: Any, nbytes: Any) -> int:
    """How many of this many bytes there are from there on."""
    found = allocations.find(address_of(pointer)[0])
    return min(size_of(nbytes), found[0].nbytes - found[1]) if found is not None else size_of(nbytes)


def _format(reference: textureReference, desc: Any) -> Format:
    return reference.format if desc is None else Format.of_description(desc)


@api(outputs=1)
def hipBindTexture(tex: Any, devPtr: Any, desc: Any, size: int = 0xFFFFFFFF) -> int:
    """Let a texture reference read `size` bytes of linear memory, or what there is; ``(hipError_t, offset)``.

    `devPtr` is memory of the device, and `desc` a hipChannelFormatDesc, or None for the reference's own.

    The offset is 0. Blocks until everything before on the null stream is done. Errors as `hipCreateTextureObject`.
    """
    reference = _checked(tex)
    reference.bind(of_linear(devPtr, _format(reference, desc), _there(devPtr, size)), devPtr)
    return 0


@api(outputs=1)
def hipBindTexture2D(tex: Any, devPtr: Any, desc: Any, width: int, height: int, pitch: int) -> int:
    """Let a texture reference read rows of elements; ``(hipError_t, offset)``. See `hipBindTexture`.

    `tex`, `devPtr` and `desc` as there; `width` and `height` in elements, `pitch` in bytes from a row to the next.
    """
    reference = _checked(tex)
    place = of_rows(devPtr, _format(reference, desc), size_of(width), size_of(height), size_of(pitch))
    reference.bind(place, devPtr)
    return 0


@api()
def hipBindTextureToArray(tex: Any, array: Any, desc: Any = None) -> None:
    """Let a texture reference read an array; ``(hipError_t,)``. See `hipBindTexture`.

    `tex` as there; `desc` is a hipChannelFormatDesc of elements of the same size, or None for the array's own.
    """
    reference, known = _checked(tex), array_of(array)
    place = of_array(known)
    reference.bind(place if desc is None else place.as_format(Format.of_description(desc)), known)


@api()
def hipUnbindTexture(tex: Any) -> None:
    """Let a texture reference read nothing: kernels get 0; ``(hipError_t,)``. Blocks."""
    _checked(tex).bind(None)


@api(outputs=1)
def hipGetTextureAlignmentOffset(texref: Any) -> int:
    """Return ``(hipError_t, 0)``: memory is used from where it was bound."""
    _checked(texref)
    return 0


@api(outputs=1)
def hipDeviceGetTexture1DLinearMaxWidth(desc: Any, device: int) -> int:
    """Return ``(hipError_t, count)``: how many elements a texture of linear memory may have.

    `desc` is a hipChannelFormatDesc and `device` a number, which are checked: hipErrorInvalidValue,
    hipErrorInvalidDevice.
    """
    device_number(device)
    Format.of_description(desc)
    return MOST_LINEAR


# -- the driver's functions


@api(outputs=1)
def hipTexRefSetAddress(texRef: Any, dptr: Any, bytes: int) -> int:
    """Let a texture reference read linear memory; ``(hipError_t, offset)``. See `hipBindTexture`.

    `dptr` is memory of the device, of `bytes` bytes.
    """
    reference = _checked(texRef)
    reference.bind(of_linear(dptr, reference.format, _there(dptr, bytes)), dptr)
    return 0


@api()
def hipTexRefSetAddress2D(texRef: Any, desc: Any, dptr: Any, Pitch: int) -> None:
    """Let a texture reference read the rows that a `HIP_ARRAY_DESCRIPTOR` describes; ``(hipError_t,)``.

    `desc` is that descriptor, `dptr` memory of the device, and `Pitch` the bytes from a row to the next. See
    `hipBindTexture2D`, which blocks as this does.
    """
    reference = _checked(texRef)
    check_params(desc, HIP_ARRAY_DESCRIPTOR)
    format = Format.of_array_format(desc["Format"], desc["NumChannels"])
    reference.bind(of_rows(dptr, format, size_of(desc["Width"]), size_of(desc["Height"]), size_of(Pitch)), dptr)


@api()
def hipTexRefSetArray(tex: Any, array: Any, flags: int = facts.HIP_TRSA_OVERRIDE_FORMAT) -> None:
    """Let a texture reference read an array; ``(hipError_t,)``. hipErrorInvalidValue for other flags.

    Blocks as `hipBindTexture`.
    """
    reference, known = _checked(tex), array_of(array)
    if flags not in (0, facts.HIP_TRSA_OVERRIDE_FORMAT):
        raise invalid(f"hipTexRefSetArray has no flags {flags!r}")
    reference.bind(of_array(known), known)


def _set(reference: Any, **members: Any) -> None:
    known = _checked(reference)
    before = {name: known[name] for name in members}
    vars(known).update(members)
    try:
        texture_bytes(TextureMemory(Format(0, 1), 0, (1, 1, 1), 1, 1, 1), known)
        known.changed()
    except BaseException:
        vars(known).update(before)
        raise


@api()
def hipTexRefSetAddressMode(texRef: Any, dim: int, am: int) -> None:
    """Set what it reads outside of its bounds, for a dimension; ``(hipError_t,)``; hipErrorInvalidValue for no mode.

    Blocks if it is bound, as `hipBindTexture` does. `dim` is 0, 1 or 2, and `am` a hipTextureAddressMode.
    """
    modes = list(_checked(texRef).addressMode)
    if dim not in range(3):
        raise invalid(f"a texture has no dimension {dim!r}")
    modes[dim] = am
    _set(texRef, addressMode=modes)


@api()
def hipTexRefSetFlags(texRef: Any, Flags: int) -> None:
    """Set how elements and coordinates are read, HIP_TRSF_…; ``(hipError_t,)``.

    Blocks if it is bound, as `hipBindTexture` does. `Flags` are HIP_TRSF_READ_AS_INTEGER and
    HIP_TRSF_NORMALIZED_COORDINATES.

    Integers are read as normalized floats, unless HIP_TRSF_READ_AS_INTEGER is set, and sRGB is not supported.
    """
    flagged = texture_of_flags(HIP_TEXTURE_DESC(flags=Flags))
    _set(texRef, readMode=flagged.readMode, normalizedCoords=flagged.normalizedCoords, sRGB=flagged.sRGB)


@api()
def hipTexRefSetFormat(texRef: Any, fmt: int, NumPackedComponents: int) -> None:
    """Set what the elements of linear memory are; ``(hipError_t,)``; hipErrorInvalidValue for none of HIP's.

    `fmt` is a hipArray_Format, and `NumPackedComponents` the channels: 1, 2 or 4.
    """
    _checked(texRef).format = Format.of_array_format(fmt, NumPackedComponents)


@api(outputs=1)
def hipTexRefSetBorderColor(texRef: Any, pBorderColor: Any) -> list[float]:
    """Set the colour outside, of four numbers; ``(hipError_t, colour)``.

    Blocks if it is bound, as `hipBindTexture` does. `pBorderColor` has the numbers: red, green, blue, alpha.
    """
    colour = [float(value) for value in list(pBorderColor)[:4]]
    _set(texRef, borderColor=colour)
    return colour


@api(outputs=1)
def hipTexRefGetAddress(texRef: Any) -> Pointer:
    """Return ``(hipError_t, pointer)`` to the memory it reads; hipErrorInvalidValue for an array and for nothing."""
    reference = _checked(texRef)
    if reference.place is None or isinstance(reference.pointer, hipArray):
        raise invalid("the texture reference is bound to no address")
    return Pointer(reference.pointer)


@api(outputs=1)
def hipTexRefGetArray(texRef: Any) -> hipArray:
    """Return ``(hipError_t, array)`` that it reads; hipErrorInvalidValue when it reads none."""
    found = _checked(texRef).pointer
    if not isinstance(found, hipArray):
        raise invalid("the texture reference is bound to no array")
    return found


@api(outputs=1)
def hipTexRefGetAddressMode(texRef: Any, dim: int) -> Any:
    """Return ``(hipError_t, mode)`` of a dimension; hipErrorInvalidValue for none.

    `dim` is 0, 1 or 2.
    """
    modes = _checked(texRef).addressMode
    if dim not in range(3):
        raise invalid(f"a texture has no dimension {dim!r}")
    return modes[dim]


def _setter(name: str, member: str, parameter: str, does: str, what: str) -> HipFunction:
    def set_member(texRef: Any, value: int) -> None:
        _set(texRef, **{member: value})

    doc = f"""{does}; ``(hipError_t,)``.

    `texRef` is a texture reference, which `hipModuleGetTexRef` returned: hipErrorInvalidValue for anything else. Blocks
    if it is bound, as `hipBindTexture` does. `{parameter}` is {what}."""
    return define(f"hipTexRefSet{name}", set_member, doc, 0, value=parameter)


def _getter(name: str, member: str, what: str, convert: Any = lambda value: value) -> HipFunction:
    def get_member(texRef: Any) -> Any:
        return convert(_checked(texRef)[member])

    doc = f"""Return ``(hipError_t, {what})``, as `hipTexRefSet{name}` set it.

    `texRef` is a texture reference, which `hipModuleGetTexRef` returned: hipErrorInvalidValue for anything else."""
    return define(f"hipTexRefGet{name}", get_member, doc, outputs=1)


hipTexRefSetFilterMode: HipFunction = _setter(
    "FilterMode",
    "filterMode",
    "fm",
    "Set how it reads between elements",
    "a hipTextureFilterMode: else hipErrorInvalidValue",
)
hipTexRefSetMaxAnisotropy: HipFunction = _setter(
    "MaxAnisotropy", "maxAnisotropy", "maxAniso", "Remember a number that makes no difference", "the number"
)
hipTexRefGetFilterMode: HipFunction = _getter("FilterMode", "filterMode", "mode")
hipTexRefGetBorderColor: HipFunction = _getter("BorderColor", "borderColor", "colour", list)
hipTexRefGetMaxAnisotropy: HipFunction = _getter("MaxAnisotropy", "maxAnisotropy", "number", int)


@api(outputs=1)
def hipTexRefGetFlags(texRef: Any) -> int:
    """Return ``(hipError_t, flags)``, HIP_TRSF_…."""
    reference = _checked(texRef)
    flags = 0 if reference.readMode == READ.hipReadModeNormalizedFloat else facts.HIP_TRSF_READ_AS_INTEGER
    return flags | (facts.HIP_TRSF_NORMALIZED_COORDINATES if reference.normalizedCoords else 0)


@api(outputs=2)
def hipTexRefGetFormat(texRef: Any) -> tuple[hipArray_Format, int]:
    """Return ``(hipError_t, hipArray_Format, channels)`` of its elements."""
    format = _checked(texRef).format
    return format.array_format, format.channels
