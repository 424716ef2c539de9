"""Keeps compiled binaries on disk, from one process to the next.

Files may be incomplete: processes write at the same time or are killed, and disks fill up. A failure of the cache costs
only a build, so nothing here raises because of it.
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
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from forebay.compiler.errors import InvalidArgumentError
from forebay.compiler.spirv.declarations import Declared

log: logging.Logger = logging.getLogger(__name__)
LIMIT = 256 << 20
MAGIC = b"forebay binary 1\n"
HEADER = struct.Struct(f"<{len(MAGIC)}sQ32s")  # magic, length of what follows, checksum
KEY = re.compile(r"[0-9a-f]{64}")
LENGTH = struct.Struct("<Q")  # of the table of parameters
PART = ".part-"  # of files that are being written
HOUR = 3600.0
# With thousands of files, listing the folder costs more than compiling: do it once per this part of the limit written.
PART_OF_LIMIT, BLOCK = 16, 4096
_chance = random.Random()  # leaves the program's own random state alone
CONTINUED = re.compile(r"(?:\\|\?\?/)\s*[\n\r]")  # lines, as compilers join them first; with trigraph
# Directives that make a program more than its source, also as digraph or trigraph and with comments of several lines in
# between. Each # is checked by itself, so that no string that looks like a comment hides one.
READS_FILES = re.compile(
    r"(?:#|%:|\?\?=)(?:[^\w/#]|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/)*(?:include|import|embed)|__has_(?:include|embed)"
)


class Entry(NamedTuple):
    """A cache entry: the driver's binary, if there is one, and the kernels' parameters.

    Intel's CPU runtime (2026.2.0) does not report the parameters of a program made from a binary.
    """

    binary: bytes
    declared: dict[str, list[Declared]]  # by kernel; the size of a structure is 0 until it is computed
    log: str = ""
    vectors: bool = True  # whether Intel's CPU runtime vectorized the kernels

    def dumps(self) -> bytes:
        """Serialize the entry."""
        told = {"kernels": self.declared, "log": self.log, "vectors": self.vectors}
        facts = json.dumps(told, separators=(",", ":")).encode()
        return LENGTH.pack(len(facts)) + facts + self.binary

    @classmethod
    def loads(cls, data: bytes) -> Entry | None:
        """Deserialize an entry; None if `data` is not one."""
        try:
            (length,) = LENGTH.unpack_from(data)
            table, binary = data[LENGTH.size :][:length], data[LENGTH.size + length :]
            facts = json.loads(table)
            declared = {
                name: [Declared._make(each) for each in parameters]  # refuses entries of other versions
                for name, parameters in facts["kernels"].items()
            }
            log, vectors = str(facts["log"]), bool(facts["vectors"])
        except (struct.error, ValueError, TypeError, AttributeError, KeyError):
            return None
        return cls(binary, declared, log, vectors)


class CacheInfo(NamedTuple):
    """The contents of a cache."""

    folder: Path | None  # None if the cache is turned off
    entries: int
    nbytes: int  # of their files
    limit: int  # beyond which the least recently used entries are removed


def key_of(*parts: bytes | str) -> str:
    """Return the key of a result computed from `parts`, in this order. Text counts as its UTF-8 bytes."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode(errors="surrogatepass") if isinstance(part, str) else part
        digest.update(struct.pack("<Q", len(data)))
        digest.update(data)
    return digest.hexdigest()


def reads_files(source: bytes | str) -> bool:
    """Return whether an OpenCL C program has directives that read files, which can change, also in comments."""
    return isinstance(source, str) and READS_FILES.search(CONTINUED.sub("", source)) is not None


class BinaryCache:
    """Bytes by key, in a folder (`folder_named`) that any number of threads and processes may use.

    The first write makes the folder; if that fails, or it cannot be read, the cache is empty. Beyond `limit` bytes the
    least recently used entries are removed; usage within an hour counts as one. As not every write checks, the folder
    may exceed the limit by a sixteenth on average.
    """

    def __init__(self, folder: os.PathLike[str] | str | None = None, limit: int = LIMIT) -> None:
        self._limit = limit
        self._folder = folder_named("programs", folder)

    def get(self, key: str) -> bytes | None:
        """Return the value of a key of `key_of`. None if there is none, or it is incomplete."""
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
        """Store `value` under this key; sometimes remove what is beyond the limit."""
        path = self._path(key)
        if path is None or HEADER.size + len(value) > self._limit:
            return
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Renamed only when complete, so that readers see the old file or the new one.
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
        """Remove all entries, also those of other processes. Other files in the folder stay."""
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
    """Return the folder `chosen`, else `name` in the folder of the environment variable ``FOREBAY_CACHE`` or the user's
    cache folder; None if ``FOREBAY_NO_CACHE`` is set to anything.
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
    """Open a file, as an `opener` of `open`, without waiting for another process as with a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)


def open_file(path: Path) -> BinaryIO:
    """Open a cache file for reading. Raises OSError for anything but a regular file."""
    file = open(path, "rb", opener=without_waiting)  # noqa: SIM115 - the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "this is no file", str(path))
    return file


def put_in_place(part: os.PathLike[str] | str, path: Path) -> None:
    """Rename a complete cache file, replacing a file or empty folder. Logs a warning for others. Raises OSError."""
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
    # The checksum includes the key, so that a file under another's name is refused.
    return HEADER.pack(MAGIC, len(value), hashlib.sha256(key.encode() + value).digest())


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
