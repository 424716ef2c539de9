"""One program's kernels, on the host and on the device: reads JSON, writes a line of JSON for each kernel."""

from __future__ import annotations

import ctypes
import json
import re
import sys

import numpy as np

import forebay as fb
from forebay.hiprtc.clang import Clang, find_clang
from forebay.hiprtc.compiler import compile_hip
from forebay.hiprtc.options import split_options
from forebay.queues.kernels.parameters import CppProgram, KernelInfo

from ...helpers.hip_sources import items
from .arguments import SCALARS, disturbed, launches
from .host import ENDLESS, HostError, HostProgram, Launch, address_of, run

LAUNCHES = 2
"""How many launches of a kernel are compared, if that many can be."""
OPTIONS = ["-ferror-limit=40", "-std=c++20"]
GONE_BEFORE, ELSEWHERE, WARPS, ATOMICS, RACE_IN_WARP, RACE_IN_BLOCK, RACE = 1, 2, 4, 8, 16, 32, 64
FORWARDS, BACKWARDS, AT_RANDOM = 0, 1, 2
Left = tuple[list[np.ndarray], dict[int, np.ndarray]]


class Reference:
    """What a launch leaves on the host, and how far that is determined.

    Raises
    ------
    HostError
        When it is not.
    """

    def __init__(self, program: HostProgram, index: int, launch: Launch, dtypes: list[np.dtype]) -> None:
        buffers, variables, self.flags = run(program, index, launch, FORWARDS)
        if self.flags & WARPS and launch.block[0] % 32 and launch.block[1] > 1:
            raise HostError("a warp in a block of this shape")
        if self.flags & (RACE | RACE_IN_BLOCK) and not self.flags & ATOMICS:
            raise HostError("a race")
        if self.flags & RACE_IN_WARP and not self.flags & ATOMICS:
            raise HostError("relies on the lockstep of a warp")
        if self.flags & GONE_BEFORE:
            raise HostError("threads return before a barrier that others reach")
        if self.flags & ELSEWHERE:
            raise HostError("threads are at different barriers")
        before = [each for each in launch.arguments if not isinstance(each, bytes)]
        self.dtypes = [*dtypes, *(launch.variables[i].dtype for i in launch.variables)]
        self.left = [*buffers, *variables.values()]
        pairs = zip(self.left, [*before, *launch.variables.values()], strict=True)
        if all((a == b.view("u1").ravel()).all() for a, b in pairs):
            raise HostError("changes nothing")
        self.spread = [np.zeros(len(a) // dtype.itemsize) for a, dtype in zip(self.left, self.dtypes, strict=True)]
        for schedule in (BACKWARDS, AT_RANDOM):
            self._widen(run(program, index, launch, schedule)[:2], is_order=True)
        for seed in (1, 2):
            self._widen(run(program, index, disturbed(launch, seed), FORWARDS)[:2], is_order=False)

    def _widen(self, left: Left, is_order: bool) -> None:
        others = [*left[0], *left[1].values()]
        for spread, mine, other, dtype in zip(self.spread, self.left, others, self.dtypes, strict=True):
            differ = mine.view(dtype) != other.view(dtype)
            if not differ.any():
                continue
            a, b = (each.view(dtype)[differ].astype("f8") for each in (mine, other))
            with np.errstate(all="ignore"):
                distance = np.where(np.isnan(a) & np.isnan(b), 0, np.abs(a - b))
            if is_order and dtype.kind != "f" and distance.any():
                raise HostError("depends on the order of its threads")
            scale = np.abs(a[np.isfinite(a)]).max(initial=1e-30)
            if is_order and (np.isnan(distance).any() or distance.max() > 1e-3 * scale):
                raise HostError("depends on the order of its threads")
            spread[differ] = np.fmax(spread[differ], np.nan_to_num(distance, nan=np.inf))

    def difference(self, there: list[np.ndarray]) -> tuple[str, str]:
        """Return "exact", "rounding" or "differs", and how."""
        result = "exact", ""
        worst = 0.0
        arrays = zip(self.left, there, self.dtypes, self.spread, strict=True)
        for number, (mine, other, dtype, spread) in enumerate(arrays):
            x, y = mine.view(dtype), other.view(dtype)
            different = (x != y) & ~((x != x) & (y != y))
            if not different.any():
                continue
            a, b = x[different].astype("f8"), y[different].astype("f8")
            if dtype.kind == "f":
                with np.errstate(all="ignore"):
                    of_a = 32 * float(np.finfo(dtype).eps) * np.abs(a) + float(np.finfo(dtype).tiny)
                    allowed = 16 * spread[different] + of_a
                    outside = ~(np.abs(a - b) <= allowed)
                    worst = max(worst, float(np.nanmax(np.abs(a - b) / np.abs(a), initial=0)))
            else:
                outside = spread[different] == 0
            if outside.any():
                i = np.flatnonzero(different)[outside][0]
                where = f"{outside.sum()} of {len(x)} in array {number} ({dtype}), [{i}]"
                return "differs", f"{where}: host {x[i]}, device {y[i]}"
            result = "rounding", f"{worst:.1e}"
        return result


class Compared:
    """The kernels of a program."""

    def __init__(self, clang: Clang, source: str, expressions: list[str], wanted: set[str]) -> None:
        self.made: CppProgram = compile_hip(clang, source, "k.hip", {}, split_options(OPTIONS), expressions)
        by_symbol = {kernel.symbol: kernel for kernel in self.made.kernels}
        self.kernels: list[tuple[str, str, KernelInfo]] = []  # name, expression, description
        for expression in expressions:
            name = re.split(r"[<]", expression)[0].split("::")[-1].strip()
            self.kernels.append((name, expression, by_symbol[self.made.lowered[expression]]))
        templates = {name for name, _, _ in self.kernels}
        for item in items(source):
            fitting = [kernel for kernel in self.made.kernels if kernel.name == item.name]
            if item.kind == "kernel" and item.name not in templates and len(fitting) == 1:
                templates.add(item.name)
                self.kernels.append((item.name, item.scope + item.name, fitting[0]))
        self.kernels = [each for each in self.kernels if each[0] in wanted]
        self.source, self.clang = source, clang
        self.variables = [each for each in self.made.variables if "*" not in each.type_name]

    def host(self) -> HostProgram:
        names = [each.name for each in self.variables]
        return HostProgram(self.clang, self.source, [expression for _, expression, _ in self.kernels], names)

    def references(self, program: HostProgram, index: int) -> tuple[list[tuple[Launch, Reference]], str]:
        """Return the launches of a kernel that can be compared, or why there is none."""
        kernel = self.kernels[index][2]
        if kernel.follows:
            return [], "pointers in memory"
        if index not in program.has:
            return [], "no host: the kernel's name"
        values = [(i, each.type_name, np.zeros(each.nbytes, "u1")) for i, each in enumerate(self.variables)]
        values = [(i, type_name, initial(program, i, data)) for i, type_name, data in values if program.has_variables]
        found, reasons = [], []
        for _, launch, dtypes in launches(kernel, self.source, values):
            try:
                found.append((launch, Reference(program, index, launch, dtypes)))
            except HostError as error:
                reasons.append(str(error))
            if len(found) == LAUNCHES or reasons.count(ENDLESS) == 2:
                break
        return found, max(set(reasons), key=reasons.count) if reasons else ""


def initial(program: HostProgram, index: int, data: np.ndarray) -> np.ndarray:
    """Return the bytes that a variable begins with."""
    ctypes.memmove(data.ctypes.data, address_of(program, index), data.nbytes)
    return data


def on_device(
    queue: fb.Queue, program: fb.Program, kernel: KernelInfo, launch: Launch, symbols: list[str]
) -> list[np.ndarray]:
    """Return what a launch leaves in its buffers and in the variables."""
    device = queue.device
    for i, data in launch.variables.items():
        queue.copy(program.get_global(symbols[i]).view("u1"), data.view("u1").ravel())
    arguments = []
    for parameter, argument in zip(kernel.parameters, launch.arguments, strict=True):
        if isinstance(argument, bytes):
            scalar = re.fullmatch(r"u?(?:char|short|int|long)|float|double", parameter.type_name)
            value = np.frombuffer(argument, SCALARS[parameter.type_name])[0] if scalar else argument[: parameter.nbytes]
            arguments.append(value)
        else:
            arguments.append(device.array(argument.view("u1").ravel()))
    local = [fb.local(launch.shared)] if kernel.dynamic_shared else []
    queue.launch(program[kernel.symbol], launch.grid, launch.block, *arguments, *local)
    queue.finish()
    left = [each.get() for each in arguments if isinstance(each, fb.Buffer)]
    return left + [program.get_global(symbols[i]).view("u1").get() for i in launch.variables]


def say(name: str, state: str, why: str = "", **more: object) -> None:
    print(json.dumps({"kernel": name, "state": state, "why": why, **more}), flush=True)


def main() -> None:
    given = json.load(sys.stdin)
    clang, _ = find_clang()
    assert clang is not None
    wanted = {name for name, _ in given["kernels"]}
    compared = Compared(clang, given["source"], given["expressions"], wanted)
    try:
        host = compared.host()
    except HostError as error:
        for name, _, _ in compared.kernels:
            say(name, "no host", str(error))
        return
    found = [compared.references(host, index) for index in range(len(compared.kernels))]
    with fb.Device(private=True) as device:
        queue = device.queue()
        symbols = [each.symbol for each in compared.variables]
        for (name, _, kernel), (references, why) in zip(compared.kernels, found, strict=True):
            if not references:
                say(name, "set aside", why)
                continue
            program = device.program(compared.made.code)
            states = []
            for launch, reference in references:
                try:
                    left = on_device(queue, program, kernel, launch, symbols)
                except fb.Error as error:
                    states.append(("refused", str(error)[:300], reference.flags))
                else:
                    states.append((*reference.difference(left), reference.flags))
            rank = ["exact", "rounding", "refused", "differs"]
            state, how, flags = max(states, key=lambda each: rank.index(each[0]))
            say(name, state, how, flags=flags, launches=len(states), bad=[each[0] for each in states])


if __name__ == "__main__":
    main()
