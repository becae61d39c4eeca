"""rdna_as.py: both ways, raw, hex and ELF; its exit codes; what it says of errors.

When this fails, somebody who assembles RDNA by hand gets wrong files or exit codes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from where import ROOT

TOOLS = ROOT / "tools"
PROGRAM = """
    s_mov_b32 s0, 0x12345678   // a literal
loop:
    v_add_f32 v1, v2, v3
    s_cbranch_scc0 loop
    s_endpgm
"""
WORDS = ["be8000ff", "12345678", "06020702", "bfa1fffe", "bfb00000"]


@pytest.fixture
def rdna_as(tmp_path):
    import rdna_as as tool

    (tmp_path / "a.s").write_text(PROGRAM)
    return lambda *words: tool.main([str(word) for word in words])


def test_assembles_to_hex(rdna_as, tmp_path, capfdbinary):
    assert rdna_as("assemble", tmp_path / "a.s", "--hex") == 0
    assert capfdbinary.readouterr().out.decode().split() == WORDS


def test_there_and_back(rdna_as, tmp_path):
    raw, text, again = tmp_path / "a.bin", tmp_path / "b.s", tmp_path / "b.bin"
    assert rdna_as("assemble", tmp_path / "a.s", "-o", raw) == 0
    assert rdna_as("disassemble", raw, "-o", text) == 0
    assert "s_cbranch_scc0 65534\n" in text.read_text()
    assert rdna_as("assemble", text, "-o", again) == 0
    assert again.read_bytes() == raw.read_bytes()


def test_generations_differ(rdna_as, tmp_path, capfdbinary):
    assert rdna_as("assemble", tmp_path / "a.s", "--hex", "--gfx", "gfx1036") == 0
    words = capfdbinary.readouterr().out.decode().split()
    assert words == ["be8003ff", "12345678", "06020702", "bf84fffe", "bf810000"]


def test_an_error_names_file_line_and_column(rdna_as, tmp_path, capsys):
    bad = tmp_path / "bad.s"
    bad.write_text("s_nop 0\nv_add_f32 v1, v2, w3\n")
    assert rdna_as("assemble", bad) == 1
    assert "bad.s: line 2, column 19: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("data", "options", "says"),
    [
        (b"\x00\x00\xff", [], "expected whole dwords, got 3 bytes"),
        (b"xyz", ["--hex"], "expected hex words"),
        (b"fffffffff", ["--hex"], "expected hex words of 32 bits"),
        (b"d7ff0000 0", ["--hex"], "gfx11 has no VOP3 opcode 0x3ff"),
    ],
)
def test_bad_dwords(rdna_as, tmp_path, capsys, data, options, says):
    (tmp_path / "x.bin").write_bytes(data)
    assert rdna_as("disassemble", tmp_path / "x.bin", *options) == 1
    assert says in capsys.readouterr().err


def test_missing_file_and_chip(rdna_as, tmp_path, capsys):
    assert rdna_as("assemble", tmp_path / "none.s") == 1
    assert rdna_as("assemble", tmp_path / "a.s", "--gfx", "gfx906") == 1
    assert "gfx: got 'gfx906'" in capsys.readouterr().err
    with pytest.raises(SystemExit) as leave:
        rdna_as("assemble")
    assert leave.value.code == 2


def test_check_finds_a_difference(rdna_as, tmp_path, capsys, monkeypatch):
    import rdna_as as tool

    same = [int(word, 16) for word in WORDS]
    monkeypatch.setattr(tool, "llvm_words", lambda text, gfx: same)
    assert rdna_as("assemble", tmp_path / "a.s", "--check", "-o", tmp_path / "o") == 0
    monkeypatch.setattr(tool, "llvm_words", lambda text, gfx: [*same[:3], 0, same[4]])
    assert rdna_as("assemble", tmp_path / "a.s", "--check", "-o", tmp_path / "o") == 1
    assert "differs from llvm-mc at 0xc" in capsys.readouterr().err


def test_check_without_llvm_mc(rdna_as, tmp_path, capsys, monkeypatch):
    import rdna_as as tool

    monkeypatch.setattr(tool.shutil, "which", lambda name: None)
    assert rdna_as("assemble", tmp_path / "a.s", "--check", "-o", tmp_path / "o") == 0
    assert "no llvm-mc here knows gfx1100" in capsys.readouterr().err


@pytest.mark.skipif(not shutil.which("llvm-mc-19"), reason="not installed: llvm-19")
def test_check_against_llvm_mc(rdna_as, tmp_path, capfd):
    text = PROGRAM.replace("    s_endpgm", "    s_waitcnt vmcnt(0) & lgkmcnt(0)\n    s_endpgm")
    (tmp_path / "a.s").write_text(text)
    for gfx in ("gfx1036", "gfx1100"):
        raw = tmp_path / f"{gfx}.bin"
        assert rdna_as("assemble", tmp_path / "a.s", "--check", "-o", raw, "--gfx", gfx) == 0
        assert rdna_as("disassemble", raw, "--check", "--gfx", gfx) == 0
    (tmp_path / "only_ours.s").write_text("v_cmpx_lt_f32 v1, v2\nv_nop x y\n")
    assert rdna_as("assemble", tmp_path / "only_ours.s", "--check") == 1
    capfd.readouterr()


def test_runs_as_a_command():
    done = subprocess.run(
        [sys.executable, TOOLS / "rdna_as.py", "disassemble", "-", "--hex", "--gfx", "gfx1036"],
        input="06020702\nbf810000",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "v_add_f32_e32 v1, v2, v3\ns_endpgm\n"


@pytest.mark.parametrize("gfx", ["gfx1036", "gfx1100"])
def test_expressions_become_listings_that_assemble(rdna_as, tmp_path, gfx):
    text = tmp_path / "map.s"
    words = ["expression", "relu(a*x + y)", "--scalars", "a", "--gfx", gfx, "-o", text]
    assert rdna_as(*words, "--check") == 0
    listed = text.read_text()
    assert listed.startswith("// relu(a*x + y): 10 VGPRs, 512 elements per group of 128 threads\n")
    assert "v_mul_f32 v1, s44, v1\n" in listed
    assert rdna_as("assemble", text, "--gfx", gfx, "--hex", "--check", "-o", tmp_path / "x") == 0


def test_expressions_of_a_chip_that_is_not_known(rdna_as, capsys):
    assert rdna_as("expression", "x", "--gfx", "gfx906") == 1
    assert "expected gfx1030" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("relu(", "the end"),
        (
            "+".join(f"x*{i}.5" for i in range(70)),
            "not by its interpreter of maps: expected at most 60 const",
        ),
    ],
)
def test_expressions_that_become_none(rdna_as, capsys, text, what):
    assert rdna_as("expression", text) == 1
    assert what in capsys.readouterr().err


def test_tells_what_the_emulator_lacks(rdna_as, capsys):
    assert rdna_as("lacking", "--gfx", "gfx1036") == 0
    assert "gfx1036 EXP: 1: exp\n" in capsys.readouterr().out
    assert rdna_as("lacking", "--gfx", "gfx900") == 1
    assert "--gfx: gfx: got 'gfx900'" in capsys.readouterr().err
