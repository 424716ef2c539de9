"""The options of ``hiprtcCompileProgram``: what they are for clang, NVRTC and a compiler of OpenCL C."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from forebay.compiler.included import check_text

# Options of clang's driver that change nothing here: there is one architecture, and no host's code.
IGNORED = re.compile(
    r"--?(offload|gpu)-arch(itecture)?=.*|-m.*|-x|hip|--?cuda.*|--hip.*|--rocm-path=.*|--offload-.*|-pthread|-fPIC|-c"
    r"|-f(no-)?(hip-new-launch-api|gpu-rdc-.*|color-diagnostics|gpu-.*|hip-fp32-correctly-rounded-divide-sqrt)"
    r"|-nogpulib|-nogpuinc|--amdgpu.*|-mllvm=.*|-ferror-limit=.*|--gpu-max-threads-per-block=.*|-v|--save-temps|-save-temps.*"
)
FOR_FRONT_END = re.compile(
    r"-O[0123sz]?|-std=(c|gnu)\+\+\w+|-w|-W(?!l,|a,|p,).*|-pedantic"
    r"|-f(no-)?(exceptions|rtti|strict-aliasing|wrapv|inline|inline-functions|unroll-loops|char8_t|signed-char"
    r"|diagnostics-.*|caret-diagnostics|ms-extensions|relaxed-template-template-args|vectorize|slp-vectorize"
    r"|signed-zeros|finite-math-only|math-errno|trapping-math|associative-math|reciprocal-math|approx-func)"
    r"|-ftemplate-(depth|backtrace-limit)=\d+|-fconstexpr-(depth|steps)=\d+|-fbracket-depth=\d+"
)
# What the driver makes of these for its front end.
SPELLED_OUT: dict[str, tuple[str, ...]] = {
    "-O": ("-O1",),
    "-fexceptions": (),  # in code of the device there are none; code of the host beside it may name them
    "-fno-exceptions": (),
    "-frtti": (),
    "-fno-rtti": ("-fno-rtti",),
    "-ffinite-math-only": ("-menable-no-infs", "-menable-no-nans", "-ffinite-math-only"),
    "-fassociative-math": ("-mreassociate",),
    "-fapprox-func": ("-fapprox-func",),
    "-fmath-errno": (), "-fno-math-errno": (), "-ftrapping-math": (), "-fno-trapping-math": (),
    "-fsigned-zeros": (), "-fno-finite-math-only": (), "-fno-associative-math": (), "-fno-reciprocal-math": (),
    "-fno-approx-func": (), "-finline": (), "-fstrict-aliasing": (), "-fno-strict-aliasing": ("-relaxed-aliasing",),
    "-fno-wrapv": (), "-finline-functions": (), "-fno-inline-functions": ("-fno-inline-functions",),
    "-fvectorize": ("-vectorize-loops",), "-fslp-vectorize": ("-vectorize-slp",),
    "-fno-vectorize": (), "-fno-slp-vectorize": (), "-fsigned-char": (), "-fno-signed-char": ("-fno-signed-char",),
    "-frelaxed-template-template-args": (), "-fno-relaxed-template-template-args": (),
    "-fcaret-diagnostics": (), "-fno-ms-extensions": (),
}  # fmt: skip
FAST = ("-menable-no-infs", "-menable-no-nans", "-fapprox-func", "-funsafe-math-optimizations", "-fno-signed-zeros",
        "-mreassociate", "-freciprocal-math", "-ffast-math", "-ffinite-math-only")  # fmt: skip
UNSAFE = ("-fapprox-func", "-funsafe-math-optimizations", "-fno-signed-zeros", "-mreassociate", "-freciprocal-math")
FAST_MATH = {"-ffast-math", "--use_fast_math", "-use_fast_math"}

FOR_OPENCL = {
    "-O0": "-cl-opt-disable", "-ffast-math": "-cl-fast-relaxed-math", "--use_fast_math": "-cl-fast-relaxed-math",
    "-use_fast_math": "-cl-fast-relaxed-math", "-funsafe-math-optimizations": "-cl-unsafe-math-optimizations",
    "-ffinite-math-only": "-cl-finite-math-only", "-fno-signed-zeros": "-cl-no-signed-zeros",
    "-fhip-fp32-correctly-rounded-divide-sqrt": "-cl-fp32-correctly-rounded-divide-sqrt",
}  # fmt: skip
OLDER_STANDARD = re.compile(r"-std=(c|gnu)\+\+(?:98|03|0x|11|1y|14)$")
CONTRACTION = re.compile(r"-ffp-contract=(off|on|fast|fast-honor-pragmas)")
JOINED = ("-D", "-U", "-I")
SEPARATE = ("-include", "-isystem", "-idirafter", "-iquote")


@dataclass(frozen=True)
class Options:
    """Options, sorted by which compiler gets them."""

    macros: tuple[str, ...] = ()  # ``-D…``, ``-U…`` and ``-I…``, each one word: for all three
    includes: tuple[str, ...] = ()  # ``-include`` and its like, two words each: for clang
    # For clang: the standard of C++, the optimization, warnings. A precompiled header is good for one set of those that
    # begin with ``-std``, ``-O``, ``-f`` or ``-m``.
    front_end: tuple[str, ...] = ("-std=c++17", "-O2", "-ffp-contract=on")
    opencl: tuple[str, ...] = ()  # for a compiler of OpenCL C
    prelude: str = ""  # what goes before OpenCL C
    lines: bool = False  # whether the device's code tells lines of the source, for debuggers
    links: bool = False  # whether the program is to be linked with others: ``-fgpu-rdc``

    @property
    def folders(self) -> list[str]:
        """Where the program's files are looked for."""
        own = [word[2:] for word in self.macros if word.startswith("-I")]
        return own + [path for option, path in self._pairs if option != "-include"]

    @property
    def forced(self) -> list[str]:
        """The files that the program begins with."""
        return [path for option, path in self._pairs if option == "-include"]

    @property
    def begins_with(self) -> list[str]:
        """The lines that the program begins with: macros and files."""
        lines = []
        for word in self.macros:
            if word.startswith("-D"):
                macro, _, value = word[2:].partition("=")
                lines.append(f"#define {macro} {value if '=' in word else 1}")
            elif word.startswith("-U"):
                lines.append(f"#undef {word[2:]}")
        return lines + [f'#include "{path}"' for path in self.forced]

    @property
    def for_nvrtc(self) -> list[str]:
        """The options for NVRTC."""
        words = [self.front_end[0].replace("gnu++", "c++")]
        told = {"-ffast-math": "--use_fast_math", "-ffp-contract=off": "--fmad=false", "-w": "--disable-warnings"}
        words += [told[word] for word in self.front_end if word in told]
        return [*words, *(["--generate-line-info"] if self.lines else [])]

    @property
    def _pairs(self) -> list[tuple[str, str]]:
        return list(zip(self.includes[::2], self.includes[1::2], strict=True))


