"""Print what extras of pyproject.toml require, but for forebay itself, a line each: .ci/requirements.py check,cpu"""

import re
import sys

from setuptools.compat.py310 import tomllib

with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
left, lines = sys.argv[1].split(","), [*project["dependencies"]]
while left:
    for line in project["optional-dependencies"][left.pop()]:
        own = re.fullmatch(r"forebay\[(.*)\]", line)
        left += own[1].split(",") if own else []
        lines += [] if own else [line]
print(*lines, sep="\n")
