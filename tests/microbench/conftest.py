"""The statistics need SciPy, which not every environment of the tests has."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("scipy") else ["test_bench.py"]
