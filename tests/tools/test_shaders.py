"""tools/shaders.py: what is stale, what a build writes, what it says without a compiler."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from _shaders import cuda, rdna

import shaders

# Copies its source to its output, and refuses one with "wrong" in it.
CLANG = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
grep -q wrong "$3" && exit 1
cp "$3" "$2"
"""
NVCC = """#!/bin/sh
[ "$1" = --version ] && echo V13.0.88 && exit
while [ "$1" != -o ]; do shift; done
grep -q wrong "$3" && echo "it is wrong" >&2 && exit 1
cat "$3" >"$2"
"""
# Says of a file what its own lines after "//" say.
PTXAS = """#!/bin/sh
for file in "$@"; do case $file in *.ptx) break;; esac; done
grep -q new "$file" && echo "too new for $2" >&2 && exit 1
sed -n 's,^// ,,p' "$file"
"""
PTX = """.version 9.0
.target sm_80
// ptxas info    : Compiling entry function 'two' for 'sm_80'
// ptxas info    : Function properties for two
//     16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
// ptxas info    : Used 40 registers, used 1 barriers, 512 bytes smem
"""
MANIFEST = '{"schema": 1,\n "images": {\n },\n "kernels": {\n  "k": {"doc": "as it was set"}}}\n'


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """shaders/ with a kernel of each kind and its headers, and the compilers."""
    root = tmp_path / "shaders"
    (root / "rdna").mkdir(parents=True)
    (root / "cuda").mkdir()
    (root / "manifest.json").write_text(MANIFEST)
    (root / "rdna" / "one.cl").write_text('#include "a.h"\none\n')
    (root / "rdna" / "a.h").write_text('#include "b.h"\n')
    (root / "rdna" / "b.h").write_text("b\n")
    (root / "cuda" / "two.cu").write_text(PTX)
    fake = tmp_path / "bin"
    fake.mkdir()
    tools = {rdna.COMPILER: CLANG, rdna.LINKER: CLANG, "nvcc": NVCC, "ptxas": PTXAS}
    for tool, script in tools.items():
        (fake / tool).write_text(script)
        (fake / tool).chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake}:{os.environ['PATH']}")
    monkeypatch.setattr(cuda, "FOLDER", tmp_path / "nvcc")
    return root


def images(root):
    return json.loads((root / "manifest.json").read_text())["images"]


def test_what_is_committed_is_fresh(capsys):
    assert shaders.main(["--check"]) == 0
    assert capsys.readouterr().out == ""


def test_build_then_nothing_to_do(tree, capsys):
    assert shaders.main(["--check"], tree) == 1
    assert "stale rdna/one: its source has changed" in capsys.readouterr().out
    assert shaders.main([], tree) == 0
    said = capsys.readouterr().out
    assert "built rdna/one: rdna/one.gfx10-3-generic.hsaco" in said
    assert "built cuda/two: cuda/two.sm_80.ptx, cuda/two.sm_90a.ptx" in said
    assert (tree / "rdna" / "one.gfx11-generic.hsaco").read_text() == '#include "a.h"\none\n'
    assert shaders.main(["--check"], tree) == 0
    before = (tree / "manifest.json").read_text()
    assert '"kernels": {\n  "k": {"doc": "as it was set"}}}\n' in before
    assert shaders.main([], tree) == 0
    assert (tree / "manifest.json").read_text() == before
    assert shaders.main(["--all"], tree) == 0
    assert "built rdna/one" in capsys.readouterr().out


@pytest.mark.parametrize(("spoil", "why"), [
    (lambda root: (root / "rdna/one.cl").write_text("two"), "its source has changed"),
    (lambda root: (root / "rdna/b.h").write_text("c"), "its source has changed"),
    (lambda root: (root / "rdna/one.gfx11-generic.hsaco").write_text("x"), "not what was built"),
    (lambda root: (root / "rdna/one.gfx11-generic.hsaco").unlink(), "is missing"),
    (lambda root: (root / "rdna/one.cl").unlink(), "its source is gone"),
    (lambda root: (root / "cuda/two.cu").write_text(PTX + "x"), "its source has changed"),
    (lambda root: (root / "cuda/two.sm_90a.ptx").unlink(), "is missing"),
])  # fmt: skip
def test_stale(tree, capsys, spoil, why):
    shaders.main([], tree)
    spoil(tree)
    assert shaders.main(["--check"], tree) == 1
    assert why in capsys.readouterr().out
    assert shaders.main([], tree) == 0
    assert shaders.main(["--check"], tree) == 0


