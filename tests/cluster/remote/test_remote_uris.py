"""Which URIs name devices of other machines, and where those machines are.

When this fails, a URI opens a device on the wrong machine.
"""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
import remote_kit
from where import ROOT

import sparkle_drv as sp
from sparkle_drv.cluster.remote import hosts
from sparkle_drv.cluster.remote.backend import RemoteBackend
from sparkle_drv.core import registry
from sparkle_drv.core.settings import read as settings


@pytest.mark.parametrize(
    ("uri", "parts"),
    [
        ("box1/cpu", ("box1/cpu", "")),
        ("box1/cuda:0", ("box1/cuda", "0")),
        ("Box-1.lan/nvidia:1", ("Box-1.lan/cuda", "1")),
        ("box1/emu:gfx1100:kms-3.42", ("box1/emu", "gfx1100:kms-3.42")),
        ("box1/cpu:c2-5/avx2", ("box1/cpu", "c2-5/avx2")),
        ("cpu:c2-5/avx2", ("cpu", "c2-5/avx2")),
        ("amd:0", ("amdgpu", "0")),
    ],
)
def test_a_slash_before_the_first_colon_names_a_host(uri, parts):
    assert registry.parse(uri) == parts


def test_spellings_have_the_host():
    assert registry.spellings("box1/nvidia") == ("box1/cuda:0", "box1/cuda")
    assert registry.spellings("box1/egl:1") == ("box1/egl:1",)


@pytest.mark.parametrize(
    "uri", ["/cpu", "-box/cpu", "bo x/cpu", "böx/cpu", "a" * 64 + "/cpu", "../cpu"]
)
def test_bad_host_names(uri):
    with pytest.raises(ValueError, match="expected a host name of letters"):
        sp.open(uri)


@pytest.mark.parametrize(
    "uri", ["box1/", "box1/CPU", "box1/cpu/avx2", "a/b/c", "box1:7447/cpu:0:0"]
)
def test_bad_devices_of_a_host(uri):
    with pytest.raises(ValueError, match="uri: expected"):
        sp.open(uri)


def test_the_entry_point_is_this_backend():
    """What core finds once the package is installed."""
    text = (ROOT / "pyproject.toml").read_text()
    group = text.partition(f'[project.entry-points."{registry.ENTRY_POINTS}"]')[2].partition("\n[")[
        0
    ]
    module, _, name = re.search(rf'^{registry.REMOTE} = "(.*)"$', group, re.M)[1].partition(":")
    assert getattr(sys.modules[module], name) is RemoteBackend


def test_without_the_entry_point_no_host_is_known(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(registry, "_load_plugins", lambda: None)
    with pytest.raises(sp.DeviceNotFound, match="there is no backend 'remote'"):
        sp.open("box1/cpu")


def test_nothing_is_connected_to_before_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(hosts, "connect", None)
    with remote_kit.hosted(tmp_path, None):
        assert RemoteBackend.discover(settings()) == ()
        assert not [found for found in sp.discover() if "/" in found.uri]
    with pytest.raises(sp.DeviceNotFound, match="expected a host and its device"):
        sp.open("remote:0")


def test_no_import_pays_for_it():
    code = (
        "import sparkle_drv as sp, sys; sp.open('cpu').close(); print([m for m in sys.modules "
        "if m.startswith(('sparkle_drv.cluster', 'zenoh', 'cryptography', 'msgpack'))])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def listed(home, text):
    folder = home / "cluster"
    folder.mkdir(exist_ok=True)
    (folder / "hosts.json").write_text(text if isinstance(text, str) else json.dumps(text))


def refused(home, monkeypatch):
    monkeypatch.setenv("SPARKLE_HOME", str(home))
    with pytest.raises(sp.DeviceNotFound) as raised:
        sp.open("box1/cpu")
    assert str(home / "cluster" / "hosts.json") in str(raised.value)
    return str(raised.value)


def test_no_hosts_json(tmp_path, monkeypatch):
    assert '{"box1": "tls/HOST:7447"}' in refused(tmp_path, monkeypatch)


def test_a_host_that_is_not_listed(tmp_path, monkeypatch):
    listed(tmp_path, {"box2": "tls/10.0.0.6:7447"})
    said = refused(tmp_path, monkeypatch)
    assert "lists box2" in said
    assert 'add "box1": "tls/HOST:7447"' in said


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", '{"box1": 5}', '{"box1": {"address": "tls/a:1"}}',
        '{"box1": "10.0.0.5:7447"}', '{"box1": "ftp/10.0.0.5:7447"}', b"\xff".decode("latin-1"),
    ],
)  # fmt: skip
def test_a_hosts_json_that_makes_no_sense(tmp_path, monkeypatch, text):
    listed(tmp_path, text)
    assert "expected" in refused(tmp_path, monkeypatch)


def test_what_a_device_of_a_node_says_of_itself(node, box):
    with sp.open("cpu:c0") as local:
        there, here = box.info, local.info
    assert (there.uri, there.name, there.backend) == ("box1/cpu:c0", here.name, here.backend)
    assert there.shares == tuple(f"box1/{name}" for name in here.shares)
    assert (there.unified, there.language, there.slot) == (False, "", "")
    assert box.provides("gemm_f32")


def test_devices_of_two_machines_are_no_peers(node, box):
    with sp.open("cpu") as local, sp.open("box1/cpu:c0") as other:
        assert not local.is_peer(box)
        assert not box.is_peer(local)
        assert box.is_peer(other)
        assert box.peer(other) == "staged"
        with box.array(np.frombuffer(b"abcd", np.uint8)) as a, other.buffer(4) as b:
            other.default_queue.copy_peer(b, a).wait()
            assert bytes(b.read("u1", 4)) == b"abcd"


def test_options_go_to_the_node(tmp_path):
    with remote_kit.remote(tmp_path, "cpu", "egl:0"):
        with sp.open("box1/cpu", threads=1) as device:
            assert device.info.compute_units == 1
        with pytest.raises(ValueError, match="threads: expected None"):
            sp.open("box1/egl:0", threads=1)
        with pytest.raises(sp.DeviceNotFound, match=r"box1/cpu:c1.*cpu, egl:0"):
            sp.open("box1/cpu:c1")
