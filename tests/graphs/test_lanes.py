"""How graphs are cut into lanes and segments: by what must be so for any graph, and for a few by how it should be."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.queues.graphs.shape import LANES, Segment, segments_of


@st.composite
def graphs(draw):
    """What each node depends on, and whether it does anything."""
    size = draw(st.integers(0, 24))
    dependencies = [sorted(draw(st.sets(st.integers(0, i - 1), max_size=4))) if i else [] for i in range(size)]
    acting = [draw(st.integers(0, 5)) > 0 for _ in range(size)]
    return dependencies, acting


def ancestors(dependencies):
    before = []
    for earlier in dependencies:
        before.append(set(earlier).union(*[before[i] for i in earlier]))
    return before


class Run:
    """What comes before what, when lanes run in order and segments wait for segments."""

    def __init__(self, segments, without=None):
        """`without`: a segment, and which of its waits is left out."""
        self.ends = []  # what is done at the end of each segment
        self.begins = []  # what is done before each
        self.lanes = [set() for _ in range(LANES)]
        self.before = {}
        for i, segment in enumerate(segments):
            done = self.lanes[segment.lane]
            for at, other in enumerate(segment.waits):
                if (i, at) != without:
                    done |= self.ends[other]
            self.begins.append(set(done))
            for node in segment.nodes:
                self.before[node] = set(done)
                done.add(node)
            self.ends.append(set(done))


@pytest.mark.long
@pytest.mark.every_driver
@settings(max_examples=300)
@given(graphs())
def test_any_graph(graph):
    dependencies, acting = graph
    segments = segments_of(dependencies, acting)
    nodes = [node for node, acts in enumerate(acting) if acts]
    assert sorted(node for segment in segments for node in segment.nodes) == nodes
    run = Run(segments)
    for node, before in enumerate(ancestors(dependencies)):
        if acting[node]:
            assert run.before[node] >= before.intersection(nodes)
    assert run.lanes[0] == set(nodes)  # the queue that it is launched on comes after all of it
    awaited = {other for segment in segments for other in segment.waits}
    seen = set()
    for i, segment in enumerate(segments):
        assert 0 <= segment.lane < LANES
        assert segment.awaited == (i in awaited)
        assert all(other < i and segments[other].lane != segment.lane for other in segment.waits)
        assert segment.nodes or (i == len(segments) - 1 and segment.lane == 0 and segment.waits)
        assert segment.from_start == (segment.lane not in seen and segment.lane != 0 and not segment.waits)
        if segment.lane not in seen:
            assert segment.lane == len(seen)  # so that the first segment is the launch queue's
        seen.add(segment.lane)
        for at in range(len(segment.waits)):
            assert Run(segments, (i, at)).begins[i] < run.begins[i]


@settings(max_examples=50)
@given(st.lists(st.booleans(), min_size=1, max_size=30))
def test_a_chain_is_one_segment(acting):
    dependencies = [[i - 1] if i else [] for i in range(len(acting))]
    nodes = [i for i, acts in enumerate(acting) if acts]
    assert segments_of(dependencies, acting) == ([Segment(0, nodes)] if nodes else [])


def cut(*dependencies, idle=()):
    return segments_of(dependencies, [i not in idle for i in range(len(dependencies))])


def test_nothing():
    assert cut() == []
    assert cut([], [0], idle=(0, 1)) == []


def test_a_fork_and_a_join():
    assert cut([], [0], [0], [1, 2]) == [
        Segment(0, [0], awaited=True), Segment(0, [1]), Segment(1, [2], [0], awaited=True), Segment(0, [3], [2]),
    ]  # fmt: skip


def test_two_that_nothing_joins():
    assert cut([], []) == [
        Segment(0, [0]), Segment(1, [1], awaited=True, from_start=True), Segment(0, [], [1]),
    ]  # fmt: skip


def test_no_more_lanes_than_there_may_be():
    many = cut(*[[] for _ in range(40)])
    assert {segment.lane for segment in many} == set(range(LANES))
    assert [len(segment.nodes) for segment in many] == [10] * LANES + [0]
    assert sorted(many[-1].waits) == [1, 2, 3]


def test_an_end_that_implies_another_is_waited_for_alone():
    # Lane 1 ends before lane 2 goes on, so the end of lane 2 is all there is to wait for.
    ends = cut([], [], [], [1, 2])
    assert ends[-1].nodes == []
    assert len(ends[-1].waits) == 1
