"""pm4.py as a program: what it prints, its exit codes, and its words about wrong input.

When this fails, pm4.py misleads on wrong input.
"""

from __future__ import annotations

import io
import json
import re
import struct
import subprocess
import sys

import pytest
from pm4_ibs import CAPTURES, call, flush, ib, job
from where import ROOT

from sparkle_drv import lowlevel

TOOL = ROOT / "tools" / "pm4.py"
COMPUTE = next(str(path) for path in CAPTURES if path.stem.endswith("1036_compute"))
GFX = next(str(path) for path in CAPTURES if path.stem.endswith("1036_gfx"))


@pytest.fixture
def pm4(capsys):
    """pm4(*words) -> (exit code, stdout, stderr)."""
    import pm4 as tool

    def run(*words):
        try:
            code = tool.main([str(word) for word in words])
        except SystemExit as leave:
            code = int(leave.code or 0)
        return (code, *capsys.readouterr())

    return run


@pytest.fixture
def stdin(monkeypatch):
    def put(data):
        buffer = io.BytesIO(data if isinstance(data, bytes) else data.encode())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(buffer))

    return put


def test_round_trip_of_files(pm4, tmp_path):
    [one] = job(10)
    data = lowlevel.to_bytes(one) + b"\x01\x02"
    (tmp_path / "ib.bin").write_bytes(data)
    code, text, _ = pm4("decode", tmp_path / "ib.bin", "--gfx", "gfx1036")
    assert code == 0
    assert "BYTES 0x01 0x02" in text
    (tmp_path / "ib.txt").write_text(text)
    assert pm4("encode", tmp_path / "ib.txt", "--to", "bin", "-o", tmp_path / "out")[0] == 0
    assert (tmp_path / "out").read_bytes() == data
    code, _, said = pm4("encode", tmp_path / "ib.txt")
    assert (code, "the last 2 bytes" in said) == (1, True)


def test_hex_from_stdin(pm4, stdin):
    stdin("c0004600, 0x00000407  # wait\n")
    code, text, _ = pm4("decode", "-", "--gfx", "11")
    assert (code, text) == (
        0,
        "IB gfx=11 ip=compute\nEVENT_WRITE event={type=CS_PARTIAL_FLUSH index=4}\n",
    )
    stdin(text)
    assert pm4("encode", "-")[1] == "IB gfx=11 ip=compute\nc0004600 00000407\n"


def test_bytes_at_addresses_are_followed(pm4, tmp_path):
    for name, dwords in (("a", call(0x2000, 2)), ("b", flush())):
        (tmp_path / name).write_bytes(struct.pack(f"<{len(dwords)}I", *dwords))
    files = (f"{tmp_path}/a@0x1000", f"{tmp_path}/b@2000")
    code, text, _ = pm4("decode", *files, "--gfx", "11")
    assert code == 0
    assert "# calls IB 1\n" in text
    assert "# its target is not in the input" in pm4("decode", files[0], "--gfx", "11")[1]
    assert "1:00000   EVENT_WRITE event=" in pm4("decode", "--flat", *files, "--gfx", "11")[1]
    assert pm4("decode", f"{tmp_path}/a@xyz", "--gfx", "11")[0] == 2


def test_decode_as_json(pm4):
    document = json.loads(pm4("decode", "--json", COMPUTE)[1])
    assert document["schema"] == 1
    first, second = document["ibs"]
    assert (first["gfx"], first["va"]) == (10, 0xFFFF800100069000)
    names = [packet["name"] for packet in second["packets"]]
    assert names.count("DISPATCH_DIRECT") == 1
    rsrc1 = next(
        r for p in second["packets"] for r in p.get("registers", ()) if r["name"].endswith("RSRC1")
    )
    assert rsrc1["value"] == 0x602C0001
    assert "VGPRS=1" in rsrc1["text"]
    depths = {p["depth"] for p in json.loads(pm4("decode", "--flat", "--json", GFX)[1])["packets"]}
    assert depths == {0, 1}


def test_one_ib_of_several(pm4):
    code, text, _ = pm4("encode", COMPUTE, "--ib", "1")
    assert (code, text.count("IB ")) == (0, 1)
    assert pm4("encode", COMPUTE, "--to", "bin")[0] == 2
    assert pm4("encode", COMPUTE, "--ib", "2")[0] == 2


