"""Counts the lines of code of each layer and lists the files that are too long (`make loc`).

A room is a folder of sources. --tokens REV counts the tokens of the rooms whose code a launch
executes, now and at commit REV. --names prints names that say little. --rooms prints all rooms. It
exits 1 when a room has too many files, has no sentence that describes it, or breaks the order of
imports. Exit code 2: an argument names no checkout, commit or folder.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import defaultdict
from pathlib import Path

from _console import output
from _loc import layers, names, tokens, tree
from _loc.rooms import MOST, Room, circles, read, room_of, units

ROOT = Path(__file__).resolve().parent.parent
TOO_LONG = 400


def count(root: Path) -> dict[str, dict[str, int]]:
    """Counts the lines of each hand-written file, by top folder, or by folder in sparkle_drv/ and
    native/.
    """
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for path in tree.sources(root):
        text = tree.read(root, path)
        parts = path.split("/")
        deep = 2 if parts[0] in ("sparkle_drv", "native") and len(parts) > 2 else 1
        if tree.written_by_hand(text):
            found["/".join(parts[:deep])][path] = len(text.splitlines())
    return found


def report(lines: dict[str, dict[str, int]]) -> str:
    """Returns a table with a row for each layer, then the files that are too long."""
    rows = [f"{'layer':<28}{'files':>6}{'lines':>8}{'median':>8}  longest"]
    for name, files in sorted(lines.items()):
        longest = max(files, key=lambda path: files[path])
        middle = round(statistics.median(files.values()))
        head = f"{name:<28}{len(files):>6}{sum(files.values()):>8}{middle:>8}"
        rows.append(f"{head}  {files[longest]} {longest}")
    for files in lines.values():
        rows += [f"over {TOO_LONG}: {n} {path}" for path, n in files.items() if n > TOO_LONG]
    return "\n".join(rows)


def told(rooms: dict[str, Room], below: str = "") -> str:
    """Returns lines about each room (folder of sources): the number of its files, the sentence that
    describes it, the rooms that it imports, and the rooms that import it.
    """
    rows = []
    for room in rooms.values():
        if not room.name.startswith(below):
            continue
        into = sorted(other.name for other in rooms.values() if room.name in other.out)
        rows.append(f"{len(room.files):>3}  {room.name}\n     {room.sentence or 'NO SENTENCE'}")
        arrows = (("->", sorted(room.out)), ("<-", into))
        rows += [f"     {way} {' '.join(names)}" for way, names in arrows if names]
    return "\n".join(rows)


def complaints(rooms: dict[str, Room]) -> list[str]:
    """Returns what is wrong with the rooms (folders of sources), one line for each fault."""
    many = [f"{r.name}: {len(r.files)} sources, at most {MOST}" for r in rooms.values()]
    found = [line for line, r in zip(many, rooms.values(), strict=True) if len(r.files) > MOST]
    found += [f"{r.name}: no sentence" for r in rooms.values() if not r.sentence]
    for group in circles({r.name: r.out for r in rooms.values()}):
        found.append(f"a circle: {', '.join(group)}")
        inside = (arrow for name in group for target, given in rooms[name].out.items()
                  for arrow in given[:3] if target in group)  # fmt: skip
        found += [f"    {arrow}" for arrow in inside]
    found += [f"C files in a circle: {', '.join(group)}" for group in circles(units(rooms))]
    return found + layers.violations(rooms)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout to look at")
    parser.add_argument(
        "--rooms", nargs="?", const="", metavar="FOLDER", help="folders, sentences and arrows"
    )
    parser.add_argument(
        "--tokens", metavar="REV", help="native/hot, native/core, core and ops, against a commit"
    )
    parser.add_argument(
        "--names", nargs="?", const=names.PACKAGE, metavar="FOLDER", help="names that say little"
    )
    args = parser.parse_args()
    if not tree.sources(args.root):
        parser.error(f"--root: expected a checkout of sparkle_drv, got {args.root}")
    if args.tokens is not None:
        try:
            print(tokens.report(tokens.compared(args.root, args.tokens)))
        except tokens.NoSuchRevision as error:
            parser.error(f"--tokens: expected a commit of this repository, got {error}")
        return 0
    if args.names is not None:
        print(names.report(names.read(args.root, args.names)))
        return 0
    if args.rooms is None:
        print(report(count(args.root)))
        return 0
    if not any(room_of(path).startswith(args.rooms) for path in tree.sources(args.root)):
        parser.error(f"--rooms: expected a folder such as native/hot, got {args.rooms}")
    rooms = read(args.root)
    wrong = complaints(rooms)
    print(told(rooms, args.rooms))
    most = max(len(room.files) for room in rooms.values())
    files = sum(len(room.files) for room in rooms.values())
    print(f"{len(rooms)} rooms, {files} sources, at most {most} in one; {len(wrong)} complaints")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(output.guarded("loc.py", main))
