"""What notebooks show, and other packages' names."""

from forebay.queues.interop import names, notebooks  # noqa: F401 - they add names
