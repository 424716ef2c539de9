"""The preprocessor of HIP C++, which is pcpp's; what it leaves is cut into tokens.

The translator has to see what macros expand to, or it would not know what a pointer in a macro points to. pcpp is a
C99 preprocessor in pure Python, and comes with the extra ``hip``. It sees the headers given to ``hiprtcCreateProgram``
and the options ``-D``, ``-U`` and ``-I``.
"""

from __future__ import annotations

import io
import os
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pcpp

from forebay.hip_cpp.errors import Place, RefusedError
from forebay.hip_cpp.tokens import Token, belong, directive_tokens, tokens_of
from forebay.queues.kernels.source_files import FileRefusedError, check_file

__all__ = ["preprocess"]

# What these declare is built in, as it is for hiprtc.
KNOWN_HEADERS = re.compile(
    r"hip/.*|(math|stdint|stddef|stdio|float|limits|stdbool)\.h|c(math|stdint|stddef|stdio|float|limits)"
)
# As hiprtc has them, less those of AMD's and NVIDIA's hardware.
PREDEFINED = (
    "__cplusplus 201703L",
    "__HIP__ 1",
    "__HIPCC__ 1",
    "__HIPCC_RTC__ 1",
    "__HIP_DEVICE_COMPILE__ 1",
    "__FOREBAY__ 1",
)

# Where the headers of a program are, for pcpp: a folder that nobody has.
HEADERS = os.path.abspath(os.path.join(os.sep, "headers of the program"))

_lock = threading.Lock()


class Preprocessor(pcpp.Preprocessor):  # type: ignore[misc]  # pcpp has no type information
    """pcpp that takes headers from a mapping and raises what it would have printed."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        super().__init__()
        self.headers: dict[str, str] = {
            os.path.join(HEADERS, os.path.normpath(name)): text for name, text in headers.items()
        }
        self.add_path(HEADERS)
        self.line_directive = "#line"
        self.compress = 0

    def next_token(self) -> Any:
        """Return the next token, None at the end."""
        try:
            return self.token()
        except RefusedError:
            raise
        except Exception as error:  # pcpp indexes lists that a wrong directive leaves empty
            directive = self.lastdirective
            place = Place(shown(directive.source), directive.lineno) if directive else Place("", 0)
            raise RefusedError(f"a wrong directive or use of a macro ({error})", place) from None

    def on_error(self, file: str, line: int, msg: str) -> None:
        """Raise instead of printing."""
        raise RefusedError(msg, Place(shown(file), line))

    def on_include_not_found(self, is_malformed: bool, is_system_include: bool, curdir: str, includepath: str) -> None:
        """Leave out what is built in; anything else is an error."""
        if not is_malformed and KNOWN_HEADERS.fullmatch(includepath):
            raise pcpp.OutputDirective(pcpp.Action.IgnoreAndRemove)
        what = "malformed #include" if is_malformed else f"#include of {includepath!r}, which is not among the headers"
        raise RefusedError(what, Place(shown(self.lastdirective.source), self.lastdirective.lineno))

    def on_directive_handle(self, directive: Any, toks: Any, ifpassthru: Any, precedingtoks: Any) -> Any:
        """Stop at #error and at directives nobody knows."""
        if directive.value == "error":
            raise RefusedError(
                "#error " + "".join(tok.value for tok in toks), Place(shown(directive.source), directive.lineno)
            )
        return super().on_directive_handle(directive, toks, ifpassthru, precedingtoks)

    def on_unknown_macro_in_defined_expr(self, tok: Any) -> bool:
        """Not defined."""
        return False

    def on_unknown_macro_in_expr(self, ident: str) -> int:
        """Zero, as in C."""
        return 0

    def on_unknown_macro_function_in_expr(self, ident: str) -> Any:
        """Zero, as for __has_feature and its like."""
        return lambda _: 0

    def on_file_open(self, is_system_include: bool, includepath: str) -> Any:
        """Prefer the headers that came with the program."""
        if includepath.startswith(HEADERS):
            if includepath not in self.headers:
                raise FileNotFoundError(includepath)
            return io.StringIO(self.headers[includepath])
        try:
            check_file(includepath)
        except FileRefusedError as error:
            place = Place(shown(self.lastdirective.source), self.lastdirective.lineno)
            raise RefusedError(f"#include: {error}", place) from None
        return super().on_file_open(is_system_include, includepath)


def preprocess(
    source: str, file: str, options: Sequence[str] = (), headers: Mapping[str, str] | None = None
) -> list[Token]:
    """Expand macros and includes, and return the tokens that are left.

    Parameters
    ----------
    options
        ``-DNAME``, ``-DNAME=value``, ``-UNAME`` and ``-Ifolder``.

    Raises
    ------
    RefusedError
        If a directive is wrong.
    """
    with _lock:  # pcpp's lexer has state of its own
        return _preprocess(source, file, options, headers or {})


def _preprocess(source: str, file: str, options: Sequence[str], headers: Mapping[str, str]) -> list[Token]:
    """Expand macros and includes, one program after the other."""
    preprocessor = Preprocessor(headers)
    for macro in PREDEFINED:
        preprocessor.define(macro)
    for option in options:
        if option.startswith("-D"):
            name, _, value = option[2:].partition("=")
            preprocessor.define(f"{name} {value}" if "=" in option else f"{name} 1")
        elif option.startswith("-U"):
            preprocessor.undef(option[2:])
        else:
            preprocessor.add_path(option[2:])
    preprocessor.parse(source, file)
    return collected(preprocessor, file)


def collected(preprocessor: Preprocessor, file: str) -> list[Token]:
    """Return the tokens that the preprocessor gives.

    Not by way of its text: there it writes two minus signs that macros bring together as one operator.
    """
    tokens: list[Token] = []
    place = Place(file, 1)
    run, run_place, run_end, run_macros = "", place, -1, []  # type: tuple[str, Place, int, list[str]]
    line_begins = True
    directive: list[str] | None = None
    while (token := preprocessor.next_token()) is not None:
        text = str(token.value)
        place = Place(shown(token.source) or file, token.lineno)
        if not text.strip():
            if directive is not None and "\n" not in text:
                directive.append(" ")
            tokens.extend(tokens_of(run, run_place))
            run = ""
            if "\n" in text:
                if directive is not None:
                    tokens.extend(directive_tokens("".join(directive), place))
                    directive = None
                line_begins = True
            continue
        if directive is not None:
            directive.append(text)
        elif line_begins and text == "#":
            directive = []
        elif run and token.lexpos == run_end and token.expanded_from == run_macros and belong(run, text):
            run, run_end = run + text, run_end + len(text)  # pcpp cuts 1.5e-3f into six
        else:
            tokens.extend(tokens_of(run, run_place))
            run, run_place, run_end, run_macros = text, place, token.lexpos + len(text), token.expanded_from
        line_begins = False
    tokens.extend(tokens_of(run, run_place))
    tokens.append(Token("end", "the end of the file", place))
    return tokens


def shown(file: str | None) -> str:
    """Return the name of a file as the program has it: pcpp shows the folder of the headers, too."""
    return (file or "").rpartition(f"{os.path.basename(HEADERS)}/")[2]
