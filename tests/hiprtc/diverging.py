"""Programs whose threads return, part and meet again at barriers, as HIP C++ and simulated thread by thread.

A barrier lets threads on when each thread of the block is at one or has returned. An exchange has two barriers, so threads
that go different ways never touch the same place between the same two.
"""

from __future__ import annotations

from hypothesis import strategies as st

__all__ = ["programs", "simulated", "source_of"]

MASK = 0xFFFFFFFF
HEAD = """
extern "C" __global__ void k(const unsigned* x, const unsigned* u, unsigned* o, unsigned p, unsigned limit) {
  __shared__ unsigned t[256];
  unsigned n = blockDim.x * blockDim.y, l = threadIdx.x + blockDim.x * threadIdx.y, i = blockIdx.x * n + l;
  t[l] = 0; __syncthreads();
  if (i >= limit) return;
  unsigned v = x[i];
"""

own = st.tuples(st.just("own"), st.integers(1, 7), st.integers(2, 9), st.integers(0, 2))
same = st.one_of(
    st.tuples(st.just("argument"), st.integers(2, 4), st.integers(0, 2)),
    st.tuples(st.just("memory"), st.integers(0, 7), st.integers(0, 9)),
)
times = st.one_of(
    st.tuples(st.just("constant"), st.integers(1, 3)),
    st.just(("argument",)),
    st.tuples(st.just("memory"), st.integers(0, 7)),
)
conditions = st.one_of(own, same)
cases = st.one_of(
    st.just(("own", 3, 4, 0)), st.just(("argument", 4, 0)), st.tuples(st.just("memory"), st.integers(0, 7))
)


@st.composite
def programs(draw):
    """A list of statements.

    In half of them threads may come to different barriers. These have no votes: compilers make two places of one and
    one of two, and which threads vote together would then depend on it.
    """
    return draw(statements(draw(st.booleans())))


@st.composite
def statements(draw, mixed, depth=3, loop=False, parted=False):
    kinds = ["add", "return", *["vote"] * (not mixed and not parted), *["break"] * (loop and (mixed or not parted))]
    kinds += ["exchange"] * 3 * (mixed or not parted) + ["if", "for", "while", "switch"] * (depth > 0)
    made = []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(kinds))
        if kind in ("exchange", "add"):
            made.append((kind, draw(st.integers(1, 70))))
        elif kind == "while":
            made.append((kind, draw(st.integers(1, 5))))
        elif kind == "vote":
            made.append((kind, draw(st.sampled_from(["count", "and", "or"])), len(made)))
        elif kind == "return":
            made.append((kind, draw(conditions), draw(st.booleans())))
        elif kind == "break":
            made.append((kind, draw(conditions if mixed else same)))
        elif kind == "if":
            condition = draw(conditions)
            inside = statements(mixed, depth - 1, loop, parted or condition[0] == "own")
            made.append((kind, condition, draw(inside), draw(st.one_of(st.just([]), inside))))
        elif kind == "switch":
            which = draw(cases)
            inside = statements(mixed, depth - 1, False, parted or which[0] == "own")
            made.append((kind, which, draw(inside), draw(inside), draw(st.one_of(st.just([]), inside))))
        else:
            made.append((kind, draw(times), draw(statements(mixed, depth - 1, True, parted))))
    return made


def source_of(program):
    """Return a program in HIP C++."""
    return HEAD + "\n".join(_lines(program)) + "\n  o[i] = v;\n}\n"


def _condition(condition):
    kind, *rest = condition
    if kind == "own":
        return "(v * {}u + l) % {}u == {}u".format(*rest)
    return ("p % {}u == {}u" if kind == "argument" else "u[{}] % 10u > {}u").format(*rest)


def _which(cases):
    return {"own": "(v * 3u + l) % 4u", "argument": "p % 4u", "memory": f"u[{cases[1]}] % 4u"}[cases[0]]


