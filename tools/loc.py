"""Prints lines per layer and names the hand-written files that have grown too long (`make loc`)."""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("sparkle_drv", "native", "tools", "tests", "benchmarks", "examples", "shaders")
ENDINGS = {".py", ".c", ".h", ".inc", ".def", ".isa", ".sh", ".comp", ".cu"}
TOO_LONG = 400


def count(root: Path) -> dict[str, dict[str, int]]:
    """Lines of each file, by layer: a top folder, or a folder inside sparkle_drv/ or native/."""
    layers: dict[str, dict[str, int]] = defaultdict(dict)
    for top in LAYERS:
        for path in sorted((root / top).rglob("*")):
            parts = path.relative_to(root).parts
            if path.suffix not in ENDINGS or "gen" in parts or not path.is_file():
                continue
            deep = 2 if top in ("sparkle_drv", "native") and len(parts) > 2 else 1
            with path.open(encoding="utf-8") as lines:
                layers["/".join(parts[:deep])]["/".join(parts)] = sum(1 for _ in lines)
    return layers


def report(layers: dict[str, dict[str, int]]) -> str:
    rows = [f"{'layer':<28}{'files':>6}{'lines':>8}{'median':>8}  longest"]
    for layer, files in sorted(layers.items()):
        longest = max(files, key=lambda name: files[name])
        middle = round(statistics.median(files.values()))
        head = f"{layer:<28}{len(files):>6}{sum(files.values()):>8}{middle:>8}"
        rows.append(f"{head}  {files[longest]} {longest}")
    for files in layers.values():
        rows += [f"over {TOO_LONG}: {n} {name}" for name, n in files.items() if n > TOO_LONG]
    return "\n".join(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout to count")
    print(report(count(parser.parse_args().root)))
