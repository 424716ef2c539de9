"""What notebooks show, other packages' names, and what arrays of theirs can do."""

from forebay.queues.interop import names, notebooks, operators  # noqa: F401 - they add names
