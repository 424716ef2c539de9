"""The cache on disk: what is put there comes back, and nothing that may happen to its folder raises."""

import errno
import os
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from unittest import mock

import pytest

from forebay.compiler.cache import HEADER, BinaryCache, key_of, reads_files
from forebay.core.errors import InvalidArgumentError
from tests.helpers.no_files import NO_FILES, folder_of_others

pytestmark = pytest.mark.needs("no chosen device")

KEY = key_of("a program")


@pytest.fixture
def folder(own_cache):
    return own_cache / "programs"


@pytest.fixture
def cache(folder):
    return BinaryCache(folder)


def use(path, seconds_ago):
    os.utime(path, (time.time() - seconds_ago,) * 2)


def test_what_is_put_there_comes_back(cache, folder):
    assert cache.get(KEY) is None
    cache.put(KEY, b"\0binary")
    assert cache.get(KEY) == b"\0binary"
    assert BinaryCache(folder).get(KEY) == b"\0binary"
    assert cache.get(key_of("another")) is None
    cache.put(KEY, b"")
    assert cache.get(KEY) == b""


def test_keys_know_where_parts_end():
    keys = [key_of("ab", "c"), key_of("a", "bc"), key_of("abc"), key_of("abc", ""), key_of("c", "ab"), key_of()]
    assert len(set(keys)) == len(keys)
    assert key_of("µ", b"\xff") == key_of("µ".encode(), b"\xff")


@pytest.mark.parametrize("key", ["", "../../escaped", KEY.upper(), KEY + "0", KEY + "\n"])
def test_other_keys_are_refused(cache, key):
    for use_it in (cache.get, lambda key: cache.put(key, b"")):
        with pytest.raises(InvalidArgumentError, match="key_of"):
            use_it(key)


# Where it is


def test_the_environment_says_where_it_is(cache, folder, tmp_path):
    BinaryCache().put(KEY, b"x")
    assert BinaryCache().info().folder == folder
    assert (folder / KEY).exists()
    with mock.patch.dict(os.environ, FOREBAY_NO_CACHE="1"):
        cache = BinaryCache(folder)
        assert cache.info() == (None, 0, 0, cache.info().limit)
        assert cache.get(KEY) is None
        cache.put(key_of("b"), b"y")
        cache.clear()
    assert [path.name for path in folder.iterdir()] == [KEY]
    del os.environ["FOREBAY_CACHE"]
    for users, expected in ((tmp_path / "forebay", tmp_path / "forebay" / "programs"), ("~/.cache", None)):
        with mock.patch("platformdirs.user_cache_dir", return_value=str(users)):
            assert BinaryCache().info().folder == expected


def test_info_and_clear_leave_the_files_of_others(cache, folder):
    assert cache.info()[1:3] == (0, 0)
    cache.put(KEY, b"123")
    cache.put(key_of("b"), b"4567")
    (folder / "README").write_text("mine")
    assert cache.info()[:3] == (folder, 2, 2 * HEADER.size + 7)
    cache.clear()
    assert cache.info()[1:3] == (0, 0)
    assert [path.name for path in folder.iterdir()] == ["README"]


@pytest.mark.skipif(os.name != "posix", reason="permissions as on POSIX")
def test_nobody_else_can_put_programs_there(cache, folder):
    cache.put(KEY, b"x")
    assert folder.stat().st_mode & 0o077 == 0


# Files that are not what they should be

