"""Functions that are made from a name: those that no device here can do, and those that end in ``_spt``.

Of the first each returns hipErrorNotSupported, and `last_exception` says why. They are there so that a program may ask,
as programs of HIP do, and go on otherwise. The null stream of the others is the thread's own, `hipStreamPerThread`: C's
compiler option -fgpu-default-stream=per-thread puts them in the place of the functions without ``_spt``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from forebay.hip.compiled.calls import is_null
from forebay.hip.errors import OK, HipError, Result, api
from forebay.hip.facts import FACTS, hipError_t
from forebay.hip.streams import hipStreamPerThread, hipStreamSynchronize


@dataclass(frozen=True)
class Subject:
    """Functions with one reason.

    Attributes
    ----------
    name : str
    reason : str
        Why they cannot be.
    instead : str
        The other way; empty where there is none.
    outputs : dict
        How many values follow the code of each, by its name.
    """

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


def _with_stream(function: Callable[..., Result]) -> Callable[..., Result]:
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Result:
        bound = signature.bind(*args, **kwargs)
        if is_null(bound.arguments.get("stream")):
            bound.arguments["stream"] = hipStreamPerThread
        return function(*bound.args, **bound.kwargs)

    return call


def _blocking(function: Callable[..., Result], does: Callable[..., Result]) -> Callable[..., Result]:
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Result:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        result = does(*bound.args, stream=hipStreamPerThread)
        return hipStreamSynchronize(hipStreamPerThread) if result[0] == OK else result

    return call


def _named(made: Callable[..., Result], name: str, blocks: str) -> Callable[..., Result]:
    made.__doc__ = f"""Do what `{name}` does, with `hipStreamPerThread` for the null stream.{blocks}

    {", ".join(f"`{each}`" for each in inspect.signature(made).parameters)} and the codes as there."""
    made.__name__ = made.__qualname__ = f"{name}_spt"
    return made


def per_thread(functions: Mapping[str, Callable[..., Result]]) -> dict[str, Callable[..., Result]]:
    """Return these functions by name, made from those of HIP. Each that blocks does what its Async variant does."""
    made = {}
    for name in (f"hip{each}" for each in FACTS["per thread"]["in order"]):
        made[f"{name}_spt"] = _named(_with_stream(functions[name]), name, "")
    for name in (f"hip{each}" for each in FACTS["per thread"]["blocking"]):
        does = _blocking(functions[name], functions[f"{name}Async"])
        made[f"{name}_spt"] = _named(does, name, " Blocks until it is done.")
    return made
