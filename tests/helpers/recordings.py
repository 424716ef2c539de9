"""The recordings of the tests' observer, in the place of those that OpenCL's driver has not."""

from contextlib import contextmanager


@contextmanager
def recordings_installed(sparing, branches=False):
    """Give steps, and graphs if they branch, recordings until the block ends, which must not misuse them.

    Changes of the sparing ones do not concern what runs, as in CUDA.
    """
    from forebay.queues.opencl import operations
    from tests.observers import recordings

    misused = recordings.counts()[0]
    recordings.install(operations.TABLE, sparing, branches)
    try:
        yield recordings
    finally:
        recordings.uninstall()
    assert recordings.counts()[0] == misused, "a recording was used as it must not be"
