"""What is changed in the PTX of NVIDIA's OpenCL compiler, so that CUDA's driver takes it.

Each change is anchored to a directive or an instruction. What is left of OpenCL's own then is refused.

=============================== ==================================== =================================================
In OpenCL's PTX                 becomes
=============================== ==================================== =================================================
``texmode_independent``         nothing                              it is about samplers
``.ptr .shared`` of a parameter nothing                              refused by CUDA; see `_local_parameters`
``.const``, if a parameter is   ``.global``                          for CUDA a ``constant`` parameter is an ordinary
``.ptr .const``                                                      address, and a function may get either
``%envreg0`` to 5               0                                    number of the first group, global offset
``%envreg6`` to 8               ``%nctaid``                          number of groups
``%envreg9``                    computed                             number of dimensions
``.func … vprintf``             ``.extern .func``                    CUDA's driver has it
=============================== ==================================== =================================================
"""

from __future__ import annotations

import re

from forebay.core.errors import NotSupportedError
from forebay.queues.cuda.compilers.ptx import NAME, without_comments

__all__ = ["for_cuda"]

TARGET = re.compile(r"^(\s*\.target\s+\w+)\s*,\s*texmode_independent\b", re.MULTILINE)
ADDRESS_SIZE = re.compile(r"^\s*\.address_size\s+64\s*?$", re.MULTILINE)
ENVIRONMENT = re.compile(rf"^(\s*mov\.[bus]32\s+)({NAME})(\s*,\s*)%envreg(\d+)\s*;", re.MULTILINE)
LOCAL = re.compile(rf"(\.param\s+\.[bu]64)\s+\.ptr\s+\.shared\s+\.align\s+(\d+)(\s+)({NAME})")
CONSTANT = re.compile(r"(\.param\s+\.[bu]64\s+\.ptr\s+)\.const\b")
CONSTANT_VARIABLE = re.compile(r"^(\s*(?:\.(?:visible|extern|weak)\s+)?)\.const\b", re.MULTILINE)
CONSTANT_USE = re.compile(r"^(\s*(?:@!?%\w+\s+)?(?:ld|cvta|prefetch)(?:\.\w+)*?)\.const\b", re.MULTILINE)
PRINTF = re.compile(r"^(\s*)(\.func\s+\([^)]*\)\s*vprintf\b)", re.MULTILINE)
OBJECT = re.compile(r"\.(texref|surfref|samplerref)\b")
LEFT = re.compile(r"%envreg\d+|\.ptr\s+\.shared\b")

WORDS = {"texref": "an image", "surfref": "an image", "samplerref": "a sampler"}
SHARED = "forebay_dynamic_shared"
DIMENSIONS = """\
	{{
	.reg .pred %forebay_more;
	.reg .b32 %forebay_threads, %forebay_groups;
	mov.u32 %forebay_threads, %ntid.y;
	mov.u32 %forebay_groups, %nctaid.y;
	mul.lo.u32 %forebay_threads, %forebay_threads, %forebay_groups;
	setp.gt.u32 %forebay_more, %forebay_threads, 1;
	selp.b32 {0}, 2, 1, %forebay_more;
	mov.u32 %forebay_threads, %ntid.z;
	mov.u32 %forebay_groups, %nctaid.z;
	mul.lo.u32 %forebay_threads, %forebay_threads, %forebay_groups;
	setp.gt.u32 %forebay_more, %forebay_threads, 1;
	selp.b32 {0}, 3, {0}, %forebay_more;
	}}"""


def for_cuda(ptx: str) -> str:
    """Return PTX of NVIDIA's OpenCL compiler as CUDA's driver takes it.

    Raises
    ------
    NotSupportedError
        For what CUDA has not: images and samplers, and whatever else of OpenCL's own was left.
    """
    ptx = without_comments(ptx)
    if found := OBJECT.search(ptx):
        raise NotSupportedError(
            f"the program has {WORDS[found[1]]} ({found[0]}): images and samplers of OpenCL are not supported on CUDA"
        )
    ptx = TARGET.sub(r"\1", ptx)
    ptx = ENVIRONMENT.sub(_environment, ptx)
    ptx = PRINTF.sub(r"\1.extern \2", ptx)
    if CONSTANT.search(ptx):
        ptx = CONSTANT.sub(r"\1.global", ptx)
        ptx = CONSTANT_VARIABLE.sub(r"\1.global", ptx)
        ptx = CONSTANT_USE.sub(r"\1.global", ptx)
        _refuse(re.search(r"\.const\b", ptx))
    ptx = _local_parameters(ptx)
    _refuse(LEFT.search(ptx))
    return ptx


def _refuse(found: re.Match[str] | None) -> None:
    if found:
        raise NotSupportedError(f"the program's PTX has {found[0]}, which CUDA's driver does not take from OpenCL")


def _environment(match: re.Match[str]) -> str:
    """An instruction that reads what OpenCL tells of a launch."""
    number = int(match[4])
    if number < 6:
        return f"{match[1]}{match[2]}{match[3]}0;"
    if number < 9:
        return f"{match[1]}{match[2]}{match[3]}%nctaid.{'xyz'[number - 6]};"
    return DIMENSIONS.format(match[2]) if number == 9 else match[0]


def _local_parameters(ptx: str) -> str:
    """Let local parameters be offsets in dynamic shared memory: each load adds where that begins.

    The address itself cannot be passed: shared memory begins with a part that the system has, and no call tells its
    size. Static shared memory comes before what the launch asks for.
    """
    found = LOCAL.findall(ptx)
    if not found:
        return ptx
    ptx = LOCAL.sub(r"\1\3\4", ptx)
    for _, _, _, name in found:
        # In a load, the name stands in brackets; in its declaration, it does not.
        load = re.compile(rf"^(\s*)ld\.param\.[bu]64\s+({NAME})\s*,\s*\[\s*{re.escape(name)}\s*\]\s*;", re.MULTILINE)
        ptx, loads = load.subn(
            rf"\g<0>\n\1{{ .reg .b64 %forebay_base; mov.u64 %forebay_base, {SHARED}; "
            r"add.s64 \2, \2, %forebay_base; }",
            ptx,
        )
        if len(re.findall(rf"(?<![\w$]){re.escape(name)}(?![\w$])", ptx)) != loads + 1:
            raise NotSupportedError(f"the program's PTX uses the local parameter {name} in a way that is not known")
    alignment = max(int(align) for _, align, _, _ in found)
    declaration = f"\n.extern .shared .align {max(alignment, 16)} .b8 {SHARED}[];"
    return ADDRESS_SIZE.sub(lambda match: match[0] + declaration, ptx, count=1)
