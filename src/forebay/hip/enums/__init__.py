"""HIP's enumerations and constants, under their own names and with their own values (HIP 7.2)."""

from forebay.hip.enums.attributes import *  # noqa: F403
from forebay.hip.enums.devices import *  # noqa: F403
from forebay.hip.enums.launches import *  # noqa: F403
from forebay.hip.enums.memory import *  # noqa: F403
from forebay.hip.enums.runtime import *  # noqa: F403
from forebay.hip.enums.textures import *  # noqa: F403

__all__ = sorted(name for name in globals() if name.startswith(("hip", "HIP")))
