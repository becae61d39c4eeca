"""Which methods of placing a task graph win, and where? On random graphs of four forms.

    python benchmarks/placing.py [--tasks 8,20,40,100] [--graphs 6] [--json F]

The methods are those of sparkle_drv/sched/decide/schedule.py, and the changes of local_search.py.
The script leaves out one method at a time and places the graphs without it. The figures are the
number of graphs whose schedule is then longer (by more than 0.1 %), by how much on average and at
worst, and the number of graphs with a shorter one. The last figure is the time of placing. A
method without which no schedule is longer does not belong in the package.

Exit codes: 0 well, 2 usage.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from _console import output
from _inside.placements import measured


def main(argv: list[str] | None = None) -> int:
    """Places the graphs and prints a table for each number of tasks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tasks", default="8,20,40,100", help="tasks per graph, with commas")
    parser.add_argument("--graphs", type=int, default=6, help="graphs of each form")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(argv)
    parts = {}
    for tasks in map(int, given.tasks.split(",")):
        parts[str(tasks)] = found = measured(tasks, given.graphs)
        print(f"{tasks} tasks; without    longer     mean    worst  shorter  placing")
        for name, row in found.items():
            print(
                f"{name or '(nothing)':20}{row['longer']:9.1%}{row['mean']:9.2%}{row['worst']:9.2%}"
                f"{row['shorter']:9.1%}{row['ms']:6.1f} ms"
            )
    if given.json:
        text = json.dumps(parts, indent=1) + "\n"
        return 0 if output.save("placing.py", given.json, text) else 1
    return 0


if __name__ == "__main__":
    sys.exit(output.guarded("placing.py", main))
