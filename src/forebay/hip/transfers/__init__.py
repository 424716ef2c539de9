"""Copies, memsets and the variables of modules."""

from forebay.hip.transfers import array_copies, arrays, copies, formats, memsets, params, symbols, volumes
from forebay.hip.transfers.array_copies import *  # noqa: F403
from forebay.hip.transfers.arrays import *  # noqa: F403
from forebay.hip.transfers.copies import *  # noqa: F403
from forebay.hip.transfers.formats import *  # noqa: F403
from forebay.hip.transfers.memsets import *  # noqa: F403
from forebay.hip.transfers.params import *  # noqa: F403
from forebay.hip.transfers.symbols import *  # noqa: F403
from forebay.hip.transfers.volumes import *  # noqa: F403

_PARTS = (array_copies, arrays, copies, formats, memsets, params, symbols, volumes)
__all__ = sorted({name for part in _PARTS for name in part.__all__})
