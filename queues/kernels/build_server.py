"""The process in which drivers build SPIR-V; `build` starts it and asks."""

from __future__ import annotations

import importlib
import os
import resource
import select
import sys
import threading
import time
from typing import Any

from forebay.core import errors
from forebay.queues.kernels.build import ACCEPTED, UNAVAILABLE, receive, send

__all__ = ["serve"]

IDLE = 60.0  # seconds without a program after which the process ends


def serve() -> None:
    """Build what is asked for on the standard input until that ends, or nothing comes for a while."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a driver prints is no answer
    requests = sys.stdin.buffer
    threading.Thread(target=_end_with_parent, args=(requests.fileno(),), daemon=True).start()
    while select.select([requests], [], [], IDLE)[0]:
        try:
            seconds, worker, *program = receive(requests)
        except EOFError:
            return
        _limit(seconds)
        send(answers, ACCEPTED)
        send(answers, _built(worker, program))


def _limit(seconds: int) -> None:
    """End this process (SIGXCPU) when the next build has taken so much processor time."""
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    wanted = int(time.process_time()) + seconds
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def _end_with_parent(requests: int) -> None:
    """End this process when the one that asks has ended, also in the middle of a build, which may take for ever."""
    poll = select.poll()
    poll.register(requests, 0)  # it tells of nothing but the other end
    poll.poll()
    os._exit(0)


def _built(worker: str, program: list[Any]) -> tuple[Any, ...]:
    try:
        return ("built", importlib.import_module(worker).build(*program))
    except (errors.DeviceNotFoundError, ImportError) as error:
        return (UNAVAILABLE, str(error))
    except errors.BuildError as error:
        return ("BuildError", str(error), error.log)
    except errors.Error as error:
        return (type(error).__name__, str(error))
    except Exception as error:  # a driver's, which may not be known where it is unpickled
        return ("BuildError", f"{type(error).__name__}: {error}", str(error))
