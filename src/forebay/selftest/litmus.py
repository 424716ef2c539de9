"""The litmus tests, by chapter. Each is a small program in which order can be seen: slow commands come first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from forebay.selftest.scene import Scene, words_of

NEEDS_EXECUTION = {"call", "host", "until", "within"}
"""What would wait for ever on a device that executes nothing."""


@dataclass(frozen=True)
class Litmus:
    """A small program with one right result. Chapter and name together name one test."""

    chapter: str
    name: str
    text: str  # in the notation of `Scene`

    def __call__(self, scene: Scene) -> None:
        """Run it."""
        scene.play(self.text)

    @property
    def needs_execution(self) -> bool:
        """Whether it would wait for ever on a device that executes nothing."""
        return not NEEDS_EXECUTION.isdisjoint(words_of(self.text))

    def __str__(self) -> str:
        return f"{self.chapter}: {self.name}"


# -- pairs: each kind of queue, and each after it

ACCESSES = {
    "write, then read": ("x", "y x"),
    "read, then write": ("y x", "x"),
    "write, then write": ("x", "x"),
}
"""What a slow command on one queue and a quick one on another do with the same memory."""
WAYS = {
    "rule": "",
    "event": "record {0} e; wait {1} e;",
    "queue": "wait {1} {0};",
    "no wait": "record {0} e;",  # or the first command would perhaps not be submitted before the second
}
FIRST = {"null": "N", "blocking": "A", "non-blocking": "a", "per-thread": "T"}
SECOND = {"null": "N", "blocking": "B", "non-blocking": "b", "per-thread": "T", "per-thread, of another thread": "O"}


def _access(access: str, first: str, second: str, way: str) -> str:
    slow, quick = ACCESSES[access]
    return f"slow {first} {slow}; {WAYS[way].format(first, second)} quick {second} {quick}"


def _orders_by_itself(first: str, second: str) -> bool:
    """HIP's rule: the null queue and each blocking queue are ordered. One queue is ordered anyway."""
    return (first == second and first in ("null", "per-thread")) or (
        "null" in (first, second) and "non-blocking" not in (first, second)
    )


def _pairs() -> Iterator[Litmus]:
    for first, a in FIRST.items():
        for second, b in SECOND.items():
            for way in ("rule", "event") if _orders_by_itself(first, second) else ("event", "queue"):
                for access in ACCESSES:
                    after = "" if way == "rule" else f" after a wait for the {way}"
                    name = f"{first}, then {second}{after}: {access}"
                    yield Litmus("pairs of queues", name, _access(access, a, b, way))


# -- programs in the notation


def _each(count: int, text: str) -> str:
    """Return the statements for the numbers from 0 on: ``{0}`` is the number, ``{1}`` the next, and ``{2}`` slow for
    each third.
    """
    return "".join(f"{text.format(i, i + 1, 'quick' if i % 3 else 'slow')}; " for i in range(count))


def _forked(graph: str, x: str, y: str, z: str) -> str:
    """Return a graph that forks to another queue and joins it."""
    fork = f"slow q {x}; wait r q; slow r {y} {x}; quick q {z} {x}; wait q r; quick q {x} {y}"
    return f"capture q {graph} {{ {fork} }}; "


