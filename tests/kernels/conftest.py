import os
from unittest import mock

import pytest


@pytest.fixture
def own_cache(tmp_path):
    """The folder of a disk cache that only this test has."""
    with mock.patch.dict(os.environ, FOREBAY_CACHE=str(tmp_path)):
        os.environ.pop("FOREBAY_NO_CACHE", None)
        yield tmp_path
