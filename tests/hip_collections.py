"""Compile the files of a public collection of HIP or CUDA programs as they are, and say why some do not compile.

    git clone https://github.com/ROCm/rocHPL
    python -m tests.hip_collections rocHPL --include include
    python -m tests.hip_collections ggml/src/ggml-cuda --include ../../include --include ..
    python -m tests.hip_collections HIP-Examples --architecture 9.0      # by NVRTC, without a GPU

Each file that defines a kernel goes to `hiprtc` whole, with the folders and macros of its build. The compiler leaves
out code of the host that does not compile. Nothing is loaded or run. The exit status is 1 when less than `--at-least`
of the files compile.
"""

from __future__ import annotations

import collections
import os
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import click

from forebay import hiprtc
from forebay.compiler.by_driver import compile_by_driver
from forebay.compiler.options import split_options
from forebay.compiler.program import Source
from forebay.core.errors import BuildError
from forebay.queues.cuda.nvrtc import NvrtcCompiler

SOURCES = (".cu", ".hip", ".cpp", ".cc", ".cxx", ".C")
ERROR = re.compile(r"^[^\n]*?(?:fatal |catastrophic )?error: (.*)$", re.MULTILINE)


def log_of(options: list[str], architecture: str | None, path: Path) -> str | None:
    """Compile a file; return the log if it does not compile, else None."""
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    words = [*options, f"-I{path.parent}"]
    if architecture:
        major, minor = map(int, architecture.split("."))
        try:
            compile_by_driver(NvrtcCompiler((major, minor), 99000), Source(text, str(path), {}, split_options(words)))
        except BuildError as error:
            return error.log
        return None
    _, program = hiprtc.hiprtcCreateProgram(text.encode(errors="surrogateescape"), os.fsencode(path), 0, [], [])
    (status,) = hiprtc.hiprtcCompileProgram(program, len(words), [word.encode() for word in words])
    log = bytearray(hiprtc.hiprtcGetProgramLogSize(program)[1])
    hiprtc.hiprtcGetProgramLog(program, log)
    hiprtc.hiprtcDestroyProgram(program)
    return log.rstrip(b"\0").decode(errors="replace") if int(status) else None


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--include", multiple=True, help="A folder to look for headers in, below FOLDER or beside it.")
@click.option(
    "--option", multiple=True, default=["-std=c++17"], help="An option of the compiler, such as -DENABLE_HIP."
)
@click.option("--architecture", help="Compile by NVRTC for this compute capability, such as 9.0.")
@click.option("--only", default="", help="Only files whose path has this in it.")
@click.option("--processes", default=os.cpu_count(), show_default=True, help="Side by side.")
@click.option("--at-least", type=float, default=80, show_default=True, help="Percent of the files that must compile.")
def main(
    folder: Path, include: tuple[str, ...], option: tuple[str, ...], architecture: str | None, only: str,
    processes: int, at_least: float,
) -> None:  # fmt: skip
    """Compile the HIP and CUDA programs below FOLDER, each file as it is."""
    paths = [path for path in sorted(folder.rglob("*")) if path.suffix in SOURCES and path.is_file()]
    paths = [path for path in paths if only in str(path) and "__global__" in path.read_text(errors="replace")]
    options = [f"-I{os.path.normpath(folder / each)}" for each in include] + [*option]
    causes: collections.Counter[str] = collections.Counter()
    with ProcessPoolExecutor(processes) as pool:
        for path, log in zip(paths, pool.map(partial(log_of, options, architecture), paths), strict=True):
            if log is not None:
                found = ERROR.search(log)
                why = found[1] if found else log[-160:]
                causes[why] += 1
                print(f"{path.relative_to(folder)}: {why[:200]}", flush=True)
    print(*(f"{count:4}  {why[:200]}" for why, count in causes.most_common(12)), sep="\n")
    good = len(paths) - causes.total()
    print(f"{good} of {len(paths)} files compile")
    sys.exit(0 if paths and 100 * good >= at_least * len(paths) else 1)


if __name__ == "__main__":
    main()
