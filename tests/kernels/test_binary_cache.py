"""The cache on disk: what is put there comes back, and nothing that may happen to its folder raises."""

import errno
import os
import subprocess
import sys
import threading
import time

import pytest

from forebay.core.errors import InvalidArgumentError
from forebay.queues.kernels.cache import HEADER, BinaryCache, key_of, reads_files
from tests.helpers.no_files import NO_FILES, folder_of_others
from tests.helpers.processes import ROOT

pytestmark = pytest.mark.needs("no chosen device")

KEY = key_of("a program")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.delenv("FOREBAY_NO_CACHE", raising=False)
    return tmp_path / "programs"


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


def test_the_environment_moves_it(tmp_path, monkeypatch, folder):
    monkeypatch.setenv("FOREBAY_CACHE", str(tmp_path / "moved"))
    cache = BinaryCache()
    cache.put(KEY, b"x")
    assert cache.info().folder == tmp_path / "moved" / "programs"
    assert (tmp_path / "moved" / "programs" / KEY).exists()


def test_without_that_it_is_in_the_users_cache_folder(tmp_path, monkeypatch, folder):
    monkeypatch.delenv("FOREBAY_CACHE", raising=False)
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name, appauthor: str(tmp_path / name))
    assert BinaryCache().info().folder == tmp_path / "forebay" / "programs"
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name, appauthor: "~/.cache")
    assert BinaryCache().info().folder is None


def test_the_environment_turns_it_off(monkeypatch, folder):
    BinaryCache(folder).put(KEY, b"x")
    monkeypatch.setenv("FOREBAY_NO_CACHE", "1")
    cache = BinaryCache(folder)
    assert cache.info() == (None, 0, 0, cache.info().limit)
    assert cache.get(KEY) is None
    cache.put(key_of("b"), b"y")
    cache.clear()
    assert [path.name for path in folder.iterdir()] == [KEY]


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


def cut(data):
    return data[:-1]


def cut_in_the_header(data):
    return data[:5]


def empty(data):
    return b""


def longer(data):
    return data + b"!"


def changed(data):
    return data[:-1] + bytes([data[-1] ^ 1])


def foreign(data):
    return b"#!/bin/sh\n" * 20


def another_version(data):
    return data.replace(b"binary 1", b"binary 2", 1)


@pytest.mark.parametrize("damage", [cut, cut_in_the_header, empty, longer, changed, foreign, another_version])
def test_a_damaged_file_is_ignored_and_rewritten(cache, folder, damage):
    cache.put(KEY, b"what it should be")
    path = folder / KEY
    path.write_bytes(damage(path.read_bytes()))
    assert cache.get(KEY) is None
    cache.put(KEY, b"what it should be")
    assert cache.get(KEY) == b"what it should be"


def test_a_file_under_another_name_is_not_taken_for_it(cache, folder):
    cache.put(KEY, b"x")
    (folder / KEY).rename(folder / key_of("b"))
    assert cache.get(key_of("b")) is None


@pytest.mark.parametrize("place", NO_FILES)
def test_what_is_no_file_is_replaced(cache, folder, place, caplog):
    folder.mkdir()
    place(folder / KEY)
    assert cache.get(KEY) is None
    cache.put(KEY, b"x")
    stays = place is folder_of_others
    assert cache.get(KEY) == (None if stays else b"x")
    assert cache.info()[1:3] == (0, 0) if stays else (1, HEADER.size + 1)
    assert [record.levelname for record in caplog.records if str(folder / KEY) in record.message] == ["WARNING"] * stays
    cache.clear()
    assert [path.name for path in folder.iterdir()] == [KEY] * stays


@pytest.mark.parametrize("place", NO_FILES)
def test_what_is_no_file_goes_with_the_rest(cache, folder, place):
    folder.mkdir()
    place(folder / KEY)
    cache.clear()
    assert [path.name for path in folder.iterdir()] == [KEY] * (place.__name__.startswith("folder"))


# Size


def test_the_least_recently_used_go_first(folder):
    each = HEADER.size + 100
    cache = BinaryCache(folder, limit=3 * each)
    keys = [key_of(str(number)) for number in range(4)]
    for age, key in zip((30, 40, 20), keys, strict=False):
        cache.put(key, bytes(100))
        use(folder / key, age * 3600)
    assert cache.info()[1:3] == (3, 3 * each)
    assert cache.get(keys[1]) is not None  # now the second is the most recently used, and the first the least
    cache.put(keys[3], bytes(100))
    assert [cache.get(key) is not None for key in keys] == [False, True, True, True]
    assert cache.info()[1:3] == (3, 3 * each)


def test_one_that_makes_room_for_itself_may_push_out_several(folder):
    cache = BinaryCache(folder, limit=4 * (HEADER.size + 10))
    for number in range(4):
        cache.put(key_of(str(number)), bytes(10))
    cache.put(KEY, bytes(HEADER.size * 3 + 40))
    assert cache.get(KEY) is not None
    assert cache.info().entries == 1