DAMAGES = {
    "cut": lambda data: data[:-1],
    "cut in the header": lambda data: data[:5],
    "empty": lambda data: b"",
    "longer": lambda data: data + b"!",
    "changed": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "foreign": lambda data: b"#!/bin/sh\n" * 20,
    "of another version": lambda data: data.replace(b"binary 1", b"binary 2", 1),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_ignored_and_rewritten(cache, folder, damage):
    cache.put(KEY, b"what it should be")
    path = folder / KEY
    path.write_bytes(damage(path.read_bytes()))
    assert cache.get(KEY) is None
    cache.put(KEY, b"what it should be")
    assert cache.get(KEY) == b"what it should be"


@pytest.mark.parametrize("place", NO_FILES)
def test_what_is_no_file_is_replaced_and_goes_with_the_rest(cache, folder, place, caplog):
    folder.mkdir()
    place(folder / KEY)
    cache.clear()
    stays = place is folder_of_others
    assert [path.name for path in folder.iterdir()] == [KEY] * (place.__name__.startswith("folder"))
    if not (folder / KEY).exists():
        place(folder / KEY)
    assert cache.get(KEY) is None
    cache.put(KEY, b"x")
    assert cache.get(KEY) == (None if stays else b"x")
    assert cache.info()[1:3] == (0, 0) if stays else (1, HEADER.size + 1)
    assert [record.levelname for record in caplog.records if str(folder / KEY) in record.message] == ["WARNING"] * stays
    cache.clear()
    assert [path.name for path in folder.iterdir()] == [KEY] * stays


def test_a_file_under_another_name_is_not_taken_for_it(cache, folder):
    cache.put(KEY, b"x")
    (folder / KEY).rename(folder / key_of("b"))
    assert cache.get(key_of("b")) is None


# Size


@pytest.mark.parametrize(("limit", "sizes", "kept"), [
    (310, [100, 100, 100, 100], {1, 2, 3}),
    (40, [10, 10, 10, 10, 3 * HEADER.size + 40], {4}),  # one that makes room for itself pushes out several
    (10, [10, 11], {0}),  # one larger than the limit costs no other
])  # fmt: skip
def test_the_oldest_go_first(folder, limit, sizes, kept):
    entries = len(sizes) - 1
    cache = BinaryCache(folder, limit=entries * HEADER.size + limit)
    keys = [key_of(str(number)) for number in range(len(sizes))]
    for age, key, size in zip(range(len(sizes), 0, -1), keys, sizes, strict=True):
        cache.put(key, bytes(size))
        if (folder / key).exists():
            use(folder / key, age * 3600)
    assert {number for number, key in enumerate(keys) if (folder / key).exists()} == kept
    assert cache.info().entries == len(kept)
    assert cache.info().nbytes <= entries * HEADER.size + limit


def test_a_use_counts_and_the_one_just_written_stays_even_if_the_clock_went_back(folder):
    cache, keys = BinaryCache(folder, limit=2 * (HEADER.size + 10)), [key_of(str(number)) for number in range(4)]
    for key, age in zip(keys, (30 * 3600, 40 * 3600), strict=False):
        cache.put(key, bytes(10))
        use(folder / key, age)
    assert cache.get(keys[1]) is not None  # now it is the most recently used
    cache.put(keys[2], bytes(10))
    assert [cache.get(key) is not None for key in keys] == [False, True, True, False]
    for key in keys[1:3]:
        use(folder / key, -7200)
    cache.put(keys[3], bytes(10))
    assert cache.get(keys[3]) is not None


def test_few_writes_look_at_all_files(cache):
    """Or else a cache that is full costs each new program more than its compiler."""
    with mock.patch.object(cache, "_trim") as trim:
        for number in range(2000):
            cache.put(key_of(str(number)), bytes(10))
        assert trim.call_count < 20  # 0.5 are expected
        trim.reset_mock()
        cache.put(KEY, bytes(cache.info().limit // 16))
    assert trim.call_count == 1


def test_a_use_is_noted_only_now_and_then(cache, folder):
    cache.put(KEY, b"x")
    use(folder / KEY, 60)
    before = (folder / KEY).stat().st_mtime_ns
    cache.get(KEY)
    assert (folder / KEY).stat().st_mtime_ns == before
    use(folder / KEY, 7200)
    before = (folder / KEY).stat().st_mtime_ns
    cache.get(KEY)
    assert (folder / KEY).stat().st_mtime_ns > before


def test_what_a_killed_process_left_is_removed_when_it_is_old(folder):
    cache = BinaryCache(folder, limit=1000)
    folder.mkdir()
    for name, age in ((".part-old", 7200), (".part-new", 0)):
        (folder / name).write_bytes(b"half")
        use(folder / name, age)
    cache.put(KEY, b"x")
    assert {path.name for path in folder.iterdir()} == {".part-new", KEY}
    cache.clear()
    assert list(folder.iterdir()) == []


# Folders that cannot be used


def test_a_folder_that_cannot_be_made(tmp_path, folder):
    (tmp_path / "file").write_text("")
    for unusable in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / ("x" * 300)):
        cache = BinaryCache(unusable)
        cache.put(KEY, b"x")
        assert cache.get(KEY) is None
        assert cache.info()[1:3] == (0, 0)
        cache.clear()
    assert (tmp_path / "file").read_text() == ""


def test_a_folder_that_cannot_be_written_to(cache, folder):
    cache.put(KEY, b"x")
    use(folder / KEY, 7200)
    # Not by permissions, which root does not have to obey.
    refuse = mock.Mock(side_effect=OSError(errno.EROFS, "Read-only file system"))
    read_only = mock.patch.multiple(os, utime=refuse, replace=refuse, unlink=refuse, mkdir=refuse)
    with read_only, mock.patch("tempfile.mkstemp", refuse):
        cache.put(key_of("b"), b"y")
        cache.put(KEY, b"y")
        cache.clear()
        assert cache.get(KEY) == b"x"
        assert cache.get(key_of("b")) is None
    with mock.patch.object(os, "replace", side_effect=OSError(errno.ENOSPC, "No space left on device")):
        cache.put(KEY, b"y")
    assert cache.get(KEY) == b"x"
    assert [path.name for path in folder.iterdir()] == [KEY]


# Several at once


def write_and_read(folder, number):
    """Write what the other does, too, and read it; nothing else is ever there."""
    (folder.parent / str(number)).touch()
    while len(list(folder.parent.glob("[01]"))) < 2:
        time.sleep(0.001)
    values = {key_of(str(each)): bytes([each]) * (1000 + each) for each in range(20)}
    cache, seen = BinaryCache(folder, limit=10 * (HEADER.size + 1020)), 0
    keys = list(values)
    for turn in range(20 * len(keys)):
        cache.put(keys[turn % 20], values[keys[turn % 20]])
        key = keys[turn * 7 % 20]
        got = cache.get(key)
        assert got in (None, values[key]), "not what anybody wrote"
        seen += got is not None
    assert seen


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, partial(ProcessPoolExecutor, mp_context=get_context("spawn"))])
def test_threads_and_processes_write_at_once(folder, pool):
    with pool(2) as workers:
        list(workers.map(write_and_read, [folder] * 2, range(2)))
    assert not [path for path in folder.iterdir() if path.name.startswith(".part-")]
    cache = BinaryCache(folder, limit=10 * (HEADER.size + 1020))
    cache.put(KEY, b"x")  # the next to write sees to it, whichever was the last
    assert cache.info().nbytes <= cache.info().limit


