"""Builds the GPU kernels whose blobs are committed: shaders/rdna/*.cl with clang-19 and lld-19.

`shaders.py` builds what is stale, `--all` everything, and writes the digests into manifest.json;
`--check` builds nothing and exits 1 when a source has changed since its blobs were built. A blob is
fresh when the digest of its source says so, not when a rebuild gives the same bytes: those name the
compiler's own version.
"""

from __future__ import annotations

from _hop import hop

hop()

import argparse  # noqa: E402
import hashlib  # noqa: E402
import json  # noqa: E402
import re  # noqa: E402
import shutil  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
from collections.abc import Iterator, Mapping, Sequence  # noqa: E402
from concurrent.futures import ThreadPoolExecutor  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

SHADERS = Path(__file__).resolve().parent.parent / "shaders"
COMPILER, LINKER = "clang-19", "ld.lld-19"
TARGETS = ("gfx10-3-generic", "gfx11-generic")
# No library (ROCm's device library is not needed), no fused products but those that are written,
# quotients and roots as IEEE wants them. Code object v6 is what generic targets need.
FLAGS = (
    *("-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", "-mcode-object-version=6"),
    *("-O2", "-nogpulib", "-ffp-contract=off", "-cl-fp32-correctly-rounded-divide-sqrt"),
    *("-Wall", "-Wextra"),
)
_EXPECTED = "code object v6 is still in development"
_INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
_IMAGES = re.compile(r'( "images": \{\n).*?( \},\n "kernels": \{)', re.S)


class Failed(Exception):
    """Something that cannot be built, in words."""


def sources(root: Path = SHADERS) -> dict[str, Path]:
    """Image names ("rdna/gemm") and their sources."""
    return {f"rdna/{path.stem}": path for path in sorted((root / "rdna").glob("*.cl"))}


def digest(source: Path) -> str:
    """SHA-256 of a source and of the headers it includes, each once, in the order of inclusion."""
    seen: dict[Path, bytes] = {}

    def visit(path: Path) -> None:
        if path not in seen:
            seen[path] = path.read_bytes()
            for name in _INCLUDE.findall(seen[path].decode()):
                visit(path.parent / name)

    visit(source)
    return hashlib.sha256(b"".join(seen.values())).hexdigest()


def stale(images: Mapping[str, Any], root: Path = SHADERS) -> Iterator[tuple[str, str]]:
    """(image, why) of all that must be built again; images without a source, too."""
    there = sources(root)
    for name in sorted(images.keys() - there.keys()):
        yield name, "its source is gone"
    for name, source in there.items():
        noted = images.get(name, {})
        if noted.get("sha256") != digest(source):
            yield name, "its source has changed"
        elif why := _wrong(noted.get("blobs", {}), root):
            yield name, why


def _wrong(blobs: Mapping[str, Any], root: Path) -> str:
    if set(blobs) != set(TARGETS):
        return f"it is built for {' '.join(blobs) or 'nothing'}"
    for blob in blobs.values():
        path = root / blob["file"]
        if not path.exists():
            return f"{blob['file']} is missing"
        if hashlib.sha256(path.read_bytes()).hexdigest() != blob["sha256"]:
            return f"{blob['file']} is not what was built"
    return ""


def build(name: str, source: Path, root: Path = SHADERS) -> dict[str, Any]:
    """Compiles one source for all targets; its entry in the manifest. Raises Failed."""
    blobs = {}
    for target in TARGETS:
        out = root / f"{name}.{target}.hsaco"
        linker = shutil.which(LINKER)
        command = [COMPILER, *FLAGS, f"--ld-path={linker}", f"-mcpu={target}"]
        # Run where the source is: the blob must not depend on where the checkout lies.
        done = subprocess.run(
            [*command, "-o", str(out), source.name],
            cwd=source.parent, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        said = [line for line in done.stderr.splitlines() if _EXPECTED not in line]
        if done.returncode or said:
            raise Failed("\n".join([f"{source.name} for {target}:", *said]))
        out.chmod(0o644)
        blobs[target] = {
            "file": f"{name}.{target}.hsaco",
            "sha256": hashlib.sha256(out.read_bytes()).hexdigest(),
        }
    return {"source": source.relative_to(root).as_posix(), "sha256": digest(source), "blobs": blobs}


def written(manifest: str, images: Mapping[str, Any]) -> str:
    """The manifest's text with these images; the rest of it stays as it was set."""
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
        raise Failed('manifest.json: no "images" before "kernels"')
    return text


def main(argv: Sequence[str], root: Path = SHADERS) -> int:
    top = argparse.ArgumentParser(
        prog="shaders.py",
        description=(__doc__ or "").splitlines()[0],
        epilog="exit codes: 0 well, 1 stale blobs (--check), no compiler, or one that failed",
    )
    top.add_argument("--check", action="store_true", help="build nothing, name what is stale")
    top.add_argument("--all", action="store_true", help="build everything again")
    args = top.parse_args(argv)
    path = root / "manifest.json"
    images = json.loads(path.read_text())["images"]
    found = dict(stale(images, root))
    if args.check:
        for name, why in found.items():
            print(f"stale {name}: {why}")
        return 1 if found else 0
    wanted = sources(root) if args.all else {n: s for n, s in sources(root).items() if n in found}
    missing = [tool for tool in (COMPILER, LINKER) if not shutil.which(tool)]
    if wanted and missing:
        print(
            f"shaders.py: {' and '.join(missing)} not found: apt install clang-19 lld-19 (Debian; "
            "only whoever changes a kernel needs them)",
            file=sys.stderr,
        )
        return 1
    try:
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
    sys.exit(main(sys.argv[1:]))
