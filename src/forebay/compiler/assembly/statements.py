"""Statements of assembly in a program, replaced by C++ that does the same where every instruction is a known one.

Others stay, and the compiler refuses them with their line. Lines stay where they are.
"""

from __future__ import annotations

import ast
import re

from forebay.compiler.assembly.ptx import UnknownInstructionError, statements_of

__all__ = ["without_assembly"]

BEGIN = re.compile(r"\b(?:asm|__asm__|__asm)\b(?:\s|\\\n)*(?:(?:volatile|__volatile__|__volatile)(?:\s|\\\n)*)?\(")
LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"')
QUIET = re.compile(r"//[^\n]*|/\*.*?\*/|R\"(\w*)\(.*?\)\1\"|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)+'", re.DOTALL)
OPERAND = re.compile(r'\s*(?:\[(\w+)\]\s*)?"([^"]*)"\s*\((.*)\)\s*', re.DOTALL)


def without_assembly(source: str) -> str:
    """Return a source whose statements of assembly are C++, as far as they can be."""
    if "asm" not in source:
        return source
    source = source.replace("\r\n", "\n")
    bare = QUIET.sub(lambda found: re.sub(r"[^\n]", "\0", found[0]), source)
    made, at = [], 0
    for found in BEGIN.finditer(bare):
        end = _closing(bare, found.end() - 1)
        text = source[found.end() : end - 1]
        try:
            statement = _statement(text, bare[found.end() : end - 1])
        except (UnknownInstructionError, IndexError, KeyError, ValueError, SyntaxError):
            continue
        whole = source[found.start() : end]
        newline = "\\\n" if "\\\n" in whole else "\n"
        made += [source[at : found.start()], statement, newline * whole.count("\n")]
        at = end
    return "".join([*made, source[at:]])


def _statement(text: str, bare: str) -> str:
    sections = _split(text, bare, ":")
    literals = LITERAL.findall(sections[0])
    if LITERAL.sub("", sections[0]).replace("\\\n", "").strip() or not literals:
        raise UnknownInstructionError(sections[0])
    template = "".join(ast.literal_eval(each) for each in literals)
    operands: list[str] = []
    named: dict[str, str] = {}
    declared = []
    for section in sections[1:3]:
        for part in _split(section, QUIET.sub(lambda found: "\0" * len(found[0]), section), ","):
            found = OPERAND.fullmatch(part.replace("\\\n", " "))
            if not found:
                if part.strip():
                    raise UnknownInstructionError(part)
                continue
            name, constraint, expression = found.groups()
            variable = f"__o{len(operands)}"
            is_output = constraint[:1] in "=+"
            declared.append(f"auto{'&' * is_output} {variable} = {expression};")
            operands.append(variable)
            if constraint.isdigit():  # the same register as an output's
                declared.append(f"{operands[int(constraint)]} = {variable};")
            if name:
                named[name] = variable
    template = template.replace("%%", "%")

    def operand(word: str) -> str | None:
        if match := re.fullmatch(r"%(\d+)", word):
            return operands[int(match[1])]
        if match := re.fullmatch(r"%\[(\w+)\]", word):
            return named[match[1]]
        return None

    return f"do {{ {' '.join([*declared, *statements_of(template, operand)])} }} while (0)"


def _split(text: str, bare: str, by: str) -> list[str]:
    """What a sign parts, outside of brackets and literals; two colons are two signs."""
    depth, parts, at = 0, [], 0
    for place, sign in enumerate(bare):
        depth += (sign in "([{") - (sign in ")]}")
        if sign == by and not depth:
            parts.append(text[at:place])
            at = place + 1
    return [*parts, text[at:]]


def _closing(bare: str, start: int) -> int:
    depth = 0
    for place in range(start, len(bare)):
        depth += (bare[place] == "(") - (bare[place] == ")")
        if not depth:
            return place + 1
    return len(bare)
