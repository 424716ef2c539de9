"""The functions that no device here can do. Each returns hipErrorNotSupported, and `last_exception` says why.

They are there so that a program may ask, as programs of HIP do, and go on otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from forebay.hip.errors import HipError, Result, api
from forebay.hip.facts import FACTS, hipError_t


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
