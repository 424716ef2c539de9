"""The commonest instructions of PTX and of AMD's GPUs as statements of C++.

Sources: NVIDIA's "Parallel Thread Execution ISA", and AMD's "RDNA Instruction Set Architecture". What is not here is
not translated.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence

__all__ = ["UnknownInstructionError", "statements_of"]

TYPES = {
    **{f"{kind}{bits}": f"unsigned {name}" for kind in "ub" for bits, name in
       ((8, "char"), (16, "short"), (32, "int"), (64, "long long"))},
    "s8": "signed char", "s16": "short", "s32": "int", "s64": "long long",
    "f32": "float", "f64": "double", "pred": "bool",
}  # fmt: skip
WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
SPECIAL = {
    "%laneid": "__lane_id()", "WARP_SZ": "32u", "%clock": "(unsigned)clock64()", "%clock64": "clock64()",
    "%clock_lo": "(unsigned)clock64()", "%globaltimer": "wall_clock64()", "%globaltimer_lo": "(unsigned)wall_clock64()",
    "%warpid": "((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32)",
    "%nwarpid": "((blockDim.x * blockDim.y * blockDim.z + 31) / 32)",
    # No device tells which of its processors runs a thread: it counts as one.
    "%smid": "0u", "%nsmid": "1u", "%gridid": "0ull",
    **{f"%lanemask_{each}": f"(unsigned)__lanemask_{each}()" for each in ("lt", "le", "gt", "ge", "eq")},
    **{f"%{ptx}.{axis}": f"{name}.{axis}" for ptx, name in
       (("tid", "threadIdx"), ("ntid", "blockDim"), ("ctaid", "blockIdx"), ("nctaid", "gridDim")) for axis in "xyz"},
}  # fmt: skip
INFIX = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^", "rem": "%", "div": "/"}
COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">",
            "hs": ">="}  # fmt: skip
JOINED = {"and": "&&", "or": "||", "xor": "!="}
# Words in the names of arithmetic that are heeded, or change nothing here. Others round, saturate or compare otherwise.
HEEDED = {"lo", "hi", "wide", "rn", "ftz", "approx", "full", "cc", "sat", "to", "global", "clamp", "wrap", "l", "r",
          "rni", "rzi", "rmi", "rpi"}  # fmt: skip
OF_ONE = {"ex2": "exp2", "lg2": "log2", "rsqrt": "rsqrt", "sqrt": "sqrt", "sin": "sin", "cos": "cos", "tanh": "tanh"}
ATOMIC = {"add": "atomicAdd", "exch": "atomicExch", "min": "atomicMin", "max": "atomicMax", "and": "atomicAnd",
          "or": "atomicOr", "xor": "atomicXor", "cas": "atomicCAS"}  # fmt: skip
NOTHING = (
    "prefetch",
    "prefetchu",
    "nanosleep",
    "applypriority",
    "s_nop",
    "s_sleep",
    "s_waitcnt",
    "s_setprio",
    "pmevent",
)
MOVES_OF_AMD = ("v_mov_b32", "v_mov_b32_e32", "s_mov_b32", "s_mov_b64")
AMD = {
    "v_add_f32": "a + b", "v_sub_f32": "a - b", "v_mul_f32": "a * b", "v_max_f32": "fmaxf(a, b)",
    "v_min_f32": "fminf(a, b)", "v_add_u32": "a + b", "v_sub_u32": "a - b", "v_and_b32": "a & b", "v_or_b32": "a | b",
    "v_xor_b32": "a ^ b", "v_lshlrev_b32": "b << (a & 31)", "v_lshrrev_b32": "b >> (a & 31)",
    "v_fma_f32": "fmaf(a, b, c)", "v_mad_f32": "fmaf(a, b, c)", "v_mul_lo_u32": "a * b",
}  # fmt: skip
NUMBER = re.compile(r"-?(?:0[xX][0-9A-Fa-f]+|\d+)U?|-?\d+\.\d*(?:[eE][-+]?\d+)?")
BITS_OF_FLOAT = re.compile(r"0[fF]([0-9A-Fa-f]{8})")
BITS_OF_DOUBLE = re.compile(r"0[dD]([0-9A-Fa-f]{16})")
ADDRESS = re.compile(r"\[\s*([^\]+]+?)\s*(?:\+\s*(-?\d+))?\s*\]")
ONE = re.compile(r"(?:@(!?)(%?\w+)\s+)?([a-z]\w*(?:\.\w+(?:::\w+)*)*)\s*(.*)", re.DOTALL)
REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+(.*)", re.DOTALL)
MANY = re.compile(r"([\w$%]+)\s*<\s*(\d+)\s*>")
FENCES = {"gl": "__threadfence()", "gpu": "__threadfence()", "cta": "__threadfence_block()",
          "sys": "__threadfence_system()"}  # fmt: skip


class UnknownInstructionError(ValueError):
    """An instruction, or an operand, that has no translation."""


def statements_of(text: str, operand: Callable[[str], str | None]) -> list[str]:
    """Return the statements of C++ that do what instructions do.

    Parameters
    ----------
    text
        The instructions, with ``%0`` or ``%[name]`` for operands.
    operand
        The variable of an operand; None for what is none.

    Raises
    ------
    UnknownInstructionError
    """
    return _Translation(operand).all(text)


class _Translation:
    def __init__(self, operand: Callable[[str], str | None]) -> None:
        self._operand = operand
        self._registers: dict[str, str] = {}
        self._made: list[str] = []

    def all(self, text: str) -> list[str]:
        text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
        if re.search(r"\.(?:add|sub|mad)\.?c?c?\b|\bcc\b|addc|subc|madc", text):
            self._made.append("unsigned __carry = 0; (void)__carry;")
        # Braces begin and end a scope; those around registers have no line of their own.
        text = re.sub(r"^\s*\{(?!\s*%?\w+\s*[,}])|;\s*\{(?!\s*%?\w+\s*,)", ";", text)
        text = re.sub(r";\s*\}\s*;?\s*$", ";", text)
        for each in re.split(r";|\n(?=\s*[vs]_)", text):
            if each.strip():
                self._one(each.strip())
        return self._made

    def _one(self, text: str) -> None:
        declared = REGISTERS.fullmatch(text)
        if declared:
            listed = (_each_of(each.strip()) for each in declared[2].split(","))
            for name in itertools.chain.from_iterable(listed):
                register = f"__r{len(self._registers)}"
                self._registers[name] = register
                self._made.append(f"{self._type(declared[1])} {register} = 0;")
            return
        found = ONE.fullmatch(text)
        if not found:
            raise UnknownInstructionError(text)
        sign, predicate, name, rest = found.groups()
        before = len(self._made)
        self._instruction(name, _parts(rest))
        if predicate:
            body = " ".join(self._made[before:])
            self._made[before:] = [f"if ({sign}{self._value(predicate, 'bool')}) {{ {body} }}"]

    def _type(self, name: str) -> str:
        if name not in TYPES:
            raise UnknownInstructionError(name)
        return TYPES[name]

    def _variable(self, text: str) -> str:
        text = text.strip()
        known = self._registers.get(text) or self._operand(text)
        if not known:
            raise UnknownInstructionError(text)
        return known

    def _value(self, text: str, type_: str) -> str:
        text = text.strip()
        if text in SPECIAL:
            return f"__forebay::asm_as<{type_}>({SPECIAL[text]})"
        if found := BITS_OF_FLOAT.fullmatch(text):
            return f"__uint_as_float(0x{found[1]}u)"
        if found := BITS_OF_DOUBLE.fullmatch(text):
            return f"__longlong_as_double(0x{found[1]}ll)"
        if NUMBER.fullmatch(text):
            return f"({type_}){text}"
        return f"__forebay::asm_as<{type_}>({self._variable(text)})"

    def _put(self, to: str, value: str) -> None:
        if to.strip() != "_":
            self._made.append(f"__forebay::asm_put({self._variable(to)}, {value});")

    def _place(self, text: str, type_: str, is_volatile: bool) -> str:
        found = ADDRESS.fullmatch(text.strip())
        if not found:
            raise UnknownInstructionError(text)
        address = f"{self._value(found[1], 'unsigned long long')} + {found[2] or 0}"
        return f"(({'volatile ' * is_volatile}{type_}*)({address}))"

    def _instruction(self, name: str, operands: Sequence[str]) -> None:
        base, *words = name.split(".")
        if base in NOTHING:
            return
        if base in MOVES_OF_AMD:
            self._put(operands[0], self._variable(operands[1]) if operands[1][0] == "%" else operands[1])
        elif base.removesuffix("_e32").removesuffix("_e64") in AMD:
            key = base.removesuffix("_e32").removesuffix("_e64")
            type_ = "float" if key.endswith("f32") else "unsigned"
            values = [self._value(each, type_) for each in operands[1:]]
            named = ", ".join(f"{letter} = {value}" for letter, value in zip("abc", values, strict=False))
            self._made.append(f"{{ {type_} {named}; __forebay::asm_put({self._variable(operands[0])}, {AMD[key]}); }}")
        elif base in ("membar", "fence"):
            scope = next((word for word in words if word in FENCES), None)
            if scope is None:
                raise UnknownInstructionError(name)
            self._made.append(f"{FENCES[scope]};")
        elif base == "s_barrier" or (base in ("bar", "barrier") and "sync" in words and "warp" not in words):
            if operands[:1] not in ([], ["0"]) or len(operands) > 1:
                raise UnknownInstructionError(name)  # of a part of the block
            self._made.append("__syncthreads();")
        elif base == "bar" and words == ["warp", "sync"]:
            self._made.append(f"__syncwarp({self._value(operands[0], 'unsigned')});")
        elif base == "trap":
            self._made.append("__trap();")
        elif base == "activemask":
            self._put(operands[0], "(unsigned)__activemask()")
        elif base in ("ld", "ldu", "st"):
            self._memory(base, words, operands)
        elif base in ("atom", "red"):
            self._atomic(base, words, operands)
        elif base in ("shfl", "vote"):
            self._warp(base, words, operands)
        elif base == "vabsdiff4" and words == ["u32", "u32", "u32", "add"]:
            first, second, more = (self._value(each, "unsigned") for each in operands[1:])
            self._put(operands[0], f"__vsadu4({first}, {second}) + {more}")
        else:
            self._arithmetic(base, words, operands)

    def _memory(self, base: str, words: Sequence[str], operands: Sequence[str]) -> None:
        if {"shared", "param", "const", "local"} & {word.split("::")[0] for word in words}:
            raise UnknownInstructionError("addresses within a memory")
        type_ = self._type(words[-1])
        is_volatile = bool({"volatile", "relaxed", "acquire", "release", "cv"} & set(words))
        at, register = (operands[1], operands[0]) if base != "st" else (operands[0], operands[1])
        place = self._place(at, type_, is_volatile)
        registers = _parts(register.strip()[1:-1]) if register.strip().startswith("{") else [register]
        if "release" in words:
            self._made.append("__threadfence();")
        for i, each in enumerate(registers):
            if base == "st":
                self._made.append(f"{place}[{i}] = {self._value(each, type_)};")
            else:
                self._put(each, f"({type_}){place}[{i}]")
        if "acquire" in words:
            self._made.append("__threadfence();")

    def _atomic(self, base: str, words: Sequence[str], operands: Sequence[str]) -> None:
        operation = next((word for word in words if word in ATOMIC), None)
        if operation is None or "shared" in words or "v2" in words or "v4" in words:
            raise UnknownInstructionError("atom")
        type_ = self._type(words[-1])
        at, *values = operands if base == "red" else operands[1:]
        given = ", ".join(self._value(each, type_) for each in values)
        call = f"{ATOMIC[operation]}({self._place(at, type_, False)}, {given})"
        if {"release", "acq_rel"} & set(words):
            self._made.append("__threadfence();")
        if base == "red":
            self._made.append(f"(void){call};")
        else:
            self._put(operands[0], call)
        if {"acquire", "acq_rel"} & set(words):
            self._made.append("__threadfence();")

    def _warp(self, base: str, words: Sequence[str], operands: Sequence[str]) -> None:
        words = [word for word in words if word != "sync"]
        if base == "vote":
            call = {"ballot": "(unsigned)__ballot", "all": "__all", "any": "__any"}.get(words[0])
            if call is None or operands[1].startswith("!"):
                raise UnknownInstructionError(base)
            self._put(operands[0], f"{call}({self._value(operands[1], 'bool')})")
            return
        call = {"up": "__shfl_up", "down": "__shfl_down", "bfly": "__shfl_xor", "idx": "__shfl"}.get(words[0])
        whole = ("0", "0x0") if words[0] == "up" else ("31", "0x1f", "0x1F")
        if call is None or "|" in operands[0] or operands[3].strip() not in whole:
            raise UnknownInstructionError(base)
        values = self._value(operands[1], "unsigned"), self._value(operands[2], "int")
        self._put(operands[0], f"{call}({', '.join(values)})")

    def _arithmetic(self, base: str, words: Sequence[str], operands: Sequence[str]) -> None:
        kinds = [word for word in words if word in TYPES]
        if not kinds or not operands:
            raise UnknownInstructionError(base)
        type_ = TYPES[kinds[0]]
        if base == "mov" and "{" in "".join(operands):
            self._parts_of_words(kinds[0], operands)
            return
        if base == "setp":
            self._compare(words, kinds[0], operands)
            return
        if not {*words} <= {*TYPES, *HEEDED} or ("sat" in words and kinds[0] != "f32"):
            raise UnknownInstructionError(".".join([base, *words]))
        if base == "selp":
            values = [self._value(each, type_) for each in operands[1:3]]
            self._put(operands[0], f"{self._value(operands[3], 'bool')} ? {values[0]} : {values[1]}")
            return
        if base == "cvt":
            self._convert(words, kinds, operands)
            return
        if "cc" in words or base in ("addc", "subc", "madc"):
            self._with_carry(base, words, type_, operands)
            return
        values = [self._value(each, type_) for each in operands[1:]]
        result = self._formula(base, words, kinds[0], values, operands)
        if "sat" in words:
            result = f"__saturatef({result})"
        self._put(operands[0], result)

    def _compare(self, words: Sequence[str], kind: str, operands: Sequence[str]) -> None:
        """A comparison, and another predicate that it is joined with."""
        compared, *others = [word for word in words if word not in TYPES and word != "ftz"]
        if compared not in COMPARED or "|" in operands[0] or len(operands) != 3 + len(others):
            raise UnknownInstructionError("setp")
        first, second = (self._value(each, TYPES[kind]) for each in operands[1:3])
        result = f"{first} {COMPARED[compared]} {second}"
        if compared == "ne" and kind[0] == "f":  # nothing is unequal to NaN
            result = f"({first} < {second} || {first} > {second})"
        if others:
            sign = "!" if operands[3].startswith("!") else ""
            result = f"({result}) {JOINED[others[0]]} {sign}{self._value(operands[3].lstrip('!'), 'bool')}"
        self._put(operands[0], result)

    def _formula(
        self, base: str, words: Sequence[str], kind: str, values: Sequence[str], operands: Sequence[str]
    ) -> str:
        type_ = TYPES[kind]
        is_floating = kind[0] == "f"
        counts = [self._value(each, "unsigned") for each in operands[1:]]
        joined = ", ".join(values)
        if base in ("mov", "cvta"):
            return values[0]
        if base in INFIX and len(values) == 2:
            return f"({type_})({values[0]} {INFIX[base]} {values[1]})"
        if base in ("mul24", "mad24") and "lo" in words:
            product = f"{'__mul24' if kind == 's32' else '__umul24'}({values[0]}, {values[1]})"
            return product + (f" + {values[2]}" if base == "mad24" else "")
        if base in ("mul", "mad"):
            if "wide" in words:
                wide = TYPES[WIDER[kind]]
                product = f"(({wide}){values[0]} * ({wide}){values[1]})"
                return product + (f" + {self._value(operands[3], wide)}" if base == "mad" else "")
            product = f"__forebay::asm_high<{type_}>({values[0]}, {values[1]})" if "hi" in words else (
                f"({type_})({values[0]} * {values[1]})")  # fmt: skip
            return product + (f" + {values[2]}" if base[:3] == "mad" else "")
        if base in OF_ONE and is_floating:
            return f"{OF_ONE[base]}{'f' * (type_ == 'float')}({joined})"
        simple = {
            "fma": f"fma{'f' * (type_ == 'float')}({joined})", "rcp": f"({type_})1 / {values[0]}",
            "not": f"({type_})~{values[0]}" if kind != "pred" else f"!{values[0]}", "cnot": f"{values[0]} == 0",
            "neg": f"({type_})-{values[0]}",
            "popc": f"(unsigned)__builtin_popcountg({values[0]})",
            "brev": f"__builtin_bitreverse{kind[1:]}({values[0]})",
            "clz": f"(unsigned)__builtin_clzg({values[0]}, {kind[1:]})",
            "bfind": f"__forebay::asm_highest({values[0]})",
        }  # fmt: skip
        if base in simple and (base != "bfind" or "shiftamt" not in words):
            return simple[base]
        if base == "abs":
            return f"fabs({values[0]})" if is_floating else f"({values[0]} < 0 ? -{values[0]} : {values[0]})"
        if base in ("min", "max"):
            return f"f{base}({joined})" if is_floating else (
                f"({values[0]} {'<' if base == 'min' else '>'} {values[1]} ? {values[0]} : {values[1]})")  # fmt: skip
        if base in ("shl", "shr"):
            side = "left" if base == "shl" else "right"
            return f"__forebay::asm_{side}<{type_}>({values[0]}, {counts[1]})"
        if base == "bfe":
            return f"__forebay::asm_field<{type_}>({values[0]}, {counts[1]}, {counts[2]})"
        if base == "bfi":
            return f"__forebay::asm_insert<{type_}>({values[0]}, {values[1]}, {counts[2]}, {counts[3]})"
        if base == "prmt" and words == ["b32"]:
            return f"__byte_perm({joined})"
        if base == "lop3":
            return f"__forebay::asm_logic({joined})"
        if base == "shf" and words[0] in "lr":
            clamp = "c" if "clamp" in words else ""
            return f"__funnelshift_{words[0]}{clamp}({joined})"
        if base == "dp4a" and words[0] == words[1]:
            return f"__dp4a({joined})"
        raise UnknownInstructionError(base)

    def _convert(self, words: Sequence[str], kinds: Sequence[str], operands: Sequence[str]) -> None:
        to, from_ = kinds[:2]
        value = self._value(operands[1], TYPES[from_])
        rounding = next((word for word in words if word in ("rni", "rzi", "rmi", "rpi")), None)
        if "sat" in words or "f16" in words or "f16x2" in words:
            raise UnknownInstructionError("cvt")
        if rounding and from_[0] == "f":
            name = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}[rounding]
            value = f"{name}({value})"
        is_whole = from_[0] == "f" and to[0] in "us"
        self._put(operands[0], f"__forebay::saturated<{TYPES[to]}>({value})" if is_whole else f"({TYPES[to]}){value}")

    def _with_carry(self, base: str, words: Sequence[str], type_: str, operands: Sequence[str]) -> None:
        """Addition and subtraction that take a carry, or leave one."""
        values = [self._value(each, type_) for each in operands[1:]]
        takes = base.endswith("c")
        kind = base[:3]
        if kind not in ("add", "sub", "mad") or "unsigned" not in type_:
            raise UnknownInstructionError(base)
        if kind == "mad":
            product = f"__forebay::asm_high<{type_}>({values[0]}, {values[1]})" if "hi" in words else (
                f"({type_})({values[0]} * {values[1]})")  # fmt: skip
            values = [product, values[2]]
        carry = "__carry" if takes else "0"
        builtin = "sub" if kind == "sub" else "add"
        self._made.append(
            f"{{ {type_} __x, __y; unsigned __c = __builtin_{builtin}_overflow({values[0]}, {values[1]}, &__x);"
            f" __c |= __builtin_{builtin}_overflow(__x, ({type_}){carry}, &__y);"
            f"{' __carry = __c;' if 'cc' in words else ''} __forebay::asm_put({self._variable(operands[0])}, __y); }}"
        )

    def _parts_of_words(self, kind: str, operands: Sequence[str]) -> None:
        """A word made of two halves, or taken apart."""
        half = {"b64": "b32", "u64": "u32", "b32": "b16", "u32": "u16"}.get(kind)
        if half is None:
            raise UnknownInstructionError("mov")
        bits, part, whole = half[1:], TYPES[half], TYPES[kind]
        if operands[0].strip().startswith("{"):
            low, high = _parts(operands[0].strip()[1:-1])
            value = self._value(operands[1], whole)
            self._put(low, f"({part}){value}")
            self._put(high, f"({part})({value} >> {bits})")
        else:
            low, high = (self._value(each, part) for each in _parts(operands[1].strip()[1:-1]))
            self._put(operands[0], f"(({whole}){high} << {bits}) | ({whole}){low}")


def _each_of(name: str) -> list[str]:
    """The registers that a name declares: ``r<3>`` is r0, r1 and r2."""
    many = MANY.fullmatch(name)
    return [f"{many[1]}{number}" for number in range(int(many[2]))] if many else [name]


def _parts(text: str) -> list[str]:
    """What commas part, outside of brackets."""
    depth, parts = 0, [""]
    for sign in text:
        depth += (sign in "{[") - (sign in "}]")
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts if part.strip()]
