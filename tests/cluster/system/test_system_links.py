"""A node on another machine of a namespace, and the link to it cut.

When this fails, a cut network cable leaves clients waiting.
"""

import json
import os
import subprocess
import time

import pytest
from namespaces import Network
from system_kit import ROOT, Node

pytestmark = [pytest.mark.long, pytest.mark.cluster]

CLIENT = """
import time
import sparkle_drv as sp
while True:
    try:
        device = sp.open("far/cpu")
    except sp.DeviceNotFound:
        time.sleep(0.1)
        continue
    print("open", flush=True)
    try:
        while True:
            device.default_queue.submit(sp.Commands()).wait(10)
            time.sleep(0.02)
    except sp.DeviceLost as error:
        print("lost", error, flush=True)
    device.close()
"""


@pytest.fixture
def network():
    made = Network("a", "n")
    yield made
    made.close()


def test_a_link_that_is_cut_and_comes_back(site, network):
    address = f"tls/{network.address('n')}:7447"
    home = site.machine("far", hosts=(network.address("n"),))
    (site.ca / "cluster" / "hosts.json").write_text(json.dumps({"far": address}))
    there = network.command("n")[:-1]
    with (
        Node(home, listen=address, prefix=there) as node,
        subprocess.Popen(
            network.command("a", "-c", CLIENT), stdout=subprocess.PIPE, text=True, cwd=ROOT,
            env={**os.environ, "SPARKLE_HOME": str(site.ca)},
        ) as client,
    ):  # fmt: skip
        try:
            assert client.stdout.readline() == "open\n"
            time.sleep(0.3)
            for _ in range(2):
                network.cut("n")
                began = time.monotonic()
                assert client.stdout.readline().startswith("lost far/cpu: ")
                assert time.monotonic() - began < 4
                node.line("alice: ends: ")
                network.heal("n")
                began = time.monotonic()
                assert client.stdout.readline() == "open\n"
                assert time.monotonic() - began < 5
                time.sleep(0.3)
        finally:
            client.kill()
