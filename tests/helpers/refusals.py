"""The check that all tests of bad input share."""

import contextlib

import pytest

import forebay as fb


@contextlib.contextmanager
def refused(kind, builtin, *words):
    """The block must raise `kind`, which also derives from `builtin`, with a message that has all the words."""
    with pytest.raises(kind) as caught:
        yield
    assert isinstance(caught.value, fb.Error)
    assert isinstance(caught.value, builtin)
    for word in words:
        assert word in str(caught.value)
