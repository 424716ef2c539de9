"""Keeps the bytes that a compiler made on disk, from one process to the next.

Files in the folder are never trusted to be complete: processes write at the same time or are killed, and disks fill up.
Whatever goes wrong with the cache, a program still gets its kernels, only later. So nothing here raises because of it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import random
import re
import stat
import struct
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from forebay.core.errors import InvalidArgumentError

__all__ = [
    "BinaryCache", "CacheInfo", "Identities", "content_id", "folder_named", "identify", "key_of", "open_file",
    "put_in_place", "reads_files", "without_waiting",
]  # fmt: skip

BITS = 32
OFFSET_BASIS = 0x811C9DC5
PRIME = 0x01000193


def content_id(program_digest: str, kernel_name: str, task_index: int = 0, *, bits: int = BITS) -> int:
    """Return the id of a task before any probing; task 0 is the kernel itself. The digest of the program's content is a
    key of `key_of`. Fewer than 32 bits fold the hash, to test collisions.
    """
    value = OFFSET_BASIS
    for byte in f"{program_digest}\0{kernel_name}\0{task_index}".encode():
        value = (value ^ byte) * PRIME & 0xFFFFFFFF
    return (value >> bits ^ value) & (1 << bits) - 1


class Identities:
    """The ids of one program's kernels and their tasks, each given once. Any thread may ask.

    Ids are never 0. Kernels get ids in the order of their names, tasks in the order in which they are first asked for.
    The cache keeps the ids that a process has given, and the next process begins with them. A table from the cache is
    checked by giving its ids again; a wrong table is ignored and rewritten. Nothing is kept without a cache.
    `program_digest` and `bits` are those of `content_id`.
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
        self._taken = {0}
        kept = cache.get(self._key) if cache else None
        if kept is None or not self._restore(kept):
            self._give_kernels()
            self._keep()

    def of(self, kernel_name: str, task_index: int = 0) -> int:
        """Return the id of a task, or of the kernel itself without `task_index`. A new task's id is written to disk.
        Raises `InvalidArgumentError` if the program has no such kernel, the index is negative, or all ids are taken.
        """
        if kernel_name not in self._kernels or task_index < 0:
            raise InvalidArgumentError(f"the program has no task {task_index} of a kernel {kernel_name!r}")
        with self._lock:
            known = self._ids.get((kernel_name, task_index))
            if known is None:
                known = self._give(kernel_name, task_index)
                self._keep()
            return known

    def _give(self, kernel_name: str, task_index: int) -> int:
        slots = 1 << self._bits
        if len(self._ids) == slots - 1:
            raise InvalidArgumentError(f"all {slots - 1} ids of the program are taken")
        identity = content_id(self._digest, kernel_name, task_index, bits=self._bits)
        while identity in self._taken:
            identity = (identity + 1) % slots
        self._ids[kernel_name, task_index] = identity
        self._taken.add(identity)
        return identity

    def _give_kernels(self) -> None:
        self._ids.clear()
        self._taken = {0}
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
        for name, index, _ in given[len(self._kernels) :]:
            fits = name in self._kernels and index > 0 and (name, index) not in self._ids
            if not fits or len(self._taken) == 1 << self._bits:
                return False
            self._give(name, index)
        return given == [(*task, identity) for task, identity in self._ids.items()]


def identify(kernels: Iterable[str], source: str | bytes, options: tuple[str, ...]) -> Identities:
    """Return the ids of a program with these kernels. They are kept on disk unless the source includes files."""
    cache = None if reads_files(source) else BinaryCache()
    return Identities(key_of("program", source, *options), kernels, cache)


log: logging.Logger = logging.getLogger(__name__)
LIMIT = 256 << 20
MAGIC = b"forebay binary 1\n"
HEADER = struct.Struct(f"<{len(MAGIC)}sQ32s")  # magic, length of what follows, checksum
KEY = re.compile(r"[0-9a-f]{64}")
PART = ".part-"  # of files that are being written
HOUR = 3600.0
# Looking at all files costs more than compiling, once there are thousands: it happens once for this part of the limit.
PART_OF_LIMIT, BLOCK = 16, 4096
_chance = random.Random()  # the program's own numbers stay as they are
CONTINUED = re.compile(r"(?:\\|\?\?/)\s*[\n\r]")  # lines, as compilers join them first; with trigraph
# Directives after which a program is more than its source: with digraph and trigraph, and with comments, which may have
# several lines, in between. Each # is looked at by itself, so that no string that looks like a comment hides one.
READS_FILES = re.compile(
    r"(?:#|%:|\?\?=)(?:[^\w/#]|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/)*(?:include|import|embed)|__has_(?:include|embed)"
)


class CacheInfo(NamedTuple):
    """The contents of a cache.

    Attributes
    ----------
    folder : Path or None
        The cache's folder; None if the cache is turned off.
    entries, nbytes : int
        The number of entries, and the size of their files.
    limit : int
        The size beyond which the least recently used entries are removed.
    """

    folder: Path | None
    entries: int
    nbytes: int
    limit: int


def key_of(*parts: bytes | str) -> str:
    """Return the key of a value computed from `parts`: a source and everything else that affects the result.

    The order of the parts and the boundaries between them count too. A text equals its UTF-8 bytes.
    """
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode(errors="surrogatepass") if isinstance(part, str) else part
        digest.update(struct.pack("<Q", len(data)))
        digest.update(data)
    return digest.hexdigest()


def reads_files(source: bytes | str) -> bool:
    """Return whether a program in OpenCL C may read files, which can change while the source does not.

    SPIR-V reads none. What looks like such a directive in a comment or a string counts as well.
    """
    return isinstance(source, str) and READS_FILES.search(CONTINUED.sub("", source)) is not None


