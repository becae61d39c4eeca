"""Builds the GPU kernels whose blobs are committed: shaders/rdna by clang-19, shaders/cuda by nvcc.

`shaders.py` builds stale blobs, `--all` builds all; both write the digests into manifest.json.
`--check` builds nothing and exits 1 when a source has changed since its blobs were built. A blob is
stale when the digest of its source has changed. The blob's own bytes are not compared, because they
name the compiler's version. `--report` prints the resources that ptxas reports for the PTX:
registers, spills, shared memory.
"""

from __future__ import annotations

from _reexec import reexec

reexec()

import argparse  # noqa: E402
import hashlib  # noqa: E402
import json  # noqa: E402
import re  # noqa: E402
import sys  # noqa: E402
from collections.abc import Iterator, Mapping, Sequence  # noqa: E402
from concurrent.futures import ThreadPoolExecutor  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from _console import output  # noqa: E402
from _shaders import Failed, cuda, rdna  # noqa: E402

SHADERS = Path(__file__).resolve().parent.parent / "shaders"
MAKERS = {maker.NAME: maker for maker in (cuda, rdna)}
_INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
_IMAGES = re.compile(r'( "images": \{\n).*?( \},\n "kernels": \{)', re.S)


def sources(root: Path = SHADERS) -> dict[str, Path]:
    """Returns the source of each image by the image's name ("rdna/gemm")."""
    return {
        f"{name}/{path.stem}": path
        for name, maker in MAKERS.items()
        for path in sorted((root / name).glob("*" + maker.SUFFIX))
    }


def maker_of(name: str) -> Any:
    """Returns the module that builds an image."""
    return MAKERS[name.partition("/")[0]]


def digest(source: Path) -> str:
    """Returns the SHA-256 of a source and of the headers that it includes, each once, in the order
    of inclusion.
    """
    seen: dict[Path, bytes] = {}

    def visit(path: Path) -> None:
        if path not in seen:
            seen[path] = path.read_bytes()
            for name in _INCLUDE.findall(seen[path].decode()):
                visit(path.parent / name)

    visit(source)
    return hashlib.sha256(b"".join(seen.values())).hexdigest()


def stale(images: Mapping[str, Any], root: Path = SHADERS) -> Iterator[tuple[str, str]]:
    """Yields (image, reason) for every image that must be built again, or whose source is gone."""
    there = sources(root)
    for name in sorted(images.keys() - there.keys()):
        yield name, "its source is gone"
    for name, source in there.items():
        noted = images.get(name, {})
        if noted.get("sha256") != digest(source):
            yield name, "its source has changed"
        elif why := _wrong(noted.get("blobs", {}), maker_of(name).TARGETS, root):
            yield name, why


def _wrong(blobs: Mapping[str, Any], targets: Sequence[str], root: Path) -> str:
    if set(blobs) != set(targets):
        return f"its targets have changed: built for {' '.join(blobs) or 'nothing'}"
    for blob in blobs.values():
        path = root / blob["file"]
        if not path.exists():
            return f"{blob['file']} is missing"
        if hashlib.sha256(path.read_bytes()).hexdigest() != blob["sha256"]:
            return f"{blob['file']} differs from what was built"
    return ""


def build(name: str, source: Path, root: Path = SHADERS) -> dict[str, Any]:
    """Compiles one source for all targets. Returns its entry in the manifest. Raises Failed if a
    compiler fails.
    """
    maker, blobs = maker_of(name), {}
    for target in maker.TARGETS:
        out = root / f"{name}.{target}{maker.EXTENSION}"
        maker.compile(source, target, out)
        out.chmod(0o644)
        blobs[target] = {
            "file": out.relative_to(root).as_posix(),
            "sha256": hashlib.sha256(out.read_bytes()).hexdigest(),
        }
    return {"source": source.relative_to(root).as_posix(), "sha256": digest(source), "blobs": blobs}


def written(manifest: str, images: Mapping[str, Any]) -> str:
    """Returns the manifest's text with these images. All other text keeps its layout."""
    lines = []
    for name, image in sorted(images.items()):
        head = {k: v for k, v in image.items() if k != "blobs"}
        blobs = ",\n".join(
            f"     {json.dumps(target)}: {json.dumps(blob)}"
            for target, blob in image["blobs"].items()
        )
        lines.append(f'  "{name}": {json.dumps(head)[:-1]}, "blobs": {{\n{blobs}}}}}')
    text, count = _IMAGES.subn(lambda m: m[1] + ",\n".join(lines) + "\n" + m[2], manifest)
    if count != 1:
        raise Failed('manifest.json: expected "images" before "kernels"')
    return text


def report(images: Mapping[str, Any], root: Path = SHADERS) -> Iterator[str]:
    """Yields a Markdown table of the CUDA kernels' resources by ptxas, for each target.
    Raises Failed if there is no ptxas, or if it cannot assemble a file.
    """
    cuda.prepare()
    used = {
        target: [
            usage
            for name in sorted(images)
            if maker_of(name) is cuda
            for usage in cuda.usage(root / images[name]["blobs"][target]["file"], target)
        ]
        for target in cuda.TARGETS
    }
    registers = " | ".join(f"registers {target}" for target in used)
    yield f"| kernel | {registers} | shared | stack | spills |"
    yield "|---" * (len(used) + 4) + "|"
    for row in zip(*used.values(), strict=True):
        cells = [str(usage.registers) for usage in row]
        for field in ("shared", "stack", "spills"):
            cells.append("/".join(dict.fromkeys(str(getattr(usage, field)) for usage in row)))
        yield f"| `{row[0].kernel}` | {' | '.join(cells)} |"


def main(argv: Sequence[str], root: Path = SHADERS) -> int:
    top = argparse.ArgumentParser(
        prog="shaders.py",
        description=(__doc__ or "").partition("\n")[0],
        epilog="exit codes: 0 well, 1 stale blobs (--check), no compiler, or the compiler failed",
    )
    top.add_argument("--check", action="store_true", help="build nothing, name what is stale")
    top.add_argument("--all", action="store_true", help="build everything again")
    top.add_argument("--report", action="store_true", help="registers and spills, by ptxas")
    args = top.parse_args(argv)
    path = root / "manifest.json"
    images = json.loads(path.read_text())["images"]
    found = dict(stale(images, root))
    if args.check:
        for name, why in found.items():
            print(f"stale {name}: {why}")
        return 1 if found else 0
    wanted = sources(root) if args.all else {n: s for n, s in sources(root).items() if n in found}
    try:
        if args.report:
            print("\n".join(report(images, root)))
            return 0
        for maker in {maker_of(name).NAME: maker_of(name) for name in wanted}.values():
            maker.prepare()
        with ThreadPoolExecutor(2) as pool:
            made = dict(
                zip(wanted, pool.map(lambda n: build(n, wanted[n], root), wanted), strict=True)
            )
        kept = {n: image for n, image in images.items() if n in sources(root)} | made
        path.write_text(written(path.read_text(), kept))
    except Failed as error:
        print(f"shaders.py: {error}", file=sys.stderr)
        return 1
    for name in made:
        print(f"built {name}: {', '.join(b['file'] for b in kept[name]['blobs'].values())}")
    return 0


if __name__ == "__main__":
    sys.exit(output.guarded("shaders.py", lambda: main(sys.argv[1:])))
