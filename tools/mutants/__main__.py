"""Mutation testing of the engine: all faults in one build, one of which a process chooses by FOREBAY_MUTANT.

``python -m tools.mutants`` copies the tracked files and what is compiled to a scratch folder, puts the mutants of
``faults.txt`` into the copy, and compiles it. It runs the tests once without a mutant, and notes which test comes by
which mutant (``tools.mutants.reached``). Then the tests that come by a mutant judge it, until one fails: those of its
own package first, quick ones before slow ones. It writes a JSON file, by which ``--resume`` goes on, and a table beside
it. Nothing of the copy is ever installed.

A line of ``faults.txt`` is ``FILE FUNCTION: OPERATOR TEXT``. The text stands once in the function. The
operators:

skip TEXT       the statement that begins so is left out; an ``if`` or ``while`` is taken for false
negate TEXT     the condition of the ``if``, ``elif`` or ``while`` that begins so is the opposite
shift TEXT      the first comparison behind the text is with one more: a boundary
one TEXT        the number that ends the text is one more
first TEXT      the ``for`` over a range that begins so leaves out its first element
TEXT => OTHER   any other fault; ``M`` in OTHER says whether the mutant is chosen, ``\\n`` is a new line
"""

import argparse
import contextlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).with_name("faults.txt")
ROOMS = ("core", "events", "lifetimes", "queues", "races", "sync")  # the folders that setup.py maps
STAGES = 0, 20, 100, 500, 2000, 100_000  # tests: all mutants go through one stage before the next, since most die early
MOST_MEMORY = 8 << 30  # bytes of data that the tests of a mutant may have
CHOSEN = """
#ifndef FOREBAY_MUTANT
#define FOREBAY_MUTANT
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
static volatile char *marks() {
    const char *path = std::getenv("FOREBAY_MUTANTS_REACHED");
    void *mapped = path ? mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, open(path, O_RDWR), 0) : MAP_FAILED;
    return mapped == MAP_FAILED ? NULL : (volatile char *)mapped;
}
static const int forebay_mutant = std::getenv("FOREBAY_MUTANT") ? std::atoi(std::getenv("FOREBAY_MUTANT")) : 0;
static volatile char *const forebay_reached = marks();
static inline bool mutant(int number) {
    if (forebay_reached && !forebay_reached[number]) forebay_reached[number] = 1;
    return number == forebay_mutant;
}
#endif
"""
DECLARED = 'cdef extern from "core/mutant.hpp":\n    bint mutant(int) noexcept nogil\n'
CHOSEN_IN = {  # how a mutant is asked for, and what a file needs for it
    ".py": ('__import__("forebay.mutant", fromlist=["mutant"]).mutant({})', ""),
    ".hpp": ("mutant({})", '#include "core/mutant.hpp"\n'),
    ".pyx": ("mutant({})", "from forebay.core.mutant cimport mutant\n"),
    ".pxd": ("mutant({})", "from forebay.core.mutant cimport mutant\n"),
}

# Of each package: where its files are, and the tests that judge their mutants first.
PACKAGES = {
    "core": ("core", "tests/ordering"), "sync": ("sync", "tests/ordering"),
    "lifetimes": ("lifetimes", "tests/ordering"), "launch": ("queues/launch", "tests/launch"),
    "memory": ("queues/memory", "tests/memory"), "graphs": ("queues/graphs", "tests/graphs"),
    "steps": ("queues/graphs", "tests/steps"), "races": ("races", "tests/races"),
    "queues": ("queues events", "tests/queues"),
}  # fmt: skip
FUNCTION = re.compile(
    r"^ *(?:\[\[[^\]]*\]\] )?(?:c?p?def|static|inline|void|bool|Past|Block|std)\b[^=\n]*?\b(\w+)"
    r"\((?:.*[,(:{](?:  #.*)?)?$",
    re.M,
)
CONDITION = re.compile(r"(if|elif|while) (.*):$", re.S)
COMPARISON = re.compile(r" (?:<=?|>=?) ")