class BinaryCache:
    """Bytes by key, in a folder of bounded size. Any number of threads and processes may use one folder.

    Reading and writing block like file access. If the folder cannot be made or read, the cache is always empty.

    The folder is made when first written to. By default it is ``programs`` in the folder that the environment variable
    ``FOREBAY_CACHE`` names, else in the user's cache folder. ``FOREBAY_NO_CACHE``, set to anything, turns every cache
    off. Beyond `limit` bytes the least recently used are removed. Usage within an hour count as one. Not every write
    looks: the folder may grow past the limit by a sixteenth, on average.
    """

    def __init__(self, folder: os.PathLike[str] | str | None = None, limit: int = LIMIT) -> None:
        self._limit = limit
        self._folder = folder_named("programs", folder)

    def get(self, key: str) -> bytes | None:
        """Return the value of this key. None if it was never put there, was removed, or is incomplete. Raises
        `InvalidArgumentError` if `key` is not one of `key_of`'s.
        """
        path = self._path(key)
        if path is None:
            return None
        try:
            with open_file(path) as file:
                header = file.read(HEADER.size)
                value = file.read()
                used = os.fstat(file.fileno()).st_mtime
        except OSError as error:
            log.debug("not there: %s (%s)", path, error)
            return None
        if header != _header(key, value):
            log.debug("damaged: %s", path)
            return None
        log.debug("read %d bytes: %s", len(value), path)
        if abs(time.time() - used) > HOUR:
            with contextlib.suppress(OSError):
                os.utime(path)
        return value

    def put(self, key: str, value: bytes) -> None:
        """Keep `value` under this key, replacing an earlier value; now and then remove what is beyond the limit.

        A value that is larger than the limit is not kept. Raises `InvalidArgumentError` if `key` is none of `key_of`'s.
        """
        path = self._path(key)
        if path is None or HEADER.size + len(value) > self._limit:
            return
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # The file gets its name only when it is complete, so that readers see the old file or the new one.
            number, part = tempfile.mkstemp(prefix=PART, dir=path.parent)
            try:
                with open(number, "wb") as file:
                    file.write(_header(key, value))
                    file.write(value)
                put_in_place(part, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(part)
                raise
            if _chance.random() * self._limit < PART_OF_LIMIT * (len(value) + BLOCK):
                self._trim(path)
        except OSError as error:
            log.debug("not kept: %s (%s)", path, error)

    def info(self) -> CacheInfo:
        """Return the contents of the cache, from all processes."""
        sizes = [status.st_size for path, status in self._files() if KEY.fullmatch(path.name)]
        return CacheInfo(self._folder, len(sizes), sum(sizes), self._limit)

    def clear(self) -> None:
        """Remove all entries, also those of other processes. Foreign files in the folder stay."""
        for path, _ in self._files():
            _remove(path)

    def _path(self, key: str) -> Path | None:
        if not KEY.fullmatch(key):
            raise InvalidArgumentError(f"{key!r} is not a key: key_of makes them")
        return self._folder and self._folder / key

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Yield the cache's own files, including those being written, and other non-directories with such names."""
        try:
            paths = list(self._folder.iterdir()) if self._folder else []
        except OSError:
            return
        for path in paths:
            if KEY.fullmatch(path.name) or path.name.startswith(PART):
                with contextlib.suppress(OSError):  # another process may have removed it
                    status = path.lstat()
                    if not stat.S_ISDIR(status.st_mode):
                        yield path, status

    def _trim(self, newest: Path) -> None:
        kept = 0
        files = sorted(self._files(), key=lambda file: (file[0] == newest, file[1].st_mtime), reverse=True)
        for path, status in files:
            if path.name.startswith(PART):
                if time.time() - status.st_mtime > HOUR:  # its writer was killed
                    _remove(path)
                continue
            kept += status.st_size
            if kept > self._limit:
                _remove(path)
                kept -= status.st_size


def folder_named(name: str, chosen: os.PathLike[str] | str | None = None) -> Path | None:
    """Return the folder of this name in the cache's, or the chosen one; None if there is to be no cache.

    The folder need not exist.
    """
    if os.environ.get("FOREBAY_NO_CACHE"):
        return None
    if chosen is None:
        root = os.environ.get("FOREBAY_CACHE")
        if not root:
            import platformdirs

            root = platformdirs.user_cache_dir("forebay", appauthor=False)
            if not os.path.isabs(root):  # a user without a home
                return None
        chosen = Path(root, name)
    return Path(chosen).absolute()


def without_waiting(path: str, flags: int) -> int:
    """Open a file, as an `opener` of `open`; what would wait for another process, as a pipe, at once or not at all."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)


def open_file(path: Path) -> BinaryIO:
    """Open a file of a cache to read it. Raises OSError for anything else that has its name."""
    file = open(path, "rb", opener=without_waiting)  # noqa: SIM115 - the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "this is no file", str(path))
    return file


def put_in_place(part: os.PathLike[str] | str, path: Path) -> None:
    """Give a file that is complete its name in a cache, whatever has that name now.

    An empty folder is replaced, too. One that is not empty is not the cache's: it is kept, and a warning is logged.
    Raises OSError.
    """
    try:
        os.replace(part, path)
    except OSError:
        if not path.is_dir():
            raise
        try:
            os.rmdir(path)
        except OSError:
            log.warning("%s is a folder where forebay keeps a file: until it is removed, that is made each time", path)
            raise
        os.replace(part, path)


def _header(key: str, value: bytes) -> bytes:
    # With the key in the checksum, a file under another's name is not taken for it.
    return HEADER.pack(MAGIC, len(value), hashlib.sha256(key.encode() + value).digest())


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
