"""The cost of a device of another machine, compared with plain Zenoh and a plain `ssl` socket.

    python benchmarks/cluster.py [--rounds 15] [--mib 64] [--asks 300] [--against CHECKOUT]
                                 [--json F]

The script needs root and iproute2, because it makes two network namespaces. It measures four
sides, which all use mutual TLS. In each round each side sends --asks requests of 100 bytes, one
after the other, and --mib MiB in chunks of 128 KiB. The order of the sides rotates. Each printed
ratio divides one median by another, and has a 95 % bootstrap interval.

* `ssl`: a socket of Python; `zenoh`: Zenoh alone, configured as ours; `engine`: our transport.
* `device`: the cpu device of a node. `ask` asks for its clock, `bulk` is an upload, `down` a
  download. `launch` is the client's time for a prepared launch. `hundred` is the time of 100 such
  launches and one wait, which is also given as a multiple of `ask`.
* `former`, with --against: `device` of another checkout with built extensions.

Exit codes: 0 well, 1 a side failed, 2 usage, 3 no namespaces here.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from _bench.rows import stats
from _cluster.certificates import Issuer
from _cluster.namespaces import Machine, Network, lacking

from sparkle_drv.cluster.transport import access
from sparkle_drv.cluster.trust import authority, files

HERE = Path(__file__).resolve().parent
SIDES = ("ssl", "zenoh", "engine", "device")
FIGURES = (("ask", "us"), ("bulk", "MB/s"))
OF_DEVICES = (("down", "MB/s"), ("launch", "us"), ("hundred", "us"))
RATIOS = (("engine", "zenoh"), ("device", "zenoh"), ("device", "ssl"), ("zenoh", "ssl"))
FORMER = "former"
HUNDREDS = 20  # how often a round measures `hundred`: the time of 100 launches and one wait


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="exit codes: 0 well, 1 a side failed, 2 usage, 3 no namespaces here",
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--mib", type=int, default=64, help="bulk per round, in MiB")
    parser.add_argument("--asks", type=int, default=300, help="requests per round")
    parser.add_argument(
        "--against", type=Path, metavar="CHECKOUT", help="also measure the device of that checkout"
    )
    parser.add_argument("--json", type=Path, help="also write all samples to this file")
    args = parser.parse_args()
    if min(args.rounds, args.mib, args.asks) < 1:
        parser.error("--rounds, --mib, --asks: expected 1 or more")
    why = lacking()
    if why:
        print(why, file=sys.stderr)
        return 3
    try:
        found = measure(args.rounds, args.mib, args.asks, args.against)
    except AssertionError as error:
        print(error, file=sys.stderr)
        return 1
    report(found)
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


Found = dict[str, dict[str, list[float]]]


def measure(rounds: int, mib: int, asks: int, against: Path | None) -> Found:
    """Returns {figure: {side: one sample per round}}. The sides are those of SIDES, and FORMER if
    `against` names another checkout.
    """
    network, machines = Network("a", "b"), []
    devices = ("device", FORMER) if against else ("device",)
    sides = (*SIDES, *devices[1:])
    found: Found = {figure: {side: [] for side in sides} for figure, _ in FIGURES}
    found |= {figure: {side: [] for side in devices} for figure, _ in OF_DEVICES}
    numbers = {"ask": asks, "bulk": mib, "down": mib, "launch": asks, "hundred": HUNDREDS}
    with tempfile.TemporaryDirectory() as folder:
        try:
            issuer, clients = Issuer(), {}
            folders = {
                name: issuer.folder(Path(folder, name), common_name, (network.address(name),))
                for name, common_name in (("a", access.CLIENTS[0]), ("b", "node"))
            }
            homes = {
                side: {name: Path(folder, f"{side}-{name}") for name in network.names}
                for side in devices
            }
            for home in homes.values():
                certify(home, network.address("b"))
            for port, side in enumerate(sides, 7447):
                at = f"tls/{network.address('b')}:{port}"
                root = against.resolve() if against and side == FORMER else HERE.parent
                for name, role in (("b", "node"), ("a", "client")):
                    where = homes.get(side, folders)
                    words = "device" if side in devices else side, role, str(where[name]), at
                    program = root / "benchmarks/_cluster/endpoint.py"
                    machines.append(Machine(network, name, program, *words, root=root))
                    machines[-1].heard("up")
                clients[side] = machines[-1]
            for turn in range(rounds + 1):
                first = turn % len(sides)
                for side in sides[first:] + sides[:first]:
                    for figure, number in numbers.items():
                        if side not in found[figure]:
                            continue
                        heard = len(clients[side].lines)
                        clients[side].say(f"{figure} {number}")
                        value = answer(clients[side], figure, heard)
                        if turn:  # the first round warms up
                            found[figure][side].append(value)
        finally:
            for machine in machines:
                machine.close()
            network.close()
    return found


def certify(homes: dict[str, Path], address: str) -> None:
    """Makes certificates of the client `a` and the node `b`, as `sparkle certs` does."""
    ca = authority.init(str(homes["a"]))
    files.write(homes["a"] / "cluster", ca.issue("a", "client", ()))
    files.write(homes["b"] / "cluster", ca.issue("b", "node", (address,)))


def answer(machine: Machine, figure: str, heard: int) -> float:
    """Waits for the next line of the machine's process, which has printed `heard` lines before.
    Returns the number that follows `figure` in this line.
    """
    until = time.monotonic() + 90
    while time.monotonic() < until and machine.process.poll() is None:
        if len(machine.lines) > heard:
            return float(machine.lines[heard][1].removeprefix(figure))
        time.sleep(0.001)
    raise AssertionError(
        f"{machine.name}: expected a line with the figure {figure!r} within 90 s, got none; "
        f"the process {'runs' if machine.process.poll() is None else 'has ended'}"
    )


def report(found: Found) -> None:
    for figure, unit in FIGURES:
        samples = found[figure]
        for side in samples:
            print(f"{figure} {side}: {median(samples[side]):.1f} {unit}")
        for new, old in RATIOS:
            ratio = median(samples[new]) / median(samples[old])
            low, high = stats.ratio_interval(samples[old], samples[new])
            print(f"{figure} {new} / {old}: {ratio:.3f} [{low:.3f}, {high:.3f}]")
    for figure, sides in found.items():
        if FORMER in sides:
            ratio = median(sides["device"]) / median(sides[FORMER])
            low, high = stats.ratio_interval(sides[FORMER], sides["device"])
            print(f"{figure} device / {FORMER}: {ratio:.3f} [{low:.3f}, {high:.3f}]")
    for figure, unit in OF_DEVICES:
        print(f"{figure} device: {median(found[figure]['device']):.1f} {unit}")
    for figure, old, side in (("down", "bulk", "zenoh"), ("hundred", "ask", "device")):
        taken, base = found[figure]["device"], found[old][side]
        low, high = stats.ratio_interval(base, taken)
        print(
            f"{figure} device / {old} {side}: {median(taken) / median(base):.3f} "
            f"[{low:.3f}, {high:.3f}]"
        )


if __name__ == "__main__":
    sys.exit(main())
