"""HIP's graphs: handles, and the functions that make, ask and change nodes of each kind."""

from forebay.hip.graphs import event_nodes, handles, memory, node_params, nodes, params, symbols
from forebay.hip.graphs.event_nodes import *  # noqa: F403
from forebay.hip.graphs.handles import *  # noqa: F403
from forebay.hip.graphs.memory import *  # noqa: F403
from forebay.hip.graphs.node_params import *  # noqa: F403
from forebay.hip.graphs.nodes import *  # noqa: F403
from forebay.hip.graphs.params import *  # noqa: F403
from forebay.hip.graphs.symbols import *  # noqa: F403

_PARTS = (event_nodes, handles, memory, node_params, nodes, params, symbols)
__all__ = sorted({name for part in _PARTS for name in part.__all__})