# Sources that read files

READ_FILES = [
    '#include "a.h"',
    "int a;\n  #  include <a.h>",
    "#/* why not */include A",
    "%:include <a>",
    "??=include <a>",
    "#inc\\\nlude <a.h>",
    "#??/\ninclude <a.h>",
    "#include_next <a>",
    "#import <a>",
    "#embed <a>",
    '# /* of\nseveral\nlines */ include "a.h"',
    '#/**//* ** / * *\n**/\t/*\n*/include "a.h"',
    '# /* and \\\ncontinued */ \\\ninclude "a.h"',
    '#/\\\n* split *\\\n/include "a.h"',
    '#\\\r\ninc\\\rlude "a.h"',
    'constant char s[] = "/*";\n#include "a.h"\n// */',
    "// don't /*\n#include <a.h>\n/* it's */",
    "#define A '/*'\n#/*\n*/include <a.h>",
    '#if __has_include("a.h")\n#endif',
]
READ_NONE = [
    "", "// including all", "#define INCLUDE\n", "#pragma unroll\nint include;", "#if 0\n#endif", b'#include "a.h"',
    "#if 1 /* of\nseveral */\nint include;\n#endif", "#if 1 /* in\nmany lines */ int a;\nint include;",
]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "reads"), [*((source, True) for source in READ_FILES), *((source, False) for source in READ_NONE)]
)
def test_whether_a_source_reads_files(source, reads):
    assert reads_files(source) == reads
