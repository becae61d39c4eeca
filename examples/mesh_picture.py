"""How fast devices reach one another: a table, and a picture of it.

    python examples/mesh_picture.py -d cpu,egl:0 --picture mesh.svg    or .png; needs matplotlib

Without --picture a table alone. `sparkle.py mesh --svg F` draws the same as a graph.
Exit codes: 0 well, 1 no picture could be made, 2 usage, 3 no such device.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

import sparkle_drv as sp

ENDINGS = (".svg", ".png")


def draw(places: list[str], rates: np.ndarray, path: Path) -> None:
    """A coloured square for each way, with its GB/s. ImportError, OSError."""
    import matplotlib

    matplotlib.use("Agg")  # to a file: no window
    import matplotlib.pyplot as plt

    side = 1.6 + 1.1 * len(places)
    figure, axes = plt.subplots(figsize=(side + 1, side), layout="constrained")
    shown = np.ma.masked_where(~(np.isfinite(rates) & (rates > 0)), rates)  # inf: no rate was seen
    picture = axes.imshow(shown, cmap="cividis")
    for (row, column), rate in np.ndenumerate(rates):
        if rate > 0:
            light = rate < 0.6 * shown.max()
            colour, said = "white" if light else "black", f"{rate:.3g}" if rate < np.inf else "?"
            axes.text(column, row, said, ha="center", va="center", color=colour)
    axes.set_xticks(range(len(places)), places, rotation=45, ha="right")
    axes.set_yticks(range(len(places)), places)
    axes.set_xlabel("to")
    axes.set_ylabel("from")
    axes.set_title("GB/s of one transfer alone")
    figure.colorbar(picture)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="exit codes: 0 well, 1 no picture, 2 usage, 3 no such device",
    )
    parser.add_argument("-d", "--device", default="all", help="URIs separated by commas, or all")
    parser.add_argument("--picture", type=Path, help="a file to draw to, .svg or .png")
    args = parser.parse_args()
    if args.picture and args.picture.suffix not in ENDINGS:
        parser.error(f"--picture: a name that ends in {' or '.join(ENDINGS)}, got {args.picture}")
    try:
        ctx = sp.init("all" if args.device == "all" else args.device.split(","))
    except (sp.DeviceNotFound, ValueError) as error:
        print(str(error).partition("\n")[0], file=sys.stderr)
        return 3
    with ctx, ctx.create_mesh([device.uri for device in ctx.devices]) as mesh:
        topology = mesh.topology
    print(topology)
    if args.picture:
        try:
            draw(list(topology.places), topology.adjacency(), args.picture)
        except (ImportError, OSError) as error:
            print(f"no picture: {error}", file=sys.stderr)
            return 1
        print(f"drawn to {args.picture}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
