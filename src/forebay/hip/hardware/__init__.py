"""What devices are like and how they are connected; contexts, which are devices under another name."""

from forebay.hip.hardware import attributes, contexts, limits, peers, properties
from forebay.hip.hardware.attributes import *  # noqa: F403
from forebay.hip.hardware.contexts import *  # noqa: F403
from forebay.hip.hardware.limits import *  # noqa: F403
from forebay.hip.hardware.peers import *  # noqa: F403
from forebay.hip.hardware.properties import *  # noqa: F403

__all__ = sorted({name for part in (attributes, contexts, limits, peers, properties) for name in part.__all__})