PROGRAMS: dict[str, dict[str, str]] = {
    "events": {
        "A wait is for the record of then, and the next wait for the record of now":
            "slow a x; record a e; wait b e; slow a y; record a e; wait c e; quick b z x; quick c w y; quick c y",
        "An event that is recorded on another queue means that one":
            "event e; slow a x; record a e; slow b y; record b e; wait c e; quick c z y",
        "Six queues wait for one event":
            "slow a x; record a e; " + _each(6, "wait b{0} e; quick b{0} y{0} x"),
        "A queue waits for six events at once":
            _each(6, "slow b{0} y{0}; record b{0} e{0}; wait a e{0}") + _each(6, "quick a x y{0}"),
        "A wait is for what came before the record, and the next is for the rest":
            "slow a x; record a e; slow a y; wait b e; quick b z x; wait b a; quick b z y",
        "A second wait for the same event orders as the first did":
            "slow a x; record a e; wait b e; wait b e; quick b y x; wait b e; quick b x",
        "A wait for an event that was never recorded, and one for the queue":
            "slow a x; event e; wait b e; wait b a; quick b y x",
        "A queue that only waits is waited for":
            "slow a x; wait b a; wait c b; quick c y x",
        "A timed record orders like any other, and its times do not go back":
            "time timed s; slow timed x; time timed e; wait b e; quick b y x; wait e; later e s",
    },
    "chains": {
        "Sixteen queues in a row, and the first one's memory at the end":
            "slow a0 x; " + _each(15, "wait a{1} a{0}") + "quick a15 y x",
        "Eight queues in a row, each of which changes the same memory":
            _each(8, "{2} a{0} x; record a{0} e{0}; wait a{1} e{0}"),
        "Four queues hand memory round, three times":
            "3 { slow a x; wait b a; quick b x; wait c b; quick c x; wait d c; quick d x; wait a d }",
        "A queue forks to two others, and joins them":
            "slow a x; record a e; wait b e; slow b y x; wait a b; wait c e; slow c z x; wait a c; quick a x y; "
            "quick a x z",
        "A wait that another one implies, and then one that is new":
            "slow a x; wait b a; slow b y x; wait c b; wait c a; quick c z x; quick c x; wait a c; slow a x; wait c a; "
            "quick c z x",
        "Two queues wait for each other in turn":
            "4 { slow a x y; wait b a; quick b y x; wait a b }",
        "The null queue comes after eight blocking queues, and they come after it":
            _each(8, "slow A{0} y{0}") + _each(8, "quick N x y{0}") + "slow N x; " + _each(8, "quick A{0} y{0} x"),
        "Two blocking queues are ordered by a command of the null queue between theirs":
            "slow A x; quick N z; quick B y x",
        "The same by a record: it is a command of the null queue, too":
            "slow A x; record N e; quick B y x; wait c e; quick c z x",
        "The null queue waits for a non-blocking queue, and so does what comes after it":
            "slow a x; wait N a; quick B y x",
        "A wait for a queue with six hundred commands between two slow ones":
            "slow a x; 600 { quick a x }; slow a x; wait b a; quick b y x",
        "An urgent queue waits for one that is not, and the other way round":
            "slow patient x; wait urgent patient; slow urgent y x; wait patient urgent; quick patient x y",
        "Bound launches on two queues, in turn":
            "4 { bound a slow x y; wait b a; bound b quick y x; wait a b }",
    },
    "host": {
        "A host function finds what was copied before it, and what it leaves is copied after it":
            "slow a x; copy a p x; host a p; copy a y p",
        "A queue that waits for one with a host function comes after the function":
            "slow a x; host a p; wait b a; copy b y p; quick b x",
        "Host functions of two queues that wait for each other":
            "3 { slow a x; host a p; wait b a; host b p; wait a b }",
        "The null queue comes after a host function of a blocking queue":
            "slow A x; host A p; copy N y p",
        "A blocking queue comes after a host function of the null queue":
            "slow A x; copy N p x; host N p; copy A y p",
        "What a host function launches comes before what waits for it":
            "slow a x; call a { slow b y }; finish a; wait a b; quick a x y",
        "After a finish another queue needs no wait":
            "slow a x; finish a; empty a; quick b y x",
        "A finish is also for what the queue has waited for":
            "slow a x; wait b a; finish b; empty a; quick c y x",
        "A finish of the null queue speaks for the blocking queues":
            "slow A x; finish N; quick b y x",
        "A finish of the device is for all queues":
            _each(6, "slow a{0} y{0}") + "finish device; " + _each(6, "empty a{0}") + _each(6, "quick b x y{0}"),
        "A finish that may take only so long is for the same":
            "slow a x; within a; quick b y x",
        "The host waits for an event; what comes later on its queue goes on":
            "slow a x; record a e; slow a z; wait e; done e; quick b y x",
        "The host asks for an event until it is done":
            "slow a x; record a e; until e; quick b y x",
        "The host asks for a queue until it is done":
            "slow a x; until a; quick b y x",
    },
    "graphs": {
        "A graph comes after what its queue has waited for, and a queue comes after the graph":
            _forked("g", *"xyz") + "slow a x; wait b a; launch b g; wait c b; quick c w x; quick c y",
        "A graph is launched four times, while it runs, on two queues":
            _forked("g", *"xyz") + "2 { launch a g }; 2 { wait b a; launch b g }",
        "Two graphs on two queues, the second after the first":
            _forked("g", *"xyz") + _forked("g2", *"zxy") + "launch a g; wait b a; launch b g2",
        "A graph on the null queue comes between the commands of blocking queues":
            _forked("g", *"xyz") + "slow A x; launch N g; quick B y x",
        "A graph of launches, fills and copies in a row":
            "capture a g { slow a x; copy a y x; fill a x; slow a y x; copy a z y }; 2 { launch b g }",
        "A host function in a graph, between two copies":
            "capture a g { slow a x; copy a p x; host a p; copy a y p }; 2 { launch b g }",
        "A launch of a graph keeps its arguments when they are changed while it runs":
            "capture a g { slow a x y }; instantiate g; 3 { launch a g; alter g x y }; launch a g; finish a",
        "A graph with four branches side by side, and a node after all of them":
            f"capture q g {{ {_each(4, 'wait r{0} q; slow r{0} y{0} x')} {_each(4, 'wait q r{0}')} "
            f"{_each(4, 'quick q x y{0}')} }}; 2 {{ launch a g }}",
    },
    "steps": {
        "A step of twenty launches with other numbers each time":
            "5 { step a { slow a x; 10 { quick a y x; quick a x y } } }",
        "A step comes after what its queue has waited for, and a queue comes after the step":
            "step b { quick b y x }; wait a b; "
            "4 { slow a x; wait b a; step b { slow b y x }; wait c b; quick c z y; wait a c }",
        "A second queue takes part in a step, and the first one waits for it":
            "5 { step a { slow a x y; wait b a; slow b y x; wait a b; quick a x y }; wait b a }",
        "A step that is not the same each time":
            "".join(
                f"step a {{ slow a x y; {turn % 3} {{ quick a x }}; {turn % 2} {{ copy a y x }} }}; "
                "wait b a; quick b z x; wait a b; "
                for turn in range(6)
            ),
        "The null queue comes after a step of a blocking queue, and the next time the step after it":
            "4 { step A { quick A x y; slow A x }; quick N y x; slow N y }",
    },
    "memory pool": {
        "Memory that a queue has freed is used by its next commands":
            "4 { alloc a m; fill a m; slow a x m; free a m }",
        "Memory that a queue has freed is used by another, which waits":
            "alloc a m; fill a m; slow a x m; free a m; wait b a; alloc b m; fill b m; quick b y m; free b m; "
            "alloc b m; fill b m; slow b x m; free b m; wait a b; alloc a m; fill a m; quick a y m; free a m",
        "Another queue that does not wait gets no memory that may still be read":
            "alloc a m; fill a m; slow a x m; free a m; 3 { alloc b m; fill b m; quick b y m; free b m }",
        "Memory that is closed while a kernel uses it is not reused before that is done":
            "alloc a m; fill a m; slow a x m; drop m; alloc b m; fill b m; quick b y m; free b m",
        "Memory is used by a second queue, and freed by the first once that has waited":
            "alloc a m; fill a m; wait b a; slow b x m; wait a b; free a m; alloc a m; fill a m; quick a y m; free a m",
    },
    "copies": {
        "A copy on another queue, which waits for a kernel, and a kernel that waits for the copy":
            "slow a x; wait b a; copy b y x; wait a b; quick a z y; quick a x",
        "A fill on another queue, which waits for a kernel, and a kernel that waits for the fill":
            "slow a y x; wait b a; fill b x; wait a b; quick a y x",
        "Bytes of the host that are written over at once, behind a slow kernel":
            "slow a y x; 3 { upload a x; quick a y x }; wait b a; upload b x",
        "A copy to memory of the host, after a wait for another queue":
            "slow a x; wait b a; copy b h x; wait a b; quick a x",
        "Copies to pinned memory and back, on three queues":
            "slow a x; wait b a; copy b p x; wait c b; copy c y p; slow c y",
        "``get()`` without a queue comes after what has written to the memory":
            "slow a x; get x; slow A x; get x; slow N x; get x",
        "``set()`` without a queue comes after what uses the memory":
            "slow a y x; set x",
        "A large copy, and a queue that waits for it before it reads the end and writes to the source":
            "slow a X.end; copy a Y X; wait b a; quick b z Y.end; fill b X",
        "A large fill, and a queue that waits for it before it reads the end":
            "fill a X; wait b a; quick b z X.end",
        "Copies of every other element, behind slow kernels":
            "slow a x; wait b a; copy b y.even x.odd; wait a b; quick a x y",
        "Copies on the null queue come between kernels of blocking queues":
            "slow A x; copy N y x; slow B y; upload N y; quick A x y",
    },
    "closing": {
        "An event of a queue that was closed is waited for":
            "slow a x; record a e; close a; wait b e; quick b y x",
        "The null queue comes after a blocking queue that was closed":
            "slow A x; close A; quick N y x",
        "The null queue comes after the per-thread queues of threads that have ended, one after the other":
            _each(3, "thread {{ slow T y{0} }}") + _each(3, "quick N x y{0}"),
        "Queues are closed behind slow work, and new ones, which may get what was theirs, are ordered by events alone":
            "event e; 5 { new a; wait a e; slow a x y; record a e; close a }; new a; wait a e; quick a y x",
        "Memory that is closed while a kernel reads it is there until that is done":
            _each(3, "slow a x k{0}; drop k{0}"),
        "The null queue comes after a blocking queue that was dropped":
            "dropped x; quick N y x",
    },
    "threads": {
        "Four threads with a queue each, and a queue that waits for them":
            f"threads {{ {_each(4, '1 {{ slow a{0} y{0}; 20 {{ quick a{0} y{0} }} }}')} }}; "
            + _each(4, "wait b a{0}; quick b x y{0}"),
        "Four threads on one queue add to the same memory":
            f"slow a x; threads {{ {_each(4, '20 {{ increase a x {1} }}')} }}; slow a x; wait b a; quick b y x",
        "A thread waits for an event that another thread has recorded":
            "event e; " + _each(4, "thread {{ wait a{0} e; quick a{0} x; slow a{0} x; record a{0} e }}"),
        "Four threads with their default queues, and the null queue after them":
            f"threads {{ {_each(4, 'slow T y{0}')} }}; " + _each(4, "quick N x y{0}"),
    },
}  # fmt: skip


LITMUS: tuple[Litmus, ...] = (
    *_pairs(),
    *(Litmus(chapter, name, text) for chapter, tests in PROGRAMS.items() for name, text in tests.items()),
)
RACES: tuple[Litmus, ...] = tuple(
    Litmus("without a wait", access, _access(access, "a", "b", "no wait")) for access in ACCESSES
)
"""Programs that lack a wait. Where none of them goes wrong, a lost wait would not be seen either."""
