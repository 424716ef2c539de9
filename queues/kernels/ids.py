"""Ids of kernels and of their tasks. They are computed from the program and are the same in every process.

A task is a distinct part of a kernel's launch, such as a reduction that sizes its scratch memory. Ids are 32-bit FNV-1a
hashes (Fowler, Noll, Vo; IETF draft-eastlake-fnv). Linear probing resolves collisions within a program. It depends on
the order in which ids are given, so the order is kept on disk.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable

from forebay.core.errors import InvalidArgumentError
from forebay.queues.kernels.cache import BinaryCache, key_of, reads_files

__all__ = ["Identities", "content_id", "identify"]

BITS = 32
OFFSET_BASIS = 0x811C9DC5
PRIME = 0x01000193


def content_id(program_digest: str, kernel_name: str, task_index: int = 0, *, bits: int = BITS) -> int:
    """Return the id of a task before any probing; task 0 is the kernel itself.

    Parameters
    ----------
    program_digest : str
        Digest of the program's content: a key of `key_of`.
    bits : int
        Fewer than 32 fold the hash, to test collisions.
    """
    value = OFFSET_BASIS
    for byte in f"{program_digest}\0{kernel_name}\0{task_index}".encode():
        value = (value ^ byte) * PRIME & 0xFFFFFFFF
    return (value >> bits ^ value) & (1 << bits) - 1


class Identities:
    """The ids of one program's kernels and their tasks, each given once. Any thread may ask.

    Ids are never 0. Kernels get ids in the order of their names, tasks in the order in which they are first asked for.
    The cache keeps the ids that a process has given, and the next process begins with them. A table from the cache is
    checked by giving its ids again; a wrong table is ignored and rewritten.

    Parameters
    ----------
    program_digest : str
        As for `content_id`.
    kernels : iterable of str
        The names of all kernels of the program.
    cache : BinaryCache, optional
        Nothing is kept without one.
    bits : int
        As for `content_id`.
    """

    def __init__(
        self, program_digest: str, kernels: Iterable[str], cache: BinaryCache | None = None, *, bits: int = BITS
    ) -> None:
        self._digest = program_digest
        self._kernels = sorted(set(kernels))
        self._bits = bits
        self._cache = cache
        self._key = key_of("identities", program_digest, str(bits), *self._kernels)
        self._lock = threading.Lock()
        self._ids: dict[tuple[str, int], int] = {}
        self._tasks: dict[int, tuple[str, int]] = {}
        kept = cache.get(self._key) if cache else None
        if kept is None or not self._restore(kept):
            self._give_kernels()
            self._keep()

    def of(self, kernel_name: str, task_index: int = 0) -> int:
        """Return the id of a task, or of the kernel itself without `task_index`. A new task's id is written to disk.

        Raises
        ------
        InvalidArgumentError
            If the program has no such kernel, the index is negative, or all ids are taken.
        """
        if kernel_name not in self._kernels or task_index < 0:
            raise InvalidArgumentError(f"the program has no task {task_index} of a kernel {kernel_name!r}")
        with self._lock:
            known = self._ids.get((kernel_name, task_index))
            if known is None:
                known = self._give(kernel_name, task_index)
                self._keep()
            return known

    def find(self, identity: int) -> tuple[str, int] | None:
        """Return the kernel's name and the index of the task with this id; None if there is none."""
        return self._tasks.get(identity)

    def _give(self, kernel_name: str, task_index: int) -> int:
        slots = 1 << self._bits
        if len(self._ids) == slots - 1:
            raise InvalidArgumentError(f"all {slots - 1} ids of the program are taken")
        identity = content_id(self._digest, kernel_name, task_index, bits=self._bits)
        while identity == 0 or identity in self._tasks:
            identity = (identity + 1) % slots
        self._ids[kernel_name, task_index] = identity
        self._tasks[identity] = kernel_name, task_index
        return identity

    def _give_kernels(self) -> None:
        self._ids.clear()
        self._tasks.clear()
        for name in self._kernels:
            self._give(name, 0)

    def _keep(self) -> None:
        if self._cache:
            given = [[*task, identity] for task, identity in self._ids.items()]
            self._cache.put(self._key, json.dumps(given, separators=(",", ":")).encode())

    def _restore(self, kept: bytes) -> bool:
        """Give the ids in the order in which they were given before. Return False when the result differs."""
        try:
            given = [(str(name), int(index), int(identity)) for name, index, identity in json.loads(kept)]
        except (ValueError, TypeError):
            return False
        self._give_kernels()
        kernels, tasks = given[: len(self._kernels)], given[len(self._kernels) :]
        if kernels != [(*task, identity) for task, identity in self._ids.items()]:
            return False
        for name, index, identity in tasks:
            fits = name in self._kernels and index > 0 and (name, index) not in self._ids
            if not fits or len(self._ids) == (1 << self._bits) - 1 or self._give(name, index) != identity:
                return False
        return True


def identify(kernels: Iterable[str], source: str | bytes, options: tuple[str, ...]) -> Identities:
    """Return the ids of a program with these kernels. They are kept on disk unless the source includes files."""
    cache = None if reads_files(source) else BinaryCache()
    return Identities(key_of("program", source, *options), kernels, cache)
