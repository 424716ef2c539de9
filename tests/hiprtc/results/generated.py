"""Random kernels in HIP C++ whose result does not depend on the order of their threads.

`tests.hiprtc.test_generated` runs those of some seeds on the device and on the host.
All numbers are unsigned, so that nothing overflows, and all floats small multiples of 1/4, so that nothing is rounded.
Barriers, and warps' functions, are where all threads of the block come by; in some kernels threads return or part
before barriers, which let the others go on as on GPUs.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

import numpy as np

from .tables import Case

INPUTS, SLOTS = 256, 8
BLOCKS = ((64, 1, 1), (32, 1, 1), (8, 8, 1), (4, 4, 4), (16, 2, 2), (96, 1, 1), (32, 3, 1), (1, 32, 2), (128, 1, 1))
ODD_BLOCKS = ((40, 1, 1), (5, 7, 1), (3, 3, 5), (100, 1, 1), (1, 1, 1), (7, 1, 9))
GRIDS = ((2, 1, 1), (1, 1, 1), (2, 2, 1), (1, 2, 2))
TYPES = ("bool", "char", "unsigned char", "short", "unsigned short", "unsigned", "unsigned long long")
COMMON = ("+", "-", "&", "|", "^", "==", "!=", "<", ">", "<=", ">=")
OPERATIONS = ("Add", "Max", "Min", "Or", "And", "Xor")

FUNCTIONS = """
struct two { unsigned x, y; __device__ unsigned sum() const { return x + y; } };
__device__ __attribute__((noinline)) unsigned mix(unsigned x, unsigned y) { for (; y; y >>= 3) x = x * 5 + (y & 7); return x; }
__device__ void both(unsigned& x, unsigned& y) { unsigned t = x ^ y; if (t & 1) { x = y; y = t; } else y += 3; }
__device__ unsigned least(const unsigned* p, int n) { unsigned r = p[0]; for (int i = 1; i < n; i++) if (p[i] < r) r = p[i]; return r; }
__device__ unsigned down(unsigned x, int n) { if (x < 2 || n == 0) return x; return x & 1 ? down(x / 2, n - 1) + 1 : down(x / 3, n - 1) * 2; }
template <class T> __device__ T turned(T x, int by) { return T(x << by | x >> (sizeof(T) * 8 - by)); }
"""


def block(head: str, inside: list[str]) -> str:
    """A statement with others in it."""
    return "\n".join([f"{head} {{", *inside, "}"])


class Writer:
    """Writes the statements of one kernel."""

    def __init__(self, number: random.Random, has_warps: bool, has_barriers: bool, parts: bool) -> None:
        self.number, self.has_warps, self.has_barriers, self.parts = number, has_warps, has_barriers, parts
        self.loops = 0

    def pick(self, *these: str) -> str:
        return self.number.choice(these)

    def name(self) -> str:
        return self.pick("a", "b", "c", "d")

    def value(self, depth: int = 2) -> str:
        """An unsigned number."""
        n = self.number.randrange
        if depth == 0 or n(4) == 0:
            names = ["a", "b", "c", "d", "tid", "threadIdx.x", "threadIdx.y", "blockIdx.x", "blockDim.x", "n"]
            names += [f"{n(9)}u", "(unsigned)f", f"{n(1 << 40)}ll", "'a'"]
            names += [f"i{k}" for k in range(self.loops)]
            return self.pick(*names)
        x, y = self.value(depth - 1), self.value(depth - 1)
        return self.pick(
            f"({x} {self.pick('+', '-', '*', '^', '&', '|')} {y})", f"({x} {self.pick('+', '-', '*', '^', '&', '|')} {y})",
            f"({x} {self.pick('<<', '>>')} ({y} & 31))", f"({x} {self.pick('/', '%')} ({y} | 1))",
            f"({self.condition(depth - 1)} ? {x} : {y})", f"in[{x} & {INPUTS - 1}]", f"t[{x} & 7]",
            f"mix({x}, {y})", f"min({x}, {y})", f"max({x}, {y})", f"two{{{x}, {y}}}.sum()", f"down({x} & 255, 4)",
            f"(unsigned)(unsigned char){x}", f"(unsigned)(short){x}", f"(unsigned)(((unsigned long long){x} * {y}) >> 32)",
            f"(unsigned)__popc({x})", f"(unsigned)__clz({x})", f"turned<unsigned short>({x}, 3)", f"turned<unsigned>({x}, 7)",
            f"(unsigned)((int){x} >> 3)", f"least(t, 3 + ({x} & 3))", f"(unsigned)({self.typed(x)} {self.pick(*COMMON)} {self.typed(y)})",
            f"(unsigned)sizeof({self.typed(x)} {self.pick(*COMMON)} {self.typed(y)})", f"(unsigned)(bool){x}",
            f"(unsigned)((int){x} {self.pick('/', '%')} ((int){y} & 0xff | 1))", f"(unsigned)((long long)(int){x} * (int){y} >> {n(9)})",
            f"(unsigned)max({self.typed(x)}, {self.typed(y)})", f"({x} && {y} || !{x})",
        )  # fmt: skip

    def typed(self, value: str) -> str:
        """A number of any type; of no more bits than two of a type can be added in an int or a long long."""
        return f"({self.pick(*TYPES)}){value}"

    def condition(self, depth: int = 1) -> str:
        x = self.value(depth)
        return self.pick(
            f"({x} & {self.number.randrange(1, 8)})", f"{x} {self.pick('<', '>', '==', '!=', '<=')} {self.value(depth)}",
            f"tid {self.pick('<', '>', '==', '!=')} {self.number.randrange(40)}", f"threadIdx.x {self.pick('==', '<', '!=')} {self.number.randrange(3)}",
            f"(int){x} < (int){self.value(0)}", f"f > {self.number.randrange(20)}.f", f"(tid + {self.number.randrange(3)}) % 3 == 0",
            "tid == 0", "threadIdx.y == 0",
        )  # fmt: skip

    def uniform(self) -> str:
        """A condition that all threads of a block agree on."""
        return self.pick(
            f"n > {self.number.randrange(12)}", "blockIdx.x == 0", "(blockIdx.x ^ n) & 1", "in[blockIdx.y] & 1"
        )

    def body(self, depth: int, is_uniform: bool, most: int = 4) -> list[str]:
        return [self.statement(depth, is_uniform) for _ in range(self.number.randint(1, most))]

    def statement(self, depth: int, is_uniform: bool) -> str:
        n = self.number.randrange
        if depth and n(3) == 0:
            return self.nested(depth - 1, is_uniform)
        if is_uniform and self.has_warps and n(3) == 0:
            return self.of_warp()
        if self.parts and n(3) == 0:
            return self.parting()
        if is_uniform and self.has_barriers and n(3) == 0:
            return self.exchange()
        op = n(len(OPERATIONS))
        return self.pick(
            f"{self.name()} = {self.value()};", f"{self.name()} {self.pick('+', '^', '*', '-', '|')}= {self.value()};",
            f"t[{self.value(1)} & 7] = {self.value()};", f"t[{self.value(1)} & 7] += {self.value(1)};",
            f"atomic{OPERATIONS[op]}(&g[{op * SLOTS} + ({self.value(1)} & {SLOTS - 1})], {self.value()});",
            f"f = fminf(f * {self.pick('0.5f', '2.f', '-1.f')} + (float)({self.value(1)} & 63), 1000.f), f = truncf(fmaxf(f, 0.f));",
            f"both({self.pick('a', 'b')}, {self.pick('c', 'd')});", f"if ({self.condition()}) {self.name()} = {self.value()};",
            f"atomicAdd(&g[{n(SLOTS)}], 1u);", f"if ({self.condition()}) atomicAdd(&g[{n(SLOTS)}], {self.value(1)});",
            f"out[tid + blockDim.x * blockDim.y * blockDim.z * block] += {self.value()};",
        )  # fmt: skip

    def nested(self, depth: int, is_uniform: bool) -> str:
        n = self.number.randrange
        kind = n(6)
        if is_uniform and n(2):
            if kind < 3:
                return block(f"if ({self.uniform()})", self.body(depth, True))
            head = f"for (unsigned i{self.loops} = 0; i{self.loops} < {self.pick('2', '3', 'n % 4', 'gridDim.x')}; i{self.loops}++)"
        else:
            if kind < 2:
                return block(f"if ({self.condition()})", self.body(depth, False))
            if kind == 2:
                return block(f"switch ({self.value(1)} & 3)", [
                    block(f"case {case}:", [*self.body(depth, False, 2), self.pick("break;", ";")])
                    for case in range(self.number.randint(1, 4))
                ])  # fmt: skip
            most = self.pick(f"({self.value(1)} & 3)", f"({self.value(1)} & 7)", "(tid & 3)", "tid % 5")
            head = f"for (unsigned i{self.loops} = 0, m = {most}; i{self.loops} < m; i{self.loops}++)"
            is_uniform = False
        self.loops += 1
        inside = self.body(depth, is_uniform)
        if not is_uniform and n(2):
            inside.insert(n(len(inside) + 1), f"if ({self.condition()}) {self.pick('break', 'continue')};")
        self.loops -= 1
        return block(head, inside)

    def exchange(self) -> str:
        """Threads give each other numbers through shared memory."""
        x, y = self.name(), self.name()
        size = "(blockDim.x * blockDim.y * blockDim.z)"
        return self.pick(
            f"s[tid] = {self.value()}; __syncthreads(); {x} += s[({self.value(1)}) % {size}]; __syncthreads();",
            f"__syncthreads(); if ({self.condition()}) s[tid] = {self.value()}; __syncthreads(); {x} = s[{size} - 1 - tid]; __syncthreads();",
            f"if (tid == 0) s[0] = {self.value()}; __syncthreads(); {x} ^= s[0]; __syncthreads();",
            f"for (unsigned h = tid; h < {SLOTS}; h += {size}) u[h] = 0; __syncthreads(); atomicAdd(&u[{self.value(1)} & {SLOTS - 1}], {self.value()}); __syncthreads(); {x} = u[{self.value(1)} & {SLOTS - 1}]; __syncthreads();",
            f"{x} += __syncthreads_{self.pick('count', 'or', 'and')}({self.condition()});",
            f"s[tid] = {y}; __syncthreads(); for (unsigned h = {size} / 2; h > 0; h /= 2) {{ if (tid < h) s[tid] += s[tid + h]; __syncthreads(); }} {x} = s[0]; __syncthreads();",
            f"s[tid] = {y}; __syncthreads(); for (unsigned h = 1; h < {size}; h *= 2) {{ unsigned v = tid >= h ? s[tid - h] : 0; __syncthreads(); s[tid] += v; __syncthreads(); }} {x} = s[tid]; __syncthreads();",
        )  # fmt: skip

    def parting(self) -> str:
        """Threads may be elsewhere, or have returned: each writes its own place, and all have two barriers in turn."""
        if self.number.randrange(4) == 0:
            return f"if ({self.condition()}) {{ {self.pick('out[tid] = a;', '')} return; }}"
        x, by = self.name(), self.number.randint(1, 70)
        size = "(blockDim.x * blockDim.y * blockDim.z)"
        return f"s[tid] = {self.value(1)}; __syncthreads(); {x} = {x} * 5 + s[(tid + {by}) % {size}]; __syncthreads();"

    def of_warp(self) -> str:
        x, y = self.name(), self.value(1)
        return self.pick(
            f"{x} += __shfl_xor({y}, {self.pick('1', '2', '7', '16')});", f"{x} = __shfl_sync(~0ull, {y}, {self.value(1)} & 31);",
            f"{x} ^= __shfl_down({y}, {self.pick('1', '4', '16')}, {self.pick('8', '32', '16')});", f"{x} += __shfl_up_sync(0xffffffffull, {y}, 1);",
            f"{x} += (unsigned)__ballot({self.condition()});", f"{x} += __any({self.condition()}) + 2 * __all({self.condition()});",
            f"for (int h = 16; h; h /= 2) {x} += __shfl_xor({x}, h);",
            f"for (unsigned h = 1; h < 32; h *= 2) {{ unsigned v = __shfl_up({x}, h); if (tid % 32 >= h) {x} += v; }}",
            f"if (tid % 32 < 16) {x} += __shfl_xor({y}, 3); else {x} -= __shfl_xor({y}, 5);",
        )  # fmt: skip


@dataclasses.dataclass
class Generated:
    """A kernel and how to launch it."""

    name: str
    statements: list[str]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    seed: int
    has_shared: bool

    def source(self) -> str:
        """The kernel in HIP C++."""
        threads = self.block[0] * self.block[1] * self.block[2]
        shared = (
            f"    __shared__ unsigned s[{threads}], u[{SLOTS}]; s[tid] = tid; __syncthreads();\n"
            if self.has_shared
            else ""
        )
        return (
            f'extern "C" __global__ void {self.name}(const unsigned* in, unsigned* out, unsigned* g, unsigned n) {{\n'
            "    unsigned tid = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);\n"
            "    unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);\n"
            "    unsigned a = in[tid], b = tid * 7, c = in[block], d = 1, t[8] = {1, 2, 3, 4, 5, 6, 7, 8}; float f = (float)(a & 15);\n"
            + shared + "\n".join(self.statements)
            + "\n    out[tid + blockDim.x * blockDim.y * blockDim.z * block] += a + 3 * b + 5 * c + 7 * d + 11 * t[0] + 13 * t[a & 7] + (unsigned)f;\n}\n"
        )  # fmt: skip

    def case(self, source: str) -> Case:
        """Its launch, in a source with others."""
        random = np.random.default_rng(self.seed)
        threads = int(np.prod(self.block) * np.prod(self.grid))
        numbers = random.integers(0, 40, INPUTS).astype("u4")
        numbers[::5] = random.integers(0, 1 << 32, numbers[::5].size)
        given = np.resize(numbers, 1024), np.zeros(threads, "u4"), np.full(1024, 100, "u4"), self.seed % 17
        return Case(source, self.grid, self.block, given, self.name)


def generated(seed: int) -> Generated:
    """Return the kernel of a seed."""
    number = random.Random(seed)
    has_warps, has_barriers, parts = number.random() < 0.4, number.random() < 0.7, number.random() < 0.4
    writer = Writer(number, has_warps and not parts, has_barriers and not parts, parts)
    statements = [writer.statement(3, True) for _ in range(number.randint(2, 7))]
    if not has_barriers and not has_warps and number.random() < 0.5:
        statements.insert(number.randrange(len(statements)), f"if ({writer.condition()}) return;")
    block = number.choice(BLOCKS if has_warps else BLOCKS + ODD_BLOCKS)
    return Generated(f"k{seed}", statements, number.choice(GRIDS), block, seed, has_barriers or parts)


def cases_of(seeds: Sequence[int]) -> dict[str, Case]:
    """Return the kernels of these seeds, in one source."""
    kernels = [generated(seed) for seed in seeds]
    source = FUNCTIONS + "\n".join(each.source() for each in kernels)
    return {each.name: each.case(source) for each in kernels}
