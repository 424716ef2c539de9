"""Functions that are made from a name: those that no device here can do, and those that end in ``_spt``.

Of the first each returns hipErrorNotSupported, and `last_exception` says why. They are there so that a program may ask,
as programs of HIP do, and go on otherwise. The null stream of the others is the thread's own, `hipStreamPerThread`: C's
compiler option -fgpu-default-stream=per-thread puts them in the place of the functions without ``_spt``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from forebay.hip.compiled.calls import is_null
from forebay.hip.errors import OK, HipError, Result, api
from forebay.hip.facts import FACTS, hipError_t
from forebay.hip.streams import hipStreamPerThread, hipStreamSynchronize


class Subject(NamedTuple):
    """Functions that cannot be for one reason, the other way where there is one, and how many outputs each has."""

    name: str
    reason: str
    instead: str
    outputs: dict[str, int]

    def refusal(self, name: str) -> Callable[..., Result]:
        """Return the function of this name."""
        instead = f"; instead: {self.instead}" if self.instead else ""

        def refuse(*args: Any, **kwargs: Any) -> None:
            raise HipError(hipError_t.hipErrorNotSupported, f"{name}: {self.reason}{instead}")

        refuse.__name__ = refuse.__qualname__ = name
        nones = ", None" * self.outputs[name]
        refuse.__doc__ = (
            f"Return ``(hipErrorNotSupported{nones or ','})``: {self.reason}{instead}.\n\n"
            "Takes any arguments, and does not block."
        )
        return api(self.outputs[name])(refuse)


SUBJECTS = [Subject(**facts) for facts in FACTS["unavailable"]]


def unavailable() -> dict[str, Callable[..., Result]]:
    """Return the functions by name."""
    return {name: subject.refusal(name) for subject in SUBJECTS for name in subject.outputs}


# -- the thread's own null stream


def _per_thread(name: str, functions: Mapping[str, Callable[..., Result]], blocks: bool) -> Callable[..., Result]:
    function, does = functions[name], functions[f"{name}Async" if blocks else name]
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Result:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if is_null(bound.arguments.get("stream")):
            bound.arguments["stream"] = hipStreamPerThread
        result = does(**bound.arguments)
        return hipStreamSynchronize(hipStreamPerThread) if blocks and result[0] == OK else result

    call.__doc__ = f"""Do what `{name}` does, with `hipStreamPerThread` for the null stream.{
        " Blocks until it is done." if blocks else ""
    }

    {", ".join(f"`{each}`" for each in signature.parameters)} and the codes as there."""
    call.__name__ = call.__qualname__ = f"{name}_spt"
    return call


def per_thread(functions: Mapping[str, Callable[..., Result]]) -> dict[str, Callable[..., Result]]:
    """Return these functions by name, made from those of HIP. Each that blocks does what its Async variant does."""
    named = [(f"hip{each}", kind == "blocking") for kind, names in FACTS["per thread"].items() for each in names]
    return {f"{name}_spt": _per_thread(name, functions, blocks) for name, blocks in named}