def test_lint(pm4, tmp_path):
    assert pm4("lint", COMPUTE, GFX) == (0, "", "")
    (tmp_path / "ib.txt").write_text(lowlevel.text(job(pad=False, PGM_RSRC3=None)))
    code, text, _ = pm4("lint", tmp_path / "ib.txt")
    assert code == 1
    assert "error: not programmed by this job: COMPUTE_PGM_RSRC3 [register-missing]" in text
    assert "\nregister-missing (AMDGPU_FACTS 4.3): A job must program" in text
    off = ("--disable", "register-missing", "--disable", "padding")
    assert pm4("lint", tmp_path / "ib.txt", *off) == (0, "", "")
    findings = json.loads(pm4("lint", tmp_path / "ib.txt", "--json")[1])["findings"]
    assert [one["id"] for one in findings] == ["register-missing", "padding"]
    assert findings[0]["source"] == "AMDGPU_FACTS 4.3"


def test_notes_are_no_failure(pm4, tmp_path):
    (tmp_path / "ib.txt").write_text(lowlevel.text(job(before=call(0x9000, 8))))
    code, text, _ = pm4("lint", tmp_path / "ib.txt")
    assert (code, "note: INDIRECT_BUFFER to 0x9000 is not followed" in text) == (0, True)


def test_the_rules_of_lint(pm4):
    code, text, _ = pm4("lint", "--rules")
    assert (code, len(text.splitlines())) == (0, len(lowlevel.RULES))
    rules = json.loads(pm4("lint", "--rules", "--json")[1])["rules"]
    assert {rule["id"] for rule in rules} == set(lowlevel.RULES)
    assert pm4("lint", "--disable", "nonsense", COMPUTE)[0] == 2
    assert pm4("lint")[0] == 2


def test_lint_against_a_kernel(pm4, tmp_path):
    (tmp_path / "ib.txt").write_text(lowlevel.text(job(10, PGM_RSRC2=0x8C | 8 << 15)))
    made = lowlevel.descriptors.KernelDescriptor.encode(
        gfx=10, group_segment_fixed_size=4000, compute_pgm_rsrc1=0x60AF0040, compute_pgm_rsrc2=0x8C
    )
    (tmp_path / "kd").write_bytes(struct.pack("<16I", *made))
    told = ("--descriptor", tmp_path / "kd")
    assert pm4("lint", tmp_path / "ib.txt", *told) == (0, "", "")
    assert pm4("lint", tmp_path / "ib.txt", "--lds", "4000")[0] == 0
    assert "expected 9" in pm4("lint", tmp_path / "ib.txt", *told, "--lds", "4097")[1]
    assert pm4("lint", tmp_path / "ib.txt", "--lds", "-1")[0] == 2
    (tmp_path / "kd").write_bytes(b"short")
    assert "expected a kernel descriptor of 64" in pm4("lint", tmp_path / "ib.txt", *told)[2]
    (tmp_path / "kd").write_bytes(b"\xff" * 64)
    assert pm4("lint", tmp_path / "ib.txt", *told)[0] == 1


def test_diff(pm4, tmp_path):
    code, text, _ = pm4("diff", COMPUTE, COMPUTE)
    assert (code, text) == (0, f"{COMPUTE} and {COMPUTE} mean the same\n")
    for name, value in (("a", 0x8C), ("b", 0x8E)):
        (tmp_path / name).write_text(lowlevel.text(job(PGM_RSRC2=value)))
    code, text, _ = pm4("diff", tmp_path / "a", tmp_path / "b")
    assert code == 1
    assert (
        "  COMPUTE_PGM_RSRC2: 0x8c {USER_SGPR=6 TGID_X_EN=1} -> 0x8e {USER_SGPR=7 TGID_X_EN=1}\n"
        "    USER_SGPR: 6 -> 7\n"
    ) in text
    assert "registers at the end" not in text  # already said
    assert pm4("diff", tmp_path / "a", tmp_path / "b", "--ignore", "*RSRC2")[0] == 0
    document = json.loads(pm4("diff", tmp_path / "a", tmp_path / "b", "--json")[1])
    assert document["same"] is False
    assert document["differences"][0]["changes"][0]["fields"] == [
        {"name": "USER_SGPR", "a": "6", "b": "7"}
    ]
    assert json.loads(pm4("diff", COMPUTE, COMPUTE, "--json")[1])["same"] is True
    assert pm4("diff", "-", "-")[0] == 2


def test_diff_of_captures(pm4):
    code, text, _ = pm4("diff", COMPUTE, GFX)
    assert code == 1
    assert "only in B: CONTEXT_CONTROL" in text
    assert "COMPUTE_" not in text  # both set up their dispatch alike


