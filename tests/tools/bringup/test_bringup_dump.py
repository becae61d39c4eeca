"""Dumps and bundles: what is read when a rung failed, from a card that is emulated and from files
that look like a real one's.

When this fails, a failed rung leaves no evidence.
"""

from __future__ import annotations

import json
import tarfile

import pytest
from _bringup.benches import dump
from _bringup.benches.amdgpu import Bench
from _bringup.benches.card import Real
from _bringup.ladder import bundle, families
from _bringup.results import report
from bringupkit import bench, climbed, planted

from sparkle_drv import lowlevel


def failed(name, plant):
    with bench() as (machine, made):
        return climbed(made, name, begun=planted(name, plant, machine))[name]


def test_a_page_fault_is_told_by_ib_context_and_address():
    result = failed("store", lambda m: m.fault_next_job(va=0x123456000))
    parts = result.facts["dump"]
    assert "0x123456000" in parts["gpuvm_fault"]
    assert "GUILTY" in parts["contexts"]
    assert "ETIME" in parts["fences"]
    assert "0x123456000" in parts["emulator"].lower() or "unmapped" in parts["emulator"]
    assert "DISPATCH_DIRECT" in parts["ibs"]
    [ib] = lowlevel.read_ibs(parts["ibs"].encode())
    assert ib.gfx == 11


def test_a_hang_says_which_job_is_not_done():
    result = failed("nop-dma", lambda m: m.hold_jobs())
    assert (result.ioctl, result.errno) == ("AMDGPU_WAIT_CS", None)
    assert "not done" in result.facts["dump"]["fences"]
    assert "NOP" in result.facts["dump"]["ibs"]


@pytest.fixture
def root(tmp_path):
    """A machine whose /dev/dri/renderD128 is no GPU, with the sysfs of one."""
    (tmp_path / "dev/dri").mkdir(parents=True)
    (tmp_path / "dev/dri/renderD128").write_bytes(b"")
    device = tmp_path / "sys/class/drm/renderD128/device"
    (device / "hwmon/hwmon3").mkdir(parents=True)
    (device / "pp_dpm_sclk").write_text("0: 500Mhz *\n1: 2500Mhz\n")
    (device / "hwmon/hwmon3/temp1_input").write_text("41000\n")
    parameters = tmp_path / "sys/module/amdgpu/parameters"
    parameters.mkdir(parents=True)
    (parameters / "lockup_timeout").write_text("2000\n")
    return tmp_path


def test_a_node_that_is_no_gpu(root):
    made = Bench(Real("amdgpu:0", root))
    results = climbed(made, "node", "version", "caps")
    made.close()
    assert [r.status for r in results.values()] == ["PASS", "FAIL", "BLOCKED"]
    version = results["version"]
    assert (version.ioctl, version.errno) == ("VERSION", "ENOTTY")
    assert version.causes[0]["id"] == "not-known-ioctl"
    told = version.facts["dump"]["sysfs"]
    assert "0: 500Mhz *" in told
    assert "temp1_input: 41000" in told
    assert "amdgpu.lockup_timeout: 2000" in told


def test_debugfs_is_read_where_it_may_be(root):
    folder = root / "sys/kernel/debug/dri/128"
    card = Real("amdgpu:0", root)
    assert "may not be read" in dump.debugfs(card)
    folder.mkdir(parents=True)
    (folder / "amdgpu_fence_info").write_text("--- ring 0 (gfx) ---\n")
    assert "ring 0 (gfx)" in dump.debugfs(card)


@pytest.mark.parametrize(
    ("make", "uri", "cause"),
    [
        (lambda root: None, "amdgpu:1", "fewer-cards"),
        (lambda root: None, "/dev/dri/renderD999", "no-such-node"),
        (lambda root: (root / "dev/dri/renderD128").unlink(), "amdgpu:0", "no-driver"),
        (
            lambda root: [(root / "dev/dri/renderD128").unlink(), (root / "dev/dri").rmdir()],
            "amdgpu:0",
            "no-driver",
        ),
    ],
    ids=["fewer", "path", "no node", "no dri"],
)
def test_no_node(root, make, uri, cause):
    make(root)
    made = Bench(Real(uri, root))
    results = climbed(made)
    assert results["node"].status == "FAIL"
    assert results["node"].causes[0]["id"] == cause
    assert {r.status for r in results.values()} == {"FAIL", "BLOCKED"}


def test_no_permission(root, monkeypatch):
    card = Real("amdgpu:0", root)

    def forbidden():
        raise lowlevel.raw.IoctlError(13, "open", str(card.path()))

    monkeypatch.setattr(card, "open", forbidden)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("os.getgroups", list)
    result = climbed(Bench(card), "node")["node"]
    assert (result.ioctl, result.errno) == ("open", "EACCES")
    assert result.causes[0]["id"] == "not-in-group"
    monkeypatch.setattr("os.getgroups", lambda: [(root / "dev/dri/renderD128").stat().st_gid])
    result = climbed(Bench(card), "node")["node"]
    assert result.causes[0]["id"] == "device-cgroup"


def test_a_bundle_has_it_all(tmp_path):
    result = failed("store", lambda m: m.hang_next_job())
    document = report.document("emu:gfx1036", [result], {"kms_minor": 58})
    (tmp_path / "b.tar.gz").write_bytes(
        bundle.pack("emu:gfx1036", document, {"evidence/x.bin": b"\0\1"})
    )
    with tarfile.open(tmp_path / "b.tar.gz") as tar:
        names = set(tar.getnames())
        told = {n: tar.extractfile(n).read().decode() for n in names}
    assert told["bringup/evidence/x.bin"] == "\0\1"
    assert {"bringup/report.json", "bringup/info.json", "bringup/machine.json"} <= names
    assert "bringup/dumps/store.ibs.txt" in names
    assert json.loads(told["bringup/info.json"])["isa"] == "gfx1036"
    assert {"kernel", "package", "python"} <= set(json.loads(told["bringup/machine.json"]))
    assert "not yet on silicon" in told["bringup/README.txt"]


def test_info_of_every_family():
    from _bringup.ladder import device_facts

    told = device_facts.gather("emu:gfx1100")
    assert told["version"]["driver"] == "amdgpu"
    assert told["device"]["family"] == 145
    assert len(told["max_ibs"]) == 10
    assert not [v for v in told.values() if "not available" in str(v)]
    assert device_facts.gather("cpu")["uri"] == "cpu"
    assert "error" in device_facts.safely("amdgpu:77")
    text = "\n".join(device_facts.lines({"emu": told}))
    assert "0x744c" in text
    assert families.of("cpu").name == "api"
