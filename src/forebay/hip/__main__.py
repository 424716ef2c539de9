"""``python -m forebay.hip PROGRAM ARGUMENTS``: Python, with forebay as `hip` and `rocm.bindings`."""

from __future__ import annotations

import os
import sys

from forebay.hip.stand_in import FOLDER

USAGE = """usage: python -m forebay.hip PROGRAM [ARGUMENT ...]
       python -m forebay.hip -m MODULE [ARGUMENT ...]

Run a Python program that was written for AMD's hip-python as it is: `import hip` and `import rocm.bindings.hip` give
forebay, also in the processes that it starts. Anything else is as with `python PROGRAM`, whose options may precede it.
`forebay hip` prints what there is of HIP, and `forebay devices` the devices."""


def options_of(command: list[str], arguments: int) -> list[str]:
    """Return Python's own options in a command line ``python OPTIONS -m forebay.hip ARGUMENTS``."""
    *options, name = command[1 : len(command) - arguments]
    if name == "forebay.hip":
        name = options.pop() + name
    last = name.removesuffix("mforebay.hip")  # of -Bm, B stays
    return options if last == "-" else [*options, last]


def main() -> None:
    """Replace this process by Python with the same options, and with `FOLDER` first in PYTHONPATH."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, file=sys.stdout if arguments else sys.stderr)
        sys.exit(0 if arguments else 2)
    options = options_of(sys.orig_argv, len(arguments))
    if sys.flags.ignore_environment:
        sys.exit("python -m forebay.hip sets PYTHONPATH, which the options -E and -I of Python ignore: leave them out")
    path = [FOLDER, *filter(None, [os.environ.get("PYTHONPATH")])]
    os.execve(
        sys.executable, [sys.executable, *options, *arguments], os.environ | {"PYTHONPATH": os.pathsep.join(path)}
    )


if __name__ == "__main__":
    main()
