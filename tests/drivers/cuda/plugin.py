"""A plugin of pytest: in the whole run, and in processes that tests start, CUDA is the stand-in of `standin.hpp`.

``FOREBAY_DEVICE=cuda python -m pytest -p tests.drivers.cuda.plugin tests/ordering`` runs those tests on it.
"""

import os
from pathlib import Path

from . import standing_in

HERE = Path(__file__).parent

standing_in.begin()
os.environ["PYTHONPATH"] = f"{HERE / 'startup'}{os.pathsep}{HERE.parents[2]}"
