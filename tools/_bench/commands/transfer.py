"""The transfer command: times transfers and prints a table of their rows. Below, it prints the
lines that were fitted to the times over the sizes.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from _console.problems import UsageError
from _console.progress import Progress

from _bench.jobs import axes
from _bench.jobs.axes import Point
from _bench.machine import headroom
from _bench.measure import devices, transfer
from _bench.rows import affine
from _bench.rows.results import Row

from . import options
from .runner import Session

if TYPE_CHECKING:
    import sparkle_drv as sp

TIMEOUT_S = 1.0
QUICK = {"precision": 0.05, "timeout_s": 0.2, "least": 10}


def add(sub: options.Subcommands) -> None:
    to = options.command(
        sub, "transfer", transfer_command, "the cost of moving bytes: latency, GB/s, a fit of both"
    )
    options.add_axes(to, "nbytes=4K..64M*4  memory=device,host  way=" + ",".join(transfer.WAYS))
    options.add_measuring(to, timeout_s=TIMEOUT_S, quick_s=QUICK["timeout_s"])
    options.add_resume(to)
    options.add_drawing(to)


def transfer_command(args: argparse.Namespace) -> int:
    points = _points(args.axes)
    args.timeout = args.timeout or (None if args.quick else TIMEOUT_S)
    session = options.session(args, quick=QUICK)
    return session.guarded(lambda: _measure(session, points), lambda: _fit(session))


def _measure(session: Session, points: Sequence[Point]) -> None:
    for uri, places in _planned(session, points):
        left = {at: point for at, point in places.items() if not session.ledger.is_done(at)}
        if not left:
            continue
        with devices.opened(uri) as device, Progress(len(left)) as progress:
            for place, point in left.items():
                progress.step(f"{uri} {axes.label(point)}")
                session.ledger.put(place, [transfer.run(device, point, session.settings)])
                session.outputs.so_far(session.report)


def _fit(session: Session) -> None:
    """Fits a straight line to the times of each kind of transfer over its sizes. Adds the lines to
    the results.
    """
    try:
        fits = fitted(session.report.rows, session.settings.seed)
    except UsageError as error:  # without scipy there is no fit, but the rows are valid
        print(f"# {error}")
        fits = []
    session.report.extra["fits"] = fits


def _points(specs: Sequence[str]) -> list[Point]:
    """Returns every combination of kind of transfer (write, read, ...), kind of memory and size.
    `specs` are the -a options, which limit the axes. Raises UsageError for an unknown axis.
    """
    given = axes.assignments(specs)
    known = [axis.name for axis in transfer.AXES]
    for name in given:
        if name not in known:
            raise UsageError(f"-a {name}: unknown axis; expected one of {', '.join(known)}")
    return axes.points(transfer.AXES, given)


def _planned(session: Session, points: Sequence[Point]) -> list[tuple[str, dict[int, Point]]]:
    """Opens all devices once, and reserves a place among the results for each transfer.

    Since all of this precedes the measurements, an error in the command line ends the command
    before the first one.
    """
    planned = []
    for uri in session.uris:
        with devices.opened(uri) as device:
            session.ledger.met(device.info)
            possible = _possible(device, points)
            subjects = [transfer.subject_of(point, device.info) for point in possible]
            places = [session.ledger.plan([subject]) for subject in subjects]
            planned.append((uri, dict(zip(places, possible, strict=True))))
    return planned


def _possible(device: sp.Device, points: Sequence[Point]) -> list[Point]:
    """Returns the transfers that the device can do.

    Prints one line for each kind of transfer and kind of memory that the device cannot do.
    """
    refused: dict[tuple[Any, Any], str | None] = {}
    for point in points:
        key = point["way"], point["memory"]
        if key not in refused:
            refused[key] = transfer.impossible(device, point)
            if refused[key]:
                print(f"# {device.info.uri}: no {key[0]} of {key[1]} memory: {refused[key]}")
        nbytes = transfer.room_nbytes(point, device.info)
        headroom.check(f"transfer {axes.label(point)}", *nbytes, device.info)
    return [point for point in points if not refused[point["way"], point["memory"]]]


def fitted(rows: Sequence[Row], seed: int) -> list[dict[str, Any]]:
    """Fits a line to the times of the verified rows over their sizes. Returns one fit for every
    device, kind of transfer and kind of memory that has at least two sizes.
    """
    groups: dict[tuple[str, str, str], dict[int, Sequence[float]]] = {}
    for row in rows:
        if row.verified and row.measured and not row.subject.emulated:
            where = row.subject.axes
            key = row.subject.device, row.extra["way"], str(where["memory"])
            groups.setdefault(key, {})[int(where["nbytes"])] = row.measured.samples
    fits = []
    for (device, way, memory), samples in groups.items():
        found = affine.fit(samples, seed)
        if found:
            fits.append({"device": device, "way": way, "memory": memory, **found.as_json()})
    return fits
