"""Instructions of PTX that threads of a warp do together, and those for shared memory.

Addresses within shared memory are numbers of 32 bits: `hip/device/assembly_warps.h` says of what.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from forebay.compiler.assembly.registers import TYPES, Registers, UnknownInstructionError, parts_of

__all__ = ["with_warps"]

SHUFFLES = ("up", "down", "bfly", "idx")
VOTES = {"ballot": "(unsigned)__ballot", "all": "__all", "any": "__any", "uni": "__forebay::asm_all_same"}
REDUCTIONS = ("add", "min", "max", "and", "or", "xor")
FACTORS = {"f16": "_Float16", "bf16": "__forebay::asm_bf16", "tf32": "float", "s8": "signed char",
           "u8": "unsigned char"}  # fmt: skip
TILE = re.compile(r"m(\d+)n8k(\d+)")


def with_warps(made: Registers, base: str, words: Sequence[str], operands: Sequence[str]) -> bool:
    """Add the statements of an instruction; return False if it is none of these."""
    words = [word for word in words if word not in ("sync", "aligned")]
    if base == "shfl":
        _shuffle(made, words, operands)
    elif base == "vote":
        _vote(made, words, operands)
    elif base == "match":
        _match(made, words, operands)
    elif base == "redux":
        if words[0] not in REDUCTIONS or words[1] not in ("s32", "u32", "b32"):
            raise UnknownInstructionError("redux")
        values = made.value(operands[2], "unsigned"), made.value(operands[1], TYPES[words[1]])
        made.put(operands[0], f"__reduce_{words[0]}_sync({', '.join(values)})")
    elif base == "cp" and words[:1] == ["async"]:
        _copy(made, words[1:], operands)
    elif base == "ldmatrix":
        _matrix(made, words, operands)
    elif base == "mma":
        _product(made, words, operands)
    elif base == "cvta" and words[-1] in ("u64", "u32") and any(word.startswith("shared") for word in words):
        if words[0] == "to":
            made.put(operands[0], f"__forebay::asm_shared_address({made.value(operands[1], 'const void*')})")
        else:
            made.put(operands[0], f"__forebay::asm_shared_pointer({made.value(operands[1], 'unsigned')})")
    else:
        return False
    return True


def _shuffle(made: Registers, words: Sequence[str], operands: Sequence[str]) -> None:
    """A shuffle within the parts that its third number tells, and whether there was a source."""
    if words[0] not in SHUFFLES:
        raise UnknownInstructionError("shfl")
    to, _, found = operands[0].partition("|")
    values = made.value(operands[1], "unsigned"), *(made.value(each, "unsigned") for each in operands[2:4])
    shuffle = f"__forebay::asm_shuffle<{SHUFFLES.index(words[0])}>({', '.join(values)}, __there)"
    put = f"__forebay::asm_put({made.variable(to)}, __shuffled);" if to.strip() != "_" else ""
    tell = f" {made.variable(found)} = __there;" if found.strip() not in ("", "_") else ""
    made.made.append(f"{{ bool __there; unsigned __shuffled = {shuffle}; {put}{tell} }}")


def _vote(made: Registers, words: Sequence[str], operands: Sequence[str]) -> None:
    call = VOTES.get(words[0])
    if call is None:
        raise UnknownInstructionError("vote")
    given = operands[1].strip()
    sign = "!" if given.startswith("!") else ""
    made.put(operands[0], f"{call}({sign}{made.value(given.lstrip('!'), 'bool')})")


def _match(made: Registers, words: Sequence[str], operands: Sequence[str]) -> None:
    """The threads with the same value; for ``all`` also whether all have it."""
    type_ = made.type_of(words[1])
    value, mask = made.value(operands[1], type_), made.value(operands[2], "unsigned")
    to, _, same = operands[0].partition("|")
    if words[0] == "any":
        made.put(to, f"(unsigned)__match_any_sync({mask}, {value})")
        return
    made.made.append(f"{{ int __same; unsigned __found = (unsigned)__match_all_sync({mask}, {value}, &__same);")
    made.put(to, "__found")
    if same:
        made.made.append(f"{made.variable(same)} = __same;")
    made.made.append("}")


def _copy(made: Registers, words: Sequence[str], operands: Sequence[str]) -> None:
    """A copy to shared memory, which is done at once: nothing is left to wait for."""
    if words[0] in ("commit_group", "wait_group", "wait_all"):
        return
    if words[0] not in ("ca", "cg") or "mbarrier" in words or len(operands) not in (3, 4):
        raise UnknownInstructionError("cp.async")
    to, from_ = made.place(operands[0], "char", False, True), made.place(operands[1], "const char", False)
    sizes = [made.value(each, "unsigned") for each in operands[2:]]
    made.made.append(f"__forebay::asm_copy({to}, {from_}, {', '.join(sizes)});")


def _matrix(made: Registers, words: Sequence[str], operands: Sequence[str]) -> None:
    """Matrices of 8 by 8 numbers of 16 bits; each lane tells where a row begins."""
    count = next((int(word[1]) for word in words if word in ("x1", "x2", "x4")), 0)
    registers = parts_of(operands[0].strip()[1:-1])
    if not count or len(registers) != count or "b16" not in words or "m8n8" not in words:
        raise UnknownInstructionError("ldmatrix")
    place = made.place(operands[1], "char", False, True)
    made.made.append(f"{{ char* __row = {place}; (void)__row;")
    for number, register in enumerate(registers):
        made.put(register, f"__forebay::asm_matrix<{str('trans' in words).lower()}>(__row, {number})")
    made.made.append("}")


def _product(made: Registers, words: Sequence[str], operands: Sequence[str]) -> None:
    """A product of small matrices that the registers of a warp hold, and a sum."""
    shape = next((found for word in words if (found := TILE.fullmatch(word))), None)
    kinds = [word for word in words if word in (*FACTORS, "f32", "s32", "f64")]
    if shape is None or shape[1] != "16" or len(kinds) != 4 or words[1:3] != ["row", "col"] or kinds[1] not in FACTORS:
        raise UnknownInstructionError("mma")
    d, a, b, c = (parts_of(each.strip()[1:-1]) for each in operands)
    of_sum = {"f32": "float", "s32": "int", "f16": "_Float16"}.get(kinds[3])
    each = {"f16": 2, "bf16": 2, "tf32": 1, "s8": 4, "u8": 4}[kinds[1]]
    if of_sum is None or kinds[0] != kinds[3] or len(a) != 2 * len(b) or int(shape[2]) != 4 * each * len(b):
        raise UnknownInstructionError("mma")
    lists = [", ".join(made.value(register, "unsigned") for register in registers) for registers in (a, b, c)]
    made.made.append(
        f"{{ unsigned __a[] = {{{lists[0]}}}, __b[] = {{{lists[1]}}}, __d[] = {{{lists[2]}}};"
        f" __forebay::asm_product<{FACTORS[kinds[1]]}, {FACTORS[kinds[2]]}, {of_sum}>(__a, __b, __d);"
    )
    for number, register in enumerate(d):
        made.put(register, f"__d[{number}]")
    made.made.append("}")
