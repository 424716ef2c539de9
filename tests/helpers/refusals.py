"""What every test of a bad input checks."""

import contextlib

import pytest

import forebay as ps


@contextlib.contextmanager
def refused(kind, builtin, *words):
    """What is done inside raises `kind`, which is also the built-in one, with a message that has all the words."""
    with pytest.raises(kind) as caught:
        yield
    assert isinstance(caught.value, ps.Error)
    assert isinstance(caught.value, builtin)
    for word in words:
        assert word in str(caught.value)