class Mutant(NamedTuple):
    number: int
    text: str  # the line of the table
    origin: str  # the commit of the past that removed this fault, and what it was; empty if drawn

    @property
    def file(self):
        return self.text.split(" ", 1)[0]

    @property
    def function(self):
        return self.text.split(":", 1)[0].split(" ", 1)[1]

    @property
    def fault(self):
        return self.text.split(": ", 1)[1]

    @property
    def operator(self):
        return "replace" if " => " in self.fault else self.fault.split(" ", 1)[0]

    @property
    def package(self):
        return next(name for name, (folders, _) in PACKAGES.items() if self.file.startswith(tuple(folders.split())))


def mutants():
    """The mutants of the table, numbered from 1."""
    found, origin = [], ""
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            found.append(Mutant(len(found) + 1, line.strip(), origin))
        elif line:
            origin = "" if line.startswith("drawn") else line
    return found


def extent(source, match):
    """Where the function that a match of FUNCTION begins starts and ends in a source."""
    indent = len(match[0]) - len(match[0].lstrip())
    end = re.compile(rf"^ {{0,{indent}}}(?:[^\s)}}\]]|\"\"\")", re.M).search(source, match.end())
    return match.start(), end.start() if end else len(source)


def extent_with(source, function, text):
    """Where the function of this name that has the text starts and ends: the last of several."""
    for match in reversed(list(FUNCTION.finditer(source))):  # a declaration in advance comes before
        start, end = extent(source, match)
        if match[1] == function and text in source[start:end]:
            return start, end
    raise LookupError(f"no function {function} with {text}")


def statement(source, start):
    """Where the statement that begins here ends: with its line, or where its last bracket is closed."""
    end, depth = start, 0
    while end < len(source) and (source[end] != "\n" or depth > 0):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(source[end], 0)
        end += 1
    return end


def spliced(source, mutant):
    """The source with one more mutant in it."""
    chosen = CHOSEN_IN[Path(mutant.file).suffix][0].format(mutant.number)
    if mutant.operator == "replace":
        text, other = mutant.fault.replace("\\n", "\n").split(" => ")
    else:
        text, other = mutant.fault.split(" ", 1)[1], None
    first, last = extent_with(source, mutant.function, text)
    if source.count(text, first, last) != 1:
        raise LookupError(f"{source.count(text, first, last)} times: {text}")
    start = source.index(text, first, last)
    if other is not None:
        return source[:start] + re.sub(r"\bM\b", chosen, other) + source[start + len(text) :]
    end = statement(source, start)
    line = re.sub(r"  # .*", "", source[start:end])
    if mutant.operator in ("skip", "negate") and (parts := CONDITION.match(line)):
        condition = f"({parts[2]}) and not {chosen}" if mutant.operator == "skip" else f"(not ({parts[2]})) == {chosen}"
        line = f"{parts[1]} {condition}:"
    elif mutant.operator == "skip":
        line = f"if not {chosen}: {line}"
    elif mutant.operator == "shift":
        line = COMPARISON.sub(lambda match: f"{match[0]}{chosen} + ", line, count=1)
    elif mutant.operator == "one":
        line = re.sub(r"(\d+)$", rf"(\1 + {chosen})", text) + line[len(text) :]
    elif mutant.operator == "first":
        line = re.sub(r"range\((?:0, )?", f"range({chosen}, ", line, count=1)
    return source[:start] + line + source[end:]


def splice_all(tree, wanted):
    """Put the mutants into the tree's files. Exit with the names of entries whose text is not there."""
    lost, files = [], {mutant.file for mutant in wanted}
    for file in sorted(files):
        source = Path(file).read_text(encoding="utf-8") if Path(file).exists() else ""
        for mutant in wanted:
            if mutant.file == file:
                try:
                    source = spliced(source, mutant)
                except (LookupError, ValueError) as error:
                    lost.append(f"{mutant.number}  {mutant.text}\n    {error}")
        needed = CHOSEN_IN[Path(file).suffix][1]
        if needed:
            source = re.sub(r"^(?=from (?!__future__)|import |cimport |#include )", needed, source, count=1, flags=re.M)
        write(tree / file, source)
    if lost:
        raise SystemExit("Entries of faults.txt to be written again:\n" + "\n".join(lost))
    write(tree / "core/mutant.hpp", CHOSEN)
    write(tree / "core/mutant.pxd", DECLARED)