def test_the_one_just_written_stays_even_if_the_clock_went_back(folder):
    cache = BinaryCache(folder, limit=HEADER.size + 10)
    cache.put(key_of("b"), bytes(10))
    use(folder / key_of("b"), -7200)
    cache.put(KEY, bytes(10))
    assert cache.get(KEY) is not None
    assert cache.get(key_of("b")) is None


def test_one_that_is_larger_than_the_limit_is_not_kept_and_costs_no_other(folder):
    cache = BinaryCache(folder, limit=HEADER.size + 10)
    cache.put(KEY, bytes(10))
    cache.put(key_of("b"), bytes(11))
    assert cache.get(key_of("b")) is None
    assert cache.get(KEY) == bytes(10)


def test_few_writes_look_at_all_files(cache, folder, monkeypatch):
    """Or else a cache that is full costs each new program more than its compiler."""
    looked = []
    monkeypatch.setattr(cache, "_trim", looked.append)
    for number in range(2000):
        cache.put(key_of(str(number)), bytes(10))
    assert len(looked) < 20  # 0.5 are expected
    before = len(looked)
    cache.put(KEY, bytes(cache.info().limit // 16))
    assert len(looked) == before + 1


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


def test_a_folder_that_is_read_only_can_be_read(cache, folder, monkeypatch):
    cache.put(KEY, b"x")
    use(folder / KEY, 7200)

    def refuse(*arguments, **options):  # not by permissions, which root does not have to obey
        raise OSError(errno.EROFS, "Read-only file system")

    for function in ("utime", "replace", "unlink", "mkdir"):
        monkeypatch.setattr(os, function, refuse)
    monkeypatch.setattr("tempfile.mkstemp", refuse)
    cache.put(key_of("b"), b"y")
    cache.put(KEY, b"y")
    cache.clear()
    assert cache.get(KEY) == b"x"
    assert cache.get(key_of("b")) is None


def test_a_write_that_fails_leaves_nothing(cache, folder, monkeypatch):
    cache.put(KEY, b"x")

    def refuse(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    cache.put(KEY, b"y")
    assert cache.get(KEY) == b"x"
    assert [path.name for path in folder.iterdir()] == [KEY]


# Several at once

WRITER = """
import sys
from forebay.queues.kernels.cache import HEADER, BinaryCache, key_of, reads_files
folder = sys.argv[1]
value = {number: bytes([number]) * (1000 + number) for number in range(20)}
cache = BinaryCache(folder, limit=10 * (HEADER.size + 1020))
sys.stdout.write("ready")
sys.stdout.flush()
sys.stdin.read(1)
seen = 0
for turn in range(40):
    for number in range(20):
        key = key_of(str(number))
        cache.put(key, value[number])
        got = cache.get(key_of(str((number * 7) % 20)))
        assert got in (None, value[(number * 7) % 20]), "not what anybody wrote"
        seen += got is not None
assert seen
"""


def test_two_processes_that_write_at_once(folder):
    arguments = [sys.executable, "-c", WRITER, str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    writers = [subprocess.Popen(arguments, cwd=ROOT, **pipes) for _ in range(2)]
    try:
        for writer in writers:
            assert writer.stdout.read(5) == b"ready", writer.stderr.read()
        outputs = [None, None]
        for writer in writers:
            writer.stdin.write(b"!")
            writer.stdin.flush()
        for index, writer in enumerate(writers):
            outputs[index] = writer.communicate(timeout=120)
        assert [writer.returncode for writer in writers] == [0, 0], outputs
    finally:
        for writer in writers:
            writer.kill()
    assert not [path for path in folder.iterdir() if path.name.startswith(".part-")]
    cache = BinaryCache(folder, limit=10 * (HEADER.size + 1020))
    cache.put(KEY, b"x")  # whoever was last, the next to write sees to it
    assert cache.info().nbytes <= cache.info().limit


def test_threads_that_write_at_once(cache):
    failed = []

    def work(number):
        try:
            for _turn in range(50):
                cache.put(KEY, bytes([number]) * 5000)
                value = cache.get(KEY)
                assert value is not None
                assert len(value) == 5000
                assert len(set(value)) == 1
        except BaseException as error:
            failed.append((number, error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


# Sources that read files


@pytest.mark.parametrize(
    "source",
    [
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
    ],
)
def test_a_source_that_reads_files(source):
    assert reads_files(source)


@pytest.mark.parametrize(
    "source",
    ["", "// including all", "#define INCLUDE\n", "#pragma unroll\nint include;", "#if 0\n#endif", b'#include "a.h"',
     "#if 1 /* of\nseveral */\nint include;\n#endif", "#if 1 /* in\nmany lines */ int a;\nint include;"],
)  # fmt: skip
def test_a_source_that_reads_none(source):
    assert not reads_files(source)
