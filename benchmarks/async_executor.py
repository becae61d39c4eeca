"""What submitting ahead saves: frames (input arrays) go to a device, through a kernel and back.

The first way of submitting waits for each step of a frame before the next (synchronous). The second
submits several frames at once (batched). The third uses a ring of three slots (triple-buffered).
The table has for each device the time of a frame and frames per second. It also has the overhead of
a kernel: a frame's time without the kernel's. Every way is verified against numpy first, then the
ways are timed in turns. `--fake` replaces NVIDIA's driver by the fake one (`make fake-cuda`). Its
times of copies and kernels are made up; the host's times are real.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
from _reexec import reexec  # noqa: E402

reexec()

import argparse  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
from _bench.machine import env  # noqa: E402
from _bench.report.writers import Outputs  # noqa: E402
from _bench.rows import results, stats  # noqa: E402
from _console import output, table  # noqa: E402
from _console.problems import FAILED, NO_DEVICE, OK, UsageError  # noqa: E402
from _overlap.executor import WAYS, Work, measure  # noqa: E402

import sparkle_drv as sp  # noqa: E402

FAKE = ROOT / "build/fake/libcuda.so.1"


def summary(
    seconds: dict[str, list[float]], alone: list[float], frames: int, seed: int
) -> list[dict[str, Any]]:
    """Returns a dict for each of WAYS (synchronous, batched, triple-buffered).

    A dict has the median seconds of a frame (an input array and its result) and the median
    overhead: a frame's time beyond that of the kernel. The dict also has the ratio of this overhead
    to that of the synchronous way. From six rounds on, the ratio has a 95 % bootstrap interval.
    """
    kernel_s = float(np.median(alone))
    over = {way: [max(0.0, s / frames - kernel_s) for s in seconds[way]] for way in WAYS}
    first = over[WAYS[0]]
    rows = []
    for way in WAYS:
        enough = way != WAYS[0] and len(first) >= stats.FEWEST_FOR_INTERVAL
        low, high = stats.ratio_interval(first, over[way], seed) if enough else (None, None)
        rows.append(
            {
                "way": way,
                "frame_s": float(np.median(seconds[way])) / frames,
                "samples_s": seconds[way],
                "overhead_s": float(np.median(over[way])),
                "ratio": float(np.median(over[way]) / max(np.median(first), 1e-12)),
                "ratio_low": low,
                "ratio_high": high,
                "frames_a_s": frames / float(np.median(seconds[way])),
            }
        )
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    columns = ("", "a frame", "overhead of a kernel", "of synchronous", "95 % interval", "frames/s")
    lines = [
        [
            row["way"],
            table.duration(row["frame_s"] * 1e9),
            table.duration(row["overhead_s"] * 1e9),
            f"1/{1 / row['ratio']:.1f}" if row["ratio"] else "0",
            f"1/{1 / row['ratio_high']:.1f} .. 1/{1 / max(row['ratio_low'], 1e-12):.1f}"
            if row["ratio_high"]
            else "-",
            f"{row['frames_a_s']:.0f}",
        ]
        for row in rows
    ]
    table.show(columns, lines)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n\n")[0],
        epilog="exit codes: 0 well, 1 a wrong result or more overhead than --at-most, 2 usage, "
        "3 no such device",
    )
    made.add_argument(
        "-d", "--device", action="append", help="a URI, may be repeated (default: all usable ones)"
    )
    made.add_argument("--n", type=_whole, default=256, help="floats per frame (default 256)")
    made.add_argument("--frames", type=_whole, default=300, help="per run (default 300)")
    made.add_argument("--rounds", type=_whole, default=9, help="of each way (default 9)")
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--fake", action="store_true", help="the fake CUDA driver for cuda:0")
    made.add_argument(
        "--fake-times",
        default="time kernel 100;time h2d 20;time d2h 20",
        metavar="TEXT",
        help="commands for the fake, ';' between them (default: '%(default)s', each kernel takes "
        "100 us and the bus 20 GB/s; '': as quick as the host can)",
    )
    made.add_argument(
        "--at-most",
        type=float,
        metavar="X",
        help="exit with 1 unless triple buffering has at most X of the synchronous overhead",
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write everything measured")
    return made


def _whole(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 1 << 24:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to 2**24, got {text}")
    return value


def one_device(uri: str, args: argparse.Namespace) -> dict[str, Any]:
    """Measures one device and prints its table. Returns the device's part of --json."""
    with sp.open(uri) as dev, Work(dev, args.n, args.seed) as work:
        seconds, alone = measure(work, args.frames, args.rounds)
        name = dev.info.name
    rows = summary(seconds, alone, args.frames, args.seed)
    kernel_s = float(np.median(alone))
    print(
        f"# {uri} ({name}), load {env.describe()['load_1min']}: {args.rounds} rounds of "
        f"{args.frames} frames of {args.n} floats, the kernel alone takes "
        f"{table.duration(kernel_s * 1e9)}; every way verified"
    )
    show(rows)
    return {"device": uri, "device_name": name, "kernel_s": kernel_s, "ways": rows}


def main() -> int:
    options = parser()
    args = options.parse_args()
    if args.fake:
        if not FAKE.exists():
            options.error(f"--fake: {FAKE} is not there; make fake-cuda builds it")
        os.environ.update(SPARKLE_LIBCUDA=str(FAKE), FAKE_CUDA=args.fake_times)
    try:
        Outputs(args.json).check()
        uris = args.device or (["cuda:0"] if args.fake else [info.uri for info in sp.devices()])
        measured = [one_device(uri, args) for uri in uris]
    except UsageError as error:
        options.error(str(error))
    except sp.DeviceNotFound as error:
        print(f"async_executor.py: {error}", file=sys.stderr)
        return NO_DEVICE
    except (sp.SparkleError, ValueError) as error:
        print(f"async_executor.py: {error}", file=sys.stderr)
        return FAILED
    if args.json:
        document = {"env": env.describe(), "n": args.n, "frames": args.frames, "fake": args.fake}
        document |= {"fake_times": args.fake_times, "devices": measured}
        text = json.dumps(results.finite(document)) + "\n"
        if not output.save("async_executor.py", args.json, text):
            return FAILED
    worst = max(one["ways"][-1]["ratio"] for one in measured)
    if args.at_most is not None and worst > args.at_most:
        print(f"async_executor.py: {worst:.3f} of the synchronous overhead", file=sys.stderr)
        return FAILED
    return OK


if __name__ == "__main__":
    sys.exit(output.guarded("async_executor.py", main))