def split_options(words: Sequence[str]) -> Options:
    """Sort the options. Raises ValueError, naming an option that is unknown or lacks its argument."""
    macros: list[str] = []
    includes: list[str] = []
    opencl: list[str] = []
    standard, level, others = "-std=c++17", "-O2", list[str]()
    lines, links, contraction = False, False, True
    waiting = ""
    for word in map(str.strip, words):
        check_text("options", word, "surrogateescape")
        if waiting in SEPARATE:
            includes += [waiting, word]
            waiting = ""
            continue
        word, waiting = waiting + word, ""
        if word in JOINED or word in SEPARATE:
            waiting = word
        elif word[:2] in JOINED:
            macros.append(word)
        elif word.startswith("-cl-"):
            opencl.append(word)
        elif word in ("-fgpu-rdc", "-fno-gpu-rdc"):
            links = word == "-fgpu-rdc"
        elif word.startswith("-g") and not word.startswith("-gpu"):
            lines = word not in ("-g0", "-ggdb0")
        else:
            if word in FOR_OPENCL:
                opencl.append(FOR_OPENCL[word])
            word = re.sub(r"^--(?=std=|W)", "-", word)
            if found := CONTRACTION.fullmatch(word):
                contraction = found[1] != "off"
            elif word in FAST_MATH:
                others += FAST
            elif word == "-fno-fast-math":
                others = [other for other in others if other not in FAST]
            elif word == "-funsafe-math-optimizations":
                others += UNSAFE
            elif word.startswith("-std="):
                standard = OLDER_STANDARD.sub(r"-std=\1++17", word)  # the headers are C++17
            elif re.fullmatch(r"-O[0123sz]?", word):
                level = SPELLED_OUT.get(word, (word,))[0]
            elif FOR_FRONT_END.fullmatch(word):
                others += SPELLED_OUT.get(word, (word,))
            elif word and not IGNORED.fullmatch(word):
                raise ValueError(f"unknown option {word!r}")
    if waiting:
        raise ValueError(f"{waiting} without an argument")
    prelude = "" if contraction else "#pragma OPENCL FP_CONTRACT OFF\n#line 1\n"
    # "on": clang makes the operation itself. It leaves "fast" to the back end, which has it nowhere for SPIR-V.
    others.append("-ffp-contract=on" if contraction else "-ffp-contract=off")
    front_end = standard, level, *dict.fromkeys(others)
    return Options(tuple(macros), tuple(includes), front_end, tuple(opencl), prelude, lines, links)
