"""tools/shaders.py: what is stale, what a build writes, what it says without a compiler."""

from __future__ import annotations

import json
import os
import shutil

import pytest

import shaders

# Copies its source to its output, and refuses one with "wrong" in it.
COMPILER = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
grep -q wrong "$3" && exit 1
cp "$3" "$2"
"""
MANIFEST = '{"schema": 1,\n "images": {\n },\n "kernels": {\n  "k": {"doc": "as it was set"}}}\n'


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """shaders/ with one kernel and its headers, and a compiler."""
    root = tmp_path / "shaders"
    (root / "rdna").mkdir(parents=True)
    (root / "manifest.json").write_text(MANIFEST)
    (root / "rdna" / "one.cl").write_text('#include "a.h"\none\n')
    (root / "rdna" / "a.h").write_text('#include "b.h"\n')
    (root / "rdna" / "b.h").write_text("b\n")
    fake = tmp_path / "bin"
    fake.mkdir()
    for tool in (shaders.COMPILER, shaders.LINKER):
        (fake / tool).write_text(COMPILER)
        (fake / tool).chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake}:{os.environ['PATH']}")
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
    assert "built rdna/one: rdna/one.gfx10-3-generic.hsaco" in capsys.readouterr().out
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
])  # fmt: skip
def test_stale(tree, capsys, spoil, why):
    shaders.main([], tree)
    spoil(tree)
    assert shaders.main(["--check"], tree) == 1
    assert why in capsys.readouterr().out
    assert shaders.main([], tree) == 0
    assert shaders.main(["--check"], tree) == 0


def test_a_source_that_does_not_compile(tree, capsys):
    (tree / "rdna" / "one.cl").write_text("wrong")
    assert shaders.main([], tree) == 1
    assert "one.cl for gfx10-3-generic" in capsys.readouterr().err
    assert images(tree) == {}


def test_without_a_compiler(tree, capsys, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda tool: None)
    assert shaders.main([], tree) == 1
    said = capsys.readouterr().err
    assert "clang-19 and ld.lld-19 not found: apt install clang-19 lld-19" in said
    assert shaders.main(["--check"]) == 0


def test_a_manifest_without_a_place(tree, capsys):
    (tree / "manifest.json").write_text('{"images": {}, "kernels": {}}')
    assert shaders.main([], tree) == 1
    assert "images" in capsys.readouterr().err
