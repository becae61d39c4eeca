"""`python -m sparkle_drv TOOL ...` runs tools/TOOL.py, in a checkout or an installed wheel.

info, doctor, explain, trace, replay, mesh, node and certs are subcommands of sparkle.py. An
installed package also has the commands sparkle, sparkle-bench, sparkle-bringup and sparkle-pm4.
"""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path

from sparkle_drv import assets

_TOOLS = (
    "bench",
    "bringup",
    "pm4",
    "rdna_as",
    "sparkle",
)  # tools that a wheel contains, too; a checkout has more tools
_WITHIN = dict.fromkeys(
    ("info", "doctor", "explain", "trace", "replay", "mesh", "node", "certs"), "sparkle"
)


def main(argv: list[str]) -> int:
    """Runs the tool that argv[0] names with the rest of `argv`.

    Returns 2 for an unknown tool, else 0. The exit code of a tool arrives as SystemExit.
    """
    folder = assets.folder("tools")
    names = sorted([*_TOOLS, *_WITHIN])
    if not argv or argv[0] not in names:
        print(f"usage: python -m sparkle_drv {{{','.join(names)}}} ...", file=sys.stderr)
        return 0 if argv[:1] in (["-h"], ["--help"]) else 2
    tool = _WITHIN.get(argv[0], argv[0])
    path = folder / f"{tool}.py"
    sys.argv = [str(path), *(argv if argv[0] in _WITHIN else argv[1:])]
    sys.path.insert(0, str(folder))
    runpy.run_path(str(path), run_name="__main__")
    return 0


def script() -> int:
    """Runs the tool of a console script: bench.py for `sparkle-bench`, sparkle.py for `sparkle`."""
    sys.path.insert(0, str(assets.folder("tools")))
    tool = Path(sys.argv[0]).name.removeprefix("sparkle-")
    # runpy would put the tool's path into sys.argv[0]; usage texts shall show the script's name.
    code: int = importlib.import_module(tool).main(sys.argv[1:])
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