def test_ptx_is_for_older_drivers(tree):
    shaders.main([], tree)
    assert (tree / "cuda/two.sm_80.ptx").read_text() == PTX.replace("9.0", "8.0")


@pytest.mark.parametrize(("source", "said"), [
    ("wrong", "two.cu for sm_80:\nit is wrong"),
    (PTX + "// new", "two.sm_80.ptx does not assemble for sm_80:\ntoo new"),
    ("nothing", "two.cu for sm_80: 0 .version lines"),
])  # fmt: skip
def test_a_cuda_source_that_does_not_compile(tree, capsys, source, said):
    (tree / "cuda" / "two.cu").write_text(source)
    assert shaders.main([], tree) == 1
    assert said in capsys.readouterr().err
    assert images(tree) == {}
    assert not list((tree / "cuda").glob("*.ptx")) or "new" not in source


def test_report(tree, capsys):
    shaders.main([], tree)
    capsys.readouterr()
    assert shaders.main(["--report"], tree) == 0
    assert capsys.readouterr().out.splitlines() == [
        "| kernel | registers sm_80 | registers sm_90a | shared | stack | spills |",
        "|---|---|---|---|---|---|",
        "| `two` | 40 | 40 | 512 | 16 | 4 |",
    ]


def test_a_source_that_does_not_compile(tree, capsys):
    (tree / "rdna" / "one.cl").write_text("wrong")
    assert shaders.main([], tree) == 1
    assert "one.cl for gfx10-3-generic" in capsys.readouterr().err
    assert images(tree) == {}


def test_without_a_compiler(tree, capsys, monkeypatch):
    (tree / "cuda" / "two.cu").unlink()
    monkeypatch.setattr(shutil, "which", lambda tool: None)
    assert shaders.main([], tree) == 1
    said = capsys.readouterr().err
    assert "clang-19 and ld.lld-19 not found: apt install clang-19 lld-19" in said
    assert shaders.main(["--check"]) == 0


@pytest.fixture
def pip(tree, tmp_path, monkeypatch):
    """No nvcc of this release on PATH; a pip that notes what it is to install, and where."""
    (tmp_path / "bin" / "nvcc").write_text("#!/bin/sh\necho V12.0\n")
    script = tmp_path / "python"
    monkeypatch.setattr(cuda.sys, "executable", str(script))

    def install(body):
        script.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/asked\n{body}\n')
        script.chmod(0o755)

    return install


def test_nvcc_from_the_package_index(tree, tmp_path, pip):
    inside = tmp_path / "nvcc/nvidia/cu13/bin"
    (tmp_path / "kept").write_text(NVCC)
    bin_ = tmp_path / "bin"
    pip(f"mkdir -p {inside}; cp {bin_}/ptxas {inside}; cp {tmp_path}/kept {inside}/nvcc\n"
        f"chmod 755 {inside}/nvcc")  # fmt: skip
    assert shaders.main([], tree) == 0
    asked = (tmp_path / "asked").read_text()
    assert f"--target {tmp_path}/nvcc" in asked
    assert all(package in asked for package in cuda.PACKAGES)
    assert len(cuda.PACKAGES) == 4
    (tmp_path / "asked").unlink()
    assert shaders.main(["--all"], tree) == 0
    assert not (tmp_path / "asked").exists()  # it is there now


@pytest.mark.parametrize(("body", "said"), [
    ("echo no network >&2; exit 1", "it cannot be installed: no network"),
    ("exit 0", "brought none"),
])  # fmt: skip
def test_nvcc_nowhere(tree, capsys, pip, body, said):
    pip(body)
    assert shaders.main([], tree) == 1
    assert said in capsys.readouterr().err


def test_a_manifest_without_a_place(tree, capsys):
    (tree / "manifest.json").write_text('{"images": {}, "kernels": {}}')
    assert shaders.main([], tree) == 1
    assert "images" in capsys.readouterr().err