def _lines(program, depth=0):
    for kind, *rest in program:
        if kind == "exchange":
            yield f"t[l] = v; __syncthreads(); v = v * 5u + t[(l + {rest[0]}u) % n]; __syncthreads();"
        elif kind == "add":
            yield f"v = v * 3u + {rest[0]}u; o[i] = v;"
        elif kind == "return":
            yield f"if ({_condition(rest[0])}) {{ {'o[i] = v + 1u; ' if rest[1] else ''}return; }}"
        elif kind == "vote":
            yield f"v += 7u * __syncthreads_{rest[0]}(v & 1u);"
        elif kind == "break":
            yield f"if ({_condition(rest[0])}) break;"
        elif kind == "while":
            yield f"for (unsigned w = v % {rest[0]}u; w < {rest[0]}u; w++) v = v * 11u + w;"
        elif kind == "if":
            yield f"if ({_condition(rest[0])}) {{"
            yield from _lines(rest[1], depth)
            yield "} else {"
            yield from _lines(rest[2], depth)
            yield "}"
        elif kind == "switch":
            yield f"switch ({_which(rest[0])}) {{"
            for label, body in zip(("case 0:", "case 1: case 3:", "default:"), rest[1:], strict=True):
                yield f"{label} {{"
                yield from _lines(body, depth)
                yield "} break;"
            yield "}"
        else:
            (how, *number) = rest[0]
            count = {"constant": "{}u", "argument": "p % 4u", "memory": "u[{}] % 4u"}[how].format(*number)
            yield f"for (unsigned j{depth} = 0; j{depth} < {count}; j{depth}++) {{ v += j{depth};"
            yield from _lines(rest[1], depth + 1)
            yield "}"


class _ReturnedError(Exception):
    pass


class _Thread:
    """One thread, as a generator: it yields None at a barrier, and (kind, place, value) at a vote."""

    def __init__(self, program, index, lane, count, value, u, p, t, o):
        self.program, self.i, self.l, self.n, self.v = program, index, lane, count, value
        self.u, self.p, self.t, self.o = u, p, t, o

    def run(self):
        try:
            yield from self._run(self.program)
            self.o[self.i] = self.v
        except _ReturnedError:
            pass

    def _is(self, condition):
        kind, *rest = condition
        if kind == "own":
            return (self.v * rest[0] + self.l & MASK) % rest[1] == rest[2]
        return self.p % rest[0] == rest[1] if kind == "argument" else self.u[rest[0]] % 10 > rest[1]

    def _run(self, program):
        """Run statements; true if a loop is to be left."""
        for statement in program:
            kind, *rest = statement
            if kind == "exchange":
                self.t[self.l] = self.v
                yield None
                self.v = self.v * 5 + self.t[(self.l + rest[0]) % self.n] & MASK
                yield None
            elif kind == "add":
                self.o[self.i] = self.v = self.v * 3 + rest[0] & MASK
            elif kind == "return" and self._is(rest[0]):
                if rest[1]:
                    self.o[self.i] = self.v + 1 & MASK
                raise _ReturnedError
            elif kind == "vote":
                yield None
                result = yield rest[0], id(statement), self.v & 1
                self.v = self.v + 7 * result & MASK
            elif kind == "break" and self._is(rest[0]):
                return True
            elif kind == "while":
                for w in range(self.v % rest[0], rest[0]):
                    self.v = self.v * 11 + w & MASK
            elif kind == "if":
                if (yield from self._run(rest[1] if self._is(rest[0]) else rest[2])):
                    return True
            elif kind == "switch":
                (how, *number) = rest[0]
                which = {"own": self.v * 3 + self.l & MASK, "argument": self.p, "memory": self.u[number[0]]}[how] % 4
                yield from self._run(rest[(1, 2, 3, 2)[which]])
            elif kind == "for":
                (how, *number) = rest[0]
                argument = self.p % 4 if how == "argument" else number[0]
                for j in range(self.u[argument] % 4 if how == "memory" else argument):
                    self.v = self.v + j & MASK
                    if (yield from self._run(rest[1])):
                        break
        return False


def simulated(program, x, u, p, blocks, limit):
    """Return what a program leaves in o, where 7 was."""
    o, n = [7] * len(x), len(x) // blocks
    for block in range(blocks):
        t = [0] * n
        threads = {
            lane: _Thread(program, block * n + lane, lane, n, x[block * n + lane], u, p, t, o).run()
            for lane in range(n)
            if block * n + lane < limit
        }
        told = dict.fromkeys(threads)
        while threads:
            votes = {}
            for lane, thread in list(threads.items()):
                try:
                    vote = thread.send(told[lane])
                except StopIteration:
                    del threads[lane]
                else:
                    if vote:
                        votes.setdefault(vote[:2], {})[lane] = vote[2]
            told = dict.fromkeys(threads)
            for (kind, _), given in votes.items():
                result = {"count": sum, "and": all, "or": any}[kind](given.values())
                told |= dict.fromkeys(given, int(result))
    return o
