"""What ``import holdfast`` costs beside ``python -c pass``. Promised: under 0.3 s and under 30 MB."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from yard.options import Options
from yard.table import print_table

_PEAK = "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"


def _run(program: str, rounds: int) -> tuple[float, float]:
    """Return the median seconds and megabytes of a program."""
    seconds, megabytes = [], []
    for _ in range(rounds):
        begun = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", f"{program}; {_PEAK}"], check=True, capture_output=True, text=True)
        seconds.append(time.perf_counter() - begun)
        megabytes.append(int(done.stdout) / 1024)
    return statistics.median(seconds), statistics.median(megabytes)


def main() -> None:
    options = Options(__doc__)
    options.number("rounds", 11, "processes of each, whose median counts")
    given = options.parse_args()
    bare = _run("pass", given.rounds)
    ours = _run("import holdfast", given.rounds)
    rows = [
        ("python -c pass", f"{bare[0]:.3f}", f"{bare[1]:.1f}"),
        ("import holdfast", f"{ours[0]:.3f}", f"{ours[1]:.1f}"),
        ("the import alone", f"{ours[0] - bare[0]:.3f}", f"{ours[1] - bare[1]:.1f}"),
    ]
    print_table("Importing", ["program", "seconds", "MB"], rows)


if __name__ == "__main__":
    main()
