"""What ``import forebay`` offers: imported with the first use of a name, because NumPy and the rest take a while.

It also has Devices take HIP C++, and types say what other packages' names are called here.
"""

from forebay.core.driver import Language as _Language
from forebay.core.errors import *  # noqa: F403 - those that a program may catch
from forebay.core.stats import Stats as Stats
from forebay.events.event import Event as Event
from forebay.events.event import IpcEvent as IpcEvent
from forebay.expressions.elementwise import elementwise as elementwise
from forebay.expressions.reduction import reduction as reduction
from forebay.queues import interop as _interop  # noqa: F401 - it adds names
from forebay.queues.device import Device as Device
from forebay.queues.graphs.executable import ExecutableGraph as ExecutableGraph
from forebay.queues.graphs.graph import Graph as Graph
from forebay.queues.graphs.graph import Node as Node
from forebay.queues.graphs.step import Step as Step
from forebay.queues.host_functions import Gate as Gate
from forebay.queues.kernels import program as _program
from forebay.queues.kernels.kernel import Kernel as Kernel
from forebay.queues.kernels.parameters import Argument as Argument
from forebay.queues.kernels.parameters import MaxOver as MaxOver
from forebay.queues.kernels.parameters import MinOver as MinOver
from forebay.queues.kernels.parameters import SumOver as SumOver
from forebay.queues.kernels.program import Program as Program
from forebay.queues.launch.launch import BoundLaunch as BoundLaunch
from forebay.queues.launch.launch import by_value as by_value
from forebay.queues.launch.launch import local as local
from forebay.queues.launch.launch import null as _null
from forebay.queues.launch.results import Result as Result
from forebay.queues.launch.results import results as results
from forebay.queues.memory.allocation import host_empty as host_empty
from forebay.queues.memory.buffer import Buffer as Buffer
from forebay.queues.memory.pool import MemoryPool as MemoryPool
from forebay.queues.memory.shapes import StridedView as StridedView
from forebay.queues.queue import Launcher as Launcher
from forebay.queues.queue import Queue as Queue
from forebay.queues.selection import devices as devices
from forebay.races.reports import Race as Race
from forebay.tracing import trace as trace

NULL = _null


def _compile_cpp(device: Device, source: str, options: tuple[str, ...]) -> _program.Compiled:
    from forebay.hiprtc.front_end import compile_for_device  # imported late: most programs need no clang

    return compile_for_device(device, source, options)


_program.FRONT_ENDS[_Language.HIP_CPP] = _compile_cpp
