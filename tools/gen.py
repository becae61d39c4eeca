"""Generates the committed files that are made from tables: native/gen/ and files of the package.

`gen.py` writes the files that changed. `gen.py --check` writes nothing; it exits 1 if one is stale.
"""

from __future__ import annotations

from _reexec import reexec

reexec()

import argparse  # noqa: E402
import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from pathlib import Path  # noqa: E402

from _console import output  # noqa: E402
from _gen import isa, packets  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
PARTS = (isa, packets)


def outputs() -> dict[Path, str]:
    """Returns the text of every file that the modules in PARTS generate, by path."""
    made: dict[Path, str] = {}
    for part in PARTS:
        texts = part.outputs()
        if twice := made.keys() & texts.keys():
            raise ValueError(
                f"{part.__name__} generates files that another part generates, too: {sorted(twice)}"
            )
        made |= texts
    return made


def stale() -> dict[Path, str]:
    """Returns the paths whose file is missing or has another text, with the right text."""
    return {
        path: text
        for path, text in outputs().items()
        if not path.exists() or path.read_text() != text
    }


def main(argv: Sequence[str]) -> int:
    top = argparse.ArgumentParser(
        prog="gen.py",
        description=(__doc__ or "").partition("\n")[0],
        epilog="exit codes: 0 well, 1 stale files (--check) or an error in a table",
    )
    top.add_argument("--check", action="store_true", help="write nothing, name what is stale")
    args = top.parse_args(argv)
    for path, text in stale().items():
        print(f"{'stale' if args.check else 'wrote'} {path.relative_to(ROOT)}")
        if args.check:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 1 if args.check and stale() else 0


if __name__ == "__main__":
    sys.exit(output.guarded("gen.py", lambda: main(sys.argv[1:])))
