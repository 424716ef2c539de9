"""A plugin of pytest: in the whole run CUDA's driver is the stand-in of `standin.hpp`.

``FOREBAY_DEVICE=cuda python -m pytest -p tests.drivers.cuda.plugin tests/ordering`` runs those tests on it.
"""

from . import standing_in

standing_in.begin()
