"""What functions are like, other ways to launch them, and what no device here can do."""

from forebay.hip.functions import attributes, launches, libraries, occupancy, per_thread, unavailable, vectors
from forebay.hip.functions.attributes import *  # noqa: F403
from forebay.hip.functions.launches import *  # noqa: F403
from forebay.hip.functions.libraries import *  # noqa: F403
from forebay.hip.functions.occupancy import *  # noqa: F403
from forebay.hip.functions.per_thread import *  # noqa: F403
from forebay.hip.functions.unavailable import *  # noqa: F403
from forebay.hip.functions.vectors import *  # noqa: F403

_PARTS = (attributes, launches, libraries, occupancy, per_thread, unavailable, vectors)
__all__ = sorted({name for part in _PARTS for name in part.__all__})
