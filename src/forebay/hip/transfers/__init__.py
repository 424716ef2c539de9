"""Copies, memsets and the variables of modules."""

from forebay.hip.transfers import copies, memsets, params, symbols, volumes
from forebay.hip.transfers.copies import *  # noqa: F403
from forebay.hip.transfers.memsets import *  # noqa: F403
from forebay.hip.transfers.params import *  # noqa: F403
from forebay.hip.transfers.symbols import *  # noqa: F403
from forebay.hip.transfers.volumes import *  # noqa: F403

__all__ = sorted({name for part in (copies, memsets, params, symbols, volumes) for name in part.__all__})
