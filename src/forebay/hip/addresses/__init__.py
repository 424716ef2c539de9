"""What is known of memory and of pointers to it: attributes, hints, registered memory, pools, other processes."""

from forebay.hip.addresses import attributes, interprocess, managed, pools, registered
from forebay.hip.addresses.attributes import *  # noqa: F403
from forebay.hip.addresses.interprocess import *  # noqa: F403
from forebay.hip.addresses.managed import *  # noqa: F403
from forebay.hip.addresses.pools import *  # noqa: F403
from forebay.hip.addresses.registered import *  # noqa: F403

__all__ = sorted({name for part in (attributes, interprocess, managed, pools, registered) for name in part.__all__})
