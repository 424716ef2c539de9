"""Reads a trace as Chrome's trace event format has it, and checks the rules that Perfetto and Chrome rely on."""

import json
from bisect import bisect_right
from collections import defaultdict
from itertools import pairwise

HOST, QUEUES = "host", "queues"


class Trace:
    """A file of `forebay.trace`, found to be right: what it says `about` itself, and its tracks, arrows and counters.

    `slices` are in the order of time, by the names of a process and a track. An arrow is a pair of them; a counter is
    pairs of a time and a number of commands.
    """

    def __init__(self, path):
        text = path.read_text(encoding="utf-8")
        whole = json.loads(text)
        assert set(whole) == {"displayTimeUnit", "otherData", "traceEvents"}
        self.about = whole["otherData"]
        assert self.about["commands of unknown queues"] == 0
        events = whole["traceEvents"]
        assert {event["ph"] for event in events} <= set("MXCsf")
        processes, names = {}, {}
        for event in events:
            if event["ph"] == "M":
                known = processes if event["name"] == "process_name" else names
                key = event["pid"] if known is processes else (event["pid"], event["tid"])
                assert known.setdefault(key, event["args"]["name"]) == event["args"]["name"]
        assert len({thread for _, thread in names}) == len(names), "Perfetto takes equal numbers for one thread"
        self.slices = {(processes[place[0]], name): [] for place, name in names.items()}
        by_place = defaultdict(list)
        for event in events:
            if event["ph"] == "X":
                assert event["ts"] >= 0
                assert event["dur"] >= 0
                assert event["name"]
                self.slices[processes[event["pid"]], names[event["pid"], event["tid"]]].append(event)
                by_place[event["pid"], event["tid"]].append(event)
        for track in self.slices.values():
            check_nesting(track)
        self.arrows = self.read_arrows(events, by_place)
        self.waits = self.arrows.get("wait", [])
        self.counters = defaultdict(list)
        for event in events:
            if event["ph"] == "C":
                self.counters[event["name"]].append((event["ts"], event["args"]["commands"]))
        for values in self.counters.values():
            assert values == sorted(values, key=lambda each: each[0])
            assert all(count >= 0 for _, count in values)

    @staticmethod
    def read_arrows(events, by_place):
        """The arrows by kind. Each has one beginning and one end, both in a slice, and does not go back in time."""
        ends = defaultdict(dict)
        for event in events:
            if event["ph"] in "sf":
                assert event["ph"] not in ends[event["cat"], event["id"]]
                ends[event["cat"], event["id"]][event["ph"]] = event
        arrows = defaultdict(list)
        for (kind, _), both in ends.items():
            assert set(both) == {"s", "f"}
            assert both["s"]["ts"] <= both["f"]["ts"]
            assert both["f"]["bp"] == "e", "an arrow ends in the slice around its time, not in the next one"
            slices = []
            for end in (both["s"], both["f"]):
                track = by_place[end["pid"], end["tid"]]
                place = bisect_right(track, end["ts"], key=lambda each: each["ts"])
                assert place
                found = track[place - 1]
                assert found["ts"] <= end["ts"] <= round(found["ts"] + found["dur"], 3)
                slices.append(found)
            arrows[kind].append(tuple(slices))
        return arrows

    @property
    def queues(self):
        """The tracks of queues by name."""
        return {name: track for (process, name), track in self.slices.items() if not process.startswith("host:")}

    @property
    def host(self):
        """The slices of all threads."""
        return [each for (process, _), track in self.slices.items() if process.startswith("host:") for each in track]

    def of_kind(self, kind):
        """All slices of this kind."""
        return [each for track in self.slices.values() for each in track if each["cat"] == kind]

    def launches(self, kernel=None):
        """How many launches there are, those of recorded stretches included."""
        names = [each["name"] for each in self.of_kind("launch")]
        for each in self.of_kind("recording"):
            names += each["args"]["commands"]
        return len([name for name in names if kernel in (None, name)])


def check_nesting(track):
    """Slices come in the order of time, and one that begins within another ends within it."""
    open_until = []
    for earlier, each in pairwise([None, *track]):
        assert earlier is None or earlier["ts"] <= each["ts"]
        end = round(each["ts"] + each["dur"], 3)
        while open_until and open_until[-1] <= each["ts"]:
            open_until.pop()
        assert not open_until or end <= open_until[-1]
        open_until.append(end)


def check_one_after_the_other(track):
    """No slice begins before the one before it has ended."""
    for earlier, later in pairwise(track):
        assert round(earlier["ts"] + earlier["dur"], 3) <= later["ts"]
