"""Processes that are killed or suspended, full disks, busy cores: told in time, nothing stays.

When this fails, a killed node or a full disk leaves clients waiting.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from system_kit import ROOT, Node

import sparkle_drv as sp

pytestmark = pytest.mark.cluster

CLIENT = """
import sys, time
import sparkle_drv as sp
device = sp.open("box1/cpu")
kept = [device.buffer(32 << 20) for _ in range(4)]
for buffer in kept:
    device.default_queue.submit(sp.Commands().fill(buffer, 1, 4)).wait()
print("holds", flush=True)
while True:
    device.default_queue.submit(sp.Commands().fill(kept[0], 1, 4))
    time.sleep(0.001)
"""


def lost_s(device, do):
    """Seconds from `do()` until work on the device ends with DeviceLost."""
    do()
    began = time.monotonic()
    while time.monotonic() < began + 10:
        try:
            device.default_queue.submit(sp.Commands()).wait(10)
        except sp.DeviceLost:
            break
        time.sleep(0.01)
    return time.monotonic() - began


def test_a_node_that_is_killed_or_suspended(site, box1):
    with Node(box1) as node, site.at(box1=node):
        with sp.open("box1/cpu") as device:
            assert lost_s(device, lambda: node.signal(signal.SIGSTOP)) < 4
        began = time.monotonic()
        node.signal(signal.SIGCONT)
        with sp.open("box1/cpu") as device:
            assert time.monotonic() - began < 5
            node.line("alice: ends: ")
            assert lost_s(device, node.kill) < 1


def test_a_client_that_is_killed_leaves_nothing(site, box1):
    with Node(box1) as node, site.at(box1=node), sp.open("box1/cpu") as other:
        before = node.nbytes()
        line = [sys.executable, "-c", CLIENT]
        with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, cwd=ROOT) as client:
            assert client.stdout.readline() == "holds\n"
            assert node.nbytes() - before > 100 << 20
            client.kill()
            began = time.monotonic()
            node.line("alice: ends: ")
            assert time.monotonic() - began < 4
        until = time.monotonic() + 2
        while node.nbytes() - before > 16 << 20:
            assert time.monotonic() < until, "its memory stays"
            time.sleep(0.02)
        other.default_queue.submit(sp.Commands()).wait()


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a disk of 64 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    line = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder]
    if os.geteuid() or subprocess.run(line, capture_output=True).returncode:
        pytest.skip("a small disk needs root")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(folder):
    with open(folder / "rest", "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def test_a_full_disk(site, small_disk):
    """A certificate that cannot be renewed is told of once; the node serves on."""
    site.certs(
        "node", "box6", "127.0.0.1", "--days", 12 / 86400, "--out", small_disk / "cluster"
    )  # fmt: skip
    fill(small_disk)
    with Node(small_disk) as node, site.at(box6=node), sp.open("box6/cpu") as device:
        node.line("No space left on device")
        x = np.arange(1 << 16, dtype=np.float32)
        with device.array(x) as there:
            time.sleep(1.5)
            assert (there.numpy() == x).all()
        assert sum("No space" in line for line in node.lines) == 1, node.lines


def saturated(site, box1, seconds):
    """Twice as many busy processes as cores: nobody is called lost."""
    busy = [sys.executable, "-c", "while True: pass"]
    with Node(box1) as node, site.at(box1=node), sp.open("box1/cpu") as device:
        load = [subprocess.Popen(busy) for _ in range(2 * os.cpu_count())]
        try:
            x = np.arange(1 << 18, dtype=np.float32)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                with device.array(x) as there:
                    assert (there.numpy() == x).all()
                time.sleep(0.2)
        finally:
            for process in load:
                process.kill()
                process.wait()
        assert [line for line in node.lines if ": ends" in line] == []


def test_nobody_is_lost_on_busy_cores(site, box1):
    saturated(site, box1, 5)  # more than the 3.5 s after which silence ends a session


@pytest.mark.long
def test_nobody_is_lost_on_busy_cores_for_a_minute(site, box1):
    saturated(site, box1, 60)
