"""The commonest instructions of PTX and of AMD's GPUs as statements of C++.

Sources: NVIDIA's "Parallel Thread Execution ISA", and AMD's "RDNA Instruction Set Architecture". What is not here is
not translated.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence

from forebay.compiler.assembly.registers import TYPES, Registers, UnknownInstructionError, names_of, parts_of
from forebay.compiler.assembly.warps import with_warps

__all__ = ["UnknownInstructionError", "statements_of"]

WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
INFIX = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^", "rem": "%", "div": "/"}
COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">",
            "hs": ">="}  # fmt: skip
UNORDERED = {"neu": "==", "ltu": ">=", "leu": ">", "gtu": "<=", "geu": "<"}
JOINED = {"and": "&&", "or": "||", "xor": "!="}
# Words in the names of arithmetic that are heeded, or change nothing here. Others round, saturate or compare otherwise.
HEEDED = {"lo", "hi", "wide", "rn", "ftz", "approx", "full", "cc", "sat", "to", "global", "clamp", "wrap", "l", "r",
          "rni", "rzi", "rmi", "rpi"}  # fmt: skip
ROUNDED = {"rz": "rz", "rm": "rd", "rp": "ru"}
OF_ROUNDING = ("add", "sub", "mul", "div", "fma", "sqrt", "rcp")
OF_HALVES = {"add": "__hadd", "sub": "__hsub", "mul": "__hmul", "fma": "__hfma", "neg": "__hneg", "min": "__hmin",
             "max": "__hmax", "abs": "__habs"}  # fmt: skip
OF_ONE = {"ex2": "exp2", "lg2": "log2", "rsqrt": "rsqrt", "sqrt": "sqrt", "sin": "sin", "cos": "cos", "tanh": "tanh"}
ATOMIC = {"add": "atomicAdd", "exch": "atomicExch", "min": "atomicMin", "max": "atomicMax", "and": "atomicAnd",
          "or": "atomicOr", "xor": "atomicXor", "cas": "atomicCAS", "inc": "atomicInc", "dec": "atomicDec"}  # fmt: skip
NOTHING = ("prefetch", "prefetchu", "nanosleep", "applypriority", "discard", "griddepcontrol", "setmaxnreg", "pmevent",
           "brkpt", "s_nop", "s_sleep", "s_waitcnt", "s_setprio", "s_sethalt")  # fmt: skip
MOVES_OF_AMD = ("v_mov_b32", "v_mov_b32_e32", "s_mov_b32", "s_mov_b64")
AMD = {
    "v_add_f32": "a + b", "v_sub_f32": "a - b", "v_mul_f32": "a * b", "v_max_f32": "fmaxf(a, b)",
    "v_min_f32": "fminf(a, b)", "v_add_u32": "a + b", "v_sub_u32": "a - b", "v_and_b32": "a & b", "v_or_b32": "a | b",
    "v_xor_b32": "a ^ b", "v_lshlrev_b32": "b << (a & 31)", "v_lshrrev_b32": "b >> (a & 31)",
    "v_fma_f32": "fmaf(a, b, c)", "v_mad_f32": "fmaf(a, b, c)", "v_mul_lo_u32": "a * b",
}  # fmt: skip
ONE = re.compile(r"(?:@(!?)(%?\w+)\s+)?([a-z]\w*(?:\.\w+(?:::\w+)*)*)\s*(.*)", re.DOTALL)
LABEL = re.compile(r"\s*([$%\w]+)\s*:(?!:)\s*")
REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+(.*)", re.DOTALL)
FENCES = {"gl": "__threadfence()", "gpu": "__threadfence()", "cta": "__threadfence_block()",
          "sys": "__threadfence_system()"}  # fmt: skip


def statements_of(text: str, operand: Callable[[str], str | None]) -> list[str]:
    """Return the statements of C++ that do what instructions do, which have ``%0`` or ``%[name]`` for operands.

    `operand` gives the variable of an operand, and None for what is none. Raises `UnknownInstructionError`.
    """
    return _Translation(operand).all(text)


class _Translation(Registers):
    def all(self, text: str) -> list[str]:
        text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
        if re.search(r"\.(?:add|sub|mad)\.?c?c?\b|\bcc\b|addc|subc|madc", text):
            self.made.append("unsigned __carry = 0; (void)__carry;")
        # Braces begin and end a scope; those around registers have no line of their own.
        text = re.sub(r"^\s*\{(?!\s*%?\w+\s*[,}])|;\s*\{(?!\s*%?\w+\s*,)", ";", text)
        text = re.sub(r"([;:])\s*\}\s*;?\s*$", r"\1;", text).replace("%=", "")
        for each in re.split(r";|\n(?=\s*[vs]_)", text):
            if each.strip():
                self._one(each.strip())
        if not self.labels:
            return self.made
        return ["{", *(f"__label__ {label};" for label in self.labels), *self.made, "}"]

    def _one(self, text: str) -> None:
        while label := LABEL.match(text):
            self.made.append(f"{self._label(label[1])}: ;")
            text = text[label.end() :]
        if not text:
            return
        declared = REGISTERS.fullmatch(text)
        if declared:
            listed = (names_of(each.strip()) for each in declared[2].split(","))
            for name in itertools.chain.from_iterable(listed):
                register = f"__r{len(self.registers)}"
                self.registers[name] = register
                self.made.append(f"{self.type_of(declared[1])} {register} = 0;")
            return
        found = ONE.fullmatch(text)
        if not found:
            raise UnknownInstructionError(text)
        sign, predicate, name, rest = found.groups()
        before = len(self.made)
        self._instruction(name, parts_of(rest))
        if predicate:
            body = " ".join(self.made[before:])
            self.made[before:] = [f"if ({sign}{self.value(predicate, 'bool')}) {{ {body} }}"]

    def _label(self, name: str) -> str:
        """The label of C++ for one, which is this statement's alone."""
        known = "__at_" + re.sub(r"\W", "_", name)
        self.labels[known] = None
        return known

    def _instruction(self, name: str, operands: Sequence[str]) -> None:
        base, *words = name.split(".")
        if base in NOTHING or (base == "fence" and words[0] == "proxy") or with_warps(self, base, words, operands):
            return
        if base in MOVES_OF_AMD:
            self.put(operands[0], self.variable(operands[1]) if operands[1][0] == "%" else operands[1])
        elif base.removesuffix("_e32").removesuffix("_e64") in AMD:
            key = base.removesuffix("_e32").removesuffix("_e64")
            type_ = "float" if key.endswith("f32") else "unsigned"
            values = [self.value(each, type_) for each in operands[1:]]
            named = ", ".join(f"{letter} = {value}" for letter, value in zip("abc", values, strict=False))
            self.made.append(f"{{ {type_} {named}; __forebay::asm_put({self.variable(operands[0])}, {AMD[key]}); }}")
        elif base in ("membar", "fence"):
            scope = next((word for word in words if word in FENCES), None)
            if scope is None:
                raise UnknownInstructionError(name)
            self.made.append(f"{FENCES[scope]};")
        elif base == "s_barrier" or (base in ("bar", "barrier") and "sync" in words and "warp" not in words):
            if operands[:1] not in ([], ["0"]) or len(operands) > 1:
                raise UnknownInstructionError(name)  # of a part of the block
            self.made.append("__syncthreads();")
        elif base == "bar" and words == ["warp", "sync"]:
            self.made.append(f"__syncwarp({self.value(operands[0], 'unsigned')});")
        elif base == "bra" and set(words) <= {"uni"}:
            self.made.append(f"goto {self._label(operands[0])};")
        elif base == "trap":
            self.made.append("__trap();")
        elif base == "activemask":
            self.put(operands[0], "(unsigned)__activemask()")
        elif base in ("ld", "ldu", "st"):
            self._memory(base, words, operands)
        elif base in ("atom", "red"):
            self._atomic(base, words, operands)
        elif base == "vabsdiff4" and words == ["u32", "u32", "u32", "add"]:
            first, second, more = (self.value(each, "unsigned") for each in operands[1:])
            self.put(operands[0], f"__vsadu4({first}, {second}) + {more}")
        else:
            self._arithmetic(base, words, operands)

    def _memory(self, base: str, words: Sequence[str], operands: Sequence[str]) -> None:
        memories = {word.split("::")[0] for word in words}
        if {"param", "const", "local"} & memories:
            raise UnknownInstructionError("addresses within a memory")
        type_ = self.type_of(words[-1])
        is_volatile = bool({"volatile", "relaxed", "acquire", "release", "cv"} & set(words))
        at, register = (operands[1], operands[0]) if base != "st" else (operands[0], operands[1])
        place = self.place(at, type_, is_volatile, "shared" in memories)
        registers = parts_of(register.strip()[1:-1]) if register.strip().startswith("{") else [register]
        if "release" in words:
            self.made.append("__threadfence();")
        for i, each in enumerate(registers):
            if base == "st":
                self.made.append(f"{place}[{i}] = {self.value(each, type_)};")
            else:
                self.put(each, f"({type_}){place}[{i}]")
        if "acquire" in words:
            self.made.append("__threadfence();")

    def _atomic(self, base: str, words: Sequence[str], operands: Sequence[str]) -> None:
        operation = next((word for word in words if word in ATOMIC), None)
        if operation is None or (base == "atom" and {"v2", "v4"} & {*words}):
            raise UnknownInstructionError("atom")
        type_ = self.type_of(words[-1])
        at, *values = operands if base == "red" else operands[1:]
        place = self.place(at, type_, False, any(word.startswith("shared") for word in words))
        if {"v2", "v4"} & {*words}:  # one after another, as the instruction promises no more
            for number, each in enumerate(parts_of(values[0].strip()[1:-1])):
                self.made.append(f"(void){ATOMIC[operation]}({place} + {number}, {self.value(each, type_)});")
            return
        given = ", ".join(self.value(each, type_) for each in values)
        call = f"{ATOMIC[operation]}({place}, {given})"
        if {"release", "acq_rel"} & set(words):
            self.made.append("__threadfence();")
        if base == "red":
            self.made.append(f"(void){call};")
        else:
            self.put(operands[0], call)
        if {"acquire", "acq_rel"} & set(words):
            self.made.append("__threadfence();")

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
        if rounded := next((ROUNDED[word] for word in words if word in ROUNDED), None):
            if base in OF_ROUNDING and kinds[0] in ("f32", "f64") and not {*words} - {*TYPES, *ROUNDED, "ftz"}:
                name = f"__{'f' if kinds[0] == 'f32' else 'd'}{base}_{rounded}"
                name = name.replace("__ffma", "__fmaf").replace("__dfma", "__fma")
                self.put(operands[0], f"{name}({', '.join(self.value(each, type_) for each in operands[1:])})")
                return
            raise UnknownInstructionError(".".join([base, *words]))
        if base == "add" and words == ["sat", "s32"]:
            first, second = (self.value(each, type_) for each in operands[1:])
            self.put(operands[0], f"__builtin_elementwise_add_sat({first}, {second})")
            return
        if base == "cvt" and words == ["rna", "tf32", "f32"]:
            self.put(operands[0], f"(__float_as_uint({self.value(operands[1], 'float')}) + 0x1000u) & 0xffffe000u")
            return
        if base == "cvt" and words == ["rn", "f16x2", "f32"]:
            high, low = (self.value(each, "float") for each in operands[1:])
            self.put(operands[0], f"__floats2half2_rn({low}, {high})")
            return
        if base in OF_HALVES and kinds[0] in ("f16", "f16x2") and not {*words} - {"rn", "ftz", kinds[0]}:
            name = OF_HALVES[base] + "2" * (kinds[0] == "f16x2")
            self.put(operands[0], f"{name}({', '.join(self.value(each, type_) for each in operands[1:])})")
            return
        if (
            not {*words} <= {*TYPES, *HEEDED}
            or ("sat" in words and kinds[0] != "f32" and base != "cvt")
            or ("f16x2" in kinds)
        ):
            raise UnknownInstructionError(".".join([base, *words]))
        if base == "selp":
            values = [self.value(each, type_) for each in operands[1:3]]
            self.put(operands[0], f"{self.value(operands[3], 'bool')} ? {values[0]} : {values[1]}")
            return
        if base == "cvt":
            self._convert(words, kinds, operands)
            return
        if "cc" in words or base in ("addc", "subc", "madc"):
            self._with_carry(base, words, type_, operands)
            return
        values = [self.value(each, type_) for each in operands[1:]]
        result = self._formula(base, words, kinds[0], values, operands)
        if "sat" in words:
            result = f"__saturatef({result})"
        self.put(operands[0], result)

    def _compare(self, words: Sequence[str], kind: str, operands: Sequence[str]) -> None:
        """A comparison, and another predicate that it is joined with."""
        compared, *others = [word for word in words if word not in TYPES and word != "ftz"]
        opposite = UNORDERED.get(compared) if kind[0] == "f" else None
        if (compared not in COMPARED and opposite is None) or "|" in operands[0] or len(operands) != 3 + len(others):
            raise UnknownInstructionError("setp")
        first, second = (self.value(each, TYPES[kind]) for each in operands[1:3])
        result = f"!({first} {opposite} {second})" if opposite else f"{first} {COMPARED[compared]} {second}"
        if compared == "ne" and kind[0] == "f":  # nothing is unequal to NaN
            result = f"({first} < {second} || {first} > {second})"
        if others:
            sign = "!" if operands[3].startswith("!") else ""
            result = f"({result}) {JOINED[others[0]]} {sign}{self.value(operands[3].lstrip('!'), 'bool')}"
        self.put(operands[0], result)

    def _formula(
        self, base: str, words: Sequence[str], kind: str, values: Sequence[str], operands: Sequence[str]
    ) -> str:
        type_ = TYPES[kind]
        is_floating = kind[0] == "f"
        counts = [self.value(each, "unsigned") for each in operands[1:]]
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
                return product + (f" + {self.value(operands[3], wide)}" if base == "mad" else "")
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
        if base == "dp4a":
            signs = ", ".join("signed char" if word[0] == "s" else "unsigned char" for word in words)
            return f"__forebay::asm_products<{signs}>({joined})"
        if base == "dp2a":
            first, other = ("signed" if word[0] == "s" else "unsigned" for word in words[1:])
            second = f"{values[1]} >> 16" if words[0] == "hi" else values[1]
            return f"__forebay::asm_products<{first} short, {other} char>({values[0]}, {second}, {values[2]})"
        if base == "sad":
            return f"{values[2]} + ({values[0]} < {values[1]} ? {values[1]} - {values[0]} : {values[0]} - {values[1]})"
        if base == "slct":
            return f"{self.value(operands[3], TYPES[words[-1]])} >= 0 ? {values[0]} : {values[1]}"
        if base == "copysign" and is_floating:
            return f"copysign({values[1]}, {values[0]})"
        if base == "fns":
            return f"__fns({joined})"
        raise UnknownInstructionError(base)

    def _convert(self, words: Sequence[str], kinds: Sequence[str], operands: Sequence[str]) -> None:
        to, from_ = kinds[:2]
        value = self.value(operands[1], TYPES[from_])
        rounding = next((word for word in words if word in ("rni", "rzi", "rmi", "rpi")), None)
        if "sat" in words and to[0] == "f":
            raise UnknownInstructionError("cvt")
        if rounding and from_[0] == "f":
            name = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}[rounding]
            value = f"{name}({value})"
        is_whole = to[0] in "us" and (from_[0] == "f" or "sat" in words)
        self.put(operands[0], f"__forebay::saturated<{TYPES[to]}>({value})" if is_whole else f"({TYPES[to]}){value}")

    def _with_carry(self, base: str, words: Sequence[str], type_: str, operands: Sequence[str]) -> None:
        """Addition and subtraction that take a carry, or leave one."""
        values = [self.value(each, type_) for each in operands[1:]]
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
        self.made.append(
            f"{{ {type_} __x, __y; unsigned __c = __builtin_{builtin}_overflow({values[0]}, {values[1]}, &__x);"
            f" __c |= __builtin_{builtin}_overflow(__x, ({type_}){carry}, &__y);"
            f"{' __carry = __c;' if 'cc' in words else ''} __forebay::asm_put({self.variable(operands[0])}, __y); }}"
        )

    def _parts_of_words(self, kind: str, operands: Sequence[str]) -> None:
        """A word made of two halves, or taken apart."""
        half = {"b64": "b32", "u64": "u32", "b32": "b16", "u32": "u16"}.get(kind)
        if half is None:
            raise UnknownInstructionError("mov")
        bits, part, whole = half[1:], TYPES[half], TYPES[kind]
        if operands[0].strip().startswith("{"):
            low, high = parts_of(operands[0].strip()[1:-1])
            value = self.value(operands[1], whole)
            self.put(low, f"({part}){value}")
            self.put(high, f"({part})({value} >> {bits})")
        else:
            low, high = (self.value(each, part) for each in parts_of(operands[1].strip()[1:-1]))
            self.put(operands[0], f"(({whole}){high} << {bits}) | ({whole}){low}")