def write(path, text):
    """Write a file unless it has this text, so that only what changed is compiled again."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def listed(folder):
    """The tracked files of a clone."""
    command = ["git", "-C", str(folder), "ls-files", "-z"]
    return [name for name in subprocess.check_output(command, text=True).split("\0") if name]


def copy_to(tree, tests, mutated):
    """Copy the project, with the tests of a clone, to the scratch folder."""
    there = set()
    for clone, is_wanted in (Path(), lambda name: name[:6] != "tests/"), (tests, lambda name: name[:6] == "tests/"):
        for name in filter(is_wanted, listed(clone)):
            source, target = clone / name, tree / name
            there.add(target)
            if name in mutated or not source.exists():
                continue
            if not target.exists() or target.stat().st_mtime != source.stat().st_mtime:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
    for path in set(tree.rglob("*.p[yx]*")) - there - {tree / "core/mutant.pxd"}:
        if "build" not in path.relative_to(tree).parts and path.suffix != ".pyc":
            path.unlink()  # what the project has no longer


def prepare(tree, tests, wanted):
    """Copy the project and its tests, put the mutants in, and compile it."""
    copy_to(tree, tests, {mutant.file for mutant in wanted})
    splice_all(tree, wanted)
    setup = (tree / "setup.py").read_text(encoding="utf-8")
    write(tree / "setup.py", re.sub(r'"-O[12]"', '"-O0"', setup))  # compiles three times as fast
    subprocess.run([sys.executable, "setup.py", "--quiet", "build_ext", "--inplace", "--tests"], cwd=tree, check=True)
    package = tree / "build/imported/forebay"  # as an editable install would map the folders
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir(parents=True)
    for path in [*(tree / "src/forebay").iterdir(), *(tree / room for room in ROOMS)]:
        (package / path.name).symlink_to(path)
    (package / "bench").symlink_to(tree / "microbench")
    (package / "mutant.py").symlink_to(tree / "tools/mutants/reached.py")


def run_tests(tree, arguments, limit=None, **variables):
    """Run pytest in the scratch folder. Return its exit status, None if the limit ended it, and its output."""
    on_level_zero = os.environ.get("FOREBAY_DEVICE", "").startswith("level_zero")  # without a GPU
    python = [sys.executable, "-m", "tools.null_levelzero", "python"] if on_level_zero else [sys.executable]
    command = [*python, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--tb=no", "-rfE"]
    environment = {**os.environ, "PYTHONPATH": str(tree / "build/imported"), **variables}
    process = subprocess.Popen(
        [*command, *arguments], cwd=tree, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    resource.prlimit(process.pid, resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    try:
        output, _ = process.communicate(timeout=limit)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        return None, ""
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def reach(tree, wanted, processes):
    """Run all tests without a mutant. Return of each test that passes its seconds and the mutants that it comes by."""
    folder = tree / "build/reached"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    arguments = ["-n", str(processes), "--dist", "worksteal", "-m", wanted, "-p", "tools.mutants.reached", "tests"]
    ignored = [f"--ignore=tests/{name}" for name in ("package", "microbench", "docs")]
    status, output = run_tests(tree, [*arguments, *ignored], None, FOREBAY_MUTANTS_FOLDER=str(folder))
    print("without a mutant:", *re.findall(r"^(?:FAILED|ERROR) .*", output, re.M), output.splitlines()[-1], sep="\n")
    if status not in (0, 1):
        raise SystemExit(output)
    lines = [json.loads(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    return {each["test"]: each for each in lines if each["passed"]}


class Judge:
    """Runs tests on mutants, by several threads, and keeps what came out."""

    def __init__(self, tree, path, results, tests):
        self.tree, self.path, self.results, self.tests = tree, path, results, tests
        self.lock = threading.Lock()

    def judge(self, stage, mutant):
        """Run a stage of the tests that come by the mutant until one fails. A survivor of the last one is alive."""
        reaching = [each for each in self.tests.values() if mutant.number in each["reached"]]
        own = PACKAGES[mutant.package][1] + "/"
        reaching.sort(key=lambda each: (not each["test"].startswith(own), each["seconds"]))
        killer = self.killer(mutant, some) if (some := reaching[STAGES[stage] : STAGES[stage + 1]]) else None
        if killer is None and len(reaching) > STAGES[stage + 1]:
            return
        entry = {"package": mutant.package, "operator": mutant.operator, "origin": mutant.origin}
        with self.lock:
            print(f"{mutant.number}  {mutant.text}: {killer or 'ALIVE'} ({len(reaching)} tests)", flush=True)
            self.results[mutant.text] = {**entry, "tests": len(reaching), "killed_by": killer}
            self.path.write_text(json.dumps(self.results, indent=1) + "\n", encoding="utf-8")
            self.path.with_suffix(".md").write_text(table_of(self.results), encoding="utf-8")

    def killer(self, mutant, tests):
        """The first of these tests that fails with the mutant; a crash or a hang has no test's name."""
        listed = self.tree / f"build/reached/{mutant.number}.txt"
        listed.write_text("\n".join(each["test"] for each in tests), encoding="utf-8")
        limit = 60 + 6 * sum(each["seconds"] for each in tests)
        chosen = {"FOREBAY_MUTANT": str(mutant.number)}
        status, output = run_tests(self.tree, ["-x", f"@{listed}"], limit, **chosen)
        if status is None:
            return f"hang: more than {limit:.0f} s"
        failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.M)
        return failed[0] if failed else None if status == 0 else f"crash: pytest ended with {status}"


