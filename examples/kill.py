"""A device is killed in the middle of a product that several devices share: the others do its part.

    python examples/kill.py                           three simulated devices, one is unplugged
    python examples/kill.py --what hang               it never ends what it began
    python examples/kill.py -d cpu,emu:gfx1100        an emulated card beside the CPU

The first simulated (sim:) or emulated (emu:) device is killed; real ones are spared.
Seconds of simulated devices are virtual, those of emulated ones say nothing about a card.
Exit codes: 0 well, 1 wrong product or death unnoticed, 2 usage, 3 no such device.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys

import numpy as np

import sparkle_drv as sp
from sparkle_drv.testing import emu, emulated_faults, sim
from sparkle_drv.testing.faults import Fault, Schedule
from sparkle_drv.testing.simulated import Rate, SimDevice, SimMachine

MACHINE = {"sim:fast": 40e6, "sim:middle": 20e6, "sim:slow": 10e6}
"""Simulated devices, and the operations of each in a second: so few that a call lasts seconds, as a
hang is told from work that is slow by heartbeats of half a second.
"""
JOB = 2
"""In which the device dies, counted from the beginning of a call."""
FAULTS = {
    "unplug": Fault("job", JOB, "unplug"),
    "hang": Fault("job", JOB, "hang", recovery="none"),
    "slow": Fault("job", JOB, "slow", factor=100, count=10**6),
}


def machine() -> SimMachine:
    """Devices with memory of their own, 20 us and 8 GB/s away from the host."""
    devices = {
        uri: SimDevice(uri, {"gemm_f32": Rate(1e-5, rate)}, (2e-5, 8e9))
        for uri, rate in MACHINE.items()
    }
    return SimMachine(devices, random.Random(1), seed=1)


def kill(device: sp.Device, what: str) -> None:
    """Let a device that is no real one die in its JOB-th job from now on."""
    if device.uri.startswith("sim:"):
        sim.apply(Schedule(0, [FAULTS[what]]), device)
        return
    there = emu.machine()
    chip, _, number = device.uri.removeprefix("emu:").partition("#")
    card = [at for at, name in enumerate(there.chips) if name == chip][int(number or 0)]
    # A kernel of an AMD card ends a job that hangs: the emulated one resets the card.
    fault = Fault("job", JOB, "hang", recovery="full") if what == "hang" else FAULTS[what]
    emulated_faults.apply(Schedule(0, [fault]), there, card)


def product(ctx: sp.Context, a: np.ndarray, b: np.ndarray) -> bool:
    """A product that every healthy device has a part in; tells who did what. False: it is wrong."""
    c = ctx.gemm(a, b, shards="each")
    print(ctx.explain_last_plan())
    want = a.astype(np.float64) @ b
    error = np.abs(c - want).max()
    if not error <= 1e-5 * a.shape[1] ** 0.5 * np.abs(want).max():
        print(f"the product is wrong: off by {error:.2g}", file=sys.stderr)
        return False
    print(f"right: off by {error:.1e}\n")
    return True


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="exit codes: 0 well, 1 wrong result or death unnoticed, 2 usage, 3 no such device",
    )
    parser.add_argument(
        "-d", "--devices", default=",".join(MACHINE), help="URIs separated by commas"
    )
    parser.add_argument("--what", choices=FAULTS, default="unplug", help="what happens to it")
    parser.add_argument("-n", type=int, default=512, help="rows and columns (default 512)")
    args = parser.parse_args()
    if args.n < 64:
        parser.error(f"-n: expected 64 or more, got {args.n}")
    logging.basicConfig(format="log: %(message)s", stream=sys.stdout)

    with sim.on(machine()):
        try:
            ctx = sp.init(args.devices.split(","), profile=False)
        except (sp.DeviceNotFound, ValueError) as error:
            print(str(error).partition("\n")[0], file=sys.stderr)
            return 3
        made = [one for one in ctx.devices if one.uri.startswith(("sim:", "emu:"))]
        if not made or len(ctx.devices) < 2:
            parser.error("-d: expected two devices or more, and a sim: or emu: one among them")
        if args.what == "slow" and made[0].uri.startswith("emu:"):
            parser.error("--what slow: expected a simulated device, got an emulated one: no clock")
        a, b = np.random.default_rng(1).standard_normal((2, args.n, args.n)).astype(np.float32)
        try:
            with ctx.create_mesh() as mesh:
                print("all devices are well")
                if not product(ctx, a, b):
                    return 1
                print(f"{made[0].uri}: {args.what}, in mid-run")
                kill(made[0], args.what)
                if not product(ctx, a, b):
                    return 1
                print("the call after it")
                if not product(ctx, a, b):
                    return 1
                health = mesh.health()
                for its in health.values():
                    print(its.explain())
                if health[made[0].uri].state.value == "healthy":
                    print(f"{made[0].uri}: nobody noticed", file=sys.stderr)
                    return 1
        finally:
            for device in made:
                if device.uri.startswith("sim:"):
                    sim.resume(device)
            ctx.close(5)
    return 0


if __name__ == "__main__":
    sys.exit(main())
