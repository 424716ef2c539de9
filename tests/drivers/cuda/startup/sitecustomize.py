"""Python imports this first in each process that a test on the stand-in starts: there, CUDA is the stand-in as well."""

from tests.drivers.cuda import standing_in

standing_in.begin()
