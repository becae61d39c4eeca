"""Discovery over made-up /dev/dri folders: the reason for each node that cannot be used.

When this fails, a user whose card is not usable does not learn why.
"""

import os

import pytest

from sparkle_drv.amd.kmd import nodes
from sparkle_drv.backends.amdgpu.backend import AmdgpuBackend
from sparkle_drv.core import settings
from sparkle_drv.errors import DeviceNotFound


@pytest.fixture
def machine(tmp_path):
    """Makes render nodes, as files, with drivers in sysfs: machine(renderD128="amdgpu")."""

    def make(**drivers):
        for name, driver in drivers.items():
            (tmp_path / "dev/dri").mkdir(parents=True, exist_ok=True)
            (tmp_path / "dev/dri" / name).touch()
            device = tmp_path / "sys/class/drm" / name / "device"
            device.mkdir(parents=True)
            if driver:
                (tmp_path / "drivers" / driver).mkdir(parents=True, exist_ok=True)
                (device / "driver").symlink_to(tmp_path / "drivers" / driver)
        return AmdgpuBackend.discover(settings.read(), tmp_path)

    return make


def test_no_node(machine):
    (found,) = machine()
    assert (found.usable, found.reason) == (False, "no render node in /dev/dri")
    assert "amdgpu kernel module" in found.advice


def test_nodes_of_another_driver(machine):
    (found,) = machine(renderD128="i915", renderD129="nouveau")
    assert found.reason == "no render node is driven by amdgpu"
    assert [line.split(": ")[-1] for line in found.tried] == ["i915", "nouveau"]


def test_a_node_that_is_no_device(machine):
    (found,) = machine(renderD128="amdgpu")
    assert not found.usable
    assert "VERSION failed with ENOTTY" in found.reason


def test_nodes_are_in_the_order_of_their_numbers(machine, tmp_path):
    machine(renderD1000="i915", renderD128="amdgpu", renderD129="")
    assert [n.path.name for n in nodes.listed(tmp_path)] == [
        "renderD128", "renderD129", "renderD1000",
    ]  # fmt: skip
    assert [nodes.maybe_ours(n) for n in nodes.listed(tmp_path)] == [True, True, False]


def test_permission_denied_names_the_group(monkeypatch, tmp_path):
    path = tmp_path / "renderD128"
    path.touch(mode=0o660)
    monkeypatch.setattr(nodes, "lib", type("L", (), {"sp_amdgpu_open_node": lambda _: -13}))
    monkeypatch.setattr(os, "getgroups", lambda: [])
    with pytest.raises(DeviceNotFound, match=r"permission denied; it belongs to group .*usermod"):
        nodes.open_node(nodes.RenderNode(path, "amdgpu"))