def test_reg(pm4):
    code, text, _ = pm4("reg", "rsrc2=0x4008c", "--gfx", "10.3")
    assert code == 0
    assert text.startswith("COMPUTE_PGM_RSRC2\n  gfx10.3: byte 0xb84c, dword 0x2e13, SH+0x213\n")
    assert "    LDS_SIZE [23:15] = 8\n" in text
    assert pm4("reg", "rsrc2={LDS_SIZE=8 USER_SGPR=6 TGID_X_EN=1}", "--gfx", "10")[1] == text
    _, text, _ = pm4("reg", "0xb8ac")
    assert "COMPUTE_RELAUNCH\n  users may not write it\n" in text
    assert "\nCOMPUTE_STATIC_THREAD_MGMT_SE4\n  gfx11, gfx12: byte 0xb8ac" in text
    _, text, _ = pm4("reg", "PGM_HI=0x180", "DESTINATION_EN_SE0")
    assert "bits 0x100 are not declared" in text
    assert "COMPUTE_STATIC_THREAD_MGMT_SE0, also COMPUTE_DESTINATION_EN_SE0\n" in text
    code, text, _ = pm4("reg", "COMPUTE_PGM*=0")
    assert code == 0
    assert re.findall(r"^\w+", text, re.M) == [
        f"COMPUTE_PGM_{name}" for name in ("LO", "HI", "RSRC1", "RSRC2", "RSRC3")
    ]


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (["reg", "RSCR2"], 1, "did you mean COMPUTE_PGM_RSRC2"),
        (["reg", "rsrc2=zzz"], 1, "'zzz' is not a number"),
        (["reg", "rsrc2="], 1, "expected a value of COMPUTE_PGM_RSRC2 here"),
        (["reg", "NO_SUCH*"], 1, "no register NO_SUCH*\n"),
        (["reg", "["], 1, "no register [\n"),
        (["reg", "*" * 9999 + "!"], 1, "no register ****"),
        (["reg", "DISPATCH_INTERL*", "--gfx", "10.3"], 1, "no register DISPATCH_INTERL*"),
        (["reg", "DISPATCH_INTERLEAVE", "--gfx", "10.3"], 1, ""),
        (["decode", "no-such-file.txt"], 1, "No such file"),
        (["decode", "/dev/null"], 1, "expected an IB, got none"),
        (["decode", "--gfx", "11", "/dev/zero"], 1, "at most 32 MiB"),
        (["decode", str(TOOL.parent / "_reexec.py")], 1, "_reexec.py:1:1: "),
        (["decode", COMPUTE, "--gfx", "13"], 2, "gfx=13"),
        (["decode", COMPUTE, "--ip", "dma"], 2, "invalid choice"),
        (["decode", COMPUTE, "--from", "bin"], 2, "gfx: expected a value"),
        (["nonsense"], 2, "invalid choice"),
        ([], 2, "COMMAND"),
    ],
)
def test_what_is_wrong(pm4, words, code, part):
    got, _, said = pm4(*words)
    assert got == code
    assert part in said
    assert "Traceback" not in said


def test_a_text_error_names_file_line_and_column(pm4, tmp_path):
    (tmp_path / "x").write_text("IB gfx=11\nDISPATCH_DIRECT dim_x=1\n    dim_y=-1\n")
    code, _, said = pm4("encode", tmp_path / "x")
    assert code == 1
    assert (
        said == f"pm4.py: {tmp_path}/x:3:11: DISPATCH_DIRECT.dim_y=-1 does not fit: 0..0xffffffff\n"
    )


def test_several_ibs_have_no_bytes(pm4, tmp_path):
    (tmp_path / "x").write_text(lowlevel.text([ib([1]), ib([2])]))
    assert "expected --ib" in pm4("encode", tmp_path / "x", "--to", "bin")[2]


@pytest.mark.parametrize("start", [["-m", "sparkle_drv", "pm4"], [str(TOOL)]])
def test_as_a_program(start):
    done = subprocess.run(
        [sys.executable, *start, "encode", "-", "--to", "bin", "--gfx", "11"],
        input=b"EVENT_WRITE event={type=7 index=4}\n",
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, struct.pack("<2I", *flush())), done.stderr


def test_help_says_the_exit_codes(pm4):
    for words in ([], ["decode"], ["encode"], ["lint"], ["diff"], ["reg"]):
        code, text, _ = pm4(*words, "--help")
        assert (code, "exit codes: 0 well, 1" in " ".join(text.split())) == (0, True)


def test_nobody_reads(tmp_path):
    (tmp_path / "x").write_text("IB gfx=11\n" + "RAW 1\n" * 50000)
    command = f"{sys.executable} {TOOL} decode {tmp_path}/x | head -1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("IB gfx=11 ip=compute\n", "")