def table_of(results):
    """The results as Markdown: a line for each package, and for each mutant."""
    counts = Counter((each["package"], each["killed_by"] is None) for each in results.values())
    lines = ["| package | killed | alive |", "|---|---|---|"]
    lines += [f"| {name} | {counts[name, False]} | {counts[name, True]} |" for name in PACKAGES]
    lines += ["", "| mutant | operator | tests that come by | killed by | fault of the past |", "|---|---|---|---|---|"]
    for text, each in results.items():
        text = text.replace("|", "\\|")
        killer = each["killed_by"] or "**alive**"
        lines.append(f"| `{text}` | {each['operator']} | {each['tests']} | {killer} | {each['origin']} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__.split("\n")[0])
    parser.add_argument("--tree", type=Path, default=Path("build/mutants"), help="scratch folder; it is kept")
    parser.add_argument("--tests", type=Path, default=Path(), help="the clone whose folder tests/ judges the mutants")
    parser.add_argument("--only", help="numbers of mutants, such as 3,17")
    parser.add_argument("--package", choices=PACKAGES)
    parser.add_argument("--results", type=Path, default=Path("build/mutants.json"), help="a table comes beside it")
    parser.add_argument("--resume", action="store_true", help="leave out mutants that the results have")
    parser.add_argument("--marked", default="not long", help="which tests, as pytest's -m takes it")
    parser.add_argument("-n", type=int, default=len(os.sched_getaffinity(0)), help="processes at once")
    parser.add_argument("--build-only", action="store_true")
    options = parser.parse_args()
    every = mutants()
    tree = options.tree.resolve()
    prepare(tree, options.tests, every)
    if options.build_only:
        return
    results = json.loads(options.results.read_text()) if options.resume and options.results.exists() else {}
    known = tree / "build/reached.json"
    if not (options.resume and known.exists()):
        known.write_text(json.dumps(reach(tree, options.marked, options.n)), encoding="utf-8")
    judge = Judge(tree, options.results, results, json.loads(known.read_text(encoding="utf-8")))
    numbers = {int(number) for number in options.only.split(",")} if options.only else {each.number for each in every}
    left = [each for each in every if each.number in numbers and options.package in (None, each.package)]
    for stage in range(len(STAGES) - 1):
        with ThreadPoolExecutor(options.n) as threads:
            list(threads.map(partial(judge.judge, stage), [each for each in left if each.text not in results]))
    alive = sum(each["killed_by"] is None for each in results.values())
    print(f"{len(results) - alive} killed, {alive} alive: {options.results.with_suffix('.md')}")


if __name__ == "__main__":
    main()
