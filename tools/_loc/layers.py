"""Which room (folder) may import which: the layers of docs/architecture.md, as data.

Rooms in a lower layer import nothing of a higher layer. Rooms inside one layer may import one
another, without a circle. The folders of a layer in APART may not, because they are alternatives.
"""

from __future__ import annotations

from collections.abc import Mapping

from _loc.rooms import Arrow, Room

# The layers from top to bottom, named by folders. If the names of several layers are prefixes of a
# folder's path, the folder belongs to the layer with the longest name.
LAYERS = (
    "tests",
    "benchmarks",
    "benchmarks/_inside",
    "examples",
    "tools",
    "sparkle_drv/testing",
    "sparkle_drv/cluster",
    "sparkle_drv/plugin",
    "sparkle_drv/lowlevel.py",
    "sparkle_drv",
    "sparkle_drv/context.py",
    "sparkle_drv/sched",
    "sparkle_drv/mesh",
    "sparkle_drv/ops",
    "sparkle_drv/core",
    "sparkle_drv/codegen",
    "sparkle_drv/backends",
    "sparkle_drv/amd",
    "native/emu",
    "native/hot",
    "native/amdgpu",
    "native/cuda",
    "native/egl",
    "native/cpu",
    "native/dl",
    "native/kmd",
    "native/gen",
    "native/core",
    "native/include",
    "shaders",
    "sparkle_drv/telemetry",
    "sparkle_drv/saved_files.py",
    "sparkle_drv/assets.py",
    "sparkle_drv/types.py",
    "sparkle_drv/errors.py",
    "sparkle_drv/fork_lock.py",
    "sparkle_drv/version.py",
)
# Layers that may import only the public parts of the package (PUBLIC). Tests may import anything,
# and so may benchmarks/_inside.
USERS = ("benchmarks", "examples", "tools")
PUBLIC = (
    *("sparkle_drv", "sparkle_drv/ops", "sparkle_drv/lowlevel.py", "sparkle_drv/plugin"),
    *("sparkle_drv/testing", "sparkle_drv/telemetry", "sparkle_drv/saved_files.py"),
    "sparkle_drv/cluster",  # tools/sparkle.py starts nodes and makes certificates with it
    *("sparkle_drv/assets.py", "sparkle_drv/types.py", "sparkle_drv/errors.py"),
    *("sparkle_drv/version.py", "sparkle_drv/cluster"),
)
# Folders of alternatives, such as the backends: code of one alternative may not import another one.
# If the name ends in "/", each of its subfolders is an alternative. Code that alternatives share is
# in the folder above them.
APART = ("sparkle_drv/backends/", "native/amdgpu", "native/cuda", "native/egl", "native/cpu")
# Parts of the package for outside users. No other part of the package may import them.
ASIDE = (
    *("sparkle_drv/testing", "sparkle_drv/cluster", "sparkle_drv/plugin"),
    "sparkle_drv/lowlevel.py",
)
LEAVES = LAYERS[LAYERS.index("sparkle_drv/telemetry") :]


def layer(room: str) -> str:
    """Returns the layer to which a room (folder) belongs; "" if it belongs to none."""
    fits = (name for name in LAYERS if room == name or room.startswith(f"{name}/"))
    found = max(fits, key=len, default="")
    return "" if found == "sparkle_drv" and room != found else found


def wrong(source: str, target: str) -> str:
    """Returns why the room (folder) `source` may not import the room `target`; "" when it may."""
    above, below = layer(source), layer(target)
    if not above or not below:
        return f"{source if not above else target} is in no layer"
    if LAYERS.index(above) > LAYERS.index(below):
        return "an import of a higher layer"
    if above in USERS and below.startswith("sparkle_drv") and below not in PUBLIC:
        return f"{below} is not public"
    if above in LEAVES:
        return "a leaf imports nothing of the checkout"
    if above.startswith("sparkle_drv") and above not in ASIDE and below in ASIDE:
        return f"{below} is for outside users alone"
    return "" if _together(source, target) else "alternatives do not import one another"


def _together(source: str, target: str) -> bool:
    """True if the two rooms (folders) may import each other: they do not belong to different
    alternatives, such as two backends.
    """
    mine, theirs = (_alternative(room) for room in (source, target))
    return not mine or not theirs or mine == theirs


def _alternative(room: str) -> str:
    """Returns the folder of the alternative, such as one backend, to which a room (folder) belongs;
    "" if it belongs to none. APART has the folders of alternatives.
    """
    kind = next((name for name in APART if f"{room}/".startswith(name)), "")
    if kind.endswith("/"):
        inside = room.removeprefix(kind).partition("/")[0] if room.startswith(kind) else ""
        return f"{kind}{inside}" if inside else ""
    return kind


def violations(rooms: Mapping[str, Room]) -> list[str]:
    """Returns one line for each import that the layers do not allow."""
    found: list[str] = []
    for room in rooms.values():
        for target, given in room.out.items():
            if why := wrong(room.name, target):
                found += [f"{arrow}: {why}" for arrow in _shown(given)]
    return found


def _shown(given: list[Arrow]) -> list[Arrow]:
    return sorted(given, key=lambda arrow: (arrow.source, arrow.line))
