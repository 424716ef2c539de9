"""Run the tests again and again, each time in another order and beside a busy processor, and name those that failed.

``python -m tools.repeat 10 python -m pytest …``: ten times, by this command. Exits with 1 when any run failed.
"""

import random
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path


def failed(report):
    """Return the tests that failed in a run, by pytest's report of it."""
    if not report.exists():
        return ["the run itself"]
    cases = ET.parse(report).iter("testcase")
    return [
        f"{case.get('classname')}::{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]


def main():
    """Run the command so many times."""
    times, command, red = int(sys.argv[1]), sys.argv[2:], defaultdict(list)
    hog = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    began = time.monotonic()
    try:
        for turn in range(1, times + 1):
            seed, spent = random.getrandbits(32), time.monotonic() - began
            left = f", {spent / (turn - 1) * (times - turn + 1) / 60:.0f} min left" if turn > 1 else ""
            print(f"forebay: run {turn} of {times}, seed {seed}{left}", file=sys.stderr)
            with tempfile.TemporaryDirectory() as folder:
                report = Path(folder, "report.xml")
                done = subprocess.run([*command, f"--randomly-seed={seed}", f"--junitxml={report}"], check=False)
                for name in failed(report) or ["the run itself"] * bool(done.returncode):
                    red[name].append(seed)
    finally:
        hog.kill()
        hog.wait()
    for name, seeds in sorted(red.items()):
        print(f"forebay: {name} was red with the seeds {', '.join(map(str, seeds))}")
    print(f"forebay: ever red in {times} runs: {len(red) or 'nothing'}")
    sys.exit(bool(red))


if __name__ == "__main__":
    main()
