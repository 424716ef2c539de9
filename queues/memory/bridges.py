"""What other packages' objects become, by name. `forebay.queues.interop`, which knows these packages, fills it in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

bridges: dict[str, Callable[..., Any]] = {}
