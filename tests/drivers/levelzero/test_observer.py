"""The observer finds each mistake that null hardware hides: see `mistakes`, whose tests these are."""

import pytest

from .children import pytest_of_its_own


@pytest.mark.needs("null hardware", "no validation layer")
def test_each_mistake_is_found():
    """What its tests do to the driver hits no others."""
    done = pytest_of_its_own("mistakes.py", devices=2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
