"""Calls among C files go one way: no file uses another one that uses it, directly or through more.

When this fails, two files know each other, and neither can be read, tested or replaced alone.

nm lists what each object of `make build` defines and what it uses. Only the project's own names
count: the preload library defines functions of the C library, too.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable

from _loc import rooms
from where import ROOT

OBJECTS = ROOT / "build/obj/native"
OUR_NAME = re.compile(r"(sp|kmd)_\w+$")
USED, DEFINED = "U", "TDBRVW"


def symbols() -> str:
    """What nm says of the objects whose sources exist; an object may outlive its source."""
    sources = sorted((ROOT / "native").rglob("*.c"))
    objects = [
        OBJECTS / source.relative_to(ROOT / "native").with_suffix(".o") for source in sources
    ]
    present = [str(path.relative_to(OBJECTS)) for path in objects if path.is_file()]
    assert len(present) > 250, f"expected the objects of make build, got {len(present)} objects"
    command = ["nm", "-A", *present]
    return subprocess.run(command, cwd=OBJECTS, capture_output=True, text=True, check=True).stdout


def uses(lines: Iterable[str]) -> dict[str, dict[str, set[str]]]:
    """File -> file whose names it uses -> those names. A line is `FILE.o: ADDRESS KIND NAME`."""
    wanted: dict[str, set[str]] = {}
    home: dict[str, str] = {}
    for line in lines:
        path, _, rest = line.partition(".o:")
        *_, kind, name = rest.split()
        if OUR_NAME.match(name) and kind == USED:
            wanted.setdefault(path, set()).add(name)
        elif OUR_NAME.match(name) and kind in DEFINED:
            home[name] = path
    graph: dict[str, dict[str, set[str]]] = {}
    for path, names in wanted.items():
        for name in names & home.keys():
            graph.setdefault(path, {}).setdefault(home[name], set()).add(name)
    return graph


def circles(graph: dict[str, dict[str, set[str]]]) -> list[str]:
    """One line for each use inside a circle of files."""
    return [
        f"{path}.c uses {', '.join(sorted(graph[path][other]))} of {other}.c"
        for group in rooms.circles(graph)
        for path in group
        for other in sorted(graph[path].keys() & set(group))
    ]


def test_no_c_files_use_one_another():
    found = circles(uses(symbols().splitlines()))
    assert not found, "\n".join(found)


def test_a_circle_is_found():
    lines = [
        "egl/a.o:0000000000000000 T sp_a",
        "egl/a.o:                 U sp_b",
        "egl/b.o:0000000000000000 T sp_b",
        "egl/b.o:                 U sp_c",
        "dl/c.o:0000000000000000 D sp_c",
        "dl/c.o:                 U sp_a",
        "dl/c.o:                 U malloc",
        "dl/d.o:                 U sp_a",
    ]
    assert circles(uses(lines)) == [
        "dl/c.c uses sp_a of egl/a.c",
        "egl/a.c uses sp_b of egl/b.c",
        "egl/b.c uses sp_c of dl/c.c",
    ]
    assert circles(uses(lines[:-3])) == []


def test_a_name_of_the_c_library_is_no_use():
    lines = ["a.o:0000 T fopen", "a.o: U sp_b", "b.o:0000 T sp_b", "b.o: U fopen"]
    assert circles(uses(lines)) == []
