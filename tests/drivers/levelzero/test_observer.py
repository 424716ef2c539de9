"""The observer finds each mistake that null hardware hides. The tests are in `mistakes`."""

import pytest

from .children import pytest_of_its_own


@pytest.mark.needs("null hardware", "no validation layer")
def test_each_mistake_is_found():
    """The tests run in a separate process, so that damage to the driver does not affect other tests."""
    done = pytest_of_its_own("mistakes.py", devices=2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
