"""Every device there is, what each can take at most, and why the others cannot be used.

    python examples/enumerate_devices.py            all of them
    python examples/enumerate_devices.py -d egl:0   one

Exit codes: 0 well, 2 usage, 3 the device of -d is not usable here (or none is).
"""

from __future__ import annotations

import argparse
import sys

import sparkle_drv as sp


def show_usable(info: sp.DeviceInfo) -> None:
    """The limits that a program has to keep to; all of them are fields of DeviceInfo."""
    print(f"{info.uri}: {info.name} ({info.kind}{', software' if info.software else ''})")
    print(f"    driver          {info.driver or '-'}")
    print(f"    memory          {info.memory_nbytes >> 20} MiB")
    # Unified: numpy arrays can stand for pointers. Elsewhere Device.array and Queue.write copy.
    print(f"    unified         {'yes' if info.unified else 'no'}")
    print(f"    threads a group {info.max_group_size} at most")
    print(f"    groups a launch {' x '.join(map(str, info.max_groups))} at most")
    print(f"    shared memory   {info.max_shared_nbytes >> 10} KiB a group")
    # Two devices with a name in common here slow each other down.
    print(f"    shares          {', '.join(info.shares) or 'nothing'}")


def show_unusable(found: sp.Found) -> None:
    """What was looked at, what it said, and what would help."""
    print(f"{found.uri}: not usable: {found.reason}")
    for line in found.tried:
        print(f"    tried           {line}")
    if found.advice:
        print(f"    to do           {found.advice}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="exit codes: 0 well, 2 usage, 3 no such device",
    )
    parser.add_argument("-d", "--device", help="show this one only, by its URI, such as egl:0")
    args = parser.parse_args()

    # discover() asks every backend, and drivers that have none yet. It raises nothing: what is
    # missing is part of the answer. sp.devices() is the short form, the usable ones, best first.
    usable = 0
    for found in sp.discover():
        if args.device not in (None, found.uri):
            continue
        if found.info is not None:
            usable += 1
            show_usable(found.info)
        else:
            show_unusable(found)
    if not usable:
        print(f"{args.device or 'any device'}: not usable on this machine", file=sys.stderr)
    return 0 if usable else 3


if __name__ == "__main__":
    sys.exit(main())
